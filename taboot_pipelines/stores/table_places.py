"""Where Delta tables lie: a directory, or a prefix of an object store.

What the Delta log does not do itself is done here. In both places a table that is being removed counts as
absent from the first step on, so a removal may be killed anywhere. A directory is renamed away first. On an
object store the first version and the checkpoints are deleted first; without them the rest of a log describes
no table (Delta protocol: a log starts with version 0 or at a checkpoint).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health
from taboot_pipelines.stores.disk import on_disk, refusal, storage_error
from taboot_pipelines.stores.objects import StorageLocation, directory_health, is_transport

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_LOG = "_delta_log"
#: A commit's file in a log (Delta protocol: the version, zero-padded to 20 digits).
_COMMIT = re.compile(r"\d{20}\.json")
#: What a reader can begin with: the first version or a checkpoint.
_BEGINNING = re.compile(r"/_delta_log/(?:0{20}\.json|\d{20}\.checkpoint[^/]*)$")
#: The hashes of a table's data files, beside them: Delta takes no notice of a name that begins so.
HASHES = "_sha256.json"
#: What a table is made of. Anything else under the same URL (blobs, shards, an operator's own files)
#: is never touched.
_PART = re.compile(r"/_delta_log/|\.parquet$|/_sha256\.json$")


class Stamp(NamedTuple):
    """The newest commit of a log: the version that it made, and what tells its file from another so named.

    The first commit of a table that was removed and made again can have the name, the inode and the time of
    the one before; its hash differs, since the table's own id is in it.
    """

    version: int
    inode: int
    nanoseconds: int
    sha256: bytes


class TablePlace(Protocol):
    """A place that holds Delta tables.

    Paths are ``{namespace}/{owner}/{table}`` or a beginning of it, without a slash at the end.
    """

    def uri(self, path: str) -> str: ...

    def options(self) -> dict[str, str] | None: ...

    def directory(self, path: str) -> Path | None:
        """Return the directory of a table; None on an object store."""

    def filesystem(self, path: str) -> FileSystem | None:
        """Return what pyarrow reads the table's data files with; None: what deltalake has for it."""

    def may_exist(self, path: str) -> bool:
        """Whether there may be a table: False only if there is certainly none. Costs no request."""

    def stamp(self, path: str) -> Stamp | None:
        """Return what differs after every commit to a table; None where that costs a request."""

    def whole(self, path: str) -> bool:
        """Whether the path holds a table, and not the rest of one that is being removed."""

    def names(self, path: str) -> list[str]:
        """Return the names of an owner's tables."""

    def data_files(self, path: str) -> list[int]:
        """Return the sizes in bytes of a table's data files, used and not."""

    def sha256(self, path: str) -> str | None:
        """Return the hash of a file (``{namespace}/{owner}/{table}/…``); None if it is not there."""

    def hashes(self, path: str) -> dict[str, str]:
        """Return what :meth:`note` noted of a table's data files; nothing where that cannot be read."""

    def note(self, path: str, hashes: Mapping[str, str]) -> None:
        """Note the hashes of a table's data files: their paths within the table, and SHA-256 in hex."""

    def prepare(self, path: str) -> None:
        """Make room for a new table."""

    def remove(self, path: str) -> None: ...

    def empty_trash(self, namespace: str) -> None:
        """Remove what killed removals of the namespace's tables left behind."""

    def failure(self, what: str, error: BaseException, **details: Any) -> TabootError:
        """Return our error for one of deltalake or pyarrow.

        It is ``E_STORAGE`` if the store failed, else ``E_TABLE``.
        """

    def health(self) -> Health: ...


class TableDirectory:
    """Tables under a local directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trash = root / ".removed"

    def uri(self, path: str) -> str:
        return str(self._root / path)

    def options(self) -> None:
        return None

    def directory(self, path: str) -> Path:
        return self._root / path

    def filesystem(self, path: str) -> FileSystem:
        # deltalake's own calls Python for each piece of a file. A thread of pyarrow that still lets go of
        # such a file when Python ends aborts the process (arrow issue 34314), after its work was done.
        from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

        return SubTreeFileSystem(str((self._root / path).absolute()), LocalFileSystem())

    def may_exist(self, path: str) -> bool:
        return (self._root / path / _LOG).is_dir()

    def stamp(self, path: str) -> Stamp | None:
        try:
            with os.scandir(self._root / path / _LOG) as log:
                newest = max((file for file in log if _COMMIT.fullmatch(file.name)), key=lambda f: f.name)
            changed = newest.stat()
            version = int(newest.name.partition(".")[0])
            beginning = b"" if version else hashlib.sha256(Path(newest.path).read_bytes()).digest()
        except (OSError, ValueError):
            return None
        return Stamp(version, changed.st_ino, changed.st_mtime_ns, beginning)

    def whole(self, path: str) -> bool:
        return self.may_exist(path)

    def names(self, path: str) -> list[str]:
        directory = self._root / path
        return (
            sorted(p.name for p in directory.iterdir() if (p / _LOG).is_dir()) if directory.is_dir() else []
        )

    def data_files(self, path: str) -> list[int]:
        found = (self._root / path).rglob("*.parquet")
        return [p.stat().st_size for p in found if _LOG not in p.parts]

    def sha256(self, path: str) -> str | None:
        try:
            with (self._root / path).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return None

    def hashes(self, path: str) -> dict[str, str]:
        try:
            return _noted((self._root / path / HASHES).read_bytes())
        except FileNotFoundError:
            return {}

    def note(self, path: str, hashes: Mapping[str, str]) -> None:
        at = self._root / path / HASHES
        with on_disk("The hashes of a table cannot be written", at):
            # A half-written file would be none; a process at a time writes to a table.
            aside = at.with_name(f"{HASHES}.new")
            aside.write_text(json.dumps(hashes, sort_keys=True))
            aside.replace(at)

    def prepare(self, path: str) -> None:
        (self._root / path).mkdir(parents=True, exist_ok=True)

    def remove(self, path: str) -> None:
        # Renamed first, so that a kill during the removal leaves no part of a table behind.
        if (self._root / path).exists():
            with on_disk("A table cannot be removed", self._root / path):
                self._trash.mkdir(parents=True, exist_ok=True)
                (self._root / path).rename(self._trash / uuid.uuid4().hex)
        self._empty()

    def empty_trash(self, namespace: str) -> None:
        self._empty()

    def _empty(self) -> None:
        shutil.rmtree(self._trash, ignore_errors=True)

    def failure(self, what: str, error: BaseException, **details: Any) -> TabootError:
        if (number := refusal(error)) is not None:
            return storage_error(what, number, self._root, reason=type(error).__name__, **details)
        return TabootError("E_TABLE", f"{what}.", reason=type(error).__name__, **details)

    def health(self) -> Health:
        return directory_health("tables", self._root)


class TableBucket:
    """Tables under a prefix of an object store; every listing is one request per thousand objects."""

    def __init__(self, at: StorageLocation) -> None:
        self._at = at
        self._store = at.store()
        self._options = at.delta_options()

    def uri(self, path: str) -> str:
        return f"{self._at.url.rstrip('/')}/{path}"

    def options(self) -> dict[str, str]:
        return self._options

    def directory(self, path: str) -> None:
        return None

    def filesystem(self, path: str) -> None:
        return None

    def may_exist(self, path: str) -> bool:
        return True

    def stamp(self, path: str) -> Stamp | None:
        return None

    def whole(self, path: str) -> bool:
        return any(_BEGINNING.search(p) for p in self._list(f"{path}/{_LOG}"))

    def names(self, path: str) -> list[str]:
        import obstore

        with self._at.asked(f"The tables of {path} cannot be listed"):
            return sorted(
                p.rsplit("/", 1)[-1]
                for p in obstore.list_with_delimiter(self._store, prefix=path)["common_prefixes"]
            )

    def data_files(self, path: str) -> list[int]:
        return [size for p, size in self._sizes(path) if p.endswith(".parquet") and f"/{_LOG}/" not in p]

    def sha256(self, path: str) -> str | None:
        import obstore

        digest = hashlib.sha256()
        with self._at.asked("A table's file cannot be read"):
            try:
                for piece in obstore.get(self._store, path).stream():
                    digest.update(piece)
            except FileNotFoundError:
                return None
        return digest.hexdigest()

    def hashes(self, path: str) -> dict[str, str]:
        import obstore

        with self._at.asked("The hashes of a table cannot be read"):
            try:
                return _noted(bytes(obstore.get(self._store, f"{path}/{HASHES}").bytes()))
            except FileNotFoundError:
                return {}

    def note(self, path: str, hashes: Mapping[str, str]) -> None:
        import obstore

        with self._at.asked("The hashes of a table cannot be written"):
            obstore.put(self._store, f"{path}/{HASHES}", json.dumps(hashes, sort_keys=True).encode())

    def prepare(self, path: str) -> None:
        self.remove(path)

    def remove(self, path: str) -> None:
        self._delete(p for p in self._list(path) if _PART.search(p))

    def empty_trash(self, namespace: str) -> None:
        tables: dict[str, list[str]] = defaultdict(list)
        for p in self._list(namespace):
            table = "/".join(p.split("/", 3)[:3])
            if table != p and _PART.search(p):
                tables[table].append(p)
        for table, paths in tables.items():
            # Checked again: a table that was made during the listing has its first version or a
            # checkpoint by then.
            if not any(map(_BEGINNING.search, paths)) and not self.whole(table):
                self._delete(paths)

    def failure(self, what: str, error: BaseException, **details: Any) -> TabootError:
        if isinstance(error, FileNotFoundError) or not (isinstance(error, OSError) or is_transport(error)):
            return TabootError("E_TABLE", f"{what}.", reason=type(error).__name__, **details)
        if isinstance(error, OSError) and not is_transport(error):
            # pyarrow raises OSError for a file that is no Parquet.
            return TabootError("E_TABLE", f"{what}.", reason=type(error).__name__, **details)
        return self._at.failure(what, error, **details)

    def health(self) -> Health:
        return self._at.health("tables")

    def _list(self, prefix: str) -> list[str]:
        return [path for path, _ in self._sizes(prefix)]

    def _sizes(self, prefix: str) -> list[tuple[str, int]]:
        import obstore

        with self._at.asked("The tables cannot be listed"):
            return [
                (meta["path"], meta["size"])
                for batch in obstore.list(self._store, prefix=prefix)
                for meta in batch
            ]

    def _delete(self, paths: Iterable[str]) -> None:
        import obstore

        rest: list[str] = []
        with self._at.asked("A table cannot be removed"):
            for path in sorted(paths):
                if _BEGINNING.search(path):
                    # One by one, the first version before the checkpoints: until the last of them is gone,
                    # the table is as it was.
                    obstore.delete(self._store, path)
                else:
                    rest.append(path)
            obstore.delete(self._store, rest)


def _noted(data: bytes) -> dict[str, str]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
