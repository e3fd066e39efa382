"""The vector of a query: the embedder is opened once and late, and its space must be the knowledge base's."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from taboot_pipelines import embedding
from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.session import Session
from taboot_pipelines.settings import Settings
from taboot_pipelines_tests.retrieval.test_search import build
from taboot_pipelines_tests.shards.builder import NAMESPACE, SPACE, Doc, HashEmbedder, embed
from taboot_pipelines_tests.world import World


@pytest.fixture
def view(tmp_path):
    build(tmp_path, [Doc("a.md", "redis backup", source="docs")])
    return Session(Settings(home=tmp_path), NAMESPACE).view()


def test_the_embedder_that_the_settings_name_is_opened_by_the_first_query_and_kept(
    view, monkeypatch, tmp_path
):
    opened = []

    def open_embedder(settings):
        opened.append(HashEmbedder())
        return opened[-1]

    monkeypatch.setattr(embedding, "open_embedder", open_embedder)
    vectors = QueryVectors(Settings(home=tmp_path), NAMESPACE, None)
    assert vectors.embedder is None and not opened
    assert np.array_equal(vectors.vector(view, "redis"), embed("redis"))
    assert np.array_equal(vectors.passages(view, ["redis", "a b"]), np.stack([embed("redis"), embed("a b")]))
    assert opened == [vectors.embedder]


def test_one_that_is_handed_in_is_used_instead(view, tmp_path):
    mine = HashEmbedder()
    vectors = QueryVectors(Settings(home=tmp_path), NAMESPACE, mine)
    assert vectors.embedder is mine
    assert np.array_equal(vectors.vector(view, "redis"), embed("redis")) and vectors.embedder is mine


@pytest.mark.parametrize(
    "space",
    [
        Space("other/model", SPACE.revision, SPACE.dimension, SPACE.max_tokens),
        Space(SPACE.model, "another", SPACE.dimension, SPACE.max_tokens),
        Space(SPACE.model, SPACE.revision, 8, SPACE.max_tokens),
    ],
)
def test_another_space_is_refused(view, tmp_path, space):
    other = HashEmbedder()
    other.space = space
    with pytest.raises(TabootError) as caught:
        QueryVectors(Settings(home=tmp_path), NAMESPACE, other).vector(view, "redis")
    assert caught.value.code == "E_CONFIG" and space.id in caught.value.message


def test_a_server_that_changes_its_model_is_refused_from_then_on(view, tmp_path):
    embedder = HashEmbedder()
    vectors = QueryVectors(Settings(home=tmp_path), NAMESPACE, embedder)
    assert vectors.vector(view, "redis").shape == (SPACE.dimension,) and not vectors.foreign(view)
    embedder.space = Space(SPACE.model, "another", SPACE.dimension, SPACE.max_tokens)
    with pytest.raises(TabootError, match="E_CONFIG"):
        vectors.vector(view, "redis")
    assert "another" in vectors.foreign(view)


@pytest.mark.parametrize("wrong", [np.zeros(8), np.zeros((1, 16)), np.full(16, np.nan), np.full(16, np.inf)])
def test_what_is_no_vector_is_refused(view, tmp_path, wrong):
    class Broken(HashEmbedder):
        def embed_query(self, text):
            return wrong

    with pytest.raises(TabootError, match="E_VECTOR"):
        QueryVectors(Settings(home=tmp_path), NAMESPACE, Broken()).vector(view, "redis")


@pytest.mark.skipif(find_spec("openvino") is None, reason="wants both runtimes of the bundled model")
def test_vectors_of_the_other_runtime_are_asked_with_it_until_they_are_made_anew(tmp_path):
    """A knowledge base from before there was a choice of runtime is searched at once, and embedded anew by
    the next ingest."""
    before = World(tmp_path, None, embedding={"runtime": "onnxruntime"})
    (before.source("notes") / "a.md").write_text("# Backups\n\nRedis is saved every night.\n")
    before.ingest()
    asked = before.kb().search("when is redis saved", mode="vector")
    before.workspace.close()

    kb = KnowledgeBase.open(settings=Settings(home=before.home))
    assert kb.manifest.space.model == "all-MiniLM-L6-v2-int8"
    assert kb.search("when is redis saved", mode="vector") == asked
    assert "every night" in kb.answer("When is Redis saved?").text
    named = KnowledgeBase.open(settings=Settings(home=before.home, embedding={"runtime": "openvino"}))
    with pytest.raises(TabootError) as caught:
        named.search("redis", mode="vector")
    assert caught.value.code == "E_CONFIG" and "TABOOT_EMBEDDING__RUNTIME" in caught.value.remedy

    after = World(tmp_path, None)
    after.entries = before.entries
    (report,) = (r for r in after.ingest() if r.stage == "embeddings")
    after.workspace.close()
    assert report.counts["new"] == 1
    assert kb.search("when is redis saved", mode="vector").hits[0].chunk_id == asked.hits[0].chunk_id
    assert kb.manifest.space.model == "all-MiniLM-L6-v2-int8-openvino"
