"""Every Cypher statement, each bound to ``$namespace``, and the constraints and indexes of the graph.

No string from data enters a statement; labels, types and property names are the model's or refused
(``E_SCHEMA_INVALID``). Every key starts with the namespace. Community edition only: no node keys, no property
existence, one database and no security by row. These statements are all that keeps namespaces apart, and
whoever has the password reads all of them. A relationship's ``edgeId`` is unique for its type: the id already
covers the namespace.

Crawls have labels of their own, ROOT and URL, with ``namespace`` and ``crawl_id``: no other statement reads
or writes their nodes, and theirs read and write no others. A URL node is found by ``url_id``, which begins
with its crawl's id. A ROOT without a ``fingerprint`` belongs to a crawl that was not written to its end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import EDGES, NODES

#: The node that says which snapshot a namespace's graph equals: outside the model, so that no reader of the
#: graph meets it.
WATERMARK = "_TabootWatermark"

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


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that reads or writes one namespace, the parameter ``$namespace``; one without it cannot be
    made.
    """

    text: str

    def __post_init__(self) -> None:
        if "$namespace" not in self.text:
            raise TabootError("E_NAMESPACE", "A Cypher statement must be bound to a namespace.")


def _label(label: str) -> str:
    if label not in NODES:
        raise TabootError("E_SCHEMA_INVALID", "A node label is not of the model.")
    return label


def _type(type_: str) -> str:
    if type_ not in EDGES:
        raise TabootError("E_SCHEMA_INVALID", "A relationship type is not of the model.")
    return type_


def _node(variable: str, label: str, parts: str) -> str:
    """A node by its key, whose parts are the list ``parts``."""
    keys = "".join(f", {name}: {parts}[{i}]" for i, name in enumerate(NODES[_label(label)].key))
    return f"({variable}:{label} {{namespace: $namespace{keys}}})"


def _all(variable: str, label: str) -> str:
    """All nodes of a label in the namespace: naming every part of the key lets the constraint's index find
    them.
    """
    keys = "".join(f" AND {variable}.{name} IS NOT NULL" for name in NODES[_label(label)].key)
    return f"MATCH ({variable}:{label}) WHERE {variable}.namespace = $namespace{keys}"


def as_datetime(micros: str) -> str:
    """Microseconds since 1970 as Neo4j's datetime. Made by the server: sending datetimes costs the client
    more.
    """
    return (
        f"CASE WHEN {micros} IS NULL THEN null ELSE datetime({{epochSeconds: {micros} / 1000000, nanosecond:"
        f" {micros} % 1000000 * 1000}}) END"
    )


def as_micros(moment: str) -> str:
    return f"{moment}.epochSeconds * 1000000 + {moment}.nanosecond / 1000"


# --- writing: $rows are what stores.graph.rows makes --------------------------------------------------------


@cache
def merge_nodes(label: str) -> Statement:
    """{k: key parts, p: properties, f, l: first and last seen in microseconds}."""
    ingested = f", ingestedAt: {as_datetime('row.f')}" if label == "Document" else ""
    return Statement(
        f"UNWIND $rows AS row WITH row, row.p AS p MERGE {_node('n', label, 'row.k')} SET n = p {{.*,"
        f" namespace: $namespace, createdAt: {as_datetime('row.f')}, updatedAt: {as_datetime('row.l')}"
        f"{ingested}}} RETURN count(*) AS done"
    )


@cache
def merge_edges(type_: str, start: str, end: str) -> Statement:
    """{i: edge id, s, e: key parts of the ends, p: properties, t: since in microseconds}. By its id alone
    (rule ``support``); a row whose ends are not there is left out of ``done``."""
    return Statement(
        f"UNWIND $rows AS row WITH row, row.p AS p MATCH {_node('a', start, 'row.s')} MATCH"
        f" {_node('b', end, 'row.e')} MERGE (a)-[r:{_type(type_)} {{edgeId: row.i}}]->(b) SET r = p {{.*,"
        f" namespace: $namespace, since: {as_datetime('row.t')}}} RETURN count(*) AS done"
    )


@cache
def delete_edges(type_: str) -> Statement:
    return Statement(
        f"UNWIND $rows AS id MATCH ()-[r:{_type(type_)} {{edgeId: id}}]->() WHERE r.namespace = $namespace"
        " DELETE r RETURN count(*) AS done"
    )


@cache
def delete_nodes(label: str) -> Statement:
    """Nodes (lists of key parts) that no relationship holds any more."""
    return Statement(
        f"UNWIND $rows AS row MATCH {_node('n', label, 'row')} WHERE NOT EXISTS {{ (n)--() }} DELETE n RETURN"
        " count(*) AS done"
    )


@cache
def strip_nodes(label: str) -> Statement:
    """Nodes that a relationship of someone else still holds keep nothing but their key."""
    kept = "".join(f", {name}: n.{name}" for name in NODES[_label(label)].key)
    return Statement(
        f"UNWIND $rows AS row MATCH {_node('n', label, 'row')} SET n = {{namespace: n.namespace{kept}}}"
        " RETURN count(*) AS done"
    )


# --- reading ------------------------------------------------------------------------------------------------


@cache
def read_nodes(label: str) -> Statement:
    return Statement(
        f"{_all('n', label)} RETURN n.key AS key, coalesce(n.displayName, n.name) AS name, n.properties AS"
        " properties, COLLECT { MATCH (n)-[r]-() WHERE r.namespace = $namespace RETURN DISTINCT r.docId }"
        f" AS doc_ids, {as_micros('n.createdAt')} AS first_seen, {as_micros('n.updatedAt')} AS last_seen"
    )


@cache
def read_edges(type_: str, start: str) -> Statement:
    return Statement(
        f"{_all('a', start)} MATCH (a)-[r:{_type(type_)}]->(b) WHERE r.namespace = $namespace AND r.edgeId IS"
        " NOT NULL RETURN r.edgeId AS edge_id, a.key AS start_key, r.startName AS start_name, labels(b) AS"
        " end_labels, b.key AS end_key, r.endName AS end_name, r.properties AS properties, r.docId AS"
        " doc_id, r.confidence AS confidence, r.source AS source, r.extractionMethod AS extraction_method,"
        f" {as_micros('r.since')} AS since, r.runId AS run_id, r.blobSha256 AS blob_sha256, r.byteStart AS"
        " byte_start, r.byteEnd AS byte_end, r.line AS line, r.startBasis AS start_basis, r.endBasis AS"
        " end_basis, r.supports AS supports"
    )


@cache
def document_urls() -> Statement:
    return Statement(f"{_all('d', 'Document')} RETURN d.docId AS doc_id, d.properties AS properties")


@cache
def node_fingerprints(label: str) -> Statement:
    """Nodes with their full key; one that is only a stripped key, or not ours, has none."""
    return Statement(
        f"{_all('n', label)} RETURN coalesce(n.key, '') AS id,"
        f" [{', '.join(f'n.{k}' for k in NODES[_label(label)].key)}] AS parts, coalesce(n.fingerprint, '') AS"
        " fingerprint"
    )


@cache
def edge_fingerprints(type_: str, start: str) -> Statement:
    return Statement(
        f"{_all('a', start)} MATCH (a)-[r:{_type(type_)}]->() WHERE r.namespace = $namespace AND r.edgeId IS"
        " NOT NULL RETURN r.edgeId AS id, coalesce(r.docId, '') AS doc_id, coalesce(r.fingerprint, '') AS"
        " fingerprint"
    )


@cache
def start_nodes(label: str) -> Statement:
    return Statement(f"UNWIND $rows AS row MATCH {_node('n', label, 'row')} RETURN elementId(n) AS id")


@cache
def edges_around(types: frozenset[str] | None) -> Statement:
    """The first ``$limit`` relationships of the nodes ``$ids`` (element ids), in the order of a
    neighbourhood.
    """
    kinds = "|".join(_type(t) for t in sorted(EDGES if types is None else types))
    return Statement(
        "UNWIND $ids AS id MATCH (a) WHERE elementId(a) = id AND a.namespace = $namespace MATCH"
        f" (a)-[r:{kinds}]-(b) WHERE r.namespace = $namespace AND r.edgeId IS NOT NULL AND b.namespace ="
        " $namespace WITH DISTINCT r RETURN r.edgeId AS edge, [elementId(startNode(r)),"
        " elementId(endNode(r))] AS ends ORDER BY type(r) = 'MENTIONS', r.confidence DESC, r.edgeId LIMIT"
        " $limit"
    )


# --- which snapshot the namespace's graph equals ------------------------------------------------------------


@cache
def watermark() -> Statement:
    return Statement(f"MATCH (w:{WATERMARK} {{namespace: $namespace}}) RETURN w.snapshot AS snapshot")


@cache
def set_watermark() -> Statement:
    return Statement(f"MERGE (w:{WATERMARK} {{namespace: $namespace}}) SET w.snapshot = $snapshot")


@cache
def drop_watermark() -> Statement:
    return Statement(f"MATCH (w:{WATERMARK} {{namespace: $namespace}}) DELETE w")


# --- dropping a namespace, some rows at a time --------------------------------------------------------------


@cache
def drop_edges(type_: str, start: str) -> Statement:
    return Statement(
        f"{_all('a', start)} MATCH (a)-[r:{_type(type_)}]->() WHERE r.namespace = $namespace WITH r LIMIT"
        " $limit DELETE r RETURN count(*) AS done"
    )


@cache
def drop_nodes(label: str) -> Statement:
    return Statement(
        f"{_all('n', label)} AND NOT EXISTS {{ (n)--() }} WITH n LIMIT $limit DELETE n RETURN count(*) AS"
        " done"
    )


@cache
def drop_held_nodes(label: str) -> Statement:
    """What relationships of others still hold keeps nothing but its key."""
    kept = "".join(f", {name}: n.{name}" for name in NODES[_label(label)].key)
    return Statement(
        f"{_all('n', label)} AND n.fingerprint IS NOT NULL WITH n LIMIT $limit SET n = {{namespace:"
        f" n.namespace{kept}}} RETURN count(*) AS done"
    )


def started_by(type_: str) -> Collection[str]:
    """The labels that a relation of this type may start from."""
    return sorted(EDGES[_type(type_)].start)


@cache
def roots() -> Statement:
    return Statement(
        "MATCH (r:ROOT) WHERE r.namespace = $namespace RETURN r.crawl_id AS crawl_id,"
        " coalesce(r.fingerprint, '') AS fingerprint"
    )


@cache
def merge_roots() -> Statement:
    """{i: crawl id, p: properties, t: created_at in microseconds}."""
    return Statement(
        "UNWIND $rows AS row WITH row, row.p AS p MERGE (r:ROOT {crawl_id: row.i}) SET r = p {.*, namespace:"
        f" $namespace, crawl_id: row.i, created_at: {as_datetime('row.t')}}} RETURN count(*) AS done"
    )


@cache
def merge_urls() -> Statement:
    """{i: url_id, p: properties, t: claimed_at in microseconds}."""
    return Statement(
        "UNWIND $rows AS row WITH row, row.p AS p MERGE (u:URL {url_id: row.i}) SET u = p {.*, namespace:"
        f" $namespace, url_id: row.i, claimed_at: {as_datetime('row.t')}}} RETURN count(*) AS done"
    )


@cache
def merge_leads(from_root: bool) -> Statement:
    """{s: url_id of the page, or the crawl id of a ROOT, e: url_id}."""
    start = "(a:ROOT {crawl_id: row.s})" if from_root else "(a:URL {url_id: row.s})"
    return Statement(
        f"UNWIND $rows AS row MATCH {start} MATCH (b:URL {{url_id: row.e}}) WHERE a.namespace = $namespace"
        " AND b.namespace = $namespace MERGE (a)-[:Lead]->(b) RETURN count(*) AS done"
    )


@cache
def finish() -> Statement:
    return Statement(
        "UNWIND $rows AS row MATCH (r:ROOT {crawl_id: row.i}) WHERE r.namespace = $namespace SET"
        " r.fingerprint = row.f RETURN count(*) AS done"
    )


@cache
def unfinish() -> Statement:
    return Statement(
        "UNWIND $rows AS id MATCH (r:ROOT {crawl_id: id}) WHERE r.namespace = $namespace REMOVE r.fingerprint"
        " RETURN count(*) AS done"
    )


@cache
def read_root() -> Statement:
    return Statement(
        "MATCH (r:ROOT {crawl_id: $crawl}) WHERE r.namespace = $namespace RETURN r {.*, created_at:"
        f" {as_micros('r.created_at')}}} AS node"
    )


@cache
def read_urls() -> Statement:
    return Statement(
        "MATCH (u:URL {crawl_id: $crawl}) WHERE u.namespace = $namespace RETURN u {.*, claimed_at:"
        f" {as_micros('u.claimed_at')}}} AS node"
    )


@cache
def read_leads() -> Statement:
    return Statement(
        "MATCH (a)-[:Lead]->(b:URL {crawl_id: $crawl}) WHERE b.namespace = $namespace RETURN"
        " coalesce(a.url_id, a.crawl_id) AS start, b.url_id AS end"
    )


@cache
def crawls_of_urls() -> Statement:
    return Statement("MATCH (u:URL) WHERE u.namespace = $namespace RETURN DISTINCT u.crawl_id AS crawl_id")


@cache
def drop_urls() -> Statement:
    return Statement(
        "MATCH (u:URL {crawl_id: $crawl}) WHERE u.namespace = $namespace WITH u LIMIT $limit DETACH DELETE u"
        " RETURN count(*) AS done"
    )


@cache
def drop_roots() -> Statement:
    return Statement(
        "MATCH (r:ROOT {crawl_id: $crawl}) WHERE r.namespace = $namespace WITH r LIMIT $limit DETACH DELETE r"
        " RETURN count(*) AS done"
    )
