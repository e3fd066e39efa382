"""Which source types there are: those of this project, and those that installed packages add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import is_source_type
from taboot_pipelines.plugins import Plugins
from taboot_pipelines.sources.builtin import BUILT_IN
from taboot_pipelines.sources.kind import SourceKind, Stance

if TYPE_CHECKING:
    from taboot_pipelines.connectors.access import Access
    from taboot_pipelines.connectors.entries import SourceEntry
    from taboot_pipelines.connectors.protocol import Connector
    from taboot_pipelines.documents.forms import Form

#: The types of this project, by name.
SOURCE_KINDS: Mapping[str, SourceKind[Any]] = {kind.name: kind for kind in BUILT_IN}


def _check(name: str, found: object) -> SourceKind[Any]:
    """A class derived from :class:`SourceKind`, or an object of one, whose parts fit together."""
    kind = found() if isinstance(found, type) else found
    if not isinstance(kind, SourceKind):
        raise ValueError("it is no taboot_pipelines.sources.SourceKind")
    if kind.name != name or not is_source_type(name):
        raise ValueError(f"its name must be {name}, of lower case letters, digits and `_`")
    if name in SOURCE_KINDS:
        raise ValueError("this project has a type of that name itself")
    if not isinstance(kind.stance, Stance):
        raise ValueError("its stance is no taboot_pipelines.sources.Stance")
    if get_args(kind.entry.model_fields["type"].annotation) != (name,):
        raise ValueError(f'the field `type` of its entries must be Literal["{name}"]')
    from taboot_pipelines.documents.mime import RESOURCE

    for mime in kind.forms:
        if not mime.startswith(RESOURCE):
            raise ValueError(f"its form of {mime} must be of a media type that begins with {RESOURCE}")
    return kind


PLUGINS = Plugins("taboot_pipelines.sources", "source type", _check)


def type_names() -> list[str]:
    """The types that entries may have: those of this project, then those of packages. Imports none."""
    return [*SOURCE_KINDS, *(name for name in PLUGINS.names if name not in SOURCE_KINDS)]


def source_kinds() -> dict[str, SourceKind[Any]]:
    """Every kind that can be used, by its type."""
    return {
        **SOURCE_KINDS,
        **{name: found for name, found in PLUGINS.each() if not isinstance(found, TabootError)},
    }


def source_kind(type_: str) -> SourceKind[Any]:
    """The kind of a type. One that no package gives, or whose package cannot be used, has a kind all the
    same: its documents are there, and only what would need the package raises ``E_PLUGIN``.
    """
    try:
        return SOURCE_KINDS.get(type_) or PLUGINS.get(type_)
    except TabootError as error:
        return _Unavailable(type_, error)


def stance_of(type_: str, mime: str = "") -> Stance:
    """What documents of a type, and of a media type, are to the house."""
    return source_kind(type_).stance_of(mime)


def open_connector(entry: SourceEntry, access: Access) -> Connector:
    """Open the connector of ``entry``. No I/O happens before its ``events`` are iterated.

    Raises ``E_PLUGIN`` for an entry whose type has no connector.
    """
    if entry.interprets:
        from taboot_pipelines.extraction.tier_a.formats import config_globs

        access = replace(access, config_globs=config_globs())
    return source_kind(entry.type).connect(entry, access)


@cache
def document_forms() -> Mapping[str, Form]:
    """What renders documents that are not text as they are stored, by media type: formats that any source may
    hold, then those of the kinds."""
    from taboot_pipelines.documents.forms import FORMS

    return {**FORMS, **{mime: form for kind in source_kinds().values() for mime, form in kind.forms.items()}}


class _Unavailable(SourceKind[Any]):
    """The kind of a type whose package is not there, or cannot be used."""

    stance = Stance.DOCUMENTS

    def __init__(self, type_: str, error: TabootError) -> None:
        self.name = type_  # type: ignore[misc]  # of this object alone: there is one class for all
        self._error = error

    @property
    def entry(self) -> type[SourceEntry]:
        from taboot_pipelines.connectors.entries import UnavailableSource

        return UnavailableSource

    def connect(self, entry: SourceEntry, access: Access) -> Connector:
        raise self._error
