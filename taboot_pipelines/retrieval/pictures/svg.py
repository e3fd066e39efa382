"""A picture as SVG: no script, no style sheet, nothing from elsewhere, and whatever documents say is text.

Presentation attributes only, since what cleans notebooks for strangers (GitHub, nbconvert) takes styles away.
All words stand on grounds of their own, so it reads the same on a light page and on a dark one.
"""

from __future__ import annotations

from html import escape

from taboot_pipelines.retrieval.pictures.layout import (
    BOX_HEIGHT,
    CHIP_HEIGHT,
    CHIP_SIZE,
    KIND_SIZE,
    NAME_SIZE,
    TAG_HEIGHT,
    TAG_SIZE,
    Box,
    Chip,
    Group,
    Layout,
    Tag,
    Wire,
    cut,
    printable,
    width_of,
)

#: Of words that lie on lines; 12:1 between them.
PAPER, INK = "#d9dee4", "#14181c"
#: At least 3:1 on white and on black.
LINE = "#7f8a96"
START = "#f2c14e"
FONT = "sans-serif"
#: Pixels of a page that is not wide, and the least that a picture is shrunk to.
_PAGE, _LEAST = 880, 0.6


def svg(layout: Layout, title: str) -> str:
    """The picture; ``title``: what it shows, for those who do not see it."""
    width, height = round(layout.width), round(layout.height)
    # A page may not shrink it; words that would be too small are reached by scrolling.
    fit = min(1.0, max(_LEAST, _PAGE / width))
    parts = [f"<title>{escape(title)}</title>", *map(_group, layout.groups)]
    for wire in layout.wires:
        told = "" if wire.tag else _told(wire)
        parts.append(
            f"<g>{told}<path d='{wire.path}' fill='none' stroke='{LINE}' stroke-width='1.4'/>"
            f"<path d='{wire.tip}' fill='{LINE}'/></g>"
        )
    parts += [_leading(wire.page, _told(wire) + _tag(wire.tag)) for wire in layout.wires if wire.tag]
    parts += [_box(b) for b in layout.boxes]
    parts += [_chip(c) for c in layout.legend]
    if layout.note:
        wide = width_of(layout.note, TAG_SIZE) + 16
        parts.append(_tag(Tag(12 + wide / 2, layout.height - 12 - TAG_HEIGHT / 2, wide, layout.note)))
    # What holds links is no picture to a screen reader, or they could not be reached.
    role = "group" if any([b.page for b in layout.boxes] + [w.page for w in layout.wires]) else "img"
    size = f"width='{width * fit:.0f}' height='{height * fit:.0f}'"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' {size}"
        f" font-family='{FONT}' text-anchor='middle' role='{role}'>{''.join(parts)}</svg>"
    )


def _leading(page: str, drawn: str) -> str:
    """What is drawn, as a link where it leads to a page."""
    return f"<a href='{escape(page)}'>{drawn}</a>" if page else f"<g>{drawn}</g>"


def _told(wire: Wire) -> str:
    told = "\n".join(f"{name}: {value}" for name, value in wire.told)
    return f"<title>{escape(told)}</title>"


def _tag(tag: Tag) -> str:
    return (
        f"<rect x='{tag.x - tag.width / 2:.1f}' y='{tag.y - TAG_HEIGHT / 2:.1f}' width='{tag.width:.1f}'"
        f" height='{TAG_HEIGHT}' rx='4' fill='{PAPER}'/>"
        f"<text x='{tag.x:.1f}' y='{tag.y + 3.7:.1f}' font-size='{TAG_SIZE}' fill='{INK}'>"
        f"{escape(tag.text)}</text>"
    )


def _box(box: Box) -> str:
    border = f" stroke='{START}' stroke-width='3'" if box.start else ""
    return _leading(
        box.page,
        f"<title>{escape(box.title)}</title><rect x='{box.x - box.width / 2:.1f}'"
        f" y='{box.y - BOX_HEIGHT / 2:.1f}' width='{box.width:.1f}' height='{BOX_HEIGHT}' rx='6'"
        f" fill='{box.colour}'{border}/>"
        f"<text x='{box.x:.1f}' y='{box.y - 2:.1f}' font-size='{NAME_SIZE}' font-weight='bold'"
        f" fill='#ffffff'>{escape(box.name)}</text>"
        f"<text x='{box.x:.1f}' y='{box.y + 11:.1f}' font-size='{KIND_SIZE}' fill='#ffffff'>"
        f"{escape(box.kind)}</text>",
    )


def _group(group: Group) -> str:
    name = cut(printable(group.title), group.width - 8, TAG_SIZE)
    title = Tag(group.x + group.width / 2, group.y + 16, width_of(name, TAG_SIZE) + 16, name)
    return (
        f"<rect x='{group.x:.1f}' y='{group.y:.1f}' width='{group.width:.1f}' height='{group.height:.1f}'"
        f" rx='8' fill='none' stroke='{LINE}'/>{_tag(title)}"
    )


def _chip(chip: Chip) -> str:
    return (
        f"<rect x='{chip.x - chip.width / 2:.1f}' y='{chip.y - CHIP_HEIGHT / 2:.1f}' width='{chip.width:.1f}'"
        f" height='{CHIP_HEIGHT}' rx='11' fill='{chip.colour}'/><text x='{chip.x:.1f}' y='{chip.y + 4:.1f}'"
        f" font-size='{CHIP_SIZE}' fill='#ffffff'>{escape(chip.text)}</text>"
    )
