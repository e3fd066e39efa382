"""A small world to run the chain in: sources on disk, a home, an embedding server that is a fake."""

from __future__ import annotations

import copy
import functools
import gzip
import json
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import Settings, load_settings
from taboot_pipelines.stages import embeddings
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import derive, run_source_stage
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.running import run_stage, run_together
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE
from taboot_pipelines_tests import servers
from taboot_pipelines_tests.needs import DATA as DATA
from taboot_pipelines_tests.needs import HOMELAB

#: Tables of the catalog that are inputs of a replay (rule ``incremental-equals-scratch``); everything else is
#: derived or history.
INPUT_TABLES = (
    "alembic_version",
    "source_entry",
    "tombstone",
    "retention_policy",
    "uploaded",
    "document_tag",
    "confirmation",
    "assertion",
    "feedback",
    "chosen_run",
    "job",
    "locator",
    "fetch",
    "blob",
    "storage_usage",
    "llm_answer",
)

#: Every table of the chain that a source or a namespace has one of; the vectors are compared by themselves.
_TABLES = [t for stage in CHAIN.stages for t in stage.tables if not t.per_space]
TABLES_OF_SOURCE = tuple(t.name for t in _TABLES if t.owner == "source")
TABLES_OF_NAMESPACE = tuple(t.name for t in _TABLES if t.owner == "namespace")


@functools.cache
def migrated() -> bytes:
    """A catalog that every migration made, with nothing in it yet: no other world waits for them."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        Workspace(load_settings(home=home)).close()
        with sqlite3.connect(home / "catalog.db") as catalog:
            catalog.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return (home / "catalog.db").read_bytes()


def _begin(home: Path) -> None:
    home.mkdir(mode=0o700, parents=True)
    catalog = home / "catalog.db"
    catalog.write_bytes(migrated())
    catalog.chmod(0o600)


class World:
    """Sources under ``root/sources``, data under ``root/home``; ``tei`` is the URL of a fake embedding
    server.
    """

    def __init__(self, root: Path, tei: str, /, directory: Path | None = None, **settings: Any) -> None:
        self.root, self.home, self.tei = root, root / "home", tei
        self.directory = directory or root / "sources"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.overrides = settings
        self.entries: list[dict[str, Any]] = []
        self.quotas: dict[str, dict[str, int]] = {}
        self.workspace = self.open(self.home)

    def settings(self, home: Path) -> Settings:
        tei = {"url": self.tei, **self.overrides.get("tei", {})}
        return load_settings(
            **{**self.overrides, "home": home, "sources": self.directory / "sources.yaml", "tei": tei}
        )

    def open(self, home: Path) -> Workspace:
        settings = self.settings(home)
        if "catalog_url" not in self.overrides and not home.exists():
            _begin(home)
        return Workspace(settings)

    def source(self, source_id: str, type_: str = "files", **fields: Any) -> Path:
        """Declare a source; returns its directory, which is created. A field that is None is left out."""
        path = self.directory / source_id
        path.mkdir(exist_ok=True)
        self.entries = [e for e in self.entries if e["id"] != source_id]
        fields = {"path": source_id, **fields}
        self.entries.append(
            {"id": source_id, "type": type_} | {k: v for k, v in fields.items() if v is not None}
        )
        self.declare()
        return path

    def declare(self) -> None:
        written = {"sources": self.entries, **({"quotas": self.quotas} if self.quotas else {})}
        (self.directory / "sources.yaml").write_text(yaml.safe_dump(written))

    def remove_source(self, source_id: str) -> None:
        self.entries = [e for e in self.entries if e["id"] != source_id]
        self.declare()

    def ingest(self, *source_ids: str, confirm_deletes: bool = False) -> list[StageReport]:
        """The whole chain for some sources (default: all known to the catalog), published once.

        The failure of a server is raised last, since it keeps nothing else from being published.
        """
        self.workspace.sync_sources()
        return take_in(self.workspace, *source_ids, confirm_deletes=confirm_deletes)

    def run(self, stage: str, source_id: str, *, confirm_deletes: bool = False) -> StageReport:
        """One stage of one source, alone."""
        self.workspace.sync_sources()
        (wanted,) = (s for s in CHAIN.of_source if s.name == stage)
        entry = self.workspace.entries(source_id)[0]
        return run_source_stage(self.workspace, wanted, entry, confirm_deletes=confirm_deletes)

    def age(self, days: float) -> None:
        """Let everything that is stored be so much older: its bytes came, and policies were set, earlier."""
        micros = int(days * 24 * 3600 * 1_000_000)
        with sqlite3.connect(self.home / "catalog.db") as catalog:
            catalog.execute("UPDATE locator SET since = since - ?", [micros])
            catalog.execute("UPDATE locator SET announced_at = announced_at - ?", [micros])
            catalog.execute("UPDATE retention_policy SET set_at = set_at - ?", [micros])

    def kb(self, namespace: str = "default", home: Path | None = None) -> KnowledgeBase:
        return KnowledgeBase.open(home or self.home, namespace, settings=self.settings(home or self.home))

    def replay(self, name: str = "scratch") -> Path:
        """From scratch: the catalog's inputs and the blobs in a new home, all stages run over them once."""
        home = self.root / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        if (self.home / "blobs").exists():
            shutil.copytree(self.home / "blobs", home / "blobs")
        with (
            sqlite3.connect(self.home / "catalog.db") as source,
            sqlite3.connect(home / "catalog.db") as target,
        ):
            source.backup(target)
            for (table,) in target.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall():
                if table not in INPUT_TABLES:
                    target.execute(f"DELETE FROM {table}")
        workspace = self.open(home)
        try:
            for row in workspace.catalog.sources.find():
                derive(workspace, row["namespace"], [row["source_id"]])
            for namespace in sorted({row["namespace"] for row in workspace.catalog.sources.find()}):
                for stage in CHAIN.of_namespace:
                    if stage.target is None:
                        stage.run(workspace, namespace, "")
        finally:
            workspace.close()
        return home


def take_in(workspace: Workspace, *source_ids: str, confirm_deletes: bool = False) -> list[StageReport]:
    """The whole chain for some sources (default: all known to the catalog), published once.

    The failure of a server is raised last, since it keeps nothing else from being published.
    """
    chosen = source_ids or sorted({row["source_id"] for row in workspace.catalog.sources.find()})
    reports: list[StageReport] = []
    for source_id in chosen:
        for stage in CHAIN.of_source:
            reports += run_stage(workspace, stage.name, source_id, confirm_deletes=confirm_deletes)
    failure: TabootError | None = None
    for published in CHAIN.of_namespace if chosen else ():
        try:
            reports += run_together(workspace, published, chosen)
        except TabootError as error:
            if published.target is None:
                raise
            failure = failure or error
    if failure is not None:
        raise failure
    return reports


class Kept:
    """A world that was filled once, for tests that each begin with it as it was then, without an ingest.

    It is put back in its place, since a home names the directories of its sources; so it belongs to a fixture
    of a module or of a wider scope, whose tests run one after another.
    """

    def __init__(self, world: World) -> None:
        """Close the world and copy all that lies under its root."""
        world.workspace.close()
        self._root, self._tei, self._overrides = world.root, world.tei, world.overrides
        self._entries = copy.deepcopy(world.entries)
        self._copy = world.root.with_name(f"{world.root.name}.kept")
        shutil.copytree(self._root, self._copy, symlinks=True)

    def put_back(self, into: World | None = None) -> World:
        """Return the world as it was, opened anew, whatever became of the last one; ``into``: a world that
        nothing was done with, which becomes it.
        """
        for path in (self._root, *self._root.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(self._root, ignore_errors=True)
        shutil.copytree(self._copy, self._root, symlinks=True)
        if into is None:
            into = World(self._root, self._tei, **self._overrides)
        else:
            into.workspace.close()
            into.root, into.home, into.directory = self._root, self._root / "home", self._root / "sources"
            into.workspace = into.open(into.home)
        into.entries = copy.deepcopy(self._entries)
        return into


def homelab_home() -> Path:
    """A home with examples/homelab in it, read by the bundled model: one for all workers, to be read only."""

    def make(home: Path) -> None:
        workspace = Workspace(load_settings(home=home, sources=HOMELAB / "sources.yaml"))
        workspace.sync_sources()
        take_in(workspace)
        workspace.close()

    return servers.RUN.once("homelab", make)


def logical(workspace: Workspace, namespace: str = "default") -> dict[str, Any]:
    """Every derived store as logical rows: what must be equal however it came about."""
    found: dict[str, Any] = {}
    live: set[str] = set()
    for row in workspace.catalog.sources.find(namespace):
        source = row["source_id"]
        for name in TABLES_OF_SOURCE:
            table = workspace.tables.read(
                namespace, source, name, workspace.tables.version(namespace, source, name)
            )
            found[f"{source}/{name}"] = rows_of(table)
            if name == "chunks":
                live |= set(table.column("sha256").to_pylist())
    for name in TABLES_OF_NAMESPACE:
        found[name] = rows_of(
            workspace.tables.read(
                namespace, NAMESPACE, name, workspace.tables.version(namespace, NAMESPACE, name)
            )
        )
    vectors = embeddings.table_name(workspace.embedder.space.id)
    table = workspace.tables.read(
        namespace,
        NAMESPACE,
        vectors,
        workspace.tables.version(namespace, NAMESPACE, vectors),
        columns=["sha256", "vector"],
    )
    found["vectors"] = {
        s: tuple(v)
        for s, v in zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True)
        if s in live
    }
    found["dead_letters"] = [
        (d["source_id"], d["stage"], d["item"], d["code"])
        for d in workspace.catalog.dead_letters.find(namespace)
        if d["stage"] != "raw_blobs"
    ]
    return found


def graph(kb: KnowledgeBase) -> dict[str, Any]:
    """What a reader sees: the graph and the documents, row by row."""
    return {"nodes": rows_of(kb.nodes()), "edges": rows_of(kb.edges()), "documents": rows_of(kb.documents())}


def rows_of(table: pa.Table) -> list[str]:
    return sorted(json.dumps(r, sort_keys=True, default=str) for r in table.to_pylist())


def differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """For an assertion's message: what is only on one side, by store, shortened."""
    found = {}
    for key in sorted(set(left) | set(right)):
        a, b = left.get(key), right.get(key)
        if a != b:
            only = (
                sorted(set(map(str, a or [])) - set(map(str, b or [])))[:5],
                sorted(set(map(str, b or [])) - set(map(str, a or [])))[:5],
            )
            found[key] = {"left": [x[:600] for x in only[0]], "right": [x[:600] for x in only[1]]}
    return found


def holding(root: Path, word: str) -> list[str]:
    """The files under ``root`` that hold a word in any case: as bytes, or compressed in Parquet or DuckDB."""
    needle = word.casefold()
    return [path for path, content in contents(root) if needle in content]


def contents(root: Path) -> Iterator[tuple[str, str]]:
    """Every file under ``root`` as (path, all that it holds in folded case): its bytes, and what is
    compressed in it.
    """
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        content = _bytes(path).decode("latin-1")
        if path.suffix == ".parquet":
            content += str(pq.ParquetFile(path).read().to_pydict())
        elif path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as connection:
                for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                    content += str(connection.execute(f'SELECT * FROM "{table}"').fetchall())
        elif path.suffix == ".gz":
            content += gzip.decompress(path.read_bytes()).decode("latin-1")
        yield str(path.relative_to(root)), content.casefold()


def _bytes(path: Path) -> bytes:
    """Read a file. One of SQLite is read by another process: when a process closes a file, it loses the locks
    that it holds on it by other descriptors, and a connection that it has open is then taken for closed.
    Source: sqlite.org/howtocorrupt.html, 2.2.
    """
    if ".db" not in path.suffix:
        return path.read_bytes()
    return subprocess.run(["cat", str(path)], check=True, capture_output=True).stdout
