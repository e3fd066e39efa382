"""Words of a question that no document holds, as the passages found for it write them: without slips of the
pen, in full where the question shortens them, shortened where it writes them in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.asking import Asked, Term

#: Shorter words have too many others beside them to be corrected, or to be the beginning of.
_MIN_CORRECTED, _MIN_SHORTENED = 5, 4
#: Words whose first letters make an abbreviation.
_MIN_INITIALS, _MAX_INITIALS = 2, 4


#: What is done anew.
_AGAIN = re.compile(r"re-?(?=\w{4})")


def corrected(asked: Asked, held: frozenset[str], texts: Iterable[str]) -> Asked:
    """The question with its strange words (that no document holds) as the passages write them, each if there
    is only one such word. ``held``: the forms of the passages' statements; ``texts``: what they say.
    """
    strange = [t for t in asked.terms if t.unknown and t.text.isalpha() and t.form not in held]
    meant = _joined(asked, held)
    if not (strange or meant):
        return asked
    for term in strange:
        near = _longer(term.text, held)
        if not near and len(term.text) >= _MIN_CORRECTED:
            near = sorted(f for f in held if f.isalpha() and words.is_slip(term.form, f))
        near = near or _longer(term.form, held)
        again = _AGAIN.match(term.form)
        if not near and again and term.form[again.end() :] in held:
            near = [term.form[again.end() :]]
        if len(near) == 1:
            meant[term.form] = near[0]
    meant |= _initials(asked, [t for t in strange if t.form not in meant], held, texts)
    terms = tuple(
        replace(t, form=meant[t.form], group=words.group(meant[t.form])) if t.form in meant else t
        for t in asked.terms
    )
    return replace(asked, terms=terms)


def _joined(asked: Asked, held: frozenset[str]) -> dict[str, str]:
    """Of two words of the question that stand together the one that the passages make of them."""
    runs = words.runs(asked.folded)
    found: dict[str, str] = {}
    for left, right in pairwise(runs):
        form = words.stem(left + right)
        if len(left) > 1 and len(right) > 1 and form in held and (left + right).isalpha():
            found |= {words.stem(left): form, words.stem(right): form}
    return found


def _longer(word: str, held: frozenset[str]) -> list[str]:
    """The words that begin with ``word``."""
    return [f for f in held if f.isalpha() and f.startswith(word)] if len(word) >= _MIN_SHORTENED else []


def _initials(
    asked: Asked, strange: Sequence[Term], held: frozenset[str], texts: Iterable[str]
) -> dict[str, str]:
    """Of the words of a phrase ("mean time between failures") their abbreviation, if the passages write it in
    capitals and hold none of the words.
    """
    wanted = {t.form for t in strange}
    runs = [(run, words.stem(run)) for run in words.runs(asked.folded)]
    phrases = []
    for size in range(_MAX_INITIALS, _MIN_INITIALS - 1, -1):
        for at in range(len(runs) - size + 1):
            part = runs[at : at + size]
            if part[0][1] in wanted and all(form in wanted for _, form in part):
                phrases.append(("".join(run[0] for run, _ in part), [form for _, form in part]))
    phrases = [(letters, forms) for letters, forms in phrases if letters in held]
    if not phrases:
        return {}
    said = "\n".join(texts)
    for letters, forms in phrases:
        if re.search(rf"\b{letters.upper()}\b", said):
            return dict.fromkeys(forms, letters)
    return {}
