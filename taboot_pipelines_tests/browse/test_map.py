"""The map of the whole graph: where everything stands, and what a person does with it in a browser."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from starlette.testclient import TestClient

from taboot_pipelines.browse import rendering
from taboot_pipelines.browse.map import whole_graph
from taboot_pipelines.browse.rendering import to
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.browse.hostile import HostileBase
from taboot_pipelines_tests.browse.house import REDIS, Served
from taboot_pipelines_tests.browse.test_in_chromium import addresses, opened
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

WIDTH, HEIGHT = 156, 34


class Crowd(HostileBase):
    """As many nodes of all kinds as a large house has, some of them related, at random."""

    KINDS = ("Service", "Container", "Image", "Network", "Host", "IP", "ReverseProxy", "Endpoint", "Other")

    def __init__(self, count: int) -> None:
        super().__init__("x", [str(n) for n in range(count)])
        chance = random.Random(count)
        self._kinds = [chance.choice(self.KINDS) for _ in range(count)]
        self._scopes = [chance.choice(["a/one", "a/two", "b", None]) for _ in range(count)]
        self._ends = [(chance.randrange(count), chance.randrange(count)) for _ in range(count // 3)]

    def nodes(self) -> Any:
        table = super().nodes()
        for name, values in (("label", self._kinds), ("scope", self._scopes)):
            table = table.set_column(table.schema.get_field_index(name), name, [values])
        return table

    def edges(self) -> Any:
        table = super().edges().slice(0, len(self._ends))
        for side, end in (("start", 0), ("end", 1)):
            at = [e[end] for e in self._ends]
            for name, values in (("label", [self._kinds[n] for n in at]), ("key", [str(n) for n in at])):
                column = f"{side}_{name}"
                table = table.set_column(table.schema.get_field_index(column), column, [values])
        return table


@pytest.mark.parametrize("count", [1, 7, 120, 2000])
def test_everything_has_a_place_of_its_own(count: int) -> None:
    graph = whole_graph(Crowd(count))  # type: ignore[arg-type]
    assert len(graph["nodes"]) == count
    # No two boxes lie over one another: none of a grid as fine as they are holds two that overlap.
    places = sorted(tuple(n["at"]) for n in graph["nodes"])
    for n, (x1, y1) in enumerate(places):
        for x2, y2 in places[n + 1 : n + 400]:
            if x2 - x1 >= WIDTH:
                break
            assert abs(y1 - y2) >= HEIGHT, ((x1, y1), (x2, y2))
    boxes = [g["box"] for g in graph["groups"]]
    for n, (x, y, w, h) in enumerate(boxes):
        assert all(x + w <= a or a + c <= x or y + h <= b or b + d <= y for a, b, c, d in boxes[n + 1 :])
    for node in graph["nodes"]:
        x, y = node["at"]
        kind = graph["kinds"][node["kind"]]
        if node["group"] >= 0:
            left, top, w, h = boxes[node["group"]]
            assert left < x - WIDTH / 2 and x + WIDTH / 2 < left + w and top < y - HEIGHT and y < top + h
        elif kind in ("ReverseProxy", "Endpoint"):
            assert all(x + WIDTH / 2 < box[0] for box in boxes)
        else:
            assert kind in ("Host", "IP") and all(x - WIDTH / 2 > box[0] + box[2] for box in boxes[:1])


def test_the_house_is_on_it_with_its_facts(kb: KnowledgeBase, client: TestClient) -> None:
    graph = whole_graph(kb)
    names = {graph["kinds"][n["kind"]] + " " + n["name"]: n for n in graph["nodes"]}
    redis = names["Service redis"]
    assert redis["scope"] == graph["groups"][redis["group"]]["name"] == "hearth.lan/household"
    ends = {
        (graph["nodes"][e["start"]]["name"], e["type"], graph["nodes"][e["end"]]["name"]): e
        for e in graph["edges"]
    }
    stated = kb.neighbors("redis", types=["DEPENDS_ON"]).edges
    assert {e.edge_id for e in stated} & {e["id"] for e in ends.values()}
    assert not any("MENTIONS" in e for e in ends), "a thing that is only named has no line"
    # What runs one service of a project stands with it.
    (image,) = {n["group"] for key, n in names.items() if key.startswith("Image") and "redis" in key}
    assert image == redis["group"]
    assert {s for n in graph["nodes"] for s in n["sources"]} == set(range(len(graph["sources"])))
    told = client.get("/map").text
    assert told.count("data-graph") == 1
    # How much of it is drawn, how much is not, and how that is seen.
    whole, named = len(graph["nodes"]), sum(not n["linked"] for n in graph["nodes"])
    drawn = f'<span id="drawn">{whole - named:,}</span> of {whole:,} things drawn'
    assert 0 < named < whole and drawn in told and f"({named:,}) is left out" in told
    more = client.get("/map?named=1").text
    assert f'<span id="drawn">{whole:,}</span> of' in more and '<span id="rest" hidden>' in more


def test_a_crowded_project_is_parted_by_its_networks(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    units = world.source("units", host="attic", interpret=True)
    for n in range(24):
        networks = ["all", *(["photos"] if n < 4 else ["mail"] if n < 6 else [])]
        lines = "".join(f"Network={name}.network\n" for name in networks if n < 20)
        (units / f"app{n:02}.container").write_text(f"[Container]\nImage=example/app{n:02}:1\n{lines}")
    for name in ("all", "photos", "mail"):
        (units / f"{name}.network").write_text("[Network]\n")
    world.ingest()
    graph = whole_graph(world.kb())
    groups = [g["name"].partition(": ")[2] for g in graph["groups"]]
    found: dict[str, set[str]] = defaultdict(set)
    for node in graph["nodes"]:
        found[groups[node["group"]] if node["group"] >= 0 else "-"].add(node["name"].rpartition("/")[2])
    for network, numbers in (("photos", range(4)), ("mail", range(4, 6))):
        # Each with its container and its image.
        own = {
            f"{kind}app{n:02}{tag}" for n in numbers for kind, tag in (("", ""), ("systemd-", ""), ("", ":1"))
        }
        assert found[f"systemd-{network}"] == {f"systemd-{network}", *own}
    assert "app10" in found["systemd-all"] and "app22" in found[""]
    world.workspace.close()


def test_without_the_extra_it_says_so(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in (("labextension/static/none.js", "0" * 64), (rendering._CYTOSCAPE[0], "0" * 64)):
        monkeypatch.setattr(rendering, "_CYTOSCAPE", missing)
        rendering.static_bytes.cache_clear()
        answer = client.get("/map")
        assert answer.status_code == 501 and "E_EXTRA" in answer.text, "a file that is another is not served"
        assert "taboot-pipelines[map]" in answer.text
    monkeypatch.undo()
    rendering.static_bytes.cache_clear()
    assert client.get("/map").status_code == 200


@pytest.fixture
def page(context: BrowserContext, served: Served) -> Iterator[Page]:
    yield from opened(context, served)


def drawn(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_function("performance.getEntriesByName('map').length > 0")


@pytest.mark.ui
@pytest.mark.alone_with("house")
def test_found_picked_walked_and_opened(page: Page, served: Served, shoot: Callable[..., None]) -> None:
    drawn(page, f"{served.base}/map")
    shoot(page, "map")
    facts = page.locator("#facts")
    page.locator("#find").fill("redis")
    expect(facts).to_contain_text("found")
    page.keyboard.press("Enter")
    expect(facts.locator("h2")).to_contain_text("Service redis")
    # To what it is related to, by a name in the list and by an arrow.
    page.goto(served.base + to("/map", label="Service", key=REDIS))
    expect(facts.locator("h2")).to_contain_text("Service redis")
    expect(facts).to_contain_text("DEPENDS_ON")
    other = facts.locator("li button").first.inner_text()
    facts.locator("li button").first.click()
    expect(facts.locator("h2")).to_contain_text(other)
    page.locator(".canvas").focus()
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    named = facts.locator("h2 a").inner_text()
    shoot(page, "map-picked")
    page.keyboard.press("Enter")
    page.wait_for_url("**/node?**")
    expect(page.locator("h1")).to_contain_text(named)
    # And back, with it picked out.
    page.get_by_role("link", name="On the map").click()
    expect(page.locator("#facts h2")).to_contain_text(named)
    page.locator(".canvas").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#facts")).to_contain_text("Click or tap a thing")
    # A fact of the list leads to its proof.
    page.goto(served.base + to("/map", label="Service", key=REDIS))
    page.locator("#facts li a").first.click()
    page.wait_for_url("**/edge/**")


@pytest.mark.ui
@pytest.mark.alone_with("house")
def test_filters_take_away_and_bring_back(page: Page, served: Served) -> None:
    drawn(page, f"{served.base}/map?named=1")
    facts, find = page.locator("#facts"), page.locator("#find")

    def found(words: str) -> tuple[int, int]:
        find.fill("")
        find.fill(words)
        said = facts.inner_text().split()
        return int(said[0]), int(said[2]) if "more" in said else 0

    everything = found("redis")
    assert everything[0] > 1 and everything[1] == 0
    shown, rest = page.locator("#drawn"), page.locator("#rest")
    all_of_it = int(shown.inner_text())
    expect(rest).to_be_hidden()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Service", exact=False).first.uncheck()
    fewer = found("redis")
    assert 0 < fewer[0] < everything[0] and sum(fewer) == everything[0]
    for box in page.locator("input[name=source]").all():
        box.uncheck()
    assert found("redis") == (0, everything[0])
    page.get_by_label("Service", exact=False).first.check()
    for box in page.locator("input[name=source]").all():
        box.check()
    assert found("redis") == everything
    expect(shown).to_have_text(str(all_of_it))
    page.get_by_label("what is only named").uncheck()
    assert int(shown.inner_text()) < all_of_it
    expect(rest).to_be_visible()
    assert found("a")[1] > 0


@pytest.mark.ui
@pytest.mark.alone_with("house")
def test_on_a_phone_names_can_be_read_and_touched(
    chromium: Browser, served: Served, shoot: Callable[..., None]
) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    for page in opened(context, served):
        drawn(page, f"{served.base}/map")
        # It begins at something as large as a finger.
        canvas = page.locator(".canvas").bounding_box()
        assert canvas is not None
        page.touchscreen.tap(canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 2)
        expect(page.locator("#facts h2")).to_be_visible()
        shoot(page, "map-phone")
        # The picture of a node that is wider than the screen begins with the node.
        page.goto(served.base + to("/node", label="Service", key=REDIS))
        middle = page.locator(".picture rect[stroke]").bounding_box()
        assert middle is not None and middle["x"] >= 0 and middle["x"] + middle["width"] <= 390
    context.close()


#: Rules of WCAG 2.2 A and AA that a machine can see.
WCAG = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "resultTypes": ["violations"],
}


def violations(page: Page) -> list[tuple[str, list[str]]]:
    import axe_playwright_python

    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate(Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text())
    found = page.evaluate("rules => axe.run(document, rules)", WCAG)["violations"]
    return [(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found]


@pytest.mark.ui
@pytest.mark.alone_with("house")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(
    chromium: Browser,
    served: Served,
    kb: KnowledgeBase,
    scheme: Any,
    shoot: Callable[..., None],
    tmp_path: Path,
) -> None:
    """No page of the browser or of the handbook breaks a rule that a machine can see."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    for page in opened(context, served):
        # The other pages have the same markup in the dark, and their contrast has a test of its own.
        others = addresses(kb) if scheme == "light" else []
        for url in ("/map", to("/map", label="Service", key=REDIS), *others):
            page.goto(served.base + url)
            assert not violations(page), url
            if "/map" in url:
                shoot(page, f"map-{scheme}")
        # It would say so.
        page.evaluate("document.querySelector('main').append(document.createElement('img'))")
        assert violations(page)
    book = kb.handbook(tmp_path / "book").path
    page = context.new_page()
    for name in ("index", "routes", "services/forge.gitea", "hosts/hearth.lan", "runbooks/upgrade-gitea"):
        page.goto((book / f"{name}.html").as_uri())
        assert not violations(page), name
        shoot(page, f"handbook-{name.rpartition('/')[2]}-{scheme}")
    context.close()
