"""Answers from facts where a name, a value or a relation is easily taken for another: a small house of two
projects and a proxy, made so that every wrong reading of a question has something to find.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines.retrieval.answering.fact_answers import FactAnswer, answer_from_facts, names_in
from taboot_pipelines.retrieval.session import View
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

STUDIO = """\
services:
  tunnel:
    image: qmcgaw/gluetun:v3.40
    cap_add: [NET_ADMIN]
    devices: [/dev/net/tun]
    ports: ["8090:8090", "6881:6881/udp"]
    restart: unless-stopped
  leecher:
    image: lscr.io/linuxserver/qbittorrent:5.0.1
    network_mode: "service:tunnel"
    environment:
      WEBUI_PORT: "8090"
    volumes: ["/pool/films/incoming:/downloads"]
    stop_grace_period: 90s
    restart: unless-stopped
  reel:
    image: acme/reel:1
    privileged: false
    restart: "no"
  cinema:
    image: jellyfin/jellyfin:10.10.7
    devices: [/dev/dri:/dev/dri]
    environment:
      DB_USERNAME: projector
      ENABLE_SAFE_MODE: "false"
      LOG_LEVEL: warn
      KUBERNETES_DEPENDENCY_UPDATE: "true"
    volumes: ["/pool/films:/films:ro"]
    networks: [front]
    deploy:
      resources:
        limits:
          memory: 3G
    logging:
      driver: json-file
      options:
        max-size: 15m
        max-file: "3"
  # Writes subtitles for
  # films that have none.
  caption:
    build: ./caption
    profiles: [extras]
    depends_on: [cinema]
    networks: [front]
networks:
  front:
    external: true
"""
SENSORS = """\
services:
  broker:
    image: eclipse-mosquitto:2.0.20
    ports: ["1884:1883"]
    healthcheck:
      test: mosquitto_sub -C 1
      interval: 25s
      retries: 4
    networks:
      things:
        ipv4_address: 172.30.5.9
  collector:
    image: telegraf:1.32
    command: ["--remote-debug-address=0.0.0.0", "--hostname={{ unit }}"]
    network_mode: host
    privileged: true
    depends_on:
      broker:
        condition: service_started
  gauge:
    image: prom/prometheus:v3.0.1
    command: ["--evaluationInterval=35s"]
    networks: [things, sensors_back]
    secrets: [gauge_key]
    environment: {PGID: "1000"}
    # What follows lets it read the meter bus.
    group_add: ["44"]
    depends_on:
      broker:
        condition: service_healthy
networks:
  things:
    ipam:
      config: [{subnet: 172.30.5.0/24, gateway: 172.30.5.1}]
  sensors_back:
    internal: true
secrets:
  gauge_key:
    file: ./gauge.key
"""
FILMS = """\
server {
    listen 443 ssl;
    server_name films.*;
    include /config/nginx/authentik-server.conf;
    location / {
        include /config/nginx/authentik-location.conf;
        set $upstream_app cinema;
        set $upstream_port 8096;
        set $upstream_proto http;
        proxy_pass $upstream_proto://$upstream_app:$upstream_port;
        proxy_read_timeout 700s;
    }
}
"""
GAUGE = """\
location ^~ /gauge/ {
    allow 10.20.0.0/16;
    deny all;
    auth_basic "Restricted";
    auth_basic_user_file /config/nginx/.htpasswd;
    set $upstream_app gauge;
    set $upstream_port 9090;
    set $upstream_proto http;
    proxy_pass $upstream_proto://$upstream_app:$upstream_port;
}
"""


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    with FakeTei(dimension=16) as embedder:
        made = World(tmp_path_factory.mktemp("small"), embedder.url)
        stacks = made.source("stacks", "compose", host="attic.example", proxy="swag")
        confs = made.source("confs", "swag", proxy="swag")
        for path, text in (
            (stacks / "studio" / "compose.yaml", STUDIO),
            (stacks / "sensors" / "compose.yaml", SENSORS),
            (
                stacks / "roles/films/molecule/default/compose.yaml",
                "services: {dummy: {image: acme/dummy:1}}",
            ),
            (confs / "films.subdomain.conf", FILMS),
            (confs / "gauge.subfolder.conf", GAUGE),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        made.ingest()
        yield made.kb()._session.view()
        made.workspace.close()


def ask(view: View, question: str) -> FactAnswer:
    answer = answer_from_facts(view, question)
    assert answer is not None and answer.found, (question, answer)
    return answer


def lines(view: View, answer: FactAnswer) -> list[str]:
    return [
        Path(view.document_url(c.doc_id)).read_text().splitlines()[c.line - 1].strip()
        for s in answer.sentences
        for c in s.citations
    ]


#: Question, what the answer says, what it does not say, and a line that it cites.
SAYS = [
    ("what does caption do?", ["caption", "subtitles for films that have none."], [], "Writes subtitles"),
    # A list by property compares the value, and says what it is.
    ("which services use host networking", ["network mode (host)"], ["leecher"], "network_mode"),
    ("which services use host mode", ["collector"], ["cinema", "leecher"], "network_mode: host"),
    ("which containers run with network_mode host?", ["collector"], ["leecher"], "network_mode: host"),
    ("which container has the GPU?", ["cinema has a GPU (/dev/dri"], ["tunnel"], "/dev/dri"),
    ("which container has the tun device", ["tunnel", "(/dev/net/tun)"], ["dri"], "/dev/net/tun"),
    ("which services are privileged", ["collector is privileged"], ["broker"], "privileged: true"),
    ("which services only start with the extras profile", ["profile (extras)"], ["cinema"], "profiles"),
    ("which services have a memory limit", ["cinema", "3G"], ["broker"], "memory: 3G"),
    ("Which services read the secret gauge_key?", ["gauge has a secret (gauge_key)"], ["broker"], "secrets:"),
    ("which services restart unless-stopped", ["leecher and tunnel"], ["cinema"], "restart:"),
    # What is not there is said of services whose declarations are whole.
    ("which services have no healthcheck?", ["cinema", "collector"], ["broker"], "image: jellyfin"),
    ("which services are not restarted automatically?", ["cinema", "broker"], ["tunnel"], "image: jellyfin"),
    ("does reel restart by itself?", ["No: reel (studio) sets services.reel.restart to no"], [], "restart:"),
    ("is reel privileged?", ["No: reel (studio) sets services.reel.privileged to false"], [], "privileged:"),
    # What only a test declares is none of the house's.
    ("how many services are there?", ["8 services"], ["dummy"], "image: eclipse"),
    ("which containers are read-only?", ["None: 8 services are not read-only"], [], "image: eclipse"),
    ("is broker privileged?", ["No: broker (sensors) is not privileged"], [], "image: eclipse"),
    ("does cinema have a memory limit?", ["Yes", "3G"], [], "memory: 3G"),
    # Who writes to a folder does not mount it read-only.
    ("which services write to /pool/films?", ["leecher mounts /pool/films/incoming"], ["cinema"], "/pool/"),
    ("which containers mount something from /pool", ["leecher", "cinema"], ["tunnel"], "/pool/films:"),
    # The relation, its direction and its condition are those that are asked.
    ("does collector wait for broker to be healthy?", ["No:", "_started"], ["Yes"], "broker:"),
    ("does gauge wait until broker is healthy?", ["Yes", "healthy"], ["No"], "broker:"),
    ("does leecher use the vpn?", ["Yes", "tunnel"], [], "network_mode"),
    ("does broker use the vpn?", ["No:", "goes through no VPN tunnel"], ["collector"], "image: ecl"),
    # What can be reached is what a proxy leads to and what is published, never all that there is.
    ("which services can be reached from outside?", ["films.*", "1884"], ["caption"], "upstream_app"),
    ("what is exposed publicly?", ["films.*", "6881", "8090"], ["caption"], "upstream_app"),
    ("which public hostnames are there?", ["films.*"], ["caption"], "upstream_app"),
    ("which services are behind the proxy?", ["cinema", "gauge"], ["broker"], "upstream_app"),
    ("what is not behind the proxy?", ["broker", "caption"], ["cinema", "gauge"], "image: eclipse"),
    ("is caption reachable from outside?", ["No: caption", "no proxy leads to it"], [], "build: ./caption"),
    ("is broker reachable from outside?", ["1884 (published port)"], ["Yes"], "1884"),
    ("is broker reachable from the internet?", ["no proxy", "no file says"], ["Yes"], "1884"),
    ("which services are public on the internet?", ["films.*", "no file says"], ["caption"], "1884"),
    ("is gauge reachable from outside?", ["only from 10.20.0.0/16"], ["Yes"], "allow 10.20"),
    ("From which range can /gauge be opened", ["only from 10.20.0.0/16"], [], "allow 10.20"),
    ("who may open gauge?", ["10.20.0.0/16"], [], "deny all"),
    ("is gauge protected with a password?", ["Yes", "basic"], [], "upstream_app"),
    ("which vhosts sit behind authentik?", ["cinema", "films.*"], ["gauge"], "upstream_app"),
    ("which sites use basic auth?", ["gauge"], ["cinema"], "upstream_app"),
    ("where can I open the leecher web ui", ["shares the network of tunnel", "8090"], ["6881"], "8090"),
    ("which machines are there?", ["1 host: attic.example"], ["service"], "broker:"),
    # A network asked for in few words, and looked up by what it has.
    ("list everything on front", ["cinema", "caption"], ["broker"], "networks: [front]"),
    ("which containers are not on front?", ["broker", "tunnel"], ["cinema"], "things:"),
    ("what's on 8090", ["tunnel"], ["leecher"], "8090"),
    ("which network has the subnet 172.30.5.0/24", ["things"], ["back"], "subnet"),
    # Other words for a key.
    ("how long does docker wait before it kills leecher?", ["90s"], [], "stop_grace_period"),
    ("health check of broker: how many retries?", ["4"], ["25s"], "retries: 4"),
    ("how often does gauge evaluate its rules", ["35s"], ["25s"], "evaluationInterval"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "says", "not_says", "line"), SAYS, ids=[q for q, *_ in SAYS])
def test_a_question_is_answered_by_what_it_asks(view, question, says, not_says, line):
    answer = ask(view, question)
    assert all(value in answer.text for value in says), answer.text
    assert not any(value in answer.text for value in not_says), answer.text
    assert any(line in text for text in lines(view, answer)), lines(view, answer)


NOTHING = [
    # An address that stands for all is no machine's, and what a template puts in is no name.
    "What is the IP address of collector?",
    "which hostname does collector have?",
    "which services use bridge networking?",
    "which services use GPU passthrough of nvidia?",
    "What is the subnet of the guest network?",
    "gateway of the office network",
    "proxy_read_timeout for gauge",
    "which user does cinema run as?",
    # How often a thing is checked is not how often it runs.
    "how often does broker run",
    "What hardware runs all the containers?",
    # The words of a comment are about the key beneath it.
    "Which GID does the bus have that gauge is given?",
    "which password does cinema use",
    "how often is the back garden backed up",
    "how often are the sensors backed up",
    # Not known here, and the words of a key.
    "What does kubernetes depend on?",
]


@pytest.mark.parametrize("question", NOTHING)
def test_another_thing_is_no_answer(view, question):
    answer = answer_from_facts(view, question)
    assert answer is None or not answer.found, answer


def test_a_name_that_is_repeated_costs_no_more_than_once(view):
    ask(view, "cinema memory limit")
    spent = []
    for _ in range(3):
        begun = time.process_time()
        answer_from_facts(view, "cinema " * 200)
        spent.append(time.process_time() - begun)
    assert min(spent) < 1


PICTURES = """\
services:
  gallery:
    image: acme/gallery:2.1
    ports: ["127.0.0.1:2283:2283"]
    depends_on: [store]
    mem_limit: 6g
  store:
    image: valkey/valkey:9@sha256:3acc0687f2a2e1091fae6450d7842dd658c941338cf0a873ddd9e14b9e4ea4dd
    mem_limit: 1g
"""


def test_an_address_is_no_service_of_its_name(pictures: View) -> None:
    assert [name.text for name in names_in(pictures, "Which image does ip use?")] == ["ip"]
    assert not names_in(pictures, "What is the public IP address of the house?")


def test_what_the_machine_alone_reaches_is_not_said_to_be_open(pictures: View) -> None:
    answer = ask(pictures, "Is inner reachable from outside?")
    assert answer.text == (
        "No: inner (inner): no proxy leads to it, and it publishes no port that others reach."
    )
    assert ask(pictures, "Does inner publish a port?").text.startswith("Yes: inner")


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Which port does pictures publish?", ["2283/tcp"]),
        ("What does pictures depend on?", ["depends on store"]),
        ("How much memory may pictures use?", ["gallery is 6g", "store is 1g"]),
        ("Which version of valkey does pictures use?", ["runs version 9 (image"]),
        (
            "Which services publish port 2283?",
            ["kiosk (kiosk) publishes 2283", "gallery (pictures) publishes 2283"],
        ),
    ],
)
def test_what_several_services_make_up_is_asked_about_as_one(
    pictures: View, question: str, told: list[str]
) -> None:
    answer = answer_from_facts(pictures, question)
    assert answer is not None and answer.confidence > 0.85 and all(t in answer.text for t in told), answer


@pytest.mark.parametrize(
    ("question", "told", "not_told"),
    [
        ("What is published on all interfaces?", ["kiosk (kiosk) publishes 2283:80"], ["8443", "gallery"]),
        ("Which ports are published on all interfaces?", ["2283:80/tcp"], ["8443", "gallery"]),
        ("Which ports are published on localhost?", ["2283:2283/tcp (127.0.0.1)"], ["kiosk"]),
        ("Which services have a network mode?", ["shut", "(none)"], ["kiosk", "gallery"]),
        ("Which services have no network mode?", ["gallery", "kiosk"], ["shut"]),
    ],
)
def test_what_is_asked_of_some_is_told_of_no_others(
    pictures: View, question: str, told: list[str], not_told: list[str]
) -> None:
    answer = answer_from_facts(pictures, question)
    assert answer is not None and answer.confidence > 0.85 and all(t in answer.text for t in told), answer
    assert not any(t in answer.text for t in not_told), answer


def test_a_port_that_none_publishes_is_no_matter_of_routes(pictures: View) -> None:
    answer = answer_from_facts(pictures, "Do any services publish port 53?")
    assert answer is None or not answer.found, answer


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    with FakeTei(dimension=16) as embedder:
        made = World(tmp_path_factory.mktemp("pictures"), embedder.url)
        stacks = made.source("stacks", "compose", host="attic.example", proxy="swag")
        for name, text in (
            ("pictures", PICTURES),
            (
                "kiosk",
                "services: {kiosk: {image: 'acme/kiosk:1', ports: ['2283:80', '192.168.7.53:8443:8443']}}\n",
            ),
            ("inner", "services: {inner: {image: 'acme/inner:1', ports: ['127.0.0.1:7001:7001']}}\n"),
            ("ip", "services: {ip: {image: 'acme/ip:1', ports: ['7002:7002']}}\n"),
            ("shut", "services: {shut: {image: 'acme/shut:1', network_mode: none}}\n"),
        ):
            (stacks / name).mkdir()
            (stacks / name / "compose.yaml").write_text(text)
        (made.source("proxy", "swag") / "pictures.conf").write_text(
            "server { server_name pictures.example.org; location / { proxy_pass http://gallery:2283; } }\n"
        )
        made.ingest()
        yield made.kb()._session.view()
        made.workspace.close()
