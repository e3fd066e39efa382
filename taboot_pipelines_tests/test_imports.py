"""The import graph of the package: the layers are held by import-linter, this holds that there is no
circle.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


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
