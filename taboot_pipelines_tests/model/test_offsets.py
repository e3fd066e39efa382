"""Code points to bytes: exact in text of any charset, whole blocks elsewhere."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.model.offsets import OffsetMap

CHARSETS = {
    "utf-8": b"\xef\xbb\xbf",
    "utf-16-le": b"\xff\xfe",
    "utf-32-be": b"\x00\x00\xfe\xff",
    "shift_jis": b"",
}
text = st.text(st.characters(exclude_categories=["Cs"]))


@given(text, st.sampled_from(["utf-8", "utf-16-le", "utf-32-be"]), st.booleans(), st.data())
def test_spans_of_text_are_exact(content: str, charset: str, bom: bool, data: st.DataObject) -> None:
    mark = CHARSETS[charset] if bom else b""
    blob = mark + content.encode(charset)
    offsets = OffsetMap.loads(OffsetMap.of_text(content, charset, len(mark)).dumps())
    assert offsets.exact
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    lo, hi = offsets.to_bytes(start, end)
    if start < end:
        assert blob[lo:hi].decode(charset) == content[start:end]
    else:
        assert lo == hi


@given(st.text(alphabet="aアｱ漢~", max_size=60), st.data())
def test_multibyte_charsets(content: str, data: st.DataObject) -> None:
    blob = content.encode("shift_jis", "replace")
    content = blob.decode("shift_jis")
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    if start < end:
        lo, hi = OffsetMap.of_text(content, "shift_jis").to_bytes(start, end)
        assert blob[lo:hi].decode("shift_jis") == content[start:end]


def test_blocks_give_their_whole_range_and_gaps_the_nearest() -> None:
    offsets = OffsetMap.of([(0, 10, 100, 180, 0), (12, 20, 200, 230, 0)])
    assert offsets.to_bytes(3, 5) == (100, 180)
    assert offsets.to_bytes(8, 14) == (100, 230)
    assert offsets.to_bytes(10, 12)[0] == 200
    assert not offsets.exact


@given(
    st.lists(
        st.tuples(*[st.integers(0, 4)] * 2, st.integers(1, 5), st.integers(0, 3), st.integers(0, 6)),
        max_size=6,
    ),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_one_span_and_many_give_the_same_bytes(
    parts: list[tuple[int, int, int, int, int]], start: int, length: int
) -> None:
    segments, at, byte = [], 0, 0
    for gap, lost, size, width, block in parts:
        at, byte = at + gap, byte + lost
        held = size * width or block
        segments.append((at, at + size, byte, byte + held, width))
        at, byte = at + size, byte + held
    offsets = OffsetMap.of(segments)
    lows, highs = offsets.to_bytes_many(np.array([start]), np.array([start + length]))
    assert offsets.to_bytes(start, start + length) == (int(lows[0]), int(highs[0]))
