"""``alert``: from an alert to the document that is read first."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from taboot_pipelines.cli.output import emit_json, json_option, namespace_option, open_kb, plain
from taboot_pipelines.cli.places import columns, kb_places, print_place, print_wrapped
from taboot_pipelines.errors import TabootError

#: Bytes that are read of stdin.
_MAX_BODY = 1 << 20


@click.command()
@click.argument("labels", nargs=-1, metavar="[NAME=VALUE]...")
@namespace_option
@json_option
def alert(labels: tuple[str, ...], namespace: str | None, as_json: bool) -> None:
    """Show where to begin with an alert: which document to read, what is meant, what hangs on it, and what
    changed there last week.

    Labels as NAME=VALUE, as `taboot alert alertname=TraefikDown job=traefik`; a word alone is the alert's
    name, and `summary`, `description` and `runbook_url` count as annotations. Without any, or with
    `-`, the JSON body of Alertmanager's webhook is read from stdin.
    """
    alerts = [_alert(labels)] if labels not in ((), ("-",)) else _body()
    kb = open_kb(namespace, embedding=True)
    guides = [kb.for_alert(said, told) for said, told in alerts]
    if as_json:
        emit_json({"alerts": [guide.model_dump(mode="json") for guide in guides]})
        return
    places, width = kb_places(kb), columns()
    for guide in guides:
        plain(guide.alertname or "(an alert without a name)", bold=True)
        for note in guide.notes:
            print_wrapped(note, "  ", width)
        for rule in guide.rules:
            held = f" for {rule.held}" if rule.held else ""
            print_wrapped(f"raised by: {rule.expression}{held}", "  ", width, hang="    ")
            place = places.place(rule.url, rule.line, "", source=rule.source)
            print_place(places, place, "", width, indent="     ")
        for number, document in enumerate(guide.documents, 1):
            print_wrapped(f"{number}. {document.title or document.path}  ({document.why})", "  ", width)
            place = places.place(document.url, document.line, document.section, source=document.source)
            print_place(places, place, "", width, indent="     ")
        for thing in guide.things:
            scope = f" in {thing.scope}" if thing.scope else ""
            print_wrapped(f"meant: {thing.label} {thing.name}{scope} (by {thing.said_by})", "  ", width)
        for group in guide.dependents:
            names = ", ".join(item.text for item in group.items)
            print_wrapped(f"{group.how}: {names}", "  ", width, hang="    ")
        for change in guide.changes:
            why = f" ({change.commit.subject})" if change.commit is not None else ""
            print_wrapped(
                f"{change.kind} {change.at:%Y-%m-%d %H:%M}: {change.source}:{change.path}{why}", "  ", width
            )
        for fact in guide.facts:
            said = " → ".join(side.says for side in (fact.before, fact.after) if side is not None)
            print_wrapped(f"{fact.change}: {said}", "  ", width)
        for told in guide.unknown:
            print_wrapped(told, "  ", width, dim=True)


_ANNOTATIONS = ("summary", "description", "message", "runbook", "runbook_url")


def _alert(given: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if "-" in given:
        raise TabootError(
            "E_QUERY", "`-` stands for the body of a webhook, beside which there are no labels."
        )
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            name, value = "alertname", text
        (annotations if name in _ANNOTATIONS else labels)[name] = value
    return labels, annotations


def _body() -> list[tuple[Mapping[str, str], Mapping[str, str]]]:
    data = sys.stdin.buffer.read(_MAX_BODY + 1)
    if len(data) > _MAX_BODY:
        raise TabootError(
            "E_TOO_LARGE", f"The body has more than {_MAX_BODY:,} bytes.", remedy="Send less at once."
        )
    try:
        body: Any = json.loads(data)
        alerts = body.get("alerts", [body])
        return [(a["labels"], a.get("annotations") or {}) for a in alerts if a.get("status") != "resolved"]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise TabootError(
            "E_PARSE",
            "What was read from stdin is no body of Alertmanager's webhook: no `alerts` with `labels`.",
            remedy="Name labels as NAME=VALUE, or pipe the JSON body in.",
        ) from None
