"""Sentences of real pages: whole, in order, nothing lost; and which of them answer a question."""

from __future__ import annotations

import pytest

from taboot_pipelines.retrieval.results import Hit
from taboot_pipelines.retrieval.sentences import NOTHING, extract, split
from taboot_pipelines_tests.shards.builder import HashEmbedder
from taboot_pipelines_tests.world import DATA

PAGES = sorted((DATA / "linuxserver-docs-md").rglob("*.md"))[::12]


@pytest.mark.parametrize("content_type", ["prose", "code", "list", "table"])
def test_the_sentences_of_a_page_are_in_order_and_lose_nothing_but_blanks(content_type):
    assert len(PAGES) > 5
    for page in PAGES:
        text = page.read_text()
        spans = split(text, content_type)
        at = 0
        for span in spans:
            assert at <= span.start < span.end and not text[at : span.start].strip()
            assert text[span.start : span.end] == text[span.start : span.end].strip()
            at = span.end
        assert not text[at:].strip()
        assert all(span.code for span in spans) or content_type != "code" or "```" in text


def hit(text: str, number: int = 0, content_type: str = "prose", line: int | None = 7) -> Hit:
    return Hit(
        doc_id=f"doc{number}",
        chunk_id=f"doc{number}:0",
        url=f"/docs/{number}.md",
        title="A page",
        text=text,
        score=1.0,
        scores={},
        start=100,
        end=100 + len(text),
        line=line,
        section="",
        content_type=content_type,
        source="docs",
        source_type="files",
        tags=(),
        language="en",
    )


def answer(question: str, *hits: Hit, limit: int = 5, meaning: bool = False):
    embedder = HashEmbedder()
    return extract(
        question,
        hits,
        lambda term: 1.0,
        embedder.embed if meaning else None,
        embedder.embed_query(question) if meaning else None,
        limit,
    )


@pytest.mark.parametrize("meaning", [False, True])
def test_the_sentence_with_the_words_of_the_question_is_cited_where_it_stands(meaning):
    text = "# Backups\n\nPaint dries slowly.\nThe backup of redis runs nightly at three.\n"
    found = answer("When does the backup of redis run?", hit(text), meaning=meaning)
    (citation,) = found.citations
    sentence = "The backup of redis runs nightly at three."
    assert found.found and found.text == f"{sentence} [1]"
    assert text[citation.start - 100 : citation.end - 100] == citation.text == sentence
    assert citation.line == 7 + 3
    assert answer("When does the backup of redis run?", hit(text, line=None)).citations[0].line is None


def test_a_sentence_of_several_hits_is_cited_once_from_the_first():
    text = "The backup of redis runs nightly."
    found = answer("backup of redis", hit(text, 1), hit(text.upper(), 2), hit("A redis backup is big.", 3))
    assert [c.doc_id for c in found.citations] == ["doc1", "doc3"]


def test_a_line_of_code_comes_after_a_sentence_with_the_same_words():
    code = hit("backup redis nightly", 1, content_type="code")
    prose = hit("Backup redis nightly.", 2)
    assert [c.doc_id for c in answer("backup redis nightly", code, prose).citations] == [
        "doc2",
        "doc1",
    ]
    assert [c.doc_id for c in answer("backup redis nightly", code).citations] == ["doc1"]


def test_headings_fences_and_lone_words_say_nothing():
    silent = hit("# redis backup\n\n```redis backup\n\nredis\n\n---redis backup\n")
    found = answer("redis backup", silent)
    assert (found.found, found.citations, found.text) == (False, (), NOTHING)


def test_no_more_sentences_than_asked_for_and_none_far_behind_the_best():
    many = hit("\n\n".join(f"The redis backup number {i} is fine." for i in range(9)))
    assert len(answer("redis backup", many, limit=3).citations) == 3
    mixed = hit("Redis backup runs nightly here.\n\nThe redis is red.")
    assert [c.text for c in answer("redis backup nightly", mixed).citations] == [
        "Redis backup runs nightly here."
    ]


def test_meaning_finds_a_sentence_that_the_words_do_not():
    """To the words of a question stop words count nothing; to the embedder of these tests they do."""
    text = "it is what it is"
    assert not answer(text, hit(text)).found
    assert [c.text for c in answer(text, hit(text), meaning=True).citations] == [text]
