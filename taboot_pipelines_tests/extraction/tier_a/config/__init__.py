"""Configuration files that are recognised inside of a source."""
