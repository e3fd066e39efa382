"""Which blocks of a page are its main content.

Pages of known documentation generators say it themselves, by their markup. For all others trafilatura decides
(Barbaresi 2021, ACL demo): its text is taken as evidence, and the blocks of the positioned tree whose words
it holds are kept, so that code, tables and positions come from the tree. Where trafilatura finds nothing, or
the page is too large for it, markup and link density decide.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from taboot_pipelines.documents.html_markdown import Block, is_hidden, render
from taboot_pipelines.documents.html_tree import BLOCK, Element, Root

#: Beyond these trafilatura takes too long; pages for people are far smaller. Its time grows with the square
#: of the paragraphs (what begins a block, and line breaks) and of the attributes of one tag. Of 233 real
#: pages the largest have 9,800 tags, 2,100 paragraphs, and 540 attributes in a tag.
_MAX_LIBRARY_CHARS = 2_000_000
_MAX_LIBRARY_TAGS = 25_000
_MAX_LIBRARY_PARAGRAPHS = 4_000
_MAX_LIBRARY_ATTRIBUTE_PAIRS = 10_000_000
_PARAGRAPH = re.compile(rf"<(?:{'|'.join(sorted(BLOCK))}|br)(?=[\s/>])", re.IGNORECASE)

#: (attribute, word in it) of the element that holds the text, by generator; the first that a page has counts.
_CONTAINERS = (
    ("class", "md-content__inner"),  # MkDocs Material, of an article
    ("class", "theme-doc-markdown"),  # Docusaurus
    ("class", "vp-doc"),  # VitePress
    ("class", "theme-default-content"),  # VuePress
    ("class", "sl-markdown-content"),  # Starlight
    ("class", "td-content"),  # Docsy
    ("class", "markdown-body"),  # GitHub, Gitea
    ("id", "mw-content-text"),  # MediaWiki
    ("class", "rst-content"),
    ("class", "book-page"),
    ("class", "gitbook-markdown"),
)
#: Names that others use as well: they count on a page whose generator is known.
_GENERIC = (("itemprop", "articleBody"), ("role", "main"))  # Read the Docs; Sphinx, MkDocs
#: The tag that an element must have beside the word.
_CONTAINER_TAGS = {"md-content__inner": "article", "articleBody": "div", "main": "div"}
_RANKS = {place: rank for rank, place in enumerate(_CONTAINERS + _GENERIC)}
_MAY_CONTAIN = tuple(word.lower() for _, word in _RANKS)
_CONTAINER_ATTRIBUTES = tuple(dict.fromkeys(attribute for attribute, _ in _RANKS))
_GENERATOR = re.compile(
    r"(?i)mkdocs|sphinx|docusaurus|vitepress|vuepress|starlight|mdbook|gitbook|antora"
    r"|jekyll.*just-the-docs|hugo.*docs|doxygen|docutils|asciidoctor|pdoc|rustdoc|javadoc"
)
_BOILERPLATE_TAGS = frozenset(("nav", "footer", "aside", "form", "header"))
_BOILERPLATE_ROLES = frozenset(
    ("navigation", "banner", "contentinfo", "search", "complementary", "menu", "dialog", "alertdialog")
)
_BOILERPLATE = re.compile(
    r"(?i)(?:^|[\s_-])"
    r"(?:nav|navbar|navigation|menu|toc|table-of-contents|breadcrumbs?|sidebar|footer|pagination|pager"
    r"|prev-?next|edit-?this-?page|edit-?page|share|sharing|social|newsletter|subscribe|cookies?|consent"
    r"|banner|related|recommended|advert\w*|sponsor\w*|promo|comments?|feedback|skip-link)"
    r"(?:$|[\s_-])"
)
_DOC_FURNITURE = re.compile(
    r"(?i)(?:^|[\s_-])"
    r"(?:toc|breadcrumbs?|pagination|edit-?this-?page|edit-?page|page-nav|rst-footer-buttons|feedback"
    r"|tocCollapsible\w*|toctree-wrapper-nav)"
    r"(?:$|[\s_-])"
)
_WORD = re.compile(r"\w+")
#: Elements without text that the library removes at once; it is quicker to not let it read them.
_NO_TEXT = frozenset(
    (
        *("script", "style", "svg", "template", "iframe", "object", "picture", "canvas", "video", "audio"),
        *("button", "select", "link", "meta"),
    )
)
#: Further elements that it leaves out unread, unless it finds too little.
_LEFT_OUT = _NO_TEXT | frozenset(("aside", "dialog", "footer", "menu", "nav", "noscript"))
_EXTRACT: dict[str, Any] = {"favor_precision": True, "include_comments": False, "include_tables": True}
#: What the library itself takes for too little to be a page's text.
_MIN_LIBRARY_CHARS = 250
#: Words of a shingle, a run of words that is looked up as one.
_SHINGLE = 4
#: Of equal passages in the library's text, as many are tried as places for one block.
_MAX_PLACES = 8


def _furniture(element: Element) -> bool:
    """Parts of a documentation generator's container that are not text of the page."""
    tag = element.tag
    if tag in ("nav", "form", "footer") or element.get("role") in _BOILERPLATE_ROLES:
        return True
    names = f"{element.get('class')} {element.get('id')}"
    if tag == "aside":
        return _BOILERPLATE.search(names) is not None
    return (
        tag in ("div", "section", "ul", "header", "p")
        and names != " "
        and _DOC_FURNITURE.search(names) is not None
    )


def _boilerplate(element: Element) -> bool:
    """Parts of any page that are not its text."""
    tag = element.tag
    if tag in _BOILERPLATE_TAGS:
        # A header inside an article holds its title.
        return not (tag == "header" and any(True for e in element.walk() if e.tag == "h1"))
    if tag not in ("div", "section", "ul", "ol", "p", "table", "td"):
        return False
    if element.get("role") in _BOILERPLATE_ROLES:
        return True
    names = f"{element.get('class')} {element.get('id')}"
    return names != " " and _BOILERPLATE.search(names[:400]) is not None


def _documentation(elements: Sequence[Element]) -> Element | None:
    """The element that a documentation generator puts its text in, or None."""
    # A fifth of a page, as a rule: scripts and text say nothing here.
    written = "\n".join([element.raw for element in elements if element.raw])
    # Sphinx rarely names itself.
    generated = "_static/documentation_options.js" in written or "_static/pygments.css" in written
    generated = generated or any(
        element.get("name").lower() == "generator" and _GENERATOR.search(element.get("content")[:400])
        for element in elements
        if element.tag == "meta" and element.may_say(("generator",))
    )
    if not generated and not any(word in written for _, word in _CONTAINERS):
        return None
    found: dict[int, Element] = {}
    mains: list[Element] = []
    for element in elements:
        if element.tag in ("main", "article"):
            mains.append(element)
        if not element.may_say(_MAY_CONTAIN):
            continue
        attributes = element.attributes
        for attribute in _CONTAINER_ATTRIBUTES:
            if attribute not in attributes:
                continue
            for word in attributes[attribute].split():
                rank = _RANKS.get((attribute, word))
                if (
                    rank is not None
                    and rank not in found
                    and _CONTAINER_TAGS.get(word, element.tag) == element.tag
                    and not is_hidden(element)
                ):
                    found[rank] = element
    ranks = sorted(r for r in found if generated or r < len(_CONTAINERS))
    if ranks:
        return found[ranks[0]]
    if generated:
        articles = [m for m in mains if m.tag == "article"]
        whole = [m for m in mains if m.tag == "main"]
        if len(articles) == 1:
            return articles[0]
        if whole:
            return whole[0]
    return None


def _without(tags: frozenset[str], source: str, elements: Sequence[Element]) -> str:
    """The page without the elements of some tags, which are often the most of it."""
    kept, at = [], 0
    for element in elements:
        if element.tag in tags and element.start >= at:
            kept.append(source[at : element.start])
            at = element.end
    return "".join([*kept, source[at:]])


def _library_text(source: str, elements: Sequence[Element]) -> str:
    """What trafilatura takes for the main content, or nothing."""
    import logging

    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    text = ""
    # Its comparison with other extractors takes half of its time, and only mends where it found little.
    for fast, left_out in ((True, _LEFT_OUT), (False, _NO_TEXT)):
        page = _without(left_out, source, elements)
        with contextlib.suppress(Exception):  # whatever it stumbles over, the page can be read by its markup
            text = trafilatura.extract(page, fast=fast, **_EXTRACT) or ""
        if len(text) >= _MIN_LIBRARY_CHARS:
            break
    return text


class _Evidence:
    """Where the library's text, as a sequence of words, holds the words of a block."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        #: A whole line -> where it begins.
        self.lines: dict[tuple[str, ...], list[int]] = {}
        for line in text.split("\n"):
            words = _tokens(line)
            self.lines.setdefault(tuple(words), []).append(len(self.words))
            self.words += words
        self.shingles: dict[tuple[str, ...], list[int]] = {}
        for i, shingle in enumerate(_shingles(self.words)):
            self.shingles.setdefault(shingle, []).append(i)

    def places(self, words: list[str]) -> list[tuple[int, int, int]]:
        """(start, end, words in common) of each place that holds at least half of the block's shingles."""
        whole = self.lines.get(tuple(words), [])[:_MAX_PLACES]
        if whole or len(words) <= _SHINGLE:
            return [(at, at + len(words), len(words)) for at in whole]
        # Shingles that stand at one distance from their place in the block belong to one passage.
        passages: dict[int, list[int]] = {}
        found = 0
        for i, shingle in enumerate(_shingles(words)):
            if (at_once := self.shingles.get(shingle)) is not None:
                found += 1
                for at in at_once[:_MAX_PLACES]:
                    passages.setdefault(at - i, []).append(at)
        if 2 * found < len(words) - _SHINGLE + 1:
            return []
        most = sorted(passages.values(), key=len, reverse=True)[:_MAX_PLACES]
        return [(p[0], p[-1] + _SHINGLE, len(p)) for p in most if 2 * len(p) >= len(most[0])]


def _shingles(words: list[str]) -> Iterable[tuple[str, ...]]:
    """Each run of :data:`_SHINGLE` words, in order."""
    return zip(*(words[i:] for i in range(_SHINGLE)), strict=False)


def _tokens(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _in_order(candidates: list[list[tuple[int, int, int]]], length: int) -> set[int]:
    """The blocks of the heaviest selection in which each follows the one before in the library's text,
    without overlap: a teaser that repeats the text elsewhere on the page loses against the text. O(n log n),
    a Fenwick tree of maxima.
    """
    tree: list[tuple[int, int]] = [(0, -1)] * (length + 2)
    nodes: list[tuple[int, int]] = []  # (block, node before)
    best = (0, -1)
    for block, places in enumerate(candidates):
        reached = []
        for start, end, weight in places:
            before = (0, -1)
            i = start + 1
            while i > 0:
                before = max(before, tree[i])
                i -= i & -i
            nodes.append((block, before[1]))
            reached.append((before[0] + weight, len(nodes) - 1, end))
        for value, node, end in reached:
            best = max(best, (value, node))
            i = end + 1
            while i < len(tree):
                tree[i] = max(tree[i], (value, node))
                i += i & -i
    chosen = set()
    at = best[1]
    while at >= 0:
        block, at = nodes[at]
        chosen.add(block)
    return chosen


def _supported(blocks: list[Block], text: str) -> list[Block]:
    """The blocks that the library's text holds, in its order, with the code, tables and headings between."""
    evidence = _Evidence(text)
    words = [_tokens(b.plain) for b in blocks]
    chosen = _in_order([evidence.places(w) for w in words], len(evidence.words))
    long = [i for i in sorted(chosen) if len(words[i]) > 2 * _SHINGLE]
    if not long:
        return [blocks[i] for i in sorted(chosen)]
    keep = [i in chosen and long[0] - 3 <= i <= long[-1] + 3 for i in range(len(blocks))]
    for i in range(long[0] + 1, long[-1]):
        block = blocks[i]
        if keep[i] or block.linked >= 0.5:
            continue
        if block.kind in ("code", "table"):
            keep[i] = i - 1 in chosen or i + 1 in chosen
        elif block.kind == "heading":
            keep[i] = i + 1 in chosen and blocks[i + 1].kind != "heading"
    _keep_definitions(blocks, keep)
    for i in range(len(blocks) - 2, -1, -1):
        # The headings that a kept block stands under, with those above them.
        if blocks[i].kind == "heading" and blocks[i].linked < 0.5 and keep[i + 1]:
            keep[i] = True
    return [b for b, k in zip(blocks, keep, strict=True) if k]


def _keep_definitions(blocks: list[Block], keep: list[bool]) -> None:
    """Keep lists of terms and definitions that touch what is kept: the library leaves them out."""
    for way in (range(1, len(blocks)), range(len(blocks) - 2, -1, -1)):
        step = -1 if way.step > 0 else 1
        for i in way:
            if keep[i + step] and blocks[i].defines and blocks[i].linked < 0.5:
                keep[i] = True


def _by_markup(source: str, root: Element) -> list[Block]:
    """Main content by element names, class names and link density alone."""
    candidates = [
        e
        for e in root.walk()
        if e.tag in ("main", "article")
        or e.get("role") == "main"
        or e.get("id") in ("content", "main", "main-content")
    ]
    for element in [*candidates[:1], root]:
        blocks = [b for b in render(source, element, _boilerplate) if b.linked < 0.8 or b.kind == "heading"]
        if sum(len(b.plain) for b in blocks) >= 200:
            return blocks
    return render(source, root)


def _library_fits(source: str, root: Element) -> bool:
    """Whether the page is small enough for the library."""
    tags = source.count("<")
    if (
        len(source) > _MAX_LIBRARY_CHARS
        or tags > 2 * _MAX_LIBRARY_TAGS
        or (isinstance(root, Root) and root.attribute_pairs > _MAX_LIBRARY_ATTRIBUTE_PAIRS)
    ):
        return False
    if tags <= _MAX_LIBRARY_PARAGRAPHS:
        return True
    paragraphs = islice(_PARAGRAPH.finditer(source), _MAX_LIBRARY_PARAGRAPHS + 1)
    return sum(1 for _ in paragraphs) <= _MAX_LIBRARY_PARAGRAPHS


def main_content(source: str, root: Element) -> list[Block]:
    """The blocks of the page's main content in document order; all visible blocks where nothing stands out.

    Time is bounded: linear in the page beyond the size at which the library is left out.
    """
    elements = root.elements if isinstance(root, Root) else list(root.walk())
    if container := _documentation(elements):
        blocks = render(source, container, _furniture)
        if any(b.plain for b in blocks):
            return blocks
    if _library_fits(source, root):
        text = _library_text(source, elements)
        if len(text) >= 60:
            kept = _supported(render(source, root), text)
            if sum(len(b.plain) for b in kept) >= 0.5 * len(text):
                return kept
    return _by_markup(source, root)
