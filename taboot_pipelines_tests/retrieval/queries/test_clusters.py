"""Typed queries over a cluster's manifests: what several files say together, and what no file says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines import KnowledgeBase
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

GATE = """\
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: door, namespace: gate}
spec:
  forwardAuth: {address: "http://outpost:9000/check"}
---
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: frame, namespace: gate}
spec: {headers: {frameDeny: true}}
---
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: both, namespace: gate}
spec: {chain: {middlewares: [{name: frame}, {name: door}]}}
"""
ROUTE = """\
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {{name: {name}, namespace: shop}}
spec:
  entryPoints: [websecure]
  routes:
    - match: Host(`{name}.example.org`)
      middlewares: [{middlewares}]
      services: [{{name: {name}, port: 80}}]
"""
#: The routes by their names, with the middlewares that each asks for, and how each asks who one is.
ROUTES = {
    "chained": ("{name: both, namespace: gate}", "forward-auth (door)"),
    "framed": ("{name: frame, namespace: gate}", ""),
    "open": ("", ""),
    "called": ("{name: authelia, namespace: far}", "single sign-on (authelia)"),
    "unknown": ("{name: frame, namespace: gate}, {name: nobody-has-it}", None),
}
INGRESS = """\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: asked
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/auth-url: "https://login.example.org/check"}
spec:
  rules:
    - host: asked.example.org
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: asked, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: asked, namespace: shop}
spec: {selector: {app: asked}, ports: [{port: 80}]}
"""


#: Two workloads, one of which has much, and a release whose chart is not here.
WORK = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: rich, namespace: shop}
spec:
  updateStrategy: {type: OnDelete}
  template:
    spec:
      hostNetwork: true
      nodeSelector:
        disk: ssd
      containers:
        - name: main
          image: acme/rich:1
          securityContext: {privileged: true}
          resources: {limits: {memory: 1Gi}}
        - {name: other, image: "acme/other:1", lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}}
      volumes: [{name: scratch, emptyDir: {}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: poor, namespace: shop}
spec: {template: {spec: {containers: [{name: main, image: "acme/poor:1"}]}}}
"""
RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: chart, namespace: shop}
spec:
  chart: {spec: {chart: traefik}}
  values: {agent: {securityContext: {privileged: true}}}
"""


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with FakeTei(dimension=16) as embedder:
        world = World(tmp_path_factory.mktemp("cluster"), embedder.url)
        folder = world.source("cluster", interpret=True)
        files = {"gate.yaml": GATE, "asked.yaml": INGRESS, "work.yaml": WORK, "release.yaml": RELEASE} | {
            f"{name}.yaml": ROUTE.format(name=name, middlewares=middlewares)
            for name, (middlewares, _) in ROUTES.items()
        }
        for path, text in files.items():
            (folder / path).write_text(text)
        world.ingest()
        yield world.kb()
        world.workspace.close()


def test_what_guards_a_route_is_told_by_middlewares_of_other_files(kb: KnowledgeBase) -> None:
    rows = {str(r.cells["hostname"]).partition(".")[0]: r for r in kb.query("routes").rows}
    expected = {name: login for name, (_, login) in ROUTES.items()} | {"asked": None}
    assert {name: row.cells["login"] for name, row in rows.items()} == expected
    said = "".join(c.text for c in rows["chained"].citations)
    assert "chain: {middlewares" in said and "forwardAuth:" in said


def test_a_route_that_is_guarded_by_what_nobody_knows_is_not_provably_open(kb: KnowledgeBase) -> None:
    found = kb.query("unprotected_routes")
    assert {r.cells["hostname"] for r in found.rows} == {"framed.example.org", "open.example.org"}
    assert not found.complete
    doubt, charts = found.unseen
    assert charts == "Charts that are not here may set more than their values say of chart."
    assert doubt == "Whether a login is asked for is not known of asked.example.org and unknown.example.org."
    for name, words in (("open", True), ("unknown", False), ("chained", False), ("asked", False)):
        answer = kb.answer(f"Does {name}.example.org ask for a login?")
        assert ("declares no login" in answer.text) == words, answer.text


@pytest.mark.parametrize(
    ("key", "having"),
    [
        ("nodeSelector", {"rich"}),
        ("hostNetwork", {"rich"}),
        ("securityContext", {"rich", "chart"}),
        ("privileged", {"rich", "chart"}),
        ("updateStrategy", {"rich"}),
        ("preStop", {"rich"}),
        ("emptyDir", {"rich"}),
        ("limits", {"rich"}),
        ("limits.memory", {"rich"}),
        ("tolerations", set()),
    ],
)
def test_a_setting_is_found_under_the_keys_of_its_file(kb: KnowledgeBase, key: str, having: set[str]) -> None:
    found = kb.query("services_with", key=key)
    assert {r.cells["service"] for r in found.rows} == having
    # Each value once, though it is known under a key of Compose too.
    assert len({(r.cells["service"], r.cells["value"]) for r in found.rows}) == len(found.rows)
    lacking = kb.query("services_without", key=key)
    assert {r.cells["service"] for r in lacking.rows} == {"rich", "poor"} - having
    # What the chart sets of itself nobody knows.
    for result in (found, lacking):
        # Nor of what a route leads to and no file here runs.
        (doubt,) = result.unseen
        open_ = set(doubt.partition(" of ")[2].partition(":")[0].replace(" and ", ", ").split(", "))
        assert open_ == {"asked", *ROUTES, "chart"} - having and not result.complete


def test_all_settings_are_told_once_and_are_found_by_the_key_that_is_written(kb: KnowledgeBase) -> None:
    (row,) = kb.query("settings", key="hostNetwork").rows
    assert (row.cells["service"], row.cells["value"]) == ("rich", "true")
    assert row.citations[0].text == "hostNetwork: true"
    every = [r for r in kb.query("settings", limit=10_000).rows if r.cells["file"] == "work.yaml"]
    assert sum(r.cells["value"] == "ssd" or "disk" in str(r.cells["value"]) for r in every) == 1


def test_settings_are_found_by_the_block_that_they_stand_in(kb: KnowledgeBase) -> None:
    beneath = kb.query("settings", service="rich", key="limits").rows
    assert {str(r.cells["key"]).rpartition(".")[2] for r in beneath} == {"memory"}
    assert kb.query("settings", key="nowhere").rows == ()


def test_what_is_reached_through_a_release_of_a_proxy_hangs_on_it(kb: KnowledgeBase) -> None:
    (group,) = kb.impact("chart").groups
    assert group.how == "is reached through it"
    assert {(item.name, item.at) for item in group.items} == {
        (n, f"{n}.example.org") for n in (*ROUTES, "asked")
    }


#: A release of the common library, one whose values say of no pod, and one that names what runs, but no port.
CHARTED = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: radio, namespace: media}
spec:
  values:
    controllers: {main: {containers: {main: {image: {repository: acme/radio, tag: "3"}}}}}
    service: {main: {ports: {http: {port: 80}}}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: closed, namespace: media}
spec: {values: {image: {repository: acme/closed}, doors: {front: {type: LoadBalancer}}}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: half, namespace: media}
spec: {values: {image: {repository: acme/half, tag: "1"}, doors: {front: {type: LoadBalancer}}}}
"""
OPERATED = (
    "apiVersion: flies.example.org/v1\nkind: Dragon\nmetadata: {name: fire}\nspec: {image: acme/fire}\n"
)
#: What is looked for in vain: a query, and with what it is asked.
VAIN = [
    ("images", {"service": "closed"}),
    ("volumes", {"service": "radio"}),
    ("health_checks", {"service": "radio"}),
    ("users", {}),
    ("schedules", {}),
    ("mounters", {"path": "/media"}),
    ("published_ports", {}),
    ("dependencies", {"service": "radio"}),
    ("port_conflicts", {}),
]


@pytest.fixture(scope="module")
def charted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with FakeTei(dimension=16) as embedder:
        world = World(tmp_path_factory.mktemp("charted"), embedder.url)
        folder = world.source("cluster", interpret=True)
        (folder / "charted.yaml").write_text(CHARTED)
        (folder / "work.yaml").write_text(WORK)
        (folder / "shop").mkdir()
        (folder / "shop" / "stall.yaml").write_text(WORK.replace("rich", "stall").replace("poor", "booth"))
        stacks = world.source("stacks", "compose", host="nas")
        (stacks / "compose.yaml").write_text("services: {web: {image: 'acme/web:1'}}\n")
        world.ingest()
        yield world.kb()
        world.workspace.close()


@pytest.mark.parametrize(("name", "asked"), VAIN)
def test_what_charts_that_are_not_here_may_set_is_not_provably_absent(
    charted: KnowledgeBase, name: str, asked: dict[str, str]
) -> None:
    found = charted.query(name, **asked)
    assert (found.rows, found.complete) == ((), False)
    (doubt,) = found.unseen
    assert doubt.startswith("Charts that are not here may set more than their values say of ")
    assert asked.get("service", "closed, half and radio") in doubt
    # Of what manifests and Compose files declare whole nothing else is known to say it.
    for service in ("poor", "web"):
        assert charted.query("volumes", service=service).complete


def test_who_has_none_is_told_of_those_whose_declaration_is_known(charted: KnowledgeBase) -> None:
    for name in (
        "unexposed_services",
        "services_without_published_ports",
        "services_behind_no_proxy",
        "unreached_services",
    ):
        found = charted.query(name)
        told = {r.cells["service"] for r in found.rows}
        assert {"radio", "poor", "web"} <= told and not {"closed", "half"} & told and not found.complete
    lacking = charted.query("services_without", key="healthcheck")
    assert {"poor", "web"} <= {r.cells["service"] for r in lacking.rows}
    assert "radio" not in {r.cells["service"] for r in lacking.rows} and "radio" in lacking.unseen[0]
    assert not charted.answer("Does radio have a health check?").found
    for service, begin, sure in (("radio", "No: radio (media)", 0.85), ("half", "half (media)", 0.5)):
        for question in (f"Is {service} exposed to the internet?", f"Does {service} publish a port?"):
            answer = charted.answer(question)
            assert answer.text.startswith(begin) and "its chart, which is not here" in answer.text
            assert answer.confidence <= sure
    assert charted.answer("Does web publish a port?").text.startswith("No: web (stacks) publishes no port.")


def test_what_operators_may_run_is_not_provably_absent(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    folder = world.source("cluster", interpret=True)
    (folder / "work.yaml").write_text(WORK)
    (folder / "known.yaml").write_text(f"{GATE}---\n{INGRESS}")
    stacks = world.source("stacks", "compose", host="nas")
    (stacks / "compose.yaml").write_text("services: {web: {image: 'acme/web:1'}}\n")
    world.ingest()
    assert world.kb().query("volumes").complete
    (folder / "fire.yaml").write_text(OPERATED)
    world.ingest()
    kb = world.kb()
    for asked in ({}, {"project": "shop"}):
        found = kb.query("volumes", **asked)
        assert not found.complete
        assert found.unseen == ("Operators may run more by resources that are not read: Dragon.",)
    for asked in ({"service": "poor"}, {"project": "stacks"}):
        assert kb.query("volumes", **asked).complete


def test_an_address_is_asked_for_as_its_host(kb: KnowledgeBase) -> None:
    for name in ("open.example.org", "https://open.example.org", "HTTPS://open.example.org/a/b"):
        (row,) = kb.query("behind", hostname=name).rows
        assert row.cells["target"] == "open", name


def test_a_manifest_that_cannot_be_read_leaves_all_open(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    folder = world.source("cluster", interpret=True)
    (folder / "asked.yaml").write_text(INGRESS)
    (folder / "broken.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: [\n")
    world.source("notes")
    world.ingest()
    found = world.kb().query("published_ports", port=7777)
    assert (found.rows, found.complete) == ((), False)
    assert found.unseen == ("1 item of cluster could not be read: config:broken.yaml.",)
    (folder / "broken.yaml").write_text("apiVersion: v1\nkind: Service\n")
    world.ingest()
    assert world.kb().query("published_ports", port=7777).complete
