"""The properties of a service's declaration that people ask for by a name of their own: the words that ask
for each, the keys that hold it, and how it is said.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from taboot_pipelines.retrieval.answering.question import Question


class Trait(NamedTuple):
    """A property that a service has or lacks. ``pattern``: the words that ask for it; ``keys``: the ends of
    key paths that hold it; ``value``: what the value must be; ``has`` and ``lacks``: how it is said of
    several; ``shows``: whether the values are said too."""

    pattern: re.Pattern[str]
    keys: tuple[str, ...]
    value: re.Pattern[str]
    has: str
    lacks: str
    shows: bool


def _trait(pattern: str, keys: str, value: str, has: str, lacks: str, *, shows: bool = False) -> Trait:
    return Trait(
        re.compile(rf"\b(?:{pattern})(?!\w)"),
        tuple(keys.split()),
        re.compile(value, re.IGNORECASE),
        has,
        lacks,
        shows,
    )


_TRUE = r"(?:true|yes|on)$"
#: Special before general: the first whose words are there is asked for.
_TRAITS = (
    _trait(
        r"host(?:'s)? network(?:ing|s)?(?: mode| stack)?|host mode|network mode(?: is| set to| of)? host",
        "network_mode",
        r"host$",
        "are on the host network",
        "are not on the host network",
    ),
    _trait(
        r"privileged(?: mode)?",
        "privileged",
        _TRUE,
        "are privileged",
        "are not privileged",
    ),
    _trait(
        r"(?:i?gpu|graphics card|hardware acceleration)(?: pass ?through| access| acceleration)?",
        "devices runtime devices.capabilities",
        r".*(?:/dev/(?:dri|kfd|nvidia)|nvidia|gpu)",
        "have a GPU",
        "have no GPU",
        shows=True,
    ),
    _trait(
        r"(?:only )?(?:(?:starts?|started|runs?|active|enabled|launched) )?(?:only )?"
        r"(?:with|in|under|by|have|has)? ?(?:the |a )?(?:[\w-]+ )?profiles?",
        "profiles",
        r"",
        "start only with the profile",
        "start without a profile",
        shows=True,
    ),
    _trait(
        r"health ?checks?", "healthcheck.test", r"(?!none$)", "have a health check", "declare no health check"
    ),
    _trait(
        r"(?:automatically )?restart(?:s|ed|ing)?"
        r"(?: automatically| by (?:itself|themselves|docker)| polic(?:y|ies))?",
        "restart restart_policy.condition",
        r"(?!no$|none$|false$)",
        "are restarted",
        "are not restarted automatically",
        shows=True,
    ),
    _trait(
        r"(?:memory|ram|mem) (?:limits?|cap|ceiling)|limit\w* (?:of )?(?:memory|ram)",
        "mem_limit limits.memory",
        r"",
        "have a memory limit",
        "have no memory limit",
        shows=True,
    ),
    _trait(
        r"cpu (?:limits?|cap|quota)|limit\w* (?:of )?cpus?",
        "cpus limits.cpus cpu_quota",
        r"",
        "have a CPU limit",
        "have no CPU limit",
        shows=True,
    ),
    _trait(
        r"(?:static|fixed) (?:ip(?:v[46])?|ip address\w*|address\w*)",
        "ipv4_address ipv6_address",
        r"",
        "have a fixed address",
        "have no fixed address",
        shows=True,
    ),
    _trait(
        r"(?:(?:reads?|gets?|mounts?) )?(?:the )?secrets?",
        "secrets",
        r"",
        "use the secret",
        "use no secret",
        shows=True,
    ),
    _trait(
        r"read[- _]?only(?: (?:root )?file ?system)?",
        "read_only",
        _TRUE,
        "are read-only",
        "are not read-only",
    ),
    _trait(r"tmpfs", "tmpfs", r"", "use tmpfs", "use no tmpfs", shows=True),
    _trait(
        r"(?:built|build)(?: locally| here| ourselves| from source| by us)?",
        "build build.context",
        r"",
        "are built here",
        "are not built here",
    ),
    _trait(
        r"(?:passed |has |have |gets? )?(?:the |a )?(?:devices?(?: passed(?: through)?)?"
        r"|[\w-]+ (?:sticks?|dongles?|coordinators?))|attached to(?= (?:the )?(?:tty|usb))",
        "devices",
        r"",
        "have the device",
        "have no device",
        shows=True,
    ),
    _trait(
        r"time ?zones?",
        "TZ",
        r"",
        "have the time zone",
        "have no time zone",
        shows=True,
    ),
)
#: What is followed by the value itself, and where a word before the property may be the value.
NAMING = frozenset({"start only with the profile", "use the secret", "have the device", "have the time zone"})
_QUALIFIED = frozenset({"start only with the profile", "have the device"})
#: Words of those patterns that are no value.
_ASKING = frozenset(
    [
        *("a", "the", "any", "no", "only", "with", "in", "under", "by", "has", "have", "get", "gets", "to"),
        *("start", "starts", "started", "run", "runs", "active", "enabled", "launched", "attached"),
        *("passed", "through", "profile", "profiles", "device", "devices", "stick", "sticks", "dongle"),
        *("dongles", "coordinator", "coordinators", "which", "what"),
    ]
)


def asked_trait(question: Question) -> tuple[Trait, set[int]] | None:
    """The property that the question asks for, and the words that say so."""
    text, spans = "", []
    for word in question.linked.words:
        text += " " if text else ""
        spans.append((len(text), len(text) + len(word.text)))
        text += word.text
    for trait in _TRAITS:
        match = trait.pattern.search(text)
        if match:
            return trait, {i for i, (a, b) in enumerate(spans) if a < match.end() and b > match.start()}
    return None


def names_value(question: Question, trait: Trait, number: int) -> bool:
    """Whether a word among those that ask names the value: ``soulseek`` of the soulseek profile."""
    return trait.has in _QUALIFIED and question.linked.words[number].text not in _ASKING
