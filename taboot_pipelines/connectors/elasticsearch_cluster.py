"""What a cluster of Elasticsearch or OpenSearch says of itself, its nodes and its indices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from taboot_pipelines.connectors.api import Answer, ApiClient, item
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Event, Failed, Known, Skipped

#: Where all of it is beneath.
CLUSTER = "cluster/"
#: What changes by itself: which node answers, and what a cluster says of the moment.
_VOLATILE_OF_INFO = ("name",)
_VOLATILE_OF_NODES = ("refresh_interval_in_millis", "timestamp", "total_indexing_buffer", "_nodes")


def cluster_events(
    client: ApiClient,
    info: Answer | None,
    indices: str,
    known: Mapping[str, Known],
    tombstoned: Callable[[str], bool],
) -> Generator[Event, None, bool]:
    """The events of the cluster's items; returns whether all were read that may be. ``info``: the answer
    that the server gave of itself; ``indices``: those that are listed, as part of a URL's path. Raises
    ``E_CREDENTIALS``."""
    listed = f"_cat/indices/{indices}?format=json&h=index,uuid,status,pri,rep&s=index"
    asked: dict[str, tuple[str, tuple[str, ...]]] = {
        f"{CLUSTER}info.json": ("/", _VOLATILE_OF_INFO),
        f"{CLUSTER}nodes.json": ("_nodes/_all/http,os,transport", _VOLATILE_OF_NODES),
        f"{CLUSTER}indices.json": (listed, ()),
    }
    whole = True
    for path, (way, volatile) in asked.items():
        if tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            continue
        try:
            answer = info if way == "/" and info is not None else client.get(way)
            said = None if answer.gone else answer.json()
            nodes = said.get("_nodes") if isinstance(said, dict) else None
            if isinstance(nodes, dict) and nodes.get("failed"):
                raise TabootError("E_5XX_ORIGIN", f"{nodes['failed']} nodes of the cluster did not answer.")
        except TabootError as error:
            if error.code == "E_CREDENTIALS":
                raise
            if error.code == "E_FORBIDDEN" or error.details.get("status") in (400, 405):
                yield Skipped(path, "E_FORBIDDEN", f"{path}: this account or server does not tell it.")
                continue
            whole = False
            # The end of the run's budget is no failure.
            if error.code != "E_REQUESTS":
                yield Failed(path, error)
            continue
        if said is None:
            yield Skipped(path, "E_NOT_FOUND", f"{path}: this server does not have it.", outside=True)
        else:
            yield item(known, path, said, volatile=volatile, mime="application/json")
    return whole
