"""Search, answers, neighbourhoods and explanations out of the published shards.

What belongs here: everything between a question and its result, for one namespace, read from the manifest
that is in force. What does not: how shards are built and read (``shards``), what the graph is made of
(``knowledge.graph``), talking to Qdrant, Neo4j and models (``stores``, ``embedding``, ``inference``), and
changing anything (``stages``; ``writing`` only calls them). No question opens the catalog or imports Dagster.

``knowledge_base`` is the door: ``KnowledgeBase`` has a method for each question and leaves it to a module:

- ``search``: passages; ``answers``: what answers a question, each sentence with its citation, or nothing;
- ``neighborhoods``: what surrounds a node; ``explanations``: the bytes behind an edge or a hit;
- ``tables``: all documents, nodes and edges; ``writing``: delete and restore.

A search passes through these modules, one after the other:

1. ``request`` checks the arguments and fills in defaults, ``filters`` reads those that limit the documents.
2. ``session`` looks for a new manifest and pins it as a ``View``: the query sees this one to its end, and is
   made once more if a file has gone meanwhile. The view has the manifest's readers: ``index`` (its chunks as
   numbered rows), ``bm25.Keywords`` and ``graph``.
3. ``query_vectors`` embeds the query, through ``query_cache`` where Redis and TEI are configured.
4. ``index`` says which rows pass the filter, and of equal texts which row stands for all.
5. ``ranking`` asks every arm for its best rows: ``vectors`` by meaning, ``bm25`` by words. Where Qdrant is
   configured, ``candidates`` first narrows the rows, provably without loss.
6. ``fusion`` joins the arms by their ranks. How scores are rounded and ties broken is said there, once for
   the arms and the fusion, so that no backend changes a result.
7. ``search`` makes the hits (``results``); ``reranking`` orders the best anew where a reranker is configured.

Answers go on with the hits: ``sentences`` reads what their documents state, the modules of ``answering`` find
the statements about what is asked and say how sure that is, ``evidence`` finds the line of a sentence of HTML
in the blob. Neighbourhoods are walked in ``graph``, on the edges that ``graph_server`` names where Neo4j is
configured. Explanations read blobs through ``evidence``. Results draw themselves in notebooks by
``rendering``. What is costly to open is made when it is first asked for (``once``).
"""

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
    Replay,
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
    "Replay",
    "SearchResult",
    "Subgraph",
]
