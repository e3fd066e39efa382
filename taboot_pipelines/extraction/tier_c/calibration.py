"""How often a chat model is right, by relation: labelled passages, and what it made of the windows in them.

The passages of the package (``calibration.txt``) are of our own making: no chat model was fitted to them, and
what they deny, suppose, recall or give as an example is as much a part of them as what they state. Those of a
user (``TABOOT_EXTRACTION__GOLD``) are measured along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from taboot_pipelines.extraction.quality import Labelled, Passage
from taboot_pipelines.extraction.tier_c.claims import GRAPH
from taboot_pipelines.extraction.tier_c.prompt import PROMPT_VERSION, key
from taboot_pipelines.extraction.tier_c.reading import READING_VERSION, read
from taboot_pipelines.extraction.tier_c.tokens import TokenCounter
from taboot_pipelines.extraction.tier_c.windows import WINDOWS_VERSION, Window, windows
from taboot_pipelines.model.ids import digest

#: Code points of passages that are shown together, about as many as windows hold.
_TOGETHER = 500


@cache
def packaged_passages() -> tuple[Passage, ...]:
    """Return the labelled passages of the package."""
    blocks = files(__package__).joinpath("calibration.txt").read_text("utf-8").split("\n\n")
    return tuple(passage for block in blocks if (passage := _passage(block)).text)


def _passage(block: str) -> Passage:
    lines = block.strip().split("\n")
    text = "\n".join(line for line in lines if not line.startswith(("= ", "# "))).replace("\\n", "\n\n")
    labels = []
    for line in lines:
        if line.startswith("= "):
            kind, start, end = (part.strip() for part in line[2:].split("|"))
            labels.append(Labelled(kind, start, end.rpartition(":")[2] if kind == "BINDS" else end))
    return Passage(text, 0, len(text), tuple(labels))


@dataclass(frozen=True, slots=True)
class Sheet:
    """The windows of a text that is shown to a model, and {number of a passage: where it stands in it}."""

    places: Mapping[int, tuple[int, int]]
    windows: tuple[Window, ...]


def sheets(
    passages: Sequence[Passage], counter: TokenCounter, limit: int = 512, first: int = 0
) -> list[Sheet]:
    """Return passages as the texts in which a model reads them: short ones without headings together.

    ``first``: the number of the first of them.
    """
    found: list[Sheet] = []
    text, places = "", dict[int, tuple[int, int]]()

    def close() -> None:
        nonlocal text, places
        if places:
            found.append(Sheet(places, tuple(windows(text, counter, limit))))
        text, places = "", {}

    for number, passage in enumerate(passages, first):
        alone = "#" in passage.text or passage.end - passage.start < len(passage.text)
        if alone or len(text) + len(passage.text) > _TOGETHER:
            close()
        shift = len(text)
        text += f"{passage.text}\n\n"
        places[number] = (passage.start + shift, passage.end + shift)
        if alone:
            close()
    close()
    return found


def told(
    sheets: Sequence[Sheet], answers: Mapping[str, Any], model: str, passages: int
) -> list[list[Labelled]]:
    """Return what a model's answers, by the keys of windows, say of each of so many passages."""
    found: list[list[Labelled]] = [[] for _ in range(passages)]
    for sheet in sheets:
        for at, window in keyed(sheet, model):
            for triple in read(GRAPH, window, answers[at]).triples if at in answers else ():
                start, end = triple.place
                said = str(triple.properties["port"]) if triple.type == "BINDS" else triple.end.name
                for number, (begin, finish) in sheet.places.items():
                    if max(begin, start) < min(finish, end):
                        found[number].append(Labelled(triple.type, triple.start.name, said))
                        break
    return found


def keyed(sheet: Sheet, model: str) -> Iterator[tuple[str, Window]]:
    """Yield the windows of a sheet with the keys of their answers."""
    return ((key(GRAPH, window, model), window) for window in sheet.windows)


def version() -> str:
    """Return what a calibration holds for beside its model: windows, prompt, schema and reading."""
    return digest(WINDOWS_VERSION, PROMPT_VERSION, READING_VERSION, GRAPH.version)[:16]
