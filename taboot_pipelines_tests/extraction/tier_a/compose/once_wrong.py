"""Projects that were once read otherwise than Docker Compose reads them, and what it says of them.

Each is read without Docker Compose, and with it by ``test_against_compose``. ``says`` is in the form of
``docker_compose.said_by_us``, a path of it per line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANY = "0.0.0.0"


@dataclass(frozen=True)
class Case:
    files: Mapping[str, str]
    says: Mapping[str, Any]
    #: Where Compose is started.
    folder: str = "app"


CASES: dict[str, Case] = {
    "an empty bind address": Case(
        {
            "app/compose.yaml": (
                "services: {web: {image: nginx, ports: ['${IP:-}:80:80', ':81:81', '${NONE}:82:82',"
                " {target: 83, published: 83}, '[::1]:84:84', '::1:85:85/udp']}}"
            ),
            "app/.env": "NONE=\n",
        },
        {
            "services/web/ports": {
                *((port, port, "tcp", ANY) for port in (80, 81, 82, 83)),
                (84, 84, "tcp", "::1"),
                (85, 85, "udp", "::1"),
            }
        },
    ),
    "numbers as YAML writes them": Case(
        {
            "app/compose.yaml": (
                "services: {web: {image: nginx, ports: [{target: 0x50, published: 0100}, {target: 9_090,"
                " published: 9_090}, {target: 0o20, published: '0100'}, {target: 010, published: 0b101}],"
                " deploy: {replicas: 0x2}}}"
            )
        },
        {
            "services/web/ports": {
                (64, 80, "tcp", ANY),
                (9090, 9090, "tcp", ANY),
                (100, 16, "tcp", ANY),
                (5, 8, "tcp", ANY),
            },
            "services/web/replicas": 2,
        },
    ),
    "a build argument that is a number": Case(
        {
            "app/compose.yaml": "services: {web: {build: {context: ., args: {V: 3.10, W: 0x10, X: '3.10'}}}}",
            "app/Dockerfile": "ARG V\nARG W\nARG X\nFROM a:$V-$W-$X\n",
        },
        {"services/web/args": ["V", "W", "X"], "services/web/from": {"docker.io/library/a:3.1-16-3.10"}},
    ),
    "a project at the root of its source": Case(
        {"compose.yaml": "services: {web: {image: nginx}}"}, {"name": "rootdir"}, folder=""
    ),
    "the same service and network in an including and an included file": Case(
        {
            "app/compose.yaml": (
                """
                include: [db.yml, more.yml]
                services:
                  web: {image: mine, ports: ['80:80'], environment: {A: 'http://db:1/'}, networks: [net]}
                  db: {environment: {X: 'http://web:3/'}}
                networks: {net: {name: real}, default: {name: other}}
                """
            ),
            "app/db.yml": (
                """
                services:
                  web: {image: theirs, ports: ['81:81'], environment: ['A=http://db:5/', 'B=http://db:2/']}
                  db: {image: postgres, restart: always}
                networks: {net: {driver: macvlan}}
                """
            ),
            "app/more.yml": "services: {db: {image: second, profiles: [p]}}",
        },
        {
            "services/web/image": "docker.io/library/mine:latest",
            "services/web/ports": {(80, 80, "tcp", ANY), (81, 81, "tcp", ANY)},
            "services/web/connects": {("db", "http", 1), ("db", "http", 2)},
            "services/web/networks": {"real": set()},
            "services/db/image": "docker.io/library/postgres:latest",
            "services/db/restart": "always",
            "services/db/profiles": ["p"],
            "services/db/connects": {("web", "http", 3)},
            "networks/real": ("macvlan", ()),
        },
    ),
    "a tag of the including file": Case(
        {
            "app/compose.yaml": (
                "include: [b.yml]\nservices: {web: {ports: !override ['80:80'], environment: !reset null}}"
            ),
            "app/b.yml": (
                "services: {web: {image: x, ports: ['1:1'], environment: {A: 'http://o:1/'}}, o: {image: y}}"
            ),
        },
        {"services/web/ports": {(80, 80, "tcp", ANY)}, "services/web/connects": set()},
    ),
    "a service that extends an included one": Case(
        {
            "app/compose.yaml": "include: [../inc/base.yml]\nservices: {web: {extends: base, tty: true}}",
            "inc/base.yml": "services: {base: {build: {dockerfile: D}, restart: always, env_file: e.env}}",
            "inc/D": "FROM inc\n",
            "app/D": "FROM app\n",
            "inc/e.env": "U=http://base:9/\n",
        },
        {
            "services/web/restart": "always",
            "services/web/dockerfile": "inc/D",
            "services/web/connects": {("base", "http", 9)},
        },
    ),
    "an include that includes": Case(
        {
            "app/compose.yaml": "include: [b/b.yml]\nservices: {web: {extends: {service: c}}}",
            "app/b/b.yml": "include: [c.yml]\nservices: {b: {image: b, depends_on: [c]}}",
            "app/b/c.yml": "services: {c: {image: 'c:${V}'}}",
            "app/b/.env": "V=2\n",
        },
        {
            "services/web/image": "docker.io/library/c:2",
            "services/b/depends_on": {"c": ("service_started", True)},
        },
    ),
    "the environment of an include under the outer one": Case(
        {
            "app/compose.yaml": (
                "include: [{path: b.yml, env_file: [one.env, two.env]}]\nservices: {web: {image: 'a:${V}'}}"
            ),
            "app/b.yml": "services: {b: {image: 'b:${V}-${W}-${X}-${Y}'}}",
            "app/.env": "V=outer\n",
            "app/one.env": "V=one\nW=$V\nX=1\n",
            "app/two.env": "X=2\nY=$V$X\n",
        },
        {
            "services/web/image": "docker.io/library/a:outer",
            "services/b/image": "docker.io/library/b:outer-outer-2-outer2",
        },
    ),
    "files named by COMPOSE_FILE": Case(
        {
            "app/compose.yaml": "services: {gone: {image: no}}",
            "app/base.yml": "services: {web: {image: a, ports: ['80:80']}}",
            "app/prod.yml": "services: {web: {image: b}}",
            "app/.env": "COMPOSE_FILE=base.yml:prod.yml\n",
        },
        {
            "name": "app",
            "services/web/image": "docker.io/library/b:latest",
            "services/web/ports": {(80, 80, "tcp", ANY)},
        },
    ),
    "files named by COMPOSE_FILE in a folder below": Case(
        {
            "app/.env": "COMPOSE_FILE=docker/base.yml;extra.yml\nCOMPOSE_PATH_SEPARATOR=;\nV=outer\n",
            "app/docker/base.yml": "services: {web: {build: ., env_file: e.env}}",
            "app/docker/.env": "V=inner\nW=inner\n",
            "app/docker/Dockerfile": "FROM below\n",
            "app/docker/e.env": "U=http://db:1/\n",
            "app/extra.yml": "services: {db: {image: 'pg:${V}-${W}'}}",
        },
        {
            "name": "docker",
            "services/web/dockerfile": "app/docker/Dockerfile",
            "services/web/connects": {("db", "http", 1)},
            "services/db/image": "docker.io/library/pg:outer-inner",
        },
    ),
    "a provider": Case(
        {
            "app/compose.yaml": (
                "services: {llm: {provider: {type: model, options: {model: a/b}}}, web: {image: nginx,"
                " depends_on: [llm]}}"
            )
        },
        {
            "services/llm/networks": {},
            "services/web/networks": {"app_default": set()},
            "services/web/depends_on": {"llm": ("service_started", True)},
        },
    ),
    "an empty network mode": Case(
        {
            "app/compose.yaml": (
                "services: {a: {image: x, network_mode: ''}, b: {image: x, network_mode: '${M:-}'}, c:"
                " {image: x, network_mode: '', networks: [default]}, d: {image: x}}"
            )
        },
        {
            "services/a/networks": {},
            "services/b/networks": {},
            "services/c/networks": {"app_default": set()},
        },
    ),
    "a Dockerfile inherited under another context": Case(
        {
            "app/compose.yaml": (
                """
                services:
                  one: {extends: {file: ../lib/c.yml, service: named}, build: {context: mine}}
                  two: {extends: {file: ../lib/c.yml, service: named}, build: mine}
                  three: {extends: {file: ../lib/c.yml, service: named}}
                  four: {extends: {file: ../lib/c.yml, service: bare}}
                """
            ),
            "lib/c.yml": (
                "services: {named: {build: {context: theirs, dockerfile: build.txt}}, bare: {build:"
                " {dockerfile: build.txt}}}"
            ),
            "app/mine/build.txt": "FROM mine\n",
            "lib/theirs/build.txt": "FROM theirs\n",
            "app/build.txt": "FROM app\n",
            "lib/build.txt": "FROM lib\n",
        },
        {
            "services/one/dockerfile": "app/mine/build.txt",
            "services/two/dockerfile": "app/mine/build.txt",
            "services/three/dockerfile": "lib/theirs/build.txt",
            "services/four/dockerfile": "app/build.txt",
        },
    ),
    "a list of dependencies over a mapping": Case(
        {
            "app/compose.yaml": (
                "services: {web: {image: x, depends_on: {db: {condition: service_healthy, required: false}}},"
                " db: {image: y}}"
            ),
            "app/compose.override.yaml": "services: {web: {depends_on: [db]}}",
        },
        {"services/web/depends_on": {"db": ("service_started", True)}},
    ),
    "an environment file named twice": Case(
        {
            "app/compose.yaml": "services: {web: {image: x, env_file: [a.env, b.env]}, db: {image: y}}",
            "app/compose.override.yaml": ("services: {web: {env_file: [{path: a.env, required: false}]}}"),
            "app/a.env": "U=http://db:1/\nH=db\n",
            "app/b.env": "U=http://${H}:2/\n",
        },
        {"services/web/connects": {("db", "http", 2)}},
    ),
    "an environment file under the project's and the service's environment": Case(
        {
            "app/compose.yaml": (
                "services: {web: {image: x, env_file: a.env, environment: {S: db}}, db: {image: y}, q:"
                " {image: z}}"
            ),
            "app/.env": "P=q\n",
            "app/a.env": "P=nobody\nS=nobody\nU=http://${S}:1/\nW=http://${P}:2/\n",
        },
        {"services/web/connects": {("db", "http", 1), ("q", "http", 2)}},
    ),
    "the old form of an external network under the new one": Case(
        {
            "app/compose.yaml": (
                "services: {web: {image: x, networks: [n]}}\nnetworks: {n: {external: {name: old}}}"
            ),
            "app/compose.override.yaml": "networks: {n: {external: true}}",
        },
        {"services/web/networks": {"old": {"<external>"}}, "networks/old": ("bridge", ())},
    ),
    "what a list of an override takes away": Case(
        {
            "app/compose.yaml": (
                "services: {web: {image: x, environment: ['A=http://db:1/']}, two: {image: x, environment:"
                " {A: 'http://db:1/'}}, db: {image: y}}"
            ),
            "app/compose.override.yaml": (
                "services: {web: {environment: {A: !reset null}}, two: {environment: {A: !reset null}}}"
            ),
        },
        {"services/web/connects": {("db", "http", 1)}, "services/two/connects": set()},
    ),
    "quotes and escapes of an environment file": Case(
        {
            "app/compose.yaml": (
                "services: {one: {image: x, command: ['${A}']}, two: {image: x, command: ['${B}']}, three:"
                " {image: x, command: ['${C}']}, db: {image: y}}"
            ),
            "app/.env": "A='http://db:1/it\\'s'\nB=http://db:2/\t#x\nC=\"http://db:3/\\$X\"\n",
        },
        {
            "services/one/connects": {("db", "http", 1)},
            "services/two/connects": {("db", "http", 2)},
            "services/three/connects": {("db", "http", 3)},
        },
    ),
    "names in the old form": Case(
        {
            "app/compose.yaml": "services: {web: {build: .}, x: {image: i, command: 'http://app_web_1:80/'}}",
            "app/.env": "COMPOSE_COMPATIBILITY=true\n",
        },
        {
            "services/web/image": "docker.io/library/app_web:latest",
            "services/x/connects": {("web", "http", 80)},
        },
    ),
    "the same profile twice": Case(
        {
            "app/compose.yaml": "services: {web: {image: x, profiles: [a]}}",
            "app/compose.override.yaml": "services: {web: {profiles: [a, b]}}",
        },
        {"services/web/profiles": ["a", "b"]},
    ),
}
