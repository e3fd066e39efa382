"""Facts that a person or a program stated (seed 003 §8.2): each is a record, which is a document without
chunks. Its blob is the record as JSON, so that what follows from it has bytes behind it like any other fact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from taboot_pipelines.documents.secrets import mask
from taboot_pipelines.knowledge.assertions import Assertion, AssertionKind
from taboot_pipelines.knowledge.evidence import Place
from taboot_pipelines.knowledge.names import NAMED
from taboot_pipelines.knowledge.observations import Observation, discriminator
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import NODES, Basis, EdgeSource
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.offsets import OffsetMap

#: Stands for a source of which the records are the documents; no source of the sources file is called so.
STATED = "_stated"
RECORD_VERSION = "1"
RECORD_MIME = "application/json"
_METHOD = "structured"


@dataclass(frozen=True, slots=True)
class Record:
    """An assertion of a fact as a document: its ``blob``, and the text of that with secrets masked."""

    assertion: Assertion
    doc_id: str
    blob: bytes
    text: str

    @property
    def sha256(self) -> str:
        return ids.sha256_hex(self.blob)

    def document(self) -> dict[str, Any]:
        """The row of ``tables.DOCUMENTS``."""
        a = self.assertion
        at = datetime.fromtimestamp(a.at / 1e6, UTC)
        row = {
            "bucket": ids.doc_bucket(self.doc_id),
            "doc_id": self.doc_id,
            "source_id": STATED,
            "source_type": EdgeSource.STRUCTURED.value,
            "path": a.id,
            "url": f"stated:{a.id}",
            "title": f"Record {a.id[:12]}: {_title(a)}",
            "mime": RECORD_MIME,
            "charset": "utf-8",
            "lang": "",
            "text": self.text,
            "text_sha256": ids.sha256_hex(self.text),
            "blob_sha256": self.sha256,
            "offsets": OffsetMap.of_text(self.text, "utf-8").dumps(),
            "metadata": canonical_json({"assertion": a.id, "reason": a.reason, "who": a.who}),
            "date": None,
            "created_at": at,
            "since": at,
            "job_id": "",
        }
        fingerprint = ids.digest(RECORD_VERSION, self.doc_id, self.sha256, row["text_sha256"])
        return {**row, "fingerprint": fingerprint}

    def observations(self) -> list[Observation]:
        """The rows of ``tables.OBSERVATIONS``: the entity, or the relation."""
        p = self.assertion.payload
        if self.assertion.kind == AssertionKind.ENTITY:
            return [self._entity(p)]
        return [self._relation(p)]

    def _entity(self, p: Mapping[str, Any]) -> Observation:
        label, key = p["label"], ids.node_key(p["key"])
        return self._observation(
            kind="node",
            type=label,
            start_label=label,
            start_key=key,
            start_name=p["name"],
            properties=canonical_json(p["properties"]),
            method="declaration",
            declared=label in NAMED,
            aliases=list(p["aliases"]),
        )

    def _relation(self, p: Mapping[str, Any]) -> Observation:
        (start_label, start_key, start_name), (end_label, end_key, end_name) = p["start"], p["end"]
        return self._observation(
            kind="edge",
            type=p["type"],
            start_label=start_label,
            start_key=start_key,
            start_name=start_name,
            end_label=end_label,
            end_key=end_key,
            end_name=end_name,
            discriminator=discriminator(p["type"], p["properties"]),
            properties=canonical_json(p["properties"]),
            method=_METHOD,
            start_basis=self._basis(start_name),
            end_basis=self._basis(end_name),
        )

    def _basis(self, name: str) -> str:
        return (Basis.BYTES if name in self.text else Basis.NORMALIZED).value

    def _observation(self, **more: Any) -> Observation:
        place = Place(0, len(self.text), 0, len(self.blob), 1)
        row: dict[str, Any] = {
            "bucket": ids.doc_bucket(self.doc_id),
            "run_id": ids.run_id(f"record:{self.doc_id}", EdgeSource.STRUCTURED.value, self.sha256),
            "doc_id": self.doc_id,
            "unit_id": self.doc_id,
            "end_label": None,
            "end_key": None,
            "end_name": None,
            "discriminator": "",
            "confidence": 1.0,
            "source": EdgeSource.STRUCTURED.value,
            "start_basis": None,
            "end_basis": None,
            "declared": False,
            "aliases": [],
            "span_start": place.span_start,
            "span_end": place.span_end,
            "blob_sha256": self.sha256,
            "byte_start": place.byte_start,
            "byte_end": place.byte_end,
            "line": place.line,
        }
        return Observation(**{**row, **more})


def record(namespace: str, assertion: Assertion) -> Record:
    """The record of an assertion of an entity or a relation: a function of the assertion alone."""
    p = assertion.payload
    said: dict[str, Any] = {"assertion": assertion.id}
    if assertion.kind == AssertionKind.ENTITY:
        key = dict(zip(NODES[p["label"]].key, p["key"], strict=True))
        said |= {"entity": p["label"], "name": p["name"], "key": key, "properties": p["properties"]}
        if p["aliases"]:
            said["aliases"] = p["aliases"]
    else:
        said |= {"relation": p["type"]}
        for role in ("start", "end"):
            said[role] = dict(zip(("label", "key", "name"), p[role], strict=True))
        said["properties"] = p["properties"]
    said |= {"who": assertion.who, "reason": assertion.reason}
    said["at"] = datetime.fromtimestamp(assertion.at / 1e6, UTC).isoformat()
    if p["raw"] is not None:
        said["raw"] = p["raw"]
    text = json.dumps(said, ensure_ascii=False, indent=2) + "\n"
    locator = ids.locator(STATED, assertion.id)
    return Record(assertion, ids.doc_id(namespace, locator), text.encode(), mask(text, RECORD_MIME))


def _title(assertion: Assertion) -> str:
    p = assertion.payload
    if assertion.kind == AssertionKind.ENTITY:
        return f"{p['label']} {p['name']}"
    return f"{p['start'][2]} {p['type']} {p['end'][2]}"
