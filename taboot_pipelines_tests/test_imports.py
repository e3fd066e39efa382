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


#: Packages that are imported whole, before a thread could import one of their modules: the entries of the
#: product, tables of kinds and forms, and tiers that are called by their name.
WHOLE = {
    "taboot_pipelines.cli",
    "taboot_pipelines.defs",
    "taboot_pipelines.documents.forms",
    "taboot_pipelines.documents.forms.chat",
    "taboot_pipelines.extraction.tier_b",
    "taboot_pipelines.extraction.tier_c",
    "taboot_pipelines.retrieval",
    "taboot_pipelines.sources",
}


def test_packages_import_none_of_their_modules() -> None:
    """Else two threads, of which one imports the package and one a module of it, wait for each other, and
    CPython gives one of them a module half made.
    """
    root = Path(taboot_pipelines.__file__).parent
    found = set()
    for path in root.rglob("*/__init__.py"):
        package = ".".join((taboot_pipelines.__name__, *path.parent.relative_to(root).parts))
        tree = ast.parse(path.read_text())
        imported = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
        if any(name.startswith(f"{package}.") for name in imported):
            found.add(package)
    assert found <= WHOLE


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
