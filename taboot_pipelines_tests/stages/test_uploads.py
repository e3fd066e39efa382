"""An object store that does not answer holds nothing up.

Bytes wait, and are uploaded when the store answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import obstore
import pytest

from taboot_pipelines.cli.state import gather
from taboot_pipelines.stages import raw_blobs
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, holding


@pytest.fixture
def remote(tmp_path: Path, tei: FakeTei):
    store = tmp_path / "store"
    store.mkdir()
    world = World(tmp_path, tei.url, blob_url=store.as_uri())
    yield world
    world.workspace.close()


class Unreachable:
    """Makes every request to the store by URL fail, as a lost network does.

    The directory of waiting bytes is not touched.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: World) -> None:
        for name in ("put", "get", "head"):
            original = getattr(obstore, name)

            def call(store: Any, *args: Any, original: Any = original, **options: Any) -> Any:
                if store is world.workspace.blobs._store:
                    raise OSError("connection refused")
                return original(store, *args, **options)

            monkeypatch.setattr(obstore, name, call)


def statuses(world: World) -> list[str]:
    return [b["storage_status"] for b in world.workspace.catalog.blobs.all("default")]


def test_an_ingest_goes_on_and_uploads_later(remote: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (remote.source("notes") / "a.md").write_text("The word is zyxwvutquux.\n")
    with monkeypatch.context() as context:
        Unreachable(context, remote)
        raw = remote.ingest()[0]
        assert raw.counts["uploads_waiting"] == 1 and raw.counts["failed"] == 0
        assert statuses(remote) == ["pending"]
        for hour in range(1, len(raw_blobs.RETRY_SECONDS) + 1):
            context.setattr(raw_blobs, "now_micros", lambda hour=hour: 2**61 + hour * 3600 * 1_000_000)
            assert raw_blobs.drain_uploads(remote.workspace, "default") == (0, 1)
        assert statuses(remote) == ["failed"]
    # Whoever asks for the state sees it, with what the store said last and what to do.
    told = gather(remote.workspace.settings, [], [], ask_parts=False)
    (waits,) = (x for x in told["attention"] if x["subject"] == "default")
    assert "1 blobs wait to be uploaded" in waits["what"] and "taboot ingest" in waits["command"]
    assert told["upload_errors"]["default"] in waits["what"]
    assert remote.kb().search("zyxwvutquux", mode="keyword").hits
    monkeypatch.setattr(raw_blobs, "now_micros", lambda: 2**62)
    assert remote.ingest()[0].counts["uploads_done"] == 1
    assert statuses(remote) == ["uploaded"] and not holding(remote.home / "uploads", "zyxwvutquux")
    assert holding(remote.root / "store", "zyxwvutquux")


def test_what_waits_is_erased_as_well(remote: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (remote.source("notes") / "a.md").write_text("The word is zyxwvutquux.\n")
    (remote.directory / "notes" / "b.md").write_text("Another document.\n")
    with monkeypatch.context() as context:
        Unreachable(context, remote)
        remote.ingest()
    gone = remote.workspace.catalog.locators.of_source("default", "notes")["a.md"].doc_id
    assert delete(remote.workspace, "default", [gone], erase=True).final
    assert holding(remote.home, "zyxwvutquux") == [] and holding(remote.root / "store", "zyxwvutquux") == []
