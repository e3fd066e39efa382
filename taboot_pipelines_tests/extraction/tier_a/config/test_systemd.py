"""systemd's units and Podman's quadlets."""

from __future__ import annotations

import pytest

from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis
from taboot_pipelines_tests.extraction.tier_a.config.reading import edges, interpret, one, shown


def test_an_empty_setting_clears_what_came_before_in_the_unit_and_its_drop_ins() -> None:
    files = {
        "a.service": "[Unit]\nAfter=b.service c.service\nWants=d.service\n",
        "a.service.d/9.conf": "[Unit]\nAfter=\nAfter=e.service\n",
        "a.service.d/1.conf": "[Unit]\nAfter=f.service\n",
    }
    (said,) = interpret(files).values()
    assert {(e.end.name, e.properties["condition"]) for e in said.edges} == {("e", "after"), ("d", "wants")}
    assert said.subordinates == {"a.service.d/1.conf", "a.service.d/9.conf"}


def test_drop_ins_of_a_unit_that_lies_elsewhere_speak_for_it() -> None:
    files = {
        "docker.service.d/1.conf": "[Unit]\nAfter=x.service\n",
        "docker.service.d/2.conf": "[Unit]\nAfter=\nRequires=containerd.service\n",
    }
    (said,) = interpret(files).values()
    assert [shown(e) for e in said.edges] == [("DEPENDS_ON", "docker", "containerd")]
    assert said.edges[0].evidence.path == "docker.service.d/2.conf"


def test_drop_ins_of_templates_and_of_prefixes_count_for_an_instance() -> None:
    files = {
        "a-b@x.service": "[Unit]\n",
        "a-b@.service.d/1.conf": "[Unit]\nAfter=one.service\n",
        "a-.service.d/2.conf": "[Unit]\nAfter=two.service\n",
        "a-b@.service.d/3.conf": "[Unit]\nAfter=nothing.service\n",
        "a-b@x.service.d/3.conf": "[Unit]\nAfter=three.service\n",
    }
    said = interpret(files)["a-b@x.service"]
    assert [e.end.name for e in said.edges] == ["one", "two", "three"]
    (service,) = (n for n in said.nodes if n.declared)
    assert service.node.name == "a-b-x" and service.aliases == ("a-b@x",)


def test_what_only_systemd_puts_in_is_marked() -> None:
    said = one("a@.service", "[Unit]\nAfter=b@%i.service\nRequires=c.service\n")
    assert [e.end.name for e in said.edges] == ["c"]
    assert said.nodes[0].properties["unresolved"] == ["After: b@%i.service"]
    assert [p.code for p in said.problems] == ["E_UNRESOLVED"]


def test_continued_lines_skip_comments_and_end_with_the_file() -> None:
    said = one(
        "a.service",
        "[Unit]\nAfter=b.service \\\n# c.service\n; d.service\n  e.service \\\n\n[X]\nAfter=f.service \\",
    )
    assert [e.end.name for e in said.edges] == ["b", "e"]


@pytest.mark.parametrize(
    ("listen", "port", "protocol", "end"),
    [
        ("ListenStream=80", 80, "tcp", "0.0.0.0"),
        ("ListenStream=127.0.0.1:80", 80, "tcp", "127.0.0.1"),
        ("ListenStream=[::]:80", 80, "tcp", "::"),
        ("ListenDatagram=514", 514, "udp", "0.0.0.0"),
    ],
)
def test_the_service_of_a_socket_binds_its_ports(listen: str, port: int, protocol: str, end: str) -> None:
    text = f"[Socket]\n{listen}\n"
    (edge,) = one("web.socket", text).edges
    assert (*shown(edge), edge.properties["port"], edge.properties["protocol"]) == (
        "BINDS",
        "web",
        end,
        port,
        protocol,
    )
    (edge,) = one("web.socket", text, host="nas.lan").edges
    assert shown(edge) == ("BINDS", "web", "nas.lan")


@pytest.mark.parametrize(
    "listen", ["/run/a.sock", "@abstract", "vsock:2:80", "0", "70000", "a:80", "%i", "2001:db8::1:80"]
)
def test_what_is_no_port_of_the_network_binds_nothing(listen: str) -> None:
    assert one("web.socket", f"[Socket]\nListenStream={listen}\n").edges == ()


def test_files_of_other_programs_with_such_names_state_nothing() -> None:
    for name, text in (
        ("x.service", "[D-BUS Service]\nName=x\nExec=/x\n"),
        ("x.service", "<service-group><name>x</name></service-group>\n"),
        ("x.network", "[Match]\nName=eth0\n[Network]\nDHCP=yes\n"),
        ("x.network", "[Network]\nAddress=10.0.0.1/24\n"),
        ("x.container", "[Unit]\nAfter=a.service\n"),
        ("x.pod", "=head1 NAME\n\nx - documentation\n"),
    ):
        said = one(name, text)
        assert said.nodes == said.edges == (), (name, text)


def test_a_quadlet_runs_where_the_source_says_and_meets_others_on_networks() -> None:
    files = {
        "app.container": (
            "[Container]\nImage=app.image\nNetwork=lan.network:alias=x\n"
            "Environment=A=http://systemd-db:5432 'B=c:1'\n"
            "[Service]\nRestart=on-failure\n"
        ),
        "app.image": "[Image]\nImage=ghcr.io/a/app:2\n",
        "db.container": "[Container]\nImage=postgres:17\nNetwork=lan.network\n",
        "lan.network": "[Network]\nNetworkName=home\nDriver=macvlan\nSubnet=192.168.9.0/24\n",
    }
    said = interpret(files, host="pod.lan")
    assert [shown(e) for e in said["app.container"].edges] == [
        ("BUILDS", "app", "ghcr.io/a/app:2"),
        ("RUNS", "systemd-app", "pod.lan"),
        ("RUNS_IN", "systemd-app", "home"),
        ("CONNECTS_TO", "app", "db"),
    ]
    assert edges(said["app.container"], "RUNS")[0].properties == {"restartPolicy": "on-failure"}
    joined = [edges(said[name], "RUNS_IN")[0] for name in ("app.container", "db.container")]
    assert {e.end.key for e in joined} == {("pod.lan/home",)}
    assert joined[0].properties == {"networkMode": "macvlan", "aliases": ["x"]}
    (network,) = said["lan.network"].nodes
    assert network.properties["cidrs"] == ["192.168.9.0/24"] and network.declared


def test_what_makes_a_network_and_what_a_socket_starts_are_told_apart() -> None:
    files = {
        "quadlets/edge.container": (
            "[Unit]\nRequires=lan-network.service data-volume.service odd-network.service\n"
            "Wants=http.socket alone.socket\n[Container]\nImage=traefik:3\nNetwork=lan.network\n"
        ),
        "quadlets/films.container": "[Unit]\nWants=http.socket\n[Container]\nImage=films:1\n",
        "quadlets/lan.network": "[Network]\n",
        "volumes/data.volume": "[Volume]\n",
        "units/http.socket": "[Unit]\nDescription=Port 80\n[Socket]\nListenStream=80\nService=edge.service\n",
    }
    said = interpret(files)
    needs = [(e.start.name, e.end.name) for p in files for e in edges(said[p], "DEPENDS_ON")]
    # Nobody knows what a unit is that is not here.
    assert needs == [("edge", "odd-network"), ("edge", "alone"), ("films", "edge")]
    (edge,) = [n for n in said["units/http.socket"].nodes if n.node.name == "edge"]
    assert edge.properties.get("description") is None and edge.properties["port"] == 80


def test_an_environment_file_of_a_quadlet_is_read_and_is_no_document() -> None:
    files = {
        "q/app.container": (
            "[Container]\nImage=app:1\nEnvironmentFile=a.env\nEnvironmentFile=../b.conf\n"
            "EnvironmentFile=/etc/c.env\nEnvironmentFile=%h/d.env\nEnvironment=OWN_HOST=mine\n"
        ),
        "q/a.env": "# X_HOST=no\nDB_HOST=early\nURL=http://systemd-db:5432/x\nOWN_HOST=theirs\n",
        "b.conf": "DB_HOST=late\nBASE_IMAGE=systemd-db:1\n",
        "q/db.container": "[Container]\nImage=postgres:17\n",
    }
    said = interpret(files)["q/app.container"]
    (edge,) = edges(said, "CONNECTS_TO")
    quotes = [files[e.path][e.start : e.end] for e in (edge.evidence, *(u.evidence for u in said.uses))]
    assert shown(edge) == ("CONNECTS_TO", "app", "db") and edge.end_basis == Basis.DERIVED
    assert [u.host for u in said.uses] == [ids.host_id("late"), ids.host_id("mine")]
    assert quotes == ["a.env", "../b.conf", "OWN_HOST=mine"]
    assert said.environment == {"q/a.env", "b.conf"}


def test_what_a_quadlet_names_and_the_source_does_not_hold_is_told() -> None:
    said = one("a.container", "[Container]\nImage=b.build\nNetwork=c.network\nPublishPort=x:y\n")
    assert [p.code for p in said.problems] == ["E_NOT_FOUND", "E_PARSE", "E_NOT_FOUND"]
    assert [shown(e) for e in said.edges] == [("RUNS_IN", "systemd-a", "systemd-c")]


def test_names_that_only_podman_puts_together_are_marked() -> None:
    files = {
        "a.container": "[Container]\nImage=b:1\nContainerName=%p-x\nNetwork=c.network\n",
        "c.network": "[Network]\nNetworkName=%N\n",
    }
    said = interpret(files)
    (container,) = (n for n in said["a.container"].nodes if n.node.label == "Container")
    assert container.node.name == "a" and "name" not in container.properties
    (service,) = (n for n in said["a.container"].nodes if n.node.label == "Service")
    assert service.properties["unresolved"] == ["ContainerName: %p-x", "NetworkName: c.network"]
    assert edges(said["a.container"], "RUNS_IN") == [] and said["c.network"].nodes == ()
