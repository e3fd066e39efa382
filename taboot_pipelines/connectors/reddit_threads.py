"""Threads of Reddit: a post and its comments, out of what its API answers.

A thread is stored as its post and a list of its comments, each behind the one that it answers, siblings by
their time: votes, by which Reddit orders, change no thread. Nothing is nested, however deep an argument went.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from taboot_pipelines.connectors.api import version_of
from taboot_pipelines.model.resource_types import REDDIT_TAKEN_AWAY

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
