"""Tier A extraction from nginx configuration, SWAG's proxy confs included."""

from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor

__all__ = ["NginxExtractor"]
