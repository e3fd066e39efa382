"""Every source type is what ``taboot_pipelines.connectors`` says of one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import taboot_pipelines.connectors
from taboot_pipelines.connectors import (
    SOURCE_KINDS,
    Access,
    SourceEntry,
    SourceKind,
    open_connector,
    sources_file,
)
from taboot_pipelines.connectors.access import environment_secret
from taboot_pipelines.connectors.sources_file import load_sources, parse_entry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import SourceType, check_node
from taboot_pipelines.model.records import Enumerated
from taboot_pipelines.settings import Settings

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
    "tailscale": {"path": "."},
    "unifi": {"path": "."},
    "youtube": {"path": "."},
    "github": {"path": "."},
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
    """All twelve; those with a connector are among them."""
    assert set(SourceType) == {
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
        "ai_session",
        "files",
    }
    assert set(SOURCE_KINDS) <= set(SourceType)
    assert set(SOURCE_KINDS) == set(NOTHING), "every type has its smallest entry here"


def test_a_module_of_each_type_and_no_type_is_forgotten() -> None:
    modules: dict[str, ModuleType] = {
        path.stem: import_module(f"{taboot_pipelines.connectors.__name__}.{path.stem}")
        for path in PACKAGE.glob("[a-z]*.py")
    }
    declared = {name: m.SOURCE for name, m in modules.items() if hasattr(m, "SOURCE")}
    assert declared == SOURCE_KINDS


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
    with watched() as touched:
        connector = open_connector(entry, access)
        stream = connector.events({}, lambda _: False)
    assert touched == []
    assert list(stream) == [Enumerated(True)]


def test_the_watch_sees_what_is_touched(tmp_path: Path) -> None:
    with watched() as touched:
        list(tmp_path.iterdir())
    assert touched


def test_a_type_without_a_connector_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class LaterSource(SourceEntry):
        pass

    # The list itself stays as it is: a name that is taken out comes back at its end, in another order.
    fewer = {name: kind for name, kind in SOURCE_KINDS.items() if name != "web"}
    monkeypatch.setattr(taboot_pipelines.connectors, "SOURCE_KINDS", fewer)
    monkeypatch.setattr(sources_file, "SOURCE_KINDS", fewer)
    entry = LaterSource.model_validate({"id": "r", "type": "web"})
    with pytest.raises(TabootError, match="E_SOURCES"):
        open_connector(entry, Access.of(Settings(), tmp_path))
    with pytest.raises(ValueError):
        _ = SourceKind(LaterSource, lambda *_: pytest.fail("was opened")).type
    (tmp_path / "sources.yaml").write_text("sources: [{id: r, type: web}]")
    with pytest.raises(TabootError, match="not available in this version"):
        load_sources(tmp_path / "sources.yaml")


@pytest.mark.parametrize("type_", SourceType)
def test_a_document_may_say_that_it_comes_from_any_type_that_is_named(type_: SourceType) -> None:
    key = ("f81d4fae-7dec-41d0-a765-00a0c91e6bf6",)
    check_node("Document", key, {"sourceType": str(type_)})
    with pytest.raises(TabootError, match="E_SCHEMA_INVALID"):
        check_node("Document", key, {"sourceType": f"{type_}s"})


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
