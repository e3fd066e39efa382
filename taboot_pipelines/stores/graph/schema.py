"""Constraints and indexes of the graph.

Every key starts with the namespace. Community edition only: no node keys, no property existence. A
relationship's ``edgeId`` is unique for its type: the id already covers the namespace.
"""

from __future__ import annotations

from dataclasses import dataclass

from taboot_pipelines.model.graph import EDGES, NODES

#: The node that says which snapshot a namespace's graph equals: outside the model, so that no reader of the
#: graph meets it.
WATERMARK = "_TabootWatermark"


@dataclass(frozen=True, slots=True)
class Rule:
    """A uniqueness constraint or a range index; ``create`` does nothing if the rule is there."""

    name: str
    unique: bool
    relationship: bool
    label: str
    properties: tuple[str, ...]

    @property
    def create(self) -> str:
        listed = ", ".join(f"x.{p}" for p in self.properties)
        pattern = f"()-[x:{self.label}]-()" if self.relationship else f"(x:{self.label})"
        if self.unique:
            return f"CREATE CONSTRAINT {self.name} IF NOT EXISTS FOR {pattern} REQUIRE ({listed}) IS UNIQUE"
        return f"CREATE INDEX {self.name} IF NOT EXISTS FOR {pattern} ON ({listed})"


#: By label the name of its constraint; a network is keyed by its id and not by its CIDR.
_KEYS = {
    "Document": "doc_docid",
    "Service": "service_name",
    "Host": "host_hostname",
    "IP": "ip_addr",
    "ReverseProxy": "proxy_name",
    "Endpoint": "endpoint_uniq",
    "Network": "network_id",
    "Container": "container_id",
    "Image": "image_id",
    "VPNTunnel": "vpn_id",
    "TailscaleNode": "tailscale_nodeid",
}
_INDEXES = {
    "doc_url": ("Document", "url"),
    "doc_source": ("Document", "sourceType"),
    "service_proto_port": ("Service", "protocol", "port"),
    "host_ip": ("Host", "ip"),
    "endpoint_fqdn": ("Endpoint", "fqdn"),
    "container_compose": ("Container", "composeProject", "composeService"),
    "tailscale_ip": ("TailscaleNode", "tailscaleIp"),
}
_CRAWL_INDEXES = {
    "url_job_status": ("URL", "job_status"),
    "url_name_http": ("URL", "name", "http_type"),
    "root_name_depth": ("ROOT", "name", "requested_depth"),
    "url_claimed_at": ("URL", "claimed_at"),
    "url_crawl_id": ("URL", "crawl_id"),
}

RULES: tuple[Rule, ...] = (
    *(Rule(_KEYS[n.label], True, False, n.label, ("namespace", *n.key)) for n in NODES.values()),
    *(Rule(f"{t.lower()}_edge", True, True, t, ("edgeId",)) for t in EDGES),
    *(Rule(name, False, False, label, tuple(properties)) for name, (label, *properties) in _INDEXES.items()),
    Rule("watermark_namespace", True, False, WATERMARK, ("namespace",)),
    Rule("root_crawl_id", True, False, "ROOT", ("crawl_id",)),
    # By it a URL of a crawl is found and written once.
    Rule("url_url_id", True, False, "URL", ("url_id",)),
    *(
        Rule(name, False, False, label, tuple(properties))
        for name, (label, *properties) in _CRAWL_INDEXES.items()
    ),
)

#: Properties that an index holds: Neo4j refuses values of more than about 8 kB in one.
INDEXED: dict[str, frozenset[str]] = {
    n.label: frozenset(p for r in RULES if r.label == n.label for p in r.properties) - {"namespace"}
    for n in NODES.values()
}
