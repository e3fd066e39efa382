"""Fit and measure the models of a page's content and type, on WCXB beside trafilatura as it comes.

    python benchmarks/page_content.py WCXB [--write]

WCXB ("Web Content eXtraction Benchmark", M. Foley 2026, CC BY 4.0, on GitHub as Murrough-Foley/web-content-
extraction-benchmark) has 2,008 pages of seven types with their content as text: ``dev`` is fitted on,
``test`` only measured. A page's figure is the F1 of its words, as WCXB counts. First come the pages of
``dev``, each judged by models that saw no page of its site (five parts, by domain), then ``test``, by the
shipped model, and those of its pages whose site ``dev`` has not. ``--write`` fits on all of ``dev`` and ships
that. Without the folder nothing is measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from taboot_pipelines.crawl.domains import registrable_domain
from taboot_pipelines.documents import html_content
from taboot_pipelines.documents.html_content import Trees, shown_blocks
from taboot_pipelines.documents.html_features import TABLE, Floats, PageFeatures
from taboot_pipelines.documents.html_markdown import Block
from taboot_pipelines.documents.html_tree import parse

WEIGHTS = Path(html_content.__file__).with_suffix(".npz")
PARTS = 5
ROUNDS = 250
BOOSTING = {
    "objective": "binary",
    "learning_rate": 0.06,
    "num_leaves": 31,
    "max_depth": 7,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.6,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 5,
    "seed": 1,
    "deterministic": True,
    "verbose": -1,
}
_WORD = re.compile(r"\w+")
#: Words of a run that is looked up as one, in how many places of the content, and from how many words on a
#: block is content wherever its runs stand.
_RUN, _PLACES, _LONG = 4, 8, 8


class Page(NamedTuple):
    """``numbers``: of its blocks; ``content``: which of them are; ``gold``: its content as text."""

    name: str
    site: str
    type: str
    tokens: list[int]
    block_tokens: list[list[int]]
    numbers: Floats
    words: Floats
    content: Any
    blocks: list[Block]
    gold: str


def word_f1(text: str, gold: str) -> float:
    got, want = Counter(_WORD.findall(text.lower())), Counter(_WORD.findall(gold.lower()))
    if not want or not got:
        return float(not want and not got)
    return 2 * (got & want).total() / (got.total() + want.total())


# --- which blocks are content, by the text of the content --------------------------------------------------


def _runs(words: list[str]) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(_RUN)), strict=False))


def content_blocks(blocks: list[Block], gold: str) -> set[int]:
    """The heaviest selection of blocks in which each follows the one before in the content, without overlap,
    and the long ones whose words stand there somewhere else."""
    words = _WORD.findall(gold.lower())
    places, runs = defaultdict[str, list[int]](list), defaultdict[tuple[str, ...], list[int]](list)
    for at, word in enumerate(words):
        places[word].append(at)
    for at, run in enumerate(_runs(words)):
        runs[run].append(at)
    texts = [_WORD.findall(block.plain.lower()) for block in blocks]
    candidates = [list(_found(text, words, places, runs)) for text in texts]
    chosen = _in_order(candidates, len(words))
    for index, text in enumerate(texts):
        own = _runs(text)
        if len(text) >= _LONG and 10 * sum(run in runs for run in own) >= 7 * len(own):
            chosen.add(index)
    return chosen


def _found(
    text: list[str], words: list[str], places: dict[str, list[int]], runs: dict[tuple[str, ...], list[int]]
) -> Iterator[tuple[int, int, float]]:
    """(start, end, weight) of where the content may hold a block."""
    if not text:
        return
    whole = [at for at in places.get(text[0], ())[:200] if words[at : at + len(text)] == text][:_PLACES]
    if whole or len(text) <= _RUN:
        yield from ((at, at + len(text), len(text) * (1.0 if len(text) > _RUN else 0.5)) for at in whole)
        return
    passages = defaultdict[int, list[int]](list)
    own = _runs(text)
    for index, run in enumerate(own):
        for at in runs.get(run, ())[:_PLACES]:
            passages[at - index].append(at)
    if 2 * sum(run in runs for run in own) < len(own):
        return
    most = sorted(passages.values(), key=len, reverse=True)[:_PLACES]
    yield from ((p[0], p[-1] + _RUN, float(len(p))) for p in most if 2 * len(p) >= len(most[0]))


def _in_order(candidates: list[list[tuple[int, int, float]]], length: int) -> set[int]:
    """O(n log n), by a Fenwick tree of maxima over where the content ends so far."""
    tree: list[tuple[float, int]] = [(0.0, -1)] * (length + 2)
    nodes: list[tuple[int, int]] = []  # (block, node before)
    best = (0.0, -1)
    for block, found in enumerate(candidates):
        reached = []
        for start, end, weight in found:
            before, at = (0.0, -1), start + 1
            while at > 0:
                before, at = max(before, tree[at]), at - (at & -at)
            nodes.append((block, before[1]))
            reached.append((before[0] + weight, len(nodes) - 1, end))
        for value, node, end in reached:
            best, at = max(best, (value, node)), end + 1
            while at < len(tree):
                tree[at], at = max(tree[at], (value, node)), at + (at & -at)
    chosen, last = set[int](), best[1]
    while last >= 0:
        block, last = nodes[last]
        chosen.add(block)
    return chosen


# --- the pages ----------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[dict[str, Any], str]:
    page = path.parent.parent / "html" / f"{path.stem}.html.gz"
    return json.loads(path.read_text()), gzip.decompress(page.read_bytes()).decode("utf-8", "replace")


def page_of(path: Path) -> Page:
    told, source = read(path)
    root = parse(source)
    blocks = shown_blocks(source, root)
    gold = told["ground_truth"].get("main_content") or ""
    host = urlsplit(told.get("url") or "").hostname or path.stem
    kind = told["_internal"]["page_type"]["primary"]
    site = registrable_domain(host) or host
    if not blocks:
        none = np.zeros(0)
        return Page(path.stem, site, kind, [], [], none, none, none, [], gold)
    features = PageFeatures(source, root, blocks)
    content = np.zeros(len(blocks), bool)
    content[sorted(content_blocks(blocks, gold))] = True
    return Page(
        path.stem,
        site,
        kind,
        features.page_tokens(),
        [list(features.block_tokens(i)) for i in range(len(blocks))],
        features.numbers(),
        features.words,
        content,
        blocks,
        gold,
    )


def pages_of(folder: Path) -> list[Page]:
    with ProcessPoolExecutor() as pool:
        return list(pool.map(page_of, sorted((folder / "ground-truth").glob("*.json")), chunksize=8))


# --- fitting ------------------------------------------------------------------------------------------------


class Types(NamedTuple):
    names: list[str]
    weights: Floats
    bias: Floats

    def of(self, page: Page) -> Floats:
        return html_content.type_probabilities(page.tokens, self.weights, self.bias)


def _counted(tokens: list[list[int]]) -> Any:
    """A row for each list, of how often it has each token."""
    from scipy.sparse import csr_matrix

    index = np.concatenate([np.array(row, np.int32) for row in tokens])
    starts = np.cumsum([0, *map(len, tokens)])
    counts = csr_matrix((np.ones(len(index), np.float32), index, starts), shape=(len(tokens), TABLE))
    counts.sum_duplicates()
    return counts


def fit_types(pages: list[Page]) -> Types:
    from sklearn.linear_model import LogisticRegression

    said = _counted([page.tokens for page in pages])
    model = LogisticRegression(C=0.1, max_iter=300).fit(said, [page.type for page in pages])
    return Types(list(model.classes_), model.coef_, model.intercept_)


def fit_block_weights(pages: list[Page]) -> Floats:
    """A weight for each token of a block: a linear model of whether it is content."""
    from sklearn.linear_model import LogisticRegression

    said = _counted([tokens for page in pages for tokens in page.block_tokens])
    model = LogisticRegression(C=0.05, max_iter=100)
    model.fit(said, np.concatenate([page.content for page in pages]), sample_weight=_weights(pages))
    found: Floats = model.coef_[0].astype(np.float16).astype(np.float64)
    return found


def _weights(pages: list[Page]) -> Floats:
    """Each page counts as much as any other, and in it each word."""
    weight: Floats = np.concatenate([(page.words + 1) / (page.words + 1).sum() for page in pages])
    return weight / weight.mean()


def scores(page: Page, weights: Floats) -> Floats:
    return np.array([weights[tokens].sum() for tokens in page.block_tokens])


class Told(NamedTuple):
    """What models say of a page that did not see its site: of its types, and by its blocks' tokens."""

    types: Floats
    scores: Floats


def rows_of(page: Page, told: Told) -> Floats:
    return html_content.block_rows(page.numbers, told.types, told.scores)


def fit_trees(pages: list[Page], told: list[Told]) -> Trees:
    import lightgbm

    rows = np.vstack([rows_of(page, each) for page, each in zip(pages, told, strict=True)])
    held = lightgbm.Dataset(rows, np.concatenate([page.content for page in pages]), weight=_weights(pages))
    trees = lightgbm.train(BOOSTING, held, ROUNDS).dump_model()["tree_info"]
    return _packed([tree["tree_structure"] for tree in trees])


def _packed(trees: list[dict[str, Any]]) -> Trees:
    feature, threshold, children, value = list[int](), list[float](), list[int](), list[float]()
    deepest = 0

    def pack(node: dict[str, Any], depth: int) -> int:
        nonlocal deepest
        deepest = max(deepest, depth)
        at = len(feature)
        inner = "split_feature" in node
        assert not inner or node["decision_type"] == "<="
        feature.append(node["split_feature"] if inner else 0)
        threshold.append(node["threshold"] if inner else 0.0)
        value.append(0.0 if inner else node["leaf_value"])
        children.extend((at, at))
        if inner:
            children[2 * at] = pack(node["left_child"], depth + 1)
            children[2 * at + 1] = pack(node["right_child"], depth + 1)
        return at

    roots = [pack(tree, 0) for tree in trees]
    whole = [np.array(numbers, np.int64) for numbers in (feature, children, roots)]
    return Trees(whole[0], np.array(threshold), whole[1], np.array(value), whole[2], deepest)


class Judged(NamedTuple):
    expected: float
    f1: float
    type: str


def judged(page: Page, told: Told, names: list[str], trees: Trees) -> Judged:
    if not page.blocks:
        return Judged(0.0, word_f1("", page.gold), "")
    probability = 1 / (1 + np.exp(-trees.sums(rows_of(page, told))))
    kept, expected = html_content.select(names, told.types, probability, page.words)
    html_content.keep_between(page.blocks, kept)
    text = "\n".join(block.plain for block, keep in zip(page.blocks, kept, strict=True) if keep)
    return Judged(expected, word_f1(text, page.gold), names[int(told.types.argmax())])


def left_out(pages: list[Page]) -> list[Told]:
    """What is told of each page by models that saw no page of its site."""
    found = {}
    for part in range(PARTS):
        seen = [page for page in pages if part_of(page) != part]
        types, weights = fit_types(seen), fit_block_weights(seen)
        for page in pages:
            if part_of(page) == part:
                found[page.name] = Told(types.of(page), scores(page, weights))
    return [found[page.name] for page in pages]


def part_of(page: Page) -> int:
    return zlib.crc32(page.site.encode()) % PARTS


def calibration(results: list[Judged], knots: int = 12) -> tuple[Floats, Floats]:
    """What the expected F1 turned out to be, by parts of equal size, never falling."""
    ordered = sorted(results, key=lambda x: x.expected)
    groups = np.array_split(np.array([(x.expected, x.f1) for x in ordered]), knots)
    expected, out = np.array([group.mean(axis=0) for group in groups]).T
    return expected, np.maximum.accumulate(out)


# --- measuring ----------------------------------------------------------------------------------------------


def trafilatura_f1(path: Path) -> tuple[str, float]:
    import trafilatura

    told, source = read(path)
    gold = told["ground_truth"].get("main_content") or ""
    return path.stem, word_f1(trafilatura.extract(source) or "", gold)


def show(title: str, pages: list[Page], results: list[Judged], peer: dict[str, float]) -> None:
    print(f"{title}, {len(pages)} pages: F1 by words")
    kinds = [*sorted({page.type for page in pages}), "all"]
    for kind in kinds:
        at = [i for i, page in enumerate(pages) if kind in (page.type, "all")]
        own = np.mean([results[i].f1 for i in at])
        other = np.mean([peer[pages[i].name] for i in at])
        right = np.mean([results[i].type == pages[i].type for i in at])
        print(f"  {kind:14} {len(at):5}  ours {own:.3f}  trafilatura {other:.3f}  type right {right:.3f}")


def show_confidence(results: list[Judged], expected: Floats, out: Floats) -> None:
    told = np.interp([x.expected for x in results], expected, out)
    f1 = np.array([x.f1 for x in results])
    bounds = (0.0, 0.6, 0.8, 0.9, 0.95, 1.01)
    for low, high in pairwise(bounds):
        inside = (told >= low) & (told < high)
        if inside.any():
            print(
                f"  confidence {low:.2f} to {min(high, 1):.2f}: {inside.sum():5} pages, told"
                f" {told[inside].mean():.3f}, F1 {f1[inside].mean():.3f}"
            )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("wcxb", type=Path, nargs="?")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.wcxb is None:
        print("WCXB's folder was not given: nothing is measured.")
        return 0
    start = time.monotonic()
    dev, test = pages_of(given.wcxb / "dev"), pages_of(given.wcxb / "test")
    with ProcessPoolExecutor() as pool:
        paths = [
            path for split in ("dev", "test") for path in (given.wcxb / split / "ground-truth").glob("*.json")
        ]
        peer = dict(pool.map(trafilatura_f1, sorted(paths), chunksize=8))
    readable = [page for page in dev if page.blocks]
    told = left_out(readable)
    names = sorted({page.type for page in dev})
    results = {page.name: Judged(0.0, word_f1("", page.gold), "") for page in dev}
    for part in range(PARTS):
        inside = [i for i, page in enumerate(readable) if part_of(page) == part]
        outside = [i for i, page in enumerate(readable) if part_of(page) != part]
        trees = fit_trees([readable[i] for i in outside], [told[i] for i in outside])
        results |= {readable[i].name: judged(readable[i], told[i], names, trees) for i in inside}
    show("dev, each page's site left out", dev, [results[page.name] for page in dev], peer)
    expected, out = calibration([results[page.name] for page in readable])
    if given.write:
        types, trees = fit_types(readable), fit_trees(readable, told)
        np.savez_compressed(
            WEIGHTS,
            types=np.array(types.names),
            type_weights=types.weights.astype(np.float16),
            type_bias=types.bias.astype(np.float32),
            block_weights=fit_block_weights(readable).astype(np.float16),
            feature=trees.feature.astype(np.int16),
            threshold=trees.threshold,
            children=trees.children.astype(np.int16),
            value=trees.value.astype(np.float32),
            roots=trees.roots.astype(np.int16),
            depth=trees.depth,
            expected=expected,
            out=out,
        )
        html_content.model.cache_clear()
    shipped = html_content.model()
    types = Types(shipped.types, shipped.type_weights, shipped.type_bias)
    weights = np.array(shipped.block_weights)
    own = [judged(x, Told(types.of(x), scores(x, weights)), shipped.types, shipped.trees) for x in test]
    show("test, by the shipped model", test, own, peer)
    show_confidence(own, shipped.expected, shipped.out)
    sites = {page.site for page in dev}
    new = [i for i, page in enumerate(test) if page.site not in sites]
    show("test, sites that dev has not", [test[i] for i in new], [own[i] for i in new], peer)
    print(f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
