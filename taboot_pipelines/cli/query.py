"""Questions: ``search``, ``ask``, ``explain``, ``links``, ``neighbors``, ``path``, ``drift``; the ``cache``.

They load no Dagster and open no catalog.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import (
    console,
    emit_json,
    json_option,
    namespace_option,
    open_kb,
    plain,
    text,
)

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.hits import SearchResult
    from taboot_pipelines.retrieval.results.inspection import Comparison, WhyNot

_SNIPPET = 240


def _filters(function: Any) -> Any:
    for name, metavar, what in (
        ("--path-prefix", "PATH", "Only documents whose path in their source begins so."),
        ("--content-type", "KIND", "Only passages of this kind: prose, code, table or list."),
        ("--collection", "NAME", "Only the source called so, or sources with this tag."),
        ("--domain", "HOST", "Only web pages of this host."),
        ("--language", "CODE", "Only documents in this language."),
        ("--tag", "TAG", "Only sources with this tag."),
        ("--type", "TYPE", "Only sources of this type."),
        ("--source", "ID", "Only this source."),
    ):
        function = click.option(
            name, metavar=metavar, multiple=True, help=f"{what} May be given several times."
        )(function)
    for name, what in (
        ("--date-to", "Only documents of at most this day, or before this moment."),
        ("--date-from", "Only documents of at least this day or moment."),
    ):
        function = click.option(name, metavar="DATE", default=None, help=what)(function)
    return function


def _mode(function: Any) -> Any:
    return click.option(
        "--mode",
        type=click.Choice(["hybrid", "vector", "keyword", "graph", "adaptive"]),
        default="hybrid",
        show_default=True,
        help="How hits are found.",
    )(function)


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, as ``KnowledgeBase`` takes them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value is not None and value != ()
    }


def _weights(_context: Any, _parameter: Any, given: tuple[str, ...]) -> dict[str, float] | None:
    weights = {}
    for text_ in given:
        arm, _, value = text_.partition("=")
        try:
            weights[arm] = float(value)
        except ValueError:
            raise click.BadParameter(f"{text_!r} is not ARM=NUMBER, such as vector=2.") from None
    return weights or None


def _place(url: str, line: int | None, section: str = "") -> str:
    if line:
        return f"{url}:{line}"
    return f"{url} ({section})" if section else url


@click.command()
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Most hits.")
@_filters
@_mode
@click.option("--fusion", metavar="NAME", default=None, help="How the arms are joined: auto, rrf or convex.")
@click.option(
    "--weight",
    "weights",
    metavar="ARM=NUMBER",
    multiple=True,
    callback=_weights,
    help="The weight of an arm (vector, keyword). May be given several times.",
)
@click.option("--rrf-k", type=int, default=None, help="The constant of reciprocal ranks.")
@click.option("--min-score", type=float, default=None, help="What scores less is no hit.")
@click.option("--dedupe", is_flag=True, default=None, help="Of nearly equal texts show the best.")
@click.option("--expand", type=int, default=None, help="Show so many neighbours of each hit too.")
@click.option("--cursor", metavar="TEXT", default=None, help="Go on where a page before ended.")
@click.option("--explain", is_flag=True, help="Show what each arm made of each hit, and what took how long.")
@click.option("--compare", is_flag=True, help="Show what each mode finds, side by side.")
@click.option(
    "--why-not",
    metavar="DOC",
    default=None,
    help="Show where a document fell out; by id, chunk id, URL or path.",
)
@namespace_option
@json_option
def search(
    query: str,
    limit: int,
    mode: str,
    explain: bool,
    compare: bool,
    why_not: str | None,
    namespace: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the passages that fit QUERY best."""
    if compare and why_not is not None:
        raise click.UsageError("--compare and --why-not show different things: give one of them.")
    kb = open_kb(namespace, embedding=compare or mode != "keyword")
    chosen = _chosen(options)
    if compare:
        _show_comparison(kb.compare(query, limit, **chosen), as_json)
    elif why_not is not None:
        _show_why_not(kb.why_not(why_not, query, limit, mode=mode, **chosen), as_json)
    else:
        _show_hits(kb.search(query, limit, mode=mode, **chosen), as_json, explain)


def _show_hits(found: SearchResult, as_json: bool, explain: bool) -> None:
    if as_json:
        emit_json({**found.model_dump(mode="json"), **found.made})
        return
    for note in found.notes:
        click.echo(note, err=True)
    if not found.hits:
        click.echo("Nothing found.")
    for number, hit in enumerate(found.hits, 1):
        snippet = " ".join(hit.expanded.split())
        plain(f"{number}. {hit.title}" + (f" > {hit.section}" if hit.section else ""), bold=True)
        plain(
            f"   {_place(hit.url, hit.line)}  [{hit.source}] score {hit.score:.4f}  {hit.chunk_id}", dim=True
        )
        if explain:
            for arm, score in hit.scores.items():
                rank = f"rank {hit.ranks[arm]}" if arm in hit.ranks else "not among its best"
                plain(f"   {arm:<8} {rank:<20} score {score:.6f}", dim=True)
            for what, others in (("equal text", hit.also_in), ("nearly equal", hit.similar)):
                if others:
                    plain(f"   {what}: {', '.join(others)}", dim=True)
        limit = _SNIPPET if len(hit.context) < 2 else _SNIPPET * 4
        plain(f"   {snippet[:limit]}{'…' if len(snippet) > limit else ''}")
    if explain:
        joined = ", ".join(f"{arm} {weight:g}" for arm, weight in found.weights.items())
        how = f", {found.fusion} with k {found.rrf_k}, weights {joined}" if found.fusion else ""
        plain(f"mode {found.mode}{how}{', reranked' if found.reranked else ''}", dim=True)
        plain(f"about {found.total} texts to be found, publication {found.manifest_version}", dim=True)
        spent = ", ".join(f"{part} {ms:.1f}" for part, ms in found.latency_ms.items())
        plain(f"milliseconds: {spent}", dim=True)
    if found.next_cursor is not None and explain:
        plain(f"next page: --cursor {found.next_cursor}", dim=True)


def _show_comparison(found: Comparison, as_json: bool) -> None:
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    for row in found.rows:
        ranks = "  ".join(f"{m} {row.ranks.get(m, '–'):<5}" for m in found.modes)
        plain(f"{ranks}  {row.title}  {_place(row.url, row.line)}")
    for mode, notes in found.notes.items():
        for note in notes:
            click.echo(f"{mode}: {note}", err=True)
    spent = ", ".join(f"{mode} {ms:.1f}" for mode, ms in found.latency_ms.items())
    plain(f"milliseconds: {spent}", dim=True)


def _show_why_not(found: WhyNot, as_json: bool) -> None:
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    plain(f"{found.title}  {found.url}", bold=True)
    plain(found.reason)
    for chunk in found.chunks:
        plain(f"{_place(found.url, chunk.line)}  {chunk.chunk_id}", dim=True)
        for step in chunk.steps:
            at = "" if step.rank is None else f" rank {step.rank}"
            score = "" if step.score is None else f" score {step.score:.6f}"
            plain(f"   {'passed' if step.passed else 'out':<7}{step.step:<11}{at}{score}  {step.reason}")


@click.command()
@click.option(
    "--clear",
    "kind",
    type=click.Choice(["results", "embeddings", "all"]),
    default=None,
    help="Drop what is kept of one kind, or all of it.",
)
@click.option("--domain", metavar="HOST", default=None, help="Drop only results with a page of this host.")
@namespace_option
@json_option
def cache(kind: str | None, domain: str | None, namespace: str | None, as_json: bool) -> None:
    """Show what is kept of past searches in Redis, or drop it.

    Without Redis each process keeps its own for as long as it lives, and there is nothing to show here.
    """
    if domain is not None and kind is None:
        raise click.UsageError("--domain limits --clear results.")
    kb = open_kb(namespace)
    if kind is not None:
        dropped = kb.clear_cache(None if kind == "all" else kind, domain)
        if as_json:
            emit_json({"dropped": dropped})
            return
        for name, count in dropped.items():
            plain(f"{name:<11} {count} dropped")
        return
    stats = kb.cache_stats()
    if as_json:
        emit_json({"caches": [row.model_dump(mode="json") for row in stats]})
        return
    for row in stats:
        hours = row.ttl_seconds / 3600
        plain(f"{row.kind:<11} {row.entries} entries, {row.bytes} bytes in {row.store}, kept for {hours:g} h")


@click.command()
@click.argument("question")
@click.option("--limit", type=click.IntRange(1, 100), default=5, show_default=True, help="Most sentences.")
@_filters
@_mode
@namespace_option
@click.option(
    "--synthesis/--no-synthesis",
    default=None,
    help="Let the chat model put the answer into words (default: TABOOT_RETRIEVAL__SYNTHESIS).",
)
@json_option
def ask(
    question: str,
    limit: int,
    mode: str,
    namespace: str | None,
    synthesis: bool | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Answer QUESTION out of the knowledge base, with citations, or say that nothing does."""
    answer = open_kb(namespace, embedding=mode != "keyword").answer(
        question, limit, mode=mode, synthesis=synthesis, **_chosen(options)
    )
    if as_json:
        emit_json(answer.model_dump(mode="json"))
        return
    plain(answer.text)
    for citation in answer.citations:
        place = _place(citation.url, citation.line, citation.section)
        plain(f"  [{citation.number}] {place}  {citation.chunk_id}", dim=True)
    for note in answer.notes:
        plain(f"  drift: {note}")
    if answer.found:
        plain(f"  from {answer.kind}, confidence {answer.confidence:.2f}", dim=True)


@click.command()
@click.argument("edge_or_chunk_id")
@namespace_option
@json_option
def explain(edge_or_chunk_id: str, namespace: str | None, as_json: bool) -> None:
    """Show the bytes behind an edge or a hit, read again and verified."""
    found = open_kb(namespace).explain(edge_or_chunk_id)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    out = console()
    out.print(text(found.statement), style="bold")
    for quote in found.quotes:
        out.print(
            text(
                f"{_place(quote.url, quote.line, quote.section)}  bytes {quote.byte_start}-{quote.byte_end}"
                f" of {quote.blob_sha256[:12]}"
            ),
            style="dim",
        )
        out.print(text("\n".join(f"  │ {line}" for line in quote.text.splitlines())))
    for note in found.decisions:
        out.print(text(f"corrected by {note.who}: {note.says} ({note.reason})"))
    for end in found.ends:
        out.print(text(f"{end.role}: {end.label} {end.name} ({end.basis}: {end.rule})"))
    if found.confidence is not None:
        out.print(
            text(
                f"confidence {found.confidence:.2f}, {found.extraction_method}, since"
                f" {found.since:%Y-%m-%d %H:%M} UTC"
            ),
            style="dim",
        )


@click.command()
@click.argument("document")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most links.")
@namespace_option
@json_option
def links(document: str, limit: int, namespace: str | None, as_json: bool) -> None:
    """Show what DOCUMENT (its id, URL or path) links to, and what links to it."""
    found = open_kb(namespace).links(document, limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    out = console()
    out.print(text(f"{found.title}  {found.url}"), style="bold", soft_wrap=True)
    for heading, mark, listed in (
        ("links to", "→", found.outgoing),
        ("is linked from", "←", found.incoming),
        ("links that lead to no document", "?", found.unresolved),
    ):
        out.print(text(f"{heading}: {len(listed)}"))
        for link in listed:
            place = _place(link.url if mark == "←" else found.url, link.line)
            named = f"{link.title}  " if link.title else ""
            out.print(text(f"  {mark} {named}{link.target}  [{link.kind}]"), soft_wrap=True)
            out.print(text(f"    {place}"), style="dim", soft_wrap=True)
    if found.truncated:
        out.print(text("Cut at the limit."), style="dim")


@click.command()
@click.argument("name")
@click.option("--hops", type=click.IntRange(1, 2), default=1, show_default=True)
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only this relation, such as DEPENDS_ON. May be given several times.",
)
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most edges.")
@namespace_option
@json_option
def neighbors(
    name: str, hops: int, types: tuple[str, ...], limit: int, namespace: str | None, as_json: bool
) -> None:
    """Show what surrounds the node called NAME (or whose key it is)."""
    graph = open_kb(namespace).neighbors(name, hops=hops, types=list(types) or None, limit=limit)
    if as_json:
        emit_json(graph.model_dump(mode="json"))
        return
    out = console()
    facts = [e for e in graph.edges if e.type != "MENTIONS" or "MENTIONS" in types]
    mentions: dict[str, list[int]] = {}
    for edge in graph.edges:
        if edge not in facts:
            mentions.setdefault(edge.url, []).append(edge.line)
    for edge in facts:
        out.print(
            text(f"({edge.start_label} {edge.start_name})-[{edge.type}]->({edge.end_label} {edge.end_name})"),
            soft_wrap=True,
        )
        out.print(text(f"   {_place(edge.url, edge.line)}  {edge.edge_id}"), style="dim", soft_wrap=True)
    if mentions:
        # One line for each document that only mentions it; `--type MENTIONS` lists every mention.
        out.print(text(f"mentioned in {len(mentions)} documents:"))
        for url, lines in sorted(mentions.items()):
            shown = sorted(set(lines))
            out.print(
                text(
                    f"   {url}: line{'s' if len(shown) > 1 else ''}"
                    f" {', '.join(map(str, shown[:8]))}{' …' if len(shown) > 8 else ''}"
                ),
                style="dim",
                soft_wrap=True,
            )
    out.print(
        text(
            f"{len(graph.nodes)} nodes, {len(graph.edges)} edges"
            + (", cut at the limit" if graph.truncated else "")
        ),
        style="dim",
    )


@click.command()
@click.option(
    "--kind",
    "kinds",
    metavar="KIND",
    multiple=True,
    help="Only drift of this kind, such as prose_port. May be given several times.",
)
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most drifts.")
@namespace_option
@json_option
def drift(kinds: tuple[str, ...], limit: int, namespace: str | None, as_json: bool) -> None:
    """Show statements that cannot both be so: text and configuration, or two configurations."""
    found = open_kb(namespace).drift(list(kinds) or None, limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    out = console()
    for item in found.items:
        of_a_day = "  (a text of a day)" if item.record else ""
        out.print(text(f"{item.kind}: {item.statement}{of_a_day}"), style="bold", soft_wrap=True)
        for side in item.sides:
            out.print(
                text(f"   {_place(side.url, side.line)}  {side.edge_ids[0]}"), style="dim", soft_wrap=True
            )
            for line in (side.quote.text if side.quote is not None else side.says).splitlines():
                out.print(text(f"   │ {line}"), soft_wrap=True)
    if not found.items:
        out.print("Nothing drifted.")
    if found.truncated:
        out.print(text("Cut at the limit."), style="dim")


@click.command()
@click.argument("start")
@click.argument("end")
@click.option("--max-hops", type=click.IntRange(1, 20), default=8, show_default=True, help="Longest way.")
@namespace_option
@json_option
def path(start: str, end: str, max_hops: int, namespace: str | None, as_json: bool) -> None:
    """Show the shortest way through the graph from START to END: names, keys, or public host names.

    Exit code 1 if there is none.
    """
    found = open_kb(namespace).path(start, end, max_hops=max_hops)
    if as_json:
        emit_json(found.model_dump(mode="json"))
    else:
        out = console()
        for at, step in enumerate(found.steps):
            if at == 0:
                out.print(text(f"({step.start_label} {step.start_name})"), soft_wrap=True)
            arrow = f"-[{step.type}]->" if step.forward else f"<-[{step.type}]-"
            out.print(text(f"  {arrow} ({step.end_label} {step.end_name})"), soft_wrap=True)
            if step.url:
                out.print(
                    text(f"     {_place(step.url, step.line)}  {step.edge_id}"), style="dim", soft_wrap=True
                )
        if not found.steps:
            out.print(text(f"No way of at most {max_hops} steps leads from {start} to {end}."))
    sys.exit(0 if found.steps else 1)
