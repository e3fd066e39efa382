"""Packages outside the project, as tests install them: see ``install``."""

from __future__ import annotations

import shutil
from pathlib import Path

HERE = Path(__file__).parent


def install(site: Path, name: str, modules: dict[str, str] | None = None, **groups: dict[str, str]) -> None:
    """Install a package into a folder that is then put on the path: its modules, and a ``dist-info`` with its
    entry points, as installers write them (PyPA's specification of recorded projects). ``groups``: {end of
    the group: {name: object}}. Without ``modules`` its module of that name beside this one is copied."""
    if modules is None:
        shutil.copy(HERE / f"{name.replace('-', '_')}.py", site)
    for module, text in (modules or {}).items():
        (site / f"{module}.py").write_text(text)
    info = site / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    points = [
        f"[taboot_pipelines.{group}]\n" + "".join(f"{point} = {value}\n" for point, value in named.items())
        for group, named in groups.items()
    ]
    (info / "entry_points.txt").write_text("".join(points))
