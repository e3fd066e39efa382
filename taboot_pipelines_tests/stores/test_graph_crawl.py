"""Every example query of the crawl graph, on two small crawls, with the numbers that
a person counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import neo4j
import pytest

from taboot_pipelines.settings import Neo4jSettings
from taboot_pipelines.stores.graph.neo4j import Neo4jGraph
from taboot_pipelines_tests.crawl_queries import CANCEL, CLAIM, LIST_CRAWLS, PROGRESS, STATISTICS, VISUALIZE


class Crawls:
    """A crawl of two levels, and one that has found nothing yet."""

    def __init__(self, driver: neo4j.Driver) -> None:
        self.driver = driver
        self.full, self.empty = uuid.uuid4().hex, uuid.uuid4().hex

    def ask(self, query: str, **parameters: Any) -> list[neo4j.Record]:
        return self.driver.execute_query(query, crawl_id=self.full, **parameters).records

    def make(self) -> None:
        for crawl, name in ((self.full, "EXAMPLE.COM"), (self.empty, "EXAMPLE.ORG")):
            self.driver.execute_query(
                "CREATE (:ROOT {crawl_id: $c, name: $name, http_type: 'HTTPS://', domain: $name,"
                " requested_depth: 2, current_depth: 0, created_at: datetime()})",
                c=crawl,
                name=name,
            )
        self.ask("""
            MATCH (r:ROOT {crawl_id: $crawl_id})
            UNWIND [['A', 'COMPLETED', 'EXAMPLE.COM'], ['B', 'PENDING', 'EXAMPLE.COM'],
                    ['C', 'FAILED', 'OTHER.NET']] AS row
            CREATE (r)-[:Lead]->(:URL {crawl_id: $crawl_id, name: row[0], job_status: row[1], domain: row[2],
                    http_type: 'HTTPS://', requested_depth: 2, current_depth: 1, attempts: 0})
        """)
        self.ask("""
            MATCH (a:URL {crawl_id: $crawl_id, name: 'A'})
            UNWIND ['D', 'E'] AS name
            CREATE (a)-[:Lead]->(:URL {crawl_id: $crawl_id, name: name, job_status: 'COMPLETED',
                    domain: 'EXAMPLE.COM', http_type: 'HTTPS://', requested_depth: 2, current_depth: 2})
        """)


@pytest.fixture
def crawls(neo4j_url: str) -> Iterator[Crawls]:
    graph = Neo4jGraph(Neo4jSettings(url=neo4j_url))
    graph.ensure_schema()
    graph.close()
    with neo4j.GraphDatabase.driver(neo4j_url, auth=None) as driver:
        made = Crawls(driver)
        made.make()
        yield made
        driver.execute_query(
            "MATCH (n) WHERE (n:ROOT OR n:URL) AND n.crawl_id IN $ids DETACH DELETE n",
            ids=[made.full, made.empty],
        )


def test_every_example_query_counts_right(crawls: Crawls) -> None:
    listed = {
        r["r.crawl_id"]: (r["url"], r["total"], r["completed"], r["failed"]) for r in crawls.ask(LIST_CRAWLS)
    }
    assert listed[crawls.full] == ("HTTPS://EXAMPLE.COM", 5, 3, 1) and listed[crawls.empty] == (
        "HTTPS://EXAMPLE.ORG",
        0,
        0,
        0,
    )
    progress = crawls.ask(PROGRESS)[0].data()
    assert progress == {
        "r.name": "EXAMPLE.COM",
        "total": 5,
        "completed": 3,
        "pending": 1,
        "in_progress": 0,
        "failed": 1,
    }
    paths = [r["path"] for r in crawls.ask(VISUALIZE)]
    assert sorted(tuple(n["name"] for n in p.nodes) for p in paths) == [
        ("EXAMPLE.COM", "A"),
        ("EXAMPLE.COM", "A", "D"),
        ("EXAMPLE.COM", "A", "E"),
        ("EXAMPLE.COM", "B"),
        ("EXAMPLE.COM", "C"),
    ]
    claimed = [r["n"] for r in crawls.ask(CLAIM)]
    assert (
        [(n["name"], n["job_status"]) for n in claimed] == [("B", "IN-PROGRESS")]
        and claimed[0]["claimed_at"] is not None
        and crawls.ask(CLAIM) == []
    )
    assert crawls.ask(STATISTICS)[0].data() == {"total_urls": 5, "unique_domains": 2, "max_depth_reached": 2}
    crawls.ask(CANCEL)
    assert [
        r["s"]
        for r in crawls.ask("MATCH (u:URL {crawl_id: $crawl_id}) RETURN u.job_status AS s ORDER BY u.name")
    ] == ["COMPLETED", "CANCELLED", "FAILED", "COMPLETED", "COMPLETED"]


def test_a_crawl_has_one_root(crawls: Crawls) -> None:
    with pytest.raises(neo4j.exceptions.ConstraintError):
        crawls.ask("CREATE (:ROOT {crawl_id: $crawl_id})")
