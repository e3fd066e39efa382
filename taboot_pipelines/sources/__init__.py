"""Source types: what one is, which there are, and the file that names the sources.

A type is one class, a :class:`SourceKind`: it says the model of its entries, what reads them, what renders
their documents, which extractors read them, and what its documents are to the house. Its parts lie in the
packages beside this one (``connectors``, ``documents``, ``extraction``), which know nothing of each other nor
of types; nothing above this package knows a type by its name.

Begin with ``kind``; ``builtin`` has the types of this project, ``registry`` adds those of installed packages.
``sources_file`` reads and checks the sources file and writes its JSON Schema, ``survey`` looks around for
what one may name. Importing this page imports no part of a type.
"""

from __future__ import annotations

from taboot_pipelines.sources.kind import Beginning, SourceKind, Stance
from taboot_pipelines.sources.registry import (
    SOURCE_KINDS,
    document_forms,
    open_connector,
    source_kind,
    source_kinds,
    stance_of,
    type_names,
)

__all__ = [
    "SOURCE_KINDS",
    "Beginning",
    "SourceKind",
    "Stance",
    "document_forms",
    "open_connector",
    "source_kind",
    "source_kinds",
    "stance_of",
    "type_names",
]
