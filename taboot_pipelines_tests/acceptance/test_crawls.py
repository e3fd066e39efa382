"""Crawls by the whole chain: real sites on loopback, killed processes, traps."""

from __future__ import annotations

import html
import ipaddress
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.crawl.addresses import Address
from taboot_pipelines.crawl.crawler import CHECKPOINT_PAGES
from taboot_pipelines.model.crawls import Outcome, totals
from taboot_pipelines.settings import HttpSettings
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.crawl_rows import leads_of
from taboot_pipelines_tests.world import World, logical

HOST = "site.test"
LOOPBACK = ["127.0.0.0/8"]


@pytest.fixture
def sites(tmp_path: Path, tei: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world whose web is on loopback, whatever a host is called."""

    def loopback(host: str, port: int) -> list[Address]:
        return [ipaddress.ip_address("127.0.0.1")]

    real = Access.of

    def of(*args: Any, **kwargs: Any) -> Access:
        access = real(*args, **kwargs)
        return replace(access, http=replace(access.http, resolver=loopback))

    monkeypatch.setattr(Access, "of", of)
    made = World(tmp_path, tei.url, http={"rate_limit_rps": 0, "max_concurrency": 8})
    yield made
    made.workspace.close()


def web(world: World, port: int, path: str = "/", **fields: Any) -> None:
    fields = {"urls": [f"http://{HOST}:{port}{path}"], "allow_cidrs": LOOPBACK, "max_depth": 20, **fields}
    world.source("site", "web", path=None, **fields)


def last(world: World) -> Any:
    return world.workspace.catalog.crawls.find("default", "site", 1)[0]


# --- real sites ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["site-ingress-nginx", "site-external-dns"])
def real(request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(files by path on the host, the path of the first page, the origin that its own URLs name)."""
    if request.param == "site-ingress-nginx":
        folder, prefix, origin = (
            data / request.param / "site",
            "/ingress-nginx/",
            "https://kubernetes.github.io",
        )
    else:
        folder = tmp_path_factory.mktemp("site")
        shutil.unpack_archive(data / request.param / "site.tar.xz", folder)
        folder = min((p.parent for p in folder.rglob("index.html")), key=lambda p: len(p.parts))
        prefix, origin = "/external-dns/v0.22.0/", "https://kubernetes-sigs.github.io"
    files = {
        prefix + p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    return files, prefix, origin


def served(files: Mapping[str, bytes], origin: str, path: str, port: int) -> bytes | None:
    name = path.partition("?")[0]
    body = files.get(name + "index.html" if name.endswith("/") else name)
    return None if body is None else body.replace(origin.encode(), f"http://{HOST}:{port}".encode())


def reachable(files: Mapping[str, bytes], origin: str, prefix: str, port: int) -> tuple[set[str], set[str]]:
    """The paths of pages reachable by links from the first or by the sitemap, and those of broken links: by a
    regular expression and the standard library.
    """
    base = f"http://{HOST}:{port}"
    listed = re.findall(
        r"<loc>(.*?)</loc>", (served(files, origin, prefix + "sitemap.xml", port) or b"").decode()
    )
    seen = {prefix, *(url.removeprefix(base) for url in listed)}
    broken: set[str] = set()
    queue = sorted(seen)
    while queue:
        path = queue.pop()
        body = served(files, origin, path, port)
        if body is None:
            broken.add(path)
            continue
        if not path.endswith(("/", ".html")):
            continue
        text = re.sub(
            r"<!--.*?-->|<script\b.*?</script>|<template\b.*?</template>", "", body.decode(), flags=re.DOTALL
        )
        for match in re.finditer(r"<a\b[^>]*?\bhref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))", text):
            href = html.unescape(next(g for g in match.groups() if g is not None)).strip()
            try:
                url = urljoin(base + path, href).partition("#")[0]
            except ValueError:
                continue
            target = url.removeprefix(base)
            asset = re.search(r"\.(png|svg|jpe?g|pdf|js|css|zip|gz)$", target)
            if url.startswith(base + prefix) and not asset and target not in seen:
                seen.add(target)
                queue.append(target)
    return seen - broken, broken


def test_a_real_site_is_found_whole_and_each_page_once(sites: World, real: Any) -> None:
    files, prefix, origin = real
    port = 0

    def answer(h: BaseHTTPRequestHandler) -> None:
        body = served(files, origin, h.path, port)
        etag = f'"{hash(body)}"'
        kind = "text/html; charset=utf-8" if h.path.endswith(("/", ".html")) else "text/plain"
        if body is None:
            send(h, 404)
        elif h.headers.get("If-None-Match") == etag:
            send(h, 304)
        else:
            send(h, 200, body, content_type=kind, etag=etag)

    with serve(answer) as site:
        port = site.port
        pages, broken = reachable(files, origin, prefix, port)
        assert len(pages) > 60
        # The sitemap of the other site lists nothing, which is told as a failure of the list.
        sitemap = prefix + "sitemap.xml"
        lists = [f"http://{HOST}:{port}{sitemap}"] if b"<loc>" in files[sitemap] else []
        web(sites, port, prefix, sitemaps=lists)
        sites.run("raw_blobs", "site")
        aside = {"/robots.txt", sitemap}
        asked = {p: n for p, n in site.hits.items() if p not in aside}
        assert set(asked) == pages | broken and set(asked.values()) == {1}
        held = sites.workspace.catalog.locators.of_source("default", "site")
        texts = {f"http://{HOST}:{port}{p}" for p in pages}
        assert set(held) <= texts and len(held) >= len(texts) - 5
        crawl, sums = last(sites), totals(last(sites).counts)
        assert crawl.complete and sums["discovered"] == len(pages | broken)
        assert sums["discovered"] == sums["fetched"] + sums["skipped"] + sums["failed"]
        letters = sites.workspace.catalog.dead_letters.find("default", "site", "raw_blobs")
        told = {x["item"] for x in letters if x["code"] == "E_NOT_FOUND"}
        assert told == {f"http://{HOST}:{port}{p}" for p in broken}
        linked = {child for _, child in leads_of(sites.workspace.catalog.crawls, crawl, "default")}
        assert linked >= told, "who links to a page that does not exist is known"
        blobs = sites.workspace.catalog.blobs.hashes("default")

        site.hits.clear()
        site.headers.clear()
        before = sites.workspace.catalog.pointers.get("default", "site", "raw_blobs")
        report = sites.run("raw_blobs", "site")
        assert all("if-none-match" in h for p, h in site.headers if p in pages)
        assert set(site.hits) - aside == pages | broken
        assert sites.workspace.catalog.blobs.hashes("default") == blobs
        assert sites.workspace.catalog.pointers.get("default", "site", "raw_blobs") == before
        assert report.counts["fetched"] == 0 and totals(last(sites).counts)["fetched"] == 0
        assert totals(last(sites).counts)["not_modified"] == len(held)


def test_an_unchanged_site_makes_no_work_downstream_and_a_page_that_went_is_retired(sites: World) -> None:
    pages = {f"/p{i}": f"<h1>Page {i}</h1><p>The pump number {i} runs at noon.</p>" for i in range(9)}
    broken: set[str] = set()

    def answer(h: BaseHTTPRequestHandler) -> None:
        if h.path in broken:
            send(h, 503)
        elif h.path == "/":
            there = "".join(f'<a href="{p}">{p}</a> ' for p in pages)
            send(
                h,
                200,
                f"<h1>All pumps</h1><p>The house has pumps.</p>{there}".encode(),
                content_type="text/html",
            )
        elif h.path in pages:
            send(h, 200, pages[h.path].encode(), content_type="text/html")
        else:
            send(h, 404)

    with serve(answer) as site:
        web(sites, site.port)
        sites.ingest()
        before = logical(sites.workspace)
        assert len(sites.workspace.catalog.locators.of_source("default", "site")) == 10
        reports = {r.stage: r for r in sites.ingest()}
        assert logical(sites.workspace) == before
        assert all(not r.counts.get("new") and not r.counts.get("changed") for r in reports.values())
        # A partial crawl deletes nothing.
        broken.add("/p1")
        del pages["/p2"]
        sites.ingest()
        assert not last(sites).complete and "E_5XX_ORIGIN" in last(sites).reason
        assert len(sites.workspace.catalog.locators.of_source("default", "site")) == 10
        # A complete one retires what is gone.
        broken.clear()
        sites.ingest()
        assert last(sites).complete
        held = sites.workspace.catalog.locators.of_source("default", "site")
        assert f"http://{HOST}:{site.port}/p2" not in held and len(held) == 9


# --- traps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trap", ["calendar", "session", "deep", "wide"])
def test_a_trap_ends_by_the_limits(sites: World, trap: str) -> None:
    wide = b"<p>Links</p>" + b"".join(b'<a href="/x%d">x</a>' % i for i in range(400_000))

    def answer(h: BaseHTTPRequestHandler) -> None:
        number = int("0" + "".join(re.findall(r"\d", h.path))[-6:])
        if h.path == "/robots.txt":
            send(h, 404)
        elif trap == "wide":
            send(h, 200, wide if h.path == "/" else b"<p>leaf</p>", content_type="text/html")
        else:
            to = {
                "calendar": f'<a href="/month/{number + 1}">next</a><a href="/month/{number - 1}">last</a>',
                "session": "".join(f'<a href="/?sid={number * 10 + i}">again</a>' for i in range(1, 10)),
                "deep": f'<a href="{h.path.rstrip("/")}/down/">down</a>',
            }[trap]
            send(h, 200, f"<p>Page {h.path[:50]}</p>{to}".encode(), content_type="text/html")

    with serve(answer) as site:
        web(sites, site.port, max_pages=60, max_depth=1000)
        began = time.monotonic()
        sites.run("raw_blobs", "site")
        assert time.monotonic() - began < 300
        asked = {p: n for p, n in site.hits.items() if p != "/robots.txt"}
        assert len(asked) == 60 and set(asked.values()) == {1}
        sums = totals(last(sites).counts)
        assert not last(sites).complete and last(sites).reason == "it was cut at 60 pages"
        assert sums["discovered"] == 60 + sums["skipped"] <= 10_100


def test_endless_depth_ends_at_max_depth(sites: World) -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        send(h, 200, b'<p>Down</p><a href="%sdown/">d</a>' % h.path.encode(), content_type="text/html")

    with serve(answer) as site:
        web(sites, site.port, max_depth=7)
        sites.run("raw_blobs", "site")
        assert len([p for p in site.hits if p != "/robots.txt"]) == 7
        assert last(sites).complete
        (leaf,) = [r for r in last(sites).counts if r.outcome == Outcome.SKIPPED]
        assert (leaf.depth, leaf.code, leaf.urls) == (7, "E_DEPTH", 1)


# --- killed processes ---------------------------------------------------------------------------------------

CRAWL = """
import sys
from pathlib import Path
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import run_source_stage
from taboot_pipelines.stages.workspace import Workspace
home, sources = map(Path, sys.argv[1:])
workspace = Workspace(load_settings(home=home, sources=sources, http={"rate_limit_rps": 0}))
workspace.sync_sources()
(stage,) = (s for s in CHAIN.of_source if s.name == "raw_blobs")
run_source_stage(workspace, stage, workspace.entries("site")[0], confirm_deletes=False)
"""


@pytest.mark.slow
def test_a_crawl_of_many_pages_that_is_killed_again_and_again_loses_and_repeats_nothing(
    world: World,
) -> None:
    count = 900

    def answer(h: BaseHTTPRequestHandler) -> None:
        if h.path == "/robots.txt":
            send(h, 404)
            return
        i = int(h.path[2:] or 0)
        to = [j for j in (i * 3 + 1, i * 3 + 2, i * 3 + 3, i // 3, (i * 7) % count) if j < count]
        body = f"<h1>Page {i}</h1>" + "".join(f'<a href="/p{j}">{j}</a>' for j in to)
        send(h, 200, body.encode(), content_type="text/html")

    with serve(answer) as site:
        world.source(
            "site",
            "web",
            path=None,
            urls=[f"{site.base}/p0"],
            allow_cidrs=LOOPBACK,
            max_depth=50,
        )
        kills = 0
        while True:
            process = subprocess.Popen(
                [sys.executable, "-c", CRAWL, str(world.home), str(world.directory / "sources.yaml")]
            )
            until = sum(site.hits.values()) + 150 + 97 * kills % 300
            while process.poll() is None and sum(site.hits.values()) < until:
                time.sleep(0.005)
            if process.poll() is not None:
                assert process.returncode == 0
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            assert kills < 30
        hits = {p: n for p, n in site.hits.items() if p != "/robots.txt"}
        held = world.workspace.catalog.locators.of_source("default", "site")
        assert len(held) == len(hits) == count and kills >= 2
        sums = totals(last(world).counts)
        assert sums["discovered"] == sums["fetched"] + sums["not_modified"] == count and last(world).complete
        # Only what was on its way, or not at its checkpoint, is asked for again.
        again = sum(hits.values()) - count
        assert again <= kills * (HttpSettings().max_concurrency + CHECKPOINT_PAGES)
