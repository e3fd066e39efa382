"""What an entry of type ``github`` holds.

The service that an entry of type ``github`` names: its addresses, and what its refusals mean.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from taboot_pipelines.connectors.access import Access, SecretReference, VariableName, header_value, secret_of
from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.entries import (
    BoundedSource,
    GlobList,
    HostName,
    ProxyName,
    RecordedSource,
)
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer

API = "https://api.github.com"
_OWNER = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
_NAME = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]{1,100}"
#: How people name github.com: as its pages do, and as git does.
_SITE = r"(?:(?:https?|ssh|git)://(?:git@)?(?:www\.)?github\.com/|git@github\.com:|(?:www\.)?github\.com/)"
_REPOSITORY = re.compile(rf"(?:(?P<site>{_SITE})|/)?(?P<name>{_OWNER}/{_NAME})/?")
#: A page within a repository.
_PAGE = re.compile(rf"{_SITE}(?P<name>{_OWNER}/{_NAME})/.*")
_ACCOUNT = re.compile(rf"(?:{_SITE}(?:orgs/|users/)?|@)?(?P<name>{_OWNER})/?")


def repository_of(text: str) -> str:
    """``OWNER/NAME`` from it or from a URL of github.com. Raises ``ValueError`` for anything else."""
    match = _REPOSITORY.fullmatch(text.strip()) or _PAGE.fullmatch(text.strip().partition("?")[0])
    if match is None:
        raise ValueError("is no repository; name it `OWNER/NAME`")
    return match["name"].removesuffix(".git")


def _account_of(text: str) -> str:
    match = _ACCOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError("is no name of an account; single repositories stand in `repositories`")
    return match["name"]


RepositoryName = Annotated[str, StringConstraints(max_length=300), AfterValidator(repository_of)]
AccountName = Annotated[str, StringConstraints(max_length=300), AfterValidator(_account_of)]


class GithubSource(RecordedSource, BoundedSource):
    """Repositories of GitHub, or of a GitHub Enterprise server; or recorded answers of its API."""

    type: Literal["github"]
    repositories: list[RepositoryName] = Field(
        default_factory=list, description="Repositories: `OWNER/NAME`, or the URL of one at github.com."
    )
    organisations: list[AccountName] = Field(
        default_factory=list, description="Organisations, of which every repository is read."
    )
    users: list[AccountName] = Field(
        default_factory=list, description="Users, of whom every public repository of their own is read."
    )
    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#@]+$")] = Field(
        API, description="The API; of GitHub Enterprise `https://HOST/api/v3`."
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
        if re.fullmatch(r"https?://(?:www\.)?github\.com/?", self.base_url):
            raise ValueError(
                f"has the `base_url` of GitHub's pages; that of its API is {API}, and need not be named"
            )
        asked = bool(self.repositories or self.organisations or self.users)
        if asked == (self.path is not None):
            raise ValueError("names either `repositories`, `organisations` or `users`, or a `path`")
        if self.token is not None and self.token_env is not None:
            raise ValueError("has both `token` and `token_env`")
        if self.discussions and self.token is None and self.token_env is None and self.path is None:
            raise ValueError("has `discussions`, which need a `token`")
        return self


_HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
_SECONDARY = re.compile(
    rb"secondary rate limit|secondary-rate-limits|abuse detection|abuse-rate-limits", re.I
)
#: The permissions that would do, as GitHub names them: `issues=read; pull_requests=read`.
_PERMISSIONS = re.compile(r"[a-z_]+=[a-z]+(?:[;,] ?[a-z_]+=[a-z]+){0,9}")
#: What GitHub asks for where an answer does not say how long (its page on secondary rate limits).
_SECONDARY_SECONDS = 60.0
#: A blob of 100 MB, GitHub's largest, is a third longer in base64.
_MAX_ANSWER_BYTES = 160 * 1024 * 1024


def client_of(entry: GithubSource, access: Access) -> ApiClient:
    """The client of the API. Raises ``E_CONFIG`` for a token that is not set."""
    secret = secret_of(access, entry.token, entry.token_env)
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
    """How long a secondary rate limit lasts that only the body tells of. Raises ``E_FORBIDDEN`` where the
    headers tell what the token lacks."""
    if answer.status in (403, 429) and _SECONDARY.search(answer.body[:4096]):
        return _SECONDARY_SECONDS
    if answer.status != 403 or answer.headers.get("x-ratelimit-remaining") == "0":
        return None
    where = f"GitHub does not let this token read {urlsplit(answer.url).path}"
    if answer.headers.get("x-github-sso", "").startswith("required"):
        raise TabootError(
            "E_FORBIDDEN",
            f"{where}: the organisation wants it authorised for its single sign-on (`Configure SSO` in the"
            " list of your tokens).",
        )
    wanted = answer.headers.get("x-accepted-github-permissions", "")
    if _PERMISSIONS.fullmatch(wanted):
        raise TabootError("E_FORBIDDEN", f"{where}; it needs the permission {wanted}.")
    return None


def count(client: ApiClient, path: str, since: str | None) -> int:
    """How many things a list has, by one request: the number of its last page, of one thing each."""
    asked: dict[str, str | int] = {"per_page": 1, "state": "all", **({"since": since} if since else {})}
    answer = client.get(path, asked)
    if answer.gone:
        return 0
    last = re.search(r"[?&]page=([0-9]{1,9})", answer.link("last") or "")
    listed = answer.json()
    return int(last[1]) if last is not None else len(listed) if isinstance(listed, list) else 0


def graphql_of(base_url: str) -> str:
    base = base_url.rstrip("/")
    return f"{base.removesuffix('/v3')}/graphql" if base.endswith("/api/v3") else f"{base}/graphql"


def web_of(base_url: str) -> str:
    """Where people open what the API serves; never taken from an answer, since git is sent there."""
    base = base_url.rstrip("/")
    if base == API:
        return "https://github.com"
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc}"
