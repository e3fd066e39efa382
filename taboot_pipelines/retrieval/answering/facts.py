"""Answers out of the graph: for each kind of question the edges that answer it, said in a sentence, with
every edge as a citation.

What is *closed*: a service's ports, networks, dependencies and image are all in the file that declares it,
so that it has none is an answer too, cited at its declaration. What comes from elsewhere (who routes to it,
which name it has outside) is open, and then nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable

from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.dependencies import Dependencies
from taboot_pipelines.retrieval.answering.exposure import Exposure
from taboot_pipelines.retrieval.answering.house import House
from taboot_pipelines.retrieval.answering.images import Images
from taboot_pipelines.retrieval.answering.inventory import Inventory
from taboot_pipelines.retrieval.answering.networks import Networks
from taboot_pipelines.retrieval.answering.ports import Ports
from taboot_pipelines.retrieval.answering.routes import Routes
from taboot_pipelines.retrieval.answering.scoping import Scoped, subject_of
from taboot_pipelines.retrieval.answering.statements import MAX_SCOPES, Found


class Facts:
    """The typed patterns over one house."""

    def __init__(self, house: House, config: Config) -> None:
        routes, images, networks = Routes(house), Images(house), Networks(house)
        ports, dependencies = Ports(house, routes), Dependencies(house, images, networks)
        inventory, exposure = Inventory(house, routes), Exposure(house, config, routes)
        self._handlers: dict[str, Callable[[Scoped], Found | None]] = {
            "exposed": exposure.exposed,
            "admitted": exposure.admitted,
            "ports": lambda scoped: exposure.shared(scoped) or ports.ports(scoped),
            "port_owner": ports.port_owner,
            "publishers": ports.publishers,
            "images": images.images,
            "versions": lambda scoped: config.with_own_version(scoped, images.versions(scoped)),
            "image_users": images.image_users,
            "networks": networks.networks,
            "network_members": networks.network_members,
            "network_peers": networks.network_peers,
            "shared_networks": networks.shared_networks,
            "sharers": networks.sharers,
            "dependencies": dependencies.dependencies,
            "conditions": dependencies.dependencies,
            "connections": dependencies.connections,
            "dependents": dependencies.dependents,
            "users": dependencies.users,
            "routes": routes.routes,
            "behind": routes.behind,
            "hostnames": lambda scoped: routes.hostnames(scoped) or exposure.shared(scoped),
            "proxy_scheme": routes.proxy_scheme,
            "proxied": routes.proxied,
            "proxy_hosts": routes.proxy_hosts,
            "tls": routes.tls,
            "auth": routes.auth,
            "location": inventory.location,
            "members": inventory.members,
            "project_of": inventory.project_of,
            "inventory": inventory.inventory,
            "container_name": inventory.container_name,
            "vpn": inventory.vpn,
            "vpn_users": inventory.vpn_users,
            "on_address": inventory.on_address,
            "ip": inventory.ip,
        }

    def find(self, kind: str, scoped: Scoped) -> Found | None:
        """What the graph says to a question of this kind; None if it says nothing."""
        handler = self._handlers.get(kind)
        found = handler(scoped) if handler is not None else None
        if found is not None and len(found.statements) == MAX_SCOPES:
            subject = subject_of(scoped)
            if subject is not None and len(subject[1]) > MAX_SCOPES:
                found.statements[-1].text += f" In all {len(subject[1])} services have that name."
        return found
