"""Crawls in a notebook: what each came to, its URLs and links as tables, and a picture.

They are read from the catalog at each call, so that a crawl that goes on shows how far it has come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from taboot_pipelines.crawl.urls import canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.crawl_graph import (
    BROKEN_SCHEMA,
    CRAWL_LEADS_SCHEMA,
    CRAWL_URLS_SCHEMA,
    CRAWLS_SCHEMA,
    CrawlProgress,
)
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode
from taboot_pipelines.retrieval.pictures.picture import Picture
from taboot_pipelines.retrieval.results.base import frame
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.stages.crawl_graph import CrawlGraph

_COUNTS = ("discovered", "fetched", "not_modified", "skipped", "failed", "open")
#: Rows of a table in a notebook.
_MAX_SHOWN = 20
#: URLs of a picture: those nearest to the root.
_MAX_DRAWN = 59


class Crawls:
    """The crawls of a namespace, as ``CrawlList`` and ``CrawlView`` show them."""

    def __init__(self, settings: Settings, namespace: str) -> None:
        self._settings = settings
        self._namespace = namespace

    @contextlib.contextmanager
    def reading(self) -> Iterator[CrawlGraph]:
        """Give what reads the crawls. Raises ``E_KB_UNINITIALIZED`` if there is no catalog, as beside a
        knowledge base that was carried elsewhere.
        """
        from taboot_pipelines.stages.crawl_graph import CrawlGraph
        from taboot_pipelines.stages.health import catalog_exists
        from taboot_pipelines.stages.workspace import Workspace

        if not catalog_exists(self._settings):
            raise TabootError(
                "E_KB_UNINITIALIZED",
                f"There is no catalog under {self._settings.home_dir}; crawls stay with their home.",
                path=str(self._settings.home_dir),
            )
        workspace = Workspace(self._settings)
        try:
            yield CrawlGraph(workspace.catalog, self._namespace)
        finally:
            workspace.close()

    def all(self, source: str | None) -> CrawlList:
        """See ``KnowledgeBase.crawls``."""
        with self.reading() as graph:
            return CrawlList(graph.roots(graph.crawls(source)))

    def one(self, name: str) -> CrawlView:
        """See ``KnowledgeBase.crawl``."""
        with self.reading() as graph:
            return CrawlView(self, graph.find(name))


class CrawlList:
    """Crawls, newest first: the ROOT of each with the sums of its ledger."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        return f"CrawlList({len(self)} crawls)"

    def to_arrow(self) -> pa.Table:
        """One row a crawl, with the columns of ``CRAWLS_SCHEMA``."""
        return self._table

    def to_pandas(self) -> Any:
        return frame(self._table)

    def _repr_html_(self) -> str:
        rows = [
            (
                row["crawl_id"][:8],
                row["source"],
                row["url"],
                _ended(row["state"], row["complete"], row["reason"]),
                row["created_at"].isoformat(timespec="seconds"),
                *(f"{row[name]:,}" for name in _COUNTS),
            )
            for row in self._table.slice(0, _MAX_SHOWN).to_pylist()
        ]
        names = ("crawl", "source", "root", "state", "began", *(n.replace("_", " ") for n in _COUNTS))
        return rendering.table(f"{len(self)} crawls", names, rows)


class CrawlView:
    """One crawl. Its tables are read when they are asked for."""

    def __init__(self, crawls: Crawls, crawl: m.Crawl) -> None:
        self._crawls = crawls
        self._crawl = crawl

    def __repr__(self) -> str:
        return f"CrawlView({self.crawl_id!r}, source={self.source!r}, state={self.state!r})"

    @property
    def crawl_id(self) -> str:
        return self._crawl.crawl_id

    @property
    def source(self) -> str:
        return self._crawl.source_id

    @property
    def state(self) -> str:
        """``RUNNING`` (also while no process works at it), ``COMPLETED`` or ``CANCELLED``, when it was asked
        for.
        """
        return self._crawl.state.value

    @property
    def complete(self) -> bool | None:
        """Whether every page that it knows answered; None while it goes on."""
        return self._crawl.complete

    @property
    def reason(self) -> str:
        """Why it is not complete."""
        return self._crawl.reason

    def root(self) -> pa.Table:
        """One row: the ROOT, with the columns of ``CRAWLS_SCHEMA``."""
        with self._crawls.reading() as graph:
            return pa.concat_tables([CRAWLS_SCHEMA.empty_table(), graph.roots([self._crawl])])

    def urls(self) -> pa.Table:
        """Every URL with what became of it, by depth and key; the columns of ``CRAWL_URLS_SCHEMA``."""
        with self._crawls.reading() as graph:
            parts = [CRAWL_URLS_SCHEMA.empty_table(), *graph.urls(self._crawl)]
        return pa.concat_tables(parts).sort_by([("current_depth", "ascending"), ("key", "ascending")])

    def leads(self) -> pa.Table:
        """Every link between two of its URLs, by page; the columns of ``CRAWL_LEADS_SCHEMA``."""
        with self._crawls.reading() as graph:
            parts = [CRAWL_LEADS_SCHEMA.empty_table(), *graph.leads(self._crawl)]
        return pa.concat_tables(parts).sort_by([("parent", "ascending"), ("child", "ascending")])

    def broken(self) -> pa.Table:
        """The URLs that failed and the pages that lead to them, with the columns of ``BROKEN_SCHEMA``."""
        with self._crawls.reading() as graph:
            return graph.broken(self._crawl).select(BROKEN_SCHEMA.names)

    def ledger(self) -> pa.Table:
        """How many URLs of each depth came to which end, with which code."""
        with self._crawls.reading() as graph:
            return graph.ledger(self._crawl)

    def progress(self) -> CrawlProgress:
        """How far it has come by now."""
        with self._crawls.reading() as graph:
            return graph.progress(graph.find(self.crawl_id))

    def show(self) -> Picture:
        """The ROOT and the URLs nearest to it, each with the link by which it was found, as a picture."""
        root = ("ROOT", "")
        url = self._crawl.plan.roots[0] if self._crawl.plan.roots else ""
        key = canonical_key(parse_url(url)) if url else ""
        nodes, edges = [DrawnNode(*root, url or self.source, start=True)], []
        columns = (self.urls().column(n).to_pylist() for n in ("key", "name", "parent"))
        urls = [row for row in zip(*columns, strict=True) if row[0] != key]
        for own, name, parent in urls[:_MAX_DRAWN]:
            nodes.append(DrawnNode("URL", own, f"/{name.partition('/')[2]}", start=False))
            start = root if parent in (None, key) else ("URL", parent)
            edges.append(DrawnEdge("", start, ("URL", own), told=(("Lead", name),)))
        note = f"{_MAX_DRAWN} of {len(urls):,} URLs are drawn" if len(urls) > _MAX_DRAWN else ""
        return Picture.around(self._caption(), nodes, edges, _MAX_DRAWN, note)

    def _caption(self) -> str:
        ended = _ended(self.state, self.complete, self.reason)
        return f"crawl {self.crawl_id} of {self.source}: {ended}; {self.progress().sentence}"

    def _table(self) -> str:
        ledger = [
            (str(row["depth"]), row["outcome"] or "open", row["code"] or "", f"{row['urls']:,}")
            for row in self.ledger().to_pylist()
        ]
        return rendering.table(self._caption(), ("depth", "outcome", "code", "URLs"), ledger)

    def _repr_html_(self) -> str:
        return self.show().svg + self._table()

    def _ipython_display_(self) -> None:
        rendering.display(self.show(), self._table())


def _ended(state: str, complete: bool | None, reason: str) -> str:
    return f"{state} ({reason})" if complete is False and reason else state
