"""What the pages' files are called."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

#: Characters of a file's name without its ending, and names that a system keeps for itself.
_MAX_NAME = 60
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)")

#: What a page is of: its kind, and a node's number or a document's id.
What = tuple[str, int | str]


def page_names(wanted: Sequence[tuple[What, str, str, str]]) -> dict[What, str]:
    """A page's file for each (what, folder, name, key), safe on every system: lower-case letters, digits,
    dots, dashes. Names that come to one are told apart by a hash of their keys."""
    plain = {what: f"{folder}/{_safe(name)}" for what, folder, name, _ in wanted}
    times, found, taken = Counter(plain.values()), dict[What, str](), set[str]()
    for what, _, _, key in sorted(wanted, key=lambda w: (w[3], w[1])):
        name = made = plain[what]
        while times[made] > 1 or made in taken:
            made = f"{name}-{hashlib.sha256(f'{made} {key}'.encode()).hexdigest()[:8]}"
        found[what] = made
        taken.add(made)
    return found


def _safe(name: str) -> str:
    made = re.sub(r"\.{2,}|[^a-z0-9._-]+", "-", name.lower()).strip(".-")[:_MAX_NAME].rstrip(".-")
    return f"_{made}" if not made or _DEVICES.match(made) else made
