"""What a document says about itself: title, author, description, keywords, canonical URL, image and date."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from taboot_pipelines.documents.html_tree import Element, decoded
from taboot_pipelines.model.offsets import Places

MAX_VALUE = 2000
_MAX_KEYWORDS = 50
_SPACES = re.compile(r"\s+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ISO = re.compile(
    r"^\s*([0-9]{4})[-/.]?([01]?[0-9])[-/.]?([0-3]?[0-9])"
    r"(?:[T\s]+([0-2]?[0-9]):([0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]{1,9}))?)?"
    r"\s*(Z|z|UTC|GMT|[+-][0-2][0-9]:?[0-5][0-9])?)?"
)


@dataclass(slots=True)
class Facts:
    """What a document states. Of author, description, keywords, canonical_url and og_image ``metadata`` has
    those that it fills. ``places``: where in its URL its passages are."""

    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    date: datetime | None = None
    lang: str = ""
    places: Places | None = None

    def put(self, key: str, value: object) -> None:
        """Keep the first value stated for ``key``."""
        if key not in self.metadata and (cleaned := _clean(value)):
            self.metadata[key] = cleaned

    def put_keywords(self, value: object) -> None:
        """Keep the first list stated, of which a text is split at its commas."""
        parts: Iterable[object] = ()
        if isinstance(value, list):
            parts = value
        elif isinstance(value, str):
            parts = value.split(",")
        words = list(dict.fromkeys(filter(None, (_clean(p) for p in parts))))[:_MAX_KEYWORDS]
        if words and "keywords" not in self.metadata:
            self.metadata["keywords"] = words


def _clean(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = str(value)
    # Lone surrogates (bytes that were not UTF-8) can be stored nowhere.
    text = _SURROGATE.sub("\ufffd", text[: 4 * MAX_VALUE]).replace("\x00", "")
    return _SPACES.sub(" ", text).strip()[:MAX_VALUE]


def parse_date(value: object) -> datetime | None:
    """An ISO 8601 date or time as an aware datetime (UTC where no zone is stated); None for anything else."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, str) or not (m := _ISO.match(value[:64])):
        return None
    if m[4] is None and re.match(r"[0-9]", value[m.end() : m.end() + 1]):
        return None  # a longer number, not a date
    zone = m[8] or "Z"
    if zone.upper() in ("Z", "UTC", "GMT"):
        zone = "+00:00"
    elif ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    micro = (m[7] or "").ljust(6, "0")[:6]
    try:
        parsed = datetime.fromisoformat(
            f"{m[1]}-{int(m[2]):02}-{int(m[3]):02}"
            f"T{int(m[4] or 0):02}:{m[5] or '00'}:{m[6] or '00'}.{micro}{zone}"
        )
        parsed.astimezone(UTC)  # the first and last days of the calendar have no UTC time in other zones
    except (ValueError, OverflowError):
        return None
    return parsed


# HTML -------------------------------------------------------------------------------------------------------

_DATE_NAMES = (
    "article:published_time",
    "og:published_time",
    "datepublished",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.date",
    "dcterms.created",
    "dcterms.issued",
    "citation_publication_date",
    "pubdate",
    "publishdate",
    "publish_date",
    "parsely-pub-date",
    "sailthru.date",
)
_ARTICLE = re.compile(r"(?i)article|posting|report|webpage|howto|techarticle")


def of_html(source: str, root: Element) -> Facts:
    """Facts of a page: Open Graph and other meta elements, JSON-LD, ``<time>``, ``<title>``, ``h1``."""
    facts = Facts()
    dates: dict[str, str] = {}
    titles: dict[str, str] = {}
    times: list[str] = []
    scripts: list[str] = []
    for element in root.walk():
        tag = element.tag
        if tag == "meta":
            _meta(facts, titles, dates, element)
        elif tag == "link":
            if "canonical" in element.get("rel").lower().split():
                facts.put("canonical_url", element.get("href"))
        elif tag == "title" and "title" not in titles:
            titles["title"] = _clean(decoded(source, element.content_start, element.content_end))
        elif tag == "h1" and not titles.get("h1"):
            words = "".join(decoded(source, t.start, t.end) for t in element.texts())
            titles["h1"] = _clean(words.replace("¶", ""))
        elif tag == "html":
            facts.lang = facts.lang or element.get("lang") or element.get("xml:lang")
        elif tag == "time" and len(times) < 20:
            named = f"{element.get('itemprop')} {element.get('class')} {element.get('pubdate', 'no')}".lower()
            if "datepublished" in named or "published" in named or not named.endswith("no"):
                times.append(element.get("datetime"))
        elif (
            tag == "script"
            and element.get("type").split(";")[0].strip().lower() == "application/ld+json"
            and len(scripts) < 20
        ):
            scripts.append(source[element.content_start : element.content_end])
    linked: dict[str, str] = {}
    for script in scripts:
        _json_ld(script, linked)
    facts.put("author", linked.get("author"))
    facts.put("description", linked.get("description"))
    facts.title = titles.get("og:title") or titles.get("title") or titles.get("h1") or ""
    stated = [dates[n] for n in _DATE_NAMES if n in dates]
    for value in [*stated[:1], linked.get("date"), *stated[1:], *times]:
        if (found := parse_date(value)) is not None:
            facts.date = found
            break
    return facts


def _meta(facts: Facts, titles: dict[str, str], dates: dict[str, str], element: Element) -> None:
    name = (element.get("property") or element.get("name") or element.get("itemprop")).strip().lower()
    content = element.get("content")
    if not name or not content.strip():
        return
    if name in ("author", "article:author", "dc.creator", "parsely-author", "twitter:creator"):
        if not (name == "article:author" and content.startswith("http")):
            facts.put("author", content)
    elif name in ("description", "og:description", "dc.description"):
        facts.put("description", content)
    elif name in ("keywords", "news_keywords"):
        facts.put_keywords(content)
    elif name in ("og:image", "og:image:url"):
        facts.put("og_image", content)
    elif name == "og:url":
        facts.put("canonical_url", content)
    elif name == "og:title":
        titles.setdefault("og:title", _clean(content))
    elif name in _DATE_NAMES:
        dates.setdefault(name, content.strip())


def _json_ld(script: str, found: dict[str, str]) -> None:
    """Take author, description and datePublished of articles from a JSON-LD block, however it nests them."""
    if len(script) > 500_000:
        return
    try:
        stack: list[object] = [json.loads(script)]
    except (ValueError, RecursionError):
        return
    for _ in range(5000):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(reversed(node))
        elif isinstance(node, dict):
            if _ARTICLE.search(str(node.get("@type", ""))[:200]):
                if isinstance(published := node.get("datePublished"), str):
                    found.setdefault("date", published)
                if isinstance(description := node.get("description"), str):
                    found.setdefault("description", description)
                author = node.get("author")
                author = author[0] if isinstance(author, list) and author else author
                name = author.get("name") if isinstance(author, dict) else author
                if isinstance(name, str) and not name.startswith("http"):
                    found.setdefault("author", name)
            stack.extend(v for v in reversed(node.values()) if isinstance(v, dict | list))


# Markdown and other text ------------------------------------------------------------------------------------

_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\r?\n(.{0,60000}?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S | re.M
)
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_ATX = re.compile(r"[ ]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
_SETEXT = re.compile(r"[ ]{0,3}(?:=+|-{2,})[ \t]*$")
_UNDERLINE = re.compile(r"([=\-`:'\"~^_*+#<>])\1{2,}[ \t]*$")
_HTML_HEADING = re.compile(r"<h[1-3][^>]{0,300}>([^<]{1,300})</h[1-3]>", re.I)
_MARKS = re.compile(
    r"!\[[^\]\[]*\]\([^()]*\)|\[([^\]\[]*)\]\([^()]*\)|<[^<>]{1,300}>|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}"
)
#: Headings are looked for in this many lines at the beginning.
_TITLE_LINES = 400


def front_matter(text: str) -> tuple[dict[str, Any], int]:
    """(fields, end) of YAML front matter, as plain scalars and lists of scalars; ({}, 0) without one.

    Anything odd in it (anchors, tags, deep nesting) is passed over: it is data of strangers.
    """
    m = _FRONT_MATTER.match(text)
    if m is None:
        return {}, 0
    import yaml

    fields: dict[str, Any] = {}
    try:
        node = (
            yaml.compose(m[1], Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            if "&" not in m[1]
            else None
        )
    except (yaml.YAMLError, RecursionError, ValueError):
        node = None
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if isinstance(value, yaml.ScalarNode):
                fields.setdefault(key.value.strip().lower(), value.value)
            elif isinstance(value, yaml.SequenceNode):
                fields.setdefault(
                    key.value.strip().lower(),
                    [v.value for v in value.value if isinstance(v, yaml.ScalarNode)],
                )
    elif "&" in m[1]:  # no anchors are followed; `key: value` lines say enough
        for line in m[1].split("\n")[:200]:
            key, colon, value = line.partition(": ")
            if colon and not key[:1].isspace():
                fields.setdefault(key.strip().lower(), value.strip().strip("\"'"))
    return fields, m.end()


_ADOC_TITLE = re.compile(r"={1,6}[ \t]+(\S.*)")
_ADOC_ATTRIBUTE = re.compile(r":([\w-]{1,40}):[ \t]+(\S.*)")
_ADOC_AUTHOR = re.compile(r"([^<>:=]{1,200})<[^<>\s@]+@[^<>\s@]+>")


def of_markdown(text: str, restructured: bool = False) -> Facts:
    """Facts of a Markdown (or reStructuredText) document: front matter, else the first heading."""
    facts = Facts()
    fields, start = front_matter(text)
    _front(facts, fields)
    facts.title = facts.title or _first_heading(text, start, restructured)
    return facts


def of_asciidoc(text: str) -> Facts:
    """Facts of an AsciiDoc document: the title and the attributes of its header."""
    facts = Facts()
    fields: dict[str, str] = {}
    title = ""
    for line in text[:100_000].splitlines()[:_TITLE_LINES]:
        line = line[:1000]
        if title and not line.strip():
            break
        if not title and (found := _ADOC_TITLE.match(line)):
            title = found[1]
        elif found := _ADOC_ATTRIBUTE.fullmatch(line):
            fields.setdefault(found[1].lower(), found[2])
        elif title and (found := _ADOC_AUTHOR.fullmatch(line)):
            fields.setdefault("author", found[1].strip())
    _front(facts, {**fields, "title": title or fields.get("title", "")})
    return facts


def _front(facts: Facts, fields: Mapping[str, Any]) -> None:
    def first(*names: str) -> Any:
        for name in names:
            value = fields.get(name)
            if isinstance(value, list):
                value = ", ".join(map(str, value))
            if value:
                return value
        return None

    facts.title = _clean(first("title"))
    facts.lang = _clean(first("lang", "language"))[:20]
    facts.put("author", first("author", "authors"))
    facts.put("description", first("description", "summary", "excerpt"))
    facts.put_keywords(fields.get("keywords") or fields.get("tags"))
    facts.put("canonical_url", first("canonical_url", "canonicalurl", "canonical", "url"))
    facts.put("og_image", first("og_image", "image", "cover"))
    for name in ("date", "published", "date_published", "publishdate", "pubdate", "created"):
        if (found := parse_date(fields.get(name))) is not None:
            facts.date = found
            break


def _first_heading(text: str, start: int, restructured: bool) -> str:
    fence = ""
    previous = ""
    for line in text[start : start + 100_000].split("\n")[:_TITLE_LINES]:
        line = line.rstrip("\r")
        if not restructured and (mark := _FENCE.match(line)):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = ""
            previous = ""
            continue
        if fence:
            continue
        title = ""
        if not restructured and (m := _ATX.match(line[:1000])):
            title = m[1]
        elif (
            previous.strip()
            and (_UNDERLINE if restructured else _SETEXT).match(line[:300])
            and not previous.lstrip().startswith(("-", "|", ">", "*"))
        ):
            title = previous
        elif not restructured and (m := _HTML_HEADING.search(line[:2000])):
            title = m[1]
        if title := _clean(_MARKS.sub(lambda m: m[1] or "", _MARKS.sub(lambda m: m[1] or "", title[:1000]))):
            return title
        previous = line
    return ""


def title_of_path(path: str) -> str:
    """The last part of a path or URL, else all of it."""
    return _clean(path.split("?", 1)[0].rstrip("/").rsplit("/", 1)[-1]) or _clean(path) or "untitled"
