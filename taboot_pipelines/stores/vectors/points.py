"""What a point is: its id, its payload, and the fingerprint of both (rule ``equal-text-once``).

One point holds one chunk text of a namespace, with every place where it stands as ``occurrences[]``; a text
that stands in more than 256 places has a further point for each 256. Top-level fields are those of the
smallest (doc_id, chunk_index). The text itself is not among them.

A text's words are a sparse vector for BM25. What is stored knows nothing of other chunks (rule
``one-ranking``): the value of a term in a chunk is BM25's saturated term frequency with a constant average
length (Robertson, Zaragoza 2009, with the mean replaced); the IDF comes with the query. A dot product on the
server is thus BM25 but for the length norm, and only chooses candidates: scores are ours. A term's index is
the CRC-32 of its UTF-8 bytes. Two terms of one chunk that share an index are added up, in chunks and in
queries alike. All values are positive, so a collision can only raise a server's score: no candidate is lost
by it.
"""

from __future__ import annotations

import hashlib
import re
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import is_source_type
from taboot_pipelines.model.ids import digest
from taboot_pipelines.settings import QdrantSettings

if TYPE_CHECKING:
    from qdrant_client import models


K1, B = 1.2, 0.75
#: Words of a chunk as the analyzer counts them; real documentation in chunks of 256 tokens has about 60.
AVERAGE_LENGTH = 64.0
#: Names everything that the stored values depend on but the analyzer: another name means other values.
WEIGHTING = f"bm25:crc32:{K1:g}:{B:g}:{AVERAGE_LENGTH:g}"

Sparse = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]

#: Names of the two vectors of a point.
DENSE, SPARSE = "dense", "bm25"
HNSW = {"m": 32, "ef_construct": 128, "full_scan_threshold": 10_000}
_KEYWORDS = (
    "doc_id",
    "chunk_id",
    "url",
    "title",
    "source",
    "source_id",
    "job_id",
    "mime",
    "lang",
    "tags",
    "domain",
    "section_header",
    "content_type",
)
_INTEGERS = ("chunk_index", "created_at", "updated_at", "moment")
#: Payload indexes by field. ``occurrences[]`` has those that a search filters by: it asks for one occurrence
#: that passes.
INDEXES: dict[str, str] = {
    "namespace": "keyword",
    "sha256": "keyword",
    **dict.fromkeys(_KEYWORDS, "keyword"),
    **dict.fromkeys(_INTEGERS, "integer"),
    "crawled_at": "datetime",
    **{
        f"occurrences[].{name}": "keyword"
        for name in ("doc_id", "source", "source_id", "tags", "lang", "domain", "content_type")
    },
    "occurrences[].moment": "integer",
}
#: What watermarks are filtered by: a server in strict mode refuses a filter without an index.
WATERMARK_INDEXES = {"namespace": "keyword", "collection": "keyword"}
_IDS = uuid.NAMESPACE_OID.bytes
#: Occurrences of one point at most.
BUCKET = 256
Payload = dict[str, Any]
_CHUNK_ID = re.compile(r"[0-9a-f-]{36}:[0-9]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Fields of an occurrence by type. ``crawled_at`` is ISO 8601; ``moment`` counts microseconds, ``created_at``
#: and ``updated_at`` seconds.
_TEXTS = (
    "doc_id",
    "chunk_id",
    "url",
    "title",
    "source",
    "source_id",
    "job_id",
    "mime",
    "lang",
    "domain",
    "section_header",
    "content_type",
    "crawled_at",
)
_NUMBERS = ("chunk_index", "text_len", "start", "end", "created_at", "updated_at")
OCCURRENCE_FIELDS = frozenset({*_TEXTS, *_NUMBERS, "moment", "tags"})
#: Fields of the point alone.
_OWN = frozenset({"namespace", "sha256", "occurrences", "fingerprint"})
#: A text that stands in more places than this times :data:`BUCKET` is refused as a defect.
_MAX_BUCKETS = 4096


def term_index(term: str) -> int:
    """The 32-bit index of a term."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def chunk_vector(terms: Mapping[str, int], length: int) -> Sparse:
    """(indices ascending, values) of a chunk from its term frequencies and its length in words."""
    norm = K1 * (1 - B + B * length / AVERAGE_LENGTH)
    return vector({term: tf * (K1 + 1) / (tf + norm) for term, tf in terms.items()})


def vector(weights: Mapping[str, float]) -> Sparse:
    """(indices ascending, values): the weights of terms, added up where two share an index."""
    summed: dict[int, float] = {}
    for term, weight in weights.items():
        index = term_index(term)
        summed[index] = summed.get(index, 0.0) + weight
    ordered = sorted(summed)
    return np.array(ordered, dtype=np.uint32), np.array([summed[i] for i in ordered], dtype=np.float32)


def creation(settings: QdrantSettings, dimension: int) -> dict[str, Any]:
    """The arguments of ``create_collection``: cosine, vectors on disk, int8 codes in memory, and BM25 without
    the server's IDF.
    """
    from qdrant_client import models

    return {
        "vectors_config": {
            DENSE: models.VectorParams(size=dimension, distance=models.Distance.COSINE, on_disk=True)
        },
        "sparse_vectors_config": {SPARSE: models.SparseVectorParams()},
        "hnsw_config": models.HnswConfigDiff(**HNSW),
        "quantization_config": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(
                type=models.ScalarType.INT8, quantile=0.99, always_ram=True
            )
        ),
        "shard_number": settings.shard_number,
        "replication_factor": settings.replication_factor,
        "metadata": {"weighting": WEIGHTING},
    }


def index_schema(field: str, kind: str) -> Any:
    """What ``create_payload_index`` takes for a field. The namespace is the tenant, so that its points lie
    together.
    """
    from qdrant_client import models

    if field == "namespace":
        return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    return models.PayloadSchemaType(kind)


def missing_indexes(info: models.CollectionInfo, wanted: Mapping[str, str]) -> list[str]:
    """Fields of ``wanted`` whose payload index is not there, or is of another type."""
    return [
        f
        for f, kind in wanted.items()
        if f not in info.payload_schema or info.payload_schema[f].data_type.value != kind
    ]


def differences(info: models.CollectionInfo, settings: QdrantSettings, dimension: int) -> list[str]:
    """Say in words what of a collection's layout is not as :func:`creation` asks for, its indexes aside."""
    params, found = info.config.params, []
    vectors = params.vectors if isinstance(params.vectors, dict) else {}
    dense = vectors.get(DENSE)
    if dense is None or dense.size != dimension or dense.distance.value != "Cosine":
        found.append(f"the vector {DENSE} is not of {dimension} dimensions and cosine distance")
    elif not dense.on_disk:
        found.append(f"the vector {DENSE} is not kept on disk")
    sparse = (params.sparse_vectors or {}).get(SPARSE)
    if sparse is None or sparse.modifier not in (None, "none"):
        found.append(f"the sparse vector {SPARSE} is not there, or the server applies an IDF of its own")
    if (
        params.shard_number != settings.shard_number
        or params.replication_factor != settings.replication_factor
    ):
        found.append("it has another number of shards or replicas than the settings say")
    hnsw = info.config.hnsw_config
    if any(getattr(hnsw, name) != value for name, value in HNSW.items()):
        found.append("its HNSW parameters differ")
    scalar = getattr(info.config.quantization_config, "scalar", None)
    if scalar is None or scalar.type.value != "int8" or not scalar.always_ram:
        found.append("it has no int8 codes in memory")
    return found


@dataclass(frozen=True, slots=True)
class Points:
    """Points to write, column by column. ``dense``: float32 of shape (n, dimension); ``sparse``: (indices,
    values) of each.
    """

    ids: Sequence[str]
    payloads: Sequence[Payload]
    dense: npt.NDArray[np.float32]
    sparse: Sequence[Sparse]

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, end: int) -> Points:
        return Points(
            self.ids[start:end], self.payloads[start:end], self.dense[start:end], self.sparse[start:end]
        )


def point_id(namespace: str, sha256: str, bucket: int = 0) -> str:
    """UUID version 5 (RFC 9562) of ``{namespace}:{chunk sha256}``, followed by ``:{bucket}`` from the second
    bucket on.
    """
    return str(uuid.UUID(bytes=point_key(namespace, sha256, bucket)))


def point_key(namespace: str, sha256: str, bucket: int = 0) -> bytes:
    """The 16 bytes of :func:`point_id`, for whoever needs those of all texts at once."""
    name = f"{namespace}:{sha256}:{bucket}" if bucket else f"{namespace}:{sha256}"
    key = bytearray(
        hashlib.sha1(_IDS + name.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()[:16]
    )
    key[6] = key[6] & 0x0F | 0x50  # version 5
    key[8] = key[8] & 0x3F | 0x80  # the variant of RFC 9562
    return bytes(key)


def payload(namespace: str, sha256: str, occurrences: Sequence[Mapping[str, Any]], made_by: str) -> Payload:
    """The payload of one point. ``occurrences``: ascending by (doc_id, chunk_index); ``made_by`` names what
    its vectors come from.
    """
    made: Payload = {
        **occurrences[0],
        "namespace": namespace,
        "sha256": sha256,
        "occurrences": list(occurrences),
    }
    made["fingerprint"] = fingerprint(made, made_by)
    return made


def sources_digest(sources: Mapping[str, tuple[str, Sequence[str]]]) -> str:
    """A digest of what payloads say of whole sources, {source id: (type, tags)}, which may change without any
    document changing.
    """
    return digest({source: [type_, sorted(tags)] for source, (type_, tags) in sources.items()})


def fingerprint(content: Mapping[str, Any], made_by: str) -> str:
    """SHA-256 (64 hex digits) of all that a point holds: its payload, and the name of what made its vectors.

    Empty for a payload that is none of ours, so that it equals no fingerprint.
    """
    try:
        own = orjson.dumps(
            [{k: v for k, v in content.items() if k != "fingerprint"}, made_by], option=orjson.OPT_SORT_KEYS
        )
    except (orjson.JSONEncodeError, RecursionError):
        return ""
    return hashlib.sha256(own).hexdigest()


def check(points: Points, namespace: str, dimension: int) -> None:
    """Refuse what must not be sent, naming the point and the field, never a
    value.

    Raises ``E_NAMESPACE`` for a point of another namespace, ``E_VECTOR`` for an unusable vector,
    ``E_INTERNAL`` otherwise.
    """
    if not len(points.ids) == len(points.payloads) == len(points.dense) == len(points.sparse):
        raise TabootError("E_INTERNAL", "The columns of a batch of points differ in length.")
    if points.dense.ndim != 2 or points.dense.shape[1] != dimension or points.dense.dtype != np.float32:
        raise TabootError(
            "E_VECTOR",
            f"The vectors of a batch of points are not float32 of {dimension} dimensions.",
            expected=dimension,
        )
    finite = np.isfinite(points.dense).all(axis=1)
    if not finite.all():
        raise TabootError(
            "E_VECTOR",
            f"The vector of point {points.ids[int((~finite).argmax())]} holds a number that is not finite.",
        )
    for point, content in zip(points.ids, points.payloads, strict=True):
        if content.get("namespace") != namespace:
            raise TabootError(
                "E_NAMESPACE", f"Point {point} is of another namespace than {namespace}.", point=point
            )
        wrong = _wrong(content)
        if (
            wrong is None
            and point_id(namespace, content["sha256"]) != point
            and not _is_later_bucket(namespace, content["sha256"], point)
        ):
            wrong = "id"
        if wrong is not None:
            raise TabootError(
                "E_INTERNAL",
                f"The field {wrong} of point {point} is not what the payload schema asks for.",
                point=point,
                field=wrong,
            )


def _is_later_bucket(namespace: str, sha256: str, point: str) -> bool:
    return any(point_id(namespace, sha256, b) == point for b in range(1, _MAX_BUCKETS))


def _wrong(content: Mapping[str, Any]) -> str | None:
    """The first field that is not as it should be."""
    if content.keys() != OCCURRENCE_FIELDS | _OWN:
        return next(iter(sorted(content.keys() ^ (OCCURRENCE_FIELDS | _OWN))))
    for name in ("sha256", "fingerprint"):
        if not isinstance(content[name], str) or not _SHA256.fullmatch(content[name]):
            return name
    places = content["occurrences"]
    if not isinstance(places, list) or not 0 < len(places) <= BUCKET:
        return "occurrences"
    before: tuple[str, int] | None = None
    for place in places:
        wrong = _wrong_place(place)
        if wrong is not None:
            return wrong
        here = (place["doc_id"], place["chunk_index"])
        if before is not None and here <= before:
            return "occurrences"
        before = here
    first = places[0]
    return next((name for name in OCCURRENCE_FIELDS if content[name] != first[name]), None)


def _wrong_place(place: Mapping[str, Any]) -> str | None:
    if place.keys() != OCCURRENCE_FIELDS:
        return next(iter(sorted(place.keys() ^ OCCURRENCE_FIELDS)))
    for name in _TEXTS:
        if type(place[name]) is not str:
            return name
    for name in _NUMBERS:
        if type(place[name]) is not int or place[name] < 0:
            return name
    if type(place["moment"]) is not int:
        return "moment"
    if place["chunk_id"] != f"{place['doc_id']}:{place['chunk_index']}" or not _CHUNK_ID.fullmatch(
        place["chunk_id"]
    ):
        return "chunk_id"
    if not place["url"]:
        return "url"
    if not place["title"]:
        return "title"
    if not is_source_type(place["source"]):
        return "source"
    if not 2 <= len(place["lang"]) <= 5:
        return "lang"
    if place["text_len"] < 1:
        return "text_len"
    if place["updated_at"] < place["created_at"]:
        return "updated_at"
    tags = place["tags"]
    if type(tags) is not list or not all(type(t) is str for t in tags):
        return "tags"
    return None
