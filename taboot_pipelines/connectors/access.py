"""What a connector may use of the world around it, in one object that the caller fills.

A connector opens nothing else: it reads no settings, no environment and no clock of its own, so that a test
can stand in for each of them, and a new kind of source finds its seat here.

The secrets of an entry: it names the environment variable that holds one, and never the secret itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, SecretStr

from taboot_pipelines.crawl.addresses import Network, Resolver, resolve
from taboot_pipelines.crawl.client import Admit, Client
from taboot_pipelines.crawl.curl import CurlClient
from taboot_pipelines.crawl.fetching import Clock, Fetching, SentHeaders, own_headers, utc_now
from taboot_pipelines.crawl.following import StoredPage
from taboot_pipelines.crawl.frontier import Frontier
from taboot_pipelines.crawl.politeness import Politeness
from taboot_pipelines.crawl.proxies import Proxies
from taboot_pipelines.crawl.robots import RobotsCache
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import CrawlPlan
from taboot_pipelines.model.records import Attached, FileView, Role, UploadedItem
from taboot_pipelines.settings import BrowserSettings, Crawl4AiSettings, HttpSettings, Settings

#: ``references(text, path, env, listing)``: the files that the Compose text at ``path`` names, as (path
#: relative to the source's root, role). ``env``: the variables of the ``.env`` beside it; ``listing``: what
#: files there are.
References = Callable[[str, str, Mapping[str, str], FileView], set[tuple[str, Role]]]

#: ``project_files(files, paths, load)``: what the Compose projects whose main file is among ``files`` read of
#: ``paths``, as (path, role); ``load`` gives a file's text, None where it cannot be read.
ProjectFiles = Callable[
    [Collection[str], Collection[str], Callable[[str], str | None]], set[tuple[str, Role]]
]

#: ``attachments(data, mime)``: the texts that are attached to a mail.
Attachments = Callable[[bytes, str], Sequence[Attached]]

#: ``secrets(name)``: the secret that an entry calls by the name of an environment variable. Raises
#: ``E_CONFIG`` with that name where it is not set. The entry holds the name only, never the secret.
Secrets = Callable[[str], SecretStr]


def environment_secret(name: str) -> SecretStr:
    """Read a secret from the environment variable ``name``. Raises ``E_CONFIG`` if it is unset or empty."""
    value = os.environ.get(name)
    if not value:
        raise TabootError("E_CONFIG", f"The environment variable {name} is not set.", settings=[name])
    return SecretStr(value)


class SourceState(Protocol):
    """What a connector keeps of its source from one run to the next, such as an API's cursor: values of JSON
    by key. Nothing of it is content, and without it a run enumerates the source as for the first time: so it
    does when the entry changed, when a stored blob is damaged, after an erasure, and while deletions are
    held. (A crawl keeps more: see ``crawl.frontier``.)
    """

    def load(self, key: str) -> Any:
        """What was saved last under ``key``; None where nothing was."""

    def save(self, key: str, value: Any) -> None:
        """Keep ``value``, or forget the key if it is None. It is written once all that was yielded before is
        stored, so that a killed run loses nothing."""


class MemoryState:
    """A :class:`SourceState` that ends with the process."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def load(self, key: str) -> Any:
        return self._values.get(key)

    def save(self, key: str, value: Any) -> None:
        self._values[key] = value


#: ``frontier(plan)``: the URLs of the source's crawl that has not ended, else of a new one.
OpenFrontier = Callable[[CrawlPlan], Frontier]

#: ``stored_page(key)``: what is stored of a page of the source; None where nothing is.
ReadStoredPage = Callable[[str], StoredPage | None]

#: ``proxies(name, secrets)``: the list of proxies of that name. Raises ``E_SOURCES`` if there is none.
ProxyLists = Callable[[str, Secrets], Proxies]


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """How the web is reached. Without ``politeness`` hosts are asked as fast as they answer, without
    ``robots`` for every page. ``proxies``: opens a list of the sources file. ``browser`` and
    ``crawl4ai``: what renders pages."""

    settings: HttpSettings
    politeness: Politeness | None = None
    robots: RobotsCache | None = None
    resolver: Resolver = resolve
    proxies: ProxyLists | None = None
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    crawl4ai: Crawl4AiSettings = field(default_factory=Crawl4AiSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRules:
    """What a source says of how its pages are fetched.

    ``allowed``: of the addresses that are not public only those in these networks are reached. ``admit``:
    whether an answer's body is read. ``proxies``: the list of proxies to go by. ``headers`` are sent to
    ``origins`` (scheme, host and port) alone. ``timeout_seconds``: for one request with its answer.
    ``max_bytes``: a larger page is not read, nor one that the settings forbid. ``robots``: robots.txt is
    heeded. ``prefer_markdown``: pages are asked for as Markdown first.
    """

    allowed: Sequence[Network] = ()
    admit: Admit | None = None
    proxies: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    origins: Collection[str] = ()
    timeout_seconds: float | None = None
    max_bytes: int | None = None
    robots: bool = True
    prefer_markdown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one connector may use.

    ``root``: the directory of the sources file, which an entry's paths are relative to. ``home``: the home
    directory, which is never entered. ``max_blob_bytes``: a larger item is not read. ``references``: reads
    which files a Compose text names; None: only what names and contents show. ``project_files``: the same of
    whole projects. ``clock``: the time of day in
    UTC; time-outs and waits run on the monotonic clock. ``frontier``: see :data:`OpenFrontier`; None: a crawl
    is kept in memory, and begins anew with each process. ``stored_page``: see :data:`ReadStoredPage`.
    ``attachments``: see :data:`Attachments`; None are known by default. ``secrets`` and ``state``: see
    :data:`Secrets` and :class:`SourceState`. ``config_globs``: of configuration files that an entry with
    ``interpret: true`` takes besides its type's own globs, where it names none; compared with paths in lower
    case. ``uploaded``: what was uploaded to the namespace.
    """

    root: Path
    home: Path
    max_blob_bytes: int
    http: HttpAccess
    references: References | None = None
    project_files: ProjectFiles | None = None
    attachments: Attachments = lambda _, __: ()
    clock: Clock = utc_now
    frontier: OpenFrontier | None = None
    stored_page: ReadStoredPage = lambda _: None
    secrets: Secrets = environment_secret
    state: SourceState = field(default_factory=MemoryState)
    config_globs: Sequence[str] = ()
    uploaded: Callable[[], Sequence[UploadedItem]] = tuple

    @classmethod
    def of(
        cls,
        settings: Settings,
        root: Path,
        *,
        references: References | None = None,
        project_files: ProjectFiles | None = None,
        attachments: Attachments = lambda _, __: (),
        politeness: Politeness | None = None,
        robots: RobotsCache | None = None,
        frontier: OpenFrontier | None = None,
        stored_page: ReadStoredPage = lambda _: None,
        proxies: ProxyLists | None = None,
        state: SourceState | None = None,
        uploaded: Callable[[], Sequence[UploadedItem]] = tuple,
    ) -> Access:
        """What ``settings`` allow for an entry of the sources file in ``root``."""
        return cls(
            root=root,
            home=settings.home_dir,
            max_blob_bytes=settings.limits.max_blob_bytes,
            http=HttpAccess(
                settings.http,
                politeness,
                robots,
                proxies=proxies,
                browser=settings.browser,
                crawl4ai=settings.crawl4ai,
            ),
            references=references,
            project_files=project_files,
            attachments=attachments,
            frontier=frontier,
            stored_page=stored_page,
            state=state or MemoryState(),
            uploaded=uploaded,
        )

    def renderer(self, allowed: Sequence[Network], *, captures: bool) -> Client:
        """What renders pages: the service where its URL is set, else Chromium, which alone can capture.
        Raises ``E_CONFIG`` where that is not installed."""
        from taboot_pipelines.crawl.browser import Browser
        from taboot_pipelines.crawl.crawl4ai import Crawl4Ai

        http = self.http
        if http.crawl4ai.url is not None and not captures:
            return Crawl4Ai(http.crawl4ai, allowed, resolver=http.resolver)
        return Browser(http.browser, allowed, resolver=http.resolver)

    def fetcher(self, rules: FetchRules, pages: Client | None = None) -> Fetching:
        """Pages over HTTP(S) by ``rules``. ``pages`` fetches the pages themselves, such as a
        :meth:`renderer`.
        """
        http, settings = self.http, self.http.settings
        if rules.timeout_seconds is not None:
            settings = settings.model_copy(update={"total_timeout_seconds": rules.timeout_seconds})
        headers = SentHeaders(
            own_headers(settings, prefer_markdown=rules.prefer_markdown),
            source=rules.headers,
            origins=rules.origins,
            domains=http.politeness.domains if http.politeness is not None else None,
            secret=lambda name: self.secrets(name).get_secret_value(),
        )
        return Fetching(
            CurlClient(rules.allowed, connections=settings.max_concurrency, resolver=http.resolver),
            settings,
            max_bytes=min(self.max_blob_bytes, rules.max_bytes or self.max_blob_bytes),
            admit=rules.admit,
            politeness=http.politeness,
            robots=http.robots if rules.robots else None,
            proxies=http.proxies(rules.proxies, self.secrets) if rules.proxies and http.proxies else None,
            headers=headers,
            pages=pages,
            clock=self.clock,
        )


_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,199})\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def _reference(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        raise ValueError("is not of the form `${NAME}`; set that environment variable to the secret")
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError("is not the name of an environment variable")
    return value


#: ``${NAME}``: the secret in the environment variable NAME.
SecretReference = Annotated[str, AfterValidator(_reference)]
#: The name of an environment variable that holds a secret.
VariableName = Annotated[str, AfterValidator(_variable)]


def secret_of(access: Access, reference: str | None, variable: str | None) -> SecretStr | None:
    """The secret that a pair of fields such as ``token`` and ``token_env`` names; None where neither is set.

    Raises ``E_CONFIG`` with the variable's name where that is not set.
    """
    match = _REFERENCE.fullmatch(reference) if reference is not None else None
    name = match[1] if match is not None else variable
    return None if name is None else access.secrets(name)


def header_value(secret: SecretStr, what: str) -> str:
    """The secret as an HTTP header carries it. Raises ``E_CONFIG`` where it cannot (a line break, say)."""
    value = secret.get_secret_value().strip()
    if not re.fullmatch(r"[\x20-\x7e]+", value):
        raise TabootError("E_CONFIG", f"The {what} holds characters that an HTTP header cannot carry.")
    return value
