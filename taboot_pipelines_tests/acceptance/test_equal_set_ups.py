"""The same sources in the default set-up and with every part a server: the same knowledge base."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.stages import storage_audit
from taboot_pipelines_tests.acceptance.full_servers import settings_of
from taboot_pipelines_tests.fakes.qdrant import FakeQdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import DATA, World, differences, graph, logical, rows_of

MOMENT = 1_750_000_000_000_000
#: In CI fewer than the 5,000 of a full run (``TABOOT_TEST_DOCUMENTS=5000``), where Qdrant's fake takes
#: minutes to answer, and of the real confs and pages every twelfth.
DOCUMENTS = int(os.environ.get("TABOOT_TEST_DOCUMENTS", "140"))
STEP = 12 if DOCUMENTS < 800 else 1
NAMESPACE = "equal"


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Call it before a world is filled: it fetches at one moment, in jobs whose names count from 1."""

    def freeze() -> None:
        numbers = itertools.count(1)
        monkeypatch.setattr("taboot_pipelines.stages.raw_blobs.now_micros", lambda: MOMENT)
        monkeypatch.setattr(
            "taboot_pipelines.stores.catalog.jobs.uuid",
            SimpleNamespace(uuid4=lambda: UUID(int=next(numbers))),
        )

    return freeze


def fill(world: World) -> None:
    """Documents of four sources: real stacks, confs and pages, and the pages again under other names and
    words.
    """
    stacks = world.source("stacks", "compose", host="box.lan", namespace=NAMESPACE, tags=["prod"])
    shutil.copytree(DATA / "awesome-compose", stacks, dirs_exist_ok=True)
    proxy = world.source("proxy", "swag", proxy="swag", namespace=NAMESPACE)
    for path in sorted((DATA / "swag-reverse-proxy-confs").glob("*.conf.sample"))[::STEP]:
        (proxy / path.name.removesuffix(".sample")).write_bytes(path.read_bytes())
    pages = world.source("pages", namespace=NAMESPACE, tags=["docs", "prod"])
    real = [p.read_text("utf-8") for p in sorted((DATA / "linuxserver-docs-md").rglob("*.md"))[::STEP]]
    notes = world.source("notes", namespace=NAMESPACE)
    for i, text in enumerate(real):
        (pages / f"page-{i:04d}.md").write_text(text)
    made = sum(1 for p in world.directory.rglob("*") if p.is_file())
    rng = random.Random(7)
    for i in range(DOCUMENTS - made):
        # A few paragraphs of one page each: short documents, many of whose texts stand in a page as well.
        paragraphs = [p for p in rng.choice(real).split("\n\n") if 40 < len(p) < 1200]
        chosen = rng.sample(paragraphs, min(len(paragraphs), 3))
        (notes / f"note-{i:04d}.md").write_text(
            f"# Note {i % 900}\n\n"
            + "\n\n".join(chosen)
            + f"\n\nSee 10.{i % 250}.{i // 250}.7 and host{i % 97}.lan.\n"
        )


QUERIES = [
    "how do I map volumes",
    "reverse proxy for nextcloud",
    "10.3.2.7",
    "linuxserver/swag",
    "zzz no such word",
]
FILTERS: list[dict[str, Any]] = [
    {},
    {"tag": "prod", "type": "files"},
    {"source": ["notes", "stacks"], "language": "en"},
]


def asked(kb: KnowledgeBase) -> list[Any]:
    return [
        [
            (h.chunk_id, h.score, h.scores, h.also_in)
            for h in kb.search(query, limit=20, mode=mode, exact=True, **chosen).hits
        ]
        for query in QUERIES
        for mode in ("vector", "keyword", "hybrid")
        for chosen in FILTERS
    ]


@pytest.mark.timeout(3600)
def test_the_same_documents_are_the_same_in_both(
    tmp_path: Path,
    tei: FakeTei,
    postgres: Any,
    redis_url: str,
    neo4j_url: str,
    s3: Any,
    frozen: Any,
    data: Path,
) -> None:
    with FakeQdrant() as qdrant:
        plain = World(tmp_path / "default", tei.url)
        full = World(
            tmp_path / "full",
            tei.url,
            **settings_of(
                catalog_url=postgres.database("equal"),
                redis_url=redis_url,
                qdrant_url=qdrant.url,
                neo4j_url=neo4j_url,
                s3=s3,
            ),
        )
        for world in (plain, full):
            fill(world)
            frozen()
            world.ingest()
        found = [graph(w.kb(NAMESPACE)) for w in (plain, full)]
        assert len(found[0]["documents"]) > DOCUMENTS * 0.8 and len(found[0]["edges"]) >= DOCUMENTS
        assert not differences(*(logical(w.workspace, NAMESPACE) for w in (plain, full)))
        # The sources lie in different directories, which the URLs show.
        roots = [str(w.directory) for w in (plain, full)]
        assert not differences(
            *(
                {k: [r.replace(root, "") for r in rows] for k, rows in g.items()}
                for g, root in zip(found, roots, strict=True)
            )
        )
        before = qdrant.requests.total()
        answers = [asked(w.kb(NAMESPACE)) for w in (plain, full)]
        assert qdrant.requests.total() > before, "the full set-up did not ask Qdrant"
        for i, (a, b) in enumerate(zip(*answers, strict=True)):
            assert a == b, (QUERIES[i // (3 * len(FILTERS))], i)
        # Neo4j holds the same rows; a local file's URL is shown as a path by the reader only.
        assert full.workspace.graph is not None
        kb = full.kb(NAMESPACE)
        for served, own in (
            (full.workspace.graph.nodes(NAMESPACE), kb.nodes()),
            (full.workspace.graph.edges(NAMESPACE), kb.edges()),
        ):
            columns = [c for c in own.column_names if c not in ("url", "properties")]
            assert rows_of(pa.concat_tables(list(served)).select(columns)) == rows_of(own.select(columns))
        for world in (plain, full):
            report = storage_audit.run(world.workspace, NAMESPACE, deep=True)
            assert not report.found and report.checked["documents"] > DOCUMENTS * 0.8
            world.workspace.close()
