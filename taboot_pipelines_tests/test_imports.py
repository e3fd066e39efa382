"""The import graph of the package: the layers are held by import-linter, this holds that there is no
circle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import taboot_pipelines

#: Names of these that begin with an underscore are theirs to change.
OTHERS = ("dagster", "threading", "atexit")


def circle(graph: grimp.ImportGraph) -> list[str]:
    """The modules of one circle, none if there is none. Imports inside functions and for types alone
    count.
    """
    sorter = TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules})
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("taboot_pipelines", cache_dir=None)
    assert len(graph.modules) > 200
    assert circle(graph) == []


@pytest.mark.parametrize("length", [2, 3])
def test_a_circle_would_be_found(length: int) -> None:
    graph = grimp.build_graph("taboot_pipelines", cache_dir=None)
    modules = [f"made_up_{n}" for n in range(length)]
    for n, module in enumerate(modules):
        graph.add_import(importer=module, imported=modules[(n + 1) % length])
    assert set(circle(graph)) == set(modules)


def reached_into(tree: ast.AST) -> Iterator[str]:
    """Yield the private parts of others that a module imports, or names by the module that it imports."""
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                names = [f"{module}.{alias.name}" for alias in node.names]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                names = [f"{'dagster' if name == 'dg' else name}.{attribute}"]
        for name in names:
            first, *parts = name.split(".")
            if first.startswith(OTHERS) and any(part.startswith("_") for part in parts):
                yield name


def test_nothing_reaches_into_the_private_parts_of_others() -> None:
    root = Path(taboot_pipelines.__file__).parent
    found = {path.name: list(reached_into(ast.parse(path.read_text()))) for path in root.rglob("*.py")}
    assert len(found) > 200 and {name: parts for name, parts in found.items() if parts} == {}
    for wrong in ("import dagster._core.events", "from dagster_shared import _x", "threading._shutdown()"):
        assert list(reached_into(ast.parse(wrong)))
