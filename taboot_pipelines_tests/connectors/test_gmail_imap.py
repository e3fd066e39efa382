"""Mail by IMAP, from a fake server on loopback that speaks the protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors.gmail import imap as gmail_imap
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Failed, Fetched, Skipped
from taboot_pipelines.sources import open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.connectors.runs import Kept, access_to
from taboot_pipelines_tests.connectors.servers import certificate
from taboot_pipelines_tests.fakes import gmail
from taboot_pipelines_tests.fakes.imap import PASSWORD, USER, FakeFolder, FakeImap, serving

ATTACHED = (
    b"Subject: conf\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsee below\r\n"
    b"--b\r\nContent-Type: application/octet-stream; name=compose.yaml\r\n"
    b"Content-Disposition: attachment\r\n\r\nservices: {}\r\n--b--\r\n"
)


def mail(n: int) -> bytes:
    return f"Subject: mail {n}\r\nFrom: a@example.org\r\n\r\nText {n}.\r\n".encode()


@pytest.fixture
def server():
    with serving(FakeImap()) as fake:
        yield fake


def entry(fake: FakeImap, **fields: Any) -> dict[str, Any]:
    imap = {
        "host": "127.0.0.1",
        "port": fake.port,
        "user": USER,
        "password_env": "MAIL_PASSWORD",
        "tls": "none",
    }
    own = {k: fields.pop(k) for k in ("folders", "password_env") if k in fields}
    return {"type": "gmail", "imap": {**imap, **own}, **fields}


@pytest.fixture
def access(tmp_path):
    return access_to(tmp_path, {"MAIL_PASSWORD": PASSWORD})


def test_messages_and_the_texts_attached_to_them(server, access):
    server.folders["INBOX"].messages = {3: mail(1), 7: ATTACHED}
    server.folders["Archive/2026 ä"] = FakeFolder(messages={1: mail(2)})
    kept = Kept()
    assert kept.run(entry(server, folders=["INBOX"]), access) == Enumerated(True)
    assert kept.contents() == {
        "INBOX/3": mail(1),
        "INBOX/7": ATTACHED,
        "INBOX/7#1-compose.yaml": b"services: {}",
    }
    assert kept.mimes["INBOX/7"] == "message/rfc822"
    assert kept.mimes["INBOX/7#1-compose.yaml"] == "application/yaml"


def test_folders_are_found_by_patterns_and_in_their_own_letters(server, access):
    del server.folders["INBOX"]
    server.folders["Gr&APYA3w-e &- co"] = FakeFolder(messages={1: mail(1)})
    server.folders["Other"] = FakeFolder(messages={1: mail(2)})
    kept = Kept()
    kept.run(entry(server, folders=["Größe & co"]), access)
    assert set(kept.known) == {"Größe & co/1"}
    kept.run(entry(server, folders=["*"]), access)
    assert set(kept.known) == {"Größe & co/1", "Other/1"}


def test_an_unchanged_mailbox_costs_a_search_and_a_new_message_itself(server, access):
    inbox = server.folders["INBOX"]
    for n in range(5):
        inbox.put(mail(n))
    kept = Kept()
    kept.run(entry(server), access)
    server.asked.clear()
    assert kept.run(entry(server), access) == Enumerated(True)
    assert kept.new_blobs == 0
    assert not kept.of(Fetched)
    assert set(server.asked) == {"CAPABILITY", "LOGIN", "LIST", "EXAMINE", "UID SEARCH", "LOGOUT"}
    inbox.put(mail(9))
    del inbox.messages[2]
    kept.run(entry(server), access)
    assert server.asked["messages"] == 1
    assert kept.contents() == {f"INBOX/{uid}": data for uid, data in inbox.messages.items()}


def test_another_uidvalidity_reads_everything_again_and_says_so(server, access):
    inbox = server.folders["INBOX"]
    for n in range(3):
        inbox.put(mail(n))
    kept = Kept()
    kept.run(entry(server), access)
    del inbox.messages[1]
    inbox.renumber()
    ended = kept.run(entry(server), access)
    assert ended.complete
    assert "UIDVALIDITY of INBOX has changed" in ended.reason
    assert kept.new_blobs == 0
    assert kept.contents() == {"INBOX/1": mail(1), "INBOX/2": mail(2)}
    assert kept.run(entry(server), access) == Enumerated(True)
    assert not kept.of(Fetched)


def test_what_goes_wrong_is_typed_and_deletes_nothing(server, access, tmp_path):
    server.folders["INBOX"].messages = {1: mail(1), 2: b"Subject: large\r\n\r\n" + b"x" * 100_000}
    kept = Kept()
    kept.run(entry(server), access)
    server.cut_after = 0
    server.folders["INBOX"].messages = {1: mail(1), 5: mail(5)}
    ended = kept.run(entry(server), access)
    assert not ended.complete
    assert set(kept.known) == {"INBOX/1", "INBOX/2"}
    server.cut_after = None
    small = access_to(tmp_path, {"MAIL_PASSWORD": PASSWORD}, max_blob_bytes=1000)
    server.folders["INBOX"].messages = {2: b"Subject: large\r\n\r\n" + b"x" * 100_000}
    fresh = Kept()
    assert fresh.run(entry(server), small).complete
    assert [e.code for e in fresh.of(Skipped)] == ["E_TOO_LARGE"]
    ended = fresh.run(entry(server, folders=["INBOX", "Nowhere"]), access)
    assert not ended.complete
    assert [e.error.code for e in fresh.of(Failed)] == ["E_NOT_FOUND"]
    for secrets, code in (({}, "E_CONFIG"), ({"MAIL_PASSWORD": "wrong"}, "E_CREDENTIALS")):
        with pytest.raises(TabootError) as refused:
            Kept().run(entry(server), access_to(tmp_path, secrets))
        assert refused.value.code == code
        assert PASSWORD not in str(refused.value)
        assert "wrong" not in str(refused.value).replace("is wrong", "")
    gone = {**entry(server), "imap": {**entry(server)["imap"], "port": 9}}
    with pytest.raises(TabootError) as refused:
        Kept().run(gone, access)
    assert refused.value.code == "E_NETWORK"


def by_token(fake: FakeImap, auth: str | None = None, **fields: Any) -> dict[str, Any]:
    server = {"host": "127.0.0.1", "port": fake.port, "user": USER, "tls": "none"}
    named = fields or {"token_env": "MAIL_TOKEN"}
    return {"type": "gmail", "imap": server if auth is None else {**server, "auth": auth}, **named}


@pytest.mark.parametrize(
    ("auth", "capabilities", "expected"),
    [
        (None, "AUTH=XOAUTH2 AUTH=OAUTHBEARER", "XOAUTH2"),
        (None, "AUTH=OAUTHBEARER", "OAUTHBEARER"),
        (None, "", "XOAUTH2"),
        ("xoauth2", "AUTH=OAUTHBEARER", "XOAUTH2"),
        ("oauthbearer", "AUTH=XOAUTH2", "OAUTHBEARER"),
    ],
)
def test_an_account_signs_in_by_a_token(server, tmp_path, auth, capabilities, expected):
    server.capabilities = f"IMAP4rev1 {capabilities}".strip()
    server.folders["INBOX"].put(mail(1))
    kept = Kept()
    assert kept.run(by_token(server, auth), access_to(tmp_path, {"MAIL_TOKEN": server.token})).complete
    says = {
        "XOAUTH2": f"user={USER}\1auth=Bearer {server.token}\1\1",
        "OAUTHBEARER": f"n,a={USER},\1auth=Bearer {server.token}\1\1",
    }
    assert server.signed_in == [(expected, says[expected].encode())]
    assert set(kept.known) == {"INBOX/1"}


@pytest.mark.parametrize(("auth", "answer"), [("xoauth2", b""), ("oauthbearer", b"\1")])
def test_a_token_that_is_refused_is_told_with_the_scope(server, tmp_path, caplog, auth, answer):
    with pytest.raises(TabootError) as refused:
        Kept().run(by_token(server, auth), access_to(tmp_path, {"MAIL_TOKEN": "ya29.planted-and-old"}))
    assert refused.value.code == "E_CREDENTIALS"
    assert "https://mail.google.com/" in refused.value.remedy
    assert server.signed_in[-1][1] == answer
    assert "planted-and-old" not in f"{refused.value} {refused.value.details} {caplog.text}"


def test_a_refresh_token_is_exchanged_for_the_token(server, tmp_path):
    server.folders["INBOX"].put(mail(1))
    with gmail.serving(gmail.FakeGmail()) as google:
        server.token = google.access_token
        own = by_token(
            server,
            client_id_env="ID",
            client_secret_env="SECRET",
            refresh_token_env="REFRESH",
            token_url=f"{google.base}/token",
        )
        secrets = {"ID": "x", "SECRET": gmail.CLIENT_SECRET, "REFRESH": gmail.REFRESH_TOKEN}
        assert Kept().run(own, access_to(tmp_path, secrets)) == Enumerated(True)
        google.revoked = True
        with pytest.raises(TabootError) as refused:
            Kept().run(own, access_to(tmp_path, secrets))
    assert refused.value.code == "E_CREDENTIALS"
    assert len(server.signed_in) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"imap": {"host": "h", "user": "u"}},
        {"imap": {"host": "h", "user": "u", "password_env": "P"}, "token_env": "T"},
        {"imap": {"host": "h", "user": "u", "password_env": "P", "auth": "xoauth2"}},
        {"imap": {"host": "h", "user": "u", "auth": "password"}, "token_env": "T"},
        {"imap": {"host": "h", "user": "u", "auth": "xoauth2"}},
        {"imap": {"host": "h", "user": "u", "password": "hunter2"}},
        {"imap": {"host": "h", "user": "u", "password_env": "P"}, "labels": ["INBOX"]},
        {"imap": {"host": "h", "user": "u", "password_env": "P"}, "path": "."},
    ],
)
def test_entries_that_sign_in_in_no_way_or_two_are_refused(wrong):
    with pytest.raises(TabootError) as refused:
        parse_entry({"id": "s", "type": "gmail", **wrong})
    assert refused.value.code == "E_SOURCES"
    assert "hunter2" not in str(refused.value)


def test_a_folder_that_may_not_be_opened_keeps_nothing_from_those_beside_it(server, access):
    server.folders = {"A": FakeFolder(), "B": FakeFolder(), "C": FakeFolder(), "[Gmail]": FakeFolder()}
    server.closed = {"B"}
    server.flags = {"[Gmail]": "\\HasChildren \\Noselect", "C": "\\Marked"}
    for name in ("A", "C"):
        server.folders[name].put(mail(1))
    kept = Kept()
    ended = kept.run(entry(server, folders=["*"]), access)
    assert not ended.complete
    assert set(kept.known) == {"A/1", "C/1"}
    assert [(e.path, e.error.code) for e in kept.of(Failed)] == [("B", "E_API")]
    server.closed = set()
    assert kept.run(entry(server, folders=["*"]), access) == Enumerated(True)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("UID FETCH", "* BYE going down\r\n"),
        ("UID FETCH", "* 1 FETCH (UID 1 BODY[] {99999999999}\r\n"),
        ("UID FETCH", "* 1 FETCH (UID 1 RFC822.SIZE 12)\r\n…"),
        ("UID FETCH", "no imap at all\r\n"),
        ("UID SEARCH", "* SEARCH 1 2 3\r\n* 5 EXISTS\r\n…"),
        ("UID SEARCH", "* SEARCH " + "1 " * 1000 + "…"),
        ("EXAMINE", "* 1 EXISTS\r\n…"),
        ("LIST", "* LIST () NIL {5}\r\nIN"),
        ("LIST", "\0\0\0\r\n…"),
    ],
)
def test_whatever_a_server_says_a_run_ends_and_deletes_nothing(server, access, monkeypatch, command, says):
    monkeypatch.setattr(gmail_imap, "_MAX_LINES_BYTES", 100_000)
    small = replace(access, max_blob_bytes=100_000)
    for n in range(3):
        server.folders["INBOX"].put(mail(n))
    kept = Kept()
    kept.run(entry(server), small)
    before = kept.contents()
    server.folders["INBOX"].put(mail(9))
    server.says = {command: says}
    ended = kept.run(entry(server), small)
    assert not ended.complete and ended.reason
    assert kept.contents() == before
    server.says = {}
    assert kept.run(entry(server), small) == Enumerated(True)
    assert len(kept.known) == 4


def test_a_server_that_takes_no_password_in_the_clear_is_told(server, access):
    server.capabilities = "IMAP4rev1 STARTTLS LOGINDISABLED"
    with pytest.raises(TabootError) as refused:
        Kept().run(entry(server), access)
    assert refused.value.code == "E_CONFIG" and "starttls" in refused.value.remedy
    assert server.asked["LOGIN"] == 0


def test_bounds_end_a_run_and_the_next_goes_on(server, access):
    for n in range(7):
        server.folders["INBOX"].put(mail(n))
    kept = Kept()
    bounded = entry(server, max_items=3)
    assert [kept.run(bounded, access).complete for _ in range(3)] == [False, False, True]
    assert len(kept.known) == 7
    ended = Kept().run(entry(server, max_requests=6), access)
    assert not ended.complete
    assert "6 requests" in ended.reason


def test_the_plan_counts_messages_and_reads_none(server, access):
    server.folders["INBOX"].messages = {1: mail(1), 2: mail(2)}
    plan = list(open_connector(parse_entry({"id": "s", **entry(server)}), access).plan())
    assert plan == [Planned("INBOX", requests=4, items=2, note="less those that are known")]
    assert server.asked["messages"] == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 99)),
        st.tuples(st.just("delete"), st.integers(0, 99)),
        st.tuples(st.just("renumber"), st.just(0)),
        st.tuples(st.just("run"), st.integers(0, 12)),
        st.tuples(st.just("cut"), st.integers(0, 3)),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=25)
@given(STEPS)
# Numbered anew, and cut off after a message without what the one of its number had attached.
@example([("put", 0), ("put", 1), ("cut", 1), ("delete", 0), ("renumber", 0), ("put", 0), ("cut", 1)])
def test_incremental_equals_from_scratch(tmp_path_factory, steps):
    access = access_to(tmp_path_factory.mktemp("m"), {"MAIL_PASSWORD": PASSWORD})
    with serving(FakeImap()) as fake:
        inbox, kept = fake.folders["INBOX"], Kept()
        for kind, n in steps:
            if kind == "put":
                inbox.put(ATTACHED if n % 5 == 0 else mail(n))
            elif kind == "delete" and inbox.messages:
                del inbox.messages[sorted(inbox.messages)[n % len(inbox.messages)]]
            elif kind == "renumber":
                inbox.renumber()
            elif kind == "run":
                kept.run(entry(fake), access, kill_after=n)
            elif kind == "cut":
                fake.cut_after = n
                kept.run(entry(fake), access)
                fake.cut_after = None
        assert kept.run(entry(fake), access).complete
        scratch = Kept()
        scratch.run(entry(fake), access)
        assert kept.contents() == scratch.contents()
        assert kept.run(entry(fake), access) == Enumerated(True)
        assert not kept.of(Fetched)


@pytest.mark.parametrize("tls", ["implicit", "starttls"])
def test_a_server_that_nobody_vouches_for_gets_no_password(tmp_path, tls):
    """Neither one with a certificate of its own making, nor one that speaks no TLS."""
    with serving(FakeImap()) as plain:
        secret = entry(plain)
        secret["imap"]["tls"] = tls
        with pytest.raises(TabootError) as refused:
            Kept().run(secret, access_to(tmp_path, {"MAIL_PASSWORD": PASSWORD}))
        assert refused.value.code in ("E_NETWORK", "E_API", "E_TIMEOUT")
        assert plain.asked["LOGIN"] == 0
    with serving(FakeImap(), tls=certificate(tmp_path, "127.0.0.1")) as forged:
        secret["imap"] |= {"tls": "implicit", "port": forged.port}
        with pytest.raises(TabootError) as refused:
            Kept().run(secret, access_to(tmp_path, {"MAIL_PASSWORD": PASSWORD}))
        assert refused.value.code == "E_NETWORK"
        assert forged.asked["LOGIN"] == 0


def test_a_server_with_tls_is_read(tmp_path, monkeypatch):
    context = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with serving(FakeImap(), tls=context) as fake:
        fake.folders["INBOX"].put(mail(1))
        own = entry(fake)
        own["imap"] |= {"tls": "implicit", "host": "localhost"}
        kept = Kept()
        assert kept.run(own, access_to(tmp_path, {"MAIL_PASSWORD": PASSWORD})) == Enumerated(True)
        assert kept.contents() == {"INBOX/1": mail(1)}
