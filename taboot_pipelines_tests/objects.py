"""A prefix of the tests' own in a bucket of the shared S3 server."""

from __future__ import annotations

import uuid

import obstore
from obstore.store import ObjectStore
from pydantic import SecretStr

from taboot_pipelines.settings import StorageSettings
from taboot_pipelines.stores.objects import place
from taboot_pipelines_tests.servers import S3Server


class Bucket:
    """``url`` is new for each instance, so that tests share the bucket and nothing in it."""

    def __init__(self, server: S3Server, **storage: object) -> None:
        self.url = f"s3://{server.bucket('objects')}/{uuid.uuid4().hex}"
        self.storage = storage_of(server, **storage)
        self.store: ObjectStore = place("TABOOT_SHARD_URL", self.url, self.storage).store()

    def contents(self) -> dict[str, bytes]:
        """Every object by its path under the prefix."""
        return {
            m["path"]: bytes(obstore.get(self.store, m["path"]).bytes())
            for batch in obstore.list(self.store)
            for m in batch
        }


def storage_of(server: S3Server, **storage: object) -> StorageSettings:
    access = {
        "endpoint": server.endpoint,
        "access_key_id": SecretStr(server.access_key),
        "secret_access_key": SecretStr(server.secret_key),
    }
    return StorageSettings.model_validate({**access, "max_retries": 2, **storage})
