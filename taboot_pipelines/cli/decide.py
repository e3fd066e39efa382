"""``correct``, ``retract``, ``add``, ``merge``, ``undo``, ``assertions``, ``supports``: what people say."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.admin import require_catalog
from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, plain, table, text
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.decisions import Decided

_EDGE_ID = re.compile(r"[0-9a-f]{64}")
#: So much of a file of facts is read at most.
_MAX_FILE = 256_000_000


def _about(function: Any) -> Any:
    function = click.option("--who", metavar="NAME", default=None, help="Who says so; default: this user.")(
        function
    )
    return click.option("--reason", metavar="TEXT", default="", help="Why; it is kept and shown.")(function)


def _label(function: Any) -> Any:
    return click.option(
        "--label", metavar="TYPE", default=None, help="Only an entity of this type, such as Service."
    )(function)


def _kb(namespace: str | None, *, new: bool = False) -> Any:
    """The knowledge base; ``new``: also where nothing was published yet."""
    from taboot_pipelines.retrieval import KnowledgeBase
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    if new:
        return KnowledgeBase(settings, namespace or settings.namespace)
    require_catalog(settings)
    return KnowledgeBase.open(namespace=namespace, settings=settings)


def _value(given: str, as_text: bool) -> Any:
    if as_text:
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given


def _done(done: Decided, as_json: bool, said: str, *, for_good: bool = False) -> None:
    """Show ``said``, what holds by this decision, by what it is undone, and what does not know it yet."""
    if as_json:
        emit_json({**done.model_dump(mode="json"), "final": done.final})
    else:
        plain(said)
        if not for_good:
            plain(f"  taken back by: taboot undo {done.observation_id[:12]}", dim=True)
        if not done.final:
            late = [store for store, state in done.stores.items() if state != "done"]
            plain(f"  the next run brings it to: {', '.join(late)}")
    sys.exit(0 if done.final else 1)


@click.command()
@click.argument("what")
@click.argument("field")
@click.argument("value")
@click.option("--text", "as_text", is_flag=True, help="VALUE is a text, though it could be read as JSON.")
@_label
@_about
@namespace_option
@json_option
def correct(
    what: str,
    field: str,
    value: str,
    as_text: bool,
    label: str | None,
    reason: str,
    who: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Say what FIELD of an entity (its name or key), or of an edge (its id), really is.

    VALUE is JSON, or a text where it is none; `null` says that there is no value. It wins over every document
    until `taboot undo`.
    """
    kb, said = _kb(namespace), _value(value, as_text)
    if _EDGE_ID.fullmatch(what) and label is None:
        done = kb.correct_edge(what, field, said, reason, who=who)
    else:
        done = kb.correct(what, field, said, reason, who=who, label=label)
    now = "has no value" if said is None else f"is now {json.dumps(said, ensure_ascii=False)}"
    _done(done, as_json, f"{field} of {what} {now}, whatever documents say.")


@click.command()
@click.argument("edge_id")
@_about
@namespace_option
@json_option
def retract(edge_id: str, reason: str, who: str | None, namespace: str | None, as_json: bool) -> None:
    """Say that what an edge states is not so, in whichever document it stands."""
    done = _kb(namespace).correct_edge(edge_id, reason=reason, who=who)
    _done(done, as_json, f"The edge {edge_id[:12]} is not so, whatever documents say.")


@click.command()
@click.argument("entity")
@click.argument("into")
@_label
@_about
@namespace_option
@json_option
def merge(
    entity: str,
    into: str,
    label: str | None,
    reason: str,
    who: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Say that ENTITY is the entity INTO: names or keys of two of the same type."""
    done = _kb(namespace).merge(entity, into, reason, who=who, label=label)
    _done(done, as_json, f"{entity} is {into} now.")


@click.command()
@click.argument("entity_type", metavar="[TYPE", required=False)
@click.argument("fields", metavar="FIELD=VALUE...]", nargs=-1)
@click.option(
    "--file",
    "file",
    type=click.File("r", encoding="utf-8"),
    default=None,
    help="Facts as JSON, one a line, as `ingest_structured_batch` takes them; - reads them from the input.",
)
@click.option(
    "--raw", metavar="FILE", default=None, help="A file that shows it, at most 1 MB, which is kept."
)
@_about
@namespace_option
@json_option
def add(
    entity_type: str | None,
    fields: tuple[str, ...],
    file: Any,
    raw: str | None,
    reason: str,
    who: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """State a fact: an entity by its TYPE and fields (`taboot add Host hostname=nas ip=10.0.0.9`), or many
    facts by --file."""
    if (entity_type is None) == (file is None):
        raise click.UsageError("Give a TYPE with its fields, or --file.")
    kb = _kb(namespace, new=True)
    if file is not None:
        if raw is not None:
            raise click.UsageError("--raw goes with a TYPE; in a file each fact has its raw_file_path.")
        done = kb.ingest_structured_batch(_facts(file), reason, who=who)
    else:
        properties = {}
        for given in fields:
            name, sign, value = given.partition("=")
            if not sign:
                raise click.UsageError(f"{given!r} is not FIELD=VALUE.")
            properties[name] = _value(value, as_text=False)
        done = (kb.ingest_structured(entity_type, properties, raw_file_path=raw, reason=reason, who=who),)
    if as_json:
        emit_json([{**d.model_dump(mode="json"), "final": d.final} for d in done])
    else:
        for d in done[:20]:
            plain(f"{d.kind} {d.observation_id}  {d.entity_id or ''}")
        plain(f"{len(done)} facts.", dim=True)
    sys.exit(0 if all(d.final for d in done) else 1)


def _facts(file: Any) -> list[Any]:
    found = []
    for number, line in enumerate(file.read(_MAX_FILE).splitlines(), 1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                raise TabootError(
                    "E_ENTITY_VALIDATION",
                    f"Line {number} is not JSON.",
                    remedy="Give one JSON object a line.",
                    line=number,
                ) from None
    return found


@click.command()
@click.argument("assertion_id")
@click.option("--erase", is_flag=True, help="Remove every byte of what was typed or handed in, for good.")
@_about
@namespace_option
@json_option
def undo(
    assertion_id: str, erase: bool, reason: str, who: str | None, namespace: str | None, as_json: bool
) -> None:
    """Undo a decision, by its id or the beginning of it; undoing an undoing brings it back."""
    done = _kb(namespace, new=True).undo(assertion_id, erase, reason, who=who)
    said = f"The decision {assertion_id[:12]} is {'erased' if erase else 'undone'}."
    _done(done, as_json, said, for_good=erase)


@click.command()
@click.option("--all", "all_states", is_flag=True, help="Also what is superseded, undone or erased.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="The last.")
@namespace_option
@json_option
def assertions(all_states: bool, limit: int, namespace: str | None, as_json: bool) -> None:
    """List what people decided, in the order in which they did."""
    from taboot_pipelines.settings import load_settings

    require_catalog(load_settings())
    found = _kb(namespace, new=True).assertions(all_states=all_states, limit=limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    rows = table("id", "state", "says", "who", "why", "when")
    for item in found.items:
        shown = (
            item.observation_id[:12],
            item.state,
            item.says,
            item.who,
            item.reason,
            f"{item.at:%Y-%m-%d}",
        )
        rows.add_row(*(text(value) for value in shown))
    console().print(rows)
    if found.truncated:
        plain("Cut at the limit.", dim=True)


@click.command()
@click.argument("entity")
@_label
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most documents."
)
@namespace_option
@json_option
def supports(entity: str, label: str | None, limit: int, namespace: str | None, as_json: bool) -> None:
    """Show everything behind an entity: what documents say of it, and what people decided."""
    found = _kb(namespace).supports(entity, label=label, limit=limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    plain(f"{found.entity.label} {found.entity.name}  {found.entity.key}", bold=True)
    plain(f"  {json.dumps(found.entity.properties, ensure_ascii=False)}")
    for note in found.decisions:
        plain(f"correction  {note.says}  ({note.who}, {note.at:%Y-%m-%d}: {note.reason})")
    for seen in found.observations:
        where = f"{seen.url}:{seen.line}" if seen.line else seen.url
        plain(f"{seen.source:<11} {json.dumps(seen.properties, ensure_ascii=False)}")
        plain(f"            {where}", dim=True)
    if found.truncated:
        plain("Cut at the limit.", dim=True)
