"""Canonical keys and WHATWG parsing, on the real lists."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.crawl.urls import (
    MAX_LENGTH,
    TRACKING_PARAMETERS,
    TRACKING_PREFIXES,
    canonical_key,
    parse_url,
)
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.connectors.conftest import DATA


def key(text: str) -> str:
    return canonical_key(parse_url(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTP://Example.ORG:80/a/./b/../c/?x=1&utm_source=n#top", "http://example.org/a/c/?x=1"),
        ("https://example.org:443", "https://example.org/"),
        ("https://example.org:8443/a/", "https://example.org:8443/a/"),
        ("https://example.org/a", "https://example.org/a"),
        ("https://example.org/a?", "https://example.org/a"),
        ("https://example.org/a?UTM_Campaign=x&gclid=1&fbclid=2", "https://example.org/a"),
        ("https://example.org/a?b=2&b=1&a", "https://example.org/a?a&b=2&b=1"),
        ("https://example.org/a?b=2&a=1", "https://example.org/a?a=1&b=2"),
        ("https://example.org/a?b&&a&", "https://example.org/a?a&b"),
        ("https://example.org/a?z=%7e%2f&%61=1", "https://example.org/a?a=1&z=~%2F"),
        ("https://example.org/%7euser/%e3%83%84/%2F", "https://example.org/~user/%E3%83%84/%2F"),
        ("https://example.org/a%%37e", "https://example.org/a~"),
        ("https://example.org/a;jsessionid=0A1B/b;v=2?x=1", "https://example.org/a/b;v=2?x=1"),
        ("https://example.org/a/..;jsessionid=1/b", "https://example.org/b"),
        ("https://example.org/a/%%32e%%32E/b", "https://example.org/b"),
        ("https://example.org/?page", "https://example.org/?page"),
        ("https://example.org/?fbclid", "https://example.org/"),
        ("https://example.org/a??", "https://example.org/a??"),
        (
            "https://example.org/?ref=main&source=x&sid=1&id=2",
            "https://example.org/?id=2&ref=main&sid=1&source=x",
        ),
        ("https://example.org/a?utmost=1&xgclid=2", "https://example.org/a?utmost=1&xgclid=2"),
        ("https://example.org/a?%75tm_source=1&c=%2F", "https://example.org/a?c=%2F"),
        ("https://Bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]:80/", "http://[::ffff:7f00:1]/"),
        ("http:\\\\host\\a", "http://host/a"),
    ],
)
def test_canonical_key(text: str, expected: str) -> None:
    assert key(text) == expected


@pytest.mark.parametrize("name", sorted(TRACKING_PARAMETERS) + [f"{p}x" for p in TRACKING_PREFIXES])
def test_no_tracking_parameter_makes_another_page(name: str) -> None:
    assert key(f"https://example.org/a?b=1&{name.upper()}=2&a=1") == "https://example.org/a?a=1&b=1"
    assert key(f"https://example.org/a?{name}=1") == "https://example.org/a"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["a=1", "b=2", "c", "d=", "utm_x=9", "gclid"]), unique=True).flatmap(
        lambda parts: st.tuples(st.just(parts), st.permutations(parts))
    )
)
def test_the_order_of_parameters_makes_no_other_page(orders: tuple[list[str], list[str]]) -> None:
    first, second = (key(f"https://example.org/?{'&'.join(parts)}") for parts in orders)
    assert first == second


def test_a_url_is_as_long_as_what_is_stored_of_it() -> None:
    whole = "https://example.org/" + "a" * (MAX_LENGTH - 20)
    assert len(parse_url(whole).text) == MAX_LENGTH
    for text in (whole + "a", "https://example.org/" + "ü" * 400, "https://example.org/?" + "x" * 10_000):
        with pytest.raises(TabootError, match=r"E_URL_BAD.*longer than 2048"):
            parse_url(text)
    assert parse_url(whole + "#" + "f" * 3000).text == whole


_WORD = (
    st.text(alphabet=st.sampled_from("aZ09-._~%:/?#[]@!$&'()*+,;= üß\\\t"), max_size=12)
    | st.text(alphabet="%2526eE7./", max_size=12)
    | st.lists(st.sampled_from(["..", ";jsessionid=1", "/", "%2e", "%%32e", "a", "%25"]), max_size=6).map(
        "".join
    )
)


@settings(max_examples=300, deadline=None)
@given(
    st.builds(
        "{}://{}{}/{}?{}#{}".format,
        st.sampled_from(["http", "HTTPS"]),
        st.sampled_from(["h.example", "10.0.0.1", "[::1]"]),
        st.sampled_from(["", ":80", ":443", ":8080"]),
        _WORD,
        _WORD | st.just("utm_a=1&b=2&&gclid"),
        _WORD,
    )
)
def test_a_key_is_the_key_of_itself_and_its_fragment_never_counts(text: str) -> None:
    try:
        first = key(text)
    except TabootError as error:
        assert error.code == "E_URL_BAD"
        return
    assert key(first) == first and "#" not in first
    assert key(first + "#other") == first


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40) | st.text(max_size=30).map("http://".__add__))
def test_any_text_is_a_url_or_a_typed_error(text: str) -> None:
    try:
        parse_url(text)
    except TabootError as error:
        assert error.code == "E_URL_BAD"
    try:
        parse_url(text, "https://example.org/dir/page")
    except TabootError as error:
        assert error.code == "E_URL_BAD"


def test_the_web_platform_cases_parse_to_the_host_and_target_they_state() -> None:
    cases = [c for c in json.loads((DATA / "url-wpt/urltestdata.json").read_text()) if isinstance(c, dict)]
    accepted = refused = 0
    for case in cases:
        base = (
            case.get("base")
            if str(case.get("base") or "about:blank").startswith(("http://", "https://"))
            else None
        )
        if case.get("base") not in (None, "about:blank") and base is None:
            continue
        web = (
            not case.get("failure")
            and case["protocol"] in ("http:", "https:")
            and not case["username"]
            and not case["password"]
        )
        if web:
            url = parse_url(case["input"], base)
            assert (url.host, url.target) == (case["hostname"], case["pathname"] + case["search"]), case[
                "input"
            ]
            assert url.text == f"{case['protocol']}//{case['host']}{case['pathname']}{case['search']}"
            accepted += 1
        else:
            with pytest.raises(TabootError, match="E_URL_BAD"):
                parse_url(case["input"], base)
            refused += 1
    assert accepted > 80 and refused > 150
