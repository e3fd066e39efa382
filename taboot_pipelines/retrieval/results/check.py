"""What a change to files would do, as a result."""

from __future__ import annotations

import pyarrow as pa

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import SourceLocation
from taboot_pipelines.retrieval.results.base import Result, TableResult


class ChangedFact(Result):
    """A fact that is new, gone or another. ``kind``: ``added``, ``removed`` or ``changed``; ``subject`` and
    ``fact``: of what it is, and which (a relation of the graph, or a key of a file); ``before`` and
    ``after``: what was and is said, empty where nothing is; ``file`` and ``line``: where it stands now, of
    what is gone where it stood."""

    kind: str
    subject: str
    fact: str
    before: str
    after: str
    file: str
    line: int


class Consequence(Result):
    """What is affected by something that is gone or changed. ``cause``: in words; ``how``: as in
    ``AffectedGroup``, or ``was on it`` of a network; ``file`` and ``line``: where it said so."""

    cause: str
    affected: str
    project: str
    how: str
    file: str
    line: int


class CheckProblem(Result):
    """Something that is wrong now and was not before, or a file that cannot be read. ``rule``: of
    ``retrieval.check.problems.RULES``."""

    rule: str
    statement: str
    file: str
    line: int


class CheckReport(TableResult):
    """What a change would do. ``before`` and ``after``: what was compared, in words; ``files``: those that
    differ; ``notes``: what could not be looked at."""

    before: str
    after: str
    files: tuple[str, ...]
    facts: tuple[ChangedFact, ...]
    impact: tuple[Consequence, ...]
    problems: tuple[CheckProblem, ...]
    notes: tuple[str, ...] = ()

    def to_arrow(self) -> pa.Table:
        """One row a problem."""
        names = ("rule", "statement", "file")
        schema = pa.schema([*((n, pa.string()) for n in names), ("line", pa.int32())])
        return pa.Table.from_pylist([p.model_dump() for p in self.problems], schema=schema)

    def _repr_html_(self) -> str:
        rows: list[list[rendering.Cell]] = [
            [p.rule, p.statement, SourceLocation(p.file, p.line)] for p in self.problems
        ]
        caption = f"{len(rows)} problems that {self.after} causes, compared with {self.before}"
        return rendering.table(caption, ("rule", "what", "where"), rows)
