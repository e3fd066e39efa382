"""Whether a sentence says that something is so.

What it denies, makes depend on a condition, calls possible, asks, orders or gives as an example is not so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b.lexicon import words

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

_POSSIBLE = frozenset(("could", "may", "might", "would", "can"))
_CONDITIONS = frozenset(
    ("if", "unless", "whether", "assuming", "suppose", "supposing", "provided", "otherwise")
)
#: What such a verb governs is wished, allowed, tried or asked for, and need not be so.
_UNREAL = words("unreal")
_EXAMPLE = re.compile(
    r"(?i)\b(?:e\.\s?g\.|ex[.:]|for example|for instance|such as|i\.e\.|example\s*:|as an example|let's say|"
    r"let us say|imagine|suppose|hypothetical)"
)
_HISTORY = re.compile(
    r"^\s*\*{0,2}(?:\d{1,2}\.\d{1,2}\.\d{2,4}\b|\d{4}-\d{2}-\d{2}\b|v?\d+(?:\.\d+){1,3}\*{0,2}\s*[:\u2013\u2014-]\s)"
)
#: Sections that tell what changed, by their headings: a word for it, or the number of a release.
_HISTORY_SECTION = re.compile(
    r"(?i)\W*(?:change ?logs?|(?:notable |breaking |contributor-facing )?changes|history|versions|"
    r"release notes|what'?s new|\[?v?\d+\.\d+(?:\.\w+)*\]?(?:\W.*)?)\W*"
)
_PAST = re.compile(
    r"(?i)\b(?:before the|previously|formerly|originally|back then|in the past|until \d{4}|at that time|"
    r"years? ago|used to|once (?:had|was|were)|earlier versions?|back in \d{4})\b"
)
_FORMERLY = re.compile(r"(?i)\b(?:used to (?:run|be|listen|live|sit)|previously|formerly|in the past)\b")
_GOAL = re.compile(
    r"(?i)\b(?:by the end of|in this (?:tutorial|part|guide|chapter|post)|"
    r"this (?:tutorial|guide|post|section) (?:shows|explains)|you will have|you'll have|we want|our goal|"
    r"the goal|i'll show|we'll show|we will (?:put|set|build|add))\b"
)
#: "Should you use X, …": a condition without its word.
_INVERTED = re.compile(r"(?i)\W*should (?:you|we|it|this|the|your|any|they)\b")
_NO_LONGER = re.compile(
    r"(?i)\b(?:no longer|not any ?more|instead of|rather than|without|never|neither|nor|deprecated|used to)\b"
)


def is_question(sentence: Span) -> bool:
    return sentence.text.rstrip(" \n\"')*").endswith("?")


def is_history(text: str, headings: Sequence[str] = ()) -> bool:
    """Whether it is a line of a change log, or stands in one."""
    return _HISTORY.match(text) is not None or any(map(_HISTORY_SECTION.fullmatch, headings))


def is_past(sentence: Span) -> bool:
    """Whether it tells how something was, or shall be in the end."""
    return tells_of_past(sentence.text)


def tells_of_past(text: str) -> bool:
    """Whether a text that has not been parsed tells how something was, or shall be in the end."""
    return _PAST.search(text) is not None or _GOAL.search(text) is not None


def is_over(sentence: Span) -> bool:
    """Whether it tells how something was."""
    return _FORMERLY.search(sentence.text) is not None


def states(verb: Token, *, people: bool = False) -> bool:
    """Whether the clause of a verb says that something is so now; ``people``: "we run X" is such."""
    if modals(verb) & {"should", "must"} or is_unknown(verb):
        return False
    if verb.dep_ == "advcl" and any(c.lower_ == "when" for c in verb.children) and is_order(verb.head):
        return False
    if verb.tag_ == "VBD" and not any(c.dep_ == "auxpass" for c in verb.children):
        return False
    if people and (subject := _subject_of(verb)) is not None and subject.lower_ in ("we", "i"):
        return not is_negated(verb) and not in_condition(verb) and not modals(verb)
    return asserts(verb)


def was(verb: Token) -> bool:
    """Whether it tells how something was: "was exposed on port 80"."""
    return any(
        c.lower_ in ("was", "were", "had") for c in (verb, *verb.children) if c.pos_ in ("VERB", "AUX")
    )


def is_unknown(verb: Token) -> bool:
    """Whether a verb stands in what somebody shows, explains or wonders: "how X talks to Y"."""
    return any(
        c.lower_ in ("how", "why", "whether") and c.dep_ in ("advmod", "mark")
        for clause in (verb, *(a for a in verb.ancestors if a.pos_ == "VERB"))
        for c in clause.children
        if c.i < verb.i
    )


def gives_example(sentence: Span) -> bool:
    return _EXAMPLE.search(sentence.text) is not None


def is_negated(verb: Token) -> bool:
    """Whether a verb, its auxiliary or an end of it is negated."""
    for child in verb.children:
        if child.dep_ == "neg" or child.lower_ in ("not", "n't", "never", "neither", "hardly"):
            return True
        if child.dep_ in ("nsubj", "nsubjpass", "dobj", "attr") and any(
            g.lower_ in ("no", "neither", "none") for g in child.children
        ):
            return True
    return _NO_LONGER.search(verb.sent.text) is not None and any(
        t.lower_ in ("longer", "instead", "rather", "anymore", "deprecated")
        and abs(t.i - verb.i) < 12
        and not any(w.dep_ == "conj" and w.pos_ == "VERB" and w.head is verb for w in verb.doc[verb.i : t.i])
        for t in verb.sent
    )


def in_condition(verb: Token, before: int | None = None) -> bool:
    """Whether a verb stands in a condition, or has one; of those after the token ``before`` none counts."""
    limit = len(verb.doc) if before is None else before
    if _INVERTED.match(verb.sent.text) is not None:
        return True
    for token in (verb, *verb.ancestors):
        if any(_is_conditional(child) and child.i < min(limit, verb.i + 1) for child in token.children):
            return True
        for child in token.children:
            if child.dep_ not in ("advcl", "ccomp", "dep") or child is verb or child.is_ancestor(verb):
                continue
            # Of what is said above, a condition counts that comes first: it is of all that follows.
            if (
                child.i < limit
                and (token is verb or child.i < verb.i)
                and any(_is_conditional(g) and g.lower_ != "otherwise" for g in child.children)
            ):
                return True
        if token.dep_ == "ROOT":
            break
    return False


def _is_conditional(token: Token) -> bool:
    if (
        token.lower_ == "if"
        and token.i + 1 < len(token.doc)
        and token.nbor(1).lower_ in ("everything", "all")
    ):
        return False  # "If all went well": of the reader's steps.
    return token.lower_ in _CONDITIONS and token.dep_ in ("mark", "advmod", "prep", "cc", "dep", "preconj")


def is_alternative(verb: Token) -> bool:
    """Whether it is one of several verbs joined by "or"."""
    return any(
        c.dep_ == "cc" and c.lower_ == "or"
        for t in (verb, *verb.conjuncts)
        if t.pos_ == "VERB"
        for c in t.children
    )


def modals(verb: Token) -> set[str]:
    """The modal verbs before a verb, in lower case."""
    found = {c.lower_ for c in verb.children if c.dep_ in ("aux", "auxpass") and c.tag_ == "MD"}
    if verb.dep_ == "conj" and not found and not any(c.dep_ in ("nsubj", "nsubjpass") for c in verb.children):
        found = modals(verb.head)
    return found


def is_order(verb: Token) -> bool:
    """Whether a verb tells the reader to do something."""
    begins = verb.i == verb.sent.start and verb.pos_ == "VERB"
    inflected = verb.tag_ == "VBZ" or (verb.tag_ == "VBN" and verb.lemma_.lower() != verb.lower_)
    if verb.tag_ not in ("VB", "VBP") and (not begins or inflected):
        return False
    if verb.dep_ == "conj":
        return is_order(verb.head) and not _subject_of(verb)
    if _subject_of(verb):
        subject = _subject_of(verb)
        return (
            subject is not None
            and subject.lower_ in ("you", "we")
            and bool(modals(verb) & {"must", "should", "will", "can", "need", "'ll"})
        )
    if any(c.tag_ in ("MD", "TO") for c in verb.children):
        return False
    return verb.dep_ in ("ROOT", "advcl", "ccomp", "dep", "parataxis")


def _subject_of(verb: Token) -> Token | None:
    # "Local access: open …" has a label, not a subject.
    return next(
        (
            c
            for c in verb.children
            if c.dep_ in ("nsubj", "nsubjpass", "csubj", "expl")
            and not (c.i + 1 < len(c.doc) and c.nbor(1).text == ":" and c.i < verb.i)
        ),
        None,
    )


def is_governed(verb: Token) -> bool:
    """Whether a verb depends on one that says what is wished, allowed or possible."""
    token = verb
    while token.dep_ in ("xcomp", "ccomp", "pcomp", "conj", "acl") and token.head is not token:
        token = token.head
        if token.lemma_.lower() in _UNREAL:
            return True
    return False


def is_unreal(verb: Token) -> bool:
    """Whether a verb is governed by one that says what is wished or set up; "be able to" is no such."""
    token = verb
    while token.dep_ in ("xcomp", "ccomp", "pcomp", "acl") and token.head is not token:
        token = token.head
        if (
            token.lemma_.lower() in _UNREAL
            and token.lemma_.lower()
            not in (
                "able",
                "allow",
                "let",
                "enable",
            )
            and not (token.lemma_.lower() == "want" and any(c.lower_ == "you" for c in token.children))
        ):
            return True
    return False


def is_function(verb: Token) -> bool:
    """Whether it tells what something that is used is for: "uses the token to talk to the server"."""
    main = verb.head
    return (
        verb.dep_ in ("advcl", "xcomp")
        and is_purpose(verb)
        and main.lemma_.lower() == "use"
        and not modals(main) & _POSSIBLE
        and asserts(main)
    )


def is_purpose(verb: Token) -> bool:
    """Whether it is an infinitive that says what for: "a proxy to connect to the database"."""
    return verb.dep_ in ("advcl", "acl", "relcl", "xcomp", "ROOT") and any(
        c.tag_ == "TO" for c in verb.children
    )


def asserts(verb: Token) -> bool:
    """Whether the clause of a verb says that something is so."""
    if is_negated(verb) or in_condition(verb) or is_governed(verb) or is_alternative(verb):
        return False
    if modals(verb) & _POSSIBLE:
        return False
    if verb.dep_ in ("advcl", "acl", "xcomp") and any(
        c.lower_ == "for" for c in verb.children if c.dep_ == "mark"
    ):
        return False
    return not is_order(verb) and not is_purpose(verb)
