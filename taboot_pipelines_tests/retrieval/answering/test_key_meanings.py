"""What keys of configuration mean, by the statements that set them."""

from __future__ import annotations

import pytest

from taboot_pipelines.retrieval.answering.key_meanings import known, meanings
from taboot_pipelines.retrieval.sentences import statements


def meant(text: str, *, code: bool = True) -> str:
    """What the keys of the last statement of a text mean."""
    return "; ".join(meanings(statements(text, code=code)[-1]))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("environment:\n  - ND_SESSIONTIMEOUT=72h\n", "logged in"),
        ("client_max_body_size 50G;\n", "biggest upload"),
        ("securityContext:\n  runAsUser: 33\n", "numeric user"),
        ("resources:\n  limits:\n    memory: 256M\n", "memory"),
        ("[sshd]\nbantime = 600\n", "locked out"),
        ("command:\n  - --storage.tsdb.retention.time=30d\n", "metrics are kept"),
        ("export RETENTION_DAYS=14\n", "kept"),
        ("MYSESSIONTIMEOUTSECS=5\n", "logged in"),
        ("fail2ban:\n  bantime:\n    value: 600\n", "locked out"),
    ],
)
def test_a_key_is_known_however_its_words_are_joined(text, says):
    assert says in meant(text)


def test_a_row_and_an_item_that_begin_with_a_key_mean_what_it_means():
    table = "| Variable | Default |\n|---|---|\n| `MAX_FILE_SIZE` | 50 |\n"
    assert "upload" in meant(table, code=False)
    assert "upload" in meant("- `MAX_FILE_SIZE: 50`: the limit\n", code=False)


def test_prose_and_what_nobody_described_mean_nothing_more():
    assert not meant("The memory limit is low.\n", code=False)
    assert not meant("| Colour | Size |\n|---|---|\n| red | 5 |\n", code=False)
    assert not meant("xyzzy = 5\n")


def test_every_key_has_a_meaning_of_several_words_and_stands_once():
    from taboot_pipelines.packaged import sections

    lines = sections("taboot_pipelines.retrieval.answering", "key_meanings.txt")["keys"]
    keys = [key for line in lines for key in line.partition(": ")[0].split(", ")]
    assert len(keys) == len({k.replace(" ", "") for k in keys}) == len(known())
    assert all(len(meaning.split()) > 1 for meaning in known().values())
    assert lines == sorted(lines)
