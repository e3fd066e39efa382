"""Where the words of a query stand in the text of a hit."""

from __future__ import annotations

import re
from functools import lru_cache

from taboot_pipelines.shards.analyzer import analyze, stem_of

#: A run of words as the analyzer joins compounds, on text that is not normalized: marks that combine with a
#: letter belong to its word.
_WORD = r"[^\W_](?:[^\W_]|[\u0300-\u036f])*"
_RUN = re.compile(rf"{_WORD}(?:[-._:/@]{_WORD})*")
_PART = re.compile(_WORD)


def highlights(text: str, terms: frozenset[str]) -> tuple[tuple[int, int], ...]:
    """The ranges ``[start, end)`` of ``text``, in code points, ascending and apart, whose words have one of
    the analyzer's ``terms``. A compound that is a term is one range; else those of its parts that are.
    """
    # Most words of a text are none of the query's: each different one is looked at once, and places are
    # asked for only where there is one.
    having = {run for run in set(_RUN.findall(text)) if _has(run, terms)}
    found: list[tuple[int, int]] = []
    for run in _RUN.finditer(text) if having else ():
        whole = run.group()
        if whole not in having:
            continue
        own = _terms(whole)
        parts = list(_PART.finditer(text, run.start(), run.end()))
        matching = [p.span() for p in parts if not _terms(p.group()).isdisjoint(terms)]
        # What the whole has and none of its parts: the compound itself.
        by_itself = own - {term for p in parts for term in _terms(p.group())}
        found += [run.span()] if len(parts) == 1 or not by_itself.isdisjoint(terms) else matching
    return tuple(found)


def _has(run: str, terms: frozenset[str]) -> bool:
    """Whether one of the analyzer's terms of a run is among ``terms``."""
    if run.isascii() and run.isalnum():
        return stem_of(run.lower()) in terms
    return not _terms(run).isdisjoint(terms)


@lru_cache(maxsize=1 << 14)
def _terms(run: str) -> frozenset[str]:
    """The analyzer's terms of one run. The same words come again in hit after hit."""
    return frozenset(analyze(run)[0])


def terms_of(query: str) -> frozenset[str]:
    """What :func:`highlights` looks for: the analyzer's terms of a query."""
    return frozenset(analyze(query)[0])
