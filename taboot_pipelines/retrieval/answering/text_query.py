"""What a statement must be about that answers a question, and what it must carry: the words of the question,
each by how much it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise, zip_longest

from taboot_pipelines.packaged import word_list
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import (
    AMOUNT,
    MONTH,
    SAID_BY,
    UNITS,
    WEEKDAY,
    Reading,
    Value,
    carries,
    read,
)
from taboot_pipelines.shards.analyzer import STOP_WORDS, analyze

#: Terms of a question that are looked at; the rest of a longer one is taken to repeat them.
MAX_TERMS = 32
_MIN_WEIGHT, _MAX_WEIGHT = 0.6, 6.0
#: What words say that belong to asking more than to what is asked.
_FAINT = 0.3
#: A name that stands in many chunks ("web", "app") is a word like others.
_MIN_NAME = 2.5
_DENIAL_WEIGHT = 3.0
#: What is left of the coverage of a statement that lacks a number or date of the question, the thing asked
#: about, the property asked for, a word that no document holds.
_WITHOUT_NUMBER, _WITHOUT_SUBJECT, _WITHOUT_FOCUS, _WITHOUT_UNKNOWN = 0.6, 0.65, 0.75, 0.75
#: No text holds it.
_UNKNOWN = "\uffff"


#: The word behind an auxiliary verb, "of" or "for" is the thing, or the first word of its name.
_SUBJECT = re.compile(
    r"\b(?:does|do|did|is|are|was|were|has|have|had|will|of|for) (?:the |an? |our |my |its )?([\w./:-]*\w)"
)
_NUMBER = re.compile(rf"\d+(?:[.,]\d+)?|(?:{AMOUNT}|no|none|both|single)")
_COUNT_FIRST = re.compile(rf"\W*(?:{AMOUNT}) [^\W\d_]", re.IGNORECASE)
#: Words between a number and what it counts.
_COUNT_REACH = 3
_HARD = re.compile(rf"\d|^(?:{MONTH}|{WEEKDAY}|[b-z])$")

_ASKING = word_list("taboot_pipelines.retrieval.answering", "asking_words.txt")
#: Of verbs that say nothing themselves (to do, to take, to come) no form does.
_ASKING_VERBS = frozenset(map(words.stem, ("do", "take", "come", "happen", "get", "go")))
#: It tells one of several things from the others, before what is counted so.
_ORDINAL = re.compile(r"(?:second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th))")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
#: Auxiliaries that deny, as they are typed without their apostrophe.
_CONTRACTED = re.compile(r"(?:do|does|did|is|are|was|were|has|have|had|ca|could|should|would|wo|must|need)nt")
#: A letter that tells things of one kind apart (hall B); the others are articles or ends of contractions.
_LETTER = re.compile(r"[b-ce-hj-lnp-rv-z]")
#: A short name with a digit in it: the word before says what is called so (error E7, phase 2).
_CALLED = re.compile(r"[a-z]{0,2}\d{1,3}[a-z]?")
#: They say a little: a statement without them may still answer.
_LITTLE = word_list("taboot_pipelines.retrieval.answering", "faint_words.txt")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question. ``form``: what it is found by (a stem or a compound); ``parts``: the stems of a
    compound; ``weight``: how much it says; ``missing``: what the coverage of a statement without it
    is multiplied by; ``name``: something in the knowledge base is called that;
    ``unknown``: no document holds it.
    """

    text: str
    form: str
    parts: tuple[str, ...]
    group: str | None
    weight: float
    missing: float
    name: bool
    unknown: bool = False

    @property
    def defining(self) -> bool:
        """Whether what lacks it is about another thing, however like it is: a number, a date, the thing asked
        about where no document knows it."""
        return self.missing == _WITHOUT_NUMBER or (self.unknown and self.missing == _WITHOUT_SUBJECT)


@dataclass(frozen=True, slots=True)
class TextQuery(Reading):
    """A question as it is read, with its words."""

    terms: tuple[Term, ...]

    @property
    def weight(self) -> float:
        return sum(t.weight for t in self.terms)


def read_question(question: str, idf: Callable[[str], float], names: Collection[str] = ()) -> TextQuery:
    """What ``question`` asks. ``idf``: of a term of the keyword index; ``names``: what things are called,
    lower-cased.
    """
    reading = read(question)
    folded, value = reading.folded, reading.value
    focus = frozenset(words.runs(reading.noun))
    subjects = frozenset(_SUBJECT.findall(folded))
    unknown = idf(_UNKNOWN)
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
    for run, following in zip_longest(runs, runs[1:], fillvalue=""):
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
        if run in _LITTLE:
            weight *= _FAINT
        name = weight >= _MIN_NAME and run in names
        strange = max(known, default=0.0) >= unknown
        missing = 1.0
        if run.isalpha() and _CALLED.fullmatch(following) and not name:
            weight *= _FAINT
        elif _HARD.search(run) or (_ORDINAL.fullmatch(run) and _is_content(following, asking)):
            missing = _WITHOUT_NUMBER
        elif run in subjects and run not in _LITTLE:
            missing = _WITHOUT_SUBJECT
        elif run in focus and run not in _LITTLE:
            missing = _WITHOUT_FOCUS
        elif strange and run not in _LITTLE:
            missing = _WITHOUT_UNKNOWN
        found[form] = Term(run, form, own, words.group(form), weight, missing, name, strange)
    if words.DENIES.search(folded) and value is not Value.YES_NO:
        found[words.DENIAL] = Term("not", words.DENIAL, (), None, _DENIAL_WEIGHT, 1.0, name=False)
    return TextQuery(
        **{f.name: getattr(reading, f.name) for f in fields(reading)}, terms=tuple(found.values())
    )


def _is_content(run: str, asking: Collection[str]) -> bool:
    return bool(run) and not (run in STOP_WORDS or run in asking or run in _LITTLE)


_BYTES = re.compile(r"\b\d+(?:\.\d+)? ?[kmgt]i?b?\b", re.IGNORECASE)
_MEASURED = frozenset({"memori", "ram", "storag", "size", "space"})


def implied(term: Term, value: Value | None, said: str) -> bool:
    """Whether a statement that carries the kind of value thereby says the term."""
    if value is not None and term.form in SAID_BY.get(value, ()):
        return True
    if term.form in _MEASURED and _BYTES.search(said):
        return True
    unit = UNITS.get(term.form) if value is Value.NUMBER else None
    return unit is not None and bool(unit.search(said))


def counted(asked: TextQuery, said: str, above: Collection[str] = ()) -> bool:
    """Whether a statement counts what "how many" asks for: a number stands near it, or begins the statement
    below a heading that names it (``above``: the forms of headings and lead-in).
    """
    if asked.counted is None:
        return True
    if asked.counted in above and _COUNT_FIRST.match(said):
        return True
    runs = words.runs(words.fold(said))
    stems = [[words.stem(p) for p in words.parts(run)] for run in runs]
    at = [i for i, own in enumerate(stems) if asked.counted in own]
    numbers = [i for i, run in enumerate(runs) if _NUMBER.fullmatch(run)]
    return any(abs(i - j) <= _COUNT_REACH for i in at for j in numbers)


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
