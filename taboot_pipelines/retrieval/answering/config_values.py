"""Which of many values answers a question: by the table of properties, else by the words of the key.

Every word of the question that means something must stand in the key, beside it in a comment, or in the
value. A word that stands nowhere means that something else is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from taboot_pipelines.retrieval.answering.answer_types import Value as Kind
from taboot_pipelines.retrieval.answering.question import Question, spelled
from taboot_pipelines.retrieval.answering.question_types import PROBABLE
from taboot_pipelines.retrieval.answering.vocabulary import FILLER, PROPERTIES
from taboot_pipelines.retrieval.answering.words import alike, group, key_synonyms, stem
from taboot_pipelines.retrieval.queries.citations import CitedStatement, Found, StatementSpan, listed
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry
from taboot_pipelines.retrieval.queries.service_index import distinct

# --- How values of configuration are said: as a person would say them where their key has a phrase, else by
#     their key path. Variables are replaced where the files or the graph tell their value, and named where
#     not

#: A value that is wholly put in by a template of Jinja, Go or Helm.
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
#: Values of one statement.
MAX_SHOWN = 6

_LETTERS = re.compile(r"[^A-Z]+")
_ON = re.compile(r"true|yes|on|1", re.IGNORECASE)
_MODE = re.compile(r":(?:[a-zA-Z]+,)*(?:ro|readonly)(?:,[a-zA-Z]+)*$")
#: The sections of a Compose file whose entries have names, and what one is called.
_ENTRIES = {"networks": "network", "volumes": "volume", "secrets": "secret", "configs": "config"}
#: The phrase of each end of a key path, longest first.
_PHRASES = sorted(
    ((key, p.phrase) for p in PROPERTIES if p.phrase for key in p.keys),
    key=lambda x: (-x[0].count("."), -len(x[0])),
)


class _Frame(NamedTuple):
    """The words around the values of one property of one thing; ``verb``: of one value, and of several."""

    before: str
    verb: tuple[str, str]
    after: str


def value_statement(placed: Sequence[ConfigEntry]) -> CitedStatement:
    """What several values say, those of one thing and property together, in their order."""
    groups: dict[_Frame, list[str]] = {}
    for p in placed[:MAX_SHOWN]:
        frame, value = _said(p)
        groups.setdefault(frame, []).append(value)
    parts = [
        " ".join(filter(None, (f.before, f.verb[len(distinct(values)) > 1], listed(values), f.after)))
        for f, values in groups.items()
    ]
    text = "; ".join(parts)
    rest = len(placed) - MAX_SHOWN
    text += f"; and {rest} more" if rest > 0 else ""
    text = f"{text[0].upper()}{text[1:]}" if text.startswith(("the ", "in ")) else text
    return CitedStatement(f"{text}.", places(placed[:MAX_SHOWN]))


def places(placed: Iterable[ConfigEntry]) -> list[StatementSpan]:
    """Where values stand and where their variables are set, each line once."""
    found = {(c.doc_id, c.line): c for p in placed for c in (*p.also, p.cite)}
    own = [p.cite for p in placed]
    return list({(c.doc_id, c.line): c for c in (*own, *found.values())}.values())


def _said(p: ConfigEntry) -> tuple[_Frame, str]:
    path, value, thing = p.value.path, p.shown, thing_of(p)
    own = path[p.lead :]
    key, phrase = phrase_of(p)
    if phrase.startswith("~"):
        return _Frame(thing, ("is", "is") if _ON.fullmatch(value) else ("is not", "is not"), ""), phrase[1:]
    if phrase:
        variable = f"({path[-1]})" if path[-1].isupper() and path[-1] != key else ""
        many = phrase.endswith("s") and not phrase.endswith("ss") and " of " not in phrase
        return _Frame(f"the {phrase} of {thing}", ("are" if many else "is", "are"), variable), value
    if p.service and own == ("volumes",) and ":" in value:
        source, _, target = _MODE.sub("", value).partition(":")
        mode = " (read-only)" if _MODE.search(value) else ""
        return _Frame(thing, ("mounts", "mounts"), ""), f"{source} at {target}{mode}"
    if p.service and len(own) == 2 and own[0] == "environment":
        return _Frame(f"{thing} sets {own[1]}", ("to", "to"), ""), value
    if p.service and own[0] in ("command", "entrypoint") and own[-1].startswith("-"):
        return _Frame(thing, ("is started with", "is started with"), ""), f"{own[-1]}={value}"
    if p.service and len(own) == 2 and own[0] == "labels":
        return _Frame(thing, ("has the label", "has the labels"), ""), f"{own[1]}={value}"
    return _Frame(f"in {p.document.path}, {p.value.key}", ("is", "is"), ""), value


def phrase_of(p: ConfigEntry) -> tuple[str, str]:
    """The end of the key path that has a phrase, and the phrase; empty if there is none."""
    key, phrase = next(((key, phrase) for key, phrase in _PHRASES if p.ends_in(key)), ("", ""))
    last = p.value.path[-1].upper()
    if key.isupper() and last != key:
        # ONLY_SUBDOMAINS are no subdomains, but GITEA_LOG_LEVEL is gitea's log level.
        of, service = _LETTERS.sub("", last.removesuffix(key)), _LETTERS.sub("", p.service.upper())
        if not of or not (service.startswith(of) or of.startswith(service)):
            return "", ""
    return key, phrase


def thing_of(p: ConfigEntry) -> str:
    """What a value belongs to, in words: a service, a network, a server of a proxy, else the file."""
    path = p.value.path
    if p.service:
        return p.service
    if path[0] in _ENTRIES and len(path) > 2:
        return f"the {_ENTRIES[path[0]]} {path[1]}"
    if p.document.mime == "text/x-nginx-conf":
        blocks = [b.split(" ") for b in path[: p.lead]]
        place = next((b[-1] for b in reversed(blocks) if b[0] == "location"), "/")
        server = next((b[1] for b in reversed(blocks) if b[0] == "server" and len(b) > 1), "")
        return f"{server}{place if place != '/' else ''}" or p.document.path
    return p.document.path


# --- When a service does its work: a question for the time at which something acts is answered by the one
#     schedule that it has, whatever verb the question uses for its work

_SURE = 0.82
#: A service that acts, and what it does.
_ACTS = re.compile(
    r"(?:when|how (?:often|frequently)|(?:at |on )?(?:what|which) (?:times?|hours?|days?)) (?:exactly )?"
    r"(?:does|do|will) (?:the |our |my )?@\w*"
)
#: What no schedule of a service's own says.
_LIFE = re.compile(
    r"\bgets? \w+ed\b"
    r"|\b(?:expires?|ends?|stops?|dies?|crash(?:es)?|fails?|release[sd]?|restarts?|retires?|renews?|starts?"
    r"|boots?)\b"
)
_CRON = re.compile(
    r"(?:@(?:every [\dhms]+|hourly|daily|weekly|monthly|midnight)|(?:[\d*/,A-Za-z-]+ ){4,5}[\d*/,A-Za-z?-]+)"
)
_KEY = re.compile(r"cron|schedule|interval|every", re.IGNORECASE)


def activity(question: Question, values: Sequence[ConfigEntry], used: set[int]) -> Found | None:
    """The one schedule among the values of a service that the question asks when it acts."""
    if not _ACTS.search(question.masked[0]) or _LIFE.search(question.lower):
        return None
    held = [
        p for p in values if p.service and _KEY.search(p.value.key) and _CRON.fullmatch(p.value.value.strip())
    ]
    if len({p.value.value for p in held}) != 1:
        return None
    return Found(
        [value_statement(held[:1])], set(range(len(question.linked.words))), _SURE, "its schedule", 1
    )


#: The group of what a database is called.
_DATABASE = "~database"
_PARTS = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|\d+")
#: How surely a word is said where the key says it.
_BY_KEY = 0.8
#: What a word counts that is among those which name the property asked for.
_NOUN = 1.5
WORDS = re.compile(r"[a-z0-9]+")
#: The sections of a Compose file under which a name stands, which is compared whole and in no other form.
_SECTIONS = frozenset({"services", "networks", "volumes", "secrets", "configs"})
#: The ends of a range.
_EXTREMES = frozenset({"min", "max"})
#: Who asks for the form in which an object of Kubernetes is written.
_API = re.compile(r"\bapi ?version")
#: Who asks for a health check, or for what only one has.
_CHECKS = re.compile(r"health|\bcheck|\bprob(?:e[sd]?|ing)\b|\bretr(?:y|ies)\b|\bstart periods?\b")
#: Who asks for these asks whom the process is, not under which name it logs in elsewhere.
_RUNS_AS = re.compile(r"\b(?:runs?|running|start\w*) (?:as|under)\b")


@dataclass(slots=True)
class Match:
    """A value that answers: the words that it explains, and how well its key fits."""

    placed: ConfigEntry
    words: set[int]
    fit: float


def best_value(question: Question, values: Sequence[ConfigEntry], used: set[int]) -> Found | None:
    """The values that answer a question about the thing that the words ``used`` name; None if none fits."""
    if not _API.search(question.lower):
        # It says in which form a thing is described, and is no version of it.
        values = [v for v in values if v.value.path[-1] != "apiVersion"]
    if not _CHECKS.search(question.lower):
        # How often it is checked is not how often it does anything.
        values = [v for v in values if "healthcheck" not in v.value.path]
    matches = _by_table(question, values, used)
    words = [] if _RUNS_AS.search(question.lower) else _by_words(question, values, used)
    by_words = False
    if words and (not matches or _left(question, words, used) < _left(question, matches, used)):
        matches, by_words = words, True
    if not matches:
        return None
    matches = [m for m in matches if not m.placed.value.secret and _is_told(question, m.placed)]
    if not matches:
        return None
    explained = set(used).union(*(m.words for m in matches))
    placed = [m.placed for m in matches]
    weight = 1.0 if max(m.fit for m in matches) >= 0.5 else 0.95
    if by_words and len({p.value.path[-1] for p in placed}) > 2:
        weight = 0.7
    matched = max(len(m.words - set(used)) for m in matches)
    if len(placed) == 1:
        beside = {stem(w) for w in WORDS.findall(placed[0].value.comment.lower())}
        explained |= {
            i for i in question.unexplained(explained) if stem(question.linked.words[i].text) in beside
        }
    if {w for p in placed for w in key_words(p.value.path[-1:])} >= _EXTREMES:
        explained |= {i for i, w in enumerate(question.linked.words) if w.text in ("range", "ranges")}
    owners = {(p.document.doc_id, p.service) for p in placed if p.service}
    about = owners.pop() if len(owners) == 1 else None
    return Found([value_statement(placed)], explained, weight, "its configuration", matched, about)


def _is_told(question: Question, placed: ConfigEntry) -> bool:
    """Whether a setting tells what is asked for: what a template is yet to put in is no value, and a machine
    has no address that stands for all of them."""
    value = (placed.known or placed.value.value).rpartition("=")[2].strip(" \t\\\"'")
    if _PLACEHOLDER.fullmatch(value):
        return False
    asks_address = any(a.kind == "ip" and a.probability >= PROBABLE for a in question.asked)
    return not asks_address or value not in ("0.0.0.0", "::", "[::]")


def _by_table(question: Question, values: Sequence[ConfigEntry], used: set[int]) -> list[Match]:
    """The values of the property that the question names, by the key that leaves the fewest words."""
    best: list[Match] = []
    fewest = len(question.linked.words) + 1
    for pattern, keys, _ in PROPERTIES:
        words = question.words_matching(pattern) - question.named
        if not words:
            continue
        for key in keys:
            matches = [Match(p, set(words), 1.0) for p in values if p.ends_in(key)]
            if not matches:
                continue
            left = len(question.unexplained(used | words))
            if left < fewest or (left == fewest and len(words) > len(best[0].words)):
                best, fewest = _narrow(question, matches, used), left
            break
    return best


def _narrow(question: Question, matches: list[Match], used: set[int]) -> list[Match]:
    """Of several values of one property those that hold further words of the question: a volume by the
    path that is asked for, an address by its network."""
    matches = _whole(matches)
    rest = [i for i in range(len(question.linked.words)) if i not in matches[0].words]
    counted = []
    for match in matches:
        text = " ".join([*match.placed.value.path[match.placed.lead :], match.placed.value.value]).lower()
        tokens = set(WORDS.findall(text))
        hits = {
            i
            for i in rest
            if question.linked.words[i].text in tokens and question.linked.words[i].text not in FILLER
        }
        counted.append((len(hits - _service_words(question, match, used)), hits))
    top = max(n for n, _ in counted)
    if top:
        kept = [(m, h) for m, (n, h) in zip(matches, counted, strict=True) if n == top]
        for match, hits in kept:
            match.words |= hits
        return [m for m, _ in kept]
    return matches


def _by_words(question: Question, values: Sequence[ConfigEntry], used: set[int]) -> list[Match]:
    """The values whose key, value or comment holds the words that are left, best key first."""
    left = question.unexplained(used)
    # Words that fill a sentence may still be a key's: "default", "host".
    once = {question.linked.words[i].text: i for i in reversed(left)}
    wanted = {i: spelled([word])[0] for word, i in once.items()}
    if not wanted:
        return []
    best: list[Match] = []
    score = 0.0
    noun = set(WORDS.findall(question.reading.noun))
    for placed in values:
        path = placed.value.path
        keys = key_words(path[placed.lead :] if placed.lead or path[0] not in _SECTIONS else path[2:])
        if not keys or not suits(question, placed.value.value):
            continue
        if "depends_on" in placed.value.path and "condition" not in question.lower:
            continue  # who depends on whom is an edge
        inside = set(WORDS.findall(placed.value.value.lower()))
        around = [placed.value.comment, *path[2 if placed.service else 0 : placed.lead]]
        beside = set(WORDS.findall(" ".join(around).lower()))
        named_here = set(WORDS.findall(path[1].lower())) if not placed.lead and len(path) > 2 else set()
        total, key_hits, hits = 0.0, 0, set()
        for i, word in wanted.items():
            last = placed.value.path[-1]
            strength = strength_of(word, keys, last, placed.value.value, inside, beside)
            strength = max(strength, 0.5 * (word in named_here))
            if strength:
                total += strength * (_NOUN if word in noun and strength >= _BY_KEY else 1.0)
                key_hits += strength >= _BY_KEY
                hits |= {n for n in left if question.linked.words[n].text == question.linked.words[i].text}
        if not key_hits:
            continue
        owner = {stem(w) for w in WORDS.findall(placed.service.lower())}
        named = {stem(question.linked.words[i].text) for i in used if i < len(question.linked.words)}
        foreign = [k for k in key_words(placed.value.path[-1:]) if k not in owner | named]
        fit = key_hits / max(len(foreign), key_hits, 1)
        worth = (
            total
            + 0.3 * fit
            - 0.02 * (len(placed.value.path) - placed.lead)
            + 0.05 * suits(question, placed.value.value)
        )
        match = Match(placed, hits, fit)
        if worth > score + 1e-9:
            best, score = [match], worth
        elif abs(worth - score) <= 1e-9 and len(best) < MAX_SHOWN:
            best.append(match)
    return _whole(best)


def worth_of(question: Question, found: Found) -> tuple[float, float]:
    """How well a finding fits: by the words that it leaves unexplained, then by how sure it is."""
    return (-len(question.unexplained(found.used)), found.weight)


def _left(question: Question, matches: Sequence[Match], used: set[int]) -> int:
    return len(question.unexplained(set(used).union(*(m.words for m in matches))))


def _service_words(question: Question, match: Match, used: set[int]) -> set[int]:
    own = set(WORDS.findall(match.placed.service.lower()))
    return {i for i in used if question.linked.words[i].text in own}


def _whole(matches: list[Match]) -> list[Match]:
    """Without the single items of a list that stands there as a whole, of few items; else without the
    whole."""
    paths = [m.placed.value.path for m in matches]
    wholes = [m for m in matches if paths.count(m.placed.value.path) > 1 and ", " in m.placed.value.value]
    return [m for m in matches if m not in wholes] or matches


@lru_cache(maxsize=1 << 14)
def _split(key: str) -> tuple[str, ...]:
    return tuple(stem(p.lower()) for p in _PARTS.findall(key))


def key_words(path: Sequence[str]) -> list[str]:
    return [w for key in path for w in _split(key)]


def akin_any(word: str, tokens: set[str]) -> bool:
    return len(word) >= 4 and any(_akin(t, word) for t in tokens)


def _akin(left: str, right: str) -> bool:
    """Whether one word begins with the other and is little longer."""
    short, long = sorted((left, right), key=len)
    return (
        len(short) >= 4
        and long.startswith(short)
        and len(long) - len(short) <= 3
        and len(short) >= 0.6 * len(long)
    )


def strength_of(
    word: str, keys: Sequence[str], last: str, value: str, inside: set[str], beside: set[str]
) -> float:
    """How surely a word of the question is said by a key (from 0.8), by its value or by what stands beside it
    (below); 0: not at all. ``last``: the last key as it is written; names of variables run together.
    """
    stemmed = stem(word)
    if stemmed in keys or word in keys:
        return 1.0
    if len(stemmed) >= 5 and any(_akin(k, stemmed) for k in keys):
        return 0.95
    same = group(stemmed)
    others = key_synonyms(stemmed)
    if any(k in others or (same is not None and group(k) == same) for k in keys):
        return 0.85
    together = re.sub(r"[^a-z0-9]", "", last.lower()) if last.isupper() else ""
    if len(stemmed) >= 3 and together and (stemmed in together or word in together):
        return 0.85
    if last.startswith("-") and _in_flag(stemmed, last.lower().lstrip("-")):
        return 0.85
    stems = {stem(w) for w in inside}
    if word in inside or stemmed in stems:
        return 0.6
    if len(stemmed) >= 5 and any(stemmed in w for w in inside):
        return 0.5
    if same == _DATABASE and "://" in value:
        return 0.6
    if word in beside or stemmed in {stem(w) for w in beside}:
        return 0.5
    return 0.0


def _in_flag(stemmed: str, flag: str) -> bool:
    """Whether a flag, which runs its words together (``--maxmemory``), holds a word or begins with it."""
    words = [w.rstrip("i") for w in (stemmed, *alike(stemmed))]
    return any(len(w) >= 5 and w in flag for w in words) or (len(stemmed) >= 3 and flag.startswith(stemmed))


#: Kinds of value that hold a number, and those that say when.
_COUNTED = frozenset({Kind.NUMBER, Kind.DURATION, Kind.PORT})
_TIMES = frozenset({Kind.MOMENT, Kind.DATE, Kind.FREQUENCY})
#: What may be a person: words or an address, no path, number or switch.
_PERSON = re.compile(r"[^\W\d][\w .,'+-]*(?:@[\w.-]+)?")
_SWITCHED = re.compile(r"true|false|yes|no|on|off|enabled?|disabled?", re.IGNORECASE)
_TIME = re.compile(r"\d|@|daily|weekly|hourly|night")


def suits(question: Question, value: str) -> bool:
    """Whether a value can be of the kind that the question asks for."""
    kind = question.reading.value
    if kind in _COUNTED:
        return bool(re.search(r"\d", value))
    if kind is Kind.PERSON:
        return bool(_PERSON.fullmatch(value)) and not _SWITCHED.fullmatch(value)
    if kind in _TIMES:
        return bool(_TIME.search(value))
    if kind is Kind.ADDRESS and re.search(r"\b(?:url|link)\b", question.lower):
        return "/" in value or "." in value
    return bool(value)
