"""How relations are said, and names that are told apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.model.graph import EDGES
from taboot_pipelines.retrieval.verbalization import NodeName, names_of, relation, statement


@pytest.mark.parametrize(
    ("type_", "properties", "said"),
    [
        ("BINDS", {"port": 3010, "targetPort": 3000, "protocol": "tcp"}, "BINDS 3010→3000/tcp"),
        ("BINDS", {"port": 53, "protocol": "udp", "hostIp": "10.0.0.1"}, "BINDS 10.0.0.1:53/udp"),
        (
            "ROUTES_TO",
            {"host": "grafana.example.org", "path": "/", "port": 3000, "tls": True},
            "ROUTES_TO grafana.example.org/ → :3000, tls",
        ),
        (
            "ROUTES_TO",
            {
                "host": "vault.*",
                "location": "~ ^(/vault)?/admin",
                "port": 80,
                "scheme": "https",
                "tls": False,
            },
            "ROUTES_TO vault.* ~ ^(/vault)?/admin → https :80",
        ),
        (
            "ROUTES_TO",
            {"host": "a.b", "location": "^~ /x/", "path": "/x/", "tls": True},
            "ROUTES_TO a.b/x/, tls",
        ),
        ("ROUTES_TO", {"tls": False}, "ROUTES_TO"),
        ("DEPENDS_ON", {"condition": "service_healthy"}, "DEPENDS_ON (service_healthy)"),
        (
            "DEPENDS_ON",
            {"condition": "service_started", "required": False},
            "DEPENDS_ON (service_started, not required)",
        ),
        ("DEPENDS_ON", {}, "DEPENDS_ON"),
        ("BINDS", {"protocol": "udp"}, "BINDS"),
        ("CONNECTS_TO", {"port": 5432, "protocol": "postgresql"}, "CONNECTS_TO :5432/postgresql"),
        ("CONNECTS_TO", {"ports": "22,80", "via": ["gate"]}, "CONNECTS_TO :22,80 (via gate)"),
        ("RUNS", {"restartPolicy": "always"}, "RUNS (always)"),
        ("RESOLVES_TO", {"recordType": "AAAA"}, "RESOLVES_TO (AAAA)"),
        ("RUNS_IN", {"networkMode": "bridge", "aliases": ["db"]}, "RUNS_IN (bridge, as db)"),
        ("BUILDS", {"target": "run", "buildArgs": ["A"]}, "BUILDS (target run, arguments A)"),
        ("EXPOSES_ENDPOINT", {"auth": "none"}, "EXPOSES_ENDPOINT"),
        ("MENTIONS", {"span": [0, 3]}, "MENTIONS"),
    ],
)
def test_a_relation_says_what_matters(type_: str, properties: dict[str, Any], said: str) -> None:
    assert relation(type_, properties) == said


@given(
    st.sampled_from(sorted(EDGES)),
    st.dictionaries(
        st.sampled_from(sorted({p for e in EDGES.values() for p in e.properties})),
        st.text(max_size=5),
    ),
)
def test_anything_can_be_said(type_: str, properties: dict[str, str]) -> None:
    lists = {"aliases", "buildArgs", "via", "posture", "conditionalPorts"}
    given_ = {k: [v] if k in lists else v for k, v in properties.items()}
    assert relation(type_, given_).startswith(type_)


def test_nodes_of_one_name_are_told_apart() -> None:
    called = names_of(
        [
            NodeName("Service", '["nas/forge","db"]', "db"),
            NodeName("Service", '["nas/household","db"]', "db"),
            NodeName("Service", '["nas/forge","gitea"]', "gitea"),
            NodeName("Container", "bebd08137e", "db", "nas/forge"),
            NodeName("Document", "24a6c285-d0ef", "compose.yaml"),
            NodeName("Document", "e2c2bbb4-dbe2", "compose.yaml"),
            NodeName("Network", "nas/x/default", "default"),
            NodeName("Network", "nas/y/default", "default"),
            NodeName("Host", "one-with-a-longer-key-1", "one"),
            NodeName("Host", "one-with-a-longer-key-2", "one"),
        ]
    )
    assert list(called.values()) == [
        "Service db in nas/forge",
        "Service db in nas/household",
        "Service gitea",
        "Container db",
        "Document compose.yaml [24a6c285]",
        "Document compose.yaml [e2c2bbb4]",
        "Network default in nas/x",
        "Network default in nas/y",
        "Host one [one-with-a-longer-key-1]",
        "Host one [one-with-a-longer-key-2]",
    ]
    assert statement("Service a", "BINDS", {"port": 1, "protocol": "tcp"}, "Host h") == (
        "(Service a)-[BINDS 1/tcp]->(Host h)"
    )
