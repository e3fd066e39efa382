"""The Compose extractor: units from a listing, and what one unit says."""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from taboot_pipelines.extraction.tier_a.compose.collector import Collector
from taboot_pipelines.extraction.tier_a.compose.files import DEFAULT_FILES, group_units
from taboot_pipelines.extraction.tier_a.compose.loading import Loader
from taboot_pipelines.extraction.tier_a.compose.services import claim_project
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec


class ComposeExtractor:
    """Docker Compose projects by the Compose specification, read into the graph as ``graph-mapping`` has it.

    It is deterministic and raises nothing on any input: what cannot be read is a problem of its result.
    """

    name = "compose"
    version = "1"

    def units(self, paths: Collection[str]) -> list[UnitSpec]:
        """Candidates from the listing alone: a directory's default file with its override is one unit, every
        other YAML file is one by itself. Sorted by the path of the main file, which is the unit's name."""
        return [UnitSpec(files[0], files) for files in group_units(paths)]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """The claims of one unit; empty if its main file is no Compose file. Evidence is in code points of
        what ``view.read`` returned for the claim's file."""
        loader = Loader(view)
        main = unit.files[0]
        directory, file = posixpath.split(main)
        default = self._is_default(main, loader)
        folder = posixpath.basename(directory) or source.source_id
        fallback = folder if default else f"{folder}-{posixpath.splitext(file)[0]}"
        project = loader.load(unit.files, fallback, default_file=default)
        if project is None:
            return Interpretation((), (), problems=loader.problems.listed())
        claims = Collector(project, loader, source)
        claim_project(claims)
        return Interpretation(
            tuple(claims.nodes.values()),
            tuple(claims.edges.values()),
            frozenset(loader.subordinates - {main}),
            frozenset(loader.environment_files),
            loader.problems.listed(),
        )

    @staticmethod
    def _is_default(main: str, loader: Loader) -> bool:
        """Whether Compose would take this file by itself. A file that comes before it is looked for through
        the view, so that its appearance re-interprets the unit."""
        directory, file = posixpath.split(main)
        if file not in DEFAULT_FILES:
            return False
        earlier = DEFAULT_FILES[: DEFAULT_FILES.index(file)]
        return all(loader.read(posixpath.join(directory, name)) is None for name in earlier)
