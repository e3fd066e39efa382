"""Whatever stands in the files, interpretation ends soon with claims that hold or with problems, never with
an exception.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.model.records import FileView, SourceFacts, UnitSpec
from taboot_pipelines_tests.extraction.tier_a.compose.helpers import Read, check
from taboot_pipelines_tests.needs import files

REAL = files("awesome-compose", "compose.yaml")

SEED = """\
name: ${N:-app}
x-a: &a {image: "redis:7", environment: {A: "http://db:1"},
  labels: ["traefik.http.routers.x.rule=Host(`a`) && Path(`/b`)"]}
include: [more.yml]
services:
  web:
    <<: *a
    build: {context: src, dockerfile_inline: "FROM alpine"}
    ports: ["[::1]:80-81:80-81/udp", {target: 1, published: "2"}]
    depends_on: {db: {condition: service_healthy}}
    networks: {n: {aliases: [www]}}
    extra_hosts: ["h:10.0.0.1"]
    env_file: x.env
  db: {image: "postgres:${V:-9}", network_mode: "service:web", extends: {service: web}, volumes_from: [web]}
networks: {n: {name: real, ipam: {config: [{subnet: 10.0.0.0/8}]}}}
"""


def run(text: str, others: dict[str, str] | None = None, path: str = "app/compose.yaml") -> Read:
    files = {path: text, **(others or {})}
    view = FileView(frozenset(files), files.__getitem__)
    read = Read(
        files,
        ComposeExtractor().interpret(UnitSpec(path, (path,)), view, SourceFacts("default", "lab")),
        view.reads,
    )
    check(read)
    return read


def _bomb() -> str:
    lines = ["x-a0: &a0 {image: x}"]
    for n in range(1, 40):
        lines.append(f"x-a{n}: &a{n} [*a{n - 1}, *a{n - 1}]")
    return "\n".join([*lines, "services: {web: {image: x, ports: *a39}}"])


def _merges() -> str:
    lines = ["x-0: &m0 {k0: 1}"]
    for n in range(1, 5000):
        lines.append(f"x-{n}: &m{n} {{<<: *m{n - 1}, k{n}: 1}}")
    return "\n".join([*lines, "services: {web: {image: x}}"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("services: {web: {image: x}\nother: ]", "E_PARSE"),
        ("services:\n\tweb: {image: x}", "E_PARSE"),
        ("services: {web: {image: x}}\n\x00", "E_PARSE"),
        ("services: {web: {image: \ud800}}", "E_PARSE"),
        ("services: " + "[" * 100_000, "E_PARSE"),
        ("services: " + "{a: " * 100_000, "E_PARSE"),
        ("services:\n" + "- " * 50_000, "E_PARSE"),
        ("services: &a {web: *a}", "E_CYCLE"),
        ("services: {web: *nowhere}", "E_PARSE"),
        (_bomb(), "E_TOO_LARGE"),
        (_merges(), "E_TOO_LARGE"),
        ("services: {web: {image: x}}\nnetworks: [n]", "E_PARSE"),
        ("services: {web: {image: x}, web: {image: y}}", "E_PARSE"),
        ("services: {web: {image: x}, [a]: {image: y}, {b: c}: d}", "E_PARSE"),
        ("services: {web: [x], 'a b': {image: x}}", "E_PARSE"),
        ("services: {web: {<<: 5, image: x}}", "E_PARSE"),
        ("services: {web: {image: x, ports: 80}}", "E_PARSE"),
        ("services: {web: {image: '" + "${A:-" * 500 + "x" + "}" * 500 + "'}}", "E_PARSE"),
    ],
    ids=range(18),
)
def test_hostile_files_are_problems(text: str, code: str) -> None:
    read = run(text)
    assert code in read.codes()
    assert all(p.message.startswith("app/compose.yaml") for p in read.result.problems)


def test_a_syntax_error_gives_its_position_and_none_of_the_content() -> None:
    (problem,) = run("services:\n  web:\n    image: hunter2\n   bad: hunter2\n").result.problems
    assert (
        problem.code == "E_PARSE"
        and "line 4, column 4" in problem.message
        and "hunter2" not in problem.message
    )


def test_a_later_duplicate_counts_and_the_rest_stands() -> None:
    assert run("services: {web: {image: x, image: y}, db: {image: z}}").pairs("BUILDS") == [
        ("web", "docker.io/library/y:latest"),
        ("db", "docker.io/library/z:latest"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        "5",
        "[]",
        "[[1]]",
        "{}",
        "{a: [b]}",
        "null",
        "''",
        "true",
        "[null, {}]",
        "{'': null}",
        "!reset x",
        "!!binary x",
        "&q [x]",
    ],
)
def test_a_field_of_the_wrong_form_breaks_nothing_else(value: str) -> None:
    fields = (
        "build",
        "ports",
        "depends_on",
        "networks",
        "network_mode",
        "labels",
        "environment",
        "env_file",
        "extends",
        "deploy",
        "command",
        "extra_hosts",
        "links",
        "volumes_from",
        "profiles",
        "restart",
        "container_name",
        "expose",
        "scale",
        "cap_add",
        "label_file",
        "ipc",
    )
    for field in fields:
        read = run(f"services:\n  web: {{image: nginx, {field}: {value}}}\n  db: {{image: redis}}\n")
        assert ("db", "docker.io/library/redis:latest") in read.pairs("BUILDS"), field
    run(f"services: {value}\ninclude: {value}\nnetworks: {value}\nname: {value}\n")
    run(
        f"services: {{web: {value}}}\nnetworks: {{n: {value}, default: {value}}}\ninclude: [{value}, {{path:"
        f" {value}}}]"
    )


def test_offsets_count_code_points_and_the_byte_order_mark() -> None:
    text = (
        "\ufeff# 🐳 é\r\nservices:\r\n  wéb: {image: x}\r\n  web: {image: 'rédis'}\r\n  '🐳': {image: y}\r\n "
        " db:\r\n    image: >-\r\n      redis:7\r\n"
    )
    read = run(text)
    assert [read.quote(n.evidence) for n in read.nodes("Service")] == ["web", "db"]
    assert read.quotes("BUILDS") == [">-\r\n      redis:7"]


def test_a_large_one_line_file_ends_soon() -> None:
    read = run("services: {web: {image: x, command: '" + "a" * 5_000_000 + "'}}")
    assert read.pairs("BUILDS") == [("web", "docker.io/library/x:latest")]


@pytest.mark.parametrize(
    "value",
    [
        "a" * 400_000 + " ://x",
        "a:" * 100_000,
        "http://" * 200_000,
        "${A:-" + "$B" * 100_000 + "}",
        "${A" * 100_000,
        "$" * 200_001,
        "Host(`a`)||" * 20_000,
        "(" * 100_000,
        "http://" + "a," * 100_000,
        "," * 200_000,
    ],
    ids=range(10),
)
def test_long_values_cost_no_more_than_their_length(value: str) -> None:
    read = run(
        "services: {web: {image: x, command: '"
        + value
        + "', labels: {'traefik.http.routers.r.rule': '"
        + value
        + "'}}}",
        {"app/.env": f"X={value}\n'{value}", "app/Dockerfile": f"ARG X={value}\nFROM {value}\nRUN <<{value}"},
    )
    assert read.pairs("BUILDS") == [("web", "docker.io/library/x:latest")]


def test_many_problems_are_cut_off() -> None:
    read = run("services: {web: {image: x, ports: [" + "x," * 20_000 + "]}}")
    assert 200 <= len(read.result.problems) <= 202


def test_includes_that_multiply_are_bounded() -> None:
    others = {
        f"app/{n}.yml": f"include: [{n + 1}.yml, {{path: {n + 1}.yml, env_file: {n}.env}}]" for n in range(30)
    }
    others |= {f"app/{n}.env": f"V{n}=1\n" for n in range(30)} | {
        "app/30.yml": "services: {last: {image: y}}"
    }
    assert "E_PARSE" in run("include: [0.yml]\nservices: {web: {image: x}}", others).codes()


def test_variables_that_double_each_other_are_bounded() -> None:
    dotenv = "V0=xxxxxxxxxx\n" + "".join(f"V{n}=$V{n - 1}$V{n - 1}\n" for n in range(1, 60))
    read = run("services: {web: {image: 'a:$V59', command: '$V59'}}", {"app/.env": dotenv})
    assert not read.edges("BUILDS")


def test_a_file_that_cannot_be_decoded_is_a_problem_of_its_own() -> None:
    def load(path: str) -> str:
        if path == "app/.env":
            raise TabootError("E_ENCODING", "app/.env is not UTF-8.")
        return "services: {web: {image: x}}"

    view = FileView(frozenset({"app/compose.yaml", "app/.env"}), load)
    result = ComposeExtractor().interpret(
        UnitSpec("app/compose.yaml", ("app/compose.yaml",)), view, SourceFacts("default", "lab")
    )
    assert [p.code for p in result.problems] == ["E_ENCODING"] and result.edges


def test_no_value_of_the_environment_reaches_a_claim() -> None:
    read = run(
        "services: {web: {image: x, environment: {P: hunter2, U: 'http://u:hunter2@db:1'}, env_file: x.env},"
        " db: {image: y}}",
        {"app/x.env": "P=hunter2\nQ=http://u:hunter2@db:2\n"},
    )
    assert len(read.edges("CONNECTS_TO")) == 2 and "hunter2" not in repr(read.result)


fuzz = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@fuzz
@given(st.text())
def test_any_text(text: str) -> None:
    run(text)
    run("services:\n  web:\n    image: " + text)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A real or made file with some of its text moved, dropped, doubled or replaced."""
    text = draw(st.sampled_from([SEED, SEED, *(p.read_text() for p in REAL)]))
    for _ in range(draw(st.integers(1, 4))):
        a, b = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        b = min(b, a + 40)
        kind = draw(st.integers(0, 3))
        middle = (
            ""
            if kind == 0
            else (
                text[a:b] * 2
                if kind == 1
                else (
                    draw(
                        st.sampled_from(
                            [
                                "{",
                                "}",
                                "[",
                                "]",
                                "&a ",
                                "*a",
                                "!reset ",
                                "!override ",
                                "${",
                                "}",
                                "$",
                                ": ",
                                "- ",
                                "\n",
                                "\n  ",
                                "<<: *a",
                                "null",
                                "'",
                                '"',
                                "|",
                                "🐳",
                                "\u0085",
                                "service:web",
                                "0-99999",
                                "\t",
                                "#",
                                "---\n",
                                "`",
                            ]
                        )
                    )
                    if kind == 2
                    else draw(st.text(max_size=5))
                )
            )
        )
        text = text[:a] + middle + text[b:]
    return text


@fuzz
@given(mutated(), mutated())
def test_any_mutation_with_any_other_file(text: str, other: str) -> None:
    others = {
        "app/more.yml": other,
        "app/x.env": other,
        "app/.env": text[:200],
        "app/src/Dockerfile": other,
        "app/Dockerfile": text,
    }
    first = run(text, others)
    assert run(text, dict(reversed(list(others.items())))).result == first.result


def test_the_seed_of_the_mutations_is_a_rich_project() -> None:
    read = run(SEED, {"app/more.yml": "services: {extra: {image: x}}", "app/x.env": "A=http://extra:1"})
    assert {e.type for e in read.result.edges} == {
        "BUILDS",
        "BINDS",
        "DEPENDS_ON",
        "RUNS_IN",
        "RESOLVES_TO",
        "CONNECTS_TO",
        "ROUTES_TO",
    }
    assert not read.result.problems


@pytest.mark.timeout(300)
def test_includes_that_all_speak_of_one_service_are_bounded() -> None:
    variables = "".join(f"      V{n}: !override x\n" for n in range(400))
    ports = ", ".join(f"'{n}:1'" for n in range(1, 400))
    others = {
        f"app/{n}.yml": (
            f"services:\n  web:\n    ports: [{ports}]\n"
            f"    environment:\n{variables}      U{n}: http://db:1/\n"
        )
        for n in range(100)
    }
    include = ", ".join(f"{n}.yml" for n in range(100))
    read = run(f"include: [{include}]\nservices: {{web: {{image: x}}, db: {{image: y}}}}", others)
    assert {e.properties["port"] for e in read.edges("BINDS")} == set(range(1, 400))
    assert len(read.edges("CONNECTS_TO")) == 100


def test_a_long_list_of_files_is_cut_off_and_said() -> None:
    others = {f"app/{n}.yml": f"services: {{s{n}: {{image: x}}}}" for n in range(300)}
    others["app/.env"] = "COMPOSE_FILE=compose.yaml:" + ":".join(f"{n}.yml" for n in range(300)) + "\n"
    read = run("services: {web: {image: x}}", others)
    assert read.codes() == ["E_TOO_LARGE"] and len(read.nodes("Service")) == 256


@pytest.mark.parametrize(
    "listed", [":", "/etc/passwd", "..", "../..", "compose.yaml:compose.yaml", "-", "~/x", "a\x00b", "app"]
)
def test_a_list_of_files_that_leads_nowhere_leaves_the_project(listed: str) -> None:
    read = run("services: {web: {image: x}}", {"app/.env": f"COMPOSE_FILE={listed}\n"})
    assert [n.node.key for n in read.nodes("Service")] == [("lab/app", "web")]
    assert set(read.codes()) <= {"E_NOT_FOUND"}


class Listing(frozenset[str]):
    """Paths that count how often somebody looks through all of them."""

    looked = 0

    def __iter__(self) -> Iterator[str]:
        Listing.looked += 1
        return super().__iter__()


def test_folders_that_many_services_mount_are_found_in_one_look_at_the_listing() -> None:
    services = "".join(
        f"  s{i}:\n    image: x\n    volumes: ['./c{i}:/c']\n    environment: {{DB_HOST: s0}}\n"
        for i in range(50)
    )
    files = {"compose.yaml": f"services:\n{services}", **{f"c{i}/a.yml": f"host: h{i}\n" for i in range(50)}}
    view = FileView(Listing(files), files.get)
    (unit,) = ComposeExtractor().units(["compose.yaml"])
    Listing.looked = 0
    said = ComposeExtractor().interpret(unit, view, SourceFacts("default", "lab"))
    assert {u.evidence.path for u in said.uses} == {*(f"c{i}/a.yml" for i in range(50)), "compose.yaml"}
    assert Listing.looked == 1


def test_what_many_services_mount_is_read_within_bounds() -> None:
    services = "".join(f"  s{i}:\n    image: x\n    volumes: ['./c:/c']\n" for i in range(60))
    files = {"compose.yaml": f"services:\n{services}"}
    files |= {f"c/{i}.yml": "url: http://other:80\n" + f"a: {'b' * 396}\n" * 490 for i in range(4)}
    view = FileView(frozenset(files), files.get)
    (unit, *_) = ComposeExtractor().units(["compose.yaml"])
    said = ComposeExtractor().interpret(unit, view, SourceFacts("default", "lab"))
    assert [p.code for p in said.problems] == ["E_TOO_LARGE"]
    assert 100 < len(said.uses) < 240
