"""Reading: of the statements of the first passages those that answer a question, and how probable that is.

Prose, lists, tables and lines of configuration are read alike: each is a statement under what it belongs to
(title, path, headings, keys). How much of the question a statement and its neighbours hold, how near it is in
meaning, whether it carries the kind of value that is asked for, what it is, and where its passage stands are
its :class:`Signs`. A conditional logit over the statements of one question ranks them, a logistic regression
says how probable it is that the best one answers. Both are fitted on questions about several houses by
``benchmarks/answer_reading.py``, which also says how well they hold in houses that were left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import CAUSE, TOLD, Value, carries
from taboot_pipelines.retrieval.answering.documents import Excerpt, PassageSpan, ReadDocument
from taboot_pipelines.retrieval.answering.similarity import Near
from taboot_pipelines.retrieval.answering.tables_and_lists import ORDINALS, of_the_house
from taboot_pipelines.retrieval.answering.text_query import TextQuery, corrected
from taboot_pipelines.retrieval.sentences import Form, TextStatement, split_sentences

Numbers = npt.NDArray[np.float64]

#: Passages that are read, code points around one that are read with it, statements that are compared in
#: meaning, and code points of one of them.
_PASSAGES, _MARGIN, _COMPARED, _MAX_CHARS = 12, 400, 16, 240
#: Neighbours on either side whose words count as said around a statement.
_AROUND = 4
#: Words from which on a statement is long.
_LONG = 40
#: The sign of the subject where the question names none.
_NO_SUBJECT = 0.7
#: An entry of a list of changes says what was done once, not what is; and kinds of value that it may have.
_CHANGE = re.compile(r"\W*\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\W*[:–-]")
_OF_CHANGES = (Value.DATE, Value.MOMENT, Value.VERSION, Value.REASON)
#: A line of a tree of folders: what lies where, and nothing about it.
_TREE = re.compile(r"\W*[\u2500-\u257f]")
#: What tells one of several things from the others: a number, an ordinal, a letter (hall B).
_TELLS_APART = re.compile(rf"\d|^(?:{'|'.join(ORDINALS)}|\w)$")


class Signs(NamedTuple):
    """What tells how well a statement answers, each from 0 to 1. ``held``: the share of the question's weight
    (IDF) that stands in it or in what it belongs to; ``named``: with its document's title and path;
    ``around``: with its neighbours too; ``first``: how far in front its passage is; ``value``: whether it
    carries the kind of value that is asked for (one half where that cannot be told); ``own``: whether it
    speaks of the house, not a vendor of the world; ``code``, ``heading``: whether it is a line of
    configuration, a heading; ``length``: of its words; ``subject``: how much of the thing that the question
    is about stands there; ``meaning``: the cosine of the question and the statement with what it belongs to.
    """

    held: float
    named: float
    around: float
    first: float
    value: float
    own: float
    code: float
    heading: float
    length: float
    subject: float
    meaning: float


#: The signs of which it counts too how far they are behind the best of a question.
COMPARED = ("named", "around", "meaning")
#: The signs by which it is told how probable the best one is.
TELLING = ("meaning", "around", "first", "value", "subject")


class Weights(NamedTuple):
    """What was fitted. ``before``: ranks statements whose meaning is not known yet; ``ranking``: over the
    signs, then those that are compared; ``sure``: as by :func:`best_signs`."""

    before: Numbers
    ranking: Numbers
    sure: Numbers


@cache
def weights() -> Weights:
    text = files("taboot_pipelines.retrieval.answering").joinpath("reading.json").read_text("utf-8")
    return Weights(**{name: np.array(held) for name, held in json.loads(text).items()})


#: What is more probably wrong is not said, nor what holds less of the question's subject.
THRESHOLD, _ABOUT = 0.5, 0.35


@dataclass(frozen=True, slots=True)
class Read:
    """A statement as a candidate; ``number``: its place among those of its document; ``score``: what it is
    ranked by; ``sure``: how probable it is that it answers."""

    document: ReadDocument
    number: int
    signs: Signs
    score: float = 0.0
    sure: float = 0.0

    @property
    def statement(self) -> TextStatement:
        return self.document.statements[self.number]


def read(asked: TextQuery, places: Sequence[PassageSpan], near: Near | None) -> list[Read]:
    """The statements of the first passages as answers to a question, best first; equal ones once.

    ``places``: best first; ``near``: compares meanings; None: words only. Raises what ``near`` does.
    """
    if not asked.terms or not places:
        return []
    found = candidates(asked, places, near)
    if not found:
        return []
    table = compared([r.signs for r in found])
    scores = table @ weights().ranking
    order = np.argsort(-scores, kind="stable")
    probability = sure(table[order], scores[order], weights())
    ranked: dict[str, Read] = {}
    for i in order:
        score = float(scores[i])
        share = float(np.exp(score - scores[order[0]]))
        told = replace(found[i], score=score, sure=round(probability * share, 4))
        ranked.setdefault(told.statement.said.lower(), told)
    return list(ranked.values())


def compared(signs: Sequence[Signs]) -> Numbers:
    """The signs of the statements of one question, and how far some are behind the best; shape
    (statements, signs + compared)."""
    table = np.array(signs, dtype=np.float64).reshape(len(signs), len(Signs._fields))
    at = [Signs._fields.index(name) for name in COMPARED]
    return np.hstack([table, table[:, at] - table[:, at].max(axis=0, initial=0.0)])


def sure(table: Numbers, scores: Numbers, fitted: Weights) -> float:
    """How probable it is that the first of ranked statements answers; ``table``: as by :func:`compared`."""
    return float(1 / (1 + np.exp(-best_signs(table, scores) @ fitted.sure)))


def best_signs(table: Numbers, scores: Numbers) -> Numbers:
    """What the probability of the first of ranked statements is told by: the logarithm of its share among
    them, some of its signs (:data:`TELLING`), and a constant."""
    share = -np.log(np.exp(scores - scores[0]).sum())
    return np.array([share, *(table[0, Signs._fields.index(name)] for name in TELLING), 1.0])


# --- The statements that may answer, and their signs


def candidates(asked: TextQuery, places: Sequence[PassageSpan], near: Near | None) -> list[Read]:
    """The statements of the first passages that hold most of a question, with all their signs."""
    places = of_the_house(asked, places[:_PASSAGES])
    asked = _as_held(asked, places)
    found = _holding(asked, places)
    if not found:
        return []
    scores = compared([r.signs for r in found]) @ weights().before
    best = sorted(
        range(len(found)), key=lambda i: (-scores[i], found[i].document.doc_id, found[i].statement.start)
    )
    held = [found[i] for i in best[:_COMPARED]]
    meanings = _meanings(asked.question, held, near)
    return [
        replace(r, signs=r.signs._replace(meaning=meaning)) for r, meaning in zip(held, meanings, strict=True)
    ]


def _as_held(asked: TextQuery, places: Sequence[PassageSpan]) -> TextQuery:
    """The question with words that no document holds as the passages write them."""
    if not any(t.unknown for t in asked.terms):
        return asked
    held: set[str] = set()
    texts = []
    for place in places:
        for number in place.document.between(place.start, place.end):
            held |= place.document.words(number).own
            texts.append(place.document.statements[number].said)
    return corrected(asked, frozenset(held), texts)


def _holding(asked: TextQuery, places: Sequence[PassageSpan]) -> list[Read]:
    """The statements in and beside the passages, with what their words tell."""
    first: dict[tuple[str, int], dict[int, float]] = {}
    spans: dict[tuple[str, int], PassageSpan] = {}
    for rank, place in enumerate(places):
        document = place.document
        key = document.doc_id, document.start
        spans.setdefault(key, place)
        numbers = first.setdefault(key, {})
        inside = document.between(place.start, place.end)
        for number in document.between(place.start - _MARGIN, place.end + _MARGIN):
            at = 1 - rank / _PASSAGES if number in inside else 0.0
            numbers[number] = max(numbers.get(number, 0.0), at)
    runs = frozenset(words.runs(words.fold(asked.question)))
    found = []
    for key, numbers in first.items():
        found += _of_document(asked, runs, spans[key], numbers)
    return found


def _of_document(
    asked: TextQuery, runs: frozenset[str], place: PassageSpan, numbers: dict[int, float]
) -> list[Read]:
    document = place.document
    ordered = sorted(numbers)
    weight = np.array([t.weight for t in asked.terms])
    weight /= weight.sum()
    titled = np.array([t.stands(document.named) for t in asked.terms])
    names = [i for i, t in enumerate(asked.terms) if t.name]
    topics = [t for t in asked.terms if t.topic]
    apart = [t for t in asked.terms if _TELLS_APART.search(t.text)]
    subjects = names or [i for i, t in enumerate(asked.terms) if t.subject]
    own: dict[int, Numbers] = {}

    def said_in(number: int) -> Numbers:
        if number not in own:
            held = document.words(number).own
            own[number] = np.array([t.stands(held) for t in asked.terms])
        return own[number]

    found = []
    for number in ordered:
        statement, held = document.statements[number], document.words(number)
        if _CHANGE.match(statement.said) and asked.value not in _OF_CHANGES:
            continue
        if _TREE.match(statement.said) or _heads_a_tree(document.statements, number):
            continue
        if document.code and asked.value is Value.STEPS and _KEY_ALONE.fullmatch(statement.said):
            continue
        beneath = held.lead | held.section | held.before
        here = np.maximum(said_in(number), [t.stands(beneath) for t in asked.terms])
        named = np.maximum(here, titled)
        beside = range(max(0, number - _AROUND), min(len(document.statements), number + _AROUND + 1))
        around = np.maximum.reduce([named, *map(said_in, beside)])
        # What stands beside a line of configuration belongs to another thing.
        about = named if document.code else around
        told = held.own | held.lead | held.section | document.named
        if any(about[i] == 0.0 for i in names) or any(not t.stands(told) for t in apart):
            continue
        if topics and not any(t.stands(told) for t in topics):
            continue
        signs = Signs(
            held=float(here @ weight),
            named=float(named @ weight),
            around=float(around @ weight),
            first=numbers[number],
            value=_value(asked.value, statement, runs),
            own=float(place.own),
            code=float(document.code),
            heading=float(statement.form is Form.HEADING),
            length=min(len(held.own), _LONG) / _LONG,
            subject=float(np.mean([about[i] for i in subjects])) if subjects else _NO_SUBJECT,
            meaning=0.0,
        )
        found.append(Read(document, number, signs))
    return found


def _heads_a_tree(statements: Sequence[TextStatement], number: int) -> bool:
    """Whether a statement is the folder that a tree begins with, or its heading."""
    depth = {Form.CODE: 1, Form.HEADING: 2}.get(statements[number].form, 0)
    return any(_TREE.match(s.said) for s in statements[number + 1 : number + 1 + depth])


def _value(asked: Value | None, statement: TextStatement, runs: frozenset[str]) -> float:
    if asked is Value.REASON:
        # A reason may be told without a word that says so, but not by a line of configuration.
        return 1.0 if CAUSE.search(statement.said) else 0.0 if statement.form is Form.CODE else 0.5
    return float(carries(asked, statement.said, runs)) if asked in TOLD else 0.5


#: What a text that holds every word of a question means of it, where no vectors say.
_MEANT = 0.7
#: A text so short has no more tokens than any model reads.
_MIN_CHARS = 20


def _meanings(question: str, found: Sequence[Read], near: Near | None) -> list[float]:
    """How near each statement is to the question, behind the title, the heading and the keys it stands
    under; without ``near``, as near as its words are.
    """
    if near is None:
        return [r.signs.named * _MEANT for r in found]
    size = _MAX_CHARS
    while True:
        texts = [_in_context(r.document, r.statement, size) for r in found]
        try:
            return [max(0.0, float(cosine)) for cosine in near(question, texts)]
        except TabootError as error:
            # Some scripts have several tokens in a code point.
            if error.code != "E_TOKEN_LIMIT" or size < _MIN_CHARS:
                raise
            size //= 2


def _in_context(document: ReadDocument, statement: TextStatement, size: int) -> str:
    """A statement behind what it belongs to, each of at most ``size`` code points."""
    under = (document.title, statement.section.rsplit(" > ", 1)[-1], *statement.keys)
    return f"{' > '.join(dict.fromkeys(u for u in under if u))[:size]}: {statement.said[:size]}"


#: A key of a file of configuration alone, or set to one word: it tells no way to do what it is called.
_KEY_ALONE = re.compile(r"(?:- )?[\"']?[\w.-]+[\"']?:(?: \S+)?")


# --- What is shown of it: the block that says it whole

#: A line of configuration that opens a block.
_OPENS = re.compile(r"[:{\[]\s*\Z")
#: Code points of a block, and of an ordered list or a list with its lead-in, which is shown whole.
_BLOCK, _LIST = 800, 1500


def answer(ranked: Sequence[Read], limit: int) -> list[Excerpt]:
    """The parts that are said; empty if none is probable enough, or if what is most probable does not name
    the thing that the question is about, or carries no value of the kind that is asked for."""
    if not ranked or ranked[0].sure < THRESHOLD:
        return []
    best = ranked[0]
    return parts(best)[:limit] if best.signs.subject >= _ABOUT and best.signs.value else []


def parts(chosen: Read) -> list[Excerpt]:
    """What is said of a statement: itself, then what stands around it in its block; a step with its whole
    list, and what a heading, a lead-in or a line opens, in one."""
    first, last = _block(chosen)
    own = chosen.statement
    opens = own.form in (Form.HEADING, Form.LEAD_IN) or _OPENS.search(own.said)
    if first == last or opens or own.ordinal is not None:
        return [_excerpt(chosen, range(first, last + 1))]
    around = [n for n in range(first, last + 1) if n != chosen.number]
    return [alone(chosen), _excerpt(chosen, around)]


def closest(ranked: Sequence[Read], most: int) -> list[Excerpt]:
    """The statements that come nearest, of each block one: a file's next line says little more."""
    shown: list[tuple[ReadDocument, int, int]] = []
    found: list[Excerpt] = []
    for chosen in ranked:
        if len(found) == most:
            break
        if not any(d is chosen.document and first <= chosen.number <= last for d, first, last in shown):
            shown.append((chosen.document, *_block(chosen)))
            found.append(alone(chosen))
    return found


def alone(chosen: Read) -> Excerpt:
    """A statement without what stands around it."""
    return _excerpt(chosen, [chosen.number])


def _excerpt(chosen: Read, numbers: Sequence[int]) -> Excerpt:
    document = chosen.document
    text = _joined([document.statements[n] for n in numbers])
    return Excerpt(document, numbers[0], numbers[-1], text, chosen.sure)


def _block(chosen: Read) -> tuple[int, int]:
    """The first and the last statement that are shown with one: what follows in its section first, then what
    goes before. An ordered list, and what a lead-in leads in to, belong together whole; to a heading belongs
    what stands below it.
    """
    return _grown(chosen.document, chosen.number, *_listed(chosen.document, chosen.number))


def _listed(document: ReadDocument, number: int) -> tuple[int, int]:
    """The first and the last statement of the list that one belongs to or leads in to, if it is shown whole;
    else the statement's own number twice."""
    everything = document.statements
    own, first, last = everything[number], number, number
    if own.form is Form.LEAD_IN:
        while last + 1 < len(everything) and _introduced(document, number, last + 1):
            last += 1
    elif own.ordinal is not None:
        while first and _in_one_block(own, everything[first - 1]):
            first -= 1
        while last + 1 < len(everything) and _in_one_block(own, everything[last + 1]):
            last += 1
    size = everything[last].end - everything[first].start
    return (first, last) if size <= _LIST else (number, number)


def _introduced(document: ReadDocument, number: int, other: int) -> bool:
    """Whether the lead-in ``number`` leads in to a statement: to an item of its list, or, where a heading
    comes right after it, to that part and those beside it."""
    own, first, new = (document.statements[n] for n in (number, number + 1, other))
    if new.lead.endswith(own.said):
        return True
    if first.form is not Form.HEADING or first.section != own.section:
        return False
    if new.form is Form.HEADING and new.section == own.section:
        return _level(document, new) >= _level(document, first)
    return new.section != own.section and new.section.startswith(own.section)


def _level(document: ReadDocument, heading: TextStatement) -> int:
    """How deep a heading of Markdown is by its marks; 0 of any other."""
    marked = document.text[heading.start : heading.end]
    return len(marked) - len(marked.lstrip("#"))


def _grown(document: ReadDocument, number: int, first: int, last: int) -> tuple[int, int]:
    everything = document.statements
    size = sum(len(s.said) for s in everything[first : last + 1])

    def fits(other: int) -> bool:
        return (
            0 <= other < len(everything)
            and _together(everything[number], everything[other])
            and size + len(everything[other].said) <= _BLOCK
        )

    grows = True
    while grows:
        grows = False
        for _ in range(2):
            if fits(last + 1):
                last, grows = last + 1, True
                size += len(everything[last].said)
        if everything[number].form is not Form.HEADING and fits(first - 1):
            first, grows = first - 1, True
            size += len(everything[first].said)
    return first, last


def _together(own: TextStatement, other: TextStatement) -> bool:
    """Whether a statement belongs to what is shown with another: it stands in the same section, a line of
    configuration under the same key."""
    if own.form is Form.HEADING:
        below = other.section != own.section and other.section.startswith(own.section)
        return below or other.form is not Form.HEADING
    if own.form is Form.ROW:
        return _in_one_block(own, other)
    above = max(1, len(own.keys) - 1)
    beside = other.keys[:above] == own.keys[:above]
    return other.section == own.section and other.form is not Form.HEADING and beside


def _in_one_block(own: TextStatement, other: TextStatement) -> bool:
    return other.block == own.block and other.section == own.section


def _joined(shown: Sequence[TextStatement]) -> str:
    """Statements as they are shown together: each behind what leads in to it, lines of code on lines of their
    own, all behind the keys of the first."""
    text, lead = "", ""
    for statement in shown:
        # A heading says what stands below it, unless that is one of several parts.
        if statement.form is Form.HEADING and len(shown) > 1 and shown[0].form is not Form.LEAD_IN:
            continue
        code = statement.form is Form.CODE
        said = statement.said.removeprefix("$ ") if code else statement.said
        if statement.lead != lead and statement.lead.endswith(":") and not statement.keys:
            last_sentence = _last_sentence(statement.lead)
            text += f"{' ' if text else ''}{last_sentence}" if not text.endswith(last_sentence) else ""
        lead = statement.lead
        between = "\n" if code else " "
        text += f"{between if text else ''}{said}"
    keys = shown[0].keys
    return f"{' > '.join(keys)}: {text}" if keys else text


def _last_sentence(text: str) -> str:
    start, end = split_sentences(text)[-1]
    return text[start:end]
