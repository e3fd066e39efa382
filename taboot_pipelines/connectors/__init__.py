"""Source configuration in, raw items out: the sources file and one connector per source type."""
