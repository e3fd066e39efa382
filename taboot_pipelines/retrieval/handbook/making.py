"""Making the handbook of what is published."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.drift.facts import Authority
from taboot_pipelines.retrieval.drift.report import Drifts
from taboot_pipelines.retrieval.evidence import Evidence
from taboot_pipelines.retrieval.handbook.content import Handbook
from taboot_pipelines.retrieval.handbook.site import Made, write
from taboot_pipelines.retrieval.queries.house import House
from taboot_pipelines.retrieval.session import Session, View


def make(session: Session, drifts: Drifts, evidence: Evidence, target: Path) -> Made:
    """See ``KnowledgeBase.handbook``."""
    return session.ask(lambda view: _make(view, drifts, evidence, target))


def _make(view: View, drifts: Drifts, evidence: Evidence, target: Path) -> Made:
    def line_of(doc_id: str, start: int, end: int) -> int:
        try:
            return evidence.line(view, doc_id, start, end) or 0
        except TabootError:
            return 0  # what has no line is left out; `explain` says what is wrong with the blob

    standing = {doc_id: d.standing for doc_id, d in drifts.documents(view).items()}
    owned, files = (
        [d for d, its in standing.items() if its is wanted] for wanted in (Authority.HOUSE, Authority.CONFIG)
    )
    pages = Handbook(House(view, drifts.of), owned, files, line_of).pages()
    newest = pc.max(view.index.documents.column("since")).as_py() if len(view.index) else None
    about = {
        "namespace": view.manifest.namespace,
        "publication": view.manifest.version,
        "id": view.id[:12],
        "newest": newest.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if newest else "",
    }
    return write(pages, about, target)
