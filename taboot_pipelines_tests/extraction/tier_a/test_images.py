"""Image references: the grammar's accepted and refused forms, and the normal form as Docker reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.images import parse_reference, try_reference

SHA = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest", "name"),
    [
        ("redis", "docker.io", "library/redis", "latest", None, "docker.io/library/redis:latest"),
        (
            "redis:7-alpine",
            "docker.io",
            "library/redis",
            "7-alpine",
            None,
            "docker.io/library/redis:7-alpine",
        ),
        ("bitnami/redis", "docker.io", "bitnami/redis", "latest", None, "docker.io/bitnami/redis:latest"),
        ("docker.io/redis", "docker.io", "library/redis", "latest", None, "docker.io/library/redis:latest"),
        ("index.docker.io/a/b:1", "docker.io", "a/b", "1", None, "docker.io/a/b:1"),
        ("localhost/x", "localhost", "x", "latest", None, "localhost/x:latest"),
        ("reg:5000/x", "reg:5000", "x", "latest", None, "reg:5000/x:latest"),
        ("[fd00::1]:5000/x:2", "[fd00::1]:5000", "x", "2", None, "[fd00::1]:5000/x:2"),
        ("a.b/c__d/e--f:V_1.0", "a.b", "c__d/e--f", "V_1.0", None, "a.b/c__d/e--f:V_1.0"),
        (f"redis@{SHA}", "docker.io", "library/redis", None, SHA, f"docker.io/library/redis@{SHA}"),
        (f"ghcr.io/a/b:1@{SHA}", "ghcr.io", "a/b", "1", SHA, f"ghcr.io/a/b:1@{SHA}"),
    ],
)
def test_accepted(
    text: str, registry: str, repository: str, tag: str | None, digest: str | None, name: str
) -> None:
    ref = parse_reference(text)
    assert (ref.registry, ref.repository, ref.tag, ref.digest, ref.name) == (
        registry,
        repository,
        tag,
        digest,
        name,
    )
    assert ref.image_id == (digest or f"name:{name}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Redis",
        "a//b",
        "a/",
        "/a",
        "redis:",
        "redis: 7",
        "redis:-x",
        "redis:" + "x" * 129,
        "a___b",
        "a..b",
        "${X}",
        "redis\n",
        "redis@sha256:abc",
        "redis@sha256:" + "g" * 64,
        "redis@sha256:" + "A" * 64,
        "0123456789abcdef" * 4,
        "a" * 256,
        "x" * 5000,
        "-reg.io/a",
        "http://a/b",
        "ré",
    ],
)
def test_refused(text: str) -> None:
    assert try_reference(text) is None
    with pytest.raises(TabootError) as caught:
        parse_reference(text)
    assert caught.value.code == "E_PARSE"
    assert len(text) < 4 or text not in str(caught.value)


_name = st.from_regex(r"\A[a-z0-9]{1,8}([._-][a-z0-9]{1,4})?(/[a-z0-9]{1,5})?\Z")


@given(_name, st.none() | st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}\Z"))
def test_normal_form_is_a_fixed_point(name: str, tag: str | None) -> None:
    ref = parse_reference(name + (f":{tag}" if tag else ""))
    assert parse_reference(ref.name) == ref


@given(st.text())
def test_any_text_is_a_reference_or_none(text: str) -> None:
    ref = try_reference(text)
    assert ref is None or parse_reference(ref.name) == ref
