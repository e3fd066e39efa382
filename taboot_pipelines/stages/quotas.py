"""Quotas: how much a namespace may hold and ask, and how much it does.

A namespace's own limits stand in the sources file and are kept in the catalog, since a worker has no such
file; what they leave out the settings say. They are asked before the work: an item that would go beyond is
passed over with ``E_QUOTA``, is tried again by the next run, and nothing that is held is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.quotas import Limits
from taboot_pipelines.stages.workspace import QUOTAS, Workspace
from taboot_pipelines.stores.catalog.answers import Quota
from taboot_pipelines.stores.tables import NAMESPACE

#: The share of a quota from which it is told of.
ALMOST = 0.9
#: So many items are taken in between two looks at what other processes took in.
EVERY = 16
_REMEDY = "Raise it (`quotas` of the sources file, or TABOOT_QUOTA__…), delete something, or purge."


@dataclass(frozen=True)
class Usage:
    """What a namespace holds and has asked this month, and its limits (None: there is none)."""

    namespace: str
    bytes: int
    documents: int
    questions: Quota
    limits: Limits

    def amounts(self) -> Mapping[str, tuple[int, int | None]]:
        """{what: (how much, of how much)} of bytes, documents and this month's questions."""
        return {
            "bytes": (self.bytes, self.limits.bytes),
            "documents": (self.documents, self.limits.documents),
            "questions": (self.questions.asked, self.questions.limit),
        }

    def shares(self) -> Mapping[str, tuple[int, int]]:
        """The same of all that is limited."""
        return {what: (used, limit) for what, (used, limit) in self.amounts().items() if limit is not None}

    def almost_used(self) -> Mapping[str, tuple[int, int]]:
        """The same of all of which :data:`ALMOST` is used."""
        return {w: (used, limit) for w, (used, limit) in self.shares().items() if used >= ALMOST * limit}


def limits_of(workspace: Workspace, namespace: str) -> Limits:
    """Return the limits of a namespace."""
    settings = workspace.settings
    kept = workspace.catalog.pointers.get(namespace, NAMESPACE, QUOTAS)
    own = {} if kept is None else kept.applied
    given = {
        "bytes": settings.quota.bytes,
        "documents": settings.quota.documents,
        "questions_per_month": settings.extraction.questions_per_month,
    }
    return Limits(**{**given, **{name: value for name, value in own.items() if value is not None}})


def questions_of(workspace: Workspace, namespace: str) -> Quota:
    """Return the questions of this month, and how many there may be."""
    return workspace.catalog.quotas.of(namespace, limits_of(workspace, namespace).questions_per_month)


def usage(
    workspace: Workspace, namespace: str, states: Mapping[str, Mapping[str, int]] | None = None
) -> Usage:
    """Return what a namespace holds and has asked, beside its limits. ``states``: its documents, as
    ``Locators.lifecycles`` counts them, where that is known."""
    catalog = workspace.catalog
    limits = limits_of(workspace, namespace)
    counted = catalog.locators.lifecycles(namespace) if states is None else states
    return Usage(
        namespace,
        catalog.blobs.usage(namespace)["total_bytes"],
        sum(sum(of_source.values()) for of_source in counted.values()),
        catalog.quotas.of(namespace, limits.questions_per_month),
        limits,
    )


def room(workspace: Workspace, namespace: str) -> Mapping[str, int]:
    """Return how many bytes and documents a namespace may take in; what is not limited is not counted."""
    limits = limits_of(workspace, namespace)
    if limits.bytes is None and limits.documents is None:
        return {}
    shares = usage(workspace, namespace).shares()
    return {what: max(0, limit - used) for what, (used, limit) in shares.items() if what != "questions"}


class Meter:
    """Counts what a batch takes in against what its namespace may hold."""

    def __init__(self, workspace: Workspace, namespace: str) -> None:
        self._workspace, self._namespace = workspace, namespace
        self._limits = limits_of(workspace, namespace)
        self.limited = self._limits.bytes is not None or self._limits.documents is not None
        self._bytes = self._documents = 0
        if self.limited:
            self.look()

    def look(self) -> None:
        """Count anew, what other processes took in included. All that this batch took in is recorded."""
        now = usage(self._workspace, self._namespace)
        self._bytes, self._documents = now.bytes, now.documents

    def take(self, sha256: str, size: int, *, new_document: bool) -> None:
        """Count an item that is about to be stored. Raises ``E_QUOTA`` where it would be too much."""
        if not self.limited:
            return
        known = self._workspace.catalog.blobs.hashes(self._namespace, among=[sha256])
        added, documents = 0 if known else size, int(new_document)
        for what, used, more, limit in (
            ("bytes", self._bytes, added, self._limits.bytes),
            ("documents", self._documents, documents, self._limits.documents),
        ):
            if limit is not None and more and used + more > limit:
                raise TabootError(
                    "E_QUOTA",
                    f"Namespace {self._namespace} holds {used:,} of {limit:,} {what}.",
                    remedy=_REMEDY,
                    limit=limit,
                    used=used,
                )
        self._bytes += added
        self._documents += documents
