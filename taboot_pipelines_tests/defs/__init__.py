"""Tests of the Dagster project."""
