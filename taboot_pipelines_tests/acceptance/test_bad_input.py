"""Bad input of every kind: a typed error or a dead letter, the rest of the batch done, and all well once it
is mended.
"""

from __future__ import annotations

import errno
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards import layout
from taboot_pipelines.sources.sources_file import load_sources
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines_tests.acceptance.checks import (
    blob_path,
    check_equal_to_replay,
    check_ledger,
    check_mended,
    edges,
    flip_byte,
    letters,
    paths,
)
from taboot_pipelines_tests.acceptance.ingesting import ingest_at_once
from taboot_pipelines_tests.connectors.servers import Site, send, serve
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import Kept, World, graph

MEGABYTE = 1024 * 1024
COMPOSE = (
    "services:\n  web:\n    image: nginx:1.27\n    ports: ['8080:80']\n    depends_on: [db]\n  db:\n   "
    " image: postgres:16\n"
)
CONF = (
    "server {\n  listen 443 ssl;\n  server_name wiki.*;\n  location / { proxy_pass http://wiki:3000; }\n}\n"
)


def raw(reports: list[StageReport]) -> dict[str, int]:
    return next(r for r in reports if r.stage == "raw_blobs").counts


def note(path: Path, i: int) -> None:
    path.write_text(f"# Note {i}\n\nNumber {i} is served by http://host{i}.example.com:8{i:03}/ today.\n")


# --- directories and files ----------------------------------------------------------------------------------


def test_a_missing_path_fails_its_source_and_no_other(world: World) -> None:
    note(world.source("good") / "a.md", 1)
    world.source("lost").rmdir()
    with pytest.raises(TabootError) as caught:
        world.ingest("lost")
    assert caught.value.code == "E_PATH" and str(world.directory / "lost") in caught.value.message
    world.ingest("good")
    assert paths(world.kb()) == {"good/a.md"}
    job = world.workspace.catalog.jobs.find("default", "lost")[0]
    assert job["state"] == "failed" and "E_PATH" in job["error"]
    check_ledger(world)
    note(world.source("lost") / "b.md", 2)
    check_mended(world)
    assert paths(world.kb()) == {"good/a.md", "lost/b.md"}


def test_an_unreadable_file_or_directory_is_unknown_not_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.source("notes")
    (path / "sub").mkdir()
    for i, name in enumerate(("a.md", "locked.md", "sub/inner.md", "gone.md")):
        note(path / name, i)
    world.ingest()
    note(path / "locked.md", 7)
    note(path / "new.md", 8)
    (path / "gone.md").unlink()
    really_open, really_scan = os.open, os.scandir

    def refuse_file(name: Any, *args: Any, **kwargs: Any) -> int:
        if str(name).endswith("/locked.md"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return really_open(name, *args, **kwargs)

    def refuse_directory(name: Any = ".") -> Any:
        if str(name).endswith("/sub"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return really_scan(name)

    # Root may read anything, so the kernel's refusal is played here.
    monkeypatch.setattr(os, "open", refuse_file)
    monkeypatch.setattr(os, "scandir", refuse_directory)
    world.ingest()
    monkeypatch.undo()
    assert letters(world) == {
        "notes/raw_blobs/locked.md": "E_UNREADABLE",
        "notes/raw_blobs/sub": "E_UNREADABLE",
    }
    # The enumeration was not complete: even what is really gone stays until one is.
    assert paths(world.kb()) == {
        f"notes/{p}" for p in ("a.md", "locked.md", "sub/inner.md", "new.md", "gone.md")
    }
    assert world.kb().search("host1.example.com", mode="keyword").hits[0].url.endswith("/locked.md")
    job = world.workspace.catalog.jobs.find("default")[0]
    assert not job["complete"] and job["failed"] == 2
    check_ledger(world)
    check_mended(world)
    assert paths(world.kb()) == {f"notes/{p}" for p in ("a.md", "locked.md", "sub/inner.md", "new.md")}
    assert world.kb().search("host7.example.com", mode="keyword").hits


def test_files_that_are_no_text_are_recorded_and_the_rest_is_read(world: World) -> None:
    path = world.source("notes", languages=["en"])
    note(path / "good.md", 1)
    (path / "latin.txt").write_bytes(
        "# Caf\u00e9\n\nThe caf\u00e9 server stands in the office \u2014 that is where people look for it"
        " first.\n".encode("cp1252")
    )
    (path / "wide.md").write_bytes(
        "# Wide\n\nThe wide server speaks UTF-16 at 10.1.2.3 today.\n".encode("utf-16")
    )
    bad: dict[str, tuple[bytes, str]] = {
        "broken-utf16.md": (b"\xff\xfe" + "half".encode("utf-16-le") + b"\x00\xd8", "E_ENCODING"),
        "empty.md": (b"", "E_EMPTY"),
        "blank.md": (b" \n\t\n", "E_EMPTY"),
        "picture.md": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)), "E_BINARY"),
        "archive.txt": (b"PK\x03\x04" + os.urandom(300), "E_BINARY"),
        "nul.txt": (b"text with a \x00 in it and more text behind it", "E_BINARY"),
        "deutsch.md": (
            (
                "# Anleitung\n\n"
                + "Der Dienst l\u00e4uft auf dem alten Rechner im Keller und wird jeden Abend gesichert. " * 5
            ).encode()
            and (
                (
                    "# Anleitung\n\n"
                    + "Der Dienst l\u00e4uft auf dem alten Rechner im Keller und wird jeden Abend gesichert. "
                    * 5
                ).encode(),
                "E_LANGUAGE",
            )
        ),
    }
    for name, (data, _) in bad.items():
        (path / name).write_bytes(data)
    world.ingest()
    assert letters(world) == {f"notes/documents/{n}": code for n, (_, code) in bad.items()}
    assert paths(world.kb()) == {"notes/good.md", "notes/latin.txt", "notes/wide.md"}
    assert "caf\u00e9 server" in world.kb().search("server office", mode="keyword").hits[0].text
    assert world.kb().search("10.1.2.3", mode="keyword").hits[0].url.endswith("wide.md")
    # What was recorded is not read again, and says so again.
    note(path / "good.md", 2)
    assert next(r for r in world.ingest() if r.stage == "documents").counts["new"] == 1
    assert len(letters(world)) == len(bad)
    check_ledger(world)
    check_equal_to_replay(world)
    for i, name in enumerate(bad):
        note(path / name, i)
    check_mended(world)
    assert len(paths(world.kb())) == 3 + len(bad)


def test_a_file_of_200_megabytes_is_not_read(world: World) -> None:
    path = world.source("notes")
    note(path / "good.md", 1)
    with (path / "huge.md").open("wb") as f:
        f.truncate(200 * MEGABYTE)
    world.ingest("notes")  # imports what it needs
    (path / "huge.md").rename(path / "vast.md")
    tracemalloc.start()
    try:
        counts = raw(world.ingest("notes"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * MEGABYTE, f"{peak / MEGABYTE:.0f} MB"
    assert (counts["discovered"], counts["skipped"], counts["not_modified"]) == (2, 1, 1)
    assert letters(world) == {"notes/raw_blobs/vast.md": "E_TOO_LARGE"}
    assert paths(world.kb()) == {"notes/good.md"}
    (path / "vast.md").unlink()
    check_mended(world)


def test_an_unmounted_folder_deletes_nothing(world: World) -> None:
    path = world.source("stacks", "compose", host="box")
    (path / "app").mkdir()
    (path / "app/compose.yaml").write_text(COMPOSE)
    world.ingest()
    before = graph(world.kb())
    assert before["edges"]
    path.rename(world.root / "disk")
    path.mkdir()
    held = next(r for r in world.ingest() if r.stage == "raw_blobs").held
    assert [h["code"] for h in held] == ["E_MASS_DELETE"] and "--confirm-deletes" in held[0]["remedy"]
    assert graph(world.kb()) == before
    path.rmdir()
    (world.root / "disk").rename(path)
    check_mended(world)
    assert graph(world.kb()) == before


# --- configuration formats ----------------------------------------------------------------------------------

BAD_PROJECTS: dict[str, tuple[dict[str, str], str]] = {
    "syntax": ({"compose.yaml": "services:\n  a:\n    image: [unclosed\n  b: {\n"}, "E_PARSE"),
    "tabs": ({"compose.yaml": "services:\n\ta:\n\t\timage: x\n"}, "E_PARSE"),
    "scalar": ({"compose.yaml": "just a text\n"}, "E_PARSE"),
    "list": ({"compose.yaml": "services:\n- image: nginx\n"}, "E_PARSE"),
    "circle": (
        {"compose.yaml": "services:\n  a:\n    extends: b\n    image: x\n  b:\n    extends: a\n"},
        "E_CYCLE",
    ),
    "ring": (
        {
            "compose.yaml": "services:\n  a:\n    extends: {file: other.yaml, service: b}\n    image: x\n",
            "other.yaml": "services:\n  b:\n    extends: {file: compose.yaml, service: a}\n",
        },
        "E_CYCLE",
    ),
    "deep": ({"compose.yaml": "services: " + "[" * 3000 + "]" * 3000}, "E_PARSE"),
    "laughs": (
        {
            "compose.yaml": (
                "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
                + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
                + "services:\n  a:\n    image: x\n    command: *a11\n"
            )
        },
        "E_TOO_LARGE",
    ),
}


def test_compose_projects_that_cannot_be_read_leave_the_others_alone(world: World) -> None:
    path = world.source("stacks", "compose", host="box")
    (path / "good").mkdir()
    (path / "good/compose.yaml").write_text(COMPOSE)
    world.ingest()
    good = [e for e in edges(world.kb()) if e["type"] != "MENTIONS"]
    for name, (files, _) in BAD_PROJECTS.items():
        (path / name).mkdir()
        for file, text in files.items():
            (path / name / file).write_text(text)
    world.ingest()
    found = {item: code for item, code in letters(world).items() if "/tier_a_triples/" in item}
    expected = {
        f"stacks/tier_a_triples/compose:{name}/compose.yaml": code for name, (_, code) in BAD_PROJECTS.items()
    }
    assert found == expected
    # The files are documents all the same, and the good project's facts stand as they were.
    assert {
        f"stacks/{n}/{f}"
        for n, (files, _) in BAD_PROJECTS.items()
        for f in files
        if not f.startswith("other")
    } <= paths(world.kb())
    assert [e for e in edges(world.kb()) if e["type"] != "MENTIONS" and "good/" in e["url"]] == good
    for letter in world.workspace.catalog.dead_letters.find("default"):
        assert letter["item"].partition(":")[2].rsplit("/", 1)[0] in letter["message"], (
            "the message names the file"
        )
    check_ledger(world)
    check_equal_to_replay(world)
    for name, (files, _) in BAD_PROJECTS.items():
        for file in files:
            (path / name / file).unlink()
        (path / name / "compose.yaml").write_text(COMPOSE)
    check_mended(world)
    assert len([e for e in edges(world.kb()) if e["type"] == "DEPENDS_ON"]) == 1 + len(BAD_PROJECTS)


def test_a_conf_with_an_unclosed_brace_leaves_the_others_alone(world: World) -> None:
    path = world.source("proxy", "swag")
    (path / "good.conf").write_text(CONF)
    (path / "bad.conf").write_text(
        "server {\n  server_name secret.*;\n  location / {\n    proxy_pass http://db:80;\n"
    )
    (path / "surplus.conf").write_text(CONF + "}\n")
    (path / "quote.conf").write_text('server { server_name "open; }\n')
    world.ingest()
    assert letters(world) == {
        f"proxy/tier_a_triples/nginx:{n}.conf": "E_PARSE" for n in ("bad", "quote", "surplus")
    }
    assert {
        e["end_name"] for e in edges(world.kb()) if e["type"] == "ROUTES_TO" and e["url"] == "proxy:good.conf"
    } == {"wiki"}
    # What could be read of the others stands, and leads to where it was read.
    for edge in edges(world.kb()):
        assert world.kb().explain(edge["edge_id"]).quotes[0].url.endswith(edge["url"].removeprefix("proxy:"))
    assert all("secret" not in d["message"] for d in world.workspace.catalog.dead_letters.find("default"))
    check_ledger(world)
    check_equal_to_replay(world)
    for name in ("bad", "quote", "surplus"):
        (path / f"{name}.conf").write_text(CONF.replace("wiki", name))
    check_mended(world)
    assert {e["end_name"] for e in edges(world.kb()) if e["type"] == "ROUTES_TO"} == {
        "wiki",
        "bad",
        "quote",
        "surplus",
    }


# --- the web ------------------------------------------------------------------------------------------------


class Pages:
    """A server whose pages go bad by the flip of a switch."""

    def __init__(self) -> None:
        self.bad = True

    def __call__(self, h: BaseHTTPRequestHandler) -> None:
        name = h.path.strip("/")
        if self.bad and name in BAD_PAGES:
            BAD_PAGES[name][0](h)
        elif h.headers.get("If-None-Match") == f'"{name}-1"':
            send(h, 304)
        else:
            page = (
                f"<html><head><title>Page {name}</title></head><body><main><h1>Page {name}</h1><p>The page"
                f" called {name} says that its server listens on 10.0.0.9:80 and nowhere else, as everybody"
                " knows.</p></main></body></html>"
            )
            send(h, 200, page.encode(), content_type="text/html; charset=utf-8", etag=f'"{name}-1"')


def _sleep(h: BaseHTTPRequestHandler) -> None:
    time.sleep(40)
    send(h, 200, b"too late")


def _drip(h: BaseHTTPRequestHandler) -> None:
    h.send_response(200)
    h.send_header("Content-Type", "text/html")
    h.end_headers()
    for _ in range(400):
        h.wfile.write(b" ")
        h.wfile.flush()
        time.sleep(0.1)


def _flood(h: BaseHTTPRequestHandler) -> None:
    h.send_response(200)
    h.send_header("Content-Type", "text/html")
    h.end_headers()
    for _ in range(64):
        h.wfile.write(b"<p>flood</p>" * 6000)


BAD_PAGES: dict[str, tuple[Callable[[BaseHTTPRequestHandler], None], str]] = {
    "missing": (lambda h: send(h, 404), "E_NOT_FOUND"),
    "gone": (lambda h: send(h, 410), "E_NOT_FOUND"),
    "broken": (lambda h: send(h, 500), "E_5XX_ORIGIN"),
    "forbidden": (lambda h: send(h, 403), "E_FORBIDDEN"),
    "asleep": (_sleep, "E_TIMEOUT"),
    "drip": (_drip, "E_TIMEOUT"),
    "loop": (lambda h: send(h, 302, location="/loop"), "E_REDIRECT"),
    "inward": (lambda h: send(h, 302, location="http://169.254.169.254/latest/meta-data/"), "E_URL_BLOCKED"),
    "flood": (_flood, "E_TOO_LARGE"),
    "video": (lambda h: send(h, 200, b"\x00\x01", content_type="video/mp4"), "E_MIME"),
    "hangup": (lambda h: h.connection.shutdown(2), "E_NETWORK"),
}


@pytest.fixture
def site() -> Iterator[tuple[Site, Pages]]:
    pages = Pages()
    with serve(pages) as served:
        yield served, pages


def test_bad_answers_of_a_web_server_are_recorded_by_kind(
    tmp_path: Path, tei: FakeTei, site: tuple[Site, Pages]
) -> None:
    served, pages = site
    world = World(
        tmp_path,
        tei.url,
        limits={"max_blob_bytes": MEGABYTE},
        http={
            "read_timeout_seconds": 4,
            "total_timeout_seconds": 6,
            "connect_timeout_seconds": 20,
            "rate_limit_rps": 0,
            "retry_seconds": (),
        },
    )
    urls = [f"{served.base}/{name}" for name in ("fine", *BAD_PAGES)]
    world.entries.append({"id": "site", "type": "web", "urls": urls, "allow_cidrs": ["127.0.0.1/32"]})
    world.declare()
    try:
        counts = raw(world.ingest())
        found = {item.rsplit("/", 1)[1]: code for item, code in letters(world).items()}
        assert found == {name: code for name, (_, code) in BAD_PAGES.items()}
        assert (counts["discovered"], counts["fetched"]) == (len(urls), 1)
        check_ledger(world)
        check_equal_to_replay(world)
        # Well again, everything is there; and when it fails once more, only what the origin calls gone is
        # taken away.
        pages.bad = False
        check_mended(world)
        assert len(paths(world.kb())) == len(urls)
        pages.bad = True
        world.ingest()
        assert len(paths(world.kb())) == len(urls) - 2
        check_ledger(world)
        check_equal_to_replay(world)
    finally:
        world.workspace.close()


def test_a_loopback_address_is_refused_unless_it_is_allowed(world: World, site: tuple[Site, Pages]) -> None:
    served, _ = site
    world.entries.append({"id": "site", "type": "web", "urls": [f"{served.base}/fine"]})
    world.declare()
    world.ingest()
    assert list(letters(world).values()) == ["E_URL_BLOCKED"] and not served.hits
    world.entries[0]["allow_cidrs"] = ["127.0.0.0/8"]
    world.declare()
    check_mended(world)
    assert len(paths(world.kb())) == 1


def test_a_corrupted_blob_of_a_page_is_fetched_again(world: World, site: tuple[Site, Pages]) -> None:
    served, _ = site
    world.entries.append(
        {
            "id": "site",
            "type": "web",
            "urls": [f"{served.base}/{n}" for n in ("one", "two")],
            "allow_cidrs": ["127.0.0.1/32"],
        }
    )
    world.declare()
    world.ingest()
    before = graph(world.kb())
    assert raw(world.ingest())["not_modified"] == 2
    victim = world.workspace.catalog.locators.of_source("default", "site")[f"{served.base}/one"].sha256
    flip_byte(blob_path(world, victim), 5)
    world.entries[0]["languages"] = ["en", "fr"]
    world.declare()
    world.ingest()
    assert letters(world) == {f"site/documents/{served.base}/one": "E_BLOB_CORRUPT"}
    # The server would answer 304 to a conditional request, and the bytes would never come back.
    check_mended(world)
    assert graph(world.kb()) == before
    assert world.workspace.blobs.get("default", victim)


# --- the sources file ---------------------------------------------------------------------------------------

ENTRY = "- {id: notes, type: files, path: notes}\n"
BAD_SOURCES = {
    "two sources with one id": (
        "sources:\n" + ENTRY + "- {id: notes, type: compose, path: other}\n",
        ["line 3, column 4: entry 2 (notes)", "entry 1"],
    ),
    "an unknown type": (
        "sources:\n" + ENTRY + "- {id: x, type: gopher, path: other}\n",
        ["entry 2 (x)", "gopher"],
    ),
    "no type": ("sources:\n- {id: x, path: other}\n", ["entry 1 (x)", "type"]),
    "a bad cron": (
        "sources:\n" + ENTRY + "- {id: x, type: files, path: other, schedule: '61 * * * *'}\n",
        ["entry 2 (x)", "schedule"],
    ),
    "a cron that never fires": (
        "sources:\n- {id: notes, type: files, path: notes, schedule: '0 0 31 2 *'}\n",
        ["schedule"],
    ),
    "a bad id": ("sources:\n" + ENTRY + "- {id: ../x, type: files, path: other}\n", ["entry 2", "id"]),
    "an unknown field": ("sources:\n- {id: notes, type: files, path: notes, pathh: y}\n", ["pathh"]),
    "no list": ("sources: notes\n", ["sources"]),
    "nothing": ("", ["empty"]),
    "no yaml": ("sources: [\n", ["line"]),
}


@pytest.fixture(scope="module")
def made_notes(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    world = World(tmp_path_factory.mktemp("notes"), tei.url)
    for i in range(3):
        note(world.source("notes", tags=["runbook"]) / f"{i}.md", i)
    note(world.source("other") / "o.md", 9)
    world.ingest()
    return Kept(world)


@pytest.fixture
def notes(made_notes: Kept) -> Iterator[World]:
    world = made_notes.put_back()
    yield world
    world.workspace.close()


def test_a_wrong_sources_file_is_refused_whole(notes: World) -> None:
    before, file = graph(notes.kb()), notes.directory / "sources.yaml"
    good = file.read_text()
    for what, (text, words) in BAD_SOURCES.items():
        file.write_text(text)
        with pytest.raises(TabootError) as caught:
            notes.ingest()
        assert caught.value.code == "E_SOURCES", what
        assert all(w in caught.value.message for w in words), (what, caught.value.message)
    assert graph(notes.kb()) == before
    assert [(r["source_id"], r["state"]) for r in notes.workspace.catalog.sources.find()] == [
        ("notes", "active"),
        ("other", "active"),
    ]
    file.write_text(good)
    check_mended(notes)
    assert graph(notes.kb()) == before


def test_a_truncated_sources_file_deletes_nothing(notes: World) -> None:
    before, file = graph(notes.kb()), notes.directory / "sources.yaml"
    good = file.read_bytes()
    whole = {len(good), len(good) - 1, good.index(b"- id: other"), good.index(b"- id: other") - 1}
    accepted = set()
    for cut in range(len(good)):
        file.write_bytes(good[:cut])
        try:
            load_sources(file)
            accepted.add(cut)
        except TabootError as error:
            assert error.code == "E_SOURCES"
    # Only a cut between two entries leaves a file that says something: that the rest of the sources is to go.
    assert accepted <= whole
    for cut in (0, 9, good.index(b"other") + 2, good.rindex(b"type") + 3, len(good) - 4):
        file.write_bytes(good[:cut])
        with pytest.raises(TabootError, match="E_SOURCES"):
            notes.ingest()
    assert graph(notes.kb()) == before
    file.write_bytes(good)
    check_mended(notes)
    assert graph(notes.kb()) == before


# --- damaged stores -----------------------------------------------------------------------------------------


def test_a_corrupted_blob_fails_its_edges_only_and_heals(world: World) -> None:
    path = world.source("stacks", "compose", host="box")
    for name in ("one", "two"):
        (path / name).mkdir()
        (path / name / "compose.yaml").write_text(
            COMPOSE.replace("8080", "8081" if name == "one" else "8082")
        )
    world.ingest()
    before = graph(world.kb())
    victim = world.workspace.catalog.locators.of_source("default", "stacks")["one/compose.yaml"].sha256
    file = blob_path(world, victim)
    flip_byte(file, 30)
    kb = world.kb()
    for edge in edges(kb):
        if edge["blob_sha256"] == victim:
            with pytest.raises(TabootError, match="E_BLOB_CORRUPT"):
                kb.explain(edge["edge_id"])
        else:
            kb.explain(edge["edge_id"])
    # Nothing changed, so nobody reads the blob. A new field of the source makes its project be read again,
    # and says so.
    world.source("stacks", "compose", host="newbox")
    world.ingest()
    assert letters(world) == {"stacks/tier_a_triples/compose:one/compose.yaml": "E_BLOB_CORRUPT"}
    check_ledger(world)
    # The letter asks for the bytes again: the next ingest writes them from the origin, the one after it reads
    # them.
    world.ingest()
    assert world.workspace.blobs.get("default", victim) == (path / "one/compose.yaml").read_bytes()
    check_mended(world)
    assert {e["start_name"] for e in edges(world.kb()) if e["type"] == "BINDS"} == {"web"}
    assert {e["end_name"] for e in edges(world.kb()) if e["type"] == "BINDS"} == {"newbox"}
    world.source("stacks", "compose", host="box")
    check_mended(world)
    assert graph(world.kb()) == before


def test_a_missing_blob_is_written_again(world: World) -> None:
    path = world.source("notes")
    for i in range(3):
        note(path / f"{i}.md", i)
    world.ingest()
    before = graph(world.kb())
    victim = world.workspace.catalog.locators.of_source("default", "notes")["1.md"].sha256
    blob_path(world, victim).unlink()
    hit = world.kb().search("host1.example.com", mode="keyword").hits[0]
    with pytest.raises(TabootError, match="E_BLOB_MISSING"):
        world.kb().explain(hit)
    # Another language list is another reading of every document; the bytes are there again before it begins.
    world.source("notes", languages=["en", "de"])
    world.ingest()
    assert letters(world) == {}
    assert world.workspace.blobs.get("default", victim) == (path / "1.md").read_bytes()
    check_mended(world)
    assert graph(world.kb()) == before
    assert world.kb().explain(hit).quote


@pytest.mark.parametrize("kind", ["documents", "entities"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing"])
def test_a_damaged_shard_is_a_typed_error_and_is_built_again(notes: World, kind: str, damage: str) -> None:
    kb = notes.kb()
    before, manifest = graph(kb), kb.manifest
    entry = manifest.of_kind(kind)[0]
    folder = layout.shard_dir(kb.settings.home_dir / "kb", "default", entry.key)
    for f in entry.files:
        file = folder / f.name
        folder.chmod(0o700)
        if damage == "flipped":
            flip_byte(file, f.size // 2)
        elif damage == "truncated":
            file.chmod(0o600)
            os.truncate(file, f.size // 2)
        else:
            file.unlink()
    expected = "E_SHARD_MISSING" if damage == "missing" else "E_SHARD_CORRUPT"
    reader = notes.kb()
    with pytest.raises(TabootError, match=expected):
        reader.verify()
    with pytest.raises(TabootError, match=expected):
        (reader.documents() if kind == "documents" else reader.nodes())
    # Nothing of the input changed; the shards did.
    reports = [r for r in notes.ingest() if r.stage == "kb_shards"]
    assert sum(r.counts["shards_new"] for r in reports) == 1
    # The reader that saw the damage sees the repair.
    assert graph(reader) == before
    notes.kb().verify()
    assert not [r for r in notes.ingest() if r.stage == "kb_shards" and r.skipped != "unchanged"]
    check_equal_to_replay(notes)


def test_a_damaged_manifest_is_a_typed_error_and_is_built_again(notes: World) -> None:
    before = graph(notes.kb())
    file = layout.manifest_path(notes.home / "kb", "default")
    good = file.read_bytes()
    for data in (good[: len(good) // 2], b"", b"{}"):
        file.write_bytes(data)
        with pytest.raises(TabootError, match="E_SHARD_CORRUPT"):
            notes.kb()
        notes.ingest()
        assert graph(notes.kb()) == before
    file.unlink()
    with pytest.raises(TabootError, match="E_KB_UNINITIALIZED"):
        notes.kb()
    notes.ingest()
    assert graph(notes.kb()) == before
    check_equal_to_replay(notes)


# --- two at once --------------------------------------------------------------------------------------------


def at_once(world: World, tei: str, wait: float, *sources: list[str]) -> list[str]:
    """What became of ingests in processes that start at one moment."""
    return ingest_at_once(
        [world.home] * len(sources), world.directory / "sources.yaml", tei, wait, {}, sources
    )


def test_two_ingests_at_once(tmp_path: Path) -> None:
    with FakeTei() as tei:
        tei.delay = 0.03
        world = World(tmp_path, tei.url)
        try:
            for source in ("left", "right"):
                path = world.source(source)
                for i in range(10):
                    note(path / f"{i}.md", i)
                    (path / f"{i}.md").open("a").write(f"\nIt belongs to {source} alone.\n")
            # Two sources in a home that does not exist yet, and each of them twice.
            assert at_once(world, tei.url, 60, ["left", "right"], ["right", "left"]) == ["ok", "ok"]
            assert len(paths(world.kb())) == 20
            check_ledger(world)
            check_equal_to_replay(world)
            # A change of both, by processes that do not wait for each other: what is refused is done by the
            # next.
            for source in ("left", "right"):
                for i in range(5, 12):
                    note(world.directory / source / f"{i}.md", i + 100)
            outcomes = at_once(world, tei.url, 0, ["left", "right"], ["left"])
            assert set(outcomes) <= {"ok", "E_BUSY"} and "ok" in outcomes, outcomes
            check_mended(world)
            assert len(paths(world.kb())) == 24
        finally:
            world.workspace.close()
