"""Mail through the whole chain: documents, chunks, what is attached, secrets, kills and replays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.connectors.test_gmail_api import attached, message
from taboot_pipelines_tests.fakes.gmail import CLIENT_SECRET, REFRESH_TOKEN, FakeGmail, serving
from taboot_pipelines_tests.world import World, differences, holding, logical

REPLY = b"""Message-ID: <2@example.org>
References: <1@example.org>
From: Ann <ann@example.org>
Subject: Re: The pump
Content-Type: multipart/mixed; boundary=b

--b

The pump in the cellar was replaced on Tuesday by the plumber.

On Mon, 2 Mar 2026 at 10:00, Bob <bob@example.org> wrote:
> zyxwvut hums loudly since the storm.
--b
Content-Type: application/octet-stream; name=pump.yaml
Content-Disposition: attachment

services:
  qwfpgjl:
    image: pump
--b--
"""


def test_history_is_kept_and_not_searched_and_attachments_are_documents(world: World) -> None:
    folder = world.source("post", "gmail")
    (folder / "2.eml").write_bytes(REPLY)
    world.ingest()
    kb = world.kb()
    documents = {row["title"]: row for row in kb.documents().to_pylist()}
    assert len(documents) == 2
    hits = kb.search("plumber replaced the pump").hits
    assert hits[0].title == "Re: The pump"
    assert all("zyxwvut" not in hit.text for hit in kb.search("zyxwvut hums loudly").hits)
    assert any("qwfpgjl" in hit.text for hit in kb.search("qwfpgjl").hits)


@pytest.fixture
def mailbox(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("GMAIL_ID", "client.apps.example")
    monkeypatch.setenv("GMAIL_SECRET", CLIENT_SECRET)
    monkeypatch.setenv("GMAIL_REFRESH", REFRESH_TOKEN)
    with serving(FakeGmail()) as fake:
        fake.attachments = {f"att-{n}": b"# Notes %d\n" % n for n in range(200)}
        world.source(
            "post",
            "gmail",
            path=None,
            base_url=fake.base,
            token_url=f"{fake.base}/token",
            client_id_env="GMAIL_ID",
            client_secret_env="GMAIL_SECRET",  # the variable's name
            refresh_token_env="GMAIL_REFRESH",
        )
        yield fake


def test_changes_end_in_the_stores_of_a_replay_and_cost_no_more(world: World, mailbox: FakeGmail) -> None:
    for n in range(14):
        mailbox.put(attached(n) if n == 3 else message(n))
    world.ingest()
    mailbox.delete(f"{3:016x}")
    mailbox.put(message(20, text="new"))
    mailbox.label(f"{5:016x}", ["INBOX", "Label_7"])
    world.ingest()
    assert world.kb().documents().num_rows == 14
    scratch = world.open(world.replay())
    try:
        assert logical(world.workspace) == logical(scratch), differences(
            logical(world.workspace), logical(scratch)
        )
    finally:
        scratch.close()
    mailbox.asked.clear()
    blobs = sorted((world.home / "blobs").rglob("*"))
    world.ingest()
    assert sorted((world.home / "blobs").rglob("*")) == blobs
    # A label has no history: that it is called as before only its name says.
    assert mailbox.asked == {"token": 1, "history": 1, "labels": 1}


def test_no_token_is_in_any_file(world: World, mailbox: FakeGmail, capfd: Any) -> None:
    mailbox.put(message(1))
    world.ingest()
    mailbox.revoked = True
    with pytest.raises(TabootError) as refused:
        world.ingest()
    output = "".join(capfd.readouterr()) + str(refused.value)
    for secret in (REFRESH_TOKEN, CLIENT_SECRET, mailbox.access_token):
        assert holding(world.home, secret) == []
        assert secret not in output


def test_an_ingest_that_is_killed_ends_as_one_in_a_single_go(world: World, mailbox: FakeGmail) -> None:
    for n in range(120):
        mailbox.put(message(n))
    world.workspace.close()
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from taboot_pipelines_tests.world import World
        world = World.__new__(World)
        world.overrides = {}
        world.home, world.directory, world.tei = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
        workspace = world.open(world.home)
        workspace.sync_sources()
        from taboot_pipelines.stages.running import run_chain
        run_chain(workspace, "post")
    """)
    command = [sys.executable, "-c", program, str(world.home), str(world.directory), world.tei]
    for asked in (20, 90):
        mailbox.asked.clear()
        process = subprocess.Popen(command, env=os.environ, cwd=Path(__file__).parents[2])
        deadline = time.monotonic() + 120
        while mailbox.asked["message"] < asked and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if process.returncode == 0:
            break
    world.workspace = world.open(world.home)
    world.ingest()
    assert world.kb().documents().num_rows == 120
