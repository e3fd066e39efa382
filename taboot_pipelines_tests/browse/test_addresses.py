"""Where links of the pages lead, and how places are shortened."""

from __future__ import annotations

import pytest

from taboot_pipelines.browse.rendering import to
from taboot_pipelines.retrieval.rendering import outside, short_url
from taboot_pipelines.shards.manifest import SourceEntry


@pytest.mark.parametrize(
    ("url", "leads"),
    [
        ("https://example.org/a?b=1", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        (" https://example.org", False),
        ("java\tscript:alert(1)", False),
        ("data:text/html,<script>1</script>", False),
        ("//example.org/a", False),
        ("https://user@example.org/", False),
        ("https:\\\\example.org", False),
        ("https://", False),
        ("http://[bad", False),
        ("ftp://example.org", False),
        ("vbscript:x", False),
    ],
)
def test_only_web_addresses_are_linked(url: str, leads: bool) -> None:
    assert outside(url) == (url if leads else None)


def test_addresses_of_pages() -> None:
    key = '["a/b","ü & <x>#?"]'
    url = to("/node", label="Service", key=key)
    assert url == "/node?label=Service&key=%5B%22a%2Fb%22%2C%22%C3%BC%20%26%20%3Cx%3E%23%3F%22%5D"
    assert to("/search", q="a b", tag=["x", "y"], type=[], cursor=None) == "/search?q=a%20b&tag=x&tag=y"
    assert to("/document/a b", "mark", at="1-2") == "/document/a%20b?at=1-2#mark"


def test_short_places() -> None:
    sources = {
        "stacks": SourceEntry(type="compose", root="/srv/stacks"),
        "readmes": SourceEntry(type="files", root="/srv/stacks/media"),
        "site": SourceEntry(type="web"),
    }
    assert short_url("/srv/stacks/media/README.md", sources) == "readmes: README.md"
    assert short_url("/srv/stacks/media/README.md", sources, "stacks") == "stacks: media/README.md"
    assert short_url("stacks:media/compose.yaml", sources) == "stacks: media/compose.yaml"
    assert short_url("/elsewhere/x", sources) == "/elsewhere/x"
    assert short_url("https://example.org/x", sources) == "https://example.org/x"
