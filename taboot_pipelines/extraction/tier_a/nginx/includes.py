"""Which files of a source an ``include`` means.

nginx resolves a relative name against the directory of its main file. A source may begin above, at or below
that directory, and an absolute name is one of the machine nginx runs on (``/config/nginx/proxy.conf``). So
names are looked for below the main file's directory and then each of its parents up to the source's root; of
an absolute name, the longest tail that is there counts. The bare file name of an absolute *pattern* does not:
``/etc/nginx/conf.d/*.conf`` must not take in every file beside the main one.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterator

from taboot_pipelines.model.records import FileView

#: Components of a name, and parents of the main file, that are considered; real trees are far shallower.
_MAX_COMPONENTS = 16
_MAGIC = frozenset("*?[")


class Includes:
    """Resolves the includes of one unit. Every path looked for, present or absent, is left in ``view``."""

    def __init__(self, main: str, view: FileView) -> None:
        self._view = view
        self._known: dict[str, tuple[str, ...]] = {}
        directory = posixpath.dirname(main)
        self._bases = [directory]
        while directory and len(self._bases) < _MAX_COMPONENTS:
            directory = posixpath.dirname(directory)
            self._bases.append(directory)

    def resolve(self, name: str, including: str) -> tuple[str, ...]:
        """The paths that ``include name;`` in the file ``including`` means, sorted; none if there is none."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._look(name)
        # The tail of an absolute name that ends at the file itself is an accident of where the source begins.
        if found == (including,) and name.startswith("/") and posixpath.basename(name) == including:
            return ()
        return found

    def _look(self, name: str) -> tuple[str, ...]:
        magic = not _MAGIC.isdisjoint(name)
        for candidate in self._candidates(unicodedata.normalize("NFC", name), magic):
            if magic:
                if found := self._view.glob(candidate):
                    return found
            elif candidate in self._view.paths:
                return (candidate,)
            else:
                self._view.read(candidate)
        return ()

    def _candidates(self, name: str, magic: bool) -> Iterator[str]:
        if name.startswith("/"):
            parts = [p for p in name.split("/") if p][-_MAX_COMPONENTS:]
            tails = ["/".join(parts[i:]) for i in range(len(parts) - 1 if magic else len(parts))]
        else:
            tails = [name]
        seen = set[str]()
        for tail in tails:
            for base in self._bases:
                candidate = posixpath.normpath(posixpath.join(base, tail))
                if candidate not in seen and candidate != "." and not candidate.startswith(("..", "/")):
                    seen.add(candidate)
                    yield candidate
