"""Labelled facts of public documents and of our own exemplars: candidates with their labels, and the scorers.

The open sets are read where they stand (``prose-relations``, ``prose-documents``); nothing of them is copied.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from taboot_pipelines.extraction.quality import Labelled as Fact
from taboot_pipelines.extraction.tier_a.prose.claims import relations
from taboot_pipelines.extraction.tier_a.prose.pairs import Candidate
from taboot_pipelines.extraction.tier_a.prose.reading import SENTENCES, STRUCTURED, candidates
from taboot_pipelines.extraction.tier_a.prose.segments import Segment
from taboot_pipelines.extraction.tier_c.calibration import packaged_passages
from taboot_pipelines.model.records import EdgeClaim

UNITS, DOCUMENTS = "prose-relations", "prose-documents"
#: Labels of pieces of 145 public repositories, by nine readers after the guide of ``prose-relations``; their
#: texts are in the repositories. ``weight``: how many pieces one of a random draw stands for; of those that
#: were chosen since a relation was likely in them, which are good for fitting and measure nothing, 0.
STRANGERS = "strangers"
LABELS = Path(__file__).with_name("relation_labels.jsonl")


@dataclass(slots=True)
class Labelled:
    """A candidate with its label: 1 right, 0 wrong. ``repository``: what is left out together; ``weight``: of
    a stranger's, how many pieces its piece stands for."""

    set: str
    repository: str
    document: str
    segment: Segment
    candidate: Candidate
    right: int
    weight: float = 0.0


def scorer(data: Path, name: str) -> ModuleType:
    """Return the module that scores predictions for a set."""
    spec = importlib.util.spec_from_file_location(f"score_{name.replace('-', '_')}", data / name / "score.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(folder: Path) -> dict[str, str]:
    """Return the documents of a set by their paths, line ends as they are."""
    with tarfile.open(folder / "docs.tar.xz") as tar:
        return {
            member.name.split("/", 1)[1]: stream.read().decode("utf-8")
            for member in tar.getmembers()
            if member.isfile() and (stream := tar.extractfile(member)) is not None
        }


def prediction(path: str, segment: Segment, candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as both scorers read it."""
    return {
        "path": path,
        "start": segment.text.start,
        "end": segment.text.end,
        "type": candidate.type,
        "start_name": candidate.start.text,
        "end_name": None if candidate.end is None else candidate.end.text,
        "port": candidate.port,
    }


def repository(path: str) -> str:
    """Return the repository of a document."""
    return path.split("/", 1)[0]


def labelled(data: Path) -> Iterator[Labelled]:
    """Yield the candidates of both open sets that a label decides."""
    units_score, documents_score = scorer(data, UNITS), scorer(data, DOCUMENTS)
    units = units_score.load_units(data / UNITS / "units.jsonl")
    sources = texts(data / UNITS)
    for path, rows in units.items():
        for segment, found in candidates(sources[path]):
            for one in found:
                said = prediction(path, segment, one)
                within = [r for r in rows if units_score.overlap(said, r) > 0]
                if within:
                    right = any(units_score.agrees(said, t) for r in within for t in r["triples"])
                    yield Labelled(UNITS, repository(path), path, segment, one, int(right))
    sources = texts(data / DOCUMENTS)
    for path, (facts, choices) in documents_score.load(data / DOCUMENTS).items():
        for segment, found in candidates(sources[path]):
            for one in found:
                said = prediction(path, segment, one)
                right = any(documents_score.fits(said, fact) for fact in facts)
                if right or not any(documents_score.fits(said, fact) for fact in choices):
                    yield Labelled(DOCUMENTS, repository(path), path, segment, one, int(right))


def strangers(data: Path, repositories: Path) -> tuple[list[Labelled], dict[str, float]]:
    """Return the candidates of the labelled pieces of strangers, and by form how many facts these and what
    they stand for state. ``repositories``: a folder with a clone of each, bare or not, called ``owner+name``;
    of those that are not there nothing is returned.
    """
    score = scorer(data, UNITS)
    pieces: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in LABELS.read_text("utf-8").splitlines():
        row = json.loads(line)
        pieces.setdefault((row["repo"], row["commit"], row["path"]), []).append(row)
    found: list[Labelled] = []
    stated: dict[str, float] = {}
    for (name, commit, path), rows in pieces.items():
        clone = repositories / name.replace("/", "+")
        if not clone.is_dir():
            continue
        shown = ["git", "-C", str(clone), "show", f"{commit}:{path}"]
        text = subprocess.run(shown, capture_output=True, check=True).stdout.decode("utf-8")
        there = {(s.text.start, s.text.end): (s, held) for s, held in candidates(text)}
        for row in rows:
            segment, held = there.get((row["start"], row["end"]), (None, []))
            names = ("type", "start", "end", "port")
            triples = [dict(zip(names, triple, strict=True)) for triple in row["triples"]]
            weight = float(row["weight"])
            form = "" if segment is None else segment.form
            stated[form] = stated.get(form, 0.0) + weight * len(triples)
            for one in held:
                assert segment is not None
                written = text[row["start"] : row["end"]].lower()
                if form == "arrow" and any(
                    end is not None and end.text.lower() not in written for end in (one.start, one.end)
                ):
                    continue  # Named elsewhere in the diagram, which the reader was not shown.
                right = any(score.agrees(prediction(path, segment, one), triple) for triple in triples)
                found.append(Labelled(STRANGERS, name, f"{name}/{path}", segment, one, int(right), weight))
    return found, stated


def exemplars(same_name: Any) -> Iterator[Labelled]:
    """Yield the candidates of the package's own passages."""
    for number, passage in enumerate(packaged_passages()):
        for segment, found in candidates(passage.text):
            for one in found:
                right = any(_agrees(one, fact, same_name) for fact in passage.labels)
                yield Labelled("made", f"made {number}", "", segment, one, int(right))


def _agrees(one: Candidate, fact: Fact, same_name: Any) -> bool:
    if one.type != fact.type or not same_name(one.start.text, fact.subject, fact.type):
        return False
    if fact.type == "BINDS":
        return one.port == int(fact.object)
    return one.end is not None and same_name(one.end.text, fact.object, fact.type)


def report(
    data: Path,
    predictions: Iterable[Mapping[str, Any]],
    name: str,
    *,
    wrong: bool = False,
    only: Collection[str] | None = None,
) -> tuple[int, int, int]:
    """Print a set's own report, of some documents or all. Returns the numbers of right, wrong, missed."""
    module = scorer(data, name)
    said = list(predictions)
    if name == UNITS:
        units = {
            p: u
            for p, u in module.load_units(data / name / "units.jsonl").items()
            if only is None or p in only
        }
        count, forms, ignored, alarms, negatives = module.score(said, units)
        module.report(count, forms, ignored, alarms, negatives, by_form=True)
    else:
        count_of, other = module.score(
            said,
            {p: f for p, f in module.load(data / name).items() if only is None or p in only},
            texts(data / name),
            wrong,
        )
        module.report(count_of, other)
        count = count_of["type"]
    rows = list(count.values())
    return sum(r[0] for r in rows), sum(r[1] for r in rows), sum(r[2] for r in rows)


def served(data: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield what the product says of a set's documents, as its claims name the ends."""
    wanted = set(documents_of(data, name))
    for path, text in texts(data / name).items():
        for edge in relations(text, path, STRUCTURED | SENTENCES) if path in wanted else ():
            yield claimed(edge, text)


def claimed(edge: EdgeClaim, text: str) -> dict[str, Any]:
    """Return a claim about a document's text as the scorers read it, with its ends by their names in keys."""
    start, end = edge.evidence.start, edge.evidence.end
    # An image that is written without a tag is that of the tag "latest".
    written = ":latest" in text[start:end]
    return {
        "path": edge.evidence.path,
        "start": start,
        "end": end,
        "type": edge.type,
        "start_name": edge.start.name,
        "end_name": edge.end.name if written else edge.end.name.removesuffix(":latest"),
        "port": edge.properties.get("port"),
    }


def documents_of(data: Path, name: str) -> Collection[str]:
    """Return the paths of the documents of a set that have labels."""
    module = scorer(data, name)
    found = module.load_units(data / name / "units.jsonl") if name == UNITS else module.load(data / name)
    return frozenset(found)
