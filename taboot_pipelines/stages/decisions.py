"""Records what people decide, and brings the namespace up to date with it.

The record comes first: if the process is killed after it, the next run of the namespace applies it. All of it
happens under the namespace's lease, so that nobody else records or publishes meanwhile. Holds rules
``deterministic-reducer``, ``watermark`` and ``deleted-stays-deleted``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.assertions import (
    Assertion,
    AssertionKind,
    decision_table,
    in_force,
    undone,
)
from taboot_pipelines.knowledge.names import merged_key, merges_of
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stages.assertions import asserted, handed_in
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import forget_results, remove_old_files
from taboot_pipelines.stages.deriving import follow
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.assertions import HandedIn, NewAssertion

#: So many decisions a call may record.
MAX_BATCH = 10_000


@dataclass(frozen=True)
class Wanted:
    """What is to be recorded, checked as far as it can be without knowing what else was decided."""

    kind: AssertionKind
    payload: Mapping[str, Any]
    #: Bytes that were handed in with it, and their type; ``payload`` names them.
    raw: bytes | None = None


@dataclass(frozen=True)
class Recorded:
    """The ids of what was recorded, in the order in which it was wanted; what was in force already, as the
    last word about its subject, keeps its id. ``stores``: what serves it, ``done`` or ``pending``."""

    ids: tuple[str, ...]
    stores: dict[str, str]


def decide(
    workspace: Workspace, namespace: str, wanted: Sequence[Wanted], *, who: str, reason: str
) -> Recorded:
    """Record decisions, all or none, and apply them.

    Raises ``E_TRANSITION`` for a merge of what is one already, ``E_BUSY``, ``E_STORAGE``.
    """
    upgrade_tables(workspace, namespace)
    with workspace.leases.namespace(namespace):
        known = in_force(asserted(workspace, namespace))
        _check_merges(known, wanted)
        return _record(workspace, namespace, known, wanted, who=who, reason=reason)


def undo(workspace: Workspace, namespace: str, assertion_id: str, *, who: str, reason: str) -> Recorded:
    """Undo a decision, or an undoing: what it changed is as if it had never been said.

    ``assertion_id``: the id or the beginning of it. Raises ``E_NOT_FOUND``, ``E_QUERY`` for a beginning that
    several have, ``E_TRANSITION`` if it is undone or erased already, ``E_BUSY``.
    """
    upgrade_tables(workspace, namespace)
    with workspace.leases.namespace(namespace):
        assertions = asserted(workspace, namespace)
        target = _find(assertions, assertion_id)
        by = undone(assertions).get(target.id)
        if by is not None or target.erased:
            how = "erased" if target.erased else f"undone already, by {by}"
            raise TabootError(
                "E_TRANSITION",
                f"Assertion {target.id[:16]}… is {how}.",
                remedy="`taboot assertions` lists what is in force; undo the undoing to have it back.",
            )
        wanted = [Wanted(AssertionKind.UNDO, {"assertion": target.id})]
        return _record(workspace, namespace, in_force(assertions), wanted, who=who, reason=reason)


def erase(workspace: Workspace, namespace: str, assertion_id: str) -> Recorded:
    """Undo a decision for good, and remove every byte of what was typed from our files and servers; its id,
    kind and time stay. What was killed on the way is completed by erasing it once more.

    Raises as :func:`undo`, but for what is undone or erased already.
    """
    catalog = workspace.catalog
    upgrade_tables(workspace, namespace)
    with workspace.alone(namespace):
        assertions = asserted(workspace, namespace)
        target = _find(assertions, assertion_id)
        others = handed_in(namespace, (a for a in assertions if a.id != target.id))
        blobs = handed_in(namespace, [target]) - others - catalog.locators.held_hashes(namespace)
        catalog.audit_log.record(namespace, "erase", target.id)
        # While the row still names them.
        workspace.blobs.delete(namespace, *sorted(blobs))
        catalog.forget(namespace, (), sorted(blobs))
        catalog.assertions.erase(namespace, [target.id])
        stores = _apply(workspace, namespace) | {"blobs": "done", "catalog": "done"}
        remove_old_files(workspace, namespace)
        if not catalog.database.compact():
            stores["catalog"] = "pending"
        stores |= forget_results(workspace, namespace)
    return Recorded((target.id,), stores)


def _find(assertions: Sequence[Assertion], assertion_id: str) -> Assertion:
    found = [a for a in assertions if assertion_id and a.id.startswith(assertion_id)]
    if not found:
        raise TabootError("E_NOT_FOUND", f"There is no assertion {assertion_id[:64]!r} in this namespace.")
    if len(found) > 1:
        raise TabootError(
            "E_QUERY",
            f"{len(found)} assertions begin with {assertion_id[:64]!r}.",
            candidates=[a.id for a in found[:10]],
        )
    return found[0]


def _check_merges(known: Sequence[Assertion], wanted: Sequence[Wanted]) -> None:
    """Refuse merges of two entities that are one already."""
    merges = merges_of(decision_table(known))
    for w in wanted:
        if w.kind == AssertionKind.MERGE:
            label, key, into = w.payload["label"], w.payload["key"], w.payload["into"]
            if merged_key(merges, label, key) == merged_key(merges, label, into):
                raise TabootError(
                    "E_TRANSITION",
                    f"{label} {key[:100]} and {into[:100]} are one already.",
                    remedy="`taboot assertions` lists the merges; `taboot undo` takes one back.",
                )


def _record(
    workspace: Workspace,
    namespace: str,
    known: Sequence[Assertion],
    wanted: Sequence[Wanted],
    *,
    who: str,
    reason: str,
) -> Recorded:
    if len(wanted) > MAX_BATCH:
        raise TabootError(
            "E_ENTITY_VALIDATION",
            f"{len(wanted):,} facts are too many at once.",
            remedy=f"Hand in at most {MAX_BATCH:,} at a time.",
        )
    last: dict[tuple[Any, ...], tuple[str, str | int]] = {
        a.subject: (canonical_json(a.payload), a.id) for a in known
    }
    ids_: list[str | int] = []
    new: list[NewAssertion] = []
    for w in wanted:
        payload = canonical_json(w.payload)
        subject = Assertion(0, "", w.kind, w.payload, "", "", 0, erased=False).subject
        said = last.get(subject)
        if said is not None and said[0] == payload:
            ids_.append(said[1])
            continue
        # A number stands for an id that is not known yet.
        ids_.append(len(new))
        last[subject] = (payload, len(new))
        new.append(NewAssertion(w.kind.value, payload, who, reason))
    _keep(workspace, namespace, wanted)
    rows = workspace.catalog.assertions.add(namespace, new) if new else []
    found = tuple(rows[i]["id"] if isinstance(i, int) else i for i in ids_)
    return Recorded(found, _apply(workspace, namespace))


def _keep(workspace: Workspace, namespace: str, wanted: Sequence[Wanted]) -> None:
    """Put what was handed in among the blobs, before anything names it."""
    handed = {}
    for w in wanted:
        if w.raw is not None:
            sha256, _ = workspace.blobs.put(namespace, w.raw)
            handed[sha256] = HandedIn(sha256, len(w.raw), w.payload["raw"]["mime"])
    if handed:
        location = workspace.blobs.path(namespace, "").rstrip("/")
        workspace.catalog.assertions.record_blobs(namespace, [*handed.values()], location)


def _apply(workspace: Workspace, namespace: str) -> dict[str, str]:
    """Run what follows from the decisions; return {store: done or pending}."""
    pending = follow(workspace, namespace, ()).pending
    servers = (t.store for t in CHAIN.targets.values() if t.configured(workspace))
    return dict.fromkeys(("tables", "shards", *servers), "done") | pending
