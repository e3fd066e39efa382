"""The stage against a real Neo4j: equal to the knowledge base after any change, kill or outage."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import neo4j
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.graph import Graph
from taboot_pipelines.stages import neo4j_subgraph
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.running import run_stage
from taboot_pipelines.stores.graph.neo4j import Neo4jGraph
from taboot_pipelines.stores.tables import Tables
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.stages.test_kill_windows import killed_at
from taboot_pipelines_tests.world import World

WORD = "zyxwvutquux"
COMPOSE = (
    "services:\n  app:\n    image: redis:7\n    ports: ['80:80']\n    depends_on: [{}]\n  {}:\n    image:"
    " postgres:16\n"
)


class Place:
    """A world whose graph is in a namespace of its own on the shared server."""

    def __init__(self, root: Path, tei: str, url: str, patience: float = 60) -> None:
        self.namespace = f"t{uuid.uuid4().hex[:12]}"
        self.world = World(root, tei, neo4j={"url": url, "timeout_seconds": patience})

    def source(self, name: str, type_: str = "files", **fields: Any) -> Path:
        return self.world.source(name, type_, namespace=self.namespace, **fields)

    def ingest(self) -> StageReport:
        """Ingest; return the report of the stage's last run that did something, else of its last run."""
        reports = [r for r in self.world.ingest() if r.stage == neo4j_subgraph.STAGE]
        return next((r for r in reversed(reports) if r.skipped is None), reports[-1])

    def restart(self) -> None:
        self.world.workspace.close()
        self.world.workspace = self.world.open(self.world.home)

    def prepare(self, source_id: str) -> None:
        """Run all stages before this one."""
        for stage in CHAIN.names[: CHAIN.names.index(neo4j_subgraph.STAGE)]:
            run_stage(self.world.workspace, stage, source_id)

    def run(self) -> StageReport:
        return neo4j_subgraph.TARGET.run(self.world.workspace, self.namespace, "")

    @property
    def graph(self) -> Neo4jGraph:
        assert self.world.workspace.graph is not None
        return self.world.workspace.graph

    def tables(self) -> tuple[pa.Table, pa.Table]:
        kb = self.world.kb(self.namespace)
        nodes = pa.concat_tables([kb.nodes().slice(0, 0), *self.graph.nodes(self.namespace)]).sort_by(
            [("label", "ascending"), ("key", "ascending")]
        )
        return nodes, pa.concat_tables([kb.edges().slice(0, 0), *self.graph.edges(self.namespace)]).sort_by(
            "edge_id"
        )

    def audit(self) -> list[tuple[str, str]]:
        return [(d.kind, d.item) for d in neo4j_subgraph.TARGET.audit(self.world.workspace, self.namespace)]

    def assert_equal(self) -> None:
        kb, (nodes, edges) = self.world.kb(self.namespace), self.tables()
        assert nodes.to_pylist() == kb.nodes().to_pylist() and edges.to_pylist() == kb.edges().to_pylist()
        assert nodes.equals(kb.nodes()) and edges.equals(kb.edges())
        assert self.graph.watermark(self.namespace) == kb.manifest.snapshot


@pytest.fixture
def place(tmp_path: Path, tei: FakeTei, neo4j_url: str) -> Iterator[Place]:
    made = Place(tmp_path, tei.url, neo4j_url)
    yield made
    made.graph.drop_namespace(made.namespace)
    made.world.workspace.close()


def write(place: Place) -> tuple[Path, Path]:
    stacks, notes = place.source("stacks", "compose", host="nas"), place.source("notes")
    (stacks / "compose.yaml").write_text(COMPOSE.format("db", "db"))
    (notes / "a.md").write_text(
        "# Notes\nThe app listens at http://app.lan:8080/x and asks db at 10.0.0.5.\n"
    )
    (notes / "b.md").write_text("# More\nAnother word about db and 10.0.0.5.\n")
    return stacks, notes


def test_the_graph_is_that_of_the_knowledge_base_and_goes_with_it(place: Place) -> None:
    stacks, notes = write(place)
    place.ingest()
    place.assert_equal()
    assert place.audit() == []
    (notes / "b.md").unlink()
    report = place.ingest()
    assert (
        report.counts["nodes_written"] == 1
        and report.counts["edges_written"] == 0
        and report.counts["edges_deleted"] == 1
    )
    place.assert_equal()
    for path in (stacks / "compose.yaml", notes / "a.md"):
        path.write_text("services: {}\n" if path.suffix == ".yaml" else "Nothing here.\n")
    place.ingest()
    place.assert_equal()
    assert {n["label"] for n in place.tables()[0].to_pylist()} == {"Document"} and place.audit() == []


def test_what_people_decide_is_in_neo4j_at_once(place: Place) -> None:
    write(place)
    place.ingest()
    kb = place.world.kb(place.namespace)
    (edge,) = (e for e in kb.edges().to_pylist() if e["type"] == "DEPENDS_ON")
    for done in (
        kb.correct(edge["start_key"], "port", 1234),
        kb.correct_edge(edge["edge_id"], "condition", "service_healthy", "tried"),
        kb.ingest_structured("Host", {"hostname": "nas-two", "ip": "10.0.0.8"}),
        kb.ingest_structured("Host", {"hostname": "nas-three"}),
        kb.merge("nas-three", "nas-two"),
        kb.correct_edge(edge["edge_id"], None, None, "it does not"),
    ):
        assert done.final and done.stores["neo4j"] == "done"
        place.assert_equal()
    assert place.audit() == []
    assert "DEPENDS_ON" not in kb.edges().column("type").to_pylist()
    for item in reversed(kb.assertions().items):
        kb.undo(item.observation_id)
        place.assert_equal()
    assert edge in kb.edges().to_pylist() and place.audit() == []


def test_nothing_changed_sends_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place)
    place.ingest()
    place.restart()

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a request was sent")

    monkeypatch.setattr(Neo4jGraph, "_session", refuse)
    assert place.run().skipped == "unchanged" and place.ingest().skipped == "unchanged"
    monkeypatch.undo()


def test_two_documents_that_say_the_same_each_keep_their_edge(place: Place) -> None:
    stacks, _ = write(place)
    (stacks / "two").mkdir()
    again = "name: stacks\n" + COMPOSE.format("db", "db")
    (stacks / "two" / "compose.yaml").write_text(again)
    place.ingest()
    place.assert_equal()
    depends = [e for e in place.tables()[1].to_pylist() if e["type"] == "DEPENDS_ON"]
    assert len(depends) == 2 and len({(e["start_key"], e["end_key"]) for e in depends}) == 1
    (stacks / "two" / "compose.yaml").unlink()
    place.ingest()
    place.assert_equal()
    assert len([e for e in place.tables()[1].to_pylist() if e["type"] == "DEPENDS_ON"]) == 1


_STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.sampled_from("abc"),
            st.sampled_from(["db at 10.0.0.1", "app and http://x.lan:81/", "cache, db, redis:7", "nothing"]),
        ),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.just("")),
        st.tuples(st.just("rename"), st.sampled_from("abc"), st.sampled_from("abc")),
        st.tuples(st.just("service"), st.just(""), st.sampled_from(["db", "cache", "redis"])),
    ),
    min_size=2,
    max_size=3,
)


@given(_STEPS)
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_sequence_of_changes_ends_in_the_same_graph(
    place: Place, steps: list[tuple[str, str, str]]
) -> None:
    stacks, notes = write(place)
    (notes / "keep.md").write_text("A document that stays, so that not everything goes at once.\n")
    for what, name, value in steps:
        path = notes / f"{name}.md"
        if what == "write":
            path.write_text(f"# Title\nIt says {value}.\n")
        elif what == "service":
            (stacks / "compose.yaml").write_text(COMPOSE.format(value, value))
        elif path.exists():
            path.unlink() if what == "delete" else path.rename(notes / f"{value}.md")
        place.ingest()
        place.assert_equal()


@pytest.mark.parametrize(("owner", "name"), [(Neo4jGraph, "_rows"), (Tables, "replace")])
def test_a_kill_before_any_statement_leaves_nothing_behind(place: Place, owner: Any, name: str) -> None:
    _, notes = write(place)
    place.ingest()
    before = (notes / "a.md").read_text()
    kills = 0
    while True:
        # Something comes, something stays and something goes with each.
        after = f"# Notes\nNow it is 10.0.1.{kills} and 10.0.0.5, asked by app.\n"
        (notes / "a.md").write_text(after)
        # The stages before are not killed: the kill is to meet this one.
        place.prepare("notes")
        try:
            with killed_at(owner, name, kills + 1):
                place.run()
        except pytest.fail.Exception:
            break  # it has no such call any more
        kills += 1
        place.restart()
        if kills % 3 == 0:
            # What the killed run was about is taken back before another comes.
            (notes / "a.md").write_text(before)
            place.prepare("notes")
        else:
            before = after
        place.run()
        assert place.audit() == []
    assert kills >= (8 if owner is Neo4jGraph else 4)
    place.ingest()
    place.assert_equal()
    assert place.audit() == []


def test_what_was_tampered_with_is_found_and_mended(place: Place, neo4j_url: str) -> None:
    write(place)
    place.ingest()
    ns = place.namespace
    with neo4j.GraphDatabase.driver(neo4j_url, auth=None) as driver:
        for statement in (
            "MATCH (:Service {namespace: $n})-[r:DEPENDS_ON]->() DELETE r",
            "MATCH (i:IP {namespace: $n, addr: '10.0.0.5'}) SET i.fingerprint = 'x'",
            (
                "MATCH (d:Document {namespace: $n})-[r:MENTIONS]->(:Endpoint) SET r.fingerprint = null,"
                " r.docId = 'x'"
            ),
            "CREATE (:Host {namespace: $n, hostname: 'stray'})",
            (
                "MATCH (d:Document {namespace: $n}) WITH d LIMIT 1 CREATE (d)-[:MENTIONS {namespace: $n,"
                " edgeId: 'stray-' + $n}]->(:Host {namespace: $n, hostname: 'other'})"
            ),
            "MATCH (w:_TabootWatermark {namespace: $n}) DELETE w",
            "MATCH (i:Image {namespace: $n}) WITH i LIMIT 1 DETACH DELETE i",
            "DROP CONSTRAINT ip_addr",
        ):
            driver.execute_query(statement, n=ns)
    found = place.audit()
    items = {i for _, i in found}
    assert {
        ("missing", "ip_addr"),
        ("different", f"{ns}/watermark"),
        ("different", "IP 10.0.0.5"),
        ("surplus", "Host stray"),
        ("surplus", f"MENTIONS stray-{ns}"),
    } <= set(found)
    assert (
        any(i.startswith("DEPENDS_ON ") for i in items)
        and any(k == "missing" and i.startswith("Image ") for k, i in found)
        and any(k == "different" and i.startswith("MENTIONS") for k, i in found)
    )
    neo4j_subgraph.TARGET.repair(place.world.workspace, ns)
    place.assert_equal()
    assert place.audit() == [] and place.run().skipped == "unchanged"


def test_doubles_written_while_a_constraint_was_gone_are_mended(place: Place, neo4j_url: str) -> None:
    write(place)
    place.ingest()
    with neo4j.GraphDatabase.driver(neo4j_url, auth=None) as driver:
        driver.execute_query("DROP CONSTRAINT ip_addr")
        driver.execute_query("CREATE (:IP {namespace: $n, addr: '10.0.0.5'})", n=place.namespace)
    assert ("surplus", "IP 10.0.0.5") in place.audit() or ("different", "IP 10.0.0.5") in place.audit()
    neo4j_subgraph.TARGET.repair(place.world.workspace, place.namespace)
    place.assert_equal()
    assert place.audit() == []


def test_a_lost_ledger_or_an_emptied_server_is_noticed(place: Place) -> None:
    import shutil

    _, notes = write(place)
    place.ingest()
    shutil.rmtree(place.world.home / "tables" / place.namespace / "_" / "graph.edges")
    assert place.run().skipped is None
    place.assert_equal()
    place.graph.drop_namespace(place.namespace)
    (notes / "b.md").write_text("# More\nA change.\n")
    place.ingest()
    place.assert_equal()


def test_an_erased_document_leaves_nothing_in_neo4j(place: Place, neo4j_url: str) -> None:
    _, notes = write(place)
    (notes / f"{WORD}.md").write_text(f"# {WORD}\nSee http://{WORD}.lan:80/{WORD} and 10.0.0.5.\n")
    place.ingest()
    doc_id = place.world.workspace.catalog.locators.of_source(place.namespace, "notes", state=None)[
        f"{WORD}.md"
    ].doc_id
    count = (
        "MATCH (n {namespace: $n}) OPTIONAL MATCH (n)-[r]-() WITH n, r WHERE any(v IN [x IN keys(n) |"
        " toStringOrNull(n[x])] + [x IN keys(coalesce(r, n)) | toStringOrNull(coalesce(r, n)[x])] WHERE"
        " toLower(v) CONTAINS $w) RETURN count(*) AS c"
    )
    with neo4j.GraphDatabase.driver(neo4j_url, auth=None) as driver:
        assert driver.execute_query(count, n=place.namespace, w=WORD).records[0]["c"] > 0
        receipt = delete(place.world.workspace, place.namespace, [doc_id], erase=True)
        assert receipt.stores["neo4j"] == "done" and receipt.final
        assert driver.execute_query(count, n=place.namespace, w=WORD).records[0]["c"] == 0
        assert (
            driver.execute_query(
                "MATCH (n {namespace: $n})-[r]-() WHERE r.docId = $w RETURN count(*) AS c",
                n=place.namespace,
                w=doc_id,
            ).records[0]["c"]
            == 0
        )
    place.assert_equal()


def test_state_that_fails_hides_no_error_and_stops_no_work(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place)

    def fail(*_: Any, **__: Any) -> Any:
        raise TabootError("E_REDIS", "The state does not answer.")

    for name in ("circuit_open", "circuit_failed", "circuit_succeeded"):
        monkeypatch.setattr(type(place.world.workspace.state), name, fail)
    place.ingest()
    place.assert_equal()
    monkeypatch.setattr(
        Neo4jGraph, "watermark", lambda *_: (_ for _ in ()).throw(TabootError("E_NEO4J", "first"))
    )
    (place.world.directory / "notes" / "b.md").write_text("Another.\n")
    with pytest.raises(TabootError, match="E_NEO4J: first"):
        place.ingest()


def test_a_server_that_fails_again_and_again_is_given_a_rest(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place)
    with monkeypatch.context() as patch:
        patch.setattr(
            Neo4jGraph, "missing_schema", lambda _: (_ for _ in ()).throw(TabootError("E_NEO4J", "down"))
        )
        codes = []
        place.world.workspace.sync_sources()
        for _ in range(4):
            with pytest.raises(TabootError) as caught:
                place.world.ingest("notes")
            codes.append(caught.value.code)
        for _ in range(3):
            with pytest.raises(TabootError) as caught:
                place.run()
            codes.append(caught.value.code)
    assert codes[:5] == ["E_NEO4J"] * 5 and codes[-1] == "E_CIRCUIT_OPEN"
    # The shards do not wait for it.
    assert place.world.kb(place.namespace).documents().num_rows == 2
    place.world.workspace.state.circuit_succeeded(place.namespace, neo4j_subgraph.CIRCUIT)
    place.ingest()
    place.assert_equal()


def test_neighbourhoods_are_those_of_the_shards(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(place)
    place.ingest()
    served = place.world.kb(place.namespace)
    without = served.settings.neo4j.model_copy(update={"url": None})
    plain = KnowledgeBase.open(
        namespace=place.namespace, settings=served.settings.model_copy(update={"neo4j": without})
    )
    used: list[bool] = []
    walk = Graph.neighbourhood

    def watch(self: Graph, *args: Any) -> Any:
        used.append(len(args) > 4 and args[4] is not None)
        return walk(self, *args)

    monkeypatch.setattr(Graph, "neighbourhood", watch)
    names = sorted({n["name"] for n in served.nodes().to_pylist()})
    for name in names:
        for hops, types, limit in (
            (1, None, 100),
            (2, None, 100),
            (2, None, 3),
            (1, ["MENTIONS"], 2),
            (2, ["DEPENDS_ON", "BINDS"], 100),
        ):
            assert served.neighbors(name, hops, types, limit) == plain.neighbors(name, hops, types, limit)
    assert used == [True, False] * (len(used) // 2) and len(used) == 10 * len(names)
    # While it is being changed, and when it does not answer, the shards do.
    place.graph.set_watermark(place.namespace, "")
    used.clear()
    assert served.neighbors("app", 2) == plain.neighbors("app", 2) and used == [False, False]
    place.graph.set_watermark(place.namespace, served.manifest.snapshot)
    monkeypatch.setattr(
        Neo4jGraph, "neighbourhood", lambda *_: (_ for _ in ()).throw(TabootError("E_NEO4J", "down"))
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert served.neighbors("app", 2) == plain.neighbors("app", 2)
    assert len([r for r in caplog.records if "Neighbourhoods come from the shards" in r.message]) == 1


def test_without_a_url_the_stage_is_empty_and_the_driver_is_not_imported(
    tmp_path: Path, tei: FakeTei
) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from taboot_pipelines_tests.world import World; from"
        f" taboot_pipelines.stages.neo4j_subgraph import TARGET as s\nw = World(Path({str(tmp_path)!r}),"
        f" {tei.url!r}); p = w.source('notes'); (p / 'a.md').write_text('Some words.'); w.ingest()\nr ="
        " s.run(w.workspace, 'default', 'notes'); k = w.kb();"
        " k.neighbors(k.nodes().column('name')[0].as_py()); assert r.skipped == 'skipped: TABOOT_NEO4J__URL'"
        " and r.counts == {}, r\nassert list(s.audit(w.workspace, 'default')) == [] and"
        " s.repair(w.workspace, 'default') is None and 'neo4j' not in sys.modules"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("TABOOT_NEO4J")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
