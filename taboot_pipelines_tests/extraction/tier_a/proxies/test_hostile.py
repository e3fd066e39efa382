"""Broken and hostile configuration of proxies: always an interpretation or a typed problem, in bounded time,
and the same again for the same text."""

from __future__ import annotations

import time
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gold.proxies_f1 import halves
from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.extraction.tier_a.toml_nodes import parse_toml
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, SEQUENCE, Node, Origin
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec
from taboot_pipelines_tests.extraction.tier_a.proxies.reading import check, codes
from taboot_pipelines_tests.world import DATA


def _samples() -> list[tuple[str, str]]:
    """(name by which it is recognised, text) of real files, one of each kind and some more."""
    found = []
    for folder, pattern, name in (
        ("haproxy-configs/tests/conf", "test-handshakes.cfg", "haproxy.cfg"),
        ("haproxy-configs/examples", "content-sw-sample.cfg", "haproxy.cfg"),
        ("traefik-configs/integration/fixtures/file", "simple.toml", "simple.toml"),
        ("traefik-configs/integration/fixtures/k8s", "06-*.yml", "routes.yml"),
        ("traefik-configs/integration/testdata", "rawdata-zk.json", "rawdata.json"),
    ):
        found += [(name, p.read_text(encoding="utf-8")) for p in sorted((DATA / folder).glob(pattern))]
    for stem in ("forward_auth_authelia", "import_block_with_site_block", "php_fastcgi_index_off"):
        text = (DATA / "caddy-adapt" / f"{stem}.caddyfiletest").read_text(encoding="utf-8")
        caddyfile, answer = halves(text)
        found += [("Caddyfile", caddyfile), ("caddy.json", answer)]
    return found


SAMPLES = _samples()


def read(name: str, text: str) -> Interpretation:
    view = FileView(frozenset({name}), {name: text}.__getitem__)
    return ConfigFiles().interpret(UnitSpec(name, (name,)), view, SourceFacts("default", "edge"))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_cut_and_mixed_texts_are_read_or_are_problems(data: st.DataObject) -> None:
    name, text = data.draw(st.sampled_from(SAMPLES))
    cut = data.draw(st.integers(0, len(text)))
    text = (
        text[:cut] + data.draw(st.text("{}[]()\"`'\\$#<&|!:,=\n\t aß\ufeff\0", max_size=20)) + text[cut + 3 :]
    )
    said = read(name, text)
    check(said, {name: text})
    assert read(name, text) == said
    assert all(problem.code.startswith("E_") for problem in said.problems)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("Caddyfile", "\n", "E_EMPTY"),
        ("haproxy.cfg", "", "E_EMPTY"),
        ("Caddyfile", "a {\n" * 5000, "E_TOO_LARGE"),
        ("Caddyfile", "a b " * 200_000, "E_TOO_LARGE"),
        ("x.yml", "http:\n  routers: " + "{a: " * 5000, "E_PARSE"),
        ("x.yml", "http:\n  routers: {a: *b}\n", "E_PARSE"),
        ("x.toml", "[http.routers]\na = " + "[" * 5000, "E_PARSE"),
        ("x.toml", "[http.routers]\n" + "a." * 500 + "b = 1\n", "E_TOO_LARGE"),
        ("x.toml", "[http.routers]\n[http.routers]\n", "E_PARSE"),
        ("x.json", '{"apps": {"http": {"servers": {"a": {"listen": [' + "[" * 3000, "E_PARSE"),
        ("haproxy.cfg", "listen x\n bind :80\n server a " + "b" * 100_000 + "\n", "E_TOO_LARGE"),
        ("haproxy.cfg", "listen x\n bind :80\n.if " + "!(" * 20_000 + "\n", "E_UNRESOLVED"),
    ],
)
def test_what_is_too_much_or_broken_is_a_typed_problem(name: str, text: str, code: str) -> None:
    begun = time.process_time()
    said = read(name, text)
    assert code in codes(said), codes(said)
    assert time.process_time() - begun < 20


def test_aliases_and_services_do_not_multiply() -> None:
    names = "abcdefghijklmnopqrstuvwxyz"
    bomb = "a: &a [x, x]\n" + "".join(
        f"{name}: &{name} [*{before}, *{before}]\n" for before, name in pairwise(names)
    )
    assert codes(read("x.yml", "http:\n  routers: {}\n" + bomb)) == ["E_TOO_LARGE"]
    services = "".join(
        f"    s{n}: {{weighted: {{services: [{{name: s{n + 1}}}, {{name: s{n + 1}}}]}}}}\n" for n in range(15)
    )
    text = f"http:\n  routers: {{r: {{rule: Host(`a`), service: s0}}}}\n  services:\n{services}"
    begun = time.process_time()
    assert "E_TOO_LARGE" in codes(read("x.yml", text)) and time.process_time() - begun < 20


def _invoking() -> str:
    """Named routes that each invoke the next twice."""
    named = "".join(f"&(r{n}) {{\n invoke r{n + 1}\n invoke r{n + 1}\n}}\n" for n in range(40))
    return f"{named}a.lan {{\n invoke r0\n}}\n"


def _switching() -> str:
    """A frontend with so many ways to so many servers that none of them has a port."""
    switches = " use_backend b if { path /x }\n" * 3000
    servers = "".join(f" server s{n} ${{H}}:80\n" for n in range(3000))
    return f"defaults\n mode http\nfrontend f\n bind :80\n{switches}backend b\n{servers}"


def _parents() -> str:
    """Routers below all of each other."""
    names = [f"r{n}" for n in range(12)]
    routers = "".join(
        f"    {n}: {{rule: Host(`{n}`), service: s, parentRefs: [{', '.join(names)}]}}\n" for n in names
    )
    service = "s: {loadBalancer: {servers: [{url: 'http://s'}]}}"
    return f"http:\n  routers:\n{routers}  services:\n    {service}\n"


def _resources() -> str:
    """TraefikServices that name one another."""
    services = [f"{{name: t{n}, kind: TraefikService}}" for n in range(12)]
    spec = f"spec: {{weighted: {{services: [{', '.join(services)}]}}}}"
    made = "".join(
        f"---\napiVersion: traefik.io/v1alpha1\nkind: TraefikService\nmetadata: {{name: t{n}}}\n{spec}\n"
        for n in range(12)
    )
    return (
        f"{made}---\napiVersion: traefik.io/v1alpha1\nkind: IngressRoute\nmetadata: {{name: i}}\n"
        f"spec: {{routes: [{{match: Host(`a`), services: [{services[0]}]}}]}}\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("Caddyfile", _invoking(), "E_TOO_LARGE"),
        (
            "Caddyfile",
            "a.lan {\n" + "handle_path /a /b {\n" * 40 + "}\n" * 41,
            None,
        ),
        (
            "Caddyfile",
            "a.lan {\n@m path /a* /b* /c*\n" + "handle @m {\n" * 60 + "reverse_proxy a:1\n" + "}\n" * 61,
            "E_TOO_LARGE",
        ),
        ("haproxy.cfg", _switching(), "E_TOO_LARGE"),
        ("x.yml", _parents(), "E_TOO_LARGE"),
        ("x.yml", _resources(), "E_TOO_LARGE"),
        ("x.yml", "http:\n" + "  # x\n" * 10_000, None),
        (
            "x.yml",
            "http:\n  routers: {a: {service: s, rule: '" + ";" * 100_000 + "'}}\n  services: {s: {}}",
            "E_PARSE",
        ),
    ],
)
def test_references_do_not_multiply(name: str, text: str, code: str | None) -> None:
    begun = time.process_time()
    found = codes(read(name, text))
    assert time.process_time() - begun < 30
    assert code is None or code in found, found[:5]


# --- TOML with places ---------------------------------------------------------------------------------------

_KEYS = st.text("ab-_é \"'.\\", min_size=1, max_size=4)
_SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), st.text("ab\"'\\#[]{}=\n", max_size=8))
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, list):
        return "[\n" + "".join(f"  {_written(v)}, # ] {{\n" for v in value) + "]"
    return str(value)


def _plain(node: Node) -> object:
    if node.kind == MAPPING:
        return {name: _plain(value) for name, (_, value) in node.entries.items()}
    return [_plain(item) for item in node.items] if node.kind == SEQUENCE else node.text


def _texts(value: object) -> object:
    if isinstance(value, dict):
        return {name: _texts(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_texts(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=3), st.booleans()), max_size=5))
def test_toml_has_the_values_of_the_library_and_the_places_of_its_statements(
    tables: list[tuple[str, dict[str, object], bool]],
) -> None:
    lines: list[str] = []
    seen: dict[str, bool] = {}
    for name, entries, several in tables:
        several = seen.setdefault(name, several)
        if not several and f"[{_written(name)}]\n" in lines:
            continue
        lines.append(f"[[{_written(name)}]]\n" if several else f"[{_written(name)}]\n")
        lines += [f"{_written(key)} = {_written(value)} # = [\n" for key, value in entries.items()]
    text = "".join(lines)
    root = parse_toml(Origin("x.toml", text, ""))
    assert _plain(root) == _texts(tomllib.loads(text))
    for name, (_, table) in root.entries.items():
        for each in table.items if table.kind == SEQUENCE else [table]:
            for key, (_, value) in each.entries.items():
                quote = text[value.start : value.end]
                assert quote.startswith(f"{_written(key)} = "), (name, quote)
                assert value.kind != SCALAR or quote.rstrip().endswith(_tail(quote))


def _tail(quote: str) -> str:
    """The statement is whole and without its comment: it reads as one of its own."""
    tomllib.loads(quote)
    return ""


@pytest.mark.parametrize("path", sorted((DATA / "traefik-configs").rglob("*.toml")), ids=lambda p: p.name)
def test_every_place_of_a_real_toml_file_is_a_statement(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if "{{" in text and "{{range" in text:
        return
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    stack = [parse_toml(Origin(path.name, text, ""))]
    while stack:
        node = stack.pop()
        assert 0 <= node.start <= node.end <= len(text)
        if node.kind == SCALAR:
            tomllib.loads(text[node.start : node.end])
        stack += [value for _, value in node.entries.values()] + node.items
