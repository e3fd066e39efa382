"""What an alert leads to: the document to read first, the thing meant, what hangs on it, what changed."""

from __future__ import annotations

from typing import Literal

from taboot_pipelines.retrieval.results.base import Result
from taboot_pipelines.retrieval.results.changes import DocumentChange, FactChange
from taboot_pipelines.retrieval.results.impact import AffectedGroup

Why = Literal["link", "name", "text"]


class AlertDocument(Result):
    """A document to read. ``why``: the alert's own link leads to it (``link``), it or a section of it is
    called as the alert is (``name``), or its text fits best (``text``). ``line``, ``section`` and ``text``:
    of that section or of the passage that fits, empty otherwise."""

    doc_id: str
    title: str
    url: str
    source: str
    path: str
    why: Why
    line: int | None = None
    section: str = ""
    text: str = ""


class AlertThing(Result):
    """A node of the graph that the alert means; ``said_by``: the label that names it, or ``text``."""

    label: str
    key: str
    name: str
    scope: str | None
    said_by: str


class AlertRule(Result):
    """The rule that raises an alert, as a file of Prometheus or Loki or an operator's manifest has it: its
    expression, for how long that holds before (``held``, empty: at once), its labels and annotations."""

    doc_id: str
    url: str
    source: str
    path: str
    line: int
    expression: str
    held: str
    labels: dict[str, str]
    annotations: dict[str, str]


class AlertGuide(Result):
    """Where to begin. ``rules``: those that raise alerts of that name; ``documents``: the first to read
    first; ``things``: the most specific first; ``dependents``: what fails without the first of them, as the
    groups of ``Impact``; ``changes`` and ``facts``: of the last week, of the things and of the documents that
    state them, but for what a source's first ingest brought. ``notes``: what could not be told; ``unknown``:
    what cannot be known of what hangs on the thing."""

    alertname: str
    labels: dict[str, str]
    rules: tuple[AlertRule, ...]
    documents: tuple[AlertDocument, ...]
    things: tuple[AlertThing, ...]
    dependents: tuple[AffectedGroup, ...]
    changes: tuple[DocumentChange, ...]
    facts: tuple[FactChange, ...]
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class AlertGuides(Result):
    """One guide for each alert that fires, in their order; ``truncated``: there were more."""

    alerts: tuple[AlertGuide, ...]
    truncated: bool = False
