"""Vectors of queries, kept for a day in this process and, where a server makes them, in Redis
(``cache:query_embed``).

Redis is used only where both servers are configured: the bundled embedder answers faster than a cache in
another process. The key is a hash of the space, the prefix and the text, so the cache holds no query in clear
and spaces never mix (rule ``spaces-never-mix``). Of several that miss at once, one asks the embedder
(``lock:query``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import orjson

from taboot_pipelines.embedding.protocol import Space, Vectors
from taboot_pipelines.model import ids
from taboot_pipelines.retrieval.caches import Cache, Counts, Kind
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.state.keys import CACHE_QUERY_EMBED

#: Bytes of vectors that are kept in this process.
_MAX_BYTES = 4 * 1024 * 1024


class QueryCache:
    """Safe to use from several threads. Where Redis does not answer, every query is embedded."""

    def __init__(self, settings: Settings, namespace: str, *, shared: bool) -> None:
        self._settings = settings
        self._namespace = namespace
        self._prefix = settings.tei.prefix_query
        self.shared = shared
        self._cache: Cache[tuple[str, Vectors]] = self._open()

    def _open(self) -> Cache[tuple[str, Vectors]]:
        state = None
        if self.shared:
            from taboot_pipelines.stores.state.redis import RedisState

            state = RedisState(self._settings.redis)
        kind = Kind(CACHE_QUERY_EMBED, dump=_dump, load=_load, size=lambda value: value[1].nbytes + 300)
        return Cache(kind, self._namespace, _MAX_BYTES, state)

    @property
    def ttl_seconds(self) -> float:
        """How long a vector is kept."""
        return self._cache.ttl_seconds

    def vector(self, space: Space, text: str, embed: Callable[[str], Vectors]) -> Vectors:
        """The unit vector of ``text`` of shape (dimension,); ``embed`` makes it where it is not known. Raises
        what ``embed`` does.
        """
        return self.lookup(space, text, embed)[0]

    def lookup(self, space: Space, text: str, embed: Callable[[str], Vectors]) -> tuple[Vectors, bool]:
        """:meth:`vector`, and whether it was known."""
        name = ids.digest(space.model, space.revision, space.dimension, self._prefix, text)[:32]

        def make() -> tuple[str, Vectors]:
            return space.id, _fixed(np.array(embed(text), dtype=np.float32))

        (model, vector), known = self._cache.get(name, make)
        if model == space.id and vector.shape == (space.dimension,):
            return vector, known
        return make()[1], False  # what was kept under the name is no vector of the space

    def counts(self) -> Counts:
        """Raises ``E_REDIS``."""
        return self._cache.counts()

    def clear(self) -> int:
        """Drop all vectors; returns how many there were. Raises ``E_REDIS``."""
        return self._cache.clear()

    def close(self) -> None:
        self._cache.close()


def open_query_cache(settings: Settings, namespace: str) -> QueryCache | None:
    """The cache that the settings name in Redis; None unless both TABOOT_REDIS__URL and TABOOT_TEI__URL are
    set. Touches no network. Raises ``E_CONFIG``, ``E_EXTRA``.
    """
    if settings.redis.url is None or settings.tei.url is None:
        return None
    return QueryCache(settings, namespace, shared=True)


def _dump(value: tuple[str, Vectors]) -> bytes:
    return orjson.dumps({"embedding": value[1], "model": value[0]}, option=orjson.OPT_SERIALIZE_NUMPY)


def _load(data: bytes) -> tuple[str, Vectors] | None:
    try:
        kept = orjson.loads(data)
        vector = np.asarray(kept["embedding"], dtype=np.float32)
        usable = isinstance(kept["model"], str) and vector.ndim == 1 and bool(np.isfinite(vector).all())
    except (ValueError, TypeError, KeyError):
        return None
    return (kept["model"], _fixed(vector)) if usable else None


def _fixed(vector: Vectors) -> Vectors:
    vector.flags.writeable = False  # one array for all callers
    return vector
