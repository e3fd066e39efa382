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


Ranges = tuple[tuple[int, int], ...]


class Highlighter:
    """Where the words of a query stand in texts. ``terms``: the analyzer's, of the query. For one thread."""

    def __init__(self, terms: frozenset[str]) -> None:
        self._terms = terms
        # The same runs come again in hit after hit, and each is looked at once.
        self._plain: set[str] = set()
        self._marked: dict[str, Ranges] = {}

    def ranges(self, text: str) -> Ranges:
        """The ranges ``[start, end)`` of ``text``, in code points, ascending and apart, whose words have one
        of the terms. A compound that is a term is one range; else those of its parts that are.
        """
        runs = _RUN.findall(text)
        terms, marked = self._terms, self._marked
        fresh = set(runs).difference(self._plain, marked)
        for run in fresh:
            if not (run.isascii() and run.isalnum()):
                if own := _ranges_of(run, terms):
                    marked[run] = own
            elif stem_of(run.lower()) in terms:
                marked[run] = ((0, len(run)),)
        self._plain |= fresh - marked.keys()
        found: list[tuple[int, int]] = []
        at = 0
        for run in runs if not marked.keys().isdisjoint(runs) else ():
            # Nothing that a run begins with stands between two runs, so the next one is found where it is.
            at = text.find(run, at)
            if run in marked:
                found += [(at + start, at + end) for start, end in marked[run]]
            at += len(run)
        return tuple(found)


def _ranges_of(run: str, terms: frozenset[str]) -> Ranges:
    """The ranges of one run that have one of the terms."""
    own = _terms(run)
    if own.isdisjoint(terms):
        return ()
    parts = list(_PART.finditer(run))
    # What the whole has and none of its parts: the compound itself.
    by_itself = own - {term for p in parts for term in _terms(p.group())}
    if len(parts) == 1 or not by_itself.isdisjoint(terms):
        return ((0, len(run)),)
    return tuple(p.span() for p in parts if not _terms(p.group()).isdisjoint(terms))


@lru_cache(maxsize=1 << 14)
def _terms(run: str) -> frozenset[str]:
    """The analyzer's terms of one run. The same words come again in hit after hit."""
    return frozenset(analyze(run)[0])


def terms_of(query: str) -> frozenset[str]:
    """What a :class:`Highlighter` looks for: the analyzer's terms of a query."""
    return frozenset(analyze(query)[0])
