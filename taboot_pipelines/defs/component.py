"""The chain as one component of any ``dg`` project: a ``defs.yaml`` that names the type is enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg

from taboot_pipelines.defs.build import build_defs
from taboot_pipelines.settings import load_settings


class TabootComponent(dg.Component, dg.Model, dg.Resolvable):
    """Assets, checks, jobs, schedules and sensors of the chain.

    Settings are those of the environment (``TABOOT_…``); what is given here wins. A path counts from the
    folder of ``defs.yaml``.
    """

    home: str | None = None
    sources: str | None = None
    namespace: str | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions. Raises ``E_CONFIG`` for a wrong setting."""
        overrides: dict[str, Any] = {
            name: Path(context.path) / value
            for name, value in (("home", self.home), ("sources", self.sources))
            if value is not None
        }
        if self.namespace is not None:
            overrides["namespace"] = self.namespace
        return build_defs(load_settings(**overrides))
