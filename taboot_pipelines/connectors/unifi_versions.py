"""What makes an object of a controller another version of itself: not its counters, loads and clocks.

The names were chosen by looking at recorded objects: gateways, access points, switches, power units and
clients as they were, and what their members mean. What is measured, counted or told by a clock is volatile;
what is configured, connected or addressed is not. An access point's choice of a channel is measured, where a
client roams is not.
"""

from __future__ import annotations

import re
from typing import Any

from taboot_pipelines.connectors.api import version_of

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
    r"(?!tx_power|flowctrl)(?:[\w-]+[-_])?(?:rx|tx)(?:[-_][\w-]+)?|bytes(?:[-_.][\w-]+)?|drops|(?:[\w-]+-)?num_sta"
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
