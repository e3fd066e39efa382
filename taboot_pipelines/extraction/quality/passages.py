"""Labelled passages: a piece of Markdown, one sentence of it, and the relations that the sentence asserts.

A line of a file is a JSON object ``{"text": …, "sentence": …, "triples": [[relation, subject, object,
properties], …]}``. ``sentence`` stands in ``text``; subject and object are written as they stand there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import EDGES

#: The sets that come with the package.
SETS = ("open", "kept")
_REMEDY = 'A line is {"text": …, "sentence": …, "triples": [[relation, subject, object, {…}], …]}.'


@dataclass(frozen=True, slots=True)
class Labelled:
    """A relation and the names of its ends, as they stand in the passage."""

    type: str
    subject: str
    object: str


@dataclass(frozen=True, slots=True)
class Passage:
    """Markdown, and the sentence at ``[start, end)`` of it with what it asserts."""

    text: str
    start: int
    end: int
    labels: tuple[Labelled, ...]


def own_passages(name: str) -> list[Passage]:
    """The passages of one of the ``SETS``."""
    source = files("taboot_pipelines.extraction.quality").joinpath(f"{name}.jsonl")
    return list(_passages(source.read_text("utf-8"), name))


def read_passages(path: Path) -> list[Passage]:
    """The passages of a file. Raises ``E_PATH`` if it cannot be read, ``E_SCHEMA_INVALID`` with the line that
    is no passage."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TabootError(
            "E_PATH", f"{path} cannot be read: {type(error).__name__}.", path=str(path)
        ) from error
    return list(_passages(text, str(path)))


def _passages(text: str, name: str) -> Iterator[Passage]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield _passage(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise TabootError(
                    "E_SCHEMA_INVALID",
                    f"Line {number} of {name} is no labelled passage: {error}.",
                    remedy=_REMEDY,
                    line=number,
                ) from error


def _passage(row: dict[str, Any]) -> Passage:
    text, sentence = row["text"], row["sentence"]
    start = text.find(sentence)
    if not sentence or start < 0:
        raise ValueError("its sentence does not stand in its text")
    labels = tuple(Labelled(*triple[:3]) for triple in row["triples"])
    for label in labels:
        if label.type not in EDGES:
            raise ValueError(f"{label.type!r} is no relation")
        if label.subject not in text or label.object not in text:
            raise ValueError(f"{label.subject!r} or {label.object!r} does not stand in its text")
    return Passage(text, start, start + len(sentence), labels)
