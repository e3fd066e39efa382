"""Made-up sites, a stand-in for fetching that answers in any order, and a stand-in for the stage."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from taboot_pipelines.crawl.crawler import Crawler
from taboot_pipelines.crawl.targets import Folder, Targets
from taboot_pipelines.crawl.urls import WebUrl, canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import FoundUrl, Listing
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
    Stored,
    Unchanged,
)
from taboot_pipelines.stores.catalog.frontier import Frontier

BASE = "http://site.test/"


@dataclass
class Page:
    """``status`` 200, or that of a refusal; 500 and 408 pass after ``passes`` answers (0: never). ``headers``
    come with the page, and with the word that it is unchanged unless ``brief``."""

    links: tuple[str, ...] = ()
    status: int = 200
    passes: int = 0
    mime: str = "text/html"
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    brief: bool = False

    @property
    def readable(self) -> bool:
        """Whether a crawl comes to read it, in its three attempts."""
        return self.status == 200 or (self.status in (500, 408) and 0 < self.passes < 3)


@dataclass
class Reply:
    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes
    seconds: float | None = 0.01
    address: str | None = "192.0.2.1"


CODES = {404: "E_NOT_FOUND", 403: "E_FORBIDDEN", 500: "E_5XX_ORIGIN", 415: "E_MIME", 408: "E_TIMEOUT"}


@dataclass
class Web:
    """Pages by name, and how often each was asked for; ``conditional``: how often with a validator."""

    pages: dict[str, Page]
    hits: Counter[str] = field(default_factory=Counter)
    conditional: Counter[str] = field(default_factory=Counter)

    def body(self, name: str) -> bytes:
        page = self.pages[name]
        links = "".join(f'<a href="{BASE}{x}">{x}</a>' for x in page.links)
        return f"<title>{name}</title>{page.body}{links}".encode()

    def answer(self, url: WebUrl, known: Known | None) -> Reply | TabootError:
        name = url.text.removeprefix(BASE)
        self.hits[name] += 1
        page = self.pages.get(name)
        status = 404 if page is None else page.status
        if page is not None and page.status in (500, 408) and 0 < page.passes < self.hits[name]:
            status = 200
        if status != 200:
            return TabootError(CODES[status], f"{url.text} gave {status}.", status=status)
        assert page is not None
        body = self.body(name)
        etag = hashlib.sha256(body).hexdigest()
        if known is not None and known.etag is not None:
            self.conditional[name] += 1
            if known.etag == etag:
                return Reply(304, url.text, {} if page.brief else page.headers, b"")
        return Reply(200, url.text, {"content-type": page.mime, "etag": etag, **page.headers}, body)


class AnyOrder:
    """Answers what is on its way in any order, some at a time."""

    def __init__(self, web: Web, random_: random.Random) -> None:
        self._web, self._random = web, random_
        self.flying: dict[int, tuple[WebUrl, Known | None]] = {}

    def start(self, ticket: int, url: WebUrl, *, known: Known | None = None) -> None:
        self.flying[ticket] = (url, known)

    def finished(self, timeout: float) -> Sequence[tuple[int, Reply | TabootError]]:
        tickets = self._random.sample(sorted(self.flying), self._random.randint(1, len(self.flying)))
        return [(t, self._web.answer(*self.flying.pop(t))) for t in tickets]


class Killed(Exception):
    """The process dies here."""


class Store:
    """What a stage makes durable: pages by key. ``seen``, ``gone``: what the last run told. ``blobs``: what
    others have put into the blob store, by SHA-256."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.bodies: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}

    def run(
        self, events: Callable[[Mapping[str, Known]], Iterator[Event]], kill: Callable[[], bool]
    ) -> Enumerated:
        """Take the events of a run; dies where ``kill`` says so. A run that ends whole retires what it did
        not see."""
        self.told: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.gone: set[str] = set()
        pending: list[Fetched | Stored] = []
        known = dict(self.known)
        end: Enumerated | None = None
        stream = events(known)
        for event in stream:
            if kill():
                raise Killed
            self._take(event, pending)
            if isinstance(event, Checkpoint):
                self._flush(pending)
                if kill():
                    raise Killed
            if isinstance(event, Enumerated):
                end = event
                break
        assert end is not None and not pending, "what was told last has its checkpoint"
        for key in [k for k in self.known if k in self.gone or (end.complete and k not in self.seen)]:
            del self.known[key]
        assert next(stream, None) is None
        return end

    def _take(self, event: Event, pending: list[Fetched | Stored]) -> None:
        match event:
            case Unchanged():
                assert event.roles.keys() <= self.known.keys()
                self.told.update(list(event.roles))
                self.seen |= event.roles.keys()
            case Fetched() | Stored():
                self.told[event.path] += 1
                self.seen.add(event.path)
                pending.append(event)
            case NotModified() | Failed() | Skipped():
                self.told[event.path] += 1
                self.seen.add(event.path)
            case Gone():
                self.told[event.path] += 1
                self.gone.add(event.path)

    def _flush(self, pending: list[Fetched | Stored]) -> None:
        for page in pending:
            data = page.data if isinstance(page, Fetched) else self.blobs[page.sha256]
            sha256 = hashlib.sha256(data).hexdigest()
            self.known[page.path] = Known(sha256, page.etag, None, page.final_url)
            self.bodies[page.path] = data
        pending.clear()


def targets(keywords: Sequence[str] = ()) -> Targets:
    return Targets([Folder("site.test", "/")], keywords=keywords)


def roots(*names: str) -> tuple[list[FoundUrl], Listing]:
    """The pages of these names as a list that was read whole."""
    every = targets()
    found = []
    for name in names:
        url = parse_url(BASE + name)
        x = every.listed(url, canonical_key(url))
        found.append(FoundUrl(x.url_id, x.key, x.url, x.host))
    return found, Listing()


class Mortal(Frontier):
    """A frontier whose process gives nothing back when it dies."""

    def release(self) -> int:
        return 0


def crawler(frontier: Frontier, web: Web, random_: random.Random, **more: object) -> Crawler:
    fetching = AnyOrder(web, random_)
    options = {"known": {}, "tombstoned": lambda _: False, "window": 4, **more}
    return Crawler(frontier, fetching, targets(), **options)
