"""Filters against brute force, on their own and together, and what is said of values that nothing has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import near
from taboot_pipelines_tests.retrieval.test_search import SOURCES, build
from taboot_pipelines_tests.shards.builder import Doc

KINDS = ("prose", "code", "table", "list")
HOSTS = ("docs.example.org", "example.org", "wiki.lan")


@dataclass
class Page(Doc):
    """A document with a URL of its own and a kind for each chunk."""

    url: str = ""
    kinds: tuple[str, ...] = ("prose",)

    def document_row(self) -> dict[str, Any]:
        row = super().document_row()
        return {**row, "url": self.url} if self.url else row

    def kind(self, number: int) -> str:
        return self.kinds[number % len(self.kinds)]

    def chunk_rows(self) -> list[dict[str, Any]]:
        return [{**row, "content_type": self.kind(n)} for n, row in enumerate(super().chunk_rows())]


pages = st.lists(
    st.builds(
        Page,
        path=st.builds(
            "{}{}.md".format, st.sampled_from(["", "guides/", "guides/deep/", "Ärger/"]), st.integers(0, 99)
        ),
        text=st.lists(st.sampled_from(["redis", "nginx backup", "redis port 1"]), max_size=4).map(
            "\n\n".join
        ),
        source=st.sampled_from(sorted(SOURCES)),
        url=st.just("") | st.builds("https://{}/{}".format, st.sampled_from(HOSTS), st.integers(0, 9)),
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3).map(tuple),
    ),
    max_size=12,
    unique_by=lambda d: (d.source, d.path),
)


def one_or_more(values):
    return st.none() | st.sampled_from(values) | st.lists(st.sampled_from(values), max_size=2)


filters = st.fixed_dictionaries(
    {
        "domain": one_or_more([*HOSTS, "elsewhere.net"]),
        "collection": one_or_more(["docs", "stack", "home", "manual"]),
        "content_type": one_or_more(KINDS),
        "path_prefix": one_or_more(["guides/", "guides/deep/1", "", "Ärger", "x"]),
        "source": one_or_more(["docs", "chat"]),
    }
)


def passes(doc: Page, number: int, f: dict[str, Any]) -> bool:
    def wanted(name: str) -> set[str] | None:
        return None if f[name] is None else {f[name]} if isinstance(f[name], str) else set(f[name])

    host = doc.url.removeprefix("https://").partition("/")[0]
    names = {doc.source, *SOURCES[doc.source]["tags"]}
    return (
        (wanted("domain") is None or host in wanted("domain"))
        and (wanted("collection") is None or bool(names & wanted("collection")))
        and (wanted("content_type") is None or doc.kind(number) in wanted("content_type"))
        and (wanted("path_prefix") is None or any(doc.path.startswith(p) for p in wanted("path_prefix")))
        and (wanted("source") is None or doc.source in wanted("source"))
    )


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(docs=pages, some=st.lists(filters, min_size=1, max_size=5))
def test_hits_are_exactly_what_passes(docs, some, tmp_path_factory):
    kb = build(tmp_path_factory.mktemp("kb"), docs, 4)
    for f in some:
        wanted: dict[str, list[str]] = {}
        for doc in sorted(docs, key=lambda d: d.doc_id):
            for number, (a, b) in enumerate(doc.spans()):
                if passes(doc, number, f):
                    wanted.setdefault(doc.text[a:b], []).append(f"{doc.doc_id}:{number}")
        found = kb.search("redis", 1000, mode="vector", **f)
        assert {h.text: [h.chunk_id, *h.also_in] for h in found.hits} == wanted
        assert found.total == len(found) == len(wanted)


@pytest.fixture
def kb(tmp_path):
    docs = [
        Page("guides/a.md", "redis\n\nredis too", url="https://docs.example.org/a", kinds=("prose", "code"))
    ]
    return build(tmp_path, [*docs, Page("b.yaml", "redis", source="stack")])


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"source": "dock"}, "No source is called 'dock'. Did you mean 'docs'?"),
        ({"tag": ["home", "manul"]}, "No document has the tag 'manul'. Did you mean 'manual'?"),
        ({"domain": "doc.example.org"}, "No document is of the domain 'doc.example.org'. Did you mean"),
        ({"source": "\ud800"}, "No source is called '?'."),
    ],
)
def test_a_value_that_nothing_has_is_named_with_what_is_near(kb, options, note):
    assert kb.search("redis", **options).notes[0].startswith(note)
    assert kb.answer("What is redis?", **options).notes[0].startswith(note)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"domain": "DOCS.example.org"}, 2),
        ({"domain": "https://docs.example.org/other"}, 2),
        ({"path_prefix": "./guides"}, 2),
        ({"path_prefix": "/guides/a.md"}, 2),
        ({"content_type": "code"}, 1),
        ({"collection": "manual"}, 2),
        ({"collection": "stack"}, 1),
        ({"collection": "home", "content_type": "prose"}, 1),
        ({"domain": []}, 0),
    ],
)
def test_what_people_write_is_understood(kb, options, count):
    found = kb.search("redis", **options)
    assert len(found) == count and found.notes == ()


def test_near_names_ignore_case_and_are_few():
    assert near("DOCS", ["docs", "dock", "doc", "docx", "zebra"])[0] == "docs"
    assert len(near("docs", ["docs1", "docs2", "docs3", "docs4"])) == 3 and near("qqq", ["docs"]) == []
