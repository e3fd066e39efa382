"""Chat sessions through the chain: growth costs the last item, a kill loses nothing, thinking on request."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.model.chats import CHAT
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.records import (
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    NodeRef,
    SourceFacts,
    UnitSpec,
)
from taboot_pipelines.sources import SOURCE_KINDS
from taboot_pipelines.stores.catalog.locators import Locators
from taboot_pipelines.stores.tables import NAMESPACE
from taboot_pipelines_tests.world import DATA, World, differences, graph, logical


def said(n: int, role: str, text: str) -> bytes:
    message = {"role": role, "content": text}
    record = {
        "type": role,
        "sessionId": "s",
        "cwd": "/srv",
        "timestamp": f"2026-01-02T{n // 60:02}:{n % 60:02}:00Z",
        "message": message,
    }
    return json.dumps(record).encode() + b"\n"


def turns(first: int, last: int) -> bytes:
    return b"".join(
        said(n, "user" if n % 2 == 0 else "assistant", f"Turn {n} is about the disk and the backup of it.")
        for n in range(first, last)
    )


@pytest.fixture
def chats(world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("taboot_pipelines.connectors.ai_session_files.SLICE_BYTES", 2000)
    monkeypatch.setattr("taboot_pipelines.connectors.ai_session_files._MOST_BYTES", 8000)
    monkeypatch.setattr("taboot_pipelines.connectors.walk._SETTLED_SECONDS", -1e9)
    path = world.source("chats", "ai_session")
    (path / "s.jsonl").write_bytes(turns(0, 40))
    return path


def counts(world: World) -> dict[str, Any]:
    return next(r.counts for r in world.ingest("chats") if r.stage == "raw_blobs")


def test_growth_costs_the_last_item_and_equals_a_replay(world: World, chats: Path) -> None:
    first = counts(world)
    assert first["fetched"] > 3
    assert (counts(world)["fetched"], counts(world)["not_modified"]) == (0, first["fetched"])
    with (chats / "s.jsonl").open("ab") as f:
        f.write(turns(40, 42))
    grown = counts(world)
    assert grown["fetched"] <= 2 and grown["not_modified"] >= first["fetched"] - 1
    (chats / "s.jsonl").rename(chats / "renamed.jsonl")
    moved = counts(world)
    assert moved["removed"] == moved["fetched"] and moved.get("held", 0) == 0
    (chats / "renamed.jsonl").write_bytes(turns(0, 30))
    world.ingest("chats")
    assert counts(world)["fetched"] == 0
    scratch = world.open(world.replay())
    try:
        assert differences(logical(world.workspace), logical(scratch)) == {}
    finally:
        scratch.close()


@pytest.mark.parametrize("flush", [1, 2, 3])
def test_a_killed_run_loses_nothing(
    world: World, chats: Path, monkeypatch: pytest.MonkeyPatch, flush: int
) -> None:
    class Killed(BaseException):
        pass

    monkeypatch.setattr("taboot_pipelines.stages.raw_blobs._FLUSH", 1)
    record, calls = Locators.record_fetched, 0

    def last(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        record(*arguments, **options)
        calls += 1
        if calls == flush:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Locators, "record_fetched", last)
        world.ingest("chats")
    world.workspace.close()
    world.workspace = world.open(world.home)
    world.ingest("chats")
    located = world.workspace.catalog.locators.of_source("default", "chats")
    blobs = [world.workspace.blobs.get("default", located[p].sha256) for p in sorted(located)]
    assert b"".join(blobs) == (chats / "s.jsonl").read_bytes()


def test_thinking_and_the_types_of_documents(world: World) -> None:
    path = world.source("chats", "ai_session")
    thought = {"type": "thinking", "thinking": "Perhaps the cable."}
    answer = {"type": "assistant", "message": {"role": "assistant", "content": [thought]}}
    (path / "s.jsonl").write_bytes(said(0, "user", "Why is it slow?") + json.dumps(answer).encode() + b"\n")
    world.ingest()
    (document,) = world.kb().documents().to_pylist()
    assert document["path"] == "s.jsonl" and document["mime"] == CHAT
    assert not world.kb().search("cable", mode="keyword").hits
    world.source("chats", "ai_session", thinking=True)
    world.ingest()
    assert world.kb().search("cable", mode="keyword").hits
    world.source("chats", "ai_session")
    world.ingest()
    assert not world.kb().search("cable", mode="keyword").hits


def test_what_a_chat_says_of_a_host_leads_to_its_bytes(world: World) -> None:
    path = world.source("chats", "ai_session")
    text = 'Ask "nas" at http://nas.lan:5000/ for it.'
    (path / "s.jsonl").write_bytes(said(0, "user", text))
    world.ingest()
    kb = world.kb()
    edges = [e for e in graph(kb)["edges"] if "nas.lan" in e]
    assert edges
    for row in map(json.loads, edges):
        data = world.workspace.blobs.get("default", row["blob_sha256"])
        assert b"nas.lan" in data[row["byte_start"] : row["byte_end"]]
    tables = world.workspace.tables
    entities = tables.read("default", NAMESPACE, "entities", tables.version("default", NAMESPACE, "entities"))
    assert all("proposed:tier_a" in row["claims"] for row in entities.to_pylist())


class _Declaring:
    """An extractor to which every text says that there is a service ``blueprint``."""

    name, version = "declaring", "1"

    def units(self, paths: Collection[str]) -> list[UnitSpec]:
        return [UnitSpec(path, (path,)) for path in sorted(paths)]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        text = view.read(unit.files[0]) or ""
        at = text.index("blueprint")
        node = NodeRef("Service", (source.source_id, "blueprint"), "blueprint")
        where = Evidence(unit.files[0], at, at + len("blueprint"))
        return Interpretation((NodeClaim(node, where, {}, declared=True),), ())


@pytest.mark.parametrize("of", ["ai_session", "files"])
def test_what_a_chat_proposes_makes_no_name_known(
    world: World, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    monkeypatch.setattr(type(SOURCE_KINDS[of]), "extractors", lambda *_: (_Declaring(),))
    path = world.source("said", of)
    (path / "s.jsonl").write_bytes(said(0, "user", "Add a service blueprint to the house."))
    if of == "files":
        (path / "s.jsonl").rename(path / "s.txt")
    notes = world.source("notes", "files")
    note = b"# Notes\n\nWho knows what blueprint does?\n"
    (notes / "n.md").write_bytes(note)
    world.ingest()
    tables = world.workspace.tables
    for name in ("declarations", "names"):
        rows = tables.read("default", NAMESPACE, name, tables.version("default", NAMESPACE, name)).to_pylist()
        assert bool(rows) == (of == "files")
    mentions = [e for e in graph(world.kb())["edges"] if sha256_hex(note) in e]
    assert bool(mentions) == (of == "files")


def test_every_sample_is_a_document_or_a_typed_reason(world: World) -> None:
    world.entries.append({"id": "samples", "type": "ai_session", "path": str(DATA / "ai-chats")})
    world.declare()
    reports = {r.stage: r.counts for r in world.ingest()}
    assert reports["documents"]["total"] == 9 and reports["documents"]["failed"] == 0
    letters = world.workspace.catalog.dead_letters.find("default")
    assert [(d["item"], d["code"]) for d in letters] == [("NOTE.md", "E_MIME")]
