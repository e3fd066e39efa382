"""Connections between projects: a name that another project's container answers to where both can meet
(rules ``deterministic-reducer``, ``support`` and ``incremental-equals-scratch``).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping

import pytest

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.world import World, differences, graph, logical

SHARED = "networks:\n  backend: {external: true}\n"
DB = (
    "services:\n  db:\n    image: postgres:16\n    container_name: shared-db\n    networks: [backend]\n"
    + SHARED
)


def app(*lines: str, networks: str = "[backend]") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"services:\n  app:\n    image: acme/app\n    networks: {networks}\n{body}" + SHARED


def write(world: World, files: Mapping[str, str], source: str = "stacks", **entry: object) -> None:
    root = world.source(source, entry.pop("type_", "compose"), **{"host": "nas", **entry})
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))


def ingest(world: World, files: Mapping[str, str], **entry: object) -> KnowledgeBase:
    write(world, files, **entry)
    world.ingest(confirm_deletes=True)
    return world.kb()


def links(kb: KnowledgeBase, *types: str) -> set[str]:
    rows = kb.edges().to_pylist()
    return {
        f"{r['start_name']} {r['type']} {r['end_name']}"
        for r in rows
        if r["type"] in (types or ("CONNECTS_TO", "DEPENDS_ON"))
    }


def encrypted(kb: KnowledgeBase) -> dict[str, bool | None]:
    rows = [r for r in kb.edges().to_pylist() if r["type"] == "CONNECTS_TO"]
    return {r["end_name"]: json.loads(r["properties"]).get("encrypted") for r in rows}


def between(world: World, a: str, b: str = DB, **more: str) -> set[str]:
    return links(ingest(world, {"a/compose.yaml": a, "b/compose.yaml": b, **more}))


def same_as_scratch(world: World) -> None:
    other = world.open(world.replay())
    try:
        assert differences(logical(world.workspace), logical(other)) == {}
        assert differences(graph(world.kb()), graph(world.kb(home=other.settings.home))) == {}
    finally:
        other.close()


URL = app("environment:", "  DATABASE_URL: postgresql://u:p@shared-db:5432/app")
BOTH = {"app CONNECTS_TO db", "app DEPENDS_ON db"}


def test_a_name_on_a_shared_network_is_the_other_projects_container(world: World) -> None:
    kb = ingest(world, {"a/compose.yaml": URL, "b/compose.yaml": DB})
    assert links(kb) == BOTH
    assert encrypted(kb) == {"db": None}
    secure = URL.replace(":5432/app", ":5432/app?sslmode=require")
    assert encrypted(ingest(world, {"a/compose.yaml": secure})) == {"db": True}
    assert "app" in kb.answer("What depends on shared-db?").text
    assert "db" in kb.answer("What does app depend on?").text


def test_an_edge_leads_to_the_name_and_to_the_ground_of_both(world: World) -> None:
    kb = ingest(world, {"a/compose.yaml": URL, "b/compose.yaml": DB})
    (edge,) = [r for r in kb.edges().to_pylist() if r["type"] == "CONNECTS_TO"]
    assert json.loads(edge["properties"])["network"] == "backend"
    why = kb.explain(edge["edge_id"])
    quotes = [(q.url.rpartition("/sources/")[2], q.line, q.text) for q in why.quotes]
    assert quotes[0][:2] == ("stacks/a/compose.yaml", 6) and "@shared-db:5432/app" in quotes[0][2]
    assert quotes[1:] == [
        ("stacks/a/compose.yaml", 4, "backend"),
        ("stacks/b/compose.yaml", 5, "backend"),
    ]
    (end,) = [e for e in why.ends if e.role == "end"]
    assert (end.name, end.observed, end.basis) == ("db", "db", "normalized")


def test_deleting_renaming_and_moving_the_container_moves_the_edge(world: World) -> None:
    assert between(world, URL) == BOTH
    assert between(world, URL, DB.replace("shared-db", "other-db")) == set()
    same_as_scratch(world)
    moved = DB.replace("container_name: shared-db", "container_name: other")
    third = DB.replace("  db:", "  pg:")
    assert between(world, URL, moved, **{"c/compose.yaml": third}) == {
        "app CONNECTS_TO pg",
        "app DEPENDS_ON pg",
    }
    same_as_scratch(world)
    (world.directory / "stacks/c/compose.yaml").unlink()
    assert between(world, URL, moved) == set()
    assert between(world, URL) == BOTH
    same_as_scratch(world)


STORES = """\
name: stores
services:
  db:
    image: postgres:16
    container_name: shared-db
    hostname: dbhost
    ports: ["5433:5432", "127.0.0.1:5444:5444"]
    networks:
      backend: {aliases: [pg-main]}
  cache:
    image: redis:7
    networks: [backend]
  seerr:
    image: seerr/seerr
    networks: [backend]
networks:
  backend: {external: true}
"""
#: What a service says, and what of the stores it thereby connects to.
FORMS: list[tuple[list[str], str]] = [
    (["environment: {DATABASE_URL: 'postgresql://u:p@shared-db:5432/app'}"], "db"),
    (["environment: {DB_HOST: shared-db}"], "db"),
    (["environment: [REDMINE_DB_POSTGRES=shared-db]"], "db"),
    (["environment: {X: 'mysql2://pg-main:3306?u=a&p=b'}"], "db"),
    (["environment: {DBHOST: dbhost}"], "db"),
    (["environment: {REDIS_HOSTNAME: cache, POSTGRES_SERVER: shared-db}"], "cache db"),
    (['command: ["serve", "--db-host", "shared-db"]'], "db"),
    (["command: serve --redis=cache:6379"], "cache"),
    (["""entrypoint: sh -c "until pg_isready -h shared-db -U cache; do sleep 1; done" """], "db"),
    (["env_file: shared.env"], "cache db"),
    (["environment: {A: stores_db}"], "db"),
    (["environment: {A_HOST: stores-cache-1}"], "cache"),
    (["environment: {JDBC: 'jdbc:postgresql://shared-db:5432/x'}"], "db"),
    (["environment: {TARGETS: 'a -> http://seerr, b -> http://cache'}"], "cache seerr"),
    (["environment: {NODES: 'shared-db,cache'}"], "cache db"),
    (["environment: {DSN: 'host=shared-db user=cache dbname=seerr'}"], "db"),
    (["environment: {DB_HOST: shared-db.backend}"], "db"),
    (["environment: {URL: 'generic+http://seerr/x'}"], "seerr"),
    # A port of the machine.
    (["environment: {URL: 'postgres://host.docker.internal:5433/x'}"], "db"),
    (["environment: {DB_HOST: nas, DB_PORT: 5433}"], "db"),
    (["environment: {DB_HOST: 192.168.1.5, DB_PORT: '5433'}"], "db"),
    (["extra_hosts: ['nas:192.168.1.5']"], ""),
    (["environment: {URL: 'postgres://localhost:5433/x'}"], ""),
    (["environment: {URL: 'postgres://host.docker.internal:5444/x'}"], ""),
    # Names of something else.
    (["environment: {POSTGRES_DB: cache, POSTGRES_USER: seerr, DB_TYPE: db}"], ""),
    (["environment: {PGUSER: cache, PGDATABASE: seerr, PGPASSWORD: shared-db}"], ""),
    (["environment: {URL: 'postgres://cache:seerr@elsewhere/shared-db'}"], ""),
    (["environment: {URL: 'https://shared-db.example.org'}"], ""),
    (["environment: {URL: 'http://localhost:5432'}"], ""),
    (["environment: {OTHER_IMAGE: 'cache:7'}"], ""),
    (["command: [cache, db]"], ""),
    (["labels: {homepage.href: 'http://seerr:5055', homepage.icon: cache}"], ""),
]


def test_every_form_in_which_a_service_names_another_counts_and_look_alikes_do_not(world: World) -> None:
    files = {"stores/compose.yaml": STORES}
    for number, (lines, _) in enumerate(FORMS):
        files[f"u{number}/compose.yaml"] = app(*lines).replace("  app:", f"  app{number}:")
        files[f"u{number}/shared.env"] = (
            "HOST=cache\nURL=postgres://u@${HOST_OF_DB:-shared-db}:5432/${HOST}\n"
        )
    own = "  cache:\n    image: busybox\n    networks: [default]\n"
    mine = app("environment: {A_HOST: cache, B_HOST: seerr}", networks="[backend, default]")
    files["own/compose.yaml"] = mine.replace("  app:", f"{own}  own:")
    files["far/compose.yaml"] = (
        app("environment: {DB_HOST: shared-db}", networks="[other]")
        .replace("  app:", "  far:")
        .replace("external: true}", "external: true}\n  other: {}")
    )
    host = "services:\n  host:\n    image: x\n    network_mode: host\n"
    host += "    environment:\n      U: tcp://127.0.0.1:"
    files["h/compose.yaml"] = host + "5444/\n"
    kb = ingest(world, files)
    found: dict[str, set[str]] = {}
    cache = {r["end_key"] for r in kb.edges().to_pylist() if r["start_name"] == "own"}
    for row in kb.edges().to_pylist():
        if row["type"] == "CONNECTS_TO":
            found.setdefault(row["start_name"], set()).add(row["end_name"])
    wanted = {f"app{n}": set(ends.split()) for n, (_, ends) in enumerate(FORMS) if ends}
    assert found == {**wanted, "own": {"cache", "seerr"}, "host": {"db"}}
    assert '["nas/own","cache"]' in cache and '["nas/stores","cache"]' not in cache
    stores = links(kb, "DEPENDS_ON")
    assert stores == {
        f"{a} DEPENDS_ON {b}" for a, ends in found.items() for b in ends - {"seerr"} if a != "own"
    }
    for row in kb.edges().to_pylist():
        if row["type"] in ("CONNECTS_TO", "DEPENDS_ON"):
            kb.explain(row["edge_id"])


def test_a_name_without_a_common_network_is_told_as_a_drift(world: World) -> None:
    far = app("environment: {DB_HOST: shared-db}", networks="[default]")
    kb = ingest(world, {"a/compose.yaml": far, "b/compose.yaml": DB})
    assert links(kb) == set()
    # A file that lies beside the other's may be laid over it.
    assert links(ingest(world, {"b/compose.tests.yaml": far.replace("  app:", "  tests:")})) == set()
    kb = world.kb()
    (drift,) = kb.drift().items
    assert (drift.kind, drift.name) == ("unreachable_name", "db")
    assert "a/app asks for b/db" in drift.statement and drift.sides[0].line == 5
    assert links(ingest(world, {"a/compose.yaml": far.replace("default", "backend")})) == BOTH
    assert world.kb().drift().items == ()
    same_as_scratch(world)


def test_whose_network_it_is_belongs_to_the_use_and_not_to_the_network(world: World) -> None:
    maker = DB.replace("external: true", "name: backend")
    for first, second in ((URL, maker), (maker, URL)):
        (world.directory / "stacks").exists() and [f.unlink() for f in world.directory.glob("stacks/*/*")]
        ingest(world, {"x/compose.yaml": first})
        kb = ingest(world, {"y/compose.yaml": second})
        (network,) = [n for n in kb.nodes().to_pylist() if n["label"] == "Network" and n["name"] == "backend"]
        assert "external" not in json.loads(network["properties"])
        uses = {
            r["start_name"].split("-")[1]: json.loads(r["properties"]).get("external")
            for r in kb.edges().to_pylist()
            if r["type"] == "RUNS_IN"
        }
        assert uses == {"app": True, "db": None}


MONITORING = """\
services:
  grafana:
    image: grafana/grafana
    volumes: ["./grafana/provisioning:/etc/grafana/provisioning", "${CONF}:/etc/agent.yml", "data:/var"]
    environment: {PUSH: "3100"}
  prometheus: {image: prom/prometheus}
  loki: {image: grafana/loki}
  proxy: {image: traefik}
"""


def test_configuration_that_a_service_mounts_comes_with_its_project(world: World) -> None:
    kb = ingest(
        world,
        {
            "m/compose.yaml": MONITORING,
            "m/.env": "CONF=./agent.yml\n",
            "m/grafana/provisioning/datasources/all.yml": (
                "datasources:\n  - {name: P, type: prometheus}\n    \n"
                "  - name: Q\n    access: proxy\n    url: http://prometheus:9090\n"
            ),
            "m/agent.yml": "push: http://loki:${PUSH}/api\nother: http://${GONE}:1\n",
            "m/elsewhere/notes.yml": "url: http://proxy:80\n",
        },
    )
    # `access: proxy` is a word of the data source, and no host.
    assert links(kb) == {"grafana CONNECTS_TO prometheus", "grafana CONNECTS_TO loki"}
    found = [r for r in kb.edges().to_pylist() if (r["type"], r["end_name"]) == ("CONNECTS_TO", "prometheus")]
    quote = kb.explain(found[0]["edge_id"]).quotes[0]
    assert quote.url.endswith("m/grafana/provisioning/datasources/all.yml") and quote.line == 6
    same_as_scratch(world)
    (world.directory / "stacks" / "m" / "agent.yml").unlink()
    assert links(ingest(world, {})) == {"grafana CONNECTS_TO prometheus"}
    same_as_scratch(world)


def test_a_command_with_a_url_for_its_user_keeps_the_host_in_its_quote(world: World) -> None:
    kong = """\
        services:
          db: {image: "postgres:16"}
          prepare:
            image: pantsel/konga
            command: "-c prepare -a postgres -u postgresql://${U}:${P}@db:5432/konga_db"
        """
    assert links(ingest(world, {"k/compose.yaml": kong})) == {"prepare CONNECTS_TO db"}


CLUSTER = """\
apiVersion: v1
kind: Service
metadata: {name: pg, namespace: data}
spec: {selector: {app: pg}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: pg, namespace: data}
spec: {template: {spec: {containers: [{name: pg, image: "postgres:16"}]}}}
"""


def workload(name: str, namespace: str, env: str) -> str:
    container = f'{{name: c, image: acme/x, env: [{{name: DB_HOST, value: "{env}"}}]}}'
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
        f"spec: {{template: {{spec: {{containers: [{container}]}}}}}}\n"
    )


def quadlet(*lines: str, network: str = "backend") -> str:
    return "\n".join(["[Container]", "Image=docker.io/library/postgres:16", f"Network={network}", *lines, ""])


def test_a_service_does_not_connect_to_its_own_public_name(world: World) -> None:
    route = "http: {routers: {web: {rule: 'Host(`web.example.org`)', service: web}}, services: {web: "
    files = {
        "web.container": quadlet("ContainerName=web", "Environment=OVERWRITE_URL=https://web.example.org"),
        "dynamic.yml": route + "{loadBalancer: {servers: [{url: 'http://web:80'}]}}}}\n",
    }
    write(world, files, source="house", type_="files", interpret=True, proxy="traefik")
    world.ingest()
    assert links(world.kb(), "ROUTES_TO") == {"traefik ROUTES_TO web"}
    assert links(world.kb(), "CONNECTS_TO") == set()


def test_quadlets_manifests_and_mounted_configuration_name_others_too(world: World) -> None:
    files = {
        "b/compose.yaml": DB,
        "a/compose.yaml": app("volumes: ['./config:/config:ro', './x.ini:/x.ini', 'data:/data']"),
        "a/config/app.yml": "# host: nothing\ndatabase:\n  type: postgres\n  host: shared-db # here\n",
        "a/x.ini": "[mail]\nserver = relay\nuser = shared-db\n",
        "a/c/compose.yaml": app("configs: [one, two]").replace("  app:", "  given:")
        + "configs:\n  one: {file: ../x.ini}\n  two: {content: 'db_host = shared-db'}\n",
        "m/compose.yaml": DB.replace("shared-db", "relay")
        .replace("  db:", "  mailer:")
        .replace("postgres", "m"),
        "q/one/store.container": quadlet("ContainerName=q-db", "NetworkAlias=q-alias"),
        "q/two/web.container": quadlet("Environment=DB_HOST=q-db URL=http://u:p@q-alias:1/x"),
        "q/two/far.container": quadlet("Environment=DB_HOST=q-db", network="other"),
        "q/two/filed.container": quadlet("EnvironmentFile=filed.env"),
        "q/two/filed.env": "DB_HOST=q-db\n",
        "q/two/mixed.container": quadlet("Exec=serve --db-host shared-db"),
        "k/one/data.yaml": CLUSTER,
        "k/two/full.yaml": workload("full", "apps", "pg.data.svc.cluster.local"),
        "k/two/short.yaml": workload("short", "apps", "pg.data"),
        "k/two/same.yaml": workload("same", "data", "pg"),
        "k/two/none.yaml": workload("none", "apps", "pg"),
    }
    composed = {path: text for path, text in files.items() if path[0] in "abm"}
    others = {path: text for path, text in files.items() if path not in composed}
    write(world, others, source="house", type_="files", interpret=True)
    kb = ingest(world, composed, include=["**"])
    assert links(kb, "CONNECTS_TO") == {
        *("app CONNECTS_TO db", "app CONNECTS_TO mailer"),
        *("given CONNECTS_TO db", "given CONNECTS_TO mailer", "filed CONNECTS_TO store"),
        *("web CONNECTS_TO store", "mixed CONNECTS_TO db"),
        *("full CONNECTS_TO pg", "short CONNECTS_TO pg", "same CONNECTS_TO pg"),
    }
    needs = {"app db", "given db", "filed store", "web store", "mixed db", "full pg", "short pg", "same pg"}
    assert links(kb, "DEPENDS_ON") == {n.replace(" ", " DEPENDS_ON ") for n in needs}
    (edge,) = [r for r in kb.edges().to_pylist() if (r["start_name"], r["end_name"]) == ("app", "mailer")]
    assert kb.explain(edge["edge_id"]).quotes[0].url.endswith("/stacks/a/x.ini")


def test_an_address_that_a_container_is_given_is_a_name_of_it(world: World) -> None:
    given = DB.replace("networks: [backend]", "networks: {backend: {ipv4_address: 172.30.0.5}}")
    assert given != DB
    asks = app("environment: {DATABASE_URL: 'postgresql://u:p@172.30.0.5:5432/app'}")
    assert between(world, asks, given) == BOTH
    same_as_scratch(world)
    assert between(world, asks, given.replace("0.5", "0.6")) == set()
    same_as_scratch(world)
    unit = "[Container]\nImage=acme/{0}:1\nNetwork=house.network:ip={1}\n{2}"
    units = {
        "store.container": unit.format("store", "10.9.0.5", ""),
        "web.container": unit.format("web", "10.9.0.6", "Environment=DB_HOST=10.9.0.5\n"),
        "house.network": "[Network]\nSubnet=10.9.0.0/24\n",
    }
    write(world, units, source="house", type_="files", interpret=True)
    world.ingest()
    assert "web CONNECTS_TO store" in links(world.kb(), "CONNECTS_TO")
    same_as_scratch(world)


RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: wiki, namespace: apps}
spec:
  dependsOn: [{name: pg, namespace: data}]
"""
ASKING = """\
  values:
    redis: {host: cache.data.svc.cluster.local}
    env: {DB_HOST: pg.data, OTHER_HOST: pg}
"""


def test_a_release_needs_what_it_waits_for(world: World) -> None:
    entry = {"source": "house", "type_": "files", "interpret": True}
    kb = ingest(world, {"data.yaml": CLUSTER, "wiki.yaml": RELEASE}, **entry)
    assert links(kb, "DEPENDS_ON") == {"wiki DEPENDS_ON pg"}
    assert "wiki" in kb.answer("What breaks if pg stops?").text
    assert "pg" in kb.answer("What does wiki need?").text
    same_as_scratch(world)
    cache = RELEASE.replace("wiki, namespace: apps", "cache, namespace: data")
    kb = ingest(world, {"wiki.yaml": RELEASE + ASKING, "cache.yaml": cache}, **entry)
    assert links(kb, "CONNECTS_TO") == {"wiki CONNECTS_TO pg", "wiki CONNECTS_TO cache"}
    same_as_scratch(world)


MADE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {{name: {0}, namespace: {1}}}
spec: {{{2}}}
"""


def test_what_a_chart_made_a_name_for_is_its_release(world: World) -> None:
    """The names of a chart's objects begin with the release's. The longest beginning counts, a Service of the
    whole name before it; other namespaces have names of their own."""
    entry = {"source": "house", "type_": "files", "interpret": True}
    files = {
        "git.yaml": MADE.format("gitea", "git", ""),
        "runner.yaml": MADE.format("gitea-runner", "git", ""),
        "far.yaml": MADE.format("forge", "flux", "targetNamespace: git"),
        "named.yaml": MADE.format("bus", "git", "releaseName: mq"),
        "a/full.yaml": workload("full", "apps", "http://gitea-http.git.svc.cluster.local:3000"),
        "a/short.yaml": workload("short", "apps", "http://gitea-http.git:3000"),
        "a/same.yaml": workload("same", "git", "redis://gitea-valkey-cluster:6379"),
        "a/longest.yaml": workload("longest", "apps", "gitea-runner-api.git.svc"),
        "a/flux.yaml": workload("flux", "apps", "http://git-forge-http.git/"),
        "a/called.yaml": workload("called", "apps", "amqp://mq-rabbitmq.git:5672"),
        "a/other.yaml": workload("other", "apps", "http://gitea-http:3000 http://gitea-http.web:3000"),
        "a/secret.yaml": workload("secret", "git", "gitea-word"),
    }
    kb = ingest(world, files, **entry)
    assert links(kb, "CONNECTS_TO") - {"full CONNECTS_TO gitea-http"} == {
        *("full CONNECTS_TO gitea", "short CONNECTS_TO gitea", "same CONNECTS_TO gitea"),
        *("longest CONNECTS_TO gitea-runner", "flux CONNECTS_TO forge", "called CONNECTS_TO bus"),
    }
    (edge,) = [r for r in kb.edges().to_pylist() if (r["start_name"], r["end_name"]) == ("short", "gitea")]
    assert edge["confidence"] == 0.8
    assert [q.url.rpartition("/sources/")[2] for q in kb.explain(edge["edge_id"]).quotes][:1] == [
        "house/a/short.yaml"
    ]
    same_as_scratch(world)
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: gitea-http, namespace: git}\n"
    kb = ingest(world, {"service.yaml": service}, **entry)
    assert "short CONNECTS_TO gitea-http" in links(kb) and "short CONNECTS_TO gitea" not in links(kb)
    same_as_scratch(world)


SHOWN = """\
# Shop

- Run it so:

  ```yaml
  services:
    app: {image: "acme/app:${TAG:-2}", depends_on: [db], ports: ["99:99"]}
    db:
      image: 'mysql:8'
      environment: {DB_HOST: shared-db}
  ```

```
services: of our office, and no Compose file
```
"""


def test_a_compose_file_in_a_fence_is_an_example_and_says_nothing_of_the_house(world: World) -> None:
    house = {"a/compose.yaml": URL, "b/compose.yaml": DB}
    facts = links(ingest(world, house), "CONNECTS_TO", "DEPENDS_ON", "BUILDS", "BINDS")
    kb = ingest(world, {"readme.md": SHOWN}, source="notes", type_="files", host=None)
    assert links(kb, "CONNECTS_TO", "DEPENDS_ON", "BUILDS", "BINDS") == facts
    rows = [r for r in kb.edges().to_pylist() if r["extraction_method"] == "prose_compose_example"]
    said = {r["end_name"]: kb.explain(r["edge_id"]).quotes[0].text for r in rows}
    assert {r["type"] for r in rows} == {"MENTIONS"}
    assert said == {
        "docker.io/acme/app:2": "acme/app:${TAG:-2}",
        "docker.io/library/mysql:8": "mysql:8",
    }
    assert {n["name"] for n in kb.nodes().to_pylist() if n["label"] == "Service"} == {"app", "db"}
    same_as_scratch(world)


CONF = """
http {
  map $host $to { default ""; notes.example.com "notes_app:80"; chat.example.com "chat_app:81"; }
  server { listen 443 ssl; server_name notes.example.com chat.example.com;
    location / { set $up $to; proxy_pass http://$up; }
    location ~* \\.(css|js)$ { set $up $to; proxy_pass http://$up; } }
}
"""


def test_a_proxy_that_calls_services_as_swarm_does_leads_to_those_of_the_stacks(world: World) -> None:
    """In a stack a service is called by the stack's name and its own; a second stack of the same names, and
    one that goes, change what a name means."""
    stack = "services: {app: {image: acme/app, deploy: {mode: replicated}}}\n"
    write(world, {"nginx.conf": CONF}, source="conf", type_="files", interpret=True, proxy="edge")
    kb = ingest(world, {"notes/compose.yaml": stack, "chat/compose.yaml": stack})
    assert {r["end_key"] for r in kb.edges().to_pylist() if r["type"] == "ROUTES_TO"} == {
        '["nas/notes","app"]',
        '["nas/chat","app"]',
    }
    answer = kb.answer("Is notes reachable from outside?").text
    assert answer.startswith("app (notes) is reached at notes.example.com (proxy). ")
    assert "app (chat):81" in kb.answer("What is behind chat.example.com?").text
    (world.directory / "stacks" / "chat" / "compose.yaml").unlink()
    kb = ingest(world, {})
    assert "chat_app" in {r["end_name"] for r in kb.edges().to_pylist() if r["type"] == "ROUTES_TO"}
    same_as_scratch(world)


PARTS = {
    "compose.yaml": """\
services:
  panel:
    image: acme/panel:2.20.0
    networks: [home]
    expose: ["5678"]
    labels:
      traefik.enable: "true"
      traefik.http.routers.panel.rule: Host(`panel.example.org`)
      traefik.http.services.panel.loadbalancer.server.port: "5678"
networks: {home: {}}
""",
    "compose.watch.yaml": """\
services:
  gauge: {image: acme/gauge:3, networks: [home], ports: ["${ADDRESS}:9090:9090"]}
networks: {home: {}}
""",
}


def test_files_of_one_folder_are_one_project_with_one_network(world: World) -> None:
    kb = ingest(world, {f"house/{n}": text for n, text in PARTS.items()}, proxy="traefik", host=None)
    answer = kb.answer("Can panel reach gauge over the network?").text
    assert answer.startswith("Yes: panel and gauge share the network home"), answer
    assert "gauge" in kb.answer("Which project does gauge belong to?").text
    # What a variable is for is not known; the port behind it is.
    assert "9090" in kb.answer("Which services publish ports?").text
    assert "${ADDRESS}" in kb.answer("On which port does gauge listen?").text
    (world.directory / "stacks" / "house" / "compose.watch.yaml").unlink()
    kb = ingest(world, {})
    assert "gauge" not in {n["name"] for n in kb.nodes().to_pylist()}
    same_as_scratch(world)


@pytest.mark.parametrize(
    ("question", "unsaid"),
    [
        # A route alone is no answer to whether a login guards it.
        ("Does panel need a password?", "Yes"),
        ("Does panel need a password?", "panel:5678."),
        ("Is panel open without a login?", "Yes"),
        # Nor one by a name to whether a port is published.
        ("Is panel reachable on port 5678 of the host?", "Yes"),
        ("Is panel reachable from the internet?", "Yes"),
        # The version of one thing is not that of another that it may use.
        ("Which Postgres version does panel use?", "2.20.0"),
        ("On which host does panel run?", "runs on ."),
    ],
)
def test_what_the_rows_do_not_say_is_not_answered_by_them(world: World, question: str, unsaid: str) -> None:
    kb = ingest(world, {f"house/{n}": text for n, text in PARTS.items()}, proxy="traefik", host=None)
    assert unsaid not in kb.answer(question).text


def test_a_source_of_an_archive_is_known_by_where_it_lies(world: World) -> None:
    kept = world.directory / "all" / "archive" / "kept"
    kept.mkdir(parents=True)
    (kept / "compose.yaml").write_text(
        "services: {sync: {image: acme/sync:1, networks: [lan]}}\nnetworks: {lan: {}}\n"
    )
    world.source("kept", "compose", path="all/archive/kept")
    world.ingest()
    assert world.kb().answer("Is sync on the network lan?").text.startswith("Yes")
    world.source("all", exclude=["archive/"])
    (world.directory / "all" / "readme.md").write_text("# House\n")
    world.ingest()
    assert world.kb().answer("Is sync on the network lan?").text.startswith("sync (kept) is on lan")


ROUTED = """\
services:
  db:
    image: acme/wiki
    container_name: shared-db
    environment: {ROOT_URL: https://wiki.example.org}
    labels: ["traefik.http.routers.w.rule=Host(`wiki.example.org`)"]
  pg:
    image: postgres:16
    labels: ["traefik.http.routers.p.rule=Host(`wiki.example.org`) && PathPrefix(`/pg`)"]
"""


def test_a_public_name_leads_through_its_route_to_the_service(world: World) -> None:
    """Of the own project it is one's own address; where a browser is led to, the program does not ask; what
    a proxy leads to is no store; and a host that two services share is nobody's."""
    asks = {
        "issuer": "{OIDC_ISSUER: 'https://wiki.example.org/realms/x'}",
        "port": "{API: 'https://wiki.example.org:443'}",
        "browser": "{REDIRECT_URI: 'https://wiki.example.org/back', CORS: 'https://wiki.example.org'}",
        "other": "{API: 'https://wiki.example.org:8443', MAIL: 'smtp://wiki.example.org'}",
        "alone": "{HOST: wiki.example.org}",
        "path": "{API: 'https://wiki.example.net'}",
    }
    files = {f"{name}/compose.yaml": app(f"environment: {said}") for name, said in asks.items()}
    kb = ingest(world, {**files, "wiki/compose.yaml": ROUTED})
    found = [r for r in kb.edges().to_pylist() if r["type"] in ("CONNECTS_TO", "DEPENDS_ON")]
    assert sorted((json.loads(r["start_key"])[0], r["type"], r["end_name"]) for r in found) == [
        ("nas/issuer", "CONNECTS_TO", "db"),
        ("nas/port", "CONNECTS_TO", "db"),
    ]
    (issuer, _) = sorted(found, key=lambda r: str(r["start_key"]))
    quotes = [q.text for q in kb.explain(issuer["edge_id"]).quotes]
    assert "wiki.example.org/realms/x" in quotes[0] and "Host(`wiki.example.org`)" in quotes[1]
    second = app("labels: ['traefik.http.routers.s.rule=Host(`wiki.example.org`)']")
    assert links(ingest(world, {"second/compose.yaml": second})) == set()
    (world.directory / "stacks/second/compose.yaml").unlink()
    assert links(ingest(world, {"wiki/compose.yaml": ROUTED.replace("  db:", "  web:")})) == {
        "app CONNECTS_TO web"
    }
    same_as_scratch(world)


def test_a_public_name_with_a_variable_leads_through_the_route_that_has_it(world: World) -> None:
    """The same variable may mean another name on another machine."""
    routed = app("labels: ['traefik.http.routers.w.rule=Host(`auth.${DOMAIN}`)']").replace("app:", "auth:")
    asking = app("environment: {ISSUER: 'https://auth.${DOMAIN}/x', OTHER: 'https://auth.${OTHER}/x'}")
    write(world, {"far/compose.yaml": asking}, source="far", host="attic")
    kb = ingest(world, {"auth/compose.yaml": routed, "near/compose.yaml": asking})
    (edge,) = [r for r in kb.edges().to_pylist() if r["type"] == "CONNECTS_TO"]
    assert (edge["start_key"], edge["end_name"]) == ('["nas/near","app"]', "auth")
    assert "auth.${DOMAIN}/x" in kb.explain(edge["edge_id"]).quotes[0].text
    # With a value it is a name like any other.
    assert links(ingest(world, {"near/.env": "DOMAIN=example.org\n"})) == set()
    kb = ingest(world, {"auth/.env": "DOMAIN=example.org\n"})
    assert links(kb) == {"app CONNECTS_TO auth"}
    same_as_scratch(world)


NOTES = """\
# Architecture

Grafana depends on Loki.

Mastodon depends on Vault.

Backstage depends on Kafka.

| Service | Port | Depends on |
|---|---|---|
| Keycloak | 9100 | mysql |
"""


def test_what_a_text_says_between_names_that_nobody_knows_is_no_fact_of_a_house(world: World) -> None:
    """As long as nothing is declared, a text is believed as it stands; with the first thing that is, names
    that are nothing of the house are in no relation, and one that is makes the other half as sure."""
    write(world, {"notes.md": NOTES}, source="notes", type_="files", host=None)
    all_ = {("grafana", "loki"), ("mastodon", "vault"), ("backstage", "kafka"), ("keycloak", "mysql")}
    assert set(needs(ingest(world, {}))) == all_
    same_as_scratch(world)
    house = "services: {grafana: {image: a}, Loki: {image: l}, mastodon: {image: s}}"
    sure = needs(ingest(world, {"a/compose.yaml": house}))
    assert set(sure) == all_ - {("backstage", "kafka")}
    assert max(sure["mastodon", "vault"], sure["keycloak", "mysql"]) < 0.5 < sure["grafana", "loki"]
    same_as_scratch(world)
    (world.directory / "stacks/a/compose.yaml").unlink()
    assert set(needs(ingest(world, {}))) == all_
    same_as_scratch(world)


def needs(kb: KnowledgeBase) -> dict[tuple[str, str], float]:
    return {
        (r["start_name"].lower(), r["end_name"].lower()): r["confidence"]
        for r in kb.edges().to_pylist()
        if r["type"] == "DEPENDS_ON"
    }
