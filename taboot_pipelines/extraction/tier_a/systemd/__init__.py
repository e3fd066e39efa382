"""systemd's units and Podman's quadlets: services, what they depend on, their ports and networks."""

from taboot_pipelines.extraction.tier_a.systemd.reader import SystemdReader, is_unit_path

__all__ = ["SystemdReader", "is_unit_path"]
