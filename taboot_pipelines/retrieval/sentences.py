"""The sentences of passages that fit a question best, chosen without a language model.

:func:`split` finds the sentences of a passage, :func:`extract` compares them with the question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.results import Answer, Citation, Hit
from taboot_pipelines.shards.analyzer import analyze

_BOUNDARY = re.compile(r"(?<=[.!?])[)\"'”’]*\s+(?=[\"'“‘(\[]?[A-Z0-9])")
_FENCE = re.compile(r"(?m)^[ \t]*(?:```|~~~)")
_HEADING = re.compile(r"#{1,6} ")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
#: Sentences that are compared with the question by meaning: those that share most of its words.
_MAX_COMPARED = 24
#: A sentence must share this much of the question's weight in words, or be this close to it in meaning.
_MIN_COVERAGE = 0.2
_MIN_SIMILARITY = 0.45
#: A person who asks in words wants a sentence: a line of code that repeats the words scores so much of one.
_CODE_WEIGHT = 0.6
#: Sentences that score less than this much of the best one answer something else.
_MIN_SHARE_OF_BEST = 0.6
NOTHING = "Nothing in the knowledge base answers this."


class Span(NamedTuple):
    """A sentence in a text, ``[start, end)``; ``code``: it is a line of code."""

    start: int
    end: int
    code: bool


@dataclass(frozen=True, slots=True)
class _Sentence:
    """``span``: in the hit's text; ``coverage``: the share of the question's weight in words that it has."""

    hit: Hit
    span: Span
    coverage: float

    @property
    def text(self) -> str:
        return self.hit.text[self.span.start : self.span.end]


def split(text: str, content_type: str) -> list[Span]:
    """The sentences of a chunk, surrounding blanks left out.

    A chunk may hold blocks of several kinds: in code and tables every line is one, a list item with its
    continuation lines is one, and running text is cut at the ends of sentences, however its lines are
    wrapped.
    """
    plain_code = content_type == "code" and not _FENCE.search(text)
    cuts = [0, len(text)]
    code: set[int] = set()
    fenced = False
    block = ""
    at = 0
    for line in text.splitlines(keepends=True):
        kind = (
            "line"
            if plain_code or fenced or line.lstrip().startswith("|") or _HEADING.match(line)
            else "text"
        )
        if _FENCE.match(line):
            fenced, kind = not fenced, "line"
        elif kind == "text" and not line.strip():
            kind = "blank"
        elif kind == "text" and _ITEM.match(line):
            kind = "item"
        if kind != "text" or block not in ("text", "item"):
            cuts.append(at)
        if plain_code or fenced:
            code.add(at)
        block, at = kind, at + len(line)
    if not plain_code:
        cuts += [m.end() for m in _BOUNDARY.finditer(text) if text.rfind("\n", 0, m.start()) + 1 not in code]
    cuts = sorted(set(cuts))
    spans = []
    for a, b in pairwise(cuts):
        part = text[a:b]
        if part.strip():
            spans.append(Span(a + len(part) - len(part.lstrip()), a + len(part.rstrip()), code=a in code))
    return spans


def extract(
    question: str,
    hits: Sequence[Hit],
    idf: Callable[[str], float],
    embed: Callable[[list[str]], npt.NDArray[np.float32]] | None,
    vector: npt.NDArray[np.float32] | None,
    limit: int,
) -> Answer:
    """The best ``limit`` sentences of ``hits``: by the share of the question's words that they have (weighted
    by IDF) and by meaning.

    ``embed`` makes vectors of sentences and ``vector`` is the question's; where one of them is None the words
    decide alone.
    """
    wanted = {t: idf(t) for t in analyze(question)[0]}
    total = sum(wanted.values()) or 1.0
    sentences: dict[str, _Sentence] = {}
    for hit in hits:
        for span in split(hit.text, hit.content_type):
            text = hit.text[span.start : span.end]
            words = analyze(text)[0]
            shown = " ".join(text.lower().split())
            # A heading, front matter or a lone word says nothing by itself; the same sentence is cited once,
            # from its best hit.
            if text.startswith(("#", "```", "~~~", "---")) or len(text.split()) < 2 or shown in sentences:
                continue
            coverage = sum(w for t, w in wanted.items() if t in words) / total
            sentences[shown] = _Sentence(hit, span, coverage)
    ranked = sorted(sentences.values(), key=lambda s: -s.coverage)
    chosen: list[tuple[float, _Sentence]] = []
    if embed is not None and vector is not None and ranked:
        near = ranked[:_MAX_COMPARED]
        similarity = np.round(embed([s.text for s in near]).astype(np.float64) @ vector.astype(np.float64), 6)
        chosen = [
            (0.5 * s.coverage + 0.5 * float(x), s)
            for s, x in zip(near, similarity, strict=True)
            if s.coverage >= _MIN_COVERAGE or x >= _MIN_SIMILARITY
        ]
    else:
        chosen = [(s.coverage, s) for s in ranked if s.coverage >= _MIN_COVERAGE]
    weighted = [(score * (_CODE_WEIGHT if s.span.code else 1.0), s) for score, s in chosen]
    best = sorted(weighted, key=lambda c: -c[0])[:limit]
    citations = tuple(
        _cite(i, s) for i, (score, s) in enumerate(best, 1) if score >= _MIN_SHARE_OF_BEST * best[0][0]
    )
    text = " ".join(f"{c.text} [{c.number}]" for c in citations) or NOTHING
    return Answer(question=question, found=bool(citations), text=text, citations=citations)


def _cite(number: int, s: _Sentence) -> Citation:
    line = None if s.hit.line is None else s.hit.line + s.hit.text.count("\n", 0, s.span.start)
    return Citation(
        number=number,
        text=" ".join(s.text.split()),
        doc_id=s.hit.doc_id,
        chunk_id=s.hit.chunk_id,
        url=s.hit.url,
        title=s.hit.title,
        line=line,
        start=s.hit.start + s.span.start,
        end=s.hit.start + s.span.end,
    )
