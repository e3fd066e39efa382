"""HAProxy: frontends, listeners and backends as routes (``docs/formats.md``)."""
