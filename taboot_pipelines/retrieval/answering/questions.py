"""Questions that a text asks itself ("Q: May I park here? A: No."): each heads what follows it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from taboot_pipelines.retrieval.sentences import Form, Statement

_MARK = re.compile(r"\W*(?:Q(?:uestion)?|F|A(?:nswer)?)\s?\d*\s?[:.)]\s+(?=\S)")
#: One question may be rhetorical.
_MIN_QUESTIONS = 2


def under_questions(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with what follows a question, up to the next one or the end of its section, put under it
    as under a heading. A question counts that begins a paragraph or an item which is no step.
    """
    asks = [_asks(s) for s in statements]
    if sum(asks) < _MIN_QUESTIONS:
        return list(statements)
    found = []
    question: Statement | None = None
    for s, is_question in zip(statements, asks, strict=True):
        if s.form is Form.HEADING or (question is not None and s.section != question.section):
            question = None
        if is_question:
            question = s
            found.append(replace(s, form=Form.HEADING, said=_MARK.sub("", s.said, count=1)))
        elif question is not None:
            asked = _MARK.sub("", question.said, count=1)
            section = f"{s.section} > {asked}" if s.section else asked
            said = _MARK.sub("", s.said, count=1) if s.form is not Form.CODE else s.said
            found.append(replace(s, section=section, said=said))
        else:
            found.append(s)
    return found


def _asks(s: Statement) -> bool:
    whole = s.said.endswith("?") and not s.before and s.ordinal is None
    return whole and s.form in (Form.SENTENCE, Form.ITEM)
