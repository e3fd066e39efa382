"""Units that are projects: found in a source's listing, each reads files of the source as it goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import QuotedText
from taboot_pipelines.knowledge.units import Reading, Reads, Unit, unit_id
from taboot_pipelines.model import ids
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    Problem,
    Reach,
    SourceFacts,
    UnitSpec,
    Use,
)
from taboot_pipelines.stores.blobs import UNREADABLE, BlobStore
from taboot_pipelines.stores.catalog.locators import Locator


class ProjectExtractor(Protocol):
    """Says what the projects of one format state; pure, and equal for equal input and version."""

    name: str
    version: str

    def units(self, paths: Sequence[str]) -> list[UnitSpec]:
        """The projects of a source, from the paths of its files alone."""
        ...

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """What one project states. Every file is read through ``view``, which remembers what was asked for;
        evidence is in code points of what it returned."""
        ...


@runtime_checkable
class FormatExtractor(ProjectExtractor, Protocol):
    """A :class:`ProjectExtractor` that finds out from a project's main file which of several formats it has,
    and says so in :attr:`~taboot_pipelines.model.records.Interpretation.format`.

    ``version`` is that of the recognition alone. ``formats``: {format: its reader's version}; a new one
    interprets the projects of that format again and no others.
    """

    @property
    def formats(self) -> Mapping[str, str]: ...


#: Small files, such as kustomizations and files of variables, are read by many units: of these so many bytes
#: each, so many texts are kept.
_SMALL, _KEPT = 16_384, 512


class ProjectUnits:
    """A :class:`~taboot_pipelines.knowledge.units.UnitExtractor` of projects."""

    def __init__(
        self,
        extractor: ProjectExtractor,
        facts: SourceFacts,
        locators: Mapping[str, Locator],
        documented: Mapping[str, str],
        blobs: BlobStore,
        version: str,
    ) -> None:
        """``locators``: the source's enumeration, by path; ``documented``: {path: doc_id} of its documents;
        ``version``: of the stage."""
        self._extractor = extractor
        self._facts = facts
        self._locators = locators
        self._documented = documented
        self._blobs = blobs
        self._version = version
        self._paths = frozenset(locators)
        specs = extractor.units(sorted(p for p, locator in locators.items() if locator.role == "document"))
        self._specs = {unit_id(extractor.name, spec.name): spec for spec in specs}
        self._small = lru_cache(_KEPT)(self._read)

    @property
    def config(self) -> Mapping[str, Any]:
        return {"extractor": self._extractor.name, "extractor_version": self._extractor.version}

    def units(self) -> Iterator[Unit]:
        for unit, spec in self._specs.items():
            main = ids.locator(self._facts.source_id, spec.files[0])
            yield Unit(unit, ids.doc_id(self._facts.namespace, main))

    def fingerprint(self, unit: Unit, reads: Reads) -> str:
        view = FileView(self._paths, None)
        now = Reads(
            {p: self._seen(p) for p in reads.files}, {g: view.glob(g) for g in reads.globs}, reads.format
        )
        return self._digest(unit, now)

    def interpret(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, Reading]]:
        for unit in units:
            yield unit, self._reading(unit)

    def _reading(self, unit: Unit) -> Reading:
        quoted: dict[str, QuotedText] = {}
        failures: list[Problem] = []

        def load(path: str) -> str | None:
            if path not in quoted:
                try:
                    quoted[path] = self._decoded(self._locators[path])
                except TabootError as error:
                    failures.append(Problem(path, error.code, error.message))
                    return None
            return quoted[path].text

        view = FileView(self._paths, load)
        said = self._said(self._specs[unit.unit_id], view)
        reads = Reads({p: self._seen(p) for p in sorted(view.reads)}, dict(view.globs), said.format)
        return Reading(
            self._digest(unit, reads),
            said,
            quoted,
            reads,
            tuple(failures),
            transient=any(failure.code in UNREADABLE for failure in failures),
        )

    def _said(self, spec: UnitSpec, view: FileView) -> Interpretation:
        """What a unit states. A defect of its reader costs the unit and no other: it is a letter
        (``E_INTERNAL``)."""
        try:
            return self._extractor.interpret(spec, view, self._facts)
        except (TabootError, OSError):
            # A store that fails must stop the run.
            raise
        except Exception as error:  # noqa: BLE001
            path = spec.files[0]
            message = f"{path}: reading it as {self._extractor.name} failed with {type(error).__name__}."
            return Interpretation((), (), problems=(Problem(path, "E_INTERNAL", message),))

    def _decoded(self, locator: Locator) -> QuotedText:
        read = self._small if locator.byte_size <= _SMALL else self._read
        return read(locator.sha256, locator.charset)

    def _read(self, sha256: str, charset: str | None) -> QuotedText:
        text, charset, bom = decode(self._blobs.get(self._facts.namespace, sha256), charset)
        return QuotedText(text, OffsetMap.of_text(text, charset, bom), sha256)

    def _seen(self, path: str) -> str | None:
        """What a unit sees of a path: its bytes, and whether it is a document; None if absent."""
        locator = self._locators.get(path)
        if locator is None:
            return None
        return f"{locator.sha256}:{locator.charset or ''}{':document' if path in self._documented else ''}"

    def _digest(self, unit: Unit, reads: Reads) -> str:
        return ids.digest(
            self._extractor.name,
            self._extractor.version,
            self._version,
            self._specs[unit.unit_id].files,
            self._facts.namespace,
            self._facts.source_id,
            self._facts.host,
            self._facts.proxy,
            self._facts.folder,
            sorted(reads.files.items()),
            sorted((pattern, list(found)) for pattern, found in reads.globs.items()),
            *self._format(reads),
        )

    def _format(self, reads: Reads) -> tuple[str, ...]:
        """The format that a unit was recognised as, and the version of its reader; nothing if none was."""
        if not (reads.format and isinstance(self._extractor, FormatExtractor)):
            return ()
        return reads.format, self._extractor.formats.get(reads.format, "")


# --- Projects of a source that holds several roots, such as repositories: each is read like a source

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
            tuple(replace(reach, evidence=_placed(reach, root)) for reach in said.reaches),
            tuple(replace(use, evidence=_placed(use, root)) for use in said.uses),
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


def _placed(claim: NodeClaim | EdgeClaim | Reach | Use, root: str) -> Evidence:
    return replace(claim.evidence, path=root + claim.evidence.path)
