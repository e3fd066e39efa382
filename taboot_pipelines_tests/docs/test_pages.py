"""The pages are current, what they name exists, and their Python runs."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.cli.group import cli
from taboot_pipelines.errors import CODES
from taboot_pipelines.model.graph import EDGES, NODES
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources.sources_file import load_sources
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines_tests.docs.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
#: Taboot settings as they stand in text: whole names, not the heading of a group (``TABOOT_TEI__…``).
SETTING = re.compile(r"\bTABOOT_[A-Z0-9_]*[A-Z0-9]\b(?!…|__)")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_generated_parts_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_check_sees_a_stale_page(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "deploy" / "monitoring", tmp_path / "deploy" / "monitoring")
    (tmp_path / "taboot_pipelines").symlink_to(ROOT / "taboot_pipelines")
    page = tmp_path / "docs" / "settings.md"
    page.write_text(page.read_text("utf-8").replace("`.taboot`", "`.other`"), encoding="utf-8")
    run = [sys.executable, tmp_path / "docs" / "generate.py"]
    assert subprocess.run([*run, "--check"], capture_output=True, check=False).returncode == 1
    subprocess.run(run, check=True, capture_output=True)
    assert page.read_text("utf-8") == TEXTS["settings.md"]


def test_every_setting_is_described() -> None:
    def names(model: type, prefix: str) -> set[str]:
        found = set()
        for name, field in model.model_fields.items():
            kind = field.annotation
            found |= (
                names(kind, f"{prefix}{name.upper()}__")
                if hasattr(kind, "model_fields")
                else {prefix + name.upper()}
            )
        return found

    settings = names(Settings, "TABOOT_")
    assert settings == set(re.findall(r"^\| `(TABOOT_\w+)`", TEXTS["settings.md"], re.MULTILINE))
    named = {n for text in TEXTS.values() for n in SETTING.findall(text)} - {
        "TABOOT_TEST_DATA",
        "TABOOT_TEST_QDRANT_URL",
        "TABOOT_TEST_SOAK_SECONDS",
    }
    assert named <= settings, named - settings


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {n for text in TEXTS.values() for n in re.findall(r"(?:`|^|\s)make ([a-z]+)", text)}
    assert {"demo", "test", "dev"} <= named <= targets, named - targets


def test_the_makefile_calls_commands_that_exist() -> None:
    called = set(re.findall(r"\$\(BIN\)/taboot ([a-z]+)", (ROOT / "Makefile").read_text()))
    assert called <= set(cli.commands), called - set(cli.commands)


def test_commands_and_options_exist() -> None:
    lines = [
        line.split("#")[0].strip()
        for text in TEXTS.values()
        for line in [
            *re.findall(r"`([^`\n]*\btaboot [^`\n]*)`", text),
            *(x for lang in ("sh", "console") for b in fenced(text, lang) for x in b.splitlines()),
        ]
    ]
    calls = [m[1] for line in lines if (m := re.search(r"(?:^|[ /$])taboot ([a-z].*)", line))]
    assert len(calls) > 10
    for call in calls:
        words = shlex.split(call.split("|")[0].split(" > ")[0])
        command = cli.commands.get(words[0])
        if isinstance(command, click.Group) and len(words) > 1 and not words[1].startswith("-"):
            command = command.commands.get(words[1])
        assert isinstance(command, click.Command), f"there is no command: taboot {call}"
        options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        assert {w for w in words if w.startswith("--")} <= {
            *options,
            "--help",
        }, f"no such option: taboot {call}"


def test_sample_sources_files_are_valid(tmp_path: Path) -> None:
    samples = [block for text in TEXTS.values() for block in fenced(text, "yaml")]
    shown = []
    for sample in samples:
        (tmp_path / "sources.yaml").write_text(sample, encoding="utf-8")
        shown.append({e.type for e in load_sources(tmp_path / "sources.yaml").entries.values()})
    # Two are for a whole house, any other for one type.
    house = {"compose", "swag", "files", "web"}
    assert sum(house <= types for types in shown) >= 2
    assert all(len(types) == 1 for types in shown if not house <= types)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", TEXTS[page.name]):
        if "://" not in link:
            assert (page.parent / link).exists(), link


def test_anchors_exist() -> None:
    for text in TEXTS.values():
        for name, anchor in re.findall(r"\]\(([a-z/]*\.md)#([a-z-]+)\)", text):
            headings = re.findall(r"^#+ (.*)$", TEXTS[Path(name).name], re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings
            }, f"{name}#{anchor}"


def test_the_chain_is_that_of_the_page() -> None:
    assert re.findall(r"^\| `([a-z0-9_]+)` \|", TEXTS["architecture.md"], re.MULTILINE) == list(CHAIN.names)


def test_codes_and_packages_exist() -> None:
    for name, text in TEXTS.items():
        unknown = set(re.findall(r"\bE_[A-Z0-9_]+\b", text)) - set(CODES)
        assert not unknown, f"{name}: {unknown}"
    for cell in re.findall(r"^\| (`[^|]*) \|", TEXTS["extending.md"], re.MULTILINE):
        for path in re.findall(r"`([a-z_/.]+)`", cell):
            assert (ROOT / "taboot_pipelines" / path).exists(), path


@pytest.mark.slow
def test_the_pages_python_runs(ingested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    shutil.copytree(ingested, home)
    monkeypatch.setenv("TABOOT_HOME", str(home))
    monkeypatch.chdir(ROOT)
    for name in ("README.md", "querying.md"):
        blocks = fenced(TEXTS[name], "python")
        assert blocks
        names: dict[str, object] = {"__name__": name}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            for block in blocks:
                exec(compile(block, name, "exec"), names)
        assert "3010" in out.getvalue(), "the answer about Grafana's port"


@pytest.mark.slow
def test_the_page_about_shards_lets_duckdb_alone_read_one(
    ingested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TABOOT_HOME", str(ingested))
    blocks = fenced(TEXTS["shards.md"], "python")
    assert "taboot_pipelines" not in "".join(blocks)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "shards.md", "exec"), names)
    assert "restore-postgres.md" in capsys.readouterr().out
    stated = {
        name: re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", columns))
        for name, columns in re.findall(r"^\| `(\w+)` \| [^|]+ \| (.*) \|$", TEXTS["shards.md"], re.MULTILINE)
    }
    held: dict[str, list[str]] = {}
    for kind in ("documents", "entities"):
        key = next(s["key"] for s in names["manifest"]["shards"] if s["kind"] == kind)
        file = names["folder"] / "default.duckdb.shards" / key / "shard-00000.duckdb"
        with duckdb.connect(str(file), read_only=True) as alone:
            columns = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY 1, "
            for table, column in alone.sql(columns + "column_index").fetchall():
                held.setdefault(table, []).append(column)
    assert stated == held
    single = tmp_path / "single.duckdb"
    KnowledgeBase.open(ingested).export(single, single=True)
    with duckdb.connect(str(single), read_only=True) as alone:
        for query in fenced(TEXTS["shards.md"], "sql")[0].strip().splitlines():
            assert alone.sql(query).fetchall(), query


@pytest.mark.slow
def test_the_served_folder_alone_can_be_searched(ingested: Path, tmp_path: Path) -> None:
    shutil.copytree(ingested / "kb", tmp_path / "kb")
    assert (
        KnowledgeBase.open(tmp_path)
        .search("restore the Gitea database", limit=1)
        .hits[0]
        .url.endswith("restore-postgres.md")
    )


def test_the_glossarys_places_and_rules_exist() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", TEXTS["glossary.md"], re.MULTILINE)[1:]
    rules = set(re.findall(r"^### ([a-z-]+)$", TEXTS["design.md"], re.MULTILINE))
    terms = [term for term, _, _ in rows]
    assert len(terms) > 40 and terms == sorted(terms, key=str.lower)
    for _, meaning, where in rows:
        assert set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", meaning)) <= rules, meaning
        for place in re.findall(r"`([a-z_/.]+)`", where):
            assert (ROOT / "taboot_pipelines" / place).exists(), place


def test_what_no_extractor_reads_is_what_the_page_says() -> None:
    read = "\n".join(
        path.read_text("utf-8")
        for package in ("extraction", "knowledge")
        for path in sorted((ROOT / "taboot_pipelines" / package).rglob("*.py"))
    )
    for kind in (*NODES.values(), *EDGES.values()):
        name = getattr(kind, "label", None) or kind.type
        stated = set(re.findall(rf"`(\w+)` of {name}\b", TEXTS["querying.md"]))
        unread = {p for p in kind.properties if not re.search(rf"\b{p}\b[\"']?\s*[=:\]]", read)}
        assert stated == unread, name


def test_the_size_of_the_example_is_what_the_readme_says() -> None:
    files = sum(p.is_file() for p in (ROOT / "examples" / "homelab").rglob("*"))
    assert f"house of {files} files" in TEXTS["README.md"]
