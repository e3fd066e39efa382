"""tier_c_triples over real HTTP: what is asked, what is kept, what waits and what fails.

Holds rules ``unit-of-interpretation``, ``kill-anywhere``, ``nothing-lost-silently``,
``incremental-equals-scratch`` and ``deleted-stays-deleted``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_c import calibration
from taboot_pipelines.model.records import Interpretation
from taboot_pipelines.stages import dead_letters, tier_b_triples
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.letter_retries import STAGE as WINDOWS
from taboot_pipelines.stages.letter_retries import WindowLetters
from taboot_pipelines.stages.reinterpretation import promote, reinterpret, rollback
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.reading_model import OTHER_MODEL, fact, facts, reads, window_of
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, differences, graph, holding, logical

STAGE = "tier_c_triples"
WORD = "zyxwvutquux"
#: A paragraph of about 60 tokens.
FILLING = (
    "It was bought in spring and nobody has looked at its cables since, which is how we all like it best. "
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Tier B say nothing: its word goes before a model's, and the sentences here are plain ones."""
    monkeypatch.setattr(
        tier_b_triples.tier_b, "read_all", lambda prose, _n: (Interpretation((), ()) for _ in prose)
    )


@pytest.fixture
def llm() -> Iterator[FakeOpenAi]:
    with FakeOpenAi(context=10**6) as server:
        server.react = reads
        yield server


@pytest.fixture
def made(tmp_path: Path, tei: FakeTei, llm: FakeOpenAi) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(**settings: Any) -> World:
        given = {"url": llm.url, "model": "fake/llm", "timeout_seconds": 5, "max_retries": 0}
        llm_settings = {**given, **settings.pop("llm", {})}
        worlds.append(World(tmp_path, tei.url, llm=llm_settings, **settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.workspace.close()


@pytest.fixture
def house(made: Callable[..., World]) -> World:
    return made()


def section(number: int, fact: str) -> str:
    """A section that fills a window of its own."""
    return f"## Part {number}\n\n{fact}\n\n" + "\n\n".join([FILLING * 3] * 6) + "\n\n"


def page(*stated: str) -> str:
    return "# Page\n\n" + "".join(section(i, said) for i, said in enumerate(stated))


def tier_c(reports: list[StageReport]) -> StageReport:
    (report,) = (r for r in reports if r.stage == STAGE)
    return report


def stated(world: World) -> set[tuple[str, str, str]]:
    rows = world.kb().edges().to_pylist()
    return {(r["start_name"], r["type"], r["end_name"]) for r in rows if r["source"] == "tier_c"}


def letters(world: World) -> list[dict[str, Any]]:
    return [dict(d) for d in world.workspace.catalog.dead_letters.find("default", stage=WINDOWS)]


def reopened(world: World) -> None:
    world.workspace.close()
    world.workspace = world.open(world.home)


def older(world: World, seconds: float) -> None:
    """Let all letters be so much older."""
    with world.workspace.catalog.database.begin("default") as c:
        c.exec_driver_sql(f"UPDATE dead_letter SET last_at = last_at - {int(seconds * 1e6)}")


def tried(world: World, seconds_ago: float) -> None:
    """Let all letters be from so long ago; from a time to come, however long the runs in between take."""
    at = int((time.time() - seconds_ago) * 1e6)
    with world.workspace.catalog.database.begin("default") as c:
        c.exec_driver_sql(f"UPDATE dead_letter SET last_at = {at}")


def test_facts_come_with_the_passage_that_states_them(house: World, llm: FakeOpenAi) -> None:
    (house.source("notes") / "a.md").write_text(
        "# House\n\nHere _mastodon_ depends on _postgres_, and nothing else does.\n"
    )
    report = tier_c(house.ingest())
    assert stated(house) == {("mastodon", "DEPENDS_ON", "postgres")}
    assert (report.counts["windows"], report.counts["asked"], report.counts["cached"]) == (1, 1, 0)
    (edge,) = (e for e in house.kb().edges().to_pylist() if e["source"] == "tier_c")
    assert (edge["extraction_method"], edge["start_basis"], edge["end_basis"]) == (
        "llm_window",
        "bytes",
        "bytes",
    )
    assert house.kb().explain(edge["edge_id"]).quote == "mastodon_ depends on _postgres"
    assert report.counts["input_tokens"] > 0 and report.counts["output_tokens"] > 0


def calibrated(file: Path, **relations: tuple[int, int]) -> None:
    """Write {relation: (right, said)} as what was measured of the fake model with today's prompt."""
    measured = {relation: [right, said, said] for relation, (right, said) in relations.items()}
    said = {"fake/llm": {"version": calibration.version(), "relations": measured}}
    file.write_text(json.dumps(said))


def test_a_models_facts_are_served_in_the_relations_that_it_was_measured_in(
    made: Callable[..., World], llm: FakeOpenAi
) -> None:
    text = "Here mastodon depends on postgres. Here gitea talks to loki.\n"
    world = made(extraction={"min_precision": 0.85})
    (world.source("notes") / "a.md").write_text(text)
    report = tier_c(world.ingest())
    assert stated(world) == set() and report.counts["candidates"] == 2
    assert report.limited == [
        {
            "code": "E_UNCALIBRATED",
            "message": "fake/llm is not calibrated: 2 of its facts are not served.",
            "remedy": "`taboot models try` measures the model on labelled passages.",
        }
    ]
    asked, file = llm.requests, world.home / "calibration.json"
    calibrated(file, DEPENDS_ON=(40, 41), CONNECTS_TO=(6, 10))
    reopened(world)
    report = tier_c(world.ingest())
    assert stated(world) == {("mastodon", "DEPENDS_ON", "postgres")}
    assert report.counts["candidates"] == 1 and llm.requests == asked, "the answers are kept"
    assert "right 85% of the time in DEPENDS_ON: 1 of" in report.limited[0]["message"]
    (edge,) = (e for e in world.kb().edges().to_pylist() if e["source"] == "tier_c")
    assert edge["confidence"] == pytest.approx(41 / 43, abs=0.001)
    assert tier_c(world.ingest()).skipped == "unchanged"
    # Few say little, and what was measured with another prompt says nothing.
    calibrated(file, DEPENDS_ON=(3, 3))
    reopened(world)
    world.ingest()
    assert stated(world) == set()
    calibrated(file, DEPENDS_ON=(40, 40))
    file.write_text(file.read_text().replace(calibration.version(), "older"))
    reopened(world)
    world.ingest()
    assert stated(world) == set()
    file.write_text("[]")
    reopened(world)
    with pytest.raises(TabootError, match="E_SCHEMA_INVALID"):
        world.ingest("notes")
    world.overrides["extraction"] = {"min_precision": 0.85, "calibration": world.root / "absent.json"}
    reopened(world)
    world.ingest("notes")
    assert stated(world) == set()
    (world.root / "absent.json").mkdir()
    with pytest.raises(TabootError, match="E_PATH"):
        world.ingest("notes")


def test_without_a_model_there_are_no_rows_and_the_setting_is_named(world: World) -> None:
    (world.source("notes") / "a.md").write_text("Here mastodon depends on postgres.\n")
    for _ in range(2):
        report = tier_c(world.ingest())
        assert report.skipped == "skipped: TABOOT_LLM__URL" and not report.counts.get("observations")
    assert stated(world) == set() and letters(world) == []


def test_a_model_that_is_taken_away_takes_its_facts_along_and_brings_them_back_unasked(
    house: World, llm: FakeOpenAi
) -> None:
    (house.source("notes") / "a.md").write_text("Here mastodon depends on postgres.\n")
    house.ingest()
    before = graph(house.kb())
    given = house.overrides.pop("llm")
    reopened(house)
    assert tier_c(house.ingest()).skipped == "skipped: TABOOT_LLM__URL" and stated(house) == set()
    house.overrides["llm"] = given
    reopened(house)
    house.ingest()
    assert graph(house.kb()) == before and llm.requests == 1


def test_unchanged_text_asks_nothing_and_an_edit_asks_for_its_window(house: World, llm: FakeOpenAi) -> None:
    notes = house.source("notes")
    said = ["mastodon depends on postgres.", "grafana talks to loki.", "gitea depends on mysql.", "Nothing."]
    (notes / "a.md").write_text(page(*said))
    (notes / "b.md").write_text("# Other\n\nAlso nextcloud talks to redis.\n")
    house.ingest()
    asked = llm.requests
    assert asked == 5
    assert tier_c(house.ingest()).skipped == "unchanged" and llm.requests == asked
    said[1] = "grafana depends on influxdb."
    (notes / "a.md").write_text(page(*said))
    report = tier_c(house.ingest())
    assert llm.requests == asked + 1 and "influxdb" in window_of(llm.bodies[-1])
    assert (report.counts["asked"], report.counts["cached"]) == (1, 3)
    assert ("grafana", "CONNECTS_TO", "loki") not in stated(house)
    # Going back asks nothing at all, and neither does a copy.
    said[1] = "grafana talks to loki."
    (notes / "a.md").write_text(page(*said))
    (notes / "copy.md").write_text(page(*said))
    house.ingest()
    assert llm.requests == asked + 1
    # Configuration is not read; another model is asked about everything.
    (notes / "c.yaml").write_text("mastodon: depends on postgres\n")
    house.ingest()
    assert llm.requests == asked + 1
    llm.models = ("fake/other",)
    house.overrides["llm"] = {**house.overrides["llm"], "model": "fake/other"}
    reopened(house)
    house.ingest()
    assert llm.requests == 2 * asked + 1


@pytest.mark.parametrize("at_once", [1, 8])
def test_answers_are_equal_however_many_are_asked_for_at_once(
    made: Callable[..., World], llm: FakeOpenAi, at_once: int
) -> None:
    world = made(llm={"max_concurrency": at_once}, limits={"batch_documents": 2})
    notes = world.source("notes")
    for i in range(6):
        (notes / f"{i}.md").write_text(page(*(f"svc{i}x{k} talks to postgres{k}." for k in range(3))))
    llm.delay = 0.05
    world.ingest()
    assert llm.requests == 18 and llm.max_in_flight <= at_once and llm.max_in_flight >= min(at_once, 3)
    assert stated(world) == {
        (f"svc{i}x{k}", "CONNECTS_TO", f"postgres{k}") for i in range(6) for k in range(3)
    }
    scratch = world.replay()
    other = world.open(scratch)
    assert differences(logical(world.workspace), logical(other)) == {}
    assert llm.requests == 18, "a replay takes the answers that are kept"
    other.close()


_FAULTS: dict[str, tuple[Callable[[FakeOpenAi], None], str]] = {
    "no JSON": (lambda llm: llm.say("I think mastodon depends on postgres."), "E_LLM_MALFORMED"),
    "cut off": (lambda llm: llm.say('{"facts": [{"quote": "mast', "length"), "E_LLM_MALFORMED"),
    "schema ignored": (lambda llm: llm.say('{"triples": []}'), "E_SCHEMA_INVALID"),
    "type of no relation": (
        lambda llm: llm.say(facts(fact("mastodon depends on postgres", "mastodon", "LOVES", "postgres"))),
        "E_SCHEMA_INVALID",
    ),
    "refused": (lambda llm: llm.say("", refusal="I cannot."), "E_LLM"),
    "timed out": (lambda llm: llm.hang(3.0), "E_LLM_TIMEOUT"),
    "too long for the model": (
        lambda llm: llm.fail(400, message="maximum context length exceeded"),
        "E_TOKEN_LIMIT",
    ),
}


def test_a_window_that_fails_is_a_dead_letter_and_the_others_stand(
    made: Callable[..., World], llm: FakeOpenAi
) -> None:
    world = made(llm={"max_concurrency": 1, "timeout_seconds": 1})
    file = world.source("notes") / "a.md"
    for number, (fault, (inject, code)) in enumerate(_FAULTS.items()):
        before = llm.requests
        file.write_text(
            page(f"Here mastodon depends on postgres{number}.", f"Here gitea talks to loki{number}.")
        )
        inject(llm)
        report = tier_c(world.ingest())
        (letter,) = letters(world)
        assert (letter["code"], letter["attempts"]) == (code, 1), fault
        assert letter["item"].startswith("window:")
        assert report.counts["failed"] == 1 and report.problems[0]["code"] == code
        assert "mastodon" not in str(letter), "a letter never quotes"
        assert stated(world) == {("gitea", "CONNECTS_TO", f"loki{number}")}
        # At once nothing is asked again; after the back-off the one window is, where that may help.
        tried(world, -30)
        world.ingest()
        assert llm.requests - before == 2, fault
        tried(world, 2)
        world.ingest()
        if code == "E_TOKEN_LIMIT":
            assert llm.requests - before == 2
            assert letters(world) == [{**letter, "last_at": letters(world)[0]["last_at"]}]
        else:
            assert llm.requests - before == 3 and letters(world) == [], fault
            assert stated(world) == {
                ("mastodon", "DEPENDS_ON", f"postgres{number}"),
                ("gitea", "CONNECTS_TO", f"loki{number}"),
            }
            assert_like_scratch(world)


def assert_like_scratch(world: World) -> None:
    other = world.open(world.replay())
    try:
        assert differences(logical(world.workspace), logical(other)) == {}
    finally:
        other.close()


def test_after_three_retries_a_window_is_asked_no_more_until_somebody_says_so(
    house: World, llm: FakeOpenAi
) -> None:
    notes = house.source("notes")
    (notes / "a.md").write_text("Here mastodon depends on postgres.\n")
    llm.say("nonsense", times=4)
    house.ingest()
    for attempt, wait in enumerate(dead_letters.BACKOFF_SECONDS, 1):
        assert [d.attempt for d in dead_letters.due(house.workspace, "default", 9e9)] == [attempt]
        tried(house, wait - 30)
        house.ingest()
        assert llm.requests == attempt, "not before its time"
        tried(house, wait)
        house.ingest()
        assert llm.requests == attempt + 1
    assert dead_letters.due(house.workspace, "default", 9e9) == []
    # Each retry is another question: warmer, with another seed.
    assert [b["seed"] for b in llm.bodies] == [0, 1, 2, 3] and llm.bodies[1]["temperature"] > 0
    older(house, 3600)
    assert tier_c(house.ingest()).skipped == "unchanged" and llm.requests == 4
    (notes / "b.md").write_text("A new page changes nothing for the old one.\n")
    house.ingest()
    assert llm.requests == 5
    llm.say("nonsense")
    dead_letters.replay(house.workspace, "default", ["notes"])
    house.ingest()
    assert llm.requests == 6 and letters(house)[0]["attempts"] == 2
    older(house, 91 * 86400)
    house.ingest()
    assert letters(house) == [] and stated(house) == {("mastodon", "DEPENDS_ON", "postgres")}


def test_an_edit_of_a_failed_window_starts_over(house: World, llm: FakeOpenAi) -> None:
    file = house.source("notes") / "a.md"
    file.write_text("Here mastodon depends on postgres.\n")
    llm.say("nonsense")
    house.ingest()
    file.write_text("Here mastodon depends on mariadb.\n")
    house.ingest()
    assert letters(house) == [] and stated(house) == {("mastodon", "DEPENDS_ON", "mariadb")}
    file.unlink()
    (file.parent / "b.md").write_text("Something else.\n")
    house.ingest(confirm_deletes=True)
    assert house.workspace.catalog.answers.open_windows("default", "notes") == []


def test_a_sentence_over_the_limit_is_never_asked_about(house: World, llm: FakeOpenAi) -> None:
    (house.source("notes") / "a.md").write_text(
        "Here mastodon depends on postgres.\n\n" + "word and other words " * 400 + ".\n"
    )
    for _ in range(2):
        house.ingest()
        older(house, 60)
    (letter,) = letters(house)
    assert (letter["code"], letter["attempts"], llm.requests) == ("E_TOKEN_LIMIT", 1, 1)
    assert stated(house) == {("mastodon", "DEPENDS_ON", "postgres")}


@pytest.mark.parametrize("status", [500, 429])
def test_a_server_that_fails_fails_no_run(made: Callable[..., World], llm: FakeOpenAi, status: int) -> None:
    world = made(llm={"max_concurrency": 1})
    notes = world.source("notes")
    for i in range(8):
        (notes / f"{i}.md").write_text(f"Here mastodon{i} talks to postgres.\n")
    llm.fail(status, times=100)
    report = tier_c(world.ingest())
    assert world.kb().documents().num_rows == 8 and stated(world) == set()
    assert llm.requests <= 5 and report.counts["waiting"] >= 3
    assert [x["item"] for x in letters(world)] == ["server:llm"]
    llm.forgive()
    world.workspace.state.circuit_succeeded("default", "circuit:llm")
    world.ingest()
    assert len(stated(world)) == 8 and letters(world) == []
    assert_like_scratch(world)


def test_a_server_that_is_away_is_asked_by_the_next_run_even_for_its_model(
    made: Callable[..., World], tei: FakeTei
) -> None:
    world = made(llm={"url": "http://127.0.0.1:9/v1", "model": None})
    (world.source("notes") / "a.md").write_text("Here mastodon depends on postgres.\n")
    report = tier_c(world.ingest())
    assert [x["item"] for x in letters(world)] == ["server:llm"] and report.counts["failed"] == 1
    with FakeOpenAi(context=10**6) as llm:
        llm.react = reads
        world.overrides["llm"] = {**world.overrides["llm"], "url": llm.url}
        reopened(world)
        world.workspace.state.circuit_succeeded("default", "circuit:llm")
        world.ingest()
        assert stated(world) == {("mastodon", "DEPENDS_ON", "postgres")} and letters(world) == []
    # Away again: what is known stays, what is new waits.
    (world.directory / "notes" / "b.md").write_text("Here gitea talks to loki.\n")
    reopened(world)
    report = tier_c(world.ingest())
    assert stated(world) == {("mastodon", "DEPENDS_ON", "postgres")} and report.counts["waiting"] == 1


def test_the_budget_ends_a_run_and_the_next_one_goes_on(made: Callable[..., World], llm: FakeOpenAi) -> None:
    world = made(llm={"max_concurrency": 2, "max_output_tokens": 100}, extraction={"budget_tokens": 600})
    notes = world.source("notes")
    for i in range(5):
        (notes / f"{i}.md").write_text(f"Here mastodon{i} talks to postgres.\n")
    rounds = 0
    while len(stated(world)) < 5 if rounds else True:
        before = llm.requests
        report = tier_c(world.ingest())
        rounds += 1
        spent = report.counts["input_tokens"] + report.counts["output_tokens"]
        assert 0 < llm.requests - before <= 3 and spent <= 600
        assert [x["code"] for x in report.limited] == ([] if llm.requests == 5 else ["E_QUOTA"])
        assert report.counts["waiting"] == 5 - llm.requests
    assert rounds >= 2 and letters(world) == []
    assert tier_c(world.ingest()).skipped == "unchanged"


def test_the_months_questions_are_counted_by_namespace(made: Callable[..., World], llm: FakeOpenAi) -> None:
    world = made(extraction={"questions_per_month": 3})
    for source, namespace in (("notes", "default"), ("others", "elsewhere")):
        folder = world.source(source, namespace=namespace)
        for i in range(4):
            (folder / f"{i}.md").write_text(f"Here mastodon-{source}{i} talks to postgres.\n")
    reports = [r for r in world.ingest() if r.stage == STAGE]
    assert llm.requests == 6 and [r.counts["waiting"] for r in reports] == [1, 1]
    assert {x["code"] for r in reports for x in r.limited} == {"E_QUOTA"}
    assert world.workspace.catalog.quotas.of("default", 3).left == 0
    world.ingest()
    assert llm.requests == 6
    with world.workspace.catalog.database.begin("default") as c:
        c.exec_driver_sql("UPDATE storage_usage SET billing_month = '2020-01' WHERE namespace = 'default'")
    world.ingest()
    assert llm.requests == 7 and len(stated(world)) == 4
    assert world.workspace.catalog.quotas.of("default", 3).asked == 1


_KILLED = """
import sys
from pathlib import Path
from taboot_pipelines_tests.world import World
llm = {"url": sys.argv[3], "model": "fake/llm", "max_concurrency": 2}
world = World(Path(sys.argv[1]), sys.argv[2], llm=llm)
world.source("notes")
world.ingest()
"""


def test_a_kill_repeats_at_most_the_windows_that_were_on_their_way(
    house: World, llm: FakeOpenAi, tei: FakeTei, tmp_path: Path
) -> None:
    notes = house.source("notes")
    for i in range(12):
        # In a process of its own Tier B speaks as well; of this it says nothing.
        (notes / f"{i:02}.md").write_text(f"Nobody knows whether mastodon{i} talks to postgres.\n")
    house.workspace.close()
    llm.delay = 0.4
    child = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path), tei.url, llm.url])
    try:
        deadline = time.monotonic() + 120
        while llm.requests < 7 and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert 7 <= llm.requests < 12
    llm.delay = 0.0
    house.workspace = house.open(house.home)
    house.ingest()
    repeated = llm.requests - len({window_of(b) for b in llm.bodies})
    assert len(stated(house)) == 12 and repeated <= 2
    assert_like_scratch(house)


def test_an_erased_document_leaves_neither_window_nor_answer(house: World, llm: FakeOpenAi) -> None:
    notes = house.source("notes")
    (notes / "stays.md").write_text("Here mastodon depends on postgres.\n")
    # An earlier version, and a window that failed.
    (notes / "goes.md").write_text(f"Here {WORD}-old talks to {WORD}-db.\n")
    house.ingest()
    llm.say("nonsense", times=1)
    (notes / "goes.md").write_text(page(f"{WORD}-new talks to {WORD}-db.", f"gitea talks to {WORD}-log."))
    house.ingest()
    assert holding(house.home / "catalog.db", WORD) == [] and len(letters(house)) == 1
    assert WORD in (house.home / "catalog.db").read_bytes().decode("latin-1") or any(
        WORD in p.read_bytes().decode("latin-1") for p in house.home.glob("catalog.db*")
    )
    (doc_id,) = (
        x.doc_id
        for x in house.workspace.catalog.locators.of_source("default", "notes").values()
        if x.path == "goes.md"
    )
    receipt = delete(house.workspace, "default", [doc_id], erase=True)
    assert receipt.final and holding(house.home, WORD) == [] and letters(house) == []
    assert stated(house) == {("mastodon", "DEPENDS_ON", "postgres")}
    with house.workspace.catalog.database.read("default") as c:
        for table in ("llm_answer", "llm_window"):
            assert c.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 1


def test_an_answer_that_another_document_holds_outlives_an_erasure(house: World, llm: FakeOpenAi) -> None:
    notes = house.source("notes")
    for name in ("a.md", "b.md"):
        (notes / name).write_text("Here mastodon depends on postgres.\n")
    house.ingest()
    found = house.workspace.catalog.locators.of_source("default", "notes")
    delete(house.workspace, "default", [found["a.md"].doc_id], erase=True)
    house.ingest()
    assert llm.requests == 1 and stated(house) == {("mastodon", "DEPENDS_ON", "postgres")}


def test_no_secret_is_sent_to_the_model(house: World, llm: FakeOpenAi) -> None:
    (house.source("notes") / "a.md").write_text(
        "Here mastodon depends on postgres.\n\nThe admin password: swordfish-hunter-22 is on paper.\n"
    )
    house.ingest()
    assert llm.requests == 1 and "swordfish" not in str(llm.bodies)


def test_letters_expire(house: World) -> None:
    house.workspace.catalog.dead_letters.record(
        "default",
        "notes",
        WINDOWS,
        [
            {
                "item": "window:k",
                "code": "E_LLM_MALFORMED",
                "message": "m",
                "fingerprint": "",
                "kind": "failed",
            }
        ],
        (),
    )
    now = time.time()
    catalog, day = house.workspace.catalog, 86400
    assert WindowLetters(catalog, "default", "notes", now).attempt("k") is None
    assert WindowLetters(catalog, "default", "notes", now + 2).attempt("k") == 1
    assert WindowLetters(catalog, "default", "notes", now + 31 * day).attempt("k") == 0


DEPENDS, TALKS = ("mastodon", "DEPENDS_ON", "postgres"), ("gitea", "CONNECTS_TO", "loki")


def test_another_model_is_tried_beside_the_configured_one(house: World, llm: FakeOpenAi) -> None:
    llm.models = ("fake/llm", OTHER_MODEL)
    (house.source("notes") / "a.md").write_text(
        "Here mastodon depends on postgres. Also gitea talks to loki.\n"
    )
    house.ingest()
    assert stated(house) == {DEPENDS, TALKS}
    made = reinterpret(house.workspace, "default", tier="C", source="notes", config={"model": OTHER_MODEL})
    assert len(made.run_ids) == 1 and made.failed == {} and llm.bodies[-1]["model"] == OTHER_MODEL
    assert stated(house) == {DEPENDS, TALKS} and llm.requests == 2
    promote(house.workspace, "default", source="notes", tier="C")
    assert stated(house) == {DEPENDS}
    (run,) = house.workspace.catalog.runs.find("default", tier="tier_c", active=True)
    assert run["run_id"] == made.run_ids[0]
    assert tier_c(house.ingest()).skipped == "unchanged"
    assert_like_scratch(house)
    rollback(house.workspace, "default", source="notes", tier="C")
    assert stated(house) == {DEPENDS, TALKS} and llm.requests == 2
    assert_like_scratch(house)
    # The name of the configured model is no other model.
    reinterpret(house.workspace, "default", tier="C", source="notes", config={"model": "fake/llm"})
    assert llm.requests == 2
    for wrong in (3, ""):
        with pytest.raises(TabootError, match="E_QUERY"):
            reinterpret(house.workspace, "default", tier="C", source="notes", config={"model": wrong})


def test_the_candidates_of_a_model_are_looked_at_and_promoted(
    made: Callable[..., World], llm: FakeOpenAi
) -> None:
    world = made(extraction={"min_precision": 0.85})
    (world.source("notes") / "a.md").write_text(
        "Here mastodon depends on postgres. Also gitea talks to loki.\n"
    )
    calibrated(world.home / "calibration.json", DEPENDS_ON=(40, 41))
    world.ingest()
    asked = llm.requests
    assert stated(world) == {DEPENDS}
    trial = reinterpret(world.workspace, "default", tier="C", source="notes", config={"model": "fake/llm"})
    assert len(trial.run_ids) == 1 and llm.requests == asked, "its answers are kept"
    assert stated(world) == {DEPENDS}
    promote(world.workspace, "default", runs=trial.run_ids)
    assert stated(world) == {DEPENDS, TALKS}
    sure = {e["type"]: e["confidence"] for e in world.kb().edges().to_pylist() if e["source"] == "tier_c"}
    assert sure == pytest.approx({"DEPENDS_ON": 41 / 43, "CONNECTS_TO": 0.5}, abs=0.001)
    assert tier_c(world.ingest()).skipped == "unchanged"
    rollback(world.workspace, "default", source="notes", tier="C")
    assert stated(world) == {DEPENDS}


def test_what_another_model_cannot_be_asked_fails_and_is_asked_again(house: World, llm: FakeOpenAi) -> None:
    llm.models = ("fake/llm", OTHER_MODEL)
    notes = house.source("notes")
    (notes / "a.md").write_text(page("Here mastodon depends on postgres.", "Here frigate depends on vault."))
    house.ingest()
    asked, trial = llm.requests, {"tier": "C", "source": "notes", "config": {"model": OTHER_MODEL}}
    llm.models = ("fake/llm",)
    made = reinterpret(house.workspace, "default", **trial)
    assert made.run_ids == () and "E_LLM" in str(house.workspace.catalog.runs.find("default", tier="tier_c"))
    (why,) = made.failed.values()
    assert "does not exist" in why or "no answer" in why
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        promote(house.workspace, "default", source="notes", tier="C")
    llm.models = ("fake/llm", OTHER_MODEL)
    llm.say("no JSON", times=1)
    made = reinterpret(house.workspace, "default", **trial)
    # The window that was not answered usably says nothing, and the run says that it was so.
    assert len(made.run_ids) == 1 and made.failed == {}
    rows = house.workspace.catalog.runs.by_id("default", made.run_ids)
    assert "E_LLM_MALFORMED" in rows[made.run_ids[0]]["outcome"]
    # What the configured model may be asked is not touched by it.
    assert letters(house) == [] and tier_c(house.ingest()).skipped == "unchanged"
    before = llm.requests
    made = reinterpret(house.workspace, "default", **trial)
    assert len(made.run_ids) == 1 and llm.requests == before + 1 and before > asked
    promote(house.workspace, "default", runs=made.run_ids)
    assert stated(house) == {DEPENDS, ("frigate", "DEPENDS_ON", "vault")}
    assert_like_scratch(house)
