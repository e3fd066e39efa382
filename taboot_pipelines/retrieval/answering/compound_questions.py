"""Questions that ask two things at once, taken apart: each part is a question that can be asked by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from taboot_pipelines.retrieval.results.answers import Answer, Citation

#: Parts of one question that are answered.
MAX_PARTS = 4

_AUXILIARY = (
    r"(?:is|are|was|were|do|does|did|has|have|had|can|could|may|must|should|shall|will|would|might|'s|'re)"
)
_PLACED = r"(?:(?:on|in|at|to|from|by|under|for|with|through|since|behind|of) )?"
#: What begins a question of its own: an asking word with a verb near it, or with nothing but a noun.
_ASKS = (
    rf"{_PLACED}(?:which|what|whose|how (?:many|much|long|often|big|large|old)) (?:[\w.-]+ ){{0,4}}?"
    rf"{_AUXILIARY}\b"
    rf"|(?:what|who|where|when|how)['’]?(?: ?(?:is|s)| {_AUXILIARY})\b"
    r"|why\b|how (?:to|come)\b|how (?:many|much|long|often)\b"
    rf"|{_PLACED}(?:which|what|whose) [\w-]+(?: [\w-]+)?\s*[?.!]*$"
    rf"|{_AUXILIARY} (?:it|they|that|this|there)\b"
)
_CUT = re.compile(
    r"\?+\s+(?!i\.e|e\.g|that is|in other)(?:and |also |but )*(?=\w)"
    rf"|,?;?\s+(?:and|plus|but)(?: also)?,?\s+(?={_ASKS})|;\s+(?={_ASKS})",
    re.IGNORECASE,
)
_BEGINS = re.compile(
    rf"(?:please |so |hey |tell me |and |ok |hi )*(?:{_PLACED}(?:which|what|whose|who|where|when|why|how)\b"
    rf"|what['’]?s|{_AUXILIARY}\b|list\b|show\b|name\b)",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(r"\b(?:its|their)\b", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:it|they|them)\b(?!['’])", re.IGNORECASE)
#: The thing that a question without a known name is about.
_ABOUT = re.compile(
    r"\b(?:does|do|did|is|are|was|were|has|have|of|for) ((?:the |our |an? |my )?[\w./:-]*\w)", re.IGNORECASE
)
#: Where a sentence ends that is no question; abbreviations end none.
_SENTENCE_END = re.compile(r"(?<=[.!])(?<!i\.e\.)(?<!e\.g\.)\s+", re.IGNORECASE)
_MIN_WORDS = 3
#: Where a phrase ends that names a property.
_STOPS = frozenset(
    [
        *("which", "what", "whats", "what's", "the", "a", "an", "of", "for", "in", "on", "does", "do", "is"),
        *("are", "has", "have", "did", "and", "s", "my", "our", "its"),
    ]
)
_WORD = re.compile(r"[^\s?!,;]+")


class Named(NamedTuple):
    """A name in a question, ``[start, end)`` of its text."""

    start: int
    end: int
    text: str


def cut(text: str) -> list[str]:
    """The questions that a text asks one after the other, as they are written; the text alone if it is one
    question."""
    found: list[str] = []
    begun = 0
    for m in _CUT.finditer(text):
        part = text[begun : m.start()]
        if len(part.split()) >= _MIN_WORDS and _BEGINS.match(part.strip()) and len(found) < MAX_PARTS - 1:
            found.append(part.strip())
            begun = m.end()
    rest = text[begun:].strip()
    if found and rest:
        return [*found, rest]
    return [text]


def asks(part: str) -> bool:
    """Whether what stands behind a question asks something too, and is no remark."""
    return part.endswith("?") or _BEGINS.match(part) is not None


def without_preface(text: str, named: Callable[[str], Sequence[Named]]) -> str:
    """What a text asks, without the sentences before it that say why; what stands there for a thing that they
    name is replaced by its name. The text as it is where the question alone means nothing known. ``named``:
    the names in a text.
    """
    sentences = _SENTENCE_END.split(text.strip())
    at = next((n for n, sentence in enumerate(sentences) if asks(sentence)), 0)
    preface, question = " ".join(sentences[:at]), " ".join(sentences[at:])
    if not preface or named(question):
        return question
    names = named(preface)
    if names and (_PRONOUN.search(question) or _POSSESSIVE.search(question)):
        return whole(question, preface, names, ())
    return text


def whole(part: str, first: str, names: Sequence[Named], own: Sequence[Named]) -> str:
    """A later part of a question so that it can be asked alone: what stands for the thing that the first
    part is about is replaced by it. ``names``: those in the first part; ``own``: those in this one.
    """
    about = _ABOUT.findall(first)
    subject = names[0].text if names else about[-1] if about else ""
    if not subject:
        return part
    said = _POSSESSIVE.sub(lambda _: f"{subject}'s", part)
    said = _PRONOUN.sub(lambda _: subject, said)
    if said == part and names and not own:
        said = f"{part.rstrip(' ?.!')} of {subject}?"
    return said


def points_back(text: str) -> bool:
    """Whether a text has a pronoun or possessive that stands for a thing named before."""
    return bool(_POSSESSIVE.search(text) or _PRONOUN.search(text))


def properties(text: str, names: Sequence[Named]) -> list[str]:
    """``restart policy and memory limit of x`` as the question for each; empty if no two properties of one
    thing are joined."""
    spans = [(m.start(), m.end(), m[0].lower()) for m in _WORD.finditer(text)]
    inside = [any(a < n.end and b > n.start for n in names) for a, b, _ in spans]
    for k, (_, _, word) in enumerate(spans):
        if word != "and" or not 0 < k < len(spans) - 1 or inside[k - 1] or inside[k + 1] or not names:
            continue
        left = k
        while left > 0 and not inside[left - 1] and spans[left - 1][2] not in _STOPS:
            left -= 1
        right = k + 1
        later = any(inside[k + 1 :])
        while right < len(spans) and not inside[right]:
            if later and spans[right][2] in _STOPS and right > k + 1:
                break
            right += 1
        if left == k or right == k + 1:
            continue
        first = [t for t in (text[: spans[k][0]].rstrip(), text[spans[right - 1][1] :].lstrip()) if t]
        second = [t for t in (text[: spans[left][0]].rstrip(), text[spans[k + 1][0] :]) if t]
        return [" ".join(first), " ".join(second)]
    return []


# --- One answer out of those to the parts of a question

_CITED = re.compile(r"\[(\d+)\](?=(?:\[\d+\])*(?:\s|$))")


def join_answers(question: str, answers: Sequence[Answer]) -> Answer:
    """One answer out of those to the parts of a question. Of a part without one it says so, and then the
    question as a whole has none: its confidence is that of the weakest part."""
    texts: list[str] = []
    citations: list[Citation] = []
    for answer in answers:
        before = len(citations)
        citations += [c.model_copy(update={"number": c.number + before}) for c in answer.citations]
        if answer.found:
            texts.append(_renumbered(answer.text, before))
        else:
            texts.append(f"Not answered: {answer.question} {answer.text}")
    answered = [a for a in answers if a.found]
    return Answer(
        question=question,
        found=len(answered) == len(answers),
        text=" ".join(texts),
        citations=tuple(citations),
        confidence=min((a.confidence for a in answers), default=0.0),
        kind=_kind(answered) if len(answered) == len(answers) else "none",
        looked_for="; ".join(a.looked_for for a in answers if a.looked_for),
    )


def _renumbered(text: str, more: int) -> str:
    return _CITED.sub(lambda m: f"[{int(m[1]) + more}]", text)


def _kind(answers: Sequence[Answer]) -> Literal["facts", "text", "none"]:
    if not answers:
        return "none"
    return "facts" if all(a.kind == "facts" for a in answers) else "text"
