"""Vectors of queries that a server embeds, kept for a day in Redis and in this process (seed 001 §5.2,
``cache:query_embed``).

It is used only where both servers are configured: the bundled embedder answers faster than a cache, and the
default set-up opens no catalog for a search. The key is a hash of the space, the prefix and the text, so the
cache holds no query in clear and spaces never mix (rule ``spaces-never-mix``). Of several processes that miss
at once, one asks the embedder (``lock:query``).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import orjson

from taboot_pipelines.embedding.protocol import Space, Vectors
from taboot_pipelines.model import ids
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.state import Lenient, State
from taboot_pipelines.stores.state.keys import CACHE_QUERY_EMBED, LOCK_QUERY

#: Vectors that are kept in this process.
_MAX_RECENT = 1024
#: How long to wait for another process that embeds the same query before doing it too, and how often to look.
_PATIENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.02


class QueryCache:
    """Safe to use from several threads. Where Redis does not answer, every query is embedded."""

    def __init__(self, state: State, namespace: str, prefix: str) -> None:
        self._state = state
        self._hints = Lenient(state)
        self._namespace = namespace
        self._prefix = prefix
        self._recent: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def vector(self, space: Space, text: str, embed: Callable[[str], Vectors]) -> Vectors:
        """The unit vector of ``text`` of shape (dimension,); ``embed`` makes it where it is not known. Raises
        what ``embed`` does.
        """
        name = ids.digest(space.model, space.revision, space.dimension, self._prefix, text)[:32]
        with self._lock:
            known = self._recent.get(name)
            if known is not None:
                self._recent.move_to_end(name)
                return known
        vector = self._shared(name, space)
        if vector is None:
            vector = self._made(name, space, text, embed)
        vector.flags.writeable = False  # one array for all callers
        with self._lock:
            self._recent[name] = vector
            while len(self._recent) > _MAX_RECENT:
                self._recent.popitem(last=False)
        return vector

    def close(self) -> None:
        self._state.close()

    def _made(self, name: str, space: Space, text: str, embed: Callable[[str], Vectors]) -> Vectors:
        with contextlib.ExitStack() as until_kept:
            lock = LOCK_QUERY(name), LOCK_QUERY.ttl_seconds or 0.0
            mine = self._hints.ask(lambda s: until_kept.enter_context(s.lock(self._namespace, *lock)), True)
            # Whoever held the lock may just have kept what is wanted here.
            found = self._shared(name, space) if mine else self._awaited(name, space)
            if found is not None:
                return found
            vector = np.array(embed(text), dtype=np.float32)
            value = orjson.dumps({"embedding": vector, "model": space.id}, option=orjson.OPT_SERIALIZE_NUMPY)
            self._hints.ask(
                lambda s: s.set(
                    self._namespace, CACHE_QUERY_EMBED(name), value, CACHE_QUERY_EMBED.ttl_seconds or 0.0
                ),
                None,
            )
            return vector

    def _awaited(self, name: str, space: Space) -> Vectors | None:
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
            found = self._shared(name, space)
            if found is not None:
                return found
        return None

    def _shared(self, name: str, space: Space) -> Vectors | None:
        """What another process kept; None where nothing is there that could be the vector."""
        value = self._hints.ask(lambda s: s.get(self._namespace, CACHE_QUERY_EMBED(name)), None)
        try:
            kept = orjson.loads(value) if value is not None else None
            if not isinstance(kept, dict) or kept.get("model") != space.id:
                return None
            vector = np.asarray(kept["embedding"], dtype=np.float32)
        except (ValueError, TypeError, KeyError):
            return None
        return vector if vector.shape == (space.dimension,) and bool(np.isfinite(vector).all()) else None


def open_query_cache(settings: Settings, namespace: str) -> QueryCache | None:
    """The cache that the settings name; None unless both TABOOT_REDIS__URL and TABOOT_TEI__URL are set.
    Touches no network. Raises ``E_CONFIG``, ``E_EXTRA``.
    """
    if settings.redis.url is None or settings.tei.url is None:
        return None
    from taboot_pipelines.stores.state.redis import RedisState

    return QueryCache(RedisState(settings.redis), namespace, settings.tei.prefix_query)
