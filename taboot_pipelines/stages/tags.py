"""Tags of single documents: labels that people give and take, which searches filter by at once.

Tags of a whole source stand in the sources file. A document keeps its own when its bytes change or go, as
an input of the catalog; the manifest carries them to readers, so that no chunk, vector or point is written.
"""

from __future__ import annotations

from collections.abc import Collection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.stages.deriving import Followed, follow
from taboot_pipelines.stages.document_lookup import present_documents
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Workspace

#: Characters of a tag, as in the sources file.
MAX_LENGTH = 100


def tag(
    workspace: Workspace,
    namespace: str,
    doc_ids: Collection[str],
    *,
    add: Collection[str] = (),
    remove: Collection[str] = (),
) -> Followed:
    """Give documents tags, or take them away again, and publish that at once.

    Raises ``E_NOT_FOUND`` if an id belongs to no document that is there, ``E_QUERY`` for what can be no tag;
    then nothing is changed.
    """
    wanted = present_documents(workspace, namespace, doc_ids)
    new, gone = ({checked(name) for name in names} for names in (add, remove))
    if not new and not gone:
        raise TabootError("E_QUERY", "No tag was named.", remedy="Say which to add, or which to remove.")
    workspace.catalog.tags.change(namespace, wanted, add=new, remove=gone - new)
    workspace.catalog.audit_log.record(namespace, "tag", ids.digest(*wanted), doc_ids=wanted)
    upgrade_tables(workspace, namespace)
    with workspace.leases.namespace(namespace):
        return follow(workspace, namespace, ())


def checked(name: str) -> str:
    """Return a tag without blanks around it. Raises ``E_QUERY`` for what can be none."""
    said = name.strip() if isinstance(name, str) else ""
    if not 1 <= len(said) <= MAX_LENGTH or not said.isprintable():
        raise TabootError(
            "E_QUERY", f"A tag has 1 to {MAX_LENGTH} printable characters, which {str(name)[:40]!r} has not."
        )
    return said
