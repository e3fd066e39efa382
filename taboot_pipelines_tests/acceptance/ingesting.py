"""Ingests in processes of their own that start at one moment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from taboot_pipelines_tests.forking import python

_ROOT = Path(__file__).parents[2]


def ingest_at_once(
    homes: Sequence[Path],
    file: Path,
    tei: str,
    wait: float,
    environment: Mapping[str, str],
    orders: Sequence[Sequence[str]],
) -> list[str]:
    """What became of each: ``ok`` or the code of its error. Each has a home and the order of its sources;
    ``wait``: for leases.
    """
    processes = [
        subprocess.Popen(
            [
                *python(),
                "-m",
                "taboot_pipelines_tests.acceptance.ingest_process",
                str(home),
                str(file),
                tei,
                str(wait),
                *order,
            ],
            cwd=_ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for home, order in zip(homes, orders, strict=True)
    ]
    for p in processes:
        assert p.stdout is not None and p.stdout.readline().strip() == "ready", p.stderr and p.stderr.read()
    for p in processes:
        assert p.stdin is not None
        p.stdin.write("go\n")
        p.stdin.flush()
    found = []
    for p in processes:
        out, err = p.communicate(timeout=500)
        assert p.returncode == 0, err[-2000:]
        found.append(out.strip())
    return found
