"""Run the rules on one view: find where they do not hold, and leave out what somebody silenced."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.model.rules import MAX_FINDINGS, RuleEntry, Severity
from taboot_pipelines.retrieval.queries.citations import StatementSpan
from taboot_pipelines.retrieval.queries.house import House
from taboot_pipelines.retrieval.queries.run import RowCitations
from taboot_pipelines.retrieval.request import check_limit
from taboot_pipelines.retrieval.results.queries import RowCitation
from taboot_pipelines.retrieval.results.rules import RuleDescription, RuleFinding, RuleReport
from taboot_pipelines.retrieval.rules.catalog import RULES, Rule
from taboot_pipelines.retrieval.rules.declarations import RuleHouse, Violation

#: Citations of one finding.
_MAX_CITED = 10
_ORDER = list(Severity)
_ALLOWED = re.compile(r"taboot:\s*allow\s+(?P<rule>[a-z-]+)\s+because\s+(?P<reason>\S.*?)\s*$")
_COMMENT = re.compile(r"\s*(?:#|//|;)")
#: Lines above a declaration that are looked through for what it stands in.
_MAX_LINES = 2000


def run(
    house: House, rule: str | None, project: str | None, limit: int, said: Mapping[str, RuleEntry]
) -> RuleReport:
    """See ``KnowledgeBase.rules``. ``said``: the section ``rules`` of the sources file."""
    check_limit(limit, MAX_FINDINGS)
    wanted = list(RULES.values()) if rule is None else [_named(rule)]
    projects = None if project is None else {p for _, p in house.projects_named(project)}
    looked_at, look = RuleHouse(house), _Look(house, said)
    found = [f for r in wanted for f in look.at(r, looked_at) if projects is None or _of(f, projects)]
    found.sort(key=lambda f: (_ORDER.index(f.severity), f.rule, f.subject, f.statement))
    counted = [f for f in found if not f.silenced]
    silenced = tuple(f for f in found if f.silenced)
    return RuleReport(
        findings=tuple(counted[:limit]),
        total=len(counted),
        silenced=silenced[:limit],
        rules=tuple(
            RuleDescription(
                name=r.name,
                severity=look.severity(r),
                summary=r.summary,
                remedy=r.remedy,
                reads=r.reads,
                found=sum(f.rule == r.name for f in counted),
                silenced=sum(f.rule == r.name for f in silenced),
            )
            for r in wanted
        ),
        notes=tuple(look.notes(wanted)) if projects is None else (),
    )


def _named(name: str) -> Rule:
    if name not in RULES:
        raise TabootError(
            "E_QUERY",
            f"There is no rule {str(name)[:100]!r}.{or_near(str(name), RULES)}",
            remedy="`taboot rules --list` lists them.",
        )
    return RULES[name]


def _of(found: RuleFinding, projects: set[str]) -> bool:
    return found.subject.partition("/")[0] in projects


class _Look:
    """Makes findings, and remembers which silences were of use."""

    def __init__(self, house: House, said: Mapping[str, RuleEntry]) -> None:
        self._house, self._said = house, said
        self._citation = RowCitations(house).of
        self._used: set[tuple[str, str]] = set()

    def severity(self, rule: Rule) -> Severity:
        entry = self._said.get(rule.name)
        return rule.severity if entry is None or entry.severity is None else entry.severity

    def at(self, rule: Rule, house: RuleHouse) -> list[RuleFinding]:
        """What a rule finds, each once; a file that several sources hold is quoted once."""
        once: dict[tuple[str, str], Violation] = {}
        for violation in rule.find(house):
            once.setdefault((violation.subject, violation.statement), violation)
        return [
            RuleFinding(
                rule=rule.name,
                severity=self.severity(rule),
                subject=v.subject,
                statement=v.statement,
                citations=self._citations(v.cites),
                silenced=self._silenced(rule.name, v),
            )
            for v in once.values()
        ]

    def _citations(self, spans: Sequence[StatementSpan]) -> tuple[RowCitation, ...]:
        """The places, each line of a file once: several sources may hold one file."""
        found = {(c.url, c.line): c for c in map(self._citation, reversed(spans[: 2 * _MAX_CITED]))}
        return tuple(reversed(found.values()))[:_MAX_CITED]

    def _silenced(self, rule: str, found: Violation) -> str:
        """Why it need not hold there; empty where nobody said so."""
        entry = self._said.get(rule)
        for silence in entry.silence if entry is not None else ():
            if fnmatchcase(found.subject, silence.subject):
                self._used.add((rule, silence.subject))
                return silence.reason
        return silence_of(self._house, rule, found)

    def notes(self, wanted: list[Rule]) -> list[str]:
        """What of the sources file is of no use."""
        names = {r.name for r in wanted}
        unknown = [n for n in self._said if n not in RULES]
        return [
            *(
                f"The sources file names the rule {n}, which there is not.{or_near(n, RULES)}"
                for n in unknown
            ),
            *(
                f"The sources file silences {name} for {silence.subject}, where it finds nothing."
                for name, entry in self._said.items()
                for silence in entry.silence
                if name in names and (name, silence.subject) not in self._used
            ),
        ]


def silence_of(house: House, rule: str, found: Violation) -> str:
    """Why a rule need not hold in a place, as a comment there says; empty where none does."""
    return next(filter(None, (_allowed(house, rule, span) for span in found.cites)), "")


def _allowed(house: House, rule: str, span: StatementSpan) -> str:
    """What a comment says beside a declaration, right above it, or so with what it stands in."""
    text = house.index.text(span.doc_id)
    if "taboot:" not in text:
        return ""
    lines = text.split("\n")[: span.line]
    depth, beside = _depth(lines[-1]) + 1, True
    for line in reversed(lines[-_MAX_LINES:]):
        if not _COMMENT.match(line):
            beside = bool(line.strip()) and _depth(line) < depth
            depth = min(depth, _depth(line)) if beside else depth
        said = _ALLOWED.search(line) if beside else None
        if said is not None and said["rule"] == rule:
            return said["reason"]
    return ""


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t-"))
