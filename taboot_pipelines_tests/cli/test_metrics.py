"""``taboot metrics``: what Prometheus' own parser reads of it, and the files that are made from the list."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from taboot_pipelines.stages import metrics
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import World

ROOT = Path(__file__).parents[2]


def names(of: str = "home") -> dict[str, tuple[str, ...]]:
    """The labels of each sample's name that the list declares."""
    found = {}
    for m in metrics.METRICS:
        if m.of == of or m.name == "build_info":
            found |= {f"taboot_{m.name}": m.labels}
            if m.kind == "histogram":
                steps = {f"taboot_{m.name}_{part}": m.labels for part in ("sum", "count", "created")}
                found |= {**steps, f"taboot_{m.name}_bucket": (*m.labels, "le")}
            elif m.kind == "counter" and of == "server":
                found[f"taboot_{m.name.removesuffix('_total')}_created"] = m.labels
    return found


def read(text: str, of: str = "home") -> dict[tuple[str, ...], float]:
    """{(name, label values in the order of the list …): value} of every sample."""
    labels = names(of)
    return {
        (sample.name, *(sample.labels[label] for label in labels[sample.name])): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_told_is_what_status_tells(lab: Shell) -> None:
    found, state = read(lab("metrics")), lab.json("status")
    served = state["namespaces"]["default"]
    assert found["taboot_published_documents", "default"] == served["documents"]
    assert found["taboot_published_chunks", "default"] == served["chunks"]
    assert found["taboot_published_words", "default"] > served["chunks"]
    assert found["taboot_blob_bytes", "default"] == served["blob_bytes"]
    for source in state["sources"]:
        at = ("default", source["id"])
        assert found["taboot_source_last_run_failed", *at] == 0
        assert found["taboot_source_items", *at, "failed"] == source["last_job"]["failed"]
        assert 0 < time.time() - found["taboot_source_last_success_timestamp_seconds", *at] < 3600 * 24
        failed = sum(v for k, v in found.items() if k[0] == "taboot_dead_letters" and k[2] == source["id"])
        assert failed == sum(source["dead_letters"].values())
        runs = found["taboot_runs_total", *at, "succeeded"]
        assert runs >= 1 and found["taboot_items_total", *at, "fetched"] == source["last_job"]["discovered"]
    whole = ("taboot_run_duration_seconds_bucket", "default", "+Inf")
    assert found[whole] == found["taboot_run_duration_seconds_count", "default"] >= len(state["sources"])
    assert found["taboot_stage_duration_seconds_count", "default", "kb_shards"] >= 1
    assert not any(name.startswith("taboot_part") for name, *_ in found)
    assert read(lab("metrics", "--parts"))["taboot_part_up", "catalog"] == 1
    assert found["taboot_catalog_up",] == 1 and time.time() - found["taboot_scrape_timestamp_seconds",] < 60


def test_a_catalog_that_is_away_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.source("notes") / "a.md").write_text("# A\n\nA note.\n")
    world.ingest()
    world.workspace.close()
    (world.home / "catalog.db").write_bytes(b"no database" * 100)
    found = read(metrics.exposition(world.settings(world.home)))
    assert found["taboot_catalog_up",] == 0 and found["taboot_scrape_timestamp_seconds",] > 0


def test_what_needs_a_person_is_seen(lab: Shell) -> None:
    documents = ("taboot_documents", "default", "runbooks")
    before = read(lab("metrics"))[documents]
    lab("delete", "redis.md")
    assert read(lab("metrics"))[documents] == before - 1
    lab("restore", "redis.md")
    lab.world.remove_source("runbooks")
    lab("ingest", code=1)
    found = read(lab("metrics"))
    assert found["taboot_held_deletions", "default", "runbooks"] > 0


def test_a_file_for_node_exporter_is_whole_and_a_home_without_a_catalog_has_the_release(
    lab: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "collected" / "taboot.prom"
    lab("metrics", "--textfile", str(file), code=1)
    assert "E_STORAGE" in lab.err
    file.parent.mkdir()
    assert lab("metrics", "--textfile", str(file)) == ""
    assert "taboot_documents" in {name for name, *_ in read(file.read_text())}
    assert [p.name for p in file.parent.iterdir()] == ["taboot.prom"]
    lab("metrics", "--textfile", str(file), "--listen", "0", code=2)
    lab.environment["TABOOT_HOME"] = str(tmp_path / "nothing")
    found = {name for name, *_ in read(lab("metrics"))}
    assert found == {
        f"taboot_{name}" for name in ("build_info", "scrape_duration_seconds", "scrape_timestamp_seconds")
    }
    assert not (tmp_path / "nothing").exists()


def test_prometheus_is_answered_on_loopback(lab: Shell) -> None:
    program = "from taboot_pipelines.cli import main; main()"
    server = subprocess.Popen(
        [*python(), "-c", program, "metrics", "--listen", "0"],
        env=lab.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        for _ in range(2):
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain")
                assert "taboot_blobs" in {name for name, *_ in read(answer.read().decode())}
        with urllib.request.urlopen(url.replace("/metrics", "/health"), timeout=60) as answer:
            assert answer.read() == b"ok\n"
    finally:
        server.terminate()
        server.wait(30)


def test_secrets_and_texts_are_in_no_metric(lab: Shell) -> None:
    text = lab("metrics", "--parts")
    assert "redis.md" not in text and "TABOOT_" not in text and "http" not in text


@pytest.mark.parametrize(("name", "made"), [("alerts.yaml", "alert_rules"), ("dashboard.json", "dashboard")])
def test_what_is_deployed_is_made_from_the_list(name: str, made: str) -> None:
    text = (ROOT / "deploy" / "monitoring" / name).read_text()
    assert (yaml.safe_load(text) if name.endswith("yaml") else json.loads(text)) == getattr(metrics, made)()


def test_every_alert_and_panel_asks_for_metrics_that_there_are(world: World) -> None:
    names_of = {**names(), **names("server")}
    for rule in metrics.alert_rules()["groups"][0]["rules"]:
        asked = set(re.findall(r"taboot_\w+", rule["expr"]))
        assert asked and asked <= names_of.keys() and rule["annotations"]["description"], rule
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        for name in asked:
            assert labels <= set(names_of[name]), rule["alert"]
    panels = metrics.dashboard()["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    told = {n for p in panels for t in p["targets"] for n in re.findall(r"taboot_\w+", t["expr"])}
    assert told <= names_of.keys()
    asked = {f"taboot_{m.name}": m.kind for m in metrics.METRICS}
    for panel in panels:
        (name,) = set(re.findall(r"taboot_\w+", " ".join(t["expr"] for t in panel["targets"])))
        counter = asked.get(name) == "counter"
        assert all(("rate(" in t["expr"]) == (counter or "_bucket" in name) for t in panel["targets"])
        assert all("histogram_quantile(" in t["expr"] for t in panel["targets"]) == ("_bucket" in name)


def test_a_counter_never_falls_though_its_jobs_are_forgotten(world: World) -> None:
    folder = world.source("notes")
    before = dict[tuple[str, ...], float]()
    for number in range(24):
        (folder / "a.md").write_text(f"# A\n\nThe note number {number} says where the cache is.\n")
        world.run("raw_blobs", "notes")
        if number % 8 == 7:
            world.workspace.catalog.jobs.forget_old("default", "notes", 1)
        found = read(metrics.exposition(world.settings(world.home)))
        counted = {k: v for k, v in found.items() if k[0].endswith(("_total", "_bucket", "_count", "_sum"))}
        assert all(counted[key] >= value for key, value in before.items())
        before = counted
    assert before["taboot_items_total", "default", "notes", "fetched"] == 24
    assert before["taboot_runs_total", "default", "notes", "succeeded"] == 24


def test_a_catalog_that_is_another_file_is_read_anew(world: World) -> None:
    folder = world.source("notes")
    (folder / "a.md").write_text("# A\n\nA note of the morning.\n")
    world.ingest()
    world.workspace.close()
    registry, file = metrics.registry(world.settings(world.home)), world.home / "catalog.db"

    def documents() -> float:
        return read(generate_latest(registry).decode())["taboot_documents", "default", "notes"]

    assert documents() == documents() == 1
    with sqlite3.connect(file) as old:
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(file, file.with_suffix(".old"))
    (folder / "b.md").write_text("# B\n\nA note of the night.\n")
    world.ingest()
    world.workspace.close()
    assert documents() == 2
    for beside in ("-wal", "-shm"):
        file.with_name(file.name + beside).unlink(missing_ok=True)
    file.with_suffix(".old").replace(file)
    assert documents() == 1


def test_what_waits_in_dagsters_queue_is_told_where_parts_are_asked(world: World) -> None:
    import dagster as dg

    (world.source("notes") / "a.md").write_text("# A\n\nA note of the morning.\n")
    world.ingest()
    settings = world.settings(world.home)
    settings.dagster_home.mkdir(parents=True, exist_ok=True)

    @dg.job
    def waits() -> None:
        pass

    with dg.DagsterInstance.local_temp(str(settings.dagster_home)) as instance:
        for status in ("NOT_STARTED", "NOT_STARTED", "STARTED", "SUCCESS"):
            instance.create_run_for_job(waits, status=dg.DagsterRunStatus(status))
    found = read(metrics.exposition(settings, parts=True))
    assert {k: v for k, v in found.items() if k[0] == "taboot_dagster_runs"} == {
        ("taboot_dagster_runs", "NOT_STARTED"): 2,
        ("taboot_dagster_runs", "STARTED"): 1,
    }


def test_windows_that_wait_for_a_model_are_told(world: World) -> None:
    world.source("notes")
    world.workspace.sync_sources()
    window = {"doc_id": "d", "blob_sha256": "s", "span_start": 0, "span_end": 1, "tokens": 1}
    windows = [{**window, "key": key, "open": key != "read"} for key in ("read", "open", "other")]
    world.workspace.catalog.answers.record_windows("default", "notes", ["d"], windows)
    found = read(metrics.exposition(world.settings(world.home)))
    assert found["taboot_windows_waiting", "default"] == 2
