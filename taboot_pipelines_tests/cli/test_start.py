"""Beginning: ``init``, ``sources``, ``documents``, ``config``, and a ``status`` of one screen."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from taboot_pipelines_tests.cli.terminal import bare, seen, too_long
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.needs import HOMELAB
from taboot_pipelines_tests.world import World


@pytest.fixture
def fresh(tmp_path: Path, tei: FakeTei) -> Shell:
    """A homelab that nobody has written a sources file for."""
    world = World(tmp_path, tei.url)
    shutil.copytree(HOMELAB, world.directory, dirs_exist_ok=True)
    (world.directory / "sources.yaml").unlink()
    return Shell(world)


def test_init_writes_what_it_finds_and_overwrites_nothing(fresh: Shell) -> None:
    file = fresh.world.directory / "sources.yaml"
    shown = fresh("init")
    assert "stacks (compose): 15 files" in shown and "taboot ingest --dry-run" in shown
    written = file.read_text()
    entries = {e["id"]: e for e in yaml.safe_load(written)["sources"]}
    assert {(e["type"], e["path"]) for e in entries.values()} == {
        ("compose", "stacks"),
        ("swag", "proxy"),
        ("files", "."),
    }
    assert entries["proxy"]["proxy"] == "swag"
    assert "# host:" in written and "type: web" in written, "commented"
    assert fresh.json("sources", "check")["sources"] == list(entries)
    told = {s["source"]: s for s in fresh.json("ingest", "--dry-run")["sources"]}
    read = [path for source in told.values() for path in source["added"]]
    assert len(told["proxy"]["added"]) == 13 and "runbooks/redis.md" in read
    assert counted(shown) == {name: len(source["added"]) for name, source in told.items()}

    file.write_text(f"{written}# mine\n")
    assert fresh.json("init", code=1)["error"]["code"] == "E_CONFLICT" and file.read_text().endswith(
        "# mine\n"
    )
    fresh("init", "--force")
    assert file.read_text() == written


def counted(shown: str) -> dict[str, int]:
    """{source: files} as ``init`` tells."""
    return {name: int(n) for name, n in re.findall(r"^  (\S+) \(\w+\): (\d+) files", shown, re.MULTILINE)}


def test_init_finds_quadlets_configuration_and_the_proxy(fresh: Shell, tmp_path: Path) -> None:
    house = tmp_path / "house"
    label = "traefik.http.routers.a.rule=Host(`a.lan`)"
    for name, text in {
        "README.md": "# The house",
        ".github/ISSUE.md": "# An issue",
        "notes/.drafts/x.md": "# A draft",
        "notes/a.md": "# A",
        "stacks/app/compose.yaml": f"services:\n  app:\n    image: x\n    labels: ['{label}']\n",
        "stacks/app/Dockerfile": "FROM x\n",
        "stacks/media-stack.yml": "services:\n  film:\n    image: acme/film:1\n",
        "images/Dockerfile": "FROM y\n",
        "web/package-lock.json": '{"packages": {"left-pad": {"version": "1.3.0"}}}',
        "web/lockers.yaml": "door: 4\n",
        "stacks/edge/compose.yaml": "services:\n  gate:\n    image: docker.io/library/traefik:v3\n",
        "quadlets/db.container": "[Container]\nImage=postgres:17\n",
        "quadlets/db.container.d/more.conf": "[Service]\nMemoryMax=1G\n",
        "quadlets/lan.network": "[Network]\n",
        "web/Caddyfile": "a.lan {\n reverse_proxy app:80\n}\n",
        "web/a.png": "no text",
        "web/b.PNG": "no text",
        "web/gate.php": "<?php",
        "web/nginx.conf.template": "server {\n listen 80;\n location / { proxy_pass http://app:80; }\n}\n",
        "node_modules/x.md": "# Of somebody else",
    }.items():
        (house / name).parent.mkdir(parents=True, exist_ok=True)
        (house / name).write_text(text)
    shown = fresh("init", str(house))
    entries = {
        e["path"]: e for e in yaml.safe_load((fresh.world.directory / "sources.yaml").read_text())["sources"]
    }
    by = {path.removeprefix("../house").lstrip("/"): entry for path, entry in entries.items()}
    assert {path: entry["type"] for path, entry in by.items()} == {"stacks": "compose", "": "files"}
    assert by["stacks"]["proxy"] == "gate" and by[""]["proxy"] == "caddy" and by[""]["interpret"]
    told = {s["source"]: s for s in fresh.json("ingest", "--dry-run")["sources"]}
    added = {path: told[entry["id"]]["added"] for path, entry in by.items()}
    assert added == {
        "stacks": ["app/Dockerfile", "app/compose.yaml", "edge/compose.yaml", "media-stack.yml"],
        "": [
            "README.md",
            "images/Dockerfile",
            "notes/a.md",
            "quadlets/db.container",
            "quadlets/db.container.d/more.conf",
            "quadlets/lan.network",
            "web/Caddyfile",
            "web/lockers.yaml",
            "web/nginx.conf.template",
        ],
    }
    assert counted(shown) == {name: len(source["added"]) for name, source in told.items()}
    assert "  Left out: 2 .png, web/package-lock.json, web/gate.php\n" in shown
    assert "  Not looked into: .github/, notes/.drafts/\n" in shown
    again = fresh.json("init", str(house), "--force")
    assert sorted(again["left_out"]) == ["web/a.png", "web/b.PNG", "web/gate.php", "web/package-lock.json"]
    assert again["hidden"] == [".github/", "notes/.drafts/"]


def test_init_finds_what_runs_but_not_what_is_declared(fresh: Shell, tmp_path: Path) -> None:
    house = tmp_path / "house"
    container = {"Id": "a" * 64, "Name": "/web", "State": {"Status": "running"}, "Config": {"Image": "nginx"}}
    sockets = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port\nLISTEN 0 5 0.0.0.0:80 0.0.0.0:*\n"
    declared = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}
    for name, text in {
        "dumps/nas.json": json.dumps([{**container, "HostConfig": {}}]),
        "dumps/ss.txt": sockets,
        "app/deployment.json": json.dumps(declared),
        "app/package.json": '{"name": "web", "status": "x"}',
        "notes.txt": "What runs is in dumps.",
    }.items():
        (house / name).parent.mkdir(parents=True, exist_ok=True)
        (house / name).write_text(text)
    fresh("init", str(house))
    entries = yaml.safe_load((fresh.world.directory / "sources.yaml").read_text())["sources"]
    assert [(e["type"], e["path"]) for e in entries] == [("runtime", "../house/dumps"), ("files", "../house")]
    told = {s["source"]: s["added"] for s in fresh.json("ingest", "--dry-run")["sources"]}
    assert sorted(told["dumps"]) == ["nas.json", "ss.txt"] and "notes.txt" in told["house"]
    assert not {"dumps/nas.json", "dumps/ss.txt"} & set(told["house"])


def test_init_takes_what_tests_set_up_for_no_project(fresh: Shell, tmp_path: Path) -> None:
    house = tmp_path / "house"
    for name in ("docker/web/compose.yaml", "roles/web/molecule/default/files/web/compose.yaml"):
        (house / name).parent.mkdir(parents=True)
        (house / name).write_text("services: {web: {image: 'nginx:1'}}\n")
    fresh("init", str(house))
    entries = yaml.safe_load((fresh.world.directory / "sources.yaml").read_text())["sources"]
    assert [(e["type"], e["path"]) for e in entries] == [
        ("compose", "../house/docker"),
        ("files", "../house"),
    ]
    fresh("ingest")
    services = fresh.json("query", "services")["rows"]
    assert [(r["cells"]["service"], r["cells"]["file"]) for r in services] == [("web", "web/compose.yaml")]


def test_init_of_odd_folders(fresh: Shell, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    for name in ("a", "b", "c", "d", "My Notes: all"):
        (odd / name).mkdir(parents=True)
        (odd / name / "docker-compose.yml").write_text("services: {}\n")
    (odd / "My Notes: all" / "docs").mkdir()
    (odd / "My Notes: all" / "docs" / "x.rst").write_text("X\n=\n")
    (odd / "node_modules" / "p").mkdir(parents=True)
    (odd / "node_modules" / "p" / "compose.yaml").write_text("services: {}\n")
    (odd / "my.conf").write_text("[mysqld]\nbind = 1\n")
    (odd / "loop").symlink_to(odd)
    told = fresh.json("init", str(odd))
    entries = yaml.safe_load((fresh.world.directory / "sources.yaml").read_text())["sources"]
    # Many folders with one project each are one source; a conf that is no conf of nginx is none.
    assert [(e["type"], e["path"]) for e in entries] == [
        ("compose", "../odd"),
        ("files", "../odd"),
    ]
    assert told["sources"] == ["odd", "odd-files"] and entries[1]["exclude"] == ["docker-compose.yml"]
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = fresh.json("init", "--force", str(empty), code=1)["error"]
    assert refused["code"] == "E_SOURCES" and str(empty) in refused["message"]


def test_init_of_a_repository_of_ansible(fresh: Shell, tmp_path: Path) -> None:
    files = {
        "roles/media/templates/docker-compose.yml.j2": "services: {films: {image: 'jellyfin:{{ films }}'}}\n",
        "roles/media/defaults/main.yml": "films: '{{ jellyfin_version }}'\n",
        "group_vars/all.yml": "jellyfin_version: 10.10.7\n",
        "README.md": "# House\n\nFilms are on the big machine.\n",
    }
    for name, text in files.items():
        file = tmp_path / "house" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    fresh("init", str(tmp_path / "house"))
    entries = yaml.safe_load((fresh.world.directory / "sources.yaml").read_text())["sources"]
    assert [(e["type"], e["path"]) for e in entries] == [("compose", "../house"), ("files", "../house")]
    fresh("ingest")
    (row,) = fresh.json("query", "images")["rows"]
    assert (row["cells"]["project"], row["cells"]["tag"]) == ("media", "10.10.7")


def test_sources_are_checked_and_listed(homelab: Shell, tmp_path: Path) -> None:
    rows = {r["id"]: r for r in homelab.json("sources", "list")["sources"]}
    assert rows["proxy"]["documents"] == 13 and rows["proxy"]["schedule"] == "*/30 * * * *"
    assert {r["state"] for r in rows.values()} == {"well"}
    changed = Shell(homelab.world)
    changed.environment = {**homelab.environment, "TABOOT_SOURCES": str(tmp_path / "sources.yaml")}
    (tmp_path / "sources.yaml").write_text(
        "sources:\n- {id: new, type: files, path: nowhere}\n- {id: mail, type: gmail, path: nowhere}\n"
    )
    rows = {r["id"]: r for r in changed.json("sources", "list")["sources"]}
    assert rows["new"]["state"] == "not read yet" and rows["stacks"]["state"] == "has left the file"
    told = changed.json("sources", "check", code=1)["error"]
    assert told["code"] == "E_PATH" and "new: nowhere" in told["message"]
    (tmp_path / "sources.yaml").write_text("sources:\n- {id: site, type: web, urls: [x, https://a.lan/]}\n")
    told = changed.json("sources", "check", code=1)["error"]
    assert told["code"] == "E_SOURCES" and told["message"].endswith("these are no URLs: site: x.")
    (tmp_path / "sources.yaml").write_text("sources:\n- {id: new, type: fils, path: x}\n- 3\n")
    assert changed.json("sources", "check", code=1)["error"]["details"]["problems"][0].startswith("line 2, ")
    # The state is told all the same, and what mends it.
    state = changed.json("status", code=1)
    assert {"subject", "what", "command"} == set(state["attention"][0])
    assert "line 3, column 3" in str(state["attention"]) and "taboot sources check" in str(state["attention"])


def test_a_compose_source_without_a_host_beside_one_that_has_one_is_told(
    homelab: Shell, tmp_path: Path
) -> None:
    changed = Shell(homelab.world)
    changed.environment = {**homelab.environment, "TABOOT_SOURCES": str(tmp_path / "sources.yaml")}
    entries = "sources:\n- {id: a, type: compose, path: .}\n- {id: b, type: compose, path: .%s}\n"

    def told() -> set[str]:
        return {x["subject"] for x in changed.json("status")["attention"] if "names no host" in x["what"]}

    (tmp_path / "sources.yaml").write_text(entries % "")
    assert told() == set()
    (tmp_path / "sources.yaml").write_text(entries % ", host: nas")
    assert told() == {"a"}


def test_documents_are_listed_and_filtered(homelab: Shell) -> None:
    everything = homelab.json("documents", "--limit", "1000")
    assert everything["total"] == len(everything["documents"]) == homelab.world.kb().documents().num_rows
    for arguments, wanted in (
        (["redis"], {"redis.md"}),
        (["*.conf", "--source", "proxy"], {p.name for p in (HOMELAB / "proxy").glob("*.conf")}),
        (["--type", "unifi"], {p.name for p in (HOMELAB / "unifi").iterdir()}),
        (["--tag", "vpn"], {p.name for p in (HOMELAB / "tailnet").iterdir()}),
        (["--source", "runbooks", "BACKUPS"], {"backups.md"}),
        (["--language", "de"], set()),
    ):
        assert {d["path"] for d in homelab.json("documents", *arguments)["documents"]} == wanted, arguments
    assert homelab.json("documents", "--source", "nobody", code=1)["error"]["code"] == "E_SOURCE_UNKNOWN"
    assert "51 documents, 2 of them shown" in homelab("documents", "--limit", "2")


def test_config_says_where_settings_come_from_and_what_is_wrong(homelab: Shell) -> None:
    changed = Shell(homelab.world)
    changed.environment = {
        **homelab.environment,
        "TABOOT_QDRANT": '{"collection": "mine", "api_key": "planted-key"}',
        "TABOOT_REDIS__URL": "planted-url",
        "TABOOT_HOEM": "x",
    }
    told = changed.json("config", code=1)
    rows = {r["name"]: r for r in told["settings"]}
    assert rows["TABOOT_QDRANT__COLLECTION"] == {
        "name": "TABOOT_QDRANT__COLLECTION",
        "value": "mine",
        "from": "environment, TABOOT_QDRANT",
    }
    assert rows["TABOOT_HOME"]["from"] == "environment" and rows["TABOOT_EXECUTOR"]["from"] == "default"
    assert [w["setting"] for w in told["wrong"]] == ["TABOOT_REDIS__URL"]
    assert told["unknown"] == [{"variable": "TABOOT_HOEM", "nearest": "TABOOT_HOME"}]
    assert "TABOOT_HOEM" not in changed.err, "told once"
    shown = changed("config", "--set", code=1)
    assert "TABOOT_EXECUTOR" not in shown and "TABOOT_REDIS__URL is wrong" in shown
    assert shown.count("TABOOT_HOEM") == 1
    assert "planted" not in json.dumps(told) + shown + changed.err
    # The state is shown too, with what is wrong; what would use the setting refuses.
    state = changed.json("status", code=1)
    assert state["wrong_settings"][0]["setting"] == "TABOOT_REDIS__URL" and len(state["sources"]) == 9
    assert "TABOOT_REDIS__URL" in changed("status", code=1)
    assert changed.json("search", "redis", code=1)["error"]["code"] == "E_CONFIG"
    assert changed.err.count("TABOOT_HOEM is no setting") == 1 and "TABOOT_HOME?" in changed.err


def test_status_is_one_screen(homelab: Shell) -> None:
    told = seen(homelab.environment, "status")
    assert too_long(told) == [] and len(bare(told).splitlines()) <= 24
    assert "Nothing needs attention." in told and "proxy" in told
    for arguments in (["sources", "list"], ["documents"], ["held"]):
        assert too_long(seen(homelab.environment, *arguments)) == [], arguments


def test_status_of_a_home_in_trouble_names_the_command_that_mends_it(fresh: Shell) -> None:
    fresh("init")
    assert "→ taboot ingest" in fresh("status")
    (fresh.world.directory / "stacks" / "core" / "compose.yaml").write_text("services: {web: [unclosed\n")
    fresh("ingest", code=1)
    for path in (fresh.world.directory / "proxy").iterdir():
        path.unlink()
    fresh("ingest", "proxy", code=1)
    environment = {**fresh.environment, "TABOOT_QDRANT_URL": "http://127.0.0.1:9"}
    told = seen(environment, "status")
    assert too_long(told) == []
    shown = " ".join(bare(told).split())
    for words in (
        "proxy: 13 deletions wait for a confirmation",
        "taboot held; taboot ingest proxy --confirm-deletes",
        "stacks: E_PARSE",
        "taboot status --failed stacks",
        "unset TABOOT_QDRANT_URL",
    ):
        assert words in shown, words
    listed = fresh("status", "--failed", "stacks")
    assert "E_PARSE" in listed and "core/compose.yaml" in listed
    assert "proxy" not in fresh("status", "--failed", "nobody")
    assert os.path.exists(fresh.environment["TABOOT_HOME"])
