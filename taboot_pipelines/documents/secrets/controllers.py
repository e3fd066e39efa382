"""What a UniFi controller calls its secrets by, whose names alone give away only some.

A controller marks what it must not show by names that begin with ``x_`` (``x_iapp_key``, ``x_vwirekey``);
what lets a guest in or a VPN up stands under names of its own.
"""

from __future__ import annotations

import re

_PRIVATE = re.compile(r"x_[a-z0-9_]{1,80}")
_NAMED = frozenset(
    (
        "syslog_key",
        "voucher_code",
        "mgmt_key",
        "lte_sim_pin",
        "sso_app_sec",
        "openvpn_configuration",
        "wireguard_client_configuration_file",
    )
)
#: Members by which a text is one of a controller: any name that begins with ``x_`` counts there.
_OF_A_CONTROLLER = ('"site_id"', '"_id"', '"inform_url"', '"networkgroup"', '"cfgversion"')
#: Elsewhere such a name must hold one of these.
_SECRET_WORDS = re.compile(r"key|pass|psk|secret|token|auth|wep|crt|cert|private|shared|fingerprint")
#: Members that are secrets in the company of others: names of these, or what stands in them.
_COMPANY = {
    "code": re.compile(
        r"(?:admin_name|for_hotspot|qos_overwrite|status_expires|authorizedGuestLimit|timeLimitMinutes"
        r"|(?:VALID|USED)_(?:ONE|MULTI|MULTIPLE))\Z"
    ),
    "community": re.compile(r"snmp|(?:username|enabledV3)\Z"),
}
#: Already masked, or nothing.
_EMPTY = re.compile(r"[*\s]*+(?:[A-Z]*[*]+)?")


class Controller:
    """Judges the names of one JSON text."""

    def __init__(self, text: str) -> None:
        self._of_a_controller = '"x_' in text and any(mark in text for mark in _OF_A_CONTROLLER)
        self._company = {name: mark for name, mark in _COMPANY.items() if f'"{name}"' in text}

    def hides(self, name: str) -> bool:
        """Whether all below this name is a secret."""
        if name.startswith("x_"):
            known = self._of_a_controller or _SECRET_WORDS.search(name) is not None
            return known and _PRIVATE.fullmatch(name) is not None
        return name in _NAMED

    def needs_company(self, name: str) -> bool:
        """Whether a member of this name is a secret if :meth:`company` of its object says so."""
        return name in self._company

    def company(self, said: str) -> frozenset[str]:
        """The names of members that a name or a text in the same object makes secrets of."""
        if not self._company:
            return frozenset()
        return frozenset(name for name, mark in self._company.items() if mark.match(said))

    @staticmethod
    def is_empty(value: str) -> bool:
        """Whether a value is masked already, or nothing."""
        return _EMPTY.fullmatch(value) is not None
