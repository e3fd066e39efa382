"""What a UniFi controller says holds secrets under names of its own: they go, the rest stays."""

from __future__ import annotations

import json
import time

import pytest

from taboot_pipelines.documents.secrets.masking import mask
from taboot_pipelines.model import json_text
from taboot_pipelines_tests.world import DATA

JSON = "application/json"
S = "hunter2Correct"


@pytest.mark.parametrize(
    "one",
    [
        {"_id": "a", "x_authkey": "345678976545678", "x_vwirekey": "2dabb7e23b048c88"},
        {"site_id": "a", "x_iapp_key": "01234567891011121314151617181920", "x_wep": "abcde"},
        {"x_passphrase": "correct horse battery", "x_mgmt_key": "0123"},
        {"_id": "a", "x_ssh_hostkey_fingerprint": "34:56:78", "x_pins": ["12345678", "87654321"]},
        {"syslog_key": "3456789098098769876543"},
        {"_id": "a", "lte_sim_pin": "1234", "x_ssh_keys": [{"a": "AAAA", "b": ["BBBB", 123456]}]},
        {
            "wireguard_client_configuration_file": "W0ludGVyZmFjZV0=",
            "openvpn_configuration": "client\n<key>\nabc",
        },
        {"admin_name": "Admin", "code": "7470075124"},
        {"code": 4470344703, "status": "VALID_ONE"},
        {"id": "a", "code": "48614-09510", "authorizedGuestLimit": 1},
        {"authorized_by": "voucher", "voucher_code": "12345-67890"},
        {"key": "snmp", "community": "hushhush"},
        {"auth_servers": [{"ip": "10.0.0.1", "x_secret": "letmein"}]},
        {"private_preshared_keys": [{"password": "a b c d"}], "sae_psk": [{"psk": "hello there"}]},
        {"guest_token": "dae23r4fdf565434567876543", "x_ipsec_pre_shared_key": "swordfish"},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_secrets_go_and_the_length_stays(one, indent):
    text = json.dumps(one, indent=indent)
    masked = mask(text, JSON)
    assert len(masked) == len(text) and masked.count("\n") == text.count("\n")
    kept = (
        "_id",
        "id",
        "site_id",
        "admin_name",
        "authorized_by",
        "status",
        "ip",
        "authorizedGuestLimit",
        "key",
    )

    def secrets(value, name=""):
        if isinstance(value, dict):
            for inner, held in value.items():
                yield from secrets(held, inner)
        elif isinstance(value, list):
            for held in value:
                yield from secrets(held, name)
        elif name not in kept:
            yield json.dumps(value).strip('"')

    assert [secret for secret in secrets(one) if secret in masked] == []


@pytest.mark.parametrize(
    "one",
    [
        {"_id": "a", "x_has_ssh_hostkey": True, "x_aes_gcm": True, "name": "USG", "mac": "78:8a:20:33:44:55"},
        {"x_axis": "time", "x_label": "seconds", "x": [1, 2, 3]},
        {"code": "E_PARSE", "message": "line 3"},
        {"code": 4043, "status": "failed"},
        {"community": "gardeners of the east"},
    ],
)
def test_what_is_no_secret_stays(one):
    text = json.dumps(one, indent=2)
    assert mask(text, JSON) == text


def test_recorded_answers_lose_every_private_member():
    planted = 0
    for path in sorted((DATA / "unifi").glob("*.json")):
        text = path.read_text("utf-8")
        masked = mask(text, JSON)
        for value in json_text.parse(text).walk():
            for name, held in value.members().items():
                private = name.startswith("x_") or name in ("syslog_key", "code", "sso_app_sec")
                if private and isinstance(held.data, str):
                    planted += 1
                    rest = masked[held.start + 1 : held.end - 1]
                    assert set(rest) <= {"*"} or rest == "**REDACTED**", (path.name, name)
    assert planted > 10


@pytest.mark.parametrize(
    "unit", ['"x_a":"', '"x_', '"code":1234,', '{"code":"a"', '"x_key":[', '"syslog_key":"\\']
)
def test_hostile_repetition_ends(unit):
    begun = time.process_time()
    mask(unit * (400_000 // len(unit)), JSON)
    assert time.process_time() - begun < 20
