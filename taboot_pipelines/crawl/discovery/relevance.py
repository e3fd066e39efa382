"""How much a URL promises of what somebody looks for, from what can be seen without reading the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r'"([^"]*)"|(\S+)')
MAX_KEYWORDS = 100
#: What a keyword shown by the URL is worth beside one shown by a title, and one whose words stand apart.
_IN_URL, _APART = 0.8, 0.5


class Relevance:
    """Scores from 0 to 1: the mean over the keywords of what shows each.

    A keyword of several words shows fully (1) where they stand next to each other, in their order, in the
    text (a link's, an entry's title), less (0.8) where they do in the path or query of the URL, and half of
    that where they stand there apart. Words are runs of letters and digits, compared without case, and a URL
    is read without its escapes. Without keywords everything scores 1.
    """

    def __init__(self, keywords: Sequence[str]) -> None:
        words = (tuple(_words(k)) for k in keywords[:MAX_KEYWORDS])
        self._keywords = [k for k in words if k]

    def __bool__(self) -> bool:
        return bool(self._keywords)

    def score(self, url: str, text: str = "") -> float:
        """The score of an absolute URL with what is known of it in words, rounded to 1e-6."""
        if not self._keywords:
            return 1.0
        label = _words(text)
        place = _words(unquote(url.partition("://")[2].partition("/")[2]))
        best = (max(_shows(k, label), _IN_URL * _shows(k, place)) for k in self._keywords)
        return round(sum(best) / len(self._keywords), 6)


def keywords_of(query: str) -> list[str]:
    """The keywords of a query as a person types it: its words, what stands in quotes as one."""
    return [found for quoted, word in _QUOTED.findall(query) if (found := quoted or word)]


def _shows(keyword: tuple[str, ...], words: list[str]) -> float:
    if not set(keyword) <= set(words):
        return 0.0
    n = len(keyword)
    together = n == 1 or any(tuple(words[i : i + n]) == keyword for i in range(len(words) - n + 1))
    return 1.0 if together else _APART


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
