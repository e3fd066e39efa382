"""Drift between what runs and what is declared: the dumps of a view, and where its configuration says what.

A module of its own, since only a house with such dumps has a use for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

from taboot_pipelines.knowledge.drift.declared import Declared
from taboot_pipelines.knowledge.drift.facts import Authority, DocumentView, Drift, StatedSpan
from taboot_pipelines.knowledge.drift.running import Dump, running_drift
from taboot_pipelines.model.graph import RUNNING_METHOD
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval.graph import Graph
from taboot_pipelines.retrieval.queries.config_files import ConfigEntries
from taboot_pipelines.retrieval.queries.service_index import ServiceIndex

_NGINX = "text/x-nginx-conf"


def running_otherwise(
    graph: Graph,
    house: ServiceIndex,
    config: ConfigEntries,
    documents: Mapping[str, DocumentView],
    sources: frozenset[str],
    declared: Declared,
) -> Iterator[Drift]:
    """What runs otherwise than it is declared; ``sources``: the names of all sources."""
    hosts = _hosts(graph, house)
    dumps = []
    for doc_id, date, since in rows_of(graph.documents, "doc_id", "date", "since"):
        if documents[doc_id].standing is Authority.RUNS:
            known = house.documents[doc_id]
            place = hosts.get(known.source, known.source)
            name = documents[doc_id].name
            text = house.text(doc_id)
            dumps.append(Dump(doc_id, known.path, name, place, known.source in hosts, date or since, text))

    def places(key: str, field: str, text: str) -> StatedSpan | None:
        service = house.with_key(key)
        said = [
            entry.cite
            for entry in (config.of_service(service) if service is not None else ())
            if len(path := entry.value.path) > 2
            and path[2] == (field or path[2])
            and text in (*path, *_words(entry.value.value))
        ]
        # A list is a value too, as the whole of its items.
        at = min(said, key=lambda c: c.end - c.start, default=None) if field else next(iter(said), None)
        return None if at is None else StatedSpan(at.doc_id, at.line, at.start, at.end)

    confs = {
        d.doc_id: (d.path, house.text(d.doc_id))
        for d in house.documents.values()
        if d.mime == _NGINX and documents[d.doc_id].standing is Authority.CONFIG
    }
    return running_drift(declared, dumps, sources, places, confs)


def _words(value: str) -> list[str]:
    """A value, nothing, and the parts of what a mount is written as."""
    return ["", value, *value.split(":")]


def _hosts(graph: Graph, house: ServiceIndex) -> dict[str, str]:
    """The machine that a source of dumps names, by the source."""
    edges = graph.edges
    stated = pc.and_(
        pc.starts_with(edges.column("extraction_method"), RUNNING_METHOD),
        pc.equal(edges.column("end_label"), "Host"),
    )
    return {
        house.documents[doc_id].source: key
        for doc_id, key in rows_of(edges.filter(stated), "doc_id", "end_key")
        if doc_id in house.documents
    }
