"""The one place where a request to Qdrant gets its filter, and with it its namespace (rule
``namespace-is-tenant``).

Community Qdrant knows no tenants: nothing but this filter keeps namespaces apart. So no filter is made
without one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import check_namespace

if TYPE_CHECKING:
    from qdrant_client import models


@dataclass(frozen=True, slots=True)
class Where:
    """What one and the same occurrence of a text must be. None: anything; a set: one of it (``tags``: has one
    of it). ``collections``: its source or one of its tags is one.

    ``moment_from`` and ``moment_to`` are microseconds since the epoch, the first included, the second not.
    """

    namespace: str
    sources: frozenset[str] | None = None
    types: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    languages: frozenset[str] | None = None
    domains: frozenset[str] | None = None
    collections: frozenset[str] | None = None
    content_types: frozenset[str] | None = None
    moment_from: int | None = None
    moment_to: int | None = None


def points_of(
    namespace: str, *, where: Where | None = None, ids: Collection[str] | None = None
) -> models.Filter:
    """The points of ``namespace``, of these ``ids``, with an occurrence that is as ``where`` says.

    Raises ``E_NAMESPACE`` without a valid namespace, and if ``where`` is of another one.
    """
    from qdrant_client import models

    check_namespace(namespace)
    if where is not None and where.namespace != namespace:
        raise TabootError("E_NAMESPACE", f"A filter of another namespace was used in {namespace}.")
    must: list[Any] = [models.FieldCondition(key="namespace", match=models.MatchValue(value=namespace))]
    if ids is not None:
        must.append(models.HasIdCondition(has_id=list(ids)))
    if where is not None:
        conditions: list[Any] = [
            models.FieldCondition(key=key, match=models.MatchAny(any=sorted(wanted)))
            for key, wanted in (
                ("source_id", where.sources),
                ("source", where.types),
                ("tags", where.tags),
                ("lang", where.languages),
                ("domain", where.domains),
                ("content_type", where.content_types),
            )
            if wanted is not None
        ]
        if where.collections is not None:
            named = models.MatchAny(any=sorted(where.collections))
            conditions.append(
                models.Filter(
                    should=[models.FieldCondition(key=key, match=named) for key in ("source_id", "tags")]
                )
            )
        if where.moment_from is not None or where.moment_to is not None:
            # A double holds microseconds exactly until the year 2255.
            conditions.append(
                models.FieldCondition(
                    key="moment", range=models.Range(gte=where.moment_from, lt=where.moment_to)
                )
            )
        if conditions:
            must.append(
                models.NestedCondition(
                    nested=models.Nested(key="occurrences", filter=models.Filter(must=conditions))
                )
            )
    return models.Filter(must=must)
