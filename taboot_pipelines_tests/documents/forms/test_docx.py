"""Word documents become Markdown, or a typed error."""

from __future__ import annotations

import io
import zipfile

import pytest
from docx import Document
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines_tests.documents.forms.office import W, docx_of, paragraph


def parsed(data: bytes, path: str = "plan.docx") -> ParsedDocument:
    return parse_document(data, path=path, mime=None, charset=None, languages=(), max_chars=1_000_000)


def refused(data: bytes, path: str = "plan.docx") -> str:
    with pytest.raises(TabootError) as caught:
        parsed(data, path)
    return caught.value.code


def test_a_document_as_a_word_processor_writes_it() -> None:
    made = Document()
    made.core_properties.author = "Ada"
    made.add_heading("The house", 0)
    made.add_paragraph("The proxy runs on atlas.")
    made.add_heading("Backups", 1)
    for text in ("daily", "weekly"):
        made.add_paragraph(text, style="List Bullet")
    for text in ("stop", "copy"):
        made.add_paragraph(text, style="List Number")
    table = made.add_table(rows=2, cols=2)
    for cell, text in zip(
        (c for r in table.rows for c in r.cells), ("Host", "Port", "atlas", "a|b"), strict=True
    ):
        cell.text = text
    for text in ("```", "docker compose up"):
        run = made.add_paragraph().add_run(text)
        run.font.name = "Courier New"
    made.add_paragraph("# not a heading")
    stream = io.BytesIO()
    made.save(stream)
    data = stream.getvalue()
    document = parsed(data)
    assert document.text == (
        "# The house\n\nThe proxy runs on atlas.\n\n# Backups\n\n- daily\n- weekly\n1. stop\n1. copy\n\n"
        "| Host | Port |\n| --- | --- |\n| atlas | a\\|b |\n\n````\n```\ndocker compose up\n````\n\n"
        "\\# not a heading\n"
    )
    assert (document.title, document.metadata["author"]) == ("The house", "Ada")
    at = document.text.index("proxy")
    start, end = document.offsets.to_bytes(at, at + 5)
    with zipfile.ZipFile(stream) as archive:
        info = archive.getinfo("word/document.xml")
    assert start == info.header_offset and end - start >= info.compress_size
    assert data[start:end].startswith(b"PK\x03\x04") and b"word/document.xml" in data[start:end]


def test_links_notes_changes_and_pictures() -> None:
    relations = (
        '<Relationships><Relationship Id="r1" Target="https://wiki.example.org/x" TargetMode="External"/>'
        '<Relationship Id="r2" Target="javascript:alert(1)" TargetMode="External"/></Relationships>'
    )
    note = f'<w:footnote w:id="7">{paragraph("See there.")}</w:footnote>'
    notes = f'<w:footnotes xmlns:w="{W}">{note}</w:footnotes>'
    body = (
        '<w:p><w:hyperlink w:id="r1"><w:r><w:t>wiki</w:t></w:r></w:hyperlink>'
        '<w:hyperlink w:id="r2"><w:r><w:t> odd</w:t></w:r></w:hyperlink>'
        "<w:ins><w:r><w:t> new</w:t></w:r></w:ins><w:del><w:r><w:delText> old</w:delText></w:r></w:del>"
        '<w:r><w:footnoteReference w:id="7"/></w:r></w:p>'
        "<w:p><w:r><w:instrText>SECRET FIELD</w:instrText><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r></w:p>"
    )
    data = docx_of(body, **{"_rels/document.xml": b"", "footnotes": notes.encode()})
    grown = io.BytesIO(data)
    with zipfile.ZipFile(grown, "a") as archive:
        archive.writestr("word/_rels/document.xml.rels", relations)
        archive.writestr("word/vbaProject.bin", b"\x00macro")
    text = parsed(grown.getvalue(), "plan.docm").text
    assert text == "[wiki](https://wiki.example.org/x) odd new[^1]\n\na\tb\n\n[^1]: See there.\n"


def test_notes_at_the_end_are_kept() -> None:
    def notes(kind: str, said: str) -> bytes:
        note = f'<w:{kind} w:id="2">{paragraph(said)}</w:{kind}>'
        return f'<w:{kind}s xmlns:w="{W}">{note}</w:{kind}s>'.encode()

    body = (
        '<w:p><w:r><w:t>One</w:t></w:r><w:r><w:endnoteReference w:id="2"/></w:r>'
        '<w:r><w:t> two</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    )
    data = docx_of(body, footnotes=notes("footnote", "Below."), endnotes=notes("endnote", "At the end."))
    text = parsed(data).text
    assert text == "One[^1] two[^2]\n\n[^2]: Below.\n\n[^1]: At the end.\n"


def test_the_strict_form_and_text_boxes() -> None:
    box = (
        '<w:p><w:r><mc:AlternateContent xmlns:mc="urn:mc"><mc:Choice><w:drawing><w:txbxContent>'
        f"{paragraph('boxed')}</w:txbxContent></w:drawing></mc:Choice><mc:Fallback><w:pict><w:txbxContent>"
        f"{paragraph('boxed')}</w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
    data = docx_of(paragraph("before") + box + paragraph("after"))
    assert parsed(data).text == "before\n\nboxed\n\nafter\n"
    strict = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(strict, "w") as new:
        text = old.read("word/document.xml").decode()
        new.writestr("word/document.xml", text.replace(W, "http://purl.oclc.org/ooxml/wordprocessingml/main"))
    assert parsed(strict.getvalue()).text == "before\n\nboxed\n\nafter\n"


def test_what_is_no_word_document_says_so() -> None:
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert refused(other.getvalue()) == "E_MIME"
    assert refused(other.getvalue(), "bundle.zip") == "E_BINARY"
    assert refused(b"PK\x03\x04" + b"\x00" * 100) == "E_PARSE"
    assert refused(docx_of("")) == "E_EMPTY"
    whole = docx_of(paragraph("hello"))
    assert refused(whole[: len(whole) // 2]) == "E_PARSE"
    assert refused(whole, "upload") == "E_BINARY"


def test_bombs_entities_and_depth() -> None:
    zeros = paragraph("a" * (40 << 20))
    assert refused(docx_of(zeros)) == "E_TOO_LARGE"
    entity = (
        f'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><w:document xmlns:w="{W}"><w:body>'
        "<w:p><w:r><w:t>&x;</w:t></w:r></w:p></w:body></w:document>"
    )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("word/document.xml", entity)
    assert refused(made.getvalue()) == "E_PARSE"
    assert refused(docx_of("<w:sdt>" * 5000 + "</w:sdt>" * 5000)) == "E_PARSE"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_bytes_give_a_document_or_a_typed_error(data: st.DataObject) -> None:
    whole = bytearray(docx_of(paragraph("The proxy runs on atlas.") * 3))
    for _ in range(data.draw(st.integers(0, 6))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        document = parsed(bytes(whole))
    except TabootError as error:
        assert error.code in ("E_PARSE", "E_EMPTY", "E_MIME", "E_TOO_LARGE")
    else:
        assert all(0 <= a <= b <= len(whole) for a, b in [document.offsets.to_bytes(0, len(document.text))])
