"""The git commits that changed the files of a source, where its folder is in a working tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

from taboot_pipelines.retrieval.results.changes import Commit

#: Commits that are looked through, and seconds for it.
_MOST, _SECONDS = 5_000, 10


def commits_since(root: Path, since: datetime) -> dict[str, Commit]:
    """The last commit after ``since`` that changed each path below ``root``; none where there is no git, no
    repository, or no answer in time. Nothing of the repository's configuration is run.
    """
    git = shutil.which("git")
    if git is None or not root.is_dir() or not any((p / ".git").exists() for p in (root, *root.parents)):
        return {}
    command = [
        *(git, "--no-pager", "-C", str(root), "-c", "log.showSignature=false", "-c", "core.fsmonitor=false"),
        *("-c", "core.quotePath=false", "log", f"--max-count={_MOST}", f"--since={since.isoformat()}"),
        *("--no-ext-diff", "--no-textconv", "--no-renames", "-m", "--first-parent", "--name-only"),
        *("--relative", "-z", "--format=%x01%H%x02%cI%x02%s%x02"),
    ]
    # What is not here is not fetched, and nothing is locked.
    environment = {
        **os.environ,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    try:
        done = subprocess.run(
            command,
            check=True,
            capture_output=True,
            timeout=_SECONDS,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[str, Commit] = {}
    for part in done.stdout.decode("utf-8", "replace").split("\x01")[1:]:
        id_, at, subject, names = part.split("\x02", 3)
        commit = Commit(id=id_, at=datetime.fromisoformat(at), subject=subject[:200])
        for name in names.replace("\n", "").split("\0"):
            if name:
                found.setdefault(name, commit)
    return found
