"""For how long an answer may be reused: what RFC 9111 says of its headers, and what a clock may do to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.crawl.freshness import MAX_SECONDS, Freshness
from taboot_pipelines.model.crawls import Fresh

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = 86_400


def http(seconds: float) -> str:
    """The HTTP date so many seconds from now."""
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


def lifetime(
    headers: Mapping[str, str],
    *,
    status: int = 200,
    took: float | None = None,
    before: Fresh | None = None,
    limit: float = MAX_SECONDS,
) -> float | None:
    """The seconds that an answer may be reused; None: it may not."""
    fresh = Freshness(lambda: NOW, limit).of(status, headers, seconds=took, before=before)
    if fresh is None:
        return None
    assert fresh.since == NOW.timestamp() * 1e6
    return (fresh.until - fresh.since) / 1e6


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"last-modified": http(-1000 * DAY), "etag": '"a"'}, None),  # nothing is guessed
        ({"cache-control": "max-age=60"}, 60),
        ({"cache-control": 'MAX-AGE="60"'}, 60),
        ({"cache-control": "public, max-age=60, immutable"}, 60),
        ({"cache-control": " ,, private ,max-age=60,"}, 60),
        ({"cache-control": 'private="set-cookie, max-age=9", max-age=60'}, 60),
        ({"cache-control": 'ext="a\\", no-store", max-age=60'}, 60),
        ({"cache-control": "must-revalidate, max-age=60"}, 60),
        ({"cache-control": "max-age=60, max-age=60"}, 60),
        ({"cache-control": "s-maxage=9, max-age=60"}, 60),
        ({"cache-control": "s-maxage=60"}, None),
        ({"cache-control": "max-age=0"}, None),
        ({"cache-control": "max-age=60, no-cache"}, None),
        ({"cache-control": 'max-age=60, no-cache="set-cookie"'}, None),
        ({"cache-control": "No-Store, max-age=60"}, None),
        ({"cache-control": "max-age=60, no-store"}, None),
        ({"cache-control": "max-age=60, max-age=90"}, None),
        ({"cache-control": "max-age"}, None),
        ({"cache-control": "max-age="}, None),
        ({"cache-control": "max-age=-1"}, None),
        ({"cache-control": "max-age=1.5"}, None),
        ({"cache-control": "max-age=6o"}, None),
        ({"cache-control": "max-age=٦٠"}, None),
        ({"cache-control": "max-age = 60"}, None),
        ({"cache-control": "max-age=60 no-store"}, None),
        ({"cache-control": "max-age=60; no-store"}, None),
        ({"cache-control": 'max-age=60, x="open'}, None),
        ({"cache-control": "max-age=60," + "x," * 9000}, None),
        ({"cache-control": "max-age=" + "9" * 99}, MAX_SECONDS),
        ({"cache-control": "max-age=60", "expires": http(-DAY)}, 60),
        ({"cache-control": "max-age=0", "expires": http(DAY)}, None),
        ({"cache-control": "max-age=x", "expires": http(DAY)}, None),
        ({"cache-control": "public", "expires": http(90)}, 90),
        ({"expires": http(90)}, 90),
        ({"expires": http(90), "date": http(0)}, 90),
        ({"expires": http(90), "date": http(-30)}, 90),  # made 30 seconds ago, and fresh for 120
        ({"expires": http(90), "date": http(30)}, 60),  # the server's clock is ahead
        ({"expires": http(-1)}, None),
        ({"expires": "0"}, None),
        ({"expires": "-1"}, None),
        ({"expires": "tomorrow"}, None),
        ({"expires": f"{http(90)}, {http(90)}"}, None),
        ({"expires": http(90).replace("GMT", "+0100")}, None),
        ({"expires": (NOW + timedelta(seconds=90)).strftime("%A, %d-%b-%y %H:%M:%S GMT")}, 90),
        ({"expires": (NOW + timedelta(seconds=90)).strftime("%a %b  1 %H:%M:%S %Y")}, 90),
        ({"expires": "Sun, 31 Feb 2027 00:00:00 GMT"}, None),
        ({"expires": "Sun, 01 Mar 2027 99:00:00 GMT"}, None),
        ({"cache-control": "max-age=60", "age": "20"}, 40),
        ({"cache-control": "max-age=60", "age": "20, 50"}, 40),
        ({"cache-control": "max-age=60", "age": "60"}, None),
        ({"cache-control": "max-age=60", "age": "-5"}, None),
        ({"cache-control": "max-age=60", "age": "old"}, None),
        ({"cache-control": "max-age=60", "date": http(-20)}, 40),
        ({"cache-control": "max-age=60", "date": http(-20), "age": "30"}, 30),
        ({"cache-control": "max-age=60", "date": http(500)}, 60),
        ({"cache-control": "max-age=60", "date": "yesterday"}, None),
        ({"cache-control": "max-age=60", "vary": "Accept-Encoding"}, 60),
        ({"cache-control": "max-age=60", "vary": "accept, *"}, None),
        ({"cache-control": "max-age=60", "pragma": "no-cache"}, 60),
        ({"expires": http(90), "pragma": "No-Cache"}, None),
    ],
)
def test_headers_say_how_long_an_answer_may_be_reused(headers: dict[str, str], seconds: float | None) -> None:
    assert lifetime(headers) == seconds


def test_the_time_that_an_answer_took_is_part_of_its_age_and_only_pages_are_reused() -> None:
    said = {"cache-control": "max-age=60", "age": "20"}
    assert lifetime(said, took=5.0) == 35 and lifetime(said, took=40.0) is None
    assert lifetime({"cache-control": "max-age=60"}, status=203) is None
    assert lifetime({"cache-control": "max-age=60"}, limit=7) == 7
    assert lifetime({"cache-control": "max-age=60"}, limit=0) is None


@pytest.mark.parametrize(
    ("headers", "before", "seconds"),
    [
        ({}, 60, 60),
        ({"date": http(-20)}, 60, 40),
        ({"etag": '"a"', "age": "10"}, 60, 50),
        ({}, None, None),
        ({"cache-control": "max-age=90"}, 60, 90),
        ({"cache-control": "no-cache"}, 60, None),
        ({"cache-control": "public"}, 60, None),
        ({"cache-control": "max-age=x"}, 60, None),
        ({"vary": "*"}, 60, None),
        ({"expires": http(90)}, None, 90),
        # The stored max-age stands beside the new Expires, and wins.
        ({"expires": http(90)}, 60, 60),
    ],
)
def test_what_is_not_modified_is_fresh_by_its_own_headers_else_as_long_as_before(
    headers: dict[str, str], before: int | None, seconds: float | None
) -> None:
    stored = Fresh(1, 2, before)
    assert lifetime(headers, status=304, before=stored) == seconds
    # A new page that says nothing renews nothing.
    if not headers:
        assert lifetime(headers, status=200, before=stored) is None


@given(st.text() | st.text(alphabet='max-ge=0123456789," \t\\;no-store*'), st.text(), st.text(), st.text())
def test_no_header_breaks_anything_or_makes_an_answer_fresh_for_ever(
    control: str, expires: str, age: str, date: str
) -> None:
    headers = {"cache-control": control, "expires": expires, "age": age, "date": date}
    found = lifetime(headers)
    assert found is None or 0 < found <= MAX_SECONDS
    if any(f"no-{x}" in control.lower().replace(" ", "").split(",") for x in ("store", "cache")):
        assert found is None


@given(
    st.integers(0, 3 * DAY),
    st.integers(0, 2 * DAY),
    st.lists(st.integers(-2 * DAY, 2 * DAY), max_size=12),
)
def test_no_step_of_the_clock_keeps_an_answer_fresh_beyond_its_time(
    max_age: int, limit: int, steps: list[int]
) -> None:
    """From the answer to each time that it is reused the clock has only gone on, and less than allowed."""
    now = [NOW]
    freshness = Freshness(lambda: now[0], limit)
    fresh = freshness.of(200, {"cache-control": f"max-age={max_age}"}, seconds=None)
    assert (fresh is None) == (min(max_age, limit) == 0)
    latest = NOW
    for step in steps:
        now[0] += timedelta(seconds=step)
        still = freshness.still(fresh)
        expected = fresh is not None and latest <= now[0] < NOW + timedelta(seconds=min(max_age, limit))
        assert (still is not None) == expected
        if still is None:
            break
        fresh, latest = still, now[0]
