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
from taboot_pipelines.extraction.tier_b.clauses import Clauses, is_no_service, is_passive
from taboot_pipelines.extraction.tier_b.lexicon import no_services, software, words
from taboot_pipelines.extraction.tier_b.names import CLASSES, GENERIC, Mention, read_address
from taboot_pipelines.extraction.tier_b.triple import Triple

if TYPE_CHECKING:
    from spacy.tokens import Token

_ACCESS = words("access")
_SET_UP = words("set_up")
_REACHED = words("reached")
_LISTENS = words("listens")
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
_CONFIGURES = re.compile(
    r"(?i)\b(?:environment variables?|env(?:ironment)? vars?|parameter|setting|option|annotation|value of|"
    r"flag|download(?:s|ed)? (?:from|at|page|link)|more info(?:rmation)?|more details|documentation|docs|"
    r"website|manual|read (?:more|about)|health ?checks?|defaults? to|proxy_pass|upstream)\b"
)
#: A line that explains a setting begins with its name.
_VARIABLE = re.compile(r"\W*[A-Z][A-Z0-9]*_[A-Z0-9_]+\W")
_ASSUMES = re.compile(
    r"(?i)^\W*with\s+`?--?[a-z]|\bassuming\b|"
    r"^\W*(?:if (?!everything|all )|when using|unless|suppose|in case)\b|"
    r"^\W*when\b[^,]{0,80}\b(?:is|are) (?:used|enabled|set|configured|disabled|activated)\b|"
    r"\bin [\w-]+ mode\b|\bdepends (?:if|on (?:if|whether))\b"
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
_PORTS_LISTED = re.compile(r"(?i)\bports?\b")
_MAX_LABEL = 6
#: Tokens between an address and what says that one gets there.
_MAX_REACH = 25
#: What people go to an address for; the object is what is there.
_MANAGED = words("managed")
#: What people do there with another thing.
_JOINS = words("joins")
#: What leads to a name that is not what is reached.
_BY_WAY_OF = words("by_way_of")
#: What follows a name that is not what is reached.
_ASIDE = words("aside")
#: Verbs that put their object at an address.
_OFFERS = frozenset(("expose", "publish", "serve", "host", "offer", "provide"))
#: What people do to get somewhere; of a thing it says something else.
_GOES = frozenset(("connect", "go", "log", "sign", "point", "look", "get", "head", "navigate", "browse"))
#: Verbs that lead a thing to a port of another.
_GOES_TO = frozenset(("connect", "access", "reach", "talk", "speak", "find", "open"))
_TIMES = frozenset(("after", "once", "when", "as", "before", "while", "until"))
_ARTICLES = frozenset(("the", "our", "your", "its", "a", "an"))
_PROTOCOLS = frozenset(("http", "https", "tcp", "udp", "websocket", "websockets", "grpc", "mqtt", "ssh"))
#: Verbs whose object is a part of their subject.
_HAS = frozenset(
    ("have", "ship", "come", "include", "provide", "offer", "feature", "bring", "contain", "start")
)
#: What stands for no thing at all, or for another than the page's.
_NOBODY = frozenset(
    ("nothing", "something", "anything", "everything", "none", "no", "another", "other", "any")
)
_DASHES = ("-", "–", "—", ":")
_BULLETS = ("·", "|", ";", ".", "•", *_DASHES)


class Addresses:
    """The addresses of one sentence, and what is there."""

    def __init__(self, clauses: Clauses) -> None:
        self._clauses = clauses
        self._names = clauses.names
        self._sentence = clauses.sentence
        self._text = clauses.sentence.text

    def triples(self) -> Iterator[Triple]:
        """What the sentence says is reached somewhere."""
        if modality.gives_example(self._sentence) or modality.is_over(self._sentence):
            return
        told = False
        for token, mention in self._names.addresses(self._sentence.start, self._sentence.end):
            said = read_address(mention.text)
            if said is None or said.port is None or self._configures(token):
                continue
            if said.host is not None and _NO_ENDPOINT_HOSTS.fullmatch(said.host):
                continue
            if _TO_READ.search(said.path) and (_DOCS.search(said.path) or _PUBLIC.fullmatch(mention.text)):
                continue
            for subject in self._at(token):
                told = True
                yield Triple("EXPOSES_ENDPOINT", subject, mention, "address", {"port": said.port})
        for number in self._ports():
            if self._configures(number):
                continue
            for subject in self._listening(number, told):
                told = True
                mention = self._names.mention(number, number, "port").until("/")
                yield Triple("EXPOSES_ENDPOINT", subject, mention, "port", {"port": port_of(number)})

    def _configures(self, token: Token) -> bool:
        """Whether what leads to an address speaks of a setting, a download, or a proxy's target."""
        if self._clauses.word(token.i + 1) in ("image", "images", "tag"):
            return True
        before = self._names.doc[self._sentence.start : token.i].text
        if _VARIABLE.match(before) is not None or "unless" in before:
            return True
        return _CONFIGURES.search(before) is not None

    # Addresses ----------------------------------------------------------------------------------------------

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
        if head.lower_ not in ("at", "under", "via", "on") or _ASSUMES.search(self._text):
            return []
        verb = next((a for a in head.ancestors if a.pos_ in ("VERB", "AUX")), None)
        if verb is None or verb.lemma_.lower() in _SET_UP | _ELSEWHERE or not modality.states(verb):
            return []
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
        if doc[at].text not in _DASHES:
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

    def _named_after(self, token: Token) -> Mention | None:
        """What is after the dash of "address - Name"."""
        at = token.i + 1
        if at + 1 >= self._sentence.end or self._names.doc[at].text not in _DASHES:
            return None
        found = self._clauses.named(self._names.doc[at + 1])
        return found if found is not None and found.kind == "name" and found.sure else None

    def _trigger(self, token: Token) -> Token | None:
        """The word that says that something is reached at an address, before it or (where it comes first)
        after it; None if there is none, or if it is denied, supposed, or about setting something up."""
        if _ASSUMES.search(self._text):
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

    def _is_seen(self, verb: Token) -> bool:
        """Whether a verb after an address says what one goes there for: "to see X", "to configure X"."""
        before = self._clauses.word(verb.i - 1)
        if verb.lemma_.lower() in _SHOWN:
            return before in ("to", "and", "you", "can", "directly")
        return verb.lemma_.lower() in _MANAGED and before == "to"

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

    # Ports --------------------------------------------------------------------------------------------------

    def _ports(self) -> Iterator[Token]:
        """The numbers of bare ports: "port 6379", "ports 80 and 443", "listens on 3000", "on `:8000`"."""
        last = -9
        for token in self._sentence:
            if not is_port(token) or token.i == self._sentence.start:
                if token.i == self._sentence.start and is_port(token) and self._is_item(token):
                    yield token
                continue
            before = token.nbor(-1).lower_.strip(":")
            if before in ("port", "ports") or (
                before in ("tcp", "udp") and self._clauses.word(token.i - 2) in ("port", "ports")
            ):
                last = token.i
                yield token
            elif before in ("on", "is", "at"):
                verb = next((a for a in token.ancestors if a.pos_ in ("VERB", "AUX")), None)
                gapped = last >= 0 and before in ("on", "at")
                if gapped or (verb is not None and self._speaks_of_port(verb, token)):
                    last = token.i
                    yield token
            elif before in ("and", ",", "&") and token.i - last <= 6:
                last = token.i
                yield token

    def _speaks_of_port(self, verb: Token, number: Token) -> bool:
        lemma = verb.lemma_.lower()
        if lemma == "be":
            return any(c.lower_ == "port" for c in verb.children)
        return lemma in ("listen", "run", "accept", "answer", "serve") and number.nbor(-1).lower_ == "on"

    def _is_item(self, number: Token) -> bool:
        """Whether it begins an item of a list of ports: "8989 - Sonarr"."""
        told = f"{self._names.block.introduction} {' '.join(h.text for h in self._names.block.headings[-1:])}"
        return (
            len(self._sentence) >= 3
            and number.nbor(1).text in _DASHES
            and _PORTS_LISTED.search(told) is not None
        )

    def _listening(self, number: Token, told: bool) -> list[Mention]:
        """What listens on a port."""
        doc = self._names.doc
        if number.i == self._sentence.start:
            found = self._names.of(doc[number.i + 2])
            if found is not None:
                return [found] if found.kind == "name" else []
            generic = any(t.lower_ in _PLACES | _PAGES for t in self._sentence[2:])
            return [self._clauses.title] if generic and self._clauses.title is not None else []
        gapped = self._gapped(number) if told else None
        if gapped is not None:
            return gapped
        port = next(
            (
                doc[i]
                for i in range(number.i - 1, max(self._sentence.start - 1, number.i - 7), -1)
                if doc[i].lower_.strip(":") in ("port", "ports")
            ),
            number,
        )
        last = number.i + 1 >= self._sentence.end or number.nbor(1).tag_[:2] != "NN"
        if port.i > self._sentence.start + 1 and port.nbor(-1).text == "(" and last:
            return [m for m in self._clauses.owners(port.nbor(-2)) if m.kind == "name"][:1]
        verb = next((a for a in port.ancestors if a.pos_ in ("VERB", "AUX")), None)
        if _ASSUMES.search(self._text):
            return []
        if (label := self._item(port)) is not None:
            return [label]
        if verb is None:
            return self._available(port)
        lemma = verb.lemma_.lower()
        of = verb.nbor(-1) if verb.i > self._sentence.start else verb
        if (
            lemma in _LISTENS
            and verb.tag_ in ("VBG", "VBN", "VBD")
            and (of.lower_ in GENERIC | _PAGES | _PLACES or self._is_named(of))
            and of is not verb
        ):
            # "your web frontend running on port 80", whatever the tree makes of it.
            return [] if self._is_made(of) else self._named_above(of, self._owners(of))
        order = modality.is_order(verb)
        if modality.is_negated(verb) or modality.in_condition(verb) or modality.is_unreal(verb):
            return []
        if modality.was(verb):
            return []
        if modality.modals(verb) & {"could", "may", "might", "would", "must"}:
            return []
        if (
            "can" in modality.modals(verb)
            and lemma in ("run", "listen", "use", "serve")
            and not is_passive(verb)
        ):
            return []  # What it could do.
        if self._is_subject(port) and lemma in ("serve", "be", "use", "expose", "carry"):
            if lemma == "be":
                return self._owners_of_port(port) or self._is_place(verb)
            if is_passive(verb):
                return [m for t in self._clauses.after(verb, ("by", "for")) for m in self._owners(t)]
            return [m for t in self._clauses.objects(verb) for m in self._owners(t)][:1]
        if order and lemma not in ("connect", "access"):
            return []
        by = {t.lower_ for t in doc[max(port.i - 4, self._sentence.start) : port.i]}
        if not by & {"on", "at", "over", "in", "via", "to", "using", "under", "through"} and not (
            lemma in ("use", "expose") and port.dep_ == "dobj"
        ):
            return []
        if lemma not in _LISTENS and not (lemma == "be" and self._is_there(verb)):
            page = port.head.head if port.head.lower_ in ("on", "at") else port
            told = page.lower_ in _PAGES and modality.states(verb)
            return self._owners(page) if told else []  # "with its GUI on port 80".
        if verb.tag_ in ("VBG", "VBN") and verb.dep_ in ("acl", "amod"):
            return [] if self._is_made(verb.head) else self._named_above(verb.head, self._owners(verb.head))
        if verb.dep_ == "relcl" and any(c.tag_ in ("WDT", "WP") for c in verb.children):
            return [] if self._is_made(verb.head) else self._owners(verb.head)
        subjects = [t for t in self._clauses.subjects(verb) if t.lower_ not in _PEOPLE]
        if lemma in _GOES_TO and not order and subjects and not is_passive(verb):
            return []  # "A connects to B on port 80": A is not there.
        if lemma in ("run", "start", "host", "launch"):
            run = [t for t in self._clauses.objects(verb) if not is_port(t) and t.i < port.i]
            if run and not all(t.lower_ in GENERIC for t in run):
                return [m for t in run for m in [self._clauses.named_or_apposed(t)] if m and m.sure]
        if lemma == "expose" and (objects := self._objects_exposed(verb, port)):
            # "This service exposes the shop on port 80": what is exposed, or, unnamed, nothing.
            exposed = [m for t in objects for m in self._owners(t) if not m.context or not self._is_told(t)]
            if exposed:
                return exposed[:1]
            subjects = [t for t in subjects if self._clauses.named_or_apposed(t) is not None]
        if not subjects and self._clauses.is_silent(verb) and self._clauses.title is not None:
            return [self._clauses.title]
        if is_passive(verb) and (agents := self._clauses.after(verb, ("by",))):
            return [m for t in agents for m in self._owners(t)]
        people = any(c.lower_ in _PEOPLE for c in verb.children if c.dep_ in ("nsubj", "nsubjpass"))
        if order or people:
            subjects = [*self._clauses.objects(verb), *self._clauses.after(verb, ("to",))]
            subjects = [t for t in subjects if not t.lower_.startswith("port") and not is_port(t)]
        return [m for t in subjects[:1] for m in self._owners(t)]

    def _is_named(self, word: Token) -> bool:
        """Whether a word is surely a thing's name."""
        found = self._names.of(word)
        return found is not None and found.kind == "name" and found.sure and not is_no_service(found)

    def _available(self, port: Token) -> list[Mention]:
        """What a line without a verb is about: "Web UI available on port 80"."""
        for word in self._names.doc[self._sentence.start + 1 : port.i]:
            if word.lower_ in _REACHED and word.head.tag_[:2] == "NN" and word.head.i < word.i:
                return self._owners(word.head)
        return []

    def _is_made(self, noun: Token) -> bool:
        """Whether an order makes the thing that it tells of: "start a Postgres container that …"."""
        verb = next((a for a in noun.ancestors if a.pos_ == "VERB"), None)
        new = any(c.lower_ in ("a", "an", "another") for c in noun.children)
        return new and verb is not None and modality.is_order(verb)

    def _named_above(self, noun: Token, found: list[Mention]) -> list[Mention]:
        """What the sentence is about, if it names it, where otherwise the page would say whose a noun is:
        "Reaper is also accessed over the API exposed on port 80"."""
        if not found or not all(m.context for m in found):
            return found
        verbs = (a for a in noun.ancestors if a.pos_ in ("VERB", "AUX"))
        verb = next((v for v in verbs if v.lemma_.lower() in _ACCESS | _HAS), None)
        if verb is None:
            return found
        subjects = self._clauses.subjects(verb)
        named = [m for t in subjects for m in self._owners(t) if not m.context]
        ours = all(t.lower_ in GENERIC | _PEOPLE or t.pos_ == "PRON" or self._owners(t) for t in subjects)
        return named or (found if ours else [])

    def _objects_exposed(self, verb: Token, port: Token) -> list[Token]:
        """What a verb puts on a port, if that is not the port itself or something that is read there."""
        return [
            t
            for t in self._clauses.objects(verb)
            if t is not port and not is_port(t) and not t.lower_.startswith("port") and t.lower_ not in _READ
        ]

    def _is_told(self, noun: Token) -> bool:
        """Whether a noun has another before it that tells which is meant: "the shopfront application"."""
        return any(c.dep_ == "compound" and c.lower_ not in GENERIC | _PLACES for c in noun.lefts)

    def _is_there(self, verb: Token) -> bool:
        """Whether "is" says where something is: "monitoring is on port 8222", "is available on port 80"."""
        return any(t.lower_ in _REACHED for t in self._sentence) or any(
            c.dep_ == "prep" and c.lower_ in ("on", "at") for c in verb.children
        )

    def _owners_of_port(self, port: Token) -> list[Mention]:
        found = [m for m in self._clauses.owners(port, ("of", "for")) if m.kind == "name"]
        ours = any(c.dep_ == "compound" and c.lower_ in GENERIC | _PAGES for c in port.lefts)
        title = self._clauses.title
        return found or ([title] if ours and title is not None else [])  # "the web interface port is 80".

    def _is_subject(self, port: Token) -> bool:
        """Whether a verb is said of a port: "port 80 serves X", "HTTP on port 80 serves X"."""
        over = port.head.head if port.head.dep_ == "prep" else port
        spoken = over is port or over.lower_ in _PROTOCOLS
        return spoken and over.dep_ in ("nsubj", "nsubjpass")

    def _is_place(self, be: Token) -> list[Mention]:
        """What is at "port 80 is the web interface", "port 80 is Grafana"."""
        for noun in be.children:
            if noun.dep_ == "attr" and noun.i > be.i:
                named = self._clauses.named_or_apposed(noun)
                if named is not None:
                    return [named] if self._clauses.is_sure(named, noun) and not is_no_service(named) else []
                if noun.lower_ in GENERIC | _PAGES and self._clauses.title is not None:
                    return [self._clauses.title]
        return []

    def _gapped(self, number: Token) -> list[Mention] | None:
        """``B`` of "A runs on port 1, B on 2"; nothing if that is no name, None if it is not so told."""
        doc, at = self._names.doc, number.i - 1
        while at > self._sentence.start and doc[at].lower_ in (
            "port",
            "on",
            "at",
            "page",
            "a",
            "the",
            "chat",
        ):
            at -= 1
        if doc[at].i == number.i - 1 or doc[at].pos_ in ("VERB", "AUX") or at <= self._sentence.start:
            return None
        found = self._clauses.named(doc[at])  # Also "the web service on port 80".
        first = at
        while first > self._sentence.start and (
            doc[first - 1].tag_[:2] in ("NN", "JJ", "VB") or doc[first - 1].lower_ in _ARTICLES
        ):
            first -= 1
        parted = self._clauses.word(first - 1) in ("and", ",", ";", "while")
        if found is None or found.kind != "name":
            noun = doc[at].tag_[:2] == "NN" and doc[first].lower_ in _ARTICLES
            if doc[at].lower_ in _PAGES | _PLACES:
                return None  # Another part of the same thing.
            return [] if parted and noun else None
        return [found] if parted or found.sure else None


#: What is read at an address, and is not what listens there.
_READ = words("read")
#: Verbs that lead to what is elsewhere.
_ELSEWHERE = words("elsewhere")
_COPULA = words("copula")
_NUMBER_OF_PORT = re.compile(r"[:`]*(?P<number>\d{1,5})(?:/(?:tcp|udp))?[:`]*")


def is_port(token: Token) -> bool:
    """Whether a token is the number of a port, also as ``:8000`` or ``8000/tcp``."""
    return port_of(token) is not None


def port_of(token: Token) -> int | None:
    """The port that a token is."""
    match = _NUMBER_OF_PORT.fullmatch(token.text)
    number = int(match["number"]) if match is not None else 0
    return number if 0 < number < 65536 else None
