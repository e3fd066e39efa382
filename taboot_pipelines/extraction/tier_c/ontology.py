"""Which relations a model may tell, between what; ``claims.GRAPH`` has those of the graph model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from taboot_pipelines.model.ids import canonical_json, digest


@dataclass(frozen=True)
class Relation:
    """A relation, the labels that its ends may have, and in a few words what it means.

    ``asks``: {property: JSON Schema of its value}, of properties that only the text can tell. A value that
    the text does not tell is 0 or "", since some servers refuse a schema whose properties may be absent.
    ``open_end``: whether the text may leave the end unnamed, which is then "".
    """

    type: str
    start: tuple[str, ...]
    end: tuple[str, ...]
    meaning: str = ""
    asks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    open_end: bool = False

    def leads(self, start: str, end: str) -> bool:
        """Whether it may lead from the one label to the other."""
        return start in self.start and end in self.end


#: An end of a relation: its label, and its name as a window writes it.
Named = tuple[str, str]
Fits = Callable[[str, Named, Named], bool]


def _any_name(_relation: str, _start: Named, _end: Named) -> bool:
    """Any names fit any relation: for ontologies without a grammar of names."""
    return True


@dataclass(frozen=True, eq=False)
class Ontology:
    """The relations that may be told, and what they are about (one word for the prompt).

    ``fits``: whether a relation may lead from the one thing to the other, by their names as a window writes
    them. ``most``: facts of one answer; what would say more is a list of names.
    """

    about: str
    relations: tuple[Relation, ...]
    fits: Fits = _any_name
    most: int = 24

    @cached_property
    def by_type(self) -> Mapping[str, Relation]:
        return {relation.type: relation for relation in self.relations}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Every label that an end may have, sorted."""
        return tuple(sorted({label for r in self.relations for label in (*r.start, *r.end)}))

    @cached_property
    def asks(self) -> Mapping[str, Mapping[str, Any]]:
        """Every property that is asked of some relation, with the schema of its value."""
        return {name: schema for r in self.relations for name, schema in r.asks.items()}

    @cached_property
    def version(self) -> str:
        """A hash of everything that an answer may hold."""
        told = [
            [r.type, r.start, r.end, r.meaning, canonical_json(dict(r.asks)), r.open_end]
            for r in self.relations
        ]
        return digest(self.about, told, self.most)[:16]
