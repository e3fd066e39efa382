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

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit

from pydantic import Field, StringConstraints, model_validator

from taboot_pipelines.connectors import github_resources as resources
from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import Answer, ApiClient, Limits, canonical
from taboot_pipelines.connectors.credentials import SecretReference, VariableName, header_value, secret_of
from taboot_pipelines.connectors.entries import (
    BoundedSource,
    GlobList,
    HostName,
    ProxyName,
    RecordedSource,
)
from taboot_pipelines.connectors.github_discussions import Discussions
from taboot_pipelines.connectors.github_files import Files
from taboot_pipelines.connectors.github_lists import Held, Lists
from taboot_pipelines.connectors.github_recorded import GithubReader
from taboot_pipelines.connectors.github_threads import FINAL, Threads
from taboot_pipelines.connectors.github_wiki import Wiki
from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.connectors.protocol import Connector, SourceKind
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
    Unchanged,
)

_API = "https://api.github.com"
_HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
_SECONDARY = re.compile(
    rb"secondary rate limit|secondary-rate-limits|abuse detection|abuse-rate-limits", re.I
)
#: What GitHub asks for where an answer does not say how long (its page on secondary rate limits).
_SECONDARY_SECONDS = 60.0
#: A blob of 100 MB, GitHub's largest, is a third longer in base64.
_MAX_ANSWER_BYTES = 160 * 1024 * 1024

RepositoryName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-_]{0,99}/[A-Za-z0-9._-]{1,100}$")
]
AccountName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-_]{0,99}$")]


class GithubSource(RecordedSource, BoundedSource):
    """Repositories of GitHub, or of a GitHub Enterprise server; or recorded answers of its API."""

    type: Literal["github"]
    repositories: list[RepositoryName] = Field(
        default_factory=list, description="Repositories: `OWNER/NAME`."
    )
    organisations: list[AccountName] = Field(
        default_factory=list, description="Organisations, of which every repository is read."
    )
    users: list[AccountName] = Field(
        default_factory=list, description="Users, of whom every public repository of their own is read."
    )
    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#@]+$")] = Field(
        _API, description="The API; of GitHub Enterprise `https://HOST/api/v3`."
    )
    token: SecretReference | None = Field(
        None,
        description="The token, as `${NAME}` of an environment variable; without it 60 requests an hour.",
    )
    token_env: VariableName | None = Field(
        None, description="The environment variable with the token, instead of `token`."
    )
    include: GlobList = Field(
        default_factory=list,
        description="Globs of files in a repository; default: Markdown, Compose and Docker files, `*.conf`.",
    )
    files: bool = Field(True, description="Files of the default branch are read.")
    issues: bool | None = Field(
        None, description="Issues with their comments are read; by default if there is a token."
    )
    pulls: bool | None = Field(
        None,
        description="Pull requests with comments and reviews are read, a request each; default as `issues`.",
    )
    releases: bool = Field(True, description="Published releases are read.")
    discussions: bool = Field(
        False, description="Discussions are read. They need a token, and are asked for whole in every run."
    )
    wiki: bool = Field(False, description="Pages of the wiki are read, by the program `git`.")
    forks: bool = Field(False, description="Forks of organisations and users are read too.")
    archived: bool = Field(True, description="Archived repositories of organisations and users are read too.")
    interpret: bool = Field(
        False,
        description=(
            "Besides Compose and nginx files, configuration files of the other known formats are interpreted."
        ),
    )
    host: HostName | None = Field(None, description="The machine on which the Compose projects run.")
    proxy: ProxyName | None = Field(
        None,
        description="Name of the reverse proxy that confs and labels speak to; default the repository's.",
    )

    @model_validator(mode="after")
    def _one_origin(self) -> GithubSource:
        asked = bool(self.repositories or self.organisations or self.users)
        if asked == (self.path is not None):
            raise ValueError("names either `repositories`, `organisations` or `users`, or a `path`")
        if self.token is not None and self.token_env is not None:
            raise ValueError("has both `token` and `token_env`")
        if self.discussions and self.token is None and self.token_env is None and self.path is None:
            raise ValueError("has `discussions`, which need a `token`")
        return self


@dataclass(frozen=True, slots=True)
class _Repository:
    """A repository to be read. ``name``: what paths begin with; ``listing``: the state's key of what told of
    it; ``resource``: its resource, asked for where it is not what it was."""

    name: str
    held: Held
    resource: Callable[[], object | None]


class _Counting:
    """Counts items, and ends a run that has had enough."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.items = 0

    def of(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            size = len(event.roles) if isinstance(event, Unchanged) else not isinstance(event, Checkpoint)
            if self._most is not None and self.items + size > self._most:
                if isinstance(event, Unchanged):
                    left = sorted(event.roles)[: self._most - self.items]
                    yield Unchanged({path: event.roles[path] for path in left})
                raise _EnoughError
            self.items += size
            yield event


class _EnoughError(Exception):
    """The run has had ``max_items`` items."""


class GithubConnector:
    """Reads what ``entry`` names by the API."""

    def __init__(self, entry: GithubSource, access: Access) -> None:
        self._entry = entry
        self._access = access
        self._since = f"{entry.since.isoformat()}T00:00:00Z" if entry.since is not None else None

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_CONFIG`` for a token that is not set, and what the service says where nothing was read
        of it at all."""
        reasons: list[str] = []
        counting = _Counting(self._entry.max_items)
        with self._client() as client:
            lists = Lists(client, self._access.state)
            try:
                for repository in self._repositories(lists, reasons):
                    if not isinstance(repository, _Repository):
                        yield from counting.of(iter([repository]))
                        continue
                    events = self._of(client, lists, repository, known, tombstoned, reasons)
                    yield from counting.of(events)
            except TabootError as error:
                if not counting.items and error.code != "E_REQUESTS":
                    raise
                reasons.append(error.message)
            except _EnoughError:
                reasons.append(f"`max_items` of {self._entry.max_items} is reached")
            finally:
                lists.spool.close()
        yield Enumerated(not reasons, "; ".join(reasons[:3]))

    def plan(self) -> Iterator[Planned]:
        """What a first run would ask for, part by part."""
        entry = self._entry
        with self._client() as client:
            lists = Lists(client, self._access.state)
            reasons: list[str] = []
            for repository in self._repositories(lists, reasons):
                if not isinstance(repository, _Repository):
                    told = repository.error if isinstance(repository, Failed) else repository
                    yield Planned(repository.path, note=told.message)
                    continue
                name, api = repository.name, _api_path(repository.held)
                if entry.files:
                    count, size = self._files(client, repository).plan()
                    yield Planned(f"files of {name}", requests=1 + count, items=count, bytes=size)
                if self._has(entry.issues) or self._has(entry.pulls):
                    heads = _count(client, f"{api}/issues", self._since)
                    said = _count(client, f"{api}/issues/comments", None)
                    pages = -(-heads // 100) + -(-said // 100)
                    note = "and one request for each pull request" if self._has(entry.pulls) else ""
                    what = f"issues and pull requests of {name}"
                    yield Planned(what, requests=pages, items=heads, note=note)
                if entry.releases:
                    count = _count(client, f"{api}/releases", None)
                    yield Planned(f"releases of {name}", requests=-(-count // 100) or 1, items=count)
                if entry.discussions:
                    yield Planned(f"discussions of {name}")
                if entry.wiki:
                    yield Planned(f"wiki of {name}", requests=0, note="copied by git")

    # --- which repositories ---------------------------------------------------------------------------------

    def _repositories(self, lists: Lists, reasons: list[str]) -> Iterator[_Repository | Failed | Gone]:
        """The repositories of the entry, each once; in their place what cannot be read."""
        seen: set[str] = set()
        for name in dict.fromkeys(self._entry.repositories):
            try:
                found = self._named(lists, name)
            except TabootError as error:
                if error.code in FINAL:
                    raise
                reasons.append(error.message)
                yield Failed(f"{name}#repository", error)
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
                listing = lists.read(account, f"{account}/repos", asked, resources.repository)
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
            lists.save(listing)

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
        repository: _Repository,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        reasons: list[str],
    ) -> Iterator[Event]:
        """The events of one repository; why it may not be whole is added to ``reasons``."""
        entry, name, facts = self._entry, repository.name, repository.held.facts
        threads = Threads(
            lists, self._access, name, _api_path(repository.held), known, tombstoned, self._since
        )
        parts: list[tuple[str, Callable[[], Iterator[Event]]]] = [
            ("repository", lambda: self._about(repository, known, tombstoned))
        ]
        if entry.files:
            parts.append(("files", lambda: self._files(client, repository).events(known, tombstoned)))
        if entry.releases:
            parts.append(("releases", threads.releases))
        issues, pulls = self._has(entry.issues), self._has(entry.pulls)
        if issues or pulls:
            parts.append(("issues", lambda: threads.issues(issues=issues, pulls=pulls)))
        if entry.discussions and facts["discussions"]:
            full_name, url = facts["full_name"], _graphql(entry.base_url)
            discussions = Discussions(client, self._access, url, name, full_name, self._since)
            parts.append(("discussions", lambda: discussions.events(known, tombstoned)))
        if entry.wiki and facts["wiki"]:
            web = f"{_web(entry.base_url)}/{facts['full_name']}"
            token = secret_of(self._access, entry.token, entry.token_env)
            wiki = Wiki(self._access, token, web=web, prefix=name)
            parts.append(("wiki", lambda: wiki.events(known, tombstoned)))
        for part, events in parts:
            try:
                yield from events()
            except TabootError as error:
                if error.code in FINAL:
                    raise
                reasons.append(error.message)
                yield Failed(f"{name}#{part}" if part != "files" else f"{name}/", error)
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

    def _files(self, client: ApiClient, repository: _Repository) -> Files:
        facts = repository.held.facts
        return Files(
            client,
            self._access,
            self._entry.include,
            self._entry.exclude,
            prefix=repository.name,
            api=_api_path(repository.held),
            branch=facts["branch"],
            web=facts["html_url"],
            interpret=self._entry.interpret,
        )

    def _has(self, part: bool | None) -> bool:
        entry = self._entry
        return (entry.token is not None or entry.token_env is not None) if part is None else part

    def _client(self) -> ApiClient:
        """Raises ``E_CONFIG`` for a token that is not set."""
        entry = self._entry
        secret = secret_of(self._access, entry.token, entry.token_env)
        value = None if secret is None else header_value(secret, "token of GitHub")
        return ApiClient(
            "GitHub",
            entry.base_url,
            headers=_HEADERS,
            authorize=None if value is None else lambda _: {"authorization": f"Bearer {value}"},
            limits=Limits(
                max_requests=entry.max_requests,
                max_wait_seconds=entry.max_wait_seconds,
                max_answer_bytes=_MAX_ANSWER_BYTES,
            ),
            refused=_refused,
        )


def _refused(answer: Answer) -> float | None:
    """A secondary rate limit that only the body tells of."""
    return _SECONDARY_SECONDS if _SECONDARY.search(answer.body[:4096]) else None


def _api_path(held: Held) -> str:
    """The path of a repository's resources, by its present name: the former one redirects."""
    return f"repos/{quote(held.facts['full_name'], safe='/')}"


def _count(client: ApiClient, path: str, since: str | None) -> int:
    """How many things a list has, by one request: the number of its last page, of one thing each."""
    asked: dict[str, str | int] = {"per_page": 1, "state": "all", **({"since": since} if since else {})}
    answer = client.get(path, asked)
    if answer.gone:
        return 0
    last = re.search(r"[?&]page=([0-9]{1,9})", answer.link("last") or "")
    listed = answer.json()
    return int(last[1]) if last is not None else len(listed) if isinstance(listed, list) else 0


def _graphql(base_url: str) -> str:
    base = base_url.rstrip("/")
    return f"{base.removesuffix('/v3')}/graphql" if base.endswith("/api/v3") else f"{base}/graphql"


def _web(base_url: str) -> str:
    """Where people open what the API serves; never taken from an answer, since git is sent there."""
    base = base_url.rstrip("/")
    if base == _API:
        return "https://github.com"
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc}"


def _connect(entry: GithubSource, access: Access) -> Connector:
    if entry.path is not None:
        return RecordedFiles(entry, access, GithubReader(), default_include=("*.json",))
    return GithubConnector(entry, access)


SOURCE = SourceKind(GithubSource, _connect)
