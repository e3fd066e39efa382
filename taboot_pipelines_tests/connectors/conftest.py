"""Where the real data lies: ``TABOOT_TEST_DATA``, default ``../shared/data`` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

DATA = Path(
    os.environ.get("TABOOT_TEST_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data"
).resolve()
