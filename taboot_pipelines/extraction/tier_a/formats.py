"""The formats that are interpreted in sources with ``interpret: true``, in the order in which a file that
looks like two of them is decided.

A new format is a module beside this one with a reader (:class:`~.recognition.FormatReader`) and a line in
:data:`FORMATS`; a package outside the project adds one by an entry point of the group
``taboot_pipelines.formats``, whose name is that of the format. Compose and nginx files are none of these:
they stay with the source types of their own.
"""

from __future__ import annotations

import re
from functools import cache

from taboot_pipelines.extraction.tier_a.ansible_inventory import (
    InventoryReader,
    is_inventory_path,
    looks_like_inventory,
)
from taboot_pipelines.extraction.tier_a.caddy.adapted import CaddyJsonReader, looks_like_caddy_json
from taboot_pipelines.extraction.tier_a.caddy.sites import CaddyfileReader
from taboot_pipelines.extraction.tier_a.cloudflared import CloudflaredReader, looks_like_cloudflared
from taboot_pipelines.extraction.tier_a.dockerfiles import DockerfileReader, is_dockerfile_path
from taboot_pipelines.extraction.tier_a.haproxy.reader import HaproxyReader, looks_like_haproxy
from taboot_pipelines.extraction.tier_a.hosts_file import HostsReader, is_hosts_path
from taboot_pipelines.extraction.tier_a.kubernetes.reader import (
    ManifestReader,
    is_manifest_path,
    looks_like_manifest,
)
from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxReader, looks_like_nginx
from taboot_pipelines.extraction.tier_a.prometheus import PrometheusReader, looks_like_prometheus
from taboot_pipelines.extraction.tier_a.recognition import JSON, TOML, YAML, Format, base_name
from taboot_pipelines.extraction.tier_a.systemd.reader import SystemdReader, is_unit_path
from taboot_pipelines.extraction.tier_a.traefik.files import TraefikReader, looks_like_traefik
from taboot_pipelines.extraction.tier_a.traefik.ingress_routes import IngressRouteReader
from taboot_pipelines.extraction.tier_a.wireguard import WireguardReader, looks_like_wireguard
from taboot_pipelines.plugins import Plugins

_CADDYFILE = re.compile(r"(?i)caddyfile(?:\.(?!md$|html?$|json$)[^/]*)?|[^/]+\.(?:caddyfile|caddy)")
_ENABLED = re.compile(r"(?:^|/)sites-enabled/[^/.]+$")
_HAPROXY = re.compile(r"(?i)haproxy[^/]*\.(?:cfg|conf)")

FORMATS: tuple[Format, ...] = (
    Format(
        "dockerfile",
        (DockerfileReader(),),
        by_path=is_dockerfile_path,
        globs=(
            "[d]ockerfile",
            "[d]ockerfile[._-]*",
            "*.dockerfile",
            "[c]ontainerfile",
            "[c]ontainerfile[._-]*",
            "*.containerfile",
        ),
    ),
    Format(
        "systemd",
        (SystemdReader(),),
        by_path=is_unit_path,
        globs=("*.service", "*.socket", "*.container", "*.pod", "*.network", "*.kube"),
    ),
    Format(
        "hosts",
        # Inventories of Ansible are called so too; each reader tells its own.
        (HostsReader(), InventoryReader()),
        by_path=is_hosts_path,
        globs=("[h]osts", "[h]osts.*", "*.hosts", "**/[h]osts.d/*", "[c]ustom.list"),
    ),
    Format(
        "kubernetes",
        (ManifestReader(), IngressRouteReader()),
        by_path=is_manifest_path,
        by_content=looks_like_manifest,
        globs=("[k]ustomization",),
        endings=YAML | JSON,
    ),
    Format("cloudflared", (CloudflaredReader(),), by_content=looks_like_cloudflared, endings=YAML | JSON),
    Format("prometheus", (PrometheusReader(),), by_content=looks_like_prometheus, endings=YAML | JSON),
    Format("wireguard", (WireguardReader(),), by_content=looks_like_wireguard, endings=frozenset({"conf"})),
    Format(
        "caddyfile",
        (CaddyfileReader(),),
        by_path=lambda path: _CADDYFILE.fullmatch(base_name(path)) is not None,
        globs=("[c]addyfile", "[c]addyfile.*", "*.[c]addyfile", "*.[c]addy"),
    ),
    Format("caddy_json", (CaddyJsonReader(),), by_content=looks_like_caddy_json, endings=JSON),
    Format(
        "haproxy",
        (HaproxyReader(),),
        by_path=lambda path: _HAPROXY.fullmatch(base_name(path)) is not None,
        by_content=looks_like_haproxy,
        endings=frozenset({"cfg", "conf"}),
    ),
    Format(
        "nginx",
        (NginxReader(),),
        by_path=lambda path: _ENABLED.search(path) is not None,
        by_content=looks_like_nginx,
        endings=frozenset({"conf"}),
        templates=True,
        globs=("**/[s]ites-enabled/*",),
    ),
    Format(
        "traefik",
        (TraefikReader(),),
        by_content=looks_like_traefik,
        endings=YAML | TOML | JSON,
    ),
    Format(
        "ansible_inventory",
        (InventoryReader(),),
        by_path=is_inventory_path,
        by_content=looks_like_inventory,
        globs=("[i]nventory",),
        endings=YAML | {"ini"},
    ),
)


def _check(name: str, found: object) -> Format:
    if not isinstance(found, Format):
        raise ValueError("it is no taboot_pipelines.extraction.tier_a.recognition.Format")
    if found.name != name or any(name == known.name for known in FORMATS):
        raise ValueError(f"its name must be {name}, and no format of this project may have that name")
    if not found.readers or any(not (r.name and r.version) for r in found.readers):
        raise ValueError("it needs readers, each with a name and a version")
    return found


PLUGINS = Plugins("taboot_pipelines.formats", "format of configuration", _check)


@cache
def all_formats() -> tuple[Format, ...]:
    """Those of this project, then those of packages that can be used: a package takes no file from a format
    that was there before it."""
    added = (found for _, found in PLUGINS.each() if isinstance(found, Format))
    return (*FORMATS, *added)


def config_globs() -> tuple[str, ...]:
    """The globs of all formats, which sources that interpret take besides their own."""
    return tuple(glob for known in all_formats() for glob in known.globs)
