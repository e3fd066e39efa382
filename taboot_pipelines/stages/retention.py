"""Retention: documents become EXPIRING in their last week, and are deleted when it is over.

A pass looks at the documents that a policy holds for (``retention_days`` of their source, or one of their
own) and brings each to the state that is its by now, one legal transition after the other, each an event of
the audit log. A document is deleted a week after it was called EXPIRING at the earliest (where it is kept for
fewer days, so many after that), however long no pass looked; what a paused source has is passed over. Its
tombstone stays until its bytes change (rule ``deleted-stays-deleted``); what it leaves in the blob store goes
with ``taboot purge``.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.jobs import Lifecycle, expiring
from taboot_pipelines.model.retention import DAY, MAX_DAYS, NOTICE_DAYS, Policy, notice
from taboot_pipelines.stages import deletion
from taboot_pipelines.stages.deriving import Followed, follow
from taboot_pipelines.stages.document_lookup import present_documents
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Workspace, is_paused
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
        announced = self.locator.announced_at
        if announced is None or now < max(self.expires_at, announced + notice(self.policy.days)):
            return Lifecycle.EXPIRING
        return Lifecycle.DELETED


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
    paused = (
        {row["source_id"] for row in catalog.sources.find(namespace) if is_paused(row)} if located else ()
    )
    return [
        Kept(source_id, x, policy, x.doc_id in policies.documents, policy.expires_at(x.since))
        for source_id, x in located.values()
        if source_id not in paused
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
        return RetentionPass(namespace, expiring=expiring(workspace.catalog.locators.lifecycles(namespace)))
    upgrade_tables(workspace, namespace)
    sources = {k.source_id for k in due}
    with workspace.leases.several(namespace, sources):
        # A run may have read other bytes meanwhile, or of another source.
        due = [k for k in _looked_at(workspace, namespace) if _changes(k, at) and k.source_id in sources]
        announced, withdrawn = _tell(workspace, namespace, due, at)
        over = {k.locator.doc_id: k.locator.sha256 for k in due if k.state(at) is Lifecycle.DELETED}
        receipt = deletion.expire(workspace, namespace, over) if over else None
    return RetentionPass(
        namespace, announced, withdrawn, receipt, expiring(workspace.catalog.locators.lifecycles(namespace))
    )


def run_all(workspace: Workspace, namespaces: Collection[str]) -> list[RetentionPass]:
    """Do :func:`run` in each of these namespaces. One that fails keeps none of the others from being done;
    the first failure is raised last."""
    passes, failure = [], None
    for namespace in namespaces:
        try:
            passes.append(run(workspace, namespace))
        except TabootError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return passes


def _tell(workspace: Workspace, namespace: str, due: Collection[Kept], at: int) -> tuple[int, int]:
    """Call documents EXPIRING that are to be, and ACTIVE those that are no longer; how many of each."""
    pass_id = uuid.uuid4().hex
    found = []
    for before, after in ((Lifecycle.ACTIVE, Lifecycle.EXPIRING), (Lifecycle.EXPIRING, Lifecycle.ACTIVE)):
        changed = [k for k in due if k.locator.lifecycle == before.value and k.state(at) is after]
        for source_id in sorted({k.source_id for k in changed}):
            paths = [k.locator.path for k in changed if k.source_id == source_id]
            workspace.catalog.locators.change(namespace, source_id, paths, after, pass_id, at)
        found.append(len(changed))
    return found[0], found[1]


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
    return _apply(workspace, namespace, wanted)


def keep_as_source(workspace: Workspace, namespace: str, doc_ids: Collection[str]) -> Followed:
    """Take the documents' own policies away: that of their source holds again. Raises as :func:`keep`."""
    wanted = present_documents(workspace, namespace, doc_ids)
    workspace.catalog.retention.keep_as_source(namespace, wanted)
    workspace.catalog.audit_log.record(namespace, "retain_as_source", ids.digest(*wanted), doc_ids=wanted)
    return _apply(workspace, namespace, wanted)


def _apply(workspace: Workspace, namespace: str, wanted: Collection[str]) -> Followed:
    """Bring the states of these documents, and what is served, to the policies as they are now; nothing is
    deleted by that, which is for a pass."""
    upgrade_tables(workspace, namespace)
    at = now_micros()
    with workspace.leases.namespace(namespace):
        due = [k for k in _looked_at(workspace, namespace) if k.locator.doc_id in wanted and _changes(k, at)]
        _tell(workspace, namespace, due, at)
        return follow(workspace, namespace, ())
