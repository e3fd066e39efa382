"""The rules of the house: each finds what is wrong in one house and nothing in another that is right, shows
the lines that say so, and is silenced with a reason only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.results.rules import RuleFinding
from taboot_pipelines.retrieval.rules.catalog import RULES
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

#: {source: {path: text}}: files that each break some rules.
WRONG = {
    "stacks": {
        "shop/compose.yaml": """
services:
  web:
    image: nginx
    container_name: front
    depends_on: [api, ghost]
    ports: ["8080:80"]
    volumes:
      - /var/run/docker.sock:/var/run/docker.sock
      - /etc:/host/etc
  api:
    build: https://github.com/example/api.git#main
    restart: always
    privileged: true
    network_mode: host
    pid: host
    user: root
    cap_add: [SYS_ADMIN]
    security_opt: [seccomp:unconfined]
    healthcheck: {test: [CMD, "true"]}
    environment:
      ADMIN_PASSWORD: correct-horse-battery
      GF_AUTH_ANONYMOUS_ENABLED: "true"
      TS_EXTRA_ARGS: --advertise-exit-node
    ports: ["${NOWHERE}:81"]
  off:
    image: busybox:stable
    restart: always
    healthcheck: {disable: true}
  db:
    image: postgres:15
    restart: always
    ports: ["5432:5432"]
    volumes: ["shop-data:/var/lib/postgresql/data"]
    networks: {inner: {ipv4_address: 172.30.0.9}}
  early:
    image: example/early:1
    restart: always
    depends_on: {db: {condition: service_healthy}}
  job-a:
    image: example/job:1
    depends_on: [db]
    networks: {inner: {ipv4_address: 172.30.0.9}}
  ring-a: {image: "example/ring:1", restart: always, depends_on: [ring-b]}
  ring-b: {image: "example/ring:1", restart: always, depends_on: [ring-a]}
volumes:
  shop-data: {name: shop-data}
  left-over: {name: left-over}
networks:
  inner: {ipam: {config: [{subnet: 172.30.0.0/24}]}}
  lonely: {driver: bridge}
""",
        "other/compose.yaml": """
services:
  page:
    image: nginx:1.27
    container_name: front
    restart: always
    ports: ["8080:80"]
  cache: {image: "redis:7", restart: always}
  c1: {image: "example/c:1", restart: always, depends_on: {cache: {condition: service_healthy}}}
  c2: {image: "example/c:1", restart: always, environment: {REDIS_URL: "redis://cache:6379"}}
  c3: {image: "example/c:1", restart: always, environment: {REDIS_URL: "redis://cache:6379"}}
  c4: {image: "example/c:1", restart: always, environment: {REDIS_URL: "redis://cache:6379"}}
  c5: {image: "example/c:1", restart: always, environment: {REDIS_URL: "redis://cache:6379"}}
  old: {image: "postgres:12-alpine", restart: always}
  small:
    image: example/small:alpine
    restart: always
    labels: ["traefik.http.routers.s.rule=Host(`small.example.org`)", "traefik.docker.network=nowhere"]
  door:
    image: tecnativa/docker-socket-proxy:1
    restart: always
    ports: ["2375:2375"]
    volumes: ["/var/run/docker.sock:/var/run/docker.sock"]
  asks: {image: "example/asks:1", restart: always, environment: {DATABASE_URL: "postgres://u@old:5432/a"}}
  traefik:
    image: traefik:3
    restart: always
    command: ["--api.insecure=true", "--providers.docker.exposedByDefault=false"]
    ports: ["8085:8080"]
  prometheus:
    image: prom/prometheus:v3
    restart: always
  exporter: {image: "prom/node-exporter:v1", restart: always}
  kopia:
    image: kopia/kopia:1
    restart: always
    volumes: ["/srv/photos:/photos"]
    ports: ["127.0.0.1:51515:51515"]
  made: {build: .}
""",
        "other/Dockerfile": "FROM debian\n",
    },
    "config": {
        "prometheus.yml": """
scrape_configs:
  - job_name: node
    static_configs: [{targets: ["exporter:9100", "gone:9100"]}]
""",
        "alerts.yml": 'groups: [{name: a, rules: [{alert: Down, expr: "up{job=\\"nodes\\"} == 0"}]}]\n',
        "k8s/app.yaml": """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube}
spec:
  template:
    spec:
      containers:
        - name: agent
          image: example/agent:1
          securityContext: {allowPrivilegeEscalation: true}
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, hostPath: {path: /srv/agent}}]
---
apiVersion: v1
kind: Secret
metadata: {name: door}
stringData:
  password: correct-horse-battery
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all}
roleRef: {kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: agent}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: way}
spec:
  tls: [{hosts: [a.example.org], secretName: a}]
  rules:
    - {host: b.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: agent}}}]}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: chart}
spec: {chart: {spec: {chart: chart, version: ">=1.0.0"}}}
""",
        "k8s/kustomization.yaml": "resources:\n  - https://github.com/example/deploy//base?ref=main\n",
        ".github/workflows/ci.yaml": "jobs: {t: {steps: [{uses: example/action@main}]}}\n",
        "units/keeper.service": "[Unit]\nAfter=waiter.service\n[Service]\nExecStart=/usr/bin/keeper\n",
        "units/waiter.service": "[Service]\nExecStart=/usr/bin/w\nRestart=always\n",
        "hosts": "192.168.1.5 nas.lan\n192.168.1.6 nas.lan\n",
        "loki.yaml": "client: {tls_config: {insecure_skip_verify: true}}\n",
    },
    "proxy": {
        "plain.conf": """
server {
    listen 80;
    server_name plain.example.org;
    location / { proxy_pass http://exporter:9100; }
}
server {
    listen 443 ssl;
    ssl_protocols TLSv1 TLSv1.2;
    server_name two.example.org;
    location / { proxy_pass http://exporter:9100; }
}
server {
    listen 443 ssl;
    server_name gone.example.org;
    location / { auth_basic "x"; proxy_pass http://nobody:80; }
}
server {
    listen 443 ssl;
    server_name wrong.example.org;
    location / { auth_basic "x"; proxy_pass http://kopia:8000; }
}
server {
    listen 443 ssl;
    server_name page.example.org;
    location / { auth_basic "x"; proxy_pass http://page:80; }
}
""",
        "second.conf": """
server {
    listen 443 ssl;
    server_name two.example.org;
    location / { auth_basic "x"; proxy_pass http://cache:6380; }
}
""",
    },
    "tailnet": {"policy.hujson": '{"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}]}\n'},
}

#: {rule: what it finds there}.
FOUND = {
    "action-that-moves": {".github/workflows/ci.yaml"},
    "address-twice": {"172.30.0.9"},
    "alert-on-unknown-job": {"alerts.yml:nodes"},
    "base-without-version": {"other/made"},
    "certificate-without-host": {"k8s/app.yaml (Ingress way)"},
    "chart-that-moves": {"k8s/app.yaml (HelmRelease chart)"},
    "cluster-admin": {"k8s/app.yaml (ClusterRoleBinding all)"},
    "confinement-off": {"shop/api"},
    "container-name-twice": {"front"},
    "container-socket": {"shop/web"},
    "dangling-route": {"nobody"},
    "dashboard-open": {"other/compose.yaml"},
    "dependency-cycle": {"shop/ring-a"},
    "escalation-allowed": {"k8s/app.yaml (DaemonSet agent)"},
    "exit-node": {"shop/api"},
    "health-check-off": {"shop/off"},
    "healthy-without-check": {"other/c1", "shop/early"},
    "host-namespace": {"shop/api"},
    "host-network": {"shop/api"},
    "host-path": {"kube/agent"},
    "image-of-moving-tag": {"other/small", "shop/off"},
    "image-of-two-versions": {"postgres"},
    "image-without-version": {"shop/web"},
    "login-passed-by": {"other/page"},
    "login-switched-off": {"shop/api"},
    "name-with-two-addresses": {"nas.lan"},
    "needs-the-undeclared": {"shop/web"},
    "network-of-no-name": {"other/small"},
    "no-restart-policy": {"other/made", "shop/web"},
    "port-taken-twice": {"nas"},
    "privileged": {"shop/api"},
    "reference-that-moves": {"k8s/kustomization.yaml", "shop/compose.yaml"},
    "root-user": {"shop/api"},
    "route-to-wrong-port": {"kopia"},
    "router-not-taken": {"other/small"},
    "route-twice": {"two.example.org"},
    "route-without-login": {"plain.example.org", "two.example.org"},
    "route-without-tls": {"plain.example.org"},
    "scraped-and-undeclared": {"gone"},
    "secret-in-manifest": {"k8s/app.yaml (Secret door)"},
    "secret-in-plain": {"shop/api"},
    "socket-published": {"other/door"},
    "single-point-of-failure": {"other/cache"},
    "store-published": {"shop/db"},
    "store-without-check": {"other/old"},
    "strong-capability": {"shop/api"},
    "system-mounted": {"shop/web"},
    "tailnet-open": {"policy.hujson"},
    "tls-not-verified": {"loki.yaml"},
    "tls-outdated": {"plain.conf"},
    "unit-without-restart": {"systemd/keeper"},
    "unused-network": {"shop/compose.yaml:lonely"},
    "unused-volume": {"shop/compose.yaml:left-over"},
    "variable-unset": {"NOWHERE"},
    "volume-without-backup": {"shop/db"},
    "waits-for-start-only": {"shop/web"},
    "workload-without-limit": {"kube/agent"},
    "workload-without-probe": {"kube/agent"},
}
#: What looks like it and is right.
RIGHT = {
    "stacks": {
        "shop/compose.yaml": """
services:
  web:
    image: nginx@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    restart: "no"
    depends_on: {db: {condition: service_healthy}, setup: {condition: service_completed_successfully}}
    ports: ["127.0.0.1:8080:80"]
    volumes: ["/etc:/host/etc:ro", "/srv/web:/etc/web", "pages:/pages"]
    security_opt: ["no-new-privileges:true"]
    cap_add: [NET_BIND_SERVICE]
    user: "1000"
    privileged: false
    environment:
      ADMIN_PASSWORD: ${ADMIN_PASSWORD:?missing}
      DB_PASSWORD_FILE: /run/secrets/db
      DB_URL: postgres://${DB_USER:-app}:${DB_PASSWORD}@db:5432/${DB_NAME:-app}
      LOCAL_API_KEY: sk-local
      GF_AUTH_ANONYMOUS_ENABLED: "false"
  web-dev: {image: "nginx:1.27", restart: "no", profiles: [dev], ports: ["127.0.0.1:8081:80"]}
  setup: {image: "busybox:1.36"}
  db:
    image: postgres:16
    restart: unless-stopped
    ports: ["127.0.0.1:5432:5432"]
    healthcheck: {test: [CMD, pg_isready]}
    networks: {inner: {ipv4_address: 172.30.0.9}}
    volumes: ["shop-data:/var/lib/postgresql/data"]
  exporter: {image: "prom/postgres-exporter:v1", restart: always, ports: ["5433:5432"]}
  made: {build: ., restart: always}
  timed: {image: "example/timed:1", restart: always, healthcheck: {interval: 30s}}
  later: {image: "example/later:1", restart: always, depends_on: [timed]}
  asks: {image: "example/asks:1", restart: always, depends_on: {made: {condition: service_healthy}}}
  socket:
    image: tecnativa/docker-socket-proxy:1
    restart: always
    ports: ["127.0.0.1:2375:2375", "8086:8080"]
    volumes: ["/var/run/docker.sock:/var/run/docker.sock"]
  released: {image: "debian:bookworm", restart: always}
  built: {image: "postgres:16-alpine", restart: always}
  quiet: {image: "example/quiet:1", restart: always, healthcheck: {disable: false}}
  hears: {image: "example/hears:1", restart: always, depends_on: {quiet: {condition: service_healthy}}}
  traefik: {image: "traefik:3", restart: always, command: ["--api.insecure=false", "--api.dashboard=true"]}
  inner: {image: "traefik:3", restart: always, command: ["--api.insecure=true"], ports: ["443:443"]}
  local: {image: "traefik:3", restart: always, command: ["--api.insecure"], ports: ["127.0.0.1:8082:8080"]}
  moved:
    image: traefik:3
    restart: always
    command: ["--api.insecure=true", "--entryPoints.traefik.address=:9000", "--entryPoints.web.address=:8080"]
    ports: ["8084:8080"]
  backup: {image: "restic/restic:1", restart: always, command: "backup shop-data"}
volumes:
  shop-data: {name: shop-data}
  pages: {name: pages}
networks:
  inner: {ipam: {config: [{subnet: 172.30.0.0/24}]}}
""",
        "shop/Dockerfile": "FROM debian:12 AS base\nFROM base\nHEALTHCHECK CMD true\n",
        "swarm/compose.yaml": """
services:
  app: {image: "example/app:1", depends_on: [store], deploy: {mode: global}}
  store: {image: "redis:7", healthcheck: {test: [CMD, redis-cli, ping]}, deploy: {replicas: 1}}
""",
        "shop/compose.blue.yaml": 'services: {w: {image: "nginx:1.27", restart: "no", container_name: w}}\n',
        "shop/compose.green.yaml": 'services: {w: {image: "nginx:1.27", restart: "no", container_name: w}}\n',
        "docs/compose.yaml": "services: {d: {image: nginx, privileged: true, restart: always}}\n",
        "kept/2026-01-31.compose.yaml": "services: {k: {image: nginx, privileged: true, restart: always}}\n",
        "examples/compose.yaml": "services: {x: {image: nginx, privileged: true, restart: always}}\n",
    },
    "config": {
        "prometheus.yml": "scrape_configs:\n  - job_name: node\n",
        "alerts.yml": 'groups: [{name: a, rules: [{alert: Down, expr: "up{job=\\"node\\"} == 0"}]}]\n',
        "k8s/app.yaml": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent, namespace: kube}
spec:
  template:
    spec:
      containers:
        - name: agent
          image: example/agent:1
          securityContext: {allowPrivilegeEscalation: false, runAsUser: 1000}
          readinessProbe: {tcpSocket: {port: 80}}
          resources: {limits: {memory: 1Gi}}
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: kube}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: once, image: "busybox:1.36"}]}}}
---
apiVersion: v1
kind: Secret
metadata: {name: door}
stringData: {password: "ENC[AES256_GCM,data:p673w==,iv:YY=,aad:UQ=,tag:1=,type:str]"}
sops: {mac: "ENC[AES256_GCM,data:p673w==,iv:YY=,aad:UQ=,tag:1=,type:str]"}
---
apiVersion: v1
kind: Secret
metadata: {name: repository}
stringData:
  type: git
  url: https://git.example.org/house.git
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: some}
roleRef: {kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: cluster-admin}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: way}
spec:
  tls: [{hosts: ["*.example.org"], secretName: a}]
  rules:
    - {host: b.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: agent}}}]}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: chart}
spec: {chart: {spec: {chart: chart, version: "1.2.3"}}}
""",
        "k8s/kustomization.yaml": "resources:\n"
        "  - https://github.com/example/deploy//base?ref=v1.2.3\n"
        "  - https://github.com/example/deploy/releases/download/v1/all.yaml\n",
        ".github/workflows/ci.yaml": "jobs: {t: {steps: [{uses: example/action@v4}]}}\n",
        "units/once.service": "[Unit]\nAfter=waiter.service\n[Service]\nType=oneshot\nExecStart=/usr/bin/k\n",
        "units/timed.service": "[Unit]\nAfter=waiter.service\n[Service]\nExecStart=/usr/bin/k\n",
        "units/timed.timer": "[Timer]\nOnCalendar=daily\n",
        "units/waiter.service": "[Service]\nExecStart=/usr/bin/w\nRestart=always\n",
        "units/follow.container": "[Container]\nImage=docker.io/library/nginx:latest\nAutoUpdate=registry\n"
        "PodmanArgs=--init --privileged=false\n[Service]\nRestart=always\n",
        "hosts": "192.168.1.5 nas.lan nas\n192.168.1.5 nas.lan\n127.0.1.1 box\n192.168.1.7 box\n",
        "loki.yaml": "client: {tls_config: {insecure_skip_verify: false}}\n",
    },
    "proxy": {
        "plain.conf": """
server {
    listen 443 ssl;
    ssl_protocols TLSv1.2 TLSv1.3;
    server_name plain.example.org;
    location / { auth_basic "x"; proxy_pass http://web:80; }
}
server {
    listen 443 ssl;
    server_name auth.example.org;
    location / { proxy_pass http://authelia:9091; }
}
""",
    },
    "tailnet": {"policy.hujson": '{"acls": [{"action": "accept", "src": ["*"], "dst": ["*:443"]}]}\n'},
}


def built(world: World, files: dict[str, dict[str, str]]) -> None:
    world.source("stacks", "compose", host="nas", proxy="edge")
    world.source("config", "files", interpret=True, host="nas", include=["**/*", "**/.*/**"])
    world.source("proxy", "swag", proxy="edge")
    world.source("tailnet", "tailscale")
    for source, held in files.items():
        for path, text in held.items():
            file = world.directory / source / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    world.ingest()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with FakeTei(dimension=16) as embedder:
        made = World(tmp_path_factory.mktemp("rules"), embedder.url)
        built(made, WRONG)
        yield made
        made.workspace.close()


@pytest.fixture
def kb(world: World) -> KnowledgeBase:
    world.declare()
    return world.kb()


def said(world: World, rules: str) -> KnowledgeBase:
    """The knowledge base with a section of the sources file that says this of rules."""
    world.declare()
    file = world.workspace.settings.sources_file
    file.write_text(f"{file.read_text()}\nrules: {rules}\n")
    return world.kb()


def subjects(found: tuple[RuleFinding, ...]) -> dict[str, set[str]]:
    return {rule: {f.subject for f in found if f.rule == rule} for rule in sorted({f.rule for f in found})}


def test_each_rule_finds_what_is_wrong_and_shows_the_lines(kb: KnowledgeBase) -> None:
    assert FOUND.keys() == RULES.keys()
    report = kb.rules()
    assert subjects(report.findings) == FOUND and not report.silenced and not report.notes
    for one in report.findings:
        assert one.citations, one
        for cited in one.citations:
            assert cited.line > 0 and cited.text and cited.text.strip() in kb.original(cited.doc_id).text
    order = [f.severity for f in report.findings]
    assert order == sorted(order, key=["error", "warning", "info"].index)
    assert sum(r.found for r in report.rules) == report.total == len(report.to_arrow())


def test_what_is_right_is_not_told(tmp_path: Path) -> None:
    with FakeTei(dimension=16) as embedder:
        made = World(tmp_path, embedder.url)
        built(made, RIGHT)
        assert subjects(made.kb().rules().findings) == {}
        made.workspace.close()


@pytest.mark.parametrize(
    ("more", "port"),
    [
        ("ports: ['8085:8080']", 8080),
        ("ports: ['${PORT}:8080']", 8080),
        ("ports: ['${LAN_IP}:443:443', '${LAN_IP}:8000-8100:8000-8100']", 8080),
        ("ports: ['443:${TARGET}']", 8080),
        ("ports: ['${LAN_IP}:443:443', '${LAN_IP:?x}:8080:80']", 0),
        ("network_mode: host", 8080),
        ("ports: ['9000:9000']\n    environment: {TRAEFIK_ENTRYPOINTS_TRAEFIK_ADDRESS: ':9000'}", 9000),
    ],
)
def test_a_dashboard_is_open_where_its_port_may_be_reached(
    more: str, port: int, tmp_path: Path, tei: FakeTei
) -> None:
    made = World(tmp_path, tei.url)
    folder = made.source("stacks", "compose", host="nas")
    traefik = "services:\n  traefik:\n    image: traefik:3\n    command: [--api.insecure=true]\n"
    (folder / "compose.yaml").write_text(f"{traefik}    {more}\n")
    made.ingest()
    told = [f.statement for f in made.kb().rules().findings if f.rule == "dashboard-open"]
    assert len(told) == (port > 0)
    assert all(statement.endswith(f"whoever reaches its port {port}.") for statement in told)
    made.workspace.close()


def test_a_source_that_names_no_machine_is_one(tmp_path: Path) -> None:
    project = "services: {{{0}: {{image: 'example/{0}:1', container_name: front, ports: ['80:80']}}}}\n"
    with FakeTei(dimension=16) as embedder:
        made = World(tmp_path, embedder.url)
        made.source("stacks", "compose")
        for name in ("one", "two"):
            (made.directory / "stacks" / name).mkdir(parents=True)
            (made.directory / "stacks" / name / "compose.yaml").write_text(project.format(name))
        made.ingest()
        kb = made.kb()
        told = subjects(kb.rules().findings)
        assert (told["port-taken-twice"], told["container-name-twice"]) == ({"stacks"}, {"front"})
        (name,) = kb.rules("container-name-twice").findings
        assert "on the machine of stacks (no `host` names it)" in name.statement
        (row,) = kb.query("port_conflicts").rows
        assert "on the machine of stacks (no `host` names it)" in str(row)
        # It may be of several machines, so both may be as they are.
        assert kb.drift().items == ()
        made.workspace.close()


def test_one_rule_or_one_project_is_asked_for(kb: KnowledgeBase) -> None:
    one = kb.rules("privileged")
    assert [f.rule for f in one.findings] == ["privileged"] and [r.name for r in one.rules] == ["privileged"]
    assert {f.subject for f in kb.rules(project="other").findings} >= {"other/page", "other/cache"}
    assert all(f.subject.startswith("other/") for f in kb.rules(project="other").findings)
    cut = kb.rules(limit=2)
    assert (len(cut.findings), cut.truncated, cut.total) == (2, True, kb.rules().total)
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        kb.rules(project="othr")
    with pytest.raises(TabootError, match="privileged"):
        kb.rules("privilege")


def test_the_sources_file_silences_with_a_reason_and_says_how_bad_it_is(world: World) -> None:
    kb = said(
        world,
        "{host-network: {severity: error},"
        " privileged: {silence: [{subject: 'shop/*', reason: it reads the disks}]},"
        " root-user: {silence: [{subject: nobody/here, reason: none}]},"
        " roots-user: {severity: info}}",
    )
    report = kb.rules()
    assert "privileged" not in subjects(report.findings)
    assert [(f.subject, f.silenced) for f in report.silenced] == [("shop/api", "it reads the disks")]
    assert [f.severity for f in report.findings if f.rule == "host-network"] == ["error"]
    (unknown, idle) = report.notes
    assert "roots-user" in unknown and "'root-user'" in unknown
    assert "root-user for nobody/here" in idle
    counted = {r.name: (r.severity, r.found, r.silenced) for r in report.rules}
    assert counted["privileged"] == ("warning", 0, 1) and counted["host-network"] == ("error", 1, 0)
    with pytest.raises(TabootError, match="reason") as error:
        said(world, "{privileged: {silence: [{subject: shop/api}]}}").rules()
    assert error.value.code == "E_SOURCES"


COMMENTED = """
services:
  # taboot: allow privileged because it reads the disks
  disks:
    image: example/disks:1
    privileged: true
    restart: always
    network_mode: host  # taboot: allow host-network because it answers to multicast
    pid: host  # taboot: allow host-network because this is about another rule
  next:
    image: example/next:1
    # taboot: allow root-user because
    user: root
    privileged: true
    restart: always
"""


def test_a_comment_silences_what_it_stands_beside_and_no_more(tmp_path: Path, tei: FakeTei) -> None:
    made = World(tmp_path, tei.url)
    (made.source("stack", "compose") / "compose.yaml").write_text(COMMENTED)
    made.ingest()
    report = made.kb().rules()
    assert subjects(report.findings) == {
        "host-namespace": {"stack/disks"},
        "privileged": {"stack/next"},
        "root-user": {"stack/next"},  # a reason lacks
    }
    assert {f.rule: f.silenced for f in report.silenced} == {
        "privileged": "it reads the disks",
        "host-network": "it answers to multicast",
    }
    made.workspace.close()
