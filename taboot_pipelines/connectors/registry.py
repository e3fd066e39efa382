"""The source types that this version reads, said once.

Checking and opening entries, the JSON Schema and the page about the sources file derive from it. The types
that are named, those without a connector included, are :class:`~taboot_pipelines.model.graph.SourceType`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taboot_pipelines.connectors import (
    ai_session,
    compose,
    elasticsearch,
    files,
    github,
    gmail,
    reddit,
    swag,
    tailscale,
    unifi,
    web,
    youtube,
)
from taboot_pipelines.connectors.protocol import SourceKind

#: In the order in which the schema and the page name them.
_KINDS: tuple[SourceKind[Any], ...] = (
    files.SOURCE,
    compose.SOURCE,
    swag.SOURCE,
    web.SOURCE,
    github.SOURCE,
    reddit.SOURCE,
    youtube.SOURCE,
    gmail.SOURCE,
    elasticsearch.SOURCE,
    tailscale.SOURCE,
    unifi.SOURCE,
    ai_session.SOURCE,
)

#: By the ``type`` of their entries.
SOURCE_KINDS: Mapping[str, SourceKind[Any]] = {kind.type: kind for kind in _KINDS}
