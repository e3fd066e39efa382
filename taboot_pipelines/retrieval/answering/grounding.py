"""Grounding: which sentences of a model rest on the numbered passages that they cite.

:func:`checked` lets a sentence through only if it cites passages that exist and they hold what it says: its
numbers, its names, what it quotes, and most of its other words. What does not hold is dropped whole, never
mended. Documents are data: passages that speak to a model are no evidence, and neither is a sentence that
orders its reader to say something. Whatever a document makes the model say must pass the same check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.sentences import split_sentences
from taboot_pipelines.shards.analyzer import STOP_WORDS

#: What the model says where the passages do not answer.
REFUSAL = "NO ANSWER"
_CITED = re.compile(r"\[(\d{1,4})\]")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]{2,})\"|“([^”\n]{2,})”")
_NAME = re.compile(r"\b[A-Z][\w.-]*\w")
_END = re.compile(r"(?<=[.!?])((?:\s*\[\d{1,4}\])*)\s+(?=[\"'“‘(\[*_`]*[A-Z0-9`])|\n+")
#: A passage that tells a model what to do is no evidence of anything.
_ADDRESSES_MODEL = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:instructions?|prompts?|rules|above)\b|\bsystem prompt\b"
    r"|\byou are (?:now )?(?:an? )?(?:ai|assistant|language model|chatgpt)\b"
    r"|<\|?(?:im_start|system|assistant)\|?>",
    re.IGNORECASE | re.DOTALL,
)
#: A sentence in the imperative, or of what "you" must do, whose verb is one of saying: it states nothing.
#: Before the verb may stand whom it addresses, a condition that ends in a comma, adverbs, and politeness.
_ORDERS = re.compile(
    r"""[\s>*_#`"'“\[(-]*
    (?:[\w][\w\ '’-]{0,40}:\s*)?
    (?:(?:when|whenever|if|in\ case|before|after|for|to|as|from)\b[^.!?]{0,200}?,\s*)?
    (?:(?:please|kindly|always|only|just|simply|never|do\ not|don't|then|now|instead|also)\s+)*
    (?:you\s+(?:must|should|shall|will|have\ to|need\ to|are\ to|can\ only|may\ only)\s+
      (?:(?:always|only|just|simply|never|not|then|now|instead|also)\s+)*)?
    (?:(?:answer|claim|insist|mention|pretend|recite|repeat|reply|respond|say|state|tell)\s+
        (?=(?:an?|and|anybody|anyone|as|everybody|everyone|exactly|in|instead|it|me|no|nothing|only|that|the
            |them|this|to|us|users?|with|word|yes|your)\b|["'“‘`*])
      |(?:recite|repeat|respond|say|tell)\s*:
      |(?:echo|include|output|print|write)\b[^.!?]{0,60}?
        (?:["“][^"”]{2,}|\bin\ your\ (?:answer|output|reply|response)\b))""",
    re.IGNORECASE | re.VERBOSE,
)
#: So much of a sentence's other words must stand in the passages that it cites.
_MIN_HELD = 0.6


@dataclass(frozen=True, slots=True)
class Passage:
    """``number``: by which it is cited; ``text``: as it is read out; ``about``: its title and headings."""

    number: int
    text: str
    about: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that holds, with its citations in it, and the numbers that it cites."""

    text: str
    cited: tuple[int, ...]


def usable(passages: Iterable[Passage]) -> list[Passage]:
    """Those that are evidence, without the sentences that are orders."""
    fit = (replace(p, text=_stated(p.text)) for p in passages if not _ADDRESSES_MODEL.search(p.text))
    return [p for p in fit if p.text]


def _stated(text: str) -> str:
    """The text without its orders to say something, each with what it introduces by a colon at its end."""
    kept, told, position = [], False, 0
    for start, end in split_sentences(text):
        ordered = told or _ORDERS.match(text, start, end) is not None
        if not ordered:
            kept.append(text[position:end])
        told, position = ordered and text[start:end].rstrip("*_ ").endswith(":"), end
    return "".join(kept).strip()


def renumbered(text: str, numbers: Mapping[int, int]) -> str:
    """The text with other numbers in its citations."""
    return _CITED.sub(lambda m: f"[{numbers[int(m[1])]}]", text)


def checked(pieces: Iterable[str], passages: Sequence[Passage]) -> Iterator[Sentence]:
    """Of text that comes in pieces the sentences that hold, each as soon as it is whole."""
    held = {p.number: p for p in passages}
    for text in _whole(pieces):
        if text.strip().strip("*`\"'. ").upper().startswith(REFUSAL):
            return
        sentence = hold(text, held)
        if sentence is not None:
            yield sentence


def _whole(pieces: Iterable[str]) -> Iterator[str]:
    """Sentences, with the citations that stand behind them."""
    waiting = ""
    for piece in pieces:
        waiting += piece
        while m := _END.search(waiting):
            yield waiting[: m.end(1) if m[1] is not None else m.start()]
            waiting = waiting[m.end() :]
    yield waiting


def hold(text: str, passages: Mapping[int, Passage]) -> Sentence | None:
    """The sentence, if what it cites holds what it says; else None."""
    shown = " ".join(text.split())
    cited = tuple(dict.fromkeys(int(n) for n in _CITED.findall(shown)))
    said = _CITED.sub(" ", shown).strip()
    if not cited or not said or any(n not in passages for n in cited):
        return None
    source = " \n ".join(f"{passages[n].about} {passages[n].text}" for n in cited)
    folded, flat = words.fold(source), " ".join(source.casefold().split())
    runs = set(words.runs(folded))
    runs |= {part for run in runs for part in words.parts(run)}
    for quoted in _QUOTED.finditer(said):
        part = next(g for g in quoted.groups() if g is not None)
        if " ".join(part.casefold().split()) not in flat:
            return None
    own = words.runs(words.fold(said))
    if any(run not in runs for run in own if any(c.isdigit() for c in run)):
        return None
    start = split_sentences(said)[0][0] if split_sentences(said) else 0
    for name in _NAME.finditer(said):
        run = words.fold(name[0])
        if name.start() == start and run in STOP_WORDS:
            continue
        if not all(part in runs for part in words.parts(run)) and not (
            name.start() == start and words.stem(run) in words.forms(source)
        ):
            return None
    telling = [w for run in own for w in words.parts(run) if w not in STOP_WORDS]
    forms = words.forms(source)
    kept = sum(words.stem(w) in forms or words.group(words.stem(w)) in forms for w in telling)
    if not telling or kept < _MIN_HELD * len(telling):
        return None
    return Sentence(shown, cited)
