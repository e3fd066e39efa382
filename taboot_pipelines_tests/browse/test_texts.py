"""Texts in pieces: nothing is lost or added, and what is marked is what was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.browse.texts import cited, excerpt, pieces, window

TEXTS = st.text(alphabet=st.sampled_from("ab \n#|-`<&é日😀"), max_size=300)


@st.composite
def marked(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(TEXTS)
    ends = st.integers(0, len(text))
    return text, [tuple(sorted((draw(ends), draw(ends)))) for _ in range(draw(st.integers(0, 4)))]


@given(marked())
def test_pieces_are_the_text_and_marks_are_the_marks(given: tuple[str, list[tuple[int, int]]]) -> None:
    text, marks = given
    made = pieces(text, marks)
    assert "".join(p.text for p in made) == text
    wanted = {i for a, b in marks for i in range(a, b)}
    at = 0
    for piece in made:
        span = set(range(at, at + len(piece.text)))
        assert span <= wanted if piece.marked else not span & wanted
        at += len(piece.text)


@given(marked(), st.integers(1, 40), st.integers(1, 12))
def test_the_windows_of_a_document_are_its_lines(
    given: tuple[str, list[tuple[int, int]]], first: int, most: int
) -> None:
    text, marks = given
    shown: list[str] = []
    numbers: list[int] = []
    at: int | None = 1
    while at is not None:
        part = window(text, marks, at, most)
        shown += ["".join(p.text for p in line.pieces) for line in part.lines]
        numbers += [line.number for line in part.lines]
        assert len(part.lines) <= most and part.lines
        at = part.after
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1] == "":
        lines.pop()
    assert numbers == list(range(1, len(lines) + 1))
    assert [x.rstrip("\r") for x in shown] == [x.rstrip("\r") for x in lines]
    assert window(text, marks, first, most).total == len(lines)


def test_a_long_document_begins_shortly_before_its_mark() -> None:
    text = "".join(f"line {n}\n" for n in range(1, 10_001))
    at = text.index("line 9000\n")
    part = window(text, [(at, at + 9)])
    (line,) = (x for x in part.lines if x.cited)
    assert (line.number, line.first) == (9000, True)
    assert part.lines[0].number == 8800 and part.before is not None and part.total == 10_000
    assert len(part.lines) == 1201 and part.after is None


def test_a_long_line_is_cut_around_its_mark_and_says_so() -> None:
    text = "x" * 100_000 + "NEEDLE" + "y" * 100_000
    (line,) = window(text, [(100_000, 100_006)]).lines
    assert [p.text for p in line.pieces if p.marked] == ["NEEDLE"]
    assert line.left_out == len(text) - sum(len(p.text) for p in line.pieces) > 0
    (unmarked,) = window(text, []).lines
    assert unmarked.left_out > 0 and unmarked.pieces[0].text.startswith("xxx")


def test_many_long_lines_are_no_page_without_end() -> None:
    text = ("z" * 3000 + "\n") * 1500
    part = window(text, [])
    assert sum(len(p.text) for line in part.lines for p in line.pieces) <= 400_000
    assert part.after == len(part.lines) + 1


def marks_of(text: str, *words: str) -> list[tuple[int, int]]:
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append((at, at + len(word)))
            at = text.find(word, at + 1)
    return sorted(found)


def shown(text: str, *words: str, prose: bool = True) -> str:
    return "".join(
        f"[{p.text}]" if p.marked else p.text for p in excerpt(text, marks_of(text, *words), prose=prose)
    )


FRONT = '---\ntitle: "Redis"\ntags: [database]\n---\n\n# Redis\n\n'


def test_front_matter_and_the_heading_are_not_the_excerpt() -> None:
    assert shown(FRONT + "Redis serves the\nhousehold.", "Redis") == "[Redis] serves the household."
    assert shown(FRONT + "It serves.", "Redis", "serves") == "It [serves]."
    # Nothing else has the word, so the front matter says why this is a hit.
    assert "[database]" in shown(FRONT + "It serves.", "database")


def test_the_passage_with_most_words_is_shown() -> None:
    filler = "Nothing of it is said here, and nothing there. " * 30
    text = filler + "\nThe backup is old.\n" + filler + "\nRestore the backup of the database.\n" + filler
    found = shown(text, "backup", "database", "Restore")
    assert "[Restore] the [backup] of the [database]." in found
    assert found.startswith("… ") and found.endswith(" …") and len(found) < 500


def test_code_keeps_its_lines_and_lists_keep_theirs() -> None:
    code = "Do this:\n```sh\ndocker exec db\npsql\n```\n- one\n- two\nand more"
    assert shown(code) == "Do this:\n```sh\ndocker exec db\npsql\n```\n- one\n- two and more"
    assert shown("a: 1\nb: 2", prose=False) == "a: 1\nb: 2"


@given(marked(), st.booleans())
def test_an_excerpt_marks_only_what_was_highlighted(
    given: tuple[str, list[tuple[int, int]]], prose: bool
) -> None:
    text, marks = given
    words = {text[a:b] for a, b in marks}
    joined = "".join(sorted(words))
    for piece in excerpt(text, marks, 40, prose):
        assert not piece.marked or all(c in joined or c == " " for c in piece.text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("One. [1] Two. [2]", [("One. ", 0), ("[1]", 1), (" Two. ", 0), ("[2]", 2)]),
        ("a[0] b[x] [99999]", [("a", 0), ("[0]", 0), (" b[x] [99999]", 0)]),
    ],
)
def test_references_of_an_answer(text: str, found: list[tuple[str, int]]) -> None:
    assert [(p.text, p.number) for p in cited(text)] == found
