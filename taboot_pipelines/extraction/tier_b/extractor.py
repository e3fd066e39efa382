"""What documents assert in running text, in this process or several; byte-identical either way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_b.blocks import Block, blocks
from taboot_pipelines.extraction.tier_b.claims import claim
from taboot_pipelines.extraction.tier_b.language import MODEL, parsed, sentences
from taboot_pipelines.extraction.tier_b.names import Names
from taboot_pipelines.extraction.tier_b.promising import is_promising
from taboot_pipelines.extraction.tier_b.relations import relations
from taboot_pipelines.extraction.tier_b.triple import Triple
from taboot_pipelines.model.records import EdgeClaim, Interpretation

#: Raise it when equal text would give other claims.
VERSION = "6"
#: Code points that are worth a process of their own, which takes seconds to start.
_WORTH_A_PROCESS = 200_000
#: Code points that a process is given at a time.
_PORTION = 50_000


@dataclass(frozen=True, slots=True)
class Prose:
    """A document to be read: the path that evidence names, and its Markdown."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Asserted:
    """A triple of the document with this number, by the sentence at ``place`` (code points)."""

    document: int
    place: tuple[int, int]
    triple: Triple


@cache
def grammar_version() -> str:
    """Of spaCy and the model: another release may parse otherwise."""
    try:
        return f"{version('spacy')}+{version(MODEL.replace('_', '-'))}"
    except PackageNotFoundError:
        return "none"


def read_all(documents: Sequence[Prose], processes: int = 1) -> Iterator[Interpretation]:
    """What each document asserts, in their order, by at most so many processes. Raises ``E_MODEL`` if spaCy
    or its model is not installed, ``E_INTERNAL`` if a process is killed."""
    worthwhile = sum(len(d.text) for d in documents) // _WORTH_A_PROCESS + 1
    processes = min(processes, worthwhile)
    if processes < 2:
        yield from read(documents)
        return
    # Forked processes would inherit locks that threads of this one hold.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            for found in pool.map(read, _portions(documents)):
                yield from found
        except OSError as error:
            raise TabootError(
                "E_INTERNAL", f"A process that reads prose ended ({type(error).__name__})."
            ) from error


def read(documents: Sequence[Prose]) -> list[Interpretation]:
    """What each document asserts, in their order."""
    # Two names in a sentence may be one node's, and then what they say is one claim.
    found: list[dict[str, EdgeClaim]] = [{} for _ in documents]
    for asserted in assertions(documents):
        document = documents[asserted.document]
        said = claim(asserted.triple, document.path, asserted.place, document.text)
        if said is not None:
            found[asserted.document].setdefault(repr(said), said)
    return [Interpretation((), tuple(claims.values())) for claims in found]


def assertions(documents: Sequence[Prose]) -> Iterator[Asserted]:
    """What the sentences of documents assert; those of all documents are parsed in common batches."""
    origins: list[int] = []

    def every_block() -> Iterator[Block]:
        for number, document in enumerate(documents):
            for block in blocks(document.text):
                if is_promising(block):
                    origins.append(number)
                    yield block

    for at, (block, doc) in enumerate(parsed(every_block())):
        names = Names(block, doc)
        for sentence in sentences(doc):
            place = block.place(sentence.start_char, sentence.end_char)
            for triple in relations(names, sentence):
                yield Asserted(origins[at], place, triple)


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
