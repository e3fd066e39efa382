"""How well sentences are read: labelled passages, and precision, recall and F1 of each relation on them.

- ``passages``: files of labelled passages, the two that come with the package among them;
- ``scoring``: what was found beside what is labelled.

``open.jsonl`` holds 528 passages beside which the rules of Tier B were written, ``kept.jsonl`` 240 that were
written and labelled apart and that no rule was made from. Both were made up for this purpose, by the guide of
``benchmarks/gold/prose``; that folder has labels of real pages too. A user labels passages of their own
documents in the same format, and names the file in ``TABOOT_EXTRACTION__GOLD``.
"""

from taboot_pipelines.extraction.quality.passages import (
    SETS,
    Labelled,
    Passage,
    own_passages,
    read_passages,
)
from taboot_pipelines.extraction.quality.scoring import ALL, Score, found_by_grammar, score

__all__ = [
    "ALL",
    "SETS",
    "Labelled",
    "Passage",
    "Score",
    "found_by_grammar",
    "own_passages",
    "read_passages",
    "score",
]
