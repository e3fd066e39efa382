"""Reads the interpretation runs of a namespace: which there are, what one said, and how two differ.

Nothing is fetched and no model is asked: the observations of active runs lie in the tables of their tier,
those of all others in its archive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.runs import Archive
from taboot_pipelines.model import ids
from taboot_pipelines.model.jobs import RunState
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.reinterpretation import tier_named, tiers_of
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.runs import unit_name

#: In place of a run: all active ones, or all that wait to be promoted, of a source and tier.
ACTIVE, CANDIDATE = "active", "candidate"
#: A beginning of an id that is shorter names none.
_MIN_BEGINNING = 6
#: What makes two observations the same fact, by one document.
_FACT = (
    "kind",
    "type",
    "start_label",
    "start_key",
    "end_label",
    "end_key",
    "discriminator",
    "doc_id",
)
#: What may differ of the same fact, by the name under which a difference is told.
_SAID = {
    "name": ("start_name", "end_name"),
    "properties": ("properties",),
    "confidence": ("confidence",),
    "method": ("method",),
    "basis": ("start_basis", "end_basis"),
    "declared": ("declared", "aliases"),
    "span": ("span_start", "span_end", "blob_sha256"),
}


@dataclass(frozen=True)
class FactChange:
    """A fact that one side says and the other does not, or says otherwise.

    ``rows``: the observations of it on the second side, or of a removed one on the first. ``before``: those
    on the first side, of a changed one. ``fields``: in what it changed.
    """

    change: Literal["added", "removed", "changed"]
    rows: Sequence[Mapping[str, Any]]
    before: Sequence[Mapping[str, Any]] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """How the observations of some runs differ from those of others: ``a`` and ``b`` are their records."""

    a: Sequence[Mapping[str, Any]]
    b: Sequence[Mapping[str, Any]]
    rows_a: Sequence[Mapping[str, Any]]
    rows_b: Sequence[Mapping[str, Any]]
    changes: Sequence[FactChange]


def history(
    workspace: Workspace,
    namespace: str,
    *,
    source: str | None = None,
    tier: str | None = None,
    status: str | None = None,
    document: str | None = None,
    active: bool | None = None,
    candidate: bool | None = None,
    limit: int = 1000,
) -> list[dict[str, Any]]:
    """Return the newest runs, newest first: rows of the catalog with ``path``, and ``batch_id`` of what is
    under way or what its process died over, which has no id of its own yet.

    ``document``: a doc_id or a path. Raises ``E_QUERY`` for a tier or a status that there is not.
    """
    called = None if tier is None else tier_named(tier).tier.source.value
    if status is not None and status not in {state.value for state in RunState}:
        raise TabootError("E_QUERY", f"There is no status {status!r}.", status=status)
    names = None if document is None else _names(workspace, namespace, document, source)
    found = [
        {**row, "batch_id": None}
        for row in workspace.catalog.runs.find(
            namespace,
            source_id=source,
            tier=called,
            status=status,
            active=active,
            candidate=candidate,
            newest=limit if names is None else None,
        )
    ]
    if active is None and candidate is None:
        found += [
            _of_batch(row, unit)
            for row in workspace.catalog.batches.find(namespace, source, called)
            if status in (None, row["status"])
            for unit in row["units"]
        ]
    if names is not None:
        found = [row for row in found if unit_name(row["unit_id"]) in names]
    found.sort(key=lambda row: (row["created_at"], row["run_id"] or ""), reverse=True)
    return with_paths(workspace, namespace, found[:limit])


def run_ids(workspace: Workspace, namespace: str, names: Iterable[str]) -> list[str]:
    """Return the ids of runs that are named by an id or an unmistakable beginning of one.

    Raises ``E_NOT_FOUND``, and ``E_QUERY`` for a beginning that is too short or of two runs.
    """
    found = []
    for name in names:
        known = workspace.catalog.runs.starting_with(namespace, name) if name else []
        if name in known:
            found.append(name)
        elif len(name) < _MIN_BEGINNING or len(known) > 1:
            raise TabootError("E_QUERY", f"{name!r} does not name one run.", run=name[:64])
        elif not known:
            raise TabootError("E_NOT_FOUND", f"There is no run {name[:64]!r}.", run=name[:64])
        else:
            found += known
    return found


def observations(workspace: Workspace, namespace: str, runs: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the rows of ``tables.OBSERVATIONS`` of some runs, as the catalog has these: the facts, and not
    what the reducer makes facts of.

    Raises ``E_NOT_FOUND`` if a run said something that is not kept any more: its source was retired, or an
    earlier release archived it.
    """
    found = []
    for (source, tier), of in tiers_of(runs).items():
        stage = tier_named(tier)
        pointer = workspace.catalog.pointers.get(namespace, source, stage.name)
        version = None if pointer is None else pointer.tables.get(stage.tier.table)
        wanted = sorted(row["run_id"] for row in of)
        tables = workspace.tables
        rows = tables.read(namespace, source, stage.tier.table, version, members=("run_id", wanted))
        there = set(rows.column("run_id").to_pylist())
        archive = Archive(tables, namespace, source, stage.tier)
        kept = archive.rows([run for run in wanted if run not in there])
        there |= set(kept.column("run_id").to_pylist())
        lost = [
            row["run_id"]
            for row in of
            if row["extracted_nodes"] + row["extracted_edges"] and row["run_id"] not in there
        ]
        if lost:
            raise TabootError(
                "E_NOT_FOUND",
                f"The observations of {len(lost)} runs of {source} are not kept any more.",
                remedy="Interpret their units again: `taboot reinterpret`.",
                runs=sorted(lost)[:10],
            )
        found += [rows, kept]
    rows = pa.concat_tables(found)
    return rows.filter(pc.is_in(rows.column("kind"), value_set=pa.array(["node", "edge"])))


def compare(
    workspace: Workspace,
    namespace: str,
    a: str | Collection[str],
    b: str | Collection[str],
    *,
    source: str | None = None,
    tier: str | None = None,
) -> Compared:
    """Return how what the runs ``b`` say differs from what ``a`` say.

    Each side is a run, several, or one of :data:`ACTIVE` and :data:`CANDIDATE` of a source and tier; of the
    active ones only those of the other side's units are compared. Raises ``E_QUERY``, ``E_NOT_FOUND``.
    """
    sides = [_side(workspace, namespace, given, source, tier) for given in (a, b)]
    for number, given in enumerate((a, b)):
        if given == ACTIVE:
            units = {(row["source_id"], row["tier"], row["unit_id"]) for row in sides[1 - number]}
            sides[number] = [
                row for row in sides[number] if (row["source_id"], row["tier"], row["unit_id"]) in units
            ]
    first, second = sides
    rows = [observations(workspace, namespace, side).to_pylist() if side else [] for side in sides]
    return Compared(first, second, rows[0], rows[1], _changes(rows[0], rows[1]))


def _side(
    workspace: Workspace, namespace: str, given: str | Collection[str], source: str | None, tier: str | None
) -> list[Mapping[str, Any]]:
    runs = workspace.catalog.runs
    if given in (ACTIVE, CANDIDATE):
        if source is None or tier is None:
            raise TabootError("E_QUERY", f"Of which source and tier are the {given} runs meant?")
        of = {"source_id": source, "tier": tier_named(tier).tier.source.value}
        wanted = {"active": True} if given == ACTIVE else {"candidate": True}
        found = runs.find(namespace, **of, **wanted)  # type: ignore[arg-type]
        if not found:
            raise TabootError("E_NOT_FOUND", f"There is no {given} run of {source} and {of['tier']}.")
        return found
    names = run_ids(workspace, namespace, [given] if isinstance(given, str) else given)
    if not names:
        raise TabootError("E_QUERY", "Name the runs to compare.")
    return list(runs.by_id(namespace, names).values())


def _changes(a: Iterable[Mapping[str, Any]], b: Iterable[Mapping[str, Any]]) -> list[FactChange]:
    before, after = _by_fact(a), _by_fact(b)
    found: list[FactChange] = []
    for fact in sorted(before.keys() | after.keys(), key=repr):
        old, new = before.get(fact, []), after.get(fact, [])
        if not old:
            found.append(FactChange("added", new))
        elif not new:
            found.append(FactChange("removed", old))
        else:
            fields = tuple(
                name
                for name, columns in _SAID.items()
                if sorted(repr([row[c] for c in columns]) for row in old)
                != sorted(repr([row[c] for c in columns]) for row in new)
            )
            if fields:
                found.append(FactChange("changed", new, old, fields))
    return found


def _by_fact(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in _FACT), []).append(row)
    return found


def _of_batch(batch: Mapping[str, Any], unit: str) -> dict[str, Any]:
    """Return what a unit of a batch looks like beside the runs."""
    return {
        **{name: batch[name] for name in ("batch_id", "source_id", "tier", "status", "error_message")},
        **{name: batch[name] for name in ("created_at", "started_at", "completed_at")},
        **{name: batch[name] for name in ("heartbeat_at", "timeout_at")},
        "run_id": None,
        "unit_id": unit,
        "interpretation_config": "{}",
        "overrides": "{}",
        "input_fingerprint": "",
        "number": 0,
        "extracted_nodes": 0,
        "extracted_edges": 0,
        "confidence": None,
        "unknown_field_count": 0,
        "extraction_completeness": "unknown",
        "candidate": False,
        "archived_at": batch["created_at"],
    }


def _names(workspace: Workspace, namespace: str, document: str, source: str | None) -> set[str]:
    """Return by what units may be called whose main file is this document: its id, and its path."""
    locators = workspace.catalog.locators
    located = [x for _, x in locators.of_documents(namespace, [document])]
    sources = [source] if source is not None else [e.source_id for e in workspace.entries_of(namespace)]
    for of in sources:
        located += locators.at(namespace, of, [document]).values()
    return {document} | {x.path for x in located} | {x.doc_id for x in located}


def facts_of(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return how many facts some observations are."""
    return len(_by_fact(rows))


def parsed_documents(
    workspace: Workspace, namespace: str, source: str, doc_ids: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """Return {doc_id: its path, url, mime and charset} of documents as they were parsed last."""
    pointer = workspace.catalog.pointers.get(namespace, source, documents.STAGE)
    if pointer is None:
        return {}
    found = workspace.tables.read(
        namespace,
        source,
        "documents",
        pointer.tables["documents"],
        columns=["doc_id", "path", "url", "mime", "charset"],
        buckets={ids.doc_bucket(doc_id) for doc_id in doc_ids},
        members=("doc_id", sorted(doc_ids)),
    )
    return {row["doc_id"]: row for row in found.to_pylist()}


def with_paths(
    workspace: Workspace, namespace: str, rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows, each with the path of its unit's main file."""
    names = {unit_name(row["unit_id"]) for row in rows}
    located = workspace.catalog.locators.of_documents(namespace, sorted(names))
    paths = {x.doc_id: x.path for _, x in located}
    return [{**row, "path": paths.get(name := unit_name(row["unit_id"]), name)} for row in rows]
