"""Which sentences state nothing, and which are written to the model rather than to a reader.

A model is told to pass over them, and small ones do not. This looks at words alone and refuses rather too
much: what is refused here and is so all the same, the second tier may read.
"""

from __future__ import annotations

import re

_DENIES = re.compile(
    r"(?i)\b(?:not|never|neither|nor|without|cannot|no longer|instead of|rather than)\b|n['’]t\b"
)
_SUPPOSES = re.compile(
    r"(?i)\b(?:if|unless|whether|could|might|may|would|should|assuming|suppose|imagine|hypothetical\w*|"
    r"optionally|for example|for instance|such as|e\.\s?g\.|let's say)\b"
)
#: Text that names the task of the model, its marks, or the form of its answer.
_TO_A_MODEL = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules|above|previous)\b|"
    r"\bsystem prompt\b|\byou are (?:now )?(?:an? )?(?:ai|assistant|language model|llm)\b|"
    r"\b(?:add|output|emit|return|include|extract|insert)\b.{0,30}\b(?:triples?|facts?|json)\b|"
    r"\b(?:assistant|system|user)\s*:|[\"“”']\s*(?:relation|start_type|end_type|quote|facts)\s*[\"“”']\s*:"
)
_HISTORY = re.compile(
    r"^\s*\*{0,2}(?:\d{1,2}\.\d{1,2}\.\d{2,4}\b|\d{4}-\d{2}-\d{2}\b"
    r"|v?\d+(?:\.\d+){1,3}\*{0,2}\s*[:\u2013\u2014-]"
    r"\s)"
)
#: Sections that tell what changed, by their headings: a word for it, or the number of a release.
_HISTORY_SECTION = re.compile(
    r"(?i)\W*(?:change ?logs?|(?:notable |breaking |contributor-facing )?changes|history|versions|"
    r"release notes|what'?s new|\[?v?\d+\.\d+(?:\.\w+)*\]?(?:\W.*)?)\W*"
)
_PAST = re.compile(
    r"(?i)\b(?:before the|previously|formerly|originally|back then|in the past|until \d{4}|at that time|"
    r"by the end of|years? ago|used to|once (?:had|was|were)|earlier versions?|back in \d{4})\b"
)
_HEADING = re.compile(r"(?m)^# (.*)$")
_BREAK = re.compile(r"[.!?](?=\s)|\n")


def sentence(text: str, start: int, end: int) -> str:
    """Return the sentence of a line that ``text[start:end]`` stands in."""
    before = [m.end() for m in _BREAK.finditer(text, 0, start)]
    after = _BREAK.search(text, max(start, end - 1))
    return text[before[-1] if before else 0 : after.end() if after else len(text)].strip()


def states(said: str) -> bool:
    """Whether a sentence may state something: it denies, supposes and asks nothing."""
    return not (_DENIES.search(said) or _SUPPOSES.search(said) or said.rstrip("\"')*_ ").endswith("?"))


def is_past(text: str, at: int) -> bool:
    """Whether what stands at ``at`` in the text of a window belongs to a change log, or tells how it was."""
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[begin : end if end >= 0 else len(text)]
    headings = _HEADING.findall(text, 0, begin)
    above = headings[-1].split(" > ") if headings else ()
    return (
        _HISTORY.match(line) is not None
        or any(map(_HISTORY_SECTION.fullmatch, above))
        or _PAST.search(line) is not None
    )


def is_to_a_model(said: str) -> bool:
    """Whether a text tries to tell a model what to do or to answer."""
    return _TO_A_MODEL.search(said) is not None
