"""What an assistant is shown by the tools of ``taboot mcp``, how long it waits and how much it has to read.

    python benchmarks/mcp_tasks.py [HOMES]

HOMES: a home of each open house, as ``score.py`` beside the questions makes them; made anew without it. The
SDK's own client asks, in two ways.

*Scripts*: the tasks of ``mcp_tasks.jsonl``, each some calls, the patterns that what is told has to match and
those that it must not (``never``), and the lines of the house's files that show it, which are looked up there
first. ``$id`` is the first id of the answer before, ``$cursor`` how it goes on; where it does not, the call
is left out. Tools that change something have to be refused.

*Questions*: each question of the open houses. A script stands for an assistant: ask; if that is no answer,
search twice and read the first three documents at their hits. It is done where all that the right answer has
to hold was shown; of questions that nothing answers, where ``ask`` says so.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answer_reading import DATA, with_strangers
from mcp.client.client import Client

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.mcp.server import make_server
from taboot_pipelines.mcp.texts import MAX_CHARS
from taboot_pipelines.settings import load_settings

HOUSES = DATA / "house-questions"
TASKS = Path(__file__).with_suffix(".jsonl")
#: Lines above a hit where a document is read from.
ABOVE = 5
#: A token of English text and configuration, in characters.
TOKEN = 4
HIT = re.compile(r"(?m)^\d+\. [^\s:]+: (\S+):(\d+) \(id ")
#: What a script takes of the answer before.
TAKEN = {
    "$id": re.compile(r"(?m)\(id ([0-9a-f:]+)\)(?: \+\d+)?$"),
    "$cursor": re.compile(r"go on with cursor=(\d+)\)$"),
}


class Assistant:
    """Asks by the client, and keeps what it saw and how long it waited."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.seen: list[str] = []
        self.seconds: list[float] = []
        self.sizes: list[int] = []

    async def call(self, tool: str, **arguments: Any) -> str:
        begun = time.perf_counter()
        made: Any = await self._client.call_tool(tool, arguments)
        self.seconds.append(time.perf_counter() - begun)
        text: str = made.content[0].text
        self.sizes.append(len(text))
        self.seen.append(text)
        return text

    def _lacks(self, patterns: list[str]) -> list[str]:
        """The patterns that nothing of what was seen matches."""
        shown = "\n".join(self.seen)
        return [p for p in patterns if not re.search(p, shown, re.IGNORECASE)]

    async def script(self, task: dict[str, Any]) -> list[str]:
        """What a task lacks that should be shown, and what it shows that should not."""
        self.seen = []
        for tool, arguments in task["calls"]:
            given = dict(arguments)
            for name, value in arguments.items():
                if isinstance(value, str) and value in TAKEN:
                    found = TAKEN[value].search(self.seen[-1])
                    given[name] = found[1] if found else None
            if None not in given.values():
                await self.call(tool, **given)
        never = task.get("never", [])
        return [*self._lacks(task["must"]), *(f"not {p}" for p in set(never) - set(self._lacks(never)))]

    async def question(self, question: dict[str, Any]) -> bool:
        """Whether all that the answer has to hold was shown."""
        self.seen = []
        said = await self.call("ask", question=question["question"])
        if question["kind"] == "none":
            return said.startswith("Not answered.")
        hits: list[tuple[str, str]] = []
        for cursor in (None, "5"):
            if self._lacks(question["must"]):
                found = await self.call("search", query=question["question"], cursor=cursor)
                hits += HIT.findall(found)
        for path, line in list(dict(hits).items())[:3]:
            if self._lacks(question["must"]):
                await self.call("document", document=path, line=max(1, int(line) - ABOVE))
        return not self._lacks(question["must"])


def check_evidence(tasks: list[dict[str, Any]]) -> None:
    """Fail where a file of a house does not hold what a task says that it holds."""
    with tempfile.TemporaryDirectory() as folder:
        for house in {task["house"] for task in tasks}:
            with tarfile.open(HOUSES / "houses" / f"{house}.tar.xz") as archive:
                archive.extractall(folder, filter="data")
        for task in tasks:
            for file, held in task["evidence"]:
                assert held in Path(folder, file).read_text(encoding="utf-8"), (task["task"], file, held)


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def measure(homes: Path) -> None:
    tasks, questions = rows(TASKS), rows(HOUSES / "questions.jsonl")
    check_evidence(tasks)
    done: dict[str, list[bool]] = {}
    seconds: list[float] = []
    sizes: list[int] = []
    failed: list[str] = []
    for home in sorted(p for p in homes.iterdir() if (p / "kb").is_dir()):
        kb = KnowledgeBase.open(settings=load_settings(home=home))

        async def talk(kb: KnowledgeBase = kb, house: str = home.name) -> None:
            async with Client(make_server(kb)) as client:
                assistant = Assistant(client)
                await assistant.call("ask", question="What is here?")  # loads what is loaded once
                assistant.seconds.clear()
                for task in (t for t in tasks if t["house"] == house):
                    wrong = await assistant.script(task)
                    done.setdefault("scripts", []).append(not wrong)
                    failed.extend(f"{house}: {task['task']} {wrong}" for _ in wrong[:1])
                for question in (q for q in questions if q["house"] == house):
                    held = await assistant.question(question)
                    done.setdefault(f"questions, {question['kind']}", []).append(held)
                seconds.extend(assistant.seconds)
                sizes.extend(assistant.sizes)

        anyio.run(talk)
    print(f"{'':20}{'tasks':>7}{'done':>7}{'share':>7}")
    for kind, held in done.items():
        print(f"{kind:20}{len(held):7d}{sum(held):7d}{sum(held) / len(held):7.2f}")
    print(*failed, sep="\n")
    waited = np.percentile(np.array(seconds) * 1000, [50, 95])
    print(f"{len(seconds)} calls: p50 {waited[0]:.0f} ms, p95 {waited[1]:.0f} ms")
    read = np.percentile(np.array(sizes) / TOKEN, [50, 95, 100])
    print(f"tokens of an answer: median {read[0]:.0f}, p95 {read[1]:.0f}, most {read[2]:.0f}")
    print(f"answers longer than {MAX_CHARS:,} characters: {sum(size > MAX_CHARS for size in sizes)}")


if __name__ == "__main__":
    sys.exit(with_strangers(measure))
