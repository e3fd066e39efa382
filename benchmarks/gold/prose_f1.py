"""The reader of prose against its labels: precision, recall and F1 of each relation.

    python benchmarks/gold/prose_f1.py [--set gold|later] [--half open|locked] [--missing]

A sentence of Markdown is read in its file, as the product reads it. One of HTML is read with its headings and
the introduction of its list as Markdown, since the labels stand in the raw file and the product reads what a
page's main content becomes. Two spans of a name match if they overlap, as ``prose/GUIDE.md`` has it; *exact*
wants equal spans and labels. ``--missing`` prints what was found in vain and what was missed, of the open
half only.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold.prose_set import (
    PROSE,
    SETS,
    End,
    ProseSet,
    Scored,
    Sentence,
    Triple,
    matches_relaxed,
    score,
)
from taboot_pipelines.extraction.tier_a.prose.reading import SENTENCES, STRUCTURED, Stated, stated
from taboot_pipelines.model.graph import EDGES


def found_in(gold: ProseSet) -> dict[str, list[Triple]]:
    """{id of a sentence: what the reader finds in it}."""
    found: dict[str, list[Triple]] = defaultdict(list)
    by_file: dict[str, list[Sentence]] = defaultdict(list)
    for sentence in gold.sentences:
        by_file[sentence.file].append(sentence)
    files = sorted(file for file in by_file if not file.endswith(".html"))
    for file in files:
        for said in stated(gold.document(file), STRUCTURED | SENTENCES):
            triple, text = _triple(said), said.segment.text
            for sentence in by_file[file]:
                if max(text.start, sentence.start) < min(text.end, sentence.end):
                    found[sentence.id].append(triple)
    pages = [s for s in gold.sentences if s.file.endswith(".html")]
    for page in (Rebuilt(gold, sentence) for sentence in pages):
        for said in stated(page.text, STRUCTURED | SENTENCES):
            if said.segment.text.start < page.begin:
                continue  # The introduction's own.
            triple = _triple(said)
            ends = page.placed(triple.subject), page.placed(triple.object)
            found[page.sentence.id].append(Triple(triple.type, *ends))
    return found


class Rebuilt:
    """A sentence of a page as Markdown of its own, below its headings."""

    def __init__(self, gold: ProseSet, sentence: Sentence) -> None:
        self.sentence = sentence
        self._shown = gold.shown(sentence)
        self.text = ""
        #: Where each heading begins in ``text``, and the code points of the file that it stands for.
        self._headings: list[tuple[int, End]] = []
        for level, (heading, span) in enumerate(
            zip(gold.headings(sentence), sentence.headings, strict=True), 1
        ):
            self._headings.append((len(self.text), End(span.start, span.end, label="", context=True)))
            self.text += f"{'#' * min(level, 6)} {heading}\n\n"
        introduction = gold.introduction(sentence)
        if introduction:
            self.text += f"{' '.join(introduction.split())}\n\n- "
        said = self._shown.text
        stripped = said.lstrip("-*+ \n")
        self.begin, self._skipped = len(self.text), len(said) - len(stripped)
        self.text += stripped.replace("\n", " ")

    def placed(self, end: End) -> End:
        """The end where it stands in the file."""
        if end.start >= self.begin:
            first = end.start - self.begin + self._skipped
            span = self._shown.span(first, first + end.end - end.start)
            return End(span.start, span.end, label=end.label, context=end.context)
        number = bisect_right([at for at, _ in self._headings], end.start) - 1
        whole = self._headings[number][1]
        return End(whole.start, whole.end, label=end.label, context=True)


def _triple(said: Stated) -> Triple:
    one = said.candidate
    end_place = one.end_place if one.end is not None else (one.start_place[0], one.start_place[0] + 1)
    return Triple(one.type, _end(one.start_place, one.type, "start"), _end(end_place, one.type, "end"))


def _end(place: tuple[int, int], type_: str, side: str) -> End:
    allowed = EDGES[type_].start if side == "start" else EDGES[type_].end
    return End(*place, label="Service" if "Service" in allowed else sorted(allowed)[0], context=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--half", choices=("open", "locked"), default="open")
    parser.add_argument("--set", choices=SETS, default="gold")
    parser.add_argument("--missing", action="store_true")
    options = parser.parse_args()
    gold = ProseSet.load(PROSE / f"{options.set}.jsonl", half=options.half)
    found = found_in(gold)
    print(
        f"{'relation':<18} {'precision':>9} {'recall':>7} {'F1':>6} {'exact F1':>9} {'found':>6} {'gold':>5}"
    )
    for relation, scored in sorted(score(found, gold.sentences).items()):
        _print(relation, scored)
    if options.missing and options.half == "open":
        for sentence in gold.sentences:
            _print_differences(gold, sentence, found.get(sentence.id, []))


def _print_differences(gold: ProseSet, sentence: Sentence, found: list[Triple]) -> None:
    vain = [t for t in found if not any(matches_relaxed(t, own) for own in sentence.triples)]
    missed = [t for t in sentence.triples if not any(matches_relaxed(own, t) for own in found)]
    if vain or missed:
        print(f"\n{sentence.id} {sentence.kind}: {' '.join(gold.text(sentence).split())}")
    for what, triples in (("in vain", vain), ("missed", missed)):
        for triple in triples:
            ends = (" ".join(gold.text(sentence, end).split()) for end in (triple.subject, triple.object))
            print(f"  {what}: {triple.type} {' -> '.join(ends)}")


def _print(relation: str, scored: Scored) -> None:
    relaxed = scored.relaxed
    print(
        f"{relation:<18} {relaxed.precision:9.3f} {relaxed.recall:7.3f} {relaxed.f1:6.3f}"
        f" {scored.exact.f1:9.3f} {relaxed.predicted:6} {relaxed.gold:5}"
    )


if __name__ == "__main__":
    main()
