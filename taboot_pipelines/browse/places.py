"""Where something stands, in few words: the source, the path in it and the line, not the path on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taboot_pipelines.shards.manifest import SourceEntry


def short_url(url: str, sources: Mapping[str, SourceEntry], source: str | None = None) -> str:
    """A local file, as stored or as shown, as ``source: path``, everything else as it is. ``source``: to
    which it belongs, where that is known; else the one whose folder lies deepest.
    """
    if not url.startswith("/"):
        stored, _, path = url.partition(":")
        return f"{stored}: {path}" if stored in sources and not path.startswith("//") else url
    known = {source: sources[source]} if source is not None and source in sources else sources
    fitting = [
        (len(entry.root), id_, entry.root)
        for id_, entry in known.items()
        if entry.root and url.startswith(f"{entry.root}/")
    ]
    if not fitting:
        return url
    _, id_, root = max(fitting)
    return f"{id_}: {Path(url).relative_to(root)}"


def with_line(place: str, line: int | None) -> str:
    return f"{place}:{line}" if line else place
