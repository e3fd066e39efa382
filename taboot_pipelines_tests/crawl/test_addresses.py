"""Which addresses are reached: the guard on the real list of tricks, and on every form of an address."""

from __future__ import annotations

import ipaddress
import json
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.connectors.web import WebConnector, WebSource
from taboot_pipelines.crawl.addresses import (
    MAX_TRIED_ADDRESSES,
    METADATA_ADDRESSES,
    METADATA_HOSTS,
    Address,
    Names,
    check_address,
    check_host,
    reachable,
)
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Failed
from taboot_pipelines_tests.connectors.conftest import DATA
from taboot_pipelines_tests.connectors.servers import resolving


def _cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "ssrf-urls/cases.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", _cases(), ids=lambda c: c["url"][:40])
def test_the_guard_refuses_every_form_of_a_private_address(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole connector with a resolver of the case's answers, and no socket: an allowed URL gets as far as
    opening one.
    """
    connected: list[str] = []

    def open_socket(address: Any) -> Any:
        connected.append(address.addr[0])
        raise OSError

    monkeypatch.setattr("taboot_pipelines.crawl.curl.open_socket", open_socket)
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
    failed, *_, end = WebConnector(entry, resolving(resolver, retry_seconds=())).events({}, lambda _: False)
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


#: IANA's special-purpose registries (RFC 6890 and later ones), site-local and multicast networks.
SPECIAL = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "::ffff:0:0:0/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]


@pytest.mark.parametrize("text", SPECIAL)
def test_a_special_network_is_refused_to_its_edges_and_its_public_neighbours_pass(text: str) -> None:
    network = ipaddress.ip_network(text)
    for at in (0, 1, network.num_addresses // 3, network.num_addresses // 2, -2, -1):
        assert not check_address(network[at], []), network[at]
    specials = [ipaddress.ip_network(t) for t in SPECIAL]
    for number in (int(network[0]) - 1, int(network[-1]) + 1):
        if not 0 <= number < 2**network.max_prefixlen:
            continue
        beside = type(network[0])(number)
        given_out = network.version == 4 or beside in ipaddress.ip_network("2000::/3")
        if given_out and not any(beside in s for s in specials if s.version == beside.version):
            assert check_address(beside, []), beside


@pytest.mark.parametrize(
    "address",
    # anycast of AS112 and AMT, and the first and last addresses of what is given out
    [
        "192.31.196.1",
        "192.52.193.1",
        "192.175.48.1",
        "2620:4f:8000::1",
        "1.0.0.0",
        "223.255.255.255",
        "2001:200::",
        "2600::1",
        "3ffe:ffff::1",
        "3fff:1000::",
        "2002:808:808::",
        "64:ff9b::808:808",
    ],
)
def test_no_public_address_is_refused(address: str) -> None:
    assert check_address(ipaddress.ip_address(address), [])


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


@pytest.mark.parametrize("address", sorted(map(str, METADATA_ADDRESSES)))
def test_credentials_of_machines_are_reached_only_if_named_alone(address: str) -> None:
    found = ipaddress.ip_address(address)
    everything = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]
    assert not check_address(found, [])
    assert not check_address(found, everything)
    assert check_address(found, [ipaddress.ip_network(address)])
    if found.version == 4:
        mapped = ipaddress.ip_address(f"::ffff:{address}")
        assert not check_address(mapped, everything)


@pytest.mark.parametrize("name", sorted(METADATA_HOSTS))
def test_names_of_metadata_services_are_not_even_looked_up(name: str) -> None:
    asked: list[str] = []

    def resolver(host: str, _port: int) -> list[Address]:
        asked.append(host)
        return [ipaddress.ip_address("93.184.216.34")]

    for spelling in (name, name.upper(), f"{name}."):
        assert not check_host(spelling)
        with pytest.raises(TabootError, match="E_URL_BLOCKED"):
            reachable(spelling, 80, [], resolver)
    assert asked == []
    assert reachable(f"not-{name}", 80, [], resolver) == [ipaddress.ip_address("93.184.216.34")]


def test_the_client_does_not_look_up_metadata_services_either() -> None:
    """Some of their names have public addresses, which nothing else would refuse."""
    asked: list[str] = []
    done = threading.Event()

    def resolver(host: str, _port: int) -> list[Address]:
        asked.append(host)
        return [ipaddress.ip_address("93.184.216.34")]

    names = Names([], resolver, done.set)
    try:
        for name in ("metadata.packet.net", "open.example"):
            done.clear()
            assert names.find(name, 80) is None and done.wait(5)
        refused, found = names.find("metadata.packet.net", 80), names.find("open.example", 80)
    finally:
        names.close()
    assert refused is not None and refused.blocked is not None and refused.blocked.code == "E_URL_BLOCKED"
    assert found is not None and found.addresses and asked == ["open.example"]


def test_one_private_address_among_a_thousand_is_found_in_no_time() -> None:
    public = [ipaddress.ip_address(f"93.184.{i // 256}.{i % 256}") for i in range(1000)]
    begun = time.process_time()
    assert reachable("many.example", 80, [], lambda *_: public) == public[:MAX_TRIED_ADDRESSES]
    for bad in ("10.0.0.1", "::1", "64:ff9b::a00:1", "fe80::1%eth0"):
        answer = [*public, ipaddress.ip_address(bad)]
        with pytest.raises(TabootError, match="E_URL_BLOCKED"):
            reachable("many.example", 80, [], lambda *_, answer=answer: answer)
    assert time.process_time() - begun < 2
    with pytest.raises(TabootError, match="E_URL_BLOCKED"):
        reachable("flood.example", 80, [], lambda *_: [ipaddress.IPv4Address(2**27 + i) for i in range(5000)])


def test_a_name_without_an_address_is_not_reachable() -> None:
    def unknown(_host: str, _port: int) -> list[Address]:
        raise OSError("unknown")

    def unwritable(_host: str, _port: int) -> list[Address]:
        raise UnicodeError("label too long")

    for resolver in (unknown, unwritable, lambda *_: []):
        with pytest.raises(OSError):
            reachable("nowhere.example", 80, [], resolver)


@pytest.mark.parametrize(
    ("notation", "host"),
    [
        ("http://2130706433/", "127.0.0.1"),
        ("http://0x7f000001/", "127.0.0.1"),
        ("http://017700000001/", "127.0.0.1"),
        ("http://0177.0.0.0x1/", "127.0.0.1"),
        ("http://127.1/", "127.0.0.1"),
        ("http://127.0.1/", "127.0.0.1"),
        ("http://0/", "0.0.0.0"),
        ("http://%31%32%37.0.0.1/", "127.0.0.1"),
        ("http://127。0。0。1/", "127.0.0.1"),
        ("http://①②⑦.⓪.⓪.①/", "127.0.0.1"),
        ("http://127.0.0.1./", "127.0.0.1"),
        ("http://[0:0:0:0:0:FFFF:127.0.0.1]/", "[::ffff:7f00:1]"),
        ("http://[::127.0.0.1]/", "[::7f00:1]"),
    ],
)
def test_every_notation_of_an_address_is_that_address(notation: str, host: str) -> None:
    url = parse_url(notation)
    assert url.host == host
    address = ipaddress.ip_address(host.strip("[]"))
    with pytest.raises(TabootError, match="E_URL_BLOCKED"):
        reachable(url.host, url.port, [], lambda name, _port: [ipaddress.ip_address(name)])
    assert not check_address(address, [])


@pytest.mark.parametrize(
    "text",
    [
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[::1",
        "http://256.1.1.1/",
        "http://1.2.3.4.5/",
        "http://0x100000000/",
    ],
)
def test_what_is_no_address_is_no_host(text: str) -> None:
    with pytest.raises(TabootError, match="E_URL_BAD"):
        parse_url(text)
