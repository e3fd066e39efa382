"""HAProxy: frontends, listeners and backends as routes (``docs/formats.md``)."""

from taboot_pipelines.extraction.tier_a.haproxy.reader import HaproxyReader, looks_like_haproxy

__all__ = ["HaproxyReader", "looks_like_haproxy"]
