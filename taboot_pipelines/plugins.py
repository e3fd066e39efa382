"""What packages outside the project add to it, by their entry points.

A package names its objects in its metadata (``[project.entry-points."<group>"]``, the entry points
specification of PyPA); nothing of it is imported before the object is asked for. A package that cannot be
used is a typed error that names it, and takes nothing else with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from taboot_pipelines.errors import TabootError

T = TypeVar("T")


class Plugins(Generic[T]):
    """The objects of one group of entry points, by the names of these.

    ``what`` is what an object is called in errors. ``check`` returns what an entry point of a name leads to
    if it is of the kind, and raises ``ValueError`` that says why if it is none.
    """

    def __init__(self, group: str, what: str, check: Callable[[str, object], T]) -> None:
        self._group = group
        self._what = what
        self._check = check
        self._known: dict[str, T | TabootError] = {}

    @cached_property
    def _declared(self) -> dict[str, list[EntryPoint]]:
        declared: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self._group):
            # A folder that is on the path twice shows its packages twice.
            if all(_package(p) != _package(point) for p in declared.setdefault(point.name, [])):
                declared[point.name].append(point)
        return declared

    @property
    def names(self) -> list[str]:
        """The names that packages declare, ascending; none of them was imported."""
        return sorted(self._declared)

    def packages(self, name: str) -> list[str]:
        """The packages, with their versions, that declare a name."""
        return [_package(point) for point in self._declared.get(name, ())]

    def get(self, name: str) -> T:
        """The object of a name. Raises ``E_PLUGIN``, which names the package, if it cannot be used."""
        if name not in self._known:
            try:
                self._known[name] = self._load(name)
            except TabootError as error:
                self._known[name] = error
        found = self._known[name]
        if isinstance(found, TabootError):
            raise found
        return found

    def each(self) -> Iterator[tuple[str, T | TabootError]]:
        """Each declared name with its object, or with why that cannot be used."""
        for name in self.names:
            try:
                yield name, self.get(name)
            except TabootError as error:
                yield name, error

    def _load(self, name: str) -> T:
        points = self._declared.get(name, [])
        if not points:
            raise TabootError(
                "E_PLUGIN",
                f"No installed package has the {self._what} {name}.",
                remedy="Install the package that it came with.",
            )
        if len(points) > 1:
            packages = " and ".join(self.packages(name))
            raise self._unusable(name, f"{packages} both name one; uninstall one of them", packages)
        (point,) = points
        try:
            return self._check(name, point.load())
        except ValueError as error:
            raise self._unusable(name, str(error), _package(point)) from error
        # Whatever the code of a stranger raises when it is imported concerns its own objects only.
        except Exception as error:
            missing = f" ({error.name} is missing)" if isinstance(error, ImportError) and error.name else ""
            raise self._unusable(
                name, f"importing {point.value} failed with {type(error).__name__}{missing}", _package(point)
            ) from error

    def _unusable(self, name: str, why: str, package: str) -> TabootError:
        return TabootError(
            "E_PLUGIN",
            f"The {self._what} {name} of the package {package} cannot be used: {why}.",
            remedy=f"Upgrade or reinstall the package {package}, or uninstall it.",
            package=package,
            name=name,
        )


def _package(point: EntryPoint) -> str:
    return "(unknown)" if point.dist is None else f"{point.dist.name} {point.dist.version}"
