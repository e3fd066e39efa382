"""One answer out of those to the parts of a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from taboot_pipelines.retrieval.results.answers import Answer, Citation

_CITED = re.compile(r"\[(\d+)\](?=(?:\[\d+\])*(?:\s|$))")


def join_answers(question: str, answers: Sequence[Answer]) -> Answer:
    """One answer out of those to the parts of a question; of a part without one it says so."""
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
        found=bool(answered),
        text=" ".join(texts),
        citations=tuple(citations),
        confidence=min((a.confidence for a in answered), default=0.0),
        kind=_kind(answered),
        looked_for="; ".join(a.looked_for for a in answers if a.looked_for),
    )


def _renumbered(text: str, more: int) -> str:
    return _CITED.sub(lambda m: f"[{int(m[1]) + more}]", text)


def _kind(answers: Sequence[Answer]) -> Literal["facts", "text", "none"]:
    if not answers:
        return "none"
    return "facts" if all(a.kind == "facts" for a in answers) else "text"
