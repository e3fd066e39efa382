"""The catalog as one object: its database, its subjects, and what spans several of them."""

from __future__ import annotations

from collections.abc import Collection

from taboot_pipelines.model.health import Health
from taboot_pipelines.model.ids import uploads_source
from taboot_pipelines.stores.catalog.answers import Answers, Quotas
from taboot_pipelines.stores.catalog.assertions import Assertions
from taboot_pipelines.stores.catalog.batches import Batches
from taboot_pipelines.stores.catalog.blobs import Blobs, Uploads
from taboot_pipelines.stores.catalog.choices import Choices
from taboot_pipelines.stores.catalog.crawls import CrawlReports, Crawls
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.dead_letters import DeadLetters
from taboot_pipelines.stores.catalog.deletions import AuditLog, Receipts, Tombstones
from taboot_pipelines.stores.catalog.feedback import Feedback
from taboot_pipelines.stores.catalog.jobs import Jobs
from taboot_pipelines.stores.catalog.locators import Locator, Locators
from taboot_pipelines.stores.catalog.notifications import Notifications
from taboot_pipelines.stores.catalog.pointers import Pointers
from taboot_pipelines.stores.catalog.retention import Retention
from taboot_pipelines.stores.catalog.runs import Runs
from taboot_pipelines.stores.catalog.sources import Sources, SourceStates
from taboot_pipelines.stores.catalog.totals import Totals
from taboot_pipelines.stores.catalog.uploaded import DocumentTags, Uploaded


class Catalog:
    """The subjects of the catalog over one database; see the package for which is which.

    Each method is one transaction of one namespace, is run again after a failure that passes, and raises
    ``E_CATALOG`` when the database fails for good. A method whose first parameter is a connection joins the
    transaction of another.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.sources = Sources(database)
        self.source_states = SourceStates(database)
        self.jobs = Jobs(database)
        self.blobs = Blobs(database)
        self.locators = Locators(database, self.blobs)
        self.uploads = Uploads(database, self.blobs)
        self.uploaded = Uploaded(database, self.blobs)
        self.tags = DocumentTags(database)
        self.crawls = Crawls(database)
        self.crawl_reports = CrawlReports(database)
        self.pointers = Pointers(database)
        self.batches = Batches(database)
        self.runs = Runs(database, self.batches)
        self.choices = Choices(database)
        self.answers = Answers(database)
        self.quotas = Quotas(database)
        self.dead_letters = DeadLetters(database)
        self.tombstones = Tombstones(database)
        self.receipts = Receipts(database)
        self.retention = Retention(database)
        self.notifications = Notifications(database)
        self.audit_log = AuditLog(database)
        self.totals = Totals(database)
        self.assertions = Assertions(database, self.blobs)
        self.feedback = Feedback(database)

    @retried
    def forget(self, namespace: str, doc_ids: Collection[str], blobs: Collection[str]) -> None:
        """Erase every row that names these documents or blobs.

        Only the ids in tombstones, receipts and the audit log stay.
        """
        by_source: dict[str, list[Locator]] = {}
        for source_id, located in self.locators.of_documents(namespace, doc_ids):
            by_source.setdefault(source_id, []).append(located)
        with self.database.publishing(namespace) as c:
            for source_id, documents in by_source.items():
                paths = {x.path for x in documents}
                self.locators.forget(c, namespace, source_id, paths)
                self.crawls.forget(c, namespace, source_id, paths)
                self.source_states.forget_within(c, namespace, source_id)
                if source_id == uploads_source(namespace):
                    self.uploaded.forget(c, namespace, paths)
                names = paths | {x.doc_id for x in documents}
                units = self.runs.forget(c, namespace, source_id, names, paths)
                windows = self.answers.forget(c, namespace, source_id, {x.doc_id for x in documents})
                self.batches.forget(c, namespace, source_id, units)
                self.choices.forget(c, namespace, source_id, units)
                self.dead_letters.forget(c, namespace, source_id, names | windows, paths | units)
                self.blobs.forget_file_names(c, namespace, {x.sha256 for x in documents})
            self.retention.forget(c, namespace, doc_ids)
            self.tags.forget(c, namespace, doc_ids)
            self.feedback.forget(c, namespace, doc_ids)
            self.answers.forget_blobs(c, namespace, blobs)
            self.locators.forget_absent(c, namespace, blobs)
            self.blobs.forget(c, namespace, blobs)
            self.uploads.forget(c, namespace, blobs)

    def health(self) -> Health:
        """The database's: version, latency of one look, and what is wrong in words."""
        return self.database.health()

    def close(self) -> None:
        self.database.close()
