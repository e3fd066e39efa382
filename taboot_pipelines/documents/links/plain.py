"""The links of plain text, which are its URLs, and of AsciiDoc."""

from __future__ import annotations

import re

from taboot_pipelines.documents.links.hyperlink import Hyperlink, bare_urls, hyperlink

#: Blocks of AsciiDoc between lines of four or more of one of these hold code or comments.
_ASCIIDOC_BLOCK = re.compile(r"^(-{4,}|\.{4,}|/{4,}|`{3,})[ \t]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_ASCIIDOC_CODE = re.compile(r"`\+?[^`\n]+\+?`")
_MACRO = re.compile(r"(?<![\w:])(?:link|xref):([^\s\[\]]+)\[([^\]\n]*)\]")
_CROSS_REFERENCE = re.compile(r"<<([^\s<>,#]+\.adoc(?:#[^<>,\n]*)?|[^\s<>,#]+#[^<>,\n]*)(?:,([^<>\n]*))?>>")


def plain_links(text: str) -> list[Hyperlink]:
    return list(bare_urls(text))


def asciidoc_links(text: str) -> list[Hyperlink]:
    """URLs, the macros ``link:`` and ``xref:``, and cross references to other files."""
    for code in (_ASCIIDOC_BLOCK, _ASCIIDOC_CODE):
        text = code.sub(lambda m: re.sub(r"\S", " ", m[0]), text)
    found: list[Hyperlink | None] = [
        hyperlink("href", m[1], m.start(), m.end(), m[2] or "")
        for pattern in (_MACRO, _CROSS_REFERENCE)
        for m in pattern.finditer(text)
    ]
    made = [link for link in found if link is not None]
    taken = {place for link in made for place in range(link.start, link.end)}
    return made + [link for link in bare_urls(text) if link.start not in taken]
