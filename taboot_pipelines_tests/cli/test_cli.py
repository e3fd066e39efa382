"""The command as people and programs use it. Most calls stay in this process, where Dagster is loaded
once.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import pytest
import yaml

from taboot_pipelines.cli import main
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import World, holding

PROGRAM = "from taboot_pipelines.cli import main; main()"
COMPOSE = """\
services:
  web:
    image: nginx:1.27
    depends_on: [cache]
    environment: {API_TOKEN: sk-planted-9f8e7d6c5b4a3210}
  cache:
    image: redis:7.2
"""
GUIDE = "# Sessions\n\nThe web server keeps its sessions in cache. Restarting cache signs everybody out.\n"


class Shell:
    def __init__(self, world: World) -> None:
        self.world = world
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
            "TABOOT_HOME": str(world.home),
            "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
            "TABOOT_TEI__URL": world.tei,
        }

    def __call__(self, *arguments: str, code: int = 0) -> str:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment, clear=True),
            redirect_stdout(out),
            redirect_stderr(err),
            pytest.raises(SystemExit) as end,
        ):
            main(arguments)
            sys.exit(0)
        return self._check(end.value.code, out.buffer.getvalue().decode(), err.getvalue(), code)

    def process(self, *arguments: str, code: int = 0, program: str | None = None) -> str:
        """Call the command in a process of its own, or a program that an interpreter is started for."""
        start = python() if program is None else (sys.executable,)
        done = subprocess.run(
            [*start, "-c", PROGRAM if program is None else program, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        return self._check(done.returncode, done.stdout, done.stderr, code)

    def _check(self, found: object, out: str, err: str, code: int) -> str:
        self.err = err
        assert found == code, f"exit code {found}\n{out}\n{err}"
        assert "Traceback" not in err and "dagster" not in err.lower()
        return out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Iterator[Shell]:
    """One knowledge base that the tests below ask; each that changes it makes its own."""
    world = World(tmp_path_factory.mktemp("cli"), tei.url)
    (world.source("stack", "compose", host="box.lan", tags=["config"]) / "compose.yaml").write_text(COMPOSE)
    (world.source("guides") / "sessions.md").write_text(GUIDE)
    made = Shell(world)
    made.first = made.process("ingest")
    yield made
    world.workspace.close()


def test_every_server_that_does_not_answer_is_told(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    (world.source("guides") / "sessions.md").write_text(GUIDE)
    shell = Shell(world)
    shell.environment |= {
        "TABOOT_QDRANT__URL": "http://127.0.0.1:9",
        "TABOOT_QDRANT__MAX_RETRIES": "0",
        "TABOOT_NEO4J__URL": "bolt://127.0.0.1:9",
        "TABOOT_NEO4J__TIMEOUT_SECONDS": "1",
    }
    (told,) = shell.json("ingest", code=1)["sources"]
    assert (
        told["state"] == "failed"
        and [e["code"] for e in told["errors"]] == ["E_QDRANT", "E_NEO4J"]
        and told["error"]["code"] == "E_QDRANT"
    )
    out = shell("ingest", code=1)
    assert "guides: E_QDRANT:" in out and "guides: E_NEO4J:" in out
    assert shell.json("search", "sessions")["hits"]
    world.workspace.close()


def test_what_is_skipped_has_its_code_and_a_path_that_is_not_there_its_remedy(
    tmp_path: Path, tei: FakeTei
) -> None:
    world = World(tmp_path, tei.url)
    folder = world.source("guides")
    (folder / "sessions.md").write_text(GUIDE)
    (folder / "disk.md").write_text("x" * 2000)
    shell = Shell(world)
    shell.environment |= {"TABOOT_LIMITS__MAX_BLOB_BYTES": "1000"}
    assert "1 skipped (E_TOO_LARGE)" in shell("ingest")
    folder.rename(tmp_path / "elsewhere")
    told = shell("ingest", code=1).split("guides: E_PATH: ")[1]
    assert told.count("does not exist or is not a directory") == 1 and "nothing was deleted" in told
    world.workspace.close()


def test_ingest_says_what_it_did(shell: Shell) -> None:
    first = shell.first
    assert re.search(r"stack\s+raw_blobs\s+1 discovered, 1 fetched", first) and re.search(
        r"kb_shards\s+2 shards new", first
    )
    second = shell.json("ingest")
    assert second["ok"] and [s["source"] for s in second["sources"]] == ["guides", "stack"]
    for source in second["sources"]:
        assert source["state"] == "succeeded"
        said = {r["stage"]: r["skipped"] for r in source["stages"]}
        assert said.pop("raw_blobs") is None
        assert said["neo4j_subgraph"] == "skipped: TABOOT_NEO4J__URL"
        assert said.pop("tier_c_triples") == "skipped: TABOOT_LLM__URL"
        for name, target in CHAIN.targets.items():
            assert said.pop(name) == f"skipped: {target.setting}"
        assert set(said.values()) == {"unchanged"}
        assert said.keys() == set(CHAIN.names) - {"raw_blobs", "tier_c_triples", *CHAIN.targets}
    assert shell.err == ""


def test_search_ask_explain_neighbors(shell: Shell) -> None:
    found = shell.json("search", "sessions cache", "--limit", "1", "--source", "guides")
    (hit,) = found["hits"]
    assert hit["source"] == "guides" and hit["url"].endswith("sessions.md") and "cache" in hit["text"]
    assert (
        shell.json("search", "nginx", "--tag", "config", "--mode", "keyword")["hits"][0]["source"] == "stack"
    )
    assert "sessions.md" in shell("search", "sessions")

    answer = shell.json("ask", "Where does the web server keep its sessions?")
    assert answer["found"] and "sessions" in answer["text"] and answer["citations"][0]["line"] == 3
    assert "sessions.md:3" in shell("ask", "Where does the web server keep its sessions?")

    questions = shell.world.directory / "questions.jsonl"
    questions.write_text(
        '{"id": "q1", "kind": "where", "question": "Where does the web server keep its sessions?",'
        ' "must": ["cellar"]}\n{"kind": "none", "question": "What is the capital of Austria?"}\n'
    )
    scores = shell.json("evaluate", str(questions))["scores"]
    assert [(s["kind"], s["right"], s["wrong"]) for s in scores] == [
        ("where", 0, 1),
        ("none", 1, 0),
        ("all", 1, 1),
    ]
    told = shell("evaluate", str(questions), "--wrong")
    assert "where" in told.splitlines()[1] and "q1: Where does" in told
    asked = "Where does the web server keep its sessions?"
    assert asked in shell("feedback", asked, "--right", "--note", "seen") and "seen" in shell("feedback")
    assert [s["right"] for s in shell.json("evaluate")["scores"]] == [1, 1]
    assert shell.json("feedback", asked, "--withdraw") == []
    shell("feedback", asked, code=2)
    shell("evaluate", "nowhere.jsonl", code=1)
    assert "E_PATH" in shell.err

    with mock.patch.object(sys, "stdin", io.StringIO("what depends on cache?\n\nand its image?\n")):
        talk = shell("ask", "-i")
    assert "web depends on cache" in talk and "\n  and cache's image?\n" in talk
    shell("ask", code=2)

    found = shell.json("query", "dependents", "cache")
    ((row,), (place,)) = found["rows"], found["rows"][0]["citations"]
    assert (row["cells"]["dependent"], place["line"], found["complete"]) == ("web", 4, False)
    out = shell("query", "dependents", "service=cache", "--limit", "1")
    assert f"{place['url']}:4  {place['edge_id']}" in out and "1 row. Read: 1 file of 1 source" in out
    assert "\ndependents SERVICE [project] [host] [transitive]\n" in shell("query")
    assert "no dependency on it is declared" in shell("query", "dependents", "web")
    shell("query", "dependents", "wbe", code=1)
    assert "E_NOT_FOUND" in shell.err and "web" in shell.err
    shell("query", "dependents", "web", "a", "b", "yes", "more", code=2)

    graph = shell.json("neighbors", "web", "--type", "DEPENDS_ON")
    (edge,) = graph["edges"]
    assert (edge["start_name"], edge["end_name"]) == ("web", "cache")
    assert f"(Service web)-[DEPENDS_ON]->(Service cache)\n   {edge['url']}:4  {edge['edge_id']}" in shell(
        "neighbors", "web"
    )

    links = shell.json("links", "sessions.md")
    assert links["doc_id"] == hit["doc_id"] and links["title"] == hit["title"]
    assert f"links to: {len(links['outgoing'])}\n" in shell("links", "sessions.md")

    explained = shell.json("explain", edge["edge_id"])
    assert explained["quotes"][0]["line"] == 4 and "cache" in explained["quotes"][0]["text"]
    assert "compose.yaml:4" in shell("explain", edge["edge_id"])
    assert shell.json("explain", hit["chunk_id"])["kind"] == "hit"


def test_search_explains_compares_pages_and_says_why_not(shell: Shell) -> None:
    told = shell("search", "sessions cache", "--explain", "--weight", "vector=2", "--rrf-k", "30")
    assert re.search(r"vector +rank \d+ +score ", told) and "k 30, weights vector 2" in told
    assert re.search(r"milliseconds: open .*embedding .*fusion .*hits .*total ", told)

    first = shell.json("search", "sessions", "--limit", "1")
    assert {"latency_ms", "cached", "total", "next_cursor"} <= first.keys()
    second = shell.json("search", "sessions", "--limit", "1", "--cursor", first["next_cursor"])
    both = shell.json("search", "sessions", "--limit", "2")["hits"]
    assert [first["hits"][0], second["hits"][0]] == both
    a, b = both[0]["highlights"][0]
    assert "session" in both[0]["text"][a:b].lower()

    why = shell.json("search", "sessions", "--why-not", "compose.yaml", "--source", "guides")
    assert not why["found"] and why["chunks"][0]["fell_out"] == "filter"
    told = shell("search", "sessions", "--why-not", "compose.yaml", "--source", "guides")
    assert "The filter source wants guides; the document has stack." in told
    assert {"hybrid", "vector", "keyword"} <= set(shell.json("search", "sessions", "--compare")["modes"])
    assert re.search(r"^hybrid 1 +vector .*sessions.md", shell("search", "sessions", "--compare"), re.M)

    assert shell.json("search", "web", "--collection", "stack", "--content-type", "code")["hits"]
    assert "Nothing found." in shell("search", "web", "--tag", "stacks", "--domain", "none.lan")
    assert "No document has the tag 'stacks'." in shell.err and "domain 'none.lan'" in shell.err
    shell("search", "web", "--collection", "stacks", code=1)
    assert "Did you mean 'stack'?" in shell.err


def test_cached_results_are_shown_and_dropped(shell: Shell) -> None:
    shown = {row["kind"]: row for row in shell.json("cache")["caches"]}
    assert shown.keys() == {"results", "embeddings"} and shown["results"]["store"] == "process"
    assert "results" in shell("cache")
    assert shell.json("cache", "--clear", "all") == {"dropped": {"results": 0, "embeddings": 0}}
    assert shell.json("cache", "--clear", "results", "--domain", "x.lan") == {"dropped": {"results": 0}}
    shell("cache", "--domain", "x.lan", code=2)


def test_questions_load_no_dagster_and_no_table_format(shell: Shell) -> None:
    program = (
        "import sys, atexit\natexit.register(lambda: sys.stderr.write(' '.join(sorted({m.split('.')[0] for m"
        " in sys.modules} & {'dagst' + 'er', 'deltalake', 'sqlalchemy', 'matplotlib'}))))\n" + PROGRAM
    )
    for arguments in (("search", "cache"), ("neighbors", "cache"), ("links", "sessions.md"), ("--help",)):
        shell.process(*arguments, program=program)
        assert shell.err == "", arguments


#: What takes a search longer than its own work to load, or belongs to other questions.
UNUSED = {
    *("pandas", "duckdb", "httpcore", "lxml", "obstore", "pyarrow.compute"),
    *("rich", "difflib", "html", "openvino", "tokenizers", "taboot_pipelines.model.records"),
    *("taboot_pipelines.model.graph", "taboot_pipelines.retrieval.rendering"),
    *(f"taboot_pipelines.retrieval.{n}" for n in ("answers", "graph", "why_not", "explanations", "evidence")),
    *(f"taboot_pipelines.retrieval.results.{n}" for n in ("answers", "graph", "inspection", "explanations")),
}


def test_a_search_loads_nothing_that_it_has_no_use_for(shell: Shell) -> None:
    program = (
        "import sys, atexit\natexit.register(lambda: sys.stderr.write(' '.join(sorted(set(sys.modules) &"
        f" {UNUSED!r}))))\n" + PROGRAM
    )
    found = shell.process("search", "where are sessions kept", "--mode", "keyword", program=program)
    assert "sessions.md" in found and shell.err == ""


def test_a_process_that_ends_at_once_says_all_and_calls_what_asked_for_it(shell: Shell) -> None:
    # A library asks to be called at the end once it is loaded, which is after the command began.
    program = (
        "import atexit, sys\nsys.modules['openvino'] = sys\n"
        "class Late:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'taboot_pipelines.retrieval':\n"
        "            atexit.register(lambda: sys.stderr.write('called'))\n"
        "sys.meta_path.insert(0, Late())\n" + PROGRAM
    )
    assert "sessions.md" in shell.process("search", "sessions", "--mode", "keyword", program=program)
    assert shell.err == "called"
    shell.process("search", "sessions", "--cursor", "none", program=program, code=1)
    assert "E_CURSOR" in shell.err and shell.err.endswith("called")


def test_status_shows_parts_sources_and_settings_without_secrets(shell: Shell) -> None:
    shell.environment["TABOOT_TEI__API_KEY"] = "hidden-key-value"
    try:
        state, shown = shell.json("status"), shell("status")
        config = shell.json("config", "tei")
        shown += shell("config")
    finally:
        del shell.environment["TABOOT_TEI__API_KEY"]
    assert {s["id"]: s["last_job"]["state"] for s in state["sources"]} == {
        "stack": "succeeded",
        "guides": "succeeded",
    }
    counts = state["namespaces"]["default"]
    assert (
        counts["documents"] == 2
        and counts["chunks"] >= 2
        and counts["entities"] >= 4
        and counts["blobs"] == 2
    )
    assert (
        state["settings"]["TABOOT_LIMITS__BATCH_DOCUMENTS"] == 256
        and state["settings"]["TABOOT_TEI__API_KEY"] == "**********"
    )
    assert state["parts"]["embedder"].startswith("TEI at http") and "TABOOT_TEI__API_KEY" in shown
    assert "hidden-key-value" not in json.dumps(state) + json.dumps(config) + shown
    assert {r["name"]: (r["value"], r["from"]) for r in config["settings"]}["TABOOT_TEI__API_KEY"] == (
        "**********",
        "environment",
    )
    assert state["ok"] and {h["part"]: (h["backend"], h["ok"]) for h in state["health"]} == {
        "catalog": ("sqlite", True),
        "state": ("catalog", True),
        "blobs": ("directory", True),
        "tables": ("directory", True),
        "shards": ("directory", True),
        "embedder": ("tei", True),
        "dagster": ("sqlite", True),
    }
    assert all(h["latency_ms"] is not None and not h["message"] for h in state["health"])


def test_status_says_what_is_wrong_and_shows_the_rest(shell: Shell) -> None:
    changed = Shell(shell.world)
    closed = {
        "TABOOT_QDRANT__URL": "http://127.0.0.1:1",
        "TABOOT_NEO4J__URL": "bolt://127.0.0.1:1",
        "TABOOT_REDIS__URL": "redis://:planted@127.0.0.1:1/0",
        "TABOOT_RERANKER__URL": "http://127.0.0.1:1",
        "TABOOT_LLM__URL": "http://127.0.0.1:1/v1",
    }
    changed.environment |= closed
    state = changed.json("status", code=1)
    unwell = {h["part"]: h["message"] for h in state["health"] if not h["ok"]}
    assert set(unwell) == {"vectors", "graph", "state", "reranker", "llm"}
    for name, message in zip(
        ("QDRANT", "NEO4J", "REDIS", "RERANKER", "LLM"),
        (unwell[p] for p in ("vectors", "graph", "state", "reranker", "llm")),
        strict=True,
    ):
        assert message.startswith(f"E_{name}: ") and f"TABOOT_{name}__URL" in message
    # What does not depend on them is told as ever.
    assert {s["id"] for s in state["sources"]} == {"stack", "guides"} and state["namespaces"]["default"][
        "documents"
    ] == 2
    shown = changed("status", code=1)
    assert "vectors: E_QDRANT" in shown and re.search(r"unwell +state, reranker, llm, vectors, graph", shown)
    listed = changed("status", "--parts", code=1)
    assert re.search(r"graph\s+neo4j\s+unwell", listed) and "planted" not in shown + listed


def test_status_goes_without_the_catalog(shell: Shell) -> None:
    changed = Shell(shell.world)
    changed.environment["TABOOT_CATALOG_URL"] = "postgresql+psycopg://taboot:planted-pw@127.0.0.1:1/taboot"
    state = changed.json("status", code=1)
    assert state["error"]["code"] == "E_CATALOG" and state["sources"] == []
    assert {h["part"] for h in state["health"] if not h["ok"]} == {"catalog", "state"}
    assert state["settings"]["TABOOT_CATALOG_URL"] == "**********" and "planted-pw" not in json.dumps(state)
    assert "while the catalog does not answer" in changed("status", code=1)


def test_status_before_anything_creates_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*python(), "-c", PROGRAM, "status"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("TABOOT_")},
    )
    assert done.returncode == 0 and "No source has been read yet" in done.stdout
    assert "→ taboot init" in done.stdout and list(tmp_path.iterdir()) == []


def test_schema_accepts_what_ingest_accepts(shell: Shell) -> None:
    schema = json.loads(shell("schema"))
    jsonschema.validate(yaml.safe_load((shell.world.directory / "sources.yaml").read_text()), schema)


def test_secrets_are_in_no_store_but_the_blobs(shell: Shell) -> None:
    assert {p.split("/")[0] for p in holding(shell.world.home, "sk-planted-9f8e7d6c5b4a3210")} == {"blobs"}
    dagster = shell.world.home / "dagster"
    assert [p for p in (dagster / "storage").rglob("*") if p.is_file()] == []
    assert (dagster / "dagster.yaml").exists() and holding(dagster, "signs everybody out") == []


def test_errors_are_a_code_a_sentence_and_a_remedy(shell: Shell, tmp_path: Path) -> None:
    for arguments, code in (
        (("explain", "0" * 64), "E_EDGE_UNKNOWN"),
        (("neighbors", "nobody-is-called-that"), "E_NOT_FOUND"),
        (("links", "no-such-document"), "E_NOT_FOUND"),
        (("search", " "), "E_QUERY"),
        (("search", "word " * 30_000), "E_QUERY"),
        (("ask", "word " * 30_000), "E_QUERY"),
        (("search", "x", "--type", "composer"), "E_QUERY"),
        (("search", "x", "--cursor", "abc"), "E_CURSOR"),
        (("search", "x", "--why-not", "nobody"), "E_NOT_FOUND"),
        (("search", "x", "--namespace", "elsewhere"), "E_KB_UNINITIALIZED"),
        (("ingest", "nobody"), "E_SOURCE_UNKNOWN"),
        (("delete", "no-such-document"), "E_NOT_FOUND"),
        (("restore", "no-such-document"), "E_NOT_FOUND"),
    ):
        error = shell.json(*arguments, code=1)["error"]
        assert error["code"] == code and error["message"] and error["details"]["remedy"], arguments
        shell(*arguments, code=1)
        assert shell.err.startswith(f"{code}: ") and error["details"]["remedy"] in shell.err
    shell("ingest", "--confirm-deletes", code=2)
    shell("search", code=2)
    shell("search", "x", "--weight", "vector", code=2)
    shell("search", "x", "--compare", "--why-not", "y", code=2)
    for name, value, code in (
        ("TABOOT_CHUNKING__MAX_TOKENS", "many", "E_CONFIG"),
        ("TABOOT_SOURCES", str(tmp_path / "none.yaml"), "E_SOURCES"),
    ):
        changed = Shell(shell.world)
        changed.environment[name] = value
        assert changed.json("ingest", code=1)["error"]["code"] == code


@pytest.mark.slow
def test_failures_deletions_and_retirement(world: World) -> None:
    shell = Shell(world)
    guides = world.source("guides")
    for i in range(3):
        (guides / f"{i}.md").write_text(f"{GUIDE}\nNumber {i}.\n")
    (world.source("stack", "compose") / "compose.yaml").write_text("services: {web: [unclosed\n")
    world.source("gone").rmdir()

    # A source without its directory and a file that cannot be read stop nobody else.
    done = shell.json("ingest", code=1)
    states = {s["source"]: s for s in done["sources"]}
    assert {name: s["state"] for name, s in states.items()} == {
        "gone": "failed",
        "guides": "succeeded",
        "stack": "succeeded",
    }
    assert states["gone"]["error"]["code"] == "E_PATH" and not done["ok"]
    assert {(d["stage"], d["code"]) for d in states["stack"]["failed_items"]} == {
        ("tier_a_triples", "E_PARSE")
    }
    assert (
        len(
            world.kb()
            .documents()
            .filter([s == "guides" for s in world.kb().documents().column("source").to_pylist()])
        )
        == 3
    )
    # An unchanged broken file is still broken.
    shell("ingest", "stack", code=1)
    assert "E_PARSE" in shell("status")

    # Everything a source had is only deleted when a person says so; one that had nothing may go.
    world.remove_source("gone")
    (world.directory / "stack" / "compose.yaml").write_text(COMPOSE)
    for path in guides.iterdir():
        path.unlink()
    held = shell("ingest", code=1)
    assert (
        "E_MASS_DELETE" in held
        and "taboot ingest guides --confirm-deletes" in held
        and "gone: retired" in held
    )
    assert shell.json("ingest", "guides", code=1)["sources"][0]["state"] == "held"
    confirmed = shell.json("ingest", "guides", "--confirm-deletes")
    assert confirmed["sources"][0]["stages"][0]["counts"]["removed"] == 3
    assert set(world.kb().documents().column("source").to_pylist()) == {"stack"}

    # Deleting by hand, and back.
    (document,) = world.kb().documents().column("doc_id").to_pylist()
    assert shell.json("delete", document)["final"]
    assert world.kb().documents().num_rows == 0
    assert shell.json("restore", document)["restored"] == [document]
    assert world.kb().documents().num_rows == 1
    assert shell.json("delete", document, "--erase")["stores"]["blobs"] == "done"
    assert holding(world.home, "sk-planted-9f8e7d6c5b4a3210") == []


def test_status_ends_in_order_while_a_part_still_does_not_answer(tmp_path: Path) -> None:
    # The bundled model is being loaded, in C++, when the process is to end.
    program = (
        "import sys; from taboot_pipelines.stages import health; from taboot_pipelines.cli import main;"
        "health.BUNDLED_SECONDS = health.check.__kwdefaults__['deadline'] = 0.03;"
        "sys.argv = ['taboot', 'status', '--json']; main()"
    )
    environment = {**os.environ, "TABOOT_HOME": str(tmp_path), "TABOOT_SOURCES": str(tmp_path / "none.yaml")}
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1 and "terminate" not in done.stderr
        assert json.loads(done.stdout)["ok"] is False
