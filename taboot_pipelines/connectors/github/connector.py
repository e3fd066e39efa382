"""The connector of type ``github``: one repository after the other, and recorded answers of GitHub's API.

Recorded answers of GitHub's API, read from files: a resource, a list of them, or requests with answers.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from taboot_pipelines.connectors.access import Access, MemoryState, secret_of
from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.api.resources import canonical
from taboot_pipelines.connectors.github import resources
from taboot_pipelines.connectors.github.entry import GithubSource, client_of, count, graphql_of, web_of
from taboot_pipelines.connectors.github.files import Files
from taboot_pipelines.connectors.github.listings import BOUNDS, FINAL, MALFORMED, Held, Lists, Round
from taboot_pipelines.connectors.github.threads import Discussions, Threads
from taboot_pipelines.connectors.github.wiki import Wiki
from taboot_pipelines.connectors.protocol import Connector, Planned
from taboot_pipelines.connectors.recorded import Part, RecordedFile, RecordedFiles
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import parse
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Repository:
    """A repository to be read. ``name``: what paths begin with; ``listing``: the state's key of what told of
    it; ``resource``: its resource, asked for where it is not what it was."""

    name: str
    held: Held
    resource: Callable[[], object | None]


class _Counting:
    """Counts what a run fetches, and ends one that has had enough."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._fetched = 0
        #: Whether anything was told.
        self.any = False

    def of(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Fetched):
                if self._fetched == self._most:
                    raise _EnoughError
                self._fetched += 1
            self.any |= not isinstance(event, Checkpoint)
            yield event


class _EnoughError(Exception):
    """The run has fetched ``max_items`` items."""


class GithubConnector:
    """Reads what ``entry`` names by the API."""

    def __init__(self, entry: GithubSource, access: Access) -> None:
        self._entry = entry
        self._access = access
        self._since = f"{entry.since.isoformat()}T00:00:00Z" if entry.since is not None else None

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_CONFIG`` for a token that is not set, and what the service says where nothing was read
        of it at all."""
        entry = self._entry
        reasons: list[str] = []
        counting = _Counting(entry.max_items)
        round_ = Round(self._access.state, entry.max_requests)
        bound: TabootError | None = None
        with client_of(entry, self._access) as client:
            lists = Lists(client, self._access.state, round_)
            try:
                for repository in self._repositories(lists, round_, reasons):
                    if not isinstance(repository, _Repository):
                        yield from counting.of(iter([repository]))
                        continue
                    events = self._of(client, lists, round_, repository, known, tombstoned, reasons)
                    yield from counting.of(events)
            except TabootError as raised:
                error = self._explained(raised)
                if not counting.any and not round_.answered and error.code != "E_REQUESTS":
                    raise error from None
                bound = error if error.code in BOUNDS else None
                reasons.append(error.message)
            except _EnoughError:
                message = f"`max_items` of {entry.max_items} is reached"
                bound = TabootError("E_REQUESTS", message)
                reasons.append(message)
            finally:
                lists.spool.close()
            round_.end(bound, client.requests)
        yield Enumerated(not reasons, "; ".join(reasons[:3]))

    def plan(self) -> Iterator[Planned]:
        """What a first run would ask for, part by part."""
        entry = self._entry
        with client_of(entry, self._access) as client:
            # What it asks for is no part of a round.
            round_ = Round(MemoryState(), entry.max_requests)
            lists = Lists(client, self._access.state, round_)
            reasons: list[str] = []
            for repository in self._repositories(lists, round_, reasons):
                if not isinstance(repository, _Repository):
                    told = repository.error if isinstance(repository, Failed) else repository
                    yield Planned(repository.path, note=told.message)
                    continue
                name, api = repository.name, _api_path(repository.held)
                if entry.files:
                    files, size = self._files(client, round_, repository).plan()
                    yield Planned(f"files of {name}", requests=1 + files, items=files, bytes=size)
                if self._has(entry.issues) or self._has(entry.pulls):
                    heads = count(client, f"{api}/issues", self._since)
                    said = count(client, f"{api}/issues/comments", None)
                    pages = -(-heads // 100) + -(-said // 100)
                    note = "and one request for each pull request" if self._has(entry.pulls) else ""
                    what = f"issues and pull requests of {name}"
                    yield Planned(what, requests=pages, items=heads, note=note)
                if entry.releases:
                    found = count(client, f"{api}/releases", None)
                    yield Planned(f"releases of {name}", requests=-(-found // 100) or 1, items=found)
                if entry.discussions:
                    yield Planned(f"discussions of {name}")
                if entry.wiki:
                    yield Planned(f"wiki of {name}", requests=0, note="copied by git")

    # --- which repositories ---------------------------------------------------------------------------------

    def _repositories(
        self, lists: Lists, round_: Round, reasons: list[str]
    ) -> Iterator[_Repository | Failed | Gone]:
        """The repositories of the entry, each once; in their place what cannot be read."""
        seen: set[str] = set()
        for name in dict.fromkeys(self._entry.repositories):
            path = f"{name}#repository"
            try:
                found = _tried(round_, path, lambda name=name: self._named(lists, name))  # type: ignore[misc]
            except TabootError as error:
                if error.code in FINAL:
                    raise
                reasons.append(error.message)
                yield Failed(path, error)
                continue
            if isinstance(found, Gone):
                yield found
            elif found.held.id not in seen:
                seen.add(found.held.id)
                yield found
        accounts = [(f"orgs/{name}", {"type": "all"}) for name in dict.fromkeys(self._entry.organisations)]
        accounts += [(f"users/{name}", {"type": "owner"}) for name in dict.fromkeys(self._entry.users)]
        for account, asked in accounts:
            try:
                asked = {**asked, "sort": "full_name", "direction": "asc"}
                listing = _tried(
                    round_,
                    account,
                    lambda account=account, asked=asked: lists.read(  # type: ignore[misc]
                        account, f"{account}/repos", asked, resources.repository
                    ),
                )
            except TabootError as error:
                if error.code in FINAL:
                    raise
                reasons.append(error.message)
                yield Failed(f"{account}#repositories", error)
                continue
            for held in listing.held.values():
                facts = held.facts
                if held.id in seen or (facts["fork"] and not self._entry.forks):
                    continue
                if facts["archived"] and not self._entry.archived:
                    continue
                seen.add(held.id)
                yield _Repository(
                    facts["full_name"],
                    held,
                    functools.partial(lists.resource, listing, held.id, lambda _: None),
                )

    def _named(self, lists: Lists, name: str) -> _Repository | Gone:
        """A repository by its name; what was read of one that is not there counts as absent.

        Raises ``E_FORBIDDEN`` for one that was private: GitHub hides it from a token that has lost its right.
        """
        key, path = f"{name}#about", f"repos/{name}"
        before = self._access.state.load(key)
        held = lists.one(key, path, resources.repository)
        if held is not None:
            return _Repository(name, held, lambda: lists.body(key, path, held, resources.repository))
        if before is not None and Held(*before[1]).facts["private"]:
            raise TabootError(
                "E_FORBIDDEN",
                f"GitHub does not show {name} any more, which was private: it is deleted, or the token may"
                " not read it. What was read of it stays.",
                remedy="Give the token the right to read it, or take it out of the sources file.",
            )
        message = f"GitHub has no repository {name}, or does not show it to this account."
        return Gone(f"{name}#repository", "E_NOT_FOUND", message)

    # --- one repository -------------------------------------------------------------------------------------

    def _of(
        self,
        client: ApiClient,
        lists: Lists,
        round_: Round,
        repository: _Repository,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        reasons: list[str],
    ) -> Iterator[Event]:
        """The events of one repository; why it may not be whole is added to ``reasons``."""
        entry, name, facts = self._entry, repository.name, repository.held.facts
        threads = Threads(
            lists, round_, self._access, name, _api_path(repository.held), known, tombstoned, self._since
        )
        files = self._files(client, round_, repository)
        parts: list[tuple[str, Callable[[], Iterator[Event]]]] = [
            ("repository", lambda: self._about(repository, known, tombstoned))
        ]
        if entry.files:
            parts.append(("files", lambda: files.events(known, tombstoned)))
        if entry.releases:
            parts.append(("releases", threads.releases))
        issues, pulls = self._has(entry.issues), self._has(entry.pulls)
        if issues or pulls:
            parts.append(("issues", lambda: threads.issues(issues=issues, pulls=pulls)))
        if entry.discussions and facts["discussions"]:
            full_name, url = facts["full_name"], graphql_of(entry.base_url)
            discussions = Discussions(client, self._access, round_, url, name, full_name, self._since)
            parts.append(("discussions", lambda: discussions.events(known, tombstoned)))
        if entry.wiki and facts["wiki"]:
            web = f"{web_of(entry.base_url)}/{facts['full_name']}"
            token = secret_of(self._access, entry.token, entry.token_env)
            wiki = Wiki(self._access, token, web=web, prefix=name)
            parts.append(("wiki", lambda: wiki.events(known, tombstoned)))
        for part, events in parts:
            path = f"{name}#{part}" if part != "files" else f"{name}/"
            try:
                if (failure := round_.failure(path)) is not None:
                    raise failure
                yield from events()
            except TabootError as error:
                if error.code in FINAL:
                    raise
                round_.fail(path, error)
                reasons.append(error.message)
                yield Failed(path, error)
            yield Checkpoint()

    def _about(
        self, repository: _Repository, known: Mapping[str, Known], tombstoned: Callable[[str], bool]
    ) -> Iterator[Event]:
        path, held = f"{repository.name}#repository", repository.held
        url = held.facts["html_url"]
        before = known.get(path)
        if tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
        elif before is not None and before.whole and before.etag == held.version and before.url == url:
            yield NotModified(path)
        elif isinstance(found := repository.resource(), dict):
            data = canonical(resources.repository_blob(found))
            version = resources.repository(found).version
            mime = resources.mime_of("repository")
            yield Fetched(path, data, mime=mime, charset="utf-8", url=url, etag=version)

    def _files(self, client: ApiClient, round_: Round, repository: _Repository) -> Files:
        facts = repository.held.facts
        return Files(
            client,
            self._access,
            round_,
            self._entry.include,
            self._entry.exclude,
            prefix=repository.name,
            api=_api_path(repository.held),
            branch=facts["branch"],
            web=facts["html_url"],
            interpret=self._entry.interpret,
        )

    def _explained(self, error: TabootError) -> TabootError:
        """An error that ends the run, with the remedy that a missing token is."""
        if error.code != "E_429_RATE" or self._has(None):
            return error
        message = "Without a token GitHub answers 60 requests an hour, with one 5,000: name one in `token`."
        return TabootError(error.code, f"{error.message} {message}")

    def _has(self, part: bool | None) -> bool:
        entry = self._entry
        return (entry.token is not None or entry.token_env is not None) if part is None else part


def _tried(round_: Round, key: str, read: Callable[[], T]) -> T:
    """What ``read`` gives, which is not tried again in a round where it has failed."""
    if (failure := round_.failure(key)) is not None:
        raise failure
    try:
        return read()
    except TabootError as error:
        if error.code not in FINAL:
            round_.fail(key, error)
        raise


def _api_path(held: Held) -> str:
    """The path of a repository's resources, by its present name: the former one redirects."""
    return f"repos/{quote(held.facts['full_name'], safe='/')}"


_CONTENT = re.compile(r"/repos/(?P<name>[^/]+/[^/]+)/contents/(?P<path>[^?]+)")
_COMMENT = re.compile(
    r"(?P<page>https?://[^/]+/(?P<name>[^/]+/[^/]+)/(?P<kind>issues|pull)/(?P<number>[0-9]{1,15}))#"
)
_PAGE = re.compile(r"https?://[^/]+/(?P<name>[^/]+/[^/]+)(?:/|\Z)")


class GithubReader:
    """Repositories, issues, pull requests, releases, discussions and contents of files, each one item, of
    searches too. Of a resource that a recording has several times the last counts: it is the newest. Comments
    belong to their issue, or make one whose own words are not recorded."""

    version = "2"

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        data = file.read()
        try:
            recorded = parse(data.decode("utf-8-sig")).plain()
        except (TabootError, UnicodeDecodeError):
            raise TabootError("E_MIME", f"{file.path} is no JSON.", path=file.path) from None
        found: dict[str, Part] = {}
        comments: dict[str, _Comments] = {}
        for path, answer in _answers(recorded):
            for each in _listed(answer):
                if (page := _commented(each)) is not None:
                    comments.setdefault(page["page"], _Comments(page)).add(each)
                    continue
                part = _part(path, each)
                if part is not None and part.name is not None:
                    found[part.name] = part
        for said in comments.values():
            part = said.thread(found.get(said.name))
            found[said.name] = part
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


def _listed(answer: Any) -> list[Any]:
    """The resources of an answer: itself, a list of them, or what a search found."""
    if isinstance(answer, dict) and "total_count" in answer and isinstance(answer.get("items"), list):
        return list(answer["items"])
    return answer if isinstance(answer, list) else [answer]


def _commented(each: Any) -> re.Match[str] | None:
    """The page of the issue or pull request that a comment is on; None for anything else."""
    if not isinstance(each, dict) or not isinstance(each.get("body"), str):
        return None
    if ("issue_url" not in each and "pull_request_url" not in each) or not isinstance(each.get("id"), int):
        return None
    return _COMMENT.match(str(each.get("html_url")))


class _Comments:
    """The comments on one issue or pull request, each once."""

    def __init__(self, page: re.Match[str]) -> None:
        self._page = page
        self._pull = page["kind"] == "pull"
        self.name = f"{page['name']}#{'pulls' if self._pull else 'issues'}/{page['number']}"
        self._said: dict[str, dict[int, Any]] = {}

    def add(self, comment: Mapping[str, Any]) -> None:
        what = "review_comments" if "pull_request_url" in comment else "comments"
        self._said.setdefault(what, {})[comment["id"]] = comment

    def thread(self, known: Part | None) -> Part:
        """The thread with these comments; ``known``: as it is recorded without them."""
        head: dict[str, Any] = {"number": int(self._page["number"]), "html_url": self._page["page"]}
        if self._pull:
            head["pull_request"] = {}
        thread: dict[str, Any] = {"issue": head} if known is None else json.loads(known.data)
        if "issue" not in thread:
            thread = {"issue": thread}
        for what, said in self._said.items():
            before = {comment["id"]: comment for comment in thread.get(what, ())}
            thread[what] = list((before | said).values())
        return _made("pull" if self._pull else "issue", self.name, thread, self._page["page"])


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


def connect(entry: GithubSource, access: Access) -> Connector:
    if entry.path is not None:
        return RecordedFiles(entry, access, GithubReader(), default_include=("*.json",))
    return GithubConnector(entry, access)
