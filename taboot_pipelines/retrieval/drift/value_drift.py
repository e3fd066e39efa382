"""Drift of values: what a document says of a thing for which configuration has other values.

A module of its own, since what reads values out of texts takes long to load: who asks about configuration has
no use for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taboot_pipelines.knowledge.drift.facts import DocumentView, Drift, DriftKind, Side, StatedSpan
from taboot_pipelines.retrieval.drift.declared_values import DeclaredValues, Property, likeness
from taboot_pipelines.retrieval.drift.stated_values import Stated, stated_values
from taboot_pipelines.retrieval.queries.citations import listed

#: How many values that are declared are shown beside one that differs.
_SHOWN_VALUES = 4
_KINDS = {
    Property.PORT: DriftKind.PROSE_PORT,
    Property.IMAGE: DriftKind.PROSE_IMAGE,
    Property.ADDRESS: DriftKind.PROSE_ADDRESS,
    Property.VERSION: DriftKind.PROSE_VERSION,
    Property.HOST_NAME: DriftKind.PROSE_HOST_NAME,
    Property.NETWORK: DriftKind.PROSE_NETWORK,
    Property.SETTING: DriftKind.PROSE_SETTING,
}


def value_drift(
    document: DocumentView, doc_id: str, path: str, text: str, configured: DeclaredValues
) -> Iterator[Drift]:
    """The values of a document that configuration has others for, each once a thing."""
    found: dict[tuple[Property, str, str], list[Stated]] = {}
    for stated in stated_values(doc_id, path, document.folder, text, configured):
        if not stated.agrees:
            found.setdefault((stated.property, stated.name, stated.value), []).append(stated)
    for (property_, name, value), said in found.items():
        yield _differs(document, property_, name, value, said)


def _differs(
    document: DocumentView, property_: Property, name: str, value: str, said: Sequence[Stated]
) -> Drift:
    # What is most like it was changed, as like as not.
    held = sorted(
        {d.value: d for d in said[0].declared}.values(), key=lambda d: (-likeness(value, d.value), d.value)
    )
    declares = f"configuration declares {listed(sorted(d.value for d in held[:_SHOWN_VALUES]))}"
    called = f"{name}:{value}" if property_ is Property.IMAGE else f"{property_.value} {value} of {name}"
    stated = tuple(StatedSpan(s.doc_id, s.line, s.unit_start, s.unit_end) for s in said)
    declared = tuple(StatedSpan(d.doc_id, d.line, d.start, d.end) for d in held)
    return Drift(
        _KINDS[property_],
        "",
        "",
        name,
        f"{document.name} says {called}, but {declares}.",
        (Side(f"{document.name} says {value}", stands=stated), Side(declares, stands=declared)),
    )
