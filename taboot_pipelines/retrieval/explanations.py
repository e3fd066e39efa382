"""Explanations: the statement behind an edge or a hit, read from its blob just now, and checked against it.

Every end of an edge is what it is by a rule, which the explanation tells (rule ``support``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import covers_file
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.retrieval.evidence import Evidence, Quoted, Source
from taboot_pipelines.retrieval.prefixes import ambiguous
from taboot_pipelines.retrieval.results.base import where
from taboot_pipelines.retrieval.results.decisions import DecisionNote
from taboot_pipelines.retrieval.results.explanations import End, Explanation, Quote
from taboot_pipelines.retrieval.results.graph import Edge
from taboot_pipelines.retrieval.results.hits import Hit
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.retrieval.verbalization import statement

#: A chunk_id, or one with the beginning of its document's id alone.
_CHUNK_ID = re.compile(r"([0-9a-f-]{6,36}):([0-9]{1,9})")
#: The rule behind an end whose basis is ``normalized``, ``derived`` or ``source``, by the end's label.
_NORMALIZED = {
    "Image": "the image reference with the registry, repository and tag that it leaves out",
    "Host": "the host name in lower case, without a trailing dot",
    "IP": "the address as RFC 5952 writes it",
    "Network": "the network's name or range as it is known on its host",
    "Service": "the service that answers to the quoted name where both can meet",
    "Endpoint": "the URL split into scheme, host, port (the scheme's default where none is given) and path",
}
_DERIVED = {
    "Document": "the document that holds the statement",
    "Service": "the service whose definition holds the statement",
    "Container": (
        "the container that a declared service gets: its id is the hash of project, service and index"
    ),
    "Network": "the project's default network, or the real name of the network that the key stands for",
    "IP": "a port published without an address binds 0.0.0.0",
    "Image": "the name that Compose gives to what a service builds",
    "VPNTunnel": "the tunnel that a VPN service declares: its id is the hash of scope and service",
}
_SOURCE = {
    "Host": "the `host` of the sources file",
    "ReverseProxy": "the `proxy` of the sources file, or the source's id",
}


class Explanations:
    """Safe to use from several threads."""

    def __init__(self, session: Session, evidence: Evidence) -> None:
        self._session = session
        self._evidence = evidence

    def explain(self, what: str | Hit | Edge | Mapping[str, Any]) -> Explanation:
        """See ``KnowledgeBase.explain``."""
        target = _target(what)
        chunk = _CHUNK_ID.fullmatch(target)
        if chunk is not None:
            return self._session.ask(lambda view: self._chunk(view, _whole(view, chunk[1]), int(chunk[2])))
        return self._session.ask(lambda view: self._edge(view, target))

    def quote(self, doc_id: str, start: int, end: int) -> Quote:
        """Read ``[start, end)``, code points of a document, from its blob; raises what ``explain`` raises."""
        return self._session.ask(lambda view: self._span(view, doc_id, start, end).shown)

    def _span(self, view: View, doc_id: str, start: int, end: int) -> Quoted:
        document = view.shards.document(doc_id)
        if document is None:
            raise TabootError("E_EDGE_UNKNOWN", f"There is no document {doc_id}.", doc_id=doc_id)
        source = self._evidence.source(view, document, document["blob_sha256"])
        offsets = OffsetMap.loads(document["offsets"])
        return source.quote(*offsets.to_bytes(start, end), (start, end), view.index.section_at(doc_id, start))

    def _edge(self, view: View, edge_id: str) -> Explanation:
        row: dict[str, Any] | None = view.graph.edge(edge_id)
        if row is None:
            raise TabootError("E_EDGE_UNKNOWN", f"There is no edge {edge_id[:64]!r}.", edge_id=edge_id[:64])
        sources: dict[str, Source] = {}

        said = json.loads(row["supports"])
        supports = [(s["blob"], s["start"], s["end"]) for s in said]
        #: {statement: its span, and the document that holds it}, which is another one for the ground of it.
        spans = {
            (s["blob"], s["start"], s["end"]): ((s["span"][0], s["span"][1]), s.get("doc", row["doc_id"]))
            for s in reversed(said)
            if len(s.get("span") or ()) == 2
        }

        def quote(sha256: str, byte_start: int, byte_end: int) -> Quoted:
            span, doc_id = spans.get((sha256, byte_start, byte_end), (None, row["doc_id"]))
            if sha256 not in sources:
                document = _holder(view, sha256, doc_id)
                sources[sha256] = self._evidence.source(view, document, sha256)
            section = "" if span is None else view.index.section_at(doc_id, span[0])
            return sources[sha256].quote(byte_start, byte_end, span, section)

        carrying = (row["blob_sha256"], row["byte_start"], row["byte_end"])
        quoted = quote(*carrying)
        ends = _check_ends(row, quoted)
        others = [quote(*support).shown for support in supports if support != carrying]
        return Explanation(
            kind="edge",
            id=row["edge_id"],
            statement=statement(
                view.graph.called(row["start_label"], row["start_key"], row["start_name"]),
                row["type"],
                json.loads(row["properties"]),
                view.graph.called(row["end_label"], row["end_key"], row["end_name"]),
            ),
            doc_id=row["doc_id"],
            url=view.document_url(row["doc_id"]),
            quotes=(quoted.shown, *others),
            ends=ends,
            confidence=row["confidence"],
            extraction_method=row["extraction_method"],
            since=row["since"],
            decisions=notes(view, view.graph.decided.about(row)),
        )

    def _chunk(self, view: View, doc_id: str, chunk_index: int) -> Explanation:
        row = view.index.row_of(doc_id, chunk_index)
        document = view.shards.document(doc_id) if row is not None else None
        if row is None or document is None:
            raise TabootError(
                "E_EDGE_UNKNOWN",
                f"There is no chunk {doc_id}:{chunk_index}.",
                chunk_id=f"{doc_id}:{chunk_index}",
            )
        chunk = view.index.chunk(row)
        source = self._evidence.source(view, document, document["blob_sha256"])
        offsets = OffsetMap.loads(document["offsets"])
        span = chunk["start"], chunk["end"]
        quoted = source.quote(*offsets.to_bytes(*span), span, chunk["section"])
        # A page of HTML is not its document's text: there the chunk is quoted, and not compared.
        if source.rendered is not None:
            _check_chunk(chunk["text"], Quoted(quoted.shown, quoted.shown.text))
        elif covers_file(offsets, int(offsets.doc_end[-1]) if len(offsets) else 0):
            _check_chunk(chunk["text"], quoted)
        return Explanation(
            kind="hit",
            id=chunk["chunk_id"],
            statement=f"{document['title']}: {chunk['section']}" if chunk["section"] else document["title"],
            doc_id=doc_id,
            url=source.url,
            quotes=(quoted.shown,),
            since=document["since"],
        )


def notes(view: View, decision_ids: Collection[str]) -> tuple[DecisionNote, ...]:
    """Decisions of a view as they are shown, in the order in which they were made."""
    wanted = set(decision_ids)
    return tuple(
        DecisionNote(
            observation_id=row["id"],
            says=_said(row),
            who=row["who"],
            reason=row["reason"],
            at=row["at"],
        )
        for row in (view.graph.decisions.to_pylist() if wanted else ())
        if row["id"] in wanted
    )


def _said(row: Mapping[str, Any]) -> str:
    if row["kind"] == "merge":
        return f"{row['key']} is {row['end_key']}"
    return "it is not so" if row["property"] is None else f"{row['property']} = {row['value']}"


def _target(what: Any) -> str:
    """The chunk_id or edge_id that a thing is or has; ``E_QUERY`` if it is neither and has none."""
    if isinstance(what, Hit):
        return what.chunk_id
    if isinstance(what, Edge):
        return what.edge_id
    if not isinstance(what, str):
        for name in ("edge_id", "chunk_id"):
            try:
                found = what[name]
            except (KeyError, TypeError, IndexError):
                continue
            if isinstance(found, str):
                return found
        raise TabootError("E_QUERY", "explain takes an edge_id, a chunk_id, a hit, or a row of edges().")
    return what.strip()


def _whole(view: View, doc_id: str) -> str:
    """The doc_id that begins so; as it is, where none or it itself does. ``E_QUERY`` where several do."""
    import pyarrow.compute as pc

    ids = view.graph.documents.column("doc_id")
    found = ids.filter(pc.starts_with(ids, doc_id)).to_pylist()
    if len(found) > 1:
        raise ambiguous(doc_id, found)
    return str(found[0]) if found else doc_id


def _holder(view: View, sha256: str, doc_id: str) -> dict[str, Any]:
    """The document whose bytes a blob is: of equal ones the edge's own, then one of the same source.

    A file that is read as environment is no document: it is shown by its hash, as text of the edge's source.
    """
    import pyarrow.compute as pc

    documents = view.graph.documents
    own = documents.filter(pc.equal(documents.column("doc_id"), doc_id)).to_pylist()
    same: list[dict[str, Any]] = documents.filter(
        pc.equal(documents.column("blob_sha256"), sha256)
    ).to_pylist()
    mine = own[0]["source_id"] if own else ""
    if same:
        return min(same, key=lambda d: (d["doc_id"] != doc_id, d["source_id"] != mine, d["doc_id"]))
    return {
        "source_id": mine,
        "path": "",
        "url": f"blob:{sha256}",
        "mime": "text/plain",
        "charset": "utf-8",
    }


def _check_ends(row: Mapping[str, Any], quoted: Quoted) -> tuple[End, End]:
    """Both ends of an edge with the rule behind each; ``E_EVIDENCE`` if a name that should stand in the quote
    does not.
    """
    return _check_end("start", row, quoted), _check_end("end", row, quoted)


def _check_end(role: str, row: Mapping[str, Any], quoted: Quoted) -> End:
    label, name = row[f"{role}_label"], row[f"{role}_name"]
    observed, basis = row[f"{role}_observed"], row[f"{role}_basis"]
    if basis == "bytes" and observed not in quoted.unmasked:
        quote = quoted.shown
        raise TabootError(
            "E_EVIDENCE",
            f"The {role} of edge {row['edge_id'][:16]}… does not stand at {where(quote.url, quote.line)}.",
            edge_id=row["edge_id"],
            role=role,
            url=quote.url,
            line=quote.line,
            blob=quote.blob_sha256,
        )
    return End(
        role=role,
        label=label,
        key=row[f"{role}_key"],
        name=name,
        observed=observed,
        basis=basis,
        rule=_rule(label, basis, observed, name),
    )


def _rule(label: str, basis: str, observed: str, name: str) -> str:
    if basis == "bytes":
        rule = "stands in the quote"
    elif basis == "normalized":
        rule = _NORMALIZED.get(label, "the quoted text in its normal form")
    elif basis == "source":
        rule = _SOURCE.get(label, "a field of the sources file")
    else:
        rule = _DERIVED.get(label, "follows from the structure around the quote")
    return rule if observed == name else f"{rule}; {observed!r} is known to be {name!r}"


def _check_chunk(text: str, quoted: Quoted) -> None:
    """``E_EVIDENCE`` unless the text of a chunk stands in the quote; masked places agree with anything."""
    there = quoted.unmasked
    if "\r" not in text:
        there = there.replace("\r\n", "\n").replace("\r", "\n")
    if len(there) != len(text) or any(a != b and "*" not in (a, b) for a, b in zip(there, text, strict=True)):
        quote = quoted.shown
        raise TabootError(
            "E_EVIDENCE",
            f"The chunk does not stand at {where(quote.url, quote.line)}.",
            url=quote.url,
            line=quote.line,
            blob=quote.blob_sha256,
        )
