"""Data files of packages: weights and tokenizers, verified before use, and the word lists of this one."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from importlib.resources import files
from pathlib import Path

from taboot_pipelines.errors import TabootError


def packaged_file(package: str, relative: str) -> Path:
    """The path of a file of an installed package, found without running the package's code. Raises
    ``E_MODEL`` if it is not there."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, relative)
        if path.is_file():
            return path
    raise TabootError(
        "E_MODEL", f"The package {package} with {Path(relative).name} is not installed.", package=package
    )


def read_verified(path: Path, sha256: str | None) -> tuple[bytes, str]:
    """The file's bytes and their SHA-256 in hex. Raises ``E_MODEL`` if the file cannot be read, or if
    ``sha256`` is given and differs."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TabootError(
            "E_MODEL", f"{path} cannot be read ({type(error).__name__}).", path=str(path)
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    if sha256 is not None and digest != sha256:
        raise TabootError(
            "E_MODEL",
            f"{path} does not have the expected SHA-256.",
            path=str(path),
            expected=sha256,
            actual=digest,
        )
    return data, digest


@cache
def word_list(package: str, name: str) -> frozenset[str]:
    """The words of a text file beside the code of ``package``. Lines that begin with ``#`` are comments."""
    lines = files(package).joinpath(name).read_text("utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def sections(package: str, name: str) -> dict[str, list[str]]:
    """The lines of a text file beside the code of ``package``, by the ``[title]`` above them. Lines that
    begin with ``#`` are comments."""
    found: dict[str, list[str]] = {}
    own: list[str] = []
    for line in files(package).joinpath(name).read_text("utf-8").splitlines():
        if line.startswith("["):
            own = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            own.append(line)
    return found
