"""Documents and entities as one web: what links to what, what states what, and a walk from some of them.

The walk is personalized PageRank (Haveliwala 2002; Jeh and Widom 2003), found by pushing what a node holds on
to its neighbours (Andersen, Chung, Lang 2006): it looks at the neighbourhood of the seeds, not at everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.knowledge.mentions import is_weak
from taboot_pipelines.knowledge.titles import TitleMatcher, title_keys
from taboot_pipelines.retrieval.graph import Graph
from taboot_pipelines.retrieval.links import MAX_SHARED, RARE_DOCUMENTS, RARE_SHARE, LinkGraph, Rows
from taboot_pipelines.shards.links import is_common

Weights = npt.NDArray[np.float64]

#: A link is followed back with this much of its weight.
_BACK = 0.5
#: The share of its weight that a walk takes back to the seeds at each step. 0.3 to 0.7 gave the same results
#: within a hundredth on HotpotQA and MuSiQue.
_RESTART = 0.5
_ROUNDS = 20
#: What a node holds is passed on while it is more than this share of all: at most 1 / (restart * floor)
#: neighbours of equal weight are looked at.
_FLOOR = 1e-5
#: A name that more nodes have means each of them by so little that it means none.
_MAX_MEANT = MAX_SHARED
#: An entity of a common name counts where no larger share of the documents is about it.
_KNOWN_SHARE = 0.2


class NamedNodes(NamedTuple):
    """A name that stands in a question, and the nodes that it means."""

    name: str
    nodes: tuple[int, ...]


class WalkGraph:
    """Loaded once per manifest. A document goes by its row in ``Index.documents``; behind the documents come
    the entities of the graph.

    ``starts``, ``targets``, ``weights``: the arrows that leave node i are ``starts[i] : starts[i + 1]``;
    their weights sum to 1.
    """

    def __init__(self, links: LinkGraph, graph: Graph) -> None:
        self.documents = links.documents.num_rows
        nodes, entities = _nodes(links, graph)
        self.size = self.documents + len(entities)
        from_links = (links.source, links.target, 1.0 / links.shared)
        source, target, weight = (
            np.concatenate(parts)
            for parts in zip(from_links, _statements(graph, nodes, self.documents), strict=True)
        )
        self._arrows(source, target, weight)
        self._names, meant = _names(links, graph, entities, self.documents)
        self._meant = meant
        self._matcher = TitleMatcher(self._names)
        held = np.bincount(links.target, minlength=self.documents)
        about = np.diff(self.starts)
        #: Of each node how many documents lead to it.
        self._known = np.concatenate((held, about[self.documents :]))

    def _arrows(self, source: Rows, target: Rows, weight: Weights) -> None:
        """Make arrows of links, there and back."""
        rows, columns = np.concatenate((source, target)), np.concatenate((target, source))
        weights = np.concatenate((weight, _BACK * weight))
        order = np.lexsort((weights, columns, rows))
        rows, self.targets, weights = rows[order], columns[order], weights[order]
        leaving = np.bincount(rows, weights, minlength=self.size)
        self.weights: Weights = weights / leaving[rows]
        self.starts = np.searchsorted(rows, np.arange(self.size + 1))

    def __len__(self) -> int:
        """How many arrows there are."""
        return len(self.targets)

    def named(self, question: str) -> list[NamedNodes]:
        """The documents and entities whose titles or names stand in a question, in its order, the longest
        name first where names overlap. Common words count only where they name something rare."""
        found = []
        for occurrence in self._matcher.find(question):
            nodes = self._meant[occurrence.title]
            if is_common(occurrence.title) and not self._tells(occurrence.title, nodes):
                continue
            found.append(NamedNodes(question[occurrence.start : occurrence.end], nodes))
        return found

    def _tells(self, name: str, nodes: Sequence[int]) -> bool:
        """Whether a single word is a name: not if it is short or common English, or known to very many."""
        known = int(self._known[list(nodes)].max())
        entity = any(node >= self.documents for node in nodes)
        most = max(RARE_DOCUMENTS, (_KNOWN_SHARE if entity else RARE_SHARE) * self.documents)
        return not is_weak(name) and known <= most

    def shows(self, nodes: Sequence[int]) -> bool:
        """Whether one of the nodes is a document, or leads to one."""
        at = np.asarray(nodes, dtype=np.int64)
        return bool(((at < self.documents) | (self.starts[at + 1] > self.starts[at])).any())

    def neighbours(self, document: int) -> Rows:
        """The documents that a document links to, and those that link to it."""
        targets: Rows = self.targets[self.starts[document] : self.starts[document + 1]]
        return np.unique(targets[targets < self.documents])

    def walk(self, seeds: Rows, weights: Weights) -> Weights:
        """How much of a walk that begins at the seeds, by their weights, is spent at each document."""
        spent, held = np.zeros(self.size), np.zeros(self.size)
        np.add.at(held, seeds, weights / weights.sum())
        for _ in range(_ROUNDS):
            active = np.flatnonzero(held > _FLOOR)
            if not len(active):
                break
            mass = held[active]
            held[active] = 0.0
            spent[active] += _RESTART * mass
            first = self.starts[active]
            degree = self.starts[active + 1] - first
            # The arrows of all active nodes, one behind the other.
            arrows = np.repeat(first - np.cumsum(degree) + degree, degree) + np.arange(int(degree.sum()))
            np.add.at(
                held,
                self.targets[arrows],
                np.repeat((1.0 - _RESTART) * mass, degree) * self.weights[arrows],
            )
        return spent[: self.documents]


def _nodes(links: LinkGraph, graph: Graph) -> tuple[Rows, Rows]:
    """The number in the web of each node of the graph, and the nodes of the graph that are entities."""
    is_document = pc.equal(graph.nodes.column("label"), "Document").to_numpy(zero_copy_only=False)
    entities = np.flatnonzero(~is_document)
    nodes = np.full(len(graph.nodes), -1, dtype=np.int64)
    nodes[entities] = links.documents.num_rows + np.arange(len(entities))
    own = np.flatnonzero(is_document)
    doc_ids = graph.nodes.column("key").take(pa.array(own))
    held = links.documents.column("doc_id").combine_chunks()
    rows = pc.index_in(doc_ids, value_set=held).fill_null(-1)
    nodes[own] = rows.combine_chunks().to_numpy(zero_copy_only=False)
    return nodes, entities


def _statements(graph: Graph, nodes: Rows, documents: int) -> tuple[Rows, Rows, Weights]:
    """The edges of the graph as arrows: where from, where to, and their weights.

    A statement weighs as much as it is certain; what nearly every document mentions, less.
    """
    known = np.flatnonzero((graph.start >= 0) & (graph.end >= 0))
    start, end = nodes[graph.start[known]], nodes[graph.end[known]]
    confidence = graph.edges.column("confidence").to_numpy()[known]
    keep = (start >= 0) & (end >= 0) & (start != end)
    start, end, confidence = start[keep], end[keep], confidence[keep]
    # Several statements of one pair (a name that a document mentions twice) are one arrow.
    size = int(nodes.max(initial=-1)) + 1
    pairs, at = np.unique(start * max(1, size) + end, return_inverse=True)
    certain = np.zeros(len(pairs))
    np.maximum.at(certain, at, confidence)
    start, end = pairs // max(1, size), pairs % max(1, size)
    known_to = np.bincount(end[start < documents], minlength=size)[end]
    rarity = np.log1p(documents / np.maximum(known_to, 1)) / np.log1p(max(1, documents))
    return start, end, certain * rarity


def _names(
    links: LinkGraph, graph: Graph, entities: Rows, documents: int
) -> tuple[list[str], dict[str, tuple[int, ...]]]:
    """The names of documents and entities in their normal form, and the nodes that each means."""
    meant: dict[str, list[int]] = {}
    titles = links.documents.column("title").to_pylist()
    names = graph.nodes.column("name").take(pa.array(entities)).to_pylist()
    for node, name in enumerate([*titles, *names]):
        for key in dict.fromkeys(title_keys(name or "")):
            meant.setdefault(key, []).append(node)
    kept = {key: tuple(nodes) for key, nodes in meant.items() if len(nodes) <= _MAX_MEANT}
    return list(kept), kept
