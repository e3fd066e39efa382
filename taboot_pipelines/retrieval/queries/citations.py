"""What an answer is made of: statements with the places where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from taboot_pipelines.retrieval.queries.service_index import Edge, distinct
from taboot_pipelines.retrieval.session import View

#: Names in a list; of longer ones the total is said.
MAX_LISTED = 25

#: Items that could not be read and are named.
_MAX_UNREAD = 5

#: Services of one name that are answered for, each with its project.
MAX_SCOPES = 5

#: Citations of one statement: each name of a list has its own.
MAX_CITED = MAX_LISTED


@dataclass(frozen=True, slots=True)
class StatementSpan:
    """Where a statement stands: line and code points ``[start, end)`` of a document; where it is an edge,
    that, and where a text says it, how sure its reader is."""

    doc_id: str
    line: int
    start: int
    end: int
    edge_id: str = ""
    confidence: float = 1.0


@dataclass(slots=True)
class CitedStatement:
    """``denies``: it says that something is not, which nobody guesses."""

    text: str
    cites: list[StatementSpan]
    denies: bool = False


@dataclass(slots=True)
class Found:
    """What answers a question. ``used``: words that it explains beyond those that asked for the kind;
    ``weight``: less than 1 where it is less sure; ``looked_for``: in words, for who abstains; ``matched``:
    words that a key holds, of a value of configuration; ``about``: the document and the service whose
    values these are, if they are one's."""

    statements: list[CitedStatement]
    used: set[int] = field(default_factory=set)
    weight: float = 1.0
    looked_for: str = ""
    matched: int = 0
    about: tuple[str, str] | None = None


def cite(edge: Edge) -> StatementSpan:
    sure = edge.confidence if edge.is_of_text else 1.0
    return StatementSpan(edge.doc_id, edge.line, *edge.span, edge.edge_id, sure)


def cites(edges: Iterable[Edge]) -> list[StatementSpan]:
    """The places of edges, each line once, at most :data:`MAX_CITED`."""
    found: dict[tuple[str, int], StatementSpan] = {}
    for edge in edges:
        found.setdefault((edge.doc_id, edge.line), cite(edge))
        if len(found) == MAX_CITED:
            break
    return list(found.values())


def listed(names: Sequence[str], total: int | None = None) -> str:
    """Names in a row, ``a, b and c``; beyond :data:`MAX_LISTED` only how many more there are."""
    names = distinct(names)
    total = max(total or 0, len(names))
    shown = names[:MAX_LISTED]
    if total > len(shown):
        return ", ".join(shown) + f" and {total - len(shown)} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + f" and {shown[-1]}" if shown else "none"


def plural(count: int, noun: str) -> str:
    many = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count} {noun if count == 1 else many}"


def unread(view: View, *, wholly: bool = False) -> tuple[str, ...]:
    """What of the sources that declare the house could not be read when this was published, by source:
    ``wholly``: of which nothing is known; else also that of which only a part is.
    """
    found = []
    for source, entry in sorted(view.manifest.sources.items()):
        items = entry.unread or ()
        partly = _stating(view, source, items)
        for said, named in (("", [i for i in items if i not in partly]), (" whole", sorted(partly))):
            if named and not (said and wholly):
                shown = listed(named[:_MAX_UNREAD], len(named))
                found.append(f"{plural(len(named), 'item')} of {source} could not be read{said}: {shown}.")
    return tuple(found)


def _stating(view: View, source: str, items: Sequence[str]) -> set[str]:
    """Those of the items, paths or ids of units, whose document states a relation."""
    if not items:
        return set()
    import pyarrow as pa
    import pyarrow.compute as pc

    documents = view.graph.documents
    by_path = {path: item for item in items for path in (item, item.partition(":")[2])}
    mine = pc.and_(
        pc.equal(documents.column("source_id"), source),
        pc.is_in(documents.column("path"), value_set=pa.array(by_path)),
    )
    held = documents.filter(mine)
    rows = zip(held.column("doc_id").to_pylist(), held.column("path").to_pylist(), strict=True)
    return {by_path[path] for doc_id, path in rows if doc_id in view.graph.stating}
