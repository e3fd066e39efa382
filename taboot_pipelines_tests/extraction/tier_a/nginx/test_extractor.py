"""Routes and endpoints as the mapping "nginx, SWAG" reads them, one fixture a rule, then the real confs."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.nginx.directives import location_path
from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor, looks_like_nginx
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import FileView, SourceFacts, UnitSpec
from taboot_pipelines_tests.extraction.tier_a.nginx.support import (
    DATA,
    SOURCE,
    ends,
    exposures,
    in_location,
    read,
    routes,
)

SWAG = """server {
    listen 443 ssl;
#   listen 443 quic;
    server_name adminer.*;
    include /config/nginx/ssl.conf;
    location / {
        #include /config/nginx/authelia-location.conf;
        include /config/nginx/proxy.conf;
        set $upstream_app adminer;
        set $upstream_port 8080;
        set $upstream_proto http;
        proxy_pass $upstream_proto://$upstream_app:$upstream_port;
    }
}
"""


def test_a_swag_subdomain() -> None:
    result, view = read({"proxy-confs/adminer.subdomain.conf": SWAG})
    (route,), (exposure,) = routes(result), exposures(result)
    assert (route.start.label, route.start.key) == ("ReverseProxy", ("swag",))
    assert (route.end.label, route.end.key) == ("Service", ("", "adminer"))
    assert route.properties == {
        "host": "adminer.*",
        "location": "/",
        "path": "/",
        "tls": True,
        "port": 8080,
        "scheme": "http",
        "auth": "none",
    }
    assert (route.start_basis, route.end_basis, route.method) == (
        Basis.SOURCE,
        Basis.BYTES,
        "nginx_proxy_pass",
    )
    quote = SWAG[route.evidence.start : route.evidence.end]
    assert quote.startswith("set $upstream_app adminer;")
    assert quote.endswith("proxy_pass $upstream_proto://$upstream_app:$upstream_port;")
    assert exposure.end.key == ("http", "adminer", 8080, "/")
    assert exposure.properties == {"auth": "none"}
    assert result.problems == ()
    # Looked for and absent: should they appear, the unit is read again.
    assert view.reads["proxy.conf"] is False
    assert view.reads["proxy-confs/proxy.conf"] is False
    proxy = next(n for n in result.nodes if n.node.label == "ReverseProxy")
    assert proxy.properties == {"type": "nginx", "configPath": "proxy-confs/adminer.subdomain.conf"}


def test_the_sources_proxy_names_the_proxy() -> None:
    result, _ = read({"a.conf": SWAG}, source=SourceFacts("default", "confs", proxy="edge"))
    assert routes(result)[0].start.key == ("edge",)


def test_a_fragment_without_a_server_has_no_host() -> None:
    result, _ = read(
        {
            "a.subfolder.conf": (
                "location ^~ /a/ {\n proxy_pass http://a:1;\n}\nlocation /a { return 301 /a/; }\n#location /b"
                " { proxy_pass http://b; }"
            )
        }
    )
    assert ends(result) == [(None, "^~ /a/", "/a/", ("", "a"))]
    assert routes(result)[0].properties["tls"] is False


def test_one_edge_per_server_name() -> None:
    result, _ = read(
        {
            "a.conf": in_location(
                "proxy_pass http://a:1;", "server_name a.org *.a.org '~^x(?<y>.+)$'; server_name a.org;"
            )
        }
    )
    assert [e.properties.get("host") for e in routes(result)] == ["a.org", "*.a.org", "~^x(?<y>.+)$"]
    assert len(exposures(result)) == 1


@pytest.mark.parametrize(
    ("args", "path"),
    [
        (["/a"], "/a"),
        (["=", "/a"], "/a"),
        (["^~", "/a/"], "/a/"),
        (["=/a"], "/a"),
        (["~^/a/b"], "/a/b"),
        (["@x"], None),
        (["~", "^/api/v1"], "/api/v1"),
        (["~", "/api"], None),
        (["~", "(/x)?/api"], None),
        (["~*", r"\.php$"], None),
        (["~", "^/ab?c"], "/a"),
        (["~", "^/ab*"], "/a"),
        (["~", "^/ab+"], "/ab"),
        (["~", r"^/a\.b/(c|d)"], "/a.b/"),
        (["~", "^/a|/b"], None),
        (["~", "^/a(b|c)|d"], None),
        (["~", "^/a[|]b"], "/a"),
        (["~", r"^/a\d"], "/a"),
        (["~", "^/a$"], "/a"),
        (["~", "^/a{2}"], "/"),
        (["~", "^(/a)"], None),
    ],
)
def test_the_literal_prefix_of_a_location(args: list[str], path: str | None) -> None:
    assert location_path(args) == path


def test_nested_blocks_belong_to_the_innermost_location() -> None:
    result, _ = read(
        {
            "a.conf": (
                """server { location /a { proxy_pass http://a:1;
        location ~ ^/a/x { proxy_pass http://b:2; }
        if ($x) { proxy_pass http://c:3; }
        limit_except GET { proxy_pass http://d:4; } } }"""
            )
        }
    )
    assert sorted(ends(result), key=str) == [
        (None, "/a", "/a", ("", "a")),
        (None, "/a", "/a", ("", "c")),
        (None, "/a", "/a", ("", "d")),
        (None, "~ ^/a/x", "/a/x", ("", "b")),
    ]


@pytest.mark.parametrize(
    ("listen", "tls"),
    [
        ("listen 80;", False),
        ("listen 443 ssl;", True),
        ("listen [::]:443 ssl http2;", True),
        ("listen 443 quic;", True),
        ("ssl on;", True),
        ("listen 443;", False),
        ("#listen 443 ssl;", False),
        ("listen 80; listen 8443 ssl;", True),
    ],
)
def test_tls(listen: str, tls: bool) -> None:
    result, _ = read({"a.conf": in_location("proxy_pass http://a:1;", listen + "\n")})
    assert routes(result)[0].properties["tls"] is tls


@pytest.mark.parametrize(
    ("conf", "name", "basis"),
    [
        # The innermost block's assignment counts, its last one, wherever it stands in the block.
        (
            "set $h outer; server { set $h middle; location / { set $h inner; proxy_pass http://$h; } }",
            "inner",
            Basis.BYTES,
        ),
        ("server { set $h middle; location / { proxy_pass http://$h; } }", "middle", Basis.DERIVED),
        ("server { location / { proxy_pass http://$h; set $h one; set $h two; } }", "two", Basis.BYTES),
        (
            "server { location / { set $a one; set $h $a-x; set $a two; proxy_pass http://${h}; } }",
            "one-x",
            Basis.DERIVED,
        ),
        ("server { location / { set $u http://one:9/x; proxy_pass $u; } }", "one", Basis.BYTES),
        # Another location's assignment does not.
        (
            "server { set $h all; location /x { set $h x; } location / { proxy_pass http://$h; } }",
            "all",
            Basis.DERIVED,
        ),
    ],
)
def test_set_variables(conf: str, name: str, basis: Basis) -> None:
    result, _ = read({"a.conf": conf})
    (route,) = routes(result)
    assert (route.end.key, route.end_basis) == (("", name), basis)


def test_a_quote_stays_small() -> None:
    result, _ = read({"a.conf": in_location("set $h far;\n" + "# padding\n" * 400 + "proxy_pass http://$h;")})
    (route,) = routes(result)
    assert route.end_basis is Basis.DERIVED
    assert route.evidence.end - route.evidence.start == len("proxy_pass http://$h;")


@pytest.mark.parametrize(
    "value",
    ["http://$backend:80", "http://a:$p", "$unset", "http://$host$request_uri", "$what://a:1", "http://a$1"],
)
def test_what_only_a_request_knows_is_marked_and_gives_no_edge(value: str) -> None:
    result, _ = read({"a.conf": "location / {\n proxy_pass " + value + ";\n}"})
    assert result.edges == () and result.nodes == ()
    (problem,) = result.problems
    assert problem.code == "E_UNRESOLVED" and "line 2" in problem.message and value not in problem.message


def test_a_template_is_read_but_for_what_it_puts_in() -> None:
    conf = """{% set ports = [
  80,
] -%}
server {
  listen {{ port }};
  server_name app.{{ domain }} ok.example.org;
  location /a { proxy_pass http://{{ address }}:8080; }
  {% if tls %}
  location /b { proxy_pass http://backend:3000; }
  {% endif %}
}
"""
    result, _ = read({"a.conf": conf})
    assert ends(result) == [
        ("app.${domain}", "/b", "/b", ("", "backend")),
        ("ok.example.org", "/b", "/b", ("", "backend")),
    ]
    assert {p.code for p in result.problems} == {"E_UNRESOLVED"}


def test_a_template_that_cannot_be_read_unfilled_is_no_mistake() -> None:
    result, _ = read({"a.conf": 'server { add_header X "{{ a }}"{{ b }} "c"d; }'})
    assert not result.edges
    (problem,) = result.problems
    assert problem.code == "E_UNRESOLVED" and "template" in problem.message


def test_a_template_of_another_program_is_not_taken_for_nginx() -> None:
    assert not looks_like_nginx("driftfile /var/lib/ntp.drift\nserver {{ server }} iburst\n")
    assert looks_like_nginx("server {\n  listen {{ port }};\n}\n")


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("http://a", ("http", "a", 80, "/")),
        ("https://a", ("https", "a", 443, "/")),
        ("http://a:81/x/$1", ("http", "a", 81, "/")),
        ("http://a:81$request_uri", ("http", "a", 81, "/")),
        ("http://a$request_uri", ("http", "a", 80, "/")),
        ("http://a?x=$args", ("http", "a", 80, "/")),
        ("http://my_app.A:82", ("http", "my_app.a", 82, "/")),
        ("http://10.0.0.1:9", ("http", "10.0.0.1", 9, "/")),
        ("http://[2001:DB8::1]:9/", ("http", "2001:db8::1", 9, "/")),
        ("http://localhost:9", ("http", "localhost", 9, "/")),
        ("https://x.example.org.", ("https", "x.example.org", 443, "/")),
    ],
)
def test_endpoints(value: str, key: tuple[object, ...]) -> None:
    result, _ = read({"a.conf": in_location(f"proxy_pass {value};")})
    assert [n.node.key for n in result.nodes if n.node.label == "Endpoint"] == [key]
    bare = "." not in str(key[1]) and ":" not in str(key[1]) and key[1] != "localhost"
    assert routes(result)[0].end.label == ("Service" if bare else "Endpoint")
    assert len(exposures(result)) == bare


@pytest.mark.parametrize(
    ("directive", "key", "method"),
    [
        ("grpc_pass grpc://a:50051", ("grpc", "a", 50051, "/"), "nginx_grpc_pass"),
        ("grpc_pass a:50051", ("grpc", "a", 50051, "/"), "nginx_grpc_pass"),
        ("grpc_pass grpcs://a", ("grpc+tls", "a", 443, "/"), "nginx_grpc_pass"),
        ("fastcgi_pass php:9000", ("fastcgi", "php", 9000, "/"), "nginx_fastcgi_pass"),
        ("uwsgi_pass a:3031", ("uwsgi", "a", 3031, "/"), "nginx_uwsgi_pass"),
        ("uwsgi_pass uwsgi://a:1", ("uwsgi", "a", 1, "/"), "nginx_uwsgi_pass"),
        ("scgi_pass a:4000", ("scgi", "a", 4000, "/"), "nginx_scgi_pass"),
    ],
)
def test_other_protocols(directive: str, key: tuple[object, ...], method: str) -> None:
    result, _ = read({"a.conf": in_location(directive + ";")})
    (exposure,) = exposures(result)
    assert (exposure.end.key, exposure.method) == (key, method)


@pytest.mark.parametrize("value", ["http://unix:/run/x.sock:/y", "unix:/run/x.sock"])
def test_a_unix_socket_is_no_edge_and_no_problem(value: str) -> None:
    result, _ = read({"a.conf": in_location(f"{'proxy' if 'http' in value else 'fastcgi'}_pass {value};")})
    assert result.edges == () and result.problems == ()


def test_upstreams_give_an_edge_per_server_with_the_servers_line_as_quote() -> None:
    conf = """http { server { location / { proxy_pass https://pool; }
      location /b { set $u pool; proxy_pass http://$u/x; } location /c { proxy_pass http://pool:90; } }
    upstream pool { zone z 64k; server a:1 weight=5; server b backup; server 10.0.0.9:3;
      server unix:/x; server gone:4 down; keepalive 8; } }"""
    result, _ = read({"nginx.conf": conf})
    found = {
        (e.properties.get("location"), e.end.key, conf[e.evidence.start : e.evidence.end], e.method)
        for e in routes(result)
    }
    lines = [("a", "server a:1 weight=5;"), ("b", "server b backup;")]
    assert found == {
        *(("/", ("", n), q, "nginx_upstream") for n, q in lines),
        *(("/b", ("", n), q, "nginx_upstream") for n, q in lines),
        ("/", ("https", "10.0.0.9", 3, "/"), "server 10.0.0.9:3;", "nginx_upstream"),
        ("/b", ("http", "10.0.0.9", 3, "/"), "server 10.0.0.9:3;", "nginx_upstream"),
        # With a port it is a host, whatever an upstream is called.
        ("/c", ("", "pool"), "proxy_pass http://pool:90;", "nginx_proxy_pass"),
    }
    # "If a port is not specified, the port 80 is used."
    assert {e.end.key for e in exposures(result) if e.start.name == "b"} == {
        ("https", "b", 80, "/"),
        ("http", "b", 80, "/"),
    }


def test_streams() -> None:
    result, _ = read(
        {
            "nginx.conf": (
                """stream { upstream dns { server 192.0.2.1:53; server ns:5353; }
        server { listen 53 udp; proxy_pass dns; } server { listen 5432; proxy_pass db:5432; }
        server { listen 9 ssl; proxy_pass db; } }"""
            )
        }
    )
    assert [(e.end.key, e.properties["tls"], e.properties.get("location")) for e in routes(result)] == [
        (("udp", "192.0.2.1", 53, "/"), False, None),
        (("", "ns"), False, None),
        (("", "db"), False, None),
    ]
    assert [p.code for p in result.problems] == ["E_UNRESOLVED"]


@pytest.mark.parametrize(
    ("before", "inside", "rate"),
    [
        ("", "limit_req zone=a burst=5;", 600),
        ("limit_req zone=b;", "", 30),
        ("limit_req zone=b;", "limit_req zone=a nodelay;", 600),  # an own limit takes the place of the outer
        ("", "limit_req zone=a; limit_req zone=b;", 30),
        ("", "limit_req zone=elsewhere;", None),
        ("", "limit_req zone=none;", None),
        ("", "limit_req;", None),
        ("", "", None),
    ],
)
def test_a_limit_of_requests_is_read_in_requests_a_minute(before: str, inside: str, rate: int | None) -> None:
    zones = (
        "limit_req_zone $binary_remote_addr zone=a:10m rate=10r/s;\n"
        "limit_req_zone $server_name zone=b:10m rate=30r/m;\nlimit_req_zone $x zone=none:1m rate=0r/s;\n"
    )
    text = f"http {{\n{zones}{in_location(inside + ' proxy_pass http://app:1;', before)}}}"
    result, _ = read({"a.conf": text})
    (edge,) = exposures(result)
    assert edge.properties.get("rateLimit") == rate


@pytest.mark.parametrize(
    ("before", "inside", "auth", "include"),
    [
        ("", "", "none", None),
        ("", "auth_basic 'R';", "basic", None),
        ("auth_basic 'R';", "", "basic", None),
        ("auth_basic 'R';", "auth_basic off;", "none", None),
        ("", "include /config/nginx/authelia-location.conf;", "oauth2", "authelia-location"),
        ("", "#include /config/nginx/authelia-location.conf;", "none", None),
        ("include /config/nginx/authentik-server.conf;", "", "none", None),
        (
            "include /config/nginx/authelia-server.conf;",
            "include /config/nginx/authelia-location.conf;",
            "oauth2",
            "authelia-location",
        ),
        ("", "include /config/nginx/ldap-location.conf; auth_basic 'R';", "oauth2", "ldap-location"),
        ("", "include tinyauth-location.conf;", "oauth2", "tinyauth-location"),
        (
            "include snippets/authelia-location.conf;",
            "include snippets/authelia-authrequest.conf;",
            "oauth2",
            "authelia-authrequest",
        ),
        ("auth_request /sso;", "", "oauth2", None),
        ("auth_request /sso;", "auth_request off;", "none", None),
        ("", "include /config/nginx/proxy.conf;", "none", None),
    ],
)
def test_auth(before: str, inside: str, auth: str, include: str | None) -> None:
    result, _ = read({"a.conf": in_location(inside + "\n proxy_pass http://a:1;", before + "\n")})
    (exposure,) = exposures(result)
    assert (exposure.properties["auth"], exposure.properties.get("authInclude")) == (auth, include)
    assert [n.properties["authRequired"] for n in result.nodes if n.node.label == "Endpoint"] == [
        auth != "none"
    ]


def test_the_front_door_says_how_an_endpoint_is_guarded() -> None:
    conf = """server { location /api { proxy_pass http://a:1; }
      location / { include /config/nginx/authelia-location.conf; proxy_pass http://a:1; } }"""
    result, _ = read({"a.conf": conf})
    assert {e.properties["auth"] for e in exposures(result)} == {"oauth2"}
    assert len(exposures(result)) == 2


def test_includes_are_followed_and_the_evidence_names_their_files() -> None:
    files = {
        "nginx.conf": (
            "http { include /etc/nginx/conf.d/*.conf; include mime.types; include"
            " /config/nginx/absent.conf; }"
        ),
        "conf.d/a.conf": "server { server_name a; location / { include snippets/pass.conf; } }",
        "conf.d/b.conf": (
            "server { server_name b; listen 443 ssl; include /config/nginx/snippets/pass.conf; location /b {"
            " proxy_pass http://b:2; } }"
        ),
        "conf.d/.hidden.conf": "server { location / { proxy_pass http://hidden:1; } }",
        "conf.d/sub/c.conf": "server { location / { proxy_pass http://c:1; } }",
        "snippets/pass.conf": "proxy_pass http://app:1;",
        "mime.types": "types { text/html html; }",
    }
    result, view = read(files)
    assert {(e.properties.get("host"), e.end.name, e.evidence.path) for e in routes(result)} == {
        ("a", "app", "snippets/pass.conf"),
        ("b", "app", "snippets/pass.conf"),
        ("b", "b", "conf.d/b.conf"),
    }
    assert result.subordinates == {"conf.d/a.conf", "conf.d/b.conf", "snippets/pass.conf", "mime.types"}
    assert view.globs["conf.d/*.conf"] == ("conf.d/a.conf", "conf.d/b.conf")
    assert view.reads["absent.conf"] is False
    assert result.problems == ()


def test_a_pattern_longer_than_any_name_takes_no_time() -> None:
    started = time.process_time()
    read({"a.conf": f"include {'[' * 40_000};\nserver {{ location / {{ proxy_pass http://app:1; }} }}"})
    assert time.process_time() - started < 5


def test_includes_are_relative_to_the_main_file_then_to_its_parents() -> None:
    files = {
        "h1/nginx/nginx.conf": "include x.conf; include y.conf;",
        "h1/nginx/x.conf": in_location("proxy_pass http://near:1;"),
        "x.conf": in_location("proxy_pass http://far:1;"),
        "h1/y.conf": in_location("proxy_pass http://above:1;"),
    }
    result, _ = read(files)
    assert [e.end.name for e in routes(result)] == ["near", "above"]


def test_an_absent_directory_of_a_pattern_does_not_take_in_the_neighbours() -> None:
    result, _ = read(
        {
            "nginx.conf": "include /etc/nginx/conf.d/*.conf;",
            "other.conf": in_location("proxy_pass http://other:1;"),
        }
    )
    assert result.subordinates == frozenset() and result.edges == ()


def test_no_include_leaves_the_source() -> None:
    _, view = read({"a/nginx.conf": "include ../../../etc/passwd; include /../../x.conf; include ..;"})
    assert all(not p.startswith(("..", "/")) for p in view.reads)


@pytest.mark.parametrize(
    "files",
    [
        {"a.conf": "include a.conf; location / { proxy_pass http://x:1; }"},
        {
            "a.conf": "location / { include b.conf; proxy_pass http://x:1; }",
            "b.conf": "location /y { include c.conf; }",
            "c.conf": "location /z { include b.conf; }",
        },
    ],
)
def test_a_cycle_is_said_and_the_rest_stands(files: dict[str, str]) -> None:
    result, _ = read(files)
    assert [p.code for p in result.problems] == ["E_CYCLE"]
    assert [e.end.name for e in routes(result)] == ["x"]


def test_doubling_includes_end() -> None:
    files = {
        f"{i}.conf": f"include {i + 1}.conf; include {i + 1}.conf; include {i + 1}.conf;" for i in range(20)
    } | {"20.conf": in_location("proxy_pass http://x:1;")}
    result, _ = read(files)
    assert "E_TOO_LARGE" in {p.code for p in result.problems}


def test_many_names_times_many_locations_end() -> None:
    names = " ".join(f"n{i}" for i in range(400))
    result, _ = read(
        {
            "a.conf": (
                f"server {{ server_name {names}; "
                + "".join(f"location /{i} {{ proxy_pass http://a:1; }}" for i in range(200))
                + "}"
            )
        }
    )
    assert "E_TOO_LARGE" in {p.code for p in result.problems}
    assert routes(result)[0].end.name == "a"


def test_errors_name_path_and_line_and_quote_nothing() -> None:
    result, _ = read(
        {
            "x/a.conf": (
                "server {\n location / {\n  proxy_pass http://ok:1;\n  set $password 'hunter2\n }\n location"
                " a b c { }\n location /q { proxy_pass http://hunter2:99999; proxy_pass; }\n"
            )
        }
    )
    assert [e.end.name for e in routes(result)] == ["ok"]
    assert {p.code for p in result.problems} == {"E_PARSE", "E_UNRESOLVED"}
    assert all(
        p.message.startswith("x/a.conf, line ") and "hunter2" not in p.message for p in result.problems
    )


def test_a_name_outside_the_model_gives_no_edge() -> None:
    result, _ = read({"a.conf": in_location("proxy_pass http://<app>:1;")})
    assert result.edges == () and [p.code for p in result.problems] == ["E_UNRESOLVED"]


def test_a_bad_file_is_a_problem_but_a_failing_store_stops_the_run() -> None:
    def view(error: TabootError) -> FileView:
        def load(path: str) -> str:
            raise error

        return FileView(frozenset(["a.conf"]), load)

    unit = UnitSpec("a.conf", ("a.conf",))
    result = NginxExtractor().interpret(unit, view(TabootError("E_ENCODING", "a.conf is not text.")), SOURCE)
    assert [p.code for p in result.problems] == ["E_ENCODING"]
    with pytest.raises(TabootError, match="E_BLOB_MISSING"):
        NginxExtractor().interpret(unit, view(TabootError("E_BLOB_MISSING", "gone")), SOURCE)
    result = NginxExtractor().interpret(unit, FileView(frozenset(), lambda p: ""), SOURCE)
    assert [p.code for p in result.problems] == ["E_NOT_FOUND"]


def test_units_are_the_files_handed_in() -> None:
    assert NginxExtractor().units(["b.conf", "a/x.conf.sample", "b.conf"]) == [
        UnitSpec("a/x.conf.sample", ("a/x.conf.sample",)),
        UnitSpec("b.conf", ("b.conf",)),
    ]


GOLD = DATA / "swag-reverse-proxy-confs" / "gold.jsonl"


@pytest.mark.needs("data")
def test_every_swag_conf_gives_the_golds_routes() -> None:
    checked = 0
    for record in map(json.loads, GOLD.read_text("utf-8").splitlines()):
        result, _ = read({record["file"]: (GOLD.parent / record["file"]).read_text("utf-8")})
        # The gold keeps the quotes of one quoted server_name; nginx takes them off.
        hosts = [n.strip('"') for n in record["server_names"]] or [None]
        # It lists the names and the routes of a file apart, so the ports of two servers are compared below.
        want = {(h, r["location"], r["app"]) for h in hosts for r in record["routes"]}
        have = {(e.properties.get("host"), e.properties.get("location"), e.end.name) for e in routes(result)}
        assert have == want, record["file"]
        assert {(e.start.name, e.end.key[2], e.end.key[0]) for e in exposures(result)} == {
            (r["app"], int(r["port"]), r["proto"]) for r in record["routes"]
        }
        assert all(e.end_basis is Basis.BYTES for e in routes(result))
        checked += len(want)
    assert checked > 200


@pytest.mark.needs("data")
def test_crossplanes_cases_follow_their_includes() -> None:
    root = DATA / "nginx-crossplane"
    subordinates = {}
    for case in sorted(p for p in root.iterdir() if p.is_dir()):
        files = {
            p.relative_to(case).as_posix(): p.read_text("utf-8", "replace") for p in case.rglob("*.conf")
        }
        result, _ = read(files, "nginx.conf")
        assert result.edges == ()
        subordinates[case.name] = result.subordinates
    assert subordinates["includes-globbed"] == {
        "http.conf",
        "locations/location1.conf",
        "locations/location2.conf",
        "servers/server1.conf",
        "servers/server2.conf",
    }
    assert subordinates["includes-regular"] == {"conf.d/server.conf", "foo.conf"}


WORDS = st.sampled_from(
    [
        "server",
        "location",
        "/",
        "~ ^/a",
        "{",
        "{",
        "}",
        ";",
        ";",
        "\n",
        "proxy_pass",
        "http://a:1",
        "$x",
        "set $x",
        "http://$x",
        "include",
        "b.conf",
        "*.conf",
        "/x/b.conf",
        "upstream u",
        "http://u",
        "server c:2",
        "listen 443 ssl",
        "server_name",
        "é",
        "if ($a)",
        "auth_basic off",
        "'",
        '"',
        "stream",
        "http",
        "#",
        "[::1",
        "http://[",
        ":99999",
        "\x00",
        "\ud800",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=30).map(" ".join), st.lists(WORDS, max_size=15).map(" ".join))
def test_any_two_files_are_read_the_same_way_twice(a: str, b: str) -> None:
    files = {"a.conf": a, "b.conf": b, "x/b.conf": b}
    first, view = read(files)
    again, view_again = read(files)
    assert (first, view.reads, view.globs) == (again, view_again.reads, view_again.globs)
