"""Questions about quadlets and units of systemd: what is asked of Compose is answered of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taboot_pipelines.retrieval.answering.fact_answers import answer_from_facts
from taboot_pipelines.retrieval.queries.house import Arguments, House
from taboot_pipelines.retrieval.queries.services import images, unpinned_images
from taboot_pipelines.retrieval.session import View
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

FILES = {
    "ledger.container": """\
[Unit]
Requires=vault.service
[Container]
Image=ghcr.io/example/ledger:3
Environment=LEDGER_MODE=strict "GREETING=good day"
Environment=LOG_LEVEL=warn
HealthCmd=curl -f http://localhost:8080/ready
HealthInterval=25s
HealthRetries=4
Volume=/srv/accounts:/data:Z
Volume=books.volume:/books:ro,z
Mount=type=bind,source=/srv/extra,target=/extra
Exec=serve --workers=7
[Service]
MemoryMax=640M
Restart=on-failure
""",
    "ledger.container.d/more.conf": "[Container]\nEnvironment=REGION=north\n[Service]\nMemoryMax=768M\n",
    "films.container": "[Container]\nImage=films:1\nNetwork=house.network\n"
    "PublishPort=192.168.7.1:8096:8096\nPublishPort=192.168.7.1:7359:7359/udp\n",
    "house.network": "[Network]\nSubnet=10.89.5.0/24\n",
    "README.md": "# Images\n\n| Service | Image |\n| --- | --- |\n| films | films:latest |\n"
    "| accounts-ledger | ghcr.io/example/ledger:2.8 |\n",
    "books.volume": "[Volume]\nVolumeName=books\n",
    "vault.container": "[Container]\nImage=postgres:17\nEnvironment=POSTGRES_DB=accounts\n",
    "sweeper.timer": "[Timer]\nOnCalendar=Sun 03:20\nRandomizedDelaySec=60\n",
    "sweeper.service": "[Unit]\nRequires=vault.service\n"
    "[Service]\nExecStart=/usr/bin/sweep\nMemoryMax=96M\nUser=sweeper\n",
}
ASKED = [
    ("what is the memory limit of ledger?", ["768M"], "MemoryMax=768M"),
    # What a document calls otherwise, in another version, is what is declared.
    (
        "which version of accounts-ledger runs?",
        ["ledger", "runs version 3 (image"],
        "Image=ghcr.io/example/ledger:3",
    ),
    ("how much memory can sweeper use?", ["96M"], "MemoryMax=96M"),
    (
        "what are the volumes of ledger?",
        ["/srv/accounts at /data", "books", "/srv/extra at /extra"],
        "Volume=",
    ),
    ("what is the health check of ledger?", ["curl -f http://localhost:8080/ready"], "HealthCmd="),
    ("what is the interval of the health check of ledger?", ["25s"], "HealthInterval=25s"),
    ("what is LEDGER_MODE of ledger set to?", ["strict"], "LEDGER_MODE=strict"),
    ("what is GREETING of ledger set to?", ["good day"], "GREETING=good day"),
    ("what is the log level of ledger?", ["warn"], "LOG_LEVEL=warn"),
    ("what is REGION of ledger?", ["north"], "REGION=north"),
    ("what is POSTGRES_DB of vault?", ["accounts"], "POSTGRES_DB=accounts"),
    ("what is the restart policy of ledger?", ["on-failure"], "Restart=on-failure"),
    ("what command does ledger run?", ["serve --workers=7"], "Exec=serve"),
    ("which services have a health check?", ["ledger"], "HealthCmd="),
    ("which services have a memory limit?", ["ledger", "768M", "sweeper", "96M"], "MemoryMax"),
    (
        "which ports does films publish?",
        ["publishes ports 8096/tcp on 192.168.7.1 and 7359/udp on 192.168.7.1 on attic.example."],
        "PublishPort=192.168.7.1:8096",
    ),
    ("when does sweeper run?", ["Sun 03:20"], "OnCalendar=Sun 03:20"),
    ("what is the schedule of sweeper?", ["Sun 03:20"], "OnCalendar=Sun 03:20"),
    ("who mounts /srv/accounts?", ["ledger"], "Volume=/srv/accounts"),
    ("as which user does sweeper run?", ["sweeper"], "User=sweeper"),
]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    with FakeTei(dimension=16) as embedder:
        made = World(tmp_path_factory.mktemp("units"), embedder.url)
        units = made.source("units", host="attic.example", interpret=True, include=["**"])
        for name, text in FILES.items():
            (units / name).parent.mkdir(exist_ok=True)
            (units / name).write_text(text)
        made.ingest()
        yield made.kb()._session.view()
        made.workspace.close()


@pytest.mark.parametrize(("question", "told", "line"), ASKED, ids=[a[0] for a in ASKED])
def test_what_a_unit_is_set_to_is_told_with_its_line(
    view: View, question: str, told: list[str], line: str
) -> None:
    answer = answer_from_facts(view, question)
    assert answer is not None and answer.found, answer
    assert all(word in answer.text for word in told), answer.text
    assert "640M" not in answer.text
    assert any(line in c.text for s in answer.sentences for c in s.citations), answer


def test_a_network_is_known_by_the_name_of_its_unit(view: View) -> None:
    (number,) = view.graph.find("house", "Network")
    assert view.graph.nodes.column("name")[int(number)].as_py() == "systemd-house"


def test_a_text_that_leaves_the_version_out_does_not_unpin_an_image(view: View) -> None:
    house = House(view, lambda _: ())
    assert "docker.io/library/films:latest" in {row.cells["image"] for row in images(house, Arguments())}
    assert list(unpinned_images(house, Arguments())) == []


def test_a_value_of_one_service_does_not_say_which_services_are_so(view: View) -> None:
    answer = answer_from_facts(view, "which containers have the mode of ledger?")
    assert answer is None or not answer.found, answer
