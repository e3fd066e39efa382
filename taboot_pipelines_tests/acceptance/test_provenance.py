"""Every fact of the awesome-compose projects leads to the bytes it was read from, checked against the files
on disk.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.acceptance.checks import blob_path, check_ledger, edges, flip_byte, letters
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

BASES = ("bytes", "normalized", "derived", "source")


@pytest.fixture(scope="module")
def projects(data: Path) -> Path:
    return data / "awesome-compose"


@pytest.fixture(scope="module")
def world(projects: Path, tei: FakeTei, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("provenance"), tei.url)
    made.source("stacks", "compose", path=str(projects), host="homelab.example")
    made.source("readmes", "files", path=str(projects), include=["**/README.md"])
    made.ingest()
    yield made
    made.workspace.close()


@pytest.fixture(scope="module")
def kb(world: World) -> KnowledgeBase:
    return world.kb()


@pytest.fixture(scope="module")
def rows(kb: KnowledgeBase) -> list[dict[str, Any]]:
    return edges(kb)


def on_disk(projects: Path, url: str) -> bytes:
    """The file that an edge's or quote's URL names, as it lies there now."""
    return (
        (projects / url.partition(":")[2]).read_bytes() if not url.startswith("/") else Path(url).read_bytes()
    )


def agrees(quote: str, written: str) -> bool:
    """Whether a quote is what is written, masked places (asterisks, as many) aside."""
    return len(quote) == len(written) and all(q in (w, "*") for q, w in zip(quote, written, strict=True))


def supports(row: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(row["supports"])
    return found


def test_the_projects_are_read_whole(world: World, rows: list[dict[str, Any]], projects: Path) -> None:
    assert letters(world) == {}
    check_ledger(world)
    read = {x.path for x in world.workspace.catalog.locators.of_source("default", "stacks").values()}
    assert {str(p.relative_to(projects)) for p in projects.rglob("compose.yaml")} <= read
    assert len(rows) > 500 and {r["type"] for r in rows} >= {
        "MENTIONS",
        "BUILDS",
        "DEPENDS_ON",
        "BINDS",
        "RUNS",
        "RUNS_IN",
        "ROUTES_TO",
        "USES_VPN",
    }


def test_every_edge_is_explained_by_the_bytes_on_disk(
    kb: KnowledgeBase, rows: list[dict[str, Any]], projects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shares: dict[str, Counter[str]] = {}
    for row in rows:
        found = kb.explain(row["edge_id"])
        data = on_disk(projects, row["url"])
        assert hashlib.sha256(data).hexdigest() == row["blob_sha256"], row["url"]
        statement = data[row["byte_start"] : row["byte_end"]]
        assert statement.strip(), row
        assert row["line"] == data[: row["byte_start"]].count(b"\n") + 1
        quote = found.quotes[0]
        assert (quote.blob_sha256, quote.byte_start, quote.byte_end, quote.line) == (
            row["blob_sha256"],
            row["byte_start"],
            row["byte_end"],
            row["line"],
        )
        assert agrees(quote.text, statement.decode()), row["edge_id"]
        assert quote.url == str(projects / row["url"].partition(":")[2])
        for role, end in zip(("start", "end"), found.ends, strict=True):
            assert (end.role, end.key, end.name, end.basis) == (
                role,
                row[f"{role}_key"],
                row[f"{role}_name"],
                row[f"{role}_basis"],
            )
            assert end.basis in BASES and end.rule
            if end.basis == "bytes":
                assert end.observed and end.observed.encode() in statement, (row["edge_id"], role)
            shares.setdefault(row["type"], Counter())[end.basis] += 1
        assert len(found.quotes) == len({(s["blob"], s["start"], s["end"]) for s in supports(row)})
    total = sum(shares.values(), Counter())
    with capsys.disabled():
        print(
            f"\nends of {len(rows)} edges by basis: "
            + ", ".join(f"{b} {total[b]} ({total[b] / total.total():.1%})" for b in BASES)
        )
        for type_, counts in sorted(shares.items()):
            print(f"  {type_:<16} " + ", ".join(f"{b} {counts[b]}" for b in BASES if counts[b]))
    assert all(total[b] for b in BASES)


def test_every_support_stands_where_it_says(world: World, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        listed = supports(row)
        assert any(
            (s["blob"], s["start"], s["end"], s["line"], s["run"])
            == (row["blob_sha256"], row["byte_start"], row["byte_end"], row["line"], row["run_id"])
            for s in listed
        ), row
        for s in listed:
            data = blob_path(world, s["blob"]).read_bytes()
            assert (
                0 <= s["start"] < s["end"] <= len(data) and s["line"] == data[: s["start"]].count(b"\n") + 1
            )
            assert s["method"] and s["run"]
            # The same span, counted in code points of the text and in bytes of the blob.
            first, last = s["span"]
            assert (len(data[: s["start"]].decode()), len(data[: s["end"]].decode())) == (first, last)


def test_every_edge_has_its_provenance_and_every_run_is_active(
    world: World, rows: list[dict[str, Any]]
) -> None:
    active = {r["run_id"] for r in world.workspace.catalog.runs.find("default", active=True)}
    documents = {d["doc_id"] for d in world.kb().documents().to_pylist()}
    for row in rows:
        assert all(
            row[c] not in (None, "")
            for c in (
                "edge_id",
                "doc_id",
                "url",
                "confidence",
                "source",
                "extraction_method",
                "since",
                "run_id",
                "blob_sha256",
            )
        ), row
        assert 0 < row["confidence"] <= 1 and row["doc_id"] in documents
        if row["type"] != "MENTIONS":
            assert row["run_id"] in active, row
    assert len({r["edge_id"] for r in rows}) == len(rows)


def test_no_node_is_an_orphan(kb: KnowledgeBase, rows: list[dict[str, Any]]) -> None:
    ends = {(r[f"{role}_label"], r[f"{role}_key"]) for r in rows for role in ("start", "end")}
    nodes = {(n["label"], n["key"]) for n in kb.nodes().to_pylist()}
    # Several projects have a `db`: where a README says only that, it mentions nothing, and the bare name is
    # no node.
    assert nodes == ends
    # What a document declares, it mentions; a service that only sentences name has no project.
    mentioned = {(r["end_label"], r["end_key"]) for r in rows if r["type"] == "MENTIONS"}
    assert {n for n in nodes if n[0] in ("Service", "Container") and not n[1].startswith('["",')} <= mentioned


def test_one_flipped_byte_fails_the_edges_of_its_blob_and_no_other(
    world: World, kb: KnowledgeBase, rows: list[dict[str, Any]]
) -> None:
    of_blob: dict[str, set[str]] = {}
    for row in rows:
        for sha256 in {s["blob"] for s in supports(row)}:
            of_blob.setdefault(sha256, set()).add(row["edge_id"])
    everything = {r["edge_id"] for r in rows}
    by_size = sorted(of_blob, key=lambda b: (len(of_blob[b]), b))

    def failing(ids: set[str]) -> set[str]:
        failed = set()
        for edge_id in ids:
            try:
                kb.explain(edge_id)
            except TabootError as error:
                assert error.code == "E_BLOB_CORRUPT"
                failed.add(edge_id)
        return failed

    for i, sha256 in enumerate(sorted(of_blob)):
        path = blob_path(world, sha256)
        size = path.stat().st_size
        # All edges are asked for the richest and the poorest blob; for the others, theirs and as many more.
        whole = sha256 in (by_size[0], by_size[-1])
        asked = (
            everything if whole else of_blob[sha256] | set(sorted(everything - of_blob[sha256])[i * 10 :: 97])
        )
        before = flip_byte(path, (0, size // 2, size - 1)[i % 3])
        try:
            assert failing(asked) == of_blob[sha256] & asked
        finally:
            path.chmod(0o600)
            path.write_bytes(before)
    assert failing(set(sorted(everything)[::50])) == set()
