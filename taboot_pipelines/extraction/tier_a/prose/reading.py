"""What a document states: its segments, the names it uses, their candidates, and which of these count."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.prose.arrows import arrow_candidates, diagram
from taboot_pipelines.extraction.tier_a.prose.deciding import chosen, packaged
from taboot_pipelines.extraction.tier_a.prose.pairs import Candidate, text_candidates
from taboot_pipelines.extraction.tier_a.prose.segments import ARROW, Segment, segments
from taboot_pipelines.extraction.tier_a.prose.tables import name_of, table_candidates
from taboot_pipelines.extraction.tier_a.prose.things import Vocabulary, addresses, names, ordinary

#: Forms whose structure says what relates; the others are sentences.
STRUCTURED = frozenset(("table", "arrow", "key-value"))
SENTENCES = frozenset(("list item", "sentence"))
#: A longer sentence is a list, or no sentence.
_LONGEST = 1500
_CAPITAL = re.compile(r"(?<=[a-z,;(] )[A-Z][A-Za-z0-9]+(?:[ -][A-Z][A-Za-z0-9]+)*")


def vocabulary_of(source: str, pieces: list[Segment]) -> Vocabulary:
    """Return the names that a document uses as names."""
    found = Vocabulary()
    for match in _CAPITAL.finditer(source):
        found.add(match[0])
    for piece in pieces:
        for text in (piece.text, *piece.cells):
            for start, end, _ in text.marks:
                if end - start < 48:
                    found.add(text.plain[start:end].strip(" :."))
        if piece.form == "table" and piece.cells:
            subject = name_of(piece.cells[0])
            if subject is not None:
                found.add(subject.text)
                if any(addresses(c) for c in piece.cells[1:]):
                    found.systems.add(subject.text.lower())
        elif piece.form in ("key-value", "list item"):
            said = addresses(piece.text)
            if said:
                for name in names(piece.text, said)[:1]:
                    found.systems.add(name.text.lower())
    for heading in {h for p in pieces for h in p.headings}:
        for word in [heading, *heading.split()]:
            if not ordinary(word):
                found.add(word.strip("`*:"))
    return found


@dataclass(frozen=True, slots=True)
class Stated:
    """A candidate that counts, with how probable it is and how often such were right."""

    segment: Segment
    candidate: Candidate
    probability: float
    confidence: float


def stated(source: str, forms: Collection[str]) -> Iterator[Stated]:
    """Yield what the pieces of these forms state, in order."""
    model = packaged()
    for segment, found in candidates(source, forms):
        scored = [(model.probability(one.features), one) for one in found if model.tells(one.type)]
        for p, one in chosen(segment, scored, model.thresholds[segment.form]):
            yield Stated(segment, one, p, model.confidence(segment.form, one.type, p))


#: What is struck out (GitHub Flavored Markdown, 6.5) holds no more.
_STRUCK = re.compile(r"~~[^~\n]+~~")


def _is_struck(piece: Segment) -> bool:
    return any(_STRUCK.search(text.plain) is not None for text in (piece.cells[:1] or [piece.text]))


def candidates(
    source: str, forms: Collection[str] = STRUCTURED | SENTENCES
) -> Iterator[tuple[Segment, list[Candidate]]]:
    """Yield the pieces of a Markdown text that have one of these forms, with their candidates."""
    pieces = segments(source)
    if not any(piece.form in forms for piece in pieces):
        return
    vocabulary = vocabulary_of(source, pieces)
    fences: dict[int, list[Segment]] = defaultdict(list)
    for piece in pieces:
        if piece.fence is not None:
            fences[piece.group].append(piece)
    drawn = {group: diagram(lines) for group, lines in fences.items()}
    for piece in pieces:
        if piece.form not in forms or _is_struck(piece):
            continue
        found: list[Candidate] = []
        if piece.form == "table":
            found += table_candidates(piece, vocabulary)
        if piece.fence is not None:
            found += arrow_candidates(piece, drawn[piece.group], vocabulary)
        elif piece.form == "arrow":
            found += arrow_candidates(piece, None, vocabulary)
        if piece.form != "table" and piece.fence is None and len(piece.text.plain) < _LONGEST:
            said = addresses(piece.text)
            things = sorted([*said, *names(piece.text, said, vocabulary)], key=lambda t: t.start)
            for one in text_candidates(piece, things, vocabulary):
                if (
                    piece.form == "arrow"
                    and one.end is not None
                    and one.end.kind == "name"
                    and ARROW.search(piece.text.plain)
                ):
                    continue
                one.start_place = piece.text.place(one.start.start, one.start.end)
                if one.end is not None:
                    one.end_place = piece.text.place(one.end.start, one.end.end)
                found.append(one)
        if found:
            yield piece, found
