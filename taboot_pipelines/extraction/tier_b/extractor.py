"""What documents state in sentences, in this process or several; byte-identical either way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.prose.claims import relations
from taboot_pipelines.extraction.tier_a.prose.deciding import model_version
from taboot_pipelines.extraction.tier_a.prose.reading import SENTENCES
from taboot_pipelines.extraction.tier_a.prose.segments import is_plan
from taboot_pipelines.model.records import Interpretation

#: Raise it when equal text would give other claims.
VERSION = "15"
#: What decides, as runs name it.
MODEL = "pair_regression"
#: Code points that are worth a process of their own, which takes seconds to start.
_WORTH_A_PROCESS = 400_000
#: Code points that a process is given at a time.
_PORTION = 100_000


@dataclass(frozen=True, slots=True)
class Prose:
    """A document to be read: the path that evidence names, and its Markdown."""

    path: str
    text: str


def grammar_version() -> str:
    """Return a hash of the coefficients that decide."""
    return model_version()


def read_all(documents: Sequence[Prose], processes: int = 1) -> Iterator[Interpretation]:
    """What the sentences of each document state, in their order, by at most so many processes. Raises
    ``E_INTERNAL`` if a process is killed."""
    worthwhile = sum(len(d.text) for d in documents) // _WORTH_A_PROCESS + 1
    processes = min(processes, worthwhile)
    if processes < 2:
        yield from _read(documents)
        return
    # Forked processes would inherit locks that threads of this one hold.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            for found in pool.map(_read, _portions(documents)):
                yield from found
        except OSError as error:
            raise TabootError(
                "E_INTERNAL", f"A process that reads prose ended ({type(error).__name__})."
            ) from error


def _read(documents: Sequence[Prose]) -> list[Interpretation]:
    """A plan states nothing of what there is."""
    said = (() if is_plan(d.path, d.text) else relations(d.text, d.path, SENTENCES) for d in documents)
    return [Interpretation((), edges) for edges in said]


def _portions(documents: Iterable[Prose]) -> Iterator[list[Prose]]:
    """Documents in portions of about equal length."""
    portion: list[Prose] = []
    length = 0
    for document in documents:
        portion.append(document)
        length += len(document.text)
        if length >= _PORTION:
            yield portion
            portion, length = [], 0
    if portion:
        yield portion
