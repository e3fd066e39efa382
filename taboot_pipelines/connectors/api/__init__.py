"""What the connectors of sources with an API share.

* ``client``: one request and its answer, within what a run may ask (on :mod:`taboot_pipelines.http`)
* ``tokens``: an OAuth access token, renewed in time
* ``resources``: what an API said as the bytes of a blob, and what makes it another version

The address of an API is the operator's word: it may be private. What its answers link to is not.
"""

from __future__ import annotations

from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.api.resources import canonical, item, version_of
from taboot_pipelines.connectors.api.tokens import AccessToken, Grant
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.throttling import seconds_to_wait

__all__ = [
    "AccessToken",
    "Answer",
    "ApiClient",
    "Grant",
    "Limits",
    "canonical",
    "item",
    "seconds_to_wait",
    "version_of",
]
