"""Tier A extraction from Docker Compose projects."""
