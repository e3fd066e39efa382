"""What an assistant is shown by the tools of ``taboot mcp``, how long it waits and how much it has to read.

    python benchmarks/mcp_tasks.py [HOMES]

HOMES: a home of each open house, as ``score.py`` beside the questions makes them; made anew without it. Each
question of the open houses is a task with a script that stands for an assistant: ask; if that is no answer,
search twice and read the first three documents at their hits. It is done where all that the right answer has
to hold was shown; of questions that nothing answers, where ``ask`` says so. The SDK's own client asks.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answer_reading import DATA, with_strangers
from mcp.client.client import Client

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.mcp.server import make_server
from taboot_pipelines.settings import load_settings

QUESTIONS = DATA / "house-questions" / "questions.jsonl"
#: Lines above a hit where a document is read from.
ABOVE = 5
#: A token of English text and configuration, in characters.
TOKEN = 4
HIT = re.compile(r"(?m)^\d+\. .* \| [^\s:]+: (\S+):(\d+) \(id ")


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

    async def task(self, question: dict[str, Any]) -> bool:
        """Whether all that the answer has to hold was shown."""
        self.seen = []
        said = await self.call("ask", question=question["question"])
        if question["kind"] == "none":
            return said.startswith("Not answered.")

        def done() -> bool:
            shown = "\n".join(self.seen)
            return all(re.search(p, shown, re.IGNORECASE) for p in question["must"])

        hits: list[tuple[str, str]] = []
        for cursor in (None, "5"):
            if not done():
                found = await self.call("search", query=question["question"], cursor=cursor)
                hits += HIT.findall(found)
        for path, line in list(dict(hits).items())[:3]:
            if not done():
                await self.call("document", document=path, line=max(1, int(line) - ABOVE))
        return done()


def measure(homes: Path) -> None:
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    done: dict[str, list[bool]] = {}
    seconds: list[float] = []
    sizes: list[int] = []
    for home in sorted(p for p in homes.iterdir() if (p / "kb").is_dir()):
        kb = KnowledgeBase.open(settings=load_settings(home=home))

        async def talk(kb: KnowledgeBase = kb, house: str = home.name) -> None:
            async with Client(make_server(kb)) as client:
                assistant = Assistant(client)
                await assistant.call("ask", question="What is here?")  # loads what is loaded once
                assistant.seconds.clear()
                for question in (r for r in rows if r["house"] == house):
                    done.setdefault(question["kind"], []).append(await assistant.task(question))
                seconds.extend(assistant.seconds)
                sizes.extend(assistant.sizes)

        run: Callable[[], Any] = talk
        anyio.run(run)
    print(f"{'kind':8}{'tasks':>7}{'done':>7}{'share':>7}")
    for kind, held in (*done.items(), ("all", [d for each in done.values() for d in each])):
        print(f"{kind:8}{len(held):7d}{sum(held):7d}{sum(held) / len(held):7.2f}")
    waited = np.percentile(np.array(seconds) * 1000, [50, 95])
    print(f"{len(seconds)} calls: p50 {waited[0]:.0f} ms, p95 {waited[1]:.0f} ms")
    read = np.percentile(np.array(sizes) / TOKEN, [50, 95, 100])
    print(f"tokens of an answer: median {read[0]:.0f}, p95 {read[1]:.0f}, most {read[2]:.0f}")


if __name__ == "__main__":
    sys.exit(with_strangers(measure))
