"""What the catalog remembers of a tier's interpretation of a source: runs, the state of each unit, and dead
letters (rules ``unit-of-interpretation``, ``versioned-runs`` and ``nothing-lost-silently``).
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import replace_keys
from taboot_pipelines.knowledge.observations import Observation
from taboot_pipelines.knowledge.units import Reads, Unit
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EdgeSource
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.jobs import RunState
from taboot_pipelines.model.records import Problem
from taboot_pipelines.model.tables import empty
from taboot_pipelines.stores.blobs import UNREADABLE
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.writing import now_micros
from taboot_pipelines.stores.tables import Tables

#: What a unit leaves open without being wrong: recorded with its reason, no failure.
NOTES = frozenset({"E_UNRESOLVED", "E_NOT_FOUND", "E_UNSET"})
#: Between two heartbeats of what is being interpreted.
BEAT_SECONDS = 30.0


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
    #: ``rule_based``, or what else reads the units.
    extractor_type: str
    #: What a person may set otherwise for a reinterpretation, such as the model.
    options: frozenset[str] = frozenset()
    #: Its runs count against the namespace's quota (``interpretation_limit_month``).
    counted: bool = False


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
    #: Which reinterpretation of the unit this is (0: none), and what a person asked to be otherwise.
    number: int = 0
    overrides: str = "{}"
    #: Claims that do not fit the model, and values that the unit leaves open.
    unknown: int = 0
    #: It was taken from the archive: its record stands.
    again: bool = False

    @property
    def state(self) -> str:
        """The fingerprint that the state of the unit has: that of the input, and which reinterpretation."""
        return state_fingerprint(self.fingerprint, self.number)


@dataclass(frozen=True, slots=True)
class UnitState:
    """What is remembered of the last run of a unit; ``run_id`` is the active one."""

    run_id: str
    fingerprint: str
    reads: Reads
    subordinates: Collection[str]
    problems: Sequence[Problem]
    suppressed: bool


def state_fingerprint(input_fingerprint: str, number: int) -> str:
    """What the state of a unit remembers of its run: a reinterpretation of equal input is another."""
    return f"{input_fingerprint}.{number}" if number else input_fingerprint


def reads_of(stored: Mapping[str, Any]) -> Reads:
    """What :func:`stored_reads` was made of."""
    return Reads(stored.get("files", {}), stored.get("globs", {}), stored.get("format", ""))


def stored_reads(reads: Reads) -> dict[str, Any]:
    """What a unit read, for the catalog."""
    return {
        "files": reads.files,
        "globs": reads.globs,
        **({"format": reads.format} if reads.format else {}),
    }


class RunLog:
    """The runs of one tier over one source."""

    def __init__(self, catalog: Catalog, namespace: str, source_id: str, tier: Tier) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._source_id = source_id
        self._tier = tier
        self._started: int | None = None

    def states(self, units: Collection[str] | None = None) -> dict[str, UnitState]:
        """{unit_id: state} of every unit (or of some) that has an active run, or one that is suppressed."""
        rows = self._catalog.runs.unit_states(self._namespace, self._source_id, self._tier.source, units)
        return {
            unit: UnitState(
                run_id=row["run_id"],
                fingerprint=row["fingerprint"],
                reads=reads_of(row["reads"]),
                subordinates=row["subordinates"],
                problems=[Problem(*problem) for problem in row["problems"]],
                suppressed=row["suppressed"],
            )
            for unit, row in rows.items()
        }

    def forget(self, units: Collection[str]) -> None:
        """Archive the runs of some units and drop their states."""
        if units:
            self._write([], [], units)

    def record(self, outcomes: Iterable[Outcome], gone: Collection[str], batch_id: str | None = None) -> None:
        """Record ended runs: those of equal input are activated again (rule ``versioned-runs``). The state of
        a unit whose outcome is transient is forgotten, as are those of the ``gone`` units. ``batch_id``: the
        batch that ends with it."""
        now = now_micros()
        runs: list[dict[str, Any]] = []
        states: list[dict[str, Any]] = []
        again: list[str] = []
        forgotten = list(gone)
        for outcome in outcomes:
            if outcome.again:
                again.append(outcome.run_id)
            else:
                runs.append(self._run(outcome, now))
            if outcome.transient:
                forgotten.append(outcome.unit.unit_id)
            else:
                states.append(_state(outcome))
        self._write(runs, states, forgotten, again=again, batch_id=batch_id)

    def propose(self, outcomes: Iterable[Outcome]) -> None:
        """Record ended runs that wait to be promoted."""
        now = now_micros()
        runs = [self._run(outcome, now) for outcome in outcomes]
        self._catalog.runs.propose(self._namespace, self._source_id, self._tier.source, runs)

    def next_numbers(self, units: Collection[str]) -> dict[str, int]:
        """{unit_id: the number of the next reinterpretation}."""
        known = self._catalog.runs.numbers(self._namespace, self._source_id, self._tier.source, units)
        return {unit: known.get(unit, 0) + 1 for unit in units}

    def said(self, run_ids: Collection[str]) -> dict[str, Mapping[str, Any]]:
        """{run_id: its record} of those runs that were completed and whose record says what they left."""
        found = self._catalog.runs.by_id(self._namespace, run_ids)
        return {
            id_: row
            for id_, row in found.items()
            if row["status"] == RunState.COMPLETED.value and row["outcome"] != ""
        }

    @contextlib.contextmanager
    def batch(self, units: Collection[str]) -> Iterator[str]:
        """Record that some units are being interpreted while the block runs, which gets the batch's id.

        It ends with :meth:`record`. If the block fails, the batch is kept with the reason.
        """
        catalog, place = self._catalog, (self._namespace, self._source_id, self._tier.source)
        self._started = now_micros()
        batch_id = catalog.batches.begin(*place, units)
        with failing(catalog, self._namespace, batch_id):
            yield batch_id

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
        self,
        runs: Sequence[dict[str, Any]],
        states: Sequence[dict[str, Any]],
        gone: Collection[str],
        *,
        again: Collection[str] = (),
        batch_id: str | None = None,
    ) -> None:
        self._catalog.runs.record(
            self._namespace,
            self._source_id,
            self._tier.source,
            runs,
            states,
            gone,
            again=again,
            batch_id=batch_id,
        )

    def _run(self, outcome: Outcome, now: int) -> dict[str, Any]:
        rows = outcome.rows
        kinds = Counter(row.kind for row in rows)
        return {
            "run_id": outcome.run_id,
            "unit_id": outcome.unit.unit_id,
            "input_fingerprint": outcome.fingerprint,
            "status": (RunState.FAILED if outcome.transient else RunState.COMPLETED).value,
            "interpretation_config": canonical_json(
                {
                    **outcome.config,
                    "extractor_type": self._tier.extractor_type,
                    "schema_version": self._tier.version,
                }
            ),
            "error_message": outcome.problems[0].message if outcome.transient else None,
            "extracted_nodes": kinds["node"],
            "extracted_edges": kinds["edge"],
            "confidence": sum(row.confidence for row in rows) / len(rows) if rows else None,
            "unknown_field_count": outcome.unknown,
            "extraction_completeness": (
                "unknown" if outcome.transient else "partial" if outcome.problems else "complete"
            ),
            "number": outcome.number,
            "overrides": outcome.overrides,
            "outcome": _left(outcome),
            "candidate": False,
            "started_at": self._started or now,
            "completed_at": now,
            "heartbeat_at": now,
            "timeout_at": None,
        }


def _state(outcome: Outcome) -> dict[str, Any]:
    return {
        "unit_id": outcome.unit.unit_id,
        "run_id": outcome.run_id,
        "reads": canonical_json(stored_reads(outcome.reads)),
        "fingerprint": outcome.state,
        "subordinates": canonical_json(sorted(outcome.subordinates)),
        "environment": canonical_json(sorted(outcome.environment)),
        "problems": canonical_json([[p.path, p.code, p.message] for p in outcome.problems]),
        "suppressed": False,
    }


def _left(outcome: Outcome) -> str | None:
    """What the state of a run says, kept with it for when it is activated again; None where that is nothing,
    as of most documents."""
    reads = outcome.reads
    if not (reads.files or reads.globs or reads.format or outcome.problems or outcome.subordinates):
        return None
    return canonical_json(
        {
            "reads": stored_reads(reads),
            "subordinates": sorted(outcome.subordinates),
            "environment": sorted(outcome.environment),
            "problems": [[p.path, p.code, p.message] for p in outcome.problems],
        }
    )


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What the record of a run says of its outcome, besides its rows."""

    reads: Reads
    subordinates: Collection[str]
    environment: Collection[str]
    problems: Sequence[Problem]


def run_outcome(stored: str | None) -> RunOutcome:
    """The outcome that a run's record keeps."""
    if stored is None:
        return RunOutcome(Reads(), (), (), ())
    kept = orjson.loads(stored)
    return RunOutcome(
        reads_of(kept["reads"]),
        kept["subordinates"],
        kept["environment"],
        [Problem(*problem) for problem in kept["problems"]],
    )


@contextlib.contextmanager
def failing(catalog: Catalog, namespace: str, batch_id: str) -> Iterator[None]:
    """Keep a batch as failed if the block fails."""
    try:
        yield
    except Exception as error:
        # Of a defect only the kind is told: its message may quote a document.
        message = str(error) if isinstance(error, TabootError) else type(error).__name__
        with contextlib.suppress(TabootError):
            catalog.batches.fail(namespace, batch_id, message)
        raise


@contextlib.contextmanager
def beating(catalog: Catalog, namespace: str, seconds: float = BEAT_SECONDS) -> Iterator[Heartbeat]:
    """Say every so often that what is being interpreted goes on, while the block runs."""
    heart = Heartbeat()
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(seconds):
            batch_id = heart.batch_id
            if batch_id is not None:
                # A catalog that is away for a moment is no reason to stop: the next beat tries again.
                with contextlib.suppress(TabootError):
                    catalog.batches.beat(namespace, batch_id)

    thread = threading.Thread(target=work, name="taboot-heartbeat", daemon=True)
    thread.start()
    try:
        yield heart
    finally:
        stop.set()
        thread.join()


@dataclass
class Heartbeat:
    """Which batch is told to be alive; None: none at present."""

    batch_id: str | None = None


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


def dead_letters(found: Mapping[str, tuple[str, Sequence[Problem]]]) -> list[dict[str, str]]:
    """The letters of the units of a source, {unit: (fingerprint, problems)}: one for each unit with problems
    of its own, and one, ``variables``, of all that has no value in them."""
    letters = []
    unset: dict[str, set[str]] = {}
    for unit, (fingerprint, problems) in found.items():
        own = [p for p in problems if p.code != "E_UNSET"]
        if own:
            letters.append(dead_letter(unit, fingerprint, own))
        for problem in problems:
            if problem.code == "E_UNSET":
                unset.setdefault(problem.message.rstrip("."), set()).add(unit)
    if unset:
        told = [f"{what} (in {len(units)})" for what, units in sorted(unset.items())]
        letters.append(
            {
                "item": "variables",
                "code": "E_UNSET",
                "message": f"{', '.join(told)}.",
                "fingerprint": ids.digest(*told),
                "kind": "skipped",
            }
        )
    return letters


# --- The observations of runs that are not active: archived ones, and those that wait to be promoted
#
# Each tier of a source has one table of them beside that of the active runs, and nothing that is derived
# reads it (rule ``versioned-runs``). A run's rows come in once and stay until an erasure: by them runs
# are compared and activated again without reading a document. No pointer names the table, so its newest
# version counts, and a vacuum keeps that one.

#: What the names of these tables begin with.
ARCHIVES = "observations.archive."


def archive_table(tier: Tier) -> str:
    """The name of a tier's archive, which has the schema of ``observations``."""
    return f"{ARCHIVES}{tier.source.value}"


class Archive:
    """The archive of one tier of a source. Writes happen under the source's lease."""

    def __init__(self, tables: Tables, namespace: str, source_id: str, tier: Tier) -> None:
        self._tables = tables
        self._place = (namespace, source_id, archive_table(tier))

    @property
    def exists(self) -> bool:
        return self._tables.version(*self._place) is not None

    def keep(self, rows: pa.Table, txn: str) -> None:
        """Add the rows of runs, of which those that are there already stay as they are."""
        if rows.num_rows == 0:
            return
        version = self._tables.version(*self._place)
        if version is not None:
            runs = pc.unique(rows.column("run_id")).to_pylist()
            buckets = pc.unique(rows.column("bucket")).to_pylist()
            held = self._tables.read(
                *self._place, version, columns=["run_id"], buckets=buckets, members=("run_id", runs)
            )
            there = pc.unique(held.column("run_id").combine_chunks())
            rows = rows.filter(pc.invert(pc.is_in(rows.column("run_id"), there)))
        if rows.num_rows:
            self._tables.append(*self._place, rows, txn=txn)

    def replace(self, rows: pa.Table, runs: Collection[str], buckets: Collection[int], txn: str) -> None:
        """Put the rows of these runs in, in place of those that a killed attempt has left of them."""
        replace_keys(
            self._tables,
            *self._place,
            self._tables.version(*self._place),
            key="run_id",
            buckets=buckets,
            drop=runs,
            rows=rows,
            txn=txn,
        )

    def rows(self, runs: Collection[str], buckets: Collection[int] | None = None) -> pa.Table:
        """The rows of these runs, in their order; ``buckets``: where they lie, if that is known."""
        found = self._tables.read(
            *self._place,
            self._tables.version(*self._place),
            buckets=buckets,
            members=("run_id", sorted(runs)),
        )
        return found.sort_by([("run_id", "ascending"), ("type", "ascending"), ("span_start", "ascending")])

    def erase(self, units: Collection[str], doc_ids: Collection[str], blobs: Collection[str]) -> None:
        """Take out every run of these units, and of every other unit that quotes a document or a blob.

        The bytes go with the vacuum that follows. Only under the leases of an erasure.
        """
        version = self._tables.version(*self._place)
        if version is None:
            return
        held = self._tables.read(
            *self._place, version, columns=["bucket", "unit_id", "doc_id", "blob_sha256"]
        )
        hit = pc.is_in(held.column("unit_id"), pa.array(sorted(units), pa.string()))
        for column, values in (("doc_id", doc_ids), ("blob_sha256", blobs)):
            hit = pc.or_(hit, pc.is_in(held.column(column), pa.array(sorted(values), pa.string())))
        gone = held.filter(hit)
        if gone.num_rows:
            replace_keys(
                self._tables,
                *self._place,
                version,
                key="unit_id",
                buckets=pc.unique(gone.column("bucket")).to_pylist(),
                drop=pc.unique(gone.column("unit_id")).to_pylist(),
                rows=empty("observations"),
                txn="erased",
            )
