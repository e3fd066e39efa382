"""Three people begin: the owner of a homelab, a Dagster engineer, and somebody in a notebook.

Each starts from a home that does not exist, uses the installed ``taboot`` program (or ``KnowledgeBase``) and
takes the wrong turns that people take. What each command promises in detail is tested beside it; this is the
story, in the order in which it happens.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.snippets import snippet
from taboot_pipelines.sources import SOURCE_KINDS
from taboot_pipelines_tests.cli.terminal import PROGRAM, bare, seen, too_long
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.needs import HOMELAB

TABOOT = Path(sys.executable).with_name("taboot")
LINK = re.compile(r"\x1b\]8;;(file://[^\x1b]+)\x1b\\([^\x1b]+)\x1b\]8;;\x1b\\")

# One home for all of it: another worker would build it again.
pytestmark = [pytest.mark.slow, pytest.mark.alone_with("three users")]


class House:
    """A folder with a homelab in it, and the program that is called there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "sources.yaml"
        self.home = folder / ".taboot"
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))}
        self.environment = {**plain, "TABOOT_HOME": str(self.home), "TABOOT_SOURCES": str(self.file)}
        #: What the first commands said.
        self.first: dict[str, str] = {}

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> str:
        return self._run((*python(), "-c", PROGRAM), *arguments, code=code, **environment)

    def installed(self, *arguments: str, code: int = 0) -> str:
        """What the program says that the package installs, which is slower to begin."""
        return self._run((str(TABOOT),), *arguments, code=code)

    def _run(self, start: Sequence[str], *arguments: str, code: int, **environment: str) -> str:
        done = subprocess.run(
            [*start, *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.err = done.stderr
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr, arguments
        return done.stdout

    def json(self, *arguments: str, code: int = 0, **environment: str) -> Any:
        return json.loads(self(*arguments, "--json", code=code, **environment))

    def screen(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """What a terminal of 80 columns shows, styles and links included; nothing is broken by it."""
        shown = seen({**self.environment, **environment}, *arguments, code=code)
        assert too_long(shown) == [] and "Traceback" not in shown, arguments
        return shown


def words(shown: str) -> str:
    """What is shown without styles, whatever line it stands on."""
    return " ".join(bare(shown).split())


#: The runbooks whose words are asked for.
ASKED_FOR = ("backups.md", "redis.md", "monitoring-and-alerting.md")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("three") / "lab"
    for part in ("stacks", "proxy", "runbooks"):
        # Without the project beside which a README lies: three sources are enough.
        shutil.copytree(HOMELAB / part, folder / part, ignore=shutil.ignore_patterns("media"))
    for runbook in (folder / "runbooks").glob("*.md"):
        if runbook.name not in ASKED_FOR:
            # Its beginning is enough: the house's vectors are made here by the model that comes with us.
            runbook.write_text(runbook.read_text()[:800])
    made = House(folder)
    made.first["status"] = made.installed("status")
    made.first["too early"] = made.installed("ingest", code=1) + made.err
    made.first["nothing yet"] = made("search", "redis", code=1) + made.err
    assert not made.home.exists(), "looking, and failing, leaves nothing behind"
    made.first["init"] = made("init")
    made.file.write_text(made.file.read_text().replace("# languages:", "languages:"))
    made.first["check"] = made("sources", "check")
    made.first["dry run"] = made("ingest", "--dry-run")
    assert not made.home.exists()
    made.first["ingest"] = made("ingest")
    yield made


# --- the owner of a homelab ---------------------------------------------------------------------------------


def test_the_owner_begins(house: House) -> None:
    first = house.first
    assert "→ taboot init" in first["status"]
    assert "does not exist" in first["too early"] and "taboot init" in first["too early"]
    assert "E_KB_UNINITIALIZED" in first["nothing yet"] and "taboot ingest" in first["nothing yet"]
    for found in ("stacks (compose): 13 files", "proxy (swag): 13 files", "lab (files): 14 files"):
        assert found in first["init"]
    assert "# host:" in house.file.read_text() and "is right: 3 sources" in first["check"]
    assert "+ runbooks/redis.md" in first["dry run"] and "lab (files, new): 14 added" in first["dry run"]
    assert re.search(r"lab +raw_blobs +14 discovered, 14 fetched", first["ingest"])
    # What the namespace's stages did is said once, and so is what is not configured.
    assert first["ingest"].count("kb_shards") == 1 == first["ingest"].count("TABOOT_QDRANT__URL")


def test_counts_agree(house: House) -> None:
    state = house.json("status")
    listed = {s["id"]: s for s in house.json("sources", "list")["sources"]}
    counts = state["namespaces"]["default"]
    documents = house.json("documents", "--limit", "1000")
    own = Counter(d["source"] for d in documents["documents"])
    assert counts["documents"] == documents["total"] == own.total() > 30
    assert {s["id"]: s["documents"] for s in state["sources"]} == own
    assert {s["id"]: s["documents"] for s in listed.values()} == own
    # One runbook is in German, which its source does not list: it is no document, and is told as rejected.
    (runbooks,) = (s for s in state["sources"] if s["id"] == "lab")
    assert (runbooks["documents"], runbooks["rejected"], counts["rejected"]) == (13, 1, 1)
    assert runbooks["last_job"]["discovered"] == runbooks["documents"] + runbooks["rejected"]
    assert "1 rejected" in house.first["ingest"] and "E_LANGUAGE" in house("status", "--failed", "lab")


def test_a_slip_takes_nothing_away(house: House) -> None:
    whole = house.json("documents")["total"]
    right = house.file.read_text()
    other = house.folder.parent / "other"
    (other / "notes").mkdir(parents=True)
    (other / "notes" / "guide.md").write_text("# Guide\n\nThe web server keeps its sessions in cache.\n")
    (other / "sources.yaml").write_text("sources: [{id: notes, type: files, path: notes}]\n")
    slip = {"TABOOT_SOURCES": str(other / "sources.yaml")}

    foreseen = {s["source"]: s for s in house.json("ingest", "--dry-run", **slip)["sources"]}
    assert foreseen["lab"]["held"] and "runbooks/redis.md" in foreseen["lab"]["deleted"]
    told = {s["source"]: s for s in house.json("ingest", code=1, **slip)["sources"]}
    assert {s for s, t in told.items() if t["state"] == "held"} == {"stacks", "proxy", "lab"}
    assert str(house.file) in house.err and slip["TABOOT_SOURCES"] in house.err, "whose home it is"
    assert told["lab"]["held"][0]["code"] == "E_MASS_DELETE"
    assert house.json("documents")["total"] == whole + 1
    waiting = words(house.screen("held"))
    assert "- runbooks/redis.md" in waiting and "`taboot ingest lab --confirm-deletes`" in waiting
    needs = words(house.screen("status"))
    assert "lab: 14 deletions wait for a confirmation" in needs and str(house.file) in needs

    # The right file again, cut short where an entry ends: still a valid file, and still a slip.
    house.file.write_text(right[: right.index("  # All other text")])
    cut = {s["source"]: s for s in house.json("ingest", "--dry-run")["sources"]}
    assert {s for s, told in cut.items() if told["held"]} == {"lab", "notes"}
    house.file.write_text(right)
    assert house.json("ingest", "notes", "--confirm-deletes")["sources"][0]["state"] == "retired"
    # Progress is seen in a terminal, and nothing was fetched again.
    shown = bare(house.screen("ingest"))
    assert re.search(r"lab +done ", shown) and "namespace default" in shown
    assert "unchanged (14 not modified)" in words(shown)
    assert house.json("held") == {"held": []} and house.json("documents")["total"] == whole


def test_wrong_settings_are_told(house: House) -> None:
    unknown = {"TABOOT_HOEM": "/srv", "TABOOT_QDRANT_URL": "http://nas:6333"}
    house("held", **unknown)
    assert house.err.count("TABOOT_HOEM") == 1 == house.err.count("TABOOT_QDRANT_URL")
    assert "did you mean TABOOT_HOME?" in house.err and "did you mean TABOOT_QDRANT__URL?" in house.err
    told = words(house.screen("status", **unknown))
    assert told.count("TABOOT_HOEM: is no setting; did you mean TABOOT_HOME?") == 1

    wrong = {"TABOOT_CHUNKING__MAX_TOKENS": "many"}
    told = words(house.screen("status", code=1, **wrong))
    assert "TABOOT_CHUNKING__MAX_TOKENS: is wrong" in told and "lab" in told, "the rest is shown"
    config = house("config", "chunking", code=1, **wrong)
    assert "TABOOT_CHUNKING__MAX_TOKENS is wrong" in config
    assert "TABOOT_CHUNKING__OVERLAP_TOKENS=50" in config
    assert "E_CONFIG" in house("search", "redis", code=1, **wrong) + house.err


def test_all_mistakes_of_a_sources_file_are_listed(house: House, tmp_path: Path) -> None:
    file = tmp_path / "sources.yaml"
    file.write_text(
        "sources:\n"
        "- id: stacks\n"
        "  type: compose\n"
        "  path: stacks\n"
        '  schedule: "*/61 * * * *"\n'
        "- id: notes\n"
        "  type: fils\n"
        "  path: notes\n"
        "- id: site\n"
        "  type: web\n"
        "  urls: [https://x.lan/]\n"
        "  max_deph: 2\n"
    )
    house("sources", "check", code=1, TABOOT_SOURCES=str(file))
    assert "has 3 mistakes" in house.err
    lines = re.findall(r"line (\d+), column (\d+): (.*)", house.err)
    assert [(int(line), int(column)) for line, column, _ in lines] == [(5, 3), (7, 3), (12, 3)]
    cron, type_, field = (said for _, _, said in lines)
    assert "61 minutes" in cron and "max_deph" in field
    known = re.search(r"known: ([a-z_, ]+)\)", type_)
    assert known is not None and known[1].split(", ") == list(SOURCE_KINDS), "those that are built"


def test_eighty_columns(house: House) -> None:
    status = bare(house.screen("status"))
    assert len(status.splitlines()) <= 24 and "Nothing needs attention." in status
    house.screen("sources", "list")
    grafana = words(house.screen("neighbors", "grafana"))
    assert "BINDS 3010→3000/tcp" in grafana and "DEPENDS_ON (service_healthy)" in grafana
    assert "ROUTES_TO /grafana/ → :3000" in grafana
    # Short ids and places: the source and the path in it, and no folder of this machine.
    assert re.search(r"stacks:monitoring/compose\.yaml:\d+ [0-9a-f]{12}\b", grafana)
    assert str(house.folder) not in grafana
    household = words(house.screen("neighbors", "db"))
    assert re.search(r"Service db in \S*household\b", household)
    assert re.search(r"Service db in \S*forge\b", household)
    redis = bare(house.screen("neighbors", "redis")).splitlines()
    statements = [line for line in redis if line.startswith("(")]
    assert len(statements) == len(set(statements)), "equal lines are one"
    found = house.screen("search", "which container dumps the household databases")
    assert "\x1b[33m" in found and not re.search(r"(?m)^\d+\. (.+) > \1( >|$)", bare(found))
    links = {text: link for link, text in LINK.findall(house.screen("search", "redis", FORCE_HYPERLINK="1"))}
    at = next(text for text in links if text.startswith("lab:runbooks/redis.md"))
    assert links[at].endswith(f"{house.folder}/runbooks/redis.md")


def test_a_snippet_is_the_passage_that_matched(house: House) -> None:
    runbook = house.folder / "runbooks" / "backups.md"
    assert runbook.read_text().startswith("---\n"), "it has front matter"
    shown = bare(house("search", "restic forget", "--source", "lab", "--limit", "3"))
    assert "restic" in shown and "---" not in shown and "Backups > Backups" not in shown


def test_short_ids_and_missed_names(house: House) -> None:
    edge = re.findall(r"\b[0-9a-f]{12}\b", bare(house.screen("neighbors", "grafana", "--type", "BINDS")))[0]
    said = words(house.screen("explain", edge))
    assert "BINDS 3010→3000/tcp" in said and "stacks:monitoring/compose.yaml:" in said
    chunk = re.search(r"\b[0-9a-f]{8}:\d+$", bare(house.screen("search", "redis")), re.MULTILINE)
    assert chunk is not None
    deleted = house.json("delete", chunk[0])["doc_ids"]
    assert [d[:8] for d in deleted] == [chunk[0][:8]]
    assert house.json("restore", deleted[0][:8])["restored"] == deleted
    for arguments, near in (
        (["neighbors", "grafanna"], "grafana"),
        (["delete", "redsi.md"], "redis.md"),
        (["search", "x", "--source", "labb"], "lab"),
        (["ingest", "labb"], "lab"),
    ):
        error = house.json(*arguments, code=1)["error"]
        assert error["code"] in ("E_NOT_FOUND", "E_SOURCE_UNKNOWN"), arguments
        assert "Did you mean" in error["message"] and near in error["message"], arguments


# --- the engineer -------------------------------------------------------------------------------------------


def test_the_engineer_has_the_ui(house: House, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        fresh = tmp_path / "fresh"
        assert house("ui", "--port", port, code=1, TABOOT_HOME=str(fresh)) == ""
    assert f"Port {port} of 127.0.0.1 is in use" in house.err and not fresh.exists()


def test_the_engineer_finds_what_the_command_line_did(house: House) -> None:
    import dagster as dg

    from taboot_pipelines.checks import CHECKS
    from taboot_pipelines.stages.chain import CHAIN

    with dg.DagsterInstance.from_config(str(house.home / "dagster")) as instance:
        # An ingest is no run of Dagster's: each stage of each source, and each check, is an event of its own.
        assert instance.get_runs() == []
        sources = set(instance.get_dynamic_partitions("sources"))
        assert sources == {"stacks", "proxy", "lab"}
        for stage in CHAIN.names:
            # What was retired on the way is no partition any more; its events stay, since nothing of Dagster
            # takes those of a partition out of SQLite.
            assert instance.get_materialized_partitions(dg.AssetKey(stage)) - {"notes"} == sources, stage
        only = dg.AssetRecordsFilter(dg.AssetKey("documents"), asset_partitions=["stacks"])
        (record,) = instance.fetch_materializations(only, limit=1).records
        made = record.asset_materialization
        assert made is not None and made.metadata["source"].value == "default/stacks"
        assert made.metadata["new"].value > 0 and made.tags["taboot/source_type"] == "compose"
        for check in CHECKS:
            key = dg.AssetCheckKey(dg.AssetKey(check.stage), check.name)
            summary = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])
            assert key in summary, check.key


# --- the notebook -------------------------------------------------------------------------------------------


def test_the_notebook_user_asks(house: House) -> None:
    kb = KnowledgeBase.open(house.home)
    hit = kb.search("which container dumps the household databases", 3, source=["lab"]).hits[0]
    shown = snippet(hit.text, hit.highlights, 240)
    assert any(bright for word in shown.words for _, bright in word.pieces) and "---" not in shown.text
    around = kb.neighbors("grafana")
    # Documents say ports, too; Compose knows which one of the container stands behind.
    (binds,) = (e for e in around.edges if e.type == "BINDS" and "targetPort" in e.properties)
    assert (binds.properties["port"], binds.properties["targetPort"]) == (3010, 3000)
    assert kb.explain(binds.edge_id[:12]).id == binds.edge_id
    assert kb.documents().num_rows == house.json("documents")["total"]
    for wrong in (lambda: kb.neighbors("grafanna"), lambda: kb.links("redsi.md")):
        with pytest.raises(TabootError, match="Did you mean"):
            wrong()


# --- the shell ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None, reason="There is no bash.")
def test_bash_completes(house: House) -> None:
    script = (
        'eval "$(taboot completion bash)"\n'
        "complete_line() { COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMPREPLY=();"
        " _taboot_completion taboot; printf '%s ' \"${COMPREPLY[@]}\"; echo; }\n"
        "complete_line 'taboot ingest l'; complete_line 'taboot search x --source s';"
        " complete_line 'taboot neighbors x --type DEP'; complete_line 'taboot doc'\n"
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**house.environment, "PATH": f"{TABOOT.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines == ["lab", "stacks", "DEPENDS_ON", "document documents"]
    for shell, sign in (("zsh", "#compdef taboot"), ("fish", "complete --no-files --command taboot")):
        assert sign in house("completion", shell)
