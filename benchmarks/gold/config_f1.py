"""Readers of configuration files against labels made by hand: precision, recall and F1 of each relation.

    python benchmarks/gold/config_f1.py [--half open|locked] [--missing] [--speed] [SET ...]

A set is a folder ``NAME-made`` with files that were written after the format's specification, and
``labels.txt``, which was written before the reader was run on them. Half of the files, those whose path has
a SHA-256 that begins with a 1 bit, is locked: it was not looked at to mend a reader until its first
figures were taken. A line of labels is

    FILE:LINE RELATION START_LABEL KEY > END_LABEL KEY property=value …
    FILE:LINE NODE LABEL KEY property=value …
    FILE NONE

with the parts of a key joined by ``|``, and ``$`` for the place of the source. ``FILE`` is the unit; ``file``
and ``line`` among the properties say where else than at ``FILE:LINE`` the statement begins. A node that ends
a relation needs no line of its own. All files of a set are one source.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold.check import DATA, GOLD
from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EDGES
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec

NAMESPACE, PLACE = "default", "house"

Key = tuple[str, ...]
#: A unit, a kind, its ends' keys, and what makes it another fact.
Fact = tuple[str, str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Stated:
    """Where a fact is stated, (file, line), and the properties that matter."""

    places: frozenset[tuple[str, int]]
    properties: Mapping[str, str]


def root(name: str) -> Path:
    """Where the files of a set lie: beside its labels, or in a folder of the test data that they name."""
    first = (GOLD / name / "labels.txt").read_text(encoding="utf-8").partition("\n")[0]
    return DATA / first.removeprefix("# root: ") if first.startswith("# root: ") else GOLD / name


def is_locked(path: str) -> bool:
    return hashlib.sha256(path.encode()).digest()[0] >= 0x80


def sets() -> list[str]:
    return sorted(p.parent.name for p in GOLD.glob("*/labels.txt"))


def _key(label: str, text: str) -> str:
    parts = [part.replace("$", PLACE) for part in text.split("|")]
    if label == "VPNTunnel":
        return ids.digest(NAMESPACE, *parts)
    if label == "Container":
        return ids.container_id(NAMESPACE, parts[0], parts[1], 1)
    return "|".join(parts)


def _node(label: str, key: str) -> str:
    return f"{label} {key}"


def expected(folder: Path) -> dict[Fact, Stated]:
    """What the labels of a set say, nodes that end relations included."""
    found: dict[Fact, Stated] = {}
    for line in (folder / "labels.txt").read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#") or line.endswith(" NONE"):
            continue
        where, kind, rest = line.split(" ", 2)
        unit, _, number = where.rpartition(":")
        words = rest.split(" ")
        given = dict(word.split("=", 1) for word in words if "=" in word and word != "=")
        plain = [word for word in words if not ("=" in word and word.split("=")[0].isalpha())]
        given = {k: v for k, v in given.items() if k.isalpha()}
        file, at = given.pop("file", unit), int(given.pop("line", number))
        place = frozenset({(file, at)})
        if kind == "NODE":
            fact: Fact = (unit, plain[0], (_key(plain[0], " ".join(plain[1:])),), ())
        else:
            middle = plain.index(">")
            ends = [(plain[0], " ".join(plain[1:middle])), (plain[middle + 1], " ".join(plain[middle + 2 :]))]
            keys = tuple(_node(label, _key(label, key)) for label, key in ends)
            told = tuple(given.get(name, "") for name in EDGES[kind].discriminator)
            fact = (unit, kind, keys, told)
            for label, key in ends:
                found.setdefault((unit, label, (_key(label, key),), ()), Stated(frozenset(), {}))
        before = found.get(fact)
        if before is not None:
            place, given = place | before.places, {**given, **before.properties}
        found[fact] = Stated(place, given)
    return found


def _text(value: Any) -> str:
    return (
        ",".join(map(str, value))
        if isinstance(value, list | tuple)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def found(folder: Path) -> dict[Fact, Stated]:
    """What the readers say of a set."""
    paths = sorted(
        p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != "labels.txt"
    )
    texts = {path: (folder / path).read_bytes().decode("utf-8") for path in paths}
    extractor = ConfigFiles()
    facts: dict[Fact, Stated] = {}
    taken: set[str] = set()
    for unit in extractor.units(paths):
        if "Dockerfile" not in unit.name and folder != GOLD / folder.name:
            continue
        view = FileView(frozenset(paths), texts.__getitem__)
        said = extractor.interpret(unit, view, SourceFacts(NAMESPACE, PLACE))
        taken |= said.subordinates
        for claim in said.nodes:
            ref = claim.node
            fact: Fact = (unit.name, ref.label, ("|".join(map(str, ref.key)),), ())
            properties = {k: _text(v) for k, v in claim.properties.items()}
            if claim.aliases:
                properties["aliases"] = ",".join(claim.aliases)
            facts[fact] = Stated(frozenset({_place(texts, claim.evidence)}), properties)
        for edge in said.edges:
            keys = tuple(_node(end.label, "|".join(map(str, end.key))) for end in (edge.start, edge.end))
            properties = {k: _text(v) for k, v in edge.properties.items()}
            told = tuple(properties.get(name, "") for name in EDGES[edge.type].discriminator)
            fact = (unit.name, edge.type, keys, told)
            before = facts.get(fact)
            places = frozenset({_place(texts, edge.evidence)}) | (before.places if before else frozenset())
            facts[fact] = Stated(places, {**properties, **(before.properties if before else {})})
    # A file that another takes in is no unit.
    return {fact: stated for fact, stated in facts.items() if fact[0] not in taken}


def _place(texts: Mapping[str, str], evidence: Any) -> tuple[str, int]:
    return evidence.path, texts[evidence.path].count("\n", 0, evidence.start) + 1


def measured(name: str, half: str | None = None) -> tuple[dict[str, list[int]], list[str], list[int]]:
    """({kind: [right, found, labelled]}, what differs, [statements at the labelled line, labelled, with the
    labelled properties])."""
    keep = {None: lambda _: True, "open": lambda p: not is_locked(p), "locked": is_locked}[half]
    folder = root(name)
    want = {fact: stated for fact, stated in expected(GOLD / name).items() if keep(fact[0])}
    have = {fact: stated for fact, stated in found(folder).items() if keep(fact[0])}
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    differs: list[str] = []
    quoted = [0, 0, 0]
    for fact in sorted(want.keys() | have.keys()):
        count = counts[fact[1]]
        count[0] += fact in want and fact in have
        count[1] += fact in have
        count[2] += fact in want
        if fact not in have or fact not in want:
            differs.append(f"{'missed' if fact in want else 'in vain'}: {fact}")
            continue
        stated, says = want[fact], have[fact]
        if stated.places:
            quoted[1] += 1
            quoted[0] += stated.places == says.places
            if stated.places != says.places:
                differs.append(
                    f"quoted elsewhere: {fact}: {sorted(says.places)}, not {sorted(stated.places)}"
                )
            wrong = {
                k: says.properties.get(k) for k, v in stated.properties.items() if says.properties.get(k) != v
            }
            quoted[2] += not wrong
            if wrong:
                differs.append(f"otherwise: {fact}: {wrong}, not {dict(stated.properties)}")
    return counts, differs, quoted


def speed(name: str, rounds: int = 5) -> float:
    """Files of a set that are recognised, read and interpreted in a second; the fastest of some rounds."""
    folder = root(name)
    texts = {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if _is_text(p)}
    extractor, facts = ConfigFiles(), SourceFacts(NAMESPACE, PLACE)

    def read(unit: UnitSpec) -> Interpretation:
        return extractor.interpret(unit, FileView(frozenset(texts), texts.__getitem__), facts)

    units = [unit for unit in extractor.units(sorted(texts)) if read(unit).nodes]
    taken = []
    for _ in range(rounds):
        before = time.perf_counter()
        for unit in units:
            read(unit)
        taken.append(time.perf_counter() - before)
    return len(units) / min(taken)


def _is_text(path: Path) -> bool:
    return path.is_file() and path.name != "labels.txt" and b"\0" not in path.read_bytes()[:1024]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--half", choices=("open", "locked"))
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args()
    below = False
    for name in given.sets or sets():
        counts, differs, quoted = measured(name, given.half)
        right, all_found, labelled = (sum(count[i] for count in counts.values()) for i in range(3))
        score = 2 * right / max(1, all_found + labelled)
        below |= score < 0.99
        print(
            f"{name}: F1 {score:.4f} ({right} right, {all_found} found, {labelled} labelled); "
            f"{quoted[0]} of {quoted[1]} at the labelled line, {quoted[2]} with the labelled properties"
        )
        for kind, (hit, said, known) in sorted(counts.items()):
            print(f"  {kind:16} {hit} right, {said} found, {known} labelled")
        for line in differs if given.missing else ():
            print(f"    {line}")
        if given.speed:
            print(f"  {speed(name):.0f} files/s, each read by itself, on one core")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
