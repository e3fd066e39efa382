"""Which titles say so little that texts hold them without meaning a document."""

from __future__ import annotations

from taboot_pipelines.knowledge.titles import UNSPACED, words
from taboot_pipelines.shards.analyzer import STOP_WORDS


def is_common(title: str) -> bool:
    """Whether a title, in the normal form, counts only where it is rare: a single word or compound, but for
    words that say nothing. In scripts without blanks each letter is a word.
    """
    said = 0
    for part in title.split():
        found = [word for word in words(part) if word not in STOP_WORDS]
        said += len(found) if UNSPACED.search(part) else bool(found)
    return said <= 1
