"""Whether a sentence has a word that tells a relation of the graph model.

A model that must answer by a schema finds two names in a sentence and puts one of the relations between them.
The verbs are those that the second tier reads, and a few nouns; where they stand is left to the model.
"""

from __future__ import annotations

import re
from functools import cache

from taboot_pipelines.extraction.tier_b.frames import frames, stem
from taboot_pipelines.extraction.tier_b.lexicon import words

#: What tells a relation without a verb, by the beginnings of words.
_NOUNS = {
    "DEPENDS_ON": ("dependen", "relian", "without", "prerequisite", *words("stores")),
    "CONNECTS_TO": ("connection", "client", "peer", "target", "source"),
    "ROUTES_TO": ("behind", "upstream", "through", "via", "front", "entry", "proxy", "proxies"),
    "EXPOSES_ENDPOINT": ("port", "url", "address", "endpoint", "interface", "ui", "webui", "dashboard"),
    "BINDS": ("publish", "bind", "bound", "map", "expos", "forward", "port"),
    "BUILDS": ("image", "base", "tag"),
    "RESOLVES_TO": ("record", "address", "dns", "name", "ip", "alias"),
}
#: Verbs that say too little by themselves.
_COMMON = frozenset(("be", "do", "take", "run", "make", "start", "put", "sit", "live", "stand", "get"))
_IRREGULAR = ("built", "sent", "kept", "held", "made", "driven", "written")


def tells(relation: str, sentence: str) -> bool:
    """Return whether a sentence has a word that tells a relation of this type."""
    pattern = _patterns().get(relation)
    return pattern is None or pattern.search(sentence) is not None


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """{relation: what its words begin with}; none for a relation that a text cannot tell."""
    begun: dict[str, set[str]] = {relation: set(nouns) for relation, nouns in _NOUNS.items()}
    for verb in words("access") | words("reached") | words("listens"):
        if verb not in _COMMON:
            begun["EXPOSES_ENDPOINT"].add(stem(verb))
    for verb, own in frames().items():
        for frame in own:
            if verb not in _COMMON and frame.type in begun:
                begun[frame.type].add(stem(verb))
    for relation in ("DEPENDS_ON", "CONNECTS_TO", "ROUTES_TO", "BUILDS"):
        begun[relation].update(_IRREGULAR)
    return {
        relation: re.compile(rf"(?i)\b(?:{'|'.join(sorted(map(re.escape, beginnings)))})")
        for relation, beginnings in begun.items()
    }
