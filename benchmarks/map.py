"""When the map of the whole graph is drawn, over homes that have been ingested.

    python benchmarks/map.py HOME...

Each home, and several of them as one graph, is served by ``taboot browse``'s application and opened in a new
context of Chromium, which has cached nothing: the times are from the start of the navigation to the first
contentful paint of the page, and until Cytoscape has drawn all nodes. All that is named is shown, not only
what is related. Then it is moved and zoomed for a second, and the frames are counted.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
from browse import CHROMIUM, PAINTED, TOKEN, start
from playwright.sync_api import Browser, sync_playwright

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import load_settings

BAR_MS, BAR_NODES, RUNS = 500, 2000, 7
DRAWN = """() => new Promise((done) => {
  const look = () => {
    const marks = ["sketch", "map"].map((name) => performance.getEntriesByName(name)[0]);
    marks[1] ? done(marks.map((mark) => mark.startTime)) : setTimeout(look, 10);
  };
  look(); })"""
FRAMES = """async () => {
  const canvas = document.querySelector(".canvas"), box = canvas.getBoundingClientRect();
  const ends = performance.now() + 1000;
  let frames = 0;
  while (performance.now() < ends) {
    canvas.querySelector("canvas").dispatchEvent(new WheelEvent("wheel", {
      bubbles: true, cancelable: true, deltaY: frames % 20 < 10 ? -40 : 40,
      clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 }));
    await new Promise(requestAnimationFrame);
    frames++;
  }
  return frames; }"""


class Together:
    """Several knowledge bases as one: the tables that the map is made of, each node once."""

    def __init__(self, all_: list[KnowledgeBase]) -> None:
        self._all, self.settings, self.namespace = all_, all_[0].settings, "together"
        self.manifest = all_[0].manifest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._all[0], name)

    def documents(self) -> pa.Table:
        return pa.concat_tables([kb.documents() for kb in self._all])

    def edges(self) -> pa.Table:
        return pa.concat_tables([kb.edges() for kb in self._all])

    def nodes(self) -> pa.Table:
        table = pa.concat_tables([kb.nodes() for kb in self._all])
        seen = {(r["label"], r["key"]): n for n, r in enumerate(table.select(["label", "key"]).to_pylist())}
        return table.take(sorted(seen.values()))


def measure(browser: Browser, name: str, kb: Any) -> None:
    server, port = start(kb)
    painted, boxes, drawn, busy, frames, nodes = [], [], [], [], 0, ""
    for _ in range(RUNS):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": f"taboot-{port}", "value": TOKEN, "url": f"http://127.0.0.1:{port}"}])
        page = context.new_page()
        # Its main thread's time on a core, which is the same on a machine that is busy with other things.
        told = context.new_cdp_session(page)
        told.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(f"http://127.0.0.1:{port}/map?named=1")
        painted.append(page.evaluate(PAINTED))
        for times, time in zip((boxes, drawn), page.evaluate(DRAWN), strict=True):
            times.append(time)
        values = {m["name"]: m["value"] for m in told.send("Performance.getMetrics")["metrics"]}
        busy.append(values["TaskDuration"] * 1000)
        nodes = page.locator("h1").inner_text()
        frames = page.evaluate(FRAMES)
        context.close()
    server.should_exit = True
    print(
        f"{name}: {nodes}: first paint {statistics.median(painted):.0f} ms, all boxes"
        f" {statistics.median(boxes):.0f} ms (bar {BAR_MS} at {BAR_NODES} nodes), by Cytoscape"
        f" {statistics.median(drawn):.0f} ms ({statistics.median(busy):.0f} ms of a core), {frames} frames/s"
    )


def main(homes: list[str]) -> None:
    all_ = [KnowledgeBase.open(settings=load_settings(home=Path(h)), read_only=True) for h in homes]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for home, kb in zip(homes, all_, strict=True):
            measure(browser, Path(home).parent.name, kb)
        if len(all_) > 1:
            measure(browser, "together", Together(all_))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
