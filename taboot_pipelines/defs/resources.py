"""Resources: the workspace that the stages work in, and the knowledge base that they fill.

No setting is a Dagster config field of the workspace: config is stored with every run, and settings hold secrets.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from taboot_pipelines.defs.sweeper import sweep_dead_runs, sweeping
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress

if TYPE_CHECKING:
    from taboot_pipelines.retrieval import KnowledgeBase


class Runtime:
    """What one process opens once and shares among its runs, sensors and checks, and who watches the work.

    ``on_report`` and ``on_error`` are told what each stage did, or why it failed: the command line's way to see into a run.
    """

    def __init__(
        self, settings: Settings, *, workspace: Workspace | None = None, progress: Progress = no_progress,
        on_report: Callable[[StageReport], None] | None = None, on_error: Callable[[str, TabootError], None] | None = None,
    ) -> None:
        self.settings = settings
        self.progress = progress
        self.on_report = on_report
        self.on_error = on_error
        self.swept_by = ""
        self._workspace = workspace
        self._lock = threading.Lock()

    def workspace(self) -> Workspace:
        """The one given, else opened at the first call. Raises ``E_CATALOG``, ``E_STORAGE``."""
        with self._lock:
            if self._workspace is None:
                self._workspace = Workspace(self.settings)
            return self._workspace


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Stores, leases, embedder and sources of the chain, opened lazily.

    When it is set up for a run, dead runs are swept first and then every few seconds: in a set-up without a daemon nobody
    else frees the pool slots of a killed run (rule 14).
    """

    runtime: dg.ResourceDependency[Runtime]

    def open(self) -> Workspace:
        return self.runtime.workspace()

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["WorkspaceResource"]:
        run, instance = context.run, context.instance
        # The resource is set up twice for a run, once for the I/O manager: one sweeper is enough.
        if run is None or instance is None or instance.is_ephemeral or self.runtime.swept_by == run.run_id:
            yield self
            return
        self.runtime.swept_by = run.run_id
        sweep_dead_runs(instance, self.open().catalog)
        with sweeping(instance):
            yield self


class KnowledgeBaseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The knowledge base of one namespace, for assets and jobs that read it."""

    home: str = Field(description="The directory that TABOOT_HOME names.")
    namespace: str = Field(description="The tenant whose knowledge base is opened.")

    def open(self) -> "KnowledgeBase":
        """Raises ``E_KB_UNINITIALIZED`` before the first ingest."""
        from taboot_pipelines.retrieval import KnowledgeBase

        return KnowledgeBase.open(self.home, self.namespace)
