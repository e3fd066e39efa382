"""Issues, pull requests and releases of one repository, each with all that was said of it as one item.

Discussions of one repository, which GitHub has in GraphQL alone: only for a token, and without ETags.

Every discussion is asked for with its comments and their replies; what is as it was is stored no second time.
A run that a bound ends keeps the page that it came to, and the numbers of what it was told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.api.resources import canonical, version_of
from taboot_pipelines.connectors.github import resources
from taboot_pipelines.connectors.github.listings import (
    BOUNDS,
    FINAL,
    MALFORMED,
    Held,
    Listing,
    Lists,
    Round,
    by_thread,
    slim_version,
)
from taboot_pipelines.connectors.github.resources import mime_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Event, Failed, Fetched, Known, NotModified, Skipped

#: After these the client makes no request whatever it is asked for.
_SILENT = frozenset({"E_REQUESTS", "E_CIRCUIT_OPEN"})
_BY_AGE: Mapping[str, str | int] = {"sort": "created", "direction": "asc"}


class Threads:
    """The threads of one repository. ``prefix``: what the paths of its items begin with; ``api``: the path of
    its resources; ``since``: an ISO 8601 time before which nothing is taken."""

    def __init__(
        self,
        lists: Lists,
        round_: Round,
        access: Access,
        prefix: str,
        api: str,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        since: str | None,
    ) -> None:
        self._lists = lists
        self._round = round_
        self._access = access
        self._prefix = prefix
        self._api = api
        self._known = known
        self._tombstoned = tombstoned
        self._since = since

    def releases(self) -> Iterator[Event]:
        """One item each, ``#releases/TAG``. Raises as :meth:`Lists.read`."""
        listing = self._lists.read(f"{self._prefix}#releases", f"{self._api}/releases", {}, resources.release)
        taken: set[str] = set()
        for held in listing.held.values():
            path = f"{self._prefix}#releases/{held.facts['tag']}"
            if (self._since and held.changed < self._since) or path in taken:
                continue
            taken.add(path)
            yield from self._item(path, "release", held.version, held.facts["url"], _One(self, listing, held))

    def issues(self, *, issues: bool, pulls: bool) -> Iterator[Event]:
        """One item each, ``#issues/N`` and ``#pulls/N``. Raises as :meth:`Lists.read`.

        Where a bound ends the run, what could be had of the thread that it came to is told before that is
        raised, so that each run comes further, however little it may ask for; and other threads whose parts
        are all there, where that takes no request.
        """
        lists, name, api = self._lists, f"{self._prefix}#", self._api
        asked = {**_BY_AGE, "state": "all", **({"since": self._since} if self._since else {})}
        heads = lists.read(f"{name}issues", f"{api}/issues", asked, resources.issue)
        said = lists.read(f"{name}comments", f"{api}/issues/comments", _BY_AGE, resources.comment)
        listings = {"issue": heads, "comments": said}
        if pulls:
            listings["review_comments"] = lists.read(
                f"{name}review-comments", f"{api}/pulls/comments", _BY_AGE, resources.review_comment
            )
        parts = {part: by_thread(listing) for part, listing in listings.items() if part != "issue"}
        wanted = [h for h in heads.held.values() if (pulls if h.facts["pull"] else issues)]
        paths = {h.of: f"{name}{'pulls' if h.facts['pull'] else 'issues'}/{h.of}" for h in wanted}
        # What was never read comes first, so that bounded runs come to an end in time.
        wanted.sort(key=lambda h: (paths[h.of] in self._known, h.of))
        reviews = lists.read_each(
            ((f"{name}reviews/{h.of}", f"{api}/pulls/{h.of}/reviews") for h in wanted if h.facts["pull"]),
            resources.review,
        )
        bound: TabootError | None = None
        for head in wanted:
            of = {part: threads.get(head.of, []) for part, threads in parts.items()}
            reviewed = next(reviews) if head.facts["pull"] else None
            try:
                if (failure := self._round.failure(paths[head.of])) is not None:
                    raise failure
                yield from self._thread(paths[head.of], head, listings, of, reviewed, bound is None)
            except TabootError as error:
                if error.code in _SILENT:
                    bound = bound or error
                elif error.code in FINAL:
                    raise
                else:
                    self._round.fail(paths[head.of], error)
                    yield Failed(paths[head.of], error)
        if bound is not None:
            raise bound

    def _thread(
        self,
        path: str,
        head: Held,
        listings: dict[str, Listing],
        parts: dict[str, list[Held]],
        reviews: Listing | TabootError | None,
        in_part: bool,
    ) -> Iterator[Event]:
        """The event of one thread; ``reviews``: of a pull request; ``in_part``: see :class:`_Made`."""
        if isinstance(reviews, TabootError):
            raise reviews
        if reviews is None:
            parts = {"comments": parts["comments"]}
        else:
            listings = {**listings, "reviews": reviews}
            parts = {**parts, "reviews": list(reviews.held.values())}
        made = _Made(self, path, listings, head, parts, in_part)
        yield from self._item(
            path, "pull" if head.facts["pull"] else "issue", made.listed(), head.facts["url"], made
        )
        if made.bound is not None:
            raise made.bound

    def _item(
        self, path: str, kind: str, version: str, url: str, make: Callable[[], tuple[Any, str] | None]
    ) -> Iterator[Event]:
        """The event of an item; ``make`` gives its resource with its version, None if it is gone by now."""
        before = self._known.get(path)
        skips = f"{path}#skip"
        if self._tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            return
        if before is not None and before.whole and before.etag == version and before.url == url:
            yield NotModified(path)
            return
        skipped = self._access.state.load(skips)
        if skipped is not None and skipped[0] == version:
            yield Skipped(path, *skipped[1])
            return
        made = make()
        if made is None:
            return
        resource, version = made
        if before is not None and before.whole and before.etag == version and before.url == url:
            yield NotModified(path)  # nothing new could be had of it
            return
        data = canonical(resource)
        limit = self._access.max_blob_bytes
        if len(data) > limit:
            skip = ("E_TOO_LARGE", f"{path} has {len(data)} bytes, more than {limit}.")
            yield Skipped(path, *skip)
            self._access.state.save(skips, [version, skip])
            return
        yield Fetched(path, data, mime=resources.mime_of(kind), charset="utf-8", url=url, etag=version)

    def stored(self, path: str) -> Any:
        """The stored resource of an item; None where nothing is stored that can be read."""
        before = self._known.get(path)
        page = self._access.stored_page(path) if before is not None and before.whole else None
        try:
            return json.loads(page.data) if page is not None else None
        except (ValueError, RecursionError):
            return None

    def at_hand(self, listing: Listing, held: Held, stored: Callable[[], Any | None]) -> Any | None:
        return self._lists.at_hand(listing, held.id, lambda _: stored())

    def resource(self, listing: Listing, held: Held, stored: Callable[[], Any | None]) -> Any | None:
        return self._lists.resource(listing, held.id, lambda _: stored())


class _One:
    """Makes an item that is one resource."""

    def __init__(self, threads: Threads, listing: Listing, held: Held) -> None:
        self._threads, self._listing, self._held = threads, listing, held

    def __call__(self) -> tuple[Any, str] | None:
        found = self._threads.resource(self._listing, self._held, lambda: None)
        held = None if found is None else self._listing.slim(found)
        return None if held is None else (found, held.version)


class _Made:
    """Makes a thread's item from its parts.

    Where a bound of the run hides one, ``in_part`` the item has it as it is stored, or not at all: it is then
    of another version than the lists say, so that the next run asks for the rest. Else the bound is raised.
    """

    def __init__(
        self,
        threads: Threads,
        path: str,
        listings: Mapping[str, Listing],
        head: Held,
        parts: Mapping[str, list[Held]],
        in_part: bool,
    ) -> None:
        self._threads, self._path, self._listings = threads, path, listings
        self._head, self._parts, self._in_part = head, parts, in_part
        #: What has hidden a part.
        self.bound: TabootError | None = None
        #: What is stored of the item, by part and id.
        self._before: dict[tuple[str, str], Any] = {}

    def listed(self) -> str:
        """The version that the lists say the item has."""
        return _version(self._head, self._parts)

    def __call__(self) -> tuple[Any, str] | None:
        self._before = _by_id(self._threads.stored(self._path), self._head.id)
        head = self._part("issue", self._head)
        if head is None:
            return None
        resource: dict[str, Any] = {"issue": head}
        now: dict[str, list[Held]] = {}
        for part, listed in self._parts.items():
            resource[part] = [found for held in listed if (found := self._part(part, held)) is not None]
            # As it is now, which may be newer than what the list said.
            now[part] = [held for each in resource[part] if (held := self._listings[part].slim(each))]
        slim = self._listings["issue"].slim(head)
        assert slim is not None
        return resource, _version(slim, now)

    def _part(self, part: str, held: Held) -> Any | None:
        before, listing = self._before.get((part, held.id)), self._listings[part]
        if self.bound is not None:
            found = self._threads.at_hand(listing, held, lambda: before)
            return before if found is None else found
        try:
            return self._threads.resource(listing, held, lambda: before)
        except TabootError as error:
            if error.code not in BOUNDS or not self._in_part:
                raise
            self.bound = error
            return before


def _by_id(resource: Any, head: str) -> dict[tuple[str, str], Any]:
    """The parts of a stored thread."""
    found: dict[tuple[str, str], Any] = {}
    if isinstance(resource, dict):
        for part, listed in resource.items():
            for each in listed if isinstance(listed, list) else [listed]:
                if isinstance(each, dict):
                    found[part, head if part == "issue" else str(each.get("id"))] = each
    return found


def _version(head: Held, parts: Mapping[str, list[Held]]) -> str:
    """The version of a thread: that of its head, and of each part by id."""
    return slim_version(
        [head.version, {part: sorted([h.id, h.version] for h in held) for part, held in parts.items()}]
    )


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
