"""Chooses where the steps of a run are carried out, and holds everything that a GPU step needs for it.

Which steps want a GPU depends on the settings: those that have a model on one in their own process. They get
the Celery queue of the workers that have a GPU by :func:`placed`, and what they request from Kubernetes by
:func:`executor`. With all steps in one process, or in several on one machine, only their pool matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from taboot_pipelines.defs.assets import tagged
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import CelerySettings, K8sSettings, Settings, TorchSettings
from taboot_pipelines.stages import embeddings, tier_c_triples

#: Celery queues: workers on machines with a GPU read ``gpu``, all others ``default``.
DEFAULT_QUEUE = "default"
GPU_QUEUE = "gpu"
#: The only tag by which dagster-celery chooses a queue; it is read from the op's tags alone.
QUEUE_TAG = "dagster-celery/queue"
#: Redis hands a step to another worker if it is not acknowledged for so long. That is longer than any step
#: takes: a step that is handed out twice does its work twice, though the leases keep the result right.
VISIBILITY_SECONDS = 12 * 3600


def gpu_steps(settings: Settings) -> frozenset[str]:
    """Return the names of the steps in whose own process the settings put a model on a GPU: an embedder by
    PyTorch, or a chat model by vLLM."""
    embeds = {embeddings.STAGE} if embeds_on_gpu(settings.embedding.torch) else set()
    return frozenset(embeds | ({tier_c_triples.STAGE} if settings.llm.vllm_model else set()))


def placed(assets: Iterable[dg.AssetsDefinition], settings: Settings) -> list[dg.AssetsDefinition]:
    """Return the assets, those of :func:`gpu_steps` with the tag by which Celery hands them to workers that
    have a GPU."""
    steps = gpu_steps(settings)
    return [tagged(a, {QUEUE_TAG: GPU_QUEUE}) if a.op.name in steps else a for a in assets]


def embeds_on_gpu(settings: TorchSettings) -> bool:
    """Whether the process of the step itself has the model on a GPU.

    A model server has its own GPU, and the bundled model needs none. A pod that requested one all the same
    would wait for a GPU that it leaves idle, and for ever in a cluster without any.
    """
    return settings.model is not None and not (settings.device or "").startswith("cpu")


def executor(settings: Settings) -> dg.ExecutorDefinition:
    """Return the executor that ``TABOOT_EXECUTOR`` names, without touching the network.

    Its configuration is bound here, in code: Dagster stores none of it with a run, so no broker's
    password reaches the UI. Raises ``E_CONFIG`` if Celery has no broker, ``E_EXTRA`` if the executor's
    extra is not installed.
    """
    if settings.executor == "multiprocess":
        # A fresh interpreter takes seconds to load Dagster and the project (6 s of CPU a step, measured); a
        # fork of one that has loaded them takes none. The models and the table format are not preloaded: each
        # step loads what it needs.
        return dg.multiprocess_executor.configured(
            {
                "max_concurrent": settings.executor_max_concurrent,
                "start_method": {"forkserver": {"preload_modules": ["taboot_pipelines.definitions"]}},
            }
        )
    if settings.executor == "celery":
        return _celery(settings.celery)
    if settings.executor == "k8s":
        return _k8s(
            settings.k8s,
            settings.executor_max_concurrent,
            sorted(gpu_steps(settings)),
        )
    # One process per run: the steps of a chain follow each other, and the embedder is loaded once.
    return dg.in_process_executor


def celery_app_arguments(settings: CelerySettings) -> dict[str, Any]:
    """Return ``broker``, ``backend`` and ``config_source`` of the Celery app.

    They are equal for the process of the run and for the workers. Raises ``E_CONFIG`` if there is no broker.
    """
    if settings.broker is None:
        raise TabootError(
            "E_CONFIG",
            "TABOOT_CELERY__BROKER: the Celery executor needs a broker.",
            settings=["TABOOT_CELERY__BROKER"],
        )
    broker = settings.broker.get_secret_value()
    return {
        "broker": broker,
        "backend": settings.backend.get_secret_value() if settings.backend else broker,
        "config_source": {
            "task_default_queue": DEFAULT_QUEUE,
            "task_serializer": "json",
            "result_serializer": "json",
            "accept_content": ["json"],
            # Each worker has one step at a time, and the queue gets it back if the worker dies. A step may be
            # carried out twice (rule ``kill-anywhere``).
            "worker_prefetch_multiplier": 1,
            "task_acks_late": True,
            "task_reject_on_worker_lost": True,
            "task_time_limit": None,
            "task_soft_time_limit": None,
            "broker_connection_retry_on_startup": True,
            "broker_transport_options": {
                "visibility_timeout": VISIBILITY_SECONDS,
                "max_retries": 3,
                "interval_start": 0,
                "interval_step": 0.2,
                "interval_max": 0.5,
            },
            "result_backend_transport_options": {"visibility_timeout": VISIBILITY_SECONDS},
        },
    }


def _celery(settings: CelerySettings) -> dg.ExecutorDefinition:
    arguments = celery_app_arguments(settings)
    try:
        from dagster_celery import celery_executor
    except ImportError:
        raise _missing("celery") from None
    return celery_executor.configured(arguments)


def _k8s(settings: K8sSettings, max_concurrent: int, steps: Iterable[str]) -> dg.ExecutorDefinition:
    try:
        from dagster_k8s import k8s_job_executor
    except ImportError:
        raise _missing("k8s") from None
    config: dict[str, Any] = {
        "job_image": settings.image,
        "job_namespace": settings.namespace,
        "service_account_name": settings.service_account,
        # By reference: the names of secrets, never their values.
        "env_secrets": settings.env_secrets or None,
        "env_config_maps": settings.env_config_maps or None,
        "max_concurrent": max_concurrent or None,
    }
    return k8s_job_executor.configured(
        {
            # What is not set here is the run's own: its image, its namespace, its secrets.
            **{k: v for k, v in config.items() if v is not None},
            "per_step_k8s_config": {step: gpu_pod(settings) for step in steps},
        }
    )


def gpu_pod(settings: K8sSettings) -> Mapping[str, Any]:
    """Return what a GPU step adds to its Kubernetes job, in the schema of ``dagster-k8s/config``."""
    pod: dict[str, Any] = {
        # Nodes with a GPU commonly carry a taint of the resource's name, which keeps all other pods away.
        "tolerations": [{"key": settings.gpu_resource, "operator": "Exists", "effect": "NoSchedule"}]
    }
    if settings.gpu_node_selector:
        pod["node_selector"] = dict(settings.gpu_node_selector)
    return {
        "container_config": {"resources": {"limits": {settings.gpu_resource: "1"}}},
        "pod_spec_config": pod,
    }


def _missing(extra: str) -> TabootError:
    return TabootError(
        "E_EXTRA",
        f"TABOOT_EXECUTOR={extra} needs the extra {extra}.",
        remedy=f"Install it: `pip install 'taboot-pipelines[{extra}]'`.",
        extra=extra,
    )
