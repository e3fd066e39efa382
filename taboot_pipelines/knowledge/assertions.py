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

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import EDGES, NODES, check_edge, check_node
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


# --- What may be asserted: the checks of everything that a person or a program hands in, before it is
#     recorded
#
# Each raises ``E_ENTITY_VALIDATION`` and names the field. The grammar is that of the model
# (``model.graph``); what is checked here besides are sizes, and texts that no store could keep.

#: Of everything that one assertion holds, as JSON; of a text about it; of a name.
MAX_PAYLOAD, MAX_REASON, MAX_WHO, MAX_ALIASES = 64_000, 4_000, 200, 100
#: Of bytes handed in with a fact.
MAX_RAW = 1_000_000
_MAX_DEPTH = 8


def check_entity(
    label: Any, properties: Any, aliases: Any = ()
) -> tuple[list[Any], str, dict[str, Any], list[str]]:
    """An entity as it is stated: ``properties`` holds the fields of its key and any others, and may hold the
    ``name`` that people call it by where that is no field.

    Returns the parts of its key, its name, its properties and its further names.
    """
    node = NODES.get(label) if isinstance(label, str) else None
    if node is None or label == "Document":
        raise _invalid(
            f"{_shown(label)} is no type of entity that can be stated.",
            "entity_type",
            f"Use one of {', '.join(sorted(NODES.keys() - {'Document'}))}.",
        )
    given = dict(check_value("properties", properties, Mapping))
    if label == "Service":
        # Of a service that is known by its name alone the scope is empty.
        given.setdefault("scope", "")
    for name in node.key:
        if name not in given:
            raise _invalid(
                f"{label}.{name} is missing.",
                name,
                f"A {label} is keyed by {', '.join(node.key)}: give each.",
            )
    key = [given.pop(name) for name in node.key]
    if label == "Host" and isinstance(key[0], str):
        # As every document's host is keyed (graph-mapping).
        key[0] = key[0].lower().rstrip(".")
    own = {name: value for name, value in given.items() if value is not None}
    called: Any = own.get("name") if "name" in node.properties else own.pop("name", None)
    _by_model(lambda: check_node(label, tuple(key), own), allowed=(*node.key, *node.properties))
    if label == "Service":
        called = key[1]
    if not isinstance(called, str) or not called:
        called = str(key[0]) if len(key) == 1 else endpoint_name(key)
    return key, called, own, _check_aliases(label, aliases)


def endpoint_name(key: Sequence[Any]) -> str:
    """What people call an endpoint: its URL."""
    scheme, fqdn, port, path = key
    return f"{scheme}://{fqdn}:{port}{path}"


def check_relation(type_: Any, start_label: str, end_label: str, properties: Any) -> dict[str, Any]:
    """The properties of a relation as it is stated."""
    if type_ == "MENTIONS" or not isinstance(type_, str) or type_ not in EDGES:
        raise _invalid(
            f"{_shown(type_)} is no relation that can be stated.",
            "type",
            f"Use one of {', '.join(sorted(EDGES.keys() - {'MENTIONS'}))}.",
        )
    given = check_value("properties", properties, Mapping)
    own = {name: value for name, value in given.items() if value is not None}
    edge = EDGES[type_]
    _by_model(
        lambda: check_edge(type_, start_label, end_label, own, 1.0),
        allowed=tuple(edge.properties),
        remedy=f"{type_} leads from {_any_of(edge.start)} to {_any_of(edge.end)}.",
    )
    return own


def check_field(label: str, name: Any, value: Any) -> Any:
    """A corrected field of an entity; None: it has no value."""
    node = NODES[label]
    if label == "Document":
        raise _invalid(
            "What a document holds comes from its bytes.", "field", "Correct it at its source, or delete it."
        )
    if name in node.key:
        raise _invalid(
            f"{label}.{name} is part of the key.",
            str(name),
            "Two keys of one thing are joined by a merge; another thing is stated as one of its own.",
        )
    value = check_value(str(name)[:100], value, object)
    if not isinstance(name, str) or name not in node.properties:
        raise _invalid(f"{label} has no field {_shown(name)}.", str(name), _allowed(tuple(node.properties)))
    _by_model(lambda: check_node_property(label, name, value), allowed=tuple(node.properties))
    return value


def check_node_property(label: str, name: str, value: Any) -> None:
    """Raise ``E_SCHEMA_INVALID`` unless a property of a node may have this value."""
    if value is not None and not NODES[label].properties[name](value):
        raise TabootError(
            "E_SCHEMA_INVALID", f"{label}.{name} = {_shown(value)} is not valid.", owner=label, field=name
        )


def check_edge_property(type_: str, name: Any, value: Any) -> Any:
    """A corrected property of an edge; None: it has no value."""
    edge = EDGES[type_]
    value = check_value(str(name)[:100], value, object)
    if not isinstance(name, str) or name not in edge.properties:
        raise _invalid(
            f"{type_} has no property {_shown(name)}.", str(name), _allowed(tuple(edge.properties))
        )
    # The start of a span stands for the span.
    if name in edge.identifying or type_ == "MENTIONS":
        raise _invalid(
            f"{type_}.{name} says which fact it is.",
            name,
            "Say of this fact that it is not so, and state the other one.",
        )
    if value is None and name in edge.required:
        raise _invalid(f"{type_}.{name} is needed.", name, "Give the value that it has.")
    if value is not None and not edge.properties[name](value):
        raise _invalid(f"{type_}.{name} = {_shown(value)} is not valid.", name, _allowed((name,)))
    return value


def check_value(name: str, value: Any, kind: type) -> Any:
    """The value as JSON gives it back: of few levels, of finite numbers, of texts that can be encoded."""
    if kind is Mapping and not isinstance(value, Mapping):
        raise _invalid(f"{name} is no mapping of names to values.", name, "Give {name: value, …}.")
    _check_json(name, value, 0)
    text = canonical_json(value)
    if len(text) > MAX_PAYLOAD:
        raise _invalid(f"{name} has {len(text):,} characters.", name, f"At most {MAX_PAYLOAD:,} are kept.")
    return json.loads(text)


def check_text(name: str, text: Any, most: int) -> str:
    """A text about an assertion: its reason, or who made it. Blanks around it are no part of it."""
    if not isinstance(text, str):
        raise _invalid(f"{name} is no text.", name, "Give a text.")
    if len(text) > most:
        raise _invalid(f"{name} has {len(text):,} characters.", name, f"At most {most:,} are kept.")
    _check_json(name, text, 0)
    return text.strip()


def _check_json(name: str, value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise _invalid(f"{name} is nested too deeply.", name, f"At most {_MAX_DEPTH} levels are kept.")
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise _invalid(
                f"{name} holds a number that is too large.", name, "Give one of 64 bits, or a text."
            )
        return
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise _invalid(f"{name} holds a number that is not finite.", name, "Give a finite number.")
        return
    if isinstance(value, str):
        if len(value) > MAX_PAYLOAD:
            raise _invalid(f"{name} holds a text of {len(value):,} characters.", name, "Give a shorter one.")
        if any(
            (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0" or "\ud800" <= c < "\ue000" for c in value
        ):
            raise _invalid(
                f"{name} holds a control character, or half a character.", name, "Give plain text without it."
            )
        return
    if isinstance(value, Mapping):
        if len(value) > MAX_PAYLOAD:
            raise _invalid(f"{name} has too many fields.", name, "Give fewer.")
        for key, member in value.items():
            if not isinstance(key, str):
                raise _invalid(f"{name} has a field that is not named by a text.", name, "Name it by a text.")
            _check_json(name, key, depth + 1)
            _check_json(f"{name}.{key}"[:100], member, depth + 1)
        return
    if isinstance(value, (list, tuple)):
        if len(value) > MAX_PAYLOAD:
            raise _invalid(f"{name} has too many members.", name, "Give fewer.")
        for member in value:
            _check_json(name, member, depth + 1)
        return
    raise _invalid(f"{name} holds a {type(value).__name__}.", name, "Give what JSON can say.")


def _check_aliases(label: str, aliases: Any) -> list[str]:
    if isinstance(aliases, str) or not isinstance(aliases, Sequence) or len(aliases) > MAX_ALIASES:
        raise _invalid("aliases is no list of names.", "aliases", f"Give at most {MAX_ALIASES} names.")
    found = [check_text("aliases", alias, 255) for alias in aliases]
    if "" in found:
        raise _invalid("aliases holds an empty name.", "aliases", "Leave it out.")
    if found and label not in {"Service", "Container", "Host"}:
        raise _invalid(
            f"A {label} has no further names.", "aliases", "Services, containers and hosts may have them."
        )
    return sorted(set(found))


def _by_model(check: Any, *, allowed: tuple[str, ...], remedy: str = "") -> None:
    """Run a check of the model; what it refuses is the caller's."""
    try:
        check()
    except TabootError as error:
        message = error.message if len(error.message) <= 300 else error.message[:300] + "…"
        named = error.details.get("field")
        raise _invalid(message, None if named is None else str(named), remedy or _allowed(allowed)) from None


def _allowed(names: tuple[str, ...]) -> str:
    return f"The fields are {', '.join(names)}, each with values that `docs/querying.md` describes."


def _any_of(labels: frozenset[str]) -> str:
    return "any entity" if len(labels) == len(NODES) else " or ".join(sorted(labels))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def _invalid(message: str, field: str | None, remedy: str) -> TabootError:
    named = {} if field is None else {"field": field[:100]}
    return TabootError("E_ENTITY_VALIDATION", message, remedy=remedy, **named)
