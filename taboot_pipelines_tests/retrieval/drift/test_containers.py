"""What a container's declaration says of itself, held against the routes that lead to it."""

from __future__ import annotations

import pytest

from taboot_pipelines_tests.world import World

TRAEFIK = """\
services:
  traefik:
    image: traefik:v3.4
    networks: [edge]
networks:
  edge: {external: true}
"""
WIKI = """\
services:
  wiki:
    image: ghcr.io/example/wiki:2
    networks: [edge]
    labels:
      - traefik.http.routers.wiki.rule=Host(`wiki.${BASE_DOMAIN}`)
      - traefik.http.services.wiki.loadbalancer.server.port=3000
      - homepage.href=https://wiki.${BASE_DOMAIN}/
"""
OTHER = """\
  worker:
    image: ghcr.io/example/worker:2
    networks: [edge]
    environment:
      WIKI_URL: http://wiki:3000/api
"""
NETWORK = """\
networks:
  edge: {external: true}
"""


def drifts(world: World, wiki: str, *kinds: str) -> list[str]:
    stacks = world.source("stacks", "compose", host="hearth.lan", proxy="traefik")
    for name, text in (("edge", TRAEFIK), ("wiki", f"{wiki}{NETWORK}")):
        (stacks / name).mkdir(parents=True, exist_ok=True)
        (stacks / name / "compose.yaml").write_text(text)
    world.ingest()
    return [item.statement for item in world.kb().drift(kinds or None).items]


def with_(line: str) -> str:
    return WIKI.replace("    labels:\n", f"{line}\n    labels:\n")


@pytest.mark.parametrize(
    "told",
    [
        "    expose: [3001]",
        "    environment: {PORT: 3001}",
        "    environment: [WIKI_HTTP_PORT=3001]",
        "    command: serve --port 3001",
        "    command: [serve, --listen, '0.0.0.0:3001']",
        "    environment: {LISTEN: ':3001'}",
        "    healthcheck: {test: [CMD, curl, -f, 'http://localhost:3001/health']}",
        # What is published for other protocols tells nothing of this one.
        "    ports: ['2222:22']\n    environment: {PORT: 3001}",
    ],
)
def test_a_route_past_the_port_that_a_container_is_told_to_listen_on(world: World, told: str) -> None:
    (found,) = drifts(world, with_(told))
    assert found == "traefik routes to wiki:3000, and the container is declared to listen on 3001."


@pytest.mark.parametrize(
    "told",
    [
        "    expose: [3000]",
        # Both stand in its declaration.
        "    environment: {PORT: 3001, API_PORT: 3000}",
        # What it asks for is another's.
        "    environment: {DATABASE_PORT: 3306, SEARCH_HTTP_PORT: 7700}",
        "    command: serve --to search:7700",
        "    environment: {GRPC_ADDR: '0.0.0.0:9142'}",
        # A port of another protocol.
        "    expose: [5432]",
        "    network_mode: host\n    environment: {PORT: 3001}",
    ],
)
def test_a_route_that_no_declaration_rules_out(world: World, told: str) -> None:
    wiki = with_(told).replace("    networks: [edge]\n", "") if "network_mode" in told else with_(told)
    assert drifts(world, wiki, "route_port") == []


def test_a_second_route_may_lead_to_a_second_port(world: World) -> None:
    second = WIKI.replace("wiki.rule=Host(`wiki.", "live.rule=Host(`live.").split("    labels:\n")[1]
    second = second.replace("services.wiki.", "services.live.").replace("3000", "3012")
    first = with_("    environment: {PORT: 3000}").replace(
        "      - homepage", "      - traefik.http.routers.wiki.service=wiki\n      - homepage"
    )
    second += "      - traefik.http.routers.live.service=live\n"
    assert drifts(world, first + second, "route_port") == []


def test_what_others_ask_for_does_not_make_a_wrong_route_right(world: World) -> None:
    asked = with_("    ports: ['3000:3000']").replace("server.port=3000", "server.port=3100") + OTHER
    (found,) = drifts(world, asked)
    assert found == "traefik routes to wiki:3100, and the container is declared to listen on 3000."
    (item,) = world.kb().drift().items
    assert [side.line for side in item.sides] == [8, 5]  # where either port stands


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("http://wiki:3001/api", ["traefik routes to wiki:3000, and others ask wiki on 3001."]),
        ("http://wiki:3000/api", []),
        # Another protocol's port says nothing of the one for browsers.
        ("redis://wiki:6379", []),
    ],
)
def test_others_ask_for_another_port_than_the_route(world: World, asked: str, found: list[str]) -> None:
    assert drifts(world, WIKI + OTHER.replace("http://wiki:3000/api", asked), "route_port") == found


@pytest.mark.parametrize(
    ("was", "now", "found_at"),
    [
        # Where Homepage finds it, whatever the route is called now.
        ("Host(`wiki.", "Host(`pages.", "wiki.${BASE_DOMAIN}"),
        ("Host(`wiki.", "Host(`wikis.", "wiki.${BASE_DOMAIN}"),
        ("homepage.href=https://wiki.", "homepage.href=https://wikki.", "wikki.${BASE_DOMAIN}"),
        ("homepage.href=https://wiki.", "wiki.url=https://wiki2.", "wiki2.${BASE_DOMAIN}"),
        ("homepage.href=https://wiki.", "wiki.url=https://wiki-old.", "wiki-old.${BASE_DOMAIN}"),
    ],
)
def test_a_url_of_its_own_that_nothing_answers(world: World, was: str, now: str, found_at: str) -> None:
    (item,) = drifts(world, WIKI.replace(was, now))
    route = "pages.*" if "pages" in now else "wikis.*" if "wikis" in now else "wiki.*"
    assert item == f"wiki names {found_at}, to which nothing answers, and {route} leads to it."
    (drift,) = world.kb().drift(["config_host_name"]).items
    assert [(side.url.rpartition("/")[2], side.line) for side in drift.sides] == [
        ("compose.yaml", 8),
        ("compose.yaml", 6),
    ]
    quoted = drift.sides[0].quote
    assert quoted is not None and found_at in quoted.text


def test_a_setting_that_is_a_host_name(world: World) -> None:
    (found,) = drifts(world, with_("    environment: ['HOSTS=wiki-2.${BASE_DOMAIN},localhost.test']"))
    assert found.startswith("wiki names wiki-2.${BASE_DOMAIN}, to which nothing answers")


def test_a_url_of_another_that_was_renamed(world: World) -> None:
    asking = OTHER.replace("http://wiki:3000/api", "https://wiki.${BASE_DOMAIN}/api")
    renamed = WIKI.replace("Host(`wiki.", "Host(`wiki-new.").replace("homepage.href=", "docs=")
    found = drifts(world, renamed + asking)
    route = "to which nothing answers, and wiki-new.* leads to"
    assert found == [
        f"wiki names wiki.${{BASE_DOMAIN}}, {route} it.",
        f"worker names wiki.${{BASE_DOMAIN}}, {route} what is called alike.",
    ]


@pytest.mark.parametrize(
    "line",
    [
        # Another service, another domain, an example, and what another route answers to.
        "WIKI_LOGIN=https://auth.${BASE_DOMAIN}",
        "WIKI_MIRROR=https://wiki2.example.org",
        "WORKER=https://wikiworker.${BASE_DOMAIN}",
        "ALSO=https://www.wiki.${BASE_DOMAIN}",
        "API=https://api-wiki.${BASE_DOMAIN}",
    ],
)
def test_a_url_that_may_be_of_another_thing(world: World, line: str) -> None:
    wiki = with_(f"    environment: ['{line}']") + OTHER.replace("worker:\n", "wikiworker:\n")
    assert drifts(world, wiki, "config_host_name") == []
