"""raw_blobs: what a connector fetched, as immutable bytes and a log of what changed.

One enumeration of one source is a :class:`Batch`: its bytes are stored, what changed is logged, what is
absent recorded. Blobs whose object store did not answer are kept beside the catalog and uploaded when it does
(:func:`drain_uploads`); the chain goes on meanwhile, since reads fall back to the waiting bytes. That is only
for an object store by URL: if the default directory cannot be written, neither can a queue.

Holds rules ``bytes-first``, ``incremental-equals-scratch``, ``complete-enumeration`` and
``nothing-lost-silently``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from taboot_pipelines.crawl.frontier import Frontier
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.crawls import CrawlPlan
from taboot_pipelines.model.jobs import JobState, Lifecycle
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    NotModified,
    Role,
    Skipped,
    Stored,
    Unchanged,
)
from taboot_pipelines.stages.held_deletions import Judged, Listed, fresh_paths, hold, judge, release
from taboot_pipelines.stages.progress import tracked
from taboot_pipelines.stages.quotas import EVERY, Meter
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.source_state import (
    BatchState,
    KnownLocators,
    PresentLocators,
    fingerprint,
    open_source,
    tombstoned_paths,
)
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace
from taboot_pipelines.stores.catalog.locators import Locator
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.catalog.writing import now_micros

#: Seconds to wait after each failure; after the last one the upload is `failed`.
RETRY_SECONDS = (30, 60, 120, 300, 600)


def keep_for_upload(workspace: Workspace, namespace: str, data: bytes, error: TabootError) -> bool:
    """Queue bytes that could not be uploaded.

    Returns False if there is no queue, so that the failure stands.
    """
    waiting = workspace.blobs.waiting
    if waiting is None:
        return False
    sha256, _ = waiting.put(namespace, data)
    workspace.catalog.uploads.enqueue(
        namespace,
        sha256,
        waiting.path(namespace, sha256),
        len(data),
        max_retries=len(RETRY_SECONDS),
        next_retry_at=now_micros() + RETRY_SECONDS[0] * 1_000_000,
        error_message=error.message,
    )
    return True


def drain_uploads(workspace: Workspace, namespace: str) -> tuple[int, int]:
    """Upload what is due; return how many uploads are done and how many still wait."""
    waiting = workspace.blobs.waiting
    done = left = 0
    if waiting is None:
        return done, left
    for row in workspace.catalog.uploads.due(namespace, now_micros()):
        sha256 = row["content_hash"]
        try:
            data = waiting.get(namespace, sha256)
            workspace.blobs.put(namespace, data)
        except TabootError as error:
            left += 1
            tries = row["retry_count"] + 1
            wait = RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)]
            workspace.catalog.uploads.mark_failed(
                namespace,
                sha256,
                tries,
                now_micros() + wait * 1_000_000,
                error.message,
                final=tries >= row["max_retries"],
            )
        else:
            done += 1
            workspace.catalog.uploads.mark_done(namespace, sha256)
            waiting.delete(namespace, sha256)
    return done, left


STAGE = "raw_blobs"
#: discovered = fetched + not_modified + skipped + failed (rule ``nothing-lost-silently``).
LEDGER = ("discovered", "fetched", "not_modified", "skipped", "failed", "removed")
_FLUSH = 256
#: Of a blob whose bytes are lost: letters of these codes let the next run ask its origin for every byte.
DAMAGED = frozenset({"E_BLOB_CORRUPT", "E_BLOB_MISSING"})
#: A longer path is refused, whatever the catalog: entries of PostgreSQL's indexes, which paths are part of,
#: hold at most 2,704 bytes, and one page must not fail its batch there.
MAX_PATH_BYTES = 2048


def _is_long(path: str) -> bool:
    return len(path.encode()) > MAX_PATH_BYTES


def _day(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).date().isoformat()


def _shown(path: str) -> str:
    """Return the path itself, or of a long one its beginning and a hash that tells it from others."""
    return f"{path[:200]}…{ids.sha256_hex(path.encode())[:16]}" if _is_long(path) else path


@dataclass
class Batch:
    """One enumeration of one source: an ingest job."""

    workspace: Workspace
    entry: Entry
    report: StageReport
    progress: Progress
    changed: list[Locator] = field(default_factory=list)
    touched: list[Locator] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    state: BatchState | None = None

    def __post_init__(self) -> None:
        self.catalog = self.workspace.catalog
        self.namespace, self.source_id = self.entry.namespace, self.entry.source_id
        self.known = PresentLocators(self.catalog.locators, self.namespace, self.source_id)
        self.tombstones = self.catalog.tombstones.all(self.namespace)
        #: What expired, by document id: these bytes stay away, and other ones bring it back.
        self.expired = {d: row["sha256"] for d, row in self.tombstones.items() if row["reason"] == "expired"}
        fresh = fresh_paths(self.catalog, self.namespace, self.source_id, self.known)
        self.listed = Listed(self.known, fresh)
        self.meter = Meter(self.workspace, self.namespace)
        self.job_id = self.catalog.jobs.start(
            self.namespace, self.source_id, fingerprint(self.workspace.settings, self.entry)
        )
        self.report.counts |= dict.fromkeys(LEDGER, 0)
        # A blob that a later stage or an audit found damaged, or that a directory plainly lacks, is written
        # again from the origin's bytes.
        self.damaged = not self.entry.retiring and (
            any(d["code"] in DAMAGED for d in self.catalog.dead_letters.find(self.namespace, self.source_id))
            or self.workspace.blobs.lacks(
                self.namespace, self.catalog.locators.sizes(self.namespace, self.source_id)
            )
        )

    def fetch(self, confirm_deletes: bool) -> None:
        done, left = drain_uploads(self.workspace, self.namespace)
        if done or left:
            self.report.counts |= {"uploads_done": done, "uploads_waiting": left}
        self.state = BatchState(self.catalog, self.entry, damaged=self.damaged)
        connector = open_source(self.workspace, self.entry, self.known, self._frontier, self.state)
        # If a blob is damaged, the answer "not modified" would bring no bytes.
        expired = self.catalog.locators.expired(self.namespace, self.source_id) if self.expired else None
        known = KnownLocators(self.known, self.damaged, expired)
        enumerated = Enumerated(False, "the connector ended early")
        events = connector.events(known, tombstoned_paths(self.workspace, self.entry, self.tombstones))
        with contextlib.ExitStack() as cancelled:
            if isinstance(events, Generator):
                # Whoever cancels the run wants what was on its way to be given back at once.
                cancelled.callback(events.close)
            for event in self._without_expired(events):
                self.listed.take(event)
                match event:
                    case Enumerated():
                        enumerated = event
                        break
                    case Unchanged():
                        self.report.add("discovered", len(event.roles))
                        self._keep(event.roles)
                    case Checkpoint():
                        self._flush()
                    case _:
                        self._take(event)
            cancelled.pop_all()
        self._flush(commit=False)
        absent = self.listed.absent(self.workspace, self.entry, enumerated)
        judged = judge(self.listed, absent)
        if self.report.limited:
            # What a cursor has gone past would not be told again once there is room.
            self.state.forget()
        if judged.held and not (confirm_deletes or enumerated.confirmed):
            # Nor what is told before the deletions are confirmed.
            self.state.forget()
            hold(self.workspace, self.entry, judged, self.report)
        else:
            self._record_absent(absent, judged)
            self.state.commit()
            release(self.workspace, self.entry)
        counts = self.report.counts
        self.catalog.dead_letters.record(
            self.namespace,
            self.source_id,
            STAGE,
            self.letters,
            {d["item"] for d in self.catalog.dead_letters.find(self.namespace, self.source_id, STAGE)}
            - {x["item"] for x in self.letters},
        )
        self.catalog.jobs.end(
            self.job_id,
            JobState.SUCCEEDED,
            {
                **{k: counts[k] for k in LEDGER},
                "complete": enumerated.complete,
                "held": self._held(),
            },
            namespace=self.namespace,
        )
        next(events, None)
        if not enumerated.complete:
            self.report.problem(
                "E_NOT_FOUND",
                self.source_id,
                f"The enumeration was not complete ({enumerated.reason}): nothing was counted as deleted.",
            )

    def _without_expired(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events but for what expired and has the same bytes still; with others it is new."""
        for event in events:
            match event:
                case Unchanged() if self.expired:
                    # What is known of is there, or expired.
                    gone = event.roles.keys() - self.known.etags.keys()
                    for path in sorted(gone):
                        self._pass_over(path)
                    yield Unchanged({p: r for p, r in event.roles.items() if p not in gone})
                case NotModified() if self.expired and event.path not in self.known:
                    self._pass_over(event.path)
                case Fetched() | Stored() if (
                    self.expired and (doc_id := self._doc_id(event.path)) in self.expired
                ):
                    sha256 = event.sha256 if isinstance(event, Stored) else ids.sha256_hex(event.data)
                    # With the bytes that expired it is there where a kill kept it from being taken away.
                    if self.expired[doc_id] != sha256 or event.path in self.known:
                        yield event
                    else:
                        self._pass_over(event.path)
                case _:
                    yield event

    def _pass_over(self, path: str) -> None:
        """Count what expired and is still at its origin."""
        self.report.counts["discovered"] += 1
        self.report.counts["skipped"] += 1
        message = "The document expired and has not changed since; its tombstone holds."
        self._letter(self._doc_id(path), "E_TOMBSTONED", message, "skipped")

    def _frontier(self, plan: CrawlPlan) -> Frontier:
        crawls = self.catalog.crawls
        return crawls.frontier(self.namespace, crawls.begin(self.namespace, self.source_id, plan))

    def retire(self, confirm_deletes: bool) -> None:
        """Delete all that the source has, if that is confirmed or it has no document."""
        present = self.known.read_all()
        judged = judge(Listed(self.known, set()), present)
        if judged.held and not confirm_deletes:
            hold(self.workspace, self.entry, judged, self.report)
        else:
            self._record_absent(present, judged)
            # An entry that comes back is enumerated as for the first time.
            self.catalog.source_states.forget(self.namespace, [self.source_id])
        self.catalog.jobs.end(
            self.job_id,
            JobState.SUCCEEDED,
            {
                **dict.fromkeys(LEDGER, 0),
                "complete": True,
                "removed": self.report.counts["removed"],
                "held": self._held(),
            },
            namespace=self.namespace,
        )

    def fail(self, error: TabootError) -> None:
        self._end_early(JobState.FAILED, error.to_response())

    def cancel(self) -> None:
        """Keep what was fetched, and note that the job was interrupted."""
        with contextlib.suppress(TabootError):
            self._end_early(JobState.CANCELED, None)

    def _end_early(self, state: JobState, error: Mapping[str, Any] | None) -> None:
        self._flush()
        self.catalog.jobs.end(self.job_id, state, error=error, namespace=self.namespace)

    def sum_up(self) -> None:
        locators = self.catalog.locators
        self.report.sample = [
            {"path": x.path, "sha256": x.sha256[:12], "bytes": x.byte_size, "doc_id": x.doc_id}
            for x in locators.sample(self.namespace, self.source_id, 10)
        ]
        self.report.counts["present"] = locators.count(self.namespace, self.source_id)

    def _doc_id(self, path: str) -> str:
        return ids.doc_id(self.namespace, ids.locator(self.source_id, path))

    def _keep(self, roles: Mapping[str, Role]) -> None:
        """Take what is unchanged, by path."""
        counts = self.report.counts
        counts["not_modified"] += len(roles)
        self.progress(STAGE, counts["discovered"], 0)
        before = self.known.roles
        self.changed += [
            self.known[path]._replace(role=role, job_id=self.job_id)
            for path, role in roles.items()
            if before[path] != role
        ]

    def _take(self, event: Event) -> None:
        assert not isinstance(event, Enumerated | Unchanged | Checkpoint)
        counts = self.report.counts
        counts["discovered"] += 1
        if counts["discovered"] % 64 == 0:
            self.progress(STAGE, counts["discovered"], 0)
        match event:
            case Fetched() | Stored():
                if _is_long(event.path):
                    counts["skipped"] += 1
                    self._letter(
                        event.path,
                        "E_TOO_LARGE",
                        f"The path {_shown(event.path)} has more than {MAX_PATH_BYTES} bytes.",
                        "skipped",
                    )
                elif isinstance(event, Stored):
                    self._take_over(event)
                else:
                    self._store(event)
            case NotModified():
                self._keep({event.path: event.role})
            case Skipped():
                counts["skipped"] += 1
                old = self.known.get(event.path)
                if event.code == "E_TOMBSTONED":
                    # Of a deleted document only the id is recorded: its path may be what was erased.
                    self._letter(
                        self._doc_id(event.path),
                        event.code,
                        "The document was deleted; its tombstone holds.",
                        "skipped",
                    )
                elif event.outside or old is None:
                    self._letter(event.path, event.code, event.message, "skipped")
                else:
                    # What was read before is still served, though the origin has something else by now.
                    self.report.add("stale")
                    message = (
                        f"{event.message} Its bytes of {_day(old.since)} are served until it is read again."
                    )
                    self._letter(event.path, event.code, message, "skipped")
                    self.report.problem(event.code, _shown(event.path), message)
            case Failed():
                counts["failed"] += 1
                self._letter(event.path, event.error.code, event.error.message, "failed")
            case Gone():
                # The origin's answer is itself the reason; the item counts as skipped so that
                # the ledger adds up.
                was_there = event.path in self.known or self._doc_id(event.path) in self.expired
                kind = "skipped" if event.linked or was_there else "failed"
                counts[kind] += 1
                self._letter(event.path, event.code, event.message, kind)
        if len(self.changed) >= _FLUSH:
            self._flush()

    def _store(self, item: Fetched) -> None:
        counts = self.report.counts
        old = self.known.get(item.path)
        sha256 = ids.sha256_hex(item.data)
        if (old is None or old.sha256 != sha256) and not self._admitted(item, sha256, len(item.data)):
            return
        if old is None or old.sha256 != sha256 or self.damaged:
            try:
                _, new = self.workspace.blobs.put(self.namespace, item.data, heal=self.damaged)
            except TabootError as error:
                if not keep_for_upload(self.workspace, self.namespace, item.data, error):
                    counts["failed"] += 1
                    self._letter(item.path, error.code, error.message, "failed")
                    return
                new = True
                self.report.add("uploads_waiting")
            counts["new_blobs"] = counts.get("new_blobs", 0) + new
            self.report.bytes += len(item.data) if new else 0
        self._record(item, sha256, len(item.data))

    def _admitted(self, item: Fetched | Stored, sha256: str, size: int) -> bool:
        """Whether the namespace has room for the item; what has none is told, and tried by the next run."""
        if not self.meter.limited:
            return True
        if len(self.changed) >= EVERY:
            self._flush(commit=False)
            self.meter.look()
        new = item.role == "document" and item.path not in self.known
        try:
            self.meter.take(sha256, size, new_document=new)
        except TabootError as error:
            self.report.add("skipped")
            message = f"{_shown(item.path)} is not taken in: {error.message}"
            self._letter(item.path, error.code, message, "skipped")
            if not self.report.limited:
                told = {"code": error.code, "message": error.message, "remedy": error.remedy}
                self.report.limited.append(told)
            return False
        return True

    def _take_over(self, item: Stored) -> None:
        """Record what another process has put into the blob store, and counted, if it is there."""
        counts = self.report.counts
        try:
            if not self.workspace.blobs.exists(self.namespace, item.sha256):
                # Swept away while nobody led the crawl, or never put here.
                raise TabootError(
                    "E_BLOB_MISSING",
                    f"The bytes of {_shown(item.path)} are not in the blob store here. Processes that share a"
                    " crawl share the blob store too; what was uploaded can be uploaded again.",
                )
        except TabootError as error:
            counts["failed"] += 1
            self._letter(item.path, error.code, error.message, "failed")
            return
        counts["read_by_others"] = counts.get("read_by_others", 0) + 1
        if item.path not in self.known and not self._admitted(item, item.sha256, 0):
            return
        self._record(item, item.sha256, item.byte_size)

    def _record(self, item: Fetched | Stored, sha256: str, byte_size: int) -> None:
        counts = self.report.counts
        old = self.known.get(item.path)
        same = old is not None and old.sha256 == sha256
        self.listed.holds(item.path, sha256)
        stated: dict[str, Any] = {
            "mime": item.mime,
            "charset": item.charset,
            "url": item.url,
            "final_url": item.final_url,
            "role": item.role,
        }
        if same:
            assert old is not None
            counts["not_modified"] += 1
            if any(getattr(old, k) != v for k, v in stated.items()):
                # The bytes are equal, but the origin says something else about them that derived rows show.
                self.changed.append(old._replace(etag=item.etag, last_modified=item.last_modified, **stated))
            elif (old.etag, old.last_modified) != (item.etag, item.last_modified):
                self.touched.append(old._replace(etag=item.etag, last_modified=item.last_modified))
            return
        counts["fetched"] += 1
        now = now_micros()
        self.changed.append(
            Locator(
                path=item.path,
                doc_id=self._doc_id(item.path),
                state="present",
                sha256=sha256,
                byte_size=byte_size,
                etag=item.etag,
                last_modified=item.last_modified,
                lifecycle=Lifecycle.INGESTED.value if old is None else old.lifecycle,
                created_at=now if old is None else old.created_at,
                since=now,
                job_id=self.job_id,
                **stated,
            )
        )

    def _letter(self, item: str, code: str, message: str, kind: str) -> None:
        item = _shown(item)
        self.letters.append({"item": item, "code": code, "message": message, "fingerprint": "", "kind": kind})
        if kind == "failed":
            self.report.problem(code, item, message)
        else:
            self.report.reasons[code] = self.report.reasons.get(code, 0) + 1

    def _flush(self, *, commit: bool = True) -> None:
        location = self.workspace.blobs.path(self.namespace, "").rstrip("/")
        back = {x.doc_id for x in self.changed if self.expired.get(x.doc_id, x.sha256) != x.sha256}
        if back:
            # What expired and has other bytes, which are stored by now: it is as if it were new.
            self.catalog.tombstones.remove(self.namespace, back)
        self.catalog.locators.record_fetched(
            self.namespace, self.source_id, self.entry.config.type, self.job_id, self.changed, location
        )
        self.catalog.locators.touch(self.namespace, self.source_id, self.touched)
        self.changed, self.touched = [], []
        if commit and self.state is not None and not self.listed.gone and not self.report.limited:
            # What is gone is recorded at the end, and no cursor may be past it before.
            self.state.commit()

    def _record_absent(self, absent: Sequence[Locator], judged: Judged) -> None:
        """Log that these are gone; a person has confirmed it, if it would have been held."""
        self.catalog.locators.record_absent(
            self.namespace,
            self.source_id,
            self.job_id,
            absent,
            confirmed=len(judged.deletions) if judged.held else None,
        )
        self.report.counts["removed"] = len(absent)

    def _held(self) -> int:
        return sum(h["deletions"] for h in self.report.held)


__all__ = ["DAMAGED", "LEDGER", "MAX_PATH_BYTES", "STAGE", "publish_listing", "run"]


def run(work: SourceWork) -> None:
    """Fetch what is new, log what changed, and record what is absent.

    Raises the source's own failure (``E_PATH`` …).
    """
    entry = work.entry
    if entry.paused:
        # What is there is served on, and derived anew where that is due.
        work.report.skipped = "paused (enabled: false)"
        work.report.data_version = publish_listing(work.workspace, entry).inputs
        return
    batch = Batch(work.workspace, entry, work.report, work.progress)
    with tracked(
        work.workspace, entry.namespace, entry.source_id, STAGE, work.progress, job_id=batch.job_id
    ) as batch.progress:
        try:
            if entry.retiring:
                batch.retire(work.confirm_deletes)
            else:
                batch.fetch(work.confirm_deletes)
        except TabootError as error:
            batch.fail(error)
            raise
        except Exception as error:
            batch.fail(TabootError("E_INTERNAL", f"The fetch failed with {type(error).__name__}."))
            raise
        except BaseException:
            # Ctrl-C, or Dagster's order to stop.
            batch.cancel()
            raise
        work.report.data_version = publish_listing(work.workspace, entry).inputs
        batch.sum_up()


def publish_listing(workspace: Workspace, entry: Entry) -> Pointer:
    """Publish the raw pointer, which names the last entry of the source's log, and return it.

    The present locators are what the log says up to there, so the next stages depend on its position alone.
    """
    position = workspace.catalog.locators.position(entry.namespace, entry.source_id)
    old = workspace.catalog.pointers.get(entry.namespace, entry.source_id, STAGE)
    listing = ids.digest("log", position)
    if old is not None and old.inputs == listing:
        return old
    pointer = Pointer(stage=STAGE, tables={}, inputs=listing, txn=listing, applied={"position": position})
    workspace.catalog.pointers.publish(entry.namespace, entry.source_id, pointer)
    return pointer
