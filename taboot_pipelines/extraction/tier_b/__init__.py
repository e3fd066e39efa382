"""Tier B: what sentences and items of running text state, by a small model over pairs of names.

The names, the candidate pairs and their features are those of ``tier_a.prose``, whose reader takes what the
structure of a text says (tables, arrows, ``key: value``). ``extractor`` reads documents, in one process or
several. What a sentence denies, supposes, asks, orders or gives as an example weighs against every candidate
of it. Names are those of the text: which declared service is meant is decided by the reducer.
"""

from taboot_pipelines.extraction.tier_b.extractor import MODEL, VERSION, Prose, grammar_version, read_all

__all__ = ["MODEL", "VERSION", "Prose", "grammar_version", "read_all"]
