"""What an API said, as the bytes of a blob, and what makes it another version of itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from taboot_pipelines.model.records import Fetched, Known, NotModified, Role


def canonical(resource: object) -> bytes:
    """A resource as JSON that is equal for equal content: names sorted, two blanks of indentation, UTF-8, and
    a line break at the end. Half of a surrogate pair stays an escape."""
    text = json.dumps(resource, ensure_ascii=False, sort_keys=True, indent=2)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(resource, sort_keys=True, indent=2).encode() + b"\n"


def without(resource: Any, names: Collection[str]) -> Any:
    """A copy without the members of these names, at any depth. (Depth is bounded by whoever parsed it.)"""
    if isinstance(resource, dict):
        return {k: without(v, names) for k, v in resource.items() if k not in names}
    if isinstance(resource, list):
        return [without(v, names) for v in resource]
    return resource


def version_of(resource: object, volatile: Collection[str] = ()) -> str:
    """What tells a resource from an earlier one: a hash of it without ``volatile`` members, such as counters
    and the time it was last seen, which change by themselves."""
    stable = without(resource, frozenset(volatile)) if volatile else resource
    text = json.dumps(stable, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def item(
    known: Mapping[str, Known],
    path: str,
    resource: object,
    *,
    volatile: Collection[str] = (),
    version: str | None = None,
    mime: str | None = None,
    url: str | None = None,
    role: Role = "document",
) -> Fetched | NotModified:
    """The event of a resource: its bytes, or that those which are known still hold.

    ``version``: default :func:`version_of` it without ``volatile``. Kept as the locator's ETag, so that the
    next run compares versions and stores nothing of what is the same. ``url``: where people open it.
    """
    now = version_of(resource, volatile) if version is None else version
    before = known.get(path)
    if before is not None and before.whole and before.etag == now and before.url == url:
        return NotModified(path, role)
    return Fetched(path, canonical(resource), role, mime=mime, charset="utf-8", url=url, etag=now)
