"""Questions: ``search``, ``ask``, ``query``, ``feedback`` and ``evaluate``; the ``cache``.

They load no Dagster; only ``query`` reads the catalog, to say which files it could not see.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.completion import query_names, source_ids
from taboot_pipelines.cli.output import (
    as_of_option,
    emit_json,
    fitted,
    json_option,
    namespace_option,
    open_kb,
    plain,
    printable,
    show_error,
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
from taboot_pipelines.errors import TabootError, unknown_sources

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.answers import Answer
    from taboot_pipelines.retrieval.results.hits import SearchResult
    from taboot_pipelines.retrieval.results.inspection import Comparison, WhyNot
    from taboot_pipelines.retrieval.results.queries import QueryList, QueryResult
    from taboot_pipelines.retrieval.snippets import Snippet

_SNIPPET = 240


def _filters(function: Any) -> Any:
    for name, metavar, what in (
        ("--path-prefix", "PATH", "Only documents whose path in their source begins so."),
        ("--content-type", "KIND", "Only passages of this kind: prose, code, table or list."),
        ("--collection", "NAME", "Only this collection (`taboot collections`), or source or tag."),
        ("--domain", "HOST", "Only web pages of this host."),
        ("--language", "CODE", "Only documents in this language."),
        ("--tag", "TAG", "Only sources with this tag."),
        ("--type", "TYPE", "Only sources of this type."),
        ("--source", "ID", "Only this source."),
    ):
        function = click.option(
            name,
            metavar=metavar,
            multiple=True,
            help=f"{what} May be given several times.",
            shell_complete=source_ids if name == "--source" else None,
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


def check_sources(wanted: Collection[str], known: Collection[str]) -> None:
    """Raise ``E_SOURCE_UNKNOWN`` for a source that nothing is served of."""
    unknown = [s for s in wanted if s not in known]
    if unknown:
        raise unknown_sources(unknown, known)


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
@as_of_option
@namespace_option
@json_option
def search(
    query: str,
    limit: int,
    mode: str,
    explain: bool,
    compare: bool,
    why_not: str | None,
    as_of: str | None,
    namespace: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the passages that fit QUERY best."""
    if compare and why_not is not None:
        raise click.UsageError("--compare and --why-not show different things: give one of them.")
    kb: Any = open_kb(namespace, embedding=compare or mode != "keyword", as_of=as_of)
    chosen = _chosen(options)
    check_sources(chosen.get("source", ()), kb.manifest.sources)
    if compare:
        _show_comparison(kb.compare(query, limit, **chosen), as_json)
    elif why_not is not None:
        _show_why_not(kb.why_not(why_not, query, limit, mode=mode, **chosen), as_json)
    else:
        _show_hits(kb.search(query, limit, mode=mode, **chosen), kb_places(kb), as_json, explain)


def _show_hits(found: SearchResult, places: Places, as_json: bool, explain: bool) -> None:
    from taboot_pipelines.retrieval.snippets import heading, snippet

    if as_json:
        emit_json({**found.model_dump(mode="json"), **found.made})
        return
    for note in found.notes:
        click.echo(note, err=True)
    if not found.hits:
        click.echo("Nothing found.")
    width = columns()
    for number, hit in enumerate(found.hits, 1):
        print_wrapped(f"{number}. {heading(hit.title, hit.section)}", "", width, hang="   ", bold=True)
        at = f"  [{hit.source}] score {hit.score:.4f}  {_short(hit.chunk_id) if width else hit.chunk_id}"
        print_place(places, places.place(hit.url, hit.line, source=hit.source), at, width)
        if explain:
            for arm, score in hit.scores.items():
                rank = f"rank {hit.ranks[arm]}" if arm in hit.ranks else "not among its best"
                plain(f"   {arm:<8} {rank:<20} score {score:.6f}", dim=True)
            for what, others in (("equal text", hit.also_in), ("nearly equal", hit.similar)):
                if others:
                    print_wrapped(f"{what}: {', '.join(others)}", "   ", width, dim=True)
        if len(hit.context) < 2:
            _print_snippet(snippet(hit.text, hit.highlights, _SNIPPET), width)
        else:
            _print_snippet(snippet(hit.expanded, (), _SNIPPET * 4), width)
    if explain:
        joined = ", ".join(f"{arm} {weight:g}" for arm, weight in found.weights.items())
        how = f", {found.fusion} with k {found.rrf_k}, weights {joined}" if found.fusion else ""
        plain(f"mode {found.mode}{how}{', reranked' if found.reranked else ''}", dim=True)
        plain(f"about {found.total} texts to be found, publication {found.manifest_version}", dim=True)
        spent = ", ".join(f"{part} {ms:.1f}" for part, ms in found.latency_ms.items())
        plain(f"milliseconds: {spent}", dim=True)
    if found.next_cursor is not None and explain:
        plain(f"next page: --cursor {found.next_cursor}", dim=True)


def _short(chunk_id: str) -> str:
    """A chunk_id with the beginning of its document's id; `taboot explain` takes it."""
    doc_id, _, number = chunk_id.rpartition(":")
    return f"{doc_id[:8]}:{number}"


def _print_snippet(shown: Snippet, width: int | None) -> None:
    """Print the words of a snippet, those of the query bright, in a terminal broken between words."""
    words = [
        (
            printable(w.text),
            "".join(
                click.style(printable(t), fg="yellow", bold=True) if hit else printable(t)
                for t, hit in w.pieces
            ),
        )
        for w in shown.words
    ]
    if shown.before:
        words.insert(0, ("…", "…"))
    if shown.after and words:
        text, styled = words[-1]
        words[-1] = (f"{text}…", f"{styled}…")
    indent, lines, used = "   ", [[]], 0  # type: tuple[str, list[list[str]], int]
    for text, styled in words:
        if width is not None:
            if len(text) > width - len(indent):
                text = styled = fitted(text, width - len(indent))
            if used and used + 1 + len(text) > width - len(indent):
                lines.append([])
                used = 0
        lines[-1].append(styled)
        used += len(text) + (1 if used else 0)
    for line in lines:
        click.echo(f"{indent}{' '.join(line)}")


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
@click.argument("name", required=False, shell_complete=query_names)
@click.argument("arguments", nargs=-1)
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Most rows.")
@as_of_option
@namespace_option
@json_option
def query(
    name: str | None,
    arguments: tuple[str, ...],
    limit: int,
    as_of: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Ask the typed query NAME, as `taboot query dependents db project=media`; without NAME list all.

    ARGUMENTS are PARAMETER=VALUE; a value alone is that of the query's first parameter.
    """
    kb: Any = open_kb(namespace, as_of=as_of)
    known = kb.queries()
    if name is None:
        _show_queries(known, as_json)
        return
    parameters = next((q.parameters for q in known.queries if q.name == name), ())
    given = _arguments([p.name for p in parameters], arguments)
    if "limit" in given:
        raise click.UsageError("How many rows are shown at most, --limit says.")
    found = kb.query(name, limit, **given)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    _show_rows(found, kb_places(kb))


def _arguments(names: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """The values by parameter: what has no name is the first's, and after it of the next that has none."""
    found: dict[str, str] = {}
    bare: list[str] = []
    for text_ in given:
        name, equals, value = text_.partition("=")
        # A word with an equals sign that is no parameter is one all the same, and is refused by its name,
        # unless nothing else could be meant by it.
        if equals and (name in names or name.isidentifier()):
            found[name] = value
        else:
            bare.append(text_)
    free = [n for n in names if n not in found]
    if len(bare) > len(free):
        raise click.UsageError(f"{bare[len(free)]!r} is one argument too many; there are {', '.join(names)}.")
    return {**dict(zip(free, bare, strict=False)), **found}


def _show_queries(known: QueryList, as_json: bool) -> None:
    if as_json:
        emit_json(known.model_dump(mode="json"))
        return
    width = columns()
    for q in known.queries:
        needed = " ".join(f"{p.name.upper()}" if p.required else f"[{p.name}]" for p in q.parameters)
        plain(f"{q.name} {needed}", bold=True)
        print_wrapped(q.summary, "   ", width)


def _show_rows(found: QueryResult, places: Places) -> None:
    width = columns()
    for row in found.rows:
        print_wrapped(row.text, "", width, hang="   ")
        for cited in row.citations[:1]:
            shown = cited.edge_id[:SHOWN_ID] if width else cited.edge_id or cited.chunk_id
            print_place(places, places.place(cited.url, cited.line), f"  {shown}", width)
    if not found.rows:
        print_wrapped(found.text, "", width)
        for cited in found.named_in:
            print_place(places, places.place(cited.url, cited.line), "", width)
    rest = f", {found.total - len(found.rows)} more by --limit" if found.truncated else ""
    print_wrapped(f"{counted(found.total, 'row')}{rest}. {found.scope}", "", width, dim=True)
    for note in found.unseen:
        click.echo(note, err=True)


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
    kb: Any = open_kb(namespace)
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
@click.argument("question", required=False)
@click.option("--limit", type=click.IntRange(1, 100), default=5, show_default=True, help="Most sentences.")
@_filters
@_mode
@namespace_option
@click.option("-i", "--interactive", is_flag=True, help="Go on asking; a line may lean on those before.")
@click.option(
    "--model/--no-model",
    default=None,
    help="Let the chat model answer, or not (default: where one is configured).",
)
@as_of_option
@json_option
def ask(
    question: str | None,
    limit: int,
    mode: str,
    namespace: str | None,
    interactive: bool,
    model: bool | None,
    as_of: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Answer QUESTION out of the knowledge base, with citations, or say that nothing does."""
    if question is None and not interactive:
        raise click.UsageError("Missing argument 'QUESTION'.")
    kb: Any = open_kb(namespace, embedding=mode != "keyword", as_of=as_of)
    chosen = _chosen(options)
    check_sources(chosen.get("source", ()), kb.manifest.sources)
    talk = kb.conversation(limit, mode=mode, model=model, **chosen)
    for asked in _questions(question, interactive):
        try:
            answer = talk.ask(asked)
        except TabootError as error:
            if not interactive:
                raise
            show_error(error, as_json)
            continue
        if as_json:
            emit_json(answer.model_dump(mode="json"))
        else:
            if answer.question != asked:
                plain(f"  {answer.question}", dim=True)
            _show_answer(answer, kb_places(kb))


def _questions(first: str | None, interactive: bool) -> Iterator[str]:
    """The questions of a conversation, until the end of the input or an empty line in a terminal."""
    if first is not None:
        yield first
    terminal = sys.stdin.isatty()
    while interactive:
        try:
            line = input("? " if terminal else "").strip()
        except EOFError:
            return
        if line:
            yield line
        elif terminal:
            return


def _show_answer(answer: Answer, places: Places) -> None:
    from taboot_pipelines.retrieval.snippets import snippet

    width = columns()
    for line in answer.text.splitlines():
        print_wrapped(line, "", width)
    if answer.closest:
        plain("  closest:", dim=True)
    for citation in (*answer.citations, *answer.closest):
        place = places.place(citation.url, citation.line, citation.section)
        number = f"[{citation.number}] "
        shown = _short(citation.chunk_id) if width else citation.chunk_id
        print_place(places, place, f"  {shown}", width, indent=f"  {number}")
        if answer.closest:
            _print_snippet(snippet(citation.text, (), _SNIPPET), width)
    for note in (*answer.notes, *(f"drift: {said}" for said in answer.drift)):
        print_wrapped(note, "  ", width)
    if answer.found:
        plain(f"  from {answer.kind}, {answer.certainty} ({answer.confidence:.2f})", dim=True)


@click.command()
@click.argument("question", required=False)
@click.option("--right", "verdict", flag_value="right", help="The answer is right, and so are its documents.")
@click.option("--wrong", "verdict", flag_value="wrong", help="The answer is wrong.")
@click.option("--nothing", "verdict", flag_value="none", help="Nothing here says it.")
@click.option("--withdraw", "verdict", flag_value="withdraw", help="Forget what was thought of it.")
@click.option("--says", multiple=True, metavar="REGEX", help="What a right answer matches; repeatable.")
@click.option("--note", metavar="TEXT", default="", help="Why; it is kept and shown.")
@click.option("--who", metavar="NAME", default=None, help="Who says so; default: this user.")
@namespace_option
@json_option
def feedback(
    question: str | None,
    verdict: str | None,
    says: tuple[str, ...],
    note: str,
    who: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Say what you think of the answer to QUESTION; without it, list what people think.

    `taboot evaluate` without a file asks these questions again: what was right stays answered from the same
    documents, what was wrong is answered as --says says, and what nothing says is left alone.
    """
    if (question is None) != (verdict is None):
        raise click.UsageError("Give a QUESTION with --right, --wrong, --nothing or --withdraw, or neither.")
    kb = open_kb(namespace, embedding=verdict == "right")
    if question is not None:
        kb.feedback(question, None if verdict == "withdraw" else verdict, must=says, note=note, who=who)
    kept = kb.feedbacks()
    if as_json:
        emit_json([item.model_dump(mode="json") for item in kept])
        return
    for item in kept if question is None else [x for x in kept if x.question == question]:
        plain(f"{item.verdict:<6} {item.question}")
        told = [f"{item.at:%Y-%m-%d}", item.who, *item.must, item.note]
        plain("       " + ", ".join(x for x in told if x), dim=True)


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option("--wrong", is_flag=True, help="List the questions that were answered wrongly, too.")
@_filters
@_mode
@namespace_option
@json_option
def evaluate(
    file: str | None, wrong: bool, mode: str, namespace: str | None, as_json: bool, **options: Any
) -> None:
    """Ask the questions of FILE, whose answers it holds, and count the right ones; without FILE, those of
    `taboot feedback`.

    FILE has a JSON object a line, with `question`, `kind` (`none` for what nothing answers), `must` (regular
    expressions that a right answer matches) and `evidence` (ends of paths of which it cites one).
    """
    kb: Any = open_kb(namespace, embedding=mode != "keyword")
    found = kb.evaluate(file, mode=mode, **_chosen(options))
    if as_json:
        emit_json(
            {
                "scores": [score.model_dump(mode="json") for score in found.scores],
                "questions": [{**row.model_dump(mode="json"), "verdict": row.verdict} for row in found.rows],
            }
        )
        return
    plain(f"{'kind':<12}{'asked':>7}{'right':>7}{'wrong':>7}{'unanswered':>12}")
    for score in found.scores:
        told = f"{score.asked:>7}{score.right:>7}{score.wrong:>7}{score.unanswered:>12}"
        plain(f"{score.kind:<12}{told}")
    if wrong:
        for row in (row for row in found.rows if row.verdict == "wrong"):
            plain(f"\n{row.id or row.kind}: {row.question}")
            print_wrapped(" ".join(row.text.split()), "  ", columns())
