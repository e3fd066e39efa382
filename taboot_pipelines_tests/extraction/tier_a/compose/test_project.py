"""How a project is put together: units, names, variables, overrides, extends, include."""

from __future__ import annotations

import posixpath

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.compose.references import references
from taboot_pipelines.model.records import FileView, SourceFacts, UnitSpec
from taboot_pipelines_tests.extraction.tier_a.compose.docker_compose import (
    dedented,
    interpret_project,
    said_by_us,
)
from taboot_pipelines_tests.extraction.tier_a.compose.helpers import interpret
from taboot_pipelines_tests.extraction.tier_a.compose.once_wrong import CASES

WEB = "services: {web: {image: nginx}}"


def images(read) -> list[str]:
    return [e.end.name.removeprefix("docker.io/library/") for e in read.edges("BUILDS")]


def test_units_follow_composes_own_order() -> None:
    paths = [
        "a/docker-compose.yml",
        "a/compose.yaml",
        "a/compose.override.yaml",
        "a/docker-compose.override.yml",
        "b/docker-compose.yaml",
        "b/docker-compose.yml",
        "b/docker-compose.override.yml",
        "c/stack.yml",
        "c/compose.override.yml",
        "README.md",
        "compose.yml",
    ]
    units = {u.name: u.files for u in ComposeExtractor().units(paths)}
    assert units == {
        "a/compose.yaml": ("a/compose.yaml", "a/compose.override.yaml"),
        "a/docker-compose.yml": ("a/docker-compose.yml",),
        "a/docker-compose.override.yml": ("a/docker-compose.override.yml",),
        "b/docker-compose.yml": ("b/docker-compose.yml", "b/docker-compose.override.yml"),
        "b/docker-compose.yaml": ("b/docker-compose.yaml",),
        "c/stack.yml": ("c/stack.yml",),
        "c/compose.override.yml": ("c/compose.override.yml",),
        "compose.yml": ("compose.yml",),
    }
    assert ComposeExtractor().units(paths) == ComposeExtractor().units(reversed(paths))


@pytest.mark.parametrize(
    ("files", "main", "scope"),
    [
        ({"My.App_1/compose.yaml": WEB}, None, "lab/myapp_1"),
        ({"_x/compose.yaml": WEB}, None, "lab/x"),
        ({"compose.yaml": WEB}, None, "lab/lab"),
        ({"app/compose.yaml": "name: Shop\n" + WEB}, None, "lab/shop"),
        ({"app/compose.yaml": "name: ${N:-shop}-x\n" + WEB}, None, "lab/shop-x"),
        (
            {"app/compose.yaml": "name: a\n" + WEB, "app/.env": "COMPOSE_PROJECT_NAME=envname"},
            None,
            "lab/envname",
        ),
        ({"app/compose.yaml": WEB, "app/stack.prod.yml": WEB}, "app/stack.prod.yml", "lab/app-stackprod"),
        (
            {"app/compose.yaml": WEB, "app/docker-compose.yml": WEB},
            "app/docker-compose.yml",
            "lab/app-docker-compose",
        ),
        ({"app/compose.yaml": WEB, "app/compose.override.yml": "name: over\n"}, None, "lab/over"),
    ],
)
def test_project_names(files: dict[str, str], main: str | None, scope: str) -> None:
    (service,) = interpret(files, main).nodes("Service")
    assert service.node.key == (scope, "web")
    assert service.declared


def test_host_takes_the_place_of_the_source_in_scopes() -> None:
    assert interpret(WEB, host="Tower.LAN.").nodes("Service")[0].node.key[0] == "tower.lan/app"


@pytest.mark.parametrize(
    ("dotenv", "template", "tag"),
    [
        ("T=1", "$T", "1"),
        ("T=1", "${T}", "1"),
        ("", "${T:-d}", "d"),
        ("T=", "${T:-d}", "d"),
        ("T=", "a${T-d}", "a"),
        ("", "${T-d}", "d"),
        ("T=1", "${T:?needed}", "1"),
        ("T=1", "${T:+yes}", "yes"),
        ("", "x${T:+yes}", "x"),
        ("T=", "x${T+yes}", "xyes"),
        ("U=2", "${T:-${U:-3}}", "2"),
        ("", "${T:-${U:-3}}", "3"),
        ("export T='q$U' # c", "${T:-x}", None),
        ('T="a-${U:-z}"', "$T", "a-z"),
        ("U=b\nT=a-$U # comment", "$T", "a-b"),
        ("T: 9", "$T", "9"),
        ("T=1\r\nU=2\r\n", "${T}.${U}", "1.2"),
        ("T = 5", "$T", "5"),
        ("# T=1\nT=2", "$T", "2"),
        ("T='one\ntwo'\nU=2", "$U", "2"),
        ("T=a#b", "${T}", None),
    ],
)
def test_variables(dotenv: str, template: str, tag: str | None) -> None:
    read = interpret(
        {"app/compose.yaml": f"services: {{web: {{image: 'nginx:{template}'}}}}", "app/.env": dotenv}
    )
    assert images(read) == ([f"nginx:{tag}"] if tag is not None else [])
    assert read.result.environment == {"app/.env"}


@pytest.mark.parametrize("template", ["$T", "${T}", "${T:?e}", "${T:-${U}}"])
def test_a_variable_without_a_value_gives_no_guessed_edge_and_is_marked(template: str) -> None:
    read = interpret(f"services: {{web: {{image: 'nginx:{template}', ports: ['{template}:80']}}}}")
    assert not read.edges("BUILDS") and not read.edges("BINDS")
    name = "U" if "U" in template else "T"
    assert read.nodes("Service")[0].properties["unresolved"] == [f"image: ${{{name}}}", f"ports: ${{{name}}}"]
    assert read.reads == {"app/compose.yaml": True, "app/.env": False, ".env": False}


def test_an_env_value_that_cannot_be_known_is_not_replaced_by_a_default() -> None:
    read = interpret(
        {"app/compose.yaml": "services: {web: {image: 'nginx:${T:-1}'}}", "app/.env": "T=$HOME/x"}
    )
    assert not read.edges("BUILDS")


def test_a_dollar_is_escaped_by_another_and_a_stray_one_is_a_problem() -> None:
    read = interpret("""
        services:
          web: {image: nginx, labels: {"traefik.http.routers.w.rule": "HostRegexp(`^a$$`)"}}
          bad: {image: "a${", command: "$1"}
    """)
    assert read.edges("ROUTES_TO")[0].properties["host"] == "^a$"
    assert read.codes() == ["E_PARSE", "E_PARSE"]
    assert "nginx" in images(read)[0] and len(images(read)) == 1


def test_override_files_merge_by_the_specification() -> None:
    read = interpret(
        {
            "app/compose.yaml": (
                """
            services:
              web:
                image: nginx:1
                command: http://db:1/
                ports: ["80:80"]
                environment: [A=http://db:1, B=http://db:2]
                depends_on: [db]
                networks: [front]
                labels: {x: "http://db:7"}
              db: {image: postgres:1, ports: ["5432:5432"], container_name: pg}
              gone: {image: busybox}
            networks: {front: }
        """
            ),
            "app/compose.override.yml": (
                """
            services:
              web:
                image: nginx:2
                command: [run, http://cache:9/]
                ports: ["81:81", "80:80"]
                environment: {A: "http://cache:3"}
                depends_on: {cache: {condition: service_healthy, required: false}}
                networks: {back: {aliases: [www]}}
              db: {ports: !override ["6000:5432"], container_name: !reset null}
              cache: {image: redis}
              gone: !reset null
            networks: {back: {name: shared, external: true}}
        """
            ),
        }
    )
    assert {n.node.name for n in read.nodes("Service")} == {"web", "db", "cache"}
    assert images(read) == ["nginx:2", "postgres:1", "redis:latest"]
    assert [e.properties["port"] for e in read.edges("BINDS")] == [80, 81, 80, 6000]
    assert read.pairs("DEPENDS_ON") == [("web", "db"), ("web", "cache")]
    assert read.edges("DEPENDS_ON")[1].properties == {
        "kind": "need",
        "condition": "service_healthy",
        "required": False,
    }
    assert sorted((e.end.name, e.properties["port"]) for e in read.edges("CONNECTS_TO")) == [
        ("cache", 3),
        ("cache", 9),
        ("db", 2),
        ("db", 7),
    ]
    assert {p for p in read.pairs("RUNS_IN") if p[0] == "app-web-1"} == {
        ("app-web-1", "app_front"),
        ("app-web-1", "shared"),
    }
    where = {e.end.name: e.evidence.path for e in read.edges("BUILDS")}
    assert where["docker.io/library/nginx:2"] == "app/compose.override.yml"
    assert where["docker.io/library/postgres:1"] == "app/compose.yaml"
    assert "containerName" not in read.node("Service", "db").properties


def test_null_in_an_override_changes_nothing_but_what_is_replaced_whole() -> None:
    read = interpret(
        {
            "a/compose.yaml": (
                """
            services:
              web: {image: nginx, command: "http://db:1/", environment: {E: "http://db:2"},
                    extra_hosts: {h: 10.0.0.1}, restart: always, build: b}
              db: {image: pg}
        """
            ),
            "a/compose.override.yaml": (
                """
            services: {web: {image: , command: , environment: [E], extra_hosts: ["i:10.0.0.2"],
                             restart: null, build: {target: t}}, db: }
        """
            ),
        },
        "a/compose.yaml",
    )
    assert images(read) == ["nginx:latest", "pg:latest"]
    assert not read.edges("CONNECTS_TO")
    assert read.pairs("RESOLVES_TO") == [("h", "10.0.0.1"), ("i", "10.0.0.2")]
    assert read.node("Service", "web").properties["restart"] == "always"
    assert read.reads["a/b/Dockerfile"] is False


def test_services_that_only_the_override_declares() -> None:
    read = interpret({"a/compose.yaml": "volumes: {v: }\n", "a/compose.override.yaml": WEB}, "a/compose.yaml")
    assert images(read) == ["nginx:latest"] and read.nodes("Service")[0].node.key == ("lab/a", "web")


def test_a_broken_override_leaves_the_main_file_and_a_broken_main_file_nothing() -> None:
    read = interpret({"a/compose.yaml": WEB, "a/compose.override.yaml": "services: ["}, "a/compose.yaml")
    assert images(read) == ["nginx:latest"] and [p.path for p in read.result.problems] == [
        "a/compose.override.yaml"
    ]
    read = interpret({"a/compose.yaml": "services: [", "a/compose.override.yaml": WEB}, "a/compose.yaml")
    assert not read.result.nodes and read.codes() == ["E_PARSE"]


def test_documents_of_one_file_override_each_other() -> None:
    read = interpret(
        "services: {web: {image: 'nginx:1', ports: ['1:1']}}\n---\nservices: {web: {image: 'nginx:2', ports:"
        " ['2:2']}}\n"
    )
    assert images(read) == ["nginx:2"]
    assert [e.properties["port"] for e in read.edges("BINDS")] == [1, 2]


def test_anchors_and_merge_keys_keep_the_place_of_what_they_bring() -> None:
    read = interpret("""
        x-base: &base
          image: &img redis:7
          restart: on-failure:5
          depends_on: [db]
        x-more: &more {image: no, container_name: shared}
        services:
          db: {image: postgres}
          a:
            <<: [*base, *more]
          b:
            <<: *base
            image: nginx
          c: {image: *img}
    """)
    assert images(read) == ["postgres:latest", "redis:7", "nginx:latest", "redis:7"]
    assert read.node("Service", "a").properties["restart"] == "on-failure:5"
    assert read.node("Service", "a").aliases == ("shared", "app_a")
    quotes = [read.quote(e.evidence) for e in read.edges("BUILDS")]
    assert quotes == ["postgres", "&img redis:7", "nginx", "&img redis:7"]
    assert read.edges("BUILDS")[1].evidence == read.edges("BUILDS")[3].evidence
    assert read.pairs("DEPENDS_ON") == [("a", "db"), ("b", "db")]


def test_extends_across_files_rebases_paths_and_makes_them_subordinate() -> None:
    read = interpret(
        {
            "app/compose.yaml": (
                """
            services:
              web:
                extends: {file: ../common/base.yml, service: mid}
                environment: [X=http://db:5]
              db: {image: postgres}
              same: {extends: web}
              short: {extends: {service: db}, image: postgres:9}
        """
            ),
            "common/base.yml": (
                """
            services:
              mid: {extends: {service: root, file: deep/root.yml}, build: {args: [V=3]}, ports: ["8:8"]}
        """
            ),
            "common/deep/root.yml": (
                """
            services:
              root: {build: src, env_file: vars.env, restart: always}
        """
            ),
            "common/deep/src/Dockerfile": "ARG V=1\nFROM alpine:$V\n",
            "common/deep/vars.env": "URL=http://db:80/\n",
        },
        "app/compose.yaml",
    )
    assert read.result.subordinates == {"common/base.yml", "common/deep/root.yml"}
    assert read.result.environment == {"common/deep/vars.env"}
    assert ("web", "docker.io/library/alpine:3") in read.pairs("BUILDS", "dockerfile_from")
    assert ("same", "docker.io/library/alpine:3") in read.pairs("BUILDS", "dockerfile_from")
    assert {e.evidence.path for e in read.edges("BUILDS", "dockerfile_from")} == {
        "common/deep/src/Dockerfile"
    }
    assert read.node("Service", "same").properties["restart"] == "always"
    assert [read.quote(e.evidence) for e in read.edges("BINDS")] == ['"8:8"', '"8:8"']
    connects = [(e.start.name, e.properties["port"], e.evidence.path) for e in read.edges("CONNECTS_TO")]
    assert ("web", 80, "common/deep/root.yml") in connects and ("web", 5, "app/compose.yaml") in connects


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"a/compose.yaml": "services: {x: {extends: y, image: i}, y: {extends: x}}"}, "E_CYCLE"),
        ({"a/compose.yaml": "services: {x: {extends: x, image: i}}"}, "E_CYCLE"),
        (
            {
                "a/compose.yaml": "services: {x: {extends: {file: b.yml, service: y}, image: i}}",
                "a/b.yml": "services: {y: {extends: {file: compose.yaml, service: x}}}",
            },
            "E_CYCLE",
        ),
        (
            {"a/compose.yaml": "services: {x: {extends: {file: gone.yml, service: y}, image: i}}"},
            "E_NOT_FOUND",
        ),
        (
            {"a/compose.yaml": "services: {x: {extends: {file: ../../../etc/x.yml, service: y}, image: i}}"},
            "E_NOT_FOUND",
        ),
        ({"a/compose.yaml": "services: {x: {extends: y, image: i}}"}, "E_NOT_FOUND"),
        ({"a/compose.yaml": "services: {x: {extends: [], image: i}}"}, "E_PARSE"),
        ({"a/compose.yaml": "include: [compose.yaml]\nservices: {x: {image: i}}"}, "E_CYCLE"),
        (
            {
                "a/compose.yaml": "include: [b.yml]\nservices: {x: {image: i}}",
                "a/b.yml": "include: [compose.yaml]",
            },
            "E_CYCLE",
        ),
        ({"a/compose.yaml": "include: [gone.yml]\nservices: {x: {image: i}}"}, "E_NOT_FOUND"),
        (
            {
                "a/compose.yaml": (
                    "services: "
                    + "{"
                    + ", ".join(f"s{n}: {{extends: s{n + 1}}}" for n in range(50))
                    + ", s50: {}, x: {image: i}}"
                )
            },
            "E_PARSE",
        ),
    ],
)
def test_a_broken_extends_or_include_is_a_problem_and_the_rest_stands(
    files: dict[str, str], code: str
) -> None:
    read = interpret(files, "a/compose.yaml")
    assert code in read.codes()
    assert ("x", "docker.io/library/i:latest") in read.pairs("BUILDS")
    assert all(p.path in files and p.message.startswith(p.path) for p in read.result.problems)


def test_an_absent_file_that_was_looked_for_is_part_of_the_inputs() -> None:
    read = interpret(
        {"a/docker-compose.yml": "services: {x: {extends: {file: gone.yml, service: y}, build: src}}"}
    )
    assert read.reads == {
        "a/compose.yaml": False,
        "a/compose.yml": False,
        "a/docker-compose.yml": True,
        "a/.env": False,
        ".env": False,
        "a/gone.yml": False,
        "a/src/Dockerfile": False,
    }


def test_include_brings_services_with_their_own_directory_and_environment() -> None:
    read = interpret(
        {
            "app/compose.yaml": (
                """
            include:
              - ../db/compose.yaml
              - {path: [../mq/a.yml, ../mq/b.yml], project_directory: ../mq/home, env_file: [../mq/x.env]}
            services:
              web: {image: "nginx:$TAG", depends_on: [db, mq]}
        """
            ),
            "app/.env": "TAG=9\n",
            "db/compose.yaml": (
                "name: other\ninclude: [more.yml]\nservices: {db: {build: img, image:"
                " 'pg:$TAG-$OWN'}}\nnetworks: {default: {name: dbnet}}"
            ),
            "db/.env": "TAG=1\nOWN=2\n",
            "db/more.yml": "services: {extra: {image: extra}}",
            "db/img/Dockerfile": "FROM scratch\n",
            "mq/a.yml": "services: {mq: {image: 'rabbit:$V', build: .}}",
            "mq/b.yml": "services: {mq: {ports: ['1:1']}}",
            "mq/x.env": "V=3\n",
            "mq/home/Dockerfile": "FROM erlang\n",
        },
        "app/compose.yaml",
    )
    assert {n.node.key for n in read.nodes("Service")} == {
        ("lab/app", n) for n in ("web", "db", "extra", "mq")
    }
    assert {
        "docker.io/library/nginx:9",
        "docker.io/library/pg:9-2",
        "docker.io/library/rabbit:3",
        "docker.io/library/erlang:latest",
    } <= {e.end.name for e in read.edges("BUILDS")}
    assert read.result.subordinates == {"db/compose.yaml", "db/more.yml", "mq/a.yml", "mq/b.yml"}
    assert read.result.environment == {"app/.env", "db/.env", "mq/x.env"}
    assert {e.end.name for e in read.edges("RUNS_IN")} == {"dbnet"}
    assert not read.result.problems


def test_what_the_file_says_is_laid_over_what_an_include_brings() -> None:
    read = interpret(
        {
            "a/compose.yaml": "include: [b.yml]\nservices: {x: {image: mine}}",
            "a/b.yml": "services: {x: {image: theirs}, y: {image: y}}",
        },
        "a/compose.yaml",
    )
    assert images(read) == ["mine:latest", "y:latest"]
    assert read.codes() == []


def test_compose_file_of_the_environment_names_the_files() -> None:
    read = interpret(
        {
            "a/compose.yaml": WEB,
            "a/prod.yml": "services: {web: {image: 'nginx:9'}}",
            "a/compose.override.yml": "services: {web: {image: no}}",
            "a/.env": "COMPOSE_FILE=compose.yaml:prod.yml",
        },
        "a/compose.yaml",
    )
    assert images(read) == ["nginx:9"]
    assert read.result.subordinates == {"a/prod.yml"}


def test_the_first_format_is_read_and_other_yaml_is_not() -> None:
    read = interpret(
        {
            "a/docker-compose.yml": (
                "web:\n  build: src\n  dockerfile: D\n  net: host\n  links: [db]\ndb:\n  image: postgres\n"
            ),
            "a/src/D": "FROM alpine\n",
        }
    )
    assert read.pairs("DEPENDS_ON", "compose_links") == [("web", "db")]
    assert ("web", "docker.io/library/alpine:latest") in read.pairs("BUILDS")
    for path, text in {
        "values.yaml": "web: {image: nginx}",
        "services.yaml": "parameters: {}\nservices: {_defaults: {autowire: true}}",
        "symfony.yaml": "services: {_defaults: {autowire: true}, App: {resource: ../src}}",
        ".gitlab-ci.yml": "include: [/x.yml]\nstages: [a]\nbuild: {image: x}",
        "drone.yml": "services: [{name: redis, image: redis}]",
        "k8s.yaml": "kind: Service\nspec: {image: x}",
        "list-compose.yml": "- services",
        "empty-compose.yml": "",
        "broken.yaml": "services: [",
        "text.yaml": "include services",
    }.items():
        result = interpret({path: text}).result
        assert not result.nodes and not result.edges, path
        assert [p.code for p in result.problems] == (["E_PARSE"] if path == "broken.yaml" else []), path


def test_bare_environment_names_take_the_projects_value() -> None:
    read = interpret(
        {
            "app/compose.yaml": (
                "services: {a: {image: x, environment: [URL]}, b: {image: x, environment: {URL: }}, db:"
                " {image: y}}"
            ),
            "app/.env": "URL=http://db:8/",
        }
    )
    assert read.pairs("CONNECTS_TO") == [("a", "db"), ("b", "db")]
    assert [e.end_basis.value for e in read.edges("CONNECTS_TO")] == ["derived", "derived"]


@pytest.mark.parametrize("name", CASES)
def test_what_was_once_read_wrong(name: str) -> None:
    case = CASES[name]
    read = interpret_project(
        dedented(case.files), case.folder, SourceFacts("default", "lab", folder="Root.Dir")
    )
    assert read is not None and not read.result.problems
    said = said_by_us(read)
    for path, value in case.says.items():
        found = said
        for part in path.split("/"):
            found = found[part]
        assert found == value, path


def test_files_that_compose_file_adds_are_no_projects_of_their_own() -> None:
    case = CASES["files named by COMPOSE_FILE in a folder below"]
    read = interpret_project(case.files, "app", SourceFacts("default", "lab"))
    assert read is not None and read.result.subordinates == {"app/extra.yml"}
    assert read.result.environment == {"app/.env", "app/docker/.env", "app/docker/e.env"}


def test_a_file_of_compose_file_that_is_missing_is_a_problem_and_looked_for() -> None:
    files = {"a/compose.yaml": WEB, "a/.env": "COMPOSE_FILE=compose.yaml:gone.yml"}
    read = interpret(files, "a/compose.yaml")
    assert images(read) == ["nginx:latest"] and read.codes() == ["E_NOT_FOUND"]
    assert read.reads["a/gone.yml"] is False
    # What the directory's file is depends on the other's being there.
    others = files | {"a/.env": "COMPOSE_FILE=base.yml", "a/base.yml": WEB}
    read = interpret(others, "a/compose.yaml")
    assert read.nodes("Service")[0].node.key == ("lab/a-compose", "web") and read.reads["a/base.yml"]
    read = interpret(files | {"a/.env": "COMPOSE_FILE=gone.yml"}, "a/compose.yaml")
    assert read.nodes("Service")[0].node.key == ("lab/a", "web")
    assert read.codes() == ["E_NOT_FOUND"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "E_EMPTY"),
        ("# nothing yet\n", "E_EMPTY"),
        ("foo: bar\n", "E_PARSE"),
        ("networks: {a: }\n", "E_PARSE"),
        ("services: {}\n", "E_PARSE"),
        ("services:\n", "E_PARSE"),
        ("services: {web: {ports: ['80:80']}}\n", "E_PARSE"),
        ("services: {web: }\n", "E_PARSE"),
        ("- services\n", "E_PARSE"),
        ("services: [\n", "E_PARSE"),
    ],
)
def test_a_default_file_that_yields_nothing_is_a_problem(text: str, code: str) -> None:
    read = interpret({"a/compose.yaml": text})
    assert not read.result.nodes and not read.result.edges
    assert read.codes() == [code]
    assert read.result.problems[0].message.startswith("a/compose.yaml")


CORE = "services: {web: {image: nginx}, db: {image: postgres}}"
FULL = "services: {web: {depends_on: [queue]}, queue: {image: kafka}, worker: {image: w, depends_on: [db]}}"


def test_a_file_that_cannot_stand_alone_is_a_layer_of_the_project_beside_it() -> None:
    files = {"a/compose.yaml": CORE, "a/compose.full.yaml": FULL}
    read = interpret(files, "a/compose.yaml")
    assert {n.node.name for n in read.nodes("Service")} == {"web", "db", "queue", "worker"}
    assert {n.node.key[0] for n in read.nodes("Service")} == {"lab/a"}
    edges = {(e.start.name, e.end.name, e.evidence.path) for e in read.edges("DEPENDS_ON")}
    assert edges == {
        ("web", "queue", "a/compose.full.yaml"),
        ("worker", "db", "a/compose.full.yaml"),
    }
    assert read.result.subordinates == {"a/compose.full.yaml"}


def test_what_nobody_has_makes_a_layer_no_project_of_its_own() -> None:
    files = {"a/compose.yaml": CORE, "a/compose.full.yaml": FULL.replace("[db]", "[db, ghost]")}
    read = interpret(files, "a/compose.yaml")
    declared = {n.node.name for n in read.nodes("Service") if n.declared}
    assert declared == {"web", "db", "queue", "worker"}
    assert read.codes() == ["E_NOT_FOUND"]


@pytest.mark.parametrize(
    "text",
    [
        # It has all that it needs.
        "services: {queue: {image: kafka}, worker: {image: w, depends_on: [queue]}}",
        # It says what a service runs otherwise: for development, as like as not.
        "services: {web: {build: .}, mail: {image: mailhog}, db: {ports: ['5432:5432']}}",
        # It gives a service the network of another, or takes one away.
        "services: {web: {network_mode: 'service:vpn'}, vpn: {image: gluetun}}",
        "services: {web: {networks: !reset []}, vpn: {image: gluetun, depends_on: [web]}}",
        # It adds nothing.
        "services: {web: {ports: ['80:80']}}",
        # What it lacks, this project does not have either.
        "services: {worker: {image: w, depends_on: [cache]}}",
        # It changes a service of another project as well.
        "services: {cache: {ports: ['6379:6379']}, worker: {image: w, depends_on: [db]}}",
        "services: [",
        "",
    ],
)
def test_any_other_file_beside_it_is_none(text: str) -> None:
    read = interpret({"a/compose.yaml": CORE, "a/compose.dev.yml": text}, "a/compose.yaml")
    assert {n.node.name for n in read.nodes("Service")} == {"web", "db"}
    assert not read.result.subordinates and not read.result.problems


def test_of_two_that_publish_one_port_neither_is_a_layer() -> None:
    proxy = "services: {{{0}: {{image: {0}, ports: ['80:80'], depends_on: [web]}}}}"
    files = {"a/compose.yaml": CORE} | {f"a/compose.{n}.yaml": proxy.format(n) for n in ("haproxy", "nginx")}
    read = interpret(files, "a/compose.yaml")
    assert {n.node.name for n in read.nodes("Service")} == {"web", "db"}
    del files["a/compose.nginx.yaml"]
    read = interpret(files, "a/compose.yaml")
    assert {n.node.name for n in read.nodes("Service")} == {"web", "db", "haproxy"}


SHARED = "services: {web: {image: nginx, networks: [home]}}\nnetworks: {home: {driver: bridge}}\n"
PART = (
    "services: {{{0}: {{image: {0}, networks: [home]}}}}\n"
    "networks: {{home: {{external: true, name: house_home}}}}\n"
)


def test_a_port_on_an_address_that_is_not_set_is_published_all_the_same() -> None:
    ports = "['${SERVER_IP}:90:80', '$IP:91:81/udp', '${P}:82', '${A}:${P}:83']"
    read = interpret(f"services: {{web: {{image: nginx, ports: {ports}}}}}")
    said = [e.properties for e in read.edges("BINDS")]
    assert {(p["port"], p["targetPort"], p["hostIp"]) for p in said} == {
        (90, 80, "${SERVER_IP}"),
        (91, 81, "$IP"),
    }
    (web,) = read.nodes("Service")
    assert web.properties["unresolved"] == ["ports: ${P}", "ports: ${A}"]


def test_files_of_a_folder_that_share_a_network_are_one_project() -> None:
    """Whichever of them Compose is given, it calls the project after the folder."""
    files = {"a/compose.yaml": SHARED} | {f"a/compose.{n}.yml": PART.format(n) for n in ("media", "mail")}
    read = interpret(files, "a/compose.yaml")
    assert {n.node.key[:2] for n in read.nodes("Service")} == {("lab/a", n) for n in ("web", "media", "mail")}
    assert len({e.end.key for e in read.edges("RUNS_IN")}) == 1
    assert read.result.subordinates == {"a/compose.media.yml", "a/compose.mail.yml"}


@pytest.mark.parametrize(
    "text",
    [
        "name: other\n" + PART.format("mail"),
        PART.format("mail").replace("home", "away"),
        PART.format("web"),
        PART.format("mail") + "volumes: {data: {}}\n---\n" + PART.format("mail"),
    ],
)
def test_another_name_network_or_a_service_twice_is_another_project(text: str) -> None:
    read = interpret({"a/compose.yaml": SHARED, "a/compose.mail.yml": text}, "a/compose.yaml")
    assert {n.node.name for n in read.nodes("Service")} == {"web"} and not read.result.subordinates


def test_of_two_that_add_one_service_neither_is_a_part() -> None:
    files = {"a/compose.yaml": SHARED} | {f"a/compose.{n}.yml": PART.format("mail") for n in ("x", "y")}
    read = interpret(files, "a/compose.yaml")
    assert {n.node.name for n in read.nodes("Service")} == {"web"}


def test_folders_of_one_name_are_several_projects() -> None:
    files = {f"{place}/compose.yaml": CORE for place in ("a/conf", "b/conf", "b/c/conf", "d")}
    files |= {"a/other/conf/notes.yml": "x: 1"}

    def called(main: str) -> set[str]:
        return {n.node.key[0] for n in interpret(files, main).nodes("Service")}

    assert called("a/conf/compose.yaml") == {"lab/a-conf"} and called("b/conf/compose.yaml") == {"lab/b-conf"}
    assert called("b/c/conf/compose.yaml") == {"lab/c-conf"} and called("d/compose.yaml") == {"lab/d"}
    files = {"a/conf/compose.yaml": CORE}
    assert called("a/conf/compose.yaml") == {"lab/conf"}


def test_a_file_with_a_variable_without_a_value_is_said_to_be_so() -> None:
    read = interpret({"a/compose.yaml": "services: {web: {extends: {file: '${R}/b.yaml', service: a}}}"})
    assert "E_UNRESOLVED" in read.codes()
    assert "holds a variable without a value" in " ".join(p.message for p in read.result.problems)


def test_an_environment_file_of_an_include_that_is_missing_is_told() -> None:
    files = {"a/compose.yaml": "include: [{path: b.yaml, env_file: gone.env}]\n" + WEB, "a/b.yaml": CORE}
    read = interpret(files, "a/compose.yaml")
    assert {n.node.name for n in read.nodes("Service")} == {"web", "db"}
    assert read.codes() == ["E_NOT_FOUND"]


def test_where_compose_file_says_which_files_nothing_else_is_a_layer() -> None:
    files = {"a/compose.yaml": CORE, "a/compose.full.yaml": FULL, "a/.env": "COMPOSE_FILE=compose.yaml"}
    read = interpret(files, "a/compose.yaml")
    assert {n.node.name for n in read.nodes("Service")} == {"web", "db"}


@pytest.mark.parametrize("path", ["a/prod.yml", "a/docker-compose.prod.yml", "a/compose.override.yml"])
def test_a_fragment_that_is_laid_over_others_is_no_project(path: str) -> None:
    text = "services: {web: {environment: {A: b}, ports: ['80:80']}, db: {deploy: {replicas: 2}}}\n"
    read = interpret({path: text})
    assert not read.result.nodes and not read.result.problems
    whole = interpret({path: text.replace("deploy:", "image: x, deploy:")})
    assert {n.node.name for n in whole.nodes("Service")} == {"web", "db"}


def test_a_template_is_read_with_what_it_puts_in_as_variables() -> None:
    read = interpret(
        """
        services:
          {% if dns %}
          pihole:
            image: pihole/pihole:2026.05
            depends_on: [unbound]
            volumes:
              - {{ data_path }}/pihole:/etc/pihole
            networks:
              internal:
                ipv4_address: {{ pihole_ip }}
          {% endif %}
          unbound:
            image: {{ unbound_image }}
        networks:
          internal:
        """
    )
    assert set(read.codes()) == {"E_UNSET"}
    assert read.pairs("DEPENDS_ON") == [("pihole", "unbound")]
    assert images(read) == ["docker.io/pihole/pihole:2026.05"]
    assert not read.nodes("IP")


def test_a_file_that_is_no_yaml_even_as_a_template_is_a_mistake() -> None:
    read = interpret("services:\n  web: [{{ image }}]\n   image: nginx\n")
    assert read.codes() == ["E_PARSE"]


def test_templates_of_a_role_are_projects_called_after_it() -> None:
    files = {
        "roles/media/templates/docker-compose.yml.j2": """
            services:
              sonarr:
                image: "{{ image }}"
                depends_on: [gluetun]
              {% for site in sites %}
              docs-{{ site.name }}:
                image: mkdocs
              {% endfor %}
              gluetun:
                image: qmcgaw/gluetun:v3
        """,
        "roles/film/files/compose.yaml": WEB,
        "files/compose.yaml": WEB,
        "roles/film/templates/stack.yml.j2": WEB,
        "compose.yaml": WEB,
        "compose.yaml.j2": WEB,
    }
    units = [u.name for u in ComposeExtractor().units(files)]
    assert units == sorted(set(files) - {"compose.yaml.j2"})
    projects = {u: {n.node.key[0] for n in interpret(files, u).nodes("Service")} for u in units}
    assert projects == {
        "compose.yaml": {"lab/lab"},
        "files/compose.yaml": {"lab/files"},
        "roles/film/files/compose.yaml": {"lab/film"},
        "roles/film/templates/stack.yml.j2": {"lab/film-stack"},
        "roles/media/templates/docker-compose.yml.j2": {"lab/media"},
    }
    read = interpret(files, "roles/media/templates/docker-compose.yml.j2")
    assert read.pairs("DEPENDS_ON") == [("sonarr", "gluetun")]
    assert images(read) == ["docker.io/qmcgaw/gluetun:v3"]
    assert set(read.codes()) <= {"E_UNSET", "E_UNRESOLVED"}


@pytest.mark.parametrize(
    ("variables", "images_"),
    [
        ({"roles/web/defaults/main.yml": "version: '1.25'\napp:\n  image: nginx\n"}, ["nginx:1.25"]),
        # The inventory is before a role's defaults, and after its own variables.
        (
            {
                "roles/web/defaults/main.yml": "version: '1.25'\napp: {image: nginx}\n",
                "group_vars/all.yml": "version: '1.27'\n",
            },
            ["nginx:1.27"],
        ),
        (
            {
                "roles/web/vars/main/main.yml": "version: '1.28'\napp: {image: nginx}\n",
                "inventory/group_vars/all/versions.yaml": "version: '1.27'\n",
            },
            ["nginx:1.28"],
        ),
        # One variable is set to another, or to itself.
        (
            {
                "roles/web/defaults/main.yml": "version: '{{ of_all }}'\napp: {image: nginx}\n",
                "group_vars/all/main.yml": "of_all: '1.29'\n",
            },
            ["nginx:1.29"],
        ),
        ({"roles/web/defaults/main.yml": "version: '{{ version }}'\napp: {image: nginx}\n"}, []),
        # Which machine it is, is not known; nor what another template gives, or another role.
        (
            {
                "roles/web/defaults/main.yml": "version: '1.25'\napp: {image: nginx}\n",
                "host_vars/one.yml": "version: '1.26'\n",
                "host_vars/two.yml": "version: '1.27'\n",
            },
            [],
        ),
        ({"roles/web/defaults/main.yml": "version: '{{ of_all }}'\napp: {image: nginx}\n"}, []),
        ({"roles/db/defaults/main.yml": "version: '1.25'\napp: {image: nginx}\n"}, []),
        ({"roles/web/defaults/main.yml": "$ANSIBLE_VAULT;1.1;AES256\n6162\n: [\n"}, []),
    ],
)
def test_what_a_role_and_the_inventory_say_is_put_into_a_template(variables, images_) -> None:
    path = "roles/web/templates/compose.yaml.j2"
    files = {path: "services:\n  web:\n    image: '{{ app.image }}:{{ version }}'\n", **variables}
    read = interpret(files, path)
    assert images(read) == images_
    assert set(variables) - {"roles/db/defaults/main.yml"} <= set(read.reads)
    named = {
        p
        for p, role in references(files[path], path, {}, FileView(frozenset(files), files.get))
        if role == "document"
    }
    assert {p for p in variables if "/db/" not in p} <= named


PLAY = """\
- hosts: all
  vars: {files: "{{ playbook_dir }}/../stacks/web", version: '1.1', app: nginx}
  vars_files: ["{{ playbook_dir }}/../vars/ports.yml"]
  tasks:
    - block:
        - ansible.builtin.template: {src: "{{ files }}/compose.yaml.j2", dest: /srv}
"""
OF_ROLE = "- hosts: all\n  vars: {version: '1.1', app: nginx}\n  roles: [{role: web, version: '1.2'}]\n"


@pytest.mark.parametrize(
    ("path", "files", "expected"),
    [
        # A play that has the template as the source of a task; its files go before its own variables.
        ("stacks/web", {"playbooks/a/../web.yml": PLAY, "vars/ports.yml": "a: 1\n"}, "nginx:1.1"),
        (
            "stacks/web",
            {"playbooks/web.yml": PLAY, "vars/ports.yml": "version: '{{ a.b }}'\na: {b: 9}\n"},
            "nginx:9",
        ),
        (
            "stacks/web",
            {"playbooks/web.yml": PLAY, "vars/ports.yml": "$ANSIBLE_VAULT;1.1;AES256\n61\n"},
            "nginx:1.1",
        ),
        # What a file that is not there sets, or a task, is not known.
        ("stacks/web", {"playbooks/web.yml": PLAY}, None),
        (
            "stacks/web",
            {"playbooks/web.yml": f"{PLAY}    - set_fact: {{version: 2}}\n", "vars/ports.yml": ""},
            None,
        ),
        (
            "stacks/web",
            {"playbooks/web.yml": f"{PLAY}    - include_vars: x.yml\n", "vars/ports.yml": ""},
            None,
        ),
        ("stacks/other", {"playbooks/web.yml": PLAY, "vars/ports.yml": ""}, None),
        # What a play gives a role goes before the role's own, and the inventory before its defaults alone.
        (
            "roles/web/templates",
            {"site.yml": OF_ROLE, "roles/web/vars/main.yml": "version: 3\n"},
            "nginx:1.2",
        ),
        ("roles/web/templates", {"site.yml": OF_ROLE, "group_vars/all.yml": "app: caddy\n"}, "nginx:1.2"),
        (
            "roles/web/templates",
            {"site.yml": OF_ROLE, "roles/web/vars/main.yml": "app: caddy\n"},
            "caddy:1.2",
        ),
        (
            "roles/web/templates",
            {
                "site.yml": "- hosts: a\n  tasks:\n    - include_role: {name: web}\n"
                "      vars: {app: b, version: c}\n"
            },
            "b:c",
        ),
        # Two plays that differ leave it open; so does one that gives nothing.
        ("roles/web/templates", {"site.yml": OF_ROLE, "b.yml": OF_ROLE.replace("1.2", "1.3")}, None),
        ("roles/web/templates", {"site.yml": OF_ROLE, "b.yml": "- hosts: b\n  roles: [web]\n"}, None),
        ("roles/web/templates", {"site.yml": OF_ROLE.replace("web", "web2")}, None),
    ],
)
def test_what_a_play_says_is_put_into_the_template_that_it_fills_in(path, files, expected) -> None:
    path = f"{path}/compose.yaml.j2"
    files = {posixpath.normpath(p): text for p, text in files.items()}
    files[path] = "services:\n  web:\n    image: '{{ app }}:{{ version }}'\n"
    assert images(interpret(files, path)) == ([expected] if expected else [])
    named = references(files[path], path, {}, FileView(frozenset(files), files.get))
    if expected is not None:
        assert {p for p, _ in named} >= files.keys() - {path}
        assert all((role == "input") == files[p].startswith("$ANSIBLE") for p, role in named if p in files)


@pytest.mark.parametrize(
    ("play", "hosts"),
    [
        ("- hosts: films\n  roles: [web]\n", ["mini", "nas"]),
        ("- hosts: [nas]\n  roles: [{role: web}]\n", ["nas"]),
        ("- hosts: nas,attic\n  tasks: [{include_role: {name: web}}]\n", ["attic", "nas"]),
        # A pattern, a group that no inventory has, all there are, and another role.
        ("- hosts: films:!mini\n  roles: [web]\n", []),
        ("- hosts: '{{ target }}'\n  roles: [web]\n", []),
        ("- hosts: cellar\n  roles: [web]\n", []),
        ("- hosts: films\n  roles: [other]\n", []),
    ],
)
@pytest.mark.parametrize("path", ["roles/web/templates/compose.yaml.j2", "roles/web/files/compose.yaml"])
def test_what_a_role_brings_runs_where_its_plays_are_for(path: str, play: str, hosts: list[str]) -> None:
    inventory = "[films]\nnas ansible_host=10.0.0.9\nmini ansible_user=x\n[rest]\nattic ansible_user=y\n"
    files = {path: "services: {web: {image: nginx}}", "site.yml": play, "hosts.ini": inventory}
    read = interpret(files, path)
    assert sorted(end for _, end in read.pairs("RUNS")) == hosts
    for edge in read.edges("RUNS"):
        assert edge.evidence.path == "site.yml"
    assert [end for _, end in interpret(files, path, host="hearth").pairs("RUNS")] == ["hearth"]
    named = references(files[path], path, {}, FileView(frozenset(files), files.get))
    assert not hosts or {("site.yml", "document"), ("hosts.ini", "document")} <= named


def test_variables_that_double_each_other_are_unknown() -> None:
    path = "roles/web/templates/compose.yaml.j2"
    doubled = "".join(f"v{n}: '{{{{ v{n + 1} }}}}{{{{ v{n + 1} }}}}'\n" for n in range(60))
    files = {
        path: "services: {web: {image: '{{ v0 }}'}}",
        "roles/web/defaults/main.yml": f"{doubled}v60: aa\n",
    }
    assert images(interpret(files, path)) == []


def test_variables_that_are_no_text_take_nothing_away() -> None:
    path = "roles/web/templates/compose.yaml.j2"
    files = {path: "services: {web: {image: 'nginx:{{ version }}'}}", "group_vars/all.yml": "version: 1\n"}

    def load(name: str) -> str:
        if name == "group_vars/broken.yml":
            raise TabootError("E_ENCODING", "no text")
        return files[name]

    view = FileView(frozenset({*files, "group_vars/broken.yml"}), load)
    unit = UnitSpec(path, (path,))
    said = ComposeExtractor().interpret(unit, view, SourceFacts("default", "lab"))
    assert [e.end.name for e in said.edges if e.type == "BUILDS"] == ["docker.io/library/nginx:1"]
