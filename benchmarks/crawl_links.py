"""Reading real pages for links: ours against lxml, and what of it is the parser's.

    python benchmarks/crawl_links.py [--rounds 5]

The pages are those of ``site-ingress-nginx`` in TABOOT_TEST_DATA. lxml parses and gives the ``href`` of each
``a`` and ``area``, neither resolved nor made unique; ours gives absolute URLs, each once, and heeds ``base``,
``rel`` and what is said to robots. CPU time, the best of the rounds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from taboot_pipelines.crawl.links import page_links

DATA = Path(os.environ.get("TABOOT_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")


def ours(page: bytes) -> int:
    return len(page_links(page, "utf-8", "https://kubernetes.github.io/ingress-nginx/user-guide/").links)


def parse_only(page: bytes) -> int:
    return LexborHTMLParser(page) is None


def lxml(page: bytes) -> int:
    tree = etree.fromstring(page, etree.HTMLParser())
    return sum(e.get("href") is not None for e in tree.iter("a", "area"))


def best(read: Callable[[bytes], int], pages: list[bytes], rounds: int) -> float:
    """Seconds of CPU for all pages, in the best round."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        for page in pages:
            read(page)
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    pages = [p.read_bytes() for p in sorted((DATA / "site-ingress-nginx" / "site").rglob("*.html"))]
    size = sum(map(len, pages)) / len(pages)
    print(f"{len(pages)} pages of {size / 1e3:.0f} kB on average, {sum(map(lxml, pages))} links")
    for name, read in (("ours", ours), ("Lexbor, parsing alone", parse_only), ("lxml", lxml)):
        print(f"{name:22} {best(read, pages, rounds) / len(pages) * 1e6:6.0f} µs a page")


if __name__ == "__main__":
    main()
