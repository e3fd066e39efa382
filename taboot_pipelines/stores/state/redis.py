"""State in Redis."""

from __future__ import annotations
