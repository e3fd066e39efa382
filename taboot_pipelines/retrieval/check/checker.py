"""A check: two states of files, what differs between them and what that breaks."""

from __future__ import annotations

from collections.abc import Sequence

from taboot_pipelines.retrieval.check.facts import Facts
from taboot_pipelines.retrieval.check.problems import problems, unknown
from taboot_pipelines.retrieval.check.sides import Side
from taboot_pipelines.retrieval.check.states import Files, Held, Reader
from taboot_pipelines.retrieval.drift.report import Drifts
from taboot_pipelines.retrieval.queries.config_files import Parsed
from taboot_pipelines.retrieval.results.check import CheckReport
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.workspace import Workspace


class Checker:
    """Compares files with others. What was read once, of whichever side, is not read again, nor what the home
    holds that ``workspace`` opens."""

    def __init__(self, settings: Settings, workspace: Workspace | None = None) -> None:
        self._drifts = Drifts(settings.retrieval)
        self._reader = Reader(settings, Held(workspace) if workspace is not None else None)
        self._parsed: Parsed = {}

    def side(self, files: Sequence[Files]) -> Side:
        """The files of all sources as one side."""
        return Side(self._reader.read(files), self._drifts, self._parsed)

    def check(
        self,
        before: Side,
        after: Side,
        names: tuple[str, str] = ("before", "after"),
        notes: Sequence[str] = (),
    ) -> CheckReport:
        """What differs; ``names``: what the two sides are, in words."""
        facts = Facts(before, after)
        files = {(after if d in after.documents else before).file(d) for d in facts.documents}
        files |= {f.file for f in facts.variables}
        found = tuple(problems(before, after, facts))
        listed, impact = facts.listed, tuple(facts.impact())
        # Of a file of which nothing is read any more it is not known what of it is gone.
        unread = {p.file for p in found if p.rule == "unreadable"}
        held = {after.file(d) for d in facts.documents & after.documents.keys() if after.values(d)}
        lost = {f for f in listed if f.kind == "removed" and f.file in unread - held}
        causes = {f"{f.subject} is gone" for f in lost}
        return CheckReport(
            before=names[0],
            after=names[1],
            files=tuple(sorted(files)),
            facts=tuple(f for f in listed if f not in lost),
            impact=tuple(c for c in impact if c.cause not in causes),
            problems=found,
            notes=(*notes, *unknown(before, after, facts)),
        )
