"""Equal input gives equal bytes in Tiers A and B: in any number of processes, whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

from taboot_pipelines_tests.world import DATA

#: Pages of three sets, read by both tiers in a process of its own; prints a digest of each tier's claims and
#: how many there are.
READ = """
import hashlib, sys
from pathlib import Path
from taboot_pipelines.extraction import tier_b
from taboot_pipelines.extraction.tier_b import extractor
from taboot_pipelines.knowledge.document_units import DocumentText
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.stages.tier_a_triples import ProseExtractor
from taboot_pipelines.stages.tier_b_triples import RelationExtractor

if __name__ == "__main__":
    data, processes = Path(sys.argv[1]), int(sys.argv[2])
    # So few pages are not worth a process otherwise.
    extractor._WORTH_A_PROCESS, extractor._PORTION = 1, 10_000
    paths = sorted((data / "linuxserver-docs-md").rglob("*.md"))[::24]
    paths += sorted((data / "awesome-compose").rglob("README.md"))[::6]
    documents = [
        DocumentText(NodeRef("Document", ("test", p.name), p.name), p.read_text("utf-8"), "text/markdown")
        for p in paths
    ]
    for tier in (ProseExtractor(), RelationExtractor(processes)):
        found = list(tier.interpret(documents))
        said = "\\n".join(map(repr, found)).encode()
        print(hashlib.sha256(said).hexdigest(), sum(len(one.edges) for one in found))
"""


def test_both_tiers_say_the_same_in_any_number_of_processes_and_with_any_hash_seed(tmp_path) -> None:
    script = tmp_path / "read.py"  # A file, since processes that are spawned import it.
    script.write_text(READ)

    def said(processes: int, seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(
            [sys.executable, str(script), str(DATA), str(processes)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    first = said(1, "0")
    numbers = [int(line.split(" ")[1]) for line in first.splitlines()]
    assert len(numbers) == 2 and min(numbers) > 0
    assert said(3, "1") == first
