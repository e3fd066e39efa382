"""What is the house's own: sources that declare its things, and those whose documents name its addresses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from taboot_pipelines.retrieval.answering.ownership import Ownership
from taboot_pipelines.settings import RetrievalSettings


class View:
    """A view of a graph in which document ``d<n>`` of each source names the hosts that are given."""

    def __init__(self, sources: dict[str, tuple[str, list[str]]], named: dict[str, list[list[str]]]) -> None:
        self.manifest = SimpleNamespace(
            sources={s: SimpleNamespace(type=type_, tags=tags) for s, (type_, tags) in sources.items()}
        )
        docs = [(f"{s}-d{n}", s, hosts) for s, each in named.items() for n, hosts in enumerate(each)]
        ends = [(doc, host) for doc, _, hosts in docs for host in hosts]
        self.graph = SimpleNamespace(
            documents=pa.table(
                {
                    "doc_id": [d for d, _, _ in docs],
                    "source_id": [s for _, s, _ in docs],
                    "path": [f"Racks/{d}.md" for d, _, _ in docs],
                }
            ),
            edges=pa.table(
                {
                    "start_label": pa.array(["Document"] * len(ends), pa.string()),
                    "start_key": pa.array([doc for doc, _ in ends], pa.string()),
                    "end_label": pa.array(["Host"] * len(ends), pa.string()),
                    "end_key": pa.array([host for _, host in ends], pa.string()),
                    "doc_id": pa.array([doc for doc, _ in ends], pa.string()),
                }
            ),
            nodes=pa.table({"name": ["Nas.lan", "a title"], "label": ["Host", "Document"]}),
        )

    def once(self, make: Callable[[View], Any]) -> Any:
        return make(self)


def owned(type_: str, hosts: list[str], tags: tuple[str, ...] = ()) -> tuple[bool, bool]:
    """Whether a source of a type whose one document names these hosts is the house's own, and is text; beside
    one of Compose that declares ``nas.lan``."""
    view: Any = View(
        {"stacks": ("compose", []), "said": (type_, list(tags))}, {"stacks": [["nas.lan"]], "said": [hosts]}
    )
    ownership = Ownership(RetrievalSettings(own_tags=["ours"], vendor_tags=["vendor"]))
    assert ownership.owns(view, "stacks") and not ownership.is_text(view, "stacks")
    return ownership.owns(view, "said"), ownership.is_text(view, "said")


@pytest.mark.parametrize(
    "type_", ["reddit", "youtube", "gmail", "github", "ai_session", "files", "web", "of_a_lost_package"]
)
def test_what_people_write_is_the_house_s_own_only_if_it_speaks_of_it(type_: str) -> None:
    assert owned(type_, ["example.org"]) == (False, True)
    assert owned(type_, ["nas.lan"]) == (True, True)
    assert owned(type_, ["example.org"], ("ours",)) == (True, True)
    assert owned(type_, ["nas.lan"], ("vendor",)) == (False, True)


@pytest.mark.parametrize("type_", ["compose", "swag", "tailscale", "unifi", "elasticsearch"])
def test_what_declares_or_records_the_house_s_things_is_its_own(type_: str) -> None:
    assert owned(type_, ["example.org"]) == (True, False)
    assert owned(type_, ["example.org"], ("vendor",)) == (False, False)


@pytest.mark.parametrize("type_", ["reddit", "youtube", "gmail", "github", "ai_session"])
def test_a_discussion_declares_no_address_that_another_source_could_be_known_by(type_: str) -> None:
    view: Any = View(
        {"threads": (type_, []), "notes": ("files", [])},
        {"threads": [["tower.example"]], "notes": [["tower.example"]]},
    )
    ownership = Ownership(RetrievalSettings())
    assert not ownership.owns(view, "notes") and not ownership.owns(view, "threads")
