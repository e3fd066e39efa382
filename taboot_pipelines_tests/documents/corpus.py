"""The real files that the document tests read."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from pathlib import Path

from taboot_pipelines_tests.needs import DATA


def folder(name: str) -> Path:
    return DATA / name


def files(name: str, pattern: str = "**/*") -> Iterator[tuple[str, bytes]]:
    """(relative path, bytes) of each file of a set, without its notes and gold."""
    root = folder(name)
    for path in sorted(root.glob(pattern)):
        if path.is_file() and path.name not in ("NOTE.md", "gold.jsonl"):
            yield path.relative_to(root).as_posix(), path.read_bytes()


def archived(name: str, archive: str) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of each HTML file of a ``tar.xz``."""
    with tarfile.open(folder(name) / archive) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() and member.name.endswith(".html") else None
            if stream is not None:
                yield member.name, stream.read()


def pages() -> Iterator[tuple[str, bytes]]:
    """Every third real HTML page of the sets."""
    every = [
        *files("linuxserver-docs-html-sample", "**/*.html"),
        *files("site-ingress-nginx", "**/*.html"),
        *archived("site-external-dns", "site.tar.xz"),
        *((name, gzip.decompress(data)) for name, data in files("extraction-articles", "html/*.gz")),
        *archived("extraction-trafilatura", "html.tar.xz"),
    ]
    yield from ((name.removesuffix(".gz"), data) for name, data in every[::3])
