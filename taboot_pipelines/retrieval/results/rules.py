"""What the rules of the house found."""

from __future__ import annotations

import pyarrow as pa

from taboot_pipelines.model.rules import Severity
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import SourceLocation
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.retrieval.results.queries import RowCitation


class RuleFinding(Result):
    """A place where a rule does not hold. ``subject``: what is to be changed; ``silenced``: why it is right
    as it is, where somebody said so."""

    rule: str
    severity: Severity
    subject: str
    statement: str
    citations: tuple[RowCitation, ...]
    silenced: str = ""


class RuleDescription(Result):
    """A rule, and how many places it found. ``summary``: what holds where it is kept; ``reads``: relations of
    the graph, or ``settings``."""

    name: str
    severity: Severity
    summary: str
    remedy: str
    reads: tuple[str, ...]
    found: int
    silenced: int


class RuleReport(TableResult):
    """What the rules found, the worst first, of ``total`` that count. ``silenced``: what does not count;
    ``rules``: those that were looked at; ``notes``: what of the sources file silences nothing."""

    findings: tuple[RuleFinding, ...]
    total: int
    silenced: tuple[RuleFinding, ...]
    rules: tuple[RuleDescription, ...]
    notes: tuple[str, ...] = ()

    @property
    def truncated(self) -> bool:
        return self.total > len(self.findings)

    def worst(self) -> Severity | None:
        """The worst severity that was found."""
        return self.findings[0].severity if self.findings else None

    def to_arrow(self) -> pa.Table:
        """One row a finding with the place of its first citation, the silenced ones last."""
        columns = ("rule", "severity", "subject", "statement", "silenced")
        placed = ("url", "line", "text", "edge_id")
        schema = pa.schema([(n, pa.int32() if n == "line" else pa.string()) for n in (*columns, *placed)])
        rows = [
            {n: str(getattr(f, n)) for n in columns} | {n: getattr(f.citations[0], n) for n in placed}
            for f in (*self.findings, *self.silenced)
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows = [
            (f.severity.value, f.rule, f.subject, f.statement, SourceLocation(c.url, c.line))
            for f in self.findings
            for c in f.citations[:1]
        ]
        title = f"{self.total:,} found by {len(self.rules)} rules, {len(self.silenced):,} silenced"
        return rendering.table(title, ("severity", "rule", "what", "why", "where"), rows)
