"""Contradictions that are put into houses of other people, and how many of them ``kb.drift()`` finds.

    python benchmarks/drift.py [ROUNDS [HOUSE ...]]

Where a line of a document names a service and holds a value that its Compose file gives it (the tag of an
image, a port, a host name), one side is changed: in the document, or in the configuration. Lines are found by
regular expressions and PyYAML alone. Each round changes one line of each file at most and ingests again.
Beside them come changes that contradict nothing: history, an example, rows in another order. What is said of
the unchanged houses is printed to be looked at.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answer_reading import DATA

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.retrieval.results.drift import DriftItem

QUESTIONS = DATA / "house-questions"
sys.path.insert(0, str(QUESTIONS))
import score  # noqa: E402

#: Not ``first``, whose pages are vendors'.
HOUSES = ("astronomy", "seed", "swarm")
COMPOSE = re.compile(r"(?:docker-)?compose(?:\.[\w-]+)?\.ya?ml")
#: What is no statement: scripts, and pages of what goes wrong.
LEFT_OUT = re.compile(r"(?i)troubleshoot|changelog|example")


@dataclass(frozen=True)
class Change:
    """Put ``new`` for ``old`` at a place of a file; ``what``: the kind of value, or of a harmless change."""

    path: Path
    start: int
    end: int
    new: str
    what: str
    side: str

    def line(self, text: str) -> int:
        return text.count("\n", 0, self.start) + 1


@dataclass(frozen=True)
class Value:
    """A value of a service, the file that gives it, and a regular expression of how it stands there."""

    what: str
    text: str
    service: str
    file: Path
    place: str


def values(house: Path) -> Iterator[Value]:
    """What Compose files give to services, where it is written out."""
    for file in sorted(p for p in house.rglob("*") if COMPOSE.fullmatch(p.name)):
        try:
            tree = yaml.safe_load(file.read_text(encoding="utf-8"))
        except yaml.YAMLError:
            continue
        for name, service in ((tree or {}).get("services") or {}).items():
            service = service or {}
            said = str(yaml.safe_dump(service))
            image = str((service or {}).get("image") or "").partition("@")[0]
            tag = image.rpartition(":")[2] if ":" in image.rpartition("/")[2] else ""
            if re.match(r"v?\d+\.\d", tag):
                yield Value(
                    "image", tag, name, file, rf"(?<={re.escape(image[: -len(tag)])}){re.escape(tag)}"
                )
            for port in re.findall(
                r"(?m)^- ['\"]?(\d{4,5}):\d{2,5}", str(yaml.safe_dump(service.get("ports")))
            ):
                yield Value("port", port, name, file, rf"(?<=[\"' ]){port}(?=:\d)")
            for port in re.findall(r"server\.port[=:] ?(\d{4,5})", said):
                yield Value("port", port, name, file, rf"(?<=server\.port=){port}")
            for host in re.findall(r"Host\(`([^`]+)`\)", said):
                yield Value("host name", host, name, file, rf"(?<=Host\(`){re.escape(host)}")


def changed(value: Value, rng: random.Random) -> str:
    if value.what == "port":
        return str(int(value.text) + rng.choice([1, 11, 100]))
    if value.what == "host name":
        first, dot, rest = value.text.partition(".")
        return f"{first}{rng.choice(['2', '-new', 's'])}{dot}{rest}"
    number = list(re.finditer(r"\d+", value.text))[1]
    return f"{value.text[: number.start()]}{int(number[0]) + 1}{value.text[number.end() :]}"


def contradictions(house: Path, rng: random.Random) -> Iterator[Change]:
    """Changes of one side of a pair that agreed."""
    texts = {p: p.read_text(encoding="utf-8") for p in sorted(house.rglob("*.md"))}
    for value in values(house):
        written = rf"(?<![\w.-]){re.escape(value.text)}(?![\w-]|\.\d)"
        for path, text in texts.items():
            if LEFT_OUT.search(path.name):
                continue
            heading, at, fence = "", 0, ""
            for line in text.split("\n"):
                heading = line if line.startswith("#") else heading
                if line.lstrip().startswith("```"):
                    fence = "" if fence else line.strip("` ").lower() or "none"
                context = re.sub(r"[\s_]", "-", f"{line} {heading} {path.parent.name} {path.stem}".lower())
                names = {value.service.lower().replace("_", "-"), value.file.parent.name.lower()}
                named = any(re.search(rf"(?<![a-z0-9]){re.escape(n)}(?![a-z0-9])", context) for n in names)
                match = re.search(written, line) if named and fence not in ("bash", "sh", "shell") else None
                is_port = value.what != "port" or (match and re.search(r"(?i)port|:\d|\||->", line))
                if match and is_port:
                    new = changed(value, rng)
                    yield Change(path, at + match.start(), at + match.end(), new, value.what, "document")
                    own = value.file.read_text(encoding="utf-8")
                    place = re.search(value.place, own)
                    if place:
                        yield Change(value.file, *place.span(), new, value.what, "configuration")
                at += len(line) + 1


def harmless(house: Path, rng: random.Random) -> Iterator[Change]:
    """Changes that contradict nothing."""
    for value in values(house):
        readme = value.file.with_name("README.md")
        if not readme.is_file() or value.what == "host name":
            continue
        text, new = readme.read_text(encoding="utf-8"), changed(value, rng)
        end = len(text)
        of = f"port {new}" if value.what == "port" else f"version {new}"
        was, example = f"\n\nUntil 2023 {value.service} had {of}.\n", f"\n\nFor example, {of} would do.\n"
        yield Change(readme, end, end, was, "history", "document")
        yield Change(readme, end, end, example, "example", "document")
        rows = list(re.finditer(r"(?m)^\|.*\|$", text))[2:]
        if len(rows) > 2 and rows[-1].start() == rows[-2].end() + 1:
            swapped = f"{rows[-1][0]}\n{rows[-2][0]}"
            yield Change(readme, rows[-2].start(), rows[-1].end(), swapped, "order of rows", "document")


def rounds(changes: list[Change], count: int, rng: random.Random) -> list[list[Change]]:
    """So many sets of changes with one of each file at most."""
    by_file = defaultdict(list)
    for change in {(c.path, c.start, c.what): c for c in changes}.values():
        by_file[change.path].append(change)
    for of in by_file.values():
        rng.shuffle(of)
    return [[of[n] for of in by_file.values() if n < len(of)] for n in range(count)]


def drift_after(corpus: Path, house: str, home: Path) -> tuple[DriftItem, ...]:
    score.ingest(corpus, house, home)
    return KnowledgeBase.open(home).drift(limit=10_000).items


def is_told(change: Change, line: int, items: list[DriftItem]) -> bool:
    return any(s.url.endswith(str(change.path)) and s.line == line for i in items for s in i.sides)


def main(count: int, houses: Sequence[str]) -> None:
    rng = random.Random(5)
    found: Counter[tuple[str, str]] = Counter()
    made: Counter[tuple[str, str]] = Counter()
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        for house in houses or HOUSES:
            shutil.unpack_archive(QUESTIONS / "houses" / f"{house}.tar.xz", corpus)
            home = Path(folder) / house
            before = drift_after(corpus, house, home)
            print(f"{house}, unchanged: {len(before)} drifts")
            for item in before:
                print(f"    {item.kind}: {item.statement}")
            known = {item.statement for item in before}
            seeds = list(contradictions(corpus / house, rng))
            sets = rounds([c for c in seeds if c.side == "document"], count, rng)
            sets += rounds([c for c in seeds if c.side == "configuration"], count, rng)
            sets += rounds(list(harmless(corpus / house, rng)), count, rng)
            for changes in filter(None, sets):
                originals = {c.path: c.path.read_text(encoding="utf-8") for c in changes}
                for c in changes:
                    text = originals[c.path]
                    c.path.write_text(text[: c.start] + c.new + text[c.end :], encoding="utf-8")
                new = [i for i in drift_after(corpus, house, home) if i.statement not in known]
                for c in changes:
                    line = c.line(originals[c.path])
                    told = is_told(c, line, new)
                    made[c.side, c.what] += 1
                    found[c.side, c.what] += told
                    if not told and c.what in ("image", "port", "host name"):
                        shown = originals[c.path].split("\n")[line - 1].strip()[:90]
                        missed.append(
                            f"{c.side}, {c.what} {c.new}: {c.path.relative_to(corpus)}:{line} {shown}"
                        )
                for path, text in originals.items():
                    path.write_text(text, encoding="utf-8")
    print(f"\n{'side':15}{'what':15}{'made':>6}{'told':>6}")
    for key in sorted(made):
        print(f"{key[0]:15}{key[1]:15}{made[key]:6d}{found[key]:6d}")
    wrong = [k for k in made if k[1] in ("image", "port", "host name")]
    print(f"found {sum(found[k] for k in wrong)} of {sum(made[k] for k in wrong)} contradictions")
    print("missed, for example:", *rng.sample(missed, min(20, len(missed))), sep="\n    ")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2:])
