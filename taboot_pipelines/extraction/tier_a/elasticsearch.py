"""What a cluster of Elasticsearch or OpenSearch says of itself (``GET /_nodes``): the cluster is a service,
its nodes are hosts.

The service has the cluster's name and, as a Compose project's, a scope of the source and that name. It binds
the ports of HTTP and of the transport on each host, and a host resolves to its node's address. A host is
called by the node's ``host``, or by its name where that is an address. Indices are text only: they neither
run nor answer.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.model.graph import is_hostname, is_ip
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.records import Evidence, FileView, Interpretation, NodeRef, SourceFacts, UnitSpec

_METHOD = "elasticsearch_nodes"
#: Groups of hits and hits begin with their window, parts of files have a ``#``.
_NO_CLUSTER = re.compile(r"\d{4}-\d{2}-\d{2}T|untimed/|.*#", re.DOTALL)
_PORT = re.compile(r":([0-9]{1,5})$")


class ElasticsearchExtractor:
    """Hosts and services of clusters; a unit is an answer that was recorded or read."""

    name = "elasticsearch"
    version = "3"

    def units(self, paths: Collection[str]) -> list[UnitSpec]:
        """Every JSON that is no hit may be one about nodes."""
        return [
            UnitSpec(path, (path,))
            for path in sorted(set(paths))
            if path.lower().endswith(".json") and not _NO_CLUSTER.match(path)
        ]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """The claims of an answer about nodes; none of any other. Raises nothing but what the store behind
        ``view`` raises."""
        path = unit.files[0]
        texts = UnitTexts(view)
        text = texts.text(path)
        claims = ClaimBuilder(source, texts)
        try:
            said = parse(text) if text else None
        except TabootError as error:
            texts.problem(path, error.code, error.message)
            return claims.result()
        cluster = None if said is None else said.at("cluster_name")
        if said is not None and cluster is not None and said.members("nodes"):
            reading = _Reading(path, cluster, claims)
            for node in said.members("nodes").values():
                reading.node(node)
        return claims.result()


class _Reading:
    """One answer about the nodes of a cluster."""

    def __init__(self, path: str, cluster: Value, claims: ClaimBuilder) -> None:
        self._path = path
        self._claims = claims
        name = cluster.string()
        ref = NodeRef("Service", (f"{claims.source.source_id}/{name}", name), name)
        self._service = claims.node(ref, self._evidence(cluster), {"protocol": "http"}, declared=True)

    def node(self, node: Value) -> None:
        """Claim what one node states."""
        named = next(
            (
                value
                for member in ("host", "name")
                if (value := node.at(member)) is not None
                and is_hostname(value.string())
                and not is_ip(value.string())
            ),
            None,
        )
        if named is None:
            self._claims.texts.problem(self._path, "E_UNRESOLVED", "A node of the cluster has no host name.")
            return
        hostname = named.string().lower()
        address = node.at("ip")
        known = address is not None and is_ip(address.string())
        system = re.sub(r"[^a-z0-9_]+", "_", node.string("os", "name").lower()).strip("_")
        host = self._claims.node(
            NodeRef("Host", (hostname,), hostname),
            self._evidence(named),
            {"ip": address.string().lower() if address is not None and known else None, "osType": system},
            declared=True,
        )
        if self._service is not None and (version := node.string("version")):
            self._claims.amend(self._service, version=version)
        if address is not None and known:
            self._resolve(host, address)
        for where in (("http", "publish_address"), ("transport_address",)):
            if (value := node.at(*where)) is not None:
                self._bind(host, value)

    def _resolve(self, host: NodeRef | None, address: Value) -> None:
        where, written = self._evidence(address), address.string()
        parsed = ipaddress.ip_address(written)
        self._claims.edge(
            "RESOLVES_TO",
            host,
            self._claims.ip(str(parsed), where),
            where,
            _METHOD,
            written=written,
            recordType="A" if parsed.version == 4 else "AAAA",
        )

    def _bind(self, host: NodeRef | None, publishing: Value) -> None:
        match = _PORT.search(publishing.string())
        port = int(match[1]) if match is not None else 0
        if 1 <= port <= 65_535:
            where = self._evidence(publishing)
            self._claims.edge("BINDS", self._service, host, where, _METHOD, port=port, protocol="tcp")

    def _evidence(self, value: Value) -> Evidence:
        """The content of a string, without its quotes."""
        return Evidence(self._path, value.start + 1, value.end - 1)
