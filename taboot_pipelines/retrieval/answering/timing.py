"""When a service does its work: a question for the time at which something acts is answered by the one
schedule that it has, whatever verb the question uses for its work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.retrieval.answering.config_files import Placed
from taboot_pipelines.retrieval.answering.phrases import value_statement
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.statements import Found

_SURE = 0.82
#: A service that acts, and what it does.
_ACTS = re.compile(
    r"(?:when|how (?:often|frequently)|(?:at |on )?(?:what|which) (?:times?|hours?|days?)) (?:exactly )?"
    r"(?:does|do|will) (?:the |our |my )?@\w*"
)
#: What no schedule of a service's own says.
_LIFE = re.compile(
    r"\bgets? \w+ed\b"
    r"|\b(?:expires?|ends?|stops?|dies?|crash(?:es)?|fails?|release[sd]?|restarts?|retires?|renews?|starts?|boots?)\b"
)
_CRON = re.compile(
    r"(?:@(?:every [\dhms]+|hourly|daily|weekly|monthly|midnight)|(?:[\d*/,A-Za-z-]+ ){4,5}[\d*/,A-Za-z?-]+)"
)
_KEY = re.compile(r"cron|schedule|interval|every", re.IGNORECASE)


def activity(question: Question, values: Sequence[Placed], used: set[int]) -> Found | None:
    """The one schedule among the values of a service that the question asks when it acts."""
    if not _ACTS.search(question.masked[0]) or _LIFE.search(question.lower):
        return None
    held = [
        p for p in values if p.service and _KEY.search(p.value.key) and _CRON.fullmatch(p.value.value.strip())
    ]
    if len({p.value.value for p in held}) != 1:
        return None
    return Found(
        [value_statement(held[:1])], set(range(len(question.linked.words))), _SURE, "its schedule", 1
    )
