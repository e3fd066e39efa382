"""The knowledge base as a retriever of LangChain (extra ``langchain``)."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from taboot_pipelines.retrieval import KnowledgeBase


class TabootRetriever(BaseRetriever):
    """The best ``limit`` hits of a query as documents, best first. ``options``: further arguments of
    ``KnowledgeBase.search``, such as filters and ``mode``.

    A document's text is the hit's with the context that was asked for (``expand``), its id the chunk's, and
    its metadata every other field of the hit that has a value.
    """

    kb: KnowledgeBase
    limit: int = 4
    options: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = self.kb.search(query, self.limit, **self.options)
        return [Document(id=h.chunk_id, page_content=h.expanded, metadata=h.metadata) for h in found.hits]
