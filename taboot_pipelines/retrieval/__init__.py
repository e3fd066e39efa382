"""Search, answers, neighbourhoods and explanations out of the published shards.

What belongs here: everything between a question and its result, for one namespace, read from the manifest
that is in force. What does not: how shards are built and read (``shards``), what the graph is made of
(``knowledge.graph``), talking to Qdrant, Neo4j and models (``stores``, ``embedding``, ``inference``), and
changing anything (``stages``; ``writing`` only calls them). No question opens the catalog or imports Dagster;
``crawls`` and ``states`` alone read the catalog, since what goes on is to be seen as well (a typed query asks
``states`` which files could not be read).

``knowledge_base`` is the door: ``KnowledgeBase`` has a method for each question and leaves it to a module:

- ``search``: passages; ``answers``: what answers a question, out of facts (edges of the graph and values of
  configuration files) or text, each sentence with its citation, or nothing (``answering``);
  ``evaluation``: how many questions are answered rightly, of people who know the answers;
- ``queries``: typed queries, which programs ask by name; what they read, the index of services, the relations
  and the settings of files, is what ``answering`` reads too;
- ``neighborhoods``: what surrounds a node; ``links``: what a document links to, and what to it;
- ``explanations``: the bytes behind an edge or a hit; ``evidence``: a whole document beside its bytes;
- ``tables``: all documents, nodes and edges; ``crawls``: what was crawled; ``states``: how the
  sources are; ``writing``: delete and restore; ``decisions``: what people decide.

A search passes through these modules, one after the other:

1. ``request`` checks the arguments and fills in defaults, ``filters`` reads those that limit the documents.
2. ``session`` looks for a new manifest and pins it as a ``View``: the query sees this one to its end, and is
   made once more if a file has gone meanwhile. The view has the manifest's readers: ``index`` (its chunks as
   numbered rows), ``bm25.Keywords``, ``graph`` (nodes and edges) and ``links`` (documents that link). A later
   page names the view of the first (``pages.Cursor``).
3. ``search`` asks ``caches`` for the result. What is not there ``pages`` makes:
4. ``query_vectors`` embeds the query, or has it from its cache.
5. ``index`` says which rows pass the filter, and of equal texts which row stands for all.
6. ``ranking`` asks every arm for its best rows: ``vectors`` by meaning (``fast_scan`` names those of many
   that are worth a look), ``bm25`` by words (stems and words as they are written, of chunks and of whole
   documents). Where Qdrant is configured, ``candidates`` first narrows the rows.
7. ``fusion`` joins the arms, by ranks and scores, with weights that each query decides. How scores are
   rounded and ties broken is said there, once for the arms and the fusion, so that no backend changes a
   result.
8. ``pages`` cuts the page, without near duplicates if they are not wanted, and makes what is shown of it
   (``results``), with ``snippets``; ``reranking`` orders the best anew where one is configured. Where links
   are followed, ``graph_ranking`` ranks by a walk over ``graph_walk``; ``second_hop`` adds what the first
   hits lead to.

``why_not`` searches in every mode, and follows a document through these steps; ``search`` shows and clears
the caches.

Answers go on with the hits: ``sentences`` reads what their documents state, the modules of ``answering``
find the statements about what is asked and say how sure that is, ``evidence`` finds the line of a sentence
of HTML in the blob. Neighbourhoods are walked in ``graph``, on the edges that Neo4j names where it is
configured. Explanations read blobs through ``evidence``. In notebooks results are tables by ``rendering``
and ``pictures`` of graphs; ``verbalization`` says edges in words. What is costly to open is made when it is
first asked for (``lazy``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taboot_pipelines.retrieval.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.answers import Answer, Citation, Replay
    from taboot_pipelines.retrieval.results.evaluations import Evaluation
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
    from taboot_pipelines.retrieval.results.inspection import Comparison, WhyNot
    from taboot_pipelines.retrieval.search import CacheStats

__all__ = [
    "Answer",
    "CacheStats",
    "Citation",
    "Comparison",
    "DocumentLinks",
    "Edge",
    "End",
    "Evaluation",
    "Explanation",
    "GraphPath",
    "Hit",
    "KnowledgeBase",
    "Link",
    "Node",
    "Quote",
    "Replay",
    "SearchResult",
    "Step",
    "Subgraph",
    "WhyNot",
]

#: Where the results are that a caller may want to name; each is loaded when it is.
_RESULTS = {
    "Answer": "results.answers",
    "CacheStats": "search",
    "Citation": "results.answers",
    "Comparison": "results.inspection",
    "DocumentLinks": "results.graph",
    "Edge": "results.graph",
    "End": "results.explanations",
    "Evaluation": "results.evaluations",
    "Explanation": "results.explanations",
    "GraphPath": "results.graph",
    "Hit": "results.hits",
    "Link": "results.graph",
    "Node": "results.graph",
    "Quote": "results.explanations",
    "Replay": "results.answers",
    "SearchResult": "results.hits",
    "Step": "results.graph",
    "Subgraph": "results.graph",
    "WhyNot": "results.inspection",
}


def __getattr__(name: str) -> Any:
    if name not in _RESULTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_RESULTS[name]}"), name)
