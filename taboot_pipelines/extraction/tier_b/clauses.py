"""What stands where in a clause: its subject, its objects, the names in a list, and whose a part is.

The grammar that a small model finds errs on technical text, so what is joined is also read in order: names
with nothing but commas and "and" between them are one list, whatever the tree says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b.language import is_common, is_known, is_word
from taboot_pipelines.extraction.tier_b.lexicon import no_services, software, words
from taboot_pipelines.extraction.tier_b.names import CLASSES, GENERIC, Mention, Names, joined

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

_PEOPLE = words("people")
#: Things that have an owner in name only: what is said of them is not said of it.
_OTHERS = words("others")
#: What stands before a class word and names nothing.
_NO_MODIFIERS = words("no_modifiers")
_BETWEEN = frozenset(
    (",", "and", "&", "plus", "the", "a", "an", "our", "your", "both", "as", "well", "then", "also")
)
_WHEN = frozenset(("when", "while", "if", "before", "after", "by"))
_CREDENTIALS = frozenset(("user", "username", "password", "login", "account"))
_ADVERBS = frozenset(("all", "both", "also", "then", "now", "only", "always", "itself", "each"))
_SUBJECTS = ("nsubj", "nsubjpass")
#: Steps from a part to the thing that it is a part of.
_MAX_DEPTH = 3


class Clauses:
    """The clauses of one sentence."""

    def __init__(self, names: Names, sentence: Span) -> None:
        self.names = names
        self.sentence = sentence
        self.title = names.title()
        self._words = frozenset(token.lower_ for token in sentence)

    def word(self, at: int) -> str:
        """The word with this number in lower case; empty outside the sentence."""
        inside = self.sentence.start <= at < self.sentence.end
        return str(self.names.doc[at].lower_) if inside else ""

    # Names --------------------------------------------------------------------------------------------------

    def named(self, token: Token) -> Mention | None:
        """What a noun names here: by itself, or because a heading has that name."""
        found = self.names.of(token)
        if found is not None:
            return found
        if token.dep_ != "poss" and self._is_headed(token):
            return self.names.mention(token, token, sure=True)
        if token.lower_ in CLASSES:
            return self._word_before(token)
        return None

    def named_or_apposed(self, token: Token) -> Mention | None:
        """What a noun names, or what is said to be it: "our registry, `zot`", "the relay `mailgw`"."""
        for child in token.children:
            if child.dep_ in ("appos", "nmod") and child.i > token.i and self.names.kind(child) == "code":
                found = self.names.of(child)
                if found is not None:
                    return found
        called = self._called(token)
        if called is not None:
            return called
        own = self.named(token)
        if own is not None:
            return own
        for child in token.children:
            if child.dep_ == "appos" and (self.names.kind(child) or self.is_proper(child)):
                return self.names.of(child)
        return None

    def _called(self, token: Token) -> Mention | None:
        """``db`` of "a container named `db`"."""
        for at in range(token.i + 1, min(token.i + 3, self.sentence.end - 1)):
            if self.word(at) in ("named", "called"):
                name = self.names.doc[at + 1]
                return self.names.of(name) if self.names.kind(name) in ("code", "name", "software") else None
        return None

    def _is_headed(self, token: Token) -> bool:
        """Whether a word is the name that a heading is; a noun of English only where it stands like one."""
        if self.title is not None and token.lower_ == self.title.text.lower():
            return True
        alone = token.text[:1].isupper() and token.dep_ in (*_SUBJECTS, "pobj", "dobj")
        return (
            alone
            and any(token.text == heading.text.strip(" #`*") for heading in self.names.block.headings)
            and not any(c.dep_ in ("det", "poss", "amod") for c in token.children)
        )

    def owners(self, token: Token, parts: Iterable[str] = ("of",), depth: int = 0) -> list[Mention]:
        """Whose a noun is: of "Frigate's UI", "the console of MinIO", "sessions from `web`" the thing; of
        "the container", "it" what the page is about; of a name itself."""
        if token.lower_ in _PEOPLE or depth > _MAX_DEPTH:
            return []
        own = self.named_or_apposed(token)
        if own is not None:
            return [own]
        if token.lower_ in _OTHERS:
            return []
        for child in token.children:
            if child.dep_ == "prep" and child.lower_ in parts and child.i > token.i:
                found = [
                    m
                    for noun in child.children
                    if noun.dep_ == "pobj"
                    for t in self.listed(noun)
                    for m in self.owners(t, parts, depth + 1)
                ]
                if found:
                    return found
        for child in reversed([t for t in token.lefts if t.dep_ in ("compound", "poss", "nmod", "amod")]):
            if child.tag_ == "PRP$":
                if child.lower_ in ("its", "their"):
                    return [self.title] if self.title is not None else []
                continue
            mention = self.names.of(child)
            if mention is not None and (mention.sure or self.is_proper(child)):
                return [m for t in self.listed(child) for m in [self.names.of(t)] if m] or [mention]
        if token.dep_ == "attr":
            subject = next((c for c in token.head.children if c.dep_ in _SUBJECTS), None)
            if subject is None:
                subject = self._before(token.head)
            if subject is not None and subject is not token:
                return self.owners(subject, parts, depth + 1)
        if token.lower_ in GENERIC:
            known = self.in_sentence() or self.title or self._spoken_of(token)
            told = any(
                c.dep_ == "prep" or (c.dep_ == "relcl" and self.word(token.i + 1) != ",")
                for c in token.children
            )
            return [known] if known is not None and not told and token.lower_ not in ("that", "which") else []
        return []

    def _spoken_of(self, pronoun: Token) -> Mention | None:
        """What "it" stands for without a title: the named subject of the clause above."""
        if pronoun.lower_ != "it":
            return None
        for token in pronoun.ancestors:
            for child in token.children:
                if child.dep_ in _SUBJECTS and child.i < pronoun.i and child is not pronoun:
                    found = self.named(child)
                    if found is not None:
                        return found
        return None

    def in_sentence(self, before: int | None = None) -> Mention | None:
        """The thing that the page is about, where the sentence itself names it (before a token, if given)."""
        if self.title is None:
            return None
        wanted = _letters(self.title.text)
        for token in self.sentence:
            if before is not None and token.i >= before:
                return None
            near = {t.lower_ for t in self.names.doc[max(token.i - 4, self.sentence.start) : token.i]}
            if token.dep_ == "poss" or near & _CREDENTIALS:
                continue
            if _is_form_of(token.text, wanted):
                return self.names.mention(token, token, sure=True)
            # "Pydio Cells" on the page of pydio-cells.
            for last in self.names.doc[token.i + 1 : min(token.i + 3, self.sentence.end)]:
                said = self.names.doc[token.i : last.i + 1].text
                if token.text[:1].isupper() and _letters(said) == wanted:
                    return self.names.mention(token, last, sure=True)
        return None

    def is_proper(self, token: Token) -> bool:
        """Whether a word can only be a name: capitals, and no noun of English."""
        return (
            token.text[:1].isalpha()
            and any(c.isupper() for c in token.text)
            and not is_common(token.lower_)
            and token.lower_ not in no_services()
            and not token.text.removesuffix("s").isupper()
        )

    def is_sure(self, mention: Mention, token: Token) -> bool:
        """Whether it is known to be software, or is written as a name."""
        return mention.sure or mention.text.lower() in software() or self.is_proper(token)

    def _word_before(self, token: Token) -> Mention | None:
        """``frontend`` of "the frontend service container": a word that only its place makes a name."""
        at = token
        while (
            at.i > self.sentence.start
            and at.lower_ in CLASSES
            and (
                at.nbor(-1).pos_ in ("NOUN", "PROPN", "X", "VERB", "ADP", "ADV")
                or (at.nbor(-1).pos_ == "ADJ" and at.nbor(-1).lower_ in CLASSES)
            )
        ):
            at = at.nbor(-1)
            if at.lower_ not in CLASSES or (
                self.word(at.i - 1) in ("the", "our", "a") and self.word(at.i + 1) in CLASSES
            ):
                break
        if at is token or at.lower_ in _NO_MODIFIERS:
            return None
        if at.lower_ in GENERIC - {"frontend", "backend"}:
            return None
        if at.lower_ in CLASSES and not self._is_the_one(at, token):
            return None
        if is_word(at.lower_) and self.word(at.i - 1) and at.nbor(-1).pos_ in ("NOUN", "ADJ", "PROPN"):
            return None  # "the machine learning service".
        unknown = at.text.isalpha() and not is_word(at.lower_) and at.lower_ not in no_services()
        if token.lower_ not in ("service", "container") and not (
            token.lower_ in ("application", "app") and unknown
        ):
            return None
        return replace(self.names.mention(at, at), marked=True)

    def _is_the_one(self, word: Token, noun: Token) -> bool:
        """Whether "backend" is a name in "the backend service": not in "the right backend service", "a
        backend service", "backend services"."""
        return self.word(word.i - 1) in ("the", "our", "your") and noun.tag_ != "NNS"

    # Lists --------------------------------------------------------------------------------------------------

    def listed(self, token: Token) -> list[Token]:
        """A noun and those in one list with it; none if they are alternatives."""
        tree = joined(token)
        if any(
            c.dep_ == "cc" and c.lower_ in ("or", "nor") for t in tree if t.pos_ != "NUM" for c in t.children
        ):
            return []
        if "/" in (self.word(token.i - 1), self.word(token.i + 1)):
            return []  # "MySQL/MariaDB".
        found = {t.i for t in tree}
        if self.names.of(token) is not None:
            steps = (1,) if token.dep_ in _SUBJECTS else (1, -1)
            found |= {t.i for step in steps for t in self._beside(token, step)}
            found |= {t.i for t in self._for_each(token)}
        doc = self.names.doc
        # Of "A to B and C to D", C is of the next.
        found = {i for i in found if i <= token.i or self.word(i + 1) != "to" or not self.names.kind(doc[i])}
        return [doc[i] for i in sorted(found) if not (doc[i].dep_ == "conj" and doc[i].pos_ == "VERB")]

    def _for_each(self, token: Token) -> Iterator[Token]:
        """B and C of "uses A for this, B for that and C for more"."""
        doc = self.names.doc
        if token.i + 1 >= self.sentence.end or doc[token.i + 1].lower_ != "for":
            return
        for word in doc[token.i + 2 : self.sentence.end - 1]:
            if word.pos_ in ("VERB", "AUX"):
                return
            after_it = doc[word.i + 1].lower_ == "for"
            known = self.names.kind(word) in ("software", "code") or word.lower_ in software()
            if after_it and known and doc[word.i - 1].lower_ in (",", "and"):
                yield word

    def _beside(self, token: Token, step: int) -> Iterator[Token]:
        at, gap = token.i + step, 0
        doc = self.names.doc
        parted = False
        while self.sentence.start <= at < self.sentence.end and gap < 4:
            word = doc[at]
            if word.lower_ in _BETWEEN:
                parted = parted or word.lower_ in (",", "and", "&", "plus")
                gap += 1
            elif (
                parted
                and self.names.kind(word) in ("code", "software", "host", "name")
                and self.names.of(word)
            ):
                yield word
                parted, gap = False, 0
            elif word.lower_ in CLASSES and not parted:
                gap += 1
            else:
                return
            at += step

    # Places -------------------------------------------------------------------------------------------------

    def subjects(self, verb: Token) -> list[Token]:
        """The nouns that a verb is said of; of a participle or a relative clause the noun before it; of a
        verb without one, in "`worker`: runs the jobs", the label."""
        token: Token = verb
        for _ in range(8):
            # The nearest, if the tree has several: "when no rule matches, the controller sends".
            subject = next((c for c in reversed(list(token.children)) if c.dep_ in _SUBJECTS), None)
            if subject is not None:
                if subject.tag_ in ("WDT", "WP") and token.dep_ in ("relcl", "acl", "ccomp"):
                    return self.listed(token.head) or [token.head]
                if (
                    subject.dep_ == "nsubjpass"
                    and token is not verb
                    and not is_passive(verb)
                    and token.dep_ != "relcl"
                    and verb.dep_ != "conj"
                ):
                    return []  # "A is set when using B": somebody else uses it.
                return self.listed(subject)
            if token.dep_ == "relcl" or (token.dep_ == "acl" and token.tag_ in ("VBG", "VBN")):
                return self.listed(token.head) or [token.head]
            if token.dep_ not in ("conj", "xcomp", "advcl") or token.head is token:
                break
            if token.dep_ == "advcl" and any(c.lower_ in _WHEN for c in token.children):
                return []  # "This helps when using B": whoever uses it is not said.
            token = self._above(token)
        label = self.label()
        if label is not None and label.i < verb.i:
            return [label]
        before = self._before(verb)
        return self.listed(before) if before is not None else []

    def _above(self, verb: Token) -> Token:
        """The verb that another is joined to; a tree may join "stores" of "protects services and stores
        sessions" to the noun before it."""
        head = verb.head
        if verb.dep_ == "conj" and verb.tag_ == "VBZ" and head.tag_[:2] == "NN" and head.dep_ == "dobj":
            return head.head
        return head

    def is_silent(self, verb: Token) -> bool:
        """Whether a sentence begins with its verb: "Requires a database", "Built from X"."""
        return verb.tag_ in ("VBZ", "VBN") and verb.i == self.sentence.start

    def _before(self, verb: Token) -> Token | None:
        """The name at once before a verb, where the grammar found no subject."""
        at = verb.i - 1
        while at >= self.sentence.start and self.names.doc[at].lower_ in _ADVERBS:
            at -= 1
        if at < self.sentence.start:
            return None
        word = self.names.doc[at]
        known = self.names.kind(word) in ("code", "software") or word.lower_ in software()
        if self.title is not None and word.lower_ == self.title.text.lower():
            return word
        if word.lower_ in GENERIC and self.word(at - 1) in ("the", "this") and word.dep_ != "nsubj":
            return word
        return word if known and self.names.of(word) is not None and word.dep_ != "nsubj" else None

    def label(self) -> Token | None:
        """``worker`` of "`worker`: runs the jobs"."""
        for token in self.sentence[:6]:
            if token.text in (":", "-", "–", "—") and token.i > self.sentence.start:
                before = token.nbor(-1)
                return before if self.names.of(before) is not None else None
        return None

    def objects(self, verb: Token) -> list[Token]:
        """The nouns that a verb has as its direct object."""
        found = []
        for child in verb.children:
            close = child.dep_ in ("npadvmod", "dative", "oprd", "appos", "nsubj") and child.i == verb.i + 1
            if child.i > verb.i and (child.dep_ in ("dobj", "attr") or close):
                found += self.listed(child)
                found += self._after_colon(child)
        return found

    def _after_colon(self, token: Token) -> list[Token]:
        """The names of "a few parts: A, B and C"."""
        if self.names.of(token) is not None:
            return []
        for at in range(token.i + 1, min(token.i + 4, self.sentence.end - 1)):
            if self.names.doc[at].text == ":":
                first = self.names.doc[at + 1]
                return self.listed(first) if self.names.of(first) is not None else []
        return []

    def after(self, verb: Token, prepositions: Iterable[str]) -> list[Token]:
        """The nouns after a preposition of a verb's clause: of the verb, its objects, or what follows it
        before the next verb that has a subject of its own."""
        wanted = frozenset(prepositions)
        if not wanted & self._words:
            return []
        found: list[Token] = []
        doc = self.names.doc
        nouns = {c.i for c in verb.children if c.dep_ in _SUBJECTS}
        for at in range(self.sentence.start, self.sentence.end):
            word = doc[at]
            if word.lower_ not in wanted or word.pos_ not in ("ADP", "PART", "SCONJ", "ADV"):
                continue
            if word.head is verb or (at > verb.i and self._in_clause(verb, word)):
                if any(n in {a.i for a in word.ancestors} for n in nouns) and at < verb.i:
                    continue
                if at < verb.i and at > self.sentence.start and doc[at - 1].i in nouns:
                    continue  # "Requests to A are routed".
                inner = next((c for c in word.children if c.lower_ == "top"), None)
                of = (
                    next((c for c in inner.children if c.lower_ == "of"), word) if inner is not None else word
                )
                for noun in of.children:
                    if noun.tag_ in ("WDT", "WP") and verb.dep_ == "relcl":
                        noun = verb.head  # "on which it depends".
                    elif noun.dep_ not in ("pobj", "dobj", "conj", "pcomp", "dep", "appos"):
                        continue
                    if noun not in found:
                        found += [t for t in self.listed(noun) if t not in found]
                        found += [t for t in self._after_colon(noun) if t not in found]
                following = doc[at + 1] if at + 1 < self.sentence.end else None
                if (
                    following is not None
                    and following not in found
                    and (
                        self.names.kind(following) in ("code", "software", "host", "ip")
                        or is_known(following)
                    )
                    and following.dep_ != "compound"
                ):
                    found += [t for t in self.listed(following) if t not in found]
        return found

    def _in_clause(self, verb: Token, word: Token) -> bool:
        """Whether no other verb stands between that would take the preposition."""
        for token in self.names.doc[verb.i + 1 : word.i]:
            if token.pos_ in ("VERB", "AUX") and not (
                (token.head is verb and token.dep_ in ("ccomp", "csubj", "dobj"))
                or (token.tag_ == "VBN" and (token.dep_ in ("amod", "acl") or token.nbor(1).tag_[:2] == "NN"))
            ):
                return False
            if token.text in (";", "."):
                return False
        return True


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _is_form_of(text: str, wanted: str) -> bool:
    """Whether a word is a title's name as prose writes it: ``SickGear``, ``Mylar`` of ``mylar3``."""
    said = _letters(text)
    if said == wanted:
        return True
    close = len(said) >= 4 and abs(len(said) - len(wanted)) <= 2
    return close and text[:1].isupper() and (wanted.startswith(said) or said.startswith(wanted))


def is_no_service(mention: Mention) -> bool:
    """Whether a name is that of a tool, a language, a format; what is written as code may be called so."""
    return mention.text.lower() in no_services() and not mention.marked


def is_passive(verb: Token) -> bool:
    """Whether what a verb is said of is what it is done to."""
    return any(c.dep_ in ("auxpass", "nsubjpass") for c in verb.children) or (
        verb.tag_ == "VBN"
        and (
            verb.i == verb.sent.start  # "Built from X".
            or verb.dep_ in ("acl", "relcl", "amod", "advcl")
            or (verb.dep_ == "conj" and is_passive(verb.head))
            or (
                not any(c.lower_ in ("has", "have", "had", "'ve") for c in verb.children)
                and any(c.lemma_.lower() in ("be", "get") for c in verb.children)
            )
        )
    )
