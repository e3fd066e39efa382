"""What is named in a piece of text: names of things that run, addresses, ports and images, by their form.

A name shows by its mark (code, bold, link), by a capital within a sentence, by a hyphen or digit, by a noun
of role behind it ("the Flask backend"), or because the document itself uses it as one elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files

from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.prose.scan import EXTENSIONS, PACKAGE, PLACEHOLDER
from taboot_pipelines.extraction.tier_a.prose.segments import Text
from taboot_pipelines.packaged import word_list

_HOST = (
    r"(?:<[A-Za-z][\w .-]{0,40}>|\[[0-9A-Fa-f:]{2,45}\]|\$?\{\{?[^{}\s]{1,60}\}?\}|\$\w+"
    r"|[A-Za-z0-9_](?:[\w.*${}-]{0,250}[\w*}])?)"
)
_PORT = r"(?:[0-9]{2,5}|<[\w -]{1,30}>|\$\{?[A-Z_]{1,40}\}?)"
_ADDRESS = re.compile(
    rf"(?P<url>(?<![\w+.-])(?P<scheme>[a-z][a-z0-9+.-]{{1,14}})://(?P<uhost>\[[0-9A-Fa-f:]+\]|(?:<[^<>\n]"
    rf"{{1,40}}>|\$?\{{[^{{}}\s]{{1,60}}\}}|[\w.*$-]){{1,80}})?(?P<uport>:{_PORT})?(?:/[^\s<>\"'`|"
    rf"\\^)\],;]*|/<[^>\s]*>)?)"
    r"|(?P<ip>(?<![\w.:/-])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)(?P<prefix>/\d{1,2}(?!\d))?"
    r"(?P<iport>:\d{2,5}(?![\w.]))?)"
    r"|(?P<mapping>(?<![\w.:-])(?:\d{1,3}(?:\.\d{1,3}){3}:)?(?P<outer>\d{2,5}):(?P<inner>\d{2,5})"
    r"(?:/(?P<mproto>tcp|udp|TCP|UDP))?(?![\w:]))"
    rf"|(?P<hostport>(?<![\w/:.@$-])(?P<hhost>{_HOST}):(?P<hport>{_PORT})(?![\w:.-])(?:/[\w./-]*)?)"
    r"|(?P<bareport>(?<![\w:\])}>]):(?P<bport>\d{2,5})(?![\w:.]))"
    r"|(?P<portproto>(?<![\w.:/-])(?P<pport>\d{2,5})/(?P<proto>tcp|udp|TCP|UDP)(?:[+/](?:udp|tcp|"
    r"UDP|TCP))?(?!\w))"
    r"|(?P<image>(?<![\w/.@:-])[a-z0-9][a-z0-9.-]{0,80}(?::\d{2,5})?(?:/[a-z0-9][a-z0-9._-]{0,80})"
    r"{1,4}(?::\w[\w.-]{0,80})?(?:@sha256:[0-9a-f]+)?(?![\w/*]))"
    r"|(?P<tagged>(?<![\w/.@:-])[a-z][a-z0-9_-]{1,40}(?:\.[a-z0-9_-]+){0,3}:(?:[a-z]*\d[\w.-]{0,60}|"
    r"latest|stable|alpine|main|edge|nightly)(?![\w/:]))"
    r"|(?P<host>(?<![\w.@/$-])(?:\*\.|\$?\{[^{}\s]{1,40}\}\.|<[\w -]{1,30}>\.)?(?:[A-Za-z0-9_]"
    r"(?:[\w-]{0,62})?\.){1,8}[A-Za-z]{2,24}(?![\w/.@(-]*\w))"
)
_REGISTRY_LABELS = frozenset(("registry", "docker", "cr", "ghcr", "quay", "harbor", "images"))
#: "port 8080", "ports 80 and 443", "(8080)": numbers that a word makes ports.
_PORTS = re.compile(
    r"(?i)(?<![\w-])(?:node|host|target|container|tcp|udp|http|https)?ports?\b(?: number)?s?"
    r"(?:\s*[:=]?\s*|\s+on\s+)(?P<list>\**`?\d{2,5}\b`?(?:\s*(?:,|/|&|and|or|\+)+\s*`?\d{2,5}\b`?)*)"
)
_MAPPED = re.compile(
    r"(?i)\bport\s+(?P<inner>\d{2,5})\b[^.;]{0,60}?\b(?:mapped\s+)?to\s+(?:the\s+)?(?:host\s+)"
    r"?(?:port\s+)?(?P<outer>\d{2,5})\b"
)
#: A unit of measurement behind a number (SI and IEC 80000-13), which is a quantity then.
_UNIT = r" ?(?:[KMGT]i?(?:B|b|Hz)?(?:/s)?|[kmµn]?(?:Hz|s|W|V|A|m)|\w+/s|rpm|°C?)\b"
#: An amount, or how often something is done: a number with its unit, and nothing else.
_QUANTITY = re.compile(
    rf"[~≈<>]?\d+(?:[.,]\d+)?(?:{_UNIT}"
    r"|\s?(?:%|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?|months?|years?)\b)"
)
#: An owner and a group (chown(1)), which are written as two ports are.
OWNED = re.compile(r"(?i)\b(?:chown\w*|p?uids?|p?gids?|owner\w*)\b")
#: A time of day (ISO 8601), which is written as two ports are.
_CLOCK = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")
#: "the web UI on 3000": a number of at least four digits behind a preposition of place.
_AT_NUMBER = re.compile(rf"(?<![\w-])(?:on|at) `?(\d{{4,5}})\b(?![\d.:%/-]|{_UNIT})")
NUMBER = re.compile(r"(?<![\d.:\w/-])\d{2,5}(?![\d.:\w-]|/\d)")
_WORD = re.compile(r"[^\W_](?:[\w+&'’.-]*[\w+])?")
_PLAIN_NAME = re.compile(
    r"@?[^\W\d_][\w.@/-]{0,60}(?: \d{1,2}(?:\.\d+)?)?|\d?[^\W\d_][\w.-]{0,60}(?: [\w(][\w.()-]{0,40}){1,3}"
)
_NO_NAME = re.compile(
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[-./~$%#@].*|.*[=(){}\[\]<>*$\"'\\|;,].*|.*\.[a-z]{1,4}\(?\)"
    r"?|.*/|[\d.]+|v?\d+(?:\.\d+)+\S*"
)
_DUNNO = re.compile(r"(?:[A-Z]?[a-z]+){1,4}(?:\(\))|.*::.*")
_EXAMPLE_HOST = re.compile(
    r"(?i)(?:^|[.@])example(?:\.(?:com|org|net|test|local|lan|io))?$|[<>{}$*]|^(?:x+|foo|bar)\b|"
    r"\bexample\b|your|^my[-.]|[-_.](?:ip|host|hostname|domain|address)$|^(?:host|hostname|domain|"
    r"ip|server|address|swarmip|serverip|hostip)$|_ip|_host"
)
_ROLE_BEHIND = re.compile(r" ([a-z]+)(?![\w-])")


@dataclass(frozen=True, slots=True)
class Thing:
    """What stands at ``[start, end)`` of a text. ``kind``: ``name``, ``url``, ``hostport``, ``port``, ``ip``,
    ``cidr``, ``image`` or ``host``. ``by``: what shows that it is a name."""

    start: int
    end: int
    text: str
    kind: str
    by: str = ""
    port: int | None = None
    protocol: str | None = None
    host: str | None = None
    #: The port behind a published one.
    target: int | None = None
    #: Another's stand-in: ``example.com``, ``<ip>``, ``${DOMAIN}``.
    placeholder: bool = False


@cache
def roles() -> dict[str, frozenset[str]]:
    """Return the ordinary nouns by what they tell (``roles.txt``)."""
    lines = files(PACKAGE).joinpath("roles.txt").read_text("utf-8").splitlines()
    found: dict[str, list[str]] = {}
    role = ""
    for line in lines:
        if not line.startswith((" ", "#")):
            role, _, line = line.partition(":")
        if not line.startswith("#"):
            found.setdefault(role, []).extend(line.split())
    return {role: frozenset(said) for role, said in found.items()}


@cache
def verbs() -> dict[str, frozenset[str]]:
    """Return the words that state a relation, by relation and direction (``verbs.txt``)."""
    lines = files(PACKAGE).joinpath("verbs.txt").read_text("utf-8").splitlines()
    pairs = (line.split(":", 1) for line in lines if not line.startswith("#"))
    return {kind: frozenset(said.split()) for kind, said in pairs}


@lru_cache(maxsize=20_000)
def ordinary(word: str) -> bool:
    """Whether a word is one of English that is mostly written small, or one that any system has."""
    word = word.lower()
    return len(word) < 2 or word in word_list(PACKAGE, "ordinary_words.txt") or word in roles()["generic"]


#: Endings of files that are called as what they define, or as a library that is a product ("Node.js").
_UNITS = frozenset(("service", "socket", "timer", "network", "container", "volume", "js"))
_SETTING = re.compile(
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:=.*)?|[a-z][a-z0-9]*(?:_[a-z0-9]+){2,}|--?[a-z].*|[/~.].*"
    r"|.*[=(){}<>$;\\].*|\w+(?:\.\w+){2,}|[^\s/]+/[^\s/]+/\S*|[^\s/]+/"
    # The key of a label or annotation (Kubernetes), whose prefix is a domain: "io.cilium/lb-ipam-ips".
    r"|[a-z0-9-]+(?:\.[a-z0-9-]+)+/[A-Za-z0-9._-]+"
)
#: The group and version of an interface (Kubernetes): "apps.example.io/v1beta1".
_API_VERSION = re.compile(r"[a-z0-9.-]+/v\d+(?:(?:alpha|beta)\d+)?")
#: Mask of a subnet (RFC 950), which is nobody's address.
_MASK = re.compile(r"255\.\d{1,3}\.\d{1,3}\.\d{1,3}")


@lru_cache(maxsize=20_000)
def is_setting(text: str) -> bool:
    """Whether a word is called like a variable, an option, a path or a file, and so is no system; the file of
    a unit ("nginx.service") is that unit."""
    return _has_ending(text) or _SETTING.fullmatch(text) is not None


def is_quantity(text: str) -> bool:
    """Whether a text is an amount or an interval, and so names nothing: "1 min", "150 GB"."""
    return _QUANTITY.fullmatch(text.strip()) is not None


def is_file(text: str) -> bool:
    """Whether a word is called like a file, or is a path to one or to a directory."""
    return _has_ending(text) or text.endswith("/") or text.startswith(("/", "~/", "./", "../"))


def _has_ending(text: str) -> bool:
    """Whether a word ends as the name of a file does, that of a unit aside."""
    ending = text.rpartition(".")[2].lower() if "." in text[1:-1] else ""
    return ending in roles()["file"] and ending not in _UNITS


@lru_cache(maxsize=20_000)
def is_ordinary_name(text: str) -> bool:
    """Whether every word of a name is ordinary."""
    return all(ordinary(w) or w.isdigit() for w in re.split(r"[\s_/.-]+", text.strip().lower()) if w)


def addresses(text: Text) -> list[Thing]:
    """Return the addresses, ports and images of a text, in order."""
    return list(_short(text.plain) if len(text.plain) < _SHORT else _addresses(text.plain))


#: Of texts below so many code points the same ones come again: cells of a column, a row read twice.
_SHORT = 400


@lru_cache(maxsize=4096)
def _short(plain: str) -> tuple[Thing, ...]:
    return tuple(_addresses(plain))


def _addresses(plain: str) -> list[Thing]:
    found: list[Thing] = []
    if not _HAS_ADDRESS.search(plain):
        return found
    for match in _ADDRESS.finditer(plain):
        thing = _address(match, plain)
        if thing is not None:
            found.append(thing)
    for match in _MAPPED.finditer(plain):
        span, outer = match.span("outer"), int(match["outer"])
        found.append(Thing(*span, match["outer"], "port", "mapped", port=outer, target=int(match["inner"])))
    taken = [(t.start, t.end) for t in found] + [m.span("inner") for m in _MAPPED.finditer(plain)]
    for match in _PORTS.finditer(plain):
        for number in NUMBER.finditer(plain, match.start("list"), match.end("list")):
            if not any(s < number.end() and number.start() < e for s, e in taken):
                found.append(_port(number.start(), number.end(), number[0], _protocol(plain, match.start())))
    for match in _AT_NUMBER.finditer(plain):
        if not any(t.start < match.end(1) and match.start(1) < t.end for t in found):
            found.append(_port(match.start(1), match.end(1), match[1], None))
    found.sort(key=lambda t: t.start)
    ranges = {end for m in _RANGE.finditer(plain) for end in (m.start(1), m.start(2))}
    return [t for t in found if (t.port is None or 0 < t.port < 65536) and t.start not in ranges]


#: "10.0.0.2 to 10.0.0.9", "10.0.0.2 – 9": a range is nobody's address.
_RANGE = re.compile(
    r"(\d{1,3}(?:\.\d{1,3}){3})\s*(?:-|–|—|to|through|\.\.+)\s*((?:\d{1,3}\.){0,3}\d{1,3})(?![\d.])"
)
_HAS_ADDRESS = re.compile(r"\d|://|[a-z0-9]/[a-z0-9]|\w\.\w|\w:\w")


def _protocol(plain: str, at: int) -> str | None:
    before = plain[max(0, at - 5) : at].lower()
    return "udp" if "udp" in before else "tcp" if "tcp" in before else None


def _port(start: int, end: int, number: str, protocol: str | None) -> Thing:
    return Thing(start, end, number, "port", port=int(number), protocol=protocol)


def _trim(text: str) -> int:
    return len(text.rstrip(".,;:!?*_'\""))


def _address(match: re.Match[str], plain: str) -> Thing | None:
    start, end = match.span()
    said = match[0]
    end = start + _trim(said)
    said = plain[start:end]
    if match["url"] is not None:
        port = (match["uport"] or "")[1:]
        host = match["uhost"] or ""
        return Thing(
            start,
            end,
            said,
            "url",
            port=int(port) if port.isdigit() else None,
            host=host,
            placeholder=not host or _is_placeholder(host),
        )
    if match["ip"] is not None:
        if any(int(p) > 255 for p in said.partition(":")[0].partition("/")[0].split(".")):
            return None
        if match["prefix"]:
            return Thing(start, end, said, "cidr")
        if _MASK.fullmatch(said):
            return None
        if match["iport"]:
            host = said.partition(":")[0]
            return Thing(start, end, said, "hostport", port=int(match["iport"][1:]), host=host)
        return Thing(start, end, said, "ip", host=said)
    if match["mapping"] is not None:
        if _CLOCK.fullmatch(said) and match["outer"] != match["inner"]:
            return None
        if OWNED.search(plain) and "port" not in plain.lower():
            return None
        if match["inner"][0] == "0" or match["outer"][0] == "0":
            return None  # A time of day.
        return Thing(
            start,
            end,
            said,
            "port",
            by="mapping",
            port=int(match["outer"]),
            protocol=(match["mproto"] or "").lower() or None,
            target=int(match["inner"]),
        )
    if match["portproto"] is not None:
        return Thing(
            start, end, said, "port", by="protocol", port=int(match["pport"]), protocol=match["proto"].lower()
        )
    if match["bareport"] is not None:
        return Thing(start, end, said, "port", by="colon", port=int(match["bport"]))
    if match["hostport"] is not None:
        host, port = match["hhost"], match["hport"]
        if host.isdigit() or (port.isdigit() and len(port) < 2):
            return None
        name, _, ending = host.rpartition(".")
        # A file and a line; of several labels the last may be a country's (two letters, RFC 1591).
        if name and ending.lower() in EXTENSIONS and ("." not in name or len(ending) > 2):
            return None
        return Thing(
            start,
            end,
            said,
            "hostport",
            port=int(port) if port.isdigit() else None,
            host=host,
            placeholder=_is_placeholder(host),
        )
    if match["image"] is not None:
        last = said.rpartition("/")[2]
        first = said.partition("/")[0]
        if not any(c.isalpha() for c in first) or _API_VERSION.fullmatch(said):
            return None
        if "." in first and ":" not in said and "@" not in said and not _is_registry(first):
            # A web address that is written without its scheme.
            return Thing(start, end, said, "host", host=first, placeholder=_is_placeholder(first))
        if "." in last and ":" not in last and last.rpartition(".")[2].lower() in EXTENSIONS:
            return None
        if ":" not in last and "@" not in last and said.count("/") > 1 and "." not in first:
            return None
        return (
            Thing(
                start,
                end,
                said,
                "image",
                by="tag" if ":" in last else "registry" if "." in first else "path",
            )
            if try_reference(said)
            else None
        )
    if match["tagged"] is not None:
        return Thing(start, end, said, "image", by="tag") if try_reference(said) else None
    lower = said.lower()
    if lower.rpartition(".")[2] in EXTENSIONS | roles()["file"]:
        return None
    return Thing(start, end, said, "host", host=said, placeholder=_is_placeholder(said))


def _is_registry(host: str) -> bool:
    """Whether images are had from a host: one that is known for it, or that is called after it."""
    return host in word_list(PACKAGE, "image_registries.txt") or not _REGISTRY_LABELS.isdisjoint(
        host.split(".")
    )


def _is_placeholder(host: str) -> bool:
    return host.lower() != "localhost" and (
        _EXAMPLE_HOST.search(host) is not None
        or PLACEHOLDER.search(host.strip("[]")) is not None
        or ((host.isupper() and "." not in host) or any(p.isupper() and len(p) > 3 for p in host.split(".")))
    )


class Vocabulary:
    """The names that a document itself uses as such: as code, bold, in headings, tables, capitals.

    ``counts``: how often each stands there, by its lower-case form.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.systems: set[str] = set()

    def add(self, name: str) -> None:
        key = name.lower()
        self.counts[key] = self.counts.get(key, 0) + 1


def names(text: Text, taken: Iterable[Thing], vocabulary: Vocabulary | None = None) -> list[Thing]:
    """Return the names of a text that is no address, in order; small words of ``vocabulary`` count."""
    plain = text.plain
    blocked = [(t.start, t.end) for t in taken]
    found: list[Thing] = []

    def free(start: int, end: int) -> bool:
        return not any(s < end and start < e for s, e in blocked)

    def with_role(end: int) -> int:
        """Where a marked name ends with the noun of its role behind it: "`web` service"."""
        following = _ROLE_BEHIND.match(plain, end)
        return following.end() if following and following[1] in roles()["kind"] else end

    def put(start: int, end: int, by: str) -> None:
        while end > start and plain[end - 1] in " .,;:!?*'\"-–(":
            end -= 1
        while start < end and plain[start] in " *'\"(":
            start += 1
        if end - start > 1 and free(start, end):
            found.append(Thing(start, end, plain[start:end], "name", by))
            blocked.append((start, end))

    for start, end, mark in sorted(text.marks, key=lambda m: (m[2] != "code", m[0] - m[1])):
        said = plain[start:end]
        if mark == "code":
            if (
                free(start, end)
                and len(said) < 64
                and not _NO_NAME.fullmatch(said)
                and _PLAIN_NAME.fullmatch(said)
                and not (" " in said and said.islower())
                and not said.endswith(".")  # The first labels of a host name, whose domain is told elsewhere.
            ):
                put(start, with_role(end), "code")
            else:
                blocked.append((start, end))
        elif len(said) < 48 and said.count(" ") < 4 and any(c.isalpha() for c in said) and free(start, end):
            bare = said.rstrip(" :.")
            if bare and not _NO_NAME.fullmatch(bare) and not (is_ordinary_name(bare) and bare.islower()):
                put(start, with_role(end), mark)
    words = [(m.start(), m.end()) for m in _WORD.finditer(plain)]
    kinds = roles()["kind"]
    index = 0
    while index < len(words):
        start, end = words[index]
        if not free(start, end):
            index += 1
            continue
        last = index
        word = plain[start:end]
        if _capital(word):
            first_of_sentence = _begins(plain, start)
            while (
                last + 1 < len(words)
                and plain[words[last][1] : words[last + 1][0]] == " "
                and free(*words[last + 1])
                and (
                    _capital(plain[slice(*words[last + 1])])
                    or (plain[slice(*words[last + 1])].isdigit() and last + 1 - index < 3)
                )
            ):
                last += 1
            begin = index
            if first_of_sentence and begin < last:
                # "Open Grafana", "Queries Loki": a verb, unless the document says both elsewhere.
                lead = plain[slice(*words[begin])].lower()
                rest = plain[words[begin + 1][0] : words[last][1]]
                whole = plain[words[begin][0] : words[last][1]].lower()
                told = vocabulary is not None and vocabulary.counts.get(whole, 0) > 1
                orders = lead in roles()["order"] or lead in _of_verbs() or _inflected(lead)
                if not told and (lead in roles()["leading"] or (orders and not is_ordinary_name(rest))):
                    begin += 1
            while begin <= last and plain[slice(*words[begin])].lower() in roles()["article"]:
                begin += 1
            if begin > last:
                index = last + 1
                continue
            only = plain[words[begin][0] : words[last][1]]
            alone_ordinary = is_ordinary_name(only)
            tail = last
            if (
                tail + 1 < len(words)
                and plain[words[tail][1] : words[tail + 1][0]] == " "
                and plain[slice(*words[tail + 1])] in kinds
                and free(*words[tail + 1])
            ):
                tail += 1
            if not (alone_ordinary and first_of_sentence and begin == last and tail == last):
                put(
                    words[begin][0],
                    words[tail][1],
                    "ordinary capital"
                    if alone_ordinary
                    else "first"
                    if first_of_sentence and begin == index
                    else "capital",
                )
            index = tail + 1
            continue
        shown = ""
        if not word.isalpha() and _joined(word):
            shown = "hyphen"
        if (
            not shown
            and vocabulary is not None
            and vocabulary.counts.get(word.lower(), 0)
            and not ordinary(word)
        ):
            shown = "vocabulary"
        following = (
            words[index + 1] if index + 1 < len(words) and plain[end : words[index + 1][0]] == " " else None
        )
        if following is not None and plain[slice(*following)] in kinds and free(*following):
            if shown or not ordinary(word):
                put(start, following[1], shown or "role")
                index += 2
                continue
            if (
                word not in roles()["article"]
                and index
                and plain[slice(*words[index - 1])].lower() in ("the", "our")
                and word.isalpha()
            ):
                put(start, following[1], "ordinary role")
                index += 2
                continue
        if not shown and len(word) > 3 and _unknown(word):
            shown = "unknown"
        if shown:
            put(start, end, shown)
        elif word in kinds and index and plain[slice(*words[index - 1])].lower() in ("the", "our"):
            put(start, end, "kind")
        index += 1
    found.sort(key=lambda t: t.start)
    return found


def _begins(plain: str, start: int) -> bool:
    """Whether a sentence begins at a place of a text, or the text does, marks aside."""
    at = start
    while at and plain[at - 1].isspace():
        at -= 1
    return at == 0 or plain[at - 1] in ".!?:" or not any(c.isalnum() for c in plain[:at])


@lru_cache(maxsize=20_000)
def _joined(word: str) -> bool:
    return (
        _JOINED.search(word) is not None
        or (any(c.isdigit() for c in word) and word[0].isalpha() and len(word) > 2)
    ) and not is_ordinary_name(word)


_JOINED = re.compile(r"[a-z\d][-_][a-z\d]")


@cache
def _of_verbs() -> frozenset[str]:
    """Return the verbs that state a relation, as a sentence may begin with them ("Query Loki")."""
    return frozenset().union(*verbs().values())


@lru_cache(maxsize=20_000)
def _unknown(word: str) -> bool:
    return word.isalpha() and not ordinary(word) and not _inflected(word)


@lru_cache(maxsize=20_000)
def _inflected(word: str) -> bool:
    for ending in (
        "s",
        "es",
        "ed",
        "d",
        "ing",
        "ly",
        "er",
        "ers",
        "able",
        "ability",
        "ment",
        "ness",
        "ion",
        "ions",
        "al",
        "ity",
    ):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            stem = word.removesuffix(ending)
            if ordinary(stem) or ordinary(stem + "e") or ordinary(stem + "y") or ordinary(stem[:-1]):
                return True
    return False


def _capital(word: str) -> bool:
    return not word.islower() and any(c.isupper() for c in word)


def renamed(thing: Thing, start: int, end: int, plain: str) -> Thing:
    """Return the thing as the part of it that ``plain[start:end]`` is."""
    return replace(thing, start=start, end=end, text=plain[start:end])
