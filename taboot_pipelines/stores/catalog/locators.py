"""Locators: the log of what was fetched and what was seen to be gone, and the present state that follows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model.ids import canonical_json, digest
from taboot_pipelines.model.jobs import Lifecycle, check_transition
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.blobs import Blobs, blob_row
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.deletions import record_event
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts, upsert, write


class Locator(NamedTuple):
    """The present state of a locator: which bytes are there, since when, and what the origin said of them.

    ``state`` is present or absent, ``role`` document or input. ``created_at`` is the time of the log entry
    that began the unbroken presence; ``since`` and ``job_id`` are those of the entry that brought the present
    bytes, ``announced_at`` since when the document is EXPIRING (microseconds since the epoch).
    """

    path: str
    doc_id: str
    state: str
    role: str
    sha256: str
    byte_size: int
    mime: str | None
    charset: str | None
    url: str | None
    final_url: str | None
    etag: str | None
    last_modified: str | None
    lifecycle: str
    created_at: int
    since: int
    job_id: str
    announced_at: int | None = None


_COLUMNS = [t.locator.c[name] for name in Locator._fields]
#: Events after which a path has bytes.
_BRINGS = frozenset({"fetched", "restored"})


class PathChange(NamedTuple):
    """A path of a source of which something was logged since a moment: the hash of its bytes then and now
    (None: it was not there), when the last of it was (microseconds since the epoch), and what the origin said
    of each of the two, as JSON. ``forgotten``: it was there then with bytes that the log no longer names."""

    source_id: str
    path: str
    before: str | None
    after: str | None
    at: int
    said: Mapping[str, str]
    forgotten: bool = False

    def attributes(self, sha256: str | None) -> dict[str, Any]:
        """What the origin said of these bytes: ``mime``, ``charset``, ``url``, ``final_url`` …"""
        found: dict[str, Any] = orjson.loads(self.said.get(sha256 or "", "{}"))
        return found


class Locators:
    """Every change is logged and applied in one transaction, under the leases of the source."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.database = database
        self._blobs = blobs

    @retried
    def of_source(
        self, namespace: str, source_id: str, *, state: str | None = "present"
    ) -> dict[str, Locator]:
        """The locators of a source by path; ``state=None`` for those in any state."""
        query = sa.select(*_COLUMNS).where(
            t.locator.c.namespace == namespace, t.locator.c.source_id == source_id
        )
        if state is not None:
            query = query.where(t.locator.c.state == state)
        with self.database.read(namespace) as c:
            return {x.path: x for x in _locators(c, query)}

    @retried
    def etags(self, namespace: str, source_id: str) -> list[tuple[str, str | None, str]]:
        """(path, ETag, role) of the present locators of a source: what tells an unchanged one."""
        query = sa.select(t.locator.c.path, t.locator.c.etag, t.locator.c.role).where(
            t.locator.c.namespace == namespace,
            t.locator.c.source_id == source_id,
            t.locator.c.state == "present",
        )
        with self.database.read(namespace) as c:
            return list(c.execute(query).cursor.fetchall())

    @retried
    def sizes(self, namespace: str, source_id: str) -> dict[str, int]:
        """{SHA-256: bytes} of what is present of a source."""
        query = sa.select(t.locator.c.sha256, t.locator.c.byte_size).where(
            t.locator.c.namespace == namespace,
            t.locator.c.source_id == source_id,
            t.locator.c.state == "present",
        )
        with self.database.read(namespace) as c:
            return dict(c.execute(query).cursor.fetchall())

    @retried
    def listed(
        self, namespace: str, source_ids: Collection[str]
    ) -> dict[str, list[tuple[str, str | None, str, str, int]]]:
        """(path, ETag, role, SHA-256, bytes) of what is present of some sources, by source."""
        x = t.locator.c
        query = sa.select(x.source_id, x.path, x.etag, x.role, x.sha256, x.byte_size).where(
            x.namespace == namespace, x.source_id.in_(sorted(source_ids)), x.state == "present"
        )
        found: dict[str, list[tuple[str, str | None, str, str, int]]] = {}
        with self.database.read(namespace) as c:
            for source_id, *row in c.execute(query).cursor.fetchall():
                found.setdefault(source_id, []).append(tuple(row))
        return found

    @retried
    def positions(self, namespace: str, source_ids: Collection[str]) -> dict[str, int]:
        """As :meth:`position`, of those of some sources that have log entries."""
        f = t.fetch.c
        query = (
            sa.select(f.source_id, sa.func.max(f.id))
            .where(f.namespace == namespace, f.source_id.in_(sorted(source_ids)))
            .group_by(f.source_id)
        )
        with self.database.read(namespace) as c:
            return {source_id: int(last) for source_id, last in c.execute(query)}

    @retried
    def at(self, namespace: str, source_id: str, paths: Collection[str]) -> dict[str, Locator]:
        """The locators at some paths of a source, in any state."""
        found: dict[str, Locator] = {}
        with self.database.read(namespace) as c:
            for part in parts(sorted(set(paths))):
                query = sa.select(*_COLUMNS).where(
                    t.locator.c.namespace == namespace,
                    t.locator.c.source_id == source_id,
                    t.locator.c.path.in_(part),
                )
                found |= {x.path: x for x in _locators(c, query)}
        return found

    @retried
    def changes(self, namespace: str, since: int, source_id: str | None = None) -> list[PathChange]:
        """The documents of which something was logged at ``since`` or later, by source and path. Bytes that
        were restored are those that the path had."""
        f, touching, x = t.fetch.c, t.fetch.alias("touching").c, t.locator.c
        of_source = [] if source_id is None else [touching.source_id == source_id]
        # A join would be made by looking at a source's whole log for each path.
        touched = sa.select(touching.source_id, touching.path).where(
            touching.namespace == namespace, touching.fetched_at >= since, *of_source
        )
        query = (
            sa.select(f.source_id, f.path, f.event, f.sha256, f.role, f.attributes, f.fetched_at)
            .where(f.namespace == namespace, sa.tuple_(f.source_id, f.path).in_(touched))
            .order_by(f.id)
        )
        older = sa.select(x.source_id, x.path).where(
            x.namespace == namespace,
            x.state == "present",
            x.created_at < since,
            sa.tuple_(x.source_id, x.path).in_(touched),
        )
        # By source and path: the hash then and now, when, and what was said. Of a new house all that was
        # logged passes here, so nothing is made of a row that its path does not need.
        found: dict[tuple[str, str], tuple[str | None, str | None, int, dict[str, str]]] = {}
        inputs: set[tuple[str, str]] = set()
        with self.database.read(namespace) as c:
            for source, path, event, sha256, role, attributes, fetched_at in c.execute(
                query
            ).cursor.fetchall():
                at = (source, path)
                before, _, _, said = found.get(at) or (None, None, 0, {})
                if role is not None:
                    (inputs.add if role == "input" else inputs.discard)(at)
                if sha256 is not None and event == "fetched":
                    said[sha256] = attributes or "{}"
                after = sha256 if event in _BRINGS else None
                found[at] = (after if fetched_at < since else before, after, fetched_at, said)
            was_there = set(map(tuple, c.execute(older).cursor.fetchall()))
        # Sorted here: a server sorts text by its language.
        told = ((at, *found[at]) for at in sorted(found.keys() - inputs))
        return [
            PathChange(*at, before, after, when, said, forgotten=before is None and at in was_there)
            for at, before, after, when, said in told
        ]

    @retried
    def history(self, namespace: str, source_id: str, path: str, limit: int) -> list[Row]:
        """The last ``limit`` log entries of one path, the oldest first: event, sha256, fetched_at, job_id."""
        f = t.fetch.c
        where = (f.namespace == namespace, f.source_id == source_id, f.path == path)
        query = sa.select(f.event, f.sha256, f.fetched_at, f.job_id).where(*where).order_by(f.id.desc())
        with self.database.read(namespace) as c:
            return [dict(row._mapping) for row in reversed(c.execute(query.limit(limit)).all())]

    @retried
    def sample(self, namespace: str, source_id: str, limit: int) -> list[Locator]:
        """The first present locators of a source, by path."""
        query = (
            sa.select(*_COLUMNS)
            .where(
                t.locator.c.namespace == namespace,
                t.locator.c.source_id == source_id,
                t.locator.c.state == "present",
            )
            .order_by(t.locator.c.path)
            .limit(limit)
        )
        with self.database.read(namespace) as c:
            return list(_locators(c, query))

    @retried
    def count(self, namespace: str, source_id: str, role: str | None = None) -> int:
        """How many locators of a source are present (with a ``role``: of those in it)."""
        query = (
            sa.select(sa.func.count())
            .select_from(t.locator)
            .where(
                t.locator.c.namespace == namespace,
                t.locator.c.source_id == source_id,
                t.locator.c.state == "present",
            )
        )
        if role is not None:
            query = query.where(t.locator.c.role == role)
        with self.database.read(namespace) as c:
            return int(c.execute(query).scalar_one())

    @retried
    def position(self, namespace: str, source_id: str) -> int:
        """The number of the source's last log entry, 0 without one: while it stays, so does every locator."""
        query = sa.select(sa.func.max(t.fetch.c.id)).where(
            t.fetch.c.namespace == namespace, t.fetch.c.source_id == source_id
        )
        with self.database.read(namespace) as c:
            return int(c.execute(query).scalar_one() or 0)

    @retried
    def changed_since(self, namespace: str, source_id: str, position: int) -> dict[str, Locator]:
        """The locators, in any state, that have log entries after ``position``, by path."""
        entries = (
            sa.select(t.fetch.c.path)
            .distinct()
            .where(
                t.fetch.c.namespace == namespace,
                t.fetch.c.source_id == source_id,
                t.fetch.c.id > position,
            )
        )
        query = sa.select(*_COLUMNS).where(
            t.locator.c.namespace == namespace,
            t.locator.c.source_id == source_id,
            t.locator.c.path.in_(entries),
        )
        with self.database.read(namespace) as c:
            return {x.path: x for x in _locators(c, query)}

    @retried
    def of_documents(self, namespace: str, doc_ids: Collection[str]) -> list[tuple[str, Locator]]:
        """(source id, locator) of documents by id, whatever their state."""
        found = []
        with self.database.read(namespace) as c:
            for part in parts(sorted(doc_ids)):
                query = sa.select(t.locator.c.source_id, *_COLUMNS).where(
                    t.locator.c.namespace == namespace, t.locator.c.doc_id.in_(part)
                )
                found += [(r[0], Locator(*r[1:])) for r in c.execute(query)]
        return found

    def captures_of(
        self, namespace: str, pages: Collection[tuple[str, Locator]]
    ) -> list[tuple[str, Locator]]:
        """(source id, locator) of what was captured of web pages, whatever its state: an input whose path is
        a page's and a fragment.
        """
        wanted = {(source_id, page.path) for source_id, page in pages if page.url is not None}
        found = []
        with self.database.read(namespace) as c:
            for part in parts(sorted({source_id for source_id, _ in wanted})):
                query = sa.select(t.locator.c.source_id, *_COLUMNS).where(
                    t.locator.c.namespace == namespace,
                    t.locator.c.source_id.in_(part),
                    t.locator.c.role == "input",
                    t.locator.c.url.is_not(None),
                )
                found += [(r[0], Locator(*r[1:])) for r in c.execute(query)]
        return [(s, x) for s, x in found if (s, x.path.rpartition("#")[0]) in wanted]

    @retried
    def record_fetched(
        self,
        namespace: str,
        source_id: str,
        source_type: str,
        job_id: str,
        locators: Sequence[Locator],
        storage_url: str,
    ) -> None:
        """Log changed bytes and make them the locators' present state, in one transaction."""
        if not locators:
            return
        now = now_micros()
        with self.database.publishing(namespace) as c:
            log = [
                _log_entry(
                    namespace,
                    source_id,
                    x.path,
                    job_id,
                    "fetched",
                    x.since if x.job_id == job_id else now,
                    sha256=x.sha256,
                    role=x.role,
                    attributes={
                        "mime": x.mime,
                        "charset": x.charset,
                        "url": x.url,
                        "final_url": x.final_url,
                        "etag": x.etag,
                        "last_modified": x.last_modified,
                        "byte_size": x.byte_size,
                    },
                )
                for x in locators
            ]
            write(c, t.fetch, log)
            self._come_back(c, namespace, source_id, locators, job_id)
            self._set(c, namespace, source_id, locators)
            blobs = {x.sha256: x for x in locators}
            pending = set(
                c.execute(
                    sa.select(t.upload_queue.c.content_hash).where(t.upload_queue.c.namespace == namespace)
                ).scalars()
            )
            rows = [
                blob_row(
                    namespace,
                    x.sha256,
                    x.byte_size,
                    storage_url,
                    source_type,
                    mime=x.mime,
                    file_name=x.path.rsplit("/", 1)[-1],
                    created_at=now,
                    status="pending" if x.sha256 in pending else "uploaded",
                    agent=source_id,
                    metadata={"charset": x.charset, "etag": x.etag, "last_modified": x.last_modified},
                )
                for x in blobs.values()
            ]
            self._blobs.add(c, namespace, rows)

    @retried
    def record_absent(
        self,
        namespace: str,
        source_id: str,
        job_id: str,
        locators: Sequence[Locator],
        event: str = "absent",
        *,
        confirmed: int | None = None,
    ) -> None:
        """Log that locators are gone: ``absent`` from their origin, or ``deleted`` by us.

        ``confirmed`` is how many deletions a person has confirmed, recorded as an input in the same
        transaction.
        """
        now = now_micros()
        if not locators:
            return
        with self.database.publishing(namespace) as c:
            if confirmed is not None:
                c.execute(
                    sa.insert(t.confirmation).values(
                        namespace=namespace,
                        source_id=source_id,
                        job_id=job_id,
                        deletions=confirmed,
                        confirmed_at=now,
                    )
                )
            write(
                c, t.fetch, [_log_entry(namespace, source_id, x.path, job_id, event, now) for x in locators]
            )
            self._change(c, namespace, source_id, locators, Lifecycle.DELETED, job_id)
            gone = [x._replace(state="absent", lifecycle=Lifecycle.DELETED.value) for x in locators]
            self._set(c, namespace, source_id, gone)

    @retried
    def touch(self, namespace: str, source_id: str, locators: Sequence[Locator]) -> None:
        """Keep what an origin now says of unchanged bytes (a new ETag); no derived row depends on it."""
        with self.database.publishing(namespace) as c:
            self._set(c, namespace, source_id, locators)

    @retried
    def activate(self, namespace: str, source_id: str) -> None:
        """INGESTED -> ACTIVE for documents whose extraction is complete and which are queryable."""
        query = sa.select(*_COLUMNS).where(
            t.locator.c.namespace == namespace,
            t.locator.c.source_id == source_id,
            t.locator.c.state == "present",
            t.locator.c.lifecycle == Lifecycle.INGESTED.value,
        )
        with self.database.publishing(namespace) as c:
            self._change(c, namespace, source_id, list(_locators(c, query)), Lifecycle.ACTIVE, source_id)

    @retried
    def change(
        self,
        namespace: str,
        source_id: str,
        paths: Collection[str],
        target: Lifecycle,
        cause: str,
        at: int | None = None,
    ) -> None:
        """Bring the present documents at these paths to another state; ``cause`` is the id of what does it,
        ``at`` the time (by default the present).

        Raises ``E_TRANSITION`` where that is not legal; then none is changed.
        """
        with self.database.publishing(namespace) as c:
            for part in parts(sorted(paths)):
                query = sa.select(*_COLUMNS).where(
                    t.locator.c.namespace == namespace,
                    t.locator.c.source_id == source_id,
                    t.locator.c.state == "present",
                    t.locator.c.path.in_(part),
                )
                self._change(c, namespace, source_id, list(_locators(c, query)), target, cause, at)

    def _come_back(
        self, c: Connection, namespace: str, source_id: str, locators: Sequence[Locator], job_id: str
    ) -> None:
        """Begin the life of documents anew that were there before."""
        new = [x.path for x in locators if x.lifecycle == Lifecycle.INGESTED.value]
        for part in parts(sorted(new)):
            query = sa.select(*_COLUMNS).where(
                t.locator.c.namespace == namespace,
                t.locator.c.source_id == source_id,
                t.locator.c.path.in_(part),
                t.locator.c.state == "absent",
            )
            self._change(c, namespace, source_id, list(_locators(c, query)), Lifecycle.INGESTED, job_id)

    def _change(
        self,
        c: Connection,
        namespace: str,
        source_id: str,
        locators: Sequence[Locator],
        target: Lifecycle,
        cause: str,
        at: int | None = None,
    ) -> None:
        """Change the state of documents, with an event in the audit log for each state that they were in."""
        announced = (now_micros() if at is None else at) if target is Lifecycle.EXPIRING else None
        before: dict[str, list[Locator]] = {}
        for x in locators:
            if x.lifecycle != target.value:
                before.setdefault(x.lifecycle, []).append(x)
        for state, changed in sorted(before.items()):
            check_transition(Lifecycle(state), target)
            doc_ids = sorted(x.doc_id for x in changed if x.role == "document")
            if doc_ids:
                details = {"from": state, "to": target.value, "doc_ids": doc_ids}
                record_event(c, namespace, "lifecycle", cause, details)
            after = [x._replace(lifecycle=target.value, announced_at=announced) for x in changed]
            self._set(c, namespace, source_id, after)

    @retried
    def kept_for(
        self, namespace: str, source_ids: Collection[str], doc_ids: Collection[str]
    ) -> list[tuple[str, Locator]]:
        """(source id, locator) of the present documents of these sources, and of those with these ids."""
        x = t.locator.c
        present = (x.namespace == namespace, x.state == "present", x.role == "document")
        found: dict[tuple[str, str], Locator] = {}
        with self.database.read(namespace) as c:
            for column, values in ((x.source_id, source_ids), (x.doc_id, doc_ids)):
                for part in parts(sorted(values)):
                    query = sa.select(x.source_id, *_COLUMNS).where(*present, column.in_(part))
                    found |= {(r[0], r[1]): Locator(*r[1:]) for r in c.execute(query)}
        return [(source_id, located) for (source_id, _), located in sorted(found.items())]

    @retried
    def in_lifecycle(self, namespace: str, state: Lifecycle) -> list[tuple[str, Locator]]:
        """(source id, locator) of the present documents in a state."""
        x = t.locator.c
        query = sa.select(x.source_id, *_COLUMNS).where(
            x.namespace == namespace,
            x.state == "present",
            x.role == "document",
            x.lifecycle == state.value,
        )
        with self.database.read(namespace) as c:
            return [(r[0], Locator(*r[1:])) for r in c.execute(query)]

    @retried
    def lifecycles(self, namespace: str) -> dict[str, dict[str, int]]:
        """{source id: {state: how many}} of the present documents."""
        x, own = t.locator.c, t.source_entry.c
        # To count one state at a time, as the index has them, takes half as long as to group rows by it.
        present = (x.namespace == namespace, x.state == "present", x.role == "document")
        counts = [
            sa.select(sa.func.count())
            .select_from(t.locator)
            .where(*present, x.source_id == own.source_id, x.lifecycle == state.value)
            .scalar_subquery()
            .label(state.value)
            for state in Lifecycle
        ]
        query = sa.select(own.source_id, *counts).where(own.namespace == namespace)
        found: dict[str, dict[str, int]] = {}
        with self.database.read(namespace) as c:
            for source_id, *counted in c.execute(query):
                held = {s.value: int(n) for s, n in zip(Lifecycle, counted, strict=True) if n}
                if held:
                    found[source_id] = held
        return found

    @retried
    def expired(self, namespace: str, source_id: str) -> dict[str, Locator]:
        """The locators of a source whose documents expired, by path: other bytes bring them back."""
        query = (
            sa.select(*_COLUMNS)
            .join(
                t.tombstone,
                sa.and_(
                    t.tombstone.c.namespace == t.locator.c.namespace,
                    t.tombstone.c.doc_id == t.locator.c.doc_id,
                    t.tombstone.c.sha256 == t.locator.c.sha256,
                ),
            )
            .where(
                t.locator.c.namespace == namespace,
                t.locator.c.source_id == source_id,
                t.locator.c.state == "absent",
                t.tombstone.c.reason == "expired",
            )
        )
        with self.database.read(namespace) as c:
            return {x.path: x for x in _locators(c, query)}

    @retried
    def restore(self, namespace: str, doc_ids: Collection[str]) -> int:
        """Bring soft-deleted locators back to present, as if just fetched; returns how many."""
        now = now_micros()
        back = [
            (source, x, digest("restore", namespace, x.doc_id, now))
            for source, x in self.of_documents(namespace, doc_ids)
            if x.state != "present"
        ]
        if back:
            log = [
                _log_entry(
                    namespace,
                    source,
                    x.path,
                    job_id,
                    "restored",
                    now,
                    sha256=x.sha256,
                    role=x.role,
                    attributes={"byte_size": x.byte_size},
                )
                for source, x, job_id in back
            ]
            present = [
                _row(
                    namespace,
                    source,
                    x._replace(
                        state="present",
                        lifecycle=Lifecycle.INGESTED.value,
                        created_at=now,
                        since=now,
                        job_id=job_id,
                        etag=None,
                        last_modified=None,
                    ),
                )
                for source, x, job_id in back
            ]
            with self.database.publishing(namespace) as c:
                write(c, t.fetch, log)
                for source in sorted({source for source, _, _ in back}):
                    deleted = [x for s, x, _ in back if s == source]
                    self._change(c, namespace, source, deleted, Lifecycle.INGESTED, digest("restore", now))
                upsert(c, t.locator, present)
        return len(back)

    @retried
    def held_hashes(self, namespace: str) -> set[str]:
        """Blobs that a present document or input holds, or that a deleted document can be restored to."""
        restorable = sa.select(t.tombstone.c.doc_id).where(
            t.tombstone.c.namespace == namespace, t.tombstone.c.reason == "deleted"
        )
        with self.database.read(namespace) as c:
            return set(
                c.execute(
                    sa.select(t.locator.c.sha256)
                    .distinct()
                    .where(
                        t.locator.c.namespace == namespace,
                        sa.or_(t.locator.c.state == "present", t.locator.c.doc_id.in_(restorable)),
                    )
                ).scalars()
            )

    @retried
    def hashes_only_of(self, namespace: str, doc_ids: Collection[str]) -> list[str]:
        """Blobs of these documents, past versions included, that no other document holds now or can be
        restored to.
        """
        wanted = set(doc_ids)
        theirs: set[str] = set()
        restorable = sa.select(t.tombstone.c.doc_id).where(
            t.tombstone.c.namespace == namespace, t.tombstone.c.reason == "deleted"
        )
        held = sa.or_(t.locator.c.state == "present", t.locator.c.doc_id.in_(restorable))
        located = self.of_documents(namespace, wanted)
        with self.database.read(namespace) as c:
            for source_id in {source for source, _ in located}:
                for part in parts(sorted(x.path for source, x in located if source == source_id)):
                    theirs |= set(
                        c.execute(
                            sa.select(t.fetch.c.sha256)
                            .distinct()
                            .where(
                                t.fetch.c.namespace == namespace,
                                t.fetch.c.source_id == source_id,
                                t.fetch.c.path.in_(part),
                                t.fetch.c.sha256.is_not(None),
                            )
                        ).scalars()
                    )
            for part in parts(sorted(theirs)):
                rows = c.execute(
                    sa.select(t.locator.c.sha256, t.locator.c.doc_id).where(
                        t.locator.c.namespace == namespace, t.locator.c.sha256.in_(part), held
                    )
                ).all()
                theirs -= {r.sha256 for r in rows if r.doc_id not in wanted}
        return sorted(theirs)

    def forget(self, c: Connection, namespace: str, source_id: str, paths: Collection[str]) -> None:
        """Erase the log and the state of these paths."""
        for part in parts(sorted(paths)):
            for table in (t.fetch, t.locator):
                where = (
                    table.c.namespace == namespace,
                    table.c.source_id == source_id,
                    table.c.path.in_(part),
                )
                if table is t.fetch:
                    self._keep_positions(c, namespace, where)
                c.execute(sa.delete(table).where(*where))

    def forget_absent(self, c: Connection, namespace: str, blobs: Collection[str]) -> None:
        """Erase the log of these bytes, and the paths that held them and are absent now."""
        for part in parts(sorted(blobs)):
            where = (t.fetch.c.namespace == namespace, t.fetch.c.sha256.in_(part))
            self._keep_positions(c, namespace, where)
            c.execute(sa.delete(t.fetch).where(*where))
            c.execute(
                sa.delete(t.locator).where(
                    t.locator.c.namespace == namespace,
                    t.locator.c.sha256.in_(part),
                    t.locator.c.state == "absent",
                )
            )

    def _keep_positions(self, c: Connection, namespace: str, where: Sequence[Any]) -> None:
        """Empty the last log entry of a source if it is about to be deleted: the log keeps its position."""
        last = (
            sa.select(sa.func.max(t.fetch.c.id))
            .where(t.fetch.c.namespace == namespace)
            .group_by(t.fetch.c.source_id)
        )
        empty = {"path": "", "event": "forgotten", "sha256": None, "role": None, "attributes": None}
        c.execute(sa.update(t.fetch).where(*where, t.fetch.c.id.in_(last)).values(**empty))

    def _set(self, c: Connection, namespace: str, source_id: str, locators: Sequence[Locator]) -> None:
        upsert(c, t.locator, [_row(namespace, source_id, x) for x in locators])


def _locators(connection: Connection, query: sa.Select[Any]) -> Iterator[Locator]:
    """Yield the locators of a query for :data:`_COLUMNS`.

    The driver's rows are taken as they are, since texts and numbers need no conversion: a source may have
    tens of thousands.
    """
    return map(Locator._make, connection.execute(query).cursor.fetchall())


def _row(namespace: str, source_id: str, x: Locator) -> dict[str, Any]:
    return {"namespace": namespace, "source_id": source_id, **x._asdict()}


def _log_entry(
    namespace: str,
    source_id: str,
    path: str,
    job_id: str,
    event: str,
    fetched_at: int,
    *,
    sha256: str | None = None,
    role: str | None = None,
    attributes: Row | None = None,
) -> dict[str, Any]:
    """A row of the fetch log; an event without bytes has no hash, role and attributes."""
    return {
        "namespace": namespace,
        "source_id": source_id,
        "path": path,
        "job_id": job_id,
        "event": event,
        "sha256": sha256,
        "role": role,
        "attributes": None if attributes is None else canonical_json(attributes),
        "fetched_at": fetched_at,
    }
