"""Documents as another model than the configured one reads them, because a person asks for it.

Such a reading is whole, or it fails: no later run asks for windows that wait, so none is open. Every answer
is kept like all others, and the next try asks about what is missing. A window that the model does not answer
usably says nothing, and the run has a problem that tells it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.asking import Asker, Question
from taboot_pipelines.knowledge.document_units import DocumentText, DocumentUnits, SourceDocuments
from taboot_pipelines.knowledge.units import Reading, Reads, Unit
from taboot_pipelines.knowledge.window_units import Cut, WindowCutter, WindowReader
from taboot_pipelines.model.records import Interpretation, Problem
from taboot_pipelines.stores.blobs import BlobStore
from taboot_pipelines.stores.catalog import Catalog


class GivenUp:
    """The windows of one reading that have no usable answer, by key with the reason's code."""

    def __init__(self) -> None:
        self.codes: dict[str, str] = {}

    def attempt(self, key: str) -> int | None:
        return None if key in self.codes else 0

    def over(self, cut: Cut) -> None:
        self.codes[cut.key] = "E_TOKEN_LIMIT"

    def failed(self, question: Question, error: TabootError) -> None:
        self.codes[question.key] = error.code


class TrialReader(WindowReader):
    """Reads documents once, by what a model answers now or has answered before."""

    def __init__(
        self,
        catalog: Catalog,
        source_id: str,
        cutter: WindowCutter,
        asker: Asker,
        given_up: GivenUp,
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

    def _record(self, cut: Mapping[str, Sequence[Cut]], answers: Mapping[str, Any]) -> None:
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
