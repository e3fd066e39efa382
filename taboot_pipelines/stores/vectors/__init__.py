"""Points in Qdrant, where ``TABOOT_QDRANT__URL`` is set (DESIGN rules 7, 19, 20)."""

from __future__ import annotations

from taboot_pipelines.settings import QdrantSettings
from taboot_pipelines.stores.vectors.qdrant import QdrantPoints

__all__ = ["QdrantPoints", "open_points"]


def open_points(settings: QdrantSettings) -> QdrantPoints | None:
    """Touches no network. Raises ``E_CONFIG`` for an unusable URL, ``E_EXTRA`` without the extra
    ``qdrant``.
    """
    return QdrantPoints(settings) if settings.url else None
