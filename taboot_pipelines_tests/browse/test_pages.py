"""The pages over the demo's house, asked in this process: what they say, also when they cannot."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow.compute as pc
import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from taboot_pipelines.browse.app import make_app
from taboot_pipelines.browse.rendering import entitled, to
from taboot_pipelines.errors import CODES, TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import load_settings
from taboot_pipelines_tests.browse.house import REDIS, House
from taboot_pipelines_tests.cli.test_metrics import read
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.alone_with("house")


def page(client: TestClient, url: str, status: int = 200) -> LexborHTMLParser:
    answer = client.get(url)
    assert answer.status_code == status, answer.text[:2000]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return LexborHTMLParser(answer.text)


def text_of(tree: LexborHTMLParser, selector: str = "main") -> str:
    found = tree.css_first(selector)
    assert found is not None, selector
    return " ".join(found.text().split())


def links(tree: LexborHTMLParser, selector: str) -> list[str]:
    return [node.attributes["href"] or "" for node in tree.css(selector)]


def open_client(kb: KnowledgeBase) -> TestClient:
    client = TestClient(
        make_app(kb, "token", "once", 80), base_url="http://localhost", follow_redirects=False
    )
    client.get("/?token=token")
    return client


def test_the_overview_says_what_there_is(client: TestClient, kb: KnowledgeBase) -> None:
    tree = page(client, "/")
    said = text_of(tree)
    assert f"{kb.manifest.documents} documents" in said and f"{kb.manifest.chunks} passages" in said
    for source in kb.manifest.sources:
        assert to(f"/source/{source}") in links(tree, "table a")
    assert "media/README.md says 8920 for jellyfin" in said
    assert "E_PARSE" in said and "broken/compose.yaml" in said
    assert to("/node", label="Host", key="hearth.lan") in links(tree, "a.chip")


def test_every_page_says_that_it_is_of_a_date(client: TestClient, kb: KnowledgeBase) -> None:
    held = kb.as_of("9999-01-01")
    assert held.held_at is not None
    said = f"As it was published on {held.held_at:%Y-%m-%d %H:%M} UTC"
    then = open_client(held)
    for url, status in (("/", 200), ("/map", 200), ("/search?q=redis", 200), ("/sources", 200), ("/no", 404)):
        assert said in text_of(page(then, url, status), "header")
        assert "As it was" not in client.get(url).text


def test_the_overview_shows_quotas_expiry_and_deliveries(
    client: TestClient, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = kb.sources()
    held = {a.what: a for a in states.quotas}
    assert held["documents"].used >= kb.manifest.documents and held["bytes"].limit is None
    said = text_of(page(client, "/"))
    assert "no limit" in said and "no endpoint, or nothing to tell" in said
    told = states.model_copy(
        update={
            "quotas": (held["documents"].model_copy(update={"limit": held["documents"].used}),),
            "expiring": 7,
            "deliveries": {"delivered": 40, "failed": 2},
        }
    )
    monkeypatch.setattr(KnowledgeBase, "sources", lambda self: told)
    said = text_of(page(client, "/"))
    assert "used up: nothing more is taken in" in said and "40 delivered, 2 failed" in said
    assert "taboot retention" in said and "taboot notifications" in said


def test_what_was_asked_is_counted_for_prometheus(client: TestClient) -> None:
    def counted() -> dict[tuple[str, ...], float]:
        answer = client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        return read(answer.text, "server")

    before = counted()
    page(client, "/search?q=redis")
    page(client, "/document/nothing", 404)
    found = counted()
    for labels in (("pages_total", "/search", "ok"), ("pages_total", "/document/{doc_id}", "E_NOT_FOUND")):
        key = (f"taboot_{labels[0]}", *labels[1:])
        assert found[key] == before.get(key, 0) + 1
    searches = ("taboot_searches_total", "default", "ok")
    assert found[searches] == before.get(searches, 0) + 1


def test_a_question_is_answered_with_the_lines(client: TestClient) -> None:
    tree = page(client, "/search?q=Which+port+does+Grafana+listen+on%3F")
    assert "publishes port 3010/tcp" in text_of(tree, ".answer .said")
    (cited,) = links(tree, ".citations a[data-item]")
    assert cited.endswith("#mark")
    document = page(client, cited.partition("#")[0])
    (line,) = document.css("li.cited")
    assert line.attributes["id"] == "mark"
    assert '- "3010:3000"' in line.text() and line.css_first(".n").text() == "106"
    assert "bytes" in text_of(document, "aside") and "line 106" in text_of(document, "aside")


def test_a_question_leans_on_the_one_before_it(client: TestClient, kb: KnowledgeBase) -> None:
    first = page(client, to("/search", q="Which port does Grafana listen on?", source="stacks"))
    form = {n.attributes["name"]: n.attributes.get("value") for n in first.css(".further input")}
    assert form == {"after": "Which port does Grafana listen on?", "source": "stacks", "q": None}
    tree = page(client, to("/search", q="and its image?", after=form["after"]))
    talk = kb.conversation()
    talk.ask("Which port does Grafana listen on?")
    meant = talk.ask("and its image?")
    said = text_of(tree, ".answer")
    assert f"Asked as: {meant.question}" in said and "grafana/grafana" in said
    assert "grafana" in text_of(tree, ".hits").lower()
    # The next one leans on what was meant, not on what was written.
    assert tree.css_first(".further input[name=after]").attributes["value"] == meant.question


def test_words_are_searched_and_answered_on_demand(client: TestClient) -> None:
    tree = page(client, "/search?q=restore+a+database")
    assert tree.css_first(".answer") is None
    (ask,) = [u for u in links(tree, ".resultbar a") if "ask=1" in u]
    assert "[1]" in text_of(page(client, ask), ".answer")
    hits = tree.css(".hit")
    assert len(hits) == 10 and all(h.css_first("mark") for h in hits[:3])
    assert "restore" in [m.text().lower() for m in tree.css(".hit mark")]


def test_an_unanswerable_question_says_so(client: TestClient) -> None:
    tree = page(client, "/search?q=When+will+Authelia+be+upgraded%3F")
    said = text_of(tree, ".answer.none")
    assert "No document states a date" in said and "Closest passages, which may be about" in said
    assert tree.css(".citations.closest li") and not tree.css(".citations:not(.closest)")


def test_hits_are_those_of_the_engine_page_by_page(client: TestClient, kb: KnowledgeBase) -> None:
    wanted = [h.chunk_id for h in kb.search("backup database", 30).hits]
    found: list[str] = []
    url = "/search?q=backup+database"
    for _ in range(3):
        tree = page(client, url)
        for link in links(tree, ".hit h2 a"):
            parts = urlsplit(link)
            at = parse_qs(parts.query)["at"][0]
            found.append(f"{parts.path.removeprefix('/document/')}@{at}")
        (url,) = links(tree, "a[rel=next]")
    hits = {h.chunk_id: f"{h.doc_id}@{h.start}-{h.end}" for h in kb.search("backup database", 30).hits}
    assert found == [hits[c] for c in wanted] and len(set(found)) == 30


def test_filters_are_the_engines(client: TestClient, kb: KnowledgeBase) -> None:
    for query in ("source=runbooks", "tag=docs&tag=mail", "type=compose", "content_type=code",
                  "date_from=2026-02-01&date_to=2026-02-28", "language=en", "path_prefix=media/",
                  "collection=docs", "mode=keyword", "mode=graph"):  # fmt: skip
        options = {
            k: v if k not in ("date_from", "date_to", "mode") else v[0] for k, v in parse_qs(query).items()
        }
        wanted = [h.doc_id for h in kb.search("redis backup", 10, **options).hits]
        tree = page(client, f"/search?q=redis+backup&{query}")
        found = [urlsplit(u).path.removeprefix("/document/") for u in links(tree, ".hit h2 a")]
        assert found == wanted and wanted, query
        # Each is shown with the way back.
        without = links(tree, "a.chip.filter")
        assert len(without) == sum(map(len, parse_qs(query).values())), query
        for url in without:
            page(client, url)


def test_a_chosen_filter_stays_chosen(client: TestClient) -> None:
    tree = page(client, "/search?q=redis&source=runbooks&scores=1")
    (box,) = tree.css("input[name=source][value=runbooks]")
    assert "checked" in box.attributes
    assert [n.attributes["value"] for n in tree.css("input[name=scores]")] == ["1"]
    assert tree.css(".scores") and "vector" in text_of(tree, ".scores")
    assert not page(client, "/search?q=redis").css(".scores")


def test_empty_fields_of_the_form_leave_the_address(client: TestClient) -> None:
    answer = client.get("/search?q=caf%C3%A9+%26&date_from=&date_to=&mode=&tag=docs&fragment=x&path=y")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/search?q=caf%C3%A9%20%26&tag=docs&fragment=x&path=y"
    page(client, answer.headers["location"])
    for empty in ("/search", "/search?q=", "/search?q=+++"):
        assert client.get(client.get(empty).headers["location"]).status_code in (200, 303)


@pytest.mark.parametrize(
    ("url", "status", "code"),
    [
        ("/search?q=a&type=nonsense", 400, "E_QUERY"),
        ("/search?q=a&content_type=poem", 400, "E_QUERY"),
        ("/search?q=a&date_from=yesterday", 400, "E_QUERY"),
        ("/search?q=a&mode=magic", 400, "E_QUERY"),
        ("/search?q=a&cursor=forged", 410, "E_CURSOR"),
        ("/document/nothing", 404, "E_NOT_FOUND"),
        ("/document/00000000-0000-4000-8000-000000000000", 404, "E_NOT_FOUND"),
        ("/document/x?at=5", 400, "E_QUERY"),
        ("/document/x?at=9-5", 400, "E_QUERY"),
        ("/document/x?bytes=a-b", 400, "E_QUERY"),
        ("/document/x?line=0", 400, "E_QUERY"),
        ("/document/x?" + "at=1-2&" * 101, 400, "E_QUERY"),
        ("/edge/nothing", 404, "E_EDGE_UNKNOWN"),
        ("/edge/" + "0" * 64, 404, "E_EDGE_UNKNOWN"),
        ("/node?label=Service&key=nothing", 404, "E_NOT_FOUND"),
        ("/node?label=Spaceship&key=x", 404, "E_NOT_FOUND"),
        ("/node?name=nothing-is-called-so", 404, "E_NOT_FOUND"),
        ("/node", 400, "E_QUERY"),
        ("/node?label=Service", 400, "E_QUERY"),
        ("/node?label=Host&key=hearth.lan&type=LOVES", 400, "E_QUERY"),
        ("/nodes?label=Spaceship", 400, "E_QUERY"),
        ("/nodes?label=Service&page=-1", 400, "E_QUERY"),
        ("/source/nothing", 404, "E_NOT_FOUND"),
        ("/drift?kind=nonsense", 400, "E_QUERY"),
        ("/nowhere", 404, "E_NOT_FOUND"),
        ("/static/../guard.py", 404, "E_NOT_FOUND"),
        ("/static/%2e%2e%2fguard.py", 404, "E_NOT_FOUND"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_page_with_a_remedy(client: TestClient, url: str, status: int, code: str) -> None:
    tree = page(client, url, status)
    assert text_of(tree, ".error .code-name") == code
    assert len(text_of(tree, ".error h1")) > 10 and text_of(tree, ".error p:nth-of-type(2)")


@pytest.mark.parametrize(
    "query",
    ["🦊🦊 😀", "ß" * 999, "a\x00b", "\u202e\u2066evil", "SELECT * FROM x; --", "%", "\"'<>&",
     "日本語の質問？",
     "../../etc/passwd", "x " * 3000, "what is " + "😀" * 3000 + "?", "?", "\ud7ff\ufffe"],
)  # fmt: skip
def test_odd_queries_are_searched(client: TestClient, query: str) -> None:
    tree = page(client, to("/search", q=query))
    box = tree.css_first("#q").attributes["value"] or ""
    assert box.replace("\ufffd", "\x00") == query.strip() or "\x00" in query


def test_every_code_has_a_page(
    client: TestClient, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code, (status, remedy) in CODES.items():
        error = TabootError(code, f"Something about {code}.")

        def fail(*_args: object, error: TabootError = error, **_options: object) -> None:
            raise error

        monkeypatch.setattr(kb, "search", fail)
        tree = page(client, "/search?q=redis", status)
        assert remedy.replace("`", "") in text_of(tree, ".error").replace("`", "")
        assert code in text_of(tree, ".error")


def test_a_defect_tells_its_place_and_nothing_of_the_content(
    client: TestClient, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise RuntimeError("hunter2 stands in this document")

    monkeypatch.setattr(kb, "search", fail)
    said = text_of(page(client, "/search?q=redis", 500))
    assert "E_INTERNAL" in said and "RuntimeError" in said and "hunter2" not in said


def test_a_node_shows_its_relations_with_proofs(client: TestClient, kb: KnowledgeBase) -> None:
    tree = page(client, to("/node", label="Service", key=REDIS))
    said = text_of(tree)
    assert "service_healthy" in said and "6379/redis" in said and "Named in" in said
    around = kb.neighbors("redis", limit=2000)
    wanted = {
        e.edge_id for e in around.edges
        if e.type != "MENTIONS" and REDIS in (e.start_key, e.end_key)
    }  # fmt: skip
    shown = {u.removeprefix("/edge/") for u in links(tree, ".relations .proof a")}
    assert shown == wanted
    # The picture has them too, each a link to its proof.
    assert {u.removeprefix("/edge/") for u in links(tree, ".picture a[href^='/edge']")} <= wanted
    for edge_id in sorted(wanted):
        proof = page(client, f"/edge/{edge_id}")
        assert proof.css("mark") or proof.css(".quote blockquote")


def test_every_edge_of_the_house_has_a_proof_that_shows_its_quote(
    client: TestClient, kb: KnowledgeBase
) -> None:
    edges = kb.edges().to_pylist()
    for row in edges[::9]:
        why = kb.explain(row["edge_id"])
        tree = page(client, f"/edge/{row['edge_id']}")
        said = tree.css_first("main").text()
        assert row["type"] in said and f"{why.confidence:.2f}" in said
        for end in why.ends:
            assert end.basis in said and end.rule in said
        for quote in why.quotes:
            assert f"bytes {quote.byte_start}–{quote.byte_end}" in said
            marked = ["".join(m.text() for m in li.css("mark")) for li in tree.css("li.cited")]
            if quote.line is not None:
                assert quote.text.split("\n")[0].rstrip("\r") in marked, row
        for link in links(tree, ".quote a[data-item]"):
            assert page(client, link.partition("#")[0]).css("#mark"), link


def test_a_name_of_several_things_lists_them(client: TestClient) -> None:
    found = links(page(client, "/node?name=redis"), "ul.rows a")
    assert to("/node", label="Service", key=REDIS) in found and len(found) == 2
    answer = client.get("/node?name=hearth.lan")
    assert answer.headers["location"] == to("/node", label="Host", key="hearth.lan")


def test_nodes_are_listed_by_label(client: TestClient, kb: KnowledgeBase) -> None:
    rows = [(r["name"], r["key"]) for r in kb.nodes().to_pylist() if r["label"] == "Service"]
    found = links(page(client, "/nodes?label=Service"), "ul.rows a")
    assert found == [to("/node", label="Service", key=key) for _, key in sorted(rows)]


def test_files_that_are_called_alike_are_told_apart(client: TestClient, kb: KnowledgeBase) -> None:
    alike = [d for d in kb.documents().to_pylist() if d["title"] == "compose.yaml"]
    assert len(alike) > 1
    for d in alike:
        tree = page(client, f"/document/{d['doc_id']}")
        assert text_of(tree, "h1") == d["path"] and d["path"].endswith("/compose.yaml")
        row = f'a[href="/document/{d["doc_id"]}"]'
        assert text_of(page(client, "/source/stacks"), row) == d["path"]
        assert text_of(page(client, "/nodes?label=Document"), row) == d["path"]
    said = [text_of(page(client, to("/search", q="compose services image")), ".hits")]
    assert any(d["path"] in text for d in alike for text in said)
    assert entitled("Guide", "a/b.md") == "Guide" and entitled("b.md", "https://x.org/a/b.md?c") == "a/b.md"


def test_files_of_one_title_are_called_with_their_paths(world: World) -> None:
    folder = world.source("house", "files", include=["**/*.md"])
    for name in ("public", "attic"):
        (folder / name).mkdir()
        (folder / name / "README.md").write_text(f"# What is in it\n\nThe wireguard tunnel of the {name}.\n")
    (folder / "one.md").write_text("# Alone\n\nThe wireguard tunnel of nobody.\n")
    world.source("deeper", "files", path="house/attic", include=["nothing.md"])
    # Blanks that no passage has are no lines.
    paragraph = "Water runs down the hill and on to the sea. " * 30
    (folder / "long.md").write_text(f"# Long\n\n{paragraph}\n    \n\n{paragraph}\n        \n{paragraph}\n")
    world.ingest()
    kb = world.kb()
    client = open_client(kb)
    tree = page(client, to("/search", q="Which wireguard tunnel is of the attic?"))
    titles = {hit.text().strip() for hit in tree.css(".hits h2 a")}
    assert {"What is in it (public/README.md)", "What is in it (attic/README.md)", "Alone"} <= titles
    places = {place.text() for place in tree.css(".citations .place")}
    assert places and all(place.startswith("house: ") for place in places)
    (long,) = [d["doc_id"] for d in kb.documents().to_pylist() if d["path"] == "long.md"]
    assert len(kb.document(long).chunks) > 1
    assert "8 lines" in text_of(page(client, f"/document/{long}/life"))


def test_the_life_of_a_document_from_bytes_to_points(client: TestClient, kb: KnowledgeBase) -> None:
    grafana = kb.answer("Which port does Grafana listen on?").citations[0].doc_id
    document = kb.document(grafana)
    assert f"/document/{grafana}/life" in links(page(client, f"/document/{grafana}"), "aside a")
    tree = page(client, f"/document/{grafana}/life")
    said = text_of(tree)
    assert [text_of(tree, f".life > li:nth-child({n}) h2").split()[0] for n in range(1, 6)] == [
        "Bytes", "Text", "Chunks", "Facts", "Points"]  # fmt: skip
    assert document.blob_sha256 in said and document.versions[-1].event in said
    assert f"{len(document.text):,} characters" in said
    assert len(links(tree, ".life ol a")) == len(document.chunks)
    facts = kb.edges().filter(pc.equal(kb.edges().column("doc_id"), grafana)).num_rows
    assert text_of(tree, ".life > li:nth-child(4) h2") == f"Facts {facts:,}"
    counted = sum(int(n) for n in re.findall(r"(\d+) facts?\b", text_of(tree, ".life ol")))
    assert 0 < counted <= facts
    assert f"{kb.manifest.space.dimension} dimensions" in said
    page(client, "/document/nothing/life", 404)


def test_every_document_can_be_read_and_links_to_its_origin_only_by_the_web(
    client: TestClient, kb: KnowledgeBase
) -> None:
    for row in kb.documents().to_pylist():
        tree = page(client, f"/document/{row['doc_id']}")
        assert (entitled(row["title"], row["path"]) or row["path"]) == tree.css_first("h1").text()
        for node in tree.css("a[href]"):
            href = node.attributes["href"] or ""
            assert href.startswith(("/", "#", "https://", "http://")), href
            if href.startswith("http"):
                assert node.attributes["rel"] == "noopener noreferrer"


def test_secrets_are_masked_where_the_bytes_are_shown(world: World) -> None:
    secret = "sk-planted-9f8e7d6c5b4a3210"
    folder = world.source("stacks", "compose", host="atlas")
    (folder / "compose.yaml").write_text(
        f"services:\n  web:\n    image: nginx:1.27\n    environment: {{API_TOKEN: {secret}}}\n"
    )
    (folder / ".env").write_text(f"OTHER_TOKEN={secret}\n")
    (world.source("guides") / "page.html").write_text(
        f"<html><body><main><h1>Web</h1><p>The web server runs here, day and night.</p>"
        f"<pre>API_TOKEN={secret}</pre></main></body></html>"
    )
    world.ingest()
    kb = world.kb()
    client = open_client(kb)
    pages = [f"/document/{d}" for d in kb.documents().column("doc_id").to_pylist()]
    pages += [f"/edge/{e}" for e in kb.edges().column("edge_id").to_pylist()]
    pages += ["/search?q=API_TOKEN", f"/search?q={secret[3:10]}", "/", "/dead-letters"]
    bodies = [client.get(url).text for url in pages]
    assert not [url for url, body in zip(pages, bodies, strict=True) if secret in body]
    assert sum("API_TOKEN" in body and "*" * len(secret) in body for body in bodies) >= 2


def test_sources_say_how_they_are(client: TestClient) -> None:
    said = text_of(page(client, "/sources"))
    assert "succeeded" in said and "active" in said
    tree = page(client, "/source/stacks")
    assert "E_PARSE" in text_of(tree) and "Correct the file at the position" in text_of(tree)
    assert "household/compose.yaml" in text_of(tree)
    assert "E_LANGUAGE" in text_of(page(client, "/dead-letters"))


def test_drift_shows_both_sides(client: TestClient) -> None:
    tree = page(client, "/drift")
    assert [b.text() for b in tree.css(".sides blockquote")] == [
        "Jellyfin listens on port 8920 and decodes with the GPU of `hearth.lan`.",
        '"8096:8096"',
    ]
    for url in links(tree, ".sides a"):
        page(client, url)


def test_pages_name_the_namespace_and_need_no_script(client: TestClient) -> None:
    for url in ("/", "/search?q=redis", "/sources", "/drift", "/keys", "/nodes"):
        tree = page(client, url)
        assert text_of(tree, ".namespace") == "default"
        assert [s.attributes["src"].partition("?")[0] for s in tree.css("script")] == ["/static/keys.js"]
        assert not tree.css("[style]") and not tree.css("style")


def test_files_of_ours_may_be_kept(client: TestClient) -> None:
    for name in ("style.css", "keys.js", "icon.svg"):
        answer = client.get(f"/static/{name}")
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
    css = client.get("/static/style.css").text
    assert "url(" not in css and "@import" not in css and "http" not in css


def test_before_the_first_ingest_the_pages_say_so(tmp_path: Path, world: World) -> None:
    settings = load_settings(home=tmp_path / "none", sources=tmp_path / "sources.yaml")
    client = open_client(KnowledgeBase(settings, "default"))
    for url in (
        "/",
        "/search?q=a",
        "/sources",
        "/nodes",
        "/drift",
        "/document/x",
        "/edge/x",
        "/dead-letters",
    ):
        said = text_of(page(client, url, 404))
        assert "E_KB_UNINITIALIZED" in said and "taboot ingest" in said, url
    assert not (tmp_path / "none").exists()

    # The same pages as soon as something is published, without a new start.
    client = open_client(KnowledgeBase(world.settings(world.home), "default"))
    assert page(client, "/", 404)
    (world.source("guides") / "guide.md").write_text("# Lanterns\n\nThe lantern hangs in the hall.\n")
    world.ingest()
    assert "1 document " in text_of(page(client, "/"))
    assert "lantern" in text_of(page(client, "/search?q=lantern"), ".hits").lower()


def test_an_empty_knowledge_base(world: World) -> None:
    folder = world.source("guides")
    (folder / "guide.md").write_text("# Lanterns\n\nThe lantern hangs in the hall.\n")
    world.ingest()
    (folder / "guide.md").unlink()
    world.ingest(confirm_deletes=True)
    client = open_client(world.kb())
    assert "0 documents" in text_of(page(client, "/"))
    assert "Nothing found" in text_of(page(client, "/search?q=lantern"))
    assert text_of(page(client, "/search?q=where+is+the+lantern%3F"), ".answer.none .said")
    for url in ("/sources", "/source/guides", "/drift", "/dead-letters", "/nodes"):
        page(client, url)


def test_a_copy_of_the_shards_alone_is_read(house: House, tmp_path: Path) -> None:
    shutil.copytree(house.settings.home_dir / "kb", tmp_path / "kb")
    client = open_client(KnowledgeBase.open(tmp_path))
    assert "stay with the home" in text_of(page(client, "/"))
    tree = page(client, "/search?q=redis")
    document = page(client, links(tree, ".hit h2 a")[0].partition("#")[0])
    assert "E_BLOB_MISSING" in text_of(document) and document.css("li.cited")
    assert not (tmp_path / "catalog.db").exists()


def test_pages_are_whole_while_ingests_publish(world: World) -> None:
    """Publications come one after the other; every page is one of them, never an error."""
    folder = world.source("guides")
    (folder / "lantern.md").write_text("# Lanterns\n\nThe lantern hangs in the hall, near 10.0.0.7.\n")
    world.ingest()
    kb = world.kb()
    client = open_client(kb)
    doc_id = kb.search("lantern").hits[0].doc_id
    errors: list[str] = []
    stop = threading.Event()

    def read() -> None:
        own = open_client(kb)
        while not stop.is_set():
            for url in ("/", "/search?q=lantern", "/search?q=where+is+the+lantern%3F", f"/document/{doc_id}",
                        "/nodes?label=IP", "/sources", "/drift"):  # fmt: skip
                answer = own.get(url)
                if answer.status_code != 200:
                    errors.append(f"{url} {answer.status_code} {answer.text[-600:]}")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(6):
            (folder / f"more-{number}.md").write_text(
                f"# More {number}\n\nA second lantern, at 10.0.1.{number}.\n"
            )
            if number > 2:
                (folder / f"more-{number - 3}.md").unlink()
            world.ingest()
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not errors, errors[:3]
    assert "4 documents" in text_of(page(client, "/"))


def test_a_page_after_a_publication_goes_on_in_the_first(world: World) -> None:
    folder = world.source("guides")
    for number in range(14):
        (folder / f"{number}.md").write_text(
            f"# Lantern {number}\n\nLantern {number} hangs in room {number}.\n"
        )
    world.ingest()
    client = open_client(world.kb())
    first = page(client, "/search?q=lantern")
    (following,) = links(first, "a[rel=next]")
    for number in range(14):
        (folder / f"{number}.md").write_text(
            f"# Candle {number}\n\nCandle {number} stands in room {number}.\n"
        )
    world.ingest()
    second = page(client, following)
    assert "Lantern" in text_of(second, ".hits") and len(second.css(".hit")) == 4


#: Prints what functions of the packages import that was not loaded before threads run.
LATE = """
import ast, pathlib, sys
import taboot_pipelines
from taboot_pipelines.browse.app import load_parts

load_parts()
top = pathlib.Path(taboot_pipelines.__file__).parent



def look(statements, within, file):
    for node in statements:
        name = getattr(node, "module", None) or ""
        if within and name.startswith("taboot_pipelines.") and name not in sys.modules:
            print(name, file)
        inside = within or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            look(getattr(node, field, ()), inside, file)


for part in ("browse", "extraction", "knowledge", "retrieval", "shards", "sources"):
    for file in (top / part).rglob("*.py"):
        look(ast.parse(file.read_text()).body, False, file)
"""


def test_no_page_imports_modules_while_another_does() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    # What asks a server is a package of its own without such imports.
    servers = ("taboot_pipelines.inference.", "taboot_pipelines.stores.state.redis ")
    assert not [line for line in done.stdout.splitlines() if not line.startswith(servers)]
