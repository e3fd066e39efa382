"""What the catalog remembers of a tier's interpretation of a source: runs, the state of each unit, and dead
letters (rules ``unit-of-interpretation``, ``versioned-runs`` and ``nothing-lost-silently``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.knowledge.observations import Observation
from taboot_pipelines.knowledge.units import Reads, Unit
from taboot_pipelines.model.graph import EdgeSource
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.jobs import RunState
from taboot_pipelines.model.records import Problem
from taboot_pipelines.stores.blobs import UNREADABLE
from taboot_pipelines.stores.catalog import Catalog, now_micros

#: What a unit leaves open without being wrong: recorded with its reason, no failure.
NOTES = frozenset({"E_UNRESOLVED", "E_NOT_FOUND"})


@dataclass(frozen=True, slots=True)
class Tier:
    """A tier of interpretation, as its stage describes it."""

    source: EdgeSource
    #: Under its name the dead letters are kept.
    stage: str
    #: The table of its observations, which has the schema of ``observations``.
    table: str
    #: Of what its rows and runs look like.
    version: str
    #: ``rule_based``, or what else reads the units (seed 003 §3.2).
    extractor_type: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a unit: its rows, and what to remember of it."""

    unit: Unit
    run_id: str
    fingerprint: str
    config: Mapping[str, Any]
    rows: Sequence[Observation]
    problems: Sequence[Problem]
    reads: Reads
    subordinates: Collection[str]
    environment: Collection[str]
    #: A part could not be read this time: there are no rows, and the next run interprets the unit again.
    transient: bool


@dataclass(frozen=True, slots=True)
class UnitState:
    """What is remembered of the last run of a unit."""

    fingerprint: str
    reads: Reads
    subordinates: Collection[str]
    problems: Sequence[Problem]
    suppressed: bool


class RunLog:
    """The runs of one tier over one source."""

    def __init__(self, catalog: Catalog, namespace: str, source_id: str, tier: Tier) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._source_id = source_id
        self._tier = tier

    def states(self, units: Collection[str] | None = None) -> dict[str, UnitState]:
        """{unit_id: state} of every unit (or of some) that has an active run, or one that is suppressed."""
        rows = self._catalog.runs.unit_states(self._namespace, self._source_id, self._tier.source, units)
        return {
            unit: UnitState(
                fingerprint=row["fingerprint"],
                reads=Reads(row["reads"]["files"], row["reads"]["globs"], row["reads"].get("format", "")),
                subordinates=row["subordinates"],
                problems=[Problem(*problem) for problem in row["problems"]],
                suppressed=row["suppressed"],
            )
            for unit, row in rows.items()
        }

    def forget(self, units: Collection[str]) -> None:
        """Archive the runs of some units and drop their states."""
        self._write([], [], units)

    def record(self, outcomes: Iterable[Outcome], gone: Collection[str]) -> None:
        """Record finished runs: those of equal input are activated again (rule ``versioned-runs``). A
        transient outcome is forgotten, as are the ``gone`` units."""
        now = now_micros()
        runs: list[dict[str, Any]] = []
        states: list[dict[str, Any]] = []
        forgotten = list(gone)
        for outcome in outcomes:
            if outcome.transient:
                forgotten.append(outcome.unit.unit_id)
            else:
                runs.append(self._run(outcome, now))
                states.append(_state(outcome))
        self._write(runs, states, forgotten)

    def suppress(self, units: Iterable[str], suppressed: bool) -> None:
        """Archive the runs of units that are none of their own, or make them active again."""
        self._catalog.runs.set_suppressed(
            self._namespace, self._source_id, self._tier.source, dict.fromkeys(units, suppressed)
        )

    def write_letters(
        self, letters: Sequence[Mapping[str, str]], units: Collection[str] | None = None
    ) -> list[Mapping[str, Any]]:
        """Make the dead letters of the stage (or those of some units) equal to these; return all of them."""
        place = (self._namespace, self._source_id, self._tier.stage)
        known = {row["item"] for row in self._catalog.dead_letters.find(*place)}
        examined = known if units is None else known & set(units)
        self._catalog.dead_letters.record(
            *place, [dict(letter) for letter in letters], examined - {letter["item"] for letter in letters}
        )
        return self._catalog.dead_letters.find(*place)

    def _write(
        self, runs: Sequence[dict[str, Any]], states: Sequence[dict[str, Any]], gone: Collection[str]
    ) -> None:
        self._catalog.runs.record(self._namespace, self._source_id, self._tier.source, runs, states, gone)

    def _run(self, outcome: Outcome, now: int) -> dict[str, Any]:
        nodes = sum(row.kind == "node" for row in outcome.rows)
        return {
            "run_id": outcome.run_id,
            "unit_id": outcome.unit.unit_id,
            "input_fingerprint": outcome.fingerprint,
            "status": RunState.COMPLETED.value,
            "interpretation_config": canonical_json(
                {
                    **outcome.config,
                    "extractor_type": self._tier.extractor_type,
                    "schema_version": self._tier.version,
                }
            ),
            "error_message": None,
            "extracted_nodes": nodes,
            "extracted_edges": len(outcome.rows) - nodes,
            "confidence": None,
            "unknown_field_count": 0,
            "extraction_completeness": "partial" if outcome.problems else "complete",
            "started_at": now,
            "completed_at": now,
            "heartbeat_at": now,
            "timeout_at": None,
        }


def _state(outcome: Outcome) -> dict[str, Any]:
    return {
        "unit_id": outcome.unit.unit_id,
        "run_id": outcome.run_id,
        "reads": canonical_json(
            {
                "files": outcome.reads.files,
                "globs": outcome.reads.globs,
                **({"format": outcome.reads.format} if outcome.reads.format else {}),
            }
        ),
        "fingerprint": outcome.fingerprint,
        "subordinates": canonical_json(sorted(outcome.subordinates)),
        "environment": canonical_json(sorted(outcome.environment)),
        "problems": canonical_json([[p.path, p.code, p.message] for p in outcome.problems]),
        "suppressed": False,
    }


def dead_letter(unit: str, fingerprint: str, problems: Sequence[Problem]) -> dict[str, str]:
    """The letter of a unit that has problems: the worst of them speaks, and how many more there are."""
    worst = min(problems, key=lambda p: (p.code not in UNREADABLE, p.code in NOTES))
    message = worst.message if worst.message.startswith(worst.path) else f"{worst.path}: {worst.message}"
    if len(problems) > 1:
        message += f" ({len(problems) - 1} more in this unit)"
    return {
        "item": unit,
        "code": worst.code,
        "message": message,
        "fingerprint": fingerprint,
        "kind": "skipped" if worst.code in NOTES else "failed",
    }
