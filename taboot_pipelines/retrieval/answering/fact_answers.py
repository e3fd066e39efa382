"""Answers out of the graph: for each kind of question the edges that answer it, said in a sentence, with
every edge as a citation.

What is *closed*: a service's ports, networks, dependencies and image are all in the file that declares it,
so that it has none is an answer too, cited at its declaration. What comes from elsewhere (who routes to it,
which name it has outside) is open, and then nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import NamedTuple

import numpy as np

from taboot_pipelines.documents.mime import has_form
from taboot_pipelines.knowledge.mentions import stopwords
from taboot_pipelines.retrieval.answering.compound_questions import Named, without_preface
from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.dependencies import Dependencies
from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions, compounded, subject_of
from taboot_pipelines.retrieval.answering.entity_linking import Linked, Mention, Names
from taboot_pipelines.retrieval.answering.inventory import Inventory
from taboot_pipelines.retrieval.answering.ports import Ports
from taboot_pipelines.retrieval.answering.question import Question, readings, without_exceptions
from taboot_pipelines.retrieval.answering.question_types import OF_STORES, PROBABLE
from taboot_pipelines.retrieval.answering.service_properties import ServiceProperties
from taboot_pipelines.retrieval.answering.typed_facts import ASKED, TypedFacts
from taboot_pipelines.retrieval.answering.vocabulary import SECRETS, STORES
from taboot_pipelines.retrieval.answering.words import DENIES
from taboot_pipelines.retrieval.queries.citations import MAX_SCOPES, CitedStatement, Found, StatementSpan
from taboot_pipelines.retrieval.queries.house import House
from taboot_pipelines.retrieval.queries.service_index import service_index
from taboot_pipelines.retrieval.request import SearchRequest
from taboot_pipelines.retrieval.results.answers import Answer, Citation
from taboot_pipelines.retrieval.session import View


class Facts:
    """The kinds of facts over one house."""

    def __init__(self, house: House, config: Config) -> None:
        index, typed = house.index, TypedFacts(house)
        ports, dependencies, inventory = (
            Ports(index, config, typed),
            Dependencies(house, typed),
            Inventory(index),
        )
        self._handlers: dict[str, Callable[[ResolvedMentions], Found | None]] = {
            **{kind: partial(typed.find, kind) for kind in ASKED},
            "ports": ports.ports,
            "hostnames": lambda scoped: typed.find("hostnames", scoped) or ports.shared(scoped),
            "images": inventory.images,
            "versions": lambda scoped: config.with_own_version(scoped, inventory.versions(scoped)),
            "shared_services": dependencies.shared_services,
            "dependencies": dependencies.dependencies,
            "connections": dependencies.connections,
            "impact": dependencies.impact,
            "dependents": dependencies.dependents,
            "users": dependencies.users,
            "inventory": inventory.inventory,
            "description": inventory.description,
        }

    def find(self, kind: str, scoped: ResolvedMentions) -> Found | None:
        """What the graph says to a question of this kind; None if it says nothing."""
        handler = self._handlers.get(kind)
        found = handler(scoped) if handler is not None else None
        if found is not None and len(found.statements) == MAX_SCOPES:
            subject = subject_of(scoped)
            if subject is not None and len(subject[1]) > MAX_SCOPES:
                found.statements[-1].text += f" In all {len(subject[1])} services have that name."
        return found


# --- The one entry: what the facts of a knowledge base say to a question, with places and a confidence, or
#     what was looked for in vain
#
# Every reading of the question (with and without its weak names) is tried with every kind that it may ask
# for; the answer that leaves the fewest words unexplained wins. A word that no name, kind, key or value
# explains means that something else is asked, so it costs most of the confidence: a wrong fact is worse
# than none.

#: The least confidence of an answer out of the graph, and of one out of a configuration file's values, which
#: no type of question vouches for. Of those between the two, five of six were right of the graph.
_MIN_OF_GRAPH, _MIN_OF_VALUES = 0.7, 0.75
#: What an unexplained word costs: one that is hardly a common word, any other, and one that the answer says.
_COST_NAME, _COST_WORD, _COST_SAID = 0.5, 0.2, 0.03
#: How probable a kind must be for its facts to go before values that a question names in other words.
_WHOLE = 0.3
#: A kind that is less probable answers only where nothing of the question is left.
_HARDLY = 0.15
#: What it costs that a kind is a guess, less its probability.
_COST_DOUBT = 0.1
#: Letters of a word that may be part of a name: the TURN port of coturn.
_MIN_INSIDE = 4
_TOKEN = re.compile(r"[^\W_]+")
#: "(an order, not a need)" denies nothing of what it stands behind.
_ASIDE = re.compile(r"\([^()]*\)")


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
        self.house = service_index(view)
        self.names = Names(self.house)
        self.config = Config(self.house)
        # What drifted is no answer that edges give.
        self.facts = Facts(House(view, lambda _: ()), self.config)
        self.holders = ServiceProperties(self.house, self.config)

    def answer(self, text: str) -> FactAnswer | None:
        """The best answer; one without sentences if the thing or the kind is known and nothing fits; None if
        the question names nothing known and asks for no kind of fact."""
        linked, left_out = without_exceptions(self.names, text)
        if not linked.words:
            return None
        excepted = self._services_of(left_out)
        best: _Best | None = None
        asked_kind = "unknown"
        compounds = compounded(self.house, linked)
        joined = readings(replace(linked, mentions=list(compounds)), excepted) if compounds else []
        plain = readings(linked, excepted)
        asks_store = bool(_words_of_store(plain))
        for n, question in enumerate([*joined, *plain]):
            if not question.is_fact:
                continue
            kinds = question.asked
            if kinds and asked_kind == "unknown":
                asked_kind = kinds[0].kind
            scoped = ResolvedMentions(self.house, question)
            whole: _Best | None = None
            for asked in kinds:
                if asks_store and asked.kind not in OF_STORES:
                    continue  # where one runs is no answer to which one it is
                found = self.facts.find(asked.kind, scoped)
                if found is None and asked.kind == "ports":
                    found = self.config.listening(scoped)
                if found is None or not found.statements or not _denies_alike(question, found):
                    continue
                left = question.unexplained(found.used | asked.words)
                if left and asked.probability < _HARDLY:
                    continue
                denies = any(s.denies for s in found.statements)
                if denies and (not asked.may_deny or left):
                    continue
                sure = _confidence(question, found, set(asked.words)) - 0.01 * n
                sure -= _COST_DOUBT * (1 - asked.probability)
                certain = asked.kind == "exposed" or found.statements[0].text.startswith(("Yes", "No"))
                if question.yes_no and not certain:
                    sure -= 0.05  # a reading that answers yes or no is before one that does not
                made = _Best(sure, asked.kind, found, question)
                best = _better(best, made)
                if asked.probability >= _WHOLE and not left:
                    whole = whole or made
            found = self.holders.find(scoped)
            if found is not None and _denies_alike(question, found):
                sure = _confidence(question, found, set()) - 0.01 * n
                best = _better(best, _Best(sure, "holders", found, question))
            found = None if self.holders.asks(question) else self.config.find(scoped)
            if found is not None and found.weight <= 1 and _asks_for_others(question, found):
                found = None
            if found is not None and _denies_alike(question, found):
                sure = _confidence(question, found, set(), config=True) - 0.01 * n
                # A key as it is written is before what edges say; what edges say without a word left, before
                # any other.
                sure += 0.02 if found.weight > 1 else -0.05
                if found.weight <= 1 and whole is not None:
                    sure = min(sure, whole.sure)
                best = _better(best, _Best(sure, "config", found, question))
        names = tuple(dict.fromkeys(m.text for m in linked.mentions))
        if best is not None and best.sure >= (_MIN_OF_VALUES if best.kind == "config" else _MIN_OF_GRAPH):
            statements = [s for s in best.found.statements if s.cites]
            _say_slips(best, statements)
            sentences = tuple(self._sentence(s.text, s.cites) for s in statements)
            if sentences:
                looked_for = best.found.looked_for
                # A sentence is as sure as its lines on average, the answer as its least sure sentence.
                sure = min(best.sure, 1.0) * min(fmean(c.confidence for c in s.cites) for s in statements)
                return FactAnswer(sentences, sure, best.kind, names, looked_for)
        if not names and asked_kind == "unknown":
            return None
        return FactAnswer((), 0.0, asked_kind, names, _looked_for(linked, asked_kind))

    def _services_of(self, mentions: Sequence[Mention]) -> frozenset[int]:
        """The services that mentions name, those of their projects included."""
        found = {t.node for m in mentions for t in m.of("service")}
        keys = {(t.place, t.value) for m in mentions for t in m.of("project")}
        return frozenset(found.union(*(self.house.projects.get(key, ()) for key in keys)))

    def _sentence(self, text: str, cites: Sequence[StatementSpan]) -> FactSentence:
        return FactSentence(
            text,
            tuple(
                FactCitation(
                    c.doc_id, c.line, c.start, c.end, c.edge_id, self.house.line_text(c.doc_id, c.line)
                )
                for c in cites
            ),
        )


def _say_slips(best: _Best, statements: Sequence[CitedStatement]) -> None:
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


def _asks_for_others(question: Question, found: Found) -> bool:
    """Whether a value is no answer: a question asks which services are so, and it is one of a service that it
    names; or it asks what stands in a relation to something that is not known here, and it has its words.
    """
    if question.reading.lists_services and len(found.statements) == 1:
        named = (range(m.first, m.last) for m in question.mentions if m.of("service"))
        if not all(found.used.isdisjoint(words) for words in named):
            return True
    return not question.mentions and any(
        a.kind in OF_STORES and a.probability >= _WHOLE for a in question.asked
    )


def _denies_alike(question: Question, found: Found) -> bool:
    """Whether what is found denies where the question does: what is so is no answer to what is not so."""
    said = _ASIDE.sub("", found.statements[0].text.lower()) if found.statements else ""
    return not question.reading.denied or bool(DENIES.search(said))


def _confidence(question: Question, found: Found, asked: set[int], *, config: bool = False) -> float:
    left = question.unexplained(found.used | asked)
    sure = found.weight
    if not config:
        said = set(_TOKEN.findall(" ".join(s.text for s in found.statements).lower()))
        # A name that this reading leaves out may be what tells one of several.
        naming = {i for m in question.linked.mentions for i in range(m.first, m.last)}
        excused = {i for i in left if i not in naming and question.linked.words[i].text in said}
        left = [i for i in left if i not in excused]
        sure -= _COST_SAID * len(excused)
    names = [m.text.lower() for m in question.mentions if found.used & set(range(m.first, m.last))]
    words = question.linked.words
    left = [
        i
        for i in left
        if i in question.named
        or len(words[i].text) < _MIN_INSIDE
        or not any(words[i].text in n for n in names)
    ]
    for mention in question.mentions:
        if found.used & set(range(mention.first, mention.last)):
            sure = min(sure, mention.sureness)
    for i in left:
        word = question.linked.words[i].text
        # Who asks for its database does not ask for the thing itself.
        of_another = word in SECRETS or i == question.store or i in question.named
        common = word.isalpha() and word in stopwords() and not of_another
        dear = config and found.matched < 2
        sure -= (1.5 if dear else 1.0) * (_COST_WORD if common else _COST_NAME)
    return sure


def _looked_for(linked: Linked, kind: str) -> str:
    names = ", ".join(dict.fromkeys(m.text for m in linked.mentions)) or "the configuration"
    return f"{names}: {kind.replace('_', ' ')}"


def answer_from_facts(view: View, question: str) -> FactAnswer | None:
    """What the graph and the configuration files of a view say to a question; see :meth:`Answerer.answer`."""
    return view.once(Answerer).answer(without_preface(question, partial(names_in, view)))


def names_in(view: View, text: str, *, weak: bool = False) -> list[Named]:
    """The names in a text that are surely meant as such, those of services first. ``weak``: where there is
    none, the services whose names are common words too."""
    mentions = view.once(Answerer).names.link(text)
    held = sorted(mentions.strong(), key=lambda m: not m.of("service"))
    if weak and not held:
        held = [m for m in mentions.mentions if m.of("service")]
    return [Named(*mentions.span(m), m.text) for m in held]


def words_of_store(view: View, text: str) -> frozenset[str]:
    """The words of which a statement holds one if it says which database, cache or broker a service uses;
    empty where no service is asked for it."""
    lower = text.lower()
    if not any(word in lower for word in STORES):
        return frozenset()  # as nearly always, and names take longer to find
    return _words_of_store(readings(view.once(Answerer).names.link(text)))


def _words_of_store(found: Sequence[Question]) -> frozenset[str]:
    for question in found:
        kinds = [STORES[question.linked.words[i].text] for i in question.stores]
        if not kinds or not any(m.of("service", "project") for m in question.mentions):
            continue
        if any(a.kind == "connections" and a.probability >= PROBABLE for a in question.asked):
            products = frozenset().union(*kinds)
            alike = {word for word, held in STORES.items() if not products.isdisjoint(held)}
            return products | alike | {"sqlite", "sqlite3"}
    return frozenset()


# --- An answer from facts as it is returned: its sentences, each with the numbers of its citations


def fact_answer(view: View, request: SearchRequest, limit: int = 50) -> Answer | None:
    """What the facts say to ``request.query``, at most ``limit`` sentences; None if they do not answer it, or
    not out of documents that pass the request's filter."""
    facts = answer_from_facts(view, request.query)
    if facts is None or not facts.found or not _pass(view, request, facts):
        return None
    citations: list[Citation] = []
    parts = []
    for sentence in facts.sentences[:limit]:
        numbers = []
        for cited in sentence.citations:
            citations.append(_citation(view, cited, len(citations) + 1))
            numbers.append(f"[{len(citations)}]")
        parts.append(f"{sentence.text} {''.join(numbers)}")
    return Answer(
        question=request.query,
        found=True,
        text=" ".join(parts),
        citations=tuple(citations),
        confidence=facts.confidence,
        kind="facts",
        looked_for=facts.looked_for,
    )


def _pass(view: View, request: SearchRequest, facts: FactAnswer) -> bool:
    allowed = passing_documents(view, request)
    return allowed is None or all(c.doc_id in allowed for s in facts.sentences for c in s.citations)


def passing_documents(view: View, request: SearchRequest) -> set[str] | None:
    """The documents that pass the filter of a request; None: all do."""
    mask = view.index.passing(request.filter)
    if mask is None:
        return None
    ids = view.index.documents.column("doc_id")
    return {ids[int(row)].as_py() for row in np.unique(view.index.document[mask])}


def _citation(view: View, cited: FactCitation, number: int) -> Citation:
    index = view.index
    at = index.document_row(cited.doc_id)
    row = index.row_at(cited.doc_id, cited.start)
    title = "" if at is None else index.documents.column("title")[at].as_py()
    chunk = "" if row is None else index.chunk_id(row)
    url = view.document_url(cited.doc_id)
    if at is not None:
        url = view.passage_url(index.document_fields(at), cited.start)
    return Citation(
        number=number,
        text=cited.text,
        doc_id=cited.doc_id,
        chunk_id=chunk,
        url=url,
        title=title,
        # The lines of what is rendered from a PDF or a message are none that people know.
        line=None if _is_rendered(view, cited.doc_id) else cited.line,
        start=cited.start,
        end=cited.end,
    )


def _is_rendered(view: View, doc_id: str) -> bool:
    documents = view.graph.documents
    at = documents.column("doc_id").index(doc_id).as_py()
    return at >= 0 and has_form(documents.column("mime")[at].as_py())
