"""A conversation: each question may lean on those before it, and is asked as the full question that it means.

What a follow-up leaves out is told by its form alone: a pronoun or a possessive stands for the thing that was
asked about last; a question of a few words that only names another thing ("and redis?", "what about redis?")
is the last question about that thing; one that names nothing is asked about the last thing and as it is, what
is too short for a question in this order, any other in the opposite one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from taboot_pipelines.retrieval.answering.compound_questions import Named, points_back, whole
from taboot_pipelines.retrieval.results.answers import Answer

#: Words of a follow-up that only names another thing, beside the name, and of one that is no question.
_MAX_BESIDE = 3
_LEADS = re.compile(r"(?:and|or|but|what about|how about|what of|the same for|and for)\b", re.IGNORECASE)
_WORD = re.compile(r"[\w.-]+")


class Conversation:
    """Questions one after the other. ``answers``: the answers so far, each with the full question that was
    asked; not to be shared by threads."""

    def __init__(self, ask: Callable[[str], Answer], names: Callable[[str], Sequence[Named]]) -> None:
        self._ask = ask
        self._names = names
        self.answers: list[Answer] = []
        #: The last question and what it named.
        self._last = ""
        self._named: Sequence[Named] = ()

    def ask(self, question: str) -> Answer:
        """What answers a question, as :meth:`KnowledgeBase.answer`; ``question`` of the answer is the full
        one that was asked. Raises what that does; a question that fails is forgotten."""
        first, *others = self._meant(question)
        full, answer = first, self._ask(first)
        for other in others:
            if not answer.found and (told := self._ask(other)).found:
                full, answer = other, told
        self.answers.append(answer)
        self._last, self._named = full, self._names(full) or self._named
        return answer

    def _meant(self, question: str) -> list[str]:
        """The full questions that a question may mean, the likeliest first."""
        said = " ".join(question.split())
        if not said or not self._last or not self._named:
            return [question]
        own = self._names(said)
        full = whole(said, self._last, self._named, own)
        if points_back(said):
            return [full]
        if own:
            return [self._of_another(said, own) or question]
        short = len(_WORD.findall(said)) <= _MAX_BESIDE
        return [full, question] if short else [question, full]

    def _of_another(self, said: str, own: Sequence[Named]) -> str:
        """The last question about the thing that this one only names; empty if this one asks something."""
        last = self._names(self._last)
        beside = len(_WORD.findall(said)) - sum(len(_WORD.findall(n.text)) for n in own)
        if len(own) != 1 or not last or beside > _MAX_BESIDE or not (_LEADS.match(said) or not beside):
            return ""
        about = last[0]
        return f"{self._last[: about.start]}{own[0].text}{self._last[about.end :]}"
