"""The index of words that says which documents may hold a name or a title, so that only those are looked at
again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.knowledge.mentions import fold
from taboot_pipelines.knowledge.titles import normalize, words

_TOKEN = re.compile(r"[0-9a-z]+")


@lru_cache(maxsize=1 << 17)
def _hash(token: str) -> int:
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big", signed=True)


def tokens(text: str) -> npt.NDArray[np.int64]:
    """Sorted distinct 64-bit hashes (BLAKE2b-8) of the maximal runs of ASCII letters and digits, case folded,
    and of the words of the normalized text, which are other ones where it is not ASCII.

    A text in which a :class:`~taboot_pipelines.knowledge.mentions.NameMatcher` finds a name holds all of
    :func:`name_tokens` of that name, and one in which a
    :class:`~taboot_pipelines.knowledge.titles.TitleMatcher` finds a title all of its :func:`title_tokens`.
    """
    distinct = set(_TOKEN.findall(fold(text)))
    if not text.isascii():
        distinct.update(words(normalize(text)))
    return _hashes(distinct)


def name_tokens(name: str) -> npt.NDArray[np.int64]:
    """The :func:`tokens` that every text with a mention of ``name`` holds."""
    return _hashes(set(_TOKEN.findall(fold(name))))


def title_tokens(title: str) -> npt.NDArray[np.int64]:
    """The :func:`tokens` that every text with this title, given in the normal form, holds."""
    return _hashes(set(words(title)))


def titles_within(titles: pa.Array, texts: Iterable[str]) -> pa.Array:
    """The titles, given in the normal form, that a
    :class:`~taboot_pipelines.knowledge.titles.TitleMatcher` may find in one of the texts, and few others.

    A title stands on word borders, so the last of its maximal runs of ASCII letters and digits, if it has
    one, is such a run of the normalized text as well; and so is the first.
    """
    runs: set[str] = set()
    for text in texts:
        runs.update(_TOKEN.findall(text.lower() if text.isascii() else normalize(text)))
    held = pa.array(sorted(runs), titles.type)
    for pattern in (r"(?P<run>[0-9a-z]+)[^0-9a-z]*$", r"^[^0-9a-z]*(?P<run>[0-9a-z]+)"):
        run = pc.struct_field(pc.extract_regex(titles, pattern), "run")
        titles = titles.filter(pc.or_kleene(pc.is_null(run), pc.is_in(run, held)))
    return titles


def _hashes(distinct: Collection[str]) -> npt.NDArray[np.int64]:
    hashes = np.fromiter(map(_hash, distinct), dtype=np.int64, count=len(distinct))
    hashes.sort()
    return hashes


def documents_holding(names: Collection[str], index: pa.Table, titles: Iterable[str] = ()) -> set[str]:
    """The doc_ids whose text holds all tokens of one of the names or titles; ``index``: doc_id and tokens of
    ``tables.DOC_STATE``.
    """
    wanted = [*map(name_tokens, names), *map(title_tokens, titles)]
    if not wanted or index.num_rows == 0:
        return set()
    column = index.column("tokens").combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(column)), np.diff(column.offsets.to_numpy()))
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
