"""Which headers go to which URL: credentials stay where they belong, whatever links or redirects there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from taboot_pipelines.crawl.domains import Domains, filled_headers
from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.settings import HttpSettings

_ACCEPT = (
    "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, application/xml;q=0.8, */*;q=0.5"
)


def own_headers(settings: HttpSettings) -> dict[str, str]:
    """What every request says of us."""
    return {"User-Agent": settings.user_agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip, deflate"}


class SentHeaders:
    """What a source and a domain add to requests, on top of ``ours``, with secrets filled in.

    ``source``: the source's own headers, sent to ``origins`` (scheme, host and port) alone. Those of a domain
    go to all of that domain. ``secret(NAME)`` gives what ``${NAME}`` stands for.
    """

    def __init__(
        self,
        ours: Mapping[str, str],
        *,
        source: Mapping[str, str] | None = None,
        origins: Collection[str] = (),
        domains: Domains | None = None,
        secret: Callable[[str], str],
    ) -> None:
        self._ours = ours
        self._source = filled_headers(source or {}, secret)
        self._origins = frozenset(origins)
        self._domains = domains
        self._secret = secret
        self._sent: dict[tuple[str | None, bool], tuple[tuple[str, str], ...]] = {}

    def to(self, url: WebUrl) -> tuple[tuple[str, str], ...]:
        """The headers of a request for ``url``. Raises ``E_CONFIG`` for a secret that is not set."""
        domain = self._domains.name_of(url) if self._domains is not None else None
        key = (domain, url.origin in self._origins)
        sent = self._sent.get(key)
        if sent is None:
            named = {name.lower(): (name, value) for name, value in self._ours.items()}
            if self._domains is not None and domain is not None:
                for name, value in filled_headers(self._domains.limits(domain).headers, self._secret).items():
                    named[name.lower()] = (name, value)
            if key[1]:
                named |= {name.lower(): (name, value) for name, value in self._source.items()}
            if len(self._sent) > 1000:
                self._sent = {}
            sent = self._sent[key] = tuple(named.values())
        return sent
