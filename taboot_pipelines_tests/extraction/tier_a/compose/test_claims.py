"""What a project's parts say in the graph, each with its quote and its bases."""

from __future__ import annotations

import pytest

from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis
from taboot_pipelines_tests.extraction.tier_a.compose.helpers import Read, interpret


def service(body: str, rest: str = "", **options: str) -> Read:
    """A project ``app`` whose service ``web`` has ``body`` (a flow mapping's inside); ``db`` and ``cache``
    stand beside it.
    """
    return interpret(
        f"services:\n  web: {{{body}}}\n  db: {{image: postgres}}\n  cache: {{image: redis, container_name:"
        f" redis-main}}\n{rest}",
        **options,
    )


@pytest.mark.parametrize(
    ("port", "binds"),
    [
        ("'80:8080'", [("0.0.0.0", 80, "tcp", 8080)]),
        ("80:8080", [("0.0.0.0", 80, "tcp", 8080)]),
        ("'53:53/udp'", [("0.0.0.0", 53, "udp", 53)]),
        ("'53:53/UDP'", [("0.0.0.0", 53, "udp", 53)]),
        ("'127.0.0.1:80:8080'", [("127.0.0.1", 80, "tcp", 8080)]),
        ("'[::1]:80:8080'", [("::1", 80, "tcp", 8080)]),
        ("'[2001:DB8::0:1]:80:8080'", [("2001:db8::1", 80, "tcp", 8080)]),
        ("'3000-3002:4000-4002/udp'", [("0.0.0.0", p, "udp", p + 1000) for p in (3000, 3001, 3002)]),
        ("8080", []),
        ("'8080'", []),
        ("'8000-8010'", []),
        ("'127.0.0.1::80'", []),
        ("'0:80'", []),
        ("{target: 80}", []),
        ("{target: 80, published: 8080}", [("0.0.0.0", 8080, "tcp", 80)]),
        (
            "{target: 80, published: '8080', host_ip: 10.0.0.1, protocol: udp, mode: host}",
            [("10.0.0.1", 8080, "udp", 80)],
        ),
        ("{target: 80, published: ''}", []),
    ],
)
def test_ports(port: str, binds: list[tuple[str, int, str, int]]) -> None:
    read = service(f"image: nginx, ports: [{port}]")
    found = [
        (e.end.name, e.properties["port"], e.properties["protocol"], e.properties["targetPort"])
        for e in read.edges("BINDS")
    ]
    assert found == binds
    assert not read.result.problems
    for edge in read.edges("BINDS"):
        assert read.quote(edge.evidence) == port
        written = edge.properties.get("hostIp")
        assert edge.end_basis is (
            Basis.DERIVED if written is None else Basis.BYTES if written in port else Basis.NORMALIZED
        )
    properties = read.node("Service", "web").properties
    assert properties["port"] in (80, 8080, 53, 8000, 4000)


@pytest.mark.parametrize(
    "port",
    [
        "abc",
        "'80:'",
        "'99999:80'",
        "'80:0'",
        "'1-3:1-4'",
        "[80]",
        "{published: 80}",
        "'300.1.1.1:80:80'",
        "{target: x}",
        "'8080-8090:80'",
        "null",
    ],
)
def test_a_port_that_says_nothing_certain_is_a_problem(port: str) -> None:
    read = service(f"image: nginx, ports: [{port}]")
    assert not read.edges("BINDS")
    assert read.codes() == ["E_PARSE"]
    assert "line 2, column" in read.result.problems[0].message


def test_ports_bind_the_sources_host_when_there_is_one() -> None:
    read = service("image: nginx, ports: ['10.0.0.1:80:80']", host="tower")
    (edge,) = read.edges("BINDS")
    assert (edge.end.label, edge.end.key, edge.end_basis) == ("Host", ("tower",), Basis.SOURCE)
    assert edge.properties == {"port": 80, "protocol": "tcp", "targetPort": 80, "hostIp": "10.0.0.1"}


def test_depends_on_quotes_the_item_and_keeps_conditions() -> None:
    read = service("image: nginx, depends_on: [db, cache]")
    assert read.pairs("DEPENDS_ON") == [("web", "db"), ("web", "cache")]
    assert read.quotes("DEPENDS_ON") == ["db", "cache"]
    assert {(e.start_basis, e.end_basis) for e in read.edges("DEPENDS_ON")} == {(Basis.DERIVED, Basis.BYTES)}
    read = service(
        "image: nginx, depends_on: {db: {condition: service_healthy, required: false, restart: true}}"
    )
    (edge,) = read.edges("DEPENDS_ON")
    told = {"condition": "service_healthy", "required": False, "restart": True}
    assert edge.properties == {"kind": "need", **told}


def test_every_way_to_depend() -> None:
    read = service(
        "image: nginx, links: ['db:database', cache], volumes_from: ['db:ro', 'container:old:rw'],"
        " network_mode: 'service:cache', ipc: 'container:shm', pid: 'service:db', external_links:"
        " ['legacy:l', other], depends_on: [web]"
    )
    assert [(e.method, e.end.key) for e in read.edges("DEPENDS_ON")] == [
        ("compose_links", ("lab/app", "db")),
        ("compose_links", ("lab/app", "cache")),
        ("compose_external_links", ("", "legacy")),
        ("compose_external_links", ("", "other")),
        ("compose_volumes_from", ("lab/app", "db")),
        ("compose_volumes_from", ("", "old")),
        ("compose_network_mode", ("lab/app", "cache")),
        ("compose_ipc", ("", "shm")),
        ("compose_pid", ("lab/app", "db")),
    ]
    assert read.quotes("DEPENDS_ON")[0] == "'db:database'"
    assert "app-web-1" not in [e.start.name for e in read.edges("RUNS_IN")]


def test_a_dependency_on_what_is_not_declared_is_kept_and_reported() -> None:
    read = service("image: nginx, depends_on: [gone]")
    assert read.pairs("DEPENDS_ON") == [("web", "gone")]
    assert not read.node("Service", "gone").declared
    assert read.codes() == ["E_NOT_FOUND"]


def test_said_twice_gives_two_supports() -> None:
    assert [e.method for e in service("image: nginx, links: [db], depends_on: [db]").edges("DEPENDS_ON")] == [
        "compose_depends_on",
        "compose_links",
    ]


def test_networks_real_names_modes_and_aliases() -> None:
    read = interpret("""
        services:
          a: {image: x}
          b: {image: x, networks: [front, ext, default]}
          c: {image: x, networks: {named: {aliases: [www, api]}, old: , over: }}
          d: {image: x, network_mode: host}
          e: {image: x, network_mode: none}
          f: {image: x, network_mode: bridge}
          g: {image: x, network_mode: "service:a"}
          h: {image: x, network_mode: lan}
          i: {image: x, networks: [outside]}
        networks:
          front: {driver: macvlan, ipam: {config: [{subnet: 10.1.0.0/16}, {subnet: 2001:db8::/32}]}}
          ext: {external: true}
          named: {name: "real-${N:-1}", driver: ipvlan}
          old: {external: {name: legacy}}
          over: {driver: overlay, driver_opts: {x: y}}
          unused: {internal: true}
          outside: {external: true, name: host}
    """)
    runs = {(e.start.name, e.end.key[0], e.properties.get("networkMode")) for e in read.edges("RUNS_IN")}
    assert runs == {
        ("app-a-1", "lab/app_default", "bridge"),
        ("app-b-1", "lab/app_front", "macvlan"),
        ("app-b-1", "lab/ext", None),
        ("app-b-1", "lab/app_default", "bridge"),
        ("app-c-1", "lab/real-1", "custom"),
        ("app-c-1", "lab/legacy", None),
        ("app-c-1", "lab/app_over", "overlay"),
        ("app-d-1", "lab/host", "host"),
        ("app-f-1", "lab/bridge", "bridge"),
        ("app-h-1", "lab/lan", "custom"),
        ("app-i-1", "lab/host", "host"),
    }
    (aliased,) = [e for e in read.edges("RUNS_IN") if e.end.name == "real-1"]
    assert aliased.properties["aliases"] == ["www", "api"] and read.quote(aliased.evidence) == "named"
    front = read.node("Network", "app_front").properties
    assert (
        front["cidrs"] == ["10.1.0.0/16", "2001:db8::/32"]
        and front["isPublic"] is False
        and front["driver"] == "macvlan"
    )
    external = {e.end.name for e in read.edges("RUNS_IN") if e.properties.get("external")}
    assert external == {"ext", "legacy", "host"}
    assert {n.node.name for n in read.nodes("Network")} >= {"app_unused", "host", "bridge", "lan"}


def test_networks_of_two_projects_meet_on_one_host() -> None:
    one = interpret(
        {"a/compose.yaml": "services: {x: {image: i, networks: [n]}}\nnetworks: {n: {name: proxy}}"},
        host="tower",
    )
    two = interpret(
        {
            "b/compose.yaml": (
                "services: {x: {image: i, networks: [p]}}\nnetworks: {p: {external: true, name: proxy}}"
            )
        },
        host="tower",
    )
    assert one.edges("RUNS_IN")[0].end == two.edges("RUNS_IN")[0].end


def test_a_default_network_with_a_name_of_its_own() -> None:
    read = interpret("services: {x: {image: i}}\nnetworks: {default: {name: shared}}")
    (edge,) = read.edges("RUNS_IN")
    assert (edge.end.name, read.quote(edge.evidence), edge.end_basis) == ("shared", "x", Basis.DERIVED)


def test_containers_replicas_and_the_host_that_runs_them() -> None:
    read = interpret(
        """
        services:
          one: {image: redis:7, container_name: main, restart: "on-failure:5"}
          three: {image: nginx, deploy: {replicas: 3, restart_policy: {condition: any}}}
          none: {image: nginx, scale: 0, restart: "no"}
          many: {image: nginx, scale: 5000}
    """,
        host="tower",
    )
    names = [n.node.name for n in read.nodes("Container")]
    assert names[:4] == ["main", "app-three-1", "app-three-2", "app-three-3"]
    assert len(names) == 104 and read.codes() == ["E_TOO_LARGE"]
    container = read.node("Container", "main")
    assert dict(container.properties) == {
        "name": "main",
        "image": "redis:7",
        "composeProject": "app",
        "composeService": "one",
        "declared": True,
    }
    assert read.quote(container.evidence) == "main" and len(container.node.key[0]) == 64
    assert {e.properties["restartPolicy"] for e in read.edges("RUNS") if e.start.name == "main"} == {
        "on-failure"
    }
    assert {e.properties["restartPolicy"] for e in read.edges("RUNS") if "three" in e.start.name} == {
        "always"
    }
    assert all(e.end_basis is Basis.SOURCE and e.end.name == "tower" for e in read.edges("RUNS"))
    one = read.node("Service", "one")
    assert (
        one.aliases == ("main", "app_one")
        and one.properties["restart"] == "on-failure:5"
        and one.properties["version"] == "7"
    )


def test_container_ids_depend_on_namespace_scope_service_and_index_alone() -> None:
    one = interpret("services: {x: {image: a}}").nodes("Container")[0].node.key
    assert (
        one
        == interpret("name: app\nservices:\n  x: {image: b, ports: ['1:1']}").nodes("Container")[0].node.key
    )
    assert one != interpret("name: other\nservices: {x: {image: a}}").nodes("Container")[0].node.key


@pytest.mark.parametrize(
    ("body", "image", "basis", "quote"),
    [
        ("image: redis", "docker.io/library/redis:latest", Basis.NORMALIZED, "redis"),
        ("image: 'ghcr.io/a/b:1'", "ghcr.io/a/b:1", Basis.BYTES, "'ghcr.io/a/b:1'"),
        ("image: 'a/b:${T:-2}'", "docker.io/a/b:2", Basis.DERIVED, "'a/b:${T:-2}'"),
        ("build: ./src", "docker.io/library/app-web:latest", Basis.DERIVED, "./src"),
        ("build: {context: src, target: t}", "docker.io/library/app-web:latest", Basis.DERIVED, "src"),
        ("build: src, image: 'reg:5000/x'", "reg:5000/x:latest", Basis.NORMALIZED, "'reg:5000/x'"),
    ],
)
def test_images_and_builds(body: str, image: str, basis: Basis, quote: str) -> None:
    read = service(body)
    edge = read.edges("BUILDS")[0]
    assert (edge.end.name, edge.end_basis, read.quote(edge.evidence)) == (image, basis, quote)
    assert edge.method == ("compose_build" if "build" in body else "compose_image")


def test_a_build_keeps_dockerfile_target_and_the_names_of_its_arguments() -> None:
    read = service("build: {context: ., dockerfile: D, target: t, args: {SECRET: hush, B: }}")
    assert read.edges("BUILDS")[0].properties == {
        "dockerfile": "D",
        "target": "t",
        "buildArgs": ["B", "SECRET"],
    }
    assert "hush" not in repr(read.result)


@pytest.mark.parametrize(
    ("build", "images"),
    [
        ("{target: t}", ["base:1"]),
        ("{context: sub}", ["sub:1"]),
        ("{context: sub, dockerfile: ../Dockerfile}", ["base:1"]),
        ("{dockerfile: sub/Dockerfile}", ["sub:1"]),
        ("{dockerfile_inline: 'FROM inline:1'}", ["inline:1"]),
        ("{context: sub, additional_contexts: {'sub:1': 'docker-image://other:2'}}", ["other:2"]),
        ("{context: sub, additional_contexts: ['sub:1=service:db']}", []),
        ("'https://github.com/a/b.git'", []),
        ("/abs", []),
        ("../../up", []),
        ("gone", []),
        ("'${NO}'", []),
    ],
)
def test_the_dockerfile_that_a_build_takes(build: str, images: list[str]) -> None:
    read = interpret(
        {
            "app/compose.yaml": f"services: {{web: {{build: {build}}}}}",
            "app/Dockerfile": "FROM base:1",
            "app/sub/Dockerfile": "FROM sub:1",
        }
    )
    assert [
        e.end.name.removeprefix("docker.io/library/") for e in read.edges("BUILDS", "dockerfile_from")
    ] == images
    assert len(read.edges("BUILDS", "compose_build")) == 1


def test_an_image_that_is_no_reference_gives_no_edge() -> None:
    read = service("image: 'Not An Image'")
    assert ("web", "x") not in read.pairs("BUILDS") and len(read.edges("BUILDS")) == 2
    assert read.codes() == ["E_PARSE"] and "Not An" not in read.result.problems[0].message


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("environment: ['URL=postgres://u:p@db:5432/x']", [("db", "postgres", 5432)]),
        ("environment: {URL: 'jdbc:mysql://db/x?a=b'}", [("db", "mysql", None)]),
        ("environment: {A: 'db:5432'}", [("db", "tcp", 5432)]),
        (
            "environment: {A: 'mongodb://db:1,redis-main:2/x'}",
            [("db", "mongodb", 1), ("cache", "mongodb", 2)],
        ),
        ("environment: {A: 'http://db:${P}/'}", [("db", "http", None)]),
        ("command: --db=db:5432", [("db", "tcp", 5432)]),
        ("command: [wait, 'tcp://cache:1']", [("cache", "tcp", 1)]),
        ("entrypoint: sh -c 'nc db:9'", [("db", "tcp", 9)]),
        ("labels: {x: 'http://db/'}", [("db", "http", None)]),
        ("environment: {A: 'http://web:1/ http://elsewhere:2 db xdb:5 db:x my.db:3 http://db.example'}", []),
        ("environment: {DB_IMAGE: 'db:12'}", []),
        ("links: ['db:store'], environment: {A: 'http://store:1'}", [("db", "http", 1)]),
        ("environment: {A: 'http://app-db-1:7'}", [("db", "http", 7)]),
    ],
)
def test_connections(body: str, found: list[tuple[str, str, int | None]]) -> None:
    edges = service(f"image: nginx, {body}").edges("CONNECTS_TO")
    assert [(e.end.name, e.properties["protocol"], e.properties.get("port")) for e in edges] == found
    assert all(e.confidence == 0.9 and e.method == "compose_env_url" for e in edges)


def test_connections_of_an_env_file_quote_the_name_of_the_file() -> None:
    files = {
        "app/compose.yaml": (
            """
        services:
          web:
            image: x
            env_file: [a.env, {path: gone.env, required: false}, lost.env, {path: raw.env, format: raw}]
            environment: [B=http://db:2]
          db: {image: y}
    """
        ),
        "app/a.env": "A=http://db:1/ # c\nB=http://db:9\n",
        "app/raw.env": "C=http://$db http://db:3/\n",
    }
    read = interpret(files)
    assert [
        (e.properties["port"], read.quote(e.evidence), e.end_basis) for e in read.edges("CONNECTS_TO")
    ] == [(2, "B=http://db:2", Basis.BYTES), (1, "a.env", Basis.DERIVED), (3, "raw.env", Basis.DERIVED)]
    assert read.codes() == ["E_NOT_FOUND"]
    assert read.reads["app/gone.env"] is False
    assert read.result.environment == {"app/a.env", "app/raw.env"}


def test_the_example_of_an_env_file_that_is_not_there_tells_what_is_connected() -> None:
    project = """
        services:
          web: {image: x, env_file: [stack.env, {path: more.env, required: false}], labels: {a: b}}
          db: {image: y}
          cache: {image: z}
    """
    files = {
        "app/compose.yaml": project,
        "app/stack.env.example": "A=http://db:1/\nDB_PASSWORD=x\n",
        "app/more.env.dist": "B=http://cache:2/\n",
    }
    read = interpret(files)
    assert [
        (e.end.name, e.method, e.confidence, read.quote(e.evidence)) for e in read.edges("CONNECTS_TO")
    ] == [("db", "compose_example_url", 0.7, "stack.env"), ("cache", "compose_example_url", 0.7, "more.env")]
    # The file itself is missed all the same, and only it counts once it is there.
    assert read.codes() == ["E_NOT_FOUND"]
    read = interpret(files | {"app/stack.env": "A=http://cache:1/\n", "app/more.env": ""})
    assert [(e.end.name, e.method) for e in read.edges("CONNECTS_TO")] == [("cache", "compose_env_url")]
    assert not read.codes()


def test_configs_are_read_as_mounted_files_are() -> None:
    files = {
        "app/compose.yaml": (
            """
        include: [../inc/compose.yaml]
        services:
          web:
            image: x
            configs:
              - inline
              - {source: filed, target: /etc/x}
              - {source: hidden, target: /app/.env}
              - flow
              - included
              - gone
              - elsewhere
          idle: {image: y}
        configs:
          inline:
            content: |
              # host: nothing
              db_host = ${DB:-one}
              other_host = ${UNSET}
          filed: {file: ./x.ini}
          hidden: {file: ./x.env}
          flow: {content: "host: four\\nurl: http://five:5"}
          gone: {file: ./lost.ini}
          elsewhere: {external: true}
          unused: {content: "host: never"}
    """
        ),
        "app/x.ini": "[mail]\nserver = two  # here\n",
        "app/x.env": "DB_HOST=three\n",
        "inc/compose.yaml": "services: {inner: {image: z}}\nconfigs: {included: {file: x.yml}}\n",
        "inc/x.yml": "host: six\n",
    }
    read = interpret(files)
    named = {ids.host_id(name): name for name in ("one", "two", "three", "four", "five", "six")}
    found = {named[u.host]: (u.service.name, read.quote(u.evidence), u.in_quote) for u in read.result.uses}
    flow = r'"host: four\nurl: http://five:5"'
    assert found == {
        "one": ("web", "${DB:-one}", False),
        "two": ("web", "two  # here", True),
        "three": ("web", "./x.env", False),
        "four": ("web", flow, True),
        "five": ("web", flow, True),
        "six": ("web", "six", True),
    }
    assert read.codes() == ["E_NOT_FOUND", "E_UNSET"]
    assert read.reads["app/lost.ini"] is False


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("['a.lan:10.0.0.1']", [("a.lan", "10.0.0.1", "A", "'a.lan:10.0.0.1'", Basis.BYTES, Basis.BYTES)]),
        ("[A.lan=::1]", [("a.lan", "::1", "AAAA", "A.lan=::1", Basis.NORMALIZED, Basis.BYTES)]),
        (
            "['a:[2001:DB8::1]']",
            [("a", "2001:db8::1", "AAAA", "'a:[2001:DB8::1]'", Basis.BYTES, Basis.NORMALIZED)],
        ),
        (
            "{a: 10.0.0.1, b: 'host-gateway'}",
            [("a", "10.0.0.1", "A", "a: 10.0.0.1", Basis.BYTES, Basis.BYTES)],
        ),
        ("['a:host-gateway']", []),
    ],
)
def test_extra_hosts(hosts: str, found: list[tuple[object, ...]]) -> None:
    read = service(f"image: x, extra_hosts: {hosts}")
    assert [
        (
            e.start.name,
            e.end.name,
            e.properties["recordType"],
            read.quote(e.evidence),
            e.start_basis,
            e.end_basis,
        )
        for e in read.edges("RESOLVES_TO")
    ] == found
    assert not read.result.problems


def test_vpn_by_network_mode_and_by_capability() -> None:
    read = interpret("""
        services:
          torrent: {image: qbittorrent, network_mode: "service:vpn"}
          vpn: {image: qmcgaw/gluetun, cap_add: [NET_ADMIN]}
          wg: {image: linuxserver/wireguard, cap_add: [CAP_NET_ADMIN]}
          calm: {image: linuxserver/wireguard}
          beside: {image: x, network_mode: "service:torrent"}
    """)
    assert read.pairs("USES_VPN") == [("torrent", "vpn"), ("wg", "wg")]
    assert {e.confidence for e in read.edges("USES_VPN")} == {0.8}
    assert read.node("VPNTunnel", "wg").properties == {"name": "wg", "type": "wireguard", "declared": True}
    assert read.node("VPNTunnel", "vpn").properties == {"name": "vpn", "declared": True}


def test_service_properties() -> None:
    read = interpret("""
        services:
          a: {image: "postgres:16.2-alpine", profiles: [x, y], expose: ["5432/udp"], restart: unless-stopped}
          b: {image: "nginx:alpine", ports: [{target: 8080}]}
          c: {image: nginx}
    """)
    assert read.node("Service", "a").properties == {
        "schemaVersion": "1.0.0",
        "version": "16.2-alpine",
        "protocol": "udp",
        "port": 5432,
        "profiles": ["x", "y"],
        "restart": "unless-stopped",
    }
    assert read.node("Service", "b").properties == {"schemaVersion": "1.0.0", "protocol": "tcp", "port": 8080}
    assert read.node("Service", "c").properties == {"schemaVersion": "1.0.0"}
    assert read.quote(read.node("Service", "a").evidence) == "a"
