"""A picture as a Vega specification, which JupyterLab, Notebook 7 and other front ends draw with a Vega of
their own: to move and zoom, with what is told of a relation under the pointer, and a node's or a label's
relations alone at a click.

It is data and Vega's own expressions, none of which has anything from a document in it.
"""

from __future__ import annotations

from typing import Any

from taboot_pipelines.retrieval.pictures.layout import (
    BOX_HEIGHT,
    CHIP_HEIGHT,
    CHIP_SIZE,
    KIND_SIZE,
    NAME_SIZE,
    TAG_HEIGHT,
    TAG_SIZE,
    Layout,
    width_of,
)
from taboot_pipelines.retrieval.pictures.svg import FONT, INK, LINE, PAPER, START

MIME = "application/vnd.vega.v5+json"
#: How the front end shows it: without a menu whose entries lead to other sites, and as SVG, whose text can be
#: found and selected.
EMBED_OPTIONS = {"actions": False, "renderer": "svg"}

#: Pixels of a window that are not a cell's, and of the widest cell; the least that a picture is shrunk to.
_BARS, _PAGE = 480, 980
_LEAST = 0.6

Spec = dict[str, Any]

#: Whether a mark belongs to what is picked out: a node under the pointer with what it is related to, or else
#: the node or the label that was clicked.
_NODE_SHOWN = (
    "(!shown || datum.id === shown || indexof(datum.near, shown) >= 0)"
    " && (!label || datum.label === label || indexof(datum.labels, label) >= 0)"
)
_WIRE_SHOWN = (
    "(!shown || datum.start === shown || datum.end === shown)"
    " && (!label || datum.startLabel === label || datum.endLabel === label)"
)


def vega(layout: Layout, title: str) -> Spec:
    """The specification; ``title``: what it shows, for those who do not see it."""
    width, height = round(layout.width), round(layout.height)
    ids = {box.at: n + 1 for n, box in enumerate(layout.boxes)}
    near: dict[int, set[int]] = {n: set() for n in ids.values()}
    labels = {n: at[0] for at, n in ids.items()}
    for wire in layout.wires:
        near[ids[wire.start]].add(ids[wire.end])
        near[ids[wire.end]].add(ids[wire.start])
    boxes = [
        {
            "id": ids[b.at],
            "label": b.at[0],
            "x": round(b.x, 1),
            "y": round(b.y, 1),
            "w": round(b.width, 1),
            "colour": b.colour,
            "name": b.name,
            "kind": b.kind,
            "is": b.title,
            "start": b.start,
            "near": sorted(near[ids[b.at]]),
            "labels": sorted({labels[n] for n in near[ids[b.at]]}),
        }
        for b in layout.boxes
    ]
    wires = [
        {
            "start": ids[w.start],
            "end": ids[w.end],
            "startLabel": w.start[0],
            "endLabel": w.end[0],
            "path": w.path,
            "tip": w.tip,
            "told": _told(w.told),
            **({"x": round(w.tag.x, 1), "y": round(w.tag.y, 1), "w": round(w.tag.width, 1)} if w.tag else {}),
            "text": w.tag.text if w.tag else "",
        }
        for w in layout.wires
    ]
    chips = [
        {"label": c.label, "x": round(c.x, 1), "y": c.y, "w": round(c.width, 1), "colour": c.colour}
        | {"text": c.text}
        for c in layout.legend
    ]
    return {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "description": title,
        "background": "transparent",
        "padding": 0,
        "autosize": "none",
        "width": width,
        "height": height,
        "signals": _signals(width, height),
        "data": [
            {"name": "nodes", "values": boxes},
            {"name": "wires", "values": wires},
            {"name": "words", "source": "wires", "transform": [{"type": "filter", "expr": "datum.text"}]},
            {"name": "legend", "values": chips},
        ],
        "marks": [
            _path("wires", "path", {"stroke": {"value": LINE}, "strokeWidth": {"signal": "1.4 * k"}}),
            _path("wires", "tip", {"fill": {"value": LINE}}),
            _rect("words", TAG_HEIGHT, 4, {"value": PAPER}, _WIRE_SHOWN, "datum.told"),
            _text("words", "datum.text", TAG_SIZE, 0, INK, _WIRE_SHOWN),
            _rect(
                "nodes", BOX_HEIGHT, 6, {"field": "colour"}, _NODE_SHOWN, "{'node': datum.is}", name="boxes"
            ),
            _text("nodes", "datum.name", NAME_SIZE, -6.5, "#ffffff", _NODE_SHOWN, bold=True),
            _text("nodes", "datum.kind", KIND_SIZE, 7.5, "#ffffff", _NODE_SHOWN),
            *_legend_marks(),
            *_note(layout),
        ],
    }


def _told(told: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """What is told of a relation as rows of a tooltip: names that come again are numbered."""
    rows: dict[str, str] = {}
    for name, value in told:
        own, n = name, 1
        while own in rows:
            n += 1
            own = f"{name} ({n})"
        rows[own] = value
    return rows


def _signals(width: int, height: int) -> list[Spec]:
    ground = "[pointerdown, window:pointerup]"
    return [
        # A picture is not told how wide its cell is: what a window leaves beside the bars of JupyterLab, and
        # no more than Notebook 7 has. Words that would be too small are reached by moving it.
        {"name": "room", "init": f"clamp(windowSize()[0] - {_BARS}, 320, {_PAGE})"},
        {"name": "fit", "init": f"clamp(room / {width}, {_LEAST}, 1)"},
        {"name": "width", "init": f"min({width} * fit, room)"},
        {"name": "height", "init": f"ceil({height} * fit)"},
        {
            "name": "k",
            "init": "fit",
            "on": [
                {
                    "events": {"type": "wheel", "consume": True, "filter": "event.ctrlKey || event.metaKey"},
                    "update": "clamp(k * pow(1.0015, -event.deltaY * pow(16, event.deltaMode)), 0.2, 4)",
                },
                {"events": "dblclick", "update": "fit"},
            ],
        },
        {
            "name": "held",
            "init": "[0, 0]",
            "on": [{"events": "pointerdown", "update": "[x() - tx, y() - ty]"}],
        },
        *(
            {
                "name": name,
                "init": "0",
                "on": [
                    {"events": f"{ground} > window:pointermove", "update": f"{axis}() - held[{at}]"},
                    {
                        "events": {"type": "wheel", "filter": "event.ctrlKey || event.metaKey"},
                        "update": f"{axis}() - ({axis}() - {name}) * clamp(k * pow(1.0015, -event.deltaY *"
                        f" pow(16, event.deltaMode)), 0.2, 4) / k",
                    },
                    {"events": "dblclick", "update": "0"},
                ],
            }
            for at, (name, axis) in enumerate((("tx", "x"), ("ty", "y")))
        ),
        {
            "name": "over",
            "value": 0,
            "on": [
                {"events": "@boxes:pointerover", "update": "datum.id"},
                {"events": "@boxes:pointerout", "update": "0"},
            ],
        },
        {
            "name": "kept",
            "value": 0,
            "on": [
                {"events": "@boxes:click", "update": "kept === datum.id ? 0 : datum.id"},
                {"events": "dblclick", "update": "0"},
            ],
        },
        {"name": "shown", "update": "over || kept"},
        {
            "name": "label",
            "value": "",
            "on": [
                {"events": "@chips:click", "update": "label === datum.label ? '' : datum.label"},
                {"events": "dblclick", "update": "''"},
            ],
        },
    ]


def _x(field: str = "datum.x") -> Spec:
    return {"signal": f"{field} * k + tx"}


def _y(down: float = 0) -> Spec:
    return {"signal": f"(datum.y + {down}) * k + ty"}


def _opacity(shown: str) -> Spec:
    return {"signal": f"{shown} ? 1 : 0.12"}


def _path(data: str, field: str, look: Spec) -> Spec:
    return {
        "type": "path",
        "from": {"data": data},
        "encode": {
            "enter": {"path": {"field": field}, "tooltip": {"signal": "datum.told"}},
            "update": {
                "x": {"signal": "tx"},
                "y": {"signal": "ty"},
                "scaleX": {"signal": "k"},
                "scaleY": {"signal": "k"},
                "opacity": _opacity(_WIRE_SHOWN),
                **look,
            },
        },
    }


def _rect(
    data: str, height: int, radius: int, fill: Spec, shown: str, tooltip: str, name: str | None = None
) -> Spec:
    mark: Spec = {
        "type": "rect",
        "from": {"data": data},
        "encode": {
            "enter": {"fill": fill, "tooltip": {"signal": tooltip}},
            "update": {
                "xc": _x(),
                "yc": _y(),
                "width": {"signal": "datum.w * k"},
                "height": {"signal": f"{height} * k"},
                "cornerRadius": {"signal": f"{radius} * k"},
                "opacity": _opacity(shown),
            },
        },
    }
    if name is not None:
        mark["name"] = name
        mark["encode"]["enter"]["cursor"] = {"value": "pointer"}
        mark["encode"]["enter"]["stroke"] = {"value": START}
        mark["encode"]["update"]["strokeWidth"] = {"signal": "datum.start || kept === datum.id ? 3 * k : 0"}
    return mark


def _text(data: str, text: str, size: float, down: float, fill: str, shown: str, bold: bool = False) -> Spec:
    return {
        "type": "text",
        "from": {"data": data},
        "interactive": False,
        "encode": {
            "enter": {
                "text": {"signal": text},
                "align": {"value": "center"},
                "baseline": {"value": "middle"},
                "font": {"value": FONT},
                "fontWeight": {"value": "bold" if bold else "normal"},
                "fill": {"value": fill},
            },
            "update": {
                "x": _x(),
                "y": _y(down),
                "fontSize": {"signal": f"{size} * k"},
                "opacity": _opacity(shown),
            },
        },
    }


def _legend_marks() -> list[Spec]:
    shown = "!label || datum.label === label"
    chip = _rect(
        "legend", CHIP_HEIGHT, 11, {"field": "colour"}, shown, "'Click: only what has to do with it'"
    )
    chip["name"] = "chips"
    chip["encode"]["enter"]["cursor"] = {"value": "pointer"}
    return [chip, _text("legend", "datum.text", CHIP_SIZE, 0, "#ffffff", shown)]


def _note(layout: Layout) -> list[Spec]:
    if not layout.note:
        return []
    wide = width_of(layout.note, TAG_SIZE) + 16
    middle = layout.height - 12 - TAG_HEIGHT / 2
    return [
        {
            "type": "rect",
            "interactive": False,
            "encode": {
                "enter": {"fill": {"value": PAPER}},
                "update": {
                    "x": {"signal": "12 * k + tx"},
                    "yc": {"signal": f"{middle:.1f} * k + ty"},
                    "width": {"signal": f"{wide:.1f} * k"},
                    "height": {"signal": f"{TAG_HEIGHT} * k"},
                    "cornerRadius": {"signal": "4 * k"},
                },
            },
        },
        {
            "type": "text",
            "interactive": False,
            "encode": {
                "enter": {
                    "text": {"value": layout.note},
                    "baseline": {"value": "middle"},
                    "font": {"value": FONT},
                    "fill": {"value": INK},
                },
                "update": {
                    "x": {"signal": "20 * k + tx"},
                    "y": {"signal": f"{middle:.1f} * k + ty"},
                    "fontSize": {"signal": f"{TAG_SIZE} * k"},
                },
            },
        },
    ]
