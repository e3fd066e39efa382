"""Reading: of the statements of the first passages those that answer a question, and how probable that is.

A statement is read with what it stands under: title, heading, keys. How near it is to the question in
meaning, how much of the question it covers, and where its passage stands become a probability, by weights
that are fitted on questions about several houses (:data:`_WEIGHTS`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import Value
from taboot_pipelines.retrieval.answering.coverage import (
    SWITCH,
    as_held,
    coverage,
    dated_by,
    is_in,
    of_the_house,
)
from taboot_pipelines.retrieval.answering.documents import Excerpt, PassageSpan, ReadDocument
from taboot_pipelines.retrieval.answering.nearest import Near
from taboot_pipelines.retrieval.answering.tables_and_lists import asked_cell
from taboot_pipelines.retrieval.answering.text_query import TextQuery, says
from taboot_pipelines.retrieval.sentences import Form, TextStatement, split_sentences

#: Passages that are read, statements that are compared in meaning, and code points of one of them.
_PASSAGES, _COMPARED, _MAX_CHARS = 12, 12, 280


class Signs(NamedTuple):
    """What tells how well a statement answers, each from 0 to 1. ``meaning``: the cosine of the question and
    the statement with what it stands under; ``first``: how far in front its passage is; ``own``: whether it
    speaks of the house, not a vendor of the world; ``coverage``: how much of the question it covers
    (:func:`coverage.coverage`).
    """

    meaning: float
    first: float
    own: float
    coverage: float


#: Logistic regression over the signs of whether an answer is right that begins with the statement, by
#: ``benchmarks/answer_reading.py``, which also says how well it holds in houses that were left out.
_WEIGHTS = Signs(meaning=3.98, first=3.49, own=0.7, coverage=3.13)
_CONSTANT = -7.11
#: What is more probably wrong is not said.
THRESHOLD = 0.5
#: What follows the best statement is said too while its log odds are no further behind.
NEARLY = 1.27
#: Parts of an answer: a question that has more of them is answered by a list, a table, or facts.
_MOST_PARTS = 3


@dataclass(frozen=True, slots=True)
class Read:
    """A statement as a candidate; ``number``: its place among those of its document."""

    document: ReadDocument
    number: int
    signs: Signs

    @property
    def statement(self) -> TextStatement:
        return self.document.statements[self.number]

    @property
    def log_odds(self) -> float:
        return _CONSTANT + math.fsum(w * s for w, s in zip(_WEIGHTS, self.signs, strict=True))

    @property
    def sure(self) -> float:
        """How probable it is that it answers, by the fit."""
        return round(1 / (1 + math.exp(-self.log_odds)), 4)


def read(asked: TextQuery, places: Sequence[PassageSpan], near: Near | None) -> list[Read]:
    """The statements of the first passages as answers to a question, best first; equal ones once.

    ``places``: best first; ``near``: compares meanings; None: words only. Raises what ``near`` does.
    """
    if not asked.terms:
        return []
    asked = as_held(asked, places)
    # What covers most, and stands in front, is compared.
    covering = _best_first(_covering(asked, places))[:_COMPARED]
    meanings = _meanings(asked.question, covering, near)
    once: dict[str, Read] = {}
    for r in _best_first(
        Read(r.document, r.number, r.signs._replace(meaning=meaning))
        for r, meaning in zip(covering, meanings, strict=True)
    ):
        once.setdefault(r.statement.said.lower(), r)
    return list(once.values())


def _best_first(found: Iterable[Read]) -> list[Read]:
    return sorted(found, key=lambda r: (-r.log_odds, r.document.doc_id, r.statement.start))


def _covering(asked: TextQuery, places: Sequence[PassageSpan]) -> list[Read]:
    """The statements that cover something of the question, each where its passage is furthest in front;
    what they mean is not known yet.
    """
    runs = frozenset(words.runs(words.fold(asked.question)))
    of_house = of_the_house(asked, places)
    seen: set[tuple[str, int]] = set()
    found = []
    for rank, place in enumerate(places[:_PASSAGES]):
        if place not in of_house:
            continue
        document = place.document
        for number in document.between(place.start, place.end):
            key = document.doc_id, document.start + document.statements[number].start
            covered = 0.0 if key in seen else coverage(asked, runs, place, number)
            seen.add(key)
            if covered:
                signs = Signs(0.0, 1 - rank / _PASSAGES, float(place.own), covered)
                found.append(Read(document, number, signs))
    return found


def _meanings(question: str, found: Sequence[Read], near: Near | None) -> list[float]:
    """How near each statement is to the question, behind the title, the heading and the keys it stands
    under; without ``near``, as near as its words are.
    """
    if near is None or not found:
        return [r.signs.coverage * _MEANT for r in found]
    texts = [_in_context(r.document, r.statement) for r in found]
    size = _MAX_CHARS
    while True:
        try:
            return [max(0.0, float(cosine)) for cosine in near(question, [t[:size] for t in texts])]
        except TabootError as error:
            # Some scripts have several tokens in a code point.
            if error.code != "E_TOKEN_LIMIT" or size < _MIN_CHARS:
                raise
            size //= 2


#: What a text that holds every word of a question means of it, where no vectors say.
_MEANT = 0.8
#: A text so short has no more tokens than any model reads.
_MIN_CHARS = 20


def _in_context(document: ReadDocument, statement: TextStatement) -> str:
    under = (document.title, statement.section.rsplit(" > ", 1)[-1], *statement.keys)
    return f"{' > '.join(dict.fromkeys(u for u in under if u))}: {statement.said}"


# --- What is shown of it: the smallest block that says it whole

#: Statements on either side that are shown, items of a list, and statements below a heading.
_BESIDE, _LISTED, _BELOW = 2, 12, 4
#: A statement that holds so little of the question is found by what introduces it.
_LITTLE = 0.35


def excerpts(asked: TextQuery, ranked: Sequence[Read], limit: int, nearly: float = NEARLY) -> list[Excerpt]:
    """What makes an answer of ranked statements, at most ``limit`` parts: the block of the best one, and
    those of the next whose log odds are no more than ``nearly`` behind.
    """
    found: list[Excerpt] = []
    for candidate in ranked:
        if len(found) >= limit or candidate.log_odds < ranked[0].log_odds - nearly:
            break
        excerpt = _block(asked, candidate)
        if not any(_overlap(excerpt, other) for other in found):
            found.append(excerpt)
    return found


def answer(asked: TextQuery, ranked: Sequence[Read], limit: int) -> list[Excerpt]:
    """The parts that are said; empty if none is probable enough."""
    if not ranked or ranked[0].sure < THRESHOLD:
        return []
    best = ranked[0].statement
    # What stands elsewhere adds nothing to a cell.
    alone = best.form is Form.ROW and asked_cell(asked, best) is not None
    return excerpts(asked, ranked, 1 if alone else min(limit, _MOST_PARTS))


def _overlap(one: Excerpt, other: Excerpt) -> bool:
    same = one.document.doc_id == other.document.doc_id
    offset = one.document.start - other.document.start
    (a, b), (c, d) = one.span, other.span
    return (same and a + offset < d and c < b + offset) or one.text == other.text


def _block(asked: TextQuery, chosen: Read) -> Excerpt:
    """A row stands alone, and an item that says what is asked by itself; else its whole list belongs
    together, as do the steps of a procedure; to a heading belongs what stands below it, to a lead-in what it
    leads in to.
    """
    everything, own = chosen.document.statements, chosen.statement
    first = last = chosen.number
    if own.form is Form.HEADING:
        while last + 1 < len(everything) and last - first < _BELOW:
            if everything[last + 1].form is Form.HEADING:
                break
            last += 1
    elif own.form is Form.LEAD_IN:
        while last + 1 < len(everything) and last - first < _LISTED:
            if not everything[last + 1].lead.endswith(own.said):
                break
            last += 1
    else:
        most = _beside(asked, chosen)
        while _together(chosen, first - 1, most):
            first -= 1
        while _together(chosen, last + 1, most):
            last += 1
    text = _shown(asked, chosen) if first == last else _joined(everything[first : last + 1])
    return Excerpt(chosen.document, first, last, text, chosen.sure)


def _beside(asked: TextQuery, chosen: Read) -> int:
    """How many statements on either side may belong to one."""
    own = chosen.statement
    if own.form is Form.ROW:
        return 0
    if own.form is not Form.ITEM:
        return _BESIDE
    if own.ordinal is not None:
        whole = asked.value in (None, Value.STEPS)
    else:
        held = chosen.document.words(chosen.number).own
        weight = sum(t.weight for t in asked.terms if is_in(t, held))
        whole = weight < _LITTLE * asked.weight
    return _LISTED if whole else 0


def _together(chosen: Read, number: int, most: int) -> bool:
    everything, own = chosen.document.statements, chosen.statement
    if not 0 <= number < len(everything) or abs(number - chosen.number) > most:
        return False
    other = everything[number]
    return other.block == own.block and other.section == own.section


def _joined(shown: Sequence[TextStatement]) -> str:
    """Statements as they are shown together: each behind what leads in to it, lines of code on lines of their
    own, all behind the keys of the first."""
    text, lead = "", ""
    for statement in shown:
        if statement.form is Form.HEADING:
            continue
        said = statement.said.removeprefix("$ ") if statement.form is Form.CODE else statement.said
        if statement.lead != lead and statement.lead.endswith(":") and not statement.keys:
            text += f"{' ' if text else ''}{_last_sentence(statement.lead)}"
        lead = statement.lead
        between = "\n" if statement.form is Form.CODE else " "
        text += f"{between if text else ''}{said}"
    keys = shown[0].keys
    return f"{' > '.join(keys)}: {text}" if keys else text


def _last_sentence(text: str) -> str:
    start, end = split_sentences(text)[-1]
    return text[start:end]


#: So much of a question must be covered to say yes or no to it.
_SURE_ENOUGH = 0.7
_ANSWERED = re.compile(r"\W*(?:yes|no)\b", re.IGNORECASE)
#: What such a setting may be called if it switches something off.
_INVERTED = re.compile(r"disable|without|skip|deny|block|(?:\b|_)no(?:\b|_)(?!\W*[\"']?\Z)", re.IGNORECASE)
_REPLY = re.compile(r"(?:Yes|No)[.,:;] +(?=\S+ \S+ \S)")


def _shown(asked: TextQuery, chosen: Read) -> str:
    """A statement as it is shown alone. A question for yes or no is answered so where a switch says it; a
    reply to a heading's question is no reply to another one.
    """
    statement = chosen.statement
    said = _said(asked, statement)
    if asked.value is not Value.YES_NO:
        heading = statement.section.rsplit(" > ", 1)[-1]
        reply = _REPLY.match(said) if heading.rstrip().endswith("?") else None
        return said[reply.end() :] if reply else said
    if (
        chosen.signs.coverage >= _SURE_ENOUGH
        and not _ANSWERED.match(said)
        and not words.DENIES.search(words.fold(asked.question))
    ):
        switch = SWITCH.search(statement.said)
        label = statement.said[: switch.start()] if switch else ""
        if switch and not _INVERTED.search(label) and ". " not in label:
            return f"{'Yes' if switch[1] else 'No'}: {said}"
    return said


def _said(asked: TextQuery, statement: TextStatement) -> str:
    """Of a row the cell that is asked for, a line of code with the keys above it, or with what leads in to
    it."""
    if statement.form is Form.ROW:
        return asked_cell(asked, statement) or statement.said
    release = dated_by(asked, statement)
    if release and not says(asked, statement.said):
        return f"{release}: {statement.said}"
    if statement.form is not Form.CODE:
        return statement.said
    code = statement.said.removeprefix("$ ")
    if statement.keys:
        return f"{' > '.join(statement.keys)}: {code}"
    if statement.lead.endswith(":"):
        return f"{_last_sentence(statement.lead)} {code}"
    return code
