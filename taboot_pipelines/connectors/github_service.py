"""The service that an entry of type ``github`` names: its addresses, and what its refusals mean."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import Answer, ApiClient, Limits
from taboot_pipelines.connectors.credentials import header_value, secret_of
from taboot_pipelines.connectors.github_entry import API, GithubSource
from taboot_pipelines.errors import TabootError

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
