"""A check as Markdown, for a comment on a pull request, and as SARIF 2.1.0, for what shows results of
checks."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from taboot_pipelines.model.ids import digest
from taboot_pipelines.model.rules import Severity
from taboot_pipelines.retrieval.check.problems import RULES
from taboot_pipelines.retrieval.results.check import ChangedFact, CheckReport
from taboot_pipelines.retrieval.rules.catalog import RULES as RULES_OF_THE_HOUSE

#: Rules whose problems break nothing by themselves.
_WARNINGS = frozenset({"document_contradicted", "image_unpinned", "variable_undefined"}) | {
    rule.name for rule in RULES_OF_THE_HOUSE.values() if rule.severity is not Severity.ERROR
}
#: Facts that Markdown lists; a comment has an end.
_MAX_LISTED = 200


def place(file: str, line: int) -> str:
    return f"{file}:{line}" if line else file


def fact(found: ChangedFact) -> str:
    """A fact that differs, in a line of text."""
    subject = f"{found.subject}: {found.fact}" if found.fact not in ("service", "file") else found.subject
    values = " → ".join(v for v in (found.before, found.after) if v)
    return f"{subject} {values}".rstrip()


def markdown(report: CheckReport) -> str:
    """The whole report as Markdown."""
    counted = f"{len(report.problems)} problem{'' if len(report.problems) == 1 else 's'}"
    parts = [f"### taboot check: {counted}", f"`{report.before}` → `{report.after}`"]
    if report.problems:
        rows = [f"| `{p.rule}` | {_cell(p.statement)} | `{place(p.file, p.line)}` |" for p in report.problems]
        parts.append("\n".join(["| rule | what | where |", "| --- | --- | --- |", *rows]))
    if report.impact:
        rows = [
            f"| {_cell(c.cause)} | {_cell(f'{c.project}/{c.affected}' if c.project else c.affected)} |"
            f" {c.how} | `{place(c.file, c.line)}` |"
            for c in report.impact
        ]
        head = ["| cause | affected | how | where |", "| --- | --- | --- | --- |"]
        parts.append(_folded(f"{len(report.impact)} affected", [*head, *rows]))
    if report.facts:
        rows = [
            f"| {f.kind} | {_cell(f'{f.subject}: {f.fact}')} | {_cell(f.before)} | {_cell(f.after)} |"
            f" `{place(f.file, f.line)}` |"
            for f in report.facts[:_MAX_LISTED]
        ]
        head = ["| | fact | before | after | where |", "| --- | --- | --- | --- | --- |"]
        parts.append(_folded(f"{len(report.facts)} facts differ", [*head, *rows]))
    return "\n\n".join([*parts, *report.notes]) + "\n"


def _folded(title: str, lines: list[str]) -> str:
    return "\n".join(["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"])


def _cell(text: str) -> str:
    """A text in a cell of a table; what a file says is no markup."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("@", "&#64;")
    return " ".join(escaped.split())


def sarif(report: CheckReport) -> dict[str, Any]:
    """The problems as a SARIF 2.1.0 log."""
    rules = list(RULES)
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "taboot check",
                        "version": version("taboot-pipelines"),
                        "rules": [
                            {
                                "id": rule,
                                "shortDescription": {"text": says},
                                "defaultConfiguration": {"level": _level(rule)},
                            }
                            for rule, says in RULES.items()
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    {
                        "ruleId": p.rule,
                        "ruleIndex": rules.index(p.rule),
                        "level": _level(p.rule),
                        "message": {"text": p.statement},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": quote(p.file), "uriBaseId": "%SRCROOT%"},
                                    "region": {"startLine": max(p.line, 1)},
                                }
                            }
                        ],
                        "partialFingerprints": {"statement/v1": digest(p.rule, p.file, p.statement)},
                    }
                    for p in report.problems
                ],
            }
        ],
    }


def _level(rule: str) -> str:
    return "warning" if rule in _WARNINGS else "error"
