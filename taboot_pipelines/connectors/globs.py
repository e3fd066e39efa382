"""Globs of ``include`` and ``exclude``, one language for paths and URLs.

A pattern is matched against a path of segments parted by ``/``, case-sensitively:

* ``*`` any characters of one segment, ``?`` one character, ``[abc]`` ``[a-z]`` ``[!a]`` one of a set;
* ``**`` as a whole segment: any number of segments, none included;
* a pattern without ``/`` (but a trailing one) matches at any depth, with one (or a leading one) from the
  root;
* ``dir/`` and ``dir/**`` match what lies beneath ``dir``; a last segment without wildcards (``docs/drafts``,
  ``drafts``) matches the file of that name and everything beneath the directory of that name.

So ``*.md`` is every Markdown file, ``docs/*.md`` those directly in ``docs``, ``docs/**/*.md`` those anywhere
beneath it. There is no negation: what ``exclude`` matches goes, whatever ``include`` says.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

_WILD = re.compile(r"[*?\[]")
#: A star and an ending, matched at any depth.
_ENDING = re.compile(r"\*[^*?\[/]+")
MAX_LENGTH = 1024


class Globs:
    """A set of patterns. Raises ``ValueError`` (with the position, not the text) for one that is not a
    pattern.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        texts = list(patterns)
        self._patterns = [_pattern(p, i) for i, p in enumerate(texts)]
        #: What ``*.md`` and its like say: most patterns are of that kind, and one look at a path's end is all
        #: that they need.
        self._endings = tuple(p[1:] for p in texts if _ENDING.fullmatch(p))
        self._others = [p for p, t in zip(self._patterns, texts, strict=True) if not _ENDING.fullmatch(t)]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def matches(self, path: str) -> bool:
        """Whether one of the patterns matches the file (or URL) ``path``, without a leading ``/``."""
        if path.endswith(self._endings):
            return True
        if not self._others:
            return False
        parts = path.split("/")
        return any(p.matches(parts) for p in self._others)

    def among(self, paths: Iterable[tuple[str, str]]) -> list[str]:
        """Of pairs of a file and the path that stands for it here, the files whose path :meth:`matches`."""
        endings, matches = self._endings, self.matches
        return [file for file, path in paths if path.endswith(endings) or matches(path)]

    def covers(self, directory: str) -> bool:
        """Whether everything beneath ``directory`` is matched, so that it need not be read."""
        parts = directory.split("/")
        return any(p.covers(parts) for p in self._patterns)


class UrlGlobs:
    """Patterns for canonical URLs: matched against the whole URL if they hold ``://``, against path and query
    if they begin with ``/``, else against host, path and query. Raises ``ValueError`` as :class:`Globs`."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [(p, _Pattern(p.replace("://", ":/", 1), i)) for i, p in enumerate(patterns)]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def matches(self, url: str) -> bool:
        scheme, _, rest = url.partition("://")
        whole, local, host = f"{scheme}:/{rest}".split("/"), rest.split("/")[1:], rest.split("/")
        return any(
            g.matches(whole if "://" in p else local if p.startswith("/") else host)
            for p, g in self._patterns
        )


class _Pattern:
    """One pattern as segments (None is ``**``). ``tree``: it reaches all that lies beneath what it matches;
    ``beneath``: and only that."""

    def __init__(self, text: str, index: int) -> None:
        stripped = text.strip("/")
        if not stripped or len(text) > MAX_LENGTH or "\0" in text:
            raise ValueError(
                f"pattern {index + 1} is empty, longer than {MAX_LENGTH} characters or holds a null"
            )
        if text.startswith("!"):
            raise ValueError(f"pattern {index + 1} begins with '!': there is no negation, use exclude")
        names = stripped.split("/")
        if any(n in ("", ".", "..") for n in names):
            raise ValueError(f"pattern {index + 1} holds an empty segment, '.' or '..'")
        anchored = "/" in text.rstrip("/")
        self.beneath = text.endswith("/") or (names[-1] == "**" and len(names) > 1)
        if names[-1] == "**" and len(names) > 1:
            names.pop()
        self.tree = self.beneath or names == ["**"] or not _WILD.search(names[-1])
        if not anchored:
            names.insert(0, "**")
        self.segments = [None if n == "**" else _segment(n) for n in names]

    def matches(self, parts: Sequence[str]) -> bool:
        ends = self._ends(parts)
        return (not self.beneath and len(parts) in ends) or (
            self.tree and any(0 < e < len(parts) for e in ends)
        )

    def covers(self, parts: Sequence[str]) -> bool:
        return self.tree and any(e > 0 for e in self._ends(parts))

    def _ends(self, parts: Sequence[str]) -> set[int]:
        """The lengths of the prefixes of ``parts`` that the whole pattern matches. Time is pattern by path,
        at most.
        """
        ends = {0}
        for segment in self.segments:
            if segment is None:
                ends = set(range(min(ends), len(parts) + 1)) if ends else ends
            else:
                ends = {e + 1 for e in ends if e < len(parts) and segment.fullmatch(parts[e])}
        return ends


#: Each source has the same globs as the last one of its type.
_pattern = functools.lru_cache(maxsize=1024)(_Pattern)


def _segment(name: str) -> re.Pattern[str]:
    """One segment as a regular expression. Every star but the last is atomic, so it cannot backtrack without
    end.
    """
    tokens: list[str] = []
    i = 0
    while i < len(name):
        c = name[i]
        i += 1
        if c == "*":
            if not tokens or tokens[-1] != "*":
                tokens.append("*")
        elif c == "?":
            tokens.append(".")
        elif c == "[" and (end := name.find("]", i + 1 + (name[i : i + 1] == "!"))) > 0:
            body, i = name[i:end], end + 1
            tokens.append(_set(body))
        else:
            tokens.append(re.escape(c))
    out: list[str] = []
    pending: list[str] | None = None
    for token in tokens:
        if token == "*":
            if pending is not None:
                out.append(f"(?>.*?{''.join(pending)})")
            pending = []
        else:
            (out if pending is None else pending).append(token)
    if pending is not None:
        out.append(".*" + "".join(pending))
    return re.compile("".join(out), re.DOTALL)


def _set(body: str) -> str:
    """The inside of ``[…]``: single characters and ranges, an empty range matches nothing."""
    negated = body.startswith("!")
    body = body[negated:]
    parts: list[str] = []
    i = 0
    while i < len(body):
        if i + 2 < len(body) and body[i + 1] == "-":
            low, high = body[i], body[i + 2]
            if low <= high:
                parts.append(f"{re.escape(low)}-{re.escape(high)}")
            i += 3
        else:
            parts.append(re.escape(body[i]))
            i += 1
    if not parts:
        return "." if negated else r"(?!)"
    return f"[{'^' if negated else ''}{''.join(parts)}]"
