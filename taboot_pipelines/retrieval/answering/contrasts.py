"""What differs in one word only: sections that stand beside each other (what "Import" says is not said of the
export, though the title names both), and things of one kind (hall B, the third pier).
"""

from __future__ import annotations

import re

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.asking import Asked, Term
from taboot_pipelines.retrieval.answering.documents import ReadDocument
from taboot_pipelines.retrieval.sentences import Form

_ORDINAL = r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th))"
#: A number or letter behind what is told apart by it, or an ordinal before.
_BEHIND = re.compile(r"\b([^\W\d_]{3,}) (\d{1,3}|[b-ce-hj-lnp-rv-z])(?![\w.:%-])")
_BEFORE = re.compile(rf"\b({_ORDINAL}) ([^\W\d_]{{3,}})")


def names_another(asked: Asked, said: str) -> bool:
    """Whether a text names things of a kind of which the question names one, and that one it does not."""
    wanted = _told_apart(asked.folded, frozenset(t.form for t in asked.terms))
    if not wanted:
        return False
    named = _told_apart(words.fold(said), frozenset(wanted))
    return any(kind in named and not which & named[kind] for kind, which in wanted.items())


def _told_apart(folded: str, kinds: frozenset[str]) -> dict[str, set[str]]:
    """Of each kind of thing what its things are told apart by."""
    found: dict[str, set[str]] = {}
    pairs = [(m[1], m[2]) for m in _BEHIND.finditer(folded)]
    pairs += [(m[2], m[1]) for m in _BEFORE.finditer(folded)]
    for kind, which in pairs:
        form = words.stem(kind)
        if form in kinds:
            found.setdefault(form, set()).add(which)
    return found


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
