"""Whether a text uses some words as the name of a thing.

A model that finds nothing to tell fills the ends of its facts with what a sentence has: "container version",
"the results", "requests". There is no grammar here that would know a noun from a name, so a name is what is
known (software, or a name that the document shows elsewhere), what is written like one (digits, capitals
inside, a capital in the middle of a sentence), or a compound of which no part is an ordinary one. What is
refused so all the same is read by the grammar of the second tier, by the document's title and its words.
"""

from __future__ import annotations

import re

from taboot_pipelines.extraction.tier_b.lexicon import no_services, software, words
from taboot_pipelines.extraction.tier_c.windows import Window

#: What may stand around a name, and is no part of it.
MARKS = " `*_\"'"
_CLASSES = words("classes") | words("generic")
#: Compounds of these describe: "read-only", "self-hosted", "third-party", "cloud-native".
_DESCRIBING = frozenset(
    """
    all any auto based built bundled by client cloud cross down dual enabled end facing first free
    friendly full high hosted in level like local long low managed multi native new no non on only open
    out party per pre read ready real remote run scale second self semi server set side sign single size
    source specific state step sub third time to two type up user well wide
    """.split()  # noqa: SIM905
)

_REPOSITORY = re.compile(r"(?m)^#+ \[?[\w.-]+/(?P<name>[\w.-]+)")


def is_known(name: str, window: Window) -> bool:
    """Return whether ``name`` is that of well-known software, or one that the document shows to be a name."""
    lower = " ".join(_core(name)).lower()
    if lower in no_services() or lower in _CLASSES:
        return lower in software()
    return lower in software() or lower in _shown(window)


def is_name(name: str, window: Window) -> bool:
    """Return whether the text of a window uses ``name`` as a name."""
    if is_known(name, window):
        return True
    own = _core(name)
    core = " ".join(own)
    lower = core.lower()
    if not core or lower in no_services() or lower in _CLASSES:
        return False
    if len(own) > 1:
        capital = all(w[0].isupper() or w[0].isdigit() for w in own)
        return capital and (own[0].lower() in software() or _is_inside(core, window.text))
    if any(c.isdigit() or c.isupper() for c in core[1:]):
        return True
    parts = re.split(r"[-_.]", lower)
    if len(parts) > 1:
        return not _DESCRIBING & set(parts)
    return core[0].isupper() and _is_inside(core, window.text)


def _core(name: str) -> list[str]:
    """Return the words of a name without the class words behind it: "Acme" of "Acme server"."""
    own = name.strip(MARKS).split()
    while len(own) > 1 and own[-1].lower() in _CLASSES:
        own.pop()
    return own


def _shown(window: Window) -> set[str]:
    """What the document shows to be names elsewhere, in lower case: in code, and as the repository that a
    heading is."""
    return {shown.lower() for shown in window.names} | {
        match["name"].lower() for match in _REPOSITORY.finditer(window.text)
    }


def _is_inside(name: str, text: str) -> bool:
    """Whether a name with a capital stands in the middle of a sentence, where a capital says something."""
    return re.search(rf"(?<=[a-z0-9,;:(] ){re.escape(name)}(?!\w)", text) is not None
