"""Where something is reached or listens, as a sentence tells it: EXPOSES_ENDPOINT.

An address counts where a word beside it says that one gets to something there ("is available at", "browse
to"), or where it stands beside a name ("Grafana: http://…"). What is there is the subject of that word, what
one opens or sees there, or, where the sentence has only "the web UI", what the page is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b import modality
from taboot_pipelines.extraction.tier_b.clauses import is_no_service, is_passive
from taboot_pipelines.extraction.tier_b.lexicon import software, words
from taboot_pipelines.extraction.tier_b.names import CLASSES, GENERIC, Mention, read_address
from taboot_pipelines.extraction.tier_b.reached import ASSUMES, DASHES, Reached
from taboot_pipelines.extraction.tier_b.triple import Triple

if TYPE_CHECKING:
    from spacy.tokens import Token

_ACCESS = words("access")
_SET_UP = words("set_up")
_REACHED = words("reached")
_SHOWN = words("shown")
#: What stands for the thing itself where it is reached.
_PLACES = words("places")
#: What has an address of its own, of those.
_PAGES = words("pages")
#: What stands for an address, and not for what is there.
_SETUPS = frozenset(("setup", "set-up", "installation", "install", "configuration", "wizard", "onboarding"))
_URLS = frozenset(("url", "urls", "address", "addresses", "link", "links", "ip", "port", "location"))
#: What tells that one gets to the thing itself.
_SPOKEN = words("spoken")
_PEOPLE = words("people")
_NO_ENDPOINT_HOSTS = re.compile(
    r"(?i)(?:.*\.)?(?:github\.com|gitlab\.com|docker\.com|docker\.io|ghcr\.io|lscr\.io|quay\.io|readthedocs\.io|"
    r"discord\.(?:gg|com)|reddit\.com|youtube\.com|wikipedia\.org|linuxserver\.io|kubernetes\.io|google\.com|"
    r"githubusercontent\.com|github\.io|codeberg\.org|bitbucket\.org|sourceforge\.net|pypi\.(?:org|python\.org)|"
    r"python\.org|npmjs\.com|crates\.io|rubygems\.org|packagist\.org|medium\.com)|docs?\..*|wiki\..*|www\.w3\.org|registry\..*|.*\.readthedocs\..*"
)
#: What leads to a list of addresses.
_INTRODUCES = re.compile(
    r"(?i)\b(?:accessed|available|reachable|accessible|reached|found|running|listening|served) "
    r"(?:at|on|via|under|here)(?: the following \w+| one of)?:?\s*$"
)
#: Paths of pages that one reads, and of queries.
_TO_READ = re.compile(r"(?i)/(?:docs?|documentation|wiki|manual|blog|install|guide)(?:/|$)")
_DOCS = re.compile(r"(?i)/(?:docs?|documentation|wiki|manual)(?:/|$)")
#: An address of the web: beside a name it is where one reads of the thing.
_PUBLIC = re.compile(
    r"(?i)https?://(?:[\w-]+\.)+(?!lan\b|local\b|home\b|internal\b|localdomain\b)[a-z]{2,24}(?:/\S*)?"
)
_MAX_LABEL = 6
#: Tokens between an address and what says that one gets there.
_MAX_REACH = 25
#: What people go to an address for; the object is what is there.
_MANAGED = words("managed")
#: What leads to a name that is not what is reached.
_BY_WAY_OF = words("by_way_of")
#: What follows a name that is not what is reached.
_ASIDE = words("aside")
#: Verbs that put their object at an address.
_OFFERS = frozenset(("expose", "publish", "serve", "host", "offer", "provide"))
#: What people do to get somewhere; of a thing it says something else.
_GOES = frozenset(("connect", "go", "log", "sign", "point", "look", "get", "head", "navigate", "browse"))
_TIMES = frozenset(("after", "once", "when", "as", "before", "while", "until"))
_BULLETS = ("·", "|", ";", ".", "•", *DASHES)
#: Verbs that lead to what is elsewhere.
_ELSEWHERE = words("elsewhere")
_COPULA = words("copula")


class Addresses(Reached):
    """The addresses of one sentence, and what is there."""

    def triples(self) -> Iterator[Triple]:
        """What the sentence says is reached somewhere."""
        if modality.gives_example(self._sentence) or modality.is_over(self._sentence):
            return
        for token, mention in self._names.addresses(self._sentence.start, self._sentence.end):
            said = read_address(mention.text)
            if said is None or said.port is None or self._configures(token):
                continue
            if said.host is not None and _NO_ENDPOINT_HOSTS.fullmatch(said.host):
                continue
            if _TO_READ.search(said.path) and (_DOCS.search(said.path) or _PUBLIC.fullmatch(mention.text)):
                continue
            for subject in self._at(token):
                yield Triple("EXPOSES_ENDPOINT", subject, mention, "address", {"port": said.port})

    def _at(self, token: Token) -> list[Mention]:
        """What is at an address; nothing if the sentence does not say that something is."""
        labelled = self._labelled(token)
        if labelled is not None:
            return [labelled]
        fragment = self._fragment(token)
        if fragment:
            return fragment
        if self._introduced():
            return [self._clauses.title] if self._clauses.title is not None else []
        trigger = self._trigger(token)
        if trigger is None:
            if (label := self._item(token)) is not None and not _PUBLIC.fullmatch(token.text.strip("`")):
                return [label]
            return self._told_of(token)
        reached = self._reached(trigger, token)
        if reached and all(mention.context for mention in reached):
            # What the sentence itself names on the way, where otherwise the page says what is reached.
            told = self._named_on_the_way(trigger, token)
            return [told] if told is not None else self._named_beside(token) or reached
        return reached

    def _named_beside(self, token: Token) -> list[Mention]:
        """The one name that the sentence has beside an address, as that of the same thing: not one that is
        joined to it, gone through, or somebody's else."""
        found: list[Mention] = []
        for word in self._sentence:
            if word.lower_ in CLASSES | GENERIC | _PLACES or (word.i > token.i and self._is_other(word)):
                continue
            mention = self._names.of(word)
            if mention is None and word.lower_ in software():
                mention = self._names.mention(word, word, sure=True)  # Also a word of English.
            if mention is None or mention.kind != "name" or mention.marked or is_no_service(mention):
                continue
            if self._clauses.is_sure(mention, word) and not self._is_aside(word):
                found = [m for m in found if m.start != mention.start and m.end != mention.end] + [mention]
        return found if len(found) == 1 else []

    def _is_other(self, word: Token) -> bool:
        """Whether a name after an address is of something that is joined to what is reached there."""
        return self._is_joined(word) or self._clauses.word(word.i - 1) in ("to", "your", "with")

    def _is_aside(self, word: Token) -> bool:
        """Whether a name stands where something else than what is reached does: "via X", "X's manual"."""
        before = {self._clauses.word(i) for i in range(word.i - 3, word.i)}
        after = {self._clauses.word(i) for i in range(word.i + 1, word.i + 3)}
        of = word.head
        of_another = (
            word.dep_ in ("compound", "nmod", "poss")
            and of.lower_ not in GENERIC | CLASSES | _PLACES | _PAGES
            and not self._clauses.is_proper(of)
        )
        return of_another or bool(before & _BY_WAY_OF or after & _ASIDE)

    def _introduced(self) -> bool:
        """Whether it is little more than an address below "The application can be accessed at:"."""
        said = self._names.block.introduction
        if _INTRODUCES.search(said) is None or len(self._sentence) > 8:
            return False
        title = self._clauses.title
        words_of = {w.strip("*`").lower() for w in said.split()}
        return title is not None and (bool(words_of & (GENERIC | _PAGES)) or title.text.lower() in words_of)

    def _told_of(self, token: Token) -> list[Mention]:
        """What any other verb says is at an address: "the console is waiting for you at URL"."""
        head = token.head
        if head.lower_ not in ("at", "under", "via", "on") or ASSUMES.search(self._text):
            return []
        verb = next((a for a in head.ancestors if a.pos_ in ("VERB", "AUX")), None)
        if verb is None or verb.lemma_.lower() in _SET_UP | _ELSEWHERE or not modality.states(verb):
            return []
        if any(
            t.lower_ not in GENERIC | _PLACES | _PAGES for t in self._clauses.objects(verb) if t.i < head.i
        ):
            return []  # "It copies the vault at URL": what is there is another thing.
        return [m for t in self._clauses.subjects(verb)[:1] for m in self._owners(t)]

    def _fragment(self, token: Token) -> list[Mention]:
        """What a line of nouns has at an address: "Grafana dashboard at http://…"."""
        if self._clauses.word(token.i - 1) not in ("at", "on", "under", "via"):
            return []
        first = token.i - 1
        while first > self._sentence.start and self._clauses.word(first - 1) not in (
            ",",
            ";",
            "and",
            "-",
            "–",
        ):
            first -= 1
        nouns = list(self._names.doc[first : token.i - 1])
        if not 0 < len(nouns) < _MAX_LABEL or any(
            t.tag_[:2] in ("VB", "MD", "IN", "PR", "TO", "WR", "RB") or t.is_punct for t in nouns
        ):
            return []
        if any(t.tag_ in ("VBZ", "VBP", "VB", "MD") for t in self._sentence if t.i < token.i):
            return []
        proper = any(self._clauses.is_proper(t) for t in nouns)
        named = [m for m in self._owners(nouns[-1]) if m.context or m.sure or proper]
        return named or [m for m in (self._names.of(t) for t in nouns) if m is not None and m.sure][:1]

    def _labelled(self, token: Token) -> Mention | None:
        """What is before the dash or colon of "Name - address", "UI at: address", "Name (address)"."""
        doc, at = self._names.doc, token.i - 1
        if token.i == self._sentence.start or doc[token.i - 1].text in ("*", "-", "("):
            after = self._named_after(token)
            if after is not None:
                return after
        if at <= self._sentence.start:
            return None
        if doc[at].lower_ in ("at", "on", "under") and self._clauses.word(at - 2) in (
            ",",
            ";",
            "and",
            "while",
        ):
            found = self._names.of(doc[at - 1])
            return found if found is not None and found.kind == "name" and found.sure else None
        if doc[at].text == "(":
            found = self._names.of(doc[at - 1])
            return found if found is not None and found.kind == "name" and found.sure else None
        if doc[at].text not in DASHES:
            return None
        if _PUBLIC.fullmatch(token.text.strip("`")):
            return None
        before: list[Token] = []
        while at > self._sentence.start and len(before) < _MAX_LABEL:
            at -= 1
            word = doc[at]
            if word.text in _BULLETS:
                break
            if word.lower_ not in ("at", "is", "*", "**", "the", "on", "via", "now"):
                before.insert(0, word)
        if not before or any(w.pos_ == "VERB" and w.lower_ not in _PLACES for w in before):
            return None
        if before[-1].lower_ not in _PLACES | GENERIC:
            found = self._names.of(before[-1])
            if (
                found is None
                or found.kind != "name"
                or not (found.sure or len(before) > 1 or at == self._sentence.start)
            ):
                return None
            first = before[0]
            return self._names.mention(first, before[-1]) if first.text[:1].isupper() else found
        names = [w for w in before if w.lower_ not in _PLACES | GENERIC and self._names.of(w) is not None]
        if not names:
            return self._clauses.title if {w.lower_ for w in before} & (_PAGES | _PLACES) else None
        return self._names.of(names[-1])

    def _named_after(self, token: Token) -> Mention | None:
        """What is after the dash of "address - Name"."""
        at = token.i + 1
        if at + 1 >= self._sentence.end or self._names.doc[at].text not in DASHES:
            return None
        found = self._clauses.named(self._names.doc[at + 1])
        return found if found is not None and found.kind == "name" and found.sure else None

    def _trigger(self, token: Token) -> Token | None:
        """The word that says that something is reached at an address, before it or (where it comes first)
        after it; None if there is none, or if it is denied, supposed, or about setting something up."""
        if ASSUMES.search(self._text):
            return None
        doc = self._names.doc
        for at in range(token.i - 1, max(self._sentence.start, token.i - _MAX_REACH) - 1, -1):
            word = doc[at]
            if self._names.kind(word):
                continue
            lemma = word.lemma_.lower()
            if lemma == "use" and self._is_used_at(word, token):
                return word if self._holds(word, token) else None
            if lemma in _SET_UP and (word.pos_ == "VERB" or word.i == self._sentence.start):
                return None
            if self._leads(word, token):
                return word if self._holds(word, token) else None
        head = next((a for a in token.ancestors if a.pos_ in ("VERB", "AUX")), None)
        if head is not None and head.i > token.i and self._leads(head, token) and self._holds(head, token):
            return head
        return None

    def _leads(self, word: Token, token: Token) -> bool:
        lemma = word.lemma_.lower()
        if lemma in _MANAGED and any(c.dep_ == "dobj" and c.lower_ in _SETUPS for c in word.children):
            return True  # "Finish the setup at URL".
        begins = word.i == self._sentence.start or self._names.doc[word.i - 1].is_punct
        if word.lower_ not in _REACHED and not (
            lemma in _ACCESS and (begins or word.pos_ in ("VERB", "AUX") or self._is_bare(word))
        ):
            return False
        if lemma in _GOES and any(
            c.dep_ == "nsubj" and c.lower_ not in _PEOPLE and c.tag_ not in ("WDT", "WP")
            for c in word.children
        ):
            return False  # "The runner connects to X": nothing is said to be reached by people.
        if lemma == "point" and not any(t.lemma_.lower() == "browser" for t in self._sentence):
            return False
        return lemma != "be" or self._is_copula(word, token)

    def _is_used_at(self, use: Token, token: Token) -> bool:
        """Whether one uses a page where it is: "use the admin UI at http://…"."""
        noun = self._names.doc[token.i - 2]
        return (
            token.text.strip("`").startswith("http")
            and self._clauses.word(token.i - 1) in ("at", "on", "under")
            and noun.i > use.i
            and (noun.lower_ in _PAGES or self._names.of(noun) is not None)
            and all(
                t.lower_ in CLASSES | _PAGES | {"the", "your", "admin", "web"}
                or t is noun
                or self._names.of(t) is not None
                for t in self._names.doc[use.i + 1 : token.i - 1]
            )
        )

    def _is_bare(self, word: Token) -> bool:
        """Whether "access" has an object and no article: a verb, whatever it was taken for."""
        before, after = self._clauses.word(word.i - 1), self._names.doc[word.i + 1 : word.i + 2]
        return (
            word.lower_ in ("access", "visit", "open", "browse")
            and before not in ("the", "an", "for", "of", "your", "remote", "web", "http", "external", "gain")
            and any(t.lower_ in ("the", "your", "to") or t.text[:1].isupper() for t in after)
        )

    def _is_copula(self, be: Token, token: Token) -> bool:
        """Whether "is" leads to the address: "the webui is at …", "the URL will be …"."""
        between = [t.lower_ for t in self._names.doc[be.i + 1 : token.i]]
        return len(between) <= 4 and all(w in _COPULA for w in between)

    def _holds(self, word: Token, token: Token) -> bool:
        """Whether the words around a trigger leave it as it is; what follows the address does not matter."""
        verb = word
        if word.pos_ == "ADJ" and word.dep_ in ("amod", "appos") and word.i > word.head.i:
            return not modality.in_condition(word, before=max(token.i, word.i))  # "the UI, reachable at".
        if word.pos_ not in ("VERB", "AUX"):
            verb = next((a for a in word.ancestors if a.pos_ in ("VERB", "AUX")), word)
        limit = max(token.i, word.i)
        if (
            modality.is_negated(verb)
            or modality.was(verb)
            or modality.in_condition(verb, before=limit)
            or modality.in_condition(word, before=limit)
        ):
            return False
        modals = modality.modals(verb)
        if modals & {"could", "may", "might", "would"} or ("must" in modals and is_passive(verb)):
            return False
        return not modality.is_unreal(verb)

    def _reached(self, trigger: Token, token: Token) -> list[Mention]:
        """What is at the address: what stands between, before, or after it as what one sees there; else what
        the page is about, if the sentence tells only its kind."""
        clauses = self._clauses
        title = self._page()
        verb = trigger
        if trigger.pos_ not in ("VERB", "AUX") and trigger.lower_ not in _ACCESS:
            verb = next((a for a in trigger.ancestors if a.pos_ in ("VERB", "AUX")), trigger)
        elif trigger.lower_ in _REACHED and trigger.dep_ in ("acl", "amod") and trigger.i > trigger.head.i:
            return self._owners(trigger.head)
        for group in self._candidates(verb, trigger, token):
            named = [m for t in group for m in self._owners(t)]
            if named:
                return named[:1] if len(set(named)) == 1 else list(dict.fromkeys(named))
            if group and not all(t.lower_ in _URLS for t in group):
                first = self._sentence[0]
                begins = clauses.title is not None and first.lower_ == clauses.title.text.lower()
                return [title] if begins and title is not None else []
        told = self._named_on_the_way(trigger, token)
        if told is not None:
            return [told]
        # An order to open an address that says nothing of what is there says nothing of the page's thing.
        spoken = any(t.lower_ in (GENERIC | _PAGES | _SPOKEN) - {"it"} for t in self._sentence)
        silent = (modality.is_order(verb) or self._is_ordered(verb)) and not spoken
        return [title] if title is not None and not (silent and title.context) else []

    def _is_ordered(self, verb: Token) -> bool:
        """Whether a verb in its base form begins a clause, as in "Once it runs, visit …"."""
        return verb.tag_ in ("VB", "VBP") and self._clauses.word(verb.i - 1) in (",", ":", "then", "simply")

    def _named_on_the_way(self, trigger: Token, token: Token) -> Mention | None:
        """The one name between the word for reaching and the address, or after "to see", whatever the tree
        makes of it; not one that is gone through or used to get there."""
        doc = self._names.doc
        shown = next(
            (word for word in doc[token.i + 1 : self._sentence.end - 1] if self._is_seen(word)), None
        )
        ways = [(trigger.i + 1, token.i)] if trigger.i < token.i else []
        if shown is not None:
            ways.append((shown.i + 1, min(shown.i + _MAX_LABEL + 4, self._sentence.end)))
        for first, last in ways:
            found: list[Mention] = []
            for word in doc[first:last]:
                if word.lower_ in _BY_WAY_OF or word.text in (",", ";", "("):
                    break
                if word.lower_ == "to" and doc[word.i - 1].lower_ not in ("in", "on", "access"):
                    break
                mention = self._names.of(word) if word.lower_ not in CLASSES else None
                if mention is None and word.lower_ in software() and doc[word.i - 1].lower_ in ("of", "for"):
                    mention = self._names.mention(word, word, sure=True)  # Also a word of English.
                if mention is None or mention.kind != "name" or is_no_service(mention):
                    continue
                if self._clauses.is_sure(mention, word) and not any(m.end == mention.end for m in found):
                    found = [m for m in found if m.start != mention.start] + [mention]
            if len(found) == 1:
                return found[0]
        return None

    def _is_seen(self, verb: Token) -> bool:
        """Whether a verb after an address says what one goes there for: "to see X", "to configure X"."""
        before = self._clauses.word(verb.i - 1)
        if verb.lemma_.lower() in _SHOWN:
            return before in ("to", "and", "you", "can", "directly")
        return verb.lemma_.lower() in _MANAGED and before == "to"

    def _candidates(self, verb: Token, trigger: Token, token: Token) -> Iterator[list[Token]]:
        """Nouns that may be what is reached, in groups, the likeliest first."""
        children = [*verb.children]
        subjects = [c for c in children if c.dep_ in ("nsubj", "nsubjpass") and c.lower_ not in _PEOPLE]
        shown = trigger.lemma_.lower() in _SHOWN | {"log", "connect", "sign", "get", "point", "find", "use"}
        objects = [c for c in children if c.dep_ == "dobj" and c.lower_ not in _PEOPLE | {"browser"}]
        if shown or not subjects or subjects[0].tag_ in ("WDT", "WP"):
            if verb.dep_ == "relcl" and (shown or any(c.tag_ in ("WDT", "WP") for c in children)):
                yield [verb.head]
            between = [
                n
                for p in verb.subtree
                if p.lower_ in ("to", "into", "in") and verb.i < p.i < token.i
                for n in p.children
                if n.dep_ == "pobj" and n.i < token.i and n.lower_ not in ("browser", "localhost")
            ]
            yield [t for t in objects if not self._is_address(t)]
            yield [t for t in between if not self._is_address(t)]
        if trigger.lemma_.lower() in _OFFERS:
            offered = [
                t for t in objects if not self._is_address(t) and self._clauses.owners(t, ("of", "for"))
            ]
            if offered:
                yield offered
        subjects = [t for t in subjects if t.tag_ not in ("WDT", "WP")]
        if not subjects and not self._is_ordered(verb):
            for ancestor in (verb, *verb.ancestors):
                if ancestor.dep_ not in ("xcomp", "conj", "advcl", "acl", "pcomp", "prep"):
                    break
                if any(c.lower_ in _TIMES and c.dep_ in ("mark", "advmod") for c in ancestor.head.children):
                    break  # "After the application starts, visit …".
                subjects = [
                    c
                    for c in ancestor.head.children
                    if c.dep_ in ("nsubj", "nsubjpass")
                    and c.lower_ not in _PEOPLE
                    and not self._is_address(c)
                    and self._clauses.word(c.i + 1) != ":"
                ]
                if subjects:
                    break
        yield subjects[:1]
        for seen in (
            *self._names.doc[token.i + 1 : self._sentence.end],
            *self._names.doc[self._sentence.start : trigger.i],
        ):
            wished = seen.lemma_.lower() in _MANAGED and self._clauses.word(seen.i - 1) == "to"
            if (seen.lemma_.lower() in _SHOWN or wished) and not self._names.kind(seen):
                seen_there = (t for t in self._clauses.objects(seen) if t.lower_ != "browser")
                yield [t for t in seen_there if not self._is_address(t) and self._owners(t)]

    def _is_address(self, token: Token) -> bool:
        kind = self._names.kind(token)
        written = kind == "code" and read_address(token.text.strip("`")) is not None
        return kind in ("url", "hostport", "ip") or written
