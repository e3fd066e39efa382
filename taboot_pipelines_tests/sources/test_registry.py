"""Every source type is what ``taboot_pipelines.sources`` says of one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

import taboot_pipelines.connectors
from taboot_pipelines.connectors.access import Access, environment_secret
from taboot_pipelines.connectors.entries import SourceEntry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import check_node
from taboot_pipelines.model.records import Enumerated
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import SOURCE_KINDS, open_connector, source_kind, source_kinds
from taboot_pipelines.sources.sources_file import load_sources, parse_entry

PACKAGE = Path(taboot_pipelines.connectors.__file__).parent
PAGE = (PACKAGE.parents[1] / "docs" / "sources.md").read_text(encoding="utf-8")

#: The smallest entry of each type that has nothing to read: an empty directory, pages that are all left out.
NOTHING: dict[str, dict[str, Any]] = {
    "ai_session": {"path": "."},
    "files": {"path": "."},
    "compose": {"path": "."},
    "swag": {"path": "."},
    "gmail": {"path": "."},
    "web": {"urls": ["http://127.0.0.1:9/"], "exclude": ["**"]},
    "elasticsearch": {"path": "."},
    "reddit": {"path": "."},
    "runtime": {"path": "."},
    "tailscale": {"path": "."},
    "unifi": {"path": "."},
    "youtube": {"path": "."},
    "github": {"path": "."},
    "uploads": {"id": "uploads"},
}

each_type = pytest.mark.parametrize("type_", SOURCE_KINDS)

#: Audit events (PEP 578) of looking at files or reaching for the network, while :func:`watched` is on.
_TOUCHES = {"open", "os.listdir", "os.scandir", "socket.__new__", "socket.getaddrinfo", "subprocess.Popen"}
_SEEN: list[str] | None = None


def _audit(event: str, _: object) -> None:
    if _SEEN is not None and event in _TOUCHES:
        _SEEN.append(event)


sys.addaudithook(_audit)


@contextmanager
def watched() -> Iterator[list[str]]:
    """The files and sockets that were touched meanwhile."""
    global _SEEN
    _SEEN = touched = []
    try:
        yield touched
    finally:
        _SEEN = None


def entry_of(type_: str) -> SourceEntry:
    return parse_entry({"id": "s", "type": type_, **NOTHING[type_]})


def test_the_types_that_are_named() -> None:
    """Those that the product is to have; each has its smallest entry here."""
    assert set(SOURCE_KINDS) == {
        "web",
        "github",
        "reddit",
        "youtube",
        "gmail",
        "elasticsearch",
        "compose",
        "swag",
        "tailscale",
        "unifi",
        "runtime",
        "ai_session",
        "files",
        "uploads",
    }
    assert set(SOURCE_KINDS) == set(NOTHING), "every type has its smallest entry here"


@each_type
def test_a_kind_is_said_in_one_place(type_: str) -> None:
    """Above this package nobody reads the name of a type: what differs by it is asked of the kind."""
    kind = SOURCE_KINDS[type_]
    assert kind.name == type_ and get_args(kind.entry.model_fields["type"].annotation) == (type_,)
    assert source_kinds()[type_] is kind and source_kind(type_) is kind
    named = re.compile(
        rf"""(?:type|kind|source_type)\b[^\n]{{0,20}}(?:==|!=|\bin\b)[^\n]{{0,40}}["']{type_}["']"""
    )
    above = [p for part in ("stages", "retrieval", "cli", "defs", "browse", "shards") for p in _modules(part)]
    assert len(above) > 200
    assert [p.name for p in above if named.search(p.read_text(encoding="utf-8"))] == []


def _modules(part: str) -> list[Path]:
    return sorted((PACKAGE.parent / part).rglob("*.py"))


@each_type
def test_an_entry_keeps_all_of_itself_in_the_catalog(type_: str) -> None:
    entry = entry_of(type_)
    assert type(entry) is SOURCE_KINDS[type_].entry and entry.type == type_
    assert parse_entry(json.loads(entry.config_json())) == entry
    assert entry.interpretation_fields()["namespace"] == "default"


@each_type
def test_it_is_in_the_shipped_schema_and_on_the_page(type_: str) -> None:
    schema = json.loads((PACKAGE / "sources.schema.json").read_text(encoding="utf-8"))
    items = schema["properties"]["sources"]["items"]
    reference = items["discriminator"]["mapping"][type_]
    assert {"$ref": reference} in items["oneOf"]
    model = schema["$defs"][reference.rpartition("/")[2]]
    assert model["description"], "the entry model has a docstring"
    fields = model["properties"]
    assert fields["type"]["const"] == type_
    section = re.search(rf"^### `type: {type_}`$(.*?)^(?:#|<!--)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    own = set(fields) - set(SourceEntry.model_fields)
    assert own == set(re.findall(r"^\| `(\w+)`", section[1], re.MULTILINE))


@each_type
def test_it_opens_without_touching_anything_and_ends_with_the_enumeration(type_: str, tmp_path: Path) -> None:
    access = Access.of(Settings(home=tmp_path / "home"), tmp_path)
    entry = entry_of(type_)
    open_connector(entry, access)  # the modules of a kind are imported when it is first asked
    with watched() as touched:
        connector = open_connector(entry, access)
        stream = connector.events({}, lambda _: False)
    assert touched == []
    # What is uploaded leaves the catalog by a decision, which needs no other.
    assert list(stream) == [Enumerated(True, confirmed=type_ == "uploads")]


def test_the_watch_sees_what_is_touched(tmp_path: Path) -> None:
    with watched() as touched:
        list(tmp_path.iterdir())
    assert touched


def test_a_type_that_no_package_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text("sources: [{id: r, type: gopher}]")
    with pytest.raises(TabootError, match="unknown type gopher"):
        load_sources(tmp_path / "sources.yaml")
    # What is stored of one whose package was uninstalled can be looked at, and not read again.
    entry = parse_entry({"id": "r", "type": "gopher", "host": "h", "schedule": "@daily"})
    assert json.loads(entry.config_json())["host"] == "h" and entry.schedule == "@daily"
    with pytest.raises(TabootError, match="No installed package has the source type gopher") as caught:
        open_connector(entry, Access.of(Settings(), tmp_path))
    assert caught.value.code == "E_PLUGIN"


@pytest.mark.parametrize("type_", [*SOURCE_KINDS, "gopher"])
def test_a_document_may_say_that_it_comes_from_any_type(type_: str) -> None:
    key = ("f81d4fae-7dec-41d0-a765-00a0c91e6bf6",)
    check_node("Document", key, {"sourceType": type_})
    for none in (f"{type_} s", type_.upper(), "", f"{type_}\n"):
        with pytest.raises(TabootError, match="E_SCHEMA_INVALID"):
            check_node("Document", key, {"sourceType": none})


def test_a_secret_is_read_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2")
    secret = Access.of(Settings(), Path()).secrets("SOME_TOKEN")
    assert secret.get_secret_value() == "hunter2" and "hunter2" not in repr(secret)
    for value in ("", None):
        if value is None:
            monkeypatch.delenv("SOME_TOKEN")
        else:
            monkeypatch.setenv("SOME_TOKEN", value)
        with pytest.raises(TabootError, match="SOME_TOKEN is not set") as caught:
            environment_secret("SOME_TOKEN")
        assert caught.value.code == "E_CONFIG"
