"""Tables: what comparing a column says; and the steps of ordered lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import Value
from taboot_pipelines.retrieval.answering.documents import Excerpt, PassageSpan, ReadDocument
from taboot_pipelines.retrieval.answering.text_query import Term, TextQuery
from taboot_pipelines.retrieval.sentences import Form, TextStatement


def of_the_house(asked: TextQuery, places: Sequence[PassageSpan]) -> list[PassageSpan]:
    """The passages that may say which of the house's things are so: no vendor knows that. Where no text among
    them is known to be the house's own, whose it is cannot be told."""
    if not asked.inventory or (asked.ours and not any(p.own and p.text for p in places)):
        return list(places)
    return [p for p in places if p.own]


def headed(asked: TextQuery, statement: TextStatement, section: str | None = None) -> bool:
    """Whether the innermost heading (of ``section``, if another than the statement's) asks the same as the
    question: each has the other's words.
    """
    leaf = (statement.section if section is None else section).rsplit(" > ", 1)[-1]
    if not leaf:
        return False
    heading = forms_of(leaf)
    # In a small knowledge base no word says much.
    telling = [t for t in asked.terms if t.weight >= 1.5] or list(asked.terms)
    held = sum(t.weight for t in telling if t.stands(heading))
    if not telling or held < 0.85 * sum(t.weight for t in telling):
        return False
    meant = {f for t in asked.terms for f in (t.form, t.group, *t.parts)}
    return sum(1 for f in heading if not f.startswith("~") and f not in meant) <= len(telling) / 2


@lru_cache(maxsize=4096)
def forms_of(text: str) -> frozenset[str]:
    """The forms of a heading, of which few are asked for again and again."""
    return words.forms(text)


def _is_in(term: Term, forms: frozenset[str]) -> bool:
    """Whether a term or a synonym of it is among ``forms``."""
    return term.form in forms or (term.group is not None and term.group in forms)


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
_MIN_ROW_COVERED = 0.6
_MIN_ROWS = 2


def compare_column(asked: TextQuery, places: Sequence[PassageSpan], limit: int) -> list[Excerpt]:
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


# --- Steps of ordered lists: the first, the last, one by its number, what follows another, how many there
#     are, and the list under a heading that asks what the question asks

_ORDINALS = {
    word: n
    for n, word in enumerate(
        ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"), 1
    )
}
_COUNT = re.compile(r"\bhow many steps\b")
_NUMBERED = re.compile(r"\bstep (?:no\.? |number )?(\d{1,3})\b")
_NTH = re.compile(
    rf"\b({'|'.join(_ORDINALS)}|last|final) (?:step|thing|task)\b"
    r"|\b(?:do|try|check|now|what|start) (first|last)\b"
)
_BESIDE = re.compile(
    r"\b(?:what|which step|which one)(?: is| do i do| should i do| must i do)? ?(?:comes?|follows?|happens"
    r"|the step|next|done)? ?(?:right |directly |just )?(after|before) (.+?)"
    r"(?: (?:in|when|of|during|while|for) (.+))?$"
)
#: Words that ask for a step and are not what the steps are about.
_STEP_WORDS = frozenset(
    words.stem(w)
    for w in (*_ORDINALS, "step", "last", "final", "next", "before", "after", "follow", "task", "come")
)
#: Headings that say only that steps follow.
_GENERIC = frozenset(
    words.stem(w)
    for w in ("step", "procedure", "instruction", "how", "checklist", "todo", "order", "sequence", "first")
)
#: What comes before something, in questions and in headings.
_PRIOR = re.compile(
    r"\b(?:before|prior to|beforehand|prerequisites?|preparations?|requirements?|you(?:'ll)? need)\b"
)
_NEEDED = words.group(words.stem("need"))
#: So much of what is asked must stand in the headings of a list, its title or what leads in to it.
_MIN_COVERED = 0.65
_MIN_LISTED = 2


def find_steps(asked: TextQuery, places: Sequence[PassageSpan], limit: int) -> list[Excerpt]:
    """What is said of the ordered list that is asked about, at most ``limit`` parts; empty if no step is
    asked for or no list is about it.
    """
    folded = words.fold(asked.question).rstrip("?!. ")
    count, numbered, nth = _COUNT.search(folded), _NUMBERED.search(folded), _NTH.search(folded)
    beside = _BESIDE.search(folded)
    if _PRIOR.search(folded) and asked.value in (None, Value.STEPS) and not (count or numbered or nth):
        ahead = _best(asked, places, frozenset(), prior=True)
        if ahead:
            place, items, sure = ahead
            return [said for item in items for said in _said(place, item, sure)][:limit]
    if not (count or numbered or nth or beside or asked.value is Value.STEPS):
        return []
    anchor = words.forms(beside[2]) if beside else frozenset()
    found = _best(asked, places, anchor, whole=not (count or numbered or nth or beside))
    if found is None:
        return []
    place, items, sure = found
    if count:
        return [replace(_said(place, items[0][:1], sure)[0], text=f"{len(items)} steps.")]
    if numbered or nth:
        word = (nth[1] or nth[2]) if nth else ""
        at = int(numbered[1]) if numbered else len(items) if word in ("last", "final") else _ORDINALS[word]
        return _said(place, items[at - 1], sure)[:limit] if 1 <= at <= len(items) else []
    if beside:
        held = [set().union(*(place.document.words(n).own for n in item)) for item in items]
        near = [len(anchor & own) for own in held]
        at = near.index(max(near)) + (1 if beside[1] == "after" else -1)
        return _said(place, items[at], sure)[:limit] if max(near) and 0 <= at < len(items) else []
    return [said for item in items for said in _said(place, item, sure)][:limit]


def _best(
    asked: TextQuery,
    places: Sequence[PassageSpan],
    anchor: frozenset[str],
    *,
    whole: bool = False,
    prior: bool = False,
) -> tuple[PassageSpan, list[list[int]], float] | None:
    """The list that is most about what is asked, if any is enough, and how much it is. ``whole``: under a
    heading that asks the same; ``prior``: under one that says what comes before it, ordered or not.
    """
    topic = [t for t in asked.terms if t.form not in _STEP_WORDS]
    if prior:
        topic = [t for t in topic if not (_PRIOR.fullmatch(t.text) or t.group == _NEEDED)]
    best: tuple[PassageSpan, list[list[int]], float] | None = None
    seen: set[tuple[str, int]] = set()
    for place in sorted(of_the_house(asked, places), key=lambda p: not p.own):
        key = (place.document.doc_id, place.document.start)
        if not topic or key in seen:
            continue
        seen.add(key)
        for items in _lists(place.document, ordered=not prior):
            about = _about_list(place, items, topic, anchor)
            head = place.document.statements[items[0][0]]
            if prior and not _PRIOR.search(words.fold(head.section.rsplit(" > ", 1)[-1])):
                continue
            if whole:
                path = head.section.split(" > ")
                generic = len(path) > 1 and forms_of(path[-1]) <= _GENERIC
                asks = headed(asked, head, " > ".join(path[:-1])) if generic else False
                if not asks:
                    continue
            if about >= _MIN_COVERED and (best is None or about > best[2]):
                best = (place, items, about)
    return best


def _lists(document: ReadDocument, *, ordered: bool) -> Iterator[list[list[int]]]:
    """The lists of a document, the ordered ones or all: of each its items, of each item the numbers of its
    statements.
    """
    if not ordered:
        yield from _any_lists(document)
        return
    items: list[list[int]] = []
    last: tuple[str, int, int | None] | None = None
    for number, s in enumerate(document.statements):
        here = (s.section, s.block, s.ordinal)
        if s.ordinal is not None and last == here and items:
            items[-1].append(number)
        elif s.ordinal is not None and last and last[:2] == here[:2] and last[2] == s.ordinal - 1:
            items.append([number])
        else:
            if len(items) >= _MIN_LISTED:
                yield items
            items = [[number]] if s.ordinal == 1 else []
        last = here if s.ordinal is not None and items else None
    if len(items) >= _MIN_LISTED:
        yield items


def _any_lists(document: ReadDocument) -> Iterator[list[list[int]]]:
    """The lists of a document, each item of which is one statement."""
    blocks: dict[tuple[str, int], list[list[int]]] = {}
    for number, s in enumerate(document.statements):
        if s.form is Form.ITEM:
            blocks.setdefault((s.section, s.block), []).append([number])
    yield from (items for items in blocks.values() if len(items) >= _MIN_LISTED)


def _about_list(
    place: PassageSpan, items: list[list[int]], topic: Sequence[Term], anchor: frozenset[str]
) -> float:
    """The share of the topic's weight that stands in what a list is about."""
    document = place.document
    held = document.words(items[0][0])
    about = held.lead | held.section | document.named
    if anchor:
        about |= anchor & frozenset().union(*(document.words(n).own for item in items for n in item))
    stands = [t for t in topic if t.form in about or t.group in about or (t.parts and about >= set(t.parts))]
    return sum(t.weight for t in stands) / sum(t.weight for t in topic)


def _said(place: PassageSpan, item: Sequence[int], sure: float) -> list[Excerpt]:
    document = place.document
    return [Excerpt(document, n, n, document.statements[n].said, sure) for n in item]
