"""Delta tables between the assets, bucketed so that a change rewrites only its buckets (``reference``: Delta Lake protocol).

A table lives at ``{home}/tables/{namespace}/{source or *}/{table}``. Readers name the version they read: the one that a
catalog pointer published. Statistics are off, since Delta's JSON log would keep column minima, that is, text (rule 16).
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import tables as model

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Stands for the namespace itself where a source id is expected; not a legal source id.
NAMESPACE = "_"


class Tables:
    """All Delta tables of a home. Writes happen under the lease of the table's owner."""

    def __init__(self, home: Path) -> None:
        self._root = home / "tables"

    def location(self, namespace: str, owner: str, name: str) -> Path:
        return self._root / namespace / owner / name

    def version(self, namespace: str, owner: str, name: str) -> int | None:
        """The newest version, published or not; None if the table does not exist."""
        table = self._open(namespace, owner, name, None)
        return None if table is None else table.version()

    def exist(self, namespace: str, owner: str, versions: Mapping[str, int | None]) -> bool:
        """Whether every table that a pointer names is there (a version of None names none)."""
        return all(v is None or (self.location(namespace, owner, name) / "_delta_log").is_dir() for name, v in versions.items())

    def transaction(self, namespace: str, owner: str, name: str) -> str | None:
        """The transaction id that the newest version carries."""
        table = self._open(namespace, owner, name, None)
        if table is None:
            return None
        history = table.history(1)
        return history[0].get("taboot.txn") if history else None

    def read(
        self, namespace: str, owner: str, name: str, version: int | None, *, columns: Sequence[str] | None = None,
        buckets: Collection[int] | None = None, members: tuple[str, Sequence[str]] | None = None,
    ) -> pa.Table:
        """Rows of a version (None: an empty table), optionally of some columns and buckets only, and only those whose value
        in the column ``members[0]`` is one of ``members[1]``: others are dropped while they are read."""
        schema, _ = model.TABLES[_base(name)]
        wanted = pa.schema([schema.field(c) for c in (columns or schema.names)])
        table = None if version is None or (buckets is not None and not buckets) else self._open(namespace, owner, name, version)
        if table is None:
            return wanted.empty_table()
        chosen = [] if buckets is None else [pc.field("bucket").isin(pa.array(sorted(buckets), pa.int32()))]
        if members is not None:
            chosen.append(pc.field(members[0]).isin(pa.array(members[1], pa.string())))
        try:
            dataset = table.to_pyarrow_dataset()
            result = dataset.to_table(columns=list(wanted.names), filter=reduce(and_, chosen) if chosen else None)
            return result.select(wanted.names).cast(wanted)
        except (pa.ArrowInvalid, OSError, FileNotFoundError) as error:
            raise TabootError("E_TABLE", f"Table {name} of {owner} cannot be read.", table=name, version=version, reason=type(error).__name__) from error

    def replace(self, namespace: str, owner: str, name: str, rows: pa.Table, *, buckets: Collection[int] | None, txn: str) -> int:
        """Replace whole buckets (None: the whole table) by ``rows`` in one commit; returns the new version."""
        from deltalake import CommitProperties, write_deltalake

        rows = model.conform(rows, _base(name))
        table = self._create(namespace, owner, name)
        with _typed(name, owner):
            write_deltalake(
                table, rows, mode="overwrite",
                predicate=None if buckets is None else f"bucket IN ({','.join(map(str, sorted(buckets)))})",
                commit_properties=CommitProperties(custom_metadata={"taboot.txn": txn}),
            )
        return table.version()

    def append(self, namespace: str, owner: str, name: str, rows: pa.Table, *, txn: str) -> int:
        from deltalake import CommitProperties, write_deltalake

        table = self._create(namespace, owner, name)
        with _typed(name, owner):
            write_deltalake(table, model.conform(rows, _base(name)), mode="append", commit_properties=CommitProperties(custom_metadata={"taboot.txn": txn}))
        return table.version()

    def rollback(self, namespace: str, owner: str, name: str, version: int | None) -> int | None:
        """Make the newest version hold what ``version`` held (None: nothing): undoes commits that no pointer published."""
        table = self._open(namespace, owner, name, None)
        if table is None:
            return None
        if table.version() == version:
            return version
        if version is None:
            self._remove(self.location(namespace, owner, name))
            return None
        with _typed(name, owner):
            table.restore(version)
        return table.version()

    def files(self, namespace: str, owner: str, name: str) -> int:
        """How many data files the newest version has."""
        table = self._open(namespace, owner, name, None)
        return 0 if table is None else len(table.file_uris())

    def stale_files(self, namespace: str, owner: str, name: str) -> int:
        """How many data files lie on disk that the newest version does not use."""
        table = self._open(namespace, owner, name, None)
        if table is None:
            return 0
        return sum(1 for _ in self.location(namespace, owner, name).rglob("*.parquet")) - len(table.file_uris())

    def compact(self, namespace: str, owner: str, name: str) -> None:
        """Join the small files that many appends leave; the rows stay the same."""
        table = self._open(namespace, owner, name, None)
        if table is not None:
            with _typed(name, owner):
                table.optimize.compact()

    def empty_trash(self) -> None:
        """What a killed removal left behind."""
        shutil.rmtree(self._root / ".removed", ignore_errors=True)

    def vacuum(self, namespace: str, owner: str, name: str) -> int:
        """Remove every file that the newest version does not use; only under both leases. Returns the number of files."""
        table = self._open(namespace, owner, name, None)
        if table is None:
            return 0
        with _typed(name, owner):
            return len(table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True))

    def drop_owner(self, namespace: str, owner: str) -> None:
        """Remove all tables of a retired source; only under both leases."""
        self._remove(self._root / namespace / owner)

    def names(self, namespace: str, owner: str) -> list[str]:
        directory = self._root / namespace / owner
        return sorted(p.name for p in directory.iterdir() if (p / "_delta_log").is_dir()) if directory.is_dir() else []

    def _remove(self, path: Path) -> None:
        # Renamed first: a kill in the middle of the removal leaves no half table behind.
        if path.exists():
            trash = self._root / ".removed" / uuid.uuid4().hex
            trash.parent.mkdir(parents=True, exist_ok=True)
            path.rename(trash)
        shutil.rmtree(self._root / ".removed", ignore_errors=True)

    def _open(self, namespace: str, owner: str, name: str, version: int | None) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        path = self.location(namespace, owner, name)
        if not (path / "_delta_log").is_dir():
            return None
        try:
            return DeltaTable(str(path), version=version)
        except TableNotFoundError:
            # A creator killed before its first commit leaves an empty log: the table does not exist yet.
            return None
        except DeltaError as error:
            raise TabootError("E_TABLE", f"Table {name} of {owner} cannot be opened.", table=name, version=version, reason=str(error)[:200]) from error

    def _create(self, namespace: str, owner: str, name: str) -> DeltaTable:
        from deltalake import DeltaTable

        existing = self._open(namespace, owner, name, None)
        if existing is not None:
            return existing
        schema, key = model.TABLES[_base(name)]
        path = self.location(namespace, owner, name)
        configuration: dict[str, Any] = {"delta.dataSkippingNumIndexedCols": "0"}
        with _typed(name, owner):
            path.mkdir(parents=True, exist_ok=True)
            return DeltaTable.create(str(path), schema=schema, mode="ignore", partition_by=None if key is None else ["bucket"], configuration=configuration)


@contextlib.contextmanager
def _typed(name: str, owner: str) -> Iterator[None]:
    """What Delta and the file system raise while writing becomes ``E_STORAGE`` or ``E_TABLE``."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except OSError as error:
        raise TabootError("E_STORAGE", f"Table {name} of {owner} cannot be written.", table=name, reason=type(error).__name__) from error
    except DeltaError as error:
        raise TabootError("E_TABLE", f"Table {name} of {owner} cannot be written.", table=name, reason=type(error).__name__) from error


def _base(name: str) -> str:
    """``vectors.<space>`` has the schema of ``vectors``."""
    return name.split(".", 1)[0]
