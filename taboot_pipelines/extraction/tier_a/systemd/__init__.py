"""systemd's units and Podman's quadlets: services, what they depend on, their ports and networks."""
