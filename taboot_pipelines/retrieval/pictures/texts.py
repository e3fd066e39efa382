"""How wide texts are before anything draws them, and texts cut to the room that they have."""

from __future__ import annotations

import unicodedata

#: Widths in ems of the widest font that a system may have for its pages, by kind of character.
_NARROW = frozenset("fijlrtI.,:;'|!/\\()[]{}-` ")
_WIDE = frozenset("mwMW@%—…")


def printable(text: str) -> str:
    """A text in one line of what can be shown; what cannot (control characters, halves of pairs), and what
    turns the direction of text, is a replacement character.
    """
    flat = " ".join(text.split())
    return flat if flat.isprintable() else "".join(c if c.isprintable() else "�" for c in flat)


def width_of(text: str, em: float, fixed: bool = False) -> float:
    """Pixels that a text needs at most. ``em``: pixels of an em; ``fixed``: every character is as wide as
    ``em``, or twice.
    """
    return sum(_widths(text, em, fixed))


def cut(text: str, room: float, em: float, fixed: bool = False) -> str:
    """As much of a text as has room: its beginning and, where names differ, more of its end."""
    text = "".join(c if c.isprintable() else "�" for c in text)
    widths = _widths(text, em, fixed)
    if sum(widths) <= room:
        return text
    room -= em * (1.0 if fixed else _ems("…"))
    head, front = 0, 0.0
    while front + widths[head] <= room * 0.4:
        front += widths[head]
        head += 1
    tail, back = len(text), 0.0
    while back + widths[tail - 1] <= room - front:
        back += widths[tail - 1]
        tail -= 1
    return f"{text[:head]}…{text[tail:]}"


def _widths(text: str, em: float, fixed: bool) -> list[float]:
    return [em * ((2.0 if _is_double(c) else 1.0) if fixed else _ems(c)) for c in text]


def _is_double(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def _ems(character: str) -> float:
    """The width of a character in a proportional font."""
    if _is_double(character):
        return 1.3
    if character in _NARROW:
        return 0.42
    if character in _WIDE:
        return 1.02
    return 0.64 if character.islower() or character.isdigit() else 0.78
