"""Which domain a URL belongs to, and what is set for it: its pace, its headers, whether it is blocked.

A domain is what one owner holds: the registrable domain by the Public Suffix List (the copy that comes with
tldextract; nothing is asked of the network), or a host with its port where there is none, as for addresses
and names of a home network. A name in the settings is a domain of its own, and says more of what lies
beneath it than a shorter name does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import HttpSettings

if TYPE_CHECKING:
    from tldextract import TLDExtract

T = TypeVar("T")

CIRCUIT_FAILURES = 5
CIRCUIT_REST_SECONDS = 300.0
#: What a person blocks while a crawl runs is heeded after this time.
RELOAD_SECONDS = 5.0
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
#: Headers that the transport sets; others' values would break the request or take it elsewhere.
_OWN_HEADERS = frozenset(
    {
        *("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect"),
        *("accept-encoding", "proxy-authorization", "proxy-connection", "keep-alive"),
        *("if-none-match", "if-modified-since", "range"),
    }
)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,199})\}")


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ValueError("has a name that is no header's, or one that is set by the transport")
        if len(text) > 8192 or not all(c == "\t" or (" " <= c <= "\xff" and c != "\x7f") for c in text):
            raise ValueError("has a value that no header can hold")
    if len({name.lower() for name in value}) != len(value):
        raise ValueError("holds a header twice")
    return value


#: Request headers by name. ``${NAME}`` in a value stands for the environment variable of that name, so that
#: no secret is written into a file or the catalog; see :func:`filled_headers`.
Headers = Annotated[dict[str, str], AfterValidator(_headers)]


def filled_headers(headers: Mapping[str, str], secret: Callable[[str], str]) -> dict[str, str]:
    """The headers with ``${NAME}`` replaced by ``secret(NAME)``, which raises ``E_CONFIG`` if it is not
    set; ``E_CONFIG`` too for a secret that no header can hold."""
    filled = {}
    for name, text in headers.items():
        value = _VARIABLE.sub(lambda match: secret(match[1]), text)
        if any(c in value for c in "\r\n\0"):
            raise TabootError(
                "E_CONFIG",
                f"The header {name} would hold a line break.",
                remedy="Correct the environment variables that it names.",
            )
        filled[name] = value
    return filled


class DomainSettings(BaseModel):
    """What is set for one domain and all beneath it. What is left out is as for a shorter name in
    ``domains``, else as in the settings ``TABOOT_HTTP__…``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rate_limit_rps: float | None = Field(
        None, ge=0, le=1000, description="Requests a second, all runs together; 0: no limit."
    )
    rate_limit_burst: int | None = Field(
        None, ge=1, le=1000, description="Requests that it may get at once after a rest."
    )
    delay_seconds: float | None = Field(
        None, ge=0, le=3600, description="Least time from one request to the next, whatever the rate."
    )
    circuit_failures: int | None = Field(
        None, ge=1, le=1000, description="Failures in a row after which it is left alone (5)."
    )
    circuit_rest_seconds: float | None = Field(
        None, gt=0, le=86400, description="How long it is left alone then (300)."
    )
    blocked: bool | None = Field(None, description="Whether it is never asked.")
    headers: Headers = Field(
        default_factory=dict,
        description="Sent with every request to it. `${NAME}` is the environment variable of that name.",
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds for one domain. ``rate``: requests a second, 0 without limit; ``delay``: seconds from one
    request to the next, 0 for none."""

    rate: float
    burst: int
    delay: float
    circuit_failures: int
    circuit_rest_seconds: float
    blocked: bool
    headers: Mapping[str, str]


class Domains:
    """The settings of all domains. ``settings``: by name, as in the sources file. ``blocks``: what a person
    decided since, by name: blocked or, against the file, not; asked again every :data:`RELOAD_SECONDS`.
    Threads may share one."""

    def __init__(
        self,
        defaults: HttpSettings,
        settings: Mapping[str, DomainSettings] | None = None,
        blocks: Callable[[], Mapping[str, bool]] | None = None,
    ) -> None:
        self._defaults = defaults
        self._settings = dict(settings or {})
        self._ask_blocks = blocks
        self._blocks: Mapping[str, bool] = {}
        self._asked = float("-inf")
        self._limits: dict[str, Limits] = {}
        self._names: dict[tuple[str, int], str] = {}
        #: Changes whenever a limit may have changed.
        self.version = 0
        self.reload()

    def reload(self) -> None:
        """Ask for the blocks again if it is time."""
        if self._ask_blocks is None or time.monotonic() < self._asked + RELOAD_SECONDS:
            return
        self._asked = time.monotonic()
        blocks = dict(self._ask_blocks())
        if blocks != self._blocks:
            self._blocks = blocks
            self._limits, self._names = {}, {}
            self.version += 1

    def name_of(self, url: WebUrl) -> str:
        """The domain of ``url``: the longest name in the settings that its host is or lies beneath, else the
        registrable domain, else the host with its port."""
        place = (url.host, url.port)
        name = self._names.get(place)
        if name is None:
            if len(self._names) > 100_000:
                self._names = {}
            name = self._names[place] = self._name_of(url)
        return name

    def _name_of(self, url: WebUrl) -> str:
        for name in (url.authority, *_parents(url.host)):
            if name in self._settings or name in self._blocks:
                return name
        return registrable_domain(url.host) or url.authority

    def limits(self, domain: str) -> Limits:
        """What holds for ``domain``, a name of :meth:`name_of`."""
        found = self._limits.get(domain)
        if found is None:
            if len(self._limits) > 100_000:
                self._limits = {}
            found = self._limits[domain] = self._limits_of(domain)
        return found

    def _limits_of(self, domain: str) -> Limits:
        said: dict[str, object] = {}
        headers: dict[str, str] = {}
        blocked = False
        host = domain.rpartition(":")[0] if re.search(r":\d+$", domain) else domain
        for name in (*reversed([host, *_parents(host)]), domain):
            of_name = self._settings.get(name)
            if of_name is not None:
                said |= of_name.model_dump(exclude_none=True, exclude={"headers", "blocked"})
                headers |= of_name.headers
                blocked = blocked if of_name.blocked is None else of_name.blocked
            blocked = self._blocks.get(name, blocked)
        model = DomainSettings.model_validate(said)
        return Limits(
            rate=_or(model.rate_limit_rps, self._defaults.rate_limit_rps),
            burst=_or(model.rate_limit_burst, self._defaults.rate_limit_burst),
            delay=model.delay_seconds or 0.0,
            circuit_failures=_or(model.circuit_failures, CIRCUIT_FAILURES),
            circuit_rest_seconds=_or(model.circuit_rest_seconds, CIRCUIT_REST_SECONDS),
            blocked=blocked,
            headers=headers,
        )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _parents(host: str) -> list[str]:
    """The names that ``host`` lies beneath, itself first; of an address itself alone."""
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.split(".")
    return [".".join(labels[i:]) for i in range(len(labels))]


def domain_name(text: str) -> str:
    """A domain as a person writes it, in the form that URLs have: lower case, ASCII, a port only if it
    is not the usual one. Raises ``ValueError`` for what is no host."""
    bare = text.strip().removesuffix(".")
    if not bare or any(c in bare for c in "/?#@\\*") or len(bare) > 300:
        raise ValueError("is not the name of a domain such as example.org, or a host with its port")
    try:
        return parse_url(f"http://{bare}/").authority
    except TabootError:
        raise ValueError("is not the name of a domain such as example.org, or a host with its port") from None


@lru_cache(maxsize=10_000)
def registrable_domain(host: str) -> str:
    """The shortest name above ``host`` that one owner can have, by the Public Suffix List with its private
    part; empty for an address, a public suffix, and a name beneath no public suffix."""
    if host.startswith("["):
        return ""
    return _suffixes()(host).top_domain_under_public_suffix


@cache
def _suffixes() -> TLDExtract:
    # Loading takes a tenth of a second, and only who asks hosts of the Internet needs it.
    import tldextract

    return tldextract.TLDExtract(
        cache_dir=None, suffix_list_urls=(), fallback_to_snapshot=True, include_psl_private_domains=True
    )
