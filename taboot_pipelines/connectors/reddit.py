"""Threads of Reddit (type ``reddit``): of subreddits, users, searches and other listings, or single ones.

A listing says what a thread's post is now and how many comments it has. The comments are read where that
changed, and at the latest after ``recheck_hours``, since an edited or deleted comment shows in no listing.
Threads that fell off their listing are asked for by their ids: what was deleted is absent here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import Limits, item
from taboot_pipelines.connectors.credentials import header_value, secret_of
from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.connectors.protocol import Connector
from taboot_pipelines.connectors.recorded import RecordedFiles
from taboot_pipelines.connectors.reddit_api import RedditApi
from taboot_pipelines.connectors.reddit_entry import RedditSource
from taboot_pipelines.connectors.reddit_files import INCLUDE, RedditReader
from taboot_pipelines.connectors.reddit_threads import (
    is_gone,
    is_id,
    original,
    path_of,
    signature_of,
    url_of,
)
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
)
from taboot_pipelines.model.resource_types import REDDIT_THREAD

_THREADS = "threads"
#: After so many threads what was read is made durable.
_CHECKPOINT_THREADS = 50
#: Failures after which no further request is worth a try.
_ENDING = frozenset({"E_REQUESTS", "E_429_RATE", "E_CIRCUIT_OPEN", "E_CREDENTIALS", "E_CONFIG"})
_FATAL = frozenset({"E_CREDENTIALS", "E_CONFIG"})


@dataclass
class _Run:
    """What a run has come to. ``read``: by a thread's id its signature in listings, and when it was read
    (seconds since 1970)."""

    known: Mapping[str, Known]
    tombstoned: Callable[[str], bool]
    read: dict[str, list[Any]]
    now: float
    seen: set[str] = field(default_factory=set)
    #: Originals of crossposts of which only the id is known.
    wanted: list[str] = field(default_factory=list)
    fetched: int = 0
    unsaved: int = 0
    whole: bool = True
    reason: str = ""

    def partial(self, reason: str) -> None:
        self.whole, self.reason = False, self.reason or reason


class RedditConnector:
    """Asks Reddit for what ``entry`` names."""

    def __init__(self, entry: RedditSource, access: Access) -> None:
        self._entry = entry
        self._access = access
        since = entry.since
        self._since = (
            -math.inf
            if since is None
            else datetime(since.year, since.month, since.day, tzinfo=UTC).timestamp()
        )

    def plan(self) -> Iterator[Planned]:
        """What a run would ask for at most; Reddit says of no listing how long it is."""
        entry = self._entry
        pages = -(-entry.max_listing // 100)
        for what, _, _ in self._listings():
            note = f"at most {entry.max_listing:,} threads, one request or more for each that changed"
            yield Planned(what, requests=pages, note=note)
        if entry.threads:
            yield Planned("single threads", requests=2 * len(entry.threads), items=len(entry.threads))
        known = len(self._access.state.load(_THREADS) or {})
        if known:
            yield Planned("threads that left their listings", requests=-(-known // 100), items=known)

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_CREDENTIALS`` and ``E_CONFIG`` where Reddit gives this application no token."""
        state = self._access.state
        read: dict[str, list[Any]] = state.load(_THREADS) or {}
        run = _Run(known, tombstoned, dict(read), self._access.clock().timestamp())
        with self._api() as api:
            try:
                yield from self._all(api, run)
            except TabootError as error:
                if error.code in _FATAL:
                    raise
                run.partial(error.message.rstrip("."))
                if error.code != "E_REQUESTS":
                    yield Failed("reddit", error)
        if run.read != read:
            state.save(_THREADS, run.read)
        yield Enumerated(run.whole, run.reason)

    def _api(self) -> RedditApi:
        entry = self._entry
        return RedditApi(
            entry.base_url,
            entry.token_url,
            entry.user_agent,
            self._credentials,
            Limits(max_requests=entry.max_requests, max_wait_seconds=entry.max_wait_seconds),
        )

    def _credentials(self) -> tuple[str, str]:
        entry = self._entry
        name = secret_of(self._access, entry.client_id, entry.client_id_env)
        secret = secret_of(self._access, entry.client_secret, entry.client_secret_env)
        assert name is not None and secret is not None
        return header_value(name, "client id of Reddit"), header_value(secret, "client secret of Reddit")

    def _listings(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """(what it is called, path, parameters) of each listing."""
        entry = self._entry
        for name in entry.subreddits:
            yield f"r/{name}", f"/r/{name}/{entry.sort}", {"t": "all"} if entry.sort == "top" else {}
        for name in entry.users:
            yield f"u/{name}", f"/user/{name}/submitted", {"sort": entry.sort}
        for text in entry.searches:
            yield f"search {text}", "/search", {"q": text, "sort": "new", "type": "link", "t": "all"}
        for listed in entry.listings:
            path, _, query = listed.strip("/").partition("?")
            yield path, f"/{quote(path, safe='/+')}", dict(parse_qsl(query))

    def _all(self, api: RedditApi, run: _Run) -> Iterator[Event]:
        for what, path, params in self._listings():
            try:
                for page in api.listing(path, params, self._entry.max_listing):
                    yield from self._posts(api, page, run)
            except TabootError as error:
                if error.code in _ENDING:
                    raise
                run.partial(f"{what} could not be read to its end")
                yield Failed(what, error)
        yield from self._by_id(api, self._entry.threads, run)
        left = [id_ for path in run.known if (id_ := self._left(path, run)) is not None]
        yield from self._by_id(api, left, run)
        # What is shown again by a crosspost, and what that shows in turn.
        while run.wanted:
            wanted, run.wanted = run.wanted, []
            yield from self._by_id(api, wanted, run)

    def _left(self, path: str, run: _Run) -> str | None:
        """The id of a known thread that no listing showed, though it came from what the entry names."""
        _, _, rest = path.partition("r/")
        subreddit, _, id_ = rest.partition("/")
        if not is_id(id_) or id_ in run.seen:
            return None
        ours = id_ in run.read or subreddit in {name.lower() for name in self._entry.subreddits}
        return id_ if ours else None

    def _by_id(self, api: RedditApi, ids: Sequence[str], run: _Run) -> Iterator[Event]:
        """The events of threads that are asked for by their ids."""
        paths = {id_: path for path in run.known if is_id(id_ := path.rpartition("/")[2])}
        for batch, posts in api.info([id_ for id_ in dict.fromkeys(ids) if id_ not in run.seen]):
            yield from self._posts(api, posts, run)
            for id_ in batch:
                if id_ in run.seen or id_ in {post["id"] for post in posts}:
                    continue
                run.seen.add(id_)
                yield from self._gone(paths.get(id_, f"comments/{id_}"), id_, run)

    def _posts(self, api: RedditApi, posts: Sequence[Mapping[str, Any]], run: _Run) -> Iterator[Event]:
        for post in posts:
            yield from self._post(api, post, run)
            if run.unsaved >= _CHECKPOINT_THREADS:
                run.unsaved = 0
                self._access.state.save(_THREADS, dict(run.read))
                yield Checkpoint()

    def _post(self, api: RedditApi, post: Mapping[str, Any], run: _Run) -> Iterator[Event]:
        """The event of one post's thread, unless it came before."""
        id_ = post["id"]
        if id_ in run.seen:
            return
        run.seen.add(id_)
        shown = original(post)
        if shown is not None and not is_gone(post):
            # Its original is the document, once.
            if shown[1] is not None and original(shown[1]) is None:
                yield from self._post(api, shown[1], run)
            else:
                run.wanted.append(shown[0])
            return
        path = path_of(post)
        created = post.get("created_utc")
        if isinstance(created, int | float) and created < self._since:
            return
        if run.tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            return
        if is_gone(post):
            yield from self._gone(path, id_, run)
            return
        signature = signature_of(post)
        known = run.known.get(path)
        before = run.read.get(id_)
        fresh = before is not None and run.now - before[1] < self._entry.recheck_hours * 3600
        if known is not None and known.whole and before is not None and before[0] == signature and fresh:
            yield NotModified(path)
            return
        limit = self._entry.max_items
        if limit is not None and run.fetched >= limit:
            raise TabootError("E_REQUESTS", f"The run has taken its {limit} items.")
        yield from self._thread(api, path, id_, signature, run)

    def _thread(
        self, api: RedditApi, path: str, id_: str, signature: str, run: _Run
    ) -> Generator[Event, None, None]:
        try:
            thread = api.thread(id_, self._entry.max_more)
        except TabootError as error:
            if error.code in _ENDING:
                raise
            yield Failed(path, error)
            return
        if thread is None or is_gone(thread.post):
            yield from self._gone(path, id_, run)
            return
        run.read[id_] = [signature, run.now]
        run.unsaved += 1
        event = item(
            run.known,
            path,
            thread.resource(),
            version=thread.version(),
            mime=REDDIT_THREAD,
            url=url_of(thread.post),
        )
        run.fetched += isinstance(event, Fetched)
        yield event

    def _gone(self, path: str, id_: str, run: _Run) -> Iterator[Event]:
        run.read.pop(id_, None)
        message = f"The thread {path} was deleted or removed at Reddit."
        if path in run.known:
            yield Gone(path, "E_NOT_FOUND", message)
        else:
            yield Skipped(path, "E_NOT_FOUND", message, outside=True)


def connect(entry: RedditSource, access: Access) -> Connector:
    """The connector of an entry: of the API, or of its folder of files."""
    if entry.path is None:
        return RedditConnector(entry, access)
    return RecordedFiles(entry, access, RedditReader(), default_include=INCLUDE)
