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
import os
from pathlib import Path
from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.shards.cache import LocalCache
    from taboot_pipelines.shards.protocol import ShardStore


def open_shards(settings: Settings) -> ShardStore:
    """Open the shards at ``TABOOT_SHARD_URL``, with a cache; by default those of the home.

    Where nothing may be cached, what is read of an object store lies in a temporary folder, which ends with
    the process. Touches no network. Raises ``E_CONFIG`` for an unusable URL.
    """
    from taboot_pipelines.shards.cache import LocalCache

    url = settings.shard_url or (settings.home_dir / "kb").as_uri()
    called = _called(url) if settings.shard_url else "home"
    cache = LocalCache(settings.cache / "shards" / called, read_only=not settings.caches)
    return _opened("TABOOT_SHARD_URL", url, settings, cache, read_only=settings.read_only)


def open_target(where: str | Path, settings: Settings) -> ShardStore:
    """Open the folder or the URL that a copy of shards is written to. Raises ``E_CONFIG`` for what is
    neither, for a web server, of which can only be read, and for a home.
    """
    if "://" not in str(where):
        folder = Path(where).expanduser().absolute()
        if not str(where).strip() or folder == settings.home_dir or _is_home(folder):
            raise TabootError(
                "E_CONFIG",
                f"{str(where)!r} is {'a home' if str(where).strip() else 'no place'}, where no copy is made.",
                remedy="Name another folder, or the URL of an object store.",
            )
    return _opened("WHERE", _url(where), settings, None, read_only=False)


def _is_home(folder: Path) -> bool:
    return (folder / "kb").is_dir()


def is_copy(folder: Path) -> bool:
    """Whether a folder is a copy of what was published, of any namespace, and not a home."""
    from taboot_pipelines.shards.layout import manifest_name

    return not _is_home(folder) and any(folder.glob(manifest_name("*")))


def settings_of_copy(where: str | Path, namespace: str, settings: Settings) -> Settings | None:
    """The settings to read the copy of a knowledge base at a URL, or in the folder that holds its manifest;
    None if it is the home of one.

    Of ``settings`` it has what says how is searched and answered, and where blobs are, which go by their
    hash. It has no servers and no catalog, and its cache is the user's where none is named.
    """
    from taboot_pipelines.shards.layout import manifest_path

    if "://" not in str(where):
        folder = Path(where).expanduser()
        if _is_home(folder) or not manifest_path(folder, namespace).is_file():
            return None
    url = _url(where)
    shared = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "taboot").expanduser()
    cache = settings.cache_dir or shared
    unset = {
        name: Settings.model_fields[name].get_default(call_default_factory=True)
        for name in ("table_url", "catalog_url", "catalog_admin_url", "redis", "qdrant", "neo4j")
    }
    # Nothing is ever written there.
    home = cache / "copies" / _called(url)
    own = {"home": home, "sources": home / "sources.yaml", "shard_url": url, "cache_dir": cache}
    return settings.model_copy(update={**unset, **own, "read_only": True})


def _url(where: str | Path) -> str:
    return str(where) if "://" in str(where) else Path(where).expanduser().absolute().as_uri()


def _called(url: str) -> str:
    return sha256_hex(url.rstrip("/"))[:16]


def _opened(
    setting: str, url: str, settings: Settings, cache: LocalCache | None, *, read_only: bool
) -> ShardStore:
    from taboot_pipelines.shards.files import verified_at
    from taboot_pipelines.stores.objects import place

    verified = verified_at(settings.cache / "verified.json", read_only=not settings.caches)
    at = place(setting, url, settings.storage, http=True)
    if at.directory is not None:
        from taboot_pipelines.shards.directory import DirectoryShards

        return DirectoryShards(at.directory, verified, cache, read_only=read_only)
    if at.backend == "http" and not read_only:
        raise TabootError(
            "E_CONFIG",
            f"{setting} is a web server, of which shards can only be read.",
            remedy="Name a folder or an object store, or set TABOOT_READ_ONLY and only read.",
            setting=setting,
        )
    from taboot_pipelines.shards.bucket import BucketShards
    from taboot_pipelines.shards.cache import LocalCache

    if cache is None or cache.read_only:
        cache = LocalCache(_temporary() / _called(url))
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
