"""The library that Docker Compose reads projects with, and what it and our claims say of a project, in one
form to compare.
"""

from __future__ import annotations

import ipaddress
import json
import os
import posixpath
import re
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.extraction.tier_a.compose.connections import named_hosts
from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.model.graph import is_cidr
from taboot_pipelines.model.records import FileView, SourceFacts
from taboot_pipelines_tests.extraction.tier_a.compose.helpers import Read, check
from taboot_pipelines_tests.servers import SERVICES

#: Compose finds the files of a folder by itself; of the environment it sees only this.
_ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent"}
_TIMEOUT_SECONDS = 60
#: Half a minute on two cores, all of it downloading and compiling.
_BUILD_SECONDS = 600

Said = dict[str, Any]


@pytest.fixture(scope="session")
def compose_program() -> Path:
    """The program on compose-go, built once. Skips where Go or its module proxy is missing."""
    try:
        done = subprocess.run(
            [sys.executable, str(SERVICES), "fetch", "--only", "compose-go"],
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"compose-go was not built within {_BUILD_SECONDS} seconds")
    if done.returncode != 0:
        pytest.skip(f"compose-go cannot be built here: {done.stderr.strip()}")
    sys.path.insert(0, str(SERVICES.parent))
    try:
        import fetching
    finally:
        sys.path.pop(0)
    return fetching.compose_project()


@dataclass(frozen=True)
class Answer:
    """What Docker Compose's own reader said: a project, or why there is none."""

    project: Mapping[str, Any] | None
    error: str


def ask(program: Path, folder: Path, files: Iterable[str] = ()) -> Answer:
    """The answer for the project of ``folder``, or for ``files`` of it, with every profile on."""
    done = subprocess.run(
        [str(program), *files],
        cwd=folder,
        env={**_ENVIRONMENT, "PWD": str(folder)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        return Answer(None, done.stderr.strip())
    return Answer(json.loads(done.stdout), done.stderr.strip())


def ask_all(program: Path, folders: Iterable[Path]) -> list[Answer]:
    """The answers for several folders, a few processes at a time."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda folder: ask(program, folder), folders))


def write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")


def dedented(files: Mapping[str, str]) -> dict[str, str]:
    return {path: textwrap.dedent(text) for path, text in files.items()}


def interpret_project(files: Mapping[str, str], folder: str, source: SourceFacts) -> Read | None:
    """Our reading of the project that Compose finds in ``folder``, as the source's units give it."""
    reads: list[Read] = []
    extractor = ComposeExtractor()
    yaml = [p for p in files if not posixpath.basename(p).startswith("Dockerfile")]
    for unit in extractor.units(yaml):
        view = FileView(frozenset(files), files.__getitem__)
        read = Read(files, extractor.interpret(unit, view, source), view.reads)
        check(read)
        if unit.name == main_file(files, folder):
            reads.append(read)
    return reads[0] if reads else None


def main_file(files: Mapping[str, str], folder: str) -> str | None:
    """The first file of the project that Compose finds in ``folder``."""
    for line in files.get(posixpath.join(folder, ".env"), "").splitlines():
        if line.startswith("COMPOSE_FILE="):
            first = re.split("[:;]", line.partition("=")[2])[0]
            return posixpath.normpath(posixpath.join(folder, first))
    names = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
    return next((p for n in names if (p := posixpath.join(folder, n)) in files), None)


def _address(text: str) -> str:
    """An address that is not written is all of IPv4."""
    return str(ipaddress.ip_address(text)) if text else "0.0.0.0"


def _port(port: Mapping[str, Any]) -> tuple[int, int, str, str] | None:
    published = str(port.get("published", ""))
    if not published or published == "0" or "-" in published:
        return None
    address = port.get("host_ip", "")
    return (
        int(published),
        int(port["target"]),
        port.get("protocol", "tcp").lower(),
        _address(address),
    )


def _hosts(
    service: Mapping[str, Any], answering: Mapping[str, str], name: str
) -> set[tuple[str, str, int | None]]:
    texts = [v for k, v in (service.get("environment") or {}).items() if v is not None and "IMAGE" not in k]
    for field in ("command", "entrypoint"):
        texts += service.get(field) or []
    texts += (service.get("labels") or {}).values()
    texts += ((service.get("deploy") or {}).get("labels") or {}).values()
    return {
        (answering[host], scheme, port)
        for text in texts
        for scheme, host, port in named_hosts(str(text))
        if host in answering and answering[host] != name
    }


#: Stands beside the aliases that a service has on a network of others.
_EXTERNAL = "<external>"


def _networks(
    service: Mapping[str, Any], real: Mapping[str, str], external: Collection[str]
) -> dict[str, set[str]]:
    """{real name: aliases} of the networks of a service; ``external``: the keys of networks of others."""
    mode = service.get("network_mode")
    if mode:
        shared = mode == "none" or mode.startswith(("service:", "container:"))
        return {} if shared else {"bridge" if mode == "default" else mode: set()}
    return _joined(
        (real[n], [*((o or {}).get("aliases") or ()), *([_EXTERNAL] if n in external else [])])
        for n, o in (service.get("networks") or {}).items()
    )


def _shared_names(project: Mapping[str, Any]) -> set[str]:
    """The real names that several networks of a project have: which of them counts is not compared."""
    names = [n["name"] for n in (project.get("networks") or {}).values()]
    return {name for name in names if names.count(name) > 1}


def _joined(pairs: Iterable[tuple[str, Iterable[str]]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, values in pairs:
        found.setdefault(name, set()).update(values)
    return found


def _facts(networks: Iterable[tuple[str, str | None, tuple[str, ...]]]) -> dict[str, Any]:
    """{real name: (driver, subnets)}."""
    return {name: (driver or "bridge", subnets) for name, driver, subnets in networks}


def said_by_compose(project: Mapping[str, Any], root: Path, *, compatible: bool = False) -> Said:
    """What our edges rest on, out of Compose's own model of a project whose source begins at ``root``.

    ``compatible``: with ``COMPOSE_COMPATIBILITY``, which the model does not show.
    """
    name = project["name"]
    networks = _facts(
        (
            n["name"],
            n.get("driver"),
            tuple(s for c in (n.get("ipam") or {}).get("config") or () if is_cidr(s := c.get("subnet", ""))),
        )
        for n in (project.get("networks") or {}).values()
    )
    real = {key: n["name"] for key, n in (project.get("networks") or {}).items()}
    external = {key for key, n in (project.get("networks") or {}).items() if n.get("external")}
    services: dict[str, Any] = {}
    answering = {s: s for s in project.get("services") or {}}
    separator = "_" if compatible else "-"
    for key, service in (project.get("services") or {}).items():
        for other in (service.get("container_name"), separator.join((name, key, "1"))):
            if other:
                answering.setdefault(other, key)
        for network in (service.get("networks") or {}).values():
            for alias in (network or {}).get("aliases") or ():
                answering.setdefault(alias, key)
    for key, service in (project.get("services") or {}).items():
        build = service.get("build")
        image = service.get("image") or (f"{name}{separator}{key}" if build else None)
        reference = (
            try_reference(image.lower() if build and not service.get("image") else image) if image else None
        )
        deploy = service.get("deploy") or {}
        policy = deploy.get("restart_policy")
        dockerfile = None
        if build and not build.get("dockerfile_inline") and "://" not in build["context"]:
            absolute = Path(os.path.normpath(os.path.join(build["context"], build["dockerfile"])))
            if absolute.is_relative_to(root) and absolute.is_file():
                dockerfile = absolute.relative_to(root).as_posix()
        services[key] = {
            "image": reference.name if reference else None,
            "build": build is not None,
            "args": sorted((build or {}).get("args") or ()),
            "target": (build or {}).get("target"),
            "dockerfile": dockerfile,
            "ports": {p for port in service.get("ports") or () if (p := _port(port))},
            "networks": _networks(service, real, external),
            "depends_on": {
                target: (o.get("condition", "service_started"), o.get("required", True))
                for target, o in (service.get("depends_on") or {}).items()
            },
            "restart": (policy.get("condition", "any") if policy is not None else service.get("restart")),
            "container_name": service.get("container_name"),
            "profiles": sorted(service.get("profiles") or ()),
            "replicas": deploy.get("replicas", service.get("scale", 1)),
            "connects": _hosts(service, answering, key),
        }
    return {"name": name, "services": services, "networks": networks}


def said_by_us(read: Read) -> Said:
    """The same out of our claims."""
    found = read.result
    (scope,) = {n.node.key[0] for n in found.nodes if n.node.label == "Service" and n.declared} or {"/"}
    services: dict[str, Any] = {}
    for node in read.nodes("Service"):
        if not node.declared:
            continue
        name = node.node.name
        mine = [e for e in found.edges if e.start == node.node]
        containers = [n for n in read.nodes("Container") if n.properties["composeService"] == name]
        built = [e for e in mine if e.type == "BUILDS" and e.method in ("compose_image", "compose_build")]
        depends: dict[str, tuple[str, bool]] = {}
        for e in mine:
            if e.type == "DEPENDS_ON" and e.end.key[0] == scope:
                told = (e.properties.get("condition", "service_started"), e.properties.get("required", True))
                if e.method == "compose_depends_on" or e.end.name not in depends:
                    depends[e.end.name] = told
        first = containers[0].node if containers else None
        dockerfiles = {
            str(e.properties["dockerfile"])
            for e in mine
            if e.method == "dockerfile_from" and "dockerfile" in e.properties
        }
        services[name] = {
            "image": built[0].end.name if built else None,
            "build": any(e.method == "compose_build" for e in built),
            "args": sorted(built[0].properties.get("buildArgs", ())) if built else [],
            "target": built[0].properties.get("target") if built else None,
            "dockerfile": next(iter(dockerfiles), None),
            "from": {e.end.name for e in mine if e.method == "dockerfile_from"},
            "ports": {
                (
                    e.properties["port"],
                    e.properties["targetPort"],
                    e.properties["protocol"],
                    _address(e.properties.get("hostIp", "")),
                )
                for e in mine
                if e.type == "BINDS"
            },
            "networks": _joined(
                (
                    e.end.name,
                    [
                        *e.properties.get("aliases", ()),
                        *([_EXTERNAL] if e.properties.get("external") else []),
                    ],
                )
                for e in found.edges
                if e.type == "RUNS_IN" and e.start == first
            ),
            "depends_on": depends,
            "restart": node.properties.get("restart"),
            "container_name": node.properties.get("containerName"),
            "profiles": sorted(node.properties.get("profiles", ())),
            "replicas": len(containers),
            "connects": {
                (e.end.name, e.properties["protocol"], e.properties.get("port"))
                for e in mine
                if e.type == "CONNECTS_TO"
            },
        }
    networks = _facts(
        (
            n.node.name,
            n.properties.get("driver"),
            tuple(n.properties.get("cidrs", ())),
        )
        for n in read.nodes("Network")
        if n.declared
    )
    return {"name": scope.partition("/")[2], "services": services, "networks": networks}


def compare(answer: Answer, read: Read | None, root: Path, *, compatible: bool = False) -> list[str]:
    """Where Compose's project and our reading of it part, in words; our false problems among them."""
    assert answer.project is not None
    if read is None or not read.result.nodes:
        return ["we read no project"]
    theirs, ours = said_by_compose(answer.project, root, compatible=compatible), said_by_us(read)
    for service in ours["services"].values():
        # Compose does not read a Dockerfile.
        del service["from"]
    for name in _shared_names(answer.project):
        theirs["networks"].pop(name, None)
        ours["networks"].pop(name, None)
        for service in (*theirs["services"].values(), *ours["services"].values()):
            service["networks"].get(name, set()).discard(_EXTERNAL)
    # Compose warns of a variable that it takes for empty.
    false = [
        f"false problem: {p.message}"
        for p in read.result.problems
        if p.code not in ("E_NOT_FOUND", "E_TOO_LARGE")
        and not (p.code == "E_UNSET" and f'\\"{p.message.split()[0]}\\" variable is not set' in answer.error)
    ]
    return differences(theirs, ours) + false


def differences(theirs: Any, ours: Any, where: str = "") -> list[str]:
    """Each place where the two readings part, in words."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        found = []
        for key in sorted({*theirs, *ours}, key=str):
            if key not in theirs or key not in ours:
                found.append(f"{where}/{key}: {'only ours' if key in ours else 'only Compose'}")
            else:
                found += differences(theirs[key], ours[key], f"{where}/{key}")
        return found
    return [] if theirs == ours else [f"{where}: Compose says {theirs!r}, we say {ours!r}"]
