"""A document beside its bytes: the marks are the bytes of what was asked for, and secrets stay masked."""

from __future__ import annotations

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.world import World

GUIDE = (
    "# Lanterns\r\n\r\nThe lantern hangs in the h\u00e4ll \U0001f98a.\r\n"
    "TOKEN=sk-planted-9f8e7d6c5b4a3210\r\n"
)
PAGE = (
    "<html><head><title>Lamps</title></head><body><nav>Menu</nav><main><h1>Lamps</h1><p>A lamp stands in the"
    " attic, and it is lit at night.</p><p>Another stands in the cellar.</p></main></body></html>"
)
MAIL = (
    "From: Mara <mara@example.org>\nTo: jonas@example.org\nSubject: Candles\n"
    "Date: Tue, 3 Feb 2026 10:00:00 +0000\n"
    "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
    "VGhlIGNhbmRsZXMgYXJlIGluIHRoZSBkcmF3ZXIgb2YgdGhlIGtpdGNoZW4uCg==\n"
)


@pytest.fixture
def kb(world: World) -> KnowledgeBase:
    folder = world.source("guides", tags=["docs"])
    (folder / "guide.md").write_bytes(GUIDE.encode("utf-16"))
    (folder / "plain.md").write_text("# Stools\n\nThe stool is red.\n\nThe stool is old.\n")
    (folder / "page.html").write_text(PAGE)
    (world.source("mail", "gmail") / "1.eml").write_text(MAIL)
    world.ingest()
    return world.kb()


def document(kb: KnowledgeBase, path: str) -> str:
    (row,) = (d for d in kb.documents().to_pylist() if d["path"] == path)
    return str(row["doc_id"])


def test_marks_are_the_bytes_of_the_hits(kb: KnowledgeBase, world: World) -> None:
    for query, path in (("lantern", "guide.md"), ("stool", "plain.md"), ("lamp attic", "page.html")):
        hit = next(h for h in kb.search(query).hits if h.doc_id == document(kb, path))
        found = kb.original(hit.doc_id, [(hit.start, hit.end)])
        assert (found.path, found.source, found.tags, found.rendered) == (path, "guides", ("docs",), False)
        (mark,) = found.marks
        data = (world.directory / "guides" / path).read_bytes()
        codec = "utf-16" if path == "guide.md" else "utf-8"
        shown = data[mark.byte_start : mark.byte_end].decode(codec.replace("16", "16-le"))
        marked = found.text[mark.start : mark.end]
        assert len(shown) == len(marked)
        assert all(a == b or b == "*" for a, b in zip(shown, marked, strict=True))
        # The same place by its bytes, and the quote that explain gives of it.
        again = kb.original(hit.doc_id, byte_spans=[(mark.byte_start, mark.byte_end)])
        assert again.marks == found.marks
        assert kb.explain(hit).quote == marked


def test_the_file_is_shown_as_it_is_but_for_secrets(kb: KnowledgeBase) -> None:
    found = kb.original(document(kb, "guide.md"))
    assert len(found.text.removeprefix("\ufeff")) == len(GUIDE) and found.read == "" and found.marks == ()
    assert "sk-planted" not in found.text and "TOKEN=***" in found.text
    page = kb.original(document(kb, "page.html"))
    assert page.text == PAGE
    assert "<p>" not in page.read and "A lamp stands in the attic" in page.read


def test_what_is_rendered_is_shown_as_the_document(kb: KnowledgeBase) -> None:
    hit = kb.search("candles drawer").hits[0]
    found = kb.original(hit.doc_id, [(hit.start, hit.end)])
    assert found.rendered and found.read == ""
    assert "The candles are in the drawer" in found.text
    assert found.text[found.marks[0].start : found.marks[0].end] == hit.text


def test_places_beyond_the_document_mark_nothing(kb: KnowledgeBase) -> None:
    doc_id = document(kb, "plain.md")
    assert kb.original(doc_id, [(0, 10**9)], [(0, 10**9)]).marks == ()
    empty = kb.original(doc_id, [(3, 3)]).marks
    assert [(m.start, m.end) for m in empty] == [(3, 3)]


def test_without_the_bytes_the_document_is_still_there(kb: KnowledgeBase, world: World) -> None:
    hit = next(h for h in kb.search("stool").hits if h.doc_id == document(kb, "plain.md"))
    blob = kb.original(hit.doc_id).blob_sha256
    (path,) = (p for p in (world.home / "blobs").rglob(f"*{blob}*") if p.is_file())
    kept = path.read_bytes()
    for change, code in (
        (lambda: (path.chmod(0o600), path.write_bytes(b"other")), "E_BLOB_CORRUPT"),
        (path.unlink, "E_BLOB_MISSING"),
    ):
        change()
        found = world.kb().original(hit.doc_id, [(hit.start, hit.end)])
        assert code in found.unread and found.text == kept.decode().rstrip("\n")
        (mark,) = found.marks
        assert found.text[mark.start : mark.end] == hit.text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nothing",), "E_NOT_FOUND"),
        ((3,), "E_QUERY"),
        (("nothing", [(5, 2)]), "E_QUERY"),
        (("nothing", [], [(-1, 2)]), "E_QUERY"),
    ],
)
def test_wrong_arguments(kb: KnowledgeBase, arguments: tuple[object, ...], code: str) -> None:
    with pytest.raises(TabootError) as error:
        kb.original(*arguments)
    assert error.value.code == code
