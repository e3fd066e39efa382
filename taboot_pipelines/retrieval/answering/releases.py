"""What stands below the heading of a version or a date, as in a list of changes: the heading says since when
it is so, and all below it is what came with it.
"""

from __future__ import annotations

import re

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.asking import Asked
from taboot_pipelines.retrieval.answering.values import Value
from taboot_pipelines.retrieval.sentences import Statement

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


def dated_by(asked: Asked, statement: Statement) -> str:
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


def asks_for_changes(asked: Asked, statement: Statement) -> str:
    """The heading of the version below which a statement stands, if the question asks what came with it."""
    if asked.value is not None or not _CHANGED.search(asked.folded):
        return ""
    release = release_of(statement.section)
    forms = words.forms(release) if release else frozenset()
    dotted = [t.form for t in asked.terms if _DOTTED.fullmatch(t.form)]
    return release if dotted and all(form in forms for form in dotted) else ""
