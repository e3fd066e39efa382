"""Reading: which statements of passages may answer, what is shown of one, and how probable it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.retrieval.answering import reading, words
from taboot_pipelines.retrieval.answering.documents import PassageSpan, ReadDocument
from taboot_pipelines.retrieval.answering.reading import BEFORE, RANKING, TELLING, Read, Signs
from taboot_pipelines.retrieval.answering.text_query import read_question
from taboot_pipelines.retrieval.sentences import Form, statements

PUMPS = """\
# Pumps

## Hall B

The lockers of hall B are emptied in May.

## Hall C

The pump in hall C holds 40 litres. It hums at night.

| Pump | Litres |
|---|---|
| north | 40 |
| south | 55 |

To start it:

1. Open the valve.
2. Press the green button.
"""
COMPOSE = """\
services:
  river:
    image: example/river:2
    mem_limit: 512m
  lake:
    image: example/lake:7
"""


def document(text: str, *, code: bool = False) -> ReadDocument:
    name = "compose.yaml" if code else "pumps.md"
    return ReadDocument(
        doc_id="d",
        source="s",
        url=name,
        title="",
        path=name,
        start=0,
        text=text,
        statements=statements(text, code=code),
        chunks=[(0, len(text), "d:0", 1)],
        named=words.forms(name),
        code=code,
    )


def read(question: str, text: str, *, code: bool = False, own: bool = True) -> list[Read]:
    """By words alone: without vectors."""
    asked = read_question(question, lambda _: 5.0)
    return reading.read(asked, [PassageSpan(document(text, code=code), 0, len(text), own)], None, None)


def chosen(text: str, said: str, *, code: bool = False) -> Read:
    made = document(text, code=code)
    number = next(n for n, s in enumerate(made.statements) if said in s.said)
    return Read(made, number, Signs(*[0.0] * len(Signs._fields)))


def test_the_fitted_weights_are_of_the_signs_that_are_read() -> None:
    weights = reading.weights()
    assert weights.before.shape == (len(BEFORE),) and weights.ranking.shape == (len(RANKING),)
    assert weights.sure.shape == (len(TELLING) + 3,)
    assert all(np.isfinite(held).all() and held.any() for held in weights)


def test_what_a_block_lacks_of_a_question_makes_it_less_probable() -> None:
    """The pump of hall B is in no text; that of hall C is."""
    there, other = (read(f"how many litres does the pump in hall {hall} hold", PUMPS)[0] for hall in "CB")
    assert there.statement.said == other.statement.said == "The pump in hall C holds 40 litres."
    assert there.signs.worded == 1.0 and there.signs.strange == 0.0 == there.signs.missed
    assert other.signs.worded == pytest.approx(0.8) and other.signs.strange == pytest.approx(0.2)
    assert other.sure < there.sure and (there.signs.apart, other.signs.apart) == (1.0, 0.0)


def test_a_statement_of_the_first_passage_stands_in_front() -> None:
    """The second passage is the hall's part; what stands beside both is in none."""
    made, hall = document(PUMPS), PUMPS.index("The pump in hall C")
    places = [
        PassageSpan(made, PUMPS.index("To start it"), len(PUMPS), own=True),
        PassageSpan(made, hall, hall + 40, own=True),
    ]
    asked = read_question("how many litres does the pump in hall C hold", lambda _: 5.0)
    first = {r.statement.said: r.signs.first for r in reading.read(asked, places, None, None)}
    assert first["Open the valve."] == 1.0 > first["The pump in hall C holds 40 litres."] > 0.9
    assert first["Pump: north; Litres: 40"] == 0.0


def test_of_equal_words_those_of_the_house_are_surer() -> None:
    vendor, ours = (read("how many litres does the pump hold", PUMPS, own=own)[0] for own in (False, True))
    assert (vendor.signs.own, ours.signs.own) == (0.0, 1.0) and ours.score > vendor.score


HINTS = """\
backup:
  priority: high
  schedule: weekly
  command: restic backup /srv/lake
"""


def test_a_key_set_to_a_word_tells_no_way_to_do_what_it_is_called() -> None:
    said = {r.statement.said for r in read("how do I back up the lake", HINTS, code=True)}
    assert "command: restic backup /srv/lake" in said
    assert not said & {"backup:", "priority: high", "schedule: weekly"}
    assert "priority: high" in {
        r.statement.said for r in read("which priority has the backup", HINTS, code=True)
    }


CONTROLLER = """\
services:
  app:
    # Public resolvers are written out, so that the filter can start before it resolves itself.
    dns:
      - 9.9.9.9
    restart: always
"""


def test_a_reason_stands_in_a_comment_and_in_no_setting_beside_it() -> None:
    ranked = read("why are public resolvers written out for the filter", CONTROLLER, code=True)
    assert ranked[0].statement.said.startswith("Public resolvers") and ranked[0].signs.value == 1.0
    assert {r.signs.value for r in ranked if r.statement.said in ("dns:", "- 9.9.9.9")} == {0.0}


TREE = """\
# Beacon

## Folders of the lamps

```
/srv/
└── beacon/
    ├── 🗁 lamps/
    └── .env
```

## Cellar

The lamps of beacon are kept in the cellar.
"""


def test_a_tree_of_folders_answers_nothing() -> None:
    said = [r.statement.said for r in read("where are the lamps of beacon kept", TREE)]
    assert said[0] == "The lamps of beacon are kept in the cellar."
    assert not [s for s in said if "─" in s or s in ("/srv/", "Folders of the lamps")]


def test_what_is_improbable_of_another_kind_or_of_another_thing_is_not_said() -> None:
    asked = read_question("how many litres does the pump hold", lambda _: 5.0)
    sure = Read(document(PUMPS), 0, Signs(*[1.0] * len(Signs._fields)), 9.0, 0.99)
    assert reading.answer(asked, [sure], 3)
    for sign in ("value", "apart"):
        lacking = Read(sure.document, 0, sure.signs._replace(**{sign: 0.0}), 9.0, 0.99)
        assert reading.answer(asked, [lacking], 3) == []
    unsure = Read(sure.document, 0, sure.signs, 9.0, reading.THRESHOLD - 0.01)
    assert reading.answer(asked, [unsure], 3) == [] == reading.answer(asked, [], 3)


def test_a_line_of_configuration_does_not_say_which_services_are_so() -> None:
    held = document(
        "services:\n  web:\n    volumes: ['/var/run/docker.sock:/var/run/docker.sock']\n", code=True
    )
    line = Read(held, len(held.statements) - 1, Signs(*[1.0] * len(Signs._fields)), 9.0, 0.99)
    for question, said in (("which services mount the docker socket", False), ("docker socket of web", True)):
        asked = read_question(question, lambda _: 5.0)
        assert bool(reading.answer(asked, [line], 3)) is said


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("holds 40", ["The pump in hall C holds 40 litres.", "It hums at night."]),
        ("south", ["Pump: south; Litres: 55", "Pump: north; Litres: 40"]),
        ("Hall B", ["The lockers of hall B are emptied in May."]),
    ],
)
def test_a_statement_comes_first_and_what_stands_around_it_after_it(said: str, shown: list[str]) -> None:
    texts = [part.text for part in reading.parts(chosen(PUMPS, said))]
    assert len(texts) == len(shown)
    assert all(text.startswith(begins) for text, begins in zip(texts, shown, strict=True)), texts


def test_a_step_is_shown_with_its_whole_list() -> None:
    (whole,) = reading.parts(chosen(PUMPS, "Press the green"))
    assert "To start it: Open the valve. Press the green button." in whole.text


STAGES = """\
# The site

It is built in three steps:

### Schema (Weaver)

- Reads the schema.

### Pages (MkDocs)

- Builds the site.

## Later

Nobody knows.
"""


def test_a_lead_in_is_shown_with_the_parts_below_its_heading() -> None:
    (shown,) = (e.text for e in reading.parts(chosen(STAGES, "It is built")))
    assert shown.index("Schema (Weaver)") < shown.index("Reads") < shown.index("Pages (MkDocs)")
    assert "Nobody" not in shown and "Later" not in shown


def test_a_title_is_shown_with_what_stands_below_it() -> None:
    (shown,) = (e.text for e in reading.parts(chosen(STAGES, "The site")))
    assert shown.startswith("It is built")


def test_a_line_of_configuration_is_shown_under_its_keys_with_its_neighbours() -> None:
    alone, around = reading.parts(chosen(COMPOSE, "mem_limit", code=True))
    assert alone.text.endswith("mem_limit: 512m") and "river" in alone.text
    assert "image: example/river:2" in around.text


@given(st.integers(0, 200))
def test_what_is_shown_stands_in_one_document_and_holds_the_statement(at: int) -> None:
    made = document(PUMPS)
    read = Read(made, at % len(made.statements), Signs(*[0.0] * len(Signs._fields)))
    shown = reading.parts(read)
    own = read.statement
    assert 1 <= len(shown) <= 2
    first, last = shown[0].span
    if own.form is not Form.HEADING:
        assert first <= own.start and own.end <= last
    for part in shown:
        assert 0 <= part.first <= part.last < len(made.statements)
        assert part.span[1] - part.span[0] <= 2 * reading._LIST


def test_equal_statements_are_read_once_and_best_first() -> None:
    found = read("how many litres does the pump hold", f"{PUMPS}\n\n## Again\n\nIt hums at night.\n")
    said = [r.statement.said.lower() for r in found]
    assert len(said) == len(set(said))
    assert [r.score for r in found] == sorted((r.score for r in found), reverse=True)
    assert all(0.0 <= r.sure <= found[0].sure <= 1.0 for r in found)


@pytest.mark.parametrize("put_in", ['"${watch_schedule}"', "{{ watch_schedule }}", "$WATCH_SCHEDULE"])
def test_a_setting_that_a_variable_puts_in_says_nothing_but_its_variable(put_in: str) -> None:
    text = f"watch:\n  schedule: {put_in}\n  jitter: 30s\n"
    said = [r.statement.said for r in read("watch schedule", text, code=True)]
    assert said and f"schedule: {put_in}" not in said
    assert f"schedule: {put_in}" in [
        r.statement.said for r in read("which variable has the watch schedule", text, code=True)
    ]


def test_copies_of_a_statement_do_not_make_each_other_less_probable() -> None:
    asked = read_question("how many litres does the pump in hall C hold", lambda _: 5.0)
    copies = [replace(document(PUMPS), doc_id=name) for name in ("d", "e", "f")]
    one, three = (
        reading.read(asked, [PassageSpan(d, 0, len(PUMPS), True) for d in copies[:n]], None, None)
        for n in (1, 3)
    )
    assert one[0].statement.said == three[0].statement.said
    assert three[0].sure == pytest.approx(one[0].sure, abs=0.1)


@pytest.mark.parametrize(
    ("question", "several"),
    [
        ("which services mount the docker socket", True),
        ("who mounts the docker socket", True),
        ("list the jobs with the docker socket", True),
        ("which services mount nothing but the docker socket, without a label", None),
        ("what does web mount of the docker socket", False),
        ("docker socket of web", False),
    ],
)
def test_a_line_is_looked_for_elsewhere_where_several_things_are_asked_for(question, several) -> None:
    held = document("services:\n  web:\n    volumes: ['/run/docker.sock:/run/docker.sock']\n", code=True)
    line = Read(held, len(held.statements) - 1, Signs(*[1.0] * len(Signs._fields)), 9.0, 0.99)
    asked = read_question(question, lambda _: 5.0)
    assert several is None or asked.several is several
    assert (reading.line_of_several(asked, [line]) is not None) is bool(several)
    unsure = replace(line, sure=reading.OF_SEVERAL - 0.01)
    assert reading.line_of_several(asked, [unsure]) is None


def test_a_number_beside_a_key_may_be_a_span_of_time() -> None:
    found = read("how long is the retention of the backup", "backup:\n  retention_days: 7\n", code=True)
    assert {r.statement.said: r.signs.value for r in found}["retention_days: 7"] == 1.0
