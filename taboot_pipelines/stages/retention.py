"""Retention: documents become EXPIRING in their last week, and are deleted when it is over.

A pass looks at the documents that a policy holds for (``retention_days`` of their source, or one of their
own) and brings each to the state that is its by now, one legal transition after the other, each an event of
the audit log. A document is never deleted by the pass that first calls it EXPIRING, so that it is told of at
least once whatever the clock does. Its tombstone stays until its bytes change (rule
``deleted-stays-deleted``); what it leaves in the blob store goes with ``taboot purge``.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.jobs import Lifecycle
from taboot_pipelines.model.retention import DAY, MAX_DAYS, NOTICE_DAYS, Policy
from taboot_pipelines.stages import deletion
from taboot_pipelines.stages.deriving import Followed, follow
from taboot_pipelines.stages.document_lookup import present_documents
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.locators import Locator
from taboot_pipelines.stores.catalog.writing import now_micros

#: Of what is EXPIRING though nothing asks for it any more.
_NEVER = Policy(None, 0)
_SERVED = frozenset({Lifecycle.ACTIVE.value, Lifecycle.EXPIRING.value})


@dataclass(frozen=True)
class Kept:
    """A document that a policy holds for: which one, its state in the catalog, and when it expires
    (microseconds since the epoch; None: it is kept for good)."""

    source_id: str
    locator: Locator
    policy: Policy
    own: bool
    expires_at: int | None

    def state(self, now: int) -> Lifecycle:
        """The state that is the document's at ``now``, while it is served."""
        if self.expires_at is None or now < self.expires_at - NOTICE_DAYS * DAY:
            return Lifecycle.ACTIVE
        return Lifecycle.EXPIRING if now < self.expires_at else Lifecycle.DELETED


@dataclass(frozen=True)
class RetentionPass:
    """What one pass did: how many documents are EXPIRING since it, how many are no longer, the receipt of
    those that it deleted (None: none), and how many are EXPIRING now."""

    namespace: str
    announced: int = 0
    withdrawn: int = 0
    receipt: deletion.Receipt | None = None
    expiring: int = 0

    @property
    def expired(self) -> int:
        return 0 if self.receipt is None else len(self.receipt.doc_ids)

    @property
    def changed(self) -> bool:
        return bool(self.announced or self.withdrawn or self.expired)


def kept(workspace: Workspace, namespace: str) -> list[Kept]:
    """Return the documents that a policy holds for, those that expire first in front."""
    found = [k for k in _looked_at(workspace, namespace) if k.policy is not _NEVER]
    return sorted(found, key=lambda k: (k.expires_at is None, k.expires_at or 0, k.source_id, k.locator.path))


def is_due(workspace: Workspace, namespace: str, now: int | None = None) -> bool:
    """Whether a pass would change anything."""
    at = now_micros() if now is None else now
    return any(_changes(found, at) for found in _looked_at(workspace, namespace))


def _changes(found: Kept, now: int) -> bool:
    return found.locator.lifecycle in _SERVED and found.locator.lifecycle != found.state(now).value


def _looked_at(workspace: Workspace, namespace: str) -> list[Kept]:
    """Return what a policy holds for, and what is EXPIRING though no policy asks for it any more."""
    catalog = workspace.catalog
    policies = catalog.retention.all(namespace)
    expiring = catalog.locators.in_lifecycle(namespace, Lifecycle.EXPIRING)
    located = {(source_id, x.path): (source_id, x) for source_id, x in expiring}
    if policies:
        for source_id, x in catalog.locators.kept_for(namespace, policies.sources, policies.documents):
            located[source_id, x.path] = (source_id, x)
    return [
        Kept(source_id, x, policy, x.doc_id in policies.documents, policy.expires_at(x.since))
        for source_id, x in located.values()
        for policy in (policies.of(source_id, x.doc_id) or _NEVER,)
    ]


def run(workspace: Workspace, namespace: str, now: int | None = None) -> RetentionPass:
    """Carry out what is due in the namespace at ``now`` (microseconds since the epoch, by default the
    present).

    Raises ``E_BUSY`` where a source that a document belongs to is being ingested, and what a deletion raises.
    """
    at = now_micros() if now is None else now
    due = [k for k in _looked_at(workspace, namespace) if _changes(k, at)]
    if not due:
        return RetentionPass(namespace, expiring=_expiring(workspace, namespace))
    upgrade_tables(workspace, namespace)
    pass_id = uuid.uuid4().hex
    with workspace.leases.several(namespace, {k.source_id for k in due}):
        # A run may have read other bytes meanwhile, or of another source.
        sources = {k.source_id for k in due}
        due = [k for k in _looked_at(workspace, namespace) if _changes(k, at) and k.source_id in sources]
        announced = [k for k in due if k.locator.lifecycle == Lifecycle.ACTIVE.value]
        withdrawn = [k for k in due if k.state(at) is Lifecycle.ACTIVE]
        _change(workspace, namespace, announced, Lifecycle.EXPIRING, pass_id)
        _change(workspace, namespace, withdrawn, Lifecycle.ACTIVE, pass_id)
        told = {k.locator.doc_id for k in announced}
        over = {
            k.locator.doc_id: k.locator.sha256
            for k in due
            if k.state(at) is Lifecycle.DELETED and k.locator.doc_id not in told
        }
        receipt = deletion.expire(workspace, namespace, over) if over else None
    left = _expiring(workspace, namespace)
    return RetentionPass(namespace, len(announced), len(withdrawn), receipt, left)


def _expiring(workspace: Workspace, namespace: str) -> int:
    return workspace.catalog.locators.lifecycles(namespace).get(Lifecycle.EXPIRING, 0)


def _change(
    workspace: Workspace, namespace: str, documents: Collection[Kept], target: Lifecycle, pass_id: str
) -> None:
    for source_id in sorted({k.source_id for k in documents}):
        paths = [k.locator.path for k in documents if k.source_id == source_id]
        workspace.catalog.locators.change(namespace, source_id, paths, target, pass_id)


def keep(workspace: Workspace, namespace: str, doc_ids: Collection[str], days: int | None) -> Followed:
    """Give documents a policy of their own, which goes before that of their source: kept for ``days`` after
    their bytes came, or for good (None). It is published at once.

    Raises ``E_NOT_FOUND`` if an id belongs to no document that is there, ``E_QUERY`` for a number of days
    outside of 1 to 36,500; then nothing is changed.
    """
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise TabootError(
            "E_QUERY", f"Documents are kept for 1 to {MAX_DAYS:,} days, or for good.", days=days
        )
    wanted = present_documents(workspace, namespace, doc_ids)
    workspace.catalog.retention.keep(namespace, wanted, days)
    workspace.catalog.audit_log.record(namespace, "retain", ids.digest(*wanted), doc_ids=wanted, days=days)
    return _apply(workspace, namespace)


def keep_as_source(workspace: Workspace, namespace: str, doc_ids: Collection[str]) -> Followed:
    """Take the documents' own policies away: that of their source holds again. Raises as :func:`keep`."""
    wanted = present_documents(workspace, namespace, doc_ids)
    workspace.catalog.retention.keep_as_source(namespace, wanted)
    workspace.catalog.audit_log.record(namespace, "retain_as_source", ids.digest(*wanted), doc_ids=wanted)
    return _apply(workspace, namespace)


def _apply(workspace: Workspace, namespace: str) -> Followed:
    """Bring states and what is served to the policies as they are now."""
    upgrade_tables(workspace, namespace)
    run(workspace, namespace)
    with workspace.leases.namespace(namespace):
        return follow(workspace, namespace, ())
