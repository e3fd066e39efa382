"""Speed and memory of chats: files read into items, items into documents, embedding apart.

    python benchmarks/chat_sessions.py

10,000 messages in 1,000 sessions of ten as Claude Code keeps them, through the reader and the form, masks and
language included. The same messages in one export, and ten times as many, whose memory is to be the same.
Peer: ``json.loads`` of every line, which is the least that any converter of transcripts does.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.ai_session import AiSessionSource
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.model.records import Fetched
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import document_forms, open_connector

SESSIONS, MESSAGES = 1000, 10
WORDS = ("the", "proxy", "container", "network", "volume", "restart", "port", "database", "disk", "of")


def words(source: random.Random, number: int) -> str:
    return " ".join(source.choices(WORDS, k=number)).capitalize() + "."


def records(number: int, source: random.Random) -> Iterator[dict[str, object]]:
    """The messages of one session: questions, and answers with a call and its result."""
    for at in range(MESSAGES):
        content: list[dict[str, object]]
        if at % 2 == 0:
            content = [{"type": "text", "text": words(source, 30)}]
            if at:
                content.append(
                    {"type": "tool_result", "tool_use_id": f"t{at - 1}", "content": "up 3 days\n" * 8}
                )
        else:
            text = words(source, 60) + "\n\n```yaml\nservices:\n  web:\n    image: nginx:1.27\n```\n"
            content = [
                {"type": "text", "text": text},
                {"type": "tool_use", "id": f"t{at}", "name": "Bash", "input": {"command": "docker ps"}},
            ]
        role = ("user", "assistant")[at % 2]
        yield {
            "parentUuid": f"{number}-{at - 1}",
            "isSidechain": False,
            "type": role,
            "timestamp": f"2026-01-02T10:{at:02}:00.000Z",
            "sessionId": f"s{number}",
            "cwd": "/srv/app",
            "version": "2.0.1",
            "uuid": f"{number}-{at}",
            "message": {"role": role, "model": "model-1", "content": content},
        }


def write(folder: Path) -> None:
    source = random.Random(1)
    for number in range(SESSIONS):
        lines = (json.dumps(record) + "\n" for record in records(number, source))
        (folder / f"{number:04}.jsonl").write_text("".join(lines))


def export(path: Path, conversations: int) -> None:
    """An export of ChatGPT with conversations of ten messages."""
    source = random.Random(1)
    with path.open("w") as f:
        for number in range(conversations):
            mapping = {
                str(at): {
                    "parent": str(at - 1),
                    "message": {
                        "author": {"role": ("user", "assistant")[at % 2]},
                        "create_time": 1.7e9 + at,
                        "content": {"content_type": "text", "parts": [words(source, 60)]},
                    },
                }
                for at in range(MESSAGES)
            }
            one = {"title": words(source, 3), "conversation_id": str(number), "mapping": mapping}
            f.write(("[" if number == 0 else ",") + json.dumps(one))
        f.write("]")


def documents(folder: Path) -> int:
    """Read every item and make its document; return how many."""
    entry = AiSessionSource.model_validate({"id": "s", "type": "ai_session", "path": str(folder)})
    access = Access.of(Settings(home=folder / ".home"), folder)
    made = 0
    for event in open_connector(entry, access).events({}, lambda _: False):
        if isinstance(event, Fetched):
            parse_document(
                event.data,
                path=event.path,
                mime=event.mime,
                charset=None,
                languages=["en"],
                max_chars=20_000_000,
                forms=document_forms(),
            )
            made += 1
    return made


def loads(folder: Path) -> int:
    return sum(
        isinstance(json.loads(line), dict)
        for path in sorted(folder.iterdir())
        for line in path.read_bytes().splitlines()
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "sessions"
        folder.mkdir()
        write(folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{SESSIONS * MESSAGES} messages in {SESSIONS} sessions, {size / 1e6:.1f} MB")
        documents(folder)
        for _ in range(3):
            wall, cpu = time.perf_counter(), time.process_time()
            made = documents(folder)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            begun = time.perf_counter()
            loads(folder)
            peer = time.perf_counter() - begun
            print(
                f"{made / wall:.0f} documents/s, {made * MESSAGES / wall:.0f} messages/s (a CPU second:"
                f" {made / cpu:.0f} and {made * MESSAGES / cpu:.0f}); json.loads alone"
                f" {SESSIONS * MESSAGES / peer:.0f} messages/s"
            )
        for conversations in (SESSIONS, 10 * SESSIONS):
            one = Path(directory) / f"export-{conversations}"
            one.mkdir()
            export(one / "conversations.json", conversations)
            tracemalloc.start()
            made = documents(one)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            print(f"export of {made} conversations: peak {peak / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
