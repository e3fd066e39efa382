"""What sentences say of two named things.

Each kind of statement has its own reader: addresses, ports, published ports, DNS records, and the
frames of verbs.
All of them take the ends from :class:`~taboot_pipelines.extraction.tier_b.clauses.Clauses` and ask
:mod:`~taboot_pipelines.extraction.tier_b.modality` whether something is asserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from taboot_pipelines.extraction.tier_b import modality
from taboot_pipelines.extraction.tier_b.addresses import Addresses
from taboot_pipelines.extraction.tier_b.clauses import Clauses
from taboot_pipelines.extraction.tier_b.frames import Frames
from taboot_pipelines.extraction.tier_b.names import Names
from taboot_pipelines.extraction.tier_b.ports import Ports
from taboot_pipelines.extraction.tier_b.published import Published
from taboot_pipelines.extraction.tier_b.records import Records
from taboot_pipelines.extraction.tier_b.triple import Triple

if TYPE_CHECKING:
    from spacy.tokens import Span

#: What is longer is a dump of data, or a list without its marks: nothing that grammar tells of it holds.
_MAX_TOKENS = 120


def relations(names: Names, sentence: Span) -> Iterator[Triple]:
    """What a sentence states, each once, in no order; nothing of questions and change logs."""
    block = names.block
    if modality.is_question(sentence) or len(sentence) > _MAX_TOKENS:
        return
    if modality.is_history(block.text, [heading.text for heading in block.headings]):
        return
    clauses = Clauses(names, sentence)
    found = list(Published(clauses).triples())
    if not found:
        found = list(Addresses(clauses).triples())
        found += Ports(clauses).triples(told=bool(found))
    records = list(Records(clauses).triples())
    found += records
    # What a list of names and addresses says is said by the records alone.
    found += (t for t in Frames(clauses).triples() if not records or t.type != "RESOLVES_TO")
    seen: set[tuple[object, ...]] = set()
    for triple in found:
        key = (triple.type, triple.start.start, triple.end.start, triple.properties.get("port"))
        same = (triple.start.start, triple.start.end) == (triple.end.start, triple.end.end)
        if key not in seen and not same:
            seen.add(key)
            yield triple
