"""Changes of content among 2,000 pages whose frame is another with each build, and 100 of which were edited.

Prints how many of the edits are found, how many pages are told of that say the same, and how long it takes.
There is no peer in the same form: a comparison of bytes, which names every page, is the other column.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.content_changes import ChangeKind, changes
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.stages.test_content_changes import page

PAGES, EDITS = 2_000, 100
SAID = "Since the spring its key hangs beside the door of the boiler room upstairs."


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "site").mkdir()
        (root / "sources.yaml").write_text("sources: [{id: site, type: files, path: site}]\n")
        workspace = Workspace(load_settings(home=root / "home", sources=root / "sources.yaml"))
        edited = set(range(7, PAGES, PAGES // EDITS))
        for build in (1, 2):
            if build == 2:
                since = time.time_ns() // 1000
            for number in range(PAGES):
                said = SAID if build == 2 and number in edited else ""
                (root / "site" / f"{number:05}.html").write_text(page(number, build, said))
            workspace.sync_sources()
            run_chain(workspace, "site")
        began = time.perf_counter()
        found = list(changes(workspace, "default", since))
        seconds = time.perf_counter() - began
        told = {int(Path(x.logged.path).stem) for x in found if x.kind is ChangeKind.CHANGED}
        print(f"{PAGES} pages, all with other bytes, {len(edited)} edited:")
        print(f"  edits found      {len(told & edited)} of {len(edited)}   (by bytes {len(edited)})")
        print(f"  told beside them {len(told - edited)}            (by bytes {len(found) - len(edited)})")
        print(f"  {seconds:.1f} s, {seconds / PAGES * 1000:.1f} ms a page")
        workspace.close()


if __name__ == "__main__":
    main()
