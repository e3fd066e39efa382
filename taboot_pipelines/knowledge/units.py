"""Units of interpretation, what an extractor of a tier offers for them, and which are no units of their own
(rule ``unit-of-interpretation``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from taboot_pipelines.knowledge.evidence import QuotedText
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import Interpretation, Problem


def unit_id(kind: str, name: str) -> str:
    """The id of a unit: its kind (``document``, or the extractor of its projects) and its name within it."""
    return f"{kind}:{name}"


@dataclass(frozen=True, slots=True)
class Unit:
    """A document or a project of a source. ``anchor`` is the doc_id of its main file, by which all its rows
    are bucketed.
    """

    unit_id: str
    anchor: str

    @property
    def bucket(self) -> int:
        return ids.doc_bucket(self.anchor)


@dataclass(frozen=True, slots=True)
class Reads:
    """What a unit read, or looked for and did not find."""

    #: {path: what the unit saw of it; None: it was absent}
    files: Mapping[str, str | None] = field(default_factory=dict)
    #: {pattern: the paths that matched}
    globs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: What its main file was recognised as, where its extractor reads several formats.
    format: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What an extractor made of one unit."""

    #: Of every input of the unit, :attr:`reads` included; two runs of equal fingerprint say the same.
    fingerprint: str
    interpretation: Interpretation
    #: {path: text} of the files that the interpretation's evidence stands in.
    quoted: Mapping[str, QuotedText] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads)
    #: What kept a file from being read, beside the interpretation's own problems.
    failures: tuple[Problem, ...] = ()
    #: A part could not be read this time: what was read says nothing, and the next run tries again.
    transient: bool = False


class UnitExtractor(Protocol):
    """What a tier gives for one kind of unit of one source: finds the units, and interprets them.

    Equal fingerprints must give equal interpretations: a run whose input is unchanged is not repeated.
    """

    @property
    def config(self) -> Mapping[str, Any]:
        """Its name, version and whatever else decides its output (a model, a prompt): kept with each run."""
        ...

    def units(self) -> Iterable[Unit]:
        """All units of the source, found without reading any."""
        ...

    def fingerprint(self, unit: Unit, reads: Reads) -> str:
        """The fingerprint that a run of the unit would have now if it read what the last one did."""
        ...

    def interpret(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, Reading]]:
        """Each of the units with what it says, in any order. A bad unit raises nothing: it has problems."""
        ...


def taken_in(subordinates: Mapping[str, Collection[str]]) -> set[str]:
    """The units that others take in, which are no units of their own, from {unit_id: paths it takes in}.

    Of two units that take in each other, the first by id stays.
    """
    takers: dict[str, set[str]] = {}
    for taker, paths in subordinates.items():
        kind = taker.split(":", 1)[0]
        for path in paths:
            takers.setdefault(unit_id(kind, path), set()).add(taker)
    return {
        unit
        for unit in subordinates
        if any(
            taker != unit and not (unit < taker and taker in takers and unit in takers[taker])
            for taker in takers.get(unit, ())
        )
    }
