"""Software that keeps data for others, passes it on or carries it, by the names of its images and charts."""

from __future__ import annotations

#: What people call a database.
DATABASES = frozenset(
    [
        *("postgres", "postgresql", "postgis", "pgvector", "pgvecto-rs", "timescaledb", "mysql", "mariadb"),
        *("mongo", "mongodb", "couchdb", "influxdb", "arangodb", "cassandra", "clickhouse", "cockroach"),
        *("mssql", "neo4j", "percona", "pgvecto", "scylla", "surrealdb"),
    ]
)
CACHES = frozenset(["redis", "valkey", "keydb", "dragonfly", "memcached"])
BROKERS = frozenset(["rabbitmq", "kafka", "nats", "activemq", "pulsar", "mosquitto", "emqx", "redpanda"])
#: Indexes for search, object stores, and what others agree by.
_OTHERS = frozenset(
    [
        *("elasticsearch", "opensearch", "meilisearch", "typesense", "milvus", "qdrant", "weaviate"),
        *("minio", "seaweedfs", "etcd", "zookeeper"),
    ]
)
STORES = DATABASES | CACHES | BROKERS | _OTHERS
#: What passes requests on to services: controllers of ingresses, reverse proxies and networks of delivery.
INGRESS_CONTROLLERS = ("nginx", "traefik", "haproxy", "caddy", "kong", "contour", "istio", "cilium", "apisix")
PROXIES = frozenset(
    [
        *INGRESS_CONTROLLERS,
        *("envoy", "swag", "cloudflared", "cloudflare", "cloudfront", "fastly", "pomerium", "zoraxy"),
    ]
)
#: What carries the traffic of others over a network of its own.
TUNNELS = frozenset(
    ["wireguard", "openvpn", "tailscale", "headscale", "gluetun", "zerotier", "netbird", "nebula", "nordvpn"]
)
#: Software that is asked by one protocol: who says the one often means the other.
_ALIKE = (
    frozenset(["postgres", "postgresql", "postgis", "pgvector", "pgvecto-rs", "pgvecto", "timescaledb"]),
    frozenset(["mysql", "mariadb", "percona"]),
    frozenset(["mongo", "mongodb"]),
    CACHES - {"memcached"},
)


def alike(products: frozenset[str]) -> frozenset[str]:
    """Products, and those that are asked by the same protocols."""
    return products.union(*(family for family in _ALIKE if not family.isdisjoint(products)))
