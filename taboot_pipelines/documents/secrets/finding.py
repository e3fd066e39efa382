"""The secrets of a text that is no HTML."""

from __future__ import annotations

from taboot_pipelines.documents.secrets.assignments import find_named
from taboot_pipelines.documents.secrets.manifests import find_in_manifests
from taboot_pipelines.documents.secrets.scanner import Scanner
from taboot_pipelines.documents.secrets.shapes import shaped
from taboot_pipelines.documents.secrets.spans import Span, merged


def find_in_text(text: str, mime: str) -> list[Span]:
    """Spans of secret values, ascending and disjoint; ``mime`` says which notations count."""
    scan = Scanner(text, mime)
    scan.spans = shaped(text, scan.lower)
    find_named(scan)
    find_in_manifests(scan)
    return merged(scan.spans)
