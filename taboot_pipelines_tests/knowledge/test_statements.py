"""What a document claims of nodes, and that what a chat says is only proposed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taboot_pipelines.knowledge.reducer import Latest, reduce_entities, supports
from taboot_pipelines.knowledge.relations import DocumentInput, document_claims
from taboot_pipelines.model import ids
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.sources import Stance, stance_of

KEY = ids.node_key(("nas.lan",))


def declares(source_type: str, os_type: str, *, source: str = "tier_a", confidence: float = 1.0) -> Any:
    """A document that says which system the host ``nas.lan`` has."""
    observation = {
        "kind": "node",
        "type": "Host",
        "start_label": "Host",
        "start_key": KEY,
        "start_name": "nas.lan",
        "source": source,
        "confidence": confidence,
        "properties": canonical_json({"osType": os_type}),
    }
    proposed = stance_of(source_type) is Stance.PROPOSES
    given = DocumentInput({"source_type": source_type}, [], [observation], proposed=proposed)
    return document_claims(given, [])


@pytest.mark.parametrize("tier", ["tier_a", "tier_b", "tier_c"])
def test_what_is_configured_holds_against_what_a_chat_proposes(tier: str) -> None:
    configured = declares("compose", "debian", source="tier_c", confidence=0.1)
    proposed = declares("ai_session", "windows", source=tier)
    for order in ([configured, proposed], [proposed, configured]):
        made = [(Latest(10**6 * (claims is proposed), str(n)), claims) for n, claims in enumerate(order)]
        (row,) = reduce_entities(supports(made), {})
        assert json.loads(row["properties"]) == {"osType": "debian"}


def test_what_only_a_chat_says_is_still_said() -> None:
    (row,) = reduce_entities(supports([(Latest(1, "a"), declares("ai_session", "windows"))]), {})
    assert json.loads(row["properties"]) == {"osType": "windows"}
