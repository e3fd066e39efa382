"""The values of a configuration file, each with its key path and its place: YAML (Compose among it), JSON,
nginx confs, TOML and INI.

Lists of assignments, flags and labels (``KEY=value``, ``--flag=value``, ``--flag`` and its value) give a key
of their own, so that a value is found by what it is called wherever it stands.
"""

from __future__ import annotations

import glob
import posixpath
import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose.ansible import template_values
from taboot_pipelines.extraction.tier_a.compose.files import is_model
from taboot_pipelines.extraction.tier_a.compose.loading import documents_of
from taboot_pipelines.extraction.tier_a.compose.variables import expand
from taboot_pipelines.extraction.tier_a.compose.volumes import UNKNOWN
from taboot_pipelines.extraction.tier_a.nginx.parser import Directive
from taboot_pipelines.extraction.tier_a.nginx.parser import parse as parse_nginx
from taboot_pipelines.extraction.tier_a.systemd.units import UnitFile, unit_of
from taboot_pipelines.extraction.tier_a.systemd.units import parse as parse_unit
from taboot_pipelines.extraction.tier_a.texts import Problems, actions, variable_called
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, SEQUENCE, Node, Origin
from taboot_pipelines.extraction.tier_a.yaml_nodes import parse as parse_yaml
from taboot_pipelines.model.records import FileView
from taboot_pipelines.retrieval.queries.citations import StatementSpan, listed
from taboot_pipelines.retrieval.queries.manifest_values import (
    Setting,
    is_release,
    middlewares,
    of_charts,
    of_manifests,
    own_words,
    repositories,
)
from taboot_pipelines.retrieval.queries.service_index import (
    Document,
    Service,
    ServiceIndex,
    distinct,
    service_index,
)

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.session import View

#: Characters of a file that are parsed, and values that are kept of it.
MAX_CHARS = 1_000_000
MAX_VALUES = 50_000
#: The port that a health check asks inside of its container (Compose Specification, "healthcheck").
CHECKED_PORT = re.compile(
    r"(?:(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):|localhost |(?:^|\s)-p[ =]?)(?P<port>\d{2,5})(?!\d)"
)
#: Characters of a value that are shown.
MAX_SHOWN_CHARS = 300

#: Directives of nginx whose first argument is the name of what they set.
SETTING = frozenset({"set", "proxy_set_header", "add_header", "fastcgi_param"})

_ASSIGNMENT = re.compile(r"(?P<key>[A-Za-z_][\w.\-\[\]]*)=(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"(?P<key>--?[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_MASKED = re.compile(r"\*{3,}")
#: A masked value, with the stars that a parser was not shown.
_STARS = re.compile(r"[*•█]{3,}")
_SECRET_KEY = re.compile(
    r"pass(?:word|wd|phrase)?s?$|secrets?$|token$|(?:api|private|encryption|storage)_?key$", re.IGNORECASE
)
_VARIABLE = re.compile(r"(?<!\$)\$\{?([A-Za-z_]\w*)")
#: A variable of a template of Jinja, as it is; one that is filtered too; and the folders in which Ansible
#: looks for variables.
_TEMPLATE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_PUT_IN = re.compile(r"\{\{\s*([A-Za-z_][\w.]*)")
_OF_VARIABLES = re.compile(r"(?:^|/)(?:group_vars|host_vars|vars|defaults)/")
#: A variable in braces.
_BRACED = re.compile(r"\$\{\w+\}")
#: Where a volume in the short form is mounted, at its end; and what is put into its source.
_MOUNTED_AT = re.compile(r":(?P<target>/[^:{}$]*)(?P<options>:[\w,]+)?$")
_HOLE = re.compile(r"\$\{[^{}]*\}|\$\w+|\{\{[^{}]*\}\}")
_INI_SECTION = re.compile(r"\s*\[+([^\]\n]+)\]+\s*(?:[#;].*)?$")
_INI_VALUE = re.compile(r"\s*(?P<key>[\w.\- ]+?)\s*[=:]\s*(?P<value>.*?)\s*$")
#: A resource of an API group that somebody defined; and the groups that Kubernetes keeps for itself
#: (KEP-2337), or whose resources are read.
_CUSTOM = re.compile(
    r"""^[^#\n]*?\bapiVersion["']?\s*:\s*["']?(?P<group>[\w-]+(?:\.[\w-]+)+)/\w+["']?\s*,?\s*"""
    r"""(?:["']?kind["']?\s*:\s*["']?(?P<kind>\w+))?""",
    re.MULTILINE,
)
_READ_GROUPS = re.compile(r"\.k8s\.io$|\.kubernetes\.io$|\.toolkit\.fluxcd\.io$|^traefik\.")
#: Files of values that a chart is given (helm.sh, "Values Files").
_OF_CHARTS = re.compile(r"(?:^|/)values[\w.-]*\.ya?ml$")
#: Where a release says of which version its chart is, beside which chart.
_CHART_VERSIONS = (("spec", "chart", "spec", "version"), ("spec", "source", "targetRevision"))
_SHELL_WORD = re.compile(r"[^\s\"']+|\"[^\"]*\"|'[^']*'")


def is_masked(text: str) -> bool:
    return _STARS.search(text) is not None


@dataclass(frozen=True, slots=True)
class Value:
    """A value: ``path`` is its keys from the top, ``[start, end)`` its statement in code points. ``comment``:
    what a comment beside it or right above says of it."""

    path: tuple[str, ...]
    value: str
    start: int
    end: int
    line: int
    comment: str = ""

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def masked(self) -> bool:
        """Whether the file itself holds a secret here."""
        return is_masked(self.value)

    @property
    def secret(self) -> bool:
        """Whether it is a secret, masked or handed in from outside under a name of secrets."""
        text = self.value.strip()
        if self.masked:
            return True
        return bool(_SECRET_KEY.search(self.path[-1]) and (not text or text.startswith("$")))


#: Keys that stand for all that is under them.
_WHOLE = frozenset(
    [
        *("volumes", "environment", "labels", "devices", "sysctls", "ulimits", "extra_hosts", "secrets"),
        *("configs", "command", "entrypoint", "cap_add", "tmpfs", "build.args"),
    ]
)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A value in its document, and how many keys lead to the thing that it belongs to. ``known``: the value
    with its variables replaced, where that is known; ``also``: where these are set."""

    document: Document
    value: Value
    lead: int
    service: str = ""
    known: str = ""
    also: tuple[StatementSpan, ...] = ()

    @property
    def cite(self) -> StatementSpan:
        return StatementSpan(self.document.doc_id, self.value.line, self.value.start, self.value.end)

    @property
    def shown(self) -> str:
        """The value as it is said: its variables by what sets them, secrets masked, at most
        :data:`MAX_SHOWN_CHARS`."""
        value = self.value.value.strip()
        if self.value.masked:
            return "a secret, which is masked"
        text = self._resolved(value)
        return (text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 1] + "…") or "(empty)"

    def _resolved(self, value: str) -> str:
        if self.known:
            return self.known
        names = distinct([*_VARIABLE.findall(value), *_PUT_IN.findall(value)]) if self.service else []
        if not names:
            return value
        expanded = expand(value, {})
        missing = [n for n in names if n in expanded.missing or n in _PUT_IN.findall(value)]
        if missing:
            return f"{expanded.text} ({listed(missing)} {'is' if len(missing) == 1 else 'are'} set elsewhere)"
        return f"{expanded.text} (unless {listed(names)} says otherwise)"

    def ends_in(self, key: str) -> bool:
        """Whether the key path ends in ``key`` (dotted, any case; an all-upper key may also be the end of a
        longer name)."""
        path = self.value.path[self.lead :]
        if not path:
            return False
        if key.isupper():
            if self.document.mime == "text/x-nginx-conf":
                return False  # ``proxy_pass`` is no password
            last = path[-1].upper()
            return last == key or last.endswith("_" + key)
        parts = key.lower().split(".")
        own = [x.lower().lstrip("-") for x in path]
        if key in _WHOLE:
            exact = key not in ("command", "entrypoint") or len(own) == len(parts)
            return own[: len(parts)] == parts and exact
        if own[-len(parts) :] == parts:
            return True
        return own[-1].replace("__", "_").endswith(key.lower()) and len(parts) > 1


@dataclass
class ConfigFile:
    """The values of one file. ``extends``: of each service that extends another, (file or "", service);
    ``middlewares``: of Traefik's that are resources of Kubernetes, under the keys of its dynamic files;
    ``own``: of workloads and releases of Kubernetes what ``values`` has under the keys of Compose, under
    those that stand in the file; ``repositories``: the versions that those of charts have; ``charted``: the
    names of what charts bring by values in it; ``whole``: whether all of the file was read."""

    doc_id: str
    values: list[Value] = field(default_factory=list)
    middlewares: list[Value] = field(default_factory=list)
    own: list[Value] = field(default_factory=list)
    extends: dict[str, tuple[str, str]] = field(default_factory=dict)
    repositories: list[Value] = field(default_factory=list)
    charted: frozenset[str] = frozenset()
    whole: bool = True


def read(doc_id: str, path: str, mime: str, text: str) -> ConfigFile:
    """The values of a file; none where it cannot be parsed. Never raises."""
    found = ConfigFile(doc_id, whole=len(text) <= MAX_CHARS)
    text = text[:MAX_CHARS]
    lines = _Lines(text)
    if mime in ("application/yaml", "application/json"):
        try:
            # A masked value would be read as an alias of YAML; the same number of other signs is not.
            unstarred = _MASKED.sub(lambda m: "•" * len(m[0]), text)
            trees = _trees(path, unstarred)
        except (TabootError, RecursionError):
            found.whole = False
            return found
        # What says the same as a setting of Compose is found as that, wherever a manifest has it.
        own = _said(of_manifests(trees), ("services",), text, lines)
        found.own = _said(own_words(trees), ("services",), text, lines)[:MAX_VALUES]
        found.charted = of_charts(trees)
        found.repositories = _said(repositories(trees), ("repositories",), text, lines)
        found.middlewares = _said(middlewares(trees), ("http", "middlewares"), text, lines)
        _take(found, iter(own))
        told = {(value.start, value.end) for value in own}
        for tree in trees:
            _extends(tree, found)
            _take(found, (v for v in _walk(tree, (), lines) if (v.start, v.end) not in told))
        if put_in := actions(text):
            found.values = [
                replace(v, value=_BRACED.sub(lambda m: put_in.get(m[0], m[0]), v.value)) for v in found.values
            ]
    elif unit_of(path) is not None:
        _take(found, _unit(path, text, lines))
    elif mime == "text/x-nginx-conf":
        directives, _ = parse_nginx(text)
        _take(found, _directives(directives, (), lines))
    else:
        _take(found, _ini(text))
    return found


def _trees(path: str, text: str) -> list[Node]:
    """The documents of a YAML file, of a Compose file that is a template as the extractor reads it."""
    if "{{" in text:
        with suppress(TabootError):
            documents = documents_of(path, text, "", Problems())
            if any(is_model(document, path) for document in documents):
                return documents
    return parse_yaml(Origin(path, text, ""), Problems())


def _take(found: ConfigFile, values: Iterator[Value]) -> None:
    for value in values:
        if len(found.values) >= MAX_VALUES:
            found.whole = False
            return
        if value.path:  # what is a file's only value has no key
            found.values.append(value)


class _Lines:
    """Line numbers and comments of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def number(self, offset: int) -> int:
        return bisect_right(self.starts, offset)

    def line(self, number: int) -> str:
        start = self.starts[number - 1]
        end = self.starts[number] - 1 if number < len(self.starts) else len(self.text)
        return self.text[start:end]

    def comment(self, number: int) -> str:
        """The comment at the end of a line and those on the lines right above it."""
        said = []
        beside = re.search(r"(?:^|\s)#\s*(.*)$", self.line(number))
        if beside:
            said.append(beside[1])
        above = number - 1
        while above >= 1 and number - above <= 3 and self.line(above).lstrip().startswith("#"):
            said.insert(0, self.line(above).lstrip("# \t"))
            above -= 1
        return " ".join(said)


def _extends(tree: Node, found: ConfigFile) -> None:
    services = tree.get("services") if tree.kind == MAPPING else None
    for name, (_, node) in (services.entries if services is not None else {}).items():
        extends = node.get("extends") if node.kind == MAPPING else None
        if extends is None:
            continue
        if extends.kind == SCALAR:
            found.extends[name] = ("", extends.text)
        elif extends.kind == MAPPING and extends.scalar("service") is not None:
            file, service = extends.scalar("file"), extends.scalar("service")
            found.extends[name] = (file.text if file else "", service.text if service else "")


def _walk(node: Node, path: tuple[str, ...], lines: _Lines, depth: int = 0) -> Iterator[Value]:
    if depth > 40:
        return
    if node.kind == SCALAR:
        if node.text and not node.is_null:
            yield _value(path, node.text, node, lines)
        elif node.plain:
            yield _value(path, "", node, lines)
        if path and path[-1] in ("command", "entrypoint") and node.text:
            words = [w.strip("\"'") for w in _SHELL_WORD.findall(node.text)]
            for key, value in _flags(words):
                yield Value((*path, key), value, node.start, node.end, lines.number(node.start))
    elif path[-1:] == ("tls",) and node.kind == MAPPING and not node.entries:
        yield _value(path, "{}", node, lines)  # it is on by being written
    elif node.kind == SEQUENCE:
        texts = [i.text if i.kind == SCALAR else "" for i in node.items]
        if path and node.items and all(i.kind == SCALAR for i in node.items) and len(texts) > 1:
            joined = " ".join(texts) if path[-1] in ("command", "entrypoint", "test") else ", ".join(texts)
            yield Value(path, joined, node.start, node.end, lines.number(node.items[0].start))
        for i, item in enumerate(node.items):
            if item.kind != SCALAR:
                short, parts = _short_form(path, item)
                if short:
                    yield _value(path, short, item, lines)
                for made in _walk(item, path, lines, depth + 1):
                    if not short or made.path[len(path)] not in parts:
                        yield made
                continue
            assigned = _ASSIGNMENT.fullmatch(item.text)
            flag = _FLAG.fullmatch(item.text)
            if flag and flag["value"] is not None:
                yield _value((*path, flag["key"]), flag["value"], item, lines)
            elif flag and i + 1 < len(texts) and texts[i + 1] and not texts[i + 1].startswith("-"):
                yield _value((*path, flag["key"]), texts[i + 1], item, lines)
            elif assigned:
                yield _value((*path, assigned["key"]), assigned["value"], item, lines)
            elif (item.text and len(texts) == 1) or (
                item.text and path and path[-1] not in ("command", "entrypoint", "test")
            ):
                yield _value(path, item.text, item, lines)
    else:
        for key, (key_node, child) in node.entries.items():
            if child.kind == SCALAR and not child.is_null:
                for made in _walk(child, (*path, key), lines, depth + 1):
                    # The statement of a scalar is its line with the key, unless it is aliased.
                    near = key_node.origin is child.origin and 0 <= child.start - key_node.end <= 8
                    start = key_node.start if near and made.line == lines.number(child.start) else made.start
                    yield Value(made.path, made.value, start, made.end, made.line, made.comment)
                    if key.isupper() or "_" in key or key in ("command", "entrypoint"):
                        yield from _inner(made)
            elif child.kind == SCALAR:
                yield Value((*path, key), "", key_node.start, key_node.end, lines.number(key_node.start))
            else:
                yield from _walk(child, (*path, key), lines, depth + 1)


def _short_form(path: tuple[str, ...], item: Node) -> tuple[str, Sequence[str]]:
    """The short form of a volume's or a port's long one, and the keys that it stands for (Compose
    Specification, "services"); empty of anything else."""
    if path[-1:] == ("volumes",):
        return _mounted(item), ("type", "source", "target", "read_only")
    if path[:1] == ("services",) and path[2:] == ("ports",):
        return _published(item), ("target", "published", "host_ip", "protocol")
    return "", ()


def _published(item: Node) -> str:
    """The short form of a port's long one, ``address:published:target/protocol``; empty if it has no
    target."""
    said = {k: item.scalar(k) for k in ("host_ip", "published", "target", "protocol")}
    text = {k: node.text for k, node in said.items() if node is not None}
    if item.kind != MAPPING or "target" not in text:
        return ""
    published = ":".join(text[k] for k in ("host_ip", "published", "target") if k in text)
    return published + (f"/{text['protocol']}" if text.get("protocol", "tcp") != "tcp" else "")


def _mounted(item: Node) -> str:
    """The short form of a volume's long one, ``source:target:ro``; empty if it has no source."""
    source, target = item.scalar("source"), item.scalar("target")
    if item.kind != MAPPING or source is None or target is None:
        return ""
    read_only = item.scalar("read_only")
    return f"{source.text}:{target.text}" + (":ro" if read_only and read_only.text == "true" else "")


def _inner(made: Value) -> Iterator[Value]:
    """The flags inside a value such as ``--keep-daily 7 --keep-weekly 4``."""
    if made.value.startswith("-") and " " in made.value:
        for key, value in _flags(made.value.split()):
            yield Value((*made.path, key), value, made.start, made.end, made.line, made.comment)


def _flags(words: list[str]) -> Iterator[tuple[str, str]]:
    for i, word in enumerate(words):
        flag = _FLAG.fullmatch(word)
        if flag and flag["value"] is not None:
            yield flag["key"], flag["value"]
        elif flag and i + 1 < len(words) and not words[i + 1].startswith("-"):
            yield flag["key"], words[i + 1]


def _value(path: tuple[str, ...], value: str, node: Node, lines: _Lines) -> Value:
    line = lines.number(node.start)
    return Value(path, value, node.start, max(node.end, node.start), line, lines.comment(line))


def _directives(directives: list[Directive], path: tuple[str, ...], lines: _Lines) -> Iterator[Value]:
    for directive in directives:
        if directive.children is None:
            key: tuple[str, ...] = (directive.name,)
            args = directive.args
            if directive.name in SETTING and len(args) > 1:
                key, args = (directive.name, args[0].lstrip("$")), args[1:]
            line = lines.number(directive.start)
            yield Value(
                (*path, *key), " ".join(args), directive.start, directive.end, line, lines.comment(line)
            )
            continue
        names = [
            a
            for d in directive.children
            if directive.name == "server" and d.name == "server_name"
            for a in d.args[:1]
        ]
        block = " ".join([directive.name, *directive.args, *names])
        yield from _directives(directive.children, (*path, block), lines)


#: {(section, setting): the key of a Compose service that says the same}. Of a list each item is a value.
_OF_UNITS = {
    ("Container", "Image"): "image",
    ("Container", "ContainerName"): "container_name",
    ("Container", "HostName"): "hostname",
    ("Container", "PublishPort"): "ports",
    ("Container", "Volume"): "volumes",
    ("Container", "Mount"): "volumes",
    ("Container", "Tmpfs"): "tmpfs",
    ("Container", "Environment"): "environment",
    ("Container", "EnvironmentFile"): "env_file",
    ("Container", "Label"): "labels",
    ("Container", "Secret"): "secrets",
    ("Container", "Network"): "networks",
    ("Container", "IP"): "ipv4_address",
    ("Container", "IP6"): "ipv6_address",
    ("Container", "DNS"): "dns",
    ("Container", "AddHost"): "extra_hosts",
    ("Container", "AddDevice"): "devices",
    ("Container", "AddCapability"): "cap_add",
    ("Container", "DropCapability"): "cap_drop",
    ("Container", "Sysctl"): "sysctls",
    ("Container", "Ulimit"): "ulimits",
    ("Container", "ReadOnly"): "read_only",
    ("Container", "User"): "user",
    ("Container", "GroupAdd"): "group_add",
    ("Container", "Timezone"): "timezone",
    ("Container", "WorkingDir"): "working_dir",
    ("Container", "Entrypoint"): "entrypoint",
    ("Container", "Exec"): "command",
    ("Container", "Memory"): "mem_limit",
    ("Container", "ShmSize"): "shm_size",
    ("Container", "StopSignal"): "stop_signal",
    ("Container", "StopTimeout"): "stop_grace_period",
    ("Container", "LogDriver"): "logging.driver",
    ("Container", "Pull"): "pull_policy",
    ("Container", "HealthCmd"): "healthcheck.test",
    ("Container", "HealthInterval"): "healthcheck.interval",
    ("Container", "HealthTimeout"): "healthcheck.timeout",
    ("Container", "HealthRetries"): "healthcheck.retries",
    ("Container", "HealthStartPeriod"): "healthcheck.start_period",
    ("Pod", "PublishPort"): "ports",
    ("Pod", "Volume"): "volumes",
    ("Pod", "Network"): "networks",
    ("Service", "MemoryMax"): "mem_limit",
    ("Service", "MemoryLimit"): "mem_limit",
    ("Service", "MemoryMin"): "mem_reservation",
    ("Service", "CPUQuota"): "cpu_quota",
    ("Service", "Restart"): "restart",
    ("Service", "User"): "user",
    ("Service", "Environment"): "environment",
    ("Service", "EnvironmentFile"): "env_file",
    ("Service", "WorkingDirectory"): "working_dir",
    ("Service", "ExecStart"): "command",
    ("Service", "TimeoutStopSec"): "stop_grace_period",
}
#: Switches of ``podman run`` that a quadlet has no key for, and the keys of a service of Compose.
_SWITCHES = {"--privileged": "privileged", "--init": "init", "--read-only": "read_only"}
_LISTS_OF_UNITS = frozenset(
    [
        *("ports", "volumes", "tmpfs", "environment", "env_file", "labels", "secrets", "networks", "dns"),
        *("extra_hosts", "devices", "cap_add", "cap_drop", "sysctls", "ulimits", "group_add"),
    ]
)
#: What SELinux and the owner of a volume are told by.
_RELABELLED = re.compile(r":(?:[zZU],?)+$|(?<=[:,])[zZU],|,[zZU](?=,|$)")


def _unit(path: str, text: str, lines: _Lines) -> Iterator[Value]:
    """The settings of a unit of systemd or a quadlet, under the keys that a service of Compose has for them,
    and what such a service has no key for under its own."""
    named = unit_of(path)
    if named is None:
        return
    settings, _ = parse_unit(path, text)
    file = UnitFile(settings)
    given = next((s for n in ("Container", "Pod", "Kube") if (s := file.last(n, "ServiceName"))), None)
    name = given.text if given else f"{named.service}-pod" if named.type == "pod" else named.service
    last = {(s.section, s.key): n for n, s in enumerate(settings)}
    cleared = {(s.section, s.key): n for n, s in enumerate(settings) if not s.value.text}
    for number, setting in enumerate(settings):
        at = (setting.section, setting.key)
        key = _OF_UNITS.get(at, f"{setting.section}.{setting.key}")
        if number <= cleared.get(at, -1) or (key not in _LISTS_OF_UNITS and number != last[at]):
            continue
        keys, value = ("services", name, *key.split(".")), setting.value
        start = text.rfind("\n", 0, value.start) + 1
        line = lines.number(value.start)
        said = [value.text]
        if key in ("environment", "labels", "sysctls"):
            said = [item.text for item in setting.items()]
        elif setting.key == "Mount":
            options = dict(part.partition("=")[::2] for part in value.text.split(","))
            source = options.get("source") or options.get("src") or ""
            target = next((options[k] for k in ("target", "destination", "dst") if options.get(k)), "")
            said = [f"{source}:{target}"] if source else [target]
        for one in said:
            assigned = _ASSIGNMENT.fullmatch(one) if key in ("environment", "labels", "sysctls") else None
            own = (*keys, assigned["key"]) if assigned else keys
            shown = assigned["value"] if assigned else one
            if key == "volumes":
                shown = _RELABELLED.sub("", shown)
            yield Value(own, shown, start, value.end, line, lines.comment(line))
        if setting.key == "PodmanArgs":
            for word in value.text.split():
                flag, _, given_value = word.partition("=")
                if flag in _SWITCHES:
                    yield Value((*keys[:2], _SWITCHES[flag]), given_value or "true", start, value.end, line)
        if key in ("command", "entrypoint"):
            for flag, given_value in _flags([w.strip("\"'") for w in _SHELL_WORD.findall(value.text)]):
                yield Value((*keys, flag), given_value, start, value.end, line)


def _said(settings: Iterable[Setting], section: tuple[str, ...], text: str, lines: _Lines) -> list[Value]:
    """The settings of resources of Kubernetes, each quoted from the beginning of its line."""
    found = []
    for setting in settings:
        start = text.rfind("\n", 0, setting.node.start) + 1
        start += len(text[start : setting.node.start]) - len(text[start : setting.node.start].lstrip(" -\t"))
        number = lines.number(setting.node.start)
        path = (*section, setting.name, *setting.keys)
        found.append(Value(path, setting.value, start, setting.node.end, number, lines.comment(number)))
    return found


def _ini(text: str) -> Iterator[Value]:
    section, offset = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _INI_SECTION.match(line)
        if match:
            section = match[1].strip()
        elif line.strip() and line.lstrip()[0] not in "#;":
            value = _INI_VALUE.match(line)
            if value:
                path = (*((section,) if section else ()), value["key"].strip())
                yield Value(path, value["value"].strip("\"'"), offset, offset + len(line), number)
        offset += len(line) + 1


# --- The values of configuration that belong to a thing: to a service in every file of its project, to a
#     file, to a network or volume, each with its variables told where the graph or the file itself knows
#     them

#: Files that are kept parsed.
_MAX_FILES = 2000
#: What was read of files by their documents and the hashes of their texts.
Parsed = dict[tuple[str, bytes], ConfigFile]


class ConfigEntries:
    """The configuration documents of one house, parsed when a question needs them."""

    def __init__(self, house: ServiceIndex) -> None:
        self.house = house
        self._files: OrderedDict[str, ConfigFile] = OrderedDict()
        self._shared: Parsed | None = None
        self._values: dict[str, dict[str, str]] = {}

    def file(self, doc_id: str) -> ConfigFile:
        known = self._files.get(doc_id)
        if known is None:
            known = self._files[doc_id] = self._read(doc_id)
            while len(self._files) > _MAX_FILES:
                self._files.popitem(last=False)
        return known

    def share(self, parsed: Parsed) -> None:
        """Read no file anew that another state of the house has, and keep for others what is read."""
        self._shared = parsed

    def _read(self, doc_id: str) -> ConfigFile:
        document, text = self.house.documents[doc_id], self.house.text(doc_id)
        if self._shared is None:
            return read(doc_id, document.path, document.mime, text)
        key = doc_id, sha256(text.encode("utf-8", "surrogatepass")).digest()
        if key not in self._shared:
            self._shared[key] = read(doc_id, document.path, document.mime, text)
        return self._shared[key]

    def of_service(self, service: Service) -> list[ConfigEntry]:
        """The values of a service: its own in every file of its project, then those that it extends."""
        found: list[ConfigEntry] = []
        for doc_id in self.house.declaring(service):
            self._of_service(service, doc_id, service.name, found, set())
        if any(p.document.is_unit for p in found):
            # Of a unit a drop-in says the last word, the last of them by its name.
            found.sort(key=lambda p: (p.document.path.count("/"), posixpath.basename(p.document.path)))
            last = {p.value.path: p.document.doc_id for p in found}
            found = [
                p
                for p in found
                if p.value.path[2] in _LISTS_OF_UNITS or last[p.value.path] == p.document.doc_id
            ]
        return found

    def own_words(self, doc_id: str, service: str | None = None) -> list[ConfigEntry]:
        """The settings of the workloads and releases of a file, or of one, under the file's own keys."""
        document = self.house.documents[doc_id]
        values = self.file(doc_id).own
        return [ConfigEntry(document, v, 2, v.path[1]) for v in values if service in (None, v.path[1])]

    def _of_service(
        self, service: Service, doc_id: str, name: str, found: list[ConfigEntry], seen: set[tuple[str, str]]
    ) -> None:
        if (doc_id, name) in seen or len(seen) > 16:
            return
        seen.add((doc_id, name))
        file, document = self.file(doc_id), self.house.documents[doc_id]
        held = {p.value.path[p.lead :] for p in found}
        for value in file.values:
            if len(value.path) <= 2 or value.path[:2] != ("services", name):
                continue
            adds = value.path[2] in ("volumes", "extra_hosts")
            if len(seen) == 1 or adds or value.path[2:] not in held:
                known, also = self._known(service, value), tuple[StatementSpan, ...]()
                if not known and "{{" in value.value:
                    known = self._put_in(document, value)
                elif not known and "$" in value.value:
                    known, also = self._by_example(document, value)
                found.append(ConfigEntry(document, value, 2, name, known, also))
        if name in file.extends:
            path, other = file.extends[name]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(document.path), path))
            other_doc = self.house.by_path.get((document.source, target)) if path else doc_id
            if other_doc is not None:
                self._of_service(service, other_doc, other, found, seen)

    def _known(self, service: Service, value: Value) -> str:
        """What the graph knows a value to be that is written with variables: it was read with those of the
        project's ``.env``, or with what Ansible puts in. Empty where nothing says so."""
        if _HOLE.search(value.value) is None or len(value.path) != 3:
            return ""
        key = value.path[2]
        if key == "volumes":
            return self._mount(service, value.value)
        if key == "image":
            edges = [e for e in self.house.out(service.number, "BUILDS") if e.method == "compose_image"]
            return str(self.house.properties(edges[0].end).get("reference") or "") if edges else ""
        if key == "ports":
            at = {
                f"{e.properties['port']}:{e.properties.get('targetPort') or e.properties['port']}"
                for e in self.house.out(service.number, "BINDS")
                if e.line == value.line
            }
            return at.pop() if len(at) == 1 else ""
        return str(service.properties.get({"container_name": "containerName"}.get(key, key)) or "")

    def _mount(self, service: Service, written: str) -> str:
        """A mount that is written with variables as the graph knows it; empty where it does not."""
        at = _MOUNTED_AT.search(written)
        if at is None:
            return ""
        pattern = "*".join(map(glob.escape, _HOLE.split(written[: at.start()])))
        container = self.house.container_of.get(service.number, service.number)
        for mount in self.house.properties(container).get("mounts") or ():
            source, _, rest = str(mount).partition(":")
            same = rest.removesuffix(":ro") == posixpath.normpath(at["target"])
            if same and source not in ("", UNKNOWN) and fnmatchcase(source, pattern):
                return f"{source}{at[0]}"
        return ""

    def _by_example(self, document: Document, value: Value) -> tuple[str, tuple[StatementSpan, ...]]:
        """A value with its variables as an example of an environment file beside it has them, and where;
        empty unless it has all that have no value."""
        missing = distinct(expand(value.value, {}).missing)
        if not missing:
            return "", ()
        for doc_id in self._examples.get(self._folder(document), ()):
            held = {v.path[-1]: v for v in self.file(doc_id).values if v.value and not v.secret}
            if all(name in held for name in missing):
                text = expand(value.value, {name: held[name].value for name in missing}).text
                where = posixpath.basename(self.house.documents[doc_id].path)
                spans = (StatementSpan(doc_id, held[n].line, held[n].start, held[n].end) for n in missing)
                return f"{text} ({listed(missing)} as in {where})", tuple(spans)
        return "", ()

    def _by_variables(
        self, value: Value, levels: Sequence[Mapping[str, Sequence[Value]]]
    ) -> tuple[str, tuple[StatementSpan, ...]]:
        """A value with what files give each variable in braces, those that count most first, and where; empty
        unless all are known there, by one value each."""
        names = distinct(_TEMPLATE.findall(value.value))
        if not names or value.secret:
            return "", ()
        found: dict[str, tuple[str, Value]] = {}
        for name in names:
            for files in levels:
                said = {
                    v.value: (doc_id, v)
                    for doc_id, held in files.items()
                    for v in held
                    if v.path[-1] == name and "{{" not in v.value and not v.secret
                }
                if len(said) == 1:
                    found[name] = next(iter(said.values()))
                if any(v.path[-1] == name for held in files.values() for v in held):
                    break  # What the file itself says goes before what holds for all.
        if len(found) < len(names):
            return "", ()
        cites = tuple(StatementSpan(doc_id, v.line, v.start, v.end) for doc_id, v in found.values())
        return _TEMPLATE.sub(lambda m: found[m[1]][1].value, value.value), cites

    def _put_in(self, document: Document, value: Value) -> str:
        """A value of a template with what Ansible puts into it; empty unless all of that is known."""
        if document.doc_id not in self._values:
            ids = {p: d for (s, p), d in self.house.by_path.items() if s == document.source}
            view = FileView(frozenset(ids), lambda path: self.house.text(ids[path]))
            found = template_values(document.path, self.house.text(document.doc_id), view)
            self._values[document.doc_id] = {variable_called(name): told for name, told in found.items()}
        known = self._values[document.doc_id]
        names = _TEMPLATE.findall(value.value)
        if value.secret or not names or not all(n in known and not is_masked(known[n]) for n in names):
            return ""
        return _TEMPLATE.sub(lambda m: known[m[1]], value.value)

    @cached_property
    def _variables(self) -> dict[str, dict[str, list[Value]]]:
        """The variables at the top of Ansible's files of variables, by source and document."""
        found: dict[str, dict[str, list[Value]]] = {}
        for document in self.house.config_documents:
            if document.mime == "application/yaml" and _OF_VARIABLES.search(document.path):
                top = [v for v in self.file(document.doc_id).values if len(v.path) == 1]
                found.setdefault(document.source, {})[document.doc_id] = top
        return found

    def _folder(self, document: Document) -> str:
        """The folder of a document on this machine, or of its source."""
        root = self.house.roots.get(document.source) or f"{document.source}:"
        return posixpath.dirname(posixpath.join(root, document.path))

    @cached_property
    def _examples(self) -> dict[str, list[str]]:
        """The examples of environment files, by their folder."""
        found: dict[str, list[str]] = {}
        for document in sorted(self.house.documents.values(), key=lambda d: d.path):
            if document.mime == "text/x-dotenv":
                found.setdefault(self._folder(document), []).append(document.doc_id)
        return found

    def whole(self, service: Service) -> bool:
        """Whether all that a service is declared with is known: all of it was read, and no chart brings what
        runs."""
        if self.is_of_chart(service) or not self.house.out(service.number, "BUILDS"):
            return False
        return bool(self.house.declaring(service)) and self.was_read(service)

    def is_of_chart(self, service: Service) -> bool:
        """Whether a chart brings a service: it may set of it what no values say."""
        charted, _ = self._clusters
        files = self.house.stating(service) if charted else ()
        return any(service.name in charted.get(doc_id, ()) for doc_id in files) or any(
            _OF_CHARTS.search(self.house.documents[doc_id].path) for doc_id in self.house.declaring(service)
        )

    @property
    def operated(self) -> list[str]:
        """The kinds of resources in files in force whose meaning their operators alone know: by them more may
        run than any file says."""
        return self._clusters[1]

    @cached_property
    def _clusters(self) -> tuple[dict[str, frozenset[str]], list[str]]:
        """What charts bring, by the documents of their releases, and the kinds of resources that are not
        read. Every query asks, so each text is looked at once, and no other file is parsed."""
        charted, kinds = {}, set()
        for document in self.house.config_documents:
            text = self.house.text(document.doc_id)
            if "apiVersion" not in text:
                continue
            if is_release(text):
                charted[document.doc_id] = self.file(document.doc_id).charted
            for match in _CUSTOM.finditer(text) if not document.example else ():
                if _READ_GROUPS.search(match["group"]) is None:
                    kinds.add(match["kind"] or match["group"])
        return charted, sorted(kinds)

    def chart_version(self, service: Service) -> ConfigEntry | None:
        """The version of the chart that a release installs: its own, or that of the repository which it
        names; None where several are called so in other folders."""
        own = {
            e.value.path[2:]: e for d in self.house.stating(service) for e in self.own_words(d, service.name)
        }
        for keys in _CHART_VERSIONS:
            if keys in own and (*keys[:-1], "chart") in own:
                return own[keys]
        named = own.get(("spec", "chartRef", "name"))
        if named is None:
            return None
        held = [
            ConfigEntry(document, value, 2)
            for document in self.house.config_documents
            if not document.example and "OCIRepository" in self.house.text(document.doc_id)
            for value in self.file(document.doc_id).repositories
            if value.path[1] == named.value.value and document.source == named.document.source
        ]
        folder = posixpath.dirname(named.document.path)
        beside = [e for e in held if posixpath.dirname(e.document.path) == folder] or held
        return beside[0] if len({e.value.value for e in beside}) == 1 else None

    def was_read(self, service: Service) -> bool:
        """Whether all that declares a service was read: its files whole, and no file that it extends is
        missing."""
        for doc_id in self.house.declaring(service):
            if not self.file(doc_id).whole:
                return False
            path, _ = self.file(doc_id).extends.get(service.name, ("", ""))
            document = self.house.documents[doc_id]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(document.path), path))
            if path and (document.source, target) not in self.house.by_path:
                return False
        return True

    def of_document(self, doc_id: str, keys: re.Pattern[str] | None = None) -> list[ConfigEntry]:
        """The values of a file, or those of which the key holds ``keys``. What leads to one is its service,
        in an nginx conf the blocks around it."""
        document = self.house.documents[doc_id]
        nginx = document.mime == "text/x-nginx-conf"
        found = []
        held = self.file(doc_id).values
        levels = ({doc_id: held}, self._variables.get(document.source, {}))
        for value in held:
            if keys is not None and keys.search(value.key) is None:
                continue
            path, service = value.path, ""
            if nginx:
                lead = len(path) - (2 if len(path) > 1 and path[-2] in SETTING else 1)
            elif path and path[0] == "services" and len(path) > 2:
                lead, service = 2, path[1]
            else:
                lead = 0
            known, also = (
                _set_in(self.file(doc_id), document, value) if nginx else self._by_variables(value, levels)
            )
            found.append(ConfigEntry(document, value, lead, service, known, also))
        return found

    def under_name(self, names: Iterable[str], doc_ids: Iterable[str]) -> list[ConfigEntry]:
        """The values under a top-level section's entry of one of these names (a network, a volume)."""
        wanted = {n.lower() for n in names}
        return [
            ConfigEntry(self.house.documents[doc_id], v, 2)
            for doc_id in doc_ids
            for v in self.file(doc_id).values
            if len(v.path) > 2
            and v.path[0] in ("networks", "volumes", "secrets", "configs")
            and v.path[1].lower() in wanted
        ]


def config_entries(view: View) -> ConfigEntries:
    """The configuration documents of a view, which keep what was parsed of them."""
    return view.once(_config_entries)


def _config_entries(view: View) -> ConfigEntries:
    return ConfigEntries(service_index(view))


def of_servers(values: list[ConfigEntry], hosts: Collection[str]) -> list[ConfigEntry]:
    """The values of an nginx conf in the servers of some host names, which its other servers do not share;
    all of a file that has none of these."""
    blocks = {
        p.value.path[: p.lead]
        for p in values
        if p.value.path[-1] == "server_name" and p.lead and not {*p.value.value.split()}.isdisjoint(hosts)
    }
    held = [p for p in values if any(p.value.path[: len(b)] == b for b in blocks)]
    return held or values


_SET_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def _set_in(file: ConfigFile, document: Document, value: Value) -> tuple[str, tuple[StatementSpan, ...]]:
    """A value of an nginx conf with the variables that ``set`` gives it in its block or around it, and where
    these are set; empty where one of its variables comes from elsewhere."""
    names = _SET_VARIABLE.findall(value.value)
    if not names or value.path[-2:-1] == ("set",):
        return "", ()
    block = value.path[: -2 if value.path[-2:-1] and value.path[-2] in SETTING else -1]
    held = {
        v.path[-1]: v
        for v in sorted(file.values, key=lambda v: len(v.path))
        if v.path[-2:-1] == ("set",) and v.path[:-2] == block[: len(v.path) - 2]
    }
    if not all(n in held and "$" not in held[n].value for n in names):
        return "", ()
    known = _SET_VARIABLE.sub(lambda m: held[m[1]].value, value.value)
    return known, tuple(ConfigEntry(document, held[n], 0).cite for n in distinct(names))
