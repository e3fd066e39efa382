"""``status``: one screen of how things are, what needs attention, and the command that mends it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from taboot_pipelines.cli.output import console, emit_json, fitted, json_option, listing, table, text

#: What is shown of each; `--json` has all.
_MAX_SOURCES = 12
_MAX_ATTENTION = 8
_MAX_LINES = 3
#: Counts that belong together; what is zero is not told.
_SAID_FIRST = ("documents", "rejected")


@click.command()
@click.option(
    "--failed",
    metavar="[SOURCE]",
    is_flag=False,
    flag_value="",
    default=None,
    help="List all items that failed or were passed over, of all sources or of one.",
)
@click.option("--parts", is_flag=True, help="List the configured parts, each with its version and latency.")
@json_option
def status(failed: str | None, parts: bool, as_json: bool) -> None:
    """Show how the parts and sources are, what needs attention, and the command that mends it.

    Exit code 1 if a configured part is unwell, or a setting or the sources file is wrong; what the others
    know is shown all the same. `taboot config` shows the settings.
    """
    from taboot_pipelines.cli.state import gather
    from taboot_pipelines.settings import load_leniently, unknown_variables

    settings, problems = load_leniently()
    state = gather(settings, problems, unknown_variables(settings.sources_file))
    if as_json:
        emit_json(state)
    elif failed is not None:
        _show_failed(state, failed)
    elif parts:
        _show_parts(state)
    else:
        _show(state)
    sys.exit(0 if state["ok"] else 1)


def _show(state: dict[str, Any]) -> None:
    out = console()
    for name in ("home", "sources"):
        out.print(text(f"{name:<8} {fitted(state['parts'][name], out.width - 9)}"))
    well = [f"{h['part']} {h['backend']}" for h in state["health"] if h["ok"]]
    listing(out, f"{'well':<8} ", [", ".join(well)])
    unwell = [h["part"] for h in state["health"] if not h["ok"]]
    if unwell:
        listing(out, f"{'unwell':<8} ", [", ".join(unwell)], style="red")
    for namespace, counts in state["namespaces"].items():
        first = {name: counts[name] for name in _SAID_FIRST if counts.get(name)}
        numbers = {k: v for k, v in {**first, **counts}.items() if v and isinstance(v, int)}
        told = ", ".join(f"{v:,} {k.replace('_', ' ')}" for k, v in numbers.items())
        listing(out, f"{namespace:<8} ", [told])
    if state["sources"]:
        out.print()
        _show_sources(state)
    elif "error" in state:
        listing(
            out,
            "",
            ["The sources, their jobs and dead letters are not known while the catalog does not answer."],
        )
    else:
        out.print("\nNo source has been read yet.")
    _show_attention(state)


def _show_sources(state: dict[str, Any]) -> None:
    out = console()
    troubled = {a["subject"] for a in state["attention"]}
    # Those that need attention are never among the ones that are left out.
    ordered = sorted(state["sources"], key=lambda s: (s["id"] not in troubled, s["state"] == "retired"))
    several = len({s["namespace"] for s in ordered}) > 1
    rejected = any(s["rejected"] for s in ordered)
    columns = ["source", *(["namespace"] if several else []), "type", "documents"]
    columns += [*(["rejected"] if rejected else []), "last run", "state"]
    shown = table(*columns, right=("documents", "rejected"), short=True)
    live = [s for s in ordered if s["state"] != "retired"]
    for s in live[:_MAX_SOURCES]:
        job = s["last_job"]
        where = [s["namespace"]] if several else []
        passed_by = [f"{s['rejected']:,}"] if rejected else []
        last_run = ago(job and job["started_at"])
        cells = [s["id"], *where, s["type"], f"{s['documents']:,}", *passed_by, last_run, word(s)]
        shown.add_row(*map(text, cells), style=None if word(s) == "well" else "yellow")
    out.print(shown)
    if len(live) > _MAX_SOURCES:
        out.print(text(f"… and {len(live) - _MAX_SOURCES:,} more: `taboot sources list`"))


def word(source: dict[str, Any]) -> str:
    """The state of a source in a word or two."""
    job = source["last_job"]
    if source["state"] == "retiring":
        return "has left the file"
    if source["state"] == "paused":
        return "paused"
    if job is None:
        return "not read yet"
    if job["state"] != "succeeded":
        return str(job["state"])
    if job["held"]:
        return "deletions held"
    if source["dead_letters"]["failed"]:
        return f"{source['dead_letters']['failed']:,} failed items"
    return "well"


def ago(when: str | None) -> str:
    """How long ago a moment (ISO 8601) was, in one unit."""
    if not when:
        return "never"
    seconds = (datetime.now(UTC) - datetime.fromisoformat(when)).total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def _show_attention(state: dict[str, Any]) -> None:
    out = console()
    found = state["attention"]
    if not found:
        out.print("\nNothing needs attention.", style="green")
        return
    out.print("\nneeds attention", style="bold")
    for item in found[:_MAX_ATTENTION]:
        listing(out, "  ", [f"{item['subject']}: {item['what']}"], style="yellow", most=_MAX_LINES)
        listing(out, "    ", [f"→ {item['command']}"], style="dim")
    if len(found) > _MAX_ATTENTION:
        out.print(text(f"  … and {len(found) - _MAX_ATTENTION:,} more: `taboot status --json`"))


def _show_parts(state: dict[str, Any]) -> None:
    out = console()
    shown = table("part", "backend", "state", "version", "ms", "where", right=("ms",))
    for h in state["health"]:
        shown.add_row(
            text(h["part"]),
            text(h["backend"]),
            text("well" if h["ok"] else "unwell"),
            text(h["version"] or ""),
            "" if h["latency_ms"] is None else f"{h['latency_ms']:.1f}",
            text(state["parts"].get(h["part"], "")),
            style=None if h["ok"] else "red",
        )
    out.print(shown)
    for h in state["health"]:
        if not h["ok"]:
            listing(out, "", [f"{h['part']}: {h['message']}"], style="red")


def _show_failed(state: dict[str, Any], source: str) -> None:
    out = console()
    found = [d for d in state["dead_letters"] if source in ("", d["source"])]
    for d in found:
        listing(
            out,
            "",
            [f"{d['source']}: {d['stage']}: {d['code']}: {d['message']} ({d['attempts']}×, {d['kind']})"],
        )
    if not found:
        out.print("No item failed.")
