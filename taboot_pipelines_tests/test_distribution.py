"""What is installed from the wheel and the sdist works without the checkout, and extras are what they say."""

from __future__ import annotations

import http.cookiejar
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GOLD = (
    '{"text": "Forgejo depends on postgres.", "sentence": "Forgejo depends on postgres.",'
    ' "triples": [["DEPENDS_ON", "Forgejo", "postgres", {}]]}\n'
)


def test_every_extra_that_is_named_exists() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named: dict[str, set[str]] = {}
    for path in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("Makefile"), *_texts("docs", "deploy")):
        named[str(path)] = _named(path.read_text())
    for path in _texts("taboot_pipelines", "benchmarks", "examples"):
        # Where the error says which extra is missing, and where it says so in words.
        text = path.read_text()
        said = set(re.findall(r'\bextra="([^"]+)"|\bthe extra `([a-z0-9-]+)`', text))
        named[str(path)] = _named(text) | {one or other for one, other in said}
    wrong = {path: sorted(extras - set(declared) - _OTHER_WORDS) for path, extras in named.items()}
    assert {path: extras for path, extras in wrong.items() if extras} == {}
    assert set().union(*named.values()) >= {"redis", "qdrant", "neo4j", "browser", "torch", "vllm", "celery"}


#: What stands after ``extra=`` in the settings of pydantic's models.
_OTHER_WORDS = {"allow", "forbid", "ignore"}


def _texts(*folders: str) -> list[Path]:
    suffixes = {".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".html"}
    return [p for f in folders for p in sorted((ROOT / f).rglob("*")) if p.suffix in suffixes]


def _named(text: str) -> set[str]:
    """The extras of this package that a text tells to install."""
    found = re.findall(r"(?:taboot-pipelines|pip install [^\n`'\"]*\.)\[([a-z0-9, -]+)\]", text)
    return {extra.strip() for group in found for extra in group.split(",")}


# --- installed without the checkout -------------------------------------------------------------------------


class Installed:
    """A virtual environment with the package and what it depends on, and a folder far from the checkout."""

    def __init__(self, root: Path, package: Path) -> None:
        self.env, self.folder = root / "env", root / "elsewhere"
        self.folder.mkdir(parents=True)
        uv("venv", "--python", sys.executable, self.env)
        uv("pip", "install", "--python", self.env / "bin" / "python", package)

    def start(self, program: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return subprocess.Popen(
            [self.env / "bin" / program, *arguments],
            cwd=self.folder,
            env=kept | {"DAGSTER_HOME": str(self.folder / ".taboot" / "dagster")} | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        process = self.start(program, *arguments, **variables)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        return output


def uv(*arguments: str | Path) -> None:
    """Run uv; without the network first, which is enough where its cache has everything."""
    command = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert command is not None, "uv is not installed: pip install uv"
    if subprocess.run([command, "--offline", *arguments], capture_output=True).returncode != 0:
        done = subprocess.run([command, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist, made from a copy of what git tracks or would."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    uv("build", "--out-dir", out, copy)
    return out


@pytest.mark.slow
def test_the_wheel_does_its_work_far_from_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "taboot_pipelines/connectors/sources.schema.json" in names
    assert not [n for n in names if n.startswith(("benchmarks", "taboot_pipelines_tests"))]
    home = Installed(tmp_path, wheel)
    house = home.folder / "house"
    house.mkdir()
    (house / "compose.yaml").write_text(
        "services:\n  forgejo:\n    image: forgejo/forgejo:9\n    depends_on: [db]\n"
        "  db:\n    image: postgres:16\n"
    )
    (house / "notes.md").write_text("# Forgejo\n\nForgejo depends on postgres. It listens on port 3000.\n")
    assert "house-files" in home.run("taboot", "init", "house")
    assert "shards new" in home.run("taboot", "ingest")
    assert "notes.md" in home.run("taboot", "search", "forgejo")
    assert "depends on db" in home.run("taboot", "ask", "What does forgejo depend on?")
    home.run("taboot", "reinterpret", "--source", "house-files", "--tier", "B", "--set", "min_confidence=1")
    diff = home.run("taboot", "runs", "diff", "active", "candidate", "--source", "house-files", "--tier", "B")
    assert "DEPENDS_ON" in diff
    _browse(home)
    (home.folder / "gold.jsonl").write_text(GOLD)
    measured = home.run(
        "dagster", "job", "execute", "-m", "taboot_pipelines.definitions", "-j", "measure_extraction",
        TABOOT_EXTRACTION__GOLD="gold.jsonl",
    )  # fmt: skip
    assert "RUN_SUCCESS" in measured and "ASSET_MATERIALIZATION" in measured


def _browse(home: Installed) -> None:
    """Start the pages, get the first one as a browser would, and end them by Ctrl-C."""
    process = home.start("taboot", "browse", "--no-open")
    try:
        assert process.stdout is not None
        address = next(line.strip() for line in process.stdout if line.startswith("http://127.0.0.1:"))
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        with opener.open(address, timeout=60) as answer:
            page = answer.read().decode()
        assert answer.status == 200 and "forgejo" in page.lower()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_sdist_gives_the_same_package(built: Path, tmp_path: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    home = Installed(tmp_path, sdist)
    (installed,) = (home.env / "lib").glob("python*/site-packages/taboot_pipelines")
    files = {str(p.relative_to(installed.parent)) for p in installed.rglob("*") if p.is_file()}
    wanted = {n for n in zipfile.ZipFile(wheel).namelist() if n.startswith("taboot_pipelines/")}
    assert {f for f in files if "__pycache__" not in f} == wanted
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert home.run("taboot", "--version").strip().endswith(declared)
