"""Whether the grammar of a sentence lets a verb say something of two names.

It is that of the second tier, asked about what a model says of things of one kind: there is nothing else that
shows which of two names a verb is said of, and whether it is said at all or ordered, supposed or explained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b import modality
from taboot_pipelines.extraction.tier_b.blocks import Block
from taboot_pipelines.extraction.tier_b.clauses import is_passive
from taboot_pipelines.extraction.tier_b.frames import frames, verb_lemma
from taboot_pipelines.extraction.tier_b.language import parsed
from taboot_pipelines.extraction.tier_b.lexicon import words

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

#: Where a name begins and ends in a sentence.
Place = tuple[int, int]
_RELATIVE = frozenset(("which", "that", "who", "it", "they", "this"))
#: Verbs whose object is the one that depends: "Redis backs Nextcloud".
_OF_OBJECT = frozenset(("back", "power", "drive"))
#: What leads either way: "A receives data from B", "A receives what B sends".
_EITHER_WAY = frozenset(("receive",))
#: What has other things inside it, which are no things beside it.
_INSIDE = frozenset(("image", "images", "container", "containers"))
#: Behind a name, these make another thing of it: "the Redis client".
_OTHERS = words("others") | words("not_it")


def asserts(relation: str, sentence: str, start: str, end: str) -> bool:
    """Return whether a verb between two names says that the relation leads from ``start`` to ``end``."""
    starts, ends = list(_places(start, sentence)), list(_places(end, sentence))
    # As inline code a name is one word, and read as a name whatever it looks like.
    block = Block(sentence, tuple(range(len(sentence))), tuple(sorted({*starts, *ends})), ())
    for _, doc in parsed([block]):
        for one in starts:
            for other in ends:
                first, second = sorted((one, other))
                for verb, prepositions in _verbs(doc, relation):
                    if (
                        first[1] <= verb.idx < second[0]
                        and _leads(verb, start_is_first=first == one)
                        and modality.states(verb, people=True)
                        and _is_said_of(verb, first)
                        and _is_about(doc, second, prepositions)
                    ):
                        return True
    return False


def _places(name: str, sentence: str) -> Iterator[Place]:
    """Yield where a name stands, whole, in a sentence."""
    return (m.span() for m in re.finditer(rf"(?<![\w-]){re.escape(name)}(?![\w-])", sentence))


def _verbs(doc: Doc, relation: str) -> Iterator[tuple[Token, set[str]]]:
    """Yield the verbs of a relation, each with the prepositions behind which an end of it may stand."""
    for token in doc:
        known = frames().get(verb_lemma(token), ()) if token.pos_ in ("VERB", "AUX") else ()
        places = {p for frame in known if frame.type == relation for p in (*frame.start, *frame.end)}
        if places:
            yield token, places | {"by", "for"}


def _leads(verb: Token, *, start_is_first: bool) -> bool:
    """Return whether a verb leads from the name before it to the one behind it, or the other way round."""
    lemma = verb_lemma(verb)
    return lemma in _EITHER_WAY or (is_passive(verb) != (lemma in _OF_OBJECT)) != start_is_first


def _is_said_of(verb: Token, name: Place) -> bool:
    """Return whether the subject of a verb is or holds a name.

    Of a participle without a subject it is open what it is said of ("deploy A using B"); not so of a passive.
    """
    token = verb
    while True:
        subject = next((c for c in token.children if c.dep_ in ("nsubj", "nsubjpass")), None)
        if subject is not None or token.dep_ not in ("conj", "xcomp") or token.head is token:
            break
        token = token.head
    if subject is None:
        return verb.tag_ != "VBG"
    if subject.lower_ in _RELATIVE:
        return True
    return subject.lower_ not in _INSIDE and any(_overlaps(t, name) for t in subject.subtree)


def _is_about(doc: Doc, name: Place, prepositions: set[str]) -> bool:
    """Return whether a name is the object of a verb or stands behind one of its prepositions, and is neither
    what something else is of ("needs the address of Y") nor one of several that it may be."""
    within = [t for t in doc if _overlaps(t, name)]
    token = next((t for t in within if t.head not in within), None)
    if token is None or doc[within[-1].i + 1 :][:1].text.lower() in _OTHERS:
        return False
    while token.dep_ in ("compound", "conj", "appos", "nmod", "amod"):
        token = token.head
        if any(c.dep_ == "cc" and c.lower_ == "or" for c in token.children):
            return False
    if any(c.dep_ == "cc" and c.lower_ == "or" for c in token.children):
        return False
    return token.dep_ != "poss" and (token.dep_ != "pobj" or token.head.lower_ in prepositions)


def _overlaps(token: Token, name: Place) -> bool:
    return name[0] < token.idx + len(token.text) and token.idx < name[1]
