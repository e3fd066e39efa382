"""Explanations read the blob again; answers cite what stands there."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import Settings, ShardSettings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.publish import publish
from taboot_pipelines.stores.blobs import BlobStore, open_blobs
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, HashEmbedder, World, edge, entity

COMPOSE = (
    "services:\n  app:\n    environment:\n      DB_PASSWORD: hunter2secret\n    depends_on:\n      - db\n "
    " db:\n    image: postgres\n"
)


def doc(**more) -> Doc:
    return Doc(
        "compose.yaml",
        COMPOSE,
        source="stack",
        type="compose",
        edges=[edge(("h/p", "app"), ("h/p", "db"), quote="depends_on:\n      - db", **more)],
    )


def open_(home, *docs: Doc, give=None) -> KnowledgeBase:
    w = World(
        docs,
        [entity("h/p", "app"), entity("h/p", "db")],
        sources={d.source: {"type": d.type, "root": f"/src/{d.source}"} for d in docs},
    )
    blobs = open_blobs(Settings(home=home))
    for d in docs:
        blobs.put(NAMESPACE, d.blob)
    publish(open_shards(Settings(home=home)), give(w) if give else w.input(), ShardSettings())
    return KnowledgeBase.open(settings=Settings(home=home), embedder=HashEmbedder())


def test_an_edge_is_explained_by_the_statement_with_file_and_line(tmp_path):
    kb = open_(tmp_path, doc())
    (row,) = kb.edges().to_pylist()
    (shown,) = kb.neighbors("app").edges
    for what in (row["edge_id"], row, shown, kb.edges().to_pandas().iloc[0]):
        e = kb.explain(what)
        assert (e.kind, e.quote, e.url, e.line, e.quotes[0].line_end) == (
            "edge",
            "depends_on:\n      - db",
            "/src/stack/compose.yaml",
            5,
            6,
        )
        assert e.statement == "(Service app)-[DEPENDS_ON]->(Service db)"
        assert [(x.role, x.basis) for x in e.ends] == [("start", "derived"), ("end", "bytes")] and all(
            x.rule for x in e.ends
        )
    assert "depends_on" in e._repr_html_()


def test_a_name_that_does_not_stand_in_the_quote_is_no_evidence(tmp_path):
    kb = open_(tmp_path, doc(start_basis="bytes"))
    with pytest.raises(TabootError) as caught:
        kb.explain(kb.edges().to_pylist()[0])
    assert (
        caught.value.code == "E_EVIDENCE"
        and "compose.yaml:5" in caught.value.message
        and "hunter2" not in str(caught.value)
    )


@pytest.mark.parametrize("span", [(-1, 3), (5, 2), (0, 10_000)])
def test_bytes_outside_the_blob_are_no_evidence(tmp_path, span):
    kb = open_(tmp_path, doc(byte_start=span[0], byte_end=span[1]))
    with pytest.raises(TabootError) as caught:
        kb.explain(kb.edges().to_pylist()[0])
    assert caught.value.code == "E_EVIDENCE"


def test_one_flipped_byte_of_a_blob_makes_exactly_its_edges_fail(tmp_path):
    other = Doc(
        "other.yaml",
        "app uses db",
        source="stack",
        edges=[edge(("h/p", "app"), ("h/p", "db"), quote="app uses db")],
    )
    kb = open_(tmp_path, doc(), other)
    path = tmp_path / "blobs" / BlobStore.path(NAMESPACE, ids.sha256_hex(doc().blob))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    codes = {}
    for row in kb.edges().to_pylist():
        try:
            codes[row["doc_id"]] = kb.explain(row).kind
        except TabootError as error:
            codes[row["doc_id"]] = error.code
    assert codes == {doc().doc_id: "E_BLOB_CORRUPT", other.doc_id: "edge"}
    path.unlink()
    with pytest.raises(TabootError) as caught:
        kb.explain(f"{doc().doc_id}:0")
    assert caught.value.code == "E_BLOB_MISSING"


def test_quotes_pass_the_mask(tmp_path):
    text = COMPOSE
    secret = Doc(
        "compose.yaml",
        text,
        source="stack",
        edges=[
            edge(
                ("h/p", "app"), ("h/p", "db"), quote="DB_PASSWORD: hunter2secret\n    depends_on:\n      - db"
            )
        ],
    )
    kb = open_(tmp_path, secret)
    quote = kb.explain(kb.edges().to_pylist()[0]).quote
    assert (
        "hunter2secret" not in quote
        and quote.startswith("DB_PASSWORD: *")
        and len(quote) == len("DB_PASSWORD: hunter2secret\n    depends_on:\n      - db")
    )


def test_a_hit_is_explained_by_its_bytes_in_the_file(tmp_path):
    d = Doc("päge.md", "# Títle\n\nredis — the ✓ backup\n\nlast", source="docs")
    kb = open_(tmp_path, d)
    (hit,) = (h for h in kb.search("backup").hits if "backup" in h.text)
    e = kb.explain(hit)
    assert (e.kind, e.quote, e.line, e.url) == ("hit", "redis — the ✓ backup", 3, "/src/docs/päge.md")
    assert d.blob[e.quotes[0].byte_start : e.quotes[0].byte_end].decode() == hit.text
    assert kb.explain(hit.chunk_id) == e == kb.explain({"chunk_id": hit.chunk_id})


@pytest.mark.parametrize(
    ("codec", "charset"),
    [("utf-16", "utf-16"), ("utf-8-sig", "utf-8"), ("latin-1", "iso-8859-1"), ("utf-8", "no-such-charset")],
)
def test_quotes_hold_in_every_charset(tmp_path, codec, charset):
    text = "# Títle\n\nnöthing\n\nredis übér backup"
    blob = text.encode(codec)
    mark = {"utf-16": 2, "utf-8-sig": 3}.get(codec, 0)
    d = Doc("a.md", text, source="docs")

    def give(w):
        def load(doc_ids):
            rows = w.load(doc_ids)
            table = rows.documents
            offsets = OffsetMap.of_text(
                text, {"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}.get(codec, codec), mark
            ).dumps()
            for name, value in (
                ("offsets", offsets),
                ("charset", charset),
                ("blob_sha256", ids.sha256_hex(blob)),
            ):
                field = table.schema.field(name)
                table = table.set_column(table.column_names.index(name), field, pa.array([value], field.type))
            return replace(rows, documents=table)

        return replace(w.input(), load=load)

    open_blobs(Settings(home=tmp_path)).put(NAMESPACE, blob)
    kb = open_(tmp_path, d, give=give)
    e = kb.explain(f"{d.doc_id}:2")
    assert (e.quote, e.line) == ("redis übér backup", 5)


def test_a_block_of_a_page_is_quoted_whole_with_its_line(tmp_path):
    page = "<html>\n<body>\n<p>redis <b>backup</b> nightly</p>\n</body>"
    start = page.index("<p>")
    d = Doc("a.html", "redis **backup** nightly", source="docs")

    def give(w):
        def load(doc_ids):
            rows = w.load(doc_ids)
            table = rows.documents
            offsets = OffsetMap.of([(0, len(d.text), start, page.index("</p>") + 4, 0)]).dumps()
            for name, value in (
                ("offsets", offsets),
                ("mime", "text/html"),
                ("blob_sha256", ids.sha256_hex(page)),
            ):
                field = table.schema.field(name)
                table = table.set_column(table.column_names.index(name), field, pa.array([value], field.type))
            return replace(rows, documents=table)

        return replace(w.input(), load=load)

    open_blobs(Settings(home=tmp_path)).put(NAMESPACE, page.encode())
    kb = open_(tmp_path, d, give=give)
    hit = kb.search("redis backup").hits[0]
    assert hit.line is None  # the page's lines are not the document's
    assert (kb.explain(hit).quote, kb.explain(hit).line) == ("<p>redis <b>backup</b> nightly</p>", 3)
    assert kb.answer("redis backup nightly?").citations[0].line == 3


def test_a_chunk_that_does_not_stand_in_its_blob_is_no_evidence(tmp_path):
    d = Doc("a.md", "redis backup", source="docs")
    wrong = b"other backup"

    def give(w):
        def load(doc_ids):
            rows = w.load(doc_ids)
            field = rows.documents.schema.field("blob_sha256")
            return replace(
                rows,
                documents=rows.documents.set_column(
                    rows.documents.column_names.index("blob_sha256"),
                    field,
                    pa.array([ids.sha256_hex(wrong.decode())]),
                ),
            )

        return replace(w.input(), load=load)

    open_blobs(Settings(home=tmp_path)).put(NAMESPACE, wrong)
    kb = open_(tmp_path, d, give=give)
    with pytest.raises(TabootError) as caught:
        kb.explain(f"{d.doc_id}:0")
    assert caught.value.code == "E_EVIDENCE"


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("f" * 64, "E_EDGE_UNKNOWN"),
        ("", "E_EDGE_UNKNOWN"),
        ("x" * 100_000, "E_EDGE_UNKNOWN"),
        (f"{doc().doc_id}:99", "E_EDGE_UNKNOWN"),
        ("00000000-0000-4000-8000-000000000000:0", "E_EDGE_UNKNOWN"),
        (None, "E_QUERY"),
        (3, "E_QUERY"),
        ({}, "E_QUERY"),
        ({"edge_id": 5}, "E_QUERY"),
    ],
)
def test_what_is_not_known_cannot_be_explained(tmp_path, what, code):
    kb = open_(tmp_path, doc())
    with pytest.raises(TabootError) as caught:
        kb.explain(what)
    assert caught.value.code == code and len(str(caught.value)) < 1000


RUNBOOK = """# Backups

Redis is backed up nightly at 03:00 by restic. The copies go to the NAS.

Nginx restarts itself. Unrelated words stand here."""


def test_an_answer_cites_the_sentence_with_its_line(tmp_path):
    kb = open_(
        tmp_path,
        Doc("runbook.md", RUNBOOK, source="docs"),
        Doc("copy.md", RUNBOOK.replace("# Backups", "# Same"), source="docs"),
    )
    a = kb.answer("When is Redis backed up?")
    assert a.found and "03:00" in a.text
    first = a.citations[0]
    said = "Redis is backed up nightly at 03:00 by restic."
    assert (first.text, first.line, first.number) == (said, 3, 1)
    assert (
        RUNBOOK[first.start : first.end] == first.text
        or RUNBOOK.replace("# Backups", "# Same")[first.start : first.end] == first.text
    )
    assert len({c.text for c in a.citations}) == len(
        a.citations
    )  # the same sentence of two files is cited once
    assert first.url.startswith("/src/docs/") and "[1]" in a.text
    assert a.to_arrow().num_rows == len(a.citations) and "03:00" in a._repr_html_()
    assert kb.answer("When is Redis backed up?", mode="keyword").citations[0].text == first.text


def test_no_answer_is_said(tmp_path):
    kb = open_(tmp_path, Doc("runbook.md", RUNBOOK, source="docs"))
    for question in ("Quantum chromodynamics lagrangian?", "xyzzy"):
        a = kb.answer(question, mode="keyword")
        assert not a.found and a.citations == () and a.text and a._repr_html_()
    with pytest.raises(TabootError) as caught:
        kb.answer("  ")
    assert caught.value.code == "E_QUERY"
    assert not kb.answer("When is Redis backed up?", source="elsewhere").found
