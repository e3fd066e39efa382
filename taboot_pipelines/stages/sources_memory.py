"""A home remembers the sources file that it belongs to, so that another one is told and not just taken.

It belongs to another file once nothing of the former one is left that the other does not declare: as long as
documents of a source that only the former declares are held, the home is still the former's.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from taboot_pipelines.stores.catalog import Catalog, Pointer
from taboot_pipelines.stores.tables import NAMESPACE

_STAGE = "sources_file"


def remembered_file(catalog: Catalog, namespace: str) -> Path | None:
    """The sources file that a namespace of the home belongs to; None if none was read yet."""
    pointer = catalog.pointers.get(namespace, NAMESPACE, _STAGE)
    return None if pointer is None else Path(pointer.applied["path"])


def remember_file(catalog: Catalog, namespaces: Collection[str], file: Path) -> Path | None:
    """Remember the file that was just read, in each namespace that may belong to it.

    Returns a file that one of them belonged to before, if that is another one.
    """
    retiring = {
        row["namespace"]
        for row in catalog.sources.find(states=("retiring",))
        if catalog.locators.count(row["namespace"], row["source_id"])
    }
    former = None
    for namespace in sorted({*namespaces, *retiring}):
        before = remembered_file(catalog, namespace)
        if before == file:
            continue
        former = former or before
        if before is None or namespace not in retiring:
            applied = {"path": str(file)}
            pointer = Pointer(stage=_STAGE, tables={}, inputs="", txn="", applied=applied)
            catalog.pointers.publish(namespace, NAMESPACE, pointer)
    return former
