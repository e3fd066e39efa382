"""The shape of the project: what a person finds in the UI, and that loading it does nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from taboot_pipelines.checks import CHECKS
from taboot_pipelines.defs import build_defs
from taboot_pipelines.defs.instance import DAGSTER_YAML
from taboot_pipelines.defs.pools import POOLS
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.chain import CHAIN

ROOT = Path(__file__).parents[2]

#: The checks of ``raw_blobs`` that Dagster alone carries out.
APART_FROM_INGESTS = {"readiness": False, "sources_fresh": False}
#: asset: (group, what it depends on, pool, its checks and whether they block)
EXPECTED = {
    stage.name: (
        stage.group,
        set(stage.needs),
        {POOLS[stage.uses]},
        {check.name: check.blocking for check in CHECKS if check.stage == stage.name}
        | (APART_FROM_INGESTS if stage is CHAIN.first else {}),
    )
    for stage in CHAIN.stages
}


#: Assets of the whole deployment, which are no stages of a source.
APART = {dg.AssetKey(name) for name in ("storage_audit", "usage", "retention", "extraction_quality")}


def test_the_definitions_are_these(tmp_path: Path) -> None:
    defs = build_defs(load_settings(home=tmp_path / "home", sources=tmp_path / "sources.yaml"))
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    found = {}
    for key in graph.get_all_asset_keys() - APART:
        node = graph.get(key)
        checks = {c.name: graph.get(c).blocking for c in node.check_keys}
        found[key.to_user_string()] = (
            node.group_name,
            {p.to_user_string() for p in node.parent_keys},
            set(node.pools or ()),
            checks,
        )
        assert (
            isinstance(node.partitions_def, dg.DynamicPartitionsDefinition)
            and node.partitions_def.name == "sources"
        )
        assert node.description and node.owners and node.kinds and node.code_version
        assert checks, f"{key} has no check"
        assert node.metadata["dagster/code_references"].code_references
        columns = node.metadata.get("dagster/column_schema")
        assert bool(columns) == bool(CHAIN.stage(key.path[-1]).tables)
        assert columns is None or all(c.description for c in columns.columns)
    assert found == EXPECTED
    scarce = {name: pools for name, (_, _, pools, _) in found.items() if not pools <= {"ingest", "knowledge"}}
    assert scarce == scarce | {"embeddings": {"embed"}, "tier_c_triples": {"llm"}}
    assert {name for name, (_, _, pools, _) in found.items() if pools == {"knowledge"}} >= {
        "tier_a_triples",
        "tier_b_triples",
        *CHAIN.serving,
        "entity_snapshots",
    }
    assert {check for *_, checks in found.values() for check, blocking in checks.items() if blocking} == {
        *(check.name for stage in CHAIN.stages for check in stage.checks if check.blocking),
        "offsets_true",
        "every_chunk_embedded",
        "no_orphan_node",
        "no_edge_without_support",
    }
    assert {
        name: found[name][0] for name in ("raw_blobs", "chunks", "embeddings", "tier_a_triples", "kb_shards")
    } == {
        "raw_blobs": "ingest",
        "chunks": "documents",
        "embeddings": "vectors",
        "tier_a_triples": "knowledge",
        "kb_shards": "knowledge_base",
    }
    assert {j.name for j in defs.get_repository_def().get_all_jobs()} - {"__ASSET_JOB"} == {
        "ingest_source",
        "ingest_all",
        "join_crawls",
        "audit",
        "expire",
        "measure_extraction",
        "dead_letters",
        "replay_dead_letters",
        "reinterpret",
        "promote_runs",
        "rollback_runs",
    }
    measured = graph.get(dg.AssetKey("extraction_quality"))
    assert measured.partitions_def is None and {c.name for c in measured.check_keys} == {"no_drop"}
    assert [s.name for s in defs.schedules or ()] == ["daily_reconciliation", "daily_retention"]
    audit = graph.get(dg.AssetKey("storage_audit"))
    assert (
        audit.group_name == "operations"
        and audit.partitions_def is None
        and {c.name for c in audit.check_keys} == {"stores_agree"}
    )
    assert {s.name for s in defs.sensors or ()} == {
        "sources_sensor",
        "due_sources",
        "due_dead_letters",
        "due_uploads",
        "qdrant_retries",
        "stale_runs",
        "run_retention",
        "due_retention",
        "notifications",
        "run_failures",
        "parts",
        "freshness",
    }
    assert set(defs.resources or ()) == {"workspace", "tables", "knowledge_base", "passed_on"}
    assert set(defs.resolve_job_def("ingest_source").asset_layer.executable_asset_keys) == {
        dg.AssetKey(a) for a in CHAIN.names
    }
    assert {
        k.name for k in defs.resolve_job_def("ingest_source").asset_layer.asset_graph.asset_check_keys
    } == {c for *_, checks in EXPECTED.values() for c in checks if c not in APART_FROM_INGESTS}
    assert not (tmp_path / "home").exists()


def test_the_entry_point_loads_without_touching_anything(tmp_path: Path) -> None:
    program = (
        "import socket, sys\ndef refuse(*a, **k): raise AssertionError('network')\nsocket.socket.connect ="
        " socket.getaddrinfo = refuse\nimport taboot_pipelines.definitions as d\nassert"
        " d.defs.assets\nprint([m for m in ('torch', 'onnxruntime', 'openvino', 'matplotlib',"
        " 'pandas', 'deltalake') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:taboot_pipelines", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "TABOOT_HOME": str(tmp_path / "home")},
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_setting_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABOOT_LIMITS__MAX_BLOB_BYTES", "much")
    with pytest.raises(Exception, match="E_CONFIG: TABOOT_LIMITS__MAX_BLOB_BYTES"):
        build_defs()


def test_the_instance_that_is_written_is_the_one_that_is_documented() -> None:
    shown = (ROOT / "deploy" / "local" / "dagster.yaml").read_text().splitlines()
    assert [line for line in shown if line and not line.startswith("#")] == DAGSTER_YAML.splitlines()
