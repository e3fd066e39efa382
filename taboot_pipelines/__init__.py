"""Infrastructure knowledge in one place, each fact traced to the bytes it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taboot_pipelines.errors import TabootError
    from taboot_pipelines.retrieval import KnowledgeBase

__all__ = ["KnowledgeBase", "TabootError"]


def __getattr__(name: str) -> Any:
    # Imported on first use: `import taboot_pipelines` itself stays instant for the command line and Dagster.
    if name == "KnowledgeBase":
        from taboot_pipelines.retrieval import KnowledgeBase

        return KnowledgeBase
    if name == "TabootError":
        from taboot_pipelines.errors import TabootError

        return TabootError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
