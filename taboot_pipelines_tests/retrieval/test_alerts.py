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
    assert [(r.cells["affected"], r.cells["affected_project"]) for r in guide.dependents] == [("web", "shop")]
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
