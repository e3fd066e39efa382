"""Units that are documents: each document of a source is one, read from its text alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import quoted_document
from taboot_pipelines.knowledge.units import Reading, Reads, Unit, unit_id
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import Interpretation, NodeRef, Problem
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stores.blobs import UNREADABLE, BlobStore
from taboot_pipelines.stores.tables import Tables, TableVersion

KIND = "document"


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What an extractor reads: a document's text, and its node, named by its path, in which all evidence
    stands."""

    node: NodeRef
    text: str
    mime: str


class DocumentExtractor(Protocol):
    """Says what documents state; pure, and equal for equal input and version, whatever is read beside it."""

    name: str
    version: str

    def interpret(self, documents: Sequence[DocumentText]) -> Iterable[Interpretation]:
        """What each document states, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """A row of the documents table, without the text."""

    doc_id: str
    path: str
    text_sha256: str
    blob_sha256: str
    mime: str


class SourceDocuments:
    """The documents of a source at one version of their table, or those of some of its buckets."""

    def __init__(
        self,
        tables: Tables,
        namespace: str,
        source_id: str,
        version: TableVersion | None,
        buckets: Collection[int] | None = None,
    ) -> None:
        self.namespace = namespace
        self._tables = tables
        self._source_id = source_id
        self._version = version
        columns = list(Document.__slots__)
        rows = self._read(columns, buckets)
        self.listed = {row[0]: Document(*row) for row in rows_of(rows, *columns)}
        #: {path: doc_id}
        self.by_path = {document.path: doc_id for doc_id, document in self.listed.items()}

    def texts(self, doc_ids: Iterable[str]) -> dict[str, tuple[str, bytes]]:
        """{doc_id: (text, offset map)} of some documents."""
        wanted = set(doc_ids)
        rows = self._read(["doc_id", "text", "offsets"], {ids.doc_bucket(d) for d in wanted})
        return {doc_id: (text, offsets) for doc_id, text, offsets in rows_of(rows) if doc_id in wanted}

    def _read(self, columns: Sequence[str], buckets: Collection[int] | None = None) -> Any:
        return self._tables.read(
            self.namespace, self._source_id, "documents", self._version, columns=columns, buckets=buckets
        )


class DocumentUnits:
    """A :class:`~taboot_pipelines.knowledge.units.UnitExtractor` of documents."""

    def __init__(
        self,
        extractor: DocumentExtractor,
        documents: SourceDocuments,
        blobs: BlobStore,
        versions: Sequence[str],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """``versions``: of what decides the result beside the extractor: the stage, the parsing that maps
        text to bytes, and settings. ``config``: what is kept with each run beside the extractor's name and
        version, such as a model."""
        self._extractor = extractor
        self._documents = documents
        self._blobs = blobs
        self._versions = tuple(versions)
        self._config = dict(config or {})

    @property
    def config(self) -> Mapping[str, Any]:
        return {
            "extractor": self._extractor.name,
            "extractor_version": self._extractor.version,
            **self._config,
        }

    def units(self) -> Iterator[Unit]:
        for doc_id in self._documents.listed:
            yield Unit(unit_id(KIND, doc_id), doc_id)

    def fingerprint(self, unit: Unit, _reads: Reads) -> str:
        document = self._documents.listed[unit.anchor]
        return ids.digest(
            self._extractor.name,
            self._extractor.version,
            *self._versions,
            document.text_sha256,
            document.blob_sha256,
            document.mime,
        )

    def interpret(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, Reading]]:
        texts = self._documents.texts(unit.anchor for unit in units)
        given = [self._text(unit, texts[unit.anchor][0]) for unit in units]
        for unit, said in zip(units, self._extractor.interpret(given), strict=True):
            yield unit, self._reading(unit, *texts[unit.anchor], said)

    def _text(self, unit: Unit, text: str) -> DocumentText:
        document = self._documents.listed[unit.anchor]
        return DocumentText(NodeRef("Document", (document.doc_id,), document.path), text, document.mime)

    def _reading(self, unit: Unit, text: str, offsets: bytes, said: Interpretation) -> Reading:
        document = self._documents.listed[unit.anchor]
        fingerprint = self.fingerprint(unit, Reads())
        if not (said.nodes or said.edges):
            return Reading(fingerprint, said)
        try:
            quoted = quoted_document(
                text,
                offsets,
                document.blob_sha256,
                document.mime,
                lambda sha256: self._blobs.get(self._documents.namespace, sha256),
            )
        except TabootError as error:
            return Reading(
                fingerprint,
                Interpretation((), (), problems=said.problems),
                failures=(Problem(document.path, error.code, error.message),),
                transient=error.code in UNREADABLE,
            )
        return Reading(fingerprint, said, {document.path: quoted})
