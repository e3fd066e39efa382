"""Asking a chat model about windows: each answer is kept before the next is waited for, none is asked twice.

Within a budget of tokens and a quota of questions, and as many at once as the server takes. What cannot be
asked waits; what fails gets a dead letter. Nothing here raises for a window or for a server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction import tier_c
from taboot_pipelines.inference.chat.protocol import ChatModel, ChatRequest, ChatResult
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog.catalog import Catalog

#: What is wrong with a window, or with what the model makes of it, and not with the server.
OF_WINDOW = frozenset({"E_LLM_MALFORMED", "E_SCHEMA_INVALID", "E_LLM_TIMEOUT", "E_TOKEN_LIMIT", "E_ENCODING"})
#: After so many failures of the server, with no answer between them, it is left alone.
_SERVER_FAILURES = 3
#: What chat templates add to each message, about.
_MESSAGE_TOKENS = 5


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """A window to be asked about. ``attempt``: how often it failed before. ``tokens``: of the question."""

    key: str
    window: tier_c.Window
    tokens: int
    attempt: int = 0


@dataclass
class RequestAccount:
    """What a run asked, and what it had: windows of the units that were read, by what became of them.

    ``input_tokens`` and ``output_tokens`` are what the server counted (or, where it counts nothing, what we
    count), ``cached_tokens`` what the questions would have had that were answered before.
    """

    windows: int = 0
    cached: int = 0
    asked: int = 0
    failed: int = 0
    waiting: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    turned: int = 0
    #: Facts that are read and not served, since the model is not measured to be right so often.
    candidates: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    #: Why no more is asked in this run: the budget, the quota, or the server.
    stopped: TabootError | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Everything by name; refused triples as ``refused_{reason}``."""
        names = ("windows", "cached", "asked", "waiting", "input_tokens", "output_tokens", "cached_tokens")
        found = {name: getattr(self, name) for name in (*names, "turned")}
        if self.candidates:
            found["candidates"] = self.candidates
        return {**found, **{f"refused_{reason}": n for reason, n in sorted(self.refused.items())}}


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """How a run asks: ``at_once`` requests of ``together`` questions each, each answer of at most
    ``answer_tokens``; ``budget`` in tokens and ``questions`` a month, None for no limit."""

    ontology: tier_c.Ontology
    model: str
    counter: tier_c.TokenCounter
    at_once: int = 8
    together: int = 1
    answer_tokens: int = 2048
    budget: int | None = None
    questions: int | None = None
    #: How often the model was measured to be right, by relation.
    precision: Mapping[str, float] = field(default_factory=dict)
    #: Facts of a relation in which it is right more seldom are candidates, and not served.
    min_precision: float = 0.0

    def serves(self, relation: str) -> bool:
        """Whether the model's facts of a relation are served."""
        return self.precision.get(relation, 0.0) >= self.min_precision

    @property
    def served(self) -> Sequence[str]:
        """The relations that were measured and are served, sorted."""
        return sorted(filter(self.serves, self.precision))


def question_tokens(asking: RequestSettings, window: tier_c.Window) -> int:
    """Return how many tokens the question about a window is, all messages together."""
    messages = tier_c.question(asking.ontology, window).messages
    return sum(asking.counter.count(m.content) + _MESSAGE_TOKENS for m in messages)


class WindowRequester:
    """Asks for one run of a source."""

    def __init__(
        self,
        catalog: Catalog,
        namespace: str,
        chat: ChatModel,
        asking: RequestSettings,
        failed: Callable[[WindowRequest, TabootError], None],
        progress: Callable[[int, int], None],
    ) -> None:
        """``failed`` is told each window that failed by its own fault; ``progress`` (done, to do)."""
        self.account = RequestAccount()
        self.asking = asking
        self.namespace = namespace
        self._catalog = catalog
        self._chat = chat
        self._failed = failed
        self._progress = progress
        self._reserved = 0
        self._left = catalog.quotas.of(namespace, asking.questions).left
        #: Failures of the server that no answer has followed: they may yet be the windows' own.
        self._suspects: list[tuple[WindowRequest, TabootError]] = []

    def known(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return {key: answer} of the windows that were answered before."""
        found = self._catalog.answers.known(self.namespace, keys)
        return {key: kept.value for key, kept in found.items()}

    def ask(self, questions: Sequence[WindowRequest]) -> dict[str, Any]:
        """Return {key: answer} of those that were answered; the same window is asked about once.

        Each answer is committed as soon as it is there. A kill loses those that are on their way.
        """
        distinct = {question.key: question for question in questions}
        waiting = iter(distinct.values())
        answers: dict[str, Any] = {}
        running: dict[Future[list[ChatResult]], list[WindowRequest]] = {}
        done = 0
        pool = ThreadPoolExecutor(self.asking.at_once, "tier-c")
        try:
            while True:
                while len(running) < self.asking.at_once and (batch := list(self._next(waiting))):
                    self._catalog.quotas.count(self.namespace, len(batch))
                    requests = [self._request(question) for question in batch]
                    running[pool.submit(self._chat.complete, requests)] = batch
                if not running:
                    break
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    batch = running.pop(future)
                    answers |= self._settle(batch, future.result())
                    done += len(batch)
                self._progress(done, len(distinct))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        self.account.waiting += len(distinct) - done
        return answers

    def end(self) -> TabootError | None:
        """Return why not everything was asked, if so.

        A few windows at which a server failed that answered others are told as failed; where it answered
        nothing, or went on failing, they wait.
        """
        suspects, self._suspects = self._suspects, []
        if self.account.stopped is None and self.account.asked > len(suspects):
            for question, error in suspects:
                self._tell(question, error)
        elif suspects:
            self.account.waiting += len(suspects)
            self.account.stopped = self.account.stopped or suspects[0][1]
        return self.account.stopped

    @property
    def trouble(self) -> TabootError | None:
        """Why windows wait, as far as that is known: what stopped the run, or how the server failed last."""
        return self.account.stopped or (self._suspects[-1][1] if self._suspects else None)

    def _next(self, waiting: Iterator[WindowRequest]) -> Iterator[WindowRequest]:
        """Take the next questions that budget and quota allow; none once something stops the run."""
        for question in islice(waiting, self.asking.together):
            if self.account.stopped is None:
                self.account.stopped = self._exhausted(question)
            if self.account.stopped is not None:
                return
            self._reserved += self._need(question)
            if self._left is not None:
                self._left -= 1
            yield question

    def _need(self, question: WindowRequest) -> int:
        return question.tokens + self.asking.answer_tokens

    def _exhausted(self, question: WindowRequest) -> TabootError | None:
        budget, account = self.asking.budget, self.account
        spent = account.input_tokens + account.output_tokens
        if budget is not None and spent + self._reserved + self._need(question) > budget:
            return TabootError(
                "E_QUOTA",
                f"The budget of {budget:,} tokens a run is used up.",
                remedy="The rest waits for the next run; raise TABOOT_EXTRACTION__BUDGET_TOKENS to go on.",
            )
        if self._left is not None and self._left <= 0:
            return TabootError(
                "E_QUOTA",
                f"Namespace {self.namespace} has asked as many questions this month as it may.",
                remedy="The rest waits for the next month; raise TABOOT_EXTRACTION__QUESTIONS_PER_MONTH.",
            )
        return None

    def _request(self, question: WindowRequest) -> ChatRequest:
        return tier_c.question(
            self.asking.ontology,
            question.window,
            attempt=question.attempt,
            most=self.asking.answer_tokens,
        )

    def _settle(self, batch: Sequence[WindowRequest], results: Sequence[ChatResult]) -> dict[str, Any]:
        """Keep the answers of a request, and tell what failed."""
        answers: dict[str, Any] = {}
        rows: list[Mapping[str, Any]] = []
        for question, result in zip(batch, results, strict=True):
            self._reserved -= self._need(question)
            self.account.asked += 1
            used = result.usage
            told = used.prompt_tokens or (question.tokens if result.attempts else 0)
            self.account.input_tokens += told
            self.account.output_tokens += used.completion_tokens
            if result.error is None:
                answers[question.key] = result.value
                rows.append(self._row(question, result, told))
                self._suspects, blamed = [], self._suspects
                for suspect, error in blamed:
                    self._tell(suspect, error)
            elif result.error.code in OF_WINDOW or result.attempts:
                self._tell(question, result.error)
            else:
                self._suspects.append((question, result.error))
                if len(self._suspects) >= _SERVER_FAILURES or result.error.code != "E_LLM":
                    self.account.stopped = self.account.stopped or result.error
        if rows:
            self._catalog.answers.keep(self.namespace, rows)
        return answers

    def _row(self, question: WindowRequest, result: ChatResult, input_tokens: int) -> Mapping[str, Any]:
        return {
            "key": question.key,
            "model": self.asking.model,
            "prompt_version": tier_c.PROMPT_VERSION,
            "schema_version": self.asking.ontology.version,
            "answer": canonical_json(result.value),
            "input_tokens": input_tokens,
            "output_tokens": result.usage.completion_tokens,
        }

    def _tell(self, question: WindowRequest, error: TabootError) -> None:
        self.account.failed += 1
        self._failed(question, error)
