"""What runs beside what other formats than Compose declare, and what is no difference."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from taboot_pipelines_tests.fakes.docker import inspected
from taboot_pipelines_tests.knowledge.drift.house import House

COMPOSE = """\
name: media
services:
  web:
    image: nginx:1.27
    ports: ["8080:80"]
"""
WEB = inspected(
    "web", "nginx:1.27", ports={"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}, networks=["media_default"]
)


def found(
    files: dict[str, str], *running: dict[str, Any], host: str | None = "hearth.lan", **dumps: str
) -> list[tuple[str, str]]:
    if running:
        dumps["inspect"] = json.dumps(running, indent=2)
    return House(files, host, dumps).found()


def media(more: str = "", **changed: Any) -> tuple[dict[str, str], dict[str, Any]]:
    return {"media/compose.yaml": COMPOSE + more}, {**copy.deepcopy(WEB), **changed}


@pytest.mark.parametrize("host", ["hearth.lan", None])
def test_equal_is_no_drift_by_any_form(host: str | None) -> None:
    files, web = media()
    assert found(files, web, host=host) == []
    listed = {"ID": "a" * 12, "Image": "nginx:1.27", "Names": "media-web-1", "State": "running"}
    listed |= {"Labels": "com.docker.compose.project=media,com.docker.compose.service=web"}
    listed |= {"Networks": "media_default", "Ports": "0.0.0.0:8080->80/tcp, [::]:8080->80/tcp"}
    assert found(files, host=host, ps=json.dumps(listed)) == []
    listed["Ports"] = "0.0.0.0:8080->80/tcp, 0.0.0.0:49153->81/tcp"
    assert found(files, host=host, ps=json.dumps(listed)) == [], "the engine picked that port"
    listed["Ports"] = "0.0.0.0:8081->80/tcp"
    assert found(files, host=host, ps=json.dumps(listed)) == [("running_port", "web")] * 2


def test_what_nothing_sets_is_not_compared() -> None:
    whole = COMPOSE + "    restart: ${RESTART}\n    volumes: ['${DATA}:/data'{}]\n"
    bind = {"Type": "bind", "Source": "/x", "Destination": "/data", "RW": True}
    web = {**copy.deepcopy(WEB), "Mounts": [bind]}
    web["HostConfig"]["RestartPolicy"]["Name"] = "always"
    assert found({"media/compose.yaml": whole.replace("{}", "")}, web) == []
    web["Mounts"].append({**bind, "Destination": "/more"})
    assert found({"media/compose.yaml": whole.replace("{}", "")}, web) == [("running_mount", "web")]
    assert found({"media/compose.yaml": whole.replace("{}", ", '${ALL}'")}, web) == []
    files, _ = media("  api:\n    image: ${IMAGE}\n    ports: ['${PORT}:80']\n")
    api = inspected("api", "alpine:3", networks=["media_default"])
    api["HostConfig"]["PortBindings"] = {"80/tcp": [{"HostIp": "", "HostPort": "81"}]}
    assert found(files, WEB, api) == []


def test_the_network_of_another_is_not_compared() -> None:
    files, web = media("  side:\n    image: alpine:3\n    network_mode: service:web\n")
    side = inspected("side", "alpine:3")
    side["HostConfig"]["NetworkMode"] = f"container:{'a' * 64}"
    assert found(files, web, side) == []
    files, web = media("  side:\n    image: alpine:3\n    network_mode: host\n    ports: ['1:1']\n")
    side["HostConfig"]["NetworkMode"], side["NetworkSettings"]["Networks"] = "host", {"host": {}}
    assert found(files, web, side) == []


def test_profiles_and_variants_are_not_missed() -> None:
    files, web = media("  debug:\n    image: alpine:3\n    profiles: [debug]\n")
    files["media/compose.dev.yaml"] = "services:\n  dev:\n    image: alpine:3\n"
    assert found(files, web) == []
    files["other/compose.yaml"] = "services:\n  api:\n    image: alpine:3\n"
    assert found(files, web) == [("not_running", "api")]
    assert found(files, web, host=None) == [], "nobody says that it is of this machine"


def test_replicas_are_counted() -> None:
    files, web = media("  api:\n    image: alpine:3\n    scale: 2\n")
    api = inspected("api", "alpine:3", networks=["media_default"])
    second = {**copy.deepcopy(api), "Name": "/media-api-2", "Id": "2" * 64}
    assert found(files, web, api, second) == []
    second["State"] = {"Status": "exited", "Running": False, "ExitCode": 1}
    assert found(files, web, api, second) == [("not_running", "api")]


@pytest.mark.parametrize(
    "state",
    [
        {"Status": "restarting", "Running": True, "Restarting": True, "ExitCode": 1},
        {"Status": "paused", "Running": True, "Paused": True},
        {"Status": "running", "Running": True, "Health": {"Status": "unhealthy", "FailingStreak": 9}},
    ],
)
def test_what_serves_nobody_is_told(state: dict[str, Any]) -> None:
    files, web = media()
    healthy = {"Status": "running", "Running": True, "Health": {"Status": "healthy", "Log": []}}
    assert found(files, {**web, "State": healthy}) == []
    assert found(files, {**web, "State": state}) == [("not_running", "web")]
    listed = {"ID": "a" * 12, "Image": "nginx:1.27", "Names": "media-web-1", "State": "running"}
    listed |= {"Labels": "com.docker.compose.project=media,com.docker.compose.service=web"}
    assert found(files, ps=json.dumps(listed | {"Status": "Up 2 hours (healthy)"})) == []
    assert found(files, ps=json.dumps(listed | {"Status": "Up 2 hours (unhealthy)"})) == [
        ("not_running", "web")
    ]


def test_another_machine_is_not_compared() -> None:
    files, web = media()
    dumps = {"inspect": json.dumps([{**web, "Config": {**web["Config"], "Image": "nginx:1"}}])}
    assert House(files, "hearth.lan", dumps).found() == [("running_image", "web")]
    assert House(files, "hearth.lan", dumps, "attic.lan").found() == [("not_declared", "media-web-1")]


def test_a_quadlet_is_known_by_its_unit() -> None:
    unit = "[Container]\nImage=docker.io/library/caddy:2\nPublishPort=8080:80\n[Service]\nRestart=always\n"
    edge = inspected("", "docker.io/library/caddy:2", project="", name="systemd-edge", networks=["podman"])
    edge["Config"]["Labels"] = {"PODMAN_SYSTEMD_UNIT": "edge.service"}
    edge["HostConfig"]["PortBindings"] = {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}
    files = {"etc/edge.container": unit}
    assert found(files, edge) == [], "systemd restarts it, and no network is the engine's own"
    edge["Config"]["Image"] = "docker.io/library/caddy:1"
    assert found(files, edge) == [("running_image", "edge")]


def test_units_that_failed_or_do_not_run() -> None:
    files = {"etc/backup.service": "[Service]\nExecStart=/bin/backup\n[Install]\nWantedBy=default.target\n"}

    def units(**said: str) -> str:
        told = {"Type": "simple", "Id": "backup.service", "UnitFileState": "enabled", **said}
        other = "Type=simple\nId=other.service\nActiveState=failed\n"
        return other + "\n" + "".join(f"{k}={v}\n" for k, v in told.items())

    assert found(files, units=units(ActiveState="active")) == []
    assert found(files, units=units(ActiveState="failed")) == [("not_running", "backup")]
    assert found(files, units=units(ActiveState="inactive")) == [("not_running", "backup")]
    assert found(files, units=units(ActiveState="inactive", Type="oneshot")) == []
    assert found(files, units=units(ActiveState="inactive", UnitFileState="disabled")) == []


def test_ports_that_nothing_listens_at() -> None:
    files, _ = media()
    head = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
    line = 'LISTEN 0 4096 0.0.0.0:{} 0.0.0.0:* users:(("{}",pid=1,fd=3))\n'
    assert found(files, ss=head + line.format(8080, "docker-proxy")) == []
    assert found(files, ss=head + line.format(8081, "docker-proxy")) == [("running_port", "web")]
    assert found(files, ss=head + line.format(22, "sshd")) == [], "packets may be forwarded"


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      containers:
        - {name: web, image: "nginx:1.27"}
"""


def test_pods_are_compared_with_their_workload() -> None:
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "web-1-a", "namespace": "shop", "labels": {"pod-template-hash": "1"}}
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-1"}]
    status = {"name": "web", "containerID": f"containerd://{'4' * 64}", "state": {"running": {}}}
    pod["status"] = {"phase": "Running", "containerStatuses": [status, {**status, "name": "istio-proxy"}]}
    sidecar = {"name": "istio-proxy", "image": "istio/proxyv2:1"}
    deployed = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
    }

    def told(image: str, ready: int) -> list[tuple[str, str]]:
        pod["spec"] = {"containers": [{"name": "web", "image": image}, sidecar]}
        deployed.update({"spec": {"replicas": 2}, "status": {"readyReplicas": ready}})
        dump = json.dumps({"kind": "List", "apiVersion": "v1", "items": [pod, deployed]})
        return found({"etc/web.yaml": DEPLOYMENT}, cluster=dump)

    assert told("docker.io/library/nginx:1.27", 2) == []
    assert told("nginx:1.26", 2) == [("running_image", "web")]
    assert told("nginx:1.27", 0) == [("not_running", "web")]
    pod["status"]["containerStatuses"] = [{**status, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    assert told("nginx:1.27", 0) == [("not_running", "web")], "once, by its container"
    # A sidecar that runs hides nothing of what waits beside it.
    beside = {**status, "name": "istio-proxy", "containerID": f"containerd://{'5' * 64}"}
    pod["status"]["containerStatuses"].append(beside)
    pods = json.dumps({"kind": "List", "apiVersion": "v1", "items": [pod]})
    assert found({"etc/web.yaml": DEPLOYMENT}, cluster=pods) == [("not_running", "web")]


def test_swarm_pins_what_nobody_pinned() -> None:
    files, _ = media()
    task = inspected(
        "", f"nginx:1.27@sha256:{'d' * 64}", project="", name="media_web.1.x", networks=["ingress"]
    )
    task["Config"]["Labels"] = {
        "com.docker.stack.namespace": "media",
        "com.docker.swarm.service.name": "media_web",
    }
    assert found(files, task) == []
    task["Config"]["Image"] = f"nginx:1.26@sha256:{'d' * 64}"
    assert found(files, task) == [("running_image", "web")]


def test_the_confs_that_nginx_has() -> None:
    conf = "# ours\nserver {\n    listen 80;\n    location / { proxy_pass http://web:80; }\n}\n"
    loaded = "server { listen 80; location / { proxy_pass http://web:80; } } # as one line"

    def told(text: str) -> list[tuple[str, str]]:
        head = "# configuration file /etc/nginx/nginx.conf:\nhttp { include sites/*.conf; }\n"
        dump = f"{head}# configuration file /etc/nginx/sites/web.conf:\n{text}\n"
        assert found({"web.conf": conf}, nginx=dump) == found({"sites/web.conf": conf}, nginx=dump)
        assert found({"other/web.conf": conf}, nginx=dump) == [], "it may be another"
        return found({"sites/web.conf": conf, "web/b/web.conf": conf}, nginx=dump)

    assert told(loaded) == []
    assert told(loaded.replace("web:80", "web:81")) == [("running_proxy", "web.conf")]
