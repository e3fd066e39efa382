"""Proves the inventory labels against the files they are about; ``inventories.md`` says what they mean.

``python benchmarks/gold/check.py`` prints what is wrong, or how many labels of each kind hold: each stands at
its place, is in the normal form of the guide and of the model, is said once, and no address was forgotten.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold import hujson
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import EDGES, check_edge, check_node, is_public

GOLD = Path(__file__).resolve().parent
ROOT = GOLD.parents[1]
DATA = Path(os.environ.get("TABOOT_TEST_DATA") or ROOT.parent / "shared" / "data").resolve()
SETS = ("tailscale", "unifi")

#: Stands for the id of the source, which a label cannot know.
SOURCE = "{source}"

FIELDS: Mapping[str, frozenset[str]] = {
    "node": frozenset({"file", "kind", "label", "key", "at", "properties", "places"}),
    "edge": frozenset({"file", "kind", "type", "source", "target", "sourceAt", "at", "properties", "places"}),
    "none": frozenset({"file", "kind", "reason"}),
}

#: Fields whose addresses no device of the inventory is known to hold: next hops, resolvers, the controller,
#: ends of DHCP ranges, masks, what rules match, pools of a policy, addresses of Tailscale's own relays, and
#: places where a client was reached for a while.
NOT_HELD = frozenset(
    {
        "gateway",
        "gateways",
        "dns",
        "nameservers",
        "netmask",
        "inform_ip",
        "adopt_ip",
        "dhcpd_start",
        "dhcpd_stop",
        "dhcpd_dns_1",
        "dhcpd_unifi_controller",
        "gateway_mac",
        "target",
        "ip_or_subnet",
        "ipPool",
        "IPv4",
        "IPv6",
        "Endpoints",
        "routable_ips",
        "RoutableIPs",
    }
)

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_APOSTROPHES = re.compile("['’]")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_.-]+")


def host_name(text: str) -> str:
    """The key of the Host that a device's name, DNS name or MAC address stands for; "" where none does."""
    name = _APOSTROPHES.sub("", text.strip().rstrip(".").lower())
    if _MAC.fullmatch(name):
        return name.replace(":", "-")
    if not name.isascii():
        letters = [c if unicodedata.category(c)[0] in "LMN" or c in "_.-" else " " for c in name]
        name = re.sub(" +", "-", "".join(letters).strip())
        try:
            labels = [part.strip("-").encode("idna").decode("ascii") for part in name.split(".")]
        except UnicodeError:
            return ""
        name = ".".join(labels)
    name = _NOT_IN_A_NAME.sub("-", name)
    return ".".join(part.strip("-") for part in name.split(".") if part.strip("-"))


def address(text: str) -> str:
    """An address in RFC 5952 form, without the prefix length it is written with."""
    return str(ipaddress.ip_interface(text).ip)


def cidr(text: str) -> str:
    """A range with its host bits cleared: ``192.168.0.1/24`` is a gateway's way to write one."""
    return str(ipaddress.ip_network(text, strict=False))


def stands_for(label: str, key: str, value: Any) -> bool:
    """Whether a value of a file is what the key of a node says, but for the normal form."""
    if not isinstance(value, str):
        return False
    try:
        match label:
            case "Host":
                return host_name(value) == key
            case "IP":
                return address(value) == key
            case "Network":
                return key == f"{SOURCE}/{value}" or (SOURCE not in key and cidr(value) == key)
            case _:
                return value == key
    except ValueError:
        return False


def property_holds(name: str, stated: Any, value: Any) -> bool:
    """Whether a value of a file is what a property says."""
    match name:
        case "cidrs":
            return stated == [cidr(value)]
        case "name":
            return stated == value.rstrip(".")
        case "tailscaleIp":
            return stated == address(value)
        case "osType":
            return stated == value.lower()
        case _:
            return stated == value


def derived(name: str, label: Mapping[str, Any]) -> Any:
    """A property that follows from the label itself and needs no place; ``LookupError`` for any other."""
    if name == "isPublic":
        return is_public(label["key"] if label["label"] == "IP" else label["properties"]["cidrs"][0])
    if name == "recordType":
        return "AAAA" if ":" in label["target"]["key"] else "A"
    raise LookupError(name)


def chosen(folder: Path) -> list[str]:
    """The half of a folder's files that is labelled: those whose name's SHA-256 begins with a 0 bit."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != "NOTE.md")
    return sorted(
        p.relative_to(folder).as_posix() for p in files if hashlib.sha256(p.name.encode()).digest()[0] < 0x80
    )


def read_labels(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def identity(label: Mapping[str, Any]) -> str:
    """What makes a label another one: for an edge its ends and what makes it another fact."""
    if label["kind"] == "node":
        return json.dumps([label["label"], label["key"]])
    properties = label.get("properties", {})
    told = [properties.get(d) for d in EDGES[label["type"]].discriminator]
    return json.dumps([label["type"], label["source"], label["target"], told], sort_keys=True)


def leaves(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a document with the name of the field (of the list) that holds it."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, field)
    elif isinstance(value, str):
        yield field, value


def forgotten(document: Any, labels: Iterable[Mapping[str, Any]]) -> list[str]:
    """Addresses of a document that are neither labelled nor of a kind that the guide leaves out."""
    known = {a for one in labels if one["kind"] == "node" for a in (one["key"], *_cidrs(one))}
    missing = set()
    for field, text in leaves(document):
        if field in NOT_HELD or not re.search(r"[.:]", text):
            continue
        try:
            held = ipaddress.ip_interface(text)
        except ValueError:
            continue
        # 0.0.0.0 is how an address that is not set is written.
        if not held.ip.is_unspecified and not {str(held.ip), str(held.network)} & known:
            missing.add(f"{field} {text} is neither labelled nor left out by the guide")
    return sorted(missing)


def _cidrs(label: Mapping[str, Any]) -> list[str]:
    return label.get("properties", {}).get("cidrs", [])


def label_problems(label: Mapping[str, Any], document: Any) -> list[str]:
    """What is wrong with one label by itself."""
    kind = label.get("kind")
    if kind not in FIELDS:
        return [f"kind {kind!r} is none of {', '.join(FIELDS)}"]
    if strange := set(label) - FIELDS[kind]:
        return [f"unknown fields {sorted(strange)}"]
    if kind == "none":
        return [] if label.get("reason") else ["a file without labels needs a reason"]
    found = []
    properties = label.get("properties", {})
    try:
        if kind == "node":
            ends = [(label["label"], label["key"], label["at"])]
            check_node(label["label"], (label["key"].replace(SOURCE, "inventory"),), properties)
        else:
            source, target = label["source"], label["target"]
            ends = [
                (source["label"], source["key"], label["sourceAt"]),
                (target["label"], target["key"], label["at"]),
            ]
            check_edge(label["type"], source["label"], target["label"], properties, 1.0)
        for name, key, place in ends:
            if not stands_for(name, key, value := hujson.at(document, place)):
                found.append(f"{place} holds {value!r}, which is not {name} {key}")
        for name, stated in properties.items():
            if place := label.get("places", {}).get(name):
                if not property_holds(name, stated, value := hujson.at(document, place)):
                    found.append(f"{place} holds {value!r}, which is not {name} {stated!r}")
            elif derived(name, label) != stated:
                found.append(f"{name} is {derived(name, label)!r}, not {stated!r}")
    except TabootError as error:
        found.append(str(error))
    except LookupError as error:
        found.append(f"nothing stands at {error}")
    return found


def problems(labels: Iterable[Mapping[str, Any]], folder: Path) -> list[str]:
    """All that is wrong with the labels of a folder of files, each with the file's name."""
    by_file: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for label in labels:
        by_file[label["file"]].append(label)
    files = chosen(folder)
    found = [f"{name}: is not labelled" for name in files if name not in by_file]
    found += [f"{name}: is not of the half that is labelled" for name in by_file if name not in files]
    for name in (f for f in files if f in by_file):
        document = hujson.loads((folder / name).read_text(encoding="utf-8"))
        own = by_file[name]
        wrong = [p for label in own for p in label_problems(label, document)]
        if not wrong:
            wrong = _problems_together(own) + forgotten(document, own)
        found += [f"{name}: {p}" for p in wrong]
    return found


def _problems_together(labels: list[Mapping[str, Any]]) -> list[str]:
    if any(one["kind"] == "none" for one in labels):
        return [] if len(labels) == 1 else ["is said to hold nothing and is labelled"]
    counts = Counter(identity(one) for one in labels)
    found = [f"{what} is labelled {n} times" for what, n in counts.items() if n > 1]
    nodes = {(one["label"], one["key"]) for one in labels if one["kind"] == "node"}
    ends = [end for one in labels if one["kind"] == "edge" for end in (one["source"], one["target"])]
    lost = {(end["label"], end["key"]) for end in ends} - nodes
    return found + [f"{label} {key} ends an edge but is no labelled node" for label, key in sorted(lost)]


def main() -> int:
    wrong = 0
    for name in SETS:
        labels = read_labels(GOLD / f"{name}.jsonl")
        for problem in problems(labels, DATA / name):
            wrong += 1
            print(f"{name}/{problem}")
        counts = Counter(one.get("label") or one.get("type") or "file without any" for one in labels)
        print(f"{name}: " + ", ".join(f"{what} {n}" for what, n in sorted(counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
