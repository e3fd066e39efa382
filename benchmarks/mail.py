"""Mail from an mbox to documents: documents/s and peak memory, beside the standard library and mail-parser.

    python benchmarks/mail.py [DATA_DIR] [COUNT]

An mbox of COUNT messages (default 10,000) is made of those in DATA_DIR/email (default ``../shared/data``) and
of three of our own making: a reply with its history, HTML with a text beside it, and an attached file. Each
way runs in a process of its own, with a tenth of the messages and with all: memory that is flat is the same
for both. ``ours`` is the reader (which takes out attached texts) and the whole parser, masking and language
included; the others decode a message's fields and body, and nothing more.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from email import message_from_binary_file, policy
from email.message import EmailMessage
from pathlib import Path

HISTORY = "".join(f"> Line {n} of what was written before, which is as long as any.\n" for n in range(40))
TEXT = "".join(f"Line {n} of what is written now, which is as long as lines are.\n" for n in range(25))
FROM = b"From MAILER-DAEMON Thu Jan  1 00:00:00 2026\n"


def messages(data: Path) -> list[bytes]:
    """The recorded messages and ours, each with a place for its number."""
    made: list[EmailMessage] = []
    for kind in ("reply", "html", "attachment"):
        message = EmailMessage()
        message["From"] = "Ann Example <ann@example.org>"
        message["To"] = "ops@example.org"
        message["Date"] = "Mon, 02 Mar 2026 10:00:00 +0100"
        message["Subject"] = f"Re: a {kind}"
        message.set_content(f"{TEXT}\nOn Mon, 2 Mar 2026, Bob wrote:\n{HISTORY}" if kind == "reply" else TEXT)
        if kind == "html":
            message.add_alternative(f"<p>{TEXT.replace(chr(10), '</p><p>')}</p>", subtype="html")
        if kind == "attachment":
            message.add_attachment(b"\x00\x01" * 30_000, maintype="image", subtype="png", filename="a.png")
            message.add_attachment("a: 1\n" * 50, subtype="yaml", filename="a.yaml")
        made.append(message)
    recorded = sorted((data / "email").glob("mikel-mail/*/*.eml"))
    return [path.read_bytes() for path in recorded] + [bytes(m) for m in made for _ in range(18)]


def write(path: Path, data: Path, count: int) -> None:
    found = messages(data)
    with path.open("wb") as out:
        for n in range(count):
            lines = found[n % len(found)].replace(b"\r\n", b"\n").split(b"\n")
            quoted = [b">" + x if x.lstrip(b">").startswith(b"From ") else x for x in lines]
            out.write(FROM + b"X-Number: %d\n%s\n\n" % (n, b"\n".join(quoted)))


def ours(box: Path) -> int:
    from taboot_pipelines.connectors.access import Access
    from taboot_pipelines.documents.forms.mail import attached_texts
    from taboot_pipelines.documents.parse import parse_document
    from taboot_pipelines.errors import TabootError
    from taboot_pipelines.model.records import Fetched
    from taboot_pipelines.settings import Settings
    from taboot_pipelines.sources import document_forms, open_connector
    from taboot_pipelines.sources.sources_file import parse_entry

    entry = parse_entry({"id": "mail", "type": "gmail", "path": str(box.parent)})
    access = replace(Access.of(Settings(), box.parent), attachments=attached_texts)
    done = 0
    for event in open_connector(entry, access).events({}, lambda _: False):
        if isinstance(event, Fetched):
            try:
                parse_document(
                    event.data,
                    path=event.path,
                    mime=event.mime,
                    charset=event.charset,
                    languages=[],
                    max_chars=2_000_000,
                    forms=document_forms(),
                )
            except TabootError:
                continue
            done += 1
    return done


def library(box: Path) -> int:
    import io

    done = 0
    for blob in _split(box):
        message = message_from_binary_file(io.BytesIO(blob), policy=policy.default)
        try:
            _ = message["subject"], message["from"], message["date"]
            body = message.get_body(("plain", "html"))
            if body is not None:
                body.get_content()
        except (LookupError, ValueError, AttributeError, TypeError, AssertionError):
            continue
        done += 1
    return done


def mail_parser(box: Path) -> int:
    import mailparser

    done = 0
    for blob in _split(box):
        try:
            parsed = mailparser.parse_from_bytes(blob)
            _ = parsed.subject, parsed.from_, parsed.date, parsed.body
        except Exception:
            continue
        done += 1
    return done


def _split(box: Path) -> Iterator[bytes]:
    from taboot_pipelines.connectors.gmail.files import split_mbox

    with box.open("rb") as stream:
        yield from split_mbox(stream, 1 << 30)


WAYS: dict[str, Callable[[Path], int]] = {
    "ours": ours,
    "standard library": library,
    "mail-parser": mail_parser,
}


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--run"]:
        box = Path(arguments[2])
        begun, used = time.perf_counter(), time.process_time()
        done = WAYS[arguments[1]](box)
        seconds, used = time.perf_counter() - begun, time.process_time() - used
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rates = f"{done / seconds:7.0f} a second, {done / used:7.0f} a second of CPU"
        print(f"{arguments[1]:18} {done:7,} read, {rates}, peak {peak:6.0f} MB")
        return
    data = Path(arguments[0]) if arguments else Path(__file__).parents[2] / "shared" / "data"
    count = int(arguments[1]) if len(arguments) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        for part in (count // 10, count):
            box = Path(folder) / str(part) / "all.mbox"
            box.parent.mkdir()
            write(box, data, part)
            print(f"{part:,} messages, {box.stat().st_size / 1e6:.0f} MB")
            for way in WAYS:
                ended = subprocess.run(
                    [sys.executable, __file__, "--run", way, str(box)], stderr=subprocess.DEVNULL, check=False
                )
                if ended.returncode:
                    print(f"{way:18} does not run here")


if __name__ == "__main__":
    main(sys.argv[1:])
