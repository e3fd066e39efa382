"""Queries about settings: what files of configuration say, under the keys by which they say it.

A key is any end of a key path (``mem_limit``, ``limits.memory``, ``WG_PORT``), so these queries read every
format that has keys: Compose, YAML, JSON, TOML, INI, nginx confs, units of systemd and quadlets.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator

from taboot_pipelines.retrieval.queries.citations import listed
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.results.queries import Cell

#: The settings of a service that have a query of their own: the ends of the key paths that hold each.
HEALTH_CHECK = ("healthcheck",)
RESTART_POLICY = ("restart", "restart_policy.condition")
LIMITS = ("mem_limit", "limits.memory", "cpus", "limits.cpus", "cpu_quota", "pids_limit", "shm_size")
USER = ("user", "PUID", "PGID")
ENVIRONMENT = ("environment",)
VOLUMES = ("volumes",)
SCHEDULE = ("schedule", "cron", "OnCalendar", "CRON", "SCHEDULE")


def settings(house: House, args: Arguments) -> Iterator[Row]:
    """Of everything, or with a ``key`` of what ends in it, else of what stands beneath it; or with a
    ``value`` of what holds it."""
    key, value, path = args.text.get("key"), args.text.get("value"), args.text.get("file")

    def found(is_called: Callable[[ConfigEntry], bool]) -> Iterator[ConfigEntry]:
        def wanted(entry: ConfigEntry) -> bool:
            return (
                is_called(entry)
                and (value is None or value.lower() in entry.value.value.lower())
                and (path is None or entry.document.path.endswith(path))
            )

        return _once(filter(wanted, house.settings(args)), filter(wanted, house.own_words(args)))

    entries = list(found(lambda e: key is None or _is_key(e, key)))
    if key is not None and not entries:
        entries = list(found(lambda e: _is_beneath(e, key)))
    for entry in entries:
        yield _setting(house, entry)


def _once(entries: Iterable[ConfigEntry], others: Iterable[ConfigEntry]) -> Iterator[ConfigEntry]:
    """Entries, and the others that say another value: the same ends at the same place."""
    seen = set()
    for entry in entries:
        seen.add((entry.document.doc_id, entry.value.end))
        yield entry
    yield from (e for e in others if (e.document.doc_id, e.value.end) not in seen)


def _is_key(entry: ConfigEntry, key: str) -> bool:
    """Whether a setting is called so: the whole end of its path, in any case."""
    own, asked = [p.lower().lstrip("-") for p in entry.value.path], key.lower().lstrip("-").split(".")
    # A flag or a label has dots of its own.
    return own[-len(asked) :] == asked or own[-1] == key.lower().lstrip("-")


def _is_beneath(entry: ConfigEntry, key: str) -> bool:
    """Whether a setting stands in a block that is called so: ``envFrom.secretRef`` in ``envFrom``."""
    own, asked = [p.lower() for p in entry.value.path], key.lower().split(".")
    return any(own[n : n + len(asked)] == asked for n in range(len(own) - len(asked)))


def _setting(house: House, entry: ConfigEntry) -> Row:
    cells: dict[str, Cell] = {
        "service": entry.service,
        "file": entry.document.path,
        "key": ".".join(entry.value.path[entry.lead :]) if entry.service else entry.value.key,
        "value": entry.shown,
    }
    return Row(cells, [entry.cite, *entry.also])


def of_services(keys: Collection[str]) -> Callable[[House, Arguments], Iterator[Row]]:
    """The query for the settings of services that stand under one of ``keys``."""

    def stands(entry: ConfigEntry) -> bool:
        return entry.value.path[entry.lead] in keys or any(entry.ends_in(k) for k in keys)

    return lambda house, args: _of_services(house, args, stands)


def _of_services(
    house: House, args: Arguments, wanted: Callable[[ConfigEntry], bool], *, in_own_words: bool = False
) -> Iterator[Row]:
    for service in house.asked(args):
        own_words = house.own_words_of(service) if in_own_words else ()
        for entry in _once(filter(wanted, house.entries.of_service(service)), filter(wanted, own_words)):
            own = ".".join(entry.value.path[entry.lead :])
            cells = {**house.service(service), "key": own, "value": entry.shown}
            yield Row(cells, [entry.cite, *entry.also])


def schedules(house: House, args: Arguments) -> Iterator[Row]:
    """When services do their work: by a setting of their own, or a timer, which starts the unit that it names
    in ``Unit=``, else the service of its own name (systemd.timer(5))."""
    yield from of_services(SCHEDULE)(house, args)
    asked = {s.name: s for s in house.asked(args)}
    for document in house.index.config_documents:
        stem, ending = posixpath.splitext(posixpath.basename(document.path))
        if ending != ".timer":
            continue
        entries = [e for e in house.entries.of_document(document.doc_id) if e.value.path[0] == "Timer"]
        named = next((e.value.value for e in entries if e.value.path[-1] == "Unit"), stem)
        unit = named.removesuffix(".service")
        narrowed = args.services or args.projects or args.hosts
        if narrowed and unit not in asked:
            continue
        for entry in entries:
            if entry.value.path[-1].startswith("On"):
                of = house.service(asked[unit]) if unit in asked else {"service": unit, "project": ""}
                cells = {**of, "key": entry.value.path[-1], "value": entry.shown}
                yield Row(cells, [entry.cite, *entry.also])


#: What is mounted, where and how; a variable's default or demand may hold a colon, a comma as well.
_MOUNT = re.compile(r"((?:\$\{[^{}]*\}|[^:])*):?((?:\$\{[^{}]*\}|[^:])*):?(.*)")
_DEMAND = re.compile(r"\$\{[^{}]*\}")


def mount_of(text: str) -> tuple[str, str, str]:
    """What a mount in Compose's short form takes, where it is in the container, and its options. What a
    server exports is ``server:/path``."""
    found = _MOUNT.fullmatch(text)
    source, target, mode = found.groups() if found is not None else (text, "", "")
    if mode.startswith("/"):
        source = f"{source}:{target}"
        target, _, mode = mode.partition(":")
    return source, target, mode


def mounters(house: House, args: Arguments) -> Iterator[Row]:
    wanted = args.text["path"].rstrip("/") or "/"
    for row in of_services(VOLUMES)(house, args):
        if ", " in _DEMAND.sub("", str(row.cells["value"])):
            continue  # the list as a whole; each of its items is a row
        source, target, _ = mount_of(str(row.cells["value"]))
        if any(p == wanted or p.startswith(f"{wanted.rstrip('/')}/") for p in (source, target)):
            cells = {c: row.cells[c] for c in ("service", "project")}
            yield Row({**cells, "source": source, "target": target}, row.cites)


def services_with(house: House, args: Arguments) -> Iterator[Row]:
    key, value = args.text["key"], args.text.get("value", "").lower()

    parts = key.lower().split(".")

    def has(entry: ConfigEntry) -> bool:
        own = [p.lower() for p in entry.value.path[entry.lead :]]
        # Who has one setting of a block has the block: ``healthcheck.test`` is a ``healthcheck``. The keys of
        # a cluster's manifest begin far above it.
        starts = range(len(own)) if own[0] == "spec" else (0,)
        block = any(own[n : n + len(parts)] == parts for n in starts)
        named = block or _is_key(entry, key) or entry.ends_in(key)
        return named and value in entry.value.value.lower()

    return _of_services(house, args, has, in_own_words=True)


def settings_in_doubt(house: House, args: Arguments) -> str:
    """Of which services it is not known whether they have a setting, since not all that sets it is here."""
    having = {(r.cells["service"], r.cells["project"]) for r in services_with(house, args)}
    asked = (s for s in house.asked(args) if (s.name, s.project) not in having)
    open_ = [s.name for s in asked if not house.entries.whole(s)]
    if not open_:
        return ""
    return (
        f"Whether it is set is not known of {listed(open_)}: a chart or a file that is not here may set it."
    )


def charts_in_doubt(house: House, args: Arguments) -> str:
    """Of which services charts may set more than is read."""
    held = [s.name for s in house.asked(args) if house.entries.is_of_chart(s)]
    return f"Charts that are not here may set more than their values say of {listed(held)}." if held else ""


def operators_in_doubt(house: House, args: Arguments) -> str:
    """By which resources operators may run more than is read; of a service that is named they say nothing."""
    if args.services:
        return ""
    if (args.projects or args.hosts) and not any(map(house.is_of_cluster, house.declared(args))):
        return ""
    kinds = listed(house.entries.operated) if house.entries.operated else ""
    return f"Operators may run more by resources that are not read: {kinds}." if kinds else ""


def services_without(house: House, args: Arguments) -> Iterator[Row]:
    having = {(r.cells["service"], r.cells["project"]) for r in services_with(house, args)}
    for service in house.asked(args):
        if (service.name, service.project) not in having and house.entries.whole(service):
            yield Row(house.service(service), house.declaration(service))


def values_counted(house: House, args: Arguments) -> Iterator[Row]:
    held: dict[str, list[Row]] = defaultdict(list)
    for row in services_with(house, args):
        held[str(row.cells["value"])].append(row)
    for value, rows in sorted(held.items(), key=lambda item: (-len(item[1]), item[0])):
        names = sorted({str(r.cells["service"]) for r in rows})
        cells: dict[str, Cell] = {"value": value, "services": len(rows), "names": ", ".join(names)}
        yield Row(cells, [c for r in rows for c in r.cites])


#: A number at the beginning of a value, and the unit behind it.
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z%]*)")
_SECONDS = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
#: The letters of units of 1,024, as Docker and systemd count bytes.
_BYTES = "bkmgt"


def ranked(house: House, args: Arguments) -> Iterator[Row]:
    found = []
    for row in services_with(house, args):
        if (match := _AMOUNT.match(str(row.cells["value"]))) is not None:
            found.append((float(match[1]), match[2].lower(), row))
    # An "m" is a minute beside hours and seconds, else a million bytes.
    lasting = any(unit in _SECONDS and unit != "m" for _, unit, _ in found)
    amounts = [(n * (_SECONDS.get(unit, 1.0) if lasting else _bytes(unit)), row) for n, unit, row in found]
    for _, row in sorted(amounts, key=lambda pair: (-pair[0], str(pair[1].cells["service"]))):
        yield row


def _bytes(unit: str) -> float:
    return 1024.0 ** max(_BYTES.find(unit[:1]), 0) if unit else 1.0
