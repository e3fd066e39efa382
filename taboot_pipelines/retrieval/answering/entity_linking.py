"""Names in a question to the things of a house that they may mean: the longest name first, on the borders
of words, and each mention with all things of that name, surest first.

How sure: ``exact`` (the name as declared, in any case), ``normalized`` (other separators), ``alias`` (a
container's name, the last part of an image's repository, a file's or a folder's name, the first label of a
host name) and ``typo`` (a letter off, in a long word two, where nothing else fits).
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from rapidfuzz import process
from rapidfuzz.distance import OSA

from taboot_pipelines.extraction.tier_a.compose.files import DEFAULT_FILES, OVERRIDE_FILES
from taboot_pipelines.knowledge.mentions import stopwords
from taboot_pipelines.model.stores import DATABASES, STORES
from taboot_pipelines.retrieval.answering.vocabulary import FILLER, LABELS
from taboot_pipelines.retrieval.queries.relations import guard_product
from taboot_pipelines.retrieval.queries.service_index import ServiceIndex, distinct

#: Characters of a question that are read, and words of a name.
MAX_QUESTION_CHARS = 400
_MAX_NAME_WORDS = 8
#: Names of one question that are followed.
MAX_MENTIONS = 8
#: Things of one name that are kept.
MAX_THINGS = 2000
#: Names beyond which slips of the pen are not looked for.
_MAX_NAMES = 200_000
#: Letters of a word in which one slip is looked for, and two.
_MIN_TYPO, _MIN_TWO_SLIPS = 5, 9
#: Letters of a word that may be short for a name.
_MIN_BEGUN = 4
#: … and of a word of the language that is one.
_MIN_COMMON = 6

#: The least share of a name that a word is short for.
_MIN_SHORT = 0.4

#: What kinds of addresses are called.
_OF_ADDRESSES = frozenset({"ip", "ipv4", "ipv6", "mac", "email", "mail", "network"})

SURENESS = {"exact": 1.0, "normalized": 0.98, "alias": 0.93, "typo": 0.85}
_ORDER = {how: i for i, how in enumerate(SURENESS)}

_CHUNK = re.compile(r"[^\s?!,;\"'`()\[\]{}<>«»“”‘’]+(?:'[a-z]+)?")
_WORD = re.compile(r"[^\W_]+")
_PAUSE = re.compile(r"[,;?!]")
_JOINS = frozenset("-_.~+")
_HOST = re.compile(r"(?<![\w.-])([A-Za-z0-9-]+)(?:\.[A-Za-z0-9-]+)+(?![\w-])")
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?")


@dataclass(frozen=True, slots=True)
class Word:
    """A run of letters and digits at ``[start, end)``; ``first`` and ``last``: whether a name may begin and
    end with it, which it may not inside a compound such as ``redis-exporter``."""

    text: str
    start: int
    end: int
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Thing:
    """What a name may mean. ``kind``: a key of ``question_types.MASKS``; ``node``: of a service, network,
    image, host or proxy; ``value``: the project with its ``place``, the file's doc_id, the folder with its
    source as ``place``, the host name, the address, the product that guards at a proxy.
    """

    kind: str
    how: str
    node: int = -1
    value: str = ""
    place: str = ""


@dataclass(slots=True)
class Mention:
    """Words ``[first, last)`` of a question that name something; ``weak``: they may as well mean what they
    say (``web``, ``proxy``); ``meant``: the name of which it is a slip of the pen."""

    first: int
    last: int
    text: str
    things: list[Thing]
    weak: bool = False
    label: str = ""
    label_at: tuple[int, ...] = ()
    meant: str = ""

    def of(self, *kinds: str) -> list[Thing]:
        return [t for t in self.things if t.kind in kinds]

    @property
    def sureness(self) -> float:
        return SURENESS[min((t.how for t in self.things), key=_ORDER.__getitem__)]


@dataclass(slots=True)
class Linked:
    """A question's words and the mentions among them, from left to right."""

    text: str
    words: list[Word]
    mentions: list[Mention] = field(default_factory=list)

    def strong(self) -> list[Mention]:
        return [m for m in self.mentions if not m.weak]

    def span(self, mention: Mention) -> tuple[int, int]:
        """The code points ``[start, end)`` of a mention."""
        return self.words[mention.first].start, self.words[mention.last - 1].end


def words_of(text: str) -> list[Word]:
    found = []
    for chunk in _CHUNK.finditer(text):
        inside = chunk[0].lower()
        base = chunk.start()
        if inside[0] == "/" and len(inside) > 1:  # a path is one literal, whatever names stand in it
            path = inside.rstrip("./:")
            found.append(Word(path, base, base + len(path), True, True))
            continue
        cut = len(re.sub(r"['’]s?$", "", inside))
        runs = [m for m in _WORD.finditer(inside) if m.start() < cut]
        for i, run in enumerate(runs):
            before = inside[run.start() - 1] if i else ""
            after = inside[run.end()] if i + 1 < len(runs) else ""
            found.append(
                Word(
                    run[0],
                    base + run.start(),
                    base + run.end(),
                    before not in _JOINS if before else True,
                    after not in _JOINS if after else True,
                )
            )
    return found


def joined(name: str) -> str:
    """A name without case and separators: ``Home Assistant`` and ``home-assistant`` are one."""
    return "".join(_WORD.findall(name.lower()))


class Names:
    """Every name of a house, made once per view."""

    def __init__(self, house: ServiceIndex) -> None:
        self._house = house
        self._things: dict[str, list[tuple[str, Thing]]] = defaultdict(list)
        self._collect()
        self._of_length: dict[int, list[str]] | None = None
        self._services: list[str] | None = None

    def __len__(self) -> int:
        return len(self._things)

    def _add(self, name: str, thing: Thing) -> None:
        key = joined(name)
        held = self._things[key] if key else []
        if key and len(held) < MAX_THINGS:
            held.append((name.lower(), thing))

    def _collect(self) -> None:
        house = self._house
        for number, service in house.services.items():
            self._add(service.name, Thing("service", "exact", number, place=service.place))
            container = service.properties.get("containerName")
            if container and joined(container) != joined(service.name):
                self._add(container, Thing("service", "exact", number, place=service.place))
            # A release calls its parts after itself: the dendrite of matrix is matrix-dendrite.
            part = service.name.removeprefix(f"{service.project}-") if service.project else service.name
            plain = part in FILLER or part in LABELS or part in stopwords() or part in STORES
            if part != service.name and len(part) >= _MIN_TYPO and part.isalpha() and not plain:
                self._add(part, Thing("service", "alias", number, place=service.place))
        for container, owner in house.service_of.items():
            self._add(house.name(container), Thing("service", "alias", owner))
        for place, project in house.projects:
            self._add(project, Thing("project", "exact", value=project, place=place))
        for label, kind in (("Network", "network"), ("Host", "host"), ("ReverseProxy", "proxy")):
            for node in house.of_label(label):
                self._name_node(kind, node)
        self._name_images()
        self._name_files()
        for node in house.of_label("IP"):
            self._add(house.name(node), Thing("address", "exact", node, house.name(node)))
        guards = {
            guard_product(edge) for edge in (*house.of_type("EXPOSES_ENDPOINT"), *house.of_type("ROUTES_TO"))
        }
        for product in sorted(filter(None, guards)):
            self._add(product, Thing("guard", "exact", value=product))
        for edge in house.of_type("ROUTES_TO"):
            host = edge.properties.get("host")
            if isinstance(host, str) and host:
                self._add(host, Thing("route", "exact", value=host))
                label = host.split(".", 1)[0]
                if label and label != "*":
                    self._add(label, Thing("route", "alias", value=host))
            location = self._house.name(edge.end)
            if self._house.label(edge.end) == "Endpoint":
                address = _ADDRESS.search(location)
                if address:
                    self._add(address[0], Thing("address", "exact", edge.end, address[0]))

    def _name_node(self, kind: str, node: int) -> None:
        name = self._house.name(node)
        self._add(name, Thing(kind, "exact", node, name))
        if kind == "host":
            self._add(name.split(".", 1)[0], Thing(kind, "alias", node, name))
        elif kind == "network" and "_" in name:
            project, _, short = name.partition("_")
            if any(project == p for _, p in self._house.projects):
                self._add(short, Thing(kind, "alias", node, name))

    def _name_images(self) -> None:
        house = self._house
        used: dict[int, list[int]] = defaultdict(list)
        for edge in house.of_type("BUILDS"):
            if edge.method in ("compose_image", "compose_build"):
                used[edge.end].append(edge.start)
        for node, services in used.items():
            facts = house.properties(node)
            repository = facts.get("repository") or ""
            for name in distinct([house.name(node), facts.get("reference") or "", repository]):
                self._add(name, Thing("image", "exact", node, house.name(node)))
            tail = posixpath.basename(repository)
            self._add(tail, Thing("image", "alias", node, house.name(node)))
            if facts.get("tag"):
                self._add(f"{tail}:{facts['tag']}", Thing("image", "alias", node, house.name(node)))
            for service in services:
                thing = Thing("service", "alias", service, place=house.services[service].place)
                self._add(tail, thing)
                if tail in DATABASES:
                    self._add("database", thing)
                    if house.services[service].name != "db":
                        self._add("db", thing)

    def _name_files(self) -> None:
        for document in self._house.config_documents:
            name = posixpath.basename(document.path)
            self._add(name, Thing("file", "exact", value=document.doc_id))
            if document.mime == "application/yaml" and document.folder:
                self._add(document.folder, Thing("file", "alias", value=document.doc_id))
            if name not in (*DEFAULT_FILES, *OVERRIDE_FILES):
                self._add(name.split(".", 1)[0], Thing("file", "alias", value=document.doc_id))
                parts = name.split(".")
                if len(parts) > 1:
                    self._add(".".join(parts[:2]), Thing("file", "alias", value=document.doc_id))
        folders = {
            (document.source, "/".join(parts[: depth + 1]))
            for document in self._house.config_documents
            if document.declares and not document.example
            for parts in [posixpath.dirname(document.path).split("/")]
            for depth in range(len(parts) - 1)
        }
        for source, folder in sorted(folders):
            self._add(posixpath.basename(folder), Thing("folder", "alias", value=folder, place=source))

    # --- linking --------------------------------------------------------------------------------------------

    def link(self, question: str) -> Linked:
        """The mentions of a question, longest first where they overlap."""
        text = question[:MAX_QUESTION_CHARS]
        words = words_of(text)
        linked = Linked(text, words)
        taken = [False] * len(words)
        found: list[Mention] = []
        for length in range(min(_MAX_NAME_WORDS, len(words)), 0, -1):
            for first in range(len(words) - length + 1):
                last = first + length
                if any(taken[first:last]) or not (words[first].first and words[last - 1].last):
                    continue
                mention = self._mention(text, words, first, last)
                if mention is not None:
                    found.append(mention)
                    taken[first:last] = [True] * length
        found += self._wildcards(text, words, taken)
        linked.mentions = sorted(found, key=lambda m: m.first)
        for mention in linked.mentions:
            self._weigh(linked, mention)
        labels = {i for m in linked.mentions if m.label in ("conf", "config", "file") for i in m.label_at}
        linked.mentions = [
            m
            for m in linked.mentions
            if not set(range(m.first, m.last)) <= labels and not (m.weak and _is_no_file(words, m))
        ]
        self._slips(linked, taken)
        linked.mentions = linked.mentions[:MAX_MENTIONS]
        return linked

    def _mention(self, text: str, words: Sequence[Word], first: int, last: int) -> Mention | None:
        held = self._things.get("".join(w.text for w in words[first:last]))
        unsure = False
        one = words[first].text if last - first == 1 else ""
        if one in _OF_ADDRESSES and last < len(words) and words[last].text.startswith("address"):
            return None  # of whatever is called so, an IP address is none of its
        if not held and len(one) >= _MIN_TYPO and one.endswith("s") and one not in FILLER:
            # Several of one service: the workers.
            held = [(n, t) for n, t in self._things.get(one[:-1], ()) if t.kind == "service"]
            unsure = True
        written = text[words[first].start : words[last - 1].end]
        if _PAUSE.search(written):
            return None  # "gotenberg, gotenberg" is no image of that name
        if not held or (
            last - first > 1 and _spread(written) and written.lower() not in {n for n, _ in held}
        ):
            # "web 1" may be web1, but "on call" is not oncall where a phrase of common words is meant; a
            # phrase without words of asking may be meant as a name, as "node red" is.
            plain = all(w.text in stopwords() or w.text in FILLER for w in words[first:last])
            unsure = plain and sum(len(w.text) for w in words[first:last]) < 10
            if unsure:
                asking = any(w.text in FILLER for w in words[first:last])
                held = [] if asking else [(n, t) for n, t in held or () if n.isalnum()]
            if not held:
                return None
        things = []
        for name, thing in held:
            how = thing.how
            if how == "exact" and name != written.lower():
                how = "normalized"
            things.append(Thing(thing.kind, how, thing.node, thing.value, thing.place))
        things.sort(key=lambda t: _ORDER[t.how])
        return Mention(first, last, written, things, weak=unsure)

    def _wildcards(self, text: str, words: Sequence[Word], taken: list[bool]) -> list[Mention]:
        """Host names whose first label a proxy serves under any domain (``status.*``)."""
        found = []
        for host in _HOST.finditer(text):
            inside = [i for i, w in enumerate(words) if host.start() <= w.start and w.end <= host.end()]
            if len(inside) < 2 or any(taken[i] for i in inside):
                continue
            wildcard = host[1].lower() + ".*"
            things = [
                Thing(t.kind, "normalized", t.node, t.value, t.place)
                for _, t in self._things.get(joined(host[1]), ())
                if t.kind == "route" and t.value.lower() == wildcard
            ]
            if things:
                found.append(Mention(inside[0], inside[-1] + 1, host[0], things))
                for i in inside:
                    taken[i] = True
        return found

    def _weigh(self, linked: Linked, mention: Mention) -> None:
        """Whether a mention is weak, and which of its things the word beside it asks for."""
        words = linked.words
        after = [w.text for w in words[mention.last : mention.last + 2]]
        conf = after[:1] == ["proxy"] and after[1:] and after[1] in ("conf", "config", "file", "entry")
        for at in (mention.last + 1 if conf else mention.last, mention.first - 1):
            if not 0 <= at < len(words) or words[at].text not in LABELS:
                continue
            if (
                words[at].text == "host"
                and at > mention.first
                and words[at + 1 : at + 2]
                and words[at + 1].text.startswith("name")
            ):
                continue
            wanted = mention.of(*LABELS[words[at].text])
            if wanted:
                mention.label = words[at].text
                mention.label_at = (
                    tuple(range(min(at, mention.last), max(at, mention.first - 1) + 1))
                    if at >= mention.last
                    else (at,)
                )
                others = [t for t in mention.things if t not in wanted]
                mention.things = wanted + (others if words[at].text in ("server", "image") else [])
                return
        word = words[mention.first].text
        if mention.last - mention.first == 1:
            common = len(word) < 2 or word.isdigit() or word in stopwords() or word in FILLER
            # A file may be called by what it is about: ``tls.conf``.
            mention.weak = common or all(t.kind == "file" and t.how == "alias" for t in mention.things)

    def _slips(self, linked: Linked, taken: list[bool]) -> None:
        """Mentions of the one name that a word is a slip of, for the words that mean nothing else."""
        for i, word in enumerate(linked.words):
            plain = word.first and word.last and not taken[i] and len(word.text) >= _MIN_BEGUN
            if not plain or word.text in FILLER or not word.text.isalpha():
                continue
            # A word of the language is no slip, but a name may be short for it: paperless.
            common = word.text in stopwords()
            if common and len(word.text) < _MIN_COMMON:
                continue
            near = self._nearest(word.text) if len(word.text) >= _MIN_TYPO and not common else []
            near = near or self._beginning(word.text)
            if len(near) > 1:  # the first letter is rarely wrong, and a service is asked for most
                near = [n for n in near if n[0] == word.text[0]] or near
                near = [n for n in near if any(t.kind == "service" for _, t in self._things[n])] or near
            if len(near) != 1:
                continue
            held = [(name, t) for name, t in self._things[near[0]] if t.kind not in ("file", "address")]
            best = min((_ORDER[t.how] for _, t in held), default=0)
            meant = [(n, t) for n, t in held if _ORDER[t.how] == best]
            things = [Thing(t.kind, "typo", t.node, t.value, t.place) for _, t in meant]
            if things:
                written = linked.text[word.start : word.end]
                linked.mentions.append(Mention(i, i + 1, written, things, weak=True, meant=meant[0][0]))
        linked.mentions.sort(key=lambda m: m.first)

    def _beginning(self, word: str) -> list[str]:
        """The service that a word is short for: the one that begins with it, of which others are parts
        ("authentik" and "authentik-worker")."""
        if self._services is None:
            self._services = sorted(
                name
                for name, held in self._things.items()
                if any(t.kind == "service" and t.how == "exact" for _, t in held)
            )
        at = bisect_left(self._services, word)
        found = list(takewhile(lambda name: name.startswith(word), self._services[at : at + 50]))
        short = bool(found) and len(word) >= _MIN_SHORT * len(found[0])
        return found[:1] if short and all(n.startswith(found[0]) for n in found) else []

    def _nearest(self, word: str) -> list[str]:
        """The names that a word is a slip of: those one letter off, else in a long word those two off."""
        if self._of_length is None:
            lengths: dict[int, list[str]] = defaultdict(list)
            for name in self._things if len(self._things) <= _MAX_NAMES else ():
                if name.isalpha():
                    lengths[len(name)].append(name)
            self._of_length = lengths
        for slips in (1, 2) if len(word) >= _MIN_TWO_SLIPS else (1,):
            near = [
                name
                for length in range(max(len(word) - slips, _MIN_TYPO), len(word) + slips + 1)
                for name, *_ in process.extract_iter(
                    word, self._of_length.get(length, ()), scorer=OSA.distance, score_cutoff=slips
                )
            ]
            if near:
                return near
        return []


def _is_no_file(words: Sequence[Word], mention: Mention) -> bool:
    """Whether a word of asking would name a file alone, without saying that it does: "all" is not all.yml."""
    only_files = all(t.kind == "file" and t.how == "alias" for t in mention.things)
    return only_files and not mention.label and words[mention.first].text in FILLER


def _spread(written: str) -> bool:
    return bool(re.search(r"\s", written))
