"""Interprets units of a source once more because a person asks; makes such runs active, or takes it back.

What comes of it waits beside the active runs: nothing that is served changes until it is promoted. A
promotion is recorded as an input, under the leases; the tier's stage then finds the run in the archive, and
the stages behind it are brought up to date as after a deletion. If the process is killed after the record,
the next run does the rest. Holds rules ``versioned-runs``, ``incremental-equals-scratch`` and
``kill-anywhere``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.errors import TabootError, unknown_sources
from taboot_pipelines.incremental import Difference, batches
from taboot_pipelines.knowledge.document_units import SourceDocuments
from taboot_pipelines.knowledge.interpretation import Interpreter, PromotedRun
from taboot_pipelines.knowledge.observations import observation_table
from taboot_pipelines.knowledge.runs import (
    Archive,
    Outcome,
    RunLog,
    Tier,
    beating,
    failing,
    run_outcome,
    stored_reads,
)
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.jobs import RunState
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import follow
from taboot_pipelines.stages.quotas import questions_of
from taboot_pipelines.stages.tiers import TierStage, check_overrides
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress


@dataclass(frozen=True)
class Reinterpreted:
    """What a reinterpretation has made.

    ``run_ids``: the runs that wait to be promoted. ``previous_run_ids``: {such a run: the active run of its
    unit, in whose place it would come}. ``failed``: {unit: why} of those that could not be read.
    """

    namespace: str
    tier: str
    run_ids: tuple[str, ...]
    previous_run_ids: Mapping[str, str]
    failed: Mapping[str, str]


def tier_named(name: str) -> TierStage:
    """Return the stage of a tier, called ``tier_b``, ``B`` or ``tier_b_triples``. Raises ``E_QUERY``."""
    tiers = {stage.tier.source.value: stage for stage in CHAIN.of_source if isinstance(stage, TierStage)}
    wanted = str(name).strip().lower()
    for called, stage in tiers.items():
        if wanted in (called, called.removeprefix("tier_"), stage.name):
            return stage
    raise TabootError("E_QUERY", f"There is no tier {name!r}; there are {', '.join(sorted(tiers))}.")


def reinterpret(
    workspace: Workspace,
    namespace: str,
    *,
    tier: str,
    docs: Collection[str] | None = None,
    source: str | None = None,
    config: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Reinterpreted:
    """Make a new run of each unit of a source, or of those that read some documents.

    ``config``: settings of the tier that are otherwise than configured. A killed reinterpretation leaves the
    runs that it has completed. Raises ``E_QUERY`` for a wrong argument, ``E_NOT_FOUND`` for a document or a
    source that is not there, ``E_STORAGE_PENDING``, ``E_INTERPRETATION_IN_PROGRESS`` and ``E_QUOTA`` where
    the source cannot be read again now, ``E_BUSY``, and what the extractor raises.
    """
    stage, overrides = tier_named(tier), dict(config or {})
    check_overrides(stage.tier, overrides)
    upgrade_tables(workspace, namespace)
    works = [
        _Work(workspace, entry, stage, doc_ids, canonical_json(overrides))
        for entry, doc_ids in _places(workspace, namespace, docs, source)
    ]
    check_quota(workspace, namespace, stage.tier)
    made = [(work, outcome) for work in works for outcome in work.carry_out(progress)]
    outcomes = [outcome for _, outcome in made]
    return Reinterpreted(
        namespace,
        stage.tier.source.value,
        tuple(outcome.run_id for outcome in outcomes if not outcome.transient),
        {o.run_id: work.active[o.unit.unit_id] for work, o in made if o.unit.unit_id in work.active},
        {o.unit.unit_id: o.problems[0].message for o in outcomes if o.transient},
    )


def check_quota(workspace: Workspace, namespace: str, tier: Tier) -> None:
    """Raise ``E_QUOTA`` if the namespace may ask nothing more this month, and the tier asks."""
    quota = questions_of(workspace, namespace)
    if tier.counted and quota.left == 0:
        raise TabootError(
            "E_QUOTA",
            f"Namespace {namespace} has asked {quota.asked} of {quota.limit} questions this month.",
            limit=quota.limit,
            used=quota.asked,
        )


def _places(
    workspace: Workspace, namespace: str, docs: Collection[str] | None, source: str | None
) -> list[tuple[Entry, frozenset[str] | None]]:
    """Return the sources to work on, each with its documents (None: all)."""
    if (docs is None) == (source is None):
        raise TabootError("E_QUERY", "Say what to interpret again: either docs or source.")
    entries = {entry.source_id: entry for entry in workspace.entries_of(namespace) if not entry.retiring}
    if source is not None:
        if source not in entries:
            raise unknown_sources([source], entries, namespace)
        return [(entries[source], None)]
    wanted = {docs} if isinstance(docs, str) else set(docs or ())
    by_source: dict[str, set[str]] = {}
    for of, located in workspace.catalog.locators.of_documents(namespace, sorted(wanted)):
        if located.state == "present" and of in entries:
            by_source.setdefault(of, set()).add(located.doc_id)
    unknown = wanted - {doc_id for found in by_source.values() for doc_id in found}
    if unknown or not wanted:
        raise TabootError(
            "E_NOT_FOUND",
            f"{len(unknown)} of {len(wanted)} documents are not in namespace {namespace}.",
            doc_ids=sorted(unknown)[:10],
        )
    return [(entries[of], frozenset(found)) for of, found in sorted(by_source.items())]


class _Work:
    """The reinterpretation of one source: what it is about is known before anything is done."""

    def __init__(
        self,
        workspace: Workspace,
        entry: Entry,
        stage: TierStage,
        doc_ids: frozenset[str] | None,
        overrides: str,
    ) -> None:
        self._workspace, self._entry, self._stage = workspace, entry, stage
        self._overrides = overrides
        self._place = (entry.namespace, entry.source_id, stage.tier.source.value)
        self._log = RunLog(workspace.catalog, entry.namespace, entry.source_id, stage.tier)
        #: {unit: its active run}
        self.active: Mapping[str, str] = {}
        #: The units, of which some may be gone once the source's lease is held.
        interpreter = self._interpreter()
        self.units = self._find_units(interpreter, doc_ids) & interpreter.readers(overrides).keys()
        self._check_stored(doc_ids)

    def carry_out(self, progress: Progress) -> Sequence[Outcome]:
        """Interpret the units and keep what they say, batch by batch."""
        workspace, namespace = self._workspace, self._entry.namespace
        if not self.units:
            return []
        batch_id, other = workspace.catalog.batches.announce(*self._place, self.units)
        if batch_id is None:
            assert other is not None
            raise TabootError(
                "E_INTERPRETATION_IN_PROGRESS",
                f"Process {other['pid']} on {other['host']} interprets units of {self._entry.source_id}.",
                source=self._entry.source_id,
            )
        with beating(workspace.catalog, namespace) as heart:
            # It lives while it waits for the lease, too.
            heart.batch_id = batch_id
            with (
                failing(workspace.catalog, namespace, batch_id),
                workspace.leases.source(namespace, self._entry.source_id),
            ):
                workspace.catalog.batches.start(namespace, batch_id)
                outcomes = self._interpret(batch_id, progress)
                workspace.catalog.batches.withdraw(namespace, batch_id)
        return outcomes

    def _interpret(self, batch_id: str, progress: Progress) -> list[Outcome]:
        tier, tables = self._stage.tier, self._workspace.tables
        interpreter = self._interpreter()
        units = sorted(self.units & interpreter.readers(self._overrides).keys())
        for unit, number in self._log.next_numbers(units).items():
            interpreter.read_otherwise(unit, number, self._overrides)
        archive = Archive(tables, self._entry.namespace, self._entry.source_id, tier)
        done: list[Outcome] = []
        for buckets, names, _ in batches(
            Difference(tuple(units), ()),
            self._workspace.settings.limits.batch_documents,
            lambda unit: interpreter.units[unit].bucket,
        ):
            outcomes = list(interpreter.interpret(names))
            rows = observation_table(row for outcome in outcomes for row in outcome.rows)
            # The rows come first: a run that is recorded has them.
            archive.replace(rows, [o.run_id for o in outcomes], buckets, txn=batch_id)
            self._log.propose(outcomes)
            done += outcomes
            progress(self._stage.name, len(done), len(units))
        return done

    def _interpreter(self) -> Interpreter:
        return interpreter_of(self._workspace, self._stage, self._entry)

    def _find_units(self, interpreter: Interpreter, doc_ids: frozenset[str] | None) -> frozenset[str]:
        """Return the units of the source (or those that are or read some documents) that are their own."""
        states = self._log.states()
        self.active = {unit: state.run_id for unit, state in states.items()}
        suppressed = {unit for unit, state in states.items() if state.suppressed}
        units = interpreter.units.keys() - suppressed
        if doc_ids is None:
            return frozenset(units)
        located = self._workspace.catalog.locators.of_documents(self._entry.namespace, sorted(doc_ids))
        paths = {x.path for _, x in located}
        return frozenset(
            unit
            for unit in units
            if interpreter.units[unit].anchor in doc_ids
            or (unit in states and not paths.isdisjoint(states[unit].reads.files))
        )

    def _check_stored(self, doc_ids: frozenset[str] | None) -> None:
        missing = self._workspace.catalog.blobs.not_stored(self._entry.namespace)
        if not missing:
            return
        present = self._workspace.catalog.locators.of_source(self._entry.namespace, self._entry.source_id)
        waiting = [
            x for x in present.values() if x.sha256 in missing and (doc_ids is None or x.doc_id in doc_ids)
        ]
        if waiting:
            raise TabootError(
                "E_STORAGE_PENDING",
                f"The bytes of {len(waiting)} documents of {self._entry.source_id} are not stored yet.",
                doc_ids=sorted(x.doc_id for x in waiting)[:10],
            )


def interpreter_of(workspace: Workspace, stage: TierStage, entry: Entry) -> Interpreter:
    """Return what interprets a source as it was parsed last. Raises ``E_NOT_FOUND`` if it never was."""
    pointer = workspace.catalog.pointers.get(entry.namespace, entry.source_id, documents.STAGE)
    if pointer is None:
        raise TabootError(
            "E_NOT_FOUND",
            f"{documents.STAGE} of source {entry.source_id} has not been materialized yet.",
            remedy=f"Run `taboot ingest {entry.source_id}` first.",
        )
    listing = SourceDocuments(workspace.tables, entry.namespace, entry.source_id, pointer.tables["documents"])
    return stage.interpreter(workspace, entry, listing)


def tiers_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return rows that have a source and a tier as {(source, tier): its rows}."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["source_id"], row["tier"]), []).append(row)
    return found


@dataclass(frozen=True)
class Promoted:
    """What a promotion did.

    ``promotion``: its id, by which it is taken back ("" if there was nothing to do). ``run_ids``: the runs
    that are active now. ``lapsed``: candidates whose unit has another input by now. ``pending``: stores that
    did not answer and are written by the next run.
    """

    promotion: str
    run_ids: tuple[str, ...]
    lapsed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


@dataclass(frozen=True)
class RolledBack:
    """What was taken back: ``run_ids`` were active, ``active`` are instead of them."""

    run_ids: tuple[str, ...]
    active: tuple[str, ...]
    pending: tuple[str, ...] = ()


def promote(
    workspace: Workspace,
    namespace: str,
    *,
    runs: Collection[str] = (),
    source: str | None = None,
    tier: str | None = None,
) -> Promoted:
    """Make some runs active, or all candidates of a source and tier.

    Raises ``E_QUERY`` for a wrong argument, ``E_NOT_FOUND`` if there is no such run or no candidate,
    ``E_CONFLICT`` if a run that is named did not complete or its unit has another input by now, and
    ``E_BUSY``. Then nothing was changed.
    """
    named = {runs} if isinstance(runs, str) else set(runs)
    rows = _wanted(workspace, namespace, named, source, tier)
    sources = {row["source_id"] for row in rows}
    upgrade_tables(workspace, namespace)
    with workspace.leases.several(namespace, sources):
        chosen, lapsed = _standing(workspace, namespace, rows)
        if lapsed and named:
            raise TabootError(
                "E_CONFLICT",
                f"{len(lapsed)} of {len(named)} runs were made from other bytes, or by another version.",
                remedy="Interpret their units again: `taboot reinterpret`.",
                runs=sorted(lapsed)[:10],
            )
        promotion = ""
        new = _not_chosen_yet(workspace, namespace, chosen)
        if new:
            promotion = workspace.catalog.choices.add(namespace, new)
            run_ids = sorted(row["run_id"] for row in new)
            workspace.catalog.audit_log.record(namespace, "promote", promotion, runs=run_ids[:1000])
        pending = _follow(workspace, namespace, sources)
    return Promoted(promotion, tuple(sorted(row["run_id"] for row in chosen)), tuple(sorted(lapsed)), pending)


def rollback(
    workspace: Workspace,
    namespace: str,
    *,
    promotion: str | None = None,
    runs: Collection[str] = (),
    source: str | None = None,
    tier: str | None = None,
) -> RolledBack:
    """Take back a promotion, that of some runs, or the last one of a source and tier.

    What was promoted before it holds again, or else what the settings in force give. Raises ``E_QUERY`` for a
    wrong argument, ``E_NOT_FOUND`` if nothing is promoted, and ``E_BUSY``. Then nothing was changed.
    """
    catalog = workspace.catalog
    named = {runs} if isinstance(runs, str) else set(runs)
    if sum((promotion is not None, bool(named), source is not None or tier is not None)) != 1:
        raise TabootError("E_QUERY", "Say what to take back: a promotion, runs, or a source and a tier.")
    if source is not None or tier is not None:
        place = _place(source, tier)
        last = catalog.choices.last_promotion(namespace, *place)
        found = [] if last is None else catalog.choices.find(namespace, promotion=last)
        rows = [row for row in found if (row["source_id"], row["tier"]) == place]
    elif named:
        rows = catalog.choices.find(namespace, run_ids=named)
    else:
        rows = catalog.choices.find(namespace, promotion=promotion)
    if not rows:
        raise TabootError("E_NOT_FOUND", "Nothing of that is promoted, so nothing is taken back.")
    sources = {row["source_id"] for row in rows}
    upgrade_tables(workspace, namespace)
    with workspace.leases.several(namespace, sources):
        catalog.choices.withdraw(namespace, [row["id"] for row in rows])
        run_ids = sorted({row["run_id"] for row in rows})
        catalog.audit_log.record(namespace, "rollback", rows[0]["promotion"], runs=run_ids[:1000])
        pending = _follow(workspace, namespace, sources)
    active = [
        state["run_id"]
        for (of, called), its in tiers_of(rows).items()
        for state in catalog.runs.unit_states(namespace, of, called, {row["unit_id"] for row in its}).values()
        if not state["suppressed"]
    ]
    return RolledBack(tuple(run_ids), tuple(sorted(active)), pending)


def _wanted(
    workspace: Workspace, namespace: str, named: Collection[str], source: str | None, tier: str | None
) -> Sequence[Mapping[str, Any]]:
    """Return the runs to promote, as the catalog has them."""
    runs = workspace.catalog.runs
    if named and (source is not None or tier is not None):
        raise TabootError("E_QUERY", "Say what to promote: either runs, or a source and a tier.")
    if not named:
        of, called = _place(source, tier)
        rows = runs.find(namespace, source_id=of, tier=called, candidate=True)
        if not rows:
            raise TabootError(
                "E_NOT_FOUND",
                f"No run of {of} and {called} waits to be promoted.",
                remedy="Make some first: `taboot reinterpret`.",
            )
        return rows
    found = runs.by_id(namespace, named)
    unknown = sorted(set(named) - found.keys())
    if unknown:
        raise TabootError(
            "E_NOT_FOUND",
            f"{len(unknown)} of {len(named)} runs are not in namespace {namespace}.",
            runs=unknown[:10],
        )
    unusable = sorted(
        run for run, row in found.items() if row["status"] != RunState.COMPLETED or row["outcome"] == ""
    )
    if unusable:
        raise TabootError(
            "E_CONFLICT",
            f"{len(unusable)} of {len(named)} runs did not complete, or an earlier release made them.",
            remedy="Interpret their units again: `taboot reinterpret`.",
            runs=unusable[:10],
        )
    units = [(row["source_id"], row["tier"], row["unit_id"]) for row in found.values()]
    if len(set(units)) < len(units):
        raise TabootError("E_QUERY", "Two of the runs are of one unit; only one can be active.")
    return list(found.values())


def _place(source: str | None, tier: str | None) -> tuple[str, str]:
    if source is None or tier is None:
        raise TabootError("E_QUERY", "Name a source and a tier.")
    return source, tier_named(tier).tier.source.value


def _standing(
    workspace: Workspace, namespace: str, rows: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the choices to record, and the runs whose unit is gone or has another input by now."""
    entries = {e.source_id: e for e in workspace.entries_of(namespace) if not e.retiring}
    chosen: list[dict[str, Any]] = []
    lapsed: list[str] = []
    for (source, tier), runs in tiers_of(rows).items():
        interpreter = (
            interpreter_of(workspace, tier_named(tier), entries[source]) if source in entries else None
        )
        for run in runs:
            reads = run_outcome(run["outcome"]).reads
            choice = PromotedRun(
                run["unit_id"],
                run["run_id"],
                run["number"],
                run["input_fingerprint"],
                run["overrides"],
                reads,
            )
            if interpreter is None or not interpreter.holds(choice):
                lapsed.append(run["run_id"])
            elif run["archived_at"] is not None:
                chosen.append(
                    {
                        "source_id": source,
                        "tier": tier,
                        "unit_id": choice.unit_id,
                        "run_id": choice.run_id,
                        "number": choice.number,
                        "input_fingerprint": choice.input_fingerprint,
                        "overrides": choice.overrides,
                        "reads": canonical_json(stored_reads(reads)),
                    }
                )
    return chosen, lapsed


def _not_chosen_yet(
    workspace: Workspace, namespace: str, chosen: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return what is to be recorded: a promotion that was killed behind its record is not recorded twice."""
    found = []
    for (source, tier), rows in tiers_of(chosen).items():
        newest: dict[str, str] = {}
        for row in workspace.catalog.choices.of_tier(namespace, source, tier):
            newest.setdefault(row["unit_id"], row["run_id"])
        found += [dict(row) for row in rows if newest.get(row["unit_id"]) != row["run_id"]]
    return found


def _follow(workspace: Workspace, namespace: str, sources: Collection[str]) -> tuple[str, ...]:
    """Bring the later stages up to date; return the stores that did not answer.

    If a source could not be completed, what was decided stands, and the next run that can applies it.
    """
    followed = follow(workspace, namespace, sources)
    if followed.failure is not None:
        raise followed.failure
    return tuple(sorted(followed.pending))
