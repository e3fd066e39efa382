"""How values of configuration are said: as a person would say them where their key has a phrase, else by
their key path. Variables are replaced where the files or the graph tell their value, and named where not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from taboot_pipelines.extraction.tier_a.compose.variables import expand
from taboot_pipelines.retrieval.answering.config_files import Placed
from taboot_pipelines.retrieval.answering.house import distinct
from taboot_pipelines.retrieval.answering.statements import Cite, Statement, listed
from taboot_pipelines.retrieval.answering.vocabulary import PROPERTIES

#: Values of one statement.
MAX_SHOWN = 6
#: Characters of a value that are shown.
MAX_VALUE_CHARS = 300

_VARIABLE = re.compile(r"(?<!\$)\$\{?([A-Za-z_]\w*)")
_MASK = re.compile(r"[*•█]{3,}")
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


def value_statement(placed: Sequence[Placed]) -> Statement:
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
    return Statement(f"{text}.", places(placed[:MAX_SHOWN]))


def places(placed: Iterable[Placed]) -> list[Cite]:
    """Where values stand and where their variables are set, each line once."""
    found = {(c.doc_id, c.line): c for p in placed for c in (*p.also, p.cite)}
    own = [p.cite for p in placed]
    return list({(c.doc_id, c.line): c for c in (*own, *found.values())}.values())


def _said(p: Placed) -> tuple[_Frame, str]:
    path, value, thing = p.value.path, shown(p), thing_of(p)
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


def phrase_of(p: Placed) -> tuple[str, str]:
    """The end of the key path that has a phrase, and the phrase; empty if there is none."""
    key, phrase = next(((key, phrase) for key, phrase in _PHRASES if p.ends_in(key)), ("", ""))
    last = p.value.path[-1].upper()
    if key.isupper() and last != key:
        # ONLY_SUBDOMAINS are no subdomains, but GITEA_LOG_LEVEL is gitea's log level.
        of, service = _LETTERS.sub("", last.removesuffix(key)), _LETTERS.sub("", p.service.upper())
        if not of or not (service.startswith(of) or of.startswith(service)):
            return "", ""
    return key, phrase


def thing_of(p: Placed) -> str:
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


def shown(p: Placed) -> str:
    """A value as it is said: its variables by what sets them, secrets masked, at most
    :data:`MAX_VALUE_CHARS`."""
    value = p.value.value.strip()
    if _MASK.search(value):
        return "a secret, which is masked"
    text = _resolved(p, value)
    return (text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…") or "(empty)"


def _resolved(p: Placed, value: str) -> str:
    if p.known:
        return p.known
    names = distinct(_VARIABLE.findall(value)) if p.service else []
    if not names:
        return value
    expanded = expand(value, {})
    missing = [n for n in names if n in expanded.missing]
    if missing:
        return f"{expanded.text} ({listed(missing)} {'is' if len(missing) == 1 else 'are'} set elsewhere)"
    return f"{expanded.text} (unless {listed(names)} says otherwise)"
