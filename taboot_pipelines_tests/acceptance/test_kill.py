"""``kill -9`` at random points of an ingest or an erasure, then one more ingest: the stores of an undisturbed
run (rules ``watermark``, ``incremental-equals-scratch`` and ``kill-anywhere``).

Real processes, a persistent Dagster instance with pools, and no daemon. A seed decides where each process is
killed and what is edited in between; it is printed when a test fails. ``TABOOT_TEST_SOAK_SECONDS`` makes the
soak variant go on with random seeds for so long.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from taboot_pipelines.defs.instance import DAGSTER_YAML, open_instance
from taboot_pipelines.defs.pools import LIMITS
from taboot_pipelines.stages.embeddings import table_name
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE
from taboot_pipelines_tests.acceptance.killing import COMMIT, KINDS, SLICE, Ended, Kill, Taboot
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import DATA, World, differences, graph, holding, logical

SOAK = float(os.environ.get("TABOOT_TEST_SOAK_SECONDS", "0"))
WORD = "zyxwvutquux"
#: What depends on when we ran, and ids made of it: an undisturbed run at another time has others.
TIMES = {
    "created_at",
    "since",
    "job_id",
    "first_seen",
    "last_seen",
    "fingerprint",
    "document_fingerprint",
    "chunks_fingerprint",
    "relations_fingerprint",
    "claims",
    "links_fingerprint",
    "recency",
}


class Place:
    """Sources, a home whose runs are killed, and one whose runs are not."""

    def __init__(self, root: Path, tei: FakeTei, seed: int) -> None:
        self.random, self.seed, self.tei = random.Random(seed), seed, tei
        self.world = World(root, tei.url, limits={"batch_documents": 16})
        self.calm = root / "calm"
        self.serial = 0
        self.log: list[str] = []
        # The first round follows the chain, while there is everything left to do; later ones are mixed.
        self.kinds = ["file", "dagster", "time", "catalog", "table", "embed", "blob"]
        stacks = self.world.source("stacks", "compose", host="box.lan")
        for name in (
            "flask-redis",
            "nginx-nodejs-redis",
            "wireguard",
        ):
            for path in sorted(p for p in (DATA / "awesome-compose" / name).rglob("*") if p.is_file()):
                target = stacks / path.relative_to(DATA / "awesome-compose")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
        proxy = self.world.source("proxy", "swag", proxy="swag")
        for path in sorted((DATA / "swag-reverse-proxy-confs").glob("*.conf.sample"))[:14]:
            (proxy / path.name.removesuffix(".sample")).write_bytes(path.read_bytes())
        notes = self.world.source("notes", "files")
        for path in sorted((DATA / "linuxserver-docs-md" / "docs" / "images").glob("*.md"))[:8]:
            (notes / path.name).write_bytes(path.read_bytes())
        for i in range(3):
            (notes / f"plan-{i}.md").write_text(
                f"# Plan {i} of {WORD}\n\nThe {WORD} service is on {WORD}{i}.example.com:4433 and on"
                f" 10.9.8.{i}, see `{WORD}`.\n"
            )

    def environment(self) -> dict[str, str]:
        return {
            "TABOOT_SOURCES": str(self.world.directory / "sources.yaml"),
            "TABOOT_TEI__URL": self.tei.url,
            "TABOOT_LIMITS__BATCH_DOCUMENTS": "16",
            # A lease that outlived its holder would show as E_BUSY before anything counts as hanging.
            "TABOOT_LIMITS__LEASE_WAIT_SECONDS": "30",
        }

    def edit(self) -> None:
        """Change, add, rename or remove a file: all stages have something to do again."""
        self.serial += 1
        source = self.random.choice(["stacks", "proxy", "notes"])
        files = sorted(
            p for p in (self.world.directory / source).rglob("*") if p.suffix in (".md", ".conf", ".yaml")
        )
        file = self.random.choice(files)
        line = (
            f"\n# Number {self.serial} of the edits talks to"
            f" http://edit{self.serial}.example.com:{9000 + self.serial}/ now.\n".encode()
        )
        how = self.random.choice(["change", "change", "add", "rename", "remove"])
        if how == "change" or file.name.startswith("plan-"):
            file.write_bytes(file.read_bytes() + line)
        elif how == "add":
            file.with_name(f"added{self.serial}-{file.name}").write_bytes(file.read_bytes() + line)
        elif how == "rename":
            file.rename(file.with_name(f"renamed{self.serial}-{file.name}"))
        else:
            file.unlink()

    def kill(self, calm: Ended) -> dict[str, Any]:
        """Where the next process is killed, by what one that ran to its end has passed: in time, or at a
        point of some kind.
        """
        if not self.kinds:
            self.kinds = self.random.sample(["time", *KINDS], k=len(KINDS) + 1)
        how = self.kinds.pop()
        count = calm.points.get(how, 0)
        if not count:
            return {"after": self.random.uniform(0, calm.seconds)}
        # Early ones more often: later ones are not reached by a run that has little left to do.
        n = 1 + int(count * self.random.random() ** 2)
        within = (
            self.random.choice([0.0, self.random.uniform(0.0005, 0.02)])
            if how in ("table", "blob", "embed", "file")
            else 0.0
        )
        return {"kill": Kill(how, n, within)}


def vectors(workspace: Workspace) -> int:
    name = table_name(workspace.embedder.space.id)
    return int(
        workspace.tables.read(
            "default",
            NAMESPACE,
            name,
            workspace.tables.version("default", NAMESPACE, name),
            columns=["sha256"],
        ).num_rows
    )


def untimed(stores: Mapping[str, Any]) -> dict[str, Any]:
    """Rows without what depends on the time of the run. Where two files disagree on a property of a node, the
    one that was fetched later wins: only the replay has the same properties of nodes."""
    found = dict(stores)
    for name, rows in stores.items():
        if isinstance(rows, list) and rows and isinstance(rows[0], str):
            without = TIMES | ({"properties"} if name in ("entities", "nodes") else set())
            found[name] = sorted(
                json.dumps({k: v for k, v in json.loads(r).items() if k not in without}, sort_keys=True)
                for r in rows
            )
    return found


def check_stores(place: Place) -> None:
    """Equal to a replay of the catalog's inputs, times included, and to an undisturbed ingest of the same
    sources but for times.
    """
    world = place.world
    scratch = world.replay()
    calm = world.open(place.calm)
    other = world.open(scratch)
    try:
        mine, seen = logical(world.workspace), graph(world.kb())
        assert differences(mine, logical(other)) == {}
        assert differences(seen, graph(world.kb(home=scratch))) == {}
        assert differences(untimed(mine), untimed(logical(calm))) == {}
        assert differences(untimed(seen), untimed(graph(world.kb(home=place.calm)))) == {}
    finally:
        other.close()
        calm.close()


def check_nothing_is_held(world: World) -> None:
    """No run, job, pool slot or lease is left to a process that is dead."""
    with open_instance(world.workspace.settings) as instance:
        assert {r.status for r in instance.get_runs()} <= {
            dg.DagsterRunStatus.SUCCESS,
            dg.DagsterRunStatus.FAILURE,
        }
        for pool in instance.event_log_storage.get_concurrency_keys():
            info = instance.event_log_storage.get_concurrency_info(pool)
            assert (info.active_slot_count, info.pending_step_count, info.assigned_step_count) == (
                0,
                0,
                0,
            ), pool
    assert {j["state"] for j in world.workspace.catalog.jobs.find("default", limit=1000)} <= {
        "succeeded",
        "failed",
    }
    with (
        world.workspace.leases.source("default", "notes", wait=0),
        world.workspace.leases.namespace("default", wait=0),
    ):
        pass


def ingest_for_real(place: Place, killed_after: float | None = None) -> str:
    """The command as people start it, imports and all: what it printed, nothing if it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from taboot_pipelines.cli import main; main()", "ingest"],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **place.environment(), "TABOOT_HOME": str(place.world.home)},
    )
    try:
        output, _ = process.communicate(timeout=400 if killed_after is None else killed_after)
        letters = place.world.workspace.catalog.dead_letters.find("default")
        assert process.returncode == 0 or any(x["kind"] == "failed" for x in letters), output
        assert "blocked" not in output and "Traceback" not in output, output
        return output
    except subprocess.TimeoutExpired:
        assert killed_after is not None, "the ingest hangs"
        return ""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def killed_ingests(place: Place, taboot: Taboot, kills: int) -> None:
    """So many kills of ingests into one home, edits in between, then an ingest to the end."""
    world = place.world
    calm = taboot("ingest", home=place.calm)
    assert calm.code == 0, calm.output
    ingest_for_real(place, killed_after=place.random.uniform(0.5, calm.seconds))
    while kills:
        if place.random.random() < 0.4:
            place.edit()
        known, asked = vectors(world.workspace), place.tei.texts
        ended = taboot("ingest", home=world.home, **place.kill(calm))
        new, texts = vectors(world.workspace) - known, place.tei.texts - asked
        place.log.append(f"{ended.code} {ended.where}")
        # What is committed is never embedded again, and a kill costs no more than the commit in flight.
        assert new <= texts <= new + (COMMIT + SLICE if ended.killed else 0)
        if ended.killed:
            kills -= 1
            if (world.home / "kb" / "default.duckdb.manifest.json").exists():
                # Readers see the last manifest, whole.
                world.kb().search("number", limit=3)
        else:
            # What is left to do is less than from nothing: aim at that, and have it done.
            calm = ended
            place.edit()
    ended = taboot("ingest", home=world.home)
    assert ended.code == 0, ended.output
    check_nothing_is_held(world)


def killed_erasures(place: Place, taboot: Taboot, kills: int) -> None:
    """Erase what holds the word, killed so often, and let the next ingest finish what was begun."""
    world, catalog = place.world, place.world.workspace.catalog
    wanted = [
        x.doc_id
        for x in catalog.locators.of_source("default", "notes").values()
        if x.path.startswith("plan-")
    ]
    assert len(wanted) == 3 and holding(world.home, WORD)
    calm = taboot("ingest", home=place.calm)
    calm = taboot("delete", "--erase", *wanted, home=place.calm)
    assert calm.code == 0, calm.output
    assert holding(place.calm, WORD) == []
    ended = None
    while kills and (ended is None or ended.killed):
        kills -= 1
        ended = taboot("delete", "--erase", *wanted, home=world.home, **place.kill(calm))
        place.log.append(f"erasure: {ended.code} {ended.where}")
        # A tombstone without a receipt would be finished by nobody.
        assert receipts(world) or not catalog.tombstones.all("default")
    begun = bool(receipts(world))
    ended = taboot("ingest", home=world.home, **place.kill(calm))
    place.log.append(f"{ended.code} {ended.where}")
    if not begun:
        ended = taboot("delete", "--erase", *wanted, home=world.home)
        assert ended.code == 0, ended.output
    place.log.append(ingest_for_real(place))
    assert catalog.receipts.pending("default") == []
    assert holding(world.home, WORD) == []


def receipts(world: World) -> list[str]:
    with sqlite3.connect(world.home / "catalog.db") as connection:
        return [r for (r,) in connection.execute("SELECT receipt_id FROM deletion")]


def scenario(seed: int, tei: FakeTei, kills: int) -> None:
    root = Path(tempfile.mkdtemp(prefix="taboot-kill-"))
    place = Place(root, tei, seed)
    try:
        with Taboot(root, place.environment()) as taboot:
            killed_ingests(place, taboot, kills)
            killed_erasures(place, taboot, max(2, kills // 3))
            check_nothing_is_held(place.world)
            check_stores(place)
    finally:
        # Shown when it fails; what is on disk then stays to be looked at.
        print(f"seed {seed}, in {root}", *place.log, sep="\n")
        place.world.workspace.close()
    shutil.rmtree(root)


def test_killed_ingests_end_in_the_stores_of_an_undisturbed_one(data: Path, tei: FakeTei) -> None:
    scenario(int(os.environ.get("TABOOT_TEST_SEED", "3")), tei, 6)


@pytest.mark.parametrize(
    "call",
    [
        "os.fsync",
        "pathlib.Path.replace",
        "dagster.DagsterInstance.from_config",
        "taboot_pipelines.defs.instance.LIMITS",
    ],
)
def test_the_instance_of_a_killed_first_start_is_completed(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    class Killed(BaseException):
        pass

    class Killing:
        def __call__(self, *_: object, **__: object) -> object:
            raise Killed

        keys = __call__

    with monkeypatch.context() as patch, pytest.raises(Killed):
        killing = Killing()
        patch.setattr(call, killing if call.endswith("LIMITS") else lambda *a, **o: killing(*a, **o))
        with open_instance(world.workspace.settings):
            pass
    with open_instance(world.workspace.settings) as instance:
        assert (world.home / "dagster" / "dagster.yaml").read_text() == DAGSTER_YAML
        assert {
            pool: instance.event_log_storage.get_concurrency_info(pool).slot_count for pool in LIMITS
        } == LIMITS


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.skipif(not SOAK, reason="TABOOT_TEST_SOAK_SECONDS is not set")
def test_soak(data: Path, tei: FakeTei) -> None:
    until = time.monotonic() + SOAK
    while time.monotonic() < until:
        seed = random.SystemRandom().randrange(2**32)
        print(f"seed {seed}")
        scenario(seed, tei, 20)
