"""Facts that a person or a program stated: each is a record, which is a document without
chunks. Its blob is the record as JSON, so that what follows from it has bytes behind it like any other fact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from taboot_pipelines.connectors.files import is_env, is_example
from taboot_pipelines.documents.secrets.masking import MASK_VERSION, mask
from taboot_pipelines.knowledge.assertions import STATING, Assertion, AssertionKind, in_force
from taboot_pipelines.knowledge.evidence import SourceSpan
from taboot_pipelines.knowledge.names import NAMED
from taboot_pipelines.knowledge.observations import Observation, discriminator
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import NODES, Basis, EdgeSource
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import UploadedItem

#: Stands for a source of which the records are the documents; no source of the sources file is called so.
STATED = "_stated"
RECORD_VERSION = "1"
RECORD_MIME = "application/json"
_METHOD = "structured"
#: Of what was handed in with a fact; it comes after the record itself.
_HANDED_IN = "structured_raw"
#: The folder, in the source of uploads, of texts that were handed in with facts.
RAW_FOLDER = "stated"
_NO_NAME = re.compile(r"[^\w .+-]")


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
        return {**row, "fingerprint": record_fingerprint(a)}

    def observations(self) -> list[Observation]:
        """The rows of ``tables.OBSERVATIONS``: the entity, or the relation."""
        p = self.assertion.payload
        if self.assertion.kind == AssertionKind.ENTITY:
            return [self._entity(p), *self._shown(p, self._mention(p))]
        stated = self._relation(p)
        return [stated, *self._shown(p, stated)]

    def _shown(self, p: Mapping[str, Any], stated: Observation) -> list[Observation]:
        """The same, said by the beginning of what was handed in, where that is a text."""
        raw = p["raw"]
        if raw is None or not raw["shown_bytes"]:
            return []
        return [
            stated._replace(
                method=_HANDED_IN,
                start_basis=Basis.DERIVED.value,
                end_basis=Basis.DERIVED.value,
                blob_sha256=raw["sha256"],
                byte_end=raw["shown_bytes"],
            )
        ]

    def _mention(self, p: Mapping[str, Any]) -> Observation:
        return self._observation(
            kind="edge",
            type="MENTIONS",
            start_label="Document",
            start_key=self.doc_id,
            start_name="",
            end_label=p["label"],
            end_key=ids.node_key(p["key"]),
            end_name=p["name"],
            properties="{}",
            method=_HANDED_IN,
        )

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
        place = SourceSpan(0, len(self.text), 0, len(self.blob), 1)
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


def record_id(namespace: str, assertion: Assertion) -> str:
    """The doc_id of the record of an assertion."""
    return ids.doc_id(namespace, ids.locator(STATED, assertion.id))


def record_fingerprint(assertion: Assertion) -> str:
    """What changes with the record of an assertion, which itself never does but for an erasure of what was
    handed in with it."""
    erased = ("raw",) if assertion.payload.get("raw_erased") else ()
    return ids.digest(RECORD_VERSION, MASK_VERSION, assertion.id, *erased)


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
    return Record(assertion, record_id(namespace, assertion), text.encode(), mask(text, RECORD_MIME))


def raw_texts(assertions: Sequence[Assertion]) -> list[UploadedItem]:
    """The texts that were handed in with facts in force, each once, as documents of the source of uploads."""
    paths = raw_paths(assertions)
    raws = [raw for a in in_force(assertions) if (raw := raw_text(a)) is not None]
    held = {raw["sha256"]: UploadedItem(paths[raw["sha256"]], raw["sha256"], raw["size"]) for raw in raws}
    return sorted(held.values())


def raw_paths(assertions: Iterable[Assertion]) -> dict[str, str]:
    """{SHA-256 of a text that was handed in: its path}, which says what the bytes were first called.

    It stays while the fact that brought them first is there, undone or not: an erasure takes its name too.
    """
    paths: dict[str, str] = {}
    for a in assertions:
        raw = raw_text(a)
        if raw is not None:
            paths.setdefault(raw["sha256"], _raw_path(a))
    return paths


def raw_text(assertion: Assertion) -> Mapping[str, Any] | None:
    """What was handed in with a fact, if that is a text that can be a document; None otherwise.

    As for uploads, a file of environment variables is none.
    """
    raw: Mapping[str, Any] | None = assertion.payload.get("raw") if assertion.kind in STATING else None
    if raw is None or not raw["shown_bytes"] or (is_env(raw["name"]) and not is_example(raw["name"])):
        return None
    return raw


def with_raw_texts(uploaded: Iterable[UploadedItem], assertions: Sequence[Assertion]) -> list[UploadedItem]:
    """What a namespace's source of uploads holds: what was uploaded, and the texts of facts whose bytes are
    not among that."""
    items = list(uploaded)
    known = {x.sha256 for x in items}
    return sorted([*items, *(x for x in raw_texts(assertions) if x.sha256 not in known)])


def _raw_path(assertion: Assertion) -> str:
    """Where the text of a fact stands; its name is that of the file, else what the fact is about."""
    raw = assertion.payload["raw"]
    name = raw["name"] or f"{_title(assertion)}.txt"
    stem, dot, extension = _NO_NAME.sub("-", name).rpartition(".")
    short = f"{stem[:80]}{dot}{extension[:20]}" if stem else extension[:80]
    return f"{RAW_FOLDER}/{raw['sha256'][:16]}/{short}"


def _title(assertion: Assertion) -> str:
    p = assertion.payload
    if assertion.kind == AssertionKind.ENTITY:
        return f"{p['label']} {p['name']}"
    return f"{p['start'][2]} {p['type']} {p['end'][2]}"
