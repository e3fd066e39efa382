"""The crawls of a namespace in Neo4j, which ``neo4j_subgraph`` keeps beside the graph of the snapshot.

Those whose URLs are kept stand there, and no others: what is forgotten or erased in the catalog goes there
too. A crawl that has not changed since is not asked about; one that has is written anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from taboot_pipelines.crawl import graph as crawl_graph
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model import ids
from taboot_pipelines.model.audit import Discrepancy, Kind
from taboot_pipelines.stages.crawl_graph import NODES_POINTER, CrawlGraph
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog import Pointer
from taboot_pipelines.stores.graph import Neo4jGraph
from taboot_pipelines.stores.graph.crawls import CrawlContent, Lead
from taboot_pipelines.stores.tables import NAMESPACE

VERSION = "2"
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
        self._inputs = ids.digest(VERSION, place, marks)

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
