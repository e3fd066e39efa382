"""The knowledge base as a retriever of LangChain and of LlamaIndex, by what these call of one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

QUESTION = "which room has the lantern of the north tower?"


@pytest.fixture
def kb(tmp_path: Path, tei: FakeTei) -> KnowledgeBase:
    world = World(tmp_path, tei.url)
    for source in ("notes", "others"):
        folder = world.source(source)
        for n in range(6):
            (folder / f"{n}.md").write_text(f"# Room {n}\n\nThe lantern of {source} hangs in room {n}.\n")
    world.ingest()
    return world.kb()


def test_langchain(kb: KnowledgeBase) -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    from taboot_pipelines.retrievers.langchain import TabootRetriever

    retriever = TabootRetriever(kb=kb, limit=3, options={"source": "notes"})
    wanted = kb.search(QUESTION, 3, source="notes").hits
    found = retriever.invoke(QUESTION)
    assert [(d.id, d.page_content) for d in found] == [(h.chunk_id, h.text) for h in wanted]
    assert found[0].metadata["url"] == wanted[0].url and found[0].metadata["line"] == wanted[0].line
    assert {d.metadata["source"] for d in found} == {"notes"} and "text" not in found[0].metadata
    assert asyncio.run(retriever.ainvoke(QUESTION)) == found == retriever.batch([QUESTION])[0]
    asking = {"found": retriever, "question": RunnablePassthrough()} | ChatPromptTemplate.from_template(
        "{question} {found}"
    )
    assert wanted[0].text.splitlines()[-1] in asking.invoke(QUESTION).to_string()
    with pytest.raises(TabootError, match="E_QUERY"):
        TabootRetriever(kb=kb, options={"mode": "none"}).invoke(QUESTION)


def test_llama_index(kb: KnowledgeBase) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.schema import MetadataMode

    from taboot_pipelines.retrievers.llama_index import TabootRetriever

    retriever = TabootRetriever(kb, 3, source="notes", expand=1)
    wanted = kb.search(QUESTION, 3, source="notes", expand=1).hits
    found = retriever.retrieve(QUESTION)
    assert [(n.node_id, n.get_content(), n.score) for n in found] == [
        (h.chunk_id, h.expanded, h.score) for h in wanted
    ]
    assert found[0].node.get_content(MetadataMode.LLM) == wanted[0].expanded
    assert found[0].metadata["url"] == wanted[0].url
    assert [n.node_id for n in asyncio.run(retriever.aretrieve(QUESTION))] == [n.node_id for n in found]
    answered = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(QUESTION)
    assert wanted[0].expanded in str(answered)
    assert [n.node_id for n in answered.source_nodes] == [n.node_id for n in found]
