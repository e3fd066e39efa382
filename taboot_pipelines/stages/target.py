"""A server that holds what the snapshot says: the steps that Qdrant and Neo4j have in common.

A run asks the server for nothing while the snapshot is the one that was applied. The :class:`Writer`, one for
each kind of server, knows what to write, how to find out what the server holds, and how to compare.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from taboot_pipelines.errors import CODES, TabootError
from taboot_pipelines.model.audit import Discrepancy
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress
from taboot_pipelines.stores.state.circuit import Circuit

Server = TypeVar("Server")


class Writer(Protocol):
    """Writes the rows of one namespace to a server, so that they equal the snapshot."""

    def unchanged(self) -> bool:
        """Whether the newest snapshot has been applied, as far as the catalog knows."""
        ...

    def apply(self, *, ask: bool = False) -> None:
        """Write what differs.

        With ``ask`` our own record of what was written is not trusted, and the server is asked.
        """
        ...

    def audit(self) -> Iterator[Discrepancy]:
        """Compare everything that the server holds with the snapshot."""
        ...


def _nothing(_workspace: Workspace, _namespace: str) -> None:
    """Do nothing: for servers whose failures leave nothing behind to settle."""


@dataclass(frozen=True, kw_only=True)
class ServerTarget(Generic[Server]):
    """The stage ``stage`` over one server, and its names elsewhere.

    ``store``: its name in receipts and audits. ``setting``: the setting without which it is left out.
    ``code``: the error code of its failures, which the circuit breaker ``circuit`` counts. ``failed`` is
    called when the server failed, and ``settled`` when the namespace needs no retry.
    """

    stage: str
    store: str
    setting: str
    code: str
    circuit: str
    server: Callable[[Workspace], Server | None]
    writer: Callable[[Workspace, Server, str, StageReport, Progress], Writer]
    failed: Callable[[Workspace, str], None] = _nothing
    settled: Callable[[Workspace, str], None] = _nothing

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"The error code {self.code} of the stage {self.stage} is not in errors.CODES.")

    @property
    def failures(self) -> frozenset[str]:
        return frozenset({self.code, "E_CIRCUIT_OPEN"})

    def configured(self, workspace: Workspace) -> bool:
        return self.server(workspace) is not None

    def run(
        self, workspace: Workspace, namespace: str, source_id: str, progress: Progress = no_progress
    ) -> StageReport:
        """Write what differs from the snapshot; nothing if the server is not configured.

        Raises ``code`` when the server fails for good (the next run completes the work), and
        ``E_CIRCUIT_OPEN`` at once while the circuit is open.
        """
        with reporting(self.stage, source_id, namespace) as report:
            server = self.server(workspace)
            if server is None:
                report.skipped = f"skipped: {self.setting}"
                return report
            with workspace.leases.namespace(namespace):
                writer = self.writer(workspace, server, namespace, report, progress)
                if writer.unchanged():
                    report.skipped = "unchanged"
                    self.settled(workspace, namespace)
                else:
                    with self._guarded(workspace, namespace):
                        writer.apply()
        return report

    def applied(self, workspace: Workspace, namespace: str) -> bool:
        """Whether the server is at the newest snapshot, as far as the catalog knows.

        True if there is no snapshot, or no server.
        """
        server = self.server(workspace)
        if server is None or snapshot_pointer(workspace, namespace) is None:
            return True
        return self._silent(workspace, server, namespace).unchanged()

    def audit(self, workspace: Workspace, namespace: str, *, deep: bool = False) -> Iterator[Discrepancy]:
        """Yield every difference between the server and the snapshot.

        The server is asked about every row, with or without ``deep``.
        """
        server = self.server(workspace)
        if server is None or snapshot_pointer(workspace, namespace) is None:
            return
        with workspace.leases.namespace(namespace):
            yield from self._silent(workspace, server, namespace).audit()

    def repair(self, workspace: Workspace, namespace: str) -> None:
        """Make the server equal to the snapshot, whatever it holds. Raises as :meth:`run` does."""
        server = self.server(workspace)
        if server is None:
            return
        with workspace.leases.namespace(namespace), self._guarded(workspace, namespace):
            self._silent(workspace, server, namespace).apply(ask=True)

    def _silent(self, workspace: Workspace, server: Server, namespace: str) -> Writer:
        """Return a writer whose report nobody reads."""
        return self.writer(workspace, server, namespace, StageReport(self.stage, "", namespace), no_progress)

    @contextlib.contextmanager
    def _guarded(self, workspace: Workspace, namespace: str) -> Iterator[None]:
        """Put the circuit breaker around requests to the server, and call ``failed`` or ``settled``."""
        try:
            with Circuit(workspace.hints, self.circuit, namespace).guard(self.code):
                yield
        except TabootError as error:
            if error.code == self.code:
                with contextlib.suppress(TabootError):
                    self.failed(workspace, namespace)
            raise
        self.settled(workspace, namespace)
