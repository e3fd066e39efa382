"""Every mention in a text, each kind looked for in what the surer ones left."""

from __future__ import annotations

from taboot_pipelines.extraction.tier_a.prose.addresses import find_addresses
from taboot_pipelines.extraction.tier_a.prose.images import find_images
from taboot_pipelines.extraction.tier_a.prose.scan import Mention, Scan
from taboot_pipelines.extraction.tier_a.prose.urls import find_urls

#: Of what a document mentions, the images of Compose files in its fences included.
PROSE_VERSION = "16"


def find_mentions(text: str, code: bool = False) -> list[Mention]:
    """Every mention in ``text``, by start, without overlap: a URL goes over an image, that over a CIDR,
    host:port and IP.

    ``code``: the whole text is code (YAML, a conf), where bare names with a port count. Never raises; linear
    time.
    """
    scan = Scan(text, code)
    find_urls(scan)
    find_images(scan)
    find_addresses(scan)
    return sorted(scan.found, key=lambda m: m.start)
