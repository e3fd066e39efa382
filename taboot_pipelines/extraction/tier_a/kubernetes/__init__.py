"""Kubernetes' manifests: workloads with their images and ports, services, ingresses and releases."""

from taboot_pipelines.extraction.tier_a.kubernetes.reader import (
    ManifestReader,
    is_manifest_path,
    looks_like_manifest,
)

__all__ = ["ManifestReader", "is_manifest_path", "looks_like_manifest"]
