"""``taboot browse`` as a person meets it: in a browser, by the keyboard, on a phone, in the dark."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from taboot_pipelines.browse.rendering import to
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.browse.house import REDIS, House, Served

pytestmark = [pytest.mark.ui, pytest.mark.alone_with("house")]

QUESTION = "Which port does Grafana listen on?"
HERE = Path(__file__).parent
CONTRAST = (HERE / "contrast.js").read_text()
OVERPRINTED = (HERE / "overprinted.js").read_text()
#: Where the focused link of a picture leads, and how wide what shows the focus is.
FOCUSED = """(({activeElement: a}) => a.closest('.picture') &&
    [a.getAttribute('href'), getComputedStyle(a.querySelector('rect')).strokeWidth])(document)"""
OTHER_SITE = (HERE / "other_site.js").read_text()


@pytest.fixture
def page(context: BrowserContext, served: Served) -> Iterator[Page]:
    """A page that has been opened. It asks nobody else for anything, and breaks no rule of its policy."""
    yield from opened(context, served)


def opened(context: BrowserContext, served: Served) -> Iterator[Page]:
    asked: set[str] = set()
    wrong: list[str] = []
    context.on("request", lambda r: asked.add("/".join(r.url.split("/")[:3])))
    # What a page still fetches is aborted when the next one is opened.
    context.on(
        "requestfailed",
        lambda r: (
            wrong.append(f"failed {r.url}: {r.failure}")
            if "static" in r.url and r.failure != "net::ERR_ABORTED"
            else None
        ),
    )
    context.on(
        "console",
        lambda m: (
            wrong.append(m.text) if m.type in ("error", "warning") and "status of" not in m.text else None
        ),
    )
    context.on("weberror", lambda e: wrong.append(str(e.error)))
    page = context.new_page()
    page.goto(served.address)
    assert page.url == f"{served.base}/"
    yield page
    assert asked == {served.base} and not wrong, (asked, wrong)


def addresses(kb: KnowledgeBase) -> list[str]:
    grafana = kb.answer(QUESTION).citations[0]
    site = next(d for d in kb.documents().to_pylist() if d["path"] == "index.html")
    mail = next(d for d in kb.documents().to_pylist() if d["source"] == "mail")
    edge = kb.neighbors("redis", types=["DEPENDS_ON"]).edges[0]
    return [
        "/",
        to("/search", q=QUESTION),
        to("/search", q="restore a database", scores="1", tag="docs"),
        to("/search", q="When will Authelia be upgraded?"),
        to(f"/document/{grafana.doc_id}", at=f"{grafana.start}-{grafana.end}"),
        to(f"/document/{site['doc_id']}", at="20-60"),
        f"/document/{mail['doc_id']}",
        f"/document/{grafana.doc_id}/life",
        to("/node", label="Service", key=REDIS),
        to("/node", label="Host", key="hearth.lan"),
        f"/edge/{edge.edge_id}",
        "/nodes?label=Network",
        "/sources",
        "/source/stacks",
        "/drift",
        "/dead-letters",
        "/keys",
        "/nowhere",
    ]


def test_search_open_a_citation_walk_two_hops_see_a_proof(
    page: Page, served: Served, shoot: Callable[..., None]
) -> None:
    page.get_by_role("searchbox").fill(QUESTION)
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".answer .said")).to_contain_text("publishes port 3010/tcp")
    assert urlsplit(page.url).query == f"q={quote(QUESTION).replace('%20', '+')}" and "token" not in page.url
    shoot(page, "answer")

    # The citation: the line of the file, marked and in view.
    page.locator(".citations a").first.click()
    line = page.locator("li.cited")
    expect(line).to_have_count(1)
    expect(line).to_contain_text('- "3010:3000"')
    expect(line).to_be_in_viewport()
    expect(page.locator("aside")).to_contain_text("line 106")
    shoot(page, "document")

    # What the document names, and from there by the picture, twice.
    page.locator("aside a.chip").filter(has_text="Service grafana").click()
    expect(page.locator("h1")).to_contain_text("grafana")
    page.locator(".picture a[href^='/node']").filter(has_text="prometheus").first.click()
    expect(page.locator("h1")).to_contain_text("prometheus")
    page.locator(".picture a[href^='/node']").filter(has_text="Host").first.click()
    expect(page.locator("h1")).to_contain_text("hearth.lan")
    shoot(page, "graph")

    # The proof of an edge of the picture, which says what is on it.
    page.locator(".picture a[href^='/edge']").filter(has_text="192.168.20.10:53→53/tcp").click()
    expect(page.locator(".quote mark")).to_contain_text("53:53/tcp")
    expect(page.locator("main")).to_contain_text("Why these ends")
    shoot(page, "proof")
    page.get_by_role("link", name="in the document").click()
    expect(page.locator("li.cited")).to_contain_text("53:53/tcp")


def test_filters_narrow_and_go(page: Page, served: Served) -> None:
    page.goto(f"{served.base}/search?q=redis")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("runbooks").check()
    page.get_by_label("from", exact=True).fill("2026-01-01")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url(f"{served.base}/search?q=redis&source=runbooks&date_from=2026-01-01")
    places = page.locator(".hit .place").all_text_contents()
    assert places and all(p.startswith("runbooks:") for p in places)
    page.get_by_role("link", name="source runbooks").click()
    page.wait_for_url(f"{served.base}/search?q=redis&date_from=2026-01-01")
    page.get_by_role("link", name="Next 10").click()
    expect(page.locator(".resultbar")).to_contain_text("from the first")


def test_by_the_keyboard_alone(page: Page, served: Served, kb: KnowledgeBase) -> None:
    page.goto(f"{served.base}/sources")
    page.keyboard.press("/")
    page.keyboard.type("restore a database from backup/now")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?**")
    assert page.locator("#q").input_value() == "restore a database from backup/now"
    hits = page.locator(".hit h2 a")
    for key, number in (("j", 0), ("j", 1), ("ArrowDown", 2), ("k", 1), ("ArrowUp", 0), ("k", 0)):
        page.keyboard.press(key)
        expect(hits.nth(number)).to_be_focused()
    wanted = hits.nth(0).get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url("**/document/**")
    assert page.url == f"{served.base}{wanted}"
    page.keyboard.press("p")
    page.wait_for_url("**/search?**")
    page.keyboard.press("n")
    page.wait_for_url("**cursor=**")
    page.keyboard.press("?")
    page.wait_for_url("**/keys")
    page.keyboard.press("g")
    page.wait_for_url(f"{served.base}/")
    # The box has the focus there; down leads out of it.
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()

    # The links of the picture are reached by Tab, with a visible focus.
    page.goto(served.base + to("/node", label="Service", key=REDIS))
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused:
            assert focused[1] == "3px"
            seen.add(focused[0])
    assert {href.split("?")[0].split("/")[1] for href in seen} >= {"node", "edge"}
    page.locator(".picture a").last.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/node?**")


def test_without_scripts(chromium: Browser, served: Served) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served.address)
    page.locator("#q").fill(QUESTION)
    page.keyboard.press("Enter")
    page.locator(".citations a").first.click()
    expect(page.locator("li.cited")).to_contain_text("3010:3000")
    page.goto(served.base + to("/node", label="Service", key=REDIS))
    page.locator(".picture a[href^='/edge']").first.click()
    expect(page.locator("main")).to_contain_text("Proof")
    context.close()


@pytest.mark.parametrize("width", [320, 375, 768, 1280, 1900])
def test_nothing_is_wider_than_the_screen(
    chromium: Browser, served: Served, kb: KnowledgeBase, width: int, shoot: Callable[..., None]
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 812})
    for page in opened(context, served):
        for number, url in enumerate(addresses(kb)):
            page.goto(served.base + url)
            wider = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wider <= 0, (url, wider)
            if width == 375:
                shoot(page, f"phone-{number}", full_page=True)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(
    chromium: Browser, served: Served, kb: KnowledgeBase, scheme: str, shoot: Callable[..., None]
) -> None:
    """The contrast of each text with what is beneath it is that of WCAG AA at least."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    for page in opened(context, served):
        grounds = set()
        for number, url in enumerate(addresses(kb)):
            page.goto(served.base + url)
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            found = page.evaluate(CONTRAST)
            assert len(found) > 5
            assert not [x for x in found if x["ratio"] < x["least"]], url
            grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            shoot(page, f"{scheme}-{number}", full_page=True)
        (ground,) = grounds
        dark = max(int(v) for v in ground.removeprefix("rgb(").rstrip(")").split(",")) < 60
        assert dark is (scheme == "dark")
    context.close()


def test_the_contrast_would_be_found(page: Page) -> None:
    page.evaluate("document.querySelector('h2').setAttribute('class', 'muted')")
    page.evaluate("document.styleSheets[0].insertRule('main .muted { color: #aaa !important }', 0)")
    assert [x for x in page.evaluate(CONTRAST) if x["ratio"] < x["least"]]


def test_labels_of_pictures_do_not_overprint(page: Page, served: Served, kb: KnowledgeBase) -> None:
    nodes = [n for n in kb.nodes().to_pylist() if n["label"] != "Document"]
    looked = 0
    for node in nodes[::4]:
        page.goto(served.base + to("/node", label=node["label"], key=node["key"]))
        if page.locator(".picture").count():
            assert page.evaluate(OVERPRINTED) == [], node["name"]
            looked += 1
    assert looked > 30
    page.goto(served.base + to("/node", label="Host", key="hearth.lan"))
    assert page.evaluate(OVERPRINTED) == [] and page.locator(".picture a[href^='/node']").count() > 15


def test_links_say_where_they_lead_and_fields_have_names(
    page: Page, served: Served, kb: KnowledgeBase
) -> None:
    for url in addresses(kb):
        page.goto(served.base + url)
        assert page.evaluate(
            "[...document.querySelectorAll('a, button')].filter(e => !e.textContent.trim()"
            " && !e.getAttribute('aria-label')).map(e => e.outerHTML)"
        ) == [], url  # fmt: skip
        assert page.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]), select')]"
            ".filter(e => !e.labels.length).length"
        ) == 0, url  # fmt: skip
        assert page.locator("h1").count() == 1 and page.locator("main").count() == 1
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids)), url


def test_the_token_and_the_name_of_the_host(served: Served, chromium: Browser) -> None:
    port = int(served.base.rpartition(":")[2])

    def ask(path: str, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.putrequest("GET", path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse()

    query = urlsplit(served.address).query
    assert ask("/").status == 403 and ask("/?token=wrong").status == 403
    assert ask(f"/?{query}", Host="evil.example").status == 421
    opened = ask(f"/?{query}")
    assert opened.status == 303
    cookie = (opened.getheader("set-cookie") or "").partition(";")[0]
    assert ask("/sources", Cookie=cookie).status == 200
    assert ask("/sources", Cookie=cookie, Host="evil.example:80").status == 421
    # The longest query that is read at all, and one that is not.
    answer = ask("/search?q=" + "x" * 100_001, Cookie=cookie)
    assert answer.status == 400 and b"E_QUERY" in answer.read()
    assert ask("/search?q=" + "x" * 200_000, Cookie=cookie).status in (400, 431)
    server = ask("/", Cookie=cookie)
    assert server.getheader("server") is None

    # A browser that has not opened the printed address is told to.
    context = chromium.new_context()
    page = context.new_page()
    answer_ = page.goto(f"{served.base}/search?q=redis")
    assert answer_ is not None and answer_.status == 403
    expect(page.locator("body")).to_contain_text("taboot browse")
    context.close()


def test_another_site_gets_nothing(served: Served, context: BrowserContext) -> None:
    """A page of another origin in the same browser: no frame, no image, no script, no answer to a fetch."""
    page = context.new_page()
    page.goto(served.address)
    context.route(
        "http://other.example/**", lambda r: r.fulfill(body="<p>other</p>", content_type="text/html")
    )
    other = context.new_page()
    other.goto("http://other.example/")
    told = other.evaluate(
        OTHER_SITE,
        served.base,
    )
    assert told == ["error", "error", "error", "error"]
    # Led there by a link of the other page, the browser does not send the cookie along.
    other.evaluate("base => { location.href = base + '/sources'; }", served.base)
    other.wait_for_url(f"{served.base}/sources")
    expect(other.locator("body")).to_contain_text("not open to you")


def test_reading_while_an_ingest_publishes(page: Page, served: Served, house: House) -> None:
    from taboot_pipelines.stages.running import run_chain

    page.goto(f"{served.base}/search?q=zeppelin+hangar")
    assert "zeppelin" not in (page.locator(".results").text_content() or "").lower()
    added = house.root / "sources" / "runbooks" / "zeppelin.md"
    added.write_text("# Zeppelin hangar\n\nThe zeppelin hangar is opened on Sundays, by Mara.\n")
    try:
        run_chain(house.workspace, "runbooks")
        page.reload()
        expect(page.locator(".hit").first).to_contain_text("Zeppelin hangar")
        page.locator(".hit h2 a").first.click()
        expect(page.locator("li.cited").first).to_be_visible()
        url = page.url
    finally:
        added.unlink()
        run_chain(house.workspace, "runbooks")
    answer = page.goto(f"{served.base}/keys")
    answer = page.goto(url)
    assert answer is not None and answer.status == 404
    expect(page.locator(".error .code-name")).to_have_text("E_NOT_FOUND")
