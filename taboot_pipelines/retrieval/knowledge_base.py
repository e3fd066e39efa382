"""``KnowledgeBase``: one namespace, searched, asked, explained and changed.

A thin door: the work is done by the modules that it opens. The package's page says which does what.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from taboot_pipelines import telemetry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.retrieval.pages import Pages
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.request import (
    MAX_SENTENCES,
    PASSAGES,
    Mode,
    SearchOptions,
    SearchRequest,
    check_limit,
    check_texts,
    checked_texts,
    read_request,
)
from taboot_pipelines.retrieval.search import Search
from taboot_pipelines.retrieval.session import Session
from taboot_pipelines.settings import Settings, load_settings
from taboot_pipelines.shards import settings_of_copy

if TYPE_CHECKING:
    import pyarrow as pa

    from taboot_pipelines.embedding.protocol import Embedder
    from taboot_pipelines.inference.chat.protocol import ChatModel
    from taboot_pipelines.inference.rerank.protocol import Reranker
    from taboot_pipelines.model.records import NodeRef
    from taboot_pipelines.retrieval.alerts import Alerts
    from taboot_pipelines.retrieval.answers import Answers
    from taboot_pipelines.retrieval.conversation import Conversation
    from taboot_pipelines.retrieval.crawls import CrawlList, Crawls, CrawlView
    from taboot_pipelines.retrieval.decisions import DecisionRecorder
    from taboot_pipelines.retrieval.drift.report import Drifts
    from taboot_pipelines.retrieval.evidence import Blobs, Evidence, Originals
    from taboot_pipelines.retrieval.explanations import Explanations
    from taboot_pipelines.retrieval.export import Exported
    from taboot_pipelines.retrieval.filters import FilterOptions, Moment
    from taboot_pipelines.retrieval.handbook.site import Made
    from taboot_pipelines.retrieval.interpretations import Interpretations
    from taboot_pipelines.retrieval.neighborhoods import Neighborhoods
    from taboot_pipelines.retrieval.pictures.picture import Picture
    from taboot_pipelines.retrieval.results.alerts import AlertGuide
    from taboot_pipelines.retrieval.results.answers import Answer, Replay
    from taboot_pipelines.retrieval.results.changes import DocumentChanges
    from taboot_pipelines.retrieval.results.decisions import (
        AssertionList,
        Decided,
        EntitySupports,
        Stated,
    )
    from taboot_pipelines.retrieval.results.documents import CollectionView, DocumentView
    from taboot_pipelines.retrieval.results.drift import DriftReport
    from taboot_pipelines.retrieval.results.evaluations import Evaluation, Feedback
    from taboot_pipelines.retrieval.results.explanations import Explanation, Original
    from taboot_pipelines.retrieval.results.graph import DocumentLinks, Edge, GraphPath, Node, Subgraph
    from taboot_pipelines.retrieval.results.hits import Hit, SearchResult
    from taboot_pipelines.retrieval.results.impact import Impact
    from taboot_pipelines.retrieval.results.inspection import Comparison, WhyNot
    from taboot_pipelines.retrieval.results.queries import QueryList, QueryResult
    from taboot_pipelines.retrieval.results.rules import RuleReport
    from taboot_pipelines.retrieval.results.runs import RunDiff, RunFacts, RunList
    from taboot_pipelines.retrieval.search import CacheKind, CacheStats
    from taboot_pipelines.retrieval.states import SourceStates
    from taboot_pipelines.retrieval.writing import Writing
    from taboot_pipelines.shards.manifest import Manifest
    from taboot_pipelines.shards.protocol import Kept
    from taboot_pipelines.stages.deletion import Receipt, Restored
    from taboot_pipelines.stages.reindexing import Reindexed
    from taboot_pipelines.stages.reinterpretation import Promoted, Reinterpreted, RolledBack
    from taboot_pipelines.stages.uploads import Uploaded

#: Earlier publications that stay open.
_MAX_EARLIER = 4
#: Edges of a neighbourhood that a picture chooses from; it says so where there are more.
_TO_CHOOSE_FROM = 2000


P = ParamSpec("P")
R = TypeVar("R")


def _changes(
    method: Callable[Concatenate[KnowledgeBase, P], R],
) -> Callable[Concatenate[KnowledgeBase, P], R]:
    """Let a method that changes something raise ``E_READ_ONLY`` where nothing may be changed."""

    @wraps(method)
    def call(self: KnowledgeBase, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.read_only:
            raise TabootError(
                "E_READ_ONLY", f"The knowledge base is open for reading only; {method.__name__} changes it."
            )
        return method(self, *args, **kwargs)

    return call


class KnowledgeBase:
    """The knowledge of one namespace.

    Every call looks for a newly published manifest first and keeps to that one to its end; if a file of it
    goes away meanwhile, the call is made once more on the next. Safe to use from several threads.
    """

    def __init__(
        self,
        settings: Settings,
        namespace: str,
        *,
        embedder: Embedder | None = None,
        blobs: Blobs | None = None,
        reranker: Reranker | None = None,
        chat: ChatModel | None = None,
        read_only: bool = False,
        publication: Kept | None = None,
    ) -> None:
        self.namespace = check_namespace(namespace)
        if read_only:
            settings = settings.model_copy(update={"read_only": True})
        self._settings = settings = settings_of_copy(settings.home, namespace, settings) or settings
        self._session = Session(settings, namespace, publication)
        #: When what :meth:`as_of` a date shows was published; None: what is published now is shown.
        self.held_at = None if publication is None else publication.made_at
        self._parts: dict[str, Any] = {
            "embedder": embedder,
            "blobs": blobs,
            "reranker": reranker,
            "chat": chat,
        }
        self._earlier: OrderedDict[Kept, KnowledgeBase] = OrderedDict()
        query_vectors = self._query_vectors = QueryVectors(settings, namespace, embedder)
        self._pages = Pages(settings, namespace, self._session, query_vectors, reranker)
        # What was passed in cannot be named to other processes, so results that it made stay in this one.
        own_parts = reranker is not None or query_vectors.given
        self._search = Search(settings, namespace, self._session, self._pages, shared=not own_parts)
        # A search waits for none of the modules that answer another question.
        evidence = self._evidence = Lazy(lambda: _open_evidence(settings, namespace, blobs))
        self._answers = Lazy(
            lambda: _open_answers(
                settings,
                namespace,
                self._session,
                self._search,
                evidence(),
                chat,
                query_vectors,
                self._drifts(),
                lambda name, parameters: self.query(name, **parameters),
            )
        )
        self._neighborhoods = Lazy(lambda: _open_neighborhoods(settings, namespace, self._session))
        self._explanations = Lazy(lambda: _open_explanations(self._session, evidence()))
        self._originals = Lazy(lambda: _open_originals(self._session, evidence()))
        self._drifts = Lazy(lambda: _open_drifts(settings))
        self._alerts = Lazy(lambda: _open_alerts(self))
        self._crawls = Lazy(lambda: _open_crawls(settings, namespace))
        self._interpretations = Lazy(lambda: _open_interpretations(settings, namespace, query_vectors))

    @classmethod
    def open(
        cls,
        home: str | Path | None = None,
        namespace: str | None = None,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        blobs: Blobs | None = None,
        reranker: Reranker | None = None,
        chat: ChatModel | None = None,
        read_only: bool = False,
    ) -> KnowledgeBase:
        """Open the knowledge base under ``home`` (default: ``TABOOT_HOME``), or the copy of one
        (:meth:`export`) in a folder, at the URL of an object store (``s3://…``) or of a web server
        (``https://…``): that is read only, and needs nothing but the package.

        ``embedder``, ``blobs``, ``reranker`` and ``chat`` default to what the settings name and are opened
        when first needed. ``read_only``, and with it ``TABOOT_READ_ONLY``: nothing is written to the home,
        the catalog or Redis, no lease is taken and nothing migrated, so that a home that cannot be written
        and a role that may only read (``taboot_reader``) will do; what changes something raises
        ``E_READ_ONLY``, and no record of an answer is kept (:meth:`replay`). Raises ``E_KB_UNINITIALIZED`` if
        nothing was published for the namespace yet.
        """
        settings = settings or load_settings()
        namespace = settings.namespace if namespace is None else namespace
        if home is not None:
            copy = settings_of_copy(home, check_namespace(namespace), settings)
            settings = copy or settings.model_copy(update={"home": Path(home)})
        kb = cls(
            settings,
            namespace,
            embedder=embedder,
            blobs=blobs,
            reranker=reranker,
            chat=chat,
            read_only=read_only,
        )
        kb._session.view()
        return kb

    def __repr__(self) -> str:
        return (
            f"KnowledgeBase({str(self.settings.shard_url or self.settings.home_dir)!r}, {self.namespace!r})"
        )

    @property
    def settings(self) -> Settings:
        """The settings that it was opened with."""
        return self._settings

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading only."""
        return self._settings.read_only

    @property
    def manifest(self) -> Manifest:
        """What is published now."""
        return self._session.view().manifest

    def as_of(self, date: Moment) -> KnowledgeBase:
        """The knowledge base as it was published on ``date`` (a moment, a day, which counts to its end, or
        either as ISO 8601): the newest kept publication not after it, open for reading only.

        It searches, answers and walks the graph; sources and proofs are those of now. Raises
        ``E_MANIFEST_GONE`` naming the oldest kept publication if none is, ``E_QUERY`` for what is no date.
        """
        from taboot_pipelines.retrieval.filters import moment_of

        publication = self._session.publication(moment_of("as_of", date, end=True))
        found = self._earlier.pop(publication, None)
        if found is None:
            # Servers hold what is published now.
            own = self._settings
            settings = own.model_copy(
                update={
                    "qdrant": own.qdrant.model_copy(update={"url": None}),
                    "neo4j": own.neo4j.model_copy(update={"url": None}),
                }
            )
            found = KnowledgeBase(
                settings, self.namespace, **self._parts, read_only=True, publication=publication
            )
        self._earlier[publication] = found
        while len(self._earlier) > _MAX_EARLIER:
            self._earlier.popitem(last=False)
        return found

    def verify(self) -> None:
        """Hash every file of the shards; ``E_SHARD_CORRUPT`` or ``E_SHARD_MISSING`` names the first that is
        not as published.
        """
        self._session.verify()

    # --- questions ------------------------------------------------------------------------------------------

    def search(self, query: str, limit: int = 10, **options: Unpack[SearchOptions]) -> SearchResult:
        """The chunks that fit ``query`` best, each distinct text once: a page of at most ``limit``.

        ``query``: blanks and control characters are made single blanks, the rest is composed (NFC), and the
        first 1,000 characters are searched. An embedder that reads less reads a beginning of it.

        *Filters*, each one value or several, of which a hit must have one: ``source``, ``type``, ``tag``,
        ``language``, ``domain`` (host of a web page), ``collection`` (a saved filter of :meth:`collections`,
        else a source's id or a tag; ``E_QUERY`` for any other name),
        ``content_type`` (``prose``, ``code``, ``table``, ``list``), ``path_prefix`` (how the document's path
        in its source begins). ``date_from`` and ``date_to`` (inclusive days, or moments up to but excluding
        the second): the document's own date, else when its bytes were first seen.

        *Ranking*: ``mode``: both arms joined (``hybrid``), one of them, ``graph`` (follows links and
        statements from what the query names; ``E_NO_GRAPH`` where there are none) or ``adaptive`` (that where
        it names something, else both arms; then a second hop from the first hits). ``score`` is the fused
        score, the cosine or BM25; ties go to the smaller (doc_id, chunk_index). ``fusion``: ``auto``, ``rrf``
        (reciprocal ranks with the constant ``rrf_k``) or ``convex`` (scores). ``weights`` (``{"vector": …,
        "keyword": …}``, or ``vector_weight`` and ``keyword_weight``) default to the settings; a query that
        names something (``bm25.names_something``) raises that of the words. ``min_score``: what scores less
        is no hit. ``dedupe``: of texts that are nearly the same only the best is one, the others are in
        ``similar``. ``rerank``: order the best ``rerank_top_n`` (``TABOOT_RERANKER__CANDIDATES``) hits anew
        by a cross-encoder, whose score is ``scores["rerank"]``; None does so if one is configured and
        answers, True raises its error (``E_CONFIG`` if there is none). ``exact``: prove that no chunk is
        nearer than those that are named. Without, from 30,000 chunks on, codes of the vectors name those that
        are compared, which miss one only by an error of five standard deviations, and where Qdrant is asked
        (from ``TABOOT_QDRANT__SEARCH_FROM_CHUNKS`` on) it follows its graph.

        *What is shown*: ``expand``: so many neighbours of the document before and after each hit, in its
        ``context``. ``cursor``: the ``next_cursor`` of the page before, with the same query and arguments;
        all pages are of the publication that the first one saw. ``cache``: whether an equal search of the
        last hour may answer.

        Raises ``E_QUERY`` naming the argument, ``E_CURSOR`` for a cursor that cannot be followed,
        ``E_CONFIG`` in the mode ``vector`` if the embedder's space is not that of the knowledge base.
        """
        with telemetry.span("search", namespace=self.namespace) as span:
            found = self._search.search(self._request(query, limit, options))
            span.set(hits=len(found))
        return found

    def compare(self, query: str, limit: int = 10, **options: Unpack[SearchOptions]) -> Comparison:
        """What each mode finds for ``query``, side by side; the options of :meth:`search` but ``mode`` and
        ``cursor``. A mode that cannot answer says why in ``notes``.
        """
        from taboot_pipelines.retrieval import why_not

        return why_not.compare(self._search, lambda mode: self._request(query, limit, options, mode))

    def why_not(self, document: str, query: str, limit: int = 10, **options: Unpack[SearchOptions]) -> WhyNot:
        """Why ``document`` is not among the hits of a search: at which step, arm, rank, score or filter each
        of its chunks fell out; where they did not, their rank.

        ``document``: a doc_id, a chunk_id, a URL, or a path in its source. The options are those of
        :meth:`search` but ``cursor``. Raises ``E_NOT_FOUND`` naming the nearest if nothing is called that.
        """
        from taboot_pipelines.retrieval.why_not import WhyNotFound

        found = WhyNotFound(self._session, self._pages)
        return found.why_not(document, self._request(query, limit, options))

    def cache_stats(self) -> tuple[CacheStats, ...]:
        """What the caches of results and of query embeddings hold. Raises ``E_REDIS``."""
        from taboot_pipelines.retrieval import search

        return search.stats(self._search, self._query_vectors)

    def clear_cache(self, kind: CacheKind | None = None, domain: str | None = None) -> dict[str, int]:
        """Drop what is cached of one ``kind``, or of both; with a ``domain`` (host) the results that show a
        page of it. Returns how many entries went, by kind. Other processes keep what is in them alone, and
        where it is read-only, so does Redis. Raises ``E_QUERY`` naming a wrong argument, ``E_REDIS``.
        """
        from taboot_pipelines.retrieval import search

        return search.clear(self._search, self._query_vectors, kind, domain)

    def answer(
        self,
        question: str,
        limit: int = 5,
        *,
        model: bool | None = None,
        **options: Unpack[SearchOptions],
    ) -> Answer:
        """What answers ``question``, at most ``limit`` sentences, each with its citation; filters and ranking
        as in :meth:`search`.

        Facts of the graph come first, then what documents state about the thing asked, if it carries the kind
        of value asked for; where neither does, ``found`` is False and ``text`` says what was looked for.
        ``model``: let the chat model answer, which may search and ask typed queries, and every sentence of
        which is checked against what it cites; where none holds, the answer without it is given. None: where
        one is configured, unless ``TABOOT_RETRIEVAL__CHAT_ANSWERS`` says no; if it fails then, a note says
        so. Raises ``E_QUERY`` naming the argument; with ``model=True`` also ``E_CONFIG`` if there is none,
        and what its server raises.
        """
        with telemetry.span("answer", namespace=self.namespace) as span:
            check_limit(limit, MAX_SENTENCES)
            request = self._request(question, PASSAGES, options)
            found = self._answers().answer(request, limit, _truth("model", model))
            span.set(found=found.found)
        return found

    def answer_stream(
        self,
        question: str,
        limit: int = 5,
        *,
        model: bool | None = None,
        **options: Unpack[SearchOptions],
    ) -> Generator[str, None, Answer]:
        """The text of :meth:`answer` in pieces: each sentence of a model is released when it is checked. It
        returns the answer as a whole. Options and errors as there.
        """
        check_limit(limit, MAX_SENTENCES)
        request = self._request(question, PASSAGES, options)
        pieces = self._answers().stream(request, limit, _truth("model", model))
        return telemetry.streamed(pieces, "answer", namespace=self.namespace)

    def conversation(
        self, limit: int = 5, *, model: bool | None = None, **options: Unpack[SearchOptions]
    ) -> Conversation:
        """A conversation, whose ``ask`` answers questions that may lean on those before ("and its memory
        limit?", "what about redis?"); each answer names the full question that was asked. The arguments hold
        for all of its questions and are those of :meth:`answer`.
        """
        from taboot_pipelines.retrieval.answering.fact_answers import names_in
        from taboot_pipelines.retrieval.conversation import Conversation

        check_limit(limit, MAX_SENTENCES)
        return Conversation(
            lambda question: self.answer(question, limit, model=model, **options),
            lambda text: self._session.ask(lambda view: names_in(view, text, weak=True)),
        )

    def queries(self) -> QueryList:
        """The typed queries that :meth:`query` runs: their parameters, their columns, and questions that they
        answer."""
        from taboot_pipelines.retrieval.answering.question_types import wordings
        from taboot_pipelines.retrieval.queries.run import described

        return described(wordings)

    def query(self, name: str, /, limit: int = 1000, **parameters: str | int | bool | None) -> QueryResult:
        """What the graph and the configuration files say to one typed query, such as
        ``kb.query("dependents", service="db", project="media")``: rows with named columns and citations, what
        was looked through, and whether there is provably no other row.

        ``name`` and ``parameters``: as :meth:`queries` lists them; ``project`` and ``host`` narrow where a
        name means several services. At most ``limit`` rows (up to 100,000). Raises ``E_QUERY`` naming the
        argument, ``E_NOT_FOUND`` with the nearest name where nothing is called so.
        """
        from taboot_pipelines.retrieval.queries import run
        from taboot_pipelines.retrieval.queries.house import House

        query, drifts = run.named(name), self._drifts()
        return self._session.ask(lambda view: run.run(House(view, drifts.by_edges), query, parameters, limit))

    def impact(
        self,
        thing: str,
        *,
        kind: str | None = None,
        project: str | None = None,
        transitive: bool = True,
    ) -> Impact:
        """What is affected if ``thing`` is stopped, changed or taken away, each with its proof: what needs
        it, connects to it, is reached through it, asks it for the login, only starts after it, and shares its
        host, a network, a volume or its image; and what cannot be known of that.

        ``thing``: a service (of a ``project``), else a network, a host, a proxy, an image, a volume or a
        project (a namespace), of which all that is on it counts; ``kind`` says which of these. With
        ``transitive`` also what is affected through others. Raises ``E_NOT_FOUND`` with the nearest name,
        ``E_QUERY``.
        """
        from taboot_pipelines.retrieval.impact import impact
        from taboot_pipelines.retrieval.queries.house import House

        check_texts(required=True, thing=thing)
        check_texts(kind=kind, project=project)
        drifts = self._drifts()
        return self._session.ask(
            lambda view: impact(House(view, drifts.of), thing, kind, project, transitive)
        )

    def evaluate(
        self,
        questions: Path | str | Iterable[Mapping[str, Any]] | None = None,
        **options: Unpack[SearchOptions],
    ) -> Evaluation:
        """Ask questions whose answers are known, and count what is answered rightly, wrongly and not at all.

        ``questions``: a file of JSON lines, or objects with its fields: ``retrieval.evaluation`` says which;
        by default those of :meth:`feedbacks` that say what is right. Filters and ranking as in
        :meth:`search`. Raises ``E_PATH``, ``E_ENCODING``, ``E_PARSE`` with the number of the question, and
        what :meth:`answer` raises.
        """
        from taboot_pipelines.retrieval import evaluation

        if questions is None:
            places = dict(zip(*self.documents().select(["doc_id", "url"]).to_pydict().values(), strict=True))
            questions = evaluation.of_feedback(self.feedbacks(), places)
        read = evaluation.read_questions(questions)
        return evaluation.evaluate(read, lambda question: self.answer(question, **options))

    @_changes
    def feedback(
        self,
        question: str,
        verdict: str | None,
        *,
        must: Collection[str] = (),
        note: str = "",
        who: str | None = None,
    ) -> None:
        """Keep what you think of the answer to a question, in place of what was thought of it before.

        ``verdict``: ``right``, which keeps the documents that the answer cites now; ``wrong``; ``none`` where
        nothing here says it; None takes back what was thought. ``must``: regular expressions that a right
        answer matches. Raises ``E_QUERY`` for anything else, ``E_NOT_FOUND`` where there is nothing to take
        back or no answer to be right.
        """
        from taboot_pipelines.retrieval import evaluation

        check_texts(required=True, question=question)
        check_texts(note=note, who=who)
        patterns = checked_texts(must=must)
        if verdict is None:
            if not self._writing().withdraw_feedback(question):
                raise TabootError("E_NOT_FOUND", "Nothing is kept of this question.")
            return
        opinion = evaluation.opinion(question, verdict, patterns, note, who, self.answer)
        self._writing().keep_feedback(opinion)

    def feedbacks(self) -> tuple[Feedback, ...]:
        """What people think of answers, the oldest first."""
        return self._writing().feedback()

    def replay(self, answer_id: str) -> Replay:
        """The candidates that an answer (``Answer.answer_id``) was chosen from, with their scores.

        Of the last answers only ids, hashes and scores are kept; the texts are read from the knowledge base.
        One that is read-only keeps none of its own answers. Raises ``E_NOT_FOUND`` if there is no such
        record, ``E_MANIFEST_GONE`` if another manifest is in force by now.
        """
        if not isinstance(answer_id, str):
            raise TabootError("E_QUERY", "answer_id must be the answer_id of an answer.")
        check_texts(required=True, answer_id=answer_id)
        return self._answers().replay(answer_id)

    def neighbors(
        self,
        node: str | NodeRef,
        hops: int = 1,
        types: Collection[str] | str | None = None,
        limit: int = 100,
        *,
        label: str | None = None,
    ) -> Subgraph:
        """What surrounds a node: its edges in both directions, up to ``hops`` (1 or 2), of the given relation
        ``types``.

        ``node``: a key or a name, which mean every node that has it (of this ``label``), or a NodeRef. At
        most ``limit`` edges, nearest first, and of equally near ones mentions last.
        Raises ``E_NOT_FOUND`` if nothing is called that, ``E_QUERY`` naming a wrong argument.
        """
        check_texts(several=True, types=types)
        return self._neighborhoods().around(node, hops, types, limit, label)

    def show(
        self,
        node: str | NodeRef | None = None,
        hops: int = 1,
        types: Collection[str] | str | None = None,
        limit: int = 30,
    ) -> Picture:
        """A picture for a notebook: of what surrounds a node, with at most ``limit`` relations (up to 200);
        or, without a node, of the kinds of things that are known and of their relations, counted.

        The other arguments as in :meth:`neighbors`, and it raises the same.
        """
        if node is None:
            if types is not None or hops != 1:
                raise TabootError("E_QUERY", "hops and types are of a node; name one.")
            from taboot_pipelines.retrieval import tables
            from taboot_pipelines.retrieval.tables import overview

            return self._session.ask(lambda view: overview(tables.nodes(view), tables.edges(view)))
        return self.neighbors(node, hops, types, _TO_CHOOSE_FROM).show(limit)

    def path(self, start: str | NodeRef, end: str | NodeRef, max_hops: int = 8) -> GraphPath:
        """The shortest way through the graph between two nodes, whichever way its edges point; mentions are
        not followed. A service and the containers that it declares are one step apart.

        ``start``, ``end``: as ``node`` of :meth:`neighbors`, or a public name such as ``git.example.org``
        that a reverse proxy serves. ``max_hops``: how many edges the way may have at most. Returns its steps
        in order, each with the edge that it takes; where there is no such way, the path is empty.

        Raises ``E_NOT_FOUND`` if nothing is called as an end, ``E_QUERY`` naming a wrong argument.
        """
        from taboot_pipelines.retrieval.paths import find_path

        return self._session.ask(lambda view: find_path(view, start, end, max_hops))

    def links(self, document: str, limit: int = 1000) -> DocumentLinks:
        """What a document links to, what links to it, and which of its links lead to no document of the
        knowledge base: hyperlinks, and titles of documents that stand in the text of others.

        ``document``: a doc_id, a URL, or a path in its source; ``limit``: how many of each of the three are
        returned at most. Raises ``E_NOT_FOUND`` if there is no such document, ``E_QUERY`` naming a wrong
        argument.
        """
        check_texts(required=True, document=document)
        from taboot_pipelines.retrieval.links import document_links

        return self._session.ask(lambda view: document_links(view.links, view.shown_url, document, limit))

    def explain(self, what: str | Hit | Edge | Mapping[str, Any]) -> Explanation:
        """Read the evidence of an edge or a hit again, and show it.

        ``what``: an edge_id, a chunk_id, a :class:`Hit`, an :class:`Edge`, or a row of ``edges()``. The
        blob's hash is verified (``E_BLOB_CORRUPT``, ``E_BLOB_MISSING``), the statement quoted with file and
        line, secrets masked; a name that should stand in the quote and does not is ``E_EVIDENCE``.
        ``E_EDGE_UNKNOWN`` if there is no such edge or hit.
        """
        check_texts(what=what if isinstance(what, str) else None)
        return self._explanations().explain(what)

    def original(
        self,
        doc_id: str,
        spans: Sequence[tuple[int, int]] = (),
        byte_spans: Sequence[tuple[int, int]] = (),
    ) -> Original:
        """A document beside the bytes that it was read from, secrets masked.

        Places are marked in it: ``spans`` in code points of the document, such as those of a hit or a
        citation, ``byte_spans`` in bytes of its blob, such as those of a quote. Raises ``E_NOT_FOUND`` if
        there is no such document, ``E_QUERY`` naming a wrong argument.
        """
        check_texts(required=True, doc_id=doc_id)
        return self._originals().original(doc_id, spans, byte_spans)

    def drift(self, kinds: Collection[str] | str | None = None, limit: int = 1000) -> DriftReport:
        """What two statements say that cannot both be so, each with its evidence: the surest kinds first, and
        last what texts of a day (mails, chats, reports) say, which nobody corrects.

        ``kinds``: of ``knowledge.drift.DriftKind``; None: all. Raises ``E_QUERY`` naming a wrong argument.
        """
        check_texts(several=True, kinds=kinds)
        return self._drifts().report(self._session, kinds, limit, self._explanations())

    def rules(self, rule: str | None = None, project: str | None = None, limit: int = 1000) -> RuleReport:
        """Where the declarations of the house ask for trouble, the worst first, each with its citations:
        what every rule of ``retrieval.rules.catalog`` finds, or one, or of one project; at most ``limit``.

        What the section ``rules`` of the sources file (``TABOOT_SOURCES``, read now) or a comment
        ``taboot: allow RULE because REASON`` beside a declaration silences does not count, and is listed
        apart. Raises ``E_QUERY`` naming a wrong argument, ``E_NOT_FOUND`` for an unknown project,
        ``E_SOURCES`` for a sources file that cannot be read.
        """
        from taboot_pipelines.retrieval.queries.house import House
        from taboot_pipelines.retrieval.rules import run
        from taboot_pipelines.sources.sources_file import load_sources

        file = self.settings.sources_file
        said, drifts = load_sources(file).rules if file.is_file() else {}, self._drifts()
        return self._session.ask(
            lambda view: run.run(House(view, drifts.by_edges), rule, project, limit, said)
        )

    def _request(
        self, query: str, limit: int, options: SearchOptions, mode: Mode | None = None
    ) -> SearchRequest:
        given: dict[str, object] = {**options, **({} if mode is None else {"mode": mode, "cursor": None})}
        return read_request(query, limit, defaults=self.settings.retrieval, **given)

    # --- all of it ------------------------------------------------------------------------------------------

    def nodes(self) -> pa.Table:
        """The whole graph's nodes, documents included: one row a node, ascending by label and key.

        Columns: label, key (text made of the key's parts), name, scope (null where the label has none),
        properties (JSON), doc_ids (the documents that state it, ascending), first_seen and last_seen (UTC).
        """
        from taboot_pipelines.retrieval import tables

        return self._session.ask(tables.nodes)

    def edges(self) -> pa.Table:
        """The whole graph's edges: one row an edge and supporting document, ascending by edge_id.

        Columns: edge_id, type, label, key and name of either end (``start_…``, ``end_…``), properties (JSON),
        the document (doc_id, url as stored), confidence (0 to 1), source, extraction_method, since (UTC),
        run_id, and where it stands: blob_sha256, byte_start and byte_end (in the blob), line (from 1),
        start_basis, end_basis, supports (JSON list of blob and span).
        """
        from taboot_pipelines.retrieval import tables

        return self._session.ask(tables.edges)

    def documents(
        self, *, after: str | None = None, limit: int | None = None, **filters: Unpack[FilterOptions]
    ) -> pa.Table:
        """One row a document: doc_id, source, type, tags, url (as shown), path, title, mime, language, date,
        since, expires_at (null: kept for good), chunks, blob_sha256, metadata (JSON); ascending by doc_id.

        ``filters``: those of :meth:`search` that speak of documents, which is all but ``content_type``.
        ``limit``: at most so many; ``after``: only those that follow this doc_id, such as the last of the
        page before, whatever came or went meanwhile. Raises ``E_QUERY`` naming a wrong argument.
        """
        check_texts(after=after)
        if limit is not None:
            check_limit(limit, 1_000_000)
        if "content_type" in filters:
            raise TabootError("E_QUERY", "content_type is of chunks: documents have a mime.")
        from taboot_pipelines.retrieval.documents import documents
        from taboot_pipelines.retrieval.filters import read_filter

        wanted = read_filter(**filters)
        return self._session.ask(lambda view: documents(view, wanted, after, limit))

    def export(self, where: str | Path, *, single: bool = False, replace: bool = False) -> Exported:
        """Copy all that is published to a folder or the URL of an object store, from which :meth:`open` opens
        it with nothing else; or, ``single``, write it to one DuckDB file.

        Of a copy that is there (``replace``) only what is new is written. The file has the tables documents,
        chunks (with text and vectors), nodes, edges and about. Raises ``E_CONFLICT`` where there is one
        already that is not to be replaced, ``E_CONFIG`` for an unusable URL, ``E_STORAGE``.
        """
        from taboot_pipelines.retrieval.export import export_copy, export_file

        if single:
            return self._session.ask(lambda view: export_file(view, Path(where), replace=replace))
        return self._session.ask(
            lambda view: export_copy(self._session.store, view, where, self._settings, replace=replace)
        )

    def handbook(self, path: str | Path) -> Made:
        """Write the handbook of the house to the folder ``path``: pages in Markdown and HTML of all services,
        hosts, networks and runbooks, every statement with the file and line where it stands.

        One publication makes the same bytes every time. A handbook that is there is replaced as a whole, and
        until the new one is whole it stays. Raises ``E_CONFLICT`` where the folder holds anything else,
        ``E_STORAGE``.
        """
        from taboot_pipelines.retrieval.handbook.making import make

        return make(self._session, self._drifts(), self._evidence(), Path(path))

    def collections(self) -> tuple[CollectionView, ...]:
        """The saved filters of the sources file that searches take as ``collection``, by name: what each is
        for, its filters, and how many documents pass them. They are as the last ingest published them.
        """
        from taboot_pipelines.retrieval.documents import collections

        return self._session.ask(collections)

    def document(self, name: str) -> DocumentView:
        """One document: what is known of it, its text, its chunks, and the versions that it had.

        ``name``: a doc_id or the beginning of one, a chunk_id, a URL, or a path in its source. Raises
        ``E_NOT_FOUND`` if there is no such document, ``E_QUERY`` for a path of several.
        """
        check_texts(required=True, name=name)
        from taboot_pipelines.retrieval.documents import document

        return self._session.ask(lambda view: document(view, self._settings, self.namespace, name))

    def changes(
        self, since: Moment, *, source: str | None = None, shell: bool = False, limit: int = 1000
    ) -> DocumentChanges:
        """What changed since ``since`` (a moment, a day, either as ISO 8601, ``7d`` for a time ago, or the
        ``run_id`` of an interpretation): documents that are new, gone, or changed, with the passages that
        differ; with ``shell`` also those whose bytes are others and which say the same, as pages do whose
        frame changed; and the things, facts and routes that the graph has otherwise than the publication of
        that time, with the git commit where there is one.

        At most ``limit`` of either. It reads the bytes of both times, so it needs the home. Raises
        ``E_QUERY`` naming a wrong argument, ``E_SOURCE_UNKNOWN``, ``E_NOT_FOUND`` for a run.
        """
        from taboot_pipelines.retrieval.changes import changes

        check_texts(source=source)
        check_limit(limit, 100_000)
        began = lambda run: self.run(run, 1).run.started_at  # noqa: E731
        return changes(began, self._session, self._writing(), since, source, shell, limit)

    def for_alert(
        self, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
    ) -> AlertGuide:
        """Where to begin with an alert of Prometheus: the documents to read, the first first (the one that
        its runbook link leads to, the one called as it is, then those whose text fits), the things that its
        labels mean, what fails without the first of them, and what of all that changed last week.

        ``labels``: ``alertname`` and such as ``job``, ``container``, ``pod``, ``instance``; ``annotations``:
        ``runbook_url``, ``summary``, ``description``. Raises ``E_QUERY`` where there is neither.
        """
        return self._alerts().guide(labels, annotations or {})

    def sources(self) -> SourceStates:
        """The sources: what is published of each, its last job, and the dead letters, as the catalog has them
        now. Where it cannot be asked, ``note`` says so.
        """
        from taboot_pipelines.retrieval.states import source_states

        return source_states(self._settings, self.namespace, self._session)

    def crawls(self, source: str | None = None) -> CrawlList:
        """The crawls of the namespace, or of one source, newest first: the ROOT of each, with the sums of its
        ledger. They stay with the home that crawled; ``E_KB_UNINITIALIZED`` where there is only a copy of the
        shards.
        """
        check_texts(source=source)
        return self._crawls().all(source)

    def crawl(self, name: str) -> CrawlView:
        """One crawl, by its id, by the beginning of it, or by its source, which means the last one: its URLs,
        its links (``leads``), those that lead to nothing (``broken``), its ledger, and in a notebook a
        picture. Raises ``E_NOT_FOUND``.
        """
        check_texts(required=True, name=name)
        return self._crawls().one(name)

    # --- changing it ----------------------------------------------------------------------------------------

    @_changes
    def delete(self, doc_ids: Collection[str], erase: bool = False) -> Receipt:
        """Delete documents for good: connectors pass them by until :meth:`restore`.

        ``doc_ids``: of the documents; ``erase``: let no byte of them stay in the files of the home either.
        Returns a receipt that names each store as done or pending. Raises ``E_NOT_FOUND`` if an id belongs to
        no document (nothing is deleted then), ``E_QUERY`` for what is no id, ``E_BUSY`` while another process
        writes.
        """
        return self._writing().delete(checked_texts(doc_ids=doc_ids), erase)

    @_changes
    def restore(self, doc_ids: Collection[str]) -> Restored:
        """Bring deleted documents back; erased ones come back when their source is ingested. Raises
        ``E_NOT_FOUND``, ``E_BUSY``.
        """
        return self._writing().restore(checked_texts(doc_ids=doc_ids))

    @_changes
    def upload(
        self,
        *documents: str | Path | bytes,
        name: str | None = None,
        tags: Collection[str] = (),
        allow_cidrs: Collection[str] = (),
        render: bool = False,
    ) -> tuple[Uploaded, ...]:
        """Take in documents beside the sources file: files, folders, pages by their URL, or bytes. They are
        searchable when this returns, and stay until they are deleted.

        ``name``: what one document is called in the source ``uploads``, such as ``manuals/router.pdf``;
        bytes need one. What is uploaded under a name again replaces what it had. ``tags``: what each gets.
        ``allow_cidrs``, ``render``: of a page, as for sources of type ``web``. Returns what became of each:
        ``new``, ``replaced``, ``unchanged``, or ``failed`` with a code and a reason.

        Raises ``E_PATH``, ``E_UNREADABLE``, ``E_TOO_LARGE``, ``E_EMPTY`` and ``E_QUERY`` before anything of
        the part that is stored together (50 documents) is stored; what a page cannot be fetched for; and what
        an ingest fails with, where the next one takes in what is stored.
        """
        check_texts(name=name)
        allowed, given = checked_texts(allow_cidrs=allow_cidrs), checked_texts(tags=tags)
        for what in documents:
            if not isinstance(what, (str, Path, bytes)):
                raise TabootError("E_QUERY", "A document is a path, a URL or bytes.")
        if name is not None and len(documents) != 1:
            raise TabootError("E_QUERY", "A name is for one document.")
        return self._writing().upload(documents, name, given, allowed, render)

    @_changes
    def tag(self, doc_ids: Collection[str], add: Collection[str] = (), remove: Collection[str] = ()) -> None:
        """Give documents tags, or take them away. Searches, :meth:`documents` and hits know them at once,
        like the tags of sources, and a document keeps them when its bytes change.

        Raises ``E_NOT_FOUND`` if an id belongs to no document, ``E_QUERY`` for what can be no tag.
        """
        new, gone = checked_texts(add=add), checked_texts(remove=remove)
        self._writing().tag(checked_texts(doc_ids=doc_ids), new, gone)

    @_changes
    def reindex(
        self, documents: str | Collection[str] = (), *, source: str | None = None
    ) -> tuple[Reindexed, ...]:
        """Derive documents, or all of a source, anew from their stored bytes: parsed, cut, embedded where a
        vector lacks, interpreted and published. Nothing is fetched; recorded answers of a model hold.

        ``documents``: named as for :meth:`document`. Where nothing was wrong nothing is another than before.
        Returns what became of each: ``unchanged``, ``changed``, ``restored`` (some of it was lost), or
        ``failed`` with a code and a reason. Raises ``E_NOT_FOUND`` naming the nearest, ``E_SOURCE_UNKNOWN``,
        ``E_BLOB_MISSING``, ``E_BLOB_CORRUPT``, ``E_BUSY``; nothing is changed then.
        """
        check_texts(source=source)
        names = checked_texts(documents=documents)
        if not names and source is None:
            raise TabootError("E_QUERY", "Name documents, or a source.")
        return self._writing().reindex(names, source)

    @_changes
    def retain(self, doc_ids: Collection[str], days: int | None) -> None:
        """Keep documents for ``days`` after their bytes came, or for good (None), whatever ``retention_days``
        of their source says. Hits and :meth:`documents` say when they expire (``expires_at``).

        Raises ``E_NOT_FOUND`` if an id belongs to no document, ``E_QUERY`` for a wrong number of days.
        """
        self._writing().retain(checked_texts(doc_ids=doc_ids), days)

    @_changes
    def retain_as_source(self, doc_ids: Collection[str]) -> None:
        """Keep documents for as long as their source says again. Raises ``E_NOT_FOUND``."""
        self._writing().retain_as_source(checked_texts(doc_ids=doc_ids))

    @_changes
    def correct(
        self,
        entity: str | NodeRef | Node,
        field: str,
        value: Any,
        reason: str = "",
        *,
        who: str | None = None,
        label: str | None = None,
    ) -> Decided:
        """Say what a field of an entity really is; None: it has no value. A correction wins over every
        document, now and later, until it is undone or corrected in turn; it follows the entity wherever its
        key leads.

        ``entity``: as in :meth:`neighbors`, of this ``label``. ``who``: by default whoever runs the process.
        Everything that serves readers is brought up to date before it returns. Raises ``E_NOT_FOUND``,
        ``E_QUERY`` with the candidates where several are called so, ``E_ENTITY_VALIDATION`` naming the field,
        ``E_BUSY``; then nothing is recorded.
        """
        return self._deciding().correct(entity, field, value, reason=reason, who=who, label=label)

    @_changes
    def correct_edge(
        self,
        edge: str | Edge | Mapping[str, Any],
        property: str | None = None,
        value: Any = None,
        reason: str = "",
        *,
        who: str | None = None,
    ) -> Decided:
        """Say that what an edge states is not so, or, with a ``property``, what that really is.

        It holds for every document that states the same fact (type, ends, and what makes it another fact),
        and for those that come to. ``edge``: an edge_id, an :class:`Edge`, or a row of ``edges()``. Raises
        ``E_EDGE_UNKNOWN``, and as :meth:`correct`.
        """
        return self._deciding().correct_edge(edge, property, value, reason=reason, who=who)

    @_changes
    def ingest_structured(
        self,
        entity_type: str,
        properties: Mapping[str, Any],
        *,
        aliases: Sequence[str] = (),
        raw_content: str | bytes | None = None,
        raw_file_path: str | Path | None = None,
        reason: str = "",
        who: str | None = None,
    ) -> Stated:
        """State an entity: ``properties`` holds the fields of its key (``graph-mapping``) and any others.

        Its name counts as declared, so that documents that hold it mention it. It ranks above what documents
        say and beneath corrections; of what was stated twice the later counts. ``raw_content`` or
        ``raw_file_path``: bytes that show it, at most 1 MB, which are kept. Raises
        ``E_ENTITY_VALIDATION``, ``E_BUSY``, ``E_STORAGE``.
        """
        item = {
            "entity_type": entity_type,
            "properties": properties,
            "aliases": aliases,
            "raw_content": raw_content,
            "raw_file_path": raw_file_path,
        }
        return self._deciding().state([item], reason=reason, who=who)[0]

    @_changes
    def ingest_structured_batch(
        self, items: Sequence[Mapping[str, Any]], reason: str = "", *, who: str | None = None
    ) -> tuple[Stated, ...]:
        """State many facts, all or none: entities, as the arguments of :meth:`ingest_structured`, and
        relations, as ``{"type": …, "start": …, "end": …, "properties": {…}}``.

        An end is the name or key of an entity, first of those that the batch states, or ``{"label": …}`` with
        the fields of its key, which need not be an entity yet. At most 10,000 at a time. Raises as
        :meth:`ingest_structured`, and ``E_NOT_FOUND`` or ``E_QUERY`` for an end.
        """
        return self._deciding().state(items, reason=reason, who=who)

    @_changes
    def merge(
        self,
        entity: str | NodeRef | Node,
        into: str | NodeRef | Node,
        reason: str = "",
        *,
        who: str | None = None,
        label: str | None = None,
    ) -> Decided:
        """Declare that ``entity`` is the entity ``into``, of the same label: what was said of either is said
        of ``into``. Undone, both are as they were. Raises as :meth:`correct`, and ``E_TRANSITION`` where they
        are one already.
        """
        return self._deciding().merge(entity, into, reason=reason, who=who, label=label)

    @_changes
    def undo(
        self, assertion_id: str, erase: bool = False, reason: str = "", *, who: str | None = None
    ) -> Decided:
        """Undo a correction, a stated fact, a merge, or an undoing (``observation_id``, or the beginning of
        it). With ``erase`` every byte of what was typed or handed in goes too, for good. Raises
        ``E_NOT_FOUND``, ``E_QUERY``, ``E_TRANSITION`` for what is undone already, ``E_BUSY``.
        """
        check_texts(required=True, assertion_id=assertion_id)
        return self._deciding().undo(assertion_id, erase=erase, reason=reason, who=who)

    def assertions(self, all_states: bool = False, limit: int = 10_000) -> AssertionList:
        """What people decided and is in force, in the order in which they did; with ``all_states`` also what
        is superseded, undone or erased, and the undoings. At most the last ``limit``. It stays with the home
        that it was decided in.
        """
        return self._deciding().assertions(all_states=all_states, limit=limit)

    def supports(
        self, entity: str | NodeRef | Node, *, label: str | None = None, limit: int = 1000
    ) -> EntitySupports:
        """Everything behind an entity: what each document says of it, the strongest first, and what people
        decided of it, with who and why. It stays with the home: the shards alone do not know it.

        ``entity``: as in :meth:`correct`. At most ``limit`` documents. Raises ``E_NOT_FOUND``, ``E_QUERY``.
        """
        writing = self._writing()
        return self._session.ask(lambda view: writing.supports(view, entity, label, limit))

    def _deciding(self) -> DecisionRecorder:
        from taboot_pipelines.retrieval.decisions import DecisionRecorder

        return DecisionRecorder(self._session, self._writing())

    # --- how it was read ------------------------------------------------------------------------------------

    def runs(
        self,
        source: str | None = None,
        tier: str | None = None,
        *,
        status: str | None = None,
        document: str | None = None,
        active: bool | None = None,
        candidate: bool | None = None,
        limit: int = 1000,
    ) -> RunList:
        """The interpretation runs, newest first: what is active, archived, waiting to be promoted, under way
        or failed. ``tier``: ``A``, ``tier_a`` and so on; ``status``: pending, running, completed or failed;
        ``document``: a doc_id or a path. Raises ``E_QUERY``, and ``E_KB_UNINITIALIZED`` where there is only a
        copy of the shards.
        """
        check_texts(source=source, tier=tier, status=status, document=document)
        return self._interpretations().runs(
            limit=limit,
            source=source,
            tier=tier,
            status=status,
            document=document,
            active=active,
            candidate=candidate,
        )

    def run(self, run_id: str, limit: int = 1000) -> RunFacts:
        """One run, by its id or the beginning of it, with what it says, each fact with its quote. Raises
        ``E_NOT_FOUND``, also if its observations are not kept any more.
        """
        check_texts(required=True, run_id=run_id)
        return self._interpretations().run(run_id, limit)

    def diff(
        self,
        a: str | Collection[str],
        b: str | Collection[str],
        *,
        source: str | None = None,
        tier: str | None = None,
        limit: int = 1000,
    ) -> RunDiff:
        """What the runs ``b`` say that the runs ``a`` do not, the other way round, and what they say
        otherwise, with spans and quotes, and with precision and recall where labelled passages stand in the
        documents.

        Each side is a run, several, ``"active"`` or ``"candidate"``: then of a ``source`` and ``tier``, and
        of the active ones those of the other side's units. Raises ``E_QUERY``, ``E_NOT_FOUND``.
        """
        check_texts(required=True, several=True, a=a, b=b)
        check_texts(source=source, tier=tier)
        return self._interpretations().diff(a, b, source, tier, limit)

    @_changes
    def reinterpret(
        self,
        docs: Collection[str] | str | None = None,
        source: str | None = None,
        *,
        tier: str,
        config: Mapping[str, Any] | None = None,
        promote: bool = False,
    ) -> Reinterpreted:
        """Interpret documents (doc_ids), or all of a source, once more by a tier, with the settings
        ``config`` otherwise than configured. The new runs wait beside the active ones until they are
        promoted, which ``promote`` does at once. Raises ``E_QUERY``, ``E_NOT_FOUND``, ``E_STORAGE_PENDING``,
        ``E_INTERPRETATION_IN_PROGRESS``, ``E_QUOTA``, ``E_BUSY``, and what the tier's model raises.
        """
        check_texts(several=True, docs=docs)
        check_texts(source=source, tier=tier)
        made = self._interpretations().reinterpret(docs=docs, source=source, tier=tier, config=config)
        if promote and made.run_ids:
            self.promote(made.run_ids)
        return made

    @_changes
    def promote(
        self, runs: Collection[str] | str = (), *, source: str | None = None, tier: str | None = None
    ) -> Promoted:
        """Make runs active, or all that wait of a source and tier, without reading or asking a model; it
        holds while the unit's input is the one that they were made from. Raises ``E_CONFLICT`` for runs of
        another input, ``E_NOT_FOUND``, ``E_QUERY``, ``E_BUSY``; nothing is changed then.
        """
        check_texts(required=True, several=True, runs=runs)
        check_texts(source=source, tier=tier)
        return self._interpretations().promote(runs, source, tier)

    @_changes
    def rollback(
        self,
        runs: Collection[str] | str = (),
        *,
        source: str | None = None,
        tier: str | None = None,
        promotion: str | None = None,
    ) -> RolledBack:
        """Take back a promotion (its id), that of some runs, or the last one of a source and tier; what was
        active before is so again. Raises ``E_NOT_FOUND`` if nothing is promoted, ``E_QUERY``, ``E_BUSY``.
        """
        check_texts(required=True, several=True, runs=runs)
        check_texts(source=source, tier=tier, promotion=promotion)
        return self._interpretations().rollback(runs, source, tier, promotion)

    def _writing(self) -> Writing:
        from taboot_pipelines.retrieval.writing import Writing

        return Writing(self._settings, self.namespace, self._query_vectors)


def _open_evidence(settings: Settings, namespace: str, blobs: Blobs | None) -> Evidence:
    from taboot_pipelines.retrieval.evidence import Evidence

    return Evidence(settings, namespace, blobs)


def _open_neighborhoods(settings: Settings, namespace: str, session: Session) -> Neighborhoods:
    from taboot_pipelines.retrieval.neighborhoods import Neighborhoods

    return Neighborhoods(settings, namespace, session)


def _open_explanations(session: Session, evidence: Evidence) -> Explanations:
    from taboot_pipelines.retrieval.explanations import Explanations

    return Explanations(session, evidence)


def _open_originals(session: Session, evidence: Evidence) -> Originals:
    from taboot_pipelines.retrieval.evidence import Originals

    return Originals(session, evidence)


def _open_drifts(settings: Settings) -> Drifts:
    from taboot_pipelines.retrieval.drift.report import Drifts

    return Drifts(settings.retrieval)


def _open_alerts(kb: KnowledgeBase) -> Alerts:
    from taboot_pipelines.retrieval.alerts import Alerts

    return Alerts(kb._session, kb.search, kb.impact, kb.changes, lambda: kb._writing().first_ingests())


def _open_crawls(settings: Settings, namespace: str) -> Crawls:
    from taboot_pipelines.retrieval.crawls import Crawls

    return Crawls(settings, namespace)


def _open_interpretations(settings: Settings, namespace: str, query_vectors: QueryVectors) -> Interpretations:
    from taboot_pipelines.retrieval.interpretations import Interpretations

    return Interpretations(settings, namespace, lambda: query_vectors.embedder)


def _open_answers(
    settings: Settings,
    namespace: str,
    session: Session,
    search: Search,
    evidence: Evidence,
    chat: ChatModel | None,
    query_vectors: QueryVectors,
    drifts: Drifts,
    query: Callable[[str, Mapping[str, Any]], QueryResult],
) -> Answers:
    """What answers questions; its modules and their tables of words are loaded when first asked for, and the
    model that embeds the question beside them."""
    query_vectors.load_meanwhile()
    from taboot_pipelines.retrieval.answering.fact_answers import fact_answer
    from taboot_pipelines.retrieval.answers import Answers

    return Answers(
        settings, namespace, session, search, evidence, fact_answer, chat, query_vectors, drifts, query
    )


def _truth(name: str, value: bool | None) -> bool | None:
    if value not in (True, False, None):
        raise TabootError("E_QUERY", f"{name} must be True, False or None.")
    return value
