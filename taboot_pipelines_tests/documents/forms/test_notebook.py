"""Notebooks become the Markdown that their cells say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import ParsedDocument

REPOSITORY = Path(__file__).parents[3]


def parsed(data: bytes) -> ParsedDocument:
    return parse_document(data, path="lab.ipynb", mime=None, charset=None, languages=(), max_chars=1_000_000)


def notebook(*cells: dict[str, Any], **metadata: Any) -> bytes:
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


def code(source: str | list[str], *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": source, "outputs": outputs}


def markdown(source: str | list[str]) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def test_cells_and_outputs() -> None:
    data = notebook(
        markdown(["# The lab\n", "\n", "It runs on “atlas”."]),
        code(
            ["print('```')\n", "1 + 1"],
            {"output_type": "stream", "name": "stdout", "text": ["\x1b[31m```\x1b[0m\n"]},
            {
                "output_type": "execute_result",
                "data": {"text/plain": "2", "image/png": "aGk="},
                "metadata": {},
            },
        ),
        code(
            "%%bash\nls", {"output_type": "error", "ename": "OSError", "evalue": "gone", "traceback": ["x"]}
        ),
        {"cell_type": "raw", "source": "as it is"},
        language_info={"name": "python"},
        authors=[{"name": "Ada"}],
    )
    document = parsed(data)
    assert document.text == (
        "# The lab\n\nIt runs on “atlas”.\n\n````python\nprint('```')\n1 + 1\n````\n\n````text\n```\n````\n\n"
        "```text\n2\n```\n\n*Output: image/png*\n\n"
        "```bash\n%%bash\nls\n```\n\n```text\nOSError: gone\n```\n\n"
        "```\nas it is\n```"
    )
    assert (document.mime, document.title) == ("application/x-ipynb+json", "The lab")
    assert document.metadata["author"] == "Ada"
    at = document.text.index("“atlas")
    start, end = document.offsets.to_bytes(at, at + 6)
    assert json.loads(b'"' + data[start:end] + b'"') == "“atlas"


def test_what_is_displayed_as_markdown_is_shown() -> None:
    outputs = [
        {"output_type": "display_data", "data": {"text/markdown": "It **holds**.", "text/html": "<b>"}},
        {"output_type": "display_data", "data": {"text/latex": "$x^2$", "text/plain": "x**2"}},
    ]
    text = parsed(notebook(code("show()", *outputs))).text
    assert "```text\nIt **holds**.\n```\n\n*Output: text/html*" in text
    assert "```text\nx**2\n```\n\n*Output: text/latex*" in text


def test_long_outputs_are_shortened_and_open_fences_closed() -> None:
    lines = [f"line {n}\n" for n in range(1000)]
    text = parsed(
        notebook(
            markdown("```sh\nls"),
            code("x", {"output_type": "stream", "text": lines}),
            code("y", {"output_type": "stream", "text": "z" * 9000}),
        )
    ).text
    assert text.startswith("```sh\nls\n```\n\n```\nx\n```") and "line 39\n[" in text and "line 40" not in text
    assert f"[{sum(map(len, lines[40:]))} more characters]" in text
    assert "z" * 4000 + "\n[5000 more characters]\n```" in text and "z" * 4001 not in text


def test_the_third_format() -> None:
    old = {
        "metadata": {"name": "old"},
        "nbformat": 3,
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 2, "source": ["Old"]},
                    {
                        "cell_type": "code",
                        "language": "python",
                        "input": ["1+1"],
                        "outputs": [{"output_type": "pyout", "text": ["2"], "png": "aGk="}],
                    },
                ]
            }
        ],
    }
    text = parsed(json.dumps(old).encode()).text
    assert text == "## Old\n\n```python\n1+1\n```\n\n```text\n2\n```\n\n*Output: png*"


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").glob("*.ipynb")), ids=lambda p: p.name)
def test_real_notebooks(path: Path) -> None:
    text = parsed(path.read_bytes()).text
    for cell in nbformat.read(path, as_version=4).cells:
        assert cell.source.rstrip("\n") in text


def test_what_is_no_notebook() -> None:
    for data, wanted in (
        (b"{}", "E_PARSE"),
        (b'{"cells": ', "E_PARSE"),
        (b"[" * 5000, "E_PARSE"),
        (notebook(), "E_EMPTY"),
        ('{"cells": [{"source": "é"}]}'.encode("latin-1"), "E_ENCODING"),
    ):
        with pytest.raises(TabootError) as caught:
            parsed(data)
        assert caught.value.code == wanted, data[:20]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["code", "markdown", "stream"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "cell_type",
                    "source",
                    "outputs",
                    "output_type",
                    "text",
                    "data",
                    "text/plain",
                    "ename",
                    "metadata",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.lists(values, max_size=4) | values, values)
def test_any_json_gives_a_document_or_a_typed_error(cells: Any, metadata: Any) -> None:
    data = json.dumps({"cells": cells, "metadata": metadata}).encode()
    try:
        document = parsed(data)
    except TabootError as error:
        assert error.code in ("E_PARSE", "E_EMPTY") and "failed with" not in error.message
    else:
        low, high = document.offsets.to_bytes(0, len(document.text))
        assert 0 <= low <= high <= len(data)
