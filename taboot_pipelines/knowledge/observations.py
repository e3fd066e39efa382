"""Rows of ``tables.OBSERVATIONS`` from the claims of a unit (rules ``versioned-runs`` and ``support``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import QuotedText, SourceSpan
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EDGES, Basis, EdgeSource, check_edge, check_node
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeClaim, NodeRef, Problem, Reach, Use
from taboot_pipelines.model.tables import OBSERVATIONS


class Observation(NamedTuple):
    """One row. The rows of a batch are sorted by the fields in this order."""

    bucket: int
    run_id: str
    doc_id: str
    unit_id: str
    kind: str
    type: str
    start_label: str
    start_key: str
    start_name: str
    end_label: str | None
    end_key: str | None
    end_name: str | None
    discriminator: str
    properties: str
    confidence: float
    source: str
    method: str
    start_basis: str | None
    end_basis: str | None
    declared: bool
    aliases: list[str]
    span_start: int
    span_end: int
    blob_sha256: str
    byte_start: int
    byte_end: int
    line: int


class RunRows:
    """The rows of one run, and the claims among those given that do not fit the model."""

    def __init__(
        self, run_id: str, unit_id: str, bucket: int, source: EdgeSource, documented: Mapping[str, str]
    ) -> None:
        """``documented``: {path: doc_id} of the source. A claim whose evidence stands in a file that is no
        document (an environment file) is left out."""
        self.rows: list[Observation] = []
        self.problems: list[Problem] = []
        self._run_id = run_id
        self._unit_id = unit_id
        self._bucket = bucket
        self._source = source
        self._documented = documented
        #: Of a large project most claims are about few nodes, and many stand at one place.
        self._keys: dict[tuple[str, tuple[Any, ...]], str] = {}
        self._places: dict[tuple[str, int, int], SourceSpan] = {}
        self._texts: dict[str, str] = {}

    def add_node(self, claim: NodeClaim, quoted: Mapping[str, QuotedText]) -> None:
        """Add the row of a claim about a node; ``quoted``: {path: text} of the unit's files."""
        doc_id = self._documented.get(claim.evidence.path)
        if doc_id is None:
            return
        node, properties = claim.node, _present(claim.properties)
        try:
            check_node(node.label, node.key, properties)
        except TabootError as error:
            self.problems.append(Problem(claim.evidence.path, error.code, error.message))
            return
        text = quoted[claim.evidence.path]
        place = self._place(claim.evidence, text)
        self.rows.append(
            Observation(
                **self._origin(doc_id, text, place),
                kind="node",
                type=node.label,
                start_label=node.label,
                start_key=ids.node_key(node.key),
                start_name=node.name,
                end_label=None,
                end_key=None,
                end_name=None,
                discriminator="",
                properties=canonical_json(properties),
                confidence=claim.confidence,
                method="declaration",
                start_basis=None,
                end_basis=None,
                declared=claim.declared,
                aliases=list(claim.aliases),
            )
        )

    def add_edge(self, claim: EdgeClaim, quoted: Mapping[str, QuotedText]) -> None:
        """Add the row of a claim about an edge; ``quoted``: {path: text} of the unit's files."""
        doc_id = self._documented.get(claim.evidence.path)
        if doc_id is None:
            return
        start, end, properties = claim.start, claim.end, _present(claim.properties)
        try:
            start_key, end_key = self._key(start), self._key(end)
            check_edge(claim.type, start.label, end.label, properties, claim.confidence)
        except TabootError as error:
            self.problems.append(Problem(claim.evidence.path, error.code, error.message))
            return
        text = quoted[claim.evidence.path]
        place = self._place(claim.evidence, text)
        self.rows.append(
            Observation(
                **self._origin(doc_id, text, place),
                kind="edge",
                type=claim.type,
                start_label=start.label,
                start_key=start_key,
                start_name=start.name,
                end_label=end.label,
                end_key=end_key,
                end_name=end.name,
                discriminator=self._once(discriminator(claim.type, properties)),
                properties=self._once(canonical_json(properties)),
                confidence=claim.confidence,
                method=claim.method,
                start_basis=text.basis(claim.start_basis, start.name, place).value,
                end_basis=text.basis(claim.end_basis, end.name, place).value,
                declared=False,
                aliases=[],
            )
        )

    def add_reach(self, claim: Reach, quoted: Mapping[str, QuotedText]) -> None:
        """Add the row of a network that a service is on; ``quoted``: {path: text} of the unit's files."""
        name = claim.network.rpartition("/")[2]
        end = NodeRef("Network", (claim.network,), name)
        self._add_statement(claim, quoted, "reach", "RUNS_IN", end, aliases=list(claim.names))

    def add_use(self, claim: Use, quoted: Mapping[str, QuotedText]) -> None:
        """Add the row of a host that a service asks for; ``quoted``: {path: text} of the unit's files. Its
        end is the name alone, whatever it means."""
        end = NodeRef("Service", ("", claim.host), claim.host)
        self._add_statement(
            claim,
            quoted,
            "use",
            "CONNECTS_TO",
            end,
            properties={
                "protocol": claim.protocol,
                "port": claim.port,
                "encrypted": claim.encrypted,
            },
            confidence=claim.confidence,
            method=claim.method,
            end_basis=Basis.NORMALIZED if claim.in_quote else Basis.DERIVED,
            aliases=list(claim.patterns),
        )

    def _add_statement(
        self,
        claim: Reach | Use,
        quoted: Mapping[str, QuotedText],
        kind: str,
        type_: str,
        end: NodeRef,
        *,
        properties: Mapping[str, Any] | None = None,
        confidence: float = 1.0,
        method: str = "network",
        end_basis: Basis = Basis.DERIVED,
        aliases: list[str] | None = None,
    ) -> None:
        """Add a row of what the reducer makes edges of."""
        doc_id = self._documented.get(claim.evidence.path)
        if doc_id is None:
            return
        text = quoted[claim.evidence.path]
        place = self._place(claim.evidence, text)
        given = _present(properties or {})
        self.rows.append(
            Observation(
                **self._origin(doc_id, text, place),
                kind=kind,
                type=type_,
                start_label="Service",
                start_key=self._once(ids.node_key(claim.service.key)),
                start_name=claim.service.name,
                end_label=end.label,
                end_key=self._once(ids.node_key(end.key)),
                end_name=end.name,
                discriminator=self._once(discriminator(type_, given)),
                properties=self._once(canonical_json(given)),
                confidence=confidence,
                method=method,
                start_basis=Basis.DERIVED.value,
                end_basis=text.basis(end_basis, end.name, place).value,
                declared=False,
                aliases=aliases or [],
            )
        )

    def _key(self, node: NodeRef) -> str:
        """The key of a node as one text. Raises ``E_SCHEMA_INVALID`` where the model has no such node."""
        known = self._keys.get((node.label, node.key))
        if known is None:
            check_node(node.label, node.key, {})
            known = self._keys[node.label, node.key] = ids.node_key(node.key)
        return known

    def _place(self, evidence: Evidence, text: QuotedText) -> SourceSpan:
        where = (evidence.path, evidence.start, evidence.end)
        known = self._places.get(where)
        if known is None:
            known = self._places[where] = text.place(evidence.start, evidence.end)
        return known

    def _once(self, text: str) -> str:
        """An equal text that is held already, if there is one."""
        return self._texts.setdefault(text, text)

    def _origin(self, doc_id: str, text: QuotedText, place: SourceSpan) -> dict[str, Any]:
        """What a row says of where its claim comes from: the run, the document and the span."""
        return {
            "bucket": self._bucket,
            "run_id": self._run_id,
            "doc_id": doc_id,
            "unit_id": self._unit_id,
            "source": self._source.value,
            "blob_sha256": text.blob_sha256,
            "span_start": place.span_start,
            "span_end": place.span_end,
            "byte_start": place.byte_start,
            "byte_end": place.byte_end,
            "line": place.line,
        }


def _present(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if value is not None}


def discriminator(type_: str, properties: Mapping[str, Any]) -> str:
    """The text of what makes two edges of one type between the same ends different facts (graph-mapping)."""
    values = {**properties, "spanStart": (properties.get("span") or [None])[0]}
    own = [values.get(name) for name in EDGES[type_].discriminator]
    return ids.composite(*own, *(v for n in EDGES[type_].further if (v := values.get(n)) is not None))


def observation_table(rows: Iterable[Observation]) -> pa.Table:
    """Rows of one batch as a table of :data:`OBSERVATIONS`: sorted, so that equal input gives equal bytes,
    and each claim once.
    """
    ordered = sorted(rows, key=_order)
    once = [row for i, row in enumerate(ordered) if i == 0 or row != ordered[i - 1]]
    by_name = {
        name: pa.array([row[i] for row in once], OBSERVATIONS.field(name).type)
        for i, name in enumerate(Observation._fields)
    }
    return pa.table(by_name).select(OBSERVATIONS.names).cast(OBSERVATIONS)


def _order(row: Observation) -> tuple[Any, ...]:
    """All values of a row; where one of its kind has none, the empty text stands."""
    return tuple("" if value is None else value for value in row)
