"""Traefik's labels as routes and endpoints."""

from __future__ import annotations

import pytest

from taboot_pipelines.extraction.tier_a.traefik.rules import Target, targets
from taboot_pipelines.model.graph import Basis
from taboot_pipelines_tests.extraction.tier_a.compose.helpers import interpret


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("Host(`a.b`)", [("a.b", None, "/")]),
        ("Host(`a`, `b`)", [("a", None, "/"), ("b", None, "/")]),
        ("Host(`a`) || Host(`b`)", [("a", None, "/"), ("b", None, "/")]),
        ('Host("a") && PathPrefix("/x")', [("a", 'PathPrefix("/x")', "/x")]),
        (
            "(Host(`a`)||Host(`b`))&&(Path(`/x`)||PathPrefix(`/y`))",
            [
                ("a", "Path(`/x`)", "/x"),
                ("a", "PathPrefix(`/y`)", "/y"),
                ("b", "Path(`/x`)", "/x"),
                ("b", "PathPrefix(`/y`)", "/y"),
            ],
        ),
        ("HostRegexp(`{s:[a-z]+}.b`)", [("{s:[a-z]+}.b", None, "/")]),
        ("PathRegexp(`^/x`)", [(None, "PathRegexp(`^/x`)", None)]),
        ("Host(`a`) && !Path(`/no`) && Headers(`X`, `y`)", [("a", None, "/")]),
        ("HostSNI(`*`)", [("*", None, "/")]),
        ("Path(`/`)", [(None, "Path(`/`)", "/")]),
        ("Host(`a`) &&", []),
        ("Host(a)", []),
        ("Host(`a`) Host(`b`)", []),
        ("", []),
        ("(" * 100 + "Host(`a`)" + ")" * 100, []),
        ("&&".join(["(Host(`a`)||Host(`b`))"] * 12), []),
    ],
)
def test_rules(rule: str, expected: list[tuple[str | None, str | None, str | None]]) -> None:
    assert targets(rule) == [Target(*t) for t in expected]


def test_one_route_for_each_host_and_an_endpoint_for_the_port() -> None:
    read = interpret("""
        services:
          edge: {image: "traefik:v3.1"}
          app:
            image: x
            labels:
              - traefik.enable=true
              - traefik.http.routers.app.rule=Host(`a.x`) || Host(`b.x`)
              - traefik.http.routers.app.entrypoints=websecure
              - traefik.http.services.app.loadbalancer.server.port=8080
          plain:
            image: x
            labels: {"traefik.http.routers.p.rule": "PathPrefix(`/p`)", "traefik.http.routers.p.tls": "false",
                     "traefik.http.routers.p.entrypoints": websecure}
          off:
            image: x
            labels: {traefik.enable: false, "traefik.http.routers.o.rule": "Host(`o`)"}
          swarm:
            image: x
            deploy:
              labels: ["traefik.http.routers.s.rule=Host(`s`)", "traefik.http.routers.s.tls.certresolver=le",
                       "traefik.http.routers.s.service=app"]
    """)
    routes = [
        (
            e.start.name,
            e.end.name,
            e.properties.get("host"),
            e.properties.get("path"),
            e.properties["tls"],
            e.properties.get("port"),
        )
        for e in read.edges("ROUTES_TO")
    ]
    assert routes == [
        ("edge", "app", "a.x", "/", True, 8080),
        ("edge", "app", "b.x", "/", True, 8080),
        ("edge", "plain", None, "/p", False, None),
        ("edge", "app", "s", "/", True, 8080),
    ]
    assert read.nodes("ReverseProxy")[0].properties == {"type": "traefik", "version": "v3.1"}
    (exposed,) = read.edges("EXPOSES_ENDPOINT")
    assert exposed.end.key == ("http", "app", 8080, "/")
    assert read.quote(exposed.evidence).endswith("server.port=8080")
    assert {e.start_basis for e in read.edges("ROUTES_TO")} == {Basis.DERIVED}


def test_what_traefik_answers_itself_leads_to_no_other_container() -> None:
    label = "labels: {traefik.http.routers.NAME.rule: PathPrefix(`/NAME`), "
    label += "traefik.http.routers.NAME.service: x@internal}"
    own, other = label.replace("NAME", "api"), label.replace("NAME", "ping")
    read = interpret(
        f"services:\n  edge: {{image: 'traefik:v3', {own}}}\n  ping: {{image: whoami, {other}}}\n"
    )
    assert [(e.end.name, e.properties["path"]) for e in read.edges("ROUTES_TO")] == [("edge", "/api")]


def test_without_traefik_in_the_project_the_sources_proxy_routes() -> None:
    text = "services: {app: {image: x, labels: {'traefik.http.routers.a.rule': 'Host(`${H:-a}`)'}}}"
    read = interpret(text, proxy="gate")
    assert [(e.start.name, e.start_basis, e.properties["host"]) for e in read.edges("ROUTES_TO")] == [
        ("gate", Basis.SOURCE, "a")
    ]
    assert interpret(text).edges("ROUTES_TO")[0].start.name == "lab"


def test_tcp_udp_and_services_of_other_providers() -> None:
    read = interpret("""
        services:
          db:
            image: x
            labels:
              traefik.tcp.routers.db.rule: HostSNI(`db.x`)
              traefik.tcp.routers.db.tls: "true"
              traefik.tcp.services.db.loadbalancer.server.port: "5432"
              traefik.udp.routers.u.entrypoints: dns
              traefik.http.routers.file.rule: Host(`f`)
              traefik.http.routers.file.service: x@file
              traefik.http.services.s.loadbalancer.server.port: "99999"
    """)
    assert [
        (e.properties.get("host"), e.properties.get("scheme"), e.properties["tls"], e.properties.get("port"))
        for e in read.edges("ROUTES_TO")
    ] == [("db.x", "tcp", True, 5432), (None, "udp", False, None)]
    # What is asked for by TLS alone has no path.
    assert not any("path" in e.properties for e in read.edges("ROUTES_TO"))
    assert [e.end.key for e in read.edges("EXPOSES_ENDPOINT")] == [("tcp", "db", 5432, "/")]


def test_labels_of_traefik_1() -> None:
    read = interpret("""
        services:
          app:
            image: x
            labels:
              traefik.enable: "true"
              traefik.frontend.rule: "Host:a.x,b.x;PathPrefixStrip:/p"
              traefik.frontend.entryPoints: https
              traefik.frontend.auth.basic.users: "x:y"
              traefik.port: "8080"
          parts:
            image: x
            labels:
              traefik.protocol: https
              traefik.one.frontend.rule: Host:one.x
              traefik.one.port: 81
              traefik.two.frontend.rule: Host:two.x
              traefik.two.port: 82
              traefik.two.protocol: http
          both:
            image: x
            labels:
              traefik.frontend.rule: Host:old.x
              traefik.http.routers.n.rule: Host(`new.x`)
    """)
    assert [
        (
            e.end.name,
            e.properties["host"],
            e.properties.get("path"),
            e.properties["tls"],
            e.properties.get("port"),
        )
        for e in read.edges("ROUTES_TO")
    ] == [
        ("app", "a.x", "/p", True, 8080),
        ("app", "b.x", "/p", True, 8080),
        ("parts", "one.x", "/", False, 81),
        ("parts", "two.x", "/", False, 82),
        ("both", "new.x", "/", False, None),
    ]
    assert [(e.end.key, e.properties.get("auth")) for e in read.edges("EXPOSES_ENDPOINT")] == [
        (("http", "app", 8080, "/"), "basic"),
        (("https", "parts", 81, "/"), None),
        (("http", "parts", 82, "/"), None),
    ]


def test_middlewares_say_how_an_endpoint_is_guarded() -> None:
    read = interpret("""
        services:
          sso:
            image: x
            labels:
              traefik.http.middlewares.sso.forwardauth.address: http://sso:9091
              traefik.http.middlewares.all.chain.middlewares: strip,sso
              traefik.http.middlewares.pass.basicauth.users: x
              traefik.http.middlewares.loop.chain.middlewares: loop
          chained: {image: x, labels: {"traefik.http.routers.a.rule": "Host(`a`)",
            "traefik.http.routers.a.middlewares": "loop,all@docker",
            "traefik.http.services.a.loadbalancer.server.port": "1"}}
          file: {image: x, labels: {"traefik.http.routers.b.rule": "Host(`b`)",
            "traefik.http.routers.b.middlewares": "headers@file,authelia@file",
            "traefik.http.services.b.loadbalancer.server.port": "2"}}
          front: {image: x, labels: {"traefik.http.routers.c.rule": "Host(`c`)",
            "traefik.http.routers.d.rule": "Host(`c`) && PathPrefix(`/admin`)",
            "traefik.http.routers.d.middlewares": "pass", "traefik.http.routers.c.service": c,
            "traefik.http.routers.d.service": c, "traefik.http.services.c.loadbalancer.server.port": "3"}}
    """)
    assert {
        e.start.name: (e.properties.get("auth"), e.properties.get("authInclude"))
        for e in read.edges("EXPOSES_ENDPOINT")
    } == {"chained": ("oauth2", "sso"), "file": ("oauth2", "authelia"), "front": (None, None)}


def test_a_container_without_a_rule_has_the_default_one() -> None:
    services = """
          app: {image: x, labels: {traefik.enable: "true",
            "traefik.http.services.a.loadbalancer.server.port": "80"}}
          off: {image: x, labels: {traefik.enable: "false"}}
          unasked: {image: x, labels: {"traefik.http.services.a.loadbalancer.server.port": "80"}}
          tcp: {image: x, labels: {traefik.enable: "true",
            "traefik.tcp.services.t.loadbalancer.server.port": "1"}}
    """
    own = "edge: {image: traefik, command: [%s]}"

    def hosts(command: str) -> list[tuple[str, str, int | None]]:
        read = interpret(f"name: my_lab\nservices:\n          {own % command}{services}")
        return [(e.end.name, e.properties["host"], e.properties.get("port")) for e in read.edges("ROUTES_TO")]

    assert hosts("") == [("app", "app-my-lab", 80)]
    rule = "--providers.docker.defaultrule=Host(`{{ normalize .Name }}.lan`)"
    assert hosts(f"'{rule}'") == [("app", "app-my-lab.lan", 80)]
    assert hosts("'--providers.docker.defaultrule=Host(`{{ index .Labels }}`)'") == [], "no guess"


def test_a_route_with_a_variable_that_has_no_value_keeps_its_name() -> None:
    text = """
        services:
          git:
            image: x
            labels:
              - traefik.http.routers.git.rule=Host(`git.${DOMAIN}`) && PathPrefix(`/${BASE:-x}`)
              - traefik.http.routers.why.rule=Host(`why.${DOMAIN:?set it in .env}`)
              - traefik.http.routers.all.rule=${RULE}
              - traefik.http.routers.old.rule=Host(`$HOST`)
              - traefik.http.services.git.loadbalancer.server.port=${PORT}
    """
    read = interpret(text)
    assert [(e.properties["host"], e.properties["unresolved"]) for e in read.edges("ROUTES_TO")] == [
        ("git.${DOMAIN}", ["DOMAIN"]),
        ("why.${DOMAIN}", ["DOMAIN"]),
        ("$HOST", ["HOST"]),
    ]
    said = [(p.code, p.message) for p in read.result.problems]
    assert said == [("E_UNSET", f"{name} has no value.") for name in ("DOMAIN", "RULE", "HOST", "PORT")]
    (service,) = read.nodes("Service")
    assert "labels: ${DOMAIN}" in service.properties["unresolved"]
    env = "DOMAIN=x.org\nHOST=h\nRULE=Host(`r`)\nPORT=80\n"
    known = interpret({"app/compose.yaml": text, "app/.env": env})
    routes = known.edges("ROUTES_TO")
    assert [e.properties["host"] for e in routes] == ["git.x.org", "why.x.org", "r", "h"]
    assert not any("unresolved" in e.properties for e in routes) and known.result.problems == ()
