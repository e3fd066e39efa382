"""Inventories of Ansible."""

from __future__ import annotations

from time import perf_counter

import pytest

from taboot_pipelines_tests.extraction.tier_a.config.reading import interpret, one, shown

INI = """\
# gone ansible_host=10.0.0.99
lone ansible_connection=local
[all:vars]
ansible_user = root

[dbs]
db1.lan ansible_host=10.0.0.11 ansible_user="some one" # the first
DB2 ansible_port=2222 ansible_ssh_host='10.0.0.12'
; db3 ansible_host=10.0.0.13

[web]
web[01:03:2] ansible_user=me
10.0.0.40 ansible_user=me
bare
named ansible_host=bare.lan
open ansible_host="{{ address }}"

[prod:children]
dbs
web
"""
YAML = """\
all:
  vars: {ansible_user: root}
  hosts:
    lone:
  children:
    dbs:
      hosts:
        db1.lan:
          ansible_host: 10.0.0.11
        DB2: {ansible_port: 22, ansible_ssh_host: "10.0.0.12"}
    prod:
      children:
        web:
          hosts:
            web[01:03:2]:
            bare:
        dbs:
"""
RESOLVED = {("RESOLVES_TO", "db1.lan", "10.0.0.11"), ("RESOLVES_TO", "db2", "10.0.0.12")}


def groups(said) -> dict[str, list[str]]:
    assert all(n.declared for n in said.nodes if n.node.label == "Host")
    return {n.node.name: n.properties.get("groups", []) for n in said.nodes if n.node.label == "Host"}


@pytest.mark.parametrize("name", ["inventories/x/hosts.ini", "hosts", "inventory", "lab.ini"])
def test_each_host_of_ini_has_its_address_and_its_groups(name: str) -> None:
    said = one(name, INI)
    assert {shown(e) for e in said.edges} == RESOLVED
    dbs, web = ["dbs", "prod"], ["prod", "web"]
    both = {"db1.lan": dbs, "db2": dbs, "web01": web, "web03": web, "bare": web, "named": web, "open": web}
    assert groups(said) == {"lone": [], **both}
    quotes = [INI[e.evidence.start : e.evidence.end] for e in said.edges]
    assert quotes[0] == "db1.lan ansible_host=10.0.0.11"
    assert [p.code for p in said.problems] == ["E_UNRESOLVED"]


@pytest.mark.parametrize("name", ["hosts.yml", "inventory/lab.yaml"])
def test_each_host_of_yaml_has_its_address_and_its_groups(name: str) -> None:
    said = one(name, YAML)
    assert {shown(e) for e in said.edges} == RESOLVED
    dbs, web = ["dbs", "prod"], ["prod", "web"]
    assert groups(said) == {"lone": [], "db1.lan": dbs, "db2": dbs, "web01": web, "web03": web, "bare": web}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("values.yaml", "ingress:\n  hosts:\n    - host: a.example.org\n"),
        ("compose.yaml", "services:\n  hosts:\n    image: nginx\n    ports: [80]\n"),
        ("site.yml", "- hosts: all\n  vars:\n    a: b\n"),
        ("vars.yml", "web:\n  hosts:\n    a:\n  port: 80\n"),
        ("setup.ini", "[server]\nhost = a\n"),
        ("hosts", "10.0.0.1 a\n"),
        ("group_vars/all.yml", "ansible_host: 10.0.0.1\n"),
    ],
)
def test_what_is_no_inventory_gives_no_groups_of_hosts(name: str, text: str) -> None:
    said = interpret({name: text}).get(name)
    assert said is None or not any("groups" in n.properties for n in said.nodes)
    assert said is None or not any(e.method == "ansible_inventory" for e in said.edges)


def test_ranges_that_are_none_are_problems_and_the_rest_stands() -> None:
    said = one("hosts.ini", "[a]\nx[1:99999]\nz[1:99]-[1:99]\nx[a:3]\ny[a:c]-[1:2]\nnot a host\n")
    assert set(groups(said)) == {f"y{letter}-{n}" for letter in "abc" for n in (1, 2)}
    assert [p.code for p in said.problems] == ["E_TOO_LARGE", "E_TOO_LARGE", "E_PARSE", "E_PARSE"]


@pytest.mark.parametrize(
    "text", ["# " * 50_000, "a" * 200_000, "a b" * 70_000, "a:\n" + "\n" * 100_000, "a:\n hosts:\n" * 30_000]
)
def test_any_text_is_looked_at_once(text: str) -> None:
    started = perf_counter()
    for name in ("hosts", "a.ini", "a.yml", "hosts.ini"):
        interpret({name: text})
    assert perf_counter() - started < 20
