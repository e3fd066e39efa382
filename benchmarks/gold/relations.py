"""Labelled facts of public documents and of our own exemplars: candidates with their labels, and the scorers.

The open sets are read where they stand (``prose-relations``, ``prose-documents``); nothing of them is copied.
"""

from __future__ import annotations

import importlib.util
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from taboot_pipelines.extraction.tier_a.prose.claims import relations
from taboot_pipelines.extraction.tier_a.prose.pairs import Candidate
from taboot_pipelines.extraction.tier_a.prose.reading import SENTENCES, STRUCTURED, candidates
from taboot_pipelines.extraction.tier_a.prose.segments import Segment

UNITS, DOCUMENTS = "prose-relations", "prose-documents"
EXEMPLARS = Path(__file__).with_name("relation_exemplars.txt")


@dataclass(slots=True)
class Labelled:
    """A candidate with its label: 1 right, 0 wrong. ``repository``: what is left out together."""

    set: str
    repository: str
    document: str
    segment: Segment
    candidate: Candidate
    right: int


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


def exemplars(same_name: Any) -> Iterator[Labelled]:
    """Yield the candidates of the exemplars that were written for fitting."""
    for number, block in enumerate(EXEMPLARS.read_text("utf-8").split("\n\n")):
        lines = block.strip().split("\n")
        text = "\n".join(line for line in lines if not line.startswith(("= ", "# ")))
        facts = [
            tuple(part.strip() for part in line[2:].split("|")) for line in lines if line.startswith("= ")
        ]
        if not text:
            continue
        for segment, found in candidates(text.replace("\\n", "\n\n")):
            for one in found:
                right = any(_agrees(one, fact, same_name) for fact in facts)
                yield Labelled("made", f"made {number}", "", segment, one, int(right))


def _agrees(one: Candidate, fact: tuple[str, ...], same_name: Any) -> bool:
    kind, start, end = fact[:3]
    if one.type != kind or not same_name(one.start.text, start, kind):
        return False
    if kind == "BINDS" and one.port != int(end.rpartition(":")[2]):
        return False
    return kind == "BINDS" or (one.end is not None and same_name(one.end.text, end, kind))


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
            yield {
                "path": path,
                "start": edge.evidence.start,
                "end": edge.evidence.end,
                "type": edge.type,
                "start_name": edge.start.name,
                "end_name": edge.end.name,
                "port": edge.properties.get("port"),
            }


def documents_of(data: Path, name: str) -> Collection[str]:
    """Return the paths of the documents of a set that have labels."""
    module = scorer(data, name)
    found = module.load_units(data / name / "units.jsonl") if name == UNITS else module.load(data / name)
    return frozenset(found)
