"""What the verbs of a sentence say of two things, by the frames of ``frames.txt``; and what nouns such as
"the database of X" do.

A frame names the places in a clause at which the two ends stand. It holds where the clause says that
something is so (see :mod:`~taboot_pipelines.extraction.tier_b.modality`) and both ends can be what the
relation leads from and to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b import modality
from taboot_pipelines.extraction.tier_b.clauses import Clauses, is_no_service, is_passive
from taboot_pipelines.extraction.tier_b.language import is_word
from taboot_pipelines.extraction.tier_b.lexicon import no_services, software, words
from taboot_pipelines.extraction.tier_b.names import Mention
from taboot_pipelines.extraction.tier_b.triple import Triple

if TYPE_CHECKING:
    from spacy.tokens import Token

_PACKAGE = "taboot_pipelines.extraction.tier_b"
_DISTRIBUTIONS = words("distributions")
_PROXIES = words("proxies")
_STORES = words("stores")
_VPNS = words("vpns")
_PEOPLE = words("people")
_GENERIC = words("generic")
_MACHINES = words("machines")
#: What makes a name that of a proxy.
_PROXY_NAME = re.compile(r"(?i)prox|ingress|gateway|balanc|router|traefik|edge|^lb\d*$|\balb\b|-lb\b|\blb-")
_NETWORK = re.compile(r"(?i)\bnetworks?\b|\bvlan\b|\bmacvlan\b|\bbridge\b")
_VPN = re.compile(r"(?i)\bvpn\b|\btunnel\b")
_CALLED_PROXY = r"`?(?![.;]).{0,30}\b(?:prox(?:y|ies)|load[- ]balancer|gateway|ingress)\b"
#: What introduces a list of what something needs.
_NEEDS = re.compile(
    r"(?i)^(?P<subject>.{2,60}?) (?:depends on|requires|needs|relies on|uses) "
    r"(?:the following|these|two|three|four)\b.*:\s*$"
)
#: What is had from another thing that runs.
_DATA = words("read") | words("data")
#: What has the name of a thing that runs, and is not that thing.
_NOT_IT = words("not_it")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/-]*(?::[\w][\w.-]*)?")


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a verb leads to its ends; ``kind`` narrows what they may be."""

    type: str
    passive: bool
    start: tuple[str, ...]
    end: tuple[str, ...]
    kind: str


@cache
def frames() -> dict[str, tuple[Frame, ...]]:
    """{lemma of a verb: its frames}."""
    found: dict[str, list[Frame]] = {}
    for line in files(_PACKAGE).joinpath("frames.txt").read_text("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        head, _, verbs = line.rpartition(" : ")
        places, _, kind = head.partition("|")
        type_, voice, start, end = places.split()
        frame = Frame(type_, voice == "passive", tuple(start.split(",")), tuple(end.split(",")), kind.strip())
        for verb in verbs.split():
            found.setdefault(verb, []).append(frame)
    return {verb: tuple(own) for verb, own in found.items()}


def stem(verb: str) -> str:
    """What all forms of a regular verb begin with: "us" of "use" and "using", "rel" of "relies"."""
    return verb.removesuffix("e").removesuffix("y")


def clauses_to(clauses: Clauses, verb: Token) -> bool:
    """Whether a verb's clause says to what."""
    return bool(clauses.after(verb, ("to",)))


def verb_lemma(verb: Token) -> str:
    """The lemma; where the model's own is no verb of a frame ("scrap", "proxie"), what the endings leave."""
    lemma = verb.lemma_.lower()
    if lemma in frames():
        return lemma
    text = verb.lower_
    stems = (text[:-3], f"{text[:-3]}y", text[:-2], text[:-1], f"{text[:-3]}e")
    ends = ("ing", "ied", "ies", "ed", "es", "s", "d")
    return next((s for s in stems if text.endswith(ends) and s in frames()), lemma)


class Frames:
    """The relations that the verbs and nouns of one sentence state."""

    def __init__(self, clauses: Clauses) -> None:
        self._clauses = clauses
        self._names = clauses.names
        self._sentence = clauses.sentence
        self._text = clauses.sentence.text

    def triples(self) -> Iterator[Triple]:
        """What is stated; the same may come twice."""
        if modality.gives_example(self._sentence) or modality.is_past(self._sentence):
            return
        for verb in self._sentence:
            lemma = verb_lemma(verb)
            if verb.pos_ in ("VERB", "AUX") or (verb.pos_ == "NOUN" and verb.tag_ == "VBZ"):
                passive = is_passive(verb)
                for frame in frames().get(lemma, ()):
                    if frame.passive == passive:
                        yield from self._framed(verb, frame)
        yield from self._without()
        yield from self._as_store()
        yield from self._adjectives()
        yield from self._is_behind()
        yield from self._in_front()
        yield from self._made_use()
        yield from self._base_image()
        yield from self._listed_needs()

    # Verbs --------------------------------------------------------------------------------------------------

    def _framed(self, verb: Token, frame: Frame) -> Iterator[Triple]:
        ends = self._at(verb, frame.end, frame)
        if not ends:
            return
        told_for = frame.type == "CONNECTS_TO" and modality.is_function(verb)
        participle = (
            frame.passive
            and verb.dep_ in ("acl", "relcl")
            and not modality.is_negated(verb)
            and not modality.in_condition(verb)
            and not modality.is_unknown(verb)
        )
        if not told_for and not participle and not modality.states(verb):
            return
        if frame.kind == "data" and not any(t.lower_ in _DATA for t in self._clauses.objects(verb)):
            return
        rule = f"verb {verb_lemma(verb)}"
        starts = self._at(verb, frame.start, frame)
        if not starts and frame.passive and frame.start == ("by",) and verb.lemma_ in ("require", "need"):
            # "An external Postgres is required": by what the page is about.
            title = self._clauses.title
            if title is not None and not self._clauses.after(verb, ("by", "for")):
                starts = [(title, None)]
        if (
            frame.end in (("object",), ("part",))
            and frame.kind == "proxy"
            and clauses_to(self._clauses, verb)
        ):
            return  # "proxies one name to another": the object is what is asked for.
        if frame.end == ("owner",) and frame.passive and clauses_to(self._clauses, verb):
            return  # "Requests to A are routed to B by C": A is what is asked for.
        for end, noun in ends:
            for start, owner in starts:
                if self._fits(frame, start, owner, end, noun) and not self._is_part(verb, owner, noun):
                    yield Triple(frame.type, start, end, rule)

    def _at(self, verb: Token, places: tuple[str, ...], frame: Frame) -> list[tuple[Mention, Token | None]]:
        """The mentions at a place of the clause, with the nouns that name them."""
        clauses = self._clauses
        if places == ("subject",) and frame.end == places:
            # What a relation leads to must be named: "this is used by X" says nothing of the page's thing.
            return [(m, t) for t in clauses.subjects(verb) for m in [clauses.named_or_apposed(t)] if m]
        found: list[tuple[Mention, Token | None]] = []
        if places in (("subject",), ("owner",), ("keeper",)):
            parts = () if places == ("subject",) else ("of", "from", "to", "for", "on")
            for token in clauses.subjects(verb):
                found += [(m, token) for m in clauses.owners(token, parts)]
            silent = places == ("keeper",) or clauses.is_silent(verb)
            if silent and not found and clauses.title is not None:
                found = [(clauses.title, None)]
            return found
        if places in (("object",), ("part",)):
            tokens = clauses.objects(verb)
        else:
            tokens = clauses.after(verb, places)
        for token in tokens:
            if any(t.text == "/" for t in self._names.doc[token.left_edge.i : token.i + 2]):
                continue  # "MySQL/MariaDB".
            mention = self._base(token, frame) or clauses.named_or_apposed(token) or self._image_in(token)
            if mention is not None:
                found.append((mention, token))
            elif places == ("part",) or frame.kind == "proxy":
                found += [(m, token) for m in clauses.owners(token, ("of",)) if not m.context]
        return found

    def _base(self, token: Token, frame: Frame) -> Mention | None:
        if frame.kind == "base" and token.lower_ in _DISTRIBUTIONS:
            last = token
            if token.i + 1 < self._sentence.end and token.nbor(1).text in ("Linux", "Leap", "Stream"):
                last = token.nbor(1)
            return self._names.mention(token, last)
        if frame.kind == "base":
            for child in token.children:
                if child.dep_ == "compound" and child.lower_ in _DISTRIBUTIONS:
                    return self._names.mention(child, token)
                named = not is_word(child.lower_) or child.lower_ in software()
                if (
                    token.lower_ == "image"
                    and child.dep_ in ("compound", "nmod")
                    and child.i < token.i
                    and named
                ):
                    return self._names.mention(child, child, sure=True)
        if frame.kind == "network":
            for word in (token, *token.children):
                if self._names.kind(word) == "code":
                    return self._names.mention(word, word, sure=True)
        if frame.kind == "vpn":
            for child in token.children:
                if self._names.kind(child) == "code":
                    return self._names.of(child)
        if frame.kind in ("vpn", "network") and _VPN.search(token.text) is None:
            for child in token.children:
                if child.dep_ in ("compound", "nmod", "amod", "appos") and self._names.of(child) is not None:
                    return self._names.of(child)
        return None

    def _image_in(self, token: Token) -> Mention | None:
        for child in token.children:
            if token.lower_ in ("image", "baseimage") and self._names.kind(child) in ("code", "image"):
                return self._names.mention(child, child, "image", sure=True)
        return None

    def _fits(
        self, frame: Frame, start: Mention, owner: Token | None, end: Mention, noun: Token | None
    ) -> bool:
        """Whether both ends can be what the relation leads from and to."""
        if (start.start, start.end) == (end.start, end.end) or noun is None:
            return False
        if start.text.lower() == end.text.lower():
            return False
        if noun.lower_ in _PEOPLE:
            return False
        published = owner is not None and owner.lower_ in ("image", "images", "chart", "release")
        if frame.passive and frame.type == "CONNECTS_TO" and published:
            return False  # Images are pushed to a registry; they do not connect.
        kind, type_ = frame.kind, frame.type
        is_service = start.kind in ("name", "host", "image") and not is_no_service(start)
        sure = self._clauses.is_sure(end, noun)
        if kind == "address":
            return end.kind == "ip" and "." in start.text
        if not is_service:
            return False
        if kind == "known":
            words_of = {noun.lower_, *(t.lower_ for t in noun.children)}
            if words_of & _NOT_IT:
                return False
            return end.kind == "name" and self._runs(end, noun)
        if kind == "proxy":
            return self._is_proxy(start, owner) and self._is_target(end, noun)
        if kind == "base":
            return self._is_base(end, noun, frame)
        if kind == "network":
            joined = owner is not None and owner.lower_ in ("container", "containers") and end.marked
            return end.kind in ("name", "host") and (joined or self._is_network(end, noun))
        if kind == "machine":
            return start.kind != "host" and self._is_machine(end, noun)
        if kind == "vpn":
            around = " ".join(t.text for t in (noun, *noun.children))
            return end.kind == "name" and (
                end.text.lower().split(" ")[0] in _VPNS or _VPN.search(f"{around} {end.text}") is not None
            )
        if is_no_service(end) or end.kind not in ("name", "host"):
            return False
        if frame.type == "DEPENDS_ON" and kind == "software":
            return end.text.lower() in software() or end.marked
        if type_ == "DEPENDS_ON" and self._is_network(end, noun):
            return False
        if type_ == "CONNECTS_TO" and "through" in frame.end and end.text.lower() in _VPNS:
            return False  # A tunnel is no partner of what goes through it.
        if type_ == "CONNECTS_TO":
            if self._is_proxy(start, owner) and frame.end == ("to",):
                return False  # It routes there.
            return sure or end.kind != "name" or self._called_service(noun)
        return sure

    def _is_part(self, verb: Token, owner: Token | None, noun: Token | None) -> bool:
        """Whether an image or container uses what is inside it: "this image uses Apache"."""
        inside = owner is not None and owner.lower_ in ("image", "container", "images", "containers")
        uses = verb_lemma(verb) in ("use", "leverage", "employ", "utilize", "utilise")
        return inside and uses and noun is not None and noun.lower_ not in _STORES | {"server", "instance"}

    def _runs(self, end: Mention, noun: Token) -> bool:
        """Whether a thing that is used or needed is known to run, and is no function, package or command:
        what is only written as code must be called a service, or have a service's part."""
        text = end.text.lower()
        if text in no_services() or not end.sure:
            return False
        if not end.marked or text in software():
            return True
        as_what = (
            {t.lower_ for t in self._names.doc[noun.i + 1 : noun.i + 5]} if self._said_as(noun) else set()
        )
        return self._called_service(noun) or bool(as_what & _STORES) or self._to_store(noun)

    def _to_store(self, noun: Token) -> bool:
        """Whether something is used "to store its data"."""
        after = [t.lower_ for t in self._names.doc[noun.i + 1 : min(noun.i + 3, self._sentence.end)]]
        return after[:1] == ["to"] and after[1:] in (["store"], ["keep"], ["save"], ["cache"], ["persist"])

    def _said_as(self, noun: Token) -> bool:
        return bool(noun.i + 1 < self._sentence.end and noun.nbor(1).lower_ in ("as", "for"))

    def _called_service(self, noun: Token) -> bool:
        around = {noun.lower_, *(t.lower_ for t in noun.children)}
        return bool(around & {"service", "container", "server", "node", "broker", "database"})

    def _is_proxy(self, start: Mention, owner: Token | None = None) -> bool:
        """Whether a thing forwards requests: by its name, the noun beside it, or what it is called."""
        text = start.text.lower()
        if text in _PROXIES or text.split(" ")[0] in _PROXIES or _PROXY_NAME.search(text) is not None:
            return True
        around = {owner.lower_, *(t.lower_ for t in owner.children)} if owner is not None else set()
        if around & {"ingress", "proxy", "gateway", "balancer", "router"}:
            return True
        called = re.escape(start.text) + _CALLED_PROXY
        return re.search(called, self._text) is not None

    def _is_target(self, end: Mention, noun: Token) -> bool:
        if end.kind in ("url", "hostport"):
            return True
        if end.kind != "name" or is_no_service(end):
            return False
        return self._clauses.is_sure(end, noun) or self._called_service(noun)

    def _is_base(self, end: Mention, noun: Token, frame: Frame) -> bool:
        """Whether an image can be built from it: a reference, a distribution, what is called an image."""
        first = end.text.lower().split(" ")[0].split(":")[0]
        around = {noun.lower_, *(t.lower_ for t in noun.children), *end.text.lower().split()}
        called = bool(around & {"image", "images", "base", "baseimage"})
        if frame.end == ("object",):
            return (end.kind == "image" or ":" in end.text) and (called or "/" in end.text)
        if end.kind == "image" or first in _DISTRIBUTIONS:
            return True
        written = _IMAGE.fullmatch(end.text) is not None and (":" in end.text or "/" in end.text)
        return (end.kind in ("name", "hostport") and (called or written)) or written

    def _is_network(self, end: Mention, noun: Token) -> bool:
        around = " ".join(
            t.text for t in (noun, *noun.children, *([noun.head] if noun.dep_ == "appos" else ()))
        )
        return (
            _NETWORK.search(around) is not None
            or re.search(r"(?i)net(?:work)?$|_net|-net", end.text) is not None
        )

    def _is_machine(self, end: Mention, noun: Token) -> bool:
        if end.kind == "host":
            return True
        if end.kind != "name" or end.text.lower() in software() | no_services():
            return False
        around = {noun.lower_, *(t.lower_ for t in noun.children)}
        if noun.dep_ == "appos":
            around.add(noun.head.lower_)
        if around & _MACHINES:
            return True
        return re.search(r"\d", end.text) is not None and re.search(r"[a-z]", end.text) is not None

    # Nouns and adjectives -----------------------------------------------------------------------------------

    def _without(self) -> Iterator[Triple]:
        """ "X will not start without Y", "Without Y, X is useless"."""
        for word in self._sentence:
            if word.lower_ != "without":
                continue
            verb = next((a for a in word.ancestors if a.pos_ in ("VERB", "AUX")), None)
            if verb is None or modality.in_condition(verb) or modality.is_order(verb):
                continue
            negated = any(c.dep_ == "neg" for c in verb.children) or any(
                c.lower_ in ("useless", "pointless", "dead", "broken") for c in verb.children
            )
            if not negated:
                continue
            for noun in (g for g in word.children if g.dep_ == "pobj"):
                for token in self._clauses.listed(noun):
                    end = self._clauses.named(token)
                    if end is None or end.kind != "name" or not self._clauses.is_sure(end, token):
                        continue
                    for subject in self._clauses.subjects(verb):
                        for start in self._clauses.owners(subject):
                            if start.text.lower() not in no_services():
                                yield Triple("DEPENDS_ON", start, end, "noun without")

    def _as_store(self) -> Iterator[Triple]:
        """ "X with Y as its database", "Y is the database of X", "X has one dependency: Y"."""
        for word in self._sentence:
            if word.lower_ not in _STORES:
                continue
            if word.dep_ == "pobj" and word.head.lower_ == "as":
                its = any(c.tag_ == "PRP$" for c in word.children)
                for prep in self._sentence:
                    if not its or prep.lower_ not in ("with", "on") or not 0 < word.i - prep.i < 6:
                        continue
                    end = self._names.of(prep.nbor(1))
                    verb = next((a for a in prep.ancestors if a.pos_ in ("VERB", "AUX")), None)
                    if end is None or not end.sure or verb is None or not modality.states(verb, people=True):
                        continue
                    for token in self._clauses.objects(verb) or self._clauses.subjects(verb):
                        for start in self._clauses.owners(token):
                            if start.sure or self._clauses.is_proper(token):
                                yield Triple("DEPENDS_ON", start, end, f"noun {word.lower_}")
            elif word.dep_ == "attr" and word.head.lemma_.lower() == "be" and modality.states(word.head):
                owners = [
                    m
                    for prep in word.children
                    if prep.dep_ == "prep" and prep.lower_ in ("of", "for")
                    for noun in prep.children
                    if noun.dep_ == "pobj"
                    for t in self._clauses.listed(noun)
                    for m in self._clauses.owners(t)
                ]
                for subject in self._clauses.subjects(word.head):
                    end = self._clauses.named(subject)
                    if end is not None and end.sure and end.kind == "name":
                        for start in owners:
                            yield Triple("DEPENDS_ON", start, end, f"noun {word.lower_}")

    def _adjectives(self) -> Iterator[Triple]:
        """ "X is dependent on Y"."""
        for word in self._sentence:
            if word.lower_ not in ("dependent", "reliant") or word.head.lemma_.lower() != "be":
                continue
            if not modality.states(word.head):
                continue
            for token in [*self._clauses.after(word, ("on", "upon"))]:
                end = self._clauses.named(token)
                if end is None or not self._clauses.is_sure(end, token):
                    continue
                for subject in self._clauses.subjects(word.head):
                    for start in self._clauses.owners(subject):
                        yield Triple("DEPENDS_ON", start, end, f"adjective {word.lower_}")

    def _is_behind(self) -> Iterator[Triple]:
        """ "Behind the proxy there are X and Y", "X is reachable only through the proxy"."""
        for word in self._sentence:
            if word.lower_ not in ("behind", "through", "via"):
                continue
            verb = next((a for a in word.ancestors if a.pos_ in ("VERB", "AUX")), None)
            if verb is None or verb.lemma_.lower() != "be" or not modality.states(verb):
                continue
            reached = any(
                c.lower_ in ("reachable", "accessible", "available") for c in (*verb.children, word.head)
            )
            if word.lower_ != "behind" and not reached:
                continue
            proxies = [
                m
                for noun in word.children
                if noun.dep_ == "pobj"
                for t in self._clauses.listed(noun)
                for m in self._clauses.owners(t)
                if self._is_proxy(m)
            ]
            there = [c for c in verb.children if c.dep_ in ("attr", "nsubj", "nsubjpass")]
            for token in (t for c in there for t in self._behind(c)):
                for end in self._clauses.owners(token):
                    for start in proxies:
                        if end.kind == "name" and end.text.lower() not in no_services():
                            yield Triple("ROUTES_TO", start, end, f"noun {word.lower_}")

    def _in_front(self) -> Iterator[Triple]:
        """ "A cache stands in front of X"."""
        for word in self._sentence:
            if word.lower_ != "front" or word.i + 1 >= self._sentence.end or word.nbor(1).lower_ != "of":
                continue
            verb = next((a for a in word.ancestors if a.pos_ in ("VERB", "AUX")), None)
            if verb is None or not modality.states(verb):
                continue
            for noun in word.nbor(1).children:
                for token in self._clauses.listed(noun) if noun.dep_ == "pobj" else ():
                    for end in self._clauses.owners(token):
                        for subject in self._clauses.subjects(verb):
                            for start in self._clauses.owners(subject):
                                if self._is_proxy(start, subject) and self._is_target(end, token):
                                    yield Triple("ROUTES_TO", start, end, "noun front")

    def _made_use(self) -> Iterator[Triple]:
        """ "X makes use of Y"."""
        for word in self._sentence:
            if word.lower_ != "use" or word.head.lemma_.lower() != "make" or not modality.states(word.head):
                continue
            for token in self._clauses.after(word, ("of",)):
                end = self._clauses.named(token)
                if end is None or not end.sure or is_no_service(end):
                    continue
                for subject in self._clauses.subjects(word.head):
                    for start in self._clauses.owners(subject):
                        yield Triple("DEPENDS_ON", start, end, "noun use")

    def _base_image(self) -> Iterator[Triple]:
        """ "The base image of X is Y"."""
        for word in self._sentence:
            verb = word.head
            if word.lower_ != "image" or verb.lemma_.lower() != "be" or not modality.states(verb):
                continue
            if not any(c.lower_ == "base" for c in word.children):
                continue
            for noun in verb.children:
                end = self._names.of(noun) if noun.i > verb.i else None
                written = self._names.kind(noun) in ("code", "image")
                if end is None or not written or (":" not in end.text and "/" not in end.text):
                    continue
                for start in self._clauses.owners(word, ("of", "for")):
                    yield Triple("BUILDS", start, end, "noun base")

    def _listed_needs(self) -> Iterator[Triple]:
        """The items of "X depends on the following services:"."""
        said = self._names.block.introduction
        title = self._clauses.title
        match = _NEEDS.search(said)
        if match is None or title is None or modality.gives_example(self._sentence):
            return
        subject = match["subject"].strip(" *`").lower()
        if subject not in _GENERIC and subject.removeprefix("the ").removeprefix("this ") not in _GENERIC | {
            title.text.lower()
        }:
            return
        for token in self._sentence[:3]:
            end = self._names.of(token)
            if end is not None and end.kind == "name" and end.sure and not is_no_service(end):
                if end.text.lower() != title.text.lower():
                    yield Triple("DEPENDS_ON", title, end, "list")
                return

    def _behind(self, noun: Token) -> list[Token]:
        """The things of a noun: those that stand in apposition to it, else itself."""
        named = [c for c in noun.children if c.dep_ == "appos" and self._names.of(c) is not None]
        return self._clauses.listed(named[0]) if named else self._clauses.listed(noun)
