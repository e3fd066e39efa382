"""The chain: one module per asset, in the order of ``chain.STAGES``. Dagster's assets call these, and so do
tests.

Every stage is a function ``run(workspace, entry, progress) -> StageReport`` that takes its lease, compares
what it wants with what its tables hold, does the difference and publishes a pointer.
"""
