"""Chunks against the rules ``offsets-carried`` and ``one-chunking``: offsets, limits, structure; on real
documents and on generated ones.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.chunking import CHARS_PER_TOKEN, CHUNKER_VERSION, Chunker
from taboot_pipelines.documents.tokens import TOKENIZER, Tokenizer
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Chunk
from taboot_pipelines.settings import ChunkingSettings

MD = "text/markdown"
YAML = "application/yaml"
DEFAULT = ChunkingSettings()
SMALL = ChunkingSettings(max_tokens=34, overlap_tokens=8, min_tokens=8)


@cache
def reference():
    """The Hugging Face tokenizer, the oracle of every count."""
    return TOKENIZER._reference


def count(text: str) -> int:
    return len(reference().encode(text, add_special_tokens=False).ids)


def check(text: str, mime: str, config: ChunkingSettings) -> list[Chunk]:
    """What holds for every document; returns the chunks."""
    chunks = Chunker(config).chunk(text, mime)
    assert [c.index for c in chunks] == list(range(len(chunks)))
    covered = bytearray(len(text))
    for c in chunks:
        assert text[c.start : c.end] == c.text
        assert c.text.strip() and c.text == c.text.rstrip()
        assert c.tokens == count(c.text) <= config.max_tokens - 2
        covered[c.start : c.end] = b"\x01" * (c.end - c.start)
    for a, b in pairwise(chunks):
        assert a.start < b.start and a.end < b.end
    assert all(covered[i] or text[i].isspace() for i in range(len(text)))
    return chunks


def real_documents(data: Path, pattern: str) -> list[Path]:
    found = sorted(data.glob(pattern))
    assert found, f"no {pattern} in {data}"
    return found


# --- real documents -----------------------------------------------------------------------------------------


def test_real_markdown_keeps_every_rule(data):
    fences = wholes = 0
    for path in real_documents(data, "linuxserver-docs-md/docs/**/*.md")[::5]:
        text = path.read_bytes().decode()
        chunks = check(text, MD, DEFAULT)
        total = count(text)
        # The rule is absolute in real documents: no chunk is small unless the document is.
        assert all(c.tokens >= 50 for c in chunks) or (len(chunks) == 1 and total < 50), path
        for fence in fenced(text):
            if count(fence) <= 254:
                fences += 1
                wholes += any(fence in c.text for c in chunks)
    assert fences > 50
    assert wholes == fences


def fenced(text: str) -> list[str]:
    """Fences at the left edge, read independently of the scanner."""
    found, begin = [], None
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if begin is None and line.startswith("```"):
            begin = i
        elif begin is not None and line.rstrip() == "```":
            found.append("\n".join(lines[begin : i + 1]).rstrip())
            begin = None
    return found


@pytest.mark.parametrize(
    ("pattern", "mime"),
    [
        ("awesome-compose/**/compose.yaml", YAML),
        ("swag-reverse-proxy-confs/**/*.conf.sample", "text/x-nginx-conf"),
        ("traefik-configs/**/*.json", "application/json"),
        ("awesome-compose/**/Dockerfile", "text/x-dockerfile"),
    ],
)
def test_real_configuration_is_code_and_keeps_every_rule(data, pattern, mime):
    for path in real_documents(data, pattern)[:40]:
        text = path.read_bytes().decode()
        if len(text) > 200_000:
            continue
        chunks = check(text, mime, DEFAULT)
        assert {c.content_type for c in chunks} <= {"code"}
        assert (
            all(c.tokens >= 50 for c in chunks) or count(text) < 50 or len(max(text.split(), key=len)) > 1000
        ), path


def test_real_text_counts_like_hugging_face(data):
    lines = [
        line
        for path in real_documents(data, "linuxserver-docs-md/docs/**/*.md")[::20]
        for line in path.read_text().splitlines(True)
    ]
    lines += [
        line
        for path in real_documents(data, "awesome-compose/**/*.md")
        for line in path.read_text().splitlines(True)
    ]
    assert len(lines) > 1000
    assert TOKENIZER.count_many(lines) == [count(line) for line in lines]


# --- structure ----------------------------------------------------------------------------------------------


def words(n: int, stem: str = "word") -> str:
    return " ".join(f"{stem}" for _ in range(n))


def test_a_chunk_begins_at_each_heading_and_knows_its_path():
    text = (
        f"# Guide\n\n{words(60)}.\n\n## Install [now](http://x.y)\n\n{words(70)}.\n\n### On `Linux`"
        f" ###\n\n{words(80)}.\n\nUse\n===\n\n{words(60)}.\n"
    )
    chunks = check(text, MD, DEFAULT)
    assert [c.section for c in chunks] == [
        "Guide",
        "Guide > Install now",
        "Guide > Install now > On Linux",
        "Use",
    ]
    assert [c.text.split("\n")[0] for c in chunks] == [
        "# Guide",
        "## Install [now](http://x.y)",
        "### On `Linux` ###",
        "Use",
    ]


def test_small_sections_are_joined_and_named_after_the_largest():
    text = "# A\n\nshort.\n\n## B\n\n" + words(30) + ".\n\n## C\n\n" + words(25) + ".\n"
    (only,) = check(text, MD, DEFAULT)
    assert only.section == "A > B"


def test_a_small_last_section_joins_its_predecessor():
    text = f"# A\n\n{words(100)}.\n\n## End\n\nbye.\n"
    (only,) = check(text, MD, DEFAULT)
    assert only.text.endswith("bye.")


def test_a_small_tail_shares_with_a_full_predecessor():
    text = "# A\n\n" + "\n\n".join(words(40) + "." for _ in range(6)) + "\n\n## End\n\nbye.\n"
    chunks = check(text, MD, DEFAULT)
    assert all(c.tokens >= 50 for c in chunks)
    assert chunks[-1].text.endswith("## End\n\nbye.")


def test_hash_marks_in_code_and_tags_are_no_headings():
    text = (
        f"# Real\n\n```sh\n# comment\n{words(60)}\n```\n\n#tag {words(60)}\n\n<!--\n#"
        f" hidden\n-->\n{words(60)}\n"
    )
    assert {c.section for c in check(text, MD, DEFAULT)} == {"Real"}


def test_a_nested_fence_ends_at_its_own_mark_and_is_whole():
    fence = "````md\n```yaml\na: 1\n```\n\n# not a heading\n" + "key: value\n" * 50 + "````"
    text = f"# H\n\n{words(200)}.\n\n{fence}\n\n{words(60)}.\n"
    chunks = check(text, MD, DEFAULT)
    assert any(fence in c.text for c in chunks)
    assert {c.section for c in chunks} == {"H"}


def test_a_fence_that_would_fit_alone_is_repeated_rather_than_cut():
    fence = "```\n" + "\n".join(f"a {i}" for i in range(118)) + "\n```"
    assert 235 < count(fence) <= 254
    text = f"# H\n\n{words(30)}:\n\n{fence}\n"
    first, second = check(text, MD, DEFAULT)
    assert first.text.startswith("# H") and first.tokens >= 50
    assert second.text == fence and second.content_type == "code"


def test_an_unclosed_fence_is_code_to_the_end():
    text = "intro\n\n```\n" + "x = 1\n" * 400
    chunks = check(text, MD, DEFAULT)
    assert len(chunks) > 5 and {c.content_type for c in chunks} == {"code"}


def test_a_long_table_is_split_between_rows():
    rows = [f"| `VAR_{i}` | what it is for and why {i} |" for i in range(120)]
    text = "| Name | Use |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    chunks = check(text, MD, DEFAULT)
    assert len(chunks) > 3 and {c.content_type for c in chunks} == {"table"}
    for c in chunks:
        for line in c.text.split("\n"):
            assert line in text.split("\n")


def test_lists_are_lists_and_split_between_items():
    items = [f"- item {i} {words(20)}\n  continued {words(5)}" for i in range(30)]
    chunks = check("\n".join(items) + "\n", MD, DEFAULT)
    assert len(chunks) > 2 and {c.content_type for c in chunks} == {"list"}
    assert all(c.text.startswith("- item") for c in chunks)


def test_neighbours_of_a_split_paragraph_share_words_within_the_overlap():
    text = ". ".join(f"Sentence number {i} says {words(10, 'something')}" for i in range(60)) + "."
    chunks = check(text, MD, DEFAULT)
    assert len(chunks) > 3
    for a, b in pairwise(chunks):
        shared = text[b.start : a.end]
        assert 0 < count(shared) <= 50
        assert b.text.startswith("Sentence")


def test_headings_and_code_statements_share_nothing():
    sections = "\n\n".join(f"## S{i}\n\n{words(120)}." for i in range(5))
    for a, b in pairwise(check(sections, MD, DEFAULT)):
        assert a.end <= b.start
    services = "services:\n" + "\n".join(
        f"svc{i}:\n  image: repo/name:{i}\n  ports:\n    - '80{i}:80'" for i in range(60)
    )
    for a, b in pairwise(check(services, YAML, DEFAULT)):
        assert a.end <= b.start and b.text.startswith("svc")


def test_overlap_can_be_turned_off():
    config = ChunkingSettings(overlap_tokens=0)
    for a, b in pairwise(check(words(2000), MD, config)[:-1]):
        assert a.end <= b.start


def test_front_matter_is_code_and_no_heading():
    text = "---\ntitle: x\n" + "key: some value\n" * 20 + "---\n\n# Title\n\n" + words(60) + "\n"
    first, second = check(text, MD, DEFAULT)
    assert (first.content_type, first.section, second.section) == ("code", "", "Title")


def test_every_document_that_fits_is_one_chunk():
    text = "One.\n\nTwo.\n\n- three\n"
    (only,) = check(text, MD, DEFAULT)
    assert (only.start, only.end) == (0, len(text) - 1)


@pytest.mark.parametrize("text", ["", " \n\t\n ", "\n" * 1000, "\u3000\u2028"])
def test_white_space_has_no_chunks(text):
    assert Chunker(DEFAULT).chunk(text, MD) == []


# --- other markup -------------------------------------------------------------------------------------------


def sections(text, mime):
    chunks = check(text, mime, ChunkingSettings(max_tokens=40, overlap_tokens=0, min_tokens=4))
    return [(c.section, c.content_type) for c in chunks], chunks


def test_titles_of_restructured_text_are_sections_and_its_code_is_code():
    text = (
        "=====\nGuide\n=====\n\nFirst steps\n-----------\n\n" + "Some words to read. " * 8 + "\n\n"
        ".. code-block:: yaml\n   :linenos:\n\n   # no heading\n   web:\n     image: nginx\n\n"
        "As in::\n\n    Literal\n    =======\n\n    # nor this\n\n"
        "Below\n~~~~~\n\n"
        + "More words to read. "
        * 8
        + "\n\nLast\n----\n\n===== ====\nName  Port\n===== ====\n"
        "web   80\n===== ====\n"
    )
    found, _ = sections(text, "text/x-rst")
    assert list(dict.fromkeys(s for s, _ in found)) == [
        "Guide > First steps",
        "Guide > First steps > Below",
        "Guide > Last",
    ]
    assert ("Guide > First steps", "code") in found and ("Guide > Last", "table") in found


def test_titles_of_asciidoc_are_sections_and_its_listings_are_code():
    text = (
        "= Guide\nAnn Other <ann@example.org>\n:toc:\n\n== First steps\n\n"
        + "Some words to read. " * 8
        + "\n\n"
        "[source,yaml]\n.compose.yaml\n----\n# no heading\n== nor this\nweb:\n  image: nginx\n----\n\n"
        "====\nAn example.\n====\n\n=== Below\n\n" + "More words to read. " * 8 + "\n\n"
        "== Last\n\n|===\n| Name | Port\n\n| web | 80\n|===\n"
    )
    found, _ = sections(text, "text/asciidoc")
    assert list(dict.fromkeys(s for s, _ in found))[-3:] == [
        "Guide > First steps",
        "Guide > First steps > Below",
        "Guide > Last",
    ]
    assert ("Guide > First steps", "code") in found and ("Guide > Last", "table") in found


def test_records_are_whole_and_know_the_columns():
    rows = "".join(f'{n};10.0.0.{n};"a note of\r\ntwo ""lines"""\r\n' for n in range(50))
    text = "id;address;note\r\n" + rows
    found, chunks = sections(text, "text/csv")
    assert set(found) == {("id;address;note", "table")} and len(chunks) > 5
    for chunk in chunks[1:]:
        assert chunk.text[0].isdigit() and chunk.text.endswith('""lines"""'), chunk.text
    sections('a,"b\n' * 5_000, "text/csv")


# --- hostile text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("A1b2" * 20_000, id="one word"),
        pytest.param("{" * 20_000, id="punctuation"),
        pytest.param('{"a":[1,2,{"b":"c"}]},' * 2_000, id="minified"),
        pytest.param("漢字" * 5_000, id="han"),
        pytest.param("ни" * 5_000, id="cyrillic"),
        pytest.param("👩‍👩‍👧‍👦🇩🇪" * 800, id="joined emoji"),
        pytest.param("e" + "\u0301" * 5_000, id="marks"),
        pytest.param("\x00\x01\ufeff\u200b" * 2_000, id="controls"),
        pytest.param("# \n" * 3_000, id="empty headings"),
        pytest.param("".join(f"{'#' * (i % 6 + 1)} h{i}\n" for i in range(2_000)), id="headings only"),
        pytest.param("> " * 5_000, id="quotes"),
        pytest.param("- " * 5_000 + "x", id="list marks"),
        pytest.param("|" * 5_000 + "\n" + "|-" * 2_500, id="pipes"),
        pytest.param("`" * 9_999 + "\n~~~\n" + "`" * 9_999, id="ticks"),
        pytest.param("a" + " " * 100_000 + "b" + "\n" * 100_000 + "c", id="spaces"),
        pytest.param("# " + "[" * 50_000, id="brackets"),
        pytest.param("# x" + " #" * 50_000, id="closing marks"),
        pytest.param("[SEP][CLS][MASK]" * 3_000, id="special tokens"),
        pytest.param("one\rtwo\r\nthree\r" * 2_000, id="carriage returns"),
        pytest.param("<table " * 5_000, id="open tags"),
        pytest.param("\ufdfa" * 3_000, id="ligatures"),
    ],
)
@pytest.mark.parametrize("mime", [MD, "application/json", "text/x-rst", "text/asciidoc", "text/csv"])
def test_hostile_text_is_cut_within_the_limits(text, mime):
    chunks = check(text, mime, DEFAULT)
    if not any(ch.isspace() for ch in text):
        assert all(len(c.text) <= 254 * CHARS_PER_TOKEN for c in chunks)


def test_megabytes_in_one_line():
    text = '{"name":"value","list":[1,2,3]},' * 30_000
    chunks = Chunker(DEFAULT).chunk(text, "application/json")
    assert chunks[0].start == 0 and chunks[-1].end == len(text)
    assert all(b.start <= a.end for a, b in pairwise(chunks))
    assert max(c.tokens for c in chunks) <= 254 and min(c.tokens for c in chunks) >= 50


def test_letters_without_end_are_few_chunks():
    text = "0a1b2c3d" * 125_000
    chunks = Chunker(DEFAULT).chunk(text, MD)
    assert len(chunks) < 2 * len(text) / (254 * CHARS_PER_TOKEN)


def test_grapheme_clusters_are_not_cut():
    family, flag, accent = "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301"
    for cluster in (family, flag, accent):
        for c in check(cluster * 1_500, MD, ChunkingSettings(overlap_tokens=0)):
            assert len(c.text) % len(cluster) == 0 and c.text.startswith(cluster)


def test_a_lone_surrogate_is_a_typed_error():
    with pytest.raises(TabootError) as caught:
        Chunker(DEFAULT).chunk("secret \ud800 text", MD)
    assert caught.value.code == "E_ENCODING" and "secret" not in str(caught.value)


# --- properties ---------------------------------------------------------------------------------------------

_BLOCKS = st.sampled_from(
    [
        "# Head",
        "## Sub",
        "plain words in a line",
        "- item",
        "  - nested item",
        "1. first",
        "```",
        "~~~yaml",
        "````",
        "| a | b |",
        "| - | - |",
        "| 1 | 2 |",
        "    indented",
        "\tcode()",
        "",
        "",
        "> quoted",
        "===",
        "---",
        "<div>",
        "<!-- c",
        "-->",
        "<pre>",
        "</pre>",
        "!!! note",
        "    more",
        "key: value",
        "}",
        "server {",
        "Sentence one. Sentence two! Three?",
        words(40),
        "x" * 300,
        "é ü 漢字 emoji 🎉🎉",
        "\\",
        "***",
        "\x0c",
    ]
)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(_BLOCKS, max_size=60),
    st.sampled_from([MD, YAML, "text/x-rst", "text/asciidoc", "text/csv"]),
    st.sampled_from([DEFAULT, SMALL, ChunkingSettings(max_tokens=16, overlap_tokens=15, min_tokens=15)]),
)
def test_any_mixture_of_blocks_keeps_every_rule(parts, mime, config):
    text = "\n".join(parts)
    chunks = check(text, mime, config)
    if config is DEFAULT and len(chunks) > 1 and "x" * 300 not in text:
        assert min(c.tokens for c in chunks) >= config.min_tokens


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400), st.sampled_from([MD, YAML, "text/x-rst", "text/asciidoc", "text/csv"]))
def test_any_text_keeps_every_rule(text, mime):
    check(text, mime, ChunkingSettings(max_tokens=24, overlap_tokens=6, min_tokens=6))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_counts_are_those_of_hugging_face(text):
    assert TOKENIZER.count(text) == count(text)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_counts_add_up_at_line_ends(a, b):
    assert TOKENIZER.count(a + "\n" + b) == TOKENIZER.count(a + "\n") + TOKENIZER.count(b)


# --- identity -----------------------------------------------------------------------------------------------


def test_the_fingerprint_changes_with_every_setting_and_only_then():
    base = Chunker(ChunkingSettings()).fingerprint
    assert base == Chunker(ChunkingSettings()).fingerprint and len(base) == 64
    others = {
        Chunker(ChunkingSettings(**{name: 60})).fingerprint
        for name in ("max_tokens", "overlap_tokens", "min_tokens")
    }
    assert len(others | {base}) == 4
    assert CHUNKER_VERSION


def test_without_the_fast_tokenizer_the_counts_are_the_same(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tokie", None)
    slow = Tokenizer()
    assert slow._fast is None
    assert slow.count_many(["a b", "naïve café, x=1"]) == TOKENIZER.count_many(["a b", "naïve café, x=1"])
    assert slow.ids_of("naïve café, x=1") == TOKENIZER.ids_of("naïve café, x=1")


def test_a_changed_tokenizer_file_is_refused(monkeypatch, tmp_path):
    from taboot_pipelines.documents import tokens

    changed = tmp_path / "tokenizer.json"
    changed.write_bytes(TOKENIZER._path.read_bytes() + b" ")
    monkeypatch.setattr(tokens, "packaged_file", lambda package, relative: changed)
    with pytest.raises(TabootError) as caught:
        Tokenizer().count("x")
    assert caught.value.code == "E_MODEL"


@pytest.mark.parametrize("unit", ["a", "中", "-->é", "word é "])
def test_a_long_text_has_the_tokens_of_the_reference(unit: str) -> None:
    for length in (16_000, 70_000, 200_000):
        text = "# :" + unit * (length // len(unit)) + "中"
        assert TOKENIZER.count(text) == len(TOKENIZER._reference.encode(text, add_special_tokens=False).ids)
        assert TOKENIZER.ids_of(text) == TOKENIZER._reference.encode(text, add_special_tokens=False).ids


def test_tokens_are_those_of_the_reference(data: Path) -> None:
    for path in sorted(Path(data, "linuxserver-docs-md", "docs").rglob("*.md"))[:12]:
        for line in path.read_text().splitlines():
            expected = TOKENIZER._reference.encode(line, add_special_tokens=False).ids
            assert TOKENIZER.ids_of(line) == expected, line
