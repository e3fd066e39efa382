"""How good the facts of some runs are on labelled passages, where these stand in the documents read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from taboot_pipelines.extraction import quality
from taboot_pipelines.extraction.quality import Labelled, Passage, Score
from taboot_pipelines.knowledge.document_units import KIND
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.run_history import Compared
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.runs import unit_name

_MARKS = re.compile(r"[^a-z0-9.]+")
_PORT = re.compile(r"(?:^|:)(\d{1,5})(?!\d)(?!.*:\d)")


def gold_scores(workspace: Workspace, namespace: str, compared: Compared) -> tuple[int, list[Score]] | None:
    """Return how many labelled passages stand in the documents of the runs that are compared, and the score
    of each side on them; None if none does.

    The passages are those of ``TABOOT_EXTRACTION__GOLD``. A document counts while its text is the
    one that was read, and a relation if some passage labels one of its type.
    """
    passages = _passages(workspace)
    types = {label.type for passage in passages for label in passage.labels}
    places = [
        place
        for source in sorted({run["source_id"] for run in (*compared.a, *compared.b)})
        for place in _places(_texts(workspace, namespace, source, compared), passages)
    ]
    if not places:
        return None
    labelled = [_keyed(passage) for *_, passage in places]
    scores = []
    for rows in (compared.rows_a, compared.rows_b):
        found = [
            [
                _end_keyed(Labelled(row["type"], row["start_name"], row["end_name"]))
                for row in rows
                if row["doc_id"] == doc_id
                and row["type"] in types
                and row["kind"] == "edge"
                and max(start, row["span_start"]) < min(end, row["span_end"])
            ]
            for doc_id, start, end, _ in places
        ]
        scores.append(quality.score(found, labelled)[quality.ALL])
    return len(places), scores


def _keyed(passage: Passage) -> Passage:
    return replace(passage, labels=tuple(_end_keyed(label) for label in passage.labels))


def _end_keyed(label: Labelled) -> Labelled:
    """Return a triple with its ends as keys have them, whether they stand in a text or in a row: without
    blanks and marks, and of an address that a service is reached at only the port, since its host may be a
    placeholder."""
    port = _PORT.search(label.object) if label.type == "EXPOSES_ENDPOINT" else None
    ends = (label.subject, label.object if port is None else port[1])
    return Labelled(label.type, *(_MARKS.sub("-", end.lower()).strip("-") for end in ends))


def _passages(workspace: Workspace) -> list[Passage]:
    gold = workspace.settings.extraction.gold
    return [] if gold is None else quality.read_passages(Path(gold))


def _places(texts: Mapping[str, str], passages: Sequence[Passage]) -> Iterable[tuple[str, int, int, Passage]]:
    """Yield (doc_id, start, end, passage) of the sentences that stand in texts with what is around them."""
    for doc_id, text in sorted(texts.items()):
        for passage in passages:
            at = text.find(passage.text.strip())
            if at >= 0:
                shift = at - (len(passage.text) - len(passage.text.lstrip()))
                yield doc_id, passage.start + shift, passage.end + shift, passage


def _texts(workspace: Workspace, namespace: str, source: str, compared: Compared) -> dict[str, str]:
    """Return {doc_id: text} of the documents of a source that the runs read, if they are still the same."""
    pointer = workspace.catalog.pointers.get(namespace, source, documents.STAGE)
    if pointer is None:
        return {}
    blobs: dict[str, set[str]] = {
        unit_name(run["unit_id"]): set()
        for run in (*compared.a, *compared.b)
        if run["source_id"] == source and run["unit_id"].startswith(f"{KIND}:")
    }
    for row in (*compared.rows_a, *compared.rows_b):
        blobs.setdefault(row["doc_id"], set()).add(row["blob_sha256"])
    rows = workspace.tables.read(
        namespace,
        source,
        "documents",
        pointer.tables["documents"],
        columns=["doc_id", "blob_sha256", "text"],
        members=("doc_id", sorted(blobs)),
    )
    return {
        row["doc_id"]: row["text"] for row in rows.to_pylist() if blobs[row["doc_id"]] <= {row["blob_sha256"]}
    }
