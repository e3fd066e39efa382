"""Defines what an entry of the chain is, and what its work is given.

A :class:`SourceStage` derives one source's rows from what the stages before it published of that source; a
:class:`NamespaceStage` brings everything that is pending in a namespace up to date. The chain itself, with
every stage in it, is :data:`taboot_pipelines.stages.chain.CHAIN`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.audit import Discrepancy
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog import Pointer
from taboot_pipelines.stores.tables import TableVersion

#: Whose rows a table holds: those of one source, or the namespace's.
Owner = Literal["source", "namespace"]


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
    """

    name: str
    holds: str
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


@dataclass
class SourceWork:
    """What a stage of one source works with: its entry, what it needs, and what it published before.

    ``upstream`` holds the pointer of each stage that this one needs. ``old`` is its own pointer, or None if
    it has none or a table that it names is lost. ``confirm_deletes`` is what a person decided for this run.
    """

    workspace: Workspace
    entry: Entry
    stage: str
    report: StageReport
    upstream: Mapping[str, Pointer] = field(default_factory=dict)
    old: Pointer | None = None
    progress: Progress = no_progress
    confirm_deletes: bool = False

    @property
    def namespace(self) -> str:
        return self.entry.namespace

    @property
    def source_id(self) -> str:
        return self.entry.source_id

    def unchanged(self, inputs: str) -> bool:
        """Whether these inputs were applied already; the report then says so."""
        self.report.data_version = inputs
        if self.old is None or self.old.inputs != inputs:
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
