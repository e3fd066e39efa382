"""A controller read by its API and from exported files: sessions, keys, sites, versions, and what fails."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from taboot_pipelines.connectors.access import Access, HttpAccess
from taboot_pipelines.connectors.protocol import Planner
from taboot_pipelines.connectors.unifi.connector import stable, version
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.unifi.extractor import UnifiExtractor
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.records import (
    Enumerated,
    Event,
    Failed,
    Fetched,
    FileView,
    Known,
    NotModified,
    Skipped,
    SourceFacts,
    Unchanged,
)
from taboot_pipelines.settings import HttpSettings, Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.connectors.servers import certificate
from taboot_pipelines_tests.fakes.unifi import KEY, PASSWORD, USER, FakeController
from taboot_pipelines_tests.world import DATA

SECRETS = {"UNIFI_KEY": KEY, "UNIFI_PASSWORD": PASSWORD, "WRONG": "planted-wrong-1"}
BY_KEY = {"api_key": "${UNIFI_KEY}"}
BY_ACCOUNT = {"username": USER, "password_env": "UNIFI_PASSWORD"}
DAY = {"last_seen": 1_700_000_000}
DEVICES = (
    "access_point_ac_pro",
    "gateway_usg3",
    "pdu_pro",
    "plug_up1",
    "strip_up6",
    "switch_16_port_poe",
    "switch_8_port",
    "switch_flex_mini_5_port",
)
CLIENTS = ("wired_client", "wireless_client")


def recorded(name: str) -> Any:
    return json.loads((DATA / "unifi" / f"{name}.json").read_text("utf-8"))


def house() -> dict[str, list[Any]]:
    """The recorded objects as the lists of a site."""
    return {
        "devices": [recorded(name) for name in DEVICES],
        "clients": [
            *(recorded(name) for name in CLIENTS),
            *({"mac": f"02:00:5e:00:00:0{n}", "oui": "", "ip": f"10.0.0.{n}", **DAY} for n in range(1, 4)),
        ],
        "users": [
            {"mac": f"02:00:5e:00:00:0{n}", "oui": "", "hostname": f"c{n}", **DAY} for n in range(1, 9)
        ],
        "networks": [
            {"_id": f"n{n}", "name": f"net{n}", "purpose": "corporate", "ip_subnet": f"10.0.{n}.1/24"}
            for n in range(3)
        ],
        "wlans": recorded("wlans"),
        "port-forwards": [
            {
                "_id": "f1",
                "name": "web",
                "dst_port": "443",
                "fwd": "10.0.0.1",
                "fwd_port": "8443",
                "proto": "tcp",
            }
        ],
        "dns": [{"_id": "r1", "key": "nas.lan", "record_type": "A", "value": "10.0.0.1", "enabled": True}],
        "traffic-routes": recorded("traffic_routes"),
    }


@pytest.fixture
def fake() -> Iterator[FakeController]:
    with FakeController() as controller:
        controller.sites = {"default": house()}
        controller.system = {"hostname": "unifi", "ip_addrs": ["10.0.0.9"], "version": "9.0.114", "uptime": 5}
        yield controller


def access(root: Path = Path(), **changed: Any) -> Access:
    def secrets(name: str) -> SecretStr:
        if name not in SECRETS:
            raise TabootError("E_CONFIG", f"The environment variable {name} is not set.", settings=[name])
        return SecretStr(SECRETS[name])

    made = replace(Access.of(Settings(), root), secrets=secrets, http=HttpAccess(HttpSettings()))
    return replace(made, **changed)


def connector(url: str, given: dict[str, Any] = BY_KEY, root: Path = Path(), **fields: Any) -> Any:
    entry = parse_entry({"id": "house", "type": "unifi", "base_url": url, **given, **fields})
    return open_connector(entry, access(root))


def events(
    url: str, known: dict[str, Known] | None = None, given: dict[str, Any] = BY_KEY, **fields: Any
) -> list[Event]:
    return list(connector(url, given, **fields).events(known or {}, lambda _: False))


def items(stream: list[Event]) -> dict[str, Any]:
    return {e.path: json.loads(e.data) for e in stream if isinstance(e, Fetched)}


def remembered(known: dict[str, Known], stream: list[Event]) -> dict[str, Known]:
    """What the catalog holds after these events; what they do not reach stays unless they are complete."""
    after, seen = dict(known), set()
    for event in stream:
        match event:
            case Fetched():
                after[event.path] = Known(sha256_hex(event.data), etag=event.etag, url=event.url)
                seen.add(event.path)
            case NotModified() | Failed() | Skipped():
                seen.add(event.path)
            case Enumerated(complete=True):
                return {path: k for path, k in after.items() if path in seen}
    return after


def error_of(url: str, given: dict[str, Any], **fields: Any) -> TabootError:
    with pytest.raises(TabootError) as caught:
        events(url, None, given, **fields)
    assert "planted" not in str(caught.value) + repr(caught.value.details)
    return caught.value


# --- the ways in --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unifi_os", "given"), [(True, BY_KEY), (True, BY_ACCOUNT), (False, BY_ACCOUNT)])
def test_each_object_is_an_item_and_an_unchanged_controller_gives_no_new_one(
    unifi_os: bool, given: dict[str, Any]
) -> None:
    with FakeController(unifi_os=unifi_os) as fake:
        fake.sites, fake.system = {"default": house()}, {"hostname": "unifi", "ip_addrs": ["10.0.0.9"]}
        first = events(fake.url, None, given, clients="known")
        found = items(first)
        assert first[-1] == Enumerated(True)
        assert len(found) == 2 + sum(map(len, house().values()))
        assert found["sites/default/devices/78-8a-20-33-44-55.json"]["name"] == "USG"
        assert found["system.json"]["hostname"] == "unifi"
        assert (
            found["sites/default/site.json"]["name" if given is BY_ACCOUNT else "internalReference"]
            == "default"
        )
        assert fake.logins == (0 if given is BY_KEY else 1)
        known = remembered({}, first)
        asked = len(fake.requests)
        again = events(fake.url, known, given, clients="known")
        assert items(again) == {} and again[-1] == Enumerated(True)
        assert sum(isinstance(e, NotModified) for e in again) == len(found)
        assert len(fake.requests) == 2 * asked


def test_a_key_that_the_classic_interface_refuses_reads_the_integration_api(fake: FakeController) -> None:
    fake.key_reads_classic = False
    fake.listed = {
        "default": {
            "devices": [
                {
                    "id": "d1",
                    "macAddress": "02:00:5e:00:20:01",
                    "ipAddress": "10.0.0.1",
                    "name": "Gate",
                    "model": "UDM",
                    "features": ["gateway"],
                },
                {
                    "id": "d2",
                    "macAddress": "02:00:5e:00:20:02",
                    "ipAddress": "10.0.0.2",
                    "name": "Hall",
                    "model": "US8",
                    "uplink": {"deviceId": "d1"},
                },
            ],
            "clients": [
                {
                    "type": "WIRED",
                    "id": f"c{n}",
                    "name": f"c{n}",
                    "ipAddress": "10.0.1.1",
                    "uplinkDeviceId": "d2",
                    "access": {},
                }
                for n in range(450)
            ],
            "networks": [
                {
                    "id": "n1",
                    "management": "GATEWAY",
                    "name": "Home",
                    "enabled": True,
                    "vlanId": 1,
                    "ipv4Configuration": {"hostIpAddress": "10.0.0.1", "prefixLength": 16},
                }
            ],
            "vpn-servers": [{"id": "v1", "type": "WIREGUARD", "name": "Roads", "enabled": True}],
        }
    }
    fake.old = {"dns", "firewall-policies"}
    stream = events(fake.url)
    found = items(stream)
    assert stream[-1] == Enumerated(True)
    assert len(found) == 1 + 2 + 450 + 1 + 1
    assert found["sites/default/devices/02-00-5e-00-20-02.json"]["uplink"] == {"deviceId": "d1"}
    assert found["sites/default/networks/n1.json"]["ipv4Configuration"]["prefixLength"] == 16
    texts = {path: json.dumps(one) for path, one in found.items()}
    (unit,) = UnifiExtractor().units(sorted(texts))
    said = UnifiExtractor().interpret(
        unit, FileView(frozenset(texts), texts.__getitem__), SourceFacts("default", "house")
    )
    assert ("hall", "gate") in {(e.start.key[0], e.end.key[0]) for e in said.edges if e.type == "CONNECTS_TO"}
    assert {e.start.key[0] for e in said.edges if e.type == "USES_VPN"} == {"gate"}


def test_a_session_that_ends_amid_a_run_is_opened_again(fake: FakeController) -> None:
    fake.lives = 4
    stream = events(fake.url, None, BY_ACCOUNT)
    assert stream[-1] == Enumerated(True)
    assert 3 <= fake.logins <= 6 and items(stream)
    # The token against forged requests that the last login gave.
    assert any(h.get("x-csrf-token", "").startswith("csrf-") for h in fake.headers)


@pytest.mark.parametrize("unifi_os", [True, False])
def test_a_wrong_password_is_tried_once(unifi_os: bool) -> None:
    with FakeController(unifi_os=unifi_os) as fake:
        fake.sites = {"default": house()}
        error = error_of(fake.url, {"username": USER, "password": "${WRONG}"})
        assert error.code == "E_CREDENTIALS" and fake.logins == 1


def test_a_wrong_key_and_a_missing_variable(fake: FakeController) -> None:
    assert error_of(fake.url, {"api_key": "${WRONG}"}).code == "E_CREDENTIALS"
    missing = error_of(fake.url, {"api_key_env": "NOWHERE"})
    assert missing.code == "E_CONFIG" and "NOWHERE" in missing.message


@pytest.mark.parametrize("given", [BY_KEY, BY_ACCOUNT])
@pytest.mark.parametrize(
    "path",
    ["/", "/network/default/dashboard", "/manage/account/login?redirect=%2F", "/proxy/network/", "/api"],
)
def test_the_address_of_a_page_names_the_controller(
    fake: FakeController, given: dict[str, Any], path: str
) -> None:
    assert events(fake.url + path, None, given)[-1] == Enumerated(True)


def test_a_second_factor_and_a_key_where_no_integration_api_is(fake: FakeController) -> None:
    fake.odd = lambda path: (499, b'{"code": "MFA_AUTH_REQUIRED"}') if "login" in path else None
    refused = error_of(fake.url, BY_ACCOUNT)
    assert refused.code == "E_CREDENTIALS" and "second factor" in refused.message
    with FakeController(unifi_os=False) as old:
        keyless = error_of(old.url, BY_KEY)
        assert keyless.code == "E_API" and "local account" in keyless.remedy
    fake.odd = lambda _: (200, b'{"meta": {"rc": "error", "msg": "api.err.NoSiteContext"}, "data": []}')
    for way in (BY_KEY, BY_ACCOUNT):
        assert "api.err.NoSiteContext" in error_of(fake.url, way).message


def test_certificates(tmp_path: Path, fake: FakeController) -> None:
    plain = error_of(fake.url.replace("http:", "https:"), BY_KEY)
    assert plain.code == "E_NETWORK" and "TLS" in plain.message and "http://" in plain.remedy
    with FakeController(tls=certificate(tmp_path, "localhost")) as fake:
        fake.sites = {"default": house()}
        untrusted = error_of(fake.url, BY_KEY)
        assert untrusted.code == "E_NETWORK" and "not trusted" in untrusted.message
        assert "ca_file" in untrusted.remedy and "verify_tls" in untrusted.remedy
        assert "https" in error_of(fake.url.replace("https:", "http:"), BY_KEY).message
        assert events(fake.url, verify_tls=False)[-1] == Enumerated(True)
        named = fake.url.replace("127.0.0.1", "localhost")
        stream = list(connector(named, root=tmp_path, ca_file="cert.pem").events({}, lambda _: False))
        assert stream[-1] == Enumerated(True)
        assert error_of(named, BY_KEY, ca_file="nothing.pem").code == "E_CONFIG"


def test_no_secret_is_logged_or_kept(fake: FakeController, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for given_ in (BY_KEY, BY_ACCOUNT):
        entry = parse_entry({"id": "house", "type": "unifi", "base_url": fake.url, **given_})
        stream = list(open_connector(entry, access()).events({}, lambda _: False))
        assert "planted" not in repr(stream) + entry.config_json()
    assert "planted" not in caplog.text
    assert not any("planted" in path for _, path in fake.requests)


# --- sites and bounds ---------------------------------------------------------------------------------------


def test_sites_are_chosen_by_name_or_description(fake: FakeController) -> None:
    fake.sites = {"default": house(), "mill": house(), "barn": {}}
    fake.listed = {site: {} for site in fake.sites}

    def sites(**fields: Any) -> set[str]:
        return {path.split("/")[1] for path in items(events(fake.url, **fields)) if path.startswith("sites/")}

    assert sites() == {"default", "mill", "barn"}
    assert sites(sites=["mill", "Barn"]) == {"mill", "barn"}
    missing = error_of(fake.url, BY_KEY, sites=["mill", "attic"])
    assert missing.code == "E_NOT_FOUND" and "attic" in missing.message
    assert "but default (Default), mill (Mill), barn (Barn)." in missing.message


def test_which_clients_and_which_paths(fake: FakeController) -> None:
    def folders(**fields: Any) -> set[str]:
        return {path.split("/")[2] for path in items(events(fake.url, **fields)) if path.count("/") == 3}

    assert "clients" in folders() and "users" not in folders()
    assert {"clients", "users"} <= folders(clients="known")
    assert not {"clients", "users"} & folders(clients="none")
    assert folders(include=["**/devices/*.json"]) == {"devices"}
    assert "devices" not in folders(exclude=["devices"])
    fake.sites["default"]["users"][0]["last_seen"] = 1_800_000_000
    users = [p for p in items(events(fake.url, clients="known", since="2026-01-01")) if "/users/" in p]
    assert users == ["sites/default/users/02-00-5e-00-00-01.json"]


def test_bounds_end_a_run_that_deletes_nothing(fake: FakeController) -> None:
    for fields in ({"max_items": 3}, {"max_requests": 4}):
        stream = events(fake.url, **fields)
        assert isinstance(stream[-1], Enumerated) and not stream[-1].complete and stream[-1].reason
        assert 0 < len(items(stream)) <= 12
    assert len(items(events(fake.url, max_items=3))) == 3


def test_a_plan_asks_for_the_sites_alone(fake: FakeController) -> None:
    made = connector(fake.url)
    assert isinstance(made, Planner)
    (planned,) = made.plan()
    assert planned.what == "site default" and planned.requests == 12
    assert len(fake.requests) == 2


# --- what fails ---------------------------------------------------------------------------------------------


def failing(path: str, status: int, body: bytes) -> Any:
    return lambda asked: (status, body) if asked.endswith(path) else None


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (403, b'{"meta":{"rc":"error","msg":"api.err.NoPermission"},"data":[]}', "E_FORBIDDEN"),
        (200, b'{"meta":{"rc":"error","msg":"api.err.NoPermission"},"data":[]}', "E_FORBIDDEN"),
        (200, b'{"meta":{"rc":"error","msg":"api.err.ServerBusy"},"data":[]}', "E_API"),
        (200, b'{"meta":{"rc":"error","msg":"planted words"},"data":[]}', "E_API"),
        (200, b"<html><body>planted</body></html>", "E_API"),
        (200, b'{"meta":{"rc":"ok"},"data":[{"_id":"1"', "E_API"),
        (200, b'{"meta":{"rc":"ok"},"data":{}}', "E_API"),
        (500, b"planted", "E_5XX_ORIGIN"),
    ],
)
def test_a_list_that_fails_is_named_and_the_rest_goes_on(
    fake: FakeController, status: int, body: bytes, code: str
) -> None:
    known = remembered({}, events(fake.url))
    fake.odd = failing("/rest/networkconf", status, body)
    fake.sites["default"]["dns"][0]["value"] = "10.0.0.2"
    stream = events(fake.url, known)
    (failed,) = [e for e in stream if isinstance(e, Failed)]
    assert (failed.path, failed.error.code) == ("sites/default/networks", code)
    assert list(items(stream)) == ["sites/default/dns/r1.json"]
    assert isinstance(stream[-1], Enumerated) and not stream[-1].complete
    assert "planted" not in repr(stream)
    assert set(remembered(known, stream)) == set(known)


def test_a_list_that_this_version_does_not_have_is_empty(fake: FakeController) -> None:
    fake.old = {"firewall-zones", "firewall-policies", "dns", "traffic-routes"}
    stream = events(fake.url)
    assert stream[-1] == Enumerated(True)
    assert not [path for path in items(stream) if "/dns/" in path]


def test_an_account_that_sees_no_site(fake: FakeController) -> None:
    fake.sites = fake.listed = {}
    assert error_of(fake.url, BY_KEY).code == "E_FORBIDDEN"
    assert error_of(fake.url, BY_ACCOUNT).code == "E_FORBIDDEN"


@pytest.mark.parametrize("lie", ["endless", "short", "moving"])
def test_pages_that_lie_make_the_run_partial(fake: FakeController, lie: str) -> None:
    fake.key_reads_classic = False
    count = iter(range(10_000))

    def odd(path: str) -> tuple[int, bytes] | None:
        if not path.endswith("/clients"):
            return None
        n = next(count)
        data = [] if lie == "short" and n else [{"id": f"c{n}", "type": "WIRED", "name": "c"}]
        total = {"endless": 10**9, "short": 5, "moving": 10 - n}[lie]
        return 200, json.dumps(
            {"offset": n, "limit": 200, "count": 1, "totalCount": total, "data": data}
        ).encode()

    fake.odd = odd
    stream = events(fake.url, max_requests=300)
    assert isinstance(stream[-1], Enumerated) and not stream[-1].complete
    assert len(fake.requests) <= 301


def test_objects_without_a_name_and_names_that_are_paths(fake: FakeController) -> None:
    fake.sites = {
        "default": {
            "networks": [
                {"_id": "../../etc", "name": "x"},
                {"_id": ".."},
                {"name": "y"},
                "z",
                {"_id": "n"},
                {"_id": "n"},
            ]
        }
    }
    stream = events(fake.url)
    networks = sorted(p for p in items(stream) if "/networks/" in p)
    assert networks == [f"sites/default/networks/{n}.json" for n in ("%2E%2E", "..%2F..%2Fetc", "n")]
    assert isinstance(stream[-1], Enumerated) and not stream[-1].complete


def test_what_was_deleted_on_purpose_is_not_taken(fake: FakeController) -> None:
    gone = "sites/default/dns/r1.json"
    stream = list(connector(fake.url).events({}, lambda path: path == gone))
    assert gone not in items(stream)
    assert [e.code for e in stream if isinstance(e, Skipped)] == ["E_TOMBSTONED"]


# --- what is another version --------------------------------------------------------------------------------


def counters(value: Any, grow: int) -> Any:
    """A copy in which all that counts, measures or tells the time is another."""
    if isinstance(value, list):
        return [counters(one, grow) for one in value]
    if not isinstance(value, dict):
        return value
    moving = (
        "rx_",
        "tx_",
        "bytes",
        "uptime",
        "_uptime",
        "last_seen",
        "satisfaction",
        "loadavg",
        "mem_used",
        "num_sta",
        "next_heartbeat",
        "start_connected",
        "latency",
        "poe_power",
        "outlet_power",
        "considered_lost",
    )
    return {
        k: (
            v + grow
            if isinstance(v, int | float)
            and not isinstance(v, bool)
            and k.startswith(moving)
            and "power_mode" not in k
            else counters(v, grow)
        )
        for k, v in value.items()
        if not (grow and k in ("stat", "speedtest-status"))
    }


@pytest.mark.parametrize("name", [*DEVICES, *CLIENTS])
def test_counters_and_clocks_make_no_version_and_anything_else_does(name: str) -> None:
    device = recorded(name)
    assert version(counters(device, 7)) == version(device)
    for changed in (
        {"ip": "10.9.9.9"},
        {"name": "other"},
        {"version": "9"},
        {"adopted": False},
        {"state": 0},
        {"uplink": {"uplink_mac": "a"}},
        {"port_overrides": []},
    ):
        if device.get(next(iter(changed))) != next(iter(changed.values())):
            assert version({**device, **changed}) != version(device)
    listed = ["2001:db8::1", "fd00::1"]
    assert version(device | {"ipv6_addresses": listed}) == version(device | {"ipv6_addresses": listed[::-1]})
    assert version(device | {"ipv6_addresses": listed}) != version(device | {"ipv6_addresses": listed[:1]})
    kept = stable(device)
    assert {"mac", "ip", "name", "type", "model", "adopted"} & device.keys() <= kept.keys()


def test_configuration_is_never_volatile() -> None:
    """Every member of what an operator configures counts, but for those that begin with a counter's name."""
    for one in [
        *recorded("wlans"),
        *recorded("traffic_routes"),
        *house()["networks"],
        *house()["port-forwards"],
    ]:
        assert stable(one) == one


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["edit", "delete", "add", "count", "fail", "crash", "expire"]),
        st.sampled_from(["devices", "clients", "networks", "dns", "port-forwards"]),
        st.integers(0, 20),
    ),
    max_size=8,
)


@given(EDITS, st.sampled_from([BY_KEY, BY_ACCOUNT]))
@settings(max_examples=6, deadline=None)
def test_incremental_equals_from_scratch(edits: list[tuple[str, str, int]], given_: dict[str, Any]) -> None:
    with FakeController() as fake:
        fake.sites = {"default": copy.deepcopy(house())}
        known = remembered({}, events(fake.url, None, given_))
        for what, where, n in edits:
            objects, fake.odd, fake.lives = fake.sites["default"][where], None, None
            at = n % len(objects) if objects else 0
            match what:
                case "edit" if objects:
                    objects[at]["note"] = f"edit {n}"
                case "delete" if objects:
                    del objects[at]
                case "add":
                    objects.append({"_id": f"new{n}", "mac": f"02:00:5e:00:99:{n:02x}", "name": f"new{n}"})
                case "count":
                    fake.sites["default"]["devices"] = counters(fake.sites["default"]["devices"], n)
                case "fail":
                    # Refused, which is not tried again: a list by chance.
                    fake.odd = lambda path, n=n: (
                        (403, b"") if "/rest/" in path and sum(map(ord, path)) % 3 == n % 3 else None
                    )
                case "expire":
                    fake.lives = 2 + n % 5
            stream: list[Event] = []
            for event in connector(fake.url, given_).events(known, lambda _: False):
                stream.append(event)
                if what == "crash" and len(stream) > n:
                    break
            known = remembered(known, stream)
        fake.odd, fake.lives = None, None
        final = remembered(known, events(fake.url, known, given_))
        scratch = remembered({}, events(fake.url, None, given_))
        assert {path: k.etag for path, k in final.items()} == {path: k.etag for path, k in scratch.items()}
        last = events(fake.url, final, given_)
        assert items(last) == {} and last[-1] == Enumerated(True)


# --- exported files -----------------------------------------------------------------------------------------


def exported(path: Path, **fields: Any) -> list[Event]:
    entry = parse_entry({"id": "house", "type": "unifi", "path": str(path), **fields})
    return list(open_connector(entry, access(path)).events({}, lambda _: False))


def test_every_recorded_file_is_an_item_with_its_own_bytes() -> None:
    stream = exported(DATA / "unifi")
    files = {p.name: p.read_bytes() for p in (DATA / "unifi").glob("*.json")}
    assert len(files) == 31
    assert {e.path: e.data for e in stream if isinstance(e, Fetched)} == files
    assert stream[-1] == Enumerated(True)


def test_files_that_are_no_json_of_a_controller_are_typed_skips(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('\ufeff {"_id": 1}', encoding="utf-8")
    (tmp_path / "wide.json").write_text('[{"mac" : 1}]', encoding="utf-16")
    (tmp_path / "none.json").write_text("[]")
    (tmp_path / "package.json").write_text('{"name": "site", "version": "1", "mac-address": "^1"}')
    (tmp_path / "wide-package.json").write_text('{"name": "site"}', encoding="utf-16")
    (tmp_path / "cut.json").write_text('{"data": [')
    (tmp_path / "cut-off.json").write_text('{"meta": {"rc": "ok"}, "data": [')
    (tmp_path / "page.json").write_text("<html></html>")
    (tmp_path / "empty.json").write_text(" \n")
    (tmp_path / "word.json").write_text("true")
    (tmp_path / "README.md").write_text("no")
    stream = exported(tmp_path)
    assert sorted(e.path for e in stream if isinstance(e, Fetched)) == [
        "cut-off.json",
        "good.json",
        "none.json",
        "wide.json",
    ]
    assert {e.path: e.code for e in stream if isinstance(e, Skipped)} == {
        "page.json": "E_MIME",
        "empty.json": "E_EMPTY",
        "word.json": "E_MIME",
        "cut.json": "E_MIME",
        "package.json": "E_MIME",
        "wide-package.json": "E_MIME",
    }
    assert stream[-1] == Enumerated(True)
    assert not any(isinstance(e, Unchanged) for e in stream)


# --- entries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"path": ".", "base_url": "https://unifi.lan"},
        {"base_url": "https://unifi.lan"},
        {"base_url": "unifi.lan", **BY_KEY},
        {"base_url": "https://unifi.lan", **BY_KEY, **BY_ACCOUNT},
        {"base_url": "https://unifi.lan", "username": "a"},
        {"base_url": "https://unifi.lan", "password": "${P}"},
        {"base_url": "https://unifi.lan", "api_key": KEY},
        {"base_url": "https://unifi.lan", "api_key": "${A}", "api_key_env": "A"},
        {"base_url": "https://unifi.lan", **BY_KEY, "clients": "all"},
        {"base_url": "https://unifi.lan", **BY_KEY, "flavor": "cloud"},
    ],
)
def test_entries_that_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(TabootError) as caught:
        parse_entry({"id": "house", "type": "unifi", **fields})
    assert caught.value.code == "E_SOURCES" and KEY not in str(caught.value)
