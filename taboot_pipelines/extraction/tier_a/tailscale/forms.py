"""Reads the forms in which a tailnet is written down (``model.tailnets`` tells them apart) into one record:

- answers of Tailscale's API: devices, users, DNS, the policy (also as a string beside its warnings);
- ``tailscale status --json``;
- netmaps and answers to a map request, with their packet filters (``tailcfg``);
- answers of Headscale's API and output of its command line: nodes, machines, routes, users, the policy;
- captures of headscale's policy tests, each of which is a tailnet by itself;
- policy files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.inventory import Address, Range, held_address, host_name, network_of
from taboot_pipelines.model.json_text import Run, Value, parse
from taboot_pipelines.model.records import Evidence
from taboot_pipelines.model.tailnets import Form, fields, is_user

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
class Stated(Generic[T]):
    """A value in its normal form, and the place that says it."""

    value: T
    evidence: Evidence


@dataclass(slots=True)
class Sighting:
    """One device as one object of a file describes it. ``key``: of its TailscaleNode, None where it has no
    id; ``names``: normal forms, the principal one first."""

    key: Stated[str] | None
    names: list[Stated[str]] = field(default_factory=list)
    #: The name in MagicDNS, without the trailing dot.
    dns_name: str = ""
    addresses: list[Stated[Address]] = field(default_factory=list)
    #: Subnet routes that are advertised and enabled.
    routes: list[Stated[Range]] = field(default_factory=list)
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
    enabled: list[tuple[str, Stated[Range]]] = field(default_factory=list)

    def take(self, other: Tailnet) -> None:
        """Add all that another file says of the same tailnet."""
        self.sightings += other.sightings
        self.policies += other.policies
        self.filters += other.filters
        self.enabled += other.enabled
        for user, roles in other.roles.items():
            self.roles[user] = self.roles.get(user, frozenset()) | roles


#: What a time that is not set is written as.
_NO_TIME = "0001-01-01"
#: Exit nodes that Tailscale rents out are in everybody's list of peers and in nobody's tailnet.
_RENTED = ".mullvad.ts.net"

Fields = Mapping[str, Value]


def read(text: JsonText, form: Form, source_id: str) -> Tailnet:
    """What a text of this form says."""
    reader = _Reader(text, source_id)
    reader.document(form)
    return reader.found


class _Reader:
    def __init__(self, text: JsonText, source_id: str) -> None:
        self._text = text
        self._source_id = source_id
        self.found = Tailnet()
        #: {a user's number: the names that policies may call them by}
        self._users: dict[str, frozenset[str]] = {}

    def document(self, form: Form) -> None:
        """Read the whole text."""
        root = self._text.root
        known = fields(root)
        match form:
            case Form.CAPTURE:
                self._capture(known)
            case Form.NETMAP:
                self._netmap(known)
            case Form.STATUS:
                self._status(known)
            case Form.DEVICE:
                named = [known[name] for name in ("node", "device", "machine") if name in known]
                for value in named or (root,):
                    self._device(value)
            case Form.LISTS:
                for name in ("devices", "nodes", "machines"):
                    for item in _items(known.get(name)):
                        self._device(item)
                for item in _items(known.get("users")):
                    self._user(item)
                for item in _items(known.get("routes")):
                    self._route(item)
            case Form.BARE_LIST:
                for item in root.items():
                    self._bare(item)
            case Form.USER:
                self._user(root)
            case Form.POLICY:
                self.found.policies.append((self._text, root))
            case Form.POLICY_TEXT:
                self._policy(known["policy"] if "policy" in known else known["acl"])
            case Form.SETTINGS:
                pass

    def _bare(self, item: Value) -> None:
        """An item of a list that does not say what it lists."""
        names = fields(item)
        if "prefix" in names:
            self._route(item)
        elif is_user(names.keys()):
            self._user(item)
        else:
            self._device(item)

    def _policy(self, value: Value, *path: str) -> None:
        """A policy, as an object or as the text of one; ``path``: where in that."""
        text = self._text
        try:
            if isinstance(value.data, str):
                text = self._text.inner(value)
                value = text.root
        except TabootError as error:
            self.found.errors.append(error)
            return
        policy = value.at(*path)
        if policy is not None and isinstance(policy.data, dict):
            self.found.policies.append((text, policy))

    # --- devices --------------------------------------------------------------------------------------------

    def _device(self, value: Value) -> None:
        """A device of Tailscale's API, or a node of Headscale's."""
        known = fields(value)
        headscale = "ipaddresses" in known or "givenname" in known or "registermethod" in known
        key = None
        if headscale:
            if number := _text(known.get("id")):
                key = self._stated(known["id"], f"{self._source_id}/{number}")
            names = ("name", "givenname")
        else:
            name = next((n for n in ("nodeid", "id") if _text(known.get(n))), None)
            key = self._stated(known[name], _text(known[name])) if name else None
            names = ("hostname", "name")
        sighting = self._sighting(key, known, names, ("ipaddresses",) if headscale else ("addresses",))
        approved, offered = known.get("enabledroutes"), known.get("advertisedroutes")
        if headscale:
            approved, offered = known.get("approvedroutes"), known.get("availableroutes")
            if approved is None:
                # What it serves is both.
                approved, offered = known.get("subnetroutes"), None
            elif offered is None:
                # Its command line leaves empty lists out.
                approved = None
            sighting.users |= _user_names(known.get("user")) | _user_names(known.get("namespace"))
            for name in ("forcedtags", "validtags"):
                sighting.tags |= _texts(known.get(name))
        else:
            sighting.dns_name = _text(known.get("name")).rstrip(".")
            sighting.users |= _user_names(known.get("user"))
        sighting.authorized = "authorized" not in known or known["authorized"].data is not False
        sighting.external = "isexternal" in known and known["isexternal"].data is True
        self._routes(sighting, approved, offered)

    def _sighting(
        self, key: Stated[str] | None, known: Fields, names: Iterable[str], addresses: Iterable[str]
    ) -> Sighting:
        """What all forms of a device share; it is added to what was found."""
        sighting = Sighting(key)
        for name in names:
            self._name(sighting, known.get(name))
        for name in addresses:
            for item in _items(known.get(name)) or [v for v in [known.get(name)] if v is not None]:
                address = held_address(_text(item))
                if address is not None:
                    sighting.addresses.append(Stated(address, self._text.evidence(item)))
        sighting.tags = _texts(known.get("tags"))
        sighting.os = _text(known.get("os")).lower()
        seen = _text(known.get("lastseen"))
        sighting.last_seen = "" if seen.startswith(_NO_TIME) else seen
        sighting.machine_key = _text(known.get("machinekey")) or _text(known.get("machine"))
        self.found.sightings.append(sighting)
        return sighting

    def _name(self, sighting: Sighting, value: Value | None) -> None:
        name = host_name(_text(value))
        if name and value is not None and name not in {n.value for n in sighting.names}:
            sighting.names.append(Stated(name, self._text.evidence(value)))

    def _routes(self, sighting: Sighting, approved: Value | None, offered: Value | None) -> None:
        """Note the routes of a device: those approved that it offers, where it says what it offers."""
        offers = {str(n) for t in _texts(offered) if (n := network_of(t)) is not None}
        sighting.advertised = sorted(offers)
        for item in _items(approved):
            network = network_of(_text(item))
            if network is None or (offered is not None and str(network) not in offers):
                continue
            if network.prefixlen == 0:
                sighting.exit_node = True
            else:
                sighting.routes.append(Stated(network, self._text.evidence(item)))

    def _route(self, item: Value) -> None:
        """A route of Headscale's ``/api/v1/routes``, which stands apart from its node."""
        known = fields(item)
        node = fields(known["node"] if "node" in known else known.get("machine", item))
        network, number = network_of(_text(known.get("prefix"))), _text(node.get("id"))
        said_so = all(known.get(f) is not None and known[f].data is True for f in ("advertised", "enabled"))
        if network is not None and number and said_so:
            where = Stated(network, self._text.evidence(known["prefix"]))
            self.found.enabled.append((f"{self._source_id}/{number}", where))

    def _user(self, item: Value) -> None:
        known = fields(item)
        role = _text(known.get("role"))
        roles = frozenset({role, "admin"} if role == "owner" else {role} if role else ())
        for name in _user_names(item):
            self.found.roles[name] = self.found.roles.get(name, frozenset()) | roles

    # --- what a device sees of its tailnet ------------------------------------------------------------------

    def _status(self, known: Fields) -> None:
        """``tailscale status --json``."""
        self._profiles(known.get("user"))
        peers = known["peer"].members().values() if "peer" in known else ()
        for peer in map(fields, (*([known["self"]] if "self" in known else ()), *peers)):
            key = self._stated(peer["id"], _text(peer["id"])) if _text(peer.get("id")) else None
            sighting = self._sighting(key, peer, ("hostname", "dnsname"), ("tailscaleips",))
            sighting.dns_name = _text(peer.get("dnsname")).rstrip(".")
            sighting.users = self._users.get(_text(peer.get("userid")), frozenset())
            shared = _text(peer.get("altshareruserid")) not in ("", "0")
            sharee = "shareenode" in peer and peer["shareenode"].data is True
            sighting.external = shared or sharee or sighting.dns_name.endswith(_RENTED)
            self._allowed(sighting, peer.get("allowedips"), peer.get("tailscaleips"))

    def _netmap(self, known: Fields) -> Sighting | None:
        """A netmap, or an answer to a map request; the device that it is for."""
        self._profiles(known.get("userprofiles"))
        own: Sighting | None = None
        for value in (known.get("selfnode"), known.get("node")):
            if value is not None and isinstance(value.data, dict):
                own = self._node(value)
        for name in ("peers", "peerschanged"):
            for value in _items(known.get(name)):
                self._node(value)
        rules = known.get("packetfilterrules", known.get("packetfilter"))
        # Newer answers to a map request name several filters, which all hold.
        named = known["packetfilters"].members().values() if "packetfilters" in known else ()
        for each in (*([rules] if rules is not None else ()), *named):
            if own is not None:
                self.found.filters.append((self._text, each, own))
        return own

    def _node(self, value: Value) -> Sighting:
        """A node of ``tailcfg``."""
        node = fields(value)
        info = fields(node["hostinfo"]) if "hostinfo" in node else {}
        name = next((n for n in ("stableid", "id") if _text(node.get(n))), None)
        key = self._stated(node[name], _text(node[name])) if name else None
        sighting = self._sighting(key, {**info, **node}, ("hostname", "name"), ("addresses",))
        sighting.dns_name = _text(node.get("name")).rstrip(".")
        sighting.users = self._users.get(_text(node.get("user")), frozenset())
        sighting.authorized = "machineauthorized" not in node or node["machineauthorized"].data is not False
        sharee = "shareenode" in info and info["shareenode"].data is True
        shared = _text(node.get("sharer")) not in ("", "0")
        sighting.external = shared or sharee or sighting.dns_name.endswith(_RENTED)
        sighting.capabilities = frozenset(node["capmap"].members() if "capmap" in node else ())
        # The control plane tells each device what its user may administer; a tagged device has no user.
        if not sighting.tags:
            sighting.roles = frozenset(
                role
                for role in ("owner", "admin")
                if any(c.endswith(f"/is-{role}") for c in sighting.capabilities)
            )
        self._allowed(sighting, node.get("allowedips"), node.get("addresses"))
        sighting.advertised = sorted(
            str(n) for t in _texts(info.get("routableips")) if (n := network_of(t)) is not None
        )
        return sighting

    def _allowed(self, sighting: Sighting, allowed: Value | None, own: Value | None) -> None:
        """Note the routes of a device: the addresses allowed to it that are not its own."""
        held = {network_of(t) for t in _texts(own)}
        for item in _items(allowed):
            network = network_of(_text(item))
            if network is None or network in held:
                continue
            if network.prefixlen == 0:
                sighting.exit_node = True
            else:
                sighting.routes.append(Stated(network, self._text.evidence(item)))

    def _profiles(self, value: Value | None) -> None:
        """Note what users are called, from profiles by number or a list of them."""
        if value is None:
            return
        for profile in [*value.members().values(), *value.items()]:
            known = fields(profile)
            if number := _text(known.get("id")):
                self._users[number] = _user_names(profile)

    # --- captures -------------------------------------------------------------------------------------------

    def _capture(self, known: Fields) -> None:
        """A capture of headscale's policy tests: netmaps of all nodes, or their packet filters alone."""
        topology = fields(known["topology"]) if "topology" in known else {}
        people: dict[str, frozenset[str]] = {}
        for user in _items(topology.get("users")):
            for called in (user.string("name"), user.string("email")):
                people[called] = _user_names(user)
        nodes = topology["nodes"].members() if "nodes" in topology else {}
        captures = known["captures"].members() if "captures" in known else {}
        recordings = {name: fields(value) for name, value in captures.items()}
        # What a node is called in the netmaps of others is known once all are read.
        seen = {
            name: self._netmap(fields(recorded["netmap"])) if "netmap" in recorded else None
            for name, recorded in recordings.items()
        }
        for name in dict.fromkeys((*nodes, *captures)):
            node = fields(nodes[name]) if name in nodes else {}
            recorded = recordings.get(name, {})
            own = seen.get(name) or self._topology_node(node)
            who = _text(node.get("user"))
            own.users |= people.get(who, frozenset({who.lower()} if who else ()))
            if "packetfilterrules" in recorded:
                self.found.filters.append((self._text, recorded["packetfilterrules"], own))
        self._capture_policy(known)

    def _capture_policy(self, known: Fields) -> None:
        """The policy of a capture: its own, else that of the scenario it was recorded for."""
        given = fields(known["input"]) if "input" in known else known
        if _text(given.get("apiresponsecode"))[:1] in ("4", "5"):
            return  # it was refused, so what is recorded is not its doing
        for name in ("fullpolicy", "policy"):
            if name in given and (isinstance(given[name].data, dict) or _text(given[name])):
                self._policy(given[name])
                return
        if _text(given.get("scenariohujson")):
            self._policy(given["scenariohujson"], "policy")

    def _topology_node(self, node: Fields) -> Sighting:
        """A node without a netmap of its own; others may have it among their peers, by its addresses."""
        value = node.get("hostname")
        held = {held_address(_text(a)) for f in ("ipv4", "ipv6") for a in (node.get(f),)} - {None}
        peers = (s.key.value for s in self.found.sightings if s.key and held & {a.value for a in s.addresses})
        key = None
        if value is not None:
            key = self._stated(value, next(peers, f"{self._source_id}/{_text(value)}"))
        sighting = self._sighting(key, node, ("hostname",), ("ipv4", "ipv6"))
        self._routes(sighting, node.get("approvedroutes"), node.get("routableips"))
        return sighting

    def _stated(self, value: Value, said: str) -> Stated[str]:
        return Stated(said, self._text.evidence(value))


def _items(value: Value | None) -> list[Value]:
    return [] if value is None else value.items()


def _text(value: Value | None) -> str:
    """A string, or a whole number as one; empty for anything else."""
    if value is None or isinstance(value.data, bool):
        return ""
    return (
        value.data if isinstance(value.data, str) else str(value.data) if isinstance(value.data, int) else ""
    )


def _texts(value: Value | None) -> frozenset[str]:
    return frozenset(t for item in _items(value) if (t := _text(item)))


def _user_names(value: Value | None) -> frozenset[str]:
    """What policies may call a user by: the login, the address, and as Headscale writes it ``name@``."""
    if value is None:
        return frozenset()
    known = fields(value)
    texts = [_text(value), *(_text(known.get(f)) for f in ("loginname", "email", "name"))]
    names = {t.lower() for t in texts if t}
    return frozenset(names | {f"{n}@" for n in names if "@" not in n})
