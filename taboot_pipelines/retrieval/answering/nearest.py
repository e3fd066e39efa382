"""The value of configuration that is nearest in meaning to a question, for one that shares no words with it:
how often a library is rescanned is said by a key ``SCANSCHEDULE``.

Looked at are the values of what the question names. A property that has a name of its own in the table of
properties, and that is not set there, is not set: then nothing else is near.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.answering.answer_types import Value
from taboot_pipelines.retrieval.answering.citations import Found, StatementSpan
from taboot_pipelines.retrieval.answering.config_files import ConfigEntry
from taboot_pipelines.retrieval.answering.config_values import (
    is_secret,
    key_words,
    phrase_of,
    shown,
    suits,
    thing_of,
    value_statement,
)
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.vocabulary import PROPERTIES
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.session import View

#: How near each of several texts is to a question: cosines, shape (texts,).
Near = Callable[[str, Sequence[str]], npt.NDArray[np.float32]]

#: The least cosine of an answer, and what the next best must stay behind by.
MIN_NEAR, _MARGIN = 0.6, 0.02
#: The least of one that stands out among the others, by so much.
_MIN_ALONE, _STANDS_OUT = 0.5, 0.15
#: The least of one that the words of its key point at too.
_MIN_AGREED = 0.4
#: Values of one question that are compared.
_MAX_COMPARED = 48
#: What edges say, and say better.
_EDGES = frozenset({"image", "ports", "expose", "networks", "depends_on", "build", "links", "extends"})
#: What no value of configuration answers.
_OTHERS = frozenset({Value.REASON, Value.STEPS, Value.MEANING, Value.DATE, Value.PERSON, Value.SECRET})
#: Keys of how long something lasts, which is not how often it is done.
_LASTS = re.compile(r"retention|keep|ttl|max_?age|timeout|expir", re.IGNORECASE)
_SWITCH = re.compile(r"true|false|yes|no|on|off|enabled?|disabled?|0|1", re.IGNORECASE)


def nearest_value(
    question: Question, values: Sequence[ConfigEntry], near: Near, guessed: Collection[StatementSpan] = ()
) -> tuple[float, Found] | None:
    """The value that is nearest, and how near; None if none is near enough, or two are alike. ``guessed``:
    the places of what the words of keys point at: less is enough where both agree."""
    if question.reading.value in _OTHERS or question.reading.lists_services or question.reading.negated:
        return None
    held = {text_of(p): p for p in values if _may_answer(question, p)}
    texts = list(held)[:_MAX_COMPARED]
    if not texts or not _set(question, values):
        return None
    cosines = near(question.linked.text, texts)
    order = np.argsort(-cosines, kind="stable")
    best = float(cosines[order[0]])
    chosen = [held[texts[i]] for i in order if cosines[i] >= best - _MARGIN]
    rest = [float(c) for c in cosines if c < best - _MARGIN]
    stands_out = bool(rest) and best - max(rest) >= _STANDS_OUT
    enough = _MIN_ALONE if stands_out else MIN_NEAR
    enough = _MIN_AGREED if chosen[0].cite in guessed else enough
    if best < enough or len({p.value.path[:-1] for p in chosen}) > 1:
        return None
    return best, Found([value_statement(chosen)], looked_for="its configuration")


def text_of(placed: ConfigEntry) -> str:
    """A value in words: what it belongs to, how it is called, the words of its key, the value."""
    words = " ".join(re.sub(r"[\W_]+", " ", k) for k in placed.value.path[placed.lead :]).lower()
    called = phrase_of(placed)[1].removeprefix("~")
    return f"{thing_of(placed)} {called} {words.strip()}: {shown(placed)}"


def _may_answer(question: Question, placed: ConfigEntry) -> bool:
    own = placed.value.path[placed.lead :]
    if not own or own[0] in _EDGES or is_secret(placed.value) or not key_words(own):
        return False
    if question.reading.value is Value.FREQUENCY and _LASTS.search(placed.value.path[-1]):
        return False
    if question.yes_no and not _SWITCH.fullmatch(placed.value.value.strip()):
        return False
    return suits(question, placed.value.value)


def _set(question: Question, values: Sequence[ConfigEntry]) -> bool:
    """Whether the property that is asked for by its name is set, or none is."""
    for pattern, keys, _ in PROPERTIES:
        if any(k != k.lower() for k in keys) or not question.words_matching(pattern) - question.named:
            continue
        if not any(p.ends_in(k) for p in values for k in keys):
            return False
    return True


# --- How near texts are in meaning to a question, by the embedder of a view

#: Texts whose vectors are kept.
_MAX_VECTORS = 20_000


class Nearness:
    """``query_vectors``: what embeds; None: nothing is compared. Safe to use from several threads."""

    def __init__(self, query_vectors: QueryVectors | None) -> None:
        self._query_vectors = query_vectors
        self._vectors: dict[tuple[str, str], npt.NDArray[np.float32]] = {}

    def of(self, view: View) -> Near | None:
        """How near texts are to a question, by the embedder of the view; None without one."""
        vectors = self._query_vectors
        if vectors is None:
            return None

        def near(question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            space = view.manifest.space.space().id
            held = self._vectors if len(self._vectors) < _MAX_VECTORS else {}
            new = [t for t in dict.fromkeys(texts) if (space, t) not in held]
            if new:
                made = zip(new, vectors.passages(view, new), strict=True)
                held = self._vectors = {**held, **{(space, t): v for t, v in made}}
            asked = vectors.vector(view, question)
            return np.array([held[space, t] @ asked for t in texts], dtype=np.float32)

        return near
