"""The second hop: what it finds without links, what it leaves alone, and what it says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import EmbeddingSettings, RetrievalSettings, Settings, load_settings
from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines_tests.retrieval.test_graph_modes import world_of
from taboot_pipelines_tests.retrieval.test_late_interaction import Foreign
from taboot_pipelines_tests.retrieval.test_quality import published
from taboot_pipelines_tests.shards.builder import Doc

QUERY = "When does the plane leave that Ada Brook takes?"
ANSWER = "Nordwind 815: a flight, departs Thornwick at noon."
DOCS = [
    Doc("ada.md", "Ada Brook travels by Nordwind 815, from Thornwick."),
    Doc("flight.md", ANSWER),
    Doc("shoes.md", "Leave your shoes at the door."),
    Doc("table.md", "Whoever takes the last cup of tea makes a new pot."),
    Doc("wood.md", "A plane is a tool to make boards even."),
    Doc("leaves.md", "The plane is a tree whose bark peels."),
    Doc("mill.md", "The brook behind the mill is cold."),
    Doc("names.md", "Ada is a name, and so is Adam."),
    *(Doc(f"m{i:02}.md", f"Recipe {i}: peel {i + 2} onions, then boil them for an hour.") for i in range(60)),
]


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder(EmbeddingSettings())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLmEmbedder) -> Path:
    folder = tmp_path_factory.mktemp("kb")
    published(folder, DOCS, embedder)
    return folder


@pytest.fixture(scope="module")
def kb(home: Path, embedder: MiniLmEmbedder) -> KnowledgeBase:
    return KnowledgeBase.open(settings=Settings(home=home), embedder=embedder)


def place(kb: KnowledgeBase, query: str, mode: str, name: str = "flight.md", **options: object) -> int:
    """The place of a document among the hits, from 1."""
    paths = [
        Path(hit.url.rpartition(":")[2]).name for hit in kb.search(query, 100, mode=mode, **options).hits
    ]
    return paths.index(name) + 1 if name in paths else 99


def test_what_shares_no_word_with_the_question_is_found(kb):
    assert not analyze(QUERY).terms.keys() & analyze(ANSWER).terms.keys()
    assert place(kb, QUERY, "hybrid") > 5
    assert place(kb, QUERY, "adaptive") == 2
    assert place(kb, QUERY, "adaptive", "ada.md") == 1


def test_it_says_what_was_asked_again_of_what(kb):
    found = kb.search(QUERY, 5, mode="adaptive")
    assert found.chosen == "hybrid"
    assert "Asked again from 'ada.md' for " in found.why and "'plane'" in found.why
    assert "'flight.md' by " in found.why
    assert 0 < found.hits[1].scores["hop"] <= 1 and "hop" not in found.hits[0].scores
    assert found == kb.search(QUERY, 5, mode="adaptive", cache=False)


def test_a_question_that_the_first_hit_has_every_word_of_is_left_alone(kb):
    query = "what does Ada Brook travel by?"
    found = kb.search(query, 60, mode="adaptive")
    assert found.hits == kb.search(query, 60, mode="hybrid").hits
    assert found.why.endswith("The first hit has every word of the question.")


def test_why_not_names_it(kb):
    hit = kb.search(QUERY, 5, mode="adaptive").hits[1]
    steps = {s.step: s for s in kb.why_not(hit.chunk_id, QUERY, 5, mode="adaptive").chunks[0].steps}
    assert steps["hop"].score == hit.scores["hop"] and steps["limit"].passed and not steps["keyword"].passed


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_other_modes_make_none(kb, mode):
    found = kb.search(QUERY, 60, mode=mode)
    assert not found.why and not any("hop" in hit.scores for hit in found.hits)


def test_it_needs_what_late_interaction_needs(home, embedder):
    off = Settings(home=home, retrieval=RetrievalSettings(late_interaction=False))
    for other in (
        KnowledgeBase.open(settings=off, embedder=embedder),
        KnowledgeBase.open(settings=Settings(home=home), embedder=Foreign(embedder)),
    ):
        found = other.search(QUERY, 60, mode="adaptive", cache=False)
        assert found.hits == other.search(QUERY, 60, cache=False).hits and "again" not in found.why


def test_filters_hold_for_what_it_finds(kb):
    found = kb.search(QUERY, 60, mode="adaptive", path_prefix=["ada", "m"])
    assert found.hits and {Path(h.url.partition(":")[2]).name[0] for h in found.hits} <= {"a", "m"}
    assert place(kb, QUERY, "adaptive", path_prefix=["ada", "flight"]) == 2


def test_pages_together_are_the_whole_list(kb):
    whole = kb.search(QUERY, 100, mode="adaptive")
    page, hits = kb.search(QUERY, 3, mode="adaptive"), []
    while True:
        hits += page.hits
        if page.next_cursor is None:
            break
        page = kb.search(QUERY, 3, mode="adaptive", cursor=page.next_cursor)
    assert hits == list(whole.hits) and len(hits) == len(DOCS)
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_a_link_joins_what_shares_no_word(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for doc in DOCS:
        (docs / doc.path).write_text(doc.text + "\n")
    (docs / "flight.md").rename(docs / "815.md")
    (docs / "ada.md").write_text("Ada Brook travels by [this](815.md).\n")
    sources = tmp_path / "sources.yaml"
    sources.write_text("sources:\n  - {id: set, type: files, path: docs}\n")
    settings = load_settings(home=tmp_path / "home", sources=sources)
    world_of(settings)
    kb = KnowledgeBase.open(settings=settings)
    found = kb.search(QUERY, 60, mode="adaptive")
    assert found.chosen == "hybrid" and "by a link" in found.why
    assert place(kb, QUERY, "hybrid", "815.md") > 5 and place(kb, QUERY, "adaptive", "815.md") == 2
