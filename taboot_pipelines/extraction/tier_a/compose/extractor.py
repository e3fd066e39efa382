"""The Compose extractor: units from a listing, and what one unit says."""

from __future__ import annotations

from collections.abc import Collection

from taboot_pipelines.extraction.tier_a.compose.collector import ProjectClaims
from taboot_pipelines.extraction.tier_a.compose.files import group_units
from taboot_pipelines.extraction.tier_a.compose.loading import Loader
from taboot_pipelines.extraction.tier_a.compose.selection import select
from taboot_pipelines.extraction.tier_a.compose.services import claim_project
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec


class ComposeExtractor:
    """Docker Compose projects by the Compose specification, read into the graph as ``graph-mapping`` has it.

    It is deterministic and raises nothing on any input: what cannot be read is a problem of its result.
    """

    name = "compose"
    version = "4"

    def units(self, paths: Collection[str]) -> list[UnitSpec]:
        """Candidates from the listing alone: a directory's default file with its override is one unit, every
        other YAML file is one by itself. Sorted by the path of the main file, which is the unit's name."""
        return [UnitSpec(files[0], files) for files in group_units(paths)]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """The claims of one unit; empty if its main file is no Compose file. Evidence is in code points of
        what ``view.read`` returned for the claim's file."""
        loader = Loader(view)
        main = unit.files[0]
        chosen = select(loader, unit.files, source.folder or source.source_id)
        project = loader.load(
            chosen.files, chosen.base, chosen.environment, chosen.name, default=chosen.default
        )
        if project is None:
            return Interpretation((), (), problems=loader.problems.listed())
        claims = ProjectClaims(project, loader, source)
        claim_project(claims)
        return claims.result(loader.subordinates - {main}, loader.environment_files)
