"""Units that a chat model reads: each document of running text, window by window.

What a document says is a function of its text and of the answers to its windows. An answer is an input that
is kept, so equal answers give equal rows however often and in whatever order they were asked for. A document
whose windows are answered in part says what the answers say; the windows that are missing belong to the
fingerprint of its run, so that it is read again as soon as one of them may be answered, and only they are
asked about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction import tier_c
from taboot_pipelines.knowledge.document_units import DocumentText, DocumentUnits, SourceDocuments
from taboot_pipelines.knowledge.units import Reading, Reads, Unit
from taboot_pipelines.knowledge.window_requests import (
    RequestSettings,
    WindowRequest,
    WindowRequester,
    question_tokens,
)
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import Interpretation, Problem
from taboot_pipelines.stores.blobs import BlobStore
from taboot_pipelines.stores.catalog.catalog import Catalog


def version_of(asking: RequestSettings, window_tokens: int) -> str:
    """Return what decides the answers to equal text, and what is made of them."""
    return ids.digest(
        tier_c.WINDOWS_VERSION,
        tier_c.PROMPT_VERSION,
        tier_c.READING_VERSION,
        asking.ontology.version,
        asking.model,
        asking.counter.name,
        window_tokens,
        sorted(asking.precision.items()),
        asking.min_precision,
    )[:16]


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A window of a document, as it is asked about."""

    doc_id: str
    blob_sha256: str
    key: str
    window: tier_c.Window
    tokens: int

    def row(self, *, is_open: bool) -> Mapping[str, Any]:
        """Return the window's row in the catalog."""
        start, end = self.window.span
        return {
            "doc_id": self.doc_id,
            "blob_sha256": self.blob_sha256,
            "key": self.key,
            "span_start": start,
            "span_end": end,
            "tokens": self.tokens,
            "open": is_open,
        }


class WindowCutter:
    """Cuts documents into windows with their keys; asks nothing."""

    def __init__(self, documents: SourceDocuments, asking: RequestSettings, window_tokens: int) -> None:
        self._documents = documents
        self._asking = asking
        self._limit = window_tokens

    def cut(self, doc_id: str, text: str, mime: str) -> list[WindowRow]:
        """Return the windows of a document, in order; none of code and configuration."""
        if is_code(mime):
            return []
        blob = self._documents.listed[doc_id].blob_sha256
        return [
            WindowRow(
                doc_id,
                blob,
                tier_c.key(self._asking.ontology, window, self._asking.model),
                window,
                question_tokens(self._asking, window),
            )
            for window in tier_c.windows(text, self._asking.counter, self._limit)
        ]


class WindowDeadLetters(Protocol):
    """The windows of a source that failed, and what is to be done about them."""

    def attempt(self, key: str) -> int | None:
        """How often a window failed before; None: it is not to be asked about now."""
        ...

    def over(self, cut: WindowRow) -> None:
        """A window is over the limit, and is never asked about."""
        ...


class WindowReader:
    """Says what documents state by the answers to their windows, and asks for those that are missing."""

    name = "llm_windows"

    def __init__(
        self,
        catalog: Catalog,
        source_id: str,
        cutter: WindowCutter,
        asker: WindowRequester,
        letters: WindowDeadLetters,
        version: str,
    ) -> None:
        self.version = version
        self._catalog = catalog
        self._source_id = source_id
        self._cutter = cutter
        self._asker = asker
        self._letters = letters
        #: {doc_id: windows without an answer}, of documents that lack some.
        self.open: dict[str, frozenset[str]] = {}
        #: The documents that were read by now.
        self.done: set[str] = set()

    def interpret(self, documents: Sequence[DocumentText]) -> Iterator[Interpretation]:
        cut = {d.node.key[0]: self._cutter.cut(d.node.key[0], d.text, d.mime) for d in documents}
        answers = self._answers(cut)
        for document in documents:
            doc_id = document.node.key[0]
            lacking = frozenset(c.key for c in cut[doc_id] if c.key not in answers)
            self.done.add(doc_id)
            self.open.pop(doc_id, None)
            if lacking:
                self.open[doc_id] = lacking
            yield self._interpretation(document, cut[doc_id], answers)

    def _interpretation(
        self, document: DocumentText, cut: Sequence[WindowRow], answers: Mapping[str, Any]
    ) -> Interpretation:
        account = self._asker.account
        edges: dict[str, Any] = {}
        for one in cut:
            if one.key in answers:
                said = tier_c.read(self._asker.asking.ontology, one.window, answers[one.key])
                account.refused += Counter(said.refused)
                account.turned += said.turned
                asking = self._asker.asking
                for claim in tier_c.claims(said.triples, document.node.name, asking.precision):
                    if not asking.serves(claim.type):
                        account.candidates += 1
                        continue
                    # A fact that is stated twice in a document is one, with both passages; the same passage
                    # stands in one window only.
                    edges.setdefault(repr(claim), claim)
        return Interpretation((), tuple(edges.values()))

    def _answers(self, cut: Mapping[str, Sequence[WindowRow]]) -> dict[str, Any]:
        """Return {key: answer} of these windows, asking for what is missing and may be asked for."""
        every = [one for windows in cut.values() for one in windows]
        account = self._asker.account
        account.windows += len(every)
        answers = self._asker.known([one.key for one in every])
        account.cached += sum(one.key in answers for one in every)
        account.cached_tokens += sum(one.tokens for one in every if one.key in answers)
        self._record(cut, answers)
        questions = []
        for one in every:
            if one.key in answers:
                continue
            if one.window.over:
                self._letters.over(one)
                continue
            attempt = self._letters.attempt(one.key)
            if attempt is not None:
                questions.append(WindowRequest(one.key, one.window, one.tokens, attempt))
        if questions:
            new = self._asker.ask(questions)
            answers |= new
            asked = {one.doc_id for one in every if one.key in new}
            self._record({doc_id: cut[doc_id] for doc_id in sorted(asked)}, answers)
        return answers

    def _record(self, cut: Mapping[str, Sequence[WindowRow]], answers: Mapping[str, Any]) -> None:
        """Record whose windows these are, before an answer can quote them, and which are without one."""
        rows = [one.row(is_open=one.key not in answers) for windows in cut.values() for one in windows]
        self._catalog.answers.record_windows(self._asker.namespace, self._source_id, list(cut), rows)


class WindowUnits(DocumentUnits):
    """Documents as units, whose fingerprints include the windows that have no answer yet."""

    def __init__(
        self,
        reader: WindowReader,
        documents: SourceDocuments,
        blobs: BlobStore,
        versions: Sequence[str],
        config: Mapping[str, Any],
        due: Collection[str],
        lacking: Mapping[str, frozenset[str]],
    ) -> None:
        """``lacking``: {doc_id: windows that the document was last read without, and that have no answer to
        this day}; ``due``: the documents among them that may be asked about again. ``config``: what is kept
        with each run."""
        super().__init__(reader, documents, blobs, versions)
        self._config = dict(config)
        self._reader = reader
        self._due = frozenset(due)
        reader.open |= lacking

    @property
    def config(self) -> Mapping[str, Any]:
        return {**super().config, **self._config}

    def fingerprint(self, unit: Unit, reads: Reads) -> str:
        plain = super().fingerprint(unit, reads)
        lacking = sorted(self._reader.open.get(unit.anchor, ()))
        if unit.anchor in self._due - self._reader.done:
            return ids.digest(plain, lacking, "due")
        return ids.digest(plain, lacking) if lacking else plain


# --- Documents as another model than the configured one reads them, because a person asks for it
#
# Such a reading is whole, or it fails: no later run asks for windows that wait, so none is open. Every
# answer is kept like all others, and the next try asks about what is missing. A window that the model
# does not answer usably says nothing, and the run has a problem that tells it.


class TrialDeadLetters:
    """The windows of one reading that have no usable answer, by key with the reason's code."""

    def __init__(self) -> None:
        self.codes: dict[str, str] = {}

    def attempt(self, key: str) -> int | None:
        return None if key in self.codes else 0

    def over(self, cut: WindowRow) -> None:
        self.codes[cut.key] = "E_TOKEN_LIMIT"

    def failed(self, question: WindowRequest, error: TabootError) -> None:
        self.codes[question.key] = error.code


class TrialReader(WindowReader):
    """Reads documents once, by what a model answers now or has answered before."""

    def __init__(
        self,
        catalog: Catalog,
        source_id: str,
        cutter: WindowCutter,
        asker: WindowRequester,
        given_up: TrialDeadLetters,
        version: str,
    ) -> None:
        super().__init__(catalog, source_id, cutter, asker, given_up, version)
        self._given_up = given_up
        #: {doc_id: why} of documents some of whose windows wait.
        self.waiting: dict[str, TabootError] = {}

    def interpret(self, documents: Sequence[DocumentText]) -> Iterator[Interpretation]:
        for document, said in zip(documents, super().interpret(documents), strict=True):
            doc_id = document.node.key[0]
            lacking = self.open.get(doc_id, frozenset())
            codes = Counter(self._given_up.codes[key] for key in lacking if key in self._given_up.codes)
            self.waiting.pop(doc_id, None)
            if waiting := len(lacking) - codes.total():
                self.waiting[doc_id] = self._why(waiting)
            problems = tuple(
                Problem(document.node.name, code, f"{n} windows have no usable answer.")
                for code, n in sorted(codes.items())
            )
            yield replace(said, problems=(*said.problems, *problems))

    def _why(self, waiting: int) -> TabootError:
        trouble = self._asker.trouble
        if trouble is None:
            return TabootError("E_LLM", f"{waiting} windows have no answer.")
        return TabootError(trouble.code, f"{waiting} windows have no answer: {trouble.message}")

    def _record(self, cut: Mapping[str, Sequence[WindowRow]], answers: Mapping[str, Any]) -> None:
        """Record whose windows these are; which windows of the configured model are open stays as it is."""
        rows = [one.row(is_open=False) for windows in cut.values() for one in windows]
        self._catalog.answers.record_windows(self._asker.namespace, self._source_id, (), rows)


class TrialUnits(DocumentUnits):
    """Documents as units that say nothing while some of their windows wait."""

    def __init__(
        self,
        reader: TrialReader,
        documents: SourceDocuments,
        blobs: BlobStore,
        versions: Sequence[str],
        config: Mapping[str, Any],
    ) -> None:
        super().__init__(reader, documents, blobs, versions, config)
        self._reader = reader

    def _reading(self, unit: Unit, text: str, offsets: bytes, said: Interpretation) -> Reading:
        waiting = self._reader.waiting.get(unit.anchor)
        if waiting is None:
            return super()._reading(unit, text, offsets, said)
        path = self._documents.listed[unit.anchor].path
        return Reading(
            self.fingerprint(unit, Reads()),
            Interpretation((), ()),
            failures=(Problem(path, waiting.code, waiting.message),),
            transient=True,
        )
