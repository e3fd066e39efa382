"""Units of systemd: their names, their files, and one unit while it is read.

Files are sections of settings with continued lines, and lists that an empty setting clears. Reference:
systemd.syntax(7), systemd.unit(5) (drop-ins, templates and specifiers).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.texts import description
from taboot_pipelines.model.graph import SCHEMA_VERSION
from taboot_pipelines.model.records import FileView, NodeRef

#: Units of which something is said, and what Podman makes units of.
UNITS = frozenset({"service", "socket"})
QUADLETS = frozenset({"container", "pod", "network", "volume", "kube", "image", "build"})
_NAME = re.compile(r"(?P<stem>[^/@]+)(?:(?P<at>@)(?P<instance>[^/]*))?\.(?P<type>[a-z]+)")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class UnitName:
    """``stem[@[instance]].type``; ``instance`` is None for a unit that is no template, "" for a template."""

    stem: str
    instance: str | None
    type: str

    @property
    def written(self) -> str:
        """The name without its type."""
        return self.stem if self.instance is None else f"{self.stem}@{self.instance}"

    @property
    def service(self) -> str:
        """The name of the service that it is, of the characters that a name may have: ``wg-quick@wg0`` is
        ``wg-quick-wg0``, a template has the name before the ``@``."""
        text = f"{self.stem}-{self.instance}" if self.instance else self.stem
        return _NOT_IN_A_NAME.sub("-", text)[:_MAX_NAME]


def unit_name(name: str) -> UnitName | None:
    """The parts of a unit's name; None if it is none, or holds a specifier (``%i``), which only systemd can
    put in."""
    match = _NAME.fullmatch(name)
    if match is None or "%" in name or len(name) > _MAX_NAME:
        return None
    return UnitName(match["stem"], match["instance"] if match["at"] else None, match["type"])


def drop_in_unit(path: str) -> str | None:
    """The path of the unit that a drop-in (``x.service.d/y.conf``) is of; None for any other file."""
    folder, name = posixpath.split(path)
    if not name.endswith(".conf") or not folder.endswith(".d"):
        return None
    main = folder.removesuffix(".d")
    found = unit_name(posixpath.basename(main))
    return main if found is not None and found.type in UNITS | QUADLETS else None


@lru_cache(maxsize=4096)
def unit_of(path: str) -> UnitName | None:
    """The unit that a file of this path is, or a drop-in of; None for any other file."""
    name = unit_name(posixpath.basename(drop_in_unit(path) or path))
    return name if name is not None and name.type in UNITS | QUADLETS else None


def drop_ins(path: str, view: FileView) -> tuple[str, ...]:
    """The drop-ins of the unit at ``path`` in the order in which they take effect: by the names of the files;
    of two with one name the one in the folder that says more of the unit counts."""
    folder, base = posixpath.split(path)
    found: dict[str, str] = {}
    for name in reversed(list(_drop_in_folders(base))):
        for drop_in in view.glob(posixpath.join(folder, literal(name), "*.conf")):
            found[posixpath.basename(drop_in)] = drop_in
    return tuple(found[name] for name in sorted(found))


def _drop_in_folders(base: str) -> Iterator[str]:
    """The folders of a unit's drop-ins, the one that says most of it first."""
    name = unit_name(base)
    yield f"{base}.d"
    if name is None:
        return
    if name.instance:
        yield f"{name.stem}@.{name.type}.d"
    parts = name.stem.split("-")[:-1]
    for count in range(min(len(parts), 16), 0, -1):
        yield f"{'-'.join(parts[:count])}-.{name.type}.d"
    yield f"{name.type}.d"


def literal(name: str) -> str:
    """A pattern that only ``name`` matches."""
    return re.sub(r"([*?\[])", r"[\1]", name)


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


class Unit:
    """A unit with its drop-ins. ``service`` is what :meth:`declare` has made of it, None before."""

    def __init__(
        self,
        claims: ClaimBuilder,
        path: str,
        name: UnitName,
        file: UnitFile,
        headers: Sequence[Quote],
        view: FileView,
    ) -> None:
        self.claims = claims
        self.path = path
        self.name = name
        self.file = file
        self.headers = headers
        self.view = view
        #: A machine has one namespace of units.
        self.scope = f"{claims.place}/systemd"
        self.service: NodeRef | None = None
        self.service_name = ""
        #: Files that were read as environment.
        self.environment: list[str] = []
        self._marks: list[str] = []

    @property
    def header(self) -> Quote:
        """The section that a quadlet is known by, else the first."""
        own = f"[{self.name.type.capitalize()}]"
        quadlet = self.name.type not in UNITS
        return next((h for h in self.headers if quadlet and h.text == own), self.headers[0])

    @property
    def description(self) -> str | None:
        """What the unit says that it is; a specifier in it is put in by systemd alone."""
        said = self.file.last("Unit", "Description")
        return None if said is None or "%" in said.text else description(said.text)

    def reference(self, name: str) -> NodeRef:
        return NodeRef("Service", (self.scope, name), name)

    def declare(self, name: str, properties: Mapping[str, Any], aliases: Iterable[str]) -> None:
        """The service that the unit is; its names are ``name`` and ``aliases``."""
        self.service_name = name
        others = [*aliases, *([self.name.written] if self.name.instance else [])]
        self.service = self.claims.node(
            self.reference(name),
            self.header,
            {
                "schemaVersion": SCHEMA_VERSION,
                "description": self.description,
                **properties,
            },
            declared=True,
            aliases=[other for other in others if other and other != name],
        )

    def finish(self) -> None:
        """Note at the service what could not be resolved."""
        if self.service is not None and self._marks:
            self.claims.amend(self.service, unresolved=self._marks)

    def unresolved(self, setting: str, said: Quote) -> None:
        """Note that a setting holds a specifier or a variable, which is kept raw."""
        plain = len(said.text) < 100 and "=" not in said.text and "%%" not in said.text
        mark = f"{setting}: {said.text}" if plain else setting
        if mark not in self._marks:
            self._marks.append(mark)
        self.claims.problem(said, "E_UNRESOLVED", f"the value of {setting} holds what only systemd puts in.")
