"""Failures of PostgreSQL as errors of ours: which of them pass, so that a transaction may be run again."""

from __future__ import annotations

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.postgres import Failure


class TryAgain(TabootError):
    """``E_CATALOG`` of a transaction that was surely not committed and may succeed when run again."""


def as_error(found: Failure, *, committing: bool = False) -> TabootError:
    """The error to raise for a failure: :class:`TryAgain` if it passes, else a plain ``E_CATALOG``.

    ``committing``: it met the commit itself, which may have happened unless the server says that it did not.
    """
    rolled_back = found.words in ("serialization failure", "deadlock")
    kind = TryAgain if found.transient and (not committing or rolled_back) else TabootError
    return kind("E_CATALOG", f"The catalog failed: {found.words}.", reason=found.words)
