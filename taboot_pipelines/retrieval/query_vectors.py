"""Vectors of queries: the embedder, opened when first needed, checked against the knowledge base's space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.embedding.protocol import Embedder, Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.once import Once
from taboot_pipelines.retrieval.query_cache import QueryCache, open_query_cache
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import Settings


@dataclass(frozen=True, slots=True)
class _Opened:
    embedder: Embedder
    cache: QueryCache | None


class QueryVectors:
    """``embedder``: one that is used instead of what the settings name. Safe to use from several threads."""

    def __init__(self, settings: Settings, namespace: str, embedder: Embedder | None) -> None:
        self._given = embedder
        self._opened = Once(lambda: _open(settings, namespace, embedder))

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

    def passages(self, view: View, texts: Sequence[str]) -> Vectors:
        """The unit vectors of ``texts``, shape (len(texts), dimension), to compare with a query's. Raises
        as :meth:`vector`."""
        return self._of(view).embed(texts)

    def _of(self, view: View) -> Embedder:
        """The embedder of the view's space: the one that is set, or the bundled model in the runtime that the
        manifest names, until the next ingest embeds the knowledge base anew."""
        embedder = self._opened().embedder
        wanted, made = view.manifest.space.space(), embedder.space
        if (wanted.model, wanted.revision, wanted.dimension) == (made.model, made.revision, made.dimension):
            return embedder
        other = embedder.for_space(wanted) if isinstance(embedder, MiniLmEmbedder) else None
        if other is None:
            raise TabootError(
                "E_CONFIG",
                f"The knowledge base holds vectors of {wanted.id}, the embedder makes {made.id}.",
                remedy=(
                    "Set the embedder that made the knowledge base (the bundled model's runtime is"
                    " TABOOT_EMBEDDING__RUNTIME), search with mode='keyword', or ingest again with this one."
                ),
                ours=wanted.id,
                theirs=made.id,
            )
        return other


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
