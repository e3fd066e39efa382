"""Texts that are handed in with facts: documents beside the records that they are evidence of."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.assertions import AssertionKind
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.results.decisions import Stated
from taboot_pipelines.retrieval.results.explanations import Explanation
from taboot_pipelines.stages import quotas
from taboot_pipelines.stages.storage_audit import run as audit
from taboot_pipelines.stores.catalog.assertions import HandedIn, NewAssertion
from taboot_pipelines_tests.retrieval.test_decisions import check_replay
from taboot_pipelines_tests.world import World, holding

WORD = "zettelwerk"
TEXT = f"Invoice of May.\n\nThe {WORD} came with two disks.\n"


@pytest.fixture
def house(world: World) -> World:
    (world.source("notes") / "note.md").write_text("# Note\n\nThe cache keeps sessions.\n")
    world.ingest()
    return world


def stated(world: World, host: str = "nas", text: str | bytes = TEXT) -> Stated:
    return world.kb().ingest_structured("Host", {"hostname": host}, raw_content=text, who="ann")


def found(world: World, word: str = WORD) -> list[str]:
    """The paths of the documents that a search finds."""
    kb = world.kb()
    paths = dict(zip(*(kb.documents().column(c).to_pylist() for c in ("doc_id", "path")), strict=True))
    return [paths[hit.doc_id] for hit in kb.search(word, mode="keyword").hits]


def doc_ids(kb: KnowledgeBase) -> list[str]:
    return kb.documents(source="uploads").column("doc_id").to_pylist()


def proof(world: World, fact: Stated) -> Explanation:
    """What is shown of the fact that is stated of a host."""
    kb = world.kb()
    (edge,) = (
        e
        for e in kb.edges().to_pylist()
        if e["end_key"] == fact.entity_id and e["type"] == "MENTIONS" and e["source"] == "structured"
    )
    return kb.explain(edge["edge_id"])


def test_a_text_is_one_document_that_is_found_and_that_its_facts_lead_to(house: World) -> None:
    one = stated(house)
    (path,) = found(house)
    assert path == f"stated/{str(one.source_id)[:16]}/Host nas.txt"
    two = stated(house, "rack")
    version = house.kb().manifest.version
    assert stated(house) == one and house.kb().manifest.version == version
    assert found(house) == [path] and house.kb().documents(source="uploads").num_rows == 1
    document = house.kb().document(path)
    assert (document.text, document.blob_sha256) == (TEXT.rstrip(), one.source_id)
    for fact in (one, two):
        (evidence,) = proof(house, fact).quotes[1:]
        assert (evidence.text, evidence.url) == (TEXT, document.url)
    house.ingest()
    assert found(house) == [path]
    check_replay(house)


def test_it_goes_with_the_last_fact_and_comes_back_with_an_undoing(house: World) -> None:
    one, two = stated(house), stated(house, "rack")
    (path,) = found(house)
    house.kb().undo(one.observation_id)
    assert found(house) == [path]
    back = house.kb().undo(two.observation_id)
    assert found(house) == [] and house.kb().documents(source="uploads").num_rows == 0
    house.ingest()
    assert found(house) == []
    house.kb().undo(back.observation_id)
    assert found(house) == [path]
    check_replay(house)


def test_a_deleted_document_leaves_the_evidence_and_comes_back_when_it_is_handed_in_again(
    house: World,
) -> None:
    fact = stated(house)
    (doc_id,) = doc_ids(house.kb())
    house.kb().delete([doc_id])
    house.ingest()
    assert found(house) == []
    assert proof(house, fact).quotes[1].text == TEXT
    again = house.kb().undo(fact.observation_id)
    house.kb().undo(again.observation_id)
    assert found(house) == []
    check_replay(house)
    assert stated(house).observation_id == fact.observation_id
    assert doc_ids(house.kb()) == [doc_id] and len(found(house)) == 1


def test_an_erased_document_leaves_no_byte_and_the_fact_stays(house: World, tmp_path: Path) -> None:
    (tmp_path / f"{WORD}.txt").write_text(TEXT)
    fact = house.kb().ingest_structured(
        "Host", {"hostname": "nas"}, raw_file_path=tmp_path / f"{WORD}.txt", who="ann"
    )
    other = house.kb().ingest_structured("Host", {"hostname": "rack"}, raw_content=TEXT, who="ann")
    house.kb().undo(other.observation_id)
    assert found(house) == [f"stated/{str(fact.source_id)[:16]}/{WORD}.txt"]
    receipt = house.kb().delete(doc_ids(house.kb()), erase=True)
    assert receipt.final
    house.workspace.close()
    assert holding(house.home, WORD) == []
    assert holding(house.home, str(fact.source_id)) == []
    house.workspace = house.open(house.home)
    house.ingest()
    assert found(house) == []
    assert '"hostname": "nas"' in proof(house, fact).quote and len(proof(house, fact).quotes) == 1
    check_replay(house)


def test_an_erased_fact_takes_its_name_along_and_what_was_deleted_stays_deleted(house: World) -> None:
    one, two = stated(house, "swordfish"), stated(house, "rack")
    house.kb().undo(one.observation_id, erase=True)
    assert found(house) == [f"stated/{str(two.source_id)[:16]}/Host rack.txt"]
    house.workspace.close()
    assert holding(house.home, "swordfish") == []
    house.workspace = house.open(house.home)
    three = stated(house, "shelf")
    house.kb().delete(doc_ids(house.kb()))
    house.kb().undo(two.observation_id, erase=True)
    house.ingest()
    assert found(house) == [] and proof(house, three).quotes[1].text == TEXT
    house.kb().undo(three.observation_id, erase=True)
    house.workspace.close()
    assert holding(house.home, WORD) == []
    house.workspace = house.open(house.home)
    check_replay(house)


def test_what_was_uploaded_is_not_a_second_document(house: World) -> None:
    house.kb().upload(TEXT.encode(), name="invoice.txt")
    fact = stated(house)
    assert found(house) == ["invoice.txt"]
    assert proof(house, fact).quotes[1].url == house.kb().document("invoice.txt").url
    house.kb().undo(fact.observation_id, erase=True)
    assert found(house) == ["invoice.txt"]
    check_replay(house)


def test_only_texts_are_searched_and_secrets_are_masked(house: World, tmp_path: Path) -> None:
    (tmp_path / "prod.env").write_text("NAME=planted-word\n")
    stated(house, "one", b"\x89PNG\r\n\x00\x01planted-word")
    house.kb().ingest_structured("Host", {"hostname": "two"}, raw_file_path=tmp_path / "prod.env")
    stated(house, "three", "The door.\n\npassword: swordfish-nine\n")
    assert found(house, "planted-word") == [] and len(found(house, "door")) == 1
    assert house.kb().documents(source="uploads").num_rows == 1
    assert "swordfish-nine" not in house.kb().document(doc_ids(house.kb())[0]).text


def test_a_quota_refuses_the_fact_before_anything_is_recorded(house: World) -> None:
    used = quotas.usage(house.workspace, "default")
    file = house.directory / "sources.yaml"
    file.write_text(
        yaml.safe_dump({"sources": house.entries, "quotas": {"default": {"documents": used.documents}}})
    )
    house.workspace.sync_sources()
    with pytest.raises(TabootError) as refused:
        stated(house)
    assert refused.value.code == "E_QUOTA"
    assert house.kb().assertions(all_states=True).items == ()
    assert holding(house.home, WORD) == []


def test_facts_of_before_have_their_documents_after_the_next_ingest(house: World) -> None:
    """As an earlier release left them, or a process that was killed behind the record."""
    raw = {"name": "", "mime": "text/plain", "size": len(TEXT), "shown_bytes": len(TEXT)}
    sha256, _ = house.workspace.blobs.put("default", TEXT.encode())
    assertions = house.workspace.catalog.assertions
    assertions.record_blobs("default", [HandedIn(sha256, len(TEXT), "text/plain")], "blobs/default")
    payload = {"label": "Host", "key": ["nas"], "name": "nas", "properties": {}, "aliases": []}
    said = canonical_json({**payload, "raw": {**raw, "sha256": sha256}})
    assertions.add("default", [NewAssertion(AssertionKind.ENTITY.value, said, "ann", "")])
    house.ingest()
    assert found(house) == [f"stated/{sha256[:16]}/Host nas.txt"]
    assert audit(house.workspace, "default").left == []
    check_replay(house)
