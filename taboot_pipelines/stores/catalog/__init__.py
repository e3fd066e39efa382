"""The catalog: what came in, what is alive, which version of each table holds, and what happened.

It holds, for each namespace:

- **inputs**, from which, together with the blobs, everything else can be derived again: the entries of the
  sources file, the fetch log, tombstones, deletions that a person confirmed, what people decided, runs that
  one promoted, and answers of a chat model;
- **the present state** of what was fetched: locators, records of blobs, the queue of uploads, the bytes used;
- **pointers**: what each stage has published, and of which inputs;
- **history**: jobs, interpretation runs, dead letters, receipts of deletions, the audit log.

But for what people typed and answers of a chat model, which quote passages, it never holds the text of a
document, nor anything derived from it that a table could hold: ids, paths, hashes, counts, versions, times
and error messages only. Since an erasure has to empty it too, a new column that may name a document also
belongs in :meth:`Catalog.forget`.

:class:`Catalog` has one attribute for each subject, and each subject is one module, with its value types:

=================  =====================  ==================================================================
attribute          module                 subject
=================  =====================  ==================================================================
``sources``        ``sources.py``         the entries of the sources file, and which of them are retiring
``jobs``           ``jobs.py``            one ingest of one source each: its state, its counts
``locators``       ``locators.py``        the fetch log, and which bytes each locator holds now (``Locator``)
``blobs``          ``blobs.py``           records of stored bytes, and how many bytes a namespace uses
``crawls``         ``crawls.py``          crawls, their ledgers and graphs; ``frontier.py`` hands out the URLs
                                          that one still has to ask for
``crawl_reports``  ``crawls.py``          what is shown of crawls: URLs and links in parts, and how far one is
``uploads``        ``blobs.py``           blobs that wait to be uploaded once more
``pointers``       ``pointers.py``        what a stage has published (``Pointer``)
``runs``           ``runs.py``            interpretation runs, and what each unit's active run has read
``batches``        ``batches.py``         what is being interpreted, by which process, and what one died over
``choices``        ``choices.py``         the runs that a person promoted
``answers``        ``answers.py``         what a chat model answered about windows, and who holds the windows
``quotas``         ``answers.py``         questions to a chat model by the month
``dead_letters``   ``dead_letters.py``    items that failed or were passed by, with the reason
``tombstones``     ``deletions.py``       documents that were deleted for good
``notifications``  ``notifications.py``   what endpoints are told of, and which were reached
``assertions``     ``assertions.py``      what people decided: corrections, structured facts, merges, undoing
``feedback``       ``feedback.py``        what people think of answers
``receipts``       ``deletions.py``       what each deletion has done in each store
``retention``      ``retention.py``       how long the documents of a source, or single ones, are kept
``audit_log``      ``deletions.py``       deletions, restorations and the like, by ids
(functions)        ``copies.py``          the lasting rows as records, for backups
``database``       ``database.py``        transactions of one namespace, and what is tried again
=================  =====================  ==================================================================

What spans subjects stands in ``catalog.py``. Beneath them are ``schema.py`` (the tables), ``writing.py``
(many rows at once), ``migrator.py`` (looking at a database before its first use, and migrating it) and
``outages.py`` (which failures pass). SQL on these tables is written here and nowhere else, but for
``stores/state/catalog.py``, which keeps the tables ``state_*``.

**A migration** is added in four steps: change ``schema.py``; write the Alembic script
``migrations/versions/NNNN_what_it_does.py`` with ``upgrade`` and ``downgrade`` for both databases; append its
revision to ``REVISIONS`` in ``migrator.py``; give a new table its row-level security as script 0002 does.
``test_catalog_migrations.py`` then compares the migrated database with the schema.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    import sqlalchemy as sa

    from taboot_pipelines.stores.catalog.catalog import Catalog
    from taboot_pipelines.stores.leases.protocol import LeaseStore


def open_catalog(settings: Settings, leases: LeaseStore) -> Catalog:
    """Open the catalog at ``TABOOT_CATALOG_URL`` (SQLite or PostgreSQL), by default a file of the home.

    It is migrated to the newest revision when opened (SQLite) or first used (PostgreSQL: opening touches no
    network), and not at all where TABOOT_READ_ONLY is set: then one of another revision raises ``E_CATALOG``.
    ``TABOOT_CATALOG_ADMIN_URL`` is the owner who migrates (default: the same role). Raises
    ``E_CONFIG`` for an unusable URL, ``E_CATALOG`` for a file that is no catalog, ``E_STORAGE`` if the disk
    refuses; and, at the same moment as it is migrated, ``E_CATALOG`` for a catalog that is gone or empty
    beside what it knew of.
    """
    import sqlalchemy as sa

    from taboot_pipelines.stores.catalog.catalog import Catalog
    from taboot_pipelines.stores.catalog.database import Database, create_engine
    from taboot_pipelines.stores.catalog.outages import of_sqlite

    url, admin_url = (
        None if secret is None else secret.get_secret_value()
        for secret in (settings.catalog_url, settings.catalog_admin_url)
    )
    engine = create_engine(settings.home_dir, url, read_only=settings.read_only)
    try:
        database = Database(
            engine,
            leases,
            admin_url,
            partial(_refuse_lost, settings, engine.url),
            read_only=settings.read_only,
        )
        if database.engine.dialect.name == "sqlite":
            database.migrator.ready()
    except (sa.exc.SQLAlchemyError, OSError) as error:
        raise of_sqlite("The catalog cannot be opened", error, engine.url.database) from error
    return Catalog(database)


def _refuse_lost(settings: Settings, url: sa.URL) -> None:
    """Raise ``E_CATALOG`` if a home holds blobs, tables or shards, and so had a catalog before this new one.

    A new one would know of no deletion: with it the next ingest would bring every deleted document back.
    """
    places = (
        (settings.blob_url, "blobs", "*/*/*"),
        (settings.table_url, "tables", "*/*/*"),
        (settings.shard_url, "kb", "*"),
    )
    folders = [(settings.home_dir / name, held) for url, name, held in places if url is None]
    left = [str(folder) for folder, held in folders if folder.is_dir() and any(folder.rglob(held))]
    if left:
        file = url.database
        raise TabootError(
            "E_CATALOG",
            f"The catalog {file} is gone or empty, but what it knew of is still there.",
            remedy=(
                "Copy it back from a backup. To begin anew without it, which fetches everything again and"
                f" brings back what was deleted, first move {' and '.join(left)} away."
            ),
            path=file,
        )
