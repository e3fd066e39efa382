"""Tier A extraction from Docker Compose projects."""

from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.compose.references import project_files, references

__all__ = ["ComposeExtractor", "project_files", "references"]
