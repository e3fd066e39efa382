"""Answers: first from facts, then from what documents state, else none, and what was looked for.

Without a language model nothing is said that does not stand in a document. A model, where one is configured,
reads what was found, looks further up and writes (``answering.model_answers``); what of it does not rest on
what it cites is dropped, and where nothing is left the answer without it stands. Every answer has an id, by
which its candidates can be shown again (``stores.replays``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.answering import compound_questions, reading, words
from taboot_pipelines.retrieval.answering.answer_types import SET_NUMBER, Value
from taboot_pipelines.retrieval.answering.compound_questions import join_answers
from taboot_pipelines.retrieval.answering.config_values import WORDS
from taboot_pipelines.retrieval.answering.documents import Documents, Excerpt, PassageSpan
from taboot_pipelines.retrieval.answering.fact_answers import names_in, passing_documents, words_of_store
from taboot_pipelines.retrieval.answering.ownership import Ownership
from taboot_pipelines.retrieval.answering.reading import Read
from taboot_pipelines.retrieval.answering.similarity import Near, Nearness, Tokens
from taboot_pipelines.retrieval.answering.table_comparisons import compare_column
from taboot_pipelines.retrieval.answering.text_query import TextQuery, read_question, says
from taboot_pipelines.retrieval.drift.report import Drifts
from taboot_pipelines.retrieval.evidence import Evidence
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.retrieval.pages import make_hit
from taboot_pipelines.retrieval.queries.citations import unread
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.ranking import RankedRow
from taboot_pipelines.retrieval.request import MAX_SENTENCES, PASSAGES, SearchRequest
from taboot_pipelines.retrieval.results.answers import Answer, Citation, Replay
from taboot_pipelines.retrieval.results.hits import Hit
from taboot_pipelines.retrieval.results.queries import QueryResult, QueryRow
from taboot_pipelines.retrieval.search import Search
from taboot_pipelines.retrieval.sentences import Form, TextStatement
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.retrieval.snippets import terms_of
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores import replays
from taboot_pipelines.stores.replays import Recorded, Replays

if TYPE_CHECKING:
    from taboot_pipelines.inference.chat.protocol import ChatModel
    from taboot_pipelines.retrieval.answering.model_answers import CitedText

#: Documents that an abstention names, and passages that it shows.
_NAMED, _CLOSEST = 3, 3
#: Who asks for one of these does not want another property of the same thing, which is what facts may know.
_TIMES = frozenset({Value.MOMENT, Value.DATE, Value.DURATION, Value.FREQUENCY})

#: Passages among which it is looked where else a line of configuration stands.
_ELSEWHERE = 100

#: How likely what a document says is still so, where it says of itself that it does not hold.
_STILL_SO = 0.7

#: An answer out of the graph and out of configuration; None where they do not answer.
Facts = Callable[[View, SearchRequest, int], Answer | None]
#: A typed query by its name and parameters.
Query = Callable[[str, Mapping[str, Any]], QueryResult]


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found before anything is said. ``facts``: an answer from facts, which then is the answer;
    ``told``: what the comparison of a table's column says, which comes before single statements;
    ``reads``: those, best first.
    """

    asked: TextQuery
    hits: tuple[Hit, ...]
    reads: list[Read]
    facts: Answer | None
    told: list[Excerpt]
    version: int
    #: What the search said of the question and its filters, and what could not be read.
    notes: tuple[str, ...] = ()

    @property
    def sure(self) -> float:
        return _sure(self.told, self.reads)


def _sure(told: Sequence[Excerpt], reads: Sequence[Read]) -> float:
    return told[0].sure if told else reads[0].sure if reads else 0.0


@dataclass(slots=True)
class _Made:
    """What an answer became whose text was given in pieces."""

    answer: Answer | None = None


class Answers:
    """``facts``: what answers before text does. ``chat``: a model that is used instead of what the settings
    name. ``query_vectors``: what compares meanings; None: words only. ``query``: what a model may ask. Safe
    to use from several threads.
    """

    def __init__(
        self,
        settings: Settings,
        namespace: str,
        session: Session,
        search: Search,
        evidence: Evidence,
        facts: Facts | None = None,
        chat: ChatModel | None = None,
        query_vectors: QueryVectors | None = None,
        drifts: Drifts | None = None,
        query: Query | None = None,
    ) -> None:
        self._drifts = drifts
        self._query = query
        self._nearness = Nearness(query_vectors)
        self._settings = settings.retrieval
        self._namespace = namespace
        self._session = session
        self._search = search
        self._evidence = evidence
        self._facts = facts
        self._ownership = Ownership(settings.retrieval)
        self._documents = Documents()
        self._replays = Replays(settings.home_dir, namespace, read_only=settings.read_only)
        self._chat = Lazy(lambda: chat or _open_chat(settings))

    def answer(self, request: SearchRequest, limit: int, model: bool | None) -> Answer:
        """At most ``limit`` sentences that answer ``request.query``, out of what passes the filters of
        ``request``. ``model``: let the chat model answer; None: where one is configured and the settings do
        not forbid it.

        Raises ``E_CONFIG`` if a model is asked for and there is none, and what its server raises; where it
        was not asked for, the answer is made without it, and a note says why.
        """
        made = _Made()
        for _ in self._written(request, limit, model, made):
            pass
        assert made.answer is not None
        return made.answer

    def stream(self, request: SearchRequest, limit: int, model: bool | None) -> Generator[str, None, Answer]:
        """The sentences of :meth:`answer`, each with its citations, as soon as it is checked; what an
        abstention says where there is none. It returns the answer as a whole.
        """
        made = _Made()
        yield from self._written(request, limit, model, made)
        assert made.answer is not None
        return made.answer

    def _written(self, request: SearchRequest, limit: int, model: bool | None, into: _Made) -> Iterator[str]:
        """The text of an answer in pieces; the answer as a whole is noted in ``into`` in the end."""
        chat = self._model(model)
        notes: tuple[str, ...] = ()
        if chat is not None:
            found = self._find(request, limit, facts_suffice=False)
            texts: list[str] = []
            citations: list[Citation] = []
            try:
                for text, cited in self._by_model(chat, request, found):
                    texts.append(text)
                    citations += cited
                    yield text if len(texts) == 1 else f" {text}"
            except TabootError as error:
                if model:
                    raise
                notes = (f"The model did not answer: {error.code}: {error.message}",)
            if texts:
                made = _of_model(found, texts, citations)
                into.answer = self._finished(request, limit, found, made, notes)
                return
        found, made = self._plainly(request, limit)
        into.answer = self._finished(request, limit, found, made, notes)
        yield made.text

    def candidates(self, request: SearchRequest) -> tuple[TextQuery, list[Read]]:
        """What is asked, and the statements that text would answer with, best first, whatever their
        probability.
        """
        found = self._find(request, MAX_SENTENCES, facts_suffice=False)
        return found.asked, found.reads

    def replay(self, answer_id: str) -> Replay:
        """The candidates of an answer, as :meth:`KnowledgeBase.replay` says."""
        recorded = self._replays.find(answer_id)
        if recorded is None:
            raise TabootError(
                "E_NOT_FOUND",
                f"There is no record of an answer {answer_id!r}.",
                remedy=(
                    f"Records of the last {replays.MAX_KEPT} answers are kept, and of this manifest only; an"
                    " answer that is read-only leaves none."
                ),
                answer=answer_id,
            )
        return self._session.ask(lambda view: _replayed(view, recorded))

    # --- finding --------------------------------------------------------------------------------------------

    def _find(self, request: SearchRequest, limit: int, *, facts_suffice: bool) -> _Found:
        """``facts_suffice``: what documents state is not looked at where facts answer."""
        # What names something and what means something alike: each arm brings its own best.
        both = replace(request, limit=PASSAGES, vector_weight=1.0, keyword_weight=1.0)
        searched = self._search.search(both)
        found = self._session.ask(lambda view: self._rank(view, request, searched.hits, limit, facts_suffice))
        line = None if found.told else reading.line_of_several(found.asked, found.reads)
        if line is not None:
            same = replace(
                request, query=line.statement.said, limit=_ELSEWHERE, vector_weight=0.0, keyword_weight=1.0
            )
            hits = self._search.search(same).hits
            told = self._session.ask(lambda view: reading.everywhere(line, self._places(view, hits)))
            found = replace(found, told=told[:limit])
        return replace(found, notes=(*searched.notes, *found.notes))

    def _rank(
        self, view: View, request: SearchRequest, hits: tuple[Hit, ...], limit: int, facts_suffice: bool
    ) -> _Found:
        asked = read_question(request.query, view.keywords.idf)
        notes = unread(view, wholly=True)
        facts = None if self._facts is None else self._facts(view, request, limit)
        if (
            facts is not None
            and asked.value in _TIMES
            and not (says(asked, facts.text) or SET_NUMBER.search(facts.text))
        ):
            facts = None
        if facts_suffice and facts is not None:
            return _Found(asked, hits, [], facts, [], view.manifest.version, notes)
        places = self._places(view, hits)
        near = tokens = None
        if request.mode != "keyword":
            near, tokens = self._nearness.of(view), self._nearness.tokens(view, request.query)
        # What holds no more answers only where nothing else does nearly as well.
        holding = [p for p in places if not p.document.status]
        told, reads = self._read(asked, holding, limit, near, tokens)
        if len(holding) < len(places):
            old, older = self._read(asked, places, limit, near, tokens)
            if _sure(old, older) * _STILL_SO > _sure(told, reads):
                told, reads = old, older
        if asked.denied:
            reads = [r for r in reads if words.DENIES.search(r.statement.said.lower())]
        if facts is None and (wanted := words_of_store(view, request.query)):
            # What a service is besides is no answer to which database it uses.
            reads = [r for r in reads if not wanted.isdisjoint(_words_around(r.statement))]
            told = []
        return _Found(asked, hits, reads, facts, told, view.manifest.version, notes)

    def _read(
        self,
        asked: TextQuery,
        places: list[PassageSpan],
        limit: int,
        near: Near | None,
        tokens: Tokens | None,
    ) -> tuple[list[Excerpt], list[Read]]:
        told = compare_column(asked, reading.of_the_house(asked, places), limit)
        return told, reading.read(asked, places, near, tokens)

    def _places(self, view: View, hits: Sequence[Hit]) -> list[PassageSpan]:
        places = []
        for hit in hits:
            doc_id, _, number = hit.chunk_id.rpartition(":")
            row = view.index.row_of(doc_id, int(number))
            if row is None:
                continue  # a new manifest was published since the search
            document = self._documents.read(view, row)
            own = self._ownership.owns(view, hit.source)
            text = self._ownership.is_text(view, hit.source)
            places.append(
                PassageSpan(document, hit.start - document.start, hit.end - document.start, own, text)
            )
        return places

    # --- saying ---------------------------------------------------------------------------------------------

    def _plainly(self, request: SearchRequest, limit: int) -> tuple[_Found, Answer]:
        """What was found and the answer without a model, of a question that asks several things for each."""
        asked = self._parts(request.query)
        found = [self._find(replace(request, query=part), limit, facts_suffice=True) for part in asked]
        if len(found) == 1:
            made = self._in_its_own_words(found[0], limit)
            each = self._properties(request, limit)
            answered = [f.facts for f in each if f.facts is not None]
            surer = made.found and all(made.confidence >= a.confidence for a in answered)
            if surer or not answered:
                return found[0], made
            found = each
        share = max(1, limit // len(found))
        answers = [self._in_its_own_words(f, share) for f in found]
        if len({a.text for a in answers}) == 1:
            return found[0], answers[0].model_copy(update={"question": request.query})
        hits = {h.chunk_id: h for f in found for h in f.hits}
        return replace(found[0], hits=tuple(hits.values())), join_answers(request.query, answers)

    def _properties(self, request: SearchRequest, limit: int) -> list[_Found]:
        """What is found for each of two properties that a question joins; empty if it joins none."""
        if " and " not in request.query:
            return []
        joined = compound_questions.properties(request.query, self._named(request.query))
        return [self._find(replace(request, query=part), limit, facts_suffice=True) for part in joined]

    def _parts(self, question: str) -> list[str]:
        """The questions that are asked, each so that it can be asked alone."""
        first, *rest = compound_questions.cut(question)
        if not rest:
            return [question]
        names = self._named(first)
        asking = [part for part in rest if compound_questions.asks(part)]
        if len(asking) < len(rest) and not names:
            return [question]  # the remark may say what the question is about
        return [first, *(compound_questions.whole(part, first, names, self._named(part)) for part in asking)]

    def _named(self, text: str) -> list[compound_questions.Named]:
        return self._session.ask(lambda view: names_in(view, text))

    def _in_its_own_words(self, found: _Found, limit: int) -> Answer:
        if found.facts is not None:
            return found.facts
        chosen = found.told or reading.answer(found.asked, found.reads, limit)
        if not chosen:
            return _nothing(found)
        return Answer(
            question=found.asked.question,
            found=True,
            # What stands around a statement begins a line of its own.
            text=(" " if found.told and not _is_code(chosen) else "\n").join(
                f"{part.text} [{number}]" for number, part in enumerate(chosen, 1)
            ),
            citations=tuple(_cite(number, part) for number, part in enumerate(chosen, 1)),
            confidence=found.sure,
            kind="text",
            looked_for=looked_for(found.asked),
            notes=tuple(
                f"{document.path} says of itself: {document.status}"
                for document in {part.document.doc_id: part.document for part in chosen}.values()
                if document.status
            ),
        )

    def _by_model(
        self, chat: ChatModel, request: SearchRequest, found: _Found
    ) -> Iterator[tuple[str, tuple[Citation, ...]]]:
        """The model's sentences that hold, with their citations numbered as they come; none where nothing was
        found that it could read."""
        from taboot_pipelines.retrieval.answering import model_answers
        from taboot_pipelines.retrieval.answering.model_answers import CitedText, Lookups

        given = []
        if found.facts is not None and found.facts.found:
            given += [CitedText(c.text, c) for c in found.facts.citations]
        given += [CitedText(part.text, _cite(0, part)) for part in found.told]
        given += _passages(found)
        if not given:
            return

        def search(words: str) -> list[CitedText]:
            return _passages(self._find(replace(request, query=words), MAX_SENTENCES, facts_suffice=False))

        def query(name: str, parameters: Mapping[str, Any]) -> list[CitedText]:
            if self._query is None:
                return []
            allowed = self._session.ask(lambda view: passing_documents(view, request))
            rows = (r for r in self._query(name, parameters).rows if r.citations)
            return [_row_text(name, r) for r in rows if allowed is None or r.citations[0].doc_id in allowed]

        yield from model_answers.write(chat, found.asked.question, given, Lookups(search, query))

    def _finished(
        self, request: SearchRequest, limit: int, found: _Found, made: Answer, notes: tuple[str, ...] = ()
    ) -> Answer:
        """With the lines of its citations and its id, recorded."""
        parameters = _parameters(request, limit)
        answer_id = replays.answer_id(self._namespace, found.version, request.query, parameters)
        self._replays.record(
            Recorded(
                answer_id=answer_id,
                question=request.query,
                version=found.version,
                parameters=parameters,
                candidates=replays.candidates(found.hits),
            )
        )
        citations = tuple(self._placed(c) for c in made.citations)
        closest = () if made.found or citations else tuple(self._placed(c) for c in _closest(found))
        return made.model_copy(
            update={
                "citations": citations,
                "closest": closest,
                "notes": (*made.notes, *found.notes, *notes),
                "drift": self._disputed(citations),
                "answer_id": answer_id,
            }
        )

    def _disputed(self, citations: Sequence[Citation]) -> tuple[str, ...]:
        """What other documents say against what is cited."""
        drifts = self._drifts
        if drifts is None or not citations:
            return ()
        cited = [(c.doc_id, c.start, c.end) for c in citations]
        touching = self._session.ask(lambda view: drifts.touching(view, cited))
        return tuple(dict.fromkeys(d.statement for d in touching))

    def _model(self, wanted: bool | None) -> ChatModel | None:
        if not (self._settings.chat_answers if wanted is None else wanted):
            return None
        chat = self._chat()
        if chat is None and wanted:
            raise TabootError(
                "E_CONFIG",
                "There is no chat model to answer.",
                remedy="Set TABOOT_LLM__URL or TABOOT_LLM__VLLM_MODEL, or ask without a model.",
                settings=["TABOOT_LLM__URL", "TABOOT_LLM__VLLM_MODEL"],
            )
        return chat

    def _placed(self, citation: Citation) -> Citation:
        """A citation with its line: out of the blob where a document that is not its file's text (HTML) has
        no lines of its own; with its section instead where the blob has none either.
        """
        if citation.line:
            return citation
        try:
            return self._session.ask(lambda view: self._placed_in(view, citation))
        except TabootError:
            # The citation stands without a line; `explain` says what is wrong with the blob.
            return citation

    def _placed_in(self, view: View, citation: Citation) -> Citation:
        line = self._evidence.line(view, citation.doc_id, citation.start, citation.end)
        section = "" if line else view.index.section_at(citation.doc_id, citation.start)
        return citation.model_copy(update={"line": line, "section": section})


def _open_chat(settings: Settings) -> ChatModel | None:
    from taboot_pipelines.inference.chat import open_chat

    return open_chat(settings)


def looked_for(asked: TextQuery) -> str:
    """What an answer must hold, in words; empty if the question names nothing."""
    about = ", ".join(t.text for t in asked.terms if t.weight >= 1 and t.text != "not")
    value = asked.value.value if asked.value is not None else "a statement"
    return f"{value} about {about}" if about else ""


def _nothing(found: _Found) -> Answer:
    wanted = looked_for(found.asked)
    titles = [r.document.title for r in found.reads] or [h.title for h in found.hits]
    looked = ", ".join(list(dict.fromkeys(t for t in titles if t))[:_NAMED])
    if not wanted:
        text = "The question names nothing that could be looked for."
    else:
        text = f"No document states {wanted}" + (f"; looked at {looked}." if looked else ".")
    return Answer(
        question=found.asked.question,
        found=False,
        text=text,
        citations=(),
        confidence=found.sure,
        kind="none",
        looked_for=wanted,
    )


def _closest(found: _Found) -> tuple[Citation, ...]:
    """What is shown where nothing is said."""
    nearest = reading.closest(found.reads, _CLOSEST)
    return tuple(_cite(number, part) for number, part in enumerate(nearest, 1))


def _of_model(found: _Found, texts: Sequence[str], citations: Sequence[Citation]) -> Answer:
    """The answer that a model's sentences make."""
    facts = found.facts if found.facts is not None and found.facts.found else None
    return Answer(
        question=found.asked.question,
        found=True,
        text=" ".join(texts),
        citations=tuple(citations),
        confidence=facts.confidence if facts is not None else found.sure,
        kind="model",
        looked_for=looked_for(found.asked),
    )


def _passages(found: _Found) -> list[CitedText]:
    """What a model reads of a search: the statement that comes nearest to the question, then the hits as they
    stand."""
    from taboot_pipelines.retrieval.answering.model_answers import CitedText

    nearest = [reading.alone(read) for read in found.reads[:1]]
    return [
        *(CitedText(part.text, _cite(0, part)) for part in nearest),
        *(
            CitedText(
                hit.text,
                Citation(
                    number=0,
                    text=hit.text,
                    doc_id=hit.doc_id,
                    chunk_id=hit.chunk_id,
                    url=hit.url,
                    title=hit.title,
                    line=hit.line,
                    start=hit.start,
                    end=hit.end,
                ),
            )
            for hit in found.hits
        ),
    ]


def _row_text(query: str, row: QueryRow) -> CitedText:
    """A row of a typed query as what a model reads, at its first citation."""
    from taboot_pipelines.retrieval.answering.model_answers import CitedText

    cited = row.citations[0]
    title = cited.url.rsplit("/", 1)[-1]
    citation = Citation(
        number=0,
        text=cited.text,
        doc_id=cited.doc_id,
        chunk_id=cited.chunk_id,
        url=cited.url,
        title=title,
        line=cited.line,
        start=cited.start,
        end=cited.end,
    )
    return CitedText(f"{query}: {row.text}\n{cited.text}", citation)


def _words_around(statement: TextStatement) -> set[str]:
    """The words of a statement, and of what stands over it."""
    parts = (statement.said, statement.lead, statement.section, *statement.keys)
    return set(WORDS.findall(" ".join(parts).lower()))


def _is_code(parts: Sequence[Excerpt]) -> bool:
    return any(s.form is Form.CODE for p in parts for s in p.document.statements[p.first : p.last + 1])


def _cite(number: int, part: Excerpt) -> Citation:
    document, (first, last) = part.document, part.span
    chunk_id, line = document.place(first)
    start = document.start + first
    said = document.text[first:last]
    # Lines of code say something by where they break and begin.
    code = _is_code([part])
    return Citation(
        number=number,
        text=said if code else " ".join(said.split()),
        doc_id=document.doc_id,
        chunk_id=chunk_id,
        url=document.url if document.places is None else document.places.url(document.url, start),
        title=document.title,
        line=line,
        start=start,
        end=document.start + last,
    )


def _parameters(request: SearchRequest, limit: int) -> dict[str, Any]:
    wanted = {
        name: sorted(value) if isinstance(value, (set, frozenset)) else str(value)
        for name, value in asdict(request.filter).items()
        if value is not None
    }
    return {"limit": limit, "mode": request.mode, "filter": wanted}


def _replayed(view: View, recorded: Recorded) -> Replay:
    if view.manifest.version != recorded.version:
        raise TabootError(
            "E_MANIFEST_GONE",
            f"The answer was made of version {recorded.version} of the knowledge base; version"
            f" {view.manifest.version} is in force.",
            answer=recorded.answer_id,
            version=recorded.version,
        )
    hits = []
    terms = terms_of(recorded.question)
    for candidate in recorded.candidates:
        doc_id, _, number = candidate.chunk_id.rpartition(":")
        row = view.index.row_of(doc_id, int(number))
        if row is None:
            continue
        hit = make_hit(view, RankedRow(row, candidate.score, candidate.scores, {}), None, terms)
        if replays.text_hash(hit.text) == candidate.sha256:
            hits.append(hit)
    return Replay(
        answer_id=recorded.answer_id,
        question=recorded.question,
        version=recorded.version,
        parameters=recorded.parameters,
        hits=tuple(hits),
    )
