"""A session as Markdown: a heading for each turn, with who and when; what was said as it was said; calls,
results and other code in fences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC

from taboot_pipelines.documents.forms.chat.turns import Part, Session, Turn
from taboot_pipelines.documents.forms.writing import Edit, JsonWriter, cut, text_of
from taboot_pipelines.documents.mime import PLAIN
from taboot_pipelines.documents.secrets.masking import find_secrets
from taboot_pipelines.documents.secrets.values import Span, merged
from taboot_pipelines.model.json_text import Run

#: Of a longer result, a longer text of an attachment and a longer instruction to the model, the middle is
#: left out: the blob has it.
MAX_RESULT_CHARS = 4000
_HEAD_CHARS, _TAIL_CHARS = 3000, 1000
#: So much of either end is searched for secrets before the middle is left out, since what makes a value a
#: secret may stand in the middle.
_EXAMINED_CHARS = 65_536
#: In which notation: any but prose, so that all of it counts as code.
_AS_CODE = "text/x-shellscript"
_HEADINGS = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool", "note": "Note"}

#: How ChatGPT refers to what it found, in characters that no font has.
_CITATION = re.compile("\ue200[^\ue200\ue201\n]{0,400}\ue201")
_LINE_BREAK = re.compile(r"\n")
_TICKS = re.compile(r"`{3,}")
_CONTROL_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\))")
_MARKED_LINE = re.compile(
    r"^ {0,3}(?:(?P<heading>#{1,6})(?=[ \t\r\n]|\Z)|(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*))", re.M
)


def write(session: Session, writer: JsonWriter, *, thinking: bool) -> int:
    """Write the session; return how many turns of it say something. ``thinking``: what the model thought is
    shown too."""
    title = _first_line(session.title)
    if title:
        writer.put("# ")
        writer.runs(title)
        writer.put("\n")
    shown = 0
    for turn in session.turns:
        parts = [part for part in turn.parts if thinking or part.kind != "thinking"]
        if parts:
            shown += 1
            _heading(writer, turn)
            for part in parts:
                _part(writer, turn, part)
    return shown


def _heading(writer: JsonWriter, turn: Turn) -> None:
    writer.put(f"\n## {_HEADINGS[turn.role]}" if writer.length else f"## {_HEADINGS[turn.role]}")
    if turn.moment is not None and turn.time is not None:
        writer.put(" · ")
        writer.said(f"{turn.moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC", turn.time)
    writer.put(f" · {turn.mark}\n" if turn.mark else "\n")


def _part(writer: JsonWriter, turn: Turn, part: Part) -> None:
    writer.put("\n")
    match part.kind:
        case "text" if turn.role == "system":
            _quoted(writer, part.runs, shorten=True)
        case "text":
            _prose(writer, part.runs)
        case "code":
            _fenced(writer, part.runs, info=part.name)
        case "thinking":
            writer.put("Thinking:\n\n")
            _quoted(writer, part.runs)
        case "attachment":
            writer.put(f"Attachment: {part.name}\n")
            if part.runs:
                writer.put("\n")
                _fenced(writer, part.runs, shorten=True)
        case "call":
            writer.put(f"Call of `{part.name or 'a tool'}`:\n\n")
            _call(writer, part)
        case "result":
            what = "Error" if part.failed else "Result"
            writer.put(f"{what} of `{part.name}`:\n\n" if part.name else f"{what}:\n\n")
            _fenced(writer, part.runs, shorten=True)


def _prose(writer: JsonWriter, runs: Sequence[Run]) -> None:
    """Markdown of somebody: its headings stand beneath the turn's, and its fences end with it."""
    text = text_of(runs)
    edits = []
    fence = ""
    for line in _MARKED_LINE.finditer(text):
        if found := line["fence"]:
            if not fence:
                # Backticks behind backticks are inline code.
                fence = "" if found[0] == "`" and "`" in line["info"] else found
            elif found.startswith(fence) and not line["info"].strip():
                fence = ""
        elif not fence:
            at = line.start("heading")
            edits.append(Edit(at, at, "#" * min(2, 6 - len(line["heading"]))))
    end = len(text.rstrip())
    if "\ue200" in text:
        edits = sorted([*edits, *(Edit(*mark.span(), "") for mark in _CITATION.finditer(text))])
    edits = [edit for edit in edits if edit.start < end]
    if end < len(text):
        edits.append(Edit(end, len(text), ""))
    writer.runs(runs, edits)
    writer.put(f"\n{fence}\n" if fence else "\n")


def _quoted(writer: JsonWriter, runs: Sequence[Run], *, shorten: bool = False) -> None:
    """Prose that is no part of what was said aloud."""
    text = text_of(runs)
    edits = _as_told(text, shorten=shorten)
    marks = [Edit(m.end(), m.end(), "> ") for m in _LINE_BREAK.finditer(text, 0, len(text.rstrip()))]
    shown = [mark for mark in marks if not any(edit.start < mark.end < edit.end for edit in edits)]
    writer.put("> ")
    writer.runs(runs, sorted([*edits, *shown]))
    writer.put("\n")


def _call(writer: JsonWriter, part: Part) -> None:
    mark = _fence(*(text_of(field.runs) for field in part.fields))
    writer.put(f"{mark}\n")
    for field in part.fields:
        many = any("\n" in run.text for run in field.runs)
        if field.name:
            writer.put(f"{field.name}:\n" if many else f"{field.name}: ")
        _code(writer, field.runs)
    writer.put(f"{mark}\n")


def _fenced(writer: JsonWriter, runs: Sequence[Run], *, info: str = "", shorten: bool = False) -> None:
    text = text_of(runs)
    mark = _fence(text)
    writer.put(f"{mark}{info}\n")
    _code(writer, runs, shorten=shorten)
    writer.put(f"{mark}\n")


def _code(writer: JsonWriter, runs: Sequence[Run], *, shorten: bool = False) -> None:
    """The text as it is, on lines of its own."""
    text = text_of(runs)
    writer.runs(runs, _as_told(text, shorten=shorten))
    if not text.isspace() and text:
        writer.put("\n")


def _as_told(text: str, *, shorten: bool = False) -> list[Edit]:
    """The edits that leave out what is blank at a text's end, control sequences, and the middle if it is to
    be shortened, and that mask what the document's own mask would not see any more: secrets that prose tells,
    where the text becomes code, and those that the middle tells."""
    end = len(text.rstrip())
    middle = _middle(text, end) if shorten and end > MAX_RESULT_CHARS else None
    cuts = [] if middle is None else [middle]
    if end < len(text):
        cuts.append(Edit(end, len(text), ""))
    masks = [Edit(a, b, re.sub(r"[^\n]", "*", text[a:b])) for a, b in _secrets(text[:end], middle)]
    kept: list[Edit] = []
    for edit in (*cuts, *masks, *_control_sequences(text)):
        if not any(edit.start < other.end and other.start < edit.end for other in kept):
            kept.append(edit)
    return sorted(kept)


def _secrets(text: str, middle: Edit | None) -> Iterator[Span]:
    """The secrets of a text that becomes code, which do not reach into its ``middle``."""
    if middle is None:
        # What prose tells and code does not, it tells in quotes of backticks and in tables.
        if "`" in text or "|" in text:
            yield from find_secrets(text, PLAIN)
        return
    pieces = [(0, text)]
    if len(text) > 2 * _EXAMINED_CHARS:
        pieces = [(0, text[:_EXAMINED_CHARS]), (len(text) - _EXAMINED_CHARS, text[-_EXAMINED_CHARS:])]
    found = [
        (a + at, b + at)
        for at, piece in pieces
        for a, b in merged([*find_secrets(piece, _AS_CODE), *find_secrets(piece, PLAIN)])
    ]
    for low, high in ((0, middle.start), (middle.end, len(text))):
        for a, b in found:
            if max(a, low) < min(b, high):
                yield max(a, low), min(b, high)


def _middle(text: str, end: int) -> Edit:
    """What is left out of a text that is too long: whole lines, unless they are very long."""
    head = text.rfind("\n", 0, _HEAD_CHARS) + 1 or _HEAD_CHARS
    tail = text.find("\n", end - _TAIL_CHARS, end) + 1 or end - _TAIL_CHARS
    # Ends of lines far off would show next to nothing.
    head = head if head > _HEAD_CHARS // 2 else _HEAD_CHARS
    tail = tail if tail < end - _TAIL_CHARS // 2 else end - _TAIL_CHARS
    return Edit(head, tail, f"[… {tail - head} characters are left out …]\n")


def _control_sequences(text: str) -> Iterator[Edit]:
    """Colours and the like of a terminal, which are left out."""
    if "\x1b" in text:
        for found in _CONTROL_SEQUENCE.finditer(text):
            yield Edit(*found.span(), "")


def _fence(*texts: str) -> str:
    """A fence longer than any in the texts."""
    longest = max((len(ticks) for text in texts for ticks in _TICKS.findall(text)), default=2)
    return "`" * (longest + 1)


def _first_line(runs: Sequence[Run]) -> list[Run]:
    """The pieces of the first line."""
    line = text_of(runs).partition("\n")[0]
    return cut(runs, 0, len(line)) if line.strip() else []
