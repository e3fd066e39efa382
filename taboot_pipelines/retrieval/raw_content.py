"""What is handed in with a stated fact: a text, or a file, which becomes a blob of its own."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge import assertions as checks
from taboot_pipelines.model import ids

#: So many bytes of what was handed in are quoted.
_QUOTED = 2_000


def read_raw(content: Any, file: Any) -> tuple[dict[str, Any] | None, bytes | None]:
    """Return what was handed in with a fact, as its record names it, and its bytes; None, None for nothing.

    Raises ``E_ENTITY_VALIDATION`` for both at once, a file that cannot be read, or too much.
    """
    if content is None and file is None:
        return None, None
    if content is not None and file is not None:
        raise TabootError(
            "E_ENTITY_VALIDATION", "Give raw_content or raw_file_path, not both.", field="raw_content"
        )
    if file is not None:
        if not isinstance(file, (str, Path)):
            raise TabootError("E_ENTITY_VALIDATION", "raw_file_path is no path.", field="raw_file_path")
        path = Path(file)
        try:
            with path.open("rb") as f:
                data = f.read(checks.MAX_RAW + 1)
        except (OSError, ValueError) as error:
            raise TabootError(
                "E_ENTITY_VALIDATION",
                f"The file at raw_file_path cannot be read ({type(error).__name__}).",
                field="raw_file_path",
            ) from None
        name, mime = path.name, mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    else:
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")
        if not isinstance(content, (bytes, bytearray)):
            raise TabootError(
                "E_ENTITY_VALIDATION", "raw_content is neither text nor bytes.", field="raw_content"
            )
        data, name, mime = bytes(content), "", "text/plain"
    if len(data) > checks.MAX_RAW:
        raise TabootError(
            "E_ENTITY_VALIDATION",
            f"What is handed in with a fact has more than {checks.MAX_RAW:,} bytes.",
            remedy="Put the file into a source, or hand in the part that shows the fact.",
            field="raw_content" if file is None else "raw_file_path",
        )
    raw = {"sha256": ids.sha256_hex(data), "mime": mime, "name": name, "size": len(data)}
    return {**raw, "shown_bytes": _shown_bytes(data)}, data


def _shown_bytes(data: bytes) -> int:
    """How much of the beginning of what was handed in is a text that can be quoted; 0: it is none."""
    beginning = data[:_QUOTED]
    for end in range(len(beginning), max(len(beginning) - 4, 0), -1):
        try:
            text = beginning[:end].decode()
        except UnicodeDecodeError:
            continue
        return end if all(c.isprintable() or c in "\n\r\t" for c in text) else 0
    return 0
