"""The sources file: a YAML mapping with a list ``sources``, one entry per source, one partition
per entry, and what all web sources go by: ``domains`` and ``proxies``.

Everything wrong with it is ``E_SOURCES`` and nothing is changed (rule ``complete-enumeration``): all problems
are listed, each by the entry's position and id, and no content is quoted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema

from taboot_pipelines.connectors.entries import SourceEntry
from taboot_pipelines.connectors.registry import SOURCE_KINDS
from taboot_pipelines.crawl.domains import DomainSettings, domain_name
from taboot_pipelines.crawl.proxies import ProxySettings
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import SourceType
from taboot_pipelines.model.ids import NAME_PATTERN

MAX_BYTES = 8 * 1024 * 1024
Named = TypeVar("Named", bound=BaseModel)
_PRINTABLE = re.compile(r"[A-Za-z0-9_.-]{1,40}")


@dataclass(frozen=True)
class SourcesFile:
    """A valid sources file: entries by id in the file's order, the directory that paths are relative to, the
    file's hash; settings of domains by their names in the form that URLs have, and lists of proxies by name.
    """

    entries: Mapping[str, SourceEntry]
    root: Path
    sha256: str
    domains: Mapping[str, DomainSettings] = field(default_factory=dict)
    proxies: Mapping[str, ProxySettings] = field(default_factory=dict)


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the sources file, for editors. Shipped as ``sources.schema.json``."""
    references, schema = models_json_schema(
        [(kind.entry, "validation") for kind in SOURCE_KINDS.values()]
        + [(DomainSettings, "validation"), (ProxySettings, "validation")]
    )
    for definition in schema["$defs"].values():
        # Where a docstring's lines break is no matter of the schema.
        definition["description"] = " ".join(definition.get("description", "").split())
    reference_of = {name: references[kind.entry, "validation"] for name, kind in SOURCE_KINDS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": schema["$defs"],
        "additionalProperties": False,
        "description": "The sources that are ingested.",
        "properties": {
            "sources": {
                "description": "One entry per source.",
                "items": {
                    "discriminator": {
                        "mapping": {name: reference["$ref"] for name, reference in reference_of.items()},
                        "propertyName": "type",
                    },
                    "oneOf": list(reference_of.values()),
                },
                "minItems": 1,
                "title": "Sources",
                "type": "array",
            },
            "domains": {
                "additionalProperties": references[DomainSettings, "validation"],
                "description": "What is set for a domain, by its name (`example.org`, `nas.lan:8080`).",
                "title": "Domains",
                "type": "object",
            },
            "proxies": {
                "additionalProperties": references[ProxySettings, "validation"],
                "description": "Lists of proxies, by the name that sources call them.",
                "propertyNames": {"pattern": NAME_PATTERN.pattern},
                "title": "Proxies",
                "type": "object",
            },
        },
        "required": ["sources"],
        "title": "Sources of taboot_pipelines",
        "type": "object",
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
    document = _parse(data, path)
    entries, problems = _entries(document["sources"])
    domains, wrong = _named(document.get("domains"), "domain", DomainSettings, domain_name)
    problems += wrong
    proxies, wrong = _named(document.get("proxies"), "list of proxies", ProxySettings, _proxies_name)
    problems += wrong
    for entry in entries.values():
        wanted = getattr(entry, "proxies", None)
        if isinstance(wanted, str) and wanted not in proxies:
            problems.append(f"entry {entry.id} names proxies {wanted}, which the file does not list")
    if problems:
        raise TabootError(
            "E_SOURCES",
            f"The sources file {path}: " + "; ".join(problems) + ".",
            path=str(path),
            problems=problems,
        )
    return SourcesFile(entries, path.absolute().parent, hashlib.sha256(data).hexdigest(), domains, proxies)


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


def _parse(data: bytes, path: Path) -> dict[str, Any]:
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
    surplus = [k for k in document if k not in ("sources", "domains", "proxies")]
    if surplus:
        raise bad(f"has unknown fields at the top: {', '.join(_show(k) for k in surplus[:5])}")
    sources = document.get("sources")
    if not isinstance(sources, list) or not sources:
        raise bad("needs a list `sources` with at least one entry")
    return document


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


def _proxies_name(text: str) -> str:
    if not NAME_PATTERN.fullmatch(text):
        raise ValueError("has a name that is not of lower case letters, digits, `-` and `_`")
    return text


def _named(
    raw: Any, what: str, model: type[Named], name_of: Callable[[str], str]
) -> tuple[dict[str, Named], list[str]]:
    """The settings under ``domains`` or ``proxies``, by ``name_of`` their names, and what is wrong."""
    found: dict[str, Named] = {}
    problems: list[str] = []
    if raw is None:
        return found, problems
    if not isinstance(raw, dict):
        return found, [f"the {what} settings are not a mapping of names to fields"]
    for text, fields in raw.items():
        where = f"{what} {_show(text)}"
        try:
            if not isinstance(text, str):
                raise ValueError("has a name that is not a text")
            if not isinstance(fields, dict) or not all(isinstance(k, str) for k in fields):
                raise ValueError("is not a mapping of fields")
            name = name_of(text)
            if name in found:
                raise ValueError("is there twice, in two spellings")
            found[name] = model.model_validate(fields)
        except ValidationError as error:
            problems += [
                f"{where} {_problem(e['loc'], e['type'], e['msg'])}"
                for e in error.errors(include_input=False, include_url=False)
            ]
        except ValueError as error:
            problems.append(f"{where} {error}")
    return found, problems


def _entry(item: dict[Any, Any]) -> SourceEntry:
    name = item.get("type")
    if name is None:
        raise ValueError("has no type")
    kind = SOURCE_KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        if isinstance(name, str) and name in set(SourceType):
            raise ValueError(f"has the type {name}, which is not available in this version")
        raise ValueError(
            f"has the unknown type {_show(name)} (known: {', '.join(t.value for t in SourceType)})"
        )
    if not all(isinstance(k, str) for k in item):
        raise ValueError("has a field whose name is not a text")
    entry: SourceEntry = kind.entry.model_validate(item)
    return entry


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
