"""Lists and ranges of port forwards, and which outer port leads to which inner one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.extraction.tier_a.unifi.extractor import MAX_PORTS, pairs


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("80", "8080", [(80, 8080)]),
        ("80,443", "8080,8443", [(80, 8080), (443, 8443)]),
        ("80, 443", "8080", [(80, 8080), (443, 8080)]),
        ("8000-8002", "9000-9002", [(8000, 9000), (8001, 9001), (8002, 9002)]),
        ("8000-8001", "80", [(8000, 80), (8001, 80)]),
        ("8000-8001", "80-90", [(8000, None), (8001, None)]),
        ("80,81-82", "90,91-92", [(80, 90), (81, 91), (82, 92)]),
        ("80,81", "90-91", [(80, 90), (81, 91)]),
        ("80-81,80", "1-2,5", [(80, 1), (81, 2)]),
        ("80", "", [(80, None)]),
        ("80", "any", [(80, None)]),
        ("1-1024", "1", [(n, 1) for n in range(1, 1025)]),
        ("1-1025", "1", []),
        ("1-65535,1-65535", "1", []),
    ],
)
def test_what_leads_where(outer, inner, expected):
    assert pairs(outer, inner) == expected


@pytest.mark.parametrize(
    "outer", ["", "http", "0", "65536", "90-80", "80,", "80-", "-1", "99999999999", "٨٠"]
)
def test_what_is_no_port_gives_no_pairs(outer):
    assert pairs(outer, "80") is None


@given(st.text(alphabet="0123456789,- ", max_size=40), st.text(alphabet="0123456789,- ", max_size=40))
def test_ports_are_ports_and_each_outer_one_stands_once(outer, inner):
    found = pairs(outer, inner) or []
    assert len(found) == len({port for port, _ in found}) <= MAX_PORTS
    assert all(1 <= port <= 65535 for pair in found for port in pair if port is not None)
