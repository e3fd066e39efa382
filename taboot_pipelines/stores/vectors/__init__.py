"""Vectors: a namespace's chunks as points in Qdrant, where ``TABOOT_QDRANT__URL`` is set (rules
``equal-text-once``, ``one-ranking`` and ``spaces-never-mix``).

There is one backend, ``qdrant``, and no protocol: without it searches are answered by ``shards``, which reads
whole knowledge bases and offers other operations. ``points`` says what a point holds, how
terms become a vector and how a collection keeps points, ``filters`` how a request is bound to its namespace,
and ``connection`` how it is asked. Which points there should be is for the stage that writes them,
and how hits are ranked for ``retrieval``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.stores.vectors.qdrant import QdrantPoints


def open_vectors(settings: Settings) -> QdrantPoints | None:
    """Open the points in Qdrant; None where no URL is set. Touches no network.

    Raises ``E_CONFIG`` for an unusable URL, ``E_EXTRA`` without the extra ``qdrant``.
    """
    from taboot_pipelines.stores.vectors.qdrant import QdrantPoints

    return QdrantPoints(settings.qdrant) if settings.qdrant.url else None
