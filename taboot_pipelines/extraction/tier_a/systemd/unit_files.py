"""Files of systemd's form: sections of settings, continued lines, and lists that an empty setting clears.

Reference: systemd.syntax(7), systemd.unit(5) (drop-ins, templates and specifiers).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.claims import Quote

_HEADER = re.compile(r"\[([^\[\]]*)\]")
_SETTING = re.compile(r"([^=]*?)[ \t]*=[ \t]*")
_WORD = re.compile(
    r"[^\s\"']*(?:\"[^\"]*(?:\"|$)|'[^']*(?:'|$)|[^\s\"'])[^\s\"']*(?:\"[^\"]*\"|'[^']*'|[^\s\"']+)*"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment. ``pieces``: the value's lines, each without what continues it."""

    section: str
    key: str
    pieces: tuple[Quote, ...]

    @property
    def value(self) -> Quote:
        """The whole value, its lines joined by a blank each, as systemd joins them."""
        first, last = self.pieces[0], self.pieces[-1]
        text = " ".join(piece.text for piece in self.pieces).strip()
        return Quote(text, first.path, first.start, last.end)

    def words(self) -> Iterator[Quote]:
        """What stands between blanks; no word lies on two lines."""
        for piece in self.pieces:
            for match in re.finditer(r"\S+", piece.text):
                yield Quote(match[0], piece.path, piece.start + match.start(), piece.start + match.end())

    def items(self) -> Iterator[Quote]:
        """What stands between blanks that are not within quotes, without the quotes: the assignments of an
        `Environment=`."""
        for piece in self.pieces:
            for match in _WORD.finditer(piece.text):
                said = match[0]
                yield Quote(
                    _unquoted(said), piece.path, piece.start + match.start(), piece.start + match.end()
                )


def _unquoted(word: str) -> str:
    return word.replace('"', "").replace("'", "")


class UnitFile:
    """The settings of a unit from its file and its drop-ins, in the order in which they take effect."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        self._settings = list(settings)
        self.sections = frozenset(setting.section for setting in self._settings)

    def all(self, section: str, *keys: str) -> list[Setting]:
        """What settings that are lists hold in the end: one without a value clears what came before it."""
        found: list[Setting] = []
        for setting in self._settings:
            if setting.section == section and setting.key in keys:
                if setting.value.text:
                    found.append(setting)
                else:
                    found = [one for one in found if one.key != setting.key]
        return found

    def last(self, section: str, key: str) -> Quote | None:
        """What a setting that holds one value is set to in the end; None if to nothing."""
        for setting in reversed(self._settings):
            if setting.section == section and setting.key == key:
                return setting.value if setting.value.text else None
        return None


def parse(path: str, text: str) -> tuple[list[Setting], list[Quote]]:
    """The settings of a file in their order, and the headers of its sections; anything else is passed over,
    as systemd does."""
    settings: list[Setting] = []
    headers: list[Quote] = []
    section = ""
    pieces: list[Quote] = []
    at = 1 if text.startswith("\ufeff") else 0
    key = ""
    lines = text[at:].split("\n")
    for number, line in enumerate(lines):
        start, at = at, at + len(line) + 1
        bare = line.strip()
        if bare[:1] in ("#", ";"):
            # Within a continued value too, which goes on behind it.
            if number + 1 < len(lines) or not pieces:
                continue
            bare = ""
        begin = start + len(line) - len(line.lstrip())
        if not pieces:
            header = _HEADER.fullmatch(bare)
            if header is not None:
                section = header[1]
                headers.append(Quote(bare, path, begin, begin + len(bare)))
                continue
            setting = _SETTING.match(bare)
            if setting is None or not section:
                continue
            key = setting[1]
            begin += setting.end()
            bare = bare[setting.end() :]
        continued = bare.endswith("\\")
        piece = bare[:-1].rstrip() if continued else bare
        pieces.append(Quote(piece, path, begin, begin + len(piece)))
        if not continued or number + 1 == len(lines):
            settings.append(Setting(section, key, tuple(p for p in pieces if p.text) or (pieces[0],)))
            pieces = []
    if pieces:
        settings.append(Setting(section, key, tuple(p for p in pieces if p.text) or (pieces[0],)))
    return settings, headers
