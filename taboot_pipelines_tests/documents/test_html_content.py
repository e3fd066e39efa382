"""Which blocks of a page are its content: the arithmetic of the models, and pages that show it in odd ways.

How good the models are is measured by ``benchmarks/page_content.py`` and ``benchmarks/extraction.py``.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.documents.html_content import (
    Trees,
    best_selection,
    keep_between,
    model,
    page_content,
    shown_blocks,
)
from taboot_pipelines.documents.html_features import PageFeatures
from taboot_pipelines.documents.html_tree import parse
from taboot_pipelines_tests.documents import corpus

_SENTENCE = "The exporter listens on port 9100 of every host and tells the memory, the disks and the load. "
_PAGE = f"<h1>Exporter</h1><p>{_SENTENCE * 4}</p><p>{_SENTENCE * 5}</p><p>{_SENTENCE * 3}</p>"


def text_of(page: str) -> str:
    return "\n".join(block.plain for block in page_content(page, parse(page)).blocks)


def pages() -> list[str]:
    found = [data for _, data in corpus.archived("extraction-trafilatura", "html.tar.xz")]
    return [data.decode("utf-8", "replace") for data in found]


@given(
    st.lists(
        st.tuples(st.floats(0.001, 0.999), st.integers(0, 200)),
        min_size=1,
        max_size=9,
        unique_by=lambda x: x[0],
    )
)
def test_no_other_selection_promises_more(blocks: list[tuple[float, int]]) -> None:
    probability = np.array([p for p, _ in blocks])
    words = np.array([float(n) for _, n in blocks])
    weight = words + 0.01
    kept, promised = best_selection(probability, words)

    def expected(chosen: np.ndarray) -> float:
        right = float((probability * weight)[chosen].sum())
        return 2 * right / float(weight[chosen].sum() + (probability * weight).sum())

    choices = (np.array(list(f"{n:0{len(blocks)}b}")) == "1" for n in range(1, 2 ** len(blocks)))
    assert np.isclose(promised, expected(kept))
    assert promised >= max(map(expected, choices)) - 1e-9


def test_doubtful_blocks_stay_out_unless_all_are() -> None:
    words = np.full(3, 10.0)
    assert best_selection(np.array([0.9, 0.5, 0.2]), words, 0.6)[0].tolist() == [True, False, False]
    assert best_selection(np.array([0.5, 0.4, 0.1]), words, 0.6)[0].any()


def test_code_between_what_is_kept_stays_and_so_do_the_headings_above() -> None:
    page = "<h1>A</h1><h2>B</h2><p>one</p><pre>code</pre><p>two</p><h2>C</h2><p>three</p><pre>last</pre>"
    blocks = shown_blocks(page, parse(page))
    kept = np.array([block.plain in ("one", "two") for block in blocks])
    keep_between(blocks, kept)
    assert [b.plain for b, keep in zip(blocks, kept, strict=True) if keep] == ["A", "B", "one", "code", "two"]


def test_trees_are_walked_as_they_are_written() -> None:
    fitted = model().trees
    rows = np.random.default_rng(7).normal(0, 3, (60, int(fitted.feature.max()) + 1))

    def walked(row: np.ndarray, node: int) -> float:
        while fitted.children[2 * node] != node:
            node = int(fitted.children[2 * node + (row[fitted.feature[node]] > fitted.threshold[node])])
        return float(fitted.value[node])

    wanted = [sum(walked(row, int(root)) for root in fitted.roots) for row in rows]
    assert np.allclose(fitted.sums(rows), wanted)
    assert np.allclose(Trees(*fitted).sums(np.tile(rows, (40, 1))), wanted * 40)


def test_tokens_are_scored_as_they_are_told() -> None:
    weights = np.random.default_rng(3).normal(0, 1, len(model().block_weights)).tolist()
    for source in pages()[:6]:
        root = parse(source)
        features = PageFeatures(source, root, shown_blocks(source, root))
        wanted = [sum(weights[t] for t in features.block_tokens(i)) for i in range(len(features.words))]
        assert np.allclose(features.token_scores(weights), wanted)


def test_each_page_has_a_type_and_a_confidence() -> None:
    found = [page_content(source, parse(source)) for source in pages()]
    assert {page.page_type for page in found} <= set(model().types)
    assert all(0 < page.confidence <= 1 for page in found)
    assert sum(page.page_type == "article" for page in found) > len(found) / 2


def test_a_page_for_readers_without_scripts_is_read_there() -> None:
    """As Discourse serves its threads to whoever cannot run its scripts."""
    assert "port 9100" in text_of(f"<body><div id=app></div><noscript>{_PAGE}</noscript></body>")
    shown = text_of(f"<body><main>{_PAGE}</main><noscript>Please switch on JavaScript.</noscript></body>")
    assert "port 9100" in shown and "JavaScript" not in shown


def test_a_page_that_a_script_will_show_is_read_as_it_waits() -> None:
    """As React streams a page: its parts are hidden until a script puts them in their place."""
    assert "port 9100" in text_of(f"<body><p>Loading …</p><div hidden id=S:1>{_PAGE}</div></body>")
    shown = text_of(
        f"<body><main>{_PAGE}</main><div hidden>{_SENTENCE.replace('9100', '9999') * 9}</div></body>"
    )
    assert "9100" in shown and "9999" not in shown


def test_a_stray_mark_of_a_cdata_section_hides_nothing() -> None:
    """WHATWG HTML §13.2.5.42: in a page it is a comment that ends at the next ``>``; XenForo has one."""
    assert "port 9100" in text_of(f"<body><![CDATA[ <div>x</div> {_PAGE}</body>")


def test_a_small_page_is_read_by_its_landmarks() -> None:
    page = (
        "<body><header>Site</header><nav>Home</nav><div role=search>Find</div><main><header><h1>Ports</h1>"
        "</header><p>It listens on 80.</p></main><aside>News</aside><footer>Imprint</footer></body>"
    )
    assert text_of(page) == "Ports\nIt listens on 80."
