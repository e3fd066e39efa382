"""Incremental equals from scratch, under random sequences of changes and crashes.

Holds rule ``incremental-equals-scratch``. Documents are added, edited, renamed, deleted, erased and restored.
Sources leave the sources file and come back with more files than a batch, are added, and change their path,
globs and namespace; the file shrinks to a part of itself; what all that would delete is held, and confirmed
or not. Runs are killed, stop half-way, and meet a disk that is full or a clock that was set; tables are
vacuumed at any time. Compose projects with overrides, ``.env`` and Dockerfiles, confs with includes, and
prose change together with a tailnet, a network, mailboxes of several messages and a chat that grows; names
become ambiguous and unambiguous again, and so do titles; what links lead to comes and goes. A chat model
reads along, is measured to be right in this or that, and now and then answers nonsense or not at all; units
are interpreted once more, such runs are promoted and promotions taken back. Documents expire, and come back
with other bytes. Facts are stated with texts, undone, and their documents deleted. At the end the stores
equal a replay of the catalog's inputs into empty ones, which asks the model nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_c import calibration
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.stages import dead_letters, retention, tags, uploads
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import delete, restore
from taboot_pipelines.stages.housekeeping import vacuum
from taboot_pipelines.stages.reinterpretation import promote, reinterpret, rollback
from taboot_pipelines.stores.catalog.answers import Answers
from taboot_pipelines.stores.catalog.assertions import Assertions
from taboot_pipelines.stores.catalog.locators import Locators
from taboot_pipelines.stores.catalog.pointers import Pointers
from taboot_pipelines.stores.catalog.runs import Runs
from taboot_pipelines.stores.catalog.sources import SourceStates
from taboot_pipelines.stores.tables import NAMESPACE, Tables
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.reading_model import OTHER_MODEL, reads
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, differences, graph, logical

pytestmark = pytest.mark.slow

SOAK = float(os.environ.get("TABOOT_TEST_SOAK_SECONDS", "0"))
EXAMPLES = int(SOAK / 8) or 3

SHARING = (
    "services:\n  {service}:\n    build: .\n    networks: [shared]\n    {said}\n"
    "networks:\n  shared: {{external: true}}\n"
)
RELEASE = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: wiki}}\nspec:\n  {}\n"
APPLICATIONS = (
    "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: all}}\nspec:\n"
    "  generators: [{{git: {{directories: [{{path: {}}}, {{path: cluster/wiki}}]}}}}]\n"
    "  template:\n    metadata: {{name: '{{{{path.basename}}}}'}}\n"
    "    spec: {{source: {{path: '{{{{path}}}}'}}, destination: {{namespace: {}}}}}\n"
)
ASKS = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: reader, namespace: {}}}\n"
    "spec: {{containers: [{{name: c, env: [{{name: URL, value: {}}}]}}]}}\n"
)
SCRAPES = "scrape_configs: [{{job_name: own, static_configs: [{{targets: ['{}:9090']}}]}}]\n"
FILES: dict[str, list[tuple[str, list[str]]]] = {
    "stacks": [
        (
            "alpha/compose.yaml",
            [
                (
                    "services:\n  jellyfin:\n    image: jellyfin/jellyfin:${TAG:-10}\n    ports:"
                    " ['${PORT:-8096}:8096']\n    depends_on: [vault]\n  vault:\n    image: vault\n"
                ),
                (
                    "services:\n  jellyfin:\n    image: jellyfin/jellyfin\n    container_name: theatre\n   "
                    " environment:\n      URL: http://vault:8200/x\n      API_TOKEN: swordfish-one\n "
                    " vault:\n    build: .\n"
                ),
                (
                    "services:\n  jellyfin:\n    extends: {file: ../common/base.yaml, service: player}\n   "
                    " networks: [shared]\nnetworks:\n  shared: {external: true}\n"
                ),
                "services: [broken\n",
                # Routes and a network by variables that have a value at times.
                (
                    "services:\n  jellyfin:\n    image: jellyfin/jellyfin\n    networks: [named]\n"
                    "    labels: ['traefik.http.routers.j.rule=Host(`tv.${DOMAIN}`)']\n"
                    "networks:\n  named: {name: '${NETWORK}', external: true}\n"
                ),
            ],
        ),
        (
            "alpha/compose.override.yaml",
            [
                "services:\n  jellyfin:\n    restart: always\n    ports: ['9000:9000/udp']\n",
                "services:\n  extra-worker:\n    image: redis:7\n",
            ],
        ),
        (
            # Beside a project that has what it lacks it is a layer of that one, else a project of its own.
            "alpha/compose.full.yaml",
            [
                "services: {vault: {restart: always}, agent: {image: agent, depends_on: [vault]}}\n",
                "services: {vault: {image: other}, agent: {image: agent, depends_on: [jellyfin]}}\n",
            ],
        ),
        (
            "alpha/.env",
            [
                "TAG=11\nPORT=81\n",
                "TAG=12\nDB_PASSWORD=swordfish-two\n",
                "DOMAIN=hearth.example\nNETWORK=lan\n",
                "NETWORK=lan\n",
            ],
        ),
        ("alpha/Dockerfile", ["FROM golang:1.22 AS build\nFROM alpine:3\n", "FROM debian:12\n"]),
        (
            "beta/docker-compose.yml",
            [
                (
                    "services:\n  vault:\n    image: hashicorp/vault:1\n  grafana-agent:\n    image:"
                    " grafana/agent\n    links: [vault]\n"
                ),
                "name: other\nservices:\n  prometheus:\n    image: prom/prometheus\n    network_mode: host\n",
            ],
        ),
        # Two projects that share a network and a database; what it is called changes, and where it is.
        (
            "shop/compose.yaml",
            [
                SHARING.format(service="shop", said="environment: {DB_HOST: shared-db}"),
                SHARING.format(service="shop", said="environment: {URL: 'redis://cache:6379/0'}"),
                SHARING.format(service="shop", said="env_file: .env"),
                SHARING.format(service="shop", said="configs: [conf]") + "configs: {conf: {file: .env}}\n",
            ],
        ),
        (
            "shop/.env",
            [
                "HOST=cache\nURL=postgres://u@shared-db:5432/x\n",
                "URL=http://hearth.lan:5433\n",
                # A public name that the proxy leads somewhere, or does not.
                "URL=https://v.example.com/x\n",
                # An address that a container is given, or is not.
                "DB_HOST=10.7.0.5\n",
            ],
        ),
        # What counts while the file that it is an example of is not there.
        ("shop/.env.example", ["DB_HOST=cache\n", "DB_HOST=shared-db\n"]),
        (
            "data/compose.yaml",
            [
                SHARING.format(service="pg", said="container_name: shared-db"),
                SHARING.format(service="pg", said="container_name: cache"),
                SHARING.format(service="shared-db", said="ports: ['5433:5432']"),
                SHARING.format(service="pg", said="hostname: shared-db").replace("shared: ", "other: "),
                SHARING.format(service="pg", said="image: postgres:16").replace(
                    "[shared]", "{shared: {ipv4_address: 10.7.0.5}}"
                ),
            ],
        ),
        (
            "more/compose.yaml",
            [
                SHARING.format(service="cache", said="image: redis:7"),
                SHARING.format(service="shared-db", said="image: postgres:16"),
            ],
        ),
        # A template, which counts while what it becomes is not there.
        (
            "more/compose.yaml.j2",
            [
                SHARING.format(service="cache", said='image: "{{ image }}"'),
                SHARING.format(service="shared-db", said="mem_limit: {{ limit }}"),
            ],
        ),
        # What the inventory puts into it.
        ("group_vars/all.yml", ["image: redis:7\n", "image: redis:8\nlimit: 1g\n"]),
        (
            "common/base.yaml",
            [
                (
                    "services:\n  player:\n    image: lscr.io/linuxserver/jellyfin\n    ports:"
                    " ['1900:1900/udp']\n"
                ),
                "services:\n  player:\n    image: busybox\n",
            ],
        ),
    ],
    "proxy": [
        (
            "vault.subdomain.conf",
            [
                (
                    "server {\n  listen 443 ssl;\n  server_name vault.*;\n  include inner.conf;\n  location /"
                    " {\n    set $upstream_app vault;\n    set $upstream_port 8200;\n    proxy_pass"
                    " http://$upstream_app:$upstream_port;\n  }\n}\n"
                ),
                (
                    "server {\n  server_name v.example.com w.example.com;\n  location /v { proxy_pass"
                    " http://theatre:8096; }\n}\n"
                ),
                "server { location / { proxy_pass http://10.0.0.7:80;\n",
                "server { server_name v.example.com; location / { proxy_pass http://theatre:8096; } }\n",
            ],
        ),
        ("inner.conf", ["location /inner { proxy_pass https://prometheus:9090; }\n", "# nothing here\n"]),
    ],
    "notes": [
        (
            "runbook.md",
            [
                (
                    "# Runbook\n\nRestart jellyfin and then prometheus, see"
                    " http://vault.example.com:8200/ui.\n\n## Vault\n\n`vault status` on 10.0.0.7\n"
                ),
                (
                    "# Runbook\n\nOnly theatre and grafana-agent matter here. The image is `docker pull"
                    " redis:7`.\n\nHere `theatre` depends on vault.\n"
                ),
                # A title that another document has as well, once without its parenthesis.
                "# Nightly backup (guide)\n\nFirst the [guide](guide.md#steps), then Night Watch.\n",
            ],
        ),
        (
            "guide.md",
            [
                (
                    "Plain words about extra-worker.\n\npassword: swordfish-three\n\nHere mastodon depends on"
                    " vault.\n"
                ),
                "# Guide\n\nNothing of note, but prometheus talks to grafana-agent.\n",
                "# Nightly backup\n\nSee [the\npage](page.html), [[runbook]] and the Runbook of the night.\n",
            ],
        ),
        # A role with a project, the plays that bring it to machines, and the inventory that has these.
        (
            "roles/films/templates/compose.yaml.j2",
            [
                "services: {films: {image: 'jellyfin:{{ version }}', container_name: theatre}}\n",
                "services: {films: {image: jellyfin:10}, shared-db: {image: postgres:16}}\n",
            ],
        ),
        ("site.yml", ["- hosts: films\n  roles: [films]\n", "- hosts: [nas, mini]\n  roles: [films]\n"]),
        ("hosts.ini", ["[films]\nnas ansible_host=10.0.0.9\n", "[films]\nnas ansible_user=x\nmini\n"]),
        # What a release waits for and asks for; what answers there comes and goes.
        (
            "cluster/release.yaml",
            [
                RELEASE.format("dependsOn: [{name: jellyfin}, {name: pg, namespace: data}]"),
                RELEASE.format("dependsOn: [{name: vault}]\n  values: {DB_HOST: pg, host: pg.data.svc}"),
            ],
        ),
        # By the name that a chart made, of a release that comes and goes and is put elsewhere.
        (
            "asks.yaml",
            [ASKS.format("web", "http://wiki-http.data.svc/"), ASKS.format("web", "http://wiki-http:80")],
        ),
        (
            "cluster/pg.yaml",
            [
                "apiVersion: v1\nkind: Service\nmetadata: {name: pg}\n",
                "apiVersion: v1\nkind: Service\nmetadata: {name: pg, namespace: data}\n",
            ],
        ),
        # Who puts the folder into which namespace, and that of a chart, whose values bring a database.
        (
            "cluster/argocd.yaml",
            [APPLICATIONS.format("'cluster'", "data"), APPLICATIONS.format("'*'", "web")],
        ),
        ("cluster/wiki/Chart.yaml", ["apiVersion: v2\nname: wiki\nversion: 1.0.0\n"]),
        (
            "cluster/wiki/values.yaml",
            [
                "image: {repository: acme/wiki, tag: '1'}\nDB_HOST: pg\n",
                "image: {repository: acme/wiki, tag: '1'}\npostgresql: {enabled: true}\n",
            ],
        ),
        (
            "units/shop.container",
            [
                "[Container]\nImage=a/shop\nNetwork=shared\nEnvironmentFile=shop.env\n",
                "[Container]\nImage=a/shop\nNetwork=shared\nContainerName=cache\n",
                "[Unit]\nWants=door.socket store-network.service\n[Container]\nImage=a/shop\n",
            ],
        ),
        # What a socket starts, and what makes a network, is seen in files that come, change and go.
        (
            "units/door.socket",
            [
                "[Socket]\nListenStream=80\nService=jellyfin.service\n",
                "[Unit]\nDescription=A door\n[Socket]\nListenStream=81\n",
            ],
        ),
        ("watch/prometheus.yml.example", [SCRAPES.format("jellyfin"), SCRAPES.format("vault")]),
        ("watch/prometheus.yml", [SCRAPES.format("grafana-agent"), SCRAPES.format("pg")]),
        ("units/store.network", ["[Network]\nSubnet=10.7.0.0/24\n"]),
        ("units/shop.env", ["DB_HOST=shared-db\n", "URL=redis://cache:6379/0\n"]),
        (
            "sub/watch.rst",
            [
                (
                    "Night Watch\n===========\n\n.. _watch:\n\nThe nightly  backup runs,"
                    " see `it <../guide.md>`_.\n"
                ),
                "Nightly backup\n==============\n\nAfter the Nightly\nBackup (guide) read :ref:`watch`.\n",
            ],
        ),
        (
            "page.html",
            [
                (
                    "<html><head><title>Night Watch</title></head><body><main><h1>Night Watch</h1><p>The"
                    " backup of the night is told in <a href='sub/watch.html'>the watch</a> and in the"
                    " nightly backup that <a href='/guide'>everybody</a> keeps.</p></main></body></html>"
                ),
                "<html><head><title>Page</title></head><body><main><h1>Page</h1><p>The jellyfin service runs"
                " on 192.168.1.5 and talks to the vault service over port 8200.</p></main></body></html>",
            ],
        ),
    ],
}


def device(node: str, hostname: str, tag: str, routes: list[str]) -> dict[str, Any]:
    return {
        "nodeId": node,
        "hostname": hostname,
        "name": f"{node}.tail.ts.net",
        "addresses": [f"100.64.0.{node[1:]}"],
        "authorized": True,
        "tags": [f"tag:{tag}"],
        "advertisedRoutes": ["10.0.0.0/24"],
        "enabledRoutes": routes,
        "machineKey": f"mkey:swordfish-{node}",
    }


def client(number: int, name: str, last: int) -> dict[str, Any]:
    mac = f"00:11:22:33:44:0{number}"
    return {"_id": str(number), "mac": mac, "name": name, "ip": f"10.0.0.{last}", "network": "servers"}


def turn(number: int, role: str, content: Any) -> str:
    told = {"type": role, "sessionId": "s", "timestamp": f"2026-03-0{number}T10:00:00Z"}
    return json.dumps({**told, "message": {"role": role, "content": content}}) + "\n"


def mail(number: int, text: str) -> str:
    head = f"From: ann@example.org\nSubject: No {number}\nMessage-ID: <{number}@example.org>\n"
    return f"{head}Date: Mon, 02 Mar 2026 10:00:00 +0100\n\n{text}\n"


TURNS = [
    turn(1, "user", "Why does theatre stutter on 10.0.0.7?"),
    turn(2, "assistant", [{"type": "text", "text": "Restart jellyfin, then ask vault."}]),
    turn(3, "user", "export API_TOKEN=swordfish-chat-0123456789"),
]
FILES |= {
    "tailnet": [
        (
            "devices.json",
            [
                json.dumps({"devices": [device("n1", "hearth.lan", "server", ["10.0.0.0/24"])]}),
                json.dumps(
                    {
                        "devices": [
                            device("n1", "hearth.lan", "server", []),
                            device("n2", "theatre", "client", []),
                        ]
                    }
                ),
                '{"devices": [',
            ],
        ),
        (
            "policy.hujson",
            [
                '// all\n{"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"],},],}',
                '{"acls": [{"action": "accept", "src": ["tag:client"], "dst": ["tag:server:22"]}]}',
            ],
        ),
    ],
    "network": [
        (
            "clients.json",
            [
                json.dumps([client(1, "hearth.lan", 7)]),
                json.dumps([client(1, "hearth.lan", 8), client(2, "vault", 9)]),
                '{"neither": "client", "nor": "device"}',
            ],
        ),
    ],
    "mail": [
        ("one.eml", [mail(1, "theatre is down"), mail(1, "password: swordfish-mail")]),
        (
            "box.mbox",
            [
                "".join(f"From x Mon Mar  2 10:00:00 2026\n{mail(n, 'ask vault')}\n" for n in numbers)
                for numbers in ((2, 3), (3,), (2, 3, 4), (5, 2))
            ],
        ),
    ],
    "chats": [("session.jsonl", ["".join(TURNS[:n]) for n in (1, 2, 3)])],
}
PATHS = [(source, path) for source, files in FILES.items() for path, _ in files]
VARIANTS = {(source, path): texts for source, files in FILES.items() for path, texts in files}

place = st.sampled_from(PATHS)
operation = st.one_of(
    st.tuples(st.just("write"), place, st.integers(0, 4)),
    st.tuples(st.just("write"), place, st.integers(0, 4)),
    st.tuples(st.just("remove"), place, st.just(0)),
    st.tuples(st.just("variables"), st.just(("stacks", "alpha/.env")), st.integers(0, 4)),
    st.tuples(st.just("rename"), place, st.integers(0, 1)),
    st.tuples(st.just("delete"), place, st.integers(0, 1)),
    st.tuples(st.just("restore"), place, st.just(0)),
    st.tuples(st.just("crash"), place, st.integers(1, 25)),
    st.tuples(st.just("ingest"), place, st.just(0)),
    st.tuples(st.just("half"), place, st.integers(1, 5)),
    st.tuples(st.just("vacuum"), place, st.just(0)),
    st.tuples(st.just("retire"), place, st.integers(0, 1)),
    st.tuples(st.just("held"), place, st.integers(0, 1)),
    st.tuples(st.just("shrink"), place, st.integers(0, 1)),
    st.tuples(st.just("namespace"), place, st.integers(0, 1)),
    st.tuples(st.just("many"), place, st.integers(0, 9)),
    st.tuples(st.just("globs"), place, st.just(0)),
    st.tuples(st.just("move"), place, st.just(0)),
    st.tuples(st.just("add"), place, st.integers(0, 1)),
    st.tuples(st.just("full"), place, st.integers(1, 25)),
    st.tuples(st.just("reinterpret"), place, st.integers(0, 3)),
    st.tuples(st.just("reinterpret"), place, st.integers(0, 3)),
    st.tuples(st.just("other model"), place, st.integers(0, 1)),
    st.tuples(st.just("promote"), place, st.integers(0, 3)),
    st.tuples(st.just("rollback"), place, st.integers(0, 3)),
    st.tuples(st.just("clock"), place, st.sampled_from([-6, 6])),
    st.tuples(st.just("model"), place, st.integers(0, 5)),
    st.tuples(st.just("calibration"), place, st.integers(0, 3)),
    st.tuples(st.just("embedder"), place, st.integers(0, 1)),
    st.tuples(st.just("retention"), place, st.sampled_from([0, 3, 30])),
    st.tuples(st.just("retain"), place, st.integers(0, 2)),
    st.tuples(st.just("expire"), place, st.sampled_from([0, 5, 40])),
    st.tuples(st.just("upload"), place, st.integers(0, 5)),
    st.tuples(st.just("delete upload"), place, st.integers(0, 1)),
    st.tuples(st.just("tag"), place, st.integers(0, 3)),
    st.tuples(st.just("pause"), place, st.integers(0, 1)),
    st.tuples(st.just("graph"), place, st.integers(0, 1)),
    st.tuples(st.just("quota"), place, st.integers(0, 6)),
    st.tuples(st.just("state"), place, st.integers(0, 5)),
    st.tuples(st.just("undo"), place, st.integers(0, 5)),
    st.tuples(st.just("erase fact"), place, st.integers(0, 5)),
)

#: Where sources move to and come back from.
OTHER = "elsewhere"
#: More documents of one source than this are several commits.
BATCH = 4


class Clock:
    """Lets the process's clock step by whole hours."""

    def __init__(self) -> None:
        self.hours = 0
        self.real = (time.time, time.time_ns)

    def __enter__(self) -> Clock:
        now, now_ns = self.real
        time.time = lambda: now() + self.hours * 3600
        time.time_ns = lambda: now_ns() + self.hours * 3600 * 10**9
        return self

    def __exit__(self, *_: object) -> None:
        time.time, time.time_ns = self.real


class Crash(BaseException):
    """Stands for a kill: not an Exception, so nothing may handle it."""


def no_space() -> TabootError:
    return TabootError("E_STORAGE", "There is no space left on the device.")


class Crashing:
    """Lets the n-th write of a table or the catalog be the last thing that happens.

    The crash comes before or after the write took effect. Instead of a kill, it may be the error ``failure``.
    """

    def __init__(self, n: int, failure: Callable[[], BaseException] = Crash) -> None:
        self.left, self.after = n, n % 2 == 0
        self.failure = failure

    def __enter__(self) -> None:
        self.saved = [
            (Tables, "replace", Tables.replace),
            (Tables, "append", Tables.append),
            (Pointers, "publish", Pointers.publish),
            (Locators, "record_fetched", Locators.record_fetched),
            (Runs, "record", Runs.record),
            (Assertions, "add", Assertions.add),
            (Answers, "keep", Answers.keep),
            (Answers, "record_windows", Answers.record_windows),
            (SourceStates, "save", SourceStates.save),
        ]
        for owner, name, original in self.saved:
            setattr(owner, name, self._wrap(original))

    def _wrap(self, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise self.failure()
            result = original(*args, **kwargs)
            if self.left == 0:
                raise self.failure()
            return result

        return call

    def __exit__(self, *_: object) -> None:
        for owner, name, original in self.saved:
            setattr(owner, name, original)


#: The sources as they are declared at first.
DECLARED: dict[str, dict[str, Any]] = {
    "stacks": {"type_": "compose", "host": "hearth.lan", "languages": ["en"]},
    "proxy": {"type_": "swag", "proxy": "swag"},
    "notes": {"type_": "files", "tags": ["notes"], "interpret": True},
    "tailnet": {"type_": "tailscale"},
    "network": {"type_": "unifi"},
    "mail": {"type_": "gmail"},
    "chats": {"type_": "ai_session"},
}


def declared(world: World, source: str) -> dict[str, Any]:
    """Return the source's entry; one that has left the file is put back as it was declared at first."""
    for entry in world.entries:
        if entry["id"] == source:
            return entry
    world.source(source, **DECLARED[source])
    return world.entries[-1]


def declare(world: World, places: Iterable[tuple[str, str]]) -> None:
    """Declare the sources of these places, and one more that may stay when they go."""
    used = {"notes", *(source for source, _ in places)}
    for source in DECLARED:
        if source in used:
            declared(world, source)


def linked(kb: KnowledgeBase) -> list[Any]:
    """Every link as a reader sees it."""
    return [kb.links(doc_id).model_dump() for doc_id in kb.documents().column("doc_id").to_pylist()]


def unread(kb: KnowledgeBase) -> dict[str, Any]:
    """What of each source could not be read, as the manifest says."""
    return {source: entry.unread for source, entry in kb.manifest.sources.items()}


def ingest(world: World, *sources: str) -> None:
    world.ingest(*sources, confirm_deletes=True)


def documents(world: World, *sources: str) -> set[tuple[str, str, str]]:
    return {
        (namespace, source, path)
        for namespace in ("default", OTHER)
        for source in sources
        for path, x in world.workspace.catalog.locators.of_source(namespace, source).items()
        if x.role == "document"
    }


def unharmed(world: World, *sources: str) -> None:
    """Ingest without a confirmation: of these sources, which have left, every document stays."""
    before = documents(world, *sources)
    world.ingest()
    assert before <= documents(world, *sources)


def well(world: World, llm: FakeOpenAi) -> None:
    """Let the model answer everything again, and what it failed at be due."""
    llm.forgive()
    for namespace in ("default", OTHER):
        world.workspace.state.circuit_succeeded(namespace, "circuit:llm")
        dead_letters.replay(world.workspace, namespace)


def calibrate(world: World, n: int) -> None:
    """Let the model have been measured: found good in both, one or none of the relations that it tells."""
    relations = ("DEPENDS_ON", "CONNECTS_TO")
    measured = {r: [40, 40, 40] if n >> k & 1 == 0 else [20, 40, 40] for k, r in enumerate(relations)}
    said = {"fake/llm": {"version": calibration.version(), "relations": measured}}
    (world.root / "calibration.json").write_text(json.dumps(said))


def apply(
    world: World,
    clock: Clock,
    llm: FakeOpenAi,
    embedders: Sequence[FakeTei],
    kind: str,
    where: tuple[str, str],
    n: int,
) -> None:
    source, path = where
    entry = declared(world, source)
    file = world.directory / entry["path"] / path
    doc_ids = {
        x.path: x.doc_id
        for x in world.workspace.catalog.locators.of_source("default", source).values()
        if x.role == "document"
    }
    match kind:
        case "write":
            file.parent.mkdir(parents=True, exist_ok=True)
            texts = VARIANTS[where]
            file.write_text(texts[n % len(texts)])
        case "variables":
            # Unset, and set later: one way or the other, with what depends on them there.
            event("variables")
            project = file.with_name("compose.yaml")
            project.parent.mkdir(parents=True, exist_ok=True)
            project.write_text(VARIANTS[source, "alpha/compose.yaml"][4])
            file.write_text(VARIANTS[where][n]) if n < 4 else file.unlink(missing_ok=True)
            ingest(world, source)
        case "remove":
            file.unlink(missing_ok=True)
        case "rename":
            target = file.with_name(("renamed-" if n else "moved-") + file.name)
            if file.exists():
                file.rename(target)
            elif target.exists():
                target.rename(file)
        case "delete":
            # Of a file that holds several documents the first.
            found = sorted(p for p in doc_ids if p == path or p.startswith(f"{path}#"))
            if found:
                event("deleted")
                delete(world.workspace, "default", [doc_ids[found[0]]], erase=bool(n))
        case "restore":
            tombstones = list(world.workspace.catalog.tombstones.all("default"))
            if tombstones:
                event("restored")
                restore(world.workspace, "default", tombstones)
        case "crash":
            try:
                with Crashing(n):
                    ingest(world)
            except Crash:
                event("crashed")
                # A killed process frees its locks; the next one opens everything anew.
                world.workspace.close()
                world.workspace = world.open(world.home)
                world.workspace.catalog.jobs.fail_dead()
        case "ingest":
            ingest(world, source)
        case "half":
            event("half done")
            for stage in [s.name for s in CHAIN.of_source][:n]:
                world.run(stage, source, confirm_deletes=True)
        case "vacuum":
            event("vacuumed")
            sources = [r["source_id"] for r in world.workspace.catalog.sources.find("default")]
            with world.workspace.leases.several("default", sources):
                for owner in (*sources, NAMESPACE):
                    for name in world.workspace.tables.names("default", owner):
                        vacuum(world.workspace, "default", owner, name)
        case "retire":
            if len(world.entries) > 1:
                event("retired")
                world.remove_source(source)
                ingest(world)
                if n:
                    declared(world, source)
        case "held":
            if len(world.entries) > 1:
                event("held")
                world.remove_source(source)
                unharmed(world, source)
                if n:
                    declared(world, source)
        case "shrink":
            event("shrunk")
            entries = list(world.entries)
            world.entries = entries[:1]
            world.declare()
            unharmed(world, *(e["id"] for e in entries[1:]))
            if n:
                world.entries = entries
                world.declare()
        case "namespace":
            event("namespace changed")
            if "namespace" in entry:
                del entry["namespace"]
            else:
                entry["namespace"] = OTHER
            world.declare()
            if n:
                unharmed(world, source)
        case "many":
            event("many files")
            for i in range(BATCH + 1 + n):
                extra = file.parent / f"extra-{i}.md"
                extra.parent.mkdir(parents=True, exist_ok=True)
                extra.write_text(f"# Extra {i}\n\nThe vault of {source} is at http://10.0.0.{i}:82{n}0/.\n")
        case "globs":
            event("globs changed")
            entry["exclude"] = [] if entry.get("exclude") else [path]
            world.declare()
        case "move":
            event("path changed")
            old, entry["path"] = entry["path"], f"{entry['path']}-b"
            shutil.rmtree(world.directory / entry["path"], ignore_errors=True)
            shutil.copytree(world.directory / old, world.directory / entry["path"])
            world.declare()
        case "add":
            event("added")
            (world.source("more") / f"{n}.md").write_text(f"# More {n}\n\nAsk theatre, not vault.\n")
            world.workspace.sync_sources()
            if n:
                world.run("raw_blobs", "more")
        case "full":
            try:
                with Crashing(n, no_space):
                    ingest(world)
            except TabootError as error:
                event("disk full")
                assert error.code == "E_STORAGE"
        case "clock":
            event("clock stepped")
            clock.hours += n
        case "model":
            event("model fails")
            llm.say('{"facts": [{"quote"', times=n) if n % 2 else llm.fail(500, times=n)
        case "calibration":
            event("another calibration")
            calibrate(world, n)
        case "embedder":
            # The other space is searched, by words at the least, until the next ingest has switched to this.
            event("another embedder")
            world.tei = embedders[n].url
            world.workspace.close()
            world.workspace = world.open(world.home)
            world.kb().search("vault")
        case "retention":
            event("policy of a source")
            entry.pop("retention_days", None)
            if n:
                entry["retention_days"] = n
            world.declare()
            world.workspace.sync_sources()
        case "pause" | "graph":
            event(f"{kind} of a source")
            entry.pop(named := {"pause": "enabled", "graph": "graph"}[kind], None)
            if n:
                entry[named] = False
            world.declare()
            world.workspace.sync_sources()
        case "quota":
            event("quota")
            world.quotas = {"default": {"documents": n}} if n else {}
            world.declare()
            world.workspace.sync_sources()
        case "retain":
            if doc_ids:
                event("policy of a document")
                own = [min(doc_ids.values())]
                if n == 2:
                    retention.keep_as_source(world.workspace, "default", own)
                else:
                    retention.keep(world.workspace, "default", own, 10 if n else None)
        case "upload":
            event("uploaded")
            hosts = ("vault", "theatre", "cache")
            page = f"# Handed over\n\nThe {hosts[n // 2]} depends on {hosts[n // 2 - 1]}, says page {n}.\n"
            uploads.take(world.workspace, "default", [page.encode()], f"pages/{n % 2}.md", tags=["handed"])
        case "state":
            event("stated with a text")
            host, text = f"hearth-{n}.lan", f"The vault of rack {n // 2} depends on theatre.\n"
            world.kb().ingest_structured("Host", {"hostname": host}, raw_content=text, who="ann")
        case "undo" | "erase fact":
            said = [x for x in world.kb().assertions(all_states=True).items if x.state != "erased"]
            if said:
                event(kind)
                try:
                    world.kb().undo(said[n % len(said)].observation_id, erase=kind != "undo", who="ann")
                except TabootError as error:
                    assert error.code == "E_TRANSITION"
        case "delete upload":
            held = world.workspace.catalog.locators.of_source("default", "uploads").values()
            if held:
                event("upload deleted")
                delete(world.workspace, "default", [min(x.doc_id for x in held)], erase=bool(n))
        case "tag":
            if doc_ids:
                event("tagged")
                own = (
                    {"add": ["night"], "remove": ["day"]} if n % 2 else {"add": ["day"], "remove": ["night"]}
                )
                tags.tag(world.workspace, "default", [min(doc_ids.values())], **own)
        case "expire":
            clock.hours += n * 24
            for days in (0, 7):
                clock.hours += days * 24
                for namespace in ("default", OTHER):
                    if retention.run(world.workspace, namespace).expired:
                        event("expired")
        case "reinterpret" | "other model" | "promote" | "rollback":
            chosen(world, kind, source, n)


def chosen(world: World, kind: str, source: str, n: int) -> None:
    """Interpret a source once more, promote what waits, or take the last promotion back.

    Where there is nothing of it, the refusal is the right answer.
    """
    tier = "ABCB"[n]
    try:
        match kind:
            case "reinterpret":
                # A threshold that is above what every second claim has.
                config = {"min_confidence": 0.8} if n == 3 else {}
                tier = "B" if n % 2 else "A"
                made = reinterpret(world.workspace, "default", tier=tier, source=source, config=config)
                if made.run_ids and n > 1:
                    promote(world.workspace, "default", runs=made.run_ids)
            case "other model":
                config = {"model": OTHER_MODEL}
                made = reinterpret(world.workspace, "default", tier="C", source=source, config=config)
                if made.run_ids and n:
                    promote(world.workspace, "default", runs=made.run_ids)
            case "promote":
                promote(world.workspace, "default", source=source, tier=tier)
            case _:
                rollback(world.workspace, "default", source=source, tier=tier)
        event(f"done: {kind}")
    except TabootError as error:
        assert error.code in {"E_NOT_FOUND", "E_SOURCE_UNKNOWN", "E_CONFLICT"}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not SOAK,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)
@given(
    start=st.lists(st.tuples(place, st.integers(0, 3)), min_size=3, max_size=9),
    operations=st.lists(operation, min_size=2, max_size=8),
    confirmed=st.booleans(),
)
@example(
    # All but the first leave the file, which is confirmed of none; one moves to another namespace and back.
    start=[(place, 0) for place in PATHS[::2]],
    operations=[
        ("shrink", PATHS[0], 0),
        ("namespace", PATHS[0], 1),
        ("shrink", PATHS[0], 1),
        ("namespace", PATHS[0], 1),
    ],
    confirmed=False,
)
@example(
    # Who answers to a name changes: renamed, on another network, a second one, deleted, killed meanwhile.
    start=[(("stacks", "shop/compose.yaml"), 0), (("stacks", "data/compose.yaml"), 0)],
    operations=[
        ("ingest", ("stacks", "data/compose.yaml"), 0),
        ("write", ("stacks", "data/compose.yaml"), 1),
        ("ingest", ("stacks", "data/compose.yaml"), 0),
        ("write", ("stacks", "more/compose.yaml"), 1),
        ("crash", ("stacks", "data/compose.yaml"), 9),
        ("write", ("stacks", "data/compose.yaml"), 3),
        ("delete", ("stacks", "more/compose.yaml"), 0),
        ("write", ("stacks", "shop/.env"), 1),
    ],
    confirmed=True,
)
@example(
    # What a template becomes appears beside it, and goes.
    start=[(("stacks", "shop/compose.yaml"), 1), (("stacks", "more/compose.yaml.j2"), 0)],
    operations=[
        ("ingest", ("stacks", "more/compose.yaml.j2"), 0),
        ("write", ("stacks", "group_vars/all.yml"), 0),
        ("ingest", ("stacks", "more/compose.yaml.j2"), 0),
        ("write", ("stacks", "group_vars/all.yml"), 1),
        ("write", ("stacks", "more/compose.yaml"), 1),
        ("crash", ("stacks", "more/compose.yaml"), 5),
        ("delete", ("stacks", "more/compose.yaml"), 0),
        ("write", ("stacks", "more/compose.yaml.j2"), 1),
    ],
    confirmed=False,
)
@example(
    # The machines of a role's plays change: by the inventory, which goes, and by the play.
    start=[
        (("notes", "roles/films/templates/compose.yaml.j2"), 0),
        (("notes", "site.yml"), 0),
        (("notes", "hosts.ini"), 0),
    ],
    operations=[
        ("ingest", ("notes", "site.yml"), 0),
        ("write", ("notes", "hosts.ini"), 1),
        ("ingest", ("notes", "hosts.ini"), 0),
        ("write", ("notes", "site.yml"), 1),
        ("crash", ("notes", "site.yml"), 5),
        ("delete", ("notes", "hosts.ini"), 0),
        ("ingest", ("notes", "hosts.ini"), 0),
        ("write", ("notes", "hosts.ini"), 0),
    ],
    confirmed=True,
)
@example(
    # What expires stays away, killed meanwhile, until it is edited; one document is kept for good.
    start=[(("stacks", "data/compose.yaml"), 0), (("notes", "runbook.md"), 0), (("notes", "guide.md"), 0)],
    operations=[
        ("retention", ("notes", "runbook.md"), 30),
        ("ingest", ("notes", "runbook.md"), 0),
        ("retain", ("notes", "runbook.md"), 0),
        ("expire", ("notes", "runbook.md"), 40),
        ("crash", ("notes", "runbook.md"), 4),
        ("write", ("notes", "guide.md"), 1),
        ("write", ("notes", "runbook.md"), 1),
        ("ingest", ("notes", "runbook.md"), 0),
    ],
    confirmed=True,
)
@example(
    # Uploaded, killed, replaced, tagged, erased and uploaded again, beside a source that is edited.
    start=[(("stacks", "data/compose.yaml"), 0), (("notes", "runbook.md"), 0)],
    operations=[
        ("upload", ("notes", "runbook.md"), 0),
        ("tag", ("notes", "runbook.md"), 1),
        ("write", ("notes", "runbook.md"), 1),
        ("upload", ("notes", "runbook.md"), 1),
        ("crash", ("notes", "runbook.md"), 6),
        ("upload", ("notes", "runbook.md"), 2),
        ("delete upload", ("notes", "runbook.md"), 1),
        ("retire", ("notes", "runbook.md"), 0),
        ("upload", ("notes", "runbook.md"), 4),
    ],
    confirmed=True,
)
@example(
    # No room for more, and room again; paused while it is edited, without a graph, and all of it taken back.
    start=[(("stacks", "alpha/compose.yaml"), 0), (("notes", "runbook.md"), 0)],
    operations=[
        ("quota", ("notes", "runbook.md"), 3),
        ("write", ("notes", "guide.md"), 0),
        ("write", ("stacks", "alpha/compose.override.yaml"), 1),
        ("ingest", ("notes", "runbook.md"), 0),
        ("graph", ("notes", "runbook.md"), 1),
        ("pause", ("stacks", "alpha/compose.yaml"), 1),
        ("write", ("stacks", "alpha/compose.yaml"), 1),
        ("crash", ("notes", "runbook.md"), 5),
        ("quota", ("notes", "runbook.md"), 0),
        ("pause", ("stacks", "alpha/compose.yaml"), 0),
        ("write", ("notes", "runbook.md"), 1),
        ("ingest", ("notes", "runbook.md"), 0),
        ("pause", ("notes", "runbook.md"), 1),
        ("write", ("notes", "guide.md"), 1),
    ],
    confirmed=True,
)
@example(
    # Retired and put back, and stopped before all of its stages have its new tables.
    start=[(("stacks", "alpha/compose.yaml"), 0)],
    operations=[
        ("retire", ("stacks", "alpha/compose.yaml"), 0),
        ("move", ("stacks", "alpha/compose.yaml"), 0),
        ("crash", ("stacks", "alpha/compose.yaml"), 1),
        ("write", ("stacks", "alpha/compose.yaml"), 0),
        ("full", ("stacks", "alpha/compose.yaml"), 12),
    ],
    confirmed=True,
)
@example(
    # Promoted, edited, erased beside it, put back, and taken back.
    start=[
        (("stacks", "alpha/compose.yaml"), 0),
        (("stacks", "alpha/.env"), 0),
        (("stacks", "alpha/compose.override.yaml"), 0),
        (("notes", "runbook.md"), 0),
        (("notes", "page.html"), 1),
    ],
    operations=[
        ("reinterpret", ("stacks", "alpha/compose.yaml"), 2),
        ("reinterpret", ("notes", "page.html"), 3),
        ("write", ("stacks", "alpha/.env"), 1),
        ("ingest", ("stacks", "alpha/.env"), 0),
        ("vacuum", ("stacks", "alpha/.env"), 0),
        ("delete", ("stacks", "alpha/compose.override.yaml"), 1),
        ("write", ("stacks", "alpha/.env"), 0),
        ("crash", ("notes", "page.html"), 7),
        ("rollback", ("notes", "page.html"), 1),
    ],
    confirmed=True,
)
@example(
    # A layer comes, changes what runs and so is a project of its own, and is a layer of nothing at last.
    # A unit needs a socket and a network before they are there, and when they are others and gone.
    start=[
        (("stacks", "alpha/compose.yaml"), 0),
        (("stacks", "alpha/compose.full.yaml"), 0),
        (("notes", "units/shop.container"), 2),
    ],
    operations=[
        ("write", ("stacks", "alpha/compose.full.yaml"), 1),
        ("crash", ("stacks", "alpha/compose.full.yaml"), 2),
        ("write", ("stacks", "alpha/compose.full.yaml"), 0),
        ("remove", ("stacks", "alpha/compose.yaml"), 0),
        ("ingest", ("stacks", "alpha/compose.yaml"), 0),
        ("write", ("stacks", "alpha/compose.yaml"), 1),
        ("write", ("notes", "units/door.socket"), 0),
        ("ingest", ("notes", "units/door.socket"), 0),
        ("write", ("notes", "units/store.network"), 0),
        ("write", ("notes", "units/door.socket"), 1),
        ("crash", ("notes", "units/door.socket"), 3),
        ("remove", ("notes", "units/store.network"), 0),
        ("remove", ("notes", "units/door.socket"), 0),
    ],
    confirmed=True,
)
@example(
    # A public name is asked for before a proxy leads it anywhere; then it does, elsewhere, and no more.
    # Two facts have one text, which is deleted, taken back and brought back with them, and erased.
    start=[
        (("stacks", "shop/compose.yaml"), 2),
        (("stacks", "shop/.env"), 2),
        (("notes", "guide.md"), 0),
        (("notes", "runbook.md"), 0),
    ],
    operations=[
        ("write", ("stacks", "alpha/compose.yaml"), 1),
        ("write", ("proxy", "vault.subdomain.conf"), 3),
        ("crash", ("proxy", "vault.subdomain.conf"), 2),
        ("ingest", ("proxy", "vault.subdomain.conf"), 0),
        ("write", ("proxy", "vault.subdomain.conf"), 1),
        ("write", ("proxy", "vault.subdomain.conf"), 3),
        ("remove", ("stacks", "alpha/compose.yaml"), 0),
        ("ingest", ("proxy", "vault.subdomain.conf"), 0),
        ("state", PATHS[0], 0),
        ("state", PATHS[0], 1),
        ("delete upload", PATHS[0], 0),
        ("erase fact", PATHS[0], 0),
        ("restore", PATHS[0], 0),
        ("undo", PATHS[0], 0),
        ("undo", PATHS[0], 1),
        ("state", PATHS[0], 2),
        ("delete upload", PATHS[0], 1),
    ],
    confirmed=True,
)
@example(
    # A service asks for an address before a container has it, and when it has it no more.
    # Manifests and a chart are in a namespace, in another, and in none that is said.
    start=[
        (("stacks", "shop/compose.yaml"), 2),
        (("stacks", "shop/.env"), 3),
        (("notes", "cluster/pg.yaml"), 0),
        (("notes", "cluster/wiki/Chart.yaml"), 0),
        (("notes", "cluster/wiki/values.yaml"), 0),
    ],
    operations=[
        ("write", ("stacks", "data/compose.yaml"), 4),
        ("ingest", ("stacks", "data/compose.yaml"), 0),
        ("write", ("stacks", "data/compose.yaml"), 0),
        ("crash", ("stacks", "data/compose.yaml"), 3),
        ("write", ("stacks", "data/compose.yaml"), 4),
        ("write", ("notes", "cluster/argocd.yaml"), 0),
        ("ingest", ("notes", "cluster/argocd.yaml"), 0),
        ("write", ("notes", "cluster/wiki/values.yaml"), 1),
        ("write", ("notes", "cluster/argocd.yaml"), 1),
        ("crash", ("notes", "cluster/argocd.yaml"), 3),
        ("write", ("notes", "cluster/wiki/values.yaml"), 0),
        ("remove", ("notes", "cluster/argocd.yaml"), 0),
    ],
    confirmed=True,
)
@example(
    # Variables without a value, with one, with another file's, and without again.
    # Embedded by another model while half of it is killed, edited, and back to the first.
    start=[
        (("stacks", "alpha/compose.yaml"), 4),
        (("proxy", "inner.conf"), 0),
        (("notes", "runbook.md"), 0),
        (("notes", "guide.md"), 0),
    ],
    operations=[
        ("variables", ("stacks", "alpha/.env"), 2),
        ("variables", ("stacks", "alpha/.env"), 4),
        ("crash", ("stacks", "alpha/.env"), 3),
        ("variables", ("stacks", "alpha/.env"), 3),
        ("write", ("stacks", "alpha/.env"), 2),
        ("embedder", ("notes", "runbook.md"), 1),
        ("crash", ("notes", "runbook.md"), 9),
        ("write", ("notes", "runbook.md"), 2),
        ("half", ("notes", "runbook.md"), 5),
        ("embedder", ("notes", "runbook.md"), 0),
        ("ingest", ("notes", "runbook.md"), 0),
        ("embedder", ("notes", "runbook.md"), 1),
        ("ingest", ("notes", "runbook.md"), 0),
    ],
    confirmed=True,
)
@example(
    # Examples of files that are not there, then are, and go again.
    # Another model reads, some of it while the server fails; an edit, and back; both are taken back.
    start=[
        (("stacks", "shop/compose.yaml"), 2),
        (("stacks", "more/compose.yaml"), 0),
        (("notes", "runbook.md"), 0),
        (("notes", "page.html"), 1),
        (("notes", "guide.md"), 0),
    ],
    operations=[
        ("write", ("stacks", "shop/.env.example"), 0),
        ("write", ("notes", "watch/prometheus.yml.example"), 0),
        ("ingest", ("stacks", "shop/.env.example"), 0),
        ("write", ("stacks", "shop/.env"), 3),
        ("write", ("notes", "watch/prometheus.yml"), 0),
        ("crash", ("notes", "watch/prometheus.yml"), 3),
        ("write", ("stacks", "shop/.env.example"), 1),
        ("remove", ("stacks", "shop/.env"), 0),
        ("ingest", ("stacks", "shop/.env"), 0),
        ("remove", ("notes", "watch/prometheus.yml"), 0),
        ("remove", ("stacks", "shop/.env.example"), 0),
        ("other model", ("notes", "runbook.md"), 1),
        ("write", ("notes", "runbook.md"), 2),
        ("model", ("notes", "runbook.md"), 1),
        ("other model", ("notes", "runbook.md"), 1),
        ("write", ("notes", "runbook.md"), 0),
        ("ingest", ("notes", "runbook.md"), 0),
        ("calibration", ("notes", "runbook.md"), 1),
        ("model", ("notes", "runbook.md"), 2),
        ("other model", ("notes", "runbook.md"), 0),
        ("promote", ("notes", "runbook.md"), 2),
        ("rollback", ("notes", "runbook.md"), 2),
    ],
    confirmed=True,
)
def test_incremental_equals_from_scratch(
    tei: FakeTei, start: list[Any], operations: list[Any], confirmed: bool
) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        Clock() as clock,
        FakeOpenAi(models=("fake/llm", OTHER_MODEL), context=10**6) as llm,
        FakeTei(model_id="fake/other-embedder", dimension=24) as other_tei,
    ):
        embedders = (tei, other_tei)
        llm.react = reads
        model = {"url": llm.url, "model": "fake/llm", "max_retries": 0}
        trust = {"min_precision": 0.85, "calibration": Path(directory) / "calibration.json"}
        limits = {"batch_documents": BATCH}
        world = World(Path(directory), tei.url, limits=limits, llm=model, extraction=trust)
        calibrate(world, 0)
        declare(world, [where for where, _ in start] + [where for _, where, _ in operations])
        for where, n in start:
            apply(world, clock, llm, embedders, "write", where, n)
        ingest(world)
        for kind, where, n in operations:
            apply(world, clock, llm, embedders, kind, where, n)
        well(world, llm)
        world.ingest(confirm_deletes=confirmed)
        if world.workspace.catalog.sources.find(states=("retired",)):
            # A snapshot lists what has retired until the next run.
            world.ingest()
        asked = llm.requests
        scratch = world.replay()
        other = world.open(scratch)
        try:
            for namespace in sorted({r["namespace"] for r in world.workspace.catalog.sources.find()}):
                here, there = world.kb(namespace), world.kb(namespace, home=scratch)
                assert differences(logical(world.workspace, namespace), logical(other, namespace)) == {}
                assert differences(graph(here), graph(there)) == {}
                assert linked(here) == linked(there)
                assert unread(here) == unread(there)
            # Unchanged input costs nothing.
            before = [server.stats()["texts"] for server in embedders]
            again = world.ingest()
            assert [
                r.stage
                for r in again
                if r.stage not in {"raw_blobs", *CHAIN.targets} and r.skipped != "unchanged"
            ] == []
            assert [server.stats()["texts"] for server in embedders] == before
            assert llm.requests == asked
        finally:
            other.close()
            world.workspace.close()
