"""The page's search beside ``KnowledgeBase.search`` alone, at 100k chunks, and the first paint of its pages.

    python benchmarks/browse.py [CHUNKS] [QUERIES]

Chunks, queries and the given vectors are those of ``search_100k.py``, so no embedder is timed. The page is
asked by HTTP on loopback, by one connection, as a browser does; its time is from the first byte of the
request to the last of the answer. First paint is Chromium's own ``first-contentful-paint``, of pages that
nobody has looked at before; it is left out where there is no Chromium.
"""

from __future__ import annotations

import http.client
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import uvicorn
from kb_fixture import Given, shard_input
from search_100k import SHARES, SPACE, make, show, timed

from taboot_pipelines.browse.app import make_app, take_port
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import load_settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.publish import publish

CHROMIUM = os.environ.get("TABOOT_TEST_BROWSER", "/usr/bin/chromium")
TOKEN = "token"
PAINTED = """() => new Promise((done) => new PerformanceObserver((list) => {
  for (const e of list.getEntries()) if (e.name === "first-contentful-paint") done(e.startTime);
}).observe({ type: "paint", buffered: true }))"""


def main(chunks: int, count: int) -> None:
    texts, vectors = make(chunks)
    rng = np.random.default_rng(11)
    picked = rng.integers(0, chunks, count)
    queries = [" ".join(rng.choice(texts[int(p) // 10].text.split(), 8)) for p in picked]
    targets = vectors[picked] + rng.standard_normal((count, SPACE.dimension)).astype(np.float32) * 0.03
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as home:
        settings = load_settings(home=Path(home))
        sources = {s: {"type": "files", "tags": [s]} for s in SHARES}
        publish(open_shards(settings), shard_input(texts, SPACE, sources), settings.shards)
        embedder = Given(SPACE)
        kb = KnowledgeBase.open(settings=settings, embedder=embedder)
        server, port = start(kb)
        try:
            compare(kb, embedder, port, queries, targets, texts[0].doc_id)
            paint(port, queries, texts[0].doc_id)
        finally:
            server.should_exit = True


def start(kb: KnowledgeBase) -> tuple[uvicorn.Server, int]:
    taken = take_port(0)
    port = taken.getsockname()[1]
    app = make_app(kb, TOKEN, "once", port)
    server = uvicorn.Server(
        uvicorn.Config(app, http="h11", lifespan="off", log_config=None, access_log=False)
    )
    threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    begun = time.perf_counter()
    app.state.warm()
    print(f"what the server warms up with when it starts: {time.perf_counter() - begun:.1f} s")
    return server, port


def compare(
    kb: KnowledgeBase, embedder: Given, port: int, queries: list[str], targets: np.ndarray, doc_id: str
) -> None:
    """Each query is asked of both; no result is one that was asked for before."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def get(url: str) -> bytes:
        connection.request("GET", url, headers={"cookie": f"taboot-{port}={TOKEN}"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body

    def alone(i: int) -> None:
        embedder.next = targets[i]
        kb.search(queries[i], 10, cache=False)

    sizes = []

    def page(i: int, rest: str = "") -> None:
        embedder.next = targets[i]
        sizes.append(len(get(f"/search?q={quote(queries[i])}{rest}")))

    for i in range(min(20, len(queries))):
        alone(i)
    # One after the other, so that both have the same share of a busy machine; each is first as often.
    times: dict[str, list[float]] = {"alone": [], "page": []}
    for i in range(len(queries)):
        for name, work in (("alone", alone), ("page", page))[:: 1 if i % 2 else -1]:
            times[name].append(timed(lambda _, i=i, work=work: work(i), 1)[0])
    search = show("kb.search alone", np.array(times["alone"]))
    shown = show("the page's search", np.array(times["page"]))
    print(f"the page beside kb.search: {shown - search:.1f} ms more, {np.mean(sizes) / 1000:.0f} kB")
    kb.clear_cache()
    show("the page's search, one source of a tenth", timed(lambda i: page(i, "&source=tenth"), len(queries)))
    kb.clear_cache()
    asked = min(50, len(queries))
    show("the page's search and an answer", timed(lambda i: page(i, "&ask=1"), asked))
    show("a document", timed(lambda _: get(f"/document/{doc_id}?at=0-200"), 20))
    show("the overview", timed(lambda _: get("/"), 20))


def paint(port: int, queries: list[str], doc_id: str) -> None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("first paint: playwright is not installed")
        return
    if not Path(CHROMIUM).exists():
        print(f"first paint: there is no Chromium at {CHROMIUM}")
        return
    base = f"http://127.0.0.1:{port}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for name, urls in {
            "the overview": ["/"] * 5,
            "a search": [f"/search?q={quote(q)}" for q in queries[-10:]],
            "a document": [f"/document/{doc_id}?at=0-200"] * 5,
        }.items():
            # A context has no cache yet: its first page loads style and script too.
            times = []
            for url in urls:
                context = browser.new_context()
                context.add_cookies([{"name": f"taboot-{port}", "value": TOKEN, "url": base}])
                page = context.new_page()
                page.goto(base + url)
                times.append(page.evaluate(PAINTED))
                context.close()
            show(f"first paint, {name}", np.array(times))
        browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, int(sys.argv[2]) if len(sys.argv) > 2 else 200)
