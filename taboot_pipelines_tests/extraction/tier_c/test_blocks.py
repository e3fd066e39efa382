"""Running text of Markdown, and where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.extraction.tier_c.blocks import blocks

PAGE = """\
---
title: Front matter is no text
---
# linuxserver/radarr

Access the *webui* at `<your-ip>:7878`, or <your-ip>:7879 &amp; **more**.

```yaml
services: {}
```

What there is:

- one item
  on two lines
- [a link](https://example.org/x) and an ![image](y.png)

## Ports

| a | b |
|---|---|
| in | a table |

<!-- a comment -->
Über 𝄞 `café`.
"""


def test_paragraphs_and_items_are_read_with_what_stands_above_them() -> None:
    found = [(b.text, [h.text for h in b.headings], b.introduction) for b in blocks(PAGE)]
    assert found == [
        ("Access the webui at <your-ip>:7878, or <your-ip>:7879 & more.", ["linuxserver/radarr"], ""),
        ("What there is:", ["linuxserver/radarr"], ""),
        ("one item on two lines", ["linuxserver/radarr"], "What there is:"),
        ("a link and an ", ["linuxserver/radarr"], "What there is:"),
        ("Über 𝄞 café.", ["linuxserver/radarr", "Ports"], ""),
    ]


@pytest.mark.parametrize("word", ["webui", "<your-ip>:7878", "two lines", "a link", "𝄞", "café", "more"])
def test_every_piece_stands_where_it_says(word: str) -> None:
    (block,) = [b for b in blocks(PAGE) if word in b.text]
    at = block.text.index(word)
    start, end = block.place(at, at + len(word))
    assert PAGE[start:end] == word


def test_inline_code_is_known() -> None:
    block = next(blocks(PAGE))
    assert [block.text[start:end] for start, end in block.code] == ["<your-ip>:7878"]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "# ",
                    "- ",
                    "\n",
                    "\n\n",
                    "`",
                    "```\n",
                    "> ",
                    "*",
                    "[a](b)",
                    "<x>",
                    "&amp;",
                    "|",
                    "\\*",
                    "é𝄞",
                    "\r\n",
                ]
            ),
            st.text(max_size=6),
        ),
        max_size=30,
    ).map("".join)
)
def test_any_text_gives_blocks_whose_characters_stand_in_it(text: str) -> None:
    for block in blocks(text):
        assert len(block.offsets) == len(block.text)
        assert all(0 <= at < len(text) for at in block.offsets)
        assert list(block.offsets) == sorted(block.offsets)
