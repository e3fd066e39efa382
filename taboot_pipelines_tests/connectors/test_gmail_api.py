"""A mailbox by the Gmail API, from a fake on loopback that serves the recorded messages."""

from __future__ import annotations

import copy
import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors.gmail import api as gmail_api
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Failed, Fetched, Gone, Skipped
from taboot_pipelines.sources import document_forms, open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.connectors.runs import Kept, access_to
from taboot_pipelines_tests.fakes.gmail import CLIENT_SECRET, REFRESH_TOKEN, FakeGmail, serving

SECRETS = {"ID": "client.apps.example", "SECRET": CLIENT_SECRET, "REFRESH": REFRESH_TOKEN}


def recorded(data) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((data / "gmail").glob("*.message.json"))]


def message(n: int, labels: tuple[str, ...] = ("INBOX",), text: str = "") -> dict[str, Any]:
    return {
        "id": f"{n:016x}",
        "threadId": f"{n:016x}",
        "labelIds": list(labels),
        "snippet": "…",
        "internalDate": str(1_700_000_000_000 + n * 86_400_000),
        "payload": {
            "mimeType": "text/plain",
            "filename": "",
            "headers": [{"name": "Subject", "value": f"mail {n} {text}"}],
            "body": {"size": 0},
        },
    }


def attached(n: int) -> dict[str, Any]:
    resource = message(n)
    parts = [
        {"partId": "0", "mimeType": "text/plain", "filename": "", "headers": [], "body": {"size": 0}},
        {
            "partId": "1",
            "mimeType": "text/plain",
            "filename": "notes.md",
            "headers": [{"name": "Content-Disposition", "value": 'attachment; filename="notes.md"'}],
            "body": {"size": 9, "attachmentId": f"att-{n}"},
        },
    ]
    resource["payload"] |= {"mimeType": "multipart/mixed", "parts": parts}
    return resource


@pytest.fixture
def server():
    with serving(FakeGmail()) as fake:
        yield fake


@pytest.fixture
def access(tmp_path):
    return access_to(tmp_path, SECRETS)


def entry(fake: FakeGmail, **fields: Any) -> dict[str, Any]:
    return {
        "type": "gmail",
        "base_url": fake.base,
        "token_url": f"{fake.base}/token",
        "client_id_env": "ID",
        "client_secret": "${SECRET}",
        "refresh_token_env": "REFRESH",
        **fields,
    }


def test_the_recorded_messages_are_items_and_documents(data, server, access):
    resources = recorded(data)
    for resource in resources:
        server.put(resource)
        for part in resource["payload"].get("parts", ()):
            if reference := part["body"].get("attachmentId"):
                server.attachments[reference] = b'puts "Hello, world!"\ngets\n'
    kept = Kept()
    assert kept.run(entry(server), access) == Enumerated(True)
    messages = {path for path in kept.known if "#" not in path}
    assert messages == {resource["id"] for resource in resources}
    ruby = next(path for path in kept.known if path.endswith("-api.rb"))
    assert kept.contents()[ruby].startswith(b'puts "Hello, world!"')
    nested = next(path for path in kept.known if path.endswith("#1-ForwardedMessage.eml"))
    document = parse_document(
        kept.contents()[nested],
        path=nested,
        mime=kept.mimes[nested],
        charset=None,
        languages=[],
        max_chars=9999,
        forms=document_forms(),
    )
    assert document.title.startswith("Another PDF")
    for path, blob in kept.contents().items():
        parse_document(
            blob,
            path=path,
            mime=kept.mimes[path],
            charset="utf-8",
            languages=[],
            max_chars=100_000,
            forms=document_forms(),
        )
    for path in messages:
        assert json.loads(kept.contents()[path]) == server.messages[path]


def test_an_unchanged_mailbox_costs_one_look_at_its_history(server, access):
    for n in range(8):
        server.put(attached(n) if n == 3 else message(n))
    server.attachments["att-3"] = b"# Notes\n"
    kept = Kept()
    kept.run(entry(server), access)
    assert kept.contents()["0000000000000003#1-notes.md"] == b"# Notes\n"
    server.asked.clear()
    assert kept.run(entry(server), access) == Enumerated(True)
    assert kept.new_blobs == 0
    assert not kept.of(Fetched)
    assert server.asked == {"token": 1, "history": 1}


def test_changes_are_read_and_nothing_else(server, access):
    for n in range(8):
        server.put(attached(n) if n == 3 else message(n))
    server.attachments["att-3"] = b"# Notes\n"
    kept = Kept()
    kept.run(entry(server), access)
    server.put(message(9))
    server.delete(f"{4:016x}")
    server.label(f"{3:016x}", ["INBOX", "Label_7"])
    server.label(f"{5:016x}", ["INBOX", "UNREAD"])
    server.label(f"{6:016x}", ["TRASH"])
    server.asked.clear()
    assert kept.run(entry(server), access) == Enumerated(True)
    assert {e.path for e in kept.of(Fetched)} == {f"{3:016x}", f"{9:016x}"}
    assert {e.path for e in kept.of(Gone)} == {f"{4:016x}", f"{6:016x}"}
    # What was attached is not asked for again, and what was only read is the same message.
    assert server.asked == {"token": 1, "history": 2, "message": 5, "labels": 1}


def test_a_history_that_has_expired_enumerates_everything_and_says_so(server, access, caplog):
    for n in range(5):
        server.put(message(n))
    kept = Kept()
    kept.run(entry(server), access)
    server.delete(f"{2:016x}")
    server.expire()
    with caplog.at_level(logging.WARNING):
        ended = kept.run(entry(server), access)
    assert ended.complete
    assert "history of the last run has expired" in ended.reason
    assert kept.new_blobs == 0
    assert set(kept.known) == set(server.messages)
    assert kept.run(entry(server), access) == Enumerated(True)


def test_labels_queries_and_days_narrow_what_is_read(server, access):
    server.put(message(1, ("INBOX",), "ops"))
    server.put(message(2, ("Label_7",), "ops"))
    server.put(message(3, ("Label_7",), "other"))
    server.put(message(4, ("SPAM", "Label_7"), "ops"))

    def taken(**fields: Any) -> set[int]:
        kept = Kept()
        kept.run(entry(server, **fields), access)
        first = {int(path, 16) for path in kept.known}
        kept.run(entry(server, **fields), access)
        assert {int(path, 16) for path in kept.known} == first
        return first

    assert taken() == {1, 2, 3}
    assert taken(labels=["ops/alerts"]) == {2, 3}
    assert taken(labels=["OPS/Alerts", "inbox"]) == {1, 2, 3}
    assert taken(query="ops") == {1, 2}
    assert taken(since="2023-11-17") == {3}
    with pytest.raises(TabootError) as refused:
        Kept().run(entry(server, labels=["nowhere"]), access)
    assert refused.value.code == "E_NOT_FOUND"


def test_a_query_follows_what_its_search_finds(server, access):
    server.put(message(1, text="ops"))
    kept = Kept()
    kept.run(entry(server, query="ops"), access)
    server.put(message(2, text="ops"))
    server.put(message(3, text="other"))
    server.delete(f"{1:016x}")
    kept.run(entry(server, query="ops"), access)
    assert set(kept.known) == {f"{2:016x}"}


def test_a_message_that_fails_is_read_by_the_next_run(server, access, monkeypatch):
    monkeypatch.setattr("taboot_pipelines.connectors.api.client._BACKOFF_SECONDS", 0.0)
    for n in range(4):
        server.put(message(n))
    html = (200, {}, b"<html>Sign in</html>")
    torn = (200, {}, b'{"id": "00000000000')
    for n, failure in ((1, html), (2, torn)):
        server.failures[f"{n:016x}"] = [failure]
    kept = Kept()
    ended = kept.run(entry(server), access)
    assert not ended.complete
    assert {e.path: e.error.code for e in kept.of(Failed)} == {f"{1:016x}": "E_API", f"{2:016x}": "E_API"}
    assert len(kept.known) == 2
    server.asked.clear()
    assert kept.run(entry(server), access) == Enumerated(True)
    assert set(kept.known) == set(server.messages)
    assert server.asked["message"] == 2


def test_limits_of_the_service_are_waited_for(server, access):
    server.put(message(1))
    server.failures[f"{1:016x}"] = [(429, {"retry-after": "0"}, b"{}"), (403, {"retry-after": "0"}, b"{}")]
    kept = Kept()
    assert kept.run(entry(server), access) == Enumerated(True)
    reason = b'{"error": {"code": 403, "errors": [{"reason": "userRateLimitExceeded"}]}}'
    server.put(message(2))
    server.failures[f"{2:016x}"] = [(403, {}, reason)]
    ended = kept.run(entry(server, max_wait_seconds=1), access)
    assert not ended.complete
    assert "asks to be left alone" in ended.reason
    server.put(message(3))
    server.failures[f"{3:016x}"] = [(403, {}, b'{"error": {"code": 403}}')]
    ended = kept.run(entry(server), access)
    assert [e.error.code for e in kept.of(Failed)] == ["E_FORBIDDEN"]
    assert kept.run(entry(server), access) == Enumerated(True)
    assert set(kept.known) == set(server.messages)


def test_a_revoked_token_is_named_and_never_shown(server, tmp_path, caplog):
    server.revoked = True
    with pytest.raises(TabootError) as refused:
        Kept().run(entry(server), access_to(tmp_path, SECRETS))
    assert refused.value.code == "E_CREDENTIALS"
    with pytest.raises(TabootError) as missing:
        Kept().run(entry(server), access_to(tmp_path, {"ID": "x", "SECRET": "y"}))
    assert missing.value.code == "E_CONFIG"
    assert "REFRESH" in missing.value.message
    for text in (str(refused.value), str(refused.value.details), caplog.text):
        assert REFRESH_TOKEN not in text
        assert CLIENT_SECRET not in text


def test_labels_have_the_names_that_people_gave_them(server, access, caplog):
    """One request for the names, none where no message has such a label; a renamed one is read again."""
    server.labels |= {"Label_8": "Geräte", "Label_9": "unused"}
    server.put(message(1, ("INBOX", "Label_7", "Label_8")))
    server.put(message(2, ("INBOX", "Label_404")))
    for n in range(3, 9):
        server.put(message(n))
    kept = Kept()
    assert kept.run(entry(server), access) == Enumerated(True)
    assert server.asked["labels"] == 1
    assert labels_of(kept, 1) == ["INBOX", "ops/alerts", "Geräte"]
    assert labels_of(kept, 2) == ["INBOX", "Label_404"]
    server.asked.clear()
    assert kept.run(entry(server), access) == Enumerated(True)
    assert kept.new_blobs == 0
    assert server.asked == {"token": 1, "history": 1, "labels": 1}
    server.labels |= {"Label_8": "Devices", "Label_9": "still unused"}
    server.asked.clear()
    assert kept.run(entry(server), access) == Enumerated(True)
    assert labels_of(kept, 1) == ["INBOX", "ops/alerts", "Devices"]
    assert server.asked == {"token": 1, "history": 1, "labels": 1, "messages": 1, "message": 1}
    server.failures["labels"] = [(403, {}, b"{}")]
    server.put(message(10, ("Label_7",)))
    assert kept.run(entry(server), access) == Enumerated(True)
    assert labels_of(kept, 10) == ["Label_7"]
    assert "may not be read" in caplog.text
    assert kept.run(entry(server), access) == Enumerated(True)
    assert labels_of(kept, 10) == ["ops/alerts"]


def labels_of(kept: Kept, n: int) -> list[str]:
    path = f"{n:016x}"
    document = parse_document(
        kept.contents()[path],
        path=path,
        mime=kept.mimes[path],
        charset="utf-8",
        languages=[],
        max_chars=9999,
        forms=document_forms(),
    )
    return document.metadata["labels"]


def test_an_access_token_that_ends_is_renewed_once(server, access):
    server.put(message(1))
    kept = Kept()
    kept.run(entry(server), access)
    server.access_token = "ya29.second"
    assert kept.run(entry(server), access) == Enumerated(True)
    held = access_to(access.root, {"TOKEN": "ya29.old"})
    given = {"type": "gmail", "base_url": server.base, "token_env": "TOKEN"}
    with pytest.raises(TabootError) as refused:
        Kept().run(given, held)
    assert refused.value.code == "E_CREDENTIALS"
    assert Kept().run(given, access_to(access.root, {"TOKEN": "ya29.second"})) == Enumerated(True)


def test_a_list_that_leads_to_itself_ends(server, access):
    for n in range(4):
        server.put(message(n))
    answer = server.answer
    server.answer = lambda path, query: (
        (200, {"messages": [{"id": f"{1:016x}"}], "nextPageToken": "3"})
        if path.endswith("/messages")
        else answer(path, query)
    )
    kept = Kept()
    ended = kept.run(entry(server), access)
    assert not ended.complete
    assert "does not end" in ended.reason


def test_bounds_end_a_run_and_the_next_goes_on(server, access):
    for n in range(9):
        server.put(message(n))
    kept = Kept()
    ends = [kept.run(entry(server, max_items=4), access).complete for _ in range(3)]
    assert ends == [False, False, True]
    assert set(kept.known) == set(server.messages)
    few = Kept()
    ends = [few.run(entry(server, max_requests=9), access).complete for _ in range(8)]
    assert ends[-1]
    assert set(few.known) == set(server.messages)


def test_what_is_too_large_is_skipped_and_not_asked_for_again(server, tmp_path):
    server.put(message(1))
    server.put(message(2, text="x" * 30_000))
    server.put(attached(3))
    server.attachments["att-3"] = b"y" * 30_000
    small = access_to(tmp_path, SECRETS, max_blob_bytes=10_000)
    kept = Kept()
    assert kept.run(entry(server), small) == Enumerated(True)
    skipped = {e.path: e.code for e in kept.of(Skipped)}
    assert skipped == {f"{2:016x}": "E_TOO_LARGE", f"{3:016x}#1-notes.md": "E_TOO_LARGE"}
    assert set(kept.known) == {f"{1:016x}", f"{3:016x}"}
    server.asked.clear()
    assert kept.run(entry(server), small) == Enumerated(True)
    assert server.asked["message"] == 0


def test_what_was_deleted_on_purpose_is_not_asked_for(server, access):
    server.put(message(1))
    server.put(message(2))
    kept = Kept()
    kept.run(entry(server), access, tombstoned=lambda path: path == f"{1:016x}")
    assert [e.code for e in kept.of(Skipped)] == ["E_TOMBSTONED"]
    assert not [path for path in server.paths if f"{1:016x}" in path]


def test_the_plan_counts_and_reads_no_message(server, access):
    for n in range(5):
        server.put(message(n))
    connector = open_connector(parse_entry({"id": "s", **entry(server)}), access)
    (plan,) = connector.plan()
    assert (plan.items, plan.requests) == (5, 6)
    assert server.asked["message"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": ".", "token_env": "T"},
        {},
        {"token_env": "T", "refresh_token_env": "R", "client_id_env": "C"},
        {"refresh_token_env": "R"},
        {"token": "ya29.in-the-open"},
        {"token_env": "T", "base_url": "https://user:pass@gmail.example"},
        {"imap": {"host": "h", "user": "u"}},
    ],
)
def test_entries_that_name_no_origin_or_two_are_refused(wrong):
    with pytest.raises(TabootError) as refused:
        parse_entry({"id": "s", "type": "gmail", **wrong})
    assert refused.value.code == "E_SOURCES"
    assert "ya29" not in str(refused.value)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 30)),
        st.tuples(st.just("delete"), st.integers(0, 99)),
        st.tuples(st.just("label"), st.integers(0, 99)),
        st.tuples(st.just("rename"), st.integers(0, 2)),
        st.tuples(st.just("expire"), st.just(0)),
        st.tuples(st.just("kill"), st.integers(0, 12)),
        st.tuples(st.just("fail"), st.integers(0, 99)),
        st.tuples(st.just("run"), st.just(0)),
    ),
    max_size=16,
)


@pytest.mark.parametrize("narrowed", [{}, {"labels": ["inbox"]}, {"query": "mail"}])
def test_incremental_equals_from_scratch(tmp_path, monkeypatch, narrowed):
    """Random arrivals, deletions and changes of labels, crashes between any two events, failures."""
    monkeypatch.setattr(gmail_api, "_BATCH", 3)
    access = access_to(tmp_path, SECRETS)

    @settings(deadline=None, max_examples=20)
    @given(STEPS)
    def walk(steps):
        with serving(FakeGmail()) as fake:
            fake.attachments = {f"att-{n}": b"# %d\n" % n for n in range(31)}
            kept, own = Kept(), entry(fake, **narrowed)
            for kind, n in steps:
                ids = sorted(fake.messages)
                if kind == "put" and f"{n:016x}" not in fake.messages:
                    fake.put(attached(n) if n % 3 == 0 else message(n))
                elif kind == "delete" and ids:
                    fake.delete(ids[n % len(ids)])
                elif kind == "label" and ids:
                    labels = [["INBOX"], ["Label_7"], ["INBOX", "Label_7"], ["TRASH"], ["INBOX", "UNREAD"]]
                    fake.label(ids[n % len(ids)], labels[n % 5])
                elif kind == "rename":
                    fake.labels["Label_7"] = f"ops/{n}"
                elif kind == "expire":
                    fake.expire()
                elif kind == "fail" and ids:
                    fake.failures[ids[n % len(ids)]] = [(200, {}, b"<html>")]
                elif kind in ("run", "kill"):
                    kept.run(own, access, kill_after=n if kind == "kill" else None)
            fake.failures.clear()
            for _ in range(3):
                if kept.run(own, access).complete:
                    break
            scratch = Kept()
            scratch.run(own, access)
            assert stable(kept) == stable(scratch)
            # The history of an enumeration that was killed is that of its beginning: what happened before it
            # went on is told once more, or has expired, which takes another enumeration.
            for _ in range(2):
                kept.run(own, access)
                assert stable(kept) == stable(scratch) and kept.new_blobs == 0
            fake.asked.clear()
            assert kept.run(own, access) == Enumerated(True)
            assert kept.new_blobs == 0
            assert fake.asked["message"] == 0

    walk()


def stable(kept: Kept) -> dict[str, Any]:
    """The contents without what changes by itself."""
    out: dict[str, Any] = {}
    for path, blob in kept.contents().items():
        if "#" in path:
            out[path] = blob
            continue
        resource = copy.deepcopy(json.loads(blob))
        resource["labelIds"] = sorted(set(resource["labelIds"]) - {"UNREAD"})
        del resource["historyId"]
        out[path] = resource
    return out
