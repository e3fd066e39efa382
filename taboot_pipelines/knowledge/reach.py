"""What the host that a service asks for is: the service that answers to the name where both can meet
(``graph-mapping``, "Between projects").

A document says that a service is on networks, by which names it answers there, which ports of the machine it
publishes, and which hosts it asks for. These statements are joined here, over all documents of a namespace,
by a function of the statements alone: order and history never matter, and what goes undoes what it was the
ground of.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from taboot_pipelines.knowledge.names import NO_MERGES, Merges, merged_key
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import RUNNING_METHOD, EdgeSource
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.stores import STORES
from taboot_pipelines.model.tables import REACHES, rows_of

#: Columns of ``tables.OBSERVATIONS`` that :func:`reach_rows` needs.
COLUMNS = (
    *("doc_id", "kind", "type", "start_label", "start_key", "end_label", "end_key", "end_name", "properties"),
    *("source", "aliases", "run_id", "blob_sha256", "method"),
    *("span_start", "span_end", "byte_start", "byte_end", "line"),
)
#: Edges that say where something is reached.
EDGES = ("BINDS", "BUILDS", "RESOLVES_TO", "ROUTES_TO")
#: Names by which containers reach the machine that they run on.
_MACHINE = frozenset(
    ids.host_id(name)
    for name in ("host.docker.internal", "gateway.docker.internal", "host.containers.internal")
)
#: Protocols that proxies route by the name of the host, and the ports of their own.
_WEB = {"http": 80, "https": 443}
_LOOPBACK = frozenset(ids.host_id(name) for name in ("localhost", "127.0.0.1", "::1"))
#: Words that make the name of a store's image that of a tool for it.
_TOOLS = frozenset(
    [
        *("admin", "backup", "backups", "bak", "cli", "client", "commander", "connect", "console"),
        *("dashboard", "dashboards", "exporter", "express", "gui", "insight", "manager", "operator"),
        *("proxy", "tools", "ui"),
    ]
)
#: Schemes of the protocols of such software; what stands before or behind a ``+`` does not count.
_STORE_SCHEMES = STORES | frozenset(
    {"amqp", "amqps", "mqtt", "mqtts", "mysql2", "pg", "psql", "pgsql", "rediss", "sqlserver"}
)


def is_store_scheme(scheme: str | None) -> bool:
    """Whether a protocol is that of software that keeps data for others."""
    return scheme is not None and not _STORE_SCHEMES.isdisjoint(scheme.lower().split("+"))


def is_store_image(name: str) -> bool:
    """Whether an image, by its name, is software that keeps data for others."""
    last = name.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()
    words = set(re.split(r"[^a-z0-9]+", last))
    return not words.isdisjoint(STORES) and words.isdisjoint(_TOOLS)


def reach_rows(observations: Iterable[Mapping[str, Any]]) -> pa.Table:
    """``tables.REACHES`` of observations, each row once, ascending."""
    rows = set()
    for o in observations:
        for kind, place, names, port in _said(o):
            ground = "" if kind in ("use", "store", "address") else _ground(o)
            doc_id = o["doc_id"]
            rows.add((ids.doc_bucket(doc_id), doc_id, kind, o["start_key"], place, names, port, ground))
    ordered = sorted(rows, key=lambda row: (*row[:6], row[6] or 0, row[7]))
    return pa.Table.from_pylist([dict(zip(REACHES.names, row, strict=True)) for row in ordered], REACHES)


def _said(o: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...], int | None]]:
    """(kind, place, names, port) of an observation."""
    if o["kind"] == "reach":
        yield "on", o["end_key"], tuple(o["aliases"]), None
    elif o["kind"] == "use":
        said = json.loads(o["properties"])
        yield "use", said.get("protocol") or "", (o["end_name"], *o["aliases"]), said.get("port")
    elif o["method"].startswith(RUNNING_METHOD):
        return  # what runs says nothing of services, which are what is declared
    elif o["kind"] == "edge" and o["source"] in (EdgeSource.TIER_A, EdgeSource.STRUCTURED):
        if o["type"] == "BINDS" and (place := _place(o["start_key"])):
            said = json.loads(o["properties"])
            address = said.get("hostIp") or (o["end_name"] if o["end_label"] == "IP" else "")
            yield "port", place, (address,) if address else (), said["port"]
        elif o["type"] == "BUILDS" and is_store_image(o["end_name"]):
            yield "store", "", (), None
        elif o["type"] == "RESOLVES_TO":
            yield "address", o["end_key"], (), None
        elif o["type"] == "ROUTES_TO" and o["end_label"] == "Service":
            said = json.loads(o["properties"])
            host = said.get("host")
            if host and said.get("path", "/") == "/":
                host = ids.open_host(_place(o["end_key"]), host) if "${" in host else host
                yield "route", o["end_key"], (ids.host_id(host),), None


def _ground(o: Mapping[str, Any]) -> str:
    """The statement of an observation as one of the ``supports`` of a relation, with its document."""
    return canonical_json(
        {
            "run": o["run_id"],
            "blob": o["blob_sha256"],
            "start": o["byte_start"],
            "end": o["byte_end"],
            "line": o["line"],
            "span": [o["span_start"], o["span_end"]],
            "method": o["method"],
            "doc": o["doc_id"],
        }
    )


@lru_cache(maxsize=65536)
def _parts(key: str) -> tuple[str, str]:
    """Scope and name of a service."""
    scope, name = json.loads(key)
    return scope, name


def _place(key: str) -> str:
    """The machine, or the source, that a service's scope begins with; empty where none is known."""
    return _parts(key)[0].rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Answering:
    """The service that a host is. Unless ``reachable``, it has the name that was asked for, and the two
    cannot meet. ``network``: by whose name it is found; empty for a port of a machine. ``own``: of the
    asking service's project. ``ground``: the statements by which the two meet, as in ``supports``. ``made``:
    the host's name is one that the chart of a release made, as charts do."""

    key: str
    name: str
    reachable: bool
    own: bool
    store: bool
    network: str
    ground: tuple[str, ...]
    made: bool = False


class Reaches:
    """The statements of ``tables.REACHES``, to look up what hosts are; services that were merged are one."""

    def __init__(self, rows: pa.Table, merges: Merges = NO_MERGES) -> None:
        self._merges = merges
        #: {service: {network: the statement that it is on it}}
        self._on: dict[str, dict[str, str]] = defaultdict(dict)
        #: {host: {service: networks on which it is called so}}; hosts by ``ids.host_id``.
        self._named: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        #: {(machine, port): {service: (the address, the statement)}}
        self._ports: dict[tuple[str, int], dict[str, set[tuple[str, str]]]] = defaultdict(
            lambda: defaultdict(set)
        )
        #: {host: machines}
        self._machines: dict[str, set[str]] = defaultdict(set)
        self._stores: set[str] = set()
        #: {host: {service that all of it is routed to: the statement}}
        self._routed: dict[str, dict[str, str]] = defaultdict(dict)
        addresses: dict[str, set[str]] = defaultdict(set)
        columns = ("kind", "key", "place", "names", "port", "ground")
        for kind, key, place, names, port, ground in rows_of(rows, *columns):
            if kind == "on":
                held = self._on[key].get(place)
                self._on[key][place] = ground if held is None else min(held, ground)
                network = place.rpartition("/")[2]
                for name in names:
                    # A container is called by its name, and by that and the network's.
                    for host in (name, f"{name}.{network}"):
                        self._named[ids.host_id(host)][key].add(place)
            elif kind == "port":
                self._ports[place, port][key].add((names[0] if names else "", ground))
                self._machines[ids.host_id(place)].add(place)
            elif kind == "address":
                addresses[key].add(place)
            elif kind == "store":
                self._stores.add(key)
            elif kind == "route":
                held = self._routed[names[0]].get(place)
                self._routed[names[0]][place] = ground if held is None else min(held, ground)
        for machine, _ in list(self._ports):
            for address in addresses.get(machine, ()):
                self._machines[ids.host_id(address)].add(machine)

    def answering(
        self, key: str, host: str, port: int | None, scheme: str, patterns: Iterable[str] = ()
    ) -> Answering | None:
        """What the service ``key`` asks for by ``host`` (``ids.host_id``), ``port`` and ``scheme`` (empty
        where none is written); None if nobody can say. ``patterns``: of ``records.Use``, for what is nobody's
        name."""
        found = self._by_name(key, host)
        if found is None:
            released = (self._by_name(key, pattern) for pattern in patterns)
            made = next((answer for answer in released if answer is not None), None)
            found = None if made is None else replace(made, made=True)
        if found is None and port is not None:
            found = self._by_port(key, host, port)
        if found is None and scheme in _WEB and port in (None, _WEB[scheme]):
            found = self._by_route(key, host)
        return None if found is None or self._same(found.key, key) else found

    def _by_name(self, key: str, host: str) -> Answering | None:
        mine = self._on.get(key, {})
        candidates = self._named.get(host, {})
        scope, _ = _parts(key)
        own = [k for k in candidates if _parts(k)[0] == scope]
        met = [k for k in own or candidates if not mine.keys().isdisjoint(candidates[k])]
        if self._is_one(met):
            service = min(met)
            network = min(mine.keys() & candidates[service])
            ground = (mine[network], self._on[service][network])
            return self._answer(service, network, ground, own=bool(own), reachable=True)
        near = [k for k in own or candidates if _place(k) == _place(key)]
        if met or not self._is_one(near):
            return None
        return self._answer(min(near), "", (), own=bool(own), reachable=False)

    def _by_port(self, key: str, host: str, port: int) -> Answering | None:
        inside = host in _LOOPBACK
        found: dict[str, str] = {}
        for machine in self._machines_of(key, host):
            for service, bound in self._ports.get((machine, port), {}).items():
                open_ = {ground for address, ground in bound if inside or not _is_loopback(address)}
                if open_:
                    found[service] = min(open_)
        if not self._is_one(found):
            return None
        service = min(found)
        own = _parts(service)[0] == _parts(key)[0]
        return self._answer(service, "", (found[service],), own=own, reachable=True)

    def _by_route(self, key: str, host: str) -> Answering | None:
        """The service that a proxy leads a public name to; one of the own project, or known by the own name
        alone, is one's own address."""
        led = {
            merged_key(self._merges, "Service", to): ground
            for to, ground in self._routed.get(host, {}).items()
        }
        own, name = _parts(merged_key(self._merges, "Service", key))
        if len(led) != 1 or any(
            _parts(service) in ((own, _parts(service)[1]), ("", name)) for service in led
        ):
            return None
        [(service, ground)] = led.items()
        # A proxy leads to pages and interfaces, whatever runs beside them.
        return replace(self._answer(service, "", (ground,), own=False, reachable=True), store=False)

    def _machines_of(self, key: str, host: str) -> set[str]:
        """The machines that a host means where a service asks for it."""
        here = _place(key)
        if host in _MACHINE:
            return {here}
        if host in _LOOPBACK:
            # Within a container it is the container itself.
            return {here} if f"{here}/host" in self._on.get(key, {}) else set()
        return self._machines.get(host, set())

    def _answer(
        self, service: str, network: str, ground: tuple[str, ...], *, own: bool, reachable: bool
    ) -> Answering:
        return Answering(
            service,
            _parts(service)[1],
            reachable,
            own,
            service in self._stores,
            network.rpartition("/")[2],
            tuple(sorted(set(ground))),
        )

    def _is_one(self, services: Iterable[str]) -> bool:
        return len({merged_key(self._merges, "Service", key) for key in services}) == 1

    def _same(self, one: str, other: str) -> bool:
        return self._is_one((one, other))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def moved_uses(before: Reaches, after: Reaches, kept: pa.Table) -> set[str]:
    """The documents of ``kept`` (rows of ``tables.REACHES``) that ask for a host which is something else
    now."""
    moved: set[str] = set()
    columns = ("doc_id", "kind", "key", "place", "names", "port")
    for doc_id, kind, key, place, names, port in rows_of(kept, *columns):
        if kind == "use" and doc_id not in moved:
            asked = (key, names[0], port, place, names[1:])
            if before.answering(*asked) != after.answering(*asked):
                moved.add(doc_id)
    return moved
