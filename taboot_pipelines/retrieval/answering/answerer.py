"""The one entry: what the facts of a knowledge base say to a question, with places and a confidence, or what
was looked for in vain.

Every reading of the question (with and without its weak names) is tried with every kind that it may ask for;
the answer that leaves the fewest words unexplained wins. A word that no name, kind, key or value explains
means that something else is asked, so it costs most of the confidence: a wrong fact is worse than none.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

from taboot_pipelines.knowledge.mentions import stopwords
from taboot_pipelines.retrieval.answering.compounds import compounded
from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.facts import Facts
from taboot_pipelines.retrieval.answering.holders import Holders
from taboot_pipelines.retrieval.answering.house import House
from taboot_pipelines.retrieval.answering.linking import Linked, Names
from taboot_pipelines.retrieval.answering.nearest import Near
from taboot_pipelines.retrieval.answering.parts import Named
from taboot_pipelines.retrieval.answering.question import Question, readings
from taboot_pipelines.retrieval.answering.scoping import Scoped
from taboot_pipelines.retrieval.answering.statements import Cite, Found, Statement
from taboot_pipelines.retrieval.session import View

#: The least confidence of an answer.
MIN_CONFIDENCE = 0.75
#: What an unexplained word costs: one that is hardly a common word, and any other.
_COST_NAME, _COST_WORD = 0.5, 0.2
#: Letters of a word that may be part of a name: the TURN port of coturn.
_MIN_INSIDE = 4
_TOKEN = re.compile(r"[^\W_]+")
#: Who asks for these wants nothing that stands beside them.
_SECRETS = frozenset(
    [
        "password",
        "passwords",
        "passphrase",
        "secret",
        "secrets",
        "token",
        "tokens",
        "credentials",
        "key",
        "keys",
    ]
)


@dataclass(frozen=True, slots=True)
class FactCitation:
    """Where a sentence stands: code points ``[start, end)`` of a document and the line there; ``text`` is
    that line. ``edge_id`` is empty where it is no edge."""

    doc_id: str
    line: int
    start: int
    end: int
    edge_id: str
    text: str


@dataclass(frozen=True, slots=True)
class FactSentence:
    text: str
    citations: tuple[FactCitation, ...]


@dataclass(frozen=True, slots=True)
class FactAnswer:
    """What the facts say. Without ``sentences`` nothing fits, and ``looked_for`` says in words what was
    looked for. ``kind``: what was asked; ``linked``: the names in the question that are known."""

    sentences: tuple[FactSentence, ...]
    confidence: float
    kind: str
    linked: tuple[str, ...]
    looked_for: str

    @property
    def found(self) -> bool:
        return bool(self.sentences)

    @property
    def text(self) -> str:
        return " ".join(s.text for s in self.sentences)


class _Best(NamedTuple):
    """What answers best so far, and the reading of the question that it answers."""

    sure: float
    kind: str
    found: Found
    question: Question


def _better(known: _Best | None, new: _Best) -> _Best:
    return new if known is None or new.sure > known.sure else known


class Answerer:
    """The facts of one view. Made once per view."""

    def __init__(self, view: View) -> None:
        self.house = House(view.graph, view.index, view.manifest)
        self.names = Names(self.house)
        self.config = Config(self.house)
        self.facts = Facts(self.house, self.config)
        self.holders = Holders(self.house, self.config)

    def answer(self, text: str, near: Near | None = None) -> FactAnswer | None:
        """The best answer; one without sentences if the thing or the kind is known and nothing fits; None if
        the question names nothing known and asks for no kind of fact. ``near``: how near texts are to the
        question, for a value that shares no words with it, which is of the kind ``near`` and less sure
        than any other answer."""
        linked = self.names.link(text)
        if not linked.words:
            return None
        best: _Best | None = None
        asked_kind = "unknown"
        compounds = compounded(self.house, linked)
        joined = [Question(linked, compounds)] if compounds else []
        for n, question in enumerate([*joined, *readings(linked)]):
            if not question.is_fact:
                continue
            kinds = question.asked()
            if kinds and asked_kind == "unknown":
                asked_kind = kinds[0].kind
            scoped = Scoped(self.house, question)
            for rank, asked in enumerate(kinds):
                found = self.facts.find(asked.kind, scoped)
                if found is None and asked.kind == "ports":
                    found = self.config.listening(scoped)
                if found is not None and found.statements:
                    sure = _confidence(question, found, set(asked.words)) - 0.02 * rank - 0.01 * n
                    certain = asked.kind == "exposed" or found.statements[0].text.startswith(("Yes", "No"))
                    if question.yes_no and not certain:
                        sure -= 0.05  # a reading that answers yes or no is before one that does not
                    best = _better(best, _Best(sure, asked.kind, found, question))
            found = self.holders.find(scoped)
            if found is not None:
                sure = _confidence(question, found, set()) - 0.01 * n
                best = _better(best, _Best(sure, "holders", found, question))
            found = None if self.holders.asks(question) else self.config.find(scoped)
            if found is not None:
                sure = _confidence(question, found, set(), config=True) - 0.01 * n
                sure += 0.02 if found.weight > 1 else -0.05  # a key as it is written is before what edges say
                best = _better(best, _Best(sure, "config", found, question))
        names = tuple(dict.fromkeys(m.text for m in linked.mentions))
        if best is not None and best.sure >= MIN_CONFIDENCE:
            statements = [s for s in best.found.statements if s.cites]
            _say_slips(best, statements)
            sentences = tuple(self._sentence(s.text, s.cites) for s in statements)
            if sentences:
                looked_for = best.found.looked_for
                return FactAnswer(sentences, min(best.sure, 1.0), best.kind, names, looked_for)
        if near is not None:
            known = best is not None and best.kind == "config"
            guessed = [c for s in best.found.statements for c in s.cites] if best and known else []
            closest = self._nearest(linked, near, guessed)
            if closest is not None:
                sure, found = closest
                said = tuple(self._sentence(s.text, s.cites) for s in found.statements)
                return FactAnswer(said, sure * MIN_CONFIDENCE, "near", names, found.looked_for)
        if not names and asked_kind == "unknown":
            return None
        return FactAnswer((), 0.0, asked_kind, names, _looked_for(linked, asked_kind))

    def _nearest(self, linked: Linked, near: Near, guessed: list[Cite]) -> tuple[float, Found] | None:
        every = readings(linked)
        question = max(every, key=lambda q: len(q.mentions))
        if not question.is_fact or not question.mentions:
            return None
        return self.config.nearest(Scoped(self.house, question), near, guessed)

    def _sentence(self, text: str, cites: Sequence[Cite]) -> FactSentence:
        return FactSentence(
            text,
            tuple(
                FactCitation(
                    c.doc_id, c.line, c.start, c.end, c.edge_id, self.house.line_text(c.doc_id, c.line)
                )
                for c in cites
            ),
        )


def _say_slips(best: _Best, statements: Sequence[Statement]) -> None:
    """Say of each name that was read out of a slip of the pen how it was written."""
    for mention in best.question.mentions:
        if (
            not statements
            or not mention.meant
            or not best.found.used & set(range(mention.first, mention.last))
        ):
            continue
        name = re.compile(rf"(?<![\w.-]){re.escape(mention.meant)}(?![\w-])", re.IGNORECASE)
        said, count = name.subn(rf"\g<0> (you wrote {mention.text})", statements[0].text, count=1)
        if not count:
            said = f"{mention.meant} (you wrote {mention.text}): {statements[0].text}"
        statements[0].text = said


def _confidence(question: Question, found: Found, asked: set[int], *, config: bool = False) -> float:
    left = question.unexplained(found.used | asked)
    if not config:
        said = set(_TOKEN.findall(" ".join(s.text for s in found.statements).lower()))
        left = [i for i in left if i in question.named or question.linked.words[i].text not in said]
    names = [m.text.lower() for m in question.mentions if found.used & set(range(m.first, m.last))]
    words = question.linked.words
    left = [
        i
        for i in left
        if i in question.named
        or len(words[i].text) < _MIN_INSIDE
        or not any(words[i].text in n for n in names)
    ]
    sure = found.weight
    for mention in question.mentions:
        if found.used & set(range(mention.first, mention.last)):
            sure = min(sure, mention.sureness)
    for i in left:
        word = question.linked.words[i].text
        common = word not in _SECRETS and word.isalpha() and word in stopwords() and i not in question.named
        dear = config and found.matched < 2
        sure -= (1.5 if dear else 1.0) * (_COST_WORD if common else _COST_NAME)
    return sure


def _looked_for(linked: Linked, kind: str) -> str:
    names = ", ".join(dict.fromkeys(m.text for m in linked.mentions)) or "the configuration"
    return f"{names}: {kind.replace('_', ' ')}"


_LOCK = threading.Lock()
_ANSWERERS: WeakKeyDictionary[View, Answerer] = WeakKeyDictionary()


def answer_from_facts(view: View, question: str, near: Near | None = None) -> FactAnswer | None:
    """What the graph and the configuration files of a view say to a question; see :meth:`Answerer.answer`."""
    return _answerer(view).answer(question, near)


def names_in(view: View, text: str) -> list[Named]:
    """The names in a text that are surely meant as such, those of services first."""
    mentions = _answerer(view).names.link(text)
    held = sorted(mentions.strong(), key=lambda m: not m.of("service"))
    return [Named(*mentions.span(m), m.text) for m in held]


def _answerer(view: View) -> Answerer:
    with _LOCK:
        answerer = _ANSWERERS.get(view)
        if answerer is None:
            answerer = _ANSWERERS[view] = Answerer(view)
    return answerer
