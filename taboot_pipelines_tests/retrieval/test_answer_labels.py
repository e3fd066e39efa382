"""The labelled questions of benchmarks/answers hold against the files they are about, and are judged as their
README says.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from taboot_pipelines_tests.world import DATA

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("answer_labels", ROOT / "benchmarks" / "answer_labels.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


labels = load()
QUESTIONS = labels.read_questions(labels.QUESTIONS)


@pytest.fixture(scope="module")
def corpus():
    return labels.Corpus(labels.house(DATA))


def test_there_are_sixty_of_each_kind_each_asked_once():
    assert set(Counter(q.kind for q in QUESTIONS).items()) == {(kind, 60) for kind in labels.KINDS}
    assert len({q.id for q in QUESTIONS}) == len({q.question.casefold() for q in QUESTIONS}) == len(QUESTIONS)


def test_the_hash_of_the_id_locks_half_of_each_kind():
    assert {q.id for q in QUESTIONS if q.locked} == labels.locked_ids(QUESTIONS)
    assert set(Counter(q.kind for q in QUESTIONS if q.locked).values()) == {30}


@pytest.mark.parametrize("kind", labels.KINDS)
def test_every_label_holds_in_the_files(corpus, kind):
    wrong = {q.id: found for q in QUESTIONS if q.kind == kind and (found := labels.problems(q, corpus))}
    assert not wrong


def test_the_labels_of_the_small_set_hold_in_its_files():
    folder = labels.QUESTIONS.parent / "quay"
    entries = yaml.safe_load((folder / "sources.yaml").read_text())["sources"]
    small = labels.Corpus(entries, folder)
    questions = labels.read_questions(folder / "questions.jsonl")
    assert len({q.id for q in questions}) == len(questions) == 60
    assert not {q.id: found for q in questions if (found := labels.problems(q, small))}


# --- the judge ----------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    (tmp_path / "compose.yaml").write_text(
        "services:\n  web:\n    image: acme/web:10.5\n    ports:\n      - '8080:80'\n\n\n\n\n# the end\n"
    )
    (tmp_path / "page.html").write_text("<p>The limit is 512 MB.</p>" + "<p>Nothing.</p>" * 100)
    return labels.Corpus([{"id": "s", "type": "files", "path": "."}], tmp_path)


def asked(*needs, path="compose.yaml", lines=(5, 5), **more):
    return labels.Question(
        "q", "config", "?", needs=needs, evidence=(labels.EvidenceLines(path, *lines),), **more
    )


def said(text, *cited):
    return labels.Reply(True, text, tuple(labels.Cited(*c) for c in cited))


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("`8080`:80", "8080", True),
        ("port 18080", "8080", False),
        ("redis-exporter", "redis", False),
        ("(redis)", "redis", True),
        ("redis.", "Redis", True),
        ("acme/web:10.5.1", "10.5", False),
        ("acme/web:10.5", "10.5", True),
        ("cellar.hearth.lan", "hearth.lan", False),
        ("512\n  MB", "512 mb", True),
        ("as it says [7]", "7", False),
    ],
)
def test_values_are_compared_on_the_borders_of_tokens(text, value, expected):
    assert labels.holds_all(text, [[value]]) is expected


def test_an_answer_needs_its_values_and_a_citation_that_leads_there(small):
    question = asked(("8080",), forbids=("9090",))
    at = ("/srv/compose.yaml", 5, "- '8080:80'")

    def right(reply):
        return labels.judge(question, reply, small).right

    assert right(said("It is 8080. [1]", at))
    assert right(said("It is 8080. [1]", ("/srv/compose.yaml", 3, "web")))
    assert not right(said("It is 8080. [1]", ("/srv/compose.yaml", 10, "# the end")))
    assert right(
        said("It is 8080. [1]", ("/srv/compose.yaml", 1, "services:\n  web:\n    image: acme/web:10.5"))
    )
    assert not right(said("It is 8080. [1]", ("/srv/other-compose.yaml", 5, "- '8080:80'")))
    assert not right(said("It is 8080."))
    assert not right(said("It is there. [1]", at))
    assert not right(said("It is 8080 or 9090. [1]", at))


def test_a_long_line_or_none_needs_the_value_in_the_cited_text(small):
    question = asked(("512 MB",), path="page.html", lines=(1, 1))

    def right(line, text):
        return labels.judge(question, said("512 MB [1]", ("page.html", line, text)), small).right

    assert right(1, "The limit is 512 MB.")
    assert right(None, "The limit is 512 MB.")
    assert not right(1, "Nothing.")
    assert not right(None, "Nothing.")


def test_the_first_sentence_is_judged_by_itself(small):
    question = asked(("web",), ("8080",))
    at = ("compose.yaml", 5, "- '8080:80'")
    first = labels.judge(question, said("web listens on 8080. [1] There is more. [2]", at), small)
    later = labels.judge(question, said("There is more. [1] web listens on 8080. [2]", at), small)
    assert (first.right, first.first) == (True, True)
    assert (later.right, later.first) == (True, False)


def test_an_abstention_is_right_only_where_nothing_answers(small):
    nothing = labels.Reply(False, "")
    absent = labels.Question("n", "none", "?", absent=(("redis",),))
    assert labels.judge(absent, nothing, small) == labels.Verdict(True, True, True)
    assert not labels.judge(absent, said("redis", ("compose.yaml", 1, "")), small).right
    assert labels.judge(asked(("8080",)), nothing, small) == labels.Verdict(False, False, True)


def test_wrong_labels_are_found(small):
    def wrong(question):
        return labels.problems(question, small)

    assert not wrong(asked(("8080",), ("web",)))
    assert wrong(asked(("9090",)))
    assert wrong(asked(("8080",), path="missing.yaml"))
    assert wrong(asked(("8080",), lines=(5, 99)))
    assert wrong(asked(("8080",), forbids=("8080",)))
    assert wrong(labels.Question("q", "config", "?"))
    assert wrong(labels.Question("n", "none", "?", absent=(("web", "8080"),)))
    assert not wrong(labels.Question("n", "none", "?", absent=(("8081",),)))


def test_a_line_that_is_no_question_is_named(tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text(
        '{"id": "a", "kind": "none", "question": "?"}\n{"id": "b", "kind": "nine", "question": "?"}\n'
    )
    with pytest.raises(ValueError, match=r"questions\.jsonl:2: kind"):
        labels.read_questions(file)
    file.write_text('{"id": "a", "question": "?"}\n')
    with pytest.raises(ValueError, match=r"questions\.jsonl:1"):
        labels.read_questions(file)
