"""The labels of benchmarks/gold hold against the files they are about, the checker sees what is wrong with
one, and recorded packet filters become the edges that the guide says.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gold import check, hujson
from benchmarks.gold import packet_filters as pf
from taboot_pipelines.extraction.tier_a import inventory
from taboot_pipelines.model.graph import is_hostname
from taboot_pipelines_tests.world import DATA

# --- the labels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", check.SETS)
def test_every_label_holds_in_the_files(name):
    assert check.problems(check.read_labels(check.GOLD / f"{name}.jsonl"), DATA / name) == []


@pytest.mark.parametrize(("name", "labelled", "all_files"), [("tailscale", 3, 6), ("unifi", 15, 31)])
def test_the_hash_of_the_name_chooses_about_half_of_the_files(name, labelled, all_files):
    files = [p for p in (DATA / name).rglob("*") if p.is_file() and p.name != "NOTE.md"]
    assert (len(check.chosen(DATA / name)), len(files)) == (labelled, all_files)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("USG", "usg"),
        ("UniFi Switch Flex Mini", "unifi-switch-flex-mini"),
        ("foo.tail1234.ts.net.", "foo.tail1234.ts.net"),
        ("78:45:58:FC:16:7D", "78-45-58-fc-16-7d"),
        ("Anna's Pad (old)", "annas-pad-old"),
        ("Küche", "xn--kche-0ra"),
        ("my_nas", "my_nas"),
        ("Anna\u2019s MacBook Pro", "annas-macbook-pro"),
        ("Phone \U0001f431", "phone"),
        ("K\u00fcche \u2013 oben", "xn--kche-oben-q9a"),
        ("\u5357\u306e\u90e8\u5c4b.lan", "xn--u9jx46hregk10d.lan"),
        ("...", ""),
        ("\U0001f600" * 64, ""),
    ],
)
def test_the_form_of_a_host_name(text, key):
    assert check.host_name(text) == inventory.host_name(text) == key


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cn",)), max_size=30))
def test_every_name_of_a_device_is_a_valid_one_or_none(text):
    name = inventory.host_name(text)
    assert name == "" or (is_hostname(name) and inventory.host_name(name) == name)


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=60))
def test_the_form_of_a_host_name_is_one_and_is_valid(text):
    name = check.host_name(text)
    assert check.host_name(name) == name
    assert name == "" or is_hostname(name)


# --- the checker --------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """One file that the rule chooses and one that it does not."""
    text = '{"name": "Tower A", "ip": "192.168.1.7/32", /* held */ "inform_ip": "192.168.1.1",}'
    (tmp_path / "acl.json").write_text(text)
    (tmp_path / "acl.hujson").write_text(text)
    return tmp_path


def labels():
    host, ip = {"label": "Host", "key": "tower-a"}, {"label": "IP", "key": "192.168.1.7"}
    said = {"file": "acl.json", "kind": "node"}
    edge = {"file": "acl.json", "kind": "edge", "type": "RESOLVES_TO", "source": host, "target": ip}
    return [
        {**said, **host, "at": "/name"},
        {**said, **ip, "at": "/ip", "properties": {"isPublic": False}},
        {**edge, "sourceAt": "/name", "at": "/ip", "properties": {"recordType": "A"}},
    ]


def test_right_labels_have_no_problem(folder):
    assert check.problems(labels(), folder) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({0: {"at": "/ip"}}, "which is not Host tower-a"),
        ({0: {"at": "/nothing"}}, "nothing stands at"),
        ({0: {"key": "Tower A"}}, "Host.hostname"),
        ({1: {"key": "192.168.1.07"}}, "IP.addr"),
        ({1: {"properties": {"isPublic": True}}}, "isPublic is False, not True"),
        ({1: {"properties": {"colour": "red"}}}, "no property 'colour'"),
        ({2: {"properties": {"recordType": "AAAA"}}}, "recordType is 'A', not 'AAAA'"),
        ({2: {"properties": {}}}, "lacks recordType"),
        ({2: {"type": "ROUTES_TO"}}, "does not lead from Host to IP"),
        ({2: {"note": "?"}}, "unknown fields ['note']"),
        ({0: {"kind": "none"}}, "unknown fields"),
        ({0: {"file": "acl.hujson"}}, "is not of the half that is labelled"),
    ],
)
def test_a_wrong_label_is_named(folder, change, said):
    wrong = [label | change.get(i, {}) for i, label in enumerate(labels())]
    assert any(said in problem for problem in check.problems(wrong, folder))


def test_what_is_missing_or_said_twice_is_named(folder):
    host, ip, edge = labels()
    assert check.problems([], folder) == ["acl.json: is not labelled"]
    assert any("labelled 2 times" in p for p in check.problems([host, host, ip, edge], folder))
    assert any("IP 192.168.1.7 ends an edge" in p for p in check.problems([host, edge], folder))
    assert check.problems([host], folder) == [
        "acl.json: ip 192.168.1.7/32 is neither labelled nor left out by the guide"
    ]
    empty = {"file": "acl.json", "kind": "none", "reason": "nothing"}
    assert any("said to hold nothing" in p for p in check.problems([empty, host], folder))


# --- HuJSON -------------------------------------------------------------------------------------------------


def test_hujson_is_read_with_comments_and_trailing_commas():
    text = '// a\n{"u": "http://x/*y*/", "q": "\\",]", /* b, */ "l": [1, 2, // c\n ], "e": [],}\n'
    assert hujson.loads(text) == {"u": "http://x/*y*/", "q": '",]', "l": [1, 2], "e": []}


@pytest.mark.parametrize("text", ["{,}", "[1,,]", "{'a': 1}", "/* open", '{"a": }', "", '["a" "b"]'])
def test_what_is_neither_json_nor_hujson_is_refused(text):
    with pytest.raises(ValueError, match=r"line \d+ column \d+"):
        hujson.loads(text)


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_json_is_hujson(value):
    assert hujson.loads(json.dumps(value, indent=1)) == value


def test_a_pointer_leads_to_its_value():
    assert hujson.at({"a/b": [{"~": 1}]}, "/a~1b/0/~0") == 1
    assert hujson.at({"a": 1}, "") == {"a": 1}
    for pointer in ("/b", "/a/0", "a", "/l/5", "/l/-1"):
        with pytest.raises(LookupError):
            hujson.at({"a": 1, "l": [1]}, pointer)


# --- packet filters -----------------------------------------------------------------------------------------

LAPTOP, SERVER, ROUTER, STANDBY = "laptop", "server", "router", "standby"


def capture(rules, *, old=False, **more):
    """Four nodes, of which two serve a subnet; ``rules`` are recorded at the nodes they name."""
    nodes = {
        LAPTOP: {"hostname": "Laptop", "ipv4": "100.64.0.1", "ipv6": "fd7a:115c:a1e0::1"},
        SERVER: {"hostname": "server", "ipv4": "100.64.0.2", "ipv6": "fd7a:115c:a1e0::2"},
        ROUTER: {
            "hostname": "router",
            "ipv4": "100.64.0.3",
            "ipv6": "fd7a:115c:a1e0::3",
            "routable_ips": ["10.33.0.0/16", "10.44.0.0/16", "0.0.0.0/0", "::/0"],
            "approved_routes": ["10.33.0.0/16", "0.0.0.0/0", "::/0", "10.99.0.0/16"],
        },
        STANDBY: {
            "hostname": "standby",
            "ipv4": "100.64.0.4",
            "routable_ips": ["10.33.0.0/16"],
            "approved_routes": ["10.33.0.0/16"],
        },
    }
    for name, fields in more.items():
        nodes[name] |= fields
    if old:
        recorded = {name: {"packet_filter_rules": rules.get(name)} for name in nodes}
    else:
        recorded = {name: {"netmap": {"PacketFilterRules": rules.get(name)}} for name in nodes}
    return {"topology": {"nodes": nodes}, "captures": recorded}


def rule(sources, *destinations, protocols=None):
    ports = [{"IP": ip, "Ports": {"First": first, "Last": last}} for ip, first, last in destinations]
    return {"SrcIPs": list(sources), "DstPorts": ports} | ({"IPProto": protocols} if protocols else {})


def rows(edges):
    return sorted((e.source, e.target, e.protocol, e.ports) for e in edges)


@pytest.mark.parametrize("old", [False, True])
def test_a_rule_without_protocol_is_three_edges_from_each_node_it_lets_in(old):
    filters = {SERVER: [rule(["100.64.0.0-100.64.0.1", "fd7a:115c:a1e0::/48"], ("100.64.0.2", 22, 22))]}
    assert rows(pf.expected(capture(filters, old=old))) == [
        ("laptop", "server", "icmp", "*"),
        ("laptop", "server", "tcp", "22"),
        ("laptop", "server", "udp", "22"),
    ]


def test_families_do_not_mix_and_a_node_does_not_reach_itself():
    filters = {SERVER: [rule(["fd7a:115c:a1e0::/48"], ("100.64.0.2", 0, 65535), protocols=[6])]}
    assert rows(pf.expected(capture(filters))) == []
    filters = {SERVER: [rule(["*"], ("*", 0, 65535), protocols=[6])]}
    assert rows(pf.expected(capture(filters))) == [
        (name, "server", "tcp", "*") for name in ("laptop", "router", "standby")
    ]


def test_ports_of_several_rules_are_merged():
    filters = {
        SERVER: [
            rule(["100.64.0.1"], ("100.64.0.2", 443, 443), ("100.64.0.2", 80, 81), protocols=[6]),
            rule(["100.64.0.0/31"], ("100.64.0.2/32", 82, 82), ("100.64.0.2", 8000, 8010), protocols=[6, 17]),
            rule(["100.64.0.1"], ("100.64.0.2", 7, 7), protocols=[1, 58, 47, 200]),
        ]
    }
    assert rows(pf.expected(capture(filters))) == [
        ("laptop", "server", "200", "*"),
        ("laptop", "server", "gre", "*"),
        ("laptop", "server", "icmp", "*"),
        ("laptop", "server", "tcp", "80-82,443,8000-8010"),
        ("laptop", "server", "udp", "82,8000-8010"),
    ]


@pytest.mark.parametrize(
    "destination", ["10.33.1.0/24", "10.33.0.5", "10.0.0.0/8", "*", "10.32.0.0-10.33.0.0"]
)
def test_a_part_or_all_of_a_route_is_its_network(destination):
    filters = {
        ROUTER: [rule(["100.64.0.1", "10.33.0.0/16", "100.64.0.4"], (destination, 80, 80), protocols=[6])]
    }
    # The standby serves the same route and needs nobody's leave; the unapproved and the exit route are none.
    networks = [r for r in pf.expected(capture(filters)) if r.label == "Network"]
    assert rows(networks) == [("laptop", "10.33.0.0/16", "tcp", "80")]


def test_the_routes_of_a_netmap_count_where_the_topology_has_none():
    recorded = capture({SERVER: [rule(["100.64.0.1"], ("192.168.7.0/24", 0, 65535), protocols=[6])]})
    recorded["captures"][SERVER]["netmap"]["SelfNode"] = {
        "Addresses": ["100.64.0.2/32", "fd7a:115c:a1e0::2/128"],
        "AllowedIPs": ["100.64.0.2/32", "fd7a:115c:a1e0::2/128", "192.168.7.0/24", "0.0.0.0/0"],
    }
    assert rows(pf.expected(recorded)) == [("laptop", "192.168.7.0/24", "tcp", "*")]


def test_a_capability_lets_in_those_who_have_it():
    recorded = capture({SERVER: [rule(["cap:x.com/cap/dev"], ("*", 22, 22), protocols=[6])]})
    recorded["captures"][LAPTOP]["netmap"]["SelfNode"] = {"CapMap": {"x.com/cap/dev": None}}
    assert rows(pf.expected(recorded)) == [("laptop", "server", "tcp", "22")]


def test_grants_of_apps_and_empty_filters_give_nothing():
    app = {
        "SrcIPs": ["*"],
        "CapGrant": [{"Dsts": ["100.64.0.2/32"], "CapMap": {"tailscale.com/cap/x": [{}]}}],
    }
    assert pf.expected(capture({SERVER: [app], LAPTOP: []})) == frozenset()


@pytest.mark.parametrize(
    "path", sorted((DATA / "tailscale" / "headscale-captures").rglob("*.hujson")), ids=lambda p: p.stem
)
def test_the_recorded_captures_let_nobody_in(path):
    # Both policies lead to an address that no node and no approved route holds: 192.168.1.0/24 where only
    # 10.33.0.0/16 is served, and an IPv6 address that only unapproved exit routes cover.
    recorded = pf.read(path)
    assert len(pf.nodes(recorded)) == len(recorded["captures"]) > 0
    assert pf.expected(recorded) == frozenset()


def test_the_recorded_routes_are_those_that_are_approved():
    (path,) = (DATA / "tailscale" / "headscale-captures").rglob("acl-h08.hujson")
    assert {n.name: [str(r) for r in n.routes] for n in pf.nodes(pf.read(path)) if n.routes} == {
        "squirtle": ["10.33.0.0/16"]
    }


def test_edges_of_a_reader_are_put_in_the_same_form_and_scored():
    filters = {
        SERVER: [rule(["100.64.0.1"], ("*", 80, 82)), rule(["100.64.0.3"], ("*", 1, 65535), protocols=[6])]
    }
    recorded = capture(filters)
    edges = [
        ("laptop", "Host", "server", None, "82,80-81"),
        ("router", "Host", "server", "tcp", None),
        ("router", "Network", "10.33.0.0/16", None, None),
        ("server", "Host", "server", None, None),
    ]
    wanted = pf.expected(recorded)
    assert pf.found(edges, recorded) == wanted
    half = pf.score([(wanted, pf.found(edges[1:], recorded))])
    assert (half.precision, half.recall, half.f1, half.exact) == (1.0, 0.25, 0.4, 0)
    vain = pf.score([(frozenset(), wanted)])
    assert (vain.precision, vain.recall, vain.f1) == (0.0, 1.0, 0.0)
    assert pf.score([(frozenset(), frozenset())]).f1 == 1.0


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)).map(lambda p: (min(p), max(p))), min_size=1)
)
def test_a_port_list_says_the_same_ports_and_is_the_shortest(spans):
    def ports(ranges):
        return {port for first, last in ranges for port in range(first, last + 1)}

    text = pf.port_list(spans)
    assert ports(pf.parse_ports(text)) == ports(spans)
    assert pf.port_list(pf.parse_ports(text)) == text
