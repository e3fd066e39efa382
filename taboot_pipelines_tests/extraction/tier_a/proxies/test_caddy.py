"""Caddyfiles and Caddy's JSON as routes."""

from __future__ import annotations

import json

import pytest

from taboot_pipelines.model.records import Interpretation
from taboot_pipelines_tests.extraction.tier_a.proxies.reading import (
    Row,
    auths,
    codes,
    interpret,
    quotes,
    rows,
)


def read(text: str, **files: str) -> Interpretation:
    return interpret({"Caddyfile": text, **{k.replace("__", "/"): v for k, v in files.items()}}, "Caddyfile")


def web(
    host: str | None, target: str, *, tls: bool = True, location: str | None = None, path: str | None = "/"
) -> Row:
    return (host, location, path, tls, target)


def test_sites_matchers_and_handlers() -> None:
    text = """
        {
            email a@b.c
        }
        example.com, www.example.com:8443 {
            @api {
                path /api/* /v2/*
                method GET
            }
            handle @api {
                reverse_proxy api:8080
            }
            handle_path /static/* {
                reverse_proxy /img/* img:80
                reverse_proxy files.lan
            }
            @other host Other.example.com
            route @other {
                reverse_proxy h2c://grpc:9000
            }
            redir /old /new
            reverse_proxy /ws ws-1:80 ws-2:80
            reverse_proxy {
                to app:3000
                lb_policy first
                transport http {
                    tls_insecure_skip_verify
                }
            }
        }
        http://plain.lan {
            reverse_proxy unix//run/x.sock 127.0.0.1:9000 :9001
        }
        :8080 {
            reverse_proxy * app:1
        }
    """
    said = read(text)
    both = ("example.com", "www.example.com")
    assert rows(said) == {
        *(web(h, "http api:8080", location=f"{p}*", path=p) for h in both for p in ("/api/", "/v2/")),
        *(web(h, "http img:80", location="/static/* /img/*", path="/static/img/") for h in both),
        *(web(h, "http files.lan:80", location="/static/*", path="/static/") for h in both),
        web("other.example.com", "http grpc:9000"),
        *(web(h, f"http ws-{n}:80", location="/ws", path="/ws") for h in both for n in (1, 2)),
        *(web(h, "https app:3000") for h in both),
        web("plain.lan", "http 127.0.0.1:9000", tls=False),
        web("plain.lan", "http localhost:9001", tls=False),
        web(None, "http app:1", tls=False),
    }
    found = quotes(said, {"Caddyfile": text})
    assert {"to app:3000", "reverse_proxy api:8080", "reverse_proxy /ws ws-1:80 ws-2:80"} <= found
    assert codes(said) == []


def test_imports_with_arguments_blocks_files_and_globs() -> None:
    files = {
        "Caddyfile": """
            (proxied) {
                reverse_proxy {args[0]}:{args[1]} {
                    {block}
                }
            }
            (site) {
                https://{args[0]} {
                    {block}
                }
            }
            a.lan {
                import proxied alpha 80
            }
            b.lan {
                import proxied beta 81 {
                    transport fastcgi
                }
            }
            import site c.lan {
                reverse_proxy gamma
            }
            import sites/*.caddy
            import /etc/caddy/more.conf delta:83
        """,
        "sites/x.caddy": "x.lan {\n\treverse_proxy xi:1\n}\n",
        "sites/y.caddy": "y.lan {\n\timport ../part\n}\n",
        "part": "reverse_proxy ypsilon:2\n",
        "more.conf": "d.lan {\n\treverse_proxy {args[:]}\n}\n",
    }
    said = interpret(files, "Caddyfile")
    assert rows(said) == {
        web("a.lan", "http alpha:80"),
        web("b.lan", "fastcgi beta:81"),
        web("c.lan", "http gamma:80"),
        web("x.lan", "http xi:1"),
        web("y.lan", "http ypsilon:2"),
        web("d.lan", "http delta:83"),
    }
    assert said.subordinates == {"sites/x.caddy", "sites/y.caddy", "part", "more.conf"}
    by_target = {e.end.name: e.evidence.path for e in said.edges if e.type == "ROUTES_TO"}
    assert by_target["ypsilon"] == "part" and by_target["xi"] == "sites/x.caddy"
    assert by_target["delta"] == "Caddyfile", "an argument stands where the import does"
    assert codes(said) == []


def test_bad_imports_are_typed_problems() -> None:
    said = read(
        "(a) {\n import b\n}\n(b) {\n import a\n}\nx.lan {\n import a\n import nowhere\n import ../../out\n"
        " import {$WHERE}\n import loop\n reverse_proxy app:80\n}\n",
        loop="import loop\n",
    )
    assert rows(said) == {web("x.lan", "http app:80")}
    assert sorted(codes(said)) == ["E_CYCLE", "E_CYCLE", "E_NOT_FOUND", "E_NOT_FOUND", "E_UNRESOLVED"]


def test_variables_ranges_and_what_only_a_request_sets() -> None:
    said = read("""
        {$HOST:home.lan} {
            reverse_proxy {$UP:one} two:8001-8003
            reverse_proxy /a {$NOWHERE}:80
            reverse_proxy /b {re.x.1}:80
            reverse_proxy /c {
                dynamic a name.lan 9000
            }
            reverse_proxy /d {
                dynamic srv _x._tcp.lan
            }
        }
        {$DOMAIN} {
            reverse_proxy three
        }
    """)
    assert rows(said) == {
        web("home.lan", "http one:80"),
        *(web("home.lan", f"http two:{port}") for port in (8001, 8002, 8003)),
        web("home.lan", "http name.lan:9000", location="/c", path="/c"),
        web("{$DOMAIN}", "http three:80"),
    }
    exposed = [e.end.key[1:3] for e in said.edges if e.type == "EXPOSES_ENDPOINT" and e.start.name == "two"]
    assert exposed == [("two", 8001), ("two", 8002), ("two", 8003)]
    assert codes(said) == ["E_UNRESOLVED"] * 4


def test_who_is_guarded() -> None:
    said = read("""
        a.lan {
            forward_auth authelia:9091 {
                uri /api/verify
            }
            reverse_proxy app
        }
        b.lan {
            basic_auth /admin/* {
                bob $2a$14$x
            }
            reverse_proxy /admin/* admin
            reverse_proxy open
        }
        c.lan {
            route {
                reverse_proxy /first first
                basicauth {
                    bob x
                }
                reverse_proxy second
            }
        }
    """)
    assert auths(said) == {
        "app": ("oauth2", "authelia:9091"),
        "admin": ("basic", None),
        "open": ("none", None),
        "first": ("none", None),
        "second": ("basic", None),
    }


def test_a_file_with_one_site_needs_no_braces_and_words_are_split_as_caddy_does() -> None:
    said = read(
        "# a comment\nlocalhost\nreverse_proxy \\\n\tapp:80 # not this:81\n"
        'respond "a } b {" 200\nrespond <<END\nreverse_proxy no:1\nEND 200\n'
        "php_fastcgi unix//run/php.sock\n"
        "php_fastcgi /blog/* php:9000 {\n split .php .phtml\n}\n"
    )
    assert rows(said) == {
        web("localhost", "http app:80"),
        web("localhost", "fastcgi php:9000", location="/blog/* *.php", path="/blog/"),
        web("localhost", "fastcgi php:9000", location="/blog/* *.phtml", path="/blog/"),
    }


def test_named_routes() -> None:
    said = read("""
        &(up) {
            reverse_proxy app:80
            invoke up
        }
        a.lan {
            invoke up
            invoke missing
        }
    """)
    assert rows(said) == {web("a.lan", "http app:80")} and codes(said) == ["E_CYCLE", "E_NOT_FOUND"]


def test_a_file_that_caddy_refuses_is_a_problem() -> None:
    for text in (
        "a.lan {\n reverse_proxy x\n",
        "a.lan {\n}\n}\n",
        'a.lan\nrespond "open\n',
        "a.lan\nrespond <<END\nx\n",
    ):
        said = read(text)
        assert codes(said) == ["E_PARSE"] and not said.edges, text
    assert codes(read("x {\n" * 200 + "}\n" * 200)) == ["E_TOO_LARGE"]
    bomb = "".join(f"(s{n}) {{\n import s{n - 1}\n import s{n - 1}\n}}\n" for n in range(1, 23))
    assert "E_TOO_LARGE" in codes(read(f"(s0) {{\n a b c d\n}}\n{bomb}x.lan {{\n import s22\n}}\n"))


def test_streams_of_the_json() -> None:
    config = {
        "apps": {
            "layer4": {
                "servers": {
                    "s": {
                        "listen": [":443"],
                        "routes": [
                            {
                                "match": [{"tls": {"sni": ["db.lan"]}}],
                                "handle": [{"handler": "proxy", "upstreams": [{"dial": ["db:5432"]}]}],
                            },
                            {"handle": [{"handler": "proxy", "upstreams": [{"dial": ["udp/dns:53"]}]}]},
                        ],
                    }
                }
            }
        }
    }
    said = interpret({"caddy.json": json.dumps(config)}, "caddy.json")
    assert rows(said) == {
        ("db.lan", None, None, True, "tcp db:5432"),
        (None, None, None, False, "udp dns:53"),
    }
    assert not interpret({"x.json": '{"apps": 1}'}, "x.json").edges


def test_a_host_within_a_site_has_the_tls_of_the_site() -> None:
    """As the JSON that Caddy makes of it: its automatic HTTPS looks at the addresses of sites only."""
    said = read(":8884\n@test host example.com\nphp_fastcgi @test localhost:9000\n")
    config = {
        "apps": {
            "http": {
                "servers": {
                    "srv0": {
                        "listen": [":8884"],
                        "routes": [
                            {
                                "handle": [
                                    {
                                        "handler": "subroute",
                                        "routes": [
                                            {
                                                "match": [{"host": ["example.com"], "path": ["*.php"]}],
                                                "handle": [
                                                    {
                                                        "handler": "reverse_proxy",
                                                        "transport": {"protocol": "fastcgi"},
                                                        "upstreams": [{"dial": "localhost:9000"}],
                                                    }
                                                ],
                                            }
                                        ],
                                    }
                                ]
                            }
                        ],
                    }
                }
            }
        }
    }
    expected = {("example.com", "*.php", None, False, "fastcgi localhost:9000")}
    assert rows(said) == rows(interpret({"caddy.json": json.dumps(config)}, "caddy.json")) == expected


def test_what_stands_outside_of_a_site() -> None:
    assert codes(read("@foo {\n path /foo\n}\n")) == ["E_PARSE"]
    assert "E_PARSE" in codes(read("handle {\n reverse_proxy a:1\n}\n"))
    assert rows(read("http://handle {\n reverse_proxy a:1\n}\n"))


def test_two_ports_of_one_service_are_two_routes() -> None:
    said = read("a.b {\n reverse_proxy app:8001-8002 app:9000\n}")
    assert rows(said) == {web("a.b", f"http app:{port}") for port in (8001, 8002, 9000)}


LIMITED = """
    (slow) {
        rate_limit {
            zone each {
                key {remote_host}
                events 50
                window 30s
            }
            zone all {
                events 10000
                window 1h
            }
        }
    }
    a.lan {
        reverse_proxy app:80
        import slow
    }
    b.lan {
        @slow path /search*
        rate_limit @slow {
            zone z {
                events 1
                window 1s
            }
        }
        reverse_proxy other:80
    }
"""
ADAPTED = """{"apps": {"http": {"servers": {"s": {"listen": [":443"], "routes": [
    {"match": [{"host": ["a.lan"]}], "handle": [{"handler": "subroute", "routes": [{"handle": [
        {"handler": "rate_limit", "rate_limits": {"each": {"max_events": 50, "window": 30000000000}}},
        {"handler": "reverse_proxy", "upstreams": [{"dial": "app:80"}]}]}]}]},
    {"match": [{"host": ["b.lan"]}], "handle": [
        {"handler": "reverse_proxy", "upstreams": [{"dial": "other:80"}]}]}]}}}}}"""


@pytest.mark.parametrize(("name", "text"), [("Caddyfile", LIMITED), ("caddy.json", ADAPTED)])
def test_a_limit_of_requests_is_read_in_requests_a_minute(name: str, text: str) -> None:
    said = interpret({name: text}, name)
    rates = {e.start.name: e.properties.get("rateLimit") for e in said.edges if e.type == "EXPOSES_ENDPOINT"}
    assert rates == {"app": 100, "other": None}
