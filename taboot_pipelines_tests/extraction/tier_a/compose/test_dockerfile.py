"""`FROM` in Dockerfiles: stages, arguments, continuations, here-documents."""

from __future__ import annotations

import pytest

from taboot_pipelines.extraction.tier_a.compose.builds import base_images


@pytest.mark.parametrize(
    ("text", "args", "images"),
    [
        ("FROM alpine", {}, ["alpine"]),
        ("from --platform=$BUILDPLATFORM alpine:3 as x\nFROM X AS y\nFROM scratch\nFROM y", {}, ["alpine:3"]),
        ("ARG V=3\nFROM alpine:${V}", {}, ["alpine:3"]),
        ("ARG V=3\nFROM alpine:${V}", {"V": "4"}, ["alpine:4"]),
        ('ARG A=1 B="2"\nFROM x:$A.$B', {}, ["x:1.2"]),
        ("ARG V\nFROM alpine:${V:-5}", {}, ["alpine:5"]),
        ("ARG BASE=a\nARG FULL=$BASE:1\nFROM $FULL", {}, ["a:1"]),
        ("FROM a\nARG V=3\nFROM b:${V:-0}", {}, ["a", "b:0"]),
        ("FROM \\\n  # comment\n\n  alpine:1 \\\n  AS x\nRUN echo", {}, ["alpine:1"]),
        ("# escape=`\nFROM `\n  alpine\nRUN echo \\\nFROM no", {}, ["alpine", "no"]),
        (
            "RUN <<EOF\nFROM no\nEOF\nFROM a\nRUN <<-'X' cat <<Y\nFROM no\n\tX\nFROM no\nY\nFROM b",
            {},
            ["a", "b"],
        ),
        ("RUN echo \\\n  FROM no\nFROM a", {}, ["a"]),
        ("# FROM no\n  FROM a # c", {}, []),
        ("\ufeffFROM a\r\nFROM b\r\n", {}, ["a", "b"]),
        ("FROM", {}, []),
        ("", {}, []),
        ("RUN <<EOF\nFROM no", {}, []),
        ("FROM \\", {}, []),
    ],
)
def test_images(text: str, args: dict[str, str | None], images: list[str]) -> None:
    found = base_images(text, args)
    assert [f.reference for f in found] == images
    for f in found:
        said = text[f.start : f.end]
        assert said[:4].upper() == "FROM" and said == said.rstrip()


def test_an_argument_without_a_value_is_named() -> None:
    (found,) = base_images("ARG V\nFROM alpine:$V", {})
    assert found.missing == ("V",) and found.reference == "alpine:$V"
    (found,) = base_images("ARG V=1\nFROM alpine:$V AS s", {"V": None})
    assert found.missing == ("V",) and found.stage == "s"
