"""Reddit's API: an application's token, the pace that Reddit allows, listings, threads, and what became of
posts.

Threads of Reddit: a post and its comments, out of what its API answers.

A thread is stored as its post and a list of its comments, each behind the one that it answers, siblings by
their time: votes, by which Reddit orders, change no thread. Nothing is nested, however deep an argument went.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.api.resources import version_of
from taboot_pipelines.connectors.api.tokens import AccessToken, Grant
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.throttling import seconds_to_wait
from taboot_pipelines.model.records import REDDIT_TAKEN_AWAY
from taboot_pipelines.model.waiting import waiting_for

_log = logging.getLogger(__name__)

#: What Reddit gives of a listing, whoever asks, and on one page of it.
MAX_LISTING = 1000
_PAGE = 100
#: Pages of a listing, some of which may hold no posts.
_MAX_PAGES = 100
#: Fullnames in one question for what became of them, and comments in one for more.
_BATCH = 100
#: Why Reddit refuses a listing or thread, by what it says.
_REASONS = {
    "private": "private",
    "quarantined": "quarantined",
    "quarantine": "quarantined",
    "gold_only": "for premium members only",
    "gated": "gated",
    "employees_only": "for Reddit's staff only",
}


class RedditApi:
    """One run's requests. ``credentials``: the application's id and secret, asked for when a token is."""

    def __init__(
        self,
        base_url: str,
        token_url: str,
        user_agent: str,
        credentials: Callable[[], tuple[str, str]],
        limits: Limits,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"user-agent": user_agent}
        self._client = ApiClient(
            "Reddit",
            base_url,
            headers=headers,
            authorize=AccessToken(
                "Reddit's token endpoint",
                token_url,
                self._grant,
                limits=limits,
                headers=headers,
                throttled=seconds_asked,
            ),
            limits=limits,
            throttled=seconds_asked,
            refused=refused,
            sleep=sleep,
        )
        self._credentials = credentials
        self._limits = limits
        self._sleep = sleep
        self._rest_until = 0.0
        self._waited = 0.0

    def __enter__(self) -> RedditApi:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _grant(self) -> Grant:
        return Grant({"grant_type": "client_credentials"}, basic=self._credentials())

    def get(self, path: str, params: Mapping[str, str | int]) -> Any:
        """The JSON at a path; None where nothing is. Waits first for as long as Reddit last asked for."""
        self._pace()
        answer = self._client.get(path, {**params, "raw_json": 1})
        self._heed(answer.headers)
        if answer.gone:
            return None
        try:
            return json.loads(answer.text())
        except (ValueError, RecursionError):
            return answer.json()

    def _heed(self, headers: Mapping[str, str]) -> None:
        """Leave Reddit alone where this was the last request of its window."""
        remaining = _number(headers.get("x-ratelimit-remaining"))
        reset = _number(headers.get("x-ratelimit-reset"))
        if remaining is not None and remaining < 1 and reset is not None and reset > 0:
            self._rest_until = time.monotonic() + reset

    def _pace(self) -> None:
        pause = self._rest_until - time.monotonic()
        if pause <= 0:
            return
        if self._waited + pause > self._limits.max_wait_seconds:
            raise TabootError(
                "E_429_RATE",
                f"Reddit asks to be left alone; the run has waited {self._waited:.0f} of the"
                f" {self._limits.max_wait_seconds:.0f} s that it may.",
            )
        self._waited += pause
        _log.warning("Reddit asks for fewer requests; waiting %.0f s", pause)
        with waiting_for("Reddit, which asks for fewer requests", pause):
            self._sleep(pause)
        self._rest_until = 0.0

    def listing(
        self, path: str, params: Mapping[str, str], limit: int
    ) -> Iterator[Sequence[Mapping[str, Any]]]:
        """The pages of a listing, ``limit`` posts at most. Raises ``E_NOT_FOUND`` where there is none,
        ``E_API`` for one that comes back to a page that was there."""
        after: str | None = None
        seen: set[str] = set()
        count = 0
        while count < limit:
            asked: dict[str, str | int] = {**params, "limit": min(_PAGE, limit - count)}
            if after is not None:
                asked |= {"after": after, "count": count}
            said = self.get(path, asked)
            if said is None or any(kind == "t5" for kind, _ in things_of(said)):
                # For a subreddit that does not exist Reddit leads to a search for subreddits.
                raise TabootError("E_NOT_FOUND", f"Reddit has no {path.strip('/')}.")
            if not is_listing(said):
                raise TabootError("E_API", f"Reddit answers without a listing at {path}.")
            posts = posts_of(said)
            yield posts[: limit - count]
            count += len(posts)
            after = said["data"].get("after")
            if not isinstance(after, str) or not after:
                return
            if after in seen or len(seen) >= _MAX_PAGES:
                raise TabootError("E_API", f"Reddit answers with a listing that does not end at {path}.")
            seen.add(after)

    def thread(self, id_: str, max_more: int) -> Thread | None:
        """A thread with its comments; those that Reddit names only are asked for by ``max_more`` requests at
        most. None for one that is not there."""
        said = self.get(f"/comments/{id_}", {"limit": 500, "sort": "old"})
        if said is None:
            return None
        thread = thread_of(said)
        if thread is None:
            raise TabootError("E_API", f"Reddit answers without the thread {id_}.")
        for _ in range(max_more):
            if thread.missing:
                ids, thread.missing = thread.missing[:_BATCH], thread.missing[_BATCH:]
                thread.add(self._more(id_, ids))
            elif thread.unfolded:
                parent = thread.unfolded.pop(0)
                said = self.get(f"/comments/{id_}/_/{parent}", {"limit": 500, "sort": "old"})
                if isinstance(said, list) and len(said) > 1:
                    thread.add(things_of(said[1]))
            else:
                break
        thread.omitted = len(thread.missing) + len(thread.unfolded)
        return thread

    def _more(self, id_: str, ids: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        params: dict[str, str | int] = {
            "link_id": f"t3_{id_}",
            "children": ",".join(ids),
            "api_type": "json",
            "limit_children": "false",
            "sort": "old",
        }
        said = self.get("/api/morechildren", params)
        outer = said.get("json") if isinstance(said, dict) else None
        data = outer.get("data") if isinstance(outer, dict) else None
        if not isinstance(data, dict):
            raise TabootError("E_API", f"Reddit answers without the comments of {id_} that it named.")
        return pairs(data.get("things"))

    def info(self, ids: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[Mapping[str, Any]]]]:
        """What became of posts: (the ids that were asked for, the posts that there are), by the hundred."""
        for at in range(0, len(ids), _BATCH):
            batch = ids[at : at + _BATCH]
            said = self.get("/api/info", {"id": ",".join(f"t3_{one}" for one in batch)})
            if not is_listing(said):
                raise TabootError("E_API", "Reddit does not say what became of posts.")
            yield batch, posts_of(said)


def thread_of(said: object) -> Thread | None:
    """The thread of an answer about one: a listing of its post and one of its comments."""
    if not isinstance(said, list) or not said or not all(is_listing(one) for one in said):
        return None
    posts = posts_of(said[0])
    if len(posts) != 1:
        return None
    thread = Thread(posts[0])
    for listing in said[1:]:
        thread.add(things_of(listing))
    return thread


def seconds_asked(status: int, headers: Mapping[str, str]) -> float | None:
    """As ``seconds_to_wait``, with Reddit's window: of a 429 it says how many seconds are left of it, and the
    requests that remain in it may be a fraction."""
    wait = seconds_to_wait(status, headers)
    reset = _number(headers.get("x-ratelimit-reset"))
    if status == 429 and not headers.get("retry-after") and reset is not None and reset >= 0:
        return reset
    return wait


def refused(answer: Answer) -> None:
    """Raises what a 403 means: ``E_FORBIDDEN`` for what is not everybody's, ``E_403_WAF`` where Reddit keeps
    an address or application out."""
    if answer.status != 403:
        return
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise TabootError(
            "E_403_WAF",
            "Reddit keeps this address or application out. It wants a `user_agent` that names the application"
            " and its owner.",
        ) from None
    reason = said.get("reason") if isinstance(said, dict) else None
    what = _REASONS.get(reason) if isinstance(reason, str) else None
    if what is not None:
        where = urlsplit(answer.url).path
        raise TabootError(
            "E_FORBIDDEN", f"{where} is {what}, which an application may not read; leave it out."
        )


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


_ID = re.compile(r"[0-9a-z]{1,13}")
#: What makes another version of a post or comment. Scores, counts and what depends on who asks do not.
_OF_POST = (
    "id",
    "title",
    "selftext",
    "url",
    "subreddit",
    "author",
    "created_utc",
    "edited",
    "link_flair_text",
    "locked",
    "over_18",
    "quarantine",
    "spoiler",
    "distinguished",
)
_OF_COMMENT = ("id", "parent_id", "author", "body", "created_utc", "edited", "distinguished", "depth")


def is_id(value: object) -> bool:
    """Whether a value is the id of a post or comment (base 36)."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def path_of(post: Mapping[str, Any]) -> str:
    """The path of a post's thread."""
    return f"r/{str(post.get('subreddit') or '').lower()}/{post['id']}"


def url_of(post: Mapping[str, Any]) -> str:
    """Where people read the thread."""
    link = post.get("permalink")
    if isinstance(link, str) and link.startswith("/"):
        # A search adds where its reader came from.
        return f"https://www.reddit.com{link.partition('?')[0]}"
    return f"https://www.reddit.com/comments/{post['id']}/"


def is_gone(post: Mapping[str, Any]) -> bool:
    """Whether a post was deleted by its author or removed."""
    return bool(post.get("removed_by_category")) or post.get("selftext") in REDDIT_TAKEN_AWAY


def original(post: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None] | None:
    """The id of the post that a crosspost shows again, and that post where it is told; None for a post of its
    own."""
    parent = post.get("crosspost_parent")
    if not isinstance(parent, str) or not parent.startswith("t3_") or not is_id(parent[3:]):
        return None
    listed = post.get("crosspost_parent_list")
    told = listed[0] if isinstance(listed, list) and listed else None
    return parent[3:], told if is_post(told) else None


def is_post(value: object) -> bool:
    """Whether a value is a post."""
    return isinstance(value, dict) and is_id(value.get("id")) and isinstance(value.get("title"), str)


def posts_of(listing: object) -> list[Mapping[str, Any]]:
    """The posts of a listing, in its order."""
    return [data for kind, data in things_of(listing) if kind == "t3" and is_post(data)]


def things_of(listing: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What a listing holds: (kind, data)."""
    data = listing.get("data") if isinstance(listing, dict) else None
    children = data.get("children") if isinstance(data, dict) else None
    yield from pairs(children)


def pairs(things: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(kind, data) of a list of things."""
    for thing in things if isinstance(things, list) else ():
        if isinstance(thing, dict) and isinstance(thing.get("data"), dict):
            yield str(thing.get("kind")), thing["data"]


def is_listing(value: object) -> bool:
    """Whether a value is a listing."""
    return isinstance(value, dict) and value.get("kind") == "Listing" and isinstance(value.get("data"), dict)


def signature_of(post: Mapping[str, Any]) -> str:
    """What changes when a post changes or is commented on, as far as a listing tells it."""
    return version_of([*(post.get(name) for name in _OF_POST), post.get("num_comments")])


class Thread:
    """A post and its comments in the making."""

    def __init__(self, post: Mapping[str, Any]) -> None:
        self.post = post
        self._comments: dict[str, dict[str, Any]] = {}
        #: Comments that are to be asked for by their ids, and comments whose answers are.
        self.missing: list[str] = []
        self.unfolded: list[str] = []
        self._asked: set[str] = set()
        #: How many comments Reddit names beside those that are here.
        self.omitted = 0

    def add(self, things: Iterator[tuple[str, Mapping[str, Any]]]) -> None:
        """Take comments and ``more``, with all that they hold. A comment that comes again replaces itself."""
        stack = list(things)
        while stack:
            kind, data = stack.pop()
            if kind == "t1" and is_id(data.get("id")):
                comment = {name: value for name, value in data.items() if name != "replies"}
                self._comments[data["id"]] = comment
                stack.extend(things_of(data.get("replies")))
            elif kind == "more":
                self._add_more(data)

    def _add_more(self, data: Mapping[str, Any]) -> None:
        children = data.get("children")
        ids = [one for one in children if is_id(one)] if isinstance(children, list) else []
        parent = str(data.get("parent_id") or "")
        if ids:
            self.missing.extend(one for one in ids if one not in self._asked)
            self._asked.update(ids)
        elif parent.startswith("t1_") and is_id(parent[3:]) and parent not in self._asked:
            # "Continue this thread": Reddit nests ten deep.
            self._asked.add(parent)
            self.unfolded.append(parent[3:])

    @property
    def comments(self) -> list[dict[str, Any]]:
        """The comments, each behind the one that it answers, with its ``depth``."""
        answers: dict[str, list[dict[str, Any]]] = {}
        for comment in self._comments.values():
            parent = str(comment.get("parent_id") or "")
            known = parent.startswith("t1_") and parent[3:] in self._comments
            answers.setdefault(parent[3:] if known else "", []).append(comment)
        ordered: list[dict[str, Any]] = []
        stack = [(0, one) for one in sorted(answers.pop("", ()), key=_moment, reverse=True)]
        while stack or answers:
            if not stack:
                # Comments that answer each other in a circle hang from nothing.
                stack = [(0, one) for one in sorted(answers.pop(min(answers)), key=_moment, reverse=True)]
            depth, comment = stack.pop()
            ordered.append({**comment, "depth": depth})
            below = sorted(answers.pop(comment["id"], ()), key=_moment, reverse=True)
            stack.extend((depth + 1, one) for one in below)
        return ordered

    def resource(self) -> dict[str, Any]:
        """The thread as it is stored."""
        return {"comments": self.comments, "omitted": self.omitted, "post": self.post}

    def version(self) -> str:
        """What tells the thread from an earlier state of it."""
        return version_of(
            [
                [self.post.get(name) for name in _OF_POST],
                [[comment.get(name) for name in _OF_COMMENT] for comment in self.comments],
                self.omitted,
            ]
        )


def _moment(comment: Mapping[str, Any]) -> tuple[float, int, str]:
    created = comment.get("created_utc")
    known = isinstance(created, int | float) and not isinstance(created, bool)
    return (float(created) if known and created is not None else 0.0, len(comment["id"]), comment["id"])
