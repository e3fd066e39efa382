"""Secrets stop at the blob (rule ``secrets-stop-at-the-blob``): planted in every format, they are in no other
file, log, message, quote or answer.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from taboot_pipelines.documents.secrets.tokens import tokens
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.acceptance.checks import check_ledger, columns, edges, letters, paths
from taboot_pipelines_tests.acceptance.planting import PUBLIC, page, plant
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import World, contents, holding


@dataclass
class Ingested:
    world: World
    secrets: dict[str, str]
    output: str


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Iterator[Ingested]:
    """Ingested by the command in a process of its own: Dagster's storage and logs are among what is
    searched.
    """
    body = b""

    def answer(h: BaseHTTPRequestHandler) -> None:
        send(h, 200, body, content_type="text/html")

    with serve(answer) as site:
        world = World(tmp_path_factory.mktemp("secrets"), tei.url)
        planted = plant(world, site.base)
        body = page(planted)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))} | {
            "TABOOT_HOME": str(world.home),
            "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
            "TABOOT_TEI__URL": tei.url,
        }
        done = subprocess.run(
            [*python(), "-c", "from taboot_pipelines.cli import main; main()", "ingest"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        yield Ingested(world, planted.known, done.stdout + done.stderr)
        world.workspace.close()


@pytest.fixture(scope="module")
def kb(ingested: Ingested) -> KnowledgeBase:
    return ingested.world.kb()


def leaking(ingested: Ingested, text: str) -> list[str]:
    """Which secrets stand in a text, in any case; by where they were planted, so that no message repeats
    them.
    """
    lower = text.casefold()
    return [where for where, secret in ingested.secrets.items() if secret.casefold() in lower]


def test_everything_was_taken_in(ingested: Ingested) -> None:
    world = ingested.world
    assert len(ingested.secrets) > 60
    assert paths(world.kb()) == {
        *(
            f"stacks/{p}"
            for p in (
                "app/compose.yaml",
                "app/compose.override.yaml",
                "app/Dockerfile",
                "broken/compose.yaml",
                "strange/compose.yaml",
            )
        ),
        "proxy/wiki.conf",
        "proxy/open.conf",
        *(
            f"notes/{p}"
            for p in (
                "runbook.md",
                "heading.md",
                "values.yaml",
                "settings.json",
                "broken.json",
                "app.ini",
                "app.toml",
                "page.html",
                "sprache.md",
            )
        ),
        *(f"chats/{p}" for p in ("session.jsonl", "rollout.jsonl", "conversations.json#c-1", "aider.md")),
        *(f"network/{p}.json" for p in ("wlans", "networks", "settings", "accounts", "vouchers")),
        *(f"tailnet/{p}" for p in ("devices.json", "policy.hujson")),
        *(f"mail/{p}" for p in ("welcome.eml", "welcome.eml#1-smtp.ini", "page.eml")),
        *(f"logs/hits.json#untimed/app/{p}" for p in (1, 2, 3)),
        "logs/nodes.json",
        *(f"videos/{p}" for p in ("talk.info.json", "talk.vtt")),
        "repositories/issue.json#onyx/app#issues/7",
        "forum/listing.json#abc",
        next(f"site/{x}" for x in world.workspace.catalog.locators.of_source("default", "site")),
    }
    dead = letters(world)
    assert {c for i, c in dead.items() if i.startswith("notes/documents/")} == {
        "E_ENCODING",
        "E_BINARY",
        "E_LANGUAGE",
    }
    assert (
        dead["stacks/tier_a_triples/compose:broken/compose.yaml"] == "E_PARSE"
        and dead["proxy/tier_a_triples/nginx:open.conf"] == "E_PARSE"
    )
    assert dead["stacks/tier_a_triples/compose:strange/compose.yaml"]
    check_ledger(world)


def test_no_page_of_the_handbook_holds_a_secret(
    ingested: Ingested, kb: KnowledgeBase, tmp_path: Path
) -> None:
    book = kb.handbook(tmp_path / "house").path
    texts = {str(p.relative_to(book)): p.read_text("utf-8") for p in book.rglob("*") if p.is_file()}
    assert {name: found for name, text in texts.items() if (found := leaking(ingested, text))} == {}
    assert {name: found for name, text in texts.items() if (found := list(tokens(text)))} == {}
    assert "services/app.web.md" in texts and any("slatehost" in text for text in texts.values())


def test_no_file_but_the_blobs_holds_a_secret(ingested: Ingested) -> None:
    home = ingested.world.home
    assert {
        file: found
        for file, text in contents(home)
        if not file.startswith("blobs/sources/default/") and (found := leaking(ingested, text))
    } == {}


def test_the_search_for_leaks_can_find_one(ingested: Ingested) -> None:
    """Every kind of file is really looked into: public words that stand beside the secrets are found in
    each.
    """
    home, secret = ingested.world.home, next(iter(ingested.secrets.values()))
    assert "shard-00000.duckdb" in {Path(f).name for f in holding(home, "basaltview")}
    assert any(".search-" in f for f in holding(home, "basaltview"))
    assert any(f.endswith(".parquet") for f in holding(home, "basaltview"))
    assert any(f.startswith("blobs/sources/default/") for f in holding(home, secret))
    assert "catalog.db" in " ".join(holding(home, "strange/compose.yaml"))
    # Dagster's storage knows the stages, and no item.
    assert any(f.startswith("dagster/") for f in holding(home, "tier_a_triples")) and not any(
        f.startswith("dagster/") for f in holding(home, "strange/compose.yaml")
    )


def test_no_message_or_log_holds_a_secret(
    ingested: Ingested, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    world = ingested.world
    assert "E_PARSE" in ingested.output and leaking(ingested, ingested.output) == []
    assert leaking(ingested, columns(world.home)) == []
    # Everything once more in this process, with every logger at its most talkative.
    for source, file in (
        ("stacks", "strange/compose.yaml"),
        ("stacks", "broken/compose.yaml"),
        ("proxy", "open.conf"),
        ("notes", "torn.md"),
        ("notes", "heading.md"),
    ):
        with (world.directory / source / file).open("ab") as f:
            f.write(b"\n\n")
    with caplog.at_level(logging.DEBUG):
        reports = world.ingest("stacks", "proxy", "notes")
    assert caplog.records and leaking(ingested, caplog.text) == []
    captured = capfd.readouterr()
    assert leaking(ingested, captured.out + captured.err) == []
    assert leaking(ingested, repr(reports)) == []


def test_no_quote_hit_or_answer_holds_a_secret(ingested: Ingested, kb: KnowledgeBase) -> None:
    explained = [kb.explain(e["edge_id"]) for e in edges(kb)]
    assert len(explained) > 50 and leaking(ingested, repr(explained)) == []
    for table in (kb.nodes(), kb.edges(), kb.documents()):
        assert leaking(ingested, str(table.to_pylist())) == []
    for question in (
        "What is the database password of appuser?",
        "API token",
        "password",
        "secret key of slatehost",
    ):
        hits = kb.search(question, limit=50)
        assert hits.hits and leaking(ingested, repr(hits)) == []
        assert leaking(ingested, repr([kb.explain(h) for h in hits.hits])) == []
        assert leaking(ingested, repr(kb.answer(question))) == []


def test_a_search_for_a_secret_finds_nothing(ingested: Ingested, kb: KnowledgeBase) -> None:
    found = {
        where: [h.url for h in kb.search(secret, mode="keyword").hits]
        for where, secret in ingested.secrets.items()
    }
    assert {where: urls for where, urls in found.items() if urls} == {}


def test_what_is_public_beside_them_survives(ingested: Ingested, kb: KnowledgeBase) -> None:
    for word in PUBLIC:
        assert any(word in h.text for h in kb.search(word, mode="keyword", limit=50).hits), word
    facts = {(e["type"], e["start_name"], e["end_name"]) for e in edges(kb)}
    # URLs lead where they lead, password or not.
    assert {("CONNECTS_TO", "web", end) for end in ("db", "cache", "broker")} <= facts
    assert ("ROUTES_TO", "proxy", "web") in facts
    ports = [e["properties"] for e in edges(kb) if e["type"] == "BINDS" and e["start_name"] == "web"]
    assert len(ports) == 1 and '"port":9090' in ports[0]
