"""Repositories of GitHub, or of a GitHub Enterprise server (type ``github``).

What is read of a repository, and the paths of its items:

* what it says of itself: ``OWNER/NAME#repository``;
* files of its default branch that the globs take, and what Compose projects among them name:
  ``OWNER/NAME/PATH``, as the files of one root;
* issues and pull requests with all that was said of them, ``OWNER/NAME#issues/12`` and
  ``OWNER/NAME#pulls/13``; releases, ``#releases/TAG``; discussions, ``#discussions/4``; pages of the wiki,
  ``#wiki/PAGE.md``. No name of a repository holds a ``#``, so no file is called so.

``OWNER/NAME`` is what the entry calls a repository: one that was renamed keeps its paths until the entry
names it anew. Of ``organisations`` and ``users`` it is the present name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from taboot_pipelines.connectors import github_resources as resources
from taboot_pipelines.connectors.access import Access, MemoryState
from taboot_pipelines.connectors.api import ApiClient, canonical
from taboot_pipelines.connectors.credentials import secret_of
from taboot_pipelines.connectors.github_discussions import Discussions
from taboot_pipelines.connectors.github_entry import GithubSource
from taboot_pipelines.connectors.github_files import Files
from taboot_pipelines.connectors.github_lists import Held, Lists
from taboot_pipelines.connectors.github_recorded import GithubReader
from taboot_pipelines.connectors.github_rounds import BOUNDS, FINAL, Round
from taboot_pipelines.connectors.github_service import client_of, count, graphql_of, web_of
from taboot_pipelines.connectors.github_threads import Threads
from taboot_pipelines.connectors.github_wiki import Wiki
from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.connectors.protocol import Connector
from taboot_pipelines.connectors.recorded import RecordedFiles
from taboot_pipelines.errors import TabootError
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
                    lambda listing=listing, held=held: lists.resource(listing, held.id, lambda _: None),  # type: ignore[misc]
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


def connect(entry: GithubSource, access: Access) -> Connector:
    if entry.path is not None:
        return RecordedFiles(entry, access, GithubReader(), default_include=("*.json",))
    return GithubConnector(entry, access)
