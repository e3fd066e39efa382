"""The graph, and the proof of what it says: ``explain``, ``links``, ``neighbors``, ``path``, ``drift``.

They load no Dagster and open no catalog.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.completion import relations
from taboot_pipelines.cli.output import (
    as_of_option,
    emit_json,
    json_option,
    namespace_option,
    open_kb,
    plain,
)
from taboot_pipelines.cli.places import (
    SHOWN_ID,
    Places,
    columns,
    counted,
    kb_places,
    print_place,
    print_wrapped,
)

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.graph import Edge, Subgraph


@click.command()
@click.argument("edge_or_chunk_id")
@namespace_option
@json_option
def explain(edge_or_chunk_id: str, namespace: str | None, as_json: bool) -> None:
    """Show the bytes behind an edge or a hit, read again and verified."""
    kb = open_kb(namespace)
    found = kb.explain(edge_or_chunk_id)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    places, width = kb_places(kb), columns()
    print_wrapped(found.statement, "", width, hang="   ", bold=True)
    for quote in found.quotes:
        place = places.place(quote.url, quote.line, quote.section)
        at = f"  bytes {quote.byte_start}-{quote.byte_end} of {quote.blob_sha256[:12]}"
        print_place(places, place, at, width, indent="")
        # The quote stays as it is: its lines are those of the file.
        plain("\n".join(f"  │ {line}" for line in quote.text.splitlines()))
    for note in found.decisions:
        print_wrapped(f"corrected by {note.who}: {note.says} ({note.reason})", "", width, hang="   ")
    for end in found.ends:
        print_wrapped(f"{end.role}: {end.label} {end.name} ({end.basis}: {end.rule})", "", width, hang="   ")
    if found.confidence is not None:
        print_wrapped(
            f"confidence {found.confidence:.2f}, {found.extraction_method}, since"
            f" {found.since:%Y-%m-%d %H:%M} UTC",
            "",
            width,
            dim=True,
        )


@click.command()
@click.argument("document")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most links.")
@namespace_option
@json_option
def links(document: str, limit: int, namespace: str | None, as_json: bool) -> None:
    """Show what DOCUMENT (its id, URL or path) links to, and what links to it."""
    kb = open_kb(namespace)
    found = kb.links(document, limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    places, width = kb_places(kb), columns()
    print_wrapped(f"{found.title}  {places.name(found.url)}", "", width, bold=True)
    for heading, mark, listed in (
        ("links to", "→", found.outgoing),
        ("is linked from", "←", found.incoming),
        ("links that lead to no document", "?", found.unresolved),
    ):
        plain(f"{heading}: {len(listed)}")
        for link in listed:
            named = f"{link.title}  " if link.title else ""
            print_wrapped(f"{mark} {named}{link.target}  [{link.kind}]", "  ", width)
            place = places.place(link.url if mark == "←" else found.url, link.line)
            print_place(places, place, "", width, indent="    ")
    if found.truncated:
        plain("Cut at the limit.", dim=True)


@click.command()
@click.argument("name")
@click.option("--hops", type=click.IntRange(1, 2), default=1, show_default=True)
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only this relation, such as DEPENDS_ON. May be given several times.",
    shell_complete=relations,
)
@click.option("--label", help="Only what is of this type, such as Service, where several have the name.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most edges.")
@as_of_option
@namespace_option
@json_option
def neighbors(
    name: str,
    hops: int,
    types: tuple[str, ...],
    label: str | None,
    limit: int,
    as_of: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Show what surrounds the node called NAME (or whose key it is)."""
    kb = open_kb(namespace, as_of=as_of)
    graph = kb.neighbors(name, hops=hops, types=list(types) or None, limit=limit, label=label)
    if as_json:
        emit_json(graph.model_dump(mode="json"))
        return
    _show_neighbors(graph, kb_places(kb), "MENTIONS" in types)


def _show_neighbors(graph: Subgraph, places: Places, every_mention: bool) -> None:
    from taboot_pipelines.retrieval.verbalization import statement

    called = graph.names()
    lines: dict[str, list[Edge]] = {}
    mentions: dict[str, list[int]] = {}
    for edge in graph.edges:
        if edge.type == "MENTIONS" and not every_mention:
            mentions.setdefault(edge.url, []).append(edge.line)
            continue
        start, end = called[edge.start_label, edge.start_key], called[edge.end_label, edge.end_key]
        lines.setdefault(statement(start, edge.type, edge.properties, end), []).append(edge)
    width = columns()
    for line, edges in lines.items():
        print_wrapped(line, "", width, hang="   ")
        for edge in edges:
            place = places.place(edge.url, edge.line)
            print_place(places, place, f"  {edge.edge_id[:SHOWN_ID] if width else edge.edge_id}", width)
    if mentions:
        # One line for each document that only mentions it; `--type MENTIONS` lists every mention.
        plain(f"mentioned in {counted(len(mentions), 'document')}:")
        for url, found in sorted(mentions.items()):
            shown = sorted(set(found))
            at = f": line{'s' if len(shown) > 1 else ''} {', '.join(map(str, shown[:8]))}"
            print_place(places, places.place(url), at + (" …" if len(shown) > 8 else ""), width)
    nodes, edges_ = counted(len(graph.nodes), "node"), counted(len(graph.edges), "edge")
    plain(f"{nodes}, {edges_}{', cut at the limit' if graph.truncated else ''}", dim=True)


def _ago(at: datetime) -> str:
    """A time with how long ago it was: a dump says what ran then, or before."""
    minutes = max(0, int((datetime.now(UTC) - at).total_seconds() // 60))
    unit, count = next((u, minutes // n) for u, n in _UNITS if minutes >= n or n == 1)
    return f"{at:%Y-%m-%d %H:%M} UTC, {counted(count, unit)} ago"


_UNITS = (("day", 24 * 60), ("hour", 60), ("minute", 1))


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
    """Show statements that cannot both be so: of texts, of configuration, and of what runs."""
    kb = open_kb(namespace)
    found = kb.drift(list(kinds) or None, limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    places, width = kb_places(kb), columns()
    for item in found.items:
        of_a_day = "  (a text of a day)" if item.record else ""
        if item.as_of is not None:
            of_a_day = f"  (first read {_ago(item.as_of)})"
        print_wrapped(f"{item.kind}: {item.statement}{of_a_day}", "", width, bold=True)
        for side in item.sides:
            shown = next((i[:SHOWN_ID] if width else i for i in side.edge_ids), "")
            print_place(places, places.place(side.url, side.line), f"  {shown}".rstrip(), width)
            for line in (side.quote.text if side.quote is not None else side.says).splitlines():
                plain(f"   │ {line}")
    if not found.items:
        plain("Nothing drifted.")
    if found.truncated:
        plain(f"{counted(found.total - len(found.items), 'drift')} more; --limit {found.total} shows all.")


@click.command()
@click.argument("start")
@click.argument("end")
@click.option("--max-hops", type=click.IntRange(1, 20), default=8, show_default=True, help="Longest way.")
@as_of_option
@namespace_option
@json_option
def path(
    start: str, end: str, max_hops: int, as_of: str | None, namespace: str | None, as_json: bool
) -> None:
    """Show the shortest way through the graph from START to END: names, keys, or public host names.

    Exit code 1 if there is none.
    """
    kb = open_kb(namespace, as_of=as_of)
    found = kb.path(start, end, max_hops=max_hops)
    if as_json:
        emit_json(found.model_dump(mode="json"))
    else:
        from taboot_pipelines.retrieval.verbalization import NodeName, names_of, relation

        places, width = kb_places(kb), columns()
        ends = [NodeName(x.start_label, x.start_key, x.start_name) for x in found.steps[:1]]
        called = names_of([*ends, *(NodeName(x.end_label, x.end_key, x.end_name) for x in found.steps)])
        for at, step in enumerate(found.steps):
            if at == 0:
                print_wrapped(f"({called[step.start_label, step.start_key]})", "", width)
            said = relation(step.type, step.properties)
            arrow = f"-[{said}]->" if step.forward else f"<-[{said}]-"
            print_wrapped(f"{arrow} ({called[step.end_label, step.end_key]})", "  ", width, hang="     ")
            if step.url:
                shown = step.edge_id[:SHOWN_ID] if width else step.edge_id
                print_place(places, places.place(step.url, step.line), f"  {shown}", width, indent="     ")
        if not found.steps:
            plain(f"No way of at most {max_hops} steps leads from {start} to {end}.")
    sys.exit(0 if found.steps else 1)
