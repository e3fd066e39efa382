"""Defines what an entry of the chain is, what its work is given, and what a server that holds a snapshot is.

A :class:`SourceStage` derives one source's rows from what the stages before it published of that source; a
:class:`NamespaceStage` brings everything that is pending in a namespace up to date; a :class:`ServerTarget`
is the stage of a server. The chain itself, with every stage in it, is
:data:`taboot_pipelines.stages.chain.CHAIN`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from taboot_pipelines.errors import CODES, TabootError
from taboot_pipelines.model.audit import Discrepancy
from taboot_pipelines.model.health import PartClient
from taboot_pipelines.settings import Settings, setting_value
from taboot_pipelines.stages.check_scope import Check
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.state.circuit import Circuit
from taboot_pipelines.stores.tables import TableVersion

#: Whose rows a table holds: those of one source, or the namespace's.
Owner = Literal["source", "namespace"]
#: What a stage takes most of: waiting for disks and servers of sources, embedding, a chat model, or
#: computing. It decides how many steps run at once.
Uses = Literal["fetch", "embed", "model", "compute"]


@dataclass(frozen=True, kw_only=True)
class StageTable:
    """A table that a stage publishes.

    Its schema is the entry of ``model.tables.TABLES`` under its name up to the first dot.

    ``per_space``: there is one table for each embedding space, called ``{name}.{space id}``; the stage's
    pointer names the space in ``applied["space"]`` instead of a version, since such a table only grows.
    """

    name: str
    owner: Owner
    per_space: bool = False

    @property
    def schema(self) -> str:
        return self.name.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One entry of the chain, and one asset in Dagster.

    ``holds`` says in a sentence what is there once the stage has run; the Dagster UI and the README show it.
    ``needs`` names the stages whose output it reads, which stand before it in the chain. Loading the asset
    gives the first of ``tables``.

    ``group`` and ``kinds`` say where Dagster's UI shows the asset, and with which icons. ``version`` is that
    of the code: what the stage makes may differ once it is another. ``checks`` are carried out on its output
    after every run, beside those of ``taboot_pipelines.checks``.
    """

    name: str
    holds: str
    group: str
    uses: Uses = "compute"
    kinds: tuple[str, ...] = ("deltalake", "python")
    version: str = "1"
    checks: tuple[Check, ...] = ()
    needs: tuple[str, ...] = ()
    tables: tuple[StageTable, ...] = ()

    @property
    def observes(self) -> bool:
        """Whether the stage is a tier of extraction: it publishes observations, and its items are units."""
        return any(t.schema == "observations" for t in self.tables)

    def table(self, name: str | None = None) -> StageTable:
        """Return the stage's table of that name, by default its first.

        Raises ``E_TABLE`` if there is none.
        """
        for table in self.tables:
            if name in (None, table.name):
                return table
        raise TabootError(
            "E_TABLE",
            f"The asset {self.name} has no table {name or self.name}.",
            table=name,
            asset=self.name,
        )


class StageDue(Exception):
    """A stage that was only looked at has something to do."""


@dataclass
class SourceWork:
    """What a stage of one source works with: its entry, what it needs, and what it published before.

    ``upstream`` holds the pointer of each stage that this one needs. ``old`` is its own pointer, or None if
    it has none or a table that it names is lost. ``confirm_deletes`` is what a person decided for this run.
    ``looking``: nothing is to be done, only to be told whether the stage has something to do. Who looks has
    made sure that the source has no letter of something that failed, and no chosen run.
    """

    workspace: Workspace
    entry: Entry
    stage: str
    report: StageReport
    upstream: Mapping[str, Pointer] = field(default_factory=dict)
    old: Pointer | None = None
    progress: Progress = no_progress
    confirm_deletes: bool = False
    looking: bool = False

    @property
    def namespace(self) -> str:
        return self.entry.namespace

    @property
    def source_id(self) -> str:
        return self.entry.source_id

    def letters(self) -> Sequence[Mapping[str, Any]]:
        """Return the dead letters of the source and stage."""
        found = self.workspace.catalog.dead_letters
        return () if self.looking else found.find(self.namespace, self.source_id, self.stage)

    def chosen(self, tier: str) -> Sequence[Mapping[str, Any]]:
        """Return the runs of a tier that a person chose for the source."""
        found = self.workspace.catalog.choices
        return () if self.looking else found.of_tier(self.namespace, self.source_id, tier)

    def unchanged(self, inputs: str, *, unless: bool = False) -> bool:
        """Whether these inputs were applied already, and nothing else is to be done; the report then says so.

        Every stage that derives asks it before it writes anything. Raises :class:`StageDue` instead of
        returning False while the caller is only ``looking``.
        """
        self.report.data_version = inputs
        if unless or self.old is None or self.old.inputs != inputs:
            if self.looking:
                raise StageDue
            return False
        self.report.tables, self.report.skipped = dict(self.old.tables), "unchanged"
        return True

    def changed_buckets(self, table: str, applied: Mapping[str, Any]) -> frozenset[int] | None:
        """Return the buckets of an upstream table whose rows may differ from those that were applied last.

        ``applied`` is what this run is to publish as its ``applied``, which names the version of ``table``.
        None stands for all buckets: something else was applied too, or a table of this stage is not as it was
        published.
        """
        old, tables = self.old, self.workspace.tables
        if old is None or {**old.applied, table: None} != {**applied, table: None}:
            return None
        if not all(
            tables.holds(self.namespace, self.source_id, name, version)
            for name, version in old.tables.items()
        ):
            return None
        return tables.changed_buckets(
            self.namespace, self.source_id, table, old.applied.get(table), applied[table]
        )

    def publish(
        self,
        inputs: str,
        *,
        tables: Mapping[str, TableVersion | None],
        applied: Mapping[str, Any],
        txn: str | None = None,
    ) -> None:
        """Publish the versions of the stage's tables.

        ``applied`` has the versions of the tables that they were made from. ``txn`` is the transaction id
        that the tables carry, if it is not ``inputs``.
        """
        self.workspace.catalog.pointers.publish(
            self.namespace,
            self.source_id,
            Pointer(stage=self.stage, tables=tables, inputs=inputs, txn=txn or inputs, applied=applied),
        )
        self.report.tables = dict(tables)


@dataclass(frozen=True, kw_only=True)
class SourceStage(Stage):
    """A stage whose unit of work is a source; it runs under the source's lease.

    ``run`` fills in the report and publishes. A stage with ``opens_job`` opens the job that the later stages
    report their progress to, and therefore tracks its own progress.
    """

    run: Callable[[SourceWork], None]
    opens_job: bool = False


class NamespaceRun(Protocol):
    """The function that brings in everything pending in a namespace, under the namespace's lease.

    ``source_id`` is the partition that asked, for the report; "" if none did.
    """

    def __call__(
        self, workspace: Workspace, namespace: str, source_id: str, progress: Progress = no_progress
    ) -> StageReport: ...


class Serving(Protocol):
    """The store that a stage serves readers from, made from the snapshot alone: the shards, or a server."""

    @property
    def store(self) -> str:
        """Return the store's name in receipts and audits."""
        ...

    def applied(self, workspace: Workspace, namespace: str) -> bool:
        """Whether the store is at the newest snapshot, as far as the catalog knows; so it is without one."""
        ...

    def audit(self, workspace: Workspace, namespace: str, *, deep: bool = False) -> Iterator[Discrepancy]:
        """Yield every difference between the store and what the snapshot asks for.

        ``deep`` reads every byte.
        """
        ...

    def repair(self, workspace: Workspace, namespace: str) -> None:
        """Make the store equal to the snapshot, whatever it holds."""
        ...


class Target(Serving, Protocol):
    """A server beside the shards. One that does not answer keeps nothing else from being published."""

    @property
    def part(self) -> str:
        """Return the name by which ``taboot status`` shows the server."""
        ...

    @property
    def setting(self) -> str:
        """Return the setting without which there is no server."""
        ...

    def url(self, settings: Settings) -> str | None:
        """Return the address that the setting gives; None where it is not set."""
        ...

    def open(self, settings: Settings) -> PartClient | None:
        """Open a client that the caller closes; None where the setting is not set. Touches no network."""
        ...

    @property
    def failures(self) -> frozenset[str]:
        """Return the codes by which a server that does not answer at present fails."""
        ...

    def configured(self, workspace: Workspace) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class NamespaceStage(Stage):
    """A stage whose unit of work is the namespace: any source's run brings in everything pending there.

    ``serving`` is the store that the stage serves readers from, if it makes one; ``target`` is the same store
    if that is a server.
    """

    run: NamespaceRun
    serving: Serving | None = None
    target: Target | None = None


Server = TypeVar("Server", bound=PartClient)


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

    ``store``: its name in receipts and audits. ``part``: its name in ``taboot status``. ``setting``: the
    setting without which it is left out, its URL. ``open`` makes its client, without touching the network.
    ``code``: the error code of its failures, which the circuit breaker ``circuit`` counts. ``failed`` is
    called when the server failed, and ``settled`` when the namespace needs no retry.
    """

    stage: str
    store: str
    part: str
    setting: str
    open: Callable[[Settings], Server | None]
    circuit: str
    writer: Callable[[Workspace, Server, str, StageReport, Progress], Writer]
    code: str = "E_NETWORK"
    failed: Callable[[Workspace, str], None] = _nothing
    settled: Callable[[Workspace, str], None] = _nothing

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"The error code {self.code} of the stage {self.stage} is not in errors.CODES.")

    @property
    def failures(self) -> frozenset[str]:
        return frozenset({self.code, "E_CIRCUIT_OPEN"})

    def url(self, settings: Settings) -> str | None:
        url: str | None = setting_value(settings, self.setting)
        return url

    def server(self, workspace: Workspace) -> Server | None:
        """Return the client of the workspace, which closes it; None where the setting is not set."""
        return workspace.server(self.open)

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
