"""The page of what became of the five documents has an answer in every row, and what it names exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from taboot_pipelines.model.graph import EDGES, NODES
from taboot_pipelines.model.tables import TABLES
from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines_tests.docs.conftest import ROOT

PAGE = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
WORDS = ("Done", "Otherwise", "Overruled", "Partly", "Absent")
#: The cells of a row: bars that are part of a text are escaped.
CELL = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`\n]+)`")


class Row(NamedTuple):
    """A promise of one of the documents."""

    place: str
    promise: str
    answer: str


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in CELL.split(line)[1:-1]]


def lines_of_tables(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]


SECTIONS = {
    section.splitlines()[0]: [Row(*cells(line)) for line in lines_of_tables(section)[1:]]
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
}
ROWS = [row for rows in SECTIONS.values() for row in rows]
NAMES = sorted({name for row in ROWS for name in CODE.findall(row.answer)})


def columns() -> dict[str, set[str]]:
    """The columns of the catalog's tables and of those between assets, the properties of the graph."""
    found = {table.name: set(table.columns.keys()) for table in metadata.tables.values()}
    for name, (schema, _) in TABLES.items():
        found.setdefault(name, set()).update(schema.names)
    for node in NODES.values():
        found[node.label] = {*node.key, *node.properties}
    for edge in EDGES.values():
        found[edge.type] = set(edge.properties)
    return found


def test_each_document_has_a_section() -> None:
    assert [title.split(":")[0] for title in SECTIONS] == ["000", "001", "002", "003", "004"]
    assert len(ROWS) > 200


def test_every_row_has_an_answer() -> None:
    for row in ROWS:
        word = re.match(r"\*\*(\w+)\*\*: \S", row.answer)
        assert row.place and row.promise and word is not None and word[1] in WORDS, row


def test_no_promise_stands_twice() -> None:
    for rows in SECTIONS.values():
        counted = Counter((row.place, row.promise) for row in rows)
        assert not [promise for promise, count in counted.items() if count > 1]


def test_what_is_lacking_is_said_in_more_than_a_word() -> None:
    for row in ROWS:
        if row.answer.startswith(("**Partly**", "**Absent**")):
            assert len(re.sub(CODE, "", row.answer).split()) > 5, row


def test_the_counts_are_those_of_the_rows() -> None:
    head, *shown = [cells(line) for line in lines_of_tables(PAGE.split("\n## ")[0])]
    assert head == ["document", *WORDS, "rows"]
    counted = []
    for title, rows in SECTIONS.items():
        answers = Counter(re.findall(r"\w+", row.answer)[0] for row in rows)
        counted.append([title, *(str(answers[word]) for word in WORDS), str(len(rows))])
    assert shown == counted


@pytest.mark.parametrize("name", [n for n in NAMES if re.search(r"\.py(?:::\w+)?$", n)])
def test_modules_and_what_is_named_in_them_exist(name: str) -> None:
    path, _, inside = name.partition("::")
    places = (ROOT / "taboot_pipelines" / path, ROOT / "taboot_pipelines_tests" / path, ROOT / path)
    files = [place for place in places if place.is_file()]
    assert files, name
    stated = rf"^ *(?:def|class) {inside}\b|^{inside}\b.*="
    assert not inside or re.search(stated, files[0].read_text(encoding="utf-8"), re.MULTILINE), name


def test_other_files_exist() -> None:
    for name in NAMES:
        if re.fullmatch(r"[\w./-]+\.(?:ya?ml|sql|toml)|[\w./-]+/Dockerfile", name):
            assert Path(ROOT, name).is_file(), name


def test_columns_and_properties_exist() -> None:
    known = columns()
    named = [m.groups() for name in NAMES if (m := re.fullmatch(r"([A-Za-z_]+)\.([A-Za-z_]+)", name))]
    checked = [(table, column) for table, column in named if table in known]
    assert len(checked) > 50
    assert not [f"{table}.{column}" for table, column in checked if column not in known[table]]
    others = {table for table, _ in named} - set(known)
    assert others <= {"kb", *(name.partition(".")[0] for name in NAMES if name.endswith((".py", ".toml")))}


def test_rules_exist() -> None:
    rules = set(
        re.findall(r"^### ([a-z-]+)$", (ROOT / "docs" / "design.md").read_text("utf-8"), re.MULTILINE)
    )
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", PAGE))
    assert named <= rules, named - rules


def test_methods_of_a_knowledge_base_exist() -> None:
    from taboot_pipelines import KnowledgeBase

    for name in NAMES:
        if method := re.match(r"kb\.(\w+)", name):
            assert hasattr(KnowledgeBase, method[1]), name


def test_metrics_exist() -> None:
    from taboot_pipelines.stages.metrics import METRICS

    known = {f"taboot_{metric.name}" for metric in METRICS}
    assert {name for name in NAMES if re.fullmatch(r"taboot_\w+", name)} <= known
