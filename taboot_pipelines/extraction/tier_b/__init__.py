"""Tier B: what sentences of running text assert, by grammar and a lexicon; deterministic.

- ``blocks``: paragraphs and list items of Markdown as plain text that knows where it stands;
- ``language``: their sentences with grammar (spaCy), names merged into single words;
- ``names``: what a noun phrase names, and what an address says;
- ``modality``: whether a sentence says that something is so;
- ``clauses``: what stands where in a clause; ``frames``: what verbs say of two things (``frames.txt``);
- ``addresses``, ``ports`` (both on ``reached``), ``published``, ``records``: where something is reached or
  listens, published ports, DNS records;
- ``relations``: all of that for one sentence; ``lexicon``: the words that they know;
- ``promising``: which paragraphs are worth parsing;
- ``claims``: triples as claims of the graph model;
- ``extractor``: all of it for documents, in one process or several.

What a sentence denies, supposes, asks, recommends or gives as an example is not asserted. Names are those of
the text: which declared service is meant is decided by the reducer.
"""

from taboot_pipelines.extraction.tier_b.extractor import VERSION, Prose, assertions, grammar_version, read_all
from taboot_pipelines.extraction.tier_b.language import MODEL

__all__ = ["MODEL", "VERSION", "Prose", "assertions", "grammar_version", "read_all"]
