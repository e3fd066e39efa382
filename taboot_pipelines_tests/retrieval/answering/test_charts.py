"""Questions to a house that Flux runs: what it has is said by values of charts alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

PHOTOS = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: pictures, namespace: media}
spec:
  values:
    controllers:
      server:
        containers:
          app: {image: {repository: ghcr.io/acme/pictures, tag: 3.1.0}, env: {DB_HOST: pictures-db}}
      learning:
        containers: {app: {image: {repository: ghcr.io/acme/learning, tag: 2.0.0}}}
      db:
        containers: {app: {image: {repository: postgres, tag: 16.2}}}
    service:
      server: {ports: {http: {port: 2283}}}
      learning: {ports: {http: {port: 3003}}}
      db: {ports: {sql: {port: 5432}}}
    route:
      app:
        hostnames: ["{{ .Release.Name }}.example.org"]
        parentRefs: [{name: inner, sectionName: https}]
        rules: [{backendRefs: [{identifier: server}]}]
"""
PAPERS = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: paperless-ngx, namespace: office}
spec:
  values:
    controllers:
      main:
        containers:
          main: {image: {repository: ghcr.io/acme/office-papers, tag: 2.9.0}}
          mailer: {image: {repository: acme/mailer, tag: "4"}}
    service: {main: {ports: {http: {port: 8000}}}}
    persistence: {files: {accessMode: ReadWriteOnce, size: 5Gi}}
    ingress:
      main:
        className: inner
        hosts: [{host: papers.example.org, paths: [{path: /, service: {identifier: main, port: http}}]}]
"""
#: What was run once, and lies in the archive.
GALLERY = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: gallery, namespace: media}
spec:
  values:
    controllers:
      main:
        containers:
          main: {image: {repository: acme/gallery, tag: "1"}, env: {DB_HOST: pictures-db}}
"""


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with FakeTei() as tei:
        world = World(tmp_path_factory.mktemp("flux"), tei.url)
        folder: Path = world.source("cluster", interpret=True)
        (folder / "pictures.yaml").write_text(PHOTOS)
        (folder / "papers.yaml").write_text(PAPERS)
        (folder / "archive").mkdir()
        (folder / "archive" / "gallery.yaml").write_text(GALLERY)
        world.ingest()
        yield world.kb()


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("What is behind pictures.example.org?", ["pictures.example.org to pictures-server:2283"]),
        ("Which port does pictures listen on?", ["learning (media) listens on port 3003", "on port 2283"]),
        ("Which version of pictures runs?", ["server (media) runs version 3.1.0", "version 2.0.0"]),
        ("Which images does paperless run?", ["ghcr.io/acme/office-papers:2.9.0", "acme/mailer:4"]),
        ("Where can I reach paperless-ngx?", ["papers.example.org", "inner"]),
        ("What depends on pictures-db?", ["pictures-server"]),
        ("Which services use postgres?", ["pictures-server"]),
        ("Which apps run in the office namespace?", ["paperless-ngx"]),
        ("Is pictures-learning reachable from outside?", ["No"]),
    ],
)  # fmt: skip
def test_what_charts_bring_is_answered(kb: KnowledgeBase, question: str, wanted: list[str]) -> None:
    answer = kb.answer(question)
    assert answer.found and answer.kind == "facts", answer.text
    assert all(part in answer.text for part in wanted), answer.text
    assert all(c.url.endswith((".yaml", ".yml")) and c.line for c in answer.citations)


def test_what_lies_in_an_archive_is_not_in_force(kb: KnowledgeBase) -> None:
    assert "gallery" not in kb.answer("Which services use postgres?").text
    assert {"gallery", "pictures-server"} <= {e["start_name"] for e in kb.edges().to_pylist()}


KEPT = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: keeper, namespace: office}
spec: {chartRef: {kind: OCIRepository, name: keeper}, values: {crds: {enabled: true}}}
"""
KEPT_CHART = """\
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: keeper, namespace: office}
spec: {url: "oci://registry.example.org/charts/warden", ref: {tag: v1.20.2}}
"""
WAITS = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: keeper, namespace: office}
spec: {dependsOn: [{name: ledger}], path: ./office/keeper}
"""
LEDGER = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: ledger, namespace: office}
spec: {chart: {spec: {chart: books, version: 3.1.0}}}
---
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
metadata: {name: pg, namespace: db}
spec: {instances: 1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: plain, namespace: office}
spec:
  template:
    spec:
      containers: [{name: a, image: "acme/plain:1", env: [{name: BOOKS_URL, value: "http://ledger:80"}]}]
"""


def test_a_chart_has_a_version_and_may_need_what_its_values_do_not_say(world: World) -> None:
    folder: Path = world.source("cluster", interpret=True)
    for path, text in {
        "keeper/app/release.yaml": KEPT,
        "keeper/app/chart.yaml": KEPT_CHART,
        "keeper/ks.yaml": WAITS,
        "ledger/ledger.yaml": LEDGER,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    world.ingest()
    kb = world.kb()
    for service, said in (
        ("keeper", "chart warden of version v1.20.2"),
        ("ledger", "books of version 3.1.0"),
    ):
        answer = kb.answer(f"Which version of {service} is installed?")
        assert said in answer.text and answer.citations, answer.text
    assert "kustomize.toolkit.fluxcd.io/v1" in kb.answer("Which API version does keeper have?").text
    # Only what is declared whole is denied; what names it in full may be a need.
    assert kb.answer("Does plain depend on pg?").text.startswith("No: plain (office)")
    asked = "Does keeper depend on pg?"
    unsure = kb.answer(asked)
    assert unsure.text.startswith("keeper (office) depends on ledger, and declares no dependency on pg;")
    assert "its chart, which is not here" in unsure.text and unsure.confidence <= 0.5
    (folder / "keeper/app/config").mkdir()
    (folder / "other").mkdir()
    other = WAITS.replace("name: keeper", "name: other").replace("name: ledger", "name: keeper")
    (folder / "other/ks.yaml").write_text(other)
    (folder / "other/settings.yaml").write_text("store: {at: 'pg-rw.db.svc.cluster.local:5432'}\n")
    (folder / "keeper/app/config/settings.yaml").write_text(
        "store:\n  at: 'pg-rw.db.svc.cluster.local:5432'\n"
    )
    world.ingest()
    named = world.kb().answer(asked)
    assert "pg is named in keeper/app/config/settings.yaml" in named.text, named.text
    assert "other" not in named.text
    assert named.citations[-1].line == 2 and named.confidence <= 0.5


GUARDED = """\
services:
  films:
    image: acme/films
    labels:
      traefik.http.routers.films.rule: Host(`films.example.org`)
      traefik.http.routers.films.middlewares: authentik@file
      traefik.http.services.films.loadbalancer.server.port: 8080
  queue:
    image: acme/queue
    labels: {traefik.http.routers.queue.rule: Host(`queue.example.org`)}
"""


def test_a_login_that_is_called_as_the_project_that_runs_it_guards_and_is_no_scope(world: World) -> None:
    root = world.source("stacks", "compose", host="nas")
    for project, text in (
        ("media", GUARDED),
        ("authentik", "services: {server: {image: goauthentik/server}, ldap: {image: goauthentik/ldap}}\n"),
        ("shop", "services: {web: {image: acme/web}, till: {image: acme/till}}\n"),
    ):
        (root / project).mkdir()
        (root / project / "compose.yaml").write_text(text)
    world.ingest()
    kb = world.kb()
    said = kb.answer("Is films behind authentik?")
    assert said.found and said.text.startswith("Yes") and "authentik" in said.text, said.text
    # Without a port nothing states an endpoint, and so nothing whether it is guarded.
    assert not kb.answer("Is queue protected by authentik?").found
    # What is not of a project is not thereby nothing to it.
    assert "is a service of" not in kb.answer("Is films behind shop?").text
    said = kb.answer("Is queue part of authentik?")
    assert said.text.startswith("No: queue (media) is a service of the project media"), said.text
    said = kb.answer("What in the media stack sits behind the authentik login?")
    assert said.found and "films" in said.text and "queue" not in said.text, said.text
