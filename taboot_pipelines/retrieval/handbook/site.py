"""The handbook as a folder: each page as Markdown and as HTML, made beside the place that it goes to."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.handbook.pages import Page, Place, printable
from taboot_pipelines.retrieval.rendering import outside
from taboot_pipelines.stores.disk import on_disk

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"
#: What a folder holds that is a handbook: about it, with all of its files.
MARK = "handbook.json"
_CODE = re.compile(r"(`+)(.+?)(?<!`)\1(?!`)", re.DOTALL)
#: What Markdown reads as more than itself.
_MARKS = re.compile(r"[\\`*\[\]<|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=[#\w]+;)")
_AT_BEGINNING = re.compile(r"^(\s*)([-+=#>]|\d+(?=[.)]))(?=[\s.)#>=-]|$)")


@dataclass(frozen=True, slots=True)
class Made:
    """A handbook: its folder, and how many pages it has."""

    path: Path
    pages: int


class _Notes:
    """The places of one page, numbered as they come."""

    def __init__(self) -> None:
        self.places: dict[Place, int] = {}

    def of(self, places: Iterable[Place]) -> list[tuple[int, Place]]:
        return [(self.places.setdefault(p, len(self.places) + 1), p) for p in places]


def write(pages: Sequence[Page], about: dict[str, Any], target: Path) -> Made:
    """Put a handbook at ``target``, in the place of one that is there.

    Nothing is changed before all of it is written. Raises ``E_CONFLICT`` where the folder holds anything that
    no handbook made, ``E_STORAGE``.
    """
    target = target.absolute()
    with on_disk("The handbook cannot be written", target):
        _check(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as beside:
            made, before = Path(beside, "new"), Path(beside, "old")
            _fill(made, pages, about)
            if target.exists():
                target.rename(before)
            try:
                made.rename(target)
            except OSError:
                if before.exists():
                    before.rename(target)
                raise
    return Made(target, len(pages))


def _check(target: Path) -> None:
    """Refuse a place that holds what is not ours."""
    if not target.exists() and not target.is_symlink():
        return
    held = (
        sorted(p.relative_to(target).as_posix() for p in target.rglob("*") if not p.is_dir())
        if target.is_dir()
        else [""]
    )
    try:
        ours = set(json.loads((target / MARK).read_bytes())["files"]) | {MARK}
    except (OSError, ValueError, KeyError, TypeError):
        ours = set()
    foreign = next((f for f in held if f not in ours), None)
    if foreign is not None or target.is_symlink():
        raise TabootError(
            "E_CONFLICT",
            f"{target} holds {foreign!r}, which no handbook made." if foreign else f"{target} is no folder.",
            remedy="Name a folder that is new, empty, or a handbook; it is replaced as a whole.",
            path=str(target),
        )


def _fill(folder: Path, pages: Sequence[Page], about: dict[str, Any]) -> None:
    files = {"style.css": (_TEMPLATES / "style.css").read_text("utf-8")}
    for page in pages:
        for ending in ("md", "html"):
            files[f"{page.name}.{ending}"] = _render(page, ending, about)
    told = {**about, "files": sorted(files)}
    files[MARK] = json.dumps(told, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "replace"))


def _render(page: Page, ending: str, about: dict[str, Any]) -> str:
    root = "../" if "/" in page.name else ""

    def link(name: str) -> str:
        file, _, place = name.partition("#")  # Markdown has no places within a page
        return f"{root}{file}.{ending}{f'#{place}' if place and ending == 'html' else ''}"

    template = _environment().get_template(f"page.{ending}")
    return template.render(page=page, about=about, notes=_Notes(), root=root, link=link)


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=lambda name: bool(name and name.endswith(".html")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        md=_markdown,
        md_code=_markdown_code,
        span=lambda text: _span(" ".join(printable(text).split())),
        fenced=_fenced,
        rich=_rich,
        plain=printable,
        outside=lru_cache(maxsize=4096)(outside),
        anchor=lambda title: re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-"),
    )
    return made


# --- Texts in Markdown and HTML: what is between backticks is code in both, all else is text


def _markdown(text: str) -> str:
    """A text on one line of Markdown that means nothing but itself."""
    line, parts, at = " ".join(printable(text).split()), [], 0
    for code in _CODE.finditer(line):
        parts += [_escaped(line[at : code.start()]), _markdown_code(code[2])]
        at = code.end()
    return _AT_BEGINNING.sub(_as_text, "".join((*parts, _escaped(line[at:]))))


def _as_text(mark: re.Match[str]) -> str:
    """What would begin a list or a heading."""
    return f"{mark[1]}{mark[2]}\\" if mark[2].isdigit() else f"{mark[1]}\\{mark[2]}"


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\g<0>", text)


def _markdown_code(text: str) -> str:
    """A value as a code span; with a bar, which would end the cell of a table, as text."""
    line = " ".join(printable(text).split())
    return _escaped(line) if "|" in line else _span(line)


def _span(line: str) -> str:
    if not line:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _fenced(text: str, language: str = "") -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{printable(text)}\n{fence}"


def _rich(text: str) -> Any:
    """A text as HTML."""
    from markupsafe import Markup

    text, parts, at = printable(text), [], 0
    for code in _CODE.finditer(text):
        parts += [escape(text[at : code.start()]), f"<code>{escape(code[2])}</code>"]
        at = code.end()
    return Markup("".join((*parts, escape(text[at:]))))
