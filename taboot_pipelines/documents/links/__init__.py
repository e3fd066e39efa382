"""The hyperlinks of a document, as its format writes them and where they stand in its text.

What a link leads to is not asked here: a target is what the author wrote. Code, images and comments hold no
links. Everything is linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable

from taboot_pipelines.documents.links.hyperlink import Hyperlink, LinkKind
from taboot_pipelines.documents.links.markdown import markdown_links
from taboot_pipelines.documents.links.page import page_links
from taboot_pipelines.documents.links.plain import asciidoc_links, plain_links
from taboot_pipelines.documents.links.restructured import restructured_links
from taboot_pipelines.documents.mime import HTML, MARKDOWN, PLAIN, reads_as

__all__ = ["LINKS_VERSION", "Hyperlink", "LinkKind", "page_links", "read_from_blob", "text_links"]

#: Changes with every change of what is found.
LINKS_VERSION = "1"

_READERS: dict[str, Callable[[str], list[Hyperlink]]] = {
    MARKDOWN: markdown_links,
    PLAIN: plain_links,
    "text/x-rst": restructured_links,
    "text/asciidoc": asciidoc_links,
}


def read_from_blob(mime: str) -> bool:
    """Whether the links of such a document stand in its blob alone, where :func:`page_links` finds them: a
    page's text leaves out the targets within its site.
    """
    return mime == HTML


def text_links(text: str, mime: str) -> list[Hyperlink]:
    """The links that a document's text holds, in their order; configuration and code have none."""
    reader = _READERS.get(reads_as(mime))
    return [] if reader is None else sorted(reader(text), key=lambda link: (link.start, link.end))
