"""Who may reach whom: a policy, or recorded packet filters, resolved to the devices of a tailnet.

A filter stands at the device that it protects, and holds addresses. So a rule is read as the control plane
reads it: its sources become addresses of devices, its destinations addresses of devices and ranges, and what
is reached are devices that hold such an address and subnet routes that such a range overlaps. A connection
needs both ends in one family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.inventory import Range
from taboot_pipelines.extraction.tier_a.tailscale.forms import JsonText
from taboot_pipelines.extraction.tier_a.tailscale.policy import (
    ALL_PORTS,
    EVERYWHERE,
    Allowance,
    Policy,
    Ports,
    Rule,
    Span,
    numbered,
    parse_span,
    span_of,
)
from taboot_pipelines.model.json_text import Value
from taboot_pipelines.model.records import Evidence

#: Connections of one tailnet: those of 316 devices that all may reach each other.
MAX_REACHES = 100_000
#: Pairs of a source and a target that are looked at, so that a hostile policy ends.
MAX_PAIRS = 1_000_000

_NOTHING = Value([], 0, 0)
#: Of a device: the IP versions by which it takes part in a rule.
Versions = frozenset[int]
Problem = Callable[[Evidence, str], None]

#: Autogroups that select no device of the tailnet: public addresses, devices of other tailnets.
_OUTSIDE = ("autogroup:internet", "autogroup:shared")
_EVERYBODY = ("*", "autogroup:danger-all")


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """A device that the policy governs, by its principal host name; equal to nothing but itself."""

    host: str
    addresses: tuple[Span, ...]
    routes: tuple[Range, ...] = ()
    tags: frozenset[str] = frozenset()
    #: What policies may call its user by, and the roles of that user; a tagged device has none.
    users: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()

    @property
    def versions(self) -> Versions:
        return frozenset(a.version for a in self.addresses)


@dataclass(frozen=True, slots=True)
class Reach:
    """That one host may reach another (``label`` Host) or a CIDR (Network) by one protocol."""

    source: str
    label: str
    target: str
    protocol: str | None


@dataclass(slots=True)
class Grounds:
    """What a reach rests on: ports, the rules that open them, and the routers that all of these name."""

    #: {postures of which the source must have one: the ports that it reaches then}; of none: without any.
    ports: dict[tuple[str, ...], list[Ports]] = field(default_factory=dict)
    rules: list[Evidence] = field(default_factory=list)
    via: frozenset[str] | None = frozenset()


class Reaches:
    """Collects what may be reached. ``full`` once it has more than :data:`MAX_REACHES`, or has looked at
    :data:`MAX_PAIRS`."""

    def __init__(self) -> None:
        self.found: dict[Reach, Grounds] = {}
        self.full = False
        self._pairs = 0

    def add(
        self,
        sources: Mapping[Peer, Versions],
        targets: Mapping[Peer, Versions],
        networks: Mapping[Range, Versions],
        allowances: Iterable[Allowance],
        rule: Rule,
    ) -> None:
        """Note that each source reaches each target and network that shares an IP version with it, but for
        itself and what it serves."""
        allowed = tuple(allowances)
        ranges = [(network, str(network), others) for network, others in networks.items()]
        for source, versions in sources.items():
            self._pairs += len(targets) + len(networks)
            if self._pairs > MAX_PAIRS or len(self.found) > MAX_REACHES:
                self.full = True
                return
            for target, others in targets.items():
                if target is not source and versions & others:
                    self._add(source.host, "Host", target.host, allowed, rule)
            for network, cidr, others in ranges:
                if versions & others and network not in source.routes:
                    self._add(source.host, "Network", cidr, allowed, rule)

    def _add(
        self, source: str, label: str, target: str, allowances: tuple[Allowance, ...], rule: Rule
    ) -> None:
        for allowance in allowances:
            reach = Reach(source, label, target, allowance.protocol)
            grounds = self.found.get(reach)
            if grounds is None:
                grounds = self.found[reach] = Grounds(via=frozenset(rule.via) or None)
            if not rule.via:
                grounds.via = None
            elif grounds.via is not None:
                grounds.via |= frozenset(rule.via)
            grounds.ports.setdefault(rule.posture, []).extend(allowance.ports)
            if not grounds.rules or grounds.rules[-1] != rule.evidence:
                grounds.rules.append(rule.evidence)


def allowed_by_policy(
    policy: Policy, peers: Iterable[Peer], roles_known: bool, problem: Problem, reaches: Reaches
) -> None:
    """Add what the rules of a policy let through. ``roles_known``: that a user without a role has none.
    ``problem`` is told of words that the policy and the devices leave open."""
    resolver = _Resolver(policy, tuple(peers), roles_known)
    for rule in policy.rules:
        sources: dict[Peer, Versions] = {}
        for selector in rule.sources:
            _join(sources, resolver.devices(selector, rule, problem))
        for target in rule.targets:
            if reaches.full:
                return
            if target.selector == "autogroup:self":
                # Routers lead to routes alone.
                for group, own in resolver.same_user({} if rule.via else sources):
                    reaches.add(group, own, {}, target.allowances, rule)
                continue
            devices = {} if rule.via else resolver.devices(target.selector, rule, problem)
            networks = resolver.networks(target.selector, rule.via)
            reaches.add(sources, devices, networks, target.allowances, rule)


class _Resolver:
    def __init__(self, policy: Policy, peers: tuple[Peer, ...], roles_known: bool) -> None:
        self._policy = policy
        self._peers = peers
        self._roles_known = roles_known or any(p.roles for p in peers)
        self._known: dict[str, Mapping[Peer, Versions] | None] = {}
        self._routed: dict[tuple[str, tuple[str, ...]], Mapping[Range, Versions]] = {}

    def devices(self, selector: str, rule: Rule, problem: Problem) -> Mapping[Peer, Versions]:
        """The devices that a word selects, each with the IP versions by which it does."""
        if selector not in self._known:
            self._known[selector] = self._devices(selector)
            if self._known[selector] is None:
                problem(rule.evidence, "a rule uses a name that neither the policy nor a device explains")
        return self._known[selector] or {}

    def _devices(self, selector: str) -> Mapping[Peer, Versions] | None:
        if selector in _EVERYBODY:
            return self._where(lambda p: True)
        if selector.startswith("tag:"):
            return self._where(lambda p: selector in p.tags)
        if selector.startswith("autogroup:"):
            return self._autogroup(selector)
        if selector.startswith("group:"):
            members = self._policy.members(selector)
            return None if members is None else self._of_users(members)
        spans = self._policy.spans(selector)
        if spans is not None:
            return self._holding(spans)
        users = self._of_users((selector,))
        # A word with @ is a user, who may have no device; any other is a name, if somebody has it.
        return users if users or "@" in selector else None

    def _autogroup(self, selector: str) -> Mapping[Peer, Versions] | None:
        role = selector.removeprefix("autogroup:")
        if selector in _OUTSIDE:
            return {}
        if role in ("member", "members"):
            return self._where(lambda p: not p.tags)
        if role == "tagged":
            return self._where(lambda p: bool(p.tags))
        if not self._roles_known or role == "self":
            return None
        return self._where(lambda p: not p.tags and role in p.roles)

    def _of_users(self, names: Iterable[str]) -> Mapping[Peer, Versions]:
        wanted = {n.lower().removeprefix("user:") for n in names}
        domains = tuple(n.removeprefix("*") for n in wanted if n.startswith("*@"))
        return self._where(
            lambda p: (
                not p.tags
                and (not wanted.isdisjoint(p.users) or any(u.endswith(d) for u in p.users for d in domains))
            )
        )

    def _where(self, condition: Callable[[Peer], bool]) -> Mapping[Peer, Versions]:
        return {p: p.versions for p in self._peers if condition(p)}

    def _holding(self, spans: Iterable[Span]) -> Mapping[Peer, Versions]:
        return holding(self._peers, tuple(spans))

    def networks(self, selector: str, via: tuple[str, ...]) -> Mapping[Range, Versions]:
        """The subnet routes that a destination overlaps. With ``via`` those of routers that have such a
        tag."""
        if (selector, via) not in self._routed:
            self._routed[selector, via] = self._networks(selector, via)
        return self._routed[selector, via]

    def _networks(self, selector: str, via: tuple[str, ...]) -> Mapping[Range, Versions]:
        spans = EVERYWHERE if selector in _EVERYBODY else self._policy.spans(selector) or ()
        if not via:
            return routed(self._peers, spans)
        if selector in _EVERYBODY:
            # Everything is no range that a router could lead to.
            return {}
        found: dict[Range, Versions] = {}
        for router in self._peers:
            if not router.tags.isdisjoint(via):
                found |= routed((router,), spans)
        return found

    def same_user(
        self, sources: Mapping[Peer, Versions]
    ) -> Iterator[tuple[dict[Peer, Versions], Mapping[Peer, Versions]]]:
        """The sources by their user, with all devices of that user."""
        left = {p: v for p, v in sources.items() if not p.tags and p.users}
        while left:
            users = next(iter(left)).users
            group = {p: v for p, v in left.items() if not users.isdisjoint(p.users)}
            left = {p: v for p, v in left.items() if p not in group}
            yield group, self._of_users(users)


def allowed_by_filter(
    text: JsonText, rules: Value, here: Peer, peers: Iterable[Peer], problem: Problem, reaches: Reaches
) -> None:
    """Add what a packet filter lets through to the device ``here`` that it was recorded at."""
    everyone = tuple(peers)
    for value in rules.items():
        known = {name.lower(): member for name, member in value.members().items()}
        evidence = text.evidence(value)
        sources: dict[Peer, Versions] = {}
        # What a client makes of a filter calls its parts by other names than what it was sent.
        for said in known.get("srcips", known.get("srcs", _NOTHING)).items():
            word = said.data if isinstance(said.data, str) else ""
            if word.startswith("cap:"):
                _join(sources, {p: p.versions for p in everyone if word[4:] in p.capabilities})
            elif (spans := _spans(word)) is None:
                problem(evidence, "a packet filter has a source that is no address")
            else:
                _join(sources, holding(everyone, spans))
        numbers = [n.data for n in known["ipproto"].items()] if "ipproto" in known else []
        for destination in known.get("dstports", known.get("dsts", _NOTHING)).items():
            if reaches.full:
                return
            spans = _spans(destination.string("IP") or destination.string("Net"))
            first, last = destination.integer("Ports", "First"), destination.integer("Ports", "Last")
            if spans is None or first is None or last is None or not 0 <= first <= last <= ALL_PORTS.last:
                problem(evidence, "a packet filter has a destination that is no address with ports")
                continue
            ports = [Ports(first, last)]
            allowances = [numbered(n, ports) for n in numbers if isinstance(n, int)]
            reaches.add(
                sources,
                holding((here,), spans),
                routed((here,), spans),
                allowances or [Allowance(None, tuple(ports))],
                Rule(evidence, (), ()),
            )


def _spans(word: str) -> tuple[Span, ...] | None:
    if word == "*":
        return EVERYWHERE
    span = parse_span(word)
    return None if span is None else (span,)


def holding(peers: Iterable[Peer], spans: tuple[Span, ...]) -> dict[Peer, Versions]:
    """The devices with an address in one of the spans, by the IP versions of such addresses."""
    found = {}
    for peer in peers:
        versions = frozenset(a.version for a in peer.addresses if any(a.meets(s) for s in spans))
        if versions:
            found[peer] = versions
    return found


def routed(peers: Iterable[Peer], spans: Iterable[Span]) -> dict[Range, Versions]:
    """The subnet routes of devices that overlap one of the spans."""
    wanted = tuple(spans)
    if not wanted:
        return {}
    routes = {r for p in peers for r in p.routes if any(span_of(r).meets(s) for s in wanted)}
    return {r: frozenset((r.version,)) for r in sorted(routes, key=str)}


def _join(found: dict[Peer, Versions], more: Mapping[Peer, Versions]) -> None:
    for peer, versions in more.items():
        found[peer] = found.get(peer, frozenset()) | versions
