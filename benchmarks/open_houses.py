"""Questions of other people about houses of other people: how many are answered rightly, by house and kind,
how well the confidence holds, and what a chat model makes of what it is given and may look up.

    python benchmarks/open_houses.py [HOMES]

HOMES: a home of each house, as ``score.py`` beside the questions makes them; made anew without it. Two
stand-ins take the model's place, over the protocol of a real server: an *oracle* says, word for word, what it
was given or looked up of the right answer, or refuses, so that its figure is what a perfect reader could say;
a *liar* cites passages for what they do not say, of which nothing may be served. The figures without a model
hold for houses whose text the reader was fitted on too: ``answer_reading.py`` leaves each out and asks them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answer_reading import BINS, DATA, table, with_strangers

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.retrieval.results.evaluations import Judged
from taboot_pipelines.settings import load_settings
from taboot_pipelines_tests.fakes.openai import FakeOpenAi

QUESTIONS = DATA / "house-questions" / "questions.jsonl"
Calls = list[tuple[str, str]]
#: Code points around what the oracle quotes.
AROUND = 100
REFUSAL = "NO ANSWER"
LIES = "The vault stands open on port 9999 [1]. Mara Lindqvist keeps the keys in `/srv/lies` [2]."


def passages(body: dict[str, Any]) -> dict[int, str]:
    """What a model was shown so far, by number."""
    texts = [m["content"] or "" for m in body["messages"][1:] if m["role"] != "assistant"]
    lines = [json.loads(line) for text in texts for line in text.split("\n") if line.startswith("{")]
    return {line["passage"]: line["text"] for line in lines if "passage" in line}


def oracle(body: dict[str, Any], questions: dict[str, dict[str, Any]]) -> str | Calls:
    """Quote each part of the right answer from the first passage that holds it; else look further once."""
    asked = json.loads(body["messages"][1]["content"].split("\n")[-1])["question"]
    question, shown = questions[asked], passages(body)
    if question["kind"] == "none":
        return REFUSAL
    said = []
    for pattern in question["must"]:
        held = ((n, m, t) for n, t in sorted(shown.items()) if (m := re.search(pattern, t, re.IGNORECASE)))
        found = next(held, None)
        if found is None:
            looked = any(m["role"] == "assistant" for m in body["messages"])
            return REFUSAL if looked or "tools" not in body else look_further(asked)
        said.append(f"{quoted(found[2], found[1])} [{found[0]}].")
    return " ".join(said)


def quoted(text: str, match: re.Match[str]) -> str:
    """What stands around a match, whole words on one line, so that it ends as one sentence."""
    start, end = max(0, match.start() - AROUND), min(len(text), match.end() + AROUND)
    start = text.rfind(" ", 0, start) + 1 if start else 0
    after = text.find(" ", end)
    part = re.sub(r"\[\d+\]", " ", text[start : after if after > 0 else len(text)])
    return " ".join(re.sub(r"[.!?](?=\s)", ",", part).split()).rstrip(".,")


def look_further(question: str) -> Calls:
    """A search for the telling words, and what configuration says of the services that are named."""
    words = re.findall(r"[A-Z][\w.-]+|[\w-]{6,}", question)
    queries = ("consumers", "dependents", "connections", "environment")
    named = [w for w in re.findall(r"[\w.-]+", question.lower()) if "-" in w or "_" in w][:1]
    asked = [{"name": q, "parameters": {"service": name}} for name in named for q in queries]
    return [("search", json.dumps({"words": " ".join(words)})), *(("query", json.dumps(a)) for a in asked)]


def ask(homes: Path, llm: FakeOpenAi | None) -> Iterator[tuple[str, Judged]]:
    """Every question with its answer, and the house."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    for home in sorted(p for p in homes.iterdir() if (p / "kb").is_dir()):
        settings = load_settings(home=home).model_copy(deep=True)
        settings.llm.url = None if llm is None else llm.url
        kb = KnowledgeBase.open(settings=settings)
        for judged in kb.evaluate([r for r in rows if r["house"] == home.name]).rows:
            yield home.name, judged


def reliability(answers: list[tuple[str, Judged]]) -> None:
    """Of the answers that were given, how many are right where they are said to be right with so much
    probability."""
    print("confidence     answers  right")
    for low, high in pairwise(BINS):
        held = [a for _, a in answers if a.found and low <= a.confidence < (high if high < 1 else 2)]
        if held:
            share = sum(a.right for a in held) / len(held)
            print(f"{low:.2f} to {high:.2f}   {len(held):7d}   {share:.2f}  {'#' * round(20 * share)}")


def measure(homes: Path) -> None:
    questions = {json.loads(line)["question"]: json.loads(line) for line in QUESTIONS.open(encoding="utf-8")}
    print("without a model")
    plain = list(ask(homes, None))
    table(plain)
    reliability(plain)
    with FakeOpenAi(context=10**7) as llm:
        llm.react = lambda body: oracle(body, questions)
        print("\nwith an oracle in the model's place")
        told = list(ask(homes, llm))
        table(told)
        answerable = [a for _, a in told if a.kind != "none"]
        share = sum(a.right for a in answerable) / len(answerable)
        print(f"of {len(answerable)} that something answers {share:.2f} are right")
        llm.react = lambda body: LIES
        lied = [a for _, a in ask(homes, llm) if "9999" in a.text or "Lindqvist" in a.text]
        print(f"\nwith a liar in its place: {len(lied)} of its sentences served")


if __name__ == "__main__":
    sys.exit(with_strangers(measure))
