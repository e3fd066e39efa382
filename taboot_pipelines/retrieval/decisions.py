"""What is handed in with a stated fact: a text, or a file, which becomes a blob of its own."""

from __future__ import annotations

import getpass
import mimetypes
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge import assertions as checks
from taboot_pipelines.knowledge.assertions import Assertion, AssertionKind, in_force, undone
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EDGES, PRIORITY, EdgeSource
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.retrieval.results.decisions import (
    AssertionItem,
    AssertionList,
    Decided,
    EntityName,
    Stated,
)
from taboot_pipelines.retrieval.results.graph import Edge, Node
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.retrieval.supports import entity_of
from taboot_pipelines.retrieval.writing import Writing

if TYPE_CHECKING:
    from taboot_pipelines.stages.decisions import Wanted

#: So many bytes of what was handed in are quoted.
_QUOTED = 2_000


def read_raw(content: Any, file: Any) -> tuple[dict[str, Any] | None, bytes | None]:
    """Return what was handed in with a fact, as its record names it, and its bytes; None, None for nothing.

    Raises ``E_ENTITY_VALIDATION`` for both at once, a file that cannot be read, or too much.
    """
    if content is None and file is None:
        return None, None
    if content is not None and file is not None:
        raise TabootError(
            "E_ENTITY_VALIDATION", "Give raw_content or raw_file_path, not both.", field="raw_content"
        )
    if file is not None:
        if not isinstance(file, (str, Path)):
            raise TabootError("E_ENTITY_VALIDATION", "raw_file_path is no path.", field="raw_file_path")
        path = Path(file)
        try:
            with path.open("rb") as f:
                data = f.read(checks.MAX_RAW + 1)
        except (OSError, ValueError) as error:
            raise TabootError(
                "E_ENTITY_VALIDATION",
                f"The file at raw_file_path cannot be read ({type(error).__name__}).",
                field="raw_file_path",
            ) from None
        name, mime = path.name, mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    else:
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")
        if not isinstance(content, (bytes, bytearray)):
            raise TabootError(
                "E_ENTITY_VALIDATION", "raw_content is neither text nor bytes.", field="raw_content"
            )
        data, name, mime = bytes(content), "", "text/plain"
    if len(data) > checks.MAX_RAW:
        raise TabootError(
            "E_ENTITY_VALIDATION",
            f"What is handed in with a fact has more than {checks.MAX_RAW:,} bytes.",
            remedy="Put the file into a source, or hand in the part that shows the fact.",
            field="raw_content" if file is None else "raw_file_path",
        )
    raw = {"sha256": ids.sha256_hex(data), "mime": mime, "name": name, "size": len(data)}
    return {**raw, "shown_bytes": _shown_bytes(data)}, data


def _shown_bytes(data: bytes) -> int:
    """How much of the beginning of what was handed in is a text that can be quoted; 0: it is none."""
    beginning = data[:_QUOTED]
    for end in range(len(beginning), max(len(beginning) - 4, 0), -1):
        try:
            text = beginning[:end].decode()
        except UnicodeDecodeError:
            continue
        return end if all(c.isprintable() or c in "\n\r\t" for c in text) else 0
    return 0


# --- What people tell a knowledge base: corrections, facts, merges, and their undoing
#
# What is named is looked up in what is published now; what is said is checked here, before anything is
# recorded; the stages record and apply it.

_CORRECTION = PRIORITY[EdgeSource.CORRECTION]
_STRUCTURED = PRIORITY[EdgeSource.STRUCTURED]


class DecisionRecorder:
    """Safe to use from several threads."""

    def __init__(self, session: Session, writing: Writing) -> None:
        self._session = session
        self._writing = writing

    def correct(
        self, entity: EntityName, field: str, value: Any, *, reason: str, who: str | None, label: str | None
    ) -> Decided:
        """See ``KnowledgeBase.correct``."""
        node = self._entity(entity, label)
        checked = checks.check_field(node.label, field, value)
        payload = {"label": node.label, "key": node.key, "name": node.name, "field": field, "value": checked}
        return self._decide(AssertionKind.FIELD, payload, reason, who)

    def correct_edge(
        self,
        edge: str | Edge | Mapping[str, Any],
        name: str | None,
        value: Any,
        *,
        reason: str,
        who: str | None,
    ) -> Decided:
        """See ``KnowledgeBase.correct_edge``."""
        row = self._session.ask(lambda view: _edge(view, edge))
        payload = {
            "type": row["type"],
            "start": [row["start_label"], row["start_key"], row["start_name"]],
            "end": [row["end_label"], row["end_key"], row["end_name"]],
            "discriminator": row["discriminator"],
            "property": name,
            "value": None if name is None else checks.check_edge_property(row["type"], name, value),
        }
        return self._decide(AssertionKind.EDGE, payload, reason, who)

    def merge(
        self, entity: EntityName, into: EntityName, *, reason: str, who: str | None, label: str | None
    ) -> Decided:
        """See ``KnowledgeBase.merge``."""
        first, second = self._entity(entity, label), self._entity(into, label)
        if first.label != second.label:
            raise TabootError(
                "E_ENTITY_VALIDATION",
                f"A {first.label} and a {second.label} cannot be one.",
                remedy="Merge two entities of one type.",
                field="label",
            )
        if first.label == "Document":
            raise TabootError(
                "E_ENTITY_VALIDATION",
                "Documents are not merged.",
                remedy="Delete one of them.",
                field="label",
            )
        payload = {
            "label": first.label,
            "key": first.key,
            "name": first.name,
            "into": second.key,
            "into_name": second.name,
        }
        return self._decide(AssertionKind.MERGE, payload, reason, who)

    def undo(self, assertion_id: str, *, erase: bool, reason: str, who: str | None) -> Decided:
        """See ``KnowledgeBase.undo``."""
        if not isinstance(assertion_id, str):
            raise TabootError("E_QUERY", "undo takes the id of an assertion, or the beginning of it.")
        said_why, said_who = about(reason, who)
        if erase:
            recorded = self._writing.erase_assertion(assertion_id)
        else:
            recorded = self._writing.undo(assertion_id, said_who, said_why)
        return Decided(
            observation_id=recorded.ids[0],
            kind="erased" if erase else AssertionKind.UNDO.value,
            priority=_CORRECTION,
            stores=recorded.stores,
        )

    def state(
        self, items: Sequence[Mapping[str, Any]], *, reason: str, who: str | None
    ) -> tuple[Stated, ...]:
        """See ``KnowledgeBase.ingest_structured_batch``."""
        if isinstance(items, (str, Mapping)) or not isinstance(items, Sequence):
            raise TabootError("E_ENTITY_VALIDATION", "A batch is a list of facts.", field="items")
        said_why, said_who = about(reason, who)
        stated = _entities_of(items)
        wanted = [self._wanted(number, item, stated) for number, item in enumerate(items)]
        if not wanted:
            return ()
        recorded = self._writing.decide(wanted, said_who, said_why)
        return tuple(
            Stated(
                observation_id=id_,
                kind=w.kind.value,
                priority=_STRUCTURED,
                stores=recorded.stores,
                entity_id=ids.node_key(w.payload["key"]) if w.kind == AssertionKind.ENTITY else None,
                source_id=None if w.payload["raw"] is None else w.payload["raw"]["sha256"],
            )
            for id_, w in zip(recorded.ids, wanted, strict=True)
        )

    def assertions(self, *, all_states: bool, limit: int) -> AssertionList:
        """See ``KnowledgeBase.assertions``."""
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 1_000_000:
            raise TabootError("E_QUERY", "limit must be a whole number from 1 to 1000000.")
        known = self._writing.asserted()
        gone, last = undone(known), {a.subject: a.id for a in in_force(known)}
        items = []
        for a in known:
            if a.erased:
                state = "erased"
            elif a.id in gone:
                state = "undone"
            elif a.kind not in {AssertionKind.UNDO, AssertionKind.MERGE} and last[a.subject] != a.id:
                state = "superseded"
            else:
                state = "in_force"
            if all_states or (state == "in_force" and a.kind != AssertionKind.UNDO):
                items.append((a, state))
        shown = tuple(
            AssertionItem(
                observation_id=a.id,
                number=a.number,
                kind=a.kind.value,
                state=state,
                says=says(a),
                who=a.who,
                reason=a.reason,
                at=datetime.fromtimestamp(a.at / 1e6, UTC),
                undone_by=gone.get(a.id),
                payload=dict(a.payload),
            )
            for a, state in items[-limit:]
        )
        return AssertionList(items=shown, truncated=len(items) > limit)

    # --- what is said ---------------------------------------------------------------------------------------

    def _decide(
        self, kind: AssertionKind, payload: Mapping[str, Any], reason: str, who: str | None
    ) -> Decided:
        from taboot_pipelines.stages.decisions import Wanted

        said_why, said_who = about(reason, who)
        recorded = self._writing.decide([Wanted(kind, payload)], said_who, said_why)
        return Decided(
            observation_id=recorded.ids[0], kind=kind.value, priority=_CORRECTION, stores=recorded.stores
        )

    def _wanted(self, number: int, item: Any, stated: Mapping[str, Sequence[Node]]) -> Wanted:
        """One fact of a batch, checked. Raises ``E_ENTITY_VALIDATION``, which says which it is."""
        try:
            return self._fact(item, stated)
        except TabootError as error:
            if number == 0 and error.code != "E_ENTITY_VALIDATION":
                raise
            message = f"Fact {number + 1}: {error.message}" if number else error.message
            raise TabootError(error.code, message, remedy=error.remedy, **error.details) from None

    def _fact(self, item: Any, stated: Mapping[str, Sequence[Node]]) -> Wanted:
        from taboot_pipelines.stages.decisions import Wanted

        allowed = {"entity_type", "properties", "aliases", "raw_content", "raw_file_path"}
        related = {"type", "start", "end", "properties", "raw_content", "raw_file_path"}
        if not isinstance(item, Mapping) or not ("entity_type" in item) ^ ("type" in item):
            raise TabootError(
                "E_ENTITY_VALIDATION",
                "A fact is an entity, with `entity_type`, or a relation, with `type`.",
                field="entity_type",
            )
        surplus = sorted(str(name) for name in item.keys() - (allowed if "entity_type" in item else related))
        if surplus:
            raise TabootError(
                "E_ENTITY_VALIDATION",
                f"A fact has no field {surplus[0][:100]!r}.",
                remedy=f"Use {', '.join(sorted(allowed if 'entity_type' in item else related))}.",
                field=surplus[0][:100],
            )
        raw, data = read_raw(item.get("raw_content"), item.get("raw_file_path"))
        properties = item.get("properties", {})
        if "entity_type" in item:
            label = item["entity_type"]
            key, name, own, aliases = checks.check_entity(label, properties, item.get("aliases", ()))
            payload = {"label": label, "key": key, "name": name, "properties": own, "aliases": aliases}
            return Wanted(AssertionKind.ENTITY, {**payload, "raw": raw}, data)
        type_ = EDGES.get(item["type"]) if isinstance(item["type"], str) else None
        start = self._end("start", item.get("start"), None if type_ is None else type_.start, stated)
        end = self._end("end", item.get("end"), None if type_ is None else type_.end, stated)
        own = checks.check_relation(item["type"], start.label, end.label, properties)
        from taboot_pipelines.knowledge.observations import discriminator

        payload = {
            "type": item["type"],
            "start": [start.label, start.key, start.name],
            "end": [end.label, end.key, end.name],
            "properties": own,
            "discriminator": discriminator(item["type"], own),
        }
        return Wanted(AssertionKind.RELATION, {**payload, "raw": raw}, data)

    def _end(
        self, role: str, given: Any, labels: frozenset[str] | None, stated: Mapping[str, Sequence[Node]]
    ) -> Node:
        """An end of a relation: a name or key of an entity that the batch states (``stated``) or that there
        is, of one of these ``labels`` where several are called so; or a mapping that says which it is, with
        its ``label`` and the fields of its key."""
        if isinstance(given, Mapping):
            fields = dict(given)
            label = fields.pop("label", None)
            key, name, own, _ = checks.check_entity(label, fields)
            if own:
                raise TabootError(
                    "E_ENTITY_VALIDATION",
                    f"{role} holds {', '.join(own)}, which is no part of a key.",
                    remedy="State the entity's properties as a fact of its own.",
                    field=role,
                )
            return Node(label=str(label), key=ids.node_key(key), name=name, scope=None, properties={})
        if given is None:
            raise TabootError(
                "E_ENTITY_VALIDATION",
                f"The relation has no {role}.",
                remedy="Give a name, a key, or {label: …, and the fields of the key}.",
                field=role,
            )
        of_batch = stated.get(given, ()) if isinstance(given, str) else ()
        fitting = [node for node in of_batch if labels is None or node.label in labels]
        if len(fitting) > 1:
            raise TabootError(
                "E_QUERY",
                f"The batch states {len(fitting)} entities called {given[:100]!r}.",
                remedy="Name the one that is meant by {label: …, and the fields of its key}.",
                candidates=[f"{node.label} {node.key}" for node in fitting[:10]],
            )
        if fitting:
            return fitting[0]
        return self._session.ask(lambda view: entity_of(view, given, None, prefer=labels))

    # --- what is named --------------------------------------------------------------------------------------

    def _entity(self, named: EntityName, label: str | None) -> Node:
        """The one entity that is called so. Raises ``E_NOT_FOUND``; ``E_QUERY`` naming the candidates."""
        return self._session.ask(lambda view: entity_of(view, named, label))


def _edge(view: View, edge: str | Edge | Mapping[str, Any]) -> dict[str, Any]:
    given = edge
    if isinstance(given, Edge):
        given = given.edge_id
    elif isinstance(given, Mapping):
        given = given.get("edge_id", "")
    if not isinstance(given, str):
        raise TabootError("E_QUERY", "An edge is named by its edge_id, or by itself.")
    row = view.graph.edge(given.strip())
    if row is None:
        raise TabootError("E_EDGE_UNKNOWN", f"There is no edge {given[:64]!r}.", edge_id=given[:64])
    return row


def _entities_of(items: Sequence[Any]) -> dict[str, list[Node]]:
    """{name, alias or key: the entities of a batch that are called so}; what is not valid is told later."""
    found: dict[str, dict[tuple[str, str], Node]] = {}
    for item in items:
        if not isinstance(item, Mapping) or "entity_type" not in item:
            continue
        try:
            key, name, _, aliases = checks.check_entity(
                item["entity_type"], item.get("properties", {}), item.get("aliases", ())
            )
        except TabootError:
            continue
        node = Node(label=item["entity_type"], key=ids.node_key(key), name=name, scope=None, properties={})
        for called in {name, node.key, *aliases}:
            found.setdefault(called, {})[node.label, node.key] = node
    return {called: list(nodes.values()) for called, nodes in found.items()}


def says(assertion: Assertion) -> str:
    """An assertion in one line."""
    p = assertion.payload
    if assertion.erased:
        return ""
    match assertion.kind:
        case AssertionKind.FIELD:
            return f"{p['label']} {p['name']}: {p['field']} = {canonical_json(p['value'])}"
        case AssertionKind.EDGE:
            fact = f"({p['start'][2]})-[{p['type']}]->({p['end'][2]})"
            if p["property"] is None:
                return f"{fact} is not so"
            return f"{fact}: {p['property']} = {canonical_json(p['value'])}"
        case AssertionKind.MERGE:
            return f"{p['label']} {p['name']} ({p['key']}) is {p['into_name']} ({p['into']})"
        case AssertionKind.ENTITY:
            return f"{p['label']} {p['name']} {canonical_json(p['properties'])}"
        case AssertionKind.RELATION:
            return f"({p['start'][2]})-[{p['type']} {canonical_json(p['properties'])}]->({p['end'][2]})"
        case AssertionKind.UNDO:
            return f"undoes {p['assertion']}"


def about(reason: str, who: str | None) -> tuple[str, str]:
    """Why, and who: by default whoever runs this process."""
    return (
        checks.check_text("reason", reason, checks.MAX_REASON),
        _whoever_runs_this() if who is None else checks.check_text("who", who, checks.MAX_WHO),
    )


def _whoever_runs_this() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
