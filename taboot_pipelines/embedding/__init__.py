"""Embedders: texts to vectors of one embedding space.

The protocol and ``Space`` are in ``protocol``. The backends are ``minilm`` (the bundled model, run by
``encoder``, or by ``openvino``), ``e5`` (a model of many languages), ``tei`` (a server of Text Embeddings
Inference), ``openai`` (any server with OpenAI's API) and ``torch`` (another model in this process). Every
backend passes its answers through ``unit_vectors``. Which texts are embedded and where their vectors are kept
does not belong here, and neither does chunking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import EmbeddingSettings, Settings

if TYPE_CHECKING:
    from taboot_pipelines.embedding.minilm import MiniLmEmbedder
    from taboot_pipelines.embedding.protocol import Embedder, Space
    from taboot_pipelines.stores.state.circuit import Circuit


def open_embedder(settings: Settings, circuit: Circuit | None = None) -> Embedder:
    """Open the server if ``TABOOT_TEI__URL`` or ``TABOOT_EMBEDDING__OPENAI__URL`` is set, the PyTorch model
    if ``TABOOT_EMBEDDING__TORCH__MODEL`` is, that of many languages if ``TABOOT_EMBEDDING__MULTILINGUAL`` is,
    else the bundled model. Nothing is loaded or asked yet.

    Raises ``E_CONFIG`` naming both where two are set.
    """
    chosen = {
        "TABOOT_TEI__URL": settings.tei.url,
        "TABOOT_EMBEDDING__OPENAI__URL": settings.embedding.openai.url,
        "TABOOT_EMBEDDING__TORCH__MODEL": settings.embedding.torch.model,
        "TABOOT_EMBEDDING__MODEL_PATH": settings.embedding.model_path,
        "TABOOT_EMBEDDING__MULTILINGUAL": settings.embedding.multilingual,
    }
    named = [name for name, value in chosen.items() if value]
    if len(named) > 1:
        raise TabootError(
            "E_CONFIG",
            f"{' and '.join(named)} are set together: they name different embedders.",
            remedy="Unset all but one.",
            settings=named,
        )
    # Each is imported where it is chosen: an HTTP client has no use for another backend's libraries.
    memory = None if settings.read_only else settings.home_dir / "spaces.json"
    if settings.tei.url:
        from taboot_pipelines.embedding.tei import TeiEmbedder

        return TeiEmbedder(settings.tei, memory=memory, circuit=circuit)
    if settings.embedding.openai.url:
        from taboot_pipelines.embedding.openai import OpenAiEmbedder

        return OpenAiEmbedder(settings.embedding.openai, memory=memory, circuit=circuit)
    if settings.embedding.torch.model:
        from taboot_pipelines.embedding.torch import TorchEmbedder

        return TorchEmbedder(settings.embedding.torch)
    if settings.embedding.multilingual:
        from taboot_pipelines.embedding.e5 import E5Embedder

        return E5Embedder(settings.embedding.threads)
    return _bundled(settings, settings.embedding)


def embedder_of(space: Space, chosen: Embedder, settings: Settings) -> Embedder | None:
    """An embedder whose vectors are of ``space``: the chosen one, else one of the models that come in
    packages; None if there is none. So a knowledge base is searched by meaning until another model, which
    the settings name by now, has embedded it anew.
    """
    if _same(space, chosen.space):
        return chosen
    from taboot_pipelines.embedding.e5 import E5Embedder
    from taboot_pipelines.embedding.minilm import MiniLmEmbedder

    of_many_languages = E5Embedder(settings.embedding.threads)
    if _same(space, of_many_languages.space) and of_many_languages.installed:
        return of_many_languages
    # Another model of the kind may be set in the bundled one's place, and the other runtime has made its
    # vectors.
    found = chosen.for_space(space) if isinstance(chosen, MiniLmEmbedder) else None
    return found or _bundled(settings, settings.embedding.model_copy(update={"model_path": None})).for_space(
        space
    )


def _same(one: Space, other: Space) -> bool:
    return (one.model, one.revision, one.dimension) == (other.model, other.revision, other.dimension)


def _bundled(settings: Settings, embedding: EmbeddingSettings) -> MiniLmEmbedder:
    from taboot_pipelines.embedding.minilm import MiniLmEmbedder

    # Asking for a vector makes no home, and leaves nothing in a copy of what one has published.
    home = settings.home_dir
    kept = settings.cache_dir is not None or (home.is_dir() and not any(home.glob("*.manifest.json")))
    return MiniLmEmbedder(
        embedding,
        cache=settings.cache / "models" if kept else None,
        read_only=not settings.caches,
    )
