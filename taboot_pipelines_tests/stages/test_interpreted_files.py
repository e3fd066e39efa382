"""Configuration files in a source with ``interpret: true``: what each is, and what is read again when."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.extraction.tier_a.recognition import Format, base_name, recognise, top_keys
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    NodeRef,
    Problem,
    SourceFacts,
)
from taboot_pipelines.sources.builtin import Files
from taboot_pipelines.stages import tier_a_triples
from taboot_pipelines_tests.fakes.github import TOKEN, FakeGithub
from taboot_pipelines_tests.stages.test_tier_a_triples import interpret, observations, units
from taboot_pipelines_tests.world import World


@dataclass
class Words:
    """A reader of a made-up format: each word behind ``to`` is a service that the proxy routes to; a line
    ``take PATH`` takes a file in."""

    name: str
    version: str = "1"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        text = view.read(path) or ""
        if "broken" in text:
            raise TabootError("E_PARSE", f"{path}: it is broken.", path=path)
        proxy = NodeRef("ReverseProxy", (source.proxy or source.source_id,), source.proxy or source.source_id)
        nodes, edges, taken = [], [], set()
        words = text.split()
        for verb, word in pairwise(words):
            at = Evidence(path, text.index(word), text.index(word) + len(word))
            if verb == "take" and view.read(word) is not None:
                taken.add(word)
            if verb == "to":
                end = NodeRef("Service", ("", word), word)
                nodes.append(NodeClaim(end, at))
                edges.append(
                    EdgeClaim(
                        "ROUTES_TO", proxy, end, at, self.name, Basis.SOURCE, Basis.BYTES, {"tls": False}
                    )
                )
        return Interpretation(tuple(nodes), tuple(edges), frozenset(taken))


def formats(one: str = "1", two: str = "1") -> list[Format]:
    return [
        Format(
            "one",
            (Words("one", one),),
            by_path=lambda path: base_name(path) == "One",
            by_content=lambda head: "kind: one" in head,
            endings={"yml"},
        ),
        Format(
            "two",
            (Words("two", two),),
            by_path=lambda path: path.endswith("two.yml"),
            by_content=lambda head: "kind:" in head,
            endings={"yml", "cfg"},
        ),
    ]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):
    def set_formats(found: list[Format]) -> None:
        monkeypatch.setattr(Files, "extractors", lambda _, interprets: (ConfigFiles(found),) * interprets)

    set_formats(formats())
    return set_formats


def write(path: Path) -> None:
    (path / "a.yml").write_text("kind: one\nto alpha\n")
    (path / "b.cfg").write_text("kind: one to beta\n")
    (path / "c.two.yml").write_text("kind: one to gamma\n")
    (path / "d.yml").write_text("services: {db: {image: redis}}\n")
    (path / "e.md").write_text("# kind: one\n\nto delta\n")


def methods(world: World) -> dict[str, str]:
    return {r["end_name"]: r["method"] for r in observations(world, "conf") if r["method"] in ("one", "two")}


@pytest.mark.usefixtures("use")
def test_a_name_goes_over_content_and_the_first_format_over_the_others(world: World) -> None:
    write(world.source("conf", "files", interpret=True, proxy="edge"))
    interpret(world, "conf")
    assert methods(world) == {"alpha": "one", "beta": "two", "gamma": "two"}
    assert {r["start_name"] for r in observations(world, "conf") if r["method"] in ("one", "two")} == {"edge"}
    assert {u for u in units(world, "conf") if u.startswith("config:")} == {
        "config:a.yml",
        "config:b.cfg",
        "config:c.two.yml",
        "config:d.yml",
    }, "what no format may be is no unit"


@pytest.mark.usefixtures("use")
def test_without_interpret_nothing_is_read_so(world: World) -> None:
    write(world.source("conf", "files"))
    interpret(world, "conf")
    assert methods(world) == {} and not any(u.startswith("config:") for u in units(world, "conf"))
    assert tier_a_triples.versions(tier_a_triples.InterpretedKind("files"))[-1] is None, (
        "no format takes part"
    )


def test_another_version_of_a_format_interprets_its_files_again_and_no_others(world: World, use) -> None:
    write(world.source("conf", "files", interpret=True))
    interpret(world, "conf")
    before = units(world, "conf")
    use(formats(two="2"))
    assert interpret(world, "conf").counts["interpreted"] == 2
    after = units(world, "conf")
    assert {u for u in after if after[u] != before[u]} == {"config:b.cfg", "config:c.two.yml"}
    use(formats(two="2")[:1])
    report = interpret(world, "conf")
    assert report.counts["interpreted"] == 3, "another list may see other formats; b.cfg is of none"
    # c.two.yml is the other format now.
    assert methods(world) == {"alpha": "one", "gamma": "one"}


@pytest.mark.usefixtures("use")
def test_a_file_that_another_takes_in_is_no_unit_of_its_own(world: World) -> None:
    path = world.source("conf", "files", interpret=True)
    (path / "a.yml").write_text("kind: one take b.yml\n")
    (path / "b.yml").write_text("kind: one to beta\n")
    interpret(world, "conf")
    assert methods(world) == {}, "the made-up reader says nothing of what it takes in"
    (path / "a.yml").write_text("kind: one\n")
    interpret(world, "conf")
    assert methods(world) == {"beta": "one"}


@pytest.mark.usefixtures("use")
def test_a_bad_file_is_a_problem_and_the_rest_goes_on(world: World) -> None:
    path = world.source("conf", "files", interpret=True)
    write(path)
    (path / "bad.yml").write_text("kind: one broken\n")
    (path / "empty.two.yml").write_text("\n")
    report = interpret(world, "conf")
    assert {p["item"]: p["code"] for p in report.problems} == {
        "config:bad.yml": "E_PARSE",
        "config:empty.two.yml": "E_EMPTY",
    }
    assert set(methods(world)) == {"alpha", "beta", "gamma"}


def test_what_each_reader_of_a_format_says_is_joined() -> None:
    both = Format("both", (Words("x"), Words("y")), by_path=lambda _path: True)
    view = FileView(frozenset({"f"}), {"f": "to alpha"}.get)
    found = ConfigFiles([both])
    (unit,) = found.units(["f"])
    said = found.interpret(unit, view, SourceFacts("default", "s"))
    assert [e.method for e in said.edges] == ["x", "y"] and said.format == "both"
    assert said.problems == () and found.formats == {"both": "x.1,y.1"}
    broken = found.interpret(
        unit, FileView(frozenset({"f"}), {"f": "broken"}.get), SourceFacts("default", "s")
    )
    assert broken.problems == (Problem("f", "E_PARSE", "f: it is broken."),), "said once"


def test_recognition() -> None:
    assert top_keys("# x\na: 1\n'b': 2\n  c: 3\n- d: 4\ne:f\n") == {"a", "b", "d"}
    assert recognise(formats(), "x/One", "") is not None
    assert recognise(formats(), "x/none.yml", "nothing") is None


CADDYFILE = "shop.lan {\n\timport sites/*.caddy\n\treverse_proxy shop:3000\n}\n"
HAPROXY = "defaults\n mode http\nfrontend f\n bind :80\n default_backend b\nbackend b\n server s web:80\n"
DYNAMIC = """http:
  routers:
    a: {rule: Host(`a.lan`), service: a}
  services:
    a: {loadBalancer: {servers: [{url: "http://app:8080"}]}}
"""


def routes(world: World) -> set[tuple[str, str, str | None, str]]:
    """Return {(proxy, target, host, file)} of the routes in the graph."""
    kb = world.kb()
    urls = {d["doc_id"]: d["url"] for d in kb.documents().to_pylist()}
    return {
        (
            e["start_name"],
            e["end_name"],
            json.loads(e["properties"]).get("host"),
            urls[e["doc_id"]].rpartition("/")[2],
        )
        for e in kb.edges().to_pylist()
        if e["type"] == "ROUTES_TO"
    }


def test_real_formats_through_the_chain(world: World) -> None:
    path = world.source("conf", "files", interpret=True, proxy="edge")
    (path / "sites").mkdir()
    (path / "Caddyfile").write_text(CADDYFILE)
    (path / "sites/api.caddy").write_text("reverse_proxy /api/* api:81\n")
    (path / "haproxy.cfg").write_text(HAPROXY)
    (path / "dynamic.yml").write_text(DYNAMIC)
    (path / "compose.yaml").write_text("services: {db: {image: redis, ports: ['6379:6379']}}\n")
    (path / "nginx.conf").write_text("server { location / { proxy_pass http://front:80; } }\n")
    world.ingest()
    assert routes(world) == {
        ("edge", "shop", "shop.lan", "Caddyfile"),
        ("edge", "api", "shop.lan", "api.caddy"),
        ("edge", "web", None, "haproxy.cfg"),
        ("edge", "app", "a.lan", "dynamic.yml"),
        ("edge", "front", None, "nginx.conf"),
    }
    assert {e["type"] for e in world.kb().edges().to_pylist()} == {
        "ROUTES_TO",
        "EXPOSES_ENDPOINT",
        "MENTIONS",
    }, "a Compose file stays with its source type"
    (path / "sites/api.caddy").write_text("reverse_proxy /api/* other:81\n")
    assert interpret(world, "conf").counts["interpreted"] == 3, "it, the Caddyfile, and its document"
    shutil.rmtree(path / "sites")
    world.ingest()
    assert {target for _, target, _, _ in routes(world)} == {"shop", "web", "app", "front"}


def test_each_repository_is_a_root_of_its_configuration_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    with FakeGithub() as hub:
        hub.repository("acme/one", {"proxy/Caddyfile": CADDYFILE, "proxy/sites/x.caddy": "respond 200\n"})
        hub.repository("acme/two", {"haproxy.cfg": HAPROXY, "stack/dynamic.yml": DYNAMIC})
        fields = {"path": None, "base_url": hub.url, "token": "${GITHUB_TOKEN}", "organisations": ["acme"]}
        world.source("hub", "github", **fields)
        world.ingest()
        assert routes(world) == set()
        world.source("hub", "github", interpret=True, **fields)
        assert not [p for report in world.ingest() for p in report.problems]
        found = routes(world)
    assert {(proxy, target) for proxy, target, _, _ in found} == {
        ("acme.one", "shop"),
        ("acme.two", "web"),
        ("acme.two", "app"),
    }
