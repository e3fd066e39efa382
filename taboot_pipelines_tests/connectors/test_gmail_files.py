"""Mail in files: messages, mbox in its dialects, Maildir, recorded messages of the Gmail API."""

from __future__ import annotations

import gzip
import io
import mailbox
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors.gmail.files import MailReader, split_mbox
from taboot_pipelines.connectors.recorded import RecordedFile
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.model.records import Enumerated, Failed, Fetched, Skipped
from taboot_pipelines.sources import document_forms
from taboot_pipelines_tests.connectors.runs import Kept, access_to

FROM = b"From ann@example.org Mon Mar  2 10:00:00 2026\n"


def mail(n: int, body: str = "") -> bytes:
    return f"Message-ID: <{n}@example.org>\nSubject: mail {n}\n\n{body or f'Text {n}.'}\n".encode()


def run(kept: Kept, root: Path, **fields: Any) -> Enumerated | None:
    return kept.run({"type": "gmail", "path": ".", **fields}, access_to(root))


def settle() -> None:
    """A file that was written this moment may be written again unseen, so its signature is not kept yet."""
    time.sleep(2.1)


def test_every_recorded_mail_is_an_item_or_a_typed_skip(data):
    kept = Kept()
    access = access_to(data)
    assert kept.run({"type": "gmail", "path": "email"}, access) == Enumerated(True)
    assert sum(path.endswith(".eml") and "#" not in path for path in kept.known) == 53
    assert sum(path.count("#") == 1 and path.startswith("joined.mbox#") for path in kept.known) == 12
    assert not kept.of(Failed)
    exported = Kept()
    assert exported.run({"type": "gmail", "path": "gmail"}, access) == Enumerated(True)
    assert sum("#" not in path for path in exported.known) == 8
    assert [(e.path, e.code) for e in exported.of(Skipped)] == [("list.json", "E_MIME")]
    assert set(exported.mimes.values()) <= {"application/vnd.taboot.gmail+json", "text/x-ruby-script"}


def test_the_messages_of_an_mbox_are_the_mails_it_was_made_from(data):
    with (data / "email" / "joined.mbox").open("rb") as stream:
        found = [m.replace(b"\r\n", b"\n").strip() for m in split_mbox(stream, 10**9)]
    mails = {
        p.read_bytes().replace(b"\r\n", b"\n").strip() for p in (data / "email").glob("mikel-mail/*/*.eml")
    }
    assert len(found) == 12
    assert set(found) <= mails


def test_a_message_that_goes_moves_no_other(tmp_path):
    box = tmp_path / "a.mbox"
    messages = [mail(1), mail(2), mail(3, "x"), mail(3, "y"), b"Subject: no id\n\nz\n", mail(4)]
    box.write_bytes(b"".join(FROM + m + b"\n" for m in messages))
    kept = Kept()
    assert run(kept, tmp_path) == Enumerated(True)
    before = kept.contents()
    assert set(before.values()) == set(messages)
    box.write_bytes(b"".join(FROM + m + b"\n" for m in messages if m != mail(2)))
    assert run(kept, tmp_path) == Enumerated(True)
    assert kept.contents() == {path: data for path, data in before.items() if data != mail(2)}
    assert kept.new_blobs == 0


FOREIGN = {
    "a.msg": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "save it as `.eml`"),
    "b.pst": (b"!BDN" + bytes(600), "export its folders"),
    "c.mbox.gz": (gzip.compress(FROM + b"Subject: x\n\ny\n"), "unpack it"),
    "d.eml": (b"PK\x03\x04" + bytes(99), "unpack it"),
    "Folder.sbd/Inbox.msf": (b"// <!-- <mdb:mork:z v=", "the file beside it"),
    "e.mbox": (b"Dear all,\nthis is no mbox.\n", "is no mail"),
    "f.emlx": (b"no number\n", "no message of Apple Mail"),
    "g.mbox": (FROM, "is empty"),
}


def test_mail_in_forms_that_are_not_read_is_told_with_what_to_do(tmp_path):
    """Beside files that are none of a mailbox, and those that programs call otherwise."""
    for name, (data, _) in FOREIGN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "holiday.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / "1.emlx").write_bytes(b"%d  \n%b<?xml flags" % (len(mail(1)), mail(1)))
    (tmp_path / "Inbox").write_bytes(FROM + mail(2))
    (tmp_path / "Folder.sbd" / "Bills").write_bytes(FROM + mail(3))
    kept = Kept()
    assert run(kept, tmp_path) == Enumerated(True)
    assert set(kept.contents().values()) == {mail(1), mail(2), mail(3)}
    told = {e.path.partition("#")[0]: (e.code, e.message) for e in kept.of(Skipped)}
    assert told.keys() == FOREIGN.keys()
    for name, (code, message) in told.items():
        assert code in ("E_MIME", "E_EMPTY")
        assert FOREIGN[name][1] in message and name in message
    assert run(kept, tmp_path) == Enumerated(True)
    assert kept.new_blobs == 0


#: Message id (0: none), what the body says, whether it was marked as read.
LETTERS = st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans())


def letter(number: int, body: int, is_read: bool) -> bytes:
    head = f"Message-ID: <{number}@example.org>\n" if number else ""
    mark = "Status: RO\nX-Mozilla-Status: 0001\n" if is_read else ""
    return f"{head}Subject: one of many\n{mark}\nText {body}.\n".encode()


@given(st.lists(LETTERS, max_size=12), st.data())
def test_no_message_of_an_mbox_is_called_otherwise_when_others_go(letters, draw):
    """Also with several of one message id, without one, and marked as read meanwhile. Of equal ones the last
    number goes."""

    def named(held: list[tuple[int, int, bool]]) -> dict[str, bytes]:
        stream = io.BytesIO(b"".join(FROM + letter(*one) + b"\n" for one in held))
        file = RecordedFile("box", 0, 10**6, stream)
        return {part.name or "": part.data for part in MailReader(lambda _, __: ())(file)} if held else {}

    stays = [draw.draw(st.booleans()) for _ in letters]
    before = named(letters)
    assert len(before) == len(letters)
    left = [one for one, kept in zip(letters, stays, strict=True) if kept]
    after = named(left)
    assert sorted(after.values()) == sorted(letter(*one) for one in left)
    assert after.keys() <= before.keys()
    for name, data in after.items():
        assert data.endswith(before[name].rpartition(b"\n\n")[2])
    read = named([(number, body, not is_read) for number, body, is_read in letters])
    assert read.keys() == before.keys()


def test_an_unchanged_folder_is_not_read_again(tmp_path):
    (tmp_path / "a.mbox").write_bytes(FROM + mail(1) + b"\n" + FROM + mail(2))
    (tmp_path / "b.eml").write_bytes(mail(3))
    (tmp_path / "c.json").write_bytes(b"[1]")
    settle()
    kept = Kept()
    run(kept, tmp_path)
    assert run(kept, tmp_path) == Enumerated(True)
    assert not kept.of(Fetched)
    assert [e.code for e in kept.of(Skipped)] == ["E_MIME"]
    assert len(kept.known) == 3


def test_a_maildir_message_keeps_its_path_when_it_is_read(tmp_path):
    box = mailbox.Maildir(tmp_path / "box", create=True)
    keys = [box.add(mail(n)) for n in range(3)]
    kept = Kept()
    assert run(kept, tmp_path) == Enumerated(True)
    before = kept.contents()
    assert sorted(before.values()) == [mail(n) for n in range(3)]
    assert all(path.startswith("box/cur/") for path in before)
    read = box[keys[0]]
    read.set_subdir("cur")
    read.add_flag("SF")
    box[keys[0]] = read
    assert list((tmp_path / "box" / "cur").iterdir())
    assert run(kept, tmp_path) == Enumerated(True)
    assert kept.contents() == before
    box.remove(keys[1])
    run(kept, tmp_path)
    assert sorted(kept.contents().values()) == [mail(0), mail(2)]


def test_texts_that_are_attached_are_items(tmp_path):
    nested = b"Subject: inner\nContent-Type: multipart/mixed; boundary=i\n\n--i\n\ninner text\n"
    nested += (
        b'--i\nContent-Type: text/plain; name="b.conf"\nContent-Disposition: attachment\n\nb = 2\n--i--\n'
    )
    outer = b"Subject: outer\nContent-Type: multipart/mixed; boundary=o\n\n--o\n\nouter text\n"
    for head, content in (
        (b'application/octet-stream; name="a.yaml"', b"a: 1"),
        (b"image/png; name=x.png", b"\x89PNG"),
        (b'text/plain; name=".env"', b"PASSWORD=hunter2"),
        (b"message/rfc822", nested),
    ):
        outer += b"--o\nContent-Type: " + head + b"\nContent-Disposition: attachment\n\n" + content + b"\n"
    (tmp_path / "m.eml").write_bytes(outer + b"--o--\n")
    kept = Kept()
    assert run(kept, tmp_path) == Enumerated(True)
    assert {path: kept.mimes[path] for path in kept.known} == {
        "m.eml": "message/rfc822",
        "m.eml#1-a.yaml": "application/yaml",
        "m.eml#4-inner.eml": "message/rfc822",
        "m.eml#4-inner.eml#1-b.conf": "text/x-nginx-conf",
    }
    assert kept.contents()["m.eml#1-a.yaml"] == b"a: 1"
    assert kept.contents()["m.eml#4-inner.eml#1-b.conf"] == b"b = 2"


def test_every_text_that_is_attached_is_a_document(data):
    """Whatever the file is called that holds it; of the recorded mails too."""
    kept = Kept()
    kept.run({"type": "gmail", "path": "email"}, access_to(data))
    texts = [path for path, mime in kept.mimes.items() if "#" in path and (mime or "").startswith("text/")]
    assert len(texts) > 6
    for path in texts:
        document = parse_document(
            kept.contents()[path],
            path=path,
            mime=kept.mimes[path],
            charset=None,
            languages=[],
            max_chars=9999,
            forms=document_forms(),
        )
        assert document.text.strip(), path


@pytest.mark.parametrize("name", ["picture.eml", "notes.json", "table.mbox", "empty.eml"])
def test_what_is_no_mail_is_a_typed_skip_or_document(tmp_path, name):
    contents = {
        "picture.eml": b"\x89PNG\r\n",
        "notes.json": b'{"a": 1}',
        "table.mbox": b"a,b\n",
        "empty.eml": b"",
    }
    (tmp_path / name).write_bytes(contents[name])
    kept = Kept()
    assert run(kept, tmp_path) == Enumerated(True)
    told = kept.events[0]
    assert isinstance(told, Skipped | Fetched)
    assert not kept.of(Failed)


# --- mbox ---------------------------------------------------------------------------------------------------

DATED = "From ann@example.org Mon Mar  2 10:00:00 2026"
BODIES = st.lists(
    st.sampled_from(["From here on", DATED, "> x", ">From a", "", "text", "To: b", "é"]), max_size=6
).map(lambda lines: "\n".join(["body", *lines, "end"]))


@settings(deadline=None)
@given(
    st.lists(BODIES, min_size=1, max_size=5), st.sampled_from(["rd", "cl2"]), st.sampled_from(["\n", "\r\n"])
)
def test_the_messages_of_each_dialect_come_back(bodies, dialect, newline):
    messages = []
    for n, body in enumerate(bodies):
        if dialect == "cl2":
            # With a length, nothing says whether a single `>` was written by the mbox or by a person.
            body = body.replace(">From a", "From a")
        length = len(body.encode()) + body.count("\n") * (len(newline) - 1)
        stated = f"Content-Length: {length}\n" if dialect == "cl2" else ""
        messages.append(f"Subject: {n}\n{stated}\n{body}".replace("\n", newline).encode())
    out = b""
    for message in messages:
        written = message
        if dialect == "rd":
            lines = message.split(newline.encode())
            written = newline.encode().join(
                b">" + line if line.lstrip(b">").startswith(b"From ") else line for line in lines
            )
        out += FROM.strip() + newline.encode() + written + 2 * newline.encode()
    found = list(split_mbox(io.BytesIO(out), 10**6))
    assert [m.rstrip(b"\r\n") for m in found] == messages


MBOX_PIECES = [FROM, b"From x\n", b"Subject: s\n", b"\n", b"\r\n", b"text\n", b">From y\n", b"\x00\xff"]
MBOX_PIECES += [b"Content-Length: 5\n", b"Content-Length: 99999999999\n", b"x" * 50]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(MBOX_PIECES), max_size=30))
def test_any_mbox_is_read_to_its_end_within_its_limit(pieces):
    data = FROM + b"".join(pieces)
    found = list(split_mbox(io.BytesIO(data), 40))
    assert found
    assert all(len(message) <= 41 for message in found)


class Endless(io.RawIOBase):
    """A made-up mbox of ``count`` messages, of which one has ``large`` bytes: no bytes are held."""

    def __init__(self, count: int, large: int) -> None:
        self.unit = FROM + mail(1, "x" * 900) + b"\n"
        self.large = large
        self.size = count * len(self.unit) + len(FROM) + len(b"Subject: l\n\n") + large
        self.head = FROM + b"Subject: l\n\n"
        self.at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.size - self.at)
        for i in range(0, count, 65_536):
            piece = self.piece(self.at + i, min(65_536, count - i))
            buffer[i : i + len(piece)] = piece
        self.at += count
        return count

    def piece(self, at: int, count: int) -> bytes:
        first = len(self.head) + self.large
        if at < first:
            return (self.head[at:] + b"y" * 65_536 if at < len(self.head) else b"y" * 65_536)[
                : min(count, first - at)
            ] + (self.piece(first, count - (first - at)) if count > first - at else b"")
        offset = (at - first) % len(self.unit)
        repeated = self.unit * (count // len(self.unit) + 2)
        text = repeated[offset : offset + count]
        return b"\n" + text[1:] if at == first else text


def test_a_large_mbox_takes_no_more_memory_than_a_message():
    made = Endless(100_000, 50_000_000)
    # The large message has no line break before the next one: it takes that in.
    stream = io.BufferedReader(made, 1 << 20)
    tracemalloc.start()
    count = sum(1 for _ in split_mbox(stream, 1_000_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count > 90_000
    assert peak < 12_000_000


def test_blank_lines_count_as_well():
    found = list(split_mbox(io.BytesIO(FROM + mail(1) + b"\n" * 100_000 + FROM + mail(2)), 1_000))
    assert [len(message) for message in found] == [1_001, len(mail(2))]


def test_a_message_beyond_the_limit_is_skipped_and_those_beside_it_are_read(tmp_path):
    large = mail(2, "line\n" * 50_000)
    (tmp_path / "a.mbox").write_bytes(b"".join(FROM + m + b"\n" for m in (mail(1), large, mail(3))))
    kept = Kept()
    entry = {"type": "gmail", "path": "."}
    assert kept.run(entry, access_to(tmp_path, max_blob_bytes=10_000)) == Enumerated(True)
    skipped = [(e.path.partition("~")[0], e.code) for e in kept.of(Skipped)]
    assert skipped == [("a.mbox#2@example.org", "E_TOO_LARGE")]
    assert sorted(kept.contents().values()) == [mail(1), mail(3)]


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "file", "kill", "run"]), st.integers(0, 9)), max_size=12
)


@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_incremental_equals_from_scratch(tmp_path_factory, steps):
    root = tmp_path_factory.mktemp("mail")
    box: list[bytes] = []
    kept = Kept()
    for kind, n in steps:
        if kind == "add":
            box.append(mail(n % 4, f"body {n}"))
        elif kind == "remove" and box:
            box.pop(n % len(box))
        elif kind == "file":
            path = root / f"{n % 3}.eml"
            if path.exists():
                path.unlink()
            else:
                path.write_bytes(mail(n))
        else:
            (root / "box.mbox").write_bytes(b"".join(FROM + m + b"\n" for m in box))
            run_until = n if kind == "kill" else None
            kept.run({"type": "gmail", "path": "."}, access_to(root), kill_after=run_until)
    (root / "box.mbox").write_bytes(b"".join(FROM + m + b"\n" for m in box))
    assert run(kept, root) == Enumerated(True)
    scratch = Kept()
    run(scratch, root)
    assert kept.contents() == scratch.contents()
    shutil.rmtree(root)
