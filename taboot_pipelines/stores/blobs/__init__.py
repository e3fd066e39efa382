"""Blobs: the raw bytes that everything is derived from, stored once per namespace by their SHA-256 (rule
``bytes-first``).

There is one backend, ``obstore``: one library and one class serve the directory (the default) and the object
store of ``TABOOT_BLOB_URL``. A protocol would describe nothing but that class, so there is none. Where bytes
came from and whether they are still alive is for the catalog.
"""

from __future__ import annotations

from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.blobs.obstore import UNREADABLE, BlobStore, in_bucket, in_directory
from taboot_pipelines.stores.objects import place

__all__ = ["UNREADABLE", "BlobStore", "open_blobs"]


def open_blobs(settings: Settings) -> BlobStore:
    """Open the blobs at ``TABOOT_BLOB_URL``, by default those of the home. Asks no server.

    Raises ``E_CONFIG`` for a wrong URL, ``E_STORAGE`` for a directory that cannot be made.
    """
    home = settings.home_dir
    if not settings.blob_url:
        return in_directory(home / "blobs")
    at = place("TABOOT_BLOB_URL", settings.blob_url, settings.storage)
    waiting = in_directory(home / "uploads")
    if at.directory is not None:
        return in_directory(at.directory, waiting)
    return in_bucket(at, waiting)
