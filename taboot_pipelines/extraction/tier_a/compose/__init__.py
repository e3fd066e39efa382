"""Tier A extraction from Docker Compose projects."""

from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.compose.references import references

__all__ = ["ComposeExtractor", "references"]
