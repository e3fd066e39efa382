"""Documents as their statements, put together from their chunks, with the words of each ready to compare."""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model.offsets import Places, read_places
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.retrieval.sentences import Form, TextStatement, statements
from taboot_pipelines.retrieval.session import View

# --- Documents that say of themselves that they are not in force

#: The status of a decision record, a proposal or a standard (MADR, PEP 1, RFC 2026) that does not hold: in
#: front matter, a line or a row of its own, or under a heading.
_STATUS = re.compile(
    r"^\W{0,6}status\W{1,8}((?:superseded|deprecated|rejected|withdrawn|obsoleted?|retired)\b[^\n|]*)",
    re.IGNORECASE | re.MULTILINE,
)
#: Code points of a document in which its own status stands.
_BEGINNING = 2_000


def not_in_force(text: str) -> str:
    """What a document says of itself at its beginning if it does not hold; else empty."""
    said = _STATUS.search(text[:_BEGINNING])
    return said[1].strip(" *_`\"'") if said else ""


# --- Questions that a text asks itself ("Q: May I park here? A: No."): each heads what follows it

_MARK = re.compile(r"\W*(?:Q(?:uestion)?|F|A(?:nswer)?)\s?\d*\s?[:.)]\s+(?=\S)")
#: One question may be rhetorical.
_MIN_QUESTIONS = 2


def under_questions(statements: Sequence[TextStatement]) -> list[TextStatement]:
    """The statements with what follows a question, up to the next one or the end of its section, put under it
    as under a heading. A question counts that begins a paragraph or an item which is no step.
    """
    asks = [_asks(s) for s in statements]
    if sum(asks) < _MIN_QUESTIONS:
        return list(statements)
    found = []
    question: TextStatement | None = None
    for s, is_question in zip(statements, asks, strict=True):
        if s.form is Form.HEADING or (question is not None and s.section != question.section):
            question = None
        if is_question:
            question = s
            found.append(replace(s, form=Form.HEADING, said=_MARK.sub("", s.said, count=1)))
        elif question is not None:
            asked = _MARK.sub("", question.said, count=1)
            section = f"{s.section} > {asked}" if s.section else asked
            said = _MARK.sub("", s.said, count=1) if s.form is not Form.CODE else s.said
            found.append(replace(s, section=section, said=said))
        else:
            found.append(s)
    return found


def _asks(s: TextStatement) -> bool:
    whole = s.said.endswith("?") and not s.before and s.ordinal is None
    return whole and s.form in (Form.SENTENCE, Form.ITEM)


#: A long document is read in windows of so many chunks, each with some of its neighbours.
_WINDOW = 64
_BESIDE = 8
#: Code points of read documents that are kept.
_MAX_KEPT = 4_000_000


@dataclass(frozen=True, slots=True)
class Words:
    """What the words of a statement may be found by, where they stand: in itself, in what leads in to it, in
    its headings.
    """

    own: frozenset[str]
    lead: frozenset[str]
    section: frozenset[str]


@dataclass
class ReadDocument:
    """A window of a document. ``text`` begins at code point ``start``; ``statements`` are relative to it."""

    doc_id: str
    source: str
    url: str
    title: str
    path: str
    start: int
    text: str
    statements: list[TextStatement]
    #: Of each chunk: start and end in ``text``, id, first line (None: not known).
    chunks: list[tuple[int, int, str, int | None]]
    named: frozenset[str]
    #: Whether all of it is code or configuration.
    code: bool = False
    #: Where in its URL its passages are, if they have places of their own there.
    places: Places | None = None
    #: What the document says of itself if it is not in force any more, or never was: "Superseded by ADR-7".
    status: str = ""
    _words: dict[int, Words] = field(default_factory=dict)
    _sections: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._starts = [s.start for s in self.statements]

    def words(self, number: int) -> Words:
        """Of the statement ``number``."""
        known = self._words.get(number)
        if known is None:
            s = self.statements[number]
            known = Words(
                words.forms(s.said),
                self._forms(" ".join((s.lead, *s.keys)).strip()),
                self._forms(s.section),
            )
            self._words[number] = known
        return known

    def _forms(self, text: str) -> frozenset[str]:
        if not text:
            return frozenset()
        known = self._sections.get(text)
        if known is None:
            known = self._sections[text] = words.forms(text)
        return known

    def between(self, start: int, end: int) -> range:
        """The numbers of the statements that begin in ``[start, end)`` of ``text``."""
        return range(bisect_left(self._starts, start), bisect_left(self._starts, end))

    def place(self, at: int) -> tuple[str, int | None]:
        """The chunk in which the code point ``at`` of ``text`` stands, and its line there."""
        for start, end, chunk_id, line in self.chunks:
            if start <= at < end:
                return chunk_id, None if line is None else line + self.text.count("\n", start, at)
        return self.chunks[0][2], None


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """A passage that the search found: a window of a document and ``[start, end)`` of its text. ``own``: it
    is the house's own; ``text``: it is of a source of documents, not of one that declares things.
    """

    document: ReadDocument
    start: int
    end: int
    own: bool
    text: bool = True


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of an answer: the statements ``first`` to ``last`` of a document, which stand together;
    ``text``: how they are shown; ``sure``: how probable it is that they answer.
    """

    document: ReadDocument
    first: int
    last: int
    text: str
    sure: float

    @property
    def span(self) -> tuple[int, int]:
        """The code points ``[start, end)`` of the document's text."""
        return self.document.statements[self.first].start, self.document.statements[self.last].end


class Documents:
    """Read documents, of which the last are kept. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], ReadDocument] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(self, view: View, row: int) -> ReadDocument:
        """The window of a document in which the chunk ``row`` lies."""
        index = view.index
        doc = int(index.document[row])
        first = int(np.searchsorted(index.document, doc, "left"))
        last = int(np.searchsorted(index.document, doc, "right"))
        window = (row - first) // _WINDOW
        blob = index.documents.column("blob_sha256")[doc].as_py()
        key = (index.documents.column("doc_id")[doc].as_py(), str(blob), window)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        at = first + window * _WINDOW
        made = _read(view, index, max(first, at - _BESIDE), min(last, at + _WINDOW + _BESIDE))
        beginning = made.text if made.start == 0 else next(iter(index.chunk_texts(first, first + 1))).text
        made.status = "" if made.code else not_in_force(beginning)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._size += len(made.text)
            while self._size > _MAX_KEPT and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1].text)
        return made


def _read(view: View, index: Index, first: int, last: int) -> ReadDocument:
    doc = index.chunk(first)["doc"]
    parts: list[str] = []
    chunks = []
    code = True
    start = at = -1
    for chunk in index.chunk_texts(first, last):
        if start < 0:
            start = at = chunk.start
        if chunk.start > at:
            # Only blanks lie between chunks.
            parts.append("\n" * (chunk.start - at))
            at = chunk.start
        if chunk.end > at:
            parts.append(chunk.text[at - chunk.start :])
            at = chunk.end
        code = code and chunk.content_type == "code"
        chunks.append(
            (chunk.start - start, chunk.end - start, f"{doc['doc_id']}:{chunk.chunk_index}", chunk.line)
        )
    section = index.chunk(first)["section"]
    text = "".join(parts)
    path = PurePosixPath(doc["path"].split("?")[0])
    names = " ".join([doc["title"], path.name, *path.parent.parts[-2:]])
    code = code and "```" not in text and "~~~" not in text and path.suffix not in (".md", ".html", ".rst")
    found = under_questions(statements(text, code=code))
    if code and "$" in text:
        found = _resolved(view, doc["doc_id"], found, chunks, text)
    if section and start > 0:  # the headings that it stands under are not in the window
        found = [s if s.section else _under(s, section) for s in found]
    return ReadDocument(
        doc["doc_id"],
        doc["source_id"],
        view.shown_url(doc["source_id"], doc["path"], doc["url"]),
        doc["title"],
        doc["path"],
        start,
        text,
        found,
        chunks,
        words.forms(names.replace("_", " ")),
        code,
        places=read_places(doc["places"]) if doc["places"] else None,
    )


def _resolved(
    view: View,
    doc_id: str,
    found: list[TextStatement],
    chunks: Sequence[tuple[int, int, str, int | None]],
    text: str,
) -> list[TextStatement]:
    """The statements with the images that are named by variables: what was interpreted knows their values,
    which may stand in a file that is no document (``.env``)."""
    edges = view.graph.edges
    of_doc = pc.and_(pc.equal(edges.column("doc_id"), doc_id), pc.equal(edges.column("type"), "BUILDS"))
    rows = np.flatnonzero(of_doc.to_numpy() & (view.graph.end >= 0))
    if not len(rows):
        return found
    lines = edges.column("line").take(pa.array(rows)).to_pylist()
    nodes = view.graph.nodes.take(pa.array(view.graph.end[rows])).column("properties").to_pylist()
    known = {line: str(json.loads(n).get("reference") or "") for line, n in zip(lines, nodes, strict=True)}
    first = chunks[0][3]
    if first is None:
        return found
    return [
        replace(s, said=f"{s.said} ({value})")
        if "$" in s.said
        and (value := known.get(first + text.count("\n", 0, s.start), "")) not in ("", s.said)
        else s
        for s in found
    ]


def _under(s: TextStatement, section: str) -> TextStatement:
    return replace(s, section=section)
