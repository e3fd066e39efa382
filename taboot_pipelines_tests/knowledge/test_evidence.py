"""Bytes and lines of spans: of a decoded text, and of one that was rendered from its blob."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.knowledge.evidence import QuotedText, quoted_document
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.offsets import OffsetMap


@given(st.text(st.sampled_from("aä\n😀 "), min_size=1, max_size=40), st.data())
def test_a_place_leads_to_the_very_bytes_and_line(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    blob = b"\xef\xbb\xbf" + text.encode()
    quoted = QuotedText(text, OffsetMap.of_text(text, "utf-8", 3), "sha")
    place = quoted.place(start, end)
    assert blob[place.byte_start : place.byte_end].decode() == text[start:end]
    assert place.line == text.count("\n", 0, start) + 1
    assert quoted.places([start, 0], [end, 1])[0] == place


def test_a_rendered_text_has_its_blobs_lines_and_no_name_between_markup() -> None:
    blob = b"<p>\n\n<b>gra</b>fana and\nredis</p>"
    text = "grafana and redis"
    offsets = OffsetMap.of([(0, len(text), 5, len(blob) - 4, 0)]).dumps()
    quoted = quoted_document(text, offsets, "sha", "text/html", lambda sha256: blob)
    grafana, redis = quoted.places([0, 12], [7, 17])
    assert (grafana.line, redis.line) == (3, 3)
    assert not quoted.holds("grafana", grafana) and quoted.holds("redis", redis)
    assert quoted.basis(Basis.BYTES, "grafana", grafana) == Basis.NORMALIZED
    assert quoted.basis(Basis.BYTES, "redis", redis) == Basis.BYTES
    assert quoted.basis(Basis.DERIVED, "grafana", grafana) == Basis.DERIVED


def test_only_a_rendered_documents_blob_is_read() -> None:
    def refuse(sha256: str) -> bytes:
        raise AssertionError(sha256)

    offsets = OffsetMap.of_text("redis", "utf-8").dumps()
    quoted = quoted_document("redis", offsets, "sha", "text/markdown", refuse)
    assert quoted.basis(Basis.BYTES, "redis", quoted.place(0, 5)) == Basis.BYTES
