"""Configuration files of any known format: each file that one recognises is a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.formats import all_formats
from taboot_pipelines.extraction.tier_a.recognition import (
    Format,
    FormatReader,
    filled,
    recognise,
    without_example,
    worth_reading,
)
from taboot_pipelines.extraction.tier_a.texts import BAD_TEXT
from taboot_pipelines.model.ids import digest
from taboot_pipelines.model.records import FileView, Interpretation, Problem, SourceFacts, UnitSpec

#: Part of the version: raise it when :func:`recognise`, or what a format recognises, would decide otherwise.
_VERSION = "3"


class ConfigFiles:
    """Tier A for configuration files (a :class:`~taboot_pipelines.knowledge.project_units.FormatExtractor`).

    A file that may be of a format by its name is a unit; what it is, is found out when it is read. A file of
    no format says nothing, nor does an example (``prometheus.yml.example``) or a template (``site.conf.j2``)
    beside what it is one of.
    """

    name = "config"

    def __init__(self, formats: Sequence[Format] | None = None) -> None:
        self._formats = all_formats() if formats is None else tuple(formats)
        #: Another set or order of formats may recognise any file as something else.
        self.version = f"{_VERSION}.{digest(*(f.name for f in self._formats))[:12]}"

    @property
    def formats(self) -> Mapping[str, str]:
        """{format: the version of its readers}"""
        return {f.name: f.version for f in self._formats}

    def units(self, paths: Sequence[str]) -> list[UnitSpec]:
        present = set(paths)
        told = (p for p in sorted(present) if present.isdisjoint({without_example(p), filled(p)} - {p}))
        return [UnitSpec(p, (p,)) for p in filter(worth_reading(self._formats), told)]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """What the unit's file says by the format it has. What is wrong with its text is a problem of it:
        ``E_EMPTY`` for a file that has the name of a format and holds nothing."""
        path = unit.files[0]
        text = view.read(path)
        if text is None:
            return Interpretation((), ())
        found = recognise(self._formats, path, text)
        if found is None:
            return Interpretation((), ())
        if not text.strip("\ufeff \t\r\n"):
            problem = Problem(path, "E_EMPTY", f"{path}: a configuration file that holds nothing.")
            return Interpretation((), (), problems=(problem,), format=found.name)
        return _joined(found.name, [_read(reader, path, view, source) for reader in found.readers])


def _read(reader: FormatReader, path: str, view: FileView, source: SourceFacts) -> Interpretation:
    try:
        return reader.interpret(path, view, source)
    except TabootError as error:
        if error.code not in BAD_TEXT:
            raise
        return Interpretation((), (), problems=(Problem(path, error.code, error.message),))
    except OSError:
        # A store that fails must stop the run.
        raise
    except Exception as error:  # noqa: BLE001
        message = f"{path}: reading it as {reader.name} failed with {type(error).__name__}."
        return Interpretation((), (), problems=(Problem(path, "E_INTERNAL", message),))


def _joined(name: str, parts: Sequence[Interpretation]) -> Interpretation:
    return Interpretation(
        tuple(node for part in parts for node in part.nodes),
        tuple(edge for part in parts for edge in part.edges),
        frozenset(path for part in parts for path in part.subordinates),
        frozenset(path for part in parts for path in part.environment),
        tuple(dict.fromkeys(problem for part in parts for problem in part.problems)),
        name,
        tuple(reach for part in parts for reach in part.reaches),
        tuple(use for part in parts for use in part.uses),
    )
