"""A directory of nginx proxy confs (type ``swag``): ``*.conf``, since a ``.conf.sample`` is not in force
unless asked for.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import DirectorySource, ProxyName
from taboot_pipelines.connectors.files import FilesConnector


class SwagSource(DirectorySource):
    """A directory of nginx proxy confs."""

    type: Literal["swag"]
    proxy: ProxyName | None = Field(None, description="Name of the reverse proxy; default the source's id.")


def swag_connector(entry: SwagSource, access: Access) -> FilesConnector:
    """Read the confs as files are read."""
    return FilesConnector(entry, access, default_include=("*.conf",))
