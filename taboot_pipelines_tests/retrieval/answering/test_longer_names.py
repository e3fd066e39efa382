"""Questions about configuration in the words of other people: names of several words, short names, words for
what a thing does, and the things of one conf among several servers; over a house of three projects and confs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taboot_pipelines.retrieval.answering.answer_types import read
from taboot_pipelines.retrieval.answering.fact_answers import FactAnswer, answer_from_facts
from taboot_pipelines.retrieval.session import View
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

CALENDAR = """\
services:
  radicale:
    image: example/radicale:3.5.0
    depends_on: [db]
    volumes: ["cal-store:/data"]
    networks: [front, default]
  cron-sync:
    image: example/syncer:1.4
    depends_on: [db]
    environment:
      SYNC_SCHEDULE: "25 4 * * *"
    volumes: ["cal-store:/in:ro"]
  # the rabbit consumer
  worker:
    image: example/jobs:9
    command: dramatiq calendar.jobs --processes 5
    deploy: {replicas: 4}
  db:
    image: postgres:15.8
  autoupdate:
    image: example/pilot:7
    environment: {VERSION: "2.44.1"}
    volumes: ["/var/run/docker.sock:/var/run/docker.sock:ro"]
volumes: {cal-store: {}}
networks: {front: {external: true}}
"""
SHEETS = """\
services:
  worker:
    image: example/sheets-worker:2
    command: sidekiq -c 9
    deploy: {replicas: 6}
    depends_on: [db, storebox]
  calcsheet:
    image: example/calcsheet:0.9
    read_only: true
    depends_on: [db]
    logging: {options: {max-size: 44m, max-file: "6"}}
    networks: [front]
  storebox:
    image: example/storebox:5
    command: ["--maxmemory", "77mb", "--port-min=7000", "--port-max=7040"]
  db:
    image: mysql:8.4.4
  keepcopy:
    image: example/mysql-copies:3
    environment: {COPY_INTERVAL: 5h, KEEP_DAYS: 23}
    depends_on: [db]
networks: {front: {external: true}}
"""
EDGE = """\
services:
  gate:
    image: nginx:1.26.2
    ports: ["443:443"]
    networks: [front]
networks: {front: {external: true}}
"""
UPSTREAMS = """\
send_timeout 41s;
upstream sheets { server calcsheet:8800; }
limit_req_zone $binary_remote_addr zone=all:5m rate=33r/s;
"""
SITES = """\
server {
    listen 443 ssl;
    server_name sheets.example.net;
    client_max_body_size 81M;
    location / { proxy_pass http://sheets; proxy_send_timeout 17s; }
}
server {
    listen 443 ssl;
    server_name cal.example.net;
    client_max_body_size 12M;
    allow 10.66.0.0/16;
    deny all;
    location / { proxy_pass http://radicale:5232; }
    location /dav/ { proxy_pass http://radicale:5232; }
}
"""
TLS = """\
ssl_protocols TLSv1.3;
"""


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    with FakeTei(dimension=16) as embedder:
        world = World(tmp_path_factory.mktemp("longer-names"), embedder.url)
        stacks = world.source("stacks", "compose", host="attic.example", proxy="gate")
        confs = world.source("confs", "swag", proxy="gate")
        for path, text in (
            (stacks / "calendar" / "compose.yaml", CALENDAR),
            (stacks / "sheets" / "compose.yaml", SHEETS),
            (stacks / "edge" / "compose.yaml", EDGE),
            (confs / "upstreams.conf", UPSTREAMS),
            (confs / "sites.conf", SITES),
            (confs / "tls.conf", TLS),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        world.ingest()
        yield world.kb()._session.view()
        world.workspace.close()


#: Question, what the answer says, what it does not say, and what stands on a line that it cites.
SAYS = [
    # Words before a name say which of that name is meant.
    ("replicas of the sidekiq worker", ["6"], ["4"], "replicas: 6"),
    ("how many replicas has the rabbit worker", ["4"], ["6"], "replicas: 4"),
    ("who depends on the calendar db?", ["radicale", "cron-sync"], ["calcsheet"], "depends_on: [db]"),
    ("if the radicale db dies what is affected", ["radicale", "cron-sync"], ["keepcopy"], "depends_on: [db]"),
    ("what breaks when the calc db is gone", ["calcsheet", "keepcopy"], ["radicale"], "depends_on: [db]"),
    ("version of calc sheet pls", ["0.9"], [], "calcsheet:0.9"),
    ("store box image", ["example/storebox:5"], [], "storebox:5"),
    # Of which kind something uses one.
    ("which database does radicale use", ["db"], ["calcsheet"], "depends_on: [db]"),
    ("What does calcsheet need in order to start?", ["db"], [], "depends_on: [db]"),
    # What a thing does, and when.
    ("when does cron-sync fetch the holidays", ["25 4 * * *"], [], "SYNC_SCHEDULE"),
    ("how often does keepcopy run", ["5h"], [], "COPY_INTERVAL"),
    ("how big can the log files of calcsheet get before they are rotated", ["44m"], ["6"], "max-size"),
    ("how much RAM is storebox allowed to use", ["77mb"], [], "maxmemory"),
    ("port range of storebox", ["7000", "7040"], [], "port-min"),
    ("autoupdate version", ["2.44.1"], [], "VERSION"),
    # What is shared.
    ("which services share the cal-store volume", ["radicale", "cron-sync"], ["db"], "cal-store:/data"),
    ("what shares the volume cal-store with radicale?", ["cron-sync mounts"], [], "cal-store:/in"),
    ("who mounts the docker socket?", ["autoupdate"], ["worker"], "docker.sock"),
    ("how many projects have a service called db", ["2 projects", "calendar", "sheets"], ["edge"], "mysql"),
    # Reaching each other.
    ("is the calendar db reachable from calcsheet", ["No"], ["Yes"], "networks: [front]"),
    ("is gate able to reach radicale?", ["Yes"], ["No"], "front"),
    # One server of a conf, and what no name says.
    ("biggest upload that cal.example.net accepts", ["12M"], ["81M"], "12M"),
    ("max upload at sheets.example.net", ["81M"], ["12M"], "81M"),
    ("To which container does nginx send requests for cal.example.net?", ["radicale"], ["calc"], "radicale"),
    ("where do requests to /dav end up?", ["radicale"], ["calcsheet"], "/dav/"),
    ("send timeout at sheets.example.net", ["17s"], ["41s"], "proxy_send_timeout 17s"),
    ("who may visit cal.example.net?", ["only from 10.66.0.0/16"], [], "allow 10.66"),
    ("read-only containers?", ["calcsheet"], ["worker"], "read_only"),
    ("how many sidekiq workers are there", ["6"], ["4"], "replicas: 6"),
    ("what tls versions do we allow", ["TLSv1.3"], [], "ssl_protocols"),
    ("how many requests per second are allowed", ["33r/s"], [], "limit_req_zone"),
]  # fmt: skip


def _ask(view: View, question: str) -> FactAnswer | None:
    return answer_from_facts(view, question)


@pytest.mark.parametrize(("question", "says", "not_says", "line"), SAYS, ids=[q for q, *_ in SAYS])
def test_a_longer_name_is_read_as_it_is_meant(view, question, says, not_says, line):
    answer = _ask(view, question)
    assert answer is not None and answer.found, answer
    assert all(value in answer.text for value in says), answer.text
    assert not any(value in answer.text for value in not_says), answer.text
    cited = [c.text for s in answer.sentences for c in s.citations]
    assert any(line in text for text in cited), cited


NOTHING = [
    "when does cron-sync expire",
    "when was cron-sync last updated",
    "who administers the sheets",
    "which database does gate use",
    "memory limit of the sidekiq worker",
    "what tls ciphers do we allow",
    "which services share the tax-store volume",
]


@pytest.mark.parametrize("question", NOTHING)
def test_what_is_not_declared_is_not_told(view, question):
    answer = _ask(view, question)
    assert answer is None or not answer.found, answer


def test_services_of_one_name_are_told_apart_only_by_what_they_declare(view):
    both = _ask(view, "replicas of the worker")
    assert both is None or not both.found or {"4", "6"} <= set(both.text.replace(".", " ").split()), both


def test_a_time_zone_is_no_time():
    assert read("time zone of the heater?").value is None
    assert read("start time of the heater?").value is not None


@pytest.mark.parametrize(
    ("question", "denied"),
    [
        ("which services don't publish any port?", True),
        ("which services have no healthcheck", True),
        ("what does not depend on redis", True),
        ("list the services that are not behind the proxy", True),
        ("which services publish a port?", False),
        # Who cannot run without a thing needs it, and what stands behind "if" is another clause.
        ("which services can't run without redis", False),
        ("who has a problem if redis does not come up", False),
        ("what can't start any more if redis is missing", False),
        ("which services are in front but not in back", False),
        ("why does grafana not start", False),
    ],
)
def test_a_question_is_denied_where_its_own_verb_is(question: str, denied: bool) -> None:
    assert read(question).denied is denied
