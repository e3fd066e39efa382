"""Hosts files: which names resolve to which addresses (hosts(5), RFC 952).

A line is an address and one or more names. What every machine's file says of itself is no fact: loopback,
unspecified, link-local, multicast and broadcast addresses. A list that sends thousands of names nowhere, to
block advertisements, is told by one note.
"""

from __future__ import annotations

import ipaddress
import re

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.inventory import Address
from taboot_pipelines.extraction.tier_a.recognition import NOT_IN_FORCE
from taboot_pipelines.extraction.tier_a.texts import UnitTexts, description
from taboot_pipelines.model.graph import is_hostname
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, SourceFacts

#: From so many names on that lead nowhere a file is a list of what is blocked.
MIN_BLOCKED = 100
#: Lines that are neither an address with names, nor a comment, before a file counts as another format.
_MAX_STRANGE = 20
_NAMES = frozenset({"hosts", "custom.list"})
_OTHER_NAMES = frozenset({"hosts.allow", "hosts.deny", "hosts.equiv"})
_OTHER_ENDINGS = NOT_IN_FORCE | {"yml", "yaml", "json", "ini", "toml", "py", "md", "html", "cfg"}
#: Other formats have files called so: inventories of Ansible begin with a section.
_OTHER_FORMAT = re.compile(
    r"^[ \t]*(?:\[[^\]\n]*\][ \t\r]*(?:[#;].*)?$|---[ \t\r]*$|[A-Za-z_][\w-]*[ \t]*:(?:[ \t\r]|$))", re.M
)
_ENTRY = re.compile(r"^[ \t]*([0-9A-Fa-f][0-9A-Fa-f.:]*(?:%[\w.-]+)?)[ \t]+[A-Za-z0-9_*]", re.M)
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


def is_hosts_path(path: str) -> bool:
    """Whether a file of this path is read as a hosts file if it looks like one: ``hosts``, ``hosts.lan``,
    ``lan.hosts``, ``hosts.d/lan``, Pi-hole's ``custom.list``."""
    folder, _, name = path.lower().rpartition("/")
    if name in _OTHER_NAMES or name.rpartition(".")[2] in _OTHER_ENDINGS:
        return False
    return (
        name in _NAMES
        or name.startswith("hosts.")
        or name.endswith(".hosts")
        or folder.rpartition("/")[2] in ("hosts.d", "addn-hosts")
    )


def looks_like_hosts(head: str) -> bool:
    """Whether a text begins as a hosts file does."""
    return _ENTRY.search(head) is not None and _OTHER_FORMAT.search(head) is None


class HostsReader:
    """Reads hosts files (a :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`)."""

    name = "hosts"
    version = "3"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        texts = UnitTexts(view)
        text = texts.text(path) or ""
        claims = ClaimBuilder(source, texts)
        if not looks_like_hosts(text):
            return claims.result()
        blocked = 0
        strange = 0
        at = 1 if text.startswith("\ufeff") else 0
        for line in text[at:].split("\n"):
            start, at = at, at + len(line) + 1
            bare = line.partition("#")[0]
            words = [(m[0], start + m.start()) for m in re.finditer(r"\S+", bare)]
            if not words:
                continue
            address = _address(words[0][0])
            whole = Quote(bare.strip(), path, words[0][1], words[-1][1] + len(words[-1][0]))
            if address is None or len(words) < 2:
                strange += 1
                if strange <= _MAX_STRANGE:
                    claims.problem(whole, "E_PARSE", "this is no address with names.")
                continue
            if address.is_unspecified or address.is_loopback:
                blocked += sum(_is_foreign(name) for name, _ in words[1:])
            if _is_nobodys(address):
                continue
            _claim(claims, address, words, whole, description(line.partition("#")[2]))
        if strange > _MAX_STRANGE:
            claims.texts.problem(path, "E_PARSE", f"{path}: {strange} lines are no address with names.")
        if blocked >= MIN_BLOCKED:
            claims.texts.problem(
                path,
                "E_UNRESOLVED",
                f"{path}: {blocked} names are led nowhere, as lists of blocked names do; they state nothing.",
            )
        return claims.result()


def _claim(
    claims: ClaimBuilder,
    address: Address,
    words: list[tuple[str, int]],
    line: Quote,
    remark: str | None,
) -> None:
    """Every name of a line resolves to its address; the quote reaches from the address to the name. A
    ``remark`` behind them is of the host that the first of them is."""
    (written, start), names = words[0], words[1:]
    for name, at in names:
        quoted = Quote(line.text, line.path, start, at + len(name))
        hostname = name.lower().rstrip(".")
        if not is_hostname(hostname) or _address(hostname) is not None:
            claims.problem(quoted, "E_PARSE", "this is no host name.")
            continue
        host = claims.node(
            NodeRef("Host", (hostname,), hostname),
            Quote(name, line.path, at, at + len(name)),
            {"description": remark if at == names[0][1] else None},
            declared=True,
        )
        ip = claims.ip(str(address), Quote(written, line.path, start, start + len(written)))
        if host is None or ip is None:
            continue
        claims.edge(
            "RESOLVES_TO",
            host,
            ip,
            quoted,
            "hosts_file",
            written=written,
            start_basis=claims.basis(host, quoted, name),
            recordType="A" if address.version == 4 else "AAAA",
        )


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _is_nobodys(address: Address) -> bool:
    """Whether an address is none that tells machines apart."""
    return (
        address.is_unspecified
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address == _BROADCAST
        # What old files call ip6-localnet and ip6-mcastprefix.
        or (address.version == 6 and str(address) in ("fe00::", "ff00::"))
    )


def _is_foreign(name: str) -> bool:
    return "." in name and not name.lower().startswith("localhost")
