"""Comparisons of a column: the row with the most or the least, those beyond a bound, the sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.documents import Excerpt, PassageSpan
from taboot_pipelines.retrieval.answering.text_query import Term, TextQuery

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
_MIN_ROW_COVERED = 0.6
_MIN_ROWS = 2


def compare_column(asked: TextQuery, places: Sequence[PassageSpan], limit: int) -> list[Excerpt]:
    """The rows of a table that a comparison asks for: the most, the least, those beyond a bound, or the sum,
    of the one column that the question names and that holds a quantity of the same unit in every row; empty
    if there is no such table in ``places`` or more than one.
    """
    if not asked.compares or asked.compares == "average":
        return []
    found = []
    seen: set[tuple[str, int]] = set()
    for place in places:
        key = (place.document.doc_id, place.document.start)
        if key in seen:
            continue
        seen.add(key)
        for rows in _tables(place):
            said = _compare(asked, place, rows)
            if said:
                found.append(said)
    return found[0][:limit] if len(found) == 1 else []


def _tables(place: PassageSpan) -> list[list[int]]:
    blocks: dict[int, list[int]] = {}
    for number, s in enumerate(place.document.statements):
        if s.cells:
            blocks.setdefault(s.block, []).append(number)
    return [rows for rows in blocks.values() if len(rows) >= _MIN_ROWS]


def _compare(asked: TextQuery, place: PassageSpan, rows: list[int]) -> list[Excerpt]:
    document = place.document
    headers = list(dict.fromkeys(h for n in rows for h, _ in document.statements[n].cells if h))
    bound = _BOUND.search(words.fold(asked.question))
    limit = _quantity(bound[2]) if bound else None
    compared = (
        words.forms(asked.compares) | set(words.runs(asked.compares)) | words.forms(bound[2] if bound else "")
    )
    topic = [t for t in asked.terms if t.form not in compared and t.text not in compared]
    columns = [h for h in headers if any(_is_in(t, words.forms(h)) for t in topic)]
    measured = []
    for header in columns:
        cells = [dict(document.statements[n].cells).get(header, "") for n in rows]
        quantities = [q for q in map(_quantity, cells) if q is not None]
        units = {unit for _, unit in quantities}
        if len(units) == 1 and len(quantities) == len(rows):
            measured.append((header, cells, [number for number, _ in quantities], units.pop()))
    held = document.words(rows[0]).section | document.named | words.forms(" ".join(headers))
    total = sum(t.weight for t in topic)
    covered = sum(t.weight for t in topic if _is_in(t, held)) / total if total else 0.0
    if len(measured) != 1 or covered < _MIN_ROW_COVERED:
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
    said = []
    for i in chosen:
        key = document.statements[rows[i]].cells[0][1].strip("`")
        said.append(Excerpt(document, rows[i], rows[i], f"{key}: {cells[i]} ({header})", covered))
    if asked.compares in _SUMS and said:
        if unit == "bytes":
            return []  # cells of several prefixes have no unit of their own
        total_text = f"{sum(values):g} {unit}".strip()
        said[0] = replace(said[0], text=f"{total_text} in all ({header}): {said[0].text}")
    return said


def _quantity(cell: str) -> tuple[float, str] | None:
    """The one number of a cell and its unit, bytes in bytes; None if there is none or more than one."""
    m = _QUANTITY.fullmatch(cell.strip("`* "))
    if m is None:
        return None
    number = m[1].replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", m[1]) else m[1].replace(",", ".")
    unit = (m[2] or "").lower()
    scale = _SCALES.get(unit)
    return (float(number) * scale, "bytes") if scale else (float(number), m[2] or "")


def _is_in(term: Term, forms: frozenset[str]) -> bool:
    """Whether a term or a synonym of it is among ``forms``."""
    return term.form in forms or (term.group is not None and term.group in forms)
