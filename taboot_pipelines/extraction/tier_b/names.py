"""What a noun phrase names (a service, a machine, an address): by its form, its words, the headings above."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b.blocks import Block, Heading
from taboot_pipelines.extraction.tier_b.language import is_common, is_known, is_verb, is_word
from taboot_pipelines.extraction.tier_b.lexicon import no_services, software, words

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

#: Words for kinds of things, which are no part of a thing's name.
CLASSES = words("classes")
#: Class words that by themselves mean the thing that the page is about.
GENERIC = words("generic")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{1,10})://(?P<host><[^<>]+>|\[[^\]]+\]|\$?\{[^{}]+\}|[^\s/:<>]+)"
    r"(?::(?P<port>[^\s/]+))?(?P<path>/\S*)?"
)
_HOSTPORT = re.compile(
    r"(?P<host><[^<>]+>|\[[^\]]+\]|\$?\{[^{}]+\}|[^\s/:<>]+):(?P<port>[^\s/:]+)(?P<path>/\S*)?"
)
_IP = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\]?")
_NAME_OF_REPOSITORY = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)")
#: What is often written as code and names nothing that runs.
_NO_NAMES = words("no_names")
#: What follows a name in a title.
_EDITIONS = frozenset(("ce", "ee", "edition", "community", "docs"))
#: What tells of which kind a page or a server is, also with a capital.
_KINDS = words("kinds")
#: A name of several words that is written as code.
_NAME_IN_CODE = re.compile(r"[A-Z][\w.-]{1,40}(?: [A-Z][\w.-]{1,40}){1,2}")
#: What a sentence begins with, and is no part of the name after it.
_ORDERS = words("access") | words("shown") | words("set_up")
_CAMEL_CASE = re.compile(r"[A-Za-z][a-z]+(?:[A-Z][a-z0-9]*)+")
#: Titles of such words describe, they name nothing.
_DESCRIBING = re.compile(r"(?i).*(?:ing|ion|ions|ment|ments|ity|ies|ance|ence|ness|ure|ures|ics|als|ers|age)")


@dataclass(frozen=True, slots=True)
class Mention:
    """A name at ``[start, end)`` of the document. ``kind``: ``name``, ``url``, ``hostport``, ``ip``,
    ``host``, ``image`` or ``port``. ``context``: it stands in a heading, not in the sentence."""

    start: int
    end: int
    text: str
    kind: str = "name"
    context: bool = False
    #: Whether it is known to be software, or marked as code: no doubt that it is a name.
    sure: bool = False
    #: Whether it is written as code.
    marked: bool = False

    def until(self, mark: str) -> Mention:
        """The mention up to a character: ``8000`` of ``8000/tcp``."""
        kept = self.text.partition(mark)[0]
        return replace(self, end=self.end - len(self.text) + len(kept), text=kept)


class Names:
    """The names of one block."""

    def __init__(self, block: Block, doc: Doc) -> None:
        self.block = block
        self.doc = doc
        self._kinds: dict[int, str] = doc.user_data.get("kinds", {})

    def kind(self, token: Token) -> str:
        """What the token is by its form: ``code``, ``url``, …; empty for a word."""
        return self._kinds.get(token.idx, "")

    def mention(self, first: Token, last: Token, kind: str = "name", *, sure: bool = False) -> Mention:
        """The mention of the tokens from ``first`` to ``last``."""
        begin, finish = first.idx, last.idx + len(last.text)
        return self._mention(begin, finish, kind, sure)

    def _mention(self, begin: int, finish: int, kind: str, sure: bool) -> Mention:
        text = self.block.text[begin:finish]
        stripped = text.strip("\"'“”‘’` .,;:()[]*_")
        if kind in ("url", "hostport", "image"):
            stripped = text.strip("\"'“”‘’` ,;()*").rstrip(".:")
        if stripped and stripped != text:
            begin += text.index(stripped)
            finish = begin + len(stripped)
            text = stripped
        start, end = self.block.place(begin, finish)
        return Mention(start, end, text, kind, sure=sure)

    def of(self, token: Token) -> Mention | None:
        """What the noun phrase with this head names; None if it names nothing."""
        kind = self.kind(token)
        text = token.text
        if kind in ("url", "hostport", "ip", "host", "image"):
            return self.mention(token, token, kind, sure=True) if kind != "image" or ":" in text else None
        if kind == "code":
            return self._code(token)
        if token.lower_ in CLASSES or _plural(token.lower_) in CLASSES:
            return self._of_class(token)
        if kind == "software" or is_known(token):
            return self._software(token)
        if kind == "name":
            parts = re.split(r"[-_]", text.lower())
            known = any(part in software() for part in parts)
            named = known or (token.tag_[:2] == "NN" and not all(is_word(part) for part in parts))
            return (
                self.mention(token, token, sure=known)
                if named and text.lower() not in no_services()
                else None
            )
        return self._proper(token)

    def addresses(self, start: int, end: int) -> Iterator[tuple[Token, Mention]]:
        """The addresses among the tokens ``[start, end)``: URLs, and hosts with a port."""
        for token in self.doc[start:end]:
            kind = self.kind(token)
            if kind == "code":
                inside = self._code(token)
                if inside is not None and inside.kind in ("url", "hostport"):
                    yield token, inside
            elif kind in ("url", "hostport"):
                yield token, self.mention(token, token, kind, sure=True)

    def title(self) -> Mention | None:
        """The nearest heading that is a thing's name, and no description of what follows."""
        for heading in reversed(self.block.headings):
            found = _titled(heading, is_title=heading is self.block.headings[0])
            if found is not None:
                at = heading.text.rfind(found)
                # Markup in a heading parts what reads as one: then all of it is the mention.
                exact = heading.end - heading.start == len(heading.text)
                start = heading.start + at if exact else heading.start
                end = start + len(found) if exact else heading.end
                return Mention(start, end, found, "name", context=True, sure=True)
        return None

    def _code(self, token: Token) -> Mention | None:
        text = token.text.strip("`\"' ")
        for kind, pattern in (("url", _URL), ("hostport", _HOSTPORT)):
            if pattern.fullmatch(text):
                return self.mention(token, token, kind, sure=True)
        if _IP.fullmatch(text):
            return self.mention(token, token, "ip", sure=True)
        if "/" in text and re.fullmatch(r"[a-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9._-]+)+(?::[\w.-]+)?", text):
            return self.mention(token, token, "image", sure=True)
        if text.lower() in _NO_NAMES or not any(c.isalpha() for c in text):
            return None
        if not _PLAIN.fullmatch(text) and not _NAME_IN_CODE.fullmatch(text):
            return None
        if text.lower() not in software() and (
            _CAMEL_CASE.fullmatch(text)
            or (text.isupper() and len(text) > 3)
            or (text[:1].isupper() and is_common(text.lower()))
        ):
            return None  # A field of a manifest, a method, a variable, a kind.
        if re.fullmatch(
            r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|-.*|.*\.(?:ya?ml|json|conf|md|txt|sh|env|ini|cfg|toml|crt|key|pem)",
            text,
        ):
            return None
        return replace(self.mention(token, token, sure=True), marked=True)

    def _of_class(self, token: Token) -> Mention | None:
        """The name before a class word ("the Plex media server"), or beside it ("the service `db`")."""
        for left in reversed(
            [t for t in token.lefts if t.dep_ in ("compound", "amod", "nmod", "poss", "dep")]
        ):
            found = self._modifier(left)
            if found is not None:
                return found
        if (
            token.i
            and token.nbor(-1).dep_ not in ("det",)
            and self.kind(token.nbor(-1)) in ("code", "software")
        ):
            found = self.of(token.nbor(-1))
            if found is not None:
                return found
        for right in token.rights:
            if right.dep_ in ("appos", "nmod", "nummod", "dep") and self.kind(right) in ("code", "software"):
                return self.of(right)
        return None

    def _modifier(self, token: Token) -> Mention | None:
        if self.kind(token) or is_known(token):
            return self.of(token)
        if token.lower_ in CLASSES:
            return self._of_class(token)
        if token.lower_ in _KINDS:
            return None  # "the Admin UI".
        proper = self._proper(token)
        if proper is not None:
            return proper
        return None

    def _software(self, token: Token) -> Mention | None:
        first = last = token
        # "Plex Media Server", "SWAG" in "SWAG's": names are written with capitals.
        while last.i + 1 < len(self.doc) and _capital(last.nbor(1)) and token.text[:1].isupper():
            if last.nbor(1).lower_ in no_services() and last.nbor(1).lower_ not in CLASSES:
                break
            if self.kind(last.nbor(1)):
                break
            last = last.nbor(1)
        return self.mention(first, last, sure=True)

    def _proper(self, token: Token) -> Mention | None:
        """A name that shows by its capitals, with those before it."""
        if not _capital(token) or token.pos_ not in ("PROPN", "NOUN", "X", "ADJ"):
            return None
        first = last = token
        while (
            first.i > token.sent.start
            and _capital(first.nbor(-1))
            and first.nbor(-1).pos_ not in ("DET", "PRON", "ADP", "SCONJ", "CCONJ", "VERB", "AUX", "ADV")
            and first.nbor(-1).head.i in range(first.i, token.i + 1)
            and not (first.nbor(-1).i == token.sent.start and first.nbor(-1).lower_ in _ORDERS)
        ):
            first = first.nbor(-1)
        while (
            last.i + 1 < token.sent.end
            and _capital(last.nbor(1))
            and last.nbor(1).dep_ in ("compound", "flat", "appos", "nmod")
            and last.nbor(1).head == token
        ):
            last = last.nbor(1)
        words = [t.lower_ for t in self.doc[first.i : last.i + 1]]
        if all(w in no_services() or w in CLASSES for w in words):
            return None
        if words[-1] in no_services() and words[-1] not in CLASSES:
            return None
        if first == last and words[0] in _KINDS:
            return None  # "Admin dashboard".
        inner = any(c.isupper() for c in token.text[1:]) and not token.text.isupper()
        if first.i == token.sent.start and first == last and token.pos_ != "PROPN" and not inner:
            return None
        begins = not first.i or not first.nbor(-1).text[-1].isalnum()
        if begins and first == last and _is_third_person(words[0]):
            return None  # "Initializes X, connects to Y".
        return self.mention(first, last)


def joined(token: Token) -> list[Token]:
    """A noun and those joined to it: "A, B and C", which is also parsed as an apposition of B to A."""
    found, queue = [token], [token]
    is_list = False
    while queue:
        at = queue.pop()
        for child in at.children:
            is_list = is_list or child.dep_ == "cc"
            if child.dep_ in ("conj", "appos") and child not in found:
                found.append(child)
                queue.append(child)
    if not is_list:
        found = [t for t in found if t.dep_ != "appos" or t is token]
    return sorted({*found, *token.conjuncts}, key=lambda t: t.i)


def _is_third_person(word: str) -> bool:
    """Whether a word may be a verb in the third person: "initializes"."""
    return word.endswith("s") and not is_common(word) and is_verb(word.removesuffix("s"))


def _capital(token: Token) -> bool:
    return any(c.isupper() for c in token.text) and token.text[0].isalpha()


def _plural(word: str) -> str:
    return word[:-1] if word.endswith("s") else word


def _titled(heading: Heading, *, is_title: bool) -> str | None:
    """The name that a heading is, None if it describes. Only a title may be a name that is not known."""
    if (
        len(heading.code) == 1
        and _PLAIN.fullmatch(heading.code[0])
        and heading.code[0].lower() not in _NO_NAMES
    ):
        return heading.code[0]
    text = heading.text.strip(" #`*")
    repository = _NAME_OF_REPOSITORY.fullmatch(text)
    if repository is not None:
        return repository["name"]
    if text.lower() in software():
        return text
    if not is_title:
        return None
    parts = text.split()
    while len(parts) > 1 and parts[-1].lower() in CLASSES | _EDITIONS:
        parts.pop()
    text = " ".join(parts)
    lower = text.lower()
    if lower in software():
        return text
    if len(parts) > 1:
        return text if _is_proper_title(parts) else None
    if {lower, _plural(lower)} & (no_services() | CLASSES) or not _PLAIN.fullmatch(text) or len(text) < 3:
        return None
    if (_DESCRIBING.fullmatch(text) or is_common(lower)) and not text.islower():
        return None
    return None if _DESCRIBING.fullmatch(text) and not is_common(lower) and is_word(lower) else text


def _is_proper_title(parts: list[str]) -> bool:
    """Whether a title of a few words can only be a name: capitals, and one that is no word of English."""
    return (
        len(parts) <= 3
        and not is_verb(parts[0].lower())
        and all(part[:1].isupper() and _PLAIN.fullmatch(part) for part in parts)
        and any(not is_word(part.lower()) and part.lower() not in no_services() for part in parts)
        and not any(part.lower() in no_services() and part.lower() in software() for part in parts)
    )


@dataclass(frozen=True, slots=True)
class Address:
    """What an address says. ``host`` is None where a placeholder stands, ``port`` where it is unknown."""

    scheme: str
    host: str | None
    port: int | None
    path: str


_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_HOSTNAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,250}[A-Za-z0-9_])?")
_PLACEHOLDER_WORDS = re.compile(
    r"(?i)(?:your|my)[-_ ]?\w*|.*(?:[-_]ip|_?server_?ip|host[-_ ]?ip|localserverip|serverip|example)\b.*|ip"
)


def read_address(text: str) -> Address | None:
    """The parts of a URL or ``host:port``; None for anything else."""
    match = _URL.fullmatch(text) or _HOSTPORT.fullmatch(text)
    if match is None:
        return None
    parts = match.groupdict()
    scheme = parts.get("scheme") or ""
    written = parts["port"]
    port = None
    if written is not None and written.isdigit() and 0 < int(written) < 65536:
        port = int(written)
    elif written is None:
        port = _DEFAULT_PORTS.get(scheme)
    host: str | None = parts["host"]
    if (
        host is None
        or host[0] in "<{$"
        or not (_HOSTNAME.fullmatch(host) or host[0] == "[")
        or (host.isupper() and not host.isdigit())
        or (_PLACEHOLDER_WORDS.fullmatch(host) and "." not in host)
    ):
        host = None
    return Address(scheme, host, port, parts.get("path") or "/")
