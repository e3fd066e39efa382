"""Write what code alone can say truly into the pages of this folder: ``python docs/generate.py [--check]``.

A page names what it wants between two comments, ``<!-- generated: NAME -->`` and ``<!-- end -->``; the names
are the keys of ``BLOCKS``. ``--check`` writes nothing and ends with 1, naming the pages that are not as they
would be written now.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import BaseModel

from taboot_pipelines.cli.group import cli
from taboot_pipelines.connectors.entries import SourceEntry
from taboot_pipelines.connectors.gmail.entry import Imap
from taboot_pipelines.crawl.captures import Capture
from taboot_pipelines.crawl.domains import DomainSettings
from taboot_pipelines.crawl.proxies import ProxyServer, ProxySettings
from taboot_pipelines.errors import CODES
from taboot_pipelines.model.graph import EDGES, NODES, EdgeSource
from taboot_pipelines.model.notifications import Endpoint
from taboot_pipelines.model.tables import EDGES_SCHEMA, NODES_SCHEMA
from taboot_pipelines.retrieval.queries.catalog import QUERIES
from taboot_pipelines.retrieval.rules.catalog import RULES
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import SOURCE_KINDS
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.metrics import ALERTS, METRICS, alert_rules, dashboard

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "taboot_pipelines"
BLOCK = re.compile(r"(?<=<!-- generated: )(?P<name>[a-z-]+)(?P<open> -->\n).*?(?=<!-- end -->)", re.DOTALL)

#: What the columns of ``nodes()`` and ``edges()`` mean; a column without a meaning here is an error.
COLUMNS = {
    "nodes": {
        "label": "one of the node labels below",
        "key": "the node's identity in its namespace; parts of a composite key as a JSON array",
        "name": "what people call it",
        "scope": "for a Service the project that declares it: `{host or source id}/{project}`; else null",
        "properties": "JSON: what the sources say of it, conflicts settled by the reducer",
        "doc_ids": "the documents that support it",
        "first_seen": "the earliest `since` of those documents",
        "last_seen": "the latest",
    },
    "edges": {
        "edge_id": "what `explain` takes; a hash of type, ends, what makes it another fact, and document",
        "type": "one of the relations below",
        "start_label": "",
        "start_key": "",
        "start_name": "where it starts: label, key and name as in `nodes()`",
        "end_label": "",
        "end_key": "",
        "end_name": "where it ends",
        "properties": "JSON: ports, protocols, conditions and the like",
        "doc_id": "the document that says it; two documents that say the same are two rows",
        "url": "that document's URL as stored: `{source id}:{path}` for a file",
        "confidence": "0..1",
        "source": f"how it is known: {', '.join(f'`{s.value}`' for s in EdgeSource)}",
        "extraction_method": "the rule that found it, such as `compose_ports`",
        "since": "when the bytes that say it were first seen at their place",
        "run_id": "the interpretation run that found it",
        "blob_sha256": "the blob that holds the statement",
        "byte_start": "",
        "byte_end": "its bytes in the blob, `[start, end)`",
        "line": "its line in the file, from 1",
        "start_basis": "",
        "end_basis": "why that end is what it is: `bytes`, `normalized`, `derived` or `source`",
        "supports": (
            "JSON: every statement of the document that says it, with blob, bytes, line, run and method"
        ),
    },
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
            for line in lines
        )
        + "\n"
    )


def code(value: object) -> str:
    return f"`{value}`"


def bounds(schema: dict[str, Any]) -> str:
    """The type of a JSON Schema property, with its limits, in a few words."""
    choices = [s for s in schema.get("anyOf", [schema]) if s.get("type") != "null"]
    kind = " or ".join(
        (
            "one of " + ", ".join(code(v) for v in s["enum"])
            if "enum" in s
            else (
                code(s["const"])
                if "const" in s
                else (
                    f"list of {bounds(s['items'])}"
                    if s.get("type") == "array"
                    else (
                        (
                            "map"
                            if s["additionalProperties"] is True
                            else f"map of {bounds(s['additionalProperties'])}"
                        )
                        if s.get("type") == "object"
                        else f"the fields of {code(s['$ref'].rpartition('/')[2].lower())}"
                        if "$ref" in s
                        else {
                            "integer": "whole number",
                            "number": "number",
                            "boolean": "true or false",
                            "string": "text",
                        }[s["type"]]
                    )
                )
            )
        )
        for s in choices
    )
    first = choices[0]
    low, above, high = first.get("minimum"), first.get("exclusiveMinimum"), first.get("maximum")
    limits = (
        [f"≥ {low}"] * (low is not None)
        + [f"> {above}"] * (above is not None)
        + [f"≤ {high}"] * (high is not None)
    )
    return f"{kind}, {', '.join(limits)}" if limits else kind


def shown_default(value: object) -> str:
    return (
        "–"
        if value in (None, "", [], {})
        else code(json.dumps(value) if isinstance(value, bool | list) else value)
    )


# --- settings -----------------------------------------------------------------------------------------------


def settings() -> str:
    """One table for the top level, one per group and group within it, by the names of the environment
    variables.
    """
    return "\n".join(_settings_group("TABOOT_", Settings, "### Places\n"))


def _settings_group(prefix: str, model: type[BaseModel], *head: str) -> Iterator[str]:
    groups = {
        name: f.annotation
        for name, f in model.model_fields.items()
        if isinstance(f.annotation, type) and issubclass(f.annotation, BaseModel)
    }
    own = {n: p for n, p in model.model_json_schema()["properties"].items() if n not in groups}
    yield from (*head, _settings_table(prefix, own, model))
    for name, group in groups.items():
        assert group is not None and issubclass(group, BaseModel)
        inner = f"{prefix}{name.upper()}__"
        yield from _settings_group(inner, group, f"### `{inner}…`\n", _prose(group) + "\n")


def _settings_table(prefix: str, properties: dict[str, dict[str, Any]], model: type[BaseModel]) -> str:
    rows = []
    for name, schema in properties.items():
        default = _factory(model, name)
        rows.append(
            (
                code(prefix + name.upper()),
                bounds(schema),
                shown_default(str(default) if isinstance(default, Path) else default),
                _meaning(schema, name),
            )
        )
    return table(("variable", "type", "default", "meaning"), rows)


def _meaning(schema: dict[str, Any], name: str) -> str:
    if not schema.get("description"):
        raise SystemExit(f"{name} has no description")
    # Where a rule comes from is of use beside the code, not on a page.
    return re.sub(r" \(rules? [^)]*\)", "", schema["description"])


def _prose(thing: object) -> str:
    return " ".join((thing.__doc__ or "").replace("``", "`").split())


# --- sources ------------------------------------------------------------------------------------------------


#: What a profile is, which has no model of its own.
PROFILES = """What several entries share. An entry that names one has its fields, where it has none of that
name itself; `id` and `type` are its own:

```yaml
profiles:
  polite: {max_depth: 2, exclude: ["/archive/**"], fresh_hours: 168}
sources:
  - {id: docs, type: web, urls: ["https://docs.example.org/"], profile: polite}
  - {id: wiki, type: web, urls: ["https://wiki.example.org/"], profile: polite, max_depth: 3}
```
"""


def sources() -> str:
    """What every entry has, then each type with its own fields."""
    types = ", ".join(code(name) for name in SOURCE_KINDS)
    parts = ["### Every entry\n", _fields(SourceEntry, set(), types)]
    for name, kind in SOURCE_KINDS.items():
        own = _fields(kind.entry, set(SourceEntry.model_fields))
        parts += [f"### `type: {name}`\n", _prose(kind.entry) + "\n", own]
    parts += ["### `capture`\n", _prose(Capture) + "\n", _fields(Capture, set())]
    parts += ["### `imap`\n", _prose(Imap) + "\n", _fields(Imap, set())]
    parts += [f"### `profiles`\n\n{PROFILES}\n"]
    parts += ["### `domains`\n", _prose(DomainSettings) + "\n", _fields(DomainSettings, set())]
    parts += ["### `proxies`\n", _prose(ProxySettings) + "\n", _fields(ProxySettings, {"servers"})]
    parts += ["Each of its `servers`:\n", _fields(ProxyServer, set())]
    parts += ["### `notifications`\n", _prose(Endpoint) + "\n", _fields(Endpoint, set())]
    return "\n".join(parts)


def _fields(model: type[BaseModel], without: set[str], types: str = "") -> str:
    schema = model.model_json_schema()
    rows = []
    for name, property_ in schema["properties"].items():
        if name == "type" and types:
            rows.append((code(name), "text", "required", f"One of {types}."))
        elif name not in without:
            default = (
                "required"
                if name in schema.get("required", ())
                else shown_default(property_.get("default", _factory(model, name)))
            )
            rows.append((code(name), bounds(property_), default, _meaning(property_, name)))
    return table(("field", "type", "default", "meaning"), rows)


def _factory(model: type[BaseModel], name: str) -> object:
    field = next(f for own, f in model.model_fields.items() if name in (own, f.alias))
    return field.get_default(call_default_factory=True, validated_data={})


# --- errors, commands, columns, model -----------------------------------------------------------------------


def errors() -> str:
    """The codes. One that nothing raises is an error here: nobody could meet it."""
    raised = {
        c
        for p in sorted(PACKAGE.rglob("*.py"))
        # A code before a colon is where the codes are listed.
        for c in re.findall(r"\"(E_[A-Z0-9_]+)\"(?!:)", p.read_text("utf-8"))
    }
    if unused := [c for c in CODES if c not in raised]:
        raise SystemExit(f"raised by nothing: {', '.join(unused)}")
    rows = [(code(c), str(status), remedy) for c, (status, remedy) in CODES.items()]
    return table(("code", "HTTP", "what to do"), rows)


def commands() -> str:
    """Each command with its arguments and options, as its own ``--help`` has them."""
    rows = []
    for name, command in _commands(cli):
        arguments = " ".join(
            p.metavar or (p.name or "").upper() for p in command.params if isinstance(p, click.Argument)
        )
        options = [code(p.opts[0]) for p in command.params if isinstance(p, click.Option)]
        rows.append(
            (
                code(f"taboot {name} {arguments}".strip()),
                (command.help or "").split("\n\n")[0].replace("\n", " "),
                " ".join(options),
            )
        )
    return table(("command", "what it does", "options"), rows)


def _commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """The commands of a group by name, each followed by its own."""
    for name in sorted(group.commands):
        command = group.commands[name]
        yield before + name, command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{before}{name} ")


def columns(name: str, schema: Any) -> str:
    meanings = COLUMNS[name]
    if list(meanings) != schema.names:
        raise SystemExit(f"the columns of {name}() are not those of COLUMNS")
    # Columns that belong together share the meaning of the last of them.
    rows, together = [], list[str]()
    for field in schema:
        together.append(code(field.name))
        if meanings[field.name]:
            rows.append((", ".join(together), str(field.type), meanings[field.name]))
            together = []
    return table(("column", "type", "meaning"), rows)


def model() -> str:
    nodes = table(
        ("label", "key", "properties"),
        [
            (n.label, ", ".join(code(k) for k in n.key), ", ".join(sorted(n.properties)) or "–")
            for n in NODES.values()
        ],
    )
    edges = table(
        ("relation", "from", "to", "properties", "another fact by"),
        [
            (
                e.type,
                _labels(e.start),
                _labels(e.end),
                ", ".join(sorted(e.properties)) or "–",
                ", ".join(e.identifying) or "–",
            )
            for e in EDGES.values()
        ],
    )
    return f"{nodes}\n{edges}"


def _labels(labels: frozenset[str]) -> str:
    return "any node" if len(labels) == len(NODES) else ", ".join(sorted(labels))


def queries() -> str:
    rows = [
        (
            code(q.name),
            ", ".join(code(p.name) + ("" if p.required else "?") for p in q.parameters) or "–",
            q.summary,
            ", ".join(map(code, q.columns)),
        )
        for q in QUERIES.values()
    ]
    return table(("query", "asked with (? may be left out)", "what it tells", "columns"), rows)


def chain() -> str:
    """Every stage and what it holds."""
    return table(["asset", "holds"], [[f"`{s.name}`", s.holds] for s in CHAIN.stages])


def metrics() -> str:
    rows = [(code(f"taboot_{m.name}"), m.kind, m.of, ", ".join(m.labels) or "–", m.help) for m in METRICS]
    return table(("metric", "kind", "of a", "labels", "what it says"), rows)


def alerts() -> str:
    rows = [(a.name, code(a.expression), a.lasts, a.severity, a.remedy) for a in ALERTS]
    return table(("alert", "when", "for", "severity", "what to do"), rows)


def rules() -> str:
    rows = [(code(r.name), r.severity.value, r.summary, r.remedy) for r in RULES.values()]
    return table(("rule", "severity", "what holds", "else"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "sources": sources,
    "errors": errors,
    "commands": commands,
    "nodes-columns": lambda: columns("nodes", NODES_SCHEMA),
    "edges-columns": lambda: columns("edges", EDGES_SCHEMA),
    "model": model,
    "queries": queries,
    "rules": rules,
    "chain": chain,
    "metrics": metrics,
    "alerts": alerts,
}


def pages() -> Iterator[tuple[Path, str, str]]:
    """(page, its text, its text as it would be written now) of every page that holds a block, and of every
    file of ``deploy/`` that is made from a list of ours."""
    for path in (ROOT / "README.md", *sorted(Path(__file__).parent.glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        yield path, text, BLOCK.sub(lambda m: f"{m['name']}{m['open']}\n{BLOCKS[m['name']]()}\n", text)
    monitoring = ROOT / "deploy" / "monitoring"
    rules = yaml.safe_dump(alert_rules(), sort_keys=False, width=110)
    for name, new in (("alerts.yaml", rules), ("dashboard.json", f"{json.dumps(dashboard(), indent=2)}\n")):
        yield monitoring / name, (monitoring / name).read_text(encoding="utf-8"), new


def main(arguments: Sequence[str]) -> int:
    stale = [(path, new) for path, old, new in pages() if old != new]
    for path, new in stale:
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is not current: run `python docs/generate.py`", file=sys.stderr)
        else:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
