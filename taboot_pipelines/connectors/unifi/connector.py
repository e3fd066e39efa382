"""The connector of type ``unifi``: the objects of a controller, or of exported JSON.

What makes an object of a controller another version of itself: not its counters, loads and clocks.

The names were chosen by looking at recorded objects: gateways, access points, switches, power units and
clients as they were, and what their members mean. What is measured, counted or told by a clock is volatile;
what is configured, connected or addressed is not. An access point's choice of a channel is measured, where a
client roams is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import Field, StringConstraints, model_validator

from taboot_pipelines.connectors.access import Access, SecretReference, VariableName, secret_of
from taboot_pipelines.connectors.api.client import Limits
from taboot_pipelines.connectors.api.resources import item, version_of
from taboot_pipelines.connectors.entries import BoundedSource, PathText, RecordedSource
from taboot_pipelines.connectors.files import source_directory
from taboot_pipelines.connectors.globs import Globs
from taboot_pipelines.connectors.protocol import Connector, Planned
from taboot_pipelines.connectors.recorded import Part, RecordedFile, RecordedFiles
from taboot_pipelines.connectors.unifi.client import Controller, Flavor, tls_context
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Checkpoint, Enumerated, Event, Failed, Fetched, Known, Skipped

_DEFAULT_INCLUDE = ("*.json", "*.jsonl", "*.ndjson")
_JSON = re.compile(rb"[\x00\s]*[\[{]")
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_A_MEMBER = re.compile(rb'"\s*:')
#: Members of which every object of a controller, or the envelope around it, has one.
_OF_A_CONTROLLER = re.compile(
    rb'"(?:_id|site_id|unique_id|mac|macAddress|rc|record_type|fwd|fwd_port|networkgroup|purpose|ip_addrs'
    rb"|internalReference|totalCount|vlanId|zoneId|networkIds|adopted|authorizedGuestLimit|targetDomain"
    rb"|ipv4Address|ipv6Address|securityConfiguration|applicationVersion|hardwareId|server_version)"
    rb'"\s*:|"type"\s*:\s*"(?:WIREGUARD|OPENVPN|L2TP|PPTP|IPSEC|UID)"'
)
#: Sites that an error names.
_MAX_SHOWN = 20
#: With these the rest of the run would end as well.
_ENDS_THE_RUN = frozenset({"E_REQUESTS", "E_CIRCUIT_OPEN", "E_CREDENTIALS", "E_429_RATE"})

T = TypeVar("T")

SiteName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class UnifiSource(RecordedSource, BoundedSource):
    """A UniFi controller, or a directory of JSON that was exported from one."""

    type: Literal["unifi"]
    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")] | None = Field(
        None, description="The controller, such as `https://192.168.1.1` or `https://unifi.lan:8443`."
    )
    api_key: SecretReference | None = Field(
        None, description="An API key of UniFi OS, as `${NAME}` of the environment variable that holds it."
    )
    api_key_env: VariableName | None = Field(None, description="The same, by the variable's name alone.")
    username: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="A local account without a second factor; the role of a viewer is enough."
    )
    password: SecretReference | None = Field(
        None, description="Its password, as `${NAME}` of the environment variable that holds it."
    )
    password_env: VariableName | None = Field(None, description="The same, by the variable's name alone.")
    flavor: Flavor | None = Field(
        None, description="What it is: UniFi OS, or a controller that is installed; default: it is asked."
    )
    verify_tls: bool = Field(True, description="Whether its certificate must be trusted.")
    ca_file: PathText | None = Field(
        None,
        description="The certificates to trust, its own for example, as PEM; relative to the sources file.",
    )
    sites: list[SiteName] = Field(
        default_factory=list, description="Names or descriptions of the sites that are read; default: all."
    )
    clients: Literal["connected", "known", "none"] = Field(
        "connected",
        description="Which clients are read: those connected, all that were ever seen besides, or none.",
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> UnifiSource:
        if (self.path is None) == (self.base_url is None):
            raise ValueError("needs either `path` or `base_url`")
        key = self.api_key is not None or self.api_key_env is not None
        password = self.password is not None or self.password_env is not None
        account = self.username is not None and password
        if self.base_url is not None and key == account:
            raise ValueError("needs either `api_key` or `username` with `password` beside `base_url`")
        if password != (self.username is not None):
            raise ValueError("needs `username` and `password` together")
        if (self.api_key and self.api_key_env) or (self.password and self.password_env):
            raise ValueError("names a secret twice")
        return self


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of objects of a site. ``path``: of the interface, ``{site}`` for the site's name or id. ``key``:
    the member that names an object. ``detailed``: the objects say more when asked for one by one."""

    folder: str
    path: str
    key: str = "_id"
    detailed: bool = False


_CLASSIC = (
    Listing("devices", "/api/s/{site}/stat/device", key="mac"),
    Listing("clients", "/api/s/{site}/stat/sta", key="mac"),
    Listing("users", "/api/s/{site}/rest/user", key="mac"),
    Listing("networks", "/api/s/{site}/rest/networkconf"),
    Listing("wlans", "/api/s/{site}/rest/wlanconf"),
    Listing("port-forwards", "/api/s/{site}/rest/portforward"),
    Listing("firewall-rules", "/api/s/{site}/rest/firewallrule"),
    Listing("firewall-groups", "/api/s/{site}/rest/firewallgroup"),
    Listing("firewall-policies", "/v2/api/site/{site}/firewall-policies"),
    Listing("firewall-zones", "/v2/api/site/{site}/firewall/zone"),
    Listing("dns", "/v2/api/site/{site}/static-dns"),
    Listing("traffic-rules", "/v2/api/site/{site}/trafficrules"),
    Listing("traffic-routes", "/v2/api/site/{site}/trafficroutes"),
)
_INTEGRATION = (
    Listing("devices", "/sites/{site}/devices", key="macAddress", detailed=True),
    Listing("clients", "/sites/{site}/clients", key="id"),
    Listing("networks", "/sites/{site}/networks", key="id", detailed=True),
    Listing("wlans", "/sites/{site}/wifi/broadcasts", key="id"),
    Listing("firewall-policies", "/sites/{site}/firewall/policies", key="id"),
    Listing("firewall-zones", "/sites/{site}/firewall/zones", key="id"),
    Listing("dns", "/sites/{site}/dns/policies", key="id"),
    Listing("vpn-servers", "/sites/{site}/vpn/servers", key="id"),
    Listing("vpn-tunnels", "/sites/{site}/vpn/site-to-site-tunnels", key="id"),
)
_CLIENT_FOLDERS = {"connected": ("clients",), "known": ("clients", "users"), "none": ()}


@dataclass(frozen=True, slots=True)
class Site:
    """A site. ``name``: as the classic interface calls it. ``said``: the object that says so. ``id``: of the
    integration API, where that is asked."""

    name: str
    said: Mapping[str, Any]
    id: str | None = None

    @property
    def folder(self) -> str:
        return f"sites/{_component(self.name)}"


class UnifiConnector:
    """Reads a controller by its API."""

    def __init__(self, entry: UnifiSource, access: Access) -> None:
        self._entry = entry
        self._access = access
        self._include, self._exclude = Globs(entry.include), Globs(entry.exclude)
        self._problems: list[str] = []
        self._items = 0

    # --- what a run asks ------------------------------------------------------------------------------------

    def plan(self) -> Iterator[Planned]:
        """The lists of each site. Raises as :meth:`events` does."""
        controller = self._open()
        try:
            for site in self._sites(controller):
                classic = self._is_classic(controller, site)
                listings = self._listings(classic)
                yield Planned(
                    f"site {site.name}",
                    requests=len(listings) if classic else None,
                    note="" if classic else f"{len(listings)} lists, and each device and network by itself",
                )
        finally:
            controller.close()

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises before the first event where the controller cannot be reached, lets nobody in, or does not
        name its sites (``E_CONFIG``, ``E_CREDENTIALS``, ``E_NETWORK`` …)."""
        self._problems, self._items = [], 0
        controller = self._open()
        try:
            sites = self._sites(controller)
            try:
                for at, site in enumerate(sites):
                    yield from self._site(controller, site, at == 0, known, tombstoned)
                    yield Checkpoint()
            except _Ended as ended:
                self._problems.append(ended.reason)
        finally:
            controller.close()
        yield Enumerated(not self._problems, "; ".join(self._problems[:5]))

    def _open(self) -> Controller:
        entry, access = self._entry, self._access
        assert entry.base_url is not None
        password = secret_of(access, entry.password, entry.password_env)
        ca_file = source_directory(entry.ca_file, access.root) if entry.ca_file is not None else None
        return Controller(
            entry.base_url,
            key=secret_of(access, entry.api_key, entry.api_key_env),
            account=(entry.username or "", password) if password is not None else None,
            flavor=entry.flavor,
            tls=tls_context(entry.verify_tls, ca_file),
            limits=Limits(
                max_requests=entry.max_requests,
                max_wait_seconds=float(entry.max_wait_seconds),
                timeout_seconds=access.http.settings.total_timeout_seconds,
            ),
        )

    def _sites(self, controller: Controller) -> list[Site]:
        if controller.by_key:
            sites = [
                Site(_text(one, "internalReference") or _text(one, "id"), one, _text(one, "id"))
                for one in controller.pages("/sites", required=True)
            ]
        else:
            sites = [Site(_text(one, "name"), one) for one in controller.listed("/api/self/sites") or []]
        sites = [site for site in sites if site.name]
        wanted = set(self._entry.sites)
        if wanted:
            found = {
                site.name: {site.name, site.id, _text(site.said, "desc"), _text(site.said, "name")}
                for site in sites
            }
            if missing := sorted(wanted - set().union(*found.values())):
                raise TabootError(
                    "E_NOT_FOUND",
                    f"The controller has no site {missing[0]!r} for this account, but {_listed(sites)}.",
                    remedy="Name the sites as the controller does, or give the account a right to them.",
                    source=self._entry.id,
                )
            sites = [site for site in sites if found[site.name] & wanted]
        if not sites:
            raise TabootError(
                "E_FORBIDDEN",
                "The controller shows this account no site.",
                remedy="Give the account or key the role of a viewer of the sites.",
                source=self._entry.id,
            )
        return sites

    def _listings(self, classic: bool) -> list[Listing]:
        wanted = _CLIENT_FOLDERS[self._entry.clients]
        return [
            one
            for one in (_CLASSIC if classic else _INTEGRATION)
            if one.folder not in ("clients", "users") or one.folder in wanted
        ]

    def _is_classic(self, controller: Controller, site: Site) -> bool:
        """Whether the classic interface answers: always to a session, to a key where the version lets it."""
        if not controller.by_key:
            return True
        try:
            return controller.listed(f"/api/s/{quote(site.name, safe='')}/stat/sysinfo") is not None
        except TabootError as error:
            if error.code in ("E_CREDENTIALS", "E_FORBIDDEN", "E_API"):
                return False
            raise

    # --- items ----------------------------------------------------------------------------------------------

    def _site(
        self,
        controller: Controller,
        site: Site,
        first: bool,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
    ) -> Iterator[Event]:
        yield from self._item(f"{site.folder}/site.json", dict(site.said), known, tombstoned)
        classic = yield from self._asked(site.folder, lambda: self._is_classic(controller, site))
        if classic is None:
            return
        if first and classic:
            path = f"/api/s/{quote(site.name, safe='')}/stat/sysinfo"
            said = yield from self._asked("system.json", lambda: controller.listed(path))
            for one in (said or [])[:1]:
                yield from self._item("system.json", one, known, tombstoned)
        for listing in self._listings(classic):
            folder = f"{site.folder}/{listing.folder}"
            objects = yield from self._asked(folder, partial(self._listed, controller, site, listing))
            seen: set[str] = set()
            for one in objects or ():
                name = _component(_text(one, listing.key).lower().replace(":", "-"))
                if not name:
                    self._problems.append(f"{folder} lists an object without `{listing.key}`")
                elif name not in seen:
                    seen.add(name)
                    yield from self._item(f"{folder}/{name}.json", one, known, tombstoned)

    def _listed(self, controller: Controller, site: Site, listing: Listing) -> list[Any]:
        if site.id is None or listing in _CLASSIC:
            return controller.listed(listing.path.format(site=quote(site.name, safe=""))) or []
        path = listing.path.format(site=quote(site.id, safe=""))
        listed = list(controller.pages(path))
        if not listing.detailed:
            return listed
        found = []
        for one in listed:
            # What went meanwhile is not there.
            detail = controller.one(f"{path}/{quote(_text(one, 'id'), safe='')}")
            if detail is not None:
                found.append({**one, **detail})
        return found

    def _asked(self, path: str, ask: Callable[[], T]) -> Generator[Event, None, T | None]:
        """What ``ask`` returns; None, and an event of what failed, where it raises."""
        try:
            return ask()
        except TabootError as error:
            if error.code in _ENDS_THE_RUN:
                raise _Ended(error.message) from None
            self._problems.append(error.message)
            yield Failed(path, error)
            return None

    def _item(
        self, path: str, said: Any, known: Mapping[str, Known], tombstoned: Callable[[str], bool]
    ) -> Iterator[Event]:
        if (self._include and not self._include.matches(path)) or self._exclude.matches(path):
            return
        if self._is_before_since(path, said):
            return
        if self._entry.max_items is not None and self._items >= self._entry.max_items:
            raise _Ended(f"the run has taken its {self._entry.max_items} items")
        self._items += 1
        if tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            return
        event = item(known, path, said, version=version(said), mime="application/json")
        limit = self._access.max_blob_bytes
        if isinstance(event, Fetched) and len(event.data) > limit:
            message = f"{path} has {len(event.data)} bytes, more than {limit}."
            yield Skipped(path, "E_TOO_LARGE", message)
        else:
            yield event

    def _is_before_since(self, path: str, said: Any) -> bool:
        """Whether it is a client that was last seen before ``since``; nothing else has a time of its own."""
        since = self._entry.since
        if since is None or "/users/" not in path or not isinstance(said, dict):
            return False
        seen = said.get("last_seen")
        if not isinstance(seen, int) or said.get("use_fixedip") is True:
            return False
        return seen < datetime(since.year, since.month, since.day, tzinfo=UTC).timestamp()


class _Ended(Exception):
    """The run cannot go on, or is not to."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _listed(sites: Sequence[Site]) -> str:
    """Sites by name and description, as an error shows them."""
    shown = []
    for site in sites[:_MAX_SHOWN]:
        called = _text(site.said, "desc") or _text(site.said, "name")
        shown.append(f"{site.name} ({called})" if called not in ("", site.name) else site.name)
    return ", ".join(shown) + (" …" if len(sites) > _MAX_SHOWN else "") if shown else "none"


def _text(said: Any, name: str) -> str:
    value = said.get(name) if isinstance(said, Mapping) else None
    return value if isinstance(value, str) else ""


def _component(name: str) -> str:
    """A name as one component of a path."""
    shown = quote(name[:200], safe=" ")
    return shown.replace(".", "%2E") if shown.strip(".") == "" else shown


# --- exported files -----------------------------------------------------------------------------------------


class ExportedJson:
    """Each file that may be a controller's is one item with its own bytes: what it holds is told by whoever
    reads it."""

    version = "2"

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        """The file as it is. Raises ``E_MIME`` for what is no JSON, or has no member that a controller's
        objects have; ``E_EMPTY``."""
        data = file.read()
        body = data
        for mark in _MARKS:
            body = body.removeprefix(mark)
        if not body.strip(b"\x00\r\n\t "):
            raise TabootError("E_EMPTY", f"{file.path} is empty.", path=file.path)
        if _JSON.match(body) is None:
            raise TabootError("E_MIME", f"{file.path} holds no JSON object or list.", path=file.path)
        if data.startswith(_MARKS[1:]):
            body = data.decode("utf-16", "replace").encode()
        if _A_MEMBER.search(body) and not _OF_A_CONTROLLER.search(body):
            message = f"{file.path} is JSON, but holds nothing of a UniFi controller."
            raise TabootError("E_MIME", message, path=file.path)
        yield Part(data, mime="application/json")


#: Objects and lists of measurements.
_TABLES = frozenset(
    (
        "stat",
        "sys_stats",
        "system-stats",
        "uptime_stats",
        "speedtest-status",
        "storage",
        "temperatures",
        "radio_table_stats",
        "scan_radio_table",
        "spectrum_table",
        "vap_table",
        "vwire_vap_table",
        "port_stats",
        "ssh_session_table",
        "athstats",
        "dpi_stats",
        "reboot_duration",
        "statistics",
        "mac_table",
        "port_delta",
    )
)
_NAMES = re.compile(
    # Counters, of a device and of each of its ports, radios and networks.
    r"(?!tx_power|flowctrl)(?:[\w-]+[-_])?(?:rx|tx)(?:[-_][\w-]+)?|bytes(?:[-_.][\w-]+)?|drops"
    r"|(?:[\w-]+-)?num_sta"
    r"|num_(?:desktop|handheld|mobile)|roam_count|wifi_tx_[\w-]+|anomalies|score|qos_[\w-]*bytes"
    # Clocks.
    r"|_?uptime(?:Sec|_by_\w+)?|_?last_seen(?:_by_\w+)?|_uptime_by_\w+|\w*heartbeat\w*|next_interval"
    r"|considered_lost_at|start_(?:dis)?connected_millis|connected_at|disconnected_at|startup_timestamp"
    r"|provisioned_at|disconnect_timestamp|disconnection_reason|(?:latest_)?assoc_time|idletime"
    r"|dhcpend_time|connectedAt|datetime|provisionedAt|ipv4_lease_expiration_timestamp_seconds"
    r"|prev_non_busy_state|known_cfgversion"
    # Loads and other measurements.
    r"|loadavg_\w+|mem_(?:buffer|total|used)|(?:general_)?temperature|fan_level|overheating|satisfaction\w*"
    r"|latency\w*|speedtest_\w+|xput_\w+|availability|poe_(?:current|power|voltage)"
    r"|outlet_(?:current|power|power_factor|voltage)|outlet_ac_power_consumption|rssi|signal|noise|ccq|nss"
    r"|mcs|cu_\w+|powersave_enabled|connect_request_port|wifi_experience_\w+|internet"
    r"|locating|scanning|spectrum_scanning"
)
#: Of clients and uplinks; where a radio is configured, the channel is.
_ROAMING = frozenset(("channel", "channel_width", "tx_power", "radio", "radio_proto", "radio_name"))


#: Addresses in no order of their own.
_UNORDERED = frozenset(("ipv6_addresses", "ipv6"))


def stable(resource: Any) -> Any:
    """A copy of an object of a controller without what changes by itself. (Depth is bounded by whoever parsed
    it.)"""
    if isinstance(resource, list):
        return [stable(value) for value in resource]
    if not isinstance(resource, dict):
        return resource
    roams = "rssi" in resource or "signal" in resource
    return {
        name: sorted(map(str, value)) if name in _UNORDERED and isinstance(value, list) else stable(value)
        for name, value in resource.items()
        if name not in _TABLES and not _NAMES.fullmatch(name) and not (roams and name in _ROAMING)
    }


def version(resource: Any) -> str:
    """What tells an object from an earlier one."""
    return version_of(stable(resource))


def unifi_connector(entry: UnifiSource, access: Access) -> Connector:
    """Read the exported files of ``path``, else the controller."""
    if entry.path is not None:
        return RecordedFiles(entry, access, ExportedJson(), default_include=_DEFAULT_INCLUDE)
    return UnifiConnector(entry, access)
