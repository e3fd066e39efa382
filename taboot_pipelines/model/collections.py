"""Saved filters with a name: the section ``collections`` of the sources file."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from taboot_pipelines.model.ids import NAME_PATTERN


def _words(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _moment(value: Any) -> Any:
    """A day or a moment as ISO 8601, which YAML reads as such by itself."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        datetime.fromisoformat(value)
    return value


_Words = Annotated[list[str], BeforeValidator(_words, json_schema_input_type=str | list[str])]
_Moment = Annotated[str, BeforeValidator(_moment, json_schema_input_type=str)]


class SavedFilter(BaseModel):
    """Documents that are searched by one name: those that pass all of these filters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = Field("", max_length=1000, description="What it is for, in words.")
    source: _Words | None = Field(None, description="Of a source with this id.")
    type: _Words | None = Field(None, description="Of a source of this type.")
    tag: _Words | None = Field(None, description="With this tag, of its own or of its source.")
    language: _Words | None = Field(None, description="In this language.")
    domain: _Words | None = Field(None, description="A web page of this host.")
    path_prefix: _Words | None = Field(None, description="Whose path in its source begins so.")
    date_from: _Moment | None = Field(None, description="Of this day, or from this moment, or later.")
    date_to: _Moment | None = Field(None, description="Of this day, or before this moment, or earlier.")

    @model_validator(mode="after")
    def _of_something(self) -> SavedFilter:
        if not self.filters():
            raise ValueError("has no filter")
        return self

    def filters(self) -> dict[str, Any]:
        """The filters that are given, as the arguments of a search."""
        return self.model_dump(exclude_none=True, include=_FILTERS)


_FILTERS = SavedFilter.model_fields.keys() - {"description"}


class CollectionEntry(SavedFilter):
    """Documents that are searched by one name: those that pass all of these filters, which mean what those of
    a search do. Each takes one value or several, of which one must hold."""

    namespace: str = Field("default", pattern=NAME_PATTERN.pattern, description="The tenant that it is of.")
