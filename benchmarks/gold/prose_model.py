"""A chat model beside the rules over labelled prose: what Tier C adds to Tiers A and B, and what it costs.

    TABOOT_LLM__URL=http://127.0.0.1:8000/v1 python benchmarks/gold/prose_model.py [--set gold|later]
        [--half open|locked] [--sample 0] [--answers FILE] [--missing]

The model is the one that the settings name; it is asked about the windows that hold a labelled sentence, as
the product asks, and what is left of its answers is scored as ``prose_f1.py`` scores the rules: alone, and
together with them (goal: F1 not below that of the rules, precision at least 0.85). ``--answers`` keeps what
was answered in a file of JSON lines, and asks nothing that stands there: a change of how answers are read
needs no model. ``--sample`` takes so many windows, spread over the set, and the sentences in them.
``--missing`` prints what the model says in vain, of the open half only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold.prose_f1 import Rebuilt, found_in
from benchmarks.gold.prose_set import (
    PROSE,
    SETS,
    End,
    ProseSet,
    Sentence,
    Span,
    Triple,
    matches_relaxed,
    score,
)
from taboot_pipelines.extraction import tier_c
from taboot_pipelines.inference.chat import open_chat
from taboot_pipelines.inference.chat.protocol import ChatModel
from taboot_pipelines.knowledge.window_requests import OF_WINDOW
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.tier_c_triples import asking_of


@dataclass(frozen=True)
class Asked:
    """A window of a file, or of a sentence of a page that was rebuilt as Markdown, and its sentences."""

    key: str
    window: tier_c.Window
    sentences: tuple[Sentence, ...]
    page: Rebuilt | None = None

    def triples(self, triple: tier_c.Triple) -> Iterator[tuple[str, Triple]]:
        """Yield (id of a sentence, triple) where a triple that was read stands in one of the sentences."""
        begin = triple.place[0]
        ends = [begin + triple.quote.find(name) for name in (triple.start.name, triple.end.name)]
        subject, object_ = (
            End(at, at + len(end.name), label=end.label)
            for at, end in zip(ends, (triple.start, triple.end), strict=True)
        )
        if self.page is not None:
            if triple.place[0] < self.page.begin:
                return
            subject, object_ = self.page.placed(subject), self.page.placed(object_)
        for sentence in self.sentences:
            if self.page is not None or Span(*triple.place).overlaps(sentence):
                yield sentence.id, Triple(triple.type, subject, object_)


def windows(gold: ProseSet, asking: Any) -> list[Asked]:
    """The windows that hold a labelled sentence."""
    found = []
    by_file: dict[str, list[Sentence]] = defaultdict(list)
    for sentence in gold.sentences:
        by_file[sentence.file].append(sentence)
    for file, sentences in sorted(by_file.items()):
        if file.endswith(".html"):
            texts = [((s,), page.text, page) for s in sentences for page in [Rebuilt(gold, s)]]
        else:
            texts = [(tuple(sentences), gold.document(file), None)]
        for inside, text, page in texts:
            for window in tier_c.windows(text, asking.counter):
                held = tuple(s for s in inside if page is not None or Span(*window.span).overlaps(s))
                if held and not window.over:
                    key = tier_c.key(asking.ontology, window, asking.model)
                    found.append(Asked(key, window, held, page))
    return found


def answers(chat: ChatModel, asking: Any, asked: list[Asked], file: Path | None) -> dict[str, Any]:
    """{key: answer}; of a window without a usable answer none."""
    kept: dict[str, Any] = {}
    if file is not None and file.exists():
        kept = {row["key"]: row["answer"] for row in map(json.loads, file.read_text("utf-8").splitlines())}
    left = {a.key: a for a in asked if a.key not in kept}

    def ask(one: Asked) -> None:
        # Once, as a run of the product does.
        question = tier_c.question(asking.ontology, one.window, attempt=0, most=asking.answer_tokens)
        (result,) = chat.complete([question])
        if result.error is not None and result.error.code not in OF_WINDOW:
            raise result.error
        kept[one.key] = None if result.error is not None else result.value
        if file is not None:
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"key": one.key, "answer": kept[one.key]}) + "\n")

    with ThreadPoolExecutor(asking.at_once) as pool:
        list(pool.map(ask, left.values()))
    return {a.key: kept[a.key] for a in asked if kept[a.key] is not None}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--half", choices=("open", "locked"), default="open")
    parser.add_argument("--set", choices=SETS, default="gold")
    parser.add_argument("--sample", type=int, default=0, help="windows; 0: all")
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--missing", action="store_true")
    options = parser.parse_args()
    settings = load_settings()
    chat = open_chat(settings)
    if chat is None:
        print("no model: set TABOOT_LLM__URL to a server with OpenAI's API, and run this again")
        return 0
    gold = ProseSet.load(PROSE / f"{options.set}.jsonl", half=options.half)
    asking = asking_of(settings, chat.model)
    asked = windows(gold, asking)
    asked = asked[:: max(1, len(asked) // options.sample) if options.sample else 1][: options.sample or None]
    sentences = list({s.id: s for one in asked for s in one.sentences}.values())
    told = answers(chat, asking, asked, options.answers)
    chat.close()
    scored = {s.id for s in sentences}
    rules = {id_: triples for id_, triples in found_in(gold).items() if id_ in scored}
    model: dict[str, list[Triple]] = defaultdict(list)
    refused: Counter[str] = Counter()
    for one in asked:
        if one.key in told:
            read = tier_c.read(asking.ontology, one.window, told[one.key])
            refused.update(read.refused)
            for triple in read.triples:
                if tier_c.claims([triple], "gold"):
                    for id_, found in one.triples(triple):
                        model[id_].append(found)
                else:
                    refused["node"] += 1
    both = {s.id: _joined(rules.get(s.id, []), model.get(s.id, [])) for s in sentences}
    print(f"{chat.model}: {len(asked)} windows with {len(sentences)} sentences, {len(told)} answered")
    print(f"  not believed: {', '.join(f'{name} {n}' for name, n in refused.most_common())}")
    print(f"{'':<10} {'precision':>9} {'recall':>7} {'F1':>6} {'found':>6} {'gold':>5}")
    for name, found_by in (("rules", rules), ("model", model), ("both", both)):
        relaxed = score(found_by, sentences)["all"].relaxed
        print(
            f"{name:<10} {relaxed.precision:9.3f} {relaxed.recall:7.3f} {relaxed.f1:6.3f}"
            f" {relaxed.predicted:6} {relaxed.gold:5}"
        )
    if options.missing and options.half == "open":
        for sentence in sentences:
            for triple in model.get(sentence.id, []):
                if not any(matches_relaxed(triple, own) for own in sentence.triples):
                    ends = (gold.text(sentence, e) for e in (triple.subject, triple.object))
                    said = " ".join(gold.text(sentence).split())
                    print(f"\n{said}\n  in vain: {triple.type} {' -> '.join(ends)}")
    return 0


def _joined(rules: list[Triple], model: list[Triple]) -> list[Triple]:
    """What the rules found, and of the model what they did not."""
    return [*rules, *(t for t in model if not any(matches_relaxed(t, own) for own in rules))]


if __name__ == "__main__":
    raise SystemExit(main())
