"""Jupyter notebooks (nbformat 3 and 4) as Markdown: what their cells say, in order.

Markdown cells stand as they are, code cells and raw cells as fenced code. Of outputs the text is kept, as
fenced code without terminal colours, of each at most :data:`MAX_OUTPUT_LINES` lines and
:data:`MAX_OUTPUT_CHARS` characters, with a line that says what was left out; pictures and other media are
named by their type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.documents import metadata
from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.forms import writing
from taboot_pipelines.documents.forms.writing import Formed, Given, JsonWriter
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse

MAX_OUTPUT_LINES = 40
MAX_OUTPUT_CHARS = 4000
#: Control sequences of terminals (ECMA-48).
_ANSI = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b[@-Z\\-_]")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,40}")
_CELL_MAGIC = re.compile(r"[ \t]*%%(bash|sh|html|javascript|js|latex|markdown|perl|ruby|sql|svg)\b")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})[ \t]*([^\r\n]*)")


def render(data: bytes, given: Given) -> Formed:
    """The notebook in ``data``. Raises ``E_PARSE`` for what is no notebook, ``E_ENCODING`` for what is not
    UTF-8."""
    source, charset, bom = decode(data, "utf-8")
    if charset != "utf-8":
        raise TabootError("E_ENCODING", f"{given.path} is in {charset}; a notebook is in UTF-8.")
    notebook = parse(source)
    cells = notebook.items("cells")
    for sheet in notebook.items("worksheets"):  # nbformat 3
        cells = [*cells, *sheet.items("cells")]
    if not cells and notebook.at("cells") is None:
        raise TabootError("E_PARSE", f"{given.path} is no notebook: it has no cells.")
    writer = _Notebook(source, given.max_chars, bom, _language(notebook))
    for cell in cells:
        writer.cell(cell)
    facts = metadata.of_markdown(writer.text)
    facts.title = notebook.string("metadata", "title") or facts.title
    authors = notebook.items("metadata", "authors")
    facts.put("author", ", ".join(filter(None, (author.string("name") for author in authors))))
    return Formed(writer.text, writer.offsets(), facts)


def _language(notebook: Value) -> str:
    """The kernel's language; empty where the notebook names none."""
    stated = (
        notebook.string("metadata", "language_info", "name")
        or notebook.string("metadata", "kernelspec", "language")
        or notebook.string("metadata", "language")
    )
    if not stated and notebook.string("metadata", "kernelspec", "name").startswith("python"):
        stated = "python"
    return stated.lower() if _LANGUAGE.fullmatch(stated) else ""


def _strings(value: Value | None) -> list[Value]:
    """A text, which is one string or a list of its lines."""
    if value is None:
        return []
    found = value.data if isinstance(value.data, list) else [value]
    return [item for item in found if isinstance(item.data, str)]


class _Notebook(JsonWriter):
    def __init__(self, source: str, max_chars: int, bom: int, language: str) -> None:
        super().__init__(source, max_chars, bom=bom)
        self._language = language

    def cell(self, cell: Value) -> None:
        """Write a cell with its outputs."""
        kind = cell.string("cell_type")
        source = cell.at("source")
        content = _strings(source if source is not None else cell.at("input"))
        text = "".join(item.data for item in content)
        if text.strip():
            if kind == "markdown":
                self._apart()
                self._strings(content)
                if left_open := _open_fence(text):
                    self.put(f"\n{left_open}")
            elif kind == "heading":  # nbformat 3
                self._apart()
                self.put("#" * min(max(cell.integer("level") or 1, 1), 6) + " ")
                self._strings(content)
            elif kind == "code":
                magic = _CELL_MAGIC.match(text)
                self._code(content, magic[1] if magic else cell.string("language") or self._language)
            else:
                self._code(content, "")
        for output in cell.items("outputs"):
            self._output(output)

    def _apart(self) -> None:
        if self.length:
            self.put("\n\n")

    def _strings(self, content: Sequence[Value]) -> None:
        for item in content:
            self.string(item)

    def _code(self, content: Sequence[Value], language: str) -> None:
        fence = writing.fence(["".join(item.data for item in content)])
        self._apart()
        self.put(f"{fence}{language}\n")
        self._strings(content)
        self.put("" if content[-1].data.endswith("\n") else "\n")
        self.put(fence)

    def _output(self, output: Value) -> None:
        kind = output.string("output_type")
        if kind in ("stream", "pyout_stream"):
            self._shortened(_strings(output.at("text")))
        elif kind in ("error", "pyerr"):
            self._shortened([v for v in (output.at("ename"), output.at("evalue")) if v is not None], ": ")
        else:
            # nbformat 3 has the media in the output itself, under short names.
            media = output.members("data") or {
                name: output.members()[name]
                for name in ("text", "png", "jpeg", "svg", "html")
                if name in output.members()
            }
            shown = next((name for name in _TEXTS if name in media), "")
            self._shortened(_strings(media.get(shown)))
            for name, value in media.items():
                if name != shown and _MEDIA.fullmatch(name):
                    self._apart()
                    self.said(f"*Output: {name}*", value)

    def _shortened(self, content: Sequence[Value], joint: str = "") -> None:
        """Write an output's text as code, as much of it as is kept."""
        content = [item for item in content if isinstance(item.data, str)]
        cleaned = [_ANSI.sub("", item.data).replace("\r\n", "\n") for item in content]
        if not "".join(cleaned).strip():
            return
        fence = writing.fence(cleaned)
        self._apart()
        self.put(f"{fence}text\n")
        lines, chars, last = MAX_OUTPUT_LINES, MAX_OUTPUT_CHARS, "\n"
        for number, (item, text) in enumerate(zip(content, cleaned, strict=True)):
            if number:
                self.put(joint)
            kept = _beginning(text, lines, chars)
            if kept == item.data:
                self.string(item)
            else:
                self.said(kept, item)
            last = kept[-1:] or last
            lines -= kept.count("\n")
            chars -= len(kept)
            if kept != text:
                left = sum(map(len, cleaned[number:])) - len(kept)
                self.put(f"{'' if last == chr(10) else chr(10)}[{left} more characters]")
                last = ""
                break
        self.put(f"{'' if last == chr(10) else chr(10)}{fence}")


#: Media whose text is shown, the best first.
_TEXTS = ("text/plain", "text", "text/markdown", "text/latex")
#: A media type, or one of nbformat 3's short names.
_MEDIA = re.compile(r"[a-z]{1,20}(?:/[A-Za-z0-9.+-]{1,80})?")


def _beginning(text: str, lines: int, chars: int) -> str:
    """The first lines and characters of a text."""
    text = text[: max(chars, 0)]
    at = -1
    for _ in range(lines):
        at = text.find("\n", at + 1)
        if at < 0:
            return text
    return text[: at + 1]


def _open_fence(text: str) -> str:
    """The fence that a cell forgets to close, so that the next cells are not code; empty if there is none."""
    fence = ""
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match is None:
            continue
        if not fence:
            fence = match[1]
        elif match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip():
            fence = ""
    return fence
