"""Steps run where a setting says, with the same result, and a GPU step asks each executor for its GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest

from taboot_pipelines.defs import build_defs
from taboot_pipelines.defs.executors import GPU_QUEUE, QUEUE_TAG, gpu_steps
from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.defs.partitions import NAME, TAG
from taboot_pipelines.defs.sweeper import sweep_dead_runs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines_tests.defs.conftest import COMPOSE
from taboot_pipelines_tests.defs.launching import environment, launch
from taboot_pipelines_tests.world import World, differences, logical

K8S = {
    "TABOOT_EXECUTOR": "k8s",
    "TABOOT_K8S__IMAGE": "registry.lan/taboot:1",
    "TABOOT_K8S__NAMESPACE": "knowledge",
    "TABOOT_K8S__SERVICE_ACCOUNT": "taboot-step",
    "TABOOT_K8S__ENV_SECRETS": '["taboot-servers"]',
    "TABOOT_K8S__ENV_CONFIG_MAPS": '["taboot-settings"]',
    "TABOOT_K8S__GPU_RESOURCE": "amd.com/gpu",
    "TABOOT_K8S__GPU_NODE_SELECTOR": '{"accelerator": "mi300"}',
}


@pytest.mark.slow
def test_several_processes_give_what_one_gives(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.source("stack", "compose", host="box.lan") / "compose.yaml").write_text(COMPOSE)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (run_id,) = launch(
        world,
        {**environment(world), "TABOOT_EXECUTOR": "multiprocess", "TABOOT_EXECUTOR_MAX_CONCURRENT": "2"},
        "stack",
    )
    with open_instance(world.workspace.settings) as instance:
        run = instance.get_run_by_id(run_id)
        assert run is not None and run.status == dg.DagsterRunStatus.SUCCESS
        started = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_WORKER_STARTED)
        pids = {
            e.dagster_event.step_key: e.dagster_event.event_specific_data.metadata["pid"].value
            for e in started
        }
        assert set(pids) >= set(CHAIN.names) and len(set(pids.values())) == len(pids)
        assert instance.event_log_storage.get_concurrency_run_ids() == set()
        assert sweep_dead_runs(instance) == []
    scratch = world.open(world.replay())
    assert differences(logical(scratch), logical(world.workspace)) == {}
    scratch.close()


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, set()),
        ({"tei": {"url": "http://127.0.0.1:1"}}, set()),
        ({"embedding": {"torch": {"model": "/m", "device": "cpu"}}}, set()),
        ({"embedding": {"torch": {"model": "/m"}}}, {"embeddings"}),
        ({"llm": {"url": "http://127.0.0.1:1"}}, set()),
        ({"llm": {"vllm_model": "/m"}}, {"tier_c_triples"}),
    ],
    ids=["bundled", "tei", "torch-cpu", "torch", "llm-server", "vllm"],
)
def test_the_steps_with_a_model_on_a_gpu_go_to_its_queue(
    tmp_path: Path, settings: dict[str, Any], wanted: set[str]
) -> None:
    """No other does: a deployment without a GPU has no worker that reads that queue."""
    made = load_settings(home=tmp_path / "home", **settings)
    assert gpu_steps(made) == wanted
    steps = build_defs(made).resolve_job_def("ingest_source").all_node_defs
    tagged = {step.name for step in steps if step.tags.get(QUEUE_TAG) == GPU_QUEUE}
    assert tagged == wanted and {"embeddings", "tier_c_triples"} <= {step.name for step in steps}


@pytest.mark.parametrize(
    ("settings", "missing", "code"),
    [
        ({"executor": "celery"}, None, "E_CONFIG"),
        ({"executor": "celery", "celery": {"broker": "redis://127.0.0.1:1/0"}}, "dagster_celery", "E_EXTRA"),
        ({"executor": "k8s"}, "dagster_k8s", "E_EXTRA"),
    ],
)
def test_an_executor_that_cannot_be_is_refused_by_name(
    tmp_path: Path, settings: dict[str, Any], missing: str | None, code: str
) -> None:
    with (
        pytest.raises(TabootError) as caught,
        mock.patch.dict(sys.modules, {missing: None} if missing else {}),
    ):
        build_defs(load_settings(home=tmp_path / "home", **settings))
    assert caught.value.code == code
    assert ("TABOOT_CELERY__BROKER" if missing is None else settings["executor"]) in str(caught.value)


def test_no_other_executor_is_loaded_than_the_one_that_is_set(tmp_path: Path) -> None:
    names = {
        n: m
        for n, m in sys.modules.items()
        if n.split(".")[0] in ("dagster_celery", "dagster_k8s", "celery", "kubernetes")
    }
    with mock.patch.dict(sys.modules, dict.fromkeys(names)):
        build_defs(load_settings(home=tmp_path / "home"))


def test_a_gpu_step_asks_kubernetes_for_a_gpu_and_secrets_go_by_reference(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.source("stack", "compose") / "compose.yaml").write_text(COMPOSE)
    world.workspace.sync_sources()
    own = {
        "TABOOT_TEI__URL": "",
        "TABOOT_EMBEDDING__TORCH__MODEL": "/models/embedder",
        "TABOOT_TEI__API_KEY": "planted-in-the-environment",
    }
    for name, value in {**K8S, **environment(world), **own}.items():
        monkeypatch.setenv(name, value)
    gpu, plain = (
        submitted(world, step, monkeypatch)["spec"]["template"]["spec"]
        for step in ("embeddings", "documents")
    )
    (container,), (other,) = gpu["containers"], plain["containers"]
    assert container["resources"]["limits"] == {"amd.com/gpu": "1"}
    assert gpu["node_selector"] == {"accelerator": "mi300"}
    assert [(t["key"], t["operator"], t["effect"]) for t in gpu["tolerations"]] == [
        ("amd.com/gpu", "Exists", "NoSchedule")
    ]
    assert (
        not (other.get("resources") or {}).get("limits")
        and not plain.get("node_selector")
        and not plain.get("tolerations")
    )
    for pod, step in ((gpu, container), (plain, other)):
        assert step["image"] == "registry.lan/taboot:1" and pod["service_account_name"] == "taboot-step"
        sources = [(s["secret_ref"] or s["config_map_ref"])["name"] for s in step["env_from"]]
        assert {"taboot-servers", "taboot-settings"} <= set(sources)
        assert "planted-in-the-environment" not in str(step) and world.tei not in str(step)


@pytest.mark.parametrize(
    "embedder",
    [
        {
            "TABOOT_EMBEDDING__TORCH__MODEL": "/m",
            "TABOOT_EMBEDDING__TORCH__DEVICE": "cpu",
            "TABOOT_TEI__URL": "",
        },
        {"TABOOT_TEI__URL": ""},
        {},
    ],
)
def test_a_step_that_embeds_elsewhere_or_on_the_cpu_asks_for_no_gpu(
    world: World, monkeypatch: pytest.MonkeyPatch, embedder: dict[str, str]
) -> None:
    """By a server (``{}``), the bundled model, or PyTorch on the CPU."""
    (world.source("stack", "compose") / "compose.yaml").write_text(COMPOSE)
    world.workspace.sync_sources()
    for name, value in {**K8S, **environment(world), **embedder}.items():
        monkeypatch.setenv(name, value)
    pod = submitted(world, "embeddings", monkeypatch)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (
        not (container.get("resources") or {}).get("limits")
        and not pod.get("node_selector")
        and not pod.get("tolerations")
    )


def submitted(world: World, step: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the Kubernetes job that a run of one step makes.

    Everything of Dagster's and dagster-k8s' is real, except for the cluster.
    """
    import kubernetes
    from dagster._core.definitions.reconstruct import ReconstructableRepository
    from dagster_k8s.client import DagsterKubernetesClient

    jobs: list[Any] = []

    class Cluster:
        def create_namespaced_job_with_retries(self, body: Any, namespace: str) -> None:
            assert namespace == "knowledge"
            jobs.append(body)
            raise RuntimeError("this cluster takes jobs and runs none")

    monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda: None)
    monkeypatch.setattr(DagsterKubernetesClient, "production_client", staticmethod(lambda **_: Cluster()))
    location = world.root / "location.py"
    location.write_text("from taboot_pipelines.defs import build_defs\ndefs = build_defs()\n")
    job = ReconstructableRepository.for_file(str(location), "defs").get_reconstructable_job("ingest_source")
    launcher = {
        "module": "dagster_k8s",
        "class": "K8sRunLauncher",
        "config": {
            "service_account_name": "dagster",
            "instance_config_map": "dagster-instance",
            "dagster_home": "/opt/dagster",
            "load_incluster_config": True,
        },
    }
    with dg.instance_for_test(overrides={"run_launcher": launcher}) as instance:
        instance.add_dynamic_partitions(NAME, ["stack"])
        with dg.execute_job(
            job, instance, tags={TAG: "stack"}, asset_selection=[dg.AssetKey(step)], raise_on_error=False
        ) as result:
            assert not result.success
    (body,) = jobs
    assert isinstance(body, kubernetes.client.V1Job)
    found: dict[str, Any] = body.to_dict()
    return found
