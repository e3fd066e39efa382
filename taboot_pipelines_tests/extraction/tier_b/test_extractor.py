"""What the sentences of documents give: claims that fit the model, each with its sentence."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.extraction.tier_a.prose.claims import service_name
from taboot_pipelines.extraction.tier_b import Prose, extractor, read_all
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines_tests.world import DATA

FOLDER = DATA / "awesome-compose"


def documents(number: int) -> list[Prose]:
    return [Prose(p.name, p.read_text("utf-8")) for p in sorted(Path(FOLDER).rglob("*.md"))[:number]]


@pytest.mark.needs("data")
def test_claims_of_real_pages_fit_the_model_and_quote_their_sentences() -> None:
    pages = documents(40)
    found = list(read_all(pages))
    edges = [(page, edge) for page, said in zip(pages, found, strict=True) for edge in said.edges]
    assert len(edges) >= 10
    for page, edge in edges:
        for node in (edge.start, edge.end):
            check_node(node.label, node.key, {})
        properties = {k: v for k, v in edge.properties.items() if v is not None}
        check_edge(edge.type, edge.start.label, edge.end.label, properties, edge.confidence)
        quote = page.text[edge.evidence.start : edge.evidence.end]
        assert edge.evidence.path == page.path and quote.strip()
        for basis, node in ((edge.start_basis, edge.start), (edge.end_basis, edge.end)):
            assert basis is not Basis.BYTES or node.name in quote


def test_two_names_of_one_node_make_one_claim() -> None:
    (said,) = read_all([Prose("a.md", "The `wikila` service and `wikila` both depend on `redis`.\n")])
    assert [(e.start.name, e.type, e.end.name) for e in said.edges] == [("wikila", "DEPENDS_ON", "redis")]


@pytest.mark.parametrize("processes", [2, 3])
def test_any_number_of_processes_says_the_same(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = documents(12)
    alone = list(read_all(pages))
    monkeypatch.setattr(extractor, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(extractor, "_PORTION", 20_000)
    assert list(read_all(pages, processes=processes)) == alone


def test_any_order_and_any_batch_says_the_same() -> None:
    pages = documents(12)
    alone = dict(zip(pages, read_all(pages), strict=True))
    for seed in range(2):
        shuffled = random.Random(seed).sample(pages, len(pages))
        assert dict(zip(shuffled, read_all(shuffled), strict=True)) == alone
    assert {page: said for page in pages for said in read_all([page])} == alone


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Plex Media Server", "plex-media-server"),
        ("`db`", "db"),
        ("node-exporter", "node-exporter"),
        ("Übersicht", "bersicht"),
        ("***", None),
        ("", None),
    ],
)
def test_a_service_is_called_by_a_name_that_keys_may_hold(written: str, name: str | None) -> None:
    assert service_name(written) == name


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "Redis ",
                    "uses ",
                    "`db` ",
                    "http://a:80 ",
                    "port 80 ",
                    "maps ",
                    "to ",
                    "the ",
                    ". ",
                    "\n\n",
                    "- ",
                ]
            ),
            st.text(max_size=8),
        ),
        max_size=20,
    ).map("".join)
)
def test_any_text_is_read(text: str) -> None:
    (said,) = read_all([Prose("a.md", text)])
    for edge in said.edges:
        assert 0 <= edge.evidence.start < edge.evidence.end <= len(text)
