"""Several server blocks for one name: which of them takes a request, and which sockets have TLS."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines_tests.extraction.tier_a.nginx.support import exposures, in_location, read, routes

PLAIN = "server { listen 80; server_name a.org; location / { proxy_pass http://app:1; } }\n"
TLS = "server { listen 443 ssl; server_name a.org; location / { proxy_pass http://app:1; } }\n"
DEAD = (
    "server { listen 80; server_name a.org; return 301 https://$host$request_uri;"
    " location / { proxy_pass http://old:2; } }\n"
)


def found(*blocks: str) -> set[tuple[object, ...]]:
    """(host, location, target, tls) of every route."""
    result, _ = read({"nginx.conf": "".join(blocks)})
    assert result.problems == ()
    return {
        (e.properties.get("host"), e.properties.get("location"), e.end.name, e.properties["tls"])
        for e in routes(result)
    }


@pytest.mark.parametrize("blocks", list(permutations([PLAIN, TLS, DEAD])))
def test_a_route_has_tls_if_any_live_block_of_its_name_has_in_whatever_order(
    blocks: tuple[str, ...],
) -> None:
    assert found(*blocks) == {("a.org", "/", "app", True)}


def test_a_name_that_no_block_serves_with_tls_has_none() -> None:
    other = TLS.replace("a.org", "b.org")
    assert found(PLAIN, other) == {("a.org", "/", "app", False), ("b.org", "/", "app", True)}
    mixed = PLAIN.replace("location /", "location /plain")
    assert found(mixed, TLS) == {("a.org", "/plain", "app", False), ("a.org", "/", "app", True)}


@pytest.mark.parametrize("dead", [DEAD, DEAD.replace("old:2", "app:1").replace("listen 80", "listen 90 ssl")])
def test_a_dead_location_says_nothing(dead: str) -> None:
    assert found(dead) == set()
    for blocks in ((dead, PLAIN), (PLAIN, dead)):
        assert found(*blocks) == {("a.org", "/", "app", False)}
        result, _ = read({"nginx.conf": "".join(blocks)})
        assert [e.start.name for e in exposures(result)] == ["app"]


@pytest.mark.parametrize(
    ("before", "alive"),
    [
        ("return 404;", False),
        ("return https://$host;", False),
        ("rewrite ^ https://$host$request_uri? permanent;", False),
        ("rewrite ^/(.*)$ https://x.org/$1;", False),
        ("rewrite ^/(.*)$ /new/$1 redirect;", False),
        ("if ($a) { return 301 /x; } return 404;", False),
        ("if ($a) { return 301 /x; }", True),
        ("rewrite ^/old https://x.org/ permanent;", True),
        ("rewrite ^ /index.php last;", True),
        ("rewrite ^/keep /kept last; return 301 https://x.org;", True),
        ("if ($a) { break; } return 301 https://x.org;", True),
        ("break; return 301 https://x.org;", True),
        ("# return 404;", True),
    ],
)
def test_what_a_server_answers_itself(before: str, alive: bool) -> None:
    after = "\n location /b { location /b/c { proxy_pass http://c:1; } }"
    expected = {(None, "/", "a", False), (None, "/b/c", "c", False)} if alive else set()
    text = in_location("proxy_pass http://a:1;", before + after + "\n")
    assert found(text) == expected
    # Where it stands among the locations does not count.
    assert found(text.rstrip()[:-1].replace(before, "", 1) + before + "\n}\n") == expected


def test_a_location_that_an_error_leads_to_is_reached() -> None:
    text = (
        "server { error_page 418 502 = @app; return 418;\n location @app { proxy_pass http://app:1; }\n"
        " location @other { proxy_pass http://other:1; } }"
    )
    assert found(text) == {(None, "@app", "app", False)}
    text = (
        "server { location / { error_page 404 = @app; return 404; } location @app { proxy_pass http://a; } }"
    )
    assert found(text) == {(None, "@app", "a", False)}


@pytest.mark.parametrize(
    ("body", "targets"),
    [
        ("return 301 /x; proxy_pass http://a:1;", set()),
        ("proxy_pass http://a:1; return 301 /x;", set()),
        ("return 301 /x; if ($b) { proxy_pass http://a:1; }", set()),
        ("return 301 /x; limit_except GET { proxy_pass http://a:1; }", set()),
        ("return 301 /x; location /i { proxy_pass http://a:1; }", {"a"}),
        ("if ($b) { return 403; } proxy_pass http://a:1;", {"a"}),
        ("if ($b) { return 403; proxy_pass http://b:1; } proxy_pass http://a:1;", {"a"}),
    ],
)
def test_what_a_location_answers_itself(body: str, targets: set[str]) -> None:
    assert {target for _, _, target, _ in found(in_location(body))} == targets


@pytest.mark.parametrize(
    ("listen", "other", "tls"),
    [
        ("443", "443 ssl", True),
        ("443", "*:443 ssl", True),
        ("0.0.0.0:443", "443 default_server ssl http2", True),
        ("[::]:443", "[::]:443 ssl ipv6only=on", True),
        ("127.0.0.1:8443", "127.0.0.1:8443 ssl", True),
        ("127.0.0.1", "127.0.0.1:80 ssl", True),
        ("8000-8005", "8004 ssl", True),
        ("unix:/run/x.sock", "unix:/run/x.sock ssl", True),
        ("", "80 ssl", True),
        ("443", "[::]:443 ssl", False),
        ("443", "10.0.0.1:443 ssl", False),
        ("443", "8443 ssl", False),
        ("443", "443 quic", False),
        ("80", "443 ssl", False),
        ("8000-8005", "8006 ssl", False),
    ],
)
def test_tls_belongs_to_the_socket(listen: str, other: str, tls: bool) -> None:
    listens = f"listen {listen};" if listen else ""
    first = f"server {{ {listens} server_name a; location / {{ proxy_pass $scheme://a:1; }} }}\n"
    second = f"server {{ listen {other}; server_name b; location / {{ proxy_pass http://b:1; }} }}\n"
    for blocks in ((first, second), (second, first)):
        assert found(*blocks) == {("a", "/", "a", tls), ("b", "/", "b", True)}
        result, _ = read({"nginx.conf": "".join(blocks)})
        schemes = {e.end.name: e.properties["scheme"] for e in routes(result)}
        assert schemes["a"] == ("https" if tls else "http")


def test_a_socket_of_an_included_file_counts() -> None:
    files = {
        "nginx.conf": (
            "http { include conf.d/*.conf; server { listen 443; location / { proxy_pass http://a; } } }"
        ),
        "conf.d/b.conf": "server { listen 443 ssl; server_name b; return 444; }",
    }
    result, _ = read(files, "nginx.conf")
    assert [e.properties["tls"] for e in routes(result)] == [True]


def test_the_front_of_two_blocks_is_the_one_with_tls() -> None:
    guarded = TLS.replace("location / {", "location / { auth_basic x;")
    for blocks in ((PLAIN, guarded), (guarded, PLAIN)):
        result, _ = read({"nginx.conf": "".join(blocks)})
        assert {e.properties["auth"] for e in exposures(result)} == {"basic"}


@pytest.mark.parametrize(
    "directive", ["uwsgi_pass", "fastcgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"]
)
@pytest.mark.parametrize("address", ["unix:/x.sock", "unix:///x.sock", "unix:///x.sock:", "UNIX:/x", "$u"])
def test_a_socket_of_the_machine_is_no_endpoint_and_no_problem(directive: str, address: str) -> None:
    result, _ = read({"a.conf": in_location(f"set $u unix:///run/u.sock; {directive} {address};")})
    assert not result.edges and result.problems == ()


@pytest.mark.parametrize(
    "target", ["http://unix:/x.sock", "http://unix:/x.sock:/uri", "http://unix:///x:/", "https://unix:/x"]
)
def test_a_socket_behind_a_scheme(target: str) -> None:
    result, _ = read({"a.conf": in_location(f"proxy_pass {target};")})
    assert not result.edges and result.problems == ()


def test_a_socket_behind_schemes_of_their_own_and_in_an_upstream() -> None:
    text = (
        "upstream u { server unix:///run/x.sock; server b:9; }\nserver { location /g { grpc_pass"
        " grpc://unix:///x; }\n location /u { uwsgi_pass suwsgi://unix:///x; }\n location / { uwsgi_pass"
        " u; } }"
    )
    assert found(text) == {(None, "/", "b", False)}


LISTENS = st.sampled_from(["80", "443", "443 ssl", "[::]:443 ssl", "8443", "8443 ssl", "*:443"])
BLOCK = st.builds(
    lambda names, listens, dead: (
        f"server {{ server_name {' '.join(names)}; {' '.join(f'listen {x};' for x in listens)}"
        f" {'return 301 https://x;' if dead else ''} location / {{ proxy_pass http://app:1; }} }}\n"
    ),
    st.lists(st.sampled_from(["a.org", "b.org", "c.org"]), min_size=1, max_size=2, unique=True),
    st.lists(LISTENS, min_size=1, max_size=2, unique=True),
    st.booleans(),
)


@given(st.lists(BLOCK, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_the_blocks_says_nothing(blocks: list[str], random) -> None:
    shuffled = list(blocks)
    random.shuffle(shuffled)
    assert found(*blocks) == found(*shuffled)
    said = found(*blocks)
    assert len({(host, location, target) for host, location, target, _ in said}) == len(said)


MAP = """\
map $host $backend {
    hostnames;
    default            "";
    wiki.example.com   "wiki:8080";
    *.apps.example.com "apps:81";  # any of them
    ~^shop\\d\\.        "http_shop:82";
}
"""


def served(names: str, block: str = MAP, target: str = "http://$backend") -> set[tuple[object, ...]]:
    server = (
        f"server {{ listen 80; server_name {names}; location / {{ set $up {target}; proxy_pass $up; }} }}\n"
    )
    result, _ = read({"nginx.conf": f"http {{ {server}{block} }}"})
    assert all(p.code == "E_UNRESOLVED" for p in result.problems)
    return {(e.properties.get("host"), e.end.name, e.properties.get("port")) for e in routes(result)}


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("wiki.example.com other.example.com", {("wiki.example.com", "wiki", 8080)}),
        ("x.apps.example.com", {("x.apps.example.com", "apps", 81)}),
        ("shop2.example.com", {("shop2.example.com", "http_shop", 82)}),
        ("*.apps.example.com", {("*.apps.example.com", "apps", 81)}),
        (
            "_",
            {
                ("wiki.example.com", "wiki", 8080),
                ("*.apps.example.com", "apps", 81),
                ("~^shop\\d\\.", "http_shop", 82),
            },
        ),
    ],
)
def test_a_map_by_host_leads_each_name_of_a_server_to_what_it_gives(
    names: str, wanted: set[tuple[object, ...]]
) -> None:
    assert served(names) == wanted


def test_a_default_holds_where_no_line_fits_and_maps_may_lead_to_maps() -> None:
    block = MAP.replace('""', "$other") + 'map $cookie_green $other { default "blue:1"; 1 "green:2"; }\n'
    assert served("new.example.com", block) == {
        ("new.example.com", "blue", 1),
        ("new.example.com", "green", 2),
    }


def test_a_map_by_path_is_a_location_and_one_that_leads_to_itself_nothing() -> None:
    block = 'map $uri $backend { default "web:1"; /api/ "api:2"; ~^/v\\d "old:3"; }\n'
    result, _ = read({"nginx.conf": f"{block}server {{ location / {{ proxy_pass http://$backend; }} }}"})
    said = {(e.properties.get("location"), e.properties.get("path"), e.end.name) for e in routes(result)}
    assert said == {("/", "/", "web"), ("/api/", "/api/", "api"), ("~^/v\\d", None, "old")}
    assert served("a.example.com", 'map $x $backend { default "$backend"; }\n') == set()


def test_a_map_by_the_name_in_tls_leads_a_stream() -> None:
    text = (
        "stream { map $ssl_preread_server_name $to { a.example.com a_tls; default b:443; }\n"
        "upstream a_tls { server a:8443; }\n"
        "server { listen 443; ssl_preread on; proxy_pass $to; } }"
    )
    result, _ = read({"nginx.conf": text})
    said = {(e.properties.get("host"), e.end.name, e.properties["tls"]) for e in routes(result)}
    assert said == {("a.example.com", "a", True), (None, "b", True)}


@given(
    st.text(alphabet='map$hoste{};"~*. \n\\', max_size=80), st.sampled_from(["a.org", "_", "*.b.org", "~x"])
)
def test_any_map_is_read(lines: str, names: str) -> None:
    server = f"server {{ server_name {names}; location / {{ proxy_pass http://$t; }} }}"
    read({"nginx.conf": f"map $host $t {{ {lines} }}\n{server}"})


def test_maps_without_end_take_bounded_time() -> None:
    chain = "".join(f"map $x $m{n} {{ default $m{n + 1}; }}\n" for n in range(3_000))
    wide = "".join(f"map $x $w{n} {{ {' '.join(f'k{k} v{k};' for k in range(400))} }}\n" for n in range(4))
    server = "server { location / { proxy_pass http://$m0; } location /w { proxy_pass $w0$w1$w2$w3; } }"
    result, _ = read({"nginx.conf": f"{chain}{wide}{server}"})
    assert not routes(result) and {p.code for p in result.problems} <= {"E_UNRESOLVED", "E_TOO_LARGE"}


@pytest.mark.parametrize("pattern", ["~(a+)+$", "~a*a*a*a*a*a*b", "~([a-z]+)*!", "~(?<x", f"~{'a' * 300}"])
def test_a_pattern_that_is_not_tried_decides_nothing(pattern: str) -> None:
    """Python would look for hours; and what stands behind it does not hold for a name that it may match."""
    block = f'map $host $backend {{ default "other:1"; known.example.com "known:2"; "{pattern}" "web:3"; }}\n'
    names = f"{'a' * 60}.example.com known.example.com"
    assert served(names, block) == {("known.example.com", "known", 2)}
