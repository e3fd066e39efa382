"""Settings of a set-up in which every part is a server."""

from __future__ import annotations

import uuid
from typing import Any


def settings_of(
    *,
    catalog_url: str | None = None,
    redis_url: str | None = None,
    qdrant_url: str | None = None,
    neo4j_url: str | None = None,
    s3: Any = None,
    bucket: str = "everything",
) -> dict[str, Any]:
    """Overrides for ``World``: what is None stays at its default. The object store gets a prefix of its
    own.
    """
    found: dict[str, Any] = {}
    if catalog_url is not None:
        found["catalog_url"] = catalog_url
    if redis_url is not None:
        found["redis"] = {"url": redis_url}
    if qdrant_url is not None:
        # Searches ask it however few chunks there are.
        found["qdrant"] = {"url": qdrant_url, "search_from_chunks": 0}
    if neo4j_url is not None:
        found["neo4j"] = {"url": neo4j_url}
    if s3 is not None:
        prefix = f"s3://{s3.bucket(bucket)}/{uuid.uuid4().hex}"
        found |= {
            "blob_url": f"{prefix}/blobs",
            "table_url": f"{prefix}/tables",
            "shard_url": f"{prefix}/shards",
            "storage": {
                "endpoint": s3.endpoint,
                "access_key_id": s3.access_key,
                "secret_access_key": s3.secret_key,
                "region": "us-east-1",
            },
        }
    return found
