"""Pages per second of CPU that a crawl of one site takes, beside Scrapy's and beside the least it can take.

A generated site (pages of 10 KB, each with 20 links to others) is served by another process on loopback.
Each crawler runs in a process of its own, follows all links, obeys robots.txt, and asks for 16 pages at once.
Ours is the whole stage that reads a source: the guard of addresses, the domain's turns (without a limit),
keys of URLs, the durable frontier, every page stored; Scrapy only follows the links. The home lies in memory
where that can be: how long a disk looks for a free inode depends on what was deleted there before. *Raw*
makes the requests and runs httptools' parser over the answers: no crawler in Python can take less. Every
crawler must ask for each page once.

    python benchmarks/crawl.py [--pages 2000] [--rounds 2]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

CONCURRENCY = 16
LINKS = 20
#: What the crawl must reach of Scrapy's pages per second of CPU.
MIN_RATIO = 1.5
WORDS = ["service", "port", "host", "container", "network", "volume", "proxy", "route", "backup", "cluster"]


def page(number: int, pages: int) -> bytes:
    """The HTML of one page: its first links lead down a tree that holds all pages, the others anywhere."""
    chance = random.Random(number)
    links = [number * 8 + i for i in range(1, 9) if number * 8 + i < pages]
    links += [chance.randrange(pages) for _ in range(LINKS - len(links))]
    parts = [f"<html><head><title>Page {number}</title></head><body><nav>Pages</nav><h1>Page {number}</h1>"]
    for i, link in enumerate(links):
        text = " ".join(chance.choices(WORDS, k=60))
        parts.append(f'<p id="p{i}">{text} <a class="link" href="../p/{link}.html#p{i}">Page {link}</a>.</p>')
    return "".join([*parts, "</body></html>"]).encode()


# --- the site -----------------------------------------------------------------------------------------------


def serve(pages: int) -> None:
    """Serve the site until the process is ended; its first line says on which port."""
    head = 'HTTP/1.1 {} X\r\nContent-Type: text/{}; charset=utf-8\r\nETag: "{}"\r\nContent-Length: {}\r\n\r\n'

    def answer(body: bytes, number: object = "", status: int = 200, kind: str = "html") -> bytes:
        return head.format(status, kind, number, len(body)).encode() + body

    answers = {f"/p/{i}.html": answer(page(i, pages), i) for i in range(pages)}
    answers["/robots.txt"] = answer(b"User-agent: *\nDisallow: /private/\n", kind="plain")
    missing = answer(b"", status=404)
    hits: list[str] = []

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport, self.data = transport, b""

        def data_received(self, data: bytes) -> None:
            self.data += data
            while b"\r\n\r\n" in self.data:
                request, _, self.data = self.data.partition(b"\r\n\r\n")
                path = request.split(b" ", 2)[1].decode()
                if path == "/hits":
                    body = json.dumps([len(hits), len(set(hits))]).encode()
                    hits.clear()
                    self.transport.write(answer(body))
                    continue
                if path == "/asked":
                    self.transport.write(answer(str(len(hits)).encode()))
                    continue
                if path.startswith("/p/"):
                    hits.append(path)
                self.transport.write(answers.get(path, missing))

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Protocol, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(main())


# --- the crawlers: each returns how many pages it got -------------------------------------------------------


def crawl_ours(start: str) -> Callable[[], int]:
    from taboot_pipelines.crawl.domains import registrable_domain
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages.running import run_stage
    from taboot_pipelines.stages.workspace import Workspace

    registrable_domain("www.example.org")  # which imports its list of suffixes
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="taboot-crawl-", dir=memory if memory.is_dir() else None))
    entry = {
        "id": "site",
        "type": "web",
        "urls": [start],
        "max_depth": 1000,
        "max_pages": 1_000_000,
        "include": [start.replace("/p/0.html", "/**")],
        "allow_cidrs": ["127.0.0.0/8"],
    }
    (folder / "sources.yaml").write_text(json.dumps({"sources": [entry]}))
    http = {"max_concurrency": CONCURRENCY, "per_host": CONCURRENCY, "rate_limit_rps": 0}
    settings = load_settings(home=folder / "home", sources=folder / "sources.yaml", http=http)
    workspace = Workspace(settings)

    def run() -> int:
        workspace.sync_sources()
        report = run_stage(workspace, "raw_blobs", "site")[0]
        workspace.close()
        shutil.rmtree(folder)
        return int(report.counts["fetched"])

    return run


def crawl_scrapy(start: str) -> Callable[[], int]:
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy.linkextractors import LinkExtractor

    got = 0

    class Spider(scrapy.Spider):
        name = "bench"
        extractor = LinkExtractor()

        async def start(self):
            yield scrapy.Request(start)  # filtered like any other, as the pages link to it

        def parse(self, response):
            nonlocal got
            got += 1
            for link in self.extractor.extract_links(response):
                yield scrapy.Request(link.url, callback=self.parse)

    def run() -> int:
        process = CrawlerProcess(
            settings={
                "AUTOTHROTTLE_ENABLED": False,
                "CONCURRENT_REQUESTS": CONCURRENCY,
                "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
                "DOWNLOAD_DELAY": 0,
                "LOG_LEVEL": "ERROR",
                "ROBOTSTXT_OBEY": True,
                "TELNETCONSOLE_ENABLED": False,
            }
        )
        process.crawl(Spider)
        process.start()
        return got

    return run


def crawl_raw(start: str) -> Callable[[], int]:
    """The pages are known: nothing is read but the answers' heads and lengths."""
    import httptools

    base, _, pages = start.partition("?")
    port, got = int(base.split(":")[2].split("/")[0]), 0
    numbers = iter(range(int(pages)))

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport
            self.ended = asyncio.get_running_loop().create_future()
            self.ask()

        def ask(self) -> None:
            number = next(numbers, None)
            if number is None:
                self.transport.close()
                self.ended.set_result(None)
                return
            self.parser, self.complete = httptools.HttpResponseParser(self), False
            self.headers: dict[bytes, bytes] = {}
            self.body: list[bytes] = []
            head = f"GET /p/{number}.html HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: raw\r\n\r\n"
            self.transport.write(head.encode())

        def on_header(self, name: bytes, value: bytes) -> None:
            self.headers[name] = value

        def on_body(self, piece: bytes) -> None:
            self.body.append(piece)

        def on_message_complete(self) -> None:
            nonlocal got
            self.complete = True
            got += self.parser.get_status_code() == 200

        def data_received(self, data: bytes) -> None:
            self.parser.feed_data(data)
            if self.complete:
                self.ask()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = [await loop.create_connection(Protocol, "127.0.0.1", port) for _ in range(CONCURRENCY)]
        await asyncio.gather(*(protocol.ended for _, protocol in made))

    def run() -> int:
        asyncio.run(main())
        return got

    return run


CRAWLERS = {"ours": crawl_ours, "scrapy": crawl_scrapy, "raw": crawl_raw}


def measured(name: str, start: str) -> None:
    """Crawl in this process and print what it took, imports left out, as JSON."""
    run = CRAWLERS[name](start)
    before = peak_memory()
    cpu, begun = time.process_time(), time.perf_counter()
    pages = run()
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begun
    found = {"pages": pages, "cpu": cpu, "seconds": seconds, "before": before, "peak": peak_memory()}
    print(json.dumps(found))


def peak_memory() -> float:
    """The most that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform != "darwin" else 1 << 20
    )


# --- the comparison -----------------------------------------------------------------------------------------


def crawl(name: str, base: str, pages: int) -> dict[str, float]:
    start = f"{base}?{pages}" if name == "raw" else f"{base}/p/0.html"
    command = [sys.executable, __file__, "--crawl", name, start]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800).stdout
    with urllib.request.urlopen(f"{base}/hits") as answer:
        hits, distinct = json.load(answer)
    found: dict[str, float] = json.loads(said.strip().splitlines()[-1])
    assert found["pages"] == hits == distinct == pages, f"{name}: {found['pages']} pages, {hits} requests"
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--crawl", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve is not None:
        serve(args.serve)
        return
    if args.crawl is not None:
        measured(*args.crawl)
        return
    command = [sys.executable, __file__, "--serve", str(args.pages)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        base = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        try:
            rounds = [{name: crawl(name, base, args.pages) for name in CRAWLERS} for _ in range(args.rounds)]
        finally:
            server.terminate()
    print(
        f"{args.pages} pages of {len(page(9, args.pages)) / 1e3:.0f} KB, {CONCURRENCY} at once, best of"
        f" {args.rounds} rounds"
    )
    best = {name: min((r[name] for r in rounds), key=lambda found: found["cpu"]) for name in CRAWLERS}
    for name, found in best.items():
        cpu, seconds = found["cpu"], found["seconds"]
        print(
            f"{name:>6}: {args.pages / cpu:8.0f} pages/CPU s  {args.pages / seconds:7.0f} pages/s"
            f"  {cpu:6.2f} CPU s  peak {found['peak']:4.0f} MB ({found['before']:.0f} before)"
        )
    ratio = best["scrapy"]["cpu"] / best["ours"]["cpu"]
    wall = best["scrapy"]["seconds"] / best["ours"]["seconds"]
    print(f"ours to Scrapy: {ratio:.1f} per CPU second, {wall:.1f} per second (wanted: {MIN_RATIO})")
    if ratio < MIN_RATIO:
        sys.exit(1)


if __name__ == "__main__":
    main()
