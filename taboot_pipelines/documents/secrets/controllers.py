"""The secrets in what a UniFi controller says, whose names alone give away only some.

A controller marks what it must not show by names that begin with ``x_`` (``x_iapp_key``, ``x_vwirekey``);
what lets a guest in or a VPN up stands under names of its own.
"""

from __future__ import annotations

import re

from taboot_pipelines.documents.secrets.scanner import Scanner

_VALUE = (
    r'\s{0,40}:\s{0,40}(?:"(?P<text>(?:[^"\\\n]|\\.)*+)"|(?P<number>[0-9]{4,}+)|\[(?P<list>[^\[\]{}]*+)\])'
)
_PRIVATE = re.compile(r'"(?P<name>x_[a-z0-9_]{1,80})"' + _VALUE)
_NAMED = re.compile(
    r'"(?P<name>syslog_key|voucher_code|mgmt_key|sso_app_sec|openvpn_configuration|wireguard_client_configuration_file)"'
    + _VALUE
)
_VOUCHER = re.compile(r'"(?P<name>code)"' + _VALUE)
_COMMUNITY = re.compile(r'"(?P<name>community)"' + _VALUE)
_LISTED = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
#: Members by which a text is one of a controller: any name that begins with ``x_`` counts there.
_OF_A_CONTROLLER = ('"site_id"', '"_id"', '"inform_url"', '"networkgroup"', '"cfgversion"')
#: Elsewhere such a name must hold one of these.
_SECRET_WORDS = re.compile(r"key|pass|psk|secret|token|auth|wep|crt|cert|private|shared|fingerprint")
_OF_A_VOUCHER = re.compile(
    r'"(?:admin_name|for_hotspot|qos_overwrite|status_expires|authorizedGuestLimit|timeLimitMinutes)"'
    r'|"(?:VALID|USED)_(?:ONE|MULTI|MULTIPLE)"'
)
_OF_SNMP = re.compile(r'"snmp|"(?:username|enabledV3)"')
#: How far the members of one object may be from each other.
_MAX_REACH = 4000
#: Already masked, or nothing.
_EMPTY = re.compile(r"[*\s]*+(?:[A-Z]*[*]+)?")


def find_in_controllers(scan: Scanner) -> None:
    """Add the secrets of a controller in a JSON text."""
    text = scan.text
    if "json" not in scan.mime:
        return
    if '"x_' in text:
        of_a_controller = any(mark in text for mark in _OF_A_CONTROLLER)
        for found in _PRIVATE.finditer(text):
            if of_a_controller or _SECRET_WORDS.search(found["name"]):
                _add(scan, found)
    for found in _NAMED.finditer(text):
        _add(scan, found)
    for pattern, company in ((_VOUCHER, _OF_A_VOUCHER), (_COMMUNITY, _OF_SNMP)):
        for found in pattern.finditer(text):
            if company.search(text, *_object_around(text, found)):
                _add(scan, found)


def _add(scan: Scanner, found: re.Match[str]) -> None:
    for group in ("text", "number"):
        if found[group] is not None and not _EMPTY.fullmatch(found[group]):
            scan.add(*found.span(group))
    if found["list"] is not None:
        for item in _LISTED.finditer(scan.text, *found.span("list")):
            scan.add(*item.span(1))


def _object_around(text: str, found: re.Match[str]) -> tuple[int, int]:
    """Where the object begins and ends that holds a member, as far as that is in reach."""
    floor, ceiling = max(0, found.start() - _MAX_REACH), min(len(text), found.end() + _MAX_REACH)
    begin = text.rfind("{", floor, found.start())
    end = text.find("}", found.end(), ceiling)
    return (begin if begin >= 0 else floor), (end if end >= 0 else ceiling)
