"""The rules of ``docs/design.md``: code refers to them by name, each names tests that exist, and people who
use the product never see a rule.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design.md").read_text()
TESTS = ROOT / "taboot_pipelines_tests"
RULES = {
    m["name"]: m["text"]
    for m in re.finditer(r"^### (?P<name>[a-z-]+)\n(?P<text>.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
#: How code refers to rules: "rule ``support``", "rules ``bytes-first`` and ``support``".
_ONE = r"(?:\s|#:?)+``(?:[a-z]+(?:-[a-z]+)+|support|watermark)``"
REFERENCE = re.compile(rf"\b[Rr]ules?(?P<names>{_ONE}(?:,?(?:(?:\s|#:?)+and)?{_ONE})*)")
NAME = re.compile(r"``([a-z-]+)``")
FILES = [
    p
    for folder in ("taboot_pipelines", "taboot_pipelines_tests", "benchmarks", "docs", "deploy", "examples")
    for p in sorted((ROOT / folder).rglob("*"))
    if p.suffix in {".py", ".md", ".txt", ".sql", ".yaml", ".yml", ".ipynb", ".json"} and p != Path(__file__)
]


def test_every_rule_says_why_and_names_its_tests() -> None:
    assert len(RULES) == 22
    for name, text in RULES.items():
        assert "*Why:*" in text and "*Held by*" in text, name


@pytest.mark.parametrize("name", RULES)
def test_the_tests_that_hold_a_rule_exist(name: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", RULES[name].partition("*Held by*")[2])
    assert named
    for file, function in named:
        tree = ast.parse((TESTS / file).read_text())
        assert function in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}, (
            f"{file}::{function}"
        )


def references() -> list[tuple[str, str]]:
    """(file, rule named) of all code and pages."""
    found = []
    for path in FILES:
        for m in REFERENCE.finditer(path.read_text()):
            found += [(str(path.relative_to(ROOT)), name) for name in NAME.findall(m["names"])]
    return found


def test_every_reference_resolves() -> None:
    found = references()
    assert len(found) > 50
    assert [(f, n) for f, n in found if n not in RULES] == []


def test_every_rule_is_referred_to() -> None:
    assert set(RULES) - {n for _, n in references()} == set()


def test_no_rule_is_referred_to_by_its_number() -> None:
    assert [
        f"{path.relative_to(ROOT)}: {m[0]}"
        for path in FILES
        for m in re.finditer(r"\b[Rr]ules? \d+|\bDESIGN\b", path.read_text())
    ] == []


def string_literals(path: Path) -> list[str]:
    """What code may show: its strings, docstrings left out."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(n.body[0].value)
        for n in ast.walk(tree)
        if isinstance(n, documented) and n.body and isinstance(n.body[0], ast.Expr)
    }
    return [
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docstrings
    ]


def test_users_never_see_a_rule() -> None:
    shown = [
        (p, s)
        for p in FILES
        if "taboot_pipelines/" in str(p) and p.suffix == ".py"
        for s in string_literals(p)
    ]
    named = re.compile(r"\brules? (?:\d|`)|\b(?:" + "|".join(n for n in RULES if "-" in n) + r")\b")
    assert [f"{p.relative_to(ROOT)}: {s[:80]}" for p, s in shown if named.search(s)] == []
