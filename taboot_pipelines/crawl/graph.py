"""The crawl graph: a crawl and its URLs with their properties.

A crawl has one ROOT, named by the first URL that it was given; that URL's own page is
the ROOT and no URL node. Other URLs that were listed are URL nodes at depth 0, and the ROOT leads to them.
``name`` is the canonical key without its scheme: scheme and host in upper case, path
and query as they are, since servers tell them apart; the ``/`` of an empty path is left out. So
``http_type + name`` can be asked for. ``domain`` is the registrable domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from taboot_pipelines.crawl.domains import registrable_domain
from taboot_pipelines.crawl.urls import canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.crawl_graph import CRAWL_LEADS_SCHEMA, CRAWL_URLS_SCHEMA, CRAWLS_SCHEMA


def node_name(url: str) -> tuple[str, str]:
    """(``http_type``, ``name``) of an absolute URL, its fragment left out.

    >>> node_name("https://example.com:8443/Path?q=a")
    ('HTTPS://', 'EXAMPLE.COM:8443/Path?q=a')
    """
    scheme, mark, rest = url.partition("#")[0].partition("://")
    if not mark:
        return "", url
    authority, slash, path = rest.partition("/")
    if not slash:
        # A query may follow the host itself.
        authority, question, query = rest.partition("?")
        slash, path = question, query
    tail = "" if slash == "/" and not path else slash + path
    return f"{scheme.upper()}://", authority.upper() + tail


def request_time(seconds: float | None) -> str | None:
    """A duration as the graph has it: ``"1.234s"``."""
    return None if seconds is None else f"{seconds:.3f}s"


def root_id(crawl: m.Crawl) -> bytes | None:
    """The id of the URL that is the crawl's ROOT; None if the crawl was given none that is a URL."""
    try:
        return m.url_id(canonical_key(parse_url(crawl.plan.roots[0])))
    except (IndexError, TabootError):
        return None


def crawl_row(crawl: m.Crawl, page: Mapping[str, Any] | None, counts: Mapping[str, int]) -> dict[str, Any]:
    """A row of ``CRAWLS_SCHEMA``: the ROOT. ``page``: the row of its own page in ``crawl_url``, if it has
    one; ``counts``: the sums of the ledger.
    """
    url = crawl.plan.roots[0] if crawl.plan.roots else ""
    http_type, name = node_name(url if page is None else page["key"])
    return {
        "crawl_id": crawl.crawl_id,
        "name": name,
        "http_type": http_type,
        "ip": None if page is None else page["ip"],
        "domain": domain(name),
        "requested_depth": crawl.plan.requested_depth,
        "current_depth": 0,
        "request_time": None if page is None else request_time(page["request_seconds"]),
        "created_at": crawl.started_at,
        "source": crawl.source_id,
        "number": crawl.number,
        "url": url,
        "state": crawl.state.value,
        "ended_at": crawl.ended_at,
        "complete": crawl.complete,
        "reason": crawl.reason,
        "strategy": crawl.plan.strategy.value,
        "max_pages": crawl.plan.max_pages,
        **counts,
    }


def url_row(crawl: m.Crawl, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of ``CRAWL_URLS_SCHEMA``, of a row of ``crawl_url`` with ``parent`` and ``parent_seconds``."""
    http_type, name = node_name(row["key"])
    return {
        "crawl_id": crawl.crawl_id,
        "name": name,
        "http_type": http_type,
        "ip": row["ip"],
        "domain": domain(name),
        "job_status": row["state"],
        "requested_depth": crawl.plan.requested_depth,
        "current_depth": row["depth"],
        "request_time": request_time(row["parent_seconds"]),
        "attempts": row["attempts"],
        "claimed_at": row["claimed_at"],
        "url_id": row["url_id"].hex(),
        "key": row["key"],
        "url": row["url"],
        "parent": row["parent"],
        "outcome": row["outcome"],
        "code": row["code"],
        "message": row["message"],
        "http_status": row["http_status"],
        "seconds": row["request_seconds"],
        "score": row["score"],
        "answered_at": row["answered_at"],
        "canonical_url": row["canonical"],
    }


def leads_of(
    crawl: m.Crawl,
    pages: Iterable[tuple[bytes, Sequence[bytes]]],
    places: Mapping[bytes, tuple[str, int]],
) -> pa.Table:
    """Rows of ``CRAWL_LEADS_SCHEMA``, in the order of the pages and of the links on them.

    ``pages``: the id of each with those of the URLs it links to; ``places``: the key and depth of each URL. A
    link from or to a URL without a place (it was erased) is left out.
    """
    columns: tuple[list[Any], ...] = ([], [], [], [], [], [])
    for parent_id, children in pages:
        parent = places.get(parent_id)
        if parent is None:
            continue
        for child_id in children:
            child = places.get(child_id)
            if child is not None:
                values = (parent[0], child[0], parent_id.hex(), child_id.hex(), parent[1], child[1])
                for column, value in zip(columns, values, strict=True):
                    column.append(value)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, list(CRAWL_LEADS_SCHEMA)[1:], strict=True)]
    crawl_ids = pa.array([crawl.crawl_id] * len(columns[0]), pa.string())
    return pa.Table.from_arrays([crawl_ids, *arrays], schema=CRAWL_LEADS_SCHEMA)


def crawls_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of :func:`crawl_row` as a table."""
    return _table(rows, CRAWLS_SCHEMA)


def urls_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of :func:`url_row` as a table."""
    return _table(rows, CRAWL_URLS_SCHEMA)


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    raw = pa.schema([(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema])
    return pa.Table.from_pylist(list(rows), schema=raw).cast(schema)


def domain(name: str) -> str:
    """The registrable domain of a node's ``name``; the host itself where it has none (an address, a name of
    the house).
    """
    authority = name.partition("/")[0].partition("?")[0]
    host = (authority if authority.endswith("]") else authority.rpartition(":")[0] or authority).lower()
    return registrable_domain(host) or host
