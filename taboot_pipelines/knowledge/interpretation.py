"""Bringing the observations of one tier over one source up to date: the same for every tier (rules
``unit-of-interpretation``, ``versioned-runs``, ``incremental-equals-scratch`` and ``kill-anywhere``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import Difference, batches, difference, replace_keys
from taboot_pipelines.knowledge.observations import Observation, RunRows, observation_table
from taboot_pipelines.knowledge.runs import (
    NOTES,
    Archive,
    Outcome,
    RunLog,
    Tier,
    UnitState,
    beating,
    dead_letters,
    reads_of,
    run_outcome,
    state_fingerprint,
)
from taboot_pipelines.knowledge.units import Reading, Reads, Unit, UnitExtractor, taken_in
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.tables import Tables, TableVersion

# --- Interpreting units: which extractor reads which unit, under which settings, and what its run says
#
# A unit is read as configured, unless a person promoted a run of it that was made otherwise and its input
# is still the one of that run (rule ``versioned-runs``).

#: Makes a tier's extractors with some settings otherwise. Raises ``E_QUERY`` for a setting that is none.
Variants = Callable[[Mapping[str, Any]], Sequence[UnitExtractor]]


@dataclass(frozen=True, slots=True)
class PromotedRun:
    """A run that a person promoted: which reinterpretation of its unit, and what it was made from."""

    unit_id: str
    run_id: str
    number: int
    input_fingerprint: str
    #: Canonical JSON.
    overrides: str
    reads: Reads

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> PromotedRun:
        """From a row of the catalog's choices."""
        return cls(
            row["unit_id"],
            row["run_id"],
            row["number"],
            row["input_fingerprint"],
            row["overrides"],
            reads_of(orjson.loads(row["reads"])),
        )


@dataclass(frozen=True, slots=True)
class _Manner:
    """How a unit is read: by which extractor, as which reinterpretation, and with what otherwise."""

    extractor: UnitExtractor
    number: int = 0
    overrides: str = "{}"


class Interpreter:
    """The units of a source as the extractors of a tier find them, and how each is read."""

    def __init__(
        self,
        tier: Tier,
        documented: Mapping[str, str],
        extractors: Sequence[UnitExtractor],
        variants: Variants,
        choices: Sequence[PromotedRun] = (),
    ) -> None:
        """``documented``: {path: doc_id} of the source's documents, in which all evidence stands.
        ``choices``: the newest first."""
        self.units: dict[str, Unit] = {}
        self._tier = tier
        self._documented = documented
        self._variants = variants
        self._made: dict[str, dict[str, UnitExtractor]] = {}
        self._manner: dict[str, _Manner] = {}
        self._chosen: dict[str, PromotedRun] = {}
        for extractor in extractors:
            for unit in extractor.units():
                self.units[unit.unit_id] = unit
                self._manner[unit.unit_id] = _Manner(extractor)
        for choice in choices:
            if choice.unit_id not in self._chosen and self.holds(choice):
                self._chosen[choice.unit_id] = choice
        for unit_id, choice in self._chosen.items():
            self.read_otherwise(unit_id, choice.number, choice.overrides)

    def holds(self, choice: PromotedRun) -> bool:
        """Whether the unit of a choice still has the input of the run that was chosen."""
        unit = self.units.get(choice.unit_id)
        if unit is None:
            return False
        try:
            extractor = self.readers(choice.overrides).get(choice.unit_id)
        except TabootError as error:
            if error.code != "E_QUERY":
                raise
            # The setting is no more.
            return False
        return extractor is not None and extractor.fingerprint(unit, choice.reads) == choice.input_fingerprint

    def read_otherwise(self, unit_id: str, number: int, overrides: str) -> None:
        """Read a unit as its reinterpretation ``number``, with these settings (canonical JSON) otherwise."""
        self._manner[unit_id] = _Manner(self.readers(overrides)[unit_id], number, overrides)

    def state(self, unit_id: str, reads: Reads) -> str:
        """What the state of the unit would say if it was interpreted now and read what the last run did."""
        chosen = self._chosen.get(unit_id)
        if chosen is not None:
            return state_fingerprint(chosen.input_fingerprint, chosen.number)
        return self._manner[unit_id].extractor.fingerprint(self.units[unit_id], reads)

    def run_id(self, unit_id: str, reads: Reads) -> str:
        """The id of the run that the unit would have, as in :meth:`state`."""
        chosen = self._chosen.get(unit_id)
        if chosen is not None:
            return chosen.run_id
        return ids.run_id(unit_id, self._tier.source, self.state(unit_id, reads))

    def interpret(self, units: Sequence[str]) -> Iterator[Outcome]:
        """The outcomes of some units, in any order."""
        by_extractor: dict[int, tuple[UnitExtractor, list[Unit]]] = {}
        for unit_id in units:
            extractor = self._manner[unit_id].extractor
            by_extractor.setdefault(id(extractor), (extractor, []))[1].append(self.units[unit_id])
        for extractor, its in by_extractor.values():
            for unit, reading in extractor.interpret(its):
                yield self._outcome(unit, extractor, reading)

    def recalled(self, unit_id: str, run: Mapping[str, Any], rows: Sequence[Observation]) -> Outcome:
        """The outcome of a run from its record and its archived rows."""
        said = run_outcome(run["outcome"])
        return Outcome(
            unit=self.units[unit_id],
            run_id=run["run_id"],
            fingerprint=run["input_fingerprint"],
            config={},
            rows=rows,
            problems=said.problems,
            reads=said.reads,
            subordinates=said.subordinates,
            environment=said.environment,
            transient=False,
            number=run["number"],
            again=True,
        )

    def readers(self, overrides: str) -> Mapping[str, UnitExtractor]:
        """{unit_id: what reads it} with some settings (canonical JSON) otherwise. Raises ``E_QUERY``."""
        if overrides not in self._made:
            made = self._variants(orjson.loads(overrides))
            self._made[overrides] = {unit.unit_id: one for one in made for unit in one.units()}
        return self._made[overrides]

    def _outcome(self, unit: Unit, extractor: UnitExtractor, reading: Reading) -> Outcome:
        manner = self._manner[unit.unit_id]
        run_id = ids.run_id(unit.unit_id, self._tier.source, reading.fingerprint, manner.number)
        said = reading.interpretation
        rows = RunRows(run_id, unit.unit_id, unit.bucket, self._tier.source, self._documented)
        for node in said.nodes:
            rows.add_node(node, reading.quoted)
        for edge in said.edges:
            rows.add_edge(edge, reading.quoted)
        for reach in said.reaches:
            rows.add_reach(reach, reading.quoted)
        for use in said.uses:
            rows.add_use(use, reading.quoted)
        return Outcome(
            unit=unit,
            run_id=run_id,
            fingerprint=reading.fingerprint,
            config=extractor.config,
            # What was read in part says nothing: the unit is interpreted again at the next run.
            rows=[] if reading.transient else rows.rows,
            problems=[*reading.failures, *said.problems, *rows.problems],
            reads=reading.reads,
            subordinates=said.subordinates,
            environment=said.environment,
            transient=reading.transient,
            number=manner.number,
            overrides=manner.overrides,
            unknown=len(rows.problems) + sum(problem.code in NOTES for problem in said.problems),
        )


@dataclass(frozen=True)
class UnitSelection:
    """Some units of a source, whether they are still there or not, and the buckets that their rows lie in."""

    units: frozenset[str]
    buckets: frozenset[int]


@dataclass(frozen=True)
class Interpreted:
    """What :meth:`Interpretation.apply` has done."""

    #: Of the table of observations; None if there is nothing to say.
    version: TableVersion | None
    #: Units, those interpreted (of which ``recalled`` from the archive), reused and removed, new
    #: observations, letters that are failures or notes.
    counts: Mapping[str, int]
    #: The letters that are failures.
    failures: Sequence[Mapping[str, Any]]
    #: No unit was kept from being read.
    whole: bool


class Interpretation:
    """The units of one source, as the extractors of a tier find them, and the table of what they say.

    Under the source's lease; nothing is published. After a kill, applying again gives the same result and
    repeats at most one batch.
    """

    def __init__(
        self,
        catalog: Catalog,
        tables: Tables,
        namespace: str,
        source_id: str,
        tier: Tier,
        interpreter: Interpreter,
    ) -> None:
        self._catalog = catalog
        self._tables = tables
        self._namespace = namespace
        self._source_id = source_id
        self._tier = tier
        self._interpreter = interpreter
        self._units = interpreter.units
        self._runs = RunLog(catalog, namespace, source_id, tier)
        self._archive = Archive(tables, namespace, source_id, tier)
        #: What the last run of a unit read, of those that are to be interpreted.
        self._read: dict[str, Reads] = {}
        self._recalled = 0
        #: The last outcome of units that something kept from being read.
        self._unread: dict[str, Outcome] = {}

    def apply(
        self,
        txn: str,
        *,
        batch: int,
        table_is_empty: bool,
        progress: Callable[[int, int], None],
        only: UnitSelection | None = None,
    ) -> Interpreted:
        """Interpret the units whose input changed, and take away the rows of those that left.

        ``batch``: how many units are committed together. ``table_is_empty``: no rows were published, so that
        there need be no table; else the memory of one that is missing is worth nothing. ``progress`` is
        called with (done, total) units. ``only``: the input of no other unit has changed, and none of these
        takes in another.
        """
        version = self._tables.version(self._namespace, self._source_id, self._tier.table)
        remembered = self._runs.states(None if only is None else only.units)
        homes = self._homes(version, only)
        found = self._difference(
            remembered if version is not None or table_is_empty else {}, homes.keys() | remembered.keys()
        )
        observations = done = 0

        def bucket_of(unit: str) -> int:
            return self._units[unit].bucket if unit in self._units else homes.get(unit, 0)

        if found:
            with beating(self._catalog, self._namespace) as heart:
                for buckets, changed, removed in batches(found, batch, bucket_of):
                    with self._runs.batch(changed) as heart.batch_id:
                        outcomes = self._interpret(changed)
                        rows = [row for outcome in outcomes for row in outcome.rows]
                        # Forgotten before the rows change: a kill in between must not leave a memory that
                        # fits other rows.
                        self._runs.forget(sorted(remembered.keys() & {*changed, *removed}))
                        version = self._replace(version, buckets, [*changed, *removed], rows, txn)
                        self._runs.record(outcomes, removed, heart.batch_id)
                    heart.batch_id = None
                    observations += len(rows)
                    done += len(changed)
                    progress(done, len(found.changed))
        if only is None:
            version, letters = self._suppress(version, txn, batch)
        else:
            examined = {*found.changed, *found.removed}
            states = {unit: state for unit, state in remembered.items() if unit not in examined}
            states |= self._runs.states(examined)
            letters = self._runs.write_letters(self._letters(states), only.units)
        failures = [letter for letter in letters if letter["kind"] == "failed"]
        return Interpreted(
            version=version,
            counts={
                "units": len(self._units),
                "interpreted": len(found.changed),
                **({"recalled": self._recalled} if self._recalled else {}),
                "reused": len(self._units) - len(found.changed),
                "removed": len(found.removed),
                "observations": observations,
                "failed": len(failures),
                "noted": len(letters) - len(failures),
            },
            failures=failures,
            whole=not self._unread,
        )

    # --- which units changed --------------------------------------------------------------------------------

    def _difference(self, states: Mapping[str, UnitState], held: Iterable[str]) -> Difference:
        """The units whose input is not that of their last run, and those held that are no longer there."""
        nothing = Reads()
        wanted = {
            name: self._interpreter.state(name, states[name].reads if name in states else nothing)
            for name in self._units
        }
        applied = dict.fromkeys(held, "") | {name: state.fingerprint for name, state in states.items()}
        found = difference(wanted, applied)
        self._read = {name: states[name].reads for name in found.changed if name in states}
        return found

    def _homes(self, version: TableVersion | None, only: UnitSelection | None = None) -> dict[str, int]:
        """{unit_id: bucket} of the units that have rows."""
        rows = self._tables.read(
            self._namespace,
            self._source_id,
            self._tier.table,
            version,
            columns=["bucket", "unit_id"],
            buckets=None if only is None else only.buckets,
        )
        distinct = rows.group_by(["unit_id", "bucket"]).aggregate([])
        homes = dict(rows_of(distinct, "unit_id", "bucket"))
        return homes if only is None else {unit: b for unit, b in homes.items() if unit in only.units}

    # --- interpreting ---------------------------------------------------------------------------------------

    def _interpret(self, units: Sequence[str]) -> list[Outcome]:
        """The outcomes of some units, in their order: what the archive has of them is not read again."""
        outcomes = self._recall(units)
        self._recalled += len(outcomes)
        for outcome in self._interpreter.interpret([unit for unit in units if unit not in outcomes]):
            outcomes[outcome.unit.unit_id] = outcome
            self._unread.pop(outcome.unit.unit_id, None)
            if outcome.transient:
                self._unread[outcome.unit.unit_id] = outcome
        return [outcomes[unit] for unit in units]

    def _recall(self, units: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of those units whose run of this very input is in the archive (rule
        ``versioned-runs``)."""
        if not self._archive.exists:
            return {}
        nothing = Reads()
        wanted = {unit: self._interpreter.run_id(unit, self._read.get(unit, nothing)) for unit in units}
        known = self._runs.said(wanted.values())
        if not known:
            return {}
        buckets = {self._units[unit].bucket for unit in units if wanted[unit] in known}
        rows: dict[str, list[Observation]] = {}
        for row in self._archive.rows(known.keys(), buckets).to_pylist():
            rows.setdefault(row["run_id"], []).append(Observation(**row))
        return {
            unit: self._interpreter.recalled(unit, known[run], rows.get(run, []))
            for unit, run in wanted.items()
            # All rows of a run came in at once; one that has none though it said something lost them.
            if run in known
            and (run in rows or known[run]["extracted_nodes"] + known[run]["extracted_edges"] == 0)
        }

    def _replace(
        self,
        version: TableVersion | None,
        buckets: Iterable[int],
        drop: Collection[str],
        rows: Sequence[Observation],
        txn: str,
    ) -> TableVersion | None:
        """Put rows in place of those of some units, which go to the archive."""
        staying = pa.array(sorted({row.run_id for row in rows}), pa.string())

        def archive(leaving: pa.Table) -> None:
            self._archive.keep(leaving.filter(pc.invert(pc.is_in(leaving.column("run_id"), staying))), txn)

        return replace_keys(
            self._tables,
            self._namespace,
            self._source_id,
            self._tier.table,
            version,
            key="unit_id",
            buckets=buckets,
            drop=drop,
            rows=observation_table(rows),
            txn=txn,
            leaving=archive,
        )

    # --- units that others take in --------------------------------------------------------------------------

    def _suppress(
        self, version: TableVersion | None, txn: str, batch: int
    ) -> tuple[TableVersion | None, list[Mapping[str, Any]]]:
        """A file that another unit takes in by `extends` or `include` is no unit of its own (rule
        ``unit-of-interpretation``).

        Which ones are taken in depends on all units, so it is decided over their remembered outcomes. Returns
        the table's version and the letters of the units that remain.
        """
        states = self._runs.states()
        suppressed = taken_in({unit: state.subordinates for unit, state in states.items()})
        flagged = {unit for unit, state in states.items() if state.suppressed}
        if suppressed or flagged:
            # The flag is set before rows go and cleared after they are back: after a kill it is never wrong
            # about missing rows.
            self._runs.suppress(sorted(suppressed - flagged), True)
            back = sorted(flagged - suppressed)
            drop = sorted(suppressed & self._homes(version).keys())
            for buckets, changed, removed in batches(
                Difference(tuple(back), tuple(drop)), batch, lambda unit: self._units[unit].bucket
            ):
                rows = [row for outcome in self._interpret(changed) for row in outcome.rows]
                version = self._replace(version, buckets, [*changed, *removed], rows, txn)
            self._runs.suppress(back, False)
            self._runs.forget(sorted(self._unread.keys() & set(back)))
        letters = self._letters({unit: state for unit, state in states.items() if unit not in suppressed})
        return version, self._runs.write_letters(letters)

    def _letters(self, states: Mapping[str, UnitState]) -> list[dict[str, str]]:
        found = {unit: (state.fingerprint, state.problems) for unit, state in states.items()}
        found |= {unit: (outcome.fingerprint, outcome.problems) for unit, outcome in self._unread.items()}
        return dead_letters(found)
