"""Every format of configuration files in a source with ``interpret: true``: from the folder to what is
observed.
"""

from __future__ import annotations

import base64

from taboot_pipelines_tests.stages.test_tier_a_triples import interpret, observations
from taboot_pipelines_tests.world import World

KEY = base64.b64encode(bytes([7]) * 32).decode()
FILES = {
    "api/Dockerfile": "FROM python:3.13\nEXPOSE 8000\n",
    "etc/hosts": "127.0.0.1 localhost\n192.168.1.10 nas.lan\n",
    "hosts.d/iot": "192.168.1.11 cam.lan\n",
    "units/web.service": "[Unit]\nRequires=db.service\n[Service]\nExecStart=/x\n",
    "units/web.service.d/more.conf": "[Unit]\nWants=cache.service\n",
    "units/web.socket": "[Socket]\nListenStream=8080\n",
    "quadlets/app.container": "[Container]\nImage=redis:7\nNetwork=lan.network\n",
    "quadlets/lan.network": "[Network]\nSubnet=10.89.0.0/24\n",
    "wg0.conf": f"[Interface]\nPrivateKey = {KEY}\nAddress = 10.8.0.1/24\n[Peer]\nPublicKey = {KEY}\n",
    "prometheus.yml": "scrape_configs:\n- job_name: a\n  file_sd_configs: [{files: [t.json]}]\n",
    "t.json": '[{"targets": ["node:9100"]}]',
    "k8s/web.yaml": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec: {containers: [{image: nginx}]}\n"
    ),
    "notes.txt": "10.0.0.1 nothing here\n",
}


def test_every_format_is_taken_by_default_and_observed(world: World) -> None:
    folder = world.source("conf", "files", interpret=True, host="nas.lan")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    report = interpret(world, "conf")
    assert report.problems == []
    found = {
        (r["type"], r["start_name"], r["end_name"]) for r in observations(world, "conf") if r["end_name"]
    }
    assert {fact for fact in found if fact[0] != "MENTIONS"} == {
        ("BUILDS", "api", "docker.io/library/python:3.13"),
        ("EXPOSES_ENDPOINT", "api", "api:8000"),
        ("RESOLVES_TO", "nas.lan", "192.168.1.10"),
        ("RESOLVES_TO", "cam.lan", "192.168.1.11"),
        ("DEPENDS_ON", "web", "db"),
        ("DEPENDS_ON", "web", "cache"),
        ("BINDS", "web", "nas.lan"),
        ("BUILDS", "app", "docker.io/library/redis:7"),
        ("RUNS", "systemd-app", "nas.lan"),
        ("RUNS_IN", "systemd-app", "systemd-lan"),
        ("RUNS_IN", "app", "systemd-lan"),
        ("RUNS_IN", "pod", "default.svc.cluster.local"),
        ("RUNS_IN", "pod", "cluster.local"),
        ("USES_VPN", "nas.lan", "wg0"),
        ("RESOLVES_TO", "nas.lan", "10.8.0.1"),
        ("CONNECTS_TO", "nas.lan", "10.8.0.0/24"),
        ("CONNECTS_TO", "prometheus", "node"),
        ("EXPOSES_ENDPOINT", "node", "http://node:9100/metrics"),
        ("BUILDS", "pod", "docker.io/library/nginx:latest"),
    }
    assert not any(KEY[:12] in str(row) for row in observations(world, "conf"))


def test_a_drop_in_that_comes_and_goes_changes_its_unit(world: World) -> None:
    folder = world.source("conf", "files", interpret=True)
    (folder / "a.service").write_text("[Unit]\nAfter=b.service\n")
    interpret(world, "conf")

    def ends() -> set[str]:
        return {r["end_name"] for r in observations(world, "conf") if r["type"] == "DEPENDS_ON"}

    assert ends() == {"b"}
    (folder / "a.service.d").mkdir()
    (folder / "a.service.d" / "x.conf").write_text("[Unit]\nAfter=\nAfter=c.service\n")
    interpret(world, "conf")
    assert ends() == {"c"}
    (folder / "a.service.d" / "x.conf").unlink()
    interpret(world, "conf")
    assert ends() == {"b"}


def test_a_manifest_beside_a_service_changes_where_it_leads(world: World) -> None:
    folder = world.source("conf", "files", interpret=True)
    (folder / "service.yaml").write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: front}\n"
        "spec: {selector: {app: web}, ports: [{port: 80}]}\n"
    )
    interpret(world, "conf")

    def ends() -> set[str]:
        return {r["end_name"] for r in observations(world, "conf") if r["type"] == "CONNECTS_TO"}

    assert ends() == set()
    (folder / "web.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}\n"
        "spec: {containers: [{image: a}]}\n"
    )
    interpret(world, "conf")
    assert ends() == {"web"}


def test_examples_in_documents_are_mentioned_and_declare_nothing(world: World) -> None:
    folder = world.source("conf", "files", interpret=True, host="nas.lan")
    fences = "".join(f"## {path}\n\n```\n{text}```\n\n" for path, text in FILES.items() if path != "wg0.conf")
    table = "| host | address |\n|---|---|\n| db.lan | 192.168.1.77 |\n\n"
    (folder / "README.md").write_text(f"# How it could look\n\n{table}{fences}")
    html = f"<table><tr><th>host<th>ip<tr><td>db.lan<td>192.168.1.77</table><pre>{FILES['etc/hosts']}</pre>"
    (folder / "page.html").write_text(f"<html><body><h1>Example</h1><p>As here:</p>{html}</body></html>")
    interpret(world, "conf")
    rows = observations(world, "conf")
    # What the table says in words is a document's; the reader of /etc/hosts had no part in it.
    said = {(row["type"], row["end_name"]) for row in rows if row["type"] != "MENTIONS"}
    assert said <= {("RESOLVES_TO", "192.168.1.77")}
    assert all(row["method"].startswith("prose_") for row in rows if row["type"] != "MENTIONS")
    assert "192.168.1.77" in {row["end_name"] for row in rows}
