"""Answers out of what documents state: the statements about the thing asked that carry the kind of value.

A statement *covers* a term of the question where the term, its stem or a synonym stands in it, or in what
belongs to it: what leads in to it, its headings, its document's title and path, its paragraph before it, the
less the further away (:data:`_REACH`). Its coverage is the share of the question's weight (IDF) so covered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import TOLD, Value, carries, to_come
from taboot_pipelines.retrieval.answering.documents import ReadDocument, Words
from taboot_pipelines.retrieval.answering.nearest import Near
from taboot_pipelines.retrieval.answering.text_query import Term, TextQuery, corrected, counted, implied
from taboot_pipelines.retrieval.sentences import Form, TextStatement

# --- How sure an answer out of text is, from 0 to 1, and from where on it is given
#
# A logistic function of three features, none of which lowers it as it grows, so that an answer that fits
# better in every way is never less sure. The constants were fitted on the open half of the questions of
# ``benchmarks/answers`` (whether the best statement is right), by ``benchmarks/answer_confidence.py``,
# which also prints how well it holds on the other half.


class Features(NamedTuple):
    """What is known of how well a statement answers, each from 0 to 1.

    ``coverage``: the share of the question's weight (IDF) that it and what belongs to it cover, less where
    the property or the thing asked about is missing; ``names``: how well the least covered
    name of the question is covered; ``similarity``: the cosine of its passage's vector and the question's.
    That it carries the kind of value asked for is no feature: without it no statement is
    considered. ``meaning``: the cosine of the statement itself and the question's, 0 where they were not
    compared.
    """

    coverage: float
    names: float
    similarity: float
    meaning: float = 0.0


#: Constant, then a weight for each feature. That of names was not fitted: near misses are what it is for, and
#: the questions hold too few whose name is covered in part.
_CONSTANT = -6.39
_WEIGHTS = Features(coverage=5.52, names=2.0, similarity=1.99, meaning=0.0)
#: Below it nothing is said: chosen on the open half, so that of the questions that text answers one in ten at
#: most is left unanswered, and of those that nothing answers nine in ten are.
THRESHOLD = 0.38


#: A statement that means what is asked answers in other words, if it says so much of it and its names.
_MIN_MEANING, _MIN_COVERAGE, _MIN_NAMES = 0.6, 0.3, 0.8


def confidence(features: Features) -> float:
    """The probability that the statement answers, by the fit; no less than half-way from the threshold to its
    likeness in meaning where that is great."""
    z = _CONSTANT + math.fsum(w * x for w, x in zip(_WEIGHTS, features, strict=True))
    sure = 1 / (1 + math.exp(-z))
    close = features.meaning >= _MIN_MEANING and features.coverage >= _MIN_COVERAGE
    if close and features.names >= _MIN_NAMES:
        sure = max(sure, (THRESHOLD + features.meaning) / 2)
    return round(sure, 4)


# --- What differs in one word only: sections that stand beside each other (what "Import" says is not said
#     of the export, though the title names both), and things of one kind (hall B, the third pier)

_ORDINAL = r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th))"
#: A number or letter behind what is told apart by it, or an ordinal before.
_BEHIND = re.compile(r"\b([^\W\d_]{3,}) (\d{1,3}|[b-ce-hj-lnp-rv-z])(?![\w.:%-])")
_BEFORE = re.compile(rf"\b({_ORDINAL}) ([^\W\d_]{{3,}})")


def names_another(asked: TextQuery, said: str) -> bool:
    """Whether a text names things of a kind of which the question names one, and that one it does not."""
    wanted = _told_apart(asked.folded, frozenset(t.form for t in asked.terms))
    if not wanted:
        return False
    named = _told_apart(words.fold(said), frozenset(wanted))
    return any(kind in named and not which & named[kind] for kind, which in wanted.items())


def _told_apart(folded: str, kinds: frozenset[str]) -> dict[str, set[str]]:
    """Of each kind of thing what its things are told apart by."""
    found: dict[str, set[str]] = {}
    pairs = [(m[1], m[2]) for m in _BEHIND.finditer(folded)]
    pairs += [(m[2], m[1]) for m in _BEFORE.finditer(folded)]
    for kind, which in pairs:
        form = words.stem(kind)
        if form in kinds:
            found.setdefault(form, set()).add(which)
    return found


def told_elsewhere(asked: TextQuery, document: ReadDocument, number: int) -> frozenset[str]:
    """The forms of the terms that a section beside that of the statement ``number`` is called by, and by
    nothing else, while the statement's own heading does not hold them: what names its document, or stands
    above both, does not say them of it.
    """
    section = document.statements[number].section
    above, _, leaf = section.rpartition(" > ")
    if not leaf:
        return frozenset()
    own = words.forms(leaf)
    found = set()
    for beside, forms in _headings(document).get(above, ()):
        if beside == leaf or beside in above.split(" > "):
            continue
        terms = [t for t in asked.terms if _is_in(t, forms)]
        named = {f for t in terms for f in (t.form, t.group, *t.parts)}
        if terms and forms <= named and not any(_is_in(t, own) for t in terms):
            found |= {t.form for t in terms}
    return frozenset(found)


def _headings(document: ReadDocument) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Of each section the headings directly below it, each with its forms."""
    if document.headings is None:
        below: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for s in document.statements:
            if s.form is Form.HEADING:
                below.setdefault(s.section, []).append((s.said, words.forms(s.said)))
        document.headings = below
    return document.headings


def _is_in(term: Term, forms: frozenset[str]) -> bool:
    return term.form in forms or (term.group is not None and term.group in forms)


# --- What stands below the heading of a version or a date, as in a list of changes: the heading says since
#     when it is so, and all below it is what came with it

_VERSION = r"(?:v(?:ersion)? ?|release )?\d+(?:\.\d+)+\w*"
_DATE = r"\d{4}-\d\d(?:-\d\d)?"
#: A heading that begins with a version or a date, a name before it or not.
_HEADING = re.compile(rf"\W*(?:[\w-]+ )?(?:{_VERSION}|{_DATE})(?![\w/])", re.IGNORECASE)
_BY = {Value.VERSION: re.compile(r"\d+(?:\.\d+)+"), Value.DATE: re.compile(_DATE)}
_CHANGED = re.compile(r"\b(?:new|news|chang\w+|differ\w*|added|fixed|remov\w+|broke\w*|notes?|highlights)\b")
_DOTTED = re.compile(r"\d+(?:\.\d+)+")


def release_of(section: str) -> str:
    """The innermost heading of ``section`` that begins with a version or a date; empty if there is none."""
    for heading in reversed(section.split(" > ")):
        if _HEADING.match(heading):
            return heading
    return ""


def dated_by(asked: TextQuery, statement: TextStatement) -> str:
    """The heading that says the version or the date that is asked for of what a statement says; empty if it
    is not for a heading to say, or the question holds what it says.
    """
    pattern = _BY.get(asked.value) if asked.value is not None else None
    release = release_of(statement.section) if pattern is not None else ""
    if pattern is None or not release:
        return ""
    told = pattern.search(release)
    known = set(words.runs(asked.folded))
    return release if told and told[0] not in known else ""


def asks_for_changes(asked: TextQuery, statement: TextStatement) -> str:
    """The heading of the version below which a statement stands, if the question asks what came with it."""
    if asked.value is not None or not _CHANGED.search(asked.folded):
        return ""
    release = release_of(statement.section)
    forms = words.forms(release) if release else frozenset()
    dotted = [t.form for t in asked.terms if _DOTTED.fullmatch(t.form)]
    return release if dotted and all(form in forms for form in dotted) else ""


#: How much of a term counts where it stands.
_REACH = {"own": 1.0, "lead": 0.9, "section": 0.85, "named": 0.8, "before": 0.65}
#: What is left of the coverage of a statement that names nobody, where somebody is asked for.
_NOBODY = 0.7
#: What a synonym counts of the word itself.
_SYNONYM = 0.85
#: What the parts of a compound count, where they stand apart.
_PARTS = 0.9
#: What a term counts that the value itself says.
_IMPLIED = 0.8
#: Less than that, and a term is not there.
_STANDS = 0.6
#: The first statements of a document that is called what is asked say what it is.
_FIRST, _INTRODUCES = 3, 0.2
#: What speaks of the house is preferred to what vendors write, by so much of a score.
_OWN = 0.15
#: Code points of a line of code that is still shown where no command is asked for.
_MAX_CODE = 240
#: Code points of a statement that are compared in meaning.
_MAX_COMPARED = 300
#: The group of what passwords are called.
_SECRET = "~password"
#: A setting that is on or off, an item "label: yes", a cell that says so.
SWITCH = re.compile(
    r"[:=]\s*[\"']?(?:(true|yes|on|enabled|✅)|(?:false|no|off|disabled|❌))[\"']?\s*(?:[;,.].*)?\Z",
    re.IGNORECASE,
)
_COMMANDS = (Value.STEPS, Value.COMMAND)


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """A passage that the search found: a window of a document and ``[start, end)`` of its text.
    ``similarity``: the cosine of the passage's vector and the question's; ``own``: it is the house's own;
    ``text``: it is of a source of documents, not of one that declares things.
    """

    document: ReadDocument
    start: int
    end: int
    similarity: float
    own: bool
    text: bool = True


@dataclass(frozen=True, slots=True)
class Scored:
    """``number``: of the statement in its document; ``score``: what it is ranked by; ``own``: the share of
    the question's weight that it says itself.
    """

    place: PassageSpan
    number: int
    score: float
    features: Features
    own: float

    @property
    def statement(self) -> TextStatement:
        return self.place.document.statements[self.number]


class Excerpt(NamedTuple):
    """A part of an answer: its words, and the statement that it is taken from."""

    text: str
    scored: Scored


def rank_statements(asked: TextQuery, places: Sequence[PassageSpan]) -> list[Scored]:
    """The statements of ``places`` that are about what is asked, best first; equal ones once. The order of
    ``places`` does not matter.
    """
    if not asked.terms:
        return []
    asked = _as_held(asked, places)
    question_runs = frozenset(words.runs(words.fold(asked.question)))
    best: dict[tuple[str, int], Scored] = {}
    for place in of_the_house(asked, places):
        document = place.document
        for number in document.between(place.start, place.end):
            scored = _score(asked, question_runs, place, number)
            if scored is None:
                continue
            key = (document.doc_id, document.start + scored.statement.start)
            if key not in best or best[key].score < scored.score:
                best[key] = scored
    ordered = sorted(best.values(), key=lambda s: (-s.score, s.place.document.doc_id, s.statement.start))
    seen: set[str] = set()
    found = []
    for s in ordered:
        shown = s.statement.said.lower()
        if shown not in seen:
            seen.add(shown)
            found.append(s)
    return found


def compared(asked: TextQuery, ranked: list[Scored], near: Near) -> list[Scored]:
    """The ranking with what the best statement means compared with the question, where its words alone do not
    make it sure: by itself and under its heading."""
    if not ranked or confidence(ranked[0].features) >= THRESHOLD:
        return ranked
    best = ranked[0]
    statement = best.statement
    held = best.place.document.words(best.number)
    lost = [t for t in asked.terms if t.defining and _covers(t, held, best.place.document.named)[0] < _STANDS]
    if lost or asked.value is Value.SECRET or statement.said.endswith("?") or statement.keys:
        return ranked  # a line of configuration is compared as a value of what is named
    if not carries(asked.value, _values_of(asked, statement), frozenset()):
        return ranked
    heading = statement.section.rsplit(" > ", 1)[-1] or best.place.document.title
    said = statement.said[:_MAX_COMPARED]
    meaning = float(max(near(asked.question, [said, f"{heading}: {said}"])))
    return [replace(best, features=best.features._replace(meaning=max(0.0, meaning))), *ranked[1:]]


def of_the_house(asked: TextQuery, places: Sequence[PassageSpan]) -> list[PassageSpan]:
    """The passages that may say which of the house's things are so: no vendor knows that. Where no text among
    them is known to be the house's own, whose it is cannot be told."""
    if not asked.inventory or (asked.ours and not any(p.own and p.text for p in places)):
        return list(places)
    return [p for p in places if p.own]


def _as_held(asked: TextQuery, places: Sequence[PassageSpan]) -> TextQuery:
    """The question with words that no document holds as the passages write them."""
    held: set[str] = set()
    texts = []
    for place in places:
        for number in place.document.between(place.start, place.end):
            held |= place.document.words(number).own
            texts.append(place.document.statements[number].said)
    return corrected(asked, frozenset(held), texts)


def _score(asked: TextQuery, question_runs: frozenset[str], place: PassageSpan, number: int) -> Scored | None:
    document = place.document
    statement, held = document.statements[number], document.words(number)
    fits = carries(asked.value, _values_of(asked, statement), question_runs)
    release = "" if fits else dated_by(asked, statement)
    fits = fits or bool(release)
    if not fits and asked.value in TOLD:
        return None
    if asked.ordered and statement.ordinal is None and not _SEQUENCE.search(statement.said):
        return None
    if not counted(asked, statement.said, held.section | held.lead):
        return None
    if asked.value is Value.SECRET and not any(
        _stands(t, held.own) for t in asked.terms if t.group == _SECRET
    ):
        return None
    if asked.value in (Value.STEPS, Value.REASON, Value.MEANING) and _CHANGE.match(statement.said):
        return None
    if asked.future and not to_come(statement.said):
        return None
    if names_another(asked, statement.said):
        return None
    if not _holds_what_is_denied(asked, held) or not _compared(asked, held):
        return None
    length = len(statement.said.split())
    if statement.form is Form.CODE and len(statement.said) > _MAX_CODE and asked.value not in _COMMANDS:
        return None
    total = covered = own = 0.0
    names = 1.0
    kept = 1.0
    elsewhere = told_elsewhere(asked, document, number)
    for term in asked.terms:
        reach, itself = _covers(term, held, document.named)
        if term.form in elsewhere:
            reach = itself
        if reach < _IMPLIED and fits and implied(term, asked.value, statement.said):
            reach = _IMPLIED
        total += term.weight
        covered += term.weight * reach
        own += term.weight * itself
        if term.name:
            names = min(names, reach)
        if reach < _STANDS:
            kept = min(kept, term.missing)
    if asked.value is Value.PERSON and not fits:
        kept = min(kept, _NOBODY)
    if not covered or (release and not own):
        return None
    coverage, own = kept * covered / total, own / total
    if kept == 1.0 and asks_for_changes(asked, statement):
        coverage = 1.0
    # It must say something that the question does not.
    said = held.own | held.lead if statement.keys else held.own
    news = said - {f for t in asked.terms for f in (t.form, *t.parts)}
    switched = asked.value is Value.YES_NO and SWITCH.search(statement.said)
    if not (news or switched) or (own > 0 and statement.form is Form.CODE and len(held.own) < 1):
        return None
    near = max(0.0, min(1.0, place.similarity))
    features = Features(coverage, names, near)
    score = coverage + 0.12 * own + 0.1 * names + 0.3 * place.similarity
    score += 0.0 if asked.value is None else (0.08 if fits else -0.25)
    score += _OWN if place.own else -_OWN if asked.ours else 0.0
    score -= 0.0012 * max(0, length - 30)
    if statement.form in (Form.HEADING, Form.LEAD_IN):
        score -= 0.12 if fits and asked.value is not None else 0.3
    elif statement.form is Form.CODE:
        score -= 0.12 if length > 25 else 0.0
        score -= 0.0 if asked.value in _COMMANDS else 0.06
        if statement.said.rstrip().endswith((":", "{")):
            score -= 0.2
        score += 0.1 if asked.value is Value.COMMAND else 0.0
    if statement.form is not Form.HEADING and headed(asked, statement):
        score += 0.2
    if statement.said.endswith("?"):
        score -= 0.15
    if _CHANGE.match(statement.said) and asked.value not in (Value.DATE, Value.MOMENT, Value.VERSION):
        score -= 0.2
    if asked.value is Value.MEANING:
        score += _defines(asked, statement)
        if number < _FIRST and all(_stands(t, document.named) for t in asked.terms):
            score += _INTRODUCES
    elif asked.value is Value.STEPS:
        score += _instructs(asked, statement, held)
    elif asked.value is Value.PERSON and _TOLD.search(asked.question) and _TELL.match(statement.said):
        score += _INTRODUCES
    elif asked.value is Value.YES_NO and _TRUTH.search(statement.said):
        score += 0.02
    return Scored(place, number, score, features, own)


#: Whom somebody is to speak to, and an instruction to.
_TOLD = re.compile(r"\b(?:tell|told|informed?|notif\w+|ask(?:ed)?|call(?:ed)?)\b", re.IGNORECASE)
_TELL = re.compile(r"\W*(?:Tell|Inform|Notify|Ask|Call|Warn) [A-Z]")
_TRUTH = re.compile(r"\b(?:not|never|no|only|always|must|can|cannot|may|yes|does|is)\b", re.IGNORECASE)


#: An entry of a list of changes: what was done once, not what is.
_CHANGE = re.compile(r"\W*\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\W*[:–-]")
_TELLS = re.compile(
    r"\b(?:to \w+,|must|should|need to|have to|you can|make sure|by \w+ing|simply|then)\b"
    r"|^\W*[A-Z][a-z]+ (?:the|a|an|your|it|into|up|this|that|all|and)\b"
)


#: What says in which order things are done, beside a list.
_SEQUENCE = re.compile(r"\b(?:first|then|before|after\w*|followed|finally|last)\b|->|→", re.IGNORECASE)


def _values_of(asked: TextQuery, statement: TextStatement) -> str:
    """Where in a statement a value is looked for: the header of a table's column is no person."""
    if asked.value is Value.PERSON and statement.cells:
        return "; " + "; ".join(cell for _, cell in statement.cells)
    return statement.said


def headed(asked: TextQuery, statement: TextStatement, section: str | None = None) -> bool:
    """Whether the innermost heading (of ``section``, if another than the statement's) asks the same as the
    question: each has the other's words.
    """
    leaf = (statement.section if section is None else section).rsplit(" > ", 1)[-1]
    if not leaf:
        return False
    heading = forms_of(leaf)
    telling = [t for t in asked.terms if t.weight >= 1.5]
    held = sum(t.weight for t in telling if _stands(t, heading))
    if not telling or held < 0.85 * sum(t.weight for t in telling):
        return False
    meant = {f for t in asked.terms for f in (t.form, t.group, *t.parts)}
    return sum(1 for f in heading if not f.startswith("~") and f not in meant) <= len(telling) / 2


@lru_cache(maxsize=4096)
def forms_of(text: str) -> frozenset[str]:
    """The forms of a heading, of which few are asked for again and again."""
    return words.forms(text)


def _instructs(asked: TextQuery, statement: TextStatement, held: Words) -> float:
    """How much a statement looks like telling what to do."""
    if statement.form is Form.CODE:
        led = sum(t.weight for t in asked.terms if _stands(t, held.lead)) / asked.weight
        return 0.06 + 0.16 * led
    if carries(Value.COMMAND, statement.said, frozenset()):
        return 0.08
    return 0.04 if _TELLS.search(statement.said) else -0.12


def _holds_what_is_denied(asked: TextQuery, held: Words) -> bool:
    """Whether a statement denies something, where the things that are not so are asked for: those cannot be
    told from a statement about one that is.
    """
    if not asked.inventory or not any(t.form == words.DENIAL for t in asked.terms):
        return True
    return any(words.DENIAL in said for said in (held.own, held.lead, held.section))


def _compared(asked: TextQuery, held: Words) -> bool:
    """Whether a statement makes the comparison that is asked for: one value among others makes none."""
    if not asked.compares:
        return True
    made = forms_of(asked.compares) or {words.stem(asked.compares)}
    return any(made <= said for said in (held.own, held.lead, held.section))


#: The column of a table that says what a thing is.
_DESCRIBED = re.compile(
    r"; (?:what[^:;]*|description|purpose|meaning|note|function|role|meant for|uses? it for): "
)


def _defines(asked: TextQuery, statement: TextStatement) -> float:
    """How much a statement looks like saying what something is."""
    said = statement.said.lower()
    worth = 0.0
    for term in asked.terms:
        name = re.escape(term.text)
        if re.search(rf"(?:^|\W){name}\W*(?:,|\(|:|—|–| is | are )", said):
            worth = max(worth, 0.12)
        if re.match(rf"\W*(?:the |an? )?{name}\W* (?:is|are) (?:an? |the |our )", said):
            worth = max(worth, 0.25)
        if statement.form is Form.ROW and re.match(rf"(?:[^:;]{{1,40}}: )?\W*{name}\b[^;]{{0,30}};", said):
            worth = max(worth, 0.2 if _DESCRIBED.search(said) else 0.1)
    return worth


def _covers(term: Term, held: Words, named: frozenset[str]) -> tuple[float, float]:
    """How well a statement covers a term: with what belongs to it, and by itself."""
    itself = _stands(term, held.own)
    best = itself * _REACH["own"]
    if best < _REACH["own"]:
        best = max(
            best,
            _stands(term, held.lead) * _REACH["lead"],
            _stands(term, held.section) * _REACH["section"],
            _stands(term, named) * _REACH["named"],
            _stands(term, held.before) * _REACH["before"],
        )
    return best, itself


def _stands(term: Term, held: frozenset[str]) -> float:
    if not held:
        return 0.0
    if term.form in held:
        return 1.0
    if term.parts:
        return _PARTS * sum(p in held for p in term.parts) / len(term.parts)
    return _SYNONYM if term.group is not None and term.group in held else 0.0
