"""Names of units: which service a unit is, and where its drop-ins lie."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from taboot_pipelines.model.records import FileView

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


def drop_ins(path: str, view: FileView) -> tuple[str, ...]:
    """The drop-ins of the unit at ``path`` in the order in which they take effect: by the names of the files;
    of two with one name the one in the folder that says more of the unit counts."""
    folder, base = posixpath.split(path)
    found: dict[str, str] = {}
    for name in reversed(list(_drop_in_folders(base))):
        for drop_in in view.glob(posixpath.join(folder, _literal(name), "*.conf")):
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


def _literal(name: str) -> str:
    """A pattern that only ``name`` matches."""
    return re.sub(r"([*?\[])", r"[\1]", name)
