"""Reddit's API: an application's token, the pace that Reddit allows, listings, threads, and what became of
posts."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from taboot_pipelines.connectors.api import AccessToken, Answer, ApiClient, Grant, Limits, seconds_to_wait
from taboot_pipelines.connectors.reddit_threads import Thread, is_listing, pairs, posts_of, things_of
from taboot_pipelines.errors import TabootError
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
