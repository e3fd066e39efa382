"""Delta tables between the assets, bucketed so that a change rewrites only its buckets.

``reference``: Delta Lake protocol. A table lives at ``{home}/tables/{namespace}/{source or _}/{table}``, or
under ``TABOOT_TABLE_URL`` at the same path. Readers name the version they read: the one that a catalog
pointer published. A version carries the id of its table, so that the first version of a table that was lost
and made again is another than that of the first table. Statistics are off, since Delta's JSON log would keep
minima and maxima of columns, that is, text (rule ``deleted-stays-deleted``).
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model import tables as model
from taboot_pipelines.model.health import Health
from taboot_pipelines.settings import StorageSettings
from taboot_pipelines.stores.objects import place
from taboot_pipelines.stores.table_places import Stamp, TableBucket, TableDirectory, TablePlace

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.schema import Field
    from pyarrow.dataset import Dataset

#: Stands for the namespace itself in place of a source id; it is not a legal source id.
NAMESPACE = "_"
#: A version of one table: Delta's number, a dot, and the beginning of the table's own id.
TableVersion = str
_ID_DIGITS = 12
#: The columns that hold the hash of the column ``text`` of their row.
_HASHES = ("text_sha256", "sha256")
#: Logs of versions that are kept, and tables that are kept open to be written to.
_MAX_KEPT = 64
#: Up to so many bytes in all, the files of a table are read one after the other: to scan a file of a few
#: kilobytes as a part of a dataset takes three times as long.
_FEW_BYTES = 4 << 20
_CONFIGURATION = {
    "delta.dataSkippingNumIndexedCols": "0",
    # Opening a table reads its log from the last checkpoint on.
    "delta.checkpointInterval": "8",
}


@dataclass(frozen=True, slots=True)
class TableSize:
    """How much a version of a table holds: its rows, and the bytes of the files that it uses."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Stale:
    """Data files of a table that its newest version does not use, their bytes, and the bytes that it uses."""

    files: int
    bytes: int
    used_bytes: int


class _File(NamedTuple):
    """A data file of a table: its path within it, its bucket (None: outside of all buckets), its bytes and
    rows.
    """

    path: str
    bucket: int | None
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Log:
    """What a table's log says of one version, which never changes: its files, the fields of its columns, and
    what reads it where its files are not read one by one.
    """

    version: TableVersion
    files: Sequence[_File]
    fields: Mapping[str, Field]
    dataset: Dataset | None


class Tables:
    """All Delta tables of a home, or of ``TABOOT_TABLE_URL``.

    Writes happen under the lease of the table's owner. Every method raises ``E_TABLE`` for a table that
    cannot be used and ``E_STORAGE`` if the store does not let it be used.
    """

    def __init__(
        self,
        home: Path,
        url: str | None = None,
        storage: StorageSettings | None = None,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up the tables without asking any server. Raises ``E_CONFIG``, which names a wrong URL.

        ``confirm`` is called before anything is written; it raises if the caller's leases
        are lost (``LeaseStore.confirm``).
        """
        self._confirm = confirm
        #: By path and version: a log is read once for all stages of a run.
        self._logs: OrderedDict[tuple[str, TableVersion], _Log] = OrderedDict()
        #: Tables at their newest version, each with the stamp that its log had: who writes takes one away.
        self._writers: OrderedDict[str, tuple[Stamp, DeltaTable]] = OrderedDict()
        self._files = _SmallFiles()
        #: The newest version of a table, with the stamp of its log when it was read.
        self._newest: dict[str, tuple[Stamp, TableVersion]] = {}
        self._lock = threading.Lock()
        at = place("TABOOT_TABLE_URL", url, storage or StorageSettings()) if url else None
        directory = home / "tables" if at is None else at.directory
        self._place: TablePlace = (
            TableBucket(at)
            if at is not None and directory is None
            else TableDirectory(directory or home / "tables")
        )

    def version(self, namespace: str, owner: str, name: str) -> TableVersion | None:
        """Return the newest version, published or not; None if the table does not exist."""
        path = _path(namespace, owner, name)
        stamp = self._place.stamp(path)
        with self._lock:
            known = self._newest.get(path)
        if stamp is not None and known is not None and known[0] == stamp:
            return known[1]
        table = self._open(namespace, owner, name, None)
        return None if table is None else self._remember(path, table, stamp).version

    def read_anew(self) -> None:
        """Forget what was read: whoever looks for damage wants to see what is there now."""
        self._files.forget()
        with self._lock:
            self._logs.clear()
            self._writers.clear()
            self._newest.clear()

    def exist(self, namespace: str, owner: str, versions: Mapping[str, TableVersion | None]) -> bool:
        """Whether every table that a pointer names is there (a version of None names none)."""
        there = set(self.names(namespace, owner)) if any(v is not None for v in versions.values()) else set()
        return all(v is None or name in there for name, v in versions.items())

    def fits(self, namespace: str, owner: str, name: str) -> bool:
        """Whether the newest version has the columns that are declared today; so it is without a table."""
        from deltalake import Schema

        log = self._latest(namespace, owner, name)
        declared = Schema.from_arrow(model.TABLES[_base(name)][0])
        return log is None or log.fields == {f.name: f for f in declared.fields}

    def carry_over(self, namespace: str, owner: str, name: str) -> None:
        """Give a table the columns that are declared today, in one commit, and keep its rows.

        In a column that they lack they hold nothing: null, or where that may not be zero, false or empty.
        """
        from deltalake import CommitProperties, write_deltalake

        table = self._writer(namespace, owner, name)
        if table is None:
            return
        self._confirm()
        schema, key = model.TABLES[_base(name)]
        with self._typed(f"Table {name} of {owner} cannot be written", name):
            dataset = table.to_pyarrow_dataset(
                filesystem=self._place.filesystem(_path(namespace, owner, name))
            )
            held = [column for column in schema.names if column in dataset.schema.names]
            write_deltalake(
                table,
                pa.RecordBatchReader.from_batches(
                    schema,
                    (model.widened(batch, schema) for batch in dataset.scanner(columns=held).to_batches()),
                ),
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=None if key is None else ["bucket"],
                commit_properties=CommitProperties(custom_metadata={"taboot.txn": "carried over"}),
            )
        self._written(table, _path(namespace, owner, name))

    def read(
        self,
        namespace: str,
        owner: str,
        name: str,
        version: TableVersion | None,
        *,
        columns: Sequence[str] | None = None,
        buckets: Collection[int] | None = None,
        members: tuple[str, Sequence[str]] | None = None,
    ) -> pa.Table:
        """Return rows of a version (None: an empty table), optionally of some columns and buckets only.

        With ``members`` only those rows are kept whose value in the column ``members[0]`` is one of
        ``members[1]``; others are dropped while they are read. A text that is not UTF-8, or not the one that
        its row's hash was made of, is ``E_TABLE``.
        """
        schema, _ = model.TABLES[_base(name)]
        asked = list(columns or schema.names)
        hashed = next((c for c in _HASHES if c in schema.names), "") if "text" in asked else ""
        read = [*asked, hashed] if hashed and hashed not in asked else asked
        wanted = pa.schema([schema.field(c) for c in read])
        log = (
            None
            if version is None or (buckets is not None and not buckets)
            else self._log(namespace, owner, name, version)
        )
        if log is None:
            return wanted.empty_table().select(asked)
        from deltalake.exceptions import DeltaError

        try:
            files = self._few(_path(namespace, owner, name), log, buckets)
            if log.dataset is None or files is not None:
                result = self._files.read(files or (), schema, wanted.names, members)
            else:
                result = _scan(log.dataset, wanted, buckets, members)
            # A byte that flipped on the disk decodes as Parquet all the same.
            result.validate(full=True)
            if hashed and ids.altered(*(result.column(c).to_pylist() for c in ("text", hashed))):
                raise pa.ArrowInvalid("A text is not that of its hash.")
            return result.select(asked)
        except (pa.ArrowException, OSError, DeltaError) as error:
            raise self._place.failure(
                f"Table {name} of {owner} cannot be read", error, table=name, version=version
            ) from None

    def replace(
        self,
        namespace: str,
        owner: str,
        name: str,
        rows: pa.Table,
        *,
        buckets: Collection[int] | None,
        txn: str,
    ) -> TableVersion:
        """Replace whole buckets (None: the whole table) by ``rows`` in one commit; return the new version."""
        only = None if buckets is None else f"bucket IN ({','.join(map(str, sorted(buckets)))})"
        return self._write(namespace, owner, name, rows, txn, "overwrite", only)

    def append(self, namespace: str, owner: str, name: str, rows: pa.Table, *, txn: str) -> TableVersion:
        return self._write(namespace, owner, name, rows, txn, "append")

    def rollback(
        self, namespace: str, owner: str, name: str, version: TableVersion | None
    ) -> TableVersion | None:
        """Make the newest version hold what ``version`` held (None: nothing).

        This undoes commits that no pointer has published. Nothing is written if the rows are those of
        ``version`` anyway: then this is returned.
        """
        if version is None:
            self.drop(namespace, owner, name)
            return None
        newest = self._latest(namespace, owner, name)
        if newest is None:
            return None
        if self._same_files(newest, namespace, owner, name, version):
            return version
        table = self._writer(namespace, owner, name)
        if table is None:
            return None
        self._confirm()
        with self._typed(f"Table {name} of {owner} cannot be written", name):
            table.restore(_number(version))
        return self._written(table, _path(namespace, owner, name))

    def holds(self, namespace: str, owner: str, name: str, version: TableVersion | None) -> bool:
        """Whether the newest version has the rows of ``version``: a vacuum, for one, changes none."""
        newest = self._latest(namespace, owner, name)
        if newest is None or version is None:
            return newest is None and version is None
        return self._same_files(newest, namespace, owner, name, version)

    def changed_buckets(
        self,
        namespace: str,
        owner: str,
        name: str,
        before: TableVersion | None,
        after: TableVersion | None,
    ) -> frozenset[int] | None:
        """Return the buckets in which ``after`` may have other rows than ``before``, from the log alone.

        None stands for any bucket: the versions cannot be compared, because they are of two tables or the log
        no longer reaches back.
        """
        if before == after:
            return frozenset()
        if before is None or after is None or table_id(before) != table_id(after) or not table_id(after):
            return None
        try:
            old, new = (self._log(namespace, owner, name, version) for version in (before, after))
            if old is None or new is None:
                return None
            files = [{f.path: f.bucket for f in log.files} for log in (old, new)]
        except (TabootError, OSError, ValueError):
            return None
        buckets = {
            bucket
            for here, there in (files, files[::-1])
            for path, bucket in here.items()
            if path not in there
        }
        return None if None in buckets else frozenset(b for b in buckets if b is not None)

    def count(self, namespace: str, owner: str, name: str, version: TableVersion | None) -> int:
        """Return the number of rows of a version, from the log alone."""
        return self.size(namespace, owner, name, version).rows

    def size(self, namespace: str, owner: str, name: str, version: TableVersion | None) -> TableSize:
        """Return the number of rows and bytes of a version, from the log alone."""
        log = None if version is None else self._log(namespace, owner, name, version)
        files = () if log is None else log.files
        return TableSize(sum(f.rows for f in files), sum(f.size for f in files))

    def uri(self, namespace: str, owner: str, name: str) -> str:
        """Return where a table lies: a path, or the URL of an object store, without credentials."""
        return self._place.uri(_path(namespace, owner, name))

    def files(self, namespace: str, owner: str, name: str) -> int:
        """Return the number of data files of the newest version."""
        log = self._latest(namespace, owner, name)
        return 0 if log is None else len(log.files)

    def stale(self, namespace: str, owner: str, name: str) -> Stale:
        """Return how much is present that the newest version does not use."""
        log = self._latest(namespace, owner, name)
        if log is None:
            return Stale(0, 0, 0)
        sizes = self._place.data_files(_path(namespace, owner, name))
        used = [f.size for f in log.files]
        return Stale(len(sizes) - len(used), sum(sizes) - sum(used), sum(used))

    def stale_files(self, namespace: str, owner: str, name: str) -> int:
        """Return the number of data files present that the newest version does not use."""
        return self.stale(namespace, owner, name).files

    def compact(self, namespace: str, owner: str, name: str) -> None:
        """Join the small files that many appends leave; the rows stay the same."""
        table = self._writer(namespace, owner, name)
        if table is not None:
            self._confirm()
            with self._typed(f"Table {name} of {owner} cannot be written", name):
                table.optimize.compact()
            self._written(table, _path(namespace, owner, name))

    def empty_trash(self, namespace: str) -> None:
        """Remove what killed removals of the namespace's tables left behind."""
        self._place.empty_trash(namespace)

    def vacuum(self, namespace: str, owner: str, name: str, keep: Collection[TableVersion] = ()) -> int:
        """Remove every file that neither the newest version nor one of ``keep`` uses.

        Returns the number of files removed. Versions of another table of the same name are passed over. Only
        under both leases.
        """
        table = self._writer(namespace, owner, name)
        if table is None:
            return 0
        kept = {_number(version) for version in keep if _is_of(version, table)}
        self._confirm()
        self._files.forget()
        with self._typed(f"Table {name} of {owner} cannot be written", name):
            removed = table.vacuum(
                retention_hours=0,
                enforce_retention_duration=False,
                dry_run=False,
                full=True,
                keep_versions=sorted(kept | {table.version()}),
            )
        path = _path(namespace, owner, name)
        noted = self._place.hashes(path)
        if gone := noted.keys() & set(removed):
            self._place.note(path, {file: noted[file] for file in noted.keys() - gone})
        return len(removed)

    def altered(self, namespace: str, owner: str, name: str, version: TableVersion) -> list[str]:
        """Return the data files of a version whose bytes are not those that were written, each by its path
        within the table. It reads all of them. Of a file that a killed process wrote last nothing is known.
        """
        log, path = self._log(namespace, owner, name, version), _path(namespace, owner, name)
        if log is None:
            return []
        noted = self._place.hashes(path)
        files = [f.path for f in log.files if f.path in noted]
        return sorted(file for file in files if self._place.sha256(f"{path}/{file}") != noted[file])

    def _note(self, log: _Log, path: str) -> None:
        """Note the hashes of the data files that have come with a commit: nothing else in a table would tell
        a number that the disk has changed from the one that was written."""
        noted = self._place.hashes(path)
        new = [f.path for f in log.files if f.path not in noted]
        found = {file: sha256 for file in new if (sha256 := self._place.sha256(f"{path}/{file}"))}
        if found:
            self._place.note(path, noted | found)

    def drop(self, namespace: str, owner: str, name: str) -> None:
        """Remove a table, readable or not. Only under both leases."""
        self._confirm()
        self._files.forget()
        self._place.remove(_path(namespace, owner, name))

    def drop_owner(self, namespace: str, owner: str) -> None:
        """Remove all tables of a retired source. Only under both leases."""
        self._confirm()
        self._files.forget()
        self._place.remove(f"{namespace}/{owner}")

    def names(self, namespace: str, owner: str) -> list[str]:
        return self._place.names(f"{namespace}/{owner}")

    def health(self) -> Health:
        """Check the part ``tables``: whether the place of the tables can be used."""
        return self._place.health()

    def close(self) -> None:
        """Do nothing: nothing is held open between requests."""

    def _open(self, namespace: str, owner: str, name: str, version: TableVersion | None) -> DeltaTable | None:
        """Read a table's log, up to a version of it (None: the newest one); None if there is no table."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        path = _path(namespace, owner, name)
        if not self._place.may_exist(path):
            return None
        number = None if version is None else _number(version)
        try:
            table = DeltaTable(self._place.uri(path), version=number, storage_options=self._place.options())
        except TableNotFoundError:
            # A process killed before its first commit leaves an empty log: the table does not exist yet.
            return None
        except (DeltaError, OSError) as error:
            problem = self._place.failure(
                f"Table {name} of {owner} cannot be opened", error, table=name, version=version
            )
        else:
            if version is None or _is_of(version, table):
                return table
            raise TabootError(
                "E_TABLE",
                f"Table {name} of {owner} was made again after version {version} was published.",
                table=name,
                version=version,
            )
        if problem.code == "E_TABLE" and not self._place.whole(path):
            return None
        raise problem

    def _log(self, namespace: str, owner: str, name: str, version: TableVersion) -> _Log | None:
        """Return the log of a version to read; None if there is no table."""
        path = _path(namespace, owner, name)
        if not self._place.may_exist(path):
            return None
        with self._lock:
            known = self._logs.get((path, version))
        if known is not None:
            return known
        table = self._open(namespace, owner, name, version)
        if table is None:
            return None
        return self._remember(path, table, None) if table_id(version) else self._read_log(path, table)

    def _latest(self, namespace: str, owner: str, name: str) -> _Log | None:
        """Return the log of the newest version."""
        version = self.version(namespace, owner, name)
        return None if version is None else self._log(namespace, owner, name, version)

    def _writer(self, namespace: str, owner: str, name: str) -> DeltaTable | None:
        """Return a table at its newest version to write to, which nobody else has: a commit changes it."""
        path = _path(namespace, owner, name)
        stamp = self._place.stamp(path)
        with self._lock:
            kept, table = self._writers.pop(path, (None, None))
        if table is not None and stamp is not None and kept == stamp:
            return table
        return self._open(namespace, owner, name, None)

    def _few(
        self, path: str, log: _Log, buckets: Collection[int] | None
    ) -> list[tuple[Path, int | None]] | None:
        """Return the files of these buckets (None: of all), each with its bucket; None for what is read as a
        dataset: on an object store, and beyond :data:`_FEW_BYTES`.
        """
        directory = self._place.directory(path)
        if directory is None:
            return None
        chosen = [f for f in log.files if buckets is None or f.bucket in buckets]
        if sum(f.size for f in chosen) > _FEW_BYTES:
            return None
        return [(directory / f.path, f.bucket) for f in chosen]

    def _read_log(self, path: str, table: DeltaTable) -> _Log:
        files = list(_files(table))
        few = self._place.directory(path) is not None and sum(f.size for f in files) <= _FEW_BYTES
        return _Log(
            _version(table),
            files,
            {f.name: f for f in table.schema().fields},
            None if few else table.to_pyarrow_dataset(filesystem=self._place.filesystem(path)),
        )

    def _written(self, table: DeltaTable, path: str) -> TableVersion:
        """Note the files of a commit; return the version that it made, which ``table`` is at."""
        stamp = self._place.stamp(path)
        # Only under a lease of its owner is a table written to; yet what another has committed is newer.
        alone = stamp is not None and stamp.version == table.version()
        log = self._remember(path, table, stamp if alone else None)
        self._note(log, path)
        return log.version

    def _remember(self, path: str, table: DeltaTable, stamp: Stamp | None) -> _Log:
        """Keep what the log says of the version that a table is at, and as long as its log has that stamp,
        that this is its newest one; then ``table`` goes to whoever writes to it next.
        """
        log = self._read_log(path, table)
        with self._lock:
            self._logs[path, log.version] = log
            if len(self._logs) > _MAX_KEPT:
                self._logs.popitem(last=False)
            if stamp is not None:
                self._newest[path] = (stamp, log.version)
                self._writers[path] = (stamp, table)
                if len(self._writers) > _MAX_KEPT:
                    self._writers.popitem(last=False)
        return log

    def _same_files(self, newest: _Log, namespace: str, owner: str, name: str, version: TableVersion) -> bool:
        if newest.version == version:
            return True
        if table_id(version) and table_id(version) != table_id(newest.version):
            return False
        other = self._log(namespace, owner, name, version)
        return other is not None and {f.path for f in other.files} == {f.path for f in newest.files}

    def _write(
        self,
        namespace: str,
        owner: str,
        name: str,
        rows: pa.Table,
        txn: str,
        mode: Literal["append", "overwrite"],
        predicate: str | None = None,
    ) -> TableVersion:
        """Commit rows beside those that a table holds, or in place of those of the predicate (None: of all).
        The first commit makes the table.
        """
        from deltalake import CommitProperties, DeltaTable, write_deltalake

        rows = model.conform(rows, _base(name))
        path = _path(namespace, owner, name)
        commit = CommitProperties(custom_metadata={"taboot.txn": txn})
        self._confirm()
        table = self._writer(namespace, owner, name)
        with self._typed(f"Table {name} of {owner} cannot be written", name):
            if table is None:
                uri, options = self._place.uri(path), self._place.options()
                self._place.prepare(path)
                _, key = model.TABLES[_base(name)]
                write_deltalake(
                    uri,
                    rows,
                    mode=mode,
                    partition_by=None if key is None else ["bucket"],
                    configuration=dict(_CONFIGURATION),
                    storage_options=options,
                    commit_properties=commit,
                )
                table = DeltaTable(uri, storage_options=options)
            elif mode == "append":
                write_deltalake(table, rows, mode=mode, commit_properties=commit)
            else:
                write_deltalake(table, rows, mode=mode, predicate=predicate, commit_properties=commit)
        return self._written(table, path)

    @contextlib.contextmanager
    def _typed(self, what: str, name: str) -> Iterator[None]:
        """Turn what Delta, the file system and the store raise into ``E_STORAGE`` or ``E_TABLE``."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (OSError, DeltaError) as error:
            raise self._place.failure(what, error, table=name) from None


def _path(namespace: str, owner: str, name: str) -> str:
    return f"{namespace}/{owner}/{name}"


def _version(table: DeltaTable) -> TableVersion:
    return f"{table.version()}.{_id(table)}"


def _id(table: DeltaTable) -> str:
    return str(table.metadata().id).replace("-", "")[:_ID_DIGITS]


def _scan(
    dataset: Dataset,
    wanted: pa.Schema,
    buckets: Collection[int] | None,
    members: tuple[str, Sequence[str]] | None,
) -> pa.Table:
    """Read the columns of a schema out of a dataset, of its chosen rows alone."""
    chosen = [] if buckets is None else [pc.field("bucket").isin(pa.array(sorted(buckets), pa.int32()))]
    if members is not None:
        chosen.append(pc.field(members[0]).isin(pa.array(members[1], pa.string())))
    rows = reduce(and_, chosen) if chosen else None
    if members is not None and any(pa.types.is_list(f.type) for f in wanted):
        # Vectors are wide: only the files that hold a wanted row are read whole.
        parts = [
            file.to_table(schema=dataset.schema, columns=list(wanted.names), filter=rows)
            for file in dataset.get_fragments(filter=rows)
            if file.to_table(schema=dataset.schema, columns=[members[0]], filter=rows).num_rows
        ]
        return pa.concat_tables(
            [wanted.empty_table(), *(part.select(wanted.names).cast(wanted) for part in parts)]
        )
    result = dataset.to_table(columns=list(wanted.names), filter=rows)
    # To cast a small table to its own schema takes a tenth of the time to read it.
    if not result.schema.equals(wanted, check_metadata=True):
        result = result.select(wanted.names).cast(wanted)
    return result


class _SmallFiles:
    """Reads small data files, which never change, and keeps what was read last: several stages of a run read
    the same ones, and to open one takes longer than to read it. Safe to use from several threads.
    """

    #: Bytes of what is kept, and of one part of it at most.
    _MOST, _LARGEST = 16 << 20, 256 << 10
    #: A file of so few bytes is read whole, whichever columns are asked for: each stage asks for others.
    _WHOLE = 32 << 10

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, int, tuple[str, ...] | None], pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Keep nothing of files that may be removed now: what was erased stays nowhere."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def read(
        self,
        files: Iterable[tuple[Path, int | None]],
        schema: pa.Schema,
        columns: Sequence[str],
        members: tuple[str, Sequence[str]] | None,
    ) -> pa.Table:
        """Read columns of a schema out of data files, each with its bucket, which it does not hold itself."""
        names = [*columns, *([members[0]] if members and members[0] not in columns else [])]
        wanted = pa.schema([schema.field(name) for name in names])
        parts: list[pa.Table] = []
        for path, bucket in files:
            part = self._part(path, tuple(names))
            if "bucket" in names:
                part = part.append_column("bucket", pa.repeat(pa.scalar(bucket, pa.int32()), part.num_rows))
            if lacking := set(names).difference(part.column_names):
                raise pa.ArrowInvalid(f"A data file has no column {min(lacking)}.")
            parts.append(part.select(names))
        if not parts:
            return wanted.empty_table().select(columns)
        # Casting a small table takes as long as reading it: all of them are cast at once, if they are alike.
        if not all(part.schema.equals(parts[0].schema) for part in parts):
            parts = [part.cast(wanted) for part in parts]
        result = pa.concat_tables(parts).cast(wanted)
        if members is not None:
            result = result.filter(pc.is_in(result.column(members[0]), pa.array(members[1], pa.string())))
        return result.select(columns)

    def _part(self, path: Path, names: tuple[str, ...]) -> pa.Table:
        from pyarrow.parquet import ParquetFile

        found = path.stat()
        columns = None if found.st_size <= self._WHOLE else names
        # A file that somebody has altered is read again, so that it is found to be.
        key = (str(path), found.st_mtime_ns, found.st_size, columns)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with pa.OSFile(str(path)) as file:
            part = ParquetFile(file, pre_buffer=False).read(columns=columns, use_threads=False)
        if part.nbytes <= self._LARGEST:
            with self._lock:
                if key not in self._kept:
                    self._bytes += part.nbytes
                self._kept[key] = part
                while self._bytes > self._MOST:
                    self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return part


def _files(table: DeltaTable) -> Iterator[_File]:
    """Yield the files of a version."""
    actions = pa.table(table.get_add_actions(flatten=True))
    buckets = (
        actions.column("partition.bucket").to_pylist() if "partition.bucket" in actions.column_names else []
    )
    paths, sizes, rows = (actions.column(c).to_pylist() for c in ("path", "size_bytes", "num_records"))
    yield from map(_File, paths, buckets or [None] * len(paths), sizes, rows)


def _number(version: TableVersion) -> int:
    return int(str(version).partition(".")[0])


def _is_of(version: TableVersion, table: DeltaTable) -> bool:
    """Whether this is a version of that table. An earlier release wrote versions without an id."""
    id_ = table_id(version)
    return not id_ or id_ == _id(table)


def table_id(version: TableVersion) -> str:
    """Return the part of a version that names the table, whichever of its versions it is."""
    return str(version).partition(".")[2]


def _base(name: str) -> str:
    """Return the name of a table's schema: ``vectors.<space>`` has the schema of ``vectors``."""
    return name.split(".", 1)[0]
