"""``rules``: what of the house's declarations asks for trouble."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.completion import rule_names
from taboot_pipelines.cli.output import emit_json, json_option, namespace_option, open_kb, plain
from taboot_pipelines.cli.places import SHOWN_ID, Places, columns, kb_places, print_place, print_wrapped

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.rules import RuleFinding, RuleReport

_SEVERITIES = ("error", "warning", "info")
_STYLES = {"error": "red", "warning": "yellow"}


@click.command()
@click.option("--rule", metavar="NAME", default=None, shell_complete=rule_names, help="Only this rule.")
@click.option("--project", metavar="NAME", default=None, help="Only services of this project.")
@click.option(
    "--fail-on",
    type=click.Choice(_SEVERITIES),
    default=None,
    help="Exit code 1 if something so bad, or worse, is found.",
)
@click.option("--silenced", is_flag=True, help="Show what is silenced, and why, instead.")
@click.option(
    "--list", "listing", is_flag=True, help="List the rules, how many places each finds, and what to do."
)
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=200, show_default=True, help="Most findings."
)
@namespace_option
@json_option
def rules(
    rule: str | None,
    project: str | None,
    fail_on: str | None,
    silenced: bool,
    listing: bool,
    limit: int,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Show where the house's declarations ask for trouble, the worst first, each with its place.

    What is right as it is, is silenced in the sources file (`rules`), or by a comment beside the declaration:
    `# taboot: allow RULE because REASON`.
    """
    kb = open_kb(namespace)
    found = kb.rules(rule, project, limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
    elif listing:
        _show_rules(found)
    else:
        _show(found, found.silenced if silenced else found.findings, kb_places(kb))
    worst = found.worst()
    if fail_on is not None and worst is not None and _SEVERITIES.index(worst) <= _SEVERITIES.index(fail_on):
        sys.exit(1)


def _show_rules(found: RuleReport) -> None:
    for rule in found.rules:
        silenced = f", {rule.silenced} silenced" if rule.silenced else ""
        plain(f"{rule.name} ({rule.severity.value}): {rule.found} found{silenced}", bold=True)
        print_wrapped(f"{rule.summary} Else: {rule.remedy}", "   ", columns())


def _show(found: RuleReport, shown: tuple[RuleFinding, ...], places: Places) -> None:
    width = columns()
    for one in shown:
        head = f"{one.severity.value:<8}{one.rule}: {one.subject}"
        print_wrapped(head, "", width, bold=True, fg=_STYLES.get(one.severity.value))
        print_wrapped(one.silenced or one.statement, "   ", width)
        for cited in one.citations:
            edge = cited.edge_id[:SHOWN_ID] if width else cited.edge_id
            print_place(places, places.place(cited.url, cited.line), f"  {edge}".rstrip(), width)
    for note in found.notes:
        click.echo(note, err=True)
    rest = f", {found.total - len(found.findings):,} more by --limit" if found.truncated else ""
    plain(
        f"{found.total:,} found by {len(found.rules)} rules{rest}, {len(found.silenced):,} silenced.",
        dim=True,
    )
