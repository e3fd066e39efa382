"""Counts the shards that were written, from what ``taboot ingest --json`` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def shards_new(told: Mapping[str, Any]) -> int:
    return sum(
        stage["counts"].get("shards_new", 0)
        for source in told["sources"]
        for stage in source["stages"]
        if stage["stage"] == "kb_shards"
    )
