"""Results of every kind in which each text is one that a document could hold."""

from __future__ import annotations

from typing import Any

from taboot_pipelines.retrieval.results.answers import Answer, Citation, Replay
from taboot_pipelines.retrieval.results.drift import DriftItem, DriftReport, DriftSide
from taboot_pipelines.retrieval.results.explanations import End, Explanation, Quote
from taboot_pipelines.retrieval.results.graph import (
    DocumentLinks,
    Edge,
    GraphPath,
    Link,
    Node,
    Step,
    Subgraph,
)
from taboot_pipelines.retrieval.results.hits import Hit, SearchResult
from taboot_pipelines.retrieval.results.inspection import Compared, Comparison
from taboot_pipelines.retrieval.snippets import terms_of


def node(text: str, key: str, label: str = "Service") -> Node:
    return Node(label=label, key=key, name=text, scope=text, properties={"note": text})


def edge(text: str, start: str, end: str, n: int = 0) -> Edge:
    return Edge(
        edge_id=f"e{n}",
        type="BINDS",
        start_label="Service",
        start_key=start,
        start_name=text,
        end_label="Service",
        end_key=end,
        end_name=text,
        properties={"port": text, "protocol": text, text: text},
        doc_id="d",
        url=text,
        line=n,
        confidence=1.0,
        source=text,
        hop=1,
    )


def subgraph(text: str) -> Subgraph:
    nodes = (node(text, "a"), node(text, "b"), node(text, "c", label="Host"))
    return Subgraph(start=nodes[:1], nodes=nodes, edges=(edge(text, "a", "b"), edge(text, "b", "a", 1)))


def path(text: str) -> GraphPath:
    step: dict[str, Any] = {"start_name": text, "end_name": text, "properties": {"x": text}, "url": text}
    return GraphPath(
        steps=(
            Step(
                type=text,
                forward=False,
                start_label="Service",
                start_key="a",
                end_label=text,
                end_key="b",
                **step,
            ),
        )
    )


def hit(text: str, n: int = 0) -> Hit:
    return Hit(
        doc_id="d",
        chunk_id=f"d:{n}",
        url=text,
        title=text,
        text=text * 20,
        score=0.5,
        scores={},
        start=0,
        end=1,
        line=None,
        section=text,
        content_type="text/markdown",
        source=text,
        source_type="files",
        tags=(text,),
        language="en",
        terms=terms_of(text),
    )


def results(text: str) -> list[Any]:
    """One of each kind that shows texts of documents."""
    link = Link(
        kind="hyperlink",
        target=text,
        title=text,
        url=text,
        fragment=text,
        text=text,
        section=text,
        line=None,
        start=0,
        end=1,
        count=1,
    )
    cited = Citation(
        number=1,
        text=text,
        doc_id="d",
        chunk_id="d:0",
        url=text,
        title=text,
        line=None,
        start=0,
        end=1,
        section=text,
    )
    quote = Quote(
        text=text * 40,
        url=text,
        line=None,
        line_end=None,
        blob_sha256="0",
        byte_start=0,
        byte_end=1,
        section=text,
    )
    end = End(role="start", label=text, key="k", name=text, observed=text, basis=text, rule=text)
    return [
        subgraph(text),
        path(text),
        DocumentLinks(
            doc_id="d", title=text, url=text, outgoing=(link,), incoming=(link,), unresolved=(link,)
        ),
        SearchResult(query=text, mode="hybrid", hits=(hit(text),), notes=(text,)),
        Comparison(
            query=text,
            modes=("keyword",),
            rows=(
                Compared(
                    chunk_id="d:0",
                    doc_id="d",
                    url=text,
                    title=text,
                    text=text * 9,
                    line=None,
                    ranks={"keyword": 1},
                    scores={"keyword": 1.0},
                ),
            ),
            latency_ms={},
        ),
        Answer(question=text, found=True, text=text, citations=(cited,), kind="text", notes=(text,)),
        Replay(answer_id="a", question=text, version=1, parameters={}, hits=(hit(text),)),
        DriftReport(
            items=(
                DriftItem(
                    kind=text,
                    label=text,
                    key="k",
                    name=text,
                    statement=text,
                    sides=(DriftSide(says=text, edge_ids=("e",), doc_id="d", url=text, line=0, quote=quote),),
                ),
            )
        ),
        Explanation(kind="edge", id="e", statement=text, doc_id="d", url=text, quotes=(quote,), ends=(end,)),
    ]
