"""``check``: what a change to files would do, before it is ingested."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.output import emit_json, namespace_option, plain, show_error
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.check import CheckReport
    from taboot_pipelines.settings import Settings
    from taboot_pipelines.sources.survey import Found
    from taboot_pipelines.stages.workspace import Entry

#: Affected things and facts that are shown; the other forms have all.
_SHOWN = 40


@click.command()
@click.argument(
    "folder", required=False, default=".", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--git", "range_", metavar="RANGE", help="Compare commits: BASE..HEAD, BASE...HEAD, or BASE with FOLDER."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown", "sarif"]),
    default="text",
    show_default=True,
)
@namespace_option
def check(folder: Path, range_: str | None, form: str, namespace: str | None) -> None:
    """Say what a change to the files of FOLDER (default: here) would do; nothing is ingested.

    FOLDER as it is is compared with what the home has published of it, else with the last commit. Exit code
    0: it causes no problem; 1: it does; 2: it could not be checked.
    """
    try:
        report = _report(folder, range_, namespace)
    except TabootError as error:
        show_error(error, form == "json")
        sys.exit(2)
    if form == "text":
        _show(report)
    elif form == "markdown":
        from taboot_pipelines.retrieval.check.written import markdown

        click.echo(markdown(report), nl=False)
    elif form == "sarif":
        from taboot_pipelines.retrieval.check.written import sarif

        emit_json(sarif(report))
    else:
        emit_json(report.model_dump(mode="json"))
    if report.problems:
        sys.exit(1)


def _report(folder: Path, range_: str | None, namespace: str | None) -> CheckReport:
    from taboot_pipelines.retrieval.check.checker import Checker
    from taboot_pipelines.retrieval.check.places import Repository, of_commits, of_home, opened
    from taboot_pipelines.settings import load_settings

    settings = load_settings(**({} if namespace is None else {"namespace": namespace}))
    folder = Path(os.path.realpath(folder))
    try:
        home = opened(settings)
    except TabootError:
        if range_ is None:
            raise
        home = None  # Commits can be compared without one.
    checker = Checker(settings, home)
    sides = of_home(folder, settings, home) if range_ is None and home is not None else None
    if sides is not None:
        before, after = checker.side(sides.before), checker.side(sides.after)
        return checker.check(before, after, sides.names, sides.notes)
    repository = Repository.of(folder)
    entries = partial(entries_of, folder, settings)
    with of_commits(repository, "HEAD" if range_ is None else range_, folder, entries, settings) as sides:
        before, after = checker.side(sides.before), checker.side(sides.after)
        return checker.check(before, after, sides.names, sides.notes)


def entries_of(folder: Path, settings: Settings, states: Sequence[Path] = ()) -> list[Entry]:
    """The sources of a folder: those of the sources file that lie in it, else what `taboot init` would find
    there, or in any of the places where its ``states`` lie. Raises ``E_SOURCES`` where there is none."""
    from taboot_pipelines.cli.sources import drafted
    from taboot_pipelines.connectors.entries import DirectorySource
    from taboot_pipelines.connectors.files import source_directory
    from taboot_pipelines.sources.sources_file import load_sources
    from taboot_pipelines.sources.survey import survey
    from taboot_pipelines.stages.workspace import Entry

    def entries(file: Path, root: Path) -> list[Entry]:
        declared = load_sources(file).entries.values()
        made = [Entry(e.namespace, e.id, "active", e, root) for e in declared]
        return [
            e
            for e in made
            if isinstance(e.config, DirectorySource)
            and e.namespace == settings.namespace
            and Path(os.path.realpath(source_directory(e.config.path, root))).is_relative_to(folder)
        ]

    if settings.sources_file.exists():
        found = entries(settings.sources_file, settings.sources_file.parent)
        if found:
            return found
        click.echo(
            f"{settings.sources_file} names nothing in {folder}; what init finds is checked.", err=True
        )
    with tempfile.TemporaryDirectory() as temporary:
        looked = _together([survey(at).found for at in states or (folder,) if at.is_dir()])
        if not looked:
            raise TabootError(
                "E_SOURCES",
                f"Beneath {folder} there is nothing to read: no Compose file, configuration or document.",
                remedy="Name another folder, or a sources file by TABOOT_SOURCES.",
            )
        file = Path(temporary, "sources.yaml")
        file.write_text(drafted(looked, folder, folder, settings.namespace), encoding="utf-8")
        return entries(file, folder)


def _together(states: Sequence[Sequence[Found]]) -> list[Found]:
    """What was found in states of one folder, the later ones first; of one type what holds the others."""
    found: dict[tuple[str, str], Found] = {}
    for one in (f for state in reversed(states) for f in state):
        known = found.get((one.type, one.path))
        if known is not None:
            exclude = tuple(dict.fromkeys((*known.exclude, *one.exclude)))
            one = replace(known, proxy=known.proxy or one.proxy, exclude=exclude)
        found[one.type, one.path] = one
    return [
        f
        for f in found.values()
        if not any((f.type, str(above)) in found for above in PurePosixPath(f.path).parents if f.path != ".")
    ]


def _show(report: CheckReport) -> None:
    from taboot_pipelines.retrieval.check.written import fact, place

    plain(f"{report.before} → {report.after}: files that differ: {len(report.files):,}", dim=True)
    facts = [
        (f"{_MARKS[f.kind]} {fact(f)}", f"{place(f.file, f.line)}{_WHEN.get(f.kind, '')}")
        for f in report.facts
    ]
    impact = [
        (f"{c.cause}: {c.affected}{f' ({c.project})' if c.project else ''} {c.how}", place(c.file, c.line))
        for c in report.impact
    ]
    problems = [(f"{p.rule}: {p.statement}", place(p.file, p.line)) for p in report.problems]
    for title, lines, most in (
        ("Problems", problems, len(problems)),
        ("Affected", impact, _SHOWN),
        ("Facts", facts, _SHOWN),
    ):
        if lines:
            plain(f"{title}: {len(lines):,}", bold=True)
        for text, where in lines[:most]:
            plain(f"  {text}")
            plain(f"      {where}", dim=True)
        if len(lines) > most:
            plain(f"  and {len(lines) - most:,} more, by --format json")
    for note in report.notes:
        click.echo(note, err=True)
    if not problems:
        plain("It causes no problem.")


_MARKS = {"added": "+", "removed": "-", "changed": "~"}
#: Of what is gone the line is that of the file as it was.
_WHEN = {"removed": " (before)"}
