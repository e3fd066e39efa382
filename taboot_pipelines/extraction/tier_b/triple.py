"""A relation that a sentence states between two mentions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from taboot_pipelines.extraction.tier_b.names import Mention


@dataclass(frozen=True, slots=True)
class Triple:
    """A relation that a sentence states; ``rule`` says by which words."""

    type: str
    start: Mention
    end: Mention
    rule: str
    properties: dict[str, Any] = field(default_factory=dict)
