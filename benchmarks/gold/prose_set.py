"""Reads the labelled sentences of ``prose`` with their texts, and scores what an extractor finds in them.

``prose/GUIDE.md`` says what a label means. No text is kept here: it is read from ``shared/data`` by offset,
once the SHA-256 of the file is what it was when the file was labelled::

    gold = ProseSet.load(half="open")
    for sentence in gold.sentences:
        shown = gold.shown(sentence)            # readable text, and the offsets of each of its characters
        subject, object = End(10, 15, label="Service"), End(30, 35, label="Service")
        found[sentence.id] = [Triple("DEPENDS_ON", subject, object)]
    for relation, scored in score(found, gold.sentences).items():
        print(relation, scored.exact.f1, scored.relaxed.f1)
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import tarfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

PROSE = Path(__file__).resolve().parent / "prose"
ROOT = PROSE.parents[2]
DATA = Path(os.environ.get("TABOOT_TEST_DATA") or ROOT.parent / "shared" / "data").resolve()

#: The files of labels: the set that the rules were first written beside, and one labelled after that.
SETS = ("gold", "later")

#: What a sentence is by itself; ``prose/GUIDE.md`` says which is which.
KINDS = ("assertion", "negation", "hypothetical", "question", "instruction", "none")
HALVES = ("open", "locked")

#: The name of the sum over all relations among the scores.
ALL = "all"

Half: TypeAlias = Literal["open", "locked", "both"]
Matches: TypeAlias = Callable[["Triple", "Triple"], bool]

#: One step through HTML: a comment, a tag, a character reference, or a character.
_HTML = re.compile(
    r"""<!--.*?-->|</?(?P<tag>[a-zA-Z](?:"[^"]*"|'[^']*'|[^'">])*)>|&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);|.""",
    re.DOTALL,
)
_LINE_BREAK = re.compile(r"br\b", re.IGNORECASE)


class DataDiffers(Exception):
    """A file of the data is missing, or is not the one that was labelled."""


@dataclass(frozen=True)
class Span:
    """Code points of a file decoded as UTF-8: from ``start`` to before ``end``."""

    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """Whether the two spans have a code point in common."""
        return self.start < other.end and other.start < self.end

    def holds(self, other: Span) -> bool:
        """Whether the other span lies within this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True)
class End(Span):
    """One end of a triple: where its name stands, and under which label.

    It has ``context`` if the name stands in a heading or in the introduction of a list, not in the sentence.
    """

    label: str = field(kw_only=True)
    context: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Triple:
    """A relation that a sentence asserts."""

    type: str
    subject: End
    object: End
    properties: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Sentence(Span):
    """A labelled sentence of a file of the data.

    ``headings`` go from the page's title to the nearest one; ``introduction`` is the paragraph before the
    list that the sentence is an item of. ``decision`` names what of the guide decided it where the two
    labellings differ, ``labelled`` the part of a labelling that was made in parts.
    """

    id: str
    half: str
    file: str
    sha256: str
    headings: tuple[Span, ...]
    introduction: Span | None
    kind: str
    triples: tuple[Triple, ...]
    decision: str = ""
    labelled: str = ""

    @property
    def context(self) -> tuple[Span, ...]:
        """All that may be read beside the sentence."""
        return self.headings if self.introduction is None else (*self.headings, self.introduction)


@dataclass(frozen=True)
class Shown:
    """Text as one reads it, and for each of its characters where it stands in the file."""

    text: str
    places: tuple[Span, ...]

    def span(self, start: int, end: int) -> Span:
        """Where ``text[start:end]`` stands in the file."""
        if not 0 <= start < end <= len(self.text):
            raise ValueError(f"{start} to {end} is no part of a text of {len(self.text)} characters")
        return Span(self.places[start].start, self.places[end - 1].end)


def shown_markdown(raw: str, start: int = 0) -> Shown:
    """Markdown as it is written; ``start`` is where it stands in its file."""
    return Shown(raw, tuple(Span(start + at, start + at + 1) for at in range(len(raw))))


def shown_html(raw: str, start: int = 0) -> Shown:
    """HTML without its tags, with characters for its references and one space for any white space."""
    text: list[str] = []
    places: list[Span] = []
    for step in _HTML.finditer(raw):
        tag, piece = step["tag"], step[0]
        if tag is not None or piece.startswith("<!--"):
            if tag is None or not _LINE_BREAK.match(tag):
                continue
            piece = " "
        for character in html.unescape(piece):
            if character.isspace():
                if text and text[-1] == " ":
                    continue
                character = " "
            text.append(character)
            places.append(Span(start + step.start(), start + step.end()))
    return Shown("".join(text), tuple(places))


class ProseSet:
    """Labelled sentences with the data that they are about.

    ``data`` is the folder that their files are relative to. A file is read when something of it is first
    asked for.
    """

    def __init__(self, sentences: Sequence[Sentence], data: Path = DATA) -> None:
        self.sentences = tuple(sentences)
        self.data = data
        self._texts: dict[str, str] = {}
        self._digests = {sentence.file: sentence.sha256 for sentence in self.sentences}

    @classmethod
    def load(cls, path: Path = PROSE / "gold.jsonl", half: Half = "open", data: Path = DATA) -> ProseSet:
        """The sentences of one half, or of both; the locked half is only for the end."""
        sentences = read_sentences(path)
        return cls([one for one in sentences if half in ("both", one.half)], data)

    def document(self, file: str) -> str:
        """The text of a file; :class:`DataDiffers` unless it is the one that was labelled."""
        if file not in self._texts:
            path = self.data / file
            try:
                content = _bytes_of(path)
            except (OSError, KeyError, tarfile.TarError) as error:
                raise DataDiffers(
                    f"{path} cannot be read ({error}); TABOOT_TEST_DATA names the folder of the data"
                ) from error
            digest = hashlib.sha256(content).hexdigest()
            if digest != self._digests[file]:
                raise DataDiffers(
                    f"{path} is not the file that was labelled: its SHA-256 is {digest}, "
                    f"that of the labels is {self._digests[file]}"
                )
            self._texts[file] = content.decode("utf-8")
        return self._texts[file]

    def shown(self, sentence: Sentence, span: Span | None = None) -> Shown:
        """The sentence as one reads it, or another span of its file."""
        span = span or sentence
        raw = self.document(sentence.file)[span.start : span.end]
        show = shown_html if sentence.file.endswith(".html") else shown_markdown
        return show(raw, span.start)

    def text(self, sentence: Sentence, span: Span | None = None) -> str:
        """The readable text of the sentence, or of another span of its file, such as an end of a triple."""
        return self.shown(sentence, span).text

    def headings(self, sentence: Sentence) -> list[str]:
        """The headings that the sentence stands under, the page's title first."""
        return [self.text(sentence, span) for span in sentence.headings]

    def introduction(self, sentence: Sentence) -> str | None:
        """The paragraph that introduces the list which the sentence is of."""
        return None if sentence.introduction is None else self.text(sentence, sentence.introduction)


def _bytes_of(path: Path) -> bytes:
    """The bytes of a file, also of one in an archive: ``site.tar.xz/site/index.html``."""
    archive = next((above for above in path.parents if above.suffixes[-2:] == [".tar", ".xz"]), None)
    if archive is None:
        return path.read_bytes()
    with tarfile.open(archive) as packed:
        member = packed.extractfile(path.relative_to(archive).as_posix())
        if member is None:
            raise KeyError(path.name)
        return member.read()


def read_sentences(path: Path) -> list[Sentence]:
    """The sentences of a file of labels, of both halves; without their texts."""
    return [_sentence(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _sentence(row: Mapping[str, Any]) -> Sentence:
    return Sentence(
        start=row["start"],
        end=row["end"],
        id=row["id"],
        half=row["half"],
        file=row["file"],
        sha256=row["sha256"],
        headings=tuple(Span(*span) for span in row["headings"]),
        introduction=None if row["introduction"] is None else Span(*row["introduction"]),
        kind=row["kind"],
        triples=tuple(
            Triple(one["type"], End(**one["subject"]), End(**one["object"]), one["properties"])
            for one in row["triples"]
        ),
        decision=row.get("decision", ""),
        labelled=row.get("labelled", ""),
    )


# --- scores -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """How many triples were predicted, how many are labelled, and how many of them are matched."""

    matched: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """The share of the predictions that match; 1 where nothing is predicted."""
        return self.matched / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """The share of the labels that are matched; 1 where nothing is labelled."""
        return self.matched / self.gold if self.gold else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 1 where nothing is predicted and nothing labelled."""
        total = self.predicted + self.gold
        return 2 * self.matched / total if total else 1.0

    def __add__(self, other: Score) -> Score:
        return Score(self.matched + other.matched, self.predicted + other.predicted, self.gold + other.gold)


@dataclass(frozen=True)
class Scored:
    """The scores of one relation by both ways to match."""

    exact: Score
    relaxed: Score

    def __add__(self, other: Scored) -> Scored:
        return Scored(self.exact + other.exact, self.relaxed + other.relaxed)


_NOTHING = Scored(Score(0, 0, 0), Score(0, 0, 0))


def matches_exactly(one: Triple, other: Triple) -> bool:
    """The same type, and both ends with the same labels at the same places; properties do not count."""
    return one.type == other.type and all(
        (a.label, a.start, a.end) == (b.label, b.start, b.end)
        for a, b in ((one.subject, other.subject), (one.object, other.object))
    )


def matches_relaxed(one: Triple, other: Triple) -> bool:
    """The same type, and the spans of both ends overlap; labels and properties do not count."""
    return (
        one.type == other.type and one.subject.overlaps(other.subject) and one.object.overlaps(other.object)
    )


def matched(predicted: Sequence[Triple], gold: Sequence[Triple], matches: Matches) -> int:
    """The most pairs in which no prediction and no label stands twice."""
    holder: dict[int, int] = {}

    def place(at: int, tried: set[int]) -> bool:
        for label, triple in enumerate(gold):
            if label in tried or not matches(predicted[at], triple):
                continue
            tried.add(label)
            if label not in holder or place(holder[label], tried):
                holder[label] = at
                return True
        return False

    return sum(place(at, set()) for at in range(len(predicted)))


def score(predicted: Mapping[str, Collection[Triple]], gold: Collection[Sentence]) -> dict[str, Scored]:
    """{relation: its scores} over the given sentences, and under ``all`` the sum.

    ``predicted`` holds the triples found in each sentence, by the sentence's id; a sentence that it lacks has
    none. Offsets are those of the file, as in the labels.
    """
    if strange := sorted(predicted.keys() - {sentence.id for sentence in gold}):
        raise ValueError(f"predictions for sentences that are not scored: {', '.join(strange)}")
    scores: dict[str, Scored] = {}
    for sentence in gold:
        found = predicted.get(sentence.id, ())
        for relation in {triple.type for triple in (*found, *sentence.triples)}:
            mine = [triple for triple in found if triple.type == relation]
            labels = [triple for triple in sentence.triples if triple.type == relation]
            exact, relaxed = (
                Score(matched(mine, labels, matches), len(mine), len(labels))
                for matches in (matches_exactly, matches_relaxed)
            )
            scores[relation] = scores.get(relation, _NOTHING) + Scored(exact, relaxed)
    ordered = {relation: scores[relation] for relation in sorted(scores)}
    return {**ordered, ALL: sum(ordered.values(), _NOTHING)}
