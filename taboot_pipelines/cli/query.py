"""``search``, ``ask``, ``explain``, ``neighbors``: questions to the knowledge base.

They load no Dagster and open no catalog.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, plain, text
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.settings import Settings

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


def _open(namespace: str | None, *, embedding: bool = False) -> Any:
    """The knowledge base. ``embedding``: the query will be embedded, so the bundled model is loaded while
    this thread still imports what reads the shards.
    """
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    if embedding:
        threading.Thread(target=_load_model, args=(settings,), name="taboot-model").start()
    from taboot_pipelines.retrieval import KnowledgeBase

    return KnowledgeBase.open(namespace=namespace, settings=settings)


def _load_model(settings: Settings) -> None:
    # What is wrong with the model is said by the search that needs it.
    with contextlib.suppress(TabootError):
        from taboot_pipelines.embedding import open_embedder
        from taboot_pipelines.embedding.minilm import MiniLmEmbedder

        embedder = open_embedder(settings)
        if isinstance(embedder, MiniLmEmbedder):
            embedder.load()


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
    found = _open(namespace, embedding=mode != "keyword").search(
        query, limit=limit, mode=mode, **_chosen(source=source, type=type, tag=tag, language=language)
    )
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    if not found.hits:
        click.echo("Nothing found.")
    for number, hit in enumerate(found.hits, 1):
        snippet = " ".join(hit.text.split())
        plain(f"{number}. {hit.title}" + (f" > {hit.section}" if hit.section else ""), bold=True)
        plain(
            f"   {_place(hit.url, hit.line)}  [{hit.source}] score {hit.score:.4f}  {hit.chunk_id}", dim=True
        )
        plain(f"   {snippet[:_SNIPPET]}{'…' if len(snippet) > _SNIPPET else ''}")


@click.command()
@click.argument("question")
@click.option("--limit", type=click.IntRange(1, 100), default=5, show_default=True, help="Most sentences.")
@_filters
@_mode
@namespace_option
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
    as_json: bool,
) -> None:
    """Answer QUESTION with sentences of the knowledge base, each with its citation."""
    answer = _open(namespace, embedding=mode != "keyword").answer(
        question, limit, mode=mode, **_chosen(source=source, type=type, tag=tag, language=language)
    )
    if as_json:
        emit_json(answer.model_dump(mode="json"))
        return
    plain(answer.text)
    for citation in answer.citations:
        plain(f"  [{citation.number}] {_place(citation.url, citation.line)}  {citation.chunk_id}", dim=True)


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
