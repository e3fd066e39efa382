"""Where a page of hits ended, as the opaque text that asks for the next one.

A cursor names the knowledge base, the manifest and the list of hits that it was made for, so that it is of no
use anywhere else, and carries a checksum, so that one that was cut or changed is told apart.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import asdict, dataclass

from taboot_pipelines.errors import TabootError

_CHECKSUM = 8
#: The form of a cursor; one of another form is refused.
_FORM = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """``manifest``: its digest; ``request``: ``SearchRequest.fingerprint``; ``position``: hits of the ranked
    list that earlier pages have passed; ``depth``: of the arms in the fusion; ``reranked``: whether the pages
    before were ordered by the reranker.
    """

    namespace: str
    manifest: str
    request: str
    position: int
    depth: int
    reranked: bool

    def write(self) -> str:
        """The cursor as text of letters, digits, ``-`` and ``_``."""
        data = json.dumps([_FORM, *asdict(self).values()], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_checksum(data) + data).decode().rstrip("=")


def read_cursor(text: str, namespace: str, request: str) -> Cursor:
    """The cursor that was written as ``text``. Raises ``E_CURSOR`` if it is none, or was made for another
    namespace or another request.
    """
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        if _checksum(raw[_CHECKSUM:]) != raw[:_CHECKSUM]:
            raise ValueError
        form, *fields = json.loads(raw[_CHECKSUM:])
        if form != _FORM:
            raise ValueError
        cursor = Cursor(*fields)
        numbers = (cursor.position, cursor.depth)
        if any(type(n) is not int or n < 0 for n in numbers) or type(cursor.reranked) is not bool:
            raise ValueError
    except (ValueError, TypeError, UnicodeEncodeError, binascii.Error):
        raise TabootError("E_CURSOR", "The cursor is damaged, or is no cursor of a search.") from None
    if cursor.namespace != namespace:
        raise TabootError("E_CURSOR", f"The cursor is not of the knowledge base {namespace!r}.")
    if cursor.request != request:
        raise TabootError(
            "E_CURSOR",
            "The cursor was made by a search with another query or other arguments.",
            remedy="Give the same query and arguments as for the first page; only limit may differ.",
        )
    return cursor


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_CHECKSUM]
