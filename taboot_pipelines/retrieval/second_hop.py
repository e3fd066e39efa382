"""A second hop without links: what the first hits leave of a question is asked again of what they lead to.

What answers a question in two steps often shares nothing with it but the words that the first step leaves:
"who founded the town where Ada Brook was born?" is answered by a page about the town, which the page about
Ada Brook names and the question does not. So each of the first hits hands on to the passages that share its
rare words, those of the question apart, or that a link joins with its document; and of these a passage counts
by how well it has the words of the question that the hit lacks, by the token vectors of
:mod:`taboot_pipelines.retrieval.late_interaction`. Nothing is embedded for it.

Where the first hit has every word of the question nothing is left to ask, and the ranking stays as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from taboot_pipelines.embedding.protocol import Vectors
from taboot_pipelines.retrieval import vectors
from taboot_pipelines.retrieval.fusion import Ids, Scores, rank
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.retrieval.late_interaction import DEPTH, LateInteraction
from taboot_pipelines.retrieval.ranking import RankedRows
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.shards.analyzer import analyze, stem_of

#: Documents of the best hits that a hop begins at: 3 to 10 gave the same results, and each costs time.
_HITS = 3
#: Words that two passages share count from this rarity on; what is more common joins everything. 0.2 to 0.5
#: gave the same results.
_RARE = 0.3
#: What a hop counts beside the score, which is at most 1. 1 to 2 gave the same results within four hundredths
#: on MuSiQue (train), HotpotQA and half of 2WikiMultihopQA, where all of these were chosen.
_WEIGHT = 1.5
#: Passages whose meaning is looked at, the best by how they are joined with a hit; of these the best by that
#: too are compared with the question word by word.
_JOINED = 1000
#: Passages that the reason names, the words that it quotes of the question, and those that are shared.
_SHOWN, _ASKED, _SHARED = 3, 4, 2

#: So that nothing is divided by 0.
_TINY = 1e-12

_WORD = re.compile(r"\w+")


class _Origin(NamedTuple):
    """A hit that a hop begins at. ``score``: its share of the best hit's; ``terms``: the rare words that it
    has and the question has not, and how rare each is, the rarest last."""

    row: int
    score: float
    text: str
    terms: dict[str, float]


def second_hop(
    view: View, query: str, ranked: RankedRows, vector: Vectors, rows: Ids | None, late: LateInteraction
) -> tuple[RankedRows, str]:
    """``ranked`` with what its first hits lead to among ``rows`` (ascending; None: all), and what was done,
    in words. ``scores["hop"]`` says how much a hop speaks for a passage, from 0 to 1; the best hit stays it.
    """
    index = view.index
    top = float(ranked.scores[0]) if len(ranked) else 0.0
    if top <= 0:
        return ranked, ""
    asked = set(analyze(query).terms)
    first = _first(index, ranked)
    texts = [index.text(row) for row in ranked.ids[first].tolist()]
    held = [set(analyze(text).terms) for text in texts]
    if asked <= held[0]:
        return ranked, "The first hit has every word of the question."
    terms = sorted(set().union(*held) - asked)
    found = dict(zip(terms, view.keywords.places(terms), strict=True))
    rarity = {term: _rarity(len(found[term]), len(index)) for term in terms}
    rare = sorted((term for term in terms if rarity[term] >= _RARE), key=lambda term: (rarity[term], term))
    origins = [
        _Origin(row, score, text, {term: rarity[term] for term in rare if term in own})
        for row, score, text, own in zip(
            ranked.ids[first].tolist(), (ranked.scores[first] / top).tolist(), texts, held, strict=True
        )
    ]
    # What each hit hands on to each row.
    joined = np.stack([origin.score * _joined(view, origin, found) for origin in origins])
    handed = joined.max(axis=0)
    if rows is not None:
        passing = np.zeros(len(index), dtype=bool)
        passing[rows] = True
        handed[~passing] = 0
    some = np.sort(rank(np.flatnonzero(handed), handed[handed > 0], _JOINED).ids)
    near = vectors.exact(index, vector.astype(np.float64), some)
    best = np.sort(rank(some, handed[some] * near.clip(0), DEPTH).ids)
    if not len(best):
        return ranked, ""
    matches = late.matches([*texts, *(index.text(row) for row in best.tolist())])
    left = (1 - matches[: len(texts)]) * late.weights
    left /= np.maximum(left.sum(axis=1, keepdims=True), _TINY)
    hops = joined[:, best] * (left @ matches[len(texts) :].T)
    hop = hops.max(axis=0)
    gain = _WEIGHT * hop * (top - ranked.scores_of(best))
    made = _with(ranked, best, gain, hop, near[np.searchsorted(some, best)])
    told = [(int(hops[:, n].argmax()), int(best[n])) for n in rank(np.arange(len(best)), gain, _SHOWN).ids]
    return made, _told(view, late, origins, left, told)


def _first(index: Index, ranked: RankedRows) -> list[int]:
    """The places in a ranking of the best hit of each of the first documents."""
    places: dict[int, int] = {}
    for place, document in enumerate(index.document[ranked.ids[:DEPTH]].tolist()):
        places.setdefault(document, place)
    return list(places.values())[:_HITS]


def _rarity(count: int, size: int) -> float:
    """How rare is what ``count`` of ``size`` have: from nearly 0, where all of them do, to nearly 1."""
    return math.log((size + 1) / (count + 0.5)) / math.log(size + 1)


def _joined(view: View, origin: _Origin, found: dict[str, Ids]) -> Scores:
    """How closely each row is joined with a hit, from 0 to 1: by the two rarest words that they share, the
    rarer twice, or by a link, which counts less the more there are; squared. Other passages of the hit's
    document are not.
    """
    index = view.index
    rarest, next_to = np.zeros(len(index)), np.zeros(len(index))
    for term, rarity in origin.terms.items():
        at = found[term]
        next_to[at] = rarest[at]
        rarest[at] = rarity
    joined = (2 * rarest + next_to) / 3
    document = index.document[origin.row]
    linked = _linked(view, int(document))
    is_linked = np.zeros(len(index.documents), dtype=bool)
    is_linked[linked] = True
    at = np.flatnonzero(is_linked[index.document])
    joined[at] = np.maximum(joined[at], _rarity(len(linked), len(index.documents)))
    joined[index.document == document] = 0
    return joined**2


def _linked(view: View, document: int) -> Ids:
    """The documents that a link joins with one."""
    return view.web.neighbours(document) if len(view.web) else np.zeros(0, dtype=np.int64)


def _with(ranked: RankedRows, best: Ids, gain: Scores, hop: Scores, near: Scores) -> RankedRows:
    """``ranked`` and the ascending rows ``best``, which gain so much and have these scores."""
    ids = np.union1d(ranked.ids, best)
    scores, hops, cosines = ranked.scores_of(ids), np.full(len(ids), np.nan), np.full(len(ids), np.nan)
    at = np.searchsorted(ids, best)
    scores[at] += gain
    hops[at] = hop
    cosines[at] = near
    order = rank(ids, scores, len(ids))
    made = ranked.reordered(order.ids, order.scores)
    at = np.searchsorted(ids, order.ids)
    known = made.arms["vector"]
    made.arms["vector"] = np.where(np.isnan(known), cosines[at], known)
    made.arms["hop"] = hops[at]
    return made


def _told(
    view: View,
    late: LateInteraction,
    origins: Sequence[_Origin],
    left: Scores,
    hops: Sequence[tuple[int, int]],
) -> str:
    """What was asked again with which hit, and what that found: ``hops`` are pairs of a hit, by its number in
    ``origins``, and a row."""
    index = view.index

    def title(row: int) -> str:
        return repr(index.document_fields(int(index.document[row]))["title"])

    told: dict[int, list[str]] = {}
    for number, row in hops:
        origin = origins[number]
        terms = analyze(index.text(row)).terms
        shared = [term for term in origin.terms if term in terms][: -_SHARED - 1 : -1]
        by = " and ".join(repr(_as_written(origin.text, term)) for term in shared)
        if index.document[row] in _linked(view, int(index.document[origin.row])):
            by = "a link"
        if (said := f"{title(row)} by {by}") not in told.setdefault(number, []):
            told[number].append(said)
    sentences = []
    for number, reached in told.items():
        held = analyze(origins[number].text).terms
        lacking = [late.written[i] for i in np.argsort(-left[number], kind="stable").tolist()]
        # What a hit has it may have in another sense, but saying so would help nobody.
        words = [w for w in dict.fromkeys(lacking) if not analyze(w).terms.keys() <= held.keys()]
        asked = ", ".join(repr(word) for word in words[:_ASKED]) or "more"
        sentences.append(f"Asked again from {title(origins[number].row)} for {asked}: {', '.join(reached)}.")
    return " ".join(sentences)


def _as_written(text: str, term: str) -> str:
    """The first word of a text that has this stem; what is no stem as it is."""
    return next((word for word in _WORD.findall(text) if stem_of(word.lower()) == term), term)
