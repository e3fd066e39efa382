"""The readers of proxies' configuration against labels made by reading, and against what Caddy says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gold import proxies_f1
from taboot_pipelines_tests.extraction.tier_a.proxies.reading import check, codes
from taboot_pipelines_tests.world import DATA

#: What Caddy refuses for a reason that is none of structure or of routes: an option that it does not know, or
#: one that stands twice.
ACCEPTED = {
    "duplicate_listener_address_global",
    "forward_auth_duplicate_uri",
    "heredoc_missing_marker",
    "tls_dns_propagation_without_provider",
}
ADAPTED = sorted(p for p in (DATA / "caddy-adapt").iterdir() if p.name != "NOTE.md")


@pytest.mark.parametrize("name", list(proxies_f1.SETS))
def test_the_labels(name: str) -> None:
    hit = vain = missed = 0
    for _, file, wanted in proxies_f1.labelled(name):
        path = DATA / proxies_f1.SETS[name] / file
        texts = {path.name: path.read_text(encoding="utf-8")}
        said = proxies_f1.interpreted(texts, path.name)
        check(said, texts)
        found = proxies_f1.routes(said)
        hit, vain, missed = (
            hit + len(found & wanted),
            vain + len(found - wanted),
            missed + len(wanted - found),
        )
    assert hit and 2 * hit / (2 * hit + vain + missed) >= 0.99


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _objects(each)
    elif isinstance(value, list):
        for each in value:
            yield from _objects(each)


@pytest.mark.parametrize("path", ADAPTED, ids=lambda p: p.stem)
def test_a_caddyfile_says_what_caddy_makes_of_it(path: Path) -> None:
    """Both readers say the same; and independently of either, the addresses that Caddy dials and the hosts
    that it matches are those of the claims."""
    caddyfile, answer = proxies_f1.halves(path.read_text(encoding="utf-8"))
    texts = {"Caddyfile": caddyfile}
    said = proxies_f1.interpreted(texts, "Caddyfile")
    check(said, texts)
    if not answer.lstrip().startswith("{"):
        assert path.stem in ACCEPTED or codes(said), "Caddy refuses it"
        return
    adapted = proxies_f1.interpreted({"caddy.json": answer}, "caddy.json")
    check(adapted, {"caddy.json": answer})
    assert proxies_f1.routes(said) == proxies_f1.routes(adapted)
    edges = [e for e in said.edges if e.type == "ROUTES_TO"]
    handlers = [o for o in _objects(json.loads(answer)) if o.get("handler") == "reverse_proxy"]
    dialled = {u["dial"] for h in handlers if "rewrite" not in h for u in h.get("upstreams", ())}
    known = {d for d in dialled if re.fullmatch(r"[\w.-]*:\d+", d)}
    exposed = {
        f"{host}:{port}"
        for _, host, port, _ in (n.node.key for n in said.nodes if n.node.label == "Endpoint")
    }
    assert exposed == {re.sub(r"^:", "localhost:", d) for d in known}
    hosts = {
        h for o in _objects(json.loads(answer)) for h in o.get("host", ()) if isinstance(o["host"], list)
    }
    assert {e.properties.get("host") for e in edges} - {None} <= hosts
    assert ("E_UNRESOLVED" in codes(said)) == any("{" in d for d in dialled)


def test_an_import_cycle_is_a_typed_problem() -> None:
    (path,) = [p for p in ADAPTED if p.stem == "import_cycle"]
    caddyfile, _ = proxies_f1.halves(path.read_text(encoding="utf-8"))
    assert "E_CYCLE" in codes(proxies_f1.interpreted({"Caddyfile": caddyfile}, "Caddyfile"))
