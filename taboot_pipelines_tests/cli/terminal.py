"""The command in a pseudo-terminal, to see what a person sees."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping

from taboot_pipelines_tests.forking import python

PROGRAM = "from taboot_pipelines.cli import main; main()"
#: Styles, and hyperlinks, which take no room.
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x1b\x07]*(?:\x1b\\|\x07)")


def seen(environment: Mapping[str, str], *arguments: str, columns: int = 80, code: int = 0) -> str:
    """What a command writes to a terminal of so many columns, styles included."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    told = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(master, 65536):
                told.extend(data)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    kept = {k: v for k, v in environment.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "CI")}
    done = subprocess.run(
        [*python(), "-c", PROGRAM, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**kept, "TERM": "xterm-256color"},
        timeout=300,
        check=False,
    )
    os.close(slave)
    reader.join(10)
    os.close(master)
    text = told.decode("utf-8", "replace").replace("\r\n", "\n")
    assert done.returncode == code, text
    return text


def bare(text: str) -> str:
    """The text without styles."""
    return _STYLE.sub("", text)


def too_long(text: str, columns: int = 80) -> list[str]:
    """The lines that a terminal of so many columns would break, wherever that falls."""
    return [line for line in bare(text).splitlines() if len(line.rstrip()) > columns]
