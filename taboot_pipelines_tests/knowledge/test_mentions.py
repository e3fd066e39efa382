"""The matcher of declared names: boundaries, weak names, offsets, and the promise of the token index."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taboot_pipelines.knowledge.mentions import (
    NameMatcher,
    fold,
    is_weak,
    name_tokens,
    regions,
    stopwords,
    title_tokens,
    tokens,
)
from taboot_pipelines_tests.needs import files


def names(matcher: NameMatcher, text: str, code: bool = False) -> list[str]:
    return [name for _, _, name, _ in matcher.find(text, regions(text, code))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("adminer", ["adminer"]),
        ("Use Adminer.", ["adminer"]),
        ("(adminer), 'adminer'", ["adminer", "adminer"]),
        ("adminer:8080/x", ["adminer"]),
        ("//adminer/", ["adminer"]),
        ("adminer...", ["adminer"]),
        ("...adminer", ["adminer"]),
        ("adminer.\nNext", ["adminer"]),
        ("adminers", []),
        ("my-adminer", []),
        ("adminer_x", []),
        ("adminer-2", []),
        ("adminer.local", []),
        ("x.adminer", []),
        ("adminer2", []),
        ("", []),
        # Scripts without blanks between words.
        ("使用adminer吧", ["adminer"]),
    ],
)
def test_a_name_stands_by_itself(text: str, expected: list[str]) -> None:
    assert names(NameMatcher(["adminer"]), text) == expected


def test_the_longest_name_that_stands_by_itself_counts() -> None:
    matcher = NameMatcher(["adguard", "adguard.home", "adguard-home", "home.adguard"])
    assert names(matcher, "adguard.home") == ["adguard.home"]
    assert names(matcher, "adguard-home") == ["adguard-home"]
    assert names(matcher, "adguard. home") == ["adguard"]
    matcher = NameMatcher(["adguard", "adguard (x"])
    assert names(matcher, "adguard (x)") == ["adguard (x"]
    assert names(matcher, "adguard (xy)") == ["adguard"]


def test_exactness_and_names_that_differ_in_case() -> None:
    assert NameMatcher(["adminer"]).find("ADMINER adminer") == [
        (0, 7, "adminer", False),
        (8, 15, "adminer", True),
    ]
    both = NameMatcher(["Adminer", "adminer"])
    assert both.find("Adminer") == [(0, 7, "Adminer", True)]
    assert both.find("ADMINER") == [(0, 7, "Adminer", False), (0, 7, "adminer", False)]


def test_offsets_are_code_points_whatever_case_folding_would_do() -> None:
    # İ lowers to two code points, the Kelvin sign to an ASCII k: neither may move or make a match.
    text = "İİ🙂 kuma \u212auma"
    assert NameMatcher(["kuma"]).find(text) == [(4, 8, "kuma", True)]


@pytest.mark.parametrize("name", ["db", "web", "Proxy", "vpn", "home"])
def test_weak_names(name: str) -> None:
    assert is_weak(name)
    matcher = NameMatcher([name])
    assert names(matcher, f"the {name} is here") == []
    for text in (
        f"`{name}`",
        f"```\nx {name} y\n```",
        f"## The {name}\n",
        f"{name}\n---\n",
        f"at {name}:5432 now",
        f"{name} on port 80",
        f"{name} (port 8080)",
        f"the {name} listens on port 80",
        f"port 80 of the {name}",
        f"`{name}` listens on TCP port 53",
        f"{name} is running on port 80",
    ):
        assert names(matcher, text) == [name], text
    assert names(matcher, f"a {name}", code=True) == [name]
    for text in (
        f"{name}: 80",
        f"{name} at 8080 m",
        f"a port for {name}s on port 80",
        f"{name}:8",
        f"{name} v80",
    ):
        assert names(matcher, text) == [], text


def test_a_weak_longer_name_does_not_hide_a_name_in_it() -> None:
    # "home.adguard" is no word of the list; "home" is, and in prose it must not take the place of a real
    # name.
    assert names(NameMatcher(["home", "adguard"]), "home adguard") == ["adguard"]


def test_the_stop_list_is_of_words_in_the_folded_form() -> None:
    words = stopwords()
    assert len(words) > 1500
    assert all(re.fullmatch(r"[a-z]+", w) for w in words)
    assert {
        "web",
        "app",
        "api",
        "server",
        "client",
        "proxy",
        "cache",
        "database",
        "backend",
        "frontend",
        "worker",
        "home",
        "node",
        "test",
        "main",
        "the",
    } <= words
    assert not words & {
        "redis",
        "postgres",
        "grafana",
        "traefik",
        "adminer",
        "jellyfin",
        "nextcloud",
        "nginx",
    }


def test_no_names_and_empty_names() -> None:
    assert NameMatcher([]).find("anything") == []
    assert NameMatcher([""]).find("anything") == []


def test_tokens_are_words_in_a_stable_form() -> None:
    assert tokens("Foo-bar_2.foo CAFÉ").tolist() == sorted(
        [*tokens("foo bar 2 caf").tolist(), *title_tokens("café").tolist()]
    )
    assert name_tokens("Foo-bar é").tolist() == sorted(tokens("foo bar").tolist())
    assert tokens("redis").dtype == np.int64
    # Stored in tables: the same on every machine and in every version.
    assert tokens("redis").tolist() == [-730956420630882855]
    assert tokens("").tolist() == []


TEXT = st.lists(
    st.sampled_from(
        [
            "foo",
            "bar",
            "FOO",
            "é",
            "-",
            "_",
            ".",
            " ",
            ":",
            "80",
            "\n",
            "`",
            "#",
            " port 80",
            "\u212a",
            "x",
            "İ",
        ]
    ),
    max_size=20,
).map("".join)
NAME = st.lists(
    st.sampled_from(["foo", "bar", "Foo", "-", "_", ".", "x", "8", "é", " "]), min_size=1, max_size=5
).map("".join)


@settings(max_examples=400, deadline=None)
@given(TEXT, st.lists(NAME, max_size=6), st.booleans())
@example("-foo", ["-foo"], True)
def test_a_text_with_a_name_holds_all_tokens_of_the_name(text: str, declared: list[str], code: bool) -> None:
    held = set(tokens(text).tolist())
    matcher = NameMatcher(declared)
    found = matcher.find(text, regions(text, code))
    assert found == NameMatcher(reversed(declared)).find(text, regions(text, code))
    reached, previous = -1, (-1, -1)
    for start, end, name, exact in found:
        assert name in declared
        assert fold(text[start:end]) == fold(name)
        assert exact == (text[start:end] == name)
        assert set(name_tokens(name).tolist()) <= held
        assert start >= reached or (start, end) == previous
        reached, previous = end, (start, end)


@settings(max_examples=200, deadline=None)
@given(TEXT, NAME)
def test_in_code_one_name_is_found_wherever_its_boundaries_hold(text: str, name: str) -> None:
    pattern = re.compile(
        rf"(?<![A-Za-z0-9_-])(?<![A-Za-z0-9]\.){re.escape(fold(name))}(?![A-Za-z0-9_-])(?!\.[A-Za-z0-9])"
    )
    folded = fold(text)
    expected, reached = [], 0
    for i in range(len(folded)):
        m = pattern.match(folded, i)
        if m is not None and i >= reached:
            expected.append((i, m.end()))
            reached = m.end()
    assert [(s, e) for s, e, _, _ in NameMatcher([name]).find(text, regions(text, code=True))] == expected


PAGES = files("linuxserver-docs-md", "docker-*.md")


@pytest.mark.needs("data")
def test_real_pages_mention_their_own_service() -> None:
    matcher = NameMatcher(p.stem.removeprefix("docker-") for p in PAGES)
    for path in PAGES[::5]:
        text = path.read_text("utf-8")
        name = path.stem.removeprefix("docker-")
        found = matcher.find(text, regions(text))
        assert name in {n for _, _, n, _ in found}, name
        assert set(name_tokens(name).tolist()) <= set(tokens(text).tolist())
        assert all(fold(text[s:e]) == fold(n) for s, e, n, _ in found)
