"""Mentions that a text shows by itself: what counts, what does not, and where each one stands."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.extraction.tier_a.prose.finding import find_mentions
from taboot_pipelines.extraction.tier_a.prose.scan import Mention
from taboot_pipelines.extraction.tier_a.regions import regions
from taboot_pipelines.model.graph import Basis, check_node
from taboot_pipelines_tests.needs import files


def found(text: str, code: bool = False) -> list[tuple[str, str, tuple[object, ...]]]:
    """(kind, the text of the span, key) of every mention; all follow the model and their own rules."""
    result = find_mentions(text, code)
    reached = 0
    for m in result:
        assert reached <= m.start < m.end <= len(text)
        reached = m.end
        check_node(m.node.label, m.node.key, {})
        assert (m.basis is Basis.BYTES) == (m.node.name in text[m.start : m.end])
        assert m.basis in (Basis.BYTES, Basis.NORMALIZED)
    return [(m.kind, text[m.start : m.end], m.node.key) for m in result]


@pytest.mark.parametrize(
    ("text", "span", "key"),
    [
        ("see https://example.com.", "https://example.com", ("https", "example.com", 443, "/")),
        (
            "HTTPS://Example.COM:443/A/../b?q=1#f,",
            "HTTPS://Example.COM:443/A/../b?q=1#f",
            ("https", "example.com", 443, "/b"),
        ),
        ("(http://a.b/c)", "http://a.b/c", ("http", "a.b", 80, "/c")),
        ("http://a.b/c_(d) x", "http://a.b/c_(d)", ("http", "a.b", 80, "/c_(d)")),
        ("[t](http://a.b:81/c)", "http://a.b:81/c", ("http", "a.b", 81, "/c")),
        ("**http://a.b/c**", "http://a.b/c", ("http", "a.b", 80, "/c")),
        ("`http://a.b/c`,", "http://a.b/c", ("http", "a.b", 80, "/c")),
        ("<http://a.b/c>", "http://a.b/c", ("http", "a.b", 80, "/c")),
        ("http://a.b/c</a>", "http://a.b/c", ("http", "a.b", 80, "/c")),
        ('"http://u:***@a.b/c"', "http://u:***@a.b/c", ("http", "a.b", 80, "/c")),
        ("http://adminer:8080/x", "http://adminer:8080/x", ("http", "adminer", 8080, "/x")),
        ("http://[2001:DB8::1]:81/", "http://[2001:DB8::1]:81/", ("http", "2001:db8::1", 81, "/")),
        ("http://10.0.0.1:81", "http://10.0.0.1:81", ("http", "10.0.0.1", 81, "/")),
        ("URL=http://a.b/c", "http://a.b/c", ("http", "a.b", 80, "/c")),
        ("http://ü.example/ß", "http://ü.example/ß", ("http", "xn--tda.example", 80, "/%C3%9F")),
        ("wss://a.b/s", "wss://a.b/s", ("wss", "a.b", 443, "/s")),
        ("grpc://a.b:50051", "grpc://a.b:50051", ("grpc", "a.b", 50051, "/")),
        ("grpc://a.b:80", "grpc://a.b:80", ("grpc", "a.b", 80, "/")),
        ("grpcs://a.b", "grpcs://a.b", ("grpc+tls", "a.b", 443, "/")),
        ("tcp://socket-proxy:2375", "tcp://socket-proxy:2375", ("tcp", "socket-proxy", 2375, "/")),
        ("git+https://a.b/c", "https://a.b/c", ("https", "a.b", 443, "/c")),
    ],
)
def test_urls(text: str, span: str, key: tuple[object, ...]) -> None:
    assert found(text) == [("url", span, key)]


@pytest.mark.parametrize(
    "text",
    [
        "http://",
        "http://<ip>:80/",
        "http://{host}:80/x",
        "http://${IP}:80",
        "http://$IP:80/x",
        "http://SERVERIP:PORT",
        "https://api.x.org/users/{id}",
        "http://your-ip:8080",
        "https://yourdomain.com/x",
        "http://serverip:80",
        "http://HOST_IP:80",
        "http://*.example.org/",
        "tcp://db",
        "ftp://a.b/c",
        "http://a.b:99999/",
        "http://a.b:0/",
        "://x",
        "file:///etc/x",
        "https://github.com/x/docker-<name>",
        "http://-a-.b/",
        "http://URL1/x",
    ],
)
def test_no_urls(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "span", "key"),
    [
        ("at 10.0.0.1.", "10.0.0.1", ("10.0.0.1",)),
        ("ip=10.0.0.1;", "10.0.0.1", ("10.0.0.1",)),
        ("(10.0.0.1)", "10.0.0.1", ("10.0.0.1",)),
        ("10.0.0.1/admin", "10.0.0.1", ("10.0.0.1",)),
        ("u@10.0.0.1", "10.0.0.1", ("10.0.0.1",)),
        ("ip: 10.0.0.1", "10.0.0.1", ("10.0.0.1",)),
        ("x fe80::1 y", "fe80::1", ("fe80::1",)),
        ("2001:DB8:0:0:0:0:0:1,", "2001:DB8:0:0:0:0:0:1", ("2001:db8::1",)),
        ("on ::1.", "::1", ("::1",)),
    ],
)
def test_ips(text: str, span: str, key: tuple[object, ...]) -> None:
    assert found(text) == [("ip", span, key)]


def test_a_range_is_two_addresses() -> None:
    assert [f[1] for f in found("10.0.0.1-10.0.0.9")] == ["10.0.0.1", "10.0.0.9"]


@pytest.mark.parametrize(
    "text",
    [
        "v1.2.3.4",
        "1.2.3.4-ls5",
        "version 1.2.3.4",
        "Version: 1.2.3.4",
        "release 1.2.3.4",
        "app:1.2.3.4",
        "app-1.2.3.4",
        "1.2.3.4.5",
        "01.2.3.4",
        "1.2.3.400",
        "1.2.3.4rc1",
        "/releases/1.2.3.4/x",
        "x1.2.3.4",
        "10:30:00",
        "aa:bb:cc:dd:ee:ff",
        "std::string",
        "a::b",
        "x::1::2",
        "::",
        "1.2.3",
        "Foo::Bar::baz",
        "$1.2.3.4",
        "1:2:3",
    ],
)
def test_no_ips(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "span", "key"),
    [
        ("10.0.0.0/8", "10.0.0.0/8", ("10.0.0.0/8",)),
        ("net 10.0.0.1/24,", "10.0.0.1/24", ("10.0.0.0/24",)),
        ("2001:db8::/32", "2001:db8::/32", ("2001:db8::/32",)),
        ("0.0.0.0/0", "0.0.0.0/0", ("0.0.0.0/0",)),
        ("fd00:1::5/64.", "fd00:1::5/64", ("fd00:1::/64",)),
    ],
)
def test_cidrs(text: str, span: str, key: tuple[object, ...]) -> None:
    assert found(text) == [("cidr", span, key)]


def test_too_long_a_prefix_is_no_cidr() -> None:
    assert [f[0] for f in found("10.0.0.0/33 10.0.0.0/8/9")] == ["ip", "ip"]


@pytest.mark.parametrize(
    ("text", "span", "host", "port"),
    [
        ("on localhost:8080.", "localhost:8080", "localhost", 8080),
        ("nas.local:8443,", "nas.local:8443", "nas.local", 8443),
        ("10.0.0.1:80", "10.0.0.1:80", "10.0.0.1", 80),
        ("127.0.0.1:8080:80", "127.0.0.1:8080", "127.0.0.1", 8080),
        ("`db:5432`", "db:5432", "db", 5432),
        ("```\nhost=redis:6379\n```", "redis:6379", "redis", 6379),
        ("redis://redis:6379/0", "redis:6379", "redis", 6379),
        ("postgres://u:***@db:5432/x", "db:5432", "db", 5432),
        ("mqtt://mq.lan:1883", "mq.lan:1883", "mq.lan", 1883),
        ("[::1]:53", "[::1]:53", "::1", 53),
        ("user@git.example.org:2222", "git.example.org:2222", "git.example.org", 2222),
        ("nas.local:8443/path", "nas.local:8443", "nas.local", 8443),
    ],
)
def test_host_ports(text: str, span: str, host: str, port: int) -> None:
    assert found(text) == [("host_port", span, ("tcp", host, port, "/"))]


def test_a_bare_name_with_a_port_counts_in_a_document_of_code() -> None:
    assert found("upstream: db:5432") == []
    assert found("upstream: db:5432", code=True) == [("host_port", "db:5432", ("tcp", "db", 5432, "/"))]


@pytest.mark.parametrize(
    "text",
    [
        "at 10:30",
        "`10:30`",
        "`8080:80`",
        "db:5432",
        "`postgres:16`",
        "`node:22`",
        "`port:8080`",
        "`port: 8080`",
        "main.py:120",
        "`main.go:120`",
        "<ip>:8080",
        "`<your-ip>:8080`",
        "your-ip:8080",
        "`SERVERIP:8080`",
        "`host:11434`",
        "$host:80",
        "`${HOST}:8080`",
        "a.b:99999",
        "nas.local:0",
        "e.g.:10",
        "`foo:1000:1000`",
        "`x.y.z:08`",
        "nas.local:80a",
        "`/data/x:80`",
        "1:2",
        "2024-01-01T10:30:00",
        "`uid:1000`",
        "`app:1234.5`",
    ],
)
def test_no_host_ports(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "span", "key"),
    [
        ("image: redis:7", "redis:7", "name:docker.io/library/redis:7"),
        ("  image: 'redis'  # c", "redis", "name:docker.io/library/redis:latest"),
        (
            '    - image: "lscr.io/linuxserver/x:latest"',
            "lscr.io/linuxserver/x:latest",
            "name:lscr.io/linuxserver/x:latest",
        ),
        ("pull ghcr.io/a/b.", "ghcr.io/a/b", "name:ghcr.io/a/b:latest"),
        ("`quay.io/a/b:1.2`", "quay.io/a/b:1.2", "name:quay.io/a/b:1.2"),
        ("use linuxserver/foo:latest now", "linuxserver/foo:latest", "name:docker.io/linuxserver/foo:latest"),
        ("a/b:v1.2.3,", "a/b:v1.2.3", "name:docker.io/a/b:v1.2.3"),
        ("ghcr.io/a/b@sha256:" + "a" * 64, "ghcr.io/a/b@sha256:" + "a" * 64, "sha256:" + "a" * 64),
        ("`docker pull redis`", "redis", "name:docker.io/library/redis:latest"),
        ("run docker pull redis:7 then", "redis:7", "name:docker.io/library/redis:7"),
        (
            'docker run -d --rm -it -p 80:80 -v "$(pwd)/a b:/c" -e A="b --c" --name x nginx:1.25 sh',
            "nginx:1.25",
            "name:docker.io/library/nginx:1.25",
        ),
        (
            "```\ndocker run -d \\\n  --name=foo `#optional` \\\n  -e X=1 \\\n  alpine \\\n  sh\n```",
            "alpine",
            "name:docker.io/library/alpine:latest",
        ),
        ("FROM python:3.11-slim AS build", "python:3.11-slim", "name:docker.io/library/python:3.11-slim"),
        ("FROM --platform=linux/amd64 a/b\nRUN x", "a/b", "name:docker.io/a/b:latest"),
        ("FROM alpine\nRUN x", "alpine", "name:docker.io/library/alpine:latest"),
        ("podman pull a/b", "a/b", "name:docker.io/a/b:latest"),
        ("image: registry.lan:5000/a/b:1", "registry.lan:5000/a/b:1", "name:registry.lan:5000/a/b:1"),
    ],
)
def test_images(text: str, span: str, key: str) -> None:
    assert found(text) == [("image", span, (key,))]


@pytest.mark.parametrize(
    "text",
    [
        "image: /img/x.png",
        "image: x/cover.png",
        "image: foo/bar:${TAG}",
        "image: <name>",
        "image: a b",
        "the docker run command",
        "docker pull the image",
        "FROM scratch\nRUN x",
        "SELECT a\nFROM users\nWHERE b",
        "src/foo:12",
        "./a/b:latest",
        "/var/run/x:ro",
        "and/or:maybe",
        "ghcr.io/<owner>/x",
        "lscr.io/linuxserver/<image>",
        "docker run -d $IMAGE",
        "`docker run --name x`",
        '-e A="--game devtest"',
        "TCP/UDP:latest",
    ],
)
def test_no_images(text: str) -> None:
    assert found(text) == []


def test_a_stage_of_a_dockerfile_is_no_image() -> None:
    assert [f[1] for f in found("FROM golang:1.22 AS build\nRUN x\nFROM build AS test\nFROM alpine:3\n")] == [
        "golang:1.22",
        "alpine:3",
    ]


def test_overlaps_url_over_image_over_host_port_over_ip() -> None:
    assert [
        f[0] for f in found("http://10.0.0.1:80/x ghcr.io/a/b:8080 10.0.0.1:80 https://ghcr.io/a/b:latest")
    ] == ["url", "image", "host_port", "url"]


def test_offsets_are_code_points() -> None:
    text = "é🙂 http://a.b/c ü 10.0.0.1"
    assert [f[1] for f in found(text)] == ["http://a.b/c", "10.0.0.1"]


def test_regions() -> None:
    text = (
        "# Title `x`\n\nuse `a b` and ``c ` d``\n\n```yaml\nk: `v`\n# no heading\n```\n\nSetext\n======\n-"
        " item\n---\n\n  ~~~\n  x\n  ~~~\n`open\n\nclose`\n```\nrest"
    )
    spans = [(text[s:e], kind) for s, e, kind in regions(text)]
    assert spans == [
        ("# Title `x`", "heading"),
        ("a b", "code"),
        ("c ` d", "code"),
        ("k: `v`\n# no heading\n", "code"),
        ("Setext", "heading"),
        ("  x\n  ", "code"),
        ("rest", "code"),
    ]
    assert regions(text, code=True) == [(0, len(text), "code")]


PAGES = files("linuxserver-docs-md", "*.md")


@pytest.mark.needs("data")
def test_real_pages() -> None:
    kinds: Counter[str] = Counter()
    own = 0
    for path in PAGES[::4]:
        text = path.read_text("utf-8")
        mentions = found(text)
        kinds.update(m[0] for m in mentions)
        if path.parent.name == "images" and path.stem.startswith("docker-"):
            name = path.stem.removeprefix("docker-")
            own += any(
                m[0] == "image" and m[2] == (f"name:lscr.io/linuxserver/{name}:latest",) for m in mentions
            )
        assert not any("your" in str(m[2][1]) for m in mentions if m[0] in ("url", "host_port"))
        # What a plain look for image lines of Compose blocks shows is found.
        lines = [
            line.split("image:", 1)[1].strip()
            for line in text.split("\n")
            if line.strip().startswith("image: lscr.io/")
        ]
        assert set(lines) <= {m[1] for m in mentions if m[0] == "image"}
    assert own > 20 and kinds["url"] > 1000


ATOMS = st.sampled_from(
    [
        "http",
        "https",
        "://",
        ":",
        "/",
        ".",
        "a",
        "b.c",
        "10.0.0.1",
        "::",
        "[",
        "]",
        "(",
        ")",
        "`",
        "```\n",
        "\n",
        " ",
        "80",
        "@",
        "#",
        "{",
        "<",
        "$",
        "docker run ",
        "-p ",
        "image: ",
        "FROM ",
        "ghcr.io/",
        "latest",
        "é",
        "\u212a",
        "\ud800",
        "\x00",
        "*",
        "'",
        '"',
        "\\\n",
        "%zz",
        "xn--",
        "-",
        "_",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(ATOMS, max_size=30).map("".join), st.booleans())
def test_any_text_is_read_the_same_way_twice(text: str, code: bool) -> None:
    first = found(text, code)
    assert first == found(text, code)
    marked = regions(text)
    assert all(0 <= s < e <= len(text) for s, e, _ in marked)
    assert all(a[1] <= b[0] for a, b in pairwise(marked))


@settings(max_examples=100, deadline=None)
@given(st.ip_addresses(), st.integers(10, 65535), st.sampled_from([" ", "\n", "(", ")", ",", '"', "; "]))
def test_every_address_with_a_port_is_found(address: object, port: int, around: str) -> None:
    host = f"[{address}]" if ":" in str(address) else str(address)
    mentions: list[Mention] = find_mentions(f"x{around}{host}:{port}{around}y")
    assert [(m.kind, m.node.key) for m in mentions] == [("host_port", ("tcp", str(address), port, "/"))]
