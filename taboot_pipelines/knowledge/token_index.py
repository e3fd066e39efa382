"""The index of words that says which documents may hold a name, so that only those are looked at again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from taboot_pipelines.knowledge.mentions import fold

_TOKEN = re.compile(r"[0-9a-z]+")


@lru_cache(maxsize=1 << 17)
def _hash(token: str) -> int:
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big", signed=True)


def tokens(text: str) -> npt.NDArray[np.int64]:
    """Sorted distinct 64-bit hashes (BLAKE2b-8) of the maximal runs of ASCII letters and digits, case folded.

    A text in which a :class:`~taboot_pipelines.knowledge.mentions.NameMatcher` finds a name holds all of
    :func:`name_tokens` of that name.
    """
    distinct = set(_TOKEN.findall(fold(text)))
    hashes = np.fromiter(map(_hash, distinct), dtype=np.int64, count=len(distinct))
    hashes.sort()
    return hashes


def name_tokens(name: str) -> npt.NDArray[np.int64]:
    """The :func:`tokens` that every text with a mention of ``name`` holds."""
    return tokens(name)


def documents_holding(names: Collection[str], index: pa.Table) -> set[str]:
    """The doc_ids whose text holds all tokens of one of the names; ``index``: doc_id and tokens of
    ``tables.DOC_STATE``.
    """
    if not names or index.num_rows == 0:
        return set()
    column = index.column("tokens").combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(column)), np.diff(column.offsets.to_numpy()))
    wanted = [name_tokens(name) for name in names]
    hits = np.isin(flat, np.unique(np.concatenate(wanted)))
    by_token: dict[int, set[int]] = {}
    for token, row in zip(flat[hits].tolist(), rows[hits].tolist(), strict=True):
        by_token.setdefault(token, set()).add(row)
    found: set[int] = set()
    for needed in wanted:
        holders = [by_token.get(int(token), set()) for token in needed]
        if holders:
            found |= set.intersection(*holders)
    doc_ids = index.column("doc_id").to_pylist()
    return {doc_ids[row] for row in found}
