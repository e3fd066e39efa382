"""Projects of a source that holds several roots, such as repositories: each is read like a source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from taboot_pipelines.knowledge.project_units import FormatExtractor, ProjectExtractor
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    Problem,
    SourceFacts,
    UnitSpec,
)

#: Part of the version of whatever is read so: raise it when the same files would say something else.
_VERSION = "1"


class RootedProjects:
    """A :class:`ProjectExtractor` that sees one root of a source at a time.

    ``root``: matches at the beginning of the path of a file that lies in a root; what it matches is the root
    with its slash. ``project``: whether a path within a root may be the main file of a project; ``reads``:
    whether the text of one is what the extractor is for. A project that the entry gives no host or proxy is
    told apart by its root's name, without which two repositories' ``docker`` would be one.
    """

    def __init__(
        self,
        inner: ProjectExtractor,
        root: re.Pattern[str],
        *,
        project: Callable[[str], bool] = lambda _: True,
        reads: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._inner = inner
        self._root = root
        self._project = project
        self._reads = reads
        self.name = inner.name
        self.version = f"{inner.version}.{_VERSION}"
        #: The last root that was looked at, of which listing, and the paths within it.
        self._narrowed: tuple[str, frozenset[str], frozenset[str]] | None = None

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats of what is read so, if it reads several."""
        return self._inner.formats if isinstance(self._inner, FormatExtractor) else {}

    def units(self, paths: Sequence[str]) -> list[UnitSpec]:
        roots: dict[str, list[str]] = {}
        for path in paths:
            match = self._root.match(path)
            if match is not None and self._project(path[match.end() :]):
                roots.setdefault(match[0], []).append(path[match.end() :])
        return [
            UnitSpec(root + unit.name, tuple(root + file for file in unit.files))
            for root, within in sorted(roots.items())
            for unit in self._inner.units(within)
        ]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        match = self._root.match(unit.files[0])
        assert match is not None
        root = match[0]
        narrowed = _Narrowed(view, root, self._paths(view, root))
        within = UnitSpec(unit.name[len(root) :], tuple(file[len(root) :] for file in unit.files))
        if not self._reads(narrowed.read(within.files[0]) or ""):
            return Interpretation((), ())
        name = root.rstrip("/")
        # No name of a proxy holds a slash.
        proxy = source.proxy or name.replace("/", ".")
        facts = replace(source, source_id=name, folder=name.rpartition("/")[2], proxy=proxy)
        said = self._inner.interpret(within, narrowed, facts)
        return Interpretation(
            tuple(replace(node, evidence=_placed(node, root)) for node in said.nodes),
            tuple(replace(edge, evidence=_placed(edge, root)) for edge in said.edges),
            frozenset(root + path for path in said.subordinates),
            frozenset(root + path for path in said.environment),
            tuple(Problem(root + p.path, p.code, p.message) for p in said.problems),
            said.format,
        )

    def _paths(self, view: FileView, root: str) -> frozenset[str]:
        if self._narrowed is None or self._narrowed[0] != root or self._narrowed[1] is not view.paths:
            within = frozenset(path[len(root) :] for path in view.paths if path.startswith(root))
            self._narrowed = (root, view.paths, within)
        return self._narrowed[2]


class _Narrowed(FileView):
    """One root of a view, which remembers what is read."""

    def __init__(self, outer: FileView, root: str, paths: frozenset[str]) -> None:
        super().__init__(paths, None)
        self._outer = outer
        self._root = root

    def read(self, path: str) -> str | None:
        return self._outer.read(self._root + path)

    def glob(self, pattern: str) -> tuple[str, ...]:
        # A name of a root is no pattern: it holds no `*`, `?` or `[`.
        return tuple(path[len(self._root) :] for path in self._outer.glob(self._root + pattern))


def _placed(claim: NodeClaim | EdgeClaim, root: str) -> Evidence:
    return replace(claim.evidence, path=root + claim.evidence.path)
