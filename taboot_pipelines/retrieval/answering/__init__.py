"""Answers from facts: the graph's edges and the values of configuration files.

- ``house``: the graph of a view indexed for questions, and the texts of configuration documents;
- ``linking``: names in a question to the things they may mean; ``vocabulary``: the words of asking, as tables;
- ``question``: what is asked; ``facts``: sentences out of edges; ``config_files`` and ``config``: values with
  their key path; ``answerer``: the one entry, :func:`answer_from_facts`; ``cited``: the same as an ``Answer``.
"""

from __future__ import annotations

from taboot_pipelines.retrieval.answering.answerer import (
    FactAnswer,
    FactCitation,
    FactSentence,
    answer_from_facts,
)
from taboot_pipelines.retrieval.answering.cited import fact_answer

__all__ = ["FactAnswer", "FactCitation", "FactSentence", "answer_from_facts", "fact_answer"]
