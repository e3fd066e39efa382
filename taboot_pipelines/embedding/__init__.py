"""Texts to vectors: the protocol, the bundled MiniLM and the client of a TEI server."""

from __future__ import annotations

from taboot_pipelines.embedding.protocol import Embedder, Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import ChunkingSettings, Settings

__all__ = ["Embedder", "Space", "check_limit", "open_embedder"]


def open_embedder(settings: Settings) -> Embedder:
    """The TEI server if ``TABOOT_TEI__URL`` is set, else the bundled model. Nothing is loaded or asked yet."""
    # Each is imported where it is chosen: an HTTP client has no use for the other's libraries.
    if settings.tei.url:
        from taboot_pipelines.embedding.tei import TeiEmbedder

        return TeiEmbedder(settings.tei, memory=settings.home_dir / "spaces.json")
    from taboot_pipelines.embedding.minilm import MiniLmEmbedder

    return MiniLmEmbedder(settings.embedding)


def check_limit(space: Space, chunking: ChunkingSettings) -> None:
    """Raise ``E_CONFIG`` if the embedder reads fewer tokens than a chunk may have (DESIGN rule 6)."""
    if space.max_tokens < chunking.content_tokens:
        raise TabootError(
            "E_CONFIG",
            f"TABOOT_CHUNKING__MAX_TOKENS: chunks of {chunking.content_tokens} tokens do not fit {space.model}, which reads {space.max_tokens}.",
            remedy="Use an embedder with a longer input, or lower TABOOT_CHUNKING__MAX_TOKENS, which builds a new chunk set.",
            settings=["TABOOT_CHUNKING__MAX_TOKENS"], limit=space.max_tokens,
        )
