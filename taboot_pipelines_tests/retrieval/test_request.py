"""The arguments of a search: what they mean once they are checked, and which is wrong where one is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.filters import Filter, as_micros, read_filter
from taboot_pipelines.retrieval.request import SearchRequest, read_request
from taboot_pipelines.settings import RetrievalSettings

DEFAULTS = RetrievalSettings(vector_weight=3.0, keyword_weight=1.0)
QUESTION = "how do I restart the nginx container safely"


def request(query: str = QUESTION, limit: int = 10, **arguments) -> SearchRequest:
    return read_request(query, limit, **arguments, defaults=DEFAULTS)


def filter_of(**arguments) -> Filter:
    names = ("source", "type", "tag", "language", "date_from", "date_to")
    return read_filter(**{**dict.fromkeys(names), **arguments})


def test_without_arguments_everything_has_its_default():
    assert request() == SearchRequest(
        query=QUESTION,
        limit=10,
        mode="hybrid",
        filter=Filter(),
        vector_weight=3.0,
        keyword_weight=1.0,
        rerank=None,
        exact=False,
    )
    assert request().filter.empty and not request(source="docs").filter.empty


@pytest.mark.parametrize(
    ("query", "arguments", "weights"),
    [
        (QUESTION, {}, (3.0, 1.0)),
        ("redis backup", {}, (3.0, 3.0)),  # it names something: the words count as much
        (f"{QUESTION} ERR-4711", {}, (3.0, 3.0)),
        ("redis backup", {"keyword_weight": 1}, (3.0, 1.0)),  # what is asked for stands
        ("redis backup", {"vector_weight": 0.5}, (0.5, 1.0)),
        (QUESTION, {"vector_weight": 0, "keyword_weight": 2}, (0.0, 2.0)),
    ],
)
def test_words_weigh_as_much_as_meaning_where_a_query_names_something(query, arguments, weights):
    made = request(query, **arguments)
    assert (made.vector_weight, made.keyword_weight) == weights


def test_an_arm_that_the_settings_leave_out_stays_out():
    silent = RetrievalSettings(vector_weight=3.0, keyword_weight=0.0)
    assert read_request("redis", 1, defaults=silent).keyword_weight == 0.0


@pytest.mark.parametrize(
    ("query", "searched"),
    [
        ("caf\u00e9 \ud800 \U0001f642", "caf\u00e9 ? \U0001f642"),
        ("  two \t\n blanks\u3000", "two blanks"),
        ("cafe\u0301", "caf\u00e9"),
        ("a\x00b\x1b[31mc", "a b [31mc"),
        ("\x00\x07", "?"),
        ("ÄÖ ERR-123", "ÄÖ ERR-123"),
        ("x" * 1000 + " " * 5000, "x" * 1000),
        ("word " * 200, " ".join(["word"] * 200)),
    ],
)
def test_a_query_is_composed_and_its_blanks_are_single(query, searched):
    assert request(query).query == searched
    assert request(query).fingerprint == request(f" {searched}\n").fingerprint


@pytest.mark.parametrize(
    ("query", "searched"),
    [
        ("x" * 1001, "x" * 1000),
        ("word " * 10_000, " ".join(["word"] * 200)),
        ("🙂" * 1001, "🙂" * 1000),
        ("a " + "x" * 5000, "a " + "x" * 998),
        ("y" * 995 + " zzzzzzzzzz", "y" * 995),
    ],
)
def test_of_a_long_query_the_beginning_is_searched(query, searched):
    made = request(query)
    assert made.query == searched and made.uncut == len(" ".join(query.split()))


@pytest.mark.parametrize("query", ["word " * 30_000, "x" * 10_000_000])
def test_a_document_is_no_query(query):
    with pytest.raises(TabootError, match="at most 100000 characters") as caught:
        request(query)
    assert caught.value.code == "E_QUERY" and "fewer words" in caught.value.remedy


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sauce": "docs"}, r"no argument 'sauce'\. Did you mean 'source'"),
        ({"modes": "vector"}, "Did you mean 'mode'"),
        ({"type": "composer"}, "Did you mean 'compose'"),
        ({"type": ["files", "kube"]}, "type must be one of ai_session.* not 'kube'"),
        ({"content_type": "Table"}, "Did you mean 'table'"),
        ({"mode": "keywords"}, "mode must be one of .* Did you mean 'keyword'"),
        ({"fusion": "rff"}, "fusion must be one of .* Did you mean 'rrf'"),
        ({"weights": {"vectors": 1}}, "weights must name arms .* Did you mean 'vector'"),
        ({"weights": 3}, "weights must"),
        ({"weights": {"vector": -1}}, "vector_weight must"),
        ({"weights": {"vector": 1}, "vector_weight": 2}, "weights must not give the vector arm a second"),
        ({"rrf_k": 0}, "rrf_k must"),
        ({"min_score": float("nan")}, "min_score must"),
        ({"min_score": "1"}, "min_score must"),
        ({"expand": 11}, "expand must"),
        ({"expand": -1}, "expand must"),
        ({"dedupe": "yes"}, "dedupe must"),
        ({"cursor": ""}, "cursor must"),
        ({"cursor": 5}, "cursor must"),
        ({"rerank_top_n": 0}, "rerank_top_n must"),
        ({"domain": 3}, "domain must"),
        ({"path_prefix": [None]}, "path_prefix must"),
        ({"source": map(str, range(2000))}, "source must name at most"),
        ({"cache": None}, "cache must"),
    ],
)
def test_a_wrong_option_is_named_with_what_may_have_been_meant(arguments, said):
    with pytest.raises(TabootError, match=said) as caught:
        request(**arguments)
    assert caught.value.code == "E_QUERY"


def test_pages_of_one_list_have_one_fingerprint_and_other_lists_another():
    same = [request(), request(limit=3), request(expand=2), request(cache=False), request(cursor="x")]
    assert len({r.fingerprint for r in same}) == 1
    others = [
        request(**options)
        for options in (
            {"mode": "vector"},
            {"source": "docs"},
            {"tag": "docs"},
            {"date_from": "2024-01-01"},
            {"weights": {"vector": 9}},
            {"rrf_k": 9},
            {"min_score": 0.5},
            {"dedupe": True},
            {"rerank": False},
            {"exact": True},
        )
    ]
    assert len({r.fingerprint for r in [*same, *others]}) == 1 + len(others)
    assert request(tag=["b", "a"]).fingerprint == request(tag=("a", "b", "a")).fingerprint


def test_one_word_or_several_are_the_same_filter():
    assert filter_of(source="docs") == filter_of(source=["docs"]) == Filter(sources=frozenset({"docs"}))
    assert filter_of(tag=["b", "a", "b"]) == filter_of(tag={"a", "b"}) == filter_of(tag=("b", "a"))
    assert filter_of(source=[]) == Filter(sources=frozenset())  # of no source, which is not of any


@pytest.mark.parametrize(
    ("value", "first", "after"),
    [
        ("2024-02-28", datetime(2024, 2, 28, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC)),
        (date(2024, 12, 31), datetime(2024, 12, 31, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        (" 2024-02-28T10:00:00 ", *[datetime(2024, 2, 28, 10, tzinfo=UTC)] * 2),
        ("2024-02-28T10:00:00+02:00", *[datetime(2024, 2, 28, 8, tzinfo=UTC)] * 2),
        (datetime(2024, 2, 28, 10), *[datetime(2024, 2, 28, 10, tzinfo=UTC)] * 2),
        (
            datetime(2024, 2, 28, 10, tzinfo=timezone(timedelta(hours=-1))),
            *[datetime(2024, 2, 28, 11, tzinfo=UTC)] * 2,
        ),
    ],
)
def test_days_are_whole_and_moments_are_exact(value, first, after):
    made = filter_of(date_from=value, date_to=value)
    assert (made.date_from, made.date_to) == (first, after)
    assert as_micros(first) == round(first.timestamp() * 1e6)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"query": " ", "limit": 0}, "query"),
        ({"limit": True, "mode": "magic"}, "limit"),
        ({"limit": 10_001}, "limit"),
        ({"mode": None, "vector_weight": -1}, "mode"),
        ({"vector_weight": float("inf"), "keyword_weight": -1}, "vector_weight"),
        ({"keyword_weight": "2", "source": 3}, "keyword_weight"),
        ({"source": [b"docs"], "type": 3}, "source"),
        ({"type": object(), "tag": 3}, "type"),
        ({"tag": [None]}, "tag"),
        ({"language": 5, "date_from": 5}, "language"),
        ({"date_from": "2024-13-01", "date_to": 5}, "date_from"),
        ({"date_to": date.max, "rerank": "yes"}, "date_to"),
        ({"rerank": "yes"}, "rerank"),
    ],
)
def test_the_first_wrong_argument_is_named(arguments, named):
    with pytest.raises(TabootError) as caught:
        request(**{"query": "redis", **arguments})
    assert caught.value.code == "E_QUERY" and caught.value.message.startswith(f"{named} must")
