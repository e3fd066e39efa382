"""What documents state: sentences, items, rows and lines of code, each with what one must know to read it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.retrieval.sentences import Form, plain, split_sentences, statements
from taboot_pipelines_tests.world import DATA

PAGES = sorted((DATA / "linuxserver-docs-md").rglob("*.md"))[::12]
CONFS = sorted((DATA / "awesome-compose").rglob("compose.yaml"))


def said(text: str, *, code: bool = False) -> list[tuple[str, str]]:
    return [(s.form.value, s.said) for s in statements(text, code=code)]


@pytest.mark.parametrize(("files", "code"), [(PAGES, False), (CONFS, True)])
def test_statements_of_real_files_stand_in_order_where_they_say(files, code):
    assert len(files) > 5
    for file in files:
        text = file.read_text()
        found = statements(text, code=code)
        assert found
        at = 0
        for s in found:
            assert at <= s.start < s.end <= len(text)
            assert text[s.start : s.end] == text[s.start : s.end].strip()
            at = s.end


MARKDOWN = st.lists(
    st.one_of(
        st.sampled_from(
            ["# A", "## B\n", "", "- one: `x`", "  - two", "1. Three.", "| a | b |", "|---|---|", "| 1 | 2 |",
             "```sh", "```", "---", "> quoted", "[x](y)", "![i](j)", "!!! note", "    indented", "key: value",
             "Said. And more: 5", "**Label.** Text."]
        ),
        st.text(max_size=30),
    )
).map("\n".join)  # fmt: skip


@given(MARKDOWN, st.booleans())
def test_statements_of_any_text_lie_in_it_in_order(text, code):
    at = 0
    for s in statements(text, code=code):
        assert at <= s.start < s.end <= len(text) and s.said
        at = s.end


#: No bar, which would end a table's cell, and no backtick, which would end the span.
CODE = st.text(st.sampled_from(r"""*_[](){}<>!\#:;.,~=+-/ aB1'"&@$%^"""), min_size=1, max_size=12).filter(
    lambda code: code == code.strip()
)
AROUND = st.sampled_from(
    ["Runs at", "and *then*", "in **bold.** Next", "see [this](https://x.org/a_b)", "a_b_c", "2 ** 3",
     "<b>x</b>", r"\*", "__init__", "Said. And", "`", "``"]
)  # fmt: skip


@given(st.lists(st.tuples(AROUND, CODE), min_size=1, max_size=4))
def test_a_quote_loses_no_character_of_a_code_span(parts):
    spans = [f"```` {code} ````" for _, code in parts]
    text = " ".join(f"{around} {span}" for (around, _), span in zip(parts, spans, strict=True))
    told = " ".join(s.said for s in statements(f"Word {text} end.", code=False))
    assert all(span in told for span in spans)


@pytest.mark.parametrize(
    "text",
    ["It runs at `*-*-* 04:00:00` each day.", "Use `mount -a *_data_*` there.", "Say ``a ` *b* `` here.",
     "See `__c__`.", "The `{:.class}` and `![x](y)` and `[a](b)` stay.", "Blanks in `a  b` stay.",
     "Icons \ue021 stay."],
)  # fmt: skip
def test_code_spans_are_said_as_they_stand(text):
    assert plain(text) == text


@given(st.text())
def test_sentences_lose_nothing_but_blanks(text):
    at = 0
    for start, end in split_sentences(text):
        assert not text[at:start].strip() and text[start:end] == text[start:end].strip()
        at = end
    assert not text[at:].strip()


@pytest.mark.parametrize(
    "text", ["**6. Verify the power.** Then wait.", "# 2. Run the updater. Twice.", "1. Stop it."]
)
def test_a_number_alone_is_no_sentence(text):
    assert all(any(map(str.isalpha, text[a:b])) for a, b in split_sentences(text))


def test_a_row_is_read_with_its_header_and_the_header_alone_is_not():
    table = "Ports are:\n\n| Service | Port |\n|---|---|\n| Grafana | 3010 |\n| Loki | |\n"
    assert said(table) == [("row", "Service: Grafana; Port: 3010"), ("row", "Service: Loki")]
    (row, _) = statements(table, code=False)
    assert row.lead == "Ports are:"


def test_an_item_has_its_lead_in_and_a_sentence_its_paragraph():
    text = "# Backup\n\nKept out are:\n\n- Films. They come again.\n- Logs\n"
    films, again, logs = (s for s in statements(text, code=False) if s.form is Form.ITEM)
    assert (films.said, films.lead, films.section) == ("Films.", "Kept out are:", "Backup")
    assert (again.said, again.before) == ("They come again.", "Films.")
    assert (logs.said, logs.lead) == ("Logs", "Kept out are:")


def test_a_line_of_configuration_has_its_keys_and_the_comment_above():
    text = (
        "services:\n  # The resolver of the whole house.\n  unbound:\n    mem_limit: 512m\n"
        "  adguard:\n    image: a\n"
    )
    found = {s.said: s for s in statements(text, code=True)}
    assert found["mem_limit: 512m"].keys == ("services", "unbound")
    assert found["image: a"].keys == ("services", "adguard")
    assert found["The resolver of the whole house."].form is Form.SENTENCE
    assert "resolver" in found["unbound:"].lead and "resolver" not in found["adguard:"].lead


def test_a_command_has_the_sentence_that_leads_in_to_it():
    (command,) = statements("To reload, run:\n\n```sh\nnginx -s reload\n```\n", code=False)
    assert (command.form, command.said, command.lead) == (Form.CODE, "nginx -s reload", "To reload, run:")


def test_badges_navigation_front_matter_and_lead_ins_state_nothing():
    text = (
        "---\ntitle: T\nupdated: 2025-11-29\n---\n\n[![Pulls](https://a/b.svg)](https://c)\n\n"
        "- [Home](index.md)\n- [Setup](setup.md)\n\nRun this:\n\nIt runs.\n"
    )
    assert said(text) == [("sentence", "It runs.")]


def test_a_lead_in_that_holds_a_value_is_stated_as_one():
    assert said("It takes about nine hours:\n\n```\nwatch zpool\n```\n")[0] == (
        "lead-in",
        "It takes about nine hours:",
    )


def test_labels_and_abbreviations_end_no_sentence():
    assert said("**On call.** Jonas. It was short, e.g. Minutes. Done.") == [
        ("sentence", "On call. Jonas."),
        ("sentence", "It was short, e.g. Minutes."),
        ("sentence", "Done."),
    ]


def test_what_only_a_browser_needs_is_not_read_out():
    assert plain("**See** [the plan](a/b.md) ![x](y.png) <b>now</b> `docker exec <name>` *a* \\| b") == (
        "See the plan now `docker exec <name>` a | b"
    )


def test_a_hundred_thousand_lines_are_read_in_time():
    text = "- item [a](b) **c** | d\n" * 100_000
    assert len(statements(text, code=False)) == 100_000


def test_the_first_key_of_a_list_item_is_no_heading_of_its_neighbours():
    text = "volumes:\n  - type: bind\n    source: /tank\n  - name:\n      first: a\n"
    keys = {s.said: s.keys for s in statements(text, code=True)}
    assert keys["source: /tank"] == ("volumes",) and keys["first: a"] == ("volumes", "name")


def test_an_escaped_mark_stands_for_itself():
    assert plain(r"amd64-\<version\> of \*all\* in `a\<b\>`") == r"amd64-<version> of *all* in `a\<b\>`"


MANIFESTS = """\
kind: Deployment
metadata:
  labels:
    name: anything
  name: mealie
spec:
  containers:
  - image: busybox
    name: sidecar
    env:
    - name: TZ
      value: Europe/Berlin
---
kind: Service
metadata:
  name: mealie
spec:
  port: 9000
"""


def test_a_line_of_a_manifest_says_of_what_and_an_item_of_a_list_by_its_name():
    keys = {s.said: s.keys for s in statements(MANIFESTS, code=True)}
    spec = ("Deployment mealie", "spec", "containers")
    assert keys["- image: busybox"] == spec
    assert keys["value: Europe/Berlin"] == (*spec, "sidecar", "env", "TZ")
    assert keys["port: 9000"] == ("Service mealie", "spec")


def test_a_line_of_an_ini_file_lies_in_its_section():
    text = "log = x\n[sshd]\nbantime = 600\n\n[Service]\nMemoryMax=900M\n"
    keys = {s.said: s.keys for s in statements(text, code=True)}
    assert keys == {
        "log = x": (),
        "[sshd]": (),
        "bantime = 600": ("sshd",),
        "[Service]": (),
        "MemoryMax=900M": ("Service",),
    }


def test_a_list_may_stand_as_far_out_as_its_key():
    text = "tasks:\n- name: Dump\n  cron: daily\n- 80\nafter: x\n"
    keys = {s.said: s.keys for s in statements(text, code=True)}
    assert keys["cron: daily"] == ("tasks", "Dump") and keys["- 80"] == ("tasks",) and keys["after: x"] == ()
