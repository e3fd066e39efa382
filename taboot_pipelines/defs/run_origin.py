"""Where the UI finds the job of a run that this process makes itself.

The UI draws on its timeline, under a job, and offers to launch again only runs that name the code location
they are of. Those that it launches do; those that ``taboot ingest`` makes do by this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import dagster as dg
from dagster._core.definitions.repository_definition.valid_definitions import SINGLETON_REPOSITORY_NAME
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

#: As ``taboot ui`` and ``workspace.yaml`` load it, by which it is called.
MODULE = "taboot_pipelines.definitions"


@contextmanager
def runs_of(instance: dg.DagsterInstance, job_name: str) -> Iterator[None]:
    """Let the runs that the block makes on ``instance`` name the job's code location."""
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, MODULE)
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME), job_name)
    # Running in process has no parameter for it; it makes its runs by this method alone.
    named = partial(instance.create_run_for_job, remote_job_origin=origin)
    vars(instance)["create_run_for_job"] = named
    try:
        yield
    finally:
        del vars(instance)["create_run_for_job"]
