"""Candidate relations of a piece of text with what speaks for and against each, as named features.

Every candidate is a relation of the graph model between two things of the piece. What the features weigh is
in ``model.json``; nothing here decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from taboot_pipelines.extraction.tier_a.prose.segments import Segment, Text
from taboot_pipelines.extraction.tier_a.prose.things import (
    Thing,
    Vocabulary,
    is_ordinary_name,
    is_setting,
    roles,
    verbs,
)
from taboot_pipelines.model.stores import PROXIES, STORES, TUNNELS

#: Things of one piece of text beyond which it is a list and states nothing of pairs.
_MOST_THINGS = 14
_NAMED = ("DEPENDS_ON", "CONNECTS_TO", "ROUTES_TO", "RUNS", "RUNS_IN", "USES_VPN")
_WORDS = re.compile(r"[A-Za-z][A-Za-z'’-]*|[:()=@|/,;&+–—-]")
FLAGS = {
    "not": re.compile(
        r"(?i)\b(?:not|never|neither|nor|without|cannot|no longer|none|instead of|rather than|"
        r"replaces?d?|disabled)\b|n['’]t\b|❌"
    ),
    "if": re.compile(
        r"(?i)\b(?:if|unless|whether|assuming|suppose|in case|depending on|optional(?:ly)?|otherwise)\b"
    ),
    "may": re.compile(
        r"(?i)\b(?:could|might|may|can|would|should|must|able to|want|allows?|supports?|let's|"
        r"let us|consider)\b"
    ),
    "past": re.compile(
        r"(?i)\b(?:was|were|had|did|previously|formerly|used to|until|failed|discovered|became|"
        r"migrated|moved|changed|switched|stopped|restarted)\b|\b20\d\d-\d\d-\d\d\b|\b\d{1,2}:\d\d\b"
    ),
    "future": re.compile(
        r"(?i)\b(?:will|plan(?:s|ned)?|todo|future|later|pending|proposed|rejected|considered|"
        r"upcoming|roadmap|next)\b"
    ),
    "example": re.compile(r"(?i)\b(?:e\.\s?g|for example|for instance|such as|example|e\.g\.|i\.e\.|like)\b"),
    "ask": re.compile(r"\?\W*\Z"),
    "you": re.compile(r"(?i)\b(?:you|your|yourself|we|our|i|my)\b"),
    "default": re.compile(r"(?i)\bdefaults?\b"),
    "any": re.compile(r"(?i)\b(?:any|each|every|some|other|another|different|either|various)\b"),
    "flow": re.compile(r"(?i)\b(?:flow|path|chain|pipeline|traffic|architecture|route|topology|diagram)\b"),
    "sets": re.compile(r"[A-Z]{2,}_[A-Z_]+|--[a-z]|\$\{?\w|=\S"),
}


@dataclass(slots=True)
class Candidate:
    """A relation that a piece may state. ``end`` is None for a BINDS whose address is not named."""

    type: str
    start: Thing
    end: Thing | None
    port: int | None = None
    protocol: str | None = None
    target: int | None = None
    features: list[str] = field(default_factory=list)
    #: Where the ends stand in the document.
    start_place: tuple[int, int] = (0, 0)
    end_place: tuple[int, int] = (0, 0)


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return a word without the commonest endings, so that forms of a verb meet."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    for ending in ("ing", "ies", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word.removesuffix(ending)
    return word


def flags(segment: Segment, plain: str) -> list[str]:
    """Return what tells whether the piece states that something is so: its words, its headings, its form."""
    found = [f"flag {name}" for name, pattern in FLAGS.items() if pattern.search(plain)]
    first = re.search(r"[A-Za-z][a-z]+", plain)
    if first and first.start() < 6 and first[0].lower() in roles()["order"]:
        found.append("flag order")
    above = {w for h in segment.headings[-2:] for w in re.findall(r"[a-z]+", h.lower())}
    if segment.fence is not None:
        above.update(re.findall(r"[a-z]+", segment.intro.lower()))
    found += [name for name, said in roles().items() if name.startswith("under-") and above & said]
    if segment.item[:1].isdigit():
        found.append("flag step")
    return found


def about(thing: Thing, side: str, vocabulary: Vocabulary) -> list[str]:
    """Return what a name looks like, as features of the first (``1``) or second (``2``) of a pair."""
    lower = thing.text.lower()
    found = [f"{side} {thing.by or thing.kind}", *_looks(thing.text, side)]
    if vocabulary.counts.get(lower, 0) > 1:
        found.append(f"{side} known")
    if lower in vocabulary.systems:
        found.append(f"{side} system")
    return found


#: What the last word of a key, a header or a phrase may say that it is a property of, and no name.
_PROPERTIES = frozenset().union(
    *(roles()[role] for role in ("port", "url", "ip", "setting", "told", "trouble"))
)


@lru_cache(maxsize=20_000)
def _looks(text: str, side: str) -> tuple[str, ...]:
    lower = text.lower()
    found = [f"{side} words {min(text.count(' '), 3)}"]
    words = re.findall(r"[a-z]+", lower)
    if words and words[-1] in roles()["kind"]:
        found.append(f"{side} kind")
    if words and words[-1] in _PROPERTIES:
        found.append(f"{side} property")
    if not roles()["machine"].isdisjoint(words):
        found.append(f"{side} machine")
    if is_ordinary_name(text):
        found.append(f"{side} ordinary")
    if lower in roles()["generic"] or (words and words[0] in roles()["nobody"]):
        found.append(f"{side} generic")
    if begins_order(text):
        found.append(f"{side} order")
    if re.search(r"\d", lower):
        found.append(f"{side} digit")
    if text.isupper() and len(text) > 1:
        found.append(f"{side} upper")
    if re.search(r"[a-z][A-Z]", text):
        found.append(f"{side} camel")
    return tuple(found)


def begins_order(text: str) -> bool:
    """Whether a text begins with a verb that tells somebody what to do: "Deploy the chart"."""
    first = re.search(r"[A-Za-z]+", text)
    return first is not None and stem(first[0]) in _order_stems()


@cache
def _order_stems() -> frozenset[str]:
    return frozenset(map(stem, roles()["order"]))


def alike(name: str, host: str) -> bool:
    """Whether a host is called like a name: ``mongodb.data.svc`` and MongoDB."""
    label = re.sub(r"[^a-z0-9]", "", host.lower().partition(".")[0])
    words = re.findall(r"[a-z0-9]+", name.lower())
    return len(label) > 2 and (
        label in words
        or "".join(words) in (label, "".join(re.findall(r"[a-z0-9]+", host.lower().partition(".")[0])))
        or any(len(w) > 3 and w in label for w in words)
    )


#: What stands between two names that are said not to be so related, or only to be able to.
_UNREAL = re.compile(
    r"(?i)\b(?:not|never|cannot|could|might|may|can|should|would|must|no longer|instead of|rather than)\b"
    r"|n['’]t\b"
)
#: One of these stands in whatever the pattern finds.
_UNREAL_WORDS = (
    *("not", "n't", "n’t", "never", "could", "might", "may", "can", "should", "would", "must"),
    *("no longer", "instead of", "rather than"),
)
#: What sets two clauses against each other, of which the second says nothing of what the first names.
_CONTRAST = re.compile(r"(?i)\b(?:but|whereas|while|although|though)\b|;")
_SUPPOSED_WORDS = ("if", "unless", "whether", "should", "suppose", "assuming", "imagine", "optionally")
#: What begins a sentence of which nothing holds as it stands.
_SUPPOSED = re.compile(rf"(?i)(?:^|[.,;:(]\s*)(?:{'|'.join(_SUPPOSED_WORDS)})\b")
#: Hosts that hold code, images and documentation of anything, and are no part of a system.
ELSEWHERE = re.compile(
    r"(?i)(?:^|\.)(?:github|gitlab|bitbucket|docker|readthedocs|wikipedia|npmjs|pypi|youtube|medium|"
    r"stackoverflow|ghcr|quay)\.(?:com|org|io|net)$|^(?:docs?|wiki|hub|blog|forum|support)\."
    r"|githubusercontent|artifacthub"
)


@lru_cache(maxsize=20_000)
def is_generic(text: str) -> bool:
    """Whether it says what any system has (a user, the internet, a database) or what is embedded."""
    text = text.removesuffix("'s").removesuffix("’s")
    if "." in text.strip(".") or "(" in text:
        return False  # A host; what is told apart in brackets, as "API (Go)".
    words = re.findall(r"[a-z]+", text.lower())
    return (
        not words
        or text.lower().rstrip("0123456789") in roles()["generic"]
        or text.removesuffix("s").lower() in roles()["generic"]
        # "Usenet client" is a program, "Tailscale user" nobody.
        or (words[-1] in roles()["nobody"] and (words[-1] not in roles()["kind"] or is_ordinary_name(text)))
        or (words[0] in roles()["nobody"] and len(words) < 3)
    )


#: Schemes of what is kept, and not of where something answers.
_OF_OBJECTS = frozenset(["s3", "gs", "file", "git", "git+ssh", "oci", "data", "mailto"])


def excluded(kind: str, name: Thing, address: Thing) -> bool:
    """Whether a name and an address cannot be so related by what they are."""
    host = address.host or ""
    if kind == "RESOLVES_TO" and address.kind == "ip" and host.startswith(("127.", "0.")):
        return True  # Loopback and "any": where something listens, and no name's address (RFC 1122, 3.2.1.3).
    if kind in ("EXPOSES_ENDPOINT", "ROUTES_TO") and (
        ELSEWHERE.search(host) or address.text.partition("://")[0] in _OF_OBJECTS
    ):
        return True
    if (
        address.kind != "hostport"
        or address.placeholder
        or not any(c.isalpha() for c in host)
        or host == "localhost"
    ):
        return False
    # Of a host by another name a thing is a client, and not what listens there.
    return alike(name.text, host) if kind == "CONNECTS_TO" else kind == "BINDS" and not alike(name.text, host)


@lru_cache(maxsize=20_000)
def _is_property(key: str) -> bool:
    """Whether a key says what its value is ("Website", "Management"), and names nothing that has it."""
    words = re.findall(r"[a-z-]+", key.lower())
    if not words or words[-1] in roles()["documentation"]:
        return bool(words)
    return is_ordinary_name(key) and words[-1] not in roles()["kind"]


def text_candidates(segment: Segment, things: Sequence[Thing], vocabulary: Vocabulary) -> Iterator[Candidate]:
    """Yield the candidates of a sentence, item or line ``key: value``."""
    plain = segment.text.plain
    if not 2 <= len(things) <= _MOST_THINGS:
        return
    if FLAGS["ask"].search(plain):
        return
    shared: list[str] = []
    possible = _possible(plain)
    lower = plain.lower()
    unreal = any(word in lower for word in _UNREAL_WORDS)
    supposed = any(word in lower for word in _SUPPOSED_WORDS)
    for i, one in enumerate(things[:-1]):
        if supposed and _SUPPOSED.search(plain, 0, one.start):
            continue
        for j in range(i + 1, len(things)):
            other = things[j]
            found_types = _types(one, other, possible)
            if not found_types or (unreal and _UNREAL.search(plain, one.end, other.start)):
                continue
            if segment.text.place(one.start, one.end)[0] >= segment.text.place(other.start, other.end)[1]:
                continue
            for kind, start, end in found_types:
                if kind == "RUNS" and end.kind == "name" and _CONTRAST.search(plain, one.end, other.start):
                    continue
                if kind == "CONNECTS_TO" and start is other and _is_active(plain[one.end : other.start]):
                    continue
                if start.kind == "name" and (is_setting(start.text) or is_generic(start.text)):
                    continue
                if start.text.lower() == end.text.lower():
                    continue
                if end.kind == "url" and is_of_a_command(segment.text, end):
                    continue
                if end.kind == "name" and (is_setting(end.text) or is_generic(end.text)):
                    continue
                if end.kind != "name" and excluded(kind, start, end):
                    continue
                if end.kind != "name" and segment.form == "key-value" and _is_property(start.text):
                    continue
                if segment.item == "lines" and one.kind == other.kind:
                    continue
                turned = start is other
                shared = shared or [f"form {segment.form}", *flags(segment, plain)]
                found = Candidate(kind, start, end)
                if kind == "BINDS":
                    address = end
                    assert address is not None
                    found.port, found.protocol = address.port, address.protocol
                    found.target = address.target
                    if address.kind == "port" or address.placeholder:
                        found.end = None
                found.features = _pair(
                    kind, turned, one, other, things[i + 1 : j], plain, shared, things, vocabulary
                )
                if j > i + 1:
                    found.features.append(f"{kind} skips {min(j - i - 1, 3)}")
                yield found


def is_of_a_command(text: Text, url: Thing) -> bool:
    """Whether a URL stands in code with more than it, as in a command that asks there."""
    spans = (text.plain[a:b] for a, b, mark in text.marks if mark == "code" and a <= url.start < b)
    return any(" " in said.strip() for said in spans)


def _is_active(gap: str) -> bool:
    """Whether what stands between two names states nothing that the second does to the first: verbs in the
    past of which the first is the subject ("the agent scraped it, and the store kept it"), since no passive
    is without "by", "from" or a form of "be"."""
    said = {w.lower() for w in _SAID.findall(gap)}
    verbal = said & verbs()["CONNECTS_TO<"]
    passive = {"by", "from", "is", "are", "be", "gets", "being", "been"}
    return bool(verbal) and all(w.endswith("ed") for w in verbal) and said.isdisjoint(passive)


def _possible(plain: str) -> list[tuple[str, bool]]:
    """The relations between names that some word of a text states, and whether the second begins them."""
    said = {w.lower() for w in _SAID.findall(plain)}
    table = verbs()
    return [
        (kind, turned)
        for kind in _NAMED
        for turned, sign in ((False, ">"), (True, "<"))
        if not table.get(f"{kind}{sign}", _NONE).isdisjoint(said)
    ]


_SAID = re.compile(r"[A-Za-z-]+")


def _types(one: Thing, other: Thing, possible: Sequence[tuple[str, bool]]) -> list[tuple[str, Thing, Thing]]:
    """Return the relations that two things may have by what they are and what is ``possible``."""
    if one.kind == "name" and other.kind == "name":
        return [(kind, other, one) if turned else (kind, one, other) for kind, turned in possible]
    return list(_of_address(one, other))


def _of_address(one: Thing, other: Thing) -> Iterator[tuple[str, Thing, Thing]]:
    name, address = (one, other) if one.kind == "name" else (other, one)
    if name.kind != "name":
        if {one.kind, other.kind} == {"host", "ip"}:
            host, ip = (one, other) if one.kind == "host" else (other, one)
            if not host.placeholder:
                yield "RESOLVES_TO", host, ip
        return
    match address.kind:
        case "port":
            yield "BINDS", name, address
        case "hostport":
            if address.port is not None:
                yield "BINDS", name, address
            if not address.placeholder:
                yield "CONNECTS_TO", name, address
                yield "ROUTES_TO", name, address
        case "url":
            if not address.placeholder:
                yield "EXPOSES_ENDPOINT", name, address
                yield "ROUTES_TO", name, address
            elif address.port is not None:
                yield "BINDS", name, address
        case "host":
            if not address.placeholder:
                yield "EXPOSES_ENDPOINT", name, address
                yield "RUNS", name, address
                yield "CONNECTS_TO", name, address
        case "ip":
            yield "RESOLVES_TO", name, address
        case "image":
            yield "BUILDS", name, address
        case _:
            pass


@lru_cache(maxsize=4096)
def _noun(thing: Thing, plain: str) -> str:
    """The noun that says what a name is, as its last word or behind it: "the `edge` Docker network"; else
    "none"."""
    kinds = roles()["kind"]
    last = re.findall(r"[a-z]+", thing.text.lower())[-1:]
    behind = re.match(r"\W{1,2}((?:\w+ )?)(\w+)", plain[thing.end : thing.end + 40])
    following = (behind[1].strip().lower(), behind[2].lower()) if behind else ()
    return next((word for word in (*last, *following) if word in kinds), "none")


#: Sorts of systems, by the nouns that people call them and by their software.
_SORTS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "network": (frozenset(["network", "networks", "vlan", "bridge", "overlay"]), frozenset()),
    "proxy": (frozenset(["proxy", "proxies", "gateway", "ingress", "balancer", "router", "cdn"]), PROXIES),
    "tunnel": (frozenset(["vpn", "tunnel", "tailnet"]), TUNNELS),
    "store": (frozenset(["database", "db", "cache", "broker", "queue", "store", "bucket"]), STORES),
}


@lru_cache(maxsize=20_000)
def _sort(name: str, noun: str) -> str:
    """Which sort of system a name says that it is: by its last word or the noun behind it ("the proxy
    network"), or by the software that it names ("Cloudflare Tunnel")."""
    words = re.findall(r"[a-z]+", name.lower())
    nouns = {*words[-1:], noun}
    found = (
        sort
        for sort, (said, software) in _SORTS.items()
        if not nouns.isdisjoint(said) or not software.isdisjoint(words)
    )
    return next(found, "other")


def sorts(kind: str, start: Thing, end: Thing, start_plain: str, end_plain: str) -> list[str]:
    """Return which sorts of systems a relation would lead from and to, as features; ``start_plain`` and
    ``end_plain``: the texts in which these names stand."""
    first = _sort(start.text, _noun(start, start_plain))
    second = _sort(end.text, _noun(end, end_plain))
    return [f"{kind} start is {first}", f"{kind} end is {second}", f"{kind} leads {first} {second}"]


def _pair(
    kind: str,
    turned: bool,
    one: Thing,
    other: Thing,
    between: Sequence[Thing],
    plain: str,
    shared: Sequence[str],
    things: Sequence[Thing],
    vocabulary: Vocabulary,
) -> list[str]:
    way = f"{kind}{'<' if turned else '>'}"
    named = one.kind == "name" and other.kind == "name"
    group = "NN" if named else kind
    form = shared[0]
    gap = plain[one.end : other.start]
    blanked = gap
    for thing in reversed(between):
        a, b = thing.start - one.end, thing.end - one.end
        blanked = f"{blanked[:a]} {'N' if thing.kind == 'name' else 'A'} {blanked[b:]}"
    words = [w if len(w) == 1 else stem(w) for w in _WORDS.findall(blanked)]
    found = [f"{kind}", f"{way}", form, f"{way} {form}", *shared[1:], *(f"{group} {f}" for f in shared[1:])]
    if len(words) <= 4:
        found.append(f"{way} gap {' '.join(words)}")
        found.append(f"gap {' '.join(words)}")
    found.append(f"{group} far {min(len(words) // 3, 5)}")
    said = {w for w in words if len(w) > 1}
    raw = {w.lower() for w in re.findall(r"[A-Za-z-]+", blanked)}
    found += [f"{way} w {w}" for w in sorted(said)[:14]]
    before = [stem(w) for w in re.findall(r"[A-Za-z]+", plain[max(0, one.start - 60) : one.start])[-2:]]
    after = [stem(w) for w in re.findall(r"[A-Za-z]+", plain[other.end : other.end + 60])[:2]]
    found += [f"{way} b {w}" for w in before] + [f"{way} a {w}" for w in after]
    table = verbs()
    if raw & table.get(way, _NONE):
        found += ["said", f"{way} said"]
        hits = [w for w in re.findall(r"[a-z-]+", blanked.lower()) if w in table[way]]
        if hits and len(re.findall(r"[A-Za-z]+", blanked)) <= 4:
            found.append(f"{group} said near")
    else:
        found += ["unsaid", f"{way} unsaid"]
    others = (
        [k for k in table if k != way and k[:-1] in _NAMED and not raw.isdisjoint(table[k])] if named else []
    )
    found += [f"{way} but {k}" for k in others]
    if not others and named:
        found.append(f"{way} only" if raw & table.get(way, _NONE) else "NN silent")
    if named:
        found += [f"{way} of {_noun(one, plain)}", f"{way} to {_noun(other, plain)}"]
        start, end = (other, one) if turned else (one, other)
        found += sorts(kind, start, end, plain, plain)
    found += [f"{group} {f}" for f in about(one, "1", vocabulary)]
    found += [f"{group} {f}" for f in about(other, "2", vocabulary)]
    if not plain[: one.start].strip(" *`-:✅[("):
        found.append(f"{group} begins")
        if form == "form key-value":
            found.append(f"{group} is key")
            looks = _looks(one.text, "1")
            found += ["key is " + f.removeprefix("1 ") for f in looks if f in ("1 ordinary", "1 property")]
    if not any(c.isalnum() for c in plain[other.end :]):
        found.append(f"{group} ends")
    if "." in gap.replace("..", "") and re.search(r"[.;]\s", gap):
        found.append(f"{group} over stop")
    if "," in gap:
        found.append(f"{group} over comma")
    if gap.count("(") != gap.count(")"):
        found.append(f"{group} bracket")
    if not named:
        address = other if one.kind == "name" else one
        name = one if address is other else other
        if address.host and alike(name.text, address.host):
            found += ["host alike", f"{kind} host alike"]
        found += [f"{kind} a {address.kind} {address.by}", f"{kind} order {'<' if one is address else '>'}"]
        if address.placeholder:
            found.append("placeholder")
        if address.host in ("localhost", "127.0.0.1", "0.0.0.0"):
            found.append(f"{kind} local")
        nearer = [t for t in things if t.kind == "name" and t is not one and t is not other]
        distance = other.start - one.end
        if any(
            abs(t.start - address.end if t.start >= address.end else address.start - t.end) < distance
            for t in nearer
        ):
            found.append(f"{kind} not nearest")
    return found


_NONE: frozenset[str] = frozenset()
