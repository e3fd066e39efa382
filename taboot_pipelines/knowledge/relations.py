"""A document's edges by the names as observed: from observations, declarations and mentions to
``tables.RELATIONS``.

One row per (type, ends, what makes it another fact, document), however often the document says it (rule
``support``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import QuotedText, SourceSpan, quoted_document
from taboot_pipelines.knowledge.mentions import MATCHER_VERSION, NameMatcher, fold, regions
from taboot_pipelines.knowledge.names import Meaning, bare_key
from taboot_pipelines.knowledge.observations import discriminator
from taboot_pipelines.knowledge.reach import Answering, Reaches, is_store_scheme
from taboot_pipelines.knowledge.reducer import PROPOSED, Claim, Node
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import PRIORITY, TEXT_METHOD, Basis, EdgeSource, weakness
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.offsets import OffsetMap

RELATIONS_VERSION = "5"

#: The method of a mention by a service that asks for what it cannot reach.
UNREACHABLE = "unreachable_name"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A node by label, key (``ids.node_key``) and the name it was observed by."""

    label: str
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Relation:
    """One statement of one document: an edge observation, a declaration, or a mention of a known name."""

    type: str
    start: Endpoint
    end: Endpoint
    discriminator: str
    properties: str
    confidence: float
    source: str
    method: str
    start_basis: str
    end_basis: str
    run_id: str
    blob_sha256: str
    place: SourceSpan
    #: Statements of any documents without which it would not be so, as in ``tables.RELATIONS``.
    ground: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        return (
            self.type,
            self.start.label,
            self.start.key,
            self.end.label,
            self.end.key,
            self.discriminator,
        )

    @property
    def strength(self) -> tuple[Any, ...]:
        """Ascending: the strongest first; the rest of the statement breaks ties, so that order never does."""
        return (
            weakness(self.type, json.loads(self.properties)),
            -self.confidence,
            -PRIORITY[EdgeSource(self.source)],
            self.method,
            self.place.byte_start,
            self.place.byte_end,
            self.properties,
            self.run_id,
            self.place.line,
            self.place.span_start,
            self.place.span_end,
            self.blob_sha256,
            self.start.name,
            self.end.name,
            self.start_basis,
            self.end_basis,
            self.ground,
        )


class ChunkIndex:
    """The chunks of one document in order: which is the first that holds a span?"""

    def __init__(
        self,
        chunk_ids: Sequence[str],
        starts: Sequence[int],
        ends: Sequence[int],
        hashes: Sequence[str],
        sections: Sequence[str],
    ) -> None:
        self._ids, self._hashes, self._sections = chunk_ids, hashes, sections
        self._starts, self._ends = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)

    def properties(self, start: int, end: int) -> dict[str, Any]:
        """chunkId, chunkHash, chunkIndex and section of the first chunk that holds the span, or else its
        start.
        """
        if not len(self._ids):
            return {}
        # Ends ascend with the index: the first chunk that reaches the span's end is the first that can hold
        # it.
        i = int(np.searchsorted(self._ends, end, side="left"))
        if i >= len(self._ids) or self._starts[i] > start:
            i = min(int(np.searchsorted(self._ends, start, side="right")), len(self._ids) - 1)
        found = {"chunkId": self._ids[i], "chunkHash": self._hashes[i], "chunkIndex": i}
        return {**found, "section": self._sections[i]} if self._sections[i] else found


def mention(
    doc_id: str,
    doc_name: str,
    end: Endpoint,
    place: SourceSpan,
    chunks: ChunkIndex,
    *,
    blob_sha256: str,
    confidence: float,
    source: str,
    method: str,
    end_basis: str,
    run_id: str,
    by: str | None = None,
) -> Relation:
    """``(:Document)-[:MENTIONS {chunkId, chunkHash, chunkIndex, span, section, by}]->(entity)``. ``by``: the
    key of the service that mentions it."""
    span = (place.span_start, place.span_end)
    said = {"span": list(span), **chunks.properties(*span), **({"by": by} if by is not None else {})}
    return Relation(
        type="MENTIONS",
        start=Endpoint("Document", doc_id, doc_name),
        end=end,
        # What a service asks for is another fact than that its name stands there.
        discriminator=ids.composite(place.span_start, *([] if by is None else [by])),
        properties=canonical_json(said),
        confidence=confidence,
        source=source,
        method=method,
        start_basis=Basis.DERIVED.value,
        end_basis=end_basis,
        run_id=run_id,
        blob_sha256=blob_sha256,
        place=place,
    )


def relation_rows(doc_id: str, statements: Iterable[Relation]) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``tables.RELATIONS`` of one document, ordered by identity; the strongest statement
    speaks, all support.
    """
    groups: dict[tuple[str, ...], list[Relation]] = {}
    for statement in statements:
        groups.setdefault(statement.identity, []).append(statement)
    for identity in sorted(groups):
        group = list(dict.fromkeys(groups.pop(identity)))
        if len(group) > 1:
            group.sort(key=lambda s: s.strength)
        best = group[0]
        supports = {(s.place.byte_start, s.place.byte_end, s.run_id, s.method): s for s in group}
        yield {
            "bucket": ids.doc_bucket(doc_id),
            "doc_id": doc_id,
            "type": best.type,
            "start_label": best.start.label,
            "start_key": best.start.key,
            "start_name": best.start.name,
            "end_label": best.end.label,
            "end_key": best.end.key,
            "end_name": best.end.name,
            "discriminator": best.discriminator,
            "properties": _joined(group),
            "confidence": best.confidence,
            "source": best.source,
            "extraction_method": best.method,
            "start_basis": best.start_basis,
            "end_basis": best.end_basis,
            "run_id": best.run_id,
            "blob_sha256": best.blob_sha256,
            "byte_start": best.place.byte_start,
            "byte_end": best.place.byte_end,
            "line": best.place.line,
            "supports": canonical_json(
                [
                    {
                        "run": s.run_id,
                        "blob": s.blob_sha256,
                        "start": s.place.byte_start,
                        "end": s.place.byte_end,
                        "line": s.place.line,
                        "span": [s.place.span_start, s.place.span_end],
                        "method": s.method,
                    }
                    for _, s in sorted(supports.items())
                ]
                + [json.loads(g) for g in sorted({g for s in group for g in s.ground})]
            ),
        }


def _joined(group: Sequence[Relation]) -> str:
    """The properties of several statements, of each the strongest one's, as JSON."""
    if len(group) == 1:
        return group[0].properties
    properties: dict[str, Any] = {}
    for statement in group:
        for name, value in json.loads(statement.properties).items():
            properties.setdefault(name, value)
    return canonical_json(properties)


# --- What one document states: the edges that were observed in it, the nodes it declares, the known names
#     it holds, and its claims about nodes

#: Mentions that the reducer derives carry a lower confidence than what a source declares.
_EXACT, _FOLDED = 0.9, 0.8

#: Columns of ``tables.CHUNKS`` that :meth:`DocumentInput.chunk_index` needs.
CHUNK_COLUMNS = ("doc_id", "chunk_id", "chunk_index", "start", "end", "sha256", "section")


@dataclass(frozen=True)
class DocumentInput:
    """All that the snapshot reads of one document: rows of the source's tables."""

    document: Mapping[str, Any]
    chunks: Sequence[Mapping[str, Any]]
    observations: Sequence[Mapping[str, Any]]
    #: Whether what it says is only proposed, as in a chat with a language model.
    proposed: bool = False

    @property
    def doc_id(self) -> str:
        return str(self.document["doc_id"])

    @property
    def recency(self) -> int:
        """The document's own date, else the time since which its bytes stand there; in microseconds."""
        return int((self.document["date"] or self.document["since"]).timestamp() * 1_000_000)

    def chunk_index(self) -> ChunkIndex:
        ordered = sorted(self.chunks, key=lambda chunk: chunk["chunk_index"])
        columns = ("chunk_id", "start", "end", "sha256", "section")
        return ChunkIndex(*([chunk[column] for chunk in ordered] for column in columns))


@dataclass(frozen=True)
class DocumentFacts:
    """What one document brings into the snapshot."""

    #: Rows of ``tables.RELATIONS``, made as they are taken: a large file has hundreds of thousands.
    relations: Iterator[dict[str, Any]]
    #: What it says of nodes, ascending.
    claims: list[Claim]
    #: Why its blob could not be read: its mentions stand all the same, without their lines.
    failure: TabootError | None


def document_facts(
    given: DocumentInput,
    matcher: NameMatcher,
    known: Mapping[str, Meaning],
    vocabulary: Collection[str],
    reaches: Reaches,
    read_blob: Callable[[str], bytes],
) -> DocumentFacts:
    """All facts of a document; ``matcher`` finds the names that are ``known``, ``reaches`` what hosts are.
    ``vocabulary``: the names of what is declared, folded."""
    document, chunks = given.document, given.chunk_index()
    statements = list(supported(observed_statements(given, chunks), vocabulary))
    for o in given.observations:
        if o["kind"] == "use":
            statements += _use_statements(given, o, reaches, chunks)
    text, mime = document["text"], document["mime"]
    failure = None
    # A record of what a person stated says what it says; the names in it are no mentions.
    told = document["source_type"] == EdgeSource.STRUCTURED
    hits = [] if told else matcher.find(text, regions(text, code=is_code(mime)))
    if hits:
        offsets, sha256 = document["offsets"], document["blob_sha256"]
        try:
            quoted = quoted_document(text, offsets, sha256, mime, read_blob)
        except TabootError as error:
            failure = error
            quoted = QuotedText(text, OffsetMap.loads(offsets), sha256, rendered_from=b"")
        statements += name_statements(given, hits, quoted, known, chunks)
    claims = document_claims(given, statements)
    return DocumentFacts(relation_rows(given.doc_id, statements), claims, failure)


def observed_statements(given: DocumentInput, chunks: ChunkIndex) -> list[Relation]:
    """The edges that extractors observed in the document, and a mention of every node that it declares, so
    that none is an orphan.
    """
    doc_id, title, text = given.doc_id, given.document["title"], given.document["text"]
    statements: list[Relation] = []
    for o in given.observations:
        if o["kind"] != "edge":
            continue
        if o["type"] == "MENTIONS":
            statements.append(
                mention(
                    doc_id,
                    title,
                    _end(o),
                    _place(o),
                    chunks,
                    blob_sha256=o["blob_sha256"],
                    confidence=o["confidence"],
                    source=o["source"],
                    method=o["method"],
                    end_basis=o["end_basis"],
                    run_id=o["run_id"],
                )
            )
        else:
            statements.append(_relation(o))
    for _, o in sorted(_first_declarations(given.observations).items()):
        written = o["start_name"] in text[o["span_start"] : o["span_end"]]
        statements.append(
            mention(
                doc_id,
                title,
                _start(o),
                _place(o),
                chunks,
                blob_sha256=o["blob_sha256"],
                confidence=o["confidence"],
                source=o["source"],
                method="declaration",
                end_basis=(Basis.BYTES if written else Basis.DERIVED).value,
                run_id=o["run_id"],
            )
        )
    return statements


#: Relations that a text states between names, and what it states of a thing that has a place of its own.
BETWEEN, _PLACED = ("CONNECTS_TO", "DEPENDS_ON"), ("BINDS", "BUILDS", "EXPOSES_ENDPOINT", "RESOLVES_TO")
#: How often such a relation was right of which one end is known, beside those of two: over 170 of five public
#: repositories that were read by hand, .45 and .91 (and .25 where neither is).
_ONE_KNOWN = 0.5


def supported(statements: Sequence[Relation], vocabulary: Collection[str]) -> Iterator[Relation]:
    """The statements without what a text says between two names that nobody knows for things of this house:
    neither is declared (``vocabulary``: names, folded), and the text gives neither an address, a port or an
    image. Such are states, steps and features as a rule. Where one is known, it is half as sure. As long as
    nothing is declared at all, each counts."""
    of_text = [s for s in statements if s.method.startswith(TEXT_METHOD)]
    placed = {s.start.name for s in of_text if s.type in _PLACED}
    for s in statements:
        bare = s.start.key == bare_key(s.start.name) and s.end.key == bare_key(s.end.name)
        if vocabulary and bare and s.type in BETWEEN and s.method.startswith(TEXT_METHOD):
            known = sum(fold(e.name) in vocabulary or e.name in placed for e in (s.start, s.end))
            if known == 0:
                continue
            if known == 1:
                s = replace(s, confidence=round(s.confidence * _ONE_KNOWN, 3))
        yield s


#: How sure a use must be for its name to be missed where it is not reachable.
_SURE = 0.9
#: How sure a name is that of a release because it begins so.
_MADE = 0.8


def answer_to(o: Mapping[str, Any], reaches: Reaches) -> Answering | None:
    """What a host is that an observation of a use asks for; all that its statements take from others."""
    said = json.loads(o["properties"])
    scheme = said.get("protocol") or ""
    return reaches.answering(o["start_key"], o["end_name"], said.get("port"), scheme, o["aliases"])


def _use_statements(
    given: DocumentInput, o: Mapping[str, Any], reaches: Reaches, chunks: ChunkIndex
) -> list[Relation]:
    """What comes of a host that a service asks for: that it connects to the service which the host is, and
    depends on it if that keeps its data; where the two cannot meet, a mention (:data:`UNREACHABLE`)."""
    found = answer_to(o, reaches)
    if found is None:
        return []
    properties = json.loads(o["properties"])
    confidence = min(o["confidence"], _MADE) if found.made else o["confidence"]
    end = Endpoint("Service", found.key, found.name)
    if not found.reachable:
        if o["confidence"] < _SURE:
            return []
        return [
            mention(
                given.doc_id,
                given.document["title"],
                end,
                _place(o),
                chunks,
                blob_sha256=o["blob_sha256"],
                confidence=o["confidence"],
                source=o["source"],
                method=UNREACHABLE,
                end_basis=o["end_basis"],
                run_id=o["run_id"],
                by=o["start_key"],
            )
        ]
    if found.network:
        properties["network"] = found.network
    types = {"CONNECTS_TO": properties}
    # Compose says by itself what a service of the same project depends on.
    said_elsewhere = found.own and o["method"].startswith("compose_")
    if not said_elsewhere and (found.store or is_store_scheme(properties.get("protocol"))):
        types["DEPENDS_ON"] = {"kind": "need"}
    return [
        replace(
            _relation(o),
            type=type_,
            end=end,
            confidence=confidence,
            discriminator=discriminator(type_, said),
            properties=canonical_json(said),
            ground=found.ground,
        )
        for type_, said in types.items()
    ]


def _relation(o: Mapping[str, Any]) -> Relation:
    """Return the relation that an observation of an edge states by itself."""
    return Relation(
        type=o["type"],
        start=_start(o),
        end=_end(o),
        discriminator=o["discriminator"],
        properties=o["properties"],
        confidence=o["confidence"],
        source=o["source"],
        method=o["method"],
        start_basis=o["start_basis"],
        end_basis=o["end_basis"],
        run_id=o["run_id"],
        blob_sha256=o["blob_sha256"],
        place=_place(o),
    )


def name_statements(
    given: DocumentInput,
    hits: Sequence[tuple[int, int, str, bool]],
    quoted: QuotedText,
    known: Mapping[str, Meaning],
    chunks: ChunkIndex,
) -> list[Relation]:
    """A mention for each hit of ``NameMatcher.find`` in the document's text, of what the name means."""
    document = given.document
    run_id = ids.run_id(
        f"document:{given.doc_id}",
        "mentions",
        ids.digest(document["text_sha256"], document["blob_sha256"], MATCHER_VERSION),
    )
    places = quoted.places([hit[0] for hit in hits], [hit[1] for hit in hits])
    statements = []
    for (_start_at, _end_at, name, as_declared), place in zip(hits, places, strict=True):
        exact = as_declared and quoted.holds(name, place)
        for target in known[name].targets(name):
            statements.append(
                mention(
                    given.doc_id,
                    document["title"],
                    Endpoint(target.label, ids.node_key(target.key), target.name),
                    place,
                    chunks,
                    blob_sha256=document["blob_sha256"],
                    confidence=_EXACT if exact else _FOLDED,
                    source=EdgeSource.TIER_A.value,
                    method="declared_name",
                    end_basis=(Basis.BYTES if exact else Basis.NORMALIZED).value,
                    run_id=run_id,
                )
            )
    return statements


def document_claims(given: DocumentInput, statements: Iterable[Relation]) -> list[Claim]:
    """What the document claims of nodes, as observed: with properties where it declares them, else that they
    exist. Each claim once, ascending. What a chat says is proposed, by whichever tier.
    """
    proposed = PROPOSED if given.proposed else ""
    declared = [o for o in given.observations if o["kind"] == "node"]
    claims = {(_start(o), str(o["source"]), float(o["confidence"]), str(o["properties"])) for o in declared}
    nodes = {(o["type"], o["start_key"]) for o in declared}
    for s in statements:
        for end in (s.start, s.end):
            if end.label != "Document" and (end.label, end.key) not in nodes:
                claims.add((end, s.source, s.confidence, "{}"))
    return sorted(
        Claim(end.label, end.key, end.name, proposed + source, confidence, properties)
        for end, source, confidence, properties in claims
    )


def _first_declarations(observations: Iterable[Mapping[str, Any]]) -> dict[Node, Mapping[str, Any]]:
    """{node: the observation that declares it first in the text}."""
    first: dict[Node, Mapping[str, Any]] = {}
    for o in observations:
        if o["kind"] == "node":
            node = (o["type"], o["start_key"])
            if node not in first or _order(o) < _order(first[node]):
                first[node] = o
    return first


def _order(o: Mapping[str, Any]) -> tuple[Any, ...]:
    # Two units may declare a node by the same words; the order of the table's rows must not decide.
    return o["span_start"], o["span_end"], o["run_id"], o["start_name"], o["confidence"]


def _start(o: Mapping[str, Any]) -> Endpoint:
    return Endpoint(o["start_label"], o["start_key"], o["start_name"])


def _end(o: Mapping[str, Any]) -> Endpoint:
    return Endpoint(o["end_label"], o["end_key"], o["end_name"])


def _place(o: Mapping[str, Any]) -> SourceSpan:
    return SourceSpan(o["span_start"], o["span_end"], o["byte_start"], o["byte_end"], o["line"])
