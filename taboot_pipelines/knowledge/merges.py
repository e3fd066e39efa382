"""Merges: two entities that a person declared to be one (rule ``deterministic-reducer``).

A merge resolves the key of one entity to that of another of the same label. Merges are applied in the order
in which they were decided: one into an entity that was itself merged leads on to where that one went, and one
that would close a circle joins what is joined already, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model.tables import rows_of


class Merged(NamedTuple):
    """What an entity was merged into, at the end of the chain: its key, and its name."""

    key: str
    name: str


#: {(label, key): what it was merged into}; what was not merged is not in it.
Merges = Mapping[tuple[str, str], Merged]
NO_MERGES: Merges = MappingProxyType({})


def merges_of(decisions: pa.Table) -> dict[tuple[str, str], Merged]:
    """The merges of ``tables.DECISIONS``."""
    parents: dict[tuple[str, str], Merged] = {}

    def root(label: str, key: str) -> Merged | None:
        found = None
        while (label, key) in parents:
            found = parents[label, key]
            key = found.key
        return found

    rows = decisions.filter(pc.equal(decisions.column("kind"), "merge")).sort_by("number")
    for label, key, into, name in rows_of(rows, "label", "key", "end_key", "end_name"):
        start, end = root(label, key), root(label, into) or Merged(into, name)
        first = key if start is None else start.key
        if first != end.key:
            parents[label, first] = end
    return {(label, key): found for label, key in parents if (found := root(label, key)) is not None}


def merged_key(merges: Merges, label: str, key: str) -> str:
    """The key of an entity after merging."""
    found = merges.get((label, key))
    return key if found is None else found.key
