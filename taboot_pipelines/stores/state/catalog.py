"""State in the catalog's database."""

from __future__ import annotations
