"""What a statement must be about that answers a question, and what it must carry: the words of the question,
each by how much it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

from taboot_pipelines.packaged import word_list
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import Reading, Value, carries, read
from taboot_pipelines.shards.analyzer import STOP_WORDS, analyze

#: Terms of a question that are looked at; the rest of a longer one is taken to repeat them.
MAX_TERMS = 32
_MIN_WEIGHT, _MAX_WEIGHT = 0.6, 6.0
#: A name that stands in many chunks ("web", "app") is a word like others.
_MIN_NAME = 2.5
#: A folder's name that so few texts hold is no word like others (docs, config).
_MIN_TOPIC = 4.0
_DENIAL_WEIGHT = 3.0
#: What a synonym counts of the word itself, and what the parts of a compound count where they stand apart.
_SYNONYM, _PARTS = 0.85, 0.9
#: No text holds it.
_UNKNOWN = "\uffff"


#: The word behind an auxiliary verb, "of" or "for" is the thing, or the first word of its name; a participle
#: is not.
_SUBJECT = re.compile(
    r"\b(?:does|do|did|is|are|was|were|has|have|had|will|of|for)"
    r" (?:(?:the|an?|our|my|its|their|your|own) )*(?!\w{2,}[^\We]ed\b)([\w./:-]*\w)"
)
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
    compound; ``weight``: how much it says; ``name``: something in the knowledge base is called that;
    ``unknown``: no document holds it; ``subject``: by its place it is what the question is about; ``topic``:
    a folder of documents is called that.
    """

    text: str
    form: str
    parts: tuple[str, ...]
    group: str | None
    weight: float
    name: bool
    unknown: bool = False
    subject: bool = False
    topic: bool = False

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

    @property
    def weight(self) -> float:
        return sum(t.weight for t in self.terms)


def read_question(
    question: str, idf: Callable[[str], float], names: Collection[str] = (), topics: Collection[str] = ()
) -> TextQuery:
    """What ``question`` asks. ``idf``: of a term of the keyword index; ``names``: what things are called, and
    ``topics`` folders of documents, lower-cased.
    """
    reading = read(question)
    folded, value = reading.folded, reading.value
    subjects = frozenset(_SUBJECT.findall(folded))
    strange = idf(_UNKNOWN)
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
        name = weight >= _MIN_NAME and run in names
        unknown = max(known, default=0.0) >= strange
        topic = weight >= _MIN_TOPIC and run in topics
        found[form] = Term(run, form, own, words.group(form), weight, name, unknown, run in subjects, topic)
    if words.DENIES.search(folded) and value is not Value.YES_NO:
        found[words.DENIAL] = Term("not", words.DENIAL, (), None, _DENIAL_WEIGHT, name=False)
    return TextQuery(
        **{f.name: getattr(reading, f.name) for f in fields(reading)}, terms=tuple(found.values())
    )


def says(asked: TextQuery, said: str) -> bool:
    """Whether a text carries the kind of value asked for, which the question does not hold itself."""
    return carries(asked.value, said, frozenset(words.runs(words.fold(asked.question))))


# --- Words of a question that no document holds, as the passages found for it write them: without slips of
#     the pen, in full where the question shortens them, shortened where it writes them in full

#: Shorter words have too many others beside them to be corrected, or to be the beginning of.
_MIN_CORRECTED, _MIN_SHORTENED = 5, 4
#: Words whose first letters make an abbreviation.
_MIN_INITIALS, _MAX_INITIALS = 2, 4


#: What is done anew.
_AGAIN = re.compile(r"re-?(?=\w{4})")


def corrected(asked: TextQuery, held: frozenset[str], texts: Iterable[str]) -> TextQuery:
    """The question with its strange words (that no document holds) as the passages write them, each if there
    is only one such word. ``held``: the forms of the passages' statements; ``texts``: what they say.
    """
    strange = [t for t in asked.terms if t.unknown and t.text.isalpha() and t.form not in held]
    meant = _joined(asked, held)
    if not (strange or meant):
        return asked
    for term in strange:
        near = _longer(term.text, held)
        if not near and len(term.text) >= _MIN_CORRECTED:
            near = sorted(f for f in held if f.isalpha() and words.is_slip(term.form, f))
        near = near or _longer(term.form, held)
        again = _AGAIN.match(term.form)
        if not near and again and term.form[again.end() :] in held:
            near = [term.form[again.end() :]]
        if len(near) == 1:
            meant[term.form] = near[0]
    meant |= _initials(asked, [t for t in strange if t.form not in meant], held, texts)
    terms = tuple(
        replace(t, form=meant[t.form], group=words.group(meant[t.form])) if t.form in meant else t
        for t in asked.terms
    )
    return replace(asked, terms=terms)


def _joined(asked: TextQuery, held: frozenset[str]) -> dict[str, str]:
    """Of two words of the question that stand together the one that the passages make of them."""
    runs = words.runs(asked.folded)
    found: dict[str, str] = {}
    for left, right in pairwise(runs):
        form = words.stem(left + right)
        if len(left) > 1 and len(right) > 1 and form in held and (left + right).isalpha():
            found |= {words.stem(left): form, words.stem(right): form}
    return found


def _longer(word: str, held: frozenset[str]) -> list[str]:
    """The words that begin with ``word``."""
    return [f for f in held if f.isalpha() and f.startswith(word)] if len(word) >= _MIN_SHORTENED else []


def _initials(
    asked: TextQuery, strange: Sequence[Term], held: frozenset[str], texts: Iterable[str]
) -> dict[str, str]:
    """Of the words of a phrase ("mean time between failures") their abbreviation, if the passages write it in
    capitals and hold none of the words.
    """
    wanted = {t.form for t in strange}
    runs = [(run, words.stem(run)) for run in words.runs(asked.folded)]
    phrases = []
    for size in range(_MAX_INITIALS, _MIN_INITIALS - 1, -1):
        for at in range(len(runs) - size + 1):
            part = runs[at : at + size]
            if part[0][1] in wanted and all(form in wanted for _, form in part):
                phrases.append(("".join(run[0] for run, _ in part), [form for _, form in part]))
    phrases = [(letters, forms) for letters, forms in phrases if letters in held]
    if not phrases:
        return {}
    said = "\n".join(texts)
    for letters, forms in phrases:
        if re.search(rf"\b{letters.upper()}\b", said):
            return dict.fromkeys(forms, letters)
    return {}
