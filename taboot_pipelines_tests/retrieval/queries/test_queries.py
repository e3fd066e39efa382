"""Typed queries: over real Compose projects they return what a reader of the YAML finds, every row leads to
its line, and that there is no row is said as far as it is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from starlette.testclient import TestClient

from taboot_pipelines.browse.app import make_app
from taboot_pipelines.cli import query as cli
from taboot_pipelines.errors import TabootError
from taboot_pipelines.mcp.texts import plain
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.answering.question_types import FACTS
from taboot_pipelines.retrieval.queries.catalog import QUERIES
from taboot_pipelines.retrieval.results.queries import QueryResult
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.mcp.asking import asked
from taboot_pipelines_tests.world import DATA, World

AWESOME = DATA / "awesome-compose"
#: What a query that needs a name is asked about, in a project that has something to tell.
SUBJECTS: dict[str, dict[str, object]] = {
    "network": {"network": "backend"},
    "service": {"service": "db"},
    "other": {"other": "app"},
    "key": {"key": "restart"},
    "path": {"path": "/var/lib/mysql"},
    "hostname": {"hostname": "git.example.org"},
}
#: A value for each parameter.
VALUES: dict[str, str] = {
    **{name: str(value) for given in SUBJECTS.values() for name, value in given.items()},
    **{"project": "store", "host": "nas", "proxy": "traefik", "image": "postgres", "port": "9000"},
    **{"value": "no", "file": "compose.yaml", "transitive": "true", "of": "nas", "other": "lonely"},
}
HOUSE = """
services:
  app:
    image: gitea/gitea
    environment:
      DATABASE_URL: postgresql://u@shared-db:5432/app
    networks: [backend]
    mem_limit: 512m
    labels:
      traefik.http.routers.git.rule: Host(`git.example.org`)
      traefik.http.services.git.loadbalancer.server.port: "3000"
  worker:
    image: gitea/gitea:1.22
    mem_limit: 1g
    depends_on: [app]
  sidecar:
    image: busybox:1.36
    network_mode: service:app
networks:
  backend:
    external: true
"""
STORE = """
services:
  db:
    image: postgres:16@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    container_name: shared-db
    networks: [backend]
    volumes: ["/srv/pg:/var/lib/postgresql/data", "/opt/pg:/etc/postgresql", "nas:/tank/pg:/old"]
  lonely:
    image: busybox:1.36
    ports: ["127.0.0.1:9000:80"]
networks:
  backend:
    external: true
"""


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with FakeTei(dimension=16) as embedder:
        made = World(tmp_path_factory.mktemp("queries"), embedder.url)
        made.entries.append({"id": "awesome", "type": "compose", "path": str(AWESOME)})
        house = made.source("house", "compose", host="nas", proxy="traefik")
        for folder, text in (("git", HOUSE), ("store", STORE)):
            (house / folder).mkdir()
            (house / folder / "compose.yaml").write_text(text)
        made.ingest()
        yield made.kb()
        made.workspace.close()


def _projects() -> dict[str, dict[str, Any]]:
    """The services of each real project that is one plain file, read by PyYAML."""
    found = {}
    for path in sorted(AWESOME.glob("*/compose.yaml")):
        model = yaml.safe_load(path.read_text())
        if path.parent.name not in found:
            found[path.parent.name] = model["services"]
    return found


def _cells(result: QueryResult, *columns: str) -> set[tuple[object, ...]]:
    return {tuple(r.cells[c] for c in columns) for r in result.rows}


def test_ports_images_and_needs_are_those_of_the_files(kb: KnowledgeBase) -> None:
    projects = _projects()
    assert len(projects) > 10
    for project, services in projects.items():
        ports, needs, pulled = set(), set(), set()
        for name, service in services.items():
            for port in service.get("ports", ()):
                if isinstance(port, dict):
                    ports.add((name, int(port["published"])))
                else:
                    parts = str(port).partition("/")[0].split(":")
                    ports |= {(name, int(parts[-2]))} if len(parts) > 1 else set()
            needs |= {(name, other) for other in service.get("depends_on", ())}
            if "build" not in service:
                pulled.add(name)
        found = kb.query("published_ports", project=project)
        assert _cells(found, "service", "port") == ports, project
        assert found.complete
        assert _cells(kb.query("dependencies", project=project), "service", "needs") == needs, project
        images = kb.query("images", project=project)
        assert {r.cells["service"] for r in images.rows if r.cells["how"] == "pulled"} == pulled, project
        listed = kb.query("services", project=project)
        assert {r.cells["service"] for r in listed.rows} == set(services), project


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_each_row_has_its_columns_and_leads_to_its_line(kb: KnowledgeBase, name: str) -> None:
    query = QUERIES[name]
    given: dict[str, object] = {}
    for parameter in query.parameters:
        if parameter.required:
            given |= SUBJECTS[parameter.name]
    found = kb.query(name, **given)
    assert found.total == len(found.rows)
    assert found.text.endswith(".")
    assert found.to_arrow().num_rows == len(found.rows)
    assert found._repr_html_()
    texts = {}
    for row in found.rows:
        assert tuple(row.cells) == query.columns
        assert row.citations, row
        for cited in row.citations:
            text = texts.setdefault(cited.url, Path(cited.url).read_text())
            line = text.split("\n")[cited.line - 1].strip()
            # What is secret is masked in documents.
            assert line.startswith(cited.text.partition("***")[0]), line
            assert cited.text == line or "***" in cited.text
            if cited.edge_id:
                assert kb.explain(cited.edge_id).quotes
            else:
                assert kb.explain(cited.chunk_id).quotes


def test_what_the_house_says(kb: KnowledgeBase) -> None:
    def told(name: str, *columns: str, **given: Any) -> set[tuple[object, ...]]:
        return _cells(kb.query(name, **given), *columns)

    assert told("consumers", "consumer", "how", service="shared-db") == {("app", "connects")}
    assert told("connections", "service", "to", project="git") == {("app", "db")}
    assert told("impact", "affected", "how", service="app", project="git") == {
        ("worker", "only starts after it"),
        ("sidecar", "needs it"),
    }
    assert told("behind", "target", "container", "image", hostname="GIT.example.org") == {
        ("app", "git-app-1", "gitea/gitea")
    }
    assert told("exposed_services", "service", "how", project="git") == {("app", "proxy")}
    # Only this machine itself reaches what is published on the loopback interface; what shares the network of
    # one that a route leads to may be what it reaches.
    assert told("unexposed_services", "service", host="nas") == {
        ("worker",),
        ("db",),
        ("lonely",),
    }
    assert told("unpinned_images", "service", host="nas") == {("app",)}
    assert [r.cells["service"] for r in kb.query("ranked", key="mem_limit", host="nas").rows] == [
        "worker",
        "app",
    ]
    assert told("mounters", "service", "target", path="/srv") == {("db", "/var/lib/postgresql/data")}
    assert told("mounters", "source", "target", path="/old") == {("nas:/tank/pg", "/old")}
    assert told("namespace_sharers", "service", "owner", project="git") == {("sidecar", "app")}
    assert told("shared_networks", "service", "peer", service="app", other="db", host="nas") == {
        ("app", "db")
    }
    assert told("settings", "service", "value", key="DATABASE_URL", project="git") == {
        ("app", "postgresql://u@shared-db:5432/app")
    }
    assert told("unreached_services", "service", host="nas") == {("worker",), ("sidecar",)}


def test_nothing_is_said_as_far_as_it_is_known(kb: KnowledgeBase, tmp_path: Path, tei: FakeTei) -> None:
    none = kb.query("published_ports", service="worker", project="git")
    assert (none.rows, none.complete, none.text) == ((), True, "worker (git): publishes no port.")
    assert "2 sources" in none.scope
    # Who needs a thing may be said where nothing reads it.
    needed = kb.query("dependents", service="lonely", project="store")
    assert (needed.rows, needed.complete) == ((), False)
    assert needed.text == "lonely (store): no dependency on it is declared."

    world = World(tmp_path, tei.url)
    house = world.source("house", "compose")
    (house / "good").mkdir()
    (house / "good" / "compose.yaml").write_text("services: {web: {image: nginx}}")
    (house / "bad").mkdir()
    (house / "bad" / "compose.yaml").write_text("services: {web: [")
    notes = world.source("notes")
    (notes / "deploy.md").write_text("# Deploy\n\nThe cron job on the laptop pushes to `web` each night.\n")
    world.ingest()
    broken = world.kb()
    ports = broken.query("published_ports", service="web")
    assert (ports.total, ports.complete) == (0, False)
    assert ports.unseen == ("1 item of house could not be read: compose:bad/compose.yaml.",)
    named = broken.query("dependents", service="web")
    assert (
        named.text
        == "web (good): no dependency on it is declared; it is named in bad/compose.yaml and deploy.md."
    )
    assert [(c.line, Path(c.url).name) for c in named.named_in] == [
        (1, "compose.yaml"),
        (3, "deploy.md"),
    ]
    # What is not known an answer says, too, and so does a copy; what is mended is known by the next ingest.
    told = "1 item of house could not be read: compose:bad/compose.yaml."
    for question in ("Which port does web publish?", "What does web run?", "Who paints the fence?"):
        assert told in broken.answer(question).notes, question
    assert told not in broken.search("web").notes
    broken.export(tmp_path / "copy")
    copy = KnowledgeBase.open(tmp_path / "copy")
    assert copy.query("published_ports", service="web").unseen == ports.unseen
    assert told in copy.answer("Which port does web publish?").notes
    # Of a file that is read in part, here all but what a network is really called, much is known.
    (house / "part").mkdir()
    (house / "part" / "compose.yaml").write_text(
        "services: {app: {image: redis, networks: [back]}}\nnetworks: {back: {name: '${BACK}'}}\n"
    )
    world.ingest()
    partly = world.kb()
    assert partly.query("published_ports", service="web").unseen == (
        told,
        "1 item of house could not be read whole: compose:part/compose.yaml.",
    )
    assert partly.answer("Which port does web publish?").notes == (told,)
    (house / "part" / "compose.yaml").unlink()
    (house / "bad" / "compose.yaml").write_text("services: {web: {image: redis}}")
    world.ingest(confirm_deletes=True)
    mended = world.kb()
    assert mended.manifest.sources["house"].unread is None
    assert mended.query("published_ports", service="web").complete
    assert mended.answer("Which port does web publish?").notes == ()
    world.workspace.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUERIES))
def test_each_parameter_is_asked_with_in_each_way(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(cli, "open_kb", lambda *_, **__: kb)
    http = TestClient(
        make_app(kb, "a-token", "once", 80),
        base_url="http://localhost",
        headers={"authorization": "Bearer a-token"},
    )
    needed = {p.name: VALUES[p.name] for p in QUERIES[name].parameters if p.required}
    every: list[dict[str, Any]] = [{}, *({p.name: VALUES[p.name]} for p in QUERIES[name].parameters)]
    for given in every:
        given = {**needed, **given}
        found = json.loads(kb.query(name, **given).model_dump_json())
        words = [f"{n}={v}" for n, v in given.items()]
        said = CliRunner().invoke(cli.query, [name, *words, "--limit=1000", "--json"], catch_exceptions=False)
        assert json.loads(said.output) == found, said.output
        assert http.get(f"/api/queries/{name}", params=given).json() == found
        told = asked(kb, "query", name=name, parameters=given)
        assert not told.is_error and plain(found["scope"]) in told.text, told


@pytest.mark.parametrize(
    ("name", "given", "code", "says"),
    [
        ("addresses", {"name": "nas"}, "E_QUERY", "asked with of"),
        ("dependant", {}, "E_QUERY", "dependents"),
        ("dependents", {}, "E_QUERY", "needs service"),
        ("dependents", {"service": "ap"}, "E_NOT_FOUND", "app"),
        ("dependents", {"service": "app", "project": "store"}, "E_NOT_FOUND", "app (git)"),
        ("dependents", {"service": "app", "projekt": "git"}, "E_QUERY", "projekt"),
        ("dependents", {"service": "app", "transitive": "maybe"}, "E_QUERY", "true or false"),
        ("dependents", {"service": "  "}, "E_QUERY", "service"),
        ("dependents", {"service": 7}, "E_QUERY", "service"),
        ("published_ports", {"port": "80a"}, "E_QUERY", "1 to 65535"),
        ("published_ports", {"port": 70000}, "E_QUERY", "1 to 65535"),
        ("published_ports", {"project": "gitt"}, "E_NOT_FOUND", "git"),
        ("published_ports", {"host": "nass"}, "E_NOT_FOUND", "nas"),
        ("networks", {"network": "back"}, "E_NOT_FOUND", "back"),
        ("images", {"image": "x" * 5000}, "E_NOT_FOUND", "Image"),
        ("services", {"limit": 0}, "E_QUERY", "limit"),
    ],
)
def test_a_wrong_argument_is_named(
    kb: KnowledgeBase, name: str, given: Mapping[str, Any], code: str, says: str
) -> None:
    with pytest.raises(TabootError) as error:
        kb.query(name, **given)
    assert error.value.code == code
    assert says in error.value.message


def test_the_list_names_what_is_asked_and_questions_that_are_answered(kb: KnowledgeBase) -> None:
    known = kb.queries()
    assert {q.name for q in known.queries} == set(QUERIES)
    assert known.to_arrow().num_rows == len(known.queries)
    assert known._repr_html_()
    asked = {a for q in QUERIES.values() for a in q.answers}
    # Every type of question that facts answer has a query; a comparison and a definition are none.
    assert set(FACTS) - asked <= {"admitted_to", "compare", "definition"}
    assert all(q.examples for q in known.queries if QUERIES[q.name].answers)


def test_what_is_affected_is_told_by_how_and_with_its_proof(kb: KnowledgeBase) -> None:
    def told(name: str, **options: Any) -> dict[str, set[tuple[str, str]]]:
        found = kb.impact(name, **options)
        for item in (i for g in found.groups for i in g.items):
            assert item.citations and item.citations[0].text, item
        assert found.to_arrow().num_rows == sum(len(g.items) for g in found.groups)
        assert found._repr_html_()
        assert found.unknown and found.scope.startswith("Read: ")
        return {g.how: {(i.name, i.through) for i in g.items} for g in found.groups}

    store = told("db", project="store")
    # Who asks a store for its data needs it, and so does who has that one's network.
    assert store["needs it"] == {("app", ""), ("sidecar", "app")}
    assert store["only starts after it"] == {("worker", "app")}
    assert store["shares its network"] >= {("app", "")} and ("lonely", "") not in store["shares its network"]
    assert ("lonely", "") in store["shares its host"]
    direct = told("db", project="store", transitive=False)
    assert direct["needs it"] == {("app", "")} and "only starts after it" not in direct
    app = told("app", project="git")
    assert app["only starts after it"] == {("worker", "")} and app["needs it"] == {("sidecar", "")}
    assert ("app", "") in told("backend", kind="network")["is on it"]
    assert {n for n, _ in told("nas")["runs on it"]} >= {"db", "lonely", "worker"}
    assert told("traefik")["is reached through it"] == {("app", "")}
    with pytest.raises(TabootError) as error:
        kb.impact("nothing-of-that-name")
    assert error.value.code == "E_NOT_FOUND"
    with pytest.raises(TabootError) as error:
        kb.impact("nas", kind="service")
    assert "That is the name of: Host" in error.value.message
    with pytest.raises(TabootError) as error:
        kb.impact("db", kind="city")
    assert error.value.code == "E_QUERY"


def test_what_is_named_by_an_option_a_route_or_a_reference_has_its_impact(
    tmp_path: Path, tei: FakeTei
) -> None:
    world = World(tmp_path, tei.url)
    stacks = world.source("stacks", "compose", host="rack", proxy="edge")
    shared = "volumes:\n  {0}: {{driver_opts: {{type: {1}, o: '{2}', device: '{3}'}}}}\n"
    for project, text in {
        "films": "  player:\n    image: acme/player:2\n    volumes: ['reels:/a', 'reels:/b']\n"
        "    labels: ['traefik.http.routers.p.rule=Host(`play.example.org`)']\n"
        "  guide: {image: 'guide:1', depends_on: [player]}\n"
        "  db: {image: 'postgres:16'}\n  seats: {image: 'seats:1', depends_on: [db]}\n"
        + shared.format("reels", "nfs", "addr=10.0.0.2,rw", ":/pool/films"),
        "books": "  reader: {image: 'reader:1', volumes: ['shelf:/a'], depends_on: [db]}\n"
        "  db: {image: 'postgres:16'}\n" + shared.format("shelf", "cifs", "user=me", "//10.0.0.2/pool/books"),
    }.items():
        (stacks / project).mkdir()
        (stacks / project / "compose.yaml").write_text(f"services:\n{text}")
    store = world.source("store", "compose", host="10.0.0.2")
    (store / "compose.yaml").write_text("services:\n  disks: {image: 'disks:1'}\n")
    notes = world.source("notes")
    (notes / "names.md").write_text(
        "| Host | IP |\n|---|---|\n| namer | 10.0.0.3 |\n| namer-old | 10.0.0.3 |\n"
    )
    world.source("edge", "files", proxy="edge", interpret=True)
    (world.directory / "edge" / "Caddyfile").write_text(
        "ups.example.org {\n  reverse_proxy 10.0.0.6:80\n}\n"
        "dns.example.org {\n  reverse_proxy 10.0.0.3:80\n}\n"
    )
    world.ingest()
    kb = world.kb()

    def told(name: str) -> tuple[str, dict[str, list[tuple[str, str]]]]:
        found = kb.impact(name)
        assert all(i.citations[0].text for g in found.groups for i in g.items)
        return found.kind, {g.how: [(i.name, i.at) for i in g.items] for g in found.groups}

    # A machine that is named by its address, and what is mounted from it.
    kind, ways = told("10.0.0.2")
    assert kind == "host" and ways["runs on it"] == [("disks", "")]
    assert ways["mounts a volume from it"] == [("reader", "shelf"), ("player", "reels")]
    assert ways["only starts after it"] == [("guide", "")]
    # What has an address, and what only a route leads to.
    assert told("10.0.0.3") == (
        "address",
        {"is a name that leads to it": [("dns.example.org", "10.0.0.3:80")]},
    )
    assert any("the address of namer and namer-old" in u for u in kb.impact("10.0.0.3").unknown)
    assert told("10.0.0.6") == (
        "address",
        {"is a name that leads to it": [("ups.example.org", "10.0.0.6:80")]},
    )
    # A path that the driver of a volume mounts.
    assert told("/pool/films")[1]["mounts it"] == [("player", "reels")]
    assert sorted(told("/pool")[1]["mounts it"]) == [("player", "reels"), ("reader", "shelf")]
    # An image as the file has it.
    assert told("acme/player:2") == (
        "image",
        {"runs it": [("player", "")], "only starts after it": [("guide", "")]},
    )
    # Host names: what stands behind one, behind those of a domain, and those of a service.
    assert told("play.example.org") == ("hostname", {"stands behind it": [("player", "play.example.org")]})
    assert {at for _, at in told("example.org")[1]["stands behind it"]} == {
        "play.example.org",
        "ups.example.org",
        "dns.example.org",
    }
    assert told("player")[1]["is a name that leads to it"] == [("play.example.org", "")]
    # Of several things of a name it is said which is meant.
    assert sorted(told("db")[1]["only starts after it"]) == [
        ("reader", "of db (books)"),
        ("seats", "of db (films)"),
    ]
    assert ("seats", "films_default") in told("default")[1]["is on it"]
    # What is counted is what was read, whatever machine its entry names.
    assert kb.impact("player").scope.startswith("Read: 4 files of 3 sources")
    world.workspace.close()


@pytest.mark.parametrize(("host", "own"), [(None, {"web", "shop"}), ("nas", {"shop", "db"})])
def test_what_no_source_says_a_machine_of_is_the_houses_own(
    tmp_path: Path, tei: FakeTei, host: str | None, own: set[str]
) -> None:
    """As ``taboot init`` leaves it; beside a source that names its machine, what names none is an example."""
    world = World(tmp_path, tei.url)
    web = "services:\n  web:\n    image: 'nginx:1'\n"
    (world.source("stacks", "compose") / "compose.yaml").write_text(web)
    shop = world.source("notes", "files", interpret=True) / "shop"
    shop.mkdir()
    (shop / "Dockerfile").write_text("FROM nginx:1\nEXPOSE 80\n")
    if host is not None:
        there = world.source("there", "compose", host=host)
        (there / "compose.yaml").write_text("services:\n  db:\n    image: 'postgres:16'\n")
    world.ingest()
    assert {r.cells["service"] for r in world.kb().query("services").rows} == own


def test_what_others_need_or_build_is_no_service_beside_theirs(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    house = world.source("house", "compose", proxy="edge")
    for folder in ("images", "other"):
        (house / folder).mkdir()
    (house / "compose.yaml").write_text(
        "services:\n"
        "  edge:\n    build: {context: images, dockerfile: edge.dockerfile}\n    depends_on: [web_db]\n"
        "  web:\n    image: 'nginx:1'\n    depends_on: [web-db]\n"
        "  web-db:\n    image: 'postgres:16'\n"
    )
    (house / "images/edge.dockerfile").write_text("FROM acme/edge:2\nEXPOSE 443\n")
    (house / "other/Dockerfile").write_text("FROM acme/other:1\n")
    # The same files by a source of their own.
    world.source("rest", path="house", include=["**/*ockerfile"], interpret=True)
    world.ingest()
    kb = world.kb()
    services = {(r.cells["service"], r.cells["project"]) for r in kb.query("services").rows}
    assert services == {("edge", "house"), ("web", "house"), ("web-db", "house"), ("other", "other")}
    assert kb.answer("how many services are there?").text.startswith("There are 4 services")
    assert kb.impact("edge").projects == ("house",)
    assert "web_db" in {r.cells["needs"] for r in kb.query("dependencies", service="edge").rows}


def test_what_hangs_on_a_proxy_does_not_hang_on_what_it_leads_to(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    house = world.source("house", "compose", host="nas", proxy="proxy")
    (house / "compose.yaml").write_text(
        "services:\n  web:\n    image: 'nginx:1'\n"
        "    labels: ['traefik.http.routers.web.rule=Host(`web.example.org`)']\n"
        "  films:\n    image: 'films:1'\n    network_mode: 'service:proxy'\n"
        "  proxy:\n    image: 'traefik:3'\n    environment: {WEB: 'http://web:80'}\n"
    )
    world.ingest()
    rows = world.kb().query("impact", service="web", transitive=True).rows
    assert {(r.cells["affected"], r.cells["how"]) for r in rows} == {("proxy", "connects to it")}
    rows = world.kb().query("impact", service="proxy", transitive=True).rows
    assert {(r.cells["affected"], r.cells["how"]) for r in rows} == {
        ("films", "needs it"),
        ("web", "is reached through it"),
    }


def test_what_hangs_on_a_service_does_not_hang_on_what_a_diagram_leads_it_to(
    tmp_path: Path, tei: FakeTei
) -> None:
    world = World(tmp_path, tei.url)
    (world.source("house", "compose", host="nas") / "compose.yaml").write_text(
        "services:\n  promtail: {image: 'grafana/promtail:3'}\n  loki: {image: 'grafana/loki:3'}\n"
        "  films: {image: 'jellyfin/jellyfin:10', network_mode: 'service:promtail'}\n"
    )
    (world.source("notes") / "flow.md").write_text(
        "# Data flow\n\nCentralized logging via Promtail → Loki (kept for a week).\n"
    )
    world.ingest()
    rows = world.kb().query("impact", service="loki", transitive=True).rows
    assert {(r.cells["affected"], r.cells["how"]) for r in rows} == {("promtail", "connects to it")}


def test_a_wildcard_is_found_by_itself_and_by_names_that_it_serves(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    proxy = world.source("proxy", "swag", proxy="swag")
    (proxy / "films.conf").write_text(
        "server { server_name films.*; location / { proxy_pass http://films:80; } }\n"
        "server { server_name music.*; location / { proxy_pass http://music:81; } }\n"
    )
    world.ingest()
    for name in ("films.*", "films.example.org"):
        (row,) = world.kb().query("routes", hostname=name).rows
        assert (row.cells["hostname"], row.cells["target_port"]) == ("films.*", 80)


def test_volumes_are_shared_by_their_real_names(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    house = world.source("house", "compose", host="nas")
    mounts = {
        "a": (
            "volumes: ['data:/a', './conf:/b', '/srv/x:/c', '/var/run/docker.sock:/s']",
            "{data: {name: shared}}",
        ),
        "b": ("volumes: ['other:/a', './conf:/b']", "{other: {external: true, name: shared}}"),
        "c": ("volumes: ['data:/a', '/srv/x:/c', '/var/run/docker.sock:/s']", "{data: }"),
    }
    for name, (volumes, declared) in mounts.items():
        (house / name).mkdir()
        (house / name / "compose.yaml").write_text(
            f"services:\n  {name}:\n    image: 'busybox:1'\n    {volumes}\nvolumes: {declared}\n"
        )
    world.ingest()
    kb = world.kb()
    found = kb.query("sharers", service="a")
    shared = {(r.cells["other"], r.cells["what"]) for r in found.rows if r.cells["shares"] == "volume"}
    assert shared == {("b", "shared"), ("c", "/srv/x")}


def test_who_passes_a_router_is_told_by_the_middlewares_of_its_chains(tmp_path: Path, tei: FakeTei) -> None:
    label = '"traefik.http.{}"'.format
    edge = {
        "dashboard": ["routers.d.rule=Host(`d.example.org`)", "routers.d.service=api@internal"],
        "chained": ["routers.d.middlewares=outer@docker", "middlewares.outer.chain.middlewares=head,door"],
        "door": ["middlewares.door.basicauth.users=${USERS}", "middlewares.head.headers.frameDeny=true"],
        # A chain that leads to itself.
        "round": ["middlewares.round.chain.middlewares=head,round", "routers.r.middlewares=round"],
        "r": ["routers.r.rule=Host(`r.example.org`)", "routers.r.service=api@internal"],
    }
    shop = [
        "routers.s.rule=Host(`s.example.org`)",
        "routers.s.middlewares=outer@docker",
        "services.s.loadbalancer.server.port=80",
    ]
    world = World(tmp_path, tei.url)
    folder = world.source("stacks", "compose", host="nas", proxy="edge")
    for project, image, labels in (
        ("edge", "traefik:3", [x for held in edge.values() for x in held]),
        (
            "shop",
            "nginx:1",
            [
                *shop,
                "routers.t.rule=Host(`t.example.org`)",
                "routers.t.middlewares=sso@file",
                "routers.u.rule=Host(`u.example.org`)",
                "routers.u.middlewares=far@file",
            ],
        ),
    ):
        (folder / project).mkdir()
        held = ", ".join(map(label, labels))
        text = f"services:\n  {project}:\n    image: {image}\n    labels: [{held}]\n"
        (folder / project / "compose.yaml").write_text(text.replace(", ", ",\n      "))
    (folder / "edge" / "dynamic.yml").write_text(
        "http: {middlewares: {sso: {forwardAuth: {address: http://authelia:9091}}}}\n"
    )
    world.source("files", "files", path="stacks", interpret=True, include=["**/dynamic.yml"])
    other = world.source("other", "files", interpret=True, include=["*.yml"])
    (other / "dynamic.yml").write_text("http: {middlewares: {far: {basicAuth: {users: [a]}}}}\n")
    world.ingest()
    rows = {row.cells["hostname"]: row for row in world.kb().query("routes").rows}
    assert {name: row.cells["login"] for name, row in rows.items()} == {
        "d.example.org": "basic",
        "r.example.org": None,
        "s.example.org": "basic",
        "t.example.org": "forward-auth (sso)",
        # It is asked for, and nobody of this machine declares it.
        "u.example.org": None,
    }
    said = "".join(c.text for c in rows["d.example.org"].citations)
    assert all(words in said for words in ("d.middlewares=outer", "outer.chain", "door.basicauth"))
    world.workspace.close()


def test_who_checks_a_login_is_needed_by_its_routes_and_entry_points_count(
    tmp_path: Path, tei: FakeTei
) -> None:
    """The address of a middleware leads to a service, and what its routers leave to entry points stands in
    the static configuration."""
    world = World(tmp_path, tei.url)
    folder = world.source("stacks", "compose", host="nas", proxy="edge")
    world.source("files", "files", path="stacks", interpret=True, include=["*.yml"], proxy="edge")
    (folder / "dynamic.yml").write_text(
        "http:\n  middlewares:\n    check: {forwardAuth: {address: 'http://door-1:9091/check'}}\n"
        "  routers:\n    far: {rule: Host(`far.example.org`), service: far, middlewares: [check]}\n"
        "    bare: {rule: Host(`bare.example.org`), service: far, entryPoints: [safe]}\n"
        "  services:\n    far: {loadBalancer: {servers: [{url: 'http://10.0.0.7:80'}]}}\n"
    )
    (folder / "traefik.yml").write_text(
        "providers: {docker: {}}\nentryPoints:\n"
        "  web: {address: ':80', http: {redirections: {entryPoint: {to: safe}}}}\n"
        "  safe: {address: ':443', http: {tls: {}}}\n  inner: {address: ':81', asDefault: false}\n"
        "  gate: {address: ':444', http: {tls: {}, middlewares: [check@file]}}\n"
    )
    label = "      - traefik.http.routers."
    (folder / "compose.yaml").write_text(
        "services:\n  door: {image: 'door:1', container_name: door-1, links: [store]}\n"
        "  store: {image: 'redis:7'}\n  net: {image: 'vpn:1', labels: [traefik.http.routers.n.rule="
        "Host(`n.example.org`), traefik.http.routers.n.entrypoints=safe]}\n"
        "  behind: {image: 'behind:1', network_mode: 'service:net'}\n"
        f"  loft:\n    image: 'loft:1'\n    labels:\n{label}a.rule=Host(`a.example.org`)\n"
        f"{label}a.middlewares=check@file\n{label}b.rule=Host(`b.example.org`)\n{label}b.entrypoints=safe\n"
        f"{label}c.rule=Host(`c.example.org`)\n{label}c.entrypoints=gate\n"
        f"{label}d.rule=Host(`d.example.org`)\n{label}d.entrypoints=inner\n"
        f"{label}e.rule=Host(`e.example.org`)\n{label}e.entrypoints=elsewhere\n"
    )
    world.ingest()
    kb = world.kb()
    rows = {str(r.cells["hostname"])[:-12]: r for r in kb.query("routes").rows}
    asked = "forward-auth (check)"
    assert {name: (row.cells["login"], row.cells["tls"]) for name, row in rows.items()} == {
        "a": (asked, None),
        "b": ("", True),
        "c": (asked, True),
        "d": ("", False),
        "e": (None, None),
        "n": ("", True),
        "far": (asked, None),
        "bare": ("", True),
    }
    groups = {g.how: {(i.name, i.at, i.through) for i in g.items} for g in kb.impact("store").groups}
    ways = (("loft", "a"), ("loft", "c"), ("10.0.0.7:80", "far"))
    assert groups["asks it for the login"] == {(n, f"{at}.example.org", "door") for n, at in ways}
    answer = kb.answer("What depends on door?").text
    assert "3 routes ask door (stacks) for the login" in answer, answer
    open_ = {f"{name}.example.org" for name in ("b", "d", "n", "bare")}
    assert {r.cells["hostname"] for r in kb.query("unprotected_routes").rows} == open_
    found = kb.rules("route-without-login").findings
    assert {f.subject for f in found} == open_
    (bare,) = (f for f in found if f.subject == "bare.example.org")
    assert "bare: {rule" in (folder / "dynamic.yml").read_text().split("\n")[bare.citations[0].line - 1]
    assert "behind" not in {r.cells["service"] for r in kb.query("unexposed_services").rows}
    world.workspace.close()


def test_each_way_to_a_target_has_its_own_login(tmp_path: Path, tei: FakeTei) -> None:
    """What one host name asks for says nothing of another that leads to the same port."""
    world = World(tmp_path, tei.url)
    folder = world.source("edge", "files", proxy="edge", interpret=True)
    (folder / "Caddyfile").write_text(
        "(door) {\n  forward_auth door:3000 {\n    uri /check\n  }\n}\n"
        "out.example.org {\n  import door\n  reverse_proxy loft:80\n}\n"
        "in.example.org {\n  reverse_proxy loft:80\n}\n"
        "far.example.org {\n  import door\n  reverse_proxy 10.0.0.7:8080\n}\n"
        "lost.example.org {\n  reverse_proxy cellarage:9000\n}\n"
    )
    (stacks := world.source("stacks", "compose", host="nas", proxy="edge")).mkdir(exist_ok=True)
    (stacks / "compose.yaml").write_text(
        "services:\n  loft:\n    image: loft:1\n    labels:\n"
        "      - traefik.http.routers.a.rule=Host(`a.example.org`)\n"
        "      - traefik.http.routers.a.middlewares=sign\n"
        "      - traefik.http.routers.b.rule=Host(`b.example.org`)\n"
        "      - traefik.http.middlewares.sign.basicauth.users=x\n"
        "      - traefik.http.services.s.loadbalancer.server.port=80\n"
    )
    world.ingest()
    kb = world.kb()
    logins = {r.cells["hostname"]: r.cells["login"] for r in kb.query("routes").rows}
    assert logins == {
        "out.example.org": "forward-auth (door:3000)",
        "in.example.org": "",
        "far.example.org": "forward-auth (door:3000)",
        "lost.example.org": "",
        "a.example.org": "basic",
        # What asks at its entry point stands in a static configuration that nobody has read.
        "b.example.org": None,
    }
    found = kb.rules("route-without-login").findings
    assert {f.subject for f in found} == {"in.example.org", "lost.example.org"}
    assert "declares no login before it" in kb.answer("Is in.example.org behind a login?").text
    assert kb.answer("Is out.example.org behind a login?").text.startswith("Yes")
    # What no file declares is counted and told of, and who asks for logins is told of no others.
    led_to = kb.answer("How many services does edge lead to?").text
    assert "6 names" in led_to and "No file that was read declares cellarage." in led_to, led_to
    asking = kb.answer("Which routes of edge have a login?").text
    assert all(n in asking for n in ("out.", "far.", "a.")) and "in." not in asking, asking
    world.workspace.close()


def test_machines_addresses_volumes_and_paths_are_asked_about(tmp_path: Path, tei: FakeTei) -> None:
    """What runs on a machine may be said by a text alone, and of what nobody tells anything it is not said
    that nothing hangs on it."""
    world = World(tmp_path, tei.url)
    stacks = world.source("stacks", "compose")
    (stacks / "loft").mkdir()
    (stacks / "loft" / "compose.yaml").write_text(
        "services:\n  attic: {image: 'attic:1', volumes: ['trunk:/trunk', '/pool/films/old:/films']}\n"
        "  roof: {image: 'roof:1', volumes: ['/pool/films:/films', '/pool/filmstrips:/strips'],\n"
        "    ports: ['10.0.0.9:81:80'], depends_on: [attic]}\n"
        "volumes: {trunk: {}}\n"
    )
    notes = world.source("notes")
    (notes / "machines.md").write_text(
        "# Machines\n\n| Host | IP |\n|---|---|\n| barn | 10.0.0.5 |\n"
        "| stable | 10.0.0.6 |\n\n| Service | Host |\n|---|---|\n| attic | barn |\n"
    )
    world.source("edge", "files", proxy="edge", interpret=True)
    (world.directory / "edge" / "Caddyfile").write_text(
        "shed.example.org {\n  reverse_proxy 10.0.0.9:82\n}\n"
    )
    world.ingest()
    kb = world.kb()

    def told(name: str) -> tuple[str, dict[str, set[tuple[str, str]]]]:
        found = kb.impact(name)
        assert all(i.citations for g in found.groups for i in g.items)
        return found.kind, {g.how: {(i.name, i.at) for i in g.items} for g in found.groups}

    runs = {"runs on it": {("attic", "")}, "only starts after it": {("roof", "")}}
    assert told("barn") == told("10.0.0.5") == ("host", runs)
    assert any("No source is said to be of this machine" in u for u in kb.impact("barn").unknown)
    empty = kb.impact("stable")
    assert not empty.groups and empty.nothing.startswith("What runs on it is not known")
    assert told("10.0.0.9") == (
        "address",
        {
            "publishes a port on it": {("roof", "81")},
            "is a name that leads to it": {("shed.example.org", "10.0.0.9:82")},
        },
    )
    after = {"only starts after it": {("roof", "")}}
    assert told("trunk") == told("loft_trunk") == ("volume", {"mounts it": {("attic", "trunk")}, **after})
    films = {("attic", "/pool/films/old"), ("roof", "/pool/films")}
    assert told("/pool/films/") == ("volume", {"mounts it": films})
    for name in ("nobody", "/films", "10.0.0.77"):
        with pytest.raises(TabootError, match=f"Nothing named '{name}' is known") as error:
            kb.impact(name)
        assert error.value.code == "E_NOT_FOUND"
    world.workspace.close()


def test_a_machine_that_is_called_as_a_source_is(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    for source, host in (("infra", "infra"), ("apps", "far")):
        folder = world.source(source, "compose", host=host) / source
        folder.mkdir()
        (folder / "compose.yaml").write_text("services: {web: {image: 'nginx:1', ports: ['80:80']}}\n")
    world.ingest()
    rows = world.kb().query("published_ports").rows
    assert [(r.cells["service"], r.cells["project"]) for r in rows] == [("web", "apps"), ("web", "infra")]
