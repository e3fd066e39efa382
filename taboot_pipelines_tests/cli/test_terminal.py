"""What a person sees at 80 columns: edges that say something, short places and ids, what matched."""

from __future__ import annotations

import re

from taboot_pipelines_tests.cli.terminal import bare, seen, too_long
from taboot_pipelines_tests.cli.test_cli import Shell

_LINK = re.compile(r"\x1b\]8;;(file://[^\x1b]+)\x1b\\([^\x1b]+)\x1b\]8;;\x1b\\")


def told(shell_: Shell, *arguments: str, code: int = 0, **environment: str) -> str:
    shown = seen({**shell_.environment, **environment}, *arguments, code=code)
    assert too_long(shown) == [], arguments
    return shown


def whole(shown: str) -> str:
    return " ".join(bare(shown).split())


def test_edges_say_what_they_say(homelab: Shell) -> None:
    shown = whole(told(homelab, "neighbors", "grafana"))
    assert "(Service grafana)-[BINDS 3010→3000/tcp]->(Host hearth.lan)" in shown
    assert "[DEPENDS_ON (service_healthy)]->(Service prometheus)" in shown
    assert "[ROUTES_TO /grafana/ → :3000]->" in shown
    assert "stacks:monitoring/compose.yaml:106" in shown and str(homelab.world.directory) not in shown
    # Services of one name are told apart by where they are.
    shown = whole(told(homelab, "neighbors", "db"))
    assert "Service db in hearth.lan/household" in shown and "Service db in hearth.lan/forge" in shown
    assert "-[ROUTES_TO /grafana/ → :3000]-> (Service grafana)" in whole(
        told(homelab, "path", "swag", "grafana")
    )


def test_equal_lines_are_grouped(homelab: Shell) -> None:
    edges = homelab.json("neighbors", "hearth.lan", "--limit", "1000")["edges"]
    shown = bare(told(homelab, "neighbors", "hearth.lan", "--limit", "1000"))
    statements = [line for line in shown.splitlines() if line.startswith("(")]
    assert len(set(statements)) == len(statements) < len(edges)


def test_places_are_links_where_the_terminal_knows_them(homelab: Shell) -> None:
    shown = told(homelab, "search", "restart redis", FORCE_HYPERLINK="1")
    links = {text: link for link, text in _LINK.findall(shown)}
    place = next(p for p in links if p.startswith("runbooks:redis.md:"))
    assert links[place].endswith(f"{homelab.world.directory}/runbooks/redis.md")
    assert "\x1b]8" not in told(homelab, "search", "restart redis", FORCE_HYPERLINK="0")
    # A program reads whole paths and ids.
    piped = homelab("search", "restart redis")
    assert f"{homelab.world.directory}/runbooks/redis.md:" in piped and "\x1b" not in piped


def test_short_ids_are_taken_everywhere(homelab: Shell) -> None:
    shown = bare(told(homelab, "neighbors", "grafana", "--type", "BUILDS"))
    (edge,) = re.findall(r"\b[0-9a-f]{12}\b", shown)
    full = homelab.json("explain", edge)
    assert full["id"].startswith(edge) and "-[BUILDS]->(Image docker.io/grafana/grafana:" in full["statement"]
    chunk = re.search(r"\b([0-9a-f]{8}:\d+)$", bare(told(homelab, "search", "redis")), re.MULTILINE)
    assert chunk is not None and homelab.json("explain", chunk[1])["kind"] == "hit"
    doc_id = chunk[1].split(":")[0]
    assert homelab.json("links", doc_id)["doc_id"].startswith(doc_id)
    assert homelab.json("links", "runbooks:redis.md")["url"].endswith("redis.md")
    for wrong, code in (("00000000", "E_EDGE_UNKNOWN"), ("not-an-id", "E_EDGE_UNKNOWN")):
        assert homelab.json("explain", wrong, code=1)["error"]["code"] == code


def test_a_missed_name_suggests_near_ones(homelab: Shell) -> None:
    for arguments, near in (
        (["neighbors", "grafanna"], "grafana"),
        (["links", "redsi.md"], "redis.md"),
        (["delete", "runbooks/redis.md"], "redis.md"),
        (["search", "x", "--source", "runbok"], "runbooks"),
        (["ask", "x", "--source", "runbok"], "runbooks"),
        (["documents", "--source", "runbok"], "runbooks"),
        (["ingest", "runbok"], "runbooks"),
        (["ingest", "--dry-run", "runbok"], "runbooks"),
    ):
        error = homelab.json(*arguments, code=1)["error"]
        assert error["code"] in ("E_NOT_FOUND", "E_SOURCE_UNKNOWN"), arguments
        assert "Did you mean" in error["message"] and near in error["message"], arguments


def test_delete_takes_whatever_names_a_document(lab: Shell) -> None:
    documents = {d["path"]: d for d in lab.json("documents", "--limit", "1000")["documents"]}
    chunk = f"{documents['backups.md']['doc_id']}:0"
    for path, name in (
        ("redis.md", "redis.md"),
        ("backups.md", chunk),
        ("dns-plan.md", documents["dns-plan.md"]["doc_id"][:8]),
        ("network-map.md", documents["network-map.md"]["url"]),
        ("on-call-faq.md", "runbooks:on-call-faq.md"),
    ):
        receipt = lab.json("delete", name)
        assert receipt["doc_ids"] == [documents[path]["doc_id"]], name
        assert path not in str(lab.json("documents", "--source", "runbooks"))
        # Once more it is nothing that could be deleted; by the same name it is brought back.
        assert lab.json("restore", name)["restored"] == receipt["doc_ids"], name
    refused = lab.json("delete", "devices.json", code=1)["error"]
    assert refused["code"] == "E_QUERY" and "2 documents are called" in refused["message"]


def test_a_search_shows_what_matched(homelab: Shell) -> None:
    shown = told(homelab, "search", "restic forget keep")
    assert "\x1b[33m" in shown, "words of the query are bright"
    assert not re.search(r"(?m)^\d+\. (.+) > \1( >|$)", bare(shown)), "headings are not repeated"
    for arguments in (
        ["ask", "which port does grafana use?"],
        ["explain", shown.split()[-1][:0] or "grafana"],
    ):
        told(homelab, *arguments, code=0 if arguments[0] == "ask" else 1)
