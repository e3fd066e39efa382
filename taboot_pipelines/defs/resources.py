"""Resources: the workspace that the stages work in, and the knowledge base that they fill.

No setting is a Dagster config field of the workspace: config is stored with every run, and
settings hold secrets.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field
from sqlalchemy.exc import SQLAlchemyError

from taboot_pipelines import logs
from taboot_pipelines.defs.run_retention import forget_superseded
from taboot_pipelines.defs.sweeper import sweep_dead_runs, sweeping
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawl_graph import CrawlProgress
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.workspace import Workspace

if TYPE_CHECKING:
    from taboot_pipelines.retrieval import KnowledgeBase


_log = logging.getLogger(__name__)


class Runtime:
    """What one process opens once and shares among its runs, sensors and checks, and who watches a crawl.

    ``on_crawl`` is told how far a crawl has come.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        workspace: Workspace | None = None,
        on_crawl: Callable[[CrawlProgress], None] | None = None,
    ) -> None:
        self.settings = settings
        self.on_crawl = on_crawl
        self.swept_by = ""
        self._workspace = workspace
        self._lock = threading.Lock()

    def workspace(self) -> Workspace:
        """Return the workspace: the one given, else one that is opened at the first call.

        Raises ``E_CATALOG``, ``E_STORAGE``.
        """
        with self._lock:
            if self._workspace is None:
                self._workspace = Workspace(self.settings)
            return self._workspace


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Stores, leases, embedder and sources of the chain, opened lazily.

    When it is set up for a run, dead runs are swept first and then every few seconds: in a set-up without a
    daemon nobody else frees the pool slots of a killed run (rule ``kill-anywhere``). When the run ends, the
    runs before it that it leaves nothing to say are forgotten.
    """

    runtime: dg.ResourceDependency[Runtime]

    def open(self) -> Workspace:
        """Return the workspace of this process, opened at the first call.

        Raises ``E_CATALOG``, ``E_STORAGE``, both without the words of the server: Dagster stores every error
        with its causes.
        """
        try:
            return self.runtime.workspace()
        except TabootError as error:
            raise logs.redacted(error, self.runtime.settings) from None

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["WorkspaceResource"]:
        with ExitStack() as stack:
            stack.enter_context(logs.writing(self.runtime.settings))
            run, instance = context.run, context.instance
            # The resource is set up twice for a run, the second time for the I/O manager: one
            # sweeper is enough.
            if (
                run is not None
                and instance is not None
                and not instance.is_ephemeral
                and self.runtime.swept_by != run.run_id
            ):
                stack.enter_context(self._watching(run, instance))
            yield self

    @contextmanager
    def _watching(self, run: dg.DagsterRun, instance: dg.DagsterInstance) -> Iterator[None]:
        self.runtime.swept_by = run.run_id
        try:
            with self._tidying("dead runs could not be looked for", run):
                sweep_dead_runs(instance, self.open().catalog)
            with sweeping(instance):
                yield
            with self._tidying("runs before this one could not be forgotten", run):
                forget_superseded(instance, run)
        finally:
            # A worker that takes several steps of the same run watches over each of them.
            self.runtime.swept_by = ""

    @contextmanager
    def _tidying(self, what: str, run: dg.DagsterRun) -> Iterator[None]:
        """Let nothing that only tidies fail the run: its steps open the same stores, and have retries."""
        try:
            yield
        except (TabootError, SQLAlchemyError, OSError, dg.DagsterError) as error:
            _log.warning(what, extra={"run": run.run_id, "reason": type(error).__name__})


class KnowledgeBaseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The knowledge base of one namespace, for assets and jobs that read it."""

    home: str = Field(description="The directory that TABOOT_HOME names.")
    namespace: str = Field(description="The tenant whose knowledge base is opened.")

    def open(self) -> "KnowledgeBase":
        """Return the knowledge base. Raises ``E_KB_UNINITIALIZED`` before the first ingest."""
        from taboot_pipelines.retrieval import KnowledgeBase

        return KnowledgeBase.open(self.home, self.namespace)
