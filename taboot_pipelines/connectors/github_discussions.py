"""Discussions of one repository, which GitHub has in GraphQL alone: only for a token, and without ETags.

Every discussion is asked for with its comments and their replies; what is as it was is stored no second time.
A run that a bound ends keeps the page that it came to, and the numbers of what it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import ApiClient, canonical, version_of
from taboot_pipelines.connectors.github_lists import MALFORMED
from taboot_pipelines.connectors.github_resources import mime_of
from taboot_pipelines.connectors.github_rounds import FINAL, Round
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
        self,
        client: ApiClient,
        access: Access,
        round_: Round,
        url: str,
        prefix: str,
        full_name: str,
        since: str | None,
    ) -> None:
        self._round = round_
        self._client = client
        self._access = access
        self._url = url
        self._prefix = prefix
        self._owner, _, self._name = full_name.partition("/")
        self._since = since

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """One item each, ``#discussions/N``. Raises as :meth:`ApiClient.ask`."""
        key = f"{self._prefix}#discussions"
        kept = self._round.kept(key)
        told: list[int] = list(kept["told"]) if kept else []
        after: str | None = kept["after"] if kept else None
        for number in told:
            path = f"{self._prefix}#discussions/{number}"
            if tombstoned(path):
                yield _deleted(path)
            elif path in known:
                yield NotModified(path)
        if self._round.is_done(key) and kept is not None:
            return
        seen = set(told)
        variables: dict[str, Any] = {"owner": self._owner, "name": self._name}
        try:
            for nodes, following in self._pages(
                _LIST, variables, "after", ("repository", "discussions"), after
            ):
                for discussion in nodes:
                    number, event = self._listed(discussion, seen, known, tombstoned)
                    if number not in seen:
                        seen.add(number)
                        told.append(number)
                    if event is not None:
                        yield event
                after = following
        except TabootError as error:
            if error.code in FINAL:
                self._round.keep(key, {"after": after, "told": told})
            raise
        self._round.keep(key, {"after": None, "told": told})
        self._round.done(key)

    def _listed(
        self,
        discussion: dict[str, Any],
        seen: Collection[int],
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
    ) -> tuple[int, Event | None]:
        """The number of a discussion and its event; None where it came before, or is too old."""
        try:
            number, url = int(discussion["number"]), str(discussion["url"])
            changed = str(discussion["updatedAt"])
        except MALFORMED:
            raise self._unexpected() from None
        path = f"{self._prefix}#discussions/{number}"
        if number in seen or (self._since and changed < self._since):
            return number, None
        if tombstoned(path):
            return number, _deleted(path)
        try:
            return number, self._item(path, url, self._whole(discussion), known.get(path))
        except TabootError as error:
            if error.code in FINAL:
                raise
            return number, Failed(path, error)

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
                for nodes, _ in self._pages(more, variables, name, ("node", name), variables[name]):
                    yield from nodes
        except MALFORMED:
            raise self._unexpected() from None

    def _pages(
        self, query: str, variables: Mapping[str, Any], cursor: str, way: tuple[str, str], after: str | None
    ) -> Iterator[tuple[list[dict[str, Any]], str | None]]:
        """The nodes of all pages of a connection behind ``after``, each page with where it ends. Raises
        ``E_API`` for one that does not end."""
        seen: set[str] = set()
        while True:
            variables = {**variables, cursor: after}
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
            yield nodes, after
            if not more:
                return
            if after in seen or after is None or len(seen) >= _MAX_PAGES:
                raise TabootError("E_API", f"{self._client.service} answers with a list that does not end.")
            seen.add(after)

    def _ask(self, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._client.ask("POST", self._url, json={"query": query, "variables": dict(variables)})
        self._round.answered += 1
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


def _deleted(path: str) -> Skipped:
    return Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
