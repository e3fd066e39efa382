"""Answers without a language model: the sentences that fit a question best, each where it was found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.results import Answer, Citation, Hit
from taboot_pipelines.shards.analyzer import analyze

_BOUNDARY = re.compile(r"(?<=[.!?])[)\"'”’]*\s+(?=[\"'“‘(\[]?[A-Z0-9])")
_FENCE = re.compile(r"(?m)^\s*(?:```|~~~)")
_HEADING = re.compile(r"#{1,6} ")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
#: Sentences that are compared with the question by meaning, after the words have sorted out the rest.
_COMPARED = 24
#: A sentence must share this much of the question's weight in words, or be this close to it in meaning.
_LEAST_COVERAGE = 0.2
_LEAST_SIMILARITY = 0.45
_CODE = 0.6
_FAR = 0.6
NOTHING = "Nothing in the knowledge base answers this."


@dataclass(frozen=True, slots=True)
class _Sentence:
    hit: Hit
    start: int  # in the hit's text
    end: int
    code: bool
    coverage: float

    @property
    def text(self) -> str:
        return self.hit.text[self.start : self.end]


def split(text: str, content_type: str) -> list[tuple[int, int, bool]]:
    """Spans of the sentences of a chunk, surrounding blanks left out, and whether one is a line of code.

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
            spans.append((a + len(part) - len(part.lstrip()), a + len(part.rstrip()), a in code))
    return spans


def extract(
    question: str,
    hits: Sequence[Hit],
    idf: Callable[[str], float],
    embed: Callable[[list[str]], npt.NDArray[np.float32]] | None,
    vector: npt.NDArray[np.float32] | None,
    limit: int,
) -> Answer:
    """The best ``limit`` sentences of ``hits``: by the share of the question's words (weighted by IDF) and by
    meaning.
    """
    wanted = {t: idf(t) for t in analyze(question)[0]}
    total = sum(wanted.values()) or 1.0
    sentences: dict[str, _Sentence] = {}
    for hit in hits:
        for start, end, code in split(hit.text, hit.content_type):
            text = hit.text[start:end]
            words = analyze(text)[0]
            shown = " ".join(text.lower().split())
            # A heading, front matter or a lone word says nothing by itself; the same sentence is cited once,
            # from its best hit.
            if text.startswith(("#", "```", "~~~", "---")) or len(text.split()) < 2 or shown in sentences:
                continue
            sentences[shown] = _Sentence(
                hit, start, end, code, sum(w for t, w in wanted.items() if t in words) / total
            )
    ranked = sorted(sentences.values(), key=lambda s: -s.coverage)
    chosen: list[tuple[float, _Sentence]] = []
    if embed is not None and vector is not None and ranked:
        near = ranked[:_COMPARED]
        similarity = np.round(embed([s.text for s in near]).astype(np.float64) @ vector.astype(np.float64), 6)
        chosen = [
            (0.5 * s.coverage + 0.5 * float(x), s)
            for s, x in zip(near, similarity, strict=True)
            if s.coverage >= _LEAST_COVERAGE or x >= _LEAST_SIMILARITY
        ]
    else:
        chosen = [(s.coverage, s) for s in ranked if s.coverage >= _LEAST_COVERAGE]
    # A person who asks in words wants a sentence; a line of code that repeats the words comes after it.
    best = sorted(((score * (_CODE if s.code else 1.0), s) for score, s in chosen), key=lambda c: -c[0])[
        :limit
    ]
    # Sentences far behind the best one answer something else.
    best = [(score, s) for score, s in best if score >= _FAR * best[0][0]]
    citations = tuple(_cite(i, s) for i, (_, s) in enumerate(best, 1))
    text = " ".join(f"{c.text} [{c.number}]" for c in citations) or NOTHING
    return Answer(question=question, found=bool(citations), text=text, citations=citations)


def _cite(number: int, s: _Sentence) -> Citation:
    line = None if s.hit.line is None else s.hit.line + s.hit.text.count("\n", 0, s.start)
    return Citation(
        number=number,
        text=" ".join(s.text.split()),
        doc_id=s.hit.doc_id,
        chunk_id=s.hit.chunk_id,
        url=s.hit.url,
        title=s.hit.title,
        line=line,
        start=s.hit.start + s.start,
        end=s.hit.start + s.end,
    )
