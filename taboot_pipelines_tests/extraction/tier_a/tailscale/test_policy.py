"""Who may reach whom: policies resolve to the connections that the control plane's packet filters allow."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gold import packet_filters as pf
from benchmarks.gold import tailscale as gold
from taboot_pipelines.extraction.tier_a.tailscale import access as resolving
from taboot_pipelines.extraction.tier_a.tailscale import extractor
from taboot_pipelines.model.records import EdgeClaim
from taboot_pipelines_tests.extraction.tier_a.tailscale.reading import (
    TAILSCALE,
    access,
    device,
    edges,
    read,
)

# --- against packet filters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(gold.HANDMADE.glob("*.hujson")), ids=lambda p: p.stem)
def test_a_policy_gives_the_connections_of_filters_derived_by_hand(path):
    wanted, found = gold.reaches(path, filters=False)
    assert wanted and found == wanted


@pytest.mark.parametrize(
    "path", sorted((TAILSCALE / "headscale-captures").rglob("*.hujson")), ids=lambda p: p.stem
)
def test_a_recorded_policy_gives_the_connections_that_were_recorded(path):
    wanted, found = gold.reaches(path, filters=False)
    assert found == wanted


@pytest.mark.parametrize("path", sorted(gold.HANDMADE.glob("*.hujson")), ids=lambda p: p.stem)
def test_filters_alone_give_their_connections(path, tmp_path):
    capture = pf.read(path) | {"input": {}}
    (tmp_path / path.name).write_text(json.dumps(capture))
    wanted, found = gold.reaches(tmp_path / path.name)
    assert wanted and found == wanted


# --- a naive control plane ----------------------------------------------------------------------------------
#
# It makes packet filters of a policy by listing addresses one by one, and shares no code with the reader.

ANNA, BEN = USERS = ("anna@example.com", "ben@example.com")
TAGS = ("tag:a", "tag:b")
ROUTES = ("10.1.0.0/16", "10.1.2.0/24", "fd00:1::/48", "0.0.0.0/0")
SETS = {
    "ipset:most": ["add 100.64.0.0/29", "remove 100.64.0.2", "remove 100.64.0.3/32"],
    "ipset:both": ["ipset:most", "host:lan", "remove 100.64.0.4"],
}
HOSTS = {
    "one": "100.64.0.1",
    "lan": "10.1.2.0/25",
    "net": "10.1.0.0/16",
    "six": "fd7a:115c:a1e0::3",
    "all4": "100.64.0.0/10",
}
GROUPS = {"group:anna": [USERS[0]], "group:both": list(USERS), "group:nobody": []}
BY_USER = (*USERS, *GROUPS, "autogroup:member", "user:*@example.com")
POSTURES = st.sampled_from([[], [], ["posture:new"], ["posture:old", "posture:new"]])
BY_TAG = (*TAGS, "autogroup:tagged")
BY_ADDRESS = (
    *HOSTS,
    *SETS,
    "100.64.0.0/30",
    "fd7a:115c:a1e0::/48",
    "10.0.0.0/8",
    "10.1.2.0/24",
    "fd00:1::5",
    "100.64.0.2-100.64.0.4",
    "*",
)
PROTOCOLS = {None: None, "tcp": [6], "udp": [17], "icmp": [1, 58], "47": [47], "sctp": [132]}

WHO = (*((u, ()) for u in USERS), (None, TAGS), (None, TAGS[:1]), (None, TAGS[1:]))
node_lists = st.lists(
    st.fixed_dictionaries(
        {
            "who": st.sampled_from(WHO),
            "six": st.booleans(),
            "offered": st.sets(st.sampled_from(ROUTES)),
            "approved": st.sets(st.sampled_from(ROUTES)),
        }
    ),
    min_size=2,
    max_size=6,
)
selectors = st.sampled_from((*BY_USER, *BY_TAG, *BY_ADDRESS))
ports = st.sampled_from(["*", "22", "80,443", "8000-8010,22"])
sources = st.lists(selectors | st.just("autogroup:danger-all"), min_size=1, max_size=2)
only_targets = st.sampled_from(["autogroup:self", "autogroup:internet"])
acls = st.fixed_dictionaries(
    {
        "src": sources,
        "dst": st.lists(
            st.tuples(selectors | only_targets, ports),
            min_size=1,
            max_size=2,
        ),
        "proto": st.sampled_from(list(PROTOCOLS)),
        "posture": POSTURES,
    }
)
grants = st.fixed_dictionaries(
    {
        "src": sources,
        "dst": st.lists(st.tuples(selectors | only_targets), min_size=1, max_size=2),
        "ip": st.lists(st.tuples(st.sampled_from(list(PROTOCOLS)), ports), min_size=1, max_size=2),
        "via": st.sampled_from([[], [TAGS[0]], list(TAGS)]),
        "posture": POSTURES,
    }
)


def topology(drawn: list[dict[str, Any]]) -> dict[str, Any]:
    nodes = {}
    for i, one in enumerate(drawn, 1):
        user, tags = one["who"]
        nodes[f"node{i}"] = {
            "hostname": f"node{i}",
            "tags": list(tags),
            "ipv4": f"100.64.0.{i}",
            "routable_ips": sorted(one["offered"]),
            "approved_routes": sorted(one["approved"]),
            **({"ipv6": f"fd7a:115c:a1e0::{i}"} if one["six"] else {}),
            **({"user": user.split("@")[0]} if user else {}),
        }
    people = [{"id": i, "name": u.split("@")[0], "email": u} for i, u in enumerate(USERS)]
    return {"users": people, "nodes": nodes}


class ControlPlane:
    def __init__(self, nodes: dict[str, dict[str, Any]]) -> None:
        self.nodes = nodes

    def own(self, names: list[str]) -> list[str]:
        return [self.nodes[n][f] for n in names for f in ("ipv4", "ipv6") if f in self.nodes[n]]

    def select(self, word: str) -> list[str] | None:
        """The nodes of a user or tag; None for a word that is addresses."""
        users = {f"{n['user']}@example.com" for n in self.nodes.values() if "user" in n}
        if word in GROUPS:
            users = set(GROUPS[word])
        elif word in USERS:
            users = {word}
        elif word not in ("autogroup:member", "user:*@example.com"):
            if word == "autogroup:tagged":
                return [k for k, n in self.nodes.items() if n["tags"]]
            return [k for k, n in self.nodes.items() if word in n["tags"]] if word in TAGS else None
        return [k for k, n in self.nodes.items() if "user" in n and f"{n['user']}@example.com" in users]

    def ranges(self, word: str) -> list[str]:
        if word == "ipset:most":
            return [f"100.64.0.{i}" for i in (0, 1, 4, 5, 6, 7)]
        if word == "ipset:both":
            return [*(f"100.64.0.{i}" for i in (0, 1, 5, 6, 7)), HOSTS["lan"]]
        if word == "100.64.0.2-100.64.0.4":
            return [f"100.64.0.{i}" for i in (2, 3, 4)]
        if word == "autogroup:danger-all":
            return ["*"]
        return [] if word.startswith("autogroup:") else [HOSTS.get(word, word)]

    def addresses(self, word: str) -> list[str]:
        chosen = self.select(word)
        return self.ranges(word) if chosen is None else self.own(chosen)

    def allowed(self, at: str, rule: dict[str, Any]) -> list[dict[str, Any]]:
        """The filter rules that one node is sent for one rule of the policy."""
        sources = [a for word in rule["src"] for a in self.addresses(word)]
        found = []
        for word, open_ports in rule["to"]:
            to, let_in = self.addresses(word), sources
            if word == "autogroup:self":
                mine = [k for k, n in self.nodes.items() if n.get("user") == self.nodes[at].get("user", "-")]
                to = self.own([at]) if mine else []
                let_in = [a for a in self.own(mine) if any(self.covers(s, a) for s in sources)]
            if rule.get("via"):
                routes = set(self.nodes[at]["approved_routes"]) & set(self.nodes[at]["routable_ips"])
                mine = set(self.nodes[at]["tags"]) & set(rule["via"])
                reached = [] if self.select(word) is not None else to
                to = [
                    r
                    for r in sorted(routes)
                    if mine and r != "0.0.0.0/0" and any(self.meets(r, a) for a in reached)
                ]
            for name, listed in open_ports:
                ends = [(0, 65535)] if listed == "*" else [self.port(p) for p in listed.split(",")]
                destinations = [{"IP": ip, "Ports": {"First": a, "Last": b}} for ip in to for a, b in ends]
                one = {"SrcIPs": let_in, "DstPorts": destinations}
                found.append(one | ({"IPProto": PROTOCOLS[name]} if name else {}))
        return [f for f in found if f["SrcIPs"] and f["DstPorts"]]

    @staticmethod
    def port(text: str) -> tuple[int, int]:
        first, _, last = text.partition("-")
        return int(first), int(last or first)

    @staticmethod
    def meets(route: str, other: str) -> bool:
        if other == "*":
            return False
        one, two = ipaddress.ip_network(route), ipaddress.ip_network(other, strict=False)
        return one.version == two.version and one.overlaps(two)

    @staticmethod
    def covers(source: str, address: str) -> bool:
        if source == "*":
            return True
        ip, net = ipaddress.ip_address(address), ipaddress.ip_network(source)
        return ip.version == net.version and ip in net


def reached(edge: EdgeClaim, kept: set[str]) -> Iterator[tuple[str, str, str, str | None, str]]:
    """What an edge lets through from a device that has the postures ``kept``."""
    ends = edge.start.key[0], edge.end.label, edge.end.key[0], edge.properties.get("protocol")
    apart = edge.properties.get("conditionalPorts") or []
    if not edge.properties.get("posture") or (
        not apart and kept.intersection(edge.properties.get("posture"))
    ):
        yield (*ends, edge.properties["ports"])
    for one in apart:
        listed, _, postures = one.partition(" ")
        if kept.intersection(postures.split(" or ")):
            yield (*ends, listed)


@settings(max_examples=150, deadline=None)
@given(node_lists, st.lists(acls, min_size=1, max_size=3), st.lists(grants, max_size=2), POSTURES)
def test_a_policy_gives_the_connections_of_a_naive_control_plane(drawn, some_acls, some_grants, everybody):
    policy = {
        "defaultSrcPosture": everybody,
        "groups": GROUPS,
        "hosts": HOSTS,
        "ipsets": SETS,
        "acls": [
            {"action": "accept", "src": a["src"], "dst": [f"{w}:{p}" for w, p in a["dst"]]}
            | ({"proto": a["proto"]} if a["proto"] else {})
            | ({"srcPosture": a["posture"]} if a["posture"] else {})
            for a in some_acls
        ],
        "grants": [
            {
                "src": g["src"],
                "dst": [w for (w,) in g["dst"]],
                "ip": [f"{n}:{p}" if n else p for n, p in g["ip"]],
            }
            | ({"via": g["via"]} if g["via"] else {})
            | ({"srcPosture": g["posture"]} if g["posture"] else {})
            for g in some_grants
        ],
    }
    rules = [a | {"to": [(w, [(a["proto"], p)]) for w, p in a["dst"]]} for a in some_acls]
    rules += [g | {"to": [(w, g["ip"]) for (w,) in g["dst"]]} for g in some_grants]
    shape = topology(drawn)
    plane = ControlPlane(shape["nodes"])
    said = read({"x.json": {"topology": shape, "captures": {}, "input": {"full_policy": policy}}})
    told = [e for e in said.edges if e.type == "CONNECTS_TO" and e.method == "tailscale_policy"]

    def filters(*kept):
        """What all devices are sent if they have these postures."""
        held = [r for r in rules if not (p := r["posture"] or everybody) or not set(kept).isdisjoint(p)]
        sent = {
            n: {"packet_filter_rules": [f for r in held for f in plane.allowed(n, r)]} for n in shape["nodes"]
        }
        return {"topology": shape, "captures": sent}

    for kept in ((), ("posture:new",), ("posture:old",), ("posture:new", "posture:old")):
        wanted = filters(*kept)
        open_now = [one for edge in told for one in reached(edge, set(kept))]
        assert pf.found(open_now, wanted) == pf.expected(wanted)
    assert said.problems == ()


# --- single rules -------------------------------------------------------------------------------------------

HOUSE = {
    "devices": [
        device("laptop", 1),
        device("phone", 2, user=BEN),
        device("nas", 3, tags=["tag:nas"]),
        device(
            "router", 4, tags=["tag:router"], advertisedRoutes=["10.1.0.0/16"], enabledRoutes=["10.1.0.0/16"]
        ),
    ]
}


def allows(policy: Any, **more: Any) -> set[tuple[str, str, str, str]]:
    return access(read({"devices.json": HOUSE, "policy.hujson": policy, **more}))


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"src": [ANNA], "dst": ["tag:nas:22"]}, ["laptop nas - 22"]),
        ({"src": ["Anna@Example.com"], "dst": ["tag:nas:22"]}, ["laptop nas - 22"]),
        ({"src": ["user:*@example.com"], "dst": ["tag:nas:1-5"]}, ["laptop nas - 1-5", "phone nas - 1-5"]),
        ({"users": [BEN], "ports": ["tag:nas:*"]}, ["phone nas - *"]),
        ({"src": ["tag:nas"], "dst": ["autogroup:member:80"]}, ["nas laptop - 80", "nas phone - 80"]),
        ({"src": ["phone.example"], "dst": ["tag:nas:80"]}, []),
        ({"src": [BEN], "dst": ["[fd7a:115c:a1e0::3]:80"]}, ["phone nas - 80"]),
        ({"src": [BEN], "dst": ["fd7a:115c:a1e0::3:80"]}, ["phone nas - 80"]),
        ({"src": ["100.64.0.1-100.64.0.2"], "dst": [f"{BEN}:80"]}, ["laptop phone - 80"]),
        ({"src": ["tag:nas"], "dst": ["10.1.7.0/24:*"], "proto": "tcp"}, ["nas 10.1.0.0/16 tcp *"]),
        ({"src": ["tag:nas"], "dst": ["10.1.7.0/24:*"], "proto": 6}, ["nas 10.1.0.0/16 tcp *"]),
        ({"src": ["tag:nas"], "dst": ["10.1.0.1:0-65535"], "proto": "47"}, ["nas 10.1.0.0/16 gre *"]),
        ({"src": ["tag:router"], "dst": ["10.1.0.0/16:*"]}, []),
        ({"src": ["*"], "dst": ["autogroup:internet:*"]}, []),
        ({"action": "deny", "src": ["*"], "dst": ["*:*"]}, []),
        ({"src": ["*"], "dst": ["tag:nas:99999"]}, []),
        ({"src": ["*"], "dst": ["tag:nas"]}, []),
        ({"src": ["group:nowhere"], "dst": ["*:*"]}, []),
    ],
)
def test_one_rule(rule, wanted):
    found = allows({"acls": [{"action": "accept"} | rule]})
    assert sorted(" ".join(one) for one in found) == wanted


def test_sections_and_fields_may_be_written_in_any_case():
    policy = """{
      // as policies were written first
      "Groups": {"group:a": ["anna@example.com",],},
      "ACLs": [{"Action": "accept", "Users": ["group:a"], "Ports": ["tag:nas:22",],},],
    }"""
    assert allows(policy) == {("laptop", "nas", "-", "22")}


@pytest.mark.parametrize("section", ["acls", "grants"])
def test_a_policy_without_any_rules_lets_everybody_through_and_an_empty_list_nobody(section):
    policy = {"tagOwners": {"tag:nas": []}}
    assert {(s, t) for s, t, *_ in allows(policy)} >= {("laptop", "nas"), ("nas", "10.1.0.0/16")}
    assert allows(policy | {section: None}) == allows(policy)
    assert allows(policy | {section: []}) == set()


def test_roles_come_from_an_answer_about_users():
    policy = {"acls": [{"action": "accept", "src": ["autogroup:admin"], "dst": ["tag:nas:22"]}]}
    assert allows(policy) == set()
    users = {"users": [{"loginName": BEN, "role": "owner"}]}
    assert allows(policy, **{"users.json": users}) == {("phone", "nas", "-", "22")}


def test_what_a_policy_leaves_open_is_noted_with_its_line():
    policy = (
        '{"acls": [\n {"action": "accept", "src": ["autogroup:admin", "svc:x"], "dst": ["tag:nas:22"]}\n]}'
    )
    found = read({"devices.json": HOUSE, "policy.hujson": policy})
    (problem,) = found.problems
    assert (problem.path, problem.code) == ("policy.hujson", "E_UNRESOLVED")
    assert "line 2" in problem.message and "svc" not in problem.message


def test_ports_of_all_rules_for_one_connection_are_merged_and_all_rules_are_quoted():
    one, two = ({"action": "accept", "src": [ANNA], "dst": [f"tag:nas:{p}"]} for p in ("22", "23-25"))
    found = read({"devices.json": HOUSE, "policy.hujson": {"acls": [one, two]}})
    told = [e for e in found.edges if e.method == "tailscale_policy"]
    assert [e.properties["ports"] for e in told] == ["22-25", "22-25"]
    assert len({e.evidence for e in told}) == 2


LAPTOP_TO_LAN = {"src": [ANNA], "dst": ["10.1.0.0/16"]}
HTTPS_IF_NEW = LAPTOP_TO_LAN | {"ip": ["tcp:443"], "via": ["tag:router"], "srcPosture": ["posture:new"]}
SSH = LAPTOP_TO_LAN | {"ip": ["tcp:22"]}


@pytest.mark.parametrize("range_", ["10.1.0.0/16", "10.1.2.0/24", "10.0.0.0/8", "10.1.2.3"])
def test_a_grant_goes_by_a_router_whose_route_overlaps_the_destination(range_):
    grant = {"src": [ANNA], "dst": [range_], "ip": ["tcp:443"], "via": ["tag:router"]}
    assert ("laptop", "10.1.0.0/16", "tcp", "443") in allows({"grants": [grant]})
    assert allows({"grants": [grant | {"dst": ["10.2.0.0/16"]}]}) == set()


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ([HTTPS_IF_NEW], {"ports": "443", "via": ["tag:router"], "posture": ["posture:new"]}),
        # What one rule asks for is not asked of the ports of another, and not forgotten for its own.
        ([HTTPS_IF_NEW, SSH], {"ports": "22", "conditionalPorts": ["443 posture:new"]}),
        ([SSH, HTTPS_IF_NEW | {"ip": ["tcp:22"]}], {"ports": "22"}),
        (
            [SSH | {"srcPosture": ["posture:old", "posture:new"]}, SSH | {"ip": ["tcp:80"]}],
            {"ports": "80", "conditionalPorts": ["22 posture:new or posture:old"]},
        ),
        (
            [SSH | {"srcPosture": ["posture:a"]}, SSH | {"ip": ["tcp:80-81"], "srcPosture": ["posture:b"]}],
            {
                "ports": "22,80-81",
                "posture": ["posture:a", "posture:b"],
                "conditionalPorts": ["22 posture:a", "80-81 posture:b"],
            },
        ),
    ],
)
def test_a_port_that_asks_for_a_posture_is_never_open_without_one(given_, wanted):
    found = read({"devices.json": HOUSE, "policy.hujson": {"grants": given_}})
    told = {e.start.key[0]: e.properties for e in found.edges if e.method == "tailscale_policy"}
    said = {name: value for name, value in told["laptop"].items() if value is not None}
    assert said == {"protocol": "tcp"} | wanted


def test_the_posture_of_a_whole_policy_holds_where_a_rule_names_none():
    rules = [{"action": "accept", "src": [ANNA], "dst": ["tag:nas:22"]}]
    rules.append({"action": "accept", "src": [BEN], "dst": ["tag:nas:22"], "srcPosture": ["posture:own"]})
    policy = {"postures": {"posture:all": ["node:os == 'linux'"]}, "defaultSrcPosture": ["posture:all"]}
    found = read({"devices.json": HOUSE, "policy.hujson": policy | {"acls": rules}})
    told = {e.start.key[0]: e.properties for e in found.edges if e.method == "tailscale_policy"}
    assert {who: p["posture"] for who, p in told.items()} == {
        "laptop": ["posture:all"],
        "phone": ["posture:own"],
    }


def test_each_of_two_policies_is_taken_by_itself():
    rule = {"action": "accept", "src": [ANNA], "dst": ["tag:nas:22"]}
    files = {
        "a.json": {"acls": [rule]},
        "b.json": {"acls": [rule | {"dst": ["tag:nas:23"]}]},
        "d.json": HOUSE,
    }
    found = read(files)
    told = {(e.evidence.path, e.properties["ports"]) for e in found.edges if e.method == "tailscale_policy"}
    assert told == {("a.json", "22"), ("b.json", "23")}


def test_a_policy_that_was_refused_is_not_in_force():
    capture = json.loads(json.dumps(pf.read(gold.HANDMADE / "acls.hujson")))
    capture["input"]["api_response_code"] = 400
    for one in capture["captures"].values():
        one["packet_filter_rules"] = None
    assert edges(read({"x.json": capture}), "CONNECTS_TO") == {("router", "10.33.0.0/16")}


def test_the_work_is_bounded_and_what_is_left_out_is_told(monkeypatch):
    policy = {"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}]}
    monkeypatch.setattr(extractor, "MAX_POLICY_EDGES", 5)
    found = read({"devices.json": HOUSE, "policy.hujson": policy})
    assert len(access(found)) == 5
    assert [p.code for p in found.problems] == ["E_TOO_LARGE"]
    monkeypatch.setattr(resolving, "MAX_PAIRS", 5)
    assert [p.code for p in read({"d.json": HOUSE, "p.json": policy}).problems] == ["E_TOO_LARGE"]


def test_names_that_lead_in_a_circle_end():
    policy = {
        "groups": {"group:a": ["group:b", ANNA], "group:b": ["group:a"]},
        "ipsets": {"ipset:a": ["ipset:a", "add 100.64.0.3"]},
        "acls": [{"action": "accept", "src": ["group:b"], "dst": ["ipset:a:22"]}],
    }
    assert allows(policy) == {("laptop", "nas", "-", "22")}
