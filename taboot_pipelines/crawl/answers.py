"""What a page's fetching comes to: its answer, or the refusal that a status means."""

from __future__ import annotations

from dataclasses import dataclass

from taboot_pipelines.errors import TabootError

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WAF_SERVERS = ("cloudflare", "akamaighost", "sucuri", "imperva", "ddos-guard", "datadome")
_WAF_HEADERS = ("cf-mitigated", "x-sucuri-id", "x-datadome", "x-iinfo", "x-amzn-waf-action")


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx (with its body) or a 304. ``url`` is the one that answered; header names are in lower case.
    ``seconds``: how long its last hop took, ``address``: who gave it."""

    status: int
    url: str
    headers: dict[str, str]
    body: bytes
    seconds: float
    address: str


def refusal(status: int, headers: dict[str, str], url: str) -> TabootError:
    """The error that an answer of ``status`` other than 2xx and 304 is."""

    def error(code: str, what: str) -> TabootError:
        return TabootError(code, f"{url} {what} (status {status}).", url=url, status=status)

    if status in (404, 410):
        return error("E_NOT_FOUND", "does not exist")
    if status == 403 and (
        any(h in headers for h in _WAF_HEADERS) or headers.get("server", "").lower().startswith(_WAF_SERVERS)
    ):
        return error("E_403_WAF", "is behind a filter that refuses programs")
    if status == 429:
        return error("E_429_RATE", "asks for fewer requests")
    if status >= 500:
        return error("E_5XX_ORIGIN", "could not be served")
    if status == 408:
        return error("E_TIMEOUT", "took the server too long")
    if status in (401, 402, 403, 405, 407, 451):
        return error("E_FORBIDDEN", "may not be read")
    if status >= 400:
        return error("E_URL_BAD", "is refused by the server as a bad request")
    return error("E_NETWORK", "gave an answer that was not asked for")
