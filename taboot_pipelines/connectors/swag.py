"""Connector of nginx proxy confs (type ``swag``): ``*.conf``, since a ``.conf.sample`` is not in force unless
asked for.
"""

from __future__ import annotations

from pathlib import Path

from taboot_pipelines.connectors.files import FilesConnector
from taboot_pipelines.connectors.sources_file import SwagSource


def swag_connector(entry: SwagSource, root: Path, *, limit: int, apart: Path | None) -> FilesConnector:
    return FilesConnector(entry, root, limit=limit, apart=apart, default_include=("*.conf",))
