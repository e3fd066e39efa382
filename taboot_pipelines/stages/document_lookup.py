"""What people call a document, as its doc_id: an id or the beginning of one, a chunk_id, a URL or a path.

The catalog is asked, since a document can be deleted before it is served, and restored when it is not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from taboot_pipelines.connectors.files import told_directory
from taboot_pipelines.errors import TabootError, or_near, unknown_sources
from taboot_pipelines.stages.workspace import Workspace

_CHUNK = re.compile(r"(?<=[0-9a-f]):[0-9]{1,9}$")
_PREFIX = re.compile(r"[0-9a-f-]{6,36}")


def documents_called(
    workspace: Workspace, namespace: str, names: Sequence[str], *, deleted: bool = False
) -> list[str]:
    """The doc_ids of what is called so; with ``deleted`` of documents that were deleted.

    Raises ``E_NOT_FOUND`` naming the nearest where nothing is called that, ``E_QUERY`` where several are.
    """
    gone = set(workspace.catalog.tombstones.all(namespace))
    known = set(gone)
    called: dict[str, set[str]] = {}
    for doc_id, other in _names(workspace, namespace):
        known.add(doc_id)
        # What was deleted gives its name up to what may still be deleted, and the other way round.
        if deleted == (doc_id in gone):
            for name in other:
                called.setdefault(name, set()).add(doc_id)
    return list(dict.fromkeys(_one(name, known, called) for name in names))


def _one(name: str, known: Collection[str], called: dict[str, set[str]]) -> str:
    doc_id = _CHUNK.sub("", name.strip().lower())
    if doc_id in known:
        return doc_id
    found = sorted(called.get(name.strip(), ()))
    if not found and _PREFIX.fullmatch(doc_id):
        found = sorted(i for i in known if i.startswith(doc_id))
    if len(found) == 1:
        return found[0]
    if found:
        raise TabootError(
            "E_QUERY",
            f"{len(found)} documents are called {name!r}.",
            remedy=f"Name one by its id, such as {' or '.join(found[:3])}.",
            doc_ids=found[:10],
        )
    raise TabootError("E_NOT_FOUND", f"There is no document {name!r}.{or_near(name, called)}", document=name)


def present_documents(workspace: Workspace, namespace: str, doc_ids: Collection[str]) -> list[str]:
    """Return these ids, each once and in their order. Raises ``E_NOT_FOUND`` if one is of no document that
    is there."""
    wanted = sorted(set(doc_ids))
    located = workspace.catalog.locators.of_documents(namespace, wanted)
    missing = sorted(set(wanted) - {x.doc_id for _, x in located if x.state == "present"})
    if missing:
        raise TabootError(
            "E_NOT_FOUND",
            f"{len(missing)} of {len(wanted)} documents are not in namespace {namespace}.",
            doc_ids=missing[:10],
        )
    return wanted


def documents_of(workspace: Workspace, namespace: str, source: str) -> list[str]:
    """Return the documents of a source that are there. Raises ``E_SOURCE_UNKNOWN`` naming the nearest."""
    known = {row["source_id"] for row in workspace.catalog.sources.find(namespace)}
    if source not in known:
        raise unknown_sources([source], known, namespace)
    located = workspace.catalog.locators.of_source(namespace, source).values()
    return sorted(x.doc_id for x in located if x.role == "document")


def _names(workspace: Workspace, namespace: str) -> Iterator[tuple[str, list[str]]]:
    """Every document that is or was there, with what it may be called besides its id."""
    for row in workspace.catalog.sources.find(namespace, ("active", "retiring", "retired")):
        source = row["source_id"]
        (entry,) = workspace.entries_in(namespace, [source])
        path = getattr(entry.config, "path", None)
        root = told_directory(path, entry.root) if path is not None else None
        for x in workspace.catalog.locators.of_source(namespace, source, state=None).values():
            if x.role != "document":
                continue
            names = [x.path, f"{source}:{x.path}", *(u for u in (x.url, x.final_url) if u)]
            if root is not None:
                names.append(str(Path(root) / x.path))
            yield x.doc_id, names
