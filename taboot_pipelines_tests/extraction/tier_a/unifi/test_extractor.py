"""What UniFi's objects say: against the labels, whatever envelope they come in, and in several files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gold import unifi_f1
from benchmarks.gold.check import DATA, GOLD, read_labels
from taboot_pipelines.extraction.tier_a.unifi.extractor import UnifiExtractor
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import FileView, SourceFacts

FACTS = SourceFacts("default", "house")
GATEWAY = {
    "_id": "d1",
    "mac": "02:00:5e:00:10:01",
    "type": "udm",
    "adopted": True,
    "name": "Gate",
    "ip": "203.0.113.7",
    "network_table": [{"name": "LAN", "purpose": "corporate", "ip": "10.0.0.1", "ip_subnet": "10.0.0.1/24"}],
}
SWITCH = {
    "_id": "d2",
    "mac": "02:00:5e:00:10:02",
    "type": "usw",
    "adopted": True,
    "name": "Hall",
    "ip": "10.0.0.2",
    "connection_network_name": "LAN",
    "uplink": {"uplink_mac": "02:00:5e:00:10:01"},
}
CLIENT = {
    "_id": "c1",
    "mac": "02:00:5e:00:00:01",
    "oui": "",
    "hostname": "nas",
    "ip": "10.0.0.30",
    "network_id": "n1",
    "sw_mac": "02:00:5E:00:10:02",
}
NETWORK = {"_id": "n1", "name": "LAN", "purpose": "corporate", "ip_subnet": "10.0.0.1/24", "vlan": "7"}
FORWARD = {
    "_id": "f1",
    "name": "Web",
    "enabled": True,
    "dst_port": "443",
    "fwd": "10.0.0.30",
    "fwd_port": "8443",
    "proto": "tcp_udp",
}
RECORD = {"_id": "r1", "enabled": True, "key": "files.lan", "record_type": "CNAME", "value": "nas"}
TUNNEL = {
    "_id": "n2",
    "name": "Roads",
    "purpose": "remote-user-vpn",
    "vpn_type": "wireguard-server",
    "x_wireguard_private_key": "cGxhbnRlZHBsYW50ZWRwbGFudGVkcGxhbnRlZHBsYW4=",
}
OBJECTS = [GATEWAY, SWITCH, CLIENT, NETWORK, FORWARD, RECORD, TUNNEL]


def interpret(files, facts=FACTS):
    """All that the units of these files say: nodes, edges, problems."""
    texts = {path: text if isinstance(text, str) else json.dumps(text) for path, text in files.items()}
    extractor = UnifiExtractor()
    nodes, edges, problems = [], [], []
    for unit in extractor.units(sorted(texts)):
        said = extractor.interpret(unit, FileView(frozenset(texts), texts.__getitem__), facts)
        nodes += said.nodes
        edges += said.edges
        problems += said.problems
    for claim in [*nodes, *edges]:
        where = claim.evidence
        assert 0 <= where.start < where.end <= len(texts[where.path])
    for node in nodes:
        check_node(node.node.label, node.node.key, node.properties)
    for edge in edges:
        check_node(edge.start.label, edge.start.key, {})
        check_node(edge.end.label, edge.end.key, {})
        check_edge(edge.type, edge.start.label, edge.end.label, edge.properties, edge.confidence)
        quote = texts[edge.evidence.path][edge.evidence.start : edge.evidence.end]
        for end, basis in ((edge.start, edge.start_basis), (edge.end, edge.end_basis)):
            assert basis != Basis.BYTES or end.name in quote
    return nodes, edges, problems


def facts(files):
    nodes, edges, _ = interpret(files)
    shown = {(n.node.label, n.node.key) for n in nodes}
    return shown | {(e.type, e.start.key, e.end.key, tuple(sorted(e.properties.items()))) for e in edges}


def hosts(files):
    return sorted(key[0] for label, key, *_ in (f for f in facts(files) if f[0] == "Host"))


def edges_of(files, type_):
    return sorted((f[1][-1], f[2][-1]) for f in facts(files) if f[0] == type_)


# --- the labels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(unifi_f1.SETS))
@pytest.mark.needs("data")
def test_the_reader_says_what_is_labelled_where_it_is_labelled(name):
    counts, differs, _ = unifi_f1.measured(name)
    assert differs == []
    for kind in unifi_f1.MEASURED:
        assert unifi_f1.f1(counts[kind])[2] >= 0.99


@pytest.mark.needs("data")
def test_files_that_say_nothing_for_the_graph_say_nothing():
    for label in read_labels(GOLD / "unifi.jsonl"):
        if label["kind"] == "none":
            text = (DATA / "unifi" / label["file"]).read_text("utf-8")
            assert interpret({label["file"]: text}) == ([], [], [])


@pytest.mark.needs("data")
def test_all_recorded_files_together_are_one_source_without_a_problem():
    files = {p.name: p.read_text("utf-8") for p in sorted((DATA / "unifi").glob("*.json"))}
    nodes, edges, problems = interpret(files)
    assert problems == [] and nodes and edges


# --- envelopes and files ------------------------------------------------------------------------------------


ENVELOPES = [
    lambda objects: objects,
    lambda objects: {"meta": {"rc": "ok"}, "data": objects},
    lambda objects: {"offset": 0, "limit": 25, "count": 1, "totalCount": 1, "data": objects},
    lambda objects: {"exported": {"things": objects}, "when": "today"},
    lambda objects: {"sites": {"default": {"one": objects[:2], "two": objects[2:]}}},
]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_it_does_not_matter_in_which_files_and_envelopes_objects_come(data):
    expected = facts({"all.json": OBJECTS})
    order = data.draw(st.permutations(OBJECTS))
    files = {}
    for at, one in enumerate(order):
        name = data.draw(st.sampled_from(["a", "deep/er/b", "stat", "x y"])) + f"{at}.json"
        form = data.draw(st.sampled_from(ENVELOPES))
        files[name] = one if data.draw(st.booleans()) else form([one])
    assert facts(files) == expected
    lines = "\n".join(json.dumps(one) for one in order)
    assert facts({"all.jsonl": lines}) == expected


def test_what_a_controller_pushes_is_no_inventory():
    for message in ("sta:sync", "device:sync", "client:removed", "events"):
        assert facts({"a.json": {"meta": {"rc": "ok", "message": message}, "data": OBJECTS}}) == set()


def test_references_lead_through_files():
    files = {f"{at}.json": one for at, one in enumerate(OBJECTS)}
    assert edges_of(files, "CONNECTS_TO") == [
        ("gate", "house/LAN"),
        ("hall", "gate"),
        ("hall", "house/LAN"),
        ("nas", "hall"),
        ("nas", "house/LAN"),
    ]
    assert edges_of(files, "RESOLVES_TO") == [
        ("files.lan", "10.0.0.30"),
        ("gate", "10.0.0.1"),
        ("gate", "203.0.113.7"),
        ("hall", "10.0.0.2"),
        ("nas", "10.0.0.30"),
    ]
    assert [start for start, _ in edges_of(files, "USES_VPN")] == ["gate"]


def test_a_reference_that_nothing_resolves_gives_no_edge():
    assert edges_of({"a.json": CLIENT}, "CONNECTS_TO") == []
    assert edges_of({"a.json": TUNNEL}, "USES_VPN") == []
    two = {**GATEWAY, "_id": "d9", "mac": "02:00:5e:00:10:09", "name": "Other"}
    assert edges_of({"a.json": [GATEWAY, two, TUNNEL]}, "USES_VPN") == []


# --- names --------------------------------------------------------------------------------------------------


def client(n, **fields):
    return {"_id": f"c{n}", "mac": f"02:00:5e:00:01:{n:02x}", "oui": "", "ip": f"10.0.1.{n}", **fields}


def test_a_name_that_two_devices_share_names_neither_in_whichever_file_they_stand():
    files = {"a.json": client(1, name="Desk", hostname="ipad"), "b.json": client(2, hostname="iPad")}
    assert hosts(files) == ["02-00-5e-00-01-02", "desk"]
    assert hosts({"a.json": files["a.json"]}) == ["desk", "ipad"]


def test_localhost_is_nobodys_name():
    assert hosts({"a.json": client(1, hostname="localhost")}) == ["02-00-5e-00-01-01"]


def test_a_device_that_two_interfaces_describe_is_one():
    listed = {
        "id": "0e7d",
        "macAddress": "02:00:5E:00:10:02",
        "ipAddress": "10.0.0.3",
        "name": "Hall",
        "model": "US 8",
    }
    assert edges_of({"a.json": SWITCH, "b.json": listed}, "RESOLVES_TO") == [
        ("hall", "10.0.0.2"),
        ("hall", "10.0.0.3"),
    ]


def test_what_has_another_mac_address_is_another_device():
    # As recorded: what one client is called as a user, another is called as a client.
    one, two = client(1, hostname="one"), {**client(2, hostname="two"), "_id": "c1", "user_id": "c1"}
    expected = [("one", "10.0.1.1"), ("two", "10.0.1.2")]
    assert edges_of({"a.json": one, "b.json": two}, "RESOLVES_TO") == expected


def test_a_device_that_is_said_endlessly_costs_no_more_than_its_bound():
    many = [
        client(1, name=f"n{n}", hostname=f"h{n}") | {"ip": f"10.1.{n >> 8}.{n & 255}"} for n in range(3000)
    ]
    _, edges, problems = interpret({"a.json": many})
    assert len(edges) <= 10_000 and [p.code for p in problems] == ["E_TOO_LARGE"]


def test_a_controller_is_the_device_of_its_name():
    system = {"hostname": "nas", "ip_addrs": ["10.0.0.31"], "version": "9.0.114"}
    assert edges_of({"a.json": CLIENT, "s.json": system}, "RESOLVES_TO") == [
        ("nas", "10.0.0.30"),
        ("nas", "10.0.0.31"),
    ]


def test_names_are_known_as_they_are_written_too():
    nodes, _, _ = interpret({"a.json": client(1, name="Küche: Anna's iPad")})
    (host,) = [n for n in nodes if n.node.label == "Host"]
    assert host.declared and host.aliases == ("Küche: Anna's iPad",)
    assert host.node.key == ("xn--kche-annas-ipad-zvb",)


# --- sites --------------------------------------------------------------------------------------------------


def test_a_site_is_a_unit_that_stays_where_it_is():
    units = UnifiExtractor().units(["sites/b/devices/2.json", "sites/a/devices/1.json", "x.json", "sites/y"])
    assert [(u.name, u.files) for u in units] == [
        (".", (".", "sites/y", "x.json")),
        ("sites/a", ("sites/a", "sites/a/devices/1.json", "sites/b/devices/2.json")),
        ("sites/b", ("sites/b", "sites/b/devices/2.json", "sites/a/devices/1.json")),
    ]


def test_networks_of_two_sites_are_two_and_a_name_of_both_names_no_device():
    other = {**GATEWAY, "_id": "d9", "mac": "02:00:5e:00:10:09", "ip": "203.0.113.8"}
    one = {"sites/a/devices/1.json": GATEWAY, "sites/a/networks/n1.json": NETWORK}
    assert ("Network", ("house/LAN",)) in facts(one)
    assert hosts(one) == ["gate"]
    both = {**one, "sites/b/devices/9.json": other}
    assert {key for label, key, *_ in facts(both) if label == "Network"} == {
        ("house/a/LAN",),
        ("house/b/LAN",),
    }
    assert hosts(both) == ["02-00-5e-00-10-01", "02-00-5e-00-10-09"]


# --- what is off, broken or secret --------------------------------------------------------------------------


@pytest.mark.parametrize("one", [NETWORK, FORWARD, RECORD, TUNNEL])
def test_what_is_switched_off_says_nothing(one):
    assert facts({"a.json": {**one, "enabled": False}}) == set()


def test_a_device_that_is_not_adopted_says_nothing():
    assert facts({"a.json": {**SWITCH, "adopted": False}}) == set()


@pytest.mark.parametrize(
    "text", ["{", '{"data": [', "[1,2", '{"a": tru}', "[" * 10_000, '{"meta": {"rc": "ok"}, "data": [}']
)
def test_a_broken_file_is_a_problem_and_the_rest_stands(text):
    _, edges, problems = interpret({"a.json": text, "b.json": [GATEWAY]})
    assert [(p.path, p.code) for p in problems] == [("a.json", "E_PARSE")]
    assert edges


def test_files_that_are_no_json_say_nothing():
    assert interpret({"README.md": "# mac 02:00", "page.html": "<html>", "e.json": " "})[0] == []


PLANTED = "Planted7Secret9Value"


def test_no_secret_becomes_a_key_or_a_property():
    nodes, edges, _ = interpret(
        {
            "a.json": [
                {**GATEWAY, "x_authkey": PLANTED, "syslog_key": PLANTED, "guest_token": PLANTED},
                {**TUNNEL, "x_wireguard_private_key": PLANTED, "wireguard_client_preshared_key": PLANTED},
                {
                    "_id": "w",
                    "name": "wifi",
                    "security": "wpapsk",
                    "x_passphrase": PLANTED,
                    "x_iapp_key": PLANTED,
                },
                {"_id": "v", "code": PLANTED, "admin_name": "a", "create_time": 1},
            ]
        }
    )
    assert nodes and PLANTED not in repr((nodes, edges))


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.just("10.0.0.9") | st.just("::1")
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_whatever_stands_in_the_members_the_claims_follow_the_model(data):
    mutated = []
    for one in OBJECTS:
        changed = dict(one)
        for name in data.draw(st.lists(st.sampled_from(sorted(one)), max_size=3)):
            changed[name] = data.draw(VALUES)
        mutated.append(changed)
    interpret({"a.json": mutated})


def test_addresses_of_both_families_are_held_and_those_of_a_link_are_not():
    listed = ["2001:DB8:1::30", "fd00:20::30", "fe80::1%br0", "2001:db8:1:0:89ab:1234:5678:9abc", "bad", "::"]
    client = CLIENT | {"ipv6_addresses": listed, "last_ipv6": ["2001:db8:1::dead"]}
    gateway = GATEWAY | {
        "wan1": {"ip": "203.0.113.7", "ipv6": ["2001:db8:ff::2", "fe80::2"]},
        "wan2": {"enable": False, "ipv6": ["2001:db8:fe::2"]},
    }
    _, edges, problems = interpret({"x.json": [gateway, SWITCH | {"ipv6": ["fd00:20::2"]}, client]})
    found = {(e.start.name, e.end.name, e.properties["recordType"]) for e in edges if e.type == "RESOLVES_TO"}
    assert {one for one in found if one[2] == "AAAA"} == {
        ("nas", "2001:db8:1::30", "AAAA"),
        ("nas", "fd00:20::30", "AAAA"),
        ("nas", "2001:db8:1:0:89ab:1234:5678:9abc", "AAAA"),
        ("gate", "2001:db8:ff::2", "AAAA"),
        ("hall", "fd00:20::2", "AAAA"),
    }
    assert problems == []


def test_a_client_of_ipv6_alone_is_connected():
    client = {name: value for name, value in CLIENT.items() if name != "ip"}
    client |= {"ipv6_addresses": ["2001:db8:1::30"]}
    _, edges, _ = interpret({"x.json": [SWITCH, NETWORK, client]})
    assert {e.end.name for e in edges if e.type == "CONNECTS_TO" and e.start.name == "nas"} == {"LAN", "hall"}
