"""What people decided: which of it is in force, and the form in which the snapshot applies it (rule
``deterministic-reducer``).

An assertion is a row that is added and never changed. Undoing one is a row as well, which can be undone too.
Everything here is a function of the rows in their order; no clock decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.tables import DECISIONS


class AssertionKind(StrEnum):
    """``entity`` and ``relation`` state a fact; the others change what documents state."""

    ENTITY = "entity"
    RELATION = "relation"
    FIELD = "field"
    EDGE = "edge"
    MERGE = "merge"
    UNDO = "undo"


STATING = frozenset({AssertionKind.ENTITY, AssertionKind.RELATION})
_DECIDING = frozenset({AssertionKind.FIELD, AssertionKind.EDGE, AssertionKind.MERGE})


@dataclass(frozen=True, slots=True)
class Assertion:
    """A row of the catalog's table; ``payload`` is empty once it was erased."""

    number: int
    id: str
    kind: AssertionKind
    payload: Mapping[str, Any]
    who: str
    reason: str
    at: int
    erased: bool

    @property
    def subject(self) -> tuple[Any, ...]:
        """What it is about: of two about the same thing, the later one counts."""
        p = self.payload
        match self.kind:
            case AssertionKind.FIELD:
                return self.kind, p["label"], p["key"], p["field"]
            case AssertionKind.EDGE:
                return self.kind, p["type"], *p["start"][:2], *p["end"][:2], p["discriminator"], p["property"]
            case AssertionKind.MERGE:
                return self.kind, p["label"], p["key"]
            case AssertionKind.ENTITY:
                return self.kind, p["label"], canonical_json(p["key"])
            case AssertionKind.RELATION:
                return self.kind, p["type"], canonical_json([p["start"], p["end"]]), p["discriminator"]
            case AssertionKind.UNDO:
                return self.kind, p["assertion"]


def read_assertions(rows: Iterable[Mapping[str, Any]]) -> list[Assertion]:
    """Rows of the catalog's table ``assertion``, ascending by number."""
    return [
        Assertion(
            number=row["number"],
            id=row["id"],
            kind=AssertionKind(row["kind"]),
            payload=json.loads(row["payload"]) if row["payload"] is not None else {},
            who=row["who"] or "",
            reason=row["reason"] or "",
            at=row["at"],
            erased=row["payload"] is None,
        )
        for row in rows
    ]


def undone(assertions: Sequence[Assertion]) -> dict[str, str]:
    """{id of an assertion that is undone: id of the undoing that is in force}. An undoing that was itself
    undone counts for nothing."""
    found: dict[str, str] = {}
    # An undoing comes after what it undoes, so from the end on it is settled which of them count.
    for assertion in reversed(assertions):
        if assertion.kind == AssertionKind.UNDO and not assertion.erased and assertion.id not in found:
            found[assertion.payload["assertion"]] = assertion.id
    return found


def in_force(assertions: Sequence[Assertion]) -> list[Assertion]:
    """Those that are neither undone nor erased nor an undoing, in their order. Of two about the same thing
    both are here."""
    gone = undone(assertions)
    return [a for a in assertions if a.id not in gone and not a.erased and a.kind != AssertionKind.UNDO]


def decision_table(assertions: Iterable[Assertion]) -> pa.Table:
    """``tables.DECISIONS`` of the assertions in force: those that are not the last word about their subject
    are left out, but for merges, each of which counts."""
    last: dict[tuple[Any, ...], Assertion] = {}
    for a in assertions:
        if a.kind in _DECIDING:
            last[(*a.subject, a.id) if a.kind == AssertionKind.MERGE else a.subject] = a
    rows = [_decision_row(a) for a in sorted(last.values(), key=lambda a: a.number)]
    return pa.Table.from_pylist(rows, schema=DECISIONS)


def _decision_row(a: Assertion) -> dict[str, Any]:
    row: dict[str, Any] = {
        **dict.fromkeys(DECISIONS.names),
        "number": a.number,
        "id": a.id,
        "kind": a.kind.value,
        "who": a.who,
        "reason": a.reason,
        "at": a.at,
    }
    p = a.payload
    match a.kind:
        case AssertionKind.FIELD:
            row |= {"label": p["label"], "key": p["key"], "property": p["field"]}
            row["value"] = canonical_json(p["value"])
        case AssertionKind.EDGE:
            row |= dict(zip(("label", "key"), p["start"][:2], strict=True))
            row |= dict(zip(("end_label", "end_key", "end_name"), p["end"], strict=True))
            row |= {"type": p["type"], "discriminator": p["discriminator"], "property": p["property"]}
            row["value"] = None if p["property"] is None else canonical_json(p["value"])
        case _:
            row |= {"label": p["label"], "key": p["key"], "end_label": p["label"]}
            row |= {"end_key": p["into"], "end_name": p["into_name"]}
    return row
