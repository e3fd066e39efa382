"""The directory connectors ``files`` and ``swag`` on real directories."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import unicodedata
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as settings_
from hypothesis import strategies as st

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.files import FilesSource, SwagSource
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Event, Failed, Fetched, Skipped
from taboot_pipelines.settings import LimitSettings, Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines_tests.connectors.conftest import DATA


def events(
    root: Path, tombstones: tuple[str, ...] = (), limit: int = 1_000_000, type_: str = "files", **fields: Any
) -> list[Event]:
    model: type[FilesSource | SwagSource] = SwagSource if type_ == "swag" else FilesSource
    entry = model.model_validate({"id": "s", "type": type_, "path": "in", **fields})
    settings = Settings(home=root / "in/.home", limits=LimitSettings(max_blob_bytes=limit))
    return list(open_connector(entry, Access.of(settings, root)).events({}, tombstones.__contains__))


def run(root: Path, **kwargs: Any) -> tuple[dict[str, str], Enumerated]:
    """Path to ``ok`` or a code; the end. Every path once, in order but for directories, the end last."""
    *body, end = events(root, **kwargs)
    assert isinstance(end, Enumerated)
    out: dict[str, str] = {}
    for e in body:
        assert not isinstance(e, Enumerated) and e.path not in out
        out[e.path] = (
            "ok"
            if isinstance(e, Fetched)
            else e.error.code
            if isinstance(e, Failed)
            else getattr(e, "code", "?")
        )
    fetched = [p for p, v in out.items() if v == "ok"]
    assert fetched == sorted(fetched)
    return out, end


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def put(root: Path, *paths: str, data: bytes = b"text") -> None:
    for path in paths:
        file = root / "in" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def test_documents_are_taken_by_name_in_one_order(root: Path) -> None:
    put(
        root,
        "b.md",
        "a/z.html",
        "a-b.txt",
        "a/READ ME.MD",
        "x.conf",
        "y.json",
        "z.yml",
        "new\nline.md",
        ".hidden.md",
        "c:\\win.md",
    )
    put(
        root,
        "image.png",
        ".env",
        "prod.env",
        ".env.local",
        "main.py",
        "poetry.lock",
        "x.conf.sample",
        ".git/config.txt",
        "node_modules/m/README.md",
    )
    # Templates, scripts, what provisions, and examples of environment files.
    put(
        root,
        "Makefile",
        "k3s.yaml.j2",
        "main.tf",
        "s/backup.sh",
        "top.sls",
        ".env.example",
        "s/prod.env.sample",
    )
    put(root, ".home/tables/log.json", ".taboot/m.json", "sub/.venv/x.txt", "deep/" * 60 + "d.md")
    out, end = run(root)
    expected = [
        ".env.example",
        ".hidden.md",
        "Makefile",
        "a-b.txt",
        "a/READ ME.MD",
        "a/z.html",
        "b.md",
        "c:\\win.md",
        "deep/" * 60 + "d.md",
        "k3s.yaml.j2",
        "main.tf",
        "new\nline.md",
        "s/backup.sh",
        "s/prod.env.sample",
        "top.sls",
        "x.conf",
        "y.json",
        "z.yml",
    ]
    assert out == dict.fromkeys(expected, "ok") and list(out) == expected
    assert end == Enumerated(True)


def test_an_example_is_taken_where_what_it_shows_is_not_there(root: Path) -> None:
    put(root, "loki/loki.yml.example", "alloy/config.alloy.example", "App.JSON.Dist", "a.toml.template")
    put(root, "here.yml.example", "here.yml", "drawing.png.example", "main.py.sample", "page.html.template")
    # SWAG has one for each program that it knows.
    put(root, "proxy-confs/plex.subdomain.conf.sample")
    taken = ["App.JSON.Dist", "a.toml.template", "alloy/config.alloy.example", "loki/loki.yml.example"]
    assert list(run(root)[0]) == sorted([*taken, "here.yml"])
    # What a person asks for is taken whatever lies beside it.
    assert list(run(root, include=["here*"])[0]) == ["here.yml", "here.yml.example"]


def test_the_bytes_and_the_role(root: Path) -> None:
    put(root, "a.md", data=bytes(range(256)))
    put(root, "empty.md", data=b"")
    assert events(root)[:-1] == [Fetched("a.md", bytes(range(256))), Fetched("empty.md", b"")]


def test_include_replaces_the_default_and_exclude_wins(root: Path) -> None:
    put(root, "a.md", "b.log", "drafts/c.md", "drafts/d.log", "keep/e.md", "keep/.env", "f.MD")
    assert list(run(root, include=["*.log", "keep/", "*.md"], exclude=["drafts", "a.*"])[0]) == [
        "b.log",
        "keep/e.md",
    ]


def test_swag_reads_what_is_in_force(root: Path) -> None:
    shutil.copytree(DATA / "swag-reverse-proxy-confs", root / "in", dirs_exist_ok=True)
    put(root, "adguard.subdomain.conf", "notes.md")
    assert list(run(root, type_="swag")[0]) == ["adguard.subdomain.conf"]
    out, end = run(root, type_="swag", include=["*.conf.sample"])
    assert len(out) == 169 and set(out.values()) == {"ok"} and end.complete


def test_every_real_file_is_read(root: Path) -> None:
    real = {
        str(p.relative_to(DATA / "linuxserver-docs-md")): p.read_bytes()
        for p in (DATA / "linuxserver-docs-md").rglob("*.md")
    }
    entry = FilesSource.model_validate(
        {"id": "s", "type": "files", "path": str(DATA / "linuxserver-docs-md")}
    )
    *body, end = open_connector(entry, Access.of(Settings(), root)).events({}, lambda _: False)
    assert {e.path: e.data for e in body if isinstance(e, Fetched)} == real and end == Enumerated(True)


@pytest.mark.parametrize("path", ["missing", "file.md", "~no-such-user-here/x", "in/a/../../gone"])
def test_a_root_that_is_not_there_fails_as_a_whole(root: Path, path: str) -> None:
    (root / "file.md").write_text("x")
    with pytest.raises(TabootError) as caught:
        events(root, path=path)
    assert caught.value.code == "E_PATH" and path.split("/")[-1] in caught.value.message


def test_an_empty_root_is_complete(root: Path) -> None:
    assert run(root) == ({}, Enumerated(True))


def test_tombstoned_files_are_not_read(root: Path) -> None:
    put(root, "a.md", "b.md")
    assert run(root, tombstones=("a.md",))[0] == {"a.md": "E_TOMBSTONED", "b.md": "ok"}


def test_links_inside_are_followed_and_others_recorded(root: Path) -> None:
    put(root, "real/a.md", "real/sub/b.md", "other/c.md", ".env")
    outside = root / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    base = root / "in"
    (base / "file.md").symlink_to("real/a.md")
    (base / "dir").symlink_to("real")
    (base / "real/back").symlink_to("..")
    (base / "real/other").symlink_to("../other")
    (base / "out.md").symlink_to(outside / "secret.md")
    (base / "outdir").symlink_to(outside)
    (base / "self.md").symlink_to("self.md")
    (base / "dangling.md").symlink_to("nowhere")
    (base / "env.md").symlink_to(".env")
    (base / "abs.md").symlink_to(base / "other/c.md")
    out, end = run(root)
    assert out == {
        "abs.md": "ok",
        "dir/a.md": "ok",
        "dir/sub/b.md": "ok",
        "file.md": "ok",
        "other/c.md": "ok",
        "real/a.md": "ok",
        "real/sub/b.md": "ok",
        "real/other/c.md": "ok",
        "out.md": "E_FORBIDDEN",
        "outdir": "E_FORBIDDEN",
        "self.md": "E_CYCLE",
        "real/back": "E_CYCLE",
        "dir/back": "E_FORBIDDEN",
        "dir/other": "E_FORBIDDEN",
    }
    assert end.complete


def test_a_root_that_is_a_link_is_its_target(root: Path) -> None:
    put(root, "a.md")
    (root / "link").symlink_to("in")
    assert run(root, path="link") == ({"a.md": "ok"}, Enumerated(True))


def test_pipes_sockets_and_devices_are_never_opened(root: Path) -> None:
    put(root, "a.md")
    os.mkfifo(root / "in/pipe.md")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(root / "in/socket.md"))
        (root / "in/null.md").symlink_to("/dev/null")
        out, end = run(root)
    assert (
        out
        == {
            "a.md": "ok",
            "pipe.md": "E_UNREADABLE",
            "socket.md": "E_UNREADABLE",
            "null.md": "E_FORBIDDEN",
        }
        and end.complete
    )


def test_a_large_file_is_skipped_unread(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "a.md")
    with (root / "in/large.md").open("wb") as f:
        f.truncate(200 * 1024 * 1024)
    put(root, "limit.md", data=b"x" * 1_000_000)
    assert run(root)[0] == {"a.md": "ok", "large.md": "E_TOO_LARGE", "limit.md": "ok"}


def test_names_that_are_not_utf8_and_names_that_collide(root: Path) -> None:
    composed, apart = "caf\u00e9.md", unicodedata.normalize("NFD", "caf\u00e9.md")
    put(root, apart, data=b"apart")
    assert events(root)[0] == Fetched(composed, b"apart")
    put(root, composed, data=b"composed")
    (root / "in" / os.fsdecode(b"bad\xff.md")).write_text("x")
    (root / "in" / os.fsdecode(b"dir\xff")).mkdir()
    (root / "in" / os.fsdecode(b"dir\xff") / "in.md").write_text("x")
    (root / "in" / os.fsdecode(b"bad\xff.png")).write_text("x")
    out, end = run(root)
    assert out == {
        composed: "ok",
        "cafe\\u0301.md": "E_CONFLICT",
        "bad\\xff.md": "E_ENCODING",
        "dir\\xff/in.md": "E_ENCODING",
    }
    assert end.complete and Fetched(composed, b"composed") in events(root)
    assert all(e.path.encode() for e in events(root) if not isinstance(e, Enumerated))


def test_a_plain_name_is_kept_by_the_file_that_has_it(root: Path) -> None:
    """The Kelvin sign has the normal form K, and an escaped name may be a file's own."""
    put(root, "\u212a.md", data=b"sign")
    assert events(root)[0] == Fetched("K.md", b"sign")
    put(root, "K.md", data=b"letter")
    put(root, "bad\\xff.md", data=b"plain")
    (root / "in" / os.fsdecode(b"bad\xff.md")).write_text("x")
    (root / "in/link.md").symlink_to("K.md")
    out, _ = run(root)
    assert out == {
        "K.md": "ok",
        "\\u212a.md": "E_CONFLICT",
        "bad\\xff.md": "ok",
        "bad\\udcff.md": "E_ENCODING",
        "link.md": "ok",
    }
    assert Fetched("K.md", b"letter") in events(root) and Fetched("link.md", b"letter") in events(root)


def test_a_file_that_may_not_be_read_fails_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The superuser reads everything, so the refusal is simulated where the system would give it."""
    put(root, "a.md", "locked.md", "torn.md")
    refused = {
        str(root / "in/locked.md"): PermissionError(errno.EACCES, "no"),
        str(root / "in/torn.md"): OSError(errno.EIO, "disk"),
    }
    real = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if path in refused:
            raise refused[path]
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    out, end = run(root)
    assert out == {"a.md": "ok", "locked.md": "E_UNREADABLE", "torn.md": "E_UNREADABLE"} and end.complete


def test_a_directory_that_may_not_be_read_leaves_the_enumeration_incomplete(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "a.md", "locked/b.md", "z/c.md")
    real = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("/locked"):
            raise PermissionError(errno.EACCES, "no")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    out, end = run(root)
    assert out == {"locked": "E_UNREADABLE", "a.md": "ok", "z/c.md": "ok"}
    assert not end.complete and "locked" in end.reason
    out, end = run(root, exclude=["locked"])
    assert out == {"a.md": "ok", "z/c.md": "ok"} and end.complete


def test_a_file_that_vanishes_is_absent_and_a_root_that_vanishes_proves_nothing(root: Path) -> None:
    put(root, "a.md", "b.md", "c.md")
    entry = FilesSource.model_validate({"id": "s", "type": "files", "path": "in"})
    stream = open_connector(entry, Access.of(Settings(), root)).events({}, lambda _: False)
    assert next(stream) == Fetched("a.md", b"text")
    (root / "in/b.md").unlink()
    assert list(stream) == [Fetched("c.md", b"text"), Enumerated(True)]
    stream = open_connector(entry, Access.of(Settings(), root)).events({}, lambda _: False)
    next(stream)
    (root / "in").rename(root / "elsewhere")
    (root / "in").mkdir()
    (end,) = stream
    assert isinstance(end, Enumerated) and not end.complete and end.reason


@pytest.mark.parametrize(("writes", "outcome"), [(1, "ok"), (2, "E_CONFLICT")])
def test_a_file_that_is_being_written_is_read_whole_or_fails(
    root: Path, monkeypatch: pytest.MonkeyPatch, writes: int, outcome: str
) -> None:
    """Another process appends right after the bytes were read: they are read again, once."""
    put(root, "log.md", data=b"begin")
    real = os.fdopen
    left = [b"x"] * writes

    def racing(descriptor: int, mode: str) -> Any:
        stream = real(descriptor, mode)

        class Racing:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                stream.close()

            def read(self, size: int) -> bytes:
                data: bytes = stream.read(size)
                if left:
                    with (root / "in/log.md").open("ab") as f:
                        f.write(left.pop())
                return data

        return Racing()

    monkeypatch.setattr(os, "fdopen", racing)
    first, end = events(root)
    assert end == Enumerated(True)
    if outcome == "ok":
        assert first == Fetched("log.md", b"beginx")
    else:
        assert isinstance(first, Failed) and first.error.code == outcome


def test_a_link_swapped_in_after_listing_is_not_followed(root: Path) -> None:
    put(root, "a.md", "b.md")
    (root / "secret.md").write_text("secret")
    entry = FilesSource.model_validate({"id": "s", "type": "files", "path": "in"})
    stream = open_connector(entry, Access.of(Settings(), root)).events({}, lambda _: False)
    next(stream)
    (root / "in/b.md").unlink()
    (root / "in/b.md").symlink_to(root / "secret.md")
    event = next(stream)
    assert isinstance(event, Failed | Skipped)


def test_a_directory_as_a_document_name_and_many_files(root: Path) -> None:
    put(root, "folder.md/inner.md", *(f"n/{i % 37}/{i}.txt" for i in range(2000)))
    out, end = run(root)
    assert len(out) == 2001 and set(out.values()) == {"ok"} and end.complete


@settings_(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_any_tree_ends_with_every_path_once_and_the_same_again(
    tmp_path_factory: pytest.TempPathFactory, random: Random
) -> None:
    """Links in all directions, pipes, names that collide or are not UTF-8."""
    root = tmp_path_factory.mktemp("tree")
    base = root / "in"
    base.mkdir()
    directories = [base]
    for _ in range(random.randint(0, 40)):
        parent = random.choice(directories)
        name = random.choice(
            ["a", "b", "\u00e9", "e\u0301", os.fsdecode(b"\xff"), "\\udcff", ".git"]
        ) + random.choice(["", ".md", ".env"])
        target = parent / name
        if os.path.lexists(target):
            continue
        match random.randrange(5):
            case 0 | 1:
                target.mkdir()
                directories.append(target)
            case 2:
                target.write_bytes(b"text")
            case 3:
                other = random.choice(directories)
                target.symlink_to(
                    random.choice(
                        [str(other), os.path.relpath(other, parent), "/etc", "nowhere", name, f"{other}/a.md"]
                    )
                )
            case _:
                os.mkfifo(target)
    first, second = events(root), events(root)
    paths = [e.path for e in first if not isinstance(e, Enumerated)]
    assert paths == [e.path for e in second if not isinstance(e, Enumerated)]
    assert len(set(paths)) == len(paths) == len(first) - 1 and first[-1] == Enumerated(True)
    assert all(p.encode() for p in paths)
    real = [
        p
        for p in base.rglob("*.md")
        if p.is_file() and not p.is_symlink() and ".git" not in p.relative_to(base).parts[:-1]
    ]
    links = sum(isinstance(e, Fetched) for e in first)
    assert links + sum(isinstance(e, Failed) for e in first) >= len(real)
