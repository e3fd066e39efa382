"""Prometheus' configuration: what is asked for metrics, and where alerts and samples go."""

from taboot_pipelines.extraction.tier_a.prometheus.reader import PrometheusReader, looks_like_prometheus

__all__ = ["PrometheusReader", "looks_like_prometheus"]
