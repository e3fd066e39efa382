"""Canonical keys, WHATWG parsing and the guard, on the real lists."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors.web import WebConnector, WebSource
from taboot_pipelines.crawl.addresses import check_address
from taboot_pipelines.crawl.urls import canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Failed
from taboot_pipelines_tests.connectors.conftest import DATA
from taboot_pipelines_tests.connectors.servers import resolving


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
        ("https://example.org/a?b=2&b=1&a", "https://example.org/a?b=2&b=1&a"),
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


_WORD = st.text(alphabet=st.sampled_from("aZ09-._~%:/?#[]@!$&'()*+,;= üß\\\t"), max_size=12)


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


def _cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "ssrf-urls/cases.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", _cases(), ids=lambda c: c["url"][:40])
def test_the_guard_refuses_every_form_of_a_private_address(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole connector with a resolver of the case's answers, and no socket: an allowed URL gets as far as
    connecting.
    """
    connected: list[str] = []

    def connect(address: tuple[str, int], *_: Any, **__: Any) -> Any:
        connected.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr("socket.create_connection", connect)
    names = {
        "localhost": ["127.0.0.1"],
        "ip6-localhost": ["::1"],
        "ip6-loopback": ["::1"],
        **case.get("needs_dns", {}),
    }

    def resolver(host: str, port: int) -> list[Any]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            if host not in names:
                raise OSError("unknown name") from None
            return [ipaddress.ip_address(a) for a in names[host]]

    entry = WebSource.model_validate({"id": "w", "type": "web", "urls": [case["url"]]})
    failed, *_, end = WebConnector(entry, resolving(resolver)).events({}, lambda _: False)
    assert isinstance(failed, Failed) and isinstance(end, Enumerated)
    if case["expect"] == "allow":
        assert failed.error.code == "E_NETWORK" and len(connected) == 1
    else:
        assert connected == []
        unresolved = case["url"].startswith("https://example.com/")  # blocked by the stub's silence alone
        assert failed.error.code in (("E_NETWORK",) if unresolved else ("E_URL_BLOCKED", "E_URL_BAD"))


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("8.8.8.8", True),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("172.16.0.1", False),
        ("192.168.0.1", False),
        ("192.0.0.1", False),
        ("192.0.2.1", False),
        ("198.18.0.1", False),
        ("224.0.0.1", False),
        ("239.1.1.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("fd12::1", False),
        ("ff02::1", False),
        ("fec0::1", False),
        ("2001:db8::1", False),
        ("100::1", False),
        ("64:ff9b:1::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("::127.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True),
        # IPv4-translated (RFC 2765), compatible, local NAT64, and what nobody was given
        ("::ffff:0:127.0.0.1", False),
        ("::ffff:0:10.0.0.1", False),
        ("::ffff:0:8.8.8.8", False),
        ("::8.8.8.8", False),
        ("64:ff9b:1:7f00:0:100::", False),
        ("64:ff9b:1::808:808", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::ffff:127.0.0.1", False),
        ("4000::1", False),
        ("::1:0:0:1", False),
        ("5f00::1", False),
        # 6to4, Teredo, ISATAP
        ("2002:a00:1::1", False),
        ("2002:808:808::1", True),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", False),
        ("2606:2800:220:1:0:5efe:10.0.0.1", False),
        ("2606:2800:220:1:200:5efe:169.254.169.254", False),
        ("2606:2800:220:1:0:5efe:8.8.8.8", True),
        ("fe80::5efe:8.8.8.8", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert check_address(ipaddress.ip_address(address), []) is public


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**128 - 1))
def test_no_form_of_a_refused_address_passes(number: int, other: int) -> None:
    """An IPv4 address that is refused is refused in every IPv6 form that carries it."""
    v4 = ipaddress.IPv4Address(number)
    forms = {
        "compatible": number,
        "mapped": 0xFFFF << 32 | number,
        "translated": 0xFFFF << 48 | number,
        "NAT64": 0x64FF9B << 96 | number,
        "local NAT64": 0x64FF9B0001 << 80 | number,
        "6to4": 0x2002 << 112 | number << 80 | other % 2**80,
        "Teredo": 0x20010000 << 96 | (other % 2**64) << 32 | number ^ 0xFFFFFFFF,
        "ISATAP": 0x2606 << 112 | 0x5EFE << 32 | number,
        "universal ISATAP": 0x2606 << 112 | 0x02005EFE << 32 | number,
    }
    if not check_address(v4, []):
        assert not [name for name, form in forms.items() if check_address(ipaddress.IPv6Address(form), [])]
    if ipaddress.IPv6Address(other) not in ipaddress.ip_network("2000::/3"):
        outside = ipaddress.IPv6Address(other)
        if outside.ipv4_mapped is None and outside not in ipaddress.ip_network("64:ff9b::/96"):
            assert not check_address(outside, [])


def test_an_allowed_network_opens_itself_and_nothing_else() -> None:
    allowed = [ipaddress.ip_network("192.168.1.0/24")]
    assert check_address(ipaddress.ip_address("192.168.1.9"), allowed)
    assert check_address(ipaddress.ip_address("::ffff:192.168.1.9"), allowed)
    assert not check_address(ipaddress.ip_address("192.168.2.9"), allowed)
    assert not check_address(ipaddress.ip_address("127.0.0.1"), allowed)
