"""Sections that stand beside each other and are about different things: what "Import" says of how long it
takes is not said of the export, though the title of the document names both.
"""

from __future__ import annotations

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.asking import Asked, Term
from taboot_pipelines.retrieval.answering.documents import ReadDocument
from taboot_pipelines.retrieval.sentences import Form


def told_elsewhere(asked: Asked, document: ReadDocument, number: int) -> frozenset[str]:
    """The forms of the terms that a section beside that of the statement ``number`` is called by, and by
    nothing else, while the statement's own heading does not hold them: what names its document, or stands
    above both, does not say them of it.
    """
    section = document.statements[number].section
    above, _, leaf = section.rpartition(" > ")
    if not leaf:
        return frozenset()
    own = words.forms(leaf)
    found = set()
    for beside, forms in _headings(document).get(above, ()):
        if beside == leaf or beside in above.split(" > "):
            continue
        terms = [t for t in asked.terms if _is_in(t, forms)]
        named = {f for t in terms for f in (t.form, t.group, *t.parts)}
        if terms and forms <= named and not any(_is_in(t, own) for t in terms):
            found |= {t.form for t in terms}
    return frozenset(found)


def _headings(document: ReadDocument) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Of each section the headings directly below it, each with its forms."""
    if document.headings is None:
        below: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for s in document.statements:
            if s.form is Form.HEADING:
                below.setdefault(s.section, []).append((s.said, words.forms(s.said)))
        document.headings = below
    return document.headings


def _is_in(term: Term, forms: frozenset[str]) -> bool:
    return term.form in forms or (term.group is not None and term.group in forms)
