"""The circuit breaker around requests to a server.

If the state of the circuit cannot be read or written, no error is hidden and no work stops.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.state.keys import SERVER_REST_SECONDS


@contextlib.contextmanager
def circuit(workspace: Workspace, namespace: str, name: str, code: str) -> Iterator[None]:
    """Count each error with the code ``code`` in the block as a failure of the server ``name``.

    Raises ``E_CIRCUIT_OPEN`` at once while the circuit is open.
    """
    rest = workspace.hints.ask(lambda state: state.circuit_open(namespace, name), 0.0)
    if rest > 0:
        raise TabootError(
            "E_CIRCUIT_OPEN",
            f"{name.rpartition(':')[2].capitalize()} failed repeatedly; namespace {namespace} tries it again"
            f" in {rest:.0f} s.",
            wait_seconds=round(rest),
        )
    try:
        yield
    except TabootError as error:
        if error.code == code:
            workspace.hints.ask(
                lambda state: state.circuit_failed(namespace, name, rest_seconds=SERVER_REST_SECONDS), False
            )
        raise
    workspace.hints.ask(lambda state: state.circuit_succeeded(namespace, name), None)
