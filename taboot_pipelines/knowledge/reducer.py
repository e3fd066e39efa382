"""The reducer: many claims about one entity, one truth (rule ``deterministic-reducer``).

Deterministic and independent of order: each property is that of the claim with the highest rank (what is
stated before what a chat proposes, then source priority, then specificity, then recency, then id).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from taboot_pipelines.knowledge.names import BARE, NO_MERGES, Merges, bare_key, bare_label, merged_key
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import NODES, PRIORITY, EdgeSource
from taboot_pipelines.model.ids import canonical_json

REDUCER_VERSION = "4"


#: Before the source of a claim that a document makes which only proposes (``DocumentInput.proposed``).
PROPOSED = "proposed:"


class Claim(NamedTuple):
    """What documents say of one node, by the key as observed. ``source``: one of ``EdgeSource``, behind
    :data:`PROPOSED` where it is only proposed. ``properties``: canonical JSON."""

    label: str
    observed_key: str
    name: str
    source: str
    confidence: float
    properties: str


class Latest(NamedTuple):
    """Of the documents that make a claim, the one that speaks for it: the latest, of equal ones the last id.

    ``recency``: the document's own date, else its bytes' ``since`` (microseconds).
    """

    recency: int
    doc_id: str


class Support(NamedTuple):
    """Who makes a claim: how many documents, and the latest of them.

    That is all of them that the reducer needs, so an entity that thousands of documents mention in the same
    words costs no more than one that a single document mentions.
    """

    documents: int
    latest: Latest


#: The claims about some entities, with their support.
Supported = Mapping[Claim, Support]
#: A document with its date, and what it claims.
Claims = Iterable[tuple[Latest, Collection[Claim]]]


def supports(claims: Claims) -> dict[Claim, Support]:
    """The support of each claim by these documents; each document counts once for a claim."""
    found: dict[Claim, Support] = {}
    for latest, made in claims:
        for claim in set(made):
            before = found.get(claim)
            found[claim] = (
                Support(1, latest)
                if before is None
                else Support(before.documents + 1, max(before.latest, latest))
            )
    return found


def supports_after(
    before: Supported,
    removed: Claims,
    added: Claims,
    find_latest: Callable[[Collection[Claim]], Mapping[Claim, Latest]],
) -> dict[Claim, Support]:
    """The support of the claims when some documents no longer make theirs and others do.

    ``find_latest`` looks through all documents, as they are after the change. It is asked only for claims
    whose latest document makes them no more, while others that are known by number alone still do.
    """
    gone = supports(removed)
    fewer = Counter({claim: support.documents for claim, support in gone.items()})
    new = supports(added)
    after = dict(before)
    unsettled: list[Claim] = []
    for claim in gone.keys() | new.keys():
        held, more = before.get(claim), new.get(claim)
        kept = 0 if held is None else held.documents - fewer[claim]
        candidates = [] if more is None else [more.latest]
        if held is not None and kept:
            if claim not in gone or held.latest != gone[claim].latest:
                candidates.append(held.latest)
            elif more is None or more.latest < held.latest:
                unsettled.append(claim)
        documents = kept + (0 if more is None else more.documents)
        if documents:
            # Of an unsettled claim the latest is put in below.
            after[claim] = Support(documents, max(candidates, default=Latest(0, "")))
        else:
            after.pop(claim, None)
    if unsettled:
        for claim, latest in find_latest(unsettled).items():
            after[claim] = after[claim]._replace(latest=latest)
    return after


class Correction(NamedTuple):
    """A field of an entity as a person said it is. ``key``: as it was when that was said; ``value``:
    canonical JSON, ``null`` for a field that has no value. Of two of one field the one with the higher number
    counts."""

    number: int
    label: str
    key: str
    field: str
    value: str


def reduce_entity(
    label: str, key: str, claims: Supported, corrections: Iterable[Correction] = ()
) -> dict[str, Any]:
    """A row of ``tables.ENTITIES`` (without ``bucket``) from at least one claim. A correction is no claim: it
    wins over all of them, and says nothing of whether the entity exists.
    """
    properties: dict[str, tuple[tuple[Any, ...], Any]] = {}
    for claim, support in claims.items():
        if claim.properties == "{}":
            continue
        for field, value in json.loads(claim.properties).items():
            rank = (*_rank(claim, support), canonical_json(value))
            if field not in properties or rank > properties[field][0]:
                properties[field] = (rank, value)
    for correction in sorted(corrections):
        properties[correction.field] = ((), json.loads(correction.value))
        if correction.value == "null":
            del properties[correction.field]
    parts = json.loads(key) if len(NODES[label].key) > 1 else [key]
    if label == "Service":
        name = parts[1]
    else:
        # What speaks of the entity itself knows it better than what speaks of one that was merged into it,
        # and a claim with properties better than one that only refers to it.
        name = max(
            (
                c.observed_key == key,
                not c.source.startswith(PROPOSED),
                c.properties != "{}",
                *_rank(c, s),
                c.name,
            )
            for c, s in claims.items()
        )[-1]
    scope = parts[0] if label == "Service" else None
    if label != "Service" and "declared" in NODES[label].properties and key == bare_key(name, label):
        # A name in a text, and nothing declared that it could mean.
        properties.setdefault("declared", ((), False))
    chosen = canonical_json({k: v for k, (_, v) in sorted(properties.items())})
    return {
        "label": label,
        "key": key,
        "name": name,
        "scope": scope,
        "properties": chosen,
        "position": ids.position(key),
        "fingerprint": entity_fingerprint(label, key, name, scope, chosen),
        "claims": canonical_json(
            [[*claim[1:], support.documents, *support.latest] for claim, support in sorted(claims.items())]
        ),
    }


def entity_fingerprint(label: str, key: str, name: str, scope: str | None, properties: str) -> str:
    """What changes with everything that readers see of an entity: 32 hex digits."""
    return ids.digest(label, key, name, scope, properties)[:32]


def _rank(claim: Claim, support: Support) -> tuple[Any, ...]:
    source = claim.source.removeprefix(PROPOSED)
    # A proposal ranks beneath all that is stated.
    return (source == claim.source, PRIORITY[EdgeSource(source)], claim.confidence, *support.latest)


def load_claims(label: str, text: str) -> dict[Claim, Support]:
    """The claims of an entity, from the column ``claims`` of ``tables.ENTITIES``."""
    return {
        Claim(label, *claim): Support(documents, Latest(recency, doc_id))
        for *claim, documents, recency, doc_id in json.loads(text)
    }


def resolve_key(label: str, key: str, resolved: Mapping[str, str], merges: Merges = NO_MERGES) -> str:
    """The key that a node observed under ``key`` has after resolution and merging."""
    meant = resolved.get(key) if label in BARE else None
    return merged_key(merges, label, key if meant is None else meant)


#: A node: its label, and its key as one string.
Node = tuple[str, str]


def touched_entities(
    nodes: Iterable[Node],
    before: Mapping[str, str],
    resolved: Mapping[str, str],
    merges_before: Merges = NO_MERGES,
    merges: Merges = NO_MERGES,
) -> set[Node]:
    """The entities to reduce again when the claims about ``nodes``, as observed, have changed.

    ``before`` and ``resolved``: {key of a bare name: key of the node it means}, as it was and as it is; the
    merges likewise. A node touches what it was resolved to, what it is resolved to now, and itself; so does
    every bare name and every merged node of which that differs.
    """
    touched = {node for node in nodes if node[0] != "Document"}
    touched |= {
        (bare_label(bare), bare)
        for bare in before.keys() | resolved.keys()
        if before.get(bare) != resolved.get(bare)
    }
    touched |= {
        node
        for node in merges_before.keys() | merges.keys()
        if merged_key(merges_before, *node) != merged_key(merges, *node)
    }
    for label, key in list(touched):
        touched |= {
            (label, resolve_key(label, key, before, merges_before)),
            (label, resolve_key(label, key, resolved, merges)),
        }
    return touched


def reduce_entities(
    claims: Supported,
    resolved: Mapping[str, str],
    merges: Merges = NO_MERGES,
    corrections: Iterable[Correction] = (),
) -> list[dict[str, Any]]:
    """Rows of ``tables.ENTITIES``, ordered by label and key, from claims and corrections in any order."""
    by_node: dict[Node, dict[Claim, Support]] = {}
    for claim, support in claims.items():
        node = (claim.label, resolve_key(claim.label, claim.observed_key, resolved, merges))
        by_node.setdefault(node, {})[claim] = support
    corrected: dict[Node, list[Correction]] = {}
    for c in corrections:
        node = (c.label, resolve_key(c.label, c.key, resolved, merges))
        corrected.setdefault(node, []).append(c)
    return [
        {
            "bucket": ids.bucket(key),
            **reduce_entity(label, key, by_node[label, key], corrected.get((label, key), ())),
        }
        for label, key in sorted(by_node)
    ]
