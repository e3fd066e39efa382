"""Answers as a person asks for them: two things at once, in other words than the files have, with slips of
the pen; over a small house of three projects, confs and notes, read by the bundled model.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.retrieval import Answer, KnowledgeBase
from taboot_pipelines.retrieval.answering.compound_questions import (
    Named,
    asks,
    cut,
    properties,
    whole,
    without_preface,
)
from taboot_pipelines.retrieval.answering.documents import Documents
from taboot_pipelines.retrieval.results.answers import SURE
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

LIBRARY = """\
services:
  bookshelf:
    image: example/bookshelf:2.1.0
    ports: ["7070:80"]
    restart: unless-stopped
    mem_limit: ${SHELF_MEM:-640m}
    environment:
      BS_RESCANEVERY: "@every 45m"
      BS_LOGLEVEL: warn
      SMTP_ADDR: ${MAIL_RELAY}
      ADMIN_PASSWORD: ${SHELF_PASSWORD:-opensesame}
      ONLY_SUBDOMAINS: "false"
    volumes:
      - {type: bind, source: /pool/books, target: /books, read_only: true}
    networks: [front]
  jellyfin:
    image: jellyfin/jellyfin:10.10.7
    cap_add: [SYS_NICE, NET_ADMIN]
    networks: [front, inner]
networks:
  front: {external: true}
  inner: {internal: true}
"""
MUSIC = """\
services:
  tunes:
    image: example/tunes:${TUNES_TAG:-3.4}
    restart: unless-stopped
    environment: {SESSION_HOURS: 36, WORKER_SLOTS: 6}
    labels: {team: attic}
    networks: [front]
networks:
  front: {external: true}
"""
BUS = """\
services:
  kafka:
    image: apache/kafka:3.9.0
    privileged: true
    ulimits: {nofile: {soft: 1000, hard: 2000}}
"""
CONF = """\
server {
    server_name shelf.*;
    client_max_body_size 350M;
    location / {
        set $upstream_app bookshelf;
        set $upstream_port 80;
        set $upstream_proto http;
        proxy_redirect $upstream_proto://$upstream_app:$upstream_port/ /;
        proxy_pass $upstream_proto://$upstream_app:$upstream_port;
    }
}
"""
NOTES = """\
# The attic

## Copies

All copies of the house go through a small program to a rented box in Falkenstein.

## How do I get a key card?

Ask at the porter's lodge. It is valid for 9 hours.

## Does the heater drain itself?

No. It only stops, and the water stays where it is.

The boiler was serviced in May. The router is a Protectli VP2420.
"""


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    world = World(tmp_path_factory.mktemp("wordings"), None)
    stacks = world.source("stacks", "compose", host="attic.example", proxy="swag")
    confs = world.source("confs", "swag", proxy="swag")
    for path, text in (
        (stacks / "library" / "compose.yaml", LIBRARY),
        (stacks / "music" / "compose.yaml", MUSIC),
        (stacks / "music" / ".env", "TUNES_TAG=3.7.2\n"),
        (stacks / "bus" / "compose.yaml", BUS),
        (confs / "shelf.subdomain.conf", CONF),
        (world.source("notes") / "attic.md", NOTES),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    world.ingest()
    world.workspace.close()
    return world.kb()


def cited(answer: Answer) -> list[str]:
    return [Path(c.url).read_text().splitlines()[(c.line or 1) - 1].strip() for c in answer.citations]


#: Question, what the answer says word for word, and the beginnings of lines that it cites.
SAYS = [
    # Single values are said as people say them.
    ("memory limit of bookshelf", "The memory limit of bookshelf is 640m (unless SHELF_MEM", ["mem_limit"]),
    ("capabilities of jellyfin", "The added capabilities of jellyfin are SYS_NICE and NET_ADMIN.", ["cap_"]),
    ("log level of bookshelf", "bookshelf sets BS_LOGLEVEL to warn.", ["BS_LOGLEVEL"]),
    ("ONLY_SUBDOMAINS of bookshelf", "bookshelf sets ONLY_SUBDOMAINS to false.", ["ONLY_SUB"]),
    ("which labels does tunes have", "tunes has the label team=attic.", ["labels"]),
    ("which volumes does bookshelf mount", "mounts /pool/books at /books (read-only).", ["- {type"]),
    ("what is WORKER_SLOTS set to", "tunes sets WORKER_SLOTS to 6.", ["environment"]),
    ("upload limit of shelf", "The upload limit of shelf.* is 350M.", ["client_max"]),
    ("ulimits of kafka", "services.kafka.ulimits.nofile.soft is 1000", ["ulimits"]),
    # A variable is told by its default, by what the graph read it as, by what is set around it, or named.
    ("smtp address of bookshelf", "(MAIL_RELAY is set elsewhere)", ["SMTP_ADDR"]),
    ("which image does tunes use", "example/tunes:3.7.2", ["image:"]),
    ("proxy_redirect of shelf", "http://bookshelf:80/ /", ["proxy_redirect", "set $upstream_app bookshelf"]),
    # A name with a slip in it is read as the one name that it can be, and the answer says so.
    ("which image does jelyfin use", "jellyfin (you wrote jelyfin)", ["image: jellyfin"]),
    ("which port does boookshlef publish", "bookshelf (you wrote boookshlef)", ["ports:"]),
    # Networks that are declared alike in several files are all named.
    ("which networks are external?", "The network front is external.", ["front:"]),
    ("list the internal networks", "The network inner is internal.", ["inner:"]),
    # A list over several projects says how many, and each has its place.
    ("which services restart unless-stopped", "2 services in 2 projects: bookshelf", ["restart"] * 2),
    ("which services are on the network front", "3 services in 2 projects are on", ["networks"] * 3),
    # Two things are asked, or two properties of one.
    (
        "Which port does bookshelf publish and which image does it run?",
        "uses the image example/bookshelf:2.1.0",
        ["ports", "image"],
    ),
    ("restart policy and memory limit of bookshelf", "The restart policy of book", ["restart", "mem_limit"]),
    ("restart policy and memory limit of tunes", "Not answered: memory limit of tunes", ["restart"]),
    ("How often does bookshelf look for new books?", "BS_RESCANEVERY to @every 45m", ["BS_RESCAN"]),
    # So in texts: the sentence means what is asked, or it does under its heading.
    ("How long is a key card good for?", "valid for 9 hours", ["Ask at the"]),
    # What says the first half does not answer the second.
    ("How long is a key card good for, and who is its maintainer?", "Not answered: who is", ["Ask at the"]),
]  # fmt: skip


@pytest.mark.parametrize(("question", "says", "lines"), SAYS, ids=[q for q, *_ in SAYS])
def test_a_question_is_answered_in_a_persons_words_with_every_place(kb, question, says, lines):
    answer = kb.answer(question)
    # A question of which one part is not answered is not answered.
    assert answer.found is not says.startswith("Not answered") and says in answer.text, answer.text
    found = cited(answer)
    for line in set(lines):
        assert sum(text.startswith(line) for text in found) >= lines.count(line), (line, found)
    numbers = [c.number for c in answer.citations]
    assert numbers == list(range(1, len(numbers) + 1)) and all(f"[{n}]" in answer.text for n in numbers)


def test_an_image_that_a_variable_names_is_read_with_its_value(kb: KnowledgeBase) -> None:
    """Its value stands in ``.env``, which is no document."""
    view = kb._session.view()
    (doc,) = [d for d in kb.documents().to_pylist() if d["path"] == "music/compose.yaml"]
    said = [s.said for s in Documents().read(view, view.index.row_of(doc["doc_id"], 0)).statements]
    assert "image: example/tunes:${TUNES_TAG:-3.4} (example/tunes:3.7.2)" in said


NOTHING = [
    "which image does jellybean use",
    "session timeout of bookshelf",
    "log level of kafka?",
    "what did the boiler cost?",
    "what's the IP address of the porter's lodge?",
]


@pytest.mark.parametrize("question", NOTHING)
def test_what_is_only_like_it_is_no_answer(kb, question):
    answer = kb.answer(question)
    assert not answer.found, answer.text


def test_what_is_nearly_asked_is_never_sure(kb):
    """Its memory is limited, and none is reserved."""
    answer = kb.answer("how much memory is reserved for bookshelf?")
    assert not answer.found or (answer.confidence < SURE and "mem_limit" in answer.text)


def test_no_default_of_a_secret_is_said(kb):
    for question in (
        "admin password of bookshelf",
        "ADMIN_PASSWORD of bookshelf",
        "environment of bookshelf",
    ):
        assert "opensesame" not in kb.answer(question).text


def test_without_vectors_words_alone_answer(kb):
    assert "640m" in kb.answer("memory limit of bookshelf", mode="keyword").text
    assert not kb.answer("how many jobs can tunes do at once", mode="keyword").found


def test_an_answer_to_two_questions_can_be_replayed(kb):
    answer = kb.answer("Which port does bookshelf publish and which image does it run?")
    assert kb.replay(answer.answer_id).question == answer.question


# --- taking questions apart ---------------------------------------------------------------------------------

CUTS = [
    ("Which port does x publish and which image does it run?", 2),
    ("what's the restart policy of x, and what image is it on?", 2),
    ("what is x? where does it store data?", 2),
    ("When do the dumps start and how long are they kept?", 2),
    ("which services sit on both a and b", 1),
    ("list services which use a and which publish a port", 1),
    ("what breaks if x is down? i.e. what depends on it", 1),
    ("how do I stop and start it", 1),
]


@pytest.mark.parametrize(("text", "count"), CUTS)
def test_a_question_is_cut_where_another_begins(text, count):
    assert len(cut(text)) == count


def test_a_later_question_names_what_the_first_is_about():
    x = [Named(16, 23, "grafana")]
    assert whole("which image does it run?", "which port does grafana publish", x, []) == (
        "which image does grafana run?"
    )
    assert (
        whole("how many files are kept?", "the logs of grafana", x, [])
        == "how many files are kept of grafana?"
    )
    assert (
        whole("how long are they kept?", "When do the dumps start", [], []) == "how long are the dumps kept?"
    )


def test_two_properties_of_one_thing_are_told_apart():
    def named(text: str) -> list[Named]:
        return [Named(text.index("xyz"), text.index("xyz") + 3, "xyz")]

    for text, both in (
        ("restart policy and memory limit of xyz", ["restart policy of xyz", "memory limit of xyz"]),
        ("Which port and image does xyz use?", ["Which port does xyz use?", "Which image does xyz use?"]),
        ("xyz interval and number of retries", ["xyz interval", "xyz number of retries"]),
    ):
        assert properties(text, named(text)) == both
    assert properties("do abc and xyz share a network", named("do abc and xyz share a network")) == []


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Quay stops answering. Which two services use quay?", "Which two services use quay?"),
        ("Quay is gone after a reboot. What does it wait for?", "What does Quay wait for?"),
        # Where neither names anything known, or the question means nothing without it, it stays whole.
        ("Something is broken. What uses the thing?", "Something is broken. What uses the thing?"),
        ("Quay is off. Which services are left?", "Quay is off. Which services are left?"),
        ("Which port, e.g. of quay, is open?", "Which port, e.g. of quay, is open?"),
        ("Which port has quay?", "Which port has quay?"),
    ],
)
def test_sentences_before_a_question_are_no_part_of_it(text, asked):
    def named(part):
        return [Named(*m.span(), m[0]) for m in re.finditer("(?i)quay", part)]

    assert without_preface(text, named) == asked


def test_a_remark_behind_a_question_asks_nothing():
    first, rest = cut("How long does alertmanager wait? I mean the file that we deploy")
    assert first.startswith("How long") and not asks(rest)
    assert asks("and which port does it use") and asks("is it open?")


@given(st.text(max_size=300))
def test_any_text_is_cut_into_pieces_of_itself(text):
    parts = cut(text)
    assert parts and all(part in text for part in parts)
    assert isinstance(properties(text, [Named(0, min(3, len(text)), text[:3])]), list)


def job(name: str, policy: str) -> str:
    return f'job "{name}" {{\n  vault {{\n    policies = ["{policy}"]\n  }}\n}}\n'


def test_whoever_asks_for_several_things_gets_each_place_where_the_line_stands(tmp_path: Path) -> None:
    world = World(tmp_path, None)
    jobs = world.source("jobs")
    for name, policy in (("heron", "pki"), ("curlew", "transit"), ("dunlin", "pki"), ("plover", "pki")):
        (jobs / f"{name}.nomad").write_text(job(name, policy))
    (jobs / "readme.md").write_text("# Birds\n\nEvery morning the reports are drawn.\n")
    world.ingest()
    world.workspace.close()
    answer = world.kb().answer("Which jobs have the vault policies pki?")
    assert answer.found and len(answer.citations) == 3, answer.text
    assert all(f'job "{name}" > vault: policies' in answer.text for name in ("heron", "dunlin", "plover"))
    assert "curlew" not in answer.text and set(cited(answer)) == {'policies = ["pki"]'}
