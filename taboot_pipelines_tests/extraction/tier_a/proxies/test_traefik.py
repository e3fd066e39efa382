"""Traefik's dynamic configuration, what its API tells, and its Kubernetes resources, as routes."""

from __future__ import annotations

import json

import pytest

from taboot_pipelines.extraction.tier_a.traefik.files import looks_like_traefik
from taboot_pipelines.extraction.tier_a.traefik.rules import Target, old_targets
from taboot_pipelines.model.records import Interpretation
from taboot_pipelines_tests.extraction.tier_a.proxies.reading import auths, codes, interpret, quotes, rows

YAML = """
    http:
      routers:
        app:
          rule: Host(`a.lan`) && (PathPrefix(`/x`) || Path(`/y`))
          entryPoints: [web]
          service: app
          middlewares: [chained@file]
          tls: {}
        all:
          rule: "HostRegexp(`^.+\\\\.lan$`)"
          service: mixed
        inside:
          rule: Host(`t.lan`)
          service: api@internal
        elsewhere:
          rule: Host(`d.lan`)
          service: it@docker
        missing:
          rule: Host(`m.lan`)
          service: missing
      middlewares:
        chained: {chain: {middlewares: [strip, sso]}}
        strip: {stripPrefix: {prefixes: [/x]}}
        sso: {forwardAuth: {address: "http://sso:9091"}}
      services:
        app:
          loadBalancer:
            servers:
              - url: http://app:3000/base
              - url: "https://10.0.0.3"
        mixed:
          weighted: {services: [{name: one, weight: 1}, {name: both}]}
        both: {mirroring: {service: one, mirrors: [{name: two, percent: 5}]}}
        one: {loadBalancer: {servers: [{url: h2c://one}]}}
        two: {failover: {service: three, fallback: both}}
        three: {loadBalancer: {servers: [{url: "http://[fd00::5]:81"}, {url: "{{ env `X` }}"}]}}
    tcp:
      routers:
        db: {rule: "HostSNI(`*`)", service: db}
        pass: {rule: "HostSNI(`p.lan`)", service: db, tls: {passthrough: true}}
      services:
        db: {loadBalancer: {servers: [{address: "db:5432"}]}}
    udp:
      routers:
        dns: {service: dns, entryPoints: [dns]}
      services:
        dns: {loadBalancer: {servers: [{address: "10.0.0.9:53"}]}}
"""
EXPECTED = {
    *(
        ("a.lan", f"{kind}(`{path}`)", path, True, target)
        for kind, path in (("PathPrefix", "/x"), ("Path", "/y"))
        for target in ("http app:3000", "https 10.0.0.3:443")
    ),
    ("^.+\\.lan$", None, "/", False, "http one:80"),
    ("^.+\\.lan$", None, "/", False, "http fd00::5:81"),
    ("*", None, None, False, "tcp db:5432"),
    ("p.lan", None, None, True, "tcp db:5432"),
    (None, None, None, False, "udp 10.0.0.9:53"),
}
TOML = """
    [http.routers.app]
      rule = "Host(`a.lan`) && (PathPrefix(`/x`) || Path(`/y`))"
      entrypoints = ["web"]
      service = "app"
      middlewares = ["sso"]
      [http.routers.app.tls]
    [http.middlewares.sso.forwardauth]
      address = "http://sso:9091"
    [http.services]
      [http.services.app.loadbalancer]
        [[http.services.app.loadbalancer.servers]]
          url = "http://app:3000/base"
        [[http.services.app.loadbalancer.servers]]
          url = 'https://10.0.0.3'
    [tcp]
    routers = { db = { rule = "HostSNI(`*`)", service = "db" } } # the database
    services = { db = { loadBalancer = { servers = [{ address = "db:5432" }] } } }
"""


def read(text: str, name: str = "dynamic.yml", **facts: str) -> Interpretation:
    return interpret({name: text}, name, **facts)


def test_the_file_provider_in_yaml() -> None:
    said = read(YAML)
    assert rows(said) == EXPECTED
    assert auths(said) == {"app": ("oauth2", "sso"), "one": ("none", None), "db": ("none", None)}
    assert {"http://app:3000/base", '"https://10.0.0.3"', "h2c://one"} <= quotes(said, {"dynamic.yml": YAML})
    assert sorted(codes(said)) == ["E_CYCLE", "E_NOT_FOUND", "E_UNRESOLVED", "E_UNRESOLVED"]


def test_the_file_provider_in_toml_points_to_the_statement() -> None:
    said = read(TOML, "dynamic.toml")
    assert rows(said) == {r for r in EXPECTED if r[0] in ("a.lan", "*")}
    assert auths(said) == {"app": ("oauth2", "sso"), "db": ("none", None)}
    assert quotes(said, {"dynamic.toml": TOML}) == {
        'url = "http://app:3000/base"',
        "url = 'https://10.0.0.3'",
        'services = { db = { loadBalancer = { servers = [{ address = "db:5432" }] } } }',
    }


def test_files_of_one_directory_are_read_together() -> None:
    files = {
        "traefik.yml": """
            entryPoints:
              web: {address: ":80"}
              secure:
                address: ":443"
                http: {tls: {}, middlewares: [auth@file]}
            providers: {file: {directory: /etc/traefik/dynamic}}
        """,
        "dynamic/routers.yml": """
            http:
              routers:
                a: {rule: Host(`a.lan`), service: app, entryPoints: [secure]}
                b: {rule: Host(`b.lan`), service: app, entryPoints: [web]}
              middlewares:
                auth: {basicAuth: {users: [x]}}
        """,
        "dynamic/services.toml": """
            [[http.services.app.loadBalancer.servers]]
            url = "http://app:1"
        """,
        "other/services.yml": "http: {services: {app: {loadBalancer: {servers: [{url: 'http://no:1'}]}}}}",
    }
    said = interpret(files, "dynamic/routers.yml")
    assert rows(said) == {
        ("a.lan", None, "/", True, "http app:1"),
        ("b.lan", None, "/", False, "http app:1"),
    }
    assert {e.evidence.path for e in said.edges} == {"dynamic/services.toml"}
    assert interpret(files, "dynamic/services.toml").edges == ()


def test_templates_are_not_run() -> None:
    said = read("""
        http:
          routers:
            a: {rule: Host(`a.lan`), service: a}
            b:
              rule: Host(`{{ env "HOST" }}`)
              service: a
          services:
            a:
              loadBalancer:
                servers:
                  {{ range $i := loop }}
                  - url: {{ .Url }}
                  {{ end }}
                  - url: http://known:80
    """)
    assert rows(said) == {("a.lan", None, "/", False, "http known:80")}
    assert codes(said) == ["E_UNRESOLVED", "E_UNRESOLVED"]


def test_routers_below_others() -> None:
    said = read("""
        http:
          routers:
            parent: {rule: Host(`a.lan`) && PathPrefix(`/x`), middlewares: [sso], tls: {}}
            child: {rule: "Header(`X`, `y`)", service: app, parentRefs: [parent]}
            itself: {rule: Path(`/z`), service: app, parentRefs: [itself]}
          middlewares: {sso: {digestAuth: {users: []}}}
          services: {app: {loadBalancer: {servers: [{url: "http://app"}]}}}
    """)
    assert rows(said) == {
        ("a.lan", "PathPrefix(`/x`)", "/x", True, "http app:80"),
        (None, "Path(`/z`)", "/z", False, "http app:80"),
    }


def test_what_the_api_tells() -> None:
    told = {
        "routers": {
            "a@docker": {"rule": "Host(`a.lan`)", "service": "app", "tls": {}, "status": "enabled"},
            "b@docker": {"rule": "Host(`b.lan`)", "service": "app", "status": "disabled"},
        },
        "services": {"app@docker": {"loadBalancer": {"servers": [{"url": "http://10.0.0.2:80"}]}}},
        "tcpRouters": {"t@file": {"rule": "HostSNI(`t.lan`)", "service": "t@file", "tls": {}}},
        "tcpServices": {"t@file": {"loadBalancer": {"servers": [{"address": "t:1"}]}}},
    }
    said = read(json.dumps(told, indent="\t"), "rawdata.json")
    assert rows(said) == {
        ("a.lan", None, "/", True, "http 10.0.0.2:80"),
        ("t.lan", None, None, True, "tcp t:1"),
    }


def test_traefik_1() -> None:
    said = read(
        """
        [entryPoints.https.tls]
        [backends.app.servers.one]
          url = "http://app:80"
          weight = 10
        [frontends.a]
          backend = "app"
          entryPoints = ["https"]
          [frontends.a.auth.basic]
            users = ["x"]
          [frontends.a.routes.r]
            rule = "Host:a.lan,b.lan;PathPrefix:/x"
        [frontends.lost]
          backend = "gone"
    """,
        "old.toml",
    )
    assert rows(said) == {(host, "PathPrefix:/x", "/x", True, "http app:80") for host in ("a.lan", "b.lan")}
    assert auths(said) == {"app": ("basic", None)} and codes(said) == ["E_NOT_FOUND"]


def test_middlewares_are_looked_for_beside_the_file_and_named_where_nobody_holds_them() -> None:
    routers = "\n".join(
        f"    {name}: {{rule: Host(`{name}.lan`), service: {name}, middlewares: [{named}]}}"
        for name, named in (("a", "door"), ("b", "head, far@docker"), ("c", "head"), ("d", "authelia@docker"))
    )
    servers = "\n".join(
        f"    {name}: {{loadBalancer: {{servers: [{{url: http://{name}:80}}]}}}}" for name in "abcd"
    )
    said = interpret(
        {
            "dynamic/routes.yml": f"http:\n  routers:\n{routers}\n  services:\n{servers}\n",
            "dynamic/middlewares.yml": "http: {middlewares: {head: {headers: {frameDeny: true}},"
            " door: {chain: {middlewares: [head, inner]}}, inner: {basicAuth: {users: [u]}}}}\n",
        },
        "dynamic/routes.yml",
    )
    held = (e for e in said.edges if e.type == "EXPOSES_ENDPOINT")
    assert {e.start.name: (e.properties.get("auth"), e.properties.get("authInclude")) for e in held} == {
        "a": ("basic", None),
        "b": (None, "far@docker"),
        "c": ("none", None),
        "d": ("oauth2", "authelia"),
    }


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("Host:a", [("a", None, "/")]),
        ("Host: a , b ", [("a", None, "/"), ("b", None, "/")]),
        ("PathPrefixStrip:/x;Host:a", [("a", "PathPrefixStrip:/x", "/x")]),
        ("HostRegexp:{s:[a-z;,]+}.b", [("{s:[a-z;,]+}.b", None, "/")]),
        ("Headers:X,y;Method:GET", [(None, None, "/")]),
        ("nonsense", []),
    ],
)
def test_old_rules(rule: str, expected: list[tuple[str | None, str | None, str | None]]) -> None:
    assert old_targets(rule) == [Target(*each) for each in expected]


def test_ingress_routes() -> None:
    said = read(
        """
        apiVersion: v1
        kind: Service
        metadata: {name: app, namespace: shop}
        spec: {ports: [{name: web, port: 8080}]}
        ---
        apiVersion: traefik.io/v1alpha1
        kind: Middleware
        metadata: {name: login, namespace: shop}
        spec: {basicAuth: {secret: x}}
        ---
        apiVersion: traefik.io/v1alpha1
        kind: IngressRoute
        metadata: {name: r, namespace: shop}
        spec:
          entryPoints: [websecure]
          routes:
            - match: Host(`shop.lan`) && PathPrefix(`/a`, `/b`)
              middlewares: [{name: login}]
              services:
                - name: app
                  port: web
                - {name: both, kind: TraefikService}
            - match: Host(`api.lan`)
              services: [{name: api@internal, kind: TraefikService}, {name: gone, port: named}]
        ---
        apiVersion: traefik.containo.us/v1alpha1
        kind: TraefikService
        metadata: {name: both, namespace: shop}
        spec:
          weighted:
            services: [{name: other, namespace: x, port: 443}, {name: both, kind: TraefikService}]
        ---
        apiVersion: traefik.io/v1alpha1
        kind: IngressRouteTCP
        metadata: {name: t}
        spec: {routes: [{match: HostSNI(`*`), services: [{name: db, port: 5432}]}]}
        ---
        apiVersion: traefik.io/v1alpha1
        kind: IngressRouteUDP
        metadata: {name: u}
        spec: {routes: [{services: [{name: dns, port: 53}]}]}
    """,
        "routes.yaml",
        host="nas",
    )
    assert rows(said) == {
        *(
            ("shop.lan", f"PathPrefix(`{p}`)", p, True, target)
            for p in ("/a", "/b")
            for target in ("http app:8080", "https other:443")
        ),
        ("*", None, None, False, "tcp db:5432"),
        (None, None, None, False, "udp dns:53"),
    }
    assert {e.end.key for e in said.edges if e.type == "ROUTES_TO"} == {
        ("nas/shop", "app"),
        ("nas/x", "other"),
        ("nas/default", "db"),
        ("nas/default", "dns"),
    }
    assert auths(said)["app"] == ("basic", None)
    assert codes(said) == ["E_CYCLE", "E_UNRESOLVED"]


def test_recognition() -> None:
    assert looks_like_traefik("http:\n  # x\n\n  routers:\n    a: {}\n")
    assert looks_like_traefik("[http.routers]\n  [http.routers.a]\n")
    assert looks_like_traefik("api: {}\nentryPoints:\n  web:\n    address: x\n")
    assert not looks_like_traefik("services:\n  http:\n    image: x\n")
    assert not looks_like_traefik("http:\n  port: 80\n")
    assert not looks_like_traefik("[package]\nname = 'x'\n")


@pytest.mark.parametrize(
    ("limit", "rate"),
    [
        ("{average: 100}", 6000),
        ("{average: 30, period: 1m}", 30),
        ("{average: 1, period: 2h}", 1),
        ("{average: 5, period: 500ms}", 600),
        ("{average: 0}", None),
        ("{average: '{{ .Rate }}'}", None),
        ("{burst: 5}", None),
    ],
)
def test_a_limit_of_requests_is_read_in_requests_a_minute(limit: str, rate: int | None) -> None:
    said = interpret(
        {
            "dynamic.yml": f"""
            http:
              routers:
                a: {{rule: Host(`a.lan`), service: app, middlewares: [outer@file]}}
              middlewares:
                outer: {{chain: {{middlewares: [slow, outer]}}}}
                slow: {{rateLimit: {limit}}}
              services: {{app: {{loadBalancer: {{servers: [{{url: "http://app:1"}}]}}}}}}
            """
        },
        "dynamic.yml",
    )
    (edge,) = [e for e in said.edges if e.type == "EXPOSES_ENDPOINT"]
    assert edge.properties.get("rateLimit") == rate
