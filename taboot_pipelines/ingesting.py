"""One ingest of some sources: the whole chain with its checks, without Dagster.

Each source goes through the stages that are its own, so that one that fails stops no other. The stages of the
namespace then run once for all sources that came through: a run of them brings in what is pending of all, and
a run for each source would write the same shards again for each. Of many sources what is there is published
in steps, so that an ingest that is interrupted leaves a knowledge base.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import orjson

from taboot_pipelines import logs, telemetry
from taboot_pipelines.checks import CHECKS, merged
from taboot_pipelines.errors import TabootError, raised_at
from taboot_pipelines.model import ids
from taboot_pipelines.model.crawl_graph import CrawlProgress
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.check_scope import WHOLE_SECONDS, Check, CheckResult, CheckRun
from taboot_pipelines.stages.crawl_graph import watched
from taboot_pipelines.stages.quiet import TOGETHER, Quiet, quiet_sources
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.running import run_entries, run_together
from taboot_pipelines.stages.stage import NamespaceStage, SourceStage
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.catalog.writing import now_micros
from taboot_pipelines.stores.disk import on_disk, replace_file

_log = logging.getLogger(__name__)

#: Codes worth a retry in a moment; any other failure lasts until somebody acts. A server whose client
#: has its own retries (Qdrant, Neo4j, a chat model) is not among them: its retry queue and the next run
#: take care of it.
TRANSIENT = frozenset({"E_BUSY", "E_TIMEOUT", "E_NETWORK", "E_EMBEDDER", "E_STORAGE", "E_CATALOG", "E_REDIS"})
MAX_RETRIES = 2
#: What came through is published after so many sources that changed, or so many seconds: soon at first, so
#: that there is something to ask, then each time after twice as long.
PUBLISH_SOURCES = 200
FIRST_SECONDS, PUBLISH_SECONDS = 10.0, 60.0


class Observer(Protocol):
    """Who watches an ingest."""

    def begin(self, what: str) -> None: ...

    def progress(self, stage: str, done: int, total: int) -> None: ...

    def crawl(self, progress: CrawlProgress) -> None: ...

    def report(self, report: StageReport) -> None: ...

    def end(self, what: str, ok: bool) -> None: ...


@dataclass
class Outcome:
    """What became of one source: the reports of the stages that ran, and all that went wrong."""

    source: str
    reports: list[StageReport] = field(default_factory=list)
    #: Several where more than one server did not answer: each stops its own stage only.
    errors: list[TabootError] = field(default_factory=list)
    #: Names of checks that failed as errors; warnings are shown by what they warn of.
    checks: list[str] = field(default_factory=list)
    #: Items that failed, in this run or before, and still do. What is rejected on purpose (another language,
    #: an empty text) is not among them.
    dead: list[dict[str, str]] = field(default_factory=list)
    #: Whether all stages of its own succeeded, so that the namespace can take in what it has.
    came_through: bool = False
    retired: bool = False

    @property
    def held(self) -> list[dict[str, Any]]:
        return [h for r in self.reports for h in r.held]

    @property
    def ok(self) -> bool:
        return not self.errors and not self.checks and not self.held and not self.dead


@dataclass
class Published:
    """What one step of an ingest did: the reports by source, those of the namespaces' stages as each tells of
    all its sources, and the results of the checks that were carried out.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    of_namespaces: dict[str, list[StageReport]] = field(default_factory=dict)
    checks: list[tuple[Check, CheckResult]] = field(default_factory=list)


@contextmanager
def told(settings: Settings, stage: str) -> Iterator[None]:
    """Let every failure of a stage be an error of ours, without secrets and without the words of a server
    behind it: Dagster stores what it is given.
    """
    try:
        yield
    except TabootError as error:
        raise logs.redacted(error, settings) from None
    # The message of a defect may quote a document, and whoever is told of it may keep it.
    except Exception as error:  # noqa: BLE001
        raise TabootError(
            "E_INTERNAL",
            f"The stage {stage} failed with {type(error).__name__}.",
            stage=stage,
            where=raised_at(error),
        ) from None


def goes_again(stage: str, error: TabootError, attempt: int) -> bool:
    """Whether a stage that failed is to be tried again after this attempt, counted from 0; it is logged."""
    again = error.code in TRANSIENT and attempt < MAX_RETRIES
    said = {"stage": stage, "code": error.code, "reason": error.message}
    if again:
        _log.warning("stage is tried again", extra={**said, "attempt": attempt + 1})
    else:
        _log.error("stage failed", extra=said)
    return again


def log_problems(report: StageReport) -> None:
    """Log what went wrong with single items, by id: a log outlives the erasure of a document, and its path
    may be telling, too.
    """
    with logs.bind(source=report.source_id, namespace=report.namespace, stage=report.stage):
        for problem in report.problems:
            document = item_id(report.namespace, report.source_id, report.stage, problem["item"])
            _log.warning(problem["code"], extra={"document": document})
        for held in report.held:
            _log.warning(held["code"], extra={"deletions": held.get("deletions")})


def item_id(namespace: str, source_id: str, stage: str, item: str) -> str:
    """Return the id of an item of a stage, under which it may be named where an erasure does not reach."""
    if item.startswith(("document:", "window:", "server:")):
        return item
    # The items of a tier are units, `{kind}:{path}`; all other items are paths.
    kind, colon, path = item.partition(":") if CHAIN.stage(stage).observes else ("", "", item)
    return kind + colon + ids.doc_id(namespace, ids.locator(source_id, path))


class Memory:
    """What earlier ingests of a home did: which checks passed, and what Dagster was told.

    It spares an ingest that finds nothing new the checks, and Dagster the events. It lies beside Dagster's
    storage, and where it is lost or does not belong to that storage, everything is checked and told again.
    """

    def __init__(self, settings: Settings) -> None:
        home = settings.dagster_home
        self._path = home / "reported.json"
        try:
            storage = (home / "dagster.yaml").read_bytes()
        except OSError:
            storage = b""
        self._storage = ids.sha256_hex(storage)
        self._passed: dict[str, dict[str, Any]] = {}
        self._told: dict[str, dict[str, str]] = {}
        #: Whether each check passed when Dagster was told of it last.
        self.checks: dict[str, bool] = {}
        # A file that was damaged says nothing.
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            found = orjson.loads(self._path.read_bytes())
            if storage and found["storage"] == self._storage:
                self._passed, self._told, self.checks = found["passed"], found["told"], found["checks"]
        self._read = self._written()

    def is_checked(self, owner: str, reports: Sequence[StageReport]) -> bool:
        """Whether the checks of these stages of an owner, a source or a namespace, passed not long ago for
        the data that is there now.
        """
        found = self._passed.get(owner)
        return (
            found is not None
            and 0 <= time.time() - found["at"] < WHOLE_SECONDS
            and found["versions"].items() >= _versions(reports).items()
        )

    def checked(self, owner: str, reports: Sequence[StageReport]) -> None:
        """Note that all checks of an owner passed; once a day they are due whatever has changed."""
        found = self._passed.get(owner)
        now = time.time()
        at = found["at"] if found is not None and 0 <= now - found["at"] < WHOLE_SECONDS else now
        self._passed[owner] = {"at": at, "versions": _versions(reports)}

    def untold(self, step: Published) -> dict[tuple[str, str], list[StageReport]]:
        """Return the reports that say something new, by source and stage, in the order of the sources.

        What a stage of the namespace did is told of the sources whose change it was, and of all that it was
        never told of; where it was no source's change, of the one that has its report.
        """
        found: dict[tuple[str, str], list[StageReport]] = {}
        for outcome in step.outcomes:
            told_before = self._told.get(outcome.source, {})
            own: dict[str, list[StageReport]] = {}
            for report in outcome.reports:
                own.setdefault(report.stage, []).append(report)
            versions = _versions(outcome.reports)
            shared: dict[str, list[StageReport]] = {}
            for report in step.of_namespaces.get(outcome.source, ()):
                shared.setdefault(report.stage, []).append(report)
            is_news = False
            for stage, reports in own.items():
                changed = any(report.changed for report in reports)
                never = stage not in told_before
                if stage in shared:
                    if changed or never or is_news:
                        found[outcome.source, stage] = shared[stage]
                elif changed or never or told_before[stage] != versions[stage]:
                    is_news = True
                    found[outcome.source, stage] = reports
        return found

    def untold_checks(self, step: Published, stages: Collection[str]) -> list[tuple[Check, CheckResult]]:
        """Return the results to be told where these stages are: theirs, and those that are others now."""
        return [
            (check, result)
            for check, result in step.checks
            if check.stage in stages or self.checks.get(check.key) != result.passed
        ]

    def is_told(self, step: Published, sources: Collection[str]) -> bool:
        """Whether Dagster knows all that this step has to say, and has these sources as its partitions."""
        return not (self.untold(step) or self.untold_checks(step, ()) or self._told.keys() != set(sources))

    def told(
        self, reports: Mapping[tuple[str, str], Sequence[StageReport]], sources: Collection[str]
    ) -> None:
        """Note that Dagster was told of these, and has these sources as its partitions."""
        for (source, stage), of_stage in reports.items():
            self._told.setdefault(source, {})[stage] = _versions(of_stage)[stage]
        self._told = {source: self._told.get(source, {}) for source in sources}

    def save(self) -> None:
        """Write it, if anything of it is new."""
        try:
            self._storage = ids.sha256_hex(self._path.with_name("dagster.yaml").read_bytes())
        except OSError:
            # Dagster's storage was never opened, so there is nothing that it knows.
            return
        now = self._written()
        if now != self._read:
            with on_disk("What Dagster was told cannot be noted", self._path):
                replace_file(self._path, now)
            self._read = now

    def _written(self) -> bytes:
        return orjson.dumps(
            {"storage": self._storage, "passed": self._passed, "told": self._told, "checks": self.checks}
        )


class Ingest:
    """One ingest: ``run`` takes the sources through the chain and yields a step each time that something was
    published, the last time at its end.
    """

    def __init__(
        self, workspace: Workspace, observer: Observer, memory: Memory, *, confirm_deletes: bool = False
    ) -> None:
        self._workspace, self._observer, self._memory = workspace, observer, memory
        self._confirm_deletes = confirm_deletes
        self._entries: dict[str, list[Entry]] = {}
        #: Sources that had nothing new, so that nothing of them is run.
        self._quiet: dict[str, Quiet] = {}
        self._results: dict[str, list[CheckResult]] = {}

    def run(self, sources: Sequence[str]) -> Iterator[Published]:
        """Take sources through the chain; every source is told of in one of the steps."""
        began, step, changed, seconds = time.monotonic(), Published(), 0, FIRST_SECONDS
        for number, source in enumerate(sources, 1):
            if number % TOGETHER == 1:
                self._look(sources[number - 1 : number - 1 + TOGETHER])
            outcome = self._of_source(source)
            step.outcomes.append(outcome)
            changed += any(report.changed for report in outcome.reports)
            due = changed >= PUBLISH_SOURCES or time.monotonic() >= began + seconds
            if changed and due and number < len(sources):
                yield self._publish(step)
                began, step, changed = time.monotonic(), Published(), 0
                seconds = min(2 * seconds, PUBLISH_SECONDS)
        yield self._publish(step)

    def _look(self, sources: Sequence[str]) -> None:
        """Find out which of the next sources have nothing new, and note that they were read."""
        began = now_micros()
        quiet = {
            source: found
            for source, found in quiet_sources(self._workspace, sources).items()
            if self._memory.is_checked(source, found.reports)
        }
        for namespace in {found.entry.namespace for found in quiet.values()}:
            jobs = {s: found.job for s, found in quiet.items() if found.entry.namespace == namespace}
            self._workspace.catalog.jobs.confirm(namespace, jobs, began)
        self._quiet |= quiet

    def _of_source(self, source: str) -> Outcome:
        """Take a source through its own stages and their checks."""
        outcome = Outcome(source)
        self._observer.begin(source)
        if (quiet := self._quiet.get(source)) is not None:
            self._entries[source] = [quiet.entry]
            outcome.reports, outcome.came_through = quiet.reports, True
            for report in outcome.reports:
                self._observer.report(report)
            self._observer.end(source, outcome.ok)
            return outcome
        try:
            self._entries[source] = self._workspace.entries(source)
        except TabootError as error:
            # Another process has retired it since.
            outcome.errors.append(error)
        else:
            with telemetry.span("source", f"source {source}", source=source):
                outcome.came_through = self._through(CHAIN.of_source, source, [source], outcome)
        self._observer.end(source, outcome.ok)
        return outcome

    def _through(
        self,
        stages: Sequence[SourceStage | NamespaceStage],
        owner: str,
        sources: Sequence[str],
        outcome: Outcome,
    ) -> bool:
        """Run these stages with their checks; whether all of them succeeded.

        A stage that fails, or a blocking check of it, stops those that need it.
        """
        stopped: set[str] = set()
        pairs = [(entry.namespace, source) for source in sources for entry in self._entries[source]]
        for stage in stages:
            if stopped & set(stage.needs):
                stopped.add(stage.name)
                continue
            try:
                reports = self._attempt(stage, sources)
            except TabootError as error:
                stopped.add(stage.name)
                outcome.errors.append(error)
                continue
            outcome.reports += reports
            told_of = any(report.changed or report.held or report.problems for report in reports)
            if told_of or not self._memory.is_checked(owner, reports):
                checks = [check for check in CHECKS if check.stage == stage.name]
                if not self._passes(checks, pairs, outcome):
                    stopped.add(stage.name)
        if not outcome.checks and not outcome.errors:
            self._memory.checked(owner, outcome.reports)
        return not stopped

    def _publish(self, step: Published) -> Published:
        """Bring in, namespace by namespace, what the sources that came through have left pending.

        What is said of a namespace is said of each of them. The first gets the reports; for the others there
        was nothing left to do.
        """
        left = {outcome.source: outcome for outcome in step.outcomes if outcome.came_through}
        for namespace in sorted({entry.namespace for s in left for entry in self._entries[s]}):
            inside = [s for s in left if any(e.namespace == namespace for e in self._entries[s])]
            if not inside:
                continue
            # The first is the one that asks, and there is something to finish only where something was run.
            inside.sort(key=lambda source: source in self._quiet)
            # A source that moves between two namespaces is in both; its run was for both.
            outcomes = [left.pop(source) for source in inside]
            shown = f"namespace {namespace}"
            self._observer.begin(shown)
            of_all = Outcome(shown)
            self._through(CHAIN.of_namespace, shown, inside, of_all)
            for number, outcome in enumerate(outcomes):
                outcome.reports += [
                    report if number == 0 else _nothing_left(report, outcome.source)
                    for report in of_all.reports
                ]
                outcome.errors += of_all.errors
                outcome.checks += of_all.checks
                step.of_namespaces[outcome.source] = of_all.reports
            self._observer.end(shown, of_all.ok)
        step.checks = [
            (check, merged(self._results[check.key])) for check in CHECKS if check.key in self._results
        ]
        self._results = {}
        return step

    def _attempt(self, stage: SourceStage | NamespaceStage, sources: Sequence[str]) -> list[StageReport]:
        """Run a stage, several times where another try may succeed; tell the observer what it did."""
        attempt = 0
        while True:
            try:
                with told(self._workspace.settings, stage.name):
                    reports = self._run(stage, sources)
                break
            except TabootError as error:
                if not goes_again(stage.name, error, attempt):
                    raise
            time.sleep(2**attempt)
            attempt += 1
        for report in reports:
            log_problems(report)
            self._observer.report(report)
        return reports

    def _run(self, stage: SourceStage | NamespaceStage, sources: Sequence[str]) -> list[StageReport]:
        if isinstance(stage, NamespaceStage):
            # Of a source that was not run there is nothing to finish either.
            asking = [source for source in sources if source not in self._quiet] or sources[:1]
            return run_together(self._workspace, stage, asking, self._observer.progress)
        (source,) = sources
        run = partial(
            run_entries,
            self._workspace,
            stage,
            self._entries[source],
            self._observer.progress,
            confirm_deletes=self._confirm_deletes,
        )
        if stage is not CHAIN.first:
            return run()
        with watched(lambda: self._workspace, source, self._observer.crawl):
            return run()

    def _passes(self, checks: Sequence[Check], pairs: Sequence[tuple[str, str]], outcome: Outcome) -> bool:
        """Carry out checks of these sources; whether no blocking one failed."""
        go_on = True
        run = CheckRun(self._workspace, pairs, names=self._workspace.settings.metadata_text)
        for check in checks:
            try:
                with told(self._workspace.settings, check.stage):
                    result = check.look(run)
            except TabootError as error:
                outcome.errors.append(error)
                continue
            self._results.setdefault(check.key, []).append(result)
            if not result.passed and not check.warns:
                outcome.checks.append(check.name)
                go_on &= not check.blocking
        return go_on


def _versions(reports: Sequence[StageReport]) -> dict[str, str]:
    """Return {stage: data version}; of a source that moves, of both of its namespaces."""
    found: dict[str, str] = {}
    for report in reports:
        found[report.stage] = found.get(report.stage, "") + report.data_version[:16]
    return found


def finish(workspace: Workspace, outcomes: Sequence[Outcome]) -> None:
    """Note of each source, at the end, whether it has retired and which of its items still fail."""
    namespaces: dict[str, list[str]] = {}
    for row in workspace.catalog.sources.find():
        namespaces.setdefault(row["source_id"], []).append(row["namespace"])
    letters = {
        namespace: workspace.catalog.dead_letters.find(namespace)
        for namespace in {n for several in namespaces.values() for n in several}
    }
    for outcome in outcomes:
        outcome.retired = outcome.source not in namespaces
        outcome.dead = [
            {k: letter[k] for k in ("stage", "code", "item", "message")}
            for namespace in namespaces.get(outcome.source, ())
            for letter in letters[namespace]
            if letter["source_id"] == outcome.source and letter["kind"] == "failed"
        ]


def _nothing_left(report: StageReport, source: str) -> StageReport:
    """Return the report of a stage of the namespace for a source that another source's run had brought in."""
    return replace(
        report,
        source_id=source,
        counts={},
        problems=[],
        held=[],
        sample=[],
        skipped=report.skipped or "unchanged",
        seconds=0.0,
        bytes=0,
    )
