"""Interpreting units: which extractor reads which unit, under which settings, and what its run says.

A unit is read as configured, unless a person promoted a run of it that was made otherwise and its input is
still the one of that run (rule ``versioned-runs``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.observations import Observation, RunRows
from taboot_pipelines.knowledge.runs import NOTES, Outcome, Tier, left, reads_of, state_fingerprint
from taboot_pipelines.knowledge.units import Reading, Reads, Unit, UnitExtractor
from taboot_pipelines.model import ids

#: Makes a tier's extractors with some settings otherwise. Raises ``E_QUERY`` for a setting that is none.
Variants = Callable[[Mapping[str, Any]], Sequence[UnitExtractor]]


@dataclass(frozen=True, slots=True)
class Choice:
    """A run that a person promoted: which reinterpretation of its unit, and what it was made from."""

    unit_id: str
    run_id: str
    number: int
    input_fingerprint: str
    #: Canonical JSON.
    overrides: str
    reads: Reads

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Choice:
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
        choices: Sequence[Choice] = (),
    ) -> None:
        """``documented``: {path: doc_id} of the source's documents, in which all evidence stands.
        ``choices``: the newest first."""
        self.units: dict[str, Unit] = {}
        self._tier = tier
        self._documented = documented
        self._variants = variants
        self._made: dict[str, dict[str, UnitExtractor]] = {}
        self._manner: dict[str, _Manner] = {}
        self._chosen: dict[str, Choice] = {}
        for extractor in extractors:
            for unit in extractor.units():
                self.units[unit.unit_id] = unit
                self._manner[unit.unit_id] = _Manner(extractor)
        for choice in choices:
            if choice.unit_id not in self._chosen and self.holds(choice):
                self._chosen[choice.unit_id] = choice
        for unit_id, choice in self._chosen.items():
            self.read_otherwise(unit_id, choice.number, choice.overrides)

    def holds(self, choice: Choice) -> bool:
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
        said = left(run["outcome"])
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
