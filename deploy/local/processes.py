"""Processes that outlive the one that started them: known by pid and birth, so that a recycled pid is never
taken for ours.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


class Refused(Exception):
    """What cannot be done, in words that say what to do about it."""


def birth(pid: int) -> str | None:
    """When a process began, as text that no other process of this pid shares; ``None`` if it is gone (a
    zombie is gone).
    """
    try:
        # Field 22 counts clock ticks since boot (proc(5)); the name before it may hold spaces, so cut behind
        # its bracket.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    else:
        return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    told = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or None


def alive(pid: int | None, born: str | None) -> bool:
    """Whether the very process that was recorded still runs."""
    return pid is not None and born is not None and birth(pid) == born


def end(pid: int, born: str, gently: signal.Signals, patience: float) -> None:
    """End the recorded process and wait until it is gone: ``gently`` first, SIGKILL after ``patience``
    seconds.
    """
    for number, seconds in ((gently, patience), (signal.SIGKILL, 30.0)):
        if not alive(pid, born):
            return
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if wait(lambda: not alive(pid, born), seconds):
            return
    raise Refused(f"process {pid} does not end; it must be ended by hand")


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether ``condition`` came true in time."""
    deadline = time.monotonic() + seconds
    pause = 0.01
    while True:
        if condition():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A free loopback port below the ephemeral range: a port in it could be lent to any outgoing connection
    while its server is down, and the server could not come back to it."""
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        lowest = 32768
    upper = lowest if lowest > 16000 else 65000
    for port in random.SystemRandom().sample(range(12000, upper), 200):
        if is_free(port):
            return port
    raise Refused("no free port between 12000 and 32767 on 127.0.0.1")
