"""What connectors keep of their sources, on both databases."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines_tests.stores.test_catalog import locator


def test_values_hold_for_one_configuration(opener: Callable[[], Catalog]) -> None:
    catalog = opener()
    states = catalog.source_states
    assert states.load("a", "s", "c1") == {}
    states.save("a", "s", "c1", {"cursor": "1", "etags": "x" * 100_000, "gone": None})
    states.save("a", "t", "c1", {"cursor": "t"})
    states.save("b", "s", "c1", {"cursor": "b"})
    assert opener().source_states.load("a", "s", "c1") == {"cursor": "1", "etags": "x" * 100_000}
    states.save("a", "s", "c1", {"cursor": "2", "etags": None})
    assert states.load("a", "s", "c1") == {"cursor": "2"}
    assert states.load("a", "s", "c2") == {}
    states.save("a", "s", "c2", {"cursor": "3"})  # one value a key, whatever the configuration
    assert (states.load("a", "s", "c1"), states.load("a", "s", "c2")) == ({}, {"cursor": "3"})
    states.forget("a", ["s", "nobody"])
    assert states.load("a", "s", "c2") == {}
    assert (states.load("a", "t", "c1"), states.load("b", "s", "c1")) == ({"cursor": "t"}, {"cursor": "b"})


def test_an_erasure_forgets_in_its_own_transaction(catalog: Catalog) -> None:
    job = catalog.jobs.start("a", "s")
    catalog.locators.record_fetched("a", "s", "files", job, [locator("p0", "sha0", job)], "/")
    for source in ("s", "t"):
        catalog.source_states.save("a", source, "c", {"cursor": "p0"})
    (doc_id,) = (x.doc_id for x in catalog.locators.of_source("a", "s").values())
    catalog.forget("a", [doc_id], ["sha0"])
    assert catalog.source_states.load("a", "s", "c") == {}
    assert catalog.source_states.load("a", "t", "c") == {"cursor": "p0"}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.dictionaries(
            st.text(
                st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=9
            ),
            st.none()
            | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
            max_size=4,
        ),
        max_size=6,
    )
)
def test_it_is_a_dictionary(catalog: Catalog, saves: list[dict[str, str | None]]) -> None:
    states, expected = catalog.source_states, dict[str, str]()
    states.forget("a", ["d"])
    for values in saves:
        states.save("a", "d", "c", values)
        merged = {**expected, **values}
        expected = {k: v for k, v in merged.items() if v is not None}
        assert states.load("a", "d", "c") == expected
