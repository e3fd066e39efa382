"""Pages in the system's Chromium, from servers on loopback."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
import pytest
from PIL import Image

from taboot_pipelines.crawl import browser as browser_module
from taboot_pipelines.crawl import nss
from taboot_pipelines.crawl.browser import Browser, find_chromium
from taboot_pipelines.crawl.captures import Capture, Capturer, PageReply, events, missing, path_of
from taboot_pipelines.crawl.client import Request, Timeouts
from taboot_pipelines.crawl.fetching import Fetching
from taboot_pipelines.crawl.proxies import Proxy
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.records import Failed, Fetched, Known, NotModified
from taboot_pipelines.settings import BrowserSettings, HttpSettings
from taboot_pipelines_tests.connectors.servers import Site, send, serve
from taboot_pipelines_tests.crawl.rendered import (
    AGENT,
    LOOPBACK,
    answers,
    error,
    page,
    request,
    wait_until,
)
from taboot_pipelines_tests.crawl.socks import socks_proxy

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]
HTML = {"content_type": "text/html; charset=iso-8859-1", "etag": '"1"', "last_modified": "now"}
#: Pages that come to rest are waited for, however slow the machine is.
PATIENT = BrowserSettings(settle_seconds=60)
#: For pages that never rest, and have their words at once.
HASTY = BrowserSettings(settle_seconds=3)
PAGES: dict[str, bytes] = {
    "/": b"<!doctype html><title>Home</title><h1 id=h>\xfc</h1><script>fetch('/data').then(r => r.text())"
    b".then(t => document.body.insertAdjacentHTML('beforeend', `<p>${t}</p>`))</script>",
    "/script": b"<script>location.replace('/?from=script')</script>",
    "/meta": b"<meta http-equiv=refresh content='0;url=/?from=meta'><p>Moved</p>",
    "/reload": b"<p>Again</p><script>location.reload()</script>",
    "/post": b"<p>Form</p><form method=post action=/data></form><script>document.forms[0].submit()</script>",
    "/anchor": b"<p>Here</p><script>location.hash = '#there'; history.pushState({}, '', '/data')</script>",
    "/spin": b"<p>Busy</p><script>for (;;);</script>",
    "/dialog": b"<script>alert('x'); confirm('y'); document.write('<p>after</p>')</script>",
    "/popup": b"<p>Opens</p><script>open('/data'); open('/data2')</script>",
    "/large": b"<script>document.write('<p>' + 'x'.repeat(2000000))</script>",
    "/cookie": b"<script>document.write(`<p>${document.cookie}|${localStorage.n || ''}</p>`);"
    b"document.cookie = 'a=1'; localStorage.n = 1</script>",
    "/long": b"<body style='margin:0'><div style='height:40000px'>Long</div>",
    "/odd": b"<p id=late hidden>Late</p><script>JSON.stringify = () => 'not JSON';"
    b"setTimeout(() => { late.hidden = false }, 300)</script>",
    "/images": b"<p>Pictures</p><img src=/a.png><video src=/film></video>",
}


def site(h: BaseHTTPRequestHandler) -> None:
    path = h.path.partition("?")[0]
    if path in PAGES:
        send(h, 200, PAGES[path], **HTML)
    elif path == "/data":
        send(h, 200, "später".encode(), content_type="text/plain; charset=utf-8")
    elif path == "/compressed":
        send(h, 200, zlib.compress(b"z" * 100_000), content_type="text/plain", content_encoding="deflate")
    elif path == "/saved":
        send(h, 200, b"<p>saved", content_type="text/html", content_disposition="attachment; filename=x.html")
    elif path == "/moved":
        send(h, 307, location="/", x_kept="1")
    elif path == "/unmodified":
        send(h, 304)
    elif path == "/empty":
        send(h, 204)
    elif path == "/wanted":
        send(h, 401, b"no", www_authenticate='Basic realm="x"')
    elif path == "/slow":
        h.send_response(200)
        h.send_header("Content-Type", "text/html")
        h.end_headers()
        with suppress(OSError):
            for _ in range(100):
                h.wfile.write(b"<p>drip</p>")
                time.sleep(0.2)
        h.close_connection = True
    elif path == "/hanging":
        send(
            h, 200, b"<p>There</p><img src=/slow><script src=/slow defer></script>", content_type="text/html"
        )
    elif path == "/broken":
        h.send_response(200)
        if "html" in h.path:
            h.send_header("Content-Type", "text/html")
        h.send_header("Content-Length", "1000")
        h.end_headers()
        h.wfile.write(b"<p>half")
        h.close_connection = True
    elif path == "/heavy":
        body = b"<p>Heavy</p>" + b"<img src='/block'>" * 1
        send(h, 200, body, content_type="text/html")
    elif path == "/block":
        # An image that Chromium has to load whole: what is no picture it gives up at the first bytes.
        svg = b"<svg xmlns='http://www.w3.org/2000/svg'><!--" + b"x" * 3_000_000 + b"--></svg>"
        send(h, 200, svg, content_type="image/svg+xml")
    else:
        send(h, 404, b"<p>no</p>", content_type="text/html")


@pytest.fixture(scope="module")
def pages() -> Iterator[Site]:
    with serve(site) as found:
        yield found


@pytest.fixture(scope="module")
def client() -> Iterator[Browser]:
    with closing(Browser(PATIENT, LOOPBACK)) as made:
        yield made


@pytest.fixture(scope="module")
def hasty() -> Iterator[Browser]:
    with closing(Browser(HASTY, LOOPBACK)) as made:
        yield made


def test_a_page_is_what_its_scripts_made_of_it(client: Browser, pages: Site) -> None:
    reply = page(client, f"{pages.base}/", headers=(*AGENT, ("If-None-Match", '"1"')))
    assert reply.status == 200
    text = reply.body.decode()
    assert text.startswith("<!DOCTYPE html>\n<html>")
    assert '<h1 id="h">ü</h1>' in text
    assert "<p>später</p>" in text
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert not {"etag", "last-modified", "content-length"} & set(reply.headers)
    assert (reply.address, reply.http_version) == ("127.0.0.1", "1.1")
    sent = dict(pages.headers)["/"]
    assert sent["user-agent"] == "taboot-test"
    assert "if-none-match" not in sent


@pytest.mark.parametrize(
    ("path", "status", "location"),
    [
        ("/moved", 307, "/"),
        ("/script", 302, "{base}/?from=script"),
        ("/meta", 302, "{base}/?from=meta"),
        ("/unmodified", 304, None),
        ("/empty", 204, None),
        ("/none", 404, None),
        ("/wanted", 401, None),
    ],
)
def test_an_answer_that_is_no_page_is_handed_back(
    client: Browser, pages: Site, path: str, status: int, location: str | None
) -> None:
    before = pages.hits["/"]
    reply = page(client, pages.base + path)
    assert (reply.status, reply.body) == (status, b"")
    assert reply.headers.get("location") == (location.format(base=pages.base) if location else None)
    assert pages.hits["/"] == before


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/reload", b"Again"),
        ("/post", b"Form"),
        ("/anchor", b"Here"),
        ("/dialog", b"after"),
        ("/popup", b"Opens"),
        ("/hanging", b"There"),
    ],
)
def test_what_a_page_does_besides_does_not_lose_it(
    hasty: Browser, pages: Site, path: str, words: bytes
) -> None:
    reply = page(hasty, pages.base + path)
    assert reply.status == 200
    assert words in reply.body


def test_what_is_no_html_comes_as_it_is(client: Browser, pages: Site) -> None:
    assert page(client, f"{pages.base}/data").body == "später".encode()
    assert page(client, f"{pages.base}/compressed").body == b"z" * 100_000
    assert page(client, f"{pages.base}/saved").body == b"<p>saved"
    assert error(client, f"{pages.base}/compressed", max_bytes=1000).code == "E_TOO_LARGE"
    assert page(client, f"{pages.base}/compressed", max_bytes=1000, cut=True).body == b"z" * 1000

    def admit(headers: dict[str, str], url: str) -> None:
        raise TabootError("E_MIME", f"{url} is {headers['content-type']}")

    assert error(client, f"{pages.base}/", admit=admit).code == "E_MIME"


def test_pages_are_bounded_in_bytes_and_time(client: Browser, pages: Site) -> None:
    began = time.monotonic()
    found = answers(
        client,
        request(f"{pages.base}/spin", timeouts=Timeouts(5, 5, 4)),
        request(f"{pages.base}/slow", timeouts=Timeouts(5, 5, 4)),
        request(f"{pages.base}/large"),
        request(f"{pages.base}/broken"),
        request(f"{pages.base}/broken?html"),
        request(f"{pages.base}/"),
    )
    assert [getattr(x, "code", x) for x in found[:5]] == [
        "E_TIMEOUT",
        "E_TIMEOUT",
        "E_TOO_LARGE",
        "E_NETWORK",
        "E_NETWORK",
    ]
    assert isinstance(found[5], PageReply)
    assert time.monotonic() - began < 200


def test_all_that_a_page_loads_is_bounded(pages: Site) -> None:
    with closing(
        Browser(BrowserSettings(max_traffic_bytes=1_000_000, settle_seconds=60), LOOPBACK)
    ) as client:
        assert error(client, f"{pages.base}/heavy", capture=Capture(screenshot=True)).code == "E_TOO_LARGE"
        assert (
            page(client, f"{pages.base}/heavy").status == 200
        )  # pictures are not loaded for the words alone
        assert page(client, f"{pages.base}/").status == 200


def test_pages_share_nothing(client: Browser, pages: Site) -> None:
    assert all(b"<p>|</p>" in page(client, f"{pages.base}/cookie").body for _ in range(2))


def test_headers_of_a_source_go_to_no_other_origin(client: Browser) -> None:
    def other(h: BaseHTTPRequestHandler) -> None:
        send(
            h,
            200,
            b"x",
            content_type="text/plain",
            access_control_allow_origin="*",
            access_control_allow_headers="*",
        )

    with serve(other) as foreign:

        def own(h: BaseHTTPRequestHandler) -> None:
            if h.path == "/":
                body = (
                    f"<p>Own</p><img src='{foreign.base}/img'><script src='{foreign.base}/script'></script>"
                    f"<iframe src='{foreign.base}/frame'></iframe><iframe src='/moved?3'></iframe>"
                    f"<script>fetch('/same'); fetch('/moved?1'); fetch('{foreign.base}/fetch')</script>"
                    f"<script src='/moved?2'></script>"
                )
                send(h, 200, body.encode(), content_type="text/html")
            elif h.path.startswith("/moved"):
                send(h, 302, location=f"{foreign.base}{h.path}", access_control_allow_origin="*")
            else:
                send(h, 200, b"x", content_type="text/plain")

        with serve(own) as site_:
            headers = (*AGENT, ("Authorization", "Bearer secret"), ("X-Key", "secret"))
            assert (
                page(client, f"{site_.base}/", headers=headers, capture=Capture(screenshot=True)).status
                == 200
            )
            sent = dict(site_.headers)
            assert sent["/"]["authorization"] == sent["/same"]["authorization"] == "Bearer secret"
            assert sent["/"]["x-key"] == "secret"
        assert {"/script", "/frame", "/img", "/moved?2", "/moved?3"} <= set(foreign.hits)
        assert not [path for path, found in foreign.headers if "secret" in str(found)]


def test_captures_are_taken_of_a_page(client: Browser, pages: Site, tmp_path: Path) -> None:
    capture = Capture(
        screenshot=True,
        pdf=True,
        scripts=(
            "document.title",
            "() => ({a: [1, undefined, 'ü']})",
            "await fetch('/data').then(r => r.text())",
            "undefined",
            "throw new TypeError('words of the page')",
            "no javascript at all",
        ),
        wait_seconds=0,
    )
    reply = page(client, f"{pages.base}/", capture=capture)
    assert [c.kind for c in reply.captured] == ["screenshot", "pdf", *["script"] * 6]
    picture, pdf, *values = (c.data for c in reply.captured)
    assert isinstance(picture, bytes) and isinstance(pdf, bytes)
    (tmp_path / "a.png").write_bytes(picture)
    with Image.open(tmp_path / "a.png") as image:
        assert (image.format, image.size) == ("PNG", (1280, 800))
    assert pdf.startswith(b"%PDF-")
    assert [json.loads(v) for v in values[:4] if isinstance(v, bytes)] == [
        "Home",
        {"a": [1, None, "ü"]},
        "später",
        None,
    ]
    assert [v.code for v in values[4:] if isinstance(v, TabootError)] == ["E_BROWSER"] * 2
    assert "TypeError" in str(values[4]) and "words of the page" not in str(values[4])
    again = page(client, f"{pages.base}/", capture=capture)
    assert again.body == reply.body
    assert again.captured[0].data == picture
    assert page(client, f"{pages.base}/", capture=capture, unless=sha256_hex(reply.body)).captured == ()


def test_captures_wait_and_are_bounded(hasty: Browser, pages: Site) -> None:
    def taken(path: str, **fields: object) -> list[bytes | str]:
        found = page(
            hasty, pages.base + path, capture=Capture.model_validate({"wait_seconds": 0, **fields})
        ).captured
        return [c.data if isinstance(c.data, bytes) else c.data.code for c in found]

    assert taken("/odd", wait_for="#late", scripts=["late.hidden"]) == [b"false"]
    assert taken("/odd", scripts=["({})"]) == ["E_BROWSER"]  # the page's own JSON.stringify
    assert taken("/odd", wait_for=">>", scripts=["1"], pdf=True) == ["E_CONFIG", "E_CONFIG"]
    (whole,) = taken("/long", screenshot=True)
    (first,) = taken("/long", screenshot=True, full_page=False)
    assert isinstance(whole, bytes) and isinstance(first, bytes)
    assert int.from_bytes(whole[20:24]) == 16_384
    assert int.from_bytes(first[20:24]) == 800
    assert taken("/", scripts=["'x'.repeat(2000000)"]) == ["E_TOO_LARGE"]


def test_captures_become_items_of_their_source(client: Browser, pages: Site) -> None:
    capture = Capture(screenshot=True, scripts=("1 + 1", "nothing here"), wait_seconds=0)
    url = f"{pages.base}/"
    seen: dict[str, str] = {}
    capturer = Capturer(client, capture, lambda u: seen.get(u.text))

    def visit(known: dict[str, Known]) -> list[object]:
        capturer.start(7, Request(parse_url(url), AGENT, 1_000_000, Timeouts(60, 60, 200)))
        ((ticket, reply),) = capturer.finished(240)
        assert ticket == 7 and isinstance(reply, PageReply)
        was, seen[url] = seen.get(url), sha256_hex(reply.body)
        taken = capturer.taken(url)
        assert capturer.taken(url) == ()
        same = was == seen[url]
        return list(events(capture, url, known, taken, url=url, final_url=url, page_is_known=same))

    assert missing(capture, url, {})
    picture, value, failed = visit({})
    assert isinstance(picture, Fetched) and isinstance(value, Fetched) and isinstance(failed, Failed)
    names = list(capture.names())
    assert [e.path for e in (picture, value, failed)] == [path_of(url, n) for n in names]
    assert (picture.role, picture.mime, picture.url) == ("input", "image/png", url)
    assert (value.data, value.mime) == (b"2", "application/json")
    known = {e.path: Known(sha256_hex(e.data)) for e in (picture, value)}
    assert missing(capture, url, known)
    assert visit(known)[:2] == [NotModified(picture.path, "input"), NotModified(value.path, "input")]
    other = Capture(screenshot=True, wait_seconds=1)
    assert not set(other.names()) & set(names)


def test_the_engine_follows_where_pages_lead(pages: Site) -> None:
    with Fetching(
        Browser(PATIENT, LOOPBACK), HttpSettings(retry_seconds=()), max_bytes=1_000_000
    ) as fetching:
        for path in ("/script", "/meta", "/moved"):
            answer = fetching.get(parse_url(pages.base + path))
            assert (
                answer.url.startswith(f"{pages.base}/") and answer.url.partition("?")[0] == f"{pages.base}/"
            )
            assert "<p>später</p>" in answer.body.decode()
        for path, code in (("/none", "E_NOT_FOUND"), ("/wanted", "E_FORBIDDEN")):
            with pytest.raises(TabootError) as refused:
                fetching.get(parse_url(pages.base + path))
            assert refused.value.code == code


def test_what_is_missing_is_named_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for settings in (BrowserSettings(executable=tmp_path / "none"), BrowserSettings()):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(TabootError) as refused:
            Browser(settings, [])
        assert refused.value.code == "E_CONFIG"
        assert "extra browser" in refused.value.remedy
    monkeypatch.undo()
    monkeypatch.setattr(browser_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TabootError) as refused:
        find_chromium(BrowserSettings())
    assert refused.value.code == "E_CONFIG"
    assert "taboot-pipelines[browser]" in refused.value.remedy
    monkeypatch.undo()
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    with closing(Browser(BrowserSettings(executable=broken), LOOPBACK)) as client:
        assert error(client, "http://127.0.0.1/").code == "E_BROWSER"


def test_the_sandbox_is_on_unless_the_user_is_root(
    monkeypatch: pytest.MonkeyPatch, pages: Site, tmp_path: Path
) -> None:
    said = tmp_path / "arguments"
    chromium = tmp_path / "chromium"
    chromium.write_text(f'#!/bin/sh\necho "$@" > {said}\nenv >> {said}\nexit 1\n')
    chromium.chmod(0o700)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("TABOOT_SECRET", "hidden")
    for user in (0, 1000):
        monkeypatch.setattr(browser_module.os, "geteuid", lambda user=user: user)
        with closing(Browser(BrowserSettings(executable=chromium), LOOPBACK)) as client:
            error(client, f"{pages.base}/")
        text = said.read_text()
        assert ("--no-sandbox" in text) == (user == 0)
        assert "--proxy-bypass-list=<-loopback>" in text
        assert "HTTP_PROXY" not in text and "hidden" not in text


def _processes(kind: str) -> set[psutil.Process]:
    """This process's drivers of Playwright, or the browsers that its drivers started (not their parts).

    A process has its parent's command line until it becomes another program, also where that parent is gone
    already; so a browser is known by its parent, too.
    """

    def started(parents: Iterable[psutil.Process], word: str) -> set[psutil.Process]:
        found = set()
        for parent in parents:
            with suppress(psutil.Error):
                for process in parent.children():
                    with suppress(psutil.Error):
                        if word in process.cmdline():
                            found.add(process)
        return found

    drivers = started([psutil.Process()], "run-driver")
    return drivers if kind == "driver" else started(drivers, "--remote-debugging-pipe")


class Killed:
    """A client whose Chromium is killed at a moment of a visit, and how often that was."""

    def __init__(self, kind: str = "chromium", own: Mapping[str, set[psutil.Process]] | None = None) -> None:
        self.kind = kind
        self.times = 0
        self._own = own
        self._others = _processes(kind)

    def __call__(self) -> None:
        if not self.times:
            (process,) = _processes(self.kind) - self._others if self._own is None else self._own[self.kind]
            process.kill()
            self.times += 1


class Mortal:
    """A client that outlives its Chromiums and drivers, and knows which of those that run are its own."""

    def __init__(self, client: Browser) -> None:
        self.client = client
        self.own: dict[str, set[psutil.Process]] = {}

    def page(self, url: str) -> PageReply:
        before = {kind: _processes(kind) for kind in ("chromium", "driver")}
        answer = page(self.client, url)
        for kind, others in before.items():
            if started := _processes(kind) - others:
                self.own[kind] = started
        return answer


@pytest.fixture(scope="module")
def mortal() -> Iterator[Mortal]:
    with closing(Browser(BrowserSettings(settle_seconds=100), LOOPBACK)) as made:
        yield Mortal(made)


@pytest.mark.parametrize(
    "moment",
    [
        *("new_context", "add_init_script", "new_page", "new_cdp_session"),
        *("navigation", "document", "settling", "wait_for", "screenshot", "script", "driver"),
    ],
)
def test_a_visit_hears_at_once_that_chromium_died_and_the_next_gets_another(
    moment: str, mortal: Mortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playwright import async_api

    client = mortal.client
    kill = Killed("driver" if moment == "driver" else "chromium", mortal.own)
    gone, hold = threading.Event(), threading.Event()

    def site(h: BaseHTTPRequestHandler) -> None:
        if h.path == "/kill":
            kill()
            gone.set()
            hold.wait(60)
        elif h.path == "/half":
            h.send_response(200)
            h.send_header("Content-Type", "text/html")
            h.send_header("Content-Length", "1000")
            h.end_headers()
            h.wfile.write(b"<p>half")
            h.wfile.flush()
            kill()
            gone.set()
            hold.wait(60)
        elif h.path == "/rest":
            send(h, 200, b"<p>Words</p><script>fetch('/kill')</script>", content_type="text/html")
        else:
            send(h, 200, b"<p>Words</p>", content_type="text/html")

    def killing(owner: type, name: str) -> None:
        real = getattr(owner, name)

        async def patched(self: object, *given: object, **named: object) -> object:
            if armed.is_set():
                kill()
            return await real(self, *given, **named)

        monkeypatch.setattr(owner, name, patched)

    armed = threading.Event()
    path, capture = "/", None
    if moment == "new_context":
        killing(async_api.Browser, moment)
    elif moment in ("add_init_script", "new_page", "new_cdp_session"):
        killing(async_api.BrowserContext, moment)
    elif moment in ("navigation", "driver"):
        path = "/kill"
    elif moment == "document":
        path = "/half"
    elif moment == "settling":
        path = "/rest"
    elif moment == "wait_for":
        killing(async_api.Locator, "wait_for")
        capture = Capture(screenshot=True, wait_for="#never", wait_seconds=0)
    elif moment == "screenshot":
        killing(async_api.Page, moment)
        capture = Capture(screenshot=True, pdf=True, wait_seconds=0)
    else:
        capture = Capture(scripts=("await fetch('/kill')",), wait_seconds=0)

    with serve(site) as pages:
        assert mortal.page(f"{pages.base}/").status == 200
        armed.set()
        # Its own time-outs are far away: an answer before them comes of the death.
        client.start(0, request(pages.base + path, timeouts=Timeouts(200, 200, 200), capture=capture))
        done = client.finished(100)
        assert kill.times == 1
        assert done, "nobody told the visit"
        ((_, found),) = done
        assert isinstance(found, TabootError)
        assert (found.code, found.details["again"]) == ("E_BROWSER", True)
        hold.set()
        assert mortal.page(f"{pages.base}/").status == 200


def test_all_visits_hear_that_chromium_died(pages: Site) -> None:
    kill = Killed()
    with closing(Browser(BrowserSettings(max_concurrency=3), LOOPBACK)) as client:
        spinning = pages.hits["/spin"]
        for ticket in range(3):
            client.start(ticket, request(f"{pages.base}/spin", timeouts=Timeouts(200, 200, 200)))
        wait_until(lambda: pages.hits["/spin"] == spinning + 3)
        kill()
        found = dict(client.finished(100))
        while len(found) < 3:
            some = client.finished(100)
            assert some
            found |= dict(some)
        assert {getattr(e, "code", e) for e in found.values()} == {"E_BROWSER"}


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_closing_leaves_no_process_behind(pages: Site) -> None:
    before = set(_children())
    client = Browser(PATIENT, LOOPBACK)
    spinning, dripping = pages.hits["/spin"], pages.hits["/slow"]
    client.start(0, request(f"{pages.base}/spin"))
    client.start(1, request(f"{pages.base}/slow"))
    wait_until(lambda: pages.hits["/spin"] > spinning and pages.hits["/slow"] > dripping)
    assert set(_children()) - before
    client.close()
    # Another test's browser may have started a process meanwhile.
    left = [p for p in set(_children()) - before if before.isdisjoint(p.parents())]
    psutil.wait_procs(left, timeout=60)
    assert not [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert client.finished(0) == []


def test_a_certificate_that_nobody_trusts_is_refused(client: Browser, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serve(site, context) as secure:
        found = error(client, secure.base.replace("http:", "https:") + "/")
        assert (found.code, "certificate" in found.message) == ("E_NETWORK", True)
        assert not secure.hits


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a private authority (``ca.pem``), and certificates of its: ``good`` for 127.0.0.1,
    ``other`` for another name, ``old`` that has expired, and ``false`` by an authority of the same name."""
    folder = tmp_path_factory.mktemp("house")
    for name in ("ca", "false-ca"):
        _openssl(
            *(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=House"),
            *(
                "-addext",
                "basicConstraints=critical,CA:TRUE",
                "-keyout",
                f"{name}.key",
                "-out",
                f"{name}.pem",
            ),
        )
    for name, host, days, authority in (
        ("good", "IP:127.0.0.1", "2", "ca"),
        ("other", "DNS:other.house", "2", "ca"),
        ("old", "IP:127.0.0.1", "0", "ca"),
        ("false", "IP:127.0.0.1", "2", "false-ca"),
    ):
        (folder / "ext").write_text(f"subjectAltName={host}\nextendedKeyUsage=serverAuth\n")
        _openssl(
            *(folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x"),
            *("-keyout", f"{name}.key", "-out", "csr"),
        )
        _openssl(
            *(folder, "x509", "-req", "-in", "csr", "-days", days, "-extfile", "ext", "-out", "leaf"),
            *("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial"),
        )
        # With the true authority behind it, whoever signed it.
        (folder / f"{name}.pem").write_bytes(
            (folder / "leaf").read_bytes() + (folder / "ca.pem").read_bytes()
        )
    return folder


def test_a_private_authority_is_trusted_for_what_it_signed_and_no_more(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(house / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(house / "none"))
    with closing(Browser(PATIENT, LOOPBACK)) as client:
        for name in ("other", "good", "old", "false"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(house / f"{name}.pem", house / f"{name}.key")
            with serve(site, context) as secure:
                url = secure.base.replace("http:", "https:")
                if name == "good":
                    reply = page(client, f"{url}/")
                    assert (reply.status, "<p>später</p>" in reply.body.decode()) == (200, True)
                else:
                    found = error(client, f"{url}/")
                    assert (found.code, "certificate" in found.message) == ("E_NETWORK", True), name
                    assert not secure.hits, name


def test_without_the_library_chromium_renders_with_its_own_authorities(
    house: Path, pages: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = house / "nss.py"
    broken.write_text("import sys; sys.exit('libnss3.so is not there')")
    monkeypatch.setattr(nss, "__file__", str(broken))
    monkeypatch.setenv("SSL_CERT_FILE", str(house / "ca.pem"))
    with closing(Browser(PATIENT, LOOPBACK)) as client:
        assert page(client, f"{pages.base}/").status == 200
    assert "libnss3.so is not there" in caplog.text


@contextmanager
def forward_proxy(credentials: str) -> Iterator[tuple[int, list[str]]]:
    """A proxy that opens tunnels for whoever has the credentials, and what it was asked for."""
    asked: list[str] = []

    def pump(a: socket.socket, b: socket.socket) -> None:
        with suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    def carry(peer: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += peer.recv(65536)
        target = head.split(b" ")[1].decode()
        asked.append(target)
        if base64.b64encode(credentials.encode()) not in head:
            peer.sendall(b"HTTP/1.1 407 No\r\n\r\n")
            peer.close()
            return
        host, _, port = target.rpartition(":")
        server = socket.create_connection((host, int(port)))
        peer.sendall(b"HTTP/1.1 200 Yes\r\n\r\n")
        threading.Thread(target=pump, args=(server, peer), daemon=True).start()
        pump(peer, server)

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=carry, args=(listening.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1], asked


def test_pages_go_by_a_proxy_and_names_are_checked_before(client: Browser, pages: Site) -> None:
    with forward_proxy("me:mine") as (port, asked):
        way = Proxy("http", "localhost", port, "me", "mine")
        url = pages.base.replace("127.0.0.1", "localhost")
        assert b"sp" in page(client, f"{url}/", proxy=way).body
        assert set(asked) == {f"127.0.0.1:{pages.port}"}
        found = error(client, f"{url}/", proxy=Proxy("http", "127.0.0.1", port, "me", "wrong"))
        assert (found.code, found.details["proxy"]) == ("E_PROXY", f"http://127.0.0.1:{port}")
        asked.clear()
        with closing(Browser(PATIENT, [])) as strict:
            assert error(strict, f"{url}/", proxy=way).code == "E_URL_BLOCKED"
        assert not asked


def test_pages_go_by_a_socks_proxy(client: Browser, pages: Site) -> None:
    with socks_proxy(("me", "mine")) as socks:
        url = pages.base.replace("127.0.0.1", "localhost")
        reply = page(client, f"{url}/", proxy=Proxy("socks5", "localhost", socks.port, "me", "mine"))
        assert "<p>später</p>" in reply.body.decode()
        assert set(socks.asked) == {("127.0.0.1", pages.port)}
        wrong = Proxy("socks5", "localhost", socks.port, "me", "wrong")
        assert error(client, f"{url}/", proxy=wrong).code == "E_PROXY"


def test_pictures_and_films_are_not_loaded_for_words(client: Browser, pages: Site) -> None:
    page(client, f"{pages.base}/images")
    assert not pages.hits["/a.png"] and not pages.hits["/film"]
    page(client, f"{pages.base}/images", capture=Capture(screenshot=True, wait_seconds=0))
    assert pages.hits["/a.png"] and not pages.hits["/film"]
