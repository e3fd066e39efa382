"""The URLs of one crawl: those that wait are handed out, what became of them and where they lead is taken in.

Nothing costs a statement per URL. Several processes may work at one crawl: a URL is handed to one of them
(SQLite has one writer at a time; on PostgreSQL the crawl's row is locked while URLs are handed out or taken
in, and rows that others hold are passed by). One of them leads the crawl, and takes over from the others what
they have read.
"""

from __future__ import annotations

from taboot_pipelines.stores.catalog.frontier.ending import Ending
from taboot_pipelines.stores.catalog.frontier.handing_out import HandingOut
from taboot_pipelines.stores.catalog.frontier.handing_over import HandingOver
from taboot_pipelines.stores.catalog.frontier.looking_back import LookingBack
from taboot_pipelines.stores.catalog.frontier.taking_in import TakingIn


class Frontier(HandingOut, TakingIn, HandingOver, LookingBack, Ending):
    """The frontier of one crawl for one claimant, by default this process."""
