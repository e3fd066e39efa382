"""Devices, names, addresses and routes are the same whichever form says them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gold import tailscale as gold
from taboot_pipelines.extraction.tier_a.tailscale.extractor import TailscaleExtractor
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.json_text import parse
from taboot_pipelines.model.tailnets import Form, form_of
from taboot_pipelines_tests.extraction.tier_a.tailscale.reading import (
    TAILSCALE,
    access,
    device,
    edges,
    nodes,
    read,
)

# --- against the labels -------------------------------------------------------------------------------------


def test_the_labelled_files_are_read_as_they_are_labelled():
    for name, wanted, found in gold.inventories():
        assert found == wanted, name


@pytest.mark.parametrize("path", sorted(TAILSCALE.rglob("*json")), ids=lambda p: p.name)
def test_every_recorded_file_is_read_without_a_failure(path):
    found = read({path.name: path.read_text()})
    assert [p for p in found.problems if p.code != "E_UNRESOLVED"] == []


# --- forms --------------------------------------------------------------------------------------------------

STATUS = {
    "BackendState": "Running",
    "Self": {
        "ID": "n1",
        "HostName": "Laptop",
        "DNSName": "laptop.tail1.ts.net.",
        "OS": "macOS",
        "UserID": 7,
        "TailscaleIPs": ["100.64.0.1", "fd7a:115c:a1e0::1"],
    },
    "User": {"7": {"ID": 7, "LoginName": "anna@example.com"}},
    "Peer": {
        "nodekey:ab": {
            "ID": "n2",
            "HostName": "router",
            "DNSName": "router.tail1.ts.net.",
            "OS": "linux",
            "TailscaleIPs": ["100.64.0.2"],
            "AllowedIPs": ["100.64.0.2/32", "192.168.7.0/24", "0.0.0.0/0", "::/0"],
            "Tags": ["tag:router"],
        },
        "nodekey:cd": {
            "ID": "n3",
            "HostName": "us-nyc-wg-301",
            "DNSName": "us-nyc-wg-301.mullvad.ts.net.",
            "TailscaleIPs": ["100.100.0.9"],
        },
    },
}

NETMAP = {
    "SelfNode": {
        "ID": 11,
        "StableID": "n1",
        "Name": "laptop.tail1.ts.net.",
        "User": 7,
        "Addresses": ["100.64.0.1/32", "fd7a:115c:a1e0::1/128"],
        "AllowedIPs": ["100.64.0.1/32", "fd7a:115c:a1e0::1/128"],
        "Hostinfo": {"Hostname": "Laptop", "OS": "macOS"},
        "MachineAuthorized": True,
    },
    "Peers": [
        {
            "StableID": "n2",
            "Name": "router.tail1.ts.net.",
            "Addresses": ["100.64.0.2/32"],
            "AllowedIPs": ["100.64.0.2/32", "192.168.7.0/24", "0.0.0.0/0"],
            "Hostinfo": {"Hostname": "router", "RoutableIPs": ["192.168.7.0/24", "0.0.0.0/0"]},
            "Tags": ["tag:router"],
        }
    ],
    "PacketFilterRules": [
        {
            "SrcIPs": ["100.64.0.2"],
            "DstPorts": [{"IP": "100.64.0.1", "Ports": {"First": 22, "Last": 22}}],
            "IPProto": [6],
        }
    ],
    "UserProfiles": {"7": {"ID": 7, "LoginName": "anna@example.com"}},
}

API = {
    "devices": [
        device("Laptop", 1, os="macOS"),
        device(
            "router",
            2,
            addresses=["100.64.0.2"],
            tags=["tag:router"],
            advertisedRoutes=["192.168.7.0/24", "10.9.0.0/16", "0.0.0.0/0"],
            enabledRoutes=["192.168.7.0/24", "172.16.0.0/12", "0.0.0.0/0"],
        ),
    ]
}


@pytest.mark.parametrize("form", [API, STATUS, NETMAP], ids=["api", "status", "netmap"])
def test_the_forms_of_one_tailnet_say_the_same(form):
    found = read({"x.json": form})
    named = {"laptop", "laptop.tail1.ts.net", "router", "router.tail1.ts.net"}
    assert nodes(found, "Host").keys() - {"us-nyc-wg-301.mullvad.ts.net"} == named
    assert {n for n, p in nodes(found, "Host").items() if p.get("osType") == "macos"} >= {"laptop"}
    assert edges(found, "RESOLVES_TO") >= {
        (f"laptop{suffix}", address)
        for suffix in ("", ".tail1.ts.net")
        for address in ("100.64.0.1", "fd7a:115c:a1e0::1")
    }
    assert nodes(found, "Network") == {"192.168.7.0/24": {"cidrs": ["192.168.7.0/24"], "isPublic": False}}
    assert ("router", "192.168.7.0/24") in edges(found, "CONNECTS_TO")
    assert {("laptop", "n1"), ("router.tail1.ts.net", "n2")} <= edges(found, "USES_VPN")
    router = nodes(found, "TailscaleNode")["n2"]
    assert router["exitNode"] and router["enabledRoutes"] == ["192.168.7.0/24"]
    assert router["tags"] == ["tag:router"] and router["name"] == "router.tail1.ts.net"


def test_a_netmap_without_a_policy_says_who_its_filters_let_in():
    assert access(read({"netmap.json": NETMAP})) == {("router", "laptop", "tcp", "22")}
    answer = {name: value for name, value in NETMAP.items() if name != "PacketFilterRules"}
    named = {"base": NETMAP["PacketFilterRules"], "more": None}
    assert access(read({"answer.json": answer | {"PacketFilters": named}})) == {
        ("router", "laptop", "tcp", "22")
    }
    policy = {"acls": []}
    assert access(read({"netmap.json": NETMAP, "policy.json": policy})) == set()


def test_what_is_advertised_and_not_enabled_is_a_property():
    router = nodes(read({"devices.json": API}), "TailscaleNode")["n2"]
    assert router["advertisedRoutes"] == ["0.0.0.0/0", "10.9.0.0/16", "192.168.7.0/24"]


HEADSCALE_NODE = {
    "id": "7",
    "machineKey": "mkey:" + "a1" * 32,
    "ipAddresses": ["100.64.0.7", "fd7a:115c:a1e0::7"],
    "name": "Pi",
    "givenName": "pi-x1",
    "user": {"id": "1", "name": "anna", "email": "anna@example.com"},
    "forcedTags": [],
    "validTags": ["tag:pi"],
    "approvedRoutes": ["10.1.0.0/16", "10.2.0.0/16"],
    "availableRoutes": ["10.1.0.0/16"],
}


def test_headscale_nodes_by_its_api_and_by_its_command_line():
    snake = {
        "id": 7,
        "machine_key": HEADSCALE_NODE["machineKey"],
        "ip_addresses": HEADSCALE_NODE["ipAddresses"],
        "name": "Pi",
        "given_name": "pi-x1",
        "user": HEADSCALE_NODE["user"],
        "valid_tags": ["tag:pi"],
        "approved_routes": HEADSCALE_NODE["approvedRoutes"],
        "available_routes": HEADSCALE_NODE["availableRoutes"],
    }
    for form in ({"nodes": [HEADSCALE_NODE]}, [snake], {"node": HEADSCALE_NODE}, {"machines": [snake]}):
        found = read({"nodes.json": form})
        assert nodes(found, "Host").keys() == {"pi", "pi-x1"}
        assert edges(found, "USES_VPN") == {("pi", "home/7"), ("pi-x1", "home/7")}
        assert edges(found, "CONNECTS_TO") == {("pi", "10.1.0.0/16")}
        assert nodes(found, "TailscaleNode")["home/7"]["tags"] == ["tag:pi"]


@pytest.mark.parametrize(
    ("routes", "wanted"),
    [
        ({"approved_routes": ["10.1.0.0/16"], "available_routes": ["10.1.0.0/16", "10.9.0.0/16"]}, True),
        ({"approved_routes": ["10.1.0.0/16"]}, False),
        ({"available_routes": ["10.1.0.0/16"]}, False),
        ({"subnet_routes": ["10.1.0.0/16"]}, True),
    ],
)
def test_a_route_of_headscale_is_approved_and_offered(routes, wanted):
    found = read({"nodes.json": [{"id": 7, "given_name": "pi", "ip_addresses": ["100.64.0.7"], **routes}]})
    assert edges(found, "CONNECTS_TO") == ({("pi", "10.1.0.0/16")} if wanted else set())


def test_headscale_routes_that_stand_apart():
    bare = {k: v for k, v in HEADSCALE_NODE.items() if not k.endswith("Routes")}
    routes = [
        {"id": "1", "node": {"id": "7"}, "prefix": "10.3.0.0/16", "advertised": True, "enabled": True},
        {"id": "2", "node": {"id": "7"}, "prefix": "10.4.0.0/16", "advertised": True, "enabled": False},
        {"id": "3", "node": {"id": "7"}, "prefix": "0.0.0.0/0", "advertised": True, "enabled": True},
    ]
    found = read({"node.json": {"nodes": [bare]}, "routes.json": {"routes": routes}})
    assert edges(found, "CONNECTS_TO") == {("pi", "10.3.0.0/16")}
    (edge,) = [e for e in found.edges if e.type == "CONNECTS_TO"]
    assert edge.evidence.path == "routes.json" and edge.end_basis is Basis.BYTES
    assert nodes(found, "TailscaleNode")["home/7"]["exitNode"]


def test_a_capture_of_filters_alone_is_read_by_its_topology():
    found = read({"old.json": (gold.HANDMADE / "acls.hujson").read_text()})
    assert nodes(found, "Host").keys() == {"laptop", "phone", "desk", "web", "db", "router", "exit"}
    assert ("router", "home/router") in edges(found, "USES_VPN")
    assert edges(found, "RESOLVES_TO") >= {("db", "100.64.0.5"), ("db", "fd7a:115c:a1e0::5")}


def test_captures_beside_each_other_do_not_mix():
    captures = {p.name: p.read_text() for p in sorted(gold.HANDMADE.glob("*.hujson"))}
    together = read(captures)
    apart = [read({name: text}) for name, text in captures.items()]
    assert set(map(repr, together.edges)) == {repr(e) for one in apart for e in one.edges}


@pytest.mark.parametrize(
    "said",
    [
        {"dns": ["1.1.1.1"], "magicDNS": True},
        {"searchPaths": ["lan"]},
        {"advertisedRoutes": ["10.0.0.0/8"], "enabledRoutes": []},
        {"users": [{"loginName": "anna@example.com", "role": "owner"}]},
        {"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}]},
        {"policy": '{"acls": []} // empty', "updatedAt": "2026-01-01T00:00:00Z"},
        {"corp.example.com": ["10.0.0.53"], "lab.example.com": None},
        {"devices": []},
        [],
        {},
    ],
)
def test_what_names_no_device_says_nothing(said):
    found = read({"x.json": said})
    assert (found.nodes, found.edges, found.problems) == ((), (), ())


@pytest.mark.parametrize(
    ("root", "form"),
    [
        ({"groups": {"group:a": []}}, Form.POLICY),
        ({"ssh": [{"action": "accept", "src": ["a@"]}]}, Form.POLICY),
        ({"TagOwners": {}}, Form.POLICY),
        ({"groups": ["wheel"], "hosts": {"a": "b"}, "tests": []}, None),
        ({"ssh": {"port": 22}}, None),
        ({"self": "https://x.example/1", "users": [{"name": "root"}], "node": "18"}, None),
        ({"nodes": [{"id": 1, "label": "a"}]}, None),
        ({"nodes": []}, Form.LISTS),
        ({"name": "x", "version": "1"}, None),
        ("text", None),
        ([{"a": 1}], None),
    ],
)
def test_the_form_is_told_by_what_only_it_holds(root, form):
    assert form_of(parse(json.dumps(root))) == form


def test_a_policy_that_is_broken_costs_nothing_else():
    capture = {"topology": {"nodes": {"a": {"hostname": "a", "ipv4": "100.64.0.1"}}}, "captures": {}}
    found = read({"x.json": capture | {"input": {"full_policy": "{oops"}}, "p.json": {"policy": "[}"}})
    assert nodes(found, "Host").keys() == {"a"}
    assert [(p.path, p.code) for p in found.problems] == [("p.json", "E_PARSE"), ("x.json", "E_PARSE")]


def test_what_is_none_of_the_forms_is_noted_and_what_is_no_json_is_told():
    found = read(
        {"a.json": {"colour": "red"}, "b.json": '{"devices": [', "c.json": {"devices": [device("x", 1)]}}
    )
    assert [(p.path, p.code) for p in found.problems] == [("a.json", "E_UNRESOLVED"), ("b.json", "E_PARSE")]
    assert "line 1" in found.problems[1].message
    assert "x" in nodes(found, "Host")


# --- names --------------------------------------------------------------------------------------------------


def test_a_name_of_two_devices_names_neither_and_the_next_counts():
    devices = [
        device("localhost", 1, name="phone.tail1.ts.net"),
        device("pi", 2, enabledRoutes=["10.1.0.0/16"]),
        device("pi", 3, name="pi-1.tail1.ts.net"),
        device("same", 4, name="same"),
        device("same", 5, name="same"),
    ]
    found = read({"devices.json": {"devices": devices}})
    assert nodes(found, "Host").keys() == {
        "phone.tail1.ts.net",
        "pi.tail1.ts.net",
        "pi-1.tail1.ts.net",
        "n4",
        "n5",
    }
    assert edges(found, "CONNECTS_TO") == {("pi.tail1.ts.net", "10.1.0.0/16")}


def test_a_device_that_is_shared_in_has_its_magicdns_name_alone_and_no_access():
    devices = [device("mine", 1), device("theirs", 2, isExternal=True)]
    policy = {"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}]}
    found = read({"devices.json": {"devices": devices}, "policy.hujson": policy})
    assert nodes(found, "Host").keys() == {"mine", "mine.tail1.ts.net", "theirs.tail1.ts.net"}
    assert edges(found, "CONNECTS_TO") == set()


def test_a_device_without_authorization_is_in_no_tailnet():
    lone = device("new", 1, authorized=False, enabledRoutes=["10.1.0.0/16"])
    policy = {"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}]}
    found = read({"devices.json": {"devices": [lone, device("old", 2)]}, "acl.json": policy})
    assert {s for s, _ in edges(found, "USES_VPN")} == {"old", "old.tail1.ts.net"}
    assert edges(found, "CONNECTS_TO") == set()
    assert nodes(found, "Network") == {}
    assert ("new", "100.64.0.1") in edges(found, "RESOLVES_TO")


def test_names_and_addresses_are_put_in_their_normal_form():
    one = device(
        "Anna's Küche (old)", 1, addresses=["FD7A:115C:A1E0:0::01/128", "fe80::1", "0.0.0.0", "127.0.0.1"]
    )
    found = read({"devices.json": {"devices": [one]}})
    assert len(nodes(found, "Host")) == 2
    assert nodes(found, "IP").keys() == {"fd7a:115c:a1e0::1"}
    (basis,) = {e.end_basis for e in found.edges if e.type == "RESOLVES_TO"}
    assert basis is Basis.NORMALIZED


def test_one_device_in_two_files_is_one_and_each_file_supports_what_it_says():
    files = {"devices/n1.json": device("a", 1), "status.json": STATUS}
    found = read(files)
    assert nodes(found, "Host").keys() >= {"a", "laptop"}
    paths = {e.evidence.path for e in found.edges if (e.type, e.end.key) == ("USES_VPN", ("n1",))}
    assert paths == set(files)


# --- keys, units and evidence -------------------------------------------------------------------------------


def test_a_machine_key_is_a_hash_of_the_namespace_alone():
    key = "mkey:" + "0f" * 32
    found = read(
        {"devices.json": {"devices": [device("x", 1, machineKey=key, nodeKey="nodekey:" + "1e" * 32)]}}
    )
    properties = nodes(found, "TailscaleNode")["n1"]
    assert len(properties["machineKeyHash"]) == 64
    assert key[5:] not in json.dumps([repr(found.nodes), repr(found.edges), repr(found.problems)])


def test_a_unit_is_a_folder_with_its_parts():
    paths = [
        "devices/n1.json",
        "devices/n2.json",
        "dns/nameservers.json",
        "policy.hujson",
        "notes.md",
        "captures/acl/a.hujson",
        "captures/b.HUJSON",
        "other/devices.json",
        "other/acls/acl.json",
    ]
    units = {u.name: u.files for u in TailscaleExtractor().units(paths)}
    assert units == {
        ".": ("devices/n1.json", "devices/n2.json", "dns/nameservers.json", "policy.hujson"),
        "captures": ("captures/acl/a.hujson", "captures/b.HUJSON"),
        "other": ("other/acls/acl.json", "other/devices.json"),
    }


def test_the_evidence_is_the_smallest_value_also_inside_of_a_string():
    policy = '{"acls": [ // "q"\n {"action": "accept", "src": ["anna@"], "dst": ["pi:22"]}], '
    policy += '"hosts": {"pi": "100.64.0.7"}}'
    tagless = HEADSCALE_NODE | {"validTags": []}
    other = tagless | {"id": "8", "name": "nas", "givenName": "nas", "ipAddresses": ["100.64.0.8"]}
    answer = json.dumps({"policy": policy})
    found = read({"nodes.json": {"nodes": [tagless, other]}, "policy.json": answer})
    assert access(found) == {("nas", "pi", "-", "22")}
    (edge,) = [e for e in found.edges if e.method == "tailscale_policy"]
    quote = answer[edge.evidence.start : edge.evidence.end]
    assert json.loads(f'"{quote}"') == '{"action": "accept", "src": ["anna@"], "dst": ["pi:22"]}'


FIELDS = (
    "devices nodes node id nodeId name hostname addresses user tags captures topology netmap SelfNode Peers "
    "Self Peer StableID Addresses AllowedIPs Hostinfo acls grants src dst ip via groups hosts ipsets action "
    "PacketFilterRules SrcIPs DstPorts IP Ports routes prefix users input full_policy enabledRoutes "
    "ipAddresses proto policy CapMap UserProfiles"
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 99)
    | st.sampled_from(["", "100.64.0.1", "tag:a", "*:*", "n1", "a@"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS.split()),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(values)
def test_any_json_is_read_without_a_failure(value):
    assert all(p.code in ("E_UNRESOLVED", "E_PARSE") for p in read({"x.json": value}).problems)


def test_a_filter_as_a_client_keeps_it_gives_its_connections():
    """``tailscale debug netmap`` names the parts of a filter otherwise than the control plane sends them."""
    own = {"StableID": "n1", "Name": "a.tail1.ts.net.", "Addresses": ["100.64.0.1/32"]}
    peer = {"StableID": "n2", "Name": "b.tail1.ts.net.", "Addresses": ["100.64.0.2/32"]}
    ports = {"First": 22, "Last": 22}
    rule = {"IPProto": [6], "Srcs": ["100.64.0.2/32"], "Dsts": [{"Net": "100.64.0.1/32", "Ports": ports}]}
    found = read({"netmap.json": {"SelfNode": own, "Peers": [peer], "PacketFilter": [rule]}})
    assert access(found) == {("b.tail1.ts.net", "a.tail1.ts.net", "tcp", "22")} and found.problems == ()


@pytest.mark.parametrize(
    "users",
    [
        {"users": [{"id": "1", "name": "anna", "createdAt": "2026-01-01T00:00:00Z"}]},
        [{"id": 1, "name": "anna", "created_at": {"seconds": 1700000000}}],
    ],
)
def test_users_of_headscale_are_known_and_say_nothing(users):
    found = read({"users.json": users})
    assert (found.nodes, found.problems) == ((), ())


def test_what_a_mac_calls_itself_is_a_plain_name():
    found = read({"d.json": {"devices": [device("Anna\u2019s MacBook", 1)]}})
    assert "annas-macbook" in nodes(found, "Host")


def test_a_node_of_a_captures_topology_is_the_peer_that_others_see() -> None:
    peer = {
        "StableID": "n2",
        "Name": "store.example.ts.net.",
        "Addresses": ["100.64.0.2/32"],
        "Hostinfo": {"Hostname": "store"},
    }
    own = {"StableID": "n1", "Name": "desk.example.ts.net.", "Addresses": ["100.64.0.1/32"]}
    capture = {
        "topology": {
            "users": [{"name": "ann"}],
            "nodes": {
                # Without a netmap of its own, before the one that has it among its peers.
                "a": {"hostname": "store", "ipv4": "100.64.0.2", "user": "ann"},
                "b": {"hostname": "desk", "ipv4": "100.64.0.1", "user": "ann"},
                "c": {"hostname": "alone", "ipv4": "100.64.0.3", "user": "ann"},
            },
        },
        "captures": {"b": {"netmap": {"SelfNode": own, "Peers": [peer]}}},
        "input": {"full_policy": {"acls": [{"action": "accept", "src": ["ann@"], "dst": ["*:22"]}]}},
    }
    found = read({"x.json": capture})
    nodes = {n.node.key[0] for n in found.nodes if n.node.label == "TailscaleNode"}
    assert {key.rpartition("/")[2] for key in nodes} == {"n1", "n2", "alone"}
    reached = {(e.start.name, e.end.name) for e in found.edges if e.type == "CONNECTS_TO"}
    hosts = {name for pair in reached for name in pair}
    assert len(hosts) == 3 and len(reached) == 6, reached
