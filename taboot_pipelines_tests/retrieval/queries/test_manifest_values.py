"""The settings of Kubernetes' workloads, asked for as those of a service of Compose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.retrieval.queries.config_files import ConfigFile, read
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

FILM = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: film, namespace: media}
spec:
  replicas: 2
  template:
    spec:
      hostNetwork: true
      restartPolicy: Always
      terminationGracePeriodSeconds: 45
      nodeSelector: {disk: ssd}
      securityContext: {runAsUser: 1000}
      containers:
        - name: main
          image: acme/film:2
          args: ["--cache", "/cache", "--level=warn"]
          env:
            - {name: TZ, value: UTC}
            - {name: DB_PASS, valueFrom: {secretKeyRef: {name: film-db, key: pass}}}
          envFrom: [{configMapRef: {name: film-more}}]
          ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 9090}]
          resources:
            limits: {memory: 1Gi, cpu: 500m}
            requests: {memory: 256Mi}
          securityContext: {privileged: true, capabilities: {add: [NET_ADMIN], drop: [ALL]}}
          livenessProbe: {httpGet: {path: /health, port: 80}, periodSeconds: 20, failureThreshold: 4}
          volumeMounts:
            - {name: reels, mountPath: /reels, readOnly: true}
            - {name: conf, mountPath: /conf, subPath: film.yaml}
            - {name: share, mountPath: /share}
        - name: helper
          image: acme/helper:1
          command: [sleep, "5"]
      volumes:
        - {name: reels, hostPath: {path: /srv/reels}}
        - {name: conf, configMap: {name: film-conf}}
        - {name: share, nfs: {server: nas, path: /export}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: sweep, namespace: media}
spec:
  schedule: "0 3 * * *"
  timeZone: Europe/Berlin
  jobTemplate:
    spec:
      template:
        spec:
          containers: [{name: sweep, image: "acme/sweep:1", resources: {limits: {memory: 64Mi}}}]
---
apiVersion: v1
kind: Service
metadata: {name: film, namespace: media}
spec: {type: LoadBalancer, selector: {}, ports: [{port: 80}]}
"""
BARE = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: tape, namespace: media}
spec: {replicas: 0, template: {spec: {containers: [{name: tape, image: "acme/tape:1"}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: tape, namespace: media}
spec: {type: ClusterIP, selector: {app: tape}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ledger, namespace: databases}
spec:
  template: {spec: {containers: [{name: ledger, image: "acme/ledger:1", resources: {limits: {memory: 1Gi}}}]}}
"""
RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: radio, namespace: media}
spec:
  values:
    controllers:
      main:
        containers:
          main:
            image: {repository: acme/radio, tag: "3"}
            env: {VOLUME: "7"}
            resources: {limits: {memory: 300Mi}}
"""


def said(file: ConfigFile, service: str) -> dict[str, str]:
    return {".".join(v.path[2:]): v.value for v in file.values if v.path[:2] == ("services", service)}


def manifest(text: str) -> ConfigFile:
    return read("d", "media/film.yaml", "application/yaml", text)


def test_what_a_workload_says_stands_under_the_keys_of_compose() -> None:
    told = said(manifest(FILM), "film")
    assert told == {
        "deploy.replicas": "2",
        "restart": "Always",
        "stop_grace_period": "45s",
        "network_mode": "host",
        "deploy.placement.constraints": "disk == ssd",
        "user": "1000",
        "image": "acme/film:2",
        "privileged": "true",
        "cap_add": "NET_ADMIN",
        "cap_drop": "ALL",
        "command": "--cache /cache --level=warn",
        "command.--cache": "/cache",
        "command.--level": "warn",
        "environment.TZ": "UTC",
        "environment.DB_PASS": "the key pass of the Secret film-db",
        "env_file": "ConfigMap film-more",
        "ports": "8080:80",
        "expose": "9090",
        "deploy.resources.limits.memory": "1Gi",
        "deploy.resources.limits.cpus": "500m",
        "deploy.resources.reservations.memory": "256Mi",
        "volumes": "nas:/export:/share",
        "healthcheck.test": "GET :80/health",
        "healthcheck.interval": "20s",
        "healthcheck.retries": "4",
        "containers.helper.image": "acme/helper:1",
        "containers.helper.entrypoint": "sleep 5",
        "type": "LoadBalancer",
    }
    assert said(manifest(BARE), "tape")["restart"] == "Always" and "restart" not in said(
        manifest(FILM), "sweep"
    )
    mounts = [v.value for v in manifest(FILM).values if v.path[2:] == ("volumes",)]
    assert mounts == ["/srv/reels:/reels:ro", "film-conf/film.yaml:/conf", "nas:/export:/share"]
    assert said(manifest(FILM), "sweep")["schedule"] == "0 3 * * * in Europe/Berlin"


def test_each_is_quoted_from_its_line() -> None:
    file = manifest(FILM)
    lines = FILM.split("\n")
    for value in file.values:
        assert 0 <= value.start < value.end <= len(FILM)
        assert FILM[value.start : value.end].split("\n")[0] in lines[value.line - 1]
    (memory,) = (v for v in file.values if v.path[-2:] == ("limits", "memory") and v.path[1] == "film")
    assert FILM[memory.start : memory.end].startswith("limits: {memory: 1Gi")


def test_what_a_release_brings_by_its_values_is_said_alike() -> None:
    told = said(read("d", "radio.yaml", "application/yaml", RELEASE), "radio")
    assert told["image"] == "acme/radio:3" and told["environment.VOLUME"] == "7"
    assert told["deploy.resources.limits.memory"] == "300Mi"


#: Values in the form of the common library, with what they say of pods.
LIBRARY = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: radio, namespace: media}
spec:
  values:
    defaultPodOptions: {securityContext: {runAsUser: 1000}, hostNetwork: true}
    defaultContainerOptions: {image: {repository: acme/radio, tag: "3"}}
    controllers:
      radio:
        type: statefulset
        replicas: 2
        containers:
          main:
            securityContext: {readOnlyRootFilesystem: true}
            probes:
              liveness:
                {enabled: true, custom: true, spec: {httpGet: {path: /ping, port: 80}, periodSeconds: 5}}
          helper:
            probes:
              liveness: {enabled: true, type: HTTP, path: /up, port: 81, spec: {failureThreshold: 4}}
              startup: {type: TCP, port: 82}
      sweep:
        type: cronjob
        cronjob: {schedule: "@daily", timeZone: Europe/Berlin, suspend: true}
        pod: {securityContext: {runAsUser: 5}, hostNetwork: false}
        containers: {main: {}}
    persistence:
      conf: {existingClaim: "{{ .Release.Name }}-conf"}
      own: {accessMode: ReadWriteOnce, size: 1Gi, globalMounts: [{path: /own, subPath: a, readOnly: true}]}
      share: {type: nfs, server: nas, path: /export}
      port: {type: hostPath, hostPath: /dev/port}
      keys: {type: secret, name: radio-keys, advancedMounts: {sweep: {main: [{path: /keys}]}}}
      text: {type: configMap, name: radio-text, advancedMounts: {radio: {helper: [{path: /text}]}}}
      off: {enabled: false, existingClaim: gone}
"""


def test_what_the_values_of_the_common_library_say_of_pods_is_said_alike() -> None:
    file = read("d", "radio.yaml", "application/yaml", LIBRARY)
    told, swept = said(file, "radio"), said(file, "radio-sweep")
    radio = {
        "image": "acme/radio:3",
        "user": "1000",
        "network_mode": "host",
        "deploy.replicas": "2",
        "restart": "Always",
        "read_only": "true",
        "healthcheck.test": "GET :80/ping",
        "healthcheck.interval": "5s",
        "containers.helper.healthcheck.test": "GET :81/up",
        "containers.helper.healthcheck.retries": "4",
    }
    assert {key: told.get(key) for key in radio} == radio
    assert swept["schedule"] == "@daily in Europe/Berlin" and swept["suspend"] == "true"
    # What ends starts no more, and no default comes before what a controller says of itself.
    assert swept["user"] == "5" and not {"restart", "network_mode", "healthcheck.test"} & swept.keys()
    mounts = {
        name: [
            v.value
            for v in file.values
            if v.path[1:2] == (name,) and v.path[-1] == "volumes" and v.path[2:3] == inner
        ]
        for name, inner in (("radio", ("volumes",)), ("radio-sweep", ("volumes",)))
    }
    everywhere = ["radio-conf:/conf", "radio/a:/own:ro", "nas:/export:/share", "/dev/port:/dev/port"]
    assert mounts == {"radio": everywhere, "radio-sweep": [*everywhere, "radio-keys:/keys"]}
    assert "radio-text:/text" in {v.value for v in file.values if v.path[2:4] == ("containers", "helper")}
    assert {"radio", "radio-sweep"} <= file.charted


def test_what_helm_create_lays_out_of_a_pod_is_said_alike() -> None:
    values = (
        "{image: {repository: acme/wiki, tag: '4'}, replicaCount: 3, podSecurityContext: {runAsUser: 7},"
        " securityContext: {privileged: true}, volumes: [{name: a, hostPath: {path: /srv}}],"
        " volumeMounts: [{name: a, mountPath: /in}], startupProbe: {tcpSocket: {port: 80}}}"
    )
    release = RELEASE.partition("  values:")[0]
    told = said(read("d", "w.yaml", "application/yaml", f"{release}  values: {values}\n"), "radio")
    assert {
        "deploy.replicas": "3",
        "user": "7",
        "privileged": "true",
        "volumes": "/srv:/in",
        "healthcheck.test": "TCP :80",
    }.items() <= told.items()


KEYS = st.sampled_from(
    [
        *("spec", "template", "containers", "name", "image", "env", "value", "valueFrom", "volumeMounts"),
        *("volumes", "resources", "limits", "livenessProbe", "httpGet", "port", "command", "securityContext"),
        *("capabilities", "add", "ports", "containerPort", "hostPath", "path", "nodeSelector", "envFrom"),
    ]
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["", "a", "{{ x }}", "${y}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)


@given(ANY)
def test_any_manifest_is_read(spec: object) -> None:
    import yaml

    whole = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}
    pod = {"template": {"spec": spec}}
    for tree in (whole, {**whole, "spec": pod}):
        text = yaml.safe_dump(tree, sort_keys=False)
        for value in read("d", "x.yaml", "application/yaml", text).values:
            assert 0 <= value.start <= value.end <= len(text) and value.line >= 1


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with FakeTei() as tei:
        world = World(tmp_path_factory.mktemp("manifests"), tei.url)
        (world.source("cluster", interpret=True) / "k3s" / "media").mkdir(parents=True)
        (world.directory / "cluster" / "k3s" / "media" / "film.yaml").write_text(FILM)
        (world.directory / "cluster" / "k3s" / "media" / "tape.yaml").write_text(BARE)
        compose = (
            "services: {late: {image: 'acme/late:1', restart: always, depends_on: [film]},"
            " film: {image: 'acme/film:1', mem_limit: 2g, restart: always,"
            " volumes: ['/srv/reels:/in'], environment: {TAPE_URL: 'http://clusterip-tape:80'}}}\n"
        )
        (world.source("stacks", "compose", host="hearth") / "compose.yaml").write_text(compose)
        world.ingest()
        yield world.kb()
        world.workspace.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("what is the memory limit of film in k3s?", ["is 1Gi."]),
        ("what is the memory limit of film?", ["2g", "1Gi"]),
        ("how many replicas does film have?", ["2"]),
        ("when does sweep run?", ["0 3 * * * in Europe/Berlin"]),
        ("which services mount /srv/reels?", ["film", "/srv/reels"]),
        ("what is the health check of film?", ["GET :80/health"]),
        ("which environment variables does film set?", ["UTC", "DB_PASS", "of the Secret film-db"]),
        ("which deployments have 0 replicas?", ["tape has it, under deploy.replicas."]),
        ("which pods have no memory limit?", ["tape (media) and late (stacks) have no memory limit."]),
        # Kubernetes restarts what runs on, and lets nobody ask for less.
        ("which services are not restarted automatically?", ["sweep has no restart policy."]),
        ("which pods are in databases?", ["The project databases has 1 service: ledger."]),
        ("which services are of type ClusterIP?", ["tape has it, under type."]),
        ("which services have no restart policy on hearth?", ["None: film and late have a restart policy."]),
    ],
)
def test_the_same_questions_are_answered(kb: KnowledgeBase, question: str, parts: list[str]) -> None:
    answer = kb.answer(question)
    assert answer.found, answer
    for part in parts:
        assert part in answer.text, answer.text


@pytest.mark.slow
def test_what_is_so_is_no_answer_to_what_is_not_so(kb: KnowledgeBase) -> None:
    assert kb.answer("what starts after film?").found
    assert not kb.answer("what does not depend on film?").found  # "(an order, not a need)" denies nothing
    assert not kb.answer("which services have no depends_on?").found
    for question in ("which services have no replicas?", "which services do not mount /srv/reels?"):
        answer = kb.answer(question)
        assert not answer.found or "no" in answer.text.split(), answer
    said = kb.answer("which containers don't publish any port?").text
    assert "publish no port" in said and "ledger" in said and "sweep" in said


@pytest.mark.slow
def test_typed_queries_see_both_kinds(kb: KnowledgeBase) -> None:
    limits = kb.query("limits", service="film")
    assert {(r.cells["key"], r.cells["value"]) for r in limits.rows} >= {
        ("mem_limit", "2g"),
        ("deploy.resources.limits.memory", "1Gi"),
    }
    assert {r.cells["service"] for r in kb.query("mounters", path="/srv/reels").rows} == {"film"}
    assert len(kb.query("mounters", path="/srv/reels").rows) == 2
    assert "2 sources" in limits.scope
