"""What a typed query returns: rows with the places that say so, and what its answer covers."""

from __future__ import annotations

import pyarrow as pa

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import SourceLocation, SourceLocations
from taboot_pipelines.retrieval.results.base import Result, TableResult

#: What a cell of a row may be.
Cell = str | int | bool | None


class RowCitation(Result):
    """Where a row stands: code points ``[start, end)`` of a document, and its line. ``edge_id``: the edge
    that says so, or empty where it is a setting; ``chunk_id``: the chunk that holds it. ``explain`` takes
    either.
    """

    doc_id: str
    url: str
    line: int
    start: int
    end: int
    text: str
    edge_id: str = ""
    chunk_id: str = ""


class QueryRow(Result):
    """One row: its cells by column, and its citations."""

    cells: dict[str, Cell]
    citations: tuple[RowCitation, ...]

    @property
    def text(self) -> str:
        """Its cells by their columns, without those that are empty."""
        return ", ".join(f"{name} {value}" for name, value in self.cells.items() if value not in (None, ""))


class QueryParameter(Result):
    """A parameter of a typed query. ``kind``: what it names (service, project, host, network, proxy, image),
    or port (a number), text, flag."""

    name: str
    kind: str
    required: bool = False


class QueryDescription(Result):
    """A typed query. ``reads``: relations of the graph, or ``settings``; ``examples``: questions that it
    answers, names as slots."""

    name: str
    summary: str
    parameters: tuple[QueryParameter, ...]
    columns: tuple[str, ...]
    reads: tuple[str, ...]
    examples: tuple[str, ...] = ()


class QueryList(TableResult):
    """All typed queries."""

    queries: tuple[QueryDescription, ...]

    def to_arrow(self) -> pa.Table:
        """One row a query; lists as text."""
        return pa.table(
            {
                "name": [q.name for q in self.queries],
                "summary": [q.summary for q in self.queries],
                "parameters": [", ".join(p.name for p in q.parameters) for q in self.queries],
                "columns": [", ".join(q.columns) for q in self.queries],
                "reads": [", ".join(q.reads) for q in self.queries],
            }
        )

    def _repr_html_(self) -> str:
        rows = [(q.name, q.summary, ", ".join(p.name for p in q.parameters)) for q in self.queries]
        return rendering.table(f"{len(rows)} queries", ("query", "what it tells", "asked with"), rows)


class QueryResult(TableResult):
    """The rows of a typed query. ``total``: how many there are, of which ``rows`` holds the first;
    ``text``: they as sentences, or what it means that there is none.

    ``complete``: whether there is provably no other row: what could say so is declared, and was read whole.
    ``scope``: what was looked through; ``unseen``: what could not be seen; ``named_in``: where nothing
    declares what was asked, the documents that name it all the same.
    """

    query: str
    parameters: dict[str, Cell]
    columns: tuple[str, ...]
    rows: tuple[QueryRow, ...]
    total: int
    text: str
    complete: bool
    scope: str
    unseen: tuple[str, ...] = ()
    named_in: tuple[RowCitation, ...] = ()

    @property
    def truncated(self) -> bool:
        return self.total > len(self.rows)

    def to_arrow(self) -> pa.Table:
        """One row a row: its cells, and the place of its first citation."""
        columns: dict[str, pa.Array] = {n: _column([r.cells[n] for r in self.rows]) for n in self.columns}
        first = [r.citations[0] if r.citations else None for r in self.rows]
        for name in ("url", "line", "edge_id", "chunk_id"):
            columns[name] = _column([None if c is None else getattr(c, name) for c in first])
        return pa.table(columns)

    def _repr_html_(self) -> str:
        rows: list[list[rendering.Cell]] = [
            [*("" if c is None else str(c) for c in r.cells.values()), _places(r)] for r in self.rows
        ]
        count = f"{self.total:,} row{'' if self.total == 1 else 's'}"
        cut = f", the first {len(self.rows):,} of them" if self.truncated else ""
        caption = f"{self.query}: {count}{cut}. {self.scope}" + "".join(f" {u}" for u in self.unseen)
        return rendering.table(
            caption, (*self.columns, "where"), rows, lead=self.text if not self.rows else ""
        )


def _column(cells: list[Cell]) -> pa.Array:
    """Cells as a column of their one type; as text where they have several or none."""
    types = {type(c) for c in cells if c is not None}
    if len(types) == 1:
        return pa.array(cells)
    return pa.array([None if c is None else str(c) for c in cells], pa.string())


def _places(row: QueryRow) -> SourceLocations:
    return SourceLocations(tuple(dict.fromkeys(SourceLocation(c.url, c.line) for c in row.citations)))
