"""What local mode ignores, held to Qdrant's own engine in this process (``qdrant-edge-py``): the collection's
layout and indexes in force, the index built, and a search that asks for exactness. It has no HTTP, no aliases
and one shard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import qdrant_edge as edge
from qdrant_client import models

from taboot_pipelines.model import ids
from taboot_pipelines.retrieval import candidates
from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines.stores.vectors import points as point_model
from taboot_pipelines.stores.vectors.filters import Where, points_of
from taboot_pipelines.stores.vectors.points import payload, point_id
from taboot_pipelines.stores.vectors.qdrant import search_params

COUNT, DIMENSION, MOMENT = 4000, 32, 1_704_067_200_000_000


def record(i: int, part: int) -> dict[str, Any]:
    doc_id = ids.doc_id("default", f"{i}/{part}")
    return {
        "doc_id": doc_id,
        "chunk_id": f"{doc_id}:0",
        "chunk_index": 0,
        "url": "docs:x",
        "title": "x",
        "source": "files",
        "source_id": f"s{i % 5}" if not part else "shared",
        "job_id": "job",
        "mime": "text/plain",
        "lang": "en" if not part else "de",
        "domain": "",
        "section_header": "",
        "content_type": "prose",
        "crawled_at": "2024-01-01T00:00:00Z",
        "text_len": 3,
        "start": 0,
        "end": 3,
        "created_at": 1,
        "updated_at": 2,
        "moment": MOMENT + i if not part else 7,
        "tags": ["t"] if i % 3 else [],
    }


class Engine:
    def __init__(self, path: str) -> None:
        rng = np.random.default_rng(3)
        self.dense = rng.standard_normal((COUNT, DIMENSION)).astype(np.float32)
        self.dense /= np.linalg.norm(self.dense, axis=1, keepdims=True)
        self.namespaces = ["default" if i % 2 else "other" for i in range(COUNT)]
        self.shas = [ids.sha256_hex(str(i)) for i in range(COUNT)]
        self.texts = [
            "the" if i % 10 == 0 else f"nginx {'port ' * (i % 4)}number{i % 50}" for i in range(COUNT)
        ]
        self.places = [sorted((record(i, 0), record(i, 1)), key=lambda r: r["doc_id"]) for i in range(COUNT)]
        hnsw = point_model.HNSW | {"full_scan_threshold": 100}  # so that the graph is used at this size
        self.shard = edge.EdgeShard.create(
            path,
            edge.EdgeConfig(
                vectors={"dense": edge.EdgeVectorParams(DIMENSION, edge.Distance.Cosine, on_disk=True)},
                sparse_vectors={"bm25": edge.EdgeSparseVectorParams()},
                hnsw_config=edge.HnswIndexConfig(**hnsw),
                quantization_config=edge.ScalarQuantizationConfig(edge.ScalarType.Int8, 0.99, True),
                optimizers=edge.EdgeOptimizersConfig(indexing_threshold=100),
            ),
        )
        kinds = {
            "keyword": edge.PayloadSchemaType.Keyword,
            "integer": edge.PayloadSchemaType.Integer,
            "datetime": edge.PayloadSchemaType.Datetime,
        }
        for field, kind in point_model.INDEXES.items():
            self.shard.update(edge.UpdateOperation.create_field_index(field, kinds[kind]))
        for start in range(0, COUNT, 500):
            self.shard.update(
                edge.UpdateOperation.upsert_points([self._point(i) for i in range(start, start + 500)])
            )
        assert self.shard.optimize(), "no index was built: this would show nothing"

    def _point(self, i: int) -> edge.Point:
        indices, values = point_model.chunk_vector(*analyze(self.texts[i]))
        return edge.Point(
            point_id(self.namespaces[i], self.shas[i]),
            {
                "dense": self.dense[i].tolist(),
                "bm25": edge.SparseVector(indices=indices.tolist(), values=values.tolist()),
            },
            payload(self.namespaces[i], self.shas[i], self.places[i], "tests"),
        )

    def search(
        self,
        query: Any,
        using: str,
        only: models.Filter,
        limit: int,
        asked: models.SearchParams | None = None,
    ) -> list[tuple[str, float]]:
        """``asked``: what our own requests say of how to search; None: nothing."""
        params = None
        if asked is not None:
            how = asked.quantization
            assert how is not None
            params = edge.SearchParams(
                hnsw_ef=asked.hnsw_ef,
                exact=bool(asked.exact),
                quantization=edge.QuantizationSearchParams(
                    ignore=bool(how.ignore), rescore=how.rescore, oversampling=how.oversampling
                ),
            )
        found = self.shard.query(
            edge.QueryRequest(
                limit=limit,
                query=edge.Query.Nearest(query, using=using),
                filter=translated(only),
                with_payload=True,
                params=params,
            )
        )
        return [(p.payload["sha256"], p.score) for p in found]


def translated(only: models.Filter) -> edge.Filter:
    """The client's model as the engine's own."""
    conditions: list[Any] = []
    for c in only.must:
        if isinstance(c, models.NestedCondition):
            conditions.append(edge.NestedCondition(c.nested.key, translated(c.nested.filter)))
        elif isinstance(c, models.HasIdCondition):
            conditions.append(edge.HasIdCondition(set(c.has_id)))
        elif c.range is not None:
            conditions.append(
                edge.FieldCondition(c.key, range=edge.RangeFloat(gte=c.range.gte, lt=c.range.lt))
            )
        else:
            match = (
                edge.MatchAny(c.match.any)
                if isinstance(c.match, models.MatchAny)
                else edge.MatchValue(c.match.value)
            )
            conditions.append(edge.FieldCondition(c.key, match=match))
    return edge.Filter(must=conditions)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(str(tmp_path_factory.mktemp("engine")))
    yield made
    made.shard.close()


def passes(place: dict[str, Any], where: Where) -> bool:
    return (
        (where.sources is None or place["source_id"] in where.sources)
        and (where.languages is None or place["lang"] in where.languages)
        and (where.tags is None or bool(where.tags & set(place["tags"])))
        and (where.moment_from is None or place["moment"] >= where.moment_from)
        and (where.moment_to is None or place["moment"] < where.moment_to)
    )


@pytest.mark.parametrize(
    "where",
    [
        Where("default"),
        Where("default", sources=frozenset({"s1", "s2"})),
        Where("default", sources=frozenset({"s1"}), languages=frozenset({"de"})),
        Where("default", sources=frozenset({"shared"}), tags=frozenset({"t"})),
        Where("default", moment_from=MOMENT + 101, moment_to=MOMENT + 202),
        Where("default", languages=frozenset({"en"}), moment_from=MOMENT + COUNT - 300),
        Where("default", moment_to=8),
        Where("default", types=frozenset({"web"})),
    ],
    ids=range(8),
)
def test_an_exact_search_is_exact_whatever_the_filter(engine: Engine, where: Where) -> None:
    query = np.random.default_rng(9).standard_normal(DIMENSION).astype(np.float32)
    cosines = engine.dense.astype(np.float64) @ query / np.linalg.norm(query)
    keep = [
        i
        for i in range(COUNT)
        if engine.namespaces[i] == "default"
        and where.types is None
        and any(passes(p, where) for p in engine.places[i])
    ]
    ranked = sorted(keep, key=lambda i: -cosines[i])
    for limit in (10, COUNT):
        asked = search_params(limit, exact=True)
        found = engine.search(query.tolist(), "dense", points_of("default", where=where), limit, asked)
        assert [s for s, _ in found] == [engine.shas[i] for i in ranked[:limit]]
        assert np.allclose([v for _, v in found], [cosines[i] for i in ranked[:limit]], atol=1e-6)


def test_an_approximate_search_finds_the_nearest_ten_all_but_always(engine: Engine) -> None:
    """Recall@10 of at least 0.99 with the margin that a search asks for, on vectors without any structure,
    which are the hardest for a graph."""
    rng, found = np.random.default_rng(17), 0
    own = [i for i in range(COUNT) if engine.namespaces[i] == "default"]
    fetch = 10 + candidates._MARGIN
    for _ in range(60):
        query = rng.standard_normal(DIMENSION).astype(np.float32)
        nearest = sorted(own, key=lambda i: -float(engine.dense[i] @ query))[:10]
        asked = search_params(fetch, exact=False)
        given = dict(engine.search(query.tolist(), "dense", points_of("default"), fetch, asked))
        assert len(given) == fetch
        found += sum(engine.shas[i] in given for i in nearest)
        for i in set(nearest) & {i for i in own if engine.shas[i] in given}:
            cosine = float(engine.dense[i].astype(np.float64) @ query / np.linalg.norm(query))
            assert given[engine.shas[i]] == pytest.approx(cosine, abs=1e-6), "scored by its code alone"
    assert found / 600 >= 0.99


def test_a_sparse_search_gives_every_text_that_shares_a_term(engine: Engine) -> None:
    weights = {"nginx": 1.5, "port": 2.0, "number7": 3.0}
    indices, values = point_model.vector(weights)
    found = dict(
        engine.search(
            edge.SparseVector(indices=indices.tolist(), values=values.tolist()),
            "bm25",
            points_of("default"),
            COUNT,
        )
    )
    expected = {}
    for i in range(COUNT):
        terms, length = analyze(engine.texts[i])
        if engine.namespaces[i] == "default" and any(t in terms for t in weights):
            stored = dict(zip(*(a.tolist() for a in point_model.chunk_vector(terms, length)), strict=True))
            expected[engine.shas[i]] = sum(
                w * stored.get(point_model.term_index(t), 0.0) for t, w in weights.items()
            )
    assert found == pytest.approx(expected, rel=1e-6)


def test_ids_reach_only_the_points_of_their_namespace(engine: Engine) -> None:
    both = [point_id(n, s) for n, s in zip(engine.namespaces[:20], engine.shas[:20], strict=True)]
    found = engine.search(engine.dense[0].tolist(), "dense", points_of("default", ids=both), 100)
    assert sorted(s for s, _ in found) == sorted(
        s for n, s in zip(engine.namespaces[:20], engine.shas[:20], strict=True) if n == "default"
    )
    engine.shard.update(
        edge.UpdateOperation.delete_points_by_filter(translated(points_of("third", ids=both)))
    )
    assert len(engine.search(engine.dense[0].tolist(), "dense", points_of("default", ids=both), 100)) == 10
