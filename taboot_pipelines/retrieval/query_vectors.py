"""Vectors of queries: the embedder, opened when first needed, checked against the knowledge base's space."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.embedding.protocol import Embedder, Space, Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.retrieval.caches import Cache, Counts, Kind
from taboot_pipelines.retrieval.late_interaction import LateInteraction, late_interaction
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.state.keys import CACHE_QUERY_EMBED

# --- Vectors of queries, kept for a day in this process and, where a server makes them, in Redis
#     (``cache:query_embed``)
#
# Redis is used only where both servers are configured: the bundled embedder answers faster than a cache
# in another process. The key is a hash of the space, the prefix and the text, so the cache holds no query
# in clear and spaces never mix (rule ``spaces-never-mix``). Of several that miss at once, one asks the
# embedder (``lock:query``).

#: Bytes of vectors that are kept in this process.
_MAX_BYTES = 4 * 1024 * 1024


class QueryCache:
    """Safe to use from several threads. Where Redis does not answer, every query is embedded."""

    def __init__(self, settings: Settings, namespace: str, *, shared: bool) -> None:
        self._settings = settings
        self._namespace = namespace
        server = settings.embedding_server
        self._prefix = "" if server is None else server.prefix_query
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
    """The cache that the settings name in Redis; None unless TABOOT_REDIS__URL and the URL of an
    embedding server are set, and Redis may be written. Touches no network. Raises ``E_CONFIG``, ``E_EXTRA``.
    """
    if settings.redis.url is None or settings.embedding_server is None or settings.read_only:
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


@dataclass(frozen=True, slots=True)
class _Opened:
    embedder: Embedder
    cache: QueryCache | None


class QueryVectors:
    """``embedder``: one that is used instead of what the settings name. Safe to use from several threads."""

    def __init__(self, settings: Settings, namespace: str, embedder: Embedder | None) -> None:
        self._given = embedder
        self._opened = Lazy(lambda: _open(settings, namespace, embedder))
        self._settings = settings

    @property
    def given(self) -> bool:
        """Whether an embedder was passed in, which has no name to other processes."""
        return self._given is not None

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that was given or is open by now, for others to share; None if there is none yet."""
        opened = self._opened.made
        return self._given if opened is None else opened.embedder

    @property
    def cache(self) -> QueryCache | None:
        """What is kept of past queries; None where an embedder was passed in."""
        return self._opened().cache

    def load_meanwhile(self) -> None:
        """Load the bundled model, where it is used, in another thread, and go on. What is wrong with it, or
        with the settings, is raised by the first query."""
        with contextlib.suppress(TabootError):
            embedder = self._opened().embedder
            if isinstance(embedder, MiniLmEmbedder):
                embedder.load_meanwhile()

    def vector(self, view: View, query: str) -> Vectors:
        """The unit vector of ``query``, shape (dimension,). Raises as :meth:`lookup`."""
        return self.lookup(view, query)[0]

    def lookup(self, view: View, query: str) -> tuple[Vectors, bool]:
        """The unit vector of ``query``, shape (dimension,), and whether it was known. Of a query that has
        more tokens than the model reads, a beginning that it does read is embedded.

        Raises ``E_CONFIG`` if no embedder of the view's space can be had, ``E_VECTOR`` if it returned
        something else, and what the embedder raises.
        """
        opened, embedder = self._opened(), self._of(view)
        ours = embedder.space

        def embed(text: str) -> Vectors:
            vector = np.asarray(_embed_beginning(embedder, text), dtype=np.float32)
            if vector.shape != (ours.dimension,) or not np.isfinite(vector).all():
                raise TabootError(
                    "E_VECTOR",
                    "The embedder returned an unusable vector for the query.",
                    dimension=ours.dimension,
                )
            return vector

        return (embed(query), False) if opened.cache is None else opened.cache.lookup(ours, query, embed)

    def tokens(self, view: View, query: str) -> LateInteraction | None:
        """``query`` by its tokens, as the bundled model reads them; None where another is used, or where it
        has only function words. Raises as :meth:`vector`."""
        embedder = self._of(view)
        read = embedder.read_tokens(query) if isinstance(embedder, MiniLmEmbedder) else None
        return None if read is None else late_interaction(query, read, view.keywords.idf)

    def passages(self, view: View, texts: Sequence[str]) -> Vectors:
        """The unit vectors of ``texts``, shape (len(texts), dimension), to compare with a query's. Raises
        as :meth:`vector`."""
        return self._of(view).embed(texts)

    def foreign(self, view: View) -> str:
        """Why no question can be compared with the view's vectors, in words; empty if one can."""
        if self._found(view) is not None:
            return ""
        wanted, made = view.manifest.space.space(), self._opened().embedder.space
        return f"The knowledge base holds vectors of {wanted.id}, the embedder makes {made.id}."

    def _found(self, view: View) -> Embedder | None:
        from taboot_pipelines.embedding import embedder_of

        # Asked for each time: a server may have another model by now.
        return embedder_of(view.manifest.space.space(), self._opened().embedder, self._settings)

    def _of(self, view: View) -> Embedder:
        """The embedder of the view's space (``embedding.embedder_of``)."""
        found = self._found(view)
        if found is None:
            raise TabootError(
                "E_CONFIG",
                self.foreign(view),
                remedy=(
                    "Set the embedder that made the knowledge base (the bundled model's runtime is"
                    " TABOOT_EMBEDDING__RUNTIME), search with mode='keyword', or ingest again with this one."
                ),
                ours=view.manifest.space.space().id,
                theirs=self._opened().embedder.space.id,
            )
        return found


def _open(settings: Settings, namespace: str, embedder: Embedder | None) -> _Opened:
    if embedder is not None:
        # Another process's answers stand for the configured server's only, never for those of an embedder
        # that was passed in.
        return _Opened(embedder, None)
    from taboot_pipelines.embedding import open_embedder

    cache = open_query_cache(settings, namespace) or QueryCache(settings, namespace, shared=False)
    return _Opened(open_embedder(settings), cache)


def _embed_beginning(embedder: Embedder, text: str) -> Vectors:
    while True:
        try:
            return embedder.embed_query(text)
        except TabootError as error:
            shorter = text[: len(text) * 4 // 5]
            if error.code != "E_TOKEN_LIMIT" or not shorter:
                raise
            text = shorter
