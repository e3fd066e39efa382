"""What is affected by a thing, as a result."""

from __future__ import annotations

import pyarrow as pa

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import SourceLocation
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.retrieval.results.queries import RowCitation


class Affected(Result):
    """One thing that is affected. ``at``: the host name and path by which it is reached, what is shared, or
    which of several things of the name is meant;
    ``through``: what stands between the two, empty where nothing does."""

    name: str
    project: str
    at: str
    through: str
    citations: tuple[RowCitation, ...]

    @property
    def text(self) -> str:
        project = f" ({self.project})" if self.project else ""
        through = f" through {self.through}" if self.through else ""
        return f"{self.name}{project}{f': {self.at}' if self.at else ''}{through}"


class AffectedGroup(Result):
    """All that is affected in one way. ``how``: ``needs it``, ``connects to it``, ``is reached through it``,
    ``asks it for the login``, ``only starts after it``, ``is a name that leads to it``,
    ``shares its host`` …, ``runs on it``, ``mounts a volume from it``, ``is on it``, ``runs it``,
    ``stands behind it``, ``is of it``."""

    how: str
    items: tuple[Affected, ...]


class Impact(TableResult):
    """What is affected by a thing, by how. ``kind``: service, network, host, address, image, proxy, volume,
    hostname or project; ``projects``: those that have a service of the name. ``unknown``: what cannot be
    known, in sentences; ``named_in``: where texts name it of which nothing more is known; ``scope``: what was
    looked through."""

    thing: str
    kind: str
    projects: tuple[str, ...]
    groups: tuple[AffectedGroup, ...]
    unknown: tuple[str, ...]
    named_in: tuple[RowCitation, ...]
    scope: str

    @property
    def nothing(self) -> str:
        """What is said where no group is: of a machine, and of what no file declares, it is not known."""
        if self.kind in ("host", "address"):
            return "What runs on it is not known: nothing that was read says so."
        if self.kind == "service" and not self.projects:
            return "What needs it is not known: no file declares it, it is only named."
        return "Nothing is declared to be affected."

    def to_arrow(self) -> pa.Table:
        """One row an affected thing, with the place of its first citation."""
        names = ("how", "name", "project", "at", "through", "url")
        schema = pa.schema(
            [*((n, pa.string()) for n in names), ("line", pa.int32()), ("edge_id", pa.string())]
        )
        rows = [
            {
                "how": group.how,
                **item.model_dump(include={"name", "project", "at", "through"}),
                **(
                    item.citations[0].model_dump(include={"url", "line", "edge_id"}) if item.citations else {}
                ),
            }
            for group in self.groups
            for item in group.items
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows: list[list[rendering.Cell]] = [
            [
                group.how,
                item.text,
                SourceLocation(item.citations[0].url, item.citations[0].line) if item.citations else "",
            ]
            for group in self.groups
            for item in group.items
        ]
        caption = f"{self.kind} {self.thing}: {len(rows)} affected. {' '.join((self.scope, *self.unknown))}"
        return rendering.table(caption, ("how", "what", "where"), rows)
