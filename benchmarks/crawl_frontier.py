"""What the durable frontier costs per URL, beside bare statements of SQLite on the same rows.

    python benchmarks/crawl_frontier.py [--pages 10000] [--links 60] [--batch 64]

A made-up site: each page leads to ``links`` others, most of which are known by then. The whole loop is
measured with a fetching that answers at once: claims, links as the last crawl has them or as found, settling,
checkpoints. *New* is a first crawl, *again* one of the unchanged site, *fresh* one whose pages need not even
be asked for. The peer inserts a row per URL, marks
it as claimed and as done, and inserts a row per page for its links, by ``executemany`` of the standard
library in batches of the same size.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from taboot_pipelines.crawl import following as module
from taboot_pipelines.crawl.crawler import Crawler
from taboot_pipelines.crawl.freshness import Freshness
from taboot_pipelines.crawl.links import PageLinks
from taboot_pipelines.crawl.targets import Folder, Targets
from taboot_pipelines.crawl.urls import WebUrl, canonical_key, parse_url
from taboot_pipelines.model.crawls import CrawlPlan, FoundUrl, Listing, totals, url_id
from taboot_pipelines.model.records import Fetched, Known
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases

BASE = "https://site.test/docs/section/"


class Instant:
    """Answers as soon as it is asked; the body is the page's number."""

    def __init__(self) -> None:
        self._ready: list[tuple[int, Reply]] = []

    def start(self, ticket: int, url: WebUrl, *, known: Known | None = None) -> None:
        self._ready.append((ticket, Reply(url.text, 304 if known else 200)))

    def finished(self, timeout: float) -> Sequence[tuple[int, Reply]]:
        ready, self._ready = self._ready, []
        return ready


class Reply:
    seconds, address = 0.001, "192.0.2.1"

    def __init__(self, url: str, status: int) -> None:
        self.url, self.status = url, status
        self.body = url.encode()
        self.headers = {"content-type": "text/html", "cache-control": "max-age=3600"}


def leads(number: int, pages: int, links: int) -> list[int]:
    """A menu that all pages share, and a few pages of its own."""
    own = [number * 3 + i for i in (1, 2, 3)]
    return [n for n in [*range(1, links - 2), *own] if n < pages]


def crawl(
    home: Path, pages: int, links: int, batch: int, known: dict[str, Known], reuses: bool = False
) -> float:
    catalog = open_catalog(Settings(home=home), FileLeases(home, 0))
    plan = CrawlPlan((BASE,), 1000, pages, configuration="c", link_rules="r")
    frontier = catalog.crawls.frontier("n", catalog.crawls.begin("n", "s", plan))

    def page_links(data: bytes, *_: object, **__: object) -> PageLinks:
        number = int(data.rpartition(b"/p")[2])
        return PageLinks({f"{BASE}p{n}": "" for n in leads(number, pages, links)})

    module.page_links = page_links
    url = parse_url(f"{BASE}p0")
    key = canonical_key(url)
    root = FoundUrl(url_id(key), key, url.text, url.authority)
    targets = Targets([Folder.of(url)])
    crawler = Crawler(
        frontier,
        Instant(),
        targets,
        known=known,
        tombstoned=lambda _: False,
        window=batch,
        freshness=Freshness(lambda: datetime.now(UTC), 86_400) if reuses else None,
    )
    found: dict[str, Known] = {}
    began = time.process_time()
    for event in crawler.events(lambda: ([root], Listing())):
        if isinstance(event, Fetched):
            found[event.path] = Known(hashlib.sha256(event.data).hexdigest(), "etag")
    spent = time.process_time() - began
    ledger = totals(catalog.crawls.find("n", "s", 1)[0].counts)
    assert ledger["discovered"] == pages == ledger["fetched"] + ledger["not_modified"], ledger
    known |= found
    catalog.close()
    return spent


def bare(home: Path, pages: int, links: int, batch: int) -> float:
    db = sqlite3.connect(home / "bare.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("CREATE TABLE url (id BLOB PRIMARY KEY, key TEXT, state TEXT, depth INT, rank INT, host TEXT)")
    db.execute("CREATE INDEX pending ON url (host, rank) WHERE state = 'PENDING'")
    db.execute("CREATE TABLE lead (parent BLOB PRIMARY KEY, children BLOB)")
    ids = [url_id(f"{BASE}p{n}") for n in range(pages)]
    began = time.process_time()
    for i in range(0, pages, batch):
        part = range(i, min(i + batch, pages))
        db.execute("BEGIN IMMEDIATE")
        rows = [(ids[n], f"{BASE}p{n}", "PENDING", 1, n, "site.test") for n in part]
        db.executemany("INSERT INTO url VALUES (?, ?, ?, ?, ?, ?)", rows)
        db.execute("COMMIT")
        for state in ("IN-PROGRESS", "COMPLETED"):
            db.execute("BEGIN IMMEDIATE")
            db.executemany("UPDATE url SET state = ? WHERE id = ?", [(state, ids[n]) for n in part])
            if state == "COMPLETED":
                children = ((ids[n], b"".join(ids[x] for x in leads(n, pages, links))) for n in part)
                db.executemany("INSERT INTO lead VALUES (?, ?)", children)
            db.execute("COMMIT")
    spent = time.process_time() - began
    db.close()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--links", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    sizes = (args.pages, args.links, args.batch)
    with tempfile.TemporaryDirectory() as folder:
        home, known = Path(folder), {}
        results = {"new": crawl(home, *sizes, known), "again": crawl(home, *sizes, known)}
        crawl(home, *sizes, known, reuses=True)
        results["fresh"] = crawl(home, *sizes, known, reuses=True)
        results["bare SQLite"] = bare(home, *sizes)
        size = (home / "catalog.db").stat().st_size
    for name, seconds in results.items():
        print(f"{name:12} {seconds / args.pages * 1e6:6.0f} µs of CPU a URL")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{args.pages} pages, {args.links} links each; catalog {size / 1e6:.0f} MB; peak memory {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
