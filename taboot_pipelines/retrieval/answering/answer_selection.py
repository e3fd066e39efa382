"""Of ranked statements those that make an answer, and how they are read out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import Value
from taboot_pipelines.retrieval.answering.passages import (
    SWITCH,
    Scored,
    asks_for_changes,
    dated_by,
    headed,
    release_of,
)
from taboot_pipelines.retrieval.answering.tables_and_lists import asked_cell
from taboot_pipelines.retrieval.answering.text_query import TextQuery, says
from taboot_pipelines.retrieval.sentences import Form, split_sentences

#: A statement that says so little of the question itself is found by what introduces it.
_LITTLE = 0.35
#: A list item that is covered so much less than the best is about something else.
_SAME_LIST = 0.75
#: A statement of the same paragraph, and any other, is added if its score is no further from the best.
_SAME_PARAGRAPH, _AS_GOOD = 0.15, 0.08
#: How many lines of code after a sentence belong to it.
_MAX_COMMANDS = 3


def choose(asked: TextQuery, ranked: Sequence[Scored], limit: int) -> list[Scored]:
    """Of ranked statements those that make the answer, at most ``limit``: the best, and what it needs to be
    whole, such as the commands of a step or the rest of a list.
    """
    if not ranked:
        return []
    best = ranked[0]
    chosen = [best]
    listed = best.statement.form in (Form.ITEM, Form.ROW, Form.CODE)
    introduced = best.own < _LITTLE or asked.ordered or (asked.many and headed(asked, best.statement))
    if listed and introduced and (asked.many or asked.value is Value.STEPS):
        block = [
            s
            for s in ranked
            if s.place.document is best.place.document
            and s.statement.block == best.statement.block
            and s.statement.form is best.statement.form
            and s.statement.section == best.statement.section
            and (asked.ordered or s.features.coverage >= _SAME_LIST * best.features.coverage)
        ]
        chosen = sorted(block, key=lambda s: s.statement.start)
    elif asked.value is Value.STEPS:
        chosen += _commands(best)
    release = asks_for_changes(asked, best.statement)
    if release:
        chosen = _of_release(release, best, ranked)
    if len(chosen) == 1:
        chosen += _more(asked, ranked)
    return chosen[:limit]


def _of_release(release: str, best: Scored, ranked: Sequence[Scored]) -> list[Scored]:
    """What came with a version, in the order of its document."""
    listed = [
        s
        for s in ranked
        if s.place.document is best.place.document
        and s.statement.form is best.statement.form
        and release_of(s.statement.section) == release
        and s.features.coverage >= _SAME_LIST * best.features.coverage
    ]
    return sorted(listed, key=lambda s: s.statement.start)


def _commands(best: Scored) -> list[Scored]:
    """The lines of code that follow a statement, led in to by it or by the sentence after it."""
    found: list[Scored] = []
    own = best.statement
    for number in range(best.number + 1, min(best.number + 4, len(best.place.document.statements))):
        following = best.place.document.statements[number]
        if following.section != own.section or (own.form is Form.CODE and following.block != own.block):
            break
        if following.form is Form.CODE:
            found.append(Scored(best.place, number, best.score, best.features, best.own))
        elif found or following.block != own.block:
            break
    return found[:_MAX_COMMANDS]


def _more(asked: TextQuery, ranked: Sequence[Scored]) -> list[Scored]:
    """What else belongs to the answer: the rest of an item or paragraph whose heading or label asks the
    question, one more sentence of the same paragraph that is nearly as good, or one elsewhere that is as
    good.
    """
    best = ranked[0]
    own = best.statement
    if own.form in (Form.SENTENCE, Form.ITEM) and asked.value in (None, Value.STEPS, Value.REASON):
        labelled = bool(_LABELLED.match(own.said)) and best.own >= _LITTLE
        if labelled or best.own < _LITTLE or headed(asked, own) or _HAPPENS.search(asked.folded):
            return _continued(best)
    cell = asked_cell(asked, own) is not None
    for s in ranked[1:]:
        if cell and (s.statement.block != own.block or s.place.document is not best.place.document):
            continue  # what stands elsewhere adds nothing to a cell
        if s.score < best.score - _SAME_PARAGRAPH:
            break
        beside = (
            s.place.document is best.place.document
            and s.statement.block == own.block
            and own.form not in (Form.CODE, Form.ROW)
            and abs(s.number - best.number) == 1
        )
        if beside or s.score >= best.score - _AS_GOOD:
            return [s]
    return []


#: What follows from something is often said after it.
_HAPPENS = re.compile(r"\bwhat (?:happens|happened|will happen|would happen)\b")
#: A short label before what an item says of it.
_LABELLED = re.compile(r"[^.:;!?]{1,50}: \S")
_MAX_CONTINUED = 2


def _continued(best: Scored) -> list[Scored]:
    """The next sentences of the same paragraph or item."""
    found = []
    everything = best.place.document.statements
    for number in range(best.number + 1, min(best.number + 1 + _MAX_CONTINUED, len(everything))):
        if best.statement.said not in everything[number].before:
            break
        found.append(Scored(best.place, number, best.score, best.features, best.own))
    return found


#: So much of a question must be covered to say yes or no to it.
_SURE_ENOUGH = 0.7
_ANSWERED = re.compile(r"\W*(?:yes|no)\b", re.IGNORECASE)
#: What such a setting may be called if it switches something off.
_INVERTED = re.compile(r"disable|without|skip|deny|block|(?:\b|_)no(?:\b|_)(?!\W*[\"']?\Z)", re.IGNORECASE)
_REPLY = re.compile(r"(?:Yes|No)[.,:;] +(?=\S+ \S+ \S)")


def read_out(asked: TextQuery, s: Scored) -> str:
    """A statement as it is shown in an answer. A question for yes or no is answered so where a switch says
    it; a reply to a heading's question is no reply to another one.
    """
    said = _read(asked, s)
    statement = s.statement
    if asked.value is not Value.YES_NO:
        heading = statement.section.rsplit(" > ", 1)[-1]
        reply = _REPLY.match(said) if heading.rstrip().endswith("?") else None
        said = said[reply.end() :] if reply else said
    elif (
        s.features.coverage >= _SURE_ENOUGH
        and not _ANSWERED.match(said)
        and not words.DENIES.search(words.fold(asked.question))
    ):
        switch = SWITCH.search(statement.said)
        label = statement.said[: switch.start()] if switch else ""
        if switch and not _INVERTED.search(label) and ". " not in label:
            said = f"{'Yes' if switch[1] else 'No'}: {said}"
    return said


def _read(asked: TextQuery, s: Scored) -> str:
    """A statement as it is shown in an answer: of a row the cell that is asked for, a line of code with the
    keys above it, or with what leads in to it.
    """
    statement = s.statement
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
        return f"{split_last(statement.lead)} {code}"
    return code


def split_last(text: str) -> str:
    """The last sentence of a text."""
    start, end = split_sentences(text)[-1]
    return text[start:end]
