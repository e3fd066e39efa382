"""On which port something listens, as a sentence tells it: EXPOSES_ENDPOINT of a bare number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b import modality
from taboot_pipelines.extraction.tier_b.clauses import is_no_service, is_passive
from taboot_pipelines.extraction.tier_b.lexicon import words
from taboot_pipelines.extraction.tier_b.names import GENERIC, Mention
from taboot_pipelines.extraction.tier_b.reached import ASSUMES, DASHES, Reached
from taboot_pipelines.extraction.tier_b.triple import Triple

if TYPE_CHECKING:
    from spacy.tokens import Token

_ACCESS = words("access")
_REACHED = words("reached")
_LISTENS = words("listens")
#: What stands for the thing itself where it is reached.
_PLACES = words("places")
#: What has an address of its own, of those.
_PAGES = words("pages")
_PEOPLE = words("people")
_PORTS_LISTED = re.compile(r"(?i)\bports?\b")
#: Verbs that lead a thing to a port of another.
_GOES_TO = frozenset(("connect", "access", "reach", "talk", "speak", "find", "open"))
_ARTICLES = frozenset(("the", "our", "your", "its", "a", "an"))
_PROTOCOLS = frozenset(
    ("http", "https", "tcp", "udp", "tls", "websocket", "websockets", "grpc", "mqtt", "ssh")
)
#: Verbs whose object is a part of their subject.
_HAS = frozenset(
    ("have", "ship", "come", "include", "provide", "offer", "feature", "bring", "contain", "start")
)
#: What is read at an address, and is not what listens there.
_READ = words("read")
_NUMBER_OF_PORT = re.compile(r"[:`]*(?P<number>\d{1,5})(?:/(?:tcp|udp))?[:`]*")


class Ports(Reached):
    """The bare ports of one sentence, and what listens on them."""

    def triples(self, told: bool) -> Iterator[Triple]:
        """What the sentence says listens on a port; ``told``: an address of it says where something is."""
        if modality.gives_example(self._sentence) or modality.is_over(self._sentence):
            return
        last, found = None, list[Mention]()
        for number in self._ports():
            if self._configures(number):
                continue
            found = self._listening(number, told) or (found if self._goes_on(last, number) else [])
            last = number
            for subject in found:
                told = True
                mention = self._names.mention(number, number, "port").until("/")
                yield Triple("EXPOSES_ENDPOINT", subject, mention, "port", {"port": port_of(number)})

    def _goes_on(self, last: Token | None, number: Token) -> bool:
        """Whether a number is another of a list of ports with their protocols: "UDP 53 and TCP 853"."""
        if last is None:
            return False
        between = {t.lower_ for t in self._names.doc[last.i + 1 : number.i]}
        return bool(between & _PROTOCOLS) and between <= _PROTOCOLS | {",", "and", "&", "/", "port", "ports"}

    def _ports(self) -> Iterator[Token]:
        """The numbers of bare ports: "port 6379", "ports 80 and 443", "listens on 3000", "on `:8000`"."""
        last = -9
        for token in self._sentence:
            if not is_port(token) or token.i == self._sentence.start:
                if token.i == self._sentence.start and is_port(token) and self._is_item(token):
                    yield token
                continue
            before = token.nbor(-1).lower_.strip(":")
            if (
                before in ("port", "ports")
                or (before in ("tcp", "udp") and self._clauses.word(token.i - 2) in ("port", "ports"))
                or (before in _PROTOCOLS and self._is_after_protocol(token, last))
            ):
                last = token.i
                yield token
            elif before in ("on", "is", "at"):
                verb = next((a for a in token.ancestors if a.pos_ in ("VERB", "AUX")), None)
                gapped = last >= 0 and before in ("on", "at")
                if gapped or (verb is not None and self._speaks_of_port(verb, token)):
                    last = token.i
                    yield token
            elif before in ("and", ",", "&") and token.i - last <= 6:
                last = token.i
                yield token

    def _is_after_protocol(self, number: Token, last: int) -> bool:
        """Whether the number after a protocol is a port: "listens on UDP 53", or another of such a list."""
        lead = self._clauses.word(number.i - 2)
        if lead in (",", "and", "&") and number.i - last <= 4:
            return True
        verb = next((a for a in number.ancestors if a.pos_ in ("VERB", "AUX")), None)
        return lead == "on" and verb is not None and verb.lemma_.lower() in ("listen", "accept", "answer")

    def _speaks_of_port(self, verb: Token, number: Token) -> bool:
        lemma = verb.lemma_.lower()
        if lemma == "be":
            return any(c.lower_ == "port" for c in verb.children)
        return lemma in ("listen", "run", "accept", "answer", "serve") and number.nbor(-1).lower_ == "on"

    def _is_item(self, number: Token) -> bool:
        """Whether it begins an item of a list of ports: "8989 - Sonarr"."""
        told = f"{self._names.block.introduction} {' '.join(h.text for h in self._names.block.headings[-1:])}"
        return (
            len(self._sentence) >= 3
            and number.nbor(1).text in DASHES
            and _PORTS_LISTED.search(told) is not None
        )

    def _listening(self, number: Token, told: bool) -> list[Mention]:
        """What listens on a port."""
        doc = self._names.doc
        if number.i == self._sentence.start:
            found = self._names.of(doc[number.i + 2])
            if found is not None:
                return [found] if found.kind == "name" else []
            generic = any(t.lower_ in _PLACES | _PAGES for t in self._sentence[2:])
            return [self._clauses.title] if generic and self._clauses.title is not None else []
        gapped = self._gapped(number) if told else None
        if gapped is not None:
            return gapped
        port = next(
            (
                doc[i]
                for i in range(number.i - 1, max(self._sentence.start - 1, number.i - 7), -1)
                if doc[i].lower_.strip(":") in ("port", "ports")
            ),
            number,
        )
        last = number.i + 1 >= self._sentence.end or number.nbor(1).tag_[:2] != "NN"
        if port.i > self._sentence.start + 1 and port.nbor(-1).text == "(" and last:
            return [m for m in self._clauses.owners(port.nbor(-2)) if m.kind == "name"][:1]
        verb = next((a for a in port.ancestors if a.pos_ in ("VERB", "AUX")), None)
        if ASSUMES.search(self._text):
            return []
        if (label := self._item(port)) is not None:
            return [label]
        if verb is None:
            return self._available(port)
        lemma = verb.lemma_.lower()
        of = verb.nbor(-1) if verb.i > self._sentence.start else verb
        if (
            lemma in _LISTENS
            and verb.tag_ in ("VBG", "VBN", "VBD")
            and (of.lower_ in GENERIC | _PAGES | _PLACES or self._is_named(of))
            and of is not verb
        ):
            # "your web frontend running on port 80", whatever the tree makes of it.
            return [] if self._is_made(of) else self._named_above(of, self._owners(of))
        order = modality.is_order(verb)
        if modality.is_negated(verb) or modality.in_condition(verb) or modality.is_unreal(verb):
            return []
        if modality.was(verb):
            return []
        if modality.modals(verb) & {"could", "may", "might", "would", "must"}:
            return []
        if (
            "can" in modality.modals(verb)
            and lemma in ("run", "listen", "use", "serve")
            and not is_passive(verb)
        ):
            return []  # What it could do.
        if self._is_subject(port) and lemma in ("serve", "be", "use", "expose", "carry"):
            if lemma == "be":
                return self._owners_of_port(port) or self._is_place(verb)
            if is_passive(verb):
                return [m for t in self._clauses.after(verb, ("by", "for")) for m in self._owners(t)]
            return [m for t in self._clauses.objects(verb) for m in self._owners(t)][:1]
        if order and lemma not in ("connect", "access"):
            return []
        by = {t.lower_ for t in doc[max(port.i - 4, self._sentence.start) : port.i]}
        if not by & {"on", "at", "over", "in", "via", "to", "using", "under", "through"} and not (
            lemma in ("use", "expose") and port.dep_ == "dobj"
        ):
            return []
        if lemma not in _LISTENS and not (lemma == "be" and self._is_there(verb)):
            page = port.head.head if port.head.lower_ in ("on", "at") else port
            told = page.lower_ in _PAGES and modality.states(verb)
            return self._owners(page) if told else []  # "with its GUI on port 80".
        if verb.tag_ in ("VBG", "VBN") and verb.dep_ in ("acl", "amod"):
            return [] if self._is_made(verb.head) else self._named_above(verb.head, self._owners(verb.head))
        if verb.dep_ == "relcl" and any(c.tag_ in ("WDT", "WP") for c in verb.children):
            return [] if self._is_made(verb.head) else self._owners(verb.head)
        subjects = [t for t in self._clauses.subjects(verb) if t.lower_ not in _PEOPLE]
        if lemma in _GOES_TO and not order and subjects and not is_passive(verb):
            return []  # "A connects to B on port 80": A is not there.
        if lemma in ("run", "start", "host", "launch"):
            run = [t for t in self._clauses.objects(verb) if not is_port(t) and t.i < port.i]
            if run and not all(t.lower_ in GENERIC for t in run):
                return [m for t in run for m in [self._clauses.named_or_apposed(t)] if m and m.sure]
        if lemma == "expose" and (objects := self._objects_exposed(verb, port)):
            # "This service exposes the shop on port 80": what is exposed, or, unnamed, nothing.
            exposed = [m for t in objects for m in self._owners(t) if not m.context or not self._is_told(t)]
            if exposed:
                return exposed[:1]
            subjects = [t for t in subjects if self._clauses.named_or_apposed(t) is not None]
        if not subjects and self._clauses.is_silent(verb) and self._clauses.title is not None:
            return [self._clauses.title]
        if is_passive(verb) and (agents := self._clauses.after(verb, ("by",))):
            return [m for t in agents for m in self._owners(t)]
        people = any(c.lower_ in _PEOPLE for c in verb.children if c.dep_ in ("nsubj", "nsubjpass"))
        if order or people:
            subjects = [*self._clauses.objects(verb), *self._clauses.after(verb, ("to",))]
            subjects = [t for t in subjects if not t.lower_.startswith("port") and not is_port(t)]
        return [m for t in subjects[:1] for m in self._owners(t)]

    def _is_named(self, word: Token) -> bool:
        """Whether a word is surely a thing's name."""
        found = self._names.of(word)
        return found is not None and found.kind == "name" and found.sure and not is_no_service(found)

    def _available(self, port: Token) -> list[Mention]:
        """What a line without a verb is about: "Web UI available on port 80"."""
        for word in self._names.doc[self._sentence.start + 1 : port.i]:
            if word.lower_ in _REACHED and word.head.tag_[:2] == "NN" and word.head.i < word.i:
                return self._owners(word.head)
        return []

    def _is_made(self, noun: Token) -> bool:
        """Whether an order makes the thing that it tells of: "start a Postgres container that …"."""
        verb = next((a for a in noun.ancestors if a.pos_ == "VERB"), None)
        new = any(c.lower_ in ("a", "an", "another") for c in noun.children)
        return new and verb is not None and modality.is_order(verb)

    def _named_above(self, noun: Token, found: list[Mention]) -> list[Mention]:
        """What the sentence is about, if it names it, where otherwise the page would say whose a noun is:
        "Reaper is also accessed over the API exposed on port 80"."""
        if not found or not all(m.context for m in found):
            return found
        verbs = (a for a in noun.ancestors if a.pos_ in ("VERB", "AUX"))
        verb = next((v for v in verbs if v.lemma_.lower() in _ACCESS | _HAS), None)
        if verb is None:
            return found
        subjects = self._clauses.subjects(verb)
        named = [m for t in subjects for m in self._owners(t) if not m.context]
        ours = all(t.lower_ in GENERIC | _PEOPLE or t.pos_ == "PRON" or self._owners(t) for t in subjects)
        return named or (found if ours else [])

    def _objects_exposed(self, verb: Token, port: Token) -> list[Token]:
        """What a verb puts on a port, if that is not the port itself or something that is read there."""
        return [
            t
            for t in self._clauses.objects(verb)
            if t is not port and not is_port(t) and not t.lower_.startswith("port") and t.lower_ not in _READ
        ]

    def _is_told(self, noun: Token) -> bool:
        """Whether a noun has another before it that tells which is meant: "the shopfront application"."""
        return any(c.dep_ == "compound" and c.lower_ not in GENERIC | _PLACES for c in noun.lefts)

    def _is_there(self, verb: Token) -> bool:
        """Whether "is" says where something is: "monitoring is on port 8222", "is available on port 80"."""
        return any(t.lower_ in _REACHED for t in self._sentence) or any(
            c.dep_ == "prep" and c.lower_ in ("on", "at") for c in verb.children
        )

    def _owners_of_port(self, port: Token) -> list[Mention]:
        found = [m for m in self._clauses.owners(port, ("of", "for")) if m.kind == "name"]
        ours = any(c.dep_ == "compound" and c.lower_ in GENERIC | _PAGES for c in port.lefts)
        title = self._clauses.title
        return found or ([title] if ours and title is not None else [])  # "the web interface port is 80".

    def _is_subject(self, port: Token) -> bool:
        """Whether a verb is said of a port: "port 80 serves X", "HTTP on port 80 serves X"."""
        over = port.head.head if port.head.dep_ == "prep" else port
        spoken = over is port or over.lower_ in _PROTOCOLS
        return spoken and over.dep_ in ("nsubj", "nsubjpass")

    def _is_place(self, be: Token) -> list[Mention]:
        """What is at "port 80 is the web interface", "port 80 is Grafana"."""
        for noun in be.children:
            if noun.dep_ == "attr" and noun.i > be.i:
                named = self._clauses.named_or_apposed(noun)
                if named is not None:
                    return [named] if self._clauses.is_sure(named, noun) and not is_no_service(named) else []
                if noun.lower_ in GENERIC | _PAGES and self._clauses.title is not None:
                    return [self._clauses.title]
        return []

    def _gapped(self, number: Token) -> list[Mention] | None:
        """``B`` of "A runs on port 1, B on 2"; nothing if that is no name, None if it is not so told."""
        doc, at = self._names.doc, number.i - 1
        while at > self._sentence.start and doc[at].lower_ in (
            "port",
            "on",
            "at",
            "page",
            "a",
            "the",
            "chat",
        ):
            at -= 1
        if doc[at].i == number.i - 1 or doc[at].pos_ in ("VERB", "AUX") or at <= self._sentence.start:
            return None
        found = self._clauses.named(doc[at])  # Also "the web service on port 80".
        first = at
        while first > self._sentence.start and (
            doc[first - 1].tag_[:2] in ("NN", "JJ", "VB") or doc[first - 1].lower_ in _ARTICLES
        ):
            first -= 1
        parted = self._clauses.word(first - 1) in ("and", ",", ";", "while")
        if found is None or found.kind != "name":
            noun = doc[at].tag_[:2] == "NN" and doc[first].lower_ in _ARTICLES
            if doc[at].lower_ in _PAGES | _PLACES:
                return None  # Another part of the same thing.
            return [] if parted and noun else None
        return [found] if parted or found.sure else None


def is_port(token: Token) -> bool:
    """Whether a token is the number of a port, also as ``:8000`` or ``8000/tcp``."""
    return port_of(token) is not None


def port_of(token: Token) -> int | None:
    """The port that a token is."""
    match = _NUMBER_OF_PORT.fullmatch(token.text)
    number = int(match["number"]) if match is not None else 0
    return number if 0 < number < 65536 else None
