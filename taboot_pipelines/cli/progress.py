"""How far an ingest has come: bars in a terminal, now and then a line off one.

Both say how far the stage is and how fast, and what is waited for.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import console

if TYPE_CHECKING:
    from taboot_pipelines.model.crawl_graph import CrawlProgress
    from taboot_pipelines.stages.report import StageReport

#: Off a terminal a line says so often how far it is.
_SECONDS_BETWEEN_LINES = 10.0


class Display:
    """Shows the progress of one run at a time. This one shows nothing: for programs and for output that is
    no terminal.
    """

    def begin(self, what: str) -> None: ...

    def progress(self, stage: str, done: int, total: int) -> None: ...

    def crawl(self, progress: CrawlProgress) -> None: ...

    def waits(self, what: str, seconds: float) -> None:
        """For what it waits, and how long at most, 0 where that is not known; "" when it is over."""

    def report(self, report: StageReport) -> None: ...

    def end(self, what: str, ok: bool) -> None: ...


class _Bars(Display):
    """A bar for each source and namespace: its stage, and how far that has come; of a crawl also how many
    pages wait, how fast it goes, and what fails.
    """

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task: Any = None
        self._crawls = False

    def begin(self, what: str) -> None:
        self._task, self._crawls = self._progress.add_task(what, total=None, stage="", rate=""), False

    def progress(self, stage: str, done: int, total: int) -> None:
        # The crawl itself knows more.
        if not self._crawls:
            self._update(stage, done, total or None)

    def crawl(self, progress: CrawlProgress) -> None:
        self._crawls = True
        known = progress.counts["discovered"]
        self._update(progress.sentence, progress.done, known)

    def waits(self, what: str, seconds: float) -> None:
        if self._task is not None:
            self._progress.update(self._task, rate=f"waits for {what}" if what else "")

    def report(self, report: StageReport) -> None:
        self._crawls = False
        # What comes next has a rate of its own.
        self._progress.reset(self._task, total=None, stage=report.stage, rate="")

    def end(self, what: str, ok: bool) -> None:
        stage = "done" if ok else "look below"
        self._progress.update(self._task, stage=stage, completed=1, total=1, rate="")

    def _update(self, stage: str, done: int, total: int | None) -> None:
        self._progress.update(self._task, stage=stage, completed=done, total=total)
        task = next((t for t in self._progress.tasks if t.id == self._task), None)
        speed = task.speed if task is not None else None
        self._progress.update(self._task, rate=f"{speed:,.1f}/s" if speed else "")


class _Lines(Display):
    """Off a terminal: a line for what takes long, every ten seconds, with its rate and the time left."""

    def __init__(self) -> None:
        self._what = ""
        #: When the stage that is under way began, and when a line was written last.
        self._began = self._last = time.monotonic()

    def begin(self, what: str) -> None:
        self._what = what
        self._began = self._last = time.monotonic()

    def waits(self, what: str, seconds: float) -> None:
        now = time.monotonic()
        # A long wait is told when it begins: nothing else may be said before it ends.
        if what and (seconds >= _SECONDS_BETWEEN_LINES or now - self._last >= _SECONDS_BETWEEN_LINES):
            self._last = now
            most = f", {seconds:,.0f} s at most" if seconds else ""
            click.echo(f"{self._what}: waits for {what}{most}", err=True)

    def report(self, report: StageReport) -> None:
        self._began = time.monotonic()

    def progress(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last < _SECONDS_BETWEEN_LINES:
            return
        self._last = now
        click.echo(f"{self._what}: {stage}: {_pace(done, total, now - self._began)}", err=True)

    def crawl(self, progress: CrawlProgress) -> None:
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            click.echo(f"{self._what}: {progress.sentence}", err=True)


def _pace(done: int, total: int, seconds: float) -> str:
    """How far it has come, how fast, and how long the rest takes at that rate."""
    told = f"{done:,} of {total:,}" if total else f"{done:,}"
    rate = done / seconds if seconds > 0 else 0
    if not rate:
        return told
    left = f", {(total - done) / rate:,.0f} s left" if total > done else ""
    return f"{told}, {rate:,.1f}/s{left}"


@contextlib.contextmanager
def display(quiet: bool) -> Iterator[Display]:
    out = console(stderr=True)
    if quiet:
        yield Display()
        return
    if not out.is_terminal:
        yield _Lines()
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[stage]}", style="cyan"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", style="dim"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        console=out,
    ) as progress:
        yield _Bars(progress)
