"""Mail by IMAP, from a fake server on loopback that speaks the protocol."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors import open_connector
from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.connectors.sources_file import parse_entry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Failed, Fetched, Skipped
from taboot_pipelines_tests.connectors.runs import Kept, access_to
from taboot_pipelines_tests.connectors.servers import certificate
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


@settings(deadline=None, max_examples=40)
@given(STEPS)
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
