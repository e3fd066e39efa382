"""Tables: the cell of a row that is asked for, and what comparing a column says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.asking import Asked, Term
from taboot_pipelines.retrieval.answering.confidence import Features, confidence
from taboot_pipelines.retrieval.answering.passages import Place, Said, Scored, of_the_house
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


# --- comparisons of a column --------------------------------------------------------------------------------

_QUANTITY = re.compile(r"\W*(\d{1,3}(?:,\d{3})+|\d+(?:[.,]\d+)?)\s?([^\W\d_]+|%|€|\$|£)?[^\d]*")
_SCALES = {
    f"{prefix}{infix}b": 1000**power if not infix else 1024**power
    for power, prefix in enumerate(("", "k", "m", "g", "t", "p"))
    for infix in ("", "i")
    if prefix or not infix
}
_LEAST = re.compile(r"least|fewest|smallest|lowest|shortest|fastest|cheapest|youngest")
_BOUND = re.compile(
    r"\b(more|larger|bigger|higher|older|longer|less|fewer|smaller|lower|shorter) than ([\d.,]+ ?\w*)"
)
_MORE = frozenset({"more", "larger", "bigger", "higher", "older", "longer"})
_SUMS = frozenset({"total", "altogether", "sum", "combined"})
#: So much of what is asked must stand in a table's headers, headings or title.
_MIN_COVERED = 0.6
_MIN_ROWS = 2


def compare_column(asked: Asked, places: Sequence[Place], limit: int) -> list[Said]:
    """The rows of a table that a comparison asks for: the most, the least, those beyond a bound, or the sum,
    of the one column that the question names and that holds a quantity of the same unit in every row; empty
    if there is no such table or more than one.
    """
    if not asked.compares or asked.compares == "average":
        return []
    found = []
    seen: set[tuple[str, int]] = set()
    for place in of_the_house(asked, places):
        key = (place.document.doc_id, place.document.start)
        if key in seen:
            continue
        seen.add(key)
        for rows in _tables(place):
            said = _compare(asked, place, rows)
            if said:
                found.append(said)
    return found[0][:limit] if len(found) == 1 else []


def _tables(place: Place) -> list[list[int]]:
    blocks: dict[int, list[int]] = {}
    for number, s in enumerate(place.document.statements):
        if s.cells:
            blocks.setdefault(s.block, []).append(number)
    return [rows for rows in blocks.values() if len(rows) >= _MIN_ROWS]


def _compare(asked: Asked, place: Place, rows: list[int]) -> list[Said]:
    document = place.document
    headers = list(dict.fromkeys(h for n in rows for h, _ in document.statements[n].cells if h))
    bound = _BOUND.search(words.fold(asked.question))
    limit = _quantity(bound[2]) if bound else None
    compared = (
        words.forms(asked.compares) | set(words.runs(asked.compares)) | words.forms(bound[2] if bound else "")
    )
    topic = [t for t in asked.terms if t.form not in compared and t.text not in compared]
    columns = [h for h in headers if any(_in(t, words.forms(h)) for t in topic)]
    measured = []
    for header in columns:
        cells = [dict(document.statements[n].cells).get(header, "") for n in rows]
        quantities = [q for q in map(_quantity, cells) if q is not None]
        units = {unit for _, unit in quantities}
        if len(units) == 1 and len(quantities) == len(rows):
            measured.append((header, cells, [number for number, _ in quantities], units.pop()))
    held = document.words(rows[0]).section | document.named | words.forms(" ".join(headers))
    total = sum(t.weight for t in topic)
    covered = sum(t.weight for t in topic if _in(t, held)) / total if total else 0.0
    if len(measured) != 1 or covered < _MIN_COVERED:
        return []
    header, cells, values, unit = measured[0]
    if asked.compares in _SUMS:
        chosen = list(range(len(rows)))
    elif bound:
        if limit is None or limit[1] != unit:
            return []
        chosen = [i for i, v in enumerate(values) if (v > limit[0] if bound[1] in _MORE else v < limit[0])]
    else:
        best = (min if _LEAST.search(asked.compares) else max)(values)
        chosen = [i for i, v in enumerate(values) if v == best]
    features = Features(max(covered, _MIN_COVERED), 1.0, max(0.0, min(1.0, place.similarity)))
    sure = confidence(features)
    said = []
    for i in chosen:
        key = document.statements[rows[i]].cells[0][1].strip("`")
        said.append(Said(f"{key}: {cells[i]} ({header})", Scored(place, rows[i], sure, features, 1.0)))
    if asked.compares in _SUMS and said:
        if unit == "bytes":
            return []  # cells of several prefixes have no unit of their own
        said[0] = Said(
            f"{sum(values):g} {unit}".strip() + f" in all ({header}): {said[0].text}", said[0].scored
        )
    return said


def _in(term: Term, held: frozenset[str]) -> bool:
    return term.form in held or (term.group is not None and term.group in held)


def _quantity(cell: str) -> tuple[float, str] | None:
    """The one number of a cell and its unit, bytes in bytes; None if there is none or more than one."""
    m = _QUANTITY.fullmatch(cell.strip("`* "))
    if m is None:
        return None
    number = m[1].replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", m[1]) else m[1].replace(",", ".")
    unit = (m[2] or "").lower()
    scale = _SCALES.get(unit)
    return (float(number) * scale, "bytes") if scale else (float(number), m[2] or "")
