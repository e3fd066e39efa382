"""Ids by their beginning, as people type them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from taboot_pipelines.errors import TabootError

#: A shorter beginning is more likely a slip, or a name.
_PREFIX = re.compile(r"[0-9a-fA-F-]{6,64}")


def is_prefix(text: str) -> bool:
    """Whether a text may be the beginning of an id, which is of hexadecimal digits."""
    return _PREFIX.fullmatch(text) is not None


def ambiguous(prefix: str, found: Iterable[str]) -> TabootError:
    """The error of a beginning that several ids have."""
    some = list(islice(found, 5))
    return TabootError(
        "E_QUERY",
        f"Several ids begin with {prefix!r}.",
        remedy=f"Give more of it, such as {' or '.join(i[: len(prefix) + 6] for i in some)}.",
        ids=some,
    )
