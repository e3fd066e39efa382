"""crawl_graph: the ROOT, URL and Lead graph of each crawl of a source, and its ledger.

The rows stand in the catalog, where the crawl itself writes them: a copy of them in tables would be a second
place that an erasure has to empty, would lag behind a crawl that runs, and would be written anew whenever one
page of it is done. So this stage publishes no table. It keeps the history bounded, takes out what was erased,
and says what the last crawl came to; readers ask :class:`CrawlGraph`.

Neo4j gets the same graph beside that of the snapshot, by :class:`CrawlWriter` within ``neo4j_subgraph``:
those crawls whose URLs are kept, and no others. What is forgotten or erased in the catalog goes there too. A
crawl that has not changed since is not asked about; one that has is written anew.

Crawls are history: rule ``incremental-equals-scratch`` does not cover them. Holds rules
``nothing-lost-silently`` and ``deleted-stays-deleted``.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.crawl import graph
from taboot_pipelines.crawl import graph as crawl_graph
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model import ids
from taboot_pipelines.model.audit import Discrepancy, Kind
from taboot_pipelines.model.crawl_graph import BROKEN_SCHEMA, LEDGER_SCHEMA, CrawlProgress
from taboot_pipelines.model.crawls import CrawlState
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.graph.crawls import CrawlContent, Lead
from taboot_pipelines.stores.graph.neo4j import Neo4jGraph
from taboot_pipelines.stores.tables import NAMESPACE

STAGE = "crawl_graph"
#: The pointer that says which crawls Neo4j has (:mod:`taboot_pipelines.stages.crawl_graph`).
NODES_POINTER = "neo4j_subgraph.crawls"
VERSION = "2"
#: Crawls that one question is answered from, at most: all that are kept of a namespace, as a rule.
_MAX_CRAWLS = 10_000
#: URLs that failed, in the report of a run.
_SHOWN = 10


class CrawlGraph:
    """The crawls of one namespace, read from the catalog as they stand.

    A crawl is named by its id, by the beginning of it, or by its source, which means the source's last.
    """

    def __init__(self, catalog: Catalog, namespace: str) -> None:
        self._crawls = catalog.crawls
        self._reports = catalog.crawl_reports
        self.namespace = namespace

    def crawls(self, source_id: str | None = None, limit: int = _MAX_CRAWLS) -> list[m.Crawl]:
        """The last crawls, newest first."""
        return self._crawls.find(self.namespace, source_id, limit)

    def find(self, name: str) -> m.Crawl:
        """The crawl that a person means. Raises ``E_NOT_FOUND`` if there is none, or more than one."""
        crawls = self.crawls()
        for crawl in crawls:
            if name in (crawl.crawl_id, crawl.source_id):
                return crawl
        meant = [c for c in crawls if name and c.crawl_id.startswith(name)]
        if len(meant) == 1:
            return meant[0]
        raise TabootError(
            "E_NOT_FOUND",
            f"{'More than one crawl begins with' if meant else 'There is no crawl of'} {name!r} in namespace"
            f" {self.namespace}.",
            remedy="`taboot crawls list` shows the ids of all crawls; a source's id means its last crawl.",
            crawl=name,
        )

    def roots(self, crawls: list[m.Crawl]) -> pa.Table:
        """Rows of ``CRAWLS_SCHEMA`` for these crawls."""
        return graph.crawls_table([self._root(crawl) for crawl in crawls])

    def _root(self, crawl: m.Crawl) -> dict[str, Any]:
        root = graph.root_id(crawl)
        page = None if root is None else self._reports.url(self.namespace, crawl.crawl_id, root)
        return graph.crawl_row(crawl, page, m.totals(self.ledger_rows(crawl)))

    def urls(self, crawl: m.Crawl, state: str | None = None) -> Iterator[pa.Table]:
        """Rows of ``CRAWL_URLS_SCHEMA`` in parts, in the order of their ids."""
        for rows in self._reports.urls(self.namespace, crawl.crawl_id, state):
            yield graph.urls_table([graph.url_row(crawl, row) for row in rows])

    def leads(self, crawl: m.Crawl) -> Iterator[pa.Table]:
        """Rows of ``CRAWL_LEADS_SCHEMA`` in parts, by the ids of the pages."""
        places = self._reports.places(self.namespace, crawl.crawl_id)
        for pages in self._reports.leads(self.namespace, crawl.crawl_id):
            yield graph.leads_of(crawl, pages, places)

    def deeper(self, crawl: m.Crawl) -> Iterator[tuple[bytes, bytes]]:
        """The links from a page to one that lies a step deeper, by their ids; those of a page together."""
        depths = {i: depth for i, (_, depth) in self._reports.places(self.namespace, crawl.crawl_id).items()}
        for pages in self._reports.leads(self.namespace, crawl.crawl_id):
            for page, children in pages:
                if page in depths:
                    below = depths[page] + 1
                    yield from ((page, child) for child in children if depths.get(child) == below)

    def lead_count(self, crawl: m.Crawl) -> int:
        """How many links between two of its URLs were found."""
        return self._reports.lead_count(self.namespace, crawl.crawl_id)

    def broken(self, crawl: m.Crawl) -> pa.Table:
        """Rows of ``BROKEN_SCHEMA``, by URL and by the page that leads there."""
        rows = [row for part in self.urls(crawl, m.UrlState.FAILED.value) for row in part.to_pylist()]
        failed = {bytes.fromhex(row["url_id"]): row for row in rows}
        links = [
            (page, child)
            for pages in (self._reports.leads(self.namespace, crawl.crawl_id) if failed else ())
            for page, children in pages
            for child in children
            if child in failed
        ]
        places = self._reports.places(self.namespace, crawl.crawl_id) if links else {}
        found = [{**failed[child], "parent": places[page][0]} for page, child in links if page in places]
        led = {row["url_id"] for row in found}
        found += [{**row, "parent": None} for row in rows if row["url_id"] not in led]
        found.sort(key=lambda row: (row["url"], row["parent"] or ""))
        return pa.Table.from_pylist(found, schema=BROKEN_SCHEMA)

    def ledger_rows(self, crawl: m.Crawl) -> tuple[m.LedgerRow, ...]:
        """The ledger as it is now, or as it was when the crawl ended."""
        return self._crawls.ledger(self.namespace, crawl.crawl_id)

    def ledger(self, crawl: m.Crawl) -> pa.Table:
        """Rows of ``LEDGER_SCHEMA``."""
        rows = [
            {"crawl_id": crawl.crawl_id, **{n: getattr(r, n) for n in ("depth", "outcome", "code", "urls")}}
            for r in self.ledger_rows(crawl)
        ]
        return pa.Table.from_pylist(rows, schema=LEDGER_SCHEMA)

    def progress(self, crawl: m.Crawl) -> CrawlProgress:
        """How far it has come."""
        return self._reports.progress(self.namespace, crawl)

    def held(self) -> dict[str, int]:
        """{id of a crawl: number of its URLs}, of those whose URLs are still kept."""
        return self._reports.held(self.namespace)

    def fingerprint(self, crawl: m.Crawl, urls: int) -> str:
        """A hash that changes with all that is shown of a crawl. ``urls``: as :meth:`held` has it."""
        # Of a crawl that has ended URLs can only be forgotten.
        running = crawl.state is m.CrawlState.RUNNING
        marks = self._reports.marks(self.namespace, crawl.crawl_id) if running else ()
        return ids.digest(
            *(VERSION, crawl.crawl_id, crawl.state.value, crawl.ended_at, crawl.complete),
            *(list(crawl.plan.roots), urls, list(marks)),
        )

    def passed_by(self, source_id: str, code: str) -> list[str]:
        """The keys of URLs that the ended crawls of a source passed by with this code."""
        return self._reports.skipped_as(self.namespace, source_id, code)


def by_depth(rows: tuple[m.LedgerRow, ...]) -> list[dict[str, int]]:
    """The ledger, summed by depth: ``depth``, ``discovered``, the outcomes, ``open``."""
    return [
        {"depth": depth, **m.totals([r for r in rows if r.depth == depth])}
        for depth in sorted({r.depth for r in rows})
    ]


def wrong_ledger(crawl: m.Crawl, rows: tuple[m.LedgerRow, ...], urls: int) -> str | None:
    """Why a crawl's ledger does not add up; None if it does. ``urls``: how many of its URLs are kept.

    It may have more than there are URLs now: some were forgotten, or erased.
    """
    counts = m.totals(rows)
    known = sum(counts[outcome] for outcome in m.Outcome) + counts["open"]
    if counts["discovered"] != known:
        return f"{counts['discovered']} were discovered and {known} are accounted for"
    if urls > counts["discovered"]:
        return f"{urls} URLs are known and {counts['discovered']} are in the ledger"
    if crawl.state is m.CrawlState.COMPLETED and counts["open"]:
        return f"it has ended, and {counts['open']} URLs were left"
    bare = sum(r.urls for r in rows if r.outcome in (m.Outcome.SKIPPED, m.Outcome.FAILED) and not r.code)
    return f"{bare} URLs were skipped or failed without a reason" if bare else None


def run(work: SourceWork) -> None:
    """Bound the history of a source's crawls, take out what was erased, and report the last crawl."""
    workspace, report, source_id = work.workspace, work.report, work.source_id
    if not isinstance(work.entry.config, WebSource):
        _nothing(work, f"sources of type {work.entry.config.type} do not crawl")
        return
    if work.entry.retiring and not workspace.catalog.locators.count(work.namespace, source_id):
        # Here already, so that Neo4j, which comes later in the run, does not keep them.
        workspace.catalog.crawls.forget_source(work.namespace, source_id)
    graph_of = CrawlGraph(workspace.catalog, work.namespace)
    crawls = graph_of.crawls(source_id)
    if not crawls:
        _nothing(work, "no crawl has begun")
        return
    forgotten = workspace.catalog.crawls.forget_old(
        work.namespace, source_id, workspace.settings.retention.crawls
    )
    erased = _forget_erased(workspace, work.entry, graph_of)
    held = graph_of.held()
    inputs = ids.digest(
        STAGE, VERSION, [graph_of.fingerprint(c, held[c.crawl_id]) for c in crawls if c.crawl_id in held]
    )
    last = crawls[0]
    if work.unchanged(inputs):
        return
    rows = graph_of.ledger_rows(last)
    report.counts |= m.totals(rows)
    report.counts |= {
        "fresh": m.fresh_urls(rows),
        "crawls": sum(c.crawl_id in held for c in crawls),
        "crawls_forgotten": forgotten,
        "urls_erased": erased,
        "roots": 1,
        "urls": held.get(last.crawl_id, 0),
        "leads": graph_of.lead_count(last),
    }
    report.counts["total"] = report.counts["urls"]
    report.ledger = [{"crawl": last.crawl_id[:8], **row} for row in by_depth(rows)]
    for row in graph_of.broken(last).slice(0, _SHOWN).to_pylist():
        report.sample.append({"path": row["url"], "code": row["code"], "status": row["http_status"]})
    work.publish(inputs, tables={}, applied={"crawl": last.crawl_id})


def _nothing(work: SourceWork, reason: str) -> None:
    """Say why there is no crawl; again only if there is another reason."""
    inputs = ids.digest(STAGE, VERSION, reason)
    if not work.unchanged(inputs):
        work.publish(inputs, tables={}, applied={})
        work.report.skipped = f"skipped: {reason}"


def _forget_erased(workspace: Workspace, entry: Entry, graph_of: CrawlGraph) -> int:
    """Take the URLs of erased documents out of crawls that have ended; a later crawl may have met them again
    on other pages. Returns their number.
    """
    tombstones = workspace.catalog.tombstones.all(entry.namespace)
    erased = {doc_id for doc_id, row in tombstones.items() if row["reason"] == "erased"}
    if not erased:
        return 0
    keys = {
        key
        for key in graph_of.passed_by(entry.source_id, "E_TOMBSTONED")
        if ids.doc_id(entry.namespace, ids.locator(entry.source_id, key)) in erased
    }
    forget_urls(workspace, entry.namespace, entry.source_id, keys)
    return len(keys)


def forget_urls(workspace: Workspace, namespace: str, source_id: str, keys: Collection[str]) -> None:
    """Take URLs out of every crawl of a source, by their keys, and out of Neo4j at its next run."""
    if not keys:
        return
    pointers = workspace.catalog.pointers
    nodes = pointers.get(namespace, NAMESPACE, NODES_POINTER)
    if nodes is not None:
        # First, so that a kill in between leaves nothing behind there.
        pointers.publish(namespace, NAMESPACE, replace(nodes, inputs="", txn=""))
    with workspace.catalog.database.publishing(namespace) as connection:
        workspace.catalog.crawls.forget(connection, namespace, source_id, keys)


_log = logging.getLogger(__name__)
#: How often it is looked, at most.
_SECONDS_BETWEEN_LOOKS = 1.0
#: Of its time a watcher spends at most one part in so many looking: a crawl of many pages is looked at less
#: often.
_SHARE = 50


def running_crawls(workspace: Workspace, source_id: str) -> Iterator[CrawlProgress]:
    """How far the crawls of a source have come that have not ended; in two namespaces while it moves."""
    for row in workspace.catalog.sources.find():
        if row["source_id"] == source_id:
            graph = CrawlGraph(workspace.catalog, row["namespace"])
            for crawl in graph.crawls(source_id, limit=1):
                if crawl.state is CrawlState.RUNNING:
                    yield graph.progress(crawl)


@contextlib.contextmanager
def watched(
    opened: Callable[[], Workspace], source_id: str, tell: Callable[[CrawlProgress], None]
) -> Iterator[None]:
    """Tell, from a thread of its own, how far the source's crawl has come while the block runs.

    A catalog that does not answer is no reason to fail what is being watched.
    """
    stop = threading.Event()

    def work() -> None:
        wait = _SECONDS_BETWEEN_LOOKS
        while not stop.wait(wait):
            began = time.monotonic()
            try:
                for progress in running_crawls(opened(), source_id):
                    tell(progress)
            except TabootError as error:
                _log.warning("the crawl could not be looked at", extra={"code": error.code})
            wait = max(_SECONDS_BETWEEN_LOOKS, _SHARE * (time.monotonic() - began))

    thread = threading.Thread(target=work, name="taboot-crawl-watcher", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


NODES_VERSION = "2"
#: The columns of a table that are properties of a node, beside those of the crawl graph.
_ROOT = (
    *("crawl_id", "name", "http_type", "ip", "domain", "requested_depth", "current_depth"),
    *("request_time", "created_at", "source", "state", "complete"),
)
_URL = (
    *("crawl_id", "name", "http_type", "ip", "domain", "job_status", "requested_depth", "current_depth"),
    *("request_time", "attempts", "claimed_at", "url", "code", "http_status", "canonical_url"),
)


class CrawlWriter:
    """Makes the crawls of one namespace in Neo4j equal to those of the catalog. ``place`` names the
    database."""

    def __init__(self, workspace: Workspace, graph: Neo4jGraph, namespace: str, place: str) -> None:
        self._nodes = graph.crawls
        self._ensure_schema = graph.ensure_schema
        self._catalog = workspace.catalog
        self._namespace = namespace
        self._reader = CrawlGraph(workspace.catalog, namespace)
        held = self._reader.held()
        self._wanted = {
            c.crawl_id: (c, self._reader.fingerprint(c, held[c.crawl_id]))
            for c in (self._reader.crawls() if held else [])
            if c.crawl_id in held
        }
        # A crawl that runs changes all the time; it is written again when it has ended, or with another.
        marks = {i: "" if c.state is m.CrawlState.RUNNING else f for i, (c, f) in self._wanted.items()}
        self._inputs = ids.digest(NODES_VERSION, place, marks)

    def unchanged(self) -> bool:
        """Whether the server has these crawls, as far as the catalog knows."""
        pointer = self._catalog.pointers.get(self._namespace, NAMESPACE, NODES_POINTER)
        return not self._wanted if pointer is None else pointer.inputs == self._inputs

    def apply(self, report: StageReport, *, anew: bool = False) -> None:
        """Write what differs, and drop what should not be there; ``anew``: look at every node."""
        self._ensure_schema()
        found = self._nodes.written(self._namespace)
        gone = found.keys() - self._wanted.keys()
        differ = {i for i, (_, f) in self._wanted.items() if found.get(i) != f}
        if anew:
            gone |= self._nodes.strays(self._namespace) - self._wanted.keys()
            differ |= {i for i in self._wanted.keys() - differ if any(self._compare(i))}
        for crawl_id in sorted(gone):
            self._nodes.drop(self._namespace, crawl_id)
            report.add("crawls_deleted")
        for crawl_id in sorted(differ):
            urls, leads = self._nodes.write(self._namespace, self._content(crawl_id))
            report.add("crawls_written")
            report.add("nodes_written", urls + 1)
            report.add("edges_written", leads)
        self._catalog.pointers.publish(
            self._namespace,
            NAMESPACE,
            Pointer(stage=NODES_POINTER, tables={}, inputs=self._inputs, txn=self._inputs, applied={}),
        )

    def audit(self) -> Iterator[Discrepancy]:
        """Yield every difference between the crawls in Neo4j and those of the catalog."""
        found = self._nodes.written(self._namespace)
        for crawl_id in sorted((found.keys() | self._nodes.strays(self._namespace)) - self._wanted.keys()):
            yield _discrepancy("surplus", f"ROOT {crawl_id}", "The crawl is in Neo4j and not in the catalog.")
        for crawl_id, (crawl, fingerprint) in sorted(self._wanted.items()):
            if found.get(crawl_id) != fingerprint and crawl.state is m.CrawlState.RUNNING:
                continue
            if crawl_id not in found:
                yield _discrepancy("missing", f"ROOT {crawl_id}", "The crawl is not in Neo4j.")
            elif found[crawl_id] != fingerprint:
                yield _discrepancy("different", f"ROOT {crawl_id}", "The crawl in Neo4j is an older one.")
            else:
                yield from self._compare(crawl_id)

    # --- what should be there -------------------------------------------------------------------------------

    def _content(self, crawl_id: str) -> CrawlContent:
        crawl, fingerprint = self._wanted[crawl_id]
        return CrawlContent(crawl_id, fingerprint, self._root(crawl), self._urls(crawl), self._leads(crawl))

    def _root(self, crawl: m.Crawl) -> dict[str, Any]:
        (row,) = _rows(self._reader.roots([crawl]))
        return {name: row[name] for name in _ROOT}

    def _urls(self, crawl: m.Crawl) -> Iterator[dict[str, Any]]:
        """The nodes; the root's own page is the ROOT."""
        root = crawl_graph.root_id(crawl)
        for part in self._reader.urls(crawl):
            for row in _rows(part):
                if root is None or row["url_id"] != root.hex():
                    yield {"url_id": _node_id(crawl, row["url_id"]), **{name: row[name] for name in _URL}}

    def _leads(self, crawl: m.Crawl) -> Iterator[Lead]:
        """From each page to those one step deeper; from the ROOT also to what was listed beside it."""
        root = crawl_graph.root_id(crawl)
        for page, child in self._reader.deeper(crawl):
            start = crawl.crawl_id if page == root else _node_id(crawl, page.hex())
            yield start, _node_id(crawl, child.hex())
        for url in self._urls(crawl):
            if url["current_depth"] == 0:
                yield crawl.crawl_id, url["url_id"]

    def _compare(self, crawl_id: str) -> Iterator[Discrepancy]:
        crawl, fingerprint = self._wanted[crawl_id]
        root = {**_plain(self._root(crawl)), "namespace": self._namespace, "fingerprint": fingerprint}
        if self._nodes.root(self._namespace, crawl_id) != root:
            yield _discrepancy("different", f"ROOT {crawl_id}", "The ROOT in Neo4j is not the crawl's.")
        wanted = {row["url_id"]: ids.digest(_plain(row)) for row in self._urls(crawl)}
        for node in self._nodes.urls(self._namespace, crawl_id):
            node_id = str(node.get("url_id"))
            digest = wanted.pop(node_id, None)
            if digest is None:
                yield _discrepancy("surplus", f"URL {node_id}", "The URL is in Neo4j and not in the crawl.")
            elif digest != ids.digest({k: v for k, v in _plain(node).items() if k != "namespace"}):
                yield _discrepancy("different", f"URL {node_id}", "The URL in Neo4j is not the crawl's.")
        for node_id in sorted(wanted):
            yield _discrepancy("missing", f"URL {node_id}", "The URL of the crawl is not in Neo4j.")
        leads = set(self._leads(crawl))
        there = set(self._nodes.leads(self._namespace, crawl_id))
        for start, end in sorted(leads - there):
            yield _discrepancy("missing", f"Lead {start} {end}", "A Lead of the crawl is not in Neo4j.")
        for start, end in sorted(there - leads):
            yield _discrepancy("surplus", f"Lead {start} {end}", "A Lead in Neo4j is not the crawl's.")


def _node_id(crawl: m.Crawl, url_id: str) -> str:
    return f"{crawl.crawl_id}:{url_id}"


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table, times as microseconds."""
    plain = pa.schema(
        [(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
    )
    rows: list[dict[str, Any]] = table.cast(plain).to_pylist()
    return rows


def _plain(node: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that a node has: Neo4j keeps no nulls."""
    return {k: v for k, v in node.items() if v is not None}


def _discrepancy(kind: Kind, item: str, message: str) -> Discrepancy:
    return Discrepancy("neo4j", kind, item, message, repairable=True)
