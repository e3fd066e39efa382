"""Run a typed query on one view: check and resolve its arguments, take its rows, say them, and say what the
answer covers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.model.graph import TEXT_METHOD
from taboot_pipelines.retrieval.queries.catalog import QUERIES, Query, Sentence
from taboot_pipelines.retrieval.queries.citations import StatementSpan, cite, listed, plural, unread
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.queries.relations import left_open, unexplained_mentions
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, distinct
from taboot_pipelines.retrieval.request import check_limit
from taboot_pipelines.retrieval.results.queries import (
    Cell,
    QueryDescription,
    QueryList,
    QueryParameter,
    QueryResult,
    QueryRow,
    RowCitation,
)
from taboot_pipelines.sources import stance_of

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.session import View

MAX_ROWS = 100_000
#: Sentences that rows are said in, citations of one row, and documents that name what nothing declares.
_MAX_SAID, _MAX_CITED, _MAX_NAMING = 25, 25, 3
#: Texts that a caller gave, in messages.
_MAX_TOLD = 100
_LAST_PORT = 65_535
_LABELS = {"network": "Network", "proxy": "ReverseProxy", "image": "Image"}


@cache
def described(examples: Callable[[str], Iterable[str]]) -> QueryList:
    """All queries. ``examples``: gives the wordings of a type of question."""
    return QueryList(
        queries=tuple(
            QueryDescription(
                name=q.name,
                summary=q.summary,
                parameters=q.parameters,
                columns=q.columns,
                reads=q.reads,
                examples=tuple(itertools.chain(*(itertools.islice(examples(a), 2) for a in q.answers))),
            )
            for q in QUERIES.values()
        )
    )


def named(name: object) -> Query:
    """The query of a name. Raises ``E_QUERY`` with the nearest."""
    found = QUERIES.get(name) if isinstance(name, str) else None
    if found is None:
        shown = str(name)[:_MAX_TOLD]
        raise TabootError(
            "E_QUERY",
            f"There is no query {shown!r}.{or_near(shown, QUERIES)}",
            remedy="`taboot query` lists them.",
        )
    return found


def run(house: House, query: Query, given: Mapping[str, Any], limit: int) -> QueryResult:
    """The rows of a query, at most ``limit`` of them. Raises ``E_QUERY`` for a wrong argument,
    ``E_NOT_FOUND`` for a name that nothing has."""
    check_limit(limit, MAX_ROWS)
    citation = RowCitations(house).of
    args = _arguments(house, query, given)
    rows = _distinct(query.run(house, args))
    shown = tuple(
        QueryRow(
            cells={c: row.cells[c] for c in query.columns},
            citations=tuple(map(citation, row.cites[:_MAX_CITED])),
        )
        for row in rows[:limit]
    )
    # Of what nothing can be complete no more needs to be said.
    doubts = [said for doubt in query.doubts if query.closed and (said := doubt(house, args))]
    unseen = (*unread(house.view), *doubts)
    looked_at = (args.services or house.declared(args)) if query.field else ()
    left = any(left_open(s, query.field) for s in looked_at)
    asked = args.services if not rows else ()
    naming = [e for s in asked for e in unexplained_mentions(house.index, s)] if not query.closed else []
    named_in = citations(house, naming[:_MAX_NAMING])
    return QueryResult(
        query=query.name,
        parameters={n: v for n, v in given.items() if v is not None},
        columns=query.columns,
        rows=shown,
        total=len(rows),
        text=_said(query, rows) or _nothing(house, query, args, [c.doc_id for c in named_in]),
        complete=query.closed and not unseen and not left,
        scope=_scope(house),
        unseen=unseen,
        named_in=named_in,
    )


def citations(house: House, edges: Iterable[Edge]) -> tuple[RowCitation, ...]:
    """Where edges stand."""
    citation = RowCitations(house).of
    return tuple(citation(cite(edge)) for edge in edges)


# --- Arguments


def _arguments(house: House, query: Query, given: Mapping[str, Any]) -> Arguments:
    known = {p.name: p for p in query.parameters}
    unknown = [n for n in given if n not in known]
    if unknown:
        raise TabootError(
            "E_QUERY",
            f"The query {query.name} has no parameter {unknown[0][:_MAX_TOLD]!r}; it is asked with"
            f" {listed(list(known))}.",
        )
    values = {n: _checked(query, known[n], v) for n, v in given.items() if v is not None}
    missing = [p.name for p in query.parameters if p.required and p.name not in values]
    if missing:
        raise TabootError("E_QUERY", f"The query {query.name} needs {listed(missing)}.")
    texts = {n: v for n, v in values.items() if isinstance(v, str)}
    projects = house.projects_named(texts["project"]) if "project" in texts else frozenset()
    hosts = house.hosts_named(texts["host"]) if "host" in texts else frozenset()
    nodes = {n: house.nodes_named(label, texts[n]) for n, label in _LABELS.items() if n in texts}
    within = Arguments(projects=projects, hosts=hosts)
    return Arguments(
        services=_services(house, texts.get("service"), within),
        others=_services(house, texts.get("other"), within),
        projects=projects,
        hosts=hosts,
        networks=nodes.get("network", ()),
        proxies=nodes.get("proxy", ()),
        images=nodes.get("image", ()),
        port=int(values["port"]) if "port" in values else None,
        text=texts,
        transitive=bool(values.get("transitive")),
    )


def _services(house: House, name: str | None, within: Arguments) -> tuple[Service, ...]:
    if name is None:
        return ()
    every = house.services_named(name)
    found = tuple(s for s in every if within.within(s))
    if not found:
        places = listed([f"{s.name} ({s.project})" if s.declared else s.name for s in every])
        raise TabootError("E_NOT_FOUND", f"No {name!r} is there; what is called so is {places}.")
    # What is known by its name alone is a service of its own only where none is declared.
    return tuple(s for s in found if s.declared) or found


def _checked(query: Query, parameter: QueryParameter, value: object) -> str | int | bool:
    """A value of the kind that the parameter takes."""
    wrong = TabootError(
        "E_QUERY",
        f"{parameter.name} of the query {query.name} must be"
        f" {_KINDS.get(parameter.kind, 'a name')}, not {str(value)[:_MAX_TOLD]!r}.",
    )
    if parameter.kind == "flag":
        told = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if isinstance(value, bool) or (isinstance(value, str) and value.lower() in told):
            return told[str(value).lower()]
        raise wrong
    if parameter.kind == "port":
        text = str(value)
        if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= len("65535")):
            raise wrong
        if not 1 <= int(text) <= _LAST_PORT:
            raise wrong
        return int(text)
    if not isinstance(value, str) or not value.strip():
        raise wrong
    return value.strip()


_KINDS = {"flag": "true or false", "port": f"a number from 1 to {_LAST_PORT}", "text": "a text"}


def _distinct(rows: Iterable[Row]) -> list[Row]:
    """Rows with the same cells as one, with the citations of all."""
    found: dict[tuple[tuple[str, Cell], ...], list[StatementSpan]] = {}
    for row in rows:
        found.setdefault(tuple(row.cells.items()), []).extend(row.cites)
    return [Row(dict(cells), list(dict.fromkeys(spans))) for cells, spans in found.items()]


# --- What is returned


class RowCitations:
    """Makes citations; each document is looked up and cut into lines once."""

    def __init__(self, house: House) -> None:
        self._index = house.view.index
        self._url = cache(house.view.document_url)
        self._lines = cache(lambda doc_id: house.index.text(doc_id).split("\n"))

    def of(self, span: StatementSpan) -> RowCitation:
        row, lines = self._index.row_at(span.doc_id, span.start), self._lines(span.doc_id)
        return RowCitation(
            doc_id=span.doc_id,
            url=self._url(span.doc_id),
            line=span.line,
            start=span.start,
            end=span.end,
            text=lines[span.line - 1].strip() if 0 < span.line <= len(lines) else "",
            edge_id=span.edge_id,
            chunk_id="" if row is None else self._index.chunk_id(row),
        )


def _said(query: Query, rows: Sequence[Row]) -> str:
    """Rows as sentences; empty if there is none."""
    frame = query.sentence
    groups: dict[str, list[str]] = {}
    for who, what in (phrase(frame, row.cells) for row in rows):
        groups.setdefault(who, []).append(what)
    sentences = [" ".join(filter(None, (who, frame.verb, listed(what)))) for who, what in groups.items()]
    more = len(sentences) - _MAX_SAID
    text = ". ".join(
        f"{said[0].upper()}{said[1:]}" if not frame.subject else said for said in sentences[:_MAX_SAID]
    )
    return f"{text}{f'; and {more} more' if more > 0 else ''}." if sentences else ""


def phrase(frame: Sentence, row: Mapping[str, object]) -> tuple[str, str]:
    """The subject and the object of the sentence that a row is said in."""
    cells = {c: "" if v is None else str(v) for c, v in row.items()}
    if cells.get("hostname") and cells.get("path") == "/":
        cells["path"] = ""
    details = ", ".join(filter(None, (cells[d] for d in frame.details)))
    alone = "{project}" in frame.subject
    what = frame.objects.format(**cells) if alone else _with_project(frame.objects, cells).rstrip(":")
    return _with_project(frame.subject, cells), what + (f" ({details})" if details else "")


def _with_project(frame: str, cells: Mapping[str, str]) -> str:
    """A part of a sentence; a service that stands alone in it with its project."""
    said = frame.format(**cells)
    return f"{said} ({cells['project']})" if frame == "{service}" and cells.get("project") else said


def _nothing(house: House, query: Query, args: Arguments, naming: Sequence[str]) -> str:
    names = [f"{s.name} ({s.project})" if s.declared else s.name for s in args.services]
    open_ = [v for s in args.services for v in left_open(s, query.field)] if query.field else []
    if open_:
        return f"{listed(names)}: set elsewhere, by {listed(distinct(open_))}."
    text = f"{listed(names)}: {query.none}" if names else f"{query.none[0].upper()}{query.none[1:]}"
    if naming:
        text += f"; it is named in {listed([house.index.documents[d].path for d in naming])}"
    return f"{text}."


def _scope(house: House) -> str:
    """What was looked through: the configuration of the sources that declare the house, or state anything of
    it, whatever machine their entries name."""
    stating = house.view.once(_stating)
    known = house.view.manifest.sources.items()
    told = {d.source for d in house.index.documents.values() if d.doc_id in stating}
    sources = {s for s, e in known if stance_of(e.type).of_the_house or s in told}
    files = {d.doc_id for d in house.index.config_documents if d.source in sources}
    files |= {d for d in stating if house.index.documents[d].source in sources}
    return f"Read: {plural(len(files), 'file')} of {plural(len(sources), 'source')} that declare the house."


def _stating(view: View) -> frozenset[str]:
    """The documents that state relations by more than their words."""
    edges = view.graph.edges
    of_text = pc.starts_with(edges.column("extraction_method"), TEXT_METHOD)
    stated = pc.and_(pc.not_equal(edges.column("type"), "MENTIONS"), pc.invert(of_text))
    return frozenset(edges.column("doc_id").filter(stated).unique().to_pylist())
