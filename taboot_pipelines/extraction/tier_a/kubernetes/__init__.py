"""Kubernetes' manifests: workloads with their images and ports, services, ingresses and releases."""
