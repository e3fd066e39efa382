"""The sources file: a YAML mapping with a list ``sources``, one entry per source, one partition per entry;
what several entries share (``profiles``); what all web sources go by (``domains`` and ``proxies``); who is
told of events (``notifications``); how much each namespace may hold (``quotas``); saved filters
(``collections``); and what is decided of rules of the house (``rules``).

Everything wrong with it is ``E_SOURCES`` and nothing is changed (rule ``complete-enumeration``): all problems
are listed, each with its line and column and the entry's number and id, counted from 1; no content is quoted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema

from taboot_pipelines.connectors.entries import SourceEntry, UnavailableSource
from taboot_pipelines.crawl.domains import DomainSettings, domain_name
from taboot_pipelines.crawl.proxies import ProxySettings
from taboot_pipelines.errors import TabootError, near
from taboot_pipelines.model.collections import CollectionEntry
from taboot_pipelines.model.graph import is_source_type
from taboot_pipelines.model.ids import NAME_PATTERN, UPLOADS, uploads_source
from taboot_pipelines.model.notifications import Endpoint
from taboot_pipelines.model.quotas import Limits
from taboot_pipelines.model.rules import RuleEntry
from taboot_pipelines.sources.registry import source_kind, source_kinds, type_names

MAX_BYTES = 8 * 1024 * 1024
_TOP = ("sources", "profiles", "domains", "proxies", "notifications", "quotas", "collections", "rules")
#: So many unknown fields at the top are listed: a file that is another kind of file may have very many.
_MOST_UNKNOWN = 5
Named = TypeVar("Named", bound=BaseModel)
_PRINTABLE = re.compile(r"[A-Za-z0-9_.-]{1,40}")


class Position(NamedTuple):
    """A position in a text; line and column count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class Document(NamedTuple):
    """What a text says, and the nodes that it was read from."""

    content: Any
    root: yaml.Node

    def place(self, *keys: str | int) -> Position:
        """Where the value under ``keys`` begins, for a field its name; what lacks is where it would stand."""
        node, at = self.root, self.root.start_mark
        for key in keys:
            if isinstance(node, yaml.MappingNode):
                # What a mapping says itself follows what a merge key gave it, and holds.
                found = next(((k, v) for k, v in reversed(node.value) if k.value == str(key)), None)
                if found is None:
                    break
                at, node = found[0].start_mark, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                node = node.value[key]
                at = node.start_mark
            else:
                break
        return Position(at.line + 1, at.column + 1)


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


def parse(data: bytes, path: Path) -> Document:
    """Read YAML with one document. Raises ``E_SOURCES``, which names the place and quotes no content."""

    def bad(what: str) -> TabootError:
        return TabootError("E_SOURCES", f"The sources file {path} {what}.", path=str(path))

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise bad(f"is not UTF-8 (line {line}, byte {error.start + 1} of the file)") from None
    if not text.strip():
        raise bad("is empty")
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise bad("is not a mapping with a list `sources`")
            return Document(loader.construct_document(root), root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" ({Position(mark.line + 1, mark.column + 1)})" if mark else ""
        raise bad(f"is not valid YAML{at}") from None
    except yaml.reader.ReaderError as error:
        raise bad(f"holds a character that YAML forbids (position {error.position + 1})") from None
    except RecursionError:
        raise bad("is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        # PyYAML's constructors let these out for scalars that are not what their form or tag promises.
        raise bad("holds a value that cannot be read") from None


@dataclass(frozen=True)
class SourcesFile:
    """A valid sources file: entries by id in the file's order, the directory that paths are relative to, the
    file's hash; settings of domains by their names in the form that URLs have, lists of proxies by name, who
    is told of events, by name, the limits of namespaces, saved filters, and what is decided of rules, by
    name.
    """

    entries: Mapping[str, SourceEntry]
    root: Path
    sha256: str
    domains: Mapping[str, DomainSettings] = field(default_factory=dict)
    proxies: Mapping[str, ProxySettings] = field(default_factory=dict)
    notifications: Mapping[str, Endpoint] = field(default_factory=dict)
    quotas: Mapping[str, Limits] = field(default_factory=dict)
    collections: Mapping[str, CollectionEntry] = field(default_factory=dict)
    rules: Mapping[str, RuleEntry] = field(default_factory=dict)


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the sources file, for editors. Shipped as ``sources.schema.json``."""
    kinds = source_kinds()
    references, schema = models_json_schema(
        [(kind.entry, "validation") for kind in kinds.values()]
        + [
            (model, "validation")
            for model in (DomainSettings, ProxySettings, Endpoint, Limits, CollectionEntry, RuleEntry)
        ]
    )
    for definition in schema["$defs"].values():
        # Where a docstring's lines break is no matter of the schema.
        definition["description"] = " ".join(definition.get("description", "").split())
    reference_of = {name: references[kind.entry, "validation"] for name, kind in kinds.items()}
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
            "profiles": _section(
                "Profiles",
                "Fields that several entries share, by the name that these call as `profile`.",
                {"type": "object"},
            ),
            "domains": _section(
                "Domains",
                "What is set for a domain, by its name (`example.org`, `nas.lan:8080`).",
                references[DomainSettings, "validation"],
                plain_names=False,
            ),
            "proxies": _section(
                "Proxies",
                "Lists of proxies, by the name that sources call them.",
                references[ProxySettings, "validation"],
            ),
            "notifications": _section(
                "Notifications",
                "Who is told of events, by a name of one's own.",
                references[Endpoint, "validation"],
            ),
            "quotas": _section(
                "Quotas",
                "How much each namespace may hold and ask.",
                references[Limits, "validation"],
            ),
            "collections": _section(
                "Collections",
                "Saved filters, by the name that searches call as `collection`.",
                references[CollectionEntry, "validation"],
            ),
            "rules": _section(
                "Rules",
                "What is decided of rules of the house, by the name that `taboot rules` calls them.",
                references[RuleEntry, "validation"],
            ),
        },
        "required": ["sources"],
        "title": "Sources of taboot_pipelines",
        "type": "object",
    }


def _section(
    title: str, description: str, entry: Mapping[str, Any], *, plain_names: bool = True
) -> dict[str, Any]:
    """The schema of a section that has entries by name."""
    return {
        "additionalProperties": entry,
        "description": description,
        **({"propertyNames": {"pattern": NAME_PATTERN.pattern}} if plain_names else {}),
        "title": title,
        "type": "object",
    }


def load_sources(path: Path) -> SourcesFile:
    """Read and check the file. Raises ``E_SOURCES`` that lists every problem (``details["problems"]``)."""
    try:
        with path.open("rb") as f:
            data = f.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise TabootError(
            "E_SOURCES",
            f"The sources file {path} does not exist.",
            remedy="`taboot init` begins one; TABOOT_SOURCES names one that lies elsewhere.",
            path=str(path),
        ) from None
    except (OSError, ValueError):
        raise TabootError("E_SOURCES", f"The sources file {path} cannot be read.", path=str(path)) from None
    if len(data) > MAX_BYTES:
        raise TabootError(
            "E_SOURCES", f"The sources file {path} is larger than {MAX_BYTES} bytes.", path=str(path)
        )
    document = parse(data, path)
    problems = _Problems(document)
    content = document.content
    if not isinstance(content, dict):
        raise TabootError(
            "E_SOURCES", f"The sources file {path} is not a mapping with a list `sources`.", path=str(path)
        )
    for surplus in [k for k in content if k not in _TOP][:_MOST_UNKNOWN]:
        problems.add(f"the file has the unknown field {_show(surplus)} at the top", surplus)
    raw = content.get("sources")
    if not isinstance(raw, list) or not raw:
        problems.add("the file needs a list `sources` with at least one entry", "sources")
        raw = []
    entries = _entries(raw, _profiles(content, problems), problems)
    domains = _named(content, "domains", "domain", DomainSettings, domain_name, problems)
    proxies = _named(content, "proxies", "list of proxies", ProxySettings, _plain_name, problems)
    endpoints = _named(content, "notifications", "endpoint", Endpoint, _plain_name, problems)
    quotas = _named(content, "quotas", "namespace", Limits, _plain_name, problems)
    collections = _named(content, "collections", "collection", CollectionEntry, _plain_name, problems)
    rules = _named(content, "rules", "rule", RuleEntry, _plain_name, problems)
    for name, saved in collections.items():
        ids = {e.id for e in entries.values() if e.namespace == saved.namespace}
        for key, what, values, known in (
            ("source", "source", saved.source, ids | {uploads_source(saved.namespace)}),
            ("type", "type", saved.type, type_names()),
        ):
            for value in [v for v in values or () if v not in known]:
                told = f"collection {name} names {what} {_show(value)}, which "
                told += "the file does not list in its namespace" if what == "source" else "is no type"
                problems.add(told + _meant(value, known), "collections", name, key)
    for name, endpoint in endpoints.items():
        for source in sorted(set(endpoint.sources) - entries.keys()):
            problems.add(
                f"endpoint {name} names source {_show(source)}, which the file does not list",
                "notifications",
                name,
                "sources",
            )
    for index, item in enumerate(raw):
        entry = entries.get(str(item.get("id"))) if isinstance(item, dict) else None
        wanted = getattr(entry, "proxies", None)
        if isinstance(wanted, str) and wanted not in proxies:
            problems.add(
                f"{_entry_name(index, item)} names proxies {wanted}, which the file does not list",
                "sources",
                index,
                "proxies",
            )
    if problems.found:
        raise problems.error(path)
    digest = hashlib.sha256(data).hexdigest()
    return SourcesFile(
        entries, path.absolute().parent, digest, domains, proxies, endpoints, quotas, collections, rules
    )


class _Problems:
    """What is wrong with a file, each with its place, in the order of the places."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.found: list[tuple[Position, str]] = []

    def add(self, what: str, *keys: str | int) -> None:
        """``keys`` lead from the top of the file to what is wrong."""
        self.found.append((self._document.place(*keys), what))

    def add_invalid(
        self, error: ValidationError, where: str, fields: Collection[str], *keys: str | int
    ) -> None:
        """All that pydantic found wrong with the mapping under ``keys``, called ``where``; it may have
        ``fields``.
        """
        for e in error.errors(include_input=False, include_url=False):
            what = _problem(e["loc"], e["type"], e["msg"])
            if e["type"] == "extra_forbidden" and len(e["loc"]) == 1:
                what += _meant(str(e["loc"][0]), fields)
            self.add(f"{where} {what}", *keys, *e["loc"])

    def error(self, path: Path) -> TabootError:
        told = [f"{place}: {what}" for place, what in sorted(self.found)]
        head = f"The sources file {path}"
        message = (
            f"{head}, {told[0]}."
            if len(told) == 1
            else f"{head} has {len(told)} mistakes:\n  " + "\n  ".join(told)
        )
        return TabootError("E_SOURCES", message, path=str(path), problems=told)


def _entry_name(index: int, item: Any) -> str:
    """What an entry is called: its number, from 1, and its id if that is one."""
    source_id = item.get("id") if isinstance(item, dict) else None
    if isinstance(source_id, str) and NAME_PATTERN.fullmatch(source_id):
        return f"entry {index + 1} ({source_id})"
    return f"entry {index + 1}"


def _profiles(content: dict[Any, Any], problems: _Problems) -> dict[str, dict[str, Any]]:
    """The fields of each profile. What an entry is, and is called, is its own."""
    raw = content.get("profiles")
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        problems.add("the profiles are not a mapping of names to fields", "profiles")
        return {}
    found = {}
    for name, fields in raw.items():
        where = f"profile {_show(name)}"
        if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
            problems.add(
                f"{where} has a name that is not of lower case letters, digits, `-` and `_`", "profiles"
            )
        elif not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
            problems.add(f"{where} is not a mapping of fields", "profiles", name)
        elif own := sorted({"id", "type", "profile"} & fields.keys()):
            problems.add(
                f"{where} has the field {own[0]}, which is each entry's own", "profiles", name, own[0]
            )
        else:
            found[name] = fields
    return found


def _filled(item: dict[Any, Any], profiles: Mapping[str, dict[str, Any]]) -> dict[Any, Any]:
    """An entry with the fields of its profile that it does not have itself. Raises ``ValueError``."""
    name = item.get("profile")
    if not isinstance(name, str):
        return item
    if name not in profiles:
        told = f"names profile {_show(name)}, which the file does not list"
        raise ValueError(told + _meant(name, profiles))
    return profiles[name] | item


def _entries(
    raw: list[Any], profiles: Mapping[str, dict[str, Any]], problems: _Problems
) -> dict[str, SourceEntry]:
    entries: dict[str, SourceEntry] = {}
    first: dict[str, int] = {}
    for index, item in enumerate(raw):
        where, at = _entry_name(index, item), ("sources", index)
        if not isinstance(item, dict):
            problems.add(f"{where} is not a mapping", *at)
            continue
        source_id = item.get("id")
        if isinstance(source_id, str) and NAME_PATTERN.fullmatch(source_id):
            if source_id in first:
                problems.add(f"{where} has the id of entry {first[source_id] + 1}", *at, "id")
            first.setdefault(source_id, index)
            if item.get("type") != UPLOADS and (source_id == UPLOADS or source_id.startswith(f"{UPLOADS}-")):
                problems.add(f"{where} has an id that is of uploaded documents (type uploads)", *at, "id")
        try:
            item = _filled(item, profiles)
        except ValueError as error:
            problems.add(f"{where} {error}", *at, "profile")
            continue
        try:
            entry = _entry(item)
        except ValidationError as error:
            problems.add_invalid(error, where, source_kind(item["type"]).entry.model_fields, *at)
        except ValueError as error:
            problems.add(f"{where} {error}", *at, "type")
        else:
            entries.setdefault(entry.id, entry)
    return entries


def _plain_name(text: str) -> str:
    if not NAME_PATTERN.fullmatch(text):
        raise ValueError("has a name that is not of lower case letters, digits, `-` and `_`")
    return text


def _named(
    content: dict[Any, Any],
    key: str,
    what: str,
    model: type[Named],
    name_of: Callable[[str], str],
    problems: _Problems,
) -> dict[str, Named]:
    """The settings under one of the fields at the top, by ``name_of`` their names."""
    found: dict[str, Named] = {}
    raw = content.get(key)
    if raw is None:
        return found
    if not isinstance(raw, dict):
        problems.add(f"the {what} settings are not a mapping of names to fields", key)
        return found
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
            problems.add_invalid(error, where, model.model_fields, key, text)
        except ValueError as error:
            problems.add(f"{where} {error}", key, str(text))
    return found


def _entry(item: dict[Any, Any]) -> SourceEntry:
    name = item.get("type")
    if name is None:
        meant = next((k for k in map(_show, item) if near(k, ["type"])), None)
        raise ValueError("has no type" + (f" (did you mean type by {meant}?)" if meant else ""))
    known = type_names()
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"has the unknown type {_show(name)} (known: {', '.join(known)})")
    if not all(isinstance(k, str) for k in item):
        raise ValueError("has a field whose name is not a text")
    entry: SourceEntry = source_kind(name).entry.model_validate(item)
    return entry


def _problem(loc: tuple[int | str, ...], kind: str, message: str) -> str:
    name = ".".join(str(p + 1) if isinstance(p, int) else _show(p) for p in loc)
    if kind == "extra_forbidden":
        return f"has the unknown field {name}"
    text = message.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def _meant(name: str, known: Collection[str]) -> str:
    """What is said of a name that nothing has, if one that something has is near."""
    return "".join(f" (did you mean {k}?)" for k in near(name, known)[:1])


def _show(value: object) -> str:
    """A short plain word as it is, anything else unnamed: it might be content that strayed."""
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    return text if _PRINTABLE.fullmatch(text) else "(not shown)"


def parse_entry(config: dict[str, Any]) -> SourceEntry:
    """An entry from what :meth:`SourceEntry.config_json` wrote. Raises ``E_SOURCES``.

    One whose type no installed package has any more is an ``UnavailableSource``: what is stored of it can be
    looked at and deleted.
    """
    try:
        if is_source_type(config.get("type")) and config["type"] not in type_names():
            return UnavailableSource.model_validate(config)
        return _entry(config)
    except (ValidationError, ValueError):
        raise TabootError(
            "E_SOURCES", f"The stored entry of source {config.get('id')!r} cannot be read by this version."
        ) from None
