"""Steps of ordered lists: the first, the last, one by its number, what follows another, how many there are,
and the list under a heading that asks what the question asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.asking import Asked, Term
from taboot_pipelines.retrieval.answering.confidence import THRESHOLD, Features, confidence
from taboot_pipelines.retrieval.answering.documents import ReadDocument
from taboot_pipelines.retrieval.answering.passages import Place, Said, Scored, forms_of, headed, of_the_house
from taboot_pipelines.retrieval.answering.values import Value
from taboot_pipelines.retrieval.sentences import Form

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


def find_steps(asked: Asked, places: Sequence[Place], limit: int) -> list[Said]:
    """What is said of the ordered list that is asked about, at most ``limit`` parts; empty if no step is
    asked for or no list is about it.
    """
    folded = words.fold(asked.question).rstrip("?!. ")
    count, numbered, nth = _COUNT.search(folded), _NUMBERED.search(folded), _NTH.search(folded)
    beside = _BESIDE.search(folded)
    if _PRIOR.search(folded) and asked.value in (None, Value.STEPS) and not (count or numbered or nth):
        ahead = _best(asked, places, frozenset(), prior=True)
        if ahead:
            place, items, features = ahead
            return [said for item in items for said in _said(place, item, features)][:limit]
    if not (count or numbered or nth or beside or asked.value is Value.STEPS):
        return []
    anchor = words.forms(beside[2]) if beside else frozenset()
    found = _best(asked, places, anchor, whole=not (count or numbered or nth or beside))
    if found is None:
        return []
    place, items, features = found
    if count:
        first = _said(place, items[0][:1], features)
        return [Said(f"{len(items)} steps.", first[0].scored)]
    if numbered or nth:
        word = (nth[1] or nth[2]) if nth else ""
        at = int(numbered[1]) if numbered else len(items) if word in ("last", "final") else _ORDINALS[word]
        return _said(place, items[at - 1], features)[:limit] if 1 <= at <= len(items) else []
    if beside:
        held = [set().union(*(place.document.words(n).own for n in item)) for item in items]
        near = [len(anchor & own) for own in held]
        at = near.index(max(near)) + (1 if beside[1] == "after" else -1)
        return _said(place, items[at], features)[:limit] if max(near) and 0 <= at < len(items) else []
    return [said for item in items for said in _said(place, item, features)][:limit]


def _best(
    asked: Asked,
    places: Sequence[Place],
    anchor: frozenset[str],
    *,
    whole: bool = False,
    prior: bool = False,
) -> tuple[Place, list[list[int]], Features] | None:
    """The list that is most about what is asked, if any is enough. ``whole``: under a heading that asks the
    same; ``prior``: under one that says what comes before it, ordered or not.
    """
    topic = [t for t in asked.terms if t.form not in _STEP_WORDS]
    if prior:
        topic = [t for t in topic if not (_PRIOR.fullmatch(t.text) or t.group == _NEEDED)]
    best: tuple[float, Place, list[list[int]], Features] | None = None
    seen: set[tuple[str, int]] = set()
    for place in sorted(
        of_the_house(asked, places), key=lambda p: (-p.own, -p.similarity, p.document.doc_id, p.start)
    ):
        key = (place.document.doc_id, place.document.start)
        if not topic or key in seen:
            continue
        seen.add(key)
        for items in _lists(place.document, ordered=not prior):
            features = _features(place, items, topic, anchor)
            head = place.document.statements[items[0][0]]
            if prior and not _PRIOR.search(words.fold(head.section.rsplit(" > ", 1)[-1])):
                continue
            if whole:
                path = head.section.split(" > ")
                generic = len(path) > 1 and forms_of(path[-1]) <= _GENERIC
                asks = headed(asked, head, " > ".join(path[:-1])) if generic else False
                if not asks:
                    continue
            sure = confidence(features)
            if features.coverage >= _MIN_COVERED and sure >= THRESHOLD and (best is None or sure > best[0]):
                best = (sure, place, items, features)
    return best[1:] if best else None


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


def _features(
    place: Place, items: list[list[int]], topic: Sequence[Term], anchor: frozenset[str]
) -> Features:
    document = place.document
    held = document.words(items[0][0])
    about = held.lead | held.section | document.named
    if anchor:
        about |= anchor & frozenset().union(*(document.words(n).own for item in items for n in item))
    total = sum(t.weight for t in topic)
    stands = [t for t in topic if t.form in about or t.group in about or (t.parts and about >= set(t.parts))]
    names = min((1.0 if t in stands else 0.0 for t in topic if t.name), default=1.0)
    return Features(sum(t.weight for t in stands) / total, names, max(0.0, min(1.0, place.similarity)))


def _said(place: Place, item: Sequence[int], features: Features) -> list[Said]:
    return [
        Said(place.document.statements[n].said, Scored(place, n, confidence(features), features, 1.0))
        for n in item
    ]
