"""What the files of a tailnet say, whichever form they have, each with the place that says it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.inventory import Address, Range
from taboot_pipelines.model.json_text import Run, Value, parse
from taboot_pipelines.model.records import Evidence

T = TypeVar("T")


class JsonText:
    """A JSON or HuJSON text, and where it stands: a file, or a string in one (a policy inside of an answer).

    Raises ``E_PARSE`` where it is neither.
    """

    def __init__(self, path: str, text: str, runs: Iterable[Run] | None = None) -> None:
        """``runs``: the pieces of the string that ``text`` is the content of."""
        self.path = path
        self.text = text
        self.root = parse(text, hujson=True)
        self._runs = None if runs is None else list(runs)
        self._starts: list[int] = []
        at = 0
        for run in self._runs or ():
            self._starts.append(at)
            at += len(run.text)

    def evidence(self, value: Value) -> Evidence:
        """The place of a value in the file."""
        if self._runs is None:
            return Evidence(self.path, value.start, value.end)
        return Evidence(self.path, self._in_file(value.start)[0], self._in_file(value.end - 1)[1])

    def _in_file(self, at: int) -> tuple[int, int]:
        assert self._runs is not None
        index = bisect_right(self._starts, at) - 1
        run = self._runs[index]
        if not run.verbatim:
            return run.start, run.end
        begin = run.start + at - self._starts[index]
        return begin, begin + 1

    def inner(self, value: Value) -> JsonText:
        """The JSON that a string holds. Raises ``E_PARSE``."""
        if self._runs is None:
            return JsonText(self.path, value.data, value.runs(self.text))
        # A string in a string: the outer one as a whole is the place.
        place = self.evidence(value)
        return JsonText(self.path, value.data, [Run(value.data, place.start, place.end, False)])


@dataclass(frozen=True, slots=True)
class Said(Generic[T]):
    """A value in its normal form, and the place that says it."""

    value: T
    evidence: Evidence


@dataclass(slots=True)
class Sighting:
    """One device as one object of a file describes it. ``key``: of its TailscaleNode, None where it has no
    id; ``names``: normal forms, the principal one first."""

    key: Said[str] | None
    names: list[Said[str]] = field(default_factory=list)
    #: The name in MagicDNS, without the trailing dot.
    dns_name: str = ""
    addresses: list[Said[Address]] = field(default_factory=list)
    #: Subnet routes that are advertised and enabled.
    routes: list[Said[Range]] = field(default_factory=list)
    advertised: list[str] = field(default_factory=list)
    exit_node: bool = False
    tags: frozenset[str] = frozenset()
    #: All that a policy may call its user by, in lower case.
    users: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()
    os: str = ""
    last_seen: str = ""
    machine_key: str = ""
    authorized: bool = True
    #: Shared in from another tailnet, whose policy governs it.
    external: bool = False


@dataclass(slots=True)
class Tailnet:
    """The devices, users, policies and packet filters that belong together."""

    sightings: list[Sighting] = field(default_factory=list)
    #: {a user's name: the roles that an answer about users gives it}.
    roles: dict[str, frozenset[str]] = field(default_factory=dict)
    policies: list[tuple[JsonText, Value]] = field(default_factory=list)
    #: Packet filters, each with the device that it protects.
    filters: list[tuple[JsonText, Value, Sighting]] = field(default_factory=list)
    #: What kept a policy inside of a text from being read.
    errors: list[TabootError] = field(default_factory=list)
    #: Routes that an answer apart from the devices enables, by the key of their device.
    enabled: list[tuple[str, Said[Range]]] = field(default_factory=list)

    def take(self, other: Tailnet) -> None:
        """Add all that another file says of the same tailnet."""
        self.sightings += other.sightings
        self.policies += other.policies
        self.filters += other.filters
        self.enabled += other.enabled
        for user, roles in other.roles.items():
            self.roles[user] = self.roles.get(user, frozenset()) | roles
