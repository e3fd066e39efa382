"""The secrets in the bytes that a form renders: strings of JSON, in which people and tools say things."""

from __future__ import annotations

import re
from bisect import bisect_right

from taboot_pipelines.documents.mime import MARKDOWN
from taboot_pipelines.documents.secrets.masking import asterisks, find_secrets
from taboot_pipelines.documents.secrets.spans import Span, merged
from taboot_pipelines.model.json_text import Run, Value

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.){8,}+"')
#: As what strings are looked at: what a person says, and what a tool does.
_NOTATIONS = (MARKDOWN, "application/json")
#: JSON in a string of JSON, and that in one: calls of tools are kept so.
_MAX_NESTING = 3


def mask_source(text: str) -> str:
    """``text`` with asterisks for every secret value in it, as it stands and as its strings of JSON say it:
    the same number of code points, the same lines."""
    parts = []
    at = 0
    for start, end in merged(_find(text, _MAX_NESTING)):
        parts.append(text[at:start])
        parts.append(asterisks(text[start:end]))
        at = end
    return "".join([*parts, text[at:]])


def _find(text: str, nesting: int) -> list[Span]:
    found = [span for notation in _NOTATIONS for span in find_secrets(text, notation)]
    if not nesting:
        return found
    for literal in _STRING.finditer(text):
        if "\\" not in literal[0]:
            # What stands there as it is has been looked at, but for what only the line's other words hid.
            inner = literal[0][1:-1]
            found += [(literal.start() + 1 + a, literal.start() + 1 + b) for a, b in _find(inner, 0)]
            continue
        runs = list(Value("", literal.start(), literal.end()).runs(text))
        starts = [0]
        for run in runs:
            starts.append(starts[-1] + len(run.text))
        said = "".join(run.text for run in runs)
        found += [_place(runs, starts, a, b) for a, b in _find(said, nesting - 1) if a < b]
    return found


def _place(runs: list[Run], starts: list[int], start: int, end: int) -> Span:
    """Where ``[start, end)`` of a string's content stands."""
    first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
    begin, finish = runs[first], runs[last]
    return (
        begin.start + (start - starts[first] if begin.verbatim else 0),
        finish.start + end - starts[last] if finish.verbatim else finish.end,
    )
