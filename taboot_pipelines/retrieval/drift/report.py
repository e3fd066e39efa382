"""Drift of one view: which documents count for what, what is found, and its quotes."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.systemd.units import unit_of
from taboot_pipelines.knowledge.drift.declared import Declared, Service
from taboot_pipelines.knowledge.drift.facts import Authority, DocumentView, Drift, DriftKind, StatedSpan
from taboot_pipelines.knowledge.drift.rules import find_drift
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval.answering.ownership import Ownership
from taboot_pipelines.retrieval.explanations import Explanations
from taboot_pipelines.retrieval.graph import Graph
from taboot_pipelines.retrieval.queries.config_files import ConfigEntries, config_entries
from taboot_pipelines.retrieval.queries.service_index import (
    ServiceIndex,
    is_example_path,
    places_in_house,
    service_index,
)
from taboot_pipelines.retrieval.request import check_limit
from taboot_pipelines.retrieval.results.drift import DriftItem, DriftReport, DriftSide
from taboot_pipelines.retrieval.results.explanations import Quote
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.settings import RetrievalSettings
from taboot_pipelines.sources import Stance, source_kind, stance_of

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.drift.declared_values import DeclaredValues, Read

MAX_ITEMS = 100_000

#: A path that tells of a day or of releases: a report, minutes, a history.
OF_A_DAY = re.compile(
    r"(?:19|20)\d\d-[01]\d(?:-[0-3]\d)?|(?:^|/)\d\d[01]\d[0-3]\d[._-]"
    r"|(?:^|[/._-])(?:change-?logs?|history|news|releases?(?:-?notes)?"
    r"|incidents?|post-?mortems?|minutes|archived?|adr|decisions)(?:$|[/._-])",
    re.IGNORECASE,
)
#: A path of configuration that is not in force, beside what :func:`is_example_path` knows.
SET_ASIDE = re.compile(r"(?:^|[/._-])(?:old|bak|tests?)(?:$|[/._-])", re.IGNORECASE)
#: Why a statement cannot be quoted now; `explain` says it.
_NO_QUOTE = frozenset({"E_BLOB_CORRUPT", "E_BLOB_MISSING", "E_EVIDENCE", "E_EDGE_UNKNOWN"})


class Drifts:
    """Drift of the views of one knowledge base, found once for each. Safe to use from several threads."""

    def __init__(self, settings: RetrievalSettings) -> None:
        self._ownership = Ownership(settings)
        self._vendor_tags = frozenset(settings.vendor_tags)
        self._read: Read = {}

    def report(
        self,
        session: Session,
        kinds: Collection[str] | str | None,
        limit: int,
        explanations: Explanations,
    ) -> DriftReport:
        """See ``KnowledgeBase.drift``."""
        check_limit(limit, MAX_ITEMS)
        wanted = _check_kinds(kinds)
        return session.ask(lambda view: self._report(view, wanted, limit, explanations))

    def _report(
        self, view: View, kinds: frozenset[str], limit: int, explanations: Explanations
    ) -> DriftReport:
        chosen = [d for d in self.of(view) if d.kind in kinds]
        items = tuple(_item(view, d, explanations) for d in chosen[:limit])
        return DriftReport(items=items, truncated=len(chosen) > limit, total=len(chosen))

    def of(self, view: View) -> tuple[Drift, ...]:
        """Everything that drifted in a view."""
        return self._house(view).all

    def by_edges(self, view: View) -> tuple[Drift, ...]:
        """What drifted of what edges say, also only if a source is of one machine (rule ``unnamed-machine``);
        not of values that have no edge, for which every text is read."""
        return self._house(view).by_edges

    def of_documents(self, view: View, doc_ids: Iterable[str]) -> tuple[Drift, ...]:
        """That, and what drifted of the values of these documents."""
        return self._house(view).with_values_of(doc_ids)

    def documents(self, view: View) -> Mapping[str, DocumentView]:
        """What each document counts for."""
        return self._house(view).documents

    def touching(self, view: View, cited: Iterable[tuple[str, int, int]]) -> list[Drift]:
        """What drifted of the statements that are cited: (doc_id, start, end) in code points. Texts of a day
        are left out; of values that no edge has, those of cited texts of a small house are compared: an
        answer does not wait until all the configuration of a large one is read.
        """
        places: dict[str, list[tuple[int, int]]] = {}
        for doc_id, start, end in cited:
            places.setdefault(doc_id, []).append((start, end))
        return [
            d
            for d in self._house(view).beside_an_answer(places)
            if not d.record
            and any(
                place.start < to and begin < place.end
                for side in d.sides
                for place in side.places
                for begin, to in places.get(place.doc_id, ())
            )
        ]

    def _house(self, view: View) -> _HouseDrift:
        return view.once(self._make_house)

    def _make_house(self, view: View) -> _HouseDrift:
        return _HouseDrift(
            view.manifest.namespace,
            view.graph,
            service_index(view),
            config_entries(view),
            self._documents(view),
            frozenset(view.manifest.sources),
            self._read,
        )

    def _documents(self, view: View) -> dict[str, DocumentView]:
        columns = ("doc_id", "source_id", "source_type", "path", "url", "title", "mime")
        rows = [
            (doc_id, source, kind, path, title, mime, _folder(view, source, path, url))
            for doc_id, source, kind, path, url, title, mime in rows_of(view.graph.documents, *columns)
        ]
        projects = {folder for _, _, type_, _, _, _, folder in rows if source_kind(type_).projects}
        places = places_in_house(view.manifest.sources)
        configuring = _configuring((source, mime) for _, source, _, _, _, mime, _ in rows)
        return {
            doc_id: DocumentView(
                self._standing(
                    view,
                    source,
                    kind,
                    posixpath.join(places.get(source, ""), path),
                    mime,
                    folder in projects or source in configuring,
                ),
                folder,
                path or title,
            )
            for doc_id, source, kind, path, title, mime, folder in rows
        }

    def _standing(self, view: View, source: str, kind: str, path: str, mime: str, beside: bool) -> Authority:
        """``beside``: in the folder of a Compose project, where a text speaks of that project, or in a source
        that configures."""
        if stance_of(kind, mime) is Stance.RUNS:
            return Authority.RUNS
        if is_example_path(path):
            return Authority.OTHER
        if stance_of(kind, mime).of_a_time:
            return Authority.RECORD
        if is_code(mime) or unit_of(path) is not None:
            return Authority.OTHER if SET_ASIDE.search(path) else Authority.CONFIG
        entry = view.manifest.sources.get(source)
        of_vendor = entry is not None and not self._vendor_tags.isdisjoint(entry.tags)
        if not self._ownership.owns(view, source) and (of_vendor or not beside):
            return Authority.OTHER
        return Authority.RECORD if OF_A_DAY.search(path) else Authority.HOUSE


#: A source configures if so much of its documents does: the texts among them are the house's own.
_MIN_CONFIGURING = 0.2


def _configuring(documents: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The sources, out of (source, content type), that hold configuration beside texts."""
    held = [(source, is_code(mime)) for source, mime in documents]
    every, code = Counter(s for s, _ in held), Counter(s for s, configures in held if configures)
    return frozenset(s for s, n in code.items() if n >= _MIN_CONFIGURING * every[s])


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


#: So many files of configuration are read within a moment.
_FEW_FILES = 300


@dataclass
class _HouseDrift:
    """What drifted in one view, found as it is asked for."""

    namespace: str
    graph: Graph
    house: ServiceIndex
    config: ConfigEntries
    documents: Mapping[str, DocumentView]
    sources: frozenset[str]
    read: Read

    @cached_property
    def all(self) -> tuple[Drift, ...]:
        from taboot_pipelines.retrieval.drift.containers import unanswered_urls

        urls = unanswered_urls(self.house, self.config)
        return tuple(sorted([*self.with_values_of(self.documents), *urls], key=lambda d: d.order))

    def beside_an_answer(self, doc_ids: Collection[str]) -> tuple[Drift, ...]:
        """What edges say, and of a house of few files the values of these documents."""
        if not self._is_small:
            return self._certain
        return self.with_values_of([i for i in doc_ids if i in self.documents])

    @cached_property
    def _is_small(self) -> bool:
        return sum(d.standing is Authority.CONFIG for d in self.documents.values()) <= _FEW_FILES

    @cached_property
    def _said_by_edges(self) -> frozenset[tuple[DriftKind, str, int]]:
        return frozenset((d.kind, p.doc_id, p.line) for d in self.by_edges for p in d.sides[0].places)

    def with_values_of(self, doc_ids: Iterable[str]) -> tuple[Drift, ...]:
        said = self._said_by_edges  # is known already
        differing = [
            drift
            for doc_id in doc_ids
            for drift in self._differing(doc_id)
            if all((drift.kind, p.doc_id, p.line) not in said for p in drift.sides[0].places)
        ]
        if not differing:
            return self._certain
        return tuple(sorted([*self._certain, *differing], key=lambda d: d.order))

    @cached_property
    def _certain(self) -> tuple[Drift, ...]:
        return tuple(d for d in self.by_edges if not d.supposed)

    @cached_property
    def by_edges(self) -> tuple[Drift, ...]:
        graph, text = self.graph, self.house.text
        return find_drift(
            self.namespace,
            graph.edges,
            graph.nodes,
            self.documents,
            text,
            self._running_otherwise,
            self._listening,
        )

    def _listening(self, service: Service) -> Mapping[int, StatedSpan]:
        from taboot_pipelines.retrieval.drift.containers import listening

        known = self.house.with_key(service.key)
        return listening(self.config, known) if known is not None else {}

    def _running_otherwise(self, declared: Declared) -> Iterable[Drift]:
        if all(d.standing is not Authority.RUNS for d in self.documents.values()):
            return ()
        from taboot_pipelines.retrieval.drift.running import running_otherwise

        return running_otherwise(self.graph, self.house, self.config, self.documents, self.sources, declared)

    @cached_property
    def _declared(self) -> DeclaredValues:
        from taboot_pipelines.retrieval.drift.declared_values import declared_values

        return declared_values(self.house, self.config, self.documents, self.read)

    def _differing(self, doc_id: str) -> Iterator[Drift]:
        """The values of a document that configuration has others for. Texts of a day are left out: they are
        right for their day."""
        document = self.documents[doc_id]
        if document.standing is Authority.HOUSE:
            from taboot_pipelines.retrieval.drift.value_drift import value_drift

            path, text = self.house.documents[doc_id].path, self.house.text(doc_id)
            yield from value_drift(document, doc_id, path, text, self._declared)


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
                doc_id=first.doc_id,
                url=view.document_url(first.doc_id),
                line=first.line,
                quote=_quoted(explanations, first),
            )
            for side in found.sides
            for first in side.places[:1]
        ),
        record=found.record,
        as_of=found.as_of,
    )


def _quoted(explanations: Explanations, place: StatedSpan) -> Quote | None:
    if not place.edge_id and place.start == place.end:
        return None
    try:
        if place.edge_id:
            return explanations.explain(place.edge_id).quotes[0]
        return explanations.quote(place.doc_id, place.start, place.end)
    except TabootError as error:
        if error.code not in _NO_QUOTE:
            raise
        return None
