"""crawl_graph: the ROOT, URL and Lead graph of each crawl of a source, and its ledger.

The rows stand in the catalog, where the crawl itself writes them: a copy of them in tables would be a second
place that an erasure has to empty, would lag behind a crawl that runs, and would be written anew whenever one
page of it is done. So this stage publishes no table. It keeps the history bounded, takes out what was erased,
and says what the last crawl came to; readers ask :class:`CrawlGraph`. Neo4j gets the same graph by
``neo4j_subgraph``.

Crawls are history: rule ``incremental-equals-scratch`` does not cover them. Holds rules
``nothing-lost-silently`` and ``deleted-stays-deleted``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.crawl import graph
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model import ids
from taboot_pipelines.model.crawl_graph import BROKEN_SCHEMA, LEDGER_SCHEMA, CrawlProgress
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.catalog import Catalog
from taboot_pipelines.stores.tables import NAMESPACE

STAGE = "crawl_graph"
#: The pointer that says which crawls Neo4j has (:mod:`taboot_pipelines.stages.crawl_nodes`).
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
