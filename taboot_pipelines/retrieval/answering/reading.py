"""Reading: of the statements of the first passages those that answer a question, and how probable that is.

Prose, lists, tables and lines of configuration are read alike: each is a statement, and what would be shown
of it is its block. How near a statement is to the question in meaning, how much of the question its block
has, token by token, what the keys that it sets are known to mean, whether it carries the kind of value that
is asked for, and how far in front its passage stands are its :class:`Signs`. A conditional logit (McFadden
1974) over the statements of one question ranks them, a logistic regression says how probable it is that the
best one answers. Both are fitted on questions about many houses by several authors, by
``benchmarks/answer_reading.py``, which also says how well they hold in houses that were left out. Signs of
the words of a question (names, its subject, slips of the pen) were tried beside these, and found nothing more
there; nor did what products are (of 2,100 of them).
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
from taboot_pipelines.retrieval.answering import key_meanings, words
from taboot_pipelines.retrieval.answering.answer_types import CAUSE, SET_NUMBER, SPANS, TOLD, Value, carries
from taboot_pipelines.retrieval.answering.documents import Excerpt, PassageSpan, ReadDocument
from taboot_pipelines.retrieval.answering.similarity import ExactWords, Near, Tokens
from taboot_pipelines.retrieval.answering.text_query import TextQuery
from taboot_pipelines.retrieval.sentences import Form, TextStatement, split_sentences

Numbers = npt.NDArray[np.float64]

#: Passages that are read, code points around one that are read with it, statements whose blocks are compared,
#: and code points of a statement and of a block that are.
_PASSAGES, _MARGIN, _COMPARED, _MAX_CHARS, _MAX_BLOCK = 12, 400, 16, 240, 1500
#: An entry of a list of changes says what was done once, not what is; and kinds of value that it may have.
_CHANGE = re.compile(r"\W*\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\W*[:–-]")
_OF_CHANGES = (Value.DATE, Value.MOMENT, Value.VERSION, Value.REASON)
#: A line of a tree of folders: what lies where, and nothing about it.
_TREE = re.compile(r"\W*[\u2500-\u257f]")


class Signs(NamedTuple):
    """What tells how well a statement answers, each from 0 to 1. ``first``: how far in front its passage is;
    ``own``: whether it speaks of the house, not a vendor of the world; ``heading``: whether it is one;
    ``value``: whether it carries the kind of value that is asked for (one half where that cannot be told);
    ``line``: how well it has the tokens of the question (MaxSim), behind what it belongs to; ``key``: how
    well what its keys are known to mean has them; ``block``: how well all that is shown of it does;
    ``found``: of what the passages have of the question together, how much the block has; ``missed``: the
    share of the question's weight on the token that the block has least; ``meaning``: the cosine of the
    question and the statement behind what it belongs to; ``worded``: how much of the question's weight stands
    in the block as it is written there, or as a synonym; ``strange``: the share of the word of most weight
    that does not: jellybean is no jellyfin; ``apart``: whether what tells things of one kind apart (a
    version, an address, the letter of a hall) all stands there.
    """

    first: float
    own: float
    heading: float
    value: float
    line: float
    key: float = 0.0
    block: float = 0.0
    found: float = 0.0
    missed: float = 0.0
    meaning: float = 0.0
    worded: float = 0.0
    strange: float = 0.0
    apart: float = 0.0


#: The signs that statements are ranked by: all of a question, then those whose blocks are compared; and those
#: by which it is told how probable the best one is.
BEFORE = ("first", "own", "heading", "value", "line", "key")
RANKING = ("first", "own", "heading", "value", "block", "meaning", "key")
TELLING = ("meaning", "first", "value", "block", "found", "missed", "worded", "strange", "key")


class Weights(NamedTuple):
    """What was fitted, over :data:`BEFORE`, :data:`RANKING`, and what :func:`best_signs` gives."""

    before: Numbers
    ranking: Numbers
    sure: Numbers


@cache
def weights() -> Weights:
    text = files("taboot_pipelines.retrieval.answering").joinpath("reading.json").read_text("utf-8")
    return Weights(**{name: np.array(held) for name, held in json.loads(text).items()})


#: What is more probably wrong is not said; a line of configuration, which says something of one thing, must
#: be surer where several are asked for: of houses left out 3 of 3 such lists were right, and 0 of 6 below it.
THRESHOLD, OF_SEVERAL = 0.5, 0.8


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


def read(
    asked: TextQuery, places: Sequence[PassageSpan], near: Near | None, tokens: Tokens | None
) -> list[Read]:
    """The statements of the first passages as answers to a question, best first; equal ones once.

    ``places``: best first; ``near``, ``tokens``: what compares meanings and tokens; None: by words alone.
    Raises what ``near`` does.
    """
    found = candidates(asked, places, near, tokens)
    if not found:
        return []
    signs = np.array([r.signs for r in found], dtype=np.float64)
    order, scores = rank(signs, weights())
    once: dict[str, int] = {}
    for place, i in enumerate(order.tolist()):
        once.setdefault(found[i].statement.said.lower(), place)
    kept = list(once.values())
    order, scores = order[kept], scores[kept]
    first = [found[i] for i in order.tolist()]
    told_by = best_signs(signs[order], [r.document.doc_id for r in first], scores)
    shares = sure(told_by, weights()) * np.exp(scores - scores[0])
    return [
        replace(r, score=float(score), sure=round(float(share), 4))
        for r, score, share in zip(first, scores, shares, strict=True)
    ]


def named(signs: Numbers, names: Sequence[str]) -> Numbers:
    """Some of the signs of statements, shape (statements, names); ``signs``: all, a row each."""
    return signs[:, [Signs._fields.index(name) for name in names]]


def rank(signs: Numbers, fitted: Weights) -> tuple[npt.NDArray[np.intp], Numbers]:
    """The order of the statements of a question, best first, and their scores in it."""
    scores = named(signs, RANKING) @ fitted.ranking
    order = np.argsort(-scores, kind="stable")
    return order, scores[order]


def best_signs(signs: Numbers, documents: Sequence[str], scores: Numbers) -> Numbers:
    """What the probability of the first of ranked statements is told by: the logarithm of its share among
    them, the share of its document, some of its signs (:data:`TELLING`), and a constant."""
    share = np.exp(scores - scores[0])
    share /= share.sum()
    beside = sum(float(s) for d, s in zip(documents, share, strict=True) if d == documents[0])
    return np.array([np.log(share[0]), beside, *named(signs[:1], TELLING)[0], 1.0])


def sure(told_by: Numbers, fitted: Weights) -> float:
    """How probable it is that the first of ranked statements answers; ``told_by``: :func:`best_signs`."""
    return float(1 / (1 + np.exp(-told_by @ fitted.sure)))


# --- The statements that may answer, and their signs


def candidates(
    asked: TextQuery, places: Sequence[PassageSpan], near: Near | None, tokens: Tokens | None
) -> list[Read]:
    """The statements of the first passages that have most of a question, with all their signs."""
    if not asked.terms:
        return []
    exact = ExactWords(asked.terms)
    tokens = tokens or exact
    places = of_the_house(asked, places[:_PASSAGES])
    found = _statements(asked, places, tokens)
    if not found:
        return []
    scores = named(np.array([r.signs for r in found], dtype=np.float64), BEFORE) @ weights().before
    best = sorted(
        range(len(found)), key=lambda i: (-scores[i], found[i].document.doc_id, found[i].statement.start)
    )
    held = [found[i] for i in best[:_COMPARED]]
    shown = [_headed_block(r) for r in held]
    blocks, literal = tokens.matches(shown), exact.matches(shown)
    passages = tokens.matches([p.document.text[p.start : p.end] for p in places]).max(axis=0)
    telling = [i for i, t in enumerate(asked.terms) if len(t.text) == 1 or words.is_dotted(t.text)]
    had = max(float(passages @ tokens.weights), 1e-6)
    meanings = _meanings(asked.question, held, near)
    return [
        replace(
            r,
            signs=r.signs._replace(
                block=float(block @ tokens.weights),
                found=float(np.minimum(block, passages) @ tokens.weights) / had,
                missed=float(((1 - block) * tokens.weights).max()),
                worded=float(stands @ exact.weights),
                strange=float(((1 - stands) * exact.weights).max()),
                apart=float(bool(stands[telling].all())),
                # A text that has every token of a question means so much of it, where no vectors say.
                meaning=_MEANT * r.signs.line if meaning is None else meaning,
            ),
        )
        for r, block, stands, meaning in zip(held, blocks, literal, meanings, strict=True)
    ]


def of_the_house(asked: TextQuery, places: Sequence[PassageSpan]) -> list[PassageSpan]:
    """The passages that may say which of the house's things are so: no vendor knows that. Where no text among
    them is known to be the house's own, whose it is cannot be told."""
    if not asked.inventory or (asked.ours and not any(p.own and p.text for p in places)):
        return list(places)
    return [p for p in places if p.own]


def _statements(asked: TextQuery, places: Sequence[PassageSpan], tokens: Tokens) -> list[Read]:
    """The statements in and beside the passages, with what they tell alone."""
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
    held = [
        (spans[key], number, at)
        for key, numbers in first.items()
        for number, at in sorted(numbers.items())
        if not _says_nothing(asked, spans[key].document, number)
    ]
    runs = frozenset(words.runs(words.fold(asked.question)))
    texts = [_in_context(s.document, s.document.statements[n], _MAX_CHARS) for s, n, _ in held]
    lines = tokens.matches(texts) @ tokens.weights
    keys = _keys([span.document.statements[number] for span, number, _ in held], tokens)
    found = []
    for (span, number, at), line, meant in zip(held, lines.tolist(), keys, strict=True):
        statement = span.document.statements[number]
        signs = Signs(
            first=at,
            own=float(span.own),
            heading=float(statement.form is Form.HEADING),
            value=_value(asked.value, statement, runs),
            line=line,
            key=meant,
        )
        found.append(Read(span.document, number, signs))
    return found


def _keys(found: Sequence[TextStatement], tokens: Tokens) -> list[float]:
    """How well what the keys of each statement mean has the tokens of a question; 0 where no key is known."""
    meant = [key_meanings.meanings(statement) for statement in found]
    every = list(dict.fromkeys(meaning for of_one in meant for meaning in of_one))
    had = dict(zip(every, (tokens.matches(every) @ tokens.weights).tolist(), strict=True))
    return [max((had[meaning] for meaning in of_one), default=0.0) for of_one in meant]


#: A setting whose value is wholly a variable's, of a shell or of a template: what it is stands elsewhere.
_PUT_IN = re.compile(r"(?:- +)?[\"']?[\w.-]+[\"']? ?[:=] ?[\"']?(?:\$\{?[\w.]+\}?|\{\{[^{}]*\}\})[\"']?[;,]?")


def _says_nothing(asked: TextQuery, document: ReadDocument, number: int) -> bool:
    """Whether a statement answers no question of its kind: an entry of a list of changes, a line of a tree of
    folders, a setting that a variable puts in, a key without a value where the way to do something is asked
    for."""
    statement = document.statements[number]
    if statement.form is Form.CODE and _PUT_IN.fullmatch(statement.said) and "variable" not in asked.folded:
        return True
    if _CHANGE.match(statement.said):
        return asked.value not in _OF_CHANGES
    if _TREE.match(statement.said) or _heads_a_tree(document.statements, number):
        return True
    return document.code and asked.value is Value.STEPS and bool(_KEY_ALONE.fullmatch(statement.said))


def _heads_a_tree(statements: Sequence[TextStatement], number: int) -> bool:
    """Whether a statement is the folder that a tree begins with, or its heading."""
    depth = {Form.CODE: 1, Form.HEADING: 2}.get(statements[number].form, 0)
    return any(_TREE.match(s.said) for s in statements[number + 1 : number + 1 + depth])


def _value(asked: Value | None, statement: TextStatement, runs: frozenset[str]) -> float:
    if asked is Value.REASON:
        # A reason may be told without a word that says so, but not by a line of configuration.
        return 1.0 if CAUSE.search(statement.said) else 0.0 if statement.form is Form.CODE else 0.5
    if asked in SPANS and statement.form is Form.CODE and SET_NUMBER.search(statement.said):
        return 1.0
    return float(carries(asked, statement.said, runs)) if asked in TOLD else 0.5


def _headed_block(chosen: Read) -> str:
    """All that is shown of a statement, behind where it stands."""
    shown = " ".join(part.text for part in parts(chosen))[:_MAX_BLOCK]
    return f"{chosen.document.title} {chosen.document.path} {chosen.statement.section} {shown}"


#: What a text that has every token of a question means of it, where no vectors say.
_MEANT = 0.7
#: A text so short has no more tokens than any model reads.
_MIN_CHARS = 20


def _meanings(question: str, found: Sequence[Read], near: Near | None) -> list[float] | list[None]:
    """How near each statement is to the question, behind the title, the heading and the keys it stands
    under; None each where nothing says.
    """
    if near is None:
        return [None] * len(found)
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


def answer(asked: TextQuery, ranked: Sequence[Read], limit: int) -> list[Excerpt]:
    """The parts that are said; empty if none is probable enough, or if what is most probable carries no value
    of the kind that is asked for, or is of another thing of its kind; nor does a line of configuration, which
    speaks of one service, say which services are so."""
    if not ranked or not _answers(asked, ranked[0]):
        return []
    of_one = asked.lists_services and ranked[0].statement.form is Form.CODE
    steps = asked.value in (Value.STEPS, Value.COMMAND)
    return [] if of_one else parts(ranked[0], in_order=steps)[:limit]


def _answers(asked: TextQuery, best: Read) -> bool:
    least = OF_SEVERAL if asked.several and best.statement.form is Form.CODE else THRESHOLD
    return best.sure >= least and bool(best.signs.value and best.signs.apart)


def line_of_several(asked: TextQuery, ranked: Sequence[Read]) -> Read | None:
    """The line of configuration that answers a question for several things, each of which may have it: where
    else it stands is looked for (:func:`everywhere`)."""
    # Where a line stands is no answer to what lacks it.
    if not asked.several or asked.negated or not ranked or ranked[0].statement.form is not Form.CODE:
        return None
    return ranked[0] if _answers(asked, ranked[0]) and _setting(ranked[0].statement.said) else None


#: The mark of a list's item, a comment at the end, and what only joins or closes, of a line of configuration.
_MARKED = re.compile(r"\A(?:- +)+|\s+(?:#|//).*\Z|[\s\"'`:=,;{\[]+")


def _setting(said: str) -> str:
    """A line of configuration as it is compared, in whichever format and style."""
    return _MARKED.sub(" ", said).strip().lower()


def everywhere(line: Read, places: Sequence[PassageSpan]) -> list[Excerpt]:
    """The places where a line of configuration stands, its own first, each behind its file and its keys."""
    wanted = _setting(line.statement.said)
    rarest = max(wanted.split(), key=len)  # most lines are told apart by it
    found = {(line.document.doc_id, line.statement.start + line.document.start): alone(line)}
    documents = {(p.document.doc_id, p.document.start): p.document for p in places}
    for document in documents.values():
        for number, statement in enumerate(document.statements):
            if statement.form is not Form.CODE or rarest not in statement.said.lower():
                continue
            if _setting(statement.said) == wanted:
                at = document.doc_id, statement.start + document.start
                found.setdefault(at, alone(replace(line, document=document, number=number)))
    return [replace(e, text=f"{e.document.path}: {e.text}") for e in found.values()]


def parts(chosen: Read, *, in_order: bool = False) -> list[Excerpt]:
    """What is said of a statement: itself, then what stands around it in its block; a step with its whole
    list, and what a heading, a lead-in or a line opens, in one. ``in_order``: its block as it stands, since
    commands are typed one after the other."""
    first, last = _block(chosen)
    own = chosen.statement
    opens = own.form in (Form.HEADING, Form.LEAD_IN) or _OPENS.search(own.said)
    if first == last or opens or own.ordinal is not None or (in_order and own.form is Form.CODE):
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
