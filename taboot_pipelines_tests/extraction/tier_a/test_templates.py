"""What a template puts in is not known: nothing is invented of it, and what does not depend on it is read."""

from __future__ import annotations

import pytest

from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.extraction.tier_a.texts import untemplated
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec


def read(name: str, text: str) -> Interpretation:
    view = FileView(frozenset([name]), {name: text}.get)
    return ConfigFiles().interpret(UnitSpec(name, (name,)), view, SourceFacts("ns", "src", None, "edge"))


def names(said: Interpretation) -> set[str]:
    return {n.node.name for n in said.nodes} - {"edge"}


@pytest.mark.parametrize(
    ("name", "text", "known"),
    [
        (
            "Caddyfile",
            "a.org {\n reverse_proxy {{ upstream }}:{{ port }}\n}\n"
            "b.org {\n {% if x %}\n reverse_proxy app:80\n {% endif %}\n}\n"
            "{{ host }} {\n reverse_proxy web:80\n}\n",
            {"app", "http://app"},
        ),
        (
            "haproxy.cfg",
            "listen a\n bind :80\n mode http\n server {{ n }} {{ addr }}:5000\n"
            "{% for s in all %}\n server {{ s.name }} {{ s.ip }}:{{ s.port }} check\n{% endfor %}\n"
            " server app app:80\n",
            {"app", "http://app"},
        ),
        (
            "dynamic.yml",
            'http:\n  routers:\n    a: {rule: "Host(`{{ env "A" }}`)", service: s}\n'
            '    b: {rule: "Host(`b.org`)", service: s}\n'
            '    c: {rule: "Host(`c.org`)", service: t}\n'
            "  services:\n    s: {loadBalancer: {servers: [{url: 'http://app:80'}]}}\n"
            '    t: {loadBalancer: {servers: [{url: "http://{{ env "T" }}:80"}]}}\n',
            {"app", "http://app"},
        ),
    ],
)
def test_proxies(name: str, text: str, known: set[str]) -> None:
    said = read(name, text)
    assert names(said) == known
    (route,) = [e for e in said.edges if e.type == "ROUTES_TO"]
    assert route.end.name == "app"
    assert {p.code for p in said.problems} == {"E_UNRESOLVED"}


def test_quadlets() -> None:
    text = (
        "[Unit]\nRequires={{ dep }}.service\nAfter=db.service {{ other }}.service\n"
        "[Container]\nImage=docker.io/library/app:1\nNetwork={{ net }}.network\nNetwork=lan\n"
        "PublishPort={{ port }}:80\nContainerName={{ name }}\n"
    )
    said = read("app.container", text)
    assert names(said) == {"app", "db", "lan", "docker.io/library/app:1"}
    assert {p.code for p in said.problems} == {"E_UNRESOLVED"}
    (app,) = [n for n in said.nodes if n.node.label == "Service" and n.declared]
    assert app.properties["unresolved"] == ["ContainerName", "PublishPort", "Network", "Requires", "After"]


def test_offsets_are_kept() -> None:
    text = "a {{ b }} c {# d #}\n  {{- end }}\n{{ open\n}} {% x %}"
    plain = untemplated(text)
    assert len(plain) == len(text) and plain.split() == ["a", "\ufffd" * 7, "c", "{{", "open", "}}"]
    assert untemplated("a: {b}") == "a: {b}"
    assert untemplated("{{" * 200_000) == "{{" * 200_000


def test_a_matcher_with_its_brace_on_the_next_line_costs_no_other_route() -> None:
    said = read("Caddyfile", "a.org {\n @x {\n not\n {\n path /y\n }\n }\n reverse_proxy @x app:80\n}\n")
    assert "app" in names(said) and [p.code for p in said.problems] == ["E_PARSE"]


class _Broken:
    name, version = "broken", "1"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        raise IndexError(f"what {path} holds is not repeated")


def test_a_defect_of_a_reader_costs_its_file_alone() -> None:
    formats = ConfigFiles()
    first = formats._formats[0]
    broken = ConfigFiles([type(first)("broken", (_Broken(),), by_path=lambda path: True)])
    view = FileView(frozenset(["a/x"]), {"a/x": "secret"}.get)
    said = broken.interpret(UnitSpec("a/x", ("a/x",)), view, SourceFacts("ns", "src"))
    (problem,) = said.problems
    assert (problem.path, problem.code, said.format) == ("a/x", "E_INTERNAL", "broken")
    assert problem.message == "a/x: reading it as broken failed with IndexError."


def test_the_address_of_each_connection_is_no_server() -> None:
    text = "listen a\n bind :80\n server x 0.0.0.0:80\n server y *:81\n server z app:82\n"
    said = read("haproxy.cfg", text)
    assert [e.end.name for e in said.edges if e.type == "ROUTES_TO"] == ["app"]
    assert [p.code for p in said.problems] == ["E_UNRESOLVED"] * 2


def test_a_template_of_nginx_counts_where_what_it_becomes_is_not_there() -> None:
    text = "server {\n  server_name app.{{ domain }};\n  location / { proxy_pass http://app:80; }\n}\n"
    (route,) = [e for e in read("site.conf.j2", text).edges if e.type == "ROUTES_TO"]
    assert (route.properties["host"], route.end.name) == ("app.${domain}", "app")
    told = [u.name for u in ConfigFiles().units(["a/site.conf", "a/site.conf.j2", "b/site.conf.j2"])]
    assert told == ["a/site.conf", "b/site.conf.j2"]


def test_what_cannot_be_read_before_it_is_filled_in_is_no_mistake() -> None:
    said = read("traefik.toml", "[http.routers.a]\nrule = {{ rule | to_json }} {{ more }}\nservice = 's'\n")
    assert {p.code for p in said.problems} == {"E_UNRESOLVED"}
    said = read("traefik.toml", "[http.routers.a]\nrule = what\nservice = 's'\n")
    assert {p.code for p in said.problems} == {"E_PARSE"}
