"""Corrections of edges: a fact that is not so, and a property of a fact that is another (rule
``deterministic-reducer``).

A fact is an edge without its document: type, ends, and what makes it another fact. A correction holds for all
documents that state the fact, and for those that come to state it; it is applied after resolution, so it
follows its ends wherever these lead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model.graph import EdgeSource
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.tables import rows_of

#: The columns that name a fact.
FACT = ("type", "start_label", "start_key", "end_label", "end_key", "discriminator")
#: Between the parts of a fact as one text: no label has it, and JSON escapes it.
_SEPARATOR = "\x1f"


@dataclass
class _Edit:
    """What was decided of one fact: ids of the decisions, by number."""

    retracted: bool = False
    properties: dict[str, Any] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)


class EdgeDecisions:
    """The corrections of edges of ``tables.DECISIONS``. ``resolve``: (label, key) to the key after resolution
    and merging."""

    def __init__(self, decisions: pa.Table, resolve: Callable[[str, str], str]) -> None:
        self._edits: dict[str, _Edit] = {}
        rows = decisions.filter(pc.equal(decisions.column("kind"), "edge")).sort_by("number")
        columns = ("id", "type", "label", "key", "end_label", "end_key", "discriminator", "property", "value")
        for id_, type_, label, key, end_label, end_key, discriminator, name, value in rows_of(rows, *columns):
            start, end = resolve(label, key), resolve(end_label, end_key)
            fact = _SEPARATOR.join((type_, label, start, end_label, end, discriminator))
            edit = self._edits.setdefault(fact, _Edit())
            edit.ids.append(id_)
            if name is None:
                edit.retracted = True
            else:
                edit.properties[name] = json.loads(value)

    def about(self, edge: Mapping[str, Any]) -> list[str]:
        """The ids of the decisions about an edge, which has the columns :data:`FACT`."""
        edit = self._edits.get(_SEPARATOR.join(edge[c] for c in FACT))
        return [] if edit is None else list(edit.ids)

    def apply(self, edges: pa.Table) -> pa.Table:
        """Edges (``resolve.RESOLVED``) without those of retracted facts; what a person corrected is said by
        ``correction``, with certainty, and stands where the document states the fact.
        """
        if not self._edits or not edges.num_rows:
            return edges
        facts = pc.binary_join_element_wise(*(edges.column(c) for c in FACT), _SEPARATOR)
        known = pa.array(sorted(self._edits), pa.string())
        found = pc.indices_nonzero(pc.is_in(facts, value_set=known)).to_pylist()
        if not found:
            return edges
        changed = edges.take(pa.array(found)).to_pylist()
        kept = []
        for row in changed:
            edit = self._edits[_SEPARATOR.join(row[c] for c in FACT)]
            if not edit.retracted:
                kept.append({**row, **_corrected(row, edit.properties)})
        mask = pc.invert(pc.is_in(facts, value_set=known))
        rest = [edges.filter(mask), pa.Table.from_pylist(kept, schema=edges.schema)]
        return pa.concat_tables(rest).sort_by("edge_id").combine_chunks()


def _corrected(row: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    after = {**json.loads(row["properties"]), **properties}
    return {
        "properties": canonical_json(
            {k: v for k, v in after.items() if v is not None or k not in properties}
        ),
        "source": EdgeSource.CORRECTION.value,
        "confidence": 1.0,
    }
