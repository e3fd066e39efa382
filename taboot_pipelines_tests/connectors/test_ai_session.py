"""Files of AI chats: what becomes an item, what is read again when they change, and what is not lost."""

from __future__ import annotations

import json
import os
import tempfile
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors.access import Access, MemoryState
from taboot_pipelines.connectors.ai_session import AiSessionSource
from taboot_pipelines.connectors.ai_session_files import SLICE_BYTES, elements, slices
from taboot_pipelines.connectors.protocol import Planner
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.chats import CHAT, CHAT_WITH_THINKING, FileKind, begins_turn, kind_of
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.records import Enumerated, Event, Failed, Fetched, Known, Skipped, Unchanged
from taboot_pipelines.settings import LimitSettings, Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines_tests.world import DATA

SAMPLES = DATA / "ai-chats"


class Home:
    """What a catalog and a blob store would hold of one source; a run may be killed after any event."""

    def __init__(self, root: Path, limit: int = 50_000_000, **fields: Any) -> None:
        self.root = root
        self.limit = limit
        self.entry(**fields)
        self.items: dict[str, Fetched] = {}
        self.saved: dict[str, Any] = {}

    def entry(self, **fields: Any) -> None:
        self.config = AiSessionSource.model_validate(
            {"id": "s", "type": "ai_session", "path": str(self.root)} | fields
        )

    def access(self, state: MemoryState) -> Access:
        limits = LimitSettings(max_blob_bytes=self.limit)
        return Access.of(Settings(home=self.root / ".home", limits=limits), self.root, state=state)

    def run(self, killed_after: int | None = None, tombstones: tuple[str, ...] = ()) -> list[Event]:
        """All events; of a run that is killed those before."""
        state = MemoryState()
        for key, value in json.loads(json.dumps(self.saved)).items():
            state.save(key, value)
        known = {p: Known(sha256_hex(x.data), x.etag) for p, x in self.items.items()}
        seen: set[str] = set()
        events: list[Event] = []
        connector = open_connector(self.config, self.access(state))
        for event in connector.events(known, tombstones.__contains__):
            events.append(event)
            match event:
                case Fetched():
                    self.items[event.path] = event
                    seen.add(event.path)
                case Unchanged():
                    assert event.roles.keys() <= known.keys()
                    seen |= event.roles.keys()
                case Skipped() | Failed():
                    seen.add(event.path)
                case Enumerated():
                    if event.complete:
                        self.items = {p: x for p, x in self.items.items() if p in seen}
            # What was saved so far is written with the items before it.
            self.saved = json.loads(json.dumps(state._values))
            if killed_after is not None and len(events) > killed_after:
                break
        return events

    def held(self) -> dict[str, tuple[bytes, str | None]]:
        return {path: (x.data, x.mime) for path, x in self.items.items()}


def fetched(events: list[Event]) -> list[str]:
    return [e.path for e in events if isinstance(e, Fetched)]


def record(n: int, size: int = 100, role: str = "user") -> bytes:
    message = {"role": role, "content": f"{n} " + "x" * size}
    return json.dumps({"type": role, "sessionId": "s", "uuid": str(n), "message": message}).encode() + b"\n"


def session(turns: int, size: int = 20_000) -> bytes:
    return b"".join(record(n, size, "user" if n % 3 == 0 else "assistant") for n in range(turns))


def age(*paths: Path) -> None:
    """Make files old enough that their times tell of every later write."""
    for path in paths:
        os.utime(path, ns=(path.stat().st_mtime_ns - 10**10, path.stat().st_mtime_ns - 10**10))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as written long ago, as it is for all but the first seconds."""
    monkeypatch.setattr("taboot_pipelines.connectors.walk._SETTLED_SECONDS", -1e9)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# What becomes an item ---------------------------------------------------------------------------------------


def test_every_file_of_the_samples_is_items_or_has_a_reason() -> None:
    home = Home(SAMPLES)
    *events, end = home.run()
    assert end == Enumerated(True)
    assert sorted(home.items) == [
        "claude-code/sample_session.json",
        "claude-code/sample_session.jsonl",
        "ctxray/aider_chat_history.md",
        "ctxray/chatgpt_conversations.json#1710000000.0",
        "ctxray/chatgpt_conversations.json#1710100000.0",
        "ctxray/claude_chat_export.json#conv-001",
        "ctxray/claude_chat_export.json#conv-002",
        "ctxray/gemini_session.json",
        "ctxray/openclaw_session.jsonl",
    ]
    assert [(e.path, e.code) for e in events if isinstance(e, Skipped)] == [("NOTE.md", "E_MIME")]
    for path, item in home.items.items():
        file, _, part = path.partition("#")
        whole = (SAMPLES / file).read_bytes()
        assert item.data in whole and (part or item.data == whole) and item.mime == CHAT


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (record(1), FileKind.LINES),
        (b"\xef\xbb\xbf" + record(1) + b"broken\n", FileKind.LINES),
        (b"broken {\n" + record(1), FileKind.LINES),
        (record(1, 400_000), FileKind.LINES),
        (b'{"messages": [{"role": "user", "content": "x"}]}', FileKind.DOCUMENT),
        (b'{\n "loglines": [\n  {"type": "user"}\n ]\n}', FileKind.DOCUMENT),
        (b'{\n"messages": [\n{"role":"user","content":"x"}\n]}', FileKind.DOCUMENT),
        (b'[{"role": "user", "parts": [{"text": "x"}]}]', FileKind.DOCUMENT),
        (b'[{"title": "x", "mapping": {}}]', FileKind.CONVERSATIONS),
        (b' [ {"uuid": "x", "chat_messages": []}]', FileKind.CONVERSATIONS),
        (b'[{"header": "Gemini Apps", "title": "Prompted x", "time": "t"}]', FileKind.CONVERSATIONS),
        (b"\n# aider chat started at 2026-01-01 10:00:00\n", FileKind.MARKDOWN),
        (b"# Read me\n\nA line:\n\n" + b"text\n" * 20 + record(1), None),
        (b'[{"header": "YouTube", "title": "Watched x", "time": "t"}]', None),
        (b'{"name": "x", "version": "1"}', None),
        (b'{\n "compilerOptions": {}\n}', None),
        (b"", None),
        (b"\x00\x01\x02", None),
    ],
)
def test_the_content_tells_how_a_file_holds_chats(data: bytes, kind: FileKind | None) -> None:
    assert kind_of(data) == kind


def test_names_say_nothing_and_other_files_are_typed_skips(home: Home) -> None:
    (home.root / "notes.md").write_bytes((SAMPLES / "ctxray/chatgpt_conversations.json").read_bytes())
    (home.root / "chat.json").write_bytes((SAMPLES / "claude-code/sample_session.jsonl").read_bytes())
    (home.root / "users.json").write_text('[{"uuid": "1", "full_name": "Me", "email_address": "me@x"}]')
    (home.root / "messages.json").write_text('{"messages": {"hello": "Hallo"}}')
    (home.root / "empty.jsonl").write_text("")
    (home.root / "secret.env").write_text("A=1")
    events = home.run()
    assert sorted(home.items) == ["chat.json", "notes.md#1710000000.0", "notes.md#1710100000.0"]
    reasons = {e.path: e.code for e in events if isinstance(e, Skipped)}
    assert reasons == {"users.json": "E_MIME", "messages.json": "E_MIME", "empty.jsonl": "E_EMPTY"}


def test_conversations_have_ids_urls_and_no_two_the_same(home: Home) -> None:
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    conversations = [
        {"conversation_id": uuid, "mapping": {}},
        {"uuid": uuid, "chat_messages": []},
        {"id": "same", "mapping": {}},
        {"id": "same", "mapping": {}, "title": "other"},
        {"id": "a\nb", "mapping": {}},
        {"something": "else"},
        {"id": 7, "mapping": {"text": '}]\\"[{' * 3}},
    ]
    (home.root / "c.json").write_text(json.dumps(conversations))
    events = home.run()
    digest = sha256_hex(json.dumps(conversations[4]).encode())[:32]
    names = [uuid, f"{uuid}~2", "same", "same~2", digest, "7"]
    assert fetched(events) == [f"c.json#{name}" for name in names]
    assert [json.loads(home.items[p].data) for p in fetched(events)] == [
        c for c in conversations if "something" not in c
    ]
    urls = [home.items[f"c.json#{name}"].url for name in names]
    assert urls == [f"https://chatgpt.com/c/{uuid}", f"https://claude.ai/chat/{uuid}", *[None] * 4]
    assert [(e.path, e.code) for e in events if isinstance(e, Skipped)] == [("c.json#6", "E_MIME")]


# Long sessions ----------------------------------------------------------------------------------------------


def test_a_long_session_is_cut_where_a_person_begins_to_speak(home: Home) -> None:
    data = session(60)
    (home.root / "s.jsonl").write_bytes(data)
    home.run()
    paths = sorted(home.items)
    assert paths == ["s.jsonl", "s.jsonl#2", "s.jsonl#3", "s.jsonl#4"]
    assert b"".join(home.items[p].data for p in paths) == data
    for path in paths:
        assert begins_turn(json.loads(home.items[path].data.split(b"\n")[0]))
        assert path == paths[-1] or SLICE_BYTES <= len(home.items[path].data) < SLICE_BYTES + 70_000


def test_a_turn_of_a_tool_or_program_is_no_place_to_cut() -> None:
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"type": "user", "message": {"role": "user", "content": "x"}}, True),
        ({"type": "user", "isMeta": True, "message": {"role": "user", "content": "x"}}, False),
        ({"type": "user", "isSidechain": True, "message": {"role": "user", "content": "x"}}, False),
        ({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result"}]}}, False),
        ({"type": "response_item", "payload": {"type": "message", "role": "user", "content": "x"}}, True),
        ({"type": "event_msg", "payload": {"type": "user_message", "message": "x"}}, False),
        ({"type": "message", "message": {"role": "toolResult", "content": "x"}}, False),
        ({"type": "gemini", "content": "x"}, False),
        ({"type": "user", "content": "x"}, True),
        ({"role": "assistant", "content": "x"}, False),
    ]
    for members, begins in cases:
        assert begins_turn(members) == begins, members


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.integers(0, 300)), max_size=30),
    st.integers(150, 900),
    st.integers(0, 9),
)
def test_slices_are_the_bytes_and_growth_changes_the_last_alone(
    said: list[tuple[str, int]], limit: int, cut: int
) -> None:
    lines = [record(n, size, role) for n, (role, size) in enumerate(said)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("taboot_pipelines.connectors.ai_session_files.SLICE_BYTES", 400)
        patch.setattr("taboot_pipelines.connectors.ai_session_files._MOST_BYTES", 600)

        def cuts(data: bytes) -> list[tuple[int, int, bytes | None]]:
            found = list(slices(BytesIO(data), 0, len(data), limit))
            assert [s.last for s in found] == [False] * (len(found) - 1) + [True] * bool(found)
            return [s[:3] for s in found]

        data = b"".join(lines)
        whole = cuts(data)
        at = 0
        for begin, end, piece in whole:
            assert begin == at and (piece is None or (piece == data[begin:end] and len(piece) <= limit))
            at = end
        assert at == len(data)
        for n in range(len(lines)):
            part = b"".join(lines[:n])
            before = cuts(part)
            assert before[:-1] == whole[: max(len(before) - 1, 0)]
            half = lines[n][: len(lines[n]) * cut // 10]
            if len(half) <= limit:
                assert cuts(part + half) == before, "a line that is half written is left"


def test_a_line_of_100_mb_is_left_out_and_the_rest_goes_on(tmp_path: Path) -> None:
    home = Home(tmp_path, limit=1_000_000)
    path = tmp_path / "s.jsonl"
    path.write_bytes(session(3) + record(7, 100_000_000) + session(3))
    tracemalloc.start()
    events = home.run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fetched(events) == ["s.jsonl", "s.jsonl#3"] and peak < 20_000_000
    assert [(e.path, e.code) for e in events if isinstance(e, Skipped)] == [("s.jsonl#2", "E_TOO_LARGE")]


# What changes -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("settled")
def test_what_is_unchanged_is_not_opened(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.root / "long.jsonl").write_bytes(session(40))
    (home.root / "short.jsonl").write_bytes(session(2))
    (home.root / "other.json").write_text("{}")
    export = (SAMPLES / "ctxray/chatgpt_conversations.json").read_bytes()
    (home.root / "c.json").write_bytes(export[:-2] + b', {"no": "chat"}]')
    first = home.run()
    before = home.held()
    monkeypatch.setattr("taboot_pipelines.connectors.recorded.opened", lambda _: pytest.fail("was opened"))
    again = home.run()
    assert home.held() == before and not fetched(again)
    skipped = [e for e in first if isinstance(e, Skipped)]
    assert len(skipped) == 2 and [e for e in again if isinstance(e, Skipped)] == skipped


@pytest.mark.usefixtures("settled")
def test_a_session_that_grew_is_read_from_where_it_ended(home: Home) -> None:
    path = home.root / "s.jsonl"
    path.write_bytes(session(40))
    home.run()
    last = sorted(home.items)[-1]
    with path.open("ab") as f:
        f.write(record(900) + record(901)[:50])
    events = home.run()
    assert fetched(events) == [last] and home.items[last].data.endswith(record(900))
    with path.open("ab") as f:
        f.write(record(901)[50:])
    assert fetched(home.run()) == [last] and home.items[last].data.endswith(record(901))
    assert b"".join(home.items[p].data for p in sorted(home.items)) == path.read_bytes()


@pytest.mark.usefixtures("settled")
def test_a_session_that_was_rewritten_is_read_anew(home: Home) -> None:
    """Wherever it changed, though its end, its inode and its length are the same."""
    path = home.root / "s.jsonl"
    path.write_bytes(session(60))
    home.run()
    data = path.read_bytes()
    for at in (10_000, 300_000, 600_000):
        data = data[:at] + b"Y" + data[at + 1 :]
        path.write_bytes(data + record(7))
        home.run()
        data = path.read_bytes()
        assert b"".join(home.items[p].data for p in sorted(home.items)) == data
    path.write_bytes(session(5))
    home.run()
    assert {p: x.data for p, x in home.items.items()} == {"s.jsonl": session(5)}


def test_whether_thinking_is_shown_is_said_anew_of_every_item(home: Home) -> None:
    (home.root / "a.jsonl").write_bytes(session(40))
    (home.root / "b.jsonl").write_bytes(session(1))
    age(home.root / "a.jsonl", home.root / "b.jsonl")
    home.run()
    assert {x.mime for x in home.items.values()} == {CHAT}
    home.entry(thinking=True)
    home.saved = {}  # what is kept holds for one configuration
    home.run()
    assert {x.mime for x in home.items.values()} == {CHAT_WITH_THINKING}


def test_an_export_that_breaks_off_deletes_nothing(home: Home) -> None:
    path = home.root / "c.json"
    data = json.dumps([{"id": f"c{n}", "mapping": {}} for n in range(5)]).encode()
    path.write_bytes(data)
    home.run()
    path.write_bytes(data[: len(data) // 2])
    events = home.run()
    assert [e.error.code for e in events if isinstance(e, Failed)] == ["E_PARSE"]
    assert isinstance(events[-1], Enumerated) and not events[-1].complete
    assert len(home.items) == 5
    # One that is damaged costs no other.
    path.write_bytes(data.replace(b'"c2", "mapping"', b'"c2" "mapping"'))
    assert len(fetched(home.run())) == 5 and len(home.items) == 5


def zipped(**members: bytes) -> bytes:
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_json", ".json"), content)
    return data.getvalue()


def test_an_export_is_read_from_its_zip(home: Home, settled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    export = (SAMPLES / "ctxray/claude_chat_export.json").read_bytes()
    (home.root / "c.json").write_bytes(export)
    home.run()
    unpacked = {path.partition("#")[2]: x.data for path, x in home.items.items()}
    (home.root / "c.json").unlink()
    one = (SAMPLES / "ctxray/gemini_session.json").read_bytes()
    path = home.root / "export.zip"
    path.write_bytes(zipped(users_json=b"[]", a__conversations_json=export, one_json=one, chat_html=b"<p>"))
    home.run()
    assert {p.partition("#")[2]: x.data for p, x in home.items.items()} == unpacked | {"one.json": one}
    assert not fetched(home.run())
    # One that is damaged deletes nothing; one without chats is no chat.
    path.write_bytes(path.read_bytes()[:-100])
    events = home.run()
    assert [e.error.code for e in events if isinstance(e, Failed)] == ["E_PARSE"]
    assert len(home.items) == len(unpacked) + 1
    (home.root / "b.zip").write_bytes(zipped(users_json=b"[]"))
    assert [e.code for e in home.run() if isinstance(e, Skipped)] == ["E_MIME"]
    monkeypatch.setattr("taboot_pipelines.connectors.ai_session_files.MAX_UNPACKED", 1 << 20)
    (home.root / "b.zip").write_bytes(zipped(c_json=b'[{"mapping": {' + b" " * (1 << 22)))
    assert [e.code for e in home.run() if isinstance(e, Skipped)] == ["E_TOO_LARGE"]


def test_a_path_that_is_a_file_says_what_to_write(home: Home) -> None:
    path = home.root / "s.jsonl"
    path.write_bytes(session(1))
    home.entry(path=str(path))
    with pytest.raises(
        TabootError, match=r"E_PATH.*is a file: name its directory, and the file in `include`"
    ):
        home.run()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"requesterUsername": "me", "responderUsername": "GitHub Copilot", "requests": []}', "Copilot"),
        (b'[{"ts": 1, "type": "say", "say": "api_req_started", "text": "{}"}]', "api_conversation_history"),
        (b'{"allComposers": [{"composerId": "x"}]}', "Cursor"),
    ],
)
def test_chats_of_other_programs_say_what_to_do(home: Home, data: bytes, words: str) -> None:
    (home.root / "x.json").write_bytes(data)
    (skip,) = [e for e in home.run() if isinstance(e, Skipped)]
    assert skip.code == "E_MIME" and words in skip.message


def test_since_and_max_items_bound_a_run(home: Home) -> None:
    old, new = home.root / "old.jsonl", home.root / "new.jsonl"
    old.write_bytes(session(2))
    new.write_bytes(session(2))
    os.utime(old, (1_600_000_000, 1_600_000_000))
    conversations = [
        {"id": "late", "mapping": {}, "update_time": 1_800_000_000.5},
        {"id": "early", "mapping": {}, "update_time": 1_600_000_000},
        {"uuid": "text", "chat_messages": [], "updated_at": "2020-01-01T00:00:00Z"},
        {"uuid": "undated", "chat_messages": []},
    ]
    (home.root / "c.json").write_text(json.dumps(conversations))
    home.entry(since="2025-06-01")
    home.run()
    assert sorted(home.items) == ["c.json#late", "c.json#undated", "new.jsonl"]
    home = Home(home.root, max_items=2)
    taken = []
    for _ in range(4):
        events = home.run()
        taken.append(len(home.items))
        assert isinstance(events[-1], Enumerated) and events[-1].complete == (len(home.items) == 6)
    assert taken == [2, 4, 6, 6]


def test_a_plan_says_files_and_bytes_and_reads_none(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.root / "a.jsonl").write_bytes(session(1))
    (home.root / "b.jsonl").write_bytes(session(2))
    os.utime(home.root / "b.jsonl", (1_600_000_000, 1_600_000_000))
    monkeypatch.setattr("taboot_pipelines.connectors.recorded.opened", lambda _: pytest.fail("was opened"))
    home.entry(since="2025-06-01", max_items=3)
    connector = open_connector(home.config, home.access(MemoryState()))
    assert isinstance(connector, Planner)
    (plan,) = connector.plan()
    assert (plan.requests, plan.items, plan.bytes) == (0, 1, len(session(1))) and "3" in plan.note


def test_what_was_deleted_stays_so(home: Home) -> None:
    (home.root / "s.jsonl").write_bytes(session(40))
    home.run()
    events = home.run(tombstones=("s.jsonl#2",))
    assert [e.code for e in events if isinstance(e, Skipped)] == ["E_TOMBSTONED"]


SMALL = 700
paths = st.sampled_from(["a.jsonl", "b.jsonl", "c.json"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), paths, st.integers(1, 9)),
        st.tuples(st.just("half"), paths, st.integers(1, 90)),
        st.tuples(st.just("edit"), paths, st.integers(0, 3000)),
        st.tuples(st.just("truncate"), paths, st.integers(0, 3000)),
        st.tuples(st.just("rewrite"), paths, st.integers(1, 12)),
        st.tuples(st.just("rename"), paths, paths),
        st.tuples(st.just("delete"), paths, st.just(0)),
        st.tuples(st.just("export"), paths, st.integers(0, 5)),
        st.tuples(st.just("kill"), paths, st.integers(0, 6)),
        st.tuples(st.just("run"), paths, st.just(0)),
    ),
    max_size=14,
)


def change(root: Path, step: str, name: str, value: Any, number: int) -> None:
    path = root / name
    data = path.read_bytes() if path.exists() else b""
    match step:
        case "grow":
            said = [record(100 * number + n, 90, "user" if n % 2 else "assistant") for n in range(value)]
            with path.open("ab") as f:
                f.write(b"".join(said))
        case "half":
            with path.open("ab") as f:
                f.write(record(number)[:value])
        case "edit" if data:
            at = value % len(data)
            path.write_bytes(data[:at] + b"E" + data[at + 1 :])
        case "truncate":
            path.write_bytes(data[:value])
        case "rewrite":
            path.write_bytes(b"".join(record(7000 + number + n, 80) for n in range(value)))
        case "rename" if path.exists():
            path.rename(root / value)
        case "delete":
            path.unlink(missing_ok=True)
        case "export":
            said = [
                json.dumps({"id": f"c{n % 4}", "mapping": {}, "n": number}).encode() for n in range(value)
            ]
            path.write_bytes(b"[" + b",\n".join(said) + b"]")


@settings(max_examples=150, deadline=None)
@given(steps, st.booleans())
def test_incremental_equals_from_scratch(changes: list[tuple[str, str, Any]], is_settled: bool) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr("taboot_pipelines.connectors.ai_session_files.SLICE_BYTES", SMALL)
        patch.setattr("taboot_pipelines.connectors.ai_session_files._MOST_BYTES", 2 * SMALL)
        if is_settled:
            patch.setattr("taboot_pipelines.connectors.walk._SETTLED_SECONDS", -1e9)
        root = Path(directory)
        home = Home(root)
        for number, (step, name, value) in enumerate(changes):
            if step in ("run", "kill"):
                home.run(killed_after=value if step == "kill" else None)
            else:
                change(root, step, name, value, number)
        events = home.run()
        scratch = Home(root)
        there = scratch.run()
        assert isinstance(events[-1], Enumerated) and events[-1] == there[-1]
        if events[-1].complete:
            # What is there and not read keeps what was read of it before.
            stale = {e.path for e in events if isinstance(e, Skipped)}
            assert {p: x for p, x in home.held().items() if p not in stale} == scratch.held()
        else:
            assert scratch.held().items() <= home.held().items()
        assert _reasons(events) == _reasons(there)


def _reasons(events: list[Event]) -> set[tuple[str, str]]:
    return {
        (e.path, e.code if isinstance(e, Skipped) else e.error.code)
        for e in events
        if isinstance(e, Skipped | Failed)
    }


# Exports ----------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='"\\[]{},:é x', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('"\\[]{}', max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(values, max_size=6), st.integers(1, 12), st.booleans(), st.sampled_from([None, 1]))
def test_an_array_is_parted_into_its_objects(
    array: list[Any], chunk: int, ascii_: bool, indent: int | None
) -> None:
    data = json.dumps(array, ensure_ascii=ascii_, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("taboot_pipelines.connectors.ai_session_files._CHUNK", chunk)
        wanted = [value for value in array if isinstance(value, dict | list)]
        found = list(elements(BytesIO(data), 10_000))
        assert [json.loads(x) for x in found if isinstance(x, bytes)] == wanted
        limited = list(elements(BytesIO(data), 8))
        assert limited == [
            x if isinstance(x, bytes) and len(x) <= 8 else len(x) for x in found if isinstance(x, bytes)
        ]
        for cut in range(len(data.rstrip()) - 1):
            parts: list[Any] = []
            with pytest.raises(TabootError, match="does not come to its end"):
                parts.extend(elements(BytesIO(data[:cut]), 10_000))
            assert parts == found[: len(parts)]


class _Endless:
    """An export of any size that is never in memory."""

    def __init__(self, conversations: int, size: int) -> None:
        one = json.dumps({"id": "c", "mapping": {"a": {"message": "x" * size}}}).encode()
        self._parts: Iterator[bytes] = iter((b"[", *([one + b","] * (conversations - 1)), one, b"]"))

    def read(self, _: int) -> bytes:
        return next(self._parts, b"")


def test_an_export_of_any_size_takes_the_memory_of_one_conversation() -> None:
    peaks = []
    for conversations in (100, 1000):
        tracemalloc.start()
        stream: Any = _Endless(conversations, 100_000)
        assert sum(1 for _ in elements(stream, 1_000_000)) == conversations
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] + 500_000


def test_parting_takes_time_in_proportion() -> None:
    """One string of 50 MB, and brackets alone: guards against looking at them again with each chunk."""
    begun = time.process_time()
    data = b'[{"a": "' + b"\\\\x" * 17_000_000 + b'"}]'
    assert [len(x) for x in elements(BytesIO(data), 10**9) if isinstance(x, bytes)] == [len(data) - 2]
    nested = b"[" * 1_000_000 + b"]" * 1_000_000
    assert list(elements(BytesIO(nested), 100)) == [len(nested) - 2]
    assert time.process_time() - begun < 60
