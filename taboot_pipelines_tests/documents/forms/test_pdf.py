"""PDFs become their pages' text, or a typed error, within bounds."""

from __future__ import annotations

import random
import re
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.documents.forms import pdf
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines.settings import ChunkingSettings
from taboot_pipelines_tests.documents.forms.office import pdf_of


def parsed(data: bytes, path: str = "manual.pdf", max_chars: int = 1_000_000) -> ParsedDocument:
    return parse_document(data, path=path, mime=None, charset=None, languages=(), max_chars=max_chars)


def refused(data: bytes, **more: int) -> str:
    with pytest.raises(TabootError) as caught:
        parsed(data, **more)
    assert caught.value.message.startswith("manual.pdf") and caught.value.details["path"] == "manual.pdf"
    return caught.value.code


def test_each_page_with_text_is_a_section_that_leads_to_its_content() -> None:
    data = pdf_of(
        [["The proxy runs on atlas."], [], ["# no heading", "cache listens on 6379"]], title="House"
    )
    document = parsed(data)
    assert document.text == (
        "## Page 1\n\nThe proxy runs on atlas.\n\n## Page 3\n\n\\# no heading\ncache listens on 6379\n"
    )
    assert (document.mime, document.title) == ("application/pdf", "House")
    chunks = Chunker(ChunkingSettings(min_tokens=1)).chunk(document.text, document.mime)
    assert [c.section for c in chunks] == ["Page 1", "Page 3"]
    for needle in ("atlas", "6379"):
        at = document.text.index(needle)
        start, end = document.offsets.to_bytes(at, at + len(needle))
        there = data[start:end]
        assert re.match(rb"[0-9]+ 0 obj", there) and there.endswith(b"endobj")
        stream = there[there.index(b"stream") + 6 : there.rindex(b"endstream")].strip()
        import base64

        assert needle.encode() in zlib.decompress(base64.a85decode(stream.removesuffix(b"~>"), adobe=False))


def test_a_file_that_opens_without_a_password_is_read_and_another_is_not() -> None:
    assert "sesame" in parsed(pdf_of([["open sesame"]], password="")).text
    assert refused(pdf_of([["open sesame"]], password="key")) == "E_UNREADABLE"


def test_what_cannot_be_read_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(pdf_of([[], []])) == "E_EMPTY"
    assert refused(b"%PDF-1.7\nhello\n%%EOF") == "E_BINARY"
    assert refused(pdf_of([["x" * 80] * 40]), max_chars=1000) == "E_TOO_LARGE"
    monkeypatch.setattr(pdf, "MAX_PAGES", 2)
    assert refused(pdf_of([["a"], ["b"], ["c"]])) == "E_TOO_LARGE"


def _of_objects(*objects: bytes) -> bytes:
    data, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % at for at in offsets)
    return data + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, table)


def _stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def test_bombs_end_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_SECONDS", 4)
    monkeypatch.setattr(pdf, "MAX_MEMORY", 400 << 20)
    catalog, pages = b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    page = b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /XObject << /F 5 0 R >> >> >>"
    # Forms that draw the next one ten times, ten deep; and one stream that unpacks to 300 MB.
    forms = [
        _stream(
            b"/F Do " * 10,
            b"/Type /XObject /Subtype /Form /BBox [0 0 1 1] /Resources << /XObject << /F %d 0 R >> >>"
            % (n + 1),
        )
        for n in range(5, 16)
    ]
    packed = zlib.compress(b"q " * 150_000_000, 1)
    for data in (
        _of_objects(catalog, pages, page, _stream(b"/F Do " * 10), *forms),
        _of_objects(catalog, pages, page, _stream(packed, b"/Filter /FlateDecode")),
    ):
        begun = time.monotonic()
        assert refused(data) in ("E_TOO_LARGE", "E_BINARY", "E_EMPTY")
        assert time.monotonic() - begun < 10 * pdf.MAX_SECONDS
    loop = _of_objects(catalog, b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>")
    assert refused(loop) in ("E_BINARY", "E_EMPTY", "E_TOO_LARGE")


@pytest.mark.slow
def test_damaged_files_give_a_document_or_a_typed_error() -> None:
    random_ = random.Random(7)
    whole = pdf_of([["The proxy runs on atlas."] * 20, ["cache listens on 6379"] * 20])
    for _ in range(25):
        data = bytearray(whole)
        for _ in range(random_.randrange(1, 30)):
            data[random_.randrange(8, len(data))] = random_.randrange(256)
        data = data[: random_.choice((len(data), random_.randrange(9, len(data))))]
        try:
            document = parsed(bytes(data))
        except TabootError as error:
            assert error.code in ("E_BINARY", "E_EMPTY", "E_UNREADABLE", "E_TOO_LARGE")
        else:
            starts, ends = document.offsets.byte_start.tolist(), document.offsets.byte_end.tolist()
            assert all(0 <= a < b <= len(data) for a, b in zip(starts, ends, strict=True))
            assert all(a <= b for a, b in pairwise(document.offsets.doc_start.tolist()))


def test_one_process_reads_many_files_and_a_bomb_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [pdf_of([[f"The proxy number {n} runs on atlas."]]) for n in range(30)]

    def read(n: int) -> bool:
        return f"number {n} runs" in parsed(files[n]).text

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(30)))
    process = pdf._PROCESS._running
    assert process is not None and read(3)
    assert pdf._PROCESS._running is process or not Path("/proc/self/statm").exists()
    process.kill()
    process.wait()
    assert read(4), "it is started anew"
    catalog, pages = b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    page = b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>"
    swelling = _stream(zlib.compress(b"q " * 150_000_000, 1), b"/Filter /FlateDecode")
    with monkeypatch.context() as patched:
        patched.setattr(pdf, "MAX_MEMORY", 200 << 20)
        patched.setattr(pdf, "MAX_SECONDS", 4)
        assert refused(_of_objects(catalog, pages, page, swelling)) in ("E_TOO_LARGE", "E_BINARY", "E_EMPTY")
    assert read(6), "what a bomb did to it is forgotten"
