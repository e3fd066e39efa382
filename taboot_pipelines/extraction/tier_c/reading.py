"""What of an answer is believed: triples that the window itself states.

An answer is a model's word. Each triple of it must quote a passage of the window as it stands there, name
both ends as the passage does (or the heading, the header or the introduction above it), and fit the ontology;
the rest is refused and counted by its reason. So an answer to another window, an invented passage, or a name
that the model knows from elsewhere says nothing. Whether the passage says what the model makes of it, no list
of words can tell: that is measured, by relation (``calibration``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from taboot_pipelines.extraction.tier_c.ontology import Ontology, Relation
from taboot_pipelines.extraction.tier_c.windows import Window

#: Raise it when equal answers would give other triples.
READING_VERSION = "5"
#: A statement is a sentence; a longer passage proves nothing.
_MAX_QUOTE = 400
_BREAK = re.compile(r"[.!?](?=\s)|\n")
#: Text that names the task of the model, its marks, or the form of its answer.
_TO_A_MODEL = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules|above|previous)\b|"
    r"\bsystem prompt\b|\byou are (?:now )?(?:an? )?(?:ai|assistant|language model|llm)\b|"
    r"\b(?:add|output|emit|return|include|extract|insert)\b.{0,30}\b(?:triples?|facts?|json)\b|"
    r"\b(?:assistant|system|user)\s*:|[\"“”']\s*(?:relation|start_type|end_type|quote|facts)\s*[\"“”']\s*:"
)


class End(NamedTuple):
    """An end of a triple: its label, and its name as the passage writes it."""

    label: str
    name: str


@dataclass(frozen=True, slots=True)
class Triple:
    """A relation that ``quote`` states, at ``place`` (code points of the document)."""

    type: str
    start: End
    end: End
    quote: str
    place: tuple[int, int]
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """What an answer gives: the triples, in its order, and how many were refused for which reason.

    Reasons: ``quote`` (not in the window), ``context`` (a heading that stands elsewhere), ``names`` (not both
    in the passage or above it), ``relation`` and ``signature`` (not of the ontology), ``grammar`` (no name of
    such a thing), ``property`` (a value that the passage does not hold), ``instruction`` (written to the
    model). ``turned``: triples whose ends were swapped, as their signature leaves no other reading; they
    count among the triples.
    """

    triples: tuple[Triple, ...]
    refused: Mapping[str, int]
    turned: int = 0


class _Refused(Exception):
    """A triple is not believed, for the reason that is its argument."""


def read(ontology: Ontology, window: Window, answer: Any) -> Read:
    """Return what an answer says of a window; ``answer`` satisfies the schema of the question."""
    triples: dict[tuple[Any, ...], Triple] = {}
    refused: Counter[str] = Counter()
    turned = 0
    for fact in answer["facts"]:
        try:
            triple = _triple(ontology, window, fact)
        except _Refused as reason:
            refused[str(reason)] += 1
            continue
        same = (triple.type, triple.start, triple.end, *sorted(triple.properties.items()))
        if same not in triples:
            triples[same] = triple
            turned += triple.start.name == fact["end"]
    return Read(tuple(triples.values()), dict(sorted(refused.items())), turned)


def _triple(ontology: Ontology, window: Window, fact: Mapping[str, Any]) -> Triple:
    relation = ontology.by_type.get(fact["relation"])
    if relation is None:
        raise _Refused("relation")
    quote, at, place = _passage(window, fact["quote"])
    if _TO_A_MODEL.search(_sentence(window.text, at, at + len(quote))):
        raise _Refused("instruction")
    first, second = End(fact["start_type"], fact["start"]), End(fact["end_type"], fact["end"])
    open_end = relation.open_end and not second.name.strip()
    named = [first.name] if open_end else [first.name, second.name]
    if first.name == second.name or not _are_named(named, quote, window.context(at)):
        raise _Refused("names")
    if open_end:
        second = End(relation.end[0], "")
    start, end = _directed(ontology, relation, first, second)
    return Triple(relation.type, start, end, quote, place, _properties(relation, fact, quote))


def _sentence(text: str, start: int, end: int) -> str:
    """Return the sentence of a line that ``text[start:end]`` stands in."""
    before = [m.end() for m in _BREAK.finditer(text, 0, start)]
    after = _BREAK.search(text, max(start, end - 1))
    return text[before[-1] if before else 0 : after.end() if after else len(text)].strip()


def _are_named(names: Sequence[str], quote: str, above: str) -> bool:
    """Whether the passage has all names, or one of them and what stands above it the others; one alone may
    stand above."""
    inside = [_stands_in(name, quote) for name in names]
    either = all(there or _stands_in(name, above) for there, name in zip(inside, names, strict=True))
    return either and (any(inside) or len(names) == 1)


def _passage(window: Window, quote: str) -> tuple[str, int, tuple[int, int]]:
    """Return the passage, where it begins in the window, and its place in the document."""
    quote = quote.strip()
    at = window.text.find(quote) if 0 < len(quote) <= _MAX_QUOTE and "\n" not in quote else -1
    if at < 0:
        raise _Refused("quote")
    while at >= 0:
        place = window.place(at, at + len(quote))
        if place is not None:
            return quote, at, place
        at = window.text.find(quote, at + 1)
    raise _Refused("context")


def _stands_in(name: str, quote: str) -> bool:
    """Whether a name stands in the passage as whole words."""
    return bool(name.strip()) and any(_whole(quote, m.start(), m.end()) for m in _spots(name, quote))


def _spots(name: str, quote: str) -> Iterator[re.Match[str]]:
    return re.finditer(re.escape(name), quote)


def _whole(quote: str, start: int, end: int) -> bool:
    """Whether no letter or digit goes on before or after ``quote[start:end]``."""
    before, after = quote[start - 1 : start], quote[end : end + 1]
    return not (before.isalnum() and quote[start].isalnum()) and not (
        after.isalnum() and quote[end - 1].isalnum()
    )


def _directed(ontology: Ontology, relation: Relation, first: End, second: End) -> tuple[End, End]:
    """Return the ends in the one direction that the signature and the grammar of names allow.

    As stated, if that may be. Else the other way round, whether the model took the labels along or left them
    in their places.
    """
    crossed = End(first.label, second.name), End(second.label, first.name)
    for start, end in ((first, second), (second, first), crossed):
        if relation.leads(start.label, end.label) and ontology.fits(relation.type, start, end):
            return start, end
    known = relation.leads(first.label, second.label) or relation.leads(second.label, first.label)
    raise _Refused("grammar" if known else "signature")


def _properties(relation: Relation, fact: Mapping[str, Any], quote: str) -> dict[str, Any]:
    """Return the values that the passage holds; raises if a number is not among them."""
    found = {}
    for name, schema in relation.asks.items():
        value = fact.get(name)
        if schema["type"] == "integer":
            if not value or not _stands_in(str(value), quote):
                raise _Refused("property")
            found[name] = value
        elif value and str(value).lower() in quote.lower():
            found[name] = value
    return found
