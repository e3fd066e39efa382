"""How a collection of points is laid out, and how one differs from that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from taboot_pipelines.settings import QdrantSettings
from taboot_pipelines.stores.vectors.sparse import WEIGHTING

if TYPE_CHECKING:
    from qdrant_client import models

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
