"""The sources file (DESIGN §7): a YAML mapping with a list ``sources``, one entry per source, one partition
per entry.

Everything wrong with it is ``E_SOURCES`` and nothing is changed (rule 15): all problems are listed, each by
the entry's position and id, and no content is quoted.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from croniter import croniter
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from taboot_pipelines.connectors.globs import Globs, UrlGlobs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import SourceType, is_hostname
from taboot_pipelines.model.ids import NAME_PATTERN, canonical_json

MAX_BYTES = 8 * 1024 * 1024
_PRINTABLE = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_CRON_NAMES = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")


def _cron(value: str) -> str:
    """Five fields or a name such as ``@daily``, and a time must come at which it fires (``0 0 31 2 *`` has
    none).
    """
    if value not in _CRON_NAMES and len(value.split()) != 5:
        raise ValueError("is not a cron expression of five fields")
    try:
        croniter(value, datetime(2024, 1, 1, tzinfo=UTC)).get_next()
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        raise ValueError("is not a valid cron expression, or one that never fires") from None
    return value


def _globs(value: list[str]) -> list[str]:
    Globs(value)
    return value


def _url_globs(value: list[str]) -> list[str]:
    UrlGlobs(value)
    return value


def _cidr(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise ValueError("is not a network such as 192.168.1.0/24 (host bits must be zero)") from None


def _host(value: str) -> str:
    if not is_hostname(value.rstrip(".")):
        raise ValueError("is not a host name (RFC 1123)")
    return value.rstrip(".").lower()


def _path(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a null character")
    return value


def _depth(value: int) -> int:
    if value > 0:
        raise ValueError("a depth above 0 (following links) is not available in this version")
    return value


def _unique(value: list[str]) -> list[str]:
    if len(set(value)) != len(value):
        raise ValueError("holds a value twice")
    return value


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN.pattern)]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True)]
GlobList = Annotated[list[str], AfterValidator(_globs)]
UrlGlobList = Annotated[list[str], AfterValidator(_url_globs)]
PathText = Annotated[str, StringConstraints(min_length=1, max_length=4096), AfterValidator(_path)]
ProxyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,255}$")]
HostName = Annotated[str, AfterValidator(_host)]
UrlText = Annotated[str, StringConstraints(min_length=1, max_length=8192)]


class SourceEntry(BaseModel):
    """What every entry has. ``id`` is the partition key, unique in the file whatever the namespace."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: Name = Field(description="Unique in the file; also the key of the source's partition.")
    type: str
    namespace: Name = Field(
        "default", description="The tenant: knowledge bases, quotas and deduplication are per namespace."
    )
    tags: Annotated[list[Tag], AfterValidator(_unique)] = Field(
        default_factory=list, description="Free labels to filter by."
    )
    languages: Annotated[list[Language], Field(min_length=1), AfterValidator(_unique)] = Field(
        default_factory=lambda: ["en"], description="ISO 639 codes of the languages that are kept."
    )
    schedule: Annotated[str, StringConstraints(max_length=200), AfterValidator(_cron)] | None = Field(
        None, description="When it is ingested: a cron expression of five fields."
    )
    retention_days: Annotated[int, Field(ge=1, le=36500)] | None = Field(
        None, description="Documents older than this expire."
    )

    def interpretation_fields(self) -> dict[str, str | None]:
        """The fields that interpretation may depend on (rule 8): ``namespace``, ``host``, ``proxy``."""
        return {
            "namespace": self.namespace,
            "host": getattr(self, "host", None),
            "proxy": getattr(self, "proxy", None),
        }

    def config_json(self) -> str:
        """Every field, defaults included, as canonical JSON: equal entries give equal text."""
        return canonical_json(self.model_dump(mode="json"))


class DirectorySource(SourceEntry):
    """A directory. ``include`` replaces the type's default globs; ``exclude`` wins over it."""

    path: PathText = Field(description="The directory, relative to the sources file.")
    include: GlobList = Field(
        default_factory=list, description="Globs of what is taken; default: what the type reads."
    )
    exclude: GlobList = Field(
        default_factory=list, description="Globs of what is left out; a deleted or excluded file is the same."
    )


class FilesSource(DirectorySource):
    """A directory of documents: Markdown, HTML, text, YAML, JSON, conf."""

    type: Literal["files"]


class ComposeSource(DirectorySource):
    """Directories with any number of Compose projects."""

    type: Literal["compose"]
    host: HostName | None = Field(None, description="The machine on which the projects run.")
    proxy: ProxyName | None = Field(None, description="The reverse proxy that Traefik labels speak to.")


class SwagSource(DirectorySource):
    """A directory of nginx proxy confs."""

    type: Literal["swag"]
    proxy: ProxyName | None = Field(None, description="Name of the reverse proxy; default the source's id.")


class WebSource(SourceEntry):
    """Pages over HTTP(S). ``include`` and ``exclude`` are globs too: matched against the whole canonical URL
    if they hold ``://``, against path and query if they begin with ``/``, else against host, path and
    query."""

    type: Literal["web"]
    urls: list[UrlText] = Field(default_factory=list, description="Pages to fetch.")
    sitemaps: list[UrlText] = Field(
        default_factory=list, description="Sitemaps (XML, index, gzip, text, RSS, Atom) that list pages."
    )
    max_depth: Annotated[int, Field(ge=0), AfterValidator(_depth)] = Field(
        0, description="0: only what is listed."
    )
    max_pages: int = Field(
        10_000, ge=1, le=1_000_000, description="Pages beyond it, in the order of their keys, are skipped."
    )
    include: UrlGlobList = Field(
        default_factory=list, description="Globs of the URLs that are taken; default all."
    )
    exclude: UrlGlobList = Field(default_factory=list, description="Globs of the URLs that are left out.")
    allow_cidrs: list[Annotated[str, AfterValidator(_cidr)]] = Field(
        default_factory=list, description="Private networks that may be connected to."
    )

    @model_validator(mode="after")
    def _listed(self) -> WebSource:
        if not self.urls and not self.sitemaps:
            raise ValueError("needs urls or sitemaps")
        return self


AnyEntry = Annotated[FilesSource | ComposeSource | SwagSource | WebSource, Field(discriminator="type")]
_ENTRY_TYPES: dict[str, type[SourceEntry]] = {
    "files": FilesSource,
    "compose": ComposeSource,
    "swag": SwagSource,
    "web": WebSource,
}


class SourcesModel(BaseModel):
    """The file as a whole; used for its JSON Schema, since :func:`load_sources` names problems by entry."""

    model_config = ConfigDict(extra="forbid", title="Sources of taboot_pipelines")

    sources: list[AnyEntry] = Field(min_length=1, description="One entry per source.")


@dataclass(frozen=True)
class SourcesFile:
    """A valid sources file: entries by id in the file's order, the directory that paths are relative to, the
    file's hash.
    """

    entries: Mapping[str, SourceEntry]
    root: Path
    sha256: str


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the sources file, for editors. Shipped as ``sources.schema.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **TypeAdapter(SourcesModel).json_schema(),
    }


def load_sources(path: Path) -> SourcesFile:
    """Read and check the file. Raises ``E_SOURCES`` that lists every problem (``details["problems"]``)."""
    try:
        with path.open("rb") as f:
            data = f.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise TabootError("E_SOURCES", f"The sources file {path} {reason}.", path=str(path)) from None
    if len(data) > MAX_BYTES:
        raise TabootError(
            "E_SOURCES", f"The sources file {path} is larger than {MAX_BYTES} bytes.", path=str(path)
        )
    entries, problems = _entries(_parse(data, path))
    if problems:
        raise TabootError(
            "E_SOURCES",
            f"The sources file {path}: " + "; ".join(problems) + ".",
            path=str(path),
            problems=problems,
        )
    return SourcesFile(entries, path.absolute().parent, hashlib.sha256(data).hexdigest())


class _Loader(yaml.SafeLoader):
    """YAML without surprises. A key given twice is an error, since the first list of sources would vanish
    unseen; a merge key (``<<``) takes one mapping, since lists of aliases can grow without bound."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._flat: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # A mapping that several merge keys name comes here again, its merged keys already in it.
        if id(node) in self._flat:
            return
        self._flat.add(id(node))
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, "a key is given twice", key.start_mark
                    )
                seen.add(key.value)
                if key.tag == "tag:yaml.org,2002:merge" and not isinstance(value, yaml.MappingNode):
                    raise yaml.constructor.ConstructorError(None, None, "a merge of several", key.start_mark)
        super().flatten_mapping(node)


def _parse(data: bytes, path: Path) -> list[Any]:
    def bad(what: str) -> TabootError:
        return TabootError("E_SOURCES", f"The sources file {path} {what}.", path=str(path))

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise bad(f"is not UTF-8 (byte {error.start})") from None
    if not text.strip():
        raise bad("is empty")
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise bad(
            "is not valid YAML" + (f" (line {mark.line + 1}, column {mark.column + 1})" if mark else "")
        ) from None
    except yaml.reader.ReaderError as error:
        raise bad(f"holds a character that YAML forbids (position {error.position})") from None
    except RecursionError:
        raise bad("is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        # PyYAML's constructors let these out for scalars that are not what their form or tag promises.
        raise bad("holds a value that cannot be read") from None
    if not isinstance(document, dict):
        raise bad("is not a mapping with a list `sources`")
    surplus = [k for k in document if k != "sources"]
    if surplus:
        raise bad(f"has unknown fields at the top: {', '.join(_show(k) for k in surplus[:5])}")
    sources = document.get("sources")
    if not isinstance(sources, list) or not sources:
        raise bad("needs a list `sources` with at least one entry")
    return sources


def _entries(raw: list[Any]) -> tuple[dict[str, SourceEntry], list[str]]:
    entries: dict[str, SourceEntry] = {}
    first: dict[str, int] = {}
    problems: list[str] = []
    for index, item in enumerate(raw):
        where = f"entry {index}"
        if not isinstance(item, dict):
            problems.append(f"{where} is not a mapping")
            continue
        source_id = item.get("id")
        if isinstance(source_id, str) and NAME_PATTERN.fullmatch(source_id):
            where = f"entry {index} ({source_id})"
            if source_id in first:
                problems.append(f"{where} has the id of entry {first[source_id]}")
            first.setdefault(source_id, index)
        try:
            entry = _entry(item)
        except ValidationError as error:
            problems += [
                f"{where} {_problem(e['loc'], e['type'], e['msg'])}"
                for e in error.errors(include_input=False, include_url=False)
            ]
        except ValueError as error:
            problems.append(f"{where} {error}")
        else:
            entries[entry.id] = entry
    return entries, problems


def _entry(item: dict[Any, Any]) -> SourceEntry:
    kind = item.get("type")
    if kind is None:
        raise ValueError("has no type")
    model = _ENTRY_TYPES.get(kind) if isinstance(kind, str) else None
    if model is None:
        if isinstance(kind, str) and kind in set(SourceType):
            raise ValueError(f"has the type {kind}, which is not available in this version")
        raise ValueError(
            f"has the unknown type {_show(kind)} (known: {', '.join(t.value for t in SourceType)})"
        )
    if not all(isinstance(k, str) for k in item):
        raise ValueError("has a field whose name is not a text")
    return model.model_validate(item)


def _problem(loc: tuple[int | str, ...], kind: str, message: str) -> str:
    name = ".".join(_show(p) for p in loc)
    if kind == "extra_forbidden":
        return f"has the unknown field {name}"
    text = message.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def _show(value: object) -> str:
    """A short plain word as it is, anything else unnamed: it might be content that strayed."""
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    return text if _PRINTABLE.fullmatch(text) else "(not shown)"


def parse_entry(config: dict[str, Any]) -> SourceEntry:
    """An entry from what :meth:`SourceEntry.config_json` wrote. Raises ``E_SOURCES``."""
    try:
        return _entry(config)
    except (ValidationError, ValueError):
        raise TabootError(
            "E_SOURCES", f"The stored entry of source {config.get('id')!r} cannot be read by this version."
        ) from None
