"""Which blocks of a page are its content, of what type the page is, and how sure that is.

Pages of known documentation generators say it by their markup (``html_generators``). Of all others models
that were fitted on other people's pages decide (WCXB, M. Foley 2026, CC BY 4.0;
``benchmarks/page_content.py`` fits them, and measures them on pages of other sites). One tells the type of
the page by what it says; one gives each block the probability that it is content, by what its elements are
called, how it is written and where it stands. Of all selections of blocks that one is taken whose expected
F1, by words, is highest (Lipton et al. 2014, "Optimal thresholding of classifiers to maximize F1 measure");
that figure, put right by what it turned out to be on pages that were left out, is the confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from taboot_pipelines.documents.html_features import Floats, PageFeatures, beside
from taboot_pipelines.documents.html_generators import LANDMARKS, generated_content, is_furniture
from taboot_pipelines.documents.html_markdown import Block, render, shows_no_text
from taboot_pipelines.documents.html_tree import Element, Root

#: A page that shows fewer code points than this, and :data:`_MORE_HIDDEN` times as many to none but readers
#: with scripts, or to none but those without, is read whole.
_LITTLE, _MORE_HIDDEN = 600, 4
#: The F1 of what a generator's markup says, on the pages of WCXB that have it.
GENERATED = 0.956
#: A page of fewer words is left to its markup: the models saw few so small, and little can stand around.
_SMALL = 60
_LANDMARKS = LANDMARKS | {"form"}
#: The least probability of a block of an article.
SURE = 0.6
#: Blocks that are judged at once: each takes some ten kilobytes.
_BATCH = 1_024
Whole = np.ndarray[Any, np.dtype[np.int64]]


class PageContent(NamedTuple):
    """The blocks of a page's content in its order; ``page_type``: article, collection, documentation, forum,
    listing, product or service (WCXB's types); ``confidence``: the expected F1 of the blocks by words.
    """

    blocks: list[Block]
    page_type: str
    confidence: float


class Trees(NamedTuple):
    """Gradient boosted decision trees, all their nodes one after the other. What lies under a node's
    ``threshold`` of its ``feature``, or at it, goes on with the first of its two ``children``, else with the
    second; a leaf, whose ``value`` counts, goes on with itself. ``roots``: the first node of each tree."""

    feature: Whole
    threshold: Floats
    children: Whole
    value: Floats
    roots: Whole
    depth: int

    def sums(self, rows: Floats) -> Floats:
        """For each row of features the sum of the leaves that it comes to."""
        found = [self._sums(rows[at : at + _BATCH]) for at in range(0, len(rows), _BATCH)]
        return np.concatenate(found) if found else np.zeros(0)

    def _sums(self, rows: Floats) -> Floats:
        count, width = rows.shape
        flat, start = rows.ravel(), np.repeat(np.arange(count) * width, len(self.roots))
        node = np.tile(self.roots, count)
        for _ in range(self.depth):
            beyond = flat.take(start + self.feature.take(node)) > self.threshold.take(node)
            node = self.children.take(2 * node + beyond)
        total: Floats = self.value.take(node).reshape(count, -1).sum(axis=1)
        return total


class Model(NamedTuple):
    """``types``: the names of the page types; ``type_weights`` (types × tokens) and ``type_bias``; of blocks
    ``block_weights`` of their tokens, and ``trees``; ``expected`` F1, and what that turned ``out`` as."""

    types: list[str]
    type_weights: Floats
    type_bias: Floats
    block_weights: list[float]
    trees: Trees
    expected: Floats
    out: Floats


@cache
def model() -> Model:
    """The fitted models, read once."""
    with files("taboot_pipelines.documents").joinpath("html_content.npz").open("rb") as file:
        held = np.load(file)
        return Model(
            [str(name) for name in held["types"]],
            held["type_weights"].astype(np.float64),
            held["type_bias"].astype(np.float64),
            held["block_weights"].astype(np.float64).tolist(),
            Trees(
                held["feature"].astype(np.int64),
                held["threshold"],
                held["children"].astype(np.int64),
                held["value"].astype(np.float64),
                held["roots"].astype(np.int64),
                int(held["depth"]),
            ),
            held["expected"].astype(np.float64),
            held["out"].astype(np.float64),
        )


def shown_blocks(source: str, root: Root) -> list[Block]:
    """All blocks that a page shows a reader, those too that wait for a script where it shows little else."""
    blocks = render(source, root)
    shown = sum(len(block.plain) for block in blocks)
    if shown < _LITTLE:
        all_blocks = render(source, root, hidden=shows_no_text)
        if sum(len(block.plain) for block in all_blocks) > max(_LITTLE, _MORE_HIDDEN * shown):
            return all_blocks
    return blocks


def type_probabilities(tokens: Sequence[int], weights: Floats, bias: Floats) -> Floats:
    """The probability of each page type (softmax of a linear model over the tokens)."""
    logits = weights[:, list(tokens)].sum(axis=1) + bias
    likely = np.exp(logits - logits.max())
    found: Floats = likely / likely.sum()
    return found


def best_selection(
    probability: Floats, words: Floats, least: float = 0.0
) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], float]:
    """The blocks whose expected F1 by words is highest, among those of the ``least`` probability where there
    are any, and that figure. They are always those above some probability."""
    order = np.argsort(-probability, kind="stable")
    weight = words + 0.01  # a block without words stands or falls with its like
    right = probability * weight
    expected = 2 * np.cumsum(right[order]) / (np.cumsum(weight[order]) + right.sum())
    best = int(expected[: max(1, int((probability >= least).sum()))].argmax())
    kept = np.zeros(len(order), bool)
    kept[order[: best + 1]] = True
    return kept, float(expected[best])


def select(
    types: Sequence[str], likely: Floats, probability: Floats, words: Floats
) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], float]:
    """The blocks of a page that are kept, and their expected F1, as ``best_selection``: in an article, around
    which teasers stand, nothing that is doubtful."""
    least = SURE if types[int(likely.argmax())] == "article" else 0.0
    return best_selection(probability, words, least)


def keep_between(blocks: Sequence[Block], kept: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    """Keep code and tables between blocks that are kept, and the headings that such a block stands under."""
    for i in range(1, len(blocks) - 1):
        if blocks[i].kind in ("code", "table"):
            kept[i] |= kept[i - 1] and kept[i + 1]
    for i in range(len(blocks) - 2, -1, -1):
        if blocks[i].kind == "heading" and blocks[i].linked < 0.5:
            kept[i] |= kept[i + 1]


def _landmark(element: Element) -> bool:
    """Whether an element is a part of the page beside its content by what HTML and ARIA call it (WAI-ARIA 1.2
    §5.3.4, landmark roles); a header with the page's first heading is none."""
    if element.tag == "header":
        return not any(each.tag == "h1" for each in element.walk())
    return element.tag in ("nav", "footer", "aside", "form") or element.get("role") in _LANDMARKS


def block_rows(numbers: Floats, types: Floats, scores: Floats) -> Floats:
    """What the blocks of a page are judged by: their numbers, the probabilities of the page's types, and the
    scores of their tokens with those beside them."""
    rows = np.hstack([numbers, np.tile(types, (len(numbers), 1)), beside(scores)])
    # At single precision, so that a last digit that machines differ in decides nothing.
    return rows.astype(np.float32).astype(np.float64)


def page_content(source: str, root: Root) -> PageContent:
    """The content of a page. Time and memory are linear in the page; one without any text has no block."""
    if container := generated_content(root.elements):
        blocks = render(source, container, is_furniture)
        if any(block.plain for block in blocks):
            return PageContent(blocks, "documentation", GENERATED)
    blocks = shown_blocks(source, root)
    if not blocks:
        return PageContent([], "", 0.0)
    fitted, features = model(), PageFeatures(source, root, blocks)
    types = type_probabilities(features.page_tokens(), fitted.type_weights, fitted.type_bias)
    rows = block_rows(features.numbers(), types, features.token_scores(fitted.block_weights))
    probability = 1 / (1 + np.exp(-fitted.trees.sums(rows)))
    kept, expected = select(fitted.types, types, probability, features.words)
    if features.words.sum() < _SMALL:
        chosen = render(source, root, _landmark) or blocks
    else:
        keep_between(blocks, kept)
        chosen = [block for block, keep in zip(blocks, kept, strict=True) if keep]
    confidence = float(np.interp(expected, fitted.expected, fitted.out))
    return PageContent(chosen, fitted.types[int(types.argmax())], round(confidence, 3))
