"""From an alert to its runbook and to the thing that is meant."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

COMPOSE = "services:\n  web:\n    image: nginx\n    depends_on: [db]\n  db:\n    image: postgres\n"
RULES = """groups:
- name: shop
  rules:
  - {record: shop:up, expr: up}
  - for: 5m
    alert: ShopSilent
    expr: |
      up{job="shop"}
        == 0
    labels: {severity: page}
    annotations:
      summary: "{{ $labels.instance }}: a disk fills up"
      runbook_url: https://git.example.org/house/a/README.md
  - alert: ShopSilentLong
    expr: up == 0
"""
OPERATED = """apiVersion: monitoring.coreos.com/v1
kind: {kind}
metadata: {{name: vault}}
spec:
  groups:
  - name: vault
    rules:
    - alert: {name}
      expr: vault_core_unsealed == 0
      annotations:
        runbook_url: https://git.example.org/house/runbooks/secrets.md#{name}
"""
SECRETS = """# Secrets

```sh
# VaultSealed
```

## Before you begin

Find the keys.

## VaultSealed

Unseal it.

### Again

Unseal it twice.

## VaultSealed

The other vault.

## On `BackupStale` alerts

Look at the log.

## Leader is lost

Wait.
"""
NOTES = {
    "vault.yaml": OPERATED.format(kind="PrometheusRule", name="VaultSealed"),
    "vm.yaml": OPERATED.format(kind="VMRule", name="VaultMissing"),
    "runbooks/secrets.md": SECRETS,
    "prometheus/shop.yaml": RULES,
    "prometheus/broken.yaml": "groups: [ShopSilent\n",
    "runbooks/DiskFull.md": "# What to do when a disk fills up\n\nDelete old snapshots of the pool.\n",
    "runbooks/database.md": "# Postgres does not answer\n\nThe database db is down: restart it, then web.\n",
    "decisions/ADR-1-database.md": "# Postgres does not answer to everybody\n\ndb is down at night.\n",
    "a/README.md": "# About a\n\nNothing.\n",
    "b/README.md": "# About b\n\nNothing.\n",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with FakeTei() as tei:
        made = World(tmp_path_factory.mktemp("house"), tei.url)
        for project in ("shop", "blog"):
            folder = made.source("stacks", "compose", host="nas.lan") / project
            folder.mkdir()
            (folder / "compose.yaml").write_text(COMPOSE)
        for name, text in NOTES.items():
            path = made.source("notes", include=["**"]) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        made.ingest()
        stacks = made.directory / "stacks"
        (stacks / "shop" / "compose.yaml").write_text(f"# Of the shop\n{COMPOSE}")
        (stacks / "wiki").mkdir()
        (stacks / "wiki" / "compose.yaml").write_text("services:\n  wiki:\n    image: wiki\n")
        made.ingest()
        yield made
        made.workspace.close()


@pytest.fixture(scope="module")
def kb(world: World) -> KnowledgeBase:
    return KnowledgeBase.open(settings=world.settings(world.home), read_only=True)


@pytest.mark.parametrize(
    ("url", "first"),
    [
        ("https://git.example.org/house/src/main/runbooks/DiskFull.md", "runbooks/DiskFull.md"),
        ("https://runbooks.example.org/runbooks/diskfull/", "runbooks/DiskFull.md"),
        ("https://git.example.org/a/README.md#top", "a/README.md"),
        # Two end alike, and none is called so.
        ("https://git.example.org/c/README.md", None),
        ("https://git.example.org/runbooks/nothing.md", None),
        ("ssh nas 'cat a/README.md'", None),
    ],
)
def test_a_link_leads_to_the_document_that_ends_as_it_does(
    kb: KnowledgeBase, url: str, first: str | None
) -> None:
    guide = kb.for_alert({"alertname": "Other"}, {"runbook_url": url, "summary": "db is down"})
    by_link = [d.path for d in guide.documents if d.why == "link"]
    assert by_link == ([first] if first else [])
    assert first is None or guide.documents[0].path == first


def test_the_name_of_the_alert_then_its_words(kb: KnowledgeBase) -> None:
    assert kb.for_alert({"alertname": "DISK_full"}).documents[0].why == "name"
    guide = kb.for_alert({"alertname": "PostgresDown"}, {"summary": "The database does not answer"})
    # What is for the moment before what was decided once.
    assert guide.documents[0].path == "runbooks/database.md"
    assert guide.documents[0].why == "text" and guide.documents[0].line == 1


@pytest.mark.parametrize(
    ("labels", "url", "line"),
    [
        ({"alertname": "VaultSealed"}, None, 11),
        ({"alertname": "vault sealed"}, None, 11),
        ({"alertname": "BackupStale"}, None, 23),
        ({"alertname": "LeaderIsLost"}, None, 27),
        ({"alertname": "X"}, "https://git.example.org/house/runbooks/secrets.md#leader-is-lost", 27),
        ({"alertname": "X"}, "https://git.example.org/house/runbooks/secrets.md#vaultsealed-1", 19),
        # Without a fragment the section of the alert's name, if there is one.
        ({"alertname": "LeaderIsLost"}, "https://git.example.org/house/runbooks/secrets.md", 27),
        ({"alertname": "X"}, "https://git.example.org/house/runbooks/secrets.md", None),
    ],
)
def test_it_leads_to_the_section(
    kb: KnowledgeBase, labels: dict[str, str], url: str | None, line: int | None
) -> None:
    guide = kb.for_alert(labels, {"runbook_url": url} if url else {})
    first = guide.documents[0]
    assert (first.path, first.line) == ("runbooks/secrets.md", line)
    assert first.text.startswith(SECRETS.split("\n")[line - 1]) if line else first.text == ""
    assert "twice" in first.text if line == 11 else "twice" not in first.text
    assert not any("runbook link" in note for note in guide.notes)


def test_a_link_that_leads_nowhere_is_told(kb: KnowledgeBase) -> None:
    url = "https://git.example.org/house/runbooks/nothing.md#Gone"
    guide = kb.for_alert({"alertname": "VaultSealed"}, {"runbook_url": url})
    assert guide.notes[0] == f"Its runbook link leads to no document that is known here: {url}"
    url = "https://git.example.org/house/runbooks/secrets.md#gone"
    guide = kb.for_alert({"alertname": "X"}, {"runbook_url": url})
    assert guide.notes[0] == "runbooks/secrets.md has no section #gone, to which its runbook link leads."
    assert guide.documents[0].path == "runbooks/secrets.md" and guide.documents[0].line is None


def test_an_alert_of_which_nothing_is_known_is_unknown(kb: KnowledgeBase) -> None:
    guide = kb.for_alert({"alertname": "PrinterOutOfPaper", "job": "printer"})
    assert guide.documents == () and guide.notes[0].startswith("PrinterOutOfPaper is not known here")
    guide = kb.for_alert({"alertname": "PostgresDown"}, {"summary": "Postgres does not answer"})
    assert guide.notes[0].endswith("The documents fit by their words alone.") and guide.documents
    for known in ("VaultSealed", "LeaderIsLost", "ShopSilentLong"):
        assert kb.for_alert({"alertname": known}).notes == ()


@pytest.mark.parametrize("name", ["VaultSealed", "VaultMissing"])
def test_the_rules_of_an_operator_are_read(kb: KnowledgeBase, name: str) -> None:
    guide = kb.for_alert({"alertname": name})
    assert [(r.line, r.expression) for r in guide.rules] == [(8, "vault_core_unsealed == 0")]
    assert (guide.documents[0].path, guide.documents[0].why) == ("runbooks/secrets.md", "link")


def test_the_rule_that_raises_it_is_told_and_says_what_its_name_does_not(kb: KnowledgeBase) -> None:
    guide = kb.for_alert({"alertname": "ShopSilent"})
    (rule,) = guide.rules
    assert (rule.path, rule.line) == ("prometheus/shop.yaml", 6)
    assert (rule.expression, rule.held) == ('up{job="shop"} == 0', "5m")
    assert rule.labels == {"severity": "page"} and "disk fills up" in rule.annotations["summary"]
    assert guide.documents[0].path == "a/README.md" and guide.documents[0].why == "link"
    assert "runbooks/DiskFull.md" in [d.path for d in guide.documents]
    # What the alert itself says goes before.
    said = kb.for_alert({"alertname": "ShopSilent"}, {"runbook_url": "https://x.example/b/README.md"})
    assert said.documents[0].path == "b/README.md"
    assert kb.for_alert({"alertname": "shop:up"}).rules == ()


@pytest.mark.parametrize(
    ("labels", "meant"),
    [
        ({"service": "db", "namespace": "shop"}, [("Service", "db", "nas.lan/shop")]),
        ({"pod": "db-7d9f8b6c5d-x2x4z", "namespace": "blog"}, [("Service", "db", "nas.lan/blog")]),
        ({"pod": "db-0", "namespace": "blog"}, [("Service", "db", "nas.lan/blog")]),
        ({"instance": "http://NAS.lan:9100/metrics"}, [("Host", "nas.lan", None)]),
        ({"container": "shop-db-1", "job": "cadvisor"}, [("Container", "shop-db-1", None)]),
        ({"job": "nothing"}, []),
        ({"service": "db", "namespace": "elsewhere"}, []),
        ({"summary": "db", "namespace": "elsewhere"}, []),
        # Who asks is of one namespace, what is asked of another.
        ({"instance": "http://db.blog.svc:5432", "namespace": "probes"}, [("Service", "db", "nas.lan/blog")]),
        ({"service": "web@docker", "namespace": "blog"}, [("Service", "web", "nas.lan/blog")]),
        (
            {"exported_namespace": "blog", "namespace": "probes", "app": "db"},
            [("Service", "db", "nas.lan/blog")],
        ),
        (
            {
                "container_label_com_docker_compose_service": "db",
                "container_label_com_docker_compose_project": "shop",
            },
            [("Service", "db", "nas.lan/shop")],
        ),
        (
            {"persistentvolumeclaim": "data-db-0", "namespace": "shop"},
            [("Service", "db", "nas.lan/shop")],
        ),
    ],
)
def test_labels_name_the_thing(
    kb: KnowledgeBase, labels: dict[str, str], meant: list[tuple[str, str, str | None]]
) -> None:
    found = kb.for_alert({"alertname": "Down", **labels}).things
    assert [(t.label, t.name, t.scope) for t in found][: len(meant) or 1] == meant


def test_what_hangs_on_it_and_what_changed(kb: KnowledgeBase) -> None:
    guide = kb.for_alert({"alertname": "DbDown", "service": "db", "namespace": "shop"})
    assert [(i.name, i.project) for group in guide.dependents for i in group.items] == [("web", "shop")]
    assert [(c.kind, c.path) for c in guide.changes] == [("changed", "shop/compose.yaml")]
    assert guide.unknown[-1].startswith("What no file declares")
    # What the first ingest brought is not new, what came after it is.
    assert kb.for_alert({"alertname": "DbDown", "service": "db", "namespace": "blog"}).changes == ()
    (new,) = kb.for_alert({"alertname": "WikiDown", "service": "wiki"}).changes
    assert (new.kind, new.path) == ("new", "wiki/compose.yaml")
    for wrong in ({}, {"a": 1}, {str(n): "x" for n in range(100)}, "text"):
        with pytest.raises(TabootError) as error:
            kb.for_alert(wrong)  # type: ignore[arg-type]
        assert error.value.code == "E_QUERY"


MACHINES = {
    "inventory.yml": "all:\n  hosts:\n    oak: {ansible_host: 10.1.0.5}\n    elm: {ansible_host: 10.1.0.6}\n"
    "    ash: {ansible_host: 'fd00::7'}\n",
    "notes.md": "# Backups\n\n`oak` connects to `vault`.\n",
    "infrastructure.md": "# Machines\n\n## DockerHostDown\n\nPing it.\n\n## DockerContainerDown\n\nLogs.\n\n"
    "## ZfsPoolDegraded\n\nThe disks are failing.\n\n## DiskSMARTFailed\n\nOrder one.\n\n"
    "## ClaimNotBound\n\nWait.\n\n## ClaimNotReady\n\nWait.\n\n## What to do\n\nNothing.\n",
    "nodes.md": "# Nodes\n\nWhere a node is down.\n",
    "shop.yaml": """apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: photos, namespace: apps}
spec: {chart: {spec: {chart: photos, version: 1.2.3}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-state, namespace: apps}
spec: {template: {spec: {containers: [{name: main, image: kube-state:1}]}}}
""",
}
EXPORTERS = """services:
  exporter: {image: exporter, container_name: exporter}
  vault: {image: vault, container_name: vault}
"""
RUNS = [
    {
        "Id": "ab" * 32,
        "Name": "/vault",
        "State": {"Status": "running", "Running": True},
        "Config": {"Image": "vault"},
        "HostConfig": {"NetworkMode": "bridge"},
    }
]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """A machine on which containers run, another, and a cluster."""
    with FakeTei() as tei:
        made = World(tmp_path_factory.mktemp("machines"), tei.url)
        folder = made.source("stacks", "compose", host="oak") / "tools"
        folder.mkdir()
        (folder / "compose.yaml").write_text(EXPORTERS)
        for name, text in MACHINES.items():
            (made.source("house", include=["**"], interpret=True) / name).write_text(text)
        (made.source("runs", "runtime", host="oak") / "inspect.json").write_text(json.dumps(RUNS))
        made.ingest()
        yield made.kb()
        made.workspace.close()


OAK, ELM = ("Host", "oak"), ("Host", "elm")


@pytest.mark.parametrize(
    ("labels", "meant"),
    [
        # A text names a service as the machine is called.
        ({"instance": "oak", "job": "node-oak"}, [OAK]),
        ({"service": "oak"}, [OAK]),
        ({"instance": "10.1.0.5:9100"}, [OAK]),
        ({"instance": "http://10.1.0.6:9100/metrics"}, [ELM]),
        ({"instance": "[fd00::7]:9100"}, [("Host", "ash")]),
        ({"instance": "fd00::7"}, [("Host", "ash")]),
        ({"instance": "10.1.0.9:9100"}, []),
        # What asks is on the machine that it asks, which is meant before it unless the alert is called so.
        ({"instance": "10.1.0.5:9100", "job": "exporter"}, [OAK, ("Service", "exporter")]),
        ({"instance": "10.1.0.6:9100", "job": "exporter"}, [ELM]),
        ({"alertname": "VaultDown", "instance": "oak:8200", "job": "vault"}, [("Service", "vault"), OAK]),
        # A pod's own metrics, and those of others.
        ({"pod": "kube-state-0", "job": "kube-state"}, [("Service", "kube-state")]),
        ({"pod": "cache-0", "job": "kube-state", "service": "kube-state"}, []),
        ({"exported_pod": "cache-0", "pod": "kube-state-0", "job": "kube-state"}, []),
        # What a chart calls by the name of its release, in its namespace alone.
        ({"pod": "photos-web-6d5f8c7b9d-x2x4z", "namespace": "apps"}, [("Service", "photos")]),
        ({"container": "photos-web", "namespace": "apps", "job": "kube-state"}, [("Service", "photos")]),
        ({"container": "photos-web", "namespace": "shop"}, []),
        ({"container": "photosweb", "namespace": "apps"}, []),
        # Declared, and running.
        ({"name": "vault"}, [("Container", "vault"), ("Service", "vault")]),
    ],
)
def test_the_thing_is_meant_and_not_what_tells_of_it(
    machines: KnowledgeBase, labels: dict[str, str], meant: list[tuple[str, str]]
) -> None:
    found = machines.for_alert({"alertname": "Down", **labels}).things
    assert [(t.label, t.name) for t in found] == meant


@pytest.mark.parametrize("instance", ["oak", "10.1.0.5:9100"])
def test_on_a_machine_hangs_what_runs_there(machines: KnowledgeBase, instance: str) -> None:
    guide = machines.for_alert({"alertname": "NodeDown", "instance": instance})
    first = guide.dependents[0]
    assert (first.how, [i.name for i in first.items]) == ("runs on it", ["exporter", "vault"])
    assert guide.unknown[-1].startswith("What no file declares")


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        ({"alertname": "HostDown", "host": "oak"}, 3),
        # What is meant is a host.
        ({"alertname": "NodeDown", "instance": "oak"}, 3),
        ({"alertname": "ContainerDown", "name": "vault"}, 7),
        ({"alertname": "SmartDiskFailing", "instance": "oak"}, 15),
        ({"alertname": "PodNotReady", "pod": "x"}, None),
    ],
)
def test_the_section_of_an_alert_of_the_same_words_comes_first(
    machines: KnowledgeBase, labels: dict[str, str], line: int | None
) -> None:
    found = [(d.path, d.line) for d in machines.for_alert(labels).documents]
    # Without such a section it is found by its text, from the beginning.
    assert found[0] == ("infrastructure.md", line) if line else ("infrastructure.md", 1) in found


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_the_body_of_a_webhook_is_read_from_stdin(
    arguments: tuple[str, ...], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"alertname": "DiskFull", "service": "db", "namespace": "shop"}
    body = {"alerts": [{"labels": labels, "status": "firing"}, {"labels": labels, "status": "resolved"}]}
    shell = Shell(world)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(body).encode())))
    (guide,) = shell.json("alert", *arguments)["alerts"]
    assert guide["alertname"] == "DiskFull" and guide["things"][0]["name"] == "db"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no JSON")))
    assert shell.json("alert", *arguments, code=1)["error"]["code"] == "E_PARSE"
    assert shell.json("alert", "DiskFull", "-", code=1)["error"]["code"] == "E_QUERY"


def test_in_a_terminal(world: World) -> None:
    shell = Shell(world)
    out = shell("alert", "DiskFull", "service=db", "namespace=shop")
    assert "1. What to do when a disk fills up  (name)" in out and "meant: Service db in nas.lan/shop" in out
    assert "only starts after it: web (shop)" in out
    assert 'raised by: up{job="shop"} == 0 for 5m' in shell("alert", "ShopSilent")
    said = json.loads(shell("alert", "alertname=DiskFull", "--json"))
    assert said["alerts"][0]["documents"][0]["path"] == "runbooks/DiskFull.md"
