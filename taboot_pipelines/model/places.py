"""Where in a document's URL its passages are, such as the second of a video at which words are said."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import orjson

#: The field of a document's metadata that holds them.
PLACES = "places"
_QUERY = re.compile(r"[A-Za-z0-9_.~-]{1,40}=[A-Za-z0-9_.~-]{0,40}\{\}[A-Za-z0-9_.~-]{0,40}")


@dataclass(frozen=True, slots=True)
class Places:
    """From ``starts[i]`` (code points, ascending) to the next one, a document is where ``query`` with
    ``values[i]`` in place of its ``{}`` leads to, as a part of the URL's query. Before ``starts[0]`` it has
    no place of its own.
    """

    query: str
    starts: tuple[int, ...]
    values: tuple[int, ...]

    @classmethod
    def of(cls, query: str, places: Iterable[tuple[int, int]]) -> Places:
        """From (start, value) in order, of which those that repeat the value before are left out."""
        kept: list[tuple[int, int]] = []
        for start, value in places:
            if not kept or kept[-1][1] != value:
                kept.append((start, value))
        return cls(query, tuple(s for s, _ in kept), tuple(v for _, v in kept))

    def stored(self) -> dict[str, Any]:
        """For the metadata: the first start and value, then what each is more than the one before."""
        columns = ([b - a for a, b in pairwise((0, *column))] for column in (self.starts, self.values))
        return {"query": self.query, **dict(zip(("starts", "values"), columns, strict=True))}

    def nearest(self, start: int, marks: Iterable[tuple[int, str]]) -> int:
        """Where in a passage that begins at ``start`` to lead: to the place that has the most of the words
        ``marks`` (position, word), together with the next place, since words that belong together may be
        parted; to ``start`` where no place has as many as what lies before all of them.
        """
        found: dict[int, set[str]] = {}
        for position, word in marks:
            found.setdefault(bisect_right(self.starts, position) - 1, set()).add(word)
        before = len(found.pop(-1, ()))
        if not found:
            return start
        # Of two places that join the same words, the one with more of them itself, else the first.
        best = max(found, key=lambda n: (len(found[n] | found.get(n + 1, set())), len(found[n]), -n))
        return (
            max(start, self.starts[best])
            if len(found[best] | found.get(best + 1, set())) >= before
            else start
        )

    def url(self, url: str, position: int) -> str:
        """The URL of the passage that begins at ``position``; only URLs of the web have places."""
        at = bisect_right(self.starts, position) - 1
        if at < 0 or not url.startswith(("https://", "http://")):
            return url
        base, mark, fragment = url.partition("#")
        joint = "&" if "?" in base else "?"
        return f"{base}{joint}{self.query.replace('{}', str(self.values[at]))}{mark}{fragment}"

    def leads_into(self, asked: str, url: str) -> bool:
        """Whether ``asked`` is the URL of a passage of the document at ``url``, or between two of them."""
        base, mark, fragment = url.partition("#")
        joint = "&" if "?" in base else "?"
        before, _, after = self.query.partition("{}")
        start, end = f"{base}{joint}{before}", f"{after}{mark}{fragment}"
        value = asked[len(start) : len(asked) - len(end)]
        return asked == f"{start}{value}{end}" and value.isascii() and value.isdigit()


def stored_places(metadata: str) -> str | None:
    """The places in a document's metadata (JSON), as JSON; None where it has none."""
    if f'"{PLACES}"' not in metadata:
        return None
    found = orjson.loads(metadata).get(PLACES)
    return None if found is None else orjson.dumps(found).decode()


def read_places(stored: str) -> Places | None:
    """The places that :func:`stored_places` gave; None for what is none."""
    found = orjson.loads(stored)
    if not isinstance(found, Mapping) or not _QUERY.fullmatch(str(found.get("query"))):
        return None
    starts, values = (tuple(accumulate(found.get(name, ()))) for name in ("starts", "values"))
    return Places(str(found["query"]), starts, values) if len(starts) == len(values) else None
