"""Crawls in Neo4j: written whole, read back for an audit, and dropped.

A crawl is written anew where it changed: its nodes are few, and what a crawl no longer has goes with it.
``http_type + name`` of each node can be asked for, and every query of the tests' ``crawl_queries.py`` works.
A Lead goes from a page to the pages one step deeper that it leads to: links back and across, of which a
navigation bar makes thousands, would let the query for the picture of a crawl walk every way through the
site. All links are in the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from taboot_pipelines.stores.graph import cypher
from taboot_pipelines.stores.graph.cypher import Statement

K = TypeVar("K")

#: About how many bytes a URL node takes in a transaction.
_NODE_BYTES = 500
_LEAD_BYTES = 100

#: A Lead by its ends: the ``url_id`` of a page, or the crawl id of a ROOT, and the ``url_id`` of a page.
Lead = tuple[str, str]
#: The properties of a node, its times in microseconds.
Node = Mapping[str, Any]


class _Run(Protocol):
    """Runs one statement in a transaction and returns its rows."""

    def __call__(
        self, namespace: str, statement: Statement, *, write: bool, **parameters: Any
    ) -> list[Any]: ...


class _Stream(Protocol):
    """Yields the rows of a statement as the server finds them."""

    def __call__(
        self, namespace: str, statement: Statement, **parameters: Any
    ) -> Iterator[Mapping[str, Any]]: ...


class _Write(Protocol):
    """Runs the statement of each kind over rows (kind, parameters, bytes) in batches; how many were done."""

    def __call__(
        self, namespace: str, rows: Iterable[tuple[K, Any, int]], statement: Callable[[K], Statement]
    ) -> int: ...


class _Repeat(Protocol):
    """Runs a statement that deletes at most ``$limit`` rows until it finds none."""

    def __call__(self, namespace: str, statement: Statement, **parameters: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class CrawlContent:
    """A crawl as it should stand in Neo4j: its ROOT, its URL nodes, and which leads to which.

    ``urls`` and ``leads`` may be read once; ``fingerprint`` changes with any of it.
    """

    crawl_id: str
    fingerprint: str
    root: Node
    urls: Iterable[Node]
    leads: Iterable[Lead]


class CrawlNodes:
    """The crawls of all namespaces in one database; every method is about one of them, and raises as those of
    the graph do.
    """

    def __init__(self, run: _Run, stream: _Stream, write: _Write, repeat: _Repeat) -> None:
        self._run, self._stream, self._write, self._repeat = run, stream, write, repeat

    def written(self, namespace: str) -> dict[str, str]:
        """{id of a crawl: fingerprint} as the server has it; an empty one was not written to its end."""
        rows = self._run(namespace, cypher.roots(), write=False)
        return {row["crawl_id"]: row["fingerprint"] for row in rows}

    def write(self, namespace: str, crawl: CrawlContent) -> tuple[int, int]:
        """Write a crawl, whatever the server has of it; returns the numbers of its URL nodes and Leads."""
        self.drop(namespace, crawl.crawl_id)
        root = [("ROOT", _row("created_at", crawl.crawl_id, crawl.root), _NODE_BYTES)]
        self._write(namespace, root, lambda _: cypher.merge_roots())
        urls = self._write(
            namespace,
            (("URL", _row("claimed_at", url["url_id"], url), _NODE_BYTES) for url in crawl.urls),
            lambda _: cypher.merge_urls(),
        )
        leads = self._write(
            namespace,
            ((s == crawl.crawl_id, {"s": s, "e": e}, _LEAD_BYTES) for s, e in crawl.leads),
            cypher.merge_leads,
        )
        done = [("ROOT", {"i": crawl.crawl_id, "f": crawl.fingerprint}, 100)]
        self._write(namespace, done, lambda _: cypher.finish())
        return urls, leads

    def drop(self, namespace: str, crawl_id: str) -> None:
        """Delete a crawl, some nodes at a time; the ROOT, which says that something is left, comes last."""
        marked = [("ROOT", crawl_id, 100)]
        self._write(namespace, marked, lambda _: cypher.unfinish())
        self._repeat(namespace, cypher.drop_urls(), crawl=crawl_id)
        self._repeat(namespace, cypher.drop_roots(), crawl=crawl_id)

    def drop_all(self, namespace: str) -> None:
        """Delete every crawl of the namespace."""
        for crawl_id in sorted({*self.written(namespace), *self.strays(namespace)}):
            self.drop(namespace, crawl_id)

    def strays(self, namespace: str) -> set[str]:
        """The ids of crawls that URL nodes of the namespace name; every such node is looked at."""
        rows = self._run(namespace, cypher.crawls_of_urls(), write=False)
        return {str(row["crawl_id"]) for row in rows if row["crawl_id"] is not None}

    def root(self, namespace: str, crawl_id: str) -> Node | None:
        """The ROOT of a crawl as the server has it."""
        rows = self._run(namespace, cypher.read_root(), write=False, crawl=crawl_id)
        return dict(rows[0]["node"]) if rows else None

    def urls(self, namespace: str, crawl_id: str) -> Iterator[Node]:
        """The URL nodes of a crawl as the server has them, in no order."""
        for row in self._stream(namespace, cypher.read_urls(), crawl=crawl_id):
            yield dict(row["node"])

    def leads(self, namespace: str, crawl_id: str) -> Iterator[Lead]:
        """The Leads of a crawl as the server has them, in no order."""
        for row in self._stream(namespace, cypher.read_leads(), crawl=crawl_id):
            yield str(row["start"]), str(row["end"])


def _row(time: str, key: str, node: Node) -> dict[str, Any]:
    """The parameters of a node; a time is made by the server, of microseconds."""
    properties = {k: v for k, v in node.items() if v is not None and k != time}
    return {"i": key, "t": node.get(time), "p": properties}
