"""``taboot capture`` as a person and a program use it, on a server of loopback."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from taboot_pipelines.cli import main
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines_tests.connectors.servers import Site, send, serve

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]
#: Runs the command with these arguments: exit code, output, errors.
Run = Callable[..., tuple[int, str, str]]


def site(h: BaseHTTPRequestHandler) -> None:
    if h.path == "/":
        send(h, 200, b"<title>Home</title><h1>Hello</h1>", content_type="text/html")
    elif h.path == "/moved":
        send(h, 302, location="/")
    elif h.path == "/round":
        send(h, 302, location="/round")
    elif h.path == "/text":
        send(h, 200, b"text", content_type="text/plain")
    else:
        send(h, 404)


@pytest.fixture(scope="module")
def pages() -> Iterator[Site]:
    with serve(site) as found:
        yield found


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("TABOOT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
        code: object = 0
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main(["capture", *arguments])
            except SystemExit as end:
                code = end.code
        assert isinstance(code, int)
        return code, out.buffer.getvalue().decode(), err.getvalue()

    return call


def test_a_page_is_captured_into_files(run: Run, pages: Site, tmp_path: Path) -> None:
    Path("title.js").write_text("() => document.title")
    Path("bad.js").write_text("nothing.here")
    wanted = ["--screenshot", "a.png", "--pdf", "a.pdf", "--script", "title.js", "--wait", "0"]
    code, out, err = run(f"{pages.base}/moved", *wanted, "--allow-cidr", "127.0.0.0/8")
    assert (code, err) == (0, "")
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.pdf").read_bytes().startswith(b"%PDF-")
    assert out.splitlines()[-1] == '"Home"'
    code, out, err = run(
        f"{pages.base}/", *wanted, "--script", "bad.js", "--allow-cidr", "127.0.0.0/8", "--viewport", "--json"
    )
    told = json.loads(out)
    assert (code, told["status"], told["final_url"]) == (1, 200, f"{pages.base}/")
    assert [c["kind"] for c in told["captures"]] == ["screenshot", "pdf", "script", "script"]
    assert told["captures"][0]["sha256"] == sha256_hex(Path("a.png").read_bytes())
    assert told["captures"][2]["value"] == "Home"
    assert told["captures"][3]["error"]["code"] == "E_BROWSER"
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("path", "code"), [("/none", "E_NOT_FOUND"), ("/round", "E_REDIRECT"), ("/text", "E_MIME")]
)
def test_what_cannot_be_captured_is_said(run: Run, pages: Site, path: str, code: str) -> None:
    found, _, err = run(pages.base + path, "--pdf", "a.pdf", "--allow-cidr", "127.0.0.0/8")
    assert (found, err.split(":")[0]) == (1, code)
    assert not Path("a.pdf").exists()


def test_a_private_address_is_refused_unless_it_is_allowed(run: Run, pages: Site) -> None:
    before = sum(pages.hits.values())
    code, _, err = run(f"{pages.base}/", "--pdf", "a.pdf")
    assert (code, err.split(":")[0]) == (1, "E_URL_BLOCKED")
    assert sum(pages.hits.values()) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["http://127.0.0.1/"],
        ["http://127.0.0.1/", "--script", "none.js"],
        ["http://127.0.0.1/", "--pdf", "a.pdf", "--wait", "-1"],
        ["http://127.0.0.1/", "--pdf", "a.pdf", "--allow-cidr", "127.0.0.1/8"],
    ],
)
def test_a_wrong_command_line_is_refused(run: Run, arguments: list[str]) -> None:
    assert run(*arguments)[0] == 2


def test_no_chromium_is_an_error_of_the_settings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABOOT_BROWSER__EXECUTABLE", "/nowhere/chromium")
    code, _, err = run("http://127.0.0.1/", "--pdf", "a.pdf")
    assert (code, err.split(":")[0]) == (1, "E_CONFIG")
    assert "extra browser" in err
