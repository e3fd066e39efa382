"""What of a chat model is believed: Tier C over the open sets, with a stand-in or a real model in its place.

    python benchmarks/gold/prose_model.py [DATA]
    TABOOT_LLM__URL=http://127.0.0.1:8000/v1 python benchmarks/gold/prose_model.py [DATA] [--sample 0]

A model is calibrated as ``taboot models try`` does, on the passages of the package alone, and then asked
about the documents of ``prose-relations``; what is served of its answers is scored by the set. Without a
server three stand-ins take its place, over the protocol of a real one:

- the *oracle* tells the labels of what it is shown (goal: 0.90 of the facts served, 0.95 of the units with a
  fact in a window);
- the *liar* tells what is not so, of names that the passage has: false relations, what is denied, supposed,
  past or an example (goal: nothing is served);
- the *mixed* one tells the truth in some relations and lies in the others (goal: served in the former alone).

``--sample`` asks about so many windows, spread over the documents.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold import relations
from benchmarks.gold.relations import UNITS
from taboot_pipelines.extraction import tier_c
from taboot_pipelines.extraction.tier_a.prose.pairs import Candidate
from taboot_pipelines.extraction.tier_a.prose.segments import read_text
from taboot_pipelines.extraction.tier_c import calibration
from taboot_pipelines.knowledge.window_requests import RequestSettings
from taboot_pipelines.model.graph import is_ip
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.model_trials import Trial, try_model
from taboot_pipelines.stages.tier_c_triples import asking_of, trial_of
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.reading_model import fact, facts, window_of

#: In what the mixed model tells the truth.
GOOD_AT = frozenset(("BINDS", "BUILDS", "CONNECTS_TO", "RESOLVES_TO"))
_COUNTER = tier_c.token_counter()


@dataclass(frozen=True)
class Told:
    """A relation between two names that stand in the window, or the port that something listens on."""

    type: str
    start: str
    end: str | None
    port: int | None = None


@dataclass
class Shown:
    """A window of a text that stands at ``path``, with what is so and what is not, by where that is said."""

    path: str
    window: tier_c.Window
    true: list[tuple[tuple[int, int], Told]] = field(default_factory=list)
    false: list[tuple[tuple[int, int], Told]] = field(default_factory=list)


@dataclass
class Open:
    """The open set in windows, with the calibration's own passages (under no path)."""

    shown: list[Shown] = field(default_factory=list)
    texts: Mapping[str, str] = field(default_factory=dict)
    #: Units with a fact, and those that stand in a window.
    units: int = 0
    in_window: int = 0

    @classmethod
    def load(cls, data: Path, documents: int = 0) -> Open:
        """``documents``: as many of the set, those with most facts; 0 for all."""
        score, texts = relations.scorer(data, UNITS), relations.texts(data / UNITS)
        found, units = cls(texts=texts), score.load_units(data / UNITS / "units.jsonl")
        lies: dict[str, list[tuple[tuple[int, int], Told]]] = defaultdict(list)
        for one in relations.labelled(data):
            if not one.right:
                lies[one.document].append((_place(one.segment.text), _told(one.candidate)))
        paths = sorted(units, key=lambda path: -sum(len(u["triples"]) for u in units[path]))
        for path in paths[: documents or None]:
            windows = [Shown(path, w) for w in tier_c.windows(texts[path], _COUNTER)]
            found.shown += windows
            for unit in units[path]:
                place = unit["start"], unit["end"]
                said = [Told(t["type"], t["start"], t["end"], t["port"]) for t in unit["triples"]]
                within = [one for one in windows if _overlaps(one.window, place)]
                found.units += bool(said)
                found.in_window += bool(said and within)
                for one in within:
                    one.true += [(place, t) for t in said]
            for place, lie in lies[path]:
                for one in windows:
                    if _overlaps(one.window, place):
                        one.false.append((place, lie))
        found.shown += _of_calibration(score.same_name)
        return found

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(one.path for one in self.shown if one.path)


def _of_calibration(same_name: Any) -> Iterator[Shown]:
    passages = calibration.packaged_passages()
    lies: dict[int, list[Told]] = defaultdict(list)
    for one in relations.exemplars(same_name):
        if not one.right:
            lies[int(one.repository.split()[1])].append(_told(one.candidate))
    for sheet in calibration.sheets(passages, _COUNTER):
        for window in sheet.windows:
            one = Shown("", window)
            for number, place in sheet.places.items():
                if _overlaps(window, place):
                    for label in passages[number].labels:
                        port = int(label.object) if label.type == "BINDS" else None
                        end = None if port else label.object
                        one.true.append((place, Told(label.type, label.subject, end, port)))
                    one.false += [(place, lie) for lie in lies[number]]
            yield one


def _told(candidate: Candidate) -> Told:
    end = None if candidate.end is None else candidate.end.text
    return Told(candidate.type, candidate.start.text, end, candidate.port)


def _place(text: Any) -> tuple[int, int]:
    return text.start, text.end


def _overlaps(window: tier_c.Window, place: tuple[int, int]) -> bool:
    return any(place[0] <= at < place[1] for at in window.offsets)


# --- the stand-ins: what they are shown they find again by its text


Model = Callable[[Shown], Collection[tuple[tuple[int, int], Told]]]
MODELS: Mapping[str, Model] = {
    "oracle": lambda one: one.true,
    "liar": lambda one: one.false,
    "mixed": lambda one: [
        *(said for said in one.true if said[1].type in GOOD_AT),
        *(said for said in one.false if said[1].type not in GOOD_AT),
    ],
}


def stand_in(open_set: Open, model: Model) -> Callable[[dict[str, Any]], str]:
    """Return what answers the questions of Tier C as a model of that kind would."""
    by_text = {one.window.text: one for one in open_set.shown}

    def react(body: dict[str, Any]) -> str:
        one = by_text[window_of(body)]
        return facts(*_written(one.window, model(one)))

    return react


def _written(
    window: tier_c.Window, said: Collection[tuple[tuple[int, int], Told]]
) -> Iterator[dict[str, Any]]:
    """Yield facts as the schema asks for them, as many as an answer may hold."""
    seen = set()
    for place, told in said:
        written = None if told in seen else _fact(window, place, told)
        seen.add(told)
        if written is not None and len(seen) <= tier_c.GRAPH.most:
            yield written


def _fact(window: tier_c.Window, place: tuple[int, int], told: Told) -> dict[str, Any] | None:
    """Return a fact with the words that state it: the shortest of a line that hold what it names; None if no
    line of the place does."""
    relation = tier_c.GRAPH.by_type[told.type]
    at = 0
    for line in window.text.split("\n"):
        here = window.offsets[at : at + len(line)]
        if any(place[0] <= o < place[1] for o in here):
            above = window.context(at)
            start, end = _as_written(told.start, line, above), _as_written(told.end, line, above)
            names = [n for n in (start, end, str(told.port) if told.port else None) if n and n in line]
            if start is not None and (end is not None or told.end is None) and names:
                spots = [(line.find(n), line.find(n) + len(n)) for n in names]
                quote = line[min(s for s, _ in spots) : max(e for _, e in spots)]
                labels = {"start_type": relation.start[0], "end_type": _label(told, relation.end)}
                return fact(quote, start, told.type, end or "", port=told.port or 0, **labels)
        at += len(line) + 1
    return None


def _as_written(name: str | None, line: str, above: str) -> str | None:
    """Return a label's name as the window writes it: a label spans what stands side by side."""
    if name is None:
        return None
    plain = read_text(name, 0, len(name)).plain
    forms = [name, plain, *(part.strip(" `*") for part in name.split("|")), *plain.split(" (")[:1]]
    return next((f for where in (line, above) for f in forms if f and f in where), None)


def _label(told: Told, labels: tuple[str, ...]) -> str:
    end = told.end or ""
    if told.type == "BINDS" and is_ip(end.partition(":")[0]):
        return "IP"
    if told.type == "ROUTES_TO" and ("://" in end or ":" in end or "." in end):
        return "Endpoint"
    return labels[0]


# --- measuring


def served(chat: Any, asking: RequestSettings, open_set: Open) -> tuple[list[dict[str, Any]], int]:
    """Return what a calibrated model's answers state of the documents as served, and how many are kept as
    candidates."""
    windows = [one for one in open_set.shown if one.path and not one.window.over]
    found, candidates = [], 0
    results = chat.complete(
        [tier_c.question(asking.ontology, one.window, most=asking.answer_tokens) for one in windows]
    )
    for one, result in zip(windows, results, strict=True):
        if result.error is None:
            read = tier_c.read(asking.ontology, one.window, result.value)
            for claim in tier_c.claims(read.triples, one.path, asking.precision):
                if not asking.serves(claim.type):
                    candidates += 1
                    continue
                found.append(relations.claimed(claim, open_set.texts[one.path]))
    return found, candidates


@dataclass(frozen=True)
class Measured:
    """How a model was calibrated, and what of the documents is served: right, wrong and missed facts."""

    trial: Trial
    right: int
    wrong: int
    missed: int
    candidates: int


def measure(workspace: Workspace, data: Path, open_set: Open) -> Measured:
    """Calibrate the workspace's model and score what is served of it."""
    namespace = workspace.settings.namespace
    trial = try_model(workspace, namespace, trial_of(workspace, namespace), lambda _done, _all: None)
    assert workspace.chat is not None
    asking = asking_of(workspace.settings, trial.model)
    said, candidates = served(workspace.chat, asking, open_set)
    right, wrong, missed = relations.report(data, said, UNITS, only=open_set.paths)
    return Measured(trial, right, wrong, missed, candidates)


def shown(measured: Measured) -> None:
    """Print the calibration and what came of it."""
    for relation, score in measured.trial.scores.items():
        kept = "served" if relation in measured.trial.served else ""
        numbers = f"{score.matched:4} of {score.found:4} right, {score.labelled:4} labelled"
        print(f"  {relation:18} {numbers}, precision {score.precision:.2f} recall {score.recall:.2f} {kept}")
    facts = measured.right + measured.missed
    share = measured.right / facts if facts else 0.0
    said = f"{measured.right} right, {measured.wrong} wrong, {measured.candidates} candidates"
    print(f"  served of the documents: {said}; {share:.3f} of {facts} facts")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "data", nargs="?", type=Path, default=Path(os.environ.get("TABOOT_TEST_DATA", "../shared/data"))
    )
    parser.add_argument("--sample", type=int, default=0, help="windows; 0: all")
    options = parser.parse_args()
    open_set = Open.load(options.data)
    if options.sample:
        chosen = [one for one in open_set.shown if one.path and one.true]
        open_set.shown = chosen[:: max(1, len(chosen) // options.sample)][: options.sample]
    print(f"{open_set.in_window} of {open_set.units} units with a fact stand in a window (goal: 0.95)")
    with tempfile.TemporaryDirectory() as home:
        settings = load_settings(home=Path(home))
        if settings.llm.url is not None or settings.llm.vllm_model is not None:
            workspace = Workspace(settings)
            shown(measure(workspace, options.data, open_set))
            workspace.close()
            return 0
    for name, model in MODELS.items():
        print(f"\nthe {name} in the model's place")
        with FakeOpenAi(context=10**6) as llm, tempfile.TemporaryDirectory() as home:
            llm.react = stand_in(open_set, model)
            workspace = Workspace(load_settings(home=Path(home), llm={"url": llm.url, "model": "fake/llm"}))
            shown(measure(workspace, options.data, open_set))
            workspace.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
