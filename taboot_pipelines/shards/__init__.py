"""Content-addressed shards: the embedded serving store and the portable copy of a knowledge base.

A shard is a DuckDB file that stands alone, and holds a range of documents (or of entities). Its key is the
hash of its content, so it never changes and equal content gives equal keys. A manifest names the shards of a
namespace; it is replaced in one step, and a reader sees the old set of shards or the new one, both whole.
What a search maps into memory is derived from the shards and lies in a local cache.

Read ``protocol.py`` first (what a store of shards does, what works over any of them), then along the data:

    inputs.py      what a publisher is given: one snapshot of a namespace
    plan.py        which shards should exist: where the key ranges are cut, and each shard's key
    build.py       the database of one shard, with postings.py, links.py and analyzer.py
    publish.py     builds the shards that are missing, then swaps the manifest; prunes what it left behind
    search_files.py  what a search maps of one shard, derived from its database; kept in cache.py
    reader.py      the shards of one manifest

What they share: ``manifest.py`` (the manifest's model), ``layout.py`` (names of files and folders, numbers
out of Arrow columns), ``files.py`` (a file's bytes against the hash that it should have). The backends
are ``directory.py`` and ``bucket.py``; :func:`open_shards` chooses one.

What does not belong here: the stage that runs a publish and its audit (``stages/kb_shards.py``), ranking and
everything else about a query (``retrieval/``), and buckets, credentials and their failures
(``stores/objects.py``). Nothing here knows the catalog or the tables; rows come in through ``inputs.py``.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.shards.protocol import ShardStore


def open_shards(settings: Settings) -> ShardStore:
    """Open the shards at ``TABOOT_SHARD_URL``, with a cache in the home; by default those of the home.

    Where TABOOT_READ_ONLY is set nothing is written to that cache, and what is read of an object store lies
    in a temporary folder, which ends with the process. Touches no network. Raises ``E_CONFIG`` for an
    unusable URL.
    """
    home, url = settings.home_dir, settings.shard_url
    from taboot_pipelines.shards.cache import LocalCache
    from taboot_pipelines.shards.directory import DirectoryShards
    from taboot_pipelines.shards.files import verified_at

    read_only = settings.read_only
    verified = verified_at(home / "cache" / "verified.json", read_only=read_only)
    cached = home / "cache" / "shards"

    def directory(root: Path, called: str) -> DirectoryShards:
        cache = LocalCache(cached / called, read_only=read_only)
        return DirectoryShards(root, verified, cache, read_only=read_only)

    if not url:
        return directory(home / "kb", "home")
    from taboot_pipelines.stores.objects import place

    at = place("TABOOT_SHARD_URL", url, settings.storage)
    called = sha256_hex(at.url.rstrip("/"))[:16]
    if at.directory is not None:
        return directory(at.directory, called)
    from taboot_pipelines.shards.bucket import BucketShards

    cache = LocalCache((_temporary() if read_only else cached) / called)
    return BucketShards(at, cache, verified, read_only=read_only)


@functools.cache
def _temporary() -> Path:
    """A folder of this process, which is removed when it ends."""
    import atexit
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="taboot-shards-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
