"""tier_c_triples: what a chat model reads in the running text of documents, window by window.

Every document of running text is a unit. Answers are inputs: each is kept in the catalog as soon as it is
there, by a hash of the window, the model, the prompt and the schema, and is never asked for again. So a run
over unchanged text asks nothing, an edit asks about the windows that it changed, and a run that is killed
repeats the windows that were on their way.

A document whose windows are answered in part says what the answers say. What waits (for the budget, the quota
or the server) is asked by the next run; what failed, by the next run after its back-off. A server that does
not answer fails no run. Holds rules ``unit-of-interpretation``, ``versioned-runs``, ``support`` and
``incremental-equals-scratch``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction import tier_c
from taboot_pipelines.inference.chat.protocol import ChatModel
from taboot_pipelines.knowledge.document_units import SourceDocuments
from taboot_pipelines.knowledge.runs import Tier
from taboot_pipelines.knowledge.units import UnitExtractor
from taboot_pipelines.knowledge.window_requests import RequestSettings, WindowRequest, WindowRequester
from taboot_pipelines.knowledge.window_units import (
    TrialDeadLetters,
    TrialReader,
    TrialUnits,
    WindowCutter,
    WindowReader,
    WindowUnits,
    version_of,
)
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EdgeSource
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.documents import PARSING
from taboot_pipelines.stages.letter_retries import WindowLetters
from taboot_pipelines.stages.model_trials import measured_precision, unmeasured
from taboot_pipelines.stages.quotas import limits_of
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.tiers import InterpretedKind, TierInput
from taboot_pipelines.stages.workspace import Progress, Workspace

STAGE = "tier_c_triples"
VERSION = "1"
#: What a reinterpretation may set: another model of the server.
MODEL = "model"
TIER = Tier(
    EdgeSource.TIER_C,
    STAGE,
    "observations.tier_c",
    VERSION,
    extractor_type="llm",
    options=frozenset({MODEL}),
    counted=True,
)
#: Without it, or a model in this process, the tier says nothing.
SETTING = "TABOOT_LLM__URL"
#: Windows that a model in this process is given together; it does its own batching.
_TOGETHER = 32


def versions(_kind: InterpretedKind | None = None) -> Sequence[str]:
    """Return the versions that decide the output, whatever the model."""
    return (VERSION, tier_c.WINDOWS_VERSION, tier_c.PROMPT_VERSION, tier_c.READING_VERSION)


@dataclass
class Session:
    """A run of the tier over one source: the model, the windows that earlier runs lacked, and the account."""

    workspace: Workspace
    namespace: str
    source_id: str
    chat: ChatModel | None
    #: None if there is no model, or if the server does not tell its name.
    asking: RequestSettings | None
    letters: WindowLetters
    progress: Progress
    #: Why the server could not be asked for the model's name.
    unreachable: TabootError | None = None
    #: {doc_id: windows without an answer}, of documents that were last read without some.
    lacking: dict[str, frozenset[str]] = field(default_factory=dict)
    #: Documents that may be read again: something that they lacked is there, or may be asked for.
    due: set[str] = field(default_factory=set)
    asker: WindowRequester | None = None

    @property
    def versions(self) -> Sequence[object]:
        if self.asking is None:
            return ("none" if self.chat is None else "unreachable",)
        return (version_of(self.asking, self.workspace.settings.extraction.window_tokens),)

    @property
    def applied(self) -> Mapping[str, Any]:
        model = None if self.asking is None else self.asking.model
        return {"model": model, "server": _server(self.workspace.settings)}

    @property
    def skipped(self) -> str | None:
        return SETTING if self.chat is None else None

    def pending(self) -> bool:
        """Whether a document lacks an answer that is there by now, or that may be asked for."""
        if self.asking is None:
            return False
        lacking: dict[str, set[str]] = {}
        for window in self.workspace.catalog.answers.open_windows(self.namespace, self.source_id):
            unanswered = lacking.setdefault(window.doc_id, set())
            if window.answered:
                self.due.add(window.doc_id)
                continue
            unanswered.add(window.key)
            if self.letters.attempt(window.key) is not None:
                self.due.add(window.doc_id)
        self.lacking = {doc_id: frozenset(keys) for doc_id, keys in lacking.items() if keys}
        return bool(self.due)

    def finish(self, work: SourceWork, listing: SourceDocuments, buckets: frozenset[int] | None) -> None:
        """Drop what is no longer open, and say in the report what was asked and what waits."""
        catalog, report = self.workspace.catalog, work.report
        held = catalog.answers.open_windows(self.namespace, self.source_id)
        gone = {
            window.doc_id
            for window in held
            if (self.asking is None and self.chat is None)
            or (window.doc_id not in listing.listed and _lies_in(window.doc_id, buckets))
        }
        catalog.answers.close_windows(self.namespace, self.source_id, gone)
        stopped = self.unreachable
        if self.asker is not None:
            stopped = self.asker.end()
            report.counts |= self.asker.account.counts
            if self.asker.account.candidates:
                report.limited.append(unmeasured(self.asker.asking, self.asker.account.candidates))
        server_failed = stopped is not None and stopped.code != "E_QUOTA"
        self.letters.server(stopped if server_failed else None)
        kept = self.letters.keep({w.key for w in held if w.doc_id not in gone and not w.answered})
        for letter in kept:
            report.add("failed")
            report.problem(letter["code"], letter["item"], letter["message"])
        if stopped is not None and not server_failed:
            # No failure: the rest waits for the next run, or the next month.
            report.limited.append(
                {"code": stopped.code, "message": stopped.message, "remedy": stopped.remedy}
            )
        if self.chat is None:
            report.skipped = f"skipped: {SETTING}"


def opens(
    workspace: Workspace, namespace: str, source_id: str, last: Mapping[str, Any], progress: Progress
) -> Session:
    """Open a run over one source; the server is asked for the model's name if no setting tells it.

    ``last``: what the run before applied; it has the name to go by while the server does not answer.
    """
    letters = WindowLetters(workspace.catalog, namespace, source_id)
    session = Session(workspace, namespace, source_id, workspace.chat, None, letters, progress)
    if session.chat is None:
        return session
    try:
        model = session.chat.model
    except TabootError as error:
        session.unreachable = error
        if last.get("model") is None or last.get("server") != _server(workspace.settings):
            return session
        model = last["model"]
    limit = limits_of(workspace, namespace).questions_per_month
    session.asking = asking_of(workspace.settings, model, limit)
    return session


def asking_of(settings: Settings, model: str, questions: int | None = None) -> RequestSettings:
    """Return how the settings say that a model is to be asked, at most so many ``questions`` a month."""
    given, llm = settings.extraction, settings.llm
    in_process = llm.url is None
    return RequestSettings(
        tier_c.GRAPH,
        model,
        tier_c.token_counter(given.tokenizer),
        at_once=1 if in_process else llm.max_concurrency,
        together=_TOGETHER if in_process else 1,
        answer_tokens=llm.max_output_tokens,
        budget=given.budget_tokens,
        questions=questions,
        precision=measured_precision(settings, model),
        min_precision=given.min_precision,
    )


def trial_of(workspace: Workspace, namespace: str) -> RequestSettings:
    """Return how the configured model is asked in a trial.

    Raises ``E_QUERY`` if none is configured, ``E_LLM`` if its server does not tell which it has.
    """
    if workspace.chat is None:
        raise TabootError("E_QUERY", "No chat model is configured.", remedy=f"Set {SETTING}.")
    questions = limits_of(workspace, namespace).questions_per_month
    return asking_of(workspace.settings, workspace.chat.model, questions)


def extractors(given: TierInput) -> Sequence[UnitExtractor]:
    """Return the extractor for one source; none without a model, so that nothing is said.

    Raises ``E_QUERY`` for the name of another model that is none, or if no server is configured to have it.
    """
    session = given.session
    assert isinstance(session, Session)
    if session.chat is None or session.asking is None:
        return []
    other = given.overrides.get(MODEL)
    if other is not None and not (isinstance(other, str) and other.strip()):
        raise TabootError("E_QUERY", f"{MODEL} must be the name of a model.")
    asking = session.asking
    # Asked for by name, the configured model shows its candidates too.
    if other is None or (other == asking.model and asking.min_precision == 0):
        return [_as_configured(given, session, session.chat, asking)]
    precision = asking.precision if other == asking.model else {}
    return [_by_another(given, session, replace(asking, model=other, precision=precision, min_precision=0))]


def _as_configured(
    given: TierInput, session: Session, chat: ChatModel, asking: RequestSettings
) -> UnitExtractor:
    """Return what reads by the configured model, and by later runs what has no answer yet."""
    workspace = given.workspace
    window_tokens = workspace.settings.extraction.window_tokens
    asker = session.asker = _asker(session, chat, asking, session.letters.failed)
    reader = WindowReader(
        workspace.catalog,
        session.source_id,
        WindowCutter(given.documents, asking, window_tokens),
        asker,
        session.letters,
        version_of(asking, window_tokens),
    )
    return WindowUnits(
        reader,
        given.documents,
        workspace.blobs,
        (VERSION, PARSING),
        _config(workspace.settings, asking),
        session.due,
        session.lacking,
    )


def _by_another(given: TierInput, session: Session, asking: RequestSettings) -> UnitExtractor:
    """Return what reads by a model of the server that is named for a reinterpretation; whoever promotes it
    decides whether it is right, so all of it is shown."""
    workspace, given_up = given.workspace, TrialDeadLetters()
    assert session.chat is not None and session.asking is not None
    configured = asking.model == session.asking.model
    chat = session.chat if configured else workspace.chat_with(asking.model)
    window_tokens = workspace.settings.extraction.window_tokens
    reader = TrialReader(
        workspace.catalog,
        session.source_id,
        WindowCutter(given.documents, asking, window_tokens),
        _asker(session, chat, asking, given_up.failed),
        given_up,
        version_of(asking, window_tokens),
    )
    config = _config(workspace.settings, asking)
    return TrialUnits(reader, given.documents, workspace.blobs, (VERSION, PARSING), config)


def _asker(
    session: Session,
    chat: ChatModel,
    asking: RequestSettings,
    failed: Callable[[WindowRequest, TabootError], None],
) -> WindowRequester:
    catalog, progress = session.workspace.catalog, partial(session.progress, STAGE)
    asker = WindowRequester(catalog, session.namespace, chat, asking, failed, progress)
    if session.unreachable is not None:
        # The model's name was remembered: what is known is said, and nothing is asked.
        asker.account.stopped = session.unreachable
    return asker


def _config(settings: Settings, asking: RequestSettings) -> Mapping[str, Any]:
    """Return what is kept with each run."""
    return {
        "model": asking.model,
        "prompt_version": tier_c.PROMPT_VERSION,
        "ontology_version": asking.ontology.version,
        "window_tokens": settings.extraction.window_tokens,
        "temperature": settings.llm.temperature,
    }


def _server(settings: Settings) -> str:
    return ids.digest(settings.llm.url, settings.llm.vllm_model)


def _lies_in(doc_id: str, buckets: Collection[int] | None) -> bool:
    return buckets is None or ids.doc_bucket(doc_id) in buckets
