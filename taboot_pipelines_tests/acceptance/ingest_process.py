"""One ingest in a process of its own: ``python -m … HOME SOURCES TEI LEASE_WAIT SOURCE…``; servers by the
environment.

Prints ``ready`` when everything is imported and waits for a line, so that several start at one moment; then
prints what became of it: ``ok`` or the code of the error.
"""

from __future__ import annotations

import sys

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines.stages.workspace import Workspace


def main() -> None:
    home, sources, tei, wait, *source_ids = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        workspace = Workspace(
            load_settings(
                home=home,
                sources=sources,
                tei={"url": tei},
                limits={"lease_wait_seconds": float(wait), "batch_documents": 8},
            )
        )
        workspace.sync_sources()
        for source_id in source_ids:
            run_chain(workspace, source_id)
    except TabootError as error:
        print(error.code)
    else:
        print("ok")


if __name__ == "__main__":
    main()
