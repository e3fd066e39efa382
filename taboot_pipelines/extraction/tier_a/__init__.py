"""Tier A: what a format states, read by a parser, byte-identical for equal input and version."""
