"""What sentences say of two named things: rules over the grammar, by a lexicon of verbs.

Each rule looks for the words of one relation, takes the ends from their places in the sentence, and asks
:mod:`~taboot_pipelines.extraction.tier_b.modality` whether it is asserted. Where the sentence names its
subject only by its kind ("the webui"), the heading that is a thing's name stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from taboot_pipelines.extraction.tier_b import modality
from taboot_pipelines.extraction.tier_b.lexicon import no_services, software, words
from taboot_pipelines.extraction.tier_b.names import CLASSES, GENERIC, Mention, Names, joined, read_address

if TYPE_CHECKING:
    from spacy.tokens import Span, Token


@dataclass(frozen=True, slots=True)
class Triple:
    """A relation that a sentence states; ``rule`` says by which words."""

    type: str
    start: Mention
    end: Mention
    rule: str
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Verb:
    """How a verb leads to its ends. ``object``: ``dobj``, or prepositions that lead to it. ``passive``: the
    object is the subject, and "by" the agent."""

    type: str
    prepositions: tuple[str, ...] = ()
    direct: bool = False
    #: Ends must be known software or marked as names: the verb is used of many things.
    sure: bool = False


_VERBS: dict[str, tuple[_Verb, ...]] = {
    "require": (_Verb("DEPENDS_ON", direct=True, sure=True),),
    "need": (_Verb("DEPENDS_ON", ("from",), direct=True, sure=True),),
    "depend": (_Verb("DEPENDS_ON", ("on", "upon"), sure=True),),
    "rely": (_Verb("DEPENDS_ON", ("on", "upon"), sure=True),),
    "use": (_Verb("DEPENDS_ON", direct=True, sure=True),),
    "leverage": (_Verb("DEPENDS_ON", direct=True, sure=True),),
    "store": (_Verb("DEPENDS_ON", ("in",), sure=True),),
    "persist": (_Verb("DEPENDS_ON", ("in", "to"), sure=True),),
    "connect": (_Verb("CONNECTS_TO", ("to", "with")),),
    "talk": (_Verb("CONNECTS_TO", ("to", "with")),),
    "speak": (_Verb("CONNECTS_TO", ("to", "with")),),
    "communicate": (_Verb("CONNECTS_TO", ("with", "to")),),
    "report": (_Verb("CONNECTS_TO", ("to",)),),
    "authenticate": (_Verb("CONNECTS_TO", ("against", "with", "to")),),
    "query": (_Verb("CONNECTS_TO", direct=True),),
    "scrape": (_Verb("CONNECTS_TO", direct=True),),
    "poll": (_Verb("CONNECTS_TO", direct=True),),
    "send": (_Verb("CONNECTS_TO", ("to",)),),
    "push": (_Verb("CONNECTS_TO", ("to",)),),
    "ship": (_Verb("CONNECTS_TO", ("to",)),),
    "write": (_Verb("CONNECTS_TO", ("to",), sure=True),),
    "publish": (_Verb("CONNECTS_TO", ("to",), sure=True),),
    "pull": (_Verb("CONNECTS_TO", ("from",), sure=True),),
    "read": (_Verb("CONNECTS_TO", ("from",), sure=True),),
    "fetch": (_Verb("CONNECTS_TO", ("from",)),),
    "reach": (_Verb("CONNECTS_TO", ("to",)),),
    "call": (_Verb("CONNECTS_TO", direct=True, sure=True),),
    "contact": (_Verb("CONNECTS_TO", direct=True),),
    "proxy": (_Verb("ROUTES_TO", ("to",), direct=True),),
    "forward": (_Verb("ROUTES_TO", ("to",)),),
    "route": (_Verb("ROUTES_TO", ("to",)),),
    "pass": (_Verb("ROUTES_TO", ("to",)),),
    "redirect": (_Verb("ROUTES_TO", ("to",)),),
    "balance": (_Verb("ROUTES_TO", ("to", "between", "across", "over")),),
    "distribute": (_Verb("ROUTES_TO", ("to", "between", "across", "over", "among")),),
    "direct": (_Verb("ROUTES_TO", ("to",)),),
    "dispatch": (_Verb("ROUTES_TO", ("to",)),),
    "terminate": (),
    "attach": (_Verb("RUNS_IN", ("to",)),),
    "join": (_Verb("RUNS_IN", direct=True),),
    "run": (_Verb("RUNS_IN", ("in", "on")),),
    "resolve": (_Verb("RESOLVES_TO", ("to",)),),
    "point": (_Verb("RESOLVES_TO", ("to",)),),
}
#: Verbs whose passive tells the same with the ends in other places: "A is backed by B".
_PASSIVES: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "back": ("DEPENDS_ON", ("by",), False),
    "power": ("DEPENDS_ON", ("by",), False),
    "use": ("DEPENDS_ON", ("by",), True),
    "require": ("DEPENDS_ON", ("by",), True),
    "need": ("DEPENDS_ON", ("by",), True),
    "base": ("BUILDS", ("on", "upon", "off"), False),
    "build": ("BUILDS", ("on", "from", "upon", "off"), False),
    "derive": ("BUILDS", ("from",), False),
    "scrape": ("CONNECTS_TO", ("by",), True),
    "query": ("CONNECTS_TO", ("by",), True),
    "connect": ("CONNECTS_TO", ("to", "with"), False),
    "proxy": ("ROUTES_TO", ("by", "through"), True),
    "forward": ("ROUTES_TO", ("by",), True),
    "route": ("ROUTES_TO", ("by", "through"), True),
    "attach": ("RUNS_IN", ("to",), False),
    "join": ("RUNS_IN", ("to",), False),
}
_PROXIES = words("proxies")
#: What images are based on.
_DISTRIBUTIONS = words("distributions")
_PROXY_WORDS = re.compile(
    r"(?i)\b(?:prox(?:y|ies|ied)|load[- ]?balanc\w+|ingress|gateway|router|upstream|reverse)\b"
)

# Addresses --------------------------------------------------------------------------------------------------

_ACCESS = words("access")
_SET_UP = words("set_up")
_REACHED = words("reached")
_NO_ENDPOINT_HOSTS = re.compile(
    r"(?i)(?:.*\.)?(?:github\.com|gitlab\.com|docker\.com|docker\.io|ghcr\.io|lscr\.io|quay\.io|readthedocs\.io|"
    r"discord\.(?:gg|com)|reddit\.com|youtube\.com|wikipedia\.org|linuxserver\.io|kubernetes\.io|google\.com|"
    r"githubusercontent\.com)|docs?\..*|wiki\..*|www\.w3\.org|registry\..*|.*\.readthedocs\..*"
)
_MANUAL = re.compile(
    r"(?i)\b(?:more (?:info|information|details)|documentation|docs|see here|instructions|read)\b"
)
_CONFIGURES = re.compile(
    r"(?i)\b(?:environment variable|env(?:ironment)? var|parameter|setting|option|annotation|value of|flag)\b"
)
_SHOWN = words("shown")
#: What stands for the thing itself where it is reached.
_PLACES_OF_THINGS = words("places")
#: What has an address of its own, of those.
_PAGES = words("pages")
#: What stands before a class word and names nothing.
_NO_MODIFIERS = words("no_modifiers")
_MAX_LABEL = 6
_PEOPLE = words("people")
#: Tokens between an address and what says that one gets there.
_MAX_REACH = 25
_PORT_OF = re.compile(r"(?i)\bports?\b")

# Published ports --------------------------------------------------------------------------------------------

_MAPS = re.compile(
    r"(?i)\b(?:maps?|mapped|mapping|publishes|published|exposes|exposed|binds|bound|forwards?|forwarded)\b"
)
_THE = r"(?:the\s+|our\s+|your\s+)?"
_NOUNS = r"(?P<name>\S+(?:\s+\S+){0,4}?)"
_INNER = r"ports?\s+`?(?P<inner>\d{1,5})`?(?:/(?P<protocol>tcp|udp))?"
_IS_MAPPED = (
    r"(?:(?:is|are|gets)\s+)?(?:(?:mapped|published|exposed|bound|forwarded)\s+)?"
    r"(?:to|as|on|onto)\s+(?:the\s+)?"
)
_OUTER = r"(?:ports?\s+`?(?P<outer>\d{1,5})`?|(?P<same>same\s+port))"
_ON_HOST = (
    rf"\s+(?:of|on|at)\s+{_THE}(?P<host>docker host|host machine|host|nodes?|machine|localhost|[\w.-]+)"
)
#: "port 80 of the web container to port 8080 of the host"
_CONTAINER_FIRST = re.compile(
    rf"(?i)\b{_INNER}\s+(?:of|on|in|inside|from)\s+{_THE}{_NOUNS}\s+{_IS_MAPPED}{_OUTER}{_ON_HOST}"
)
#: "the web container's port 80 to port 8080 of the host"
_NAME_FIRST = re.compile(rf"(?i)\b{_THE}{_NOUNS}(?:'s|’s)?\s+{_INNER}\s+{_IS_MAPPED}{_OUTER}{_ON_HOST}")


class Sentence:
    """The relations of one sentence."""

    def __init__(self, names: Names, sentence: Span) -> None:
        self.names = names
        self.sentence = sentence
        self.text = sentence.text

    def triples(self) -> Iterator[Triple]:
        """What the sentence states, each once, in no order."""
        if modality.is_question(self.sentence) or modality.is_history(self.names.block.text):
            return
        seen: set[tuple[str, int, int]] = set()
        found: list[Triple] = []
        bound = list(self._published())
        found += bound
        if not bound:
            found += self._addresses()
        found += self._verbs()
        found += self._adjectives()
        for triple in found:
            key = (triple.type, triple.start.start, triple.end.start)
            if key not in seen and (triple.start.start, triple.start.end) != (
                triple.end.start,
                triple.end.end,
            ):
                seen.add(key)
                yield triple

    # Addresses ----------------------------------------------------------------------------------------------

    def _addresses(self) -> Iterator[Triple]:
        """EXPOSES_ENDPOINT: where something is reached or listens."""
        if modality.gives_example(self.sentence) or _CONFIGURES.search(self.text):
            return
        for token, mention in self.names.addresses(self.sentence.start, self.sentence.end):
            said = read_address(mention.text)
            if said is None or said.port is None:
                continue
            if said.host is not None and _NO_ENDPOINT_HOSTS.fullmatch(said.host):
                continue
            subject = self._labelled(token)
            if subject is None:
                trigger = self._trigger(token)
                subject = None if trigger is None else self._reached(trigger, token)
            if subject is not None:
                yield Triple("EXPOSES_ENDPOINT", subject, mention, "address", {"port": said.port})
        yield from self._ports()

    def _labelled(self, token: Token) -> Mention | None:
        """What is before the dash or colon of "Name - address", "UI at: address"."""
        at = token.i - 1
        if at < self.sentence.start or self.names.doc[at].text not in ("-", "–", "—", ":"):
            return None
        words: list[Token] = []
        while at > self.sentence.start and len(words) < _MAX_LABEL:
            at -= 1
            word = self.names.doc[at]
            if word.text in ("·", "|", ";", ".", ":", "•", "-", "–", "—"):
                break
            if word.lower_ not in ("at", "is", "*", "**", "the", "on"):
                words.insert(0, word)
        if not words or any(w.pos_ == "VERB" and w.lower_ not in _PLACES_OF_THINGS for w in words):
            return None
        if words[-1].lower_ not in _PLACES_OF_THINGS | GENERIC:
            found = self.names.of(words[-1])
            if found is None or found.kind != "name" or not (found.sure or len(words) > 1):
                return None
            first = words[0]
            return self.names.mention(first, words[-1]) if first.text[:1].isupper() else found
        before = [w for w in words if w.lower_ not in _PLACES_OF_THINGS | GENERIC]
        if not before:
            return self.names.title() if words[-1].lower_ in _PAGES else None
        return self.names.of(before[-1])

    def _trigger(self, token: Token) -> Token | None:
        """The word before an address that says that something is reached there; None if there is none, or
        if it is denied, supposed, or about setting something up."""
        for at in range(token.i - 1, max(self.sentence.start, token.i - _MAX_REACH) - 1, -1):
            word = self.names.doc[at]
            if self.names.kind(word):
                continue
            lemma = word.lemma_.lower()
            if lemma in _SET_UP and (word.pos_ == "VERB" or word.i == self.sentence.start):
                return None
            begins = word.i == self.sentence.start or self.names.doc[word.i - 1].is_punct
            if word.lower_ in _REACHED or (lemma in _ACCESS and (begins or word.pos_ in ("VERB", "AUX"))):
                if lemma == "point" and not any(t.lemma_.lower() == "browser" for t in self.sentence):
                    return None
                if lemma == "be" and not self._is_copula(word, token):
                    continue
                return word if self._holds(word, token) else None
        return None

    def _is_copula(self, be: Token, token: Token) -> bool:
        """Whether "is" leads to the address: "the webui is at …", "the URL will be …"."""
        between = [t.lower_ for t in self.names.doc[be.i + 1 : token.i]]
        return len(between) <= 4 and all(
            w
            in (
                "at",
                "on",
                "now",
                "then",
                "located",
                "here",
                ":",
                "under",
                "via",
                "the",
                "url",
                "address",
                "by",
                "default",
            )
            for w in between
        )

    def _holds(self, word: Token, token: Token) -> bool:
        """Whether the words around a trigger leave it as it is; what follows the address does not matter."""
        verb = (
            word
            if word.pos_ in ("VERB", "AUX")
            else next((a for a in word.ancestors if a.pos_ in ("VERB", "AUX")), word)
        )
        if (
            modality.is_negated(verb)
            or modality.in_condition(verb, before=token.i)
            or modality.in_condition(word, before=token.i)
        ):
            return False
        if modality.modals(verb) & {"could", "may", "might", "would"}:
            return False
        return not modality.is_unreal(verb)

    def _reached(self, trigger: Token, token: Token) -> Mention | None:
        """What is at the address: what stands between, before, or after it as what one sees there; else what
        the page is about, if the sentence tells only its kind."""
        title = self.names.title()
        for group in self._candidates(trigger, token):
            for candidate in group:
                found = self.names.of(candidate)
                if found is not None and found.kind == "name":
                    return found
                if candidate.lower_ in GENERIC | _PLACES_OF_THINGS or candidate.pos_ == "PRON":
                    return self._in_sentence(title) or title
            if group:
                first = self.sentence[0]
                begins = title is not None and first.text.lower() == title.text.lower()
                return self._in_sentence(title) if begins else None
        return self._in_sentence(title) or title

    def _in_sentence(self, title: Mention | None) -> Mention | None:
        """The thing that the page is about, where the sentence itself names it."""
        if title is None:
            return None
        wanted = title.text.lower()
        for token in self.sentence:
            if token.lower_ == wanted and token.dep_ != "poss":
                return self.names.mention(token, token, sure=True)
        return None

    def _candidates(self, trigger: Token, token: Token) -> Iterator[list[Token]]:
        """Heads of noun phrases that may be what is reached, in groups, the likeliest first."""
        heads = [
            t
            for t in self.sentence
            if t.pos_ in ("NOUN", "PROPN", "PRON", "X") or self.names.kind(t) in ("software", "name", "code")
        ]
        heads = [
            t for t in heads if t.dep_ not in ("compound", "amod", "nmod") or self.names.kind(t) == "code"
        ]
        if trigger.lemma_.lower() in _SHOWN | {"log", "connect"}:
            yield [t for t in heads if trigger.i < t.i < token.i and self._is_object(t)]
        subjects = [t for t in reversed(heads) if t.i < trigger.i and t.dep_ in ("nsubj", "nsubjpass")]
        yield [t for t in subjects if t.lower_ not in _PEOPLE][:1]
        for seen in (
            *self.names.doc[token.i + 1 : self.sentence.end],
            *self.names.doc[self.sentence.start : trigger.i],
        ):
            if seen.lemma_.lower() in _SHOWN and not self.names.kind(seen):
                yield [t for t in heads if t.head == seen and t.dep_ == "dobj"]

    def _is_object(self, noun: Token) -> bool:
        if noun.dep_ == "dobj" or self.names.kind(noun) in ("software", "code"):
            return True
        return noun.dep_ == "pobj" and noun.head.lower_ in ("to", "into", "in")

    def _ports(self) -> Iterator[Triple]:
        """Bare ports: "Redis listens on port 6379", "the Pelorus server (port 5100)"."""
        for token in self.sentence:
            if token.lower_ in ("port", "ports"):
                numbers = list(self._numbers(token))
            elif token.lower_ in ("on", "at") and token.head.lemma_.lower() == "listen":
                numbers = [t for t in token.children if _is_port(t)]
            else:
                continue
            subject = self._listening(token) if numbers else None
            if subject is None:
                continue
            for number in numbers:
                mention = self.names.mention(number, number, "port")
                yield Triple("EXPOSES_ENDPOINT", subject, mention, "port", {"port": int(number.text)})

    def _listening(self, port: Token) -> Mention | None:
        """What listens on a port."""
        if port.i > self.sentence.start and port.nbor(-1).text == "(" and port.i - 2 >= self.sentence.start:
            return self._named(port.nbor(-2))
        verb = next((a for a in port.ancestors if a.pos_ in ("VERB", "AUX")), None)
        if verb is None or not any(
            t.lower_ in ("on", "at", "over", "in", "via", "to", "using")
            for t in self.names.doc[max(port.i - 3, self.sentence.start) : port.i]
        ):
            return None
        lemma = verb.lemma_.lower()
        participle = verb.tag_ in ("VBG", "VBN") and verb.dep_ in ("acl", "relcl", "amod")
        if lemma in ("connect", "access") and modality.is_order(verb):
            pass
        elif (
            lemma not in ("listen", "run", "expose", "serve", "answer", "host", "publish")
            and not (lemma == "be" and any(t.lower_ in _REACHED for t in self.sentence))
        ) or (not participle and not modality.asserts(verb)):
            return None
        if modality.is_negated(verb) or modality.in_condition(verb):
            return None
        if participle:
            noun = verb.head
            return self._named(noun) or self._subject_named(noun)
        return self._reached(verb, port)

    def _subject_named(self, noun: Token) -> Mention | None:
        """The subject of the sentence, where a part of it is spoken of."""
        for token in noun.ancestors:
            for child in token.children:
                if child.dep_ in ("nsubj", "nsubjpass") and child != noun:
                    return self._named(child)
        return None

    def _numbers(self, port: Token) -> Iterator[Token]:
        found = [c for c in port.rights if c.text.isdigit()]
        if not found and port.i + 1 < self.sentence.end and port.nbor(1).text.isdigit():
            found = [port.nbor(1)]
        for number in found[:1]:
            yield from (t for t in (number, *number.conjuncts) if _is_port(t))

    # Published ports ----------------------------------------------------------------------------------------

    def _published(self) -> Iterator[Triple]:
        """BINDS: a port of a service on a machine."""
        maps = _MAPS.search(self.text)
        if maps is None or modality.gives_example(self.sentence):
            return
        verb = next(
            (
                t
                for t in self.sentence
                if t.idx >= self.sentence.start_char + maps.start()
                and t.idx < self.sentence.start_char + maps.end()
            ),
            None,
        )
        if verb is None or (
            verb.pos_ == "VERB"
            and (
                modality.is_order(verb)
                or modality.is_negated(verb)
                or modality.in_condition(verb)
                or modality.modals(verb) & {"can", "could", "may", "might", "would"}
            )
        ):
            return
        for pattern in (_CONTAINER_FIRST, _NAME_FIRST):
            for match in pattern.finditer(self.text):
                name = self._noun_at(match.start("name"), match.end("name"))
                service = self._named(name) if name is not None else None
                host = self._noun_at(match.start("host"), match.end("host"))
                if service is None or host is None:
                    continue
                outer = int(match["inner"] if match["same"] else match["outer"])
                place = self.names.mention(host, host, "host")
                properties = {
                    "port": outer,
                    "targetPort": int(match["inner"]),
                    "protocol": (match["protocol"] or "tcp").lower(),
                }
                yield Triple("BINDS", service, place, "published port", properties)
                return

    def _noun_at(self, start: int, end: int) -> Token | None:
        """The last word of a stretch of the sentence."""
        last = None
        for token in self.sentence:
            at = token.idx - self.sentence.start_char
            if at >= end:
                break
            if at + len(token.text) > start and not token.is_punct:
                last = token
        return last

    def _named(self, token: Token) -> Mention | None:
        """What a noun names here; of a class word alone, what the page is about."""
        found = self.names.of(token)
        if found is not None and found.kind in ("name", "host", "image"):
            return found
        if token.lower_ in CLASSES:
            return self._word_before(token) or (self.names.title() if token.lower_ in GENERIC else None)
        return None

    def _word_before(self, token: Token) -> Mention | None:
        """``frontend`` of "the frontend service container": a word that only its place makes a name."""
        at = token
        while (
            at.i > self.sentence.start
            and at.lower_ in CLASSES
            and at.nbor(-1).pos_ in ("NOUN", "PROPN", "ADJ", "X", "VERB", "ADP", "ADV")
        ):
            at = at.nbor(-1)
            if at.lower_ not in CLASSES or (
                at.nbor(-1).lower_ in ("the", "our", "a") and at.nbor(1).lower_ in CLASSES
            ):
                break
        if at is token or at.lower_ in _NO_MODIFIERS:
            return None
        if at.lower_ == "web" and at.nbor(1).lower_ not in ("container", "service"):
            return None
        return self.names.mention(at, at)

    # Adjectives ---------------------------------------------------------------------------------------------

    def _adjectives(self) -> Iterator[Triple]:
        """ "X is dependent on Y", "X is reachable through the proxy Y"."""
        for word in self.sentence:
            if word.lower_ not in ("dependent", "reliant", "reachable", "accessible", "available"):
                continue
            be = word.head
            if be.lemma_.lower() != "be" or not modality.asserts(be):
                continue
            subject = next((c for c in be.children if c.dep_ in ("nsubj", "nsubjpass")), None)
            depends = word.lower_ in ("dependent", "reliant")
            wanted = ("on", "upon") if depends else ("through", "via", "behind")
            for prep in (
                p for p in (*word.children, *be.children) if p.dep_ == "prep" and p.lower_ in wanted
            ):
                for noun in (g for g in prep.children if g.dep_ == "pobj" and subject is not None):
                    for end in self._ends(noun, _Verb("DEPENDS_ON" if depends else "ROUTES_TO", sure=True)):
                        for start in self._resolved(subject) if subject is not None else ():
                            a, b = (start, end) if depends else (end, start)
                            triple = self._typed("DEPENDS_ON" if depends else "ROUTES_TO", a, b, be, noun)
                            if triple is not None:
                                yield triple

    # Verbs --------------------------------------------------------------------------------------------------

    def _verbs(self) -> Iterator[Triple]:
        if modality.gives_example(self.sentence):
            return
        for verb in self.sentence:
            if verb.pos_ not in ("VERB", "AUX", "NOUN"):
                continue
            lemma = verb.lemma_.lower()
            passive = any(c.dep_ in ("auxpass", "nsubjpass") for c in verb.children) or (
                verb.tag_ == "VBN" and verb.dep_ in ("acl", "relcl")
            )
            if passive and lemma in _PASSIVES:
                yield from self._passive(verb, *_PASSIVES[lemma])
            elif not passive:
                for rule in _VERBS.get(lemma, ()):
                    yield from self._active(verb, rule)

    def _active(self, verb: Token, rule: _Verb) -> Iterator[Triple]:
        told_for = rule.type == "CONNECTS_TO" and modality.is_function(verb)
        if not told_for and not modality.asserts(verb):
            return
        subjects = self._subjects(verb, proxy=rule.type == "ROUTES_TO")
        if not subjects:
            return
        for token in self._objects(verb, rule):
            for end in self._ends(token, rule):
                for start in subjects:
                    triple = self._typed(rule.type, start, end, verb, token)
                    if triple is not None:
                        yield triple

    def _passive(
        self, verb: Token, type_: str, prepositions: tuple[str, ...], swapped: bool
    ) -> Iterator[Triple]:
        if not modality.asserts(verb) and not (
            verb.dep_ in ("acl", "relcl")
            and not modality.is_negated(verb)
            and not modality.in_condition(verb)
        ):
            return
        subject = next((c for c in verb.children if c.dep_ in ("nsubjpass", "nsubj")), None)
        if subject is None and verb.dep_ in ("acl", "relcl"):
            subject = verb.head
        if subject is not None and subject.dep_ in ("nsubjpass", "nsubj") and subject.tag_ in ("WDT", "WP"):
            subject = verb.head
        if subject is None:
            return
        starts = self._resolved(subject)
        agents = [c for c in verb.children if c.dep_ in ("prep", "agent") and c.lower_ in prepositions]
        title = self.names.title()
        if not agents and title is not None and verb.lemma_.lower() in ("require", "need"):
            for end in self._ends(subject, _Verb(type_, sure=True)):
                yield Triple(type_, title, end, f"verb {verb.lemma_.lower()}")
        for child in verb.children:
            if child.dep_ in ("prep", "agent") and child.lower_ in prepositions:
                for noun in (g for g in child.children if g.dep_ == "pobj"):
                    rule = _Verb(type_, sure=type_ == "DEPENDS_ON")
                    for end in self._ends(noun, rule):
                        for start in starts:
                            a, b = (end, start) if swapped else (start, end)
                            triple = self._typed(type_, a, b, verb, noun)
                            if triple is not None:
                                yield triple

    def _subjects(self, verb: Token, *, proxy: bool) -> list[Mention]:
        token: Token | None = verb
        while token is not None:
            subject = next((c for c in token.children if c.dep_ in ("nsubj", "nsubjpass")), None)
            if subject is not None:
                if subject.tag_ in ("WDT", "WP") and token.dep_ == "relcl":
                    subject = token.head
                return self._resolved(subject)
            if token.dep_ == "relcl" or (token.dep_ == "acl" and token.tag_ == "VBG"):
                return self._resolved(token.head)
            token = (
                token.head if token.dep_ in ("conj", "xcomp", "advcl") and token.head is not token else None
            )
        return []

    def _resolved(self, token: Token) -> list[Mention]:
        """What a subject names; "the image", "it" stand for what the page is about."""
        found = self.names.all_of(token)
        if found:
            return [m for m in found if m.kind in ("name", "host", "image")]
        title = self.names.title()
        if token.lower_ in GENERIC and not any(g.dep_ in ("prep", "relcl") for g in token.children):
            known = self._in_sentence(title) or title
            return [known] if known is not None else []
        if token.dep_ == "attr":
            # "X is an indexer that uses Y": what is said of the indexer is said of X.
            subject = next((c for c in token.head.children if c.dep_ in ("nsubj", "nsubjpass")), None)
            if subject is not None and subject is not token:
                return [m for m in self.names.all_of(subject) if m.kind in ("name", "host", "image")]
            own = self._in_sentence(title)
            return [own] if own is not None and own.text == self.sentence[0].text else []
        return []

    def _objects(self, verb: Token, rule: _Verb) -> Iterator[Token]:
        for child in verb.children:
            if rule.direct and (child.dep_ in ("dobj", "attr") or self._is_close_object(child, verb)):
                yield child
            elif child.dep_ in ("prep", "prt", "dative") and child.lower_ in rule.prepositions:
                yield from (g for g in child.children if g.dep_ == "pobj")
            elif child.dep_ == "dobj" and rule.prepositions:
                for prep in child.children:
                    if prep.dep_ == "prep" and prep.lower_ in rule.prepositions:
                        yield from (g for g in prep.children if g.dep_ == "pobj")

    def _is_close_object(self, noun: Token, verb: Token) -> bool:
        """Whether a name follows its verb at once, whatever the model takes it for."""
        return noun.dep_ in ("npadvmod", "dative", "oprd") and noun.i == verb.i + 1

    def _ends(self, token: Token, rule: _Verb) -> list[Mention]:
        alternatives = any(c.dep_ == "cc" and c.lower_ == "or" for t in joined(token) for c in t.children)
        if alternatives:
            return []
        found = []
        for noun in joined(token):
            mention = self.names.of(noun)
            if mention is None and rule.type == "BUILDS" and noun.lower_ in _DISTRIBUTIONS:
                mention = self.names.mention(noun, noun)
            if mention is None and noun.lower_ in ("service", "container") and not rule.sure:
                mention = self._word_before(noun)
            if mention is None or (rule.sure and not self._is_sure(mention)):
                continue
            found.append(mention)
        return found

    def _is_sure(self, mention: Mention) -> bool:
        return mention.sure or mention.text.lower() in software()

    def _typed(self, type_: str, start: Mention, end: Mention, verb: Token, noun: Token) -> Triple | None:
        """The triple, if both ends can be what the relation leads from and to."""

        def name(m: Mention) -> bool:
            return m.kind == "name" and m.text.lower() not in no_services()

        properties: dict[str, Any] = {}
        if type_ == "ROUTES_TO":
            proxy = (
                start.text.lower() in _PROXIES
                or "ingress" in start.text.lower()
                or _PROXY_WORDS.search(self.text)
            )
            if not proxy or not name(start) or end.kind not in ("name", "url", "hostport"):
                return None
        elif type_ == "RUNS_IN":
            if (
                not re.search(r"(?i)\bnetworks?\b", noun.text + " " + " ".join(t.text for t in noun.children))
                and "net" not in end.text.lower()
            ):
                return None
            if not name(start) or not name(end):
                return None
        elif type_ == "RESOLVES_TO":
            if end.kind != "ip" or start.kind not in ("host", "name") or ("." not in start.text):
                return None
        elif type_ == "BUILDS":
            if start.kind not in ("name", "image") or end.kind not in ("name", "image"):
                return None
        elif type_ == "DEPENDS_ON":
            if not name(start) or not name(end):
                return None
        elif not (start.kind in ("name", "host") and end.kind in ("name", "host")):
            return None
        return Triple(type_, start, end, f"verb {verb.lemma_.lower()}", properties)


def _is_port(token: Token) -> bool:
    return token.text.isdigit() and 0 < int(token.text) < 65536
