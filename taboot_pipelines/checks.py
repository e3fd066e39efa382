"""The checks of what each stage made, without Dagster: the command line runs them, and Dagster's asset checks
call them.

A broken rule is an error, and a blocking one stops what lies downstream; what a person only has to know of is
a warning. A check after a run looks at what changed since it last passed, and once a day at everything; a
check that a person runs by itself looks at everything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.names import merges_of
from taboot_pipelines.knowledge.reducer import resolve_key
from taboot_pipelines.model import ids
from taboot_pipelines.model.crawls import CrawlState
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.rules import MAX_FINDINGS, Severity
from taboot_pipelines.model.tables import DECISIONS, rows_of
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.check_scope import (
    CHANGED,
    SHOWN,
    WHOLE_SECONDS,
    Check,
    CheckResult,
    CheckRun,
    CheckScope,
    Looked,
    Rows,
    looking,
    parts_of,
)
from taboot_pipelines.stages.crawl_graph import CrawlGraph, wrong_ledger
from taboot_pipelines.stages.links import broken_links, lines_of
from taboot_pipelines.stages.published import published_versions, read_published
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import NAMESPACE

if TYPE_CHECKING:
    from taboot_pipelines.retrieval import KnowledgeBase
    from taboot_pipelines.retrieval.results.drift import DriftItem

_OBSERVATION_COLUMNS = [
    "doc_id",
    "unit_id",
    "type",
    "start_name",
    "start_basis",
    "end_name",
    "end_basis",
    "span_start",
    "span_end",
    "blob_sha256",
]


def merged(results: Sequence[CheckResult]) -> CheckResult:
    """Return the result of the same check of several sources: counts are added, and lists joined."""
    metadata: dict[str, Any] = {}
    for result in results:
        for name, value in result.metadata.items():
            old = metadata.get(name)
            if isinstance(old, int) and not isinstance(old, bool):
                metadata[name] = old + value
            elif isinstance(old, Rows):
                metadata[name] = Rows([*old, *value][:SHOWN])
            elif isinstance(old, list):
                metadata[name] = [*old, *value][:SHOWN]
            elif isinstance(old, dict):
                metadata[name] = {**old, **value}
            elif name == "scope" and old not in (None, value):
                metadata[name] = CHANGED
            else:
                metadata[name] = value
    return CheckResult(all(result.passed for result in results), metadata)


# --- what checks of tables share ----------------------------------------------------------------------------


@contextmanager
def _looking(
    run: CheckRun, namespace: str, owner: str, check: str, assets: Sequence[str], looked: Looked
) -> Iterator[CheckScope]:
    """Give the block what it has to look at in the tables of ``assets``."""
    versions = published_versions(run.workspace, namespace, owner, *assets)
    with looking(run, namespace, owner, check, versions, looked) as scope:
        yield scope


# --- what was fetched ---------------------------------------------------------------------------------------


def _ledger_adds_up(run: CheckRun) -> CheckResult:
    parts = ("fetched", "not_modified", "skipped", "failed")
    wrong = []
    for namespace, source_id in run.sources:
        jobs = run.workspace.catalog.jobs.find(namespace, source_id, limit=5)
        job = next((job for job in jobs if job["state"] == "succeeded"), None)
        if job is not None and job["discovered"] != sum(job[part] for part in parts):
            wrong.append({"source": source_id, **{k: job[k] for k in ("job_id", "discovered", *parts)}})
    return CheckResult(not wrong, {"wrong": wrong})


def _no_deletes_held(run: CheckRun) -> CheckResult:
    held = {}
    for namespace, source_id in run.sources:
        job = next(iter(run.workspace.catalog.jobs.find(namespace, source_id, limit=1)), None)
        if job is not None and job["held"]:
            held[source_id] = job["held"]
    if not held:
        return CheckResult(True)
    remedy = (
        f"Look at what would go, then run `taboot ingest {' '.join(sorted(held))} --confirm-deletes`"
        " if it is right."
    )
    return CheckResult(False, {"code": "E_MASS_DELETE", "held": held, "remedy": remedy})


def _crawl_ledgers_add_up(run: CheckRun) -> CheckResult:
    wrong: dict[str, str] = {}
    looked = 0
    for namespace, source_id in run.sources:
        graph = CrawlGraph(run.workspace.catalog, namespace)
        held = graph.held()
        for crawl in graph.crawls(source_id):
            looked += 1
            why = wrong_ledger(crawl, graph.ledger_rows(crawl), held.get(crawl.crawl_id, 0))
            if why is not None:
                wrong[crawl.crawl_id] = why
    # Of a source that does not crawl nothing is kept: most runs are of such.
    return CheckResult(not wrong, {"crawls": looked, "wrong": wrong} if looked else {})


def _crawl_completed(run: CheckRun) -> CheckResult:
    unfinished: dict[str, str] = {}
    for namespace, source_id in run.sources:
        for crawl in CrawlGraph(run.workspace.catalog, namespace).crawls(source_id, limit=1):
            if not crawl.complete:
                running = crawl.state is CrawlState.RUNNING
                unfinished[source_id] = "it has not come to its end" if running else crawl.reason
    remedy = (
        "The source's next run goes on with it, or crawls anew; `taboot crawls show SOURCE` has the pages."
    )
    return CheckResult(not unfinished, {"unfinished": unfinished, "remedy": remedy} if unfinished else {})


# --- documents, chunks, links, vectors ----------------------------------------------------------------------


def _lead_to_blobs(run: CheckRun) -> CheckResult:
    looked, tables = Looked(), ("documents",)
    columns = ["doc_id", "text", "text_sha256", "blob_sha256"]
    for namespace, source_id in run.sources:
        with _looking(run, namespace, source_id, "lead_to_blobs", tables, looked) as scope:
            for at in parts_of(scope, *tables):
                found = read_published(
                    run.workspace, namespace, source_id, "documents", columns=columns, buckets=at
                )
                looked.rows += found.num_rows
                blobs = set(found.column("blob_sha256").to_pylist())
                known = run.workspace.catalog.blobs.hashes(namespace, blobs)
                looked.broken += [
                    doc_id
                    for doc_id, text, text_sha256, blob_sha256 in rows_of(found)
                    if ids.sha256_hex(text) != text_sha256 or blob_sha256 not in known
                ]
    return looked.result


def _offsets_true(run: CheckRun) -> CheckResult:
    looked, tables = Looked(), ("documents", "chunks")
    columns = ["chunk_id", "doc_id", "start", "end", "text"]
    for namespace, source_id in run.sources:
        with _looking(run, namespace, source_id, "offsets_true", tables, looked) as scope:
            for at in parts_of(scope, *tables):
                read = partial(read_published, run.workspace, namespace, source_id, buckets=at)
                by_id = dict(rows_of(read("documents", columns=["doc_id", "text"])))
                found = read("chunks", columns=columns)
                looked.rows += found.num_rows
                looked.broken += [
                    chunk_id
                    for chunk_id, doc_id, start, end, text in rows_of(found)
                    if by_id.get(doc_id, "")[start:end] != text or not text
                ]
    return looked.result


def _no_broken_links(run: CheckRun) -> CheckResult:
    looked, tables, opened = Looked(), ("documents", "links"), run.workspace
    shown = Rows()
    for namespace, source_id in run.sources:
        with _looking(run, namespace, source_id, "no_broken_links", tables, looked) as scope:
            # A document that is gone breaks links of others: all of the source, or nothing.
            if scope.buckets(*tables) == frozenset():
                continue
            (entry,) = (e for e in opened.entries_in(namespace, [source_id]))
            versions = scope.versions
            found = broken_links(opened, namespace, entry, versions["documents"], versions["links"])
            looked.rows += opened.tables.count(namespace, source_id, "links", versions["links"])
            looked.broken += [f"{link.doc_id}:{link.start}" for link in found]
            first = found[: SHOWN - len(shown)]
            for link, line in lines_of(opened, namespace, source_id, versions["documents"], first):
                # An erasure does not reach Dagster's storage, so names stand there only if they may.
                document, target = (link.path, link.target) if run.names else (link.doc_id, "")
                shown.append({"document": document, "line": line or 0, "target": target})
    result = looked.result
    return CheckResult(result.passed, {**result.metadata, **({"links": shown} if shown else {})})


def _every_chunk_embedded(run: CheckRun) -> CheckResult:
    looked = Looked()
    for namespace, source_id in run.sources:
        read = partial(read_published, run.workspace, namespace, source_id)
        pointer = run.workspace.catalog.pointers.get(namespace, source_id, "embeddings")
        # In another space every chunk has to be looked at again.
        check = f"every_chunk_embedded.{pointer.applied['space'] if pointer else ''}"
        with _looking(run, namespace, source_id, check, ["chunks"], looked) as scope:
            buckets = scope.buckets("chunks")
            if buckets == frozenset():
                continue
            found = read("chunks", columns=["chunk_id", "sha256"], buckets=buckets)
            vectors = read("embeddings", columns=["sha256"]).column("sha256").combine_chunks()
            held = pc.is_in(found.column("sha256"), value_set=vectors.cast(pa.string()))
            looked.rows += found.num_rows
            looked.broken += found.filter(pc.invert(held)).column("chunk_id").to_pylist()
    return looked.result


# --- observations and the snapshot --------------------------------------------------------------------------


def _quotes_stand(run: CheckRun, *, tier: str) -> CheckResult:
    looked, assets = Looked(), (tier, "documents")
    tables = (*(t.name for t in CHAIN.stage(tier).tables), "documents")
    for namespace, source_id in run.sources:
        with _looking(run, namespace, source_id, f"quotes_stand.{tier}", assets, looked) as scope:
            for at in parts_of(scope, *tables):
                _look_at_quotes(run.workspace, namespace, source_id, tier, at, looked)
    return looked.result


def _look_at_quotes(
    workspace: Workspace, namespace: str, source_id: str, tier: str, at: Sequence[int], looked: Looked
) -> None:
    """Look at the observations in some buckets; those of a project quote documents of other buckets, too."""
    read = partial(read_published, workspace, namespace, source_id)
    found = read(tier, columns=_OBSERVATION_COLUMNS, buckets=at)
    if not found.num_rows:
        return
    looked.rows += found.num_rows
    quoted = set(pc.unique(found.column("doc_id")).to_pylist())
    columns = ["doc_id", "text", "blob_sha256"]
    texts = read("documents", columns=columns, buckets=sorted({ids.doc_bucket(d) for d in quoted}))
    known = {doc_id: (text, blob) for doc_id, text, blob in rows_of(texts) if doc_id in quoted}
    for doc_id, unit, type_, start, start_basis, end, end_basis, first, last, blob in rows_of(found):
        text, blob_now = known.get(doc_id, ("", ""))
        quote = text[first:last]
        ends = ((start, start_basis), (end, end_basis))
        written = all(name in quote for name, basis in ends if basis == Basis.BYTES)
        if blob != blob_now or not quote or not written:
            looked.broken.append(f"{unit} {type_} {first}:{last}")


def _no_orphan_node(run: CheckRun) -> CheckResult:
    looked, asset = Looked(), "entity_snapshots"
    for namespace in run.namespaces:
        with _looking(run, namespace, NAMESPACE, "no_orphan_node", [asset], looked) as scope:
            buckets = scope.buckets("entities")
            read = partial(read_published, run.workspace, namespace, "", asset)
            entities = read("entities", columns=["label", "key"], buckets=buckets)
            looked.rows += entities.num_rows
            if entities.num_rows:
                ends = _ends(run.workspace, namespace, set(entities.column("key").to_pylist()))
                orphans = [node for node in rows_of(entities) if tuple(node) not in ends]
                looked.broken += [f"{label} {key}" for label, key in orphans]
    return looked.result


def _ends(workspace: Workspace, namespace: str, keys: set[str]) -> set[tuple[str, str]]:
    """Return the (label, key) of the ends of relations that have, resolved, one of the keys."""
    read = partial(read_published, workspace, namespace, "", "entity_snapshots")
    names = read("names", columns=["observed_key", "resolved_key"])
    resolved = {observed: key for observed, key in rows_of(names) if key is not None}
    merges = merges_of(read("decisions", columns=list(DECISIONS.names)))
    observed = keys | {key for (_, key), into in merges.items() if into.key in keys}
    observed |= {bare for bare, key in resolved.items() if key in observed}
    found: set[tuple[str, str]] = set()
    for side in ("start", "end"):
        columns = [f"{side}_label", f"{side}_key"]
        relations = read("relations", columns=columns, members=(f"{side}_key", sorted(observed)))
        distinct = relations.select(columns).group_by(columns).aggregate([])
        found |= {(label, resolve_key(label, key, resolved, merges)) for label, key in rows_of(distinct)}
    return found


def _no_edge_without_support(run: CheckRun) -> CheckResult:
    looked, asset = Looked(), "entity_snapshots"
    columns = ["doc_id", "type", "start_key", "end_key", "run_id", "blob_sha256", "supports"]
    for namespace in run.namespaces:
        with _looking(run, namespace, NAMESPACE, "no_edge_without_support", [asset], looked) as scope:
            # A document's relations lie in its own bucket.
            at = scope.buckets("relations", "doc_state")
            read = partial(read_published, run.workspace, namespace, "", asset, buckets=at)
            live = read("doc_state", columns=["doc_id"]).column("doc_id").combine_chunks()
            found = read("relations", columns=columns)
            held = pc.is_in(found.column("doc_id"), value_set=live.cast(pa.string()))
            for name, empty in (("supports", "[]"), ("run_id", ""), ("blob_sha256", "")):
                held = pc.and_(held, pc.not_equal(found.column(name), empty))
            looked.rows += found.num_rows
            bare = found.filter(pc.invert(held)).select(["doc_id", "type", "start_key", "end_key"])
            looked.broken += [" ".join(row) for row in rows_of(bare)]
    return looked.result


# --- what is served -----------------------------------------------------------------------------------------


def _serves_newest_snapshot(run: CheckRun, *, stage: str) -> CheckResult:
    behind = [n for n in run.namespaces if not CHAIN.serving[stage].applied(run.workspace, n)]
    target = CHAIN.targets.get(stage)
    metadata: dict[str, Any] = {
        "configured": target is None or target.configured(run.workspace),
        "namespaces": len(run.namespaces),
    }
    if behind:
        metadata["behind"] = behind
        metadata["remedy"] = (
            f"Materialize {stage} for any source of the namespace; `taboot audit` says what differs."
        )
    return CheckResult(not behind, metadata)


def _knowledge_bases(run: CheckRun) -> Iterator[tuple[str, KnowledgeBase]]:
    """Those of the namespaces for which something was published."""
    from taboot_pipelines.retrieval import KnowledgeBase

    for namespace in run.namespaces:
        try:
            yield namespace, KnowledgeBase.open(namespace=namespace, settings=run.workspace.settings)
        except TabootError as error:
            if error.code != "E_KB_UNINITIALIZED":
                raise


def _no_drift(run: CheckRun) -> CheckResult:
    from taboot_pipelines.stages.notifications import note_drift

    found: list[DriftItem] = []
    for namespace, kb in _knowledge_bases(run):
        here = [item for item in kb.drift().items if not item.record]
        note_drift(
            run.workspace, namespace, {ids.digest(item.kind, item.key, item.statement) for item in here}
        )
        found += here
    metadata: dict[str, Any] = {"drifts": len(found), **Counter(item.kind for item in found)}
    if found:
        metadata["edges"] = Rows([_drift_row(item, run.names) for item in found[:SHOWN]])
    return CheckResult(not found, metadata)


def _drift_row(item: DriftItem, names: bool) -> dict[str, str]:
    """A drift by the command that shows it, and by the ids of its edges, or else of its documents: an erasure
    does not reach Dagster's storage, so names stand there only if they may, and then in front."""
    said, against = [*(next(iter(side.edge_ids), side.doc_id) for side in item.sides), ""][:2]
    row = {
        "kind": item.kind,
        "shown_by": f"taboot drift --kind {item.kind}",
        "edge": said,
        "against": against,
    }
    stands = ", ".join(f"{side.url}:{side.line}" for side in item.sides)
    return {"statement": item.statement, "stands": stands, **row} if names else row


def _rules_hold(run: CheckRun) -> CheckResult:
    rows = [row for namespace, kb in _knowledge_bases(run) for row in _broken_rules(run, namespace, kb)]
    counts = {s.value: sum(r["found"] for r in rows if r["severity"] == s) for s in Severity}
    return CheckResult(not counts["error"], {**counts, **({"rules": Rows(rows)} if rows else {})})


def _broken_rules(run: CheckRun, namespace: str, kb: KnowledgeBase) -> list[dict[str, Any]]:
    """A row for each rule that does not hold, with the command that shows it, and of its first finding the id
    of the edge or document: an erasure would not reach names, so the sentence and its place stand there only
    if they may. What was published or decided before is not looked at again for a day."""
    file = run.workspace.settings.sources_file
    decided = file.read_bytes() if file.is_file() else b""
    seen = ids.digest(kb.manifest.model_dump_json(), ids.sha256_hex(decided), str(run.names))
    columns = (*_RULE_COLUMNS, *(("statement", "stands") if run.names else ()))
    catalog, now = run.workspace.catalog.pointers, time.time()
    known = catalog.get(namespace, NAMESPACE, _RULES)
    fresh = known is not None and known.inputs == seen and 0 <= now - known.applied["at"] < WHOLE_SECONDS
    if known is not None and fresh and not run.whole:
        return [dict(zip(columns, row, strict=True)) for row in known.applied["rows"]]
    report = kb.rules(limit=MAX_FINDINGS)
    first = {f.rule: f for f in reversed(report.findings)}
    rows = []
    for r in sorted(report.rules, key=lambda r: list(Severity).index(r.severity)):
        if r.found:
            finding = first[r.name]
            cite = finding.citations[0]
            row = (r.severity.value, r.name, r.found, r.remedy, f"taboot rules --rule {r.name}")
            named = (
                (f"{finding.subject}: {finding.statement}", f"{cite.url}:{cite.line}") if run.names else ()
            )
            rows.append((*row, cite.edge_id or cite.doc_id, *named))
    applied = {"at": now, "rows": rows}
    catalog.publish(
        namespace, NAMESPACE, Pointer(stage=_RULES, tables={}, inputs=seen, txn=seen, applied=applied)
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]


_RULE_COLUMNS = ("severity", "rule", "found", "remedy", "shown_by", "first")
_RULES = "check.rules_hold"
_OF_STAGES = (
    Check(
        "raw_blobs",
        "ledger_adds_up",
        "discovered = fetched + not modified + skipped + failed, for the last fetch.",
        _ledger_adds_up,
    ),
    Check(
        "raw_blobs",
        "no_deletes_held",
        "No deletions wait for a person (E_MASS_DELETE). Adds and edits went on.",
        _no_deletes_held,
        warns=True,
    ),
    Check(
        "crawl_graph",
        "crawl_ledgers_add_up",
        "Of every crawl: discovered = fetched + not modified + skipped + failed, each with a reason.",
        _crawl_ledgers_add_up,
    ),
    Check(
        "crawl_graph",
        "crawl_completed",
        "The last crawl of each source came to its end, and every page it knows answered.",
        _crawl_completed,
        warns=True,
    ),
    Check(
        "documents",
        "lead_to_blobs",
        "Each document's text is as it was parsed, from a blob that the catalog knows.",
        _lead_to_blobs,
    ),
    Check(
        "chunks",
        "offsets_true",
        "document[start:end] is the chunk's text, in code points, for every chunk.",
        _offsets_true,
        blocking=True,
        also_of=("documents",),
    ),
    Check(
        "links",
        "no_broken_links",
        "Links within a source lead to something that is there.",
        _no_broken_links,
        warns=True,
        also_of=("documents",),
    ),
    Check(
        "embeddings",
        "every_chunk_embedded",
        "Every chunk's text has a vector of the space in force.",
        _every_chunk_embedded,
        blocking=True,
        also_of=("chunks",),
    ),
    *(
        Check(
            stage.name,
            "quotes_stand",
            "Every observation quotes its document as it is now, and the quote holds the names taken from"
            " it.",
            partial(_quotes_stand, tier=stage.name),
        )
        for stage in CHAIN.stages
        if stage.observes
    ),
    Check(
        "entity_snapshots",
        "no_orphan_node",
        "Every entity is an end of some relation, after names are resolved.",
        _no_orphan_node,
        blocking=True,
    ),
    Check(
        "entity_snapshots",
        "no_edge_without_support",
        "Every relation has a run and supporting spans, in a document that is live.",
        _no_edge_without_support,
        blocking=True,
    ),
    *(
        Check(
            stage,
            "serves_newest_snapshot",
            f"What readers get from {serving.store} is the newest snapshot of each namespace, or it is a"
            " server that is not configured.",
            partial(_serves_newest_snapshot, stage=stage),
            warns=True,
        )
        for stage, serving in CHAIN.serving.items()
    ),
    Check(
        "kb_shards",
        "no_drift",
        "Text and configuration, and configurations among themselves, agree on images, versions, ports,"
        " addresses, host names, networks, settings and upstreams; `taboot drift` shows what does not, and so"
        " does this table with TABOOT_METADATA_TEXT."
        " Mails, chats and reports of a day are not counted.",
        _no_drift,
        warns=True,
    ),
    Check(
        "kb_shards",
        "rules_hold",
        "No rule of the house finds an error that nobody silenced; what is no error is counted. `taboot"
        " rules` shows what it found, and this table the first of each with TABOOT_METADATA_TEXT.",
        _rules_hold,
        warns=True,
    ),
)
_ORDER = {name: number for number, name in enumerate(CHAIN.names)}
#: Every check that belongs to an ingest, in the chain's order: those of this module, and those that a stage
#: brings itself.
CHECKS = tuple(
    sorted(
        (*_OF_STAGES, *(check for stage in CHAIN.stages for check in stage.checks)),
        key=lambda check: _ORDER[check.stage],
    )
)
