"""The blocks of pages: rows and passages with the places where they stand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval.handbook.instructions import Excerpt, Text
from taboot_pipelines.retrieval.handbook.naming import What
from taboot_pipelines.retrieval.handbook.pages import Cell, Passage, Place, Row, Said, Table
from taboot_pipelines.retrieval.handbook.scripts import Lines, Script
from taboot_pipelines.retrieval.queries.citations import StatementSpan
from taboot_pipelines.retrieval.queries.house import Arguments, House
from taboot_pipelines.retrieval.queries.service_index import Document
from taboot_pipelines.retrieval.rendering import outside
from taboot_pipelines.retrieval.sentences import Form, TextStatement

#: Places of one statement, code points of a quote, rows of a table.
_PLACES, _QUOTE, _ROWS = 6, 240, 500
_ITEM = re.compile(r"[>\s]*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
_FENCE, _COMMENT = re.compile(r"[>\s]*(?:```|~~~)"), re.compile(r"\s*(?:#|//|;)")

#: The line of the file at which code points of a document stand, where its text is not that of its file.
LineOf = Callable[[str, int, int], int]


class Blocks:
    """Makes blocks of one view. ``page_of``: the page of each thing that has one."""

    def __init__(self, house: House, page_of: Mapping[What, str], line_of: LineOf) -> None:
        self._house, self._index = house, house.index
        self._page_of, self._line_of = page_of, line_of
        self.services = house.declared(Arguments())

    def cell(self, node: int, code: bool = False) -> Cell:
        """A service, a host or another node, with its page if it has one."""
        service = self._index.services.get(node)
        name = service.name if service is not None else self._index.name(node)
        shared = service is not None and service.declared and service.name in self._index.shared_names
        text = f"{name} ({service.project})" if shared and service is not None else name
        if self._index.label(node) == "ReverseProxy":
            own = [s.number for s in self.services if name in (s.name, s.properties.get("containerName"))]
            node = own[0] if len(own) == 1 else node
        pages = (self._page_of.get((kind, node)) for kind in ("service", "host", "network"))
        return Cell(text, next(filter(None, pages), ""), code)

    def place(self, span: StatementSpan) -> Place | None:
        document = self._index.documents.get(span.doc_id)
        if document is None or not span.line:
            return None
        quote = self._index.line_text(span.doc_id, span.line) if has_lines(document.mime) else ""
        quote = quote or self._index.text(span.doc_id)[span.start : span.end].strip().partition("\n")[0]
        file = self._files.get(span.doc_id, "")
        page = next(filter(None, (self._page_of.get((kind, span.doc_id)) for kind in ("text", "script"))), "")
        return Place(file, span.line, quote[:_QUOTE], page)

    @cached_property
    def _files(self) -> dict[str, str]:
        """What each document is called: ``source:path``, or its URL on the web."""
        rows = rows_of(self._house.view.graph.documents, "doc_id", "source_id", "path", "url")
        return {d: url if outside(url) else f"{source}:{path}" for d, source, path, url in rows}

    def places(self, spans: Iterable[StatementSpan]) -> tuple[Place, ...]:
        found = dict.fromkeys(p for p in map(self.place, spans) if p is not None)
        return tuple(found)[:_PLACES]

    def row(self, cells: Iterable[Cell | str], spans: Iterable[StatementSpan]) -> Row | None:
        """A row; none where nothing says so in a line of a file."""
        places = self.places(spans)
        return Row(tuple(Cell(c) if isinstance(c, str) else c for c in cells), places) if places else None

    def span(self, text: Text, s: TextStatement) -> StatementSpan:
        doc_id = text.document.doc_id
        if has_lines(text.document.mime):
            line = text.text.count("\n", 0, s.start) + 1
        else:
            line = self._line_of(doc_id, s.start, s.end)
        return StatementSpan(doc_id, line, s.start, s.end)

    def said(self, text: Text, numbers: Sequence[int]) -> list[Said | Table]:
        """Statements as blocks: the sentences of a paragraph or a step together, rows of one table, and the
        lines of one block of code."""
        blocks: list[Said | Table] = []
        for _, run in groupby(numbers, key=text.units.__getitem__):
            shown = list(run)
            found = [text.statements[n] for n in shown]
            forms = {s.form for s in found}
            if Form.CODE in forms:
                whole = len(found) == text.units.count(text.units[shown[0]])
                code, start = _code_of(text.text, found[0].start, found[-1].end, whole)
                place = self.places([self.span(text, replace(found[0], start=start))])
                blocks += [Said("code", [(code, place)])] if place else []
            elif Form.ROW in forms:
                columns = list(dict.fromkeys(header for s in found for header, _ in s.cells))
                rows = [
                    self.row([dict(s.cells).get(c, "") for c in columns], [self.span(text, s)]) for s in found
                ]
                made = table(columns, rows)
                blocks += [made] if made.rows else []
            else:
                first = found[0]
                listed = _ITEM.fullmatch(text.text, text.text.rfind("\n", 0, first.start) + 1, first.start)
                form = "heading" if first.form is Form.HEADING else "item" if listed else "sentence"
                parts = [(s.said, self.places([self.span(text, s)])) for s in found]
                parts = [(said, places) for said, places in parts if places]
                blocks += [Said(form, parts, first.ordinal)] if parts else []
        return blocks

    def begin(self, excerpt: Excerpt) -> StatementSpan:
        return self.span(excerpt.text, excerpt.text.statements[excerpt.numbers[0]])

    def passage(self, excerpt: Excerpt) -> Passage | None:
        document = excerpt.text.document
        blocks = self.said(excerpt.text, excerpt.numbers)
        if not blocks:
            return None
        meant = f"This may speak of any of {excerpt.meant} services." if excerpt.meant > 1 else ""
        under = " > ".join(excerpt.path[1:] if excerpt.path[0] == document.title else excerpt.path)
        return Passage(blocks, self.title(document), self.at(excerpt), under, meant)

    def head_of(self, script: Script) -> StatementSpan:
        return self._span_of(script.document, script.head)

    def _span_of(self, document: Document, lines: Lines) -> StatementSpan:
        start, said = lines
        line = self._index.text(document.doc_id).count("\n", 0, start) + 1
        return StatementSpan(document.doc_id, line, start, start + len(said))

    def of_script(self, script: Script, service: int = -1) -> Passage:
        """What a script says of itself; and the lines of it that name a service."""
        shown = [script.head, *script.named.get(service, ())]
        code = [
            Said("code", [(said, self.places([self._span_of(script.document, (at, said))]))])
            for at, said in dict.fromkeys(shown)
        ]
        remark = f"By its name and its first comment this is to {' and to '.join(script.actions)}."
        if script.beside and service >= 0 and not script.named[service]:
            remark += f" It lies where {self._index.services[service].name} is declared."
        page = self._page_of.get(("script", script.document.doc_id), "") if service >= 0 else ""
        return Passage(code, script.document.path, page, "", remark)

    def at(self, excerpt: Excerpt) -> str:
        """The page of an excerpt's document, at the heading that it stands under."""
        text = excerpt.text
        above = (n for n in range(excerpt.numbers[0], -1, -1) if text.statements[n].form is Form.HEADING)
        heading = next(above, None)
        page = self._page_of.get(("text", text.document.doc_id), "")
        line = self.span(text, text.statements[heading]).line if heading is not None else 0
        return f"{page}#L{line}" if page and line else page

    def title(self, document: Document) -> str:
        """What a document is called, with its path where others have its title."""
        if not document.title or document.title == document.path:
            return document.path
        shared = self._titles[document.title] > 1
        return f"{document.title} ({document.path})" if shared else document.title

    @cached_property
    def _titles(self) -> Counter[str]:
        return Counter(d.title for d in self._index.documents.values())


def has_lines(mime: str) -> bool:
    """Whether the text of a document has the lines of its file."""
    return (mime.startswith("text/") and "html" not in mime) or is_code(mime)


def _code_of(text: str, start: int, end: int, whole: bool) -> tuple[str, int]:
    """Lines of code without what all of them are indented by, and where they begin; ``whole``: with all that
    stands in their fence, comments too."""
    start = text.rfind("\n", 0, start) + 1
    while whole and start and not _FENCE.match(above := text[text.rfind("\n", 0, start - 1) + 1 : start]):
        if not above.strip() or not _COMMENT.match(above):
            break
        start -= len(above)
    lines = text[start:end].split("\n")
    margin = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
    return "\n".join(x[margin:].rstrip() for x in lines), start


def table(columns: Sequence[str], rows: Iterable[Row | None]) -> Table:
    """A table of rows that differ in their cells, with the places of all."""
    found: dict[tuple[Cell, ...], tuple[Place, ...]] = {}
    for row in rows:
        if row is not None:
            found[row.cells] = tuple(dict.fromkeys((*found.get(row.cells, ()), *row.places)))[:_PLACES]
    return Table(tuple(columns), [Row(cells, places) for cells, places in found.items()][:_ROWS])
