"""Where the words of a query stand in the text of a hit."""

from __future__ import annotations

import re
from functools import lru_cache

from taboot_pipelines.shards.analyzer import analyze, stem_of

#: A run of words as the analyzer joins compounds, on text that is not normalized: marks that combine with a
#: letter belong to its word. Nothing that was matched is given back, so it is looked at once.
_WORD = r"[^\W_]++(?:[\u0300-\u036f]++[^\W_]*+)*+"
_RUN = re.compile(rf"{_WORD}(?:[-._:/@]{_WORD})*+")
_PART = re.compile(_WORD)


class Highlighter:
    """Where the words of a query stand in texts. ``terms``: the analyzer's, of the query. For one thread."""

    def __init__(self, terms: frozenset[str]) -> None:
        self._terms = terms
        #: Whether a run has one of the terms. The same words come again in hit after hit.
        self._known: dict[str, bool] = {}

    def ranges(self, text: str) -> tuple[tuple[int, int], ...]:
        """The ranges ``[start, end)`` of ``text``, in code points, ascending and apart, whose words have one
        of the terms. A compound that is a term is one range; else those of its parts that are.
        """
        known, terms = self._known, self._terms
        found: list[tuple[int, int]] = []
        for run in _RUN.finditer(text):
            whole = run[0]
            having = known.get(whole)
            if having is None:
                having = known[whole] = _has(whole, terms)
            if not having:
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
    """What a :class:`Highlighter` looks for: the analyzer's terms of a query."""
    return frozenset(analyze(query)[0])
