"""Documents that people uploaded (type ``uploads``), by ``taboot upload`` or ``KnowledgeBase.upload``, and
texts that they handed in with facts.

Their bytes lie in the blob store already, and the catalog says which path has which, so that reading the
source asks for no file and no server. Uploading the same path again is an edit of the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from pydantic import Field, model_validator

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import Language, SourceEntry
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.model.ids import digest, uploads_source
from taboot_pipelines.model.records import Enumerated, Event, Known, KnownItems, Skipped, Stored, Unchanged


class UploadsSource(SourceEntry):
    """What was uploaded to a namespace. It is there without an entry too; an entry says how long documents
    are kept, and the like."""

    type: Literal["uploads"]
    languages: list[Language] = Field(
        default_factory=list, description="ISO 639 codes of the languages that are kept; default: all."
    )

    @model_validator(mode="after")
    def _its_own(self) -> UploadsSource:
        if self.id != uploads_source(self.namespace):
            raise ValueError(f"must have the id {uploads_source(self.namespace)} in this namespace")
        return self


class UploadsConnector:
    """Tells what was uploaded, by path."""

    def __init__(self, entry: UploadsSource, access: Access) -> None:
        self._uploaded = access.uploaded

    def plan(self) -> Iterator[Planned]:
        """How many documents there are; nothing is asked for."""
        items = self._uploaded()
        yield Planned(
            "uploaded documents", requests=0, items=len(items), bytes=sum(x.byte_size for x in items)
        )

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """What is as it was, then what is new, was replaced or was deleted, by path."""
        etags = known.etags if isinstance(known, KnownItems) else {p: x.etag for p, x in known.items()}
        items = {x.path: x for x in self._uploaded()}
        same = {p: x for p, x in items.items() if etags.get(p) == digest(*x) and not tombstoned(p)}
        if same:
            yield Unchanged(dict.fromkeys(same, "document"))
        for path, x in items.items():
            if tombstoned(path):
                yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            elif path not in same:
                yield Stored(
                    path,
                    x.sha256,
                    x.byte_size,
                    mime=x.mime,
                    charset=x.charset,
                    url=x.url,
                    final_url=x.final_url,
                    etag=digest(*x),
                )
        # Nothing leaves the catalog by itself: what is not there any more was taken back with its fact.
        yield Enumerated(True, confirmed=True)
