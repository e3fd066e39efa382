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
from collections.abc import Collection, Iterator, Mapping

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import Basis, check_edge, check_node, is_hostname, is_ip, is_public
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    NodeRef,
    Problem,
    SourceFacts,
    UnitSpec,
)

_METHOD = "elasticsearch_nodes"
#: Groups of hits and hits begin with their window, parts of files have a ``#``.
_NO_CLUSTER = re.compile(r"\d{4}-\d{2}-\d{2}T|untimed/|.*#", re.DOTALL)
_PORT = re.compile(r":([0-9]{1,5})$")


class ElasticsearchExtractor:
    """Hosts and services of clusters; a unit is an answer that was recorded or read."""

    name = "elasticsearch"
    version = "1"

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
        text = view.read(path)
        try:
            said = parse(text) if text else None
        except TabootError as error:
            return Interpretation((), (), problems=(Problem(path, error.code, error.message),))
        cluster = None if said is None else said.at("cluster_name")
        if said is None or cluster is None or not said.members("nodes"):
            return Interpretation((), ())
        claims = _Claims(path, cluster, source)
        for node in said.members("nodes").values():
            claims.add(node)
        return Interpretation(
            tuple(claims.nodes.values()), tuple(claims.edges.values()), problems=tuple(claims.problems)
        )


class _Claims:
    def __init__(self, path: str, cluster: Value, source: SourceFacts) -> None:
        self._path = path
        self.nodes: dict[NodeRef, NodeClaim] = {}
        self.edges: dict[tuple[object, ...], EdgeClaim] = {}
        self.problems: list[Problem] = []
        name = cluster.string()
        self._service = NodeRef("Service", (f"{source.source_id}/{name}", name), name)
        self._cluster = cluster
        self._known = self._claim(self._service, cluster, {"protocol": "http"})

    def add(self, node: Value) -> None:
        """What one node states."""
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
            self.problems.append(
                Problem(self._path, "E_UNRESOLVED", "A node of the cluster has no host name.")
            )
            return
        hostname = named.string().lower()
        host = NodeRef("Host", (hostname,), hostname)
        address = node.at("ip")
        properties = {}
        if address is not None and is_ip(address.string()):
            properties["ip"] = address.string().lower()
        if system := re.sub(r"[^a-z0-9_]+", "_", node.string("os", "name").lower()).strip("_"):
            properties["osType"] = system
        if not self._claim(host, named, properties):
            return
        if self._known and (version := node.string("version")):
            self._claim(self._service, self._cluster, {"protocol": "http", "version": version})
        if "ip" in properties and address is not None:
            self._resolve(host, address)
        for publishing in self._publishing(node):
            self._bind(host, publishing)

    @staticmethod
    def _publishing(node: Value) -> Iterator[Value]:
        for where in (("http", "publish_address"), ("transport_address",)):
            if (value := node.at(*where)) is not None:
                yield value

    def _resolve(self, host: NodeRef, address: Value) -> None:
        text = address.string()
        normal = str(ipaddress.ip_address(text))
        ip = NodeRef("IP", (normal,), normal)
        if self._claim(ip, address, {"isPublic": is_public(normal)}):
            record = "A" if ipaddress.ip_address(text).version == 4 else "AAAA"
            basis = Basis.BYTES if normal == text else Basis.NORMALIZED
            self._edge("RESOLVES_TO", host, ip, address, {"recordType": record}, basis)

    def _bind(self, host: NodeRef, publishing: Value) -> None:
        match = _PORT.search(publishing.string())
        port = int(match[1]) if match is not None else 0
        if self._known and 1 <= port <= 65_535:
            said = {"port": port, "protocol": "tcp"}
            self._edge("BINDS", self._service, host, publishing, said, Basis.DERIVED)

    def _claim(self, node: NodeRef, value: Value, properties: Mapping[str, object]) -> bool:
        """Claim a node; returns False for one that the model does not know."""
        try:
            check_node(node.label, node.key, properties)
        except TabootError:
            self.problems.append(Problem(self._path, "E_UNRESOLVED", f"A {node.label} has no valid name."))
            return False
        self.nodes[node] = NodeClaim(node, self._evidence(value), properties, declared=node.label != "IP")
        return True

    def _edge(
        self,
        type_: str,
        start: NodeRef,
        end: NodeRef,
        value: Value,
        properties: Mapping[str, object],
        end_basis: Basis,
    ) -> None:
        check_edge(type_, start.label, end.label, properties, 1.0)
        key = (type_, start, end, properties.get("port"), properties.get("recordType"))
        self.edges.setdefault(
            key,
            EdgeClaim(
                type_,
                start,
                end,
                self._evidence(value),
                _METHOD,
                start_basis=Basis.DERIVED,
                end_basis=end_basis,
                properties=properties,
            ),
        )

    def _evidence(self, value: Value) -> Evidence:
        """The content of a string, without its quotes."""
        return Evidence(self._path, value.start + 1, value.end - 1)
