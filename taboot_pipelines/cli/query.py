"""``search``, ``ask``, ``explain``, ``neighbors``: questions to the knowledge base.

They load no Dagster and open no catalog.
"""

from __future__ import annotations

from typing import Any

import click

from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, text

_SNIPPET = 240


def _filters(function: Any) -> Any:
    for name, metavar, what in (
        ("--language", "CODE", "Only documents in this language."),
        ("--tag", "TAG", "Only sources with this tag."),
        ("--type", "TYPE", "Only sources of this type."),
        ("--source", "ID", "Only this source."),
    ):
        function = click.option(
            name, metavar=metavar, multiple=True, help=f"{what} May be given several times."
        )(function)
    return function


def _mode(function: Any) -> Any:
    return click.option(
        "--mode",
        type=click.Choice(["hybrid", "vector", "keyword"]),
        default="hybrid",
        show_default=True,
        help="How hits are found.",
    )(function)


def _chosen(**values: tuple[str, ...]) -> dict[str, Any]:
    return {name: list(value) or None for name, value in values.items()}


def _open(namespace: str | None) -> Any:
    from taboot_pipelines.retrieval import KnowledgeBase

    return KnowledgeBase.open(namespace=namespace)


def _place(url: str, line: int | None) -> str:
    return f"{url}:{line}" if line else url


@click.command()
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Most hits.")
@_filters
@_mode
@namespace_option
@json_option
def search(
    query: str,
    limit: int,
    source: tuple[str, ...],
    type: tuple[str, ...],
    tag: tuple[str, ...],
    language: tuple[str, ...],
    mode: str,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Find the passages that fit QUERY best."""
    found = _open(namespace).search(
        query, limit=limit, mode=mode, **_chosen(source=source, type=type, tag=tag, language=language)
    )
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    out = console()
    if not found.hits:
        out.print("Nothing found.")
    for number, hit in enumerate(found.hits, 1):
        snippet = " ".join(hit.text.split())
        out.print(text(f"{number}. {hit.title}" + (f" > {hit.section}" if hit.section else "")), style="bold")
        out.print(
            text(f"   {_place(hit.url, hit.line)}  [{hit.source}] score {hit.score:.4f}  {hit.chunk_id}"),
            style="dim",
            soft_wrap=True,
        )
        out.print(text(f"   {snippet[:_SNIPPET]}{'…' if len(snippet) > _SNIPPET else ''}"))


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
    source: tuple[str, ...],
    type: tuple[str, ...],
    tag: tuple[str, ...],
    language: tuple[str, ...],
    mode: str,
    namespace: str | None,
    synthesis: bool | None,
    as_json: bool,
) -> None:
    """Answer QUESTION out of the knowledge base, with citations, or say that nothing does."""
    answer = _open(namespace).answer(
        question,
        limit,
        mode=mode,
        synthesis=synthesis,
        **_chosen(source=source, type=type, tag=tag, language=language),
    )
    if as_json:
        emit_json(answer.model_dump(mode="json"))
        return
    out = console()
    out.print(text(answer.text))
    for citation in answer.citations:
        out.print(
            text(f"  [{citation.number}] {_place(citation.url, citation.line)}  {citation.chunk_id}"),
            style="dim",
            soft_wrap=True,
        )
    if answer.found:
        out.print(text(f"  from {answer.kind}, confidence {answer.confidence:.2f}"), style="dim")


@click.command()
@click.argument("edge_or_chunk_id")
@namespace_option
@json_option
def explain(edge_or_chunk_id: str, namespace: str | None, as_json: bool) -> None:
    """Show the bytes behind an edge or a hit, read again and verified."""
    found = _open(namespace).explain(edge_or_chunk_id)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    out = console()
    out.print(text(found.statement), style="bold")
    for quote in found.quotes:
        out.print(
            text(
                f"{_place(quote.url, quote.line)}  bytes {quote.byte_start}-{quote.byte_end} of"
                f" {quote.blob_sha256[:12]}"
            ),
            style="dim",
        )
        out.print(text("\n".join(f"  │ {line}" for line in quote.text.splitlines())))
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
    graph = _open(namespace).neighbors(name, hops=hops, types=list(types) or None, limit=limit)
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
