"""The Helm values and the manifests against what reads them: the chart's keys, Kubernetes' API, the run
launcher.

No registry of packages carries the chart's ``values.schema.json``. The keys below are those of its version
1.13; where ``TABOOT_TEST_DAGSTER_CHART`` names the file itself, that is asked too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from dagster._config import process_config
from dagster_k8s.launcher import K8sRunLauncher
from dagster_k8s.models import k8s_model_from_dict, k8s_snake_case_dict
from kubernetes import client as k8s

from taboot_pipelines.defs.executors import gpu_pod
from taboot_pipelines.defs.instance import DAGSTER_YAML
from taboot_pipelines.settings import load_settings
from taboot_pipelines_tests.deploy.files import LOCATION, MANIFESTS, VALUES

#: Keys of the chart's values that are used or likely to be mistyped, by their place.
CHART = {
    "": {
        "dagsterWebserver",
        "dagster-user-deployments",
        "postgresql",
        "generatePostgresqlPasswordSecret",
        "generateCeleryConfigSecret",
        "rabbitmq",
        "redis",
        "flower",
        "ingress",
        "imagePullSecrets",
        "computeLogManager",
        "scheduler",
        "runLauncher",
        "pythonLogs",
        "dagsterDaemon",
        "busybox",
        "migrate",
        "telemetry",
        "serviceAccount",
        "global",
        "retention",
        "concurrency",
        "additionalInstanceConfig",
    },
    "global": {
        "postgresqlSecretName",
        "dagsterHome",
        "serviceAccountName",
        "celeryConfigSecretName",
        "dagsterInstanceConfigMap",
    },
    "postgresql": {
        "enabled",
        "image",
        "postgresqlHost",
        "postgresqlUsername",
        "postgresqlPassword",
        "postgresqlDatabase",
        "postgresqlParams",
        "postgresqlScheme",
        "service",
    },
    "dagster-user-deployments": {"enabled", "enableSubchart", "imagePullSecrets", "deployments"},
    "runLauncher": {"type", "config"},
    "dagsterDaemon": {
        "enabled",
        "image",
        "runCoordinator",
        "heartbeatTolerance",
        "env",
        "envConfigMaps",
        "envSecrets",
        "deploymentLabels",
        "labels",
        "nodeSelector",
        "affinity",
        "tolerations",
        "podSecurityContext",
        "securityContext",
        "resources",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "annotations",
        "runMonitoring",
        "runRetries",
        "sensors",
        "schedules",
        "schedulerName",
        "volumeMounts",
        "volumes",
    },
    "dagsterDaemon.runMonitoring": {
        "enabled",
        "startTimeoutSeconds",
        "cancelTimeoutSeconds",
        "maxResumeRunAttempts",
        "pollIntervalSeconds",
        "freeSlotsAfterRunEndSeconds",
        "maxRuntimeSeconds",
    },
    "concurrency": {"enabled", "pools", "runs"},
    "concurrency.pools": {"defaultLimit", "granularity", "opGranularityRunBuffer"},
    "concurrency.runs": {"maxConcurrentRuns", "tagConcurrencyLimits"},
    "computeLogManager": {"type", "config"},
    "retention": {"enabled", "sensor", "schedule", "autoMaterialize"},
    "retention.sensor.purgeAfterDays": {"skipped", "success", "failure", "started"},
    "retention.schedule.purgeAfterDays": {"skipped", "success", "failure", "started"},
}
DEPLOYMENT_KEYS = {
    "name",
    "image",
    "dagsterApiGrpcArgs",
    "codeServerArgs",
    "includeConfigInLaunchedRuns",
    "deploymentNamespace",
    "port",
    "env",
    "envConfigMaps",
    "envSecrets",
    "annotations",
    "nodeSelector",
    "affinity",
    "tolerations",
    "podSecurityContext",
    "securityContext",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "labels",
    "volumeMounts",
    "volumes",
    "schedulerName",
}
#: Which model of the Kubernetes API a part of a code location is.
PARTS = {
    "env": k8s.V1EnvVar,
    "envConfigMaps": k8s.V1ConfigMapEnvSource,
    "envSecrets": k8s.V1SecretEnvSource,
    "volumes": k8s.V1Volume,
    "volumeMounts": k8s.V1VolumeMount,
    "podSecurityContext": k8s.V1PodSecurityContext,
    "securityContext": k8s.V1SecurityContext,
    "resources": k8s.V1ResourceRequirements,
    "livenessProbe": k8s.V1Probe,
    "startupProbe": k8s.V1Probe,
}


def at(values: Mapping[str, Any], place: str) -> Any:
    for key in filter(None, place.split(".")):
        values = values[key]
    return values


def snake(config: Any) -> Any:
    if isinstance(config, dict):
        return {
            re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), key): snake(value) for key, value in config.items()
        }
    return config


def test_the_values_have_only_keys_of_the_chart() -> None:
    for place, known in CHART.items():
        assert set(at(VALUES, place)) <= known, place
    assert set(LOCATION) <= DEPLOYMENT_KEYS
    named = os.environ.get("TABOOT_TEST_DAGSTER_CHART")
    if named:
        jsonschema.validate(VALUES, json.loads(Path(named).read_text()))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_code_location_is_what_kubernetes_knows(part: str) -> None:
    for value in LOCATION[part] if isinstance(LOCATION[part], list) else [LOCATION[part]]:
        k8s_model_from_dict(PARTS[part], k8s_snake_case_dict(PARTS[part], value))
    with pytest.raises(Exception, match="imagined"):
        k8s_snake_case_dict(PARTS[part], {"imagined": 1})


def test_the_run_launcher_takes_its_configuration() -> None:
    chart = VALUES["runLauncher"]["config"]["k8sRunLauncher"]
    # What the chart adds by itself.
    added = {
        "service_account_name": "dagster",
        "instance_config_map": "instance",
        "postgres_password_secret": "secret",
        "dagster_home": "/opt/dagster",
    }
    config = {
        **snake({k: v for k, v in chart.items() if k != "resources"}),
        "resources": chart["resources"],
        **added,
    }
    result = process_config(K8sRunLauncher.config_type(), config)
    assert result.success, result.errors
    k8s_snake_case_dict(k8s.V1JobSpec, chart["runK8sConfig"]["jobSpecConfig"])


def test_the_chart_gives_the_same_instance_as_the_other_deployments() -> None:
    assert snake(VALUES["concurrency"]) | {"enabled": None} == {
        **yaml.safe_load(DAGSTER_YAML)["concurrency"],
        "enabled": None,
    }
    # Both at once are refused by the chart.
    assert VALUES["dagsterDaemon"]["runCoordinator"]["config"] == {"queuedRunCoordinator": {}}
    assert VALUES["telemetry"] == {"enabled": False}
    assert VALUES["additionalInstanceConfig"] == {"nux": {"enabled": False}}
    assert VALUES["computeLogManager"]["type"] == "NoOpComputeLogManager"
    for kind, ours in yaml.safe_load(DAGSTER_YAML)["retention"].items():
        assert VALUES["retention"][kind]["purgeAfterDays"].items() >= ours["purge_after_days"].items()
    assert VALUES["postgresql"]["postgresqlScheme"] == "postgresql+psycopg2"
    assert (VALUES["postgresql"]["enabled"], "postgresqlPassword" in VALUES["postgresql"]) == (False, False)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda m: f"{m['kind']}-{m['metadata']['name']}")
def test_a_manifest_is_what_kubernetes_knows(manifest: dict[str, Any]) -> None:
    model = getattr(k8s, f"V1{manifest['kind']}")
    k8s_model_from_dict(model, k8s_snake_case_dict(model, manifest))


def test_what_the_values_refer_to_is_in_the_example() -> None:
    there = {(m["kind"], m["metadata"]["name"]): m for m in MANIFESTS}
    for reference in LOCATION["envSecrets"]:
        assert ("Secret", reference["name"]) in there
    for reference in [
        *LOCATION["envConfigMaps"],
        *(v["configMap"] for v in LOCATION["volumes"] if "configMap" in v),
    ]:
        assert ("ConfigMap", reference["name"]) in there
    assert "postgresql-password" in there["Secret", VALUES["global"]["postgresqlSecretName"]]["stringData"]
    for (kind, _), manifest in there.items():
        if kind == "Secret":
            assert not any(manifest["stringData"].values()), "an example holds no secret"


def test_a_step_and_the_model_servers_ask_for_a_gpu_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in LOCATION["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    settings = load_settings().k8s
    asked = gpu_pod(settings)
    for manifest in MANIFESTS:
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            assert (
                pod["containers"][0]["resources"]["limits"].items()
                >= asked["container_config"]["resources"]["limits"].items()
            )
            assert pod["nodeSelector"] == asked["pod_spec_config"]["node_selector"]
            assert pod["tolerations"] == asked["pod_spec_config"]["tolerations"]
    assert settings.env_secrets == [s["name"] for s in LOCATION["envSecrets"]]
