"""Drift of one view: which documents count for what, what is found, and its quotes."""

from __future__ import annotations

import posixpath
import re
import threading
from collections.abc import Collection, Iterable
from weakref import WeakKeyDictionary

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.drift.facts import Authority, DocumentView, Drift, DriftKind
from taboot_pipelines.knowledge.drift.rules import find_drift
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval.answering.ownership import Ownership
from taboot_pipelines.retrieval.explanations import Explanations
from taboot_pipelines.retrieval.queries.service_index import is_example_path, service_index
from taboot_pipelines.retrieval.request import check_limit
from taboot_pipelines.retrieval.results.drift import DriftItem, DriftReport, DriftSide
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.settings import RetrievalSettings
from taboot_pipelines.sources import source_kind, stance_of

MAX_ITEMS = 100_000

#: A path that tells of a day or of releases: a report, minutes, a history.
_OF_A_DAY = re.compile(
    r"(?:19|20)\d\d-[01]\d(?:-[0-3]\d)?|(?:^|[/._-])(?:change-?logs?|history|news|releases?(?:-?notes)?|incidents?"
    r"|post-?mortems?|minutes|archived?|adr|decisions)(?:$|[/._-])",
    re.IGNORECASE,
)
#: A path that tells of what is not in force.
_SET_ASIDE = re.compile(
    r"(?:^|[/._-])(?:old|bak|archived?|disabled|unused|deprecated|inactive|retired|trash|tests?)(?:$|[/._-])",
    re.IGNORECASE,
)
#: Why a statement cannot be quoted now; `explain` says it.
_NO_QUOTE = frozenset({"E_BLOB_CORRUPT", "E_BLOB_MISSING", "E_EVIDENCE", "E_EDGE_UNKNOWN"})


class Drifts:
    """Drift of the views of one knowledge base, found once for each. Safe to use from several threads."""

    def __init__(self, settings: RetrievalSettings, session: Session) -> None:
        self._session = session
        self._ownership = Ownership(settings)
        self._vendor_tags = frozenset(settings.vendor_tags)
        self._known: WeakKeyDictionary[View, tuple[Drift, ...]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def report(
        self, kinds: Collection[str] | str | None, limit: int, explanations: Explanations
    ) -> DriftReport:
        """See ``KnowledgeBase.drift``."""
        check_limit(limit, MAX_ITEMS)
        wanted = _check_kinds(kinds)
        return self._session.ask(lambda view: self._report(view, wanted, limit, explanations))

    def _report(
        self, view: View, kinds: frozenset[str], limit: int, explanations: Explanations
    ) -> DriftReport:
        chosen = [d for d in self.of(view) if d.kind in kinds]
        items = tuple(_item(view, d, explanations) for d in chosen[:limit])
        return DriftReport(items=items, truncated=len(chosen) > limit)

    def of(self, view: View) -> tuple[Drift, ...]:
        """Everything that drifted in a view."""
        with self._lock:
            known = self._known.get(view)
        if known is None:
            house = service_index(view)
            known = find_drift(
                view.manifest.namespace,
                view.graph.edges,
                view.graph.nodes,
                self._documents(view),
                house.text,
            )
            with self._lock:
                self._known[view] = known
        return known

    def touching(self, view: View, cited: Iterable[tuple[str, int, int]]) -> list[Drift]:
        """What drifted of the statements that are cited: (doc_id, start, end) in code points. Texts of a day
        are left out."""
        places: dict[str, list[tuple[int, int]]] = {}
        for doc_id, start, end in cited:
            places.setdefault(doc_id, []).append((start, end))
        return [
            d
            for d in self.of(view)
            if not d.record
            and any(
                start < to and begin < end
                for side in d.sides
                for fact in side.facts
                for start, end in fact.spans
                for begin, to in places.get(fact.doc_id, ())
            )
        ]

    def _documents(self, view: View) -> dict[str, DocumentView]:
        columns = ("doc_id", "source_id", "source_type", "path", "url", "title", "mime")
        rows = [
            (doc_id, source, kind, path, title, mime, _folder(view, source, path, url))
            for doc_id, source, kind, path, url, title, mime in rows_of(view.graph.documents, *columns)
        ]
        projects = {folder for _, _, type_, _, _, _, folder in rows if source_kind(type_).projects}
        return {
            doc_id: DocumentView(
                self._standing(view, source, kind, path, mime, folder in projects), folder, path or title
            )
            for doc_id, source, kind, path, title, mime, folder in rows
        }

    def _standing(self, view: View, source: str, kind: str, path: str, mime: str, beside: bool) -> Authority:
        """``beside``: in the folder of a Compose project, where a text speaks of that project."""
        if is_example_path(path):
            return Authority.OTHER
        if stance_of(kind, mime).of_a_time:
            return Authority.RECORD
        if is_code(mime):
            return Authority.OTHER if _SET_ASIDE.search(path) else Authority.CONFIG
        entry = view.manifest.sources.get(source)
        of_vendor = entry is not None and not self._vendor_tags.isdisjoint(entry.tags)
        if not self._ownership.owns(view, source) and (of_vendor or not beside):
            return Authority.OTHER
        return Authority.RECORD if _OF_A_DAY.search(path) else Authority.HOUSE


def _folder(view: View, source: str, path: str, url: str) -> str:
    """The folder on the disk, so that sources over the same files meet in it; else that of the source."""
    shown = view.shown_url(source, path, url)
    return posixpath.dirname(shown if shown.startswith("/") else f"{source}:/{path}")


def _check_kinds(kinds: Collection[str] | str | None) -> frozenset[str]:
    every = frozenset(k.value for k in DriftKind)
    wanted = every if kinds is None else frozenset([kinds] if isinstance(kinds, str) else kinds)
    if unknown := sorted(str(k) for k in wanted - every):
        raise TabootError(
            "E_QUERY",
            f"kinds names {', '.join(unknown)}; there are {', '.join(sorted(every))}.",
            kinds=unknown,
        )
    return wanted


def _item(view: View, found: Drift, explanations: Explanations) -> DriftItem:
    return DriftItem(
        kind=found.kind.value,
        label=found.label,
        key=found.key,
        name=found.name,
        statement=found.statement,
        sides=tuple(
            DriftSide(
                says=side.says,
                edge_ids=tuple(f.edge_id for f in side.facts),
                doc_id=side.facts[0].doc_id,
                url=view.document_url(side.facts[0].doc_id),
                line=side.facts[0].line,
            ).model_copy(update=_quoted(explanations, side.facts[0].edge_id))
            for side in found.sides
        ),
        record=found.record,
    )


def _quoted(explanations: Explanations, edge_id: str) -> dict[str, object]:
    try:
        why = explanations.explain(edge_id)
    except TabootError as error:
        if error.code not in _NO_QUOTE:
            raise
        return {}
    return {"quote": why.quotes[0]}
