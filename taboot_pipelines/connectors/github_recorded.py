"""Recorded answers of GitHub's API, read from files: a resource, a list of them, or requests with answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from taboot_pipelines.connectors import github_resources as resources
from taboot_pipelines.connectors.api import canonical
from taboot_pipelines.connectors.github_lists import MALFORMED
from taboot_pipelines.connectors.recorded import Part, RecordedFile
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import parse

_CONTENT = re.compile(r"/repos/(?P<name>[^/]+/[^/]+)/contents/(?P<path>[^?]+)")
_PAGE = re.compile(r"https?://[^/]+/(?P<name>[^/]+/[^/]+)(?:/|\Z)")


class GithubReader:
    """Repositories, issues, pull requests, releases, discussions and contents of files, each one item. Of a
    resource that a recording has several times the last counts: it is the newest."""

    version = "1"

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        data = file.read()
        try:
            recorded = parse(data.decode("utf-8-sig")).plain()
        except (TabootError, UnicodeDecodeError):
            raise TabootError("E_MIME", f"{file.path} is no JSON.", path=file.path) from None
        found: dict[str, Part] = {}
        for path, answer in _answers(recorded):
            for each in answer if isinstance(answer, list) else [answer]:
                part = _part(path, each)
                if part is not None and part.name is not None:
                    found[part.name] = part
        if not found:
            raise TabootError(
                "E_MIME",
                f"{file.path} holds no repository, issue, release or file of GitHub.",
                path=file.path,
            )
        yield from found.values()


def _answers(recorded: Any) -> Iterator[tuple[str, Any]]:
    """The answers as (path of the request, body); a body alone has no path."""
    if isinstance(recorded, list) and any(_is_exchange(each) for each in recorded):
        for each in recorded:
            if _is_exchange(each) and each["status"] in (200, 201):
                yield str(each.get("path", "")), each["response"]
    elif isinstance(recorded, dict) and _is_exchange(recorded):
        yield from _answers([recorded])
    else:
        yield "", recorded


def _is_exchange(each: Any) -> bool:
    return isinstance(each, dict) and "response" in each and "status" in each


def _part(request: str, resource: Any) -> Part | None:
    """The item that an answer is; None for anything else, such as a label."""
    try:
        return _content(request, resource) if isinstance(resource, str) else _resource(resource)
    except MALFORMED:
        return None


def _content(request: str, text: str) -> Part | None:
    """A file's own text, as the API gives it where it is asked for raw."""
    match = _CONTENT.fullmatch(request.partition("?")[0])
    if match is None or not text:
        return None
    # The item's name is that of the recording too, which would tell another type.
    mime = "text/markdown" if match["path"].lower().endswith((".md", ".markdown")) else None
    return Part(text.encode(), f"{match['name']}/{match['path']}", mime, "utf-8")


def _resource(resource: Mapping[str, Any]) -> Part | None:
    if "default_branch" in resource:
        held = resources.repository(resource)
        blob = resources.repository_blob(resource)
        return _made("repository", f"{held.facts['full_name']}#repository", blob, held.facts["html_url"])
    if "tag_name" in resource:
        release = resources.release(resource)
        if release is None:
            return None
        url = release.facts["url"]
        return _made("release", f"{_name(url)}#releases/{release.facts['tag']}", resource, url)
    if "discussion" in resource:
        url = str(resource["discussion"]["url"])
        number = int(resource["discussion"]["number"])
        return _made("discussion", f"{_name(url)}#discussions/{number}", resource, url)
    thread = resource if "issue" in resource else {"issue": resource}
    if "merge_commit_sha" in thread["issue"]:
        # A pull request by itself has what the list of issues says of it in other places.
        thread = {
            "issue": {**thread["issue"], "pull_request": {"merged_at": thread["issue"].get("merged_at")}}
        }
    head = resources.issue(thread["issue"])
    kind = "pull" if head.facts["pull"] else "issue"
    return _made(kind, f"{_name(head.facts['url'])}#{kind}s/{head.of}", thread, head.facts["url"])


def _made(kind: str, name: str, resource: object, url: str) -> Part:
    return Part(canonical(resource), name, resources.mime_of(kind), "utf-8", url)


def _name(url: str) -> str:
    """The repository of a page."""
    match = _PAGE.match(url)
    if match is None:
        raise ValueError
    return match["name"]
