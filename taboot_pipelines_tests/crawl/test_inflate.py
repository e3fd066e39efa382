"""Compression is undone alike however the bytes are cut into pieces."""

from __future__ import annotations

import gzip
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.crawl.inflate import Inflater, inflate


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted({c % (len(data) + 1) for c in cuts}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(
    st.lists(st.binary(max_size=200), min_size=1, max_size=4),
    st.sampled_from([b"", b"\0" * 9, b"\x1f", b"\x1fpadding", b"padding"]),
    st.lists(st.integers(0, 2000), max_size=8),
)
def test_members_and_padding_are_told_apart_at_any_cut(
    members: list[bytes], padding: bytes, cuts: list[int]
) -> None:
    packed = b"".join(gzip.compress(m) for m in members) + padding
    assert b"".join(inflate(pieces(packed, cuts), gzip=True)) == b"".join(members)


@given(st.binary(max_size=500), st.booleans(), st.lists(st.integers(0, 2000), max_size=8))
def test_both_kinds_of_deflate_are_read_at_any_cut(data: bytes, raw: bool, cuts: list[int]) -> None:
    machine = zlib.compressobj(wbits=-15 if raw else 15)
    packed = machine.compress(data) + machine.flush()
    assert b"".join(inflate(pieces(packed, cuts), gzip=False)) == data


@given(st.binary(min_size=50, max_size=500), st.integers(1, 40), st.lists(st.integers(0, 2000), max_size=4))
def test_a_stream_that_ends_too_early_is_an_error(data: bytes, missing: int, cuts: list[int]) -> None:
    packed = gzip.compress(data)[: -min(missing, 40)]
    with pytest.raises(EOFError):
        list(inflate(pieces(packed, cuts), gzip=True))


def test_a_bomb_comes_in_small_pieces() -> None:
    inflater, sizes = Inflater(gzip=True), []
    for piece in inflater.feed(gzip.compress(bytes(20_000_000))):
        sizes.append(len(piece))
    inflater.end()
    assert sum(sizes) == 20_000_000 and max(sizes) <= 65536
