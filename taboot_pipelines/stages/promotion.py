"""Makes runs the active ones of their units, and takes that back, without fetching or asking a model.

A promotion is recorded as an input, under the leases; the tier's stage then finds the run in the archive, and
the stages behind it are brought up to date as after a deletion. If the process is killed after the record,
the next run does the rest. Holds rules ``versioned-runs``, ``incremental-equals-scratch`` and
``kill-anywhere``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.interpreter import Choice
from taboot_pipelines.knowledge.runs import left, stored_reads
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.jobs import RunState
from taboot_pipelines.stages.deriving import follow
from taboot_pipelines.stages.reinterpreting import interpreter_of, tier_named, tiers_of
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Workspace


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
            reads = left(run["outcome"]).reads
            choice = Choice(
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
