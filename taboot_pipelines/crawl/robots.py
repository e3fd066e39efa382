"""What a site's robots.txt allows (RFC 9309): which group is ours, which pages it opens, and how often.

Protego matches paths and reads the values of directives. What stands around that is here: what an answer
without a file means, bytes to lines, and which groups of lines are ours, where Protego is more generous with
names of crawlers than the RFC. Where Google's parser (github.com/google/robotstxt) is exact and the RFC is
silent, it is followed: the start of a byte order mark, a missing colon, common misspellings, lines that are
cut, ``index.html``. Where the two differ, in escapes of plain letters, the stricter of them holds.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from protego import Protego

from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.stores.state import Lenient
from taboot_pipelines.stores.state.keys import DAY, ROBOTS

#: What is read of a file (RFC 9309 §2.5 asks for this much at least); the rest is not there.
MAX_ROBOTS_BYTES = 500 * 1024
#: Bytes of one line that count, as in Google's parser: eight times the length of a URL in a browser.
MAX_LINE_BYTES = 2083 * 8
#: A site that asks for a longer pause between pages gets this one.
MAX_CRAWL_DELAY_SECONDS = 3600.0
#: How long an answer holds (RFC 9309 §2.4: at most a day), and how long it is not asked again after none.
CACHE_SECONDS, UNREACHABLE_SECONDS = DAY, 600.0
_REMEMBERED = 256

_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"\r\n|\n|\r")
_HIGH = re.compile(rb"[\x00-\x20\x7f-\xff]")
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
_COMPATIBLE = re.compile(r"(?i)compatible\s*;\s*([A-Za-z0-9_-]+)")
#: Beginnings of a line's key, in lower case, and the directive that it is.
_KEYS = (
    (("user-agent", "useragent", "user agent"), "user-agent"),
    (("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), "disallow"),
    (("allow",), "allow"),
    (("sitemap", "site-map"), "sitemap"),
    (("crawl-delay", "crawl delay", "crawldelay"), "crawl-delay"),
    (("request-rate", "request rate"), "request-rate"),
)
#: An escape of a character that needs none, or may have been written without one.
_PLAIN_ESCAPE = re.compile(r"%[2-7][0-9A-Fa-f]")
_ANY_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Robots:
    """The rules of one origin for one crawler.

    ``rules``: the lines that are ours, as (directive, value). ``crawl_delay``: the seconds that the site asks
    for between two pages, None if it asks for none. ``sitemaps``: as written, for whoever reads them.
    ``reachable``: False where the file could not be had, so that nothing is known and nothing allowed.
    """

    rules: tuple[tuple[str, str], ...] = ()
    sitemaps: tuple[str, ...] = ()
    reachable: bool = True

    @cached_property
    def _parsed(self) -> Protego:
        return _protego(self.rules)

    @cached_property
    def _has_escapes(self) -> bool:
        return any(_PLAIN_ESCAPE.search(value) for _, value in self.rules)

    @cached_property
    def _patterns(self) -> bool:
        return any(name.endswith("allow") and value for name, value in self.rules)

    def allows(self, url: WebUrl) -> bool:
        """Whether the page may be asked for. The robots.txt itself always may (RFC 9309 §2.2.2)."""
        if not self._patterns and self.reachable:
            return True
        target = url.target
        if target == "/robots.txt":
            return True
        if not self.reachable:
            return False
        if not self._parsed.can_fetch(f"http://h{target}", "*"):
            return False
        if not self._has_escapes and not _PLAIN_ESCAPE.search(target):
            return True
        # The RFC undoes such escapes on both sides, Google's parser on neither.
        return self._as_written.can_fetch(f"http://h{_doubled(target)}", "*")

    @cached_property
    def _as_written(self) -> Protego:
        return _protego([(name, _doubled(value)) for name, value in self.rules])

    @cached_property
    def crawl_delay(self) -> float | None:
        delay = self._parsed.crawl_delay("*") or 0.0
        rate = self._parsed.request_rate("*")
        if rate is not None:
            delay = max(delay, rate.seconds / rate.requests)
        return min(delay, MAX_CRAWL_DELAY_SECONDS) or None


def read_robots(status: int | None, body: bytes, user_agent: str) -> Robots:
    """The rules of an answer, after its redirects, for the crawler that calls itself ``user_agent``.

    RFC 9309 §2.3.1: without a file (4xx, or redirects that lead nowhere) all is allowed; what a server could
    not give (5xx, no answer: None) is unknown, and nothing is allowed until it is known. A body of any kind
    is read as far as it holds rules: HTML and binary data hold none.
    """
    if status is None or status >= 500 or status < 200:
        return Robots(reachable=False)
    if status >= 300:
        return Robots()
    ours = product_token(user_agent).lower()
    specific: list[tuple[str, str]] = []
    general: list[tuple[str, str]] = []
    sitemaps: list[str] = []
    named = to_us = to_all = after_rule = False
    for name, value in _lines(body):
        if name == "user-agent":
            if after_rule:
                to_us = to_all = after_rule = False
            if value == "*" or value[:2] in ("* ", "*\t"):
                to_all = True
            elif (token := _TOKEN.match(value)) is not None and token[0].lower() == ours:
                to_us = named = True
        elif name == "sitemap":
            if value:
                sitemaps.append(value)
        else:
            if name in ("allow", "disallow"):
                # Other lines do not end a list of crawlers (RFC 9309 §2.2.4).
                after_rule = True
            if to_us:
                specific.append((name, value))
            if to_all:
                general.append((name, value))
    return Robots(tuple(specific if named else general), tuple(sitemaps))


def product_token(user_agent: str) -> str:
    """The name by which sites address the crawler (RFC 9309 §2.2.1): the first product of the header, or the
    one behind ``compatible;`` of a header that begins as a browser's does."""
    if (inner := _COMPATIBLE.search(user_agent)) is not None:
        return inner[1]
    first = _TOKEN.match(user_agent.strip())
    return first[0] if first is not None else ""


def _lines(body: bytes) -> Iterator[tuple[str, str]]:
    """The lines that are directives, each with its value; a path in ASCII, other bytes and
    spaces escaped."""
    body = body[:MAX_ROBOTS_BYTES]
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        body = body.decode("utf-16", "replace").encode()
    else:
        for i in range(len(_BOM), 0, -1):
            if body.startswith(_BOM[:i]):
                body = body[i:]
                break
    for raw in _LINE.split(body):
        line = raw[:MAX_LINE_BYTES].partition(b"#")[0].strip(b" \t\v\f\0")
        if not line:
            continue
        key, colon, value = line.partition(b":")
        if not colon:
            words = line.split()
            if len(words) != 2:
                continue
            key, value = words
        name = key.strip().lower().decode("latin-1")
        for beginnings, directive in _KEYS:
            if name.startswith(beginnings):
                value = value.strip()
                if directive in ("allow", "disallow"):
                    value = _HIGH.sub(_escaped, value)
                yield directive, value.decode("utf-8", "replace")
                break


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


def _doubled(text: str) -> str:
    """Escapes as text of their own, which nothing undoes."""
    return _ANY_ESCAPE.sub(lambda m: f"%25{m[1].upper()}", text)


def _protego(rules: tuple[tuple[str, str], ...] | list[tuple[str, str]]) -> Protego:
    lines = [f"{name}: {value}" for name, value in rules if value]
    return Protego.parse("\n".join(["User-agent: *", *lines]))


class _Kept(NamedTuple):
    """The head of a stored answer: its status (None: there was none), and until when it holds."""

    status: int | None
    until: float

    @classmethod
    def read(cls, head: bytes) -> _Kept | None:
        """None for what is damaged, or was written otherwise by another version."""
        try:
            said = json.loads(head)
            return cls(None if said["status"] is None else int(said["status"]), float(said["until"]))
        except (ValueError, TypeError, KeyError):
            return None


class RobotsCache:
    """What the robots.txt of each origin said, kept in the state for at most a day and shared by all runs of
    a namespace, and in this process as read. Threads may share one."""

    def __init__(self, hints: Lenient, namespace: str, user_agent: str) -> None:
        self._hints = hints
        self._namespace = namespace
        self._user_agent = user_agent
        self._lock = threading.Lock()
        #: Rules by origin, and until when they hold (``time.time``).
        self._read: OrderedDict[str, tuple[float, Robots]] = OrderedDict()

    def get(self, origin: str) -> Robots | None:
        """The rules of ``origin`` (as :attr:`WebUrl.origin`); None if they have to be asked for."""
        found = self._read.get(origin)
        if found is not None and time.time() < found[0]:
            return found[1]
        stored = self._hints.ask(lambda state: state.get(self._namespace, ROBOTS(origin)), None)
        if stored is None:
            return None
        head, _, body = stored.partition(b"\n")
        kept = _Kept.read(head)
        if kept is None:
            return None
        robots = read_robots(kept.status, body, self._user_agent)
        self._remember(origin, kept.until, robots)
        return robots

    def put(self, origin: str, status: int | None, body: bytes, *, max_age: float | None = None) -> Robots:
        """Keep an answer (None: there was none) and return its rules. ``max_age``: how long the server says
        that it holds (RFC 9111), if it says so; never more than a day, nor less than ten minutes."""
        robots = read_robots(status, body, self._user_agent)
        life = CACHE_SECONDS if robots.reachable else UNREACHABLE_SECONDS
        if max_age is not None and robots.reachable:
            life = min(life, max(max_age, UNREACHABLE_SECONDS))
        until = time.time() + life
        kept = body[:MAX_ROBOTS_BYTES] if status is not None and 200 <= status < 300 else b""
        value = json.dumps({"status": status, "until": until}).encode() + b"\n" + kept
        self._hints.ask(lambda state: state.set(self._namespace, ROBOTS(origin), value, life), None)
        self._remember(origin, until, robots)
        return robots

    def _remember(self, origin: str, until: float, robots: Robots) -> None:
        with self._lock:
            self._read[origin] = (until, robots)
            self._read.move_to_end(origin)
            while len(self._read) > _REMEMBERED:
                self._read.popitem(last=False)
