"""Links between documents, from file to reader: what they mean, what a change costs, what is broken."""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.titles import normalize
from taboot_pipelines.model.ids import doc_id, locator
from taboot_pipelines.model.records import Interpretation
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.shards.links import is_common
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.links import broken_links, lines_of
from taboot_pipelines.stages.tier_a_triples import ProseExtractor
from taboot_pipelines.stages.tier_b_triples import RelationExtractor
from taboot_pipelines.stores.tables import NAMESPACE
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import DATA, World, holding

INGRESS = DATA / "site-ingress-nginx" / "site"
WORD = "zanzibarium"


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be read out of the prose: of many real pages that takes longer than all the rest."""

    def nothing(_self: object, documents: Sequence[object]) -> Iterator[Interpretation]:
        return (Interpretation((), ()) for _ in documents)

    monkeypatch.setattr(ProseExtractor, "interpret", nothing)
    monkeypatch.setattr(RelationExtractor, "interpret", nothing)


def edges(kb: KnowledgeBase, *, titled: bool = False) -> Counter[tuple[str, str]]:
    """Return (path that links, path that it leads to) of every link."""
    graph = kb._session.view().links
    paths = graph.documents.column("path").to_pylist()
    chosen = [i for i in range(len(graph)) if graph.titled[i] == titled]
    return Counter((paths[graph.source[i]], paths[graph.target[i]]) for i in chosen)


def page(title: str, text: str) -> str:
    return f"# {title}\n\n{text}\n"


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)


# --- what links mean ----------------------------------------------------------------------------------------


def test_what_paths_names_and_labels_lead_to(world: World) -> None:
    folder = world.source("wiki")
    files = {
        "index.md": page(
            "Home", "[a](guide/a.md) [b](guide/b/) [c](/guide/c.html#x) [r](guide/r.rst) [up](../x.md)"
        ),
        "guide/a.md": page(
            "Page A", "[home](../) [[b notes]] [[Page C#part|shown]] [self](a.md#y) [gone](gone.md)"
        ),
        "guide/b/README.md": page("B notes", "[a](../a) `[c](../c.md)` [d](../d%20e.md) [a](../a.md)"),
        "guide/c.md": page("Page C", "words"),
        "guide/d e.md": page("D", "words"),
        "guide/r.rst": "R page\n======\n\n:doc:`c` :ref:`the-label` `a <a.md>`_ :doc:`/guide/s`\n",
        "guide/s.rst": ".. _the-label:\n\nS page\n======\n\nwords\n",
        "guide/b.yaml": "a: [b](c.md)\n",
    }  # fmt: skip
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    world.ingest()
    expected = {
        "index.md": ["guide/a.md", "guide/b/README.md", "guide/c.md", "guide/r.rst"],
        "guide/a.md": ["index.md", "guide/b/README.md", "guide/c.md"],
        "guide/b/README.md": ["guide/a.md", "guide/d e.md", "guide/a.md"],
        "guide/r.rst": ["guide/c.md", "guide/s.rst", "guide/a.md", "guide/s.rst"],
    }
    kb = world.kb()
    found = edges(kb)
    # ``guide/c`` of the reST document is the Markdown page: there is no reST page of that name.
    assert found == Counter((source, target) for source, targets in expected.items() for target in targets)
    links = kb.links("guide/a.md")
    assert [(x.target, x.line) for x in links.unresolved] == [("wiki:guide/gone.md", 3)]
    assert {x.text for x in links.incoming if x.kind == "hyperlink"} == {"a"}
    (shown,) = (x for x in links.outgoing if x.fragment == "part")
    assert (shown.title, shown.kind, shown.section) == ("Page C", "hyperlink", "Page A")


def test_a_document_is_known_by_its_id_url_and_path(world: World) -> None:
    write(world.source("one"), a=page("Alpha page", "See [b](b.md)."), b=page("Beta page", "Words."))
    write(world.source("two"), a=page("Other page", "Words."))
    world.ingest()
    kb = world.kb()
    by_url = kb.links("one:a.md")
    assert kb.links(by_url.doc_id) == kb.links(by_url.url) == by_url
    assert by_url.outgoing[0].url.endswith("/b.md") and by_url.outgoing[0].line == 3
    assert kb.links("b.md").incoming[0].doc_id == by_url.doc_id
    table = kb.links("b.md").to_arrow()
    assert table.column("direction").to_pylist() == ["incoming"] and table.column("target").to_pylist() == [
        "one:b.md"
    ]
    assert "Beta page" in kb.links("b.md")._repr_html_() and len(kb.links("b.md").to_pandas()) == 1
    for wanted, code in (("nowhere.md", "E_NOT_FOUND"), ("a.md", "E_QUERY"), ("", "E_QUERY")):
        with pytest.raises(TabootError) as caught:
            kb.links(wanted)
        assert caught.value.code == code
    with pytest.raises(TabootError) as caught:
        kb.links("b.md", limit=0)
    assert caught.value.code == "E_QUERY"


def test_titles_of_one_word_or_compound_are_common() -> None:
    titles = ("redis", "the who", "new york", "the matrix", "東京", "white house", "external-dns", "index.md")
    names = {"new york", "東京", "white house"}
    assert {title for title in titles if not is_common(title)} == names


def test_titles_link_when_they_are_rare_enough_and_shared_by_few(world: World) -> None:
    folder = world.source("notes")
    write(
        folder,
        planet=page("Mercury Seven (planet)", "The innermost one."),
        metal=page("Mercury Seven (metal)", "A liquid one."),
        rare=page("Quicksilver", "Another word for it."),
        common=page("Thermometer", "It measures."),
        reader=page("A reading", "Mercury  seven and mercury Seven (PLANET), quicksilver. Thermometer!"),
    )
    for i in range(6):
        write(folder, **{f"t{i}": page(f"Measuring hall {i}", "With a thermometer.")})
        (folder / f"same{i}.md").write_text(page("Opening hours", "Words."))
    for i in range(6, 30):
        (folder / f"same{i}.md").write_text(page("Opening hours", "Words."))
    write(folder, asks=page("A question", "Opening hours of Measuring Hall 3?"))
    world.ingest()
    found = edges(world.kb(), titled=True)
    of_reader = {target: count for (source, target), count in found.items() if source == "reader.md"}
    # Once by the bare title, which both have, and once in full; not the common word.
    assert of_reader == {"planet.md": 2, "metal.md": 1, "rare.md": 1}
    assert [target for source, target in found if source == "asks.md"] == ["t3.md"]
    graph = world.kb()._session.view().links
    paths = graph.documents.column("path").to_pylist()
    (bare,) = (i for i in range(len(graph)) if graph.titled[i] and paths[graph.target[i]] == "metal.md"
               and paths[graph.source[i]] == "reader.md")  # fmt: skip
    # The two that have it begin with it as well.
    assert (graph.shared[bare], graph.count[bare]) == (2, 1) and graph.frequency[bare] == 1


# --- what a change costs ------------------------------------------------------------------------------------


def test_a_new_title_is_looked_for_only_where_its_words_are(world: World) -> None:
    folder = world.source("notes")
    write(folder, holder=page("Holder", "The lantern keeper sleeps."), near=page("Near", "A lantern."))
    for i in range(20):
        write(folder, **{f"x{i}": page(f"Entry {i}", "Nothing of the kind.")})
    world.ingest()
    write(folder, keeper=page("Lantern keeper", "He keeps lanterns."))
    report = {r.stage: r for r in world.ingest("notes")}["entity_snapshots"]
    assert (report.counts["changed"], report.counts["rescanned"], report.counts["titles_changed"]) == (
        1,
        1,
        1,
    )
    assert edges(world.kb(), titled=True) == {("holder.md", "keeper.md"): 1}
    # A second document of the same title touches nobody else, and neither does the end of one of the two.
    write(folder, second=page("Lantern Keeper (novel)", "A book."))
    report = {r.stage: r for r in world.ingest("notes")}["entity_snapshots"]
    assert report.counts["rescanned"] == 0
    # The first holds the title of the second: its own.
    assert set(edges(world.kb(), titled=True)) == {
        ("holder.md", "keeper.md"),
        ("holder.md", "second.md"),
        ("keeper.md", "second.md"),
    }
    (folder / "keeper.md").unlink()
    assert {r.stage: r for r in world.ingest("notes")}["entity_snapshots"].counts["rescanned"] == 0
    (folder / "second.md").unlink()
    assert {r.stage: r for r in world.ingest("notes")}["entity_snapshots"].counts["rescanned"] == 1
    assert not edges(world.kb(), titled=True)


def test_one_edit_reads_and_writes_only_what_it_touches(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url, shards={"max_chunks": 8})
    folder = world.source("notes")
    for i in range(60):
        write(
            folder,
            **{f"n{i}": page(f"Entry number {i}", f"See [next](n{(i + 1) % 60}.md) and entry number 7.")},
        )
    world.ingest()
    before = edges(world.kb())
    write(folder, n5=page("Entry number 5", "See [next](n30.md)."))
    reports = {r.stage: r for r in world.ingest("notes")}
    assert reports["links"].counts["documents"] == 1 and reports["kb_shards"].counts["shards_new"] == 1
    assert edges(world.kb()) == before - Counter([("n5.md", "n6.md")]) + Counter([("n5.md", "n30.md")])
    # What a link leads to may come and go without a shard of the link being written.
    (folder / "n30.md").unlink()
    assert {r.stage: r for r in world.ingest("notes")}["links"].counts["documents"] == 0
    assert [x.target for x in world.kb().links("n5.md").unresolved] == ["notes:n30.md"]
    assert all(
        r.skipped == "unchanged" for r in world.ingest("notes") if r.stage in ("links", "entity_snapshots")
    )


def test_a_page_whose_blob_cannot_be_read_is_read_when_it_can(world: World) -> None:
    folder = world.source("notes")
    text = (
        "<html><title>Lantern</title><main><p>Some words and <a href='b.html'>a link</a>.</p></main></html>"
    )
    (folder / "a.html").write_text(text)
    for stage in ("raw_blobs", "documents"):
        world.run(stage, "notes")
    (blob,) = (p for p in (world.home / "blobs").rglob("*") if p.is_file())
    kept = blob.read_bytes()
    blob.unlink()
    report = world.run("links", "notes")
    assert [p["code"] for p in report.problems] == ["E_BLOB_MISSING"] and report.counts["new"] == 0
    blob.write_bytes(kept)
    assert world.run("links", "notes").counts["new"] == 1
    assert world.run("links", "notes").skipped == "unchanged"


def test_an_erased_document_leaves_no_byte_in_links_and_titles(world: World) -> None:
    folder = world.source("notes")
    (folder / "plan.md").write_text(page(f"The {WORD} plan", f"[x]({WORD}.md) [[{WORD}]] http://{WORD}.org/"))
    write(folder, other=page("Other entry", "See [the plan](plan.md)."))
    world.ingest()
    assert [p for p in holding(world.home, WORD) if "/links/" in p] and world.kb().links("other.md").outgoing
    doc_id = world.kb().links("plan.md").doc_id
    assert delete(world.workspace, "default", [doc_id], erase=True).final
    assert holding(world.home, WORD) == []
    assert [x.target for x in world.kb().links("other.md").unresolved] == ["notes:plan.md"]


def test_tables_of_an_earlier_form_are_made_again(world: World) -> None:
    """A home whose snapshot has no titles yet."""
    write(world.source("notes"), a=page("Lantern keeper", "x"), b=page("Entry", "The lantern keeper."))
    world.ingest()
    pointers = world.workspace.catalog.pointers
    snapshot = pointers.get("default", NAMESPACE, "entity_snapshots")
    assert snapshot is not None
    tables = {name: version for name, version in snapshot.tables.items() if name != "title_links"}
    pointers.publish("default", NAMESPACE, type(snapshot)(
        stage=snapshot.stage, tables=tables, inputs="old", txn="old", applied=snapshot.applied
    ))  # fmt: skip
    report = {r.stage: r for r in world.ingest("notes")}["entity_snapshots"]
    assert report.counts["changed"] == 2
    assert edges(world.kb(), titled=True) == {("b.md", "a.md"): 1}


# --- real sites ---------------------------------------------------------------------------------------------


def html_links(root: Path) -> Counter[tuple[str, str]]:
    """Return (page, page) of every link within the main content of a site, as lxml reads the files."""
    pages = {str(p.relative_to(root)) for p in root.rglob("*.html")}
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(pages):
        tree = lxml.html.document_fromstring((root / path).read_bytes())
        targets = set()
        for main in tree.xpath("//*[contains(concat(' ', @class, ' '), ' md-content__inner ')]"):
            for a in main.xpath(".//a[@href]"):
                href = re.sub(r"^https://kubernetes\.github\.io/ingress-nginx(?=/|$)", "", a.get("href"))
                if (
                    href.startswith("#")
                    or re.match(r"[a-z]+:", href)
                    or "md-content__button" in a.get("class", "")
                ):
                    continue
                base, _, fragment = href.partition("#")
                folder = "" if base.startswith("/") else posixpath.dirname(path)
                target = posixpath.normpath(posixpath.join(folder, base.lstrip("/")))
                for candidate in (
                    target,
                    f"{target}.html",
                    f"{target}/index.html",
                    posixpath.join(target, "index.html"),
                ):
                    if posixpath.normpath(candidate) in pages:
                        # A page is linked once for each way in which its target is written.
                        targets.add(
                            (
                                a.get("href").partition("#")[0].rstrip("/"),
                                fragment,
                                posixpath.normpath(candidate),
                            )
                        )
                        break
        found.update((path, target) for _, _, target in targets if target != path)
    return found


@pytest.mark.usefixtures("unread")
def test_markdown_files_link_as_another_parser_reads_them(world: World) -> None:
    root = DATA / "linuxserver-docs-md"
    world.source("docs", path=str(root))
    world.ingest()
    files = {str(p.relative_to(root)) for p in root.rglob("*.md")}
    theirs = set()
    for path in files:
        for href in _hrefs(MarkdownIt("commonmark").enable("table").parse((root / path).read_text())):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), href.partition("#")[0]))
            if href[:1] != "#" and ":" not in href and target in files and target != path:
                theirs.add((path, target))
    assert set(edges(world.kb())) == theirs and len(theirs) > 15


def _hrefs(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "link_open":
            yield str(token.attrs["href"])
        yield from _hrefs(token.children or [])


@pytest.mark.usefixtures("unread")
def test_a_served_site_links_as_its_files_say(tmp_path: Path, tei: FakeTei) -> None:
    """The pages at their URLs, the first of them behind a redirect; links are relative to where it ends."""
    world = World(tmp_path, tei.url, http={"rate_limit_rps": 0})

    def handle(h: BaseHTTPRequestHandler) -> None:
        path = h.path.removeprefix("/ingress-nginx")
        file = INGRESS / path.lstrip("/")
        if h.path == "/moved":
            send(h, 301, location="/ingress-nginx/")
        elif file.is_dir() and (file / "index.html").exists() and path.endswith("/"):
            send(h, 200, (file / "index.html").read_bytes(), content_type="text/html")
        else:
            send(h, 404)

    with serve(handle) as site:
        pages = sorted(str(p.parent.relative_to(INGRESS)) for p in INGRESS.rglob("index.html"))
        urls = [f"{site.base}/ingress-nginx/{p}/".replace("/./", "/") for p in pages if p != "."]
        world.source(
            "site", "web", path=None, urls=[f"{site.base}/moved", *urls], allow_cidrs=["127.0.0.0/8"]
        )
        world.ingest()
    prefix = f"{site.base}/ingress-nginx/"
    found = {
        tuple("index.html" if p.endswith("/moved") else p.removeprefix(prefix) + "index.html" for p in edge)
        for edge in edges(world.kb())
    }
    expected = {edge for edge in html_links(INGRESS) if all(p.endswith("index.html") for p in edge)}
    assert found == expected and any(source == "index.html" for source, _ in found)
    world.workspace.close()


@pytest.mark.usefixtures("unread")
def test_the_evidence_of_multi_hop_questions_is_linked_by_titles(world: World) -> None:
    """MuSiQue: whatever title of several words a naive search finds in a paragraph links it."""
    folder, root = world.source("musique", languages=None), DATA / "multihop-musique-train-100"
    documents = [json.loads(line) for line in (root / "corpus.jsonl").read_text().splitlines()][:400]
    for i, row in enumerate(documents):
        (folder / f"{i}.md").write_text(f"# {row['title']}\n\n{row['text']}\n")
    world.ingest()
    found = edges(world.kb(), titled=True)
    linked = 0
    for i, row in enumerate(documents):
        for k, other in enumerate(documents):
            title = other["title"]
            if k != i and " " in title and title.isascii() and re.search(
                rf"(?<![\w]){re.escape(title)}(?![\w])", row["text"]
            ):  # fmt: skip
                # Where titles overlap, the longest of them links; one of a single great word is common.
                longer = {d["title"] for d in documents if title in d["title"] and d["title"] in row["text"]}
                if longer == {title} and not is_common(normalize(title)):
                    linked += 1
                    assert (f"{i}.md", f"{k}.md") in found, (row["title"], title)
    assert linked > 30


# --- broken links -------------------------------------------------------------------------------------------


def broken(world: World, source: str) -> list[tuple[str, int | None, str]]:
    (entry,) = world.workspace.entries(source)
    pointers = world.workspace.catalog.pointers
    documents, links = (pointers.get("default", source, stage) for stage in ("documents", "links"))
    assert documents is not None and links is not None
    version = documents.tables["documents"]
    found = broken_links(world.workspace, "default", entry, version, links.tables["links"])
    return [
        (link.path, line, link.target)
        for link, line in lines_of(world.workspace, "default", source, version, found)
    ]


def test_broken_links_are_those_that_lead_to_nothing_within_the_source(world: World) -> None:
    folder = world.source("notes", exclude=["left-out.md"])
    (folder / "img").mkdir()
    (folder / "img" / "i.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    (folder / "left-out.md").write_text("# Left out\n")
    write(
        folder,
        a=page(
            "A page",
            "[ok](b.md) [image](img/i.png) [folder](img/) [left out](left-out.md) [out](../x.md)\n"
            "[site](https://e.org/gone) [mail](mailto:a@e.org) [here](#no)\n"
            "[gone](gone.md#x) [also](/no/such)",
        ),
        b=page("B page", "[a](a) [a](a.html) [gone](a.txt)"),
    )  # fmt: skip
    world.ingest()
    assert broken(world, "notes") == [
        ("a.md", 5, "notes:gone.md"),
        ("a.md", 5, "notes:no/such"),
        ("b.md", 3, "notes:a.txt"),
    ]
    (folder / "b.md").unlink()
    world.ingest()
    assert [x[2] for x in broken(world, "notes")] == ["notes:b.md", "notes:gone.md", "notes:no/such"]


@pytest.mark.usefixtures("unread")
def test_a_site_of_files_has_the_links_and_the_broken_links_that_its_files_have(world: World) -> None:
    copy = world.source("site")
    shutil.copytree(INGRESS, copy, dirs_exist_ok=True)
    world.ingest()
    ours, theirs = edges(world.kb()), html_links(INGRESS)
    assert set(ours) == set(theirs)
    assert len(theirs) > 70 and sum(ours.values()) >= len(theirs)
    # The site was stored without the manifests beside its pages.
    assert {posixpath.splitext(target)[1] for _, _, target in broken(world, "site")} == {".yaml"}
    (copy / "faq" / "index.html").unlink()
    world.ingest()
    assert {target for *_, target in broken(world, "site") if not target.endswith(".yaml")} == {"site:faq"}


def test_of_a_web_site_only_what_its_sitemap_covers_is_judged(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url, http={"rate_limit_rps": 0})
    text = (
        "<html><title>{0}</title><main><p>Words of {0} with <a href='b'>b</a>, <a href='gone'>gone</a>, <a"
        " href='file.zip'>zip</a>, <a href='/else'>else</a>, <a href='out/x'>out</a>.</p></main></html>"
    )

    def handle(h: BaseHTTPRequestHandler) -> None:
        base = f"http://127.0.0.1:{h.server.server_port}"
        if h.path == "/sitemap.xml":
            listed = "".join(f"<url><loc>{base}/docs/{p}</loc></url>" for p in ("a", "b"))
            send(h, 200, f"<urlset>{listed}</urlset>".encode(), content_type="application/xml")
        elif h.path.startswith("/docs/"):
            send(h, 200, text.format(h.path).encode(), content_type="text/html")
        else:
            send(h, 404)

    with serve(handle) as site:
        fields: dict[str, Any] = {"sitemaps": [f"{site.base}/sitemap.xml"], "exclude": ["/docs/out/**"]}
        world.source("site", "web", path=None, allow_cidrs=["127.0.0.0/8"], **fields)
        world.ingest()
    assert {target for *_, target in broken(world, "site")} == {f"{site.base}/docs/gone"}
    world.workspace.close()


def test_a_document_has_its_plain_path_however_the_sources_file_leads_there(world: World) -> None:
    beside = f"../{world.directory.name}"
    (world.source("notes", path=f"{beside}/notes") / "a.md").write_text(page("A", f"[b](b.md) {WORD}"))
    # The folder above the target of a link is another than that which the link lies in.
    (world.directory / "notes" / "deep").mkdir()
    (world.directory / "linked").symlink_to(world.directory / "notes" / "deep")
    world.source("others", path="linked/../more")
    (world.directory / "notes" / "more").mkdir()
    (world.directory / "notes" / "more" / "b.md").write_text(page("B", WORD))
    world.ingest()
    kb = world.kb()
    found = kb.links(str(world.directory / "notes" / "a.md"))
    assert found.doc_id == doc_id("default", locator("notes", "a.md"))
    assert found.url == str(world.directory / "notes" / "a.md")
    assert kb.links(str(world.directory / "linked" / ".." / "more" / "b.md")).title == "B"
