"""The chain from a sources file to a knowledge base. Dagster's assets run it, and so do tests and notebooks.

What belongs here: what runs in which order over which stores, under which lease, and what is published when.
What does not: how bytes are parsed, what a file says, how names resolve, how a shard is laid out. Those are
pure packages below, which stages call; only ``defs/`` above imports Dagster.

Read ``chain.py`` first: it says every stage, what it needs and what it publishes, and all lists of stages,
tables and servers are derived from it.

* The chain: ``stage.py`` (what a stage is), ``chain.py`` (all of them), ``deriving.py`` (running those of a
  source: lease, upstream, lost tables), ``running.py`` (running a partition, and what is finished at its
  end).
* Stages of a source: ``raw_blobs``, ``documents``, ``chunks``, ``embeddings``, ``tier_a_triples``. Each is a
  ``run(work)`` that compares what it wants with what its tables hold, does the difference and publishes.
* Stages of the namespace: ``entity_snapshots``, and what serves it: ``kb_shards``, ``qdrant_points`` and
  ``neo4j_subgraph``. The two servers share ``ServerTarget`` of ``stage.py``; ``snapshot.py`` gives them the
  snapshot's rows.
* Beside the chain: ``deletion``, ``decisions``, ``reinterpretation``, ``dry_run``, ``storage_audit``,
  ``dead_letters``, ``housekeeping``, ``health``.
* What all use: ``workspace.py`` (everything opened from the settings), ``report.py``, ``progress.py``.
"""
