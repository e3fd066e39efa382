"""What the fixtures of this folder give: the house, and the address of a server over it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.workspace import Workspace

EXAMPLE = Path(__file__).parents[2] / "examples" / "homelab"
#: The key of the service redis of the project household, and the compose file that declares it.
REDIS = '["hearth.lan/household","redis"]'


class House(NamedTuple):
    root: Path
    settings: Settings
    workspace: Workspace


class Served(NamedTuple):
    """``address``: with the token, as it is printed."""

    address: str

    @property
    def base(self) -> str:
        return self.address.partition("/?")[0]
