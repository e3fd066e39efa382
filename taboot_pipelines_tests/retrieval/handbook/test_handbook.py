"""The handbook: every statement leads to its line, every link to a page, and nothing else is in it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from click.testing import CliRunner
from selectolax.lexbor import LexborHTMLParser

from taboot_pipelines.cli.group import cli
from taboot_pipelines.documents.secrets.masking import mask
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.handbook import site
from taboot_pipelines.retrieval.handbook.content import page_names
from taboot_pipelines.retrieval.handbook.pages import (
    Cell,
    Links,
    Note,
    Page,
    Passage,
    Place,
    Row,
    Said,
    Section,
    Table,
)
from taboot_pipelines.retrieval.sentences import split_sentences
from taboot_pipelines_tests.browse.payloads import PAYLOADS
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.retrieval.handbook.reading import statements
from taboot_pipelines_tests.world import HOMELAB, World, homelab_home

#: Code in Markdown, in which nothing is a link or a tag.
CODE = re.compile(r"(?s)(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)")
ABOUT = {"namespace": "default", "publication": 1, "id": "0" * 12, "newest": "2026-01-01 00:00 UTC"}


@pytest.fixture(scope="module")
def kb() -> KnowledgeBase:
    return KnowledgeBase.open(homelab_home(), read_only=True)


@pytest.fixture(scope="module")
def book(kb: KnowledgeBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kb.handbook(tmp_path_factory.mktemp("handbook") / "house").path


def pages(book: Path, ending: str = "md") -> list[Path]:
    return sorted(book.rglob(f"*.{ending}"))


def words(text: str) -> str:
    """The letters of a text, without marks and tags."""
    return re.sub(r"<[^<>]*>|[\W_]", "", text)


def test_each_statement_stands_in_the_line_that_it_names(book: Path) -> None:
    entries = yaml.safe_load((HOMELAB / "sources.yaml").read_text("utf-8"))["sources"]
    roots = {e["id"]: HOMELAB / e["path"] for e in entries}
    found = 0
    for page in pages(book):
        for statement in statements(page):
            assert statement.places, (page, statement)
            for place in statement.places:
                source, _, path = place.file.partition(":")
                lines = mask((roots[source] / path).read_text("utf-8"), "text/markdown").split("\n")
                begins = words(place.quote)[:40]
                # A sentence of HTML begins in its line and may go on in the next.
                line = " ".join(lines[place.line - 1 :][: 1 + path.endswith(".html")])
                assert begins and begins in words(line), (page, place)
                found += 1
    assert found > 1000


def test_each_sentence_of_a_text_has_its_own_place(book: Path) -> None:
    page = book / "runbooks" / "upgrade-gitea.md"
    found = [s.text for s in statements(page)]
    assert "Never skip a minor release." in found[7] or any(s.startswith("- Never skip") for s in found)
    prose = [s for s in found if "\n" not in s and " | " not in s]
    assert prose and all(len(split_sentences(re.sub(r"^(?:- |\d+\. )", "", s.strip()))) <= 1 for s in prose)


def test_each_link_leads_to_a_page_or_a_source(book: Path) -> None:
    links = 0
    for page in pages(book, "html"):
        tree = LexborHTMLParser(page.read_text("utf-8"))
        for node in tree.css("a, link"):
            to, _, fragment = (node.attributes["href"] or "").partition("#")
            if to.startswith(("http:", "https:")):
                continue
            file = (page.parent / unquote(to)).resolve() if to else page
            assert file.is_file() and file.is_relative_to(book), (page, to)
            if fragment:
                assert LexborHTMLParser(file.read_text("utf-8")).css_first(f"[id='{fragment}']"), (
                    page,
                    fragment,
                )
            links += 1
    for page in pages(book):
        for to in re.findall(r"\]\(([^()\s]+)\)", re.sub(CODE, "", page.read_text("utf-8"))):
            assert (page.parent / unquote(to)).resolve().is_file(), (page, to)
    assert links > 1000


def test_a_service_is_told_whole(book: Path) -> None:
    gitea = (book / "services" / "forge.gitea.md").read_text("utf-8")
    for said in (
        "| Image | `gitea/gitea:1.23.8` |",
        "| [db (forge)](../services/forge.db.md) | needs it (healthy) |",
        "| [runner](../services/forge.runner.md) | connects to it (http) |",
        "| `git.hearth.example` | [gitea:3000](../services/forge.gitea.md) | [swag](../services/edge.swag",
        "| `/srv/gitea` | `/data` |",
        "1. Stop everything that writes:",
        "docker compose stop gitea gitea-dump runner",
        "Never skip a minor release.",
    ):
        assert said in gitea, said
    # A login at another service is called after that, and never by a protocol that nothing says.
    routes = (book / "routes.md").read_text("utf-8")
    assert "(authelia) |" in routes and "oauth2" not in routes
    # The same picture as Mermaid and as SVG: the proxy leads to gitea, which leads to its page.
    nodes = dict(re.findall(r'(n\d+)\["(.+)"\]', gitea))
    lines = [(nodes[a], arrow, nodes[b]) for a, arrow, b in re.findall(r"  (n\d+) (\S+) (n\d+)", gitea)]
    assert ("swag", "==>", "gitea") in lines and ("gitea", "-->", "db") in lines
    drawn = LexborHTMLParser((book / "services" / "forge.gitea.html").read_text("utf-8")).css_first("svg")
    assert drawn is not None and drawn.css_first("a[href='../services/forge.db.html']") is not None
    jellyfin = (book / "services" / "media.jellyfin.md").read_text("utf-8")
    assert re.search(
        r"\n> Nothing was found that says how to restore jellyfin \(\d+ documents looked at\)\.\n", jellyfin
    )
    index = (book / "index.md").read_text("utf-8")
    assert re.search(r"> Nothing was found that says how to restore \d+ of 42 services by name \(", index)
    assert "[Restore Postgres from a backup](runbooks/restore-postgres.md)" in index
    (svg,) = LexborHTMLParser((book / "index.html").read_text("utf-8")).css("svg")
    assert "services/forge.gitea.html" in {a.attributes["href"] for a in svg.css("a")}


def test_what_a_service_is_is_read_below_its_name(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    names = {"n8n": "", "dns": "container_name: adguard-home", "quiet": "", "other": ""}
    services = "".join(f"  {name}:\n    image: a:1\n    {more}\n" for name, more in names.items())
    services += "  # ── Names of the house ───────\n  ruled:\n    image: a:1\n"
    (world.source("stacks", "compose", host="nas") / "compose.yaml").write_text(f"services:\n{services}")
    catalogue = "# Services\n\nAll that runs.\n"
    for heading, item in (
        ("n8n", "**Purpose:** Workflows for the house"),
        ("AdGuard Home", "**Description**: Blocks adverts"),
        ("quiet", "**Access:** nobody, for whatever purpose: none"),
        ("Other things", "**Purpose:** Something else"),
    ):
        catalogue += f"\n## {heading}\n\n- **Port:** 80\n- {item}\n"
    world.source("notes", path="stacks", include=["*.md"])
    (world.directory / "stacks" / "SERVICES.md").write_text(catalogue)
    world.ingest()
    book = world.kb().handbook(tmp_path / "book").path
    pages = {name: next(book.glob(f"services/*.{name}.md")).read_text() for name in (*names, "ruled")}
    found = {n: page.partition("## What it is\n\n")[2].partition("\n")[0] for n, page in pages.items()}
    assert found == {
        "n8n": "Workflows for the house[^1]",
        "dns": "Blocks adverts[^1]",
        "quiet": "> Nothing was found that says what quiet is (1 document looked at).",
        "other": "> Nothing was found that says what other is (1 document looked at).",
        "ruled": "Names of the house[^1]",
    }
    world.workspace.close()


def test_a_mount_is_cut_outside_of_its_variables(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    mounts = "['${REPO:?run setup.sh: it sets REPO}:/repo:ro', '${DATA:-/srv}:/data']"
    compose = f"services:\n  wiki:\n    image: a:1\n    volumes: {mounts}\n"
    (world.source("stacks", "compose") / "compose.yaml").write_text(compose)
    world.ingest()
    (page,) = (world.kb().handbook(tmp_path / "book").path / "services").glob("*wiki.md")
    found = [line for line in page.read_text().splitlines() if "`/repo`" in line or "`/data`" in line]
    assert any(re.match(r"\| `\$\{REPO[^|]*\}` \| `/repo` \| ro", line) for line in found), found
    assert any("`/data`" in line for line in found), found
    world.workspace.close()


def test_commands_that_a_text_lists_are_procedures(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    services = "".join(f"  {name}:\n    image: a:1\n" for name in ("gitea", "db", "docker"))
    (world.source("stacks", "compose", host="nas") / "compose.yaml").write_text(f"services:\n{services}")
    world.source("notes", path="stacks", include=["*.md"])
    (world.directory / "stacks" / "README.md").write_text(
        "# House\n\n## Daily\n\n- `make update` - All to their newest versions\n- `make logs` - Logs\n"
        "- `make restart` on a Mac does not help\n- `docker network create backup`\n"
        "- `updates/all.log` - A file\n\n"
        "## Make\n\n| target | for |\n| --- | --- |\n| `make stop` / `restart` | all |\n"
        "| `make update` | gitea only |\n| `make gitea-restart` | one |\n\n"
        "## Data\n\nAll in one folder. Backup: `tar -czf all.tar.gz data`\n\n"
        "Restore database: `docker exec db psql < dump`\n\nLast restored copy: `tar -czf x y`\n"
    )
    world.ingest()
    book = world.kb().handbook(tmp_path / "book").path
    index = (book / "index.md").read_text()
    told = re.findall(r"^\| (Restart|Back up|Restore|Update) \| (.*?) \| \[House: (.*?)\]", index, re.M)
    assert told == [("Restart", "", "Make"), ("Back up", "", "Data"), ("Update", "", "Daily")]
    assert "how to update any service by name (1 document looked at)" in index
    gitea, db = (next(book.glob(f"services/*.{name}.md")).read_text() for name in ("gitea", "db"))
    assert "`make gitea-restart`" in gitea and "make update" not in gitea
    assert "docker exec db psql" in db and "how to back up db" in db
    assert (
        "Nothing was found that says how to restore docker"
        in next(book.glob("services/*.docker.md")).read_text()
    )
    world.workspace.close()


def test_a_procedure_is_a_command_or_a_step(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    names = ("blog", "relay", "engine", "resolver", "metrics")
    services = "".join(f"  {name}:\n    image: a:1\n" for name in names)
    (world.source("stacks", "compose", host="nas") / "compose.yaml").write_text(f"services:\n{services}")
    world.source("notes", path="stacks", include=["*.md"])
    (world.directory / "stacks" / "notes").mkdir()
    (world.directory / "stacks" / "notes" / "n.md").write_text(
        "# Notes\n\n## Daily\n\n```bash\nsystemctl restart blog.service\nsystemctl restart relay.timer\n"
        'ssh me@nas "sudo engine restart all"\nengine exec -i other pg_dump > all.sql\n```\n\n'
        "## Flow\n\n```\npush main      engine restart\n  │\n  ▼\nimage      engine pull resolver\n```\n\n"
        "## Names\n\n3. The relay sends a DNS UPDATE to resolver (signed)\n\n"
        "## Failures and recovery\n\n### By hand\n\n1. Switch it off.\n\n"
        "### Alerts of metrics\n\n```yaml\n- alert: Down\n  expr: up == 0\n```\n\n"
        "## Site not updating\n\n1. Look at it.\n\n## After a night (after reboot)\n\n1. Look again.\n\n"
        "## Updating and restarting all\n\n1. `make all`\n"
    )
    world.ingest()
    book = world.kb().handbook(tmp_path / "book").path
    index = (book / "index.md").read_text()
    told = dict(re.findall(r"^\| \[(\w+)\]\(services/.*? \| ([\w ,]*) \| \[\^", index, re.M))
    assert {n: t for n in names if (t := told.get(n, ""))} == {"blog": "restart"}
    assert "systemctl restart blog.service" in next(book.glob("services/*.blog.md")).read_text()
    general = re.findall(r"^\| (\w+) \|  \| \[Notes: (.*?)\]", index, re.M)
    assert general == [
        ("Restart", "Updating and restarting all"),
        ("Restore", "Failures and recovery"),
        ("Update", "Updating and restarting all"),
    ]
    world.workspace.close()


def test_compose_without_a_name_means_the_services_beside_the_text(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    stacks = world.source("stacks", "compose", host="nas")
    for name in ("music", "films"):
        (stacks / name).mkdir()
        (stacks / name / "compose.yaml").write_text(
            f"services:\n  {name}:\n    image: a:1\n    container_name: {name}-box\n"
        )
    world.source("notes", path="stacks", include=["*.md"])
    (stacks / "music" / "README.md").write_text(
        "# Here\n\n## Daily\n\n```sh\ncd /srv/music\ndocker compose restart\n```\n\n"
        "## Elsewhere\n\n```sh\ncd /srv/films && docker compose pull\n```\n"
    )
    (stacks / "films" / "README.md").write_text(
        "# There\n\n## Daily\n\n`docker compose` it is.\n\n```sh\ndocker restart films-box\n```\n"
    )
    world.ingest()
    book = world.kb().handbook(tmp_path / "book").path
    index = (book / "index.md").read_text()
    told = dict(re.findall(r"^\| \[([\w@-]+)\]\(services/.*? \| ([\w ,]*) \| \[\^", index, re.M))
    assert (told["music"], told["films"]) == ("restart", "restart, update")
    world.workspace.close()


def test_scripts_that_restore_and_what_is_urgent_stand_on_the_overview(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    services = "".join(f"  {name}:\n    image: a:1\n" for name in ("gitea", "relay", "engine"))
    (world.source("stacks", "compose", host="nas") / "compose.yaml").write_text(f"services:\n{services}")
    world.source("notes", path="stacks", include=["*.md", "*.sh", "ops/*.yml", "ops/*.yaml"])
    stacks = world.directory / "stacks"
    (stacks / "db-restore.sh").write_text(
        "#!/bin/sh\n# Restore one dump. It stops the relay.\n#\n# Usage:\n#   db-restore.sh NAME   its name\n"
        "set -e\n# the relay again\ncase $1 in\n  gitea) engine exec /srv/relay/x;;\nesac\n"
    )
    (stacks / "sync.sh").write_text("#!/bin/sh\n# Restore all that was lost.\nrsync gitea /x\n")
    (stacks / "backup.sh").write_text("#!/bin/sh\n# Copies the settings of the editor.\nrsync gitea /x\n")
    (stacks / "ops").mkdir()
    (stacks / "ops" / "nightly_backup.yml").write_text(
        "---\n# Backup of everything, nightly.\n- name: All\n  hosts: nas\n  tasks: []\n"
    )
    (stacks / "ops" / "backup.yaml").write_text("# Settings of the backup.\nkeep: 3\n")
    (stacks / "pool.md").write_text(
        "# Pool\n\n**By hand. This is NOT for a robot.** Read all.\n\nMore.\n\n## Later\n\n"
        "**Do NOT hurry.**\n\n"
        "> [!CAUTION]\n> Two disks are gone.\n>\n> A third takes all.\n\n> [!NOTE]\n> Fine so far.\n\n"
        "!!! warning\n    It is hot.\n\n**⚠️ DANGER:** high voltage.\n\n- **CRITICAL:** Down\n\n"
        "## STOP before this\n\nThink.\n\n## Stop the relay\n\nIt stops.\n\nThe WARNING light is on.\n"
    )
    world.ingest()
    book = world.kb().handbook(tmp_path / "book").path
    index = (book / "index.md").read_text()
    sections = dict(re.findall(r"^## (.*?)\n\n(.*?)(?=^## |^---$)", index, re.M | re.S))
    assert list(sections)[:2] == ["Read first", "Map"]
    urgent = re.sub(r"\[\^\d+\]", "", sections["Read first"])
    told = [x for x in urgent.split("\n\n") if x and not x.startswith("### ")]
    assert told == [
        "\\[!CAUTION\\] Two disks are gone. A third takes all.",
        "⚠️ DANGER: high voltage.",
        "#### STOP before this",
        "Think.",
        "By hand. This is NOT for a robot. Read all.",
        "!!! warning It is hot.",
    ]
    procedures = sections["Procedures"]
    rows = re.findall(r"^\| (Back up|Restore) \| (.*?) \| \[(.*?)\]\((scripts/.*?)\)", procedures, re.M)
    assert [row[:3] for row in rows] == [
        ("Back up", "", "ops/nightly_backup.yml"),
        ("Restore", "[gitea](services/stacks.gitea.md)", "db-restore.sh"),
    ]
    nightly, restore = ((book / row[3]).read_text() for row in rows)
    assert "Usage:\n  db-restore.sh NAME   its name\n```" in restore
    assert "Backup of everything, nightly." in nightly
    gitea, relay, engine = (
        next(book.glob(f"services/*.{n}.md")).read_text() for n in ("gitea", "relay", "engine")
    )
    assert "gitea) engine exec /srv/relay/x;;" in gitea and "how to back up gitea" in gitea
    assert "how to restore relay" in relay and "how to restore engine" in engine
    # Each line of a script leads to its line.
    places = [p for s in statements(book / "index.md") for p in s.places if p.file.endswith(".sh")]
    assert {(p.line, p.quote) for p in places} == {(2, "# Restore one dump. It stops the relay.")}
    world.workspace.close()


def how(book: Path, service: str, to: str) -> str:
    """What the page of a service says of how something is done to it, without the marks of its places."""
    page = next(book.glob(f"services/{service}.md")).read_text()
    section = re.search(rf"^## {to}.*?\n\n(.*?)(?=^## |^---$)", page, re.M | re.S)
    assert section is not None, page
    return re.sub(r"\[\^\d+\]", "", section[1]).strip()


def test_a_script_is_of_what_lies_beside_it_and_what_its_commands_name(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    stacks = world.source("stacks", "compose", host="nas")
    projects = {
        "forum": {"web": "a:1", "db": "postgres:17"},
        "wiki": {"wiki": "a:1", "postgres": "postgres:17"},
        "hall": {"lampd": "a:1", "bell": "a:1", "hornd": "a:1"},
    }
    for project, services in projects.items():
        (stacks / project).mkdir()
        held = "".join(f"  {name}:\n    image: {image}\n" for name, image in services.items())
        (stacks / project / "compose.yaml").write_text(f"services:\n{held}")
    (stacks / "ops").mkdir()
    (stacks / "forum" / "restore.sh").write_text(
        "#!/bin/sh\n#\n# Restore the forum.\n#\n"
        'echo "==> Waiting for Postgres"; echo lampd\nread -p "lampd? " x\n'
        "printf 'What is NOT touched:\nlampd and bell\n' | more\n"
        "cat <<EOF\n3. lampd works\nEOF\ndocker compose exec postgres true # lampd\ndocker start bell\n"
    )
    (stacks / "ops" / "backup.sh").write_text(
        "#!/bin/sh\n# Backup of one.\nBOX='lampd'\nALL=\"bell hornd\"\n"
        'docker exec "${BOX}" tar c /x\ncp hornd.tar bell.conf /x\n'
    )
    world.source("notes", path="stacks", include=["**/*.md", "**/*.sh"])
    (stacks / "ops" / "last.md").write_text(
        "# Last\n\n1. Stop it:\n\n   ```sh\n   restic restore x --include /opt/forum/postgres\n   ```\n\n"
        "2. Restore `postgres` now.\n"
    )
    world.ingest()
    book = world.kb().handbook(tmp_path / "book").path
    for service in ("forum.web", "forum.db"):
        assert how(book, service, "How to restore").endswith("```\nRestore the forum.\n```\n\nSource:")
        assert "It lies where" in how(book, service, "How to restore")
    for service in ("wiki.wiki", "wiki.postgres", "hall.lampd", "hall.hornd"):
        assert how(book, service, "How to restore").startswith("> Nothing was found"), service
    assert "docker start bell" in how(book, "hall.bell", "How to restore")
    assert 'docker exec "${BOX}" tar c /x' in how(book, "hall.lampd", "How to back")
    for service in ("hall.bell", "hall.hornd"):
        assert how(book, service, "How to back").startswith("> Nothing was found"), service
    index = (book / "index.md").read_text()
    assert "| Restore | db, web and bell | [forum/restore.sh](scripts/forum-restore.md) |" in index
    world.workspace.close()


def test_texts_of_a_service_tell_what_it_is_and_what_is_done_to_it(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    stacks = world.source("stacks", "compose", host="box.lan")
    for project, names in {"hall": ("hall",), "wiki": ("wiki", "store"), "rest": ("bell", "horn")}.items():
        (stacks / project).mkdir()
        held = "".join(f"  {name}:\n    image: a:1\n" for name in names)
        (stacks / project / "compose.yaml").write_text(f"services:\n{held}")
    world.source("notes", path="stacks", include=["**/*.md"])
    (stacks / "hall" / "README.md").write_text(
        "# Hall-ng\n\nLights for the whole house.\n\n## Backup\n\nAll lies in one folder.\n\n"
        "## Backups and updates\n\nBy hand alone.\n\n## Restore policy\n\nNever yet.\n"
    )
    (stacks / "other").mkdir()
    (stacks / "other" / "wiki.md").write_text(
        "# Wiki — what the house knows\n\nIt runs on box.lan. The wiki is down today.\n"
        "Bell monitors the door. Horn is the one that went. See [facts](facts.md).\n\n"
        "## Backup\n\nNightly.\n\n## Trouble\n\n"
        "**Pages are old.** The cache is full. Look:\n\n```sh\ndocker exec wiki ls\n```\n\n"
        "It must be empty. If it is not:\n\n```sh\ndocker compose restart wiki\n```\n\n"
        "**Else.** Nothing is lost. Restart bell. Ring twice.\n"
    )
    (stacks / "other" / "facts.md").write_text("# Facts\n\nThe hall of box.lan has one door.\n")
    units = world.source("units", interpret=True)
    (units / "night-backup.service").write_text(
        "[Unit]\nDescription=Copies all\n[Service]\nType=oneshot\nExecStart=/usr/bin/copy all\n"
    )
    (units / "night-backup.timer").write_text("[Timer]\nOnCalendar=*-*-* 01:00:00\n")
    world.ingest()
    book = world.kb().handbook(tmp_path / "book").path
    whats = {s: how(book, s, "What it is") for s in ("hall.hall", "wiki.wiki", "rest.bell", "rest.horn")}
    assert (whats["hall.hall"], whats["wiki.wiki"]) == (
        "Lights for the whole house.",
        "Wiki — what the house knows",
    )
    assert all(whats[s].startswith("> Nothing was found") for s in ("rest.bell", "rest.horn"))
    backup = how(book, "hall.hall", "How to back")
    assert "All lies in one folder." in backup and "By hand alone." in backup
    assert "By hand alone." in how(book, "hall.hall", "How to update")
    assert how(book, "hall.hall", "How to restore").startswith("> Nothing was found")
    assert how(book, "wiki.wiki", "How to back").startswith("> Nothing was found")
    # A command or a sentence stands with all that it is of.
    restart = how(book, "wiki.wiki", "How to restart").partition("\n\n")[2]
    assert restart.startswith("Pages are old. The cache is full. Look:\n\n```\ndocker exec wiki ls\n")
    assert "It must be empty. If it is not:\n\n```\ndocker compose restart wiki\n" in restart
    assert "Else" not in restart
    assert how(book, "rest.bell", "How to restart").endswith(
        "Else. Nothing is lost. Restart bell. Ring twice."
    )
    # Each text has its page, and leads to those that it links to.
    index = (book / "index.md").read_text()
    assert "## Other documents\n\n* [Facts](documents/other-facts.md) · other/facts.md\n" in index
    links = (book / "runbooks" / "other-wiki.md").read_text().partition("## Documents that it leads to")[2]
    assert links.startswith("\n\n* [Facts](../documents/other-facts.md) · other/facts.md\n")
    # A unit of systemd has no relation, but a setting and a time.
    glance = how(book, "systemd.night-backup", "At a glance")
    assert "| Runs | `/usr/bin/copy all` |" in glance and "| When | `OnCalendar=*-*-* 01:00:00` |" in glance
    assert how(book, "systemd.night-backup", "How to back") == (
        "> By its name night-backup is what does so to others."
    )
    assert (
        "| [night-backup](services/systemd.night-backup.md) | `OnCalendar=*-*-* 01:00:00` |"
        in index.partition("## What runs by itself")[2].partition("##")[0]
    )
    world.workspace.close()


def test_what_each_machine_has_of_its_own_is_no_network_between_machines(
    tmp_path: Path, tei: FakeTei
) -> None:
    world = World(tmp_path, tei.url)
    for machine in ("nas", "pi"):
        folder = world.source(machine, "compose", host=machine)
        for name in ("one", "two"):
            (folder / name).mkdir()
            (folder / name / "compose.yaml").write_text(
                f"services:\n  {machine}-{name}:\n    image: a:1\n    network_mode: host\n"
            )
    folder = world.source("anywhere", "compose")
    for name in ("x", "y"):
        (folder / name).mkdir()
        (folder / name / "compose.yaml").write_text(
            f"services:\n  {name}:\n    image: a:1\n    network_mode: bridge\n"
        )
    world.source("notes", path="anywhere", include=["**/*.md"])
    (world.source("proxy", "swag", proxy="edge") / "a.conf").write_text(
        "server {\n  server_name a.house;\n  location / {\n    proxy_pass http://10.9.9.9:8910;\n  }\n}\n"
    )
    (folder / "x" / "hosts.md").write_text(
        "# Machines\n\n| Host | IP | For |\n| --- | --- | --- |\n| attic | 192.168.7.9 | backups |\n"
        "| one.one.one.one | 1.1.1.1 | not ours |\n"
    )
    world.ingest()
    book = world.kb().handbook(tmp_path / "book").path
    assert not list(book.glob("networks/bridge*"))
    shared = [re.findall(r"^\| \[(.*?)\]", p.read_text(), re.M) for p in book.glob("networks/host*.md")]
    assert sorted(shared) == [["nas-one", "nas-two"], ["pi-one", "pi-two"]]
    hows = {name: {g.how for g in world.kb().impact(name).groups} for name in ("x", "pi-one")}
    assert "shares its network" in hows["pi-one"] and "shares its network" not in hows["x"]
    assert sorted(p.stem for p in book.glob("hosts/*.md")) == ["attic", "nas", "pi"]
    assert "`192.168.7.9`" in (book / "hosts" / "attic.md").read_text()
    # A route may lead to one of them though none is known to.
    one = next(book.glob("services/*.nas-one.md")).read_text()
    assert (
        "> No route to nas-one is known.\n\n* [Routes and ports](../routes.md)"
        " · 1 route of the house to a place whose service is not known\n" in one
    )
    # What few have is no column of the overview.
    assert "| Service | Project | Host | Source |" in (book / "index.md").read_text()
    world.workspace.close()


def test_one_publication_makes_the_same_bytes(kb: KnowledgeBase, book: Path, tmp_path: Path) -> None:
    again = KnowledgeBase.open(homelab_home(), read_only=True).handbook(tmp_path / "again").path
    files = {p.relative_to(book): p.read_bytes() for p in book.rglob("*") if p.is_file()}
    assert files == {p.relative_to(again): p.read_bytes() for p in again.rglob("*") if p.is_file()}
    about = json.loads(files[Path("handbook.json")])
    environment = {"TABOOT_HOME": str(homelab_home()), "TABOOT_READ_ONLY": "true"}
    told = CliRunner().invoke(cli, ["handbook", str(tmp_path / "cli"), "--json"], env=environment)
    assert json.loads(told.stdout) == {"path": str(tmp_path / "cli"), "pages": len(pages(book))}
    assert (tmp_path / "cli" / "index.md").read_bytes() == files[Path("index.md")]
    assert about["publication"] == kb.manifest.version and set(map(Path, about["files"])) < set(files)


@pytest.fixture
def world(tmp_path: Path, tei: FakeTei) -> Iterator[World]:
    made = World(tmp_path, tei.url)
    stacks = made.source("stacks", "compose", host="box.lan")
    for project in ("one", "two"):
        (stacks / project).mkdir()
        (stacks / project / "compose.yaml").write_text("services: {redis: {image: 'redis:7'}}\n")
    (made.source("notes") / "gone.md").write_text(
        "# Restore the redis of two\n\nCopy the dump back to box.lan.\n"
    )
    (made.directory / "notes" / "box.md").write_text(
        "# The box\n\n## Backup schedule\n\nNightly at two.\n\n## Updates\n\n```sh\n./update.sh all\n```\n\n"
        "A reboot takes down redis. It is up again soon.\n\nAfter an hour, restart redis.\n"
        "\nTo go back: stop all, take the line out, load it anew, restart redis.\n"
    )
    (stacks / "two" / "README.md").write_text("# Here\n\n## Restart\n\n```sh\n./again.sh all\n```\n")
    made.source("readmes", path=str(stacks), include=["**/*.md"])
    made.ingest()
    yield made
    made.workspace.close()


def test_a_handbook_replaces_a_handbook_and_nothing_else(world: World, tmp_path: Path) -> None:
    target = tmp_path / "books" / "house"
    made = world.kb().handbook(target)
    assert (target / "services" / "one.redis.html").is_file() and made.pages == len(pages(target))
    two, one = ((target / "services" / f"{p}.redis.md").read_text("utf-8") for p in ("two", "one"))
    assert (
        "Copy the dump back to box.lan." in two
        and "Nothing was found that says how to restore redis (" in one
    )
    assert (target / "runbooks" / "gone.md").is_file()
    # What a heading tells how to do has steps; a sentence tells it by a verb whose object is the service.
    told = (target / "index.md").read_text("utf-8").partition("## Procedures")[2].partition("##")[0]
    assert "Updates" in told and "schedule" not in told
    assert "restart redis.[^" in one and "takes down redis.[^" not in one and "To go back" not in one
    # What names the service is before what only lies beside its declaration.
    assert 0 < two.index("restart redis.[^") < two.index("./again.sh all")
    (world.directory / "notes" / "gone.md").write_text("# Lanterns\n\nThey hang in the hall of box.lan.\n")
    (world.directory / "stacks" / "two" / "compose.yaml").unlink()
    world.ingest(confirm_deletes=True)
    world.kb().handbook(target)
    assert (
        not (target / "services" / "two.redis.md").exists() and not (target / "runbooks" / "gone.md").exists()
    )
    assert [p.name for p in target.parent.iterdir()] == ["house"]
    (target / "services" / "mine.md").write_text("of somebody else")
    file = tmp_path / "file"
    file.write_text("x")
    for wrong in (target, file, world.directory):
        with pytest.raises(TabootError, match="E_CONFLICT"):
            world.kb().handbook(wrong)
    assert (target / "services" / "mine.md").read_text() == "of somebody else" and file.read_text() == "x"


def test_a_handbook_that_fails_leaves_the_one_before(
    kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "house"
    site.write([page("index", "before")], ABOUT, target)
    before = {p: p.read_bytes() for p in target.rglob("*") if p.is_file()}
    write, files = Path.write_bytes, itertools.count()

    def full(path: Path, data: bytes) -> int:
        if next(files) == 20:
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(TabootError, match="E_STORAGE"):
        kb.handbook(target)
    assert {p: p.read_bytes() for p in target.rglob("*") if p.is_file()} == before
    assert list(tmp_path.iterdir()) == [target]


def page(name: str, text: str) -> Page:
    """A page all of whose texts are one."""
    places = (Place(f"files:{text}", 1, text, "index"),)
    table = Table((text, "b"), [Row((Cell(text, "index"), Cell(text, code=True)), places)])
    said = [Said(form, [(text, places)]) for form in ("sentence", "item", "heading", "code")]
    passage = Passage([*said, table], text, "index", text, text)
    blocks = [table, passage, Note(text, gap=True), Links([(Cell(text, "index"), text)])]
    return Page(name, text, "Service", [Section("What it is", list(blocks)) for _ in range(4)], text)


def test_no_text_of_a_source_is_more_than_text(tmp_path: Path) -> None:
    hostile = [
        *PAYLOADS,
        "a | b ` c",
        "[x](javascript:ran())",
        "# h",
        "\u202egnp.exe",
        "![x](//evil.example)",
        "```\n#",
    ]
    hostile = [t.replace("{run}", "ran()") for t in hostile]
    book = site.write(
        [page(f"p{n}", t) for n, t in enumerate(hostile)] + [page("index", "i")], ABOUT, tmp_path / "b"
    ).path
    plain = LexborHTMLParser((book / "index.html").read_text("utf-8"))
    usual = {n.tag for n in plain.css("*")}
    for n, text in enumerate(hostile):
        html, markdown = ((book / f"p{n}.{e}").read_text("utf-8") for e in ("html", "md"))
        tree = LexborHTMLParser(html)
        assert {x.tag for x in tree.css("*")} <= usual, text
        for node in tree.css("*"):
            assert not any(a.lower().startswith("on") or a == "style" for a in node.attributes), (
                text,
                node.html,
            )
            assert (node.attributes.get("href") or "index").startswith(("index", "style", "#", "routes")), (
                text
            )
        outside = re.sub(CODE, "", markdown)
        assert not re.search(r"(?<!\\)<|(?<!\\)\]\((?!index|routes)|(?<!\\)!\[", outside), (text, outside)
        assert "\u202e" not in html + markdown


def test_hostile_names_are_safe_files_of_their_own() -> None:
    names = [
        "../x",
        "..",
        "/etc/passwd",
        "<script>",
        "a" * 300,
        "a" * 299 + "b",
        "\u202ecba",
        "",
        " ",
        "con",
        "CON",
    ]
    names += ["Web", "web", "web ", "\u05d0", "\u05d1", ".git", "a\x00b", "index", "x\ny"]
    found = page_names([(("service", n), "services", name, f"{n}/{name}") for n, name in enumerate(names)])
    made = list(found.values())
    assert len(set(made)) == len(names) and found["service", names.index("index")] == "services/index"
    for name in made:
        assert re.fullmatch(r"services/[a-z0-9_][a-z0-9._-]{0,80}", name) and ".." not in name, name
        assert name.split("/")[1].split(".")[0] not in ("con", "prn", "aux", "nul")
