"""Software that keeps data for others or passes it on, by the names of its images and charts."""

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
