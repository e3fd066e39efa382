"""IP addresses, networks in CIDR notation, and hosts with a port."""

from __future__ import annotations

import ipaddress
import re

from taboot_pipelines.extraction.tier_a.endpoints import endpoint, normal_host
from taboot_pipelines.extraction.tier_a.prose.scan import (
    EXTENSIONS,
    HOST_CHARS,
    MAX_HOST,
    PACKAGE,
    PLACEHOLDER,
    WORD,
    Scan,
)
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.packaged import word_list

_PORT = re.compile(r":(\d{1,5})(?!\d)")
_IPV4 = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\d)")
_IPV6 = re.compile(r":[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{0,41}")
_PREFIX_LENGTH = re.compile(r"/(\d{1,3})(?![\w/.-]*\w)")
_VERSION_BEFORE = re.compile(
    r"(?i)(?:\b"
    r"(?:version|versions|release|rev|revision|build|firmware|kernel|v|ver|upgrade to|update to|bump to)"
    r"\b\.?[\s:=*`(\"']*)\Z"
)
_RANGE_BEFORE = re.compile(r"\d\.\d{1,3}-\Z")
#: How far back the word before an address is looked for.
_MAX_VERSION = 24
_HEX = "0123456789abcdefABCDEF"
#: Words that stand before ":<number>" in code and name no host.
_NOT_HOSTS = word_list(PACKAGE, "not_hosts.txt")


def find_addresses(scan: Scan) -> None:
    """Find the networks of ``scan``, then its hosts with a port, then single addresses."""
    ipv4 = [m.span() for m in _IPV4.finditer(scan.text)]
    _ipv4_networks(scan, ipv4)
    _ipv6(scan)
    _host_ports(scan)
    _ipv4(scan, ipv4)


def _ipv4_networks(scan: Scan, spans: list[tuple[int, int]]) -> None:
    for start, end in spans:
        m = _PREFIX_LENGTH.match(scan.text, end, end + 12)
        if m is not None and int(m[1]) <= 32 and _v4_left(scan, start):
            _network(scan, start, m.end(1))


def _network(scan: Scan, start: int, end: int) -> None:
    try:
        network = str(ipaddress.ip_network(scan.text[start:end], strict=False))
    except ValueError:
        return
    if scan.take(start, end):
        scan.add("cidr", NodeRef("Network", (network,), network), start, end)


def _v4_left(scan: Scan, start: int) -> bool:
    """Whether what stands before lets an address begin here."""
    before = scan.before(start)
    if before == "/":
        return scan.before(start - 1) == "/"
    if before == ":":
        # "image:1.2.3.4" is a tag, "ip: 1.2.3.4" and "key:1.2.3.4," cannot be told from it.
        return scan.before(start - 1) in " \n"
    return not (WORD.match(before) or before in ".-${+")


def _v4_right(scan: Scan, end: int) -> bool:
    """Whether what stands behind lets an address end here."""
    text, after = scan.text, scan.after(end)
    if after == ".":
        return not scan.after(end + 1).isalnum()
    if after == "-":
        nxt = scan.after(end + 1)
        return not nxt.isalnum() or _IPV4.match(text, end + 1) is not None
    return not (WORD.match(after) or after == "+")


def _ipv4(scan: Scan, spans: list[tuple[int, int]]) -> None:
    text = scan.text
    for start, end in spans:
        if not _v4_left(scan, start) and not (scan.before(start) == "-" and _v4_range(scan, start)):
            continue
        if not _v4_right(scan, end) or _VERSION_BEFORE.search(text[max(0, start - _MAX_VERSION) : start]):
            continue
        _ip(scan, start, end, text[start:end])


def _v4_range(scan: Scan, start: int) -> bool:
    """Whether it is the second address of ``10.0.0.1-10.0.0.9``."""
    return _RANGE_BEFORE.search(scan.text[max(0, start - 8) : start]) is not None


def _ip(scan: Scan, start: int, end: int, written: str) -> None:
    try:
        address = str(ipaddress.ip_address(written))
    except ValueError:
        return
    if scan.take(start, end):
        scan.add("ip", NodeRef("IP", (address,), address), start, end)


def _ipv6(scan: Scan) -> None:
    text = scan.text
    for m in _IPV6.finditer(text):
        start = m.start()
        while start and m.start() - start < 4 and text[start - 1] in _HEX:
            start -= 1
        end = m.end()
        while end > start + 2 and (
            text[end - 1] == "." or (text[end - 1] == ":" and text[end - 2 : end] != "::")
        ):
            end -= 1
        before, after = scan.before(start), scan.after(end)
        if WORD.match(before) or before in ":.-/$" or WORD.match(after) or after == ":":
            continue
        written = text[start:end]
        bracketed = before == "[" and after == "]"
        if not bracketed and not _may_be_ipv6(written):
            continue
        try:
            address = str(ipaddress.IPv6Address(written))
        except ValueError:
            continue
        if bracketed:
            port = _PORT.match(text, end + 1)
            if port is not None and _port_right(scan, port.end(), True):
                if 1 <= int(port[1]) <= 65535 and scan.take(start - 1, port.end()):
                    scan.add("host_port", endpoint("tcp", address, int(port[1])), start - 1, port.end())
                continue
        length = _PREFIX_LENGTH.match(text, end, end + 12)
        if length is not None and int(length[1]) <= 128:
            _network(scan, start, length.end(1))
        elif written != "::":
            _ip(scan, start, end, written)


def _may_be_ipv6(written: str) -> bool:
    """Whether it is likely an address: "a::b" is also how code writes a path of names."""
    if not any(c.isdigit() for c in written):
        return False
    return (
        written.count(":") >= 3
        or written == "::1"
        or written.startswith(("2", "fe80", "fd", "fc", "FE80", "FD", "FC"))
    )


def _port_right(scan: Scan, end: int, mapped: bool) -> bool:
    """Whether what stands behind lets a port end here; ``mapped``: another port may follow a colon."""
    after, then = scan.after(end), scan.after(end + 1)
    if after == ":":
        return mapped or not then.isalnum()
    if after in (".", "-"):
        return not then.isalnum()
    return not (WORD.match(after) or after in "{$%")


def _host_ports(scan: Scan) -> None:
    text = scan.text
    for m in _PORT.finditer(text):
        port = int(m[1])
        if not 1 <= port <= 65535 or m[1][0] == "0":
            continue
        start = scan.back(m.start(), HOST_CHARS, MAX_HOST)
        while start < m.start() and text[start] in ".-_":
            start += 1
        written = text[start : m.start()]
        host = normal_host(written) if written else None
        before = scan.before(start)
        if host is None or before in "${%#:/\\~&+>}-._":
            continue
        if not _is_address(scan, written, host, before, m.start(), m.end(), port):
            continue
        if scan.take(start, m.end()):
            scan.add("host_port", endpoint("tcp", host, port), start, m.end())


def _is_address(scan: Scan, written: str, host: str, before: str, colon: int, end: int, port: int) -> bool:
    """Whether ``host:port``, as ``written`` before the ``colon``, is an address and nothing else."""
    if host == "localhost":
        return _port_right(scan, end, False)
    if _is_v4(host):
        start = colon - len(written)
        return _port_right(scan, end, True) and not _VERSION_BEFORE.search(
            scan.text[max(0, start - _MAX_VERSION) : start]
        )
    if PLACEHOLDER.search(host) or not _port_right(scan, end, False):
        return False
    last = host.rpartition(".")[2]
    if "." in host:
        tld = (last.isalpha() and len(last) >= 2) or last.startswith("xn--")
        return tld and last not in EXTENSIONS and port >= 10 and written == written.lower()
    # A bare name: only in code, in lower case, and with a port that is no version as in "postgres:16".
    return (
        written == host
        and host[0].isalpha()
        and host not in _NOT_HOSTS
        and (port >= 100 or port == 80)
        and before in " \t\n=@(,[;\"'`"
        and scan.in_code(colon)
    )


def _is_v4(host: str) -> bool:
    return host[-1].isdigit() and host.count(".") == 3 and host.replace(".", "").isdigit()
