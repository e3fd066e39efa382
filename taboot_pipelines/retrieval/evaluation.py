"""How well a knowledge base answers questions of people who know the answers: ``KnowledgeBase.evaluate``.

A file of questions has one JSON object a line: ``question``; ``kind``, any word by which results are counted,
``none`` for what the house does not say; ``must``, regular expressions (case ignored) that a right answer
matches; ``evidence``, the ends of paths or URLs of which a right answer cites one; ``id``. Without ``must``
any text is right, without ``evidence`` any citation. What else the object holds is not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.results.answers import Answer
from taboot_pipelines.retrieval.results.evaluations import Evaluation, Feedback, Judged
from taboot_pipelines.stores.catalog.feedback import Opinion

#: The kind of a question that nothing answers.
NONE = "none"
#: What PostgreSQL keeps in an index.
_MAX_QUESTION = 2000
VERDICTS = ("right", "wrong", NONE)
_MARK = re.compile(r"\s*\[\d+(?:\s*[,;]\s*\d+)*\]")


class LabelledQuestion(BaseModel):
    """A question and what a right answer to it says and cites."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    question: str
    id: str = ""
    kind: str = ""
    must: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()

    @field_validator("must")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern, re.IGNORECASE)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return patterns


def read_questions(given: Path | str | Iterable[Mapping[str, Any]]) -> list[LabelledQuestion]:
    """The questions of a file, or of objects with the same fields.

    Raises ``E_PATH`` for a file that is not there, ``E_ENCODING`` for one that is not UTF-8, ``E_PARSE`` with
    the number of the line for what is no question.
    """
    found = []
    for number, row in enumerate(_rows(given) if isinstance(given, Path | str) else given, 1):
        try:
            found.append(LabelledQuestion.model_validate(json.loads(row) if isinstance(row, str) else row))
        except (ValidationError, ValueError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else None
            why = str(error) if first is None else f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise TabootError(
                "E_PARSE",
                f"Question {number} cannot be read: {why}",
                remedy="Write one JSON object a line, with `question`, `kind`, `must` and `evidence`.",
                question=number,
            ) from None
    return found


def opinion(
    question: str,
    verdict: str,
    must: Sequence[str],
    note: str,
    who: str | None,
    answer: Callable[[str], Answer],
) -> Opinion:
    """What somebody thinks of an answer, checked, as it is kept. Raises ``E_QUERY``, ``E_NOT_FOUND``."""
    from taboot_pipelines.retrieval.decisions import about

    if verdict not in VERDICTS:
        raise TabootError("E_QUERY", f"verdict must be one of {', '.join(VERDICTS)}.")
    if must and verdict == NONE:
        raise TabootError("E_QUERY", "must says what an answer says, and nothing is one.")
    try:
        LabelledQuestion(question=question, must=tuple(must))
    except ValidationError as error:
        raise TabootError("E_QUERY", error.errors()[0]["msg"]) from None
    if not question.strip() or len(question.encode()) > _MAX_QUESTION:
        raise TabootError("E_QUERY", f"A question that is kept has 1 to {_MAX_QUESTION} bytes.")
    said, by = about(note, who)
    cited: tuple[str, ...] = ()
    if verdict == "right":
        found = answer(question)
        if not found.found:
            raise TabootError("E_NOT_FOUND", "There is no answer to this question that could be right.")
        cited = tuple(sorted({c.doc_id for c in found.citations}))
    return Opinion(question, verdict, tuple(must), cited, said, by, 0)


def of_feedback(kept: Iterable[Feedback], places: Mapping[str, str]) -> list[dict[str, Any]]:
    """The opinions that say what is right, as questions: by an expression, or by documents that are there.
    ``places``: the URL of each document."""
    found = []
    for item in kept:
        evidence = [places[d] for d in item.doc_ids if d in places]
        if item.verdict == NONE or item.must or evidence:
            found.append(
                {
                    "question": item.question,
                    "kind": NONE if item.verdict == NONE else "feedback",
                    "must": item.must,
                    "evidence": evidence,
                }
            )
    return found


def _rows(file: Path | str) -> list[str]:
    try:
        return [line for line in Path(file).read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise TabootError("E_ENCODING", f"{file} is not UTF-8.", file=str(file)) from None
    except OSError as error:
        raise TabootError(
            "E_PATH", f"{file} cannot be read: {error.strerror}.", remedy="Name a file.", file=str(file)
        ) from error


def evaluate(questions: Iterable[LabelledQuestion], answer: Callable[[str], Answer]) -> Evaluation:
    """Ask every question, and judge what ``answer`` says. Raises what it does."""
    return Evaluation(rows=tuple(_judged(question, answer(question.question)) for question in questions))


def _judged(question: LabelledQuestion, answer: Answer) -> Judged:
    urls = [unquote(c.url) for c in answer.citations]
    text = _MARK.sub("", answer.text)
    missing = tuple(p for p in question.must if not re.search(p, text, re.IGNORECASE))
    leads = any(url == e or url.endswith(f"/{e}") for url in urls for e in question.evidence)
    if not answer.found:
        right = question.kind == NONE
    else:
        right = question.kind != NONE and not missing and (leads or not question.evidence)
    return Judged(
        id=question.id,
        kind=question.kind,
        question=question.question,
        found=answer.found,
        right=right,
        confidence=answer.confidence,
        certainty=answer.certainty,
        text=answer.text,
        missing=missing if answer.found else (),
        cited=tuple(urls),
    )
