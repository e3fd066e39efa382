"""How much a namespace may hold and ask: the section ``quotas`` of the sources file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Amount = Annotated[int, Field(ge=0)]


class Limits(BaseModel):
    """The most that a namespace may hold and ask. What is not given is as the settings say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: _Amount | None = Field(None, description="Bytes of its blobs, each content once.")
    documents: _Amount | None = Field(None, description="Documents that are there.")
    questions_per_month: _Amount | None = Field(
        None, description="Questions to a chat model in a calendar month, UTC."
    )
