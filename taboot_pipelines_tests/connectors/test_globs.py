"""The glob language against a slow and plain reading of its definition."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors.globs import Globs, UrlGlobs


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.md", ["a.md", "x/y/a.md", ".md"], ["a.mdx", "a.MD", "a.md/b"]),
        ("/*.md", ["a.md"], ["x/a.md"]),
        ("docs/*.md", ["docs/a.md"], ["docs/x/a.md", "x/docs/a.md"]),
        ("docs/*", ["docs/a"], ["docs", "docs/a/b"]),
        ("docs/**", ["docs/a", "docs/a/b"], ["docs", "x/docs/a"]),
        ("docs/**/*.md", ["docs/a.md", "docs/x/y/a.md"], ["a.md", "docs/a.txt"]),
        ("**/x/*.md", ["x/a.md", "a/b/x/c.md"], ["x/y/a.md"]),
        ("drafts", ["drafts", "drafts/a", "x/drafts/a/b"], ["draft", "drafts2/a"]),
        ("drafts/", ["drafts/a", "x/drafts/a"], ["drafts", "x/drafts"]),
        ("a/drafts", ["a/drafts/b/c", "a/drafts"], ["drafts/b", "b/a/drafts"]),
        ("**", ["a", "a/b", ".x"], []),
        ("a?c", ["abc"], ["a/c", "ac", "abbc"]),
        ("[a-c]x[!0-9]", ["axz", "bxz"], ["dxz", "ax1"]),
        ("[]x", ["[]x"], ["x"]),
        ("a[", ["a["], ["a"]),
        ("*a*b*", ["ab", "xaxbx"], ["ba"]),
        ("line\nbreak*", ["line\nbreak\n2"], ["line"]),
    ],
)
def test_what_a_pattern_matches(pattern: str, yes: list[str], no: list[str]) -> None:
    globs = Globs([pattern])
    assert [p for p in yes if not globs.matches(p)] == []
    assert [p for p in no if globs.matches(p)] == []


@pytest.mark.parametrize("pattern", ["", "/", "!a", "a//b", "../a", "a/./b", "x" * 2000, "a\0"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern 2"):
        Globs(["ok", pattern])


def test_a_covered_directory_need_not_be_read() -> None:
    globs = Globs(["drafts", "cache/**", "a/b/", "x/*.md"])
    assert all(
        globs.covers(d) for d in ("drafts", "p/drafts", "drafts/q", "cache", "cache/z", "a/b", "a/b/c")
    )
    assert not any(globs.covers(d) for d in ("a", "x", "x/y", "p/cache"))


_PATHS = st.lists(st.text(alphabet="ab.", min_size=1, max_size=4), min_size=1, max_size=4).map("/".join)
_SEGMENTS = st.text(alphabet="ab.*?", min_size=1, max_size=5).filter(
    lambda s: s not in (".", "..", "**") and "**" not in s
)


@settings(max_examples=200, deadline=None)
@given(_SEGMENTS, st.text(alphabet="ab.", max_size=6))
def test_a_segment_matches_as_the_standard_library_does(segment: str, name: str) -> None:
    if name and any(c in segment for c in "*?"):
        assert Globs(["/" + segment]).matches(name) == fnmatch.fnmatchcase(name, segment)


def _naive(pattern: list[str], parts: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_naive(pattern[1:], parts[i:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _naive(pattern[1:], parts[1:])


@settings(max_examples=200, deadline=None)
@given(st.lists(_SEGMENTS | st.just("**"), min_size=1, max_size=4), _SEGMENTS.map("a*".__add__), _PATHS)
def test_double_stars_span_any_number_of_segments(head: list[str], last: str, path: str) -> None:
    assert Globs(["/" + "/".join([*head, last])]).matches(path) == _naive([*head, last], path.split("/"))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=12), _PATHS)
def test_everything_beneath_a_covered_directory_matches(pattern: str, path: str) -> None:
    try:
        globs = Globs([pattern])
    except ValueError:
        return
    if globs.covers(path):
        assert globs.matches(path + "/x") and globs.matches(path + "/x/y")


def test_many_stars_do_not_take_for_ever() -> None:
    started = time.process_time()
    assert not Globs(["a*" * 200 + "b", "**/" * 200 + "x"]).matches("/".join(["a" * 300] * 50))
    assert time.process_time() - started < 5  # an exponential matcher never ends


def test_url_patterns() -> None:
    url = "https://docs.example.org/guide/install?lang=en"
    for pattern in (
        "https://docs.example.org/**",
        "docs.example.org",
        "/guide",
        "/guide/*",
        "guide",
        "docs.example.org/guide/*",
        "install?lang=*",
    ):
        assert UrlGlobs([pattern]).matches(url), pattern
    for pattern in (
        "http://docs.example.org/**",
        "/docs.example.org",
        "example.org",
        "/install*",
        "docs.example.org/*",
    ):
        assert not UrlGlobs([pattern]).matches(url), pattern
