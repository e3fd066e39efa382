"""What a page and its blocks are judged by: how each is written, where it stands, and what surrounds it.

Two kinds of evidence. Of a block *numbers*: its words, links, marks and place, what the elements around it
hold, its neighbours, and the whole page. Of blocks and page *tokens*: the parts of their elements' names,
classes, ids and roles, the words of short blocks, and what the page's head declares, hashed into a table
(Weinberger et al. 2009, "Feature hashing for large scale multitask learning"). Both take a time linear in the
page.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from taboot_pipelines.documents.html_markdown import Block
from taboot_pipelines.documents.html_tree import Element, Root, Text

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Tokens are hashed into so many places of a table.
TABLE = 1 << 13
#: Elements that a block may lie in, each a number of its own.
_AROUND = (
    *(
        "main",
        "article",
        "aside",
        "footer",
        "header",
        "form",
        "figure",
        "table",
        "blockquote",
        "li",
        "section",
    ),
    *("ul", "dl", "a", "label", "details"),
)
_KINDS = ("heading", "paragraph", "item", "code", "table")
#: So many elements around a block, from the innermost, are near; what the others say has tokens of its own.
_NEAR = 3
#: How much of a text counts for its element, for the one around that, and for the next.
_DENSITY = (1.0, 0.9, 0.6)
#: What these elements around a block hold is counted: its element's parent, and three above.
_LEVELS = 4
#: Neighbours that a block is seen beside, and the reach of the windows around it.
_STEPS, _WINDOWS = (-3, -2, -1, 1, 2, 3), (4, 10)
#: A block of more words is told by other things than these.
_FEW_WORDS = 12
#: A text of fewer words is none that a page is about.
_SENTENCE = 8
#: Distances are counted up to here.
_FAR = 50
_WORD = re.compile(r"\w+")
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_MAX_NAME, _MAX_PARTS, _MAX_VALUE = 300, 14, 40
_DECLARED_TYPE = re.compile(r'"@type"\s*:\s*"([A-Za-z]{2,40})"')
_DIGITS = re.compile(r"\d")
_PLAIN_WORD = re.compile(r"[a-z]+")
#: Elements whose presence tells of the whole page.
_TELLING = frozenset(("article", "main", "table", "pre", "form", "iframe", "video"))


@lru_cache(maxsize=1 << 16)
def _hashed(token: str) -> int:
    return zlib.crc32(token.encode("utf-8", "surrogatepass")) % TABLE


def _said(element: Element) -> list[str]:
    """The tokens of an element's name and attributes."""
    said = [element.tag]
    if not element.raw:
        return said
    attributes = element.attributes
    for name in ("class", "id"):
        if value := attributes.get(name):
            parts = [part.lower() for part in _NAME_PART.findall(value[:_MAX_NAME]) if len(part) > 1]
            said += [f".{part}" for part in parts[:_MAX_PARTS]]
    for name in ("role", "itemprop", "itemtype"):
        if value := attributes.get(name):
            said.append(f"{name}={value.rpartition('/')[2][:_MAX_VALUE].lower()}")
    return said


class _Place:
    """An element that blocks stand in, and how many words, linked words and blocks it holds. ``around``: a
    bit for each of :data:`_AROUND` that it is or lies in."""

    __slots__ = ("around", "blocks", "depth", "far", "linked", "near", "parent", "words")

    def __init__(self, element: Element, parent: _Place | None) -> None:
        said = _said(element)
        self.parent = parent
        self.near = [_hashed(f"n{token}") for token in said]
        self.far = [_hashed(f"f{token}") for token in said]
        self.depth: int = 1 if parent is None else parent.depth + 1
        own = 1 << _AROUND.index(element.tag) if element.tag in _AROUND else 0
        self.around: int = own | (0 if parent is None else parent.around)
        self.words = self.linked = 0.0
        self.blocks = 0

    def outwards(self) -> Iterator[_Place]:
        """This place and those around it."""
        at: _Place | None = self
        while at is not None:
            yield at
            at = at.parent


def _places(root: Root, blocks: Sequence[Block]) -> list[_Place]:
    """For each block the innermost element that holds all of it."""
    elements, made = root.elements, dict[int, _Place]()

    def place(element: Element) -> _Place:
        waiting: list[Element] = []
        at: Element | None = element
        while at is not None and id(at) not in made:
            waiting.append(at)
            at = at.parent
        for each in reversed(waiting):
            parent = None if each.parent is None else made[id(each.parent)]
            made[id(each)] = _Place(each, parent)
        return made[id(element)]

    found: list[_Place] = [place(root)] * len(blocks)
    ranges = [(block.start, block.end) for block in blocks]
    open_elements: list[Element] = [root]
    at = 0
    for index in sorted(range(len(blocks)), key=ranges.__getitem__):
        start, end = ranges[index]
        while at < len(elements) and elements[at].start <= start:
            while len(open_elements) > 1 and open_elements[-1].end <= elements[at].start:
                open_elements.pop()
            open_elements.append(elements[at])
            at += 1
        while len(open_elements) > 1 and open_elements[-1].end <= start:
            open_elements.pop()
        found[index] = place(next(each for each in reversed(open_elements) if each.end >= end))
    return found


class PageFeatures:
    """The evidence of one page. ``words``: how many each block has."""

    def __init__(self, source: str, root: Root, blocks: Sequence[Block]) -> None:
        self._source, self._root, self._blocks = source, root, blocks
        self._texts = [_WORD.findall(block.plain) for block in blocks]
        self.words: Floats = np.array([len(words) for words in self._texts], np.float64)
        self._linked: Floats = self.words * [block.linked for block in blocks]
        self._places = _places(root, blocks)
        for place, words, linked in zip(self._places, self.words, self._linked, strict=True):
            for each in place.outwards():
                each.words += words
                each.linked += linked
                each.blocks += 1

    def block_tokens(self, index: int) -> Iterator[int]:
        """The hashed tokens of a block, each as often as it is said."""
        for step, place in enumerate(self._places[index].outwards()):
            yield from place.near if step < _NEAR else place.far
        yield from self._of_text(index)

    def _of_text(self, index: int) -> Iterator[int]:
        words = self._texts[index]
        if words:
            yield _hashed(f"b{words[0].lower()}")
        if len(words) <= _FEW_WORDS:
            for word in words:
                yield _hashed(f"w{word.lower()}")

    def token_scores(self, weights: Sequence[float]) -> Floats:
        """For each block the sum of its tokens' weights. Each element is looked at once."""
        near: dict[int, float] = {}
        far: dict[int, float] = {}
        found = np.zeros(len(self._blocks))
        for index, place in enumerate(self._places):
            for each in reversed([each for each in place.outwards() if id(each) not in near]):
                near[id(each)] = sum(weights[token] for token in each.near)
                above = 0.0 if each.parent is None else far[id(each.parent)]
                far[id(each)] = above + sum(weights[token] for token in each.far)
            total = sum(weights[token] for token in self._of_text(index))
            for step, each in enumerate(place.outwards()):
                if step == _NEAR:
                    total += far[id(each)]
                    break
                total += near[id(each)]
            found[index] = total
        return found

    def page_tokens(self) -> list[int]:
        """What the whole page says, each hashed token once, in order."""
        found = {_hashed(f"p{token}") for token in self._declared()}
        seen: set[int] = set()
        for index, place in enumerate(self._places):
            found.update(self._of_text(index))
            for each in place.outwards():
                if id(each) in seen:
                    break
                seen.add(id(each))
                found.update(each.near)
        return sorted(found)

    def _declared(self) -> Iterator[str]:
        for element in self._root.elements:
            tag = element.tag
            if tag == "meta":
                name = (element.get("property") or element.get("name")).lower()[:_MAX_VALUE]
                yield f"meta={name}"
                if name in ("og:type", "generator"):
                    yield f"{name}={' '.join(_PLAIN_WORD.findall(element.get('content')[:60].lower()))}"
            elif tag == "body":
                yield from (f"body{token}" for token in _said(element))
            elif tag in _TELLING:
                yield f"has={tag}"
            elif tag == "script" and "ld+json" in element.raw:
                for child in element.children:
                    if isinstance(child, Text):
                        for name in _DECLARED_TYPE.findall(self._source, child.start, child.end):
                            yield f"ld={name.lower()}"

    # Numbers ------------------------------------------------------------------------------------------------

    def numbers(self) -> Floats:
        """A row for each block."""
        own, told = self._own(), (0, 2, 7, 12)
        sides = [_moved(own[:, told], step) for step in _STEPS]
        windows = []
        for reach in _WINDOWS:
            words = _mean(self.words, reach)
            windows += [words, _mean(self._linked, reach) / np.maximum(words, 1e-6)]
        return np.hstack([own, self._surroundings(), *sides, np.stack(windows, 1)])

    def _own(self) -> Floats:
        """How each block is written."""
        rows = []
        for block, words in zip(self._blocks, self._texts, strict=True):
            text, count, chars = block.plain, max(1, len(words)), max(1, len(block.plain))
            marks = text.lstrip()[:1]
            heading = block.text.lstrip("> -").split(" ", 1)[0].count("#") if block.kind == "heading" else 0
            rows.append(
                (
                    np.log1p(len(words)),
                    np.log1p(len(text)),
                    block.linked,
                    len(text) / count,
                    sum(word[0].isupper() for word in words) / count,
                    text.endswith((".", "!", "?", "…")),
                    text.endswith(":"),
                    text.count(".") + text.count("!") + text.count("?"),
                    text.count(",") / count,
                    len(_DIGITS.findall(text)) / chars,
                    "©" in text,
                    marks in "|»›·•",
                    *(block.kind == kind for kind in _KINDS),
                    heading,
                    block.defines,
                )
            )
        return np.array(rows, np.float64).reshape(len(rows), -1)

    def _surroundings(self) -> Floats:
        """Where each block stands, what the elements around it hold, and the page itself."""
        blocks, count = self._blocks, len(self._blocks)
        total = max(1.0, float(self.words.sum()))
        before = np.concatenate([[0.0], np.cumsum(self.words)[:-1]]) / total
        index = np.arange(count)
        first = next((i for i, block in enumerate(blocks) if block.text.lstrip("> -").startswith("# ")), None)
        title = np.full(count, 2.0 * _FAR) if first is None else np.clip(index - first, -_FAR, _FAR)
        distance = self._from_densest()
        rows = []
        for place in self._places:
            row: list[float] = [place.depth, *distance(place)]
            row += [place.around >> bit & 1 for bit in range(len(_AROUND))]
            at = place
            for _ in range(_LEVELS):
                at = at.parent or at
                share = at.words / total
                linked = at.linked / max(1.0, at.words)
                row += [np.log1p(at.words), share, linked, np.log1p(at.blocks), at.words / at.blocks]
            rows.append(row)
        elements = self._root.elements
        page = [np.log(count), np.log1p(total), float(self._linked.sum()) / total]
        page += [np.log1p(sum(each.tag == tag for each in elements)) for tag in ("article", "main", "form")]
        order = np.stack([before, index / count, np.log1p(index), np.log1p(count - 1 - index), title], 1)
        return np.hstack([order, np.array(rows, np.float64), np.tile(page, (count, 1))])

    def _from_densest(self) -> Callable[[_Place], tuple[float, float]]:
        """How many elements away a place is from those around the densest text, and how far out it meets
        them."""
        density: dict[int, float] = {}
        known: dict[int, _Place] = {}
        for place, words, linked in zip(self._places, self.words, self._linked, strict=True):
            for share, each in zip(_DENSITY, place.outwards(), strict=False):
                known[id(each)] = each
                told = share * (words - linked) if words >= _SENTENCE else 0.0
                density[id(each)] = density.get(id(each), 0.0) + told
        best = known[max(density, key=density.__getitem__)]
        reached = {id(each): (0.0, float(out)) for out, each in enumerate(best.outwards())}

        def distance(place: _Place) -> tuple[float, float]:
            waiting = []
            for each in place.outwards():
                if id(each) in reached:
                    steps, out = reached[id(each)]
                    break
                waiting.append(each)
            for each in reversed(waiting):
                steps += 1
                reached[id(each)] = (steps, out)
            return steps, out

        return distance


def beside(values: Floats) -> Floats:
    """For each value itself, its neighbours', and the mean of those around it, as a row."""
    column = values[:, None]
    moved = [_moved(column, step) for step in (-2, -1, 1, 2)]
    return np.hstack([column, *moved, _mean(values, 5)[:, None]])


def _moved(rows: Floats, step: int) -> Floats:
    """For each row the one so many behind it; -1 where there is none."""
    moved = np.full_like(rows, -1.0)
    if abs(step) < len(rows):
        if step < 0:
            moved[-step:] = rows[:step]
        else:
            moved[:-step] = rows[step:]
    return moved


def _mean(values: Floats, reach: int) -> Floats:
    """For each value the mean of those at most so many away."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    low, high = np.maximum(0, index - reach), np.minimum(len(values), index + reach + 1)
    means: Floats = (sums[high] - sums[low]) / (high - low)
    return means
