"""Whether a sentence tells a relation of the graph model at all.

A model that must answer by a schema finds two names in a sentence and puts one of the relations between them.
The verbs are those that the second tier reads, and a few nouns. Of most relations the ends show which is
which, so where the word stands is left to the model. What depends on another thing, or connects to it, is of
the same kind as that: there the grammar of the sentence must let a verb lead from the one to the other.
"""

from __future__ import annotations

import re
from functools import cache

from taboot_pipelines.extraction.tier_b.frames import frames
from taboot_pipelines.extraction.tier_b.lexicon import words
from taboot_pipelines.extraction.tier_c.grammar import asserts

#: What tells a relation beside the verbs of the second tier.
_ALSO = {
    "ROUTES_TO": ("behind", "upstream", "through", "via", "front", "entry", "proxy"),
    "EXPOSES_ENDPOINT": ("port", "url", "address", "endpoint", "interface", "ui", "webui", "dashboard"),
    "BINDS": ("publish", "bind", "bound", "map", "expose", "forward", "port"),
    "BUILDS": ("image", "base", "tag"),
    "RESOLVES_TO": ("record", "address", "dns", "name", "ip", "alias", "resolve", "point"),
}
#: What tells them beside the verbs, by the lists of the second tier.
_LISTS = {"EXPOSES_ENDPOINT": ("access", "reached", "listens")}
#: Verbs that say too little by themselves.
_COMMON = frozenset(("be", "do", "take", "run", "make", "start", "put", "sit", "live", "stand", "get"))
_IRREGULAR = {
    "build": "built",
    "drive": "driven",
    "find": "found",
    "hide": "hidden",
    "hold": "held",
    "keep": "kept",
    "send": "sent",
    "speak": "spoken",
    "write": "written",
}
#: Relations between things of one kind.
_OF_ONE_KIND = frozenset(("DEPENDS_ON", "CONNECTS_TO"))


def tells(relation: str, sentence: str, start: str, end: str) -> bool:
    """Return whether a sentence tells a relation of this type, of ``start`` to ``end``."""
    if relation in _OF_ONE_KIND:
        return asserts(relation, sentence, start, end)
    pattern = _patterns().get(relation)
    return pattern is None or pattern.search(sentence) is not None


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """{relation: the words that tell it, in all their forms}; none for one that a text cannot tell."""
    telling = {relation: set(also) for relation, also in _ALSO.items()}
    for relation, lists in _LISTS.items():
        telling[relation].update(*map(words, lists))
    for verb, own in frames().items():
        for frame in own:
            if frame.type in telling:
                telling[frame.type].add(verb)
    return {
        relation: re.compile(rf"(?i)\b(?:{'|'.join(map(_forms, sorted(told - _COMMON)))})\b")
        for relation, told in telling.items()
    }


def _forms(word: str) -> str:
    """Return a pattern of the forms of a verb or a noun: "use" is in "using", and neither in "user"."""
    plain = re.escape(word)
    irregular = f"|{_IRREGULAR[word]}" if word in _IRREGULAR else ""
    if word.endswith("e"):
        return f"{plain[:-1]}(?:e[sd]?|ing){irregular}"
    if re.search("[^aeiou]y$", word):
        return f"{plain[:-1]}(?:y|ies|ied|ying){irregular}"
    return f"{plain}(?:e?s|(?:{re.escape(word[-1])})?(?:ed|ing))?{irregular}"
