"""Records what people decide, and brings the namespace up to date with it.

A text that is handed in with a fact is a document of the namespace's source of uploads for as long as a fact
in force has it (``knowledge.structured.raw_texts``), so that undoing the fact takes it away and undoing that
brings it back. A document that a person deletes leaves the fact its evidence; erased, its bytes leave the
fact too.

The record comes first: if the process is killed after it, the next run of the namespace applies it. All of it
happens under the namespace's lease, so that nobody else records or publishes meanwhile. Holds rules
``deterministic-reducer``, ``watermark`` and ``deleted-stays-deleted``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from taboot_pipelines.knowledge.structured import RAW_FOLDER, raw_paths, raw_text
from taboot_pipelines.model import ids
from taboot_pipelines.model.ids import canonical_json, uploads_source
from taboot_pipelines.stages.assertions import asserted, handed_in
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import delete, forget_results, remove_old_files, restore
from taboot_pipelines.stages.deriving import follow, run_source_stage
from taboot_pipelines.stages.quotas import Meter
from taboot_pipelines.stages.source_state import uploaded
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.uploads import add_source, check_size
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
    """Record decisions, all or none, and apply them. Whoever hands in again what was deleted has it back.

    Raises ``E_TRANSITION`` for a merge of what is one already, ``E_TOO_LARGE``, ``E_QUOTA``, ``E_BUSY``,
    ``E_STORAGE``.
    """
    upgrade_tables(workspace, namespace)
    texts = _take_texts(workspace, namespace, wanted)
    with workspace.leases.several(namespace, _uploads(workspace, namespace, new=texts)):
        known = in_force(asserted(workspace, namespace))
        _check_merges(known, wanted)
        return _record(workspace, namespace, known, wanted, who=who, reason=reason)


def undo(workspace: Workspace, namespace: str, assertion_id: str, *, who: str, reason: str) -> Recorded:
    """Undo a decision, or an undoing: what it changed is as if it had never been said.

    ``assertion_id``: the id or the beginning of it. Raises ``E_NOT_FOUND``, ``E_QUERY`` for a beginning that
    several have, ``E_TRANSITION`` if it is undone or erased already, ``E_BUSY``.
    """
    upgrade_tables(workspace, namespace)
    with workspace.leases.several(namespace, _uploads(workspace, namespace)):
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
        _keep_deleted(workspace, namespace, assertions, target)
        catalog.assertions.erase(namespace, [target.id])
        stores = _apply(workspace, namespace) | {"blobs": "done", "catalog": "done"}
        nameless = _nameless(workspace, namespace)
        if nameless:
            stores |= delete(workspace, namespace, nameless, erase=True).stores
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
    changed = _take_in_texts(workspace, namespace)
    followed = follow(workspace, namespace, changed)
    servers = (t.store for t in CHAIN.targets.values() if t.configured(workspace))
    done = dict.fromkeys(("tables", "shards", *servers), "done") | followed.pending
    return done | ({"vectors": "pending"} if followed.failure is not None else {})


# --- Texts that are handed in, as documents -----------------------------------------------------------------


def _take_texts(workspace: Workspace, namespace: str, wanted: Sequence[Wanted]) -> bool:
    """Refuse what the namespace has no room for, and restore what is handed in again; whether there is any
    text. What is handed in is stored when it is recorded.
    """
    brought = [(Assertion(0, "", w.kind, w.payload, "", "", 0, erased=False), w.raw) for w in wanted]
    if not any(brought_with for _, brought_with in brought):
        return False
    catalog, source_id = workspace.catalog, uploads_source(namespace)
    paths = raw_paths([*asserted(workspace, namespace), *(a for a, _ in brought)])
    doc_ids = {sha256: _doc_id(namespace, path) for sha256, path in paths.items()}
    there = {x.doc_id for x in catalog.locators.of_source(namespace, source_id).values()}
    elsewhere = {x.sha256 for x in catalog.uploaded.all(namespace)}
    meter, texts = Meter(workspace, namespace), set[str]()
    for a, data in brought:
        if not data:
            continue
        raw = a.payload["raw"]
        check_size(workspace, raw["name"] or "raw_content", data)
        doc_id = doc_ids.get(raw["sha256"]) if raw_text(a) and raw["sha256"] not in elsewhere else None
        meter.take(raw["sha256"], len(data), new_document=doc_id not in {None, *there, *texts})
        if doc_id is not None:
            texts.add(doc_id)
    if texts:
        add_source(workspace, namespace, source_id)
    deleted = texts & catalog.tombstones.all(namespace).keys()
    if deleted:
        restore(workspace, namespace, deleted)
    return bool(texts)


def _doc_id(namespace: str, path: str) -> str:
    return ids.doc_id(namespace, ids.locator(uploads_source(namespace), path))


def _uploads(workspace: Workspace, namespace: str, *, new: bool = False) -> set[str]:
    """Return the source of uploads, if a fact has brought a text; its lease comes before the namespace's."""
    return {uploads_source(namespace)} if new or raw_paths(asserted(workspace, namespace)) else set()


def _take_in_texts(workspace: Workspace, namespace: str) -> set[str]:
    """Enumerate the source of uploads where it should have other texts of facts; return it then."""
    source_id = uploads_source(namespace)
    present = workspace.catalog.locators.of_source(namespace, source_id)
    tombstones = workspace.catalog.tombstones.all(namespace)
    wanted = {x.path for x in uploaded(workspace.catalog, namespace)}
    wanted = {path for path in wanted if _doc_id(namespace, path) not in tombstones}
    if _stated(wanted) == _stated(present):
        return set()
    for entry in workspace.entries_of(namespace):
        if entry.source_id == source_id and not entry.retiring:
            run_source_stage(workspace, CHAIN.first, entry)
    return {source_id}


def _stated(paths: Iterable[str]) -> set[str]:
    return {path for path in paths if path.startswith(f"{RAW_FOLDER}/")}


def _keep_deleted(
    workspace: Workspace, namespace: str, assertions: Sequence[Assertion], target: Assertion
) -> None:
    """Let a text that was deleted stay deleted under the name that it has once ``target`` is erased."""
    catalog, before = workspace.catalog, raw_paths(assertions)
    tombstones = catalog.tombstones.all(namespace)
    for sha256, path in raw_paths(a for a in assertions if a.id != target.id).items():
        old = tombstones.get(_doc_id(namespace, before[sha256]))
        if path != before[sha256] and old is not None:
            catalog.tombstones.add(namespace, [_doc_id(namespace, path)], old["reason"])


def _nameless(workspace: Workspace, namespace: str) -> list[str]:
    """Return the documents, in any state, of texts that no fact is the first any more to have brought."""
    named = {*raw_paths(asserted(workspace, namespace)).values()}
    named |= {x.path for x in workspace.catalog.uploaded.all(namespace)}
    located = workspace.catalog.locators.of_source(namespace, uploads_source(namespace), state=None)
    return [located[path].doc_id for path in sorted(_stated(located) - named)]
