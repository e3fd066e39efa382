"""The statements that are compared for drift, and what is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.knowledge.relations import UNREACHABLE
from taboot_pipelines.model.graph import EdgeSource
from taboot_pipelines.model.tables import rows_of

#: Relations that some rule reads.
_TYPES = (
    "BINDS",
    "BUILDS",
    "CONNECTS_TO",
    "DEPENDS_ON",
    "EXPOSES_ENDPOINT",
    "RESOLVES_TO",
    "ROUTES_TO",
    "RUNS_IN",
)
_COLUMNS = (
    "edge_id",
    "type",
    "start_label",
    "start_key",
    "start_name",
    "end_label",
    "end_key",
    "end_name",
    "properties",
    "doc_id",
    "source",
    "line",
    "supports",
    "start_observed",
)
#: What people and programs told the knowledge base, whatever document it was told of.
_BY_HAND = frozenset({EdgeSource.CORRECTION, EdgeSource.STRUCTURED})
_DECLARING = _BY_HAND | {EdgeSource.TIER_A}
_ASSERTING = frozenset({EdgeSource.TIER_B, EdgeSource.TIER_C})


class DriftKind(StrEnum):
    """What drifted, the surest first."""

    PORT_TWICE = "port_twice"
    ROUTE_PORT = "route_port"
    MISSING_UPSTREAM = "missing_upstream"
    UNREACHABLE_NAME = "unreachable_name"
    CONFIG_HOST_NAME = "config_host_name"
    NOT_RUNNING = "not_running"
    RUNNING_IMAGE = "running_image"
    RUNNING_PORT = "running_port"
    RUNNING_NETWORK = "running_network"
    RUNNING_MOUNT = "running_mount"
    RUNNING_RESTART = "running_restart"
    RUNNING_PROXY = "running_proxy"
    NOT_DECLARED = "not_declared"
    PROSE_PORT = "prose_port"
    PROSE_IMAGE = "prose_image"
    PROSE_ADDRESS = "prose_address"
    PROSE_VERSION = "prose_version"
    PROSE_HOST_NAME = "prose_host_name"
    PROSE_NETWORK = "prose_network"
    PROSE_SETTING = "prose_setting"


class Authority(StrEnum):
    """Whose word a document is. ``config``: it configures; ``house``: text that describes the house and is to
    be kept up; ``record``: text of a day, such as a mail, which nobody corrects; ``other``: text of a vendor,
    or of an example, which says nothing of the house."""

    CONFIG = "config"
    HOUSE = "house"
    RECORD = "record"
    RUNS = "runs"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document as the rules see it; ``folder``: where its file lies, the same for files that lie together,
    whatever sources they are of; empty where it is no file. ``name``: what a person calls it."""

    standing: Authority
    folder: str
    name: str


@dataclass(frozen=True, slots=True)
class Fact:
    """An edge; ``methods``: of all statements that support it; ``spans``: their code points."""

    edge_id: str
    type: str
    start_label: str
    start_key: str
    start_name: str
    end_label: str
    end_key: str
    end_name: str
    properties: dict[str, Any]
    doc_id: str
    line: int
    methods: frozenset[str]
    spans: tuple[tuple[int, int], ...]
    start_observed: str

    @property
    def place(self) -> tuple[str, int, str]:
        """Ascending in any list of facts; the order in which documents came does not matter."""
        return self.doc_id, self.line, self.edge_id

    def port(self, name: str = "port") -> int | None:
        value = self.properties.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class StatedSpan:
    """Where a statement stands: its line, and its code points ``[start, end)``. ``edge_id``: the edge that
    says it; empty for a value that the graph has no edge for."""

    doc_id: str
    line: int
    start: int
    end: int
    edge_id: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the statements that disagree: what it ``says``, and the edges or the places that say so, at
    least one."""

    says: str
    facts: tuple[Fact, ...] = ()
    stands: tuple[StatedSpan, ...] = ()

    @property
    def places(self) -> tuple[StatedSpan, ...]:
        """Where it stands; an edge that is supported in several places stands in each."""
        of_facts = (
            StatedSpan(f.doc_id, f.line, start, end, f.edge_id)
            for f in self.facts
            for start, end in f.spans or ((0, 0),)
        )
        return (*of_facts, *self.stands)


@dataclass(frozen=True, slots=True)
class Drift:
    """A disagreement about a node. ``sides``: what was said against what is configured comes first; where
    something is missing there is one side. ``record``: the first side is a text of a day (``Authority``).
    ``as_of``: when what runs was told, where that is the first side. ``supposed``: only so if a source
    that names no machine is of one (rule ``unnamed-machine``)."""

    kind: DriftKind
    label: str
    key: str
    name: str
    statement: str
    sides: tuple[Side, ...]
    record: bool = False
    as_of: datetime | None = None
    supposed: bool = False

    @property
    def order(self) -> tuple[Any, ...]:
        kinds = list(DriftKind)
        places = tuple((p.doc_id, p.line, p.edge_id) for s in self.sides for p in s.places)
        return self.record, self.supposed, kinds.index(self.kind), self.name, self.key, self.statement, places


#: The text of a document by its id; empty if it is not known.
Texts = Callable[[str], str]


def read_facts(
    edges: pa.Table, documents: Mapping[str, DocumentView]
) -> tuple[list[Fact], dict[Authority, list[Fact]]]:
    """What configuration states, and what running text asserts by its standing; both by document and line.

    ``edges``: ``knowledge.graph.OBSERVED_EDGES``. What text shows as an example of configuration is neither.
    """
    chosen = edges.filter(
        pc.or_(
            pc.is_in(edges.column("type"), value_set=pa.array(_TYPES)),
            pc.equal(edges.column("extraction_method"), UNREACHABLE),
        )
    )
    declared: list[Fact] = []
    asserted: dict[Authority, list[Fact]] = {Authority.HOUSE: [], Authority.RECORD: []}
    for source, fact in _facts(chosen):
        document = documents.get(fact.doc_id)
        standing = Authority.OTHER if document is None else document.standing
        if source in _BY_HAND or (standing is Authority.CONFIG and source in _DECLARING):
            declared.append(fact)
        elif standing in asserted and source in _ASSERTING:
            asserted[standing].append(fact)
    for facts in (declared, *asserted.values()):
        facts.sort(key=lambda f: f.place)
    return declared, asserted


def _facts(edges: pa.Table) -> Iterator[tuple[EdgeSource, Fact]]:
    for row in rows_of(edges, *_COLUMNS):
        values = dict(zip(_COLUMNS, row, strict=True))
        supports = json.loads(values.pop("supports"))
        source = EdgeSource(values.pop("source"))
        values["properties"] = json.loads(values["properties"])
        yield (
            source,
            Fact(
                **values,
                methods=frozenset(str(s.get("method")) for s in supports if "doc" not in s),
                spans=tuple(
                    (int(s["span"][0]), int(s["span"][1]))
                    for s in supports
                    # The ground of a statement stands in another document.
                    if len(s.get("span") or ()) == 2 and "doc" not in s
                ),
            ),
        )
