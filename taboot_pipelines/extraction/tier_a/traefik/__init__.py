"""Traefik: dynamic configuration of the file provider, what its API tells, and its Kubernetes resources
(``docs/formats.md``). Docker labels belong to Compose projects, and are read with them.

``rules`` reads what a router's rule says, for all of these; ``dynamic`` follows routers to servers; ``files``
and ``ingress_routes`` are the readers.
"""
