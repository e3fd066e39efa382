"""The vector of a query: the embedder is opened once and late, and its space must be the knowledge base's."""

from __future__ import annotations

import numpy as np
import pytest

from taboot_pipelines import embedding
from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.session import Session
from taboot_pipelines.settings import Settings
from taboot_pipelines_tests.retrieval.test_search import build
from taboot_pipelines_tests.shards.builder import NAMESPACE, SPACE, Doc, HashEmbedder, embed


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
    assert np.array_equal(vectors.passages(["redis", "a b"]), np.stack([embed("redis"), embed("a b")]))
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


@pytest.mark.parametrize("wrong", [np.zeros(8), np.zeros((1, 16)), np.full(16, np.nan), np.full(16, np.inf)])
def test_what_is_no_vector_is_refused(view, tmp_path, wrong):
    class Broken(HashEmbedder):
        def embed_query(self, text):
            return wrong

    with pytest.raises(TabootError, match="E_VECTOR"):
        QueryVectors(Settings(home=tmp_path), NAMESPACE, Broken()).vector(view, "redis")
