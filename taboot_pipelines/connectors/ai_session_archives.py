"""Exports of chats as they are downloaded: zip archives, of which nothing is unpacked to disk."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from taboot_pipelines.connectors.recorded import RecordedFile
from taboot_pipelines.errors import TabootError

#: What an archive begins with.
MAGIC = b"PK\x03\x04"
#: Members of one archive, and bytes that all of them may unpack to: years of chats have a tenth of it.
MAX_MEMBERS = 100_000
MAX_UNPACKED = 16 << 30
_ENDINGS = (".json", ".jsonl", ".ndjson", ".md")


class Readable(Protocol):
    """What bytes are read from, one piece after the other."""

    def read(self, size: int, /) -> bytes: ...


class Archive:
    """The members of an archive that may hold chats. Raises ``E_PARSE`` for a damaged or encrypted one,
    ``E_TOO_LARGE`` beyond the limits above."""

    def __init__(self, file: RecordedFile) -> None:
        self._file = file
        self._left = MAX_UNPACKED
        with self._typed():
            self._zip = zipfile.ZipFile(file.stream)
        if len(self._zip.filelist) > MAX_MEMBERS:
            raise TabootError(
                "E_TOO_LARGE", f"{file.path} has more than {MAX_MEMBERS} members.", path=file.path
            )

    def members(self) -> Iterator[zipfile.ZipInfo]:
        """In the order of their names."""
        for info in sorted(self._zip.filelist, key=lambda info: info.filename):
            hidden = info.filename.startswith("__MACOSX/")
            if not info.is_dir() and not hidden and info.filename.lower().endswith(_ENDINGS):
                yield info

    def open(self, info: zipfile.ZipInfo) -> Readable:
        """What a member unpacks to, from its beginning."""
        with self._typed():
            return _Member(self, self._zip.open(info))

    def read(self, stream: IO[bytes], size: int) -> bytes:
        """Some bytes of a member."""
        with self._typed():
            data = stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            path = self._file.path
            message = f"{path} unpacks to more than {MAX_UNPACKED >> 30} GiB."
            raise TabootError("E_TOO_LARGE", message, path=path)
        return data

    @contextmanager
    def _typed(self) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, RuntimeError):
            # RuntimeError is an encrypted member.
            path = self._file.path
            message = f"{path} is a zip that is damaged, encrypted or compressed in an unusual way."
            raise TabootError("E_PARSE", message, path=path) from None


class _Member:
    def __init__(self, archive: Archive, stream: IO[bytes]) -> None:
        self._archive = archive
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        return self._archive.read(self._stream, size)
