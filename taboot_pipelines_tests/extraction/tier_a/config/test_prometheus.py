"""Prometheus' configuration."""

from __future__ import annotations

import pytest

from taboot_pipelines_tests.extraction.tier_a.config.reading import edges, interpret, one, shown


def job(rest: str) -> str:
    return f"scrape_configs:\n- job_name: a\n{rest}"


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("node:9100", ("Service", "node", 9100)),
        ("node", ("Service", "node", 80)),
        ("NAS.lan:9100", ("Host", "nas.lan", 9100)),
        ("nas.lan.:9100", ("Host", "nas.lan", 9100)),
        ("10.0.0.1:9100", None),
        ("localhost:9090", None),
        ("127.0.0.1:9090", None),
        ("http://node:9100", None),
        ("node:70000", None),
        ("${HOST}:9100", None),
    ],
)
def test_a_target_is_a_service_or_a_host(target: str, found: tuple[str, str, int] | None) -> None:
    said = one("p.yml", job(f"  static_configs: [{{targets: ['{target}']}}]\n"))
    ends = [(e.end.label, e.end.name, e.properties["port"]) for e in edges(said, "CONNECTS_TO")]
    assert ends == ([found] if found else [])
    assert len(said.problems) == (target in ("http://node:9100", "node:70000", "${HOST}:9100"))


def test_an_example_is_read_as_what_it_shows_unless_that_is_there() -> None:
    text = job("  static_configs: [{targets: ['node:9100']}]\n")
    (found,) = edges(one("prometheus.yml.example", text), "CONNECTS_TO")
    assert (found.end.name, found.evidence.path) == ("node", "prometheus.yml.example")
    assert interpret({"prometheus.yml": text, "prometheus.yml.example": text}).keys() == {"prometheus.yml"}
    # A copy that is kept shows nothing.
    assert interpret({"prometheus.yml.bak": text}) == {}


def test_lists_of_targets_are_read_by_the_job_that_names_them() -> None:
    files = {
        "p/prometheus.yml": job("  scheme: https\n  file_sd_configs: [{files: ['t/*.json', /etc/x.yml]}]\n"),
        "p/t/a.json": '[{"targets": ["one:1"]}]',
        "p/t/b.json": '[{"targets": ["two:2"], "labels": {"__scheme__": "http"}}]',
        "other.yml": "- targets: [three:3]\n",
    }
    said = interpret(files)
    assert said.keys() == {"p/prometheus.yml", "other.yml"}
    found = [(e.end.name, e.properties["protocol"]) for e in edges(said["p/prometheus.yml"], "CONNECTS_TO")]
    assert found == [("one", "https"), ("two", "http")]
    assert [p.code for p in said["p/prometheus.yml"].problems] == ["E_NOT_FOUND"]
    (unknown,) = edges(said["other.yml"], "CONNECTS_TO")
    assert unknown.properties == {"port": 3}


@pytest.mark.parametrize(
    "rule",
    [
        "{source_labels: [__address__], regex: '(.*):.*', target_label: __address__, replacement: '$1:9'}",
        "{source_labels: [x], target_label: __scheme__}",
        "{source_labels: [x], regex: y, action: keep}",
        "{regex: '__meta_(.+)', action: labelmap, replacement: '__${1}__'}",
    ],
)
def test_relabelling_that_decides_addresses_is_told_and_nothing_is_guessed(rule: str) -> None:
    said = one("p.yml", job(f"  static_configs: [{{targets: [b:1]}}]\n  relabel_configs: [{rule}]\n"))
    assert said.edges == () and [p.code for p in said.problems] == ["E_UNRESOLVED"]


def test_relabelling_of_other_labels_changes_nothing() -> None:
    rules = (
        "{source_labels: [__address__], target_label: instance}, {regex: x, action: labeldrop}, "
        "{source_labels: [__address__], target_label: __address__}"
    )
    said = one("p.yml", job(f"  static_configs: [{{targets: [b:1]}}]\n  relabel_configs: [{rules}]\n"))
    assert [e.end.name for e in edges(said, "CONNECTS_TO")] == ["b"]


def test_an_exporter_that_probes_is_asked_and_asks() -> None:
    said = one(
        "p.yml",
        job(
            "  metrics_path: /probe\n  params: {module: [tcp_connect]}\n"
            "  static_configs: [{targets: ['https://a.example.com/x', 'db:5432']}]\n"
            "  relabel_configs:\n"
            "  - {source_labels: [__address__], target_label: __param_target}\n"
            "  - {target_label: __address__, replacement: 'blackbox:9115'}\n"
        ),
    )
    assert [
        (*shown(e), e.properties["protocol"], e.properties["port"]) for e in edges(said, "CONNECTS_TO")
    ] == [
        ("CONNECTS_TO", "prometheus", "blackbox", "http", 9115),
        ("CONNECTS_TO", "blackbox", "a.example.com", "https", 443),
        ("CONNECTS_TO", "blackbox", "db", "tcp", 5432),
    ]


def test_no_credential_is_in_any_claim() -> None:
    said = one(
        "p.yml",
        job("  basic_auth: {username: u, password: planted-secret}\n  static_configs: [{targets: [b:1]}]\n")
        + "remote_write: [{url: 'https://u:planted-secret@mimir.lan/push', bearer_token: planted-secret}]\n",
    )
    assert [e.end.name for e in edges(said, "CONNECTS_TO")] == ["b", "mimir.lan"]
    assert edges(said, "EXPOSES_ENDPOINT")[0].properties == {"auth": "basic"}
    assert "planted-secret" not in repr(said)


def test_alertmanagers_and_remote_storage_are_connections() -> None:
    said = one(
        "p.yml",
        "scrape_configs: []\nalerting: {alertmanagers: [{static_configs: [{targets: ['am:9093']}]}]}\n"
        "remote_read: [{url: 'http://mimir:9009/read'}]\n",
    )
    assert [(e.end.name, e.method) for e in edges(said, "CONNECTS_TO")] == [
        ("am", "prometheus_alertmanager"),
        ("mimir", "prometheus_remote_read"),
    ]


def test_lists_of_other_things_are_none() -> None:
    for targets in ("[main.c, util.c]", "['https://a.example.com']", "{a: b}"):
        assert one("list.yml", f"- targets: {targets}\n").nodes == ()
