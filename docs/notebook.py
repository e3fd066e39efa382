"""Write and execute ``examples/homelab.ipynb``: ``python docs/notebook.py``, with TABOOT_HOME naming an
ingested homelab.

Outputs are kept, without the paths of the machine that made them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat.v4
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "homelab.ipynb"
MAX_PLAIN = 2000

CELLS = [
    (
        "markdown",
        """
# The homelab, asked from a notebook

`make demo` has read the folder `homelab` beside this notebook into a knowledge base: Compose projects, nginx
confs, runbooks, HTML pages, mail, a chat, and what the tailnet and the network say of a made-up house. Here
it is asked. Nothing needs to run for that, and no model is called but the small embedder that came with the
installation.
""",
    ),
    (
        "code",
        """
import os
from pathlib import Path

os.environ.setdefault("TABOOT_HOME", "../.taboot-demo")  # where `make demo` puts it

import pandas as pd

from taboot_pipelines import KnowledgeBase

pd.set_option("display.max_colwidth", 90)
kb = KnowledgeBase.open()
""",
    ),
    (
        "markdown",
        """
## What was ingested

One row per source: its last job, and how the items that it found add up.
""",
    ),
    (
        "code",
        """
import json
import subprocess
import sys

status = json.loads(subprocess.check_output([Path(sys.executable).with_name("taboot"), "status", "--json"]))
ingested = pd.DataFrame(
    {"source": s["id"], "type": s["type"], **s["last_job"], **s["dead_letters"]} for s in status["sources"]
)
ingested[["source", "type", "state", "discovered", "complete", "failed", "skipped"]]
""",
    ),
    (
        "markdown",
        (
            "What was turned away is listed with its reason. The German runbook is: its source takes English"
            " only."
        ),
    ),
    (
        "code",
        """
pd.DataFrame(status["dead_letters"])[["source", "stage", "item", "code", "message"]]
""",
    ),
    (
        "markdown",
        """
## What is known

The kinds of things that the sources speak of, and how many relations of which kind join them.
""",
    ),
    (
        "code",
        """
kb.show()
""",
    ),
    (
        "markdown",
        """
## Search

By meaning and by words at once; the words of the query are marked, and a passage opens to the whole chunk.
Filters are exact: only runbooks here, and only those dated 2026.
""",
    ),
    (
        "code",
        """
found = kb.search("restore a database from backup", limit=5, source="runbooks", date_from="2026-01-01")
found
""",
    ),
    (
        "code",
        """
hits = kb.search("tls certificate", limit=5, type=["compose", "swag"])
hits.to_pandas()[["score", "source", "title", "line", "text"]]
""",
    ),
    (
        "markdown",
        """
What the modes find for one query, side by side, with the rank and score of each text in each.
""",
    ),
    (
        "code",
        """
kb.compare("which port does grafana listen on", limit=4)
""",
    ),
    (
        "markdown",
        """
Why a document is not among the hits: its passages, followed through every step of the search.
""",
    ),
    (
        "code",
        """
kb.why_not("redis.md", "restore a database from backup", limit=5)
""",
    ),
    (
        "markdown",
        """
## A cited answer

Sentences as they stand in the documents, each with the file and line it came from.
""",
    ),
    (
        "code",
        """
answer = kb.answer("Which port does Grafana listen on?", limit=3)
answer
""",
    ),
    (
        "markdown",
        """
Where nothing answers, that is said, with what comes nearest. How often it is right in a house shows with
questions whose answers somebody knows; `kb.evaluate` takes a file of them too.
""",
    ),
    (
        "code",
        """
kb.answer("When will Authelia be upgraded?")
""",
    ),
    (
        "code",
        """
kb.evaluate(
    [
        {"kind": "ports", "question": "Which port does Grafana listen on?", "must": [r"\\b3010\\b"]},
        {"kind": "runbooks", "question": "What is not backed up?", "must": ["films", "metrics"]},
        {"kind": "none", "question": "When will Authelia be upgraded?"},
    ]
)
""",
    ),
    (
        "markdown",
        """
## A typed query

What programs ask has no wording: a query is called by its name, returns rows, each with its place, and says
whether there is provably no other. `kb.queries()` lists them all.
""",
    ),
    (
        "code",
        """
kb.query("impact", service="redis")
""",
    ),
    (
        "markdown",
        """
## Neighbours

What surrounds Grafana, by the relations that Compose and nginx state. In JupyterLab the picture can be asked:
under the pointer a relation says its properties and the line that states it, a click on a node or on a label
of the legend leaves what has to do with it, dragging moves it, Ctrl and the wheel zoom, a double click takes
all that back. Elsewhere, as on GitHub, the same picture stands still.
""",
    ),
    (
        "code",
        """
around = kb.neighbors(
    "grafana", types=["DEPENDS_ON", "CONNECTS_TO", "ROUTES_TO", "BINDS", "RUNS_IN", "BUILDS"]
)
around
""",
    ),
    (
        "markdown",
        """
## From a public name to the tailnet

The shortest way between two nodes: the proxy that serves the name, the service, its container, the
host that runs it, and what that is in the tailnet. Each step but the declaration has its file and line.
""",
    ),
    (
        "code",
        """
kb.path("paper.hearth.example", "hearth-lan.tail5e1f.ts.net")
""",
    ),
    (
        "markdown",
        """
## Why does it say that?

`explain` reads the stored bytes again, checks their hash and quotes the statement behind an edge. Each end
says on what it rests: here the port stands in the quote, the service is the one whose definition holds it,
and the host is what `sources.yaml` says.
""",
    ),
    (
        "code",
        """
binds = next(e for e in around.edges if e.type == "BINDS")
kb.explain(binds)
""",
    ),
    (
        "markdown",
        """
## What cannot both be so

A README of the house has a port that Jellyfin gave up. `drift()` compares what text says with what
configuration declares, and configuration with itself, and quotes both sides.
""",
    ),
    (
        "code",
        """
kb.drift()
""",
    ),
    ("markdown", "A secret in a quoted statement is masked, here as everywhere but in the blob:"),
    (
        "code",
        """
token = kb.search("ADMIN_TOKEN vaultwarden", limit=1, source="stacks", mode="keyword").hits[0]
print(next(line for line in kb.explain(token).quote.splitlines() if "ADMIN_TOKEN" in line))
""",
    ),
    (
        "markdown",
        """
## The whole graph as tables

`nodes()` and `edges()` are Arrow tables of everything, so questions that nobody foresaw are a few lines of
pandas.
""",
    ),
    (
        "code",
        """
nodes, edges = kb.nodes().to_pandas(), kb.edges().to_pandas()
edges.groupby(["type", "start_label", "end_label"]).agg(
    edges=("edge_id", "size"), documents=("doc_id", "nunique"), confidence=("confidence", "min")
)
""",
    ),
    (
        "markdown",
        "Which services do most others lean on, and how many of the house's documents speak of them?",
    ),
    (
        "code",
        """
leaning = edges[edges["type"].isin(["DEPENDS_ON", "CONNECTS_TO"]) & (edges["end_label"] == "Service")]
leaned_on = leaning.groupby("end_key")["start_key"].nunique()
services = nodes[nodes["label"] == "Service"].set_index("key")
table = services[["name", "scope"]].assign(dependents=leaned_on, documents=services["doc_ids"].str.len())
table = table.dropna().astype({"dependents": int})
table.sort_values(["dependents", "name"], ascending=[False, True]).head(8).reset_index(drop=True)
""",
    ),
    ("markdown", "Which ports of the Docker host are taken, by whom, and where is that written?"),
    (
        "code",
        """
ports = edges[edges["type"] == "BINDS"].copy()
ports["port"] = ports["properties"].map(lambda p: json.loads(p)["port"])
ports["protocol"] = ports["properties"].map(lambda p: json.loads(p)["protocol"])
columns = ["port", "protocol", "start_name", "url", "line"]
ports.sort_values(["port", "protocol"])[columns].reset_index(drop=True)
""",
    ),
]


def build() -> Any:
    """The notebook without outputs."""
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    # Ids by position: the file changes only where its content does.
    cells = [make[kind](text.strip(), id=f"cell-{n:02}") for n, (kind, text) in enumerate(CELLS)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}}
    )


def execute(notebook: Any) -> Any:
    """Run every cell in ``examples/``; the first error ends it."""
    return NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOK.parent)}}
    ).execute()


def without_machine(value: Any) -> Any:
    """Paths as seen from the repository, nothing about the execution itself."""
    if isinstance(value, str):
        return re.sub(rf"{re.escape(str(ROOT))}/?", "", value)
    if isinstance(value, list):
        return [without_machine(v) for v in value]
    if isinstance(value, dict):
        # A result that shows itself as HTML is not told a second time as the text of an object.
        told = "text/html" in value and len(value.get("text/plain", "")) > MAX_PLAIN
        return {
            k: without_machine(v)
            for k, v in value.items()
            if k != "execution" and not (told and k == "text/plain")
        }
    return value


def main() -> int:
    if "TABOOT_HOME" not in os.environ:
        print("Set TABOOT_HOME to an ingested homelab: `make demo` makes .taboot-demo.", file=sys.stderr)
        return 1
    os.environ["TABOOT_HOME"] = str(Path(os.environ["TABOOT_HOME"]).absolute())
    NOTEBOOK.write_text(
        json.dumps(without_machine(execute(build())), ensure_ascii=False, indent=1, sort_keys=True) + "\n",
        encoding="utf-8",
    )
    print(f"wrote {NOTEBOOK.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
