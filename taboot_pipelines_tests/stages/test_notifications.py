"""Notifications: what is told, that it arrives at least once, and what no endpoint can make the home do."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.notifications import DeliveryState, Endpoint, EventKind
from taboot_pipelines.stages import notifications, retention
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stores.catalog import notifications as stored
from taboot_pipelines_tests.connectors.servers import certificate
from taboot_pipelines_tests.world import World

NOTE = "# Note\n\nThe note of the night says where the cache is.\n"


class Receiver:
    """A real server on loopback that keeps what it is sent; ``answer`` says the status of each request."""

    def __init__(self, answer: Callable[[], int] = lambda: 204) -> None:
        self.answer, self.taken = answer, list[tuple[dict[str, str], bytes]]()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.answer()
                if status < 300:
                    receiver.taken.append((dict(self.headers), body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                if status == 302:
                    self.send_header("Location", receiver.url)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.taken]


@contextmanager
def receiver(answer: Callable[[], int] = lambda: 204) -> Iterator[Receiver]:
    made = Receiver(answer)
    try:
        yield made
    finally:
        made.close()


def endpoint(url: str, **fields: Any) -> Endpoint:
    kinds = [kind for kind in EventKind if kind is not EventKind.CONTENT_CHANGE]
    return Endpoint(url=url, **{"allow_private": True, "events": kinds, **fields})


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Steps the clock by which deliveries are due."""
    passed = [0.0]

    def now() -> int:
        return time.time_ns() // 1000 + int(passed[0] * 1e6)

    monkeypatch.setattr(notifications, "now_micros", now)
    monkeypatch.setattr(stored, "now_micros", now)

    def step(seconds: float) -> None:
        passed[0] += seconds

    return step


def notes(world: World, **fields: Any) -> None:
    (world.source("notes", **fields) / "note.md").write_text(NOTE)
    world.workspace.sync_sources()


def test_what_happens_to_sources_is_told_once_and_nothing_from_before(world: World) -> None:
    notes(world)
    world.ingest()
    with receiver() as server:
        endpoints = {"ops": endpoint(server.url)}

        def tell() -> list[tuple[str, str]]:
            before = len(server.taken)
            notifications.run(world.workspace, endpoints)
            return [(told["event"], told["source"]) for told in server.told()[before:]]

        assert tell() == [], "what was before the endpoint is not told to it"
        (world.directory / "notes" / "other.md").write_text("# Other\n\nAnother note of the morning.\n")
        world.ingest()
        assert tell() == [("completed", "notes")]
        world.ingest()
        assert tell() == [], "an ingest that found nothing new says nothing"

        folder = world.directory / "notes"
        folder.rename(world.directory / "away")
        with pytest.raises(TabootError, match="E_PATH"):
            world.ingest()
        assert tell() == [("failed", "notes")]
        assert server.told()[-1]["facts"]["code"] == "E_PATH"
        (world.directory / "away").rename(folder)
        world.ingest()
        tell()

        (folder / "bad.pdf").write_bytes(b"%PDF-1.4 nothing of it is right")
        world.source("notes", include=["*.md", "*.pdf"])
        world.ingest()
        assert ("dead_letter", "notes") in tell()
        (folder / "bad.pdf").unlink()

        world.source("notes", include=["nothing"])
        world.ingest()
        assert [told for told in tell() if told[0] == "held"] == [("held", "notes")]
        world.ingest()
        assert tell() == [], "what is still held is not told again"

        world.source("notes", retention_days=30)
        world.ingest()
        tell()
        at = time.time_ns() // 1000
        retention.run(world.workspace, "default", at + 24 * 24 * 3600 * 1_000_000)
        assert tell() == [("expiry", "notes")]
        assert server.told()[-1]["facts"] == {"documents": 2}
        assert len({told["id"] for told in server.told()}) == len(server.taken)


def test_documents_that_say_otherwise_are_told_and_a_new_shell_is_not(world: World) -> None:
    folder = world.source("site", include=["*.html"])
    page = "<html><!-- {} --><body><h1>Ports</h1><p>The exporter listens on port {} of every host.</p></body>"

    def write(name: str, shell: int, port: int) -> None:
        (folder / name).write_text(page.format(shell, port))

    for name in ("a.html", "b.html", "c.html"):
        write(name, 1, 9100)
    world.workspace.sync_sources()
    with receiver() as server:
        endpoints = {"ops": endpoint(server.url, events=[EventKind.CONTENT_CHANGE])}

        def told() -> list[dict[str, Any]]:
            before = len(server.taken)
            notifications.run(world.workspace, endpoints)
            return [told["facts"] for told in server.told()[before:]]

        told()
        world.ingest()
        assert told() == [], "what a source begins with is no change"
        for name in ("a.html", "b.html", "c.html"):
            write(name, 2, 9100)
        world.ingest()
        assert told() == [], "the same text in another shell"
        write("a.html", 3, 9200)
        write("b.html", 3, 9100)
        write("d.html", 1, 9300)
        (folder / "c.html").unlink()
        world.ingest()
        assert told() == [{"changed": 1, "new": 1, "gone": 1}]
        world.ingest()
        assert told() == []
        # Two runs between two looks are two events.
        write("a.html", 3, 9201)
        world.ingest()
        write("a.html", 3, 9202)
        world.ingest()
        assert told() == [{"changed": 1, "new": 0, "gone": 0}] * 2
        world.source("site", include=["*.html"], languages=["en", "de"])
        world.ingest()
        assert told() == [], "what is read in another way is no change of the source"


def test_drifts_are_told_when_a_check_first_comes_upon_them(world: World) -> None:
    notes(world)
    with receiver() as server:
        endpoints = {"ops": endpoint(server.url, events=[EventKind.DRIFT])}

        def told(*drifts: str) -> list[int]:
            before = len(server.taken)
            notifications.note_drift(world.workspace, "default", set(drifts))
            notifications.run(world.workspace, endpoints)
            return [told["facts"]["drifts"] for told in server.told()[before:]]

        assert told() == []
        assert told("a", "b") == [2]
        assert told("a", "b") == []
        assert told("b", "c") == [1]
        assert told() == []
        assert told("a") == [1], "what came back is new"


def test_endpoints_choose_what_they_are_told_and_in_which_form(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_KEY", "a-key-of-ours")
    with receiver() as signed, receiver() as slack, receiver() as ntfy, receiver() as other:
        monkeypatch.setenv("HOOK_URL", slack.url)
        endpoints = {
            "signed": endpoint(signed.url, secret="${HOOK_KEY}"),
            "slack": endpoint("${HOOK_URL}", form="slack"),
            "ntfy": endpoint(ntfy.url, form="ntfy"),
            "other": endpoint(other.url, sources=["elsewhere"]),
            "failures": endpoint(other.url, events=[EventKind.FAILED]),
        }
        notes(world)
        notifications.run(world.workspace, endpoints)
        world.ingest()
        assert notifications.run(world.workspace, endpoints).delivered == 3 and not other.taken
        ((headers, body),) = signed.taken
        # As the documentation tells a receiver to verify it.
        timestamp = headers["X-Taboot-Timestamp"]
        wanted = hmac.new(b"a-key-of-ours", timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(headers["X-Taboot-Signature"], f"sha256={wanted}")
        assert abs(time.time() - int(timestamp)) < 60
        assert headers["X-Taboot-Delivery"] == json.loads(body)["id"]
        assert "notes was read" in json.loads(slack.taken[0][1])["text"]
        headers, body = ntfy.taken[0]
        assert headers["Title"] == "taboot: completed notes" and b"notes was read" in body


def test_a_thousand_events_arrive_at_an_endpoint_that_fails_half_of_the_time_and_dies_twice(
    world: World, later: Callable[[float], None]
) -> None:
    notes(world)
    world.ingest()
    chance = random.Random(7)
    server = Receiver(lambda: 500 if chance.random() < 0.5 else 200)
    endpoints = {"ops": endpoint(server.url)}
    notifications.run(world.workspace, endpoints)
    wanted = {f"{number:032x}" for number in range(1000)}
    world.workspace.catalog.notifications.add(
        "default",
        [
            {
                "id": i,
                "endpoint": "ops",
                "kind": "failed",
                "payload": json.dumps({"id": i, "event": "failed", "summary": "", "remedy": ""}),
            }
            for i in sorted(wanted)
        ],
    )
    arrived = Counter[str]()
    for number in range(12):
        if number in {1, 3}:  # it is down for one whole pass
            server.close()
            arrived.update(told["id"] for told in server.told())
            assert notifications.run(world.workspace, endpoints).delivered == 0
            server = Receiver(server.answer)
            endpoints = {"ops": endpoint(server.url)}
        notifications.run(world.workspace, endpoints)
        later(3 * 3600)
    server.close()
    arrived.update(told["id"] for told in server.told())
    assert set(arrived) == wanted, "each at least once"
    found = world.workspace.catalog.notifications.find("default", limit=2000)
    assert {row["state"] for row in found if row["id"] in wanted} == {"delivered"}


def test_what_is_never_taken_is_tried_six_times_kept_and_replayed(
    world: World, later: Callable[[float], None]
) -> None:
    notes(world)
    status = [503]
    with receiver(lambda: status[0]) as server:
        endpoints = {"ops": endpoint(server.url)}
        notifications.run(world.workspace, endpoints)
        world.ingest()
        assert notifications.run(world.workspace, endpoints).again == 1
        for wait in notifications.RETRY_SECONDS:
            later(wait - 5)
            assert notifications.run(world.workspace, endpoints) == notifications.NotificationPass()
            later(6)
            notifications.run(world.workspace, endpoints)
        (row,) = world.workspace.catalog.notifications.find("default", [DeliveryState.FAILED])
        assert (row["attempts"], row["code"]) == (6, "503")
        later(24 * 3600)
        assert notifications.run(world.workspace, endpoints) == notifications.NotificationPass()
        status[0] = 200
        notifications.replay(world.workspace, "default", [row["id"]])
        assert notifications.run(world.workspace, endpoints).delivered == 1
        with pytest.raises(TabootError, match="E_NOT_FOUND"):
            notifications.replay(world.workspace, "default", ["0" * 32])
        later(31 * 24 * 3600)
        notifications.run(world.workspace, {})
        assert world.workspace.catalog.notifications.find("default") == []


def test_what_is_kept_for_a_month_is_not_told_again_after_it(
    world: World, later: Callable[[float], None]
) -> None:
    notes(world)
    folder = world.directory / "notes"
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4 nothing of it is right")
    with receiver() as server:
        endpoints = {"ops": endpoint(server.url)}
        notifications.run(world.workspace, endpoints)
        world.ingest()
        assert notifications.run(world.workspace, endpoints).delivered == 2
        for _ in range(3):
            later(20 * 24 * 3600)
            assert notifications.run(world.workspace, endpoints).new == 0


def test_a_failure_is_told_however_many_runs_came_after_it(world: World) -> None:
    notes(world)
    folder, away = world.directory / "notes", world.directory / "away"
    with receiver() as server:
        endpoints = {"ops": endpoint(server.url)}
        notifications.run(world.workspace, endpoints)
        folder.rename(away)
        with pytest.raises(TabootError, match="E_PATH"):
            world.ingest()
        away.rename(folder)
        for number in range(12):
            (folder / "note.md").write_text(f"{NOTE}\nTake {number}.\n")
            world.run("raw_blobs", "notes")
        notifications.run(world.workspace, endpoints)
        assert [told["event"] for told in server.told()].count("failed") == 1


def test_another_sources_file_takes_no_delivery_away(world: World, later: Callable[[float], None]) -> None:
    notes(world)
    status = [503]
    with receiver(lambda: status[0]) as server:
        endpoints = {"ops": endpoint(server.url)}
        notifications.run(world.workspace, endpoints)
        world.ingest()
        assert notifications.run(world.workspace, endpoints).again == 1
        later(3600)
        (world.directory / "notes" / "note.md").write_text(f"{NOTE}\nMeanwhile.\n")
        world.ingest()
        assert notifications.run(world.workspace, {}) == notifications.NotificationPass()
        assert notifications.run(world.workspace, {"other": endpoint(server.url)}).failed == 0
        status[0] = 200
        assert notifications.run(world.workspace, endpoints).delivered == 2


def test_a_waiting_crowd_and_a_slow_refusal_keep_no_other_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "PASS_SECONDS", 3.0)
    notes(world)

    def unwell() -> int:
        time.sleep(1.2)
        return 503

    with receiver(unwell) as slow, receiver() as quick:
        endpoints = {"a-slow": endpoint(slow.url), "quick": endpoint(quick.url)}
        notifications.run(world.workspace, endpoints)
        payload = json.dumps({"id": "i", "event": "failed", "summary": "", "remedy": ""})
        world.workspace.catalog.notifications.add(
            "default",
            [
                {"id": f"{n:032x}", "endpoint": "a-slow", "kind": "failed", "payload": payload}
                for n in range(1001)
            ],
        )
        world.ingest()
        done = notifications.run(world.workspace, endpoints)
        assert done.delivered == 1 and len(quick.taken) == 1 and done.again <= 3


def test_what_two_processes_try_at_once_is_not_made_pending_again(world: World) -> None:
    notes(world)
    stored_ = world.workspace.catalog.notifications
    payload = json.dumps({"id": "i", "event": "failed", "summary": "", "remedy": ""})
    stored_.add("default", [{"id": "i", "endpoint": "ops", "kind": "failed", "payload": payload}])
    stored_.tried("default", "i", DeliveryState.DELIVERED, 1, 0, "204")
    stored_.tried("default", "i", DeliveryState.PENDING, 1, 0, "400")
    assert [(r["state"], r["code"]) for r in stored_.find("default")] == [("delivered", "204")]


@pytest.mark.parametrize("how", ["endless", "slow"])
def test_an_answer_counts_once_its_status_is_there(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "TIMEOUT_SECONDS", 2.0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(40 if how == "slow" else 10_000):
                    self.wfile.write(b"x" * (1 if how == "slow" else 100_000))
                    time.sleep(0.1 if how == "slow" else 0)
            except OSError:
                pass

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        target = endpoint(f"http://127.0.0.1:{server.server_port}/")
        assert notifications.post(target, notifications.example()) == "200"
    finally:
        server.shutdown()
        server.server_close()


def test_a_url_that_is_not_ascii_hinders_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="RFC 3986"):
        endpoint("http://127.0.0.1/größe")
    monkeypatch.setenv("HOOK_OF_TESTS", "http://127.0.0.1/größe")
    notes(world)
    with receiver() as server:
        endpoints = {"haus": endpoint("${HOOK_OF_TESTS}"), "ops": endpoint(server.url)}
        notifications.run(world.workspace, endpoints)
        world.ingest()
        assert notifications.run(world.workspace, endpoints).delivered == 1


def test_an_endpoint_of_one_namespace_hears_of_no_other(world: World) -> None:
    notes(world)
    (world.source("theirs", namespace="bob") / "note.md").write_text(NOTE)
    with receiver() as server:
        endpoints = {"ops": endpoint(server.url, namespaces=["bob"])}
        world.workspace.sync_sources()
        notifications.run(world.workspace, endpoints)
        world.ingest()
        notifications.run(world.workspace, endpoints)
        assert {told["namespace"] for told in server.told()} == {"bob"}


def test_an_endpoint_that_hangs_slows_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "TIMEOUT_SECONDS", 1.0)
    notes(world)
    (world.source("more") / "note.md").write_text(NOTE)

    def hang() -> int:
        time.sleep(3)
        return 200

    with receiver(hang) as slow, receiver() as quick:
        endpoints = {"a-slow": endpoint(slow.url), "quick": endpoint(quick.url)}
        notifications.run(world.workspace, endpoints)
        world.ingest()
        began = time.monotonic()
        done = notifications.run(world.workspace, endpoints)
        assert time.monotonic() - began < 2.5, "it is asked once"
        assert done.delivered == 2 and len(quick.taken) == 2
        rows = world.workspace.catalog.notifications.find("default", [DeliveryState.PENDING])
        assert {row["code"] for row in rows} == {"E_TIMEOUT", None} and len(rows) == 2


@pytest.mark.parametrize(
    ("url", "allowed", "code"),  # PORT: that of a server here
    [
        ("http://127.0.0.1:PORT/", False, "E_URL_BLOCKED"),
        ("http://[::ffff:127.0.0.1]:PORT/", False, "E_URL_BLOCKED"),
        ("http://localhost:PORT/", False, "E_URL_BLOCKED"),
        ("http://2130706433:PORT/", False, "E_URL_BLOCKED"),
        ("http://169.254.169.254/latest/", True, "E_URL_BLOCKED"),
        ("http://metadata.google.internal/", True, "E_URL_BLOCKED"),
        ("http://no-such-host.invalid/", True, "E_NETWORK"),
        ("${NOT_SET_ANYWHERE}", True, "E_CONFIG"),
    ],
)
def test_addresses_are_checked_as_those_of_pages(url: str, allowed: bool, code: str) -> None:
    with receiver() as server:
        told = Endpoint(url=url.replace("PORT", str(server.server.server_port)), allow_private=allowed)
        assert notifications.post(told, notifications.example()) == code
        assert server.taken == []


def test_no_redirect_is_followed() -> None:
    with receiver(lambda: 302) as server:
        assert notifications.post(endpoint(server.url), notifications.example()) == "302"
        assert server.taken == []


@pytest.mark.parametrize(
    "url", ["ftp://a/b", "http://u:p@host/", "host.lan", "http://", "${A B}", "file:///x"]
)
def test_what_is_no_url_is_refused_by_the_file(world: World, url: str) -> None:
    notes(world)
    file = world.directory / "sources.yaml"
    file.write_text(file.read_text() + json.dumps({"notifications": {"ops": {"url": url}}})[1:-1] + "\n")
    with pytest.raises(TabootError, match="E_SOURCES") as refused:
        world.workspace.sync_sources()
    assert "endpoint ops" in refused.value.message and "u:p" not in refused.value.message


def test_no_delivery_names_what_a_document_says_or_is_called(world: World) -> None:
    secret = "the-hidden-plan"
    (world.source("notes", retention_days=30) / f"{secret}.md").write_text(f"# {secret}\n\nOf the night.\n")
    world.workspace.sync_sources()
    with receiver() as server:
        endpoints = {"ops": endpoint(server.url)}
        notifications.run(world.workspace, endpoints)
        world.ingest()
        (world.directory / "notes" / f"{secret}.pdf").write_bytes(b"%PDF-1.4 nothing of it is right")
        world.source("notes", retention_days=30, include=["*.md", "*.pdf"])
        world.ingest()
        at = time.time_ns() // 1000
        retention.run(world.workspace, "default", at + 24 * 24 * 3600 * 1_000_000)
        assert notifications.run(world.workspace, endpoints).delivered >= 3
        located = world.workspace.catalog.locators.of_source("default", "notes")
        doc_id = located[f"{secret}.md"].doc_id
        said = b"".join(body for _, body in server.taken).decode()
        assert secret not in said and doc_id not in said
        delete(world.workspace, "default", [doc_id], erase=True)
        rows = world.workspace.catalog.notifications.find("default")
        assert rows and secret not in str(rows) and doc_id not in str(rows)


def test_headers_of_an_endpoint_go_with_every_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_TESTS", "Bearer abc")
    with receiver() as server:
        told = endpoint(server.url, headers={"Authorization": "${TOKEN_OF_TESTS}", "X-Room": "attic"})
        assert notifications.post(told, notifications.example()) == "204"
        sent = server.taken[0][0]
        assert (sent["Authorization"], sent["X-Room"]) == ("Bearer abc", "attic")
        monkeypatch.setenv("TOKEN_OF_TESTS", "Bearer abc\r\nX-Evil: 1")
        assert notifications.post(told, notifications.example()) == "E_CONFIG"
        assert len(server.taken) == 1
    for wrong in ({"X-Taboot-Event": "a"}, {"Host": "a"}, {"a b": "c"}, {"A": "b\r\nc: d"}):
        with pytest.raises(ValueError, match="header"):
            endpoint(server.url, headers=wrong)


# --- by mail ------------------------------------------------------------------------------------------------


class Mailbox:
    """A real SMTP server on loopback that keeps what it takes; ``refusals`` are its answers to the first
    recipients, and ``broken`` so many mails are not answered at their end."""

    def __init__(self, refusals: Sequence[str] = (), broken: int = 0, **options: Any) -> None:
        self.refusals, self.broken = list(refusals), broken
        self.taken: list[tuple[Any, EmailMessage]] = []
        self.logins: list[tuple[bytes, bytes]] = []
        ready, tls = threading.Event(), options.pop("ssl_context", None)

        async def run() -> None:
            loop, self.stop = asyncio.get_running_loop(), asyncio.Event()

            def made() -> SMTP:
                return SMTP(self, authenticator=self._authenticate, loop=loop, **options)

            async with await loop.create_server(made, "127.0.0.1", 0, ssl=tls) as server:
                self.port, self.loop = server.sockets[0].getsockname()[1], loop
                ready.set()
                await self.stop.wait()

        self.thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
        self.thread.start()
        assert ready.wait(30)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(30)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, _: Any) -> str:
        if self.refusals:
            return self.refusals.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.broken:
            self.broken -= 1
            server.transport.abort()
            return "250 OK"
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.taken.append((envelope, message))
        return "250 OK"

    def _authenticate(self, _server: Any, _session: Any, _envelope: Any, _how: str, data: Any) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"the-right-word", handled=False)


@contextmanager
def mailbox(*refusals: str, **options: Any) -> Iterator[Mailbox]:
    made = Mailbox(refusals, **options)
    try:
        yield made
    finally:
        made.close()


def by_mail(url: str, **fields: Any) -> Endpoint:
    own = {"form": "mail", "from": "taboot@home.example", "to": ["me@home.example", "you@home.example"]}
    return endpoint(url, **{**own, **fields})


def test_a_mail_is_taken_once_it_is_taken_and_known_by_its_id(
    world: World, later: Callable[[float], None]
) -> None:
    notes(world)
    with mailbox("451 4.7.1 Later", "250 OK", "550 5.1.1 Unknown", broken=1) as server:
        endpoints = {"post": by_mail(f"smtp://127.0.0.1:{server.port}")}
        notifications.run(world.workspace, endpoints)
        world.ingest()
        for code in ("451", "550", "E_NETWORK"):
            assert notifications.run(world.workspace, endpoints).again == 1 and not server.taken
            (row,) = world.workspace.catalog.notifications.find("default")
            assert row["code"] == code and row["state"] == DeliveryState.PENDING
            later(3600)
        assert notifications.run(world.workspace, endpoints).delivered == 1
        assert notifications.run(world.workspace, endpoints).new == 0
        ((envelope, mail),) = server.taken
        assert (envelope.mail_from, envelope.rcpt_tos) == (
            "taboot@home.example",
            ["me@home.example", "you@home.example"],
        )
        assert mail["Message-ID"] == f"<{row['id']}@home.example>"
        assert mail["Subject"].startswith("taboot: notes was read") and mail["From"] == "taboot@home.example"
        assert "notes was read" in mail.get_content() and "Nothing is to be done." in mail.get_content()
        assert mail["Auto-Submitted"] == "auto-generated"
        notifications.replay(world.workspace, "default", [row["id"]])
        notifications.run(world.workspace, endpoints)
        assert server.taken[1][1]["Message-ID"] == mail["Message-ID"]
    counted = world.workspace.catalog.totals.all("default")
    assert {key[2]: n for key, n in counted.items() if key[:2] == ("deliveries_total", "post")} == {
        "tried_again": 3,
        "delivered": 2,
    }


def test_what_an_event_says_adds_nothing_to_the_head_of_a_mail() -> None:
    evil = "a\r\nBcc: all@evil.example\r\n\r\nHello\r\n.\r\nMAIL FROM:<x@evil.example>\r\n\x00\x0b\u2028é"
    evil += "x" * 900
    told = json.loads(notifications.example()) | {"summary": evil, "remedy": evil}
    with mailbox() as server:
        known = by_mail(f"smtp://127.0.0.1:{server.port}")
        assert notifications.post(known, json.dumps(told).encode()) == "250"
        ((envelope, mail),) = server.taken
        assert set(mail.keys()) == {
            *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "X-Taboot-Event"),
            *("X-Taboot-Delivery", "MIME-Version", "Content-Type", "Content-Transfer-Encoding"),
        }
        assert envelope.rcpt_tos == known.to and "Bcc: all@evil.example" in mail["Subject"]
        assert "MAIL FROM:<x@evil.example>" in mail.get_content() and mail.get_content().count("é") == 2
        assert all(len(line) <= 998 for line in envelope.content.split(b"\r\n"))


def test_a_password_goes_over_tls_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_WORD", "the-right-word")
    login = {"user": "me", "secret": "${MAIL_WORD}"}
    context = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with mailbox(tls_context=context, require_starttls=True) as server:
        url = f"smtp://localhost:{server.port}"
        assert notifications.post(by_mail(url, **login), notifications.example()) == "250"
        assert notifications.post(by_mail(url), notifications.example()) == "250", "where it is offered"
        assert server.logins == [(b"me", b"the-right-word")]
        monkeypatch.setenv("MAIL_WORD", "a-wrong-word")
        assert notifications.post(by_mail(url, **login), notifications.example()) == "535"
        other = by_mail(f"smtp://127.0.0.1:{server.port}", **login)
        assert notifications.post(other, notifications.example()) == "E_NETWORK", "another's certificate"
        assert len(server.logins) == 2 and len(server.taken) == 2
    with mailbox(ssl_context=context) as server:
        url = f"smtps://localhost:{server.port}"
        assert notifications.post(by_mail(url), notifications.example()) == "250"
    with mailbox(auth_require_tls=False) as server:
        url = f"smtp://127.0.0.1:{server.port}"
        assert notifications.post(by_mail(url, **login), notifications.example()) == "E_NETWORK"
        assert server.logins == [] and server.taken == []


@pytest.mark.parametrize(
    ("url", "allowed", "code"),
    [
        ("smtp://127.0.0.1:PORT", False, "E_URL_BLOCKED"),
        ("smtp://localhost:PORT", False, "E_URL_BLOCKED"),
        ("smtp://169.254.169.254:25", True, "E_URL_BLOCKED"),
        ("smtp://no-such-host.invalid", True, "E_NETWORK"),
        ("${MAIL_SERVER}", True, "E_URL_BAD"),
    ],
)
def test_the_address_of_a_mail_server_is_checked_as_others_are(
    url: str, allowed: bool, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mailbox() as server:
        monkeypatch.setenv("MAIL_SERVER", f"http://127.0.0.1:{server.port}")
        told = by_mail(url.replace("PORT", str(server.port)), allow_private=allowed)
        assert notifications.post(told, notifications.example()) == code and server.taken == []


@pytest.mark.parametrize(
    "fields",
    [
        {"to": []},
        {"from": None},
        {"to": ["me@home.example\r\nDATA"]},
        {"to": ["me@home.example>, <you@evil.example"]},
        {"user": "me"},
        {"secret": "${MAIL_WORD}"},
        {"headers": {"X-Room": "attic"}},
        {"form": "json"},
        {"url": "https://home.example/hook"},
    ],
)
def test_a_mail_that_cannot_be_sent_is_refused_by_the_file(fields: dict[str, Any]) -> None:
    own = {"form": "mail", "url": "smtp://home.example", "from": "a@home.example", "to": ["b@home.example"]}
    Endpoint.model_validate(own)
    with pytest.raises(ValueError, match=r"mail|to|from"):
        Endpoint.model_validate({**own, **fields})
