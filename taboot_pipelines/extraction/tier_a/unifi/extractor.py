"""The UniFi extractor: units from a listing, and what one unit says."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.extraction.tier_a.unifi.claims import SiteClaims, owners, shared_names
from taboot_pipelines.extraction.tier_a.unifi.reading import read_text
from taboot_pipelines.extraction.tier_a.unifi.records import Inventory
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec

_SITE = re.compile(r"(sites/[^/]+)/.+", re.DOTALL)
_DEVICES = re.compile(r"sites/[^/]+/devices/.+", re.DOTALL)
#: The unit of all files that lie in no site's folder.
_REST = "."


class UnifiExtractor:
    """Tier A for UniFi: a unit is a site of a controller, else all files of the source together."""

    name = "unifi"
    version = "3"

    def units(self, paths: Sequence[str]) -> list[UnitSpec]:
        """A unit for each folder ``sites/NAME``, and one for the files outside of them.

        The first file of a unit is its folder, so that the unit stays where it is when files come and go.
        Behind its own files stand those of other sites that name devices: no name counts that two devices of
        a source have.
        """
        sites: dict[str, list[str]] = defaultdict(list)
        for path in sorted(set(paths)):
            match = _SITE.fullmatch(path)
            sites[match[1] if match else _REST].append(path)
        telling = {
            site: [path for path in files if _DEVICES.fullmatch(path)] or files[:1]
            for site, files in sites.items()
        }
        rest = telling.pop(_REST, None)
        units = [
            UnitSpec(
                site, (site, *sites[site], *(p for other in telling if other != site for p in telling[other]))
            )
            for site in telling
        ]
        return units if rest is None else [UnitSpec(_REST, (_REST, *sites[_REST])), *units]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """What the files of a unit say together. Raises nothing but what the store behind ``view`` raises; a
        file that is broken is a problem beside the rest (``E_PARSE``)."""
        folder, *files = unit.files
        own = [path for path in files if folder == _REST or path.startswith(f"{folder}/")]
        texts = UnitTexts(view)
        inventory = _read(own, texts)
        elsewhere = files[len(own) :]
        # What is wrong with the files of another site is said with that.
        strangers = _read(elsewhere, UnitTexts(view))
        found = owners(inventory.devices)
        shared = shared_names([*found, *owners(strangers.devices)])
        for owner in found:
            owner.settle(shared)
        prefix = f"{source.source_id}/{folder.removeprefix('sites/')}" if elsewhere else source.source_id
        claims = SiteClaims(source, prefix, texts)
        claims.add(inventory, found, shared)
        return claims.result()


def _read(files: Sequence[str], texts: UnitTexts) -> Inventory:
    inventory = Inventory()
    for path in files:
        read_text(inventory, path, texts)
    return inventory
