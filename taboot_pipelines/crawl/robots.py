"""What a site's robots.txt allows (RFC 9309): which group is ours, which pages it opens, and how often.

Protego reads the values of directives. What else it would do is here, since it differs from the RFC: which
lines are directives, which groups of them are ours, and which rule decides, by the octets of its pattern.
Where Google's parser (github.com/google/robotstxt) is exact and the RFC is silent, it is followed: the start
of a byte order mark, a missing colon, common misspellings, lines that are cut, ``index.html``, names with
digits behind them.

Differs from other parsers on purpose: lines before the first ``User-agent`` bind nobody (Moz's reppy: all);
``bot`` names neither ``mybot`` nor ``bot-news`` (Protego, reppy: beginnings do); a pattern that begins with
neither ``/`` nor ``*`` matches nothing (others add the slash); several groups of one name are one
(robotparser: the first); the longest pattern decides (robotparser: the first).

Which rule of a robots.txt decides on a path: the one of the longest pattern (RFC 9309 §2.2.2, §2.2.3).

Escapes are compared as the RFC says, whatever they stand for; only a slash of the path is never its escape
(RFC 3986 §2.2), in the query it is. Google's parser undoes no escape of a letter, a digit or ``-._~``: where
that is another verdict, the stricter of the two holds.

Whether a page may be asked for by its site's robots.txt, and what it means that it cannot be read.
"""

from __future__ import annotations

import json
import re
import string
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from protego import Protego

from taboot_pipelines.crawl.client import Answer
from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.state.keys import DAY, ROBOTS
from taboot_pipelines.stores.state.protocol import Lenient

_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")
#: An escape of a character that needs none.
_PLAIN_ESCAPE = re.compile(r"%(?:2[DEde]|3\d|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
#: A percent sign that begins no escape.
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
#: What is special in a pattern, where it stands for itself.
_LITERAL = str.maketrans({"*": "\x01", "$": "\x02"})


def has_plain_escapes(text: str) -> bool:
    """Whether a pattern or path escapes what needs no escape (RFC 3986 §2.3)."""
    return _PLAIN_ESCAPE.search(text) is not None


class _Rule(NamedTuple):
    """A pattern: the texts between its stars, and whether the last one ends the target."""

    texts: tuple[str, ...]
    ends: bool
    allow: bool

    def matches(self, target: str) -> bool:
        """In time linear in ``target`` for each text: the first place where a text fits is the best."""
        first, *others = self.texts
        if not target.startswith(first):
            return False
        if not others:
            return not self.ends or len(target) == len(first)
        at = len(first)
        *inner, last = others
        for text in inner:
            at = target.find(text, at)
            if at < 0:
                return False
            at += len(text)
        if self.ends:
            return len(target) - at >= len(last) and target.endswith(last)
        return target.find(last, at) >= 0


class PathRules:
    """Rules in the order in which they decide: the longest pattern first, of two as long the one that
    allows."""

    def __init__(self, lines: Iterable[tuple[str, str]], *, plain: bool) -> None:
        self._plain = plain
        #: A bare percent sign is the beginning of any escape, as Google reads it.
        self._as_written = False
        found: list[tuple[int, _Rule]] = []
        for name, value in lines:
            if name not in ("allow", "disallow") or not value:
                continue
            allow = name == "allow"
            patterns = [value]
            self._as_written = self._as_written or _BARE_PERCENT.search(value) is not None
            before, slash, page = value.rpartition("/")
            if allow and slash and page.startswith("index.htm"):
                patterns.append(f"{before}/$")
            for pattern in patterns:
                ends = pattern.endswith("$")
                text = pattern[: len(pattern) - ends].replace("$", "\x02")
                for form in _forms(text, plain=plain):
                    rule = _Rule(tuple(re.sub(r"\*+", "*", form).split("*")), ends, allow)
                    found.append((len(pattern), rule))
        found.sort(key=lambda pair: (-pair[0], not pair[1].allow))
        self._rules = [rule for _, rule in found]
        #: What a target must begin with for any rule to match.
        self._beginnings = tuple({rule.texts[0] for rule in self._rules})

    def allow(self, target: str) -> bool:
        """Whether the rules open ``target``, the path and query of a URL in its normal form."""
        if "%" in target or "*" in target or "$" in target:
            target = target.translate(_LITERAL)
            targets = _forms(target, plain=self._plain)
            if self._as_written:
                targets += (_ESCAPE.sub(lambda m: m[0].upper(), target),)
        else:
            targets = (target,)
        if not any(t.startswith(self._beginnings) for t in targets):
            return True
        for rule in self._rules:
            for text in targets:
                if rule.matches(text):
                    return rule.allow
        return True


def _forms(text: str, *, plain: bool) -> tuple[str, ...]:
    """A path or pattern with its escapes in one form: undone, except of slashes and of what is no visible
    ASCII, and unless ``plain`` of what needs none. A second form has the slashes of the query undone too."""
    if "%" not in text:
        return (text,)

    def undone(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        kept = not "!" <= character <= "~" or character in "#%/" or (character in _UNRESERVED and not plain)
        return match[0].upper() if kept else character.translate(_LITERAL)

    form = _ESCAPE.sub(undone, text)
    path, mark, query = form.partition("?")
    other = f"{path}{mark}{query.replace('%2F', '/')}"
    return (form,) if form == other else (form, other)


#: What is read of a file (RFC 9309 §2.5 asks for this much at least); the rest is not there.
MAX_ROBOTS_BYTES = 500 * 1024
#: Bytes of one line that count, as in Google's parser: eight times the length of a URL in a browser, of which
#: one is the end of the line.
MAX_LINE_BYTES = 2083 * 8 - 1
#: A site that asks for a longer pause between pages gets this one.
MAX_CRAWL_DELAY_SECONDS = 3600.0
#: How long an answer holds (RFC 9309 §2.4: at most a day), and how long it is not asked again after none.
CACHE_SECONDS, UNREACHABLE_SECONDS = DAY, 600.0
_REMEMBERED = 256

_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"\r\n|\n|\r")
_SCHEME_BEHIND = re.compile(rb"(?i)\shttps?$")
_HIGH = re.compile(rb"[\x00-\x20\x7f-\xff]")
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
_DIGITS_ON = re.compile(r"\d.*")
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
    def _rules(self) -> PathRules:
        """The rules as the RFC compares them, with all escapes undone."""
        return PathRules(self.rules, plain=True)

    @cached_property
    def _cautious_rules(self) -> PathRules:
        """The rules with the escapes that need none left, as Google compares them."""
        return PathRules(self.rules, plain=False)

    @cached_property
    def _has_plain_escapes(self) -> bool:
        return any(has_plain_escapes(value) for _, value in self.rules)

    def allows(self, url: WebUrl) -> bool:
        """Whether the page may be asked for. The robots.txt itself always may (RFC 9309 §2.2.2)."""
        target = url.target
        if target == "/robots.txt":
            return True
        if not self.reachable or not self._rules.allow(target):
            return False
        if self._has_plain_escapes or has_plain_escapes(target):
            return self._cautious_rules.allow(target)
        return True

    @cached_property
    def crawl_delay(self) -> float | None:
        lines = [f"{name}: {value}" for name, value in self.rules if name in ("crawl-delay", "request-rate")]
        said = Protego.parse("\n".join(["User-agent: *", *lines]))
        delay = said.crawl_delay("*") or 0.0
        rate = said.request_rate("*")
        if rate is not None:
            delay = max(delay, rate.seconds / rate.requests)
        return min(delay, MAX_CRAWL_DELAY_SECONDS) or None


def read_robots(status: int | None, body: bytes, user_agent: str, *, bounded: bool = True) -> Robots:
    """The rules of an answer, after its redirects, for the crawler that calls itself ``user_agent``. Unless
    ``bounded`` all of it is read: what was cut already, and is longer for its escapes.

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
    group, paced = _Group(), _Group()
    named = False
    for name, value in _lines(body, bounded=bounded):
        if name == "user-agent":
            to_us, to_all = _names(value, ours)
            named = named or to_us
            group.add(to_us, to_all)
            paced.add(to_us, to_all)
        elif name == "sitemap":
            if value:
                sitemaps.append(value)
        else:
            is_rule = name in ("allow", "disallow")
            # Lines that are no rules do not end a list of crawlers (RFC 9309 §2.2.4), as far as rules go. Of
            # crawlers listed by delay, each has its own.
            paced.ended = True
            group.ended = group.ended or is_rule
            whose = group if is_rule else paced
            if whose.ours:
                specific.append((name, value))
            if whose.everybodys:
                general.append((name, value))
    return Robots(tuple(specific if named else general), tuple(sitemaps))


@dataclass(slots=True)
class _Group:
    """Whom the lines that follow are for. ``ended``: the next name begins another group."""

    ours: bool = False
    everybodys: bool = False
    ended: bool = False

    def add(self, ours: bool, everybodys: bool) -> None:
        if self.ended:
            self.ours = self.everybodys = self.ended = False
        self.ours = self.ours or ours
        self.everybodys = self.everybodys or everybodys


def _names(value: str, ours: str) -> tuple[bool, bool]:
    """Whether a ``User-agent`` line names the crawler ``ours`` (lower case), and whether all of them."""
    if value == "*" or value[:2] in ("* ", "*\t"):
        return False, True
    token = _TOKEN.match(value.lower())
    # Of ``foobot2`` the RFC's names and Google's parser hold ``foobot``.
    return bool(ours and token is not None and ours in (token[0], _DIGITS_ON.sub("", token[0]))), False


def product_token(user_agent: str) -> str:
    """The name by which sites address the crawler (RFC 9309 §2.2.1): the first product of the header, or the
    one behind ``compatible;`` of a header that begins as a browser's does."""
    if (inner := _COMPATIBLE.search(user_agent)) is not None:
        return inner[1]
    first = _TOKEN.match(user_agent.strip())
    return first[0] if first is not None else ""


def _lines(body: bytes, *, bounded: bool = True) -> Iterator[tuple[str, str]]:
    """The lines that are directives, each with its value; a path in ASCII, other bytes and
    spaces escaped."""
    if bounded:
        body = body[:MAX_ROBOTS_BYTES]
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        # The mark alone is no UTF-16: what is there in ASCII holds.
        body = body.decode("utf-16", "replace").encode() if b"\0" in body else body[2:]
    else:
        for i in range(len(_BOM), 0, -1):
            if body.startswith(_BOM[:i]):
                body = body[i:]
                break
    for raw in _LINE.split(body):
        line = (raw[:MAX_LINE_BYTES] if bounded else raw).partition(b"#")[0].strip(b" \t\v\f\0")
        if not line:
            continue
        key, colon, value = line.partition(b":")
        words = line.split()
        if len(words) == 2 and (not colon or _SCHEME_BEHIND.search(key)):
            key, value = words  # the colon was forgotten
        elif not colon:
            continue
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
        robots = read_robots(kept.status, body, self._user_agent, bounded=False)
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
        kept = b""
        if status is not None and 200 <= status < 300:
            # The directives alone: a site may answer with any page, and pages are kept as blobs alone.
            kept = b"\n".join(f"{name}: {text}".encode() for name, text in _lines(body))
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


#: How long a robots.txt that could not be read is not asked for again.
FAILURE_SECONDS = 30.0
#: Origins of which it is remembered that their robots.txt could not be read.
MAX_FAILURES = 1000
_MAX_AGE = re.compile(r"(?i)\bmax-age=\"?(\d{1,9})")


class RobotsGate:
    """Keeps rules in ``cache``, for all runs, and failures to read them in this process alone."""

    def __init__(self, cache: RobotsCache) -> None:
        self._cache = cache
        #: By origin: why its file could not be read, and until when that holds.
        self._failures: dict[str, tuple[float, TabootError]] = {}

    def rules(self, url: WebUrl) -> Robots | None:
        """The rules of a page that may be asked for; None if they must be read first.

        Raises ``E_ROBOTS`` for a page that may not, and where robots.txt could not be read, why.
        """
        until, error = self._failures.get(url.origin, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise TabootError(
                error.code,
                f"{url.text} was not asked for, since its site's robots.txt could not be read."
                f" {error.message}",
                url=url.text,
            )
        rules = self._cache.get(url.origin)
        if rules is not None and not rules.allows(url):
            why = "is disallowed by its site's robots.txt"
            if not rules.reachable:
                why = "is not asked for while its site's robots.txt cannot be read"
            raise TabootError("E_ROBOTS", f"{url.text} {why}.", url=url.text, read=rules.reachable)
        return rules

    def keep(self, origin: str, result: Answer | TabootError) -> None:
        """Take what came of reading the robots.txt of ``origin``.

        A refusal and redirects that lead nowhere are as if there were no file (RFC 9309 §2.3.1). What is
        no answer of the site at all is kept for a moment only: nothing is known, and so nothing is allowed.
        """
        if isinstance(result, Answer):
            found = _MAX_AGE.search(result.headers.get("cache-control", ""))
            age = float(found[1]) if found else None
            self._cache.put(origin, result.status, result.body, max_age=age)
            return
        status = 404 if result.code == "E_REDIRECT" else result.details.get("status")
        if isinstance(status, int) and 400 <= status < 500 and status not in (408, 429):
            self._cache.put(origin, status, b"")
            return
        while len(self._failures) >= MAX_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[origin] = (time.monotonic() + FAILURE_SECONDS, result)
