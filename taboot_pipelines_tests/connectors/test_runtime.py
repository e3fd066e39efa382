"""Dumps in a folder, Docker's socket and Kubernetes' API: what is taken, asked again, and what goes wrong.

The servers are fakes of Docker's and Kubernetes' APIs.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.protocol import Planner
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.records import Enumerated, Event, Failed, Fetched, Known, NotModified, Skipped
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.fakes.docker import DB, TOKEN, FakeDocker, FakeKubernetes, jellyfin

SOCKETS = """\
State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process
LISTEN 0      4096         0.0.0.0:22        0.0.0.0:*    users:(("sshd",pid=1,fd=3))
"""
FORMS = {
    "inspect.json": (json.dumps([DB]), "application/json"),
    "one": (json.dumps(DB), "application/json"),
    "ps.txt": (
        '{"ID":"a1b2c3d4e5f6","Image":"redis:7","Names":"cache","State":"running","Ports":""}\n' * 2,
        None,
    ),
    "pods.out": (json.dumps({"kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod"}]}), None),
    "ss.txt": (SOCKETS, "text/x-ini"),
    "units": ("Type=simple\nId=web.service\nActiveState=active\n", "text/x-ini"),
    "nginx.dump": ("# configuration file /etc/nginx/nginx.conf:\nevents {}\n", "text/x-nginx-conf"),
}
OTHERS = {
    "notes.md": ("# Notes\n\nState of things.\n", "E_MIME"),
    "other.json": ('{"a": 1}', "E_MIME"),
    "empty.json": ("[]", "E_EMPTY"),
    "images.json": ('[{"Id": "sha256:1", "RepoTags": ["a:1"]}]', "E_MIME"),
}


def run(given: dict[str, Any], known: dict[str, Known] | None = None, root: Path = Path()) -> list[Event]:
    entry = parse_entry({"id": "nas", "type": "runtime", **given})
    connector = open_connector(entry, replace(Access.of(Settings(), root)))
    return list(connector.events(known or {}, lambda _: False))


def after(events: list[Event]) -> dict[str, Known]:
    return {e.path: Known(sha256_hex(e.data), e.etag, None, e.url) for e in events if isinstance(e, Fetched)}


def test_a_dump_is_told_by_what_it_holds_and_not_by_its_name(tmp_path: Path) -> None:
    for name, (text, _) in (FORMS | OTHERS).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "broken.json").write_text('[{"Id": "1", "State": {')
    events = run({"path": "."}, root=tmp_path)
    taken = {e.path: e.mime for e in events if isinstance(e, Fetched)}
    assert taken == {name: mime or "application/json" for name, (_, mime) in FORMS.items()}
    left = {e.path: e.code for e in events if isinstance(e, Skipped)}
    assert left == {name: code for name, (_, code) in OTHERS.items()}
    assert [(e.path, e.error.code) for e in events if isinstance(e, Failed)] == [("broken.json", "E_PARSE")]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeDocker]:
    with FakeDocker(tmp_path / "docker.sock") as fake:
        fake.containers = {c["Id"]: copy.deepcopy(c) for c in (jellyfin(), DB)}
        yield fake


def test_a_socket_gives_each_container_and_nothing_of_what_changes_by_itself(engine: FakeDocker) -> None:
    events = run({"socket": engine.path})
    assert [e.path for e in events[:-1] if isinstance(e, Fetched)] == [
        "containers/jellyfin.json",
        "containers/media-db-1.json",
    ]
    assert events[-1] == Enumerated(True)
    known = after(events)
    engine.containers[DB["Id"]]["State"] |= {"Pid": 99, "StartedAt": "2026-11-28T00:00:00Z"}
    engine.containers[DB["Id"]]["RestartCount"] = 7
    again = run({"socket": engine.path}, known)
    assert all(isinstance(e, NotModified) for e in again[:-1]) and len(again) == 3
    engine.containers[DB["Id"]]["State"] |= {"Status": "exited", "Running": False}
    assert [e.path for e in run({"socket": engine.path}, known) if isinstance(e, Fetched)] == [
        "containers/media-db-1.json"
    ]


def test_a_container_that_fails_is_one_item_and_one_that_went_is_none(engine: FakeDocker) -> None:
    engine.failing[f"/containers/{DB['Id']}/json"] = 403
    events = run({"socket": engine.path})
    assert [(e.path, e.error.code) for e in events if isinstance(e, Failed)] == [
        ("containers/media-db-1.json", "E_FORBIDDEN")
    ]
    engine.failing[f"/containers/{DB['Id']}/json"] = 404
    assert [type(e) for e in run({"socket": engine.path})] == [Fetched, Enumerated]


def test_without_a_socket_nothing_is_enumerated(tmp_path: Path) -> None:
    with pytest.raises(TabootError) as caught:
        run({"socket": str(tmp_path / "none.sock")})
    assert caught.value.code == "E_PATH" and caught.value.remedy is not None


def test_a_proxy_of_the_environment_is_not_asked_for_a_socket(
    engine: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert isinstance(run({"socket": engine.path})[-1], Enumerated)


def test_kubernetes_is_read_page_by_page_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBE_TOKEN", TOKEN)
    with FakeKubernetes() as cluster:
        names = ("a", "b", "c")
        cluster.objects = {"pods": [{"metadata": {"name": n, "namespace": "shop"}} for n in names]}
        asked = {"base_url": cluster.url, "token_env": "KUBE_TOKEN"}
        events = run(asked)
        assert [e.path for e in events if isinstance(e, Fetched)] == [f"pod/shop/{n}.json" for n in names]
        assert json.loads(events[0].data)["kind"] == "Pod"  # type: ignore[union-attr]
        assert cluster.hits["/api/v1/pods"] == 2 and cluster.hits["/apis/apps/v1/deployments"] == 1
        assert all(isinstance(e, NotModified | Enumerated) for e in run(asked, after(events)))
        monkeypatch.setenv("KUBE_TOKEN", "another")
        with pytest.raises(TabootError) as caught:
            run(asked)
        assert caught.value.code == "E_CREDENTIALS" and "another" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"path": ".", "socket": "/x"},
        {"socket": "/x", "include": ["*"]},
        {"base_url": "http://a"},
        {"socket": "/x", "token_env": "A"},
    ],
)
def test_one_way_to_ask(fields: dict[str, Any]) -> None:
    with pytest.raises((TabootError, ValidationError)):
        parse_entry({"id": "nas", "type": "runtime", **fields})


def test_a_plan_asks_nothing(tmp_path: Path) -> None:
    entry = parse_entry({"id": "nas", "type": "runtime", "socket": str(tmp_path / "none.sock")})
    connector = open_connector(entry, Access.of(Settings(), tmp_path))
    assert isinstance(connector, Planner) and [p.what for p in connector.plan()] == ["what runs"]
