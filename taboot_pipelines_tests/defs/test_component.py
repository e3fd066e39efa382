"""The chain as a component, loaded by Dagster's own loader."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from taboot_pipelines.defs.component import TabootComponent
from taboot_pipelines.stages.chain import CHAIN


def test_a_project_has_the_chain_by_a_file_of_a_few_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TABOOT_HOME", raising=False)
    told = {
        "type": "taboot_pipelines.defs.component.TabootComponent",
        "attributes": {"home": str(tmp_path / "home"), "sources": "sources.yaml", "namespace": "lab"},
    }
    with create_defs_folder_sandbox() as sandbox:
        at = sandbox.scaffold_component(component_cls=TabootComponent, defs_yaml_contents=told)
        assert len((at / "defs.yaml").read_text().splitlines()) <= 10
        with sandbox.load_component_and_build_defs(defs_path=at) as (component, defs):
            assert isinstance(component, TabootComponent)
            assets = {key.path[-1] for key in defs.resolve_asset_graph().get_all_asset_keys()}
            assert set(CHAIN.names) <= assets
            assert {"ingest_source", "ingest_all"} <= {job.name for job in defs.resolve_all_job_defs()}
            assert isinstance(defs.get_repository_def().get_sensor_def("sources_sensor"), dg.SensorDefinition)
            settings = defs.resources["workspace"].runtime.settings
            assert (settings.namespace, settings.home) == ("lab", tmp_path / "home")
            assert settings.sources == at / "sources.yaml"
    assert not (tmp_path / "home").exists(), "loading it opens nothing"
