"""``taboot domains``: what holds, and what a person blocks while sources are read."""

from __future__ import annotations

import http.server
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from taboot_pipelines.crawl.proxies import Proxy
from taboot_pipelines.errors import TabootError
from taboot_pipelines.sources.sources_file import load_sources
from taboot_pipelines.stages.domains import blocks, open_domains, open_proxies, set_blocked
from taboot_pipelines.stores.catalog import crawl_urls
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.cli.test_metrics import read
from taboot_pipelines_tests.connectors.servers import Site, send, serve
from taboot_pipelines_tests.crawl.test_client import http_proxy
from taboot_pipelines_tests.world import World

PAGE = b"<html><body><h1>Page</h1><p>The grafana service listens on port 3000 of the host.</p></body></html>"


@pytest.fixture
def site() -> Iterator[Site]:
    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        send(request, 200, PAGE + request.path.encode(), content_type="text/html")

    with serve(handle) as found:
        yield found


def declare(world: World, site: Site, **top: Any) -> None:
    world.entries = [
        {"id": "site", "type": "web", "urls": [f"{site.base}/a"], "allow_cidrs": ["127.0.0.0/8"]},
    ]
    (world.directory / "sources.yaml").write_text(yaml.safe_dump({"sources": world.entries, **top}))


def test_a_block_holds_at_run_time_and_after_and_against_the_file(world: World, site: Site) -> None:
    shell, name = Shell(world), f"127.0.0.1:{site.port}"
    declare(world, site, domains={"ads.example": {"blocked": True}, "example.org": {"rate_limit_rps": 0.5}})
    world.ingest("site")
    rows = {r["domain"]: r for r in shell.json("domains")}
    assert list(rows) == [name, "ads.example", "example.org"]
    assert [rows[d]["blocked"] for d in rows] == [False, True, False]
    assert [rows[d]["said_by"] for d in rows] == ["default", "file", "file"]
    assert rows["example.org"]["rate_limit_rps"] == 0.5 and rows[name]["rate_limit_rps"] == 1

    assert f"{name} is blocked" in shell("domains", "block", name, "--reason", "too loud")
    before = site.hits["/a"]
    raw = next(r for r in world.ingest("site") if r.stage == "raw_blobs")
    assert [p["code"] for p in raw.problems if p["item"].endswith("/a")] == ["E_DOMAIN_BLOCKED"]
    assert site.hits["/a"] == before and len(world.kb().documents()) == 1, (
        "what is blocked is unknown, not gone"
    )
    row = next(r for r in shell.json("domains") if r["domain"] == name)
    assert (row["blocked"], row["said_by"], row["reason"]) == (True, "person", "too loud") and row["at"]

    shell("domains", "unblock", name)
    shell("domains", "unblock", "ADS.example")
    rows = {r["domain"]: r for r in shell.json("domains")}
    assert not rows[name]["blocked"] and rows[name]["said_by"] == "default"
    assert not rows["ads.example"]["blocked"] and rows["ads.example"]["said_by"] == "person"
    world.ingest("site")
    assert site.hits["/a"] == before + 1
    shown = shell("domains")
    assert "ads.example" in shown and "open" in shown


def test_what_crawls_came_to_is_counted_for_ever_and_each_domain_is_told_apart(
    world: World, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, name = Shell(world), f"127.0.0.1:{site.port}"
    declare(world, site)
    world.entries[0]["urls"] += [f"{site.base}/b", f"http://localhost:{site.port}/c"]
    world.entries[0]["allow_cidrs"] += ["::1/128"]
    declare_entries(world)
    world.ingest("site")
    row = {r["domain"]: r for r in shell.json("domains")}[name]
    assert row["pages"] == {"fetched": 2} and row["answers"] == 2 and row["answer_seconds"] > 0
    assert row["bytes"] == 2 * len(PAGE + b"/a") and row["rest_seconds"] is None
    world.ingest("site")
    world.workspace.catalog.crawls.forget_source("default", "site")
    rows = {r["domain"]: r for r in shell.json("domains")}
    assert rows[name]["pages"] == {"fetched": 4}, "its crawls are forgotten, it is not"
    assert rows[f"localhost:{site.port}"]["pages"] == {"fetched": 2}
    found = read(shell("metrics"))
    assert found["taboot_crawl_pages_total", "default", name, "fetched"] == 4
    assert found["taboot_crawl_duration_seconds_count", "default"] == 6

    monkeypatch.setattr(crawl_urls, "MAX_HOSTS", 2)
    world.entries[0]["urls"] = [f"http://127.0.0.{last}:{site.port}/a" for last in (1, 2, 3)]
    declare_entries(world)
    world.ingest("site")
    rows = {r["domain"]: r for r in shell.json("domains")}
    assert sum(rows[name]["pages"].values()) == 5 and sum(rows["other"]["pages"].values()) == 2
    assert rows[f"127.0.0.2:{site.port}"]["pages"] == {}

    for _ in range(2):
        world.workspace.state.circuit_failed("default", f"circuit:{name}", threshold=2, rest_seconds=60)
    assert 50 < {r["domain"]: r for r in shell.json("domains")}[name]["rest_seconds"] <= 60
    assert "rests" in shell("domains")
    assert read(shell("metrics"))["taboot_circuit_rest_seconds", "default", name] > 50


def declare_entries(world: World) -> None:
    (world.directory / "sources.yaml").write_text(yaml.safe_dump({"sources": world.entries}))


def test_names_that_are_none_and_a_home_that_is_none(world: World, tmp_path: Path) -> None:
    shell = Shell(world)
    world.workspace.catalog.sources.find()
    shell("domains", "block", "http://example.org/x", code=1)
    assert "E_URL_BAD" in shell.err
    assert shell.json("domains") == []
    shell.environment["TABOOT_HOME"] = str(tmp_path / "none")
    shell("domains", "block", "example.org", code=1)
    assert "E_KB_UNINITIALIZED" in shell.err and not (tmp_path / "none").exists()


def test_blocks_are_heeded_by_what_runs_and_namespaces_have_their_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taboot_pipelines.crawl.domains.RELOAD_SECONDS", 0.0)
    catalog = world.workspace.catalog
    running = open_domains(catalog, "default", world.workspace.settings.http)
    assert set_blocked(catalog, "default", "Example.org", True) == "example.org"
    running.reload()
    assert running.limits("example.org").blocked
    assert blocks(catalog, "default") == {"example.org": True} and blocks(catalog, "home") == {}
    set_blocked(catalog, "default", "example.org", False)
    running.reload()
    assert not running.limits("example.org").blocked and blocks(catalog, "default") == {}


def test_the_file_s_domains_and_proxies_reach_every_process_through_the_catalog(
    world: World, site: Site
) -> None:
    servers = [{"url": "http://proxy.lan:3128", "username": "u", "password": "${PROXY_PASSWORD}"}]
    declare(
        world, site, domains={"example.org": {"delay_seconds": 2}}, proxies={"home": {"servers": servers}}
    )
    workspace = world.workspace
    workspace.sync_sources()
    (world.directory / "sources.yaml").unlink()
    assert (
        open_domains(workspace.catalog, "default", workspace.settings.http).limits("example.org").delay == 2
    )

    class Secret:
        def __init__(self, text: str) -> None:
            self.text = text

        def get_secret_value(self) -> str:
            return self.text

    found = open_proxies(workspace.catalog, workspace.hints, "default", "home", lambda n: Secret(f"<{n}>"))
    assert found.choose() == Proxy("http", "proxy.lan", 3128, "u", "<PROXY_PASSWORD>")
    with pytest.raises(TabootError, match="E_SOURCES"):
        open_proxies(workspace.catalog, workspace.hints, "default", "none", lambda n: Secret(n))
    declare(world, site)
    workspace.sync_sources()
    assert (
        open_domains(workspace.catalog, "default", workspace.settings.http).limits("example.org").delay == 0
    )
    assert load_sources(world.directory / "sources.yaml").proxies == {}


def test_proxies_are_gone_by_and_tested_as_a_source_goes_by_them(
    world: World, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_PASSWORD", "s3cret")
    with http_proxy() as (port, heads):
        base = f"http://127.0.0.1:{port}"
        servers = [{"url": base, "username": "u", "password": "${PROXY_PASSWORD}"}]
        declare(
            world,
            site,
            proxies={"home": {"servers": servers}, "shut": {"servers": [{"url": "http://127.0.0.1:9"}]}},
        )
        entry = world.entries[0] | {"proxies": "home"}
        file = world.directory / "sources.yaml"
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"sources": [entry]}))
        raw = next(r for r in world.ingest("site") if r.stage == "raw_blobs")
        assert raw.problems == [] and len(world.kb().documents()) == 1
        # The only connection that was made went by the proxy, to the site.
        assert heads and all(head.startswith(f"CONNECT 127.0.0.1:{site.port} ".encode()) for head in heads)
        assert all(b"Proxy-Authorization: Basic " in head for head in heads)

        shell = Shell(world)
        shell.environment["PROXY_PASSWORD"] = "s3cret"
        rows = shell.json("proxies")
        assert [(r["list"], r["proxy"]) for r in rows] == [
            ("home", base),
            ("shut", "http://127.0.0.1:9"),
        ]
        test = ("--test", "--url", f"{site.base}/a", "--allow-cidr", "127.0.0.0/8")
        (row,) = shell.json("proxies", "home", *test)
        assert row["works"] and row["proxy"] == base
        shown = shell("proxies", *test, code=1)
        assert "works" in shown and "E_PROXY" in shown and "s3cret" not in shown
        shell("proxies", "none", code=1)
        assert "E_SOURCES" in shell.err


def test_a_source_names_no_proxies_that_are_not_there(world: World, site: Site) -> None:
    declare(world, site)
    file = world.directory / "sources.yaml"
    file.write_text(yaml.safe_dump({"sources": [world.entries[0] | {"proxies": "home"}]}))
    with pytest.raises(
        TabootError, match=r"E_SOURCES.*entry 1 \(site\) names proxies home, which the file does not"
    ):
        world.workspace.sync_sources()


def test_a_domain_that_failed_is_asked_again_at_once(world: World, site: Site) -> None:
    shell, name = Shell(world), f"127.0.0.1:{site.port}"
    declare(world, site)
    world.workspace.sync_sources()
    state = world.workspace.state
    for _ in range(9):
        state.circuit_failed("default", f"circuit:{name}", threshold=3, rest_seconds=600)
    state.set("default", f"retry_after:{name}", repr(time.time() + 600).encode(), 600)
    world.ingest("site")
    before = site.hits["/a"]
    assert f"{name} is asked again" in shell("domains", "reset", name.upper())
    world.ingest("site")
    assert (before, site.hits["/a"]) == (0, 1)
    shell("domains", "reset", "no domain", code=1)
    assert "E_URL_BAD" in shell.err
