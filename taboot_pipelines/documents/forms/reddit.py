"""Threads of Reddit as Markdown: the post, then each comment below a heading, its answers as quotes in it.

What was deleted or removed leaves the text; answers to it stay. Reddit's texts are Markdown themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from taboot_pipelines.documents.forms.writing import Formed, Given, JsonWriter
from taboot_pipelines.documents.metadata import Facts
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.records import REDDIT_TAKEN_AWAY

#: Quotes in one another; what lies deeper says how deep.
_MAX_QUOTES = 8


def reddit(data: bytes, given: Given) -> Formed:
    """A thread, as ``connectors.reddit`` has it. Raises ``E_PARSE`` for other bytes, ``E_EMPTY`` for
    a thread that was taken away, ``E_TOO_LARGE``."""
    try:
        source = data.decode()
    except UnicodeDecodeError:
        raise TabootError("E_PARSE", f"{given.path} is not UTF-8.") from None
    thread = parse(source)
    post = thread.at("post")
    title = None if post is None else post.at("title")
    untitled = post is not None and title is None and post.string("id") and thread.items("comments")
    if post is None or (not untitled and (title is None or not isinstance(title.data, str))):
        raise TabootError("E_PARSE", f"{given.path} is no thread of Reddit.")
    if post.string("selftext") in REDDIT_TAKEN_AWAY or post.string("removed_by_category"):
        raise TabootError("E_EMPTY", f"{given.path} was deleted at Reddit.")
    writer = JsonWriter(source, given.max_chars)
    facts = _post(writer, post, title)
    _comments(writer, thread.items("comments"))
    if thread.integer("omitted"):
        writer.put("\n*There are further comments, which were not read.*\n")
    return Formed(writer.text, writer.offsets(), facts)


def _post(writer: JsonWriter, post: Value, title: Value | None) -> Facts:
    facts = Facts()
    writer.put("# ")
    start = writer.length
    if title is not None:
        writer.string(title, prefix=" ")
    else:
        # Of a thread whose comments alone were recorded.
        writer.put(f"Thread {post.string('id')}")
    facts.title = writer.text[start:]
    writer.put("\n\n")
    parts = 0
    if (subreddit := post.at("subreddit")) is not None and subreddit.data:
        writer.put("r/")
        _put(writer, subreddit)
        parts += 1
    if post.string("author") and post.string("author") != "[deleted]":
        writer.put(", u/" if parts else "u/")
        _put(writer, post.at("author"))
        facts.put("author", post.string("author"))
        parts += 1
    moment = _moment(post)
    if moment is not None:
        facts.date = moment[0]
        writer.put(", " if parts else "")
        writer.said(_shown(moment[0]), moment[1])
    if post.string("link_flair_text"):
        writer.put(", ")
        _put(writer, post.at("link_flair_text"))
        facts.put_keywords([post.string("link_flair_text")])
    writer.put("\n")
    if post.string("permalink").startswith("/"):
        facts.put("canonical_url", "https://www.reddit.com" + post.string("permalink").partition("?")[0])
    if not post.true("is_self") and (link := post.at("url")) is not None and post.string("url"):
        writer.put("\n<")
        _put(writer, link)
        writer.put(">\n")
    if (text := post.at("selftext")) is not None and post.string("selftext").strip():
        writer.put("\n")
        writer.string(text)
        writer.put("\n")
    return facts


def _comments(writer: JsonWriter, comments: list[Value]) -> None:
    needed = _needed(comments)
    first = True
    for number, comment in enumerate(comments):
        if number not in needed:
            continue
        if first:
            writer.put("\n## Comments\n")
            first = False
        depth = comment.integer("depth") or 0
        quotes = "> " * min(depth, _MAX_QUOTES)
        writer.put(f"\n{quotes}")
        writer.put("**" if depth else "### ")
        taken_away = comment.string("body") in REDDIT_TAKEN_AWAY
        author = comment.at("author")
        if taken_away or author is None or author.data in (None, "", "[deleted]"):
            writer.put("A deleted comment" if taken_away else "Somebody")
        else:
            writer.put("u/")
            _put(writer, author)
        writer.put("**" if depth else "")
        if not taken_away and (moment := _moment(comment)) is not None:
            writer.put(", ")
            writer.said(_shown(moment[0]), moment[1])
        if depth > _MAX_QUOTES:
            writer.put(f" (answer at depth {depth})")
        writer.put("\n")
        body = comment.at("body")
        if not taken_away and body is not None and isinstance(body.data, str):
            writer.put(f"{quotes.rstrip()}\n{quotes}")
            writer.string(body, prefix=quotes)
            writer.put("\n")


def _needed(comments: list[Value]) -> Collection[int]:
    """Which comments the text has: those that say something, and what they answer."""
    needed: set[int] = set()
    # The numbers of the comments above, by depth.
    above: list[int] = []
    for number, comment in enumerate(comments):
        depth = min(comment.integer("depth") or 0, len(above))
        del above[depth:]
        above.append(number)
        if comment.string("body").strip() and comment.string("body") not in REDDIT_TAKEN_AWAY:
            for one in reversed(above):
                if one in needed:
                    break
                needed.add(one)
    return needed


def _put(writer: JsonWriter, value: Value | None) -> None:
    if value is not None and isinstance(value.data, str):
        writer.string(value, prefix=" ")


def _moment(of: Value) -> tuple[datetime, Value] | None:
    """When a post or comment was written, and the value that says so."""
    value = of.at("created_utc")
    if value is None or isinstance(value.data, bool) or not isinstance(value.data, int | float):
        return None
    try:
        return datetime.fromtimestamp(value.data, UTC), value
    except (ValueError, OverflowError, OSError):
        return None


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
