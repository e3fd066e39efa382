"""Image references as the OCI distribution grammar writes them, and their normal form as Docker reads them.

Grammar: the distribution project's ``reference`` package (``[domain/]path[:tag][@digest]``). Normal form: a
name without a domain is Docker Hub's, a Hub name of one component is in ``library/``, and neither tag nor
digest means the tag ``latest``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError

DEFAULT_REGISTRY = "docker.io"
#: Characters of a repository path, and of a whole reference.
_MAX_PATH = 255
_MAX_REFERENCE = 1024

_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_PATH = rf"{_PATH_PART}(?:/{_PATH_PART})*"
_REST = re.compile(
    rf"(?P<path>{_PATH})"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_DOMAIN_FULL = re.compile(_DOMAIN)
_IDENTIFIER = re.compile(r"[0-9a-f]{64}")
#: The registered algorithms fix the length of their digests, in lower case hex.
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


@dataclass(frozen=True, slots=True)
class ImageReference:
    """A parsed reference. ``tag`` is ``latest`` when neither tag nor digest was written; ``name`` is the
    normal form with every part; ``image_id`` is the digest if the reference is pinned, else ``name:`` +
    ``name``."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None
    name: str
    image_id: str


def try_reference(text: str) -> ImageReference | None:
    """The reference that all of ``text`` is, or None if it is none."""
    if len(text) > _MAX_REFERENCE:
        return None
    first, slash, rest = text.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        registry = first
        if _DOMAIN_FULL.fullmatch(registry) is None:
            return None
    else:
        registry, rest = DEFAULT_REGISTRY, text
    match = _REST.fullmatch(rest)
    if match is None or _IDENTIFIER.fullmatch(text):
        return None
    path, tag, digest = match.group("path", "tag", "digest")
    if len(path) > _MAX_PATH:
        return None
    if digest is not None:
        algorithm, _, value = digest.partition(":")
        length = _DIGEST_LENGTHS.get(algorithm)
        if length is not None and (len(value) != length or value != value.lower()):
            return None
    if registry == "index.docker.io":
        registry = DEFAULT_REGISTRY
    if registry == DEFAULT_REGISTRY and "/" not in path:
        if path in _DIGEST_LENGTHS:
            return None  # A digest that stands alone, cut short as registries and tables show one.
        path = f"library/{path}"
    if tag is None and digest is None:
        tag = "latest"
    name = f"{registry}/{path}" + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    return ImageReference(registry, path, tag, digest, name, digest or f"name:{name}")


def parse_reference(text: str) -> ImageReference:
    """As :func:`try_reference`; raises ``E_PARSE`` (without quoting the text) if it is no reference."""
    reference = try_reference(text)
    if reference is None:
        raise TabootError(
            "E_PARSE", "An image reference does not follow the OCI grammar.", characters=len(text)
        )
    return reference
