"""Rerankers: cross-encoders that say how well texts answer a query.

The protocol is in ``protocol``. The backends are ``tei`` (a server of Text Embeddings Inference) and
``torch`` (a model in this process). What is done with the scores is for ``retrieval``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.inference.rerank.protocol import Reranker
    from taboot_pipelines.stores.state.circuit import Circuit


def open_reranker(settings: Settings, circuit: Circuit | None = None) -> Reranker | None:
    """Open the reranker that the settings name; None where they name none. Nothing is loaded or asked yet.

    Raises ``E_CONFIG`` where they name two.
    """
    given = settings.reranker
    if given.url and given.torch.model:
        raise TabootError(
            "E_CONFIG",
            "TABOOT_RERANKER__URL and TABOOT_RERANKER__TORCH__MODEL are both set.",
            remedy="Unset one of them.",
            settings=["TABOOT_RERANKER__URL", "TABOOT_RERANKER__TORCH__MODEL"],
        )
    if given.url:
        from taboot_pipelines.inference.rerank.tei import TeiReranker

        return TeiReranker(given, circuit=circuit)
    if given.torch.model:
        from taboot_pipelines.inference.rerank.torch import TorchReranker

        return TorchReranker(given.torch)
    return None
