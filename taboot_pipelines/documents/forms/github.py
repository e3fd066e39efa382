"""Issues, pull requests, releases, discussions and repositories of GitHub as Markdown.

A document begins with its title and a list of what is known of it; then come its own words, and what others
said in the order of time, each beneath a heading with author and time. Bodies are Markdown already and stay
as they are, with their headings moved beneath that of their part. Blobs are as ``connectors.github`` stores
them; whatever else they hold is not shown.

Markdown that people wrote as a part of a larger document: its headings stand beneath the part's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyromark

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.forms.writing import Edit, Form, Formed, Given, JsonWriter
from taboot_pipelines.documents.metadata import Facts, parse_date
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.records import GITHUB

_SURROGATE = re.compile("[\ud800-\udfff]")
_LEVELS = {f"H{n}": n for n in range(1, 7)}
_UNDERLINE = re.compile(r"(?:\r\n|\r|\n)[ \t>]*(?:=+|-+)[ \t]*\s*\Z")
_FENCE = re.compile(r"(`{3,}|~{3,})")
#: What ends by itself where its lines do.
_CONTAINERS = frozenset({"BlockQuote", "Item"})
_OPTIONS = pyromark.Options.ENABLE_TABLES


def beneath(text: str, level: int) -> list[Edit]:
    """The edits that put the headings of ``text`` beneath one of ``level``, in order;
    at the end what closes a fence or a comment that was left open, lest it swallow what follows."""
    source = _SURROGATE.sub("\ufffd", text)
    edits: list[Edit] = []
    closing = ""
    containers = 0
    position = _positions(source)
    for event, span in pyromark.events_with_range(source, options=_OPTIONS):
        ((kind, what),) = event.items() if isinstance(event, dict) else [(event, None)]
        named: tuple[Any, Any] = next(iter(what.items())) if isinstance(what, dict) else (what, None)
        name, facts = named
        if kind == "End" and name in _CONTAINERS:
            containers -= 1
        if kind != "Start":
            continue
        start, end = position(span["start"]), position(span["end"])
        closing = ""
        if name in _CONTAINERS:
            containers += 1
        elif name == "Heading":
            edits += _demoted(source, start, end, _LEVELS.get(facts["level"], 1), level)
        elif name == "CodeBlock" and not containers:
            closing = _unfenced(source, start, end)
        elif name == "HtmlBlock" and not containers:
            closing = _left_open(source[start:end])
    if closing:
        edits.append(Edit(len(text), len(text), closing))
    return edits


def _demoted(source: str, start: int, end: int, own: int, level: int) -> list[Edit]:
    wanted = min(6, own + level)
    if source.startswith("#", start):
        return [Edit(start, start, "#" * (wanted - own))] if wanted > own else []
    underline = _UNDERLINE.search(source, start, end)
    if underline is None or re.search(r"[\r\n]", source[start : underline.start()]):
        return []  # a heading of several lines stays a paragraph's neighbour
    stop = underline.start() + len(source[underline.start() : end].rstrip())
    return [Edit(start, start, "#" * wanted + " "), Edit(underline.start(), stop, "")]


def _unfenced(source: str, start: int, end: int) -> str:
    """The end of a fence that has none."""
    fence = _FENCE.match(source, start)
    if fence is None:
        return ""
    lines = source[start:end].rstrip().splitlines()
    mark = fence[1]
    closed = len(lines) > 1 and re.fullmatch(rf"[ \t>]*{re.escape(mark[0])}{{{len(mark)},}}", lines[-1])
    return "" if closed else f"\n{mark}"


def _left_open(block: str) -> str:
    """What an HTML block lacks that ends at a word of its own (CommonMark 4.6, kinds 1 to 5)."""
    head = block.lstrip()[:12].lower()
    for opening, end in (("<!--", "-->"), ("<?", "?>"), ("<![cdata[", "]]>")):
        if head.startswith(opening):
            return "" if end in block else f"\n{end}"
    for tag in ("script", "pre", "style", "textarea"):
        if re.match(rf"<{tag}(?:[\s>]|\Z)", head):
            return "" if f"</{tag}>" in block.lower() else f"\n</{tag}>"
    return ""


def _positions(text: str) -> Callable[[int], int]:
    """From bytes of the text in UTF-8 to its code points."""
    if text.isascii():
        return int
    data: Any = np.frombuffer(text.encode(), np.uint8)
    points = np.concatenate(([0], np.cumsum((data & 0xC0) != 0x80)))
    return lambda at: int(points[at])


#: Who wrote what an account wrote that was deleted since.
_GHOST = "ghost"
_TICKS = re.compile(r"`+")
_VERDICTS = {
    "APPROVED": "Approved",
    "CHANGES_REQUESTED": "Changes requested",
    "DISMISSED": "Review dismissed",
    "COMMENTED": "Review",
    "PENDING": "Review",
}


class _Page:
    """The document in the making."""

    def __init__(self, data: bytes, given: Given) -> None:
        source, self.charset, bom = decode(data, given.charset or "utf-8")
        self.writer = JsonWriter(source, given.max_chars, bom=bom)
        self.root = parse(source)
        self.facts = Facts()

    def title(self, value: Value | None, behind: str = "", otherwise: str = "") -> None:
        self.writer.put("# ")
        name = _line(value) or otherwise
        if value is not None and _line(value):
            self.inline(value)
        else:
            self.writer.put(otherwise)
        self.writer.put(f"{behind}\n\n")
        self.facts.title = f"{name}{behind}"

    def inline(self, value: Value) -> None:
        """A text of one line; of several, all in one."""
        text = str(value.data) if isinstance(value.data, str) else ""
        if re.search(r"[\r\n]", text) or text != text.strip():
            self.writer.said(_line(value), value)
        else:
            self.writer.string(value)

    def head(self, lines: Sequence[tuple[str, Sequence[Value], Callable[[Value], str] | None]]) -> None:
        """A list of what is known: (name, values, how a value is said if not by its own text)."""
        for name, values, said in lines:
            if not values:
                continue
            self.writer.put(f"- {name}: ")
            for i, value in enumerate(values):
                self.writer.put(", " if i else "")
                if said is not None:
                    self.writer.said(said(value), value)
                elif isinstance(value.data, str):
                    self.inline(value)
                else:
                    self.writer.said(str(value.data), value)
            self.writer.put("\n")
        self.writer.put("\n")

    def said_by(self, level: int, what: str, author: Value | None, when: Value | None) -> None:
        """The heading of a part: what it is, who wrote it, when."""
        self.writer.put(f"{'#' * level} {what} by ")
        if author is not None and _line(author):
            self.inline(author)
        else:
            self.writer.put(_GHOST)
        if when is not None and _line(when):
            self.writer.put(", ")
            self.inline(when)
        self.writer.put("\n\n")

    def body(self, value: Value | None, level: int) -> None:
        """Somebody's Markdown beneath a heading of ``level``."""
        if value is None or not isinstance(value.data, str) or not value.data.strip():
            return
        self.writer.edited(value, lambda text: beneath(text, level))
        self.writer.put("\n\n")

    def code(self, value: Value, language: str) -> None:
        """A text as code, in a fence that it does not hold itself."""
        ticks = max((len(t) for t in _TICKS.findall(value.data)), default=0)
        fence = "`" * max(3, ticks + 1)
        self.writer.put(f"{fence}{language}\n")
        self.writer.string(value)
        self.writer.put(f"\n{fence}\n\n")

    def formed(self) -> Formed:
        return Formed(self.writer.text, self.writer.offsets(), self.facts, self.charset)


def _thread(data: bytes, given: Given, *, pull: bool) -> Formed:
    """An issue, or a pull request with its reviews."""
    page = _Page(data, given)
    issue = _object(page.root.at("issue"), given)
    number = issue.integer("number")
    page.title(issue.at("title"), f" (#{number})" if number is not None else "", "Untitled")
    author, created = issue.at("user", "login"), issue.at("created_at")
    labels = [x if isinstance(x.data, str) else x.at("name") for x in issue.items("labels")]
    named = [x for x in labels if x is not None and isinstance(x.data, str)]
    merged = issue.at("pull_request", "merged_at")
    state = _state(issue, merged)
    page.head(
        [
            ("State", _some(issue.at("state")), lambda _: state),
            ("Author", _some(author), None),
            ("Opened", _some(created), None),
            ("Merged", _some(merged), None),
            ("Closed", _some(issue.at("closed_at")), None),
            ("Labels", named, None),
            ("Assignees", _all(x.at("login") for x in issue.items("assignees")), None),
            ("Milestone", _some(issue.at("milestone", "title")), None),
        ]
    )
    if issue.string("body").strip():
        page.writer.put("## Description\n\n")
        page.body(issue.at("body"), 2)
    for entry in _timeline(page.root, pull=pull):
        entry(page)
    _facts(page, author, created, issue.at("html_url"), named)
    page.facts.put("number", number)
    page.facts.put("state", state)
    page.facts.put("milestone", issue.string("milestone", "title"))
    page.facts.put("closed_at", issue.string("closed_at"))
    page.facts.put("merged_at", issue.string("pull_request", "merged_at"))
    return page.formed()


def _state(issue: Value, merged: Value | None) -> str:
    if merged is not None and merged.data:
        return "merged"
    state = issue.string("state")
    reason = issue.string("state_reason").replace("_", " ")
    if state == "closed" and reason:
        state = f"closed ({reason})"
    if issue.true("draft") and state == "open":
        state = "open (draft)"
    return f"{state}, locked" if issue.true("locked") and state else state


def _timeline(root: Value, *, pull: bool) -> list[Callable[[_Page], None]]:
    """Comments and reviews in the order of time. A comment on lines stands beneath the review that it was
    part of, with the answers to it; one whose review is not there stands for itself."""
    found: list[tuple[str, int, Callable[[_Page], None]]] = []
    for comment in root.items("comments"):
        found.append((comment.string("created_at"), len(found), partial(_comment, comment)))
    if pull:
        roots, answers = _talks(root.items("review_comments"))
        for review in root.items("reviews"):
            begun = roots.pop(review.integer("id"), [])
            if (
                begun
                or review.string("body").strip()
                or review.string("state") not in ("COMMENTED", "PENDING")
            ):
                shown = partial(_review, review, begun, answers)
                found.append((review.string("submitted_at"), len(found), shown))
        for talk in (talk for talks in roots.values() for talk in talks):
            found.append((talk.string("created_at"), len(found), partial(_talk, 2, talk, answers)))
    return [show for _, _, show in sorted(found, key=lambda entry: entry[:2])]


def _talks(comments: Sequence[Value]) -> tuple[dict[int | None, list[Value]], dict[int, list[Value]]]:
    """Comments on lines that begin a talk, by review, and the answers, by what they answer."""
    ids = {comment.integer("id") for comment in comments}
    roots: dict[int | None, list[Value]] = {}
    answers: dict[int, list[Value]] = {}
    for comment in sorted(comments, key=lambda c: c.string("created_at")):
        to = comment.integer("in_reply_to_id")
        if to is None or to not in ids or to == comment.integer("id"):
            roots.setdefault(comment.integer("pull_request_review_id"), []).append(comment)
        else:
            answers.setdefault(to, []).append(comment)
    return roots, answers


def _comment(comment: Value, page: _Page) -> None:
    page.said_by(2, "Comment", comment.at("user", "login"), comment.at("created_at"))
    page.body(comment.at("body"), 2)


def _review(
    review: Value, talks: Sequence[Value], answers: Mapping[int, Sequence[Value]], page: _Page
) -> None:
    what = _VERDICTS.get(review.string("state"), "Review")
    page.said_by(2, what, review.at("user", "login"), review.at("submitted_at"))
    page.body(review.at("body"), 2)
    for talk in talks:
        _talk(3, talk, answers, page)


def _talk(level: int, talk: Value, answers: Mapping[int, Sequence[Value]], page: _Page) -> None:
    """A comment on lines with what it speaks of, and the answers to it, each beneath the other."""
    page.said_by(level, "Comment on lines", talk.at("user", "login"), talk.at("created_at"))
    path = talk.at("path")
    if path is not None and _line(path):
        page.inline(path)
        line = next((v for n in ("line", "original_line") if (v := talk.at(n)) and v.data is not None), None)
        if line is not None:
            page.writer.put(", line ")
            page.writer.said(str(line.data), line)
        page.writer.put(":\n\n")
    hunk = talk.at("diff_hunk")
    if hunk is not None and isinstance(hunk.data, str) and hunk.data.strip():
        page.code(hunk, "diff")
    page.body(talk.at("body"), level)
    # Answers name the first comment; what answers an answer is followed too, each once.
    queue = [talk.integer("id")]
    seen = set(queue)
    while queue:
        of = queue.pop(0)
        for answer in answers.get(of, ()) if of is not None else ():
            page.said_by(level + 1, "Answer", answer.at("user", "login"), answer.at("created_at"))
            page.body(answer.at("body"), level + 1)
            if (each := answer.integer("id")) not in seen:
                seen.add(each)
                queue.append(each)


def _release(data: bytes, given: Given) -> Formed:
    page = _Page(data, given)
    release = _object(page.root, given)
    tag, name = release.at("tag_name"), release.at("name")
    title = name if name is not None and _line(name) else tag
    page.title(title, "", "Release")
    author = release.at("author", "login")
    published = next((v for n in ("published_at", "created_at") if (v := release.at(n)) and v.data), None)
    prerelease = release.at("prerelease")
    page.head(
        [
            ("Tag", _some(tag), None),
            ("Author", _some(author), None),
            ("Published", _some(published), None),
            ("State", _some(prerelease) if release.true("prerelease") else [], lambda _: "pre-release"),
        ]
    )
    if release.string("body").strip():
        page.writer.put("## Notes\n\n")
        page.body(release.at("body"), 2)
    assets = [asset for asset in release.items("assets") if asset.string("name")]
    if assets:
        page.writer.put("## Files\n\n")
        for asset in assets:
            page.writer.put("- ")
            _put(page, asset.at("name"))
            size = asset.at("size")
            if size is not None and isinstance(size.data, int):
                page.writer.put(", ")
                page.writer.said(f"{size.data} bytes", size)
            page.writer.put("\n")
        page.writer.put("\n")
    _facts(page, author, published, release.at("html_url"), [])
    page.facts.put("tag", release.string("tag_name"))
    page.facts.put("state", "pre-release" if release.true("prerelease") else "")
    return page.formed()


def _discussion(data: bytes, given: Given) -> Formed:
    page = _Page(data, given)
    discussion = _object(page.root.at("discussion"), given)
    number = discussion.integer("number")
    page.title(discussion.at("title"), f" (#{number})" if number is not None else "", "Untitled")
    author, created = discussion.at("author", "login"), discussion.at("createdAt")
    labels = [x for x in discussion.items("labels") if isinstance(x.data, str)]
    comments = discussion.items("comments")
    answered = any(comment.true("isAnswer") for comment in comments)
    closed = discussion.at("closed")
    state = "answered" if answered else "closed" if discussion.true("closed") else "open"
    page.head(
        [
            ("State", _some(closed) or _some(discussion.at("number")), lambda _: state),
            ("Author", _some(author), None),
            ("Opened", _some(created), None),
            ("Category", _some(discussion.at("category", "name")), None),
            ("Labels", labels, None),
        ]
    )
    if discussion.string("body").strip():
        page.writer.put("## Description\n\n")
        page.body(discussion.at("body"), 2)
    for comment in sorted(comments, key=lambda c: c.string("createdAt")):
        what = "Answer" if comment.true("isAnswer") else "Comment"
        page.said_by(2, what, comment.at("author", "login"), comment.at("createdAt"))
        page.body(comment.at("body"), 2)
        for reply in sorted(comment.items("replies"), key=lambda c: c.string("createdAt")):
            page.said_by(3, "Reply", reply.at("author", "login"), reply.at("createdAt"))
            page.body(reply.at("body"), 3)
    _facts(page, author, created, discussion.at("url"), labels)
    page.facts.put("number", number)
    page.facts.put("state", state)
    page.facts.put("category", discussion.string("category", "name"))
    return page.formed()


def _repository(data: bytes, given: Given) -> Formed:
    page = _Page(data, given)
    repository = _object(page.root, given)
    page.title(repository.at("full_name"), "", "Repository")
    description = repository.at("description")
    if description is not None and _line(description):
        page.inline(description)
        page.writer.put("\n\n")
    topics = [x for x in repository.items("topics") if isinstance(x.data, str)]
    flags = [v for n in ("archived", "private", "fork") if repository.true(n) and (v := repository.at(n))]
    names = {id(v): n for n in ("archived", "private", "fork") if (v := repository.at(n)) is not None}
    owner = repository.at("owner", "login")
    page.head(
        [
            ("Homepage", _some(repository.at("homepage")), None),
            ("Topics", topics, None),
            ("Language", _some(repository.at("language")), None),
            ("Licence", _some(repository.at("license", "name")), None),
            ("Default branch", _some(repository.at("default_branch")), None),
            ("State", flags, lambda v: names[id(v)]),
            ("Created", _some(repository.at("created_at")), None),
        ]
    )
    _facts(page, owner, repository.at("created_at"), repository.at("html_url"), topics)
    page.facts.put("description", repository.string("description"))
    return page.formed()


def _object(value: Value | None, given: Given) -> Value:
    if value is None or not isinstance(value.data, dict):
        raise TabootError("E_PARSE", f"{given.path} is no such resource of GitHub.", path=given.path)
    return value


def _facts(
    page: _Page, author: Value | None, when: Value | None, url: Value | None, labels: Sequence[Value]
) -> None:
    page.facts.put("author", _line(author) or _GHOST)
    page.facts.date = parse_date(_line(when))
    page.facts.put("canonical_url", _line(url))
    page.facts.put_keywords([x.data for x in labels])


def _put(page: _Page, value: Value | None) -> None:
    if value is not None:
        page.inline(value)


def _line(value: Value | None) -> str:
    """A text in one line; empty for anything else."""
    return " ".join(value.data.split()) if value is not None and isinstance(value.data, str) else ""


def _some(value: Value | None) -> list[Value]:
    """The value, if it says anything."""
    return [value] if value is not None and value.data not in (None, "", [], {}) else []


def _all(values: Iterator[Value | None]) -> list[Value]:
    return [value for value in values if value is not None and value.data]


#: By media type.
GITHUB_FORMS: Mapping[str, Form] = {
    f"{GITHUB}issue+json": partial(_thread, pull=False),
    f"{GITHUB}pull+json": partial(_thread, pull=True),
    f"{GITHUB}release+json": _release,
    f"{GITHUB}discussion+json": _discussion,
    f"{GITHUB}repository+json": _repository,
}
