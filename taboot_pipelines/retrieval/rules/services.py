"""Rules about how services are declared: images, restarts, health, rights, secrets, volumes and networks."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from taboot_pipelines.retrieval.queries.citations import cite, cites, listed
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry, Value, is_masked
from taboot_pipelines.retrieval.queries.house import Row
from taboot_pipelines.retrieval.queries.relations import is_order, left_open, reachable
from taboot_pipelines.retrieval.queries.service_index import Document, Edge, distinct
from taboot_pipelines.retrieval.queries.services import image_row, is_unpinned
from taboot_pipelines.retrieval.rules.declarations import Declaration, RuleHouse, Violation, spot

Find = Callable[[RuleHouse], Iterator[Violation]]


def setting(
    keys: Sequence[str],
    wrong: str,
    statement: str,
    *,
    kinds: Sequence[str] = ("compose", "quadlet", "workload", "other"),
    but: str = "",
) -> Find:
    """The rule that no setting under ``keys`` matches ``wrong``, with its key as ``key=value``, unless it
    matches ``but``, or an image of the service does. ``statement``: with ``{key}`` and ``{value}``."""
    bad, good = re.compile(wrong, re.IGNORECASE), re.compile(but or r"(?!)", re.IGNORECASE)

    def find(house: RuleHouse) -> Iterator[Violation]:
        for one in house.declarations:
            if one.form in kinds and not any(map(good.search, house.products(one))):
                for entry in one.each(*keys):
                    key, value = ".".join(entry.value.path[entry.lead :]), entry.value.value.strip()
                    said = f"{key}={entry.known or value}"
                    if bad.search(said) and not good.search(said):
                        yield Violation(
                            one.called, statement.format(key=key, value=entry.shown), [entry.cite]
                        )

    return find


# --- Images


def _pulled(house: RuleHouse) -> Iterator[tuple[Declaration, Row]]:
    """The images that services run, of which all is known."""
    for one in house.declarations:
        for edge in one.images if not left_open(one.service, "image") else ():
            row = image_row(house.house, one.service, edge)
            if row.cells["how"] == "pulled" and "$" not in str(row.cells["image"]):
                yield one, row


def image_without_version(house: RuleHouse) -> Iterator[Violation]:
    for one, row in _pulled(house):
        # Podman's updates follow a tag that moves; what a chart leaves out it fills in itself.
        meant = one.says("Container.AutoUpdate") or (one.form == "other" and not row.cells["tag"])
        if is_unpinned(row) and not meant:
            said = f"It runs {row.cells['image']}, whatever that is on the day."
            yield Violation(one.called, said, row.cites)


def base_without_version(house: RuleHouse) -> Iterator[Violation]:
    for edge in house.edges("BUILDS"):
        service = house.index.services.get(edge.start)
        if edge.method == "dockerfile_from" and service is not None:
            row = image_row(house.house, service, edge)
            if is_unpinned(row):
                said = f"It is built from {row.cells['image']}, whatever that is then."
                yield Violation(f"{service.project}/{service.name}", said, row.cites)


#: Releases of Debian and Ubuntu that images are called after, which name a version as a number does.
_RELEASES = re.compile(
    r"buster|bullseye|bookworm|trixie|forky|bionic|focal|jammy|noble|plucky|questing", re.IGNORECASE
)


def image_of_moving_tag(house: RuleHouse) -> Iterator[Violation]:
    for one, row in _pulled(house):
        tag = str(row.cells["tag"])
        # A tag without a number names a channel; `latest`, and none, are told by another rule.
        moves = tag not in ("", "latest") and not re.search(r"\d", tag) and not _RELEASES.search(tag)
        if moves and not row.cells["digest"] and not one.says("Container.AutoUpdate"):
            yield Violation(one.called, f"The tag of {row.cells['image']} moves.", row.cites)


def image_of_two_versions(house: RuleHouse) -> Iterator[Violation]:
    held: dict[str, dict[str, list[tuple[Declaration, Row]]]] = defaultdict(lambda: defaultdict(list))
    for one, row in _pulled(house):
        # What stands behind the number says how it is built.
        version = re.fullmatch(r"v?(\d[\d.]*)(?:[-_.]?[a-z].*)?", str(row.cells["tag"]))
        if version is not None:
            name = str(row.cells["image"]).partition("@")[0].rpartition(":")[0]
            held[name][version[1]].append((one, row))
    for name, versions in sorted(held.items()):
        if len(versions) > 1:
            said = (
                f"{v} ({listed([one.called for one, _ in rows])})" for v, rows in sorted(versions.items())
            )
            spans = [c for rows in versions.values() for _, row in rows for c in row.cites]
            yield Violation(name, f"It runs as {listed(list(said))}.", spans)


# --- Restart and health

_ONCE = re.compile(
    r"init|migrat|setup|seed|bootstrap|provision|backup|job|certs?$|perms?|permissions|test", re.I
)


def compose_without_restart(house: RuleHouse) -> Iterator[Violation]:
    ends = {n.service.number for _, n, e in house.needed
            if e.properties.get("condition") == "service_completed_successfully"}  # fmt: skip
    for one in house.declarations:
        said = one.says("restart", "deploy") or one.service.properties.get("restart")
        once = one.service.number in ends or one.service.properties.get("profiles")
        if one.form == "compose" and not said and not once and not _ONCE.search(one.service.name):
            yield Violation(
                one.called, "It says no restart policy: after a failure it stays down.", one.cites
            )


def unit_without_restart(house: RuleHouse) -> Iterator[Violation]:
    for one in house.declarations:
        if one.form not in ("unit", "quadlet") or one.says("restart") or not one.says("command", "image"):
            continue
        document = one.entries[0].document
        stem, ending = posixpath.splitext(document.path)
        timed = any((document.source, f"{stem.removesuffix('@')}{at}.timer") in house.index.by_path
                    for at in ("", "@"))  # fmt: skip
        kinds = {e.value.value for e in one.all("Service.Type", "Service.RemainAfterExit")}
        if (
            ending in (".service", ".container")
            and not timed
            and kinds.isdisjoint({"oneshot", "yes", "true"})
        ):
            yield Violation(one.called, "It has no Restart=: after a failure it stays down.", one.cites)


def _off(one: Declaration) -> bool:
    """Whether its health check is switched off."""
    return any(
        e.value.value.strip() in ("true", "NONE") for e in one.all("healthcheck.disable", "healthcheck.test")
    )


def _checked(one: Declaration) -> bool:
    """Whether it declares a health check; times alone leave open whether its image brings one."""
    return one.says("healthcheck.test") and not _off(one)


def _unchecked(one: Declaration) -> bool:
    return _off(one) or not one.says("healthcheck")


def _image_may_check(house: RuleHouse, one: Declaration) -> bool:
    """Whether what it is built from has a health check, or is not known."""
    built = [e for e in one.images if e.method == "compose_build"]
    files = {e.doc_id for e in one.images if e.method == "dockerfile_from"}
    return bool(built) and (not files or any("HEALTHCHECK" in house.index.text(f) for f in files))


def _is_official(house: RuleHouse, one: Declaration) -> bool:
    """Whether it runs one of Docker's official images, which have no health check of their own (their rules
    forbid it)."""
    images = [house.index.properties(e.end) for e in one.images if e.method != "dockerfile_from"]
    return bool(images) and all(str(i.get("repository")).startswith("library/") for i in images)


def healthy_without_check(house: RuleHouse) -> Iterator[Violation]:
    for one, needed, edge in house.needed:
        waits = edge.properties.get("condition") == "service_healthy" and needed.form == "compose"
        if waits and _unchecked(needed) and not _image_may_check(house, needed):
            unless = "" if _off(needed) or _is_official(house, needed) else ", unless its image brings one"
            said = f"It waits until {needed.called} is healthy, which declares no health check{unless}."
            yield Violation(one.called, said, [cite(edge), *needed.cites])


def store_without_check(house: RuleHouse) -> Iterator[Violation]:
    found: dict[int, set[str]] = defaultdict(set)
    waited = {e.end for _, _, e in house.needed if e.properties.get("condition") == "service_healthy"}
    for edge in house.edges("DEPENDS_ON", "CONNECTS_TO"):
        one, store = house.by_number.get(edge.start), house.by_number.get(edge.end)
        # Who waits until it is healthy is told by another rule.
        if one is None or store is None or one is store or edge.end in waited or not _unchecked(store):
            continue
        if store.form in ("compose", "quadlet") and house.is_store(store) and _is_official(house, store):
            found[edge.end].add(one.called)
    for number, by in found.items():
        store = house.by_number[number]
        said = f"It is needed by {listed(sorted(by))}, and declares no health check."
        yield Violation(store.called, said, store.cites)


#: What only a stack of Swarm says, which waits for nothing.
_OF_SWARM = ("labels", "placement", "mode", "update_config", "restart_policy", "endpoint_mode")


def waits_for_start_only(house: RuleHouse) -> Iterator[Violation]:
    swarm = {
        (one.service.place, one.service.project)
        for one in house.declarations
        if one.says(*(f"deploy.{key}" for key in _OF_SWARM))
    }
    for one, needed, edge in house.needed:
        started = edge.method == "compose_depends_on" and edge.properties.get("condition") in (
            None,
            "service_started",
        )
        if started and _checked(needed) and (one.service.place, one.service.project) not in swarm:
            said = f"It waits only until {needed.called} has started, which has a health check to wait for."
            yield Violation(one.called, said, [cite(edge), next(needed.all("healthcheck.test")).cite])


def workload_without(key: str, what: str) -> Find:
    """The rule that each Deployment, StatefulSet and DaemonSet says something under a key."""

    def find(house: RuleHouse) -> Iterator[Violation]:
        for one in house.declarations:
            if one.form == "workload" and one.images and not one.says(key):
                yield Violation(one.called, f"None of its containers has {what}.", one.cites)

    return find


# --- Mounts

_SYSTEM = re.compile(r"/(?:etc|boot|usr|root|proc|sys|dev|var/lib/docker|var/run|run)?/?")
_SOCKET = re.compile(r"(?:docker|podman|containerd)\.sock")


def socket_mounted(house: RuleHouse) -> Iterator[Violation]:
    for one in house.declarations:
        if any("socket-proxy" in name for name in house.products(one)):
            continue
        for entry in one.each("volumes"):
            if _SOCKET.search(entry.value.value):
                said = f"It mounts {entry.shown}: who is in it commands every container of the host."
                yield Violation(one.called, said, [entry.cite])


#: The ports on which Docker's interface is served, without TLS and with it (IANA).
_INTERFACE = {2375, 2376}


def socket_published(house: RuleHouse) -> Iterator[Violation]:
    bound = house.by_start("BINDS")
    for one in house.declarations:
        socket = next((e for e in one.each("volumes") if _SOCKET.search(e.value.value)), None)
        for edge in reachable(bound.get(one.service.number, ())) if socket is not None else ():
            port = edge.properties.get("targetPort") or edge.properties["port"]
            if socket is not None and port in _INTERFACE:
                at = f"{edge.properties.get('hostIp') or 'every address'} port {edge.properties['port']}"
                said = f"It answers for the socket that it mounts on {at} of its host."
                yield Violation(one.called, said, [cite(edge), socket.cite])


def system_mounted(house: RuleHouse) -> Iterator[Violation]:
    for one in house.declarations:
        for entry in one.each("volumes"):
            source, _, rest = entry.value.value.partition(":")
            if rest and _SYSTEM.fullmatch(source) and not re.search(r"(?::|,)ro(?:,|$)", rest):
                yield Violation(
                    one.called, f"It may write {source} of its host, by {entry.shown}.", [entry.cite]
                )


def workload_on_host_path(house: RuleHouse) -> Iterator[Violation]:
    for one in house.declarations:
        for entry in one.each("volumes") if one.form == "workload" else ():
            source = entry.value.value.partition(":")[0]
            if source.startswith("/") and not _SOCKET.search(source) and not _SYSTEM.fullmatch(source):
                said = f"It keeps {source} on whatever node it runs, by a hostPath."
                yield Violation(one.called, said, [entry.cite])


# --- Secrets


#: Characters of a key of an interface that somebody gave out.
_LEAST_KEY = 20
#: A variable with its default, if it has one.
_VARIABLE = re.compile(r"\$\{\w+(?::?[-?+][^{}]*)?\}|\$\w+")


def secret_in_plain(house: RuleHouse) -> Iterator[Violation]:
    for one in house.declarations:
        for entry in one.each("environment", "command", "entrypoint", "labels", "build"):
            key, rest = ".".join(entry.value.path[entry.lead :]), _VARIABLE.sub("", entry.value.value)
            # With half of a variable masked nothing is certain; short keys of interfaces mean "none".
            stars = len(re.findall(r"[*•█]", entry.value.value))
            if not entry.value.masked or "$" in rest or (key.endswith("API_KEY") and stars < _LEAST_KEY):
                continue
            where = "in plain text" if is_masked(rest) else "as the default of a variable"
            yield Violation(one.called, f"{key} has a secret {where}.", [entry.cite])


# --- What is declared and does not fit


def _twice(
    house: RuleHouse, said: Callable[[Declaration], Iterator[tuple[object, str, ConfigEntry]]], what: str
) -> Iterator[Violation]:
    """Where two services that run together on one machine, which a source may leave unnamed
    (rule ``unnamed-machine``), have the same of what only one can have."""
    held: dict[object, list[tuple[Declaration, str, ConfigEntry]]] = defaultdict(list)
    for one in house.declarations:
        for key, shown, entry in said(one):
            held[key].append((one, shown, entry))
    for found in held.values():
        for (one, shown, entry), (other, _, second) in combinations(found[:20], 2):
            if one is not other and not one.is_variant_of(other):
                place = one.service.place
                supposed = place in house.house.view.manifest.sources and (
                    one.service.project != other.service.project
                )
                where = f" on the machine of {place} (no `host` names it)" if supposed else ""
                yield Violation(
                    shown,
                    f"{one.called} and {other.called} both have the {what} {shown}{where}.",
                    [entry.cite, second.cite],
                    supposed,
                )


def container_named_twice(house: RuleHouse) -> Iterator[Violation]:
    def said(one: Declaration) -> Iterator[tuple[object, str, ConfigEntry]]:
        for entry in one.all("container_name"):
            name = entry.known or entry.value.value
            if "$" not in name and one.form in ("compose", "quadlet"):
                yield (one.service.place, name), name, entry

    return _twice(house, said, "container name")


def address_given_twice(house: RuleHouse) -> Iterator[Violation]:
    def said(one: Declaration) -> Iterator[tuple[object, str, ConfigEntry]]:
        for entry in one.all("networks", "ipv4_address"):
            given = entry.value.value.strip()
            if entry.value.path[-1] not in ("ipv4_address", "IP"):
                # `Network=` of a quadlet names the network and, after a colon, what the container is there.
                given = given.partition(":ip=")[2].partition(",")[0]
            if re.fullmatch(r"(?:\d{1,3}\.){3}\d{1,3}", given):
                yield (one.service.place, given), given, entry

    return _twice(house, said, "fixed address")


def needs_the_undeclared(house: RuleHouse) -> Iterator[Violation]:
    for edge in house.edges("DEPENDS_ON"):
        needed, one = house.index.services.get(edge.end), house.by_number.get(edge.start)
        if (
            edge.method != "compose_depends_on"
            or needed is None
            or one is None
            or edge.end in house.by_number
        ):
            continue
        same = (needed.place, needed.project) == (one.service.place, one.service.project)
        files = [
            d.doc_id
            for folder in one.folders
            for d in house.by_folder[one.entries[0].document.source, folder]
        ]
        if same and edge.properties.get("required") is not False and not any(
            v.path[:2] == ("services", needed.name) for f in files for v in house.house.entries.file(f).values
        ):  # fmt: skip
            said = f"It depends on {needed.name}, which its project does not declare."
            yield Violation(one.called, said, [cite(edge)])


def dependency_cycle(house: RuleHouse) -> Iterator[Violation]:
    after: dict[int, list[int]] = defaultdict(list)
    edges = {
        (o.service.number, n.service.number): e
        for o, n, e in house.needed
        if e.method == "compose_depends_on"
    }
    for start, end in edges:
        after[start].append(end)
    for begin in sorted(after):
        way, seen = [begin], {begin}
        stack = [iter(after[begin])]
        while stack:
            at = next(stack[-1], None)
            if at is None:
                stack.pop()
                way.pop()
            elif at == begin:
                if begin == min(way):
                    names = [house.by_number[n].called for n in [*way, begin]]
                    spans = cites(edges[pair] for pair in zip(way, [*way[1:], begin], strict=True))
                    yield Violation(names[0], f"They wait for each other: {' → '.join(names)}.", spans)
                break
            elif at not in seen:
                seen.add(at)
                way.append(at)
                stack.append(iter(after[at]))


def variable_unset(house: RuleHouse) -> Iterator[Violation]:
    using: dict[tuple[str, str], list[Declaration]] = defaultdict(list)
    for one in house.declarations:
        for name in distinct(m.partition(": ")[2] for m in one.service.properties.get("unresolved") or ()):
            using[one.service.place, name.strip("${}")].append(one)
    for (_, name), users in sorted(using.items()):
        held = ([e for e in one.entries if name in e.value.value] for one in users)
        # The list that an item stands in is longer than the item; of what is masked nothing can be shown.
        where = [min(entries, key=lambda e: len(e.value.value)).cite for entries in held if entries]
        said = f"No file that was read sets it for {listed([one.called for one in users])}."
        if where:
            yield Violation(name, said, where)


def _top(values: Sequence[Value], section: str) -> dict[str, Value]:
    """What a Compose file declares under a section at its top, each by its first value."""
    found: dict[str, Value] = {}
    for value in values:
        if len(value.path) > 1 and value.path[0] == section:
            found.setdefault(value.path[1], value)
    return found


def unused(section: str) -> Find:
    """The rule that something uses each volume, or network, that a Compose file declares."""

    def find(house: RuleHouse) -> Iterator[Violation]:
        by_folder: dict[tuple[str, str], list[Document]] = defaultdict(list)
        for document in house.holding(re.compile(rf"(?m)^{section}:")):
            if any(v.path[2:] == ("image",) and v.path[0] == "services" for v in house.values(document)):
                by_folder[document.source, posixpath.dirname(document.path)].append(document)
        joined = {house.index.name(e.end) for e in house.edges("RUNS_IN")} if section == "networks" else set()
        for (source, folder), documents in sorted(by_folder.items()):
            beside = house.by_folder[source, folder]
            # Any word of the services may be a use: of what an anchor, an extension or a long form brings.
            used = {
                word
                for d in beside
                for v in house.values(d)
                if v.path[0] != section
                for word in (*v.path, *re.split(r"[\s,:/]+", v.value))
            }
            for document in documents:
                for name, value in _top(house.values(document), section).items():
                    of_project = any(j == name or j.endswith(f"_{name}") for j in joined)
                    if name not in used and name != "default" and not of_project:
                        said = f"No service of {document.path} uses the {section[:-1]} {name}."
                        yield Violation(f"{document.path}:{name}", said, [spot(document, value)])

    return find


_BACKUP = ("backup", "restic", "borg", "duplicati", "kopia", "rclone", "rsnapshot", "duplicity", "velero",
           "pg_dump", "pgdump", "mysqldump")  # fmt: skip
_EVERY_VOLUME = re.compile(r"/var/lib/docker|docker volume ls|volumes/\*|/var/lib/containers")


def volume_without_backup(house: RuleHouse) -> Iterator[Violation]:
    """Only where something of the house makes backups: else how it does is not known."""
    kept = [
        (one, entry, entry.value.value.partition(":")[0])
        for one in house.declarations
        if one.form == "compose" and any(map(_keeps_data, house.products(one)))
        for entry in one.each("volumes")
    ]
    kept = [(one, entry, name) for one, entry, name in kept if re.fullmatch(r"\w[\w.-]{3,}", name)]
    makers = {e.document.doc_id for one in house.declarations if any(map(_names_backup, house.products(one)))
              for e in one.entries}  # fmt: skip
    texts = list(house.texts_of_all) if kept else []
    makers |= {d.doc_id for d, text in texts if (d.mime == _SHELL or d.is_unit) and _names_backup(text)}
    backups = {d.doc_id: text for d, text in texts if d.doc_id in makers or _names_backup(text)}
    if not makers or any(map(_EVERY_VOLUME.search, backups.values())):
        return
    for one, entry, name in kept:
        own = {e.document.doc_id for e in one.entries}
        names = {name, one.service.name, str(one.service.properties.get("containerName") or name)}
        told = re.compile("|".join(rf"(?<![\w-]){re.escape(n)}(?![\w-])" for n in sorted(names)))
        # A file that declares both may back it up by what it mounts elsewhere.
        if own.isdisjoint(backups) and not any(map(told.search, backups.values())):
            yield Violation(one.called, f"No backup of the house names its volume {name}.", [entry.cite])


def _names_backup(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _BACKUP)


_SHELL = "text/x-shellscript"


def _keeps_data(image: str) -> bool:
    from taboot_pipelines.model.stores import DATABASES

    return not DATABASES.isdisjoint(re.split(r"[/:@-]", image.lower()))


#: So many services that fail together are worth to be told of.
_MANY = 5


def single_point_of_failure(house: RuleHouse) -> Iterator[Violation]:
    by: dict[int, dict[int, Edge]] = defaultdict(dict)
    for edge in house.edges("DEPENDS_ON", "CONNECTS_TO"):
        known = edge.start in house.by_number and edge.end in house.by_number
        if known and edge.start != edge.end and not is_order(edge):
            by[edge.end].setdefault(edge.start, edge)
    for number, edges in by.items():
        one = house.by_number[number]
        copies = [e.value.value for e in one.all("deploy.replicas")]
        alone = copies == ["1"] or (not copies and one.form != "other")
        if len(edges) >= _MANY and alone:
            names = sorted(house.by_number[n].called for n in edges)
            said = f"{len(names)} services need or use it, and it runs once: {listed(names)}."
            yield Violation(one.called, said, cites(edges.values()))
