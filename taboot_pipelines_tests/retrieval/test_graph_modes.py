"""Searches that follow links: what they find in two steps, what they choose, and that they can be strict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.graph_walk import WalkGraph
from taboot_pipelines.settings import load_settings
from taboot_pipelines_tests.world import DATA, World


def page(title: str, text: str) -> str:
    return f"# {title}\n\n{text}\n"


WIKI = {
    "harbour-gate": page("Harbour Gate", "The reverse proxy of the house. It runs on Cellar Box."),
    "cellar-box": page("Cellar Box", "A small computer without a fan. Its disk was changed by Ada Brook."),
    "ada-brook": page("Ada Brook", "She lives in the blue cottage and answers on weekdays."),
    "attic-box": page("Attic Box", "A small computer with a fan. Its disk was never changed."),
    **{
        f"n{i}": page(f"Note {i}", f"A computer, a disk, a proxy and a cottage, number {i}.")
        for i in range(20)
    },
}


@pytest.fixture
def wiki(world: World) -> Iterator[KnowledgeBase]:
    folder = world.source("wiki")
    for name, text in WIKI.items():
        (folder / f"{name}.md").write_text(text)
    world.ingest()
    yield world.kb()


def titles(kb: KnowledgeBase, query: str, limit: int = 5, **options: object) -> list[str]:
    return [hit.title for hit in kb.search(query, limit, **options).hits]


def test_what_is_two_links_away_is_found(wiki: KnowledgeBase) -> None:
    query = "Where lives the one who changed the disk of the box that Harbour Gate runs on?"
    assert {"Harbour Gate", "Cellar Box", "Ada Brook"} <= set(titles(wiki, query, 4, mode="graph"))
    assert titles(wiki, query, 4, mode="adaptive") == titles(wiki, query, 4, mode="graph")


def test_adaptive_says_what_it_chose_and_why(wiki: KnowledgeBase) -> None:
    named = wiki.search("who changed the disk of CELLAR  box?", mode="adaptive")
    assert (named.mode, named.chosen) == ("adaptive", "graph") and "CELLAR box" in named.why
    plain = wiki.search("which computer is small?", mode="adaptive")
    assert plain.chosen == "hybrid" and "names no document" in plain.why
    assert plain.hits == wiki.search("which computer is small?", mode="hybrid").hits
    assert wiki.search("cottage", mode="vector").chosen == "vector"
    assert all("graph" in hit.scores for hit in named.hits[:3])


def test_a_page_is_ranked_as_was_chosen_once(wiki: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    named = WalkGraph.named
    monkeypatch.setattr(WalkGraph, "named", lambda web, query: asked.append(query) or named(web, query))
    found = wiki.search("Cellar Box", 3, mode="adaptive", dedupe=True, min_score=0.0)
    assert found.chosen == "graph" and asked == ["Cellar Box"]


def test_filters_hold_for_what_is_reached(world: World, wiki: KnowledgeBase) -> None:
    other = world.source("other", tags=["b"])
    (other / "visit.md").write_text(page("Visit", "Ada Brook came to look at Cellar Box."))
    world.ingest()
    hits = wiki.search("Cellar Box", mode="graph", tag="b").hits
    assert [hit.title for hit in hits] == ["Visit"]


def test_graph_is_strict(world: World) -> None:
    folder = world.source("loose")
    (folder / "a.md").write_text("Nothing here leads anywhere.\n")
    world.ingest()
    kb = world.kb()
    with pytest.raises(TabootError) as caught:
        kb.search("anything", mode="graph")
    assert caught.value.code == "E_NO_GRAPH" and "hybrid" in caught.value.remedy
    found = kb.search("nothing leads", mode="adaptive")
    assert found.chosen == "hybrid" and len(found.hits) == 1
    assert "E_NO_GRAPH" in str(kb.compare("anything").notes["graph"])


def test_titles_that_say_nothing_or_are_everywhere_choose_nothing(world: World) -> None:
    folder = world.source("notes")
    for i in range(120):
        (folder / f"t{i}.md").write_text(page("Overview", f"An overview of part {i}, and what is in it."))
    (folder / "a.md").write_text(page("A", "One letter."))
    (folder / "use.md").write_text(page("Use", "How to use the parts."))
    (folder / "hub.md").write_text(page("Hub", " ".join(f"[t](t{i}.md)" for i in range(120))))
    world.ingest()
    kb = world.kb()
    for query in ("what is an overview?", "how to use a part", "a"):
        assert kb.search(query, mode="adaptive").chosen == "hybrid", query
    assert kb.search("overview " * 100, mode="graph").hits
    assert len(kb.search("Hub", 50, mode="graph").hits) == 50


@pytest.mark.slow
def test_two_step_questions_of_hotpotqa(tmp_path: Path) -> None:
    folder = DATA / "multihop-hotpotqa-100"
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")][:40]
    needed: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").open(encoding="utf-8"):
        parts = line.split()
        if parts[-1] == "1":
            needed.setdefault(parts[0], set()).add(parts[-2])
    wanted = {d for q in queries for d in needed[q["_id"]]}
    # The documents that the questions need, among as many others.
    others = [d for d in corpus if d["_id"] not in wanted][:100]
    docs = tmp_path / "docs"
    docs.mkdir()
    for document in [d for d in corpus if d["_id"] in wanted] + others:
        (docs / f"{document['_id']}.md").write_text(page(document["title"], document["text"]))
    sources = tmp_path / "sources.yaml"
    sources.write_text("sources:\n  - {id: set, type: files, path: docs}\n")
    settings = load_settings(home=tmp_path / "home", sources=sources)
    world_of(settings)
    kb = KnowledgeBase.open(settings=settings)

    def share(mode: str) -> float:
        found = [
            needed[q["_id"]] <= {Path(h.url).stem for h in kb.search(q["text"], 5, mode=mode).hits}
            for q in queries
        ]
        return sum(found) / len(found)

    assert share("graph") >= max(0.9, share("hybrid"))


def world_of(settings: object) -> None:
    """Run the chain for the one source of these settings."""
    from taboot_pipelines.stages.running import run_chain
    from taboot_pipelines.stages.workspace import Workspace

    workspace = Workspace(settings)
    workspace.sync_sources()
    run_chain(workspace, "set")
    workspace.close()
