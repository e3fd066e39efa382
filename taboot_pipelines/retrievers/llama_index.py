"""The knowledge base as a retriever of LlamaIndex (extra ``llama-index``)."""

from __future__ import annotations

from typing import Unpack

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.request import SearchOptions


class TabootRetriever(BaseRetriever):
    """The best ``limit`` hits of a query as nodes with their scores, best first. ``options``: further
    arguments of ``KnowledgeBase.search``, such as filters and ``mode``.

    A node's text is the hit's with the context that was asked for (``expand``), its id the chunk's, and its
    metadata every other field of the hit that has a value; none of it is put into prompts or embedded.
    """

    def __init__(self, kb: KnowledgeBase, limit: int = 4, **options: Unpack[SearchOptions]) -> None:
        super().__init__()
        self._kb = kb
        self._limit = limit
        self._options = options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._kb.search(query_bundle.query_str, self._limit, **self._options)
        nodes = []
        for hit in found.hits:
            told = hit.metadata
            hidden = {"excluded_llm_metadata_keys": list(told), "excluded_embed_metadata_keys": list(told)}
            node = TextNode(id_=hit.chunk_id, text=hit.expanded, metadata=told, **hidden)
            nodes.append(NodeWithScore(node=node, score=hit.score))
        return nodes
