"""Hosts files."""

from __future__ import annotations

from taboot_pipelines.model.graph import Basis
from taboot_pipelines_tests.extraction.tier_a.config.reading import interpret, one, shown


def test_every_name_resolves_to_the_address_of_its_line() -> None:
    said = one("etc/hosts", "192.168.1.10\tNAS.lan  nas # the box\n2001:DB8::1 nas.lan\n")
    assert [(*shown(e), e.properties["recordType"]) for e in said.edges] == [
        ("RESOLVES_TO", "nas.lan", "192.168.1.10", "A"),
        ("RESOLVES_TO", "nas", "192.168.1.10", "A"),
        ("RESOLVES_TO", "nas.lan", "2001:db8::1", "AAAA"),
    ]
    assert [(e.start_basis, e.end_basis) for e in said.edges] == [
        (Basis.NORMALIZED, Basis.BYTES),
        (Basis.BYTES, Basis.BYTES),
        (Basis.BYTES, Basis.NORMALIZED),
    ]
    assert {n.node.name for n in said.nodes if n.declared} == {"nas.lan", "nas"}


def test_what_every_machine_says_of_itself_is_no_fact() -> None:
    said = one(
        "hosts",
        "127.0.0.1 localhost\n127.0.1.1 me.lan\n::1 localhost ip6-loopback\nfe00::0 ip6-localnet\n"
        "ff02::1 all\n"
        "255.255.255.255 broadcasthost\nfe80::1%lo0 localhost\n169.254.1.1 link\n0.0.0.0 nowhere\n",
    )
    assert said.nodes == said.edges == said.problems == ()


def test_a_list_of_what_is_blocked_is_told_by_one_note() -> None:
    names = "".join(f"0.0.0.0 ads{i}.example.com tracker{i}.example.net\n" for i in range(100_000))
    said = one("hosts", names + "192.168.1.2 pi.lan\n127.0.0.1 more.example.org\n")
    assert [shown(e)[1:] for e in said.edges] == [("pi.lan", "192.168.1.2")]
    (problem,) = said.problems
    assert problem.code == "E_UNRESOLVED" and "200001 names" in problem.message


def test_other_files_that_are_called_so_state_nothing() -> None:
    inventory = "[web]\n10.0.0.1 ansible_user=root\n10.0.0.2 web2\n"
    for name, text in (
        ("hosts", inventory),
        ("ansible/hosts", "all:\n  hosts:\n    10.0.0.1 :\n"),
        ("hosts.yml", "10.0.0.1 a\n"),
        ("hosts.allow", "10.0.0.1 a\n"),
        ("my_hosts.txt", "10.0.0.1 a\n"),
        ("hosts.bak", "10.0.0.1 a\n"),
    ):
        said = interpret({name: text}).get(name)
        assert said is None or said.nodes == said.edges == ()


def test_lines_that_are_none_are_problems_with_their_number_and_the_rest_stands() -> None:
    said = one("hosts", "10.0.0.1 good\n10.0.0.300 bad\n10.0.0.2\n10.0.0.3 wrong! right\n")
    assert [shown(e)[1] for e in said.edges] == ["good", "right"]
    assert [(p.code, p.message.split(":")[0]) for p in said.problems] == [
        ("E_PARSE", "hosts, line 2"),
        ("E_PARSE", "hosts, line 3"),
        ("E_PARSE", "hosts, line 4"),
    ]
    assert not any(word in p.message for p in said.problems for word in ("bad", "wrong"))
