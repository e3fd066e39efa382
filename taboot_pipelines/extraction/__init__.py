"""From text to observations; tier A by deterministic parsers."""
