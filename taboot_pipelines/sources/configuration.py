"""What configuration files tell before a source is made of them: whether they are of a format that is
interpreted, and of which reverse proxy they speak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from taboot_pipelines.connectors.compose import COMPOSE_NAME, may_be_project
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.formats import all_formats
from taboot_pipelines.extraction.tier_a.recognition import MAX_HEAD, Format, recognise, worth_reading
from taboot_pipelines.model.runtime import form_of

#: Formats whose files make sources of other types: of projects, and of a reverse proxy.
_OF_OTHERS = frozenset({"dockerfile", "nginx"})
#: {format: the reverse proxy that its files are of}
_PROXIES = {"caddyfile": "caddy", "caddy_json": "caddy", "haproxy": "haproxy", "traefik": "traefik"}
#: Endings of dumps of what runs, a word that each has, and bytes of one at most.
_DUMPS, _MAX_DUMP = frozenset({".json", ".jsonl", ".txt", ".log", ""}), 20_000_000
_OF_DUMPS = re.compile(
    r'"(?:HostConfig|Names|status)"|Local Address:Port|^ActiveState=|^# configuration file ', re.MULTILINE
)
#: Files that are looked through for the proxy, and bytes of one.
_MAX_FILES, _MAX_BYTES = 200, 1_000_000


def is_configuration(file: Path) -> bool:
    """Whether a file is of a format that a source with ``interpret: true`` reads."""
    found = _format(file)
    return found is not None and found.name not in _OF_OTHERS


def is_nginx(file: Path) -> bool:
    """Whether a file is a conf of nginx that is in force, as a source of these takes them by their ending."""
    found = _format(file) if file.suffix.lower() == ".conf" else None
    return found is not None and found.name == "nginx"


def is_project(file: Path) -> bool:
    """Whether a file is one of Docker Compose: by its name, or since it has services with an image or a
    build, whatever it is called."""
    if COMPOSE_NAME.fullmatch(file.name):
        return True
    return may_be_project(file.name) and any("image" in s or "build" in s for _, s in _services(file))


def is_dump(file: Path) -> bool:
    """Whether a file says what runs, as engines and machines do. An object of Kubernetes does if it has a
    status; one without is declared."""
    try:
        if file.suffix not in _DUMPS or file.stat().st_size > _MAX_DUMP:
            return False
        text = file.read_text("utf-8", "replace")
        return _OF_DUMPS.search(text) is not None and form_of(text) is not None
    except (OSError, TabootError):
        return False


def proxy_of_files(files: Sequence[Path]) -> str | None:
    """The one reverse proxy that configuration files are of."""
    names = {_PROXIES[f.name] for file in files if (f := _format(file)) is not None and f.name in _PROXIES}
    return names.pop() if len(names) == 1 else None


def proxy_of_confs(files: Sequence[Path]) -> str | None:
    """``swag`` where a conf of nginx includes what lies where SWAG keeps its own, else ``nginx``."""
    return (
        "swag" if any(b"/config/nginx/" in (_head(file) or b"") for file in files[:_MAX_FILES]) else "nginx"
    )


def proxy_of_projects(files: Sequence[Path]) -> str | None:
    """The one service of Compose projects that runs Traefik, else ``traefik`` where labels speak to it."""
    running: set[str] = set()
    labelled = False
    for file in files[:_MAX_FILES]:
        for name, service in _services(file):
            image = str(service.get("image") or "").rpartition("/")[2].partition(":")[0].partition("@")[0]
            if image == "traefik":
                running.add(name)
            labels = service.get("labels") or ()
            labelled |= any(str(label).startswith("traefik.") for label in labels)
    return running.pop() if len(running) == 1 else "traefik" if labelled and not running else None


def _services(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import yaml

    try:
        if file.stat().st_size > _MAX_BYTES or b"services" not in (data := file.read_bytes()):
            return
        read = yaml.safe_load(data)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return
    services = read.get("services") if isinstance(read, dict) else None
    for name, service in (services if isinstance(services, dict) else {}).items():
        if isinstance(service, dict):
            yield str(name), service


def _format(file: Path) -> Format | None:
    formats, path = all_formats(), file.as_posix()
    if not worth_reading(formats)(path):
        return None
    head = _head(file)
    return (
        None if head is None or b"\0" in head else recognise(formats, path, head.decode("utf-8", "replace"))
    )


def _head(file: Path) -> bytes | None:
    """The beginning of a file; None of one that cannot be read."""
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_HEAD)
    except OSError:
        return None
