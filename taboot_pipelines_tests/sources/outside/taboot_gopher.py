"""A package outside the project: a source type (menus of Gopher) and a format of configuration.

Tests install it with metadata of its own; the walks of ``docs/extending.md`` lead to something like it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from pydantic import Field

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import SourceEntry
from taboot_pipelines.connectors.protocol import Connector
from taboot_pipelines.documents.forms import Form, Formed, Given
from taboot_pipelines.documents.forms.writing import JsonWriter
from taboot_pipelines.documents.metadata import Facts
from taboot_pipelines.extraction.tier_a.recognition import Format, ending
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.json_text import parse
from taboot_pipelines.model.records import (
    EdgeClaim,
    Enumerated,
    Event,
    Evidence,
    Fetched,
    FileView,
    Interpretation,
    Known,
    NodeClaim,
    NodeRef,
    SourceFacts,
)
from taboot_pipelines.sources import SourceKind, Stance

MENU = "application/vnd.taboot.gopher-menu+json"


class GopherSource(SourceEntry):
    """Menus of a Gopher server (RFC 1436)."""

    type: Literal["gopher"]
    menus: dict[str, str] = Field(description="What each menu says, by its selector.")


class Reader:
    def __init__(self, entry: GopherSource, access: Access) -> None:
        self._menus = entry.menus

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        for selector, said in sorted(self._menus.items()):
            if not tombstoned(selector):
                yield Fetched(selector, json.dumps({"menu": selector, "said": said}).encode(), mime=MENU)
        yield Enumerated(True)


def menu(data: bytes, given: Given) -> Formed:
    source = data.decode()
    value = parse(source)
    writer = JsonWriter(source, given.max_chars)
    for name, before in (("menu", "# "), ("said", "\n\n")):
        if (text := value.at(name)) is not None:
            writer.put(before)
            writer.string(text)
    return Formed(writer.text, writer.offsets(), Facts(title=value.string("menu")))


class Gopher(SourceKind[GopherSource]):
    name = "gopher"
    stance = Stance.DISCUSSES
    parsing = "1"

    @property
    def entry(self) -> type[GopherSource]:
        return GopherSource

    def connect(self, entry: GopherSource, access: Access) -> Connector:
        return Reader(entry, access)

    @property
    def forms(self) -> Mapping[str, Form]:
        return {MENU: menu}


class WiresReader:
    """``frontend -> backend``, a line each: one service depends on the other."""

    name = "wires"
    version = "1"
    _LINE = re.compile(r"^([a-z]+) -> ([a-z]+)$", re.MULTILINE)

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        nodes, edges = [], []
        for line in self._LINE.finditer(view.read(path) or ""):
            at = Evidence(path, line.start(), line.end())
            one, other = (NodeRef("Service", (source.source_id, name), name) for name in line.groups())
            nodes += [NodeClaim(node, at, declared=True) for node in (one, other)]
            edges.append(EdgeClaim("DEPENDS_ON", one, other, at, "wires", Basis.BYTES, Basis.BYTES))
        return Interpretation(tuple(nodes), tuple(edges))


WIRES = Format("wires", (WiresReader(),), by_path=lambda path: ending(path) == "wires", globs=("*.wires",))
