"""How far the two labellings of ``prose`` agree: F1 of the triples of each relation, kappa of the kinds.

    python benchmarks/gold/prose_agreement.py [--half open|locked|both] [--differs]

F1 is the same whichever labelling is taken for the truth. Exact: the same type, labels and offsets; relaxed:
the same type, and both spans overlap. ``--differs`` names the sentences of the open half that the two label
differently.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold.prose_set import PROSE, Half, Scored, Sentence, matches_exactly, read_sentences, score


@dataclass(frozen=True)
class Agreement:
    """How far two labellings of the same sentences agree."""

    sentences: int
    #: {relation: scores of the second labelling against the first}, and the sum under ``all``.
    triples: dict[str, Scored]
    #: The share of the sentences that have the same kind in both.
    same_kind: float
    kappa: float


def kappa(first: Sequence[str], second: Sequence[str]) -> float:
    """Cohen's kappa: the agreement of two rows of labels above what their frequencies give by chance."""
    if len(first) != len(second) or not first:
        raise ValueError(f"kappa is of two rows of one length above 0, not of {len(first)} and {len(second)}")
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / len(first)
    counts, others = Counter(first), Counter(second)
    chance = sum(counts[kind] * others[kind] for kind in counts) / len(first) ** 2
    return 1.0 if chance == 1 else (observed - chance) / (1 - chance)


def agreement(first: Sequence[Sentence], second: Sequence[Sentence]) -> Agreement:
    """The agreement of two labellings, which hold the same sentences in the same order."""
    if [one.id for one in first] != [one.id for one in second]:
        raise ValueError("the two labellings are not of the same sentences")
    kinds = [[one.kind for one in labelling] for labelling in (first, second)]
    return Agreement(
        sentences=len(first),
        triples=score({one.id: one.triples for one in second}, first),
        same_kind=sum(a == b for a, b in zip(*kinds, strict=True)) / len(first),
        kappa=kappa(*kinds),
    )


def differing(first: Collection[Sentence], second: Collection[Sentence]) -> list[str]:
    """The ids of the sentences that have another kind, another triple or another property in the second."""
    found = []
    for one, other in zip(first, second, strict=True):
        same = len(one.triples) == len(other.triples) and all(
            any(matches_exactly(a, b) and a.properties == b.properties for b in other.triples)
            for a in one.triples
        )
        if one.kind != other.kind or not same:
            found.append(one.id)
    return found


def labellings(half: Half = "both") -> tuple[list[Sentence], list[Sentence]]:
    """Both labellings of one half, or of both."""
    first, second = (
        [one for one in read_sentences(PROSE / f"labels_{name}.jsonl") if half in ("both", one.half)]
        for name in "ab"
    )
    return first, second


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--half", choices=("open", "locked", "both"), default="both")
    parser.add_argument("--differs", action="store_true")
    chosen = parser.parse_args()
    halves = ["both", "open", "locked"] if chosen.half == "both" else [chosen.half]
    for half in halves:
        agreed = agreement(*labellings(cast(Half, half)))
        name = "both halves" if half == "both" else f"{half} half"
        print(f"{name}: {agreed.sentences} sentences")
        for relation, scored in agreed.triples.items():
            print(
                f"  {relation:17} first {scored.exact.gold:3}  second {scored.exact.predicted:3}"
                f"  exact F1 {scored.exact.f1:.3f}  relaxed F1 {scored.relaxed.f1:.3f}"
            )
        print(f"  kind              same {agreed.same_kind:.3f}  kappa {agreed.kappa:.3f}")
    if chosen.differs:
        print("differs in the open half:", *differing(*labellings("open")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
