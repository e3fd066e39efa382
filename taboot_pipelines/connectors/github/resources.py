"""What of GitHub's resources a document depends on: the version of each, and where it belongs.

A version is that of what the forms in ``documents.forms.github`` show. What changes by itself (counters,
reactions, pictures of people, the time of the last event) is no part of it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from taboot_pipelines.connectors.github.listings import Held, slim_version

#: The token with which GitHub lets its own pages clone a private repository, and what this account may do.
_NOT_KEPT = ("temp_clone_token", "permissions")


def mime_of(kind: str) -> str:
    """The media type of a resource of this kind as it is stored."""
    return f"application/vnd.taboot.github-{kind}+json"


def repository(resource: Any) -> Held:
    """``facts``: what the rest of the run must know of the repository."""
    licence = resource.get("license") or {}
    shown = [
        resource["full_name"],
        resource.get("description"),
        resource.get("homepage"),
        resource.get("topics"),
        resource.get("language"),
        licence.get("name"),
        resource["default_branch"],
        resource.get("archived"),
        resource.get("fork"),
        resource.get("private"),
        resource.get("created_at"),
        resource["html_url"],
    ]
    facts: dict[str, Any] = {
        "full_name": str(resource["full_name"]),
        "branch": str(resource["default_branch"]),
        "html_url": str(resource["html_url"]),
        "private": resource.get("private") is True,
        "archived": resource.get("archived") is True,
        "fork": resource.get("fork") is True,
        "wiki": resource.get("has_wiki") is not False,
        "discussions": resource.get("has_discussions") is not False,
    }
    if facts["full_name"].count("/") != 1:
        raise ValueError
    return Held(str(resource["id"]), 0, slim_version(shown), "", facts)


def repository_blob(resource: Any) -> dict[str, Any]:
    """A repository as it is stored."""
    return {name: value for name, value in resource.items() if name not in _NOT_KEPT}


def issue(resource: Any) -> Held:
    """An issue, or a pull request as the list of issues has it (``facts["pull"]``)."""
    pull = resource.get("pull_request")
    milestone = resource.get("milestone") or {}
    shown = [
        resource["number"],
        resource["title"],
        resource.get("state"),
        resource.get("state_reason"),
        resource.get("body"),
        _login(resource),
        [label if isinstance(label, str) else label["name"] for label in resource.get("labels") or ()],
        [person["login"] for person in resource.get("assignees") or ()],
        milestone.get("title"),
        resource.get("created_at"),
        resource.get("closed_at"),
        resource.get("locked"),
        resource.get("draft"),
        (pull or {}).get("merged_at"),
        resource["html_url"],
    ]
    facts = {"pull": pull is not None, "url": str(resource["html_url"])}
    number = int(resource["number"])
    return Held(str(number), number, slim_version(shown), str(resource.get("updated_at") or ""), facts)


def comment(resource: Any) -> Held:
    """A comment on an issue or pull request."""
    shown = [resource.get("body"), _login(resource), resource.get("created_at"), resource.get("html_url")]
    return _part(resource, _number(resource["issue_url"]), shown)


def review_comment(resource: Any) -> Held:
    """A comment on a line of a pull request."""
    shown = [
        resource.get("body"),
        _login(resource),
        resource.get("created_at"),
        resource.get("path"),
        resource.get("line"),
        resource.get("original_line"),
        resource.get("diff_hunk"),
        resource.get("in_reply_to_id"),
        resource.get("pull_request_review_id"),
    ]
    return _part(resource, _number(resource["pull_request_url"]), shown)


def review(resource: Any) -> Held:
    """A review of a pull request."""
    shown = [resource.get("body"), _login(resource), resource.get("state"), resource.get("submitted_at")]
    return _part(resource, 0, shown)


def release(resource: Any) -> Held | None:
    """A release; a draft is not published, and left out."""
    if resource.get("draft") is True:
        return None
    shown = [
        resource["tag_name"],
        resource.get("name"),
        resource.get("body"),
        resource.get("prerelease"),
        _login(resource, "author"),
        resource.get("created_at"),
        resource.get("published_at"),
        resource["html_url"],
        [[asset["name"], asset.get("size")] for asset in resource.get("assets") or ()],
    ]
    facts = {"tag": str(resource["tag_name"]), "url": str(resource["html_url"])}
    changed = str(resource.get("published_at") or resource.get("created_at") or "")
    return Held(str(resource["id"]), 0, slim_version(shown), changed, facts)


def _part(resource: Any, of: int, shown: list[Any]) -> Held:
    return Held(str(int(resource["id"])), of, slim_version(shown), "", {})


def _login(resource: Any, name: str = "user") -> Any:
    person = resource.get(name)
    return person.get("login") if person is not None else None


def _number(url: Any) -> int:
    """The number that an issue's or pull request's URL ends with."""
    return int(urlsplit(url).path.rstrip("/").rsplit("/", 1)[1])
