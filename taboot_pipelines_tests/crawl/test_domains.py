"""Which domain a URL belongs to, and what holds for it."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from pydantic import ValidationError

from taboot_pipelines.crawl import domains as module
from taboot_pipelines.crawl.domains import (
    Domains,
    DomainSettings,
    domain_name,
    filled_headers,
    registrable_domain,
)
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import HttpSettings

DEFAULTS = HttpSettings(rate_limit_rps=1, rate_limit_burst=5)


def domains(
    settings: dict[str, dict[str, Any]] | None = None, blocks: dict[str, bool] | None = None
) -> Domains:
    found = {name: DomainSettings.model_validate(fields) for name, fields in (settings or {}).items()}
    return Domains(DEFAULTS, found, None if blocks is None else lambda: blocks)


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://docs.example.org/a", "example.org"),
        ("https://example.org:8443/", "example.org"),
        ("https://a.b.example.co.uk/", "example.co.uk"),
        ("https://kubernetes.github.io/x", "kubernetes.github.io"),
        ("https://www.städte.example.de/", "example.de"),
        ("https://xn--85x722f.com.cn/", "xn--85x722f.com.cn"),
        ("http://grafana.hearth.lan:3000/", "grafana.hearth.lan:3000"),
        ("http://nas/", "nas"),
        ("http://nas:8080/", "nas:8080"),
        ("http://127.0.0.1:8000/", "127.0.0.1:8000"),
        ("http://10.0.0.1/", "10.0.0.1"),
        ("http://[fd00::1]:81/", "[fd00::1]:81"),
        ("https://co.uk/", "co.uk"),
    ],
)
def test_a_domain_is_what_one_owner_holds(url: str, domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: Any, **__: Any) -> Any:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    registrable_domain.cache_clear()
    module._suffixes.cache_clear()
    assert domains().name_of(parse_url(url)) == domain


def test_a_name_in_the_settings_is_a_domain_of_its_own_and_the_longest_decides() -> None:
    all_ = domains(
        {
            "example.org": {"rate_limit_rps": 3, "delay_seconds": 0.5, "headers": {"A": "1", "B": "1"}},
            "docs.example.org": {"rate_limit_rps": 0.5, "headers": {"B": "2"}},
            "nas:8080": {"rate_limit_burst": 9},
        }
    )
    names = {
        u: all_.name_of(parse_url(u))
        for u in (
            "https://a.docs.example.org/",
            "https://www.example.org/",
            "http://nas:8080/",
            "http://nas/",
        )
    }
    assert list(names.values()) == ["docs.example.org", "example.org", "nas:8080", "nas"]
    docs, site, nas = (all_.limits(n) for n in ("docs.example.org", "example.org", "nas:8080"))
    assert (docs.rate, docs.delay, docs.burst, docs.headers) == (0.5, 0.5, 5, {"A": "1", "B": "2"})
    assert (site.rate, site.delay, site.headers) == (3, 0.5, {"A": "1", "B": "1"})
    assert (nas.rate, nas.burst, nas.circuit_failures, nas.circuit_rest_seconds) == (1, 9, 5, 300)
    assert all_.limits("other.example") == domains().limits("other.example")


def test_what_a_person_decided_stands_above_the_file_and_the_longest_name_above_both() -> None:
    file = {"ads.example": {"blocked": True}, "example.org": {"rate_limit_rps": 3}}

    def blocked(blocks: dict[str, bool], url: str) -> bool:
        all_ = domains(file, blocks)
        return all_.limits(all_.name_of(parse_url(url))).blocked

    assert blocked({}, "http://ads.example/") and blocked({}, "http://a.ads.example/")
    assert not blocked({}, "http://example.org/")
    assert not blocked({"ads.example": False}, "http://a.ads.example/")
    assert blocked({"example.org": True}, "http://docs.example.org/")
    assert blocked({"docs.example.org": True}, "http://docs.example.org/")
    assert not blocked({"docs.example.org": True}, "http://www.example.org/")
    assert not blocked({"example.org": True, "docs.example.org": False}, "http://docs.example.org/")
    assert blocked({"127.0.0.1": True}, "http://127.0.0.1:8000/")
    assert blocked({"127.0.0.1:8000": True}, "http://127.0.0.1:8000/")
    assert not blocked({"127.0.0.1:8000": True}, "http://127.0.0.1:8001/")
    assert not blocked({"0.0.1": True}, "http://127.0.0.1/")


def test_blocks_are_asked_for_again_while_a_crawl_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELOAD_SECONDS", 0.0)
    blocks: dict[str, bool] = {}
    all_ = domains({}, blocks)
    url = parse_url("https://docs.example.org/")
    assert all_.name_of(url) == "example.org" and not all_.limits("example.org").blocked
    version = all_.version
    blocks["docs.example.org"] = True
    all_.reload()
    assert all_.version > version and all_.limits(all_.name_of(url)).blocked
    del blocks["docs.example.org"]
    all_.reload()
    assert not all_.limits(all_.name_of(url)).blocked


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Example.ORG", "example.org"),
        (" example.org. ", "example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("nas:8080", "nas:8080"),
        ("example.org:80", "example.org"),
        ("[FD00::1]", "[fd00::1]"),
        ("127.1", "127.0.0.1"),
    ],
)
def test_names_are_taken_as_people_write_them(text: str, name: str) -> None:
    assert domain_name(text) == name


@pytest.mark.parametrize(
    "text",
    ["", " ", "http://example.org", "example.org/a", "*.example.org", "a@b", "a b", "x" * 400, "1.2.3.4.5"],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        domain_name(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"rate": 1},
        {"rate_limit_rps": -1},
        {"rate_limit_rps": "1"},
        {"rate_limit_burst": 0},
        {"circuit_rest_seconds": 0},
        {"headers": {"Host": "x"}},
        {"headers": {"Bad Name": "x"}},
        {"headers": {"X": "a\nb"}},
        {"headers": {"A": "1", "a": "2"}},
        {"headers": {"X": "☃"}},
    ],
)
def test_settings_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DomainSettings.model_validate(fields)


def test_secrets_of_headers_come_from_the_environment_and_split_no_request() -> None:
    secrets = {"TOKEN": "s3cret", "EVIL": "a\r\nX: b"}
    filled = filled_headers({"Authorization": "Bearer ${TOKEN}", "X": "$TOKEN ${ }"}, secrets.__getitem__)
    assert filled == {"Authorization": "Bearer s3cret", "X": "$TOKEN ${ }"}
    with pytest.raises(TabootError, match="E_CONFIG") as error:
        filled_headers({"X": "${EVIL}"}, secrets.__getitem__)
    assert "a\r\n" not in str(error.value)
