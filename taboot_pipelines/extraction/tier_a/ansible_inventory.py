"""Inventories of Ansible: the machines of a house, their addresses and the groups that they are in.

In INI a section ``[group]`` has a host on each line, with its variables behind it; ``[group:children]`` has
groups and ``[group:vars]`` variables. In YAML a group is a mapping of ``hosts``, ``children`` and ``vars``.
The address of a host is its variable ``ansible_host`` (``ansible_ssh_host`` as of old). ``web[01:03]`` is
three hosts. The groups ``all`` and ``ungrouped`` are Ansible's own and tell nothing.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote, stands_in
from taboot_pipelines.extraction.tier_a.inventory import held_address, host_name
from taboot_pipelines.extraction.tier_a.recognition import YAML, base_name, ending
from taboot_pipelines.extraction.tier_a.texts import Problems, UnitTexts
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, Node, Origin, is_open, parse
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, SourceFacts

#: Hosts that one line stands for at most.
MAX_RANGE = 1000
_NAMES = frozenset({"hosts.ini", "inventory", "inventory.ini"})
#: Where the inventories of a source lie.
_INVENTORIES = (
    "**/*inventory*.ini",
    "**/inventory",
    "**/hosts",
    "**/hosts.ini",
    "**/hosts.y*ml",
    "**/*inventory*.y*ml",
    "**/inventor*/*",
)
_OWN_GROUPS = frozenset({"all", "ungrouped"})
_ADDRESS = ("ansible_host", "ansible_ssh_host")
#: What only an inventory has: a variable of a connection behind a name, or a section of groups or variables.
_MARK = re.compile(
    r"^[ \t]*[^\s#;=\[][^\n#;]*?[ \t]ansible_\w+[ \t]*=|^\[[^\]\n]+:(?:children|vars)\][ \t]*\r?$",
    re.MULTILINE,
)
_SECTION = re.compile(r"\[(?P<group>[^\]:]+)(?::(?P<kind>children|vars|hosts))?\]\s*(?:[#;].*)?")
_SECTIONS = re.compile(r"\s*(?:[#;][^\n]*\n\s*)*\[[\w.:-]+\]")
_WORD = re.compile(r"(?:[^\s\"']|\"[^\"]*\"|'[^']*')+")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_RANGE = re.compile(r"\[(?P<first>\d+|[A-Za-z]):(?P<last>\d+|[A-Za-z])(?::(?P<step>\d+))?\]")
#: The beginning of a group in YAML; lists of hosts are those of other programs.
_GROUP = re.compile(
    r"^[A-Za-z_][\w-]*:[ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]+(?:hosts|children|vars):[ \t]*"
    r"(?:\r?\n(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]+(?!-)\S|\{)",
    re.MULTILINE,
)
_OF_GROUPS = frozenset({"hosts", "children", "vars"})


def is_inventory_path(path: str) -> bool:
    """Whether a file of this path is an inventory by its name."""
    return base_name(path).lower() in _NAMES


def looks_like_inventory(head: str) -> bool:
    """Whether a text begins as an inventory does, in INI or in YAML."""
    return _MARK.search(head) is not None or _GROUP.search(head) is not None


def _is_ini(path: str, text: str) -> bool:
    """Whether a file that has no inventory's name is one in INI: Ansible's own is called ``hosts``."""
    marked, default = _MARK.search(text) is not None, base_name(path).lower() == "hosts"
    return (marked and (default or ending(path) == "ini")) or (default and _SECTIONS.match(text) is not None)


@dataclass(slots=True)
class _Host:
    """A host: where it is first named, its groups, and (address, statement) of it."""

    quote: Quote
    groups: dict[str, None] = field(default_factory=dict)
    addresses: list[tuple[str, Quote]] = field(default_factory=list)


class InventoryReader:
    """Reads inventories (a :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`)."""

    name = "ansible_inventory"
    version = "1"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        claims = ClaimBuilder(source, UnitTexts(view))
        hosts, inside = _read(claims, path)
        for name, host in hosts.items():
            _claim(claims, name, host, inside)
        return claims.result()


def inventories(view: FileView) -> Iterator[str]:
    """The inventories of a source, by the paths that they have as a rule. What is looked for goes through the
    view, so that an inventory's appearance counts."""
    for path in dict.fromkeys(path for pattern in _INVENTORIES for path in view.glob(pattern)):
        if _is_inventory(path, UnitTexts(view).text(path) or ""):
            yield path


def _is_inventory(path: str, text: str) -> bool:
    return is_inventory_path(path) or _GROUP.search(text) is not None or _is_ini(path, text)


def hosts_by_name(view: FileView, source: SourceFacts) -> dict[str, set[str]]:
    """The hosts that a play means by a name: those of each group of the inventories of a source, and each by
    its own."""
    found: dict[str, set[str]] = {}
    for path in inventories(view):
        hosts, inside = _read(ClaimBuilder(source, UnitTexts(view)), path)
        for name, host in hosts.items():
            for group in (*_with_outer(host.groups, inside), host.quote.text, name):
                found.setdefault(group, set()).add(name)
    return found


def _read(claims: ClaimBuilder, path: str) -> tuple[dict[str, _Host], dict[str, dict[str, None]]]:
    """The hosts of an inventory by name, and which groups each group is in; none of any other file."""
    text = claims.texts.text(path) or ""
    hosts: dict[str, _Host] = {}
    inside: dict[str, dict[str, None]] = {}
    said: Iterator[_Said] = iter(())
    if _GROUP.search(text) is not None or ending(path) in YAML:
        said = _of_yaml(path, text, inside)
    elif is_inventory_path(path) or _is_ini(path, text):
        said = _of_ini(claims, path, text, inside)
    for group, written, quote, address in said:
        names = list(islice(_spread(claims, written, quote), MAX_RANGE + 1))
        if len(names) > MAX_RANGE:
            claims.problem(quote, "E_TOO_LARGE", f"a range of more than {MAX_RANGE} hosts is not listed.")
            continue
        for name in names:
            if called := host_name(name) if held_address(name) is None else "":
                host = hosts.setdefault(called, _Host(quote))
                host.groups[group] = None
                if address is not None and name == written:
                    host.addresses.append(address)
    return hosts, inside


#: (group, host as written, where it stands, its address and the statement of it)
_Said = tuple[str, str, Quote, tuple[str, Quote] | None]


def _claim(claims: ClaimBuilder, name: str, host: _Host, inside: Mapping[str, Iterable[str]]) -> None:
    groups = sorted(_with_outer(host.groups, inside) - _OWN_GROUPS)
    ref = claims.node(NodeRef("Host", (name,), name), host.quote, {"groups": groups}, declared=True)
    for written, quote in host.addresses:
        if is_open(written):
            claims.problem(quote, "E_UNRESOLVED", "the address of the host is set elsewhere.")
        elif (address := held_address(written)) is not None:
            claims.edge(
                "RESOLVES_TO",
                ref,
                claims.ip(str(address), quote),
                quote,
                "ansible_inventory",
                written=written,
                start_basis=Basis.BYTES if stands_in(name, quote.text) else Basis.NORMALIZED,
                recordType="A" if address.version == 4 else "AAAA",
            )


def _of_ini(
    claims: ClaimBuilder, path: str, text: str, inside: dict[str, dict[str, None]]
) -> Iterator[_Said]:
    """What the lines of an inventory in INI say; which groups a group is in is put into ``inside``."""
    group, kind, at = "ungrouped", None, int(text.startswith("\ufeff"))
    for line in text[at:].split("\n"):
        start, at = at, at + len(line) + 1
        bare = line.strip()
        if not bare or bare[0] in "#;":
            continue
        if (section := _SECTION.fullmatch(bare)) is not None:
            group, kind = section["group"].strip(), section["kind"]
            continue
        words = [(m[0], start + m.start()) for m in _WORD.finditer(re.sub(r"\s#.*", "", line))]
        if kind == "vars" or not words:
            continue
        name, begin = words[0]
        if kind == "children":
            inside.setdefault(name, {})[group] = None
            continue
        end = begin + len(name)
        if any(_ASSIGNED.match(word) is None for word, _ in words[1:]) or "=" in name:
            claims.problem(Quote(bare, path, begin, end), "E_PARSE", "this is no host with its variables.")
            continue
        address = None
        for word, place in words[1:]:
            key, _, value = word.partition("=")
            if key in _ADDRESS:
                stop = place + len(word)
                address = value.strip("\"'"), Quote(text[begin:stop], path, begin, stop)
        yield group, name, Quote(name, path, begin, end), address


def _of_yaml(path: str, text: str, inside: dict[str, dict[str, None]]) -> Iterator[_Said]:
    """What an inventory in YAML says; nothing of a file that has anything else in it."""
    try:
        documents = parse(Origin(path, text, ""), Problems())
    except TabootError:
        return
    if len(documents) != 1 or not _is_groups(documents[0]):
        return
    waiting = [(name, group) for name, (_, group) in documents[0].entries.items()]
    while waiting:
        name, group = waiting.pop(0)
        children = group.get("children")
        for child, (_, node) in children.entries.items() if children is not None else ():
            inside.setdefault(child, {})[name] = None
            waiting.append((child, node))
        hosts = group.get("hosts")
        for host, (key, variables) in hosts.entries.items() if hosts is not None else ():
            address = next((a for k in _ADDRESS if (a := variables.scalar(k)) is not None), None)
            quote = Quote(host, path, key.start, key.end)
            whole = None
            if address is not None and address.origin is key.origin and key.start < address.end:
                whole = address.text, Quote(text[key.start : address.end], path, key.start, address.end)
            yield name, host, quote, whole


def _is_groups(document: Node) -> bool:
    """Whether a document is a mapping of groups and nothing else."""

    def of_mappings(node: Node) -> bool:
        return node.is_null or (
            node.kind == MAPPING and all(n.kind == MAPPING or n.is_null for _, n in node.entries.values())
        )

    groups = [group for _, group in document.entries.values()]
    return bool(groups) and all(
        of_mappings(group)
        and group.entries.keys() <= _OF_GROUPS
        and all(of_mappings(part) for key in ("hosts", "children") if (part := group.get(key)) is not None)
        for group in groups
    )


def _with_outer(groups: Iterable[str], inside: Mapping[str, Iterable[str]]) -> set[str]:
    """Groups and those that they are in."""
    found, waiting = set(groups), list(groups)
    while waiting:
        outer = set(inside.get(waiting.pop(), ())) - found
        found |= outer
        waiting += outer
    return found


def _spread(claims: ClaimBuilder, written: str, quote: Quote) -> Iterator[str]:
    """The hosts that a name with a range stands for; a name without one, without its port."""
    found = _RANGE.search(written)
    if found is None:
        yield re.sub(r":\d+$", "", written) if written.count(":") == 1 else written
        return
    first, last, step = found["first"], found["last"], int(found["step"] or 1)
    letters = string.ascii_letters
    digits = first.isdigit() and last.isdigit()
    if digits != (first.isdigit() or last.isdigit()) or not step:
        claims.problem(quote, "E_PARSE", "this is no range of hosts.")
        return
    low, high = (int(first), int(last)) if digits else (letters.index(first), letters.index(last))
    for number in range(low, high + 1, step):
        one = str(number).zfill(len(first)) if digits else letters[number]
        yield from _spread(claims, written[: found.start()] + one + written[found.end() :], quote)
