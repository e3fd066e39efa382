"""The ranking of a search that follows links: passages of what is reached from the names in the question.

A question names documents and entities by their titles and names. A walk over links and statements
(:mod:`taboot_pipelines.retrieval.graph_walk`) begins there, and with less weight at the best hits of the
hybrid ranking; passages of what it reaches are ranked by how much of the walk is spent there and by the
hybrid's own score. So what answers a question in two steps is found, though it shares no word with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from taboot_pipelines.embedding.protocol import Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import vectors
from taboot_pipelines.retrieval.fusion import DIGITS, Ids, Scores, rank
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.retrieval.late_interaction import DEPTH, LateInteraction
from taboot_pipelines.retrieval.ranking import Clock, RankedRow, RankedRows, arm_depth, rank_rows
from taboot_pipelines.retrieval.request import Mode, SearchRequest
from taboot_pipelines.retrieval.second_hop import second_hop
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import RetrievalSettings

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.candidates import Candidates
    from taboot_pipelines.retrieval.graph_walk import NamedNodes

#: Documents of the hybrid's best hits where a walk also begins, and with which weights beside the 1 of each
#: name: a question that names one of two documents needs the other, but a walk must not begin everywhere.
_HITS = 5
_HIT_WEIGHTS = (0.3, 0.15)
#: What a passage counts that is reached, and that the hybrid ranking does not have among its best.
_REACHED = 0.3
#: Each further passage of one document counts this much of the one before it.
_FURTHER = 0.5
_MAX_PASSAGES = 20_000
#: So that nothing is divided by 0.
_TINY = 1e-12
#: Names that are said in the reason for a choice.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """The mode that the hits of a request are ranked in, and why, in words, where it was chosen."""

    mode: Mode
    why: str = ""
    named: tuple[NamedNodes, ...] = ()


def choose(view: View, request: SearchRequest) -> ModeChoice:
    """How a request is ranked. The mode ``graph`` follows links in any case, from the best hits alone if the
    question names nothing; ``adaptive`` does where it names a document, or what documents are about.

    Raises ``E_NO_GRAPH`` for ``graph`` where the knowledge base has neither links nor statements.
    """
    if request.mode not in ("graph", "adaptive"):
        return ModeChoice(request.mode)
    web, strict = view.web, request.mode == "graph"
    if not len(web):
        if strict:
            raise TabootError(
                "E_NO_GRAPH",
                "The knowledge base has no links between its documents, and no statements about anything.",
            )
        return ModeChoice("hybrid", "Nothing in the knowledge base leads to anything else.")
    named = web.named(request.query)
    shown = tuple(name for name in named if web.shows(name.nodes))
    if shown:
        return ModeChoice("graph", f"The question names {_listed(shown)}.", shown)
    if strict:
        return ModeChoice("graph", "The question names nothing: the walk begins at the best hits.")
    if named:
        return ModeChoice("hybrid", f"No document is about {_listed(named)}.")
    return ModeChoice("hybrid", "The question names no document and no entity.")


def rank_request(
    view: View,
    request: SearchRequest,
    choice: ModeChoice,
    vector: Vectors | None,
    rows: Ids | None,
    candidates: Candidates | None,
    settings: RetrievalSettings,
    clock: Clock,
    late: LateInteraction | None = None,
) -> tuple[list[RankedRow], str]:
    """As ``ranking.rank_rows``, in the mode that :func:`choose` chose for the request; and what else was
    done, in words. ``late`` orders the best hits of ``hybrid`` anew, and ``adaptive`` makes a second hop with
    it.
    """
    hops = late is not None and request.mode == "adaptive"
    # Where hits come from elsewhere the whole list is made, so that all pages of it are cut from one.
    depth = arm_depth(request, settings)
    limit = 2 * depth if hops or choice.mode == "graph" else request.limit
    if late is not None:
        limit = max(limit, DEPTH)
    mode: Mode = "hybrid" if choice.mode == "graph" else choice.mode
    ranked = rank_rows(
        view, replace(request, mode=mode, limit=limit), vector, rows, candidates, settings, clock
    )
    told = ""
    if choice.mode == "graph":
        ranked = rank_reached(view, choice.named, ranked, vector, rows, depth)
        clock.lap("graph")
    elif late is not None:
        ranked = late.order(view.index, ranked)
        clock.lap("late interaction")
    if hops and late is not None and vector is not None:
        ranked, told = second_hop(view, request.query, ranked, vector, rows, late)
        clock.lap("second hop")
    return [ranked.row(i) for i in range(min(request.limit, len(ranked)))], told


def _listed(named: Sequence[NamedNodes]) -> str:
    shown = list(dict.fromkeys(name.name for name in named))
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(repr(name) for name in shown[:_SHOWN]) + more


def rank_reached(
    view: View,
    named: Sequence[NamedNodes],
    hybrid: RankedRows,
    vector: Vectors | None,
    rows: Ids | None,
    documents: int,
) -> RankedRows:
    """Passages of the best ``documents`` that a walk reaches, among ``rows`` (ascending; None: all), by the
    walk and the hybrid ranking; behind them, in its own order, what is left of ``hybrid``, which is the head
    of that ranking.
    """
    index = view.index
    spent = view.web.walk(*_seeds(index, named, hybrid))
    reached = rank(np.flatnonzero(spent), spent[spent > 0], documents)
    passages = _passages(index, reached.ids, rows)
    fused = hybrid.scores_of(passages)
    near = (
        np.zeros(len(passages))
        if vector is None
        else vectors.exact(index, vector.astype(np.float64), passages)
    )
    held_by = index.document[passages]
    share = spent[held_by] / max(float(spent.max(initial=0.0)), _TINY)
    best = rank(
        passages, share * (fused + _REACHED) * _FURTHER ** _place(held_by, fused, near), len(passages)
    )
    left = ~np.isin(hybrid.ids, passages)
    last = float(best.scores[-1]) if len(best.ids) else 1.0
    top = float(hybrid.scores.max(initial=0.0))
    ranked = hybrid.reordered(
        np.concatenate((best.ids, hybrid.ids[left])),
        np.concatenate(
            (best.scores, (last * _FURTHER * hybrid.scores[left] / max(top, _TINY)).round(DIGITS))
        ),
    )
    at = np.searchsorted(passages, best.ids)
    if vector is not None:
        ranked.arms["vector"][: len(at)] = near[at]
    ranked.arms["graph"] = np.concatenate((share[at], np.full(int(left.sum()), np.nan)))
    return ranked


def _seeds(index: Index, named: Sequence[NamedNodes], hybrid: RankedRows) -> tuple[Ids, Scores]:
    """The nodes of the web where a walk begins, and their weights; some nodes may come twice."""
    nodes: list[int] = []
    weights: list[float] = []
    for name in named:
        nodes += name.nodes
        weights += [1.0 / len(name.nodes)] * len(name.nodes)
    hits = list(dict.fromkeys(index.document[hybrid.ids].tolist()))[:_HITS]
    nodes += hits
    weights += np.linspace(*_HIT_WEIGHTS, len(hits)).tolist()
    return np.array(nodes, dtype=np.int64), np.array(weights)


def _passages(index: Index, documents: Ids, rows: Ids | None) -> Ids:
    """The rows of some documents, best document first, that are to be ranked; ascending."""
    first, behind = (np.searchsorted(index.document, documents, side=side) for side in ("left", "right"))
    enough = int(np.searchsorted(np.cumsum(behind - first), _MAX_PASSAGES)) + 1
    first, count = first[:enough], (behind - first)[:enough]
    # The rows of all of these documents, one behind the other.
    found = np.sort(np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum())))
    return found if rows is None else found[np.isin(found, rows, assume_unique=True)]


def _place(documents: Ids, fused: Scores, near: Scores) -> Ids:
    """Which passage of its document each is, by the hybrid's score and by meaning: 0 for the best."""
    order = np.lexsort((np.arange(len(documents)), -near, -fused, documents))
    ordered = documents[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    place = np.empty(len(documents), dtype=np.int64)
    place[order] = np.arange(len(ordered)) - np.repeat(begins, np.diff(begins, append=len(ordered)))
    return place
