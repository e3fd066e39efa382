"""Containers as engines write them down: each form tells what it can, and where it stands in the file."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.runtime.containers import Container, read_runtime
from taboot_pipelines.extraction.tier_a.runtime.extractor import RuntimeExtractor, sockets_of
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec
from taboot_pipelines.model.runtime import form_of
from taboot_pipelines_tests.fakes.docker import DB, jellyfin

PODMAN = {
    "Id": "1" * 64,
    "State": {"Status": "running", "Running": True, "ExitCode": 0},
    "Image": "2" * 64,
    "ImageDigest": f"sha256:{'3' * 64}",
    "ImageName": "docker.io/library/caddy:2",
    "Name": "edge",
    "IsInfra": False,
    "Mounts": [
        {"Type": "volume", "Name": "edge-data", "Destination": "/data", "RW": True},
        {"Type": "bind", "Source": "/run/desktop/mnt/host/c/conf", "Destination": "/conf", "RW": False},
    ],
    "Config": {"Image": "docker.io/library/caddy:2", "Labels": {"PODMAN_SYSTEMD_UNIT": "edge.service"}},
    "HostConfig": {
        "NetworkMode": "bridge",
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3},
        "PortBindings": {
            "80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}],
            "443/udp": [{"HostIp": "192.168.1.5", "HostPort": "443"}, {"HostIp": "", "HostPort": ""}],
        },
    },
    "NetworkSettings": {"Networks": {"podman": {}}},
}
#: As `docker ps --format json` has it, with the arrow that its encoder escapes.
PS = (
    r'{"Command":"\"nginx\"","ID":"5a757bad3e01","Image":"nginx","Labels":"com.docker.compose.service=web,'
    r"maintainer=NGINX \u003cdocker-maint@nginx.com\u003e,com.docker.compose.depends_on=a,b,"
    r'com.docker.compose.project=srv","LocalVolumes":"0","Mounts":"/home/x…","Names":"web",'
    r'"Networks":"srv_default,proxy","Ports":"0.0.0.0:80-\u003e80/tcp, :::80-\u003e80/tcp, '
    r'127.0.0.1:8000-8001-\u003e90-91/tcp, 443/tcp","State":"running","Status":"Up 35 hours"}'
)
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-7fb96c846b-xk2p9",
        "namespace": "shop",
        "labels": {"pod-template-hash": "7fb96c846b"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-7fb96c846b"}],
    },
    "spec": {"containers": [{"name": "web", "image": "nginx:1.21"}]},
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "web",
                "state": {"running": {"startedAt": "2026-01-15T10:00:00Z"}},
                "containerID": f"containerd://{'4' * 64}",
                "imageID": f"docker.io/library/nginx@sha256:{'5' * 64}",
            }
        ],
    },
}
SS = """\
Netid State  Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess
udp   UNCONN 0      0      127.0.0.53%lo:53         0.0.0.0:*    users:(("systemd-resolve",pid=524,fd=14))
tcp   LISTEN 0      4096               *:22               *:*    users:(("sshd",pid=7,fd=3))
tcp   LISTEN 0      4096           [::1]:631           [::]:*
"""


def one(text: str) -> Container:
    (found,) = read_runtime("dump", text).containers
    for quote in (found.name, *(found.networks or ())):
        assert quote.text in text[quote.start : quote.end]
    return found


def interpreted(text: str, host: str | None = "nas.lan") -> Interpretation:
    view = FileView(frozenset({"dump"}), {"dump": text}.get)
    return RuntimeExtractor().interpret(
        UnitSpec("dump", ("dump",)), view, SourceFacts("default", "nas", host, None)
    )


def test_docker_inspect() -> None:
    found = one(json.dumps([jellyfin()], indent=4))
    assert (found.scope, found.service, found.directory) == ("media", "jellyfin", "/srv/media")
    assert [p.shown for p in found.ports or ()] == ["127.0.0.1:8096:8096/tcp"]
    assert [m.shown for m in found.mounts or ()] == ["/srv/media/config:/config", "media_cache:/cache:ro"]
    assert found.restart is not None and found.restart.text == "unless-stopped"


def test_podman_inspect() -> None:
    found = one(json.dumps(PODMAN))
    assert (found.scope, found.service, found.unit) == ("systemd", "edge", "edge.service")
    assert found.digest == f"sha256:{'3' * 64}" and found.restart is not None
    assert found.restart.text == "on-failure:3"
    assert [p.shown for p in found.ports or ()] == ["8080:80/tcp", "192.168.1.5:443:443/udp"]
    assert [m.shown for m in found.mounts or ()] == ["edge-data:/data", "/c/conf:/conf:ro"]


def test_what_is_no_container_by_itself_is_left_out() -> None:
    infra = {**PODMAN, "IsInfra": True}
    once = {**DB, "Config": {**DB["Config"], "Labels": {"com.docker.compose.oneoff": "True"}}}
    assert len(read_runtime("d", json.dumps([infra, once, PODMAN])).containers) == 1


def test_docker_ps() -> None:
    found = one(f"{PS}\n{PS}\n".split("\n")[0])
    assert (found.id, found.scope, found.service) == ("5a757bad3e01", "srv", "web")
    assert {p.shown for p in found.ports or ()} == {
        "80:80/tcp",
        "127.0.0.1:8000:90/tcp",
        "127.0.0.1:8001:91/tcp",
    }
    assert [n.text for n in found.networks or ()] == ["srv_default", "proxy"]
    assert found.mounts is None and found.restart is None, "it tells neither"
    assert len(read_runtime("d", f"{PS}\n{PS}\n").containers) == 2


def test_podman_ps_and_the_list_of_the_api() -> None:
    podman = {"Id": "6" * 64, "Names": ["a"], "Image": "b:1", "State": "exited", "ExitCode": 0}
    podman |= {"Labels": None, "Networks": [], "Mounts": ["/data"]}
    podman["Ports"] = [
        {"host_ip": "", "container_port": 53, "host_port": 5353, "range": 2, "protocol": "udp"}
    ]
    found = one(json.dumps([podman]))
    assert found.ended and not found.running and found.mounts is None
    assert [p.shown for p in found.ports or ()] == ["5353:53/udp", "5354:54/udp"]
    api = {"Id": "7" * 64, "Names": ["/a"], "Image": "b:1", "State": "running", "Status": "Up"}
    api |= {"Ports": [{"IP": "::", "PrivatePort": 80, "PublicPort": 81, "Type": "tcp"}, {"PrivatePort": 9}]}
    api |= {"NetworkSettings": {"Networks": {"n": {}}}, "Mounts": []}
    found = one(json.dumps([api]))
    assert [p.shown for p in found.ports or ()] == ["81:80/tcp"] and found.mounts == ()
    assert [n.text for n in found.networks or ()] == ["n"]


def test_a_container_of_a_stack_is_told_by_its_labels() -> None:
    labels = {"com.docker.stack.namespace": "mon", "com.docker.swarm.service.name": "mon_grafana"}
    found = one(json.dumps([{**DB, "Config": {"Image": "a:1", "Labels": labels}}]))
    assert (found.scope, found.service, found.placed) == ("mon", "grafana", True)


def test_pods_and_workloads() -> None:
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "n"}}
    daemons["status"] = {"desiredNumberScheduled": 3, "numberReady": 2}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD, daemons]})
    read = read_runtime("d", text)
    (found,), (workload,) = read.containers, read.workloads
    assert (found.scope, found.service, found.running, found.placed) == ("shop", "web", True, True)
    assert found.digest == f"sha256:{'5' * 64}"
    assert (workload.namespace, workload.name.text, workload.wanted, workload.ready) == ("n", "d", 3, 2)


def test_what_listens() -> None:
    assert [said[1:] for said in sockets_of("d", SS)] == [
        ("127.0.0.53", 53, "udp", "systemd-resolve"),
        ("", 22, "tcp", "sshd"),
        ("::1", 631, "tcp", ""),
    ]
    said = interpreted(SS)
    assert {(e.type, e.start.name, e.end.name, e.properties["port"]) for e in said.edges} == {
        ("BINDS", "nas.lan", "127.0.0.53", 53),
        ("BINDS", "nas.lan", "nas.lan", 22),
        ("BINDS", "nas.lan", "::1", 631),
    }
    unknown = interpreted(SS, host=None)
    assert not unknown.edges and [p.code for p in unknown.problems] == ["E_UNRESOLVED"]


def test_nothing_that_runs_declares_anything() -> None:
    said = interpreted(json.dumps([jellyfin(), PODMAN]))
    assert said.nodes and not any(n.declared for n in said.nodes)
    assert {n.node.label for n in said.nodes} == {"Container", "Image", "Host", "Network", "IP"}
    assert all(n.properties["declared"] is False for n in said.nodes if n.node.label == "Container")
    assert all(e.method.startswith("running_") and "running" in e.properties for e in said.edges)
    assert not said.reaches and not said.uses


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=9), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from([*DB, *DB["HostConfig"], "kind", "items", "Labels",
    "metadata", "spec", "status", "Names", "apiVersion"]), inner, max_size=6), max_leaves=30))  # fmt: skip
def test_whatever_json_says_is_read_or_refused(said: object) -> None:
    text = json.dumps(said)
    try:
        form = form_of(text)
    except TabootError:
        return
    found = interpreted(text)
    assert form is not None or not found.nodes
