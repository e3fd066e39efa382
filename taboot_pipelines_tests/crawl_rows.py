"""What became of a crawl, whole and sorted, for tests of small ones."""

from __future__ import annotations

from typing import Any

from taboot_pipelines.model.crawls import Crawl
from taboot_pipelines.stores.catalog.crawls import CrawlReports, Crawls


def rows_of(crawls: Crawls, crawl: Crawl, namespace: str = "n") -> list[dict[str, Any]]:
    """The URLs of a crawl by key, as the reports have them."""
    parts = CrawlReports(crawls.database).urls(namespace, crawl.crawl_id)
    return sorted((dict(row) for part in parts for row in part), key=lambda row: str(row["key"]))


def leads_of(crawls: Crawls, crawl: Crawl, namespace: str = "n") -> list[tuple[str, str]]:
    """Its links between URLs that are still known, as (key of the page, key of where it leads), sorted."""
    reports = CrawlReports(crawls.database)
    keys = {i: key for i, (key, _) in reports.places(namespace, crawl.crawl_id).items()}
    return sorted(
        (keys[page], keys[child])
        for pages in reports.leads(namespace, crawl.crawl_id)
        for page, children in pages
        for child in children
        if page in keys and child in keys
    )
