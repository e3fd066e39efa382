"""Leases: exclusive between processes, bounded in waiting, freed by the death of their holder."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.leases import Leases

HOLDER = """
import sys, time, pathlib
from taboot_pipelines.stores.leases import Leases
with Leases(pathlib.Path(sys.argv[1]), 5).source("default", "s"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_waits_in_vain_and_gets_it_when_the_first_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(TabootError, match="E_BUSY") as error, Leases(tmp_path, 0.2).source("default", "s"):
            pass
        assert error.value.details["holder"] == str(holder.pid)
        with Leases(tmp_path, 0.2).source("default", "other"), Leases(tmp_path, 0.2).namespace("default"):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with Leases(tmp_path, 5).source("default", "s"):
        pass


def test_the_holder_may_enter_again(tmp_path: Path) -> None:
    leases = Leases(tmp_path, 0.2)
    with leases.source("default", "s"), leases.source("default", "s"):
        pass
    with Leases(tmp_path, 0.2).source("default", "s"):
        pass
