"""Fit the model that decides which candidates of text are facts, and measure it on repositories left out.

    python benchmarks/gold/fit_relations.py [DATA] [--repositories DIR] [--folds N] [--write] [--wrong]

``DATA`` holds ``prose-relations`` and ``prose-documents`` (default ``$TABOOT_TEST_DATA``), ``DIR`` clones of
the repositories that ``relation_labels.jsonl`` names, each called ``owner+name``. Without ``--write`` it
only measures; with it the clones must all be there. ``--folds 0`` leaves out one repository at a time,
``--halves`` every second one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold import relations
from benchmarks.gold.relations import DOCUMENTS, STRANGERS, UNITS, Labelled, prediction
from taboot_pipelines.extraction.tier_a.prose import deciding
from taboot_pipelines.extraction.tier_a.prose.deciding import LEAST_OF_RELATION, chosen

#: How strongly weights are held to zero.
PENALTY = 0.5
#: Features with a word of the text need so many repositories, others one less.
REPOSITORIES = 3
FORMS = ("table", "arrow", "key-value", "list item", "sentence")
THRESHOLDS = {"table": 0.6, "arrow": 0.5, "key-value": 0.6, "list item": 0.6, "sentence": 0.6}
MODEL = Path(deciding.__file__).with_name("model.json")
#: Features of one relation, which has fewer examples than what all share.
TYPED = re.compile(r"(?:[A-Z]{4,}(?:_[A-Z]+)*|NN)[<>]? ")
WORD = re.compile(r" (?:w|b|a|c|h|gap|lead|label) ")


class Rows:
    """Candidates as a sparse matrix of zeros and ones."""

    def __init__(self, items: Sequence[Labelled]) -> None:
        self.items = items
        self.features = [sorted(set(i.candidate.features)) for i in items]
        self.right = np.array([i.right for i in items], float)
        self.groups = np.array([i.repository for i in items])

    def fit(self, use: np.ndarray, penalty: float = PENALTY) -> dict[str, float]:
        """Return the weights fitted to the rows of a mask."""
        seen: dict[str, set[str]] = defaultdict(set)
        for k in np.flatnonzero(use):
            for feature in self.features[k]:
                if len(seen[feature]) < REPOSITORIES:
                    seen[feature].add(self.groups[k])
        kept = sorted(f for f, g in seen.items() if len(g) >= REPOSITORIES - (not WORD.search(f" {f} ")))
        index = {f: n + 1 for n, f in enumerate(kept)}
        rows, columns = [], []
        picked = np.flatnonzero(use)
        for n, k in enumerate(picked):
            found = [0, *(index[f] for f in self.features[k] if f in index)]
            rows += [n] * len(found)
            columns += found
        row, column = np.array(rows), np.array(columns)
        right = self.right[picked]
        held = np.full(len(kept) + 1, penalty)
        held[0] = 0.0
        for feature, n in index.items():
            if TYPED.match(feature):
                held[n] *= 2
        weight = np.array([2.0 if self.items[k].set == "made" else 1.0 for k in picked])

        def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
            z = np.bincount(row, w[column], len(picked))
            p = 1 / (1 + np.exp(-np.clip(z, -30, 30)))
            value = float(np.sum(weight * (np.logaddexp(0, z) - right * z))) + 0.5 * float(held @ (w * w))
            return value, np.bincount(column, (weight * (p - right))[row], len(w)) + held * w

        w = minimise(loss, np.zeros(len(kept) + 1))
        return {"": w[0], **{f: w[n] for f, n in index.items()}}

    def probabilities(self, weights: dict[str, float], use: np.ndarray) -> np.ndarray:
        z = np.array(
            [weights[""] + sum(weights.get(f, 0.0) for f in self.features[k]) for k in np.flatnonzero(use)]
        )
        return 1 / (1 + np.exp(-z))


def minimise(loss: Any, w: np.ndarray, steps: int = 150, memory: int = 8) -> np.ndarray:
    """Return the minimum of a convex function by L-BFGS."""
    value, slope = loss(w)
    past: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(steps):
        q, kept = slope.copy(), []
        for s, y in reversed(past):
            a = (s @ q) / (y @ s)
            kept.append(a)
            q -= a * y
        if past:
            s, y = past[-1]
            q *= (s @ y) / (y @ y)
        else:
            q /= max(1.0, np.abs(slope).sum())
        for (s, y), a in zip(past, reversed(kept), strict=True):
            q += s * (a - (y @ q) / (y @ s))
        step = 1.0
        while step > 1e-6:
            new = w - step * q
            new_value, new_slope = loss(new)
            if new_value <= value - 1e-4 * step * (q @ slope):
                break
            step /= 2
        else:
            break
        s, y = new - w, new_slope - slope
        if s @ y > 1e-10:
            past = [*past, (s, y)][-memory:]
        done = value - new_value < 1e-6 * max(1.0, abs(value))
        w, value, slope = new, new_value, new_slope
        if done:
            break
    return w


def out_of_fold(rows: Rows, folds: int) -> np.ndarray:
    """Return each candidate's probability by weights fitted without its repository."""
    opened = np.array([i.set != "made" for i in rows.items])
    names = sorted(set(rows.groups[opened]))
    fold = {n: k if folds == 0 else zlib.crc32(n.encode()) % folds for k, n in enumerate(names)}
    found = np.zeros(len(rows.items))
    number = np.array([fold.get(g, -1) for g in rows.groups])
    for k in sorted(set(fold.values())):
        out = number == k
        found[out] = rows.probabilities(rows.fit(~out), out)
    return found


def decided(rows: Rows, p: np.ndarray, least: dict[str, float]) -> list[tuple[float, Labelled]]:
    """Return what is stated at these thresholds, by the rule of the package."""
    pieces: dict[tuple[str, int, int, str], list[int]] = defaultdict(list)
    for k, item in enumerate(rows.items):
        if item.set != "made":
            pieces[item.document, item.segment.text.start, item.segment.text.end, item.set].append(k)
    found = []
    for members in pieces.values():
        by = {id(rows.items[k].candidate): rows.items[k] for k in members}
        segment = rows.items[members[0]].segment
        said = chosen(segment, [(float(p[k]), rows.items[k].candidate) for k in members], least[segment.form])
        found += [(q, by[id(one)]) for q, one in said]
    return found


def predictions(found: Sequence[tuple[float, Labelled]], name: str) -> list[dict[str, Any]]:
    return [prediction(i.document, i.segment, i.candidate) for _, i in found if i.set == name]


def curve(rows: Rows, p: np.ndarray) -> None:
    """Print precision and recall of candidates by form and threshold, both sets together."""
    for form in FORMS:
        shown = []
        for least in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
            said = [i for q, i in decided(rows, p, dict.fromkeys(FORMS, least)) if i.segment.form == form]
            for name in (UNITS, DOCUMENTS):
                mine = [i.right for i in said if i.set == name]
                shown.append(f"{sum(mine)}/{len(mine)}")
            shown.append("|")
        print(f"{form:10}", " ".join(shown))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "data", nargs="?", type=Path, default=Path(os.environ.get("TABOOT_TEST_DATA", "../shared/data"))
    )
    parser.add_argument("--repositories", type=Path)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--halves", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--wrong", action="store_true")
    args = parser.parse_args()
    same_name = relations.scorer(args.data, UNITS).same_name
    others, stated = relations.strangers(args.data, args.repositories) if args.repositories else ([], {})
    missing = {json.loads(line)["repo"] for line in relations.LABELS.read_text("utf-8").splitlines()}
    missing -= {i.repository for i in others}
    if args.write and missing:
        parser.error(
            f"--write needs a clone of each repository; {len(missing)} are missing, as {min(missing)}"
        )
    rows = Rows([*relations.labelled(args.data), *relations.exemplars(same_name), *others])
    if args.halves:
        halves(rows, args.data)
        return
    print(len(rows.items), "candidates,", int(rows.right.sum()), "right")
    p = out_of_fold(rows, args.folds)
    curve(rows, p)
    least = THRESHOLDS
    found = decided(rows, p, least)
    told = {kind for kind, right in of_relations(found).items() if kind and right >= LEAST_OF_RELATION}
    found = [(q, i) for q, i in found if i.candidate.type in told]
    print("relations that are told:", *sorted(told))
    if others:
        of_strangers([i for _, i in found if i.set == STRANGERS], stated)
    for name in (UNITS, DOCUMENTS):
        relations.report(args.data, predictions(found, name), name, wrong=args.wrong)
    if args.wrong:
        for q, i in sorted(found, key=lambda f: -f[0]):
            if not i.right and i.set == UNITS:
                tell("wrong", q, i)
        for k, i in enumerate(rows.items):
            if i.right and i.set == UNITS and p[k] < least[i.segment.form]:
                tell("low", p[k], i)
    if args.write:
        write(rows, p)


def of_strangers(found: Sequence[Labelled], stated: dict[str, float]) -> None:
    """Print precision and recall of what is stated of strangers' pieces, as of all that were drawn from.

    ``stated``: the facts in these by form. Facts of which no candidate is made are among them.
    """
    print("pieces of strangers, as they come:")
    for form in (*FORMS, ""):
        mine = [i for i in found if form in ("", i.segment.form)]
        right = sum(i.weight for i in mine if i.right)
        said, facts = sum(i.weight for i in mine), stated.get(form, 0.0) if form else sum(stated.values())
        shares = f"precision {right / (said or 1):.3f} recall {right / (facts or 1):.3f}"
        counted = f"{sum(i.right for i in mine if i.weight)} of {sum(1 for i in mine if i.weight)}"
        print(f"  {form or 'all':10} {shares}, {counted}")


def tell(what: str, p: float, one: Labelled) -> None:
    """Print a candidate that was decided wrongly, with its probability and the words around it."""
    c = one.candidate
    names = c.start.text, "|", c.end and c.end.text, c.port
    print(what, f"{p:.2f}", one.segment.form, c.type, *names, repr(prose_of(one))[:150])


def halves(rows: Rows, data: Path) -> None:
    """Fit on half of the repositories and score the other half, both ways."""
    opened = np.array([i.set != "made" for i in rows.items])
    for side in (0, 1):
        out = opened & np.array([zlib.crc32(g.encode()) % 2 == side for g in rows.groups])
        p = np.zeros(len(rows.items))
        p[out] = rows.probabilities(rows.fit(~out), out)
        kept = {i.document for k, i in enumerate(rows.items) if out[k]}
        print("half", side)
        for name in (UNITS, DOCUMENTS):
            said = predictions(decided(rows, p, THRESHOLDS), name)
            relations.report(data, [q for q in said if q["path"] in kept], name, only=kept)


def measures(item: Labelled) -> bool:
    """Whether a candidate counts in what is measured, and not for fitting alone."""
    return item.set != STRANGERS or item.weight > 0


def precision(rows: Rows, p: np.ndarray) -> dict[str, list[list[float]]]:
    """Return by form how often what is stated from a probability on was right, out of fold; never falling."""
    found: dict[str, list[list[float]]] = {}
    for form in FORMS:
        drawn = [(q, i) for q, i in decided(rows, p, THRESHOLDS) if measures(i)]
        said = [(q, i.right) for q, i in drawn if i.segment.form == form]
        steps = []
        for least in (THRESHOLDS[form], 0.85, 0.95):
            mine = [right for q, right in said if q >= least]
            # As if one more were wrong and one right: few say little.
            steps.append([least, round((sum(mine) + 1) / (len(mine) + 2), 3)])
        found[form] = [[least, max(s[1] for s in steps[: n + 1])] for n, (least, _) in enumerate(steps)]
    return found


def of_relations(found: Sequence[tuple[float, Labelled]]) -> dict[str, float]:
    """Return how often what is stated of each relation was right, as if one more were wrong and one right."""
    said: dict[str, list[bool]] = defaultdict(list)
    for _, item in found:
        if not measures(item):
            continue
        for kind in (item.candidate.type, ""):
            said[kind].append(bool(item.right))
    return {kind: round((sum(right) + 1) / (len(right) + 2), 3) for kind, right in sorted(said.items())}


def write(rows: Rows, p: np.ndarray) -> None:
    """Write the model of the package, fitted to all rows."""
    weights = rows.fit(np.ones(len(rows.items), bool))
    kept = {f: round(float(w), 3) for f, w in sorted(weights.items()) if abs(w) >= 0.01}
    lines: list[str] = []
    for feature, weight in kept.items():
        said = f"{json.dumps(feature, ensure_ascii=False)}: {weight:g}"
        if lines and len(lines[-1]) + len(said) < 106:
            lines[-1] += f", {said}"
        else:
            lines.append(said)
    text = ",\n".join(lines)
    head = {
        "thresholds": THRESHOLDS,
        "precision": precision(rows, p),
        "relations": of_relations(decided(rows, p, THRESHOLDS)),
    }
    MODEL.write_text(f'{json.dumps(head)[:-1]},\n"weights": {{\n{text}\n}}}}\n', "utf-8")
    print(len(kept), "weights written")


def prose_of(item: Labelled) -> str:
    return item.segment.text.plain or " | ".join(c.plain for c in item.segment.cells)


if __name__ == "__main__":
    main()
