"""The manifests that the queries of one knowledge base see: each query pins one and keeps to it."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.model.offsets import read_places
from taboot_pipelines.retrieval.bm25 import Keywords
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.settings import Settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.protocol import Kept, ManifestVersion, kept_manifest, load_manifest
from taboot_pipelines.shards.reader import Shards, verify

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.graph import Graph
    from taboot_pipelines.retrieval.graph_walk import WalkGraph
    from taboot_pipelines.retrieval.links import LinkGraph

T = TypeVar("T")

#: How long a view that a cursor refers to is kept, and how many are at most. Its files stay mapped although
#: they may be gone from the disk.
_HELD_SECONDS = 3600.0
_MAX_HELD = 8
#: Publications in which the sources of the first ingest are looked for.
_FIRST_ONES = 64
#: Jobs of a namespace for which nothing was published that are looked at.
_JOBS = 100
#: A full collection of garbage that takes longer (seconds) is felt by whoever waits for an answer.
_FELT_SECONDS = 0.02
#: Set while :func:`sparing_collections` is at work.
_SPARING = threading.Event()


@contextlib.contextmanager
def sparing_collections() -> Iterator[None]:
    """Leave what outlives a long full collection of garbage out of the later ones, while a process serves.

    Over 100,000 passages one takes 150 ms, in the middle of an answer, and finds nothing. What was left out
    is looked at again once another publication is read, so that what is held of the one before can go.
    """
    began = 0.0

    def told(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began
        if info["generation"] < 2:
            return
        if phase == "start":
            began = time.perf_counter()
        elif time.perf_counter() - began > _FELT_SECONDS:
            gc.freeze()

    gc.callbacks.append(told)
    _SPARING.set()
    try:
        yield
    finally:
        _SPARING.clear()
        gc.callbacks.remove(told)
        gc.unfreeze()


class View:
    """One manifest and its readers: what a query sees from its start to its end.

    The readers are made when first asked for. A view that is pinned after another uses that one's mapped
    shards where they stayed the same.
    """

    def __init__(self, seen: ManifestVersion, shards: Shards, *, bm25_k1: float, bm25_b: float) -> None:
        self.seen = seen
        self.manifest = seen.manifest
        self.shards = shards
        self._id = Lazy(lambda: sha256_hex(seen.manifest.model_dump_json()))
        # None of these refers to the view: one that no query uses any more goes at once, not with the next
        # garbage collection, as one goes to which something refers that was made of it (``once``).
        index = Lazy(lambda: Index(shards))
        self._index = index
        self._keywords = Lazy(lambda: Keywords(index(), bm25_k1, bm25_b))
        graph = self._graph = Lazy(lambda: _graph(shards))
        self._numbers = Lazy(
            lambda: {doc: n for n, doc in enumerate(graph().documents.column("doc_id").to_pylist())}
        )
        links = self._links = Lazy(lambda: _links(shards))
        self._web = Lazy(lambda: _web(links(), graph()))
        self._policies = Lazy(seen.manifest.policies)
        self._made: dict[Callable[[View], Any], Lazy[Any]] = {}
        self._lock = threading.Lock()

    def once(self, make: Callable[[View], T]) -> T:
        """Return what ``make`` makes of this view: made for the first who asks, and kept as long as the view.

        It is the view that keeps it, so that both go, though what was made may refer to the view.
        """
        with self._lock:
            made = self._made.get(make)
            if made is None:
                made = self._made[make] = Lazy(lambda: make(self))
        found: T = made()
        return found

    @property
    def id(self) -> str:
        """What tells the manifest from every other: the SHA-256 of its JSON."""
        return self._id()

    @property
    def index(self) -> Index:
        """The chunks, numbered."""
        return self._index()

    @property
    def keywords(self) -> Keywords:
        """The chunks by their words."""
        return self._keywords()

    @property
    def graph(self) -> Graph:
        """The nodes and edges."""
        return self._graph()

    @property
    def links(self) -> LinkGraph:
        """Which document links to which."""
        return self._links()

    @property
    def web(self) -> WalkGraph:
        """Documents and entities with all that leads from one to another."""
        return self._web()

    def shown_url(self, source: str, path: str, url: str) -> str:
        """A local file's absolute path where its source's root is known; any other URL as it is."""
        entry = self.manifest.sources.get(source)
        if entry is not None and entry.root and url == f"{source}:{path}":
            return _in_folder(entry.root, path)
        return url

    def expires_at(self, document: Mapping[str, Any]) -> datetime | None:
        """When a document, by its ``source_id``, ``doc_id`` and ``since``, expires (UTC); None: never."""
        policy = self._policies().of(document["source_id"], document["doc_id"])
        return None if policy is None else policy.moment(document["since"])

    def passage_url(
        self,
        document: Mapping[str, Any],
        start: int,
        marks: Callable[[], Iterable[tuple[int, str]]] = tuple,
    ) -> str:
        """The URL, as it is shown, of the passage that begins at ``start`` of a document of the index.
        ``marks``: gives the words (position, word) for whose sake it is shown; asked where that matters."""
        url = self.shown_url(document["source_id"], document["path"], document["url"])
        places = read_places(document["places"]) if document["places"] else None
        return url if places is None else places.url(url, places.nearest(start, marks()))

    def holding(self, doc_ids: Collection[str]) -> set[str]:
        """Those of ``doc_ids`` that are documents of the manifest."""
        index = self.index
        return {doc_id for doc_id in doc_ids if index.document_row(doc_id) is not None}

    def document_url(self, doc_id: str) -> str:
        """The URL of a document as it is shown; empty if there is no such document."""
        at, documents = self._numbers().get(doc_id), self.graph.documents
        if at is None:
            return ""
        return self.shown_url(*(documents.column(c)[at].as_py() for c in ("source_id", "path", "url")))


@lru_cache(maxsize=16_384)
def _in_folder(folder: str, path: str) -> str:
    return str(Path(folder) / path)


# A search that follows no links does not wait for what reads them.
def _graph(shards: Shards) -> Graph:
    from taboot_pipelines.retrieval.graph import Graph

    return Graph(shards)


def _links(shards: Shards) -> LinkGraph:
    from taboot_pipelines.retrieval.links import LinkGraph

    return LinkGraph(shards)


def _web(links: LinkGraph, graph: Graph) -> WalkGraph:
    from taboot_pipelines.retrieval.graph_walk import WalkGraph

    return WalkGraph(links, graph)


class Session:
    """The views of one namespace, one after the other; or, with ``publication``, the one of a kept
    publication. Safe to use from several threads."""

    def __init__(self, settings: Settings, namespace: str, publication: Kept | None = None) -> None:
        self._settings = settings
        self._namespace = namespace
        self._publication = publication
        self.store = open_shards(settings)
        self._pinned: View | None = None
        #: Views that cursors refer to, by id, the latest last, and the monotonic time until which each stays.
        self._held: OrderedDict[str, tuple[View, float]] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, *, now: bool = False) -> View:
        """The view of the current manifest; the last one while that has not changed.

        An object store is asked at most once a second unless it must be ``now``. Raises
        ``E_KB_UNINITIALIZED`` if nothing was published yet.
        """
        with self._lock:
            last = self._pinned
            seen: ManifestVersion | None
            if self._publication is not None:
                # An erasure leaves none of before, nor what is open of one.
                is_kept = last is not None and self._publication in self.store.kept(self._namespace)
                seen = last.seen if last is not None and is_kept else self._kept(self._publication)
            else:
                seen = self.store.look(self._namespace, last.seen if last else None, now=now)
            if seen is None:
                where = "TABOOT_SHARD_URL" if self._settings.shard_url else self._settings.home_dir
                said = f"There is no knowledge base of namespace {self._namespace!r} under {where}"
                running = _is_ingested(self._settings, self._namespace)
                raise TabootError(
                    "E_KB_UNINITIALIZED",
                    f"{said} yet: its first ingest is running." if running else f"{said}.",
                    remedy="Wait for it; `taboot status` shows how far it is." if running else "",
                    namespace=self._namespace,
                )
            if last is None or last.seen is not seen:
                last = self._pinned = self._opened(seen, last)
                if _SPARING.is_set():
                    gc.unfreeze()
            return last

    def _opened(self, seen: ManifestVersion, last: View | None) -> View:
        """The view of a manifest; ``last``: one whose mapped shards it uses where they are the same."""
        mapped = {s.entry.key: s for s in last.shards.documents} if last is not None else None
        return View(
            seen,
            Shards.open(self.store, seen.manifest, mapped),
            bm25_k1=self._settings.retrieval.bm25_k1,
            bm25_b=self._settings.retrieval.bm25_b,
        )

    def oldest(self) -> Kept | None:
        """The oldest kept publication that has every source of the present one: the first ingest publishes
        while it still reads. Where none of the first ones has, the oldest."""
        kept, current = list(self.store.kept(self._namespace)), self.view().manifest
        for publication in kept[:_FIRST_ONES]:
            manifest = kept_manifest(self.store, current, publication)
            if manifest is not None and current.sources.keys() <= manifest.sources.keys():
                return publication
        return kept[0] if kept else None

    def at(self, publication: Kept) -> View:
        """The view of a kept publication, which uses the current one's mapped shards. Raises
        ``E_MANIFEST_GONE``.
        """
        return self._opened(self._kept(publication), self.view())

    def publication(self, moment: datetime) -> Kept:
        """The newest kept publication not after ``moment``. Raises ``E_MANIFEST_GONE`` naming the oldest kept
        if none is.
        """
        kept = self.store.kept(self._namespace)
        found = [x for x in kept if x.at <= moment.timestamp() * 1e6]
        if found:
            return found[-1]
        oldest = f"the oldest is of {kept[0].made_at:%Y-%m-%d %H:%M:%S} UTC" if kept else "none is kept yet"
        raise TabootError(
            "E_MANIFEST_GONE",
            f"No publication of {moment:%Y-%m-%d %H:%M:%S} UTC or before is kept; {oldest}.",
            remedy="Name a later date; TABOOT_RETENTION__PUBLICATION_DAYS says how long they are kept.",
            oldest=kept[0].made_at.isoformat() if kept else None,
        )

    def _kept(self, publication: Kept) -> ManifestVersion:
        current = load_manifest(self.store, self._namespace)
        manifest = None if current is None else kept_manifest(self.store, current, publication)
        if manifest is None:
            raise TabootError(
                "E_MANIFEST_GONE",
                f"The publication of {publication.made_at:%Y-%m-%d %H:%M:%S} UTC is not kept any more.",
            )
        return ManifestVersion(publication, manifest)

    def hold(self, view: View) -> None:
        """Keep a view for :meth:`held` for an hour from now, unless so many others are that it must go."""
        now = time.monotonic()
        with self._lock:
            self._held.pop(view.id, None)
            self._held[view.id] = (view, now + _HELD_SECONDS)
            for name in [n for n, (_, end) in self._held.items() if end < now]:
                del self._held[name]
            while len(self._held) > _MAX_HELD:
                self._held.popitem(last=False)

    def held(self, view_id: str) -> View | None:
        """The view of this id, if it is the current one or is kept still."""
        current = self.view()
        if current.id == view_id:
            return current
        with self._lock:
            view, end = self._held.get(view_id, (None, 0.0))
        return view if end >= time.monotonic() else None

    def ask(self, query: Callable[[View], T]) -> T:
        """What ``query`` makes of the current view. If a file of it has gone or is damaged, the query is made
        once more where another manifest was published meanwhile.
        """
        view = self.view()
        try:
            return query(view)
        except TabootError as error:
            if error.code not in {"E_SHARD_MISSING", "E_SHARD_CORRUPT"}:
                raise
            fresh = self.view(now=True)
            if fresh is view:
                raise
            return query(fresh)

    def verify(self) -> None:
        """Hash every file of the current manifest. Raises ``E_SHARD_CORRUPT`` or ``E_SHARD_MISSING``."""
        self.ask(lambda view: verify(self.store, view.manifest))


def _is_ingested(settings: Settings, namespace: str) -> bool:
    """Whether something is being fetched for a namespace of this home."""
    from taboot_pipelines.stages.health import catalog_exists
    from taboot_pipelines.stages.workspace import Workspace

    if settings.shard_url or not catalog_exists(settings):
        return False
    try:
        workspace = Workspace(settings)
        try:
            jobs = workspace.catalog.jobs.find(namespace, limit=_JOBS)
        finally:
            workspace.close()
    except TabootError:
        return False
    return any(job["state"] == JobState.RUNNING for job in jobs)
