"""Says by one hash what a source's entry and the settings have a run of it read."""

from __future__ import annotations

from taboot_pipelines.connectors.entries import DirectorySource, RecordedSource
from taboot_pipelines.connectors.files import source_directory
from taboot_pipelines.model import ids
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.workspace import Entry


def fingerprint(settings: Settings, entry: Entry) -> str | None:
    """Return the hash of everything that decides what a run of the source takes in; None if it is retiring.

    That is each field of the entry but its ``schedule``, the directory that its path leads to, and the limits
    on what is read. A job keeps the hash that it began with, so a source whose last job was another one's, or
    the one that retired it, is known to wait for a run.
    """
    if entry.retiring:
        return None
    config, limits = entry.config, settings.limits
    told = config.model_dump(mode="json", exclude={"id", "namespace", "schedule"})
    if isinstance(config, DirectorySource | RecordedSource) and config.path is not None:
        told["path"] = str(source_directory(config.path, entry.root).absolute())
    return ids.digest(told, limits.max_blob_bytes, limits.max_document_chars)
