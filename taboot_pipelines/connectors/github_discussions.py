"""Discussions of one repository, which GitHub has in GraphQL alone: only for a token, and without ETags.

Every discussion is asked for with its comments and their replies; what is as it was is stored no second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import ApiClient, canonical, version_of
from taboot_pipelines.connectors.github_lists import MALFORMED
from taboot_pipelines.connectors.github_resources import mime_of
from taboot_pipelines.connectors.github_threads import FINAL
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Event, Failed, Fetched, Known, NotModified, Skipped

_PAGE = 25
_MAX_PAGES = 10_000
_SAID = "id url body createdAt author { login }"
_REPLIES = (
    f"replies(first: 50, after: $replies) {{ pageInfo {{ hasNextPage endCursor }} nodes {{ {_SAID} }} }}"
)
_COMMENTS = (
    "comments(first: 50, after: $comments) { pageInfo { hasNextPage endCursor }"
    f" nodes {{ {_SAID} isAnswer {_REPLIES} }} }}"
)
_DISCUSSION = (
    f"number title updatedAt closed {_SAID} category {{ name }} labels(first: 50) {{ nodes {{ name }} }}"
    f" {_COMMENTS}"
)
_LIST = (
    "query($owner: String!, $name: String!, $after: String, $comments: String, $replies: String) {"
    " repository(owner: $owner, name: $name) {"
    f" discussions(first: {_PAGE}, after: $after, orderBy: {{field: CREATED_AT, direction: ASC}}) {{"
    f" pageInfo {{ hasNextPage endCursor }} nodes {{ {_DISCUSSION} }} }} }} }}"
)
_MORE_COMMENTS = (
    "query($id: ID!, $comments: String, $replies: String) { node(id: $id) { ... on Discussion {"
    f" {_COMMENTS} }} }} }}"
)
_MORE_REPLIES = (
    f"query($id: ID!, $replies: String) {{ node(id: $id) {{ ... on DiscussionComment {{ {_REPLIES} }} }} }}"
)


class Discussions:
    """The discussions of the repository ``full_name``. ``url``: of the service's GraphQL."""

    def __init__(
        self, client: ApiClient, access: Access, url: str, prefix: str, full_name: str, since: str | None
    ) -> None:
        self._client = client
        self._access = access
        self._url = url
        self._prefix = prefix
        self._owner, _, self._name = full_name.partition("/")
        self._since = since

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """One item each, ``#discussions/N``. Raises as :meth:`ApiClient.ask`."""
        where = {"owner": self._owner, "name": self._name}
        seen: set[int] = set()
        for discussion in self._nodes(_LIST, where, "after", ("repository", "discussions")):
            try:
                number, url = int(discussion["number"]), str(discussion["url"])
                changed = str(discussion["updatedAt"])
            except MALFORMED:
                raise self._unexpected() from None
            if number in seen or (self._since and changed < self._since):
                continue
            seen.add(number)
            path = f"{self._prefix}#discussions/{number}"
            if tombstoned(path):
                yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
                continue
            try:
                yield self._item(path, url, self._whole(discussion), known.get(path))
            except TabootError as error:
                if error.code in FINAL:
                    raise
                yield Failed(path, error)

    def _item(self, path: str, url: str, discussion: dict[str, Any], before: Known | None) -> Event:
        version = version_of(discussion, ("updatedAt",))
        if before is not None and before.whole and before.etag == version and before.url == url:
            return NotModified(path)
        data = canonical({"discussion": discussion})
        limit = self._access.max_blob_bytes
        if len(data) > limit:
            return Skipped(path, "E_TOO_LARGE", f"{path} has {len(data)} bytes, more than {limit}.")
        return Fetched(path, data, mime=mime_of("discussion"), charset="utf-8", url=url, etag=version)

    def _whole(self, discussion: dict[str, Any]) -> dict[str, Any]:
        """A discussion with all comments and replies, as plain lists."""
        comments = []
        for comment in self._rest(discussion, "comments", _MORE_COMMENTS):
            comments.append({**comment, "replies": list(self._rest(comment, "replies", _MORE_REPLIES))})
        labels = [label["name"] for label in (discussion.get("labels") or {}).get("nodes") or () if label]
        return {**discussion, "labels": labels, "comments": comments}

    def _rest(self, holder: dict[str, Any], name: str, more: str) -> Iterator[dict[str, Any]]:
        """The nodes of a connection: those that came with its holder, then those behind."""
        try:
            first = holder[name]
            yield from (node for node in first["nodes"] if node)
            if first["pageInfo"]["hasNextPage"]:
                variables = {"id": holder["id"], name: first["pageInfo"]["endCursor"]}
                yield from self._nodes(more, variables, name, ("node", name))
        except MALFORMED:
            raise self._unexpected() from None

    def _nodes(
        self, query: str, variables: Mapping[str, Any], cursor: str, way: tuple[str, str]
    ) -> Iterator[dict[str, Any]]:
        """The nodes of all pages of a connection. Raises ``E_API`` for one that does not end."""
        seen: set[str] = set()
        variables = dict(variables)
        while True:
            data = self._ask(query, variables)
            try:
                holder = data[way[0]]
                if holder is None:
                    return
                found = holder[way[1]]
                nodes = [node for node in found["nodes"] if node]
                more, after = found["pageInfo"]["hasNextPage"], found["pageInfo"]["endCursor"]
            except MALFORMED:
                raise self._unexpected() from None
            yield from nodes
            if not more:
                return
            if after in seen or after is None or len(seen) >= _MAX_PAGES:
                raise TabootError("E_API", f"{self._client.service} answers with a list that does not end.")
            seen.add(after)
            variables[cursor] = after

    def _ask(self, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._client.ask("POST", self._url, json={"query": query, "variables": dict(variables)})
        if answer.gone:
            raise self._unexpected()
        found = answer.json()
        if not isinstance(found, dict):
            raise self._unexpected()
        errors = found.get("errors")
        if errors:
            kinds = {str(e.get("type")) for e in errors if isinstance(e, dict)}
            name = f"{self._owner}/{self._name}"
            if "RATE_LIMITED" in kinds:
                raise TabootError("E_429_RATE", f"{self._client.service} has no more GraphQL for this hour.")
            if kinds & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
                raise TabootError(
                    "E_FORBIDDEN",
                    f"{self._client.service} does not let this token read the discussions of {name}.",
                    remedy="Give the token the right to read discussions, or set `discussions: false`.",
                )
            if "NOT_FOUND" in kinds:
                raise TabootError("E_NOT_FOUND", f"{self._client.service} does not find {name}.")
        data = found.get("data")
        if errors or not isinstance(data, dict):
            raise self._unexpected()
        return data

    def _unexpected(self) -> TabootError:
        where = f"{self._owner}/{self._name}"
        return TabootError(
            "E_API", f"{self._client.service} answers with something else than discussions of {where}."
        )
