"""What an assistant may ask a knowledge base, and change where that is allowed: each tool a method that takes
plain values and returns a short text.

Every fact has its file and line and an id that ``explain`` takes. Text of documents stands behind a mark (see
``texts``), so that what a document orders is told from what the server says.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from taboot_pipelines.errors import TabootError, or_near, unknown_sources
from taboot_pipelines.knowledge.drift.facts import DriftKind
from taboot_pipelines.mcp.texts import (
    MARK,
    MAX_CHARS,
    MAX_LINE,
    Page,
    cells,
    counted,
    plain,
    quoted,
    start_of,
)
from taboot_pipelines.model.graph import EDGES, NODES
from taboot_pipelines.retrieval.impact import KINDS
from taboot_pipelines.retrieval.queries.run import MAX_ROWS
from taboot_pipelines.retrieval.rendering import short_url, with_line
from taboot_pipelines.retrieval.snippets import best_lines, heading
from taboot_pipelines.retrieval.verbalization import relation

if TYPE_CHECKING:
    from taboot_pipelines.retrieval import KnowledgeBase
    from taboot_pipelines.retrieval.results.graph import Edge
    from taboot_pipelines.retrieval.results.queries import QueryResult, QueryRow, RowCitation

#: So much of an id is told, which ``explain`` takes.
_ID = 12
#: Of a hit's text, of a question's citations and of a page of a document.
_HIT_LINES, _CITED, _DOCUMENT_LINES = 4, 6, 40
#: Of the text of an answer.
_ANSWER_LINES = 20
#: Of all that share one thing with a service.
_SHARING = 3
#: Hits of one page, and of all pages.
_HITS, _MAX_FOUND = 5, 50
#: Documents that changed, and passages that are shown of each.
_MAX_CHANGES, _PASSAGES = 500, 3
#: Room for what stands around the lines of a document.
_LEAD = 320
#: How long an ingest may take that an assistant asks for.
_INGEST_SECONDS = 3600

#: A place as answers name it, ``source: path:line`` or a part of that.
_PLACE = re.compile(
    r"(?:(?P<source>[a-z0-9][a-z0-9_-]*): )?(?P<path>.+?)(?::(?P<line>[0-9]{1,7}))?", re.DOTALL
)

Value = str | int | bool | None

# --- What the tools take: a type, and a sentence for who asks

Cursor = Annotated[str | None, Field(description="What an answer ended with, to go on from there.")]
Source = Annotated[str | None, Field(description="The id of one source, as `sources` lists them.")]
Label = Annotated[
    str | None, Field(description=f"What kind of thing is meant by the name: {', '.join(sorted(NODES))}.")
]


class Tools:
    """The tools that only read. Safe to use from several threads."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        #: The last result of a query, with what was asked and the publication that it is of.
        self._found: tuple[tuple[object, ...], QueryResult] | None = None

    # --- what is asked for in words -------------------------------------------------------------------------

    def ask(
        self,
        question: Annotated[str, Field(description="One question in plain words, about one thing.")],
        cursor: Cursor = None,
    ) -> str:
        """Answer a question about the infrastructure from its files and documents, with citations.

        Says plainly when nothing answers it, with what comes nearest. Prefer it for a single question in
        words; use `query` for complete lists.
        """
        found = self._kb.answer(question, model=False)
        items = []
        for number, c in enumerate(found.citations or found.closest):
            place = f"[{c.number}] {self._place(c.url, c.line)} (id {_short(c.chunk_id)})"
            items.append(f"{place}\n{quoted(c.text, 3)}" if number < _CITED else place)
        # An answer holds values and titles that are some file's, whoever put its sentence together.
        lead = quoted(
            "\n".join(textwrap.fill(line, MAX_LINE) for line in found.text.split("\n")), _ANSWER_LINES
        )
        if found.found:
            notes = [f"drift: {plain(d)}" for d in found.drift[:3]]
            lead += f"\n({found.certainty}, {found.confidence:.2f}, from {found.kind})"
        else:
            notes = ["What is quoted comes nearest and may be about something else."] if items else []
            lead = f"{'Not all of it is answered.' if found.citations else 'Not answered.'}\n{lead}"
        return Page(lead, items, start_of(cursor), notes).text()

    def search(
        self,
        query: Annotated[str, Field(description="The words, or a sentence, that passages should fit.")],
        source: Source = None,
        mode: Annotated[
            Literal["hybrid", "vector", "keyword", "graph", "adaptive"],
            Field(description="How passages are found; hybrid joins words and meaning."),
        ] = "hybrid",
        cursor: Cursor = None,
        collection: Annotated[
            str | None,
            Field(description="Only a named part of the documents: a saved filter, source or tag."),
        ] = None,
    ) -> str:
        """Find the passages of documents and files that fit a query best: words, meaning and names."""
        start = start_of(cursor)
        options: dict[str, Any] = {"mode": mode, **({"source": [source]} if source else {})}
        options |= {"collection": [collection]} if collection else {}
        self._check_source(source)
        wanted = min(start + _HITS, _MAX_FOUND)
        found = self._kb.search(query, wanted, **options)
        items = [
            f"{n}. {self._place(h.url, h.line, h.source)} (id {_short(h.chunk_id)})\n"
            f"{MARK}{plain(heading(h.title, h.section), 200)}\n"
            + quoted(h.text, _HIT_LINES, first=best_lines(h.text, h.highlights, _HIT_LINES))
            for n, h in enumerate(found.hits, 1)
        ]
        lead = f"About {counted(found.total, 'passage')}." if items else "Nothing found."
        total = min(found.total, _MAX_FOUND) if len(found.hits) == wanted else len(found.hits)
        return Page(lead, items, start, [plain(n) for n in found.notes], total).text()

    # --- the graph ------------------------------------------------------------------------------------------

    def query(
        self,
        name: Annotated[str | None, Field(description="The query; without it all are listed.")] = None,
        parameters: Annotated[
            dict[str, Value] | None,
            Field(description='The query\'s own parameters by name, such as {"service": "db"}.'),
        ] = None,
        cursor: Cursor = None,
    ) -> str:
        """Ask one of some forty typed queries (who depends on a service, ports, routes, networks, values of
        settings, what lacks a health check …): complete rows with their places, and whether there is provably
        no other row. Without a name, lists all queries with their parameters.
        """
        start = start_of(cursor)
        known = self._kb.queries().queries
        if name is None:
            items = []
            for q in known:
                wanted = ", ".join(p.name if p.required else f"{p.name}?" for p in q.parameters)
                items.append(f"{q.name}({wanted}): {q.summary}")
            return Page(f"{len(known)} queries:", items, start).text()
        if name not in {q.name for q in known}:
            raise TabootError(
                "E_QUERY",
                f"There is no query {plain(name, 100)!r}.{or_near(name, [q.name for q in known])}",
                remedy="Without a name this tool lists them.",
            )
        given = dict(parameters or {})
        if "limit" in given:
            raise TabootError("E_QUERY", "'limit' is no parameter of a query: cursor goes on.")
        # All pages of one result are cut from what was found for the first.
        key = self._kb.manifest.version, name, json.dumps(given, sort_keys=True)
        found = self._found  # which another thread may put another into meanwhile
        if found is None or found[0] != key:
            found = self._found = key, self._kb.query(name, MAX_ROWS, **given)
        return self._rows(found[1], start)

    def impact(
        self,
        service: Annotated[str, Field(description="The name of the thing that stops or changes.")],
        kind: Annotated[
            str | None, Field(description=f"What it is, where several are called so: {', '.join(KINDS)}.")
        ] = None,
        project: Annotated[
            str | None, Field(description="Its project, where several services are called so.")
        ] = None,
        transitive: Annotated[
            bool, Field(description="Whether also what is affected by way of others is told.")
        ] = True,
        cursor: Cursor = None,
    ) -> str:
        """Say what breaks or is affected if a service (or a network, host, proxy, image, volume, host name,
        or a whole project or namespace) stops or changes: what needs it, connects to it, is reached through
        it, asks it for logins or shares something with it; with its proof, and what cannot be known."""
        found = self._kb.impact(service, kind=kind, project=project, transitive=transitive)
        items = (
            f"- {plain(item.text, 200)}: {group.how}{self._cited(item.citations)}"
            for group in found.groups
            for item in (group.items[:_SHARING] if group.how.startswith("shares") else group.items)
        )
        told = ", ".join(f"{group.how}: {len(group.items):,}" for group in found.groups)
        lead = f"{found.kind} {plain(found.thing, 100)}: {f'{told}.' if told else found.nothing}"
        notes = [plain(found.scope), *(plain(u, 300) for u in found.unknown)]
        if any(group.how.startswith("shares") for group in found.groups):
            notes.append(f"Of what is shared at most {_SHARING} of a kind; the query sharers lists all.")
        return Page(lead, items, start_of(cursor), notes).text()

    def _rows(self, found: QueryResult, start: int) -> str:
        # What all rows have in common is said once.
        first = found.rows[0].cells if found.rows else {}
        common = {c for c in first if len(found.rows) > 1 and all(r.cells[c] == first[c] for r in found.rows)}
        told, long = cells({c: first[c] for c in first if c in common})
        lead = f"{counted(found.total, 'row')}{f', all with {told}' if told else ''}."
        lead = "\n".join([plain(lead if found.rows else found.text, 1000), *long])
        whole = "There is provably no other." if found.complete else "There may be others."
        notes = [f"{whole} {plain(found.scope)}", *(plain(u) for u in found.unseen[:3])]
        items: Iterator[str] = (self._row(row, common) for row in found.rows)
        if not found.rows and found.named_in:
            lead += "\nIt is named here all the same:"
            items = iter(f"- {self._place(c.url, c.line)}\n{quoted(c.text, 1)}" for c in found.named_in)
        return Page(lead, items, start, notes, found.total).text()

    def _row(self, row: QueryRow, common: Collection[str]) -> str:
        said, long = cells({name: value for name, value in row.cells.items() if name not in common})
        return "\n".join([f"- {said}{self._cited(row.citations)}", *long])

    def _cited(self, citations: Sequence[RowCitation]) -> str:
        """The first place of several, to be set behind what it says."""
        if not citations:
            return ""
        first = citations[0]
        known = first.edge_id[:_ID] or _short(first.chunk_id)
        more = f" +{len(citations) - 1}" if len(citations) > 1 else ""
        return f" | {self._place(first.url, first.line)} (id {known}){more}"

    def neighbors(
        self,
        node: Annotated[str, Field(description="The name or key of the thing.")],
        label: Label = None,
        types: Annotated[
            list[str] | None, Field(description=f"Only these relations: {', '.join(sorted(EDGES))}.")
        ] = None,
        cursor: Cursor = None,
    ) -> str:
        """List the relations of a thing in both directions (services, hosts, networks, images, routes …)."""
        found = self._kb.neighbors(node, 1, types or None, 1000, label=label)
        called = found.names()
        start = ", ".join(plain(called[n.label, n.key], 100) for n in found.start[:5])
        items = (self._edge(e, called) for e in found.edges)
        notes = ["Only the first 1,000 are known here."] if found.truncated else []
        return Page(
            f"{start}: {counted(len(found.edges), 'relation')}.", items, start_of(cursor), notes
        ).text()

    def _edge(self, edge: Edge, called: Mapping[tuple[str, str], str]) -> str:
        ends = [plain(called[end], 120) for end in _ends(edge)]
        said = plain(relation(edge.type, edge.properties), 160)
        return f"- {ends[0]} {said} {ends[1]} | {self._place(edge.url, edge.line)} (id {edge.edge_id[:_ID]})"

    def path(
        self,
        start: Annotated[str, Field(description="The name of a thing, or a public host name.")],
        end: Annotated[str, Field(description="The name of the thing to reach.")],
    ) -> str:
        """Find the shortest way through the graph between two things, or from a public host name to what
        serves it."""
        steps = self._kb.path(start, end).steps
        if not steps:
            return f"No way leads from {plain(start, 100)} to {plain(end, 100)}."
        items = []
        for step in steps:
            left, right = plain(step.start_name, 100), plain(step.end_name, 100)
            arrow = f"-[{step.type}]->" if step.forward else f"<-[{step.type}]-"
            place = f" | {self._place(step.url, step.line)} (id {step.edge_id[:_ID]})" if step.edge_id else ""
            items.append(f"- {left} {arrow} {right}{place}")
        return Page(f"{counted(len(steps), 'step')}.", items).text()

    # --- proofs, documents and how things are ---------------------------------------------------------------

    def explain(self, id: Annotated[str, Field(description="What stands in an answer behind `id`.")]) -> str:
        """Show the proof of a fact or passage by its id: the statement read from its file just now, verified
        by its hash, with file, line and why it means what it means."""
        found = self._kb.explain(id)
        items = [
            f"{self._place(q.url, q.line)} (bytes {q.byte_start}-{q.byte_end} of {q.blob_sha256[:12]})\n"
            f"{quoted(q.text)}"
            for q in found.quotes
        ]
        notes = [f"{e.role}: {plain(e.name, 100)} ({e.basis}: {plain(e.rule)})" for e in found.ends]
        notes += [f"corrected by {plain(d.who, 60)}: {plain(d.says)}" for d in found.decisions]
        return Page(plain(found.statement), items, notes=notes).text()

    def document(
        self,
        document: Annotated[
            str, Field(description="Its id, URL or path, or a place with its line as answers name it.")
        ],
        line: Annotated[
            int | None, Field(description="The first line; default: the place's, else 1.")
        ] = None,
    ) -> str:
        """Read a document or file from a line on."""
        doc_id, told = self._document(document)
        line = line if line is not None else told
        original = self._kb.original(doc_id)
        lines = (original.read or original.text).removesuffix("\n").split("\n")
        if line < 1 or line > len(lines):
            raise TabootError("E_QUERY", f"line must be from 1 to {len(lines):,}.")
        page = [quoted(text, 1, blank=True) for text in lines[line - 1 : line - 1 + _DOCUMENT_LINES]]
        shown, room = 1, MAX_CHARS - len(page[0]) - _LEAD
        while shown < len(page) and room > len(page[shown]):
            room -= len(page[shown]) + 1
            shown += 1
        lead = f"{self._place(original.url, line, original.source)} of {counted(len(lines), 'line')}:"
        more = line - 1 + shown < len(lines)
        last = [f"(go on with line={line + shown})"] if more else []
        return "\n".join([lead, *page[:shown], *last])

    def changes(
        self,
        since: Annotated[
            str,
            Field(
                description="A date (2026-01-31), a time (2026-01-31T08:00), or so long ago (30m, 12h, 7d)."
            ),
        ],
        source: Source = None,
        cursor: Cursor = None,
    ) -> str:
        """List what is otherwise than at a date (2026-01-31), a time, or so long ago (7d): documents that are
        new, changed with the passages that differ, or gone; and facts and routes, before and now."""
        self._check_source(source)
        try:
            found = self._kb.changes(since, source=source, limit=_MAX_CHANGES)
        except TabootError as error:
            if error.code not in ("E_QUERY", "E_NOT_FOUND"):
                raise
            raise TabootError(
                "E_QUERY",
                "since must be a date (2026-01-31), a time (2026-01-31T08:00) or so long ago, of at most"
                f" five digits (30m, 12h, 7d, 2w), not {plain(since, 100)!r}.",
            ) from None
        items = []
        for x in found.items:
            sides = "\n".join(
                f"  {name}:\n{quoted(text, 2)}"
                for p in x.passages[:_PASSAGES]
                for name, text in (("before", p.before), ("now", p.after))
                if text
            )
            head = f"- {x.kind}: {self._place(x.url, None, x.source)} ({x.at:%Y-%m-%d}, id {x.doc_id})"
            items.append("\n".join(filter(None, [head, sides, plain(x.note)])))
        for fact in found.facts:
            said = " → ".join(plain(s.says, 200) for s in (fact.before, fact.after) if s is not None)
            side = fact.after or fact.before
            place = f" | {self._place(side.url, side.line)}" if side is not None and side.url else ""
            items.append(f"- {fact.change} {fact.what}: {said}{place}")
        told = ", ".join(f"{n:,} {kind}" for kind, n in found.counts.items() if n and kind != "shell")
        facts = f"; {counted(sum(found.fact_counts.values()), 'fact')}" if found.fact_counts else ""
        notes = [found.note] if found.note else []
        lead = f"Since {found.since:%Y-%m-%d}: {told or ('no document' if facts else 'nothing')}{facts}."
        return Page(lead, items, start_of(cursor), notes).text()

    def drift(
        self,
        kinds: Annotated[
            list[str] | None, Field(description=f"Only these kinds: {', '.join(DriftKind)}.")
        ] = None,
        cursor: Cursor = None,
    ) -> str:
        """List statements that cannot both be so: documents against configuration, configuration against
        itself, what runs against configuration; each with both sides and their places."""
        found = self._kb.drift(kinds or None, 1000)
        items = []
        for item in found.items:
            sides = "\n".join(
                f"  {plain(s.says, 200)} | {self._place(s.url, s.line)}"
                + (f" (id {s.edge_ids[0][:_ID]})" if s.edge_ids else "")
                for s in item.sides[:2]
            )
            told = f" (as of {item.as_of:%Y-%m-%d %H:%M} UTC)" if item.as_of is not None else ""
            items.append(f"- {item.kind}: {plain(item.statement)}{told}\n{sides}")
        return Page(f"{counted(len(found.items), 'disagreement')}.", items, start_of(cursor)).text()

    def sources(self, cursor: Cursor = None) -> str:
        """List the sources that the knowledge base is made of, with their documents and last run."""
        found = self._kb.sources()
        items = []
        for s in found.sources:
            job = s.last_job
            run = f", last run {job.state} {job.started_at:%Y-%m-%d %H:%M} UTC" if job is not None else ""
            failed = f", {s.failed:,} failed" if s.failed else ""
            items.append(f"- {s.id} ({s.type}, {s.state}): {counted(s.documents, 'document')}{run}{failed}")
        return Page(f"{counted(len(items), 'source')}.", items, start_of(cursor), [plain(found.note)]).text()

    def status(self) -> str:
        """Say how large and how fresh the knowledge base is, and what of it failed."""
        manifest, states = self._kb.manifest, self._kb.sources()
        failed = [d for d in states.dead_letters if d.kind == "failed"]
        latest = [s.last_job.started_at for s in states.sources if s.last_job is not None]
        when = f", last run {max(latest):%Y-%m-%d %H:%M} UTC" if latest else ""
        lead = (
            f"Publication {manifest.version} of namespace {manifest.namespace}:"
            f" {manifest.documents:,} documents, {manifest.chunks:,} passages, {manifest.entities:,} things,"
            f" {len(states.sources)} sources{when}."
        )
        items = [f"- {d.source}: {d.code}: {plain(d.message, 200)}" for d in failed]
        notes = ["Nothing failed."] if not items else []
        return Page(lead, items, notes=notes).text()

    # --- places ---------------------------------------------------------------------------------------------

    def _document(self, named: str) -> tuple[str, int]:
        """The id of a document, and the line, that an id, a URL, a path or a place names."""
        try:
            return self._kb.links(named, 1).doc_id, 1
        except TabootError as error:
            place = _PLACE.fullmatch(named.strip())
            if error.code != "E_NOT_FOUND" or place is None or not (place["source"] or place["line"]):
                raise
        # A path may begin as a place does, so that a source counts only if there is one of that name.
        in_source = place["source"] in self._kb.manifest.sources
        path = f"{place['source']}:{place['path']}" if in_source else place["path"]
        return self._kb.links(path, 1).doc_id, int(place["line"] or 1)

    def _place(self, url: str, line: int | None, source: str | None = None) -> str:
        return plain(with_line(short_url(url, self._kb.manifest.sources, source), line), 200)

    def _check_source(self, source: str | None) -> None:
        if source is not None and source not in self._kb.manifest.sources:
            raise unknown_sources([source], self._kb.manifest.sources)


class WriteTools(Tools):
    """Those that change something too. Who is said to have decided is the assistant."""

    _WHO = "assistant (mcp)"

    def ingest(self, source: Source = None) -> str:
        """Bring the knowledge base up to date with its sources, or with one of them."""
        self._check_source(source)
        command = [sys.executable, "-c", "from taboot_pipelines.cli import main; main()", "ingest", "--json"]
        done = subprocess.run(
            [*command, *([source] if source else [])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_INGEST_SECONDS,
            check=False,
        )
        try:
            told = json.loads(done.stdout)
        except ValueError:
            raise TabootError("E_INTERNAL", "The ingest ended without a result.") from None
        if "sources" not in told:
            error = told.get("error", {})
            raise TabootError(error.get("code", "E_INTERNAL"), plain(error.get("message", "it failed.")))
        items = []
        for one in told["sources"]:
            held = f", {len(one['held']):,} deletions held" if one["held"] else ""
            failed = f", {counted(len(one['failed_items']), 'failed item')}" if one["failed_items"] else ""
            errors = "".join(f"; {e['code']}: {plain(e['message'], 200)}" for e in one["errors"])
            items.append(f"- {one['source']}: {one['state']}{held}{failed}{errors}")
        whole = "The knowledge base is up to date."
        return Page(whole if told["ok"] else "Not all of it could be brought up to date.", items).text()

    def correct(
        self,
        entity: Annotated[str, Field(description="The name or key of the thing.")],
        field: Annotated[str, Field(description="The field of the thing, such as description.")],
        value: Annotated[Value, Field(description="What it really is; null: it has no value.")],
        reason: Annotated[str, Field(description="Why, which is kept with it.")],
        label: Label = None,
    ) -> str:
        """Say what a field of a thing in the graph really is (null: it has no value); it wins over what every
        document says of it until it is undone with `taboot undo`. Queries for settings still tell what
        stands in the files."""
        made = self._kb.correct(entity, field, value, reason, who=self._WHO, label=label)
        return f"Recorded as {made.observation_id[:_ID]}; `taboot undo` takes it back."

    def ingest_structured(
        self,
        entity_type: Annotated[str, Field(description=f"What it is: {', '.join(sorted(NODES))}.")],
        properties: Annotated[
            dict[str, Value], Field(description="The fields of its key, such as name, and any others.")
        ],
        reason: Annotated[str, Field(description="Why, which is kept with it.")],
        aliases: Annotated[list[str] | None, Field(description="Other names that it has.")] = None,
    ) -> str:
        """State a thing that no document declares, by the fields of its key and any others."""
        made = self._kb.ingest_structured(
            entity_type, properties, aliases=aliases or (), reason=reason, who=self._WHO
        )
        return f"Recorded as {made.observation_id[:_ID]}; `taboot undo` takes it back."

    def reinterpret(
        self,
        tier: Annotated[
            Literal["a", "b", "c"], Field(description="a: readers of formats; b: rules; c: a language model.")
        ],
        source: Annotated[str, Field(description="The id of the source.")],
        promote: Annotated[bool, Field(description="Whether what is new is in force at once.")] = False,
    ) -> str:
        """Interpret all documents of a source once more by a tier; what is new waits until it is promoted."""
        self._check_source(source)
        made = self._kb.reinterpret(source=source, tier=tier, promote=promote)
        return f"{len(made.run_ids):,} new runs{', in force' if promote else ' wait to be promoted'}."


def _ends(edge: Edge) -> Sequence[tuple[str, str]]:
    return (edge.start_label, edge.start_key), (edge.end_label, edge.end_key)


def _short(chunk_id: str) -> str:
    """A chunk_id with the beginning of its document's id."""
    doc_id, _, number = chunk_id.rpartition(":")
    return f"{doc_id[:8]}:{number}"
