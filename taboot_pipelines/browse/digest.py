"""What is counted once for each publication: how much there is, and what things are called."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model.tables import rows_of

if TYPE_CHECKING:
    from taboot_pipelines.retrieval import KnowledgeBase

#: Nodes that the overview begins with.
_BUSIEST = 12
#: Words of a query that are looked up, and nodes that are shown for them.
_MAX_WORDS = 60
_MAX_NAMED = 8
_WORD = re.compile(r"[\w][\w.:/@-]*")


class Named(NamedTuple):
    """A node by what tells it from every other, and what people call it."""

    label: str
    key: str
    name: str
    scope: str | None


@dataclass(frozen=True)
class Digest:
    """``version``: of the publication; ``relations``: edges that are no mentions; ``labels``: how many nodes
    of each, the most frequent first; ``busiest``: those with most relations, with their number; ``names``:
    nodes by name in folded case; ``sources``: of each document the source; ``shared_titles``: those that
    several documents have.
    """

    version: int
    documents: int
    chunks: int
    relations: int
    labels: tuple[tuple[str, int], ...]
    busiest: tuple[tuple[Named, int], ...]
    names: Mapping[str, tuple[Named, ...]]
    sources: Mapping[str, str]
    shared_titles: frozenset[str]

    def named_in(self, query: str) -> tuple[Named, ...]:
        """The nodes that are called like the query, or like a word of it, in the order of the words."""
        words = [query.strip().rstrip("?.!"), *(w.rstrip(".:/?") for w in _WORD.findall(query)[:_MAX_WORDS])]
        found = dict.fromkeys(node for word in words for node in self.names.get(word.casefold(), ()))
        return tuple(found)[:_MAX_NAMED]


class Digests:
    """The digest of what is published. Safe to use from several threads."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._last: Digest | None = None
        self._making = threading.Lock()

    def current(self) -> Digest:
        """Of the publication in force, made now if it is another than the last."""
        if self._last is None or self._last.version != self._kb.manifest.version:
            with self._making:
                if self._last is None or self._last.version != self._kb.manifest.version:
                    self._last = _make(self._kb)
        return self._last

    def recent(self) -> Digest:
        """The last one that was made, so that a search waits for none; a newer one is made meanwhile."""
        last = self._last
        if last is None:
            return self.current()
        if last.version != self._kb.manifest.version and not self._making.locked():
            threading.Thread(target=self._try, name="browse-digest", daemon=True).start()
        return last

    def _try(self) -> None:
        # What is the matter is said by the page that needs the newest.
        try:
            self.current()
        except Exception:  # noqa: BLE001, S110
            pass


def _make(kb: KnowledgeBase) -> Digest:
    manifest, nodes, edges = kb.manifest, kb.nodes(), kb.edges()
    things = nodes.filter(pc.not_equal(nodes.column("label"), "Document"))
    relations = edges.filter(pc.not_equal(edges.column("type"), "MENTIONS"))
    rows = [Named(*row) for row in rows_of(things, "label", "key", "name", "scope")]
    names: dict[str, list[Named]] = {}
    for node in sorted(rows):
        names.setdefault(node.name.casefold(), []).append(node)
    labels = sorted(_counted(things.column("label")).items(), key=lambda x: (-x[1], x[0]))
    degrees: dict[str, int] = {}
    for end in ("start", "end"):
        of = pc.binary_join_element_wise(
            relations.column(f"{end}_label"), relations.column(f"{end}_key"), "\x1f"
        )
        for value, number in _counted(of).items():
            degrees[value] = degrees.get(value, 0) + number
    by_place = {f"{node.label}\x1f{node.key}": node for node in rows}
    most = sorted((p for p in degrees if p in by_place), key=lambda p: (-degrees[p], p))[:_BUSIEST]
    documents = list(rows_of(kb.documents(), "doc_id", "source", "title"))
    titles = Counter(title for _, _, title in documents if title)
    return Digest(
        version=manifest.version,
        documents=manifest.documents,
        chunks=manifest.chunks,
        relations=relations.num_rows,
        labels=tuple(labels),
        busiest=tuple((by_place[p], degrees[p]) for p in most),
        names={name: tuple(found) for name, found in names.items()},
        sources={doc_id: source for doc_id, source, _ in documents},
        shared_titles=frozenset(title for title, count in titles.items() if count > 1),
    )


def _counted(column: pa.ChunkedArray | pa.Array) -> dict[str, int]:
    return {row["values"]: row["counts"] for row in pc.value_counts(column).to_pylist()}
