"""What must hold after any ingest, whatever it met: the ledger adds up, and the stores equal a replay of the
inputs.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.world import World, differences, graph, logical


def check_ledger(world: World, namespace: str = "default") -> None:
    """Every job that succeeded accounts for all that it discovered (rule ``nothing-lost-silently``)."""
    jobs = world.workspace.catalog.jobs.find(namespace, limit=1000)
    assert jobs
    for job in jobs:
        assert job["state"] in ("succeeded", "failed"), f"job of {job['source_id']} was left {job['state']}"
        if job["state"] == "succeeded":
            parts = {k: job[k] for k in ("fetched", "not_modified", "skipped", "failed")}
            assert job["discovered"] == sum(parts.values()), (job["source_id"], job["discovered"], parts)
        else:
            assert json.loads(job["error"])["error"]["code"].startswith("E_")


def check_equal_to_replay(world: World, *, tag: str = "scratch") -> None:
    """Incremental equals from scratch (rule ``incremental-equals-scratch``): what is stored is what a replay
    of the catalog's inputs gives.
    """
    home = world.replay(tag)
    scratch = world.open(home)
    try:
        assert differences(logical(world.workspace), logical(scratch)) == {}
        assert differences(graph(world.kb()), graph(world.kb(home=home))) == {}
    finally:
        scratch.close()


def check_mended(world: World) -> None:
    """After the input was mended: an ingest with nothing dead, an even ledger, and stores equal to a
    replay.
    """
    world.ingest()
    assert letters(world) == {}
    check_ledger(world)
    check_equal_to_replay(world, tag="mended")


def letters(world: World, namespace: str = "default") -> dict[str, str]:
    """The codes of all dead letters, by ``source/stage/item``."""
    return {
        f"{d['source_id']}/{d['stage']}/{d['item']}": d["code"]
        for d in world.workspace.catalog.dead_letters.find(namespace)
    }


def paths(kb: KnowledgeBase) -> set[str]:
    """What is in the knowledge base, as ``source/path``."""
    return {f"{r['source']}/{r['path']}" for r in kb.documents().to_pylist()}


def edges(kb: KnowledgeBase) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = kb.edges().to_pylist()
    return found


def blob_path(world: World, sha256: str, namespace: str = "default") -> Path:
    return world.home / "blobs" / world.workspace.blobs.path(namespace, sha256)


def flip_byte(path: Path, at: int = 0) -> bytes:
    """Change one bit of a file in place; returns what it held."""
    before = path.read_bytes()
    mode = path.stat().st_mode
    path.chmod(0o600)
    data = bytearray(before)
    data[at] ^= 0x01
    path.write_bytes(bytes(data))
    path.chmod(mode)
    return before


def columns(home: Path) -> str:
    """All text that the catalog holds, for messages that must not quote."""
    with sqlite3.connect(home / "catalog.db") as connection:
        tables = [t for (t,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return "\n".join(str(row) for t in tables for row in connection.execute(f"SELECT * FROM {t}"))
