"""Answers: from facts, which are the graph's edges and the values of configuration files, else out of text.

For facts a question passes through these modules, one after the other:

1. ``linking`` finds the names in it and the things that they may mean, in the ``house``: the graph of a view
   indexed for questions, with the texts of its configuration documents.
2. ``reading`` reads the question, for text too: the kind of value, a yes or no, a count, a list. ``question``
   says which kinds of fact it may ask for, by the tables of ``vocabulary`` (``kinds.txt``, the words of
   ``filler.txt`` and ``asking.txt``).
3. ``scoping`` narrows names by each other ("the db of household") and by what a service declares
   (``describing``); ``compounds`` takes several words as one name ("the household db").
4. ``facts`` says it out of edges, by ``ports``, ``images``, ``networks``, ``dependencies``, ``routes``,
   ``exposure`` (what can be reached from where) and ``inventory``, which share ``topic`` and ``statements``;
   ``holders`` says which services have a property of their declaration (``traits``).
5. ``config`` says it out of a file's value: ``config_files`` reads the formats, ``belongings`` says whose a
   value is, ``config_values`` chooses among the values (``properties.txt``), ``nearest`` does where none
   shares its words with the question, ``timing`` where it says when something acts, ``phrases`` puts it into
   words.
6. ``answerer`` takes what leaves the fewest words unexplained, or says what was looked for. It is the one
   entry, :func:`answer_from_facts`; ``cited`` makes an ``Answer`` of it.

Answers out of text, and what they share with those from facts:

- ``parts``: what asks several things taken apart, and ``joining`` the answers put together; ``nearness``: how
  near texts are to a question in meaning;
- ``asking``: the words of a question and how much they say; ``values``: the kinds of value and how each is
  told; ``words``: stems and synonyms; ``ownership``: which sources speak of the house;
- ``documents``: documents as statements (``retrieval.sentences``); ``passages``: the statements about what is
  asked, best first; ``choosing``: those that make the answer; ``confidence``: how sure it is;
- ``steps``: what ordered lists say; ``tables``: the cell that is asked for, and comparisons of a column;
- ``synthesis``: a model's words, checked against what they cite; ``replays``: what is kept of answers.
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
