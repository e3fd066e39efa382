"""Every Cypher statement about crawls: ROOT and URL nodes, and the Lead relationships of a crawl.

These nodes have labels of their own and carry ``namespace`` and ``crawl_id``; no other statement reads or
writes them, and these read and write no other nodes. A URL node is found by ``url_id``, which begins with its
crawl's id. A ROOT without a ``fingerprint`` belongs to a crawl that was not written to its end.
"""

from __future__ import annotations

from functools import cache

from taboot_pipelines.stores.graph.cypher import Statement, as_datetime, as_micros


@cache
def roots() -> Statement:
    return Statement(
        "MATCH (r:ROOT) WHERE r.namespace = $namespace RETURN r.crawl_id AS crawl_id,"
        " coalesce(r.fingerprint, '') AS fingerprint"
    )


@cache
def merge_roots() -> Statement:
    """{i: crawl id, p: properties, t: created_at in microseconds}."""
    return Statement(
        "UNWIND $rows AS row WITH row, row.p AS p MERGE (r:ROOT {crawl_id: row.i}) SET r = p {.*, namespace:"
        f" $namespace, crawl_id: row.i, created_at: {as_datetime('row.t')}}} RETURN count(*) AS done"
    )


@cache
def merge_urls() -> Statement:
    """{i: url_id, p: properties, t: claimed_at in microseconds}."""
    return Statement(
        "UNWIND $rows AS row WITH row, row.p AS p MERGE (u:URL {url_id: row.i}) SET u = p {.*, namespace:"
        f" $namespace, url_id: row.i, claimed_at: {as_datetime('row.t')}}} RETURN count(*) AS done"
    )


@cache
def merge_leads(from_root: bool) -> Statement:
    """{s: url_id of the page, or the crawl id of a ROOT, e: url_id}."""
    start = "(a:ROOT {crawl_id: row.s})" if from_root else "(a:URL {url_id: row.s})"
    return Statement(
        f"UNWIND $rows AS row MATCH {start} MATCH (b:URL {{url_id: row.e}}) WHERE a.namespace = $namespace"
        " AND b.namespace = $namespace MERGE (a)-[:Lead]->(b) RETURN count(*) AS done"
    )


@cache
def finish() -> Statement:
    return Statement(
        "UNWIND $rows AS row MATCH (r:ROOT {crawl_id: row.i}) WHERE r.namespace = $namespace SET"
        " r.fingerprint = row.f RETURN count(*) AS done"
    )


@cache
def unfinish() -> Statement:
    return Statement(
        "UNWIND $rows AS id MATCH (r:ROOT {crawl_id: id}) WHERE r.namespace = $namespace REMOVE r.fingerprint"
        " RETURN count(*) AS done"
    )


@cache
def read_root() -> Statement:
    return Statement(
        "MATCH (r:ROOT {crawl_id: $crawl}) WHERE r.namespace = $namespace RETURN r {.*, created_at:"
        f" {as_micros('r.created_at')}}} AS node"
    )


@cache
def read_urls() -> Statement:
    return Statement(
        "MATCH (u:URL {crawl_id: $crawl}) WHERE u.namespace = $namespace RETURN u {.*, claimed_at:"
        f" {as_micros('u.claimed_at')}}} AS node"
    )


@cache
def read_leads() -> Statement:
    return Statement(
        "MATCH (a)-[:Lead]->(b:URL {crawl_id: $crawl}) WHERE b.namespace = $namespace RETURN"
        " coalesce(a.url_id, a.crawl_id) AS start, b.url_id AS end"
    )


@cache
def crawls_of_urls() -> Statement:
    return Statement("MATCH (u:URL) WHERE u.namespace = $namespace RETURN DISTINCT u.crawl_id AS crawl_id")


@cache
def drop_urls() -> Statement:
    return Statement(
        "MATCH (u:URL {crawl_id: $crawl}) WHERE u.namespace = $namespace WITH u LIMIT $limit DETACH DELETE u"
        " RETURN count(*) AS done"
    )


@cache
def drop_roots() -> Statement:
    return Statement(
        "MATCH (r:ROOT {crawl_id: $crawl}) WHERE r.namespace = $namespace WITH r LIMIT $limit DETACH DELETE r"
        " RETURN count(*) AS done"
    )
