"""What all results have in common: they do not change, and some are tables."""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    import pyarrow as pa


class Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class TableResult(Result):
    """A result that is a table too."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The result as a table."""

    def to_pandas(self) -> Any:
        """The result as a DataFrame. Raises ``E_EXTRA`` without the extra ``notebook``."""
        return frame(self.to_arrow())


def frame(table: pa.Table) -> Any:
    """A table as a DataFrame. Raises ``E_EXTRA`` where pandas is not installed."""
    if importlib.util.find_spec("pandas") is None:
        raise TabootError("E_EXTRA", "A DataFrame needs the extra notebook.", extra="notebook")
    return table.to_pandas()


def where(url: str, line: int | None, section: str = "") -> str:
    """A place as it is shown; ``section``: where the document has no lines."""
    if line:
        return f"{url}:{line}"
    return f"{url} ({section})" if section else url
