"""Ports of services on machines, as a sentence tells of them: BINDS.

Wordings differ much ("maps port 80 of A to port 8080 of the host", "A's port 3000 is bound to localhost"),
what is said does not: ports, a machine, a word for publishing, and whose port it is. So the parts are looked
for, and each number belongs to the place that stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taboot_pipelines.extraction.tier_b import modality
from taboot_pipelines.extraction.tier_b.clauses import Clauses, is_no_service
from taboot_pipelines.extraction.tier_b.lexicon import no_services, words
from taboot_pipelines.extraction.tier_b.names import CLASSES, GENERIC, Mention
from taboot_pipelines.extraction.tier_b.triple import Triple

if TYPE_CHECKING:
    from spacy.tokens import Token

_PEOPLE = words("people")
_SET_UP = words("set_up")
_PUBLISHES = re.compile(
    r"(?i)\b(?:map(?:s|ped|ping)?|publish(?:es|ed)?|expos(?:es|ed)|binds?|bound|forwards?|forwarded|"
    r"ends? up|appear(?:s|ing)?|will reach|reaches)\b"
)
_HOST = (
    r"(?P<host>docker host|host machine|(?:docker )?hosts?|nodes?|machine|localhost|"
    r"\d{1,3}(?:\.\d{1,3}){3}|[\w-]+(?:\.[\w-]+)+)"
)
_THE = r"(?:the\s+|our\s+|your\s+|its\s+|each\s+|all\s+)?"
_INSIDE = re.compile(
    r"(?i)^\W*(?:of|in|inside|within|on|from)\s+(?:the\s+|this\s+|its\s+)?(?P<noun>[\w.`-]+(?:\s+[\w.`-]+){0,3})"
)
_BESIDE_HOST = re.compile(rf"(?i)^\W*(?:of|on|at|to)\s+{_THE}`?{_HOST}\b(?!\s*(?:container|service)\b)")
_HOSTS = re.compile(
    rf"(?i)\b(?:of|on|at|to|onto|only to|via)\s+{_THE}`?{_HOST}\b(?!\s*(?:container|service|ports?)\b|:)|"
    r"\b(?P<before>host)\s+port\s+\d"
)
_HOSTS_PORT = re.compile(rf"(?i){_HOST}(?:'s|’s)?\s+ports?\s*`?$")
_HOST_UNDER = re.compile(r"(?i)host\W+under\W+(?:the\W+)?(?:number|port)\W*$")
_NUMBER = re.compile(r"(?<![\w.:/-])`?(?P<number>\d{1,5})`?(?:/(?P<protocol>tcp|udp))?(?![\w:-]|\.\d|/\w)")
_PAIR = re.compile(r"(?<![\w.:/])(?P<outer>\d{2,5}):(?P<inner>\d{1,5})(?![\w.:/])")
_BEFORE_PORT = re.compile(
    r"(?i)(?:\b(?:tcp |udp )?ports?|'s|’s|\bunder the number|\bnumber|\bas|,|\band|\bto)\s*`?$"
)
_TARGETS = re.compile(r"(?i)\bsame\s+port\b")
_ADDRESS_PORT = re.compile(r"(?i)\bbinds?\s+(?:to\s+)?`?(?P<ip>\d{1,3}(?:\.\d{1,3}){3}):(?P<port>\d{1,5})`?")


_NO_OWNER = re.compile(r"(?i)localhost|host|machine|nodes?|\W*-.*")
#: Words of sentences that ask for something to be so.
_ASKS = words("asks")


@dataclass(slots=True)
class _Port:
    """A number of a port in the sentence. ``outer``: whether a machine stands beside it, or a container."""

    number: int
    start: int
    end: int
    protocol: str
    outer: bool | None = None
    noun: str = ""


class Published:
    """The published ports of one sentence."""

    def __init__(self, clauses: Clauses) -> None:
        self._clauses = clauses
        self._names = clauses.names
        self._sentence = clauses.sentence
        self._text = clauses.sentence.text

    def triples(self) -> Iterator[Triple]:
        """What the sentence says is published on a machine."""
        verb = self._verb()
        if self._sentence[0].lemma_.lower() in _SET_UP or any(
            t.lower_ in _ASKS or (t.pos_ == "VERB" and t.lower_ != "port" and modality.is_order(t))
            for t in self._sentence
        ):
            return
        if verb is None or modality.gives_example(self._sentence) or modality.is_past(self._sentence):
            return
        direct = _ADDRESS_PORT.search(self._text)
        if direct is not None:
            subjects = [m for t in self._clauses.subjects(verb) for m in self._clauses.owners(t)]
            at = self._token_at(direct.start("ip"), direct.end("ip"))
            if subjects and at is not None:
                port = int(direct["port"])
                yield self._triple(subjects[0], self._names.mention(at, at, "ip"), port, None, "tcp")
            return
        host = self._host()
        ports = list(self._ports())
        if host is None or not ports:
            return
        service = self._service(ports, verb)
        if service is None or is_no_service(service):
            return
        place = self._names.mention(host, host, "host")
        for outer, inner, protocol in self._pairs(ports):
            if service.context and inner is None:
                continue  # Of a page's thing only a whole mapping is said.
            yield self._triple(service, place, outer, inner, protocol)

    def _triple(
        self, service: Mention, place: Mention, outer: int, inner: int | None, protocol: str
    ) -> Triple:
        properties: dict[str, Any] = {"port": outer, "protocol": protocol}
        if inner is not None:
            properties["targetPort"] = inner
        return Triple("BINDS", service, place, "published port", properties)

    def _verb(self) -> Token | None:
        """The word for publishing, if it tells that something is so."""
        for match in _PUBLISHES.finditer(self._text):
            token = self._token_at(match.start(), match.end())
            if token is None:
                continue
            verb = token
            if token.pos_ not in ("VERB", "AUX"):
                verb = next((a for a in token.ancestors if a.pos_ in ("VERB", "AUX")), token)
            if modality.is_purpose(verb) or (verb.tag_ == "VBG" and verb.dep_ in ("csubj", "pcomp")):
                return None  # "To publish a port": what somebody does, not what is.
            if (
                modality.is_order(verb)
                or modality.is_negated(verb)
                or modality.in_condition(verb)
                or modality.is_unreal(verb)
                or modality.modals(verb) & {"can", "could", "may", "might", "would", "should", "must"}
                or self._is_planned(verb)
            ):
                return None
            return verb
        return None

    def _is_planned(self, verb: Token) -> bool:
        """Whether people will do it, or do it on a router: "we'll forward port 443 to our server"."""
        if any(t.lower_ in ("router", "firewall", "gateway") for t in self._sentence):
            return True
        by_people = any(c.lower_ in _PEOPLE and c.dep_ == "nsubj" for c in verb.children)
        return by_people and bool(modality.modals(verb))

    def _host(self) -> Token | None:
        for match in _HOSTS.finditer(self._text):
            group = "host" if match["host"] else "before"
            token = self._token_at(match.start(group), match.end(group))
            if token is not None and self._names.kind(token) not in ("url", "hostport", "image"):
                named = self._names.of(token)
                if "." in match[group] and (named is None or named.kind not in ("ip", "host")):
                    continue
                return token
        return None

    def _ports(self) -> Iterator[_Port]:
        """The numbers that are ports, with what stands beside them."""
        found: list[_Port] = []
        for match in _NUMBER.finditer(self._text):
            number = int(match["number"])
            before = self._text[: match.start()]
            listed = bool(found) and re.fullmatch(
                r"[\s,`]*(?:and\s*)?`?", self._text[found[-1].end : match.start()]
            )
            if not 0 < number < 65536 or not (_BEFORE_PORT.search(before) or listed):
                continue
            if not found and not re.search(r"(?i)(?:ports?|'s|’s)\W*$", before):
                continue
            after = self._text[match.end() :]
            port = _Port(number, match.start(), match.end(), (match["protocol"] or "").lower())
            inside = _INSIDE.search(after)
            if _BESIDE_HOST.search(after) or _HOSTS_PORT.search(before) or _HOST_UNDER.search(before):
                port.outer = True
            elif inside is not None:
                port.outer, port.noun = False, inside["noun"]
            found.append(port)
        yield from found

    def _pairs(self, ports: list[_Port]) -> list[tuple[int, int | None, str]]:
        """Published port, the port behind it (None if it is not said), and protocol."""
        protocol = next((p.protocol for p in ports if p.protocol), "tcp")
        distinct = list(dict.fromkeys(p.number for p in ports))
        if len(ports) == 2 and not re.fullmatch(
            r"[\s,`]*(?:and\s*)?`?", self._text[ports[0].end : ports[1].start]
        ):
            first, second = ports
            if first.outer is True and second.outer is not True:
                return [(first.number, second.number, protocol)]
            return [(second.number, first.number, protocol)]
        if len(ports) == 1 and _TARGETS.search(self._text):
            return [(distinct[0], distinct[0], protocol)]
        return [(number, None, protocol) for number in distinct]

    def _service(self, ports: list[_Port], verb: Token) -> Mention | None:
        """Whose port it is."""
        for port in sorted(ports, key=lambda p: p.outer is True):
            if port.noun:
                at = self._text.find(port.noun, port.end)
                for token in reversed(self._tokens(at, at + len(port.noun))):
                    if token.pos_ in ("VERB", "AUX", "ADP", "DET") and not self._names.kind(token):
                        continue
                    found = [m for m in self._clauses.owners(token) if m.kind == "name"]
                    if found:
                        return found[0]
                    if token.lower_ in GENERIC:
                        return self._clauses.in_sentence() or self._clauses.title
        skipped = no_services() | _PEOPLE
        owned = verb.lemma_.lower() == "belong"
        limit = self._sentence.end if owned else self._tokens(ports[0].start, ports[0].end)[0].i
        for token in self._names.doc[self._sentence.start : limit]:
            generic = token.lower_ in CLASSES and token.lower_ in GENERIC
            if token.lower_ not in ("service", "container") and (token.lower_ in skipped or generic):
                continue
            named = self._clauses.named(token)
            if named is None or named.kind != "name" or _NO_OWNER.fullmatch(named.text):
                continue
            if named.sure or named.marked or self._clauses.is_proper(token):
                return named
        told = len(ports) < 3 and any(t.lower_ in GENERIC for t in self._sentence)
        return self._clauses.title if told else None

    def _tokens(self, start: int, end: int) -> list[Token]:
        base = self._sentence.start_char
        return [t for t in self._sentence if t.idx - base < end and t.idx - base + len(t.text) > start]

    def _token_at(self, start: int, end: int) -> Token | None:
        found = [t for t in self._tokens(start, end) if not t.is_punct]
        return found[-1] if found else None
