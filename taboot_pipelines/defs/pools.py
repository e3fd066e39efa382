"""Pools: how many steps of a kind run at once on one instance.

The limits are kept by the instance (UI: Deployment, Concurrency). A slot belongs to a run, wherever its steps
are carried out, so the pools hold for every executor and for ``taboot ingest``.
"""

from __future__ import annotations

from collections.abc import Mapping

from taboot_pipelines.stages.stage import Uses

#: Fetching: waits for disks and servers.
INGEST = "ingest"
#: Embedding: the machine's cores, or the server's batch queue.
EMBED = "embed"
#: Asking a chat model: waits for its server, which all sources share.
LLM = "llm"
#: Snapshot and shards: they share the namespace's lease anyway, so a step that waits should not
#: occupy a process.
KNOWLEDGE = "knowledge"

#: The pool of a stage, by what it uses.
POOLS: Mapping[Uses, str] = {"fetch": INGEST, "embed": EMBED, "model": LLM, "compute": KNOWLEDGE}

#: Slots of the pools that differ from the instance's ``default_limit``.
LIMITS = {INGEST: 4}
