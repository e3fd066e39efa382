"""Nothing that a document could say runs, loads or leads anywhere from a notebook: by the markup, in a
browser, and through what cleans notebooks for strangers."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat.v4
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbconvert import HTMLExporter
from playwright.sync_api import BrowserContext
from selectolax.lexbor import LexborHTMLParser

from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode
from taboot_pipelines.retrieval.pictures.picture import Picture
from taboot_pipelines.retrieval.pictures.vega import MIME
from taboot_pipelines_tests.browse.payloads import PAYLOADS
from taboot_pipelines_tests.retrieval.pictures.made import results, subgraph


def _words(text: str) -> list[str]:
    return text.split()


ELEMENTS = frozenset(
    _words(
        """
        html head body div table thead tbody tr th td br b small mark a details summary pre code p
        svg g title path rect text
        """
    )
)
ATTRIBUTES = frozenset(
    _words(
        """
        style href target rel xmlns viewbox width height font-family font-size font-weight text-anchor role
        d fill stroke stroke-width x y rx
        """
    )
)
STYLES = frozenset({"text-align:left", "text-align:left;vertical-align:top", "white-space:pre-wrap;margin:0"})


def shown(text: str) -> str:
    return "".join(result._repr_html_() for result in results(text))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_it_is_all_text(payload: str) -> None:
    html = shown(payload)
    tree = LexborHTMLParser(html)
    for node in tree.css("*"):
        assert node.tag in ELEMENTS, (payload, node.html)
        for name, value in node.attributes.items():
            assert name.lower() in ATTRIBUTES, (payload, name)
            assert name != "style" or value in STYLES
            if name == "href":
                assert re.match(r"https?://[\w.]", value or "") and payload.startswith("http")
                assert node.attributes.get("rel") == "noopener noreferrer"
    svg = subgraph(payload).show().svg
    root = ElementTree.fromstring(svg)
    assert all(e.tag.startswith("{http://www.w3.org/2000/svg}") for e in root.iter())
    assert not any("style" in e.attrib or "href" in str(e.attrib) for e in root.iter())


@given(st.text(max_size=200))
def test_any_text_makes_a_picture_that_can_be_read(text: str) -> None:
    picture = subgraph(text).show()
    ElementTree.fromstring(picture.svg)
    json.dumps(picture.vega).encode()


def test_the_specification_runs_nothing_of_a_document() -> None:
    """Expressions are the same whatever documents say: only data and plain values differ."""

    def expressions(text: str) -> list[object]:
        found: list[object] = []

        def look(value: object, at: str) -> None:
            if isinstance(value, dict):
                for name, inner in value.items():
                    look(inner, f"{at}/{name}")
            elif isinstance(value, list):
                for inner in value:
                    look(inner, at)
            elif at.rpartition("/")[2] in ("signal", "update", "init", "expr", "events", "filter", "test"):
                found.append((at, re.sub(r"\d+(\.\d+)?", "0", str(value))))

        spec = subgraph(text).show().vega
        look({k: v for k, v in spec.items() if k != "data"}, "")
        return found

    harmless = expressions("x" * 30)
    assert len(harmless) > 50
    for payload in (*PAYLOADS, "' + alert(1) + '", "datum.x", "{'signal': 'x'}"):
        assert expressions(payload) == harmless
    assert "http" not in json.dumps({k: v for k, v in subgraph("x").show().vega.items() if k != "$schema"})


@pytest.mark.ui
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_runs_in_a_browser(context: BrowserContext, tmp_path: Path, scheme: str) -> None:
    page = context.new_page()
    page.emulate_media(color_scheme=scheme)
    asked: list[str] = []
    ran: list[str] = []
    page.on("request", lambda r: asked.append(r.url))
    page.on("dialog", lambda d: (ran.append(d.message), d.dismiss()))
    page.expose_function("ran", lambda: ran.append("ran"))
    file = tmp_path / "all.html"
    body = "".join(shown(p) for p in PAYLOADS)
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{body}", "utf-8", errors="replace")
    page.goto(file.as_uri())
    page.evaluate("() => document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.wait_for_timeout(300)
    assert page.locator("svg").count() == 2 * len(PAYLOADS)
    assert asked == [file.as_uri()] and ran == []


def test_the_picture_comes_through_what_cleans_notebooks() -> None:
    """GitHub and others show notebooks through nbconvert, cleaned: the picture stays, without styles."""
    nodes = [DrawnNode("Service", "a", "grafana", start=True), DrawnNode("Host", "b", "nas", start=False)]
    edges = [DrawnEdge("BINDS", ("Service", "a"), ("Host", "b"), "3010→3000/tcp")]
    picture = Picture.around("grafana", nodes, edges)
    data, metadata = picture._repr_mimebundle_()
    output = nbformat.v4.new_output("execute_result", data, metadata=metadata, execution_count=1)
    cell = nbformat.v4.new_code_cell("x", outputs=[output])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    shown = LexborHTMLParser(HTMLExporter(sanitize_html=True).from_notebook_node(notebook)[0])
    (image,) = shown.css(".jp-OutputArea-output img")
    address = str(image.attributes.get("src"))
    assert address.startswith("data:image/svg+xml;base64,")
    assert base64.b64decode(address.partition(",")[2]).decode() == picture.svg
    assert MIME in data and data["text/plain"].startswith("grafana\n")
