"""Tier C's question, schema and reading over other people's ontologies and gold: right, and invented, facts.

    TABOOT_LLM__URL=http://127.0.0.1:8000/v1 python benchmarks/gold/outside_llm.py [DATA]
        [--sample 20] [--set text2kgbench|crossre|ctinexus]

The model is the one that the settings name. Each set brings its relations, by which the same code asks and
reads as over documents:

- *text2kgbench*: sentences with the relations of an ontology; a fact counts if subject, relation and object
  are those of the gold (case, blanks and marks aside). Its gold is incomplete, so precision is understated.
- *crossre*: sentences with 17 relations between typed spans; likewise.
- *ctinexus*: reports with relations in free words; a fact counts if its pair of names is one of the gold's
  (either name may hold the other).

*Conformance*: facts whose relation the ontology has, from and to labels that it allows. *Invented*: facts an
end of which does not stand in the text. Both are given for what the model says and for what is left of it
once it is read, where conformance must be 100 % and nothing may be invented; the exit status says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from taboot_pipelines.extraction import tier_c
from taboot_pipelines.extraction.tier_c.ontology import Ontology, Relation
from taboot_pipelines.inference.chat import open_chat
from taboot_pipelines.inference.chat.protocol import ChatModel
from taboot_pipelines.settings import load_settings

DATA = Path(os.environ.get("TABOOT_TEST_DATA", "../shared/data"))


class Fact(NamedTuple):
    start: str
    relation: str
    end: str


@dataclass(frozen=True)
class Passage:
    """A text with the facts that are labelled in it."""

    text: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class OutsideSet:
    """Passages of one ontology. ``matches``: whether a fact that was found is one of the gold's."""

    name: str
    ontology: Ontology
    passages: tuple[Passage, ...]
    matches: Callable[[Fact, Fact], bool]


@dataclass
class Score:
    """Counts over passages; see the module's text."""

    passages: int = 0
    failed: int = 0
    said: int = 0
    said_conform: int = 0
    said_invented: int = 0
    kept: int = 0
    kept_conform: int = 0
    kept_invented: int = 0
    matched: int = 0
    labelled: int = 0

    @property
    def precision(self) -> float:
        return self.matched / self.kept if self.kept else 0.0

    @property
    def recall(self) -> float:
        return self.matched / self.labelled if self.labelled else 0.0

    @property
    def f1(self) -> float:
        total = self.kept + self.labelled
        return 2 * self.matched / total if total else 0.0


def plain(name: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in name.casefold()).split())


def exactly(found: Fact, gold: Fact) -> bool:
    return found.relation == gold.relation and (plain(found.start), plain(found.end)) == (
        plain(gold.start),
        plain(gold.end),
    )


def same_pair(found: Fact, gold: Fact) -> bool:
    def holds(one: str, other: str) -> bool:
        a, b = plain(one), plain(other)
        return bool(a and b) and (a in b or b in a)

    return holds(found.start, gold.start) and holds(found.end, gold.end)


# --- the sets -----------------------------------------------------------------------------------------------


def text2kgbench(folder: Path) -> Iterator[OutsideSet]:
    for file in sorted((folder / "ontologies").glob("*.json")):
        told = json.loads(file.read_text("utf-8"))
        labels = {concept["qid"]: concept["label"] for concept in told["concepts"]}
        relations = tuple(
            Relation(r["label"], (labels.get(r["domain"], "thing"),), (labels.get(r["range"], "thing"),))
            for r in told["relations"]
        )
        gold = folder / "ground_truth" / f"{told['id']}_ground_truth.jsonl"
        passages = tuple(
            Passage(x["sent"], tuple(Fact(t["sub"], t["rel"], t["obj"]) for t in x["triples"]))
            for x in map(json.loads, gold.read_text("utf-8").splitlines())
        )
        about = told["title"].removesuffix(" Ontology").lower()
        yield OutsideSet(f"text2kgbench {about}", _ontology(about, relations), passages, exactly)


def crossre(folder: Path) -> Iterator[OutsideSet]:
    for file in sorted(folder.glob("*-dev.json")):
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        labels = tuple(sorted({label for row in rows for *_, label in row["ner"]}))
        types = sorted({relation[4] for row in rows for relation in row["relations"]})
        passages = tuple(
            Passage(
                " ".join(row["sentence"]),
                tuple(Fact(_words(row, r[0], r[1]), r[4], _words(row, r[2], r[3])) for r in row["relations"]),
            )
            for row in rows
        )
        relations = tuple(Relation(name, labels, labels) for name in types)
        about = file.stem.removesuffix("-dev")
        yield OutsideSet(f"crossre {about}", _ontology(about, relations), passages, exactly)


#: What reports of attacks tell, in as few words as the gold's free ones can be put into.
_ATTACKS = ("uses", "targets", "exploits", "part of", "attributed to", "communicates with", "delivers", "has")


def ctinexus(folder: Path) -> Iterator[OutsideSet]:
    reports = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))]
    labels = tuple(sorted({e["entity_type"] for report in reports for e in report["entities"]}))
    passages = tuple(
        Passage(
            report["text"],
            tuple(Fact(t["subject"], t["relation"], t["object"]) for t in report["explicit_triplets"]),
        )
        for report in reports
    )
    relations = tuple(Relation(name, labels, labels) for name in _ATTACKS)
    yield OutsideSet("ctinexus", _ontology("attack", relations), passages, same_pair)


SETS = {"text2kgbench": text2kgbench, "crossre": crossre, "ctinexus": ctinexus}


def _ontology(about: str, relations: tuple[Relation, ...]) -> Ontology:
    return Ontology(about, relations)


def _words(row: dict[str, Any], first: int, last: int) -> str:
    return " ".join(row["sentence"][first : last + 1])


# --- asking and scoring -------------------------------------------------------------------------------------


def score(chat: ChatModel, outside: OutsideSet, passages: Sequence[Passage], together: int) -> Score:
    """Ask about each passage as about a document, and score what is said and what is left of it."""
    counter, found = tier_c.token_counter(), Score()
    asked = [(p, w) for p in passages for w in tier_c.windows(p.text, counter)]
    read: dict[int, list[Fact]] = {id(p): [] for p in passages}
    for begin in range(0, len(asked), together):
        part = asked[begin : begin + together]
        results = chat.complete([tier_c.question(outside.ontology, w) for _, w in part])
        for (passage, window), result in zip(part, results, strict=True):
            if result.error is not None:
                found.failed += 1
                continue
            _said(found, outside.ontology, window, result.value["facts"])
            for triple in tier_c.read(outside.ontology, window, result.value).triples:
                fact = Fact(triple.start.name, triple.type, triple.end.name)
                relation = outside.ontology.by_type.get(triple.type)
                conforms = relation is not None and relation.leads(triple.start.label, triple.end.label)
                found.kept_conform += conforms
                found.kept_invented += not (fact.start in passage.text and fact.end in passage.text)
                read[id(passage)].append(fact)
    for passage in passages:
        found.passages += 1
        left = list(passage.facts)
        kept = list(dict.fromkeys(read[id(passage)]))
        found.labelled += len(left)
        found.kept += len(kept)
        found.kept_conform -= len(read[id(passage)]) - len(kept)
        for fact in kept:
            match = next((gold for gold in left if outside.matches(fact, gold)), None)
            if match is not None:
                left.remove(match)
                found.matched += 1
    return found


def _said(found: Score, ontology: Ontology, window: tier_c.Window, facts: Sequence[dict[str, Any]]) -> None:
    for fact in facts:
        relation = ontology.by_type.get(fact["relation"])
        found.said += 1
        found.said_conform += relation is not None and relation.leads(fact["start_type"], fact["end_type"])
        found.said_invented += not (fact["start"] in window.text and fact["end"] in window.text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", nargs="?", type=Path, default=DATA)
    parser.add_argument("--sample", type=int, default=20, help="passages of each set; 0: all")
    parser.add_argument("--set", choices=sorted(SETS), action="append", dest="sets")
    options = parser.parse_args()
    settings = load_settings()
    chat = open_chat(settings)
    if chat is None:
        print("no model: set TABOOT_LLM__URL to a server with OpenAI's API, and run this again")
        return 0
    print(f"{chat.model}; of each set {options.sample or 'all'} passages")
    print(
        f"{'set':<24}{'passages':>9}{'failed':>7}{'labelled':>9}{'kept':>6}{'P':>7}{'R':>7}{'F1':>7}"
        f"{'conform':>9}{'invented':>9}   as the model said it: facts, conform, invented"
    )
    sound = True
    for name in options.sets or sorted(SETS):
        for outside in SETS[name](options.data / name):
            # Spread over the set, and the same ones each time.
            step = max(1, len(outside.passages) // options.sample) if options.sample else 1
            chosen = outside.passages[::step][: options.sample or None]
            s = score(chat, outside, chosen, settings.llm.max_concurrency)
            sound &= s.kept_conform == s.kept and not s.kept_invented
            print(
                f"{outside.name:<24}{s.passages:>9}{s.failed:>7}{s.labelled:>9}{s.kept:>6}"
                f"{s.precision:>7.3f}{s.recall:>7.3f}{s.f1:>7.3f}"
                f"{_share(s.kept_conform, s.kept):>9}{_share(s.kept_invented, s.kept):>9}"
                f"   {s.said}, {_share(s.said_conform, s.said)}, {_share(s.said_invented, s.said)}",
                flush=True,
            )
    chat.close()
    return 0 if sound else 1


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


if __name__ == "__main__":
    raise SystemExit(main())
