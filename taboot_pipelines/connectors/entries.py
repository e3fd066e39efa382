"""What an entry of the sources file holds, whatever its type, and the field types that several types share.

The entry model of a source type stands beside its reader, in the module of that type.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

from croniter import croniter
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from taboot_pipelines.connectors.globs import Globs
from taboot_pipelines.model.graph import is_hostname
from taboot_pipelines.model.ids import NAME_PATTERN, canonical_json
from taboot_pipelines.model.retention import MAX_DAYS

_CRON_NAMES = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")


#: How many values each field of a cron expression has: a step of that size or more takes one value alone.
_CRON_SIZES = {"minutes": 60, "hours": 24, "days": 31, "months": 12, "weekdays": 7}
_CRON_STEP = re.compile(r"/(\d+)(?:,|$)")


def _cron(value: str) -> str:
    """Refuse what is neither five fields nor a name such as ``@daily``, a time that never comes, such as
    ``0 0 31 2 *``, and a step that is never taken, such as ``*/61``.
    """
    fields = value.split()
    if value not in _CRON_NAMES and len(fields) != 5:
        raise ValueError("is not a cron expression of five fields")
    for field, (name, size) in zip(fields, _CRON_SIZES.items(), strict=False):
        for step in _CRON_STEP.findall(field):
            if int(step) >= size:
                raise ValueError(f"has a step of {step} {name}, of which there are {size}: it is never taken")
    try:
        croniter(value, datetime(2024, 1, 1, tzinfo=UTC)).get_next()
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        raise ValueError("is not a valid cron expression, or one that never fires") from None
    return value


def _globs(value: list[str]) -> list[str]:
    Globs(value)
    return value


def _path(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a null character")
    return value


def _day(value: object) -> object:
    """A day as the catalog keeps it; YAML has days of its own."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError("is not a day such as 2026-01-31") from None
    return value


def _host(value: str) -> str:
    if not is_hostname(value.rstrip(".")):
        raise ValueError("is not a host name (RFC 1123)")
    return value.rstrip(".").lower()


def unique(value: list[str]) -> list[str]:
    """Refuse a value that is there twice."""
    if len(set(value)) != len(value):
        raise ValueError("holds a value twice")
    return value


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN.pattern)]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True)]
GlobList = Annotated[list[str], AfterValidator(_globs)]
PathText = Annotated[str, StringConstraints(min_length=1, max_length=4096), AfterValidator(_path)]
Day = Annotated[date, BeforeValidator(_day)]
HostName = Annotated[str, AfterValidator(_host)]
ProxyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,255}$")]


class SourceEntry(BaseModel):
    """What every entry has. ``id`` is the partition key, unique in the file whatever the namespace."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: Name = Field(description="Unique in the file; also the key of the source's partition.")
    type: str
    profile: Name | None = Field(
        None,
        exclude=True,
        description="The settings under `profiles` that hold where the entry says nothing else.",
    )
    namespace: Name = Field(
        "default",
        description="The tenant: knowledge bases and deduplication are per namespace.",
    )
    tags: Annotated[list[Tag], AfterValidator(unique)] = Field(
        default_factory=list, description="Free labels to filter by."
    )
    languages: Annotated[list[Language], Field(min_length=1), AfterValidator(unique)] = Field(
        default_factory=lambda: ["en"], description="ISO 639 codes of the languages that are kept."
    )
    schedule: Annotated[str, StringConstraints(max_length=200), AfterValidator(_cron)] | None = Field(
        None, description="When it is ingested: a cron expression of five fields."
    )
    enabled: bool = Field(
        True, description="`false` pauses it: nothing is read, and what it has is served as it is."
    )
    graph: bool = Field(
        True,
        description="`false` keeps it out of the graph: it is searched, and no statement is read of it.",
    )
    run_priority: Annotated[int, Field(ge=-100, le=100)] = Field(
        0, description="Sources with a higher one are read first, and their runs start first."
    )
    retention_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] | None = Field(
        None,
        description=(
            "So many days after its bytes came a document expires: it is deleted until its bytes change. The"
            " week before it is shown as EXPIRING. Default: documents are kept for good."
        ),
    )

    def interpretation_fields(self) -> dict[str, str | None]:
        """The fields that interpretation may depend on (rule ``unit-of-interpretation``): ``namespace``,
        ``host``, ``proxy``.
        """
        return {
            "namespace": self.namespace,
            "host": getattr(self, "host", None),
            "proxy": getattr(self, "proxy", None),
        }

    @property
    def interprets(self) -> bool:
        """Whether configuration files in the source are interpreted by the format that each is recognised
        as."""
        return bool(getattr(self, "interpret", False))

    def folder(self, root: Path) -> str | None:
        """The name of the source's directory, where interpretation may depend on it; ``root`` is the sources
        file's directory.
        """
        return None

    def reading_json(self) -> str:
        """The same without what decides only when it is read and what is made of it."""
        return canonical_json(self.model_dump(mode="json", exclude={"enabled", "graph", "run_priority"}))

    def config_json(self) -> str:
        """Every field, defaults included, as canonical JSON: equal entries give equal text."""
        return canonical_json(self.model_dump(mode="json"))


class DirectorySource(SourceEntry):
    """A directory. ``include`` replaces the type's default globs; ``exclude`` wins over it."""

    path: PathText = Field(description="The directory, relative to the sources file.")
    root: PathText | None = Field(
        None,
        description=(
            "The directory that `path` is a part of, relative to the sources file: links to files may lead "
            "there. Default: the top of the repository that `path` lies in, else `path` itself."
        ),
    )
    include: GlobList = Field(
        default_factory=list, description="Globs of what is taken; default: what the type reads."
    )
    exclude: GlobList = Field(
        default_factory=list, description="Globs of what is left out; a deleted or excluded file is the same."
    )


class RecordedSource(SourceEntry):
    """A source that is asked by its API, or whose exported files lie in the directory ``path``."""

    path: PathText | None = Field(
        None, description="A directory of exported files, relative to the sources file; then no API is asked."
    )
    include: GlobList = Field(
        default_factory=list, description="Globs of the files that are taken; default: what the type reads."
    )
    exclude: GlobList = Field(default_factory=list, description="Globs of the files that are left out.")


class LimitedSource(SourceEntry):
    """A source that is asked by an API: how much of it one run may ask for."""

    max_items: Annotated[int, Field(ge=1)] | None = Field(
        None, description="After so many items a run stops; what it did not come to stays as it is."
    )
    max_requests: Annotated[int, Field(ge=1)] = Field(
        10_000, description="After so many requests a run stops, and the next one goes on."
    )
    max_wait_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        900, description="How long a run waits in all when the service asks for fewer requests."
    )


class BoundedSource(LimitedSource):
    """One whose things have a date of their last change."""

    since: Day | None = Field(
        None, description="Nothing that was last changed before this day (UTC) is taken."
    )


class UnavailableSource(SourceEntry):
    """A source of a type that this installation cannot read now. Its fields are kept as they are."""

    model_config = ConfigDict(extra="allow")
