"""What all results have in common: they do not change, and some are tables."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

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
        return self.to_arrow().to_pandas()


def where(url: str, line: int | None, section: str = "") -> str:
    """A place as it is shown; ``section``: where the document has no lines."""
    if line:
        return f"{url}:{line}"
    return f"{url} ({section})" if section else url
