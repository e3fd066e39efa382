"""What a statement must be about that answers a question, and what it must carry: the words of the question,
each by how much it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields

from taboot_pipelines.packaged import word_list
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import Reading, Value, carries, read
from taboot_pipelines.shards.analyzer import STOP_WORDS, analyze

#: Terms of a question that are looked at; the rest of a longer one is taken to repeat them.
MAX_TERMS = 32
_MIN_WEIGHT, _MAX_WEIGHT = 0.6, 6.0
_DENIAL_WEIGHT = 3.0
#: What a synonym counts of the word itself, and what the parts of a compound count where they stand apart.
_SYNONYM, _PARTS = 0.85, 0.9
_ASKING = word_list("taboot_pipelines.retrieval.answering", "asking_words.txt")
#: Of verbs that say nothing themselves (to do, to take, to come) no form does.
_ASKING_VERBS = frozenset(map(words.stem, ("do", "take", "come", "happen", "get", "go")))
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
#: Auxiliaries that deny, as they are typed without their apostrophe.
_CONTRACTED = re.compile(r"(?:do|does|did|is|are|was|were|has|have|had|ca|could|should|would|wo|must|need)nt")
#: A letter that tells things of one kind apart (hall B); the others are articles or ends of contractions.
_LETTER = re.compile(r"[b-ce-hj-lnp-rv-z]")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question. ``form``: what it is found by (a stem or a compound); ``parts``: the stems of a
    compound; ``weight``: how much it says.
    """

    text: str
    form: str
    parts: tuple[str, ...]
    group: str | None
    weight: float

    def stands(self, forms: frozenset[str]) -> float:
        """How much of the term stands among ``forms``: 1 for itself, less for the parts of a compound or a
        synonym, 0 for nothing."""
        if self.form in forms:
            return 1.0
        if self.parts:
            return _PARTS * sum(p in forms for p in self.parts) / len(self.parts)
        return _SYNONYM if self.group is not None and self.group in forms else 0.0


@dataclass(frozen=True, slots=True)
class TextQuery(Reading):
    """A question as it is read, with its words."""

    terms: tuple[Term, ...]


def read_question(question: str, idf: Callable[[str], float]) -> TextQuery:
    """What ``question`` asks. ``idf``: of a term of the keyword index."""
    reading = read(question)
    folded, value = reading.folded, reading.value
    asking = set(_ASKING)
    capitals: set[str] = set()
    if not question.isupper():
        # What is written in capitals is called so: a key ON, a button TAKE.
        capitals = set(_CAPITALS.findall(question))
        asking -= {w.lower() for w in capitals}
    if re.search(r"\b(?:in|since|until|by|before|after|of|last|this) may\b|\bmay \d", folded):
        asking.discard("may")
    if value in (Value.DURATION, Value.FREQUENCY):
        asking |= {"last", "lasts", "lasted", "stay", "stays", "valid", "time", "far"}
    elif value is Value.REASON:
        asking |= {"cause", "caused", "causes", "reason"}
    elif value is Value.PLACE:
        asking |= {
            "come",
            "comes",
            "kept",
            "stored",
            "located",
            "found",
            "saved",
            "lie",
            "lies",
            "live",
            "lives",
            "placed",
            "end",
            "ends",
            "up",
        }
    found: dict[str, Term] = {}
    runs = [run.removesuffix("'s") for run in words.runs(folded)]
    for run in runs:
        run = words.numbered(run)
        form = words.stem(run)
        if run in STOP_WORDS or run in asking or _CONTRACTED.fullmatch(run):
            continue
        if len(run) < 2 and not run.isdigit() and not _LETTER.fullmatch(run):
            continue
        if form in _ASKING_VERBS and run.upper() not in capitals:
            continue
        if form in found or len(found) >= MAX_TERMS:
            continue
        own = (
            tuple(words.stem(p) for p in words.parts(run) if p not in STOP_WORDS)
            if not run.isalnum() and not words.is_dotted(run)
            else ()
        )
        known = [idf(t) for t in analyze(run)[0]]
        weight = min(max(max(known, default=_MAX_WEIGHT), _MIN_WEIGHT), _MAX_WEIGHT)
        found[form] = Term(run, form, own, words.group(form), weight)
    if words.DENIES.search(folded) and value is not Value.YES_NO:
        found[words.DENIAL] = Term("not", words.DENIAL, (), None, _DENIAL_WEIGHT)
    return TextQuery(
        **{f.name: getattr(reading, f.name) for f in fields(reading)}, terms=tuple(found.values())
    )


def says(asked: TextQuery, said: str) -> bool:
    """Whether a text carries the kind of value asked for, which the question does not hold itself."""
    return carries(asked.value, said, frozenset(words.runs(words.fold(asked.question))))
