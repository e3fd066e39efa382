"""The values that configuration declares of a thing, whatever its format: images, versions, ports, addresses,
host names, networks and settings.

A value is known by what it is of. Of a service of Compose, and of what reads as one, that is the service; of
any other file what its key path names, then the file and its folder. An image is of its repository too, and a
setting of its key.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import ahocorasick_rs

from taboot_pipelines.extraction.tier_a.compose.variables import expand
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.prose.things import is_ordinary_name
from taboot_pipelines.knowledge.drift.facts import Authority, DocumentView
from taboot_pipelines.model.graph import TAILNET
from taboot_pipelines.retrieval.queries.config_files import ConfigEntries, ConfigEntry
from taboot_pipelines.retrieval.queries.relations import PRIVATE_DOMAINS
from taboot_pipelines.retrieval.queries.service_index import Edge, ServiceIndex, plain_name

Labels = tuple[str, ...]


class Property(StrEnum):
    """What of a thing a value is."""

    IMAGE = "image"
    VERSION = "version"
    PORT = "port"
    ADDRESS = "address"
    HOST_NAME = "host name"
    NETWORK = "network"
    SETTING = "setting"


@dataclass(frozen=True, slots=True)
class Declared:
    """A value that configuration declares, at ``[start, end)`` in code points of a document.

    ``about``: the names under which it is found, the nearest first; of a setting its key. ``names``: of the
    thing itself. ``folder``: of the file. ``role``: of a port that is mapped, which end it is; of a version,
    whether it is that of a chart, which is not that of what the chart installs, or an image's tag; of an
    address, whether it is said who has it.
    """

    property: Property
    value: str
    about: tuple[str, ...]
    names: tuple[str, ...]
    folder: str
    doc_id: str
    line: int
    start: int
    end: int
    role: str = ""


PUBLISHED, TARGET, CHART, TAG, HOLDER = "published", "target", "chart", "tag", "holder"
#: A number by itself, and no end of a range.
NUMBER = re.compile(r"(?<![\w.])(?<!\d[-–])\d{2,5}(?![\w]|\.\d|[-–]\d)")
IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
#: A key that is called as environment variables are, or as settings of Forgejo and Grafana in them.
SETTING_KEY = re.compile(r"[A-Z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+")
TOKEN = re.compile(r"[\w./:@+-]+")
#: A mapping of ports as Compose and Podman write it.
_MAPPING = re.compile(
    r"(?:[\d.]+:|\[[0-9a-f:]*\]:)?(?P<published>\d{2,5}):(?P<target>\d{2,5})(?:/\w+)?", re.IGNORECASE
)
_PORT_KEY = re.compile(r"(?i)(?:^|[^a-z])ports?$|[a-z]Port$|_port$|^listen$|^expose$|^published$|^target$")
_HOST_AND_PORT = re.compile(
    r"(?P<host>[a-z][\w.-]*|(?:\d{1,3}\.){3}\d{1,3}|[\]}]):(?P<port>\d{2,5})(?![\w.-])", re.IGNORECASE
)
_VERSION_KEY = re.compile(r"(?i)(?:version|tag|revision|release)$")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+")
_OF_A_THING = re.compile(
    r"(?i)([a-z][\w-]*?)[_-]?(?:version|tag|release|image|port|ip|address|host|hostname|domain|url)"
)
_TAGGED = re.compile(r"[^\s\"'@]+:\w[\w.-]*(?=$|@)")
_HOST_KEY = re.compile(r"(?i)(?:^|[_.-])(?:hosts?|hostnames?|server_name|domains?|fqdn)$")
#: Traefik's rules; the documentation of its routers.
_HOST_RULE = re.compile(r"Host(?:SNI|Header)?\(([^()]*)\)")
HOST = re.compile(
    r"(?<![\w@/.-])(?:https?://)?"
    r"((?:[a-z0-9*-]+|\$\{?\w+[^}\s]*\}?)(?:\.(?:[a-z0-9-]+|\$\{?\w+[^}\s]*\}?))+)",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"<[^>]*>|\$\{[^}]*\}|\$\w+|\{\{[^}]*\}\}|\[[^\]]*\]|%\w+%")
#: Addresses for documentation: RFC 5737.
_IN_DOCUMENTATION = [
    ipaddress.ip_network(network) for network in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
]
#: Keys under which each key is the name of a thing.
_NAMED_UNDER = frozenset(
    [
        "hosts",
        "services",
        "routers",
        "containers",
        "backends",
        "frontends",
        "upstreams",
        "apps",
        "applications",
    ]
)
_NO_WORD = re.compile(r"[^a-z0-9]+")
#: So like are two spellings of one name at least.
_ALIKE = 0.85
#: Values of more characters are texts.
_MAX_VALUE_CHARS = 500


def labels_of(host: str) -> Labels:
    """The labels of a host name, with ``*`` for each that is filled in elsewhere."""
    return tuple(_PLACEHOLDER.sub("*", host.lower()).strip(".").split("."))


def domain_of(labels: Labels) -> Labels:
    """The end that all host names of a house have in common: a placeholder, a private domain, two labels."""
    if "*" in labels[1:]:
        return labels[labels.index("*", 1) :]
    return labels[-1:] if len(labels) == 2 and labels[-1] in PRIVATE_DOMAINS else labels[-2:]


def likeness(one: str, other: str) -> float:
    """How much of two names is the same, from 0 to 1 (Ratcliff, Obershelp)."""
    return SequenceMatcher(None, one, other).ratio()


def is_spelled_like(label: str, other: str) -> bool:
    """Whether one label of a host name is spelled almost as the other, part by part, or has a part more at
    its end."""
    if label.startswith(f"{other}-") or other.startswith(f"{label}-"):
        return True
    parts, others = label.split("-"), other.split("-")
    alike = (likeness(a, b) >= _ALIKE for a, b in zip(parts, others, strict=False))
    return len(parts) == len(others) and all(alike)


def is_of_a_machine(address: str) -> bool:
    """Whether an address is one that a machine of a house has: private, and of no network."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    inside = (ip.is_private or ip in TAILNET) and not any(ip in network for network in _IN_DOCUMENTATION)
    return inside and not (ip.is_loopback or ip.is_unspecified or address.endswith((".0", ".255")))


def image_of(reference: str) -> tuple[str, str]:
    """Repository with its registry, and the tag that is written, of an image; empty for what is none."""
    found = try_reference(reference)
    if found is None:
        return "", ""
    is_tagged = ":" in reference.partition("@")[0].rpartition("/")[2]
    return f"{found.registry}/{found.repository}", (found.tag or "") if is_tagged else ""


def about_image(repository: str) -> str:
    return f"image {repository}"


def about_setting(key: str) -> str:
    return f"setting {key.lower()}"


class FileValues:
    """What one file of configuration, which lies in ``folder``, declares. ``hosts``: the host names in its
    values; ``numbers``: the numbers in the values of each name, or beside them."""

    def __init__(self, folder: str, entries: Sequence[ConfigEntry]) -> None:
        self.declared: list[Declared] = []
        self.hosts: set[Labels] = set()
        self.numbers: dict[str, set[str]] = defaultdict(set)
        repositories = {
            e.value.path[:-1]: e.value.value.strip() for e in entries if e.value.path[-1] == "repository"
        }
        charts = {e.value.path[:-1] for e in entries if e.value.path[-1] == "chart"}
        called: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            if entry.service and entry.value.path[2:] in (("container_name",), ("hostname",)):
                called[entry.service].append(entry.value.value)
        for entry in entries:
            names = _names_of(entry, folder, called.get(entry.service, ()))
            text = (entry.known or expand(entry.value.value, {}).text).strip().strip("\"'")
            if not 0 < len(text) <= _MAX_VALUE_CHARS:
                continue
            value = entry.value
            at = (folder, entry.document.doc_id, value.line, value.start, value.end)
            for found in _values_of(entry, text, names, repositories):
                about, role = found.about or names, found.role
                if found.property is Property.VERSION and _is_of_chart(entry, charts):
                    role = CHART
                self.declared.append(Declared(found.property, found.value, about, names, *at, role))
            self.hosts |= {labels_of(host) for host in HOST.findall(f"{text} {value.value}")}
            numbers = NUMBER.findall(f"{text} {value.comment}")
            for name in (*names, folder):
                self.numbers[name].update(numbers)


#: What files declare, by their documents, with the folder and the entries that it was read from.
Read = dict[str, tuple[str, Sequence[ConfigEntry], FileValues]]


class DeclaredValues:
    """What configuration declares, by the names of what it is of."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Declared]] = defaultdict(list)
        self._folders: dict[str, set[str]] = defaultdict(set)
        self._numbers: dict[str, set[str]] = defaultdict(set)
        #: {address: what has it}
        self._at: dict[str, set[str]] = defaultdict(set)
        #: {version that is no tag: the names under which it stands}
        self._versions: dict[str, set[str]] = defaultdict(set)
        #: Folders of files that declare what runs.
        self.running: set[str] = set()
        self.networks: set[str] = set()
        self.addresses: set[str] = set()
        #: The host names that something answers to, their domains, every end of them, and all host names that
        #: stand in configuration.
        self.answering: set[Labels] = set()
        self.domains: set[Labels] = set()
        self.zones: set[Labels] = set()
        self.hosts: set[Labels] = set()

    def put(self, found: Declared) -> None:
        for name in found.about:
            self._by_name[name].append(found)
            self._folders[name].add(found.folder)
        if found.property is Property.HOST_NAME:
            labels = labels_of(found.value)
            self.answering.add(labels)
            self.zones |= {labels[n:] for n in range(1, len(labels))}
            self.domains.add(domain_of(labels))
        elif found.property is Property.NETWORK:
            self.networks.add(found.value)
        elif found.property is Property.ADDRESS:
            self.addresses.add(found.value)
            self._at[found.value].update(found.names[:1] if found.role == HOLDER else ())
        elif found.property is Property.VERSION and found.role != TAG:
            self._versions[found.value].update(found.about)
        if found.property in (Property.PORT, Property.IMAGE):
            self.running.add(found.folder)
        if found.property is Property.PORT:
            for name in (*found.names, found.folder, *([""] if found.role != TARGET else [])):
                self._numbers[name].add(found.value)

    def take(self, file: FileValues) -> None:
        """Take in the values of one file."""
        for found in file.declared:
            self.put(found)
        self.hosts |= file.hosts
        for name, numbers in file.numbers.items():
            self._numbers[name] |= numbers

    def folder_called(self, name: str) -> str:
        """The one folder of configuration that is called so; empty if there is none, or several."""
        found = self._called.get(name, [])
        return found[0] if len(found) == 1 else ""

    @cached_property
    def _called(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for folder in sorted(self.running):
            found[plain_name(posixpath.basename(folder))].append(folder)
        return found

    def of(self, name: str, property_: Property, folder: str) -> list[Declared]:
        """What is declared of a name; for a text beside files that declare it, by these files."""
        found = [d for d in self._by_name.get(name, ()) if d.property is property_]
        # A host name is a proxy's to declare.
        beside = [] if property_ is Property.HOST_NAME else [d for d in found if d.folder == folder]
        return beside or found

    def answers_under_a_variable(self, labels: Labels) -> bool:
        """Whether something answers to a host name whose domain is filled in elsewhere."""
        return any((*labels[:n], "*") in self.answering for n in range(1, len(labels)))

    def of_domain(self, domain: Labels) -> list[Declared]:
        """The host names that are declared under a domain."""
        return self._by_domain.get(domain, [])

    def at_address(self, address: str) -> list[str]:
        """The one thing that has an address; none where several have it, or nothing is known of it."""
        held = self._at.get(address, set())
        return list(held) if len(held) == 1 else []

    def joined(self, text: str) -> list[str]:
        """The names that are a text but for what parts its words."""
        return self._joined.get(_NO_WORD.sub("", text.lower()), [])

    def is_version_of(self, value: str, name: str) -> bool:
        """Whether any version in configuration is this one under a key with this word in it."""
        return any(name in held.split("-") for held in self._versions.get(value, ()))

    def knows(self, name: str) -> bool:
        return name in self._by_name

    def is_number_of(self, number: str, names: Iterable[str]) -> bool:
        """Whether a number stands in any value, or beside one, that is about one of these names or lies in
        one of these folders; the empty name is all ports that are not inside of a container."""
        return any(number in self._numbers.get(name, ()) for name in names)

    def named_in(self, text: str, folder: str) -> list[str]:
        """The names that stand in a text, in order. A name that is a word as well counts only beside the
        files that declare it."""
        lowered = re.sub(r"[\s_]", "-", text.lower())
        if len(lowered) != len(text):
            return []  # A letter whose small form is two.
        found = []
        for number, start, end in self._finder.find_matches_as_indexes(lowered):
            name = self._names[number]
            if _goes_on(text, start - 1, start - 2) or _goes_on(text, end, end + 1):
                continue
            if not is_ordinary_name(name) or self._is_beside(name, folder):
                found.append(name)
        return found

    def _is_beside(self, name: str, folder: str) -> bool:
        """Whether a folder has files that declare a name, or one beneath it which is called so."""
        folders = self._folders[name]
        beneath = (f for f in folders if posixpath.dirname(f) == folder)
        return folder in folders or any(plain_name(posixpath.basename(f)) == name for f in beneath)

    @cached_property
    def _by_domain(self) -> dict[Labels, list[Declared]]:
        found: dict[Labels, list[Declared]] = defaultdict(list)
        for declared in {d: 0 for held in self._by_name.values() for d in held}:
            if declared.property is Property.HOST_NAME:
                found[domain_of(labels_of(declared.value))].append(declared)
        return found

    @cached_property
    def _joined(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            found[_NO_WORD.sub("", name)].append(name)
        return found

    @cached_property
    def _names(self) -> list[str]:
        return sorted(n for n in self._by_name if len(n) > 1 and any(c.isalpha() for c in n))

    @cached_property
    def _finder(self) -> ahocorasick_rs.AhoCorasick:
        return ahocorasick_rs.AhoCorasick(self._names, matchkind=ahocorasick_rs.MatchKind.LeftmostLongest)


def declared_values(
    house: ServiceIndex, config: ConfigEntries, documents: Mapping[str, DocumentView], read: Read
) -> DeclaredValues:
    """What the configuration in force declares: the values of its files, and what the graph knows of ports
    and addresses with their variables told. ``read``: what was read before, of whatever view."""
    found = DeclaredValues()
    folders = {i: d.folder for i, d in documents.items() if d.standing is Authority.CONFIG}
    for doc_id in sorted(folders.keys() & house.documents.keys()):
        folder, entries = folders[doc_id], config.of_document(doc_id)
        known = read.get(doc_id)
        if known is None or known[:2] != (folder, entries):
            known = read[doc_id] = folder, entries, FileValues(folder, entries)
        found.take(known[2])
    for number, service in house.services.items():
        called = (service.name, str(service.properties.get("containerName") or ""))
        names = tuple(dict.fromkeys(plain_name(name) for name in called if name))
        for edge in house.out(number, "BINDS") if service.declared else ():
            for role, key in ((PUBLISHED, "port"), (TARGET, "targetPort")):
                port = edge.properties.get(key)
                if isinstance(port, int) and edge.doc_id in folders:
                    found.put(_of_edge(Property.PORT, str(port), names, edge, folders, role))
    for edge in house.of_type("RESOLVES_TO"):
        if edge.doc_id in folders:
            address, names = house.name(edge.end), (plain_name(house.name(edge.start)),)
            found.put(_of_edge(Property.ADDRESS, address, names, edge, folders, HOLDER))
    return found


def _of_edge(
    property_: Property,
    value: str,
    names: tuple[str, ...],
    edge: Edge,
    folders: Mapping[str, str],
    role: str = "",
) -> Declared:
    folder = folders[edge.doc_id]
    return Declared(property_, value, names, names, folder, edge.doc_id, edge.line, *edge.span, role)


def _goes_on(text: str, at: int, beyond: int) -> bool:
    """Whether a name goes on at a place, and so is another: by a letter, a hyphen, or a dot and more."""
    if not 0 <= at < len(text):
        return False
    if text[at] == ".":
        return 0 <= beyond < len(text) and text[beyond].isalnum()
    return text[at].isalnum() or text[at] in "-_"


def _names_of(entry: ConfigEntry, folder: str, called: Iterable[str]) -> tuple[str, ...]:
    """What a value is of, the nearest name first."""
    base = posixpath.basename(folder)
    if entry.service:
        # Among them as an engine calls what it runs of a stack; units of one folder are no stack.
        of_stack = () if entry.document.is_unit else (f"{base}-{entry.service}", base)
        named = [entry.service, *called, *of_stack]
        return tuple(dict.fromkeys(plain_name(n) for n in named if n and "$" not in n))
    stem = posixpath.basename(entry.document.path).partition(".")[0]
    path = entry.value.path[:-1]
    keys = [*path[:1], *(key for above, key in pairwise(path) if above.lower() in _NAMED_UNDER)]
    parts = (_prefix(entry.value.path[-1]), *reversed(keys), stem, base)
    return tuple(dict.fromkeys(plain_name(n) for n in parts if not _is_word(n)))


def _prefix(key: str) -> str:
    """What a key such as ``gitea_version`` or ``GRAFANA_PORT`` names before its property."""
    match = _OF_A_THING.fullmatch(key)
    return match[1] if match is not None else ""


def _is_word(name: str) -> bool:
    return not name.strip() or is_ordinary_name(plain_name(name))


def _versioned(entry: ConfigEntry, names: tuple[str, ...]) -> tuple[str, ...]:
    """Of what alone a version is: of a service, or of what is named nearest in the key path."""
    if entry.service:
        return names if entry.document.is_unit else names[:-1]
    path = (*entry.value.path[:-1], _prefix(entry.value.path[-1]))
    keys = [plain_name(key) for key in reversed(path) if not _is_word(key)]
    return tuple(keys[:1]) or names


def _is_of_chart(entry: ConfigEntry, charts: Collection[tuple[str, ...]]) -> bool:
    """Whether a version is that of a chart: it stands beside the chart's name, in a key of charts, or among
    the dependencies of one (helm.sh, "Charts"; the API of Argo CD's Application)."""
    path = entry.value.path
    keyed = any("chart" in key.lower() for key in path)
    return path[:-1] in charts or keyed or posixpath.basename(entry.document.path) == "Chart.yaml"


class _Found(NamedTuple):
    """A value of an entry; ``about``: empty for the thing that the entry is of."""

    property: Property
    value: str
    about: tuple[str, ...] = ()
    role: str = ""


def _values_of(
    entry: ConfigEntry, text: str, names: tuple[str, ...], repositories: Mapping[tuple[str, ...], str]
) -> Iterator[_Found]:
    """Yield the values of an entry, which reads ``text`` with its variables."""
    path, key = entry.value.path, entry.value.path[-1]
    lower = key.lower()
    if lower == "image" or (lower.endswith("image") and _TAGGED.fullmatch(text)):
        yield from _of_image(*image_of(text), _versioned(entry, names))
    elif lower == "tag" and path[:-1] in repositories:
        yield from _of_image(image_of(repositories[path[:-1]])[0], text, _versioned(entry, names))
    elif _VERSION_KEY.search(key) and _VERSION.match(text) and path != ("version",):
        yield _Found(Property.VERSION, text, _versioned(entry, names))
    # Where an nginx conf listens is the proxy's port, and not that of what it is named after.
    listens = lower == "listen" and entry.document.mime == "text/x-nginx-conf"
    if _PORT_KEY.search(key) and not listens:
        yield from _ports(key, text)
    elif lower not in ("image", "user", "volumes"):
        for match in _HOST_AND_PORT.finditer(text):
            # The port of another is that one's, whoever asks for it.
            host = plain_name(match["host"])
            about = (host,) if host[0].isalpha() and host != "localhost" else ()
            yield _Found(Property.PORT, match["port"], about)
    for address in IPV4.findall(text):
        if is_of_a_machine(address):
            is_held = entry.service or _prefix(key) or not _NAMED_UNDER.isdisjoint(map(str.lower, path))
            yield _Found(Property.ADDRESS, address, role=HOLDER if is_held else "")
    if path[2:3] == ("networks",) and entry.service:
        # Podman calls what ``x.network`` makes ``systemd-x``; options stand behind a colon.
        for network in path[3:4] or re.findall(r"[\w.-]+(?![^\s,]*=)", text.partition(":")[0]):
            named = network.removesuffix(".network").removeprefix("systemd-")
            yield _Found(Property.NETWORK, plain_name(named))
    yield from _host_names(text, entry.value.value, is_host=_HOST_KEY.search(key) is not None)
    # A variable's default is in force as long as nothing sets the variable, and what does is not all known.
    is_default = not entry.known and "$" in entry.value.value
    is_key = SETTING_KEY.fullmatch(key) or (path[2:-1] == ("environment",) and key.isupper())
    if is_key and TOKEN.fullmatch(text) and not is_default:
        yield _Found(Property.SETTING, text, (about_setting(key),))


def _ports(key: str, text: str) -> Iterator[_Found]:
    """The ports of a key of ports, with their ends where a mapping says them."""
    mapping = _MAPPING.fullmatch(text)
    if mapping is not None:
        yield _Found(Property.PORT, mapping["published"], role=PUBLISHED)
        yield _Found(Property.PORT, mapping["target"], role=TARGET)
        return
    role = {"published": PUBLISHED, "target": TARGET}.get(key, "")
    for number in NUMBER.findall(IPV4.sub(" ", text)):
        yield _Found(Property.PORT, number, role=role)


def _of_image(repository: str, tag: str, versioned: tuple[str, ...]) -> Iterator[_Found]:
    if not tag:
        return
    short = repository.rpartition("/")[2]
    about = tuple(dict.fromkeys((about_image(repository), about_image(image_of(short)[0]))))
    yield _Found(Property.IMAGE, tag, about)
    if re.match(r"v?\d", tag):
        yield _Found(Property.VERSION, tag, tuple(dict.fromkeys((*versioned, plain_name(short)))), TAG)


def _host_names(text: str, raw: str, *, is_host: bool) -> Iterator[_Found]:
    """The host names that something answers to, with their variables and without."""
    rules = [*_HOST_RULE.findall(text), *_HOST_RULE.findall(raw)]
    for part in rules or ([text, raw] if is_host else []):
        for host in HOST.findall(part):
            if not IPV4.fullmatch(host):
                yield _Found(Property.HOST_NAME, host.lower())
                # A thing is mostly called as the first part of its host name.
                yield _Found(Property.HOST_NAME, host.lower(), (plain_name(host.partition(".")[0]),))
