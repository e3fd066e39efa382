"""The connector of type ``reddit``: threads of the API, or of recorded answers.

Recorded answers of Reddit's API: threads, listings, and cassettes (VCR, Betamax) that hold both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from taboot_pipelines.connectors.access import Access, header_value, secret_of
from taboot_pipelines.connectors.api.client import Limits
from taboot_pipelines.connectors.api.resources import canonical, item
from taboot_pipelines.connectors.protocol import Connector, Planned
from taboot_pipelines.connectors.recorded import Part, RecordedFile, RecordedFiles
from taboot_pipelines.connectors.reddit.client import (
    RedditApi,
    Thread,
    is_gone,
    is_id,
    is_listing,
    original,
    path_of,
    posts_of,
    signature_of,
    things_of,
    thread_of,
    url_of,
)
from taboot_pipelines.connectors.reddit.entry import RedditSource
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import (
    REDDIT_THREAD,
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


INCLUDE = ("*.json",)


class RedditReader:
    """The threads that a recorded file holds, each once. Comments without their post make a thread of what
    they say of it."""

    version = "2"

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        answers = list(_answers(_loaded(file)))
        threads: dict[str, Thread] = {}
        gone = False
        for answer in answers:
            for thread in _threads(answer):
                if is_gone(thread.post):
                    gone = True
                    continue
                known = threads.get(thread.post["id"])
                if known is None or len(known.comments) < len(thread.comments):
                    threads[thread.post["id"]] = thread
        for answer in answers:
            for comment in _bare_comments(answer):
                id_ = comment["link_id"][3:]
                thread = threads.setdefault(id_, Thread(_post_of(comment)))
                if comment["id"] not in {known["id"] for known in thread.comments}:
                    thread.add(iter((("t1", comment),)))
        if not threads and gone:
            raise TabootError("E_EMPTY", f"{file.path} holds only threads that were deleted.")
        if not threads:
            raise TabootError("E_MIME", f"{file.path} holds no thread of Reddit.")
        for id_, thread in sorted(threads.items()):
            url = url_of(thread.post)
            yield Part(canonical(thread.resource()), id_, mime=REDDIT_THREAD, charset="utf-8", url=url)


def _loaded(file: RecordedFile) -> Any:
    data = file.read()
    if not data.strip():
        raise TabootError("E_EMPTY", f"{file.path} is empty.")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise TabootError("E_MIME", f"{file.path} is no JSON.") from None
    except (ValueError, RecursionError):
        raise TabootError("E_PARSE", f"The JSON of {file.path} cannot be read.") from None


def _answers(said: Any) -> Iterator[Any]:
    """The answers of a file: itself, or the bodies that a cassette recorded."""
    interactions = None
    if isinstance(said, dict):
        interactions = said.get("interactions", said.get("http_interactions"))
    if not isinstance(interactions, list):
        yield said
        return
    for interaction in interactions:
        response = interaction.get("response") if isinstance(interaction, dict) else None
        body = response.get("body") if isinstance(response, dict) else None
        text = body.get("string") if isinstance(body, dict) else body
        if isinstance(text, str):
            try:
                yield json.loads(text)
            except (ValueError, RecursionError):
                continue


def _threads(answer: Any) -> Iterator[Thread]:
    thread = thread_of(answer)
    if thread is not None:
        yield thread
        # What `/duplicates` lists second are posts that show the same link.
        for listing in answer[1:]:
            yield from _threads(listing)
    elif is_listing(answer):
        for post in posts_of(answer):
            shown = original(post)
            if shown is None:
                yield Thread(post)
            elif shown[1] is not None:
                yield Thread(shown[1])


def _bare_comments(answer: Any) -> Iterator[Mapping[str, Any]]:
    """The comments of a listing that has them without their posts, such as what a user said."""
    if is_listing(answer):
        for kind, data in things_of(answer):
            link = data.get("link_id")
            named = isinstance(link, str) and link.startswith("t3_") and is_id(link[3:])
            if kind == "t1" and named and is_id(data.get("id")):
                yield data


def _post_of(comment: Mapping[str, Any]) -> dict[str, Any]:
    """What a comment says of the post that it belongs to."""
    said = {"id": comment["link_id"][3:], "subreddit": comment.get("subreddit")}
    link = urlsplit(str(comment.get("link_permalink") or "")).path
    for name, value in (
        ("title", comment.get("link_title")),
        ("author", comment.get("link_author")),
        ("permalink", link),
    ):
        if isinstance(value, str) and value:
            said[name] = value
    return said


def connect(entry: RedditSource, access: Access) -> Connector:
    """The connector of an entry: of the API, or of its folder of files."""
    if entry.path is None:
        return RedditConnector(entry, access)
    return RecordedFiles(entry, access, RedditReader(), default_include=INCLUDE)
