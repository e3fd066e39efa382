"""The text that mentions are looked for in, the mentions found, and what a host looks like there."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.claims import basis_of
from taboot_pipelines.extraction.tier_a.regions import RegionIndex, regions
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.packaged import word_list

PACKAGE = "taboot_pipelines.extraction.tier_a.prose"
HOST_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
MAX_HOST = 253
WORD = re.compile(r"[A-Za-z0-9_]")
#: A host of these is a stand-in for the reader's own.
PLACEHOLDER = re.compile(
    r"(?i)(?:^|[._-])(?:your|my)"
    r"(?:$|[._-]|ip|host|domain|server|site|proxy|company|nas|address)"
    r"|^(?:the[._-]?)?"
    r"(?:local|remote|public|private|external|internal|docker|server|host|container|machine|lan|vpn|nas"
    r"|some|any)?[._-]?"
    r"(?:ip|host|hostname|server|address|ipaddress|ip[._-]address|host[._-]ip|server[._-]ip|serverip|hostip"
    r"|domain|fqdn|dockerhost|servername|container[._-]name)$"
    r"|^url\d*$"
    r"|^x+(?:\.x+)*$"
    r"|(?:^|[._-])(?:xxx+|placeholder|changeme)(?:$|[._-])"
)
#: Last labels that make "name.ext:12" a file and a line. Some are top-level domains too, but in documentation
#: they are mostly files.
EXTENSIONS = word_list(PACKAGE, "file_extensions.txt")


@dataclass(frozen=True, slots=True)
class Mention:
    """``text[start:end]`` names ``node``. ``kind``: url, host_port, ip, cidr or image, or compose_example.
    ``basis``: ``bytes`` if the node's name stands in the span as it is, else how it follows."""

    kind: str
    node: NodeRef
    start: int
    end: int
    basis: Basis


class Scan:
    """One text with what was found in it. ``code``: the whole text is code."""

    def __init__(self, text: str, code: bool) -> None:
        self.text = text
        self.code = code
        self.found: list[Mention] = []
        #: One byte per code point: 1 where a mention, or what was refused as one, stands.
        self.taken = bytearray(len(text))
        self._index: RegionIndex | None = None

    def take(self, start: int, end: int) -> bool:
        """Claim the span; False if part of it is taken."""
        if self.taken.find(1, start, end) >= 0:
            return False
        self.block(start, end)
        return True

    def block(self, start: int, end: int) -> None:
        """Let nothing else be found in the span."""
        self.taken[start:end] = b"\x01" * (end - start)

    def add(self, kind: str, node: NodeRef, start: int, end: int) -> None:
        span = self.text[start:end]
        self.found.append(Mention(kind, node, start, end, basis_of(node.name, span, span)))

    def in_code(self, at: int) -> bool:
        """Whether ``at`` stands in code."""
        if self.code:
            return True
        if self._index is None:
            self._index = RegionIndex([r for r in regions(self.text) if r[2] == "code"])
        return self._index.at(at) is not None

    def before(self, at: int) -> str:
        """The character before ``at``; a line feed at the start of the text."""
        return self.text[at - 1] if at else "\n"

    def after(self, at: int) -> str:
        """The character at ``at``; a line feed at the end of the text."""
        return self.text[at] if at < len(self.text) else "\n"

    def back(self, at: int, characters: Collection[str], limit: int) -> int:
        """The start of the run of ``characters`` that ends at ``at``, ``limit`` characters back at most."""
        text, stop = self.text, max(0, at - limit)
        while at > stop and text[at - 1] in characters:
            at -= 1
        return at
