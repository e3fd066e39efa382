"""Points in Qdrant: one suite against the fake over HTTP, local mode in process, and a server where there is
one.

``TABOOT_TEST_QDRANT_URL`` names a server. What local mode ignores (indexes, quantization, HNSW, shards) is
asked for and described here, but acts only there.
"""

from __future__ import annotations

import importlib.util
import os
import uuid
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.settings import QdrantSettings, Settings
from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines.stores.vectors import open_vectors, qdrant
from taboot_pipelines.stores.vectors import points as points_module
from taboot_pipelines.stores.vectors.filters import Where, points_of
from taboot_pipelines.stores.vectors.points import Points, fingerprint, payload, point_id
from taboot_pipelines.stores.vectors.qdrant import QdrantPoints
from taboot_pipelines_tests.fakes.qdrant import FakeQdrant

DIMENSION = 16
SPACE = f"tests.0123456789ab.{DIMENSION}"
MADE_BY = "tests"
SERVER = os.environ.get("TABOOT_TEST_QDRANT_URL")
SECRET = "sw0rdf1sh"


@pytest.fixture
def fake() -> Iterator[FakeQdrant]:
    with FakeQdrant() as server:
        yield server


@pytest.fixture(
    params=[
        "fake",
        "strict",
        "local",
        pytest.param(
            "server", marks=pytest.mark.skipif(SERVER is None, reason="TABOOT_TEST_QDRANT_URL is not set")
        ),
    ]
)
def store(request: pytest.FixtureRequest) -> Iterator[QdrantPoints]:
    url = {"local": ":memory:", "server": SERVER}.get(request.param) or request.getfixturevalue("fake").url
    if request.param == "strict":
        request.getfixturevalue("fake").strict = True
    # An alias of its own: tests on a server meet nobody's collections, and leave none.
    opened = QdrantPoints(
        QdrantSettings(url=url, collection=f"test-{uuid.uuid4().hex[:12]}", batch_points=7, max_retries=2)
    )
    opened.prepare(SPACE, DIMENSION)
    yield opened
    for namespace in ("default", "other"):
        for space in (SPACE, f"next.0123456789ab.{DIMENSION}"):
            opened.drop(namespace, space)
    opened.close()


@pytest.fixture
def http(fake: FakeQdrant, monkeypatch: pytest.MonkeyPatch) -> QdrantPoints:
    monkeypatch.setattr("taboot_pipelines.stores.vectors.connection._FIRST_DELAY", 0.001)
    opened = QdrantPoints(QdrantSettings(url=fake.url, max_retries=3))
    opened.prepare(SPACE, DIMENSION)
    fake.requests.clear()
    return opened


def occurrence(path: str, index: int = 0, namespace: str = "default", **fields) -> dict:
    doc_id = ids.doc_id(namespace, path)
    return {
        "doc_id": doc_id,
        "chunk_id": f"{doc_id}:{index}",
        "chunk_index": index,
        "url": f"docs:{path}",
        "title": path,
        "source": "files",
        "source_id": "docs",
        "job_id": "job",
        "mime": "text/markdown",
        "lang": "en",
        "domain": "",
        "section_header": "",
        "content_type": "prose",
        "crawled_at": "2024-01-01T00:00:00Z",
        "text_len": 3,
        "start": 0,
        "end": 3,
        "created_at": 1,
        "updated_at": 2,
        "moment": 1_704_067_200_000_000,
        "tags": [],
        **fields,
    }


def made(texts: dict[str, list[dict]], namespace: str = "default") -> Points:
    """Points of {text: occurrences}."""
    shas = [ids.sha256_hex(t) for t in texts]
    rng = [np.random.default_rng(int(s[:8], 16)).standard_normal(DIMENSION) for s in shas]
    dense = np.array([v / np.linalg.norm(v) for v in rng], dtype=np.float32).reshape(-1, DIMENSION)
    contents = [
        payload(namespace, s, sorted(o, key=lambda x: (x["doc_id"], x["chunk_index"])), MADE_BY)
        for s, o in zip(shas, texts.values(), strict=True)
    ]
    return Points(
        [point_id(namespace, s) for s in shas],
        contents,
        dense,
        [points_module.chunk_vector(*analyze(t)) for t in texts],
    )


def named(found, *written: Points) -> list[tuple[str, float]]:
    """What a search found, as (SHA-256 of the text, score)."""
    texts = {uuid.UUID(p).bytes: c["sha256"] for w in written for p, c in zip(w.ids, w.payloads, strict=True)}
    return [(texts[key], score) for key, score in found]


def code(call) -> str:
    with pytest.raises(TabootError) as caught:
        call()
    assert SECRET not in str(caught.value) + str(caught.value.details)
    return caught.value.code


class TestConformance:
    def test_what_is_written_is_read_again(self, store):
        written = made({f"text {i}": [occurrence(f"{i}.md", tags=["a"])] for i in range(40)})
        store.upsert("default", SPACE, written)
        assert store.count("default", SPACE) == 40
        assert dict(store.scan("default", SPACE, MADE_BY)) == {
            p: c["fingerprint"] for p, c in zip(written.ids, written.payloads, strict=True)
        }
        store.upsert("default", SPACE, written.part(0, 10))
        assert store.count("default", SPACE) == 40
        store.delete("default", SPACE, [*written.ids[:15], point_id("default", "0" * 64)])
        assert {p for p, _ in store.scan("default", SPACE, MADE_BY)} == set(written.ids[15:])

    def test_a_page_is_not_the_end(self, store, monkeypatch):
        monkeypatch.setattr(qdrant, "_PAGE", 4)
        written = made({f"text {i}": [occurrence(f"{i}.md")] for i in range(13)})
        store.upsert("default", SPACE, written)
        assert len(dict(store.scan("default", SPACE, MADE_BY))) == 13
        store.delete("default", SPACE, written.ids)
        assert store.count("default", SPACE) == 0

    def test_nearest_is_exact_and_filtered_by_one_occurrence(self, store):
        texts = {
            f"text {i}": [
                occurrence(f"{i}.md", source_id=["a", "b"][i % 2], tags=["x"]),
                occurrence(f"{i}-again.md", source_id="c", lang="de", moment=5),
            ]
            for i in range(30)
        }
        written = made(texts)
        store.upsert("default", SPACE, written)
        query = np.random.default_rng(7).standard_normal(DIMENSION).astype(np.float32)
        cosines = written.dense.astype(np.float64) @ query / np.linalg.norm(query)
        ranked = [written.payloads[i]["sha256"] for i in np.argsort(-cosines)]
        found = named(store.nearest("default", SPACE, query, 12), written)
        assert [s for s, _ in found] == ranked[:12] and np.allclose(
            [v for _, v in found], np.sort(cosines)[::-1][:12], atol=1e-6
        )
        of_a = [
            s
            for s in ranked
            if s
            in {c["sha256"] for c in written.payloads if "a" in {o["source_id"] for o in c["occurrences"]}}
        ]
        only_a = Where("default", sources=frozenset("a"))
        assert [s for s, _ in named(store.nearest("default", SPACE, query, 30, only_a), written)] == of_a
        # Each condition holds of some occurrence, but of no single one.
        assert (
            store.nearest(
                "default",
                SPACE,
                query,
                30,
                Where("default", sources=frozenset("a"), languages=frozenset(["de"])),
            )
            == []
        )
        assert (
            store.nearest(
                "default", SPACE, query, 30, Where("default", tags=frozenset("x"), moment_from=5, moment_to=6)
            )
            == []
        )
        assert (
            len(
                store.nearest(
                    "default",
                    SPACE,
                    query,
                    30,
                    Where("default", types=frozenset(["files"]), moment_from=5, moment_to=6),
                )
            )
            == 30
        )

    def test_matching_gives_the_dot_product_of_those_that_share_a_term(self, store):
        texts = ["nginx proxy", "nginx nginx port", "redis", "the", "node-exporter nginx"]
        written = made({t: [occurrence(f"{i}.md")] for i, t in enumerate(texts)})
        store.upsert("default", SPACE, written)
        weights = points_module.vector({"nginx": 2.0, "port": 3.0})
        found = named(store.matching("default", SPACE, weights, 10), written)

        def value(tf: int, length: int) -> float:
            return (
                tf
                * (points_module.K1 + 1)
                / (
                    tf
                    + points_module.K1
                    * (1 - points_module.B + points_module.B * length / points_module.AVERAGE_LENGTH)
                )
            )

        expected = {0: 2 * value(1, 2), 1: 2 * value(2, 3) + 3 * value(1, 3), 4: 2 * value(1, 3)}
        assert dict(found) == pytest.approx(
            {ids.sha256_hex(texts[i]): v for i, v in expected.items()}, rel=1e-6
        )
        assert [s for s, v in found] == [s for s, v in sorted(found, key=lambda f: -f[1])]

    def test_namespaces_do_not_meet(self, store):
        mine = made({"same text": [occurrence("a.md")], "mine": [occurrence("b.md")]})
        theirs = made(
            {
                "same text": [occurrence("a.md", namespace="other")],
                "theirs": [occurrence("b.md", namespace="other")],
            },
            "other",
        )
        store.upsert("default", SPACE, mine)
        store.upsert("other", SPACE, theirs)
        store.set_watermark("other", SPACE, "theirs", "")
        query = mine.dense[0]
        for namespace, own in (("default", mine), ("other", theirs)):
            shas = {c["sha256"] for c in own.payloads}
            assert store.count(namespace, SPACE) == 2 and {
                p for p, _ in store.scan(namespace, SPACE, MADE_BY)
            } == set(own.ids)
            assert {s for s, _ in named(store.nearest(namespace, SPACE, query, 10), own)} == shas
            words = points_module.vector({"text": 1.0, "same": 1.0, "mine": 1.0, "their": 1.0})
            assert {s for s, _ in named(store.matching(namespace, SPACE, words, 10), own)} == shas
        assert store.watermark("default", SPACE) is None
        store.delete("default", SPACE, theirs.ids)
        assert store.count("other", SPACE) == 2
        store.drop("default", SPACE)
        assert (
            store.count("default", SPACE) == 0
            and store.count("other", SPACE) == 2
            and store.watermark("other", SPACE).snapshot == "theirs"
        )
        assert store.nearest("third", SPACE, query, 10) == []

    def test_the_watermark_and_the_alias_follow_the_space(self, store):
        after = f"next.0123456789ab.{DIMENSION}"
        store.upsert("default", SPACE, made({"text": [occurrence("a.md")]}))
        store.set_watermark("default", SPACE, "", "sources")
        store.set_watermark("default", SPACE, "snapshot", "sources")
        mark = store.watermark("default", SPACE)
        assert (mark.snapshot, mark.sources, mark.space, mark.collection) == (
            "snapshot",
            "sources",
            SPACE,
            store.collection(SPACE),
        )
        assert store.problems(SPACE, DIMENSION) == [
            (f"The alias {mark.alias} does not name {mark.collection}.", True)
        ]
        assert (
            store.switch_alias(SPACE)
            and not store.switch_alias(SPACE)
            and store.problems(SPACE, DIMENSION) == []
        )
        store.prepare(after, DIMENSION)
        store.set_watermark("default", after, "snapshot", "sources")
        assert store.switch_alias(after) and store.other_spaces("default", after) == [SPACE]
        store.drop("default", SPACE)
        assert store.other_spaces("default", after) == [] and store.problems(SPACE, DIMENSION) == [
            (f"The collection {mark.collection} is not there.", True)
        ]
        assert store.watermark("default", after).snapshot == "snapshot" and store.count("default", SPACE) == 0

    def test_points_that_are_being_dropped_are_of_no_snapshot(self, store, monkeypatch):
        """A reader of the old space may be in the middle of a search: half of the points must not pass for
        all of them.
        """
        store.upsert("default", SPACE, made({"text": [occurrence("a.md")], "other": [occurrence("b.md")]}))
        store.set_watermark("default", SPACE, "snapshot", "sources")
        seen = []
        real = QdrantPoints._delete

        def watched(self, namespace, name, ids):
            seen.append(store.watermark("default", SPACE).snapshot)
            real(self, namespace, name, ids)

        monkeypatch.setattr(QdrantPoints, "_delete", watched)
        store.drop("default", SPACE)
        assert seen == [""] and store.watermark("default", SPACE) is None

    def test_a_collection_goes_with_its_last_namespace(self, store):
        store.set_watermark("default", SPACE, "", "")
        store.set_watermark("other", SPACE, "", "")
        store.drop("default", SPACE)
        assert not any("is not there" in p for p, _ in store.problems(SPACE, DIMENSION))
        store.drop("other", SPACE)
        assert any("is not there" in p for p, _ in store.problems(SPACE, DIMENSION))
        store.prepare(SPACE, DIMENSION)
        assert store.health().ok and store.health().version

    def test_what_is_not_there_is_empty(self, store):
        assert list(store.scan("default", "no.space.1", MADE_BY)) == []
        assert store.count("default", "no.space.1") == 0 and store.watermark("default", "no.space.1") is None
        store.delete("default", "no.space.1", [point_id("default", "0" * 64)])
        assert (
            code(lambda: store.nearest("default", "no.space.1", np.ones(DIMENSION, np.float32), 1))
            == "E_QDRANT"
        )

    def test_a_payload_that_was_tampered_with_has_no_fingerprint(self, store):
        written = made({"text": [occurrence("a.md")], "other": [occurrence("b.md")]})
        store.upsert("default", SPACE, written)
        store._connection.client().set_payload(
            store.collection(SPACE), payload={"title": "another"}, points=[written.ids[0]]
        )
        assert dict(store.scan("default", SPACE, MADE_BY)) == {
            written.ids[0]: "",
            written.ids[1]: written.payloads[1]["fingerprint"],
        }
        assert set(dict(store.scan("default", SPACE, "made by another")).values()) == {""}


name = st.sampled_from(["default", "other", "third", "de-fault", "default2"])


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    inside=name,
    outside=name,
    conditions=st.fixed_dictionaries(
        {
            k: st.none() | st.frozensets(st.text(max_size=5), max_size=3)
            for k in ("sources", "types", "tags", "languages")
        }
    ),
    points=st.none() | st.lists(st.uuids().map(str), max_size=3),
)
def test_no_filter_leaves_its_namespace(inside, outside, conditions, points):
    where = Where(outside, **conditions)
    if inside != outside:
        assert code(lambda: points_of(inside, where=where, ids=points)) == "E_NAMESPACE"
        return
    made_filter = points_of(inside, where=where, ids=points).model_dump(exclude_none=True)
    assert made_filter["must"][0] == {"key": "namespace", "match": {"value": inside}} and set(
        made_filter
    ) == {"must"}


@pytest.mark.parametrize("wrong", [None, "", "*", "Default", "a b", "../x", "a" * 64, 5, "default\n"])
def test_nothing_is_asked_without_a_namespace(http, fake, wrong):
    point = made({"text": [occurrence("a.md")]})
    for ask in (
        lambda: http.upsert(wrong, SPACE, point),
        lambda: http.delete(wrong, SPACE, point.ids),
        lambda: list(http.scan(wrong, SPACE, MADE_BY)),
        lambda: http.count(wrong, SPACE),
        lambda: http.nearest(wrong, SPACE, point.dense[0], 1),
        lambda: http.matching(wrong, SPACE, point.sparse[0], 1),
        lambda: http.watermark(wrong, SPACE),
        lambda: http.set_watermark(wrong, SPACE, "", ""),
        lambda: http.drop(wrong, SPACE),
        lambda: http.other_spaces(wrong, SPACE),
    ):
        assert code(ask) == "E_NAMESPACE"
    assert not fake.requests


def test_a_point_of_another_namespace_is_not_sent(http, fake):
    assert code(lambda: http.upsert("other", SPACE, made({"text": [occurrence("a.md")]}))) == "E_NAMESPACE"
    disguised = made({"text": [occurrence("a.md")]})
    disguised.payloads[0]["namespace"] = "other"
    assert (
        code(lambda: http.upsert("other", SPACE, disguised)) == "E_INTERNAL"
    )  # the id is that of the text in `default`
    assert not fake.requests


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lang", "e"),
        ("lang", "english"),
        ("source", "no type!"),
        ("url", ""),
        ("title", ""),
        ("text_len", 0),
        ("text_len", "3"),
        ("chunk_index", -1),
        ("chunk_index", True),
        ("chunk_id", "x:0"),
        ("doc_id", "x"),
        ("updated_at", 0),
        ("tags", ["a", 1]),
        ("tags", "a"),
        ("moment", 1.5),
        ("job_id", None),
        ("extra", SECRET),
    ],
)
def test_a_wrong_payload_is_named_and_not_sent(http, fake, field, value):
    good = made({"text": [occurrence("a.md")]})
    http.upsert("default", SPACE, good)
    fake.requests.clear()
    wrong = made({"text": [occurrence("a.md", **{field: value})]})
    with pytest.raises(TabootError) as caught:
        http.upsert("default", SPACE, wrong)
    assert (
        caught.value.code == "E_INTERNAL"
        and caught.value.details["field"] in {field, "chunk_id"}
        and wrong.ids[0] in caught.value.message
    )
    assert SECRET not in str(caught.value) and not fake.requests


def test_a_wrong_batch_is_not_sent(http, fake):
    good = made({"text": [occurrence("a.md")], "more": [occurrence("b.md"), occurrence("c.md")]})
    assert (
        code(
            lambda: http.upsert(
                "default", SPACE, Points(good.ids[:1], good.payloads, good.dense, good.sparse)
            )
        )
        == "E_INTERNAL"
    )
    for vectors in (
        good.dense.astype(np.float64),
        good.dense[0],
        np.full_like(good.dense, np.nan),
        np.full_like(good.dense, np.inf),
    ):
        assert code(
            lambda v=vectors: http.upsert("default", SPACE, Points(good.ids, good.payloads, v, good.sparse))
        ) in {"E_VECTOR", "E_INTERNAL"}
    good.payloads[1]["occurrences"].reverse()
    assert code(lambda: http.upsert("default", SPACE, good)) == "E_INTERNAL"
    assert not fake.requests


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_overload_and_failures_are_tried_again(http, fake, status):
    fake.fail(status, times=3, operation="upsert")
    http.upsert("default", SPACE, made({"text": [occurrence("a.md")]}))
    assert http.count("default", SPACE) == 1


def test_retries_are_bounded_and_a_refusal_is_final(http, fake):
    point = made({"text": [occurrence("a.md", title=SECRET)]})
    fake.fail(503, times=4, operation="upsert")
    assert code(lambda: http.upsert("default", SPACE, point)) == "E_QDRANT"
    for status in (400, 401, 403, 413, 422):
        fake.fail(status, times=2, operation="upsert")
        assert code(lambda: http.upsert("default", SPACE, point)) == "E_QDRANT"
        assert fake.fault("upsert") is not None, "a refusal was tried again"
    assert fake.requests["upsert"] == 0
    fake.fail(429, operation="upsert", retry_after="0")
    http.upsert("default", SPACE, point)


def test_a_lost_answer_is_asked_for_again_and_nothing_is_twice(http, fake):
    fake.drop(times=2, operation="upsert")
    fake.drop(operation="delete")
    points = made({f"text {i}": [occurrence(f"{i}.md")] for i in range(5)})
    http.upsert("default", SPACE, points)
    assert http.count("default", SPACE) == 5 and fake.requests["upsert"] == 3
    http.delete("default", SPACE, points.ids[:2])
    assert http.count("default", SPACE) == 3
    fake.drop(operation="create")
    http.prepare("next.space.16", DIMENSION)
    assert http.problems("next.space.16", DIMENSION) == [
        ("The alias taboot.documents does not name taboot.documents.next.space.16.", True)
    ]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b"null",
        b'{"result": null}',
        b'{"result": {"points": 5}}',
        b"[" * 100_000,
        b'{"result":' * 50_000,
        b"\xff\xfe",
        b'{"result": {"points": [{"id": 1, "version": 0, "score": 1.0, "payload": {"sha256": "x"}}]}}',
    ],
)
def test_an_answer_that_is_none_is_an_error_of_the_server(http, fake, said):
    point = made({"text": [occurrence("a.md")]})
    for operation, ask in (
        ("upsert", lambda: http.upsert("default", SPACE, point)),
        ("query", lambda: http.nearest("default", SPACE, point.dense[0], 1)),
        ("exists", lambda: http.prepare(SPACE, DIMENSION)),
        ("describe", lambda: http.prepare(SPACE, DIMENSION)),
        ("aliases", lambda: http.switch_alias(SPACE)),
        ("count", lambda: http.count("default", SPACE)),
    ):
        fake.say(said, operation=operation)
        assert code(ask) == "E_QDRANT", operation
    fake.say(
        b'{"result": {"points": [{"id": 1, "payload": {"a": 1}}], "next_page_offset": null}}',
        operation="scroll",
    )
    assert code(lambda: http.watermark("default", SPACE)) == "E_QDRANT"


def test_an_outage_is_an_error_until_it_ends(http, fake):
    point = made({"text": [occurrence("a.md")]})
    http.upsert("default", SPACE, point)
    fake.stop()
    assert code(lambda: http.count("default", SPACE)) == "E_QDRANT"
    health = http.health()
    assert (
        not health.ok
        and "E_QDRANT" in health.message
        and health.part == "vectors"
        and health.backend == "qdrant"
    )
    fake.start()
    assert http.count("default", SPACE) == 1 and http.health().version == fake.version
    fake.version = "1.9.7"
    assert not http.health().ok and "too old" in http.health().message


def test_a_slow_server_is_not_waited_for(fake):
    slow = QdrantPoints(QdrantSettings(url=fake.url, timeout_seconds=1, max_retries=0))
    fake.delay = 30
    with pytest.raises(TabootError, match="in time"):
        slow.count("default", SPACE)


def test_large_requests_are_cut(http, fake, monkeypatch):
    monkeypatch.setattr(qdrant, "_MAX_REQUEST_BYTES", 4_000)
    http.upsert("default", SPACE, made({f"text {i}": [occurrence(f"{i}.md")] for i in range(20)}))
    assert http.count("default", SPACE) == 20 and fake.requests["upsert"] > 8


def test_the_layout_is_as_designed_and_what_differs_is_named(http, fake):
    from qdrant_client import models

    info = http._connection.client().get_collection(http.collection(SPACE))
    assert info.config.params.shard_number == 4 and info.config.params.replication_factor == 1
    assert (
        info.config.hnsw_config.m,
        info.config.hnsw_config.ef_construct,
        info.config.hnsw_config.full_scan_threshold,
    ) == (32, 128, 10_000)
    assert (
        info.config.params.vectors["dense"].distance == "Cosine"
        and info.config.params.vectors["dense"].on_disk
    )
    assert (
        info.config.quantization_config.scalar.always_ram
        and info.config.quantization_config.scalar.type == "int8"
    )
    assert info.config.params.sparse_vectors["bm25"].modifier is None
    for field in (
        "namespace",
        "doc_id",
        "sha256",
        "tags",
        "source",
        "lang",
        "created_at",
        "crawled_at",
        "occurrences[].source_id",
        "occurrences[].moment",
    ):
        assert field in info.payload_schema
    http.switch_alias(SPACE)
    http._connection.client().delete_payload_index(http.collection(SPACE), "tags")
    assert http.problems(SPACE, DIMENSION) == [
        ("The collection taboot.documents.tests.0123456789ab.16 has no index of tags.", True)
    ]
    http.prepare(SPACE, DIMENSION)
    assert http.problems(SPACE, DIMENSION) == []
    http._connection.client().create_collection(
        http.collection("bare"),
        vectors_config={"dense": models.VectorParams(size=3, distance="Dot")},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier="idf")},
    )
    words = " ".join(p for p, repairable in http.problems("bare", DIMENSION) if not repairable)
    for part in ("16 dimensions", "IDF", "shards", "HNSW", "int8"):
        assert part in words


def test_the_alias_is_switched_in_one_request(http, fake):
    http.switch_alias(SPACE)
    http.prepare("next.space.16", DIMENSION)
    fake.requests.clear()
    http.switch_alias("next.space.16")
    assert fake.requests["alias"] == 1


def test_the_key_is_sent_and_a_wrong_one_is_said_so(caplog):
    with FakeQdrant(api_key=SECRET) as fake:
        right = QdrantPoints(QdrantSettings(url=fake.url, api_key=SECRET, max_retries=0))
        with pytest.warns(UserWarning, match="insecure"):
            right.prepare(SPACE, DIMENSION)
        with pytest.raises(TabootError, match="refused the key"):
            QdrantPoints(QdrantSettings(url=fake.url, max_retries=0)).count("default", SPACE)
    assert SECRET not in repr(right._settings) + caplog.text


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
@pytest.mark.parametrize("before", ["nothing", "points"])
def test_status_says_whether_the_key_may_write_and_writes_nothing(before):
    with FakeQdrant(api_key=SECRET, read_only_key="looker") as fake:
        right, reading, wrong, none = (
            QdrantPoints(QdrantSettings(url=fake.url, api_key=k, max_retries=0))
            for k in (SECRET, "looker", "guess", None)
        )
        if before == "points":
            right.prepare(SPACE, DIMENSION)
            right.upsert("default", SPACE, made({"text": [occurrence("a.md")]}))
            right.set_watermark("default", SPACE, "snapshot", "")
        held = {name: fake.payloads(name) for name in fake.collections()}
        health = right.health()
        assert health.ok and health.version == fake.version and not health.message
        for points, status in ((reading, 403), (wrong, 401), (none, 401)):
            health = points.health()
            assert not health.ok and f"refused the key (HTTP {status})" in health.message.replace(
                ", which has no right to do that", ""
            )
        assert {name: fake.payloads(name) for name in fake.collections()} == held


def test_no_answer_is_compressed(http, fake):
    """On a server a compressed answer stalls for 40 ms (measured on 1.18.3)."""
    http.upsert("default", SPACE, made({"text": [occurrence("a.md")]}))
    http.nearest("default", SPACE, np.ones(DIMENSION, np.float32), 1)
    assert fake.encodings == {"identity"}


def test_a_search_asks_for_ids_alone_and_for_what_it_means(http, fake):
    vector = np.ones(DIMENSION, np.float32)
    http.nearest("default", SPACE, vector, 74)
    http.nearest("default", SPACE, vector, 74, exact=False)
    http.nearest("default", SPACE, vector, 564, exact=False)
    http.matching("default", SPACE, points_module.vector({"nginx": 1.0}), 10)
    assert not any(q.get("with_payload") or q.get("with_vector") for q in fake.queries)
    exact, near, deep, words = (q.get("params") for q in fake.queries)
    assert exact["exact"] is True and exact["quantization"]["ignore"] is True
    assert not near.get("exact") and near["hnsw_ef"] == 512 and deep["hnsw_ef"] == 2 * 564
    for params in (near, deep):
        assert params["quantization"]["rescore"] is True and params["quantization"]["oversampling"] >= 2
    assert words is None


def test_watermarks_from_before_they_had_indexes_get_them(http, fake):
    fake.strict = True
    for field in ("namespace", "collection"):
        http._connection.client().delete_payload_index(qdrant.WATERMARKS, field)
    assert code(lambda: http.watermark("default", SPACE)) == "E_QDRANT"
    http.switch_alias(SPACE)
    assert [p for p, mends in http.problems(SPACE, DIMENSION) if mends] == [
        f"The collection taboot.watermarks has no index of {field}." for field in ("namespace", "collection")
    ]
    http.prepare(SPACE, DIMENSION)
    assert http.watermark("default", SPACE) is None and http.problems(SPACE, DIMENSION) == []


def test_opening_touches_nothing_and_refuses_what_cannot_be(monkeypatch):
    assert open_vectors(Settings()) is None
    somewhere = Settings(qdrant=QdrantSettings(url="http://127.0.0.1:1"))
    assert open_vectors(somewhere) is not None
    for url in (
        "qdrant.lan:6333",
        "grpc://qdrant.lan",
        "http://",
        "http://host:x",
        "http://user:pass@host",
        "http://[::1",
        "",
    ):
        assert code(lambda u=url: QdrantPoints(QdrantSettings(url=u))) == "E_CONFIG"
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "qdrant_client" else real(name, *a)
    )
    assert code(lambda: open_vectors(somewhere)) == "E_EXTRA"


def test_ids_are_of_the_text_in_its_namespace():
    sha256 = ids.sha256_hex("text")
    assert point_id("default", sha256) == str(uuid.uuid5(uuid.NAMESPACE_OID, f"default:{sha256}"))
    assert len({point_id(n, s, b) for n in ("a", "b") for s in (sha256, "0" * 64) for b in range(5)}) == 20
    content = payload("default", sha256, [occurrence("a.md")], MADE_BY)
    assert (
        content["fingerprint"]
        == fingerprint(dict(reversed(content.items())), MADE_BY)
        != fingerprint(content, "other")
    )
    assert points_module.sources_digest({"a": ("files", ["x", "y"])}) == points_module.sources_digest(
        {"a": ("files", ["y", "x"])}
    )


@settings(max_examples=200, deadline=None)
@given(
    terms=st.dictionaries(st.text(max_size=6), st.integers(1, 9), max_size=12),
    length=st.integers(0, 400),
    weights=st.dictionaries(st.text(max_size=6), st.floats(0.01, 9), max_size=6),
    slots=st.integers(1, 40),
)
def test_a_collision_only_raises_a_score(terms, length, weights, slots):
    """With few indices nearly everything collides: the dot product is never below the sum of the terms in
    common.
    """
    patch = pytest.MonkeyPatch()
    with patch.context() as p:
        p.setattr(points_module, "term_index", lambda term: hash(term) % slots)
        (di, dv), (qi, qv) = points_module.chunk_vector(terms, length), points_module.vector(weights)
    assert list(di) == sorted(set(di)) and list(qi) == sorted(set(qi)) and len(di) == len(dv)
    score = sum(float(v) * float(dv[list(di).index(i)]) for i, v in zip(qi, qv, strict=True) if i in di)
    norm = points_module.K1 * (1 - points_module.B + points_module.B * length / points_module.AVERAGE_LENGTH)
    assert score >= sum(
        w * terms[t] * (points_module.K1 + 1) / (terms[t] + norm) for t, w in weights.items() if t in terms
    ) * (1 - 1e-6)


def test_real_terms_have_indices_of_32_bits():
    assert points_module.term_index("nginx") == 2759310851  # stored: it must never change
    assert (
        len({points_module.term_index(f"term{i}") for i in range(20_000)}) > 19_990
        and points_module.term_index("\ud800") >= 0
    )
