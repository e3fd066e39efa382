"""What a name means in a namespace (rule ``deterministic-reducer``; ``graph-mapping``, "Resolving a bare
name").

A function of the declarations alone: order and history never matter, and a second candidate undoes the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model import ids
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.model.tables import DECLARATIONS, NAMES, rows_of

# --- Merges: two entities that a person declared to be one (rule ``deterministic-reducer``)
#
# A merge resolves the key of one entity to that of another of the same label. Merges are applied in the
# order in which they were decided: one into an entity that was itself merged leads on to where that one
# went, and one that would close a circle joins what is joined already, and changes nothing.


class Merged(NamedTuple):
    """What an entity was merged into, at the end of the chain: its key, and its name."""

    key: str
    name: str


#: {(label, key): what it was merged into}; what was not merged is not in it.
Merges = Mapping[tuple[str, str], Merged]
NO_MERGES: Merges = MappingProxyType({})


def merges_of(decisions: pa.Table) -> dict[tuple[str, str], Merged]:
    """The merges of ``tables.DECISIONS``."""
    parents: dict[tuple[str, str], Merged] = {}

    def root(label: str, key: str) -> Merged | None:
        found = None
        while (label, key) in parents:
            found = parents[label, key]
            key = found.key
        return found

    rows = decisions.filter(pc.equal(decisions.column("kind"), "merge")).sort_by("number")
    for label, key, into, name in rows_of(rows, "label", "key", "end_key", "end_name"):
        start, end = root(label, key), root(label, into) or Merged(into, name)
        first = key if start is None else start.key
        if first != end.key:
            parents[label, first] = end
    return {(label, key): found for label, key in parents if (found := root(label, key)) is not None}


def merged_key(merges: Merges, label: str, key: str) -> str:
    """The key of an entity after merging."""
    found = merges.get((label, key))
    return key if found is None else found.key


#: Labels of which a node may be known by its name alone, which then means the declared one of that name.
BARE = ("Service", "Container", "Network", "VPNTunnel")
#: Labels whose declared names are kept.
NAMED = frozenset({*BARE, "Host"})


@dataclass(frozen=True, slots=True)
class Meaning:
    """The nodes that a structured source declares under one name, as keys in ascending order."""

    services: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    tunnels: tuple[str, ...] = ()
    #: The containers of the one service that it means.
    own: tuple[str, ...] = ()

    @property
    def service(self) -> str | None:
        """The one service it means, by its name or its ``container_name``."""
        return _one(self.services)

    def candidates(self, label: str) -> tuple[str, ...]:
        """The nodes of a label that the bare name may stand for."""
        match label:
            case "Container":
                return self.containers or self.own
            case "Network":
                return self.networks
            case "VPNTunnel":
                return self.tunnels
            case _:
                return self.services

    @property
    def is_mentioned(self) -> bool:
        """Whether the name, where a text holds it, may be a mention of what it means."""
        return bool(self.services or self.containers or self.hosts)

    def targets(self, name: str) -> tuple[NodeRef, ...]:
        """What a mention of the name points to, by the name as observed; an ambiguous container name points
        nowhere.

        An ambiguous service name is kept here and dropped by the resolution, so that a document's rows do not
        change when the meaning of a name it holds does.
        """
        found = []
        if self.services:
            found.append(NodeRef("Service", ("", name), name))
        elif len(self.containers) == 1:
            found.append(NodeRef("Container", (self.containers[0],), name))
        if self.hosts:
            found.append(NodeRef("Host", (self.hosts[0],), name))
        return tuple(found)


def meanings(declared: pa.Table, merges: Merges = NO_MERGES, *, namespace: str = "") -> dict[str, Meaning]:
    """{name: meaning} of ``tables.DECLARATIONS`` rows; nodes that were merged are one.

    Who declares a service by its name alone declares none beside those of that name. The ids of a service's
    containers are those of the ``namespace``.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for name, label, key in rows_of(declared, "name", "label", "key"):
        found.setdefault(name, {}).setdefault(label, set()).add(merged_key(merges, label, key))
    for by in found.values():
        services = by.get("Service", set())
        scoped = {key for key in services if not _is_bare(key)}
        if scoped:
            by["Service"] = scoped
    containers = {key for by in found.values() for key in by.get("Container", ())}
    order = ("Service", "Container", "Host", "Network", "VPNTunnel")
    known = {}
    for name, by in sorted(found.items()):
        meaning = Meaning(*(tuple(sorted(by.get(label, ()))) for label in order))
        if meaning.service is not None and not meaning.containers:
            scope, service = json.loads(meaning.service)
            own = (ids.container_id(namespace, scope, service, index) for index in (1, 2))
            meaning = replace(meaning, own=tuple(key for key in own if key in containers))
        known[name] = meaning
    return known


def declarations(observations: Iterable[Mapping[str, Any]]) -> pa.Table:
    """``tables.DECLARATIONS`` of the observations of nodes that declare a name, each row once."""
    rows = set()
    for o in observations:
        if o["start_label"] in NAMED:
            node = (ids.doc_bucket(o["doc_id"]), o["doc_id"], o["start_label"], o["start_key"])
            rows.add((*node, o["start_name"], "name"))
            rows.update((*node, alias, "alias") for alias in o["aliases"])
    named = [dict(zip(DECLARATIONS.names, row, strict=True)) for row in sorted(rows)]
    return pa.Table.from_pylist(named, schema=DECLARATIONS)


def moved_names(before: Mapping[str, Meaning], after: Mapping[str, Meaning]) -> list[str]:
    """The names of which a mention points elsewhere than before: by nothing else a document's rows depend on
    a name.
    """

    def targets(known: Mapping[str, Meaning], name: str) -> tuple[NodeRef, ...]:
        return known[name].targets(name) if name in known else ()

    return sorted(
        name for name in before.keys() | after.keys() if targets(before, name) != targets(after, name)
    )


def bare_key(name: str, label: str = "Service") -> str:
    """The key of a node of which only the name is known."""
    return ids.node_key(ids.bare_key(label, name))


def bare_label(key: str) -> str:
    """The label of the node that has the key of a bare name."""
    return {"[": "Service", "/": "Network", ":": "VPNTunnel"}.get(key[:1], "Container")


def _is_bare(key: str) -> bool:
    return key.startswith('["",')


def names_table(known: Mapping[str, Meaning], merges: Merges = NO_MERGES) -> pa.Table:
    """``tables.NAMES``: for each declared name what the bare name stands for, and why; ascending by name and
    observed key."""
    rows = []
    for name, meaning in known.items():
        for label in BARE:
            found = meaning.candidates(label)
            if not found:
                continue
            what = f"{_CALLED[label]} of the namespace with this name"
            reason = f"the only {what}" if len(found) == 1 else f"ambiguous: {len(found)} {what}"
            decided = merges.get((label, bare_key(name, label)))
            if decided is not None:
                reason = "merged by a decision"
            rows.append(
                {
                    "name": name,
                    "observed_key": bare_key(name, label),
                    "resolved_key": _one(found) if decided is None else decided.key,
                    "reason": reason,
                    "candidates": list(found),
                }
            )
    return pa.Table.from_pylist(rows, schema=NAMES).sort_by(NAMES_ORDER)


#: The order of the rows of ``tables.NAMES``.
NAMES_ORDER = [("name", "ascending"), ("observed_key", "ascending")]
_CALLED = {"Service": "service", "Container": "container", "Network": "network", "VPNTunnel": "tunnel"}


def _one(found: tuple[str, ...]) -> str | None:
    return found[0] if len(found) == 1 else None


def resolutions(known: Mapping[str, Meaning], merges: Merges = NO_MERGES) -> dict[str, str]:
    """{key of a bare name: key of the node it means}; a merge of the bare name itself comes first."""
    found = {
        bare_key(name, label): key
        for name, meaning in known.items()
        for label in BARE
        if (key := _one(meaning.candidates(label))) is not None
    }
    return found | {key: merges[node].key for key in found if (node := (bare_label(key), key)) in merges}
