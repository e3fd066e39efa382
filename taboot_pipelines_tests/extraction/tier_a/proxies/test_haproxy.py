"""HAProxy's configuration as routes."""

from __future__ import annotations

import pytest

from taboot_pipelines.extraction.tier_a.haproxy.conditions import alternatives, read_acl
from taboot_pipelines.extraction.tier_a.haproxy.reader import looks_like_haproxy
from taboot_pipelines_tests.extraction.tier_a.proxies.reading import auths, codes, interpret, quotes, rows

HTTP = "defaults\n  mode http\n"


def read(text: str, **facts: str):
    return interpret({"haproxy.cfg": text}, "haproxy.cfg", **facts)


@pytest.mark.parametrize("address", [":80", "*:80", "0.0.0.0:80", ":::80", "0::0:80"])
def test_a_server_without_an_address_is_the_one_that_the_client_asked_for(address: str) -> None:
    said = read(HTTP + f"listen x\n  bind :80\n  server a {address}\n  server b app:80\n")
    assert {row[-1] for row in rows(said)} == {"http app:80"} and codes(said) == ["E_UNRESOLVED"]


def test_hosts_paths_and_the_default() -> None:
    text = """
        defaults
          mode http
        frontend web
          bind :80
          bind :443 ssl crt /etc/x.pem
          acl is_app hdr(host) -i app.lan www.app.lan
          acl api path_beg /api /v2
          acl inside src 10.0.0.0/8
          use_backend api if is_app api
          use_backend app if is_app inside or { req.hdr(host),lower -m end .apps.lan }
          use_backend img if !is_app { path_end .png }
          default_backend app
        backend api
          server one 10.0.0.1:8080 check
        backend app
          server two app:3000
          server old app-old:3000 backup
          server off gone:3000 disabled
        backend img
          server three img.lan:80
    """
    said = read(text)
    app = ("http app:3000", "http app-old:3000")
    assert rows(said) == {
        *(
            (h, f"path_beg {p}", p, True, "http 10.0.0.1:8080")
            for h in ("app.lan", "www.app.lan")
            for p in ("/api", "/v2")
        ),
        *((h, None, "/", True, t) for h in ("app.lan", "www.app.lan", ".apps.lan", None) for t in app),
        (None, "path_end .png", None, True, "http img.lan:80"),
    }
    assert "server one 10.0.0.1:8080 check" in quotes(said, {"haproxy.cfg": text})
    assert {e.end.label for e in said.edges if e.type == "ROUTES_TO"} == {"Service", "Endpoint"}
    assert auths(said) == {"app": ("none", None), "app-old": ("none", None)}
    assert codes(said) == []


def test_tcp_sni_listeners_and_forms_of_addresses() -> None:
    said = read("""
        frontend tls
          bind :443
          tcp-request inspect-delay 5s
          use_backend a if { req.ssl_sni -i a.lan }
          default_backend b
        backend a
          server a 10.0.0.1:443
        backend b
          server b [fd00::1]:443
        listen db :5432
          server s1 db
          server s2 unix@/run/pg.sock
          server s3 ipv4@10.0.0.5:+1
        listen web
          mode http
          bind *:8080
          default-server ssl verify none
          server t 10.0.0.7:8443
          server u 10.0.0.8:8080 no-ssl
          server-template w 3 web.lan:80 no-ssl
          server php 10.0.0.9:9000 no-ssl proto fcgi
    """)
    assert rows(said) == {
        ("a.lan", None, None, True, "tcp 10.0.0.1:443"),
        (None, None, None, False, "tcp fd00::1:443"),
        (None, None, None, False, "tcp db:5432"),
        (None, None, None, False, "tcp 10.0.0.5:5433"),
        (None, None, "/", False, "https 10.0.0.7:8443"),
        (None, None, "/", False, "http 10.0.0.8:8080"),
        (None, None, "/", False, "http web.lan:80"),
        (None, None, "/", False, "fastcgi 10.0.0.9:9000"),
    }


def test_environment_quoting_and_conditional_blocks() -> None:
    said = read(r"""
        global
          setenv PORT 8080
        defaults http
          mode http
        .if defined(PORT)
        listen a from http
          bind :80
          server s1 "app:${PORT}"  # a "comment
          server s2 ${HOST-fallback}:80
          server s3 "${NOWHERE}:80"
          server s4 'with space':80
        .else
        listen never
          bind :81
          server s never:80
        .endif
        .if feature(LUA)
        listen unknown
          bind :82
          server s unknown:80
        .endif
        .if 0
        listen no
          server s no:80
        .elif streq("a",a)
        listen yes from http
          bind :83
          server s yes:80
        .endif
    """)
    assert rows(said) == {
        (None, None, "/", False, "http app:8080"),
        (None, None, "/", False, "http fallback:80"),
        (None, None, "/", False, "http yes:80"),
    }
    assert codes(said) == ["E_UNRESOLVED"] * 3


def test_who_is_guarded() -> None:
    said = read("""
        defaults
          mode http
        userlist users
          user a password b
        frontend web
          bind :80
          http-request auth realm x if { path_beg /admin } !{ http_auth(users) }
          use_backend admin if { path_beg /admin/panel }
          default_backend app
        backend admin
          server a admin:80
        backend app
          server b app:80
        listen closed
          bind :81
          http-request lua.auth-request auth_be /verify
          server c closed:80
    """)
    assert auths(said) == {"admin": ("basic", None), "app": ("none", None), "closed": ("oauth2", "auth_be")}


def test_what_cannot_be_followed_is_said_and_the_rest_stands() -> None:
    said = read("""
        defaults
          mode http
        frontend web
          bind :80
          bind :81
          use_backend %[req.hdr(host),lower,map(/etc/haproxy/hosts.map,none)]
          use_backend listed if { hdr(host) -f /etc/haproxy/hosts.lst }
          use_backend nowhere if { path /x }
          server "open
          default_backend app
        backend listed
          server a listed:80
        backend app
          server a app:80
          server b client
    """)
    assert rows(said) == {(None, None, "/", False, "http app:80")}
    assert sorted(codes(said)) == ["E_NOT_FOUND", "E_PARSE", *["E_UNRESOLVED"] * 3]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("hdr(host) -i a b", ("host", "str", ("a", "b"))),
        ("hdr_dom(host) -i a", ("host", "dom", ("a",))),
        ("req.hdr(Host),field(1,:) a", ("host", "str", ("a",))),
        ("path -m beg /a", ("path", "beg", ("/a",))),
        ("ssl_fc_sni_end .a", ("sni", "end", (".a",))),
        ("hdr(user-agent) x", None),
        ("hdr_cnt(host) gt 1", None),
        ("path_len gt 3", None),
        ("req.hdr(host),map(x) -m found", None),
    ],
)
def test_acls(words: str, expected: tuple[str, str, tuple[str, ...]] | None) -> None:
    pattern = read_acl(words.split())
    assert (None if pattern is None else (pattern.kind, pattern.how, pattern.values)) == expected


def test_a_condition_is_bounded() -> None:
    acls = {name: [read_acl(f"path /{name}{i}".split()) for i in range(20)] for name in "abc"}
    assert alternatives(["a", "b", "c"], acls) is None
    found = alternatives(["a"], acls)
    assert found is not None and len(found) == 20


def test_recognition_leaves_nginx_alone() -> None:
    assert looks_like_haproxy("frontend x\n  bind :80\n")
    assert not looks_like_haproxy("server {\n  listen 80;\n  server_name x;\n  server app:80;\n}\n")
    assert rows(
        interpret({"conf.d/10-web.cfg": HTTP + "listen x\n bind :80\n server a b:80\n"}, "conf.d/10-web.cfg")
    )
