"""What is reached at an address or a port: the page's own thing, or what a noun names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b.clauses import Clauses, is_no_service
from taboot_pipelines.extraction.tier_b.lexicon import no_services, software, words
from taboot_pipelines.extraction.tier_b.names import GENERIC, Mention

if TYPE_CHECKING:
    from spacy.tokens import Token

#: What stands for the thing itself where it is reached.
_PLACES = words("places")
#: What has an address of its own, of those.
_PAGES = words("pages")
_CONFIGURES = re.compile(
    r"(?i)\b(?:environment variables?|env(?:ironment)? vars?|parameter|setting|option|annotation|value of|"
    r"flag|download(?:s|ed)? (?:from|at|page|link)|more info(?:rmation)?|more details|documentation|docs|"
    r"website|manual|read (?:more|about)|health ?checks?|defaults? to|proxy_pass|upstream)\b"
)
#: A line that explains a setting begins with its name.
_VARIABLE = re.compile(r"\W*[A-Z][A-Z0-9]*_[A-Z0-9_]+\W")
ASSUMES = re.compile(
    r"(?i)^\W*with\s+`?--?[a-z]|\bassuming\b|"
    r"^\W*(?:if (?!everything|all )|when using|unless|suppose|in case)\b|"
    r"^\W*when\b[^,]{0,80}\b(?:is|are) (?:used|enabled|set|configured|disabled|activated)\b|"
    r"\bin [\w-]+ mode\b|\bdepends (?:if|on (?:if|whether))\b"
)
#: What people do there with another thing.
_JOINS = words("joins")
#: What stands for no thing at all, or for another than the page's.
_NOBODY = frozenset(
    ("nothing", "something", "anything", "everything", "none", "no", "another", "other", "any")
)
DASHES = ("-", "–", "—", ":")
#: What is read at an address, and is not what listens there.
_READ = words("read")


class Reached:
    """What is found where one sentence says that something is."""

    def __init__(self, clauses: Clauses) -> None:
        self._clauses = clauses
        self._names = clauses.names
        self._sentence = clauses.sentence
        self._text = clauses.sentence.text

    def _configures(self, token: Token) -> bool:
        """Whether what leads to an address speaks of a setting, a download, or a proxy's target."""
        if self._clauses.word(token.i + 1) in ("image", "images", "tag"):
            return True
        before = self._names.doc[self._sentence.start : token.i].text
        if _VARIABLE.match(before) is not None or "unless" in before:
            return True
        return _CONFIGURES.search(before) is not None

    def _is_joined(self, word: Token) -> bool:
        """Whether a verb such as "push" or "point" has a name as its object or goal."""
        verb = next((a for a in word.ancestors if a.pos_ == "VERB"), None)
        joined = verb is not None and verb.lemma_.lower() in _JOINS and verb.i > self._sentence.start
        return joined or any(self._clauses.word(i) in _JOINS for i in range(word.i - 3, word.i))

    def _page(self) -> Mention | None:
        """What the page is about, where the sentence names it if it does: not as the protocol or the service
        that something is sent to ("the files that you push to IPFS")."""
        named = self._clauses.in_sentence()
        if named is None:
            return self._clauses.title
        word = next(t for t in self._sentence if self._names.mention(t, t).start == named.start)
        verb = next((a for a in word.ancestors if a.pos_ == "VERB"), None)
        sent = self._clauses.word(word.i - 1) == "to" and self._is_joined(word) and verb is not None
        return self._clauses.title if sent and word.i > self._sentence.start + 2 else named

    def _item(self, place: Token) -> Mention | None:
        """What an item of a list begins with, if nothing but nouns leads from it to the address or port:
        "Grafana - dashboards, http://…", "nginx: public entrypoint on port 80"."""
        label = self._clauses.label()
        if label is None or label.i >= place.i or label.i - self._sentence.start > 3:
            return None
        between = self._names.doc[label.i + 1 : place.i]
        if any(t.tag_ in ("VB", "VBP", "VBZ", "VBD", "MD") for t in between) or any(
            t.tag_ == "MD" for t in self._sentence
        ):
            return None
        found = self._names.of(label)
        if found is None or found.kind != "name" or is_no_service(found):
            return None
        return found if self._clauses.is_sure(found, label) else None

    def _owners(self, token: Token) -> list[Mention]:
        """What a noun that is reached stands for."""
        if token.lower_ in _PAGES and any(self._is_platform(c) for c in token.lefts):
            return []  # "The Kubernetes dashboard".
        if token.lower_ in _READ:
            own = self._clauses.named_or_apposed(token)
            return [own] if own is not None else []
        if token.lower_ in GENERIC | _PLACES and (named := self._for_whom(token)) is not None:
            return [named]
        found = [
            m
            for t in self._clauses.listed(token) or [token]
            for m in self._clauses.owners(t, ("of", "for", "from"))
            if m.kind == "name" and not is_no_service(m) and not self._is_acronym(m, t)
        ]
        if found:
            return found
        title = self._page()
        if token.lower_ in _NOBODY or any(c.lower_ in _NOBODY for c in token.children):
            return []  # "Nothing else listens on it", "metrics are exposed on it".
        if title is not None and (token.lower_ in GENERIC | _PLACES or token.pos_ == "PRON"):
            return [title]
        return []

    def _is_platform(self, word: Token) -> bool:
        """Whether a page is that of a system or tool, which is no service and not the page's thing."""
        written = word.dep_ == "compound" and word.text[:1].isupper() and not word.text.isupper()
        return written and word.lower_ in no_services() - {"web"}

    def _is_acronym(self, mention: Mention, noun: Token) -> bool:
        """Whether capitals tell of what kind an interface of the page's thing is: "the AIO interface"."""
        kind = mention.text.isupper() and not mention.sure and mention.text.lower() not in software()
        return kind and noun.lower_ in GENERIC | _PLACES and self._clauses.title is not None

    def _for_whom(self, token: Token) -> Mention | None:
        """``X`` of "the web UI for X", which a tree may give to the verb."""
        at = token.i + 1
        if self._clauses.word(at) not in ("for", "of"):
            return None
        while self._clauses.word(at + 1) in ("the", "your", "our", "this"):
            at += 1
        if at + 1 >= self._sentence.end:
            return None
        word = self._names.doc[at + 1]
        found = self._names.of(word)
        named = found is not None and found.kind == "name" and not is_no_service(found)
        return found if named and found is not None and self._clauses.is_sure(found, word) else None
