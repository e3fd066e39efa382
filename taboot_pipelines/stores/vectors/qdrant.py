"""Points in Qdrant: those of one embedding space in one collection, by namespace (rules ``equal-text-once``,
``one-ranking`` and ``spaces-never-mix``).

Every request names the namespace it is for and carries the filter of ``filters.points_of``; ids alone reach
nothing.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.settings import QdrantSettings
from taboot_pipelines.stores.vectors import points as layout
from taboot_pipelines.stores.vectors.connection import Connection
from taboot_pipelines.stores.vectors.filters import Where, points_of
from taboot_pipelines.stores.vectors.points import Points, Sparse, check, fingerprint

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

#: One point per namespace and collection says which snapshot the points are of.
WATERMARKS = "taboot.watermarks"
#: Tenants in payload indexes came with this version, the query endpoint shortly before.
_MIN_VERSION = (1, 11)
_PAGE = 1000
#: A request with more bytes is cut in two; the server refuses 32 MiB.
_MAX_REQUEST_BYTES = 16 * 1024 * 1024
#: How well an approximate search looks: nodes of the graph that it keeps in view, at least and for each point
#: asked for, and how many times as many int8 codes as points are compared before the vectors themselves. On
#: Qdrant's engine, for 74 of 7,500 random vectors of 384 dimensions (without structure, the hardest case),
#: the recall@10 was 0.985 with 256 nodes and 0.9975 with 512.
_MIN_EF, _EF_FACTOR, _OVERSAMPLING = 512, 2, 2.0


@dataclass(frozen=True, slots=True)
class Watermark:
    """What the points of a namespace in a collection are equal to. ``snapshot`` is empty while they are being
    changed; ``sources``: digest of what holds for whole sources."""

    namespace: str
    alias: str
    collection: str
    space: str
    snapshot: str
    sources: str


#: (the 16 bytes of a point's id, score), the best first.
Found = list[tuple[bytes, float]]


class QdrantPoints:
    """Points in Qdrant. Touches no network until it is first asked. Raises ``E_QDRANT`` when the server
    fails, ``E_NAMESPACE`` for a request that would leave its namespace."""

    def __init__(self, settings: QdrantSettings) -> None:
        self._settings = settings
        self._connection = Connection(settings)

    def close(self) -> None:
        self._connection.close()

    def health(self) -> Health:
        """The server's version and how long it takes to say so, and whether it lets us write; no retries.

        The version is told to anybody. So is asked for what only a key with every right may do and what
        changes nothing: to delete a collection that is not there, which the server takes for done.
        """

        def ask() -> tuple[str | None, str]:
            version = self._connection.call("say its version", lambda c: c.info(), retries=0).version
            nobodys = f"{self._settings.collection}.{uuid.uuid4().hex}"
            self._unless_missing("be written to", lambda c: c.delete_collection(nobodys), None, retries=0)
            number = re.match(r"v?(\d+)\.(\d+)", version)
            old = number is not None and (int(number[1]), int(number[2])) < _MIN_VERSION
            return version, (
                f"Qdrant {version} is too old: its oldest version of use is"
                f" {_MIN_VERSION[0]}.{_MIN_VERSION[1]}."
                if old
                else ""
            )

        return probe("vectors", "qdrant", ask)

    def collection(self, space: str) -> str:
        """The collection of an embedding space (``Space.id``)."""
        return f"{self._settings.collection}.{space}"

    # --- collections ----------------------------------------------------------------------------------------

    def prepare(self, space: str, dimension: int) -> None:
        """Create the collection of a space and that of the watermarks where they are missing, and their
        payload indexes.
        """
        from qdrant_client import models

        name = self.collection(space)
        self._create(name, layout.creation(self._settings, dimension))
        # A vector of one number: every version of the server takes that.
        self._create(
            WATERMARKS, {"vectors_config": models.VectorParams(size=1, distance=models.Distance.DOT)}
        )
        if not self._connection.local:
            for collection, wanted in ((name, layout.INDEXES), (WATERMARKS, layout.WATERMARK_INDEXES)):
                for field in layout.missing_indexes(self._info(collection), wanted):
                    self._index(collection, field, wanted[field])

    def _create(self, name: str, arguments: dict[str, Any]) -> None:
        if self._exists(name):
            return
        try:
            self._connection.call(
                f"create the collection {name}", lambda c: c.create_collection(name, **arguments)
            )
        except TabootError:
            # Another process, or an attempt of ours whose answer was lost, was first.
            if not self._exists(name):
                raise

    def _exists(self, name: str) -> bool:
        return self._connection.call("list its collections", lambda c: c.collection_exists(name))

    def _info(self, name: str) -> models.CollectionInfo:
        return self._connection.call(f"describe the collection {name}", lambda c: c.get_collection(name))

    def _index(self, name: str, field: str, kind: str) -> None:
        schema = layout.index_schema(field, kind)
        self._connection.call(
            f"index {field} of {name}",
            lambda c: c.create_payload_index(name, field_name=field, field_schema=schema, wait=True),
        )

    def switch_alias(self, space: str) -> bool:
        """Make the alias name the collection of ``space``, in one step; whether it did not yet."""
        from qdrant_client import models

        alias, name = self._settings.collection, self.collection(space)
        named = self._alias()
        if named == name:
            return False
        steps: list[Any] = [
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=name, alias_name=alias)
            )
        ]
        if named is not None:
            steps.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
        self._connection.call(
            f"switch the alias {alias}",
            lambda c: c.update_collection_aliases(change_aliases_operations=steps),
        )
        return True

    def _alias(self) -> str | None:
        answer = self._connection.call("list its aliases", lambda c: c.get_aliases())
        return next(
            (a.collection_name for a in answer.aliases if a.alias_name == self._settings.collection), None
        )

    def problems(self, space: str, dimension: int) -> list[tuple[str, bool]]:
        """In words, what is wrong with the collection of a space or the alias, and whether :meth:`prepare`
        and :meth:`switch_alias` mend it. Local mode keeps no layout, so there only presence is looked at."""
        name = self.collection(space)
        if not self._exists(name):
            return [(f"The collection {name} is not there.", True)]
        found = []
        if not self._connection.local:
            info = self._info(name)
            found = [
                (f"The collection {name} is laid out differently: {d}.", False)
                for d in layout.differences(info, self._settings, dimension)
            ]
            found += [
                (f"The collection {name} has no index of {field}.", True)
                for field in layout.missing_indexes(info, layout.INDEXES)
            ]
            if self._exists(WATERMARKS):
                found += [
                    (f"The collection {WATERMARKS} has no index of {field}.", True)
                    for field in layout.missing_indexes(self._info(WATERMARKS), layout.WATERMARK_INDEXES)
                ]
        if self._alias() != name:
            found.append((f"The alias {self._settings.collection} does not name {name}.", True))
        return found

    # --- points of a namespace ------------------------------------------------------------------------------

    def upsert(self, namespace: str, space: str, points: Points) -> None:
        """Write points, each of ``namespace``. A batch is applied when its request returns, so all are when
        this does.

        Raises what ``points.check`` raises, before anything is sent.
        """
        check_namespace(namespace)
        check(points, namespace, points.dense.shape[1] if points.dense.ndim == 2 else 0)
        for start in range(0, len(points), self._settings.batch_points):
            self._send(self.collection(space), points.part(start, start + self._settings.batch_points))

    def _send(self, name: str, part: Points) -> None:
        if self._connection.local:
            structs = _structs(part)
            self._connection.call("take points", lambda c: c.upsert(name, structs))
            return
        body = _body(part)
        if len(body) > _MAX_REQUEST_BYTES and len(part) > 1:
            half = len(part) // 2
            self._send(name, part.part(0, half))
            self._send(name, part.part(half, len(part)))
            return
        # The client passes bytes through as they are; to make its models would take five times as long.
        answer = self._connection.call("take points", lambda c: _upsert(c, name, body))
        if answer.result is None or answer.result.status != "completed":
            raise TabootError("E_QDRANT", "Qdrant did not confirm that points were stored.")

    def delete(self, namespace: str, space: str, ids: Collection[str]) -> None:
        """Delete those of ``ids`` that are of ``namespace``; what is not there is no error."""
        self._delete(namespace, self.collection(space), ids)

    def _delete(self, namespace: str, name: str, ids: Collection[str]) -> None:
        from qdrant_client import models

        wanted = list(ids)
        for start in range(0, len(wanted), _PAGE):
            selector = models.FilterSelector(filter=points_of(namespace, ids=wanted[start : start + _PAGE]))
            self._unless_missing(
                "delete points", lambda c, s=selector: c.delete(name, points_selector=s, wait=True), None
            )

    def scan(self, namespace: str, space: str, made_by: str) -> Iterator[tuple[str, str]]:
        """List (id, fingerprint) of every point of ``namespace``. The fingerprint is empty if the payload is
        not the one it was made of (``points.payload``, with ``made_by``).
        """
        name = self.collection(space)
        for record in self._scroll(namespace, name, with_payload=True):
            content = record.payload or {}
            said = content.get("fingerprint")
            yield (
                str(record.id),
                (said if isinstance(said, str) and said == fingerprint(content, made_by) else ""),
            )

    def _scroll(self, namespace: str, name: str, *, with_payload: bool) -> Iterator[models.Record]:
        offset: Any = None
        only = points_of(namespace)
        while True:
            at = offset
            empty: tuple[list[models.Record], Any] = ([], None)
            page, offset = self._unless_missing(
                "list points",
                lambda c, at=at: c.scroll(
                    name,
                    scroll_filter=only,
                    limit=_PAGE,
                    offset=at,
                    with_payload=with_payload,
                    with_vectors=False,
                ),
                empty,
            )
            yield from page
            if offset is None:
                return

    def count(self, namespace: str, space: str) -> int:
        """How many points of ``namespace`` there are, exactly."""
        only, name = points_of(namespace), self.collection(space)
        answer = self._unless_missing(
            "count points", lambda c: c.count(name, count_filter=only, exact=True), None
        )
        return 0 if answer is None else answer.count

    def _unless_missing(self, what: str, ask: Any, otherwise: Any, *, retries: int | None = None) -> Any:
        """The answer; ``otherwise`` where there is no such collection."""
        try:
            return self._connection.call(what, ask, retries=retries)
        except TabootError as error:
            if error.details.get("status") != 404:
                raise
            return otherwise

    # --- search ---------------------------------------------------------------------------------------------

    def nearest(
        self,
        namespace: str,
        space: str,
        query: npt.NDArray[np.float32],
        limit: int,
        where: Where | None = None,
        *,
        exact: bool = True,
    ) -> Found:
        """Find the ``limit`` points nearest to ``query`` by cosine; not ``exact``: by the graph and the int8
        codes, the scores by the vectors themselves. No retries.
        """
        params = None if self._connection.local else search_params(limit, exact=exact)
        return self._query(namespace, space, query.tolist(), layout.DENSE, limit, where, params)

    def matching(
        self, namespace: str, space: str, query: Sparse, limit: int, where: Where | None = None
    ) -> Found:
        """Find the ``limit`` points with the largest dot product with a sparse ``query``, of those that share
        a term with it: exactly, since an index of words is. No retries.
        """
        from qdrant_client import models

        indices, values = query
        vector = models.SparseVector(indices=indices.tolist(), values=values.tolist())
        return self._query(namespace, space, vector, layout.SPARSE, limit, where, None)

    def _query(
        self,
        namespace: str,
        space: str,
        query: Any,
        using: str,
        limit: int,
        where: Where | None,
        params: models.SearchParams | None,
    ) -> Found:
        """Ask for ids and scores alone: with one field of the payload an answer takes three times as long."""
        only, name = points_of(namespace, where=where), self.collection(space)
        answer = self._connection.call(
            "search",
            lambda c: c.query_points(
                name,
                query=query,
                using=using,
                query_filter=only,
                search_params=params,
                limit=limit,
                with_payload=False,
                with_vectors=False,
            ),
            retries=0,
        )
        found = []
        for hit in answer.points:
            try:
                key = uuid.UUID(str(hit.id)).bytes
            except ValueError:
                key = b""
            if not key or not math.isfinite(hit.score):
                raise TabootError(
                    "E_QDRANT",
                    f"Qdrant's answer to a search holds a point of the collection {name} that is none of"
                    " ours.",
                )
            found.append((key, hit.score))
        return found

    # --- watermarks -----------------------------------------------------------------------------------------

    def watermark(self, namespace: str, space: str, *, retries: int | None = None) -> Watermark | None:
        """What the points of ``namespace`` in the collection of ``space`` are equal to; None if nothing was
        ever written.
        """
        name = self.collection(space)
        return next((w for w in self._watermarks(namespace, retries) if w.collection == name), None)

    def set_watermark(self, namespace: str, space: str, snapshot: str, sources: str) -> None:
        """Say what the points equal: nothing (an empty ``snapshot``) before a run's first change, the
        snapshot's name after its last.
        """
        from qdrant_client import models

        check_namespace(namespace)
        name = self.collection(space)
        mark = Watermark(
            namespace=namespace,
            alias=self._settings.collection,
            collection=name,
            space=space,
            snapshot=snapshot,
            sources=sources,
        )
        point = models.PointStruct(id=_watermark_id(namespace, name), vector=[1.0], payload=asdict(mark))
        self._connection.call("take a watermark", lambda c: c.upsert(WATERMARKS, [point], wait=True))

    def _watermarks(self, namespace: str, retries: int | None = None) -> list[Watermark]:
        """All watermarks of a namespace: one for each collection that holds, or held, points of it."""
        only = points_of(namespace)
        try:
            page, _ = self._connection.call(
                "give its watermarks",
                lambda c: c.scroll(WATERMARKS, scroll_filter=only, limit=_PAGE, with_payload=True),
                retries=retries,
            )
        except TabootError as error:
            if error.details.get("status") != 404:
                raise
            return []
        marks = []
        for record in page:
            try:
                marks.append(Watermark(**(record.payload or {})))
            except TypeError:
                raise TabootError(
                    "E_QDRANT",
                    f"A point of the collection {WATERMARKS} is no watermark.",
                    point=str(record.id),
                ) from None
        return [m for m in marks if m.alias == self._settings.collection]

    def other_spaces(self, namespace: str, space: str) -> list[str]:
        """Spaces besides ``space`` whose collections hold, or held, points of ``namespace``."""
        return sorted(w.space for w in self._watermarks(namespace) if w.space != space)

    def drop(self, namespace: str, space: str) -> None:
        """Delete all points of ``namespace`` of a space, then its watermark; the collection goes with the
        last namespace.
        """
        from qdrant_client import models

        name = self.collection(space)
        mark = self.watermark(namespace, space)
        if mark is not None:
            # A reader looks at the watermark after its search: it must not take what is left for everything.
            self.set_watermark(namespace, space, "", mark.sources)
        self._delete(namespace, name, [str(r.id) for r in self._scroll(namespace, name, with_payload=False)])
        selector = models.FilterSelector(filter=points_of(namespace, ids=[_watermark_id(namespace, name)]))
        self._unless_missing(
            "delete a watermark", lambda c: c.delete(WATERMARKS, points_selector=selector, wait=True), None
        )
        others = models.Filter(
            must=[models.FieldCondition(key="collection", match=models.MatchValue(value=name))]
        )
        left = self._unless_missing(
            "count watermarks", lambda c: c.count(WATERMARKS, count_filter=others, exact=True), None
        )
        points = self._unless_missing("count points", lambda c: c.count(name, exact=True), None)
        if left is not None and points is not None and left.count == 0 and points.count == 0:
            self._unless_missing(f"delete the collection {name}", lambda c: c.delete_collection(name), None)


def search_params(limit: int, *, exact: bool) -> models.SearchParams:
    """How the server is to look for the ``limit`` nearest vectors: through all of them, or by its graph."""
    from qdrant_client import models

    how = models.QuantizationSearchParams
    if exact:
        return models.SearchParams(exact=True, quantization=how(ignore=True))
    return models.SearchParams(
        hnsw_ef=max(_MIN_EF, _EF_FACTOR * limit),
        quantization=how(rescore=True, oversampling=_OVERSAMPLING),
    )


def _watermark_id(namespace: str, collection: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{collection}:{namespace}"))


def _body(part: Points) -> bytes:
    """The request's JSON: points column by column, arrays written without a detour by Python's numbers."""
    try:
        return orjson.dumps(
            {
                "batch": {
                    "ids": part.ids,
                    "vectors": {
                        layout.DENSE: np.ascontiguousarray(part.dense),
                        layout.SPARSE: [{"indices": i, "values": v} for i, v in part.sparse],
                    },
                    "payloads": part.payloads,
                }
            },
            option=orjson.OPT_SERIALIZE_NUMPY,
        )
    except orjson.JSONEncodeError:
        raise TabootError("E_INTERNAL", "A batch of points holds what JSON cannot.") from None


def _structs(part: Points) -> Sequence[models.PointStruct]:
    """The client's own points, for local mode; not validated a second time, since ``points.check`` did."""
    from qdrant_client import models

    vector, point = models.SparseVector.model_construct, models.PointStruct.model_construct
    return [
        point(
            id=part.ids[i],
            vector={
                layout.DENSE: dense,
                layout.SPARSE: vector(indices=indices.tolist(), values=values.tolist()),
            },
            payload=part.payloads[i],
        )
        for i, (dense, (indices, values)) in enumerate(zip(part.dense.tolist(), part.sparse, strict=True))
    ]


def _upsert(client: QdrantClient, name: str, body: bytes) -> models.InlineResponse2008:
    send = client.http.points_api.upsert_points
    return send(collection_name=name, wait=True, point_insert_operations=body)  # type: ignore[arg-type]
