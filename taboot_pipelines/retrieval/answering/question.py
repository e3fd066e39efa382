"""A question with the names in it: the kinds of fact that it may ask for, and the words that nothing explains
yet. The tables are in ``vocabulary``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from taboot_pipelines.knowledge.mentions import stopwords
from taboot_pipelines.packaged import word_list
from taboot_pipelines.retrieval.answering import question_types
from taboot_pipelines.retrieval.answering.answer_types import COUNT, Reading, read
from taboot_pipelines.retrieval.answering.entity_linking import Linked, Mention, Names
from taboot_pipelines.retrieval.answering.question_types import Guess
from taboot_pipelines.retrieval.answering.vocabulary import (
    FILLER,
    NOT_FACTS,
    SECRETS,
    STORE_NOUNS,
    STORES,
)
from taboot_pipelines.retrieval.answering.words import is_slip, stem

_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?![\w.])")


_SOCKET = re.compile(r"(?<![\w/])docker(?:['’]s|-daemon| daemon)?[ .-](?:daemon )?sock(?:et)?\b")
#: Where the socket of the Docker daemon is.
_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")

#: The preposition of a place, before a name.
_LOCATIVE = re.compile(r"(?i)\b(?:in|of|from|on|within|inside|at)\s+(?:(?:the|our|my|your)\s+)?$")
_QUESTION_WORDS = frozenset({"which", "what", "who"})
_DETERMINERS = frozenset({"the", "a", "an", "our", "my", "your", "this", "that"})
_JOINING = _DETERMINERS | {"and", "or"}
_DO_SUPPORT = frozenset({"do", "does", "did"})
#: The closed class of English auxiliaries.
_AUXILIARIES = _DO_SUPPORT | {
    *("is", "are", "was", "were", "be", "been", "being", "am", "has", "have", "had", "can", "could", "may"),
    *("might", "must", "shall", "should", "will", "would"),
}

#: What a thing has or keeps.
_OWN = re.compile(r"(?i)\b(?:its|their)\s+(\w+)")
#: Ways to read one question that are tried, and exceptions in one.
MAX_READINGS, _MAX_EXCEPTIONS = 5, 2


@dataclass(frozen=True, slots=True)
class AskedKind:
    """A kind that a question may ask for, the words (by number) that say so, and how probable that is;
    ``closed``: how probable it is that it asks so that "nothing" is an answer."""

    kind: str
    words: frozenset[int]
    probability: float
    closed: float

    @property
    def may_deny(self) -> bool:
        """Whether it may be answered by saying that something is not."""
        return self.closed >= question_types.PROBABLE


@dataclass(frozen=True)
class Question:
    """A question with its mentions. ``mentions``: those that this reading takes as names."""

    linked: Linked
    mentions: tuple[Mention, ...]
    #: Services, by number, that the answer leaves out: "anything besides the cart".
    excepted: frozenset[int] = frozenset()

    @cached_property
    def lower(self) -> str:
        return self.linked.text.lower().strip()

    @cached_property
    def reading(self) -> Reading:
        return read(self.linked.text)

    @property
    def counts(self) -> bool:
        return self.reading.counts

    @property
    def yes_no(self) -> bool:
        return self.reading.truth

    @property
    def negated(self) -> bool:
        return self.reading.negated

    @property
    def transitive(self) -> bool:
        return self.reading.transitive

    @cached_property
    def stores(self) -> tuple[int, ...]:
        """The words that say what kinds of stores are asked for, such as a database or redis."""
        return tuple(i for i, word in enumerate(self.linked.words) if word.text in STORES)

    @property
    def store(self) -> int | None:
        return self.stores[0] if self.stores else None

    @cached_property
    def store_words(self) -> frozenset[int]:
        """The words of :attr:`stores`, with those beside them that say no more: "database server"."""
        beside = {i for at in self.stores for i in (at - 1, at + 1) if 0 <= i < len(self.linked.words)}
        more = {i for i in beside if self.linked.words[i].text in STORE_NOUNS and i not in self.named}
        return frozenset(self.stores) | more

    @property
    def asks_which_store(self) -> bool:
        """Whether it most probably asks which database, cache or broker a thing uses."""
        return bool(self._guesses) and self._guesses[0].type == "store_of"

    @property
    def is_fact(self) -> bool:
        """Whether it may ask for a fact of configuration at all."""
        return not NOT_FACTS.match(self.lower)

    @cached_property
    def numbers(self) -> list[int]:
        return [int(w.text) for w in self._free_words() if w.text.isdigit() and len(w.text) < 10]

    @cached_property
    def paths(self) -> list[str]:
        held = [w.text for w in self._free_words() if w.text.startswith("/")]
        return [*held, *_SOCKETS] if self._socket else held

    @cached_property
    def _socket(self) -> tuple[int, ...]:
        """The words that mean the socket of the Docker daemon, which everybody calls so."""
        match = _SOCKET.search(self.linked.text.lower())
        return tuple(self.words_at(*match.span())) if match else ()

    def words_at(self, start: int, end: int) -> list[int]:
        return [i for i, w in enumerate(self.linked.words) if start <= w.start and w.end <= end]

    @cached_property
    def literals(self) -> dict[str, tuple[int, ...]]:
        """What stands in files letter by letter, paths and addresses, each with its words."""
        found: dict[str, tuple[int, ...]] = {
            w.text: (w.number,) for w in self._free_words() if w.text.startswith("/")
        }
        found.update((path, self._socket) for path in (_SOCKETS if self._socket else ()))
        for match in _ADDRESS.finditer(self.linked.text):
            words = tuple(self.words_at(*match.span()))
            other = {
                i
                for m in self.mentions
                if m.of("service", "route", "host", "image")
                for i in range(m.first, m.last)
            }
            if not other.intersection(words):
                found[match[0]] = words
        return found

    def _free_words(self) -> list[_Free]:
        named = self.named
        return [_Free(i, w.text) for i, w in enumerate(self.linked.words) if i not in named]

    @cached_property
    def named(self) -> frozenset[int]:
        return frozenset(i for m in self.mentions for i in range(m.first, m.last))

    @cached_property
    def masked(self) -> tuple[str, list[tuple[int, int, tuple[int, ...]]]]:
        """The question as patterns read it, and for each of its parts ``[start, end)`` and its words."""
        parts: list[tuple[str, tuple[int, ...]]] = []
        starts = {m.first: m for m in self.mentions}
        i = 0
        while i < len(self.linked.words):
            mention = starts.get(i)
            if mention is not None:
                parts.append(("@", tuple(range(mention.first, mention.last))))
                i = mention.last
                continue
            word = self.linked.words[i].text
            parts.append(("#" if word.isdigit() else "$" if word.startswith("/") else _spelled(word), (i,)))
            i += 1
        text, places = "", []
        for part, numbers in parts:
            text += " " if text else ""
            places.append((len(text), len(text) + len(part), numbers))
            text += part
        return text, places

    @cached_property
    def asked(self) -> list[AskedKind]:
        """The kinds of fact that the question may ask for, those of its most probable types, first the most
        probable."""
        found: dict[str, AskedKind] = {}
        for guess in self._guesses:
            if guess.type in self._reversed:
                continue
            words = self._explained(guess)
            guessed = guess.probability < question_types.PROBABLE
            told = self.named or self.literals or not all(is_filler(self.linked.words[i].text) for i in words)
            if guessed and not told:
                continue  # nothing is asked
            for kind in question_types.FACTS.get(guess.type, ()):
                asked = found.get(kind, AskedKind(kind, words, 0.0, 0.0))
                closed = 0.0 if guess.type in question_types.OPEN else guess.probability
                probability = asked.probability + guess.probability
                found[kind] = AskedKind(kind, asked.words, probability, asked.closed + closed)
        return list(found.values())

    @cached_property
    def _guesses(self) -> list[Guess]:
        """The types that it may be of, the most probable first, by each way to leave out its names."""
        best: dict[str, Guess] = {}
        proxies = {False, any(m.of("service") and m.of("proxy") for m in self.mentions)}
        nameless = [self._nameless(proxy, []) for proxy in proxies]
        if scopes := self._scopes:
            nameless.append(self._nameless(False, scopes))
        if self.stores and any(not self.is_generic(m) for m in self.mentions):
            # "The database" is no name where something else is, and a project that uses one is its services.
            nameless.append(self._nameless(False, [], of_store=True))
        if any(map(self._is_subject, self.mentions)) and not any(m.of("service") for m in self.mentions):
            # What several services make up is asked about as one.
            nameless.append(self._nameless(False, [], of_project=True))
        for text in dict.fromkeys(nameless):
            for guess in question_types.guess(text):
                if guess.type not in best or guess.probability > best[guess.type].probability:
                    best[guess.type] = guess
        return sorted(best.values(), key=lambda g: (-g.probability, g.type))

    def is_generic(self, mention: Mention) -> bool:
        """Whether a mention is the word for a store alone, by which a service may be called."""
        alone = mention.last - mention.first == 1 and mention.first - 1 not in self.named
        return alone and self.linked.words[mention.first].text in STORES

    @property
    def _reversed(self) -> frozenset[str]:
        """The types that syntax excludes. The one name is the subject behind an auxiliary ("what does gitea
        need") or "by", and the object where the question word is the subject: no auxiliary stands before it
        ("which services need gitea")."""
        words = [w.text for w in self.linked.words]
        first = self.mentions[0].first if len(self.mentions) == 1 else 0
        before = [w for w in words[:first] if w not in _DETERMINERS]
        if not before:
            return frozenset()
        if before[-1] == "by" or (before[-1] in _DO_SUPPORT and words[-1] != "by"):
            return question_types.OF_OBJECT
        # "Which postgres belongs to gitea" asks for what gitea uses all the same.
        of_users = before[0] in _QUESTION_WORDS and not STORES.keys() & set(before[1:2])
        if before[0] == "by" or (of_users and not _AUXILIARIES.intersection(before)):
            return question_types.OF_SUBJECT
        return frozenset()

    def _explained(self, guess: Guess) -> frozenset[int]:
        """The words that a type explains: those of its exemplars, and those that ask how many. A number is
        what one of what was found must have; so is a store, unless it is what the type asks for."""
        certain = guess.probability >= question_types.CERTAIN and guess.type not in question_types.OPEN
        explained = question_types.vocabulary(certain)[guess.type]
        counting = self._counting
        values = frozenset(i for i, word in enumerate(self.linked.words) if word.text.isdigit())
        if not question_types.OF_STORES.intersection(question_types.FACTS.get(guess.type, ())):
            values |= frozenset(self.stores)
        if guess.type == "store_of" and self.stores:
            # What is kept there: "keep its chats in".
            kept = (m.span(1) for m in _OWN.finditer(self.linked.text))
            counting = [*counting, *kept]
        return frozenset(
            i
            for i, word in enumerate(self.linked.words)
            if i not in self.named
            and i not in values
            and (self.yes_no or word.text not in SECRETS)
            and (stem(word.text) in explained or any(a <= word.start and word.end <= b for a, b in counting))
        )

    @cached_property
    def _counting(self) -> list[tuple[int, int]]:
        return [m.span() for m in COUNT.finditer(self.linked.text.lower())]

    @cached_property
    def _scopes(self) -> list[tuple[int, int]]:
        """Where it says in which project or on which host the service that it names is: "in the wiki stack"
        tells which one is meant, and nothing of what is asked."""
        named = [m for m in self.mentions if m.of("project", "host", "folder")]
        others = [m for m in self.mentions if m not in named and m.of("service")]
        found = []
        for mention in named if others else ():
            start, end = self.linked.span(mention)
            ends = [self.linked.words[i].end for i in mention.label_at]
            before = _LOCATIVE.search(self.linked.text, 0, start)
            if before is not None:
                found.append((before.start(), max([end, *ends])))
        return found

    def _nameless(
        self,
        proxy: bool,
        left_out: Sequence[tuple[int, int]],
        *,
        of_store: bool = False,
        of_project: bool = False,
    ) -> str:
        """The question with a word of its kind in the place of each name, and without asking how many, which
        every type may, nor what is ``left_out``. ``proxy``: a service that is a proxy is called so;
        ``of_store``: names are those of services, and the word for a store is none; ``of_project``: projects
        are called as services are."""
        text = self.linked.text
        mentions = [m for m in self.mentions if not (of_store and self.is_generic(m))]
        parts = [
            (
                *self.linked.span(m),
                question_types.MASKS["service"]
                if of_store or (of_project and self._is_subject(m))
                else self._mask(m, proxy),
            )
            for m in mentions
        ]
        # "The mongo container" is a service.
        for mention in mentions:
            if mention.label in ("container", "service") and mention.label_at == (mention.last,):
                word = self.linked.words[mention.last]
                parts.append((word.start, word.end, ""))
        parts += [(a, b, "which") for a, b in self._counting]
        words = [w for i, w in enumerate(self.linked.words) if i not in self.named and w.first and w.last]
        parts += [(w.start, w.end, mask) for w in words if (mask := question_types.mask_of_literal(w.text))]
        parts = [p for p in parts if not any(a <= p[0] and p[1] <= b for a, b in left_out)]
        parts += [(a, b, "") for a, b in left_out]
        for start, end, mask in sorted(parts, reverse=True):
            text = f"{text[:start]}{mask}{text[end:]}"
        return text

    def _is_subject(self, mention: Mention) -> bool:
        """Whether a mention is a project, and not where something else is."""
        within = _LOCATIVE.search(self.linked.text, 0, self.linked.span(mention)[0])
        return bool(mention.of("project") and not mention.of("service") and within is None)

    @staticmethod
    def _mask(mention: Mention, proxy: bool) -> str:
        if proxy and mention.of("service") and mention.of("proxy"):
            return question_types.MASKS["proxy"]
        kinds = {thing.kind for thing in mention.things}
        return next((word for kind, word in question_types.MASKS.items() if kind in kinds), "service")

    @staticmethod
    def _at(
        match: re.Match[str] | None, places: Sequence[tuple[int, int, tuple[int, ...]]]
    ) -> frozenset[int]:
        """The words at a match, without those that its groups ran over."""
        if match is None:
            return frozenset()
        gaps = [match.span(i + 1) for i in range(match.re.groups)]
        return frozenset(
            n
            for start, end, numbers in places
            if start < match.end()
            and end > match.start()
            and not any(a <= start and end <= b for a, b in gaps)
            for n in numbers
        )

    def words_matching(self, pattern: re.Pattern[str]) -> frozenset[int]:
        """The words at the first match of a pattern in the masked question; none if there is no match."""
        text, places = self.masked
        return self._at(pattern.search(text), places)

    def unexplained(self, explained: Iterable[int]) -> list[int]:
        """The words that carry meaning and are not among those explained."""
        known = set(explained)
        said = {m.text.lower() for m in self.mentions if known.issuperset(range(m.first, m.last))}
        for mention in self.mentions:
            if mention.text.lower() in said:  # also where it is said twice: gitea in gitea
                known.update(range(mention.first, mention.last), mention.label_at)
        return [
            i
            for i, word in enumerate(self.linked.words)
            if i not in known and (i in self.named or not is_filler(word.text))
        ]


def is_filler(word: str) -> bool:
    """Whether a word says nothing of a thing or a property."""
    return _spelled(word) in FILLER or (len(word) == 1 and word.isalpha())


@dataclass(frozen=True, slots=True)
class _Free:
    number: int
    text: str


def readings(linked: Linked, excepted: frozenset[int] = frozenset()) -> list[Question]:
    """The question with its sure names alone, then with the weak ones too."""
    strong = tuple(linked.strong())
    held = [strong]
    if len(strong) < len(linked.mentions):
        held.append(tuple(linked.mentions))
        if len(linked.mentions) - len(strong) > 1:
            weak = (m for m in linked.mentions if m.weak)
            held += [tuple(sorted([*strong, m], key=lambda x: x.first)) for m in weak]
    return [Question(linked, mentions, excepted) for mentions in held[:MAX_READINGS]]


#: What English puts before an exception, and before what is set against what is asked (Quirk et al., A
#: Comprehensive Grammar of the English Language, 9.58 and 10.41).
_EXCEPTION = re.compile(
    r"(?i)\b(?:(besides|apart from|aside from|other than|except(?: for)?|excluding|not counting)"
    r"|but not|rather than|instead of|as opposed to)\s+(?:(?:the|our|my|a|an|by|on|with|in)\s+)*"
)


def without_exceptions(names: Names, text: str) -> tuple[Linked, list[Mention]]:
    """A question without the names that it leaves out or sets against another, and those that it leaves
    out."""
    linked = names.link(text)
    left_out: list[Mention] = []
    for _ in range(_MAX_EXCEPTIONS):
        said = _EXCEPTION.search(linked.text)
        last = _last_named(linked, said) if said is not None else None
        if said is None or last is None:
            break
        end = linked.words[last].end
        if said[1]:
            left_out += [m for m in linked.mentions if said.end() <= linked.span(m)[0] < end]
        before, after = linked.text[: said.start()].rstrip(" ,"), linked.text[end:].lstrip(" ,")
        linked = names.link(f"{before} {after}".strip())
    return linked, left_out


def _last_named(linked: Linked, said: re.Match[str]) -> int | None:
    """The last word of the names that an exception is about, which "and" may join; None if there are none."""
    naming = {i for m in linked.mentions for i in (*range(m.first, m.last), *m.label_at)}
    last = None
    for i, word in enumerate(linked.words):
        # An exception that comes first ends at the comma.
        if word.start >= said.end() and not said.start() and "," in linked.text[said.end() : word.start]:
            break
        if word.start >= said.end() and (i in naming or word.text in STORES):
            last = i
        elif word.start >= said.end() and word.text not in _JOINING:
            break
    return last


_ASKING = word_list("taboot_pipelines.retrieval.answering", "asking.txt")


def _spelled(word: str) -> str:
    """A word of asking that is spelled with one slip, as it should be; any other word as it is."""
    if len(word) < 5 or word in _ASKING or word in stopwords() or word in FILLER:
        return word
    near = [w for w in _ASKING if is_slip(word, w)]
    return near[0] if len(near) == 1 else word


def spelled(words: Sequence[str]) -> list[str]:
    return [_spelled(w) for w in words]
