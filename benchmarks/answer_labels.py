"""Labelled questions about a corpus: what a right answer says, where that stands, and how a reply is judged.

benchmarks/answers/README.md says what the fields of a question mean and what counts as right.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from taboot_pipelines.connectors.globs import Globs

KINDS = ("config", "graph", "prose", "none")

#: Lines beside the labelled ones at which a citation still leads there.
NEAR = 2

#: Characters of a line from which on its number says too little: minified pages stand on a few such lines.
DENSE = 1000

#: Lines within which a thing and its property may belong together (``absent``).
WINDOW = 8

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = ROOT / "benchmarks" / "answers" / "questions.jsonl"
DATA = Path(os.environ.get("TABOOT_TEST_DATA") or ROOT.parent / "shared" / "data").resolve()

#: What a source without globs is taken to hold, by its type.
_TAKEN = {
    "files": ["*.md", "*.html", "*.txt", "*.yaml", "*.yml", "*.json", "*.conf"],
    "compose": ["*.yaml", "*.yml", "Dockerfile"],
    "swag": ["*.conf"],
}
#: Sources of these types that the example got after the questions.
_LATER = frozenset({"readmes"})
#: Words of questions that say nothing about a place.
_ASKING = re.compile(
    r"(?:a|about|all|an|and|any|are|at|be|by|can|containers?|depends?|do|does|for|from|have|host|how|i|if|in"
    r"|is|it"
    r"|many|may|needs?|networks?|of|on|or|ports?|project|services?|some|that|the|their|there|to|under|up"
    r"|used?|uses|what|when|where|which|while|who|why|with)"
)

_BLOCK = re.compile(r"</?(?:p|h\d|li|ul|ol|td|th|tr|table|div|pre|article|br|dt|dd)\b[^>]*>", re.IGNORECASE)


def house(data: Path = DATA) -> list[dict[str, Any]]:
    """The sources of the built-in corpus: the example of this project and four sets of real files beside
    it. The example's tailnet, network, mail, chat and READMEs came after the questions, and are not part of
    it.
    """
    example = ROOT / "examples" / "homelab"
    own = yaml.safe_load((example / "sources.yaml").read_text(encoding="utf-8"))["sources"]
    taken = [entry for entry in own if entry["type"] in _TAKEN and entry["id"] not in _LATER]
    entries = [{**entry, "path": str(example / entry["path"])} for entry in taken]
    return [
        *entries,
        {"id": "awesome", "type": "compose", "path": str(data / "awesome-compose")},
        {
            "id": "awesome-readmes",
            "type": "files",
            "path": str(data / "awesome-compose"),
            "include": ["*/**/README.md"],
        },
        {
            "id": "swag-confs",
            "type": "swag",
            "path": str(data / "swag-reverse-proxy-confs"),
            "include": ["*.conf.sample"],
            "exclude": ["_template.*"],
            "proxy": "swag-samples",
        },
        {
            "id": "linuxserver",
            "type": "files",
            "path": str(data / "linuxserver-docs-md" / "docs"),
            "include": ["**/*.md"],
        },
        {
            "id": "ingress-nginx",
            "type": "files",
            "path": str(data / "site-ingress-nginx" / "site"),
            "include": ["**/*.html"],
        },
    ]


@dataclass(frozen=True)
class EvidenceLines:
    """Lines ``first`` to ``last`` (from 1, inclusive) of the file whose path ends in ``path``."""

    path: str
    first: int
    last: int


@dataclass(frozen=True)
class Question:
    """One labelled question. ``needs``: groups of values; of each group one must stand in the answer.
    ``derived``: indexes of groups that are concluded (a count, a yes) and stand nowhere. ``absent``: for a
    question without an answer, groups of patterns that must not all match near each other.
    """

    id: str
    kind: str
    question: str
    locked: bool = False
    needs: tuple[tuple[str, ...], ...] = ()
    derived: tuple[int, ...] = ()
    forbids: tuple[str, ...] = ()
    evidence: tuple[EvidenceLines, ...] = ()
    absent: tuple[tuple[str, ...], ...] = ()

    @property
    def stated(self) -> list[tuple[str, ...]]:
        """The groups whose values stand in the corpus."""
        return [group for i, group in enumerate(self.needs) if i not in self.derived]


def read_questions(path: Path) -> list[Question]:
    """The questions of a JSON Lines file. Raises ``ValueError`` naming the line that is not one."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            evidence = tuple(EvidenceLines(p["path"], *p["lines"]) for p in row.pop("evidence", ()))
            groups = {key: tuple(map(tuple, row.pop(key, ()))) for key in ("needs", "absent")}
            flat = {key: tuple(row.pop(key, ())) for key in ("derived", "forbids")}
            question = Question(**row, **groups, **flat, evidence=evidence)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number}: {error}") from error
        if question.kind not in KINDS:
            raise ValueError(f"{path}:{number}: kind {question.kind!r} is none of {', '.join(KINDS)}")
        found.append(question)
    return found


def locked_ids(questions: Sequence[Question]) -> set[str]:
    """The half of each kind whose ids have the smaller SHA-256."""
    kinds = defaultdict(list)
    for q in questions:
        kinds[q.kind].append(q.id)
    return {
        id_
        for ids in kinds.values()
        for id_ in sorted(ids, key=lambda i: hashlib.sha256(i.encode()).hexdigest())[: len(ids) // 2]
    }


# --- values in texts ----------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """``text`` to compare by: lower case, single blanks, without the marks of citations and of emphasis."""
    text = re.sub(r"\[\d+\]", " ", text)
    return re.sub(r"\s+", " ", re.sub(r"[`*\\]", "", text)).strip().casefold()


@cache
def _pattern(value: str) -> re.Pattern[str]:
    # A token goes on over a hyphen, and over a dot as in a version or a host's name: redis is not said by
    # redis-exporter, nor 10.5 by 10.5.1.
    return re.compile(rf"(?<![\w])(?<!\w[-.]){re.escape(plain(value))}(?!\w)(?![-.]\w)")


def holds(text: str, value: str) -> bool:
    """Whether ``value`` stands in ``text`` (:func:`plain`), on the borders of tokens."""
    return bool(_pattern(value).search(text))


def holds_all(text: str, groups: Sequence[Sequence[str]]) -> bool:
    text = plain(text)
    return all(any(holds(text, value) for value in group) for group in groups)


# --- the corpus ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """The text files of the sources as they lie on the disk; ``lines`` by path."""

    sources: Sequence[Mapping[str, Any]]
    base: Path = field(default=Path())

    @cached_property
    def lines(self) -> dict[str, list[str]]:
        found = {}
        for source in self.sources:
            root = (self.base / Path(source["path"]).expanduser()).resolve()
            taken, left = (
                Globs(source.get("include") or _TAKEN[source["type"]]),
                Globs(source.get("exclude") or ()),
            )
            for path in sorted(root.rglob("*")):
                inside = path.relative_to(root).as_posix()
                if path.is_file() and taken.matches(inside) and not left.matches(inside):
                    found[path.as_posix()] = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return found

    def files(self, path: str) -> list[str]:
        """The files whose path ends in ``path``."""
        return [f for f in self.lines if is_at(f, path)]

    def dense(self, place: EvidenceLines) -> bool:
        """Whether the lines of a place are so long that their numbers say too little."""
        return any(
            len(line) > DENSE for f in self.files(place.path) for line in _cut(self.lines[f], place, 0)
        )

    def near(self, place: EvidenceLines) -> str:
        """The text at a place: of its lines and those beside them, and in YAML of the keys that they lie
        under.
        """
        found = []
        for f in self.files(place.path):
            found += _cut(self.lines[f], place, NEAR)
            if f.endswith((".yaml", ".yml")):
                found += _above(self.lines[f], place)
        return "\n".join(html.unescape(re.sub(r"<[^>]+>", " ", line)) for line in found)

    def passages(self, limit: int = 1000) -> list[tuple[str, int, str]]:
        """Path, first line and text of pieces of up to some ``limit`` characters, cut at blank lines and, on
        HTML pages, at the borders of blocks.
        """
        found = []
        for path, lines in self.lines.items():
            held, start, size = [], 1, 0
            for number, line in enumerate(lines, 1):
                pieces = [line]
                if path.endswith(".html"):
                    pieces = [html.unescape(re.sub(r"<[^>]+>", "", p)) for p in _BLOCK.split(line)]
                for piece in pieces:
                    if size and (size + len(piece) > limit or (not piece.strip() and size > limit / 2)):
                        found.append((path, start, "\n".join(held)))
                        held, size = [], 0
                    if piece.strip():
                        start = start if held else number
                        held.append(piece)
                        size += len(piece)
            if held:
                found.append((path, start, "\n".join(held)))
        return found


def is_at(location: str, path: str) -> bool:
    """Whether a file's location (a path or a URL) ends in ``path``, by whole names."""
    return ("/" + location.replace("\\", "/")).endswith("/" + path)


def _cut(lines: list[str], place: EvidenceLines, beside: int) -> list[str]:
    return lines[max(place.first - 1 - beside, 0) : place.last + beside]


def _above(lines: list[str], place: EvidenceLines) -> list[str]:
    """The lines that a place of a YAML file lies under: each next one above that is indented less."""
    found, depth = [], len(lines[place.first - 1]) - len(lines[place.first - 1].lstrip())
    for line in reversed(lines[: place.first - 1]):
        indented = len(line) - len(line.lstrip())
        if line.strip() and not line.lstrip().startswith("#") and indented < depth:
            found.append(line)
            depth = indented
    return found


def problems(question: Question, corpus: Corpus) -> list[str]:
    """What is wrong with a question's labels, read against the corpus; nothing if they hold."""
    if question.kind == "none":
        wrong = [] if question.absent else ["nothing is said to be absent"]
        wrong += ["a question without an answer needs nothing"] * bool(question.needs or question.evidence)
        return wrong + [
            f"{' and '.join(patterns)} stand together at {found}"
            for patterns in question.absent
            if (found := _together(patterns, corpus))
        ]
    wrong = ["no needed values"] * (not question.needs) + ["no evidence"] * (not question.evidence)
    texts = []
    for place in question.evidence:
        files = corpus.files(place.path)
        if len(files) != 1:
            wrong.append(f"{place.path} names {len(files)} files")
        elif not 1 <= place.first <= place.last <= len(corpus.lines[files[0]]):
            wrong.append(f"{place.path} has no lines {place.first} to {place.last}")
        else:
            texts.append((place, corpus.near(place)))
    asked = [
        [word] for word in re.findall(r"[\w.-]*\w", question.question.lower()) if not _ASKING.fullmatch(word)
    ]
    for place, text in texts:
        if not any(holds_all(text, [group]) for group in [*question.stated, *asked]):
            wrong.append(f"{place.path}:{place.first} has none of the values, nor what is asked about")
    wrong += [
        f"{' or '.join(group)} stands at none of the places"
        for group in question.stated
        if not any(holds_all(text, [group]) for _, text in texts)
    ]
    wrong += [
        f"{value!r} is needed and forbidden"
        for value in question.forbids
        if any(value in group for group in question.needs)
    ]
    return wrong


def _together(patterns: Sequence[str], corpus: Corpus) -> str | None:
    """The first place where lines that match all ``patterns`` stand near each other."""
    compiled = [re.compile(p, re.IGNORECASE | re.MULTILINE) for p in patterns]
    for path, lines in corpus.lines.items():
        # What no text holds, no line does: a text is searched a hundred times faster than its lines.
        text = "\n".join(lines)
        if not all(p.search(text) for p in compiled):
            continue
        hits = [[n for n, line in enumerate(lines, 1) if p.search(line)] for p in compiled]
        for n in hits[0] if all(hits) else ():
            if all(any(abs(n - m) <= WINDOW for m in others) for others in hits[1:]):
                return f"{path}:{n}"
    return None


# --- judging ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cited:
    """Where a reply says that something stands: ``line`` where the cited text begins, if that is known."""

    url: str
    line: int | None
    text: str


@dataclass(frozen=True)
class Reply:
    found: bool
    text: str
    cited: tuple[Cited, ...] = ()

    @property
    def first_sentence(self) -> str:
        return re.split(r"\s*\[\d+\]|\n|(?<=[.!?])\s+(?=[A-Z])", self.text.strip(), maxsplit=1)[0]

    @property
    def words(self) -> int:
        return len(re.sub(r"\[\d+\]", " ", self.text).split())


@dataclass(frozen=True)
class Verdict:
    """``right``: what was asked, with a citation that leads there, or the abstention that was due.
    ``first``: the first sentence, or what is cited first, says it alone.
    """

    right: bool
    first: bool
    abstained: bool


def judge(question: Question, reply: Reply, corpus: Corpus) -> Verdict:
    if question.kind == "none" or not reply.found:
        right = question.kind == "none" and not reply.found
        return Verdict(right, right, not reply.found)
    said = plain(reply.text)
    right = (
        holds_all(said, question.needs)
        and not any(holds(said, value) for value in question.forbids)
        and any(_leads_to(c, p, question, corpus) for c in reply.cited for p in question.evidence)
    )
    firsts = [reply.first_sentence, *(c.text for c in reply.cited[:1])]
    return Verdict(right, right and any(holds_all(f, question.needs) for f in firsts), abstained=False)


def _leads_to(cited: Cited, place: EvidenceLines, question: Question, corpus: Corpus) -> bool:
    if not is_at(cited.url, place.path):
        return False
    says = any(holds_all(cited.text, [group]) for group in question.stated)
    if cited.line is None:
        return says
    last = cited.line + cited.text.strip().count("\n")
    near = cited.line <= place.last + NEAR and last >= place.first - NEAR
    return near and (says or not corpus.dense(place))
