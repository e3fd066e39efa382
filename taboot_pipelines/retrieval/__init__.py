"""Search, answers, neighbourhoods and explanations out of the published shards."""

from __future__ import annotations

from taboot_pipelines.retrieval.knowledge_base import KnowledgeBase
from taboot_pipelines.retrieval.results import (
    Answer,
    Citation,
    Edge,
    End,
    Explanation,
    Hit,
    Node,
    Quote,
    SearchResult,
    Subgraph,
)

__all__ = [
    "Answer",
    "Citation",
    "Edge",
    "End",
    "Explanation",
    "Hit",
    "KnowledgeBase",
    "Node",
    "Quote",
    "SearchResult",
    "Subgraph",
]
