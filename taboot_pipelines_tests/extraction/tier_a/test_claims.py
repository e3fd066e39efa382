"""One rule for all formats: when an end of an edge stands in its quote, and what is claimed once."""

from __future__ import annotations

import pytest

from taboot_pipelines.extraction.tier_a import texts as reading
from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote, basis_of, stands_in
from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import FileView, NodeRef, SourceFacts, UnitSpec

SOURCE = SourceFacts("ns", "src")
WEB, DB = NodeRef("Service", ("s", "web"), "web"), NodeRef("Service", ("s", "db"), "db")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("web", True),
        ("http://web:8080/", True),
        ('"web"', True),
        ("service:web", True),
        ("user:secret@web/", True),
        ("depends on web.", True),
        ("webhook-relay", False),
        ("my-web", False),
        ("web-2", False),
        ("web.lan", False),
        ("www.web", False),
        ("web_db", False),
        ("http://$web:80", False),
        ("${web}", False),
        ("webhook-relay then web", True),
        ("", False),
    ],
)
def test_a_part_of_another_name_is_not_the_name(text: str, found: bool) -> None:
    assert stands_in("web", text) is found


def test_a_format_may_join_names_by_further_signs() -> None:
    assert stands_in("web", "tag:web") and not stands_in("web", "tag:web", ":/")
    assert stands_in("web", '"web:80"', ":/")


def test_bases() -> None:
    assert basis_of("web", "http://web:80") == Basis.BYTES
    assert basis_of("redis", "redis.service", "redis.service") == Basis.NORMALIZED
    assert basis_of("web", "webhook-relay", "webhook") == Basis.DERIVED
    assert basis_of("web", "webhook-relay") == Basis.DERIVED


@pytest.fixture
def builder() -> ClaimBuilder:
    texts = {"a": "web needs db\ndb\n", "b": "db"}
    view = UnitTexts(FileView(frozenset(texts), texts.get))
    for path in texts:
        view.text(path)
    return ClaimBuilder(SOURCE, view, max_edges=3)


def test_claims_are_made_once_and_a_declaration_goes_first(builder: ClaimBuilder) -> None:
    first, second = Quote("db", "a", 10, 12), Quote("db", "a", 13, 15)
    builder.node(DB, first)
    builder.node(DB, second, {"port": 5432}, declared=True)
    builder.node(DB, first, {"port": 1}, declared=True)
    for _ in range(2):
        builder.edge("DEPENDS_ON", WEB, DB, first, "m")
        builder.edge("DEPENDS_ON", WEB, DB, second, "m")
    builder.edge("DEPENDS_ON", None, DB, first, "m")
    said = builder.result()
    (node,) = said.nodes
    assert (node.evidence, node.declared, node.properties) == (second.evidence, True, {"port": 5432})
    assert [e.evidence for e in said.edges] == [first.evidence, second.evidence]
    assert {(e.start_basis, e.end_basis) for e in said.edges} == {(Basis.DERIVED, Basis.BYTES)}


def test_what_the_model_refuses_and_what_is_too_much_are_problems(builder: ClaimBuilder) -> None:
    where = Quote("db", "a", 13, 15)
    assert builder.node(NodeRef("Service", ("s", "no name"), "no name"), where) is None
    builder.edge("DEPENDS_ON", WEB, NodeRef("IP", ("1.1.1.1",), "1.1.1.1"), where, "m")
    builder.bind(WEB, where, 80, "tcp", "m", address="nowhere")
    for port in range(1, 6):
        builder.edge("CONNECTS_TO", WEB, DB, where, "m", port=port)
    said = builder.result()
    assert not said.nodes and len(said.edges) == 3
    assert [p.code for p in said.problems] == ["E_PARSE", "E_PARSE", "E_PARSE", "E_TOO_LARGE"]
    assert all(p.message.startswith("a, line 2: ") for p in said.problems)


def test_of_too_many_problems_it_is_said_that_there_are_more(monkeypatch, builder: ClaimBuilder) -> None:
    monkeypatch.setattr(reading, "MAX_PROBLEMS", 3)
    for number in range(9):
        builder.texts.problem("a", "E_PARSE", f"a: {number}.")
    builder.texts.problem("a", "E_TOO_LARGE", "a: the rest was left out.")
    assert [p.message for p in builder.result().problems] == [
        "a: 0.",
        "a: 1.",
        "a: 2.",
        "a: there are more than 3 problems; the rest is not listed.",
        "a: the rest was left out.",
    ]


def _edges(name: str, text: str) -> list[tuple[str, str]]:
    """(name of the end, its basis) of what one file of any format leads to."""
    view = FileView(frozenset([name]), {name: text}.get)
    extractor = (
        ComposeExtractor() if "compose" in name else NginxExtractor() if "nginx" in name else ConfigFiles()
    )
    said = extractor.interpret(UnitSpec(name, (name,)), view, SOURCE)
    kinds = ("CONNECTS_TO", "DEPENDS_ON", "ROUTES_TO")
    return [(e.end.name, e.end_basis.value) for e in said.edges if e.type in kinds]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "compose.yaml",
            "services:\n  web: {image: a, container_name: webhook-relay}\n"
            "  app: {image: b, environment: {URL: 'http://webhook-relay:80'}}\n",
        ),
        ("nginx.conf", "server { location / { set $host_ web; proxy_pass http://$host_:80; } }\n"),
        ("Caddyfile", "a.org {\n reverse_proxy webhook-relay:80\n}\n"),
        ("haproxy.cfg", "listen web\n bind :80\n server web webhook-relay:80\n"),
        ("x.service", "[Unit]\nAfter=web.service\n[Service]\n"),
        (
            "k.yaml",
            "scrape_configs:\n- job_name: web\n"
            "  dns_sd_configs:\n  - {names: [tasks.web], type: A, port: 1}\n",
        ),
    ],
)
def test_the_rule_is_the_same_in_every_format(name: str, text: str) -> None:
    found = _edges(name, text)
    assert found
    for end, basis in found:
        if end == "web":
            assert (basis == "bytes") is (name == "nginx.conf")
        else:
            assert (end, basis) == ("webhook-relay", "bytes")
