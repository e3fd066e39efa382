"""Texts to vectors: the protocol, the bundled MiniLM, the client of a TEI server, and models in this process
by PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taboot_pipelines.embedding.protocol import Embedder, Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import ChunkingSettings, Settings

if TYPE_CHECKING:
    from taboot_pipelines.inference.http import Circuit

__all__ = ["Embedder", "Space", "check_limit", "open_embedder"]


def open_embedder(settings: Settings, circuit: Circuit | None = None) -> Embedder:
    """The TEI server if ``TABOOT_TEI__URL`` is set, the PyTorch model if ``TABOOT_EMBEDDING__TORCH__MODEL``
    is, else the bundled one. Nothing is loaded or asked yet. Raises ``E_CONFIG`` naming both where two are
    set."""
    chosen = {
        "TABOOT_TEI__URL": settings.tei.url,
        "TABOOT_EMBEDDING__TORCH__MODEL": settings.embedding.torch.model,
        "TABOOT_EMBEDDING__MODEL_PATH": settings.embedding.model_path,
    }
    named = [name for name, value in chosen.items() if value]
    if len(named) > 1:
        raise TabootError(
            "E_CONFIG",
            f"{' and '.join(named)} are set together: they name different embedders.",
            remedy="Unset all but one.",
            settings=named,
        )
    # Each is imported where it is chosen: an HTTP client has no use for the other's libraries.
    if settings.tei.url:
        from taboot_pipelines.embedding.tei import TeiEmbedder

        return TeiEmbedder(settings.tei, memory=settings.home_dir / "spaces.json", circuit=circuit)
    if settings.embedding.torch.model:
        from taboot_pipelines.embedding.torch import TorchEmbedder

        return TorchEmbedder(settings.embedding.torch)
    from taboot_pipelines.embedding.minilm import MiniLmEmbedder

    return MiniLmEmbedder(settings.embedding)


def check_limit(space: Space, chunking: ChunkingSettings) -> None:
    """Raise ``E_CONFIG`` if the embedder reads fewer tokens than a chunk may have (DESIGN rule 6)."""
    if space.max_tokens < chunking.content_tokens:
        raise TabootError(
            "E_CONFIG",
            f"TABOOT_CHUNKING__MAX_TOKENS: chunks of {chunking.content_tokens} tokens do not fit"
            f" {space.model}, which reads {space.max_tokens}.",
            remedy=(
                "Use an embedder with a longer input, or lower TABOOT_CHUNKING__MAX_TOKENS, which builds a"
                " new chunk set."
            ),
            settings=["TABOOT_CHUNKING__MAX_TOKENS"],
            limit=space.max_tokens,
        )
