"""Which document links to which, over one manifest: what the shards observed, joined with documents' names.

A title links where it stands in the text of another document. A single word, or words that say little, count
where few documents hold it; a title that very many documents share names none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.retrieval.prefixes import ambiguous, is_prefix
from taboot_pipelines.retrieval.results.graph import DocumentLinks, Link
from taboot_pipelines.shards.layout import numbers
from taboot_pipelines.shards.reader import Shards

Rows = npt.NDArray[np.int64]

#: The end of a chunk_id.
_CHUNK = re.compile(r":[0-9]{1,9}$")
#: Common titles count where this share of the documents holds them, or so few documents that a share says
#: nothing: the one that has the title, and two others.
RARE_SHARE = 0.01
RARE_DOCUMENTS = 3
#: Of a title that more documents have, each is meant by so little that it is no link.
MAX_SHARED = 20

#: Kinds of link whose target is one document. Where several have the name, that of the smallest rank is
#: meant, then that of the smallest doc_id.
_EXACT = ("url", "path", "wiki", "anchor")
_BY_PAGE = ("url", "path")
_TITLE, _PAGE, _DECLARED = "title", "page", "declared"


class _Names(NamedTuple):
    """The documents by their names of one kind: ``documents[starts[i] : starts[i + 1]]`` have the name i."""

    keys: pa.Array
    starts: Rows
    documents: Rows

    def find(self, targets: pa.Array) -> Rows:
        """The number of each target's name; -1 where no document has it."""
        found: Rows = pc.index_in(targets, value_set=self.keys).fill_null(-1).to_numpy().astype(np.int64)
        return found


class LinkGraph:
    """Loaded once per manifest. A document goes by its row in ``documents`` (``SearchFile.documents``,
    ascending by doc_id: the row of ``Index.documents``), a link by its row over all shards' ``links``.

    An edge is a link to a document other than the one that holds it; a title that several documents have
    gives one edge to each. Edges ascend by source, then by place in its text:

    - ``source``, ``target``: rows of documents; ``starts``: the edges of document i are
      ``starts[i] : starts[i + 1]``.
    - ``titled``: whether it is a title that links, and no hyperlink.
    - ``count``: how often the link is in the source.
    - ``frequency``: of a title, how many documents hold it; of a hyperlink, how many link to the target.
    - ``shared``: how many documents the title means; 1 for a hyperlink.
    - ``link``: the link that it is.
    """

    def __init__(self, shards: Shards) -> None:
        self._shards = tuple(s.mapped for s in shards.documents)
        bases = np.cumsum([0, *(len(s.documents) for s in self._shards)]).astype(np.int64)
        self._bases = bases
        self._firsts = np.cumsum([0, *(s.links.num_rows for s in self._shards)]).astype(np.int64)
        self.documents = pa.concat_tables([s.documents for s in self._shards]) if self._shards else _NONE
        documents = int(bases[-1])
        names = _joined([s.names for s in self._shards], ("kind", "key"))
        self._named = _rows([s.names for s in self._shards], bases)
        self._rank = _numbers([s.names for s in self._shards], "rank", np.int8)
        self._names = names
        links = _joined([s.links for s in self._shards], ("kind", "target", "page"))
        self._holder = _rows([s.links for s in self._shards], bases)

        #: Of each link that means one document, which; -1 where none of the namespace does.
        self.meaning = np.full(len(self._holder), -1, dtype=np.int64)
        for kind in _EXACT:
            self._resolve(links, self._of_kind(links, kind), kind, "target")
        by_page = [self._of_kind(links, kind) for kind in _BY_PAGE]
        left = np.sort(np.concatenate(by_page))
        left = left[self.meaning[left] < 0]
        self._resolve(links, left, _PAGE, "page")
        hyperlinks = np.flatnonzero(self.meaning >= 0)
        targets = self.meaning[hyperlinks]

        titles = self._of_kind(links, _TITLE)
        titled, meant, holding, sharing = self._titles(links, titles, documents)

        count = _numbers([s.links for s in self._shards], "count", np.int32)
        link = np.concatenate((hyperlinks, titled))
        source, target = self._holder[link], np.concatenate((targets, meant))
        pairs = np.unique(self._holder[hyperlinks] * max(1, documents) + targets)
        linking = np.bincount(pairs % max(1, documents), minlength=documents)
        frequency = np.concatenate((linking[targets], holding))
        shared = np.concatenate((np.ones(len(hyperlinks), dtype=np.int64), sharing))
        keep = np.flatnonzero(source != target)
        # Links ascend by document and place, so their own order is that of the edges.
        keep = keep[np.argsort(link[keep], kind="stable")]
        self.source, self.target, self.link = source[keep], target[keep], link[keep]
        self.frequency, self.shared = frequency[keep], shared[keep]
        self.titled = keep >= len(hyperlinks)
        self.count = count[self.link].astype(np.int64)
        self.starts = np.searchsorted(self.source, np.arange(documents + 1))
        unresolved = self.meaning < 0
        for kind in (_TITLE, _DECLARED):
            unresolved[self._of_kind(links, kind)] = False
        #: Hyperlinks that mean no document of the namespace, ascending.
        self.unresolved = np.flatnonzero(unresolved)
        del self._names, self._named, self._rank

    def __len__(self) -> int:
        """How many edges there are."""
        return len(self.source)

    def row(self, doc_id: str) -> int | None:
        """The row of a document."""
        at = int(pc.index(self.documents.column("doc_id"), doc_id).as_py()) if len(self.documents) else -1
        return None if at < 0 else at

    def outgoing(self, document: int) -> Rows:
        """The edges from a document, in the order of its text."""
        return np.arange(self.starts[document], self.starts[document + 1])

    def incoming(self, document: int) -> Rows:
        """The edges to a document, ascending."""
        return np.flatnonzero(self.target == document)

    def unresolved_of(self, document: int) -> Rows:
        """The links of a document that mean no document, in the order of its text."""
        found: Rows = self.unresolved[self._holder[self.unresolved] == document]
        return found

    def observed(self, link: int) -> dict[str, Any]:
        """A link as observed (``shards.links.LINKS``), and the ``section`` in which it stands."""
        shard = int(np.searchsorted(self._firsts, link, side="right")) - 1
        found = self._shards[shard].links.slice(link - int(self._firsts[shard]), 1)
        row: dict[str, Any] = found.to_pylist()[0]
        chunks = self._shards[shard].chunks
        owners = numbers(chunks.column("document"), np.int32)
        first, last = np.searchsorted(owners, (row["document"], row["document"] + 1))
        starts = numbers(chunks.column("start").slice(first, last - first), np.int64)
        at = int(np.searchsorted(starts, row["start"], side="right")) - 1
        row["section"] = chunks.column("section")[first + at].as_py() if at >= 0 else ""
        return row

    def _of_kind(self, table: pa.Table, kind: str) -> Rows:
        column = table.column("kind").combine_chunks()
        code = column.dictionary.to_pylist().index(kind) if kind in column.dictionary.to_pylist() else -1
        found: Rows = np.flatnonzero(numbers(column.indices, np.int8) == code)
        return found

    def _by_name(self, kind: str) -> _Names:
        rows = self._of_kind(self._names, kind)
        encoded = self._names.column("key").combine_chunks().take(pa.array(rows)).dictionary_encode()
        codes = numbers(encoded.indices, np.int32).astype(np.int64)
        documents = self._named[rows]
        order = np.lexsort((documents, self._rank[rows], codes))
        starts = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
        return _Names(encoded.dictionary, starts, documents[order])

    def _resolve(self, links: pa.Table, rows: Rows, kind: str, column: str) -> None:
        """Note which document each of some links means, by the names of one kind."""
        if not len(rows):
            return
        names = self._by_name(kind)
        found = names.find(links.column(column).combine_chunks().take(pa.array(rows)))
        known = found >= 0
        self.meaning[rows[known]] = names.documents[names.starts[found[known]]]

    def _titles(self, links: pa.Table, rows: Rows, documents: int) -> tuple[Rows, Rows, Rows, Rows]:
        """The links by title that count: (link, document, documents that hold the title, that have it)."""
        nothing = np.zeros(0, dtype=np.int64)
        if not len(rows):
            return nothing, nothing, nothing, nothing
        names = self._by_name(_TITLE)
        found = names.find(links.column("target").combine_chunks().take(pa.array(rows)))
        rows, found = rows[found >= 0], found[found >= 0]
        # A title is one link of each document that holds it.
        holding = np.bincount(found, minlength=len(names.keys))
        sharing = np.diff(names.starts)
        common = np.concatenate(
            [s.links.column("common").to_numpy() for s in self._shards] or [np.zeros(0, dtype=bool)]
        ).astype(bool)[rows]
        rare = holding[found] <= max(RARE_DOCUMENTS, RARE_SHARE * documents)
        counts = (~common | rare) & (sharing[found] <= MAX_SHARED)
        rows, found = rows[counts], found[counts]
        degree = sharing[found]
        # Each link once for every document that has the title: names.starts[found] + 0, 1, …
        within = np.arange(int(degree.sum())) - np.repeat(np.cumsum(degree) - degree, degree)
        meant = names.documents[np.repeat(names.starts[found], degree) + within]
        return np.repeat(rows, degree), meant, np.repeat(holding[found], degree), np.repeat(degree, degree)


_NONE = pa.schema(
    [(name, pa.string()) for name in ("doc_id", "source_id", "path", "url", "title")]
).empty_table()


def _joined(parts: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    if not parts:
        kind = pa.DictionaryArray.from_arrays(pa.array([], pa.int8()), pa.array([], pa.string()))
        return pa.table({c: kind if c == "kind" else pa.array([], pa.string()) for c in columns})
    return pa.concat_tables([part.select(columns) for part in parts]).unify_dictionaries().combine_chunks()


def _rows(parts: Sequence[pa.Table], bases: Rows) -> Rows:
    """The documents of a table of each shard, as rows over all shards."""
    found = [
        numbers(part.column("document"), np.int32).astype(np.int64) + base
        for part, base in zip(parts, bases, strict=False)
    ]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _numbers(parts: Sequence[pa.Table], column: str, dtype: Any) -> Any:
    found = [numbers(part.column(column), dtype) for part in parts]
    return np.concatenate(found) if found else np.zeros(0, dtype=dtype)


def check_document(documents: pa.Table, wanted: str, shown: Sequence[str]) -> int:
    """The row of the document that is meant by a doc_id or the beginning of one, a chunk_id, a URL (as stored
    or as shown) or a path.

    Raises ``E_NOT_FOUND`` if there is none, ``E_QUERY`` if it is no text or a path of several sources.
    """
    if not isinstance(wanted, str) or not wanted.strip():
        raise TabootError("E_QUERY", "The document must be a doc_id, a URL or a path.")
    for column in ("doc_id", "url", "path"):
        rows = np.flatnonzero(pc.equal(documents.column(column), wanted).to_numpy(zero_copy_only=False))
        if column == "url" and not len(rows):
            rows = np.array([i for i, url in enumerate(shown) if url == wanted], dtype=np.int64)
        if len(rows) == 1:
            return int(rows[0])
        if len(rows):
            urls = [documents.column("url")[int(row)].as_py() for row in rows[:10]]
            raise TabootError(
                "E_QUERY",
                f"{len(rows)} documents have the path {wanted!r}.",
                remedy=f"Name one of them by its URL, such as {urls[0]}.",
                urls=urls,
            )
    # A chunk stands for its document, and the beginning of an id for what alone begins so.
    doc_id = _CHUNK.sub("", wanted)
    ids = documents.column("doc_id")
    if is_prefix(doc_id):
        rows = np.flatnonzero(pc.starts_with(ids, doc_id.lower()).to_numpy(zero_copy_only=False))
        if len(rows) == 1:
            return int(rows[0])
        if len(rows):
            raise ambiguous(doc_id, (ids[int(row)].as_py() for row in rows))
    columns = (documents.column(c).to_pylist() for c in ("source_id", "path"))
    named = [f"{source}:{path}" for source, path in zip(*columns, strict=True)]
    if wanted in named:
        return named.index(wanted)
    known = {*documents.column("path").to_pylist(), *shown}
    raise TabootError(
        "E_NOT_FOUND", f"There is no document {wanted!r}.{or_near(wanted, known)}", document=wanted
    )


# --- What one document links to, what links to it, and which of its links lead to no document

MAX_LINKS = 100_000


#: (source, path, url as stored) to the URL or path as it is shown.
ShownUrl = Callable[[str, str, str], str]


def document_links(graph: LinkGraph, shown_url: ShownUrl, document: str, limit: int) -> DocumentLinks:
    """Return at most ``limit`` links of each kind. See ``KnowledgeBase.links``."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LINKS:
        raise TabootError("E_QUERY", f"limit must be a whole number from 1 to {MAX_LINKS}.")
    row = _row_of(graph, shown_url, document)
    outgoing, incoming = graph.outgoing(row), graph.incoming(row)
    unresolved = graph.unresolved_of(row)
    doc_ids, titles = graph.documents.column("doc_id"), graph.documents.column("title")
    return DocumentLinks(
        doc_id=doc_ids[row].as_py(),
        title=titles[row].as_py(),
        url=_shown_url(graph, shown_url, row),
        outgoing=tuple(_edge(graph, shown_url, int(e), int(graph.target[e])) for e in outgoing[:limit]),
        incoming=tuple(_edge(graph, shown_url, int(e), int(graph.source[e])) for e in incoming[:limit]),
        unresolved=tuple(_link(graph, int(link), "hyperlink") for link in unresolved[:limit]),
        truncated=any(len(found) > limit for found in (outgoing, incoming, unresolved)),
    )


def _row_of(graph: LinkGraph, shown_url: ShownUrl, document: str) -> int:
    """The row of a document; that of an id is found without a look at the others."""
    documents = graph.documents
    row: int = pc.index(documents.column("doc_id"), document).as_py() if isinstance(document, str) else -1
    if row >= 0:
        return row
    columns = (documents.column(c).to_pylist() for c in ("source_id", "path", "url"))
    return check_document(documents, document, [shown_url(*place) for place in zip(*columns, strict=True)])


def _shown_url(graph: LinkGraph, shown_url: ShownUrl, row: int) -> str:
    return shown_url(*(graph.documents.column(c)[row].as_py() for c in ("source_id", "path", "url")))


def _edge(graph: LinkGraph, shown_url: ShownUrl, edge: int, other: int) -> Link:
    kind = "title" if graph.titled[edge] else "hyperlink"
    return _link(
        graph,
        int(graph.link[edge]),
        kind,
        doc_id=graph.documents.column("doc_id")[other].as_py(),
        title=graph.documents.column("title")[other].as_py(),
        url=_shown_url(graph, shown_url, other),
    )


def _link(graph: LinkGraph, link: int, kind: str, **other: str) -> Link:
    row = graph.observed(link)
    names = ("target", "fragment", "text", "section", "line", "start", "end", "count")
    return Link(kind=kind, **{name: row[name] for name in names}, **other)
