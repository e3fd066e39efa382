"""Connectors: an entry of the sources file in, the raw items of that source out.

One module per source type, which has its name. It holds the model of the type's entries, its reader, and
``SOURCE``, which joins the two. What these modules share:

* ``entries``: what every entry has, and field types of entries
* ``access``: all that a connector may use (paths, limits, HTTP, secrets, clock, state, injected readers)
* ``protocol``: what a connector and a source type are
* ``registry``: the one list of source types; ``sources_file`` reads and checks the file by it and writes its
  JSON Schema
* ``walk``, ``globs``: directories and patterns; ``files`` has what readers of directories share besides
* ``web_lists``, ``web_captures``: parts of ``web``; ``gmail_entry``, ``gmail_api``, ``gmail_imap``,
  ``gmail_files``: parts of ``gmail``

A connector knows neither the catalog nor a stage, and does not interpret what it reads: bytes and what the
origin says of them go out as events (``model.records``), and ``stages.raw_blobs`` stores them. What a
connector needs from a package beside this one, such as the files that a Compose text names, the stage
injects by ``Access``.

To add a source type:

1. Write ``connectors/<type>.py``: a subclass of ``SourceEntry`` (of ``DirectorySource`` for a directory) with
   ``type: Literal["<type>"]`` and a description for each field; a class with ``events``; and
   ``SOURCE = SourceKind(<the entry model>, <the class>)``. The type is one that ``model.graph.SourceType``
   names.
2. Name it in ``registry``.
3. Write the schema again (``taboot schema > taboot_pipelines/connectors/sources.schema.json``) and the page
   (``python docs/generate.py``).
4. Test it, and add its smallest entry to ``taboot_pipelines_tests/connectors/test_registry.py``, which holds
   every source type to what is said here.
"""

from __future__ import annotations

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import SourceEntry
from taboot_pipelines.connectors.protocol import Connector, SourceKind
from taboot_pipelines.connectors.registry import SOURCE_KINDS
from taboot_pipelines.errors import TabootError

__all__ = ["SOURCE_KINDS", "Access", "Connector", "SourceEntry", "SourceKind", "open_connector"]


def open_connector(entry: SourceEntry, access: Access) -> Connector:
    """Open the connector of ``entry``. No I/O happens before its ``events`` are iterated.

    Raises ``E_SOURCES`` for an entry whose type has no connector.
    """
    kind = SOURCE_KINDS.get(entry.type)
    if kind is None:
        raise TabootError("E_SOURCES", f"The type of source {entry.id} has no connector.", source=entry.id)
    return kind.connect(entry, access)
