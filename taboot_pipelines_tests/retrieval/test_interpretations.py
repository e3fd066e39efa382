"""Interpretation runs in a notebook and on the command line: listed, compared with quotes, promoted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from taboot_pipelines.cli.group import cli
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction import quality
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

SURE = "Grafana depends on Postgres.\n"
LESS_SURE = "# Jellyfin\n\nJellyfin connects to Redis (`REDIS_PASSWORD=swordfish-zero`).\n"


@pytest.fixture
def kb(world: World) -> KnowledgeBase:
    path = world.source("notes")
    (path / "sure.md").write_text(SURE)
    (path / "less.md").write_text(LESS_SURE)
    world.ingest()
    return world.kb()


def between(kb: KnowledgeBase) -> float:
    """A confidence that only the surer of the two statements reaches."""
    less, sure = sorted(kb.edges().column("confidence").to_pylist())
    return round((less + sure) / 2, 3)


def path_of(world: World) -> Path:
    return world.directory / "notes"


def test_a_diff_quotes_what_is_added_and_removed(world: World, kb: KnowledgeBase) -> None:
    kb.reinterpret(source="notes", tier="B", config={"min_confidence": between(kb)})
    found = kb.diff("active", "candidate", source="notes", tier="B")
    assert (found.added, found.removed, found.changed, found.same) == (0, 1, 0, 1)
    (item,) = found.items
    assert item.change == "removed"
    assert item.fact.statement == "(Service jellyfin)-[CONNECTS_TO]->(Service redis)"
    assert item.fact.quote is not None and "Jellyfin connects to Redis" in item.fact.quote.text
    assert "swordfish" not in found.model_dump_json() and "swordfish" not in str(found.to_arrow().to_pylist())
    assert (item.fact.path, item.fact.line) == ("less.md", 3)
    text = LESS_SURE[slice(*item.fact.spans[0])]
    assert text.startswith("Jellyfin connects")
    other = kb.diff("candidate", "active", source="notes", tier="B")
    assert (other.added, other.removed) == (1, 0)
    assert "removed" in found._repr_html_() and found.to_pandas().shape[0] == 1
    with pytest.raises(TabootError, match="E_QUERY"):
        kb.diff("active", "candidate")
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        kb.diff("0123456789ab", "0123456789ac")


def test_runs_of_one_unit_before_and_after_an_edit_are_compared_by_their_own_bytes(
    world: World, kb: KnowledgeBase
) -> None:
    (path_of(world) / "sure.md").write_text(
        "Long ago:\n\nGrafana depends on Postgres. Loki depends on Minio.\n"
    )
    world.ingest()
    new, old = kb.runs("notes", "tier_b", document="sure.md").items
    assert (new.state, old.state) == ("active", "archived")
    assert new.run_id is not None and old.run_id is not None
    found = kb.diff(old.run_id, new.run_id[:12])
    assert {(i.change, i.fact.start_name, i.fields) for i in found.items} == {
        ("changed", "grafana", ("span",)),
        ("added", "loki", ()),
    }
    (moved,) = (i for i in found.items if i.change == "changed")
    assert moved.before is not None and moved.before.line == 1 and moved.fact.line == 3
    for fact in (moved.before, moved.fact):
        assert fact.quote is not None and fact.quote.text == "Grafana depends on Postgres."


def test_a_diff_says_how_well_each_side_reads_labelled_passages(
    world: World, kb: KnowledgeBase, tmp_path: Path
) -> None:
    rows = [
        {"text": text, "sentence": text, "triples": [["DEPENDS_ON", "Grafana", name]]}
        for name in ("Tempo", "Redis", "Loki", "MariaDB")
        for text in [f"Grafana depends on {name}."]
    ]
    own = tmp_path / "gold.jsonl"
    own.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    world.overrides["extraction"] = {"gold": own}
    world.workspace.close()
    world.workspace, kb = world.open(world.home), world.kb()
    passages = quality.read_passages(own)
    for number, passage in enumerate(passages):
        (path_of(world) / f"{number}.md").write_text(passage.text)
    assert kb.diff(*[r.run_id for r in kb.runs("notes", "B").items][:2]).gold is None
    world.ingest()
    kb.reinterpret(source="notes", tier="B", config={"min_confidence": 1})
    gold = kb.diff("active", "candidate", source="notes", tier="B").gold
    assert gold is not None and gold.passages >= len(passages)
    found = quality.score(quality.found_by_rules(passages), passages)[quality.ALL]
    assert gold.a.precision > 0.9 and gold.a.found >= found.matched > 0
    # A threshold that nothing reaches finds nothing, and so nothing wrong.
    assert (gold.b.found, gold.b.precision, gold.b.recall) == (0, 1.0, 0.0)
    assert gold.a.labelled == gold.b.labelled > 0


def test_a_run_is_shown_with_what_it_says(kb: KnowledgeBase) -> None:
    runs = kb.runs("notes", "B", active=True)
    assert len(runs.items) == 2 and runs.to_arrow().num_rows == 2
    (run,) = (r for r in runs.items if r.path == "sure.md")
    assert run.run_id is not None
    shown = kb.run(run.run_id)
    assert [f.statement for f in shown.facts] == ["(Service grafana)-[DEPENDS_ON]->(Service postgres)"]
    assert shown.facts[0].quote is not None and shown.facts[0].quote.text == SURE.strip()
    assert kb.edges().column("run_id").to_pylist().count(run.run_id) == 1
    assert kb.runs(status="failed").items == () and kb.runs(candidate=True).items == ()
    with pytest.raises(TabootError, match="E_QUERY"):
        kb.runs(status="ended")


def test_the_command_line_makes_compares_promotes_and_takes_back(
    world: World, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABOOT_HOME", str(world.home))
    monkeypatch.setenv("TABOOT_SOURCES", str(world.directory / "sources.yaml"))
    monkeypatch.setenv("TABOOT_TEI__URL", world.tei)

    def taboot(*arguments: str) -> Any:
        result = CliRunner().invoke(cli, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(cli, list(arguments))
        assert result.exit_code == 0, result.output
        return result.stdout

    place, least = ("--source", "notes", "--tier", "B"), between(kb)
    made = taboot("reinterpret", *place, "--set", f"min_confidence={least}")
    assert len(made["run_ids"]) == 2 and made["promoted"] is None
    listed = taboot("runs", "list", "--candidates", *place)["items"]
    assert {r["run_id"] for r in listed} == set(made["run_ids"])
    assert {json.dumps(r["overrides"]) for r in listed} == {json.dumps({"min_confidence": least})}
    assert taboot("runs", "diff", "active", "candidate", *place)["removed"] == 1
    assert "- (Service jellyfin)" in said("runs", "diff", "active", "candidate", *place)
    assert "candidate" in said("runs", "list") and "grafana" in said(
        "runs", "show", next(r["run_id"] for r in listed if r["path"] == "sure.md")[:10]
    )
    edges = kb.edges().num_rows
    promoted = taboot("runs", "promote", *place)
    assert set(promoted["run_ids"]) == set(made["run_ids"]) and kb.edges().num_rows == edges - 1
    back = taboot("runs", "rollback", "--promotion", promoted["promotion"])
    assert len(back["active"]) == 2 and kb.edges().num_rows == edges
    failed = CliRunner().invoke(cli, ["runs", "promote"])
    assert failed.exit_code == 1 and isinstance(failed.exception, TabootError)
    again = taboot("reinterpret", *place, "--set", f"min_confidence={least}", "--promote")
    assert len(again["promoted"]["run_ids"]) == 2
