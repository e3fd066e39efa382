"""Text that contradicts configuration, and text that only looks so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines_tests.knowledge.drift.house import House
from taboot_pipelines_tests.knowledge.drift.test_route_rules import OBJECTS

MEDIA = """\
services:
  jellyfin:
    image: jellyfin/jellyfin:10.10.7
    ports: ["8096:8096"]
  gitea:
    image: gitea/gitea:1.23.8
    ports: ["2222:22"]
  grafana:
    image: grafana/grafana:11.6.2
    ports: ["3010:3000"]
  cache:
    image: redis:7.2
    container_name: redis
    ports: ["127.0.0.1:6379:6379"]
"""


def said(text: str, path: str = "docs/house.md", compose: str = MEDIA, **files: str) -> list[tuple[str, str]]:
    return House({"media/compose.yaml": compose, path: f"# The house\n\n{text}\n", **files}).found()


JELLYFIN = [("prose_port", "jellyfin")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Jellyfin listens on port 8920.", JELLYFIN),
        ("Jellyfin is reachable at http://hearth.lan:8097.", JELLYFIN),
        ("Jellyfin is available at http://localhost:8097.", JELLYFIN),
        ("The redis service listens on port 6380.", [("prose_port", "cache")]),
        # From outside only the published port answers.
        ("Grafana is reachable at http://hearth.lan:3000.", [("prose_port", "grafana")]),
    ],
)
def test_another_port_than_the_configured_one(text: str, found: list[tuple[str, str]]) -> None:
    assert said(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "Jellyfin listens on port 8096.",
        "Jellyfin is reachable at http://hearth.lan:8096.",
        # Either side of a mapping is right, where the text does not say from where.
        "Grafana listens on port 3000.",
        "Grafana listens on port 3010.",
        "Inside its container Grafana is available at http://localhost:3000.",
        # A port of its own purpose, or of another time.
        "Jellyfin listens on port 9100 for metrics.",
        "Jellyfin also listens on port 8920.",
        "Jellyfin listened on port 8920 until the move; it was on another network.",
        "Jellyfin does not listen on port 8920.",
        "If you enable TLS, Jellyfin listens on port 8920.",
        "Jellyfin could listen on port 8920.",
        "Does Jellyfin listen on port 8920?",
        # It names the right port too.
        "Jellyfin listens on port 8096. In the cellar Jellyfin listens on port 8920.",
        "Jellyfin listens on port 8920 and port 8096.",
        # The only port that is declared is one beside the main one.
        "Gitea listens on port 3000.",
        # A public name is the proxy's.
        "Jellyfin is reachable at https://tv.example.org.",
        "Jellyfin is reachable at http://hearth.lan:443.",
        "Jellyfin listens on port 443.",
        # Nothing that is declared.
        "Emby listens on port 8920.",
        "Jellyfin is reachable at http://nas.lan:8920.",
    ],
)
def test_what_does_not_contradict(text: str) -> None:
    assert said(text) == []


MAPS = "When deploying, docker compose maps port {} of the jellyfin service container to port {} of the host."


@pytest.mark.parametrize(
    ("inner", "outer", "found"),
    [(8096, 8096, []), (8096, 80, JELLYFIN), (80, 8096, JELLYFIN), (80, 80, JELLYFIN)],
)
def test_a_mapping_is_compared_on_both_sides(inner: int, outer: int, found: list[tuple[str, str]]) -> None:
    assert said(MAPS.format(inner, outer)) == found


def test_both_spans_are_told() -> None:
    (drift,) = House(
        {"media/compose.yaml": MEDIA, "media/README.md": "# media\n\nJellyfin listens on port 8080.\n"}
    ).drifts()
    assert drift.statement == "media/README.md says 8080 for jellyfin, but jellyfin publishes 8096:8096."
    assert [(s.facts[0].doc_id, s.facts[0].line) for s in drift.sides] == [
        ("media/README.md", 3),
        ("media/compose.yaml", 4),
    ]


@pytest.mark.parametrize(
    "compose",
    [
        MEDIA.replace('ports: ["8096:8096"]', "network_mode: host", 1),
        MEDIA.replace('ports: ["8096:8096"]', 'ports: ["${PORT}:8096"]', 1),
        MEDIA.replace('ports: ["8096:8096"]', "restart: always", 1),
        MEDIA + "  torrent:\n    image: t\n    network_mode: service:jellyfin\n",
    ],
)
def test_a_service_whose_ports_are_not_all_told(compose: str) -> None:
    assert said("Jellyfin listens on port 8920.", compose=compose) == []


def test_the_port_of_a_proxys_route_is_a_right_one() -> None:
    route = "server { server_name git.*; location / { proxy_pass http://gitea:3000; } }\n"
    assert said("Gitea listens on port 3000.", **{"git.conf": route}) == []
    assert said("Gitea listens on port 3001.", **{"git.conf": route}) == [("prose_port", "gitea")]


def test_whose_word_counts() -> None:
    text = "Jellyfin listens on port 8920."
    assert said(text, "vendor/jellyfin.md") == []
    (drift,) = House({"media/compose.yaml": MEDIA, "records/mail.md": text}).drifts()
    assert drift.record and drift.name == "jellyfin"


def test_text_beside_a_project_speaks_of_that_project() -> None:
    web = "services:\n  frontend:\n    image: nginx\n    ports: ['{}:80']\n"
    files = {"a/compose.yaml": web.format(8001), "b/compose.yaml": web.format(8002)}
    text = MAPS.replace("jellyfin", "frontend").format(80, 8002)
    assert House(files | {"docs/all.md": text}).found() == []
    assert House(files | {"b/README.md": text}).found() == []
    assert House(files | {"a/README.md": text}).found() == [("prose_port", "frontend")]
    # A name that only another project declares is not that one's here.
    files = {
        "a/compose.yaml": MEDIA,
        "b/compose.yaml": web.format(1),
        "b/README.md": "Jellyfin listens on port 8920.",
    }
    assert House(files).found() == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The `cache` service is based on `library/redis:6.2`.", [("prose_image", "cache")]),
        ("The `cache` service is based on `library/redis:7.2`.", []),
        ("The `cache` service is based on `library/redis:7`.", []),
        ("The `cache` service is based on `library/redis:alpine`.", []),
        ("The `cache` service is based on `library/redis`.", []),
        ("The `cache` service is based on `library/valkey:6.2`.", []),
        ("The `cache` service was based on `library/redis:6.2` until the upgrade.", []),
    ],
)
def test_versions_of_images(text: str, found: list[tuple[str, str]]) -> None:
    assert said(text) == found


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("192.168.20.40", []),
        ("192.168.20.41", [("prose_address", "nas.lan")]),
        # Another kind of address is another way to the same machine.
        ("100.64.7.1", []),
        ("8.8.4.4", []),
    ],
)
def test_addresses_of_host_names(address: str, found: list[tuple[str, str]]) -> None:
    compose = MEDIA + '    extra_hosts: ["nas.lan:192.168.20.40"]\n'
    assert said(f"`nas.lan` resolves to {address}.", compose=compose) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Jellyfin is reachable at http://hearth.lan:8080.", JELLYFIN),
        ("Within the network Jellyfin is at http://jellyfin:8920.", JELLYFIN),
        ("Within the network Jellyfin is at http://jellyfin:8096.", []),
    ],
)
def test_addresses_with_a_port(text: str, found: list[tuple[str, str]]) -> None:
    assert said(text) == found


def test_a_port_that_the_declaration_names_in_another_way() -> None:
    text = "Jellyfin listens on port 8920."
    own = MEDIA.replace("10.10.7\n", "10.10.7\n    environment: {HTTPS_PORT: 8920}\n")
    assert said(text, compose=own) == []
    # What another service of the file has is that one's.
    assert said(text, compose=MEDIA + "  emby: {image: e, ports: ['8920:8920']}\n") == JELLYFIN


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Jellyfin listens on port 8920.", JELLYFIN),
        ("Jellyfin listens on port 80.", []),
        ("Jellyfin listens on port 8096.", []),
        ("Jellyfin is reachable at http://jellyfin.example.org:8443.", []),
    ],
)
@pytest.mark.parametrize("server", ["jellyfin", "jellyfin-server"])
def test_a_service_of_a_cluster(text: str, found: list[tuple[str, str]], server: str) -> None:
    objects = OBJECTS.replace("jellyfin-server", server)
    assert House({"etc/k8s/jellyfin.yaml": objects, "docs/house.md": f"# House\n\n{text}\n"}).found() == found


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_order_of_documents_gives_the_same(data: st.DataObject) -> None:
    order = data.draw(st.permutations(sorted(FILES)))
    shuffled = House({path: FILES[path] for path in order}).drifts(order)
    assert shuffled == EXPECTED and len(EXPECTED) == 6


FILES = {
    "media/compose.yaml": MEDIA,
    "media/README.md": (
        "# media\n\nJellyfin listens on port 8920. The `cache` service is based on `library/redis:6.2`.\n"
    ),
    "docs/plan.md": "# Plan\n\nGrafana is reachable at http://hearth.lan:3000.\n",
    "records/mail.md": "Jellyfin listens on port 8098.\n",
    "other/compose.yaml": "services:\n  wiki:\n    image: wiki\n    ports: ['3010:80']\n",
    "tv.conf": "server { server_name tv.*; location / { proxy_pass http://jellyfin:8097; } }\n",
}
EXPECTED = House(FILES).drifts()


def test_a_container_port_alone_contradicts_no_address_of_the_machine() -> None:
    """Docker chooses the published port, so another address on the machine may well be right."""
    chosen = "services:\n  grafana:\n    image: grafana/grafana:11.6.2\n    ports: ['3000']\n"
    assert said("Grafana is available at http://localhost:8080/grafana/.", compose=chosen) == []
