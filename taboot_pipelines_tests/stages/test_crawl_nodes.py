"""Crawls in a real Neo4j: the example queries as they are written; equal to the catalog; gone with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import neo4j
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.stages import neo4j_subgraph
from taboot_pipelines.stages.crawl_graph import CrawlGraph
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stores.graph.cypher import RULES
from taboot_pipelines.stores.graph.neo4j import Neo4jGraph
from taboot_pipelines_tests.crawl_queries import CANCEL, CLAIM, LIST_CRAWLS, PROGRESS, STATISTICS, VISUALIZE
from taboot_pipelines_tests.crawled import DEPTHS, LINKS, SmallSite, crawl_source, small_site
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

#: The indexes and constraints: label, properties, whether unique.
SCHEMA = {
    ("URL", ("job_status",), False),
    ("URL", ("name", "http_type"), False),
    ("ROOT", ("name", "requested_depth"), False),
    ("URL", ("claimed_at",), False),
    ("ROOT", ("crawl_id",), True),
    ("URL", ("crawl_id",), False),
}
GONE = {"/gone", "/missing"}


class Killed(BaseException):
    """The process ends here."""


class Place:
    """A world whose crawls are in a namespace of its own on the shared server."""

    def __init__(self, root: Path, tei: str, url: str, **settings: Any) -> None:
        self.namespace = f"t{uuid.uuid4().hex[:12]}"
        self.world = World(
            root, tei, neo4j={"url": url, "timeout_seconds": 60}, http={"rate_limit_rps": 0}, **settings
        )

    def ingest(self, *sources: str) -> StageReport:
        """Ingest; the report of the stage's last run."""
        return [r for r in self.world.ingest(*sources) if r.stage == neo4j_subgraph.STAGE][-1]

    @property
    def crawls(self) -> CrawlGraph:
        return CrawlGraph(self.world.workspace.catalog, self.namespace)

    @property
    def graph(self) -> Neo4jGraph:
        assert self.world.workspace.graph is not None
        return self.world.workspace.graph

    def audit(self) -> list[tuple[str, str]]:
        target = neo4j_subgraph.TARGET
        return [(d.kind, d.item.split()[0]) for d in target.audit(self.world.workspace, self.namespace)]

    def repair(self) -> None:
        neo4j_subgraph.TARGET.repair(self.world.workspace, self.namespace)


@pytest.fixture
def site() -> Iterator[SmallSite]:
    with small_site() as made:
        yield made


@pytest.fixture
def place(tmp_path: Path, tei: FakeTei, neo4j_url: str) -> Iterator[Place]:
    made = Place(tmp_path, tei.url, neo4j_url, retention={"crawls": 2})
    yield made
    made.graph.drop_namespace(made.namespace)
    made.world.workspace.close()


@pytest.fixture
def session(neo4j_url: str) -> Iterator[neo4j.Session]:
    with neo4j.GraphDatabase.driver(neo4j_url, auth=None) as driver, driver.session() as made:
        yield made


def test_every_example_query_works_as_it_is_written(
    place: Place, site: SmallSite, session: neo4j.Session
) -> None:
    site.headers["/a/deep"] = {"link": "<https://other.example/>; rel=canonical"}
    crawl_source(place.world, site, namespace=place.namespace)
    report = place.ingest()
    assert report.counts["crawls_written"] == 1
    crawl = place.crawls.find("site")
    host = site.site.base.removeprefix("http://")

    shown = [r for r in session.run(LIST_CRAWLS) if r["r.crawl_id"] == crawl.crawl_id]
    total = len(DEPTHS) - 1  # the ROOT is a page of its own
    assert [tuple(r.values()) for r in shown] == [
        (crawl.crawl_id, f"HTTP://{host}", total, total - len(GONE), len(GONE))
    ]
    (progress,) = session.run(PROGRESS, crawl_id=crawl.crawl_id)
    assert tuple(progress.values()) == (host, total, total - len(GONE), 0, 0, len(GONE))
    (statistics,) = session.run(STATISTICS, crawl_id=crawl.crawl_id)
    assert tuple(statistics.values()) == (total, 1, max(DEPTHS.values()))

    paths = [r["path"] for r in session.run(VISUALIZE, crawl_id=crawl.crawl_id)]
    reached = {p.end_node["name"].removeprefix(host) for p in paths}
    assert reached == {path for path in DEPTHS if path != "/"}
    leads = {
        (a["name"].removeprefix(host) or "/", b["name"].removeprefix(host))
        for p in paths
        for a, b in ((r.start_node, r.end_node) for r in p.relationships)
    }
    # The links that lead one step deeper.
    assert leads == {(a, b) for a, links in LINKS.items() for b in links if DEPTHS[b] == DEPTHS[a] + 1}
    assert all(dict(r) == {} for p in paths for r in p.relationships)

    (root,) = (r["r"] for r in session.run("MATCH (r:ROOT {crawl_id: $i}) RETURN r", i=crawl.crawl_id))
    url = next(p.end_node for p in paths if p.end_node["name"].endswith("/a/deep"))
    assert root["created_at"].to_native().timestamp() * 1e6 == pytest.approx(crawl.started_at, abs=1)
    assert (root["current_depth"], root["requested_depth"]) == (0, 9) and root["domain"] == "127.0.0.1"
    assert set(url.labels) == {"URL"} and url["job_status"] == "COMPLETED" and url["attempts"] == 0
    assert url["claimed_at"].to_native() and url["request_time"].endswith("s") and url["current_depth"] == 2
    assert [p.end_node["canonical_url"] for p in paths if "canonical_url" in p.end_node] == [
        "https://other.example/"
    ]
    assert place.audit() == []


def test_the_indexes_and_constraints_are_there(place: Place, site: SmallSite, session: neo4j.Session) -> None:
    crawl_source(place.world, site, namespace=place.namespace)
    place.ingest()
    columns = "YIELD labelsOrTypes, properties"
    indexes = list(session.run(f"SHOW INDEXES {columns}, owningConstraint"))
    found = {
        (r["labelsOrTypes"][0], tuple(r["properties"]), r["owningConstraint"] is not None)
        for r in indexes
        if r["labelsOrTypes"]
    }
    assert found >= SCHEMA
    assert {(r.label, r.properties, r.unique) for r in RULES} >= SCHEMA


def test_a_crawl_that_was_interrupted_is_shown_and_may_be_claimed_from(
    place: Place, site: SmallSite, session: neo4j.Session
) -> None:
    """Feeders take pending URLs out of the graph; the next run writes it as the catalog has it."""
    crawl_source(place.world, site, namespace=place.namespace)
    world = place.world
    world.workspace.sync_sources()
    crawls = world.workspace.catalog.crawls
    plan = m.CrawlPlan(roots=(site.root,), requested_depth=9, max_pages=10)
    crawl = crawls.begin(place.namespace, "site", plan)
    found = [m.FoundUrl(m.url_id(site.url(p)), site.url(p), site.url(p), "h") for p in ("/", "/a")]
    crawls.frontier(place.namespace, crawl).add_roots(found, m.Listing())
    (world.source("notes", namespace=place.namespace) / "a.md").write_text("# A\n\nA note for people.")
    place.ingest("notes")
    # The query knows no namespace, and takes a pending URL of whichever crawl has one.
    claimed = list(session.run(CLAIM))
    assert claimed and claimed[0]["n"]["job_status"] == "IN-PROGRESS"
    session.run(CANCEL, crawl_id=crawl.crawl_id).consume()
    states = "MATCH (u:URL {crawl_id: $i}) RETURN u.job_status AS s, u.name AS name"
    rows = [(r["s"], r["name"]) for r in session.run(states, i=crawl.crawl_id)]
    # The other listed page stands beside the root, and the ROOT leads to it.
    assert [s for s, _ in rows] == ["CANCELLED"] and rows[0][1].endswith("/a")
    assert len([r for r in session.run(VISUALIZE, crawl_id=crawl.crawl_id) if r["path"] is not None]) == 1
    assert ("different", "URL") in place.audit()
    place.repair()
    assert [r["s"] for r in session.run(states, i=crawl.crawl_id)] == ["PENDING"] and place.audit() == []


def test_what_was_tampered_with_is_found_and_made_good(
    place: Place, site: SmallSite, session: neo4j.Session
) -> None:
    crawl_source(place.world, site, namespace=place.namespace)
    place.ingest()
    crawl_id = place.crawls.find("site").crawl_id
    for damage, found in (
        ("MATCH (u:URL {crawl_id: $i}) WITH u LIMIT 1 SET u.ip = '192.0.2.1'", {("different", "URL")}),
        (
            "MATCH (u:URL {crawl_id: $i}) WITH u LIMIT 1 DETACH DELETE u",
            {("missing", "URL"), ("missing", "Lead")},
        ),
        (
            "MATCH (u:URL {crawl_id: $i}) WITH u LIMIT 1"
            " CREATE (:URL {crawl_id: $i, namespace: u.namespace})",
            {("surplus", "URL")},
        ),
        (
            "MATCH (u:URL {crawl_id: $i}) WHERE u.name ENDS WITH '/d'"
            " MATCH (v:URL {crawl_id: $i}) WHERE v.name ENDS WITH '/a' CREATE (u)-[:Lead]->(v)",
            {("surplus", "Lead")},
        ),
        ("MATCH (r:ROOT {crawl_id: $i}) SET r.name = 'ELSE.WHERE'", {("different", "ROOT")}),
        ("MATCH (r:ROOT {crawl_id: $i}) DETACH DELETE r", {("missing", "ROOT")}),
    ):
        session.run(damage, i=crawl_id).consume()
        assert set(place.audit()) == found, damage
        place.repair()
        assert place.audit() == [], damage


def test_nothing_changed_asks_nothing_and_old_crawls_go(
    place: Place, site: SmallSite, session: neo4j.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl_source(place.world, site, namespace=place.namespace)
    for _ in range(4):
        place.ingest()
    there = [c.crawl_id for c in place.crawls.crawls()][:2]
    mine = "MATCH (r:ROOT {namespace: $n}) RETURN r.crawl_id AS i"
    assert {r["i"] for r in session.run(mine, n=place.namespace)} == set(there)
    urls = "MATCH (u:URL {namespace: $n}) RETURN DISTINCT u.crawl_id AS i"
    assert {r["i"] for r in session.run(urls, n=place.namespace)} == set(there)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the server was asked")

    monkeypatch.setattr(Neo4jGraph, "_session", refuse)
    run = neo4j_subgraph.TARGET.run(place.world.workspace, place.namespace, "")
    assert run.skipped == "unchanged"


def test_a_kill_at_any_request_is_made_good_by_the_next_run(
    place: Place, site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl_source(place.world, site, namespace=place.namespace)
    place.ingest()
    for at in range(1, 7):
        _killed_at(place, site, monkeypatch, at)


def _killed_at(place: Place, site: SmallSite, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    site.links["/e"] = (f"/new-{at}",)
    site.links[f"/new-{at}"] = ()
    for stage in ("raw_blobs", "crawl_graph"):
        place.world.run(stage, "site")
    left = [at]
    real = Neo4jGraph._run

    def killing(self: Neo4jGraph, *args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return real(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Neo4jGraph, "_run", killing)
        with pytest.raises(Killed):
            neo4j_subgraph.TARGET.run(place.world.workspace, place.namespace, "")
    place.ingest()
    assert place.audit() == []


def test_an_erasure_reaches_the_server_or_stays_pending(
    place: Place, site: SmallSite, session: neo4j.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl_source(place.world, site, namespace=place.namespace)
    place.ingest()
    kb = place.world.kb(place.namespace)
    (doc_id,) = [r["doc_id"] for r in kb.documents().to_pylist() if r["url"].endswith("/Case")]
    there = "MATCH (u:URL {namespace: $n}) WHERE u.name ENDS WITH '/Case' RETURN count(u) AS c"

    def count() -> int:
        return int(session.run(there, n=place.namespace).single(strict=True)["c"])

    def refuse(*_: Any, **__: Any) -> Any:
        raise TabootError("E_NEO4J", "The server does not answer.")

    assert count() == 1
    with monkeypatch.context() as patch:
        patch.setattr(Neo4jGraph, "_run", refuse)
        receipt = delete(place.world.workspace, place.namespace, [doc_id], erase=True)
    assert receipt.stores["neo4j"] == "pending" and not receipt.final and count() == 1
    place.ingest()
    assert count() == 0 and place.audit() == []
    assert place.world.workspace.catalog.receipts.pending(place.namespace) == []


def test_crawls_of_others_are_left_alone_and_go_with_their_namespace(
    place: Place, site: SmallSite, session: neo4j.Session, tmp_path: Path, tei: FakeTei, neo4j_url: str
) -> None:
    session.run("CREATE (:ROOT {crawl_id: $i})-[:Lead]->(:URL {crawl_id: $i, name: 'X'})", i=place.namespace)
    other = Place(tmp_path / "other", tei.url, neo4j_url)
    try:
        (place.world.source("notes", namespace=place.namespace) / "a.md").write_text("# A\n\nA note of ours.")
        for one in (place, other):
            crawl_source(one.world, site, namespace=one.namespace)
            one.ingest()
        place.world.remove_source("site")
        place.world.ingest("site", confirm_deletes=True)
        mine = "MATCH (n) WHERE n.namespace = $n AND (n:ROOT OR n:URL) RETURN count(n) AS c"
        assert session.run(mine, n=place.namespace).single(strict=True)["c"] == 0
        assert other.audit() == []
        foreign = "MATCH (r:ROOT {crawl_id: $i})-[:Lead]->(u:URL) RETURN count(u) AS c"
        assert session.run(foreign, i=place.namespace).single(strict=True)["c"] == 1
    finally:
        session.run("MATCH (n {crawl_id: $i}) DETACH DELETE n", i=place.namespace).consume()
        other.graph.drop_namespace(other.namespace)
        other.world.workspace.close()
