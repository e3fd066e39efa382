"""Rows of tables: the cell that is asked for."""

from __future__ import annotations

import re

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.asking import Asked
from taboot_pipelines.retrieval.answering.values import TOLD, Value, carries
from taboot_pipelines.retrieval.sentences import Statement

#: What a column is called that holds a kind of value.
_HEADERS = {
    kind: re.compile(pattern)
    for kind, pattern in {
        Value.MOMENT: r"when|time|date|schedule",
        Value.DATE: r"when|date|since|until",
        Value.FREQUENCY: r"when|schedule|interval|frequency|how often|every",
        Value.DURATION: r"kept|keep|retention|duration|how long|for",
        Value.PLACE: r"where|location|place|path|target|destination",
        Value.PERSON: r"who|owner|contact|person|responsible",
    }.items()
}
_OF_NO_CELL = (Value.YES_NO, Value.MEANING, Value.STEPS, Value.REASON)


def asked_cell(asked: Asked, row: Statement) -> str | None:
    """The cell of a row that is asked for, with what the row is about and the column; None if it cannot be
    told from the others or is what the row is about.
    """
    if len(row.cells) < 3 or asked.value in _OF_NO_CELL or (asked.many and asked.value is None):
        return None
    runs = frozenset(words.runs(words.fold(asked.question)))
    told = [n for n, (_, cell) in enumerate(row.cells) if not set(words.runs(words.fold(cell))) <= runs]
    named = _named(asked, row, told)
    if named is None:
        pattern = _HEADERS.get(asked.value) if asked.value is not None else None
        fit = [n for n in told if pattern is not None and pattern.fullmatch(row.cells[n][0].lower())]
        if not fit and asked.value in TOLD:
            fit = [n for n in told if carries(asked.value, row.cells[n][1], runs)]
        named = fit[0] if len(fit) == 1 else None
    if not named or not _about(asked, row, named):
        return None
    header, cell = row.cells[named]
    return f"{row.cells[0][1].strip('`')}: {cell} ({header})"


def _named(asked: Asked, row: Statement, told: list[int]) -> int | None:
    """The column whose header the question names best, among those that tell something."""
    weights = {}
    for n in told:
        held = words.forms(row.cells[n][0])
        weights[n] = sum(t.weight for t in asked.terms if t.form in held or (t.group and t.group in held))
    best = max(weights, key=lambda n: weights[n], default=None)
    return best if best is not None and weights[best] > 0 else None


def _about(asked: Asked, row: Statement, column: int) -> bool:
    """Whether the row is found by what it is about or by the cell itself, not by a third one."""
    held = [words.forms(cell) for _, cell in row.cells]
    by = [
        {n for n, own in enumerate(held) if t.form in own or any(p in own for p in t.parts)}
        for t in asked.terms
    ]
    return any(0 in found or column in found for found in by)
