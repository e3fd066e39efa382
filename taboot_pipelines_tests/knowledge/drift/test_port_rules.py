"""Ports that two services publish, and what only looks so."""

from __future__ import annotations

import pytest

from taboot_pipelines.knowledge.drift.facts import Drift
from taboot_pipelines_tests.knowledge.drift.house import House


def binding(name: str, port: str, more: str = "") -> str:
    return f"services:\n  {name}:\n    image: {name}\n    ports: ['{port}']\n{more}"


def twice(one: str, other: str, host: str | None = "hearth.lan") -> list[tuple[str, str]]:
    return House({"a/compose.yaml": one, "b/compose.yaml": other}, host).found()


def test_two_services_of_a_host_that_publish_one_port() -> None:
    (drift,) = House(
        {"a/compose.yaml": binding("grafana", "3000:3000"), "b/compose.yaml": binding("wiki", "3000:80")}
    ).drifts()
    assert (drift.kind, drift.label, drift.name) == ("port_twice", "Host", "hearth.lan")
    assert drift.statement == (
        "a/grafana and b/wiki publish 3000/tcp on hearth.lan, which one service can have."
    )
    assert [s.says for s in drift.sides] == ["a/grafana publishes 3000", "b/wiki publishes 3000"]
    assert [s.facts[0].line for s in drift.sides] == [4, 4]


def test_three_services_at_one_port_are_one_drift() -> None:
    files = {f"{n}/compose.yaml": binding(n, "80:80") for n in ("a", "b", "c")}
    (drift,) = House(files).drifts()
    assert len(drift.sides) == 3 and drift.statement.startswith("a/a, b/b and c/c publish 80/tcp")


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("192.168.1.2:53:53", "192.168.1.3:53:53", False),
        ("192.168.1.2:53:53", "192.168.1.2:53:53", True),
        ("192.168.1.2:53:53", "53:53", True),
        ("192.168.1.2:53:53", "0.0.0.0:53:53", True),
        ("127.0.0.1:53:53", "[::1]:53:53", False),
        ("192.168.1.2:53:53", "[::]:53:53", False),
        ("53:53/tcp", "53:53/udp", False),
        ("53:53", "54:53", False),
        ("8000-8003:80-83", "8002:80", True),
    ],
)
def test_addresses_and_protocols(one: str, other: str, clash: bool) -> None:
    expected = [("port_twice", "hearth.lan")] if clash else []
    assert twice(binding("a", one), binding("b", other)) == expected


def test_a_source_without_host_is_supposed_to_be_one_machine() -> None:
    def drifts(one: str, other: str) -> tuple[Drift, ...]:
        return House({"a/compose.yaml": one, "b/compose.yaml": other}, None).drifts()

    (drift,) = drifts(binding("a", "80:80"), binding("b", "80:8080"))
    assert (
        drift.supposed and "publish 80/tcp on the machine of stacks (no `host` names it)" in drift.statement
    )
    assert [s.says for s in drift.sides] == ["a/a publishes 80", "b/b publishes 80"]
    assert drifts(binding("a", "127.0.0.1:80:80"), binding("b", "192.168.1.2:80:80")) == ()
    profiles = [binding(n, "80:80", f"    profiles: [{n}]\n") for n in ("a", "b")]
    assert drifts(*profiles) == ()
    # What is of one project is on one machine, whichever it is.
    project = binding("a", "80:80") + "  b:\n    image: b\n    ports: ['80:8080']\n"
    sure, supposed = drifts(project, binding("c", "80:80"))
    assert (sure.name, sure.supposed, len(sure.sides)) == ("a", False, 2)
    assert (supposed.name, supposed.supposed, len(supposed.sides)) == ("stacks", True, 3)


def test_one_project_is_on_one_machine_whichever_it_is() -> None:
    both = binding("a", "80:80") + "  b:\n    image: b\n    ports: ['80:8080']\n"
    assert House({"p/compose.yaml": both}, None).found() == [("port_twice", "a")]


def test_profiles_that_exclude_each_other() -> None:
    cpu = binding("llm", "11434:11434", "    profiles: [cpu]\n")
    gpu = "  llm-gpu:\n    image: llm\n    ports: ['11434:11434']\n    profiles: [gpu]\n"
    assert House({"p/compose.yaml": cpu + gpu}).found() == []
    assert House({"p/compose.yaml": cpu + gpu.replace("[gpu]", "[gpu, cpu]")}).found() != []


def test_files_of_one_folder_are_variants() -> None:
    files = {"p/compose.yaml": binding("a", "80:80"), "p/compose.dev.yaml": binding("a", "80:80")}
    assert House(files).found() == []


def test_files_of_one_project_name_are_variants() -> None:
    named = {f"p/{f}.yaml": f"name: shop\n{binding(f'web-{f}', '80:80')}" for f in ("prod", "dev")}
    assert House(named).found() == []
    both = binding("a", "80:80") + "  b:\n    image: b\n    ports: ['80:8080']\n"
    assert House({"p/prod.yaml": f"name: shop\n{both}"}).found() == [("port_twice", "hearth.lan")]


def test_replicas_of_one_service_are_the_engines_affair() -> None:
    assert House({"p/compose.yaml": binding("a", "80:80", "    deploy: {replicas: 3}\n")}).found() == []


# --- sockets, quadlets, Kubernetes --------------------------------------------------------------------------

COCKPIT = "[Socket]\nListenStream=9090\n"
QUADLET = "[Container]\nImage=docker.io/prom/prometheus\nPublishPort={}\n"
NODE_PORT = """\
apiVersion: v1
kind: Service
metadata: {{name: {}, namespace: web}}
spec:
  type: {}
  ports: [{{port: 80, nodePort: {}}}]
"""


def test_sockets_and_quadlets_take_ports_of_their_machine() -> None:
    prometheus = {"m/compose.yaml": binding("prometheus", "9090:9090")}
    socket = {"etc/cockpit.socket": COCKPIT}
    (drift,) = House(prometheus | socket).drifts()
    assert drift.statement == (
        "m/prometheus and systemd/cockpit publish 9090/tcp on hearth.lan, which one service can have."
    )
    quadlets = {f"etc/{n}.container": QUADLET.format("9090:9090") for n in ("a", "b")}
    assert House(quadlets).found() == [("port_twice", "hearth.lan")]
    assert House(quadlets | {"etc/b.container": QUADLET.format("9091:9090")}).found() == []
    # Which machine a unit without a host is of, nobody knows; those of one folder are of one.
    assert House(prometheus | socket, None).found() == []
    assert House(quadlets, None).found() == [("port_twice", "a")]
    apart = {f"etc/{n}/{n}.container": QUADLET.format("9090:9090") for n in ("a", "b")}
    assert [d.supposed for d in House(apart, None).drifts()] == [True]


def test_a_socket_of_its_own_service_is_no_second_one() -> None:
    files = {"etc/prometheus.container": QUADLET.format("9090:9090"), "etc/prometheus.socket": COCKPIT}
    assert House(files).found() == []


def test_ports_of_a_cluster() -> None:
    def found(
        kind: str, other: int, host: str | None = "hearth.lan", more: str = ""
    ) -> list[tuple[str, str]]:
        files = {
            "etc/a.yaml": NODE_PORT.format("a", kind, 30080) + more,
            "etc/b.yaml": NODE_PORT.format("b", kind, other) + more,
        }
        return House(files, host).found()

    assert found("NodePort", 30080) == [("port_twice", "hearth.lan")]
    assert found("NodePort", 30081) == []
    # Manifests of several clusters lie in one repository.
    assert found("NodePort", 30080, None) == []
    # Every load balancer gets an address of its own, unless one is asked for.
    assert found("LoadBalancer", 30081) == []
    asked = "  loadBalancerIP: 192.168.30.5\n"
    assert found("LoadBalancer", 30081, None, asked) == [("port_twice", "192.168.30.5")]
